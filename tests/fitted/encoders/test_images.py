"""The view of pictures: out of fold, so that noise shows nothing, and a plain difference does."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpaudit import InputError
from dpaudit.fitted.encoders import ImageView

VIEW = ImageView(shape=(12, 12), width=6, epochs=6, rate=5e-3)


def noise(count, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random((count, 144)), rng.integers(0, 3, size=count)]), rng.random(count) < 0.5


def test_noise_shows_nothing_of_training_rows():
    rows, label = noise(600)
    features, of = VIEW(rows, label.astype(int), 1)
    assert features.shape == (600, 2)
    assert np.array_equal(features[:, 1], rows[:, -1])
    assert abs(roc_auc_score(label, features[:, 0]) - 0.5) < 0.1  # four standard errors
    others, labels = noise(600, seed=1)
    assert abs(roc_auc_score(labels, of(others)[:, 0]) - 0.5) < 0.1


def test_a_plain_difference_shows():
    rows, label = noise(600)
    rows[label, :72] *= 0.6
    features, of = VIEW(rows, label.astype(int), 1)
    assert roc_auc_score(label, features[:, 0]) > 0.95
    others, labels = noise(300, seed=1)
    others[labels, :72] *= 0.6
    assert roc_auc_score(labels, of(others)[:, 0]) > 0.95


def test_one_seed_one_view():
    rows, label = noise(200)
    first, second, third = (VIEW(rows, label, seed) for seed in (1, 1, 2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1](rows), second[1](rows))
    assert not np.array_equal(first[0], third[0])


def test_bad_input():
    with pytest.raises(InputError, match="must be 144 pixels and a class, got 3 columns"):
        VIEW(np.zeros((5, 3)), np.ones(5), 0)
    with pytest.raises(InputError, match="`shape` must be two numbers"):
        ImageView(shape=(28,))
