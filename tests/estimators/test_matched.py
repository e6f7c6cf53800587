"""Bounds from guesses at values beside placebo rows: naive twins, put-back checks, delta, mu and short games."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import dpaudit as da
from dpaudit import MatchedScores, MemberScores, estimators
from dpaudit.estimators import matched
from dpaudit.estimators.matched import AgainstProxy, Forgiven, Matched, forgiven_guesses
from dpaudit.evidence.matched import CELLS, EDGES, cells_of
from dpaudit.tradeoff import Gaussian
from tests.estimators.matched_rows import (
    ALPHA,
    FORMS,
    cell,
    every,
    guesses,
    naive_p_value,
    naive_shares,
    naive_tests,
    one_cell,
    sums_of,
)

# ---------------------------------------------------------------------------------------- cells, ranks and their shares


# theory:placebo#matched
def test_edges_belong_to_the_cell_below():
    assert cells_of(EDGES).tolist() == list(range(CELLS - 1)) == [cell(edge) for edge in EDGES]
    assert cells_of(np.nextafter(EDGES, 1.0)).tolist() == list(range(1, CELLS))
    assert cells_of([1e-9, 1 - 1e-9]).tolist() == [0, 11]


def test_ranks_are_quarters_while_twenty_are_left():
    wanted = {7: [7], 20: [20], 79: [79], 80: [80, 20], 2000: [2000, 500, 125, 31], 330: [330, 82, 20]}
    assert {rows: matched.ranks_of(rows) for rows in wanted} == wanted


NAIVE = {
    "leak": guesses(1),
    "surest placebo rows are right the least": guesses(2, placebo=1200, leak=0.0, slope=-3.0),
    "best values of other cells": guesses(3, own=False),
    "one share": guesses(4, rows=60, placebo=80),
    "few placebo rows": guesses(5, placebo=25),
}


@pytest.mark.parametrize("found", NAIVE.values(), ids=NAIVE)
# theory:placebo#matched
def test_shares_against_loops(found):
    """Of each placebo row the own guess is counted, and only there; at all guesses a like share, at most the cell's."""
    for alpha in (0.05, 0.5):
        ranks, shares = naive_shares(found, alpha=alpha)
        ours = Matched(found, alpha)
        assert (ours.ranks, ours._shares) == (ranks, shares)


# theory:placebo#matched
def test_shares_by_hand():
    """100 rows in a cell, 60 placebo rows there and 10 elsewhere, which serve in it as well."""
    audited = np.repeat([True, False], [100, 80])
    found = MatchedScores(
        scores=np.concatenate([np.arange(100.0), np.arange(80.0) + 0.5]),
        chance=np.repeat([0.5, 0.5, 0.9, 0.5], [100, 60, 10, 10]),
        right=np.zeros(180, dtype=bool),
        audited=audited,
        own=np.repeat([True, False], [170, 10]),
        relation="label",
    )
    ours = Matched(found, ALPHA)
    assert (found.placebo_rows, ours.ranks) == (70, [100, 25])
    assert ours._shares[0] == [0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0], "70 are a like share, 60 are the cell's own"
    law = stats.betabinom(60, 25, 100 - 25 + 1)
    q = ours._shares[1][5]
    assert law.cdf(q - 1) <= 0.005 / 12 < law.cdf(q)
    fewer = replace(found, own=None, chance=np.repeat([0.5, 0.5, 0.9, 0.5], [100, 20, 50, 10]))
    assert Matched(fewer, ALPHA)._shares[0][5] == 30
    more = replace(found, own=None, chance=np.repeat([0.5, 0.9, 0.5], [50, 50, 80]))
    assert Matched(more, ALPHA)._shares[0][5] == 40, "80 placebo rows for 100, so 40 for 50"


@pytest.mark.parametrize("found", NAIVE.values(), ids=NAIVE)
# theory:placebo#matched
def test_matched_against_loops(found):
    """Cells, order, shares, guard, level and what the shares cost, for two errors and with guesses forgiven."""
    for alpha, epsilon, forgiven in ((0.05, 0.0, 0), (0.05, 0.6, 3), (0.2, 0.3, 0)):
        tests = naive_tests(found, epsilon, alpha=alpha, forgiven=forgiven)
        ours = Matched(found, alpha)
        guarded = [max(line[: rank + 1]) for rank, line in enumerate(tests)]
        for rank, worst in enumerate(guarded):
            p_values = [ours._tests(rank, share).p_value(epsilon, forgiven) for share in range(rank + 1)]
            assert max(p_values) == pytest.approx(worst, rel=1e-6)
        several = len(tests) > 1
        wanted = min(1.0, len(tests) * min(guarded) + 0.01 + several * alpha / 10)
        assert ours.p_value(epsilon, Forgiven(forgiven, 0.01)) == pytest.approx(wanted, rel=1e-6)
        assert ours.level(0.01) == pytest.approx((alpha - 0.01 - several * alpha / 10) / len(tests))


def test_the_loops_see_a_guard_and_cells_left_out():
    falling = naive_tests(NAIVE["surest placebo rows are right the least"], 0.0)
    for rank in (1, 2):
        assert 1.0 > falling[rank][0] > 2 * falling[rank][rank] > 0.0, "the larger share is the worse"
    few = Matched(NAIVE["few placebo rows"], ALPHA)
    missing = [size > 0 and share == 0 for size, share in zip(few._audited[0][0], few._shares[0], strict=True)]
    assert any(missing)
    assert few._tests(0, 0).seen == sum(few._audited[0][1][np.logical_not(missing)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
# theory:placebo#either
def test_bounds_put_back(form, delta):
    """The bound is refuted at the level, a slightly larger one is not; the larger p-value of two forms counts."""
    for found in (guesses(1, rows=2000, placebo=1500), guesses(7, margin=0.1)):
        bound = estimators.epsilon_from_matched(found, delta=delta, form=form)
        assert bound.epsilon > 0.1
        assert bound.p_value(bound.epsilon) <= ALPHA + 1e-12
        assert bound.p_value(bound.epsilon + 0.0101) > ALPHA
        assert bound.epsilon <= bound.ceiling


@pytest.mark.parametrize("name", ["leak", "surest placebo rows are right the least"])
def test_the_guard_of_the_bound(name):
    """The bound is where the loops' guarded p-value reaches the level, and not where a test without guard does."""
    found = NAIVE[name] if name == "leak" else guesses(2, placebo=1200, leak=1.0, slope=-1.5)
    bound = estimators.epsilon_from_matched(found, delta=0.0, form="matched").epsilon

    def rejects(epsilon, shares):
        tests = naive_tests(found, epsilon)
        return min(max(line[share] for share in shares(rank)) for rank, line in enumerate(tests)) <= 0.045 / 3

    assert rejects(bound, lambda rank: range(rank + 1))
    assert not rejects(bound + 1e-4, lambda rank: range(rank + 1))
    assert rejects(bound + 1e-4, lambda rank: (rank,)) == (name != "leak")


def test_the_smaller_bound_is_reported():
    for seed, leak, slope in ((1, 1.0, 1.0), (2, 1.0, -1.0), (3, 3.0, 0.3)):
        found = guesses(seed, leak=leak, slope=slope, margin=0.05)
        by = {form: estimators.epsilon_from_matched(found, delta=0.0, form=form) for form in FORMS}
        assert by["either"].epsilon == min(by["matched"].epsilon, by["proxy"].epsilon)
        assert by["either"].ceiling == min(by["matched"].ceiling, by["proxy"].ceiling)
        assert by["either"].p_value(0.5) == max(by["matched"].p_value(0.5), by["proxy"].p_value(0.5))
    assert by["matched"].epsilon != by["proxy"].epsilon


@pytest.mark.parametrize("form", FORMS)
def test_the_number_alone_is_that_of_the_bound(form):
    found = guesses(7, margin=0.1)
    for how in ({}, {"kappa": 0.3}, *([{"tau": 0.001}] if form == "proxy" else [])):
        bound = estimators.epsilon_from_matched(found, delta=1e-6, form=form, confidence=0.9, **how)
        alone = matched.epsilon_alone(found, delta=1e-6, form=form, confidence=0.9, **how)
        assert alone == bound.epsilon > 0.2


def test_words_of_each_form():
    found = guesses(1, rows=2000, placebo=1500, slope=0.0, margin=0.1)
    bounds = {form: estimators.epsilon_from_matched(found, delta=0.0, form=form) for form in FORMS}
    shares, path = "4 shares of the guesses, fixed in advance", bounds["proxy"].selection
    assert path.endswith("numbers of guesses, calibrated as one path")
    assert int(path.split()[0]) == len(AgainstProxy.of_audited(found, ALPHA).path.ranks)
    assert [bounds[form].selection for form in ("matched", "either")] == [shares, f"{shares}; {path}"]
    rests = {form: bound.assumptions[-1].key for form, bound in bounds.items()}
    assert rests == {
        "matched": "no-recognition(kappa=0.1)",
        "proxy": "proxy-right",
        "either": "proxy-or-no-recognition(kappa=0.1)",
    }
    off = estimators.epsilon_from_matched(found, delta=0.0, form="proxy", tau=0.01)
    assert off.assumptions[-1].key == "proxy-off(tau=0.01)"
    assert len({bound.method for bound in bounds.values()}) == 3
    assert {bound.guarantee for bound in bounds.values()} == {"conditional"}
    assert {bound.size for bound in bounds.values()} == {"2,000 rows that were trained on, 1,500 placebo rows"}


def test_a_cell_of_one_table_alone_says_nothing():
    """Its right guesses are left out, and so is what they would show; its rows still count in what a like share is."""
    alone, extra = one_cell(60, 100, 50, 100), np.arange(100) < 50
    more = replace(
        alone,
        scores=np.append(alone.scores, np.zeros(100)),
        chance=np.append(alone.chance, np.where(extra, 0.03, 0.9)),
        right=np.append(alone.right, extra),
        audited=np.append(alone.audited, extra),
        own=None,
    )
    assert Matched(more, ALPHA)._shares[0][5] == 100
    assert Matched(more, ALPHA)._tests(0, 0).p_value(0.2) == pytest.approx(naive_p_value([(60, 100, 50, 100)], 0.2))
    nothing = replace(alone, chance=np.where(alone.audited, 0.5, 0.9))
    assert estimators.epsilon_from_matched(nothing, delta=0.0, form="matched").epsilon == 0.0
    assert Matched(nothing, ALPHA).p_value(0.0, matched.NONE) == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_ties_are_broken_by_the_seed_and_not_by_the_file(form):
    """Rounded, most rows tie; sorted by success either way, the file's order would decide the smaller ranks."""
    whole = guesses(11, rows=400, placebo=300, leak=0.8)
    tied = replace(whole, scores=np.round(whole.scores))
    rng = np.random.default_rng(0)
    orders = [np.argsort(tied.right, kind="stable"), np.argsort(~tied.right, kind="stable"), rng.permutation(700)]
    bounds = [estimators.epsilon_from_matched(every(tied, order), delta=0.0, form=form) for order in orders]
    assert bounds[0] == bounds[1] == bounds[2]
    other = replace(tied, seed=1)
    assert Matched(tied, ALPHA)._audited[1][1].tolist() != Matched(other, ALPHA)._audited[1][1].tolist()
    paths = [AgainstProxy.of_audited(one, ALPHA).path for one in (tied, other)]
    assert paths[0].correct != paths[1].correct
    first, second = (Matched(every(tied, order), ALPHA) for order in orders[:2])
    assert [line.tolist() for line in first._placebo] == [line.tolist() for line in second._placebo]
    assert matched.proxy_p_value(every(tied, orders[0])) == matched.proxy_p_value(every(tied, orders[1]))


# -------------------------------------------------------------------------------------------- what is taken off a bound


# theory:placebo#kappa
def test_kappa_and_margin_are_taken_off():
    found = guesses(1, rows=2000, placebo=1500)
    at = {
        kappa: estimators.epsilon_from_matched(found, delta=0.0, form="matched", kappa=kappa) for kappa in (0, 0.3, 9)
    }
    assert at[0].epsilon > 0.5
    assert at[0.3].epsilon == pytest.approx(at[0].epsilon - 0.3, abs=1e-12)
    assert at[0.3].p_value(0.2) == at[0].p_value(0.5)
    assert at[9].epsilon == 0.0
    margin = estimators.epsilon_from_matched(replace(found, margin=0.3), delta=0.0, form="matched")
    assert margin.epsilon == at[0.3].epsilon
    assert margin.assumptions[-1].key == "no-recognition(kappa=0.3)"
    shown = float(margin.headline().split("epsilon >= ")[1].split(" ")[0])
    assert margin.epsilon - 0.01 < shown <= margin.epsilon


# theory:placebo#tau
def test_tau_is_paid_for():
    found = guesses(1, rows=1000, placebo=800)
    bounds = [
        estimators.epsilon_from_matched(found, delta=0.0, form="proxy", tau=tau) for tau in (0, 0.001, 0.01, 0.05)
    ]
    values = [bound.epsilon for bound in bounds]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 2
    for bound in bounds:
        assert bound.p_value(bound.epsilon) <= ALPHA or bound.epsilon == 0.0
        assert bound.p_value(bound.epsilon + 0.0101) > ALPHA
    for tau, epsilon in ((0.001, 1.0), (0.01, 0.0), (0.01, 2.0)):
        law = stats.binom(1000, math.exp(epsilon) * tau)
        missed = AgainstProxy.of_audited(found, ALPHA, tau)._missed(epsilon)
        assert law.sf(missed) <= ALPHA / 10 < law.sf(missed - 1)
        smallest = min(
            float(sums_of(special.expit(epsilon + path.found.offset[:rank]))[max(0, count - missed) :].sum())
            for path in [AgainstProxy.of_audited(found, ALPHA).path]
            for rank, count in zip(path.ranks, path.correct, strict=True)
        )
        assert AgainstProxy.of_audited(found, ALPHA, tau)._smallest(epsilon, 0) == pytest.approx(smallest, rel=1e-6)
    one = AgainstProxy.of_audited(found, ALPHA, 0.001)
    assert one.p_value(9.0, matched.NONE) == 1.0
    paid = one.p_value(0.0, Forgiven(0, 0.001)) - one.path.crossing(0.0, one._smallest(0.0, 0))
    assert paid == pytest.approx(ALPHA / 10 + 0.001)


# ---------------------------------------------------------------------------------------------------- against the proxy


# theory:placebo#lemma
def test_a_guess_is_right_as_often_as_epsilon_allows_at_most():
    """Three rows of three values, any mechanism: every guess by the output, every order, whatever else is revealed."""
    rng, closest = np.random.default_rng(5), 0.0
    every_table = list(itertools.product(range(3), repeat=3))
    sets = [kept for size in (1, 2) for kept in itertools.combinations(range(3), size)]
    for trial in range(12):
        prior = rng.dirichlet(np.ones(3), 3)
        laws = rng.dirichlet(np.full(4, 0.8), 27).reshape(3, 3, 3, 4)
        if trial % 2:  # randomised response about the first row's value
            laws = np.broadcast_to(np.full((3, 3), 0.1) + 0.7 * np.eye(3), (3, 3, 3, 3)).transpose(2, 0, 1, 3)
        joint = np.array([math.prod(prior[i][z] for i, z in enumerate(one)) * laws[one] for one in every_table])
        epsilon = max(
            float(np.log(np.delete(laws, z, axis).max(axis) / laws.take(z, axis)).max())
            for axis in range(3)
            for z in range(3)
        )
        for row, kept, revealed in itertools.product(range(3), sets, ((), (1,), (1, 2))):
            others = [n for n in revealed if n != row]
            allowed = special.expit(epsilon + special.logit(sum(prior[row][z] for z in kept)))
            for told in itertools.product(range(3), repeat=len(others)):
                alike = [all(one[n] == z for n, z in zip(others, told, strict=True)) for one in every_table]
                inside = [same and one[row] in kept for same, one in zip(alike, every_table, strict=True)]
                posterior = joint[inside].sum(axis=0) / joint[alike].sum(axis=0)
                assert np.all(posterior <= allowed + 1e-12)
                closest = max(closest, float((posterior / allowed).max()))
    assert closest == pytest.approx(1.0), "attained by randomised response"


# theory:placebo#proxy
def test_against_the_proxy_it_is_the_test_of_given_members():
    """Right guesses as members, the proxy's chances as their propensities."""
    found = guesses(1, rows=500)
    rows = found.audited
    given = MemberScores(
        scores=found.scores[rows],
        member=found.right[rows],
        propensity=found.chance[rows],
        sides="included",
        relation="label",
    )
    ours = estimators.epsilon_from_matched(found, delta=0.0, form="proxy")
    theirs = estimators.epsilon_from_members(given, delta=0.0)
    assert ours.epsilon == theirs.epsilon > 0.5
    for epsilon in (0.0, 0.8, 1.2):
        assert ours.p_value(epsilon) == theirs.p_value(epsilon)


def test_chances_that_were_cut_count_as_certain():
    """A proxy that is certain was cut to 1 - 1e-9; right guesses there say nothing, however many."""
    sure = one_cell(1000, 1000, 0, 0, chance=1.0 - 1e-9)
    assert estimators.epsilon_from_matched(sure, delta=0.0, form="proxy").epsilon == 0.0
    assert AgainstProxy.of_audited(sure, ALPHA).p_value(0.0, matched.NONE) == 1.0
    nearly = replace(sure, chance=np.full(1000, 1.0 - 2e-9))
    assert AgainstProxy.of_audited(nearly, ALPHA).found.offset[0] == pytest.approx(special.logit(1.0 - 2e-9))


def test_without_placebo_rows_only_the_proxy_is_left():
    found = one_cell(90, 100, 0, 0)
    for form in ("either", "proxy"):
        bound = estimators.epsilon_from_matched(found, delta=0.0, form=form)
        assert bound.epsilon > 0.5
        assert "proxy-right" in {one.id for one in bound.assumptions}
        assert not {"proxy-or-no-recognition", "no-recognition"} & {one.id for one in bound.assumptions}
    assert "proxy-right" in {one.id for one in estimators.mu_from_matched(found).assumptions}
    assert matched.conditions_of(found)[-1].id == "proxy-right"
    assert matched.conditions_of(one_cell(9, 10, 5, 10, margin=0.1))[-1].key == "proxy-or-no-recognition(kappa=0.1)"
    with pytest.raises(da.InputError, match="the matched form needs placebo rows"):
        estimators.epsilon_from_matched(found, delta=0.0, form="matched")
    assert matched.proxy_p_value(found) == 1.0


def test_all_right():
    """Finite where the sizes allow no more; where the search ends, the bound is at least this."""
    found = estimators.epsilon_from_matched(one_cell(100, 100, 50, 100), delta=0.0, form="matched")
    assert 0.0 < found.epsilon == found.ceiling < 12.0
    assert not found.capped
    assert estimators.epsilon_from_matched(one_cell(100, 100, 100, 100), delta=0.0, form="matched").epsilon == 0.0
    large = one_cell(20_000, 20_000, 200, 20_000, chance=0.01)
    capped = estimators.epsilon_from_matched(large, delta=0.0, form="matched")
    assert (capped.epsilon, capped.capped) == (12.0, True)
    assert estimators.epsilon_from_matched(large, delta=0.0, form="matched", kappa=1.0).epsilon == 11.0
    assert capped.headline().startswith("epsilon >= 12.00")


def test_a_ceiling_is_that_of_all_guesses_right():
    """Beside placebo rows exactly; against the proxy what one number of guesses would show, which is no less."""
    found = guesses(7, margin=0.1)
    right = replace(found, right=found.right | found.audited)
    for form in FORMS:
        best, shown = (estimators.epsilon_from_matched(one, delta=1e-5, form=form) for one in (right, found))
        assert best.epsilon <= shown.ceiling <= best.epsilon + (0.0 if form == "matched" else 0.5)
        best, shown = (estimators.mu_from_matched(one, form=form) for one in (right, found))
        assert best.mu <= shown.ceiling <= best.mu + (0.0 if form == "matched" else 0.5)


# ---------------------------------------------------------------------------------------------------------------- delta


def largest_delta(laws, epsilon):
    """The least delta at which rows of these laws are (epsilon, delta)-indistinguishable, both ways."""
    return max(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for p in laws for q in laws)


# theory:placebo#delta
def test_delta_adds_no_more_than_its_mean_excess():
    """One row: P(right) exceeds what epsilon allows by at most delta (k - 1) / k, for the best guess at each output."""
    rng, closest = np.random.default_rng(6), 0.0
    for _ in range(300):
        k = int(rng.integers(2, 6))
        laws, prior = rng.dirichlet(np.full(6, 0.3), k), rng.dirichlet(np.ones(k))
        laws = rng.choice([0.05, 1.0]) * laws + 0.0
        laws = np.hstack([laws, 1.0 - laws.sum(axis=1, keepdims=True)])
        epsilon = rng.choice([0.0, 0.5, 1.5])
        joint = prior[:, None] * laws
        allowed = special.expit(epsilon + special.logit(prior))[:, None] * joint.sum(axis=0)
        excess = float((joint - allowed).max(axis=0).sum())
        limit = matched.mean_excess(one_cell(1, 1, 0, 0, values=k), largest_delta(laws, epsilon))
        assert excess <= limit + 1e-12
        closest = max(closest, excess / limit)
    assert closest > 0.3
    k, delta = 100, 0.04  # the value is revealed with probability delta
    laws = np.hstack([delta * np.eye(k), np.full((k, 1), 1.0 - delta)])
    assert largest_delta(laws, 0.0) == pytest.approx(delta)
    right = float((laws / k).max(axis=0).sum())
    assert right == pytest.approx(0.0496)
    assert right - 1 / k == pytest.approx(matched.mean_excess(one_cell(1, 1, 0, 0, values=k), delta))


def test_forgiven_guesses_by_hand():
    """100 rows of two values: half a guess in the mean at delta 0.01, and 20 or more in one audit out of 40."""
    found = one_cell(90, 100, 50, 100)
    assert matched.mean_excess(found, 0.01) == pytest.approx(0.5)
    assert matched.mean_excess(replace(found, values=4), 0.01) == pytest.approx(0.75)
    wanted = {0.0: (0, 0.0), 1e-5: (0, 5e-4), 0.01: (19, 0.025), 0.0101: (20, 0.505 / 21)}
    for delta, (off, slack) in wanted.items():
        given = forgiven_guesses(found, delta, 0.05)
        assert (given.guesses, given.slack) == (off, pytest.approx(slack))
        assert given.slack <= 0.025 + 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_delta_costs(form):
    found = guesses(1, rows=1000, placebo=800)
    deltas = (0.0, 1e-6, 1e-4, 1e-3, 1e-2)
    bounds = [estimators.epsilon_from_matched(found, delta=delta, form=form) for delta in deltas]
    values = [bound.epsilon for bound in bounds]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[2] > values[3]
    given = forgiven_guesses(found, 1e-4, 0.05)
    assert (given.guesses, given.slack) == (1, pytest.approx(0.025))
    tests = [matched._test_of(name, found, 1.0 - 0.95, 0.0, 0.0) for name in matched._named(form)]
    assert bounds[2].p_value(0.4) == max(one.p_value(0.4, given) for one in tests)


def test_forgiven_guesses_are_taken_off_both_tests():
    found = guesses(1, rows=300, placebo=300)
    path = AgainstProxy.of_audited(found, ALPHA)
    for epsilon in (0.0, 0.5):
        smallest = min(
            float(sums_of(special.expit(epsilon + path.found.offset[:rank]))[max(0, count - 7) :].sum())
            for rank, count in zip(path.path.ranks, path.path.correct, strict=True)
        )
        assert path._smallest(epsilon, 7) == pytest.approx(smallest, rel=1e-6)
        assert path.p_value(epsilon, Forgiven(0, 0.0)) < path.p_value(epsilon, Forgiven(7, 0.0))


# ------------------------------------------------------------------------------------------------------------------- mu


def gaussian_delta(mu, epsilon):
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


# theory:placebo#mu
@pytest.mark.parametrize("form", FORMS)
def test_mu_is_refuted_where_its_test_refutes(form):
    found = guesses(1, rows=2000, placebo=1500, leak=2.0)
    bound = estimators.mu_from_matched(found, delta=1e-5, form=form)
    assert bound.mu > 0.2
    assert bound.p_value(bound.mu) <= ALPHA + 1e-12
    assert bound.p_value(bound.mu * 1.01) > ALPHA
    assert bound.mu <= bound.ceiling
    assert bound.epsilon == pytest.approx(da.tradeoff.Gaussian(bound.mu).epsilon(1e-5), rel=1e-6)
    pair = matched.least_epsilon(found, Gaussian(bound.mu), 1.0 - 0.95)
    assert 2000 * gaussian_delta(bound.mu, pair) / 2 == pytest.approx(ALPHA / 4, rel=1e-4), (
        "a quarter is what delta costs"
    )
    parts = [matched._test_of(name, found, 1.0 - 0.95, 0.0, 0.0) for name in matched._named(form)]
    assert bound.p_value(bound.mu) == max(one.p_value(pair, Forgiven(0, (1.0 - 0.95) / 4)) for one in parts)


def test_mu_of_the_margin_and_of_nothing():
    found = guesses(1, rows=2000, placebo=1500, leak=2.0)
    plain, less = (estimators.mu_from_matched(one, form="matched") for one in (found, replace(found, margin=0.3)))
    assert less.mu < plain.mu
    assert less.p_value(less.mu) <= ALPHA + 1e-12
    assert estimators.mu_from_matched(guesses(2, leak=0.0)).mu == 0.0
    assert matched.least_epsilon(found, Gaussian(1e-9), 0.05) == 0.0


# ---------------------------------------------------------------------------------------------------------------- games


def steep(rng, rows=1000, placebo=1000):
    """Nothing leaks; the surest quarter is right for certain, the others every other time."""
    scores = rng.random(rows + placebo)
    right = (scores > 0.75) | (rng.random(scores.size) < 0.5)
    return MatchedScores(
        scores=scores,
        chance=np.full(scores.size, 0.5),
        right=right,
        audited=np.arange(scores.size) < rows,
        relation="label",
    )


# theory:placebo#matched
def test_shares_that_match_on_average_only_claim_too_much(monkeypatch):
    """The lower limit of how many placebo rows lie beyond keeps the level; their mean number does not."""
    rng = np.random.default_rng(0)
    games = [steep(rng) for _ in range(200)]
    assert np.mean([estimators.null_p_value(one) <= 0.05 for one in games]) <= 0.05
    monkeypatch.setattr(matched, "least_beyond", lambda rows, placebo, taken, beta: -(-taken * placebo // max(1, rows)))
    assert np.mean([estimators.null_p_value(one) <= 0.05 for one in games]) >= 0.1


def responses(rng, epsilon, *, rows=1000, placebo=1000, known=True):
    """Randomised response: the model knows the law of each label, and the noisy labels of the rows it was trained on.

    The proxy knows the law as well, or all of it except what an id adds (not `known`).
    """
    size, audited = rows + placebo, np.arange(rows + placebo) < rows
    shown, hidden = rng.normal(size=size), rng.normal(size=50)[rng.integers(0, 50, size)]
    law = shown + hidden
    proxy = law if known else shown / math.sqrt(1 + math.pi / 8)
    label = rng.random(size) < special.expit(law)
    answer = label ^ (rng.random(size) < special.expit(-epsilon))
    model = law + np.where(audited, epsilon * (2.0 * answer - 1.0), 0.0)
    value = np.where(model == proxy, rng.random(size) < 0.5, model > proxy)
    chance = np.clip(special.expit(np.where(value, proxy, -proxy)), 1e-9, 1 - 1e-9)
    return MatchedScores(
        scores=np.abs(model - proxy), chance=chance, right=label == value, audited=audited, relation="label"
    )


def shown_above(epsilon, games):
    """In how many of the games each form shows more than epsilon."""
    p_values = {
        name: np.array([matched._test_of(name, one, ALPHA, 0.0, 0.0).p_value(epsilon, matched.NONE) for one in games])
        for name in ("matched", "proxy")
    }
    p_values["either"] = np.maximum(*p_values.values())
    return {form: int((found <= ALPHA).sum()) for form, found in p_values.items()}


# theory:placebo#either
def test_a_model_that_knows_more_than_the_proxy_shows_nothing():
    """Nothing leaks. Against the proxy alone nearly every audit finds a leak; beside placebo rows few do."""
    rng = np.random.default_rng(1)
    found = shown_above(0.0, [responses(rng, 0.0, known=False) for _ in range(60)])
    assert found["proxy"] >= 54
    assert found["matched"] <= 5
    assert found["either"] <= 5


def test_coverage_and_power_where_the_proxy_is_right():
    """Each form is below the truth in nearly all games, and above six tenths of it in nearly all."""
    rng = np.random.default_rng(2)
    games = [responses(rng, 1.0, rows=1200, placebo=1200) for _ in range(60)]
    assert all(count <= 9 for count in shown_above(1.0, games).values()), "0.999 quantile of Binomial(60, 0.05)"
    assert all(count >= 50 for count in shown_above(0.6, games).values())
