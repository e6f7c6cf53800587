"""Paper 004 on pictures: the quick run's shapes, the clipped sum against a naive twin, what classifiers say."""

import math

import numpy as np
import pytest
import torch

from dpaudit import estimators
from dpaudit.execution import Execution
from dpaudit_experiments.common import image_models as models
from dpaudit_experiments.paper_004 import images as panoramia_images
from dpaudit_experiments.paper_004.images import GROUPS, HELPERS, QUICK

HERE = Execution(workers=1, progress=False)


@pytest.fixture(scope="module")
def played():
    return panoramia_images.target_games(QUICK, 1, HERE)


def test_every_target_is_audited_in_every_game(played):
    named = panoramia_images.targets(QUICK)
    assert len(played) == len(named) * QUICK.games
    assert {one.family for one in played} == {"epochs", "size", "epsilon", "twin"}
    assert len({(one.target, one.game) for one in played}) == len(played)
    assert {one.degree for one in played if one.target.startswith("wide CNN,")} == {1.0, 10.0, math.inf}
    for one in played:
        assert one.modality == "images"
        assert one.generated.included.size == (QUICK.members - QUICK.generator_rows) // 2
        assert (one.real is None) == (one.one_run is None) == (one.family not in ("epochs", "epsilon"))
        assert 0.0 <= one.test <= 1.0
        assert math.isfinite(estimators.panoramia(one.generated).divergence)


def test_targets_of_one_game_share_coins_and_baseline(played):
    first, *others = [one for one in played if one.game == 0]
    for one in others:
        assert np.array_equal(one.generated.included, first.generated.included)
        assert np.array_equal(one.generated.baseline, first.generated.baseline)


def test_the_rows_of_the_figures(played):
    helpers = panoramia_images.helper_rows(QUICK, 1, HERE)
    assert [row["helper"] for row in helpers] == list(HELPERS) * QUICK.few_games
    learning = panoramia_images.learning_rows(QUICK, 1, HERE)
    assert [row["training_rows"] for row in learning] == [220, 440]
    losses = panoramia_images.loss_rows(QUICK, 1, HERE)
    for target in {row["target"] for row in losses}:
        for group in GROUPS:
            shares = [row["share"] for row in losses if (row["target"], row["group"]) == (target, group)]
            assert sum(shares) == pytest.approx(1.0)


def test_the_clipped_sum_is_that_of_single_gradients():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((5, 1, 28, 28), dtype=np.float32))
    y, weights = torch.from_numpy(rng.integers(0, 10, size=5)), models._start(3, 1)
    wanted = {name: torch.zeros_like(value) for name, value in weights.items()}
    for row in range(5):
        own = {name: value.clone().requires_grad_() for name, value in weights.items()}
        logits = models._layers(own, x[row : row + 1])[1][-1]
        torch.nn.functional.cross_entropy(logits, y[row : row + 1]).backward()
        length = math.sqrt(sum(float((value.grad**2).sum()) for value in own.values()))
        for name, value in own.items():
            wanted[name] += value.grad * min(1.0, 0.7 / length)
    found = models.clipped_sum(weights, x, y, 0.7)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)


def test_losses_and_log_odds_are_those_of_the_probabilities():
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.random((7, 784)), rng.integers(0, 10, size=7)]).astype(np.float32)
    weights = models._start(3, 2)
    logits = models._layers(weights, models._tensors(rows)[0])[1][-1].double()
    chance = logits.softmax(1)[range(7), rows[:, -1].astype(int)].numpy()
    said = models.said_of(weights, rows)
    np.testing.assert_allclose(said[:, 0], -np.log(chance), rtol=1e-6)
    np.testing.assert_allclose(said[:, 1], np.log(chance / (1.0 - chance)), rtol=1e-5, atol=1e-6)


def test_a_private_training_is_noisy_and_repeats():
    rows = panoramia_images.real_rows("digits", 2)[:100]
    private = models.Training(width=2, marks=(1,), epsilon=2.0, batch=20)
    first, second = (models.trained(rows, private, 3)[0] for _ in range(2))
    plain = models.trained(rows, models.Training(width=2, marks=(1,), batch=20), 3)[0]
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["weight 3"], plain["weight 3"])
