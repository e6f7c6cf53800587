"""Rows that hang together: the statistic by hand, its level under a law that was fitted, and what it can see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from dpaudit import InputError
from dpaudit.fitted import dependence
from dpaudit.fitted.dependence import Grouping, cross_fitted_residuals, groupings, hang_together, unshared

ROWS = 2000


def names(found):
    return [one.name for one in found]


def world(seed, cluster=1, together=0.0, rows=ROWS, effect=0.0):
    """A label from numbers and ids with real effects; `together` of the rows share a draw with their cluster."""
    rng = np.random.default_rng([seed, 5])
    x, ids = rng.normal(size=(rows, 2)), rng.integers(0, 60, size=(2, rows))
    place = np.arange(rows) // cluster
    draws = np.where(rng.random(rows) < together, rng.random(rows)[place], rng.random(rows))
    odds = 0.8 * x[:, 0] - 0.6 * x[:, 1] + effect * rng.normal(size=60)[ids[0]]
    return {"x": x[:, 0], "y": x[:, 1], "id": ids[0], "other": ids[1]}, draws, special.expit(odds), place


def played(columns, values, seed=0, **settings):
    residuals, chance = cross_fitted_residuals(columns, values, seed=seed, **settings)
    return hang_together(residuals, chance, groupings(columns, seed=seed), seed=seed)


# ---------------------------------------------------------------------------------------------------------- groupings


def test_which_columns_are_groupings():
    rows = 60
    columns = {
        "nine": np.arange(rows) % 9,
        "ten": np.arange(rows) % 10,
        "pairs": np.arange(rows) % 30,
        "once": np.arange(rows) % 31,
        "texts": np.array([f"u{n % 20}" for n in range(rows)], dtype=object),
        "number": np.linspace(0.0, 1.0, rows),
    }
    found = groupings(columns)
    assert names(found) == ["ten", "pairs", "texts", "2 successive rows", "10 successive rows", "nearest neighbours"]
    assert [one.column for one in found] == [True] * 3 + [False] * 3


def test_an_empty_value_groups_nothing():
    (found, *_) = groupings({"c": np.array([*"abcdefghij", None, None] * 3, dtype=object)})
    assert found.codes.tolist() == [*range(10), -1, -1] * 3


def test_neighbours_are_mutual_pairs():
    found = groupings({}, np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [9.0]]))[-1]
    assert found.codes[0] == found.codes[1] >= 0
    assert found.codes[3] == found.codes[4] >= 0
    assert found.codes[2] == found.codes[5] == -1


def test_copies_are_neighbours():
    """In a wide table too, where neighbours are looked for in projections."""
    rng = np.random.default_rng(0)
    columns = {f"x{n}": rng.normal(size=100).repeat(2) for n in range(30)}
    columns["name"] = np.char.mod("%d", rng.integers(0, 9, 100)).repeat(2)
    found = groupings(columns)[-1].codes
    assert np.array_equal(found[::2], found[1::2])
    assert np.unique(found).size == 100


def test_of_many_rows_some_look_for_neighbours(monkeypatch):
    monkeypatch.setattr(dependence, "PAIRED", 50)
    found = groupings({"x": np.random.default_rng(0).normal(size=200)})[-1]
    assert 20 < (found.codes >= 0).sum() <= 50


# ---------------------------------------------------------------------------------------------------------- statistic


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_products_by_hand(seed, wide):
    rng = np.random.default_rng(seed)
    e, codes = rng.normal(size=(12, wide)), rng.integers(-1, 3, 12)
    orders = dependence._orders(rng.random(12), seed=3)[:4]
    found = dependence._products(e, orders, codes)
    pairs = (codes[:, None] == codes) & (codes >= 0)[:, None] & ~np.eye(12, dtype=bool)
    expected = [(pairs * (e[order] @ e[order].T)).sum() for order in orders]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([7, 100, 333]))
def test_permutations_stay_in_their_tenth(seed, rows):
    law = np.random.default_rng(seed).random(rows)
    orders = dependence._orders(law, seed=1)
    assert orders.shape == (100, rows)
    assert np.array_equal(orders[0], np.arange(rows))
    assert np.array_equal(np.sort(orders, axis=1), np.tile(np.arange(rows), (100, 1)))
    tenth = np.searchsorted(np.quantile(law, np.arange(1, 10) / 10), law)
    assert np.array_equal(tenth[orders], np.tile(tenth, (100, 1)))


def test_p_values_by_hand():
    """The share of data and permutations whose largest standardised statistic is as large."""
    rng = np.random.default_rng(2)
    e, law = rng.normal(size=200), rng.random(200)
    tested = [Grouping("a", np.arange(200) // 4), Grouping("b", np.arange(200) % 40)]
    e += 0.35 * rng.normal(size=50)[tested[0].codes]
    found = hang_together(e, law, tested, seed=9)
    orders = dependence._orders(law, seed=9)
    sums = np.array(
        [[sum(e[order][one.codes == g].sum() ** 2 for g in range(50)) for order in orders] for one in tested]
    )
    standard = (sums - sums.mean(axis=1, keepdims=True)) / sums.std(axis=1, keepdims=True)
    for effect, here, plain in zip(found.effects, standard[:, 0], sums, strict=True):
        assert effect.p_value == pytest.approx((standard.max(axis=0) >= here).mean())
        assert effect.inflation == pytest.approx(1.0 + (plain[0] - plain[1:].mean()) / (e @ e))
    assert found.effects[0].p_value < found.effects[1].p_value


def test_the_test_is_exact_where_residuals_are_exchangeable():
    """Ten groupings, and a p-value below .05 in about one of twenty games."""
    rng = np.random.default_rng(4)
    tested = [Grouping(f"g{n}", rng.integers(0, 40, 200)) for n in range(10)]
    law = np.zeros(200)
    smallest = [
        min(one.p_value for one in hang_together(rng.normal(size=200), law, tested, seed=game).effects)
        for game in range(200)
    ]
    hits = int(np.sum(np.array(smallest) <= 0.05))
    assert stats.binom.ppf(1e-4, 200, 0.05) <= hits <= stats.binom.ppf(1 - 1e-4, 200, 0.05)


def test_what_is_harmless_is_no_hit():
    """An effect that is certain and small, and one that is as certain and large."""
    rng = np.random.default_rng(5)
    codes = np.arange(40_000) // 2
    shared = rng.normal(size=20_000)[codes]
    for share, hit in ((0.1, False), (0.5, True)):
        e = np.sqrt(1.0 - share) * rng.normal(size=40_000) + np.sqrt(share) * shared
        found = hang_together(e, np.zeros(40_000), [Grouping("pairs", codes)], seed=1)
        assert found.hit == hit
        assert found.effects[0].p_value == 0.01
        assert found.effects[0].inflation == pytest.approx(1.0 + share, abs=0.05)
        assert (found.worst is None) != hit


def test_large_groups_are_learnt_not_tested():
    rng = np.random.default_rng(6)
    large = Grouping("large", np.arange(2000) % 20)
    skewed = Grouping("skewed", np.where(np.arange(2000) < 1000, 7, 10 + np.arange(2000) // 50))
    alone = Grouping("alone", np.where(np.arange(2000) < 1990, np.arange(2000), -1))
    found = hang_together(rng.normal(size=2000), rng.random(2000), [large, skewed, alone], seed=1)
    assert names(found.effects) == ["skewed"]
    assert (skewed.tested[:1000] == -1).all()
    assert np.array_equal(skewed.tested[1000:], skewed.codes[1000:])


def test_nothing_to_test_is_no_hit():
    found = hang_together(np.ones(4), np.ones(4), [Grouping("alone", np.arange(4))], seed=0)
    assert (found.p_value, found.worst, found.effects, found.hit) == (1.0, None, (), False)
    flat = hang_together(np.ones(40), np.ones(40), [Grouping("pairs", np.arange(40) // 2)], seed=0)
    assert not flat.hit, "residuals that are all alike are so in every order"


@pytest.mark.parametrize(
    ("residuals", "chance", "words"),
    [([1.0, np.nan], [0.5, 0.5], "finite"), ([1.0, 2.0], [0.5], "one length"), ([[[1.0]]], [0.5], "finite")],
)
def test_refusals(residuals, chance, words):
    with pytest.raises(InputError, match=words):
        hang_together(residuals, chance, [], seed=0)


def test_the_seed_alone_decides():
    columns, draws, law, _ = world(0, cluster=5, together=0.5)
    assert played(columns, (draws < law).astype(int), classes=2) == played(
        columns, (draws < law).astype(int), classes=2
    )


# ---------------------------------------------------------------------------------------------------------- residuals


def test_residuals_of_two_classes():
    columns, draws, law, _ = world(1, rows=600)
    values = (draws < law).astype(int)
    residuals, chance = cross_fitted_residuals(columns, values, classes=2)
    frequent = int(values.mean() > 0.5)
    np.testing.assert_allclose(residuals, ((values == frequent) - chance) / np.sqrt(chance * (1.0 - chance)), rtol=1e-6)
    assert abs(residuals.mean()) < 0.15
    assert residuals.std() == pytest.approx(1.0, abs=0.15)


def test_residuals_of_many_classes_are_those_of_the_most_frequent_ones():
    rng = np.random.default_rng(2)
    values = np.concatenate([np.repeat(6, 200), rng.integers(0, 6, 400)])
    residuals, chance = cross_fitted_residuals({"x": rng.normal(size=600)}, values, classes=7)
    assert residuals.shape == (600, dependence.PATTERNS)
    assert chance.mean() == pytest.approx(1 / 3, abs=0.05)
    assert np.array_equal(residuals[:, 0] > 0.0, values == 6)


def test_residuals_of_numbers():
    columns, draws, law, _ = world(3, rows=600)
    values = 50.0 + 5.0 * special.logit(law) + stats.norm.ppf(draws)
    residuals, chance = cross_fitted_residuals(columns, values)
    assert residuals.std() == pytest.approx(1.0)
    assert np.corrcoef(chance, law)[0, 1] > 0.9


@pytest.mark.parametrize("classes", [2, 3, None])
def test_a_law_of_no_column_is_the_overall_frequency(classes):
    values = np.random.default_rng(0).integers(0, 2, 100)
    residuals, chance = cross_fitted_residuals({"id": np.arange(100)}, values, classes=classes, apart=["id"])
    assert np.ptp(chance) == 0.0
    assert np.unique(residuals.round(9)).size <= 2 * max(1, classes or 1)


def test_columns_that_the_audited_rows_do_not_share():
    rng = np.random.default_rng(0)
    here = {"user": np.arange(200) // 5, "day": rng.integers(0, 25, 200), "x": rng.normal(size=200)}
    there = {"user": 40 + np.arange(200) // 5, "day": rng.integers(0, 25, 200), "x": rng.normal(size=200)}
    assert unshared(here, there) == ["user"]
    assert unshared(here, here) == []


# ------------------------------------------------------------------------------------------------- level and power

GAMES = 8
"""Here few, to run in seconds: at a level of .05 more than 4 hits of 8 happen less than once in 10,000 times."""


def test_a_law_that_was_learnt_is_no_dependence():
    """Ids with a real effect, which the fitted law knows as well as boosted trees do (theory:placebo#dependence)."""
    hits = 0
    for seed in range(GAMES):
        columns, draws, law, _ = world(seed, effect=1.0)
        hits += played(columns, (draws < law).astype(int), seed=seed, classes=2).hit
    assert hits <= 4


def test_an_effect_that_the_law_lacks_is_a_hit():
    columns, draws, law, _ = world(0, effect=1.0)
    found = played(columns, (draws < law).astype(int), classes=2, apart=["id"])
    assert found.hit
    assert found.worst.name == "id"


@pytest.mark.parametrize("kind", ["two classes", "four classes", "a number"])
def test_clusters_of_twenty_in_file_order(kind):
    for seed in range(2):
        columns, draws, law, _ = world(seed, cluster=20, together=1.0, rows=1000)
        if kind == "two classes":
            found = played(columns, (draws < law).astype(int), seed=seed, classes=2)
        elif kind == "four classes":
            found = played(
                columns, np.minimum((4.0 * (draws - law) + 2.0).clip(0.0).astype(int), 3), seed=seed, classes=4
            )
        else:
            found = played(columns, special.logit(law) + stats.norm.ppf(draws), seed=seed)
        assert found.hit
        assert found.worst.name in ("2 successive rows", "10 successive rows")
        assert not found.worst.column


def test_clusters_of_twenty_in_a_column_that_the_audited_rows_do_not_share():
    for seed in range(3):
        columns, draws, law, place = world(seed, cluster=20, together=1.0)
        order = np.random.default_rng(seed).permutation(ROWS)
        mixed = {name: column[order] for name, column in (columns | {"user": 7000 + place}).items()}
        found = played(mixed, (draws < law).astype(int)[order], seed=seed, classes=2, apart=["user"])
        assert found.hit
        assert found.worst.name == "user"
        assert found.worst.inflation > 5.0
