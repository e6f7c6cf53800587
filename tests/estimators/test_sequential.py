"""Runs that arrive one by one."""

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import estimators
from dpaudit.estimators import ClaimStream, StreamState
from dpaudit.estimators.sequential import _grid


def stream(seed, mu, runs):
    rng = np.random.default_rng(seed)
    worlds = rng.random(runs) < 0.5
    return list(zip(worlds.tolist(), (rng.normal(size=runs) + mu * worlds).tolist(), strict=True))


def test_stops_early_and_resumes_to_the_same_bound(tmp_path):
    runs = stream(1, 2.0, 1500)
    whole = estimators.epsilon_from_stream(runs, delta=1e-5, relation="add-remove")
    state = StreamState(delta=1e-5)
    first = estimators.epsilon_from_stream(iter(runs), delta=1e-5, relation="add-remove", until=0.5, state=state)
    assert first.epsilon >= 0.5
    assert 16 < len(state.scores) < 600
    state.save(tmp_path / "stream.json")
    resumed = StreamState.load(tmp_path / "stream.json")
    assert np.array_equal(resumed.log_wealth, state.log_wealth)
    rest = runs[len(state.scores) :]
    assert estimators.epsilon_from_stream(rest, delta=1e-5, relation="add-remove", state=resumed) == whole
    assert [p.name for p in tmp_path.iterdir()] == ["stream.json"]
    assert whole.p_value(whole.epsilon) <= 0.05 < whole.p_value(whole.epsilon + 0.01)


# theory:sequential#stream
def test_payoff_has_no_positive_mean_under_the_hypothesis():
    """The bets of every hypothesis, at its least favourable mechanism: mean payoff at most 0, exactly.

    For an event with rates (p1, p0) the mean payoff is p1 - e^eps p0 - delta, at most 0 for every (eps, delta)-DP pair.
    """
    state = StreamState(delta=0.1)
    for world, score in stream(3, 1.5, 200):
        state.update(world, score)
    threshold, stake, upward = state.plan
    grow = np.exp(_grid())
    assert np.all(stake * (2 * grow + 0.1) < 1), "wealth stays positive"
    assert stake.max() > 0
    assert upward.any()
    p0 = np.linspace(0, 1, 101)[:, None]
    p1 = np.minimum(1, np.minimum(grow * p0 + 0.1, 1 - (1 - 0.1 - p0) / grow))
    assert np.all(p1 - grow * p0 - 0.1 <= 1e-12)
    assert np.all((1 - p0) - grow * (1 - p1) - 0.1 <= 1e-10), "the other direction too"
    assert np.isfinite(threshold).all()


def test_more_runs_are_read_only_as_needed():
    def endless():
        yield from stream(5, 3.0, 100_000)
        raise AssertionError("read to the end")

    bound = estimators.epsilon_from_stream(endless(), delta=0.0, relation="substitute", until=1.0)
    assert bound.relation is da.Relation.SUBSTITUTE
    assert bound.guarantee == "certified"


def test_no_runs_is_no_evidence():
    assert estimators.epsilon_from_stream([], delta=0.0, relation="add-remove").epsilon == 0.0


@pytest.mark.parametrize(
    ("runs", "more", "match"),
    [
        ([(True, np.nan)], {}, "`score` must be a number"),
        ([(True, np.inf)], {}, "`score` must be finite"),
        ([(1, 0.5)], {}, "`world` must be true"),
        ([0.5], {}, "must be pairs"),
        ([(True, 1.0)] * 30, {}, "fair, independent coins, got 30 present of 30"),
        ([], {"delta": -1}, "`delta` must be in"),
        ([], {"relation": "x"}, "`relation` must be one of"),
        ([], {"confidence": 2.0}, "`confidence` must be in"),
        ([], {"state": StreamState(delta=0.1)}, "made for delta 0.1"),
    ],
)
def test_misuse(runs, more, match):
    with pytest.raises(da.InputError, match=match):
        estimators.epsilon_from_stream(runs, **({"delta": 0.0, "relation": "add-remove"} | more))


def test_broken_state_files_are_refused(tmp_path):
    (tmp_path / "s.json").write_text("{")
    with pytest.raises(da.InputError, match="not a saved stream"):
        StreamState.load(tmp_path / "s.json")


def test_the_stream_of_a_claim_belongs_to_it():
    claim = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    state = ClaimStream(claim)
    found = estimators.judge_stream(stream(1, 3.0, 600), claim, relation="add-remove", state=state)
    assert found.contradicted
    other = da.accounting.gaussian(mu=5.0, delta=1e-5, relation="add-remove")
    with pytest.raises(da.InputError, match="made for another claim"):
        estimators.judge_stream([], other, relation="add-remove", state=state)
    with pytest.raises(da.InputError, match="pairs"):
        estimators.judge_stream([1.0], claim, relation="add-remove")
    with pytest.raises(da.NotComparable):
        estimators.judge_stream([], claim, relation="label")
    for runs in ([], stream(1, 30.0, 18)):
        few = estimators.judge_stream(runs, claim, relation="add-remove")
        assert few.outcome is da.Outcome.UNINFORMATIVE, "not even a won bet each time would have done"
    bare = da.UpperBound(epsilon=8.0, delta=1e-5, relation="add-remove")
    assert estimators.judge_stream(stream(1, 30.0, 60), bare, relation="add-remove").outcome is da.Outcome.UNINFORMATIVE
    assert estimators.judge_stream(stream(2, 0.5, 600), claim, relation="add-remove").outcome is da.Outcome.CONSISTENT


# theory:sequential#claim-stream
def test_bets_against_a_curve_have_no_positive_mean():
    """At its least favourable pair of worlds, every tangent of the claim: p1 - e^eps p0 - delta is at most 0."""
    claim = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    state = ClaimStream(claim)
    for world, score in stream(3, 2.0, 400):
        state.update(world, score)
        if state._plan is not None:
            threshold, upward, stake, grow, delta = state._plan
            worlds = [1.0 - special.ndtr(threshold - mean) for mean in (1.0, 0.0)]
            hit, miss = worlds if upward else (1.0 - worlds[1], 1.0 - worlds[0])
            assert hit - grow * miss - delta <= 1e-12
            assert 0.0 < stake * (2.0 * grow + delta) < 1.0


def test_wealth_of_one_run_by_hand():
    """A won bet pays 2, a lost one costs 2 e^epsilon, and every bet delta, hit or not."""
    grow = np.exp(_grid())
    stake = 0.2 / grow
    for upward in (True, False):
        plan = (np.zeros(grow.size), stake, np.full(grow.size, upward))
        for world, score in ((True, 1.0), (False, 1.0), (True, -1.0), (False, -1.0)):
            state = StreamState(delta=0.1, plan=plan)
            state.update(world, score)
            hit = (score > 0) == upward
            payoff = 0.0 if not hit else 2.0 if world == upward else -2.0 * grow
            np.testing.assert_allclose(state.log_wealth, np.log1p(stake * (payoff - 0.1)), rtol=1e-12)
            np.testing.assert_array_equal(state.best, np.maximum(0.0, state.log_wealth))


def test_p_value_of_a_stream_between_grid_points():
    """Between two points of the grid it is that of the larger epsilon, which is harder to refute."""
    bound = estimators.epsilon_from_stream(stream(1, 2.0, 300), delta=0.0, relation="add-remove")
    assert bound.p_value(0.505) == bound.p_value(0.51) != bound.p_value(0.50)
    assert bound.p_value(1e9) == 1.0


def test_wealth_against_a_claim_by_hand():
    claim = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    for upward in (True, False):
        for world, score in ((True, 1.0), (False, 1.0), (True, -1.0), (False, -1.0)):
            state = ClaimStream(claim)
            state._plan = (0.0, upward, 0.1, 3.0, 0.05)  # threshold, direction, stake, e^epsilon, delta
            state.update(world, score)
            hit = (score > 0) == upward
            payoff = 0.0 if not hit else 2.0 if world == upward else -6.0
            assert state.log_wealth == pytest.approx(np.log1p(0.1 * (payoff - 0.05)))
            assert state.best == max(0.0, state.log_wealth)
