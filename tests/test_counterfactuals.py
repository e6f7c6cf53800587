"""Distributions of protected values: they sample what they say, and say how far they can be believed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpaudit import InputError, counterfactuals
from dpaudit.testing.ground_truth import gaussian_mixture


def test_categorical_samples_its_own_law(rng):
    distribution = counterfactuals.Categorical(np.tile([0.1, 0.2, 0.7], (50_000, 1)))
    counts = np.bincount(distribution.sample(rng), minlength=3)
    assert stats.chisquare(counts, 50_000 * np.array([0.1, 0.2, 0.7])).pvalue > 1e-3
    assert distribution.classes == 3
    assert len(distribution.at(np.arange(7))) == 7


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_a_vector_is_the_probability_of_class_one(values):
    distribution = counterfactuals.Categorical(np.array(values))
    assert distribution.density(np.ones(len(values), dtype=int)) == pytest.approx(
        np.maximum(values, counterfactuals.LEAST), abs=1e-12
    )
    assert distribution.probabilities.sum(axis=1) == pytest.approx(1.0)


def test_single_precision_is_kept_and_never_off_the_end(rng):
    distribution = counterfactuals.Categorical(gaussian_mixture(1000, 10, rng)[2])
    assert distribution.probabilities.dtype == np.float32
    for _ in range(20):
        assert distribution.sample(rng).max() <= 9


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[0.5, 0.6]], "sum to 1"),
        ([[-0.1, 1.1]], "non-negative"),
        ([["a", "b"]], "must be numbers"),
        (np.zeros((2, 2, 2)), "at least two classes"),
        (np.zeros((0, 2)), "at least two classes"),
        ([[np.nan, 1.0]], "sum to 1"),
    ],
)
def test_what_is_no_law_is_refused(values, words):
    with pytest.raises(InputError, match=words):
        counterfactuals.Categorical(values)


def test_posterior_is_bayes_rule():
    prior = counterfactuals.Categorical([[0.8, 0.2]])
    found = counterfactuals.posterior([[0.1, 0.9]], prior)
    assert found.probabilities[0, 1] == pytest.approx(0.18 / 0.26)
    with pytest.raises(InputError, match="`likelihood` must be"):
        counterfactuals.posterior([[0.1, 0.9, 0.3]], prior)


def test_encode_takes_columns_together():
    codes, names = counterfactuals.encode(["f", "m", "f", "m"], [1, 1, 2, 2])
    assert [names[code] for code in codes] == [("f", "1"), ("m", "1"), ("f", "2"), ("m", "2")]
    with pytest.raises(InputError, match="must have one length"):
        counterfactuals.encode([1, 2], [1])


def test_densities_of_numbers_sum_to_one(rng):
    residuals = np.concatenate([rng.normal(-3, 1, 4000), rng.normal(2, 0.5, 4000)])
    grid = np.linspace(-10, 10, 4001)
    for distribution in (
        counterfactuals.Residuals(np.zeros(4001), residuals),
        counterfactuals.Normal(np.zeros(4001), 2.0),
    ):
        assert np.trapezoid(distribution.density(grid), grid) == pytest.approx(1.0, abs=2e-3)
        drawn = np.concatenate([distribution.sample(rng) for _ in range(5)])
        below = np.array([(drawn < x).mean() for x in grid[::200]])
        cdf = np.concatenate([[0.0], np.cumsum(distribution.density(grid))])[:-1] * (grid[1] - grid[0])
        assert below == pytest.approx(cdf[::200], abs=0.02)
    with pytest.raises(InputError, match="must differ"):
        counterfactuals.Residuals(np.zeros(3), np.ones(5))
    with pytest.raises(InputError, match="`scale` must be positive"):
        counterfactuals.Normal(np.zeros(3), 0.0)


def test_numeric_posterior_against_its_closed_form(rng):
    """A normal prior and a normal likelihood: the posterior is normal, with known mean and spread."""
    prior, seen = counterfactuals.Normal(np.zeros(4), 1.0), np.array([-1.0, 0.0, 0.5, 2.0])
    distribution = counterfactuals.NumericPosterior(lambda a: np.exp(-0.5 * (seen - a) ** 2), prior, draws=20_000)
    asked = np.array([-0.5, 0.3, 0.0, 1.0])
    exact = stats.norm.pdf(asked, seen / 2.0, np.sqrt(0.5))
    assert distribution.density(asked) == pytest.approx(exact, rel=0.05)
    assert distribution.at(np.array([1, 3])).density(asked[[1, 3]]) == pytest.approx(exact[[1, 3]], rel=0.05)


def test_calibration_tells_right_from_wrong(rng):
    _, labels, distribution = gaussian_mixture(20_000, 2, rng)
    right = counterfactuals.calibration(counterfactuals.Categorical(distribution), labels)
    sure = counterfactuals.calibration(counterfactuals.Categorical(np.where(distribution > 0.5, 0.99, 0.01)), labels)
    assert right.error < 0.02 < 0.1 < sure.error
    assert right.fidelity > 0.2 > sure.fidelity
    assert right.blank == pytest.approx(np.log(2.0), abs=1e-3)
    centre = rng.normal(size=5000)
    values = centre + rng.normal(size=5000)
    assert counterfactuals.calibration(counterfactuals.Normal(centre, 1.0), values).error < 0.03
    assert counterfactuals.calibration(counterfactuals.Normal(centre, 5.0), values).error > 0.1
    assert counterfactuals.calibration(counterfactuals.Fresh(np.arange(3)), np.arange(3)) is None


@pytest.mark.parametrize("classes", [2, 4])
def test_recalibration_mends_an_overconfident_proxy(rng, classes):
    _, labels, distribution = gaussian_mixture(20_000, classes, rng)
    sharp = distribution.astype(float) ** 3
    counterfactual = counterfactuals.Categorical(sharp / sharp.sum(axis=1, keepdims=True))
    held, rest = np.arange(4000), np.arange(4000, 20_000)
    mended = counterfactual.recalibrated(labels, held)
    before, after = (counterfactuals.calibration(one.at(rest), labels[rest]) for one in (counterfactual, mended))
    assert after.error < 0.02 < before.error
    assert after.log_loss < before.log_loss
    with pytest.raises(InputError, match="at least two classes"):
        counterfactual.recalibrated(labels, np.flatnonzero(labels == 0)[:50])
    values = rng.normal(1.0, 2.0, 3000)
    numbers = counterfactuals.Normal(np.zeros(3000), 1.0).recalibrated(values, np.arange(1500))
    assert counterfactuals.calibration(numbers, values).error < 0.04
    assert counterfactuals.calibration(numbers.recalibrated(values, np.arange(1500)), values).error < 0.04


def test_fresh_records_have_no_density():
    with pytest.raises(InputError, match="no density"):
        counterfactuals.Fresh(np.arange(3)).density(np.arange(3))
    with pytest.raises(InputError, match="at least one fresh record"):
        counterfactuals.Fresh(np.zeros(0))
    with pytest.raises(InputError, match="must be probabilities or densities"):
        counterfactuals.Table([-1.0, 2.0])


def test_a_few_held_out_rows_change_little(rng):
    _, labels, distribution = gaussian_mixture(4000, 2, rng)
    counterfactual = counterfactuals.Categorical(distribution)
    mended = counterfactual.recalibrated(labels, np.arange(60))
    assert np.abs(mended.probabilities - distribution).mean() < 0.05


def test_a_class_without_held_out_rows_keeps_some_mass(rng):
    _, labels, distribution = gaussian_mixture(3000, 3, rng)
    mended = counterfactuals.Categorical(distribution).recalibrated(labels, np.flatnonzero(labels < 2)[:300])
    assert mended.probabilities[labels == 2, 2].mean() > 0.01


def test_a_proxy_that_is_trained_on_other_rows(rng):
    """On a mixture the regression wins, on a pattern of two columns the trees; both come close to the truth."""
    x, labels, distribution = gaussian_mixture(6000, 3, rng)
    found = counterfactuals.trained(x[:5000], labels[:5000], x[5000:], classes=3)
    assert np.abs(found.probabilities - distribution[5000:]).mean() < 0.03
    x = rng.normal(size=(6000, 2))
    truth = np.where(x[:, 0] * x[:, 1] > 0.0, 0.9, 0.1)
    labels = (rng.random(6000) < truth).astype(int)
    found = counterfactuals.trained(x[:5000], labels[:5000], x[5000:], classes=2)
    assert np.abs(found.probabilities[:, 1] - truth[5000:]).mean() < 0.08
