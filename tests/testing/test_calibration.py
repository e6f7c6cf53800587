"""The proof that the bounds do not lie: every cell of the calibration table, at 400 games (150 where one is slow)."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import dpaudit as da
from dpaudit.testing import calibration, ground_truth

COMMITTED = Path(__file__).parent.parent.parent / "docs" / "calibration.json"
CELLS = calibration.cells()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.key)
def test_cell(cell):
    """Over-claims stay within BinomialInv(1 - 1e-4; trials, 5 %), 38 of 400; broken forms must exceed it."""
    row = calibration.run_cells([cell], trials=cell.quick, seed=1, workers=1).rows[0]
    assert row.trials == cell.quick
    assert row.allowed == {400: 38, 150: 19, 60: 11}[cell.quick]
    assert row.as_expected, f"{row.over_claims} over-claims of {row.trials}, allowed {row.allowed}"


def test_allowed_numbers():
    assert [calibration.allowed_over_claims(n, 0.95) for n in (400, 1000, 2000)] == [38, 77, 138]


def test_every_estimator_and_strategy_stands_in_the_table():
    text = " ".join(cell.key for cell in CELLS + calibration.slow_broken_cells())
    estimates = ("bootstrapped_from_members", "as_published_from_members")  # never called bounds
    for name in da.estimators.__all__:
        if "_from_" in name and name not in estimates:
            assert name in text
    for strategy in ("RankGrid", "GuessPath", "FractionGrid", "EProcess", "HeldOut", "Fixed", "Band", "Uncorrected"):
        assert strategy in text
    for mechanism in ("mode mixing", "three modes", "reveals", "perfect privacy", "correlated rows", "rows a user"):
        assert mechanism in text


def test_same_table_from_any_number_of_workers():
    cells = [cell for cell in CELLS if "Clopper" in cell.strategy or "3 canaries" in cell.truth.name]
    one, two = (calibration.run_cells(cells, trials=120, seed=3, workers=n) for n in (1, 2))
    assert one == two
    assert calibration.run_cells(cells, trials=120, seed=4, workers=1) != one


def test_committed_full_table():
    """Rendered in the docs: 2,000 games a cell, all as they should be, and the page is this very table."""
    text = COMMITTED.read_text()
    table = calibration.Calibration.from_json(text)
    assert table.as_expected
    assert all(row.trials >= 2000 for row in table.rows)
    assert all(row.allowed == calibration.allowed_over_claims(row.trials, 0.95) for row in table.rows)
    known = {cell.key for cell in CELLS + calibration.slow_broken_cells()}
    assert {f"{row.estimator} | {row.strategy} | {row.mechanism}" for row in table.rows} == known
    assert table.to_markdown() in COMMITTED.with_suffix(".md").read_text()
    assert json.loads(text)["command"] in COMMITTED.with_suffix(".md").read_text()


def test_recommended_defaults_keep_their_power():
    """An alert on a drop of 5 % against the committed medians (quick sizes, fixed seeds)."""
    committed = calibration.Calibration.from_json(COMMITTED.read_text())
    medians = {f"{row.estimator} | {row.strategy} | {row.mechanism}": row for row in committed.rows}
    for cell in CELLS:
        if cell.strategy in ("RankGrid()", "GuessPath()") and cell.value == 1.0:
            row = calibration.run_cells([cell], trials=100, seed=2, workers=1).rows[0]
            if medians[cell.key].median > 0.5:
                assert row.median >= 0.93 * medians[cell.key].median, cell.key


def test_ground_truth_of_the_mode_mixers():
    """theory:one-run#looseness, theory:ground-truth#mode-mixing: the kinks give mu = 1 and mu = .9999."""
    assert ground_truth.single_mode(0.05).accuracies[0] == pytest.approx(0.9267, abs=5e-5)
    assert ground_truth.single_mode(0.05).mu == pytest.approx(1.0, abs=1e-6)
    assert ground_truth.MULTI_MODE.mu == pytest.approx(0.9999, abs=5e-5)
    assert ground_truth.least_mu(ground_truth.ResponseCanaries(1.0).curve) == pytest.approx(1.232, abs=5e-4)


@pytest.mark.parametrize(
    "truth",
    [
        ground_truth.LaplaceRuns(1.0, 4000),
        ground_truth.LeakyResponseRuns(1.0, 0.05, 4000),
        ground_truth.SubsampledGaussianRuns(1.0, 0.3, 4000),
        ground_truth.GaussianRuns(1.0, 4000),
    ],
    ids=lambda t: t.name,
)
def test_samplers_match_their_curves(truth):
    """The empirical ROC of many runs lies on the exact curve, within the Dvoretzky-Kiefer-Wolfowitz band."""
    runs = truth.sample(np.random.default_rng(0))
    thresholds = np.unique(runs.absent)
    fpr = (runs.absent[None, :] > thresholds[:200, None]).mean(axis=1)
    tpr = (runs.present[None, :] > thresholds[:200, None]).mean(axis=1)
    assert np.all(tpr <= truth.curve.fbar(fpr) + 0.09)
    assert np.max(tpr - truth.curve.fbar(fpr)) > -0.09


def test_users_own_estimator():
    def half(evidence: da.CanaryScores) -> float:
        return 0.5 * (da.estimators.mu_from_canaries(evidence).mu or 0.0)

    table = da.calibrate(half, bounds="mu", trials=20, workers=1)
    assert table.as_expected
    assert "yours" in str(table)
    with pytest.raises(da.InputError, match="`bounds` must be one of"):
        da.calibrate(half, bounds="tau")
    with pytest.raises(da.InputError, match="`trials` must be at least 1"):
        da.calibrate(half, bounds="mu", trials=0)
    assert calibration.Calibration.from_json(table.to_json()) == table
    with pytest.raises(da.InputError, match="not a calibration table"):
        calibration.Calibration.from_json("{}")
    assert dataclasses.is_dataclass(table)
