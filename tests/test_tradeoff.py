"""Curves against direct quadrature, their own inverses, and golden numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

import dpaudit as da
from dpaudit import tradeoff
from dpaudit.tradeoff import ApproximateDP, Gaussian, Laplace, Mixed, PiecewiseLinear, RandomizedResponse

CURVES = [
    Gaussian(0.0),
    Gaussian(1.0),
    Gaussian(3.0),
    ApproximateDP(1.0, 0.01),
    ApproximateDP(0.0, 0.2),
    Laplace(0.5),
    Laplace(3.0),
    RandomizedResponse(1.0, 2),
    RandomizedResponse(2.0, 7),
    Mixed(Gaussian(1.0), 0.03),
    PiecewiseLinear([0, 0.1, 0.5, 1], [0.02, 0.4, 0.9, 1]),
]


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_curve_is_a_trade_off_function(curve):
    x = np.linspace(0, 1, 401)
    fbar = curve.fbar(x)
    assert np.all(np.diff(fbar) >= -1e-12)
    assert np.all(fbar >= x - 1e-12)
    assert np.all(np.diff(fbar, 2) <= 1e-9), "fbar must be concave"
    np.testing.assert_allclose(curve.f(x), 1 - fbar, atol=1e-12)


@pytest.mark.parametrize("curve", CURVES, ids=repr)
def test_g_is_the_inverse_of_fbar_for_arrays_and_floats(curve):
    r = np.linspace(0.001, 0.999, 199)
    g = curve.g(r)
    np.testing.assert_allclose([float(curve.g(float(v))) for v in r], g, atol=1e-13)
    assert np.all(curve.fbar(g) >= r - 1e-9)
    inside = g > 1e-9
    assert np.all(curve.fbar(np.maximum(g[inside] - 1e-7, 0)) <= r[inside] + 1e-6)


@pytest.mark.parametrize("curve", CURVES, ids=repr)
# theory:curves#families
def test_delta_is_the_largest_gap_and_epsilon_puts_back(curve):
    x = np.unique(np.concatenate([np.linspace(0, 1, 200001), np.geomspace(1e-9, 1, 2001)]))
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        both = max(np.max(curve.fbar(x) - math.exp(epsilon) * x), np.max(1 - x - math.exp(epsilon) * curve.f(x)))
        assert curve.delta(epsilon) == pytest.approx(max(both, 0.0), abs=1e-5)
    for delta in (0.05, 0.1, 0.3):
        epsilon = curve.epsilon(delta)
        if 0 < epsilon < math.inf:
            assert curve.delta(epsilon) == pytest.approx(delta, abs=1e-12)


def test_laplace_curve_against_quadrature():
    epsilon = 1.3
    distribution = stats.laplace(scale=1 / epsilon)
    for target in (0.2, 0.7, 1.1):
        pieces = integrate.quad(
            lambda t, e=target: max(distribution.pdf(t - 1) - math.exp(e) * distribution.pdf(t), 0),
            -30,
            30,
            points=[0, 1],
        )
        assert Laplace(epsilon).delta(target) == pytest.approx(pieces[0], abs=1e-7)
    thresholds = np.linspace(-3, 4, 41)
    np.testing.assert_allclose(
        Laplace(epsilon).f(distribution.sf(thresholds)), distribution.cdf(thresholds - 1), atol=1e-12
    )


def test_k_ary_response_against_enumeration():
    epsilon, classes = 1.5, 4
    p = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    q = 1 / (math.exp(epsilon) + classes - 1)
    first, second = [p] + [q] * 3, [q, p] + [q] * 2
    for target in (0.0, 0.5, 1.4):
        exact = sum(max(a - math.exp(target) * b, 0) for a, b in zip(first, second, strict=True))
        assert RandomizedResponse(epsilon, classes).delta(target) == pytest.approx(exact, abs=1e-14)


@pytest.mark.parametrize(
    ("mu", "epsilon", "expected"),
    [  # mpmath, 400 digits: Q(e/mu - mu/2) - exp(e) Q(e/mu + mu/2)
        (1.0, 1.0, 0.126936737506644),
        (1e-6, 1e-6, 8.33155122454254e-08),
        (1e-6, 3.59999995e-05, 1.1600957282158748e-291),
        (0.3, 10.8, 7.619234224672301e-284),
        (50.0, 1249.0001331842982, 0.5),
    ],
)
def test_gdp_delta_golden(mu, epsilon, expected):
    assert da.gdp_delta(mu=mu, epsilon=epsilon) == pytest.approx(expected, rel=1e-11)


@given(st.floats(-6, 1.69), st.floats(-299, -0.01))
def test_gdp_epsilon_puts_back_in_every_tail(log_mu, log_delta):
    mu, delta = 10.0**log_mu, 10.0**log_delta
    epsilon = da.gdp_epsilon(mu=mu, delta=delta)
    if epsilon == 0:
        assert math.erf(mu / math.sqrt(8)) <= delta * (1 + 1e-12)
    else:
        assert da.gdp_delta(mu=mu, epsilon=epsilon) == pytest.approx(delta, rel=1e-9)


def test_gdp_edges():
    assert da.gdp_epsilon(mu=0.0, delta=0.0) == 0.0
    assert da.gdp_epsilon(mu=1.0, delta=0.0) == math.inf
    assert da.gdp_epsilon(mu=1.0, delta=1.0) == 0.0
    assert da.gdp_epsilon(mu=math.inf, delta=0.5) == math.inf
    assert da.gdp_delta(mu=0.0, epsilon=0.0) == 0.0
    with pytest.raises(da.InputError, match="`delta` must be in"):
        da.gdp_epsilon(mu=1.0, delta=-1e-9)
    with pytest.raises(da.InputError, match="`mu` must be at least 0"):
        da.gdp_delta(mu=-1.0, epsilon=1.0)


def test_curve_from_pairs_is_pessimistic_and_close():
    epsilons = np.linspace(-9, 9, 1001)
    gaussian = Gaussian(1.0)
    deltas = [gaussian.delta(e) if e >= 0 else 1 - math.exp(e) * (1 - gaussian.delta(-e)) for e in epsilons]
    curve = tradeoff.from_pairs(epsilons, deltas)
    x = np.linspace(0, 1, 501)
    gap = curve.fbar(x) - gaussian.fbar(x)
    assert gap.min() >= -1e-12
    assert gap.max() < 2e-5
    assert gaussian.epsilon(1e-5) <= curve.epsilon(1e-5) <= gaussian.epsilon(1e-5) + 1e-3


# theory:curves#symmetric
def test_symmetric_envelope_is_least_private_of_both_directions():
    curve = PiecewiseLinear([0, 0.05, 0.4, 1], [0.0, 0.5, 0.8, 1])
    both, other = curve.symmetric(), curve.inverse()
    x = np.linspace(0, 1, 301)
    assert np.all(both.fbar(x) >= np.maximum(curve.fbar(x), other.fbar(x)) - 1e-12)
    np.testing.assert_allclose(both.inverse().fbar(x), both.fbar(x), atol=1e-12)
    assert both.epsilon(0.01) == pytest.approx(curve.epsilon(0.01))


def test_two_steps_of_a_curve_compose_as_group_privacy():
    single = tradeoff.from_pairs([-1.0, 1.0], [1 - math.exp(-1), 0.0])
    twice = single.then(single)
    assert twice.epsilon(0.0) == pytest.approx(2.0)
    with pytest.raises(da.InputError, match="sure event"):
        tradeoff.from_pairs([-1.0], [0.0])


# theory:curves#mixed
def test_shifted_curve_is_never_below_the_papers_form():
    tau, r = 0.01, np.linspace(0.0, 1, 501)
    ours, paper = Mixed(Gaussian(1.0), tau).g(r), np.maximum(0, Gaussian(1.0).g(r) - tau)
    assert np.all(ours >= paper - 1e-12)
    assert float(Mixed(Gaussian(1.0), tau).g(0.05)) == pytest.approx(0.0030, abs=1e-4)  # theory:curves#mixed


@pytest.mark.parametrize(
    ("x", "y"),
    [([0, 1], [0, 0.9]), ([0, 0.5, 0.4, 1], [0, 0.5, 0.6, 1]), ([0, 0.5, 1], [0, 0.2, 1]), ([0.1, 1], [0.5, 1])],
)
def test_vertices_that_are_no_curve_are_refused(x, y):
    with pytest.raises(da.InputError):
        PiecewiseLinear(x, y)


@pytest.mark.parametrize("theta", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_converted_lower_bounds_are_rounded_down(theta, delta):
    exact = (
        (tradeoff.GAUSSIAN, da.gdp_epsilon(mu=theta, delta=delta)),
        (tradeoff.LAPLACE, Laplace(theta).epsilon(delta)),
        (tradeoff.randomized_response(5), RandomizedResponse(theta, 5).epsilon(delta)),
    )
    for family, epsilon in exact:
        assert epsilon * (1 - 1e-8) <= family.epsilon(theta, delta) < epsilon


def test_epsilon_of_a_lopsided_curve_by_hand():
    """Through (0.4, 0.8): present over absent is 2 at most, absent over present (1 - 0.4) / (1 - 0.8) = 3."""
    curve = PiecewiseLinear(np.array([0.0, 0.4, 1.0]), np.array([0.0, 0.8, 1.0]))
    assert curve.epsilon(0.0) == pytest.approx(math.log(3.0))
    assert curve.epsilon(0.1) == pytest.approx(math.log(2.5))
    assert curve.inverse().epsilon(0.0) == pytest.approx(math.log(3.0))
