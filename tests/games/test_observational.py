"""The observational game: fair coins, one for each unit, true or counterfactual values, and a blind attack beside."""

from dataclasses import replace

import numpy as np
import pytest

import dpaudit as da
from dpaudit import InputError, Relation, attacks, estimators, games, proxies
from dpaudit.calibration._third import ObservedLabels, ObservedNumbers
from dpaudit.data import gaussian_mixture
from dpaudit.evidence import ONE_ROW_A_UNIT


@pytest.fixture(scope="module")
def labels():
    return ObservedLabels(2.0, rows=2000).game(np.random.default_rng(1))


def test_all_rows_are_canaries_and_the_assumptions_are_printed(labels):
    found = labels.play(seed=3)
    assert found.scores.size == 2000
    assert found.relation is Relation.LABEL
    assert found.sides == "sign"
    assert found.assumptions[0].startswith("tau = 0: without the model nobody can tell")
    assert ONE_ROW_A_UNIT in found.assumptions
    bound = estimators.epsilon_from_canaries(found, delta=0.0)
    assert bound.guarantee == "conditional"
    assert 0.5 < bound.epsilon <= 2.0
    shifted = replace(labels, shift=0.001).play(seed=3)
    assert "tau = 0" not in " ".join(shifted.assumptions)
    assert "at most tau = 0.001" in " ".join(estimators.epsilon_from_canaries(shifted, delta=0.0).assumptions)


def test_same_seed_same_evidence_and_coins_are_fair(labels):
    assert labels.play(seed=3) == labels.play(seed=3)
    assert labels.play(seed=3) != labels.play(seed=4)
    coins = labels.coins(7)
    assert abs(coins.mean() - 0.5) < 0.06
    assert not np.array_equal(coins, labels.coins(7, look=1))
    games.verify(labels, seed=7, published=labels.commitment(7))
    assert labels.fingerprint(1) == labels.fingerprint(1) != labels.fingerprint(2)


def test_scores_are_those_of_the_shown_value(labels):
    """Included rows show the true label; of the others about half show the other one, drawn from the proxy."""
    found = labels.play(seed=3)
    ratio = attacks.likelihood_ratio(labels.target.density(labels.values), labels.proxy.density(labels.values))
    assert np.array_equal(found.scores[found.included], ratio[found.included])
    other = attacks.likelihood_ratio(labels.target.density(1 - labels.values), labels.proxy.density(1 - labels.values))
    left = ~found.included
    shows_other = found.scores[left] != ratio[left]
    assert np.array_equal(found.scores[left][shows_other], other[left][shows_other])
    expected = 1.0 - labels.proxy.density(labels.values)[left]
    assert abs(shows_other.mean() - expected.mean()) < 4.0 * np.sqrt(0.25 / left.sum())


@pytest.mark.parametrize("attack", list(attacks.REFERENCE_ATTACKS))
def test_every_attack_finds_the_leak(labels, attack):
    found = replace(labels, attack=attack).play(seed=3)
    assert found.sides == attacks.REFERENCE_ATTACKS[attack].sides
    assert estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 0.2


def test_more_classes_and_sets_of_columns(rng):
    x, labels, law = gaussian_mixture(3000, 6, rng)
    first, second = labels // 3, labels % 3  # two columns, protected together
    codes, names = proxies.encode(first, second)
    assert len(names) == 6
    released = np.where(rng.random(3000) < 0.9, codes, rng.integers(0, 6, 3000))
    likelihood = np.where(np.arange(6) == released[:, None], 0.9 + 0.1 / 6, 0.1 / 6)
    prior = proxies.Categorical(law)
    game = games.Observational(values=codes, proxy=prior, target=proxies.posterior(likelihood, prior), features=x)
    bound = estimators.epsilon_from_canaries(game.play(seed=1), delta=0.0)
    assert 1.5 < bound.epsilon <= np.log((0.9 + 0.1 / 6) / (0.1 / 6))


def test_numbers_with_a_known_truth(rng):
    """Laplace noise on a number cut to [-2, 2]: epsilon 8 is shown in part and never passed."""
    truth = ObservedNumbers(8.0, rows=4000)
    found = [estimators.epsilon_from_canaries(truth.sample(rng), delta=0.0).epsilon for _ in range(5)]
    assert all(1.5 < value <= 8.0 for value in found)
    game = truth.game(rng)
    learnt = proxies.Residuals(game.features[:, 0], rng.normal(size=5000))  # the same proxy from residuals
    again = replace(game, proxy=learnt, target=proxies.NumericPosterior(game.target.likelihood, learnt))
    assert 1.5 < estimators.epsilon_from_canaries(again.play(seed=1), delta=0.0).epsilon <= 8.0
    played = again.play_all(seed=1)
    assert not estimators.refute_proxy(played.blind, confidence=0.999).contradicted
    wrong = replace(game, proxy=proxies.Normal(game.features[:, 0] + 1.0, 1.0))
    assert estimators.refute_proxy(wrong.play_all(seed=1).blind).contradicted


def membership(rng, *, members=1500, moved=0.0, leak=0.95):
    """A model that gives its training records' labels a high probability, and fresh records."""
    features = rng.normal(size=(2 * members, 3))
    features[members:] += moved
    reference = rng.uniform(0.3, 0.9, 2 * members)
    target = np.where(np.arange(2 * members) < members, leak, reference)
    return games.Observational(
        values=np.arange(members),
        proxy=proxies.Fresh(np.arange(members, 2 * members), features[members:]),
        target=proxies.Table(target),
        reference=proxies.Table(reference),
        attack="difficulty",
        features=features[:members],
    )


def test_membership_with_fresh_records_certifies_substitution(rng):
    found = membership(rng).play(seed=1)
    assert found.relation is Relation.SUBSTITUTE
    assert estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 3.0
    quiet = replace(membership(rng), target=proxies.Table(rng.uniform(0.3, 0.9, 3000)))
    assert estimators.epsilon_from_canaries(quiet.play(seed=1), delta=0.0).epsilon < 0.5
    assert da.audit(membership(rng), seed=1).checks["gate"]["passed"] is not False
    assert da.audit(membership(rng, moved=1.0), seed=1).outcome is da.Outcome.BLOCKED
    bare = replace(membership(rng), features=None, feature_names=(), proxy=proxies.Fresh(np.arange(1500, 3000)))
    ungated = da.audit(bare, seed=1)
    assert "No gate" in ungated.checks["gate"]["sentence"]
    assert "not put to any blind test" in ungated.bounds[0].notes[-1]


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
    found = game.play(seed=2)
    assert found.unit == "user"
    assert found.reduced().scores.size == 300
    assert ONE_ROW_A_UNIT not in found.assumptions
    assert all(len(set(found.included[found.group == user])) == 1 for user in range(300))
    canaries, held = replace(game, held_out=0.2).split(4)
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
        target = proxies.Categorical(1.0 / (1.0 + np.exp(-odds)))
        game = games.Observational(values=y, proxy=proxies.Categorical(np.full(3000, 0.5)), target=target)
        over += estimators.epsilon_from_canaries(game.play(seed=seed), delta=0.0).epsilon > 1.0
    assert over > 10


def test_log_ratios_make_given_members(rng):
    game = ObservedLabels(2.0, rows=800, off=0.05, told="ratio").game(rng)
    found = game.play(seed=1)
    assert isinstance(found, da.MemberScores)
    bound = estimators.epsilon_from_members(found, delta=0.0)
    assert 0.0 < bound.epsilon <= 2.0
    assert "the propensities are not over-confident" in bound.assumptions
    uniform = replace(game, log_ratio=0.5).play(seed=1)
    assert np.ptp(uniform.propensity[:, 0]) == 0.0


def test_sample_plays_with_some_units(labels):
    found = replace(labels, sample=500).play(seed=1)
    assert found.scores.size == 500
    assert found.offered == 2000


def test_an_answer_for_one_proxy_is_none_for_another(labels):
    assert replace(labels, held_out=0.1).can_recalibrate
    assert not labels.can_recalibrate
    assert not replace(labels, held_out=0.1, shift=0.01).can_recalibrate
    assert not replace(labels, held_out=0.1, log_ratio=0.1).can_recalibrate


def test_held_out_rows_are_never_canaries(labels):
    game = replace(labels, held_out=0.25)
    canaries, held = game.split(3)
    assert not set(canaries) & set(held)
    assert (canaries.size, held.size) == (1500, 500)
    changed = labels.values.copy()
    changed[canaries] = 1 - changed[canaries]
    before, after = game.recalibrated(3), replace(game, values=changed).recalibrated(3)
    assert np.array_equal(before.proxy.probabilities, after.proxy.probabilities)


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
        ({"held_out": 0.95}, "`held_out` must be in"),
        ({"sample": 0}, "`sample` must be at least 1"),
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
        proxies.Fresh(np.zeros(5))
    with pytest.raises(InputError, match="fresh records only"):
        replace(membership(rng), proxy=proxies.Fresh(np.arange(1499, 2999)), features=None, feature_names=())
    with pytest.raises(InputError, match="must hold every record"):
        replace(membership(rng), target=proxies.Table(np.ones(2000))).play(seed=1)
    assert "no fresh record was trained on" in " ".join(membership(rng).play(seed=1).assumptions)


def test_whole_records_need_a_reference():
    with pytest.raises(InputError, match="`reference` is needed"):
        games.Observational(values=np.arange(3), proxy=proxies.Fresh(np.arange(3, 6)), target=proxies.Table(np.ones(6)))
