"""Writes paper-000.md to paper-002.md from the results: no number on a page that is not in a JSON file there.

Run `python docs/make_papers.py` after `make papers`; a test fails while a page on disk differs from what this prints.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpaudit.bounds import round_down, round_up
from dpaudit.papers import file_stem, load_outcome, observational, prediction, substitute

HERE = Path(__file__).parent
OURS = ("bugs", "noisy-proxy")
"""Experiments that are no figures of a paper."""


@dataclass(frozen=True)
class Page:
    """One paper: its results, what to say first, and how its tables look."""

    number: str
    figures: dict
    introduction: str
    table: Callable

    @property
    def path(self) -> Path:
        return HERE / f"paper-{self.number}.md"

    @property
    def results(self) -> Path:
        return HERE / "results" / f"paper-{self.number}"

    def render(self) -> str:
        outcomes = [load_outcome(self.results / f"{file_stem(name)}.json") for name in self.figures]
        lines = [self.introduction.rstrip("\n")]
        lines += [f"| [{o.figure}](#{anchor(o)}) | {o.claim} | **{o.found}** |" for o in outcomes]
        for outcome in outcomes:
            lines += ["", f"## {heading(outcome)}", "", f"**{outcome.found.capitalize()}**: {outcome.because}.", ""]
            lines += [outcome.claim if outcome.claim.startswith("Ours") else f"The paper: {outcome.claim}", ""]
            sizes = (f"| {' | '.join(row)} |" for row in outcome.scale)
            lines += ["| size | paper | here |", "|---|---|---|", *sizes, ""]
            took = f"{outcome.seconds:,.0f} s" if outcome.seconds >= 1.0 else "from the games of a figure above"
            lines += [f"`{outcome.command}`, {took}.", ""]
            if (self.results / f"{file_stem(outcome.figure)}.svg").exists():
                lines += [f"![{outcome.title}](results/paper-{self.number}/{file_stem(outcome.figure)}.svg)", ""]
            lines += self.table(outcome)
        return "\n".join(lines).rstrip() + "\n"


def heading(outcome) -> str:
    if outcome.figure.startswith("table-"):
        return f"Table {outcome.figure.removeprefix('table-')}: {outcome.title}"
    named = outcome.figure in OURS or not outcome.figure[-1].isdigit()
    return outcome.title if named else f"Figure {outcome.figure}: {outcome.title}"


def anchor(outcome) -> str:
    kept = "".join(c for c in heading(outcome).lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def lines_of(rows, keys, words, shown) -> list[str]:
    head = [words.get(key, key.replace("_", " ")) for key in keys]
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(shown(key, row.get(key)) for key in keys)} |" for row in rows),
    ]


# ------------------------------------------------------------------------------------------------------------ paper 000

OBSERVATIONAL = """# Paper 000: observational auditing of labels

Made by `python docs/make_papers.py` from the committed results, which `make data` and `make papers` make anew. Every
bound is at 95% confidence and delta 0, by the likelihood ratio or by the paper's score (t = 2), with the number of
guesses fixed in advance; it rests on the proxy, and the text says on which. "As published" is what the paper reports:
mu of the Gaussian family, read as epsilon at delta 1e-05, averaged over games. That is an estimate, not a bound, and
the family is an assumption that randomised response breaks. A sweep is the largest of 100 such numbers. Medians and
counts sum up bounds of independent games, each a 95% statement of its own; the word of a figure has no confidence of
its own. Lower bounds are rounded down.

In the tables, and in figures 1 and 5, models learn from private labels. There a bound takes its number of guesses from
a guess path, and stands only where the blind gate is open; "blocked" counts the games where it was not. Votes of PATE
are promised, and audited, at delta 1e-05. Membership is substitution of a record, another relation than replacement of
a label: a label's epsilon does not limit it, and the two bounds are not compared. "Paper" is its own number on other
data. All games of a mechanism share a pool of rows and a proxy, those of PATE-FM also members and teachers, so they are
not independent; each bound is a 95% statement of its own, and a largest bound is not. Without privacy LP-1ST in all its
forms, LP-2ST and ALIBI are one and the same training, with other seeds.

The proxies of these tables were chosen among a few (eight for pictures, three for people, about a dozen for texts)
*after* seeing for which the gate opened on rows of the same pool. That choice is not paid for: an open gate says less
here than in an audit whose proxy was fixed before, and every bound rests on tau = 0. The floor of noise correction was
also set after its log-loss was seen.

| figure | what the paper says | found |
|---|---|---|
"""
OBSERVATIONAL_WORDS = {
    "median_ratio_score": "median bound, likelihood ratio",
    "over_ratio_score": "above epsilon",
    "median_paper_score": "median bound, paper's score",
    "over_paper_score": "above epsilon, paper's score",
    "mean_as_published_estimate": "as published (estimate)",
    "above_truth_as_published": "as published, above epsilon",
    "mean_gaussian_ratio_score_estimate": "likelihood ratio read as Gaussian (estimate)",
    "mean_sweep_estimate": "paper's sweep (estimate)",
    "guesses": "share guessed",
    "median_bound": "median bound",
    "largest_bound": "largest of the bounds",
    "over_claims": "above epsilon",
    "median_bound_at_1_percent": "median bound, 1% guessed",
    "over_claims_at_1_percent": "above epsilon, 1% guessed",
    "mean_at_1_percent_estimate": "as published, 1% guessed (estimate)",
    "median_membership_difficulty": "membership, difficulty: median bound",
    "median_membership_rmia": "membership, RMIA: median bound",
    "mean_difficulty_sweep_estimate": "difficulty, paper's sweep (estimate)",
    "mean_rmia_sweep_estimate": "RMIA, paper's sweep (estimate)",
    "paper": "paper, other data",
}


def observational_table(outcome) -> list[str]:
    keys = [key for key in outcome.rows[0] if not key.startswith("deviation_")]
    return lines_of(outcome.rows, keys, OBSERVATIONAL_WORDS, observational_shown)


def observational_shown(key, value) -> str:
    if value is None:
        return {"epsilon": "infinite", "paper": ""}.get(key, "none")
    if not isinstance(value, float):
        return f"{value}"
    return round_down(value) if key.startswith(("median", "least", "largest")) else f"{value:.3g}"


# ------------------------------------------------------------------------------------------------------------ paper 001

SUBSTITUTE = """# Paper 001: DP-SGD under substitute adjacency

Made by `python docs/make_papers.py` from the committed results, which `make data` and `make papers` make anew (about
an hour on two cores). Every bound is at 95% confidence and delta 1e-05, and the noise is chosen so that the
substitute epsilon is 10 unless a table says otherwise. "Own curves" is the bound on epsilon if the trade-off curve is
one of DP-SGD's with this sampling rate and number of steps; "Gaussian" if it is Gaussian; "free" needs no assumption
on the curve. "As published" is the paper's own uncorrected number: an estimate, not a bound. The last step is fixed
in advance; curves along the training hold at all their steps together (a union), and are therefore lower than the
bounds of the last step alone. Verdicts test the claim's own curve. Lower bounds are rounded down, promises up. Each
bound and verdict is a 95% statement of its own; the word of a figure rests on several of them and has no confidence
of its own, and a median of bounds sums them up without being one.

| figure | what the paper says | found |
|---|---|---|
"""
COLUMNS = {
    "canary": "canary",
    "sampling_rate": "sampling rate",
    "clip": "clip",
    "steps": "steps",
    "learning_rate": "learning rate",
    "models": "models",
    "epsilon_family": "own curves",
    "epsilon_gaussian": "Gaussian",
    "epsilon_free": "free",
    "epsilon_free_ceiling": "free, at most",
    "epsilon_as_published_estimate": "as published (estimate)",
    "promised_add_remove": "add/remove promises",
    "promised_substitute": "substitute promises",
    "add_remove_sold_as_substitute": "add/remove sold as substitute",
    "substitute": "substitute claim",
}
OWN = {
    "1": ("epsilon_wanted", "sampling_rate", "noise_multiplier", "audits", "median_family", "median_free",
          "promised_add_remove", "promised_substitute", "promised_by_group", "passed_substitute", "sold_contradicted"),
    "A1": ("canary", "world", "step", "accuracy", "deviation"),
    "A5": ("sampling_rate", "noise_multiplier", "add_remove", "substitute", "substitute_by_group", "ratio"),
    "bugs": ("row", "bug", "what", "models", "audits", "broken_contradicted", "honest_contradicted",
             "seconds_an_audit"),
}  # fmt: skip


def substitute_table(outcome) -> list[str]:
    rows = list(outcome.rows)
    if outcome.figure == "1":
        rows = worst_case(rows)
    elif outcome.figure == "A1":
        last = max(row["step"] for row in rows)
        rows = [row for row in rows if row["step"] == last]
    elif any("kind" in row for row in rows):
        rows = [row for row in rows if row["kind"] == "end"]
    keys = OWN.get(outcome.figure) or [key for key in COLUMNS if any(key in row for row in rows)]
    return lines_of(rows, keys, COLUMNS, substitute_shown)


def worst_case(rows) -> list[dict]:
    """One line a setting: medians over its audits, and how often a verdict fell."""
    cells = {}
    for row in rows:
        cells.setdefault((row["epsilon_wanted"], row["sampling_rate"]), []).append(row)
    return [
        {
            **cell[0],
            "audits": len(cell),
            "median_family": median(row["epsilon_family"] for row in cell),
            "median_free": median(row["epsilon_free"] for row in cell),
            "passed_substitute": sum(row["epsilon_family"] > row["promised_substitute"] for row in cell),
            "sold_contradicted": sum(row["add_remove_sold_as_substitute"] == "contradicted" for row in cell),
        }
        for cell in cells.values()
    ]


def median(values) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def substitute_shown(key, value) -> str:
    if not isinstance(value, float):
        return "" if value is None else f"{value}"
    if key.startswith(("epsilon_family", "epsilon_gaussian", "epsilon_free", "median")):
        return round_down(value)
    if key.startswith(("promised", "add_remove", "substitute")):
        return round_up(value)
    return f"{value:.4g}"


# ------------------------------------------------------------------------------------------------------------ paper 002

PREDICTION = """# Paper 002: auditing private prediction

Made by `python docs/make_papers.py` from the committed results. PromptPATE is still missing. Divergences are Renyi
divergences of one answer, D(before || after one vote moved), in figures 2 and 6 at sigma 2. A median sums up the audits
of a line; an exact 2-cut or k-cut is a 95% bound that holds at all orders together, whatever is called an estimate is
none. "Over" counts audits whose number is above the exact 2-cut or divergence that it is about. Numbers are rounded
down, upper bounds up. An epsilon of many answers composes exact laws, with every answer's privacy loss rounded up by at
most 1e-4; it is what one attack instance leaks, and neither a bound from samples nor a promise.

| figure | what the paper says | found |
|---|---|---|
"""


def prediction_table(outcome) -> list[str]:
    return lines_of(outcome.rows, list(outcome.rows[0]), {}, prediction_shown)


def prediction_shown(key, value) -> str:
    if not isinstance(value, float) or key == "order":
        return f"{value:g}" if isinstance(value, float) else f"{value}"
    if key.endswith("_upper"):
        return round_up(value, 5)
    return round_down(value, 5) if value >= 0.0 else f"{math.floor(value * 1e5) / 1e5:g}"


PAGES = (
    Page("000", observational.FIGURES, OBSERVATIONAL, observational_table),
    Page("001", substitute.FIGURES, SUBSTITUTE, substitute_table),
    Page("002", prediction.FIGURES, PREDICTION, prediction_table),
)

if __name__ == "__main__":
    for page in PAGES:
        page.path.write_text(page.render(), encoding="utf-8")
        print(f"wrote {page.path.name}")
