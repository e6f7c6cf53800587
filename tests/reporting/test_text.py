"""What the list of assumptions says of each, and that a record says each of them once."""

import html
from dataclasses import replace

import numpy as np

import dpaudit as da
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.auditing import advice
from dpaudit.execution import Execution
from dpaudit.record.files import audit_of
from dpaudit.reporting import text, to_html
from tests.golden import worlds

SERIAL = Execution(workers=1)
CLAIM = da.UpperBound(epsilon=0.1, delta=0.0, relation="substitute")
RESTS = Assumption(id="it-holds", sentence="it holds", answered_by="auditor", tested_by=("control", "other"))
CONTROL, OTHER = Check(id="control", passed="Passed.", refuted="Refuted."), Check(id="other", measured="Measured.")
AGAIN = CheckResult(check=advice.RECALIBRATION, outcome="measured", numbers={"first": "", "attempts": 2})
NOT_AGAIN = CheckResult(check=advice.RECALIBRATION, outcome="not-run", numbers={"reason": "no rows."})


def result(check, outcome):
    return CheckResult(check=check, outcome=outcome)


def said_of(*results):
    """What the list says of the assumption, after these results."""
    game = da.CanaryScores(scores=np.arange(8.0), included=np.arange(8) % 2 == 0, relation="substitute")
    found = replace(da.audit(game), assumptions=(RESTS,), checks=results, bounds=(), budget=())
    (line,) = text.written(found).text["assumptions"]
    return line.partition("The auditor answers for it; ")[2]


def test_what_was_measured_beside_an_assumption_is_no_test_of_it():
    assert said_of(result(OTHER, "measured")) == "no check of this audit tested it."
    both = said_of(result(OTHER, "measured"), result(CONTROL, "passed"))
    assert both == "a control passed, which proves nothing."


def test_of_several_attempts_the_reported_one_tested_it():
    first = result(CONTROL, "refuted")
    assert said_of(first, AGAIN, result(CONTROL, "passed")) == "a control passed, which proves nothing."
    assert said_of(first, AGAIN, first, AGAIN, result(CONTROL, "not-run")) == "its control was not tried."
    assert said_of(first, AGAIN, result(CONTROL, "passed"), first) == (
        "a control passed, which proves nothing, a control refuted it."
    )
    assert said_of(first, NOT_AGAIN) == "a control refuted it.", "the first attempt is the reported one"
    assert advice.RECALIBRATION.id == text.REPEATED


def contradicted(**settings):
    scores, member, x = worlds.members(rows=600)
    return da.audit(
        da.games.ZeroRun(scores=scores + 9.0 * member, member=member, features=x),
        claim=CLAIM,
        seed=1,
        delta=0.0,
        execution=SERIAL,
        **settings,
    )


def once(found):
    """Every assumption of a record stands once in what is printed, and once on the page, the JSON left out."""
    page = html.unescape(to_html(found)).partition('id="json"')[0]
    for one in found.assumptions:
        assert str(found).count(str(one)) == 1, one.id
        assert page.count(str(one)) == 1, one.id


def test_every_theorem_is_printed_once():
    """From a printed number to its page, theorem and function."""
    found = contradicted()
    (line,) = (line for line in str(found).splitlines() if line.startswith("Proof: "))
    cited = [bound.theory for bound in found.bounds]
    assert line == f"Proof: {', '.join(dict.fromkeys(cited))} in the documentation."
    assert len(cited) > 1
    assert all(one.startswith("theory:") for one in cited)
    assert "Proof: " not in str(text.written(replace(found, bounds=()))), "a number that is withheld has none"


def test_assumptions_are_printed_once(tmp_path):
    found = contradicted()
    assert found.outcome is da.Outcome.CONTRADICTED_IF
    assert len(found.verdict.assumptions) > 2
    once(found)
    numbers = text.numbers_of(found.verdict.assumptions, found.assumptions)
    assert found.text["verdict"].endswith(f" if [{numbers}] hold.")
    (step,) = found.next_steps
    keys = ", ".join(one.key for one in found.assumptions if one in found.verdict.assumptions)
    assert step.text == (
        f"It rests on assumptions [{numbers}] above; list their ids in `accept` to take them on: {keys}."
    )
    again = da.load_audit(found.save(tmp_path / "record.json"))
    assert (again, str(again), to_html(again)) == (found, str(found), to_html(found))


def test_accepted_assumptions_are_printed_once():
    listed = contradicted().verdict.assumptions
    for taken in ([listed[1].key], [one.key for one in listed[1:]], [one.key for one in listed]):
        found = contradicted(accept=taken)
        once(found)
        assert f", accepting [{text.numbers_of(found.verdict.accepted, found.assumptions)}]" in found.text["verdict"]
    assert found.contradicted
    found = contradicted(accept=[one.key for one in listed[1:]])
    assert found.text["verdict"].endswith(f" if [{found.assumptions.index(listed[0]) + 1}] holds.")
    assert found.next_steps[0].text.endswith(f"list its id in `accept` to take it on: {listed[0].key}.")


def test_a_verdict_without_a_list_says_what_it_rests_on():
    found = contradicted()
    alone = da.judge(found.observed[0], CLAIM)
    for one in alone.assumptions:
        assert str(one) in str(alone)
    assert str(alone) == found.verdict.sentence == audit_of(found.to_dict()).verdict.sentence
