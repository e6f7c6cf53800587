"""What an independent reader found: each of these once gave a number, or a word, that did not follow."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import dpaudit as da
from dpaudit import InputError, Outcome, accounting
from dpaudit.assumptions import Assumption, Check, as_assumption
from dpaudit.bounds import Relation
from dpaudit.execution import Execution
from dpaudit.games import RUNNER, Control, Play
from tests.conftest import gaussian_runs

CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
DESIGN = Assumption(id="made-so", sentence="it was made so", answered_by="design")


@dataclass(frozen=True, kw_only=True)
class Made:
    """A game whose play is given."""

    made: Any
    relation: Relation = Relation.ADD_REMOVE
    unit: str = "record"
    told: dict[str, Any] = field(default_factory=dict)

    kind = "made"
    purpose = ""
    evidence_type = da.RunScores
    assumptions = (as_assumption("the runs are independent"),)
    checks = ()
    attempts = 1

    @property
    def evidences(self):
        return len(self.made.evidence)

    def plan(self, seed):
        return self.told

    def coins(self, seed):
        return np.zeros(0, dtype=np.bool_)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        return self.made


def runs(mu, seed=0, **more):
    return gaussian_runs(np.random.default_rng(seed), mu, 200, **more)


def test_sentences_that_differ_have_ids_that_differ():
    one, two = "the runs are independent of A (and of B)", "the runs are independent of A, and of B"
    assert as_assumption(one) != as_assumption(two)
    found = da.audit(runs(3.0, assumptions=(one, two)), claim=CLAIM, accept=as_assumption(one).key)
    assert found.outcome is Outcome.CONTRADICTED_IF


def test_a_sentence_is_never_an_assumption_of_the_library():
    found = da.audit(runs(3.0, assumptions=("Gaussian curve",)), fail_if="mu > 1", accept="gaussian-curve")
    assert found.failed_if is None


def test_nobody_answers_for_evidence_by_design():
    with pytest.raises(InputError, match="must be answered for by a person, got 'made-so'"):
        runs(3.0, assumptions=(DESIGN,))


def test_a_kind_of_control_that_nobody_knows_is_refused():
    with pytest.raises(InputError, match="`kind` must be one of 'placebo', 'planted'"):
        Control(check=Check(id="one"), kind="Placebo")
    with pytest.raises(InputError, match="`kind` must be one of"):
        da.estimators.refute(Check(id="one"), (runs(0.0),), kind="Placebo")


def test_a_play_gives_the_evidence_of_its_game():
    with pytest.raises(InputError, match="must give the evidence of its game"):
        da.audit(Made(made=Play(evidence=(runs(0.0, relation="label"),))))
    with pytest.raises(InputError, match="must have evidence"):
        Play(evidence=())


def test_a_game_cannot_overwrite_what_the_record_says():
    found = da.audit(Made(made=Play(evidence=(runs(0.0),)), told={"confidence": 0.999, "attempts": 9}))
    assert (found.plan["confidence"], found.plan["attempts"]) == (0.95, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_evidences_the_one_that_says_most_speaks(order):
    sure, strong = runs(2.6, seed=1), runs(6.0, assumptions=("the runs are independent",))
    found = da.audit(Made(made=Play(evidence=(strong, sure)[::order])), claim=CLAIM, fail_if="mu > 1")
    assert found.outcome is Outcome.CONTRADICTED
    assert found.failed_if is True
    assert "the best of 2 evidences" in found.budget[0]["spent"]


def test_a_bare_id_of_what_is_asserted_is_answered_with_the_whole_key():
    shifted = da.CanaryScores(
        scores=np.arange(400.0) * (np.arange(400) % 2), included=np.arange(400) % 2 == 1, relation="label", shift=0.01
    )
    claim = accounting.randomized_response(epsilon=0.1, classes=2, relation="label")
    found = da.audit(shifted, claim=claim, accept="shift", delta=0.0)
    assert any("'shift(tau=0.01)'" in step.text for step in found.next_steps)


@pytest.mark.parametrize("sentence", ["{nope}", "{", "{c:>20000000}", "{c.__class__}"])
def test_sentences_that_cannot_be_filled_in_are_refused(sentence):
    with pytest.raises(InputError, match="cannot be filled in"):
        runs(1.0, assumptions=(Assumption(id="odd", sentence=sentence, answered_by="auditor", values={"c": 1.0}),))


def test_the_seed_of_evidence_is_recorded():
    evidence = runs(1.0, seed=3)
    assert da.audit(da.RunScores(present=evidence.present, absent=evidence.absent, relation="label", seed=7)).seeds == {
        "seed": 7
    }


@pytest.mark.parametrize("change", [{"commitment": 3}, {"execution": 3}])
def test_odd_arguments_get_one_sentence(change):
    with pytest.raises(InputError):
        da.audit(lambda world, seed: float(world), claim=CLAIM, runs=3, **{"execution": Execution(workers=1), **change})
