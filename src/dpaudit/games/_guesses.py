"""Guesses at protected values: what a model says beyond a proxy, row by row; and those of a planted leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.counterfactuals import Categorical
from dpaudit.evidence.matched import CELLS, cells_of

LEAST = 1e-9
"""Probabilities are cut to [1e-9, 1 - 1e-9], so that scores stay finite."""
CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one table: their protected values, and what the audited model and a proxy say of every value.

    Attributes
    ----------
    values
        Class numbers from 0.
    target
        What the audited model says: `counterfactuals.Categorical`, one row each.
    counterfactual
        What a proxy says that was trained on none of the rows. None only for whole records.
    group
        The unit of each row. None: every row is one.
    columns
        What else is known of the rows, by name and in the order of the file: for the tests, never for the guesses.
    marks
        Further columns, which say nothing of the values, by which rows may hang together, such as a day.

    Examples
    --------
    >>> rows = Rows([1, 0], Categorical([0.9, 0.6]), Categorical([0.5, 0.5]))
    >>> len(rows), rows.classes
    (2, 2)
    """

    values: Any
    target: Categorical
    counterfactual: Categorical | None = None
    group: Any = None
    columns: dict[str, Any] | None = None
    marks: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("target", "counterfactual"):
            said = getattr(self, name)
            if not isinstance(said, Categorical) and (name == "target" or said is not None):
                raise InputError(f"`{name}` must be `counterfactuals.Categorical`, got {type(said).__name__}.")
        shape = self.target.probabilities.shape
        if self.counterfactual is not None and self.counterfactual.probabilities.shape != shape:
            raise InputError(
                f"`target` and `counterfactual` must have the same rows and classes, got {shape} and "
                f"{self.counterfactual.probabilities.shape}."
            )
        values = check.labels("values", self.values)
        if len(values) != shape[0] or values.dtype.kind != "i" or not 0 <= values.min() <= values.max() < shape[1]:
            raise InputError(
                f"`values` must be {shape[0]} class numbers from 0 to {shape[1] - 1}, got {values[:4].tolist()} and "
                "so on.",
                "`counterfactuals.encode` turns columns into class numbers.",
            )
        group = None if self.group is None else check.labels("group", self.group)
        columns, marks = (_columns(part) for part in (self.columns, self.marks))
        check.same_length(values=values, group=group, **columns, **marks)
        changed = {"values": values, "group": group, "columns": columns, "marks": marks}
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.values.size)

    @property
    def classes(self) -> int:
        """How many values there are."""
        return self.target.classes

    def at(self, rows: NDArray[np.intp]) -> Rows:
        """Some of the rows."""
        return Rows(
            self.values[rows],
            self.target.at(rows),
            None if self.counterfactual is None else self.counterfactual.at(rows),
            None if self.group is None else self.group[rows],
            {name: column[rows] for name, column in (self.columns or {}).items()},
            {name: column[rows] for name, column in (self.marks or {}).items()},
        )

    def own(self, said: str) -> NDArray[np.float64]:
        """The probability that "target" or "counterfactual" gives to each row's own value."""
        return _cut(getattr(self, said).probabilities[np.arange(len(self)), self.values])


def _columns(columns: dict[str, Any] | None) -> dict[str, NDArray[Any]]:
    """Columns that do not change any more: texts as texts, gaps as empty ones."""
    found = {}
    for name, column in (columns or {}).items():
        array = check.vector(name, column)
        if array.dtype == object:
            array = np.array(["" if value is None else str(value) for value in array.tolist()])
        found[name] = check.read_only(array.copy())
    return found


# -------------------------------------------------------------------------------------------------------------- guesses


@dataclass(frozen=True, eq=False)
class Guesses:
    """One guess each: how much the model prefers it, its chance under the proxy, whether it is right, whose it is.

    `own` tells a row's best guess from the best one in another cell of the chance.
    """

    scores: NDArray[np.float64]
    chance: NDArray[np.float64]
    right: NDArray[np.bool_]
    own: NDArray[np.bool_]

    def at(self, rows: Any) -> Guesses:
        """Some of them."""
        return Guesses(*(getattr(self, name)[rows] for name in ("scores", "chance", "right", "own")))


def joined(*parts: Guesses) -> Guesses:
    """Several, one after the other."""
    names = ("scores", "chance", "right", "own")
    return Guesses(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _cut(probabilities: Any) -> NDArray[np.float64]:
    return np.clip(np.asarray(probabilities, dtype=np.float64), LEAST, 1.0 - LEAST)


def log_odds(probabilities: Any) -> NDArray[np.float64]:
    """Log-odds, at most as extreme as those of 1e-9."""
    cut = _cut(probabilities)
    return np.asarray(np.log(cut) - np.log1p(-cut))


def guesses(rows: Rows, *, elsewhere: bool = False) -> Guesses:
    """The guess at each row; `elsewhere`: then the best ones in every other cell of the chance that the model favours.

    The guess is the value whose log-odds the model raises most above the proxy's (theory:placebo#matched).
    """
    assert rows.counterfactual is not None
    said = rows.target.probabilities, rows.counterfactual.probabilities
    parts = []
    for start in range(0, len(rows), CHUNK):
        some = slice(start, start + CHUNK)
        parts.append(_guessed(rows.values[some], said[0][some], said[1][some], elsewhere))
    first = joined(*(own for own, _ in parts))
    return joined(first, *(rest for _, rest in parts)) if elsewhere else first


def _guessed(values: Any, target: Any, proxy: Any, elsewhere: bool) -> tuple[Guesses, Guesses]:
    gain = log_odds(target) - log_odds(proxy)
    chance = _cut(proxy)
    line = np.arange(len(values))
    best = gain.argmax(axis=1)
    own = Guesses(gain[line, best], chance[line, best], values == best, np.ones(line.size, dtype=np.bool_))
    if not elsewhere:
        return own, own.at(slice(0, 0))
    cells = cells_of(chance)
    found = [own.at(slice(0, 0))]
    for cell in range(CELLS):
        there = np.where(cells == cell, gain, -np.inf)
        place = there.argmax(axis=1)
        kept = (there[line, place] > 0.0) & (cells[line, best] != cell)
        row, at = line[kept], place[kept]
        found.append(Guesses(gain[row, at], chance[row, at], values[row] == at, np.zeros(row.size, dtype=np.bool_)))
    return own, joined(*found)


def planted(own: Guesses, rows: Rows, *, epsilon: float, where: NDArray[np.intp], rng: np.random.Generator) -> Guesses:
    """The guesses at rows of which some leaked: randomised response at `epsilon` released their values.

    The model's opinion of those is replaced by the proxy's after the answer. Its log-odds rise by epsilon for the
    answer and fall for every other value, so that the answer is the guess.
    """
    assert rows.counterfactual is not None
    k, true = rows.classes, rows.values[where]
    honest = rng.random(where.size) < np.exp(epsilon) / (np.exp(epsilon) + k - 1.0)
    other = rng.integers(0, k - 1, where.size)
    said = np.where(honest, true, other + (other >= true))
    chance = _cut(rows.counterfactual.probabilities[where, said])
    before = log_odds(chance)
    scores, kept, right = own.scores.copy(), own.chance.copy(), own.right.copy()
    scores[where] = np.minimum(before + epsilon, log_odds(1.0)) - before
    kept[where], right[where] = chance, said == true
    return Guesses(scores, kept, right, own.own)
