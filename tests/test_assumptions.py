"""Assumptions, checks and results as values: templates, keys, what `accept` takes, and a check's four sentences."""

import math

import pytest

from dpaudit import Assumption, Check, CheckResult, InputError
from dpaudit.assumptions import (
    accepted_keys,
    as_assumption,
    as_assumptions,
    check_declared,
    fields_of,
    filled,
    p_value,
    percent,
    round_down,
    round_up,
    split_by,
    unique,
)

SHIFT = Assumption(id="shift", sentence="tau is at most {tau:g} ({rows:,} rows)", answered_by="auditor")
ROWS = Assumption(id="one-row", sentence="one row a unit", answered_by="data holder")
COINS = Assumption(id="fair-coins", sentence="coins are fair", answered_by="design")
CHECK = Check(
    id="blind",
    passed="passed at {p_value:p}, n = {rows:,}",
    refuted="refuted at {p_value:p} (level {level:g})",
    not_run="not run: {reason}",
    measured="measured {rows}",
    remedy="more than {rows} rows",
    refutes="shift",
    level=0.05,
)


@pytest.mark.parametrize(
    ("template", "value", "text"),
    [
        ("{x:down}", 1.2399, "1.23"),
        ("{x:up}", 1.2301, "1.24"),
        ("{x:down4}", 0.12349, "0.1234"),
        ("{x:up4}", 0.12341, "0.1235"),
        ("{x:down}", -0.001, "-0.01"),
        ("{x:down}", math.inf, "infinity"),
        ("{x:up}", -math.inf, "-infinity"),
        ("{x:down}", 0.3, "0.30"),
        ("{x:up}", 0.3, "0.30"),
        ("{x:percent}", 0.95, "95%"),
        ("{x:percent}", 0.975, "97.5%"),
        ("{x:percent}", 1.0 - 1e-9, "99.9999%"),
        ("{x:percent}", 0.0, "0%"),
        ("{x:p}", 0.0123, "0.013"),
        ("{x:p}", 0.05, "0.05"),
        ("{x:p}", 1.0, "1"),
        ("{x:p}", 0.0, "0"),
        ("{x:p}", 3.21e-9, "3.3e-09"),
        ("{x:p}", 5e-324, "4.9e-324"),
        ("{x:list}", (1, "two"), "1, two"),
        ("{x:,}", 12345, "12,345"),
        ("{x:.3g}", 0.12345, "0.123"),
        ("{{x}} {x}", "a {b}", "{x} a {b}"),
    ],
)
def test_fields_of_templates_are_rounded_to_the_safe_side(template, value, text):
    assert filled(template, {"x": value}) == text


def test_roundings_never_pass_the_number():
    for value in (0.1 + 0.2, 1.005, 2.675, 1e-9, 123456.789, 1e300, 3e-322):
        assert float(round_down(value)) <= value <= float(round_up(value))
        assert float(p_value(min(value, 1.0))) >= min(value, 1.0) * (1.0 - 1e-12)
    for level in (0.9, 0.95, 0.975, 1.0 - 0.05 / 3.0, 0.999999):
        assert float(percent(level).rstrip("%")) / 100.0 <= level + 1e-12


def test_a_field_without_a_value_is_an_error():
    with pytest.raises(KeyError):
        filled("{x} and {y}", {"x": 1})
    assert fields_of("{x:down} {rows[0]} {one.name} {{not}}") == {"x", "rows", "one"}


def test_keys_carry_what_is_asserted_and_not_what_is_measured():
    one = SHIFT.asserted(tau=0.01).measured(rows=1200)
    assert (one.id, one.key) == ("shift", "shift(tau=0.01)")
    assert str(one) == one.text == "tau is at most 0.01 (1,200 rows)"
    assert one == SHIFT.asserted(tau=0.01) == SHIFT.asserted(tau=0.01).measured(rows=7)
    assert hash(one) == hash(SHIFT.asserted(tau=0.01))
    assert one != SHIFT.asserted(tau=0.02)
    assert one != SHIFT
    assert one != "shift(tau=0.01)"
    assert one.asserted(c=2).key == "shift(tau=0.01, c=2)"
    assert unique([one, ROWS, SHIFT.asserted(tau=0.01), ROWS]) == (one, ROWS)
    assert (COINS.by_design, ROWS.by_design) == (True, False)


def test_an_assumption_survives_json():
    one = SHIFT.asserted(tau=0.01).measured(rows=3)
    again = Assumption.from_dict(one.to_dict())
    assert again == one
    assert (again.text, again.to_dict()) == (one.text, one.to_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "One Row"}, "`id` must be lower-case words joined by hyphens"),
        ({"id": ""}, "`id` must be lower-case words"),
        ({"answered_by": "nobody"}, "`answered_by` must be one of"),
    ],
)
def test_assumptions_that_make_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        Assumption(**{"id": "one", "sentence": "one", "answered_by": "auditor", **change})


def test_a_plain_sentence_is_an_assumption_of_the_auditor():
    assert as_assumption(" The runs are independent. ").key == "said-the-runs-are-independent"
    one = as_assumption("  The runs {a} are independent.")
    assert one.id.startswith("said-the-runs-a-are-independent-")
    assert as_assumption(one.key) == one
    assert (one.text, one.answered_by) == ("The runs {a} are independent", "auditor")
    assert as_assumption(ROWS) is ROWS
    assert as_assumption("the runs (a) are INDEPENDENT") != one, "other words, another id"
    assert as_assumption("epsilon <= 1.5 holds") != as_assumption("epsilon >= 1.5 holds")
    assert as_assumption("gaussian curve").key != "gaussian-curve", "a sentence never gets an id of the library"
    assert len(as_assumption("word " * 40).id) <= 75
    assert as_assumptions([ROWS, "a sentence"])[1].id == "said-a-sentence"
    for wrong in (3, "", " . ", None):
        with pytest.raises(InputError, match="must be a sentence or an `Assumption`"):
            as_assumption(wrong)
    with pytest.raises(InputError, match="got one text"):
        as_assumptions("a sentence")


def test_accept_takes_ids_keys_and_assumptions():
    asserted = SHIFT.asserted(tau=0.01)
    assert accepted_keys("one-row") == ("one-row",)
    assert accepted_keys([" one-row ", asserted]) == ("one-row", "shift(tau=0.01)")
    assert accepted_keys(()) == ()
    for wrong in ([1], 3, {"one-row": True}):
        with pytest.raises(InputError, match="`accept` must be a list"):
            accepted_keys(wrong)


def test_split_by_what_is_accepted():
    asserted = SHIFT.asserted(tau=0.01)
    listed = (COINS, asserted, ROWS)
    assert split_by((), listed) == ((), (asserted, ROWS))
    assert split_by("one-row", listed) == ((ROWS,), (asserted,))
    assert split_by(["shift(tau=0.01)", ROWS], listed) == ((asserted, ROWS), ())
    assert split_by(["shift", "shift(tau=0.02)", "fair-coins"], listed) == ((), (asserted, ROWS)), (
        "an id without what is asserted, or with another value, takes nothing on; the design needs nobody"
    )


def test_what_nobody_declares_is_refused_with_a_hint():
    check_declared(["one-row", "shift(tau=0.3)"], (SHIFT, ROWS))
    with pytest.raises(InputError, match=r"by their ids, got 'one-rows'.\nhint: did you mean 'one-row'\?"):
        check_declared("one-rows", (SHIFT, ROWS))
    with pytest.raises(InputError, match="this audit can rest on one-row, shift"):
        check_declared("something entirely different", (SHIFT, ROWS))
    with pytest.raises(InputError, match="this audit can rest on nothing"):
        check_declared("one-row", ())


@pytest.mark.parametrize(
    ("outcome", "text", "remedy", "withholds"),
    [
        ("passed", "passed at 0.013, n = 1,200", "", False),
        ("refuted", "refuted at 0.013 (level 0.05)", "more than 1200 rows", True),
        ("not-run", "not run: no rows", "", False),
        ("measured", "measured 1200", "", False),
    ],
)
def test_a_check_has_a_sentence_for_each_way_in_which_it_can_end(outcome, text, remedy, withholds):
    found = CheckResult(check=CHECK, outcome=outcome, p_value=0.0123, numbers={"rows": 1200, "reason": "no rows"})
    assert (found.text, found.remedy, found.withholds) == (text, remedy, withholds)
    assert found.refuted == (outcome == "refuted")


def test_only_a_check_that_withholds_withholds():
    for word in ("withhold", "fail", "warn"):
        found = CheckResult(check=Check(id="one", refuted="no", on_refuted=word), outcome="refuted")
        assert found.withholds == (word == "withhold")
    with pytest.raises(InputError, match="`on_refuted` must be one of"):
        Check(id="one", on_refuted="block")
    with pytest.raises(InputError, match="`outcome` must be one of"):
        CheckResult(check=CHECK, outcome="failed")
