"""Sums of independent coins with different biases: their law, and crossing probabilities of a path (THEORY 2.8).

Laws are built by divide and conquer with direct convolutions (all terms positive, so small tails keep their relative
accuracy) and trimmed where the mass is negligible; what is trimmed is kept as `lost` and added to every tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit._binomial import ROUNDING, TIE

TRIM = 1e-26


@dataclass(frozen=True, eq=False)
class Law:
    """P(sum = start + i) = masses[i], up to `lost`."""

    start: int
    masses: NDArray[np.float64]
    lost: float = 0.0

    def tail(self, count: int) -> float:
        """P(sum >= count), never too small."""
        return min(1.0, (float(self.masses[max(0, count - self.start) :].sum()) + self.lost) * ROUNDING)

    def tails(self) -> NDArray[np.float64]:
        """P(sum >= start + i) for every i."""
        return np.minimum(1.0, (np.cumsum(self.masses[::-1])[::-1] + self.lost) * ROUNDING)

    def plus(self, other: Law) -> Law:
        """The law of the sum of two independent sums."""
        return _trimmed(self.start + other.start, np.convolve(self.masses, other.masses), self.lost + other.lost)


NOTHING = Law(0, np.ones(1))


def law(rates: NDArray[np.float64]) -> Law:
    """The law of a sum of independent Bernoulli(rates)."""
    if rates.size == 0:
        return NOTHING
    block = np.stack([1.0 - rates, rates], axis=1)
    while block.shape[0] > 1 and block.shape[1] <= 64:  # pairs of short laws, all at once
        odd = block[-1:] if block.shape[0] % 2 else None
        block = _pairs(block[0 : 2 * (block.shape[0] // 2) : 2], block[1 : 2 * (block.shape[0] // 2) : 2])
        if odd is not None:
            block = np.concatenate([block, np.pad(odd, ((0, 0), (0, block.shape[1] - odd.shape[1])))])
    laws = [_trimmed(0, row, 0.0) for row in block]
    while len(laws) > 1:
        pairs = zip(laws[0::2], [*laws[1::2], NOTHING], strict=False)
        laws = [one.plus(other) for one, other in pairs]
    return laws[0]


def _pairs(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convolution of each row of a with the same row of b."""
    out = np.zeros((a.shape[0], a.shape[1] + b.shape[1] - 1))
    for shift in range(a.shape[1]):
        out[:, shift : shift + b.shape[1]] += a[:, shift : shift + 1] * b
    return out


def _trimmed(start: int, masses: NDArray[np.float64], lost: float) -> Law:
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])
    first = int(np.searchsorted(below, TRIM, side="right"))
    last = masses.size - int(np.searchsorted(above, TRIM, side="right"))
    if first >= last:
        return Law(start, masses, lost)
    dropped = (below[first - 1] if first else 0.0) + (above[masses.size - last - 1] if last < masses.size else 0.0)
    return Law(start + first, masses[first:last], lost + float(dropped))


def blocks(rates: NDArray[np.float64], ranks: Sequence[int]) -> list[Law]:
    """Laws of the right guesses between one rank and the next."""
    return [law(part) for part in np.split(rates, ranks)[: len(ranks)]]


def smallest_tail(parts: Sequence[Law], correct: Sequence[int]) -> float:
    """min over the ranks of P(W_k >= correct_k)."""
    so_far, smallest = NOTHING, 1.0
    for part, count in zip(parts, correct, strict=True):
        so_far = so_far.plus(part)
        smallest = min(smallest, so_far.tail(count))
    return smallest


def crossing(parts: Sequence[Law], smallest: float) -> float:
    """P(at some rank P(W_k >= w) <= smallest at w = W_k): the path's p-value without its slack, never too small."""
    level = smallest * (1.0 + TIE) * ROUNDING  # a tie must not be lost to rounding
    so_far, alive, absorbed = NOTHING, NOTHING, 0.0
    for part in parts:
        so_far, alive = so_far.plus(part), alive.plus(part)
        extreme = np.flatnonzero(so_far.tails() <= level)
        limit = so_far.start + (int(extreme[0]) if extreme.size else so_far.masses.size)
        cut = min(max(limit - alive.start, 0), alive.masses.size)
        absorbed += float(alive.masses[cut:].sum())
        if cut == 0:
            return min(1.0, (absorbed + alive.lost) * ROUNDING)
        alive = Law(alive.start, alive.masses[:cut], alive.lost)
    return min(1.0, (absorbed + alive.lost) * ROUNDING)
