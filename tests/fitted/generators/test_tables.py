"""Generators: columns and pairs as in the rows, no copies, one seed one table, any object with `fit` and `sample`."""

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

from dpaudit import InputError
from dpaudit.fitted.generators import GaussianCopula, SequentialTrees, TreeMarginals, drawn

ALL = [GaussianCopula(categorical=(2,)), TreeMarginals(categorical=(2,)), SequentialTrees(categorical=(2,))]
IDS = ["copula", "tree marginals", "sequential trees"]


def mixed(count=4000, seed=0):
    """A number, another that follows it, a category that depends on both, and a count with an atom at 0."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=count)
    second = 0.8 * first + 0.6 * rng.normal(size=count)
    kind = (rng.random(count) < 0.1 + 0.6 * (first > 0.0)).astype(float) + 2.0 * (second > 1.0)
    gain = np.where(rng.random(count) < 0.8, 0.0, rng.integers(1, 50, size=count))
    return np.stack([first, second, kind, gain], axis=1)


def test_samples_come_in_no_order():
    """A mixture returns its components one after the other; the first rows must be distributed as the last."""
    rows = np.concatenate([np.random.default_rng(1).normal(loc=loc, size=(500, 2)) for loc in (-9.0, 9.0)])
    made = drawn(GaussianMixture(2), rows, 1000, seed=3)
    assert 0.4 < (made[:500, 0] > 0.0).mean() < 0.6


@pytest.mark.parametrize("generator", ALL, ids=IDS)
def test_columns_and_pairs_are_kept(generator):
    rows = mixed()
    made = drawn(generator, rows, 4000, seed=3)
    fresh = mixed(seed=9)
    for place in (0, 1):
        assert stats.ks_2samp(made[:, place], fresh[:, place]).pvalue > 1e-4
    shares = [np.bincount(each[:, 2].astype(int), minlength=4) / 4000 for each in (made, rows)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.04)
    assert abs((made[:, 3] == 0.0).mean() - (rows[:, 3] == 0.0).mean()) < 0.03
    assert abs(np.corrcoef(made[:, 0], made[:, 1])[0, 1] - 0.8) < 0.06


@pytest.mark.parametrize("generator", ALL, ids=IDS)
def test_only_values_that_a_column_can_have(generator):
    rows = mixed()
    made = drawn(generator, rows, 3000, seed=4)
    assert set(made[:, 2]) <= set(rows[:, 2])
    assert set(made[:, 3]) <= set(rows[:, 3])
    assert not np.isin(made[:, 0], rows[:, 0]).mean() > 0.02  # numbers of their own, no copies


@pytest.mark.parametrize("generator", ALL, ids=IDS)
def test_the_same_rows_from_the_same_seed(generator):
    rows = mixed(300)
    assert np.array_equal(drawn(generator, rows, 50, seed=1), drawn(generator, rows, 50, seed=1))
    assert not np.array_equal(drawn(generator, rows, 50, seed=1), drawn(generator, rows, 50, seed=2))


def test_structure_beyond_pairs_is_what_trees_are_for():
    """The third column is the exclusive or of two coins: no pair shows it."""
    rng = np.random.default_rng(5)
    coins = rng.integers(0, 2, size=(4000, 2)).astype(float)
    rows = np.column_stack([coins, coins[:, 0] != coins[:, 1]]).astype(float)
    codes = (0, 1, 2)
    right = [
        float(((made[:, 0] != made[:, 1]) == made[:, 2]).mean())
        for made in (
            drawn(kind(categorical=codes), rows, 4000, seed=1)
            for kind in (GaussianCopula, TreeMarginals, SequentialTrees)
        )
    ]
    assert max(right[:2]) < 0.6
    assert right[2] > 0.95


@pytest.mark.parametrize("generator", ALL, ids=IDS)
def test_degenerate_tables(generator):
    """One row; one value; more values than bins with ties."""
    one = np.array([[1.0, 2.0, 0.0, 3.0]])
    np.testing.assert_allclose(drawn(generator, np.repeat(one, 30, axis=0), 7, seed=1), np.repeat(one, 7, axis=0))
    tied = np.random.default_rng(1).integers(0, 60, size=(200, 4)).astype(float)
    assert drawn(generator, tied, 20, seed=1).shape == (20, 4)


def test_anything_with_fit_and_sample():
    rows = mixed(500)[:, :2]
    for other in (GaussianMixture(3, random_state=0), KernelDensity(bandwidth=0.3)):
        assert drawn(other, rows, 40, seed=1).shape == (40, 2)
        assert np.array_equal(*(drawn(other, rows, 40, seed=1) for _ in range(2)))


class Silent:
    def fit(self, x):
        return self


class Short(Silent):
    def sample(self, count):
        return np.zeros((count - 1, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: drawn(object(), rows, 5, seed=1), "has no `fit`"),
        (lambda rows: drawn(Silent(), rows, 5, seed=1), "has no `sample`"),
        (lambda rows: drawn(Short(), rows, 5, seed=1), r"must return 5 rows of 2 columns, got shape \(4, 2\)"),
        (lambda rows: drawn(GaussianCopula(), [["a"]], 5, seed=1), "`rows` must be numbers"),
        (lambda rows: drawn(GaussianCopula(), rows[0], 5, seed=1), "a table of rows and columns"),
        (lambda rows: drawn(GaussianCopula(), rows * np.nan, 5, seed=1), "must be finite, got a gap"),
        (lambda rows: drawn(GaussianCopula(categorical=(7,)), rows, 5, seed=1), "`categorical` must be"),
        (lambda rows: drawn(TreeMarginals(categorical=(1, 1)), rows, 5, seed=1), "name a column twice"),
        (lambda rows: drawn(SequentialTrees(leaf=0), rows, 5, seed=1), "`leaf` must be at least 1"),
        (lambda rows: drawn(GaussianCopula(), rows, 0, seed=1), "`count` must be at least 1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call(mixed(50)[:, :2])
