"""Any torch module, a block at a time, through `torch.func` (extra `torch`).

Lengths of per-example gradients are found in chunks of bounded memory and forgotten; the clipped sum is then the
gradient of a weighted sum of losses. The chunk is a function of the shapes alone, so it never changes a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit._validate import InputError
from dpaudit.execution import torch_or_refuse
from dpaudit.mechanisms.dpsgd.config import DPSGDConfig
from dpaudit.mechanisms.dpsgd.linear_models import Array, Coins, chosen, length_factors, shaped

FLOATS_IN_MEMORY = 1 << 26
"""Numbers in the gradients of single examples that are held at once: 256 MB (torch.func holds a few such arrays)."""


@dataclass(frozen=True)
class Module:
    """The module that `build()` makes; a row of `x` is given to it in the shape `input_shape`.

    It must treat the examples of a batch one by one (no batch normalisation) and draw no random numbers.
    """

    build: Callable[[], Any]
    input_shape: tuple[int, ...] | None = None

    def bind(self, config: DPSGDConfig, x: Array, y: NDArray[Any]) -> BoundModule:
        return BoundModule(self, config, x, y)


class BoundModule:
    """A block of modules: parameters are flat, (1, models, all of them)."""

    threaded = False  # `functional_call` swaps the parameters of the one module

    def __init__(self, module: Module, config: DPSGDConfig, x: Array, y: NDArray[Any]):
        torch = torch_or_refuse()
        self.loss, self._build = config.loss, module.build
        self._skeleton = module.build()
        if not isinstance(self._skeleton, torch.nn.Module):
            raise InputError(f"`build` must return a torch module, got {type(self._skeleton).__name__}.")
        if any(True for _ in self._skeleton.buffers()):
            raise InputError(
                "`model` must have no buffers: batch statistics mix the examples of a batch.",
                "replace batch normalisation by group normalisation.",
            )
        self._sizes = {name: tuple(p.shape) for name, p in self._skeleton.named_parameters()}
        if not self._sizes or not all(p.requires_grad for p in self._skeleton.parameters()):
            raise InputError("`model` must have parameters, and train all of them.")
        count = sum(math.prod(size) for size in self._sizes.values())
        self.shape = (1, count)
        first = math.prod(next(iter(self._sizes.values())))
        self.groups = (np.s_[..., :first], np.s_[..., first:])
        self._first = first
        self._input = module.input_shape
        self.x, self.y = self._rows(x), torch.from_numpy(np.array(y))
        self._records = max(1, min(x.shape[0], FLOATS_IN_MEMORY // count))
        self._chunk = max(1, FLOATS_IN_MEMORY // (count * self._records))
        self._try_out(config.classes)

    def _try_out(self, classes: int) -> None:
        """One forward pass, so that what does not fit is said before anything is trained."""
        torch = torch_or_refuse()
        if not len(self.y):
            raise InputError("`x` must hold at least one record for a torch module, got none.")
        self._skeleton.train()
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                first, again = (self._skeleton(self.x[:1]) for _ in range(2))
        except (RuntimeError, ValueError) as problem:
            raise InputError(
                f"`model` cannot read a row of `x` ({str(problem).splitlines()[0]}).", "give `input_shape`."
            ) from None
        if tuple(first.shape) != (1, classes):
            raise InputError(f"`model` must give {classes} outputs a row, got shape {tuple(first.shape)[1:]}.")
        if not torch.equal(first, again):
            raise InputError("`model` must draw no random numbers (dropout); two passes over a row differ.")

    def _rows(self, x: Any) -> Any:
        rows = torch_or_refuse().from_numpy(np.array(x, dtype=np.float32))
        return rows if self._input is None else rows.reshape(rows.shape[0], *self._input)

    def inward(self, values: Any) -> Array:
        return shaped(values, self.shape)

    def outward(self, values: Array) -> Array:
        return values

    def start(self, rng: np.random.Generator, models: int, *, same: bool) -> Array:
        torch = torch_or_refuse()
        drawn = []
        for _ in range(1 if same else models):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(rng.integers(2**62)))
                parts = [p.detach().reshape(-1) for p in self._build().parameters()]
            drawn.append(torch.cat(parts).numpy())
        return np.stack(drawn * (models if same else 1)).astype(np.float32)[None]

    def _call(self, flat: Any, rows: Any) -> Any:
        """Logits of one model."""
        torch = torch_or_refuse()
        pieces = torch.split(flat, [math.prod(size) for size in self._sizes.values()])
        named = {name: piece.reshape(size) for (name, size), piece in zip(self._sizes.items(), pieces, strict=True)}
        return torch.func.functional_call(self._skeleton, named, (rows,))

    def _losses(self, flat: Any, rows: Any, labels: Any) -> Any:
        functional = torch_or_refuse().nn.functional
        logits = self._call(flat, rows)
        if self.loss == "softmax":
            return functional.cross_entropy(logits, labels.long(), reduction="none")
        target = labels.to(logits.dtype)
        if self.loss == "squared":
            return (logits[:, 0] - target) ** 2 / 2
        return functional.binary_cross_entropy_with_logits(logits[:, 0], target, reduction="none")

    def _one_loss(self, flat: Any, row: Any, label: Any) -> Any:
        return self._losses(flat, row[None], label[None])[0]

    def _per_example(self, flat: Any, rows: Any, labels: Any) -> Any:
        """(models, records, parameters)."""
        func = torch_or_refuse().func
        return func.vmap(func.vmap(func.grad(self._one_loss), (None, 0, 0)), (0, None, None))(flat, rows, labels)

    def look(self, weights: Array, coins: Coins) -> tuple[Any, Array]:
        """The parameters, and the squared lengths of both groups: (2, records, models)."""
        torch = torch_or_refuse()
        flat = torch.from_numpy(weights[0])
        parts = []
        for begin in range(0, flat.shape[0], self._chunk):
            models = flat[begin : begin + self._chunk]
            parts.append(torch.cat([self._squares(models, rows) for rows in self._row_chunks()], dim=1))
        return flat, torch.cat(parts, dim=2).numpy()

    def _row_chunks(self) -> Iterator[slice]:
        return (slice(begin, begin + self._records) for begin in range(0, len(self.y), self._records))

    def _squares(self, flat: Any, rows: slice) -> Any:
        """(2, some records, some models)."""
        found = self._per_example(flat, self.x[rows], self.y[rows])
        split = found[:, :, : self._first], found[:, :, self._first :]
        return torch_or_refuse().stack([(part**2).sum(dim=2).T for part in split])

    def lengths(self, seen: tuple[Any, Array], group: int | None = None) -> Array:
        squares = seen[1].sum(axis=0) if group is None else seen[1][group]
        return np.sqrt(squares)

    def clipped_sum(self, seen: tuple[Any, Array], clip: float, coins: Coins) -> Array:
        return self.combine(seen, chosen(length_factors(self.lengths(seen), clip), coins))

    def combine(self, seen: tuple[Any, Array], factors: Array) -> Array:
        torch = torch_or_refuse()

        def weighted(flat: Any, weights: Any) -> Any:
            return (self._losses(flat, self.x, self.y) * weights).sum()

        gradient = torch.func.vmap(torch.func.grad(weighted), chunk_size=self._chunk)
        found = gradient(seen[0], torch.from_numpy(np.ascontiguousarray(factors.T)))
        return np.asarray(found.numpy())[None]

    def record_gradients(self, weights: Array, x: Any, y: float) -> Array:
        torch = torch_or_refuse()
        label = torch.tensor(y, dtype=self.y.dtype)
        row = self._rows(np.asarray(x, dtype=np.float32)[None])[0]
        gradient = torch.func.vmap(partial(torch.func.grad(self._one_loss), row=row, label=label))
        return np.asarray(gradient(torch.from_numpy(weights[0])).numpy())[None]

    def input_gradients(self, weights: Array, x: Any, y: float) -> Array:
        torch = torch_or_refuse()
        label = torch.tensor(y, dtype=self.y.dtype)
        row = self._rows(np.asarray(x, dtype=np.float32)[None])[0]
        gradient = torch.func.vmap(torch.func.grad(self._one_loss, argnums=1), (0, None, None))
        found = gradient(torch.from_numpy(weights[0]), row, label)
        return np.asarray(found.numpy()).reshape(weights.shape[1], -1)

    def outputs(self, weights: Array, rows: Any) -> Array:
        torch = torch_or_refuse()
        with torch.no_grad():
            found = torch.func.vmap(partial(self._call, rows=self._rows(rows)))(torch.from_numpy(weights[0]))
        return np.asarray(found.numpy()).transpose(1, 0, 2)
