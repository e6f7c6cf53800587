"""Observational audits on the rails: the gate, the second look, tau, the risk sentence, and what a report shows."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import dpaudit as da
from dpaudit import Outcome, accounting
from dpaudit.auditing import schema
from dpaudit.calibration._third import ObservedLabels
from dpaudit.papers.observational import NoisyProxy


@pytest.fixture(scope="module")
def leaky():
    return da.audit(
        replace(ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2)), held_out=0.1),
        claim=accounting.randomized_response(epsilon=1.0, classes=2, relation="label"),
        seed=4,
        name="labels",
    )


@pytest.fixture(scope="module")
def blocked():
    return da.audit(NoisyProxy(4000, 0.2, features=True).game(5), seed=5, name="noisy proxy")


def test_an_open_gate_lets_bounds_through(leaky):
    assert leaky.checks["gate"]["passed"]
    assert leaky.outcome is Outcome.CONTRADICTED_IF
    epsilon = leaky.bounds[0]
    assert 1.0 < epsilon.epsilon <= 3.0
    assert epsilon.confidence == 0.95
    assert any("nothing could be reported for tau of" in note for note in epsilon.notes)
    assert any("half of the error probability" in note for note in epsilon.notes)
    assert leaky.checks["shift"]["tau"] == 0.0
    risk = leaky.checks["risk"]
    assert risk["correct"] / risk["guesses"] > 0.8
    assert "chance is 50%" in str(leaky)
    assert leaky.figures["shift"]["epsilon"] == sorted(leaky.figures["shift"]["epsilon"], reverse=True)


def test_accepted_assumptions_make_it_a_contradiction():
    game = ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2))
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    found = da.audit(game, claim=claim, seed=4, accept=game.play(seed=4).assumptions)
    assert found.outcome is Outcome.CONTRADICTED
    assert found.verdict.p_value < 0.05


def test_the_second_look_is_paid_for_in_advance():
    """With rows held out, every statement is made at half the error probability, whether or not it is needed."""
    game = ObservedLabels(2.0, rows=3000).game(np.random.default_rng(3))
    one, two = (da.audit(replace(game, held_out=share), seed=1, delta=0.0) for share in (0.0, 0.001))
    assert (one.checks["gate"]["looks_paid"], two.checks["gate"]["looks_paid"]) == (1, 2)
    evidence = two.observed
    at_half = da.estimators.epsilon_from_canaries(evidence, delta=0.0, confidence=0.975)
    assert two.bounds[0].epsilon == at_half.epsilon
    assert two.bounds[0].confidence == 0.95
    theta = 1.0
    assert two.bounds[0].p_value(theta) == pytest.approx(min(1.0, 2.0 * at_half.p_value(theta)))


def test_a_closed_gate_reports_no_number_and_helps(blocked):
    assert blocked.outcome is Outcome.BLOCKED
    assert blocked.bounds == ()
    assert not blocked.judged
    assert da.auditing.Audits((blocked,)).exit_code() == 4
    text = str(blocked)
    assert "The proxy as given was refuted" in text
    assert blocked.checks["gate"]["looks"] == 2
    assert blocked.checks["needed"]["tau"] > 0.05
    assert blocked.checks["needed"]["epsilon"] == 0.0
    assert {column["feature"] for column in blocked.checks["giveaways"]["columns"]} & {"column 0", "column 1"}
    assert any("A `shift` that you answer for" in change for change in blocked.changes)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("deviation", [0.1, 0.2])
def test_nothing_is_reported_of_a_target_that_memorises_nothing(features, deviation):
    """Three games of 10,000 rows: blocked, or 0 with the right tau; the paper's sweep is positive (100 committed)."""
    for seed in range(3):
        sweep, epsilon, closed = NoisyProxy(10_000, deviation, features)(seed)
        assert sweep > 0.3
        assert closed == 1.0
        assert epsilon == 0.0
    _, epsilon, _ = NoisyProxy(10_000, deviation, features, "right")(1)
    assert epsilon == 0.0


def test_without_features_a_second_look_would_prove_nothing():
    """On its own predictions a recalibrated proxy is right by construction, so the gate stays closed."""
    game = NoisyProxy(4000, 0.2, features=False).game(5)
    assert not game.can_recalibrate
    found = da.audit(game, seed=5)
    assert found.checks["gate"]["looks"] == 1
    assert any("would pass by construction" in change for change in found.changes)
    mended = da.audit(replace(game, held_out=0.5).recalibrated(5), seed=5, delta=0.0)
    assert mended.bounds[0].epsilon > 0.0  # what it would have said


def test_a_miscalibrated_proxy_is_mended_on_held_out_rows():
    """An over-confident posterior: refuted as given, open after recalibration, and the bound stays below the truth."""
    game = ObservedLabels(3.0, rows=6000).game(np.random.default_rng(8))
    sharp = game.proxy.probabilities**2
    proxy = da.proxies.Categorical(sharp / sharp.sum(axis=1, keepdims=True))
    found = da.audit(replace(game, proxy=proxy, held_out=0.3), seed=2, delta=0.0)
    assert found.checks["gate"]["looks"] == 2
    assert found.checks["gate"]["passed"]
    assert 0.5 < found.bounds[0].epsilon <= 3.0
    assert "recalibrated on held-out rows" in str(found)


def test_a_sample_says_what_it_costs():
    game = ObservedLabels(3.0, rows=4000).game(np.random.default_rng(2))
    found = da.audit(replace(game, sample=800), seed=1, delta=0.0)
    assert "A sample of 800 of 4,000 rows" in found.checks["sample"]["sentence"]
    assert found.checks["sample"]["gain_estimate"] > 0.0


def test_log_ratios_on_the_rails():
    game = ObservedLabels(3.0, rows=600, off=0.05, told="ratio").game(np.random.default_rng(2))
    found = da.audit(game, seed=1, delta=0.0)
    assert found.checks["gate"]["passed"]
    assert 0.0 < found.bounds[0].epsilon <= 3.0
    assert "log-ratio" in found.checks["shift"]["sentence"]
    wrong = da.audit(replace(NoisyProxy(2000, 0.3, features=True).game(1), log_ratio=0.01), seed=1)
    assert wrong.outcome is Outcome.BLOCKED
    assert "needed" not in wrong.checks


def test_records_read_back_and_the_page_shows_the_checks(leaky, blocked, tmp_path):
    for found in (leaky, blocked):
        jsonschema.validate(json.loads(found.to_json()), schema())
        again = da.load_audit(found.save(tmp_path / "record.json"))
        assert again == found
        assert again.digest == found.digest
        assert str(again) == str(found)
        page = da.reporting.to_html(again)
        assert "What was checked" in page
        assert "Bound against tau" in page or found is blocked
        assert "How far the proxy can be believed" in page
    both = da.reporting.to_html([leaky, blocked])
    assert "blocked: the proxy can be told without the model" in both


def test_the_same_record_again(leaky):
    game = replace(ObservedLabels(3.0, rows=3000).game(np.random.default_rng(2)), held_out=0.1)
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    assert da.audit(game, claim=claim, seed=4, name="labels").digest == leaky.digest


def test_values_of_one_user_that_hang_together_close_the_gate():
    """Every row's proxy is exact, but a user's labels are alike and the proxy's are not: no leak, and no number."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        user = np.arange(6000) // 10
        labels = (rng.random(6000) < np.where(rng.random(600) < 0.5, 0.1, 0.9)[user]).astype(int)
        game = da.games.Observational(
            values=labels,
            proxy=da.proxies.Categorical(np.full(6000, 0.5)),
            target=da.proxies.Categorical(np.full(6000, 0.9)),
            features=rng.normal(size=(6000, 2)),
            group=user,
            unit="user",
        )
        found = da.audit(game, seed=seed)
        assert found.outcome is Outcome.BLOCKED
        assert "of one user are independent" in " ".join(found.observed.assumptions)


def test_a_few_rows_that_give_the_proxy_away_are_no_small_tau():
    rng = np.random.default_rng(3)
    labels, proxy = rng.integers(0, 2, 20_000), np.full(20_000, 0.5)
    proxy[:60], labels[:60] = 0.02, 1
    features = np.zeros((20_000, 1))
    features[:60] = 1.0
    game = da.games.Observational(
        values=labels, proxy=da.proxies.Categorical(proxy), target=da.proxies.Categorical(proxy), features=features
    )
    found = da.audit(game, seed=1)
    assert found.outcome is Outcome.BLOCKED
    assert "cannot measure" in found.checks["needed"]["sentence"]
    assert "shift" not in found.figures


def test_a_proxy_that_cannot_be_mended_stays_refuted():
    rng = np.random.default_rng(0)
    labels = np.zeros(400, dtype=int)
    labels[rng.choice(400, 8, replace=False)] = 1
    game = da.games.Observational(
        values=labels,
        proxy=da.proxies.Categorical(np.full(400, 0.5)),
        target=da.proxies.Categorical(np.full(400, 0.5)),
        features=rng.normal(size=(400, 1)),
        held_out=0.02,
    )
    found = da.audit(game, seed=0)
    assert found.outcome is Outcome.BLOCKED
    assert any("could not be recalibrated" in text for text in found.changes)


def test_every_sentence_of_a_record_says_the_same(leaky):
    limits = {note for bound in leaky.bounds for note in bound.notes if "tau of" in note}
    assert len(limits) == 1
    assert f"{leaky.checks['shift']['tau_max']:.2g}" in limits.pop()
    assert any("curve" in share["statement"] for share in leaky.budget)
    assert leaky.verdict.p_value == pytest.approx(
        2.0 * da.judge(leaky.observed, accounting.randomized_response(epsilon=1.0, classes=2, relation="label")).p_value
    )
