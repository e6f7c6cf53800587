"""Exact output distributions of noisy votes (theory:private-prediction#fixed-votes, and on).

| votes | noise | distribution |
|---|---|---|
| one histogram | Gaussian or Laplace | `noisy_argmax_probabilities` |
| one histogram, answered only where enough teachers agree | Gaussian | `confident_argmax_probabilities` |
| independent teachers with one distribution, perhaps one of them odd | Gaussian | `multinomial_argmax_probabilities` |
| the nearest neighbours of a random subsample | Gaussian | `knn_argmax_probabilities` |
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError

HISTOGRAM_NODES = 160
PANEL_NODES = 48
MOST_RATIO = 2000.0
"""Teachers over sigma beyond which the noise is as good as none."""
SMALLEST_SIGMA = 1e-9
REACH = 9.5
"""Standard deviations of noise that the quadrature covers on either side."""
LAPLACE_REACH = 40.0
"""The same in scales of Laplace noise."""
NOISES = ("gaussian", "laplace")


def noisy_argmax_probabilities(votes: Any, *, sigma: float, noise: str = "gaussian") -> NDArray[np.float64]:
    """P(argmax(votes + noise) = c) for each class, exact: independent noise for each bin.

    See theory:private-prediction#fixed-votes.

    `noise` is "gaussian", with standard deviation sigma, or "laplace", with scale sigma. For Gaussian noise it is
    the integral over u = (x - n_c) / sigma of phi(u) prod_(i != c) Phi(u + (n_c - n_i) / sigma), by Gauss-Legendre.

    >>> noisy_argmax_probabilities([14, 12, 10, 8, 6], sigma=2.0).round(6).tolist()
    [0.725073, 0.222156, 0.046394, 0.00595, 0.000428]
    """
    counts, sigma = check.votes("votes", votes), check.number("sigma", sigma, low=SMALLEST_SIGMA)
    if check.choice("noise", noise, NOISES) == "laplace":
        check.number("sigma", sigma, low=max(float(np.ptp(counts)) / MOST_RATIO, SMALLEST_SIGMA))
        return _laplace_argmax(counts, sigma)
    nodes, weights = np.polynomial.legendre.leggauss(HISTOGRAM_NODES)
    found = np.empty(counts.size)
    for c, own in enumerate(counts):
        low, high = -REACH, REACH + max(0.0, (float(counts.max()) - own) / sigma)
        u = low + (nodes + 1.0) / 2.0 * (high - low)
        others = np.delete(counts, c)
        logs = special.log_ndtr(u[:, None] + (own - others)[None, :] / sigma).sum(axis=1)
        density = np.exp(logs - 0.5 * u * u) / math.sqrt(2.0 * math.pi)
        found[c] = (high - low) / 2.0 * float(weights @ density)
    return found


def _laplace_argmax(counts: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The same integral with Laplace densities, on panels between the kinks at the counts."""
    ends = np.unique(counts)
    edges = [ends[0] - LAPLACE_REACH * scale, *ends, ends[-1] + LAPLACE_REACH * scale]
    parts = [_panels(low, high, math.ceil((high - low) / (4.0 * scale))) for low, high in itertools.pairwise(edges)]
    x, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    apart = (x[:, None] - counts[None, :]) / scale
    below = np.where(apart < 0.0, 0.5 * np.exp(np.minimum(apart, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(apart, 0.0)))
    density = np.exp(-np.abs(apart)) / (2.0 * scale)
    others = [np.delete(below, c, axis=1).prod(axis=1) for c in range(counts.size)]
    return np.array([float(weights @ (density[:, c] * each)) for c, each in enumerate(others)])


def confident_argmax_probabilities(
    votes: Any, *, sigma: float, threshold: float, threshold_sigma: float
) -> NDArray[np.float64]:
    """Confident-GNMax (Papernot et al. 2018): the noisy argmax where the largest count, plus its own noise, passes.

    The last entry is the probability of no answer; a `threshold_sigma` of 0 is the bug of a threshold without noise.

    >>> confident_argmax_probabilities([9, 1], sigma=2.0, threshold=9.0, threshold_sigma=3.0).round(4).tolist()
    [0.4988, 0.0012, 0.5]
    """
    counts = check.votes("votes", votes)
    margin = float(counts.max()) - check.number("threshold", threshold)
    deviation = check.number("threshold_sigma", threshold_sigma, low=0.0)
    passed = float(special.ndtr(margin / deviation)) if deviation > 0.0 else float(margin >= 0.0)
    return np.append(passed * noisy_argmax_probabilities(counts, sigma=sigma), 1.0 - passed)


def knn_argmax_probabilities(
    probabilities: Any, *, neighbors: int, sigma: float, last: Any, label: int | None = None, inclusion: float = 0.0
) -> NDArray[np.float64]:
    """Private-kNN's answer: k - 1 votes by one distribution, the k-th neighbour's by `last`, or a new point's instead.

    With probability `inclusion` (`knn_inclusion_probability`) the new point, labelled `label`, is among the k nearest
    and pushes the last one out. (The paper subtracts a vote that may not be there: theory:errata#002-12.)
    """
    distribution, own = check.distribution("probabilities", probabilities), check.distribution("last", last)
    share = check.number("inclusion", inclusion, low=0.0, high=1.0)
    if label is not None:
        own = (1.0 - share) * own + share * np.eye(distribution.size)[
            check.count("label", label, high=distribution.size - 1)
        ]
    elif share:
        raise InputError(f"`label` must say how the new point is labelled, as `inclusion` is {share:g}; got none.")
    return multinomial_argmax_probabilities(distribution, teachers=neighbors, sigma=sigma, special=own)


def multinomial_argmax_probabilities(
    probabilities: Any, *, teachers: int, sigma: float, special: Any = None
) -> NDArray[np.float64]:
    """The distribution of the noisy argmax when `teachers` independent teachers vote by `probabilities`, exact.

    See theory:private-prediction#multinomial-votes.

    With `special`, one of the teachers votes by that distribution instead. Poissonised generating functions: with the
    noisy maximum at x, P(Y = c) is the coefficient of z^k in a_c prod_(i != c) A_i, integrated over x; products of all
    but one factor come from prefixes and suffixes, and every term is positive, so rare classes keep their digits.
    """
    distribution = check.distribution("probabilities", probabilities)
    k = check.count("teachers", teachers, low=1)
    sigma = check.number("sigma", sigma, low=k / MOST_RATIO)
    odd = None if special is None else check.distribution("special", special)
    if odd is not None and odd.size != distribution.size:
        raise InputError(f"`special` must be a distribution over the same {distribution.size} classes, got {odd.size}.")
    x, scale = _panels(-REACH * sigma, k + REACH * sigma, math.ceil((k / sigma + 2.0 * REACH) / 8.0))
    degree = k if odd is None else k - 1
    masses = _poisson(np.arange(degree + 1)[None, :], (k * distribution)[:, None])
    plain = _coefficients(x, masses, sigma, shift=0.0)
    moved = None if odd is None else _coefficients(x, masses, sigma, shift=1.0)
    found = _coefficient_of_argmax(plain, moved, odd, degree)
    return np.asarray(scale @ found) / float(_poisson(k, k))


def _panels(low: float, high: float, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss-Legendre nodes and weights on equal panels."""
    nodes, weights = np.polynomial.legendre.leggauss(PANEL_NODES)
    edges = np.linspace(low, high, count + 1)
    half = (edges[1] - edges[0]) / 2.0
    return (edges[:-1, None] + half * (nodes + 1.0)).ravel(), np.tile(half * weights, count)


Factors = tuple[NDArray[np.float64], NDArray[np.float64]]
Dual = tuple[NDArray[np.float64], NDArray[np.float64] | None]


def _coefficients(x: NDArray[np.float64], masses: NDArray[np.float64], sigma: float, *, shift: float) -> Factors:
    """A_i[h] = Pois(h) Phi((x - h - shift) / s) and a_c[h] with the density, for every node x: (nodes, classes, h)."""
    z = (x[:, None, None] - np.arange(masses.shape[1])[None, None, :] - shift) / sigma
    density = np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * sigma)
    return masses[None, :, :] * special.ndtr(z), masses[None, :, :] * density


def _coefficient_of_argmax(
    plain: Factors, moved: Factors | None, odd: NDArray[np.float64] | None, degree: int
) -> NDArray[np.float64]:
    """Coefficient of z^degree of a_c prod_(i != c) A_i for each node and class; the dual part where one vote is odd."""
    below, at = plain
    classes = below.shape[1]
    if moved is None or odd is None:
        pairs: list[Dual] = [(below[:, i], None) for i in range(classes)]
        tops: list[Dual] = [(at[:, i], None) for i in range(classes)]
    else:
        pairs = [(below[:, i], odd[i] * moved[0][:, i]) for i in range(classes)]
        tops = [(at[:, i], odd[i] * moved[1][:, i]) for i in range(classes)]
    prefixes, suffixes = _running(pairs), _running(pairs[::-1])[::-1]
    columns = []
    for c in range(classes):
        around = _times(prefixes[c], suffixes[c + 1])
        columns.append(_last(around, tops[c]))
    return np.stack(columns, axis=1)


def _running(factors: list[Dual]) -> list[Dual]:
    """Products of the first 0, 1, ..., n factors."""
    one = np.zeros_like(factors[0][0])
    one[:, 0] = 1.0
    found: list[Dual] = [(one, None if factors[0][1] is None else np.zeros_like(one))]
    for factor in factors:
        found.append(_times(found[-1], factor))
    return found


def _times(a: Dual, b: Dual) -> Dual:
    """Truncated product of polynomials a + e a', e^2 = 0, node by node; directly, so that every term stays positive."""
    value = _convolve(a[0], b[0])
    if a[1] is None or b[1] is None:
        return value, None
    return value, _convolve(a[0], b[1]) + _convolve(a[1], b[0])


def _convolve(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    size = a.shape[1]
    return np.stack([np.convolve(row, other)[:size] for row, other in zip(a, b, strict=True)])


def _last(a: Dual, b: Dual) -> NDArray[np.float64]:
    """The highest coefficient of the product (of its e-part where there is one)."""
    plain = np.einsum("nh,nh->n", a[0], b[0][:, ::-1])
    if a[1] is None or b[1] is None:
        return plain
    return np.einsum("nh,nh->n", a[0], b[1][:, ::-1]) + np.einsum("nh,nh->n", a[1], b[0][:, ::-1])


def _poisson(count: Any, mean: Any) -> Any:
    return np.exp(special.xlogy(count, mean) - mean - special.gammaln(np.asarray(count) + 1.0))


def knn_inclusion_probability(*, rank: int, neighbors: int, sampling_rate: float) -> float:
    """P(the point of this rank is among the k nearest of a Poisson subsample): gamma P(Bin(rank - 1, gamma) <= k - 1).

    >>> knn_inclusion_probability(rank=1, neighbors=3, sampling_rate=0.25)
    0.25
    """
    rank, k = check.count("rank", rank, low=1), check.count("neighbors", neighbors, low=1)
    gamma = check.number("sampling_rate", sampling_rate, low=5e-324, high=1.0)
    return float(inclusion(np.array([rank]), k, gamma)[0])


def inclusion(ranks: NDArray[Any], neighbors: int, rate: float) -> NDArray[np.float64]:
    """The same for many ranks: P(Bin(n, gamma) <= k - 1) is the incomplete beta function I_(1-gamma)(n - k + 1, k)."""
    beyond = special.betainc(np.maximum(ranks - neighbors, 1.0), neighbors, 1.0 - rate)
    return np.asarray(rate * np.where(ranks <= neighbors, 1.0, beyond))
