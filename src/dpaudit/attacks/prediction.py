"""Adversaries of private prediction (paper 002): what is put into the data, and what is asked.

| adversary | crafted record | queries |
|---|---|---|
| Nat-AdvQ | a natural point, with its own label (`natural`) | that point, again and again |
| Pois-AdvQ | the query itself with the votes' runner-up for a label (`mislabelled`) | that point, again and again |
| Pois-NatQ | one point that reaches many queries | natural ones |

For nearest neighbours the last one looks for the point that is expected among the k nearest of the most queries: of
given candidates (`best_candidate`), or anywhere in the space of features (`best_embedding`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.mechanisms.private_prediction import distributions

__all__ = [
    "best_candidate",
    "best_embedding",
    "expected_votes",
    "inclusion",
    "mislabelled",
    "natural",
    "ranks",
    "runner_up",
]

Matrix = NDArray[np.float64]


def natural(x: Any, y: Any, point: Any, label: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The data set with one record more: a point and its own label."""
    rows = np.asarray(x)
    return np.concatenate([rows, np.asarray(point, dtype=rows.dtype)[None]]), np.append(np.asarray(y), label)


def runner_up(votes: Any) -> NDArray[np.int64]:
    """The class with the second most votes for each query: the one that a poison is labelled with.

    >>> runner_up([[5, 9, 7], [3, 3, 0]]).tolist()
    [2, 1]
    """
    counts = np.atleast_2d(np.asarray(votes))
    if counts.shape[1] < 2:
        raise InputError(f"`votes` must be counts of at least two classes, got shape {counts.shape}.")
    return np.argsort(-counts, axis=1, kind="stable")[:, 1].astype(np.int64)


def mislabelled(x: Any, y: Any, query: Any, votes: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The data set with the query itself, labelled with the runner-up of its votes."""
    return natural(x, y, query, int(runner_up(votes)[0]))


def inclusion(ranks: Any, *, neighbors: int, sampling_rate: float) -> Matrix:
    """P(a point of each rank is among the k nearest of a Poisson subsample), for an array of ranks from 1.

    gamma P(Bin(rank - 1, gamma) <= k - 1), as `mechanisms.knn_inclusion_probability` of each.
    """
    try:
        places = np.asarray(ranks, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`ranks` must be whole numbers from 1, got {ranks!r}.") from None
    if places.size and (places.min() < 1 or not np.array_equal(places, np.round(places))):
        raise InputError("`ranks` must be whole numbers from 1.")
    k = check.count("neighbors", neighbors, low=1)
    gamma = check.number("sampling_rate", sampling_rate, low=5e-324, high=1.0)
    return distributions.inclusion(places, k, gamma)


def ranks(points: Any, x: Any, queries: Any) -> NDArray[np.int64]:
    """The rank of each new point among the rows `x`, for every query, nearest first: (points, queries)."""
    rows, asked, new = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (x, queries, points))
    if not len({part.shape[1] for part in (rows, asked, new)}) == 1 or not (len(rows) and len(asked) and len(new)):
        raise InputError("points, rows and queries must have the same number of features, and at least one line each.")
    own = _distances(asked, rows)
    own.sort(axis=1)
    apart = _distances(asked, new)
    found = [np.searchsorted(line, mine, side="right") + 1 for line, mine in zip(own, apart, strict=True)]
    return np.asarray(found, dtype=np.int64).T


def expected_votes(points: Any, x: Any, queries: Any, *, neighbors: int, sampling_rate: float) -> Matrix:
    """E(x) of paper 002, appendix D.3: in how many answers each point is expected to vote."""
    return inclusion(ranks(points, x, queries), neighbors=neighbors, sampling_rate=sampling_rate).sum(axis=1)


def best_candidate(candidates: Any, x: Any, queries: Any, *, neighbors: int, sampling_rate: float) -> tuple[int, float]:
    """The candidate (of the training or the test rows, say) that is expected to vote most often, and how often."""
    found = expected_votes(candidates, x, queries, neighbors=neighbors, sampling_rate=sampling_rate)
    place = int(np.argmax(found))
    return place, float(found[place])


def best_embedding(
    x: Any, queries: Any, labels: Any, *, neighbors: int, sampling_rate: float, nearest: int = 50
) -> tuple[Matrix, float]:
    """A point anywhere in the space of features that is expected to vote most often.

    For the queries of each label, and for all together, the rows among the `nearest` of any query are averaged,
    weighted by how many queries they are near to (the paper's heuristic); the mean of those queries is tried too. The
    best of these points is taken.
    """
    rows, asked = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (x, queries))
    check.count("nearest", nearest, low=1)
    near = np.argpartition(_distances(asked, rows), min(nearest, len(rows)) - 1, axis=1)[:, :nearest]
    kinds = np.asarray(labels)
    if len(kinds) != len(asked):
        raise InputError(f"`labels` must be one for each of the {len(asked)} queries, got {len(kinds)}.")
    tried = []
    for chosen in [np.ones(len(asked), dtype=bool), *(kinds == kind for kind in np.unique(kinds))]:
        weights = np.bincount(near[chosen].ravel(), minlength=len(rows)).astype(np.float64)
        tried += [weights @ rows / weights.sum(), asked[chosen].mean(axis=0)]
    place, most = best_candidate(np.array(tried), rows, asked, neighbors=neighbors, sampling_rate=sampling_rate)
    return np.asarray(tried[place]), most


def _distances(queries: Matrix, rows: Matrix) -> Matrix:
    """Squared Euclidean distances, one line a query; about the rows' mean, so that an offset costs no digits."""
    middle = rows.mean(axis=0)
    queries, rows = queries - middle, rows - middle
    square = (queries**2).sum(axis=1)[:, None] + (rows**2).sum(axis=1)[None, :] - 2.0 * queries @ rows.T
    return np.asarray(np.maximum(square, 0.0))
