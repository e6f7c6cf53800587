"""Rows that the model never saw, as the control of observational audits: does the default path hold, and does it see?

    python -m dpaudit_experiments.data adult census
    python -m dpaudit_experiments.placebo --output docs/results/placebo

Every game is written to CSV files and read back as a user's would be, with the keys of an audit file, and the proxy is
learnt from half of the rows that the model never saw. What has to come out was fixed before any of it was run:

| group | games | what must hold |
|---|---|---|
| `null`: nothing leaks | 200 a cell (100 splits of a real table) | a bound above 0 in at most the 1 - 1e-4 quantile of Binomial(games, 0.05); the older rule, coins and a proxy that is believed, above that |
| `redrawn`: rows trained on, labels drawn anew | 100 a cell | nothing of the rate at which the label bound is above 0; the control of re-drawn values finds nine in ten models that recognise rows by their features ("flags") |
| `power`: labels leak | 100 a cell, Adult 10 | medians of at least 0.65 and 1.55 at epsilon 1 and 2; on Adult above 0 for the training rows, and for rows never seen as in `null` |

A bound that a control withholds counts as 0. Splits of one real table are not independent: they share their rows.
"""  # noqa: E501 (a table)
