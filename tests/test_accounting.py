"""Accountants against closed forms, and their traps."""

import builtins
import math

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import InputError, Relation, accounting, mechanisms
from dpaudit.testing.ground_truth import SubsampledGaussianRuns
from dpaudit.tradeoff import Gaussian

SETTING = {"noise_multiplier": 1.0, "sampling_rate": 0.25, "steps": 1, "delta": 1e-5}


def test_substitution_is_not_a_doubled_sensitivity():
    """DESIGN 6: 2.99 at sigma 1, q 0.25 under substitution, where doubling the sensitivity says 7.95."""
    assert accounting.dp_sgd(**SETTING, relation="substitute").epsilon == pytest.approx(2.99, abs=0.005)
    doubled = accounting.dp_sgd(**(SETTING | {"noise_multiplier": 0.5}), relation="add-remove")
    assert doubled.epsilon == pytest.approx(7.95, abs=0.01)


def test_relations():
    add, zero, label, swap = (
        accounting.dp_sgd(**SETTING, relation=r) for r in ("add-remove", "zero-out", "label", "substitute")
    )
    assert add.epsilon == zero.epsilon < swap.epsilon == label.epsilon
    assert "accounted as substitution" in label.method
    assert label.relation is Relation.LABEL


# theory:ground-truth#subsampled-gaussian
def test_one_step_against_the_closed_forms_of_theory_6_1():
    q, s, epsilon = 0.1, 1.0, 0.5
    add = accounting.dp_sgd(noise_multiplier=s, sampling_rate=q, steps=1, delta=1e-5, relation="add-remove").curve
    swap = accounting.dp_sgd(noise_multiplier=s, sampling_rate=q, steps=1, delta=1e-5, relation="substitute").curve
    assert add.delta(epsilon) == pytest.approx(0.00203, abs=1e-5)
    assert swap.delta(epsilon) == pytest.approx(0.00334, abs=1e-5)
    exact = SubsampledGaussianRuns(s, q)
    for e in np.linspace(0, 1.5, 16):
        assert exact.delta(e) <= add.delta(e) <= exact.delta(e) + 2e-6


def test_curve_is_pessimistic_and_oriented_with_the_absent_world_as_null():
    q, s = 0.3, 1.0
    t = np.linspace(-8, 9, 2001)  # thresholds on the noisy sum: exact points of the curve
    x = special.ndtr(-t / s)
    exact = (1 - q) * x + q * special.ndtr(-(t - 1) / s)
    ours = accounting.dp_sgd(noise_multiplier=s, sampling_rate=q, steps=1, delta=1e-5, relation="add-remove").curve
    assert np.all(ours.fbar(x) >= exact - 1e-12)
    assert np.max(ours.fbar(x) - exact) < 1e-4
    assert np.max(np.abs(ours.inverse().fbar(x) - exact)) > 0.01, "the two directions differ"


def test_curves_of_many_steps_give_back_their_epsilon():
    for relation in ("add-remove", "substitute"):
        for setting in ({"steps": 100, "noise_multiplier": 1.0}, {"steps": 30, "noise_multiplier": 0.6}):
            claim = accounting.dp_sgd(**setting, sampling_rate=0.1, delta=1e-5, relation=relation)
            assert claim.epsilon - 1e-6 <= claim.at(1e-5).epsilon <= claim.epsilon * 1.01


def test_weak_noise_is_accounted_for():
    claim = accounting.dp_sgd(noise_multiplier=0.3, sampling_rate=0.5, steps=1000, delta=1e-5, relation="add-remove")
    assert claim.epsilon > 1000
    assert claim.curve.fbar(0.01) > 0.99


def test_family_is_pessimistic_at_tiny_parameters():
    family = accounting.dp_sgd_family(sampling_rate=0.1, steps=1000, relation="add-remove")
    assert family.curve(0.0005).fbar(0.3) >= family.curve(0.001).fbar(0.3) > 0.3


def test_full_batches_are_gaussian_and_need_no_accountant():
    claim = accounting.dp_sgd(noise_multiplier=4.0, sampling_rate=1.0, steps=16, delta=1e-5, relation="add-remove")
    assert claim.mu == 1.0
    assert claim.epsilon == pytest.approx(da.gdp_epsilon(mu=1.0, delta=1e-5))
    family = accounting.dp_sgd_family(sampling_rate=1.0, steps=16, relation="substitute")
    assert family.curve(0.25) == Gaussian(2.0)


def test_family_brackets_the_truth():
    """The hypothesis is pessimistic, the conversion optimistic; both are close."""
    family = accounting.dp_sgd_family(sampling_rate=0.1, steps=50, relation="add-remove")
    claim = accounting.dp_sgd(noise_multiplier=1.5, sampling_rate=0.1, steps=50, delta=1e-5, relation="add-remove")
    low, high = family.epsilon(1 / 1.5, 1e-5), family.curve(1 / 1.5).epsilon(1e-5)
    assert low <= claim.epsilon <= high + 1e-6
    assert high - low < 0.02 * high
    assert family.epsilon(0.0, 1e-5) == 0.0
    assert family.curve(0.0) == Gaussian(0.0)
    thetas = (0.3, 0.5, 0.8)
    assert np.all(np.diff([family.curve(t).fbar(0.1) for t in thetas]) > 0), "nested hypotheses"


def test_group_privacy():
    one = accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=0.01, steps=200, delta=1e-5, relation="add-remove")
    two = accounting.group_privacy(one)
    assert two.relation is Relation.SUBSTITUTE
    assert two.epsilon == 2 * one.epsilon
    assert two.delta == pytest.approx(1e-5 * (1 + math.exp(one.epsilon)))
    target = accounting.group_privacy(one, delta=1e-5)
    direct = accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=0.01, steps=200, delta=1e-5, relation="substitute")
    assert direct.epsilon < two.curve.epsilon(1e-5) <= target.epsilon + 1e-9
    assert accounting.group_privacy(accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")).mu == 2.0
    three = accounting.group_privacy(accounting.laplace(epsilon=0.5, relation="add-remove"), size=3)
    assert (three.epsilon, three.relation, three.unit) == (1.5, Relation.ADD_REMOVE, "group of 3 records")
    pair = accounting.group_privacy(da.UpperBound(epsilon=1.0, delta=0.0, relation="add-remove"))
    assert pair.curve.epsilon(0.0) == 2.0
    with pytest.raises(da.InputError, match="`size` must be at least 2"):
        accounting.group_privacy(one, size=1)


def test_closed_forms():
    assert accounting.laplace(epsilon=1.0, relation="substitute").epsilon == 1.0
    assert accounting.laplace(epsilon=1.0, relation="substitute", delta=0.1).epsilon < 1.0
    claim = accounting.randomized_response(epsilon=2.0, classes=10, relation="label")
    assert (claim.epsilon, claim.delta) == (2.0, 0.0)
    assert accounting.gaussian(mu=1.0, delta=0.0, relation="add-remove").epsilon == math.inf


@pytest.mark.parametrize("relation", ["add-remove", "zero-out"])
def test_relations_that_cannot_be_stated_are_refused(relation):
    with pytest.raises(da.InputError, match="stated under label or substitute"):
        accounting.randomized_response(epsilon=1.0, relation=relation)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"noise_multiplier": 0.0}, "`noise_multiplier` must be positive"),
        ({"noise_multiplier": math.inf}, "`noise_multiplier` must be finite"),
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be positive"),
        ({"sampling_rate": 1.5}, "`sampling_rate` must be"),
        ({"sampling_rate": 0.0}, "`sampling_rate` must be"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"steps": 2.5}, "`steps` must be a whole number"),
        ({"delta": 1.5}, "`delta` must be in"),
        ({"relation": "swap"}, "`relation` must be one of"),
    ],
)
def test_misuse(changes, match):
    with pytest.raises(da.InputError, match=match):
        accounting.dp_sgd(**(SETTING | {"relation": "add-remove"} | changes))


def test_without_dp_accounting_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(da.InputError, match="needs the package dp-accounting") as refused:
        accounting.dp_sgd(**(SETTING | {"relation": "add-remove", "noise_multiplier": 1.2345}))
    assert "dpaudit[accounting]" in refused.value.hint
    assert accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove").epsilon > 0


def test_noisy_argmax_is_gaussian_with_two_bins_moved():
    claim = accounting.noisy_argmax(sigma=20.0, queries=50, delta=1e-6, relation="substitute")
    assert claim.mu == pytest.approx(0.5)
    plain = accounting.noisy_argmax_renyi(sigma=20.0, orders=[2, 8])
    np.testing.assert_allclose(plain, [2 / 400, 8 / 400])


@pytest.mark.parametrize("votes", [[230, 10, 5, 5], [150, 60, 40], [60, 50, 40], [250, 0]])
def test_data_dependent_bound_lies_between_the_exact_law_and_the_plain_one(votes):
    sigma, orders = 30.0, [1.5, 2, 4, 8, 16]
    found = accounting.noisy_argmax_renyi(sigma=sigma, orders=orders, votes=votes)
    assert np.all(found <= np.array(orders) / sigma**2 + 1e-15)
    moved = np.array(votes, dtype=float)
    moved[0], moved[1] = moved[0] - 1, moved[1] + 1
    here, there = (mechanisms.noisy_argmax_probabilities(v, sigma=sigma) for v in (votes, moved))
    for p, q in ((here, there), (there, here)):
        assert np.all(da.renyi_divergence(p / p.sum(), q / q.sum(), orders=orders) <= found + 1e-15)
    if votes[0] == 230:
        assert found[1] < 0.1 * 2 / sigma**2, "a clear winner leaks little"


def test_independent_answers_compose_exactly():
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.3, 0.2])
    one = accounting.independent_answers([(p, q)], delta=0.01, relation="substitute")
    for epsilon in (0.0, 0.1, 0.3):
        exact = max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())
        assert exact <= one.curve.delta(epsilon) <= exact + 2e-4
    two = accounting.independent_answers([(p, q)] * 2, delta=0.05, relation="substitute")
    again = accounting.independent_answers([(p, q)], delta=0.05, relation="substitute", repeats=2)
    pairs = [np.outer(distribution, distribution).ravel() for distribution in (p, q)]
    joint = accounting.independent_answers([pairs], delta=0.05, relation="substitute")
    assert two.epsilon == pytest.approx(joint.epsilon, abs=5e-4)
    assert again.epsilon == pytest.approx(two.epsilon, abs=5e-4)
    with pytest.raises(da.InputError, match="at least one pair"):
        accounting.independent_answers([], delta=0.1, relation="substitute")
    with pytest.raises(da.InputError, match="sum to 1"):
        accounting.independent_answers([([0.5, 0.6], [0.5, 0.5])], delta=0.1, relation="substitute")


def test_data_dependent_bound_in_extreme_cases():
    far = accounting.noisy_argmax_renyi(sigma=10.0, orders=[2, 200, 1000, math.inf], votes=[700, 100])
    here, there = special.log_ndtr(-600 / math.sqrt(200)), special.log_ndtr(-598 / math.sqrt(200))  # the rare class
    for order, bound in zip((200, 1000), far[1:3], strict=True):
        exact = (order * there + (1 - order) * here) / (order - 1)
        assert 0 < exact <= bound
    assert far[3] == math.inf
    for votes in ([math.nan, 1.0], [5.0], [], [math.inf, 1.0]):
        with pytest.raises(da.InputError, match="`votes` must be finite counts"):
            accounting.noisy_argmax_renyi(sigma=10.0, orders=2, votes=votes)


@pytest.mark.parametrize(
    "distributions", [[([math.nan, 1.0], [0.0, 1.0])], [(1, 2, 3)], [0.5], 3, [([0.5, 0.5], [0.2, 0.3, 0.5])]]
)
def test_output_laws_are_checked(distributions):
    with pytest.raises(da.InputError):
        accounting.independent_answers(distributions, delta=0.1, relation="substitute")


# ------------------------------------------------------------------------------------------- noise, readings, resale


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 50), (0.25, 20)])
def test_the_noise_for_an_epsilon_is_enough_and_hardly_more(relation, rate, steps):
    sizes = {"sampling_rate": rate, "steps": steps, "relation": relation}
    sigma = accounting.noise_multiplier_for(epsilon=3.0, delta=1e-5, **sizes)
    assert accounting.dp_sgd(noise_multiplier=sigma, delta=1e-5, **sizes).epsilon <= 3.0
    assert accounting.dp_sgd(noise_multiplier=0.999 * sigma, delta=1e-5, **sizes).epsilon > 3.0


def test_noise_that_cannot_be_asked_for():
    sizes = {"sampling_rate": 1.0, "steps": 1, "relation": "add-remove"}
    with pytest.raises(InputError, match=r"`delta` must be in \(0, 1\)"):
        accounting.noise_multiplier_for(epsilon=1.0, delta=0.0, **sizes)
    with pytest.raises(InputError, match="`epsilon` must be"):
        accounting.noise_multiplier_for(epsilon=0.0, delta=1e-5, **sizes)


def test_three_readings_of_the_same_training():
    """Substitution costs more than add/remove, group privacy still more, at every step (paper 001)."""
    for rate in (1.0, 0.25):
        found = accounting.adjacencies(noise_multiplier=5.0, sampling_rate=rate, steps=[10, 40], delta=1e-5)
        assert [one.steps for one in found] == [10, 40]
        for one in found:
            assert one.add_remove < one.substitute < one.by_group
        assert found[0].substitute < found[1].substitute


def test_a_number_sold_for_another_adjacency():
    plain = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    sold = accounting.claimed_as(plain, "substitute")
    assert (sold.epsilon, sold.curve, str(sold.relation)) == (plain.epsilon, plain.curve, "substitute")
    assert "claimed as substitute" in sold.method
    assert sold.terms is None  # nobody could account for it again
    assert accounting.claimed_as(plain, "add-remove") is plain
