"""Given members: power, corrections, the blind baseline, and one-sided propensities."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import CanaryScores, MemberScores, estimators
from dpaudit.estimators import members, thresholds
from dpaudit.estimators.thresholds import EProcess, Fixed, FractionGrid, GuessPath, HeldOut
from dpaudit.testing import ground_truth
from tests.conftest import gaussian_runs, noisy_canaries


# theory:zero-run#signed
def test_power_of_the_signed_test():
    """Issue 3: truth 1.5, m = 600, logit pi ~ N(0, 1), all guessed: median of at least 1.24 (theory:zero-run#signed:
    1.31)."""
    rng = np.random.default_rng(1)
    truth = ground_truth.ShiftedMembers(1.5)
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


# theory:zero-run#tampered
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
    evidence = ground_truth.ShiftedMembers(1.5).sample(rng)
    bound = estimators.epsilon_from_members(evidence, delta=0.0, log_odds_error=0.2)
    assert bound.guarantee == "conditional"
    assert {"one-row-per-unit", "propensity-error(error=0.2)"} <= {one.key for one in bound.assumptions}
    assert "if no propensity is over-confident by more than 0.2 in log-odds" in str(bound)
    assert bound.p_value(bound.epsilon) <= 0.05
    assert bound.epsilon <= bound.ceiling
    wide = estimators.epsilon_from_members(evidence, delta=0.0)
    assert bound.epsilon <= wide.epsilon


def test_groups_settle_which_rows_belong_together(rng):
    evidence = dataclasses.replace(ground_truth.ShiftedMembers(1.5).sample(rng), group=np.arange(600))
    bound = estimators.epsilon_from_members(evidence, delta=0.0)
    assert "one-row-per-unit" not in {one.id for one in bound.assumptions}


def test_add_remove_needs_more_than_propensities(rng):
    evidence = dataclasses.replace(ground_truth.ShiftedMembers(1.5).sample(rng), relation="add-remove")
    bound = estimators.epsilon_from_members(evidence, delta=0.0)
    assert members.EXACTLY_SHOWN in bound.assumptions


# theory:zero-run#log-odds-error
def test_bounds_on_propensities_only_cost(rng):
    evidence = ground_truth.ShiftedMembers(1.5).sample(rng)
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


# theory:zero-run#blind-baseline
def test_a_refuted_propensity_withholds_the_number(rng):
    truth = ground_truth.ShiftedMembers(0.0, 2000, 2.0, bayes=True)
    honest = truth.sample(rng)
    flat = MemberScores(
        scores=honest.scores, member=honest.member, propensity=np.full(2000, 0.5), relation="substitute"
    )
    assert estimators.propensity_p_value(flat) < 1e-10
    assert estimators.null_p_value(flat) == estimators.propensity_p_value(flat)
    with pytest.raises(da.InputError, match="the correction is refuted by the blind baseline"):
        estimators.epsilon_from_members(flat, delta=0.0, blind=flat)
    with pytest.raises(da.InputError, match="must agree with the propensities"):
        estimators.epsilon_from_members(honest, delta=0.0, correction="composition", overlap=(0.48, 0.0))
    with pytest.raises(da.InputError, match="the correction is refuted"):
        estimators.epsilon_from_members(
            flat, delta=0.0, correction="composition", overlap=(0.48, 0.0), blind=flat, guesses=GuessPath()
        )
    with pytest.raises(da.InputError, match="same rows"):
        estimators.epsilon_from_members(honest, delta=0.0, blind=flat)


# theory:zero-run#composition
def test_composition(rng):
    evidence = ground_truth.ShiftedMembers(3.0, 4000, 0.05).sample(rng)
    overlap = (0.45, 0.0)
    conditional = estimators.epsilon_from_members(evidence, delta=0.0).epsilon
    for guesses in (GuessPath(), FractionGrid(), Fixed(fraction=1.0)):
        composed = estimators.epsilon_from_members(
            evidence, delta=0.0, correction="composition", overlap=overlap, guesses=guesses
        )
        assert 0 < composed.epsilon < conditional
        assert "has its propensity in [0.45, 0.55]" in " ".join(map(str, composed.assumptions))
    mu = [estimators.mu_from_members(evidence, correction="composition", overlap=(eta, 0.0)).mu for eta in (0.45, 0.42)]
    assert mu[0] > mu[1] > 0, "more overlap, more to see"
    slack = estimators.mu_from_members(evidence, correction="composition", overlap=(0.45, 0.001))
    assert slack.mu < mu[0]


# theory:zero-run#signed-mu
def test_mu_through_one_epsilon_fixed_in_advance():
    curve = da.tradeoff.Gaussian(1.0)
    epsilon = members.least_epsilon(curve, 600, 0.05)
    excess = 600 * curve.delta(epsilon) / (1 + np.exp(epsilon))
    assert excess == pytest.approx(0.05 / 4, rel=1e-6)
    assert excess <= 0.05 / 4


def test_reordering_and_ties(rng):
    evidence = ground_truth.ShiftedMembers(1.5).sample(rng)
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


# ------------------------------------------------------------------------------------------------ exact, by naive twins


def leaky_members(rng, propensity, rows=400, gap=3.0):
    """Scores without ties, of members and non-members, all with these propensities."""
    member = rng.random(rows) < 0.5
    return MemberScores(
        scores=rng.normal(size=rows) + gap * member,
        member=member,
        propensity=np.resize(propensity, rows),
        relation="substitute",
    )


def test_signed_path_against_enumeration():
    """All 2^6 outcomes of six guesses that the features alone make right with unlike probabilities."""
    evidence = MemberScores(
        scores=[6, 5, 4, 3, 2, 1],
        member=[1, 1, 0, 1, 0, 0],
        propensity=[0.6, 0.3, 0.8, 0.5, 0.7, 0.2],
        relation="substitute",
    )
    found, ranks, epsilon = members.signed_guesses(evidence, 0.0), [2, 6], 0.7
    assert found.correct.tolist() == [True, True, True, True, False, False]
    says_member = np.array([0.6, 0.2, 0.3, 0.7, 0.8, 0.5])  # rows 0, 5, 1, 4, 2, 3; every other guess is "no member"
    odds = special.logit(says_member) * [1, -1, 1, -1, 1, -1]
    rates = special.expit(epsilon + odds)
    paths = list(itertools.product((0, 1), repeat=6))
    chances = [float(np.prod(np.where(path, rates, 1 - rates))) for path in paths]

    def smallest(path):
        tails = []
        for rank in ranks:
            right = sum(path[:rank])
            tails.append(sum(c for c, other in zip(chances, paths, strict=True) if sum(other[:rank]) >= right))
        return min(tails)

    seen = smallest([1, 1, 1, 1, 0, 0])
    exact = sum(c for c, path in zip(chances, paths, strict=True) if smallest(path) <= seen * (1 + 1e-9))
    path = members.SignedPath(found, ranks)
    assert path.p_value(epsilon, 0.0) == pytest.approx(exact, rel=1e-6)
    assert path.p_value(epsilon, 0.125) == pytest.approx(exact + 0.125, rel=1e-6)
    assert seen < 0.95 * exact < 0.8


def test_an_error_of_the_log_odds_and_a_leak_look_alike(rng):
    """At delta 0: p-value of epsilon, log-odds wrong by 0.3, is that of epsilon + 0.3 with log-odds that are right."""
    evidence = leaky_members(rng, [0.3, 0.6])
    exact = estimators.epsilon_from_members(evidence, delta=0.0)
    wide = estimators.epsilon_from_members(evidence, delta=0.0, log_odds_error=0.3)
    for epsilon in (0.5, 1.0, 1.5):
        assert wide.p_value(epsilon) == pytest.approx(exact.p_value(epsilon + 0.3), rel=1e-6)
    assert wide.epsilon == pytest.approx(exact.epsilon - 0.3, abs=0.011)


def test_tampered_guesses_by_hand(rng):
    evidence, grid = leaky_members(rng, [0.25, 0.75], gap=6.0), FractionGrid((0.5, 0.2))
    found = members.signed_guesses(evidence, 0.0)
    assert found.keep == pytest.approx(np.full(400, 2 / 3))
    kept = found.uniforms < 2 / 3
    assert 0.5 < kept.mean() < 0.8
    mu = [
        estimators.one_run_mu(
            canaries=400, guesses=r, correct=int((found.correct & kept)[:r].sum()), confidence=1.0 - 0.05 / 2
        )
        for r in (200, 80)
    ]
    bound = estimators.mu_from_members(evidence, correction="tampered", guesses=grid)
    assert bound.mu == pytest.approx(max(mu))


def test_composition_takes_the_worst_log_odds_off(rng):
    evidence, composed = leaky_members(rng, [0.5]), {"correction": "composition", "overlap": (0.4, 0.0), "delta": 0.0}
    coins = CanaryScores(scores=evidence.scores, included=evidence.member, relation="substitute")
    for guesses in (GuessPath(), Fixed(guesses=100), FractionGrid()):
        alone = estimators.epsilon_from_canaries(coins, delta=0.0, guesses=guesses)
        found = estimators.epsilon_from_members(evidence, guesses=guesses, **composed)
        assert found.epsilon == pytest.approx(alone.epsilon - np.log(0.6 / 0.4))
        assert found.epsilon > 0.0


def test_composition_of_mu_by_squares(rng):
    evidence, fixed = leaky_members(rng, [0.5]), Fixed(guesses=100)
    coins = CanaryScores(scores=evidence.scores, included=evidence.member, relation="substitute")
    alone = estimators.mu_from_canaries(coins, guesses=fixed).mu
    found = estimators.mu_from_members(evidence, correction="composition", overlap=(0.4, 0.0), guesses=fixed).mu
    assert np.hypot(found, 2.0 * special.ndtri(0.6)) == pytest.approx(alone, rel=1e-5)


def test_given_members_pay_for_delta(rng):
    """m delta / (1 + e^epsilon), at the epsilon that is tested: that of the bound, or one for each mu by its size."""
    evidence = leaky_members(rng, [0.4, 0.6])
    path = members.SignedPath(members.signed_guesses(evidence, 0.0), GuessPath().ranks(400))
    bound = estimators.epsilon_from_members(evidence, delta=1e-5)
    for epsilon in (0.5, 1.0, 2.0):
        expected = path.p_value(epsilon, 0.0) + 400 * 1e-5 / (1 + np.exp(epsilon))
        assert bound.p_value(epsilon) == pytest.approx(min(1.0, expected), rel=1e-9)
    found = estimators.mu_from_members(evidence)
    for mu in (0.3, 1.0):
        epsilon = members.least_epsilon(da.tradeoff.Gaussian(mu), 400, 0.05)
        expected = path.p_value(epsilon, 0.0) + 0.05 / 4
        assert found.p_value(mu) == pytest.approx(min(1.0, expected), rel=1e-6)
    assert 0.0 < found.mu < bound.epsilon
