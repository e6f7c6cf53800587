"""Linear heads and multi-layer perceptrons in numpy, by closed forms: no gradient of a single example is ever formed.

The gradient of a layer is the outer product of its input and its error signal, so its length is the product of theirs,
and the clipped sum over a batch is one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.mechanisms.dpsgd.config import DPSGDConfig
from dpaudit.mechanisms.dpsgd.sampling import gaussian

Array = NDArray[np.float32]
Coins = NDArray[np.bool_] | None
"""(records, models), or None where everybody takes part."""
SMALL = np.float32(1e-30)


def shaped(values: Any, shape: tuple[int, int]) -> Array:
    """A gradient in the shape of a model's parameters."""
    found = np.asarray(values, dtype=np.float32)
    if found.size != shape[0] * shape[1]:
        raise InputError(f"a canary's gradient must have {shape[0] * shape[1]} entries, got shape {found.shape}.")
    return found.reshape(shape)


def length_factors(lengths: Array, clip: float) -> Array:
    """What brings these lengths down to the clip."""
    return np.minimum(np.float32(1.0), np.float32(clip) / np.maximum(lengths, SMALL))


def chosen(factors: Array, coins: Coins) -> Array:
    """The factors of those who take part, zero for the others."""
    return factors if coins is None else factors * coins


class Bound(Protocol):
    """One kind of model on one data set, a block of models at a time.

    Parameters are arrays of (rows, models, columns). `groups` are the two parts that the bugs of layers speak of, as
    index expressions. `look` sees the whole data set; `lengths` (records, models), `combine` (the sum of gradients,
    each times its factor) and `clipped_sum` (that of the clipped ones) read what it saw. `record_gradients` are those
    of one record by the parameters, `input_gradients` by the record itself, (models, features); `outputs` are logits,
    (records, models, outputs).
    A model may keep its parameters in another basis: `inward` takes a gradient (rows, columns) there, `outward` brings
    arrays of parameters back.
    """

    shape: tuple[int, int]
    groups: tuple[Any, Any]
    threaded: bool
    """Whether several threads may use it at once."""

    def inward(self, values: Any) -> Array: ...
    def outward(self, values: Array) -> Array: ...

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array: ...
    def look(self, weights: Array, coins: Coins) -> Any: ...
    def lengths(self, seen: Any, group: int | None = None) -> Array: ...
    def combine(self, seen: Any, factors: Array) -> Array: ...
    def clipped_sum(self, seen: Any, clip: float, coins: Coins) -> Array: ...
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


def check_labels(config: DPSGDConfig, y: NDArray[Any]) -> None:
    """Refuse labels that the loss has no output for."""
    if config.loss == "squared" or y.size == 0:
        return
    classes = 2 if config.loss == "logistic" else config.classes
    if not np.isin(y, np.arange(classes)).all():
        odd = y[~np.isin(y, np.arange(classes))][0]
        raise InputError(f"`y` must hold labels 0 to {classes - 1} for the {config.loss} loss, got {odd:g}.")


# --------------------------------------------------------------------------------------------------------- linear heads


class LinearHead:
    """`x @ w` for a block: one matrix product for all its models, forth and back.

    With `rotate` and fewer records than features, the parameters are kept in an orthonormal basis whose first axes span
    the records: the matrix products shrink to records by records. Gradient descent, clipping and Gaussian noise look
    the same in every such basis, so the distribution of the models is unchanged.
    """

    threaded = True

    def __init__(self, config: DPSGDConfig, x: Array, y: NDArray[Any], *, rotate: bool = False):
        records, features = x.shape
        self.loss, self.y, self.shape = config.loss, y, (features, config.classes)
        half = (features + 1) // 2
        self.groups = (np.s_[:half], np.s_[half:])
        self._norms = np.linalg.norm(x, axis=1)[:, None]
        self._parts = [np.linalg.norm(x[:, part], axis=1)[:, None] for part in self.groups]
        self._basis = _basis_of(x) if rotate and 0 < records < features else None
        self.x = x if self._basis is None else np.ascontiguousarray((x @ self._basis)[:, :records])
        self._turned: dict[int, tuple[Any, Array]] = {}

    def inward(self, values: Any) -> Array:
        wanted, basis = shaped(values, self.shape), self._basis
        return wanted if basis is None else self._once(values, lambda: basis.T @ wanted)

    def outward(self, values: Array) -> Array:
        if self._basis is None:
            return values
        return (self._basis @ values.reshape(self.shape[0], -1)).reshape(values.shape)

    def _once(self, source: Any, compute: Callable[[], Array]) -> Array:
        """A canary is turned once, not in every step; the source is kept, so that its address stays its own."""
        if id(source) not in self._turned:
            self._turned[id(source)] = (source, compute())
        return self._turned[id(source)][1]

    def _row(self, x: Any) -> Array:
        row, basis = np.asarray(x, dtype=np.float32), self._basis
        return row if basis is None else self._once(x, lambda: row @ basis)

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array:
        rows, columns = self.shape
        if same:
            return np.zeros((rows, models, columns), dtype=np.float32)
        return np.asarray(np.float32(0.01) * gaussian(rng, (rows, models, columns)))

    def look(self, weights: Array, coins: Coins) -> Array:
        spanned, models = self.x.shape[1], weights.shape[1]
        logits = self.x @ weights[:spanned].reshape(spanned, models * self.shape[1])
        logits = logits.reshape(self.y.size, models, self.shape[1])
        return residuals(self.loss, logits, self.y)

    def lengths(self, seen: Array, group: int | None = None) -> Array:
        norms = self._norms if group is None else self._parts[group]
        if self.shape[1] == 1:
            return np.abs(seen[:, :, 0]) * norms
        return np.sqrt(np.einsum("nmk,nmk->nm", seen, seen)) * norms

    def combine(self, seen: Array, factors: Array) -> Array:
        return self._gather(seen * factors[:, :, None])

    def clipped_sum(self, seen: Array, clip: float, coins: Coins) -> Array:
        if self.shape[1] > 1:
            return self.combine(seen, chosen(length_factors(self.lengths(seen), clip), coins))
        limit = np.float32(clip) / np.maximum(self._norms, SMALL)  # one output: the residual itself can be cut
        cut = np.clip(seen[:, :, 0], -limit, limit)
        return self._gather(chosen(cut, coins)[:, :, None])

    def _gather(self, weighted: Array) -> Array:
        """The sum of gradients from the residuals, each times its factor."""
        features, (records, models, outputs) = self.shape[0], weighted.shape
        spanned = self.x.shape[1]
        found = np.empty((features, models * outputs), dtype=np.float32)
        np.matmul(self.x.T, weighted.reshape(records, models * outputs), out=found[:spanned])
        found[spanned:] = 0.0
        return found.reshape(features, models, outputs)

    def record_gradients(self, weights: Array, x: Any, y: float) -> Array:
        row = self._row(x)
        return np.multiply(row[:, None, None], self._residual(weights, row, y)[None, :, :], dtype=np.float32)

    def _residual(self, weights: Array, row: Array, y: float) -> Array:
        logits = np.einsum("d,dmk->mk", row, weights)[None]
        return residuals(self.loss, logits, np.array([y]))[0]

    def input_gradients(self, weights: Array, x: Any, y: float) -> Array:
        found = np.einsum("dmk,mk->md", weights, self._residual(weights, self._row(x), y))
        return found if self._basis is None else found @ self._basis.T

    def outputs(self, weights: Array, rows: Any) -> Array:
        x = np.asarray(rows, dtype=np.float32)
        turned: Array = x if self._basis is None else x @ self._basis
        models, columns = weights.shape[1], self.shape[1]
        return (turned @ weights.reshape(self.shape[0], models * columns)).reshape(x.shape[0], models, columns)


def _basis_of(x: Array) -> Array:
    """Orthonormal axes of which the first span the rows."""
    found, _ = np.linalg.qr(x.T.astype(np.float64), mode="complete")
    return np.ascontiguousarray(found, dtype=np.float32)


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

    def bind(self, config: DPSGDConfig, x: Array, y: NDArray[Any]) -> Perceptrons:
        return Perceptrons(self.hidden, config, x, y)


class Perceptrons:
    """A block of perceptrons, each on its own batch: parameters are flat, (1, models, all of them)."""

    threaded = True

    def __init__(self, hidden: Sequence[int], config: DPSGDConfig, x: Array, y: NDArray[Any]):
        if not y.size:
            raise InputError("`x` must hold at least one record for a perceptron, got none.")
        self.loss, self.x, self.y = config.loss, x, y
        self.sizes = [x.shape[1], *hidden, config.classes]
        counts = [(fan_in + 1) * fan_out for fan_in, fan_out in zip(self.sizes, self.sizes[1:], strict=False)]
        self._ends = np.cumsum([0, *counts])
        self.shape = (1, int(self._ends[-1]))
        self.groups = (np.s_[..., : counts[0]], np.s_[..., counts[0] :])

    def inward(self, values: Any) -> Array:
        return shaped(values, self.shape)

    def outward(self, values: Array) -> Array:
        return values

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

    def clipped_sum(self, seen: list[Any], clip: float, coins: Coins) -> Array:
        return self.combine(seen, chosen(length_factors(self.lengths(seen), clip), coins))

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
