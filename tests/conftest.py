"""Shared samplers of the tests; every seed is fixed."""

import numpy as np
import pytest
from hypothesis import settings

from dpaudit import CanaryScores, RunScores

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


def gaussian_runs(rng, mu=1.0, runs=200, relation="add-remove", **more):
    return RunScores(present=rng.normal(mu, 1, runs), absent=rng.normal(0, 1, runs), relation=relation, **more)


def noisy_canaries(rng, mu=1.0, canaries=1000, relation="add-remove", **more):
    included = rng.random(canaries) < 0.5
    return CanaryScores(scores=rng.normal(size=canaries) + mu * included, included=included, relation=relation, **more)
