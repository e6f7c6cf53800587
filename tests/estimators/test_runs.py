"""Many runs: golden numbers, a dense twin, exact size, power, and what the bounds say about themselves."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import dpaudit as da
from dpaudit import RunScores, estimators, tradeoff
from dpaudit.bounds import GAUSSIAN_ASSUMPTION
from dpaudit.estimators import runs, thresholds
from dpaudit.estimators.thresholds import Band, Cut, Fixed, GuessPath, HeldOut, RankGrid, Uncorrected
from tests.conftest import gaussian_runs, noisy_canaries


@pytest.mark.parametrize(("n", "epsilon", "mu"), [(100, 3.28, 3.59), (1000, 5.60, 5.36)])
def test_largest_reportable_values_of_theory_2_2(n, epsilon, mu):
    counts = {"false_positives": 0, "negatives": n, "false_negatives": 0, "positives": n}
    assert estimators.clopper_pearson_epsilon(**counts, delta=0.0, confidence=0.95) == pytest.approx(epsilon, abs=0.006)
    assert estimators.clopper_pearson_mu(**counts, confidence=0.95) == pytest.approx(mu, abs=0.011)


# theory:multi-run#clopper-pearson
def test_clopper_pearson_puts_back():
    epsilon = estimators.clopper_pearson_epsilon(
        false_positives=3, negatives=200, false_negatives=40, positives=150, delta=1e-3, confidence=0.9
    )
    fpr, fnr = stats.beta.ppf(0.95, 4, 197), stats.beta.ppf(0.95, 41, 110)
    assert epsilon == pytest.approx(max(math.log((1 - fnr - 1e-3) / fpr), math.log((1 - fpr - 1e-3) / fnr)))


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_edges_of_counts(delta):
    for counts in ((0, 0, 0, 0), (5, 5, 5, 5), (0, 0, 0, 9), (3, 9, 0, 0)):
        names = ("false_positives", "negatives", "false_negatives", "positives")
        given_counts = dict(zip(names, counts, strict=True))
        assert estimators.clopper_pearson_epsilon(**given_counts, delta=delta, confidence=0.95) == 0.0
        assert estimators.clopper_pearson_mu(**given_counts, confidence=0.95) == 0.0


def dense_fisher(curve, cut, points=200_001):
    """The naive twin: a dense grid of false-positive rates, no cells."""
    a = np.linspace(0, 1, points)
    first = stats.binom.cdf(cut.false_positives, cut.negatives, a)
    w = first * stats.binom.cdf(cut.false_negatives, cut.positives, np.clip(curve.f(a), 0, 1))
    w = w.max()
    return w * (1 - math.log(w))


@pytest.mark.parametrize(
    "curve",
    [
        tradeoff.Gaussian(1.0),
        tradeoff.ApproximateDP(1.0, 0.01),
        tradeoff.Laplace(2.0),
        tradeoff.RandomizedResponse(1.0, 5),
    ],
    ids=repr,
)
@pytest.mark.parametrize("cut", [Cut(2, 40, 11, 30), Cut(0, 100, 60, 100), Cut(160, 1000, 480, 1000), Cut(0, 1, 0, 1)])
# theory:multi-run#fisher
def test_fisher_against_a_dense_grid(curve, cut):
    ours, twin = runs.fisher_p_value(curve, cut), dense_fisher(curve, cut)
    assert twin * (1 - 1e-9) <= ours <= twin * 1.08


@pytest.mark.parametrize(
    "curve", [tradeoff.Gaussian(1.0), tradeoff.ApproximateDP(0.7, 0.05), tradeoff.Gaussian(0.0)], ids=repr
)
# theory:multi-run#fisher
def test_exact_size_by_enumeration(curve):
    """Every outcome of 12 + 12 runs, at many true false-positive rates: the level is never exceeded."""
    n = 12
    p_values = {
        (x0, x1): runs.fisher_p_value(curve, Cut(x0, n, x1, n)) for x0, x1 in itertools.product(range(n + 1), repeat=2)
    }
    for a in np.linspace(0.01, 0.99, 41):
        first, second = stats.binom.pmf(np.arange(n + 1), n, a), stats.binom.pmf(np.arange(n + 1), n, curve.f(a))
        for level in (0.05, 0.1):
            size = sum(first[x0] * second[x1] for (x0, x1), p in p_values.items() if p <= level)
            assert size <= level


def test_bound_puts_back_into_its_p_value(rng):
    evidence = gaussian_runs(rng, mu=1.5, runs=300)
    for bound in (
        estimators.mu_from_runs(evidence),
        estimators.epsilon_from_runs(evidence, delta=1e-3),
        estimators.family_from_runs(evidence, family=tradeoff.LAPLACE),
    ):
        assert bound.p_value(bound.value) <= 0.05
        assert bound.p_value(bound.value * 1.001 + 1e-4) > 0.05
        assert bound.value <= bound.ceiling


def test_power_of_the_default():
    """Issue 2: Gaussian mu = 1, medians of at least 0.86 at 1,000 a side and 0.58 at 100 (theory:selection#null-ranks:
    .884, .61)."""
    for n, floor in ((1000, 0.86), (100, 0.58)):
        rng = np.random.default_rng(7)
        found = [estimators.mu_from_runs(gaussian_runs(rng, runs=n)).mu for _ in range(300)]
        assert np.median(found) >= floor


def test_power_of_epsilon_on_laplace():
    """theory:selection#null-ranks: 6-rank Fisher .80 on Laplace epsilon = 1, within 5 %."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(200):
        noise = rng.laplace(size=(2, 1000))
        evidence = RunScores(present=noise[0] + 1, absent=noise[1], relation="add-remove")
        found.append(estimators.epsilon_from_runs(evidence, delta=0.0).epsilon)
    assert np.median(found) >= 0.95 * 0.80


def test_breaking_ties_helps_randomised_response():
    """theory:selection#ties: epsilon = 1, n = 1000: median .86 with ties broken."""
    rng = np.random.default_rng(9)
    found = []
    for _ in range(200):
        answers = (rng.random((2, 1000)) < special.expit([[1.0], [-1.0]])).astype(float)
        evidence = RunScores(present=answers[0], absent=answers[1], relation="substitute")
        found.append(estimators.epsilon_from_runs(evidence, delta=0.0).epsilon)
    assert np.median(found) >= 0.95 * 0.86


# theory:multi-run#families
def test_converted_epsilon_is_conditional_and_the_free_one_is_not(rng):
    evidence = gaussian_runs(rng)
    alone, converted = estimators.mu_from_runs(evidence), estimators.mu_from_runs(evidence, delta=1e-5)
    assert (alone.guarantee, alone.epsilon, alone.assumptions) == ("certified", None, ())
    assert converted.guarantee == "conditional"
    assert converted.assumptions == (GAUSSIAN_ASSUMPTION,)
    assert str(converted.assumptions[0]) == "the trade-off curve is Gaussian"
    assert converted.epsilon <= da.gdp_epsilon(mu=converted.mu, delta=1e-5)
    assert estimators.epsilon_from_runs(evidence, delta=1e-5).guarantee == "certified"
    noted = gaussian_runs(rng, assumptions=("the score was not fitted on these runs",))
    assert estimators.epsilon_from_runs(noted, delta=1e-5).guarantee == "conditional"


# theory:selection#null-ranks
def test_extreme_ranks_lift_the_ceiling_of_epsilon(rng):
    rare = np.where(rng.random(20_000) < 0.02, 50.0, rng.normal(size=20_000))  # one run in fifty gives all away
    evidence = RunScores(present=rare, absent=rng.normal(size=20_000), relation="add-remove")
    six = RankGrid(tuple(thresholds.null_ranks(RankGrid(), 20_000, extreme=False)))
    lifted, plain = (
        estimators.epsilon_from_runs(evidence, delta=0.0),
        estimators.epsilon_from_runs(evidence, delta=0.0, threshold=six),
    )
    assert lifted.epsilon > plain.epsilon + 1.5
    assert thresholds.null_ranks(RankGrid(), 1000, extreme=True) == [5, 20, 80, 160, 320, 500]
    assert thresholds.null_ranks(RankGrid(), 2000, extreme=True) == [1, 3, 10, 30, 40, 160, 320, 640, 1000]
    assert thresholds.null_ranks(RankGrid(), 1, extreme=False) == [0]


def test_uncorrected_is_always_an_estimate(rng):
    for bound in (
        estimators.mu_from_runs(gaussian_runs(rng), threshold=Uncorrected()),
        estimators.epsilon_from_runs(gaussian_runs(rng), delta=0.0, threshold=Uncorrected(each_rate_at_alpha=True)),
    ):
        assert bound.guarantee == "estimate"
        assert "an estimate, not a bound" in str(bound)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 60), st.floats(0, 3), st.booleans())
def test_properties(seed, n, mu, rounded):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(2, n)) + np.array([[mu], [0.0]])
    present, absent = np.round(scores, 0 if rounded else 9)
    evidence = RunScores(present=present, absent=absent, relation="add-remove")
    shuffled = RunScores(present=rng.permutation(present), absent=rng.permutation(absent), relation="add-remove")
    bound = estimators.epsilon_from_runs(evidence, delta=0.01)
    assert estimators.epsilon_from_runs(shuffled, delta=0.01).epsilon == bound.epsilon
    assert estimators.epsilon_from_runs(evidence, delta=0.01, confidence=0.99).epsilon <= bound.epsilon
    assert estimators.epsilon_from_runs(evidence, delta=0.1).epsilon <= bound.epsilon + 1e-6
    better = RunScores(present=present + 1.0, absent=absent, relation="add-remove")
    if not rounded:
        assert estimators.mu_from_runs(better).mu >= estimators.mu_from_runs(evidence).mu - 1e-6


# theory:selection#ties
def test_ties_are_random_for_every_seed():
    """Perfect privacy, few distinct scores: a fixed seed keeps the level at every number of runs, not on average."""
    rng = np.random.default_rng(3)
    constant = [
        estimators.mu_from_runs(RunScores(present=np.zeros(n), absent=np.zeros(n), relation="label")).mu
        for n in range(20, 420)
    ]
    assert sum(mu > 0 for mu in constant) <= 38
    for n in (280, 880):
        rare = rng.random((150, 2, n)) < 0.01
        found = [
            estimators.mu_from_runs(RunScores(present=p, absent=a, relation="label")).mu for p, a in rare.astype(float)
        ]
        assert sum(mu > 0 for mu in found) <= stats.binom.ppf(1 - 1e-4, 150, 0.05)


def test_a_family_of_another_adjacency_is_refused(rng):
    family = da.accounting.dp_sgd_family(sampling_rate=1.0, steps=1, relation="add-remove")
    with pytest.raises(da.NotComparable, match="family is for add-remove"):
        estimators.family_from_runs(gaussian_runs(rng, relation="substitute"), family=family)
    with pytest.raises(da.NotComparable, match="family is for add-remove"):
        estimators.family_from_canaries(noisy_canaries(rng, relation="label"), family=family)


def test_an_infinite_conversion_is_no_finding(rng):
    bound = estimators.mu_from_runs(gaussian_runs(rng, mu=3.0), delta=0.0)
    assert bound.mu > 1
    assert bound.epsilon is None
    assert "infinity" not in str(bound)


def test_a_perfect_attack_would_reach_the_ceiling(rng):
    weak, strong = gaussian_runs(rng, mu=0.5, runs=300), gaussian_runs(rng, mu=40.0, runs=300)
    for threshold, best in ((HeldOut(), HeldOut()), (Fixed(score=0.5), Fixed(score=20.0)), (RankGrid(), RankGrid())):
        ceiling = estimators.mu_from_runs(weak, threshold=threshold).ceiling
        assert estimators.mu_from_runs(strong, threshold=best).mu <= ceiling * (1 + 1e-4)


def test_a_family_bound_prints_its_number(rng):
    text = str(estimators.family_from_runs(gaussian_runs(rng, mu=2.0), family=tradeoff.LAPLACE))
    assert text.startswith("epsilon >= ")


def test_bound_survives_save_and_load(rng, tmp_path):
    evidence = gaussian_runs(rng)
    again = da.load_evidence(evidence.save(tmp_path / "e.parquet"))
    assert estimators.mu_from_runs(again) == estimators.mu_from_runs(evidence)


# theory:multi-run#epsilon-curve
def test_several_deltas_are_one_statement(rng):
    evidence = gaussian_runs(rng, mu=2, runs=400)
    deltas = [0.0, 1e-4, 0.01, 0.3]
    for threshold in (Band(), RankGrid(), Fixed(score=1.0)):
        found = estimators.epsilon_curve_from_runs(evidence, deltas=deltas, threshold=threshold)
        assert [bound.delta for bound in found] == deltas
        assert all(bound.simultaneous == 4 for bound in found)
        assert np.all(np.diff([bound.epsilon for bound in found]) <= 0)
    one = estimators.epsilon_curve_from_runs(evidence, deltas=[0.01], threshold=Fixed(score=1.0))[0]
    counts = {
        "false_positives": int((evidence.absent > 1).sum()),
        "negatives": 400,
        "false_negatives": int((evidence.present <= 1).sum()),
        "positives": 400,
    }
    assert one.epsilon == estimators.clopper_pearson_epsilon(**counts, delta=0.01, confidence=0.95)


# theory:selection#band
def test_band_level_against_simulation():
    n, eta = 150, 0.003
    limits = special.betainccinv(np.arange(n) + 1, n - np.arange(n), eta)
    uniforms = np.sort(np.random.default_rng(5).random((20_000, n)), axis=1)
    simulated = (uniforms > limits).any(axis=1).mean()
    assert thresholds._band_miss(n, eta) == pytest.approx(simulated, abs=4 * math.sqrt(simulated / 20_000))
    assert thresholds._band_miss(n, thresholds.band_level(n, 0.05)) <= 0.05
    assert len(thresholds.band_ranks(100_000)) <= 1000


def test_many_runs_need_no_memory_of_all_thresholds(rng):
    evidence = gaussian_runs(rng, runs=20_000)
    assert estimators.epsilon_from_runs(evidence, delta=0.0).epsilon > 1.5


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda e: estimators.epsilon_from_runs(e, delta=-0.1), "`delta` must be in"),
        (lambda e: estimators.epsilon_from_runs(e, delta="x"), "`delta` must be a number"),
        (
            lambda e: estimators.epsilon_from_runs(e, delta=0.0, confidence=1.5),
            "`confidence` must be in \\(0, 1\\), got 1.5",
        ),
        (lambda e: estimators.epsilon_from_runs(e, delta=0.0, confidence=95), "write 0.95 for 95%"),
        (lambda e: estimators.epsilon_from_runs(e, delta=0.0, threshold=GuessPath()), "no valid test with GuessPath"),
        (lambda e: estimators.mu_from_runs(e, threshold=RankGrid((10**6,))), "below the number of null runs"),
        (lambda e: estimators.mu_from_runs(e, test="t"), "`test` must be one of"),
        (lambda e: estimators.mu_from_runs(e, threshold=HeldOut(1.0)), "`share` must be in \\(0, 1\\)"),
        (lambda e: estimators.mu_from_runs(e, threshold=Fixed()), "takes one of"),
        (lambda e: estimators.family_from_runs(e, family="Gaussian"), "`family` must be a Family"),
        (
            lambda e: estimators.family_from_runs(e, family=tradeoff.LAPLACE, test="clopper-pearson"),
            "knows epsilon and mu",
        ),
        (lambda e: estimators.epsilon_curve_from_runs(e, deltas=[]), "at least one delta"),
        (lambda e: estimators.epsilon_curve_from_runs(e, deltas=[0.1], threshold=Uncorrected()), "no simultaneous"),
        (lambda e: RankGrid((-1,)), "`ranks` must be at least 0"),
    ],
)
def test_misuse_is_one_clear_sentence(rng, call, match):
    evidence = gaussian_runs(rng, runs=30)
    with pytest.raises(da.InputError, match=match) as refused:
        call(evidence)
    assert "\n" not in refused.value.sentence


def test_wrong_evidence_names_the_right_estimator(rng):
    with pytest.raises(
        da.InputError, match=r"needs scores from independent runs \(RunScores\), got CanaryScores"
    ) as refused:
        estimators.epsilon_from_runs(noisy_canaries(rng), delta=0.0)
    assert "epsilon_from_canaries" in refused.value.hint


# --------------------------------------------------------------------------------------- exact values, by scipy's beta


def boxed_epsilon(evidence, rank, alpha, delta):
    """The Clopper-Pearson bound at one null rank, each error rate at alpha / 2."""
    n0, n1 = evidence.absent.size, evidence.present.size
    missed = int((evidence.present <= np.sort(evidence.absent)[n0 - 1 - rank]).sum())
    fpr, fnr = stats.beta.isf(alpha / 2, rank + 1, n0 - rank), stats.beta.isf(alpha / 2, missed + 1, n1 - missed)
    return max(math.log((1 - fnr - delta) / fpr), math.log((1 - fpr - delta) / fnr), 0.0)


def test_curve_of_several_ranks_pays_for_each(rng):
    evidence, ranks = gaussian_runs(rng, mu=2.0, runs=80), (2, 9, 30)
    found = estimators.epsilon_curve_from_runs(evidence, deltas=[0.0, 0.02], threshold=RankGrid(ranks))
    for bound in found:
        expected = max(boxed_epsilon(evidence, rank, 0.05 / 3, bound.delta) for rank in ranks)
        assert bound.epsilon == pytest.approx(expected, rel=1e-9)


def test_clopper_pearson_of_several_ranks_pays_for_each_and_for_delta(rng):
    evidence, ranks = gaussian_runs(rng, mu=2.0, runs=80), (2, 9)
    for delta in (0.0, 0.05):
        found = estimators.epsilon_from_runs(evidence, delta=delta, threshold=RankGrid(ranks), test="clopper-pearson")
        expected = max(boxed_epsilon(evidence, rank, 0.05 / 2, delta) for rank in ranks)
        assert found.epsilon == pytest.approx(expected, rel=1e-9)


def test_box_pays_delta_in_both_directions():
    for false_positives, false_negatives in ((0, 100), (100, 0)):
        found = estimators.clopper_pearson_epsilon(
            false_positives=false_positives, negatives=400, false_negatives=false_negatives, positives=400, delta=0.2
        )
        rare, often = stats.beta.isf(0.025, 1, 400), stats.beta.isf(0.025, 101, 300)
        assert found == pytest.approx(math.log((1 - often - 0.2) / rare))


def test_each_step_is_paid_for(rng):
    evidence = {step: gaussian_runs(rng, mu=1.0 + step, runs=60) for step in (1, 2, 3)}
    found = estimators.by_step(evidence, confidence=0.9)
    for step, seen in evidence.items():
        alone = estimators.mu_from_runs(seen, confidence=1.0 - 0.1 / 3)
        assert found[step].mu == alone.mu > 0
        assert (found[step].confidence, found[step].simultaneous) == (0.9, 3)
        for mu in (0.5 * alone.mu, alone.mu, 2.0 * alone.mu):
            assert found[step].p_value(mu) == pytest.approx(min(1.0, 3 * alone.p_value(mu)))


def test_band_of_a_perfect_attack_by_hand():
    """No error in either world: both limits are 1 - eta^(1/n), eta the level of a band at alpha / 2."""
    evidence = RunScores(present=np.arange(20) + 100.0, absent=np.arange(20.0), relation="label")
    (found,) = estimators.epsilon_curve_from_runs(evidence, deltas=[0.0])
    limit = 1.0 - thresholds.band_level(20, 0.025) ** (1 / 20)
    assert found.epsilon == pytest.approx(math.log((1 - limit) / limit))


def test_between_ranks_of_the_band_the_limit_of_the_next_one_holds(monkeypatch):
    monkeypatch.setattr(runs, "band_level", lambda number, alpha: 0.01)
    limits, ranks = runs._band_limits(1500, 0.05), thresholds.band_ranks(1500)
    assert len(ranks) < 1500
    for errors in range(1500):
        after = min(rank for rank in ranks if rank >= errors)
        assert limits[errors] == special.betainccinv(after + 1, 1500 - after, 0.01)
    assert limits[1500] == 1.0
