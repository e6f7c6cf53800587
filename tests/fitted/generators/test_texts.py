"""A language model as a generator: one seed one text, prompts held out, its own tongue; gradients of single chunks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpaudit import InputError
from dpaudit.fitted.generators import drawn
from dpaudit.fitted.generators import language_model as _language
from dpaudit.fitted.generators.language_model import Shape
from dpaudit.fitted.generators.texts import LanguageModel

SMALL = Shape(vocabulary=20, width=16, layers=2, heads=2)


def counting(count=300, length=8, seed=0):
    """Chunks that count upwards by one or two, and around."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 3, size=(count, length))
    return ((rng.integers(0, 20, size=(count, 1)) + steps.cumsum(axis=1)) % 20).astype(float)


@pytest.fixture(scope="module")
def model():
    return LanguageModel(shape=SMALL, epochs=12, rate=1e-2, top=20)


def test_the_same_chunks_from_the_same_seed(model):
    first, again = (drawn(model, counting(), 40, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (40, 8)
    assert set(np.unique(first)) <= set(range(20))
    assert not np.array_equal(first, drawn(model, counting(), 40, seed=2))


def test_prompts_are_held_out_of_training(model):
    rows = counting()
    learnt, prompts = model.parts(len(rows), 3)
    assert sorted([*learnt, *prompts]) == list(range(300))
    fitted = model.fit(rows, seed=3)
    np.testing.assert_array_equal(fitted.prompts, rows[prompts])
    changed = rows.copy()
    changed[prompts] = 0.0
    for name, value in model.fit(changed, seed=3).weights.items():
        np.testing.assert_array_equal(value, fitted.weights[name])


def test_samples_follow_the_language(model):
    """Prompt and chunk together are twice as long as a row: the weights that it starts with know such lengths."""
    (start,) = _language.trained(SMALL, SMALL.start(1), counting(600, 16, 7), epochs=(15,), rate=1e-2, seed=1)
    fitted = replace(model, start=start, epochs=2, rate=1e-3).fit(counting(), seed=1)
    made = fitted.sample(200, seed=4)
    steps = (np.diff(made, axis=1) % 20).ravel()
    assert np.isin(steps, (1.0, 2.0)).mean() > 0.8
    random = np.random.default_rng(1).integers(0, 20, size=(200, 8))
    losses = [_language.token_losses(SMALL, fitted.weights, rows).mean() for rows in (made, random)]
    assert losses[0] < losses[1] - 1.0


def test_only_the_likeliest_tokens_are_drawn():
    fitted = LanguageModel(shape=SMALL, epochs=12, rate=1e-2, top=1).fit(counting(), seed=1)
    made = fitted.sample(60, seed=1)
    assert len(np.unique(made, axis=0)) <= len(np.unique(fitted.prompts, axis=0))


def test_tokens_one_by_one_as_all_at_once():
    """The cache of keys and values changes nothing."""
    weights = _language.as_tensors(SMALL.start(1))
    tokens = torch.from_numpy(counting(4).astype(np.int64))
    whole = _language.read(SMALL, weights, tokens)
    past = []
    steps = [_language.read(SMALL, weights, tokens[:, :3], past=past)]
    steps += [_language.read(SMALL, weights, tokens[:, place : place + 1], past=past) for place in range(3, 8)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clip", [0.05, 1e6])
def test_clipped_sums_as_by_gradients_of_single_chunks(clip):
    weights = _language.as_tensors(SMALL.start(2))
    tokens = torch.from_numpy(counting(6).astype(np.int64))
    found = _language._clipped_sum(SMALL, weights, tokens, clip)
    names = [name for name in weights if name != "embedding"]
    assert sorted(found) == sorted(names)
    total = {name: torch.zeros_like(weights[name]) for name in names}
    parts = [weights[name].requires_grad_() for name in names]
    for row in tokens:
        slopes = torch.autograd.grad(_language._losses(SMALL, weights, row[None]).mean(), parts)
        length = torch.sqrt(sum((slope**2).sum() for slope in slopes))
        for name, slope in zip(names, slopes, strict=True):
            total[name] += slope * min(1.0, clip / float(length))
    for name in names:
        torch.testing.assert_close(found[name], total[name], rtol=1e-3, atol=1e-6)


def test_private_training_keeps_the_embedding_and_learns_without_noise():
    rows, start = counting(), SMALL.start(1)
    settings = {"sampling_rate": 0.2, "steps": 60, "clip": 1.0, "rate": 1e-2, "seed": 5}
    plain = _language.trained_privately(SMALL, start, rows, noise_multiplier=0.0, **settings)
    np.testing.assert_array_equal(plain["embedding"], start["embedding"])
    before, after = (_language.token_losses(SMALL, each, rows).mean() for each in (start, plain))
    assert after < before - 0.5
    noisy = _language.trained_privately(SMALL, start, rows, noise_multiplier=50.0, **settings)
    assert _language.token_losses(SMALL, noisy, rows).mean() > after


def test_checkpoints_are_of_one_training():
    rows, start = counting(), SMALL.start(1)
    two, four = _language.trained(SMALL, start, rows, epochs=(2, 4), rate=1e-3, seed=1)
    (alone,) = _language.trained(SMALL, start, rows, epochs=(2,), rate=1e-3, seed=1)
    np.testing.assert_array_equal(two["embedding"], alone["embedding"])
    losses = [_language.token_losses(SMALL, each, rows).mean() for each in (start, two, four)]
    assert losses[0] > losses[1] > losses[2]


def test_refusals(model):
    with pytest.raises(InputError, match="tokens from 0 to 19"):
        model.fit(counting() + 5.0)
    with pytest.raises(InputError, match="whole token numbers"):
        model.fit(counting() / 3.0)
    with pytest.raises(InputError, match="chunks of two tokens"):
        model.fit(np.zeros((5, 1)))
    with pytest.raises(InputError, match="enough to learn from"):
        model.fit(counting(1))
    with pytest.raises(InputError, match="`training` must be in"):
        LanguageModel(training=1.0)
    with pytest.raises(InputError, match="multiple of twice the heads"):
        Shape(width=10, heads=4)
