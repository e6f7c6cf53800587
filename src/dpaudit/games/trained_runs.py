"""Runs of the batched trainer: thousands of models as a few jobs, or one training with many canaries in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence import RunScores
from dpaudit.execution import distinct_seeds, paired_worlds
from dpaudit.games.game import RUNNER, Play, Runner, plan_of
from dpaudit.games.multi_run import MOST, OfCode
from dpaudit.mechanisms.dpsgd import BLOCK, CoordinateCanaries, DPSGDConfig, bound_model, log_likelihoods, train


@dataclass(frozen=True, kw_only=True)
class TrainedRuns(OfCode):
    """`runs` models in each world, trained by `mechanisms.dpsgd`, scored after one step that is fixed in advance.

    Attributes
    ----------
    config, x, y, canary
        What `train` takes; the relation is the recipe's. `x` and `y` are the data without the canary.
    score
        An observer such as `attacks.Displacement`, higher where the canary's world is `present`.
    runs
        Models in each world.
    at
        The step after which the score is taken; None: the last. Several are several evidences of the same runs: their
        error probability is shared out among them.
    blocks
        Blocks a job.
    width
        Models a block; 64 suits most, more are quicker for very small models. Another width is another draw.
    unit
        What one record stands for, such as "record" or "user".
    """

    config: DPSGDConfig
    x: Any
    y: Any
    canary: Any
    score: Any
    runs: int
    at: int | tuple[int, ...] | None = None
    blocks: int = 4
    width: int = BLOCK
    unit: str = "record"

    kind: ClassVar[str] = "trained-runs"
    purpose: ClassVar[str] = "worlds of trained models"
    evidence_type: ClassVar[type] = RunScores

    def __post_init__(self) -> None:
        if not isinstance(self.config, DPSGDConfig):
            raise InputError(f"`config` must be a DPSGDConfig, got {type(self.config).__name__}.")
        if not hasattr(self.canary, "fits") or not callable(self.score):
            raise InputError("`canary` must be a GradientCanary or the like, and `score` an observer of states.")
        if not self.canary.fits(self.config.relation):
            raise InputError(
                f"the worlds of this {type(self.canary).__name__} do not differ by {self.config.relation!s}.",
                "add/remove has a record or nothing, substitution two records, label two that differ in it alone.",
            )
        for name, kind in (("x", np.float32), ("y", None)):
            object.__setattr__(self, name, _numbers(name, getattr(self, name), kind))
        check.unit(self.unit)
        check.count("runs", self.runs, low=1, high=MOST)
        check.count("blocks", self.blocks, low=1)
        check.count("width", self.width, low=1)
        if self.at is not None:
            listed = [self.at] if isinstance(self.at, int) else check.items("at", self.at)
            steps = [check.count("at", step, low=1, high=self.config.steps, high_name="steps") for step in listed]
            if not steps or len(set(steps)) < len(steps):
                raise InputError(f"`at` must name at least one step, and none twice, got {steps}.")
            object.__setattr__(self, "at", tuple(steps))

    @property
    def relation(self) -> Relation:
        return self.config.relation

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps after which the models are scored."""
        return (self.config.steps,) if self.at is None else self.at  # type: ignore[return-value]  # made a tuple

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The world of each model: of every two one has the canary, and a coin says which."""
        return paired_worlds(seed, self.purpose, self.runs)

    def plan(self, seed: int) -> dict[str, Any]:
        """Everything but the models."""
        return plan_of(self)

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Train what the store does not have yet; bitwise the same models from any number of workers."""
        found = self.play_steps(seed=seed, runner=runner)
        return Play(evidence=tuple(found.values()), covers_claim=set(self.steps) == {self.config.steps})

    def play_steps(self, *, seed: int, runner: Runner = RUNNER) -> dict[int, RunScores]:
        """The same models scored after each of the steps.

        The evidence of one step is as good as that of any other, but it is not independent of it: choosing a step by
        what it shows costs a union over all that were looked at (`estimators.by_step` pays it, and so does an audit).
        """
        worlds, width = self.coins(seed), self.blocks * self.width
        key = distinct_seeds(seed, "trained models", 1)[0]
        work = partial(_scores_of_job, replace(self, runs=1), key, list(self.steps))
        jobs = [(start // self.width, worlds[start : start + width]) for start in range(0, worlds.size, width)]
        parts = runner.map(work, jobs)
        scores = np.concatenate([np.array(part).reshape(len(self.steps), -1) for part in parts], axis=1)
        how: dict[str, Any] = {"relation": self.relation, "unit": self.unit, "seed": seed}
        return {
            step: RunScores(present=row[worlds], absent=row[~worlds], **how)
            for step, row in zip(self.steps, scores, strict=True)
        }


def _numbers(name: str, values: Any, kind: Any) -> NDArray[Any]:
    try:
        found = np.array(values, dtype=kind)
    except (TypeError, ValueError):
        found = np.array(None)
    if found.dtype.kind not in "fiub":
        raise InputError(f"`{name}` must be an array of numbers, got {type(values).__name__}.")
    return check.read_only(found)


def _scores_of_job(game: TrainedRuns, seed: int, steps: list[int], job: tuple[int, NDArray[np.bool_]]) -> list[float]:
    first_block, worlds = job
    seen, _ = train(
        game.config,
        game.x,
        game.y,
        canary=game.canary,
        worlds=worlds,
        seed=seed,
        observe=[game.score],
        at=steps,
        first_block=first_block,
        width=game.width,
        final=False,
    )
    return [float(score) for score in seen[0].ravel()]


# -------------------------------------------------------------------------------------------------- one run, m canaries


@dataclass(frozen=True, kw_only=True)
class GradientsInOneRun:
    """The `scores` of a `OneRun`: one training in which each canary is a gradient on a coordinate of its own.

    Coin i puts canary i in (add/remove), or chooses between it and its opposite (substitution). The score is how far
    its coordinate went against it.

    Attributes
    ----------
    coordinates
        Which parameters, one for each canary; `attacks.quiet_coordinates` finds those that a dry run moves least.
    """

    config: DPSGDConfig
    x: Any
    y: Any
    coordinates: Any

    @property
    def relation(self) -> Relation:
        return self.config.relation

    def __call__(self, included: NDArray[np.bool_], seed: int) -> NDArray[np.float64]:
        config = self.config
        canaries = CoordinateCanaries(self.coordinates, config.clip, opposed=config.replaces)
        if not canaries.fits(config.relation):
            raise InputError(f"a gradient in place of another is a substitution, got {config.relation!s}.")
        worlds = np.asarray(included, dtype=np.bool_)[:, None]
        starts: list[NDArray[np.float32]] = []
        _, final = train(
            config, self.x, self.y, canary=canaries, worlds=worlds, seed=seed, width=1,
            observe=[lambda state: _kept(starts, state.start)], at=[1],
        )  # fmt: skip
        return -(final[0].ravel() - starts[0].ravel())[canaries.coordinates].astype(np.float64)


def _kept(places: list[NDArray[np.float32]], value: NDArray[np.float32]) -> NDArray[np.float32]:
    places.append(value.copy())
    return np.zeros(value.shape[1], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class RecordsInOneRun:
    """The `scores` of a `OneRun`: one training whose data hold the canary records that the coins chose.

    Attributes
    ----------
    x, y
        The rest of the data.
    canaries
        Records (rows, labels), one for each coin.
    partners
        What stands in the place of a canary that is left out; needed under substitution, none under add/remove.

    The score is the final model's log-likelihood of the canary, less that of its partner. The divisor of the sum is the
    expected batch size with all canaries in, a constant.
    """

    config: DPSGDConfig
    x: Any
    y: Any
    canaries: tuple[Any, Any]
    partners: tuple[Any, Any] | None = None

    @property
    def relation(self) -> Relation:
        return self.config.relation

    def __post_init__(self) -> None:
        labels_only = self.relation is Relation.LABEL and self.partners is not None
        if labels_only and not np.array_equal(self.canaries[0], (self.partners or ((),))[0]):
            raise InputError("`partners` must have the canaries' features where only labels are replaced.")
        if (self.partners is not None) != self.config.replaces:
            raise InputError(
                f"`partners` belong to substitution, got relation {self.config.relation!s} and "
                f"{'none' if self.partners is None else 'some'}.",
            )

    def __call__(self, included: NDArray[np.bool_], seed: int) -> NDArray[np.float64]:
        rows, labels = (np.asarray(part) for part in self.canaries)
        chosen = np.asarray(included, dtype=np.bool_)
        if chosen.size != labels.size:
            raise InputError(f"`canaries` must be one for each coin ({chosen.size}), got {labels.size}.")
        others = [] if self.partners is None else [np.asarray(part) for part in self.partners]
        if self.partners is None:
            x, y = np.vstack([self.x, rows[chosen]]), np.append(self.y, labels[chosen])
        else:
            x = np.vstack([self.x, np.where(chosen[:, None], rows, others[0])])
            y = np.append(self.y, np.where(chosen, labels, others[1]))
        size = np.asarray(self.y).size + labels.size
        _, final = train(self.config, x, y, models=1, seed=seed, width=1, records=size)
        model = bound_model(self.config, np.ascontiguousarray(x, dtype=np.float32), y)
        weights = np.ascontiguousarray(final.transpose(1, 0, 2))
        loss = self.config.loss
        found = log_likelihoods(loss, model.outputs(weights, rows)[:, 0, :], labels)
        if self.partners is not None:
            found -= log_likelihoods(loss, model.outputs(weights, others[0])[:, 0, :], others[1])
        return found
