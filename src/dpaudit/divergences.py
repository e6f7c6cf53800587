"""Renyi divergences of discrete laws, and what they say about pure DP (THEORY 002-3, 002-5, 002-8)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError


def renyi_divergence(p: Any, q: Any, *, orders: Any) -> NDArray[np.float64]:
    """D_a(p || q) = log(sum p^a q^(1-a)) / (a - 1) of two discrete laws, for each order a >= 1.

    Order 1 is the Kullback-Leibler divergence, order infinity the largest log ratio. Computed in logarithms, so rare
    outcomes keep their weight; infinite where q misses an outcome of p.

    >>> renyi_divergence([0.5, 0.5], [0.25, 0.75], orders=[1, 2]).round(4).tolist()
    [0.1438, 0.2877]
    """
    first, second = check.law("p", p), check.law("q", q)
    check.same_length(p=first, q=second)
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(first), np.log(second)
    return np.array([_divergence(log_p, log_q, order) for order in as_orders(orders)])


def as_orders(orders: Any) -> list[float]:
    """Orders of at least 1, from one number or a list."""
    values = check.items("orders", orders) if hasattr(orders, "__iter__") else [orders]
    found = [check.number("orders", order, low=1.0, infinite=True) for order in values]
    if not found:
        raise InputError("`orders` must name at least one order, got none.")
    return found


def _divergence(log_p: NDArray[np.float64], log_q: NDArray[np.float64], order: float) -> float:
    seen = log_p > -np.inf
    p, q = log_p[seen], log_q[seen]
    if np.any(q == -np.inf):
        return math.inf
    if order == math.inf:
        return max(0.0, float(np.max(p - q)))
    if order == 1.0:
        return max(0.0, float(np.sum(np.exp(p) * (p - q))))
    return max(0.0, float(special.logsumexp(order * p + (1.0 - order) * q)) / (order - 1.0))


def bernoulli_renyi(p: float, q: float, order: float) -> float:
    """d_a(p || q) of two coins: increasing in p and decreasing in q where p > q."""
    if p == q:
        return 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([[p, 1.0 - p], [q, 1.0 - q]]))
    return _divergence(logs[0], logs[1], order)


def pure_dp_renyi(epsilon: float, order: float) -> float:
    """The largest Renyi divergence that epsilon-DP allows, attained by randomised response (THEORY 002-8)."""
    if epsilon <= 0.0:
        return 0.0
    likely, rare = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    return _divergence(np.array([likely, rare]), np.array([rare, likely]), order)


def epsilon_from_renyi(value: float, *, order: float) -> float:
    """The pure-DP epsilon that a Renyi divergence implies: a mechanism with D_a >= value is not e-DP for smaller e.

    This is the only conversion of a Renyi *lower* bound that is valid; none to (epsilon, delta) exists.

    >>> round(epsilon_from_renyi(pure_dp_renyi(1.5, 4.0), order=4.0), 6)
    1.5
    """
    value = check.number("value", value, low=0.0)
    order = check.number("order", order, low=1.0, infinite=True)
    low, high = 0.0, 1.0
    while pure_dp_renyi(high, order) < value:
        low, high = high, 2.0 * high
        if high > 700.0:
            return low
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if pure_dp_renyi(middle, order) <= value else (low, middle)
    return low
