"""The quick version on made-up reviews: every target and game, the same numbers again, nothing that is not a share."""

import math

import numpy as np
import pytest

from dpaudit import estimators
from dpaudit.execution import Execution
from dpaudit_experiments.paper_004 import texts

QUICK = texts.QUICK


@pytest.fixture(scope="module")
def execution(tmp_path_factory):
    return Execution(workers=1, keep=str(tmp_path_factory.mktemp("texts")))


@pytest.fixture(scope="module")
def played(execution):
    return texts.target_games(QUICK, 1, execution)


def test_every_target_and_game(played):
    assert len(played) == QUICK.games * (len(QUICK.epochs) + len(QUICK.epsilons) + 1)
    assert {(each.family, each.degree) for each in played} == {
        ("epochs", 1.0),
        ("epochs", 3.0),
        ("epsilon", 3.0),
        ("epsilon", math.inf),
    }
    for each in played:
        assert each.modality == "texts"
        assert each.generated.included.size == each.real.included.size == each.one_run.included.size == 120
        region = estimators.panoramia(each.generated)
        assert region.divergence >= 0.0
        assert each.train > 0.0
        assert each.test > 0.0


def test_targets_of_one_game_share_the_baseline(played):
    first = [each for each in played if each.game == 0]
    for each in first[1:]:
        np.testing.assert_array_equal(each.generated.baseline, first[0].generated.baseline)
        np.testing.assert_array_equal(each.generated.included, first[0].generated.included)


def test_more_epochs_less_loss(played):
    by_epochs = {each.degree: each.train for each in played if each.family == "epochs"}
    assert by_epochs[3.0] < by_epochs[1.0]


def test_the_same_numbers_again(played, tmp_path):
    """In another folder, where nothing is kept."""
    texts.target_games.cache_clear()
    texts._played.cache_clear()
    again = texts.target_games(QUICK, 1, Execution(workers=1, keep=str(tmp_path)))
    for first, second in zip(played, again, strict=True):
        np.testing.assert_array_equal(first.generated.attack, second.generated.attack)


def test_further_figures(execution, played):
    helpers = texts.helper_rows(QUICK, 1, execution)
    assert {row["helper"] for row in helpers} == set(texts.HELPERS)
    assert len(helpers) == 3 * QUICK.games
    learning = texts.learning_rows(QUICK, 1, execution)
    assert {row["audited"] for row in learning if row["panel"] == "a"} == {120}
    assert all(row["training_rows"] + row["audited"] == 240 for row in learning if row["panel"] == "b")
    losses = texts.loss_rows(QUICK, 1, execution)
    assert [row["target"] for row in losses][-1] == "helper"
    for key in {(row["target"], row["group"]) for row in losses}:
        assert sum(row["share"] for row in losses if (row["target"], row["group"]) == key) == pytest.approx(1.0)
    assert len(texts.sizes(QUICK)) == len(texts.sizes(texts.TextScale()))


def test_parts_of_the_chunks():
    found = texts.chunks_of(QUICK, 1)
    assert {name: len(found[name]) for name in ("members", "nonmembers", "others")} == {
        "members": QUICK.members,
        "nonmembers": QUICK.nonmembers,
        "others": QUICK.others,
    }
    assert found["public"].shape[1] == 2 * QUICK.tokens
    assert found["members"].max() < QUICK.shape.vocabulary


def test_a_view_is_learnt_once_from_the_same_rows():
    calls = []

    def view(rows, label, seed):
        calls.append(seed)
        return rows, lambda others: others

    remembered = texts.Remembered(view)
    rows, label = np.zeros((4, 2)), np.array([1, 1, 0, 0])
    for seed in (1, 1, 2):
        remembered(rows, label, seed)
    remembered(rows + 1.0, label, 1)
    assert calls == [1, 2, 1]
