"""Quick versions of paper 000's experiments, and what the committed ones must show."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

import papers
from dpaudit import InputError
from dpaudit.cli import app
from dpaudit.execution import Execution
from dpaudit_experiments.common.outcome import file_stem, load_outcome
from dpaudit_experiments.paper_000 import observational
from dpaudit_experiments.paper_000.observational import FIGURES, FULL, ONLY, QUICK, NoisyProxy, reproduce

RESULTS = papers.DOCS / "results" / "paper-000"
SMALL = replace(QUICK, noisy_games=1, leaky_games=1, private_games=1)


@pytest.mark.parametrize("name", FIGURES)
def test_quick(name, tmp_path):
    found, picture = papers.quick(observational, "observational", name, tmp_path)
    assert (picture == "") == (name in ("noisy-proxy", "leaky", "pate-fm") or name.startswith("table-"))
    for row in found.rows:
        if "median_ratio_score" in row:
            assert row["median_ratio_score"] <= row["epsilon"]
        if "over_claims" in row:
            assert row["over_claims"] == 0


def test_the_same_outcome_from_any_number_of_workers():
    one, two = (reproduce("noisy-proxy", scale=SMALL, execution=Execution(workers=n)) for n in (1, 2))
    assert one.rows == two.rows


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_are_whole(name):
    papers.committed(observational, "observational", name, RESULTS)


@pytest.mark.parametrize("name", ["2", "3"])
def test_randomised_response_is_as_tight_as_it_must_be(name):
    """A million rows, two classes, the true posterior: medians in [0.75, 1] of epsilon, at most 15 of 100 above it."""
    rows = [r for r in load_outcome(RESULTS / f"{file_stem(name)}.json").rows if r["classes"] == 2]
    for row in rows:
        if row["proxy"] == "true posterior" and row["epsilon"] in (1.0, 2.0, 4.0):
            assert row["games"] == 100
            assert 0.75 <= row["median_ratio_score"] / row["epsilon"] <= 1.0
            assert row["over_ratio_score"] <= 15
    assert FULL.rows == 1_000_000


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("deviation", [0.1, 0.2])
def test_nothing_is_reported_of_a_target_that_memorises_nothing(features, deviation):
    """Three games of 10,000 rows: withheld, or 0 with the right tau; the paper's sweep is positive (100 committed)."""
    for seed in range(3):
        sweep, epsilon, closed = NoisyProxy(10_000, deviation, features)(seed)
        assert sweep > 0.3
        assert closed == 1.0
        assert epsilon == 0.0
    _, epsilon, _ = NoisyProxy(10_000, deviation, features, "right")(1)
    assert epsilon == 0.0


def test_a_noisy_proxy_never_gets_a_number_through():
    for row in load_outcome(RESULTS / "figure-noisy-proxy.json").rows:
        assert row["games"] == 100
        assert row["over_claims"] <= 15
        assert row["withheld"] + row["reported_0"] + row["over_claims"] == 100
        assert row["mean_sweep_estimate"] > 0.3
        if row["tau"] == "0":
            assert row["withheld"] >= 85


def test_an_over_fitted_model_leaks_and_randomised_labels_do_not_pass_their_epsilon():
    plain, private = load_outcome(RESULTS / "figure-leaky.json").rows
    assert plain["least_label_inference"] > 1.0
    assert plain["withheld"] <= 4
    assert private["games"] == 100
    assert private["over_claims"] <= 15


def test_refusals_and_groups(tmp_path):
    with pytest.raises(InputError, match="`figure` must be one of"):
        reproduce("9", scale=QUICK)
    assert set(ONLY["synthetic"]) | set(ONLY["leaky"]) | set(ONLY["labels"]) == set(FIGURES)
    assert {"1", *ONLY["images"], *ONLY["tabular"], *ONLY["text"]} == set(ONLY["labels"])
    command = ["reproduce", "observational", "--quick", "--output", str(tmp_path)]
    done = CliRunner().invoke(app, [*command, "--only", "synthetic", "--figure", "2"])
    assert isinstance(done.exception, InputError)
    done = CliRunner().invoke(app, [*command, "--only", "nothing"])
    assert "`only` must be one of 'synthetic', 'leaky', 'images'" in str(done.exception)
    done = CliRunner().invoke(app, [*command, "--only", "leaky", "--workers", "1", "--json"])
    assert done.exit_code == 0
    assert (tmp_path / "figure-leaky.json").exists()
