"""Coverage of PANORAMIA where everything is known: closed-form densities of real and generated records, exact epsilon.

Generated records are uniform on [0, 1], real ones on [0, e^-c]: real / generated is e^c where real records lie, and 0
elsewhere. The model holds one randomised bit a record, "was trained on": the odds of a bit change by
e^bit at most, and substituting a record changes two bits, so that epsilon is 2 `BIT`. An audit hears one of them: the
exact log-odds of a guess are at most c + `BIT`.
"""

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression

from dpaudit import PairedScores, _binomial, estimators
from dpaudit.games import Panoramia
from dpaudit.testing.calibration import allowed_over_claims

GAMES = 400
CLOSENESS, BIT = 0.7, 0.6
LINE = {"line": LogisticRegression()}


class Wider:
    """The generator of known closeness."""

    def fit(self, rows):
        return self

    def sample(self, count, seed=0):
        return np.random.default_rng(seed).random((count, 1))


class Bits:
    """The target of known epsilon: for every record one randomised bit, the same whenever it is asked."""

    def __init__(self, members, seed):
        self.known = set(members.ravel().tolist())
        self.seed = seed

    def __call__(self, rows):
        trained = np.array([value in self.known for value in rows.ravel().tolist()])
        draws = np.array(
            [np.random.default_rng([self.seed, int(value * 2**40)]).random() for value in rows.ravel().tolist()]
        )
        return np.where(draws < special.expit(BIT), trained, ~trained).astype(float)


def members(seed, count=1200):
    return np.exp(-CLOSENESS) * np.random.default_rng([7, seed]).random((count, 1))


def uncorrected(scores, included, level=0.025):
    """The best of all recalls, each at the whole level: tables 10 and 11 of the paper."""
    right = np.cumsum(included[np.argsort(-scores, kind="stable")])
    limits = [_binomial.lower_limit(int(hits), guesses, level) for guesses, hits in enumerate(right, 1)]
    return float(special.logit(max(limits)))


def likelihoods(seed, count=1000):
    """The same world, played by an adversary that knows it: log-likelihood ratios, without and with the bit."""
    rng = np.random.default_rng([8, seed])
    included = rng.random(count) < 0.5
    x = np.where(included, np.exp(-CLOSENESS), 1.0) * rng.random(count)
    bit = np.where(rng.random(count) < special.expit(BIT), included, ~included)
    baseline = np.where(x <= np.exp(-CLOSENESS), CLOSENESS, -9.0)
    return PairedScores(
        included=included, baseline=baseline, attack=baseline + np.where(bit, BIT, -BIT), assumptions=("known",), seed=1
    )


def played(seed):
    rows = members(seed)
    game = Panoramia(
        members=rows, target=Bits(rows, seed), generator=Wider(), classifiers=LINE, shares=(0.05, 0.6, 0.35)
    )
    return game.play(seed=seed).only


@pytest.mark.parametrize("world", [played, likelihoods], ids=["the game, guessers learnt", "an adversary that knows"])
def test_coverage_over_400_games(world):
    """Issue 10: the region misses within the allowed share, epsilon at the true closeness too, and the best of all
    recalls without correction misses visibly."""
    missed = over = wrong = 0
    shown = []
    for seed in range(GAMES):
        evidence = world(seed)
        region = estimators.panoramia(evidence)
        missed += region.divergence > CLOSENESS or region.total > CLOSENESS + BIT
        at_truth = estimators.panoramia(evidence, asserted_divergence=max(CLOSENESS, region.divergence))
        over += (at_truth.epsilon().epsilon or 0.0) > BIT  # and so is never above 2 BIT more often
        wrong += (
            uncorrected(evidence.baseline, evidence.included) > CLOSENESS
            or uncorrected(evidence.attack, evidence.included) > CLOSENESS + BIT
        )
        shown.append(region.total)
    allowed = allowed_over_claims(GAMES, 0.95)
    assert missed <= allowed
    assert over <= allowed
    assert wrong > allowed, "the uncorrected curve must fail visibly"
    assert np.median(shown) > 0.4, "and there is something to find"
