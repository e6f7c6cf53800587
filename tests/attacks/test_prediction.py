"""Adversaries of private prediction: ranks and expected votes against counting, and crafted points that reach more."""

import numpy as np
import pytest
from scipy import stats

from dpaudit import InputError, mechanisms
from dpaudit.attacks import prediction


def test_inclusion_is_the_formula():
    ranks = np.array([1, 3, 5, 6, 20, 400])
    found = prediction.inclusion(ranks, neighbors=5, sampling_rate=0.3)
    for rank, value in zip(ranks, found, strict=True):
        exact = 0.3 * stats.binom.cdf(4, rank - 1, 0.3)  # drawn, and at most four of the closer rows are
        assert mechanisms.knn_inclusion_probability(rank=int(rank), neighbors=5, sampling_rate=0.3) == pytest.approx(
            exact
        )
        assert value == pytest.approx(exact, rel=1e-10, abs=1e-300)


def test_ranks_against_counting(rng):
    x, queries, points = rng.normal(size=(80, 3)), rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    found = prediction.ranks(points, x, queries)
    for i, point in enumerate(points):
        for j, query in enumerate(queries):
            closer = np.linalg.norm(x - query, axis=1) < np.linalg.norm(point - query)
            assert found[i, j] == closer.sum() + 1


def test_ranks_keep_their_digits_far_from_the_origin(rng):
    x, queries, points = rng.normal(size=(50, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    plain = prediction.ranks(points, x, queries)
    assert np.array_equal(plain, prediction.ranks(points + 1e7, x + 1e7, queries + 1e7))
    assert prediction.ranks(x[:1], x, x[:1])[0, 0] == 2  # a point beside an equal one comes after it


def test_crafted_points_reach_more_queries(rng):
    """An embedding is expected to vote at least as often as a test row, and that as often as a random row."""
    x = rng.normal(size=(600, 8))
    queries = rng.normal(size=(60, 8)) * 0.7
    labels = rng.integers(0, 2, 60)
    how = {"neighbors": 20, "sampling_rate": 0.2}
    typical = np.median(prediction.expected_votes(x[:50], x, queries, **how))
    _, train = prediction.best_candidate(x, x, queries, **how)
    _, test = prediction.best_candidate(queries, x, queries, **how)
    point, anywhere = prediction.best_embedding(x, queries, labels, **how)
    assert typical < train
    assert max(train, test) <= anywhere <= 0.2 * 60
    assert anywhere == pytest.approx(prediction.expected_votes(point[None], x, queries, **how)[0])


def test_crafted_data_sets(rng):
    x, y = rng.normal(size=(5, 2)), np.array([0, 1, 2, 0, 1])
    new_x, new_y = prediction.natural(x, y, [9.0, 9.0], 2)
    assert new_x[-1].tolist() == [9.0, 9.0]
    assert new_y.tolist() == [0, 1, 2, 0, 1, 2]
    _, poisoned = prediction.mislabelled(x, y, [1.0, 1.0], [7, 1, 3])
    assert poisoned[-1] == 2


def test_refusals():
    with pytest.raises(InputError, match="same number of features"):
        prediction.ranks(np.zeros((1, 2)), np.zeros((3, 1)), np.zeros((1, 1)))
    with pytest.raises(InputError, match="one for each of the 2 queries"):
        prediction.best_embedding(np.zeros((3, 1)), np.zeros((2, 1)), [0], neighbors=1, sampling_rate=0.5)
    with pytest.raises(InputError, match="whole numbers from 1"):
        prediction.inclusion([0], neighbors=2, sampling_rate=0.5)
    with pytest.raises(InputError, match="at least two classes"):
        prediction.runner_up([[3]])
