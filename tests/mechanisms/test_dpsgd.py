"""Batched DP-SGD: a naive twin in float64, bitwise the same in any arrangement, the laws of its coins and noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from dpaudit import InputError, accounting
from dpaudit.mechanisms.dpsgd import (
    BLOCK,
    DpSgd,
    GradientCanary,
    InputCanary,
    draws,
    train,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 5)).astype(np.float32)
LABELS = {"logistic": RNG.integers(0, 2, 30), "softmax": RNG.integers(0, 3, 30), "squared": RNG.normal(size=30)}


def naive(recipe, x, y, seed, model, canary=None, world=False):
    """One model, one record at a time, in float64; coins and noise drawn as the block draws them."""
    d, k = x.shape[1], recipe.classes
    block, place = divmod(model, BLOCK)
    weights, first, second = (np.zeros((d, k)) for _ in range(3))
    records = x.shape[0] + (canary is not None)
    for step in range(1, recipe.steps + 1):

        def draw(purpose, step=step):
            return draws.keyed(seed, block, step, purpose)

        taken = np.ones(x.shape[0], dtype=bool)
        canary_taken = True
        if recipe.sampling_rate < 1.0:
            taken = draws.coins(draw(draws.COINS), (x.shape[0], BLOCK), recipe.sampling_rate)[:, place]
            canary_taken = draws.coins(draw(draws.CANARY), (1, BLOCK), recipe.sampling_rate)[0, place]
        total = np.zeros((d, k))
        for row, label, inside in zip(x, y, taken, strict=True):
            if inside:
                total += clipped(gradient(recipe, weights, row, label), recipe.clip)
        if canary is not None and canary_taken:
            total += clipped(canary(weights, world), recipe.clip)
        noise = draws.gaussian(draw(draws.NOISE), (d, BLOCK, k))[:, place, :]
        total += recipe.noise_multiplier * recipe.clip * noise
        mean = total / (recipe.sampling_rate * records)
        if recipe.optimizer == "momentum":
            first = 0.9 * first + mean
            mean = first
        elif recipe.optimizer == "adam":
            first, second = 0.9 * first + 0.1 * mean, 0.999 * second + 0.001 * mean**2
            mean = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = weights - recipe.learning_rate * mean
    return weights


def gradient(recipe, weights, row, label):
    logits = row.astype(float) @ weights
    if recipe.loss == "squared":
        residual = logits - label
    elif recipe.loss == "logistic":
        residual = special.expit(logits) - label
    else:
        residual = special.softmax(logits)
        residual[label] -= 1.0
    return np.outer(row, residual)


def clipped(found, clip):
    return found * min(1.0, clip / max(np.linalg.norm(found), 1e-30))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(("loss", "classes"), [("logistic", 1), ("softmax", 3), ("squared", 1)])
@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_equal_to_a_naive_twin(loss, classes, optimizer, rate):
    recipe = DpSgd(
        noise_multiplier=0.7,
        sampling_rate=rate,
        steps=6,
        clip=0.8,
        learning_rate=0.3,
        optimizer=optimizer,
        loss=loss,
        classes=classes,
    )
    _, final = train(recipe, X, LABELS[loss], models=70, seed=5)
    for model in (0, 63, 64, 69):
        assert final[model] == pytest.approx(naive(recipe, X, LABELS[loss], 5, model), rel=2e-3, abs=2e-4)


def test_canaries_go_the_same_way_as_everybody():
    """Clipped (its gradient is too long), sampled, and counted in the expected batch size."""
    recipe = DpSgd(noise_multiplier=0.5, sampling_rate=0.5, steps=5, clip=0.8)
    long = np.full((5, 1), 3.0)
    worlds = np.arange(10) % 2 == 0
    _, final = train(recipe, X, LABELS["logistic"], canary=GradientCanary(long, -long), worlds=worlds, seed=2)
    for model in range(10):
        twin = naive(
            recipe, X, LABELS["logistic"], 2, model, lambda w, here: long if here else -long, bool(worlds[model])
        )
        assert final[model] == pytest.approx(twin, rel=2e-3, abs=2e-4)
    record = (np.array([2.0, 0.0, 1.0, 0.0, -1.0], dtype=np.float32), 1.0)
    _, final = train(recipe, X, LABELS["logistic"], canary=InputCanary(record), worlds=worlds, seed=2)

    def crafted(weights, here):
        return gradient(recipe, weights, *record) if here else np.zeros((5, 1))

    for model in range(4):
        twin = naive(recipe, X, LABELS["logistic"], 2, model, crafted, bool(worlds[model]))
        assert final[model] == pytest.approx(twin, rel=2e-3, abs=2e-4)


def test_bitwise_the_same_in_any_arrangement():
    """More models after them, or the second block as a job of its own: the same numbers to the last bit."""
    recipe = DpSgd(noise_multiplier=1.0, sampling_rate=0.3, steps=8, random_start=True)
    worlds = np.random.default_rng(1).random(150) < 0.5
    canary = GradientCanary(np.eye(5)[:, :1], -np.eye(5)[:, :1])
    y = LABELS["logistic"]
    seen, whole = train(recipe, X, y, canary=canary, worlds=worlds, seed=9, observe=[lambda s: s.weights[0, :, 0]])
    _, few = train(recipe, X, y, canary=canary, worlds=worlds[:70], seed=9)
    _, second = train(recipe, X, y, canary=canary, worlds=worlds[64:128], seed=9, first_block=1)
    assert np.array_equal(whole[:70], few)
    assert np.array_equal(whole[64:128], second)
    assert np.array_equal(seen[0, 0], whole[:, 0, 0])
    _, threaded = train(recipe, X, y, canary=canary, worlds=worlds, seed=9, threads=2)
    assert np.array_equal(threaded, whole)
    assert not np.array_equal(whole[:64], train(recipe, X, y, models=64, seed=10)[1])


def test_observers_see_the_steps_they_ask_for():
    recipe = DpSgd(noise_multiplier=1.0, steps=6)
    seen, _ = train(
        recipe, X, LABELS["logistic"], models=5, seed=1, observe=[lambda s: np.full(64, s.step)], at=[2, 6, 2]
    )
    assert seen[0].tolist() == [[2.0] * 5, [6.0] * 5, [2.0] * 5]


def test_noise_and_coins_have_their_laws():
    """On zero data the released sum is the noise; a canary of one coordinate shows how often it was sampled."""
    recipe = DpSgd(noise_multiplier=2.0, steps=1, clip=0.5, learning_rate=1.0)
    zeros = np.zeros((9, 3), dtype=np.float32)
    seen, _ = train(recipe, zeros, np.zeros(9), models=4000, seed=3, observe=[lambda s: s.released[1, :, 0]])
    assert stats.kstest(seen[0, 0] / 1.0, "norm").pvalue > 1e-3
    quiet = replace(recipe, noise_multiplier=0.0, sampling_rate=0.3, steps=10)
    canary = GradientCanary(np.array([[0.5], [0.0], [0.0]]))
    total, _ = train(
        quiet,
        zeros,
        np.zeros(9),
        canary=canary,
        worlds=np.ones(2000, bool),
        seed=3,
        observe=[lambda s: s.total[0, :, 0]],
    )
    counts = np.bincount(np.round(total[0, 0] / 0.5).astype(int), minlength=11)[:11]
    expected = 2000 * stats.binom.pmf(np.arange(11), 10, 0.3)
    kept = expected > 5
    assert stats.chisquare(counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()).pvalue > 1e-3


def test_the_claim_is_the_accountants():
    recipe = DpSgd(noise_multiplier=1.2, sampling_rate=0.2, steps=7, relation="substitute")
    expected = accounting.dp_sgd(noise_multiplier=1.2, sampling_rate=0.2, steps=7, delta=1e-5, relation="substitute")
    assert recipe.claim(1e-5) == expected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be at least 0"),
        ({"sampling_rate": 0.0}, "`sampling_rate` must be"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"optimizer": "lion"}, "`optimizer` must be one of"),
        ({"loss": "hinge"}, "`loss` must be one of"),
        ({"loss": "softmax"}, "`classes` must be at least 2"),
        ({"classes": 3}, "`classes` must be 1 for the logistic loss"),
        ({"relation": "near"}, "`relation` must be one of"),
    ],
)
def test_recipes_that_make_no_sense(change, sentence):
    with pytest.raises(InputError, match=sentence):
        DpSgd(**{"noise_multiplier": 1.0, **change})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x": X[:5]}, "a row for each of 30 labels"),
        ({"x": np.full((30, 5), np.nan)}, "`x` must be finite"),
        ({"worlds": [True]}, "belong together"),
        ({"models": 0}, "`models` must be at least 1"),
        ({"models": 3, "canary": GradientCanary(np.ones((5, 1))), "worlds": [True]}, "the number of worlds"),
        ({"at": [9]}, "`at` must be at most 4"),
    ],
)
def test_refusals(arguments, sentence):
    given = {"x": X, "y": LABELS["logistic"], "seed": 1, **({"models": 2} if "worlds" not in arguments else {})}
    with pytest.raises(InputError, match=sentence):
        train(DpSgd(noise_multiplier=1.0, steps=4), **{**given, **arguments})
