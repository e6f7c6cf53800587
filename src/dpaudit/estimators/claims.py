"""`judge`: test the claim itself. Its own trade-off curve is the hypothesis, so no family has to be assumed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import UpperBound, Verdict, check_comparable, decide
from dpaudit.estimators import _paths, members
from dpaudit.estimators.canaries import (
    conditions_of,
    curve_p_value,
    excess,
    needs_coins,
    shifted_delta,
)
from dpaudit.estimators.outputs import event_cuts
from dpaudit.estimators.plans import plan_test
from dpaudit.estimators.runs import cuts_p_value, needs_runs, perfect_cuts
from dpaudit.estimators.thresholds import (
    Cut,
    Cuts,
    GuessPath,
    RankGrid,
    cuts_from_runs,
    guesses_from_canaries,
)
from dpaudit.evidence import CanaryScores, MemberScores, OutputCounts, RunScores
from dpaudit.tradeoff import ApproximateDP, RandomizedResponse, TradeOff


def judge(
    evidence: RunScores | CanaryScores | MemberScores | OutputCounts,
    claim: UpperBound,
    confidence: float = 0.95,
    accept: Iterable[str] = (),
) -> Verdict:
    """The verdict on a claim, by the level-(1 - confidence) test of its own trade-off curve (THEORY 2.2, 2.3 to 2.5).

    If the claim holds, "contradicted" is said with probability at most 1 - confidence. "Consistent" is no proof of the
    claim. "Uninformative" means that not even a perfect attack of this size could have refuted it.

    Parameters
    ----------
    evidence
        Runs, canaries, given members or counts of answers, under the relation and unit of the claim; unlike ones raise
        `NotComparable`. A PANORAMIA region has no test of its own.
    claim
        From `accounting`, or `UpperBound(epsilon=, delta=, relation=)` for a bare pair, which is tested as the curve of
        all such mechanisms and says little.
    accept
        Assumptions of conditional evidence that the user takes responsibility for, each as the whole sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from dpaudit import accounting
    >>> rng = np.random.default_rng(0)
    >>> runs = RunScores(present=rng.normal(2, 1, 60), absent=rng.normal(0, 1, 60), relation="add-remove")
    >>> print(judge(runs, accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")).outcome)
    contradicted
    """
    if not isinstance(claim, UpperBound):
        raise InputError(f"`claim` must be an UpperBound, got {type(claim).__name__}.", "see `dpaudit.accounting`.")
    alpha = 1.0 - check.confidence(confidence)
    if isinstance(evidence, RunScores):
        p_value, least = _judge_runs(needs_runs("judge", evidence), claim)
        conditions = evidence.conditions
    elif isinstance(evidence, CanaryScores):
        p_value, least = _judge_canaries(needs_coins("judge", evidence), claim, confidence)
        conditions = conditions_of(evidence)
    elif isinstance(evidence, MemberScores):
        p_value, least = _judge_members(members.needs_members("judge", evidence), claim, alpha)
        conditions = members.conditions_of(evidence, 0.0)
    elif isinstance(evidence, OutputCounts):
        p_value, least = _judge_outputs(evidence, claim)
        conditions = evidence.conditions
    else:
        raise InputError(
            f"`judge` has no test of a claim for {type(evidence).__name__}.",
            "PANORAMIA bounds epsilon only for an asserted closeness: compare(region.epsilon(c), claim).",
        )
    check_comparable(
        found=evidence.relation, promised=claim.relation, found_unit=evidence.unit, promised_unit=claim.unit
    )
    return decide(
        refuted=p_value <= alpha,
        decisive=True,
        reachable=least <= alpha,
        detail=f"p = {two_digits(p_value)} for the claimed curve, {claim.method}",
        assumptions=conditions,
        accept=accept,
        confidence=confidence,
        relation=evidence.relation,
        method="test of the claimed curve",
        p_value=p_value,
    )


def _judge_runs(evidence: RunScores, claim: UpperBound) -> tuple[float, float]:
    """p-value of the claim, and the p-value that a perfect attack would have had."""
    bare = claim.curve is None
    cuts = cuts_from_runs(RankGrid(), evidence, name="judge", objective=lambda cut: 0.0, extreme=bare)
    curve = claim.hypothesis
    return cuts_p_value(curve, cuts), cuts_p_value(curve, Cuts(perfect_cuts(cuts), ""))


def _judge_members(evidence: MemberScores, claim: UpperBound, alpha: float) -> tuple[float, float]:
    """The signed path, at the claim's pair or at one pair of its curve that is fixed before the data."""
    pair = _as_pair(claim.hypothesis)
    fixed = None if pair is None else (pair.eps, pair.slack)
    return members.curve_p_values(evidence, claim.hypothesis, fixed, alpha)


def _judge_outputs(evidence: OutputCounts, claim: UpperBound) -> tuple[float, float]:
    """Every answer to every query, and its complement, as an event; Bonferroni over all."""
    cuts = Cuts(tuple(event_cuts(evidence)), "")
    perfect = Cuts(tuple(Cut(0, cut.negatives, 0, cut.positives) for cut in cuts.cuts), "")
    return cuts_p_value(claim.hypothesis, cuts), cuts_p_value(claim.hypothesis, perfect)


def _judge_canaries(evidence: CanaryScores, claim: UpperBound, confidence: float) -> tuple[float, float]:
    curve, ranked = claim.hypothesis, guesses_from_canaries(evidence)
    m = ranked.canaries
    pair = _as_pair(curve)
    slack = partial(excess, m, delta=shifted_delta(0.0 if pair is None else pair.slack, evidence.shift))
    if pair is not None and slack(pair.eps) < (1.0 - confidence) / 2.0:  # the whole path of guesses, delta in full
        ranks, epsilon = GuessPath().ranks(m), pair.eps
        seen, perfect = [ranked.correct(rank) for rank in ranks], ranks
        return (
            _paths.p_value(ranks, seen, epsilon=epsilon, slack=slack),
            _paths.p_value(ranks, perfect, epsilon=epsilon, slack=slack),
        )
    number = plan_test(canaries=m, claim=claim, confidence=confidence, shift=evidence.shift)
    found = (curve_p_value(curve, m, number, c, evidence.shift) for c in (ranked.correct(number), number))
    return next(found), next(found)


def _as_pair(curve: TradeOff) -> ApproximateDP | None:
    """The curve as an (epsilon, delta) pair where it is one: binary randomised response attains its pair."""
    if isinstance(curve, RandomizedResponse) and curve.classes == 2:
        return ApproximateDP(curve.eps)
    return curve if isinstance(curve, ApproximateDP) else None


def two_digits(p_value: float) -> str:
    """A p-value to two digits, rounded up."""
    if p_value <= 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(p_value)) - 1)
    return f"{math.ceil(p_value / unit * (1.0 - 1e-12)) * unit:.2g}"
