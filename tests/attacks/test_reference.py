"""Scores beside a reference, and the attack without the model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import InputError, attacks
from dpaudit.attacks import baselines
from dpaudit.counterfactuals import Categorical, Fresh, Normal
from dpaudit.testing.ground_truth import gaussian_mixture

SHARES = st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0)), min_size=2, max_size=30)


@given(SHARES)
def test_higher_means_more_likely_trained_on(pairs):
    """All four grow with the target's probability; three have the sign of target - reference."""
    target, reference = np.array(pairs).T
    for name, attack in attacks.REFERENCE_ATTACKS.items():
        raised = attack.score(np.minimum(1.0, target * 1.5), reference)
        assert np.all(raised >= attack.score(target, reference) - 1e-12) or name == "rmia"
        if attack.sides == "sign":
            assert np.all(np.sign(attack.score(target, reference)) * np.sign(target - reference) >= 0.0)


def test_formulas():
    assert attacks.probability_difference([0.9], [0.5], power=1.0).tolist() == pytest.approx([0.2])
    assert attacks.likelihood_ratio([0.9], [0.3]).tolist() == pytest.approx([np.log(3.0)])
    assert attacks.difficulty_calibration([0.9], [0.3]).tolist() == pytest.approx([-np.log(0.3) + np.log(0.9)])
    assert attacks.rmia_ratio([0.9], [0.3], offline=0.3).tolist() == pytest.approx([0.9 / ((1.3 * 0.3 + 0.7) / 2)])


def test_rmia_is_the_share_of_the_population_that_is_beaten(rng):
    target, reference = rng.random(500) + 1e-3, rng.random(500) + 1e-3
    ratios, pool = attacks.rmia_ratio(target, reference), rng.random(200) * 2.0
    naive = np.array([(ratio / pool >= 1.2).mean() for ratio in ratios])
    found = attacks.rmia(target, reference, population=pool, gamma=1.2)
    assert np.abs(found * 201 / 200 - naive).max() < 1.0 / 200 + 1e-9
    assert np.array_equal(np.argsort(attacks.rmia(target, reference)), np.argsort(ratios))


@pytest.mark.parametrize("score", [attacks.likelihood_ratio, attacks.probability_difference, attacks.rmia])
def test_refusals(score):
    with pytest.raises(InputError, match="must be positive"):
        score([0.0, 0.5], [0.5, 0.5])
    with pytest.raises(InputError, match="must be alike"):
        score([0.5], [0.5, 0.5])


def test_difference_needs_probabilities():
    with pytest.raises(InputError, match="density above 1"):
        attacks.probability_difference([3.0], [0.5])


def test_blind_law_recovers_what_the_proxy_lost(rng):
    """With the features the blind distribution comes close to the true posterior, and never sees its half's labels."""
    x, labels, distribution = gaussian_mixture(4000, 2, rng)
    noisy = np.clip(distribution[:, 1] + 0.2 * rng.normal(size=4000), 0.01, 0.99)
    fold = rng.random(4000) < 0.5
    found = attacks.blind_distribution(Categorical(noisy), labels, x, fold, seed=1)
    assert np.abs(found.probabilities - distribution).mean() < 0.4 * np.abs(noisy - distribution[:, 1]).mean()
    changed = np.where(fold, labels, 1 - labels)  # other labels in the half that is not `fold`
    other = attacks.blind_distribution(Categorical(noisy), changed, x, fold, seed=1)
    assert np.array_equal(found.probabilities[~fold], other.probabilities[~fold])
    assert not np.allclose(found.probabilities[fold], other.probabilities[fold])


def test_blind_law_of_numbers(rng):
    x = rng.normal(size=3000)
    values = x + 1.0 + rng.normal(size=3000)
    counterfactual, fold = Normal(x, 1.0), rng.random(3000) < 0.5
    found = attacks.blind_distribution(counterfactual, values, x[:, None], fold, seed=1)
    assert np.log(found.density(values)).mean() > np.log(counterfactual.density(values)).mean() + 0.2


def test_giveaways_name_the_column(rng):
    x = rng.normal(size=(4000, 3))
    labels = (rng.random(4000) < 1.0 / (1.0 + np.exp(-2.0 * x[:, 1]))).astype(int)
    (first, *_) = attacks.leaking_features(Categorical(np.full((4000, 2), 0.5)), labels, x, ["a", "b", "c"])
    assert first.feature == "b"
    assert abs(first.z) > 10.0
    assert "above" in first.where or "up to" in first.where
    (number, *_) = attacks.leaking_features(Normal(np.zeros(4000), 1.0), x[:, 2] + x[:, 0], x, ["a", "b", "c"])
    assert number.feature in ("a", "c")
    moved = Fresh(np.arange(4000), x + np.array([0.0, 0.0, 1.0]))
    (record, *_) = attacks.leaking_features(moved, np.arange(4000), x, ["a", "b", "c"])
    assert record.feature == "c"


def test_binary_columns_are_cut_in_two(rng):
    flag = (rng.random(2000) < 0.03).astype(float)
    labels = np.where(flag == 1.0, 1, rng.integers(0, 2, 2000))
    (first, *_) = attacks.leaking_features(Categorical(np.full((2000, 2), 0.5)), labels, flag[:, None], ["rare"])
    assert first.feature == "rare"
    assert first.z > 4.0


def test_words():
    assert "no features were given" in baselines.words(Categorical([0.5]), None)
    assert "1 feature column" in baselines.words(Categorical([0.5]), np.zeros((1, 1)))
