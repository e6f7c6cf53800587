"""Where cuts and guesses come from, by hand and by naive twins: counts that no simulation would miss by one."""

import math

import numpy as np
import pytest
from scipy import stats

from dpaudit import CanaryScores, InputError, MemberScores, RunScores
from dpaudit.estimators import thresholds
from dpaudit.estimators.thresholds import Cut, Fixed, HeldOut, RankGrid


def runs(present, absent, **more):
    return RunScores(present=present, absent=absent, relation="add-remove", **more)


def cuts(strategy, evidence):
    return list(thresholds.cuts_from_runs(strategy, evidence, name="a test", objective=lambda cut: 0.0).cuts)


def test_cut_at_a_rank_is_the_next_null_score():
    """Rank k: k null runs lie above the threshold, which is the (k + 1)-th largest of them."""
    evidence = runs([6.5, 7.5, 8.5, 9.5], np.arange(10.0))
    assert cuts(RankGrid((0, 2, 9)), evidence) == [Cut(0, 10, 3, 4), Cut(2, 10, 1, 4), Cut(9, 10, 0, 4)]
    assert cuts(Fixed(fraction=0.2), evidence) == [Cut(2, 10, 1, 4)]


def test_cuts_at_ranks_against_a_naive_twin(rng):
    evidence = runs(rng.normal(0.5, 1, 40), rng.normal(0, 1, 30))
    for cut in cuts(RankGrid(tuple(range(30))), evidence):
        threshold = max(t for t in evidence.absent if (evidence.absent > t).sum() == cut.false_positives)
        assert cut == Cut(cut.false_positives, 30, int((evidence.present <= threshold).sum()), 40)


def test_cut_at_a_fixed_score_counts_scores_on_it_as_not_above():
    evidence = runs([1, 2, 2, 3], [0, 1, 2, 2, 5])
    assert cuts(Fixed(score=2.0), evidence) == [Cut(1, 5, 3, 4)]


def test_a_rank_lies_below_the_number_of_null_runs():
    evidence = runs([1.5, 2.5], [0.0, 1.0, 2.0, 3.0])
    assert cuts(RankGrid((3, 4, 9)), evidence) == [Cut(3, 4, 0, 2)]
    with pytest.raises(InputError, match="must lie below the number of null runs"):
        cuts(RankGrid((4,)), evidence)


def test_ties_of_runs_are_a_fair_shuffle():
    """All scores equal: of 1,000 present runs about half, and neither none nor all, are missed at the middle rank."""
    (cut,) = cuts(RankGrid((500,)), runs(np.zeros(1000), np.zeros(1000)))
    assert stats.binom.ppf(1e-9, 1000, 0.5) - 60 < cut.false_negatives < stats.binom.isf(1e-9, 1000, 0.5) + 60


def test_ties_of_other_data_fall_otherwise():
    """One seed, twenty data sets: were the seed the only name of the shuffle, all would miss the same number."""
    missed = [cuts(RankGrid((25,)), runs(np.full(50, v), np.full(50, v)))[0].false_negatives for v in range(20)]
    assert len(set(missed)) > 1


def test_held_out_runs_are_not_tested(rng):
    evidence = runs(rng.normal(1, 1, 50), rng.normal(0, 1, 40))
    (cut,) = cuts(HeldOut(0.2), evidence)
    assert (cut.negatives, cut.positives) == (32, 40)


def test_held_out_canaries_are_not_tested(rng):
    evidence = CanaryScores(scores=np.arange(100.0), included=rng.random(100) < 0.5, relation="label")
    rest, number = thresholds.held_out_canaries(HeldOut(0.2), evidence)
    assert rest.scores.size == np.unique(rest.scores).size == 80
    assert 1 <= number <= 80


def three_points_below(limits):
    """P(U_(1) <= l_1, U_(2) <= l_2, U_(3) <= l_3), by the numbers of three uniforms in each interval."""
    widths, total = np.diff([0.0, *limits]), 0.0
    for a in range(1, 4):
        for b in range(4 - a):
            if a + b >= 2:
                counts = (a, b, 3 - a - b)
                ways = math.factorial(3) / math.prod(math.factorial(k) for k in counts)
                total += ways * math.prod(w**k for w, k in zip(widths, counts, strict=True))
    return total


def test_band_of_three_runs_by_hand():
    def miss(eta):
        return 1.0 - three_points_below([stats.beta.isf(eta, j + 1, 3 - j) for j in range(3)])

    for eta in (0.01, 0.05, 0.2):
        assert thresholds._band_miss(3, eta) == pytest.approx(miss(eta), rel=1e-9)
    assert 0.05 * 0.998 < miss(thresholds.band_level(3, 0.05)) <= 0.05 * (1.0 - 1e-7)


def test_log_odds_are_credited_to_the_features():
    """Highest as a member, lowest as none, and so on; a member guess gets the upper bound, others minus the lower."""
    evidence = MemberScores(scores=[4, 3, 2, 1], member=[1, 0, 1, 0], propensity=np.full(4, 0.5), relation="label")
    lower, upper = np.log([1 / 3, 1 / 4, 1 / 5, 1 / 6]), np.log([2.0, 2.0, 7.0, 8.0])
    found = thresholds.guesses_from_members(evidence, lower, upper)
    assert found.rows.tolist() == [0, 3, 1, 2]
    assert found.correct.tolist() == [True, True, False, False]
    assert np.exp(found.offset) == pytest.approx([2.0, 6.0, 2.0, 5.0])
    assert found.keep == pytest.approx([(1 + 1 / k) / 2 for k in (3, 8, 4, 7)])


def test_guesses_beyond_a_score_are_made_on_the_sides_asked_for():
    shared = {"scores": [5, 4, 3, -4, -5], "included": [1, 0, 1, 0, 0], "relation": "label"}
    for sides, number in (("both", 4), ("included", 2), ("sign", 4)):
        assert thresholds.guesses_beyond(3.5, CanaryScores(**shared, sides=sides)) == number
