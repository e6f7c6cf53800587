"""Paper 000's tables 1, 2 and 4 to 7 and its figures 1 and 5, from the games of `private_labels`.

The games of pictures serve tables 1, 4 and 6 and figure 5, those of rows tables 2 and 5, both figure 1; they are played
once in a process.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds import round_down
from dpaudit.execution import Execution
from dpaudit.papers._figure import Figure, Judged, Rows, allowed_over, said
from dpaudit.papers._figure import Sizes as Table
from dpaudit.papers.private_labels import INFINITE, MEASURED, Cells, Sizes, pate_fm, played

PICTURES, ROWS, TEXTS = "Fashion-MNIST", "Census-Income", "IMDB reviews"
PICTURE_EPSILONS = (INFINITE, 10.0, 1.0)
ROW_EPSILONS = (INFINITE, 8.0, 4.0, 2.0, 1.0, 0.1)
FEW_CLEAR = 0.5
"""A median bound from which on a model is said to leak clearly."""

Paper = dict[str, tuple[float | None, ...]]
PAPER: dict[str, Paper] = {
    "table-1": {
        "LP-1ST": (2.13, 2.02, 0.43),
        "LP-1ST (out-of-domain prior)": (2.26, 1.86, 0.90),
        "PATE-FM": (2.42, 2.22, 0.79),
        "ALIBI": (2.53, 2.18, 0.67),
    },
    "table-6": {
        "LP-1ST": (1.98, 1.99, 0.41),
        "LP-1ST (out-of-domain prior)": (2.08, 1.78, 0.81),
        "PATE-FM": (2.26, 2.16, 0.74),
        "ALIBI": (2.43, 2.1, 0.65),
    },
    "table-4": {
        "LP-1ST": (0.913, 0.9107, 0.604),
        "LP-1ST (out-of-domain prior)": (0.921, 0.915, 0.879),
        "PATE-FM": (0.925, 0.923, 0.913),
        "ALIBI": (0.901, 0.871, 0.669),
    },
    "table-2": {
        "LP-1ST": (1.37, 1.29, 1.22, 0.59, 0.34, 0.06),
        "LP-1ST (domain prior)": (1.47, 1.37, 1.28, None, None, None),
        "LP-1ST (noise correction)": (1.31, 1.26, 1.04, 0.52, 0.40, 0.06),
        "LP-2ST": (1.52, 1.46, 1.24, 0.75, 0.61, 0.06),
        "PATE": (1.60, 1.48, 1.28, 0.71, 0.59, 0.06),
    },
    "table-5": {
        "LP-1ST": (0.130, 0.130, 0.136, 0.206, 0.362, 0.653),
        "LP-1ST (domain prior)": (0.130, 0.130, 0.136, None, None, None),
        "LP-1ST (noise correction)": (0.130, 0.130, 0.131, 0.156, 0.171, 0.645),
        "LP-2ST": (0.130, 0.130, 0.123, 0.207, 0.342, 0.527),
        "PATE": (0.130, 0.151, 0.156, 0.188, 0.255, 0.680),
    },
    "table-7": {"label inference": (2.34,), "difficulty calibration": (0.72,), "RMIA": (2.52,)},
}
"""The paper's own numbers, by mechanism and epsilon, on CIFAR-10, Criteo and tweets: other data than ours."""


# ---------------------------------------------------------------------------------------------------------------- games


@lru_cache(maxsize=1)
def pictures(sizes: Sizes, seed: int, execution: Execution) -> Cells:
    found = played("pictures", PICTURE_EPSILONS, sizes.picture_members, sizes, seed, execution)
    return found | pate_fm(sizes, seed, execution)[1]


@lru_cache(maxsize=1)
def people(sizes: Sizes, seed: int, execution: Execution) -> Cells:
    return played("rows", ROW_EPSILONS, sizes.row_members, sizes, seed, execution)


def summed_up(name: str, epsilon: float, lines: NDArray[np.float64]) -> dict[str, Any]:
    """One mechanism at one epsilon: medians of bounds where the gate was open, means of estimates over all games."""
    column = dict(zip(MEASURED, lines.T, strict=True))
    shown = column["blocked"] == 0.0

    def median(key: str) -> float:
        return float(np.median(column[key][shown])) if shown.any() else 0.0

    return {
        "mechanism": name,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "games": len(lines),
        "blocked": int((~shown).sum()),
        "median_bound": median("bound"),
        "largest_bound": float(column["bound"].max()),
        "over_claims": int((column["bound"] > epsilon).sum()),
        "mean_sweep_estimate": float(column["sweep_estimate"].mean()),
        "deviation_of_sweeps": float(column["sweep_estimate"].std()),
        "median_bound_at_1_percent": median("bound_at_1_percent"),
        "over_claims_at_1_percent": int((column["bound_at_1_percent"] > epsilon).sum()),
        "mean_at_1_percent_estimate": float(column["at_1_percent_estimate"].mean()),
        "median_membership_difficulty": float(np.median(column["membership_difficulty"])),
        "median_membership_rmia": float(np.median(column["membership_rmia"])),
        "mean_difficulty_sweep_estimate": float(column["difficulty_sweep_estimate"].mean()),
        "mean_rmia_sweep_estimate": float(column["rmia_sweep_estimate"].mean()),
        "test_accuracy": float(column["accuracy"].mean()),
        "log_loss": float(column["log_loss"].mean()),
        "training_accuracy": float(column["training_accuracy"].mean()),
    }


def chosen(cells: Cells, keys: tuple[str, ...], paper: str = "", epsilons: tuple[float, ...] = ()) -> Rows:
    """One line for each mechanism and epsilon with these columns, and the paper's number beside them."""
    rows: Rows = []
    for (name, epsilon), lines in sorted(cells.items(), key=lambda item: item[0][0]):
        every = summed_up(name, epsilon, lines)
        row = {key: every[key] for key in ("mechanism", "epsilon", "games", *keys)}
        if paper:
            known = PAPER[paper].get(name)
            row["paper"] = None if known is None else known[epsilons.index(epsilon)]
        rows.append(row)
    return rows


AUDITED = (
    "blocked",
    "median_bound",
    "largest_bound",
    "over_claims",
    "mean_sweep_estimate",
    "deviation_of_sweeps",
)
FIXED = (
    "blocked",
    "median_bound_at_1_percent",
    "over_claims_at_1_percent",
    "mean_at_1_percent_estimate",
    "mean_sweep_estimate",
)
COMPARED = (
    "blocked",
    "median_bound",
    "mean_sweep_estimate",
    "median_membership_difficulty",
    "mean_difficulty_sweep_estimate",
)
WITH_RMIA = (*COMPARED, "median_membership_rmia", "mean_rmia_sweep_estimate")


def picture_rows(name: str, keys: tuple[str, ...], scale: Any, seed: int, execution: Execution) -> Rows:
    return chosen(pictures(scale.labels, seed, execution), keys, name, PICTURE_EPSILONS)


def people_rows(name: str, keys: tuple[str, ...], scale: Any, seed: int, execution: Execution) -> Rows:
    return chosen(people(scale.labels, seed, execution), keys, name, ROW_EPSILONS)


def compared_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """Label inference beside membership inference, on both sets."""
    both = ((PICTURES, pictures), (ROWS, people))
    return [
        {"data": name} | row
        for name, played_on in both
        for row in chosen(played_on(scale.labels, seed, execution), COMPARED)
    ]


def rmia_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    return chosen(pictures(scale.labels, seed, execution), WITH_RMIA)


def text_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """One line an attack, on the same models."""
    sizes: Sizes = scale.labels
    cells = played("texts", (INFINITE,), sizes.text_members, sizes, seed, execution)
    (every,) = (summed_up(name, epsilon, lines) for (name, epsilon), lines in cells.items())
    attacks = {
        "label inference": ("label", "median_bound", "mean_sweep_estimate"),
        "difficulty calibration": ("substitute", "median_membership_difficulty", "mean_difficulty_sweep_estimate"),
        "RMIA": ("substitute", "median_membership_rmia", "mean_rmia_sweep_estimate"),
    }
    return [
        {
            "attack": name,
            "relation": relation,
            "games": every["games"],
            "blocked": every["blocked"] if relation == "label" else 0,
            "median_bound": every[bound],
            "mean_sweep_estimate": every[estimate],
            "test_accuracy": every["test_accuracy"],
            "training_accuracy": every["training_accuracy"],
            "paper": PAPER["table-7"][name][0],
        }
        for name, (relation, bound, estimate) in attacks.items()
    ]


def teacher_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    return pate_fm(scale.labels, seed, execution)[0]


# --------------------------------------------------------------------------------------------------------------- judged


def _at(rows: Rows, epsilon: float | None) -> dict[str, dict[str, Any]]:
    return {row["mechanism"]: row for row in rows if row["epsilon"] == epsilon}


def _over(rows: Rows, key: str) -> tuple[bool, str]:
    """Whether bounds at epsilon 1 and below pass their epsilon no more often than the binomial law allows."""
    private = [row for row in rows if row["epsilon"] is not None and row["epsilon"] <= 1.0]
    worst = max(private, key=lambda row: row[key])
    limit = allowed_over(worst["games"])
    words = (
        f"at epsilon 1 and below, at most {worst[key]} of {worst['games']} games of a mechanism have a bound above "
        f"epsilon (the binomial law allows {limit})"
    )
    return worst[key] <= limit, words


def audited_judged(rows: Rows) -> Judged:
    """Leakage without privacy, less of it with a smaller epsilon, and no bound that passes its epsilon too often."""
    plain, least = _at(rows, None), min(row["epsilon"] for row in rows if row["epsilon"] is not None)
    private = _at(rows, least)
    leaking = [name for name, row in plain.items() if row["median_bound"] >= FEW_CLEAR]
    falling = [n for n in plain if private[n]["mean_sweep_estimate"] < plain[n]["mean_sweep_estimate"]]
    fine, words = _over(rows, "over_claims")
    silent = sorted(set(plain) - set(leaking))
    why = (
        f"without privacy {len(leaking)} of {len(plain)} mechanisms leak clearly (median bound at least {FEW_CLEAR:g}: "
        f"{round_down(min(plain[n]['median_bound'] for n in leaking)) if leaking else 'none'} or more); the paper's "
        f"number falls from infinite epsilon to {least:g} for {len(falling)} of {len(plain)}; {words}"
    )
    if silent:
        why += f". Not leaking here: {', '.join(silent)}"
    return said(fine and len(leaking) == len(plain) and len(falling) == len(plain)), why


def fixed_judged(rows: Rows) -> Judged:
    """A fixed share of guesses shows a little less than the best of 100."""
    positive = [row for row in rows if row["mean_sweep_estimate"] > 0.1]
    shares = [row["mean_at_1_percent_estimate"] / row["mean_sweep_estimate"] for row in positive]
    fine, words = _over(rows, "over_claims_at_1_percent")
    why = (
        f"where the sweep reports more than 0.1 ({len(positive)} of {len(rows)} cells), 1% of guesses reports "
        f"{min(shares):.2f} to {max(shares):.2f} of it, {np.median(shares):.2f} in the median; {words}"
        if shares
        else f"the sweep reports nothing above 0.1 anywhere; {words}"
    )
    return said(bool(shares) and float(np.median(shares)) >= 0.75 and fine), why


def accuracy_judged(rows: Rows) -> Judged:
    """Whether accuracy rises with epsilon, and the mechanisms rank as in the paper where privacy is strongest."""
    return _utility(rows, "test_accuracy", higher=True)


def loss_judged(rows: Rows) -> Judged:
    return _utility(rows, "log_loss", higher=False)


def _utility(rows: Rows, key: str, *, higher: bool) -> Judged:
    sign = 1.0 if higher else -1.0
    least, most = min(e for e in _epsilons(rows)), max(e for e in _epsilons(rows))
    names = list(_at(rows, None))
    worse = [n for n in names if sign * (_at(rows, None)[n][key] - _at(rows, least)[n][key]) < 0.0]
    orders = []
    for epsilon in (1.0, most):
        own = [row for row in rows if row["epsilon"] == epsilon and row["paper"] is not None]
        theirs = sorted(own, key=lambda row: -sign * row["paper"])
        ours = sorted(own, key=lambda row: -sign * row[key])
        orders.append([[row["mechanism"] for row in ranked] for ranked in (theirs, ours)])
    words = key.replace("_", " ")
    (paper, here), (_, _) = orders
    why = (
        f"{words} gets {'lower' if higher else 'higher'} from infinite epsilon to {least:g} for all mechanisms"
        if not worse
        else f"{words} does not get worse from infinite epsilon to {least:g} for {', '.join(worse)}"
    )
    why += (
        f"; at epsilon 1 the paper ranks {', '.join(paper)}, and here it is "
        f"{'the same' if here == paper else ', '.join(here)}"
    )
    return said(not worse and here == paper), why


def _epsilons(rows: Rows) -> list[float]:
    return [row["epsilon"] for row in rows if row["epsilon"] is not None]


def compared_judged(rows: Rows) -> Judged:
    """Label inference and membership by difficulty calibration show about as much, without privacy."""
    plain = [row for row in rows if row["epsilon"] is None and row["mean_difficulty_sweep_estimate"] > 0.1]
    shares = {
        name: [
            row["mean_sweep_estimate"] / row["mean_difficulty_sweep_estimate"] for row in plain if row["data"] == name
        ]
        for name in dict.fromkeys(row["data"] for row in plain)
    }
    listed = "; ".join(f"{name}: {min(s):.2f} to {max(s):.2f}" for name, s in shares.items())
    bounds = "; ".join(
        f"{row['data']}, {row['mechanism']}: {round_down(row['median_bound'])} and "
        f"{round_down(row['median_membership_difficulty'])}"
        for row in plain
    )
    why = (
        f"without privacy the paper's number for labels is this share of the one for membership: {listed} (the word "
        f"asks for 0.5 to 2 everywhere). Median bounds, on labels and on membership, which are two relations: {bounds}"
    )
    every = [share for found in shares.values() for share in found]
    return said(bool(every) and min(every) >= 0.5 and max(every) <= 2.0), why


def rmia_judged(rows: Rows) -> Judged:
    plain = [row for row in rows if row["epsilon"] is None and row["mean_sweep_estimate"] > 0.1]
    above = [
        row
        for row in plain
        if row["mean_rmia_sweep_estimate"] >= max(row["mean_sweep_estimate"], row["mean_difficulty_sweep_estimate"])
    ]
    listed = "; ".join(
        f"{row['mechanism']}: {row['mean_sweep_estimate']:.2f}, {row['mean_difficulty_sweep_estimate']:.2f}, "
        f"{row['mean_rmia_sweep_estimate']:.2f}"
        for row in plain
    )
    why = (
        f"without privacy RMIA reports the most for {len(above)} of {len(plain)} mechanisms that leak; the paper's "
        f"numbers by label inference, difficulty calibration and RMIA: {listed}"
    )
    return said(bool(plain) and len(above) == len(plain)), why


def text_judged(rows: Rows) -> Judged:
    by = {row["attack"]: row for row in rows}
    label, difficulty, rmia = (
        by[name]["mean_sweep_estimate"] for name in ("label inference", "difficulty calibration", "RMIA")
    )
    bounds = ", ".join(f"{name} {round_down(row['median_bound'])}" for name, row in by.items())
    why = (
        f"the paper's numbers here: label inference {label:.2f}, difficulty calibration {difficulty:.2f}, RMIA "
        f"{rmia:.2f}; median bounds: {bounds}; the gate closed in {by['label inference']['blocked']} of "
        f"{by['label inference']['games']} games"
    )
    return said(rmia > label > difficulty), why


def teacher_judged(rows: Rows) -> Judged:
    by = {row["epsilon"]: row for row in rows}
    plain, private = by[None], by[min(e for e in by if e is not None)]
    gain = plain["teacher_accuracy_compared"] - plain["accuracy_by_labels_alone"]
    listed = ", ".join(
        f"{row['student_accuracy']:.3f} at {'infinite epsilon' if e is None else f'epsilon {e:g}'} ({row['queries']} "
        f"answers, {row['right_answers']:.0%} of them right)"
        for e, row in by.items()
    )
    why = (
        f"{plain['teachers']} teachers with {plain['labels_a_teacher']} labels and {plain['unlabelled_pictures']:,} "
        f"pictures without are right on {plain['teacher_accuracy']:.3f} of the test pictures, by FixMatch "
        f"{gain:+.3f} against the same labels alone; students: {listed}. The paper's student loses 0.012 of accuracy "
        f"from infinite epsilon to 1; ours {plain['student_accuracy'] - private['student_accuracy']:.3f}"
    )
    return said(plain["student_accuracy"] - private["student_accuracy"] <= 0.05), why


# ---------------------------------------------------------------------------------------------------------------- sizes


def _games(sizes: Sizes) -> tuple[str, str, str]:
    ours = f"{sizes.private_games} models at epsilon 1 and below, {sizes.games} above, {sizes.plays} plays of each"
    return "repeats", "100 plays of one model, averaged", ours


def picture_sizes(scale: Any) -> Table:
    sizes: Sizes = scale.labels
    labelled = sizes.teachers * sizes.teacher_labels
    return [
        ("data", "CIFAR-10", PICTURES if sizes.fetched else "digits of 8 x 8 pixels"),
        ("members, canaries", "25,000, 10,000", f"{sizes.picture_members:,}; PATE-FM {labelled:,}"),
        ("target", "convolutional network", f"two convolutions, {sizes.picture_epochs} epochs"),
        (
            "proxy",
            "the same on 25,000 rows",
            "the mean of two networks on 35,000 rows" if sizes.fetched else "597 rows",
        ),
        ("PATE-FM teachers", "not stated", f"{sizes.teachers}, {sizes.teacher_labels} labels each"),
        ("PATE-FM steps", "not stated", f"{sizes.teacher_steps} a teacher, {sizes.student_steps} the student"),
        ("PATE-FM games", "100 plays of one model", "fresh noise, student and coins; one set of teachers for all"),
        _games(sizes),
    ]


def people_sizes(scale: Any) -> Table:
    sizes: Sizes = scale.labels
    return [
        ("data", "Criteo, 3% clicks", f"{ROWS}, 6% above 50k" if sizes.fetched else "a Gaussian mixture"),
        ("members, canaries", "800,000, 200,000", f"{sizes.row_members:,}"),
        ("target", "CatBoost", f"CatBoost, {sizes.trees} trees of depth 8"),
        ("proxy", "the day before", f"CatBoost on {sizes.row_proxy:,} other rows"),
        ("PATE teachers", "not stated", f"{sizes.row_teachers}"),
        ("PATE queries", "not stated", ", ".join(f"{count:,} at {e:g}" for e, count in sizes.row_queries)),
        _games(sizes),
    ]


def compared_sizes(scale: Any) -> Table:
    return [*picture_sizes(scale)[:4], *people_sizes(scale)]


def text_sizes(scale: Any) -> Table:
    sizes: Sizes = scale.labels
    return [
        ("data", "3,000,000 tweets", f"{TEXTS}, 25,000" if sizes.fetched else "a Gaussian mixture"),
        ("members, canaries", "1,350,000, 300,000", f"{sizes.text_members:,}"),
        ("target", "fully connected network on TF-IDF", f"64 hidden units on {sizes.text_words:,} words and pairs"),
        ("proxy", "the same on as many rows", "logistic regression on 15,000 others, recalibrated"),
        ("repeats", "100 plays of one model", f"{sizes.games} models, {sizes.plays} plays of each"),
    ]


FIGURES = {
    "1": Figure(
        "Label inference beside membership inference",
        "Label inference shows about as much as membership inference by difficulty calibration, on both sets.",
        compared_rows,
        compared_judged,
        compared_sizes,
    ),
    "5": Figure(
        "Label inference, difficulty calibration and RMIA on pictures",
        "RMIA shows slightly more than the other two, above all at large epsilon.",
        rmia_rows,
        rmia_judged,
        picture_sizes,
    ),
    "table-1": Figure(
        "Private labels of pictures, audited",
        "Every mechanism leaks at epsilon infinite and 10, and less at 1, where no number passes 1.",
        partial(picture_rows, "table-1", AUDITED),
        audited_judged,
        picture_sizes,
    ),
    "table-2": Figure(
        "Private labels of a table, audited",
        "Every mechanism leaks, and the less the smaller epsilon.",
        partial(people_rows, "table-2", AUDITED),
        audited_judged,
        people_sizes,
    ),
    "table-4": Figure(
        "Private labels of pictures, accuracy",
        "Accuracy falls with epsilon; at epsilon 1 PATE-FM loses least, then an out-of-domain prior.",
        partial(picture_rows, "table-4", ("test_accuracy", "training_accuracy")),
        accuracy_judged,
        picture_sizes,
    ),
    "table-5": Figure(
        "Private labels of a table, log-loss",
        "Log-loss rises as epsilon falls; at epsilon 1 noise correction is best.",
        partial(people_rows, "table-5", ("log_loss", "test_accuracy")),
        loss_judged,
        people_sizes,
    ),
    "table-6": Figure(
        "Private labels of pictures, guesses on 1%",
        "With guesses on a fixed 1% of the rows the numbers are slightly smaller than by the sweep.",
        partial(picture_rows, "table-6", FIXED),
        fixed_judged,
        picture_sizes,
    ),
    "table-7": Figure(
        "A text model, three attacks",
        "Without privacy RMIA shows the most, label inference nearly as much, difficulty calibration far less.",
        text_rows,
        text_judged,
        text_sizes,
    ),
    "pate-fm": Figure(
        "PATE-FM: teachers, answers and students",
        "A student of semi-supervised teachers loses almost nothing at epsilon 1 (91.3% of CIFAR-10 against 92.5%).",
        teacher_rows,
        teacher_judged,
        picture_sizes,
    ),
}
