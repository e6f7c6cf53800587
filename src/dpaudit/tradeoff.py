"""Trade-off functions: how well any attack can tell two worlds apart.

A curve answers three questions (theory:curves#notation). `f(a)` is the least type-II error at type-I error `a`, where
the *absent* world is the null hypothesis; `fbar = 1 - f` is the best true-positive rate; `g` is the inverse of `fbar`,
the least false-positive rate at true-positive rate `r`. A larger `fbar` means less privacy. All three take floats and
arrays. `epsilon(delta)` and `delta(epsilon)` convert the curve, exactly, to the pairs that it implies in both
directions.

Curves are symmetric (the add and the remove direction agree) except for `PiecewiseLinear`, which may not be; its
`symmetric()` is the curve that holds in both directions, as one-run audits need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpaudit import _validate as check
from dpaudit._validate import InputError

__all__ = [
    "GAUSSIAN",
    "LAPLACE",
    "ApproximateDP",
    "Family",
    "Gaussian",
    "Laplace",
    "Mixed",
    "PiecewiseLinear",
    "RandomizedResponse",
    "TradeOff",
    "approximate",
    "as_orders",
    "bernoulli_renyi",
    "epsilon_from_renyi",
    "from_pairs",
    "gdp_delta",
    "gdp_epsilon",
    "hull",
    "pure_dp_renyi",
    "randomized_response",
    "renyi_divergence",
]

ROUND = 1e-9
"""Relative distance by which a converted epsilon is moved to the safe side; root finding errs far less."""


@runtime_checkable
class TradeOff(Protocol):
    """What an estimator needs of a curve."""

    def f(self, a: Any) -> Any: ...
    def fbar(self, x: Any) -> Any: ...
    def g(self, r: Any) -> Any: ...
    def epsilon(self, delta: float) -> float: ...
    def delta(self, epsilon: float) -> float: ...
    def symmetric(self) -> TradeOff: ...


class _Symmetric:
    """f(a) = g(1 - a): the two directions agree, and small type-II errors keep their digits."""

    def g(self, r: Any) -> Any:
        raise TypeError("a curve defines g")

    def f(self, a: Any) -> Any:
        return self.g(1.0 - a)

    def symmetric(self) -> Any:
        return self


# ---------------------------------------------------------------------------------------------- Gaussian DP


def gdp_delta(*, mu: float, epsilon: float) -> float:
    """The smallest delta with which mu-Gaussian-DP implies (epsilon, delta)-DP (Dong, Roth and Su, Corollary 1).

    >>> f"{gdp_delta(mu=1.0, epsilon=1.0):.6f}"
    '0.126937'
    """
    mu = check.number("mu", mu, low=0.0, infinite=True)
    epsilon = check.number("epsilon", epsilon, low=0.0, infinite=True)
    return math.exp(_log_gdp_delta(mu, epsilon))


def gdp_epsilon(*, mu: float, delta: float) -> float:
    """The smallest epsilon with which mu-Gaussian-DP implies (epsilon, delta)-DP; the inverse of `gdp_delta`.

    `delta = 0` gives infinity for every mu > 0: a Gaussian release is never purely private. So does mu above 1e8, where
    epsilon exceeds 5e15 and floats no longer tell it from its neighbours.

    >>> f"{gdp_epsilon(mu=1.0, delta=1e-5):.6f}"
    '4.377178'
    """
    mu, delta = check.number("mu", mu, low=0.0, infinite=True), check.delta(delta)
    if mu == 0.0 or delta >= math.erf(mu / math.sqrt(8.0)):  # 2 Phi(mu/2) - 1
        return 0.0
    if delta == 0.0 or mu > 1e8:
        return math.inf
    target = math.log(delta)

    def gap(epsilon: float) -> float:
        return max(_log_gdp_delta(mu, epsilon), -1e5) - target

    high = mu * (mu / 2.0 + math.sqrt(-2.0 * target) + 1.0)  # Phi(-z) <= exp(-z^2 / 2): delta(high) < delta
    return float(optimize.brentq(gap, 0.0, high, xtol=1e-300, rtol=8.9e-16, maxiter=500))


def _log_gdp_delta(mu: float, epsilon: float) -> float:
    """log delta_mu(epsilon), stable in every tail.

    With z = epsilon/mu - mu/2 and the Mills ratio R, delta = Phi(-z) - phi(z) R(z + mu), because
    e^epsilon phi(z + mu) = phi(z). Where both terms nearly cancel, R(z) - R(z + mu) is the integral of 1 - t R(t).
    """
    if mu == 0.0:
        return -math.inf
    if mu == math.inf or epsilon == math.inf:
        return 0.0 if epsilon < math.inf else -math.inf
    z = epsilon / mu - mu / 2.0
    if z < -1.0:
        return math.log(max(special.ndtr(-z) - _density(z) * _mills(z + mu), 5e-324))
    log_density = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
    if mu < 0.5:
        nodes = z + mu * _NODES
        difference = mu * float(_WEIGHTS @ (1.0 - nodes * _mills(nodes)))
    else:
        difference = float(_mills(z) - _mills(z + mu))
    return log_density + math.log(difference) if difference > 0.0 else -math.inf


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (_NODES + 1.0) / 2.0, _WEIGHTS / 2.0


def _mills(z: Any) -> Any:
    return math.sqrt(math.pi / 2.0) * special.erfcx(z / math.sqrt(2.0))


def _density(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class Gaussian(_Symmetric):
    """G_mu: telling N(0, 1) from N(mu, 1)."""

    mu: float

    def __post_init__(self) -> None:
        check.number("mu", self.mu, low=0.0)

    def fbar(self, x: Any) -> Any:
        return special.ndtr(special.ndtri(x) + self.mu)

    def g(self, r: Any) -> Any:
        return special.ndtr(special.ndtri(r) - self.mu)

    def epsilon(self, delta: float) -> float:
        return gdp_epsilon(mu=self.mu, delta=delta)

    def delta(self, epsilon: float) -> float:
        return gdp_delta(mu=self.mu, epsilon=epsilon)


# ------------------------------------------------------------------------------------- other closed forms


@dataclass(frozen=True)
class _OfEpsilon(_Symmetric):
    """A curve that one epsilon decides, perhaps with something else."""

    eps: float

    def __post_init__(self) -> None:
        check.number("epsilon", self.eps, low=0.0)


@dataclass(frozen=True)
class ApproximateDP(_OfEpsilon):
    """f_(epsilon, delta): the least private curve that an (epsilon, delta) pair allows."""

    slack: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.delta(self.slack)

    def fbar(self, x: Any) -> Any:
        grow = math.exp(min(self.eps, 700.0))
        return np.minimum(1.0, np.minimum(self.slack + grow * x, 1.0 - (1.0 - self.slack - x) / grow))

    def g(self, r: Any) -> Any:
        shrink = math.exp(-self.eps)
        steep = 1.0 - self.slack - (1.0 - r) / shrink if shrink > 0.0 else np.where(r >= 1.0, 1.0 - self.slack, -1.0)
        if isinstance(r, float):  # the one-run recursion calls this hundreds of times
            return max(0.0, (r - self.slack) * shrink, float(steep))
        return np.maximum(0.0, np.maximum((r - self.slack) * shrink, steep))

    def epsilon(self, delta: float) -> float:
        if delta >= self.delta(0.0):
            return 0.0
        if delta <= self.slack:
            return self.eps if delta == self.slack else math.inf
        excess = (delta - self.slack) / (1.0 - self.slack)
        return _log1pexp_inverse(self.eps, excess)

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.eps:
            return self.slack
        pure = -math.expm1(epsilon - self.eps) / (1.0 + math.exp(-self.eps))
        return self.slack + (1.0 - self.slack) * pure


def _log1pexp_inverse(eps: float, excess: float) -> float:
    """The e with (e^eps - e^e) / (1 + e^eps) = excess."""
    inside = 1.0 - excess * (1.0 + math.exp(-eps))
    return max(0.0, eps + math.log(inside)) if inside > 0.0 else 0.0


@dataclass(frozen=True)
class Laplace(_OfEpsilon):
    """Laplace noise of scale 1/epsilon on a value that moves by one."""

    def fbar(self, x: Any) -> Any:
        x = np.asarray(x, dtype=float)
        shrink = math.exp(-self.eps)
        with np.errstate(divide="ignore", over="ignore"):
            middle = 1.0 - shrink / (4.0 * np.maximum(x, 1e-300))
            value = np.where(x < shrink / 2.0, x / shrink, np.where(x <= 0.5, middle, 1.0 - shrink * (1.0 - x)))
        return value if value.ndim else float(value)

    def g(self, r: Any) -> Any:
        shrink = math.exp(-self.eps)
        if isinstance(r, float):
            if r <= 0.5:
                return shrink * r
            return shrink / (4.0 * (1.0 - r)) if 1.0 - r >= shrink / 2.0 else 1.0 - (1.0 - r) / shrink
        r = np.asarray(r, dtype=float)
        rest = np.maximum(1.0 - r, 1e-300)
        with np.errstate(over="ignore"):
            value = np.where(
                r <= 0.5,
                shrink * r,
                np.where(rest >= shrink / 2.0, shrink / (4.0 * rest), 1.0 - rest / shrink),
            )
        return value if value.ndim else float(value)

    def epsilon(self, delta: float) -> float:
        return max(0.0, self.eps + 2.0 * math.log1p(-delta)) if delta < 1.0 else 0.0

    def delta(self, epsilon: float) -> float:
        return max(0.0, -math.expm1((epsilon - self.eps) / 2.0))


@dataclass(frozen=True)
class RandomizedResponse(_OfEpsilon):
    """k-ary randomised response: the truth with odds e^epsilon against each of the k - 1 other answers."""

    classes: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check.count("classes", self.classes, low=2)

    @property
    def _rates(self) -> tuple[float, float]:
        q = math.exp(-self.eps) / (1.0 + (self.classes - 1) * math.exp(-self.eps))
        return q, 1.0 / (1.0 + (self.classes - 1) * math.exp(-self.eps))

    def fbar(self, x: Any) -> Any:
        q, p = self._rates
        return np.minimum(x * (p / q), np.minimum(x - q + p, 1.0 - (1.0 - x) * (q / p)))

    def g(self, r: Any) -> Any:
        q, p = self._rates
        lines = r * (q / p), r - p + q, 1.0 - (1.0 - r) * (p / q)
        if isinstance(r, float):
            return max(0.0, *lines)
        return np.maximum(0.0, np.maximum(lines[0], np.maximum(lines[1], lines[2])))

    def epsilon(self, delta: float) -> float:
        q, p = self._rates
        return max(0.0, math.log((p - delta) / q)) if delta < p else 0.0

    def delta(self, epsilon: float) -> float:
        q, p = self._rates
        return max(0.0, p - math.exp(epsilon) * q)


@dataclass(frozen=True)
class Mixed:
    """f composed with f_(0, share): the curve of a mechanism that fails entirely with probability `share`.

    theory:curves#mixed: g'(r) = (1 - d) g((r - d) / (1 - d)) for r > d, else 0. It carries the shift tau of an
    observational audit, and it is never weaker than the paper's g(r) - tau.
    """

    curve: TradeOff
    share: float

    def __post_init__(self) -> None:
        check.number("share", self.share, low=0.0, high=1.0)

    def f(self, a: Any) -> Any:
        return (1.0 - self.share) * self.curve.f(np.minimum(1.0, a / self._rest))

    def fbar(self, x: Any) -> Any:
        return 1.0 - self.f(x)

    def g(self, r: Any) -> Any:
        if isinstance(r, float):
            return 0.0 if r <= self.share else self._rest * self.curve.g((r - self.share) / self._rest)
        return self._rest * self.curve.g(np.clip((r - self.share) / self._rest, 0.0, 1.0))

    @property
    def _rest(self) -> float:
        return max(1.0 - self.share, 5e-324)

    def epsilon(self, delta: float) -> float:
        if delta >= 1.0:
            return 0.0
        return self.curve.epsilon((delta - self.share) / self._rest) if delta >= self.share else math.inf

    def delta(self, epsilon: float) -> float:
        return self.share + (1.0 - self.share) * self.curve.delta(epsilon)

    def symmetric(self) -> Mixed:
        return Mixed(self.curve.symmetric(), self.share)


# ------------------------------------------------------------------------------------------ numeric curves


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """A curve given by the vertices of `fbar`: false-positive rates `x`, true-positive rates `y`, both from ... to 1.

    `fbar` must be concave and at least the diagonal; chords between exact points of a *smooth* curve would be too
    private and over-claim (theory:curves#numeric), so hand in the vertices of a pessimistic (dominating) pair.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    label: str = field(default="a numeric curve")

    def __post_init__(self) -> None:
        x, y = check.floats("x", self.x), check.floats("y", self.y)
        check.same_length(x=x, y=y)
        ordered = x.size >= 2 and np.all(np.diff(x) >= 0.0) and np.all(np.diff(y) >= 0.0)
        if not ordered or x[0] != 0.0 or x[-1] != 1.0 or y[0] < 0.0 or y[-1] != 1.0:
            raise check.InputError("vertices of `fbar` must rise from (0, y0 >= 0) to (1, 1).")
        if np.any(y < x - 1e-12):
            raise check.InputError("`fbar` must not fall below the diagonal: no attack is worse than guessing.")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)

    def fbar(self, x: Any) -> Any:
        return np.interp(x, self.x, self.y)

    def f(self, a: Any) -> Any:
        return 1.0 - self.fbar(a)

    def g(self, r: Any) -> Any:
        rising_x, rising_y = self._rising
        return np.interp(r, rising_y, rising_x)

    @cached_property
    def _rising(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vertices up to the first that reaches 1, where each y appears once (with the smallest x)."""
        keep = np.concatenate([[True], np.diff(self.y) > 0.0])
        return self.x[keep], self.y[keep]

    def inverse(self) -> PiecewiseLinear:
        """The same pair of worlds in the other direction: fbar'(x) = 1 - g(1 - x)."""
        return hull(1.0 - self.y, 1.0 - self.x, label=self.label)

    def symmetric(self) -> PiecewiseLinear:
        """Lower convex envelope of f and its inverse: what holds whichever world is the null.

        See theory:curves#symmetric.
        """
        other = self.inverse()
        return hull(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]), label=self.label)

    def then(self, other: PiecewiseLinear) -> PiecewiseLinear:
        """`fbar` of one change after another, other.fbar(self.fbar(x)): the group privacy of two records."""
        x = np.unique(np.concatenate([self.x, self.g(other.x)]))
        return hull(x, other.fbar(self.fbar(x)), label=self.label)

    def epsilon(self, delta: float) -> float:
        return max(_pair_epsilon(self.x, self.y, delta), _pair_epsilon(1.0 - self.y, 1.0 - self.x, delta))

    def delta(self, epsilon: float) -> float:
        grow = math.exp(min(epsilon, 700.0))
        return float(max(np.max(self.y - grow * self.x), np.max(1.0 - self.x - grow * (1.0 - self.y)), 0.0))


def _pair_epsilon(x: NDArray[np.float64], y: NDArray[np.float64], delta: float) -> float:
    """log sup (y - delta) / x over the vertices: the least epsilon of a concave fbar at this delta."""
    above = y > delta
    if not above.any():
        return 0.0
    if np.any(x[above] <= 0.0):
        return math.inf
    return max(0.0, float(np.max(np.log(y[above] - delta) - np.log(x[above]))))


def hull(x: NDArray[np.float64], y: NDArray[np.float64], *, label: str = "a numeric curve") -> PiecewiseLinear:
    """The least concave fbar above the points: an upper hull, so never more private than any of them."""
    x = np.concatenate([[0.0, 1.0], np.clip(x, 0.0, 1.0)])
    y = np.concatenate([[0.0, 1.0], np.clip(y, 0.0, 1.0)])
    order = np.lexsort((y, x))
    top: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if top and point[0] == top[-1][0]:
            top.pop()  # the same x: the later point is the higher one
        while len(top) >= 2 and _turns_up(top[-2], top[-1], point):
            top.pop()
        if not top or point[1] > top[-1][1] or point[0] == 1.0:
            top.append(point)
    found = np.array(top)
    return PiecewiseLinear(found[:, 0], np.maximum.accumulate(found[:, 1]), label)


def from_pairs(epsilons: Any, deltas: Any, *, label: str = "a numeric curve") -> PiecewiseLinear:
    """The least private curve that satisfies every pair P(E) <= e^epsilon Q(E) + delta of a list.

    Epsilons may be negative: those pairs describe the other direction. The curve is the minimum of the lines
    delta + e^epsilon x, so it is pessimistic however few pairs are given.
    """
    slopes = np.append(np.exp(np.asarray(epsilons, dtype=float)), 0.0)
    heights = np.append(np.asarray(deltas, dtype=float), 1.0)
    if slopes.size != heights.size or not np.all(slopes + heights >= 1.0 - 1e-12):
        raise check.InputError("each pair must allow the sure event: 1 <= e^epsilon + delta.")
    order = np.argsort(slopes)
    lines: list[tuple[float, float]] = []  # lower hull of (slope, height): the lines that touch the minimum
    for line in zip(slopes[order].tolist(), heights[order].tolist(), strict=True):
        if lines and line[1] >= lines[-1][1]:
            continue  # steeper and not lower: never the minimum
        while len(lines) >= 2 and not _turns_up(lines[-2], lines[-1], line):
            lines.pop()
        lines.append(line)
    slope, height = np.array(lines).T
    x = -np.diff(height) / np.diff(slope)
    y = height[:-1] + slope[:-1] * x
    return hull(np.append(x, 0.0), np.append(y, height[-1]), label=label)


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) <= (c[1] - b[1]) * (b[0] - a[0])


# -------------------------------------------------------------------------------------------------- families


@dataclass(frozen=True)
class Family:
    """Curves ordered by one parameter: a larger `theta` is a less private curve (nested hypotheses).

    `curve(theta)` is the hypothesis, pessimistic where it is numeric; `epsilon(theta, delta)` the converted value of a
    *lower* bound on theta, optimistic where it is numeric, so that numerical error cannot over-claim
    (theory:curves#numeric).
    """

    name: str
    parameter: str
    curve: Callable[[float], TradeOff]
    epsilon: Callable[[float, float], float] = field(repr=False)
    cap: float = 50.0
    tolerance: float = 1e-6
    relation: str | None = None
    """The adjacency that the curves are for; None where they hold for any."""


def _below(value: float) -> float:
    return value * (1.0 - ROUND)


GAUSSIAN = Family("Gaussian", "mu", Gaussian, lambda mu, delta: _below(gdp_epsilon(mu=mu, delta=delta)))
LAPLACE = Family("Laplace", "epsilon", Laplace, lambda eps, delta: _below(Laplace(eps).epsilon(delta)))


def approximate(delta: float = 0.0) -> Family:
    """Every mechanism that is (epsilon, delta)-DP, ordered by epsilon: the family that assumes nothing."""
    slack = check.delta(delta)

    def convert(eps: float, at: float) -> float:
        return ApproximateDP(eps, slack).epsilon(at)

    return Family(f"f_(epsilon, {slack:g})", "epsilon", lambda eps: ApproximateDP(eps, slack), convert)


def randomized_response(classes: int = 2) -> Family:
    """k-ary randomised response, ordered by epsilon."""

    def convert(eps: float, delta: float) -> float:
        return _below(RandomizedResponse(eps, classes).epsilon(delta))

    name = f"that of {classes}-ary randomised response"
    return Family(name, "epsilon", lambda eps: RandomizedResponse(eps, classes), convert)


# -------------------------------------------------------------------------------------------- Renyi divergences


def renyi_divergence(p: Any, q: Any, *, orders: Any) -> NDArray[np.float64]:
    """D_a(p || q) = log(sum p^a q^(1-a)) / (a - 1) of two discrete distributions, for each order a >= 1.

    Order 1 is the Kullback-Leibler divergence, order infinity the largest log ratio. Computed in logarithms, so rare
    outcomes keep their weight; infinite where q misses an outcome of p.

    >>> renyi_divergence([0.5, 0.5], [0.25, 0.75], orders=[1, 2]).round(4).tolist()
    [0.1438, 0.2877]
    """
    first, second = check.distribution("p", p), check.distribution("q", q)
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
    """The largest Renyi divergence that epsilon-DP allows, attained by randomised response.

    See theory:private-prediction#pure-dp.
    """
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


def doubled(enough: Callable[[float], bool], most: float) -> tuple[float, float]:
    """Numbers of which the second is enough and the first is not, or the second is above `most`, and not tried."""
    low, high = 0.0, 1.0
    while high <= most and not enough(high):
        low, high = high, 2.0 * high
    return low, high
