"""Renyi divergences from counts of answers (`OutputCounts`): theory:private-prediction#two-cut and on.

A 2-cut looks at one event. From exact limits of its two probabilities the least Bernoulli divergence is that of the
nearest corner, both terms at the same corner; one confidence event serves every order. A k-cut uses all answers: exact
limits for each, and the least divergence over the box of distributions, bounded from below by its dual. Divergences of
several queries add only where their answers are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled
from dpaudit.bounds import RenyiBound, guarantee_of
from dpaudit.estimators.thresholds import Cut, poisson_mass
from dpaudit.evidence import OutputCounts
from dpaudit.tradeoff import as_orders, bernoulli_renyi

METHODS = ("exact", "goodman", "sison-glaz", "bootstrap")
DIRECTIONS = ("present", "absent")
RESAMPLES = 2000
LARGEST_ORDER = 128.0
K_CUT = "all {answers} answers, {method} limits"
QUERIES = "{events}, {queries} queries at equal shares{best}"
METHOD = "{name}, {method}{added}"
OF_A_GROUP = "{method}; {changed} records changed, group privacy"
REFERENCES = ("Chadha et al., Auditing Private Prediction, corrected: theory:errata#paper-002",)
ANSWERS_INDEPENDENT = Assumption(
    id="independent-answers",
    sentence="given the data set, the answers to different queries are independent",
    answered_by="developer",
    theory="theory:private-prediction#composition",
)
Box = tuple[NDArray[np.float64], NDArray[np.float64]]


def renyi_from_outputs(
    evidence: OutputCounts,
    *,
    orders: Any,
    cuts: int | str = 2,
    event: Any = None,
    direction: str | None = None,
    confidence: float = 0.95,
    compose: bool = False,
    method: str = "exact",
) -> RenyiBound:
    """Lower bounds on D_a(present || absent) for every order at once.

    See theory:private-prediction#two-cut, theory:private-prediction#k-cut, theory:private-prediction#composition.

    Parameters
    ----------
    cuts
        2 (default), or "all" for the k-cut over all answers.
    event
        The answer, or list of answers, that a 2-cut looks at, fixed before the data; None pays for trying each.
    direction
        "present" or "absent": in which world the event is likelier, fixed before the data; None pays for both.
    compose
        Add the divergences of all queries, each at its share of the confidence; refused where the queries share random
        teachers (`independent=False`). Otherwise the query that leaks most is reported, its choice paid for.
    method
        "exact"; or a k-cut by "goodman", "sison-glaz" or "bootstrap" as in paper 002: estimates.
    """
    if not isinstance(evidence, OutputCounts):
        raise InputError(f"`renyi_from_outputs` needs counts of answers (OutputCounts), got {type(evidence).__name__}.")
    wanted, alpha = as_orders(orders), 1.0 - check.confidence(confidence)
    if any(order < 1.0 + 1e-6 for order in wanted):
        raise InputError("`orders` must be above 1 (by 1e-6 or more) for a bound from counts, got 1.")
    check.choice("method", method, METHODS)
    if direction is not None:
        check.choice("direction", direction, DIRECTIONS)
    if not isinstance(cuts, int | str) or cuts not in (2, "all"):
        raise InputError(f"`cuts` must be 2 or 'all', got {cuts!r}.")
    queries = evidence.present.shape[0]
    assumptions = evidence.conditions + ((ANSWERS_INDEPENDENT,) if compose and queries > 1 else ())
    if compose and queries > 1 and not evidence.independent:
        raise InputError(
            "answers that share random teachers do not compose: their divergences may exceed the joint one.",
            "set independent=True only for fresh randomness a query, or audit the joint answer.",
        )
    if cuts == "all" and (event is not None or direction is not None):
        raise InputError("`event` and `direction` belong to a 2-cut; a k-cut looks at every answer.")
    events = _events(event, evidence.present.shape[1])
    name = "2-cut" if cuts == 2 else "k-cut"
    if cuts == 2 and method == "exact":
        one_query: Callable[..., list[float]] = partial(_two_cut, events=events, direction=direction)
        words = _two_cut_words(event, direction, queries, compose)
    elif cuts == 2:
        if event is None or method != "bootstrap":
            raise InputError("a 2-cut is exact, or a bootstrap of one event.", "name the event, or use cuts='all'.")
        one_query = partial(_event_bootstrap, answers=events[0], seed=evidence.seed)
        words = "one event, resampled"
    else:
        one_query = partial(_k_cut, method=method, seed=evidence.seed)
        words = filled(K_CUT, {"answers": evidence.present.shape[1], "method": method})
    rows = np.array(
        [one_query(p, q, wanted, alpha / queries) for p, q in zip(evidence.present, evidence.absent, strict=True)]
    )
    return RenyiBound(
        orders=tuple(wanted),
        divergences=tuple((rows.sum(axis=0) if compose else rows.max(axis=0)).tolist()),
        confidence=confidence,
        relation=evidence.relation,
        method=filled(METHOD, {"name": name, "method": method, "added": ", queries added" if compose else ""}),
        guarantee=guarantee_of(assumptions, estimate=method != "exact"),
        assumptions=assumptions,
        selection=words,
        unit=evidence.unit,
        references=REFERENCES,
        theory="theory:private-prediction#two-cut" if cuts == 2 else "theory:private-prediction#k-cut",
    )


def _events(event: Any, classes: int) -> list[list[int]]:
    """The events that a 2-cut may look at, as lists of answers; complements say the same."""
    if event is None:
        return [[c] for c in range(classes if classes > 2 else 1)]
    chosen = check.items("event", event) if hasattr(event, "__iter__") else [event]
    found = [check.count("event", c, high=classes - 1) for c in chosen]
    if not 0 < len(set(found)) < classes:
        raise InputError(f"`event` must name some but not all of the {classes} answers, got {event!r}.")
    return [sorted(set(found))]


def _two_cut_words(event: Any, direction: str | None, queries: int, compose: bool) -> str:
    fixed = "one event, fixed in advance" if event is not None else "every answer as an event, paid for"
    side = "" if direction is not None else ", both directions paid for"
    if queries == 1:
        return fixed + side
    best = "" if compose else ", the best of them"
    return filled(QUERIES, {"events": fixed + side, "queries": queries, "best": best})


def _two_cut(
    present: NDArray[np.int64],
    absent: NDArray[np.int64],
    orders: list[float],
    alpha: float,
    *,
    events: list[list[int]],
    direction: str | None,
) -> list[float]:
    n1, n0 = int(present.sum()), int(absent.sum())
    level = alpha / len(events) / (4.0 if direction is None else 2.0)
    best = [0.0] * len(orders)
    for answers in events:
        x1, x0 = int(present[answers].sum()), int(absent[answers].sum())
        corners = []
        if direction != "absent":
            corners.append((_binomial.lower_limit(x1, n1, level), _binomial.upper_limit(x0, n0, level), True))
        if direction != "present":
            corners.append((_binomial.upper_limit(x1, n1, level), _binomial.lower_limit(x0, n0, level), False))
        for p, q, above in corners:
            if p != q and (p > q) == above:
                best = [max(b, bernoulli_renyi(p, q, order)) for b, order in zip(best, orders, strict=True)]
    return best


# ------------------------------------------------------------------------------------------------------------- k-cuts


def _k_cut(
    present: NDArray[np.int64], absent: NDArray[np.int64], orders: list[float], alpha: float, *, method: str, seed: int
) -> list[float]:
    if method == "bootstrap":
        return _bootstrap(present, absent, orders, alpha, seed)
    limits: dict[str, Callable[[NDArray[np.int64], float], Box]] = {
        "exact": _exact_box,
        "goodman": _goodman_box,
        "sison-glaz": _sison_glaz_box,
    }
    p, q = limits[method](present, alpha / 2.0), limits[method](absent, alpha / 2.0)
    return [_least_divergence(p, q, order) for order in orders]


def _exact_box(counts: NDArray[np.int64], alpha: float) -> Box:
    """Clopper-Pearson limits of every answer, 2k of them at alpha / (2k) (theory:private-prediction#k-cut)."""
    n, level = int(counts.sum()), alpha / (2.0 * counts.size)
    lower = np.array([_binomial.lower_limit(int(x), n, level) for x in counts])
    return lower, np.array([_binomial.upper_limit(int(x), n, level) for x in counts])


def _goodman_box(counts: NDArray[np.int64], alpha: float) -> Box:
    """Goodman's simultaneous limits (1965): asymptotic."""
    n = float(counts.sum())
    a = float(special.chdtri(1, alpha / counts.size))
    middle, spread = a + 2.0 * counts, np.sqrt(a * (a + 4.0 * counts * (n - counts) / n))
    scale = 1.0 / (2.0 * (n + a))
    return np.asarray(np.maximum(0.0, (middle - spread) * scale)), np.asarray((middle + spread) * scale)


def _sison_glaz_box(counts: NDArray[np.int64], alpha: float) -> Box:
    """Sison and Glaz (1995): the smallest c for which counts within +-c of the seen ones have probability 1 - alpha.

    The probability is that of a multinomial distribution at the seen frequencies, by convolution of truncated Poisson
    distributions.
    """
    n = int(counts.sum())
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _within(counts, middle) >= 1.0 - alpha else (middle, high)
    return np.maximum(0.0, (counts - high) / n), np.minimum(1.0, (counts + high) / n)


def _within(counts: NDArray[np.int64], c: int) -> float:
    """P(|N_i - n_i| <= c for all i) for a multinomial distribution with these frequencies."""
    n, masses, start = int(counts.sum()), np.ones(1), 0
    for count in counts.tolist():
        first = max(0, count - c)
        part = poisson_mass(np.arange(first, count + c + 1), count)
        masses, start = np.maximum(_convolve(masses, part), 0.0), start + first
    return float(masses[n - start]) / float(poisson_mass(np.array(n), n)) if 0 <= n - start < masses.size else 0.0


def _convolve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy import signal

    return np.asarray(signal.fftconvolve(a, b) if min(a.size, b.size) > 200 else np.convolve(a, b))


def _bootstrap(
    present: NDArray[np.int64], absent: NDArray[np.int64], orders: list[float], alpha: float, seed: int
) -> list[float]:
    """The alpha-quantile of plug-in divergences over resampled counts: an estimate, with no finite-sample guarantee."""
    rng = np.random.default_rng([seed, 0x626F6F74])
    smoothed = [(c + 0.5) / (c.sum() + 0.5 * c.size) for c in (present, absent)]
    draws = [
        (rng.multinomial(c.sum(), p, size=RESAMPLES) + 0.5) / (c.sum() + 0.5 * c.size)
        for c, p in zip((present, absent), smoothed, strict=True)
    ]
    log_p, log_q = np.log(draws[0]), np.log(draws[1])
    return [float(np.quantile(_rows_divergence(log_p, log_q, order), alpha)) for order in orders]


def _rows_divergence(log_p: NDArray[np.float64], log_q: NDArray[np.float64], order: float) -> NDArray[np.float64]:
    """D_order of every row of positive distributions."""
    if order == math.inf:
        return np.max(log_p - log_q, axis=1)
    return np.asarray(special.logsumexp(order * log_p + (1.0 - order) * log_q, axis=1)) / (order - 1.0)


def _event_bootstrap(
    present: NDArray[np.int64],
    absent: NDArray[np.int64],
    orders: list[float],
    alpha: float,
    *,
    answers: list[int],
    seed: int,
) -> list[float]:
    """The bootstrap of a 2-cut: the event against the rest."""
    two = [np.array([int(c[answers].sum()), int(c.sum() - c[answers].sum())]) for c in (present, absent)]
    return _bootstrap(two[0], two[1], orders, alpha, seed)


def _least_divergence(p: Box, q: Box, order: float) -> float:
    """A lower bound on min D_a(p || q) over two boxes of distributions, by the Lagrange dual, one a multiplier.

    sum p^a q^(1-a) is jointly convex and homogeneous, so each term minus its linear price has its minimum on an edge
    of its box, where it is found in closed form.
    """
    if order == math.inf:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(q[1] > 0.0, p[0] / q[1], np.where(p[0] > 0.0, np.inf, 0.0))
        return max(0.0, float(np.log(np.max(ratio)))) if np.max(ratio) > 0.0 else 0.0

    order = min(order, LARGEST_ORDER)  # divergences grow with the order, so a smaller one bounds a larger one

    def dual(prices: NDArray[np.float64]) -> float:
        grow, shrink = (min(float(value), 300.0) for value in ((order - 1.0) * prices[0], order * prices[1]))
        lam, nu = order * math.exp(grow), -(order - 1.0) * math.exp(shrink)
        value = float(_cheapest(p, q, order, lam, nu).sum()) + lam + nu
        return value if abs(value) < 1e300 else -1e300

    # prices are those of a common ratio p / q = e^t; at t = 0 the dual is at most 1, which is no divergence
    ratios = np.linspace(-1.0, 1.0, 21) * min(4.0, 40.0 / order)
    start = max(([t, u] for t in ratios for u in ratios), key=lambda x: dual(np.array(x)))
    best, point = 1.0, np.array(start)
    for scale in (0.1, 0.01):
        simplex = point + scale * min(1.0, 4.0 / order) * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        options = {"initial_simplex": simplex, "maxiter": 300, "xatol": 1e-10, "fatol": 1e-15}
        found = optimize.minimize(lambda x: -dual(x), point, method="Nelder-Mead", options=options)
        best, point = max(best, -float(found.fun)), found.x
    return max(0.0, math.log(best) / (order - 1.0) * (1.0 - 1e-9) - 1e-14)


def _cheapest(p: Box, q: Box, order: float, lam: float, nu: float) -> NDArray[np.float64]:
    """min over each box of x^a y^(1-a) - lam x - nu y, lam > 0 > nu: on its four edges."""
    slope = (lam / order) ** (1.0 / (order - 1.0))  # best x for y: slope y
    ratio = ((order - 1.0) / -nu) ** (1.0 / order)  # best y for x: ratio x
    points: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    points += [(x, np.clip(ratio * x, q[0], q[1])) for x in p]
    points += [(np.clip(slope * y, p[0], p[1]), y) for y in q]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = [
            np.where(x > 0.0, np.exp(order * np.log(x) + (1.0 - order) * np.log(y)), 0.0) - lam * x - nu * y
            for x, y in points
        ]
    return np.min(values, axis=0)


def renyi_of_one_record(bound: RenyiBound, *, changed: int) -> RenyiBound:
    """What a divergence between data sets that differ in several records says about one record (paper 002, appendix C).

    A mechanism with D_a <= v between neighbours has D_(a / 2^c) <= 3^c v between data sets that differ in 2^c records,
    for a >= 2^(c+1) (Mironov 2017, proposition 2). So a group's divergence at an order b >= 2 bounds that of one record
    at the order 2^c b from below by its 3^c-th part, c being the least whole number with 2^c >= `changed` (the printed
    form takes c = `changed`: theory:private-prediction#group). Orders below 2 say nothing and are left out.
    """
    if not isinstance(bound, RenyiBound):
        raise InputError(f"`bound` must be a RenyiBound, got {type(bound).__name__}.")
    doublings = (check.count("changed", changed, low=1, high=2**20) - 1).bit_length()
    if doublings == 0:
        return bound
    kept = [(o, d) for o, d in zip(bound.orders, bound.divergences, strict=True) if o >= 2.0]
    if not kept:
        raise InputError("`bound` must have an order of 2 or more to say anything about one record, got none.")
    return replace(
        bound,
        orders=tuple(order * 2.0**doublings for order, _ in kept),
        divergences=tuple(value / 3.0**doublings for _, value in kept),
        method=filled(OF_A_GROUP, {"method": bound.method, "changed": changed}),
    )


def event_cuts(evidence: OutputCounts) -> Iterable[Cut]:
    """Every answer, and its complement, as a test of a claim."""
    for present, absent in zip(evidence.present, evidence.absent, strict=True):
        n1, n0 = int(present.sum()), int(absent.sum())
        for x1, x0 in zip(present.tolist(), absent.tolist(), strict=True):
            yield Cut(x0, n0, n1 - x1, n1)
            if present.size > 2:
                yield Cut(n0 - x0, n0, x1, n1)


__all__ = ["renyi_from_outputs", "renyi_of_one_record"]
