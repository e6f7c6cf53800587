"""The exact conditional test of two tables, and how many rows to compare with: enumeration and whole numbers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from dpaudit.estimators.conditional import Stratified, least_beyond
from tests.estimators.matched_rows import naive_beyond, naive_p_value, sums_of


# theory:placebo#conditional
def test_conditional_test_against_enumeration():
    rng = np.random.default_rng(1)
    for _ in range(150):
        cells = []
        for _ in range(rng.integers(1, 3)):
            size, size0 = (int(n) for n in rng.integers(0, 13, 2))
            cells.append((int(rng.integers(0, size + 1)), size, int(rng.integers(0, size0 + 1)), size0))
        one = Stratified(*zip(*cells, strict=True))
        for epsilon, forgiven in ((0.0, 0), (0.7, 0), (2.5, 0), (0.7, 2)):
            found = one.p_value(epsilon, forgiven)
            assert found == pytest.approx(naive_p_value(cells, epsilon, forgiven), rel=1e-6), cells


# theory:placebo#conditional
def test_p_values_are_monotone():
    """They fall with right guesses, grow with right placebo guesses, with epsilon and with what is forgiven."""
    rng = np.random.default_rng(2)
    for _ in range(100):
        sizes, sizes0 = rng.integers(1, 13, 2), rng.integers(1, 13, 2)
        right, right0 = rng.integers(0, sizes), rng.integers(0, sizes0)
        now = Stratified(right, sizes, right0, sizes0)
        more, more0 = (Stratified(right + a, sizes, right0 + b, sizes0) for a, b in (((1, 0), 0), (0, (1, 0))))
        for epsilon in (0.0, 1.0):
            p_value = now.p_value(epsilon)
            assert more.p_value(epsilon) <= p_value * (1 + 1e-7)
            assert p_value <= more0.p_value(epsilon) * (1 + 1e-7)
            assert p_value <= now.p_value(epsilon + 0.3) * (1 + 1e-7)
            assert p_value <= now.p_value(epsilon, 1) <= now.p_value(epsilon, 2)


# theory:placebo#heterogeneity
def test_size_by_enumeration_with_unequal_audited_rates():
    """Audited null rates differ, their mean is the placebo rate: P(p <= level) never exceeds the level."""
    rng, worst = np.random.default_rng(3), 0.0
    for trial in range(60):
        size, size0 = (int(n) for n in rng.integers(1, 13, 2))
        null = rng.beta(0.5, 0.5, size) if trial % 2 else np.full(size, rng.random())
        epsilon = rng.choice([0.0, 0.5, 2.0])
        law, law0 = sums_of(special.expit(epsilon + special.logit(null))), sums_of([null.mean()] * size0)
        tests = [[Stratified([c], [size], [c0], [size0]) for c0 in range(size0 + 1)] for c in range(size + 1)]
        p_values = np.array([[one.p_value(epsilon) for one in line] for line in tests])
        for level in (0.05, 0.2):
            worst = max(worst, float(np.outer(law, law0)[p_values <= level].sum()) / level)
    assert 0.2 < worst <= 0.61, "the chapter: 0.61 of the level, at most"


# theory:placebo#heterogeneity
def test_coins_of_unequal_rates_stay_below_those_of_the_mean_where_it_counts():
    """From one above the mean on; below that they may not, and rows drawn at random have the mean's law exactly."""
    rng, higher = np.random.default_rng(8), 0
    for _ in range(300):
        size, epsilon = int(rng.integers(1, 13)), rng.choice([0.0, 0.5, 2.0])
        null = rng.beta(0.3, 0.3, size)
        limit = special.expit(epsilon + special.logit(null.mean()))
        counts = np.arange(size + 1)
        tails = sums_of(special.expit(epsilon + special.logit(null)))[::-1].cumsum()[::-1]
        equal = stats.binom.sf(counts - 1, size, limit)
        assert np.all(tails[counts >= size * limit + 1] <= equal[counts >= size * limit + 1] + 1e-12)
        assert special.expit(epsilon + special.logit(null)).mean() <= limit + 1e-12, "concave"
        higher += bool(np.any(tails > equal + 1e-6))
    assert higher > 50


# theory:placebo#conditional
def test_size_of_two_cells_by_enumeration():
    rng, sizes, sizes0 = np.random.default_rng(4), (4, 3), (5, 4)
    counts = list(itertools.product(*(range(n + 1) for n in (*sizes, *sizes0))))
    for epsilon in (0.0, 1.0):
        p_values = np.array([Stratified((a, b), sizes, (c, d), sizes0).p_value(epsilon) for a, b, c, d in counts])
        for _ in range(20):
            rates, laws = rng.random(2), []
            for n, n0, rate in zip(sizes, sizes0, rates, strict=True):
                laws.append((sums_of([special.expit(epsilon + special.logit(rate))] * n), sums_of([rate] * n0)))
            chances = np.array([laws[0][0][a] * laws[1][0][b] * laws[0][1][c] * laws[1][1][d] for a, b, c, d in counts])
            for level in (0.05, 0.2):
                assert chances[p_values <= level].sum() <= level


def exact_tail(right, rows, right0, placebo, odds=1):
    """P(X >= right) of one cell where X is weighed by odds^x, in whole numbers."""
    both = right + right0
    x = max(0, both - placebo)
    term = math.comb(rows, x) * math.comb(placebo, both - x)
    all_terms = above = 0
    while True:
        all_terms += term
        above += term if x >= right else 0
        if x >= min(rows, both):
            return float(Fraction(above * 10**90 // all_terms, 10**90))
        term = term * odds * (rows - x) * (both - x) // ((x + 1) * (placebo - both + x + 1))
        x += 1


def test_what_is_dropped_is_added():
    """5,000 rows a side, against whole numbers: never too small, and right to eight digits where nothing was dropped.

    Far out only dropped mass is left; a p-value without it would be 0.
    """
    rows = 5_000
    for right, right0, odds in ((2_550, 2_500, 1), (2_600, 2_500, 1), (3_050, 2_000, 2), (3_250, 2_500, 1)):
        exact = exact_tail(right, rows, right0, rows, odds)
        found = Stratified([right], [rows], [right0], [rows]).p_value(math.log(odds))
        assert exact <= found <= exact * (1 + 1e-7) + 1e-19
    assert 0.0 < exact < 1e-40 < found, "the last one lies where terms were dropped"
    thin = Stratified([3_250, 3], [rows, 5], [2_500, 2], [rows, 4])
    assert thin.p_value(0.0) > 1e-24, "what one cell dropped stays, however many are added"


def test_cells_without_rows_say_nothing():
    assert Stratified([5, 4], [9, 6], [2, 0], [8, 0]).p_value(0.3) == Stratified([5], [9], [2], [8]).p_value(0.3)
    assert Stratified([5, 0], [9, 0], [2, 3], [8, 4]).p_value(0.3) == Stratified([5], [9], [2], [8]).p_value(0.3)
    assert Stratified([5, 4], [9, 6], [2, 0], [8, 0]).seen == 5
    assert Stratified([4], [6], [0], [0]).p_value(0.0) == 1.0


# ---------------------------------------------------------------------------------------- how many rows to compare with


# theory:placebo#matched
def test_shares_against_exact_counts_of_orders():
    for rows, placebo, taken, beta in itertools.product((24, 60), (0, 1, 30, 100), (0, 1, 5, 20), (1e-6, 1e-3, 0.19)):
        assert least_beyond(rows, placebo, taken, beta) == naive_beyond(rows, placebo, taken, beta)
    for taken, placebo in ((500, 20_000), (2000, 300), (1, 400_000)):
        law = stats.betabinom(placebo, taken, 2000 - taken + 1)
        q = least_beyond(2000, placebo, taken, 1e-4)
        assert law.cdf(q - 1) <= 1e-4 < law.cdf(q)


# theory:placebo#matched
@pytest.mark.parametrize("beta", [0.05, 0.1, 0.2, 0.4])
def test_few_orders_have_fewer_placebo_rows_beyond_than_are_taken(beta):
    """Two small tables of two cells, in every order, at a threshold that all cells set together."""
    rows, placebo = (0, 0, 0, 1, 1), (0, 0, 1)  # the cells
    marks = [*((g, True) for g in rows), *((g, False) for g in placebo)]
    orders = set(itertools.permutations(marks))
    taken, short = 0, 0
    for selected, g in itertools.product((1, 2, 3, 4), (0, 1)):
        wrong = 0
        for order in orders:
            places = [n for n, (_, audited) in enumerate(order) if audited]
            above = order[: places[selected]]  # beyond the first audited row that is not selected
            share = least_beyond(rows.count(g), placebo.count(g), above.count((g, True)), beta)
            wrong += above.count((g, False)) < share
            taken += share
        assert wrong <= beta * len(orders)
        short += wrong
    assert (taken > 0) == (short > 0) == (beta > 0.1)
