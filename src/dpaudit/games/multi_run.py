"""Many independent runs, with the record and without it (or with another): the strongest evidence, if one can rerun."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check
from dpaudit.bounds import Relation, relation
from dpaudit.evidence import RunScores
from dpaudit.execution import (
    Execution,
    RunFailed,
    distinct_seeds,
    file_digests,
    file_names,
    load_function,
    paired_worlds,
    takes,
)
from dpaudit.games.game import RUNNER, Play, Runner, plan_of

MOST = 10_000_000
"""Runs in each world: more would not fit into memory."""


class Score(Protocol):
    """The one adapter of a trainer: run it with the record (`world` true) or without, and say how present it looks.

    All randomness of the run comes from `seed`. A score may also offer `many(world, seeds)`, which returns the same
    numbers for several seeds at once.
    """

    def __call__(self, world: bool, seed: int) -> float: ...


class OfCode:
    """A game of code that is run: its evidence rests on nothing but its coins, no control is needed, and it is played
    once."""

    files: tuple[str, ...]

    assumptions: ClassVar[tuple[Assumption, ...]] = ()
    checks: ClassVar[tuple[Check, ...]] = ()
    attempts: ClassVar[int] = 1

    def plan(self, seed: int) -> dict[str, Any]:
        """Everything but what the runs say. How they are cut into jobs does matter, who runs them does not."""
        return plan_of(self, files=file_digests(self.files))


@dataclass(frozen=True, kw_only=True)
class MultiRun(OfCode):
    """`runs` runs in each world, in an order that fair coins decide.

    Attributes
    ----------
    score
        `score(world: bool, seed: int) -> float`, a callable or "file.py:function". Higher means "present".
    relation
        What `world` switches: "add-remove" (with the record, or without it), "substitute" (with one record, or with
        another in its place), "zero-out", "label".
    runs
        Runs in each world.
    unit
        What one record stands for, such as "record" or "user".
    block
        Runs a job. More than one is for scores that take less than a few milliseconds.
    files
        Files that the score reads or runs (data, scripts): changing one makes another plan.
    """

    score: Any
    relation: Relation
    runs: int
    unit: str = "record"
    block: int = 1
    files: tuple[str, ...] = ()
    folder: InitVar[str | Path] = "."

    kind: ClassVar[str] = "multi-run"
    purpose: ClassVar[str] = "worlds of runs"
    evidence_type: ClassVar[type] = RunScores

    def __post_init__(self, folder: str | Path) -> None:
        check.count("runs", self.runs, low=1, high=MOST)
        check.count("block", self.block, low=1)
        settle(self, "score", folder)
        check_score_call(self.score)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The world of each run: of every two runs one is with the record, and a coin says which."""
        return paired_worlds(seed, self.purpose, self.runs)

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Run everything that the store does not have yet; the same evidence from any number of workers."""
        worlds, seeds = self.coins(seed), distinct_seeds(seed, "runs", 2 * self.runs)
        jobs = [
            (start, worlds[start : start + self.block].tolist(), seeds[start : start + self.block])
            for start in range(0, 2 * self.runs, self.block)
        ]
        parts = runner.map(_Runs(self.score), jobs)
        scores = np.array([score for part in parts for score in part])
        evidence = RunScores(
            present=scores[worlds], absent=scores[~worlds], relation=self.relation, unit=self.unit, seed=seed
        )
        return Play(evidence=(evidence,))


def from_score(score: Any, *, relation: Relation | str, runs: int, unit: str = "record") -> MultiRun:
    """The game of a score and nothing else: many runs of it."""
    return MultiRun(score=score, relation=relation, runs=runs, unit=unit)  # type: ignore[arg-type]  # checked there


def settle(game: Any, name: str, folder: str | Path) -> None:
    """What every game does that calls a function of the user: load it, find its files, and compare the relations."""
    object.__setattr__(game, "relation", relation(game.relation))
    check.unit(game.unit)
    object.__setattr__(game, "files", file_names(game.files, folder))
    if isinstance(getattr(game, name), str):
        object.__setattr__(game, name, load_function(getattr(game, name), field=name, folder=folder))
    check_score_relation(getattr(game, name), game.relation)


def check_score_call(score: Any) -> None:
    """Refuse what cannot be called as a score."""
    check_call("score", score, ("world", "seed"), "write def score(world: bool, seed: int) -> float.")


def check_call(name: str, function: Any, arguments: tuple[str, str], hint: str) -> None:
    """Refuse what is no function of these two."""
    if not callable(function) or not takes(function, *arguments):
        raise InputError(f"`{name}` must be a function of ({', '.join(arguments)}), got {function!r}.", hint)


def check_score_relation(score: Any, asked: Relation) -> None:
    """Refuse a score that says itself that its worlds differ in another way."""
    own = getattr(score, "relation", None)
    if own is not None and relation(own) is not asked:
        raise InputError(
            f"`relation` must be that of the score ({own!s}), got {asked!s}.",
            "the score says what its worlds switch; a claim of another adjacency is not about it.",
        )


def run_batch(score: Score, jobs: list[tuple[int, list[bool], list[int]]], execution: Execution) -> list[float]:
    """The scores of a few jobs (number of the first run, worlds, seeds), in order."""
    return [value for part in execution.map(_Runs(score), jobs) for value in part]


@dataclass(frozen=True)
class _Runs:
    """One job: a few runs in the order of the plan."""

    score: Any

    def __call__(self, job: tuple[int, list[bool], list[int]]) -> list[float]:
        start, worlds, seeds = job
        many = getattr(self.score, "many", None)
        if many is None:
            found = [self.score(world, seed) for world, seed in zip(worlds, seeds, strict=True)]
        else:
            found = _by_world(many, worlds, seeds)
        return [_finite(score, _where(start + k, worlds[k], seeds[k])) for k, score in enumerate(found)]

    def describe(self, job: tuple[int, list[bool], list[int]]) -> str:
        """How a failed job is named."""
        start, worlds, seeds = job
        one = _where(start, worlds[0], seeds[0])
        return one if len(worlds) == 1 else f"one of runs {start} to {start + len(worlds) - 1}"


def _by_world(many: Callable[[bool, list[int]], Any], worlds: list[bool], seeds: list[int]) -> list[Any]:
    found: list[Any] = [None] * len(seeds)
    for world in (False, True):
        places = [k for k, there in enumerate(worlds) if there is world]
        if not places:
            continue
        scores = np.asarray(many(world, [seeds[k] for k in places]))
        if scores.shape != (len(places),):
            raise RunFailed(f"`many` must return one score a seed ({len(places)}), got shape {scores.shape}.")
        for place, score in zip(places, scores.tolist(), strict=True):
            found[place] = score
    return found


def _where(run: int, world: bool, seed: int) -> str:
    return f"run {run} (world {world}, seed {seed})"


def _finite(score: Any, where: str) -> float:
    """A run without a score cannot be dropped (that would be a selection), so it stops the audit."""
    try:
        value = float(score)
    except (TypeError, ValueError):
        raise RunFailed(f"{where} must return a number, got {_short(score)}.") from None
    if not math.isfinite(value):
        raise RunFailed(f"{where} must return a finite score, got {value}.")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, kw_only=True)
class Distinguisher:
    """The score of a `Mechanism`: release one of two neighbouring data sets, and reduce what is released to a number.

    `statistic(release)` is the attack. Known canaries and the log-likelihood ratio are the strongest choices.
    """

    mechanism: Any
    present: NDArray[Any]
    absent: NDArray[Any]
    statistic: Callable[[Any], float]

    def __call__(self, world: bool, seed: int) -> float:
        return float(self.statistic(self.mechanism.release(self.present if world else self.absent, seed)))

    def many(self, world: bool, seeds: Sequence[int]) -> list[float]:
        """The same for several seeds, at once where the mechanism can."""
        data = self.present if world else self.absent
        release_many = getattr(self.mechanism, "release_many", None)
        if release_many is None:
            return [self(world, seed) for seed in seeds]
        return [float(self.statistic(release)) for release in release_many(data, seeds)]
