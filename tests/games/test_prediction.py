"""Private prediction from the outside: counts of answers, audits of honest and broken ensembles, refusals."""

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import InputError
from dpaudit.auditing.config import load_config
from dpaudit.execution import Execution
from dpaudit.games import Prediction, verify
from dpaudit.mechanisms.private_prediction import BUGS, NoisyVotes

ONE = Execution(workers=1)
VOTES = {True: np.array([[50, 51], [30, 70]]), False: np.array([[51, 50], [30, 70]])}


def asked(bug=None, sigma=10.0):
    mechanism = NoisyVotes(sigma=sigma, classes=2, bug=bug)
    return lambda world, seed: mechanism.release(VOTES[world], seed)


def game(answers, trials=300, **more):
    common = {"classes": 2, "queries": 2, "relation": "substitute", "independent": True}
    return Prediction(answers=answers, trials=trials, **(common | more))


def test_counts_follow_the_laws():
    found = game(asked(), trials=4000).play(seed=3, execution=ONE)
    mechanism = NoisyVotes(sigma=10.0, classes=2)
    for counts, world in ((found.present, True), (found.absent, False)):
        assert np.all(counts.sum(axis=1) == 4000)
        for line, votes in zip(counts, VOTES[world], strict=True):
            assert stats.chisquare(line, 4000 * mechanism.law(votes)).pvalue > 1e-3
    assert found.independent
    assert found.relation is da.Relation.SUBSTITUTE


def test_the_same_counts_from_any_block_and_after_a_kill(tmp_path):
    whole = game(asked(), trials=60).play(seed=3, execution=ONE)
    for block in (1, 7, 500):
        again = game(asked(), trials=60, block=block).play(seed=3, execution=ONE)
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
    assert np.array_equal(done.observed.present, whole.present)


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
    assert configured.game.relation is da.Relation.SUBSTITUTE
    assert not configured.game.independent
    found = da.audit(configured.game, claim=configured.claim, seed=1, execution=ONE)
    assert found.verdict.contradicted
    verify(configured.game, seed=5, published=configured.game.commitment(5))


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
