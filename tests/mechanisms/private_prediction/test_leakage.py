"""Ensembles, noisy answers and what they leak: exact distributions against enumeration and simulation, and the bugs."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpaudit import InputError, RunScores, accounting, judge, mechanisms, renyi_divergence
from dpaudit.mechanisms.label_dp import Logistic, Sklearn
from dpaudit.mechanisms.private_prediction import (
    BUGS,
    Confident,
    FixedParties,
    Leakage,
    Neighbours,
    NoisyVotes,
    RandomTeachers,
    data_dependent_renyi,
    knn_argmax_probabilities,
    mixed_answers,
    noisy_argmax_probabilities,
    vote_leakage,
)

HISTOGRAM = [14, 12, 10, 8, 6]
MOVED = [13, 13, 10, 8, 6]


# -------------------------------------------------------------------------------------------------------- distributions


def test_laplace_noise_against_quadrature_and_simulation():
    votes, scale = np.array([3.0, 5.0, 1.0, 5.0]), 1.7
    found = noisy_argmax_probabilities(votes, sigma=scale, noise="laplace")
    assert abs(found.sum() - 1.0) < 1e-12
    for c in range(4):
        others = np.delete(votes, c)

        def density(x, c=c, others=others):
            return stats.laplace.pdf(x, votes[c], scale) * np.prod(stats.laplace.cdf(x, others, scale))

        exact = integrate.quad(density, -60, 70, points=[1.0, 3.0, 5.0], limit=400)[0]
        assert found[c] == pytest.approx(exact, rel=1e-8)
    tight = noisy_argmax_probabilities([40.0, 0.0], sigma=1.0, noise="laplace")
    assert tight[1] == pytest.approx(0.25 * math.exp(-40.0) * (2.0 + 40.0), rel=1e-9)  # two Laplace tails


def test_laplace_votes_meet_their_epsilon():
    """Moving one vote changes every probability by a factor of at most e^(2 / scale)."""
    for scale in (0.5, 2.0, 20.0):
        distributions = [noisy_argmax_probabilities(v, sigma=scale, noise="laplace") for v in (HISTOGRAM, MOVED)]
        assert np.abs(np.log(distributions[0] / distributions[1])).max() <= 2.0 / scale * (1.0 + 1e-9)
        assert NoisyVotes(sigma=scale, classes=5, noise="laplace").claim(0.0, 3).epsilon == pytest.approx(6.0 / scale)


def test_neighbours_law_is_a_mixture():
    distribution, last = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
    plain = knn_argmax_probabilities(distribution, neighbors=20, sigma=3.0, last=last)
    sure = knn_argmax_probabilities(distribution, neighbors=20, sigma=3.0, last=[0.0, 1.0, 0.0])
    mixed = knn_argmax_probabilities(distribution, neighbors=20, sigma=3.0, last=last, label=1, inclusion=0.3)
    np.testing.assert_allclose(mixed, 0.7 * plain + 0.3 * sure, rtol=1e-12)
    with pytest.raises(InputError, match="`label` must say"):
        knn_argmax_probabilities(distribution, neighbors=20, sigma=3.0, last=last, inclusion=0.3)


# -------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "mechanism",
    [
        NoisyVotes(sigma=2.0, classes=5),
        NoisyVotes(sigma=2.0, classes=5, noise="laplace"),
        NoisyVotes(sigma=2.0, classes=5, confident=Confident(threshold=13.0, sigma=3.0)),
    ],
    ids=["gaussian", "laplace", "confident"],
)
def test_answers_follow_their_law(mechanism):
    trials = 200_000
    found = mechanism.release(np.tile(HISTOGRAM, (trials, 1)), 3)
    distribution = mechanism.distribution(HISTOGRAM)
    counts = np.bincount(found, minlength=distribution.size)
    assert stats.chisquare(counts, trials * distribution / distribution.sum()).pvalue > 1e-3
    assert np.array_equal(
        mechanism.release(np.tile(HISTOGRAM, (9, 1)), 5), mechanism.release(np.tile(HISTOGRAM, (9, 1)), 5)
    )


def test_cached_answers_are_the_first_ones():
    """By the query's name, never by its votes: two queries with equal votes are still two."""
    votes = np.array([[5, 4], [2, 7], [5, 4], [2, 7], [5, 4]])
    kept = NoisyVotes(sigma=9.0, classes=2, cached=True)
    found = np.stack([kept.release(votes, seed, queries=["a", "b", "a", "b", "c"]) for seed in range(60)])
    assert np.array_equal(found[:, 0], found[:, 2])
    assert np.array_equal(found[:, 1], found[:, 3])
    assert not np.array_equal(found[:, 0], found[:, 4])
    with pytest.raises(InputError, match="must name the query of each of the 5 lines"):
        kept.release(votes, 1)


def test_claims():
    assert NoisyVotes(sigma=20.0, classes=3).claim(1e-5, 200).mu == pytest.approx(1.0)
    confident = NoisyVotes(sigma=20.0, classes=3, confident=Confident(threshold=10.0, sigma=10.0))
    assert confident.claim(1e-5, 100).mu == pytest.approx(math.sqrt(100 * (2 / 400 + 1 / 100)))
    plain = Neighbours(classes=2, neighbors=200, sampling_rate=0.2).claim(sigma=30.0, queries=100, delta=1e-6)
    full = Neighbours(classes=2, neighbors=200, sampling_rate=1.0).claim(sigma=30.0, queries=100, delta=1e-6)
    assert plain.epsilon < 0.5 * full.epsilon
    assert full.epsilon == pytest.approx(
        accounting.gaussian(mu=math.sqrt(200) / 30, delta=1e-6, relation="add-remove").epsilon, rel=1e-3
    )


# Each bug with the votes that show it: what a world's answers look like, as one score a run.


def single(mechanism, votes, seed, runs):
    return (mechanism.release(np.tile(votes, (runs, 1)), seed) != 0).astype(float)


def verdict(mechanism, score, runs, seed, votes=((51, 50), (50, 51))):
    """The votes of the two worlds differ in one teacher."""
    worlds = {world: score(mechanism, votes[world], 2 * seed + world, runs) for world in (0, 1)}
    evidence = RunScores(present=worlds[1], absent=worlds[0], relation="substitute", seed=seed)
    return judge(evidence, mechanism.claim(1e-5)).contradicted


def test_broken_answers_are_contradicted_and_honest_ones_are_not():
    honest = NoisyVotes(sigma=10.0, classes=2)
    assert sum(verdict(honest, single, 5000, seed) for seed in range(8)) <= 3
    assert verdict(NoisyVotes(sigma=10.0, classes=2, bug=BUGS[0]), single, 200, 1)  # a scalar cancels in the argmax
    agreed = NoisyVotes(sigma=10.0, classes=2, confident=Confident(threshold=51.0, sigma=10.0))

    def silent(mechanism, votes, seed, runs):
        return (mechanism.release(np.tile(votes, (runs, 1)), seed) == 2).astype(float)

    barely = ((51, 49), (50, 50))  # the largest count passes the threshold, or just does not
    assert sum(verdict(agreed, silent, 5000, seed, barely) for seed in range(8)) <= 3
    bare = NoisyVotes(sigma=10.0, classes=2, confident=agreed.confident, bug=BUGS[2])
    assert verdict(bare, silent, 200, 1, barely)


def test_noise_that_is_kept_between_queries_is_contradicted():
    """Other teachers make margins from -40 to 40, twice; one teacher changes its mind in the second half only.

    With one noise for all queries the number of answers for class 1 in both halves differs by its votes alone.
    """
    margins = np.arange(-40, 41)
    halves = {world: np.concatenate([margins, margins + 2 * world]) for world in (0, 1)}
    queries = 2 * margins.size

    def verdict(mechanism, seed, runs):
        worlds = {}
        for world, each in halves.items():
            votes = np.stack([100 - each, 100 + each], axis=1) / 2.0
            found = [mechanism.release(votes, 10_000 * seed + 2 * run + world) for run in range(runs)]
            worlds[world] = np.array([a[margins.size :].sum() - a[: margins.size].sum() for a in found], dtype=float)
        evidence = RunScores(present=worlds[1], absent=worlds[0], relation="substitute", seed=seed)
        return judge(evidence, mechanism.claim(1e-5, queries)).contradicted

    honest, kept = (NoisyVotes(sigma=20.0, classes=2, bug=bug) for bug in (None, BUGS[1]))
    assert sum(verdict(honest, seed, 400) for seed in range(8)) <= 3
    assert verdict(kept, 1, 100)


# -------------------------------------------------------------------------------------------------------------- leakage


def test_latent_teachers_do_not_compose():
    """A hidden bit, Ber(.6) against Ber(.5); each of 50 answers flips it with probability .1.

    See theory:private-prediction#composition.
    """
    coin = np.array([[0.9, 0.1], [0.1, 0.9]])
    one = [np.array([0.4, 0.6]) @ coin, np.array([0.5, 0.5]) @ coin]
    shared = Leakage(
        present=np.tile(one[0], (50, 1)), absent=np.tile(one[1], (50, 1)), shared=True, relation="substitute"
    )
    assert shared.each(2.0).sum() == pytest.approx(1.264, abs=5e-4)
    with pytest.raises(InputError, match="share random teachers do not compose"):
        shared.together(2.0)
    with pytest.raises(InputError, match="share random teachers"):
        shared.epsilon(1e-5)
    with pytest.raises(InputError, match="share random teachers"):
        Leakage(present=one[0], absent=one[1], shared=True, relation="substitute").together(2.0, repeats=2)
    joint = {n: mixed_answers([0.4, 0.6], [0.5, 0.5], coin, repeats=n).together(2.0)[0] for n in (1, 2, 50)}
    assert joint[2] == pytest.approx(0.0307, abs=5e-5)
    assert joint[50] == pytest.approx(0.0392, abs=5e-5)
    assert joint[1] == pytest.approx(renyi_divergence(*one, orders=2.0)[0])
    cap = renyi_divergence([0.4, 0.6], [0.5, 0.5], orders=2.0)[0]
    assert joint[50] <= cap
    many = mixed_answers([0.4, 0.6], [0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]], repeats=1000)  # outcomes of 1e-400
    assert many.together(2.0)[0] == pytest.approx(cap, rel=1e-6)
    again = mixed_answers([0.4, 0.6], [0.5, 0.5], coin, repeats=50)
    for more in (lambda: again.together(2.0, repeats=2), lambda: again.epsilon(1e-5, repeats=20)):
        with pytest.raises(InputError, match="share random teachers"):  # the hidden state is drawn once
            more()


def test_joint_laws_against_enumeration(rng):
    hidden = rng.dirichlet(np.ones(3), size=2)
    given = rng.dirichlet(np.ones(3), size=3)
    distributions = []
    for distribution in hidden:
        found = {}
        for sequence in itertools.product(range(3), repeat=4):
            key = tuple(np.bincount(sequence, minlength=3))
            found[key] = found.get(key, 0.0) + float(distribution @ np.prod(given[:, sequence], axis=1))
        distributions.append([found[key] for key in sorted(found)])
    joint = mixed_answers(hidden[0], hidden[1], given, repeats=4)
    for order in (1.5, 2.0, 8.0):
        exact = renyi_divergence(distributions[0], distributions[1], orders=order)[0]
        assert joint.together(order)[0] == pytest.approx(exact, rel=1e-10)
    with pytest.raises(InputError, match="different counts; at most"):
        mixed_answers(hidden[0], hidden[1], given, repeats=5000)


def test_fixed_votes_compose_exactly():
    leak = vote_leakage([HISTOGRAM] * 3, [MOVED] * 3, sigma=2.0)
    assert leak.together([2.0, 4.0]) == pytest.approx(3.0 * leak.each([2.0, 4.0])[0])
    assert leak.together(2.0, repeats=5, backward=True)[0] == pytest.approx(15.0 * leak.each(2.0, backward=True)[0, 0])
    once, often = leak.epsilon(1e-5), leak.epsilon(1e-5, repeats=20)
    assert 0.0 < once.epsilon < often.epsilon
    promised = NoisyVotes(sigma=2.0, classes=5).claim(1e-5, 60)
    assert often.epsilon < promised.epsilon
    p, q = (noisy_argmax_probabilities(v, sigma=2.0) for v in (HISTOGRAM, MOVED))
    exact = max(np.log(p / q).max(), np.log(q / p).max())
    found = vote_leakage(HISTOGRAM, MOVED, sigma=2.0).epsilon(0.0)
    assert found.epsilon <= exact <= found.above
    assert found.above - found.epsilon < 0.01 * exact
    assert found.guarantee == "exact"
    with pytest.raises(InputError, match="`claim` must be an UpperBound"):  # one attack instance is no promise
        judge(RunScores(present=[1.0], absent=[0.0], relation="substitute"), found)


def test_silence_leaks_too():
    """The largest count just passes the threshold, or just does not; what is said when it passes is the same."""
    how = {"sigma": 1.0, "confident": Confident(threshold=51.0, sigma=2.0)}
    found = vote_leakage([[51, 5]], [[50, 5]], **how)
    assert found.present.shape == (1, 3)
    assert found.each(2.0)[0, 0] > 100.0 * vote_leakage([[51, 5]], [[50, 5]], sigma=1.0).each(2.0)[0, 0]
    mechanism = NoisyVotes(classes=2, **how)
    assert found.present[0] == pytest.approx(mechanism.distribution([51, 5]))


def test_an_epsilon_of_many_answers_is_bracketed():
    """A thousand answers, each next to nothing: rounded up by 1e-4 an answer it would be 0.07 too much."""
    leak = Leakage(present=[0.5024, 0.4976], absent=[0.5, 0.5], shared=False, relation="substitute")
    found = leak.epsilon(1e-6, repeats=1000)
    assert 0.0 < found.above - found.epsilon < 0.02 * found.above
    coarse = accounting.independent_answers(
        [([0.5024, 0.4976], [0.5, 0.5])], delta=1e-6, relation="substitute", repeats=1000
    )
    assert coarse.epsilon > found.above + 0.01
    steps = np.arange(1001)
    logs = steps * np.log(0.5024 / 0.5) + (1000 - steps) * np.log(0.4976 / 0.5)
    distribution = np.exp(
        special.gammaln(1001) - special.gammaln(steps + 1) - special.gammaln(1001 - steps) - 1000 * np.log(2)
    )

    def delta(epsilon):
        return max(
            float((distribution * np.maximum(np.exp(logs) - np.exp(epsilon), 0.0)).sum()),
            float((distribution * np.maximum(1.0 - np.exp(epsilon + logs), 0.0)).sum()),
        )

    assert delta(found.epsilon) >= 1e-6 * (1.0 - 1e-9)
    assert delta(found.above) <= 1e-6 * (1.0 + 1e-6)


@pytest.mark.parametrize("votes", [HISTOGRAM, [30, 1, 1], [10, 10]])
def test_the_exact_data_dependent_bound_lies_between(votes):
    """At least every neighbour's divergence, at most the data-independent order / sigma^2; Papernot's is above it."""
    orders = [1.5, 2.0, 5.0, 20.0]
    exact = data_dependent_renyi(votes, sigma=2.0, orders=orders)
    assert np.all(exact <= accounting.noisy_argmax_renyi(sigma=2.0, orders=orders) * (1.0 + 1e-9))
    forward = data_dependent_renyi(votes, sigma=2.0, orders=orders, both=False)
    published = accounting.noisy_argmax_renyi(sigma=2.0, orders=orders, votes=votes)
    assert np.all(forward <= published * (1.0 + 1e-9) + 1e-15)
    assert np.all(forward <= exact)
    rng = np.random.default_rng(1)
    for _ in range(10):
        i, j = rng.choice(len(votes), 2, replace=False)
        moved = np.array(votes)
        moved[i] -= 1
        moved[j] += 1
        p, q = (noisy_argmax_probabilities(v, sigma=2.0) for v in (votes, moved))
        assert np.all(renyi_divergence(p, q, orders=orders) <= exact * (1.0 + 1e-9))


# ------------------------------------------------------------------------------------------------------------ ensembles


def blobs(rng, rows=600, classes=3):
    y = rng.integers(0, classes, rows)
    x = rng.normal(size=(rows, classes))
    x[np.arange(rows), y] += 2.0
    return x, y


def test_ensembles_vote(rng):
    x, y = blobs(rng)
    queries, truth = blobs(rng, 30)
    party = np.arange(600) % 10
    for ensemble, dataset, size in (
        (RandomTeachers(learner=Logistic(), classes=3, teachers=10), (x, y), 10),
        (FixedParties(learner=Logistic(), classes=3), (x, y, party), 10),
        (Neighbours(classes=3, neighbors=15, sampling_rate=0.5), (x, y), 15),
        (Neighbours(classes=3, neighbors=15, sampling_rate=0.5), (x.reshape(-1, 3, 1), y), 15),
    ):
        counts = ensemble.votes(dataset, queries, 3)
        assert counts.shape == (30, 3)
        assert np.all(counts.sum(axis=1) == size)
        assert (counts.argmax(axis=1) == truth).mean() > 0.7
        assert np.array_equal(counts, ensemble.votes(dataset, queries, 3))
    assert RandomTeachers(learner=Logistic(), classes=3, teachers=2).shared
    assert not Neighbours(classes=3).shared


def test_one_record_changes_one_vote(rng):
    from sklearn.neighbors import KNeighborsClassifier

    x, y = blobs(rng, rows=120)
    queries = x[:40]
    learner = Sklearn(lambda seed: KNeighborsClassifier(1))
    for ensemble, extra in (
        (RandomTeachers(learner=learner, classes=3, teachers=8), ()),
        (FixedParties(learner=learner, classes=3), (np.arange(120) % 8,)),
    ):
        other = y.copy()
        other[7] = (other[7] + 1) % 3
        first, second = (ensemble.votes((x, labels, *extra), queries, 1) for labels in (y, other))
        fewer = ensemble.votes((x[:-1], y[:-1], *(part[:-1] for part in extra)), queries, 1)
        changed = [np.abs(first - neighbour).sum(axis=1) for neighbour in (second, fewer)]
        assert set(np.concatenate(changed)) <= {0, 2}  # a label replaced, a record removed
        assert changed[0].max() == 2


def test_neighbours_are_included_as_often_as_the_formula_says(rng):
    """A new point of its own class, at several ranks: how often it votes (theory:errata#002-12)."""
    x = np.arange(1.0, 61.0)[:, None]
    y = np.zeros(60, dtype=int)
    for rank in (1, 10, 30):
        labels = y.copy()
        labels[rank - 1] = 1
        ensemble = Neighbours(classes=2, neighbors=5, sampling_rate=0.3)
        counts = ensemble.votes((x, labels), np.zeros((4000, 1)), 7)
        exact = mechanisms.knn_inclusion_probability(rank=rank, neighbors=5, sampling_rate=0.3)
        assert stats.binomtest(int(counts[:, 1].sum()), 4000, exact).pvalue > 1e-3


def test_teachers_have_seeds_and_rows_of_their_own(rng):
    seen = []

    class Spy:
        def fit(self, x, weights, *, seed, unlabelled=None):
            seen.append((seed, len(x)))
            return Logistic().fit(x, weights, seed=seed)

    x, y = blobs(rng, rows=200)
    RandomTeachers(learner=Spy(), classes=3, teachers=8).votes((x, y), x[:3], 1)
    assert len({seed for seed, _ in seen}) == 8
    assert sum(size for _, size in seen) == 200


def test_pictures_in_bytes_are_not_wrapped():
    rows, labels = np.array([[20], [60], [250]], dtype=np.uint8), np.array([0, 1, 1])
    found = Neighbours(classes=2, neighbors=1, sampling_rate=1.0).votes(
        (rows, labels), np.array([[25]], dtype=np.uint8), 1
    )
    assert found.tolist() == [[1, 0]]


def test_what_floats_cannot_hold_is_refused():
    with pytest.raises(InputError, match="too small to be computed with"):
        data_dependent_renyi([61, 1], sigma=1.0, orders=[32.0])
    with pytest.raises(InputError, match="too small to be computed with"):
        vote_leakage([61, 1], [62, 0], sigma=1.0)
    with pytest.raises(InputError, match="whole numbers from 0"):
        data_dependent_renyi([0.5, 0.5], sigma=1.0, orders=[2.0])
    with pytest.raises(InputError, match="`sigma` must be"):
        noisy_argmax_probabilities([50, 0], sigma=1e-6, noise="laplace")


def test_both_directions_count():
    """Of a histogram near agreement the way back is far larger, and the bound says so."""
    exact = data_dependent_renyi([30, 1, 1], sigma=2.0, orders=[5.0])
    forward = data_dependent_renyi([30, 1, 1], sigma=2.0, orders=[5.0], both=False)
    assert (
        exact[0]
        > 50.0 * accounting.noisy_argmax_renyi(sigma=2.0, orders=[5.0], votes=[30, 1, 1])[0]
        > 50.0 * forward[0]
    )


def test_refusals(rng):
    with pytest.raises(InputError, match="lines of 3 counts"):
        NoisyVotes(sigma=1.0, classes=3).release("votes", 1)
    with pytest.raises(InputError, match="must be a Confident"):
        NoisyVotes(sigma=1.0, classes=3, confident=3.0)
    with pytest.raises(InputError, match="got laplace"):
        NoisyVotes(sigma=1.0, classes=3, noise="laplace", confident=Confident(threshold=1.0, sigma=1.0))
    with pytest.raises(TypeError, match="shared"):
        RandomTeachers(learner=Logistic(), classes=3, teachers=2, shared=False, relation="substitute")
    with pytest.raises(InputError, match="one party a row"):
        FixedParties(learner=Logistic(), classes=3).votes(
            (np.zeros((3, 1)), np.zeros(3, dtype=int), [1, 2]), np.zeros((1, 1)), 1
        )
    with pytest.raises(InputError, match="rows of 1 features"):
        Neighbours(classes=2).votes((np.zeros((3, 1)), np.zeros(3, dtype=int)), np.zeros((1, 2)), 1)
    with pytest.raises(InputError, match="`queries` must be an array"):
        RandomTeachers(learner=Logistic(), classes=3, teachers=3).votes(blobs(rng, 20), [], 1)
    with pytest.raises(InputError, match="lines of 3 counts"):
        NoisyVotes(sigma=1.0, classes=3).release([[1, 2]], 1)
    with pytest.raises(InputError, match="needs `confident`"):
        NoisyVotes(sigma=1.0, classes=3, bug=BUGS[2])
    with pytest.raises(InputError, match="`bug` must be one of"):
        NoisyVotes(sigma=1.0, classes=3, bug="something")
    with pytest.raises(InputError, match="must have one shape"):
        Leakage(present=[[0.5, 0.5]], absent=[[0.2, 0.3, 0.5]], shared=False, relation="substitute")
    with pytest.raises(InputError, match="at most the 20 rows"):
        RandomTeachers(learner=Logistic(), classes=3, teachers=30).votes(blobs(rng, 20), np.zeros((1, 3)), 1)


def test_a_true_zero_does_not_hide_an_underflow():
    """An answer that never comes beside answers too rare to compute with: refused as without it."""
    for answers in ([[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]):
        with pytest.raises(InputError, match="too small to be computed with"):
            mixed_answers([1.0, 0.0], [0.0, 1.0], answers, repeats=400)
    fine = mixed_answers([1.0, 0.0], [0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]], repeats=5)
    assert np.isfinite(fine.together(2.0)).all()
