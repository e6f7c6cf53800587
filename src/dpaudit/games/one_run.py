"""One run with canaries that fair coins put in or leave out: what can be done where training is dear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._sources import file_digests, file_names
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, relation
from dpaudit.evidence import SIDES, CanaryScores
from dpaudit.execution import Execution, RunFailed, distinct_seeds, fingerprint, kept_runs, load_function, takes
from dpaudit.games import _coins
from dpaudit.games.multi_run import check_score_relation

PURPOSE = "coins of canaries"


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """Canary i takes part in the one run if coin i says so; every canary is scored afterwards.

    Attributes
    ----------
    scores
        `scores(included, seed) -> one number a canary`, a callable or "file.py:function". `included` is an array of
        true / false; train with exactly those canaries, then score all of them, higher meaning "was included". The
        function must not look at `included` when it scores.
    relation
        What a coin switches: "add-remove" (in, or nothing in its place) or "substitute" (this record, or its partner).
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", relation(self.relation))
        check.unit(self.unit)
        check.count("canaries", self.canaries, low=1)
        check.choice("sides", self.sides, SIDES)
        object.__setattr__(self, "files", file_names(self.files))
        if isinstance(self.scores, str):
            object.__setattr__(self, "scores", load_function(self.scores, field="scores"))
        if not callable(self.scores) or not takes(self.scores, "included", "seed"):
            raise InputError(
                f"`scores` must be a function of (included, seed), got {self.scores!r}.",
                "write def scores(included, seed): ... return one number a canary.",
            )
        check_score_relation(self.scores, self.relation)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """Which canaries take part."""
        return _coins.fair_coins(seed, PURPOSE, self.canaries)

    def commitment(self, seed: int) -> str:
        """A hash that commits to the coins."""
        return _coins.commitment(seed, PURPOSE, self.coins(seed))

    def fingerprint(self, seed: int) -> str:
        """What a store of this run belongs to."""
        return fingerprint([replace(self, files=()), seed, file_digests(self.files)])

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "run",
    ) -> CanaryScores:
        """Train once, or read the finished run from the store."""
        included, work = self.coins(seed), _Training(self.scores)
        jobs = [(included, distinct_seeds(seed, "run", 1)[0])]
        with kept_runs(store, plan=partial(self.fingerprint, seed), fresh=fresh) as kept:
            (scores,) = (execution or Execution()).map(work, jobs, store=kept, title=title)
        return CanaryScores(
            scores=scores,
            included=included,
            relation=self.relation,
            unit=self.unit,
            sides=self.sides,
            seed=seed,
        )


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
