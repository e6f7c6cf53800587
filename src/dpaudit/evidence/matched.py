"""Guesses at protected values, of rows that a model was trained on and of *placebo* rows that it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence.types import CanaryScores, MemberScores, OutputCounts, PairedScores, RunScores, _Evidence

EDGES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""Between the cells of `chance`; an edge belongs to the cell below it. Fixed, so that nobody chooses them."""
CELLS = len(EDGES) + 1


def cells_of(chance: Any) -> NDArray[np.intp]:
    """The cell of each chance: 0 up to 0.02, 1 up to 0.05, and so on.

    >>> cells_of([0.02, 0.5, 0.51, 1.0]).tolist()
    [0, 5, 6, 11]
    """
    return np.searchsorted(np.asarray(EDGES), np.asarray(chance, dtype=np.float64), side="left")


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedScores(_Evidence):
    """One guess a row at its protected value, by one model: of audited rows, and of placebo rows it never saw.

    The guess is the value that the model favours most beyond what a *proxy* knows, who never saw the rows. See
    theory:placebo#matched.

    Attributes
    ----------
    scores
        How much more the model believes in the guess than the proxy does, in log-odds; a higher one is ranked first.
    chance
        What the proxy gives to the guess. Rows are compared within cells of it (`EDGES`).
    right
        Whether the row has the guessed value.
    audited
        Whether the model was trained on the row; the others are placebo rows.
    own
        Whether it is the row's own guess. A placebo row may also stand in other cells, with the value there that the
        model favours most; an audited row may not. None: every row is its own.
    values
        Between how many values the guess chose, which a delta pays for; None: it is not known, and paid for in full.
    margin
        By how many log-odds audited rows may be guessed better than placebo rows without a leak.

    Examples
    --------
    >>> found = MatchedScores(scores=[2.0, 1.0, 0.5], chance=[0.5, 0.4, 0.5], right=[True, True, False],
    ...     audited=[True, True, False], relation="label")
    >>> found.sizes
    {'rows': 2, 'placebo': 1}
    """

    scores: Any
    chance: Any
    right: Any
    audited: Any
    own: Any = None
    values: int | None = None
    margin: float = 0.0
    relation: Relation
    assignment: str = "guesses"

    assignments: ClassVar[tuple[str, ...]] = ("guesses",)
    arrays: ClassVar[tuple[str, ...]] = ("scores", "chance", "right", "audited", "own")

    def __post_init__(self) -> None:
        self._set("scores", check.scores("scores", self.scores))
        self._set("chance", check.floats("chance", self.chance))
        for name in ("right", "audited"):
            self._set(name, check.booleans(name, getattr(self, name)))
        own = np.ones(self.scores.size, dtype=np.bool_) if self.own is None else self.own
        self._set("own", check.booleans("own", own))
        rows = check.same_length(**{name: getattr(self, name) for name in self.arrays})
        self._check_common(rows)
        if self.group is not None:
            raise InputError(
                "`group` has no meaning for guesses at values: one row of each unit takes part.",
                "draw one row of each unit, at random, in both tables.",
            )
        if not np.all((self.chance > 0.0) & (self.chance < 1.0)):  # also refuses NaN
            raise InputError("`chance` must be probabilities in (0, 1), got a value outside.", "clip them to 1e-9.")
        if self.relation not in (Relation.LABEL, Relation.SUBSTITUTE):
            raise InputError(
                f"guesses at values bound the replacement of a value, got relation {self.relation!s}.",
                "set relation='label', or 'substitute', which is at least as large.",
            )
        self._set("values", None if self.values is None else check.count("values", self.values, low=2))
        self._set("margin", check.number("margin", self.margin, low=0.0))
        if not self.audited.any():
            raise InputError("`audited` must mark the rows that the model was trained on, got none.")
        if not np.all(self.own[self.audited]):
            raise InputError("`own` must be true of audited rows: each has one guess.")
        if np.any(self.scores[~self.own] <= 0.0):
            raise InputError("`scores` must be above 0 where a placebo row stands in a cell that is not its own.")

    @property
    def sizes(self) -> dict[str, int]:
        """How much there is of what, for a record."""
        return {"rows": int(self.audited.sum()), "placebo": self.placebo_rows}

    @property
    def placebo_rows(self) -> int:
        """How many rows the model never saw, each counted once."""
        return int((self.own & ~self.audited).sum())

    @cached_property
    def cell(self) -> NDArray[np.intp]:
        """The cell of each guess, by its chance."""
        return cells_of(self.chance)

    def placebo_alone(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Score, chance and success of each placebo row's own guess."""
        rows = self.own & ~self.audited
        return self.scores[rows], self.chance[rows], self.right[rows]

    def reduced(self) -> MatchedScores:
        """One guess a unit already."""
        return self


Evidence = RunScores | CanaryScores | MemberScores | PairedScores | OutputCounts | MatchedScores
TYPES: dict[str, Any] = {
    one.__name__: one for one in (RunScores, CanaryScores, MemberScores, PairedScores, OutputCounts, MatchedScores)
}
