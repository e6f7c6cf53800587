"""Small networks: they learn, by labels alone and with pictures that have none, and the seed decides everything."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from dpaudit import InputError
from dpaudit.mechanisms import Alibi, OneStage, Pate
from dpaudit.mechanisms.label_dp import FixMatch, Network
from dpaudit.mechanisms.label_dp.learners import one_hot
from dpaudit.mechanisms.label_dp.networks import _strong, _weak, pictures


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    pixels, y = found.data / 16.0, found.target
    return (pixels.reshape(-1, 8, 8) * 255).astype(np.uint8), y


def right(model, x, y):
    return (model.predict_proba(x).argmax(axis=1) == y).mean()


def test_a_network_learns_its_labels_by_heart(digits):
    x, y = digits
    shuffled = np.random.default_rng(0).permutation(y[:300])
    model = Network(epochs=100, batch=32).fit(x[:300], one_hot(shuffled, 10), seed=1)
    assert right(model, x[:300], shuffled) > 0.95
    honest = Network(epochs=30).fit(x[:1000], one_hot(y[:1000], 10), seed=1)
    assert right(honest, x[1000:], y[1000:]) > 0.85
    assert honest.predict_proba(x[:3]).sum(axis=1) == pytest.approx(1.0)


def bars(rng, rows):
    """Noisy pictures of a bar somewhere, lying (0) or standing (1)."""
    y = rng.integers(0, 2, rows)
    x = rng.normal(-0.6, 0.35, size=(rows, 1, 12, 12))
    for row, place in enumerate(rng.integers(0, 11, rows)):
        where = (slice(None), slice(place, place + 2))
        x[row, 0][where if y[row] else where[::-1]] += 1.2
    return np.clip(x, -1.0, 1.0).astype(np.float32), y


def test_pictures_without_labels_help():
    """Eight labels: where 600 pictures without one are shown too, more is learnt, in the mean over four seeds."""
    plain, learnt = [], []
    learner = FixMatch(steps=100, batch=16, ratio=6, sure=0.9, average=0.95, learning_rate=3e-3)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        (x, y), (new_x, new_y) = bars(rng, 600), bars(rng, 500)
        rows = np.concatenate([np.flatnonzero(y == kind)[:4] for kind in (0, 1)])
        for found, free in ((learnt, x), (plain, x[rows])):
            found.append(right(learner.fit(x[rows], one_hot(y[rows], 2), seed=seed, unlabelled=free), new_x, new_y))
    assert np.mean(learnt) > np.mean(plain) + 0.02


def test_the_seed_decides_everything(digits):
    x, y = digits
    for learner in (Network(epochs=1, shifts=1), FixMatch(steps=3)):
        torch.manual_seed(1)
        first = learner.fit(x[:60], one_hot(y[:60], 10), seed=2**100, unlabelled=x[:200]).predict_proba(x[:20])
        torch.manual_seed(2)
        before = torch.random.get_rng_state()
        again = learner.fit(x[:60], one_hot(y[:60], 10), seed=2**100, unlabelled=x[:200]).predict_proba(x[:20])
        assert torch.equal(before, torch.random.get_rng_state())  # nobody else's numbers are used up
        assert np.array_equal(first, again)
        other = learner.fit(x[:60], one_hot(y[:60], 10), seed=6, unlabelled=x[:200]).predict_proba(x[:20])
        assert not np.array_equal(first, other)


def test_soft_labels_and_their_hard_limit(digits):
    x, y = digits
    hard, soft = (
        Network(epochs=30).fit(x[:500], weights, seed=1).predict_proba(x[500:])
        for weights in (one_hot(y[:500], 10), 0.7 * one_hot(y[:500], 10) + 0.03)
    )
    assert hard.max(axis=1).mean() > soft.max(axis=1).mean() + 0.1


def test_changes_of_pictures_stay_pictures(digits):
    shown = torch.from_numpy(pictures(digits[0][:50]))
    rng = torch.Generator().manual_seed(1)
    weak, strong = _weak(shown, rng, 1), _strong(shown, rng, 1, 0.2)
    for changed in (weak, strong):
        assert changed.shape == shown.shape
        assert changed.min() >= -1.0
        assert changed.max() <= 1.0
    still = _weak(shown, rng, 0)
    assert torch.equal(still, shown)
    one = torch.full((1, 1, 5, 5), -1.0)
    one[0, 0, 2, 2] = 1.0
    places = {tuple((_weak(one, rng, 1)[0, 0] == 1.0).nonzero()[0].tolist()) for _ in range(200)}
    assert places == {(r, c) for r in (1, 2, 3) for c in (1, 2, 3)}
    assert (strong - shown).abs().mean() > 0.2
    assert (strong - weak).abs().mean() > 0.2


def test_mechanisms_with_networks(digits):
    x, y = digits
    learner = Network(epochs=25)
    for mechanism in (
        OneStage(epsilon=8.0, classes=10, learner=learner),
        Alibi(epsilon=8.0, classes=10, learner=learner),
    ):
        assert right(mechanism.release((x[:1200], y[:1200]), 1), x[1200:], y[1200:]) > 0.7
    few = FixMatch(steps=60, batch=16, sure=0.9, average=0.95, learning_rate=3e-3)
    ensemble = Pate(epsilon=8.0, classes=2, learner=few, teachers=6, queries=8)
    rng = np.random.default_rng(1)
    (x, y), (new_x, new_y) = bars(rng, 240), bars(rng, 300)
    assert right(ensemble.release((x, y), 1), new_x, new_y) > 0.65


def test_refusals(digits):
    x, y = digits
    with pytest.raises(InputError, match="`unlabelled` must be given"):
        FixMatch().fit(x[:10], one_hot(y[:10], 10), seed=1)
    with pytest.raises(InputError, match=r"pictures must be .*, got \(10, 64\)"):
        Network().fit(x[:10].reshape(10, -1), one_hot(y[:10], 10), seed=1)
    with pytest.raises(InputError, match="one for each label"):
        Network().fit(x[:10], one_hot(y[:60], 10), seed=1)
    with pytest.raises(InputError, match="`epochs` must be at least 1"):
        Network(epochs=0)
