"""Renyi divergences from counts: corners, boxes by a primal twin, composition guard."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

import dpaudit as da
from dpaudit import OutputCounts, estimators
from dpaudit.estimators import outputs
from dpaudit.estimators.thresholds import Cut
from dpaudit.testing import ground_truth
from dpaudit.tradeoff import bernoulli_renyi
from tests.conftest import gaussian_runs


def binary(rng, p, q, trials, **more):
    x, y = rng.binomial(trials, p), rng.binomial(trials, q)
    return OutputCounts(present=[x, trials - x], absent=[y, trials - y], relation="add-remove", **more)


def test_power_of_the_corner_bound():
    """Issue 3: p = .1358, q = .1289, order 2, event and direction given, 1e6 trials: at least 0.6 of 4.24e-4."""
    rng = np.random.default_rng(1)
    true = bernoulli_renyi(0.1358, 0.1289, 2.0)
    assert true == pytest.approx(4.24e-4, rel=2e-3)
    found = [
        estimators.renyi_from_outputs(
            binary(rng, 0.1358, 0.1289, 10**6), orders=2, event=0, direction="present"
        ).divergences[0]
        for _ in range(200)
    ]
    assert np.median(found) >= 0.6 * true


# theory:private-prediction#two-cut
def test_corner_of_the_box_is_its_minimum(rng):
    """theory:private-prediction#two-cut: no pair inside the box has a smaller divergence than its nearest corner."""
    for _ in range(100):
        low, high = np.sort(rng.uniform(0.01, 0.99, 2))
        q_low, q_high = np.sort(rng.uniform(0.01, 0.99, 2))
        grid = [(p, q) for p in np.linspace(low, high, 9) for q in np.linspace(q_low, q_high, 9)]
        least = min(bernoulli_renyi(p, q, 3.0) for p, q in grid)
        corner = (
            bernoulli_renyi(low, q_high, 3.0)
            if low > q_high
            else bernoulli_renyi(high, q_low, 3.0)
            if high < q_low
            else 0.0
        )
        assert corner <= least + 1e-12


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
# theory:private-prediction#k-cut
def test_dual_of_the_k_cut_against_a_primal_solver(order):
    """The dual never exceeds the primal minimum, and reaches it."""
    rng = np.random.default_rng(3)
    for _ in range(6):
        p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        boxes = [
            (np.maximum(distribution * 0.9 - 0.005, 0.0), np.minimum(distribution * 1.1 + 0.005, 1.0))
            for distribution in (p, q)
        ]

        def cost(v, order=order):
            terms = np.maximum(v[:4], 1e-12) ** order * np.maximum(v[4:], 1e-12) ** (1 - order)
            return math.log(np.sum(terms)) / (order - 1)

        found = optimize.minimize(
            cost,
            np.concatenate([p, q]),
            method="SLSQP",
            bounds=[*zip(*boxes[0], strict=True), *zip(*boxes[1], strict=True)],
            constraints=[
                {"type": "eq", "fun": lambda v: v[:4].sum() - 1},
                {"type": "eq", "fun": lambda v: v[4:].sum() - 1},
            ],
            options={"maxiter": 500, "ftol": 1e-14},
        )
        primal = max(0.0, found.fun)
        dual = outputs._least_divergence(boxes[0], boxes[1], order)
        assert dual <= primal + 1e-7
        assert dual >= 0.97 * primal - 1e-6


def test_boxes_of_the_papers_are_estimates(rng):
    evidence = ground_truth.NoisyVotes().sample(rng)
    exact = estimators.renyi_from_outputs(evidence, orders=[2.0, math.inf], cuts="all")
    assert exact.guarantee == "certified"
    for method in ("goodman", "sison-glaz", "bootstrap"):
        found = estimators.renyi_from_outputs(evidence, orders=[2.0, math.inf], cuts="all", method=method)
        assert found.guarantee == "estimate"
        assert found.divergences[0] > 0
    two = estimators.renyi_from_outputs(evidence, orders=2, event=[0, 2], method="bootstrap")
    assert two.guarantee == "estimate"


def test_simultaneous_limits_against_their_laws(rng):
    counts = np.array([60, 30, 10])
    lower, upper = outputs._goodman_box(counts, 0.05)
    chi = 5.7311  # chi-squared quantile at 1 - .05 / 3, one degree of freedom
    for x, u in zip(counts, upper, strict=True):
        assert (x / 100 - u) ** 2 == pytest.approx(chi * u * (1 - u) / 100, rel=1e-3)
    low, high = outputs._sison_glaz_box(counts, 0.05)
    width = round((high - counts / 100)[0] * 100)
    draws = rng.multinomial(100, counts / 100, size=100_000)
    inside = np.all(np.abs(draws - counts) <= width, axis=1).mean()
    assert inside == pytest.approx(outputs._within(counts, width), abs=0.005)
    assert inside >= 0.95 > outputs._within(counts, width - 1)
    assert np.all(low <= counts / 100)
    assert np.all(lower <= counts / 100)


def test_choices_are_paid_for(rng):
    evidence = ground_truth.NoisyVotes().sample(rng)
    orders = [2.0, 4.0]
    free = estimators.renyi_from_outputs(evidence, orders=orders)
    given = estimators.renyi_from_outputs(evidence, orders=orders, event=0, direction="present")
    sided = estimators.renyi_from_outputs(evidence, orders=orders, event=0)
    assert given.divergences[0] > sided.divergences[0] >= 0
    assert "paid for" in free.selection
    assert free.divergences[1] > free.divergences[0], "one event serves every order"
    wrong = estimators.renyi_from_outputs(evidence, orders=orders, event=0, direction="absent")
    assert wrong.divergences == (0.0, 0.0), "the direction is never flipped silently"


# theory:private-prediction#composition
def test_shared_teachers_do_not_compose(rng):
    """theory:private-prediction#composition: the latent bit's joint divergence, and the refusal."""
    assert ground_truth.LatentBit(queries=2).joint_divergence(2.0) == pytest.approx(0.0307, abs=5e-5)
    assert ground_truth.LatentBit(queries=50).joint_divergence(2.0) == pytest.approx(0.0392, abs=5e-5)
    evidence = ground_truth.LatentBit(queries=5).sample(rng)
    with pytest.raises(da.InputError, match="share random teachers do not compose"):
        estimators.renyi_from_outputs(evidence, orders=2, compose=True)
    assert estimators.renyi_from_outputs(evidence, orders=2).divergences[0] <= ground_truth.LatentBit(
        queries=5
    ).joint_divergence(2.0)
    fresh = ground_truth.NoisyVotes(queries=3).sample(rng)
    added = estimators.renyi_from_outputs(fresh, orders=2, compose=True)
    best = estimators.renyi_from_outputs(fresh, orders=2)
    assert added.divergences[0] > best.divergences[0]
    assert added.assumptions[0].id == "independent-answers"
    assert "if given the data set" in str(added)
    huge = estimators.renyi_from_outputs(ground_truth.NoisyVotes().sample(rng), orders=[64.0, 1e4, 1e6], cuts="all")
    assert np.all(np.diff(huge.divergences) > -1e-9)
    assert da.epsilon_from_renyi(added.divergences[0], order=2.0) > 0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"orders": 1}, "`orders` must be above 1"),
        ({"orders": []}, "at least one order"),
        ({"cuts": 3}, "`cuts` must be 2 or 'all'"),
        ({"orders": 1 + 1e-9}, "`orders` must be above 1"),
        ({"cuts": np.array([2, 3])}, "`cuts` must be 2 or 'all'"),
        ({"cuts": "all", "event": 1}, "belong to a 2-cut"),
        ({"event": 9}, "`event` must be at most 4"),
        ({"event": [0, 1, 2, 3, 4]}, "some but not all"),
        ({"direction": "up"}, "`direction` must be one of"),
        ({"method": "magic"}, "`method` must be one of"),
        ({"method": "goodman"}, "a 2-cut is exact"),
        ({"confidence": 0.0}, "`confidence` must be in"),
    ],
)
def test_misuse(rng, changes, match):
    with pytest.raises(da.InputError, match=match):
        estimators.renyi_from_outputs(ground_truth.NoisyVotes().sample(rng), **({"orders": 2} | changes))


def test_wrong_evidence(rng):
    with pytest.raises(da.InputError, match="needs counts of answers"):
        estimators.renyi_from_outputs(gaussian_runs(rng), orders=2)


@pytest.mark.parametrize("changed", [1, 2, 3, 4])
# theory:private-prediction#group
def test_group_privacy_never_over_states_one_record(changed):
    """Gaussian: D_a = a m^2 mu^2 / 2 for m records; what follows for one stays below a mu^2 / 2.

    See theory:private-prediction#group.
    """
    mu, orders = 0.7, (2.0, 3.0, 8.0)
    group = da.RenyiBound(
        orders=(1.5, *orders),
        divergences=tuple(order * changed**2 * mu**2 / 2.0 for order in (1.5, *orders)),
        confidence=0.95,
        relation="substitute",
        method="exact",
        guarantee="certified",
    )
    found = estimators.renyi_of_one_record(group, changed=changed)
    doublings = math.ceil(math.log2(changed))
    if changed == 1:
        assert found == group
        return
    assert found.orders == tuple(o * 2.0**doublings for o in orders)
    for order, value, own in zip(found.orders, found.divergences, group.divergences[1:], strict=True):
        assert value <= order * mu**2 / 2.0 * (1.0 + 1e-12)
        assert value == pytest.approx(own / 3.0**doublings)
    assert f"{changed} records changed" in found.method


def test_group_privacy_refuses_small_orders():
    low = da.RenyiBound(
        orders=(1.9,), divergences=(0.1,), confidence=0.95, relation="substitute", method="m", guarantee="certified"
    )
    with pytest.raises(da.InputError, match="an order of 2 or more"):
        estimators.renyi_of_one_record(low, changed=2)
    with pytest.raises(da.InputError, match="must be a RenyiBound"):
        estimators.renyi_of_one_record(0.3, changed=2)


# ------------------------------------------------------------------------------------------------ exact, by naive twins

VOTES = {"present": [[300, 150, 50], [240, 220, 40]], "absent": [[200, 190, 110], [250, 210, 40]]}


def limits(count, trials, alpha):
    """Clopper-Pearson limits, each at alpha, of a count that is neither none nor all."""
    return stats.beta.ppf(alpha, count, trials - count + 1), stats.beta.isf(alpha, count + 1, trials - count)


def order_two(p, q):
    return math.log(p**2 / q + (1 - p) ** 2 / (1 - q))


@pytest.mark.parametrize(("direction", "sides"), [(None, 2), ("present", 1), ("absent", 1)])
@pytest.mark.parametrize("event", [None, 0])
def test_two_cut_against_a_naive_twin(direction, sides, event):
    """Each query, answer and direction, and both worlds' limits, at an equal share of alpha."""
    evidence = OutputCounts(**VOTES, relation="add-remove")
    found = estimators.renyi_from_outputs(evidence, orders=2, event=event, direction=direction, confidence=0.9)
    answers = range(3) if event is None else [event]
    level, best = 0.1 / (2 * len(answers) * sides * 2), 0.0
    for query, answer in itertools.product(range(2), answers):
        p, q = (limits(VOTES[world][query][answer], 500, level) for world in ("present", "absent"))
        if direction != "absent" and p[0] > q[1]:
            best = max(best, order_two(p[0], q[1]))
        if direction != "present" and p[1] < q[0]:
            best = max(best, order_two(p[1], q[0]))
    assert found.divergences[0] == pytest.approx(best)
    assert best > 0.0 or (event, direction) == (0, "absent")


def test_k_cut_of_order_infinity_by_hand():
    """Three answers, two limits for each, in two worlds, at alpha / 12; then the largest ratio that they leave."""
    evidence = OutputCounts(present=VOTES["present"][0], absent=VOTES["absent"][0], relation="add-remove")
    found = estimators.renyi_from_outputs(evidence, orders=math.inf, cuts="all")
    ratios = [
        limits(p, 500, 0.05 / 12)[0] / limits(q, 500, 0.05 / 12)[1]
        for p, q in zip(evidence.present[0], evidence.absent[0], strict=True)
    ]
    assert found.divergences[0] == pytest.approx(math.log(max(ratios)))
    assert max(ratios) > 1.0


def test_events_of_a_claim_by_hand():
    three = OutputCounts(present=[3, 5, 2], absent=[4, 1, 5], relation="add-remove")
    assert list(outputs.event_cuts(three)) == [
        *(Cut(4, 10, 7, 10), Cut(6, 10, 3, 10)),
        *(Cut(1, 10, 5, 10), Cut(9, 10, 5, 10)),
        *(Cut(5, 10, 8, 10), Cut(5, 10, 2, 10)),
    ]
    two = OutputCounts(present=[3, 7], absent=[4, 6], relation="add-remove")
    assert list(outputs.event_cuts(two)) == [Cut(4, 10, 7, 10), Cut(6, 10, 3, 10)]
