"""Renyi divergences against direct sums, and the one conversion of a lower bound that is valid."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpaudit as da
from dpaudit import tradeoff


def test_against_direct_sums():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    found = da.renyi_divergence(p, q, orders=[1, 2, 7.5, math.inf])
    assert found[0] == pytest.approx(np.sum(p * np.log(p / q)))
    assert found[1] == pytest.approx(np.log(np.sum(p**2 / q)))
    assert found[2] == pytest.approx(np.log(np.sum(p**7.5 * q**-6.5)) / 6.5)
    assert found[3] == pytest.approx(np.log(2.5))
    assert np.all(np.diff(found) > 0)
    assert da.renyi_divergence([1.0, 0.0], [0.0, 1.0], orders=2)[0] == math.inf
    assert da.renyi_divergence([1.0, 0.0], [0.5, 0.5], orders=2)[0] == pytest.approx(math.log(2))


@given(st.floats(0.01, 6), st.floats(1.1, 50))
# theory:private-prediction#pure-dp
def test_pure_dp_inversion_puts_back(epsilon, order):
    value = tradeoff.pure_dp_renyi(epsilon, order)
    found = da.epsilon_from_renyi(value, order=order)
    assert found == pytest.approx(epsilon, rel=1e-6)
    curve = math.log((math.exp(order * epsilon) + math.exp((1 - order) * epsilon)) / (1 + math.exp(epsilon))) / (
        order - 1
    )
    assert value == pytest.approx(curve, rel=1e-9)


def test_pure_dp_inversion_keeps_its_digits_far_out():
    for epsilon in (34.0, 36.2, 60.0, 300.0):
        assert da.epsilon_from_renyi(tradeoff.pure_dp_renyi(epsilon, 2.0), order=2.0) <= epsilon * (1 + 1e-9)


def test_monotone_corners():
    rng = np.random.default_rng(0)
    for _ in range(300):
        q, p, more = np.sort(rng.uniform(0.01, 0.99, 3))
        assert tradeoff.bernoulli_renyi(more, q, 3.0) >= tradeoff.bernoulli_renyi(p, q, 3.0)
        assert tradeoff.bernoulli_renyi(more, p, 3.0) <= tradeoff.bernoulli_renyi(more, q, 3.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: da.renyi_divergence([0.5, 0.6], [0.5, 0.5], orders=2), "`p` must be probabilities"),
        (lambda: da.renyi_divergence([0.5, 0.5], [0.3, 0.3, 0.4], orders=2), "one length"),
        (lambda: da.renyi_divergence([0.5, 0.5], [0.5, 0.5], orders=[]), "at least one order"),
        (lambda: da.renyi_divergence([0.5, 0.5], [0.5, 0.5], orders=0.5), "`orders` must be at least 1"),
        (lambda: da.epsilon_from_renyi(-1.0, order=2.0), "`value` must be at least 0"),
    ],
)
def test_misuse(call, match):
    with pytest.raises(da.InputError, match=match):
        call()
