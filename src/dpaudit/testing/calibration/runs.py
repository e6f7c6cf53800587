"""Cells of runs and canaries: every estimator x strategy x ground truth that applies, and the forms that must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dpaudit import accounting, estimators, tradeoff
from dpaudit.bounds import LowerBound, Relation, UpperBound
from dpaudit.estimators import canaries, runs, sequential, thresholds
from dpaudit.evidence import CanaryScores, RunScores
from dpaudit.testing import ground_truth
from dpaudit.testing.calibration._table import Cell


def first_cells(confidence: float = 0.95) -> list[Cell]:
    """Every estimator of runs and canaries against the ground truth that applies."""
    return [
        *_run_cells(confidence),
        *_step_cells(confidence),
        *_canary_cells(confidence),
        *_broken_cells(confidence),
    ]


def _cell(
    estimator: Callable[..., Any],
    strategy: Any,
    truth: Any,
    value: float,
    must: str = "hold",
    *,
    at_least: int = 0,
    quick: int = 400,
    words: str | None = None,
    **fixed: Any,
) -> Cell:
    keyword = "threshold" if estimator.__name__.endswith("from_runs") else "guesses"
    given = {} if strategy is None else {keyword: strategy}
    shown = words or _shown(strategy)
    details = f" at delta {fixed['delta']:g}" if fixed.get("delta") else ""
    return Cell(
        estimator.__name__ + details,
        shown,
        truth,
        value,
        partial(estimator, **given, **fixed),
        must,
        at_least,
        quick,
    )


def _shown(strategy: Any) -> str:
    """The call that makes a strategy, without what is at its default."""
    given = [
        f"{f.name}={getattr(strategy, f.name)!r}" for f in fields(strategy) if getattr(strategy, f.name) != f.default
    ]
    return f"{type(strategy).__name__}({', '.join(given)})"


def _refuted_stream(runs: Any, *, claim: UpperBound, confidence: float) -> float:
    """1 where a true claim is refuted: any such is an over-claim."""
    return float(sequential.judge_stream(runs, claim, relation=claim.relation, confidence=confidence).contradicted)


def _run_cells(confidence: float) -> Iterable[Cell]:
    level: dict[str, Any] = {"confidence": confidence}
    gaussian, perfect = ground_truth.GaussianRuns(1.0, 1000), ground_truth.GaussianRuns(0.0, 300)
    laplace, response = ground_truth.LaplaceRuns(1.0, 1000), ground_truth.LeakyResponseRuns(1.0, 0.0, 1000)
    leaky = ground_truth.LeakyResponseRuns(1.0, 0.02, 1000)
    small, tied = ground_truth.GaussianRuns(1.0, 100), ground_truth.GaussianRuns(1.0, 500, digits=1)
    for strategy in (thresholds.RankGrid(), thresholds.Fixed(score=0.5), thresholds.HeldOut()):
        for truth in (gaussian, perfect):
            yield _cell(runs.mu_from_runs, strategy, truth, truth.mu, **level)
        for pure, epsilon in ((laplace, 1.0), (response, 1.0), (perfect, 0.0)):
            yield _cell(runs.epsilon_from_runs, strategy, pure, epsilon, delta=0.0, **level)
        yield _cell(runs.epsilon_from_runs, strategy, leaky, 1.0, delta=0.02, **level)
    grid = thresholds.RankGrid()
    yield _cell(runs.mu_from_runs, grid, small, 1.0, **level)
    yield _cell(runs.mu_from_runs, grid, tied, 1.0, **level)
    yield _cell(runs.mu_from_runs, grid, ground_truth.GaussianRuns(0.0, 5), 0.0, **level)
    yield _cell(runs.mu_from_runs, grid, ground_truth.GaussianRuns(0.0, 280, digits=0), 0.0, **level)
    yield _cell(runs.mu_from_runs, grid, response, ground_truth.least_mu(response.curve), **level)
    classic: dict[str, Any] = {"test": "clopper-pearson", "words": "RankGrid(), Clopper-Pearson"}
    yield _cell(runs.mu_from_runs, grid, gaussian, 1.0, **classic, **level)
    yield _cell(runs.epsilon_from_runs, grid, response, 1.0, delta=0.0, **classic, **level)
    yield _cell(
        runs.family_from_runs,
        grid,
        laplace,
        1.0,
        family=tradeoff.LAPLACE,
        words="RankGrid(), Laplace family",
        **level,
    )
    subsampled = ground_truth.SubsampledGaussianRuns(1.0, 0.3, 300)
    words = "RankGrid(), DP-SGD family"
    if accounting.available():
        yield Cell("family_from_runs", words, subsampled, 1.0, partial(_subsampled_theta, confidence=confidence))
    deltas = (1e-3, 1e-2, 0.1)
    for choice in (thresholds.Band(), grid):
        worst = partial(_worst_excess, mu=1.0, deltas=deltas, threshold=choice, confidence=confidence)
        words = f"{_shown(choice)}, three deltas at once"
        yield Cell("epsilon_curve_from_runs", words, ground_truth.GaussianRuns(1.0, 500), 0.0, worst)
    for mu, delta in ((1.0, 0.05), (0.0, 0.0), (0.0, 0.05)):
        stream = ground_truth.GaussianStream(mu, 600)
        bound = partial(sequential.epsilon_from_stream, delta=delta, relation="add-remove", confidence=confidence)
        value = stream.curve.epsilon(delta)
        yield Cell(f"epsilon_from_stream at delta {delta:g}", "every run, past only", stream, value, bound, quick=150)
    for mu in (1.0, 0.0):
        stream = ground_truth.GaussianStream(mu, 600)
        pair = UpperBound(epsilon=stream.curve.epsilon(0.05), delta=0.05, relation=Relation.ADD_REMOVE)
        own = accounting.gaussian(mu=mu, delta=0.05, relation=Relation.ADD_REMOVE)
        for words, claim in (("the claim's own curve", own), ("a bare pair at delta 0.05", pair)):
            refuted = partial(_refuted_stream, claim=claim, confidence=confidence)
            yield Cell("judge_stream (1: refuted)", words, stream, 0.0, refuted, quick=150)


def _canary_cells(confidence: float) -> Iterable[Cell]:
    level: dict[str, Any] = {"confidence": confidence}
    response, laplace = ground_truth.ResponseCanaries(1.0, 1000), ground_truth.NoisyCanaries(2.0, 1000, "Laplace")
    perfect, tiny = ground_truth.ResponseCanaries(0.0, 1000), ground_truth.ResponseCanaries(0.0, 3)
    some = ground_truth.ResponseCanaries(1.0, 1000, delta=1e-4)
    many = ground_truth.ResponseCanaries(1.0, 1000, delta=0.01)
    shifted = ground_truth.ResponseCanaries(1.0, 1000, shift=0.01)
    path, wealth, held = thresholds.GuessPath(), thresholds.EProcess(), thresholds.HeldOut(0.5)
    every, grid = thresholds.Fixed(fraction=1.0), thresholds.FractionGrid()
    for strategy in (path, wealth, every, grid, held):
        for truth in (response, laplace, perfect):
            yield _cell(canaries.epsilon_from_canaries, strategy, truth, truth.curve.epsilon(0.0), delta=0.0, **level)
        yield _cell(canaries.epsilon_from_canaries, strategy, some, 1.0, delta=1e-4, **level)
    yield _cell(canaries.epsilon_from_canaries, path, tiny, 0.0, delta=0.0, **level)
    for strategy in (path, held):
        few = ground_truth.KaryResponseCanaries(0.0, 9, 1000)
        yield _cell(canaries.epsilon_from_canaries, strategy, few, 0.0, delta=0.0, **level)
    for strategy in (every, grid):
        yield _cell(canaries.epsilon_from_canaries, strategy, many, 1.0, delta=0.01, **level)
        yield _cell(canaries.epsilon_from_canaries, strategy, shifted, 1.0, delta=0.0, **level)
    gaussian = ground_truth.NoisyCanaries(1.0, 1000)
    planned = thresholds.Fixed(
        guesses=estimators.plan_guesses(canaries=1000, claim=gaussian.curve, confidence=confidence)
    )
    for strategy in (grid, planned, every):
        for truth in (gaussian, response, perfect):
            yield _cell(canaries.mu_from_canaries, strategy, truth, ground_truth.least_mu(truth.curve), **level)
    mixing = ground_truth.single_mode(1.0 - confidence)
    yield _cell(canaries.mu_from_canaries, every, mixing, mixing.mu, **level)
    yield _cell(canaries.mu_from_canaries, grid, mixing, mixing.mu, **level)
    yield _cell(
        canaries.mu_from_canaries, grid, ground_truth.MULTI_MODE, ground_truth.MULTI_MODE.mu, quick=150, **level
    )
    kary = ground_truth.KaryResponseCanaries(1.0, 5, 1000)
    for strategy in (grid, every):
        family = tradeoff.randomized_response(5)
        shown = f"{_shown(strategy)}, 5-ary family"
        yield _cell(canaries.family_from_canaries, strategy, kary, 1.0, family=family, words=shown, **level)
    for grouped in (ground_truth.CorrelatedRows(), ground_truth.ResponseRows()):
        yield _cell(canaries.epsilon_from_canaries, path, grouped, grouped.curve.epsilon(0.0), delta=0.0, **level)


def _best_step(steps: Any, *, confidence: float, union: bool) -> float:
    """The best bound of all steps, paid for or not."""
    if union:
        return max(bound.mu or 0.0 for bound in runs.by_step(steps, confidence=confidence).values())
    free = thresholds.Uncorrected()
    return max(runs.mu_from_runs(one, confidence=confidence, threshold=free).mu or 0.0 for one in steps.values())


def _step_cells(confidence: float) -> Iterable[Cell]:
    """The best of twenty correlated steps (theory:selection#steps): valid with the union, not without."""
    truth = ground_truth.GaussianSteps()
    paid = partial(_best_step, confidence=confidence, union=True)
    yield Cell("by_step", "the best of all steps, union", truth, truth.mu, paid, quick=150)
    free = partial(_best_step, confidence=confidence, union=False)
    yield Cell("mu_from_runs", "the best of all steps, uncorrected", truth, truth.mu, free, "fail", quick=150)


def _broken_cells(confidence: float) -> Iterable[Cell]:
    """Papers' uncorrected maxima and broken rules, which must fail. `at_least`: trials below which luck may hide it."""
    level: dict[str, Any] = {"confidence": confidence, "must": "fail"}
    free = thresholds.Uncorrected()
    wide = thresholds.Uncorrected(each_rate_at_alpha=True)
    gaussian = ground_truth.GaussianRuns(1.0, 1000)
    response = ground_truth.ResponseCanaries(1.0, 1000)
    yield _cell(runs.mu_from_runs, wide, gaussian, 1.0, **level)
    yield _cell(runs.epsilon_from_runs, wide, ground_truth.LaplaceRuns(1.0, 1000), 1.0, delta=0.0, **level)
    yield _cell(canaries.epsilon_from_canaries, free, response, 1.0, delta=0.0, **level)
    for rows in (ground_truth.CorrelatedRows(grouped=False), ground_truth.ResponseRows(grouped=False)):
        yield _cell(
            canaries.epsilon_from_canaries,
            thresholds.GuessPath(),
            rows,
            rows.curve.epsilon(0.0),
            delta=0.0,
            **level,
        )
    pooled = ground_truth.single_mode(0.15)
    naive = partial(_as_independent_runs, confidence=confidence)
    yield Cell("mu_from_runs", "canaries taken for independent runs", pooled, pooled.mu, naive, "fail")


def slow_broken_cells(confidence: float = 0.95) -> list[Cell]:
    """Broken rules that show only at full size."""
    level: dict[str, Any] = {"confidence": confidence, "must": "fail", "at_least": 2000}
    modes, free = ground_truth.MULTI_MODE, thresholds.Uncorrected()
    peeking = partial(_guesses_read_off_the_model, confidence=confidence)
    return [
        _cell(runs.mu_from_runs, free, ground_truth.GaussianRuns(1.0, 1000), 1.0, **level),
        _cell(runs.epsilon_from_runs, free, ground_truth.LeakyResponseRuns(1.0, 0.0, 1000), 1.0, delta=0.0, **level),
        Cell("one_run_mu", "number of guesses read off the model", modes, modes.mu, peeking, "fail", 2000),
        _cell(canaries.mu_from_canaries, free, modes, modes.mu, **level),
    ]


def _subsampled_theta(evidence: RunScores, *, confidence: float) -> LowerBound:
    """The DP-SGD family at a coarse tolerance, so that hypotheses recur and their curves are cached."""
    return runs.family_from_runs(evidence, family=_family(), confidence=confidence)


@lru_cache(maxsize=1)
def _family() -> tradeoff.Family:
    family = accounting.dp_sgd_family(sampling_rate=0.3, steps=1, relation="add-remove")
    return replace(family, tolerance=0.03, curve=lru_cache(maxsize=4096)(family.curve))


def _worst_excess(
    evidence: RunScores, *, mu: float, deltas: Sequence[float], threshold: Any, confidence: float
) -> float:
    """How far the worst of several simultaneous bounds lies above its truth."""
    found = runs.epsilon_curve_from_runs(evidence, deltas=deltas, confidence=confidence, threshold=threshold)
    return max((b.epsilon or 0.0) - tradeoff.gdp_epsilon(mu=mu, delta=d) for b, d in zip(found, deltas, strict=True))


def _as_independent_runs(evidence: CanaryScores, *, confidence: float) -> LowerBound:
    mine = RunScores(
        present=evidence.scores[evidence.included],
        absent=evidence.scores[~evidence.included],
        relation=evidence.relation,
    )
    return runs.mu_from_runs(mine, confidence=confidence)


def _guesses_read_off_the_model(evidence: CanaryScores, *, confidence: float) -> float:
    shown = np.abs(evidence.scores) >= 1.0
    right = (evidence.scores > 0.0) == evidence.included
    m, r, c = evidence.scores.size, int(shown.sum()), int((right & shown).sum())
    return canaries.one_run_mu(canaries=m, guesses=r, correct=c, confidence=confidence)
