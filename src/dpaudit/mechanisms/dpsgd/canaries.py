"""What a world decides about: one record as a gradient or as an input, or many records of one coordinate each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.mechanisms.dpsgd.linear_models import Array, Bound, length_factors

ONE_OR_NOTHING = (Relation.ADD_REMOVE, Relation.ZERO_OUT)


class Canary(Protocol):
    """What differs between the worlds; `worlds` is (canaries, models), true where a canary's record is `present`."""

    @property
    def count(self) -> int: ...
    def fits(self, asked: Relation) -> bool:
        """Whether its worlds differ in the way that a relation says."""
        ...

    @property
    def turns(self) -> bool:
        """Whether it may be taken to another basis of the parameters."""
        ...

    def gradients(self, model: Bound, weights: Array, worlds: NDArray[np.bool_]) -> Contribution: ...


class Contribution(Protocol):
    """Gradients of the canaries in one step, before clipping."""

    def lengths(self) -> Array:
        """(canaries, models)."""
        ...

    def clipped_sum(self, clip: float | None, coins: Array, part: Any = ...) -> Array:
        """The sum over the canaries that were drawn, of a part of the parameters; clip None leaves their lengths."""
        ...


def model_lengths(found: Array) -> Array:
    """The length of each model's part: (models,)."""
    return np.sqrt(np.einsum("amb,amb->m", found, found))


@dataclass(frozen=True)
class _Single:
    found: Array

    def lengths(self) -> Array:
        return model_lengths(self.found)[None]

    def clipped_sum(self, clip: float | None, coins: Array, part: Any = ...) -> Array:
        own = self.found[part]
        factors = coins[0] if clip is None else coins[0] * length_factors(model_lengths(own), clip)
        return own * factors[:, None]


@dataclass(frozen=True)
class GradientCanary:
    """A record whose gradient is the same in every step: `present`, or in the other world `absent` (None: nothing)."""

    present: NDArray[Any]
    absent: NDArray[Any] | None = None
    count = 1
    turns = True

    def __post_init__(self) -> None:
        for name, value in (("present", self.present), ("absent", self.absent)):
            if value is not None and not np.isfinite(np.asarray(value, dtype=np.float64)).all():
                raise InputError(f"`{name}` must be a finite gradient.")

    def fits(self, asked: Relation) -> bool:
        """A gradient in place of another is a substitution, a gradient or nothing is add/remove."""
        return (asked is Relation.SUBSTITUTE) if self.absent is not None else asked in ONE_OR_NOTHING

    def gradients(self, model: Bound, weights: Array, worlds: NDArray[np.bool_]) -> _Single:
        here = model.inward(self.present)
        other = np.zeros_like(here) if self.absent is None else model.inward(self.absent)
        return _Single(np.where(worlds[0][None, :, None], here[:, None, :], other[:, None, :]))


@dataclass(frozen=True)
class InputCanary:
    """A record (x, y), or in the other world another one (None: nothing); its gradient is that of the model."""

    present: tuple[NDArray[Any], float]
    absent: tuple[NDArray[Any], float] | None = None
    count = 1
    turns = True

    def __post_init__(self) -> None:
        for name, record in (("present", self.present), ("absent", self.absent)):
            if record is not None and (len(record) != 2 or not np.isfinite(np.append(*record)).all()):
                raise InputError(f"`{name}` must be a finite record (x, y).")

    def fits(self, asked: Relation) -> bool:
        """A record in place of another is a substitution, with the same features also one of its label."""
        if self.absent is None:
            return asked in ONE_OR_NOTHING
        same = np.array_equal(self.present[0], self.absent[0])
        return asked is Relation.SUBSTITUTE or (asked is Relation.LABEL and same)

    def gradients(self, model: Bound, weights: Array, worlds: NDArray[np.bool_]) -> _Single:
        found = model.record_gradients(weights, *self.present)
        other = np.zeros_like(found) if self.absent is None else model.record_gradients(weights, *self.absent)
        return _Single(np.where(worlds[0][None, :, None], found, other))


@dataclass(frozen=True)
class CoordinateCanaries:
    """Many records, each with a gradient of this size on a coordinate of its own; the other world has its opposite
    (`opposed`) or nothing."""

    coordinates: NDArray[Any]
    size: float
    opposed: bool = False
    turns = False

    def __post_init__(self) -> None:
        found = np.array(self.coordinates, dtype=np.int64)
        if found.ndim != 1 or not found.size or np.unique(found).size < found.size or found.min() < 0:
            raise InputError("`coordinates` must be different numbers from 0 on, at least one.")
        check.number("size", self.size, low=0.0)
        object.__setattr__(self, "coordinates", check.read_only(found))

    @property
    def count(self) -> int:
        return int(self.coordinates.size)

    def fits(self, asked: Relation) -> bool:
        """As for one gradient."""
        return (asked is Relation.SUBSTITUTE) if self.opposed else asked in ONE_OR_NOTHING

    def gradients(self, model: Bound, weights: Array, worlds: NDArray[np.bool_]) -> _Coordinates:
        if self.coordinates.max() >= model.shape[0] * model.shape[1]:
            total = model.shape[0] * model.shape[1]
            raise InputError(f"`coordinates` must be below the number of parameters ({total}).")
        values = np.where(worlds, np.float32(self.size), np.float32(-self.size if self.opposed else 0.0))
        return _Coordinates(weights.shape, *np.divmod(self.coordinates, model.shape[1]), values)


@dataclass(frozen=True)
class _Coordinates:
    shape: tuple[int, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Array

    def lengths(self) -> Array:
        return np.abs(self.values)

    def clipped_sum(self, clip: float | None, coins: Array, part: Any = ...) -> Array:
        found = np.zeros(self.shape, dtype=np.float32)
        factors = coins if clip is None else coins * length_factors(np.abs(self.values), clip)
        found[self.rows, :, self.columns] = self.values * factors
        return found[part]
