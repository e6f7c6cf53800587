"""Vote models: exact under the model, their uncertainty covered, the plug-in estimate seen to over-claim."""

import numpy as np
import pytest
from scipy import stats

from dpaudit import InputError, OutputCounts, estimators, mechanisms, renyi_divergence
from dpaudit.mechanisms.private_prediction import VoteModel
from dpaudit.tradeoff import bernoulli_renyi

LAW = np.array([0.45, 0.25, 0.10, 0.05, 0.05, *[0.02] * 5])
ODD = np.eye(10)[1]
SMALL = np.array([0.6, 0.3, 0.1])


def model(plain, special, teachers=30, sigma=4.0):
    return VoteModel(plain=plain, special=special, teachers=teachers, sigma=sigma, relation="substitute")


def test_leakage_is_that_of_the_multinomial_laws():
    """k = 200, sigma = 25, a teacher that always votes class 1 (from 0): q = .1289, p = .1358, D_2 = 4.27e-4."""
    found = model(LAW * 10_000, ODD * 50, teachers=200, sigma=25.0).leakage()
    plain, moved = (
        mechanisms.multinomial_argmax_probabilities(LAW, teachers=200, sigma=25.0, special=special)
        for special in (None, ODD)
    )
    np.testing.assert_allclose(found.absent[0], plain, rtol=1e-9)
    np.testing.assert_allclose(found.present[0], moved, rtol=1e-12)
    assert plain[1] == pytest.approx(0.1289, abs=5e-5)
    assert moved[1] == pytest.approx(0.1358, abs=5e-5)
    assert bernoulli_renyi(moved[1], plain[1], 2.0) == pytest.approx(4.27e-4, abs=5e-7)
    assert renyi_divergence(moved, plain, orders=2.0)[0] <= renyi_divergence(ODD, LAW, orders=2.0)[0]
    with pytest.raises(InputError, match="share random teachers"):
        found.together(2.0, repeats=2)


def test_two_cuts_of_a_million_answers_are_powerful_and_cover():
    """Event and direction given: the median of 200 is at least 0.6 of the true 2-cut, above it in at most 23."""
    distributions = [
        mechanisms.multinomial_argmax_probabilities(LAW, teachers=200, sigma=25.0, special=odd) for odd in (ODD, None)
    ]
    true = bernoulli_renyi(distributions[0][1], distributions[1][1], 2.0)
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        present, absent = (rng.multinomial(10**6, distribution / distribution.sum()) for distribution in distributions)
        evidence = OutputCounts(present=present, absent=absent, relation="substitute")
        bound = estimators.renyi_from_outputs(evidence, orders=2, event=1, direction="present")
        assert bound.guarantee == "certified"
        found.append(bound.divergences[0])
    assert np.median(found) >= 0.6 * true
    assert sum(value > true for value in found) <= 23


OTHERS = np.array([17, 9, 3])  # 29 other teachers, as they vote


def truth(plain, special, event=1, order=2.0):
    """The 2-cut of one answer, given the other teachers' votes and both distributions of the one teacher."""
    chances = np.array([mechanisms.noisy_argmax_probabilities(OTHERS + vote, sigma=4.0)[event] for vote in np.eye(3)])
    p, q = np.asarray(special) @ chances, np.asarray(plain) @ chances
    return (bernoulli_renyi(p, q, order) if p > q else 0.0), chances


@pytest.mark.parametrize("special", [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.0, 1.0, 0.0]], ids=["none", "some", "sure"])
@pytest.mark.parametrize("sizes", [(40, 40), (2000, 40), (100, 2000)])
def test_bounds_cover_and_plug_ins_do_not(special, sizes, rng):
    """400 games of trainings of one teacher, with the record and without; what the paper plugs in is often above."""
    true, chances = truth(SMALL, special)
    over = {"bound": 0, "plug-in": 0}
    for _ in range(400):
        seen = model(rng.multinomial(sizes[0], SMALL), rng.multinomial(sizes[1], special))
        over["bound"] += seen.bound(others=OTHERS, event=1, orders=2.0).divergences[0] > true * (1 + 1e-9)
        distributions = [votes / votes.sum() @ chances for votes in (seen.special, seen.plain)]
        over["plug-in"] += bernoulli_renyi(*distributions, 2.0) > true * (1 + 1e-9)
    assert over["bound"] <= stats.binom.ppf(1 - 1e-4, 400, 0.05)
    if special[1] < 1.0:
        assert over["plug-in"] > 100


def test_more_trainings_show_more():
    shown = []
    for trainings in (5, 50, 500, 50_000):
        seen = model(SMALL * 10 * trainings, np.array([0, trainings, 0]))
        found = seen.bound(others=OTHERS, event=1, orders=[2.0, 8.0])
        shown.append(found.divergences[0])
        assert found.divergences[0] <= found.divergences[1]
        assert found.guarantee == "conditional"
        assert "all other teachers' votes as they are" in found.assumptions[0].text
    true, _ = truth(SMALL, [0.0, 1.0, 0.0])
    assert shown == sorted(shown)
    assert shown[0] == 0.0
    assert 0.9 * true <= shown[-1] <= true


def test_the_levels_of_all_limits_are_paid_for():
    """Three classes, two worlds, two sides: twelve limits at a twelfth of the error each."""
    seen = model([60, 30, 10], [0, 40, 0])
    _, chances = truth(SMALL, SMALL)
    level = 0.05 / 12
    low = stats.beta.ppf(level, 40, 1)  # of class 1 with the record: 40 of 40
    least = low * chances[1] + (1 - low) * min(chances[0], chances[2])
    lower, upper = (
        np.array([stats.beta.ppf(q, x + (q > 0.5), 100 - x + (q < 0.5)) for x in (60, 30, 10)])
        for q in (level, 1 - level)
    )
    order = np.argsort(-chances)
    distribution, free = lower.copy(), 1 - lower.sum()
    for place in order:
        added = min(free, upper[place] - lower[place])
        distribution[place], free = distribution[place] + added, free - added
    expected = bernoulli_renyi(least, float(distribution @ chances), 2.0)
    assert seen.bound(others=OTHERS, event=1, orders=2.0).divergences[0] == pytest.approx(expected, rel=1e-9)


def test_refusals():
    with pytest.raises(InputError, match="`special` must be counts of votes, at least one"):
        model(SMALL * 10, [0, 0, 0])
    with pytest.raises(InputError, match="`plain` must be counts"):
        model(SMALL, [1, 0, 0])
    with pytest.raises(InputError, match="the 29 votes of the other teachers"):
        model([6, 3, 1], [1, 0, 0]).bound(others=[1, 2, 3], event=1, orders=2)
    with pytest.raises(InputError, match="`sigma` must be"):
        model([6, 3, 1], [1, 0, 0], sigma=-1.0)
    with pytest.raises(InputError, match="`event` must be at most 2"):
        model([6, 3, 1], [1, 0, 0]).bound(others=OTHERS, event=3, orders=2)
