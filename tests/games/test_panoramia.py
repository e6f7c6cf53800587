"""PANORAMIA's game: fair coins over real and generated units, guessers that never saw them, leaks found, none made."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpaudit as da
from dpaudit import InputError, estimators
from dpaudit.fitted.generators import GaussianCopula
from dpaudit.games import Panoramia, commitment, fingerprint
from dpaudit.games.panoramia import divergence_shown
from dpaudit.reporting.html import to_html
from dpaudit.testing import calibration

LINE = {"line": make_pipeline(StandardScaler(), LogisticRegression())}


class Same:
    """The distribution of the rows itself: a generator that is as close as can be."""

    def __init__(self, columns=3):
        self.columns = columns

    def fit(self, x):
        return self

    def sample(self, count, seed=0):
        return np.random.default_rng(seed).normal(size=(count, self.columns))


def people(seed, count=1500):
    return np.random.default_rng(10_000 + seed).normal(size=(count, 3))


def memoriser(rows, share=1.0):
    """A model whose loss is low on (a share of) its own rows."""
    known = {row.tobytes() for row in rows[: int(share * len(rows))]}

    def loss(asked):
        rng = np.random.default_rng(len(asked))
        return np.array([0.0 if row.tobytes() in known else 1.0 for row in asked]) + 0.3 * rng.normal(size=len(asked))

    return loss


def nothing(asked):
    return np.abs(asked[:, 0])


def game(seed, target=nothing, **more):
    rows = people(seed)
    made = {"members": rows, "target": target, "generator": Same(), "classifiers": LINE}
    return Panoramia(**(made | more))


def test_a_model_that_memorises_is_found_and_one_that_does_not_is_not():
    rows = people(1)
    region = estimators.panoramia(game(1, memoriser(rows)).play(seed=1).only)
    assert region.total > 2.0 > region.divergence
    quiet = estimators.panoramia(game(1).play(seed=1).only)
    assert quiet.total < 1.0


def test_coverage_with_a_generator_that_is_the_law():
    """c = 0 and epsilon = 0: the joint region misses within the binomial distribution."""
    missed = 0
    for seed in range(40):
        region = estimators.panoramia(game(seed).play(seed=seed).only)
        missed += region.divergence > 0.0 or region.total > 0.0
    assert missed <= calibration.allowed_over_claims(40, 0.95)


def test_a_mixture_of_the_law_shows_nothing():
    """Rows of a mixture come component by component, and are mixed before they are shared out."""
    missed = 0
    for seed in range(10):
        rows = np.random.default_rng(seed).normal(size=(1500, 3))
        close = Panoramia(members=rows, target=nothing, generator=GaussianMixture(3), classifiers=LINE)
        missed += estimators.panoramia(close.play(seed=seed).only).divergence > 0.5
    assert missed <= 2


def test_a_far_generator_is_seen_by_the_baseline():
    rows = people(2)
    rows[:, 1] = rows[:, 0] ** 2  # no line, no correlation: a copula misses it
    copula = Panoramia(members=rows, target=nothing, generator=GaussianCopula())
    region = estimators.panoramia(copula.play(seed=1).only)
    assert region.divergence > 1.0


def test_parts_do_not_meet_and_coins_are_committed():
    played = game(3)
    first, second, third = played.parts(5)
    assert len({*first, *second, *third}) == first.size + second.size + third.size == 1500
    evidence = played.play(seed=5).only
    assert set(evidence.ids) == set(third)
    assert 0.4 < evidence.included.mean() < 0.6
    assert commitment(played, 5) != commitment(played, 6)
    assert played.play(seed=5).only == evidence
    assert fingerprint(played, 5) != fingerprint(game(3, discard_fraction=0.1), 5)


def test_rows_of_one_person_share_a_coin():
    rows = people(4)
    grouped = game(4, group=np.arange(1500) // 3, unit="person")
    evidence = grouped.play(seed=1).only
    for person in np.unique(evidence.group):
        assert np.unique(evidence.included[evidence.group == person]).size == 1
    assert evidence.reduced().included.size == grouped.parts(1)[2].size
    assert len(rows) == 1500


def test_rows_that_somebody_made():
    made = np.random.default_rng(1).normal(size=(4000, 3))
    played = game(5, generated=made)
    assert played.parts(1)[0].size == 0
    assert estimators.panoramia(played.play(seed=1).only).divergence < 1.0
    with pytest.raises(InputError, match="`generated` must hold at least 1,500 rows"):
        game(5, generated=made[:100]).play(seed=1)


def test_a_helper_learns_from_generated_rows_only():
    seen = []

    def helper(rows, seed):
        seen.append(rows)
        return lambda asked: np.abs(asked).sum(axis=1)

    played = game(6, helper=helper)
    played.play(seed=1)
    members = {row.tobytes() for row in played.members}
    assert len(seen) == 1
    assert not any(row.tobytes() in members for row in seen[0])


def test_poor_samples_are_left_out():
    class Sometimes(Same):
        def sample(self, count, seed=0):
            rows = super().sample(count, seed)
            rows[::4] += 20.0
            return rows

    for poor, left in ((0.0, 0.25), (0.3, 0.0)):
        seen = []

        def helper(rows, _, seen=seen):
            seen.append(rows)
            return nothing

        game(7, generator=Sometimes(), discard_fraction=poor, helper=helper).play(seed=1)
        assert abs((seen[0][:, 0] > 10.0).mean() - left) < 0.05


def test_an_audit_shows_the_learning_curve():
    found = da.audit(game(8, memoriser(people(8))), seed=1, delta=0.0)
    check = found.result("baseline")
    assert check.numbers["rows"] == sorted(check.numbers["rows"])
    assert "validation rows (estimates)" in check.text
    region = found.bounds[0]
    assert region.relation is da.Relation.SUBSTITUTE
    assert any("independent draws of one distribution" in str(one) for one in region.assumptions)
    assert found.plan["generator"].startswith("Same, sha256 ")


def test_an_audit_shows_what_is_left_for_every_divergence():
    found = da.audit(game(8, memoriser(people(8))), seed=1, delta=0.0)
    region, curve = found.bounds[0], found.figures["region"]
    assert curve["divergence"][0] >= region.divergence
    assert curve["epsilon"][0] <= region.total - curve["divergence"][0] + 1e-9
    assert curve["epsilon"] == sorted(curve["epsilon"], reverse=True)
    assert curve["add_remove"] == [value / 2.0 for value in curve["epsilon"]]
    assert found.figures["precision"]["attack"][-1] == found.figures["precision"]["baseline"][-1]
    assert found.figures["learning"]["rows"] == found.result("baseline").numbers["rows"]
    assert "half under add-remove" in str(found)
    assert "estimate, not a bound" in str(found)
    assert "To the left of the dotted line the baseline refutes the assertion" in to_html(found)
    delta = da.audit(game(8, memoriser(people(8))), seed=1, delta=1e-9)
    assert "add_remove" not in delta.figures["region"], "half of (epsilon, delta) is another delta"


def test_a_baseline_that_still_rises_is_a_warning():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(3000, 3))
    rows[:, 1] = np.sin(25.0 * rows[:, 0]) + 0.2 * rng.normal(size=3000)  # a wave that only many rows show

    class Mixed(Same):
        def sample(self, count, seed=0):
            draws = np.random.default_rng(seed)
            return np.stack([column[draws.integers(0, 3000, count)] for column in rows.T], axis=1)

    found = da.audit(Panoramia(members=rows, target=nothing, generator=Mixed()), seed=1, delta=0.0)
    assert found.result("baseline").numbers["rising"]
    assert "over-states what the model leaks" in str(found)
    assert "it still rises" in to_html(found)
    assert "it still rises" not in to_html(da.audit(game(8), seed=1, delta=0.0))


def test_several_targets_share_one_baseline():
    rows = people(1)
    played = game(1).play_targets({"quiet": nothing, "loud": memoriser(rows)}, seed=1)
    assert np.array_equal(played["quiet"].only.baseline, played["loud"].only.baseline)
    assert played["loud"].only == game(1, memoriser(rows)).play(seed=1).only
    regions = {name: estimators.panoramia(one.only) for name, one in played.items()}
    assert regions["loud"].total > 2.0 > regions["quiet"].total


def test_a_view_is_what_both_guessers_see():
    asked = []

    def view(rows, label, seed):
        asked.append((len(rows), seed))
        return rows[:, :1], lambda others: others[:, :1]

    rows = people(2)
    rows[:, 2] += 9.0  # far from what is generated, in a column that the view leaves out
    blind = game(2, members=rows, view=view).play(seed=1).only
    assert estimators.panoramia(blind).divergence < 0.5
    assert estimators.panoramia(game(2, members=rows).play(seed=1).only).divergence > 2.0
    assert len(asked) == 4, "three parts for the learning curve, and all of them"
    assert len({seed for _, seed in asked}) == 1


def test_real_non_members_and_the_loss_alone():
    rows, others = people(3), people(77, count=3000)
    played = game(3, memoriser(rows))
    real = estimators.panoramia(played.with_real(others).play(seed=1).only, asserted_divergence=0.0).epsilon()
    assert real.epsilon > 2.0
    coins = played.one_run(others, seed=1)
    assert coins.relation is da.Relation.SUBSTITUTE
    assert coins.included.size == played.parts(1)[2].size
    assert estimators.epsilon_from_canaries(coins, delta=0.0).epsilon > 2.0
    quiet = game(3).one_run(others, seed=1)
    assert estimators.epsilon_from_canaries(quiet, delta=0.0).epsilon < 0.5
    grouped = game(3, group=np.arange(1500) // 3)
    for compared in (grouped.with_real, lambda rows: grouped.one_run(rows, seed=1)):
        with pytest.raises(InputError, match="share units"):
            compared(others)


def test_a_model_that_does_not_help_on_held_rows_is_not_listened_to():
    """Then the attack is the baseline: a model that leaks nothing shows nothing, except for chance."""
    played = [game(seed, lambda rows: np.random.default_rng(len(rows)).normal(size=len(rows))) for seed in range(20)]
    found = [one.play(seed=seed) for seed, one in enumerate(played)]
    unheard = [np.array_equal(one.only.attack, one.only.baseline) for one in found]
    assert sum(unheard) >= 17
    always = game(1, played[1].target, min_gain=None).play(seed=1)
    assert "did not help" not in always.result("baseline").numbers["attack"]
    assert not np.array_equal(always.only.attack, always.only.baseline)
    told = da.audit(played[unheard.index(True)], seed=unheard.index(True), delta=0.0)
    assert "The attack is the baseline: what the model says did not help on held rows." in str(told)
    assert all(
        ("did not help" in one.result("baseline").numbers["attack"]) == same
        for one, same in zip(found, unheard, strict=True)
    )
    rows = people(1)
    assert "did not help" not in game(1, memoriser(rows, share=0.2)).play(seed=1).result("baseline").numbers["attack"]


def test_less_to_learn_from_leaves_the_audit_as_it_is():
    less, all_of_it = game(4, train_fraction=0.25).play(seed=1), game(4).play(seed=1)
    assert np.array_equal(less.only.included, all_of_it.only.included)
    seen = [one.result("baseline").numbers["rows"][-1] for one in (less, all_of_it)]
    assert seen[0] < 0.3 * seen[1]


def test_filtered_rows_are_independent_draws_still():
    """A threshold, not a ranking: one row that stays says nothing of the others."""

    class Counted(Same):
        asked = 0

        def sample(self, count, seed=0):
            Counted.asked = count
            return super().sample(count, seed)

    played = game(5, generator=Counted(), discard_fraction=0.2).play(seed=1)
    assert played.result("baseline").numbers["left_out"] == 0.2
    assert Counted.asked > 1.2 * 900 + 2 * 600, "rows of their own for the classifier and for its threshold"


def test_ties_of_held_rows_favour_nobody():
    label = np.repeat([1, 0], 500)
    assert divergence_shown(np.zeros(1000), label) == 0.0
    assert divergence_shown(label.astype(float), label) > 4.0


def test_the_record_can_be_read_back(tmp_path):
    found = da.audit(game(9), seed=1, delta=0.0)
    assert da.load_audit(found.save(tmp_path / "found.json")).to_dict() == found.to_dict()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target": 3}, "`target` must be a function of rows"),
        ({"helper": 3}, "`helper` must be a function"),
        ({"view": 3}, "`view` must be a function"),
        ({"train_fraction": 0.0}, "`train_fraction` must be"),
        ({"shares": (0.5, 0.6, 0.2)}, "three that add up to 1"),
        ({"shares": (0.5, 0.5)}, "three that add up to 1"),
        ({"discard_fraction": 1.5}, "`discard_fraction` must be"),
        ({"generated": np.zeros((5, 2))}, "must have 3 columns"),
        ({"members": [["a"]]}, "`members` must be numbers"),
        ({"group": [1, 2]}, "length"),
    ],
)
def test_refusals(how, message):
    with pytest.raises(InputError, match=message):
        game(1, **how)


def test_refusals_in_play():
    with pytest.raises(InputError, match="parts of ten records, got 20"):
        game(1, members=people(1, 20)).play(seed=1)
    with pytest.raises(InputError, match="`target` must say finite numbers"):
        game(1, target=lambda rows: np.full(len(rows), np.nan)).play(seed=1)
    with pytest.raises(InputError, match="each with `predict_proba`"):
        game(1, classifiers={"none": object()}).play(seed=1)
    with pytest.raises(InputError, match="`discard_fraction` needs a generator"):
        game(1, generated=np.zeros((9000, 3)), discard_fraction=0.1).play(seed=1)
