"""The adversarial network: one seed one set of rows, classes by their shares, pictures that follow their class."""

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.fitted.generators import Adversarial, drawn

SMALL = Adversarial(noise=8, width=8, epochs=20, batch=32, rate=1e-3, levels=4)


def stripes(count=400, seed=0):
    """Class 0 is bright above, class 1 below; three quarters are of class 1."""
    rng = np.random.default_rng(seed)
    classes = (rng.random(count) < 0.75).astype(int)
    pictures = np.zeros((count, 28, 28))
    for place, kind in enumerate(classes):
        pictures[place, 14 * kind : 14 * kind + 14] = 1.0
    return np.column_stack([pictures.reshape(count, -1), classes])


def test_pictures_follow_their_class():
    made = drawn(SMALL, stripes(), 200, seed=3)
    assert made.shape == (200, 785)
    assert np.isin(np.round(made[:, :-1] * 3.0, 9), [0.0, 1.0, 2.0, 3.0]).all()
    assert 0.6 < made[:, -1].mean() < 0.9
    halves = made[:, :-1].reshape(200, 2, -1).mean(axis=2)
    for kind in (0, 1):
        own = halves[made[:, -1] == kind].mean(axis=0)
        assert own[kind] > own[1 - kind] + 0.2
    assert np.array_equal(made, drawn(SMALL, stripes(), 200, seed=3))
    assert not np.array_equal(made, drawn(SMALL, stripes(), 200, seed=4))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((10, 7)), "784 pixels and a class"),
        (np.full((10, 785), 2.0), r"pixels in \[0, 1\]"),
    ],
)
def test_refusals(rows, message):
    with pytest.raises(InputError, match=message):
        SMALL.fit(rows)
    with pytest.raises(InputError, match="`epochs` must be"):
        Adversarial(epochs=0)
