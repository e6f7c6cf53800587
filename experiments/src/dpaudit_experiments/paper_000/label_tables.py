"""Paper 000's tables 1, 2 and 4 to 7 and its figures 1 and 5, from the games of `private_labels`.

The games of pictures serve tables 1, 4 and 6 and figure 5, those of rows tables 2 and 5, both figure 1; they are played
once in a process.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.assumptions import round_down
from dpaudit.execution import Execution
from dpaudit_experiments.common.figure import Figure, Judged, Rows, allowed_over, said
from dpaudit_experiments.common.figure import Sizes as Table
from dpaudit_experiments.common.outcome import WORDS
from dpaudit_experiments.paper_000.private_labels import INFINITE, MEASURED, Cells, Sizes, few_trees, pate_fm, played

PICTURES, ROWS, TEXTS = "Fashion-MNIST", "Census-Income", "IMDB reviews"
PICTURE_EPSILONS = (INFINITE, 10.0, 1.0)
ROW_EPSILONS = (INFINITE, 8.0, 4.0, 2.0, 1.0, 0.1)
CLEAR, FAINT, NOISE = 0.5, 0.1, 0.15
"""From where on a number is said to show a leak clearly, or at all; and what may lie between means of few games."""
TOO_SMALL = WORDS[2]

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
    """One mechanism at one epsilon: medians of bounds where the control passed, means of estimates over all games."""
    column = dict(zip(MEASURED, lines.T, strict=True))
    shown = column["withheld"] == 0.0

    def median(key: str) -> float:
        return float(np.median(column[key][shown])) if shown.any() else 0.0

    return {
        "mechanism": name,
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "games": len(lines),
        "withheld": int((~shown).sum()),
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
    "withheld",
    "median_bound",
    "largest_bound",
    "over_claims",
    "mean_sweep_estimate",
    "deviation_of_sweeps",
)
FIXED = (
    "withheld",
    "median_bound_at_1_percent",
    "over_claims_at_1_percent",
    "mean_at_1_percent_estimate",
    "mean_sweep_estimate",
)
COMPARED = (
    "withheld",
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
    names = (PICTURES, ROWS) if scale.labels.fetched else ("digits", "a Gaussian mixture")
    both = zip(names, (pictures, people), strict=True)
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
            "withheld": every["withheld"] if relation == "label" else 0,
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


def _epsilons(rows: Rows) -> list[float]:
    """The finite ones, largest first."""
    return sorted({row["epsilon"] for row in rows if row["epsilon"] is not None}, reverse=True)


def _word(confirmed: bool, rows: Rows) -> str:
    """Too few games whose control passed tell nothing, whatever the numbers say."""
    few = any(row["games"] - row["withheld"] < row["games"] / 2 for row in rows)
    return TOO_SMALL if few else said(confirmed)


def _over(rows: Rows, key: str) -> tuple[bool, str]:
    """Whether bounds at epsilon 1 and below pass their epsilon too often; games that withhold it have none."""
    private = [row for row in rows if row["epsilon"] is not None and row["epsilon"] <= 1.0]
    worst = max(private, key=lambda row: row[key] / max(row["games"] - row["withheld"], 1))
    shown = worst["games"] - worst["withheld"]
    limit = allowed_over(max(shown, 1))
    withheld = max(row["withheld"] for row in rows)
    words = (
        f"at epsilon 1 and below a mechanism has a bound above epsilon in at most {worst[key]} of {shown} games whose "
        f"control passed (so many independent games would allow {limit}; these share rows and a proxy); the control "
        f"refuted in at most {withheld} games of a line"
    )
    return worst[key] <= limit, words


def audited_judged(rows: Rows) -> Judged:
    """Leakage at large epsilon, less of it at each smaller one, and at 1 and below neither kind of number above it."""
    finite = _epsilons(rows)
    silent, rising, above = [], [], []
    for name, plain in _at(rows, None).items():
        along = [plain, *(_at(rows, epsilon)[name] for epsilon in finite)]
        published = [row["mean_sweep_estimate"] for row in along]
        if min(published[:2]) < CLEAR or plain["median_bound"] < CLEAR:
            silent.append(name)
        if any(after > before + NOISE for before, after in itertools.pairwise(published)):
            rising.append(name)
        above += [name for row in along[1:] if row["epsilon"] <= 1.0 < row["mean_sweep_estimate"] / row["epsilon"]]
    fine, words = _over(rows, "over_claims")
    count = len(_at(rows, None))
    leaking = [row["median_bound"] for name, row in _at(rows, None).items() if name not in silent]
    why = (
        f"{count - len(silent)} of {count} mechanisms leak clearly (the paper's number at infinite epsilon and at "
        f"{finite[0]:g}, and the median bound at infinite epsilon, at least {CLEAR:g})"
        + (f", with median bounds of {round_down(min(leaking))} or more" if leaking else "")
        + (f"; not: {', '.join(silent)}" if silent else "")
        + f". The paper's number rises nowhere by more than {NOISE:g} as epsilon falls"
        + (f", except for {', '.join(rising)}" if rising else "")
        + f"; at epsilon 1 and below it is above epsilon for {', '.join(dict.fromkeys(above)) or 'none'}; {words}"
    )
    return _word(fine and not silent and not rising and not above, rows), why


def fixed_judged(rows: Rows) -> Judged:
    """A fixed share of guesses shows a little less than the best of 100."""
    positive = [row for row in rows if row["mean_sweep_estimate"] > FAINT]
    shares = [row["mean_at_1_percent_estimate"] / row["mean_sweep_estimate"] for row in positive]
    fine, words = _over(rows, "over_claims_at_1_percent")
    if not shares:
        return TOO_SMALL, f"the sweep reports nothing above {FAINT:g} anywhere; {words}"
    why = (
        f"where the sweep reports more than {FAINT:g} ({len(positive)} of {len(rows)} lines), 1% of guesses reports "
        f"{min(shares):.2f} to {max(shares):.2f} of it, {np.median(shares):.2f} in the median (slightly smaller is "
        f"taken as 0.75 or more); {words}"
    )
    return _word(float(np.median(shares)) >= 0.75 and fine, rows), why


def accuracy_judged(rows: Rows) -> Judged:
    return _utility(rows, "test_accuracy", sign=1.0)


def loss_judged(rows: Rows) -> Judged:
    return _utility(rows, "log_loss", sign=-1.0)


def _utility(rows: Rows, key: str, *, sign: float) -> Judged:
    """Whether utility gets worse with every smaller epsilon, and mechanisms rank as in the paper at epsilon 1."""
    better = []
    for name, plain in _at(rows, None).items():
        along = [sign * plain[key], *(sign * _at(rows, epsilon)[name][key] for epsilon in _epsilons(rows))]
        if any(after > before + 0.01 for before, after in itertools.pairwise(along)):
            better.append(name)
    compared = [row for row in rows if row["epsilon"] == 1.0 and row["paper"] is not None]
    ranked = [
        [row["mechanism"] for row in sorted(compared, key=lambda row: -sign * row[column])] for column in ("paper", key)
    ]
    words = key.replace("_", " ")
    why = (
        f"{words} gets no better by more than 0.01 as epsilon falls"
        + (f", except for {', '.join(better)}" if better else " for any mechanism")
        + f"; at epsilon 1 the paper ranks {', '.join(ranked[0])}, and here it is "
        + ("the same" if ranked[0] == ranked[1] else ", ".join(ranked[1]))
    )
    return said(not better and ranked[0] == ranked[1]), why


def compared_judged(rows: Rows) -> Judged:
    """Label inference and membership by difficulty calibration show about as much, without privacy, on every set."""
    pairs = ("mean_sweep_estimate", "mean_difficulty_sweep_estimate")
    plain = [row for row in rows if row["epsilon"] is None and max(row[key] for key in pairs) > FAINT]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    shares = {name: [row[pairs[0]] / max(row[pairs[1]], 1e-9) for row in plain if row["data"] == name] for name in sets}
    listed = "; ".join(f"{name}: {min(s):.2f} to {max(s):.2f}" if s else f"{name}: none" for name, s in shares.items())
    bounds = "; ".join(
        f"{row['data']}, {row['mechanism']}: {round_down(row['median_bound'])} and "
        f"{round_down(row['median_membership_difficulty'])}"
        for row in plain
    )
    why = (
        f"without privacy, where either is above {FAINT:g}, the paper's number for labels is this share of the one for "
        f"membership: {listed} (about as much is taken as 0.5 to 2). Median bounds, on labels and on membership, which "
        f"are two relations: {bounds}"
    )
    about = all(found and min(found) >= 0.5 and max(found) <= 2.0 for found in shares.values())
    return _word(about, plain or rows), why


def rmia_judged(rows: Rows) -> Judged:
    """RMIA shows the most, at infinite epsilon and at the largest finite one, wherever something leaks."""
    others = ("mean_sweep_estimate", "mean_difficulty_sweep_estimate")
    leaking = [
        row for row in rows if row["epsilon"] in (None, _epsilons(rows)[0]) and max(row[key] for key in others) > FAINT
    ]
    most = [row for row in leaking if row["mean_rmia_sweep_estimate"] >= max(row[key] for key in others)]
    listed = "; ".join(
        f"{row['mechanism']} at {'infinite' if row['epsilon'] is None else format(row['epsilon'], 'g')}: "
        f"{row[others[0]]:.2f}, {row[others[1]]:.2f}, {row['mean_rmia_sweep_estimate']:.2f}"
        for row in leaking
    )
    why = (
        f"RMIA reports the most in {len(most)} of {len(leaking)} lines that leak at large epsilon; the paper's numbers "
        f"by label inference, difficulty calibration and RMIA: {listed or 'none'}"
    )
    return said(bool(leaking) and len(most) == len(leaking)), why


def text_judged(rows: Rows) -> Judged:
    """RMIA the most, label inference nearly as much (three quarters), difficulty calibration far less (half)."""
    by = {row["attack"]: row for row in rows}
    label, difficulty, rmia = (
        by[name]["mean_sweep_estimate"] for name in ("label inference", "difficulty calibration", "RMIA")
    )
    bounds = ", ".join(f"{name} {round_down(row['median_bound'])}" for name, row in by.items())
    why = (
        f"the paper's numbers here: label inference {label:.2f}, difficulty calibration {difficulty:.2f}, RMIA "
        f"{rmia:.2f}; the order is {'the same' if rmia > label > difficulty else 'another'} (nearly as much is taken "
        f"as 0.75 of RMIA, far less as half of label inference); median bounds: {bounds}; the control refuted in "
        f"{by['label inference']['withheld']} of {by['label inference']['games']} games"
    )
    return _word(rmia > label >= 0.75 * rmia and difficulty <= 0.5 * label, [by["label inference"]]), why


def teacher_judged(rows: Rows) -> Judged:
    """The student learns something, and loses almost nothing (0.05) from infinite epsilon to 1."""
    by = {row["epsilon"]: row for row in rows}
    plain, private = by[None], by[_epsilons(rows)[-1]]
    gain = plain["teacher_accuracy_compared"] - plain["accuracy_by_labels_alone"]
    lost = plain["student_accuracy"] - private["student_accuracy"]
    listed = ", ".join(
        f"{row['student_accuracy']:.3f} at {'infinite epsilon' if e is None else f'epsilon {e:g}'} ({row['queries']} "
        f"answers, {row['right_answers']:.0%} of them right)"
        for e, row in by.items()
    )
    why = (
        f"{plain['teachers']} teachers with {plain['labels_a_teacher']} labels and {plain['unlabelled_pictures']:,} "
        f"pictures without are right on {plain['teacher_accuracy']:.3f} of the test pictures, by FixMatch "
        f"{gain:+.3f} against the same labels alone; students: {listed}. The paper's student loses 0.012 of accuracy "
        f"from infinite epsilon to 1; ours {lost:.3f}"
    )
    return said(plain["student_accuracy"] >= 0.6 and lost <= 0.05), why


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
    few = few_trees(sizes)
    return [
        ("data", "Criteo, 3% clicks", f"{ROWS}, 6% above 50k" if sizes.fetched else "a Gaussian mixture"),
        ("members, canaries", "800,000, 200,000", f"{sizes.row_members:,}"),
        ("target", "CatBoost", f"CatBoost, {sizes.trees} trees of depth 8; with PATE {few} of depth 4"),
        ("proxy", "the day before", f"CatBoost on {sizes.row_proxy:,} other rows"),
        ("PATE teachers", "not stated", f"{sizes.row_teachers}"),
        ("PATE queries", "not stated", ", ".join(f"{count:,} at {e:g}" for e, count in sizes.row_queries)),
        _games(sizes),
    ]


def compared_sizes(scale: Any) -> Table:
    return [*picture_sizes(scale)[:4], *people_sizes(scale)]


def text_sizes(scale: Any) -> Table:
    sizes: Sizes = scale.labels
    others = (25_000 if sizes.fetched else 3 * sizes.text_members) - 2 * sizes.text_members
    return [
        ("data", "3,000,000 tweets", f"{TEXTS}, 25,000" if sizes.fetched else "a Gaussian mixture"),
        ("members, canaries", "1,350,000, 300,000", f"{sizes.text_members:,}"),
        ("target", "fully connected network on TF-IDF", f"64 hidden units on {sizes.text_words:,} words and pairs"),
        ("proxy", "the same on as many rows", f"logistic regression on {others:,} others, recalibrated"),
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
