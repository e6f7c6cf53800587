"""One run: the linear-programming oracle, enumeration of paths, golden numbers, refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

import dpaudit as da
from dpaudit import CanaryScores, _binomial, estimators, tradeoff
from dpaudit.estimators import analyses, canaries, thresholds
from dpaudit.estimators.thresholds import Band, EProcess, Fixed, FractionGrid, GuessPath, HeldOut, RankGrid, Uncorrected
from dpaudit.testing import ground_truth
from tests.conftest import gaussian_runs, noisy_canaries


def oracle(m, r, v, tangents):
    """sup P(C >= v) over all mechanisms that obey (epsilon_t, delta_t): the linear program of theory:one-run#delta."""
    size = r + 1
    steps = len(tangents)
    variables = size + 2 * r * steps  # Q_0..Q_r, then the two positive parts of every tangent and a
    cost = np.zeros(variables)
    cost[v:size] = -1.0
    rows, limits = [], []
    for t, (epsilon, delta) in enumerate(tangents):
        grow, base = math.exp(epsilon), size + 2 * r * t
        for a in range(1, r + 1):
            for part, (up, down) in enumerate(((a, a - 1), (a - 1, a))):
                row = np.zeros(variables)
                weight = {a: a, a - 1: r - a + 1}
                row[up] += weight[up]
                row[down] -= grow * weight[down]
                row[base + 2 * (a - 1) + part] = -1.0
                rows.append(row)
                limits.append(0.0)
        total = np.zeros(variables)
        total[base : base + 2 * r] = 1.0 / m
        rows.append(total)
        limits.append(delta)
    equal = np.zeros((1, variables))
    equal[0, :size] = 1.0
    found = optimize.linprog(cost, np.array(rows), np.array(limits), equal, [1.0], method="highs")
    return -found.fun


def sizes(rng, least):
    """Canaries, guesses, and right ones."""
    m = int(rng.integers(least, 16))
    r = int(rng.integers(1, m + 1))
    return m, r, int(rng.integers(1, r + 1))


# theory:one-run#domination, theory:one-run#delta
def test_knapsack_p_value_against_the_oracle():
    rng = np.random.default_rng(1)
    tight = []
    for _ in range(150):
        m, r, v = sizes(rng, 1)
        epsilon, delta = float(rng.uniform(0, 3)), float(10 ** rng.uniform(-5, -0.5))
        exact = oracle(m, r, v, [(epsilon, delta)])
        ours = canaries.one_run_p_value(m, r, v, epsilon, delta)
        assert ours >= exact - 1e-9
        assert canaries.one_run_p_value(m, r, v, epsilon, delta, "full") >= exact - 1e-9
        tight.append(exact / ours)
    assert np.median(tight) > 0.8, "an oracle that is always far below proves little"


# theory:one-run#f-dp
def test_recursion_against_the_oracle_with_gaussian_tangents():
    rng = np.random.default_rng(2)
    tight = []
    for _ in range(25):
        m, r, v = sizes(rng, 2)
        mu = float(rng.uniform(0.2, 3))
        tangents = [(e, da.gdp_delta(mu=mu, epsilon=e)) for e in np.linspace(0, 4 * mu, 18)]
        exact = oracle(m, r, v, tangents)
        both = [(-e, 1 - math.exp(-e) * (1 - d)) for e, d in tangents] + tangents
        curve = tradeoff.from_pairs(*zip(*both, strict=True))
        found = canaries.curve_p_value(curve, m, r, v)
        assert found >= min(1.0, exact) - 1e-6
        assert found >= canaries.curve_p_value(tradeoff.Gaussian(mu), m, r, v) - 1e-6
        tight.append(exact / found)
    assert np.median(tight) > 0.9


# theory:one-run#published-delta
def test_the_published_delta_term_is_false():
    """theory:one-run#delta: m = r = 3, v = 1, eps = .2, delta = 1.09e-4: the exact supremum exceeds the published
    formula."""
    exact = oracle(3, 3, 1, [(0.2, 1.09e-4)])
    published = canaries.one_run_p_value(3, 3, 1, 0.2, 1.09e-4, "published")
    assert exact == pytest.approx(0.908855, abs=1e-6)
    assert published == pytest.approx(0.908834, abs=1e-6)
    assert published < exact <= canaries.one_run_p_value(3, 3, 1, 0.2, 1.09e-4)


@pytest.mark.parametrize(
    ("m", "epsilon", "delta", "published", "knapsack"),
    [(1000, 1.0, 1e-5, 0.0004, 0.0024), (10_000, 4.0, 1e-5, 0.0038, 0.0018), (100_000, 4.0, 1e-5, 0.0120, 0.0048)],
)
def test_golden_delta_terms_of_theory_2_4(m, epsilon, delta, published, knapsack):
    p = float(special.expit(epsilon))
    v = int(stats.binom.isf(0.01, m, p)) + 1
    plain = canaries.one_run_p_value(m, m, v, epsilon, 0.0)
    for term, expected in (("published", published), ("knapsack", knapsack)):
        extra = canaries.one_run_p_value(m, m, v, epsilon, delta, term) - plain
        assert extra == pytest.approx(expected, rel=0.12)


# theory:one-run#pure
def test_one_run_epsilon_golden_and_put_back():
    assert estimators.one_run_epsilon(canaries=100, guesses=100, correct=100) == pytest.approx(3.49, abs=0.005)
    epsilon = estimators.one_run_epsilon(canaries=1000, guesses=400, correct=330, confidence=0.9)
    assert stats.binom.sf(329, 400, special.expit(epsilon)) == pytest.approx(0.1)
    for delta in (1e-6, 1e-4, 1e-2):
        found = estimators.one_run_epsilon(canaries=1000, guesses=400, correct=350, delta=delta)
        assert canaries.one_run_p_value(1000, 400, 350, found, delta) <= 0.05
        assert canaries.one_run_p_value(1000, 400, 350, found + 1e-3, delta) > 0.05


@pytest.mark.parametrize("counts", [(0, 0, 0), (10, 0, 0), (10, 10, 0), (10, 10, 5), (1, 1, 0)])
def test_no_evidence_is_zero(counts):
    m, r, c = counts
    assert estimators.one_run_epsilon(canaries=m, guesses=r, correct=c, delta=0.0) == 0.0
    assert estimators.one_run_epsilon(canaries=m, guesses=r, correct=c, delta=0.1) == 0.0
    assert estimators.one_run_mu(canaries=m, guesses=r, correct=c) == 0.0


@given(st.integers(1, 300), st.data())
@settings(max_examples=60)
def test_more_right_guesses_never_lower_a_bound(m, data):
    r = data.draw(st.integers(1, m))
    c = data.draw(st.integers(0, r - 1))
    delta = data.draw(st.sampled_from([0.0, 1e-5, 1e-3, 0.05]))
    one = {"canaries": m, "guesses": r}
    low = estimators.one_run_epsilon(**one, correct=c, delta=delta)
    assert estimators.one_run_epsilon(**one, correct=c + 1, delta=delta) >= low - 2e-6
    assert estimators.one_run_epsilon(**one, correct=c, delta=min(1.0, 2 * delta)) <= low + 2e-6
    assert estimators.one_run_epsilon(**one, correct=c, delta=delta, confidence=0.99) <= low + 2e-6
    mu = estimators.one_run_mu(**one, correct=c)
    assert estimators.one_run_mu(**one, correct=c + 1) >= mu
    assert estimators.one_run_mu(**one, correct=c, confidence=0.99) <= mu
    assert estimators.one_run_mu(**one, correct=c, shift=0.01) <= mu


# theory:selection#guess-path
def test_path_p_value_against_enumeration():
    """All 2^12 paths: P(some rank is as extreme) under independent Bernoulli guesses."""
    ranks, p = [3, 6, 12], float(special.expit(0.8))
    for correct in ([3, 5, 9], [2, 6, 10], [1, 3, 6]):
        tails = [stats.binom.sf(c - 1, n, p) for n, c in zip(ranks, correct, strict=True)]
        exact = 0.0
        for bits in itertools.product((0, 1), repeat=12):
            seen = min(stats.binom.sf(sum(bits[:n]) - 1, n, p) for n in ranks)
            if seen <= min(tails) * (1 + 1e-9):
                exact += p ** sum(bits) * (1 - p) ** (12 - sum(bits))
        found = _binomial.path_p_value(ranks, correct, epsilon=0.8, slack=lambda e: 0.0)
        assert exact <= found <= exact * (1 + 1e-6)


# theory:curves#inversion
def test_path_inversion_is_the_plain_scan_of_the_grid():
    """The shortcuts T and K T decide nothing differently from the exact probability at every grid point."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        m = int(rng.integers(3, 200))
        ranks = GuessPath().ranks(m)
        bits = rng.random(m) < rng.uniform(0.4, 1)
        correct = [int(bits[:n].sum()) for n in ranks]

        def slack(epsilon, m=m):
            return _binomial.excess(m, epsilon, 1e-4)

        quick, _ = _binomial.invert_path(ranks, correct, alpha=0.05, slack=slack)
        index = 0
        while index < 2500 and _binomial.path_p_value(ranks, correct, epsilon=index * 0.01, slack=slack) <= 0.05:
            index += 1
        assert quick == pytest.approx(max(0, index - 1) * 0.01)


def test_geometric_ranks():
    assert GuessPath().ranks(1000) == [8, 16, 31, 62, 125, 250, 500, 1000]
    assert GuessPath().ranks(3) == [3]
    assert GuessPath().ranks(1) == [1]


# theory:sequential#guess-wealth
def test_wealth_over_the_hull_is_the_wealth_over_all_ranks():
    rng = np.random.default_rng(6)
    for _ in range(20):
        path = np.concatenate([[0], np.cumsum(rng.random(300) < rng.uniform(0.5, 0.95))])
        n, c = _binomial.extreme_points(path)
        every = max(0.0, _binomial.log_wealth(np.arange(1, 301), path[1:], 0.5))  # only wealth above 1 ever decides
        assert every - 0.15 <= max(0.0, _binomial.log_wealth(n, c, 0.5)) <= every


def test_guess_order():
    evidence = CanaryScores(scores=[5, 4, 3, 2, 1], included=[1, 0, 1, 0, 0], relation="add-remove")
    both = thresholds.guesses_from_canaries(evidence)
    assert both.path().tolist() == [0, 1, 2, 2, 3, 4]  # top, bottom, top (wrong), bottom, top
    assert [both.correct(n) for n in range(6)] == both.path().tolist()
    one = thresholds.guesses_from_canaries(
        CanaryScores(scores=[5, 4, 3, 2, 1], included=[1, 0, 1, 0, 0], relation="label", sides="included")
    )
    assert one.path().tolist() == [0, 1, 1, 2, 2, 2]
    sign = CanaryScores(scores=[-5, 4, -3, 2, 1], included=[0, 0, 1, 1, 0], relation="label", sides="sign")
    assert thresholds.guesses_from_canaries(sign).path().tolist() == [0, 1, 1, 1, 2, 2]


def test_ties_are_broken_by_the_seed_and_not_by_the_file():
    rng = np.random.default_rng(0)
    included = rng.random(400) < 0.5
    scores = np.zeros(400)
    order = np.argsort(~included, kind="stable")  # a file sorted by membership
    sorted_file = CanaryScores(scores=scores, included=included[order], relation="add-remove")
    shuffled = CanaryScores(scores=scores, included=included, relation="add-remove")
    path = thresholds.guesses_from_canaries(sorted_file).path()
    assert np.array_equal(path, thresholds.guesses_from_canaries(shuffled).path())
    other = CanaryScores(scores=scores, included=included, relation="add-remove", seed=1)
    assert not np.array_equal(path, thresholds.guesses_from_canaries(other).path())
    assert estimators.epsilon_from_canaries(sorted_file, delta=0.0).epsilon == 0.0


# theory:selection#fixed-fractions
def test_power_of_the_recommended_defaults():
    """theory:selection#guess-path, theory:selection#fixed-fractions, within 5 %: path .857 on RR and 1.713 on Laplace;
    recursion .555 (mu = 1) and 1.105 (mu = 2)."""
    rng = np.random.default_rng(11)
    for truth, floor in (
        (ground_truth.ResponseCanaries(1.0, 1000), 0.857),
        (ground_truth.NoisyCanaries(2.0, 1000, "Laplace"), 1.713),
    ):
        found = [estimators.epsilon_from_canaries(truth.sample(rng), delta=0.0).epsilon for _ in range(300)]
        assert np.median(found) >= 0.95 * floor
    for mu, floor in ((1.0, 0.555), (2.0, 1.105)):
        found = [estimators.mu_from_canaries(noisy_canaries(rng, mu=mu)).mu for _ in range(200)]
        assert np.median(found) >= 0.95 * floor


def test_plan_guesses_is_near_the_table_of_theory_2_5():
    """The optimum is flat: the planned number loses at most 2 % of the bound at the table's number."""
    for m, mu, table in ((1000, 1.0, 180), (10_000, 1.0, 440), (10_000, 2.0, 880), (100_000, 2.0, 3100)):
        curve = tradeoff.Gaussian(mu)
        planned = estimators.plan_guesses(canaries=m, claim=curve, confidence=0.95)
        ours, theirs = (analyses._planned(curve, m, n, 0.05) for n in (planned, table))
        assert ours >= 0.98 * theirs
    claim = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    assert estimators.plan_guesses(canaries=1000, claim=claim) == estimators.plan_guesses(
        canaries=1000, claim=tradeoff.Gaussian(1.0)
    )


# theory:one-run#looseness
def test_asymptote_of_theory_2_5():
    """mu_hat = Phi^-1(gamma a rho) - Phi^-1(gamma (1 - a) rho) with many canaries."""
    m, a, rho = 10**7, 0.8, 0.1
    found = estimators.one_run_mu(canaries=m, guesses=int(rho * m), correct=int(a * rho * m))
    expected = special.ndtri(0.05 * a * rho) - special.ndtri(0.05 * (1 - a) * rho)
    assert found == pytest.approx(expected, abs=2e-3)
    assert found <= expected


# theory:observational#shift, theory:observational#tau-max
def test_shift_lowers_the_bound_and_prints_its_limit(rng):
    evidence = noisy_canaries(rng, mu=3.0)
    plain = estimators.mu_from_canaries(evidence)
    for shift in (0.001, 0.01):
        shifted = estimators.mu_from_canaries(noisy_canaries(np.random.default_rng(20261116), mu=3.0, shift=shift))
        assert shifted.mu < plain.mu
        assert shifted.guarantee == "conditional"
        assert shifted.assumptions[0].key == f"shift(tau={shift:g})"
        assert f"tau = {shift:g}" in str(shifted)
        (note,) = shifted.notes
        own = {"guesses": shifted.guesses, "correct": shifted.correct}
        assert float(note.split()[7]) >= estimators.tau_max(canaries=evidence.scores.size, **own), note
    limit = estimators.tau_max(canaries=1000, guesses=100, correct=95, confidence=0.95)
    assert limit == pytest.approx(0.05 * 90 / 1000)
    assert estimators.one_run_mu(canaries=1000, guesses=100, correct=95, shift=limit) == 0.0


def test_delta_too_large_is_said(rng):
    bound = estimators.epsilon_from_canaries(noisy_canaries(rng, mu=4.0), delta=0.01)
    assert bound.epsilon == 0.0
    assert bound.notes == ("delta, with the shift, is too large for this many canaries",)


def test_families(rng):
    kary = ground_truth.KaryResponseCanaries(2.0, 5, 3000).sample(rng)
    bound = estimators.family_from_canaries(kary, family=tradeoff.randomized_response(5), delta=0.0)
    assert 1.0 < bound.theta <= 2.2
    assert bound.assumptions[0].id == "curve-family"
    assert "5-ary randomised response" in bound.assumptions[0].text
    pure = estimators.family_from_canaries(kary, family=tradeoff.approximate(0.0), guesses=Fixed(fraction=0.5))
    fixed = estimators.epsilon_from_canaries(kary, delta=0.0, guesses=Fixed(fraction=0.5))
    assert pure.theta == pytest.approx(fixed.epsilon, abs=1e-4)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 80))
def test_reordering_and_saving_change_nothing(tmp_path_factory, seed, m):
    rng = np.random.default_rng(seed)
    included = rng.random(m) < 0.5
    scores = np.round(rng.normal(size=m) + included, 1)
    order = rng.permutation(m)
    first = CanaryScores(scores=scores, included=included, relation="label")
    second = CanaryScores(scores=scores[order], included=included[order], relation="label")
    loaded = da.load_evidence(first.save(tmp_path_factory.mktemp("c") / "e.parquet"))
    for guesses in (GuessPath(), EProcess(), Fixed(fraction=0.5), FractionGrid()):
        bounds = [estimators.epsilon_from_canaries(e, delta=1e-4, guesses=guesses) for e in (first, second, loaded)]
        assert bounds[0] == bounds[1] == bounds[2]
        assert (
            bounds[0].epsilon
            >= estimators.epsilon_from_canaries(first, delta=1e-4, guesses=guesses, confidence=0.99).epsilon
        )


# theory:selection#held-out, theory:one-run#fixed-count
def test_a_score_threshold_is_for_pure_dp_only(rng):
    evidence = noisy_canaries(rng, mu=2.0)
    assert estimators.epsilon_from_canaries(evidence, delta=0.0, guesses=Fixed(score=2.5)).epsilon > 0
    full = estimators.epsilon_from_canaries(evidence, delta=1e-5, guesses=Fixed(score=2.5))
    assert "in full" in full.method
    for guesses in (Fixed(score=2.5), HeldOut(), GuessPath(), EProcess()):
        with pytest.raises(da.InputError, match="fixed before the model is seen"):
            estimators.mu_from_canaries(evidence, guesses=guesses)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda e: estimators.one_run_epsilon(canaries=10, guesses=11, correct=1),
            "`guesses` must be at most `canaries` \\(10\\), got 11",
        ),
        (
            lambda e: estimators.one_run_epsilon(canaries=10, guesses=9, correct=10),
            "`correct` must be at most `guesses`",
        ),
        (lambda e: estimators.one_run_epsilon(canaries=10, guesses=9, correct=True), "whole number"),
        (
            lambda e: estimators.one_run_epsilon(canaries=10, guesses=9, correct=3, delta_term="x"),
            "`delta_term` must be one of",
        ),
        (lambda e: estimators.one_run_mu(canaries=10, guesses=-1, correct=0), "`guesses` must be at least 0"),
        (lambda e: estimators.epsilon_from_canaries(e, delta=0.0, guesses=Fixed(guesses=5000)), "at most `canaries`"),
        (lambda e: estimators.epsilon_from_canaries(e, delta=0.0, guesses=RankGrid()), "no valid test with RankGrid"),
        (lambda e: estimators.epsilon_from_canaries(e, delta=0.0, guesses=Band()), "no valid test with Band"),
        (lambda e: estimators.epsilon_from_canaries(e, delta=2.0), "`delta` must be in"),
        (lambda e: estimators.mu_from_canaries(e, confidence=0.0), "`confidence` must be in"),
        (lambda e: estimators.mu_from_canaries(e, guesses=FractionGrid(())), "at least one fraction"),
        (lambda e: estimators.mu_from_canaries(e, guesses=Fixed(fraction=0.0)), "`fraction` must be in \\(0, 1\\]"),
        (lambda e: estimators.family_from_canaries(e, family=3), "`family` must be a Family"),
        (lambda e: estimators.plan_guesses(canaries=0, claim=tradeoff.Gaussian(1.0)), "`canaries` must be at least 1"),
    ],
)
def test_misuse_is_one_clear_sentence(rng, call, match):
    with pytest.raises(da.InputError, match=match) as refused:
        call(noisy_canaries(rng, canaries=100))
    assert "\n" not in refused.value.sentence


def test_wrong_evidence_names_the_right_estimator(rng):
    with pytest.raises(da.InputError, match="needs coin-flipped canaries") as refused:
        estimators.mu_from_canaries(gaussian_runs(rng))
    assert "mu_from_runs" in refused.value.hint


def test_uncorrected_is_always_an_estimate(rng):
    for bound in (
        estimators.epsilon_from_canaries(noisy_canaries(rng), delta=0.0, guesses=Uncorrected()),
        estimators.mu_from_canaries(noisy_canaries(rng), guesses=Uncorrected()),
    ):
        assert bound.guarantee == "estimate"


# ------------------------------------------------------------------------------------------------- exact, and put back


def sorted_canaries(right, wrong, **more):
    """`right` guesses from either end are right before `wrong` of them are wrong."""
    half = [True] * right + [False] * wrong
    included = np.array([*half, *(not one for one in reversed(half))])
    return CanaryScores(scores=-np.arange(included.size, dtype=float), included=included, relation="label", **more)


def test_excess_by_hand():
    assert _binomial.excess(100, math.log(3.0), 0.02) == pytest.approx(0.5)
    assert _binomial.excess(100, 0.0, 0.02) == pytest.approx(1.0)


def test_shift_composes_with_delta():
    """Either fails: 1 - (1 - delta)(1 - tau), in the function and in every number that is made from the evidence."""
    assert _binomial.shifted_delta(0.1, 0.2) == pytest.approx(0.28)
    evidence, both = sorted_canaries(80, 20, shift=2e-4), 1.0 - (1.0 - 1e-4) * (1.0 - 2e-4)
    found = estimators.epsilon_from_canaries(evidence, delta=1e-4, guesses=Fixed(guesses=150))
    expected = estimators.one_run_epsilon(canaries=200, guesses=150, correct=150, delta=both)
    assert found.epsilon == expected > 1.0
    path = estimators.epsilon_from_canaries(evidence, delta=1e-4)
    ranks = GuessPath().ranks(200)
    correct = [min(rank, 160) for rank in ranks]
    for epsilon in (0.0, 1.0, 3.0):
        plain = _binomial.path_p_value(ranks, correct, epsilon=epsilon, slack=lambda e: 0.0)
        assert path.p_value(epsilon) == pytest.approx(min(1.0, plain + 200 * both / (1 + math.exp(epsilon))), rel=1e-9)


def test_shifted_curve_by_its_formula():
    curve = tradeoff.Gaussian(1.0)
    found = canaries.shifted_curve(curve, 0.1)
    for r in (0.05, 0.1):
        assert found.g(r) == 0.0
    for r in (0.3, 0.7, 0.95):
        assert found.g(r) == pytest.approx(0.9 * curve.g((r - 0.1) / 0.9))
    pair = canaries.shifted_curve(tradeoff.ApproximateDP(1.0, 0.1), 0.2)
    assert (pair.eps, pair.slack) == (1.0, pytest.approx(0.28))


def test_best_of_several_fractions_is_paid_for():
    evidence, grid = sorted_canaries(80, 20), FractionGrid((0.5, 0.25))
    counts = [{"canaries": 200, "guesses": r, "correct": r} for r in (100, 50)]
    epsilon = estimators.epsilon_from_canaries(evidence, delta=1e-4, guesses=grid)
    one = [estimators.one_run_epsilon(**c, delta=1e-4, confidence=1.0 - 0.05 / 2) for c in counts]
    assert epsilon.epsilon == pytest.approx(max(one))
    smallest = min(canaries.one_run_p_value(200, r, r, 2.0, 1e-4) for r in (100, 50))
    assert epsilon.p_value(2.0) == pytest.approx(2.0 * smallest)
    mu = estimators.mu_from_canaries(evidence, guesses=grid)
    assert mu.mu == pytest.approx(max(estimators.one_run_mu(**c, confidence=1.0 - 0.05 / 2) for c in counts))
    smallest = min(canaries.curve_p_value(tradeoff.Gaussian(1.0), 200, r, r) for r in (100, 50))
    assert mu.p_value(1.0) == pytest.approx(2.0 * smallest)


def test_a_chosen_number_of_guesses_pays_delta_in_full():
    found = estimators.epsilon_from_canaries(sorted_canaries(80, 20), delta=1e-4, guesses=Fixed(score=-59.5))
    assert (found.guesses, found.correct) == (120, 120)
    for epsilon in (1.0, 2.0, 4.0):
        plain = stats.binom.sf(119, 120, special.expit(epsilon))
        assert found.p_value(epsilon) == pytest.approx(plain + 200 * 1e-4 / (1 + math.exp(epsilon)))


def test_p_value_of_a_pair_keeps_its_delta():
    m, r, c, pair = 200, 100, 92, tradeoff.ApproximateDP(1.0, 0.002)
    knapsack, free = (canaries.one_run_p_value(m, r, c, 1.0, delta) for delta in (0.002, 0.0))
    assert free < 0.5 * knapsack
    assert canaries.curve_p_value(pair, m, r, c) >= oracle(m, r, c, [(1.0, 0.002)]) > 1.5 * free


def test_wealth_has_mean_one_under_its_hypothesis():
    """Over all numbers of right guesses among n: what the bets win on average is nothing, for any mixture of them."""
    for n, epsilon in ((1, 0.0), (7, 0.5), (30, 2.0)):
        distribution = stats.binom(n, special.expit(epsilon))
        wealth = [math.exp(_binomial.log_wealth(np.array([n]), np.array([c]), epsilon)) for c in range(n + 1)]
        assert float(distribution.pmf(np.arange(n + 1)) @ wealth) == pytest.approx(1.0)


def test_a_path_that_is_quickly_rejected_pays_delta():
    """Every guess is right, so that one p-value decides; delta alone is almost, or more than, the error probability."""
    for m in (100, 400):
        ranks = GuessPath().ranks(m)
        for half in (0.02, 0.049, 0.051):  # the slack at epsilon 0

            def slack(epsilon, half=half):
                return 2.0 * half / (1.0 + math.exp(epsilon))

            steps = 0
            while _binomial.path_p_value(ranks, ranks, epsilon=0.01 * steps, slack=slack) <= 0.05:
                steps += 1
            found, _ = _binomial.invert_path(ranks, ranks, alpha=0.05, slack=slack)
            assert found == pytest.approx(0.01 * max(0, steps - 1))
            assert (found > 1.0) == (half < 0.05)


def test_wealth_puts_back():
    found = estimators.epsilon_from_canaries(sorted_canaries(80, 20), delta=1e-3, guesses=EProcess(), confidence=0.8)
    assert found.epsilon > 0.5
    assert found.p_value(found.epsilon) <= 0.2 < found.p_value(found.epsilon + 0.01)
    free = estimators.epsilon_from_canaries(sorted_canaries(80, 20), delta=0.0, guesses=EProcess())
    assert found.p_value(1.0) == pytest.approx(free.p_value(1.0) + 200 * 1e-3 / (1 + math.e))


def test_inversion_returns_the_rejecting_end():
    assert _binomial.scan(lambda theta: theta <= 0.305) == (pytest.approx(0.30), False)
    assert _binomial.scan(lambda theta: theta < 0.0) == (0.0, False)
    for edge in (0.1, 1.2345, 17.0):
        found, capped = _binomial.bisect(lambda theta, edge=edge: theta <= edge, cap=50.0)
        assert edge * (1 - 1e-5) - 1e-5 < found <= edge
        assert not capped
