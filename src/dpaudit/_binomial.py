"""Binomial primitives: exact limits, tails that keep their accuracy, and crossing probabilities of a guess path.

theory:curves#binomial (limits, tails) and theory:selection#guess-path (the path). Everything here is a pure function of
counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

TIE = 1e-9
"""Relative slack when tails are compared: a tie lost to rounding would make a p-value too small.

See theory:selection#guess-path.
"""


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson upper limit of a rate: P(Bin(n, U) <= x) = alpha; 1 when all succeeded (theory:curves#binomial).

    >>> round(upper_limit(0, 100, 0.05), 6)
    0.029513
    """
    if successes >= trials:
        return 1.0
    return float(special.betainccinv(successes + 1, trials - successes, alpha))


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson lower limit of a rate: P(Bin(n, L) >= x) = alpha; 0 if none did (theory:curves#binomial)."""
    if successes <= 0:
        return 0.0
    return float(special.betaincinv(successes, trials - successes + 1, alpha))


def tail(successes: int, trials: int, p: float) -> float:
    """P(Bin(trials, p) >= successes), by the regularised incomplete beta function."""
    if successes <= 0:
        return 1.0
    if successes > trials:
        return 0.0
    return float(special.betainc(successes, trials - successes + 1, p))


def log_pmf(k: NDArray[np.int64], trials: int, p: float) -> NDArray[np.float64]:
    """log P(Bin(trials, p) = k), -inf outside 0..trials."""
    k = np.asarray(k)
    inside = (k >= 0) & (k <= trials)
    j = np.where(inside, k, 0)
    choose = special.gammaln(trials + 1) - special.gammaln(j + 1) - special.gammaln(trials - j + 1)
    value = choose + special.xlogy(j, p) + special.xlog1py(trials - j, -p)
    return np.where(inside, value, -np.inf)


def pmf(k: NDArray[np.int64], trials: int, p: float) -> NDArray[np.float64]:
    """P(Bin(trials, p) = k)."""
    return np.exp(log_pmf(k, trials, p))


def two_sided_fair(heads: int, tosses: int) -> float:
    """Exact two-sided p-value of `tosses` fair coins showing `heads` heads."""
    extreme = max(heads, tosses - heads)
    return min(1.0, 2.0 * tail(extreme, tosses, 0.5))


def critical_value(level: float, trials: int, p: float) -> int:
    """The smallest v with P(Bin(trials, p) >= v) <= level (trials + 1 when there is none)."""
    low, high = 0, trials + 1  # the tail at 0 is 1, at trials + 1 it is 0
    if level >= 1.0:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle, trials, p) <= level:
            high = middle
        else:
            low = middle
    return high


WINDOW_DEVIATIONS = 10.0
ROUNDING = 1.0 + 1e-8
"""Log-gamma of a million is right to about nine digits; sums of such terms are raised by this factor."""


def crossing_probability(ranks: Sequence[int], critical: Sequence[int], p: float) -> float:
    """P(there is a k with W_k >= critical_k) for W_k = number of successes among the first ranks_k i.i.d. trials.

    An upper bound, exact to rounding: convolution between the ranks inside windows of ten standard deviations, the
    mass outside them added. The absorbed mass is summed (one minus the survivors would cancel below 1e-15), and all
    terms are positive, so small probabilities keep their relative accuracy. `ranks` increase.
    (theory:selection#guess-path)
    """
    start, alive = 0, np.ones(1)  # alive[i] = P(W = start + i, not absorbed yet)
    absorbed, lost, before = 0.0, 0.0, 0
    for rank, limit in zip(ranks, critical, strict=True):
        first, step, missed = _increments(rank - before, p)
        lost += missed * float(alive.sum())
        alive, start = np.convolve(alive, step), start + first
        cut = min(max(limit - start, 0), alive.size)
        absorbed += float(alive[cut:].sum())
        alive, before = alive[:cut], rank
        if alive.size == 0:
            return min(1.0, (absorbed + lost) * ROUNDING)
        keep_from, keep_to = _window(rank, p)
        low, high = max(keep_from - start, 0), min(keep_to + 1 - start, alive.size)
        if low < high:
            lost += float(alive[:low].sum()) + float(alive[high:].sum())
            alive, start = alive[low:high], start + low
    return min(1.0, (absorbed + lost) * ROUNDING)


def _window(trials: int, p: float) -> tuple[int, int]:
    """The counts within ten standard deviations (and ten counts) of the mean."""
    reach = WINDOW_DEVIATIONS * math.sqrt(trials * p * (1.0 - p)) + WINDOW_DEVIATIONS
    return max(0, math.floor(trials * p - reach)), min(trials, math.ceil(trials * p + reach))


def _increments(trials: int, p: float) -> tuple[int, NDArray[np.float64], float]:
    """First count, probabilities and left-out mass of Bin(trials, p) inside its window."""
    low, high = _window(trials, p)
    below = float(special.betaincc(low, trials - low + 1, p)) if low > 0 else 0.0
    return low, pmf(np.arange(low, high + 1), trials, p), below + tail(high + 1, trials, p)


# ------------------------------------------------------------ sums of coins with different biases
# (theory:zero-run#signed)
#
# Distributions are built by divide and conquer with direct convolutions (all terms positive, so small tails keep their
# relative accuracy) and trimmed where the mass is negligible; what is trimmed is kept as `lost` and added to every
# tail.

TRIM = 1e-26


@dataclass(frozen=True, eq=False)
class Distribution:
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

    def plus(self, other: Distribution) -> Distribution:
        """The distribution of the sum of two independent sums."""
        return _trimmed(self.start + other.start, np.convolve(self.masses, other.masses), self.lost + other.lost)


NOTHING = Distribution(0, np.ones(1))


def distribution(rates: NDArray[np.float64]) -> Distribution:
    """The distribution of a sum of independent Bernoulli(rates)."""
    if rates.size == 0:
        return NOTHING
    block = np.stack([1.0 - rates, rates], axis=1)
    while block.shape[0] > 1 and block.shape[1] <= 64:  # pairs of short distributions, all at once
        odd = block[-1:] if block.shape[0] % 2 else None
        block = _pairs(block[0 : 2 * (block.shape[0] // 2) : 2], block[1 : 2 * (block.shape[0] // 2) : 2])
        if odd is not None:
            block = np.concatenate([block, np.pad(odd, ((0, 0), (0, block.shape[1] - odd.shape[1])))])
    distributions = [_trimmed(0, row, 0.0) for row in block]
    while len(distributions) > 1:
        pairs = zip(distributions[0::2], [*distributions[1::2], NOTHING], strict=False)
        distributions = [one.plus(other) for one, other in pairs]
    return distributions[0]


def _pairs(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convolution of each row of a with the same row of b."""
    out = np.zeros((a.shape[0], a.shape[1] + b.shape[1] - 1))
    for shift in range(a.shape[1]):
        out[:, shift : shift + b.shape[1]] += a[:, shift : shift + 1] * b
    return out


def _trimmed(start: int, masses: NDArray[np.float64], lost: float) -> Distribution:
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])
    first = int(np.searchsorted(below, TRIM, side="right"))
    last = masses.size - int(np.searchsorted(above, TRIM, side="right"))
    if first >= last:
        return Distribution(start, masses, lost)
    dropped = (below[first - 1] if first else 0.0) + (above[masses.size - last - 1] if last < masses.size else 0.0)
    return Distribution(start + first, masses[first:last], lost + float(dropped))


def blocks(rates: NDArray[np.float64], ranks: Sequence[int]) -> list[Distribution]:
    """Distributions of the right guesses between one rank and the next."""
    return [distribution(part) for part in np.split(rates, ranks)[: len(ranks)]]


def smallest_tail(parts: Sequence[Distribution], correct: Sequence[int]) -> float:
    """min over the ranks of P(W_k >= correct_k)."""
    so_far, smallest = NOTHING, 1.0
    for part, count in zip(parts, correct, strict=True):
        so_far = so_far.plus(part)
        smallest = min(smallest, so_far.tail(count))
    return smallest


def crossing(parts: Sequence[Distribution], smallest: float) -> float:
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
        alive = Distribution(alive.start, alive.masses[:cut], alive.lost)
    return min(1.0, (absorbed + alive.lost) * ROUNDING)
