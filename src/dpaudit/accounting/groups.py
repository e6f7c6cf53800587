"""Group privacy: what a promise for one record implies for several."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.accounting.closed_forms import UP
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound
from dpaudit.tradeoff import (
    ApproximateDP,
    Gaussian,
    Laplace,
    PiecewiseLinear,
    RandomizedResponse,
    TradeOff,
    doubled,
)

OF_A_GROUP = "group privacy of {changed} from: {method}"


def group_privacy(upper: UpperBound, size: int = 2, delta: float | None = None) -> UpperBound:
    """What a promise for one record implies for `size` of them; two changes under add/remove make a substitution.

    (epsilon, delta) becomes (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)): for two, delta (1 + e^epsilon).
    With a target `delta`, the best pair of the promise's curve is taken instead.

    >>> from dpaudit.accounting import gaussian
    >>> two = group_privacy(gaussian(mu=1.0, delta=1e-5, relation="add-remove"))
    >>> print(two.relation, two.mu)
    substitute 2.0
    """
    if not isinstance(upper, UpperBound):
        raise InputError(f"`upper` must be an UpperBound, got {type(upper).__name__}.")
    count = check.count("size", size, low=2)
    pairwise = count == 2 and upper.relation is Relation.ADD_REMOVE
    if delta is None:
        epsilon, reached = (
            count * upper.epsilon,
            min(1.0, upper.delta * _geometric(upper.epsilon, count) * UP),
        )
    else:
        epsilon, reached = _group_epsilon(upper.hypothesis, count, check.delta(delta)), delta
    return UpperBound(
        epsilon=epsilon,
        delta=reached,
        relation=Relation.SUBSTITUTE if pairwise else upper.relation,
        curve=_group_curve(upper, count),
        method=filled(OF_A_GROUP, {"changed": count, "method": upper.method}),
        mu=None if upper.mu is None else count * upper.mu,
        unit=upper.unit if pairwise else f"group of {count} {upper.unit}s",
        references=upper.references,
        weaker=partial(_group_with_noise, upper, count),
    )


def _group_with_noise(upper: UpperBound, count: int, share: float) -> TradeOff:
    found = _group_curve(replace(upper, curve=upper.with_noise(share)), count)
    assert found is not None  # every curve that `with_noise` returns has a group curve
    return found


def _geometric(epsilon: float, count: int) -> float:
    """1 + e^epsilon + ... + e^((count - 1) epsilon)."""
    return sum(math.exp(min(j * epsilon, 700.0)) for j in range(count))


def _group_epsilon(curve: TradeOff, count: int, target: float) -> float:
    """count e for the least e whose group delta is at most the target (every such e is a valid pair)."""

    def enough(epsilon: float) -> bool:
        return curve.delta(epsilon) * _geometric(epsilon, count) <= target

    if enough(0.0):
        return 0.0
    low, high = doubled(enough, 1e4)
    if high > 1e4:
        return math.inf
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return count * high


def _group_curve(upper: UpperBound, count: int) -> TradeOff | None:
    curve = upper.hypothesis
    if isinstance(curve, Gaussian):
        return Gaussian(count * curve.mu)
    if isinstance(curve, Laplace):
        return Laplace(count * curve.eps)
    if isinstance(curve, ApproximateDP | RandomizedResponse):
        slack = curve.slack if isinstance(curve, ApproximateDP) else 0.0
        return ApproximateDP(count * curve.eps, min(1.0, slack * _geometric(curve.eps, count)))
    if isinstance(curve, PiecewiseLinear):
        single = found = curve.symmetric()
        for _ in range(count - 1):
            found = found.then(single)
        return found
    return None
