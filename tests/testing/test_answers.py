"""Ground truth of guesses beside placebo rows: what the samplers say of themselves is so."""

import numpy as np
import pytest
from scipy import special

from dpaudit import InputError
from dpaudit.testing import ground_truth
from dpaudit.testing.ground_truth import AnsweredRows


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_audited_guesses_are_right_as_often_as_the_epsilon_allows(rng, k, epsilon):
    """The answer is the guess, as the model knows no more than a true proxy: P(right) = sig(epsilon + logit d)."""
    found = AnsweredRows(epsilon, k=k, rows=40_000, placebo=40_000).sample(rng)
    for audited, shown in ((True, epsilon), (False, 0.0)):
        rows = found.own & (found.audited == audited)
        rates = special.expit(shown + special.logit(found.chance[rows]))
        if not audited:
            assert abs(found.right[rows].mean() - rates.mean()) < 0.012
        else:  # an answer is likelier to be one of the likely values: at most so often, and about so often
            assert -0.03 < found.right[rows].mean() - rates.mean() < 0.012


@pytest.mark.parametrize("proxy", ["exact", "no id"])
def test_these_proxies_are_calibrated(rng, proxy):
    (true, said, _), _ = AnsweredRows(0.0, proxy, k=3, rows=40_000).known(rng)
    for low in np.arange(0.0, 0.8, 0.1):
        chosen = (said >= low) & (said < low + 0.1)
        assert abs(true[chosen].mean() - said[chosen].mean()) < 0.012


@pytest.mark.parametrize("proxy", ["x 1.5", "- 0.5", "+ noise"])
def test_these_proxies_are_not(rng, proxy):
    (true, said, _), _ = AnsweredRows(0.0, proxy, rows=40_000).known(rng)
    chosen = (said >= 0.85) & (said < 0.95)
    assert abs(true[chosen].mean() - said[chosen].mean()) > 0.02


def test_delta_reveals_values(rng):
    found = AnsweredRows(0.0, delta=0.3, rows=20_000, placebo=100).sample(rng)
    surest = found.scores[found.audited] > 10.0
    assert abs(surest.mean() - 0.3) < 0.015
    assert found.right[found.audited][surest].all()


def test_steep_rows_are_surest_where_they_are_right(rng):
    for truth in (ground_truth.steep_rows(), ground_truth.steep_cells()):
        found = truth.sample(rng)
        own = found.own & found.audited
        best = found.scores[own] > 1.0
        assert abs(best.mean() - 0.25) < 0.05
        assert found.right[own][best].mean() > 0.98
        assert found.right[own][~best].mean() < 0.65


def test_promoted_values_serve_placebo_rows_in_another_cell(rng):
    found = ground_truth.promoted_rows(epsilon=1.0).sample(rng)
    assert (~found.own).sum() > 0.2 * found.placebo_rows
    assert found.values == 3


def test_names_tell_truths_apart():
    truths = [
        AnsweredRows(0.0),
        AnsweredRows(0.0, delta=0.1),
        AnsweredRows(0.0, "no id"),
        ground_truth.steep_rows(),
        ground_truth.steep_cells(),
        ground_truth.RecognisedRows(),
    ]
    assert len({truth.name for truth in truths}) == len(truths)


def test_unknown_proxies_are_refused():
    with pytest.raises(InputError, match="`proxy` must be one of"):
        AnsweredRows(0.0, "perfect")
    with pytest.raises(InputError, match="`model` must be one of"):
        AnsweredRows(0.0, model="perfect")
