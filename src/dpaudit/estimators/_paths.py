"""The path of right guesses, one exactly calibrated test; and from a test to a bound.

Root finding returns the *rejecting* end of its bracket. Bisection is used only where the p-value is known to be
nondecreasing in theta; everywhere else a grid fixed before the data is scanned upward (theory:curves#inversion), and
the last grid point before the first one not rejected is reported, which holds whatever the shape of the p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial

Slack = Callable[[float], float]


def p_value(ranks: Sequence[int], correct: Sequence[int], *, epsilon: float, slack: Slack) -> float:
    """P(a path of Bernoulli(sig(epsilon)) guesses looks as extreme at some rank), plus the slack."""
    p = float(special.expit(epsilon))
    return min(1.0, _crossing(ranks, _smallest_tail(ranks, correct, p), p) + slack(epsilon))


def _smallest_tail(ranks: Sequence[int], correct: Sequence[int], p: float) -> float:
    """The statistic T: the smallest binomial tail over the ranks."""
    return min(_binomial.tail(c, n, p) for n, c in zip(ranks, correct, strict=True))


def _crossing(ranks: Sequence[int], smallest: float, p: float) -> float:
    level = smallest * (1.0 + _binomial.TIE)
    return _binomial.crossing_probability(ranks, [_binomial.critical_value(level, n, p) for n in ranks], p)


def invert(ranks: Sequence[int], correct: Sequence[int], *, alpha: float, slack: Slack) -> tuple[float, bool]:
    """Invert the path of equal coins on the fixed grid."""

    def smallest(epsilon: float) -> float:
        return _smallest_tail(ranks, correct, float(special.expit(epsilon)))

    def crossing(epsilon: float, tail: float) -> float:
        return _crossing(ranks, tail, float(special.expit(epsilon)))

    return scan_path(len(ranks), smallest, crossing, alpha=alpha, slack=slack, most=slack(0.0))


def ceiling(ranks: Sequence[int], *, alpha: float, slack: Slack) -> float:
    """What a perfect attack could have shown, had one number of guesses been looked at: quick, a little too high."""

    def smallest(epsilon: float) -> float:
        return _smallest_tail(ranks, ranks, float(special.expit(epsilon)))

    return scan_path(1, smallest, lambda epsilon, tail: tail, alpha=alpha, slack=slack, most=slack(0.0))[0]


def scan_path(
    looks: int,
    smallest: Callable[[float], float],
    crossing: Callable[[float, float], float],
    *,
    alpha: float,
    slack: Slack,
    most: float,
    near: float | None = None,
) -> tuple[float, bool]:
    """Scan the fixed grid of a path test with the statistic T = smallest(theta), which grows with theta.

    The exact probability crossing(theta, T) lies between T and looks * T; it is computed only where that leaves a
    doubt, and the part of the grid that is rejected beyond doubt is found by bisection, from `near` outwards where a
    value is expected. `most` bounds the slack.
    """

    def rejected(theta: float) -> bool:
        tail, added = smallest(theta), slack(theta)
        if looks * tail * _binomial.ROUNDING + added <= alpha:
            return True
        if tail + added > alpha:
            return False
        return crossing(theta, tail) + added <= alpha

    def surely(index: int) -> bool:
        return looks * smallest(index * GRID_STEP) * _binomial.ROUNDING + most <= alpha

    low, high = -1, round(GRID_CAP / GRID_STEP)
    if near is not None:
        at, step = min(round(near / GRID_STEP), high - 1), 4
        up = surely(at)
        low, high = (at, high) if up else (low, at)
        while high - low > 1 and low < (at := at + step if up else at - step) < high:
            low, high = (at, high) if (sure := surely(at)) else (low, at)
            if sure != up:
                break
            step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if surely(middle) else (low, middle)
    return scan(rejected, first=low + 1)


# ---------------------------------------------------------------------------------------------------------- e-process

BETS = np.array([0.1, 0.25, 0.5, 1.0, 2.0])
"""Alternatives that the wealth bets on: log-odds above the hypothesis, in equal parts."""


def extreme_points(path: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks on the upper hull of (n, right guesses): a convex function of both has its maximum there."""
    n = np.arange(path.size)
    hull = {int(np.argmax(path - slope * n)) for slope in np.linspace(0.5, 1.0, 129)} - {0}
    kept = np.array(sorted(hull) or [path.size - 1])
    return kept, path[kept]


def log_wealth(n: NDArray[np.int64], c: NDArray[np.int64], epsilon: float) -> float:
    """The largest wealth over the ranks, of a mixture of likelihood ratios against Bernoulli(sig(epsilon))."""
    p = float(special.expit(epsilon))
    better = special.expit(epsilon + BETS)[:, None]
    logs = c * np.log(better / p) + (n - c) * np.log(special.expit(-epsilon - BETS)[:, None] / special.expit(-epsilon))
    return float(np.max(np.logaddexp.reduce(logs, axis=0)) - math.log(BETS.size))


def wealth_p_value(n: NDArray[np.int64], c: NDArray[np.int64], *, epsilon: float, slack: Slack) -> float:
    """1 / wealth, plus the slack (Ville)."""
    return min(1.0, math.exp(-min(log_wealth(n, c, epsilon), 700.0)) + slack(epsilon))


def invert_wealth(n: NDArray[np.int64], c: NDArray[np.int64], *, alpha: float, slack: Slack) -> tuple[float, bool]:
    """Scan the fixed grid for wealth of at least 1 / (alpha - slack)."""

    def rejected(epsilon: float) -> bool:
        left = alpha - slack(epsilon)
        return left > 0.0 and log_wealth(n, c, epsilon) >= -math.log(left)

    return scan(rejected)


GRID_STEP = 0.01
GRID_CAP = 25.0


def bisect(
    rejected: Callable[[float], bool], *, cap: float, tolerance: float = 1e-6, at_least: float = 0.0
) -> tuple[float, bool]:
    """The largest theta in [at_least, cap] up to which a monotone test rejects, and whether the cap was reached.

    Returns `at_least` where nothing above it is rejected. `tolerance` is relative to theta (absolute below 1).
    See theory:curves#inversion.
    """
    low, step = at_least, max(0.25, at_least / 4.0)
    if not rejected(low + tolerance * max(1.0, low)):
        return at_least, False
    high = min(cap, low + step)
    while rejected(high):
        if high >= cap:
            return cap, True
        low, step = high, 2.0 * step
        high = min(cap, high + step)
    while high - low > tolerance * max(1.0, low):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low, False


def scan(rejected: Callable[[float], bool], *, first: int = 0, cap: float = GRID_CAP) -> tuple[float, bool]:
    """The last point of the fixed grid before the first one not rejected; points before `first` are known to be."""
    index, last = first, round(cap / GRID_STEP)
    while index <= last and rejected(index * GRID_STEP):
        index += 1
    return max(0, index - 1) * GRID_STEP, index > last


def excess(m: int, epsilon: float, delta: float) -> float:
    """m delta / (1 + e^epsilon): the mean number of right guesses that delta can add."""
    return m * delta * float(special.expit(-epsilon))
