"""How large an audit must be, before any data: the runs at which a violation of a stated size is caught."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound
from dpaudit.estimators.analyses import judge
from dpaudit.evidence import RunScores
from dpaudit.tradeoff import PiecewiseLinear, TradeOff

POWER = 0.9
TRIALS = 60
MOST_RUNS = 200_000
RESOLUTION = 1.08
CATCHES = "{what} is caught about 9 times of 10 by an attack as good as such a mechanism allows"
LESS_NOISE = "{share:g} of the promised noise"
LARGER_EPSILON = "a mechanism that attains epsilon {attained:g} (not every one with less noise)"


def plan_runs(*, claim: UpperBound, detects: float = 0.5, confidence: float = 0.95) -> int:
    """Runs in each world at which `judge` refutes the claim with probability about .9, if only the share `detects` of
    the promised noise was there and the attack is as good as such a mechanism allows.

    See theory:power#plan-runs.

    An estimate by simulation with a fixed seed: 60 audits of each size, of scores whose trade-off curve is exactly that
    of the weaker mechanism. A weaker attack needs more runs.

    >>> from dpaudit import accounting
    >>> 30 <= plan_runs(claim=accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")) <= 70
    True
    """
    share = check.number("detects", detects, low=0.01, high=0.99)
    check.confidence(confidence)
    curve = claim.with_noise(share)
    closed = not isinstance(curve, PiecewiseLinear) and not isinstance(claim.curve, PiecewiseLinear)
    search = _remembered if closed else _search  # closed forms are known by their parameters
    found = search(_Question(claim.curve, claim.epsilon, claim.delta, curve, confidence))
    if found is None:
        raise InputError(
            f"a claim of epsilon {claim.epsilon:g} at delta {claim.delta:g} with {share:g} of its noise would not be "
            f"caught by {MOST_RUNS:,} runs a side.",
            "a claim with its curve (mu, dp_sgd) is far easier to test than a bare epsilon; or lower `detects`."
            if claim.curve is None
            else "lower `detects`, or give `runs`.",
        )
    return found


def catches(claim: UpperBound, detects: float) -> str:
    """What a planned size stands for, as a sentence without its full stop."""
    numbers = {"share": detects, "attained": claim.epsilon / detects}
    what = filled(LARGER_EPSILON if claim.curve is None else LESS_NOISE, numbers)
    return filled(CATCHES, {"what": what})


@dataclass(frozen=True)
class _Question:
    """What decides the size: the claimed curve (or bare pair), the one to be caught, the confidence."""

    claimed: TradeOff | None
    epsilon: float
    delta: float
    curve: TradeOff
    confidence: float

    @property
    def claim(self) -> UpperBound:
        return UpperBound(epsilon=self.epsilon, delta=self.delta, relation=Relation.SUBSTITUTE, curve=self.claimed)


def _search(question: _Question) -> int | None:
    low, high = 4, 8
    while not _caught(question, high):
        low, high = high, 2 * high
        if high > MOST_RUNS:
            return None
    while high > low * RESOLUTION + 1.0:
        middle = math.ceil(math.sqrt(low * high))
        low, high = (low, middle) if _caught(question, middle) else (middle, high)
    return high


_remembered = lru_cache(maxsize=256)(_search)


def _caught(question: _Question, runs: int) -> bool:
    """Whether audits of this size refute the claim at least nine times of ten."""
    misses, allowed, claim = 0, math.floor((1.0 - POWER) * TRIALS), question.claim
    for trial in range(TRIALS):
        evidence = _simulated(question.curve, runs, trial)
        misses += not judge(evidence, claim, question.confidence).contradicted
        if misses > allowed:
            return False
    return True


def _simulated(curve: TradeOff, runs: int, trial: int) -> RunScores:
    """Scores whose false-negative rate at false-positive rate x is f(x): a uniform null, and g of a uniform."""
    uniform = np.random.default_rng([0x706C616E, trial]).random((2, runs))
    return RunScores(present=-np.asarray(curve.g(uniform[0])), absent=-uniform[1], relation=Relation.SUBSTITUTE)
