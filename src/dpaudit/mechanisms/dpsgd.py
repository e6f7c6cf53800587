"""Batched DP-SGD: many linear models trained as one array program, in float32, with numpy alone.

64 models make a block. In each step a block takes one Poisson sample for each model, clips every example's gradient,
sums, adds Gaussian noise to the sum, divides by the *expected* batch size and takes an optimiser's step, all as matrix
products over the shared data. Coins and noise are keyed by seed, block and step, so the models are bitwise the same
whatever the number of blocks in memory, of workers, or of models that follow.

The heads are linear, so a gradient is the outer product of an example and its residual, and its length the product of
theirs: no gradient of a single example is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound, relation

BLOCK = 64
LOSSES = ("logistic", "softmax", "squared")
OPTIMIZERS = ("sgd", "momentum", "adam")
Array = NDArray[np.float32]
COINS, NOISE, START, CANARY = range(4)


@dataclass(frozen=True, kw_only=True)
class DpSgd:
    """How models are trained; the claim follows from it.

    Attributes
    ----------
    loss
        "logistic" (one logit, labels 0 and 1), "softmax" (`classes` logits) or "squared" (one output).
    optimizer
        "sgd", "momentum" (0.9) or "adam" (0.9, 0.999, 1e-8), fed with the noisy mean gradient.
    random_start
        Start each model at its own N(0, 0.01^2) parameters instead of at zero.
    relation
        The adjacency that is promised.
    """

    noise_multiplier: float
    sampling_rate: float = 1.0
    steps: int = 100
    clip: float = 1.0
    learning_rate: float = 0.5
    optimizer: str = "sgd"
    loss: str = "logistic"
    classes: int = 1
    random_start: bool = False
    relation: Relation = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        check.number("noise_multiplier", self.noise_multiplier, low=0.0)
        check.number("sampling_rate", self.sampling_rate, low=accounting.TINY, high=1.0)
        check.count("steps", self.steps, low=1)
        check.number("clip", self.clip, low=accounting.TINY)
        check.number("learning_rate", self.learning_rate, low=accounting.TINY)
        check.choice("optimizer", self.optimizer, OPTIMIZERS)
        check.choice("loss", self.loss, LOSSES)
        check.count("classes", self.classes, low=2 if self.loss == "softmax" else 1)
        if self.loss != "softmax" and self.classes != 1:
            raise InputError(f"`classes` must be 1 for the {self.loss} loss, got {self.classes}.")
        object.__setattr__(self, "relation", relation(self.relation))

    def claim(self, delta: float) -> UpperBound:
        """What the accountant promises for this recipe."""
        return accounting.dp_sgd(
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
            steps=self.steps,
            delta=delta,
            relation=self.relation,
        )


# ------------------------------------------------------------------------------------------------------------- canaries


class Canary(Protocol):
    """The record that a world decides about, as the gradients of a block before clipping."""

    def gradients(self, recipe: DpSgd, weights: Array, worlds: NDArray[np.bool_]) -> Array: ...


@dataclass(frozen=True)
class GradientCanary:
    """A record whose gradient is the same in every step: `present`, or in the other world `absent` (zeros: nothing)."""

    present: NDArray[Any]
    absent: NDArray[Any] | None = None

    def gradients(self, recipe: DpSgd, weights: Array, worlds: NDArray[np.bool_]) -> Array:
        here = np.asarray(self.present, dtype=np.float32).reshape(weights.shape[0], -1)
        other = np.zeros_like(here) if self.absent is None else np.asarray(self.absent, np.float32).reshape(here.shape)
        return np.where(worlds[None, :, None], here[:, None, :], other[:, None, :])


@dataclass(frozen=True)
class InputCanary:
    """A record (x, y), or in the other world another one (None: nothing); its gradient is that of the model."""

    present: tuple[NDArray[Any], float]
    absent: tuple[NDArray[Any], float] | None = None

    def gradients(self, recipe: DpSgd, weights: Array, worlds: NDArray[np.bool_]) -> Array:
        found = _record_gradients(recipe, weights, *self.present)
        other = np.zeros_like(found) if self.absent is None else _record_gradients(recipe, weights, *self.absent)
        return np.where(worlds[None, :, None], found, other)


def _record_gradients(recipe: DpSgd, weights: Array, x: NDArray[Any], y: float) -> Array:
    """Gradients of one record for every model of a block: (features, models, outputs)."""
    row = np.asarray(x, dtype=np.float32)
    logits = np.einsum("d,dmk->mk", row, weights)[None, :, :]
    residual = _residuals(recipe, logits, np.array([y]))[0]
    return row[:, None, None] * residual[None, :, :]


# ------------------------------------------------------------------------------------------------------------- training


@dataclass(frozen=True)
class State:
    """What an observer may look at after a step, for one block: arrays of (features, models, outputs)."""

    step: int
    weights: Array
    start: Array
    released: Array
    """The noisy sum of this step, as the mechanism released it."""
    total: Array
    """The sum of all releases so far."""


Observer = Callable[[State], Any]
"""One number a model."""


def train(
    recipe: DpSgd,
    x: Any,
    y: Any,
    *,
    canary: Canary | None = None,
    worlds: Any = None,
    models: int | None = None,
    seed: int,
    observe: Sequence[Observer] = (),
    at: Sequence[int] | None = None,
    first_block: int = 0,
) -> tuple[NDArray[np.float32], Array]:
    """Train models and watch them.

    Parameters
    ----------
    x, y
        The data that all models share, a row a record; append a column of ones for a bias.
    canary, worlds
        The record that differs, and for each model whether its world is the one with `present`.
    models
        How many, where there are no worlds.
    observe, at
        Functions of a `State` that give one number a model, and the steps (from 1) after which they are asked; by
        default the last one.
    first_block
        Where these models stand among all: a job that trains some of the blocks gets the same ones.

    Returns
    -------
    (len(observe), len(at), models) observations, and the final parameters as (models, features, outputs).
    """
    rows, labels, count, inside = _arguments(recipe, x, y, canary, worlds, models)
    steps = [recipe.steps] if at is None else [check.count("at", t, low=1, high=recipe.steps) for t in at]
    seen = np.empty((len(observe), len(steps), count), dtype=np.float32)
    final = np.empty((count, rows.shape[1], recipe.classes), dtype=np.float32)
    records = rows.shape[0] + (canary is not None)
    for start in range(0, count, BLOCK):
        here = slice(start, min(start + BLOCK, count))
        width = here.stop - here.start
        block = _Block(recipe, rows, labels, records, seed, first_block + start // BLOCK)
        worlds_here = np.zeros(BLOCK, dtype=np.bool_)
        worlds_here[:width] = inside[here]
        for step in range(1, recipe.steps + 1):
            state = block.advance(step, canary, worlds_here)
            if step in steps:
                for number, observer in enumerate(observe):
                    found = np.asarray(observer(state), dtype=np.float32)
                    seen[number, [k for k, t in enumerate(steps) if t == step], here] = found[:width]
        final[here] = block.weights.transpose(1, 0, 2)[:width]
    return seen, final


def _arguments(
    recipe: DpSgd, x: Any, y: Any, canary: Canary | None, worlds: Any, models: int | None
) -> tuple[Array, NDArray[Any], int, NDArray[np.bool_]]:
    rows, labels = np.ascontiguousarray(x, dtype=np.float32), check.vector("y", y)
    if rows.ndim != 2 or rows.shape[0] != labels.size:
        raise InputError(f"`x` must be a row for each of {labels.size} labels, got shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise InputError("`x` must be finite.")
    if (canary is None) != (worlds is None):
        raise InputError("`canary` and `worlds` belong together: give both or none.")
    if worlds is None:
        count = check.count("models", models, low=1)
        return rows, labels, count, np.zeros(count, dtype=np.bool_)
    inside = check.booleans("worlds", worlds)
    if models is not None and models != inside.size:
        raise InputError(f"`models` must be the number of worlds ({inside.size}), got {models}.")
    return rows, labels, inside.size, inside


class _Block:
    """64 models in training. Always all 64, so that the last ones do not change the others' arithmetic."""

    def __init__(self, recipe: DpSgd, x: Array, y: NDArray[Any], records: int, seed: int, number: int):
        self.recipe, self.x, self.y, self.records, self.key = recipe, x, y, records, (seed, number)
        self.lengths = np.linalg.norm(x, axis=1)
        shape = (x.shape[1], BLOCK, recipe.classes)
        self.weights = np.zeros(shape, dtype=np.float32)
        if recipe.random_start:
            self.weights += np.float32(0.01) * self._rng(START, 0).standard_normal(shape, dtype=np.float32)
        self.start, self.total = self.weights.copy(), np.zeros(shape, dtype=np.float32)
        self.moments = [np.zeros(shape, dtype=np.float32) for _ in range(2)]

    def advance(self, step: int, canary: Canary | None, worlds: NDArray[np.bool_]) -> State:
        recipe = self.recipe
        released = self._clipped_sum(step)
        if canary is not None:
            released += self._canary(step, canary, worlds)
        scale = np.float32(recipe.noise_multiplier * recipe.clip)
        released += scale * self._rng(NOISE, step).standard_normal(released.shape, dtype=np.float32)
        self.total += released
        self._update(step, released / np.float32(recipe.sampling_rate * self.records))
        return State(step, self.weights, self.start, released, self.total)

    def _rng(self, purpose: int, step: int) -> np.random.Generator:
        seed, block = self.key
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(block, step, purpose))))

    def _clipped_sum(self, step: int) -> Array:
        """Sum over each model's own Poisson sample of the clipped gradients (THEORY 001-8)."""
        n, d = self.x.shape
        logits = (self.x @ self.weights.reshape(d, -1)).reshape(n, BLOCK, -1)
        residuals = _residuals(self.recipe, logits, self.y)
        lengths = np.sqrt(np.einsum("nmk,nmk->nm", residuals, residuals)) * self.lengths[:, None]
        factors = np.minimum(np.float32(1.0), np.float32(self.recipe.clip) / np.maximum(lengths, np.float32(1e-30)))
        if self.recipe.sampling_rate < 1.0:
            factors *= self._rng(COINS, step).random(factors.shape, dtype=np.float32) < self.recipe.sampling_rate
        residuals *= factors[:, :, None]
        return (self.x.T @ residuals.reshape(n, -1)).reshape(d, BLOCK, -1)

    def _canary(self, step: int, canary: Canary, worlds: NDArray[np.bool_]) -> Array:
        """The canary goes the same way as everybody: clipped, sampled, summed."""
        found = canary.gradients(self.recipe, self.weights, worlds)
        lengths = np.sqrt(np.einsum("dmk,dmk->m", found, found))
        factors = np.minimum(np.float32(1.0), np.float32(self.recipe.clip) / np.maximum(lengths, np.float32(1e-30)))
        if self.recipe.sampling_rate < 1.0:
            factors *= self._rng(CANARY, step).random(BLOCK, dtype=np.float32) < self.recipe.sampling_rate
        return found * factors[None, :, None]

    def _update(self, step: int, gradient: Array) -> None:
        rate = np.float32(self.recipe.learning_rate)
        first, second = self.moments
        if self.recipe.optimizer == "sgd":
            self.weights -= rate * gradient
        elif self.recipe.optimizer == "momentum":
            first *= np.float32(0.9)
            first += gradient
            self.weights -= rate * first
        else:
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            mean, square = first / np.float32(1.0 - 0.9**step), second / np.float32(1.0 - 0.999**step)
            self.weights -= rate * mean / (np.sqrt(square) + np.float32(1e-8))


def _residuals(recipe: DpSgd, logits: Array, y: NDArray[Any]) -> Array:
    """Derivative of the loss by the logits: (records, models, outputs)."""
    if recipe.loss == "squared":
        return logits - y.astype(np.float32)[:, None, None]
    if recipe.loss == "logistic":
        return special.expit(logits) - y.astype(np.float32)[:, None, None]
    shifted = np.exp(logits - logits.max(axis=2, keepdims=True))
    found = shifted / shifted.sum(axis=2, keepdims=True)
    found[np.arange(y.size), :, y.astype(np.int64)] -= np.float32(1.0)
    return np.asarray(found, dtype=np.float32)
