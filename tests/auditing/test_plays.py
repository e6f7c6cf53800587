"""Repeated plays of one question: the median of them is reported, at half of the error probability."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import special, stats

import dpaudit as da
from dpaudit import CanaryScores, InputError, Outcome, accounting, estimators
from dpaudit.assumptions import Check, CheckResult
from dpaudit.auditing import plays
from dpaudit.auditing.audit import bounds_of
from dpaudit.execution import fair_coins, stream
from dpaudit.games import RUNNER, Control, Play, plan_of
from dpaudit.testing import ConformanceError, check_game

EPSILON = 1.0
CLAIM = accounting.randomized_response(epsilon=EPSILON, classes=2, relation="label")
BLIND = Check(id="blind", passed="Passed.", refuted="Refuted.", level=0.05)


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """One answer a row, by randomised response, that every play is about; coins and values shown are new each time."""

    repeats: int = 5
    rows: int = 300
    said: int | None = None
    refuted: int = 0
    relation: da.Relation = da.Relation.LABEL
    unit: str = "record"

    kind = "answers"
    purpose = "coins of answers"
    evidence_type = CanaryScores
    assumptions = ()
    checks = (BLIND,)

    @property
    def attempts(self):
        return self.refuted + 1

    def plan(self, seed):
        return plan_of(self)

    def coins(self, seed, play=0):
        return fair_coins(seed, f"{self.purpose}, {play}", self.rows)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        rng = stream(seed, "rows")
        value = rng.random(self.rows) < 0.5
        answer = np.where(rng.random(self.rows) < special.expit(EPSILON), value, ~value)
        found = []
        for number in range(self.repeats):
            coins = self.coins(seed, number)
            drawn = stream(seed, f"drawn, {number}").random(self.rows) < 0.5
            shown = np.where(coins, value, drawn)
            found.append(
                CanaryScores(
                    scores=np.where(shown == answer, 1.0, -1.0), included=coins, relation=self.relation, sides="sign"
                )
            )
        alarms = replace(found[0], scores=np.where(found[0].included, 1.0, -1.0))
        controls = (Control(check=BLIND, evidence=(alarms,)),) if attempt < self.refuted else ()
        said = self.repeats if self.said is None else self.said
        return Play(evidence=tuple(found), repeats=said, controls=controls)


def by_hand(game, seed, confidence):
    """Bounds on epsilon and mu of each play."""
    return [
        [bound.value for bound in bounds_of(one, delta=0.0, confidence=confidence)]
        for one in game.play(seed=seed).evidence
    ]


# theory:observational#repeated
@pytest.mark.parametrize(("count", "place"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (21, 10)])
def test_the_bound_is_the_lower_median_at_half_of_the_error_probability(count, place):
    """Of 21 plays the eleventh largest: at least half of them reject all below it at alpha / 2."""
    game = Answers(repeats=count)
    found = da.audit(game, seed=2, delta=0.0, confidence=0.9, claim=CLAIM)
    share = 1.0 - 0.1 / (1 if count == 1 else 2)
    each = by_hand(game, 2, share)
    for number, bound in enumerate(found.bounds):
        assert bound.value == sorted((one[number] for one in each), reverse=True)[place]
        assert bound.confidence == 0.9
    judged = [da.judge(one, CLAIM, confidence=share).p_value for one in game.play(seed=2).evidence]
    assert found.verdict.p_value == min(1.0, (1 if count == 1 else 2) * sorted(judged)[place])
    assert found.verdict.confidence == 0.9


def test_the_merged_test_is_that_of_the_merged_bound():
    game = Answers(repeats=8, rows=600)
    found = da.audit(game, seed=1, delta=0.0).bounds[0]
    assert found.value > 0.0
    each = [bounds_of(one, delta=0.0, confidence=0.975)[0].p_value(0.2) for one in game.play(seed=1).evidence]
    assert found.p_value(0.2) == 2.0 * sorted(each)[4]
    assert found.p_value(found.value - 1e-3) <= 0.05 < found.p_value(found.value + 0.1)


def test_a_contradiction_needs_half_of_the_plays():
    claim = accounting.randomized_response(epsilon=0.2, classes=2, relation="label")
    for seed in range(6):
        game = Answers(repeats=4, rows=900)
        found = da.audit(game, seed=seed, claim=claim)
        each = [da.judge(one, claim, confidence=0.975).p_value for one in game.play(seed=seed).evidence]
        assert found.contradicted == (sorted(each)[2] <= 0.025)


def test_attempts_and_plays_multiply():
    game = Answers(refuted=1)
    found = da.audit(game, seed=3, delta=0.0)
    each = by_hand(game, 3, 1.0 - 0.05 / 4)
    assert found.bounds[0].value == sorted(one[0] for one in each)[2]
    assert found.result("recalibration").outcome == "measured"


def test_all_plays_are_in_the_record_and_stated_once(tmp_path):
    game = Answers()
    found = da.audit(game, seed=1, delta=0.0, claim=CLAIM)
    assert [entry["digest"] for entry in found.evidence] == [one.digest for one in game.play(seed=1).evidence]
    assert found.observed == game.play(seed=1).evidence
    assert len({entry["digest"] for entry in found.evidence}) == found.plan["repeats"] == 5
    assert [bound.parameter for bound in found.bounds] == ["epsilon", "mu"]
    assert [entry["statement"] for entry in found.budget] == [
        "verdict on the claim",
        "lower bound on epsilon",
        "lower bound on mu",
    ]
    for entry in found.budget:
        assert entry["error"] == pytest.approx(0.05)
        assert "the median of 5 plays, each at half of the error probability" in entry["spent"]
    assert "The coins were tossed 5 times, a number that was fixed in advance." in str(found)
    assert da.load_audit(found.save(tmp_path / "record.json")) == found
    page = da.reporting.to_html(found)
    assert "5 plays of 300 " in page
    assert page.count(">evidence digest<") == 1


def test_one_play_is_as_it_was():
    one = da.audit(Answers(repeats=1), seed=1, delta=0.0)
    assert one.result("plays") is None
    assert one.bounds[0].value == da.audit(Answers(repeats=1).play(seed=1).only, delta=0.0).bounds[0].value


def test_true_claims_survive_plays_that_share_their_rows():
    audits = 150
    over = contradicted = 0
    for seed in range(audits):
        found = da.audit(Answers(rows=150), seed=seed, claim=CLAIM, delta=0.0, confidence=0.8)
        over += found.bounds[0].value > EPSILON
        contradicted += found.outcome is Outcome.CONTRADICTED
    assert max(over, contradicted) <= stats.binom.ppf(1.0 - 1e-4, audits, 0.2)


def test_what_is_measured_beside_is_the_lower_median():
    check = Check(id="beside", measured="{first}")
    found = [
        CheckResult(
            check=check,
            outcome="measured",
            numbers={"first": float(number), "word": "same", "count": number, "yes": True},
            figure={"curve": {"x": [0, 1], "y": [number / 2, 3.0 - number]}},
        )
        for number in (3, 0, 1, 2)
    ]
    count, beside = plays.merged_results([[one] for one in found])
    assert count.numbers == {"plays": 4}
    assert beside.numbers == {"first": 1.0, "word": "same", "count": 1, "yes": True}
    assert beside.figure == {"curve": {"x": [0, 1], "y": [0.5, 1.0]}}


def test_a_bound_that_says_nothing_is_the_least():
    assert plays.middle([None, 1.0, 2.0]) == 1
    assert plays.middle([None, None, 2.0]) in (0, 1)


def test_the_number_of_plays_is_fixed_before_them():
    with pytest.raises(InputError, match="must give the evidences of its game: 5, got 5, merged as 1 of 5 plays"):
        da.audit(Answers(said=1), seed=1)
    evidence = Answers().play(seed=1).evidence
    for count in (0, 2, 6):
        with pytest.raises(InputError, match="`repeats` must be"):
            Play(evidence=evidence, repeats=count)
    check_game(Answers())
    with pytest.raises(ConformanceError, match="as many evidences as the game says"):
        check_game(Answers(said=1), others={"said": 5})


def test_plays_are_merged_where_epsilon_or_mu_is_bounded():
    class Counted(Answers):
        evidence_type = da.PairedScores

    with pytest.raises(InputError, match="plays are merged where epsilon or mu is bounded"):
        da.audit(Counted(), seed=1)


def test_estimates_of_evidence_are_those_of_each_play():
    """Whoever has the record, the seed and the game gets the bound again from the plays alone."""
    found = da.audit(Answers(repeats=3), seed=4, delta=0.0)
    each = [estimators.epsilon_from_canaries(one, delta=0.0, confidence=0.975).epsilon for one in found.observed]
    assert found.bounds[0].epsilon == sorted(each)[1]
