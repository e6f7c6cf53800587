"""Right guesses of two tables, cell by cell: the exact conditional test, and how many rows to compare with.

theory:placebo#conditional (the test) and theory:placebo#matched (how many rows). Functions of counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit._binomial import NOTHING, Distribution

TINY = 1e-22
"""Terms below this share of the largest are dropped, and their mass is added to the p-value."""


@lru_cache(maxsize=4096)
def least_beyond(rows: int, placebo: int, taken: int, beta: float) -> int:
    """The largest q so that q of a cell's placebo rows lie beyond its `taken` audited rows, but with probability beta.

    Their number beyond the last one taken is BetaBinomial(placebo, taken, rows - taken + 1) for exchangeable rows, and
    so is what matters where other cells have a say in the threshold (theory:placebo#matched).

    >>> [least_beyond(2000, 2000, taken, 0.005 / 36) for taken in (500, 125, 31, 0)]
    [403, 75, 9, 0]
    """
    if placebo == 0 or taken == 0:
        return 0
    a, b = float(taken), rows - taken + 1.0
    mean = placebo * a / (a + b)
    spread = math.sqrt(placebo * a * b * (a + b + placebo) / ((a + b) ** 2 * (a + b + 1.0)))
    j = np.arange(max(0, math.floor(mean - 14.0 * spread - 14.0)), math.ceil(mean) + 1)
    choose = special.gammaln(placebo + 1) - special.gammaln(j + 1) - special.gammaln(placebo - j + 1)
    logs = choose + special.betaln(j + a, placebo - j + b) - special.betaln(a, b)
    below = np.cumsum(np.exp(logs)) * _binomial.ROUNDING + TINY  # P(fewer than j + 1)
    return min(placebo, int(j[0]) + int(np.searchsorted(below, beta, side="right")))


@dataclass(frozen=True)
class Stratified:
    """Right guesses of audited and placebo rows, a cell each: the exact conditional test (theory:placebo#conditional).

    Attributes
    ----------
    right, size
        C_g of r_g audited guesses.
    right0, size0
        C0_g of r0_g placebo guesses; a cell without any is left out.

    >>> one = Stratified([9], [10], [5], [10])
    >>> [round(one.p_value(epsilon), 6) for epsilon in (0.0, 1.0, 2.0)]
    [0.070433, 0.342127, 0.722106]
    """

    right: Sequence[int]
    size: Sequence[int]
    right0: Sequence[int]
    size0: Sequence[int]

    @cached_property
    def _cells(self) -> list[tuple[int, NDArray[np.float64]]]:
        """For each cell the least X_g, and the logarithms of binom(r, x) binom(r0, N - x) from there on."""
        cells = zip(self.right, self.size, self.right0, self.size0, strict=True)
        kept = [(c, r, c0, r0) for c, r, c0, r0 in cells if r0 > 0 and r > 0]
        logs = _log_factorials(max((max(r, r0) for _, r, _, r0 in kept), default=1))
        return [_weights(logs, r, r0, c + c0) for c, r, c0, r0 in kept]

    @cached_property
    def seen(self) -> int:
        """Right audited guesses in the cells that count."""
        cells = zip(self.right, self.size, self.size0, strict=True)
        return sum(c for c, r, r0 in cells if r0 > 0 and r > 0)

    def p_value(self, epsilon: float, forgiven: int = 0) -> float:
        """P(sum X_g >= sum C_g - forgiven), given how many of each cell are right in both tables together."""
        if not self._cells or self.seen - forgiven <= 0:
            return 1.0
        total = NOTHING
        for first, logs in self._cells:
            total = total.plus(_tilted(first, logs, epsilon))
        return total.tail(self.seen - forgiven)


@lru_cache(maxsize=4)
def _log_factorials(most: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = special.gammaln(np.arange(most + 1) + 1.0)
    return found


def _weights(logs: NDArray[np.float64], size: int, size0: int, both: int) -> tuple[int, NDArray[np.float64]]:
    first, last = max(0, both - size0), min(size, both)
    x = np.arange(first, last + 1)
    return first, -(logs[x] + logs[size - x] + logs[both - x] + logs[size0 - both + x])


def _tilted(first: int, logs: NDArray[np.float64], epsilon: float) -> Distribution:
    """X_g at this epsilon: terms below 1e-22 of the largest are dropped, and their mass is kept as lost."""
    tilted = logs + epsilon * np.arange(logs.size)
    weights = np.exp(tilted - tilted.max())
    large = np.flatnonzero(weights >= TINY)
    kept = weights[large[0] : large[-1] + 1]
    total = float(weights.sum())
    lost = float(weights[: large[0]].sum() + weights[large[-1] + 1 :].sum()) / total
    return Distribution(first + int(large[0]), kept / total, lost)
