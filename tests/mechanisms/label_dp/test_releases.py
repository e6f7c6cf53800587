"""Label-DP releases: exact distributions meet their epsilon, samples follow the distributions."""

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import InputError
from dpaudit.counterfactuals import Categorical
from dpaudit.mechanisms import AdditiveLaplace, PriorResponse
from dpaudit.mechanisms.label_dp import corrected
from dpaudit.mechanisms.label_dp.releases import grid_laplace

EPSILONS = (0.1, 1.0, 2.0, 4.0, 8.0)
PRIORS = Categorical([[0.7, 0.2, 0.06, 0.04], [0.25, 0.25, 0.25, 0.25], [0.01, 0.97, 0.01, 0.01]])


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_law_with_a_prior_meets_its_epsilon(epsilon):
    mechanism = PriorResponse(epsilon=epsilon, prior=PRIORS)
    ratios = []
    for row in range(3):
        distribution = mechanism.distribution(row)
        assert distribution.sum(axis=1) == pytest.approx(1.0)
        reached = distribution[:, distribution.sum(axis=0) > 0.0]
        ratios.append((reached.max(axis=0) / reached.min(axis=0)).max())
    assert max(ratios) <= np.exp(epsilon) * (1.0 + 1e-12)
    broken = PriorResponse(epsilon=epsilon, prior=PRIORS, noise_scale=0.5)
    distribution = broken.distribution(1)
    if broken.kept()[1] > 1:
        reached = distribution[:, distribution.sum(axis=0) > 0.0]
        assert (reached.max(axis=0) / reached.min(axis=0)).max() == pytest.approx(np.exp(2.0 * epsilon))


def test_the_number_of_labels_is_the_best_one():
    """A flat prior keeps all labels at a large epsilon; a sure one keeps a single label, which tells nothing."""
    assert PriorResponse(epsilon=8.0, prior=PRIORS).kept().tolist() == [4, 4, 4]
    assert PriorResponse(epsilon=0.1, prior=PRIORS).kept().tolist()[2] == 1
    for epsilon in EPSILONS:
        mechanism = PriorResponse(epsilon=epsilon, prior=PRIORS)
        for row, size in enumerate(mechanism.kept()):
            mass = np.sort(PRIORS.probabilities[row])[::-1].cumsum()
            truth = [m / (1.0 + k * np.exp(-epsilon)) for k, m in enumerate(mass)]
            assert truth[size - 1] == pytest.approx(max(truth))


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("label", [0, 1, 3])
def test_releases_follow_the_law(row, label):
    many = Categorical(np.tile(PRIORS.probabilities[row], (20_000, 1)))
    mechanism = PriorResponse(epsilon=1.0, prior=many)
    counts = np.bincount(mechanism.release(np.full(20_000, label), 7), minlength=4)
    distribution = mechanism.distribution(0)[label]
    assert np.all(counts[distribution == 0.0] == 0)
    if (distribution > 0.0).sum() > 1:
        assert stats.chisquare(counts[distribution > 0.0], 20_000 * distribution[distribution > 0.0]).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_density_of_additive_noise_meets_its_epsilon(epsilon, rng):
    mechanism = AdditiveLaplace(epsilon=epsilon, classes=5)
    released = mechanism.release(rng.integers(0, 5, 2000), 3)
    logs = mechanism.log_density(released)
    assert np.max(logs.max(axis=1) - logs.min(axis=1)) <= epsilon * (1.0 + 1e-12)
    far = mechanism.log_density(np.array([[9.0, -9.0, 0.0, 0.0, 0.0]]))
    assert far[0, 0] - far[0, 1] == pytest.approx(epsilon)


@pytest.mark.parametrize("scale", [0.25, 2.0, 20.0, 3000.0])
def test_noise_on_a_grid_has_the_discrete_laplace_law(scale):
    drawn = grid_laplace(np.random.default_rng(3), scale, (300_000,))
    cell = min(1.0, 2.0 ** np.floor(np.log2(scale / 1024.0)))
    cells = drawn / cell
    assert np.array_equal(cells, np.round(cells))
    assert (1.0 / cell).is_integer()
    step = cell / scale
    edges = np.unique(np.round(np.array([-3.0, -1.0, -0.3, -0.05, 0.05, 0.3, 1.0, 3.0]) / step)) + 0.5
    zero = np.tanh(step / 2.0)  # P(0) of P(k) = tanh(step / 2) e^(-step |k|)
    above = np.where(edges < 0, 1.0, zero * np.exp(-step * np.ceil(np.abs(edges))) / -np.expm1(-step))
    below = np.where(edges < 0, zero * np.exp(-step * np.ceil(np.abs(edges))) / -np.expm1(-step), 1.0 - above)
    masses = np.diff(np.concatenate([[0.0], below, [1.0]]))
    counts = np.histogram(cells, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    assert stats.chisquare(counts, 300_000 * masses).pvalue > 1e-3


def test_additive_noise_can_be_any_cell_far_out():
    """In the tails of a continuous distribution most cells cannot come out, and that tells whether 1 was added."""
    scale, rng = 20.0, np.random.default_rng(5)
    cell = 2.0 ** np.floor(np.log2(scale / 1024.0))
    far = np.abs(grid_laplace(rng, scale, (4_000_000,))) / cell
    tail = far[(far > 5 * scale / cell) & (far < 5.05 * scale / cell)]  # some 60 cells, 21 draws each or so
    lowest, highest = np.ceil(5 * scale / cell) + 1, np.floor(5.05 * scale / cell) - 1
    assert set(np.arange(lowest, highest + 1)) <= set(tail)
    odd = grid_laplace(rng, scale, (100_000,)) / cell
    assert abs((odd % 2 == 1).mean() - 0.5) < 0.01


def test_posteriors_of_additive_noise_are_calibrated(rng):
    mechanism, prior = AdditiveLaplace(epsilon=2.0, classes=3), Categorical(np.tile([0.6, 0.3, 0.1], (30_000, 1)))
    labels = prior.sample(rng)
    found = mechanism.posterior(mechanism.release(labels, 1), prior)
    assert da.counterfactuals.calibration(found, labels).error < 0.02
    assert found.density(labels).mean() > prior.density(labels).mean() + 0.05


def test_undoing_the_noise_gives_the_law_back(rng):
    distribution = rng.dirichlet(np.ones(4), size=50)
    for epsilon in EPSILONS:
        kept = np.exp(epsilon) / (np.exp(epsilon) + 3.0)
        seen = distribution * kept + (1.0 - distribution) * (1.0 - kept) / 3.0
        assert corrected(seen, epsilon=epsilon, floor=1e-12) == pytest.approx(distribution, abs=1e-9)
    for epsilon in (800.0, np.inf):
        assert corrected([[1.0, 0.0]], epsilon=epsilon).tolist() == [[1.0, 0.0]]
    assert corrected([[0.0, 1.0]], epsilon=1.0)[0, 0] == pytest.approx(0.01, rel=0.5)  # surer than the noise allows


def test_refusals():
    with pytest.raises(InputError, match="class numbers 0 to 3"):
        PriorResponse(epsilon=1.0, prior=PRIORS).release(np.array([0, 1, 9]), 1)
    with pytest.raises(InputError, match="must be 3 class numbers"):
        PriorResponse(epsilon=1.0, prior=PRIORS).release(np.array([0.5]), 1)
    with pytest.raises(InputError, match="`epsilon` must be"):
        AdditiveLaplace(epsilon=-1.0, classes=3)
    with pytest.raises(InputError, match=r"`epsilon` must be in \[0, 30\]|between"):
        PriorResponse(epsilon=31.0, prior=PRIORS)
    with pytest.raises(InputError, match="at least two classes"):
        corrected([0.5, 0.5], epsilon=1.0)
    with pytest.raises(TypeError, match="relation"):  # replacing a label is all that it protects
        AdditiveLaplace(epsilon=1.0, classes=3, relation="add-remove")
