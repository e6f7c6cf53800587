"""Judging a claim tests the claim's own curve."""

from dataclasses import replace

import numpy as np
import pytest

import dpaudit as da
from dpaudit import NotComparable, Outcome, OutputCounts, UpperBound, _binomial, accounting, judge
from dpaudit.assumptions import p_value as two_digits
from dpaudit.estimators import members
from dpaudit.estimators.analyses import plan_test
from dpaudit.estimators.runs import fisher_p_value
from dpaudit.estimators.thresholds import Cut, GuessPath, guesses_from_canaries
from dpaudit.testing import ground_truth
from dpaudit.tradeoff import Gaussian, Mixed
from tests.conftest import gaussian_runs, noisy_canaries

CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")


# theory:multi-run#claim
def test_power_and_level_of_sixty_runs_a_side():
    """Claim mu = 1: truth 2 is contradicted in at least 90 of 100 audits, truth 1 in no more than the level allows."""
    rng = np.random.default_rng(12)
    power = np.mean([judge(gaussian_runs(rng, mu=2.0, runs=60), CLAIM).contradicted for _ in range(300)])
    false = sum(judge(gaussian_runs(rng, mu=1.0, runs=60), CLAIM).contradicted for _ in range(400))
    assert power >= 0.9
    assert false <= 38
    weak = [da.estimators.epsilon_from_runs(gaussian_runs(rng, mu=2.0, runs=60), delta=1e-5).epsilon for _ in range(50)]
    assert max(weak) < CLAIM.epsilon, "two epsilons side by side would never have shown it"


@pytest.mark.parametrize(
    ("truth", "claim"),
    [
        (ground_truth.NoisyCanaries(1.0, 1000), accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")),
        (ground_truth.ResponseCanaries(1.0, 1000), UpperBound(epsilon=1.0, delta=0.0, relation="label")),
        (ground_truth.ResponseCanaries(1.0, 1000), accounting.randomized_response(epsilon=1.0, relation="label")),
        (
            ground_truth.KaryResponseCanaries(1.0, 5, 1000),
            accounting.randomized_response(epsilon=1.0, classes=5, relation="label"),
        ),
        (ground_truth.ResponseCanaries(1.0, 1000, delta=1e-4), UpperBound(epsilon=1.0, delta=1e-4, relation="label")),
        (ground_truth.ResponseCanaries(1.0, 1000, shift=1e-4), UpperBound(epsilon=1.0, delta=0.0, relation="label")),
        (ground_truth.single_mode(0.05), accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
# theory:one-run#claim
def test_true_claims_are_seldom_contradicted_in_one_run(truth, claim):
    rng = np.random.default_rng(13)
    p_values = [judge(truth.sample(rng), claim).p_value for _ in range(400)]
    assert sum(p <= 0.05 for p in p_values) <= 38


def test_false_claims_are_contradicted_in_one_run(rng):
    assert judge(noisy_canaries(rng, mu=4.0), CLAIM).contradicted
    leaky = ground_truth.ResponseCanaries(2.0, 2000).sample(rng)
    assert judge(leaky, UpperBound(epsilon=1.0, delta=1e-6, relation="label")).contradicted
    assert judge(leaky, accounting.randomized_response(epsilon=1.0, classes=2, relation="label")).contradicted


@pytest.mark.parametrize("mu", [0.02, 0.1, 1.0, 1.5])
def test_strong_claims_that_are_blatantly_false_are_not_called_uninformative(rng, mu):
    claim = accounting.gaussian(mu=mu, delta=1e-5, relation="add-remove")
    assert judge(noisy_canaries(rng, mu=6.0), claim).contradicted


def test_a_claim_for_one_record_is_not_judged_by_evidence_on_users(rng):
    """Randomised response at epsilon 1 on three rows a user: per user it leaks more, and that refutes nothing."""
    evidence = ground_truth.ResponseRows().sample(rng)
    with pytest.raises(NotComparable, match="about one user"):
        judge(evidence, accounting.randomized_response(epsilon=1.0, relation="label"))


def test_dp_sgd_curve_of_the_accountant(rng):
    steps, rate, sigma = 100, 0.1, 2.0

    def release(runs, present):
        drawn = rng.binomial(steps, rate, runs) if present else 0.0
        return drawn + rng.normal(0, sigma * np.sqrt(steps), runs)

    runs = da.RunScores(present=release(1000, True), absent=release(1000, False), relation="add-remove")
    setting = {"sampling_rate": rate, "steps": steps, "delta": 1e-5, "relation": "add-remove"}
    assert judge(runs, accounting.dp_sgd(noise_multiplier=2.0, **setting)).outcome is Outcome.CONSISTENT
    assert judge(runs, accounting.dp_sgd(noise_multiplier=6.0, **setting)).contradicted


def test_conditional_evidence_contradicts_only_under_its_assumptions(rng):
    evidence = noisy_canaries(rng, mu=4.0, assumptions=("the coins were fair",))
    verdict = judge(evidence, CLAIM)
    assert verdict.outcome is Outcome.CONTRADICTED_IF
    assert [str(one) for one in verdict.assumptions] == ["the coins were fair"]
    assert "if the coins were fair" in str(verdict)
    assert judge(evidence, CLAIM, accept=["said-the-coins-were-fair"]).contradicted
    split = da.CanaryScores(
        scores=evidence.scores, included=evidence.included, relation="substitute", assignment="split"
    ).thinned()
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute")
    assert judge(split, claim).outcome is Outcome.CONTRADICTED_IF
    assert judge(split, claim, accept=split.conditions).contradicted


def test_too_small_audits_are_uninformative(rng):
    assert (
        judge(
            gaussian_runs(rng, mu=9.0, runs=3), accounting.gaussian(mu=4.0, delta=1e-5, relation="add-remove")
        ).outcome
        is Outcome.UNINFORMATIVE
    )
    assert judge(noisy_canaries(rng, mu=9.0, canaries=4), CLAIM).outcome is Outcome.UNINFORMATIVE
    wide = UpperBound(epsilon=1.0, delta=0.1, relation="add-remove")
    assert judge(noisy_canaries(rng, mu=9.0, canaries=1000), wide).outcome is Outcome.UNINFORMATIVE


def test_a_delta_that_a_path_cannot_pay_for_is_judged_at_a_fixed_number_of_guesses(rng):
    """m delta / (1 + e^epsilon) is 2.7 here, beyond any error probability; the knapsack term is not."""
    claim = UpperBound(epsilon=1.0, delta=0.01, relation="add-remove")
    assert judge(noisy_canaries(rng, mu=9.0, canaries=1000), claim).outcome is Outcome.CONTRADICTED
    truth, claim = ground_truth.ResponseCanaries(1.0, 1000, delta=0.01), replace(claim, relation=da.Relation.LABEL)
    honest = [judge(truth.sample(rng), claim).contradicted for _ in range(100)]
    assert sum(honest) <= 15


def test_unlike_things_are_not_judged(rng):
    with pytest.raises(NotComparable, match="under substitute adjacency, the evidence under add-remove"):
        judge(gaussian_runs(rng), accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute"))
    with pytest.raises(NotComparable, match="protects one user"):
        judge(gaussian_runs(rng), accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove", unit="user"))
    pairs = ground_truth.GeneratedPairs().sample(rng)
    with pytest.raises(da.InputError, match="no test of a claim for PairedScores"):
        judge(pairs, accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute"))
    with pytest.raises(da.InputError, match="`claim` must be an UpperBound"):
        judge(gaussian_runs(rng), 1.0)


@pytest.mark.parametrize(
    ("truth", "claim"),
    [
        (ground_truth.ShiftedMembers(1.0, 300, bayes=True), UpperBound(epsilon=1.0, delta=0.0, relation="substitute")),
        (
            ground_truth.ShiftedMembers(1.0, 300, 1.0, "Gaussian", True),
            accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute"),
        ),
        (ground_truth.NoisyVotes(), UpperBound(epsilon=0.748, delta=0.0, relation="substitute")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_true_claims_about_given_members_and_answers_are_seldom_contradicted(truth, claim):
    rng = np.random.default_rng(14)
    accept = members.conditions_of(truth.sample(rng), 0.0) if isinstance(truth, ground_truth.ShiftedMembers) else ()
    verdicts = [judge(truth.sample(rng), claim, accept=accept) for _ in range(200)]
    assert sum(verdict.contradicted for verdict in verdicts) <= 23  # BinomialInv(1 - 1e-4; 200, .05)


def test_false_claims_about_given_members_and_answers(rng):
    leaky = ground_truth.ShiftedMembers(2.0, 2000).sample(rng)
    claim = UpperBound(epsilon=0.5, delta=0.0, relation="substitute")
    assert judge(leaky, claim).outcome is Outcome.CONTRADICTED_IF
    assert judge(leaky, claim, accept=members.conditions_of(leaky, 0.0)).contradicted
    weak = accounting.gaussian(mu=0.2, delta=1e-5, relation="substitute")
    assert judge(leaky, weak).outcome is Outcome.CONTRADICTED_IF
    votes = ground_truth.NoisyVotes().sample(rng)
    assert judge(votes, UpperBound(epsilon=0.3, delta=0.0, relation="substitute")).contradicted
    few = ground_truth.NoisyVotes(trials=3).sample(rng)
    assert judge(few, UpperBound(epsilon=3.0, delta=0.0, relation="substitute")).outcome is Outcome.UNINFORMATIVE


def test_printed_p_value_rounds_up(rng):

    for p in (0.0123, 0.05, 0.049999, 3.21e-9, 1.0):
        assert p <= float(two_digits(p)) <= 1.11 * p
    assert two_digits(0.0) == "0"


def test_shift_is_paid_for_by_a_claim(rng):
    """The curve is tested composed with (0, tau), the pair with delta' = 1 - (1 - delta)(1 - tau), as by hand."""
    tau = 1e-3
    evidence = noisy_canaries(rng, mu=2.0, canaries=400, relation="label", shift=tau)
    ranked = guesses_from_canaries(evidence)
    curve = accounting.gaussian(mu=1.0, delta=1e-5, relation="label")
    number = plan_test(canaries=400, claim=curve, shift=tau)
    mixed = Mixed(Gaussian(1.0), tau)
    counts = {"canaries": 400, "guesses": number, "correct": ranked.correct(number)}
    assert judge(evidence, curve).p_value == pytest.approx(_binomial.recursion_p_value(mixed.g, **counts), rel=1e-6)

    evidence = noisy_canaries(rng, mu=2.0, canaries=400, relation="label", shift=1e-4)
    pair = UpperBound(epsilon=1.5, delta=1e-5, relation="label")
    ranks = GuessPath().ranks(400)
    correct = [guesses_from_canaries(evidence).correct(rank) for rank in ranks]
    plain = _binomial.path_p_value(ranks, correct, epsilon=1.5, slack=lambda epsilon: 0.0)
    both = 1.0 - (1.0 - 1e-5) * (1.0 - 1e-4)
    assert judge(evidence, pair).p_value == pytest.approx(min(1.0, plain + 400 * both / (1 + np.exp(1.5))), rel=1e-6)


def test_judged_answers_by_hand():
    """Three answers and their complements: six events, the smallest p-value six times; a perfect attack makes none."""
    claim = UpperBound(epsilon=0.5, delta=0.0, relation="add-remove")
    answers = OutputCounts(present=[60, 30, 10], absent=[25, 30, 45], relation="add-remove")
    events = [Cut(a, 100, 100 - p, 100) for p, a in ((60, 25), (40, 75), (30, 30), (70, 70), (10, 45), (90, 55))]
    smallest = min(fisher_p_value(claim.hypothesis, event) for event in events)
    assert smallest < 1e-3
    assert judge(answers, claim).p_value == pytest.approx(6 * smallest)
    even = OutputCounts(present=[50, 50], absent=[50, 50], relation="add-remove")
    assert judge(even, claim).outcome is Outcome.CONSISTENT, "an attack without errors would have refuted it"
