"""Several plays of one question, merged into one statement: that of the median play, at half of the error probability.

A game that tosses coins for rows and a model that stay the same can be played again at no cost, and the luck of one
toss need not decide the number. The plays depend on each other in a way that nobody knows, so none may be picked for
its p-value; but the median may be taken, if it is paid for twice.

*Validity* (theory:observational#repeated). Let n plays, n fixed before the data, each test a true hypothesis with a
p-value p_k: P(p_k <= a) <= a. Let K count the plays with p_k <= alpha / 2. Then E[K] <= n alpha / 2, and by Markov's
inequality P(K >= n / 2) <= alpha, however the plays depend on each other. So p = min(1, 2 x median p_k) is a p-value
(of an even n the upper of the two middle ones is taken): half of the p_k <= alpha / 2 has probability <= alpha.

A bound b_k at confidence 1 - alpha / 2 is above the truth with probability at most alpha / 2. The lower median of all n
(of 21 the 11th largest) is above the truth only if more than half of them are, which by the same inequality has
probability at most alpha: it is a bound at confidence 1 - alpha. Where p_k never falls with the hypothesis, b_k is the
largest one that p_k <= alpha / 2 rejects, and the lower median of the b_k the largest one that the merged p rejects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpaudit.assumptions import Check, CheckResult, filled
from dpaudit.bounds import Bound, Verdict

MERGED = "{each}; the median of {plays} plays, each at half of the error probability"
ONE_TEST = "one test"
PLAYS = Check(
    id="plays",
    measured=(
        "The coins were tossed {plays} times, a number that was fixed in advance. Each bound is one that more than "
        "half of these plays reach, each of them at half of the error probability: no lucky toss decides it."
    ),
    theory="theory:observational#repeated",
)


def middle(values: Sequence[float | None]) -> int:
    """Where the lower median stands: more than half of all are at least as large. What says nothing is the least.

    >>> middle([0.3, 0.1, 0.2]), middle([0.4, 0.1, 0.3, 0.2])
    (2, 3)
    """
    known = [float("-inf") if value is None else value for value in values]
    return sorted(range(len(known)), key=known.__getitem__, reverse=True)[len(known) // 2]


def merged_p_value(p_values: Sequence[float]) -> float:
    """The median of p-values, the upper of two; it is doubled where it is paid for.

    >>> merged_p_value([0.3, 0.1, 0.2]), merged_p_value([0.4, 0.1, 0.3, 0.2])
    (0.2, 0.3)
    """
    return sorted(p_values)[len(p_values) // 2]


def merged_bounds(plays: Sequence[Sequence[Bound]]) -> tuple[Bound, ...]:
    """Of each parameter the bound of its median play, with the merged test of all plays; to be paid for twice."""
    return tuple(_merged_bound(found) for found in zip(*plays, strict=True))


def _merged_bound(plays: Sequence[Any]) -> Bound:
    chosen = plays[middle([bound.value for bound in plays])]
    tests = [bound.test for bound in plays]
    spent = filled(MERGED, {"each": chosen.selection or ONE_TEST, "plays": len(plays)})
    test = None if None in tests else lambda theta: merged_p_value([test(theta) for test in tests])
    found: Bound = replace(chosen, selection=spent, test=test)
    return found


def merged_verdict(plays: Sequence[Verdict]) -> Verdict:
    """That of the median p-value, which decides as twice the p-value does at twice the level; to be paid for twice."""
    judged = sorted((one for one in plays if one.p_value is not None), key=lambda one: one.p_value or 0.0)
    return judged[len(judged) // 2] if len(judged) == len(plays) else plays[0]


def merged_results(plays: Sequence[Sequence[CheckResult]]) -> tuple[CheckResult, ...]:
    """What was measured beside, once: every number the lower median of the plays, and every point of a figure.

    A curve of bounds stays one: at the truth it is above it only if more than half of the curves are.
    """
    merged = [
        replace(one[0], numbers=_middle([each.numbers for each in one]), figure=_middle([each.figure for each in one]))
        for one in zip(*plays, strict=True)
    ]
    count = CheckResult(check=PLAYS, outcome="measured", numbers={"plays": len(plays)})
    return (count, *merged)


def _middle(values: Sequence[Any]) -> Any:
    """The lower median, inside of tables and lists; what is no number is that of the first play."""
    first = values[0]
    if isinstance(first, dict):
        return {name: _middle([one[name] for one in values]) for name in first}
    if isinstance(first, list | tuple):
        return [_middle(each) for each in zip(*values, strict=True)]
    if isinstance(first, bool) or not isinstance(first, int | float):
        return first
    return values[middle(values)]
