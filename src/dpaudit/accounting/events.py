"""Mechanisms that need an accountant: subsampled DP-SGD, and answers of known distributions, by dp-accounting.

The traps of dp-accounting are avoided here: substitution is asked for as REPLACE_ONE (doubling the sensitivity would be
another mechanism), and the curve is read off the pessimistic distribution, so that rejecting the curve rejects the
mechanism.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.accounting.closed_forms import UP, gaussian, least_noise, replaces, sensitivity
from dpaudit.accounting.groups import group_privacy
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound
from dpaudit.bounds import relation as as_relation
from dpaudit.tradeoff import (
    Family,
    Gaussian,
    PiecewiseLinear,
    TradeOff,
    from_pairs,
)

CURVE_POINTS = 4001
MIN_THETA = 1e-3
"""Below this the noise is more than a thousand clips; such hypotheses are tested as this one, which is less private."""
FFT_SLACK = 1e-12
"""Added to every delta of a numeric curve: convolutions by FFT are right to about this much, absolutely."""
LARGEST_LOSS = 200.0
"""Privacy losses beyond this are counted as infinite, which is pessimistic."""
FINE, COARSE, FINEST = 1e-4, 1e-3, 1e-6
"""Cell widths of privacy losses: for one claim, for the many hypotheses of a family, for a known attack instance."""
PLD = "DP-SGD, PLD accountant"
PLD_AS_SUBSTITUTION = "DP-SGD, PLD accountant, accounted as substitution"
DP_SGD_CURVE = "that of DP-SGD with sampling rate {sampling_rate:g} and {steps} steps"
INDEPENDENT_ANSWERS = "exact output distributions of {answers} independent answers"


def dp_sgd(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    relation: Relation | str,
    unit: str = "record",
) -> UpperBound:
    """DP-SGD: Poisson sampling at `sampling_rate`, per-example clipping, noise of `noise_multiplier` clips on the sum.

    Add/remove, zero-out (the same for this mechanism) and substitution are exact up to discretisation, rounded up;
    a label replacement is a substitution and accounted as one.

    >>> round(dp_sgd(noise_multiplier=1.0, sampling_rate=1.0, steps=1, delta=1e-5, relation="substitute").mu, 6)
    2.0
    """
    sigma, rate, count = _dp_sgd_arguments(noise_multiplier, sampling_rate, steps)
    asked, delta = as_relation(relation), check.delta(delta)
    terms = {"dp_sgd": {"noise_multiplier": sigma, "sampling_rate": rate, "steps": count}}
    if rate == 1.0:
        mu = sensitivity(asked) * math.sqrt(count) / sigma
        exact = gaussian(mu=mu, delta=delta, relation=asked, unit=unit)
        return replace(exact, method="DP-SGD, full batch, exact", terms=terms, family=partial(_family_of, rate, count))
    losses = _losses(sigma, rate, count, replaces(asked), pessimistic=True)
    return UpperBound(
        epsilon=float(losses.get_epsilon_for_delta(delta)) if delta > 0.0 else math.inf,
        delta=delta,
        relation=asked,
        curve=_dp_sgd_curve(sigma, rate, count, replaces(asked)),
        method=PLD_AS_SUBSTITUTION if asked is Relation.LABEL else PLD,
        unit=unit,
        references=("dp-accounting", "Koskela, Jalko and Honkela 2020"),
        terms=terms,
        family=partial(_family_of, rate, count),
        weaker=partial(_dp_sgd_with_noise, sigma, rate, count, replaces(asked)),
    )


def _family_of(rate: float, steps: int, relation: Relation) -> Family:
    return dp_sgd_family(sampling_rate=rate, steps=steps, relation=relation)


def _dp_sgd_with_noise(sigma: float, rate: float, steps: int, replaces: bool, share: float) -> TradeOff:
    return _dp_sgd_curve(sigma * share, rate, steps, replaces, COARSE)


def dp_sgd_family(*, sampling_rate: float, steps: int, relation: Relation | str) -> Family:
    """The curves of DP-SGD with this sampling rate and number of steps, ordered by 1 / noise multiplier."""
    _, rate, count = _dp_sgd_arguments(1.0, sampling_rate, steps)
    asked = as_relation(relation)
    name = filled(DP_SGD_CURVE, {"sampling_rate": rate, "steps": count})
    parameter = "1 / noise multiplier"
    if rate == 1.0:
        scale = sensitivity(asked) * math.sqrt(count)
        convert = _gaussian_conversion(scale)
        return Family(name, parameter, lambda theta: Gaussian(scale * theta), convert, cap=20.0, relation=asked)

    def curve(theta: float) -> TradeOff:
        if theta == 0.0:
            return Gaussian(0.0)
        return _dp_sgd_curve(1.0 / max(theta, MIN_THETA), rate, count, replaces(asked), COARSE)

    def epsilon(theta: float, delta: float) -> float:
        if theta <= MIN_THETA or delta >= 1.0:
            return 0.0
        if delta == 0.0:
            return 0.0 if theta == 0.0 else math.inf
        return float(_losses(1.0 / theta, rate, count, replaces(asked), pessimistic=False).get_epsilon_for_delta(delta))

    return Family(name, parameter, curve, epsilon, cap=4.0, tolerance=1e-3, relation=asked)


def _gaussian_conversion(scale: float) -> Callable[[float, float], float]:
    return lambda theta, delta: Gaussian(scale * theta).epsilon(delta) / UP


def _dp_sgd_arguments(noise_multiplier: float, sampling_rate: float, steps: int) -> tuple[float, float, int]:
    sigma = check.number("noise_multiplier", noise_multiplier, low=check.TINY)
    rate = check.number("sampling_rate", sampling_rate, low=check.TINY, high=1.0)
    return sigma, rate, check.count("steps", steps, low=1)


@lru_cache(maxsize=64)
def _losses(sigma: float, rate: float, steps: int, replaces: bool, *, pessimistic: bool, finest: float = FINE) -> Any:
    """dp-accounting's privacy-loss distribution of all steps."""
    module, relations = _dp_accounting()
    return module.from_gaussian_mechanism(
        standard_deviation=sigma,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=max(finest, _coarsest(sigma, rate, steps, replaces)),
        sampling_prob=rate,
        neighboring_relation=relations.REPLACE_ONE if replaces else relations.ADD_OR_REMOVE_ONE,
    ).self_compose(steps)


def _coarsest(sigma: float, rate: float, steps: int, replaces: bool) -> float:
    """The cell width at which the losses of all steps fill about 1e6 cells (rounded the safe way, however wide)."""
    one = (2.0 if replaces else 1.0) / sigma
    mu = math.sqrt(steps) * min(one, rate * math.sqrt(math.expm1(min(one * one, 60.0))))
    return (mu * mu / 2.0 + 10.0 * mu) / 5e5


@lru_cache(maxsize=64)
def _dp_sgd_curve(sigma: float, rate: float, steps: int, replaces: bool, finest: float = FINE) -> PiecewiseLinear:
    """Pessimistic trade-off curve, null = without the record: the remove direction of the pessimistic distribution."""
    losses = _losses(sigma, rate, steps, replaces, pessimistic=True, finest=finest)
    # dp-accounting keeps the two directions apart, but offers only their maximum in public
    return _curve_of(losses._pmf_remove, losses._pmf_add, "DP-SGD, pessimistic")


def _curve_of(forward: Any, backward: Any, label: str) -> PiecewiseLinear:
    """The curve of a pair of worlds from the privacy losses of both directions; `forward` has the null below."""
    reaches = [float(side.get_epsilon_for_delta(10.0 * FFT_SLACK)) for side in (forward, backward)]
    epsilons = np.linspace(0.0, min(max(*reaches, 1e-3), LARGEST_LOSS), CURVE_POINTS // 2)
    ahead, back = (
        np.minimum(np.asarray(side.get_delta_for_epsilon(epsilons)) + FFT_SLACK, 1.0) for side in (forward, backward)
    )
    other = -np.expm1(-epsilons) + np.exp(-epsilons) * back  # delta(-e) of one direction from delta(e) of the other
    return from_pairs(np.concatenate([-epsilons, epsilons]), np.concatenate([other, ahead]), label=label)


def available() -> bool:
    """Whether subsampled DP-SGD can be accounted for here (extra `accounting`)."""
    return importlib.util.find_spec("dp_accounting") is not None


def _dp_accounting() -> tuple[Any, Any]:
    try:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        raise InputError(
            "accounting for subsampled DP-SGD needs the package dp-accounting, which is not installed.",
            "pip install 'dpaudit[accounting]', or give the claim as a number.",
        ) from None
    return privacy_loss_distribution, NeighboringRelation


def noise_multiplier_for(
    *, epsilon: float, delta: float, sampling_rate: float, steps: int, relation: Relation | str
) -> float:
    """The least noise multiplier (to 1e-4 of itself, rounded up) for which DP-SGD promises this epsilon at delta.

    >>> sigma = noise_multiplier_for(epsilon=4.0, delta=1e-5, sampling_rate=1.0, steps=1, relation="add-remove")
    >>> round(sigma, 3)
    1.081
    """
    wanted = check.number("epsilon", epsilon, low=1e-3)
    if not 0.0 < check.delta(delta) < 1.0:
        raise InputError(f"`delta` must be in (0, 1) for Gaussian noise, got {delta:g}.")
    _dp_sgd_arguments(1.0, sampling_rate, steps)

    return least_noise(lambda s: _epsilon_of(s, sampling_rate, steps, delta, as_relation(relation)) <= wanted)


def _epsilon_of(sigma: float, rate: float, steps: int, delta: float, relation: Relation) -> float:
    if rate == 1.0:
        return Gaussian(sensitivity(relation) * math.sqrt(steps) / sigma).epsilon(delta) * UP
    return float(_losses(sigma, rate, steps, replaces(relation), pessimistic=True).get_epsilon_for_delta(delta))


@dataclass(frozen=True)
class Adjacencies:
    """What the same DP-SGD promises after some steps under three readings; every number is an upper bound on epsilon.

    `by_group` is what group privacy makes of the add/remove promise (paper 001, theorem 4.1, best pair at delta).
    """

    steps: int
    delta: float
    add_remove: float
    substitute: float
    by_group: float


def adjacencies(
    *, noise_multiplier: float, sampling_rate: float, steps: Iterable[int], delta: float
) -> tuple[Adjacencies, ...]:
    """Epsilon at each of these steps under add/remove, substitution, and substitution by group privacy.

    >>> (one,) = adjacencies(noise_multiplier=1.0, sampling_rate=1.0, steps=[1], delta=1e-5)
    >>> [round(value, 2) for value in (one.add_remove, one.substitute, one.by_group)]
    [4.38, 10.0, 11.05]
    """
    found = []
    for count in check.items("steps", steps):
        common = {"noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate, "steps": count, "delta": delta}
        plain = dp_sgd(**common, relation=Relation.ADD_REMOVE)
        replaced = dp_sgd(**common, relation=Relation.SUBSTITUTE)
        group = group_privacy(plain, delta=delta)
        found.append(Adjacencies(count, delta, plain.epsilon, replaced.epsilon, group.epsilon))
    return tuple(found)


def independent_answers(
    distributions: Any, *, delta: float, relation: Relation | str, repeats: int = 1, unit: str = "record"
) -> UpperBound:
    """The exact epsilon of a sequence of *independent* answers with known output distributions.

    See theory:private-prediction#composition.

    `distributions` are pairs (present, absent) of probabilities over the answers, one pair a query; `repeats` asks all
    of them that many times. Their privacy losses are composed, so no Renyi conversion is involved; each loss is rounded
    up by at most 1e-4. Answers that share random teachers are not independent, and nothing here can tell: that is for
    the caller to know.
    """
    asked, wanted, count = as_relation(relation), check.delta(delta), check.count("repeats", repeats, low=1)
    pairs = [_distribution_pair(pair) for pair in check.items("distributions", distributions)]
    if not pairs:
        raise InputError("`distributions` must hold at least one pair of output distributions, got none.")
    ahead, back = _both_ways(pairs, count)
    epsilon = max(float(side.get_epsilon_for_delta(wanted)) for side in (ahead, back))
    return UpperBound(
        epsilon=epsilon,
        delta=wanted,
        relation=asked,
        curve=_curve_of(ahead, back, "independent answers, pessimistic"),
        method=filled(INDEPENDENT_ANSWERS, {"answers": count * len(pairs)}),
        unit=unit,
        references=("dp-accounting",),
    )


def leaked_epsilon(distributions: Any, *, delta: float, repeats: int = 1) -> tuple[float, float]:
    """Between which numbers the epsilon of independent answers lies, with every loss rounded down and rounded up.

    As `independent_answers`, with steps so fine that the two differ by about a hundredth of epsilon (a tenth where more
    than a hundred different distributions are composed, which takes long), or by 1e-6 an answer if that is more.
    """
    wanted, count = check.delta(delta), check.count("repeats", repeats, low=1)
    pairs = [_distribution_pair(pair) for pair in check.items("distributions", distributions)]
    if not pairs:
        raise InputError("`distributions` must hold at least one pair of output distributions, got none.")

    def largest(step: float, pessimistic: bool) -> float:
        sides = _both_ways(pairs, count, step=step, pessimistic=pessimistic)
        return max(float(side.get_epsilon_for_delta(wanted)) for side in sides)

    above = largest(FINE, True)
    share = 0.005 if len(pairs) <= 100 else 0.05
    step = min(FINE, max(FINEST, share * above / (count * len(pairs))))
    if step < FINE:
        above = min(above, largest(step, True))
    return min(largest(step, False), above), above


def _both_ways(pairs: Any, count: int, *, step: float = FINE, pessimistic: bool = True) -> tuple[Any, Any]:
    other = [(q, p) for p, q in pairs]
    return tuple(_composed_losses(side, count, step, pessimistic) for side in (pairs, other))


def _distribution_pair(pair: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    both = check.items("distributions", pair)
    if len(both) != 2:
        raise InputError(f"each entry of `distributions` must be a pair (present, absent), got {len(both)} entries.")
    present, absent = check.distribution("present", both[0]), check.distribution("absent", both[1])
    check.same_length(present=present, absent=absent)
    return present, absent


def _composed_losses(
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]], repeats: int, step: float, pessimistic: bool
) -> Any:
    """Privacy losses of the first distribution of each pair over the second, composed over the pairs."""
    module, _ = _dp_accounting()
    total = None
    for upper, lower in pairs:
        with np.errstate(divide="ignore"):
            logs = [dict(enumerate(np.log(distribution).tolist())) for distribution in (lower, upper)]
        one = module.from_two_probability_mass_functions(
            {k: v for k, v in logs[0].items() if v > -math.inf},
            {k: v for k, v in logs[1].items() if v > -math.inf},
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
        )._pmf_remove
        total = one if total is None else total.compose(one)
    assert total is not None
    return total.self_compose(repeats) if repeats > 1 else total
