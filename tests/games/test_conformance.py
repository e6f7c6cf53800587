"""Every game of the library keeps the protocol that a game of one's own is held to."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dpaudit as da
from dpaudit import games
from dpaudit.fitted.propensity import Boosted, Logistic
from dpaudit.games import MultiRun, plan_of
from dpaudit.mechanisms.dpsgd import DPSGDConfig
from dpaudit.testing import ConformanceError, check_game
from dpaudit.testing.conformance import changed_fields
from tests.golden import worlds

ELSEWHERE = da.assumptions.Assumption(id="elsewhere", sentence="somebody else looked", answered_by="auditor")
GROUPS = np.arange(300) // 2


def other_score(world, seed):
    return worlds.full_noise(world, seed + 1)


def other_canaries(included, seed):
    return -worlds.loud_canaries(included, seed)


def other_votes(world, seed):
    return worlds.votes(not world, seed)


def other_loss(asked):
    return np.abs(asked[:, 1])


def helper(rows, seed):
    return worlds.plain_loss


def view(rows, label, seed):
    return rows, lambda others: others


class Apart(worlds.Same):
    """Another generator."""


def multi_run():
    game = games.MultiRun(score=worlds.half_noise, relation="add-remove", runs=12)
    return game, {"score": other_score, "files": (__file__,)}


def one_run():
    game = games.OneRun(scores=worlds.loud_canaries, canaries=60, relation="add-remove")
    return game, {"scores": other_canaries, "sides": "sign", "files": (__file__,)}


def prediction():
    game = games.Prediction(answers=worlds.votes, classes=3, queries=2, trials=40, relation="substitute")
    return game, {"answers": other_votes, "classes": 4, "queries": 3, "files": (__file__,)}


def observational():
    game = worlds.matched(rows=60, others=50, assumed=(ELSEWHERE,))
    other = worlds.matched(rows=60, others=50, seed=3)
    again = games.Retrained(game.audited.target, game.placebo.target)
    given = {"audited": other.audited, "placebo": other.placebo, "redrawn": again, "assumed": ()}
    return game, {**given, "source": {"file": "rows.csv"}}


def held_out():
    """Rows that chance held out: evidence of another type, and about whole records."""
    game, others = observational()
    return replace(game, held_out_at_random=True), {**others, "protect": "record"}


def observational_coins():
    game = worlds.labels(rows=300, calibration_fraction=0.2)
    other = worlds.labels(rows=300, seed=3)
    given = {
        "counterfactual": other.counterfactual,
        "target": other.target,
        "reference": other.counterfactual,
        "attack": "difference",
    }
    given |= {"feature_names": ("a", "b", "c"), "log_ratio": 0.1, "group": GROUPS, "sample": 100, "population": 400}
    return game, {**given, "assumed": (ELSEWHERE,), "source": {"file": "rows.csv"}, "shift": 0.1}


def zero_run():
    scores, member, x = worlds.members(rows=300)
    game = games.ZeroRun(scores=scores, member=member, features=x, origin="later", assumed=(ELSEWHERE,))
    given = {"origin": "domain", "feature_names": ("a", "b", "c"), "propensity": Boosted(), "adversary": "unaware"}
    given |= {"log_odds_error": 0.2, "columns": {"age": x[:, 0]}, "sides": "sign", "assumed": ()}
    given |= {"source": {"file": "rows.csv"}, "group": np.argsort(np.argsort(~member, kind="stable")) // 2}
    return game, given


def panoramia():
    rows = np.random.default_rng(3).normal(size=(300, 3))
    game = worlds.made(members=rows, target=worlds.plain_loss)
    given = {"target": other_loss, "generator": Apart(), "generated": rows + 1.0, "helper": helper, "view": view}
    given |= {
        "classifiers": {"flat": LogisticRegression(C=0.1)},
        "shares": (0.2, 0.4, 0.4),
        "train_fraction": 0.5,
        "discard_fraction": 0.1,
    }
    given |= {"divergence": 1.0, "nonmembers": rows - 1.0, "group": GROUPS, "source": {"file": "rows.csv"}}
    return game, given


def from_evidence():
    rng = np.random.default_rng(0)
    seen = da.RunScores(present=rng.normal(size=9), absent=rng.normal(size=9), relation="label", unit="user", seed=3)
    return games.FromEvidence(seen), {"evidence": replace(seen, seed=4)}


def trained_runs():
    config = DPSGDConfig(noise_multiplier=4.0, steps=4, relation="substitute")
    x, y, canary = da.attacks.worst_case(config, records=10)
    score = da.attacks.ReleasedSum(canary.present)
    game = games.TrainedRuns(config=config, x=x, y=y, canary=canary, score=score, runs=8)
    given = {"config": replace(config, noise_multiplier=5.0), "at": 2, "score": da.attacks.Displacement(canary.present)}
    return game, {**given, "x": x + 1.0, "y": 1 - y, "canary": replace(canary, present=2.0 * canary.present)}


SMALL = [
    multi_run,
    one_run,
    prediction,
    observational,
    held_out,
    observational_coins,
    zero_run,
    panoramia,
    from_evidence,
    trained_runs,
]
FOLLOWS = {
    "observational": {"protect"},
    "observational_coins": {"relation"},
    "zero_run": {"relation"},
}
"""Fields that have no other value while the rest stays: whole records need rows that chance held out; a proxy decides
the relation, and so does whether propensities are known."""


def test_every_game_is_held_to_it():
    assert {type(make()[0]) for make in SMALL} == set(games.GAMES)


def broken(game, **how):
    """What a game does not keep."""
    try:
        check_game(game, **how)
    except ConformanceError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("make", SMALL, ids=lambda make: make.__name__)
def test_the_protocol_is_kept(make):
    game, others = make()
    assert broken(game, others=others) == ""
    changed = {name for name, _ in changed_fields(game, others)}
    left = {field.name for field in fields(game) if field.init} - changed
    assert left == FOLLOWS.get(make.__name__, set())


def test_the_relation_of_known_members_is_held_to_it():
    game = games.ZeroRun(**worlds.known_members(rows=200))
    check_game(game)
    assert "relation" in {name for name, _ in changed_fields(game, {})}


# ------------------------------------------------------------------------------------------------ what breaks it shows


@dataclass(frozen=True, kw_only=True, eq=False)
class Odd(MultiRun):
    """Keeps the protocol until a test replaces a part."""

    width: float = 1.0
    kind: ClassVar[str] = "odd"


def odd(**parts: Any):
    """An odd game of which some parts are replaced."""
    made = type("Changed", (Odd,), parts)
    return dataclass(frozen=True, kw_only=True, eq=False)(made)(score=worlds.half_noise, relation="label", runs=8)


def restless(self, seed):
    restless.calls += 1
    return np.random.default_rng(restless.calls).random(16) < 0.5


restless.calls = 0
UNHEARD = da.assumptions.Check(id="unheard", refutes="nobody-declared-it")


def measured(self, **how):
    found = MultiRun.play(self, **how)
    return replace(found, results=(da.assumptions.CheckResult(check=UNHEARD, outcome="measured"),))


def sharing(self, *, runner, **how):
    """Two maps with one store: the second finds the runs of the first."""
    found = MultiRun.play(self, runner=runner, **how)
    ((more,),) = runner.map(lambda job: [job], [0.5])
    return replace(found, evidence=(replace(found.only, present=found.only.present + more),))


def counting(self, *, runner, **how):
    """A run depends on how many this process has made before it, and after a kill that begins anew."""
    made = []

    def work(job):
        made.append(job)
        return [float(len(made))]

    later = runner.map(work, range(4))[-1][0]
    found = MultiRun.play(self, runner=replace(runner, store=None), **how)
    return replace(found, evidence=(replace(found.only, present=found.only.present + later),))


def assumed(self, **how):
    found = MultiRun.play(self, **how)
    return replace(found, evidence=(replace(found.only, assumptions=(ELSEWHERE,)),))


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({"plan": lambda self, seed: plan_of(self, leave_out=("width",))}, "the field `width` moves the fingerprint"),
        ({"plan": lambda self, seed: {**plan_of(self), "score": self.score}}, "`plan` is plain JSON"),
        ({"play": sharing}, "a play that was killed and resumed is the same play"),
        ({"play": counting}, "a play that was killed and resumed is the same play"),
        ({"coins": restless}, "the coins are fixed before the play"),
        ({"coins": lambda self, seed: np.arange(16) % 2 == 0}, "another seed gives other coins"),
        ({"purpose": ""}, "coins are tossed if and only if they have a purpose"),
        ({"evidence_type": da.CanaryScores}, "each evidence is of `evidence_type`"),
        ({"play": measured}, "`checks` has all that controls and results are of"),
        ({"play": assumed}, "`assumptions` has all that the evidence rests on"),
        ({"checks": (UNHEARD,)}, "what a check refutes is declared"),
    ],
)
def test_what_breaks_the_protocol_is_named(parts, rule):
    with pytest.raises(ConformanceError, match="the game breaks its protocol") as raised:
        check_game(odd(**parts))
    assert rule in str(raised.value)


def test_attempts_are_blind_to_the_data():
    @dataclass(frozen=True, kw_only=True, eq=False)
    class Peeks(games.ZeroRun):
        @property
        def attempts(self):
            return 2 if self.scores[0] > self.scores[-1] else 1

    scores, member, x = worlds.members(rows=120)
    with pytest.raises(ConformanceError, match="`attempts` does not depend on the values of `scores`"):
        check_game(Peeks(scores=np.sort(scores), member=member, features=x, propensity=Logistic()))


def test_the_odd_game_itself_is_fine():
    check_game(odd())
