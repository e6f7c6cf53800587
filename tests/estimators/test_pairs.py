"""PANORAMIA: the joint region, what is asserted, and what is only an estimate."""

import json
import math

import numpy as np
import pytest

import dpaudit as da
from dpaudit import PairedScores, _binomial, estimators
from dpaudit.estimators.thresholds import EProcess, Fixed, GuessPath
from dpaudit.testing import ground_truth
from tests.conftest import gaussian_runs


def test_power_on_flat_leakage():
    """Issue 3: 1.68 or more on flat leakage of 2 with about 1,000 guesses at level 2.5 % (theory:panoramia#region:
    1.773)."""
    rng = np.random.default_rng(1)
    found = [estimators.panoramia(ground_truth.GeneratedPairs(2.0, 0.0, 2000).sample(rng)).total for _ in range(100)]
    assert np.median(found) >= 1.68


def test_low_recall_is_for_the_e_process():
    """Leakage that shows in a few items only (theory:panoramia#region, low recall): the e-process sees more."""
    rng = np.random.default_rng(2)
    path, wealth = [], []
    for _ in range(40):
        included = rng.random(2000) < 0.5
        rank = np.arange(2000)
        right = rng.random(2000) < 1 / (1 + np.exp(-4 * np.exp(-rank / 50)))
        scores = np.where(right == included, 4000.0 - rank, -rank)
        evidence = PairedScores(included=included, baseline=rng.random(2000), attack=scores)
        path.append(estimators.panoramia(evidence).total)
        wealth.append(estimators.panoramia(evidence, guesses=EProcess()).total)
    assert np.median(wealth) > np.median(path)


# theory:panoramia#asserted
def test_joint_region_and_asserted_divergence(rng):
    evidence = ground_truth.GeneratedPairs(1.5, 0.5, 4000).sample(rng)
    region = estimators.panoramia(evidence)
    assert 0 < region.divergence < 0.5
    assert region.divergence < region.total <= 2.0
    assert region.relation is da.Relation.SUBSTITUTE
    assert region.difference == pytest.approx(region.total - region.divergence)
    with pytest.raises(da.InputError, match="needed"):
        region.epsilon()
    at_half = region.epsilon(0.5)
    assert at_half.epsilon == pytest.approx(region.total - 0.5)
    assert at_half.guarantee == "conditional"
    assert "generator-divergence(c=0.5)" in {one.key for one in at_half.assumptions}
    assert "real records are at most e^0.5 times as likely as generated ones" in str(at_half)
    assert da.on_add_remove(at_half).epsilon == pytest.approx(at_half.epsilon / 2)
    with pytest.raises(da.InputError, match="must be at least"):
        region.epsilon(0.0)
    asserted = estimators.panoramia(evidence, asserted_divergence=0.5)
    assert asserted.total >= region.total, "no error probability is spent on the baseline"
    assert asserted.epsilon().epsilon == pytest.approx(asserted.total - 0.5)
    with pytest.raises(da.InputError, match="at least what the baseline shows"):
        estimators.panoramia(evidence, asserted_divergence=0.01)
    assert "estimate, not a bound" in str(region)
    assert "together" in str(region)
    assert "together" not in str(asserted)
    assert "half under add-remove" in str(region)
    assert "half under add-remove" not in str(estimators.panoramia(evidence, delta=1e-6))
    assert json.dumps(region.to_dict())


# theory:panoramia#slack
def test_relaxations_only_cost(rng):
    evidence = ground_truth.GeneratedPairs(2.0, 0.5, 2000).sample(rng)
    plain = estimators.panoramia(evidence)
    slack = estimators.panoramia(evidence, divergence_slack=1e-5)
    both = estimators.panoramia(evidence, divergence_slack=1e-5, delta=1e-5)
    assert both.total <= slack.total <= plain.total
    assert slack.divergence <= plain.divergence
    assert both.divergence == slack.divergence, "the baseline never saw the model"
    assert estimators.panoramia(evidence, delta=0.1).total == 0.0


def test_ceiling_and_ranks(rng):
    region = estimators.panoramia(ground_truth.GeneratedPairs(2.0, 0.0, 2000).sample(rng))
    assert region.total < region.ceiling
    assert GuessPath(8).ranks(1024)[0] == 8


def test_misuse(rng):
    pairs = ground_truth.GeneratedPairs().sample(rng)
    with pytest.raises(da.InputError, match="needs scores of real and generated items"):
        estimators.panoramia(gaussian_runs(rng))
    for changes, match in (
        ({"guesses": Fixed(fraction=0.5)}, "no valid test with Fixed"),
        ({"confidence": 1.0}, "`confidence` must be in"),
        ({"delta": 2.0}, "`delta` must be in"),
        ({"divergence_slack": -1.0}, "`divergence_slack` must be in"),
        ({"asserted_divergence": "x"}, "`asserted_divergence` must be a number"),
    ):
        with pytest.raises(da.InputError, match=match):
            estimators.panoramia(pairs, **changes)


def test_region_against_a_naive_twin():
    """Right guesses by hand, and every point of the grid by the plain p-value: half of alpha each, half of the mass."""
    rng = np.random.default_rng(4)
    included = rng.random(600) < 0.5
    right = rng.random((2, 600)) < np.array([[0.68], [0.8]])  # of either attack; the order among equals is random
    baseline, attack = np.where(right, included, ~included) + 0.1 * rng.random((2, 600))
    evidence = PairedScores(included=included, baseline=baseline, attack=attack)

    def twin(scores, level, bad):
        order = np.argsort(-scores)
        ranks = [9, 19, 38, 75, 150, 300, 600]
        correct = [int(included[order[:n]].sum()) for n in ranks]

        def slack(x):
            return 0.5 * 600 * bad / (1.0 + math.exp(x))

        steps = 0
        while _binomial.path_p_value(ranks, correct, epsilon=0.01 * steps, slack=slack) <= level:
            steps += 1
        return 0.01 * max(0, steps - 1)

    assert GuessPath(8).ranks(600) == [9, 19, 38, 75, 150, 300, 600]
    for gamma, delta in ((0.0, 0.0), (1e-4, 4e-4)):
        region = estimators.panoramia(evidence, confidence=0.8, divergence_slack=gamma, delta=delta)
        assert region.divergence == pytest.approx(twin(baseline, 0.1, gamma))
        assert region.total == pytest.approx(twin(attack, 0.1, 1.0 - (1.0 - gamma) * (1.0 - delta)))
        assert 0.2 < region.divergence < region.total < 1.4
    asserted = estimators.panoramia(evidence, confidence=0.8, asserted_divergence=2.0)
    assert asserted.total == pytest.approx(twin(attack, 0.2, 0.0))
