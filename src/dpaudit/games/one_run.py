"""One run with canaries that fair coins put in or leave out: what can be done where training is dear."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit.bounds import Relation
from dpaudit.evidence import SIDES, CanaryScores
from dpaudit.execution import (
    RunFailed,
    distinct_seeds,
    fair_coins,
)
from dpaudit.games.game import RUNNER, Play, Runner
from dpaudit.games.multi_run import OfCode, check_call, settle

MOST = 100_000_000
"""Canaries: more would not fit into memory."""


@dataclass(frozen=True, kw_only=True)
class OneRun(OfCode):
    """Canary i takes part in the one run if coin i says so; every canary is scored afterwards.

    Attributes
    ----------
    scores
        `scores(included, seed) -> one number a canary`, a callable or "file.py:function". `included` is an array of
        true / false; train with exactly those canaries, then score all of them, higher meaning "was included". The
        function must not look at `included` when it scores.
    canaries
        How many there are.
    relation
        What a coin switches: "add-remove" (in, or nothing in its place) or "substitute" (this record, or its partner).
    unit
        What one canary stands for, such as "record" or "user".
    sides
        How guesses are read off the scores; see `CanaryScores`.
    files
        Files that the function reads or runs: changing one makes another plan.
    """

    scores: Any
    canaries: int
    relation: Relation
    unit: str = "record"
    sides: str = "both"
    files: tuple[str, ...] = ()
    folder: InitVar[str | Path] = "."

    kind: ClassVar[str] = "one-run"
    purpose: ClassVar[str] = "coins of canaries"
    evidence_type: ClassVar[type] = CanaryScores

    def __post_init__(self, folder: str | Path) -> None:
        check.count("canaries", self.canaries, low=1, high=MOST)
        check.choice("sides", self.sides, SIDES)
        settle(self, "scores", folder)
        hint = "write def scores(included, seed): ... return one number a canary."
        check_call("scores", self.scores, ("included", "seed"), hint)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """Which canaries take part."""
        return fair_coins(seed, self.purpose, self.canaries)

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Train once, or read the finished run from the store."""
        included = self.coins(seed)
        (scores,) = runner.map(_Training(self.scores), [(included, distinct_seeds(seed, "run", 1)[0])])
        evidence = CanaryScores(
            scores=scores,
            included=included,
            relation=self.relation,
            unit=self.unit,
            sides=self.sides,
            seed=seed,
        )
        return Play(evidence=(evidence,))


@dataclass(frozen=True)
class _Training:
    scores: Any

    def __call__(self, job: tuple[NDArray[np.bool_], int]) -> list[float]:
        included, seed = job
        found = np.asarray(self.scores(included.copy(), seed), dtype=np.float64)
        if found.shape != included.shape or not np.isfinite(found).all():
            raise RunFailed(f"the run must return one finite score for each of {included.size} canaries.")
        return list(found.tolist())

    def describe(self, job: Any) -> str:
        """How a failed run is named."""
        return f"the run (seed {job[1]})"
