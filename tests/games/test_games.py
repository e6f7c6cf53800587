"""Games: coins before runs, commitments, the same evidence however it is run, refusals."""

import numpy as np
import pytest

from dpaudit import CanaryScores, InputError, RunScores, judge
from dpaudit.execution import Execution, RunFailed, load_function, stream
from dpaudit.games import Distinguisher, MultiRun, OneRun, Runner, check_commitment, commitment, fingerprint
from dpaudit.mechanisms import noise
from dpaudit.testing.broken import mechanisms as broken

SERIAL = Execution(workers=1)
SECRET = 2**100 + 12345


def score(world, seed):
    return float(world) + np.random.default_rng(seed).normal()


def scores(included, seed):
    return included + np.random.default_rng(seed).normal(size=included.size)


def test_multi_run_gives_runs_of_both_worlds():
    found = MultiRun(score=score, relation="add-remove", runs=200).play(seed=1, runner=Runner(SERIAL)).only
    assert isinstance(found, RunScores)
    assert found.present.size == found.absent.size == 200
    assert found.relation == "add-remove"
    assert 0.6 < found.present.mean() - found.absent.mean() < 1.4


def test_every_run_has_a_seed_of_its_own_and_the_worlds_share_none():
    seen = []
    MultiRun(score=lambda w, s: seen.append((w, s)) or 0.0, relation="label", runs=500).play(
        seed=3, runner=Runner(SERIAL)
    )
    assert len({seed for _, seed in seen}) == 1000
    worlds = np.array([world for world, _ in seen]).reshape(-1, 2)
    assert np.all(worlds.sum(axis=1) == 1), "of every two runs one is with the record"
    assert 200 < worlds[:, 0].sum() < 300, "in an order that coins decide"
    assert worlds.ravel().tolist() == MultiRun(score=score, relation="label", runs=500).coins(3).tolist()


@pytest.mark.parametrize("block", [1, 7, 64])
def test_blocks_do_not_change_the_evidence(block):
    bug = broken.specimens()["7"]
    many = Distinguisher(mechanism=bug.broken, **bug.attack)
    one_by_one = MultiRun(score=lambda w, s: many(w, s), relation="add-remove", runs=30)
    expected = one_by_one.play(seed=5, runner=Runner(SERIAL)).only
    blocks = MultiRun(score=many, relation="add-remove", runs=30, block=block)
    assert blocks.play(seed=5, runner=Runner(SERIAL)).only.digest == expected.digest


def test_one_run_includes_exactly_what_the_coins_say():
    seen = {}

    def watched(included, seed):
        seen.update(included=included, seed=seed)
        return scores(included, seed)

    game = OneRun(scores=watched, canaries=2000, relation="substitute", sides="included")
    found = game.play(seed=SECRET, runner=Runner(SERIAL)).only
    assert isinstance(found, CanaryScores)
    assert found.included.tolist() == seen["included"].tolist() == game.coins(SECRET).tolist()
    assert (found.relation, found.sides, found.assignment) == ("substitute", "included", "coins")
    assert 900 < found.included.sum() < 1100


def test_the_trainer_cannot_change_the_coins():
    def meddling(included, seed):
        included[:] = True
        return np.arange(included.size, dtype=float)

    found = OneRun(scores=meddling, canaries=100, relation="add-remove").play(seed=1, runner=Runner(SERIAL)).only
    assert not found.included.all()


@pytest.mark.parametrize(
    "game",
    [
        MultiRun(score=score, relation="add-remove", runs=50),
        OneRun(scores=scores, canaries=50, relation="add-remove"),
    ],
)
def test_commitments_bind(game):
    published = commitment(game, SECRET)
    assert published.startswith("sha256:")
    check_commitment(game, seed=SECRET, published=published)
    for other in (SECRET + 1, 0):
        with pytest.raises(InputError, match="not those that were committed to"):
            check_commitment(game, seed=other, published=published)


def test_coins_are_fair_and_differ_between_seeds():
    game = OneRun(scores=scores, canaries=64, relation="add-remove")
    coins = np.array([game.coins(seed) for seed in range(400)])
    assert abs(coins.mean() - 0.5) < 0.02
    assert np.unique(coins, axis=0).shape[0] == 400
    assert np.abs(np.corrcoef(coins.T) - np.eye(64)).max() < 0.25


def test_many_of_a_score_by_name(tmp_path):
    (tmp_path / "quick.py").write_text(
        "def score(world, seed):\n    return 0.0\ndef many(world, seeds):\n    return [7.0 for _ in seeds]\n"
        "score.many = many\n"
    )
    game = MultiRun(score=load_function("quick.py:score", folder=tmp_path), relation="label", runs=3, block=6)
    assert game.play(seed=0, runner=Runner(SERIAL)).only.present.tolist() == [7.0] * 3


def test_listed_files_belong_to_the_plan(tmp_path):
    data = tmp_path / "train.sh"
    data.write_text("echo 1")
    game = MultiRun(score=score, relation="label", runs=3, files=[str(data)])
    before = fingerprint(game, 0)
    data.write_text("echo 2")
    assert fingerprint(game, 0) != before
    with pytest.raises(InputError, match="there is no"):
        MultiRun(score=score, relation="label", runs=3, files=["none.txt"])
    with pytest.raises(InputError, match="`files` must be a list"):
        OneRun(scores=scores, canaries=3, relation="label", files=3)


def test_a_score_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def score(world, seed):\n    return world + seed % 7\n")
    monkeypatch.chdir(tmp_path)
    assert (
        MultiRun(score="mine.py:score", relation="label", runs=3).play(seed=0, runner=Runner(SERIAL)).only.present.size
        == 3
    )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: MultiRun(score=score, relation="neighbour", runs=3), "`relation` must be one of"),
        (lambda: MultiRun(score=score, relation="label", runs=0), "`runs` must be at least 1"),
        (lambda: MultiRun(score=score, relation="label", runs=10**12), "`runs` must be at most 10000000, got 1000"),
        (lambda: MultiRun(score=score, relation="label", runs=3, block=0), "`block` must be at least 1"),
        (lambda: MultiRun(score=3, relation="label", runs=3), "`score` must be a function of \\(world, seed\\)"),
        (lambda: MultiRun(score=lambda x: x, relation="label", runs=3), "`score` must be a function of"),
        (lambda: OneRun(scores=scores, canaries=0, relation="label"), "`canaries` must be at least 1"),
        (lambda: OneRun(scores=scores, canaries=10**12, relation="label"), "`canaries` must be at most 100000000"),
        (lambda: OneRun(scores=lambda: 1, canaries=3, relation="label"), "`scores` must be a function of"),
        (lambda: OneRun(scores=scores, canaries=3, relation="label", sides="left"), "`sides` must be one of"),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises(InputError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda w, s: float("nan"), r"run 0 \(world (True|False), seed \d+\) must return a finite score, got nan"),
        (lambda w, s: "high", "must return a number, got 'high'"),
        (lambda w, s: None, "must return a number, got None"),
        (lambda w, s: 1 / 0, r"run 0 \(world .*\) failed with ZeroDivisionError"),
    ],
)
def test_a_run_without_a_score_stops_the_game(bad, sentence):
    with pytest.raises(RunFailed, match=sentence):
        MultiRun(score=bad, relation="label", runs=3).play(seed=0, runner=Runner(SERIAL))


class Careless:
    def __call__(self, world, seed):
        return 0.0

    def many(self, world, seeds):
        return np.zeros(len(seeds) + 1)


def test_many_must_return_one_score_a_seed():
    with pytest.raises(RunFailed, match="one score a seed"):
        MultiRun(score=Careless(), relation="label", runs=3).play(seed=0, runner=Runner(SERIAL))


@pytest.mark.parametrize("bad", [lambda i, s: [1.0], lambda i, s: np.full(i.size, np.nan), lambda i, s: "x"])
def test_one_run_needs_a_score_for_every_canary(bad):
    with pytest.raises(RunFailed):
        OneRun(scores=bad, canaries=5, relation="label").play(seed=0, runner=Runner(SERIAL))


def test_one_run_against_a_known_mechanism():
    """Orthonormal canaries in a noisy sum: as leaky as promised is consistent, four times as much is not."""
    claim = noise.VectorSum(noise_multiplier=1.0).claim(1e-5)
    for spread, contradicted in ((1.0, False), (0.25, True)):

        def released(included, seed, spread=spread):
            return included + spread * np.random.default_rng(seed).normal(size=included.size)

        found = OneRun(scores=released, canaries=2000, relation="add-remove").play(seed=2, runner=Runner(SERIAL)).only
        assert judge(found, claim).contradicted is contradicted


def test_coins_are_halves_of_the_named_stream():
    """Coin i is head if the i-th uniform of the stream that seed and purpose name is below one half."""
    game = OneRun(scores=scores, canaries=20_000, relation="add-remove")
    uniforms = stream(7, "coins of canaries").random(20_000)
    assert game.coins(7).tolist() == (uniforms < 0.5).tolist()
    worlds = MultiRun(score=score, relation="add-remove", runs=20_000).coins(7).reshape(-1, 2)
    assert worlds[:, 0].tolist() == (stream(7, "worlds of runs").random(20_000) < 0.5).tolist()
    assert np.array_equal(worlds[:, 1], ~worlds[:, 0]), "the other run of a pair is in the other world"
