"""Training on private labels: what each promises, that half the noise is contradicted, and that something is learnt."""

import numpy as np
import pytest
from scipy import stats

from dpaudit import CanaryScores, InputError, RunScores, accounting, judge
from dpaudit.mechanisms import Alibi, MultiStage, OneStage, Pate
from dpaudit.mechanisms.label_dp import Boosted, Clusters, Logistic, Pretrained, Shares, Sklearn
from dpaudit.mechanisms.label_dp.learners import Constant, one_hot

EPSILONS = (0.1, 1.0, 2.0, 4.0, 8.0)
ROWS = 60_000
LOGISTIC = Logistic()
FLAT = np.zeros((ROWS, 1), dtype=np.float32)


def blobs(rng, rows=3000, classes=3, apart=2.0):
    y = rng.integers(0, classes, rows)
    x = rng.normal(size=(rows, classes))
    x[np.arange(rows), y] += apart
    return x, y


# ------------------------------------------------------------------------------------- epsilon, by audits of the labels


def mechanisms(epsilon, scale=1.0):
    common = {"epsilon": epsilon, "classes": 2, "noise_scale": scale}
    grouped = Clusters(epsilon=0.1 * epsilon, groups=2)
    return {
        "randomised response": OneStage(learner=LOGISTIC, **common),
        "domain prior": OneStage(learner=LOGISTIC, prior=Shares([0.5, 0.5]), **common),
        "model for a prior": OneStage(learner=LOGISTIC, prior=Pretrained(Constant(np.array([0.5, 0.5]))), **common),
        "groups for a prior": OneStage(learner=LOGISTIC, prior=grouped, **common),
        "two stages": MultiStage(learner=LOGISTIC, **common),
        "three stages": MultiStage(learner=LOGISTIC, stages=3, **common),
        "additive noise": Alibi(learner=LOGISTIC, **common),
    }


def audited(mechanism, seed, rows=ROWS):
    """One run: every label is a fair coin, and what was released for a row says how the coin probably fell."""
    labels = np.random.default_rng([seed, 1]).integers(0, 2, rows)
    if isinstance(mechanism, Alibi):
        scores = np.diff(mechanism._noise.log_density(mechanism.released(labels, seed)), axis=1)[:, 0]
    else:
        scores = 2.0 * mechanism.labels(FLAT[:rows], labels, seed) - 1.0
    evidence = CanaryScores(scores=scores, included=labels == 1, relation="label", sides="sign", seed=seed)
    return judge(evidence, mechanism.claim(0.0))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", mechanisms(1.0))
def test_half_the_noise_is_contradicted_and_the_honest_one_is_not(name, epsilon):
    """Of 8 honest audits at most 3 may be contradicted (all but one time in 2,000); the broken twin always is."""
    honest = [audited(mechanisms(epsilon)[name], seed, rows=20_000).contradicted for seed in range(8)]
    assert sum(honest) <= 3
    assert audited(mechanisms(epsilon, 0.5)[name], 99).contradicted


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_noisy_votes_with_half_the_noise_are_contradicted(epsilon):
    """The worst votes: two classes in a tie, and one teacher that decides it, on every query.

    Runs differ in the noise alone. The score is the number of answers for class 1, a sum of independent bits.
    """
    honest, broken = (
        Pate(epsilon=epsilon, classes=2, learner=LOGISTIC, teachers=9, queries=8, noise_scale=scale)
        for scale in (1.0, 0.5)
    )
    assert honest.claim(1e-5).epsilon <= epsilon
    assert honest.claim(1e-5).epsilon >= 0.999 * epsilon
    assert honest.claim(1e-5).mu == pytest.approx(4.0 / honest.sigma)
    votes = {world: np.tile([5 - world, 4 + world], (8, 1)) for world in (0, 1)}

    def verdict(mechanism, seed, runs):
        flat = {world: np.tile(each, (runs, 1)) for world, each in votes.items()}
        found = {w: mechanism.answers(flat[w], 2 * seed + w).reshape(runs, 8).sum(axis=1) for w in (0, 1)}
        evidence = RunScores(present=found[1] * 1.0, absent=found[0] * 1.0, relation="label", seed=seed)
        return judge(evidence, honest.claim(1e-5)).contradicted

    assert sum(verdict(honest, seed, 20_000) for seed in range(8)) <= 3
    assert verdict(broken, 99, 200_000)


def test_answers_follow_the_exact_law():
    """The noisy argmax of [14, 12, 10, 8, 6] with sigma 2, a golden vector."""
    mechanism = Pate(epsilon=1.0, classes=5, learner=LOGISTIC, queries=1, teachers=50)
    scaled = np.tile(np.array([14, 12, 10, 8, 6]) * mechanism.sigma / 2.0, (200_000, 1))
    counts = np.bincount(mechanism.answers(scaled, 3), minlength=5)
    law = np.array([0.725073, 0.222156, 0.046394, 0.005950, 0.000428])
    assert stats.chisquare(counts, law / law.sum() * 200_000).pvalue > 1e-3


def test_one_label_moves_one_teacher_by_one_vote(rng):
    x, y = blobs(rng, rows=400, classes=2)
    mechanism = Pate(epsilon=4.0, classes=2, learner=LOGISTIC, teachers=10, queries=50)
    counts, asked = mechanism.votes(x, y, 1)
    for row in (0, 17, 399):
        other = y.copy()
        other[row] = 1 - other[row]
        again, same = mechanism.votes(x, other, 1)
        assert np.array_equal(asked, same)
        assert np.abs(again - counts).sum(axis=1).max() <= 2
    assert np.array_equal(counts.sum(axis=1), np.full(50, 10))


def test_a_prior_that_is_counted_is_paid_for(rng):
    """Counts of labels in a group differ by 1 in two places; the Laplace law of each meets its share of epsilon."""
    x, y = blobs(rng, rows=300, classes=3)
    prior = Clusters(epsilon=0.5, groups=4)
    other = y.copy()
    other[5] = (y[5] + 1) % 3
    first, group = prior.counted(x, y, 3, 1)
    second, same = prior.counted(x, other, 3, 1)
    assert np.array_equal(group, same)
    assert np.abs(first - second).sum() == pytest.approx(2.0)  # times epsilon / 2: the loss is at most epsilon
    assert np.array_equal(first * 2.0**30, np.round(first * 2.0**30))
    mechanism = OneStage(epsilon=1.0, classes=3, learner=LOGISTIC, prior=prior)
    assert mechanism.claim(0.0).epsilon == 1.0
    with pytest.raises(InputError, match=r"above what the prior spends \(0.5\), got 0.4"):
        OneStage(epsilon=0.4, classes=3, learner=LOGISTIC, prior=prior)


def test_counted_priors_audited_at_their_own_epsilon():
    """Groups of one row each: the counts are the labels plus noise, and half of it is noticed."""

    def verdict(spent, promised, seed):
        labels = np.random.default_rng([seed, 2]).integers(0, 2, 600)
        prior = Clusters(epsilon=spent, groups=1)
        noise = np.stack([prior.counted(FLAT[:1], labels[i : i + 1], 2, seed + i)[0][0] for i in range(600)])
        scores = np.clip(np.diff(noise, axis=1)[:, 0], -1.0, 1.0)
        evidence = CanaryScores(scores=scores, included=labels == 1, relation="label", sides="sign", seed=seed)
        claim = OneStage(epsilon=promised, classes=2, learner=LOGISTIC).claim(0.0)
        return judge(evidence, claim).contradicted

    assert not verdict(2.0, 2.0, 10)
    assert verdict(4.0, 2.0, 10)


# ------------------------------------------------------------------------------------------------------- what is learnt


@pytest.mark.parametrize("learner", [LOGISTIC, Boosted(trees=40, depth=4)], ids=["logistic", "boosted"])
def test_everything_learns_more_with_a_larger_epsilon(learner, rng):
    x, y = blobs(rng, rows=4000)
    new_x, new_y = blobs(rng, rows=2000)
    for make in (
        lambda e: OneStage(epsilon=e, classes=3, learner=learner),
        lambda e: OneStage(epsilon=e, classes=3, learner=learner, prior=Clusters(epsilon=0.1 * min(e, 4.0), groups=20)),
        lambda e: OneStage(epsilon=e, classes=3, learner=learner, correct_noise=True),
        lambda e: MultiStage(epsilon=e, classes=3, learner=learner),
        lambda e: Alibi(epsilon=e, classes=3, learner=learner),
        lambda e: Pate(epsilon=e, classes=3, learner=learner, teachers=20, queries=60),
    ):
        right = [
            (make(e).release((x, y), 5).predict_proba(new_x).argmax(axis=1) == new_y).mean() for e in (0.1, 4.0, np.inf)
        ]
        assert right[2] > 0.8
        assert right[1] > 0.7
        assert right[0] < right[1]


def test_undoing_the_noise_mends_the_log_loss(rng):
    x, y = blobs(rng, rows=20_000, classes=2)
    new_x, new_y = blobs(rng, rows=5000, classes=2)

    def loss(correct):
        mechanism = OneStage(epsilon=1.0, classes=2, learner=LOGISTIC, correct_noise=correct)
        found = mechanism.release((x, y), 2).predict_proba(new_x)
        return -np.log(np.maximum(found[np.arange(5000), new_y], 1e-3)).mean()

    assert loss(True) < 0.85 * loss(False)


def test_a_domain_prior_of_rare_labels_releases_one_label_only(rng):
    """3% positives: below epsilon log(.97 / .03) = 3.48 the likeliest label is the best release for every row."""
    x, y = blobs(rng, rows=500, classes=2)
    for epsilon, kinds in ((1.0, 1), (3.4, 1), (4.0, 2)):
        mechanism = OneStage(epsilon=epsilon, classes=2, learner=LOGISTIC, prior=Shares([0.97, 0.03]))
        assert np.unique(mechanism.labels(x, y, 1)).size == kinds
    found = OneStage(epsilon=1.0, classes=2, learner=LOGISTIC, prior=Shares([0.97, 0.03])).release((x, y), 1)
    assert found.predict_proba(x)[0].tolist() == pytest.approx([501 / 502, 1 / 502])


def test_a_good_prior_tells_more_of_the_truth(rng):
    x, y = blobs(rng, rows=5000, classes=5, apart=3.0)
    plain = OneStage(epsilon=1.0, classes=5, learner=LOGISTIC)
    staged = MultiStage(epsilon=1.0, classes=5, learner=LOGISTIC)
    learnt = Pretrained(LOGISTIC.fit(*((lambda a, b: (a, one_hot(b, 5)))(*blobs(rng, 2000, 5, 3.0))), seed=1))
    informed = OneStage(epsilon=1.0, classes=5, learner=LOGISTIC, prior=learnt)
    right = [(each.labels(x, y, 3) == y).mean() for each in (plain, staged, informed)]
    assert right[0] < right[1] < right[2]


def test_any_classifier_learns_from_soft_labels(rng):
    from sklearn.tree import DecisionTreeClassifier

    x, y = blobs(rng, rows=600, classes=3)
    learner = Sklearn(lambda seed: DecisionTreeClassifier(max_depth=3, random_state=seed))
    model = learner.fit(x, one_hot(np.minimum(y, 1), 3), seed=1)
    assert model.predict_proba(x)[:, 2].tolist() == [0.0] * 600  # a class that no row had
    soft = 0.8 * one_hot(y, 3) + 0.2 / 3
    assert (learner.fit(x, soft, seed=1).predict_proba(x).argmax(axis=1) == y).mean() > 0.7
    only = learner.fit(x, one_hot(np.zeros(600, dtype=int), 3), seed=1)
    assert only.predict_proba(x)[0].tolist() == pytest.approx([601 / 603, 1 / 603, 1 / 603])


def test_the_same_seed_gives_the_same_model(rng):
    x, y = blobs(rng, rows=600, classes=3)
    for make in (
        OneStage(epsilon=1.0, classes=3, learner=Boosted(trees=5)),
        MultiStage(epsilon=1.0, classes=3, learner=LOGISTIC),
        Alibi(epsilon=1.0, classes=3, learner=LOGISTIC),
        Pate(epsilon=1.0, classes=3, learner=LOGISTIC, teachers=5, queries=20),
    ):
        first, again = (make.release((x, y), 4).predict_proba(x) for _ in range(2))
        assert np.array_equal(first, again)


def test_refusals(rng):
    x, y = blobs(rng, rows=30, classes=3)
    with pytest.raises(InputError, match="class numbers 0 to 1, got 0 to 2"):
        OneStage(epsilon=1.0, classes=2, learner=LOGISTIC).release((x, y), 1)
    with pytest.raises(InputError, match="must be 30 class numbers, got float64"):
        Alibi(epsilon=1.0, classes=3, learner=LOGISTIC).release((x, y * 0.5), 1)
    with pytest.raises(InputError, match="at most the 30 rows, got 100 and 100"):
        Pate(epsilon=1.0, classes=3, learner=LOGISTIC).release((x, y), 1)
    with pytest.raises(InputError, match="leave `prior` out"):
        OneStage(epsilon=1.0, classes=2, learner=LOGISTIC, prior=Shares([0.5, 0.5]), correct_noise=True)
    with pytest.raises(InputError, match="a law of 3 labels, got 2"):
        OneStage(epsilon=1.0, classes=3, learner=LOGISTIC, prior=Shares([0.5, 0.5])).release((x, y), 1)
    for made in (OneStage, MultiStage, Alibi, Pate):
        with pytest.raises(InputError, match="promises nothing"):
            made(epsilon=np.inf, classes=3, learner=LOGISTIC).claim(1e-5)
    with pytest.raises(InputError, match=r"`delta` must be in \(0, 1\)"):
        accounting.votes_noise_for(epsilon=1.0, delta=0.0, queries=3)
