"""How a bound from given members varies with the sample that the propensity model was fitted to: a bootstrap.

Paper 003's algorithm 3, with the *lower* quantile (theory:zero-run#estimated). The whole bound is computed anew for
every resample of the rows that the model was fitted to; the audited rows, their scores and their order stay the same.
It is an estimate: no bootstrap is valid for finite samples here, and none sees what the model cannot express.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import LowerBound, convert
from dpaudit.estimators.members import (
    REFERENCES,
    SignedPath,
    conditions_of,
    invert_signed,
    needs_members,
    ranks_of,
    signed_guesses,
    size_of,
)
from dpaudit.estimators.thresholds import GuessPath, MemberGuesses, Strategy
from dpaudit.evidence import MemberScores
from dpaudit.execution import Execution
from dpaudit.tradeoff import GAUSSIAN, approximate

PARAMETERS = ("epsilon", "mu")
SHARE = 0.5
"""Of the error probability that the bootstrap spends."""
QUANTILE = "lower {level:g} quantile of {resamples} resamples, each at error {error:g}; common random numbers"
NOT_SEEN = "a bootstrap does not see what the propensity model cannot express"


@dataclass(frozen=True, kw_only=True, eq=False)
class Bootstrap:
    """The bound under every resample, and the estimate read off them.

    Attributes
    ----------
    bound
        The lower quantile, an estimate; its `confidence` is what both shares of the error leave.
    values
        The bounds of all resamples, in their order, each at the error of the test alone.
    plain
        The bound with the propensities of the evidence, at the same error.
    """

    bound: LowerBound
    values: NDArray[np.float64] = field(repr=False)
    plain: float


def bootstrapped_from_members(
    evidence: MemberScores,
    log_odds: Iterable[Any],
    *,
    delta: float | None = None,
    parameter: str = "mu",
    confidence: float = 0.95,
    share: float = SHARE,
    guesses: Strategy | None = None,
    log_odds_error: float = 0.0,
    execution: Execution | None = None,
) -> Bootstrap:
    """The lower quantile of the conditional bound over resamples of the propensity model: an estimate.

    See theory:zero-run#estimated.

    With error probability a = 1 - `confidence`, each bound is at error (1 - share) a, and the quantile that of share a.

    Parameters
    ----------
    log_odds
        Blocks (resamples, rows) of log-odds of the evidence's rows, as `games.ZeroRun.resampled` gives them.
    parameter
        "mu", or "epsilon" at `delta`.
    share
        The share of the error probability that the bootstrap spends.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> member = rng.random(400) < 0.5
    >>> scores = 2.0 * member + rng.normal(size=400)
    >>> evidence = MemberScores(scores=scores, member=member, propensity=np.full(400, 0.5), relation="substitute")
    >>> resamples = [rng.normal(scale=0.2, size=(40, 400))]
    >>> found = bootstrapped_from_members(evidence, resamples, execution=Execution(workers=1))
    >>> found.bound.guarantee, found.values.size, found.bound.mu <= found.plain
    ('estimate', 40, True)
    """
    name = "bootstrapped_from_members"
    ready = needs_members(name, evidence)
    check.choice("parameter", parameter, PARAMETERS)
    alpha = 1.0 - check.confidence(confidence)
    part = check.number("share", share, low=0.01, high=0.99)
    if parameter == "epsilon" and delta is None:
        raise InputError("`delta` is needed where epsilon is bounded.", "delta = 0 for pure DP.")
    if ready.propensity.ndim == 2 and np.any(ready.propensity[:, 0] != ready.propensity[:, 1]):
        raise InputError(
            "`evidence` must have one propensity a row: a bootstrap stands in the place of an allowance for its error.",
            "play the game with log_odds_error=0.0 and clip=0.0; `log_odds_error=` here adds one to every resample.",
        )
    gaussian = parameter == "mu"
    test = _Bound(
        ready, gaussian, None if delta is None else check.delta(delta), (1.0 - part) * alpha, guesses, log_odds_error
    )
    plain = test.plain()
    blocks = [_block(block, ready.scores.size) for block in log_odds]
    if not blocks:
        raise InputError("`log_odds` must hold at least one resample, got none.")
    jobs = [chunk for block in blocks for chunk in np.array_split(block, max(1, len(block) // 10))]
    test = replace(test, near=plain)
    lines = (execution or Execution()).map(test, jobs, title="resamples of the propensity model")
    values = np.concatenate([np.array(line) for line in lines])
    least = part * alpha
    if values.size * least < 1.0:
        raise InputError(
            f"`log_odds` must hold at least {math.ceil(1.0 / least)} resamples for a quantile of {least:g}, "
            f"got {values.size}."
        )
    lower = min(plain, float(np.quantile(values, least, method="lower")))
    return Bootstrap(bound=_estimate(evidence, lower, test, confidence, values.size, part), values=values, plain=plain)


def _block(block: Any, rows: int) -> NDArray[np.float64]:
    odds = np.atleast_2d(np.asarray(block, dtype=np.float64))
    if odds.ndim != 2 or odds.shape[1] != rows or np.isnan(odds).any():
        raise InputError(f"`log_odds` must be blocks (resamples, {rows} rows) of numbers, got shape {odds.shape}.")
    return odds


@dataclass(frozen=True, eq=False)
class _Bound:
    """The bounds of some resamples: a job that any worker can do."""

    evidence: MemberScores = field(repr=False)
    gaussian: bool
    delta: float | None
    alpha: float
    guesses: Strategy | None
    log_odds_error: float
    near: float | None = None

    def __call__(self, odds: NDArray[np.float64]) -> list[float]:
        found, error = signed_guesses(self.evidence, 0.0), self.log_odds_error
        return [self._one(found.under(line - error, line + error)) for line in odds]

    def plain(self) -> float:
        return self._one(signed_guesses(self.evidence, self.log_odds_error))

    def _one(self, found: MemberGuesses) -> float:
        strategy = GuessPath() if self.guesses is None else self.guesses
        ranks = ranks_of("bootstrapped_from_members", strategy, found)
        family = GAUSSIAN if self.gaussian else approximate(self.delta or 0.0)
        return invert_signed(SignedPath(found, ranks), len(ranks), family, self.delta, self.alpha, near=self.near)[0]


def _estimate(
    evidence: MemberScores, theta: float, test: _Bound, confidence: float, resamples: int, share: float
) -> LowerBound:
    converted, conversion = (theta, ()) if not test.gaussian else convert(GAUSSIAN, theta, test.delta)
    alpha = 1.0 - confidence
    return LowerBound(
        epsilon=converted,
        delta=test.delta,
        confidence=confidence,
        relation=evidence.relation,
        method="given members, conditional correction, bootstrap of the propensity model",
        guarantee="estimate",
        assumptions=(*conditions_of(evidence, test.log_odds_error), *conversion),
        mu=theta if test.gaussian else None,
        theta=theta,
        parameter="mu" if test.gaussian else "epsilon",
        family=GAUSSIAN.name if test.gaussian else None,
        selection=filled(QUANTILE, {"level": share * alpha, "resamples": resamples, "error": (1.0 - share) * alpha}),
        unit=evidence.unit,
        size=size_of(evidence),
        notes=(NOT_SEEN,),
        references=REFERENCES,
        theory="theory:zero-run#estimated",
    )
