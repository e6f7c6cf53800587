"""Bounds from many independent runs (`RunScores`): theory:multi-run#fisher, theory:selection#null-ranks. (Runs that
arrive one by one: `streams.py`.)

The statement tested is a trade-off curve f: at some false-positive rate a, the false-negative rate is at least f(a).
The default test combines the two exact binomial p-values by Fisher's rule and takes the worst a; it is exact for any
number of runs. Every run is independent, and the score was not fitted on the runs that it scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import LowerBound, check_family, convert, guarantee_of
from dpaudit.estimators.thresholds import (
    Band,
    Cut,
    Cuts,
    RankGrid,
    Strategy,
    Uncorrected,
    band_level,
    band_ranks,
    cuts_from_runs,
    unlike,
)
from dpaudit.evidence import RunScores
from dpaudit.tradeoff import GAUSSIAN, Family, TradeOff, approximate

EPSILON_CAP = 50.0
TESTS = ("fisher", "clopper-pearson")
SIZE = "{present:,} runs with, {absent:,} without"
UNION = "{selection}; union over {steps} steps"
REFERENCES = ("Clopper and Pearson 1934", "Fisher 1932, section 21.1", "Dong, Roth and Su, arXiv 1905.02383")


# ------------------------------------------------------------------------------------------------ functions of counts


def clopper_pearson_epsilon(
    *,
    false_positives: int,
    negatives: int,
    false_negatives: int,
    positives: int,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Classic lower bound on epsilon from one threshold fixed in advance; the error is split evenly over the two rates.

    max(0, log((1 - FNR_u - delta) / FPR_u), log((1 - FPR_u - delta) / FNR_u)) with exact upper limits at alpha/2 each
    (theory:multi-run#clopper-pearson). One confidence event covers every delta.

    >>> f"{clopper_pearson_epsilon(false_positives=0, negatives=100, false_negatives=0, positives=100):.4f}"
    '3.2813'
    """
    cut = _checked_cut(false_positives, negatives, false_negatives, positives)
    return _box_epsilon(*_box(cut, (1.0 - check.confidence(confidence)) / 2.0), check.delta(delta))


def clopper_pearson_mu(
    *, false_positives: int, negatives: int, false_negatives: int, positives: int, confidence: float = 0.95
) -> float:
    """Classic lower bound on mu of Gaussian DP from one threshold fixed in advance, never below 0.

    See theory:multi-run#clopper-pearson.

    >>> f"{clopper_pearson_mu(false_positives=0, negatives=100, false_negatives=0, positives=100):.4f}"
    '3.5928'
    """
    cut = _checked_cut(false_positives, negatives, false_negatives, positives)
    return _box_mu(*_box(cut, (1.0 - check.confidence(confidence)) / 2.0))


def _checked_cut(false_positives: int, negatives: int, false_negatives: int, positives: int) -> Cut:
    negatives = check.count("negatives", negatives)
    positives = check.count("positives", positives)
    return Cut(
        check.count("false_positives", false_positives, high=negatives, high_name="negatives"),
        negatives,
        check.count("false_negatives", false_negatives, high=positives, high_name="positives"),
        positives,
    )


def _box(cut: Cut, alpha: float) -> tuple[float, float]:
    """Upper limits of the two error rates, each at level alpha."""
    return (
        _binomial.upper_limit(cut.false_positives, cut.negatives, alpha),
        _binomial.upper_limit(cut.false_negatives, cut.positives, alpha),
    )


def _box_epsilon(fpr: float, fnr: float, delta: float) -> float:
    ratios = [(1.0 - fnr - delta, fpr), (1.0 - fpr - delta, fnr)]
    return max([0.0] + [math.log(above / below) for above, below in ratios if above > 0.0])


def _box_mu(fpr: float, fnr: float) -> float:
    if fpr >= 1.0 or fnr >= 1.0:
        return 0.0
    return max(0.0, -float(special.ndtri(fpr)) - float(special.ndtri(fnr)))


def fisher_p_value(curve: TradeOff, cut: Cut) -> float:
    """p-value of "at least as private as this curve", from one cut (theory:multi-run#fisher, tight form).

    sup over the unknown false-positive rate a of w (1 - log w), w = P(Bin(n0, a) <= x0) P(Bin(n1, f(a)) <= x1). On a
    grid each cell takes the larger factor of either end, so a coarse grid loses power, never validity. Blocks of cells
    that cannot hold the maximum are skipped, with the same result.
    """
    x0, n0, x1, n1 = cut.false_positives, cut.negatives, cut.false_negatives, cut.positives
    if x0 >= n0 or x1 >= n1:
        return 1.0
    rates, first = _cells(x0, n0)

    def second(at: NDArray[np.int64]) -> NDArray[np.float64]:
        return special.betaincc(x1 + 1, n1 - x1, np.clip(curve.f(rates[at]), 0.0, 1.0))

    ends = np.arange(0, rates.size, BLOCK)
    at_ends = second(ends)
    attained = np.max(first[ends] * at_ends)
    open_blocks = np.flatnonzero(first[ends[:-1]] * at_ends[1:] > attained)
    right = (ends[open_blocks][:, None] + np.arange(1, BLOCK + 1)).ravel()
    worst = float(np.max(first[right - 1] * second(right), initial=attained))
    return worst * (1.0 - math.log(worst)) if worst > 0.0 else 0.0


BLOCK = 16
CELLS = 1280


@lru_cache(maxsize=512)
def _cells(x0: int, n0: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grid of false-positive rates from 0 to 1, and P(Bin(n0, a) <= x0) at its points."""
    # the decision falls where both factors are ordinary numbers: most cells there, a few out to 1e-30
    tails = np.concatenate(
        [np.geomspace(1e-30, 1e-10, CELLS // 8)[:-1], special.ndtr(np.linspace(-6.36, 0.0, 3 * CELLS // 8 + 1))]
    )
    low = special.betaincinv(x0 + 1, n0 - x0, tails)
    high = special.betainccinv(x0 + 1, n0 - x0, tails[-2::-1])
    rates = np.concatenate([[0.0], low, high, [1.0]])
    below = np.concatenate([[1.0], 1.0 - tails, tails[-2::-1], [0.0]])
    return rates, below


# ------------------------------------------------------------------------------------------------ bounds from evidence


def epsilon_from_runs(
    evidence: RunScores,
    *,
    delta: float,
    confidence: float = 0.95,
    threshold: Strategy | None = None,
    test: str = "fisher",
) -> LowerBound:
    """Lower bound on epsilon at `delta`, with no assumption on the mechanism.

    See theory:multi-run#fisher, theory:selection#null-ranks, theory:adjacency#relations.

    With probability at least `confidence`, the mechanism is not (e, delta)-DP under the evidence's relation for any e
    below the bound. It holds for any number of runs; it says nothing about other relations.

    Parameters
    ----------
    evidence
        Scores of independent runs.
    delta
        One delta. For several at once, as one statement, use `epsilon_curve_from_runs`.
    threshold
        How the cut is chosen; default `RankGrid()`.
    test
        "fisher" (default, tighter) or "clopper-pearson".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> runs = RunScores(present=rng.normal(1, 1, 1000), absent=rng.normal(0, 1, 1000), relation="add-remove")
    >>> bound = epsilon_from_runs(runs, delta=1e-5)
    >>> print(f"{bound.epsilon:.2f} {bound.guarantee}")
    1.12 certified
    """
    family = approximate(check.delta(delta))
    return _from_runs("epsilon_from_runs", evidence, family, delta, confidence, threshold, test)


def mu_from_runs(
    evidence: RunScores,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    threshold: Strategy | None = None,
    test: str = "fisher",
) -> LowerBound:
    """Lower bound on mu: the mechanism is not mu'-Gaussian-DP for any mu' below it.

    See theory:multi-run#fisher.

    With `delta`, the epsilon that mu implies is given too, and holds only if the trade-off curve is Gaussian:
    randomised response with epsilon 1 would be reported as 5.58 this way (theory:curves#gaussian-family). The bound on
    mu itself needs no such assumption.
    """
    return _from_runs("mu_from_runs", evidence, GAUSSIAN, delta, confidence, threshold, test)


def family_from_runs(
    evidence: RunScores,
    *,
    family: Family,
    delta: float | None = None,
    confidence: float = 0.95,
    threshold: Strategy | None = None,
    test: str = "fisher",
) -> LowerBound:
    """Lower bound on the parameter of any one-parameter family of curves, such as `accounting.dp_sgd_family(...)`.

    See theory:multi-run#families.

    Rejecting the curve of `theta` needs no assumption; the converted epsilon (with `delta`) holds if the mechanism's
    curve is a member of the family.
    """
    if not isinstance(family, Family):
        raise InputError(f"`family` must be a Family, got {type(family).__name__}.", "see `dpaudit.tradeoff.Family`.")
    return _from_runs("family_from_runs", evidence, family, delta, confidence, threshold, test)


def _from_runs(
    name: str,
    evidence: RunScores,
    family: Family,
    delta: float | None,
    confidence: float,
    threshold: Strategy | None,
    test: str,
) -> LowerBound:
    evidence = needs_runs(name, evidence)
    check_family(family, evidence.relation)
    alpha = 1.0 - check.confidence(confidence)
    check.choice("test", test, TESTS)
    delta = None if delta is None else check.delta(delta)
    strategy = RankGrid() if threshold is None else threshold
    free = name == "epsilon_from_runs"
    slack = delta if free and delta is not None else 0.0
    objective = _objective(family, slack, alpha)
    cuts = cuts_from_runs(strategy, evidence, name=name, objective=objective, extreme=free)
    if test == "clopper-pearson" or cuts.estimate:
        if not free and family is not GAUSSIAN:
            raise InputError(
                "the Clopper-Pearson form knows epsilon and mu only.", "use test='fisher' with RankGrid()."
            )
        full = isinstance(strategy, Uncorrected) and strategy.each_rate_at_alpha
        spent = alpha if full else alpha / 2.0
        share = 1 if cuts.estimate else len(cuts.cuts)
        theta, capped = max(objective_at(cut, family, slack, spent / share) for cut in cuts.cuts), False
        method, p_value = "Clopper-Pearson limits of both error rates", None
        theory = "theory:multi-run#clopper-pearson"
    else:
        theta, capped = _invert(family, cuts, alpha)
        method, p_value = "Fisher's combination of both error rates, exact", _tester(family, cuts)
        theory = "theory:multi-run#fisher"
    converted, conversion = (theta, ()) if free else convert(family, theta, delta)
    rests = (*evidence.conditions, *conversion)
    return LowerBound(
        epsilon=converted,
        delta=delta,
        confidence=confidence,
        relation=evidence.relation,
        method=method,
        guarantee=guarantee_of(rests, estimate=cuts.estimate),
        assumptions=rests,
        mu=theta if family is GAUSSIAN else None,
        theta=theta,
        parameter=family.parameter,
        family=None if free else family.name,
        selection=cuts.words,
        ceiling=None if cuts.estimate else _ceiling(family, cuts, alpha, theta),
        unit=evidence.unit,
        size=filled(SIZE, {"present": evidence.present.size, "absent": evidence.absent.size}),
        capped=capped,
        references=REFERENCES,
        theory=theory,
        test=p_value,
    )


def needs_runs(name: str, evidence: object) -> RunScores:
    """The evidence, one score a run, or an error that names the estimator to use instead."""
    if isinstance(evidence, RunScores):
        return evidence.reduced()
    raise unlike(
        f"`{name}` needs scores from independent runs (RunScores)",
        evidence,
        CanaryScores="use `estimators.epsilon_from_canaries`, which allows for canaries that share a run.",
        MemberScores="use `estimators.epsilon_from_members`, which allows for groups that nobody randomised.",
        OutputCounts="use `estimators.renyi_from_outputs`.",
    )


def objective_at(cut: Cut, family: Family, slack: float, alpha: float) -> float:
    """The Clopper-Pearson bound of one cut, each rate at level alpha."""
    box = _box(cut, alpha)
    return _box_epsilon(*box, slack) if family is not GAUSSIAN else _box_mu(*box)


def _objective(family: Family, slack: float, alpha: float) -> Callable[[Cut], float]:
    return lambda cut: objective_at(cut, family, slack, alpha / 2.0)


def _tester(family: Family, cuts: Cuts) -> Callable[[float], float]:
    def p_value(theta: float) -> float:
        return cuts_p_value(family.curve(theta), cuts)

    return p_value


def cuts_p_value(curve: TradeOff, cuts: Cuts) -> float:
    """Bonferroni over the cuts."""
    return min(1.0, len(cuts.cuts) * min(fisher_p_value(curve, cut) for cut in cuts.cuts))


def _invert(family: Family, cuts: Cuts, alpha: float) -> tuple[float, bool]:
    """The largest parameter that some cut rejects at its share; each cut is asked for more than the best so far."""
    level = alpha / len(cuts.cuts)
    best, capped = 0.0, False
    promising = sorted(cuts.cuts, key=lambda cut: -_box_mu(*_box(cut, level / 2.0)))
    for cut in promising:
        best, capped = _binomial.bisect(
            lambda theta, cut=cut: fisher_p_value(family.curve(theta), cut) <= level,  # type: ignore[misc]
            cap=family.cap,
            tolerance=family.tolerance,
            at_least=best,
        )
        if capped:
            break
    return best, capped


def _ceiling(family: Family, cuts: Cuts, alpha: float, theta: float) -> float:
    """What the same cuts would have shown had no present run been missed."""
    return max(theta, _perfect(family, perfect_cuts(cuts), alpha))


def perfect_cuts(cuts: Cuts) -> tuple[Cut, ...]:
    """The counts of an attack that tells the worlds apart: nothing missed, and no false positive that was not fixed."""
    return tuple(Cut(0 if cuts.free else cut.false_positives, cut.negatives, 0, cut.positives) for cut in cuts.cuts)


@lru_cache(maxsize=256)
def _perfect(family: Family, cuts: tuple[Cut, ...], alpha: float) -> float:
    coarse = replace(family, tolerance=50.0 * family.tolerance)
    return _invert(coarse, Cuts(cuts, ""), alpha)[0] * (1.0 + coarse.tolerance)


# ------------------------------------------------------------------------------------------------ several steps at once


def by_step(
    evidence: Mapping[int, RunScores],
    *,
    bound: Callable[..., LowerBound] = mu_from_runs,
    confidence: float = 0.95,
    **settings: Any,
) -> dict[int, LowerBound]:
    """A lower bound after each of several steps of the same runs, all true together with the stated confidence.

    See theory:selection#steps.

    Scores of one run at different steps depend on each other, so each step gets confidence 1 - alpha / K (a union over
    the K steps). The best of them may be quoted. One step that was fixed before anything ran needs none of this: give
    its evidence to the estimator itself.

    Parameters
    ----------
    evidence
        Step and scores, such as `games.TrainedRuns.play_steps` returns.
    bound
        `epsilon_from_runs`, `mu_from_runs` or `family_from_runs`; `settings` are its keywords.
    """
    alpha = 1.0 - check.confidence(confidence)
    if not evidence:
        raise InputError("`evidence` must hold at least one step, got none.")
    count = len(evidence)
    found = {}
    for step, runs in evidence.items():
        one = bound(runs, confidence=1.0 - alpha / count, **settings)
        words = filled(UNION, {"selection": one.selection, "steps": count})
        found[step] = replace(one.paid_for(count, confidence), simultaneous=count, selection=words)
    return found


# -------------------------------------------------------------------------------------- a whole curve as one statement


def epsilon_curve_from_runs(
    evidence: RunScores,
    *,
    deltas: Iterable[float],
    confidence: float = 0.95,
    threshold: Strategy | None = None,
) -> tuple[LowerBound, ...]:
    """Lower bounds on epsilon at several deltas that hold *together* with the stated confidence.

    See theory:multi-run#epsilon-curve, theory:selection#band.

    One Clopper-Pearson box for each cut is one confidence event, and every eps(delta) is read off it: a fixed cut, the
    ranks of a `RankGrid` (boxes at alpha / K), or all thresholds by `Band()` (the default).
    """
    evidence = needs_runs("epsilon_curve_from_runs", evidence)
    alpha = 1.0 - check.confidence(confidence)
    wanted = [check.delta(delta) for delta in check.items("deltas", deltas)]
    if not wanted:
        raise InputError("`deltas` must name at least one delta, got none.")
    strategy = Band() if threshold is None else threshold
    if isinstance(strategy, Uncorrected):
        raise InputError(
            "an uncorrected maximum has no simultaneous statement.",
            "use Band(), RankGrid() or Fixed(score=).",
        )
    if isinstance(strategy, Band):
        boxes, words = _band_boxes(evidence, alpha), "all thresholds, simultaneous band"
    else:
        chosen = cuts_from_runs(
            strategy,
            evidence,
            name="epsilon_curve_from_runs",
            objective=_objective(GAUSSIAN, 0.0, alpha),
            extreme=True,
        )
        boxes = [_box(cut, alpha / (2.0 * len(chosen.cuts))) for cut in chosen.cuts]
        words = chosen.words
    return tuple(
        LowerBound(
            epsilon=max(_box_epsilon(*box, delta) for box in boxes),
            delta=delta,
            confidence=confidence,
            relation=evidence.relation,
            method="Clopper-Pearson limits of both error rates",
            guarantee=guarantee_of(evidence.conditions),
            assumptions=evidence.conditions,
            selection=words,
            unit=evidence.unit,
            size=filled(SIZE, {"present": evidence.present.size, "absent": evidence.absent.size}),
            simultaneous=len(wanted),
            references=REFERENCES,
            theory="theory:multi-run#epsilon-curve",
        )
        for delta in wanted
    )


def _band_boxes(evidence: RunScores, alpha: float) -> list[tuple[float, float]]:
    """Upper limits of (FPR, FNR) at every threshold, all of them true together with probability 1 - alpha."""
    present, absent = np.sort(evidence.present), np.sort(evidence.absent)
    thresholds = np.unique(np.concatenate([present, absent]))
    above = absent.size - np.searchsorted(absent, thresholds, side="right")
    missed = np.searchsorted(present, thresholds, side="right")
    fpr, fnr = _band_limits(absent.size, alpha / 2.0)[above], _band_limits(present.size, alpha / 2.0)[missed]
    return list(zip(fpr.tolist(), fnr.tolist(), strict=True))


def _band_limits(runs: int, alpha: float) -> NDArray[np.float64]:
    """Simultaneous upper limit of a rate for 0, 1, ..., `runs` errors; between ranks of the band the next holds."""
    ranks = np.array(band_ranks(runs))
    limits = special.betainccinv(ranks + 1, runs - ranks, band_level(runs, alpha))
    return np.append(limits[np.searchsorted(ranks, np.arange(runs))], 1.0)
