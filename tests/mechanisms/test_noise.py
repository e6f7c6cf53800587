"""Noise mechanisms: exact distributions, the list of bugs caught, its honest twins left alone, the protocol kept."""

import numpy as np
import pytest
from scipy import stats

from dpaudit import InputError, Relation, judge
from dpaudit.execution import Execution
from dpaudit.games import Distinguisher, MultiRun, Runner
from dpaudit.mechanisms import GaussianSum, KaryResponse, LaplaceSum, Mechanism, VectorSum, noise
from dpaudit.testing import check_mechanism
from dpaudit.testing.broken import mechanisms as broken

SERIAL = Execution(workers=1)
ROWS = np.eye(6)[:, :4] * 3.0
SEEDS = list(range(4000))


@pytest.mark.parametrize("row", ["1", "2", "5", "6", "7", "13"])
def test_the_zoo_is_caught_and_its_honest_twins_are_not(row):
    """100 seeded audits of each: at least 90 contradicted, and at most 15 of the honest ones."""
    specimen = broken.specimens()[row]
    counts = {}
    for kind in ("broken", "honest"):
        mechanism = getattr(specimen, kind)
        score = Distinguisher(mechanism=mechanism, **specimen.attack)
        game = MultiRun(score=score, relation=mechanism.relation, runs=specimen.runs, block=10_000)
        claim = mechanism.claim(1e-5)
        played = (game.play(seed=seed, runner=Runner(SERIAL)).only for seed in range(100))
        counts[kind] = sum(judge(evidence, claim).contradicted for evidence in played)
    assert counts["broken"] >= 90, counts
    assert counts["honest"] <= 15, counts


def test_the_sizes_of_the_zoo_are_those_of_the_issue():
    sizes = {row: specimen.runs for row, specimen in broken.specimens().items()}
    assert sizes == {"1": 900, "2": 30, "5": 30, "6": 30, "7": 90, "13": 90}
    assert broken.specimens()["1"].honest.noise_multiplier == 4.0


MECHANISMS = [
    (GaussianSum(noise_multiplier=2.0), np.array([0.5, -3.0, 1.0])),
    (GaussianSum(noise_multiplier=2.0, relation="substitute"), np.array([0.5, -3.0, 1.0])),
    (LaplaceSum(epsilon=0.5), np.array([0.5, -3.0, 1.0])),
    (LaplaceSum(epsilon=0.5, relation="substitute"), np.array([0.5, -3.0, 1.0])),
    (VectorSum(noise_multiplier=1.5), ROWS),
    (VectorSum(noise_multiplier=1.5, batches=3, relation="zero-out"), ROWS),
    (KaryResponse(epsilon=1.0, classes=5), np.array([0, 4, 2, 2, 1, 0, 3])),
    (KaryResponse(epsilon=1.0, classes=2, relation="substitute"), np.array([0, 1, 1, 0, 1, 0, 1])),
]


@pytest.mark.parametrize(("mechanism", "dataset"), MECHANISMS, ids=lambda value: type(value).__name__)
def test_the_protocol_is_kept(mechanism, dataset):
    assert isinstance(mechanism, Mechanism)
    check_mechanism(mechanism, dataset)


@pytest.mark.parametrize("specimen", broken.specimens().values(), ids=lambda specimen: specimen.row)
def test_broken_twins_keep_the_protocol_and_promise_the_same(specimen):
    check_mechanism(specimen.broken, specimen.present)
    if specimen.row != "13":
        assert specimen.broken.claim(1e-5).mu == specimen.honest.claim(1e-5).mu
    else:
        assert specimen.broken.claim(1e-5).mu == specimen.honest.claim(1e-5).mu / 2.0


@pytest.mark.parametrize(
    ("source", "deviation"),
    [
        (noise.gaussian, 4.0),
        (noise.deviation_as_variance, 2.0),
        (noise.DividedTwice(8), 0.5),
        (noise.DividedAmongWorkers(4), 2.0),
    ],
)
def test_noise_has_the_deviation_that_its_name_says(source, deviation):
    drawn = source(np.random.default_rng(0), 4.0, (200, 100))
    assert drawn.std() == pytest.approx(deviation, rel=0.02)
    assert stats.kstest(drawn.ravel()[:3000] / deviation, "norm").pvalue > 1e-4


def test_shared_noise_is_shared():
    rng = np.random.default_rng(0)
    steps = noise.reused_key(rng, 1.0, (3, 5))
    assert np.all(steps == steps[0])
    assert np.unique(steps[0]).size == 5
    pixels = noise.broadcast_scalar(rng, 1.0, (3, 5))
    assert np.all(pixels == pixels[:, :1])
    assert np.unique(pixels[:, 0]).size == 3


def test_sums_are_clipped_and_noise_has_the_promised_law():
    released = np.array(GaussianSum(noise_multiplier=2.0).release_many(np.array([0.5, -3.0, 7.0]), SEEDS))
    assert stats.kstest((released - 0.5) / 2.0, "norm").pvalue > 1e-3
    laplace = np.array(LaplaceSum(epsilon=0.5, relation="substitute").release_many(np.array([1.0]), SEEDS))
    assert stats.kstest((laplace - 1.0) / 4.0, "laplace").pvalue > 1e-3
    vectors = np.array(VectorSum(noise_multiplier=1e-9, batches=2).release_many(ROWS, [0]))[0]
    assert vectors == pytest.approx(np.array([[1, 0, 1, 0], [0, 1, 0, 1.0]]), abs=1e-6)


@pytest.mark.parametrize(("rate", "epsilon"), [(noise.truth_rate, 1.0), (noise.binary_truth_rate, 1.0 + np.log(4.0))])
def test_randomised_response_answers_with_its_rates(rate, epsilon):
    mechanism = KaryResponse(epsilon=1.0, classes=5, rate=rate)
    answers = mechanism.release(np.full(200_000, 3), seed=1)
    counts = np.bincount(answers, minlength=5) / answers.size
    truth = np.exp(epsilon) / (np.exp(epsilon) + 4.0)
    assert counts[3] == pytest.approx(truth, abs=0.005)
    assert np.delete(counts, 3) == pytest.approx((1.0 - truth) / 4.0, abs=0.004)


def test_claims_follow_the_relation():
    assert GaussianSum(noise_multiplier=2.0).claim(1e-5).mu == 0.5
    assert GaussianSum(noise_multiplier=2.0, relation="substitute").claim(1e-5).mu == 1.0
    assert VectorSum(noise_multiplier=2.0, relation="substitute", accounted="add-remove").claim(1e-5).mu == 0.5
    assert LaplaceSum(epsilon=0.7, relation="substitute").claim(0.0).epsilon == 0.7
    assert KaryResponse(epsilon=0.7, classes=3).claim(0.0).relation is Relation.LABEL


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianSum(noise_multiplier=0.0),
        lambda: LaplaceSum(epsilon=-1.0),
        lambda: VectorSum(noise_multiplier=1.0, batches=0),
        lambda: KaryResponse(epsilon=1.0, classes=1),
        lambda: GaussianSum(noise_multiplier=1.0, relation="next to"),
    ],
)
def test_refusals(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize(
    ("mechanism", "promised"),
    [
        (LaplaceSum(epsilon=0.5, noise=noise.inverted_scale), LaplaceSum(epsilon=0.5)),
        (GaussianSum(noise_multiplier=0.4), GaussianSum(noise_multiplier=1.0)),
    ],
)
def test_other_bugs_show_too(mechanism, promised):
    """A Laplace scale given as its inverse, and a deviation that is less than claimed."""
    data = np.ones(5)
    for audited, contradicted in ((mechanism, True), (promised, False)):
        score = Distinguisher(mechanism=audited, present=data, absent=data[1:], statistic=float)
        evidence = (
            MultiRun(score=score, relation="add-remove", runs=300, block=600).play(seed=0, runner=Runner(SERIAL)).only
        )
        assert judge(evidence, promised.claim(0.0)).contradicted is contradicted
