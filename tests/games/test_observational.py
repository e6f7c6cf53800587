"""The observational game: fair coins, one for each unit, true or counterfactual values, and a blind baseline beside."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import InputError, Relation, attacks, counterfactuals, estimators, execution, games
from dpaudit.evidence import ONE_ROW_A_UNIT
from dpaudit.testing.calibration.members import ObservedLabels, ObservedNumbers
from dpaudit.testing.ground_truth import gaussian_mixture
from tests.conftest import leaky_membership


@pytest.fixture(scope="module")
def labels():
    return ObservedLabels(2.0, rows=2000).game(np.random.default_rng(1))


def test_all_rows_are_canaries_and_the_assumptions_are_printed(labels):
    found = labels.play(seed=3).only
    assert found.scores.size == 2000
    assert found.relation is Relation.LABEL
    assert found.sides == "sign"
    assert found.assumptions[0].id == "counterfactual-right"
    assert str(found.assumptions[0]).startswith("tau = 0: without the model nobody can tell")
    assert ONE_ROW_A_UNIT in found.assumptions
    bound = estimators.epsilon_from_canaries(found, delta=0.0)
    assert bound.guarantee == "conditional"
    assert 0.5 < bound.epsilon <= 2.0
    shifted = replace(labels, shift=0.001).play(seed=3).only
    assert "counterfactual-right" not in {one.id for one in shifted.assumptions}
    keys = {one.key for one in estimators.epsilon_from_canaries(shifted, delta=0.0).assumptions}
    assert "shift(tau=0.001)" in keys


def test_same_seed_same_evidence_and_coins_are_fair(labels):
    assert labels.play(seed=3).only == labels.play(seed=3).only
    assert labels.play(seed=3).only != labels.play(seed=4).only
    coins = labels.coins(7)
    assert abs(coins.mean() - 0.5) < 0.06
    assert not np.array_equal(coins, labels.coins(7, attempt=1))
    games.check_commitment(labels, seed=7, published=games.commitment(labels, 7))
    assert games.fingerprint(labels, 1) == games.fingerprint(labels, 1) != games.fingerprint(labels, 2)


def test_scores_are_those_of_the_shown_value(labels):
    """Included rows show the true label; of the others about half show the other one, drawn from the proxy."""
    found = labels.play(seed=3).only
    ratio = attacks.likelihood_ratio(labels.target.density(labels.values), labels.counterfactual.density(labels.values))
    assert np.array_equal(found.scores[found.included], ratio[found.included])
    other = attacks.likelihood_ratio(
        labels.target.density(1 - labels.values), labels.counterfactual.density(1 - labels.values)
    )
    left = ~found.included
    shows_other = found.scores[left] != ratio[left]
    assert np.array_equal(found.scores[left][shows_other], other[left][shows_other])
    expected = 1.0 - labels.counterfactual.density(labels.values)[left]
    assert abs(shows_other.mean() - expected.mean()) < 4.0 * np.sqrt(0.25 / left.sum())


@pytest.mark.parametrize("attack", list(attacks.REFERENCE_ATTACKS))
def test_every_attack_finds_the_leak(labels, attack):
    found = replace(labels, attack=attack).play(seed=3).only
    assert found.sides == attacks.REFERENCE_ATTACKS[attack].sides
    assert estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 0.2


def test_more_classes_and_sets_of_columns(rng):
    x, labels, distribution = gaussian_mixture(3000, 6, rng)
    first, second = labels // 3, labels % 3  # two columns, protected together
    codes, names = counterfactuals.encode(first, second)
    assert len(names) == 6
    released = np.where(rng.random(3000) < 0.9, codes, rng.integers(0, 6, 3000))
    likelihood = np.where(np.arange(6) == released[:, None], 0.9 + 0.1 / 6, 0.1 / 6)
    prior = counterfactuals.Categorical(distribution)
    game = games.Observational(
        values=codes, counterfactual=prior, target=counterfactuals.posterior(likelihood, prior), features=x
    )
    bound = estimators.epsilon_from_canaries(game.play(seed=1).only, delta=0.0)
    assert 1.5 < bound.epsilon <= np.log((0.9 + 0.1 / 6) / (0.1 / 6))


def test_numbers_with_a_known_truth(rng):
    """Laplace noise on a number cut to [-2, 2]: epsilon 8 is shown in part and never passed."""
    truth = ObservedNumbers(8.0, rows=4000)
    found = [estimators.epsilon_from_canaries(truth.sample(rng), delta=0.0).epsilon for _ in range(5)]
    assert all(1.5 < value <= 8.0 for value in found)
    game = truth.game(rng)
    learnt = counterfactuals.Residuals(game.features[:, 0], rng.normal(size=5000))  # the same proxy from residuals
    again = replace(
        game, counterfactual=learnt, target=counterfactuals.NumericPosterior(game.target.likelihood, learnt)
    )
    assert 1.5 < estimators.epsilon_from_canaries(again.play(seed=1).only, delta=0.0).epsilon <= 8.0
    (control,) = again.play(seed=1).controls
    assert estimators.null_p_value(control.parts) > 0.001
    wrong = replace(game, counterfactual=counterfactuals.Normal(game.features[:, 0] + 1.0, 1.0))
    (control,) = wrong.play(seed=1).controls
    assert estimators.refute(control.check, control.parts, **control.numbers).refuted


def membership(rng, **more):
    return leaky_membership(rng, 1500, **more)


def test_membership_with_fresh_records_certifies_substitution(rng):
    found = membership(rng).play(seed=1).only
    assert found.relation is Relation.SUBSTITUTE
    assert estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 3.0
    quiet = replace(membership(rng), target=counterfactuals.Table(rng.uniform(0.3, 0.9, 3000)))
    assert estimators.epsilon_from_canaries(quiet.play(seed=1).only, delta=0.0).epsilon < 0.5
    assert not da.audit(membership(rng), seed=1).result("blind-values").refuted
    assert da.audit(membership(rng, moved=1.0), seed=1).outcome is da.Outcome.WITHHELD
    bare = replace(
        membership(rng), features=None, feature_names=(), counterfactual=counterfactuals.Fresh(np.arange(1500, 3000))
    )
    ungated = da.audit(bare, seed=1)
    assert ungated.result("blind-values").outcome == "not-run"
    assert "Control not tried" in str(ungated)
    assert "its control was not tried" in str(ungated)


def test_interventional_comparison(rng):
    members, others = rng.normal(1.5, 1.0, 2000), rng.normal(0.0, 1.0, 2000)
    found = games.held_out_membership(members=members, non_members=others, sides="both")
    assert found.relation is Relation.SUBSTITUTE
    assert found.assignment == "coins"
    assert ONE_ROW_A_UNIT in found.assumptions
    assert estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 1.0


def test_rows_of_a_user_share_a_coin(rng):
    truth = ObservedLabels(1.0, rows=900, rows_a_user=3)
    game = truth.game(rng)
    found = game.play(seed=2).only
    assert found.unit == "user"
    assert found.reduced().scores.size == 300
    assert ONE_ROW_A_UNIT not in found.assumptions
    assert all(len(set(found.included[found.group == user])) == 1 for user in range(300))
    canaries, held = replace(game, calibration_fraction=0.2).split(4)
    assert not set(game.group[canaries]) & set(game.group[held])
    assert len(set(game.group[held])) == 60


def test_rows_taken_for_units_over_claim():
    """Three equal labels a person and a coin for each row: the leak is counted three times (DESIGN 3)."""
    rng = np.random.default_rng(5)
    over = 0
    for seed in range(20):
        _, labels, _ = gaussian_mixture(1000, 2, rng)
        y = np.repeat(labels, 3)
        keep = 1.0 / (1.0 + np.exp(-1.0))
        released = np.where(rng.random(3000) < keep, y, 1 - y).reshape(-1, 3).sum(axis=1).repeat(3)
        odds = (2 * released - 3) * 1.0  # all three releases speak about each row
        target = counterfactuals.Categorical(1.0 / (1.0 + np.exp(-odds)))
        game = games.Observational(
            values=y, counterfactual=counterfactuals.Categorical(np.full(3000, 0.5)), target=target
        )
        over += estimators.epsilon_from_canaries(game.play(seed=seed).only, delta=0.0).epsilon > 1.0
    assert over > 10


# theory:observational#log-ratio
def test_log_ratios_make_given_members(rng):
    game = ObservedLabels(2.0, rows=800, off=0.05, told="ratio").game(rng)
    found = game.play(seed=1).only
    assert isinstance(found, da.MemberScores)
    bound = estimators.epsilon_from_members(found, delta=0.0)
    assert 0.0 < bound.epsilon <= 2.0
    assert "propensities" in {one.id for one in bound.assumptions}
    assert "log-ratio" in {one.id for one in bound.assumptions}
    uniform = replace(game, log_ratio=0.5).play(seed=1).only
    assert np.ptp(uniform.propensity[:, 0]) == 0.0


def test_sample_plays_with_some_units(labels):
    found = replace(labels, sample=500).play(seed=1).only
    assert found.scores.size == 500
    assert found.population == 2000


def test_an_answer_for_one_proxy_is_none_for_another(labels):
    assert replace(labels, calibration_fraction=0.1).can_recalibrate
    assert not labels.can_recalibrate
    assert not replace(labels, calibration_fraction=0.1, shift=0.01).can_recalibrate
    assert not replace(labels, calibration_fraction=0.1, log_ratio=0.1).can_recalibrate


def test_held_out_rows_are_never_canaries(labels):
    game = replace(labels, calibration_fraction=0.25)
    canaries, held = game.split(3)
    assert not set(canaries) & set(held)
    assert (canaries.size, held.size) == (1500, 500)
    changed = labels.values.copy()
    changed[canaries] = 1 - changed[canaries]
    before, after = game.recalibrated(3), replace(game, values=changed).recalibrated(3)
    assert np.array_equal(before.counterfactual.probabilities, after.counterfactual.probabilities)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": np.array([0, 1, 2] * 3)}, "same rows"),
        ({"values": np.full(2000, 2)}, "class numbers 0 to 1"),
        ({"values": np.full(2000, 0.5)}, "class numbers 0 to 1"),
        ({"relation": "substitute"}, "`relation` must be label"),
        ({"attack": "lira"}, "`attack` must be one of"),
        ({"shift": 2.0}, r"`shift` must be in \[0, 1\]"),
        ({"shift": 0.1, "log_ratio": 0.1}, "two forms of one assumption"),
        ({"log_ratio": -1.0}, "`log_ratio` must be non-negative"),
        ({"calibration_fraction": 0.95}, "`calibration_fraction` must be in"),
        ({"sample": 0}, "`sample` must be at least 1"),
        ({"plays": 0}, "`plays` must be at least 1"),
        ({"sample": 1}, "at least two units"),
        ({"features": np.zeros((3, 2)), "feature_names": ()}, "`features` must be a numeric matrix"),
        ({"features": np.full((2000, 1), np.nan), "feature_names": ()}, "`features` must be finite"),
        ({"group": np.zeros(3, dtype=int)}, "must have one length"),
        ({"feature_names": ("a",)}, "`feature_names` must name 5 columns"),
    ],
)
def test_bad_input_is_one_sentence(labels, change, words):
    with pytest.raises(InputError, match=words):
        replace(labels, **change).play(seed=1)


def test_fresh_records_are_used_once_and_never_trained_on(rng):
    with pytest.raises(InputError, match="must not hold a fresh record twice"):
        counterfactuals.Fresh(np.zeros(5))
    with pytest.raises(InputError, match="fresh records only"):
        replace(
            membership(rng),
            counterfactual=counterfactuals.Fresh(np.arange(1499, 2999)),
            features=None,
            feature_names=(),
        )
    with pytest.raises(InputError, match="must hold every record"):
        replace(membership(rng), target=counterfactuals.Table(np.ones(2000))).play(seed=1)
    assert "no fresh record was trained on" in " ".join(map(str, membership(rng).play(seed=1).only.assumptions))


def test_whole_records_need_a_reference():
    with pytest.raises(InputError, match="`reference` is needed"):
        games.Observational(
            values=np.arange(3),
            counterfactual=counterfactuals.Fresh(np.arange(3, 6)),
            target=counterfactuals.Table(np.ones(6)),
        )


def test_what_was_answered_for_reaches_the_evidence(labels):
    assert replace(labels, shift=0.01).play(seed=3).only.shift == 0.01
    ratio = np.resize([0.0, 0.4, 1.2], 2000)
    given = replace(labels, log_ratio=ratio).play(seed=3).only
    np.testing.assert_allclose(given.propensity, special.expit(np.stack([-ratio, ratio], axis=1)), rtol=1e-12)


def test_a_second_attempt_tosses_and_draws_anew(labels):
    """Its coins are those of the second attempt, and where both show the proxy's value it was drawn again."""
    first, second = (labels._played(3, attempt).only for attempt in (0, 1))
    assert first.included.tolist() == labels.coins(3).tolist()
    assert second.included.tolist() == labels.coins(3, attempt=1).tolist()
    drawn = ~first.included & ~second.included
    assert drawn.sum() > 400
    assert np.mean(first.scores[drawn] != second.scores[drawn]) > 0.1


# ------------------------------------------------------------------------------------------- the coins alone, and plays


def test_the_coins_alone_give_no_number(labels):
    """tau = 0 is taken on by name, or no number is reported; a refuted proxy withholds it all the same."""
    found = da.audit(labels, seed=3, delta=0.0)
    assert (found.outcome, found.bounds) == (da.Outcome.UNINFORMATIVE, ())
    assert found.result("coins-alone").outcome == "not-run"
    assert found.result("blind-values").outcome == "passed"
    assert "epsilon >=" not in str(found)
    assert [one.id for one in found.assumptions] == ["counterfactual-right"]
    assert "Rows of the same source that the model never saw would test it" in str(found)
    taken = da.audit(labels, seed=3, delta=0.0, accept="counterfactual-right")
    assert taken.bounds[0].value == estimators.epsilon_from_canaries(labels.play(seed=3).only, delta=0.0).epsilon > 0.0
    assert "a control passed, which proves nothing, and another one was not tried" in str(taken)


def test_who_answers_with_a_number_has_nothing_to_accept(labels, rng):
    ratio = ObservedLabels(2.0, rows=800, off=0.05, told="ratio").game(rng)
    for game in (replace(labels, shift=0.001), ratio, membership(rng)):
        found = da.audit(game, seed=3, delta=0.0)
        assert found.result("coins-alone") is None
        assert found.bounds[0].epsilon > 0.0


def test_every_play_tosses_and_draws_anew(labels):
    """The first play is that of a game with one play; the plays are of the same rows, split and model."""
    game = replace(labels, plays=4, calibration_fraction=0.1)
    found = game.play(seed=3)
    assert found.repeats == 4
    assert found.evidence[0] == replace(game, plays=1).play(seed=3).only
    assert replace(game, plays=2).play(seed=3).evidence == found.evidence[:2]
    assert len({one.digest for one in found.evidence}) == 4
    rows, _ = game.split(3)
    for number, one in enumerate(found.evidence):
        assert one.included.tolist() == game.coins(3, play=number)[rows].tolist()
    first, second = found.evidence[:2]
    assert abs(np.mean(first.included != second.included) - 0.5) < 0.06
    drawn = ~first.included & ~second.included
    assert np.mean(first.scores[drawn] != second.scores[drawn]) > 0.1
    again = game.play(seed=3, attempt=1)
    assert len({one.digest for one in (*found.evidence, *again.evidence)}) == 8


def test_purposes_of_coins_and_values_stay(labels):
    """They decide the numbers for ever."""
    game, count = replace(labels, plays=2), 2000
    expected = {
        (0, 0): "coins of observed rows",
        (0, 1): "coins of observed rows, play 2",
        (1, 0): "coins of observed rows, look 2",
        (1, 1): "coins of observed rows, look 2, play 2",
    }
    for (attempt, play), purpose in expected.items():
        assert np.array_equal(game.coins(5, attempt, play), execution.fair_coins(5, purpose, count))


def test_the_control_is_that_of_the_first_play(labels):
    one, three = (replace(labels, plays=count).play(seed=3).controls for count in (1, 3))
    assert len(one) == len(three) == 1
    assert one[0].parts == three[0].parts


# theory:observational#repeated
def test_the_median_of_plays_is_within_the_truth_and_steadier(labels):
    """Five audits of one table: the spread of one toss, and that of the median of eleven."""
    spread = []
    for count in (1, 11):
        game = replace(labels, plays=count)
        found = [da.audit(game, seed=seed, delta=0.0, accept="counterfactual-right") for seed in range(5)]
        values = [audit.bounds[0].epsilon for audit in found]
        assert 0.3 < min(values) <= max(values) <= 2.0
        spread.append(np.std(values))
    assert spread[1] < spread[0]
    last = found[-1]
    assert last.plan["plays"] == last.plan["repeats"] == 11
    assert len(last.evidence) == 11
    curve = last.figures["shift"]["epsilon"]
    assert curve == sorted(curve, reverse=True)
    assert "the median of 11 plays" in last.budget[0]["spent"]
