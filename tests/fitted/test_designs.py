"""Designs: which columns are categories, encodings out of fold by hand; learners against the law and one-hot trees."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from threadpoolctl import threadpool_limits

from dpaudit import InputError
from dpaudit.counterfactuals import Residuals, boosted
from dpaudit.execution import stream
from dpaudit.fitted import designs
from dpaudit.fitted.designs import Design, codes_of, held_out, learnt, learnt_number, predicted_number

TEXTS = np.array(["b", None, "a", "b"], dtype=object)


def world(rows=8000, levels=400, effect=1.0, classes=2, seed=0):
    """Rows to learn from and as many others, of one law: an id with an effect, and three numbers."""
    rng = np.random.default_rng(seed)
    ids, x = rng.integers(0, levels, 2 * rows), rng.normal(size=(2 * rows, 3))
    odds = effect * rng.normal(size=(levels, classes - 1))[ids] + x[:, :1] - 0.5 * x[:, 1:2]
    law = special.softmax(np.concatenate([np.zeros((2 * rows, 1)), odds], axis=1), axis=1)
    values = np.minimum((law.cumsum(axis=1) < rng.random(2 * rows)[:, None]).sum(axis=1), classes - 1)
    columns = {"id": 1000 + ids, **{f"x{n}": x[:, n] for n in range(3)}}
    return part(columns, slice(rows)), values[:rows], part(columns, slice(rows, None)), values[rows:], law[rows:]


def part(columns, rows):
    return {name: column[rows] for name, column in columns.items()}


def log_loss(law, values):
    return -np.log(law[np.arange(values.size), values]).mean()


# ------------------------------------------------------------------------------------------------------------- columns


def test_codes_are_common_to_all_tables():
    first, second = codes_of(TEXTS, np.array(["c", "a"], dtype=object))
    assert first.tolist() == [1, -1, 0, 1]
    assert second.tolist() == [2, 0]


def test_gaps_of_numbers_are_gaps():
    assert [codes.tolist() for codes in codes_of([1.0, np.nan, 7.0], [7, 1])] == [[0, -1, 1], [1, 0]]


def test_which_columns_are_categories():
    rows = 100
    columns = {
        "text": np.array(["a", "b"] * 50, dtype=object),
        "words": np.array(["a", "b"] * 50),
        "few": np.arange(rows) % 19,
        "many": np.arange(rows) % 20,
        "once": np.arange(rows) % 51,
        "with gaps": np.where(np.arange(rows) % 40 == 0, np.nan, np.arange(rows) % 20),
        "half": np.arange(rows) % 20 + 0.5,
        "flag": np.arange(rows) % 2 == 0,
        "declared": np.arange(rows) % 3,
    }
    found = Design.of(columns, part(columns, slice(7)), categories=["declared"])
    assert found.rows == (100, 7)
    assert found.category_names == ("text", "words", "many", "with gaps", "declared")
    assert found.number_names == ("few", "many", "once", "with gaps", "half", "flag")
    assert found.numbers.dtype == np.float32
    assert np.isnan(found.numbers[40, 3])
    assert found.codes[40, 3] == 0, "an empty category is a level of its own"
    assert np.array_equal(found.codes[100:], found.codes[:7])


def test_infinite_numbers_are_gaps():
    found = Design.of({"x": np.array([np.inf, -np.inf, 1e300, 1.0])})
    assert np.isnan(found.numbers[:3, 0]).all()
    assert found.numbers[3, 0] == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Design.of({"x": [1.0]}, {"y": [1.0]}), "lacks 'x'"),
        (lambda: Design.of({"x": [1.0], "y": [1.0, 2.0]}), "one length"),
        (lambda: Design.of({"x": [1.0]}, categories=["y"]), "`categories` must be columns"),
        (lambda: learnt({"x": [1.0]}, [2], {"x": [1.0]}, classes=2), "from 0 to 1"),
        (lambda: learnt({"x": [1.0]}, ["a"], {"x": [1.0]}, classes=2), "from 0 to 1"),
        (lambda: learnt({"x": [1.0]}, [], {"x": [1.0]}, classes=2), "whole numbers"),
        (lambda: learnt({"x": [1.0]}, [0, 1], {"x": [1.0]}, classes=2), "one for each of the 1 rows, got 2"),
        (lambda: learnt({}, [0, 1], {}, classes=2), "at least one column"),
        (lambda: learnt({"x": [1.0]}, [0], {"x": [1.0]}, classes=2, learner="forest"), "'boosted', 'catboost'"),
        (lambda: learnt_number({"x": [1.0]}, [0.5], {"x": [1.0]}), "at least 2 rows"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(InputError, match=words):
        call()


# ----------------------------------------------------------------------------------------------------------- encodings


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(6, 40))
def test_encodings_by_hand(seed, targets, rows):
    """A loop over rows: the mean of the level over the other folds, with rows of the overall mean added."""
    rng = np.random.default_rng(seed)
    level, wanted = rng.integers(0, 4, rows + 5), rng.normal(size=(rows, targets))
    names = np.array(["a", "b", "c", None], dtype=object)[level]
    found = Design.of({"c": names[:rows]}, {"c": names[rows:]}).encoded(wanted, seed=7)
    fold = stream(7, "folds of target encodings").permutation(rows) % designs.FOLDS
    for row in range(rows + 5):
        alike = level[:rows] == level[row]
        if row < rows:
            alike &= fold != fold[row]
        more = designs.SMOOTHING
        own = (wanted[alike].sum(axis=0) + more * wanted.mean(axis=0)) / (alike.sum() + more)
        np.testing.assert_allclose(found[row], own, atol=1e-5)


def test_no_row_is_encoded_by_its_own_value():
    ids, values = np.arange(300) % 30, np.zeros((300, 1))
    moved = values.copy()
    moved[17] = 1.0
    names = {"id": np.char.mod("u%d", ids)}
    first, second = (Design.of(names).encoded(each, seed=1) for each in (values, moved))
    changed = np.abs(second - first)[:, 0]
    assert changed[17] == pytest.approx(changed[18], abs=1e-3), "its own moved with the overall mean alone"
    assert changed[ids == 17].max() > 10.0 * changed[17]


def test_an_unseen_level_is_the_overall_frequency():
    columns = {"c": np.array(["a", "b"] * 10)}
    values = np.tile([[1.0], [0.0]], (10, 1))
    found = Design.of(columns, {"c": np.array(["z", "a"])}).encoded(values)
    assert found[20, 0] == 0.5
    assert found[21, 0] == pytest.approx((10 + 0.5 * designs.SMOOTHING) / (10 + designs.SMOOTHING))


def test_matrix_has_a_column_a_class_and_names_those_of_few_levels():
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=500), "few": np.char.mod("%d", rng.integers(0, 5, 500))}
    columns["many"] = np.char.mod("%d", rng.integers(0, 60, 500))
    design = Design.of(columns)
    for classes, wide in ((2, 1), (5, 5), (designs.ENCODED + 10, designs.COMPONENTS)):
        values = np.arange(500) % classes
        found, few = design.matrix(designs._targets(design, values))
        assert found.shape == (500, 1 + 2 * wide + 1)
        assert few == [1 + 2 * wide]


# ------------------------------------------------------------------------------------------------------------ learners


def one_hot(columns, values, others):
    """What there was before: a column for each of the 100 most frequent levels."""
    levels, counts = np.unique(columns["id"], return_counts=True)
    kept = levels[np.argsort(-counts, kind="stable")][:100]
    first, second = (
        np.column_stack([*(table[f"x{n}"] for n in range(3)), table["id"][:, None] == kept])
        for table in (columns, others)
    )
    return boosted(first, values, second, 2, 0, trees=150, leaves=15)


def test_encodings_are_better_than_one_column_a_level():
    columns, values, others, truth, law = world()
    best, found, before = (
        log_loss(each, truth)
        for each in (law, learnt(columns, values, others, classes=2), one_hot(columns, values, others))
    )
    assert found - best < 0.6 * (before - best)
    assert before - found > 0.02


def test_catboost_learns_as_well():
    columns, values, others, truth, law = world(rows=4000, levels=100)
    losses = [log_loss(learnt(columns, values, others, classes=2, learner=name), truth) for name in designs.LEARNERS]
    assert abs(losses[0] - losses[1]) < 0.01
    assert max(losses) - log_loss(law, truth) < 0.05


@pytest.mark.parametrize("learner", designs.LEARNERS)
@pytest.mark.parametrize("classes", [2, 4])
def test_gaps_and_rare_classes_never_stop_a_learner(learner, classes):
    rng = np.random.default_rng(3)
    rows = 60
    x = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows))
    names = np.where(rng.random(rows) < 0.3, None, rng.choice(["a", "b"], rows).astype(object))
    columns = {"x": x, "name": names, "none": np.full(rows, np.nan), "same": np.ones(rows)}
    values = (rng.random(rows) < 0.5).astype(int)
    values[0] = classes - 1  # of four: the only row of its class
    others = part(columns, slice(9)) | {"name": np.array(["z"] * 9, dtype=object)}
    found = learnt(columns, values, others, classes=classes, learner=learner)
    assert found.shape == (9, classes)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.isfinite(learnt_number(columns, rng.normal(size=rows), others).predicted).all()


def test_a_class_without_rows_has_half_a_row():
    columns = {"x": np.linspace(0.0, 1.0, 100)}
    found = learnt(columns, np.arange(100) % 2, columns, classes=3)
    np.testing.assert_allclose(found[:, 2], 0.5 / 101.5, rtol=0.01)
    alone = learnt(columns, np.full(100, 2), columns, classes=4)
    np.testing.assert_allclose(alone[:, 2], 1.0, atol=0.02)
    np.testing.assert_allclose(alone[:, [0, 1, 3]], 0.5 / 102, rtol=0.02)


def test_two_columns_that_tell_nothing_alone():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (2, 4000))
    values = (first + second + (rng.random(4000) < 0.1)) % 2
    columns = {"a": np.char.mod("%d", first), "b": np.char.mod("%d", second), "x": rng.normal(size=4000)}
    found = learnt(part(columns, slice(2000)), values[:2000], part(columns, slice(2000, None)), classes=2)
    assert log_loss(found, values[2000:]) < 0.45, "the truth is .33, and what each column tells alone is .69"


def test_many_classes_learn_something():
    columns, values, others, truth, _ = world(rows=1500, levels=30, effect=2.0, classes=30)
    shares = (np.bincount(values, minlength=30) + 0.5) / (values.size + 15)
    assert (
        log_loss(learnt(columns, values, others, classes=30), truth) < log_loss(np.tile(shares, (1500, 1)), truth) - 0.3
    )


@pytest.mark.parametrize("learner", designs.LEARNERS)
def test_the_seed_alone_decides(learner):
    columns, values, others, _, _ = world(rows=600, levels=40, classes=3)

    def found(seed):
        return learnt(columns, values, others, classes=3, learner=learner, seed=seed)

    with threadpool_limits(1):
        first = found(1)
    with threadpool_limits(2):
        assert np.array_equal(first, found(1))
    assert not np.array_equal(first, found(2))


def test_catboost_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(InputError, match="not installed") as problem:
        learnt({"x": [0.0, 1.0]}, [0, 1], {"x": [0.5]}, classes=2, learner="catboost")
    assert "dpaudit[catboost]" in str(problem.value)


# ------------------------------------------------------------------------------------------------------------- numbers


def numbers(rows=3000, levels=60, seed=0):
    rng = np.random.default_rng(seed)
    ids, x = rng.integers(0, levels, 2 * rows), rng.normal(size=2 * rows)
    mean = 100.0 + 20.0 * rng.normal(size=levels)[ids] + 20.0 * np.abs(x)
    columns, values = {"id": ids, "x": x}, mean + 10.0 * rng.normal(size=2 * rows)
    return part(columns, slice(rows)), values[:rows], part(columns, slice(rows, None)), values[rows:], mean[rows:]


@pytest.mark.parametrize("learner", designs.LEARNERS)
def test_a_number_is_predicted_and_its_spread_is_that_of_held_out_rows(learner):
    columns, values, others, truth, mean = numbers()
    found = learnt_number(columns, values, others, learner=learner)
    assert isinstance(found, Residuals)
    assert np.sqrt(np.mean((found.predicted - mean) ** 2)) < 6.0
    assert found.residuals.std() == pytest.approx((truth - found.predicted).std(), rel=0.06)
    assert np.log(found.density(truth)).mean() > -0.5 * np.log(2 * np.pi * np.e * 10.0**2) - 0.15


def test_a_constant_number_is_predicted_as_it_is():
    columns = {"x": np.arange(10.0)}
    assert predicted_number(columns, np.full(10, 3.5), columns).tolist() == [3.5] * 10


def test_held_out_rows_are_not_learnt_from():
    columns, values = {"row": np.arange(23.0)}, np.arange(23.0)
    seen = []

    def fit(inside, part, outside, seed):
        assert np.array_equal(inside["row"], part)
        assert not np.isin(outside["row"], inside["row"]).any()
        seen.extend(outside["row"])
        return outside["row"]

    assert np.array_equal(held_out(fit, columns, values), values)
    assert sorted(seen) == values.tolist()
