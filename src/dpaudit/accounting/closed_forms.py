"""Upper bounds in closed form: Gaussian, Laplace, randomised response, noisy votes. numpy and scipy only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound
from dpaudit.bounds import relation as as_relation
from dpaudit.tradeoff import (
    Gaussian,
    Laplace,
    RandomizedResponse,
    TradeOff,
    as_orders,
    gdp_epsilon,
)

UP = 1.0 + 1e-9
RESPONSE = "{classes}-ary randomised response"
CLAIMED_AS = "{method}, accounted for {accounted} and claimed as {claimed}"


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
    return _closed_form(curve, filled(RESPONSE, {"classes": classes}), asked, delta, unit, terms)


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


def replaces(relation: Relation) -> bool:
    return relation in (Relation.SUBSTITUTE, Relation.LABEL)


def sensitivity(relation: Relation) -> float:
    """How far one change moves a sum of entries of size at most 1: replacing one takes it away and adds another."""
    return 2.0 if replaces(relation) else 1.0


def least_noise(enough: Callable[[float], bool]) -> float:
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


def claimed_as(upper: UpperBound, relation: Relation | str) -> UpperBound:
    """The number and curve of one adjacency, promised for another: a claim to be tested, never a bound that follows.

    "Add/remove accounting claimed as attribute protection" is `claimed_as(add_remove, "substitute")` (paper 001).
    """
    asked = as_relation(relation)
    if asked is upper.relation:
        return upper
    method = filled(CLAIMED_AS, {"method": upper.method, "accounted": upper.relation, "claimed": asked})
    return replace(upper, relation=asked, method=method, terms=None, family=None)


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
    scale = check.number("sigma", sigma, low=check.TINY)
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
    return (1.0 + 1e-12) * scale * least_noise(lambda sigma: gdp_epsilon(mu=1.0 / sigma, delta=delta) <= wanted)


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
