"""The one-run test of an f-DP curve, decided in a few steps by early stopping (theory:one-run#early-stopping).

See theory:one-run#f-dp.

Hypothesis: the mechanism is f-DP, g is the inverse of 1 - f. Data: `correct` of `guesses` guesses about `canaries` fair
coins are right; the number of guesses was fixed before the model was seen. The recursion bounds P(C >= correct).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import special

SLOPE_ROUNDING = 1.0 + 1e-8


def rejects(
    g: Callable[[float], float],
    *,
    canaries: int,
    guesses: int,
    correct: int,
    level: float,
    early: bool = True,
) -> bool:
    """Whether the curve is rejected at `level`. `early=False` switches every stopping rule off, to the same answer."""
    if correct <= 0 or guesses <= 0:
        return False
    if not early:
        return _full_recursion(g, canaries, guesses, correct, level)
    target = guesses / canaries
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    if r + h >= target:
        return True
    first = True
    for i in range(correct - 1, -1, -1):
        new_h = float(g(r))
        if first and new_h <= h:
            return False  # r and h fall for ever: the dichotomy
        first = False
        step = i / (guesses - i) * (new_h - h)
        r, h = r + step, new_h
        if r + h >= target:
            return True
        if i and _settles_below(g, r=r, h=h, step=step, i=i, guesses=guesses, target=target):
            return False
    return False


def _full_recursion(g: Callable[[float], float], canaries: int, guesses: int, correct: int, level: float) -> bool:
    """All steps, down to i = 0, as the papers print it: the naive twin of the tests and the benchmark."""
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        new_h = float(g(min(r, 1.0)))
        r, h = r + i / (guesses - i) * (new_h - h), new_h
    return r + h >= guesses / canaries


def _settles_below(
    g: Callable[[float], float], *, r: float, h: float, step: float, i: int, guesses: int, target: float
) -> bool:
    """Proof that the remaining steps cannot reach the target: a bound on all later increments of r."""
    room = target - r - h
    for share in (0.5, 0.1, 1.0):
        reach = r + share * room
        eta = 0.05 * share * room
        if reach + eta > 1.0 or eta <= 0.0:
            continue
        slope = (float(g(reach + eta)) - float(g(reach))) / eta * SLOPE_ROUNDING
        later = step * _sum_of_increments((i - 1) / (guesses - i + 1) * slope, guesses)
        if later <= share * room and later + slope * (step + later) < room:
            return True
    return False


def _sum_of_increments(q: float, guesses: int) -> float:
    """Bound S of theory:one-run#early-stopping on the sum of q^j e^{-s j(j-1)/2} over j >= 1, s = 4 / guesses."""
    if q <= 0.0:
        return 0.0
    best = q / (1.0 - q) if q < 1.0 else math.inf
    s = 4.0 / guesses
    a = math.log(q) + s / 2.0
    exponent = a * a / (2.0 * s)
    if exponent < 700.0:
        gaussian = math.sqrt(2.0 * math.pi / s) * math.exp(exponent) * float(special.ndtr(a / math.sqrt(s)))
        best = min(best, gaussian + (math.exp(exponent) if a > 0.0 else 1.0))
    return best


def p_value(g: Callable[[float], float], *, canaries: int, guesses: int, correct: int) -> float:
    """The smallest level that rejects (rejection is monotone in it), rounded up; 1 where none does."""

    def rejected(log_level: float) -> bool:
        return rejects(g, canaries=canaries, guesses=guesses, correct=correct, level=math.exp(log_level))

    low, high = -60.0, 0.0
    if not rejected(high - 1e-12):
        return 1.0
    if rejected(low):
        return math.exp(low)
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return math.exp(high)
