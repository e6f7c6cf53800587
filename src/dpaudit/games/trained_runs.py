"""Many runs of the batched trainer: thousands of models as a few jobs, each a few blocks of 64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence import RunScores
from dpaudit.execution import Execution, distinct_seeds, fingerprint, kept_runs
from dpaudit.games import _coins
from dpaudit.mechanisms.dpsgd import BLOCK, DpSgd, train

PURPOSE = "worlds of trained models"


@dataclass(frozen=True, kw_only=True)
class TrainedRuns:
    """`runs` models in each world, trained by `mechanisms.dpsgd`, scored after one step that is fixed in advance.

    Attributes
    ----------
    recipe, x, y, canary
        What `train` takes; the relation is the recipe's. `x` and `y` are the data without the canary.
    score
        An observer such as `attacks.Displacement`, higher where the canary's world is `present`.
    at
        The step after which the score is taken; None: the last.
    blocks
        Blocks of 64 models a job.
    """

    recipe: DpSgd
    x: Any
    y: Any
    canary: Any
    score: Any
    runs: int
    at: int | None = None
    blocks: int = 4
    unit: str = "record"

    def __post_init__(self) -> None:
        if not isinstance(self.recipe, DpSgd):
            raise InputError(f"`recipe` must be a DpSgd, got {type(self.recipe).__name__}.")
        object.__setattr__(self, "x", check.read_only(np.array(self.x, dtype=np.float32)))
        object.__setattr__(self, "y", check.read_only(np.array(self.y)))
        check.count("runs", self.runs, low=1)
        check.count("blocks", self.blocks, low=1)
        if self.at is not None:
            check.count("at", self.at, low=1, high=self.recipe.steps, high_name="steps")

    @property
    def relation(self) -> Relation:
        return self.recipe.relation

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The world of each model: of every two one has the canary, and a coin says which."""
        return _coins.paired_worlds(seed, PURPOSE, self.runs)

    def commitment(self, seed: int) -> str:
        """A hash that commits to the order of the worlds."""
        return _coins.commitment(seed, PURPOSE, self.coins(seed))

    def fingerprint(self, seed: int) -> str:
        """What a store of these models belongs to."""
        return fingerprint([self, seed])

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "models",
    ) -> RunScores:
        """Train what the store does not have yet; bitwise the same models from any number of workers."""
        worlds, width = self.coins(seed), self.blocks * BLOCK
        key = distinct_seeds(seed, "trained models", 1)[0]
        work = partial(_scores_of_job, replace(self, runs=1), key)
        jobs = [(start // BLOCK, worlds[start : start + width]) for start in range(0, worlds.size, width)]
        with kept_runs(store, plan=partial(self.fingerprint, seed), fresh=fresh) as kept:
            parts = (execution or Execution()).map(work, jobs, store=kept, title=title)
        scores = np.array([score for part in parts for score in part])
        return RunScores(
            present=scores[worlds], absent=scores[~worlds], relation=self.relation, unit=self.unit, seed=seed
        )


def _scores_of_job(game: TrainedRuns, seed: int, job: tuple[int, NDArray[np.bool_]]) -> list[float]:
    first_block, worlds = job
    seen, _ = train(
        game.recipe,
        game.x,
        game.y,
        canary=game.canary,
        worlds=worlds,
        seed=seed,
        observe=[game.score],
        at=None if game.at is None else [game.at],
        first_block=first_block,
    )
    return [float(score) for score in seen[0, 0]]
