"""The groups of games, what must come out of them, and how that is written down."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from dpaudit import __version__
from dpaudit.execution import Execution, distinct_seeds
from dpaudit_experiments.common.figure import Judged, Rows, allowed_over, said
from dpaudit_experiments.common.outcome import Outcome
from dpaudit_experiments.placebo import games as played
from dpaudit_experiments.placebo.worlds import FULL, NULL, QUICK, Sizes

CHUNK = 20
"""Games that are kept together: after a kill at most so many are played again."""
CAUGHT = 0.9
LEAST = {1.0: 0.65, 2.0: 1.55}
"""Median bounds that must be reached at these epsilons."""


@dataclass(frozen=True)
class Cell:
    """Some games of one kind: what is played, how often, and which numbers a game gives."""

    name: str
    what: str
    games: int
    play: Callable[[Sizes, int], list[float]]
    measured: tuple[str, ...] = played.WITH_OLD
    epsilon: float = 0.0


@dataclass(frozen=True)
class Group:
    """Cells that are judged together."""

    title: str
    claim: str
    cells: tuple[Cell, ...]
    judged: Callable[[Rows], Judged]


def run_cell(cell: Cell, sizes: Sizes, seed: int, execution: Execution, count: int) -> Iterable[dict[str, Any]]:
    """What the cell showed so far, after each chunk of games."""
    seeds, found = distinct_seeds(seed, cell.name, count), []
    for start in range(0, count, CHUNK):
        found += execution.map(partial(_timed, cell.play, sizes), seeds[start : start + CHUNK], title=cell.name)
        yield row_of(cell, found)


def _timed(play: Callable[[Sizes, int], list[float]], sizes: Sizes, seed: int) -> list[float]:
    """What a game measures, and its processor seconds."""
    began = time.process_time()
    return [*play(sizes, seed), time.process_time() - began]


def row_of(cell: Cell, found: list[list[float]]) -> dict[str, Any]:
    """One line of the result."""
    column = dict(zip((*cell.measured, "seconds"), np.array(found).T, strict=True))
    row: dict[str, Any] = {
        "cell": cell.name,
        "what": cell.what,
        "truth": cell.epsilon,
        "games": len(found),
        "planned": cell.games,
        "seconds": round(float(column["seconds"].sum()), 1),
        "withheld": int(column["withheld"].sum()),
        "median": statistics.median(column["epsilon"].tolist()),
        "largest": float(column["epsilon"].max()),
        "over": int((column["epsilon"] > cell.epsilon).sum()),
        "allowed": allowed_over(len(found)),
    }
    for beside in ("old", "never seen"):
        if f"{beside} epsilon" in column:
            key, shown = beside.replace(" ", "_"), column[f"{beside} epsilon"]
            row[f"{key}_over"] = int((shown > 0.0).sum())
            row[f"{key}_withheld"] = int(column[f"{beside} withheld"].sum())
            row[f"{key}_median"] = statistics.median(shown.tolist())
    if "caught" in column:
        ran = column["control ran"] > 0.0
        row |= {"control_ran": int(ran.sum()), "caught": int(column["caught"].sum())}
        row["over_and_missed"] = int(((column["epsilon"] > cell.epsilon) & (column["caught"] == 0.0)).sum())
    return row


# --------------------------------------------------------------------------------------------------------------- judged


def _ready(rows: Rows, words: str) -> str:
    """How many games were played of how many; fewer than planned are said."""
    short = [f"{row['cell']} {row['games']} of {row['planned']}" for row in rows if row["games"] < row["planned"]]
    return words + (f". Fewer games than planned: {', '.join(short)}" if short else "")


def null_judged(rows: Rows) -> Judged:
    over = [row["cell"] for row in rows if row["over"] > row["allowed"]]
    kept = [row["cell"] for row in rows if row["old_over"] <= row["allowed"]]
    worst = max(rows, key=lambda row: row["over"] / row["games"])
    words = (
        f"a bound above 0 in at most {worst['over']} of {worst['games']} games ({worst['cell']}; allowed "
        f"{worst['allowed']})"
        + (f"; too often for {', '.join(over)}" if over else "")
        + f"; the older rule is above 0 too often in {len(rows) - len(kept)} of {len(rows)} cells"
        + (f", not for {', '.join(kept)}" if kept else "")
    )
    return said(not over and not kept), _ready(rows, words)


def redrawn_judged(rows: Rows) -> Judged:
    """Rates are reported; of a model that recognises its rows by their features the control must find nine in ten."""
    words = "; ".join(
        f"{row['cell']}: above 0 in {row['over']} of {row['games']} games, the control refutes {row['caught']}"
        for row in rows
    )
    missed = [row for row in rows if row["cell"].startswith("flags") and row["caught"] < CAUGHT * row["games"]]
    return said(not missed), _ready(rows, words)


def power_judged(rows: Rows) -> Judged:
    problems, told = [], []
    for row in rows:
        told.append(f"{row['cell']}: median {row['median']:.2f}")
        if row["median"] < LEAST.get(row["truth"], 1e-9):
            problems.append(f"{row['cell']}: {row['median']:.2f} is too small")
        if row["truth"] in LEAST and row["over"] > row["allowed"]:
            problems.append(f"{row['cell']}: above its epsilon in {row['over']} games")
        if "never_seen_over" in row:
            told[-1] += f", above 0 for rows never seen in {row['never_seen_over']} of {row['games']}"
            if row["never_seen_over"] > row["allowed"]:
                problems.append(f"{row['cell']}: above 0 for rows that were never seen")
    return said(not problems), _ready(rows, "; ".join([*told, *problems]))


# --------------------------------------------------------------------------------------------------------------- groups

SPLITS = 100


def _null(name: str) -> Cell:
    what, make = NULL[name]
    return Cell(name, what, SPLITS if name in ("Adult", "Census") else 200, partial(played.null_game, make))


def _redrawn(learner: str, law: str, what: str) -> Cell:
    play = partial(played.redrawn_game, learner, law)
    return Cell(f"{learner}, {law}", what, 100, play, played.REDRAWN)


def _response(epsilon: float) -> Cell:
    what = "randomised response, the exact distribution as a column"
    return Cell(f"epsilon {epsilon:g}", what, 100, partial(played.response_game, epsilon), played.BOUND, epsilon)


def _adult(learner: str) -> Cell:
    what = "a model that was trained on 8,000 rows of Adult"
    return Cell(f"Adult, {learner}", what, 10, partial(played.adult_game, learner), played.WITH_NEVER_SEEN)


FLAGS = "a model that says what it knows from elsewhere of the rows that it was trained on, and half of it of others"
SMOOTH = "labels drawn anew from a distribution of the features"
OWN = "labels drawn anew; each row has a part of the log-odds that only its own training label tells"
KEPT = "the labels that the model was trained on, from a distribution of the features"
GROUPS = {
    "null": Group(
        "Nothing leaks: how often an audit says otherwise",
        "The bound of the default path is above 0 in at most 5% of the games; the older rule is in more.",
        tuple(_null(name) for name in NULL),
        null_judged,
    ),
    "redrawn": Group(
        "Rows that were trained on, labels drawn anew",
        "How often the label bound is above 0 is reported; the control finds nine in ten models that recognise rows by "
        "their features.",
        (
            _redrawn("boosted", "smooth", SMOOTH),
            _redrawn("k-NN", "smooth", SMOOTH),
            _redrawn("boosted", "own part", OWN),
            _redrawn("k-NN", "own part", OWN),
            _redrawn("flags", "smooth", FLAGS),
            _redrawn("forest", "remembered", KEPT),
        ),
        redrawn_judged,
    ),
    "power": Group(
        "Labels leak: how much of it an audit sees",
        "At epsilon 1 and 2 the median bound is at least 0.65 and 1.55; a model that learnt Adult by heart leaks.",
        (_response(1.0), _response(2.0), _adult("forest"), _adult("catboost")),
        power_judged,
    ),
}


def outcome_of(name: str, rows: Rows, *, sizes: Sizes, command: str) -> Outcome:
    """What the games of a group say so far."""
    group = GROUPS[name]
    found, because = group.judged(rows)
    planned = len(group.cells) == len(rows) and all(row["games"] >= row["planned"] for row in rows)
    return Outcome(
        paper="placebo",
        figure=name,
        title=group.title,
        claim=group.claim,
        found=found if planned and sizes is not QUICK else "too small to tell",
        because=because,
        scale=tuple((row["cell"], f"{row['planned']} games", f"{row['games']} games") for row in rows),
        rows=tuple(rows),
        command=command,
        seconds=round(sum(row["seconds"] for row in rows), 1),
        versions={"dpaudit": __version__, "numpy": np.__version__} | versions(),
    )


def versions() -> dict[str, str]:
    """Of the libraries that learn."""
    return {name: metadata.version(name) for name in ("scikit-learn", "scipy", "catboost")}


__all__ = ["FULL", "GROUPS", "QUICK", "Cell", "Group", "outcome_of", "run_cell"]
