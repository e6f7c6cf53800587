"""Linear heads and multi-layer perceptrons in numpy, by closed forms: no gradient of a single example is ever formed.

The gradient of a layer is the outer product of its input and its error signal, so its length is the product of theirs,
and the clipped sum over a batch is one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.mechanisms.dpsgd.draws import gaussian
from dpaudit.mechanisms.dpsgd.recipe import DpSgd

Array = NDArray[np.float32]
Coins = NDArray[np.bool_] | None
"""(records, models), or None where everybody takes part."""
SMALL = np.float32(1e-30)


class Bound(Protocol):
    """One kind of model on one data set, a block of models at a time.

    Parameters are arrays of (rows, models, columns). `groups` are the two parts that the bugs of layers speak of, as
    index expressions. `look` sees the whole data set, `lengths` (records, models) and `combine` (the sum of gradients,
    each times its factor) read what it saw. `record_gradients` are those of one record by the parameters,
    `input_gradients` by the record itself, (models, features); `outputs` are logits, (records, models, outputs).
    """

    shape: tuple[int, int]
    groups: tuple[Any, Any]

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array: ...
    def look(self, weights: Array, coins: Coins) -> Any: ...
    def lengths(self, seen: Any, group: int | None = None) -> Array: ...
    def combine(self, seen: Any, factors: Array) -> Array: ...
    def record_gradients(self, weights: Array, x: Any, y: float) -> Array: ...
    def input_gradients(self, weights: Array, x: Any, y: float) -> Array: ...
    def outputs(self, weights: Array, rows: Any) -> Array: ...


def residuals(loss: str, logits: Array, y: NDArray[Any]) -> Array:
    """Derivative of the loss by the logits, whose last axis is the outputs and first the records."""
    if loss == "softmax":
        found = logits - logits.max(axis=-1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=-1, keepdims=True)
        found[np.arange(y.size), ..., y.astype(np.int64)] -= np.float32(1.0)
        return found
    target = y.astype(np.float32).reshape(-1, *(1,) * (logits.ndim - 1))
    if loss == "squared":
        return logits - target
    found = np.tanh(np.float32(0.5) * logits)  # the logistic function is (1 + tanh(z / 2)) / 2
    found *= np.float32(0.5)
    found += np.float32(0.5) - target
    return found


def log_likelihoods(loss: str, logits: NDArray[Any], labels: Any) -> NDArray[np.float64]:
    """What a model says of these labels: (records,) from logits (records, outputs)."""
    wide, y = logits.astype(np.float64), np.asarray(labels)
    if loss == "squared":
        return np.asarray(-((wide[:, 0] - y) ** 2) / 2.0)
    if loss == "logistic":
        return np.asarray(-np.logaddexp(0.0, np.where(y > 0, -1.0, 1.0) * wide[:, 0]))
    return np.asarray(wide[np.arange(y.size), y.astype(np.int64)] - np.logaddexp.reduce(wide, axis=1))


def check_labels(recipe: DpSgd, y: NDArray[Any]) -> None:
    """Refuse labels that the loss has no output for."""
    if recipe.loss == "squared" or y.size == 0:
        return
    classes = 2 if recipe.loss == "logistic" else recipe.classes
    if not np.isin(y, np.arange(classes)).all():
        odd = y[~np.isin(y, np.arange(classes))][0]
        raise InputError(f"`y` must hold labels 0 to {classes - 1} for the {recipe.loss} loss, got {odd:g}.")


# --------------------------------------------------------------------------------------------------------- linear heads


class LinearHead:
    """`x @ w` for a block: one matrix product for all its models, forth and back."""

    def __init__(self, recipe: DpSgd, x: Array, y: NDArray[Any]):
        self.loss, self.x, self.y = recipe.loss, x, y
        self.shape = (x.shape[1], recipe.classes)
        half = (x.shape[1] + 1) // 2
        self.groups = (np.s_[:half], np.s_[half:])
        self._norms = np.linalg.norm(x, axis=1)[:, None]
        self._parts = [np.linalg.norm(x[:, part], axis=1)[:, None] for part in self.groups]

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array:
        rows, columns = self.shape
        if same:
            return np.zeros((rows, models, columns), dtype=np.float32)
        return np.float32(0.01) * gaussian(rng, (rows, models, columns))

    def look(self, weights: Array, coins: Coins) -> Array:
        return residuals(self.loss, self.outputs(weights, self.x), self.y)

    def lengths(self, seen: Array, group: int | None = None) -> Array:
        norms = self._norms if group is None else self._parts[group]
        if self.shape[1] == 1:
            return np.abs(seen[:, :, 0]) * norms
        return np.sqrt(np.einsum("nmk,nmk->nm", seen, seen)) * norms

    def combine(self, seen: Array, factors: Array) -> Array:
        weighted = (seen * factors[:, :, None]).reshape(seen.shape[0], -1)
        return (self.x.T @ weighted).reshape(self.shape[0], -1, self.shape[1])

    def record_gradients(self, weights: Array, x: Any, y: float) -> Array:
        row = np.asarray(x, dtype=np.float32)
        residual = residuals(self.loss, self.outputs(weights, row[None]), np.array([y]))[0]
        return np.asarray(row[:, None, None] * residual[None, :, :])

    def input_gradients(self, weights: Array, x: Any, y: float) -> Array:
        residual = residuals(self.loss, self.outputs(weights, np.asarray(x)[None]), np.array([y]))[0]
        return np.einsum("dmk,mk->md", weights, residual)

    def outputs(self, weights: Array, rows: Any) -> Array:
        x = np.asarray(rows, dtype=np.float32)
        return (x @ weights.reshape(self.shape[0], -1)).reshape(x.shape[0], weights.shape[1], -1)


# --------------------------------------------------------------------------------------------------------- perceptrons


@dataclass(frozen=True)
class Mlp:
    """A multi-layer perceptron with these hidden widths, rectified, each layer with a bias."""

    hidden: tuple[int, ...]

    def __post_init__(self) -> None:
        widths = tuple(check.count("hidden", width, low=1) for width in check.items("hidden", self.hidden))
        if not widths:
            raise InputError("`hidden` must name at least one layer, got none.", "model=None is a linear head.")
        object.__setattr__(self, "hidden", widths)

    def bind(self, recipe: DpSgd, x: Array, y: NDArray[Any]) -> Perceptrons:
        return Perceptrons(self.hidden, recipe, x, y)


class Perceptrons:
    """A block of perceptrons, each on its own batch: parameters are flat, (1, models, all of them)."""

    def __init__(self, hidden: Sequence[int], recipe: DpSgd, x: Array, y: NDArray[Any]):
        self.loss, self.x, self.y = recipe.loss, x, y
        self.sizes = [x.shape[1], *hidden, recipe.classes]
        counts = [(fan_in + 1) * fan_out for fan_in, fan_out in zip(self.sizes, self.sizes[1:], strict=False)]
        self._ends = np.cumsum([0, *counts])
        self.shape = (1, int(self._ends[-1]))
        self.groups = (np.s_[..., : counts[0]], np.s_[..., counts[0] :])

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array:
        """He's normal start, biases at zero."""
        drawn = gaussian(rng, (1, 1 if same else models, self.shape[1]))
        found = np.repeat(drawn, models, axis=1) if same else drawn
        for model in range(models):
            for matrix, bias in self._layers(found[0, model]):
                matrix *= np.float32(math.sqrt(2.0 / matrix.shape[0]))
                bias[:] = 0.0
        return found

    def _layers(self, flat: Array) -> list[tuple[Array, Array]]:
        """Weights and biases of one model, as views."""
        pairs = []
        for begin, end, fan_out in zip(self._ends, self._ends[1:], self.sizes[1:], strict=False):
            matrix = flat[begin:end].reshape(-1, fan_out)
            pairs.append((matrix[:-1], matrix[-1]))
        return pairs

    def _forward(self, flat: Array, rows: Array) -> tuple[list[Array], Array]:
        inputs, value = [], rows
        layers = self._layers(flat)
        for depth, (matrix, bias) in enumerate(layers):
            inputs.append(value)
            value = value @ matrix
            value += bias
            if depth + 1 < len(layers):
                np.maximum(value, np.float32(0.0), out=value)
        return inputs, value

    def _signals(self, flat: Array, rows: Array, y: NDArray[Any]) -> tuple[list[Array], list[Array]]:
        """Input and error signal of every layer."""
        inputs, logits = self._forward(flat, rows)
        signals = [residuals(self.loss, logits, y)]
        for depth, (matrix, _) in reversed(list(enumerate(self._layers(flat)))[1:]):
            back = signals[0] @ matrix.T
            back *= inputs[depth] > 0.0
            signals.insert(0, back)
        return inputs, signals

    def look(self, weights: Array, coins: Coins) -> list[Any]:
        found = []
        for model in range(weights.shape[1]):
            chosen = np.arange(self.y.size) if coins is None else np.flatnonzero(coins[:, model])
            inputs, signals = self._signals(weights[0, model], self.x[chosen], self.y[chosen])
            found.append((chosen, inputs, signals))
        return found

    def lengths(self, seen: list[Any], group: int | None = None) -> Array:
        layers = slice(None) if group is None else (slice(0, 1), slice(1, None))[group]
        found = np.zeros((self.y.size, len(seen)), dtype=np.float32)
        for model, (chosen, inputs, signals) in enumerate(seen):
            squares = [
                (np.einsum("nd,nd->n", a, a) + np.float32(1.0)) * np.einsum("nk,nk->n", s, s)
                for a, s in list(zip(inputs, signals, strict=True))[layers]
            ]
            found[chosen, model] = np.sqrt(sum(squares))
        return found

    def combine(self, seen: list[Any], factors: Array) -> Array:
        found = np.empty((1, len(seen), self.shape[1]), dtype=np.float32)
        for model, (chosen, inputs, signals) in enumerate(seen):
            weights = factors[chosen, model][:, None]
            for (matrix, bias), a, s in zip(self._layers(found[0, model]), inputs, signals, strict=True):
                weighted = s * weights
                np.matmul(a.T, weighted, out=matrix)
                bias[:] = weighted.sum(axis=0)
        return found

    def record_gradients(self, weights: Array, x: Any, y: float) -> Array:
        row, label = np.asarray(x, dtype=np.float32)[None, :], np.array([y])
        found = np.empty_like(weights)
        for model in range(weights.shape[1]):
            inputs, signals = self._signals(weights[0, model], row, label)
            for (matrix, bias), a, s in zip(self._layers(found[0, model]), inputs, signals, strict=True):
                np.matmul(a.T, s, out=matrix)
                bias[:] = s[0]
        return found

    def input_gradients(self, weights: Array, x: Any, y: float) -> Array:
        row, label = np.asarray(x, dtype=np.float32)[None, :], np.array([y])
        found = []
        for flat in weights[0]:
            _, signals = self._signals(flat, row, label)
            found.append(signals[0][0] @ self._layers(flat)[0][0].T)
        return np.stack(found)

    def outputs(self, weights: Array, rows: Any) -> Array:
        x = np.asarray(rows, dtype=np.float32)
        return np.stack([self._forward(flat, x)[1] for flat in weights[0]], axis=1)
