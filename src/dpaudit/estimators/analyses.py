"""What is estimated from each type of evidence: one `Analysis` each, and the one place where a type is looked up.

| evidence | bounds | test of a claim | null test (controls) |
|---|---|---|---|
| `RunScores` | epsilon, mu, the claim's own family | Fisher's combination at a few null ranks | the same at epsilon 0 |
| `CanaryScores` | epsilon, mu | a path of guesses, or the f-DP recursion | the path at epsilon 0, or tau |
| `MemberScores` | epsilon, mu | the signed path | the same at epsilon 0 |
| `PairedScores` | the joint region of c and epsilon | none | the baseline's path at c = 0 |
| `MatchedScores` | epsilon, mu | the larger p-value of placebo rows and proxy | placebo rows at epsilon 0 |
| `OutputCounts` | Renyi divergences | every answer as an event | the same at epsilon 0 |

A new type of evidence adds its analysis here, and its theorems in a file of their own.

`judge` tests the claim itself: its own trade-off curve is the hypothesis, so no family has to be assumed. What controls
show is `controls.refute`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, CheckResult, filled
from dpaudit.bounds import CURVE_FAMILY, GAUSSIAN_ASSUMPTION, Bound, UpperBound, Verdict, check_comparable, decide
from dpaudit.estimators import (
    canaries,
    figures,
    matched,
    matched_results,
    members,
    outputs,
    pairs,
    runs,
    sensitivity_analysis,
)
from dpaudit.estimators.canaries import curve_rejected, invert_recursion
from dpaudit.estimators.thresholds import (
    Cut,
    Cuts,
    GuessPath,
    RankGrid,
    cuts_from_runs,
    guesses_for,
    guesses_from_canaries,
    needs_coins,
    null_ranks,
)
from dpaudit.evidence import (
    CanaryScores,
    Evidence,
    MatchedScores,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
)
from dpaudit.tradeoff import GAUSSIAN, ApproximateDP, RandomizedResponse, TradeOff

ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ONE_TEST = "one test of the claimed curve"
RANKS = "{count} null ranks, Bonferroni"
BOTH_RATES = "{spent}, both rates"
MOST_RUNS = 10**6
Statement = tuple[str, str]
"""What is stated beside the bounds, and what its error probability was spent on."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Everything that is read off one type of evidence.

    Attributes
    ----------
    parameters
        What its bounds are on, for conditions such as "epsilon > 2"; empty where it bounds neither epsilon nor mu.
    bounds
        `bounds(evidence, delta=, confidence=, claim=)`: the default bounds, the model-free one first.
    test
        `test(evidence, claim, confidence=)`: the p-value of the claimed curve, and that of a perfect attack. None: a
        claim cannot be tested on it, and `no_test` says why.
    null_test
        p-value of "nothing leaks, and what the evidence rests on holds"; None where no theorem gives one.
    conditions
        What a test of a claim rests on.
    figures
        `figures(evidence, claim, bounds, delta=, confidence=)`: the points of the report's figures.
    usable
        The evidence as the estimators take it: a random hold-out is thinned to fair coins.
    declared
        What the estimators themselves may add to the assumptions of the evidence.
    spent
        What the error probability of the verdict was spent on.
    beside
        Statements that are made beside verdict and bounds, each with an error probability of its own.
    notices
        `notices(parts, level)`: what a control of these sizes could at best have noticed, for its sentences.
    results
        `results(evidence, bounds, delta=, confidence=)`: how the bounds depend on what is assumed; measured.
    left
        `left(evidence, control, delta=, confidence=)`: what would be left, where a control refutes an assumption, at
        the least that it does not refute.
    untested
        `untested(evidence, delta=, confidence=)`: what a bound would be, were that right which nothing tested.
    planted_test
        `planted_test(parts, confidence=)`: the p-value of a planted leak and more numbers, where several leaks were
        planted or the null test is not the headline's; None: the null test.
    needed
        `needed(evidence, claim, confidence=)`: the runs a side at which a perfect attack could refute the claim.
    """

    evidence: type[Any]
    bounds: Callable[..., tuple[Bound, ...]]
    conditions: Callable[[Any], tuple[Assumption, ...]]
    figures: Callable[..., dict[str, Any]]
    parameters: tuple[str, ...] = ("epsilon", "mu")
    test: Callable[..., tuple[float, float]] | None = None
    no_test: str = ""
    null_test: Callable[[Any], float] | None = None
    usable: Callable[[Any], Evidence] = lambda evidence: evidence
    declared: tuple[Assumption, ...] = (GAUSSIAN_ASSUMPTION,)
    spent: Callable[[Any, UpperBound | None], str] = lambda evidence, claim: ONE_TEST
    beside: Callable[[Any, UpperBound | None], tuple[Statement, ...]] = lambda evidence, claim: ()
    notices: Callable[..., dict[str, float]] = lambda parts, level: {}
    results: Callable[..., tuple[CheckResult, ...]] = lambda evidence, bounds, **how: ()
    left: Callable[..., tuple[CheckResult, ...]] = lambda evidence, control, **how: ()
    untested: Callable[..., tuple[CheckResult, ...]] = lambda evidence, **how: ()
    planted_test: Callable[..., tuple[float, dict[str, Any]]] | None = None
    needed: Callable[..., int | None] | None = None


def analysis_of(evidence: Any) -> Analysis:
    """The analysis of this evidence, or of this type of evidence."""
    kind = evidence if isinstance(evidence, type) else type(evidence)
    for analysis in ANALYSES:
        if analysis.evidence is kind:
            return analysis
    raise InputError(
        f"evidence must be one of {', '.join(one.evidence.__name__ for one in ANALYSES)}, got {kind.__name__}."
    )


# ------------------------------------------------------------------------------------------------------------ many runs


def _bounds_of_runs(
    evidence: RunScores, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    """Epsilon, mu, and where the accountant knows the family of the claimed mechanism, its noise."""
    converted = _converted(delta)
    found = (
        runs.epsilon_from_runs(evidence, delta=delta, confidence=confidence),
        runs.mu_from_runs(evidence, delta=converted, confidence=confidence),
    )
    family = None if claim is None or claim.family is None else claim.family(evidence.relation)
    if family is None:
        return found
    return (*found, runs.family_from_runs(evidence, family=family, delta=converted, confidence=confidence))


def _converted(delta: float) -> float | None:
    """At which delta a bound on mu becomes one on epsilon; at delta 0 it says nothing about epsilon."""
    return delta if delta > 0.0 else None


def _test_of_runs(evidence: RunScores, claim: UpperBound, *, confidence: float) -> tuple[float, float]:
    evidence = runs.needs_runs("judge", evidence)
    bare = claim.curve is None
    cuts = cuts_from_runs(RankGrid(), evidence, name="judge", objective=lambda cut: 0.0, extreme=bare)
    curve = claim.hypothesis
    return runs.cuts_p_value(curve, cuts), runs.cuts_p_value(curve, Cuts(runs.perfect_cuts(cuts), ""))


def _null_of_runs(evidence: RunScores) -> float:
    evidence = runs.needs_runs("null_p_value", evidence)
    cuts = cuts_from_runs(RankGrid(), evidence, name="null_p_value", objective=lambda cut: 0.0)
    return runs.cuts_p_value(ApproximateDP(0.0), cuts)


def _spent_by_runs(evidence: RunScores, claim: UpperBound | None) -> str:
    bare = claim is not None and claim.curve is None
    ranks = null_ranks(RankGrid(), evidence.reduced().absent.size, extreme=bare)
    return filled(RANKS, {"count": len(ranks)})


def _beside_runs(evidence: RunScores, claim: UpperBound | None) -> tuple[Statement, ...]:
    spent = filled(BOTH_RATES, {"spent": _spent_by_runs(evidence, claim)})
    return (("limits of the error rates in the figure", spent),)


def _runs_needed(evidence: RunScores, claim: UpperBound, *, confidence: float) -> int | None:
    """The least number of runs a side (to 5%) at which perfectly separated scores refute the claim."""

    def enough(count: int) -> bool:
        perfect = replace(
            evidence, present=1.0 + np.arange(count), absent=-1.0 - np.arange(count), ids=None, group=None
        )
        return _test_of_runs(perfect, claim, confidence=confidence)[0] <= 1.0 - confidence

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST_RUNS:
            return None
    while high > low * 1.05 + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# -------------------------------------------------------------------------------------------------------------- one run


def _bounds_of_canaries(
    evidence: CanaryScores, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    """Epsilon by a strategy that delta and the shift leave any power to, and mu."""
    size = evidence.reduced().scores.size
    guesses = guesses_for(canaries=size, delta=delta, shift=evidence.shift, confidence=confidence)
    return (
        canaries.epsilon_from_canaries(evidence, delta=delta, confidence=confidence, guesses=guesses),
        canaries.mu_from_canaries(evidence, delta=_converted(delta), confidence=confidence),
    )


def _test_of_canaries(evidence: CanaryScores, claim: UpperBound, *, confidence: float) -> tuple[float, float]:
    evidence = needs_coins("judge", evidence)
    curve, ranked = claim.hypothesis, guesses_from_canaries(evidence)
    m, pair = ranked.canaries, _as_pair(claim.hypothesis)
    delta = _binomial.shifted_delta(0.0 if pair is None else pair.slack, evidence.shift)
    slack = partial(_binomial.excess, m, delta=delta)
    if pair is not None and slack(pair.eps) < (1.0 - confidence) / 2.0:  # the whole path of guesses, delta in full
        ranks, epsilon = GuessPath().ranks(m), pair.eps
        seen, perfect = [ranked.correct(rank) for rank in ranks], ranks
        return (
            _binomial.path_p_value(ranks, seen, epsilon=epsilon, slack=slack),
            _binomial.path_p_value(ranks, perfect, epsilon=epsilon, slack=slack),
        )
    number = plan_test(canaries=m, claim=claim, confidence=confidence, shift=evidence.shift)
    found = (canaries.curve_p_value(curve, m, number, c, evidence.shift) for c in (ranked.correct(number), number))
    return next(found), next(found)


def _as_pair(curve: TradeOff) -> ApproximateDP | None:
    """The curve as an (epsilon, delta) pair where it is one: binary randomised response attains its pair."""
    if isinstance(curve, RandomizedResponse) and curve.classes == 2:
        return ApproximateDP(curve.eps)
    return curve if isinstance(curve, ApproximateDP) else None


def _thinned(evidence: CanaryScores) -> CanaryScores:
    return evidence.thinned() if evidence.assignment == "split" else evidence


# -------------------------------------------------------------------------------------------------------- given members


def _bounds_of_members(
    evidence: MemberScores, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    return (
        members.epsilon_from_members(evidence, delta=delta, confidence=confidence),
        members.mu_from_members(evidence, delta=_converted(delta), confidence=confidence),
    )


def _test_of_members(evidence: MemberScores, claim: UpperBound, *, confidence: float) -> tuple[float, float]:
    """The signed path, at the claim's pair or at one pair of its curve that is fixed before the data."""
    pair = _as_pair(claim.hypothesis)
    fixed = None if pair is None else (pair.eps, pair.slack)
    ready = members.needs_members("judge", evidence)
    return members.curve_p_values(ready, claim.hypothesis, fixed, 1.0 - confidence)


def _split_as_coins(evidence: MemberScores) -> MemberScores | CanaryScores:
    return evidence.as_split().thinned() if evidence.assignment == "split" else evidence


# ---------------------------------------------------------------------------------------------------- guesses at values


def _bounds_of_matched(
    evidence: MatchedScores, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    return (
        matched.epsilon_from_matched(evidence, delta=delta, confidence=confidence),
        matched.mu_from_matched(evidence, delta=_converted(delta), confidence=confidence),
    )


def _test_of_matched(evidence: MatchedScores, claim: UpperBound, *, confidence: float) -> tuple[float, float]:
    """The claim's pair, or one pair of its curve that is fixed before the data."""
    pair = _as_pair(claim.hypothesis)
    fixed = None if pair is None else (pair.eps, pair.slack)
    return matched.claim_p_values(evidence, claim.hypothesis, fixed, confidence=confidence)


# ------------------------------------------------------------------------------------------------- pairs, and answers


def _bounds_of_pairs(
    evidence: PairedScores, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    return (pairs.panoramia(evidence, delta=delta, confidence=confidence),)


def _bounds_of_outputs(
    evidence: OutputCounts, *, delta: float, confidence: float, claim: UpperBound | None
) -> tuple[Bound, ...]:
    """The query that leaks most; where the answers are independent, all of them added as well."""
    one = outputs.renyi_from_outputs(evidence, orders=ORDERS, confidence=confidence)
    if evidence.present.shape[0] < 2 or not evidence.independent:
        return (one,)
    return (one, outputs.renyi_from_outputs(evidence, orders=ORDERS, confidence=confidence, compose=True))


def _test_of_outputs(evidence: OutputCounts, claim: UpperBound, *, confidence: float) -> tuple[float, float]:
    """Every answer to every query, and its complement, as an event; Bonferroni over all."""
    cuts = Cuts(tuple(outputs.event_cuts(evidence)), "")
    perfect = Cuts(tuple(Cut(0, cut.negatives, 0, cut.positives) for cut in cuts.cuts), "")
    return runs.cuts_p_value(claim.hypothesis, cuts), runs.cuts_p_value(claim.hypothesis, perfect)


def _null_of_outputs(evidence: OutputCounts) -> float:
    return runs.cuts_p_value(ApproximateDP(0.0), Cuts(tuple(outputs.event_cuts(evidence)), ""))


ANALYSES = (
    Analysis(
        evidence=RunScores,
        bounds=_bounds_of_runs,
        test=_test_of_runs,
        null_test=_null_of_runs,
        conditions=lambda evidence: evidence.conditions,
        figures=figures.figures_of_runs,
        declared=(GAUSSIAN_ASSUMPTION, CURVE_FAMILY),
        spent=_spent_by_runs,
        beside=_beside_runs,
        needed=_runs_needed,
    ),
    Analysis(
        evidence=CanaryScores,
        bounds=_bounds_of_canaries,
        test=_test_of_canaries,
        null_test=sensitivity_analysis.shift_p_value,
        notices=sensitivity_analysis.notices,
        conditions=canaries.conditions_of,
        figures=figures.figures_of_canaries,
        usable=_thinned,
        declared=(GAUSSIAN_ASSUMPTION, canaries.SHIFT),
        beside=sensitivity_analysis.statements,
        results=sensitivity_analysis.results,
        untested=sensitivity_analysis.untested,
        left=sensitivity_analysis.left,
    ),
    Analysis(
        evidence=MemberScores,
        bounds=_bounds_of_members,
        test=_test_of_members,
        null_test=members.propensity_p_value,
        notices=sensitivity_analysis.notices,
        conditions=lambda evidence: members.conditions_of(evidence, 0.0),
        figures=figures.figures_of_members,
        usable=_split_as_coins,
        declared=(
            GAUSSIAN_ASSUMPTION,
            members.INDEPENDENT,
            members.EXACTLY_SHOWN,
            members.PROPENSITIES,
            members.PROPENSITY_ERROR,
        ),
        results=members.results,
    ),
    Analysis(
        evidence=MatchedScores,
        bounds=_bounds_of_matched,
        test=_test_of_matched,
        null_test=matched.null_p_value,
        notices=matched_results.notices,
        conditions=matched.conditions_of,
        figures=figures.none,
        declared=(
            GAUSSIAN_ASSUMPTION,
            matched.EITHER,
            matched.NO_RECOGNITION,
            matched.PROXY_RIGHT,
            matched.PROXY_OFF,
        ),
        results=matched_results.results,
        untested=matched_results.untested,
        planted_test=matched_results.planted_p_values,
    ),
    Analysis(
        evidence=PairedScores,
        parameters=(),
        bounds=_bounds_of_pairs,
        no_test=pairs.NO_TEST,
        null_test=pairs.baseline_p_value,
        conditions=lambda evidence: evidence.conditions,
        figures=figures.figures_of_pairs,
        declared=(pairs.GENERATOR_DIVERGENCE,),
        results=pairs.results,
    ),
    Analysis(
        evidence=OutputCounts,
        parameters=(),
        bounds=_bounds_of_outputs,
        test=_test_of_outputs,
        null_test=_null_of_outputs,
        conditions=lambda evidence: evidence.conditions,
        figures=figures.none,
        declared=(outputs.ANSWERS_INDEPENDENT,),
    ),
)
"""One for each type of evidence, listed by hand."""


CLAIMED_CURVE = "p = {p_value:p} for the claimed curve, {claimed}"


def judge(evidence: Evidence, claim: UpperBound, confidence: float = 0.95, accept: Any = ()) -> Verdict:
    """The verdict on a claim, by the level-(1 - confidence) test of its own trade-off curve.

    See theory:multi-run#claim, theory:one-run#claim.

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
        Assumptions of conditional evidence that the user takes responsibility for, by their ids.

    Examples
    --------
    >>> import numpy as np
    >>> from dpaudit import RunScores, accounting
    >>> rng = np.random.default_rng(0)
    >>> runs = RunScores(present=rng.normal(2, 1, 60), absent=rng.normal(0, 1, 60), relation="add-remove")
    >>> print(judge(runs, accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")).outcome)
    contradicted
    """
    if not isinstance(claim, UpperBound):
        raise InputError(f"`claim` must be an UpperBound, got {type(claim).__name__}.", "see `dpaudit.accounting`.")
    alpha = 1.0 - check.confidence(confidence)
    analysis = analysis_of(evidence)
    if analysis.test is None:
        raise InputError(
            f"`judge` has no test of a claim for {type(evidence).__name__}.",
            "PANORAMIA bounds epsilon only for an asserted divergence: compare(region.epsilon(c), claim).",
        )
    p_value, best = analysis.test(evidence, claim, confidence=confidence)
    check_comparable(
        found=evidence.relation, promised=claim.relation, found_unit=evidence.unit, promised_unit=claim.unit
    )
    return decide(
        refuted=p_value <= alpha,
        decisive=True,
        reachable=best <= alpha,
        detail=CLAIMED_CURVE,
        numbers={"claimed": claim.method},
        assumptions=analysis.conditions(evidence),
        accept=accept,
        confidence=confidence,
        relation=evidence.relation,
        method="test of the claimed curve",
        p_value=p_value,
    )


# ------------------------------------------------------------------------------- guesses that are fixed before the data


def plan_guesses(*, canaries: int, claim: UpperBound | TradeOff, confidence: float = 0.95) -> int:
    """The number of guesses to fix in advance for a bound on mu, from the claim alone.

    If canaries were independent and exactly as leaky as the claim, the n most confident guesses would be right at rate
    fbar(x) / (x + fbar(x)) with x + fbar(x) = n / m. The number whose expected count gives the largest bound on mu is
    taken (theory:power#plan-guesses); all canaries where none gives any. No data is used, so nothing is paid.

    >>> from dpaudit.tradeoff import Gaussian
    >>> plan_guesses(canaries=10_000, claim=Gaussian(1.0))
    328
    """
    m, level, curve = _arguments(canaries, claim, confidence)
    return _best(_candidates(m), curve, m, level)


def plan_test(*, canaries: int, claim: UpperBound | TradeOff, confidence: float = 0.95, shift: float = 0.0) -> int:
    """The number of guesses for a test of the claim itself: as `plan_guesses`, but one that can refute it.

    A strong attack with few guesses may be unable to refute a weak claim even when all of them are right; only numbers
    with which a perfect attack would refute it are considered.
    """
    m, level, curve = _arguments(canaries, claim, confidence)
    able = [n for n in _candidates(m) if curve_rejected(curve, m, n, n, level, shift)]
    return _best(able, curve, m, level)


def _arguments(canaries: int, claim: UpperBound | TradeOff, confidence: float) -> tuple[int, float, TradeOff]:
    m, level = check.count("canaries", canaries, low=1), 1.0 - check.confidence(confidence)
    found = claim.hypothesis if isinstance(claim, UpperBound) else claim
    if not isinstance(found, TradeOff):
        raise InputError(f"`claim` must be an UpperBound or a trade-off curve, got {type(claim).__name__}.")
    return m, level, found.symmetric()


def _candidates(m: int) -> list[int]:
    return sorted({max(1, round(float(n))) for n in np.geomspace(1.0, m, 160)})


def _best(candidates: list[int], curve: TradeOff, m: int, level: float) -> int:
    expected = [(_planned(curve, m, n, level), n) for n in candidates]
    best = max((value for value, _ in expected), default=0.0)
    return next((n for value, n in expected if best > 0.0 and value >= best * (1.0 - 1e-4)), m)


def _planned(curve: TradeOff, m: int, n: int, level: float) -> float:
    fraction = n / m
    low, high = 0.0, fraction
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle + float(curve.fbar(middle)) < fraction else (low, middle)
    correct = min(float(n), max(n - n * high / fraction, n / 2.0))
    whole = math.floor(correct)
    below, above = (invert_recursion(GAUSSIAN, m, n, min(n, c), level, 0.0)[0] for c in (whole, whole + 1))
    return below + (correct - whole) * (above - below)
