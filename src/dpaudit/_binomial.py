"""Binomial primitives: exact limits, tails that keep their accuracy, and crossing probabilities of a guess path.

THEORY 2.1 (limits, tails) and 3b (the path). Everything here is a pure function of counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

TIE = 1e-9
"""Relative slack when tails are compared: a tie lost to rounding would make a p-value too small (THEORY 3b)."""


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson upper limit of a rate: P(Bin(n, U) <= x) = alpha. 1 when every trial succeeded.

    >>> round(upper_limit(0, 100, 0.05), 6)
    0.029513
    """
    if successes >= trials:
        return 1.0
    return float(special.betainccinv(successes + 1, trials - successes, alpha))


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson lower limit of a rate: P(Bin(n, L) >= x) = alpha. 0 when nothing succeeded."""
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
    terms are positive, so small probabilities keep their relative accuracy. `ranks` increase. (THEORY 3b)
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
