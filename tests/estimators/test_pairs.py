"""PANORAMIA: the joint region, what is asserted, and what is only an estimate."""

import json

import numpy as np
import pytest

import dpaudit as da
from dpaudit import PairedScores, estimators
from dpaudit.estimators.thresholds import EProcess, Fixed, GuessPath
from dpaudit.mechanisms import known
from tests.conftest import gaussian_runs


def test_power_on_flat_leakage():
    """Issue 3: 1.68 or more on flat leakage of 2 with about 1,000 guesses at level 2.5 % (THEORY 3c: 1.773)."""
    rng = np.random.default_rng(1)
    found = [estimators.panoramia(known.GeneratedPairs(2.0, 0.0, 2000).sample(rng)).total for _ in range(100)]
    assert np.median(found) >= 1.68


def test_low_recall_is_for_the_e_process():
    """Leakage that shows in a few items only (THEORY 3c, low recall): the e-process sees more."""
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


def test_joint_region_and_asserted_closeness(rng):
    evidence = known.GeneratedPairs(1.5, 0.5, 4000).sample(rng)
    region = estimators.panoramia(evidence)
    assert 0 < region.closeness < 0.5
    assert region.closeness < region.total <= 2.0
    assert region.relation is da.Relation.SUBSTITUTE
    assert region.difference == pytest.approx(region.total - region.closeness)
    with pytest.raises(da.InputError, match="needed"):
        region.epsilon()
    at_half = region.epsilon(0.5)
    assert at_half.epsilon == pytest.approx(region.total - 0.5)
    assert at_half.guarantee == "conditional"
    assert "the generator is 0.5-close" in at_half.assumptions
    assert da.on_add_remove(at_half).epsilon == pytest.approx(at_half.epsilon / 2)
    with pytest.raises(da.InputError, match="must be at least"):
        region.epsilon(0.0)
    asserted = estimators.panoramia(evidence, asserted_closeness=0.5)
    assert asserted.total >= region.total, "no error probability is spent on the baseline"
    assert asserted.epsilon().epsilon == pytest.approx(asserted.total - 0.5)
    with pytest.raises(da.InputError, match="at least what the baseline shows"):
        estimators.panoramia(evidence, asserted_closeness=0.01)
    assert "estimate, not a bound" in str(region)
    assert "together" in str(region)
    assert "together" not in str(asserted)
    assert "half under add-remove" in str(region)
    assert "half under add-remove" not in str(estimators.panoramia(evidence, delta=1e-6))
    assert json.dumps(region.to_dict())


def test_relaxations_only_cost(rng):
    evidence = known.GeneratedPairs(2.0, 0.5, 2000).sample(rng)
    plain = estimators.panoramia(evidence)
    slack = estimators.panoramia(evidence, closeness_slack=1e-5)
    both = estimators.panoramia(evidence, closeness_slack=1e-5, delta=1e-5)
    assert both.total <= slack.total <= plain.total
    assert slack.closeness <= plain.closeness
    assert both.closeness == slack.closeness, "the baseline never saw the model"
    assert estimators.panoramia(evidence, delta=0.1).total == 0.0


def test_ceiling_and_ranks(rng):
    region = estimators.panoramia(known.GeneratedPairs(2.0, 0.0, 2000).sample(rng))
    assert region.total < region.ceiling
    assert GuessPath(8).ranks(1024)[0] == 8


def test_misuse(rng):
    pairs = known.GeneratedPairs().sample(rng)
    with pytest.raises(da.InputError, match="needs scores of real and generated items"):
        estimators.panoramia(gaussian_runs(rng))
    for changes, match in (
        ({"guesses": Fixed(fraction=0.5)}, "no valid test with Fixed"),
        ({"confidence": 1.0}, "`confidence` must be in"),
        ({"delta": 2.0}, "`delta` must be in"),
        ({"closeness_slack": -1.0}, "`closeness_slack` must be in"),
        ({"asserted_closeness": "x"}, "`asserted_closeness` must be a number"),
    ):
        with pytest.raises(da.InputError, match=match):
            estimators.panoramia(pairs, **changes)
