"""Bounds round to the safe side, remember what they are, and never compare unlike things."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpaudit as da
from dpaudit import LowerBound, NotComparable, Outcome, Relation, RenyiBound, UpperBound, accounting, assumptions
from dpaudit.assumptions import as_assumption
from dpaudit.bounds import GAUSSIAN_ASSUMPTION

TAU = as_assumption("tau = 0")


def lower(**changes):
    made = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "confidence": 0.95,
        "relation": Relation.ADD_REMOVE,
        "method": "a test",
        "guarantee": "certified",
    } | changes
    return LowerBound(**made)


def upper(**changes):
    return UpperBound(**({"epsilon": 1.0, "delta": 1e-5, "relation": "add-remove"} | changes))


@given(st.floats(0, 100))
def test_printing_rounds_to_the_safe_side(value):
    assert float(assumptions.round_down(value)) <= value <= float(assumptions.round_up(value))
    assert abs(float(assumptions.round_up(value)) - float(assumptions.round_down(value))) < 0.0100001


def test_text_of_a_bound():
    text = str(lower(epsilon=2.319, ceiling=6.499, assumptions=("the moon is full",), guarantee="conditional"))
    assert "epsilon >= 2.31 at delta 1e-05   95% confidence, add-remove of one record" in text
    assert "if the moon is full" in text
    assert "up to about 6.49" in text
    assert "epsilon about 2.00" in str(lower(guarantee="estimate"))
    assert "an estimate, not a bound" in str(lower(guarantee="estimate"))
    assert "&gt;=" in lower()._repr_html_()
    assert "epsilon <= 1.01" in str(upper(epsilon=1.0000001))


@pytest.mark.parametrize(
    ("low", "up", "accept", "outcome"),
    [
        (lower(), upper(), (), Outcome.CONTRADICTED),
        (lower(epsilon=1.0), upper(), (), Outcome.CONSISTENT),
        (lower(epsilon=0.5, ceiling=0.9), upper(), (), Outcome.UNINFORMATIVE),
        (lower(guarantee="estimate"), upper(), (), Outcome.UNINFORMATIVE),
        (lower(guarantee="conditional", assumptions=("tau = 0",)), upper(), (), Outcome.CONTRADICTED_IF),
        (
            lower(guarantee="conditional", assumptions=("tau = 0",)),
            upper(),
            [as_assumption("tau = 0")],
            Outcome.CONTRADICTED,
        ),
        (lower(guarantee="conditional", assumptions=("tau = 0",)), upper(), ["tau"], Outcome.CONTRADICTED_IF),
        (lower(guarantee="conditional", assumptions=("a", "b")), upper(), ["a"], Outcome.CONTRADICTED_IF),
        (lower(guarantee="conditional", assumptions=("a",)), upper(), [""], Outcome.CONTRADICTED_IF),
    ],
)
def test_compare_in_the_order_of_the_verdicts(low, up, accept, outcome):
    verdict = da.compare(low, up, accept=accept)
    assert verdict.outcome is outcome
    assert verdict.contradicted == (outcome is Outcome.CONTRADICTED)
    assert str(verdict).endswith(".")
    json.dumps(verdict.to_dict())


@pytest.mark.parametrize(
    ("low", "up"),
    [
        (lower(relation="substitute"), upper()),
        (lower(relation="label"), upper(relation="substitute")),
        (lower(delta=1e-6), upper()),
        (lower(unit="user"), upper()),
        (lower(epsilon=None, delta=None, mu=1.0), upper()),
    ],
)
def test_unlike_things_are_not_compared(low, up):
    with pytest.raises(NotComparable, match="cannot be compared"):
        da.compare(low, up)


def test_a_bound_on_mu_refutes_a_gaussian_claim_without_assuming_the_family():
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    found = lower(epsilon=9.0, mu=1.5, parameter="mu", guarantee="conditional", assumptions=(GAUSSIAN_ASSUMPTION,))
    assert da.compare(found, claim).contradicted
    assert da.compare(lower(epsilon=None, delta=None, mu=0.5), claim).outcome is Outcome.CONSISTENT


# theory:adjacency#inclusions, theory:adjacency#halving
def test_implications_between_relations_are_explicit_and_sound():
    assert da.on_substitute(lower(relation="label")).relation is Relation.SUBSTITUTE
    assert da.on_substitute(lower(relation="zero-out")).epsilon == 2.0
    with pytest.raises(NotComparable):
        da.on_substitute(lower())
    half = da.on_add_remove(lower(relation="substitute", delta=0.0, ceiling=4.0))
    assert (half.epsilon, half.ceiling, half.relation) == (1.0, 2.0, Relation.ADD_REMOVE)
    assert da.on_add_remove(lower(relation="substitute", epsilon=None, delta=None, mu=3.0)).mu == 1.5
    with pytest.raises(NotComparable, match="does not halve"):
        da.on_add_remove(lower(relation="substitute"))
    with pytest.raises(NotComparable, match="only a bound under substitution"):
        da.on_add_remove(lower(delta=0.0))


def test_bounds_survive_json():
    bound = lower(assumptions=("x",), guarantee="conditional", mu=1.25, ceiling=3.0, notes=("n",))
    back = LowerBound.from_dict(json.loads(json.dumps(bound.to_dict())))
    assert back == bound
    with pytest.raises(da.InputError, match="carries no test"):
        back.p_value(1.0)
    with pytest.raises(da.InputError, match="unknown field 'x'"):
        LowerBound.from_dict({"x": 1})
    renyi = RenyiBound(
        orders=(2.0, 4.0),
        divergences=(0.1, 0.2),
        confidence=0.95,
        relation="substitute",
        method="m",
        guarantee="certified",
    )
    assert RenyiBound.from_dict(json.loads(json.dumps(renyi.to_dict()))) == renyi
    assert "D_2 >= 0.100000" in str(renyi)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: lower(confidence=95), "`confidence` must be in \\(0, 1\\), got 95"),
        (lambda: lower(guarantee="sure"), "`guarantee` must be one of"),
        (lambda: lower(assumptions=("x",)), "certified bound has no assumptions"),
        (lambda: lower(relation="x"), "`relation` must be one of"),
        (lambda: upper(epsilon=-1.0), "`epsilon` must be at least 0"),
        (lambda: upper(delta=2.0), "`delta` must be in"),
        (
            lambda: RenyiBound(
                orders=(2.0,), divergences=(), confidence=0.9, relation="label", method="", guarantee="estimate"
            ),
            "must match",
        ),
    ],
)
def test_bad_bounds_are_refused(make, match):
    with pytest.raises(da.InputError, match=match):
        make()


def test_moving_a_claim_along_its_curve():
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    assert claim.at(1e-6).epsilon == pytest.approx(da.gdp_epsilon(mu=1.0, delta=1e-6), rel=1e-8)
    assert claim.at(1e-6).epsilon >= da.gdp_epsilon(mu=1.0, delta=1e-6)
    assert upper().at(1e-6).epsilon == math.inf, "a bare pair says nothing at a smaller delta"


def test_all_numbers_of_a_bound_halve():
    bound = lower(relation="substitute", delta=0.0, epsilon=2.0, theta=2.0, ceiling=5.0)
    half = da.on_add_remove(bound)
    assert (half.epsilon, half.theta, half.value, half.ceiling) == (1.0, 1.0, 1.0, 2.5)
    mu = da.on_add_remove(lower(relation="substitute", epsilon=None, delta=None, mu=3.0, theta=3.0, parameter="mu"))
    assert (mu.mu, mu.theta, mu.value) == (1.5, 1.5, 1.5)


def test_a_moved_claim_is_rounded_up():
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    for delta in (1e-9, 1e-6, 0.01):
        exact = da.gdp_epsilon(mu=1.0, delta=delta)
        assert exact < claim.at(delta).epsilon <= exact * (1 + 1e-8)


def test_a_confidence_is_printed_rounded_down():
    assert [assumptions.percent(c) for c in (0.95, 0.975, 0.99995129, 0.5)] == ["95%", "97.5%", "99.9951%", "50%"]


@given(st.floats(0.5, 1.0, exclude_max=True))
def test_a_printed_confidence_is_never_above_itself(confidence):
    assert float(assumptions.percent(confidence)[:-1]) <= 100.0 * confidence + 1e-9
