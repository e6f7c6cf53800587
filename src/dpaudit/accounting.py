"""Upper bounds: what a mechanism promises, under the relation that is asked for.

Closed forms need numpy and scipy only. Poisson-subsampled DP-SGD goes through dp-accounting's privacy-loss
distributions (extra `accounting`), whose traps are avoided here: substitution is asked for as REPLACE_ONE (doubling the
sensitivity would be another mechanism), and the curve is read off the pessimistic distribution, so that rejecting the
curve rejects the mechanism. Relations that a mechanism cannot be stated under are refused.
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
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound
from dpaudit.bounds import relation as as_relation
from dpaudit.divergences import as_orders
from dpaudit.tradeoff import (
    ApproximateDP,
    Family,
    Gaussian,
    Laplace,
    PiecewiseLinear,
    RandomizedResponse,
    TradeOff,
    from_pairs,
    gdp_epsilon,
)

UP = 1.0 + 1e-9
CURVE_POINTS = 4001
FFT_SLACK = 1e-12
"""Added to every delta of a numeric curve: convolutions by FFT are right to about this much, absolutely."""
LARGEST_LOSS = 200.0
"""Privacy losses beyond this are counted as infinite, which is pessimistic."""
FINE, COARSE, FINEST = 1e-4, 1e-3, 1e-6
"""Cell widths of privacy losses: for one claim, for the many hypotheses of a family, for a known attack instance."""
TINY = 5e-324


def gaussian(*, mu: float, delta: float, relation: Relation | str, unit: str = "record") -> UpperBound:
    """A release that is mu-Gaussian-DP under `relation`: noise of standard deviation sensitivity / mu.

    >>> print(gaussian(mu=1.0, delta=1e-5, relation="add-remove"))
    mu <= 1.00, epsilon <= 4.38 at delta 1e-05   Gaussian mechanism, add-remove of one record
    """
    curve = Gaussian(check.number("mu", mu, low=0.0))
    return UpperBound(
        epsilon=curve.epsilon(check.delta(delta)) * UP,
        delta=delta,
        relation=as_relation(relation),
        curve=curve,
        method="Gaussian mechanism",
        mu=float(mu),
        unit=unit,
        terms={"mu": float(mu)},
        weaker=partial(_with_noise, curve),
    )


def laplace(*, epsilon: float, relation: Relation | str, delta: float = 0.0, unit: str = "record") -> UpperBound:
    """Laplace noise of scale sensitivity / epsilon, the sensitivity being that of `relation`."""
    curve = Laplace(check.number("epsilon", epsilon, low=0.0))
    terms = {"laplace": {"epsilon": epsilon}}
    return _closed_form(curve, "Laplace mechanism", relation, delta, unit, terms)


def randomized_response(
    *, epsilon: float, classes: int = 2, relation: Relation | str, delta: float = 0.0, unit: str = "record"
) -> UpperBound:
    """k-ary randomised response of an attribute, or of a whole record: stated for replacement only."""
    asked = as_relation(relation)
    if asked not in (Relation.LABEL, Relation.SUBSTITUTE):
        raise InputError(
            f"randomised response is stated under label or substitute adjacency, got {asked!s}.",
            "it answers for every record, so adding one always shows.",
        )
    curve = RandomizedResponse(check.number("epsilon", epsilon, low=0.0), check.count("classes", classes, low=2))
    terms = {"randomized_response": {"epsilon": epsilon, "classes": classes}}
    return _closed_form(curve, f"{classes}-ary randomised response", asked, delta, unit, terms)


def _closed_form(
    curve: TradeOff, method: str, relation: Relation | str, delta: float, unit: str, terms: dict[str, Any]
) -> UpperBound:
    epsilon = curve.epsilon(check.delta(delta))
    exact = delta == 0.0  # the parameter itself
    return UpperBound(
        epsilon=epsilon if exact else epsilon * UP,
        delta=delta,
        relation=as_relation(relation),
        curve=curve,
        method=method,
        unit=unit,
        terms=terms,
        weaker=partial(_with_noise, curve),
    )


def _with_noise(curve: TradeOff, share: float) -> TradeOff:
    """The closed form with a share of its noise: mu, or epsilon, divided by it."""
    if isinstance(curve, Gaussian):
        return Gaussian(curve.mu / share)
    assert isinstance(curve, Laplace | RandomizedResponse)
    return replace(curve, eps=curve.eps / share)


# ------------------------------------------------------------------------------------------------------------- DP-SGD


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
        return replace(exact, method="DP-SGD, full batch, exact", terms=terms)
    losses = _losses(sigma, rate, count, _replaces(asked), pessimistic=True)
    method = "DP-SGD, PLD accountant" + (", accounted as substitution" if asked is Relation.LABEL else "")
    return UpperBound(
        epsilon=float(losses.get_epsilon_for_delta(delta)) if delta > 0.0 else math.inf,
        delta=delta,
        relation=asked,
        curve=_dp_sgd_curve(sigma, rate, count, _replaces(asked)),
        method=method,
        unit=unit,
        references=("dp-accounting", "Koskela, Jalko and Honkela 2020"),
        terms=terms,
        weaker=partial(_dp_sgd_with_noise, sigma, rate, count, _replaces(asked)),
    )


def _dp_sgd_with_noise(sigma: float, rate: float, steps: int, replaces: bool, share: float) -> TradeOff:
    return _dp_sgd_curve(sigma * share, rate, steps, replaces, COARSE)


def dp_sgd_family(*, sampling_rate: float, steps: int, relation: Relation | str) -> Family:
    """The curves of DP-SGD with this sampling rate and number of steps, ordered by 1 / noise multiplier."""
    _, rate, count = _dp_sgd_arguments(1.0, sampling_rate, steps)
    asked = as_relation(relation)
    name = f"that of DP-SGD with sampling rate {rate:g} and {count} steps"
    parameter = "1 / noise multiplier"
    if rate == 1.0:
        scale = sensitivity(asked) * math.sqrt(count)
        convert = _gaussian_conversion(scale)
        return Family(name, parameter, lambda theta: Gaussian(scale * theta), convert, cap=20.0, relation=asked)

    def curve(theta: float) -> TradeOff:
        if theta == 0.0:
            return Gaussian(0.0)
        return _dp_sgd_curve(1.0 / max(theta, MIN_THETA), rate, count, _replaces(asked), COARSE)

    def epsilon(theta: float, delta: float) -> float:
        if theta <= MIN_THETA or delta >= 1.0:
            return 0.0
        if delta == 0.0:
            return 0.0 if theta == 0.0 else math.inf
        return float(
            _losses(1.0 / theta, rate, count, _replaces(asked), pessimistic=False).get_epsilon_for_delta(delta)
        )

    return Family(name, parameter, curve, epsilon, cap=4.0, tolerance=1e-3, relation=asked)


MIN_THETA = 1e-3
"""Below this the noise is more than a thousand clips; such hypotheses are tested as this one, which is less private."""


def _gaussian_conversion(scale: float) -> Callable[[float, float], float]:
    return lambda theta, delta: Gaussian(scale * theta).epsilon(delta) / UP


def _dp_sgd_arguments(noise_multiplier: float, sampling_rate: float, steps: int) -> tuple[float, float, int]:
    sigma = check.number("noise_multiplier", noise_multiplier, low=TINY)
    rate = check.number("sampling_rate", sampling_rate, low=TINY, high=1.0)
    return sigma, rate, check.count("steps", steps, low=1)


def _replaces(relation: Relation) -> bool:
    return relation in (Relation.SUBSTITUTE, Relation.LABEL)


def sensitivity(relation: Relation) -> float:
    """How far one change moves a sum of entries of size at most 1: replacing one takes it away and adds another."""
    return 2.0 if _replaces(relation) else 1.0


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

    return _least_noise(lambda s: _epsilon_of(s, sampling_rate, steps, delta, as_relation(relation)) <= wanted)


def _least_noise(enough: Callable[[float], bool]) -> float:
    """The least noise that is enough, to 1e-4 of itself, on the safe side; enough must be monotone."""
    low, high = 0.5, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
    while enough(low):
        low, high = 0.5 * low, low
    while high > low * (1.0 + 1e-4):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _epsilon_of(sigma: float, rate: float, steps: int, delta: float, relation: Relation) -> float:
    if rate == 1.0:
        return Gaussian(sensitivity(relation) * math.sqrt(steps) / sigma).epsilon(delta) * UP
    return float(_losses(sigma, rate, steps, _replaces(relation), pessimistic=True).get_epsilon_for_delta(delta))


def sold_as(upper: UpperBound, relation: Relation | str) -> UpperBound:
    """The number and curve of one adjacency, promised for another: a claim to be tested, never a bound that follows.

    "Add/remove accounting sold as attribute protection" is `sold_as(add_remove, "substitute")` (paper 001).
    """
    asked = as_relation(relation)
    if asked is upper.relation:
        return upper
    method = f"{upper.method}, accounted for {upper.relation} and sold as {asked}"
    return replace(upper, relation=asked, method=method, terms=None)


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


# ------------------------------------------------------------------------------------------------- private prediction


def noisy_argmax(
    *, sigma: float, queries: int = 1, delta: float, relation: Relation | str, unit: str = "record"
) -> UpperBound:
    """PATE's noisy argmax, whatever the votes: a changed record changes one vote, which moves two bins by one each.

    Releasing the noisy histogram is Gaussian with sensitivity sqrt(2), and the argmax is post-processing, so `queries`
    answers are sqrt(2 queries) / sigma Gaussian-DP. (The data-independent Renyi curve is `noisy_argmax_renyi`.)

    >>> round(noisy_argmax(sigma=20.0, queries=200, delta=1e-5, relation="substitute").mu, 6)
    1.0
    """
    scale = check.number("sigma", sigma, low=TINY)
    mu = math.sqrt(2.0 * check.count("queries", queries, low=1)) / scale
    method = "noisy argmax, data-independent"
    return replace(gaussian(mu=mu, delta=delta, relation=relation, unit=unit), method=method)


def votes_noise_for(*, epsilon: float, delta: float, queries: int) -> float:
    """The least Gaussian noise (rounded up) on votes for which `queries` noisy answers promise epsilon at delta.

    >>> sigma = votes_noise_for(epsilon=1.0, delta=1e-5, queries=100)
    >>> noisy_argmax(sigma=sigma, queries=100, delta=1e-5, relation="label").epsilon <= 1.0
    True
    """
    wanted = check.number("epsilon", epsilon, low=1e-3)
    if not 0.0 < check.delta(delta) < 1.0:
        raise InputError(f"`delta` must be in (0, 1) for Gaussian noise, got {delta:g}.")
    scale = math.sqrt(2.0 * check.count("queries", queries, low=1))
    return (1.0 + 1e-12) * scale * _least_noise(lambda sigma: gdp_epsilon(mu=1.0 / sigma, delta=delta) <= wanted)


def noisy_argmax_renyi(*, sigma: float, orders: Any, votes: Any = None) -> NDArray[np.float64]:
    """Upper bounds on the Renyi divergence of one noisy argmax at each order: order / sigma^2, or less if it is safe.

    With `votes`, the data-dependent bound of Papernot et al. 2018 (theorem 6 with proposition 10): where one class wins
    with high probability, little leaks. It depends on the private votes and may not be published as it is.
    """
    variance = check.number("sigma", sigma, low=1e-9) ** 2
    wanted = np.array(as_orders(orders))
    plain = wanted / variance
    if votes is None:
        return plain
    counts = check.votes("votes", votes)
    gaps = np.delete(counts.max() - counts, int(np.argmax(counts)))
    log_miss = float(special.logsumexp(special.log_ndtr(-gaps / math.sqrt(2.0 * variance))))  # another class wins
    return np.minimum(plain, _data_dependent(log_miss, variance, wanted, plain)) if log_miss < 0.0 else plain


def _data_dependent(
    log_q: float, variance: float, orders: NDArray[np.float64], plain: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Theorem 6 at mu2 = sigma sqrt(log 1/q) and mu1 = mu2 + 1 where its conditions hold, else the plain bound."""
    second = math.sqrt(-variance * log_q)
    first = second + 1.0
    loss_1, loss_2 = first / variance, second / variance
    if second <= 1.0 or -log_q <= loss_2:
        return plain
    limit = (second - 1.0) * loss_2 - second * (math.log(first / (first - 1.0)) + math.log(second / (second - 1.0)))
    if log_q > limit:
        return plain
    kept, steps = math.log1p(-math.exp(log_q)), orders - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        likely = steps * (kept - math.log(-math.expm1((log_q + loss_2) * (1.0 - 1.0 / second))))
        rare = steps * (loss_1 - log_q / (first - 1.0))
        found = np.logaddexp(kept + likely, log_q + rare) / steps
    return np.where((orders > 1.0) & (orders <= second), found, plain)


def independent_answers(
    laws: Any, *, delta: float, relation: Relation | str, repeats: int = 1, unit: str = "record"
) -> UpperBound:
    """The exact epsilon of a sequence of *independent* answers with known output laws (THEORY 2.10).

    `laws` are pairs (present, absent) of probabilities over the answers, one pair a query; `repeats` asks all of them
    that many times. Their privacy losses are composed, so no Renyi conversion is involved; each loss is rounded up by
    at most 1e-4. Answers that share random teachers are not independent, and nothing here can tell: that is for the
    caller to know.
    """
    asked, wanted, count = as_relation(relation), check.delta(delta), check.count("repeats", repeats, low=1)
    pairs = [_law_pair(pair) for pair in check.items("laws", laws)]
    if not pairs:
        raise InputError("`laws` must hold at least one pair of output laws, got none.")
    ahead, back = _both_ways(pairs, count)
    epsilon = max(float(side.get_epsilon_for_delta(wanted)) for side in (ahead, back))
    return UpperBound(
        epsilon=epsilon,
        delta=wanted,
        relation=asked,
        curve=_curve_of(ahead, back, "independent answers, pessimistic"),
        method=f"exact output laws of {count * len(pairs)} independent answers",
        unit=unit,
        references=("dp-accounting",),
    )


def leaked_epsilon(laws: Any, *, delta: float, repeats: int = 1) -> tuple[float, float]:
    """Between which numbers the epsilon of independent answers lies, with every loss rounded down and rounded up.

    As `independent_answers`, with steps so fine that the two differ by about a hundredth of epsilon (a tenth where more
    than a hundred different laws are composed, which takes long), or by 1e-6 an answer if that is more.
    """
    wanted, count = check.delta(delta), check.count("repeats", repeats, low=1)
    pairs = [_law_pair(pair) for pair in check.items("laws", laws)]
    if not pairs:
        raise InputError("`laws` must hold at least one pair of output laws, got none.")

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


def _law_pair(pair: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    both = check.items("laws", pair)
    if len(both) != 2:
        raise InputError(f"each entry of `laws` must be a pair (present, absent), got {len(both)} entries.")
    present, absent = check.law("present", both[0]), check.law("absent", both[1])
    check.same_length(present=present, absent=absent)
    return present, absent


def _composed_losses(
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]], repeats: int, step: float, pessimistic: bool
) -> Any:
    """Privacy losses of the first law of each pair over the second, composed over the pairs."""
    module, _ = _dp_accounting()
    total = None
    for upper, lower in pairs:
        with np.errstate(divide="ignore"):
            logs = [dict(enumerate(np.log(law).tolist())) for law in (lower, upper)]
        one = module.from_two_probability_mass_functions(
            {k: v for k, v in logs[0].items() if v > -math.inf},
            {k: v for k, v in logs[1].items() if v > -math.inf},
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
        )._pmf_remove
        total = one if total is None else total.compose(one)
    assert total is not None
    return total.self_compose(repeats) if repeats > 1 else total


# ------------------------------------------------------------------------------------------------------ group privacy


def group_privacy(upper: UpperBound, size: int = 2, delta: float | None = None) -> UpperBound:
    """What a promise for one record implies for `size` of them; two changes under add/remove make a substitution.

    (epsilon, delta) becomes (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)): for two, delta (1 + e^epsilon).
    With a target `delta`, the best pair of the promise's curve is taken instead.

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
        method=f"group privacy of {count} from: {upper.method}",
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
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
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
