"""The tau question: the blind baseline, the tau that it shows, and the bound as a function of tau."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import CanaryScores, InputError, MemberScores, estimators
from dpaudit.estimators.sensitivity_analysis import SHIFTS
from dpaudit.games.observational import BLIND_VALUES
from dpaudit.testing import ground_truth


def guesses(right, wrong, *, shift=0.0, **more):
    """So many right and wrong guesses, by sign, all different in size."""
    coins = np.arange(right + wrong) % 2 == 0
    correct = np.repeat([True, False], [right, wrong])
    size = 1.0 + np.random.default_rng(0).random(right + wrong)
    scores = np.where(correct == coins, 1.0, -1.0) * size
    return CanaryScores(scores=scores, included=coins, relation="label", sides="sign", shift=shift, **more)


# theory:observational#blind-baseline
def test_control_of_tau_0_is_the_exact_path():
    assert estimators.refute(BLIND_VALUES, [guesses(505, 495)]).outcome == "passed"
    found = estimators.refute(BLIND_VALUES, [guesses(600, 400)], how="with features")
    assert found.refuted
    assert found.p_value < 1e-6
    assert "tells true values from the proxy's" in found.text
    assert estimators.refute(BLIND_VALUES, []).outcome == "not-run"


@pytest.mark.parametrize("tau", [0.05, 0.2])
# theory:observational#blind-baseline
def test_control_of_a_larger_tau_is_a_binomial_tail(tau):
    found = estimators.null_p_value(guesses(650, 350, shift=tau))
    assert found == pytest.approx(stats.binom.sf(649, 1000, (1.0 + tau) / 2.0))
    assert estimators.null_p_value(guesses(500, 500, shift=tau)) == 1.0


# theory:observational#least-shift
def test_least_shift_is_put_back():
    """The limit itself is just rejected, a little more is not."""
    seen = guesses(700, 300)
    limit = estimators.least_shift(seen)
    assert 0.3 < limit < 0.4
    for tau, rejected in ((limit * 0.999, True), (limit * 1.01, False)):
        assert (estimators.null_p_value(guesses(700, 300, shift=tau)) <= 0.05) is rejected
    assert estimators.least_shift(guesses(490, 510)) == 0.0


def test_several_parts_are_paid_for():
    part = guesses(540, 460)
    one, two = (estimators.null_p_value([part] * count) for count in (1, 2))
    assert two == pytest.approx(min(1.0, 2.0 * one))
    assert estimators.least_shift([part, part]) < estimators.least_shift(part)
    assert estimators.visible_shift([part, part]) > estimators.visible_shift(part) > 0.0


def test_control_of_propensities():
    coins = np.arange(400) % 2 == 0
    evidence = MemberScores(
        scores=np.where(coins, 1.0, -1.0),
        member=coins,
        propensity=np.tile([0.45, 0.55], (400, 1)),
        relation="label",
        sides="sign",
    )
    assert estimators.null_p_value(evidence) <= 0.05
    with pytest.raises(InputError, match="needs coin-flipped canaries"):
        estimators.least_shift(evidence)


def test_refusals():
    with pytest.raises(InputError, match="a control must have evidence, got none"):
        estimators.null_p_value([])
    coins = np.arange(100) % 2 == 0
    both = CanaryScores(scores=np.arange(100.0), included=coins, relation="label")
    with pytest.raises(InputError, match="must guess by sign"):
        estimators.null_p_value(both)


# theory:observational#shift-curve
def test_bound_by_shift_falls_and_meets_the_fixed_form(rng):
    evidence = ground_truth.ResponseCanaries(3.0, 5000).sample(rng)
    curve = estimators.epsilon_by_shift(evidence, delta=0.0)
    assert len(curve) == len(SHIFTS)
    assert all(a >= b for a, b in itertools.pairwise(curve))
    assert curve[0] > 2.0 > curve[-1] == 0.0
    fractions = da.FractionGrid((0.3, 0.1, 0.03, 0.01))
    bound = estimators.epsilon_from_canaries(evidence, delta=0.0, guesses=fractions)
    assert curve[0] == pytest.approx(bound.epsilon)


def test_guesses_for_leaves_power_where_a_path_has_none(rng):
    """A million canaries at delta 1e-5: the path pays 10 / (1 + e^epsilon), more than any error probability."""
    evidence = ground_truth.ResponseCanaries(2.0, 100_000).sample(rng)
    path = estimators.epsilon_from_canaries(evidence, delta=1e-5)
    chosen = estimators.guesses_for(canaries=100_000, delta=1e-5)
    fixed = estimators.epsilon_from_canaries(evidence, delta=1e-5, guesses=chosen)
    assert path.epsilon == 0.0
    assert 1.7 < fixed.epsilon <= 2.0
    assert estimators.guesses_for(canaries=10, delta=0.5) == da.FractionGrid((1.0,))


def test_the_gaussian_conversion_over_reports(rng):
    """theory:curves#gaussian-family: randomised response at epsilon 1, everything guessed, read as a Gaussian: about
    1.65."""
    evidence = ground_truth.ResponseCanaries(1.0, 1_000_000).sample(rng)
    everything = da.Fixed(fraction=1.0)
    assert estimators.mu_from_canaries(evidence, delta=1e-5, guesses=everything).epsilon == pytest.approx(
        1.65, abs=0.02
    )
    assert 0.99 < estimators.epsilon_from_canaries(evidence, delta=0.0, guesses=everything).epsilon <= 1.0


def test_nothing_is_reported_from_the_largest_shift_on(rng):
    evidence = ground_truth.ResponseCanaries(3.0, 5000).sample(rng)
    largest = estimators.largest_shift(evidence)
    assert 0.0 < largest < 0.05
    assert estimators.epsilon_by_shift(evidence, delta=0.0, shifts=(1.01 * largest,)) == [0.0]
    assert estimators.mu_from_canaries(replace(evidence, shift=1.01 * largest)).mu == 0.0
