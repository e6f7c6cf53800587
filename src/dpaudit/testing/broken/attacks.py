"""The list of bugs of DP-SGD: each bug of the batched trainer beside the attack that shows it.

See theory:ground-truth#known-bugs, rows 1 to 13.

    from dpaudit import games
    from dpaudit.testing.broken import attacks as broken

    bug = broken.dp_sgd_bugs()["shuffled_batches"]
    runs = games.TrainedRuns(runs=bug.runs, recipe=bug.broken, **bug.attack).play(seed=1)
    judge(runs, bug.broken.claim(1e-5))

The data are made so that the attack is as strong as the bug allows: mostly records without a gradient; where a bug
works through the others' gradients, records that all pull one way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.scores import ReleasedSum, TranscriptEnergy, TranscriptLargest, TranscriptRange
from dpaudit.bounds import Relation
from dpaudit.mechanisms.dpsgd import BUGS, ROWS, DPSGDConfig, GradientCanary

__all__ = ["TrainerBug", "dp_sgd_bugs"]

HUGE = 1000.0
"""Length of a canary that a clip should have shortened."""


@dataclass(frozen=True, kw_only=True)
class TrainerBug:
    """One bug: the recipe that has it, the data, the canary and the score that show it, and how many runs a side do."""

    name: str
    broken: DPSGDConfig
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    canary: GradientCanary
    score: Any
    runs: int

    @property
    def row(self) -> str:
        """Row of theory:ground-truth#known-bugs."""
        return ROWS[self.name]

    @property
    def sentence(self) -> str:
        """What is wrong."""
        return BUGS[self.name]

    @property
    def honest(self) -> DPSGDConfig:
        """The same recipe as promised."""
        return replace(self.broken, bug=None)

    @property
    def attack(self) -> dict[str, Any]:
        """The fields of a `games.TrainedRuns` except for the recipe and the runs."""
        return {"x": self.x, "y": self.y, "canary": self.canary, "score": self.score}


def dp_sgd_bugs() -> dict[str, TrainerBug]:
    """The thirteen bugs, by name."""
    first, both = np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])
    contrast, second = np.array([[1.0], [-1.0]]) / np.sqrt(2.0), np.array([[0.0], [1.0]])
    wide, unit = DPSGDConfig(noise_multiplier=4.0, steps=16), DPSGDConfig(noise_multiplier=2.0, steps=4)
    still, pulling = _still(19), _pulling(20)
    one, batches = replace(unit, noise_multiplier=1.0, steps=1), replace(unit, sampling_rate=0.25)
    pair = replace(unit, relation=Relation.SUBSTITUTE)
    along = {"canary": GradientCanary(first), "score": ReleasedSum(first)}
    in_all = {"canary": GradientCanary(HUGE * both), "score": ReleasedSum(both)}
    watched = {"canary": GradientCanary(first), "score": TranscriptRange(first)}
    found = [
        _bug("deviation_as_variance", wide, still, along, runs=100),
        _bug("noise_divided_twice", one, still, along, runs=50),
        _bug("batch_clip", one, pulling, along | {"canary": GradientCanary(HUGE * first)}, runs=100),
        _bug("layer_clip", unit, still, in_all, runs=400),
        _bug("reused_key", replace(one, steps=4, sampling_rate=0.5), still, watched, runs=100),
        _bug("broadcast_noise", one, still, _seen_along(contrast), runs=50),
        _bug("workers_divide_noise", unit, still, along, runs=100),
        _bug(
            "shuffled_batches",
            replace(batches, noise_multiplier=0.5),
            still,
            watched | {"score": TranscriptLargest(first)},
            runs=400,
        ),
        _bug(
            "realised_batch_size",
            wide,
            _still(4, columns=32),
            {"canary": GradientCanary(np.zeros((32, 1))), "score": TranscriptEnergy()},
            runs=50,
        ),
        _bug("private_scaling", one, pulling, along | {"canary": GradientCanary(HUGE * second)}, runs=50),
        _bug("summed_augmentations", replace(one, noise_multiplier=2.0), still, along, runs=100),
        _bug("silent_group", one, still, _seen_along(second), runs=50),
        _bug("add_remove_accounting", pair, still, along | {"canary": GradientCanary(first, -first)}, runs=100),
    ]
    return {bug.name: bug for bug in found}


def _bug(name: str, config: DPSGDConfig, data: Any, attack: dict[str, Any], *, runs: int) -> TrainerBug:
    return TrainerBug(name=name, broken=replace(config, bug=name), x=data[0], y=data[1], **attack, runs=runs)


def _seen_along(direction: NDArray[Any]) -> dict[str, Any]:
    return {"canary": GradientCanary(direction), "score": ReleasedSum(direction)}


def _still(records: int, columns: int = 2) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Records without a gradient."""
    return np.zeros((records, columns), dtype=np.float32), np.zeros(records, dtype=np.int64)


def _pulling(records: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Records whose gradients all point along the negative of the first coordinate."""
    rows = np.zeros((records, 2), dtype=np.float32)
    rows[:, 0] = 1.0
    return rows, np.ones(records, dtype=np.int64)
