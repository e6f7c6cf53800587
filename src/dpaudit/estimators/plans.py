"""Numbers fixed before any data: how many guesses to make, from the claim alone."""

from __future__ import annotations

import math

import numpy as np

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import UpperBound
from dpaudit.estimators.canaries import curve_rejected, invert_recursion
from dpaudit.tradeoff import GAUSSIAN, TradeOff


def plan_guesses(*, canaries: int, claim: UpperBound | TradeOff, confidence: float = 0.95) -> int:
    """The number of guesses to fix in advance for a bound on mu, from the claim alone.

    If canaries were independent and exactly as leaky as the claim, the n most confident guesses would be right at rate
    fbar(x) / (x + fbar(x)) with x + fbar(x) = n / m. The number whose expected count gives the largest bound on mu is
    taken (THEORY 2.5); all canaries where none gives any. No data is used, so nothing is paid.

    >>> from dpaudit.tradeoff import Gaussian
    >>> plan_guesses(canaries=10_000, claim=Gaussian(1.0))
    328
    """
    m, level, curve = _arguments(canaries, claim, confidence)
    return _best(_candidates(m), curve, m, level)


def plan_test(*, canaries: int, claim: UpperBound | TradeOff, confidence: float = 0.95, shift: float = 0.0) -> int:
    """The number of guesses for a test of the claim itself: as `plan_guesses`, but one that can refute it.

    A strong attack with few guesses may be unable to refute a weak claim even when all of them are right; only numbers
    with which a perfect attack would refute it are considered.
    """
    m, level, curve = _arguments(canaries, claim, confidence)
    able = [n for n in _candidates(m) if curve_rejected(curve, m, n, n, level, shift)]
    return _best(able, curve, m, level)


def _arguments(canaries: int, claim: UpperBound | TradeOff, confidence: float) -> tuple[int, float, TradeOff]:
    m, level = check.count("canaries", canaries, low=1), 1.0 - check.confidence(confidence)
    found = claim.hypothesis if isinstance(claim, UpperBound) else claim
    if not isinstance(found, TradeOff):
        raise InputError(f"`claim` must be an UpperBound or a trade-off curve, got {type(claim).__name__}.")
    return m, level, found.symmetric()


def _candidates(m: int) -> list[int]:
    return sorted({max(1, round(float(n))) for n in np.geomspace(1.0, m, 160)})


def _best(candidates: list[int], curve: TradeOff, m: int, level: float) -> int:
    expected = [(_planned(curve, m, n, level), n) for n in candidates]
    best = max((value for value, _ in expected), default=0.0)
    return next((n for value, n in expected if best > 0.0 and value >= best * (1.0 - 1e-4)), m)


def _planned(curve: TradeOff, m: int, n: int, level: float) -> float:
    fraction = n / m
    low, high = 0.0, fraction
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle + float(curve.fbar(middle)) < fraction else (low, middle)
    correct = min(float(n), max(n - n * high / fraction, n / 2.0))
    whole = math.floor(correct)
    below, above = (invert_recursion(GAUSSIAN, m, n, min(n, c), level, 0.0)[0] for c in (whole, whole + 1))
    return below + (correct - whole) * (above - below)
