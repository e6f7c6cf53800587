"""Does a bound hold as often as it says? Every estimator and strategy against mechanisms known exactly.

A cell plays a game many times and counts how often the bound exceeds the truth. It passes while the count is at most
the 1 - 1e-4 quantile of Binomial(trials, 1 - confidence). Uncorrected forms and broken rules stand in the same table
and must fail: that is the test of the test.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.testing import ground_truth
from dpaudit.testing.calibration._table import Calibration, Cell, Row, allowed_over_claims, run_cells
from dpaudit.testing.calibration.canaries import second_cells
from dpaudit.testing.calibration.matched import fourth_cells
from dpaudit.testing.calibration.members import third_cells
from dpaudit.testing.calibration.runs import first_cells, slow_broken_cells

__all__ = [
    "Calibration",
    "Cell",
    "Row",
    "allowed_over_claims",
    "calibrate",
    "cells",
    "run_cells",
    "slow_broken_cells",
]


def cells(confidence: float = 0.95) -> list[Cell]:
    """Every estimator x strategy x ground truth that applies, and the forms that must fail."""
    check.confidence(confidence)
    made = (first_cells, second_cells, third_cells, fourth_cells)
    return [cell for cells in made for cell in cells(confidence)]


def calibrate(
    estimator: Callable[[Any], Any],
    *,
    evidence: str | None = None,
    bounds: str = "epsilon",
    delta: float = 0.0,
    confidence: float = 0.95,
    trials: int = 400,
    seed: int = 0,
    workers: int = -1,
) -> Calibration:
    """Put your own estimator into the table: `estimator(evidence)` returns a LowerBound or a number.

    Parameters
    ----------
    evidence
        "runs" (it takes `RunScores`) or "canaries" (`CanaryScores`); read off the annotation where there is one.
    bounds
        "epsilon" at `delta`, or "mu".
    confidence
        What the estimator promises.
    """
    kind = check.choice("evidence", evidence or _annotated(estimator), ("runs", "canaries"))
    check.choice("bounds", bounds, ("epsilon", "mu"))
    delta = check.delta(delta)
    truths: list[Any] = (
        [
            ground_truth.GaussianRuns(1.0, 1000),
            ground_truth.LaplaceRuns(1.0, 1000),
            ground_truth.LeakyResponseRuns(1.0, delta, 1000),
            ground_truth.GaussianRuns(0.0, 300),
        ]
        if kind == "runs"
        else [
            ground_truth.ResponseCanaries(1.0, 1000, delta=delta),
            ground_truth.NoisyCanaries(2.0, 1000, "Laplace"),
            ground_truth.single_mode(0.1),
            ground_truth.ResponseCanaries(0.0, 1000),
            ground_truth.CorrelatedRows(),
        ]
    )
    name = getattr(estimator, "__name__", type(estimator).__name__)
    mine = []
    for truth in truths:
        value = _mu_of(truth) if bounds == "mu" else truth.curve.epsilon(delta)
        if math.isfinite(value):
            mine.append(Cell(name, f"{bounds}, yours", truth, value, estimator))
    return run_cells(mine, trials=trials, seed=seed, confidence=check.confidence(confidence), workers=workers)


def _mu_of(truth: Any) -> float:
    if isinstance(truth, ground_truth.ModeMixing):
        return truth.mu
    leaks = getattr(truth, "delta", 0.0)
    return math.inf if isinstance(leaks, float) and leaks > 0.0 else ground_truth.least_mu(truth.curve)


def _annotated(estimator: Callable[[Any], Any]) -> str:
    parameters = list(inspect.signature(estimator).parameters.values())
    note = str(parameters[0].annotation) if parameters else ""
    for kind, name in (("runs", "RunScores"), ("canaries", "CanaryScores")):
        if name in note:
            return kind
    raise InputError(
        "`evidence` must say what the estimator takes: 'runs' or 'canaries'.",
        "or annotate its first argument with RunScores or CanaryScores.",
    )
