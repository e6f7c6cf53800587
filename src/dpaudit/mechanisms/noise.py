"""Small mechanisms to audit: noisy sums and randomised response, as honest as their claim, or with a named bug.

A mechanism *promises* through `claim(delta)` and *does* through `release(dataset, seed)`; a bug is where the two part.
The honest ones draw the noise that the claim needs. Their broken twins are the same values with another source of
noise (theory:ground-truth#known-bugs); `testing.broken` puts each beside the data and the attack that show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit.bounds import Relation, UpperBound, relation

Noise = Callable[[Generator, float, tuple[int, ...]], NDArray[np.float64]]
"""Noise of a scale and a shape."""


@runtime_checkable
class Mechanism(Protocol):
    """What is audited: something that releases a value of a data set, and promises something about it.

    `release` draws all its randomness from `seed`. It may be joined by `release_many(dataset, seeds)`, which returns
    what `release` would for each seed. `dpaudit.testing.check_mechanism` checks all of this.
    """

    @property
    def relation(self) -> Relation: ...
    def release(self, dataset: Any, seed: int) -> Any: ...
    def claim(self, delta: float) -> UpperBound: ...


# --------------------------------------------------------------------------------------------------- sources of noise


def gaussian(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Independent Gaussian noise with this standard deviation: what the claims need."""
    return rng.normal(0.0, scale, shape)


def deviation_as_variance(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Bug 1: the standard deviation went into a parameter that is a variance."""
    return rng.normal(0.0, math.sqrt(scale), shape)


@dataclass(frozen=True)
class DividedTwice:
    """Bug 2: the noise is divided by the batch size once too often."""

    batch: int

    def __call__(self, rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.normal(0.0, scale / self.batch, shape)


def reused_key(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Bug 5: every step draws from the same key, so all steps have the same noise."""
    return np.broadcast_to(rng.normal(0.0, scale, shape[1:]), shape)


def broadcast_scalar(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Bug 6: one number of noise is added to every coordinate."""
    return np.broadcast_to(rng.normal(0.0, scale, (*shape[:-1], 1)), shape)


@dataclass(frozen=True)
class DividedAmongWorkers:
    """Bug 7: each worker adds scale / workers, which sums to scale / sqrt(workers)."""

    workers: int

    def __call__(self, rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return rng.normal(0.0, scale / self.workers, (self.workers, *shape)).sum(axis=0)


def laplace(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Independent Laplace noise of this scale."""
    return rng.laplace(0.0, scale, shape)


def inverted_scale(rng: Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The scale 1 / epsilon went in as its inverse."""
    return rng.laplace(0.0, 1.0 / scale, shape)


# --------------------------------------------------------------------------------------------------------- mechanisms


@dataclass(frozen=True, kw_only=True)
class GaussianSum:
    """A sum of numbers, each clipped to [-1, 1], with Gaussian noise of this standard deviation."""

    noise_multiplier: float
    relation: Relation = Relation.ADD_REMOVE
    noise: Noise = gaussian

    def __post_init__(self) -> None:
        check.number("noise_multiplier", self.noise_multiplier, low=check.TINY)
        object.__setattr__(self, "relation", relation(self.relation))

    def release(self, dataset: Any, seed: int) -> float:
        return self.release_many(dataset, [seed])[0]

    def release_many(self, dataset: Any, seeds: Sequence[int]) -> list[float]:
        return _noisy_sums(dataset, seeds, self.noise, self.noise_multiplier)

    def claim(self, delta: float) -> UpperBound:
        mu = accounting.sensitivity(self.relation) / self.noise_multiplier
        return accounting.gaussian(mu=mu, delta=delta, relation=self.relation)


@dataclass(frozen=True, kw_only=True)
class LaplaceSum:
    """A sum of numbers, each clipped to [-1, 1], with Laplace noise of scale sensitivity / epsilon."""

    epsilon: float
    relation: Relation = Relation.ADD_REMOVE
    noise: Noise = laplace

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=check.TINY)
        object.__setattr__(self, "relation", relation(self.relation))

    def release(self, dataset: Any, seed: int) -> float:
        return self.release_many(dataset, [seed])[0]

    def release_many(self, dataset: Any, seeds: Sequence[int]) -> list[float]:
        return _noisy_sums(dataset, seeds, self.noise, accounting.sensitivity(self.relation) / self.epsilon)

    def claim(self, delta: float) -> UpperBound:
        return accounting.laplace(epsilon=self.epsilon, relation=self.relation, delta=delta)


def _noisy_sums(dataset: Any, seeds: Sequence[int], noise: Noise, scale: float) -> list[float]:
    total = float(np.clip(dataset, -1.0, 1.0).sum())
    return [total + float(noise(np.random.default_rng(seed), scale, (1,))[0]) for seed in seeds]


@dataclass(frozen=True, kw_only=True)
class VectorSum:
    """Sums of vectors, each clipped to length 1, with Gaussian noise on every coordinate.

    Row i belongs to batch i mod `batches`, and each batch has a sum of its own, as in one epoch of training. Under
    add/remove, the record that comes and goes is the last row, so that the others keep their batch.

    `accounted` is the relation that the claim's number was computed for; where it is not `relation`, the promise is
    made for one adjacency and the number taken from another (bug 13).
    """

    noise_multiplier: float
    relation: Relation = Relation.ADD_REMOVE
    batches: int = 1
    noise: Noise = gaussian
    accounted: Relation | None = None

    def __post_init__(self) -> None:
        check.number("noise_multiplier", self.noise_multiplier, low=check.TINY)
        check.count("batches", self.batches, low=1)
        object.__setattr__(self, "relation", relation(self.relation))
        if self.accounted is not None:
            object.__setattr__(self, "accounted", relation(self.accounted))

    def release(self, dataset: Any, seed: int) -> NDArray[np.float64]:
        return self.release_many(dataset, [seed])[0]

    def release_many(self, dataset: Any, seeds: Sequence[int]) -> list[NDArray[np.float64]]:
        rows = np.asarray(dataset, dtype=np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        clipped = rows / np.maximum(lengths, 1.0)
        sums = np.stack([clipped[batch :: self.batches].sum(axis=0) for batch in range(self.batches)])
        return [sums + self.noise(np.random.default_rng(seed), self.noise_multiplier, sums.shape) for seed in seeds]

    def claim(self, delta: float) -> UpperBound:
        mu = accounting.sensitivity(self.accounted or self.relation) / self.noise_multiplier
        return accounting.gaussian(mu=mu, delta=delta, relation=self.relation)


def truth_rate(epsilon: float, classes: int) -> float:
    """How often k-ary randomised response tells the truth: e^epsilon / (e^epsilon + k - 1)."""
    return math.exp(epsilon) / (math.exp(epsilon) + classes - 1)


def binary_truth_rate(epsilon: float, classes: int) -> float:
    """The rate of two classes, used whatever their number: epsilon becomes epsilon + log(k - 1)."""
    return truth_rate(epsilon, 2)


@dataclass(frozen=True, kw_only=True)
class KaryResponse:
    """Labels, each kept with the rate of randomised response, else replaced by one of the others."""

    epsilon: float
    classes: int = 2
    relation: Relation = Relation.LABEL
    rate: Callable[[float, int], float] = truth_rate

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=0.0)
        check.count("classes", self.classes, low=2)
        object.__setattr__(self, "relation", relation(self.relation))

    def release(self, dataset: Any, seed: int) -> NDArray[np.int64]:
        labels, rng = np.asarray(dataset, dtype=np.int64), np.random.default_rng(seed)
        kept = rng.random(labels.size) < self.rate(self.epsilon, self.classes)
        others = (labels + rng.integers(1, self.classes, size=labels.size)) % self.classes
        return np.where(kept, labels, others)

    def claim(self, delta: float) -> UpperBound:
        return accounting.randomized_response(
            epsilon=self.epsilon, classes=self.classes, relation=self.relation, delta=delta
        )
