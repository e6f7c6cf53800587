"""Controls do what is said of them: a placebo alarms within its level where nothing is wrong, and does where it is.

Exact tests have exact levels, so the number of alarms is below the 1 - 1e-4 quantile of a binomial; seeds are fixed.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from scipy import special, stats

import dpaudit as da
from dpaudit import CanaryScores, MemberScores, accounting, execution, games, judge
from dpaudit.assumptions import Check
from dpaudit.auditing.audit import bounds_of
from dpaudit.estimators import refute
from tests.golden import worlds

LEVEL, FOUND = 0.05, 0.9
CHECK = Check(id="placebo", refuted="Refuted.", passed="Passed.", refutes="nothing-leaks", level=LEVEL)
TRIALS, PLAYS = 400, 100


def most(trials):
    """More alarms than that a test of this level has with probability 1e-4."""
    return int(stats.binom.ppf(1.0 - 1e-4, trials, LEVEL))


def canaries(rng, *, leak, rows=200):
    included = rng.random(rows) < 0.5
    scores = rng.normal(size=rows) + leak * np.where(included, 1.0, -1.0)
    return CanaryScores(scores=scores, included=included, relation="label", sides="sign")


def members(rng, *, leak, rows=300):
    """Memberships follow propensities that are right; `leak` makes them follow others."""
    odds = rng.normal(size=rows)
    hidden = rng.normal(size=rows)
    member = rng.random(rows) < special.expit(odds + leak * hidden)
    scores = hidden + 0.1 * rng.normal(size=rows)
    return MemberScores(
        scores=scores, member=member, propensity=special.expit(odds), relation="substitute", sides="sign"
    )


@cache
def refutations(sample, leak, kind="placebo", parts=1):
    """How many of the controls are refuted."""
    rng = np.random.default_rng([7, int(10 * leak), parts])
    found = [refute(CHECK, [sample(rng, leak=leak) for _ in range(parts)], kind=kind) for _ in range(TRIALS)]
    return sum(result.refuted for result in found)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("sample", [canaries, members])
def test_a_placebo_alarms_within_its_level(sample, parts):
    alarms = refutations(sample, 0.0, parts=parts)
    assert alarms <= most(TRIALS)
    assert alarms > 0, "a test that never alarms tests nothing"


@pytest.mark.parametrize(("sample", "leak"), [(canaries, 0.5), (members, 2.0)])
def test_a_falsified_placebo_is_heard(sample, leak):
    assert refutations(sample, leak) >= FOUND * TRIALS
    assert refutations(sample, leak, parts=2) >= FOUND * TRIALS


@pytest.mark.parametrize(("sample", "leak"), [(canaries, 0.5), (members, 2.0)])
def test_a_planted_leak_is_found(sample, leak):
    """A planted control is refuted where the test does not show the leak, and only then."""
    assert refutations(sample, leak, kind="planted") <= (1.0 - FOUND) * TRIALS
    assert refutations(sample, 0.0, kind="planted") >= TRIALS - most(TRIALS)


# ------------------------------------------------------------------------------------------------ the placebos of games


def leaking_labels(seed):
    """The proxy is right, and the model tells the labels: only its own scores show anything."""
    return worlds.labels(epsilon=4.0, rows=300, seed=seed)


def leaking_members(seed):
    """Known propensities that are right, and a score that tells membership."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=300)
    member = rng.random(300) < special.expit(x)
    scores = 4.0 * np.where(member, 1.0, -1.0) + rng.normal(size=300)
    return games.ZeroRun(scores=scores, member=member, features=x[:, None], propensity=special.expit(x))


@pytest.mark.parametrize("make", [leaking_labels, leaking_members])
def test_a_placebo_never_sees_the_model(make):
    """However much the model leaks, the blind baseline alarms no more often than its level says."""
    alarms = 0
    for seed in range(PLAYS):
        (control,) = make(seed).play(seed=seed).controls
        alarms += refute(control.check, control.parts, kind=control.kind, **control.numbers).refuted
    assert alarms <= most(PLAYS)


def wrong_labels(seed):
    return worlds.noisy_proxy(rows=1500, seed=seed)


def wrong_members(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=600)
    member = rng.random(600) < special.expit(2.0 * x)
    return games.ZeroRun(scores=rng.normal(size=600), member=member, features=x[:, None], propensity=np.full(600, 0.5))


@pytest.mark.parametrize("make", [wrong_labels, wrong_members])
def test_a_wrong_premise_is_heard_by_the_placebo(make):
    found = 0
    for seed in range(10):
        (control,) = make(seed).play(seed=seed).controls
        found += refute(control.check, control.parts, kind=control.kind, **control.numbers).refuted
    assert found >= FOUND * 10


# ------------------------------------------------------------------------------------------------------------- attempts

EPSILON, CONFIDENCE, AUDITS = 1.0, 0.9, 150


@dataclass(frozen=True, kw_only=True)
class Stubborn:
    """Randomised response; whatever happens, the control of its first attempt refutes."""

    rows: int = 400
    relation: da.Relation = da.Relation.LABEL
    unit: str = "record"
    kind: ClassVar[str] = "stubborn"
    purpose: ClassVar[str] = "stubborn coins"
    evidence_type: ClassVar[type] = CanaryScores
    assumptions: ClassVar[tuple] = ()
    checks: ClassVar[tuple] = (CHECK,)
    attempts: ClassVar[int] = 2

    def coins(self, seed):
        return execution.fair_coins(seed, self.purpose, self.rows)

    def plan(self, seed):
        return games.plan_of(self)

    def play(self, *, seed, attempt=0, runner=games.RUNNER):
        rng = execution.stream(seed, f"answers, attempt {attempt}")
        included = self.coins(seed)
        told = np.where(rng.random(self.rows) < special.expit(EPSILON), included, ~included)
        seen = CanaryScores(scores=np.where(told, 1.0, -1.0), included=included, relation=self.relation, sides="sign")
        shown = replace(seen, scores=np.where(included, 1.0, -1.0))
        return games.Play(evidence=(seen,), controls=(games.Control(check=CHECK, evidence=(shown,)),) * (attempt == 0))


def test_attempts_are_paid_for_before_the_data():
    """The second attempt is reported at half of the error probability, and stated at the confidence of both."""
    game, claim = Stubborn(), accounting.randomized_response(epsilon=EPSILON, classes=2, relation="label")
    audit = da.audit(game, claim=claim, seed=3, confidence=CONFIDENCE, delta=0.0)
    second = game.play(seed=3, attempt=1).only
    share = 1.0 - (1.0 - CONFIDENCE) / 2.0
    expected = bounds_of(second, delta=0.0, confidence=share, claim=claim)
    assert [bound.value for bound in audit.bounds] == [bound.value for bound in expected]
    assert {bound.confidence for bound in audit.bounds} == {audit.verdict.confidence} == {CONFIDENCE}
    assert audit.verdict.p_value == min(1.0, 2.0 * judge(second, claim, confidence=share).p_value)
    assert [(one.check.id, one.outcome) for one in audit.checks][:1] == [("placebo", "refuted")]


def test_true_claims_survive_a_control_that_always_refutes():
    claim = accounting.randomized_response(epsilon=EPSILON, classes=2, relation="label")
    found = [
        da.audit(Stubborn(), claim=claim, seed=seed, confidence=CONFIDENCE, delta=0.0).contradicted
        for seed in range(AUDITS)
    ]
    assert sum(found) <= stats.binom.ppf(1.0 - 1e-4, AUDITS, 1.0 - CONFIDENCE)
