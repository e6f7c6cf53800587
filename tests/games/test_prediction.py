"""Private prediction from the outside: counts of answers, audits of honest and broken ensembles, refusals."""

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier

import dpaudit as da
from dpaudit import InputError
from dpaudit.auditing.plan import load_config
from dpaudit.execution import Execution
from dpaudit.games import Prediction, Runner, check_commitment, commitment
from dpaudit.mechanisms.label_dp import Sklearn
from dpaudit.mechanisms.label_dp.networks import Network
from dpaudit.mechanisms.private_prediction import BUGS, FixedParties, NoisyVotes, RandomTeachers

ONE = Execution(workers=1)
VOTES = {True: np.array([[50, 51], [30, 70]]), False: np.array([[51, 50], [30, 70]])}


def asked(bug=None, sigma=10.0):
    mechanism = NoisyVotes(sigma=sigma, classes=2, bug=bug)
    return lambda world, seed: mechanism.release(VOTES[world], seed)


def game(answers, trials=300, **more):
    common = {"classes": 2, "queries": 2, "relation": "substitute", "independent": True}
    return Prediction(answers=answers, trials=trials, **(common | more))


def test_counts_follow_the_laws():
    found = game(asked(), trials=4000).play(seed=3, runner=Runner(ONE)).only
    mechanism = NoisyVotes(sigma=10.0, classes=2)
    for counts, world in ((found.present, True), (found.absent, False)):
        assert np.all(counts.sum(axis=1) == 4000)
        for line, votes in zip(counts, VOTES[world], strict=True):
            assert stats.chisquare(line, 4000 * mechanism.distribution(votes)).pvalue > 1e-3
    assert found.independent
    assert found.relation is da.Relation.SUBSTITUTE


def test_the_same_counts_from_any_block_and_after_a_kill(tmp_path):
    whole = game(asked(), trials=60).play(seed=3, runner=Runner(ONE)).only
    for block in (1, 7, 500):
        again = game(asked(), trials=60, block=block).play(seed=3, runner=Runner(ONE)).only
        assert np.array_equal(whole.present, again.present)
    calls = tmp_path / "calls"  # a file, because what a function closes over is part of its plan
    calls.write_text("")

    def breaks(world, seed):
        calls.write_text(calls.read_text() + ".")
        if len(calls.read_text()) == 45:
            raise RuntimeError("killed")
        return NoisyVotes(sigma=10.0, classes=2).release(VOTES[world], seed)

    store = tmp_path / "store.jsonl"
    first = da.audit(game(breaks, trials=60, block=10), claim=None, seed=3, execution=ONE, store=store)
    assert first.outcome is da.bounds.Outcome.FAILED
    done = da.audit(game(breaks, trials=60, block=10), claim=None, seed=3, execution=ONE, store=store)
    assert len(calls.read_text()) == 45 + 80  # four finished blocks of ten were kept
    assert np.array_equal(done.observed[0].present, whole.present)


def test_audits_of_honest_and_broken_answers():
    claim = NoisyVotes(sigma=10.0, classes=2).claim(1e-5)
    honest = da.audit(game(asked(), trials=2000), claim=claim, seed=1, execution=ONE)
    assert not honest.verdict.contradicted
    broken = da.audit(game(asked(BUGS[0])), claim=claim, seed=1, execution=ONE)
    assert broken.verdict.contradicted
    assert broken.plan["answers"].endswith("<lambda>") or "lambda" in broken.plan["answers"]
    assert broken.plan["trials"] == 300
    assert broken.bounds[0].divergences[0] > 0.5
    with pytest.raises(InputError, match="`fail_if` needs a bound on epsilon"):
        da.audit(game(asked()), fail_if="epsilon > 1", seed=1, execution=ONE)


def test_from_an_audit_file(tmp_path):
    (tmp_path / "audit.py").write_text("def answers(world, seed):\n    return [seed % 2, int(world)]\n")
    (tmp_path / "audit.toml").write_text(
        'claim = { mu = 0.5, delta = 1e-5, relation = "substitute" }\n'
        '[game.prediction]\nanswers = "audit.py:answers"\nclasses = 2\nqueries = 2\ntrials = 200\n'
    )
    configured = load_config(tmp_path / "audit.toml")
    game = configured.game.game(1)
    assert game.relation is da.Relation.SUBSTITUTE
    assert not game.independent
    found = da.audit(game, claim=configured.claim, seed=1, execution=ONE)
    assert found.verdict.contradicted
    check_commitment(game, seed=5, published=commitment(game, 5))


@pytest.mark.parametrize("bad", [lambda world, seed: [0], lambda world, seed: [0, 2], lambda world, seed: [0.5, 1.0]])
def test_a_trial_without_an_answer_is_a_failed_run(bad):
    found = da.audit(game(bad), seed=1, execution=ONE)
    assert found.outcome is da.bounds.Outcome.FAILED
    assert "2 whole numbers from 0 to 1" in found.verdict.sentence


def test_refusals():
    with pytest.raises(InputError, match="`answers` must be a function"):
        game(3)
    with pytest.raises(InputError, match="`independent` must be true or false"):
        game(asked(), independent="yes")
    with pytest.raises(InputError, match="`trials` must be at least 1"):
        game(asked(), trials=0)


# ------------------------------------------------------------------------------------------- from rows to a verdict


def rows_of_parties(record):
    """Eleven parties with six rows each; five have rows of class 1 near the query, six have not. With the record, one
    row of the last party there is of class 1 too, and turns its vote."""
    rng = np.random.default_rng(5)
    party = np.repeat(np.arange(11), 6)
    x = rng.normal(0.0, 0.05, size=(66, 1)) + np.tile([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0], 11)[:, None]
    y = np.where(party < 5, 1, np.tile([1, 1, 1, 0, 0, 0], 11))
    if record:
        mine = np.flatnonzero(party == 10)[3:]
        y[mine[0]], x[mine[0]] = 1, 0.9
    return (x, y, party)


QUERY = np.array([[0.9]])
NEAREST = Sklearn(lambda seed: KNeighborsClassifier(1))


def ensemble_answers(bug):
    """CaPC as it is: parties learn from their rows, vote on the query, and noise is added to the counts."""
    voters = FixedParties(learner=NEAREST, classes=2)
    votes = {world: voters.votes(rows_of_parties(world), QUERY, 0) for world in (True, False)}
    assert np.abs(votes[True] - votes[False]).sum() == 2  # one record, one vote
    mechanism = NoisyVotes(sigma=4.0, classes=2, bug=bug)
    return lambda world, seed: mechanism.release(votes[world], seed)


@pytest.mark.parametrize(("bug", "contradicted"), [(None, False), (BUGS[0], True)])
def test_an_ensemble_from_its_rows_to_the_verdict(bug, contradicted):
    claim = NoisyVotes(sigma=4.0, classes=2).claim(1e-5)
    asked_once = {"classes": 2, "queries": 1, "relation": "substitute", "trials": 400}
    found = da.audit(Prediction(answers=ensemble_answers(bug), **asked_once), claim=claim, seed=1, execution=ONE)
    assert found.verdict.contradicted == contradicted


def test_honest_pate_from_its_rows_to_the_verdict():
    """Rows dealt at random and teachers trained anew in every trial; the claim is not contradicted."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 2)) + np.repeat([[-0.5, 0.0], [0.5, 0.0]], 30, axis=0)
    y = np.repeat([0, 1], 30)
    point = np.array([[0.0, 0.0]])
    more = np.concatenate([x, point]), np.append(y, 1)
    voters = RandomTeachers(learner=NEAREST, classes=2, teachers=8)
    mechanism = NoisyVotes(sigma=4.0, classes=2, relation="add-remove")

    def answers(world, seed):
        return mechanism.release(voters.votes(more if world else (x, y), point, seed), seed + 1)

    asked_once = {"classes": 2, "queries": 1, "relation": "add-remove", "trials": 150}
    found = da.audit(Prediction(answers=answers, **asked_once), claim=mechanism.claim(1e-5), seed=2, execution=ONE)
    assert found.outcome in (da.Outcome.CONSISTENT, da.Outcome.UNINFORMATIVE)


def test_independent_queries_also_get_the_bound_of_all_of_them():
    found = da.audit(game(asked(BUGS[0]), trials=2000), claim=None, seed=3, execution=ONE)
    every = found.bounds[1]
    assert every.divergences[0] > 0.0
    assert "independent" in " ".join(map(str, every.assumptions))
    shared = da.audit(game(asked(BUGS[0]), trials=300, independent=False), claim=None, seed=3, execution=ONE)
    assert len(shared.bounds) == 1


def test_small_networks_are_teachers_too():
    rng = np.random.default_rng(7)
    pictures = rng.random((30, 8, 8))
    labels = np.arange(30) % 3
    network = Network(epochs=1, channels=(2, 2), hidden=4)
    for voters in (
        RandomTeachers(learner=network, classes=3, teachers=4),
        FixedParties(learner=network, classes=3),
    ):
        rows = (pictures, labels) if isinstance(voters, RandomTeachers) else (pictures, labels, np.arange(30) % 4)
        votes = voters.votes(rows, pictures[:5], 1)
        assert votes.shape == (5, 3)
        assert np.all(votes.sum(axis=1) == 4)
        assert np.array_equal(votes, voters.votes(rows, pictures[:5], 1))


def test_a_record_can_be_read_back(tmp_path):
    found = da.audit(game(asked(), trials=50), claim=None, seed=3, execution=ONE)
    again = da.load_audit(found.save(tmp_path / "found.json"))
    assert again.to_dict() == found.to_dict()
