"""What the observational game rests on, what tries to refute it, and what it measures beside."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.fitted import dependence
from dpaudit.games import _observational_checks as coins
from dpaudit.games._guesses import Guesses, Rows

INDEPENDENT = coins.INDEPENDENT
SAME_SOURCE = Assumption(
    id="same-source",
    sentence=(
        "the rows that the model never saw come from the same source as the training rows: before the training nobody "
        "could have told which of the two a row is"
    ),
    answered_by="data holder",
    tested_by=("redrawn-values",),
    theory="theory:placebo#what-may-serve",
)
PROXY_ELSEWHERE = Assumption(
    id="proxy-elsewhere",
    sentence="the proxy was trained on none of the rows that are guessed at, neither training rows nor others",
    answered_by="data holder",
    theory="theory:placebo#what-may-serve",
)
RANDOM_HOLD_OUT = Assumption(
    id="random-hold-out",
    sentence="chance decided which rows were kept out of the training",
    answered_by="data holder",
    theory="theory:placebo#substitute",
)
GIVEN = Check(
    id="placebo-given",
    not_run="Without rows that the model never saw, a bound would rest on the proxy alone: give `placebo=`.",
    remedy="Give rows of the same source that the model never saw: `placebo=`.",
    refutes=("proxy-right",),
    on_missing="withhold",
    theory="theory:placebo#what-may-serve",
)
RECOGNITION = Check(
    id="recognition",
    measured=(
        "On {placebo:,} rows that the model never saw, the same attack was right {alone:.0f}% of the time; on the "
        "training rows {trained:.0f}%. Where it was surest, on one row in {surest}, {alone_surest:.0f}% and "
        "{trained_surest:.0f}%. So many rows show a difference of {resolution:.2g} in epsilon half of the time, and of "
        "{resolution_often:.2g} four times of five."
    ),
    theory="theory:placebo#recognition",
)
TOGETHER = Check(
    id="rows-hang-together",
    passed=(
        "Control passed: rows that might belong together ({tried}) are no more alike than others (p = {p_value:p}; "
        "refuted at {level:g}). That proves nothing: rows may hang together in a way that no column shows."
    ),
    refuted=(
        "Control refuted: rows that belong together ({column}) are more alike than others (p = {p_value:p}; refuted at "
        "{level:g}), so they do not count as many."
    ),
    remedy=(
        "If column {column} says whose rows they are, name it as `unit`; if it says what they are, it belongs to "
        "`features`."
    ),
    refutes=("independent-values", "one-row-per-unit"),
    level=0.05,
    theory="theory:placebo#dependence",
)
REDRAWN = Check(
    id="redrawn-values",
    passed=(
        "Control passed: a model that was trained on values drawn anew tells nothing of the true ones "
        "(p = {p_value:p}; refuted at {level:g}). That proves nothing of the audited model, which is another one."
    ),
    refuted=(
        "Control refuted: a model that was trained on values drawn anew, and can know nothing of the true ones, is "
        "right about the training rows more often than about others (p = {p_value:p}; refuted at {level:g}). Such "
        "training recognises its rows, so what the attack finds is not a leak of values alone."
    ),
    not_run=(
        "Control not tried: whether the model recognises rows that it was trained on, beyond their values, can be "
        "tested by training once more on values drawn anew: `redrawn=`."
    ),
    remedy="A random hold-out (`held_out=`) gives a bound for whole records, which needs none of this.",
    refutes=("no-recognition", "proxy-or-no-recognition", "same-source"),
    level=0.05,
    theory="theory:placebo#redrawn",
)
SEEN = Check(
    id="planted-leak",
    passed=(
        "Control passed: a leak of epsilon {planted_epsilon:g} that was planted at {smallest:.1%} of the training rows "
        "is found{already}."
    ),
    refuted=(
        "This attack does not see a leak of epsilon {planted_epsilon:g} that was planted at {largest:.0%} of the "
        "training rows: that it finds little says little."
    ),
    not_run="No leak was planted: without rows that the model never saw, none could be found.",
    remedy="More rows, above all more of those that the model never saw.",
    on_refuted="warn",
    theory="theory:placebo#planted",
)
REPEATED = Check(
    id="repeated-rows",
    measured=(
        "{copies:,} of {placebo:,} rows that the model never saw are exact copies of training rows, value included "
        "(the first are rows {first:list}). They stay: to leave out those whose values agree would be a selection."
    ),
    remedy="If copies are one record that was entered twice, say whose rows they are: `unit`.",
    theory="theory:placebo#what-may-serve",
)
SHARED_UNITS = Check(
    id="units-in-both",
    measured=(
        "{left_out:,} rows were left out of those that the model never saw: training rows belong to the same {unit}s."
    ),
    theory="theory:placebo#what-may-serve",
)
CALIBRATION = coins.CALIBRATION
HALF, OFTEN = 3.3, 5.0
"""Smallest difference in epsilon that n placebo rows show, times the root of n: with probability 1/2, and 0.8."""
SUREST = 16
SHOWN = 5
FREQUENT = 5
NARROW = 0.02
NAME_THE_UNIT = (
    "If a column says whose rows they are, name it as `unit`. If the file was merely sorted by its values, shuffle it."
)


# ------------------------------------------------------------------------------------------------------------- measured


def recognition(trained: Guesses, alone: Guesses) -> CheckResult:
    """How often the attack is right on both tables, on all rows and on those about which it is surest."""
    numbers: dict[str, Any] = {
        "rows": trained.scores.size,
        "placebo": alone.scores.size,
        "trained": _percent_right(trained),
        "alone": _percent_right(alone),
        "chance": 100.0 * float(alone.chance.mean()),
        "surest": SUREST,
        "trained_surest": _percent_right(_surest(trained)),
        "alone_surest": _percent_right(_surest(alone)),
        "resolution": HALF / alone.scores.size**0.5,
        "resolution_often": OFTEN / alone.scores.size**0.5,
    }
    return CheckResult(check=RECOGNITION, outcome="measured", numbers=numbers)


def _percent_right(found: Guesses) -> float:
    return 100.0 * float(found.right.mean())


def _surest(found: Guesses) -> Guesses:
    """The sixteenth with the highest scores, at least one guess."""
    return found.at(np.argsort(-found.scores, kind="stable")[: max(1, found.scores.size // SUREST)])


def together(audited: Rows, placebo: Rows, *, seed: int) -> CheckResult:
    """Whether placebo rows that share a column, or stand beside each other, are more alike than others.

    Their values are compared with what the known columns say of them, cross-fitted; without such columns, with the
    proxy. Of columns only those are tested whose levels the audited rows do not share (a user, a day): what rows of a
    shared level have in common is an effect of the column, which shows in both tables alike.
    """
    columns, marks = placebo.columns or {}, placebo.marks or {}
    apart = [*_apart(columns, audited.columns or {}), *_apart(marks, audited.marks or {})]
    if columns:
        values, classes = _merged(placebo)
        known = [name for name in apart if name in columns]
        residuals, chance = dependence.cross_fitted_residuals(columns, values, classes=classes, apart=known, seed=seed)
    else:
        residuals, chance = _residuals(placebo)
    order, flat = {"row": np.arange(len(placebo))}, np.zeros((len(placebo), 0))
    tested = [*(dependence.groupings(columns, seed=seed) if columns else dependence.groupings(order, flat, seed=seed))]
    tested += [one for one in dependence.groupings(marks, flat, seed=seed) if one.column] if marks else []
    tested = [one for one in tested if not one.column or one.name in apart]
    found = dependence.hang_together(residuals, chance, tested, seed=seed)
    worst = found.worst
    named = worst is not None and worst.column
    check = replace(TOGETHER, remedy=TOGETHER.remedy if named else NAME_THE_UNIT)
    numbers = {
        "tried": ", ".join(one.name for one in found.effects) or "a column",
        "column": "" if worst is None else worst.name,
        "inflation": 1.0 if worst is None else worst.inflation,
    }
    outcome = "refuted" if found.p_value <= (TOGETHER.level or 0.0) else "passed"
    return CheckResult(check=check, outcome=outcome, p_value=found.p_value, numbers=numbers)


def _apart(columns: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """Columns whose levels the other rows do not share, or do not have."""
    shared = {name: column for name, column in columns.items() if name in others}
    found = dependence.unshared(shared, others) if shared else []
    return [*found, *(name for name in columns if name not in others)]


def _merged(rows: Rows) -> tuple[NDArray[np.int64], int]:
    """The most frequent values, and all others as one: what is tested takes no more, and learns faster."""
    if rows.classes <= FREQUENT + 1:
        return rows.values, rows.classes
    kept = np.argsort(-np.bincount(rows.values, minlength=rows.classes), kind="stable")[:FREQUENT]
    place = np.full(rows.classes, FREQUENT)
    place[kept] = np.arange(FREQUENT)
    return place[rows.values], FREQUENT + 1


def _residuals(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the most frequent value, under the proxy."""
    assert rows.counterfactual is not None
    frequent = int(np.argmax(np.bincount(rows.values, minlength=rows.classes)))
    rate = np.clip(rows.counterfactual.probabilities[:, frequent].astype(np.float64), NARROW, 1.0 - NARROW)
    return ((rows.values == frequent) - rate) / np.sqrt(rate * (1.0 - rate)), rate


def repeated(audited: Rows, placebo: Rows) -> tuple[CheckResult, ...]:
    """Placebo rows that are copies of audited ones, in every column and in the value; none where no column is known."""
    if not audited.columns or not placebo.columns or set(audited.columns) != set(placebo.columns):
        return ()
    one, other = (_marks(rows, audited.columns) for rows in (audited, placebo))
    copies = np.flatnonzero(np.isin(other, one))
    if not copies.size:
        return ()
    numbers = {"copies": copies.size, "placebo": len(placebo), "first": copies[:SHOWN].tolist()}
    return (CheckResult(check=REPEATED, outcome="measured", numbers=numbers),)


def _marks(rows: Rows, names: Any) -> NDArray[np.uint64]:
    """One number a row that equal rows share, and other rows with probability 2^-64."""
    found = rows.values.astype(np.uint64)
    columns = rows.columns or {}
    for name in names:
        found = _mixed(found ^ _content(columns[name]))
    return found


def _content(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind in "fiub":
        return (column.astype(np.float64) + 0.0).view(np.uint64)
    levels, place = np.unique(column.astype(str), return_inverse=True)
    marks = [zlib.crc32(level.encode()) + (zlib.adler32(level.encode()) << 32) for level in levels.tolist()]
    return np.array(marks, dtype=np.uint64)[place.reshape(-1)]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A fixed bijection that leaves no bit where it was (the finaliser of splitmix64)."""
    found = numbers + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
