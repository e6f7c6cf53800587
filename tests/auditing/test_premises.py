"""What follows where a check refutes: no number, a finding of its own, or a remark; and what may be accepted at all."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as da
from dpaudit import InputError, Outcome, accounting
from dpaudit.assumptions import Assumption, Check, CheckResult, check_declared
from dpaudit.auditing.plan import load_config
from dpaudit.execution import Execution, RunFailed
from dpaudit.games import RUNNER, Comparison, Control, Play
from dpaudit.record import as_audits, load_audit
from tests.conftest import gaussian_runs

CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
SERIAL = Execution(workers=1)
SANE = Assumption(
    id="loop-sane", sentence="the loop uses {rows:,} rows", answered_by="developer", tested_by=("rows-used",)
)
ROWS = Check(
    id="rows-used",
    passed="It used {used:,} rows.",
    refuted="It used {used:,} rows, and says 100.",
    remedy="Count the rows again.",
    refutes="loop-sane",
    on_refuted="fail",
)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Scores of a loop that may have used other rows than it says."""

    used: int = 100
    mu: float = 3.0
    on_refuted: str = "fail"
    rests: Any = SANE

    kind = "loop"
    purpose = ""
    relation = da.Relation.ADD_REMOVE
    unit = "record"
    evidence_type = da.RunScores
    assumptions = (SANE,)
    attempts = 1

    @property
    def checks(self):
        return (replace(ROWS, on_refuted=self.on_refuted),)

    def plan(self, seed):
        return {"used": self.used}

    def coins(self, seed):
        return np.zeros(0, dtype=np.bool_)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        rests = (self.rests.measured(rows=100),)
        seen = gaussian_runs(np.random.default_rng(0), self.mu, 200, assumptions=rests)
        outcome = "passed" if self.used == 100 else "refuted"
        found = CheckResult(check=self.checks[0], outcome=outcome, numbers={"used": self.used})
        return Play(evidence=(seen,), results=(found,))


def test_a_broken_premise_is_the_finding_and_no_bound_stands_beside_it(tmp_path):
    found = da.audit(Loop(used=90), claim=CLAIM)
    assert (found.outcome, found.bounds, found.verdict.p_value) == (Outcome.BROKEN, (), None)
    assert "A premise is broken: It used 90 rows, and says 100." in str(found)
    assert str(found).count("It used 90 rows") == 1, "the verdict says it, so the checks do not"
    assert "Count the rows again." in str(found)
    assert as_audits(found).exit_code() == 1
    assert str(load_audit(found.save(tmp_path / "record.json"))) == str(found)


def test_a_broken_premise_cannot_be_accepted():
    assert da.audit(Loop(used=90), claim=CLAIM, accept=["loop-sane"]).outcome is Outcome.BROKEN


def test_what_a_warning_refutes_cannot_be_accepted_either():
    kept = da.audit(Loop(on_refuted="warn"), claim=CLAIM, accept=["loop-sane"])
    warned = da.audit(Loop(used=90, on_refuted="warn"), claim=CLAIM, accept=["loop-sane"])
    assert (kept.outcome, warned.outcome) == (Outcome.CONTRADICTED, Outcome.CONTRADICTED_IF)
    assert "Count the rows again." in str(warned)
    assert as_audits(warned).exit_code() == 0


def test_evidence_rests_on_nothing_that_its_game_does_not_declare():
    other = replace(SANE, id="somebody-elses")
    with pytest.raises(InputError, match="must declare its assumptions and checks, and 'loop' lacks 'somebody-elses'"):
        da.audit(Loop(rests=other))


def test_the_number_of_evidences_is_fixed_before_the_data():
    @dataclass(frozen=True, kw_only=True)
    class Two(Loop):
        evidences: int = 2

    assert da.audit(Loop()).plan["evidences"] == 1
    with pytest.raises(InputError, match="must give the evidences of its game: 2, got 1"):
        da.audit(Two())


# ----------------------------------------------------------------------------------------------------- several attempts


BLIND = Check(id="blind", passed="Passed.", refuted="Refuted (p = {p_value:p}).", level=0.05)
COINS = np.arange(200) % 2 == 0
SHOWS = da.CanaryScores(scores=np.where(COINS, 1.0, -1.0), included=COINS, relation="label", sides="sign")


@dataclass(frozen=True, kw_only=True)
class Thrice(Loop):
    """Its placebo always shows something; the attempt of this number fails in some way."""

    fails: int
    problem: Any = None

    assumptions = ()
    checks = (BLIND,)
    attempts = 3

    def play(self, *, seed, attempt=0, runner=RUNNER):
        if attempt == self.fails:
            raise self.problem
        return Play(
            evidence=(gaussian_runs(np.random.default_rng(attempt), 3.0, 60),),
            controls=(Control(check=BLIND, evidence=(SHOWS,)),),
        )


@pytest.mark.parametrize("problem", [InputError("nothing to mend it with."), RunFailed("the model failed.")])
def test_what_was_refuted_before_a_failed_attempt_is_kept(problem):
    found = da.audit(Thrice(fails=2, problem=problem), claim=CLAIM)
    assert [(one.check.id, one.outcome) for one in found.checks] == [
        ("blind", "refuted"),
        ("recalibration", "measured"),
        ("blind", "refuted"),
        ("recalibration", "not-run"),
    ]
    assert found.outcome is Outcome.WITHHELD


def test_a_refused_comparison_is_named():
    @dataclass(frozen=True, kw_only=True)
    class Compared(Loop):
        def play(self, *, seed, attempt=0, runner=RUNNER):
            members = da.MemberScores(scores=[1.0, 0.0], member=[1, 0], propensity=[1.0, 0.0], relation="substitute")
            other = Comparison(id="other", title="By members", evidence=members)
            return replace(super().play(seed=seed), comparisons=(other,))

    found = da.audit(Compared(), claim=CLAIM)
    assert found.comparisons == ()
    assert "No comparison of By members: members and non-members have disjoint supports" in str(found)


# --------------------------------------------------------------------------------------------------------------- accept


@pytest.mark.parametrize("key", ["loop-sane(x=3)", "loop-sane(3)"])
def test_an_accepted_key_names_what_its_assumption_asserts(key):
    with pytest.raises(InputError, match="'loop-sane' asserts rows"):
        check_declared([key], [SANE])
    check_declared(["loop-sane(rows=100)", "loop-sane"], [SANE])


def test_an_unknown_id_is_refused_when_the_file_is_read(tmp_path):
    """Before a table is opened, a model asked, or another file played."""
    file = tmp_path / "audit.toml"
    text = """
audit.accept = ["propensity-modle"]
[game.zero_run]
table = "nowhere.csv"
score = "loss"
"""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="must name assumptions of this audit by their ids") as refused:
        load_config(file)
    assert refused.value.hint == "did you mean 'propensity-model'?"
    file.write_text(text.replace("modle", "model"), encoding="utf-8")
    load_config(file)
