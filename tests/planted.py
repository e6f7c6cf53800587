"""Planted violations: for each check that withholds a number, an audit where what it can refute is false."""

import numpy as np

import dpaudit as da
from dpaudit import games
from dpaudit.execution import Execution
from dpaudit.fitted.propensity import Logistic
from tests.golden import worlds

SERIAL = Execution(workers=1)


def audited(game, **settings):
    return da.audit(game, seed=settings.pop("seed", 1), execution=SERIAL, delta=0.0, **settings)


def _weak():
    scores, member, x, _ = worlds.weak_correction()
    return games.ZeroRun(scores=scores, member=member, features=x)


def _revealed():
    scores, member, x = worlds.members(rows=600)
    return games.ZeroRun(scores=scores, member=member, features=np.column_stack([x, np.where(member, 2023.0, 2024.0)]))


def _apart():
    """No column tells the groups apart, two together do; the model is not held back from saying so."""
    scores, member, _ = worlds.members(rows=600)
    line = np.random.default_rng(0).normal(size=600) * 3.0
    features = np.column_stack([line, line + np.where(member, 1.0, -1.0)])
    return games.ZeroRun(scores=scores, member=member, features=features, propensity=Logistic(strength=1e9, folds=0))


PLANTED = {
    "blind-values": lambda: audited(worlds.noisy_proxy(), seed=5),
    "blind-members": lambda: audited(_weak()),
    "leaking-features": lambda: audited(_revealed()),
    "overlap": lambda: audited(_apart()),
    "asserted-divergence": lambda: audited(
        worlds.made(generated=np.random.default_rng(5).normal(size=(2000, 3)) + 1.0, divergence=0.1)
    ),
    "rows-hang-together": lambda: audited(worlds.clustered()),
    "redrawn-values": lambda: audited(worlds.recognised()),
}
"""By the id of the check."""
