"""Golden numbers of docs/theory, one test a statement.

What `printed` and `row` give is read from the page, so a number that is changed there turns its test red; the list of
statements that are read stands in docs/theory/README.md, and a test compares it.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special, stats

from dpaudit import MatchedScores, _binomial, accounting, estimators, gdp_epsilon, mechanisms
from dpaudit.estimators import analyses, canaries, matched, matched_results, thresholds
from dpaudit.estimators.conditional import Stratified, least_beyond
from dpaudit.games import _matched_checks
from dpaudit.testing import calibration, ground_truth
from dpaudit.tradeoff import (
    ApproximateDP,
    Gaussian,
    Laplace,
    Mixed,
    RandomizedResponse,
    bernoulli_renyi,
    gdp_delta,
)
from tests import pages
from tests.pages import printed, row


def asymptote(share_right, share_wrong, gamma=0.05):
    """The bound on mu of very many canaries, of which these shares are guessed right and wrong."""
    return float(special.ndtri(gamma * share_right) - special.ndtri(gamma * share_wrong))


def test_gaussian_conversion():
    """theory:curves#families"""
    at_1e6 = gdp_epsilon(mu=1.0, delta=1e-6)
    assert gdp_delta(mu=1.0, epsilon=1.0) == printed("curves#families", "delta of mu = 1 at epsilon 1: {}")
    assert gdp_epsilon(mu=1.0, delta=1e-5) == printed("curves#families", "epsilon of mu = 1 at delta 1e-5: {}")
    assert at_1e6 == printed("curves#families", "epsilon at delta 1e-6: {}")
    assert gdp_epsilon(mu=1.0, delta=math.erf(1.0 / math.sqrt(8.0))) == 0.0
    assert gdp_epsilon(mu=1.0, delta=0.0) == math.inf


def test_over_report_of_the_gaussian_conversion():
    """theory:curves#gaussian-family, theory:errata#000-8"""
    mu = ground_truth.least_mu(RandomizedResponse(1.0))
    assert mu == pytest.approx(2.0 * special.ndtri(special.expit(1.0)))
    place = "curves#gaussian-family"
    assert mu == printed(place, "first at mu = 2 Phi^-1(sig(1)) = {},")
    assert mu == printed(place, "**Golden values.** {} (")
    assert gdp_epsilon(mu=mu, delta=1e-5) == printed(place, "has epsilon(1e-5) = {}.")
    right = float(special.expit(1.0))
    seen = asymptote(right, 1.0 - right)
    assert (seen, gdp_epsilon(mu=seen, delta=1e-5)) == printed(place, "reads its mu as {}, and reports epsilon {}.")
    table = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        a = float(special.expit(epsilon))
        table.append(tuple(gdp_epsilon(mu=asymptote(a * x, (1.0 - a) * x), delta=1e-5) for x in (1.0, 0.01)))
        assert table[-1] == printed(place, f" {epsilon:g} -> {{}}, {{}}")
    everything, few = zip(*table, strict=True)
    words = "epsilon 0.5 is reported as {}, 1 as {}, 2 as {}, 4 as {};"
    assert everything == printed("errata#000-8", words)
    assert few == printed("errata#000-8", "with 1 % guessed as {}, {}, {}, {}.")


def test_a_shifted_curve():
    """theory:curves#mixed, theory:errata#000-4"""
    plain, composed = (float(curve.g(0.05)) for curve in (Gaussian(1.0), Mixed(Gaussian(1.0), 0.01)))
    assert (plain, composed) == printed("curves#mixed", "r = 0.05: g = {}, the composed curve {},")
    assert plain < 0.01
    assert composed == printed("errata#000-4", "0 by the paper's shift, {} by composition")


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
    words = "up to {} times (m = 20), {} (m = 100), {} (m = 1000)"
    for m, expected in zip((20, 100, 1000), printed("adjacency#thinning", words), strict=True):
        counts = np.arange(m // 2, m + 1)
        coins = stats.binom.sf(counts - 1, m, 0.5)
        split = stats.hypergeom.sf(np.ceil(counts / 2) - 1, m, m // 2, m // 2)  # as many right on either side
        assert np.max((split / coins)[coins > 1e-4]) == expected


def test_sign_sum_needs_the_factor_two():
    """theory:adjacency#halving, theory:ground-truth#sign-sum"""
    x = np.linspace(-30.0, 30.0, 60_001)
    replaced = stats.laplace.logpdf(x, loc=1.0) - stats.laplace.logpdf(x, loc=-1.0)
    removed = stats.laplace.logpdf(x, loc=1.0) - stats.laplace.logpdf(x, loc=0.0)
    assert special.expit(replaced.max()) == printed("adjacency#halving", "posterior sig(2 eps) = {} at eps = 1")
    assert special.expit(removed.max()) == printed("adjacency#halving", "against sig(1) = {}")


def test_level_of_the_band():
    """theory:selection#band"""
    level = printed("selection#band", "n = 1000, alpha = 0.05 for both sides: eta = alpha/{} (")
    assert 0.05 / thresholds.band_level(1000, 0.025) == level


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
        assert not _binomial.recursion_rejects(
            Mixed(Gaussian(0.0), tau + 1e-9).g, canaries=m, guesses=r, correct=c, level=0.05
        )


def test_asymptote_for_independent_canaries():
    """theory:one-run#looseness: the most confident share of independent Gaussian canaries."""
    place = "one-run#looseness"
    for mu in (1.0, 2.0, 4.0):
        for share, value in zip(
            (1.0, 0.1, 0.01, 0.001), printed(place, f"mu = {mu:g}: {{}}, {{}}, {{}}, {{}}"), strict=True
        ):

            def gap(t, mu=mu, share=share):
                return special.ndtr(t) + special.ndtr(t - mu) - share

            t = optimize.brentq(gap, -12.0, 12.0, xtol=1e-13)
            assert asymptote(special.ndtr(t), special.ndtr(t - mu)) == value
    a = printed(place, "mu = 1, gamma = 0.05, rho = 1: a = {}", close=float)
    assert asymptote(a, 1.0 - a) == pytest.approx(1.0, abs=2e-4)


def test_right_guesses_of_one_run():
    """theory:one-run#pure, theory:one-run#f-dp, theory:one-run#published-delta"""
    found = estimators.one_run_epsilon(canaries=100, guesses=100, correct=100)
    assert found == printed("one-run#pure", "100 of 100 right: {}")
    same = {"canaries": 1000, "guesses": 1000, "correct": 760}
    expected = printed("one-run#f-dp", "c = 760: {}, where the binomial tail is {} (")
    assert (
        _binomial.recursion_p_value(ApproximateDP(1.0).g, **same),
        stats.binom.sf(759, 1000, special.expit(1.0)),
    ) == expected
    found = estimators.one_run_mu(canaries=1000, guesses=200, correct=175)
    assert found == printed("one-run#f-dp", "`one_run_mu(1000, 200, 175)` = {}")
    terms = tuple(canaries.one_run_p_value(3, 3, 1, 0.2, 1.09e-4, term) for term in ("published", "knapsack"))
    assert terms == printed("one-run#published-delta", "the formula says {}, and the knapsack {}")


def test_delta_terms():
    """theory:one-run#delta"""
    place = "one-run#delta"
    for m, epsilon, words in (
        (1000, 1.0, "m = 1000, epsilon = 1, delta = 1e-5: {};"),
        (10_000, 4.0, "m = 1e4, epsilon = 4: {};"),
        (100_000, 4.0, "m = 1e5, epsilon = 4: {},"),
    ):
        v = int(stats.binom.isf(0.01, m, special.expit(epsilon))) + 1
        plain, paid = (canaries.one_run_p_value(m, m, v, epsilon, delta) for delta in (0.0, 1e-5))
        assert paid - plain == pytest.approx(printed(place, words, close=float), rel=0.12)


def test_largest_reportable_values():
    """theory:multi-run#clopper-pearson"""
    place = "multi-run#clopper-pearson"
    for runs, words in ((100, "n = 100 a side: epsilon {}, mu {};"), (1000, "n = 1000: {}, {} (")):
        of = {"false_positives": 0, "negatives": runs, "false_negatives": 0, "positives": runs}
        found = estimators.clopper_pearson_epsilon(**of), estimators.clopper_pearson_mu(**of)
        assert found == printed(place, words)


def test_default_ranks():
    """theory:selection#null-ranks"""
    for runs, count, words in ((1000, 6, "ranks for 1000 null runs: "), (2000, 9, "; for 2000: ")):
        ranks = printed("selection#null-ranks", words + ", ".join(["{}"] * count), close=int)
        assert list(ranks) == thresholds.null_ranks(thresholds.RankGrid(), runs, extreme=True)


def test_largest_shift_of_an_example():
    """theory:observational#tau-max"""
    found = estimators.tau_max(canaries=1000, guesses=100, correct=95)
    assert found == printed("observational#tau-max", "m = 1000, 95 of 100, alpha = 0.05: {}")


def test_excess_under_prior_odds():
    """theory:zero-run#signed: what delta can add to a guess about a row of known propensity."""
    pi, epsilon = np.meshgrid(np.linspace(1e-6, 1.0 - 1e-6, 401), np.linspace(0.0, 6.0, 61))
    grow, odds = np.exp(epsilon), pi / (1.0 - pi)
    both = pi / (1.0 + grow * odds) + (1.0 - pi) / (1.0 + grow / odds)
    q = pi * (1.0 - pi)
    assert np.allclose(both, q * (1.0 + grow) / (grow + q * (grow - 1.0) ** 2))
    assert np.all(both <= 1.0 / (1.0 + grow) + 1e-12)
    assert _binomial.excess(1, 0.7, 1.0) == pytest.approx(1.0 / (1.0 + math.exp(0.7)))


def test_tampering_keeps_the_curve():
    """theory:zero-run#tampered: g(b p) <= g(p) / beta + (1 - b) p with b = (1 + 1 / beta) / 2, for every curve."""
    p = np.linspace(0.0, 1.0, 801)
    place, words = "zero-run#tampered", "b = {}, {}, {} at e^L = 1.5, 3, 10, where the paper keeps {}, {}, {};"
    kept = printed(place, words)
    assert kept[3:] == (1.0 / 1.5, 1.0 / 3.0, 1.0 / 10.0)
    for beta, expected in zip((1.5, 3.0, 10.0), kept[:3], strict=True):
        b = (1.0 + 1.0 / beta) / 2.0
        assert b == expected
        for curve in (Gaussian(0.3), Gaussian(3.0), ApproximateDP(2.0), Laplace(1.0), RandomizedResponse(3.0, 4)):
            g = np.asarray(curve.g(p))
            assert np.all(np.asarray(curve.g(b * p)) <= g / beta + (1.0 - b) * p + 1e-12)


def test_shift_as_a_gaussian():
    """theory:zero-run#composition: mu_DS, and G_mu_DS lies below f_(e_DS, 0)."""
    x = np.linspace(0.0, 1.0, 2001)
    expected = printed("zero-run#composition", "mu_DS = {}, {}, {} at e_DS = 0.5, 1, 2")
    for shift, value in zip((0.5, 1.0, 2.0), expected, strict=True):
        mu = 2.0 * float(special.ndtri(special.expit(shift)))
        assert mu == value
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


def test_renyi_conversion_of_a_gaussian():
    """theory:errata#002-8: read as a lower bound, even the exact Renyi curve says too much."""
    orders = np.geomspace(1.001, 400.0, 100_000)

    def converted(mu, delta):
        """By theorem 1, and by the best conversion that is known."""
        plain = orders * mu**2 / 2.0 + math.log(1.0 / delta) / (orders - 1.0)
        spared = np.log1p(-1.0 / orders) - np.log(orders) / (orders - 1.0)
        return plain.min(), (plain + spared).min()

    plain, best = converted(1.0, 1e-6)
    words = "conversion says epsilon {}, where {} is exact (and the plain one {})"
    assert (best, gdp_epsilon(mu=1.0, delta=1e-6), plain) == printed("errata#002-8", words)
    over = [converted(mu, d)[1] / gdp_epsilon(mu=mu, delta=d) for mu in (0.5, 1.0, 2.0) for d in (1e-5, 1e-6)]
    low, high = printed("errata#002-8", ": {} to {} % too much", close=float)
    assert low / 100.0 < min(over) - 1.0 < low / 100.0 + 0.01
    assert high / 100.0 - 0.01 < max(over) - 1.0 < high / 100.0


def mixture_tails(t, steps, rate, deviation):
    """P(k + noise > t) and P(k + noise <= t), k ~ Bin(steps, rate)."""
    k = np.arange(steps + 1)
    weights = stats.binom.pmf(k, steps, rate)
    return weights @ special.ndtr((k - t) / deviation), weights @ special.ndtr((t - k) / deviation)


def exact_s1(steps, rate, deviation, delta=1e-5):
    """epsilon(delta) of k + noise against -k + noise: the ratio rises, so the best event is a threshold."""
    k = np.arange(steps + 1)
    weights = stats.binom.logpmf(k, steps, rate)

    def log_ratio(t):
        here, there = (special.logsumexp(weights - (t - s * k) ** 2 / (2.0 * deviation**2)) for s in (1.0, -1.0))
        return here - there

    def left(epsilon):
        t = optimize.brentq(lambda t: log_ratio(t) - epsilon, 0.0, steps * (1.0 + deviation))
        return (
            mixture_tails(t, steps, rate, deviation)[0] - math.exp(epsilon) * alarm(t, steps, rate, deviation) - delta
        )

    return optimize.brentq(left, 1e-3, 40.0, xtol=1e-5)


def alarm(t, *of):
    """P(-k + noise > t)."""
    return mixture_tails(-t, *of)[1]


@pytest.mark.parametrize("case", [("500", "0.25", "5"), ("500", "0.0625", "0.8"), ("100", "0.01", "0.8")])
def test_s1_is_not_gaussian(case):
    """theory:ground-truth#s1-score: what a cut's mu converts to lies below the exact epsilon, further out above."""
    steps, rate, sigma = int(case[0]), float(case[1]), float(case[2])
    of = (steps, rate, math.sqrt(steps) * sigma)

    def through(rate_of_alarms):
        t = optimize.brentq(lambda t: math.log(alarm(t, *of) / rate_of_alarms), 0.0, 6.0 * of[2])
        mu = float(-special.ndtri(alarm(t, *of)) - special.ndtri(mixture_tails(t, *of)[1]))
        return gdp_epsilon(mu=mu, delta=1e-5)

    found = (exact_s1(*of), through(alarm(0.0, *of)), through(1.6e-4), through(2e-5))
    assert found == row("ground-truth#s1-score", case)
    assert found[1] < found[0]


def test_planned_guesses_are_near_the_table():
    """theory:power#plan-guesses: the table's number shows at most 2 % more than the planned one, which uses no data."""
    assert analyses.plan_guesses(canaries=10_000, claim=Gaussian(1.0)) == printed(
        "power#plan-guesses", "m = 10,000, mu = 1: {} ("
    )
    for canaries_ in (1000, 10_000, 100_000, 1_000_000):
        for mu, table in enumerate(row("power#plan-guesses", (f"{canaries_:,}",), close=int), 1):
            planned = analyses.plan_guesses(canaries=canaries_, claim=Gaussian(float(mu)))
            shown = [analyses._planned(Gaussian(float(mu)), canaries_, n, 0.05) for n in (planned, table)]
            assert 0.98 <= shown[0] / shown[1] <= 1.03, (canaries_, mu)


@pytest.mark.parametrize(
    ("name", "curve"),
    [
        ("epsilon = 1", ApproximateDP(1.0)),
        ("epsilon = 2, delta = 1e-5", ApproximateDP(2.0, 1e-5)),
        ("Laplace epsilon = 1", Laplace(1.0)),
        ("mu = 1", Gaussian(1.0)),
    ],
)
def test_steps_at_the_decision_boundary(name, curve, monkeypatch):
    """theory:power#cost: each step but the last asks whether the rest can be spared."""
    steps, asked = 0, _binomial._settles_below

    def counted(*args, **how):
        nonlocal steps
        steps += 1
        return asked(*args, **how)

    monkeypatch.setattr(_binomial, "_settles_below", counted)

    def decided(guesses, correct):
        nonlocal steps
        steps = 1
        same = {"canaries": guesses, "guesses": guesses, "correct": correct, "level": 0.05}
        return _binomial.recursion_rejects(curve.g, **same), steps

    found = []
    for guesses in (100_000, 1_000_000):
        low, high = 0, guesses
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if decided(guesses, middle)[0] else (middle, high)
        found += [decided(guesses, high)[1], decided(guesses, low)[1]]
    expected = row("power#cost", (name,), close=float)
    assert found == [pytest.approx(n, rel=0.02, abs=2 if n > 2 else 0) for n in expected]


def test_mechanisms_of_known_privacy():
    """theory:ground-truth#mechanisms, theory:ground-truth#subsampled-gaussian"""
    allowed = printed("ground-truth#mechanisms", "{} of 400, {} of 1000, {} of 2000 at alpha = 0.05", close=int)
    assert allowed == tuple(calibration.allowed_over_claims(n, 0.95) for n in (400, 1000, 2000))
    found = [
        accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=1, delta=1e-5, relation=one).curve.delta(0.5)
        for one in ("add-remove", "substitute")
    ]
    words = "delta {} under add/remove, {} under substitution"
    assert tuple(found) == printed("ground-truth#subsampled-gaussian", words)


def test_answers():
    """theory:private-prediction#fixed-votes, #two-cut and #composition"""
    found = mechanisms.noisy_argmax_probabilities([14, 12, 10, 8, 6], sigma=2.0)
    votes = printed("private-prediction#fixed-votes", "votes 14, 12, 10, 8, 6, sigma = 2: {}, {}, {}, {}, {} (")
    assert tuple(found) == votes
    two_cut = printed("private-prediction#two-cut", "p = 0.1358, q = 0.1289, order 2: d = {},")
    assert bernoulli_renyi(0.1358, 0.1289, 2.0) == two_cut
    one = ground_truth.LatentBit(queries=1).joint_divergence(2.0)
    for queries, words in ((2, "2 answers: joint {}, sum {};"), (50, "50 answers: {} against {}.")):
        joint = ground_truth.LatentBit(queries=queries).joint_divergence(2.0)
        assert (joint, queries * one) == printed("private-prediction#composition", words)


def guesses_at(rows, *, chance=0.5, values=2):
    """Right guesses at so many audited rows, no placebo rows."""
    of = {"scores": np.ones(rows), "right": np.ones(rows, dtype=bool), "audited": np.ones(rows, dtype=bool)}
    return MatchedScores(**of, chance=np.full(rows, chance), values=values, relation="label")


def test_how_often_a_guess_may_be_right():
    """theory:placebo#lemma"""
    expected = printed("placebo#lemma", "Epsilon 1: h(0.5) = {}, h(0.1) = {}, h(0.9) = {} (")
    for chance, value in zip((0.5, 0.1, 0.9), expected, strict=True):
        one = matched.AgainstProxy.of_audited(guesses_at(1, chance=chance), 0.05)
        assert one.p_value(1.0, matched.NONE) == value


def test_right_guesses_that_delta_adds():
    """theory:placebo#delta"""
    place = "placebo#delta"
    k, delta = 100, 0.04
    right, allowed = printed(place, "is right with probability {}, where delta/(1 + e^epsilon) would allow {}.")
    assert 1.0 / k + matched.mean_excess(guesses_at(1, values=k), delta) == right
    assert 1.0 / k + _binomial.excess(1, 0.0, delta) == allowed
    for words, delta, k in (
        ("delta = 1e-5, k = 2: d = {}, paid {};", 1e-5, 2),
        ("delta = 1e-4, k = 2: d = {}, paid {};", 1e-4, 2),
        ("delta = 1e-3, k = 10: d = {}, paid {} (", 1e-3, 10),
    ):
        found = matched.forgiven_guesses(guesses_at(2000, values=k), delta, 0.05)
        assert (found.guesses, found.slack) == printed(place, words)


def test_epsilons_at_which_a_mu_is_tested():
    """theory:placebo#mu"""
    expected = printed("placebo#mu", "e_mu = {}, {}, {} at mu = 0.5, 1, 2")
    found = [matched.least_epsilon(guesses_at(2000), Gaussian(mu), 0.05) for mu in (0.5, 1.0, 2.0)]
    assert tuple(found) == expected


def test_guesses_of_two_tables():
    """theory:placebo#conditional"""
    place = "placebo#conditional"
    words = "(C, r, C0, r0) = (9, 10, 5, 10): p = {}, {}, {} at epsilon 0, 1, 2."
    one = Stratified([9], [10], [5], [10])
    assert tuple(one.p_value(epsilon) for epsilon in (0.0, 1.0, 2.0)) == printed(place, words)

    def bound(found, level):
        return _binomial.bisect(lambda epsilon: found.p_value(epsilon) <= level, cap=12.0)[0]

    shown = printed(
        place,
        "level 0.05: (9, 10, 5, 10) shows {}; (90, 100, 50, 100) shows {}; (900, 1000, 500, 1000) shows {}; "
        "(115, 125, 94, 192) shows {}; at level 0.01 (120, 125, 93, 192) shows {}.",
    )
    counts = [(9, 10, 5, 10), (90, 100, 50, 100), (900, 1000, 500, 1000), (115, 125, 94, 192), (120, 125, 93, 192)]
    levels = (0.05, 0.05, 0.05, 0.05, 0.01)
    found = [bound(Stratified(*([n] for n in four)), level) for four, level in zip(counts, levels, strict=True)]
    assert tuple(found) == shown
    two = Stratified([80, 10], [90, 40], [50, 6], [100, 60])
    words = "(80, 90, 50, 100) and (10, 40, 6, 60): p = {}, {}, {} at epsilon 0, 1, 1.5;"
    assert tuple(two.p_value(epsilon) for epsilon in (0.0, 1.0, 1.5)) == printed(place, words)
    words = "the bound is {} at level 0.05 and {} at level 0.01"
    assert (bound(two, 0.05), bound(two, 0.01)) == printed(place, words)


def test_shares_of_placebo_rows():
    """theory:placebo#matched"""
    place = "placebo#matched"
    assert matched.SPENT * 0.05 / (12 * (len(matched.ranks_of(2000)) - 1)) == pytest.approx(0.005 / 36)
    for words, of in (
        ("r0_g = {} at (m_g, r_g, m0_g) = (2000, 500, 2000),", (2000, 2000, 500)),
        ("{} at (2000, 125, 2000),", (2000, 2000, 125)),
        ("{} at (2000, 31, 2000),", (2000, 2000, 31)),
        ("{} at (2000, 500, 500) (", (2000, 500, 500)),
    ):
        assert least_beyond(*of, 0.005 / 36) == printed(place, words, close=int)


def test_guesses_that_a_proxy_may_miss():
    """theory:placebo#tau"""
    place = "placebo#tau"
    small, large = (matched.AgainstProxy.of_audited(guesses_at(2000), 0.05, tau) for tau in (0.0005, 0.002))
    words = "d = {} and {} for tau = 0.0005 at epsilon 0 and 1;"
    assert tuple(small._missed(epsilon) for epsilon in (0.0, 1.0)) == printed(place, words, close=int)
    words = "d = {}, {} and {} for tau = 0.002 at epsilon 0, 1 and 2"
    assert tuple(large._missed(epsilon) for epsilon in (0.0, 1.0, 2.0)) == printed(place, words, close=int)


def test_what_placebo_rows_resolve():
    """theory:placebo#gate"""
    place = "placebo#gate"
    often, mostly = printed(place, "{}/sqrt(r0) at power 1/2, {}/sqrt(r0) at power 0.8")
    exact = [2.0 * (special.ndtri(0.95) + special.ndtri(power)) for power in (0.5, 0.8)]
    for found in (exact, [matched_results.HALF, _matched_checks.OFTEN], [_matched_checks.HALF, _matched_checks.OFTEN]):
        assert found == [often, mostly]
        assert (found[0] / 10.0, found[1] / 10.0) == printed(place, "{} and {} for r0 = 100.")


READ = re.compile(r"(?:printed|row)\(\s*\"([a-z0-9-]+#[a-z0-9-]+)\"|place(?:, words)? = \"([a-z0-9-]+#[a-z0-9-]+)\"")


def test_the_readme_says_what_is_read():
    """theory: what a page prints and no test reads is a copy, and is called so."""
    read = {one or other for one, other in READ.findall(Path(__file__).read_text("utf-8"))}
    listed = (
        (pages.THEORY / "README.md")
        .read_text("utf-8")
        .partition("## Which numbers are read")[2]
        .partition("Not read:")[0]
    )
    named = {place.removeprefix("theory:") for place in re.findall(r"`(theory:[a-z0-9-]+#[a-z0-9-]+)`", listed)}
    assert named == read
    assert len({place.partition("#")[0] for place in read}) == int(re.search(r"in (\d+) chapters", listed)[1])
