"""Observational audits: the blind control, the second attempt, tau, the risk sentence, and what a report shows."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import dpaudit as da
from dpaudit import Outcome, accounting
from dpaudit.estimators.thresholds import Uncorrected
from dpaudit.record import Audits, schema
from dpaudit.testing.calibration.members import ObservedLabels
from tests.conftest import noisy_proxy

TAU = "counterfactual-right"
"""Without it the coins alone give no number."""


@pytest.fixture(scope="module")
def leaky():
    return da.audit(
        replace(ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2)), calibration_fraction=0.1),
        claim=accounting.randomized_response(epsilon=1.0, classes=2, relation="label"),
        seed=4,
        name="labels",
        accept=TAU,
    )


@pytest.fixture(scope="module")
def refuted():
    return da.audit(noisy_proxy(4000, 0.2, 5), seed=5, name="noisy proxy")


def attempts_played(found):
    return sum(result.check.id == "blind-values" for result in found.checks)


def test_a_passed_control_lets_bounds_through(leaky):
    assert leaky.result("blind-values").outcome == "passed"
    assert leaky.outcome is Outcome.CONTRADICTED_IF
    epsilon = leaky.bounds[0]
    assert 1.0 < epsilon.epsilon <= 3.0
    assert epsilon.confidence == 0.95
    assert "nothing could be reported for tau of" in leaky.result("tau").text
    assert leaky.plan["attempts"] == 2
    assert leaky.result("tau").numbers["tau"] == 0.0
    risk = leaky.result("risk").numbers
    assert risk["correct"] / risk["guesses"] > 0.8
    assert "chance is 50%" in str(leaky)
    assert leaky.figures["shift"]["epsilon"] == sorted(leaky.figures["shift"]["epsilon"], reverse=True)


def test_accepted_assumptions_make_it_a_contradiction():
    game = ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2))
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    found = da.audit(game, claim=claim, seed=4, accept=game.play(seed=4).only.conditions)
    assert found.outcome is Outcome.CONTRADICTED
    assert found.verdict.p_value < 0.05


def test_the_second_attempt_is_paid_for_in_advance():
    """With rows held out, every statement is made at half the error probability, whether or not it is needed."""
    game = ObservedLabels(2.0, rows=3000).game(np.random.default_rng(3))
    one, two = (
        da.audit(replace(game, calibration_fraction=share), seed=1, delta=0.0, accept=TAU) for share in (0.0, 0.001)
    )
    assert (one.plan["attempts"], two.plan["attempts"]) == (1, 2)
    evidence = two.observed[0]
    at_half = da.estimators.epsilon_from_canaries(evidence, delta=0.0, confidence=0.975)
    assert two.bounds[0].epsilon == at_half.epsilon
    assert two.bounds[0].confidence == 0.95
    theta = 1.0
    assert two.bounds[0].p_value(theta) == pytest.approx(min(1.0, 2.0 * at_half.p_value(theta)))


def test_a_refuted_control_reports_no_number_and_helps(refuted):
    assert refuted.outcome is Outcome.WITHHELD
    assert refuted.bounds == ()
    assert not refuted.judged
    assert Audits((refuted,)).exit_code() == 4
    assert attempts_played(refuted) == 2
    for result in refuted.checks:
        if result.check.id == "blind-values":
            assert result.refuted
            assert result.p_value <= 0.05
    assert str(refuted).count("Control refuted: an attack that never saw the model") >= 2
    assert refuted.result("needed").numbers["tau"] > 0.05
    assert refuted.result("needed").numbers["epsilon"] == 0.0
    columns = refuted.result("giveaways").numbers["columns"]
    assert {column["feature"] for column in columns} & {"column 0", "column 1"}
    assert any("A `shift` that you answer for" in step.text for step in refuted.next_steps)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("deviation", [0.1, 0.2])
def test_nothing_is_reported_of_a_target_that_memorises_nothing(features, deviation):
    """Three games of 10,000 rows: withheld, or 0 with the right tau; the paper's sweep is positive (100 committed)."""
    for seed in range(3):
        game = noisy_proxy(10_000, deviation, seed, features=features)
        sweep = da.estimators.epsilon_from_canaries(game.play(seed=seed).only, delta=0.0, guesses=Uncorrected())
        assert sweep.epsilon > 0.3
        found = da.audit(game, seed=seed, delta=0.0)
        assert found.outcome is Outcome.WITHHELD
        assert found.bounds == ()
    found = da.audit(noisy_proxy(10_000, deviation, 1, features=features, right=True), seed=1, delta=0.0)
    assert all(bound.epsilon == 0.0 for bound in found.bounds if bound.parameter == "epsilon")


def test_without_features_a_second_attempt_would_prove_nothing():
    """On its own predictions a recalibrated proxy is right by construction, so there is no second attempt."""
    game = noisy_proxy(4000, 0.2, 5, features=False)
    assert not game.can_recalibrate
    found = da.audit(game, seed=5)
    assert game.attempts == attempts_played(found) == 1
    assert found.result("blind-values").refuted
    assert any("would pass by construction" in " ".join(step.text.split()) for step in found.next_steps)
    mended = da.audit(replace(game, calibration_fraction=0.5).recalibrated(5), seed=5, delta=0.0, accept=TAU)
    assert mended.bounds[0].epsilon > 0.0  # what it would have said


def test_a_miscalibrated_proxy_is_mended_on_held_out_rows():
    """An over-confident posterior: refuted as given, open after recalibration, and the bound stays below the truth."""
    game = ObservedLabels(3.0, rows=6000).game(np.random.default_rng(8))
    sharp = game.counterfactual.probabilities**2
    counterfactual = da.counterfactuals.Categorical(sharp / sharp.sum(axis=1, keepdims=True))
    found = da.audit(
        replace(game, counterfactual=counterfactual, calibration_fraction=0.3), seed=2, delta=0.0, accept=TAU
    )
    assert [result.outcome for result in found.checks if result.check.id == "blind-values"] == ["refuted", "passed"]
    assert 0.5 < found.bounds[0].epsilon <= 3.0
    assert "Control refuted" in str(found)


def test_a_sample_says_what_it_costs():
    game = ObservedLabels(3.0, rows=4000).game(np.random.default_rng(2))
    found = da.audit(replace(game, sample=800), seed=1, delta=0.0, accept=TAU)
    assert "A sample of 800 of 4,000 rows" in found.result("sample").text
    assert found.result("sample").numbers["gain"] > 0.0


def test_log_ratios():
    game = ObservedLabels(3.0, rows=600, off=0.05, told="ratio").game(np.random.default_rng(2))
    found = da.audit(game, seed=1, delta=0.0)
    assert found.result("blind-values").outcome == "passed"
    assert 0.0 < found.bounds[0].epsilon <= 3.0
    assert "log-ratio" in found.result("log-ratio-assumed").text
    wrong = da.audit(replace(noisy_proxy(2000, 0.3, 1), log_ratio=0.01), seed=1)
    assert wrong.outcome is Outcome.WITHHELD
    assert wrong.result("needed") is None


def test_records_read_back_and_the_page_shows_the_checks(leaky, refuted, tmp_path):
    for found in (leaky, refuted):
        jsonschema.validate(json.loads(found.to_json()), schema())
        again = da.load_audit(found.save(tmp_path / "record.json"))
        assert again == found
        assert again.digest == found.digest
        assert str(again) == str(found)
        page = da.reporting.to_html(again)
        assert "What was checked" in page
        assert "Bound against tau" in page or found is refuted
        assert "How far the proxy can be believed" in page
    both = da.reporting.to_html([leaky, refuted])
    assert "assumption refuted" in both


def test_the_same_record_again(leaky):
    game = replace(ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2)), calibration_fraction=0.1)
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    assert da.audit(game, claim=claim, seed=4, name="labels", accept=TAU).digest == leaky.digest


def test_values_of_one_user_that_hang_together_are_noticed():
    """Every row's proxy is exact, but a user's labels are alike and the proxy's are not: no leak, and no number."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        user = np.arange(6000) // 10
        labels = (rng.random(6000) < np.where(rng.random(600) < 0.5, 0.1, 0.9)[user]).astype(int)
        game = da.games.Observational(
            values=labels,
            counterfactual=da.counterfactuals.Categorical(np.full(6000, 0.5)),
            target=da.counterfactuals.Categorical(np.full(6000, 0.9)),
            features=rng.normal(size=(6000, 2)),
            group=user,
            unit="user",
        )
        found = da.audit(game, seed=seed)
        assert found.outcome is Outcome.WITHHELD
        assert "of one user are independent" in " ".join(map(str, found.observed[0].assumptions))


def test_a_few_rows_that_give_the_proxy_away_are_no_small_tau():
    rng = np.random.default_rng(3)
    labels, counterfactual = rng.integers(0, 2, 20_000), np.full(20_000, 0.5)
    counterfactual[:60], labels[:60] = 0.02, 1
    features = np.zeros((20_000, 1))
    features[:60] = 1.0
    game = da.games.Observational(
        values=labels,
        counterfactual=da.counterfactuals.Categorical(counterfactual),
        target=da.counterfactuals.Categorical(counterfactual),
        features=features,
    )
    found = da.audit(game, seed=1)
    assert found.outcome is Outcome.WITHHELD
    assert "cannot measure" in found.result("needed").text
    assert "shift" not in found.figures


def test_a_proxy_that_cannot_be_mended_stays_refuted():
    rng = np.random.default_rng(0)
    labels = np.zeros(400, dtype=int)
    labels[rng.choice(400, 8, replace=False)] = 1
    game = da.games.Observational(
        values=labels,
        counterfactual=da.counterfactuals.Categorical(np.full(400, 0.5)),
        target=da.counterfactuals.Categorical(np.full(400, 0.5)),
        features=rng.normal(size=(400, 1)),
        calibration_fraction=0.02,
    )
    found = da.audit(game, seed=0)
    assert found.outcome is Outcome.WITHHELD
    assert found.result("recalibration").outcome == "not-run"
    assert "could not be recalibrated" in found.result("recalibration").text


def test_numbers_beside_the_bounds_are_paid_for(leaky):
    assert f"{leaky.result('tau').numbers['tau_max']:.2g}" in leaky.result("tau").text
    assert any("curve" in share["statement"] for share in leaky.budget)
    assert leaky.verdict.p_value == pytest.approx(
        2.0
        * da.judge(leaky.observed[0], accounting.randomized_response(epsilon=1.0, classes=2, relation="label")).p_value
    )
