"""Tests that look at a whole path of right guesses: the exact path (THEORY 3b) and the e-process (THEORY 2.13).

The n-th guess is right with probability at most sig(epsilon), whatever came before, so any monotone functional of the
path is dominated by its value under independent Bernoulli trials. What delta can add is a `slack` in the p-value, a
function of epsilon that is largest at 0. p-values of a path are not monotone in epsilon: they are inverted on the fixed
grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit.estimators import _inversion

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
        return looks * smallest(index * _inversion.GRID_STEP) * _binomial.ROUNDING + most <= alpha

    low, high = -1, round(_inversion.GRID_CAP / _inversion.GRID_STEP)
    if near is not None:
        at, step = min(round(near / _inversion.GRID_STEP), high - 1), 4
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
    return _inversion.scan(rejected, first=low + 1)


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

    return _inversion.scan(rejected)
