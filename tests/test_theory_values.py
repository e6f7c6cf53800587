"""Golden numbers of docs/theory that no other test holds, one test a statement."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpaudit import estimators, gdp_epsilon
from dpaudit.estimators import _paths, _recursion, canaries, thresholds
from dpaudit.testing import ground_truth
from dpaudit.tradeoff import ApproximateDP, Gaussian, Laplace, Mixed, RandomizedResponse


def asymptote(share_right, share_wrong, gamma=0.05):
    """The bound on mu of very many canaries, of which these shares are guessed right and wrong."""
    return float(special.ndtri(gamma * share_right) - special.ndtri(gamma * share_wrong))


def test_gaussian_conversion():
    """theory:curves#families"""
    assert gdp_epsilon(mu=1.0, delta=1e-6) == pytest.approx(4.8866, abs=5e-5)
    assert gdp_epsilon(mu=1.0, delta=math.erf(1.0 / math.sqrt(8.0))) == 0.0
    assert gdp_epsilon(mu=1.0, delta=0.0) == math.inf


def test_over_report_of_the_gaussian_conversion():
    """theory:curves#gaussian-family, theory:errata#000-8"""
    mu = ground_truth.least_mu(RandomizedResponse(1.0))
    assert mu == pytest.approx(2.0 * special.ndtri(special.expit(1.0)))
    assert gdp_epsilon(mu=mu, delta=1e-5) == pytest.approx(5.58, abs=5e-3)
    table = {0.5: (0.777, 0.467), 1.0: (1.645, 0.991), 2.0: (3.430, 2.090), 4.0: (6.872, 4.341)}
    for epsilon, shown in table.items():
        a = float(special.expit(epsilon))
        for share, expected in zip((1.0, 0.01), shown, strict=True):
            found = gdp_epsilon(mu=asymptote(a * share, (1.0 - a) * share), delta=1e-5)
            assert found == pytest.approx(expected, abs=6e-4)


def test_composition_is_never_below_the_plain_shift():
    """theory:curves#mixed: also jointly convex in (r, share)."""
    rng = np.random.default_rng(1)
    for curve in (Gaussian(1.3), ApproximateDP(0.7, 0.01), Laplace(2.0), RandomizedResponse(1.5, 5)):
        r, share = rng.uniform(0.0, 1.0, (2, 300)), rng.uniform(0.0, 0.5, (2, 300))

        def g(r, share, curve=curve):
            return np.array([float(Mixed(curve, d).g(float(x))) for x, d in zip(r, share, strict=True)])

        assert np.all(g(r[0], share[0]) >= np.asarray(curve.g(r[0])) - share[0] - 1e-12)
        assert np.all(g(r.mean(axis=0), share.mean(axis=0)) <= (g(r[0], share[0]) + g(r[1], share[1])) / 2.0 + 1e-12)


def test_a_fixed_split_is_not_coins():
    """theory:adjacency#thinning: balanced guesses, nothing leaks; how far the tails exceed the binomial ones."""
    for m, expected in ((20, 2.72), (100, 1.47), (1000, 1.13)):
        counts = np.arange(m // 2, m + 1)
        coins = stats.binom.sf(counts - 1, m, 0.5)
        split = stats.hypergeom.sf(np.ceil(counts / 2) - 1, m, m // 2, m // 2)  # as many right on either side
        assert np.max((split / coins)[coins > 1e-4]) == pytest.approx(expected, abs=6e-3)


def test_sign_sum_needs_the_factor_two():
    """theory:adjacency#halving, theory:ground-truth#sign-sum"""
    x = np.linspace(-30.0, 30.0, 60_001)
    replaced = stats.laplace.logpdf(x, loc=1.0) - stats.laplace.logpdf(x, loc=-1.0)
    removed = stats.laplace.logpdf(x, loc=1.0) - stats.laplace.logpdf(x, loc=0.0)
    assert special.expit(replaced.max()) == pytest.approx(0.8808, abs=5e-5)
    assert special.expit(removed.max()) == pytest.approx(0.7311, abs=5e-5)


def test_level_of_the_band():
    """theory:selection#band"""
    assert 0.05 / thresholds.band_level(1000, 0.025) == pytest.approx(93.85, abs=0.2)


def test_held_out_numbers_pay_the_delta_term_in_full():
    """theory:selection#held-out, theory:one-run#delta"""
    for delta in (1e-5, 1e-4):
        plain = canaries.one_run_p_value(800, 200, 170, 1.0, 0.0)
        full = canaries.one_run_p_value(800, 200, 170, 1.0, delta, "full")
        assert full - plain == pytest.approx(800 * delta / (1.0 + math.e))
        assert canaries.one_run_p_value(800, 200, 170, 1.0, delta) <= full


def test_steps_are_paid_for():
    """theory:selection#steps"""
    evidence = ground_truth.GaussianSteps(steps=4, runs=200).sample(np.random.default_rng(2))
    found = estimators.by_step(evidence)
    for step, bound in found.items():
        assert bound.mu == estimators.mu_from_runs(evidence[step], confidence=1.0 - 0.05 / 4).mu


def test_no_power_from_the_largest_shift_on():
    """theory:observational#tau-max: the knapsack at delta' = tau has none either."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        m = int(rng.integers(2, 3000))
        r = int(rng.integers(1, m + 1))
        c = int(rng.integers(r // 2 + 1, r + 1))
        tau = estimators.tau_max(canaries=m, guesses=r, correct=c)
        assert canaries.one_run_p_value(m, r, c, 0.0, tau) > 0.05
        assert not _recursion.rejects(Mixed(Gaussian(0.0), tau + 1e-9).g, canaries=m, guesses=r, correct=c, level=0.05)


def test_asymptote_for_independent_canaries():
    """theory:one-run#looseness: the most confident share of independent Gaussian canaries."""
    table = {
        1.0: (0.341, 0.689, 0.796, 0.848),
        2.0: (0.685, 1.473, 1.655, 1.741),
        4.0: (1.396, 3.230, 3.483, 3.603),
    }
    for mu, expected in table.items():
        for share, value in zip((1.0, 0.1, 0.01, 0.001), expected, strict=True):

            def gap(t, mu=mu, share=share):
                return special.ndtr(t) + special.ndtr(t - mu) - share

            t = optimize.brentq(gap, -12.0, 12.0, xtol=1e-13)
            assert asymptote(special.ndtr(t), special.ndtr(t - mu)) == pytest.approx(value, abs=6e-4)


def test_excess_under_prior_odds():
    """theory:zero-run#signed: what delta can add to a guess about a row of known propensity."""
    pi, epsilon = np.meshgrid(np.linspace(1e-6, 1.0 - 1e-6, 401), np.linspace(0.0, 6.0, 61))
    grow, odds = np.exp(epsilon), pi / (1.0 - pi)
    both = pi / (1.0 + grow * odds) + (1.0 - pi) / (1.0 + grow / odds)
    q = pi * (1.0 - pi)
    assert np.allclose(both, q * (1.0 + grow) / (grow + q * (grow - 1.0) ** 2))
    assert np.all(both <= 1.0 / (1.0 + grow) + 1e-12)
    assert _paths.excess(1, 0.7, 1.0) == pytest.approx(1.0 / (1.0 + math.exp(0.7)))


def test_tampering_keeps_the_curve():
    """theory:zero-run#tampered: g(b p) <= g(p) / beta + (1 - b) p with b = (1 + 1 / beta) / 2, for every curve."""
    p = np.linspace(0.0, 1.0, 801)
    for beta, kept in ((1.5, 0.8333), (3.0, 0.6667), (10.0, 0.55)):
        b = (1.0 + 1.0 / beta) / 2.0
        assert b == pytest.approx(kept, abs=5e-5)
        for curve in (Gaussian(0.3), Gaussian(3.0), ApproximateDP(2.0), Laplace(1.0), RandomizedResponse(3.0, 4)):
            g = np.asarray(curve.g(p))
            assert np.all(np.asarray(curve.g(b * p)) <= g / beta + (1.0 - b) * p + 1e-12)


def test_shift_as_a_gaussian():
    """theory:zero-run#composition: mu_DS, and G_mu_DS lies below f_(e_DS, 0)."""
    x = np.linspace(0.0, 1.0, 2001)
    for shift, expected in ((0.5, 0.6239), (1.0, 1.2320), (2.0, 2.3580)):
        mu = 2.0 * float(special.ndtri(special.expit(shift)))
        assert mu == pytest.approx(expected, abs=5e-5)
        assert np.all(Gaussian(mu).f(x) <= ApproximateDP(shift).f(x) + 1e-12)


def test_the_worst_score_rises_with_the_sum():
    """theory:ground-truth#s1-score"""
    from dpaudit.attacks import worst_case_score

    sums = np.linspace(-20.0, 20.0, 81)
    found = worst_case_score(sums, sampling_rate=0.3, steps=20, noise_multiplier=0.8)
    assert np.all(np.diff(found) > 0.0)
    assert found == pytest.approx(-found[::-1], abs=1e-9)


def test_the_published_conversion_is_none_for_lower_bounds():
    """theory:private-prediction#pure-dp: reveal everything with probability d / 2."""
    d = 0.01
    present, absent = np.array([d / 2.0, 0.0, 1.0 - d / 2.0]), np.array([0.0, d / 2.0, 1.0 - d / 2.0])
    assert np.any((absent == 0.0) & (present > 0.0))  # every Renyi divergence is infinite
    assert np.maximum(present - absent, 0.0).sum() <= d  # and epsilon at delta = d is 0
