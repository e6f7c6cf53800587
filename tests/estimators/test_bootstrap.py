"""The bootstrap of a bound over resamples of the propensity model: an estimate, the same from any number of workers."""

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import MemberScores, estimators
from dpaudit.estimators.thresholds import Fixed
from dpaudit.execution import Execution
from dpaudit.fitted.propensity import Logistic
from dpaudit.games import ZeroRun

ONE = Execution(workers=1)
POINT, WIDE = (
    MemberScores(scores=np.arange(600.0), member=np.arange(600) % 2 == 0, propensity=propensity, relation="substitute")
    for propensity in (np.full(600, 0.5), np.tile([0.4, 0.6], (600, 1)))
)


def shifted(seed, n=1500, columns=3):
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    x = rng.normal(size=(n, columns))
    x[:, 0] += np.where(member, 0.6, -0.6)
    return ZeroRun(
        scores=1.5 * member + rng.normal(size=n) + 0.5 * x[:, 0], member=member, features=x, log_odds_error=0.0
    )


def test_it_is_the_lower_quantile_of_whole_bounds():
    game = shifted(1, n=800)
    evidence = game.play(seed=2).only
    blocks = list(game.resampled(seed=2, resamples=40))
    for parameter, delta in (("epsilon", 1e-5), ("mu", None)):
        found = estimators.bootstrapped_from_members(
            evidence, blocks, parameter=parameter, delta=delta, confidence=0.9, execution=ONE
        )
        naive = []
        for line in np.concatenate(blocks):
            other = MemberScores(
                scores=evidence.scores, member=evidence.member, propensity=special.expit(line), relation="substitute"
            )
            at = {"confidence": 0.95, "delta": delta}
            one = estimators.mu_from_members if parameter == "mu" else estimators.epsilon_from_members
            naive.append(one(other, **at).theta)
        np.testing.assert_allclose(found.values, naive, atol=1e-12)
        assert found.bound.theta == pytest.approx(min(found.plain, sorted(naive)[1]))  # 0.05 of 40, the lower
        assert found.bound.guarantee == "estimate"
        assert found.bound.theta <= found.plain
        assert found.bound.parameter == parameter
        assert "estimate" in str(found.bound)


def test_any_number_of_workers():
    game = shifted(3, n=600)
    how = {"confidence": 0.9, "guesses": Fixed(fraction=0.2)}
    found = [
        estimators.bootstrapped_from_members(
            game.play(seed=1).only, game.resampled(seed=1, resamples=40), **how, execution=Execution(workers=workers)
        )
        for workers in (1, 2)
    ]
    assert np.array_equal(found[0].values, found[1].values)
    assert found[0].bound == found[1].bound


def test_fewer_rows_to_fit_on_cost_more():
    """The same audited rows; a propensity model of a twentieth of the rows is less certain, and the bounds spread."""
    game = shifted(4, n=3000, columns=10)
    evidence = game.play(seed=1).only
    held, _ = game.parts(1)
    spread = []
    for rows in (held, held[::20]):
        blocks = Logistic().resampled(
            game.features[rows], game.member[rows], game.features[evidence.ids], resamples=60, seed=1
        )
        how = {"parameter": "epsilon", "delta": 0.0, "confidence": 0.9, "guesses": Fixed(fraction=1.0)}
        spread.append(estimators.bootstrapped_from_members(evidence, blocks, **how, execution=ONE).values.std())
    assert spread[1] > 1.5 * spread[0]


@pytest.mark.parametrize(
    ("how", "blocks", "message"),
    [
        ({"evidence": WIDE}, [np.zeros((50, 600))], "must have one propensity a row"),
        ({}, [], "at least one resample, got none"),
        ({}, [np.zeros((5, 600))], r"at least 40 resamples for a quantile of 0.025, got 5"),
        ({}, [np.zeros((50, 7))], r"blocks \(resamples, 600 rows\) of numbers, got shape \(50, 7\)"),
        ({"parameter": "epsilon"}, [np.zeros((50, 600))], "`delta` is needed"),
        ({"parameter": "tau"}, [np.zeros((50, 600))], "`parameter` must be one of"),
        ({"share": 1.0}, [np.zeros((50, 600))], "`share` must be"),
    ],
)
def test_refusals(how, blocks, message):
    how = {"evidence": POINT, **how}
    with pytest.raises(da.InputError, match=message):
        estimators.bootstrapped_from_members(how.pop("evidence"), blocks, **how, execution=ONE)
