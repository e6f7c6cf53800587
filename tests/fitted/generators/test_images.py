"""Pictures of pixel grids: one seed one table, levels and shares as in the rows, the classes' shapes, bad input."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpaudit import InputError
from dpaudit.fitted.generators import drawn
from dpaudit.fitted.generators.images import PLAN, PixelGrids, _Coarse, _Grid, _joined, _split

SMALL = PixelGrids(side=12, levels=4, hidden=72, width=12, blocks=1, epochs=(40, 20, 20), batch=32, rate=5e-3)


def bars(count=600, seed=0):
    """A bar of some grey, upright in class 0, across in class 1 (a quarter of the rows), one pixel to and fro."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, 145))
    for row in rows:
        image, place, across = row[:-1].reshape(12, 12), rng.integers(4, 7), rng.random() < 0.25
        image[:, place : place + 3] = rng.integers(2, 4) / 3.0
        row[:-1] = image.T.ravel() if across else image.ravel()
        row[-1] = float(across)
    return rows


@pytest.fixture(scope="module")
def fitted():
    return SMALL.fit(bars(), seed=1)


def test_made_pictures_look_like_their_class(fitted):
    rows, made = bars(), fitted.sample(400, seed=2)
    for label in (0.0, 1.0):
        means = [each[each[:, -1] == label, :-1].mean(axis=0) for each in (rows, made)]
        assert np.corrcoef(*means)[0, 1] > 0.9
    assert abs(made[:, -1].mean() - rows[:, -1].mean()) < 0.08
    assert set(np.unique(np.round(made[:, :-1] * 3.0, 9))) <= {0.0, 1.0, 2.0, 3.0}
    assert (made[:, :-1] == 0.0).mean() > 0.5


def test_the_same_rows_from_the_same_seed(fitted):
    assert np.array_equal(fitted.sample(20, seed=5), fitted.sample(20, seed=5))
    assert not np.array_equal(fitted.sample(20, seed=5), fitted.sample(20, seed=6))
    quick = PixelGrids(side=12, levels=2, hidden=20, width=4, blocks=1, epochs=(1, 1, 1))
    first, second = (drawn(quick, bars(60), 10, seed=3) for _ in range(2))
    assert np.array_equal(first, second)


def test_no_step_looks_at_what_it_draws():
    """Pixels that come later, changed, change nothing: the likelihood is one."""
    generator = torch.Generator().manual_seed(0)
    first, label = _Coarse(9, 30, 4, 2), torch.tensor([1])
    weights = first.start(generator)
    image = torch.randint(4, (1, 9), generator=generator)
    for place in range(9):
        changed = image.clone()
        changed[:, place:] = 3 - changed[:, place:]
        torch.testing.assert_close(
            first.logits(weights, image, label, place), first.logits(weights, changed, label, place)
        )
    grid = _Grid(4, 5, 1, 4, 2)
    weights, split = grid.start(generator), torch.randint(4, (1, 4, 4, 4), generator=generator)
    for step in range(len(PLAN)):
        changed = torch.where(grid.known(step) > 0.0, split, 3 - split)
        torch.testing.assert_close(grid.logits(weights, split, label, step), grid.logits(weights, changed, label, step))
    drawn_once = torch.zeros(4, 16)
    for step in range(len(PLAN)):
        channel, places = grid.new(step)
        drawn_once[channel, places] += 1.0
    assert (drawn_once[1:] == 1.0).all()


def test_grids_are_split_and_joined():
    images = torch.arange(2 * 36).reshape(2, 6, 6)
    assert torch.equal(_joined(_split(images)), images)
    assert torch.equal(_split(images)[:, 0], images[:, ::2, ::2])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (bars(20)[:, 1:], "must be 144 pixels and a class, got 144 columns"),
        (2.0 * bars(20), "must have pixels in \\[0, 1\\]"),
        (bars(20) + np.eye(145)[-1] * 0.5, "must end in classes 0, 1"),
    ],
)
def test_bad_rows(rows, said):
    with pytest.raises(InputError, match=said):
        SMALL.fit(rows)


def test_bad_settings():
    with pytest.raises(InputError, match="`side` must be a multiple of 4, got 10"):
        PixelGrids(side=10)
    with pytest.raises(InputError, match="`epochs` must be three numbers"):
        PixelGrids(epochs=(1, 2))
    with pytest.raises(InputError, match="`sharpness` must be two positive numbers"):
        PixelGrids(sharpness=(2.0, 1.0))


def test_a_sharper_draw_has_fewer_stray_pixels(fitted):
    """Pixels that differ from both neighbours across and both along."""

    def stray(made):
        image = made[:, :-1].reshape(-1, 12, 12)
        inner = image[:, 1:-1, 1:-1]
        around = (image[:, :-2, 1:-1], image[:, 2:, 1:-1], image[:, 1:-1, :-2], image[:, 1:-1, 2:])
        return np.all([inner != each for each in around], axis=0).mean()

    sharp = replace(fitted, sharpness=(3.0, 3.0))
    assert stray(sharp.sample(300, seed=2)) < 0.7 * stray(fitted.sample(300, seed=2))
