"""Zero-run: valid where the propensities are, blocked where a blind baseline beats them, rows of one person as one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import InputError, estimators
from dpaudit.fitted.propensity import Boosted, Logistic
from dpaudit.games import ZeroRun, commitment, fingerprint


def rows(seed, n=3000, apart=1.5, epsilon=0.0, columns=4, pull=0.5):
    """Members differ by `apart` along column 0; the score is randomised response about membership plus a pull of it."""
    rng = np.random.default_rng(seed)
    member = np.arange(n) < n // 2
    x = rng.normal(size=(n, columns))
    x[:, 0] += np.where(member, apart / 2.0, -apart / 2.0)
    told = rng.random(n) < special.expit(epsilon)
    signal = np.where(told, np.where(member, 1.0, -1.0), np.where(member, -1.0, 1.0)) if epsilon else rng.normal(size=n)
    return 3.0 * signal + pull * x[:, 0] + 0.1 * rng.normal(size=n), member, x


def bound(game, seed, **how):
    return estimators.epsilon_from_members(game.play(seed=seed).only, delta=0.0, **how).epsilon


@pytest.mark.parametrize(("adversary", "epsilon", "columns"), [("aware", 1.0, 4), ("unaware", 0.0, 40)])
def test_coverage_under_shift(adversary, epsilon, columns):
    """Fitted propensities, right model: over-claims within the allowance; without any, or with those of a model of
    many columns taken as exact, the audit lies."""
    over, exact, naive = 0, 0, 0
    games = 30
    for seed in range(games):
        scores, member, x = rows(seed, n=2000, epsilon=epsilon, pull=2.0, columns=columns)
        game = ZeroRun(scores=scores, member=member, features=x, adversary=adversary)
        over += bound(game, seed) > epsilon
        exact += bound(replace(game, log_odds_error=0.0), seed) > epsilon
        wrong = ZeroRun(scores=scores, member=member, propensity=np.full(member.size, 0.5), adversary="unaware")
        naive += bound(wrong, seed) > epsilon
    assert over <= 2
    assert naive > games // 2
    assert columns < 40 or exact > 4


def test_known_propensities_are_those_of_the_rows():
    """Four of five rows are members: what is known of them is taken to groups of equal size; nothing leaks."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=4000)
        rates = special.expit(1.4 + x)
        member = rng.random(4000) < rates
        for adversary in ("aware", "unaware"):
            game = ZeroRun(scores=x + rng.normal(size=4000), member=member, propensity=rates, adversary=adversary)
            assert bound(game, seed) == 0.0
    with pytest.raises(InputError, match=r"about the number of members: it says 2,000 of 4,000"):
        ZeroRun(scores=x, member=member, propensity=np.full(4000, 0.5))


def test_cross_fitting_leaves_the_aware_adversary_its_slope():
    scores, member, x = rows(13, n=1000, pull=3.0)
    game = ZeroRun(scores=scores, member=member, features=x, cross_fit=True)
    evidence = game.play(seed=1).only
    assert game.parts(1)[0].size == 200
    assert not np.allclose(evidence.scores, scores[evidence.ids])


def test_a_sample_keeps_the_numbers_of_its_rows(tmp_path):
    scores, member, x = rows(14, n=600)
    table = tmp_path / "rows.csv"
    lines = ["member,score,a", *(f"{int(m)},{s},{a}" for m, s, a in zip(member, scores, x[:, 0], strict=True))]
    table.write_text("\n".join(lines))
    evidence = ZeroRun.from_table(str(table), sample=300, log_odds_error=0.0, seed=2).play(seed=2).only
    assert evidence.ids.max() > 300
    assert np.array_equal(evidence.member, member[evidence.ids])


def test_an_aware_adversary_finds_the_leak_under_shift():
    found = {}
    for adversary in ("aware", "unaware"):
        shown = []
        for seed in range(5):
            scores, member, x = rows(seed, n=6000, apart=2.0, epsilon=2.0, pull=4.0)
            shown.append(bound(ZeroRun(scores=scores, member=member, features=x, adversary=adversary), seed))
        found[adversary] = np.median(shown)
    assert 1.2 < found["aware"] <= 2.0
    assert found["unaware"] < found["aware"]


def test_held_rows_are_not_audited_and_coins_are_fair():
    scores, member, x = rows(1)
    game = ZeroRun(scores=scores, member=member, features=x, fit_fraction=0.4, trim=0.0, log_odds_error=0.0)
    held, audited = game.parts(7)
    assert not set(held) & set(audited)
    assert held.size == 1200
    assert np.unique(audited).size == audited.size
    evidence = game.play(seed=7).only
    assert np.array_equal(evidence.ids, audited)
    assert np.array_equal(evidence.member, member[audited])
    assert np.array_equal(evidence.member, game.coins(7))
    assert evidence.relation is da.Relation.SUBSTITUTE
    changed = np.where(np.isin(np.arange(3000), audited), ~member, member)  # audited bits do not reach the model
    same = Logistic().fit(x[held], changed[held], seed=7).log_odds(x[audited])
    np.testing.assert_allclose(special.logit(evidence.propensity[:, 0]), same)
    assert game.play(seed=7).only == evidence
    assert game.play(seed=8).only != evidence
    assert commitment(game, 7) != commitment(game, 8)
    assert fingerprint(game, 7) != fingerprint(ZeroRun(scores=scores, member=member, features=x, fit_fraction=0.3), 7)


def test_coins_are_no_fixed_number():
    scores, member, x = rows(2, n=400)
    counts = {int(ZeroRun(scores=scores, member=member, features=x).coins(seed).sum()) for seed in range(10)}
    assert len(counts) > 3


def test_the_slope_is_learnt_within_groups_on_held_rows():
    scores, member, x = rows(3, n=20_000, pull=2.0, apart=1.5, epsilon=1.0)
    game = ZeroRun(scores=scores, member=member, features=x, log_odds_error=0.0)
    evidence = game.play(seed=1).only
    left = evidence.scores - scores[evidence.ids]
    odds = special.logit(evidence.propensity[:, 0])
    slope = np.polyfit(odds, left, 1)[0]
    assert slope == pytest.approx(-2.0 / 1.5, abs=0.1)  # the pull, and nothing of the leak


def test_a_split_needs_no_propensity():
    scores, member, _ = rows(4, apart=0.0, epsilon=3.0)
    game = ZeroRun(scores=scores, member=member, origin="split")
    evidence = game.play(seed=1).only
    assert evidence.assignment == "split"
    found = da.audit(game, seed=1, delta=0.0)
    assert 1.5 < found.bounds[0].epsilon <= 3.0
    assert found.result("blind-members") is None


def test_add_remove_keeps_every_row():
    scores, member, x = rows(5)
    member = np.random.default_rng(5).permutation(member)
    known = np.full(member.size, 0.5)
    game = ZeroRun(scores=scores, member=member, propensity=known, relation="add-remove", adversary="unaware")
    evidence = game.play(seed=1).only
    assert evidence.scores.size == member.size
    assert evidence.relation is da.Relation.ADD_REMOVE
    with pytest.raises(InputError, match="add-remove needs known propensities"):
        ZeroRun(scores=scores, member=member, features=x, relation="add-remove")


def test_rows_of_one_person_are_one():
    scores, member, x = rows(6, n=1000)
    people = np.repeat(np.arange(500), 2)
    game = ZeroRun(scores=scores, member=member, features=x, group=people, unit="person")
    assert len(game.units) == 500
    np.testing.assert_allclose(game.units.features, x.reshape(500, 2, -1).mean(axis=1))
    assert game.play(seed=1).only.unit == "person"
    mixed = ZeroRun(scores=scores, member=member, features=x, group=np.arange(1000) % 500, unit="person")
    with pytest.raises(InputError, match="the same for all rows of one unit"):
        mixed.play(seed=1)


def test_an_aware_adversary_leaves_extreme_rows_alone():
    """By the features alone; the other guesses are the same. Where nothing would be left it abstains from nothing."""
    scores, member, x = rows(12, apart=3.0)
    every, some = (
        ZeroRun(scores=scores, member=member, features=x, log_odds_error=0.0, **how).play(seed=1).only
        for how in ({"trim": 0.0}, {})
    )
    rates = every.propensity[:, 0]
    left = np.minimum(rates, 1.0 - rates) >= 0.02
    assert 0 < (~left).sum() < left.size
    assert np.array_equal(some.ids, every.ids[left])
    assert np.array_equal(some.scores, every.scores[left])
    told = np.column_stack([x, 100.0 * member])
    assert ZeroRun(scores=scores, member=member, features=told).play(seed=1).only.scores.size > 1000
    plain = ZeroRun(scores=scores, member=member, features=x, adversary="unaware").play(seed=1).only
    assert plain.scores.size == every.scores.size


def test_limits_are_widened_and_clipped():
    scores, member, x = rows(7, apart=3.0)
    plain, wide, cut = (
        ZeroRun(scores=scores, member=member, features=x, trim=0.0, **how).play(seed=1).only.propensity
        for how in ({"log_odds_error": 0.0}, {"log_odds_error": 0.3}, {"log_odds_error": 0.0, "clip": 0.1})
    )
    np.testing.assert_allclose(special.logit(wide) - special.logit(plain), [[-0.3, 0.3]] * len(plain), atol=1e-9)
    assert np.all(cut[plain[:, 0] < 0.1] == [0.0, 0.1])  # nothing for a guess that agrees, the edge's for another
    assert np.all(cut[plain[:, 0] > 0.9] == [0.9, 1.0])


def test_resampled_log_odds_are_those_of_the_audited_rows():
    scores, member, x = rows(8, n=600)
    game = ZeroRun(scores=scores, member=member, features=x, log_odds_error=0.0)
    found = np.concatenate(list(game.resampled(seed=3, resamples=20)))
    own = special.logit(game.play(seed=3).only.propensity[:, 0])
    assert found.shape == (20, own.size)
    assert np.abs(found.mean(axis=0) - own).mean() < 0.2
    with pytest.raises(InputError, match="fitted on held rows"):
        ZeroRun(scores=scores, member=member, propensity=np.full(600, 0.5)).resampled(seed=1)


# ---------------------------------------------------------------------------------------------------------- as an audit


def test_an_audit_says_what_it_rests_on():
    scores, member, x = rows(9, n=6000, epsilon=3.0)
    game = ZeroRun(scores=scores, member=member, features=x, origin="later", log_odds_error=0.2)
    found = da.audit(game, seed=1, delta=0.0)
    assert found.result("blind-members").outcome == "passed"
    assert 0.7 < found.result("overlap").numbers["auc"] < 0.95
    epsilon = found.bounds[0]
    assert 1.0 < epsilon.epsilon <= 3.0
    assert epsilon.guarantee == "conditional"
    assert any("follows the propensity model (L2 logistic regression" in str(one) for one in epsilon.assumptions)
    sensitivity = found.result("sensitivity").numbers
    assert sensitivity["epsilon"][0] == pytest.approx(epsilon.epsilon, abs=1e-6)
    assert list(sensitivity["epsilon"]) == sorted(sensitivity["epsilon"], reverse=True)
    at = {"delta": 0.0}
    evidence = found.observed[0]
    wide = estimators.epsilon_from_members(evidence, log_odds_error=sensitivity["largest"] + 0.01, **at)
    near = estimators.epsilon_from_members(evidence, log_odds_error=sensitivity["largest"], **at)
    assert wide.epsilon == 0.0 <= near.epsilon
    assert found.plan["propensity"].startswith("L2 logistic")


def test_a_propensity_model_that_misses_the_shift_is_refuted():
    """The groups differ by the square of a column, which a line cannot see: blocked; trees see it."""
    rng = np.random.default_rng(10)
    member = np.arange(8000) < 4000
    x = rng.normal(size=(8000, 3))
    x[member, 0] *= 2.0
    scores = np.abs(x[:, 0]) + rng.normal(size=8000)
    blind = ZeroRun(scores=scores, member=member, features=x)
    assert bound(blind, 1) > 0.0  # would be a lie
    found = da.audit(blind, seed=1, delta=0.0)
    assert found.verdict.outcome is da.Outcome.WITHHELD
    assert not found.bounds
    assert any("Boosted" in step.text for step in found.next_steps)
    trees = ZeroRun(scores=scores, member=member, features=x, propensity=Boosted(), log_odds_error=0.5)
    mended = da.audit(trees, seed=1, delta=0.0)
    assert mended.verdict.outcome is not da.Outcome.WITHHELD
    assert mended.bounds[0].epsilon == 0.0


def test_a_revealing_column_is_named():
    scores, member, x = rows(11, epsilon=3.0)
    told = np.column_stack([x, member.astype(float)])
    names = ("a", "b", "c", "d", "migration")
    game = ZeroRun(scores=scores, member=member, features=told, feature_names=names)
    found = da.audit(game, seed=1, delta=0.0)
    assert "migration" in found.result("leaking-features").text
    assert not found.bounds or found.bounds[0].epsilon == 0.0
    without = ZeroRun(scores=scores, member=member, features=x, feature_names=names[:4], log_odds_error=0.3)
    assert da.audit(without, seed=1, delta=0.0).bounds[0].epsilon > 0.5


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"origin": "generated"}, r"generated non-members.*\nhint: .*panoramia"),
        ({"origin": "random"}, "`origin` must be one of"),
        ({}, r"`features` are needed.*\nhint: a random hold-out"),
        ({"features": np.zeros((10, 2)), "fit_fraction": 0.0}, "`fit_fraction` must be a share above 0"),
        ({"features": np.zeros((10, 2)), "adversary": "blind"}, "`adversary` must be one of"),
        ({"features": np.zeros((10, 2)), "feature_names": ("a",)}, "must name 2 columns, got 1"),
        ({"propensity": [0.5] * 9}, r"one number a row or two \(10 rows\)"),
        ({"propensity": [1.5] * 10}, "must lie between 0 and 1"),
        ({"propensity": "logistic"}, "a model with `fit`, or numbers"),
        ({"features": np.zeros((10, 2)), "relation": "label"}, "substitute or add-remove"),
    ],
)
def test_refusals(how, message):
    with pytest.raises(InputError, match=message):
        ZeroRun(scores=np.arange(10.0), member=np.arange(10) < 5, **how)


def test_evidence_alone_says_that_nothing_was_tested():
    scores, member, x = rows(15, n=2000, epsilon=3.0)
    evidence = ZeroRun(scores=scores, member=member, features=x).play(seed=1).only
    found = da.audit(evidence, delta=0.0)
    assert "no check of this audit tested it" in str(found)
    assert found.result("blind-members") is None
