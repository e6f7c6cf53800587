"""Many independent trials of something that only answers: how often each answer comes to each query, in both worlds."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence import OutputCounts
from dpaudit.execution import (
    RunFailed,
    distinct_seeds,
    paired_worlds,
)
from dpaudit.games.game import RUNNER, Play, Runner
from dpaudit.games.multi_run import MOST, OfCode, check_call, settle


@dataclass(frozen=True, kw_only=True)
class Prediction(OfCode):
    """Private prediction from the outside: `trials` runs in each world, all queries asked once in each.

    Attributes
    ----------
    answers
        `answers(world: bool, seed: int) -> one answer a query`, a callable or "file.py:function"; an answer is a number
        from 0 to `classes` - 1 (give "no answer" a number of its own). A trial draws everything anew from its seed: the
        noise, and whatever else is random in the mechanism that is audited (the teachers, if their training is).
    classes
        How many answers there are to a query.
    queries
        How many queries a trial asks.
    trials
        Trials in each world.
    independent
        Whether the answers to different queries are independent given the data set; only then does their leakage add.
    relation
        What `world` switches.
    unit
        What one record stands for, such as "record" or "user".
    block
        Trials a job.
    files
        Files that the function reads or runs: changing one makes another plan.
    """

    answers: Any
    classes: int
    queries: int
    trials: int
    relation: Relation
    independent: bool = False
    unit: str = "record"
    block: int = 100
    files: tuple[str, ...] = ()
    folder: InitVar[str | Path] = "."

    kind: ClassVar[str] = "prediction"
    purpose: ClassVar[str] = "worlds of trials"
    evidence_type: ClassVar[type] = OutputCounts

    def __post_init__(self, folder: str | Path) -> None:
        if not isinstance(self.independent, bool):
            raise InputError(f"`independent` must be true or false, got {self.independent!r}.")
        check.count("classes", self.classes, low=2)
        for name in ("queries", "trials", "block"):
            check.count(name, getattr(self, name), low=1, high=MOST)
        settle(self, "answers", folder)
        hint = "write def answers(world: bool, seed: int): ... return one number a query."
        check_call("answers", self.answers, ("world", "seed"), hint)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The world of each trial: of every two trials one is with the record, and a coin says which."""
        return paired_worlds(seed, self.purpose, self.trials)

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Run every trial that the store does not have yet; the same counts from any number of workers."""
        worlds, seeds = self.coins(seed), distinct_seeds(seed, "trials", 2 * self.trials)
        jobs = [
            (worlds[start : start + self.block].tolist(), seeds[start : start + self.block])
            for start in range(0, 2 * self.trials, self.block)
        ]
        parts = runner.map(_Trials(self.answers, self.queries, self.classes), jobs)
        counts = np.sum(np.array(parts), axis=0).astype(np.int64).reshape(2, self.queries, self.classes)
        evidence = OutputCounts(
            present=counts[1],
            absent=counts[0],
            relation=self.relation,
            independent=self.independent,
            unit=self.unit,
            seed=seed,
        )
        return Play(evidence=(evidence,))


@dataclass(frozen=True)
class _Trials:
    """One job: a few trials, as counts (world, query, answer)."""

    answers: Any
    queries: int
    classes: int

    def __call__(self, job: tuple[list[bool], list[int]]) -> list[float]:
        counts = np.zeros((2, self.queries, self.classes))
        for world, seed in zip(*job, strict=True):
            counts[int(world), np.arange(self.queries), self._checked(self.answers(world, seed), world, seed)] += 1.0
        return [float(value) for value in counts.ravel()]

    def _checked(self, found: Any, world: bool, seed: int) -> NDArray[np.int64]:
        """A trial without an answer cannot be dropped (that would be a selection), so it stops the audit."""
        answers = np.asarray(found)
        whole = answers.shape == (self.queries,) and answers.dtype.kind in "iu"
        if not whole or answers.min() < 0 or answers.max() >= self.classes:
            raise RunFailed(
                f"the trial of world {world} and seed {seed} must return {self.queries} whole numbers from 0 to "
                f"{self.classes - 1}, got {str(found)[:60]}."
            )
        return answers.astype(np.int64)

    def describe(self, job: tuple[list[bool], list[int]]) -> str:
        """How a failed job is named."""
        return f"one of {len(job[0])} trials (first seed {job[1][0]})"
