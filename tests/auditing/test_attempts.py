"""What is paid for before the data: attempts, evidences of one play; and controls with a planted leak."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as da
from dpaudit import CanaryScores, Outcome, accounting, estimators
from dpaudit.assumptions import Check
from dpaudit.execution import fair_coins
from dpaudit.games import RUNNER, Comparison, Control, Play, check_commitment, commitment, is_game
from tests.conftest import gaussian_runs

CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
COINS = np.arange(200) % 2 == 0
SHOWS = CanaryScores(scores=np.where(COINS, 1.0, -1.0), included=COINS, relation="label", sides="sign")
NOISE = np.random.default_rng(1).normal(size=200)
SHOWS_NOTHING = CanaryScores(scores=NOISE, included=COINS, relation="label", sides="sign")
BLIND = Check(id="blind", passed="Passed.", refuted="Refuted (p = {p_value:p}).", remedy="Try again.", level=0.05)
SEES = Check(id="sees", passed="It sees.", refuted="It sees nothing.", remedy="Plant more.", not_run="Not planted.")


@dataclass(frozen=True, kw_only=True)
class Played:
    """A game whose every play is given: one `Play` an attempt."""

    plays: tuple[Any, ...]
    asked: list[int] = field(default_factory=list)

    kind = "given-plays"
    purpose = "coins of given plays"
    assumptions = ()
    checks = (BLIND, SEES)
    relation = da.Relation.ADD_REMOVE
    unit = "record"
    evidence_type = da.RunScores

    @property
    def attempts(self):
        return len(self.plays)

    @property
    def evidences(self):
        return len(self.plays[0].evidence)

    def plan(self, seed):
        return {"plays": len(self.plays)}

    def coins(self, seed):
        return fair_coins(seed, self.purpose, 8)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        self.asked.append(attempt)
        return self.plays[attempt]


def runs(seed=0, mu=2.0, size=60):
    return gaussian_runs(np.random.default_rng(seed), mu, size)


def play(*evidence, control=SHOWS_NOTHING, **more):
    return Play(evidence=evidence, controls=(Control(check=BLIND, evidence=(control,)),), **more)


def planted(evidence, *parts, on_refuted="withhold"):
    control = Control(check=replace(SEES, on_refuted=on_refuted), evidence=parts, kind="planted")
    return Played(plays=(Play(evidence=(evidence,), controls=(control,)),))


def by_hand(evidence, confidence):
    return (
        estimators.epsilon_from_runs(evidence, delta=1e-5, confidence=confidence),
        estimators.mu_from_runs(evidence, delta=1e-5, confidence=confidence),
    )


def test_a_game_of_ones_own_is_a_game():
    game = Played(plays=(play(runs()),))
    assert is_game(game)
    check_commitment(game, seed=3, published=commitment(game, 3))


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_every_attempt_is_paid_for_and_the_last_one_reported(attempts):
    refuted = (play(runs(1), control=SHOWS),) * (attempts - 1)
    game = Played(plays=(*refuted, play(runs())))
    found = da.audit(game, claim=CLAIM, confidence=0.9)
    assert game.asked == list(range(attempts))
    assert found.plan["attempts"] == attempts
    assert [one.outcome for one in found.checks if one.check.id != "recalibration"] == ["refuted"] * (attempts - 1) + [
        "passed"
    ]
    for bound, hand in zip(found.bounds, by_hand(runs(), 1.0 - 0.1 / attempts), strict=False):
        assert bound.value == hand.value
        assert bound.confidence == 0.9
        assert bound.p_value(0.5) == pytest.approx(min(1.0, attempts * hand.p_value(0.5)))
    assert found.verdict.p_value == pytest.approx(min(1.0, attempts * da.judge(runs(), CLAIM).p_value))
    assert found.verdict.confidence == 0.9
    assert all(share["error"] == pytest.approx(0.1) for share in found.budget)


def test_an_attempt_that_is_not_needed_is_paid_for_all_the_same():
    game = Played(plays=(play(runs()), play(runs(1))))
    found = da.audit(game, claim=CLAIM)
    assert game.asked == [0]
    assert found.bounds[0].value == by_hand(runs(), 0.975)[0].value
    assert found.verdict.p_value == pytest.approx(2.0 * da.judge(runs(), CLAIM).p_value)


def test_a_p_value_between_one_share_and_the_whole_is_no_contradiction():
    evidence = runs(2, size=30)
    assert 0.025 < da.judge(evidence, CLAIM).p_value <= 0.05
    one, two = (da.audit(Played(plays=(play(evidence),) * attempts), claim=CLAIM) for attempts in (1, 2))
    assert (one.outcome, two.outcome) == (Outcome.CONTRADICTED, Outcome.CONSISTENT)


def test_attempts_that_all_refute_report_no_number():
    found = da.audit(Played(plays=(play(runs(), control=SHOWS),) * 2), claim=CLAIM)
    assert found.outcome is Outcome.WITHHELD
    assert found.bounds == ()
    assert [one.outcome for one in found.checks if one.check.id != "recalibration"] == ["refuted", "refuted"]
    assert found.verdict.p_value is None
    assert "No number is reported: Refuted (p = " in str(found)
    assert [step.text for step in found.next_steps] == ["Try again."]


def test_two_evidences_of_one_play_share_the_error_probability():
    one, two = runs(5), runs(6, mu=2.5)
    found = da.audit(Played(plays=(play(one, two),)), claim=CLAIM)
    hand = [value for evidence in (one, two) for value in by_hand(evidence, 0.975)]
    shown = [bound for bound in found.bounds if bound.parameter in ("epsilon", "mu")]
    assert [bound.value for bound in shown] == [bound.value for bound in hand]
    assert [bound.confidence for bound in shown] == [0.95] * 4
    smallest = min(da.judge(evidence, CLAIM).p_value for evidence in (one, two))
    assert found.verdict.p_value == pytest.approx(2.0 * smallest)
    assert len(found.evidence) == len(found.observed) == 2


def test_attempts_and_evidences_multiply():
    found = da.audit(Played(plays=(play(runs(1), runs(2), control=SHOWS), play(runs(5), runs(6)))))
    assert found.bounds[0].value == by_hand(runs(5), 1.0 - 0.05 / 4)[0].value


def test_a_comparison_is_paid_for_by_attempts_only():
    more = {"comparisons": (Comparison(id="other", title="epsilon otherwise", evidence=lambda: runs(7)),)}
    one, two = (da.audit(Played(plays=(play(runs(5), runs(6), **more),) * attempts)) for attempts in (1, 2))
    for found, level in ((one, 0.95), (two, 0.975)):
        bound = found.comparisons[0]["bound"]
        assert bound.value == by_hand(runs(7), level)[0].value
        assert bound.confidence == 0.95


def test_evidence_that_does_not_cover_the_claim_fits_no_family():
    """A step before the last one is judged by the claim, for it leaks no more; its noise is not the claim's noise."""
    claim = accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=1.0, steps=1, delta=1e-5, relation="add-remove")
    covered, not_covered = (
        da.audit(Played(plays=(play(runs(size=100), covers_claim=covers),)), claim=claim) for covers in (True, False)
    )
    assert [bound.parameter for bound in not_covered.bounds] == ["epsilon", "mu"]
    assert len(covered.bounds) == 3
    assert covered.verdict == not_covered.verdict


@pytest.mark.parametrize("on_refuted", ["withhold", "warn"])
def test_a_planted_leak_that_is_not_seen_takes_the_word_consistent_and_no_number(on_refuted):
    evidence = runs(0, mu=1.0)
    plain = da.audit(Played(plays=(Play(evidence=(evidence,)),)), claim=CLAIM)
    assert plain.outcome is Outcome.CONSISTENT
    seen = da.audit(planted(evidence, SHOWS, on_refuted=on_refuted), claim=CLAIM)
    assert (seen.outcome, seen.result("sees").outcome) == (Outcome.CONSISTENT, "passed")
    for parts, outcome in (((SHOWS_NOTHING,), "refuted"), ((), "not-run")):
        found = da.audit(planted(evidence, *parts, on_refuted=on_refuted), claim=CLAIM)
        assert found.result("sees").outcome == outcome
        assert found.outcome is Outcome.UNINFORMATIVE
        assert found.verdict.sentence.startswith("Uninformative: this attack was not shown to see a leak that is known")
        assert found.verdict.p_value == plain.verdict.p_value
        assert [bound.value for bound in found.bounds] == [bound.value for bound in plain.bounds]
        assert found.next_steps[0].text == "An attack that sees the planted leak could say more."
        assert ("Plant more." in str(found)) == (outcome == "refuted")
        assert da.Audits((found,)).exit_code() == 4


def test_a_planted_leak_that_is_not_seen_does_not_weaken_a_contradiction():
    found = da.audit(planted(runs(), SHOWS_NOTHING), claim=CLAIM)
    assert found.outcome is Outcome.CONTRADICTED
    assert found.bounds
