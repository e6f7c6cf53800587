"""Given members: power, corrections, the gate, and one-sided propensities."""

import dataclasses

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import MemberScores, estimators
from dpaudit.estimators import members, thresholds
from dpaudit.estimators.thresholds import EProcess, Fixed, FractionGrid, GuessPath, HeldOut
from dpaudit.mechanisms import known
from tests.conftest import gaussian_runs, noisy_canaries


def test_power_of_the_signed_test():
    """Issue 3: truth 1.5, m = 600, logit pi ~ N(0, 1), all guessed: median of at least 1.24 (THEORY 2.8: 1.31)."""
    rng = np.random.default_rng(1)
    truth = known.ShiftedMembers(1.5)
    found = [
        estimators.epsilon_from_members(truth.sample(rng), delta=0.0, guesses=Fixed(fraction=1.0)).epsilon
        for _ in range(100)
    ]
    assert np.median(found) >= 1.24
    strong = [
        estimators.epsilon_from_members(
            truth.sample(rng), delta=0.0, correction="tampered", guesses=Fixed(fraction=1.0)
        )
        for _ in range(20)
    ]
    assert np.median([b.epsilon for b in strong]) < 0.8, "tampering loses what the sign of the log-odds keeps"


def test_without_shift_it_is_the_one_run_test(rng):
    coins = noisy_canaries(rng, mu=2.0)
    given = MemberScores(
        scores=coins.scores, member=coins.included, propensity=np.full(1000, 0.5), relation="add-remove"
    )
    assert estimators.epsilon_from_members(given, delta=0.0).epsilon == pytest.approx(
        estimators.epsilon_from_canaries(coins, delta=0.0).epsilon, abs=0.011
    )
    fixed = Fixed(guesses=100)
    tampered = estimators.mu_from_members(given, correction="tampered", guesses=fixed)
    assert tampered.mu == pytest.approx(estimators.mu_from_canaries(coins, guesses=fixed).mu)


def test_every_number_is_conditional_and_says_on_what(rng):
    evidence = known.ShiftedMembers(1.5).sample(rng)
    bound = estimators.epsilon_from_members(evidence, delta=0.0, log_odds_error=0.2)
    assert bound.guarantee == "conditional"
    assert "no two rows belong to the same unit" in bound.assumptions
    assert "no propensity is over-confident by more than 0.2 in log-odds" in bound.assumptions
    assert bound.p_value(bound.epsilon) <= 0.05
    assert bound.epsilon <= bound.ceiling
    wide = estimators.epsilon_from_members(evidence, delta=0.0)
    assert bound.epsilon <= wide.epsilon


def test_groups_settle_which_rows_belong_together(rng):
    evidence = dataclasses.replace(known.ShiftedMembers(1.5).sample(rng), group=np.arange(600))
    bound = estimators.epsilon_from_members(evidence, delta=0.0)
    assert not any("no two rows" in text for text in bound.assumptions)


def test_add_remove_needs_more_than_propensities(rng):
    evidence = dataclasses.replace(known.ShiftedMembers(1.5).sample(rng), relation="add-remove")
    bound = estimators.epsilon_from_members(evidence, delta=0.0)
    assert members.EXACTLY_SHOWN in bound.assumptions


def test_bounds_on_propensities_only_cost(rng):
    evidence = known.ShiftedMembers(1.5).sample(rng)
    odds = special.logit(evidence.propensity)
    both = np.stack([special.expit(odds - 0.3), special.expit(odds + 0.3)], axis=1)
    bounded = MemberScores(scores=evidence.scores, member=evidence.member, propensity=both, relation="substitute")
    point = estimators.epsilon_from_members(evidence, delta=0.0).epsilon
    assert estimators.epsilon_from_members(bounded, delta=0.0).epsilon <= point
    assert estimators.epsilon_from_members(evidence, delta=0.0, log_odds_error=0.3).epsilon == pytest.approx(
        estimators.epsilon_from_members(bounded, delta=0.0).epsilon, abs=0.011
    )


def test_one_sided_propensities_never_make_a_guess_impossible():
    evidence = MemberScores(
        scores=[3.0, 2.0, 1.0, 0.0], member=[1, 0, 1, 0], propensity=[1.0, 0.0, 0.5, 1.0], relation="substitute"
    )
    odds = special.logit(evidence.propensity)
    found = thresholds.guesses_from_members(evidence, odds, odds)
    assert found.offset[0] == np.inf  # guessed a member where only members are: no evidence
    assert found.offset[1] == 0.0  # guessed a non-member there: counts as any other guess
    assert np.all(special.expit(found.offset) > 0)


def test_the_gate_blocks_a_refuted_propensity(rng):
    truth = known.ShiftedMembers(0.0, 2000, 2.0, bayes=True)
    honest = truth.sample(rng)
    flat = MemberScores(
        scores=honest.scores, member=honest.member, propensity=np.full(2000, 0.5), relation="substitute"
    )
    verdict = estimators.refute_propensity(flat)
    assert verdict.contradicted
    assert verdict.p_value < 1e-10
    with pytest.raises(da.InputError, match="the correction is refuted by the blind attack"):
        estimators.epsilon_from_members(flat, delta=0.0, blind=flat)
    with pytest.raises(da.InputError, match="must agree with the propensities"):
        estimators.epsilon_from_members(honest, delta=0.0, correction="composition", overlap=(0.48, 0.0))
    with pytest.raises(da.InputError, match="the correction is refuted"):
        estimators.epsilon_from_members(
            flat, delta=0.0, correction="composition", overlap=(0.48, 0.0), blind=flat, guesses=GuessPath()
        )
    with pytest.raises(da.InputError, match="same rows"):
        estimators.epsilon_from_members(honest, delta=0.0, blind=flat)


def test_composition(rng):
    evidence = known.ShiftedMembers(3.0, 4000, 0.05).sample(rng)
    overlap = (0.45, 0.0)
    conditional = estimators.epsilon_from_members(evidence, delta=0.0).epsilon
    for guesses in (GuessPath(), FractionGrid(), Fixed(fraction=1.0)):
        composed = estimators.epsilon_from_members(
            evidence, delta=0.0, correction="composition", overlap=overlap, guesses=guesses
        )
        assert 0 < composed.epsilon < conditional
        assert "has its propensity in [0.45, 0.55]" in " ".join(composed.assumptions)
    mu = [estimators.mu_from_members(evidence, correction="composition", overlap=(eta, 0.0)).mu for eta in (0.45, 0.42)]
    assert mu[0] > mu[1] > 0, "more overlap, more to see"
    slack = estimators.mu_from_members(evidence, correction="composition", overlap=(0.45, 0.001))
    assert slack.mu < mu[0]


def test_mu_through_one_epsilon_fixed_in_advance():
    curve = da.tradeoff.Gaussian(1.0)
    epsilon = members.least_epsilon(curve, 600, 0.05)
    excess = 600 * curve.delta(epsilon) / (1 + np.exp(epsilon))
    assert excess == pytest.approx(0.05 / 4, rel=1e-6)
    assert excess <= 0.05 / 4


def test_reordering_and_ties(rng):
    evidence = known.ShiftedMembers(1.5).sample(rng)
    order = rng.permutation(600)
    for digits in (9, 0):  # rounded, half of the rows tie, with both signs
        first, second = (
            MemberScores(
                scores=np.round(evidence.scores, digits)[rows],
                member=evidence.member[rows],
                propensity=np.full(600, 0.5),
                relation="substitute",
                sides="sign",
            )
            for rows in (np.arange(600), order)
        )
        for correction in ("conditional", "tampered"):
            bounds = [estimators.epsilon_from_members(e, delta=0.0, correction=correction) for e in (first, second)]
            assert bounds[0] == bounds[1]


def made(**changes):
    values = {"scores": [3, 2, 1, 0], "member": [1, 0, 1, 0], "propensity": [0.5] * 4, "relation": "substitute"}
    return MemberScores(**(values | changes))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: estimators.epsilon_from_members(made(propensity=[1, 0, 1, 0]), delta=0.0), "disjoint supports"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, correction="x"), "`correction` must be one of"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, overlap=(0.1, 0.0)), "`overlap` goes with"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, correction="composition"), "`overlap` goes with"),
        (
            lambda: estimators.mu_from_members(made(), correction="composition", overlap=(0.7, 0.0)),
            "`eta` must be in",
        ),
        (
            lambda: estimators.mu_from_members(made(), correction="composition", overlap=0.3),
            "must be \\(eta, delta_ds\\)",
        ),
        (lambda: estimators.mu_from_members(made(), correction="tampered", guesses=GuessPath()), "fixed in advance"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, guesses=EProcess()), "no valid test with EProcess"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, guesses=HeldOut()), "no valid test with HeldOut"),
        (lambda: estimators.epsilon_from_members(made(), delta=-1.0), "`delta` must be in"),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, log_odds_error=-1.0), "`log_odds_error` must be"),
        (
            lambda: estimators.mu_from_members(
                made(), correction="composition", overlap=(0.4, 0.0), log_odds_error=0.1
            ),
            "which the composition does not use",
        ),
        (lambda: estimators.epsilon_from_members(made(), delta=0.0, confidence=2.0), "`confidence` must be in"),
        (
            lambda: estimators.epsilon_from_members(made(propensity=None, assignment="split"), delta=0.0),
            "nobody randomised, got a random hold-out",
        ),
    ],
)
def test_misuse(call, match):
    with pytest.raises(da.InputError, match=match) as refused:
        call()
    assert "\n" not in refused.value.sentence


def test_wrong_evidence_names_the_right_estimator(rng):
    for evidence, hint in ((noisy_canaries(rng), "from_canaries"), (gaussian_runs(rng), "from_runs")):
        with pytest.raises(da.InputError, match="needs known members") as refused:
            estimators.mu_from_members(evidence)
        assert hint in refused.value.hint
