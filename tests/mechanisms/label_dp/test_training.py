"""Training on private labels: what each promises, that half the noise is contradicted, and that something is learnt."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import stats

from dpaudit import CanaryScores, InputError, RunScores, accounting, judge
from dpaudit.execution import stream
from dpaudit.mechanisms import Alibi, MultiStage, OneStage, Pate
from dpaudit.mechanisms.label_dp import Boosted, Clusters, Logistic, Pretrained, Shares, Sklearn, releases, training
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
    distribution = np.array([0.725073, 0.222156, 0.046394, 0.005950, 0.000428])
    assert stats.chisquare(counts, distribution / distribution.sum() * 200_000).pvalue > 1e-3


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
    """Counts of labels in a group differ by 1 in two places; the Laplace noise of each meets its share of epsilon."""
    x, y = blobs(rng, rows=300, classes=3)
    prior = Clusters(epsilon=0.5, groups=4)
    other = y.copy()
    other[5] = (y[5] + 1) % 3
    first, group = prior.counted(x, y, 3, 1)
    second, same = prior.counted(x, other, 3, 1)
    assert np.array_equal(group, same)
    assert np.abs(first - second).sum() == pytest.approx(2.0)  # times epsilon / 2: the loss is at most epsilon
    mechanism = OneStage(epsilon=1.0, classes=3, learner=LOGISTIC, prior=prior)
    assert mechanism.claim(0.0).epsilon == 1.0
    with pytest.raises(InputError, match=r"above what the prior spends \(0.5\), got 0.4"):
        OneStage(epsilon=0.4, classes=3, learner=LOGISTIC, prior=prior)


def test_counted_priors_audited_at_their_own_epsilon():
    """Groups of one row each: the counts are the labels plus noise, and half of it is noticed."""

    def verdict(spent, promised, seed):
        labels = np.random.default_rng([seed, 2]).integers(0, 2, 250)
        prior = Clusters(epsilon=spent, groups=1)
        noise = np.stack([prior.counted(FLAT[:1], labels[i : i + 1], 2, seed + i)[0][0] for i in range(250)])
        scores = np.clip(np.diff(noise, axis=1)[:, 0], -1.0, 1.0)
        evidence = CanaryScores(scores=scores, included=labels == 1, relation="label", sides="sign", seed=seed)
        claim = OneStage(epsilon=promised, classes=2, learner=LOGISTIC).claim(0.0)
        return judge(evidence, claim).contradicted

    assert not verdict(2.0, 2.0, 10)
    assert verdict(6.0, 2.0, 10)


@dataclass
class Spy:
    """A learner that remembers what it was shown."""

    seen: list = field(default_factory=list)

    def fit(self, x, weights, *, seed, unlabelled=None):
        self.seen.append((len(x), weights.argmax(axis=1), seed))
        return LOGISTIC.fit(x, weights, seed=seed)


def test_learners_see_released_labels_only(rng):
    """Every label that reaches a learner is one that was released: the priors of later stages learn from those too."""
    x, y = blobs(rng, rows=3000)
    for made in (OneStage, MultiStage):
        spy = Spy()
        mechanism = made(epsilon=0.5, classes=3, learner=spy)
        mechanism.release((x, y), 3)
        released = mechanism.labels(x, y, 3)
        assert (released == y).mean() < 0.7
        sizes = [size for size, _, _ in spy.seen]
        assert sizes[0] == (3000 if made is OneStage else 1500)
        for size, labels, _ in spy.seen:
            if size == 3000:
                assert np.array_equal(labels, released)
            else:  # the first part, in the order of the stage
                part = np.array_split(stream(3, "stages").permutation(3000), 2)[0]
                assert np.array_equal(labels, released[part])


@pytest.mark.parametrize("made", [OneStage, MultiStage, Alibi])
def test_learners_have_seeds_of_their_own(made, rng, monkeypatch):
    """A learner that drew from the seed of the noise could undo it."""
    x, y = blobs(rng, rows=400)
    noise = []
    for release in (releases.PriorResponse, releases.AdditiveLaplace):
        drawn = release.release

        def watched(self, dataset, seed, drawn=drawn):
            noise.append(seed)
            return drawn(self, dataset, seed)

        monkeypatch.setattr(release, "release", watched)
    spy = Spy()
    made(epsilon=0.5, classes=3, learner=spy).release((x, y), 3)
    learnt = [seed for *_, seed in spy.seen]
    assert noise
    assert not set(noise) & set(learnt)
    assert len({*noise, *learnt, 3}) == len(noise) + len(learnt) + 1


def test_what_a_counted_prior_spends_is_left_out(rng, monkeypatch):
    """The labels are released with the rest of epsilon, and the prior is a function of its noisy counts alone."""
    x, y = blobs(rng, rows=400)
    asked = []
    make = training.PriorResponse

    def watched(**fields):
        asked.append(fields["epsilon"])
        return make(**fields)

    monkeypatch.setattr(training, "PriorResponse", watched)
    prior = Clusters(epsilon=0.3, groups=5)
    OneStage(epsilon=1.0, classes=3, learner=LOGISTIC, prior=prior).labels(x, y, 3)
    assert asked == [pytest.approx(0.7)]
    counts, group = prior.counted(x, y, 3, 9)
    positive = np.maximum(counts, 0.0) + 1.0
    expected = (positive / positive.sum(axis=1, keepdims=True))[group]
    np.testing.assert_allclose(prior.of(x, y, 3, 9).probabilities, expected, atol=2e-3)
    assert not np.array_equal(counts, np.round(counts))


def test_another_round_of_bayes_rule_helps(rng):
    """With features that say a lot, the second round's prior is right more often than a flat one."""
    x, y = blobs(rng, rows=3000, apart=3.0)
    new_x, new_y = blobs(rng, rows=2000, apart=3.0)

    def loss(rounds):
        found = Alibi(epsilon=1.0, classes=3, learner=LOGISTIC, rounds=rounds).release((x, y), 2).predict_proba(new_x)
        return -np.log(np.maximum(found[np.arange(2000), new_y], 1e-6)).mean()

    assert loss(2) < 0.95 * loss(1)


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
        first, again, other = (make.release((x, y), seed).predict_proba(x) for seed in (2**100, 2**100, 5))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


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
    with pytest.raises(InputError, match="a distribution of 3 labels, got 2"):
        OneStage(epsilon=1.0, classes=3, learner=LOGISTIC, prior=Shares([0.5, 0.5])).release((x, y), 1)
    for made in (OneStage, MultiStage, Alibi, Pate):
        with pytest.raises(InputError, match="promises nothing"):
            made(epsilon=np.inf, classes=3, learner=LOGISTIC).claim(1e-5)
        with pytest.raises(InputError, match="`noise_scale` must be"):
            made(epsilon=1.0, classes=3, learner=LOGISTIC, noise_scale=5.0)
        with pytest.raises(InputError, match="or infinite for labels as they are"):
            made(epsilon=40.0, classes=3, learner=LOGISTIC)
        with pytest.raises(TypeError, match="relation"):  # all teachers see all features: nothing else is protected
            made(epsilon=1.0, classes=3, learner=LOGISTIC, relation="substitute")
        with pytest.raises(InputError, match=r"a pair of features and labels"):
            made(epsilon=1.0, classes=3, learner=LOGISTIC).release(3, 1)
        with pytest.raises(InputError, match="features must be finite"):
            made(epsilon=1.0, classes=3, learner=LOGISTIC).release((np.full((30, 3), np.nan), y), 1)
        with pytest.raises(InputError, match="features must be an array"):
            made(epsilon=1.0, classes=3, learner=LOGISTIC).release(([1, 2], [0, 1]), 1)
    with pytest.raises(InputError, match="one line for each of the 30 rows"):
        Clusters(epsilon=0.1, features=np.zeros((60, 2))).of(x, y, 3, 1)
    with pytest.raises(TypeError, match="positional"):
        Shares([0.5, 0.5], -5.0)
    with pytest.raises(InputError, match="`stages` must be at most the 30 rows"):
        MultiStage(epsilon=1.0, classes=3, learner=LOGISTIC, stages=31).release((x, y), 1)
    with pytest.raises(InputError, match=r"`delta` must be in \(0, 1\)"):
        accounting.votes_noise_for(epsilon=1.0, delta=0.0, queries=3)
