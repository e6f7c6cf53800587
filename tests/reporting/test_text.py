"""What the list of assumptions says of each."""

from dataclasses import replace

import numpy as np

import dpaudit as da
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.auditing import advice
from dpaudit.reporting import text

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
