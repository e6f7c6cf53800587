"""A check that could not be run withholds a number, where it says so, unless what it would test is accepted."""

import json
from dataclasses import dataclass, replace

import jsonschema
import numpy as np
import pytest

import dpaudit as da
from dpaudit import CanaryScores, InputError, Outcome, accounting
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.execution import fair_coins
from dpaudit.games import RUNNER, Control, Play, plan_of
from dpaudit.record import schema

SAME = Assumption(
    id="same-source", sentence="rows have one source", answered_by="data holder", tested_by=("rows", "eyes")
)
OTHER = Assumption(id="other-matter", sentence="the other matter is settled", answered_by="auditor")
ROWS = Check(
    id="rows",
    passed="Control passed.",
    refuted="Control refuted.",
    not_run="no rows of {whom} were given that the model never saw.",
    remedy="Give rows that the model never saw.",
    refutes="same-source",
    on_missing="withhold",
)
EYES = Check(id="eyes", refuted="Everybody can see that they differ.", refutes="same-source", on_refuted="warn")
CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="label")


@dataclass(frozen=True, kw_only=True, eq=False)
class Loud:
    """Canaries that everybody hears; `outcome` is that of the check of what they rest on."""

    outcome: str = "not-run"
    rests: tuple = (SAME,)
    seen: tuple = ()
    check: Check = ROWS
    controls: tuple = ()
    attempts: int = 1
    relation: da.Relation = da.Relation.LABEL
    unit: str = "record"

    kind = "loud"
    purpose = "coins of loud canaries"
    evidence_type = CanaryScores
    assumptions = (SAME, OTHER)
    checks = (ROWS, EYES)

    def plan(self, seed):
        return plan_of(self, leave_out=("rests", "seen", "check", "controls"))

    def coins(self, seed):
        return fair_coins(seed, self.purpose, 400)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        coins = self.coins(seed)
        evidence = CanaryScores(
            scores=coins * 2.0 - 1.0, included=coins, relation=self.relation, sides="sign", assumptions=self.rests
        )
        found = CheckResult(check=self.check, outcome=self.outcome, numbers={"whom": "people"})
        return Play(evidence=(evidence,), controls=self.controls, results=(*self.seen, found))


def audited(accept=(), **game):
    return da.audit(Loud(**game), claim=CLAIM, accept=accept)


def test_a_missing_check_withholds_the_number_and_says_what_to_give():
    found = audited()
    assert (found.outcome, found.bounds, found.verdict.p_value) == (Outcome.UNINFORMATIVE, (), None)
    assert found.verdict.sentence == "Uninformative: no rows of people were given that the model never saw."
    assert found.result("rows").missing
    assert [step.text for step in found.next_steps] == [
        "Give rows that the model never saw.",
        "A number would rest on assumption [1] above; list its id in `accept` to take it on: same-source.",
    ]
    assert found.assumptions == (SAME,)
    assert not found.judged
    assert da.Audits((found,)).exit_code() == 4


def test_neither_the_terminal_nor_a_table_shows_a_number_then():
    lines = str(audited()).splitlines()
    assert lines[:2] == ["audit, label of one record", str(CLAIM_LINE)]
    assert sum("no rows of people" in line for line in lines) == 1
    assert not [line for line in lines if ">=" in line]
    assert da.reporting.summary_rows(audited())[0][-1] == "no number: a check could not be run"
    assert "1 no number: a check could not be run" in da.reporting.summary_text(audited())


CLAIM_LINE = "  mu <= 1.00, epsilon <= 4.38 at delta 1e-05   claimed: Gaussian mechanism, label of one record"


def test_whoever_takes_it_on_gets_the_number():
    found, without = audited(accept=["same-source"]), audited(check=replace(ROWS, on_missing=""))
    assert found.bounds
    assert [bound.value for bound in found.bounds] == [bound.value for bound in without.bounds]
    assert found.verdict.p_value == without.verdict.p_value
    assert "no rows of people were given that the model never saw." in str(found)
    assert "Give rows" not in str(found)
    assert SAME in found.verdict.accepted


@pytest.mark.parametrize(
    ("game", "accept", "outcome"),
    [
        ({}, ["other-matter"], Outcome.UNINFORMATIVE),
        ({"rests": (SAME, OTHER)}, ["same-source"], Outcome.CONTRADICTED_IF),
        ({"rests": (OTHER,)}, [], Outcome.CONTRADICTED_IF),
        ({"outcome": "passed"}, [], Outcome.CONTRADICTED_IF),
        ({"outcome": "refuted"}, ["same-source"], Outcome.WITHHELD),
        ({"check": replace(ROWS, refutes=("same-source", "other-matter"))}, ["same-source"], Outcome.CONTRADICTED),
        (
            {"check": replace(ROWS, refutes=("same-source", "other-matter")), "rests": (SAME, OTHER)},
            ["same-source"],
            Outcome.UNINFORMATIVE,
        ),
    ],
)
def test_only_what_the_evidence_rests_on_has_to_be_taken_on(game, accept, outcome):
    assert audited(accept, **game).outcome is outcome


def test_what_another_check_refutes_cannot_be_taken_on():
    warned = CheckResult(check=EYES, outcome="refuted")
    assert audited(["same-source"], seen=(warned,)).outcome is Outcome.UNINFORMATIVE


def test_a_refutation_is_told_before_a_missing_check():
    shown = CheckResult(check=replace(EYES, on_refuted="withhold"), outcome="refuted")
    found = audited(seen=(shown,))
    assert found.outcome is Outcome.WITHHELD
    assert "Everybody can see" in found.verdict.sentence
    broken = CheckResult(check=replace(EYES, on_refuted="fail"), outcome="refuted")
    assert audited(seen=(broken,)).outcome is Outcome.BROKEN


def test_a_control_without_evidence_is_missing_too_and_a_planted_one_is_not():
    quiet = {"outcome": "passed", "check": replace(EYES, passed="Fine.")}
    placebo = audited(**quiet, controls=(Control(check=ROWS, numbers={"whom": "people"}),))
    assert placebo.outcome is Outcome.UNINFORMATIVE
    assert "no rows of people" in placebo.verdict.sentence
    planted = audited(**quiet, controls=(Control(check=ROWS, kind="planted", numbers={"whom": "people"}),))
    assert planted.bounds


def test_another_attempt_mends_what_is_refuted_and_not_what_is_missing():
    found = audited(attempts=2)
    assert found.result("recalibration") is None
    assert found.outcome is Outcome.UNINFORMATIVE


def test_the_record_and_its_page_say_so(tmp_path):
    for found in (audited(), audited(accept=["same-source"])):
        jsonschema.validate(json.loads(found.to_json()), schema())
        again = da.load_audit(found.save(tmp_path / "record.json"))
        assert again == found
        assert again.result("rows").missing
        assert "no rows of people" in da.reporting.to_html(again)
    untouched = audited(check=replace(ROWS, on_missing=""))
    assert "on_missing" not in json.dumps(untouched.to_dict())


def test_what_follows_is_one_of_two_words():
    with pytest.raises(InputError, match="`on_missing` must be"):
        replace(ROWS, on_missing="fail")
    with pytest.raises(InputError, match="must name what is untested"):
        replace(ROWS, refutes=())


def test_a_condition_cannot_say_without_a_number():
    found = da.audit(Loud(), claim=CLAIM, fail_if="epsilon > 0.1")
    assert found.failed_if is None
    assert np.isfinite(found.plan["delta"])
