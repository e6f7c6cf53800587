"""The points of the report's figures, computed once and kept in the record: a report computes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial
from dpaudit.bounds import PanoramiaRegion, UpperBound
from dpaudit.estimators.runs import clopper_pearson_epsilon
from dpaudit.estimators.thresholds import RankGrid, cuts_from_runs, guesses_from_canaries, member_guesses, null_ranks
from dpaudit.evidence import CanaryScores, MemberScores, PairedScores, RunScores

BINS = 30
Figures = dict[str, Any]
POINTS = 100
OF_RUNS = {"present_label": "runs with the record", "absent_label": "runs without it", "axis": "share of runs"}
OF_CANARIES = {"present_label": "included", "absent_label": "left out", "axis": "share of rows"}
OF_MEMBERS = {"present_label": "members", "absent_label": "non-members", "axis": "share of rows"}
"""What a histogram's groups are called, and its axis."""
DIGITS = 6


def figures_of_runs(
    evidence: RunScores, claim: UpperBound | None, bounds: Any, *, delta: float, confidence: float
) -> Figures:
    """Histogram, error rates with their limits, and the bound against the threshold."""
    runs = evidence.reduced()
    errors = _errors(runs.present, runs.absent) | {"boxes": _boxes(runs, claim, confidence)}
    return {
        "histogram": _histogram(runs.present, runs.absent) | OF_RUNS,
        "errors": errors | _claimed(claim),
        "thresholds": _thresholds(runs, delta, confidence),
    }


def figures_of_canaries(
    evidence: CanaryScores, claim: UpperBound | None, bounds: Any, *, delta: float, confidence: float
) -> Figures:
    """Histogram, error rates, and right guesses."""
    units = evidence.reduced()
    found = _two_groups(units.scores, units.included, claim, OF_CANARIES)
    return found | ({"guesses": _guesses(units)} if units.assignment == "coins" else {})


def figures_of_members(
    evidence: MemberScores, claim: UpperBound | None, bounds: Any, *, delta: float, confidence: float
) -> Figures:
    """Histogram and error rates."""
    units = evidence.reduced()
    return _two_groups(units.scores, units.member, claim, OF_MEMBERS)


def figures_of_pairs(
    evidence: PairedScores, claim: UpperBound | None, bounds: Any, *, delta: float, confidence: float
) -> Figures:
    """The share of real items among those that look most real; and epsilon for every divergence of the generator."""
    found = {"precision": _precision(evidence.reduced())}
    return found | ({"region": region_figure(bounds[0])} if bounds else {})


def none(evidence: Any, claim: UpperBound | None, bounds: Any, *, delta: float, confidence: float) -> Figures:
    """Where no figure is drawn of the evidence itself."""
    return {}


def _two_groups(
    scores: NDArray[np.float64], inside: NDArray[np.bool_], claim: UpperBound | None, words: Figures
) -> Figures:
    errors = _errors(scores[inside], scores[~inside])
    return {"histogram": _histogram(scores[inside], scores[~inside]) | words, "errors": errors | _claimed(claim)}


def _histogram(present: NDArray[np.float64], absent: NDArray[np.float64]) -> dict[str, Any]:
    edges = _edges(np.concatenate([present, absent]))
    counts = [np.histogram(world, bins=edges)[0].tolist() for world in (present, absent)]
    return {"edges": edges.tolist(), "present": counts[0], "absent": counts[1]}


def _edges(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bins of one width; a single one where the scores are equal, or lie too far apart for a float."""
    low, high = float(scores.min()), float(scores.max())
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.linspace(low, high, BINS + 1)
        around = np.array([low - 0.5, high + 0.5])
    if np.all(np.isfinite(edges)) and np.all(np.diff(edges) > 0.0):
        return edges
    return (
        around
        if around[1] > around[0] and np.all(np.isfinite(around))
        else np.nextafter([low, high], [-np.inf, np.inf])
    )


def _errors(present: NDArray[np.float64], absent: NDArray[np.float64]) -> dict[str, Any]:
    """False-positive and false-negative rates of the observed scores, at thresholds spread over the ranks."""
    both = np.unique(np.concatenate([present, absent]))
    chosen = both[np.unique(np.linspace(0, both.size - 1, min(POINTS, both.size)).round().astype(int))]
    fpr = 1.0 - np.searchsorted(np.sort(absent), chosen, side="right") / absent.size
    fnr = np.searchsorted(np.sort(present), chosen, side="right") / present.size
    return {"false_positive_rate": _short(fpr), "false_negative_rate": _short(fnr)}


def _boxes(evidence: RunScores, claim: UpperBound | None, confidence: float) -> list[dict[str, float]]:
    """The null ranks that were tested, and upper limits of both rates that hold for all of them at once."""
    bare = claim is not None and claim.curve is None
    cuts = cuts_from_runs(RankGrid(), evidence, name="figure", objective=lambda cut: 0.0, extreme=bare).cuts
    each = (1.0 - confidence) / (2.0 * len(cuts))
    return [
        {
            "false_positive_rate": cut.false_positives / cut.negatives,
            "false_negative_rate": cut.false_negatives / cut.positives,
            "false_positive_limit": _up(_binomial.upper_limit(cut.false_positives, cut.negatives, each)),
            "false_negative_limit": _up(_binomial.upper_limit(cut.false_negatives, cut.positives, each)),
        }
        for cut in cuts
    ]


def _thresholds(evidence: RunScores, delta: float, confidence: float) -> dict[str, Any]:
    """Each null rank as if it alone had been fixed in advance; `tested` are the ranks of the default grid."""
    negatives = evidence.absent.size
    spread = np.unique(np.geomspace(1, negatives, 40).astype(int) - 1).tolist()
    tested = null_ranks(RankGrid(), negatives, extreme=True)
    ranks = sorted({*spread, *tested})
    cuts = cuts_from_runs(RankGrid(tuple(ranks)), evidence, name="figure", objective=lambda cut: 0.0).cuts
    values = [
        clopper_pearson_epsilon(
            false_positives=cut.false_positives,
            negatives=cut.negatives,
            false_negatives=cut.false_negatives,
            positives=cut.positives,
            delta=delta,
            confidence=confidence,
        )
        for cut in cuts
    ]
    fractions = [(rank + 1) / (negatives + 1) for rank in ranks]
    return {"false_positive_rate": _short(fractions), "epsilon": _short(values), "tested": [r in tested for r in ranks]}


def _guesses(evidence: CanaryScores) -> dict[str, Any]:
    """How many of the most confident guesses were right."""
    ranked = guesses_from_canaries(evidence)
    numbers = np.unique(np.geomspace(1, ranked.canaries, 60).astype(int)).tolist()
    return {"guesses": numbers, "correct": [int(ranked.correct(number)) for number in numbers]}


def _precision(evidence: PairedScores) -> dict[str, Any]:
    """Of so many items that look most real, how many are, without the model and with it."""
    numbers = np.unique(np.geomspace(1, evidence.included.size, 60).astype(int))
    right = {
        name: member_guesses(scores, evidence)[numbers].astype(int).tolist()
        for name, scores in (("baseline", evidence.baseline), ("attack", evidence.attack))
    }
    return {"guesses": numbers.tolist()} | right


def region_figure(region: PanoramiaRegion) -> Figures:
    """epsilon for every divergence that may be asserted, from what the baseline shows to where nothing is left."""
    last = max(region.total, region.divergence + 0.5)
    steps = np.ceil(np.linspace(region.divergence, last, POINTS // 2) * 10.0**DIGITS) / 10.0**DIGITS
    left = np.floor(np.maximum(0.0, region.total - steps) * 10.0**DIGITS) / 10.0**DIGITS
    found = {"divergence": steps.tolist(), "epsilon": left.tolist()}
    if region.delta == 0.0 and region.divergence_slack == 0.0:
        found["add_remove"] = (left / 2.0).tolist()
    return found


def _claimed(claim: UpperBound | None) -> Figures:
    """The claimed curve on a logarithmic grid: no attack may lie below it."""
    if claim is None:
        return {}
    rates = np.concatenate([np.geomspace(1e-4, 0.5, 30), 1.0 - np.geomspace(0.5, 1e-4, 30)[1:]])
    curve = _short(np.asarray(claim.hypothesis.f(rates), dtype=float))
    return {"claimed": {"false_positive_rate": _short(rates), "false_negative_rate": curve}}


def _short(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, dtype=float).tolist()]


def _up(limit: float) -> float:
    """An upper limit in a few digits, never below the number."""
    return min(1.0, float(f"{limit * (1.0 + 10.0 ** (1 - DIGITS)):.{DIGITS}g}"))
