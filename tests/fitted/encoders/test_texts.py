"""The view of token chunks: nothing where there is nothing, an obvious difference, one seed one view."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpaudit import InputError
from dpaudit.fitted.encoders.texts import TokenView
from dpaudit.fitted.generators.language_model import Shape

SMALL = Shape(vocabulary=30, width=16, layers=1, heads=2)
LABEL = np.repeat([1, 0], 300)


def noise(seed=0):
    return np.random.default_rng(seed).integers(0, 30, size=(600, 8)).astype(float)


def test_noise_is_not_told_apart_out_of_fold():
    seen, look = TokenView(shape=SMALL, epochs=8, rate=1e-2)(noise(), LABEL, 1)
    assert seen.shape == (600, 1)
    assert abs(roc_auc_score(LABEL, seen[:, 0]) - 0.5) < 0.08
    assert roc_auc_score(LABEL, look(noise())[:, 0]) > 0.7  # the fit on all rows has seen them


def test_an_obvious_difference_is_found():
    """Real chunks have more of the first half of the tokens."""

    def differing(seed):
        rows = noise(seed)
        rows[:300, :3] %= 15.0
        return rows

    seen, look = TokenView(shape=SMALL, epochs=8, rate=1e-2)(differing(0), LABEL, 1)
    assert roc_auc_score(LABEL, seen[:, 0]) > 0.75
    fresh = differing(5)
    assert roc_auc_score(LABEL, look(fresh)[:, 0]) > 0.8


def test_the_same_view_from_the_same_seed():
    view = TokenView(shape=SMALL, epochs=1, start=SMALL.start(4))
    (first, look), (again, look_again) = (view(noise(), LABEL, 2) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (600, 1 + 3 + 7)  # the logit, and what the model that it began from says
    np.testing.assert_allclose(first[:, 1:], look(noise())[:, 1:])
    np.testing.assert_array_equal(look(noise(3)), look_again(noise(3)))
    assert not np.array_equal(first, view(noise(), LABEL, 3)[0])


def test_refusals():
    with pytest.raises(InputError, match="tokens from 0 to 29"):
        TokenView(shape=SMALL)(noise() + 9.0, LABEL, 1)
    with pytest.raises(InputError, match="folds"):
        TokenView(folds=1)
    with pytest.raises(InputError, match="depth"):
        TokenView(shape=SMALL, depth=2)
