"""Shared samplers of the tests; every seed is fixed."""

import numpy as np
import pytest
from hypothesis import settings

from dpaudit import CanaryScores, RunScores
from dpaudit.counterfactuals import Categorical, Fresh, Table
from dpaudit.execution import stream
from dpaudit.games import Observational
from dpaudit.testing.ground_truth import gaussian_mixture
from tests import durations

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


def pytest_configure(config):
    """A ceiling on what the tests take, so that CI stays below its twenty minutes."""
    durations.register(config)


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


def gaussian_runs(rng, mu=1.0, runs=200, relation="add-remove", **more):
    return RunScores(present=rng.normal(mu, 1, runs), absent=rng.normal(0, 1, runs), relation=relation, **more)


def noisy_canaries(rng, mu=1.0, canaries=1000, relation="add-remove", **more):
    included = rng.random(canaries) < 0.5
    return CanaryScores(scores=rng.normal(size=canaries) + mu * included, included=included, relation=relation, **more)


def leaky_membership(rng, members, *, moved=0.0, leak=0.95):
    """A model that gives its training records' labels a high probability, and fresh records of which it is not sure."""
    features = rng.normal(size=(2 * members, 3))
    features[members:] += moved
    reference = rng.uniform(0.3, 0.9, 2 * members)
    return Observational(
        values=np.arange(members),
        counterfactual=Fresh(np.arange(members, 2 * members), features[members:]),
        target=Table(np.where(np.arange(2 * members) < members, leak, reference)),
        reference=Table(reference),
        attack="difficulty",
        features=features[:members],
    )


def noisy_proxy(rows, deviation, seed, *, features=True, right=False):
    """A game whose target is the true posterior, so it leaks nothing; the proxy has noise on its probabilities.

    `right` asserts the true mean total variation as the shift.
    """
    rng = stream(seed, "noisy proxy")
    x, labels, posterior = gaussian_mixture(rows, 2, rng)
    noisy = np.clip(posterior[:, 1] + deviation * rng.standard_normal(rows), 0.0, 1.0)
    return Observational(
        values=labels,
        counterfactual=Categorical(noisy),
        target=Categorical(posterior),
        features=x if features else None,
        calibration_fraction=0.1,
        shift=float(np.abs(noisy - posterior[:, 1]).mean()) if right else 0.0,
    )
