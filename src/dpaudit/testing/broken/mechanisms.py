"""The list of bugs: each bug beside its honest twin, two neighbouring data sets and the attack that shows it.

See theory:ground-truth#known-bugs.

from dpaudit import games
from dpaudit.testing.broken import mechanisms as broken

bug = broken.specimens()["1"]
score = games.Distinguisher(mechanism=bug.broken, **bug.attack)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds import Relation
from dpaudit.mechanisms import noise


@dataclass(frozen=True)
class Projection:
    """The release along a direction that is known before anything runs."""

    direction: NDArray[np.float64]

    def __call__(self, release: Any) -> float:
        return float(np.sum(np.asarray(release) * self.direction))


@dataclass(frozen=True)
class LabelIs:
    """Whether the last label came out as this one."""

    label: int

    def __call__(self, release: Any) -> float:
        return float(release[-1] == self.label)


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """One bug: what it is, the two mechanisms, their neighbouring data sets, the attack, and how many runs show it.

    `runs` is 1.5 times the number of runs a side at which theory:power#plan-runs puts the power of the default test
    near .9.
    """

    row: str
    bug: str
    broken: Any
    honest: Any
    present: NDArray[Any]
    absent: NDArray[Any]
    statistic: Any
    runs: int

    @property
    def attack(self) -> dict[str, Any]:
        """The fields of a `games.Distinguisher` except for the mechanism."""
        return {"present": self.present, "absent": self.absent, "statistic": self.statistic}


def specimens(rows: NDArray[np.float64] | None = None) -> dict[str, Specimen]:
    """The bugs that a noise mechanism can have, by the row of the table; `rows` is the rest of the data set."""
    others = _unit_rows() if rows is None else np.asarray(rows, dtype=np.float64)
    canary = np.zeros(others.shape[1])
    canary[:2] = np.sqrt(0.5), -np.sqrt(0.5)  # a contrast: noise that is the same everywhere cancels along it
    known: dict[str, Any] = {"present": np.vstack([others, canary]), "absent": others, "statistic": Projection(canary)}
    swapped = known | {"absent": np.vstack([others, -canary])}
    wide, unit = noise.VectorSum(noise_multiplier=4.0), noise.VectorSum(noise_multiplier=1.0)
    epoch, pair = replace(unit, batches=2), replace(unit, relation=Relation.SUBSTITUTE)
    last = others.shape[0] % 2
    difference = np.stack([canary, -canary] if last == 0 else [-canary, canary])
    turned = known | {"statistic": Projection(difference)}
    found: list[tuple[str, str, Any, Any, dict[str, Any], int]] = [
        ("1", "standard deviation passed as variance", noise.deviation_as_variance, wide, known, 900),
        ("2", "noise divided by the batch size once too often", noise.DividedTwice(32), unit, known, 30),
        ("5", "random key reused in every step", noise.reused_key, epoch, turned, 30),
        ("6", "one number of noise broadcast over all coordinates", noise.broadcast_scalar, unit, known, 30),
        ("7", "each of four workers adds a quarter of the noise", noise.DividedAmongWorkers(4), unit, known, 90),
    ]
    bugs = {
        row: Specimen(row=row, bug=bug, broken=replace(honest, noise=wrong), honest=honest, **attack, runs=runs)
        for row, bug, wrong, honest, attack, runs in found
    }
    adjacency = Specimen(
        row="13",
        bug="add/remove accounting claimed as protection against substitution",
        broken=replace(pair, accounted=Relation.ADD_REMOVE),
        honest=pair,
        **swapped,
        runs=90,
    )
    return bugs | {adjacency.row: adjacency}


def _unit_rows() -> NDArray[np.float64]:
    rows = np.random.default_rng(6).normal(size=(40, 8))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
