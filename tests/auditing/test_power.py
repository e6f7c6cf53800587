"""Planned sizes: those of theory:power#plan-runs, and they do what they promise."""

import numpy as np
import pytest

from dpaudit import InputError, RunScores, UpperBound, accounting, judge, plan_runs


def gaussian(mu):
    return accounting.gaussian(mu=mu, delta=1e-5, relation="add-remove")


@pytest.mark.parametrize(
    ("mu", "detects", "theory"),
    [(1.0, 0.5, 60), (1.0, 1 / 1.5, 160), (0.5, 0.5, 160), (2.0, 0.5, 30), (1.0, 1 / 1.2, 800)],
)
def test_sizes_are_those_of_the_theory(mu, detects, theory):
    assert theory * 0.6 <= plan_runs(claim=gaussian(mu), detects=detects) <= theory * 1.3


def test_more_confidence_costs_three_to_four_times_the_runs():
    ratio = plan_runs(claim=gaussian(1.0), confidence=0.999999) / plan_runs(claim=gaussian(1.0))
    assert 2.5 <= ratio <= 4.5


def test_the_planned_size_catches_what_it_should():
    """Fresh Gaussian scores, other seeds than the plan's: at least 80 of 100."""
    claim, caught = gaussian(1.0), 0
    runs = plan_runs(claim=claim, detects=0.5)
    for seed in range(100):
        rng = np.random.default_rng([77, seed])
        evidence = RunScores(present=rng.normal(2, 1, runs), absent=rng.normal(0, 1, runs), relation="add-remove")
        caught += judge(evidence, claim).contradicted
    assert caught >= 80


@pytest.mark.parametrize(
    "claim",
    [
        accounting.laplace(epsilon=1.0, relation="add-remove"),
        accounting.randomized_response(epsilon=1.0, classes=5, relation="label"),
        accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=0.2, steps=3, delta=1e-5, relation="substitute"),
        accounting.group_privacy(gaussian(0.5)),
        UpperBound(epsilon=1.0, delta=1e-5, relation="add-remove"),
    ],
)
def test_every_kind_of_claim_can_be_planned_for(claim):
    assert 10 <= plan_runs(claim=claim) <= 500
    weaker = claim.with_noise(0.5)
    rates = np.linspace(0.01, 0.99, 30)
    assert np.all(weaker.fbar(rates) >= claim.hypothesis.fbar(rates) - 1e-9), "less noise is less private"


def test_refusals():
    with pytest.raises(InputError, match="would not be caught by 200,000 runs"):
        plan_runs(claim=UpperBound(epsilon=9.0, delta=1e-5, relation="label"), detects=0.9)
    with pytest.raises(InputError, match="`detects` must be in"):
        plan_runs(claim=gaussian(1.0), detects=2.0)
    exact = accounting.independent_answers([([0.6, 0.4], [0.5, 0.5])], delta=0.0, relation="label")
    with pytest.raises(InputError, match="what less noise would mean is not known"):
        plan_runs(claim=exact)
