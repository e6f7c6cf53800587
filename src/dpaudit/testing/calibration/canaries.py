"""Calibration cells of part two: given members, generated pairs, counts of answers; the papers' printed forms fail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.estimators import canaries, members, outputs, pairs, thresholds
from dpaudit.evidence import CanaryScores, MemberScores, OutputCounts, PairedScores
from dpaudit.testing import ground_truth
from dpaudit.testing.calibration._table import Cell
from dpaudit.tradeoff import renyi_divergence

SLOW = 150


def second_cells(confidence: float = 0.95) -> list[Cell]:
    """Every estimator of part two against the ground truth that applies."""
    made = (_member_cells, _pair_cells, _output_cells, _printed_cells)
    return [cell for cells in made for cell in cells(confidence)]


def _member_cells(confidence: float) -> Iterable[Cell]:
    path, every, grid = thresholds.GuessPath(), thresholds.Fixed(fraction=1.0), thresholds.FractionGrid()
    leaky, small = ground_truth.ShiftedMembers(1.5), ground_truth.ShiftedMembers(0.5, bayes=True)
    blind = ground_truth.ShiftedMembers(0.0, bayes=True)
    epsilon = partial(members.epsilon_from_members, confidence=confidence)
    for truth in (leaky, small, blind):
        for strategy, words in ((path, "GuessPath()"), (every, "Fixed(fraction=1.0)")):
            bound = partial(epsilon, delta=0.0, guesses=strategy)
            games = SLOW if strategy is path else 400
            yield Cell("epsilon_from_members", f"conditional, {words}", truth, truth.parameter, bound, quick=games)
        yield Cell(
            "epsilon_from_members",
            "tampered",
            truth,
            truth.parameter,
            partial(epsilon, delta=0.0, correction="tampered"),
        )
    with_delta = partial(epsilon, delta=1e-5)
    yield Cell(
        "epsilon_from_members at delta 1e-05",
        "conditional, GuessPath()",
        small,
        small.parameter,
        with_delta,
        quick=SLOW,
    )
    mu = partial(members.mu_from_members, confidence=confidence)
    gaussian = ground_truth.ShiftedMembers(1.0, 600, 1.0, "Gaussian", bayes=True)
    for truth in (gaussian, blind):
        value = 1.0 if truth is gaussian else 0.0
        yield Cell("mu_from_members", "conditional, GuessPath()", truth, value, mu, quick=SLOW)
        dropped = partial(mu, correction="tampered", guesses=every)
        yield Cell("mu_from_members", "tampered, Fixed(fraction=1.0)", truth, value, dropped)
    outside = ground_truth.OutsideSupport()
    yield Cell("mu_from_members", "conditional, GuessPath()", ground_truth.OutsideSupport(1000), 0.0, mu, quick=SLOW)
    for number in (grid, every):
        composed = partial(mu, correction="composition", overlap=(0.48, 0.05), guesses=number)
        yield Cell("mu_from_members", f"composition, {type(number).__name__}", outside, 0.0, composed)
    composed = partial(epsilon, delta=0.0, correction="composition", overlap=(0.48, 0.05))
    yield Cell("epsilon_from_members", "composition, FractionGrid", outside, 0.0, composed)
    signs = ground_truth.SignSumMembers(1.0, 600)
    replaced = partial(epsilon, delta=0.0, guesses=every)
    yield Cell("epsilon_from_members", "conditional, Fixed(fraction=1.0)", signs, signs.total, replaced)
    refuted = partial(_refuted, confidence=confidence)
    yield Cell("propensity_p_value", "blind baseline", blind, 0.0, refuted)


def _refuted(evidence: MemberScores, *, confidence: float) -> float:
    """1 where true propensities are refuted."""
    return float(members.propensity_p_value(evidence) <= 1.0 - confidence)


def _pair_cells(confidence: float) -> Iterable[Cell]:
    flat, off, signs = (
        ground_truth.GeneratedPairs(2.0, 0.0),
        ground_truth.GeneratedPairs(1.0, 0.5),
        ground_truth.SignSum(1.0),
    )
    path, wealth = thresholds.GuessPath(8), thresholds.EProcess()
    chosen: list[tuple[Any, Any, str]] = [
        (flat, strategy, part) for strategy in (path, wealth) for part in ("divergence", "total")
    ]
    chosen += [(off, path, "divergence"), (off, path, "total"), (signs, path, "total")]
    for truth, strategy, part in chosen:
        words = f"{type(strategy).__name__}, {'c' if part == 'divergence' else 'c + epsilon'}"
        bound = partial(_region_part, part=part, guesses=strategy, confidence=confidence)
        yield Cell("panoramia", words, truth, getattr(truth, part), bound)
    asserted = partial(_asserted, c=0.5, confidence=confidence)
    yield Cell("panoramia", "GuessPath, epsilon at the true divergence", off, 1.0, asserted)


def _region_part(evidence: PairedScores, *, part: str, guesses: Any, confidence: float) -> float:
    return float(getattr(pairs.panoramia(evidence, confidence=confidence, guesses=guesses), part))


def _asserted(evidence: PairedScores, *, c: float, confidence: float) -> float:
    try:
        return pairs.panoramia(evidence, confidence=confidence, asserted_divergence=c).epsilon().epsilon or 0.0
    except InputError:  # the baseline shows more than is asserted: refused
        return 0.0


def _output_cells(confidence: float) -> Iterable[Cell]:
    votes, idle = ground_truth.NoisyVotes(), ground_truth.NoisyVotes(absent=(14.0, 12.0, 10.0, 8.0, 6.0))
    twice = ground_truth.NoisyVotes(queries=2)
    renyi = partial(_divergence, confidence=confidence)
    for truth in (votes, idle):
        value = float(renyi_divergence(*truth.distributions, orders=[2.0])[0])
        yield Cell("renyi_from_outputs", "2-cut, every answer", truth, value, renyi)
        yield Cell(
            "renyi_from_outputs", "2-cut, one event given", truth, value, partial(renyi, event=1, direction="absent")
        )
        box = partial(renyi, cuts="all")
        yield Cell("renyi_from_outputs", "k-cut, exact box", truth, value, box, quick=SLOW)
    double = 2.0 * float(renyi_divergence(*twice.distributions, orders=[2.0])[0])
    yield Cell(
        "renyi_from_outputs", "2-cut, two independent queries added", twice, double, partial(renyi, compose=True)
    )


def _divergence(evidence: OutputCounts, **how: Any) -> float:
    return outputs.renyi_from_outputs(evidence, orders=[2.0], **how).divergences[0]


# ------------------------------------------------------------------------------------------- the papers' printed forms


def _printed_cells(confidence: float) -> Iterable[Cell]:
    """What the papers print, or do, against the same ground truth: each must fail."""
    bayes = ground_truth.ShiftedMembers(0.5, bayes=True)
    naive = partial(_as_coins, confidence=confidence)
    yield Cell("epsilon_from_canaries", "given members taken for coins", bayes, 0.5, naive, "fail")
    outside = ground_truth.OutsideSupport(10_000, 0.01)
    printed = partial(_algorithm_8, share=0.01, confidence=confidence)
    yield Cell("mu, paper 003 algorithm 8", "p + delta_DS, no shift in the curve", outside, 0.0, printed, "fail")
    seeds = partial(_best_tampering, confidence=confidence)
    least = ground_truth.ShiftedMembers(0.0, 600, 1.0, bayes=True)
    yield Cell("epsilon_from_members", "tampered, best of 20 seeds", least, 0.0, seeds, "fail")
    flat = ground_truth.GeneratedPairs(2.0, 0.0)
    every = partial(_every_recall, confidence=confidence)
    yield Cell("c + epsilon, paper 004 tables 10-11", "every recall, no union", flat, 2.0, every, "fail")
    signs = ground_truth.SignSumMembers(1.0, 600)
    bare = partial(
        members.epsilon_from_members, delta=0.0, guesses=thresholds.Fixed(fraction=0.2), confidence=confidence
    )
    yield Cell("epsilon_from_members", "read as add/remove", signs, 1.0, bare, "fail")
    halved = partial(_region_part, part="total", guesses=thresholds.GuessPath(8), confidence=confidence)
    yield Cell("panoramia", "read as add/remove", ground_truth.SignSum(1.0), 1.0, halved, "fail")
    shared = ground_truth.LatentBit()
    added = partial(_added_anyway, confidence=confidence)
    yield Cell(
        "renyi, paper 002", "marginals of shared teachers added", shared, shared.joint_divergence(2.0), added, "fail"
    )
    idle = ground_truth.NoisyVotes(absent=(14.0, 12.0, 10.0, 8.0, 6.0))
    resampled = partial(_divergence, cuts="all", method="bootstrap", confidence=confidence)
    yield Cell("renyi, paper 002 table 2", "k-cut bootstrap", idle, 0.0, resampled, "fail")


def _as_coins(evidence: MemberScores, *, confidence: float) -> Any:
    coins = CanaryScores(scores=evidence.scores, included=evidence.member, relation=Relation.SUBSTITUTE)
    return canaries.epsilon_from_canaries(coins, delta=0.0, confidence=confidence)


def _algorithm_8(evidence: MemberScores, *, share: float, confidence: float) -> float:
    """Top 40 as members, G_mu without the shift, and the level lowered by delta_DS once instead of m times."""
    top = np.argsort(-evidence.scores)[:40]
    right = int(evidence.member[top].sum())
    return canaries.one_run_mu(
        canaries=evidence.scores.size, guesses=40, correct=right, confidence=min(confidence + share, 0.999)
    )


def _best_tampering(evidence: MemberScores, *, confidence: float) -> float:
    """Theorem 5.1.1 with the binomial distribution: exact for one draw of the tampering; the best of 20 is taken."""
    odds = special.logit(evidence.propensity)
    right = (odds > 0.0) == evidence.member
    return max(_tampered_bound(np.abs(odds), right, seed, confidence) for seed in range(20))


def _tampered_bound(odds: NDArray[np.float64], right: NDArray[np.bool_], seed: int, confidence: float) -> float:
    uniforms = np.random.default_rng([seed, right.size]).random(right.size)
    epsilon = 0.0
    while epsilon < 5.0:
        keep = (1.0 + np.exp(-epsilon - odds)) / (1.0 + np.exp(-epsilon))
        count = int((right & (uniforms < keep)).sum())
        if _binomial.tail(count, right.size, float(special.expit(epsilon))) > 1.0 - confidence:
            break
        epsilon += 0.05
    return epsilon


def _every_recall(evidence: PairedScores, *, confidence: float) -> float:
    """The best Clopper-Pearson limit over all recalls, each at half of alpha."""
    path = thresholds.member_guesses(evidence.attack, evidence)[1:]
    n = np.arange(1, path.size + 1)
    limits = special.betaincinv(np.maximum(path, 1), n - path + 1, (1.0 - confidence) / 2.0)
    return max(0.0, float(special.logit(np.max(np.where(path > 0, limits, 0.0)))))


def _added_anyway(evidence: OutputCounts, *, confidence: float) -> float:
    return _divergence(replace(evidence, independent=True), compose=True, confidence=confidence)
