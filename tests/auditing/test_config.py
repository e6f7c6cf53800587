"""Audit files: fields by name, defaults explained, every mistake one sentence with a hint."""

import re

import pytest

from dpaudit import InputError, Relation, UpperBound, accounting
from dpaudit.auditing.config import claim_text, load_config, parsed_claim
from dpaudit.games import MultiRun, OneRun, ZeroRunTable
from dpaudit.planning import plan_runs
from tests.conftest import gaussian_runs

CODE = """
import numpy as np

def score(world, seed):
    return float(world) + np.random.default_rng(seed).normal()

def scores(included, seed):
    return included + np.random.default_rng(seed).normal(size=included.size)
"""
CLAIM = 'claim = { mu = 1.0, delta = 1e-5, relation = "add-remove" }\n'
GAME = 'game.multi_run.score = "audit.py:score"\n'


@pytest.fixture
def load(tmp_path):
    (tmp_path / "audit.py").write_text(CODE)

    def loaded(text):
        (tmp_path / "audit.toml").write_text(text)
        return load_config(tmp_path / "audit.toml")

    loaded.folder = tmp_path
    return loaded


def test_the_example_of_the_design(load):
    found = load(
        "claim = { dp_sgd = { noise_multiplier = 1.1, sampling_rate = 0.01, steps = 1000 }, "
        'delta = 1e-5, relation = "add-remove" }\n'
        "audit = { seed = 7, confidence = 0.999999, detects = 0.5 }\n" + GAME
    )
    assert isinstance(found.game, MultiRun)
    assert found.game.relation is Relation.ADD_REMOVE
    assert found.game.runs == plan_runs(claim=found.claim, detects=0.5, confidence=0.999999)
    assert found.settings.name == "audit"
    text = found.explain()
    assert "planned: 0.5 of the promised noise is caught about 9 times of 10 by an attack as good as" in text
    assert re.search(r"audit\.delta +1e-05 +that of the claim", text)
    assert "that of the claim" in text
    assert "DP-SGD, PLD accountant" in text
    for line in ("audit.seed", "audit.fail_if", "game.multi_run.block", "execution.workers", "claim.unit"):
        assert line in text, line


@pytest.mark.parametrize(
    ("claim", "epsilon"),
    [
        ('{ mu = 1.0, relation = "add-remove" }', 4.377),
        ('{ laplace = { epsilon = 0.5 }, relation = "add-remove" }', 0.5),
        ('{ randomized_response = { epsilon = 0.5, classes = 4 }, relation = "label" }', 0.5),
        ('{ epsilon = 4.4, delta = 1e-5, relation = "add-remove" }', 4.4),
        ('{ dp_sgd = { noise_multiplier = 1.0, sampling_rate = 1.0, steps = 1 }, relation = "substitute" }', 9.997),
    ],
)
def test_claims(load, claim, epsilon):
    found = load(f"claim = {claim}\ngame.multi_run = {{ score = 'audit.py:score', runs = 5 }}")
    assert found.claim.epsilon == pytest.approx(epsilon, abs=2e-3)
    assert found.claim.unit == "record"


def test_a_table_of_members(load):
    """Every setting of the game but its folder is one of the file; what it takes by itself is shown."""
    lines = [f"{row % 2},{row % 7},{row / 3}" for row in range(40)]
    (load.folder / "t.csv").write_text("\n".join(["member,loss,age", *lines]))
    found = load("[game.zero_run]\ntable = 't.csv'\nhow = 'domain'\nheld = 0.4")
    assert isinstance(found.game, ZeroRunTable)
    assert (found.game.loss, found.game.features, found.game.held) == ("loss", ["age"], 0.4)
    assert found.game.game(1).how == "domain"
    for line in (r"how +domain +given", r"loss +loss +default", r"features +\['age'\] +default"):
        assert re.search(rf"game\.zero_run\.{line}", found.explain()), line
    assert "folder" not in found.explain()
    for text, words in (
        ("folder = '.'", "`game.zero_run.folder` is not a setting"),
        ("leave = ['age']", "did you mean `leave_out`"),
        ("how = 'generated'", "generated non-members need"),
    ):
        with pytest.raises(InputError, match=words):
            load(f"[game.zero_run]\ntable = 't.csv'\n{text}")
    with pytest.raises(InputError, match=r"`game.zero_run` needs `table`"):
        load("game.zero_run.how = 'later'")
    with pytest.raises(InputError, match="`detects` chooses the number of runs"):
        load("audit.detects = 0.5\ngame.zero_run.table = 't.csv'")


def test_one_run_and_evidence(load, rng):
    found = load(CLAIM + 'game.one_run = { scores = "audit.py:scores", canaries = 50 }')
    assert isinstance(found.game, OneRun)
    evidence = gaussian_runs(rng)
    evidence.save(load.folder / "seen.parquet")
    again = load(CLAIM + 'game.evidence.file = "seen.parquet"')
    assert again.game == evidence
    assert "seen.parquet" in again.explain()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "`game` is needed"),
        ("claim = 3\n" + GAME, "`claim` must be a table, got 3"),
        ("audti = {}\n" + GAME, "`audti` is not a setting.\nhint: did you mean `audit`\\?"),
        (CLAIM + "audit = { sede = 3 }\n" + GAME, "`audit.sede` is not a setting.\nhint: did you mean `seed`\\?"),
        (CLAIM + "audit = { zzz = 3 }\n" + GAME, "`audit.zzz` is not a setting.\nhint: it knows name"),
        (CLAIM + GAME + "game.multi_run.rums = 3", "did you mean `runs`\\?"),
        (CLAIM + "game.multirun.score = 'a.py:b'", "did you mean `multi_run`\\?"),
        (CLAIM + GAME + "game.one_run.canaries = 3", "`game` must name one of"),
        (CLAIM + "game.multi_run.runs = 3", "`game.multi_run.score` must be a text, got None"),
        (CLAIM + "game.multi_run.score = 3", "`game.multi_run.score` must be a text, got 3"),
        (CLAIM + "game.multi_run.score = 'audit.py:sore'", "'audit.py' has no function 'sore'"),
        (CLAIM + "game.multi_run.score = 'none.py:score'", "there is no 'none.py'"),
        (CLAIM + "game.evidence.file = 'none.parquet'", "no evidence file"),
        (CLAIM + "audit = { confidence = '0.9' }\n" + GAME, "`confidence` must be a number, got '0.9'"),
        (CLAIM + "audit = { confidence = 95 }\n" + GAME, "write 0.95 for 95%"),
        (CLAIM + "audit = { seed = -1 }\n" + GAME, "`seed` must be at least 0"),
        (CLAIM + "audit = { seed = 1.5 }\n" + GAME, "`seed` must be a whole number"),
        (CLAIM + "audit = { name = 3 }\n" + GAME, "`name` must be a text"),
        (CLAIM + "audit = { accept = 3 }\n" + GAME, "`accept` must be a list"),
        (CLAIM + "audit = { delta = 2.0 }\n" + GAME, "`delta` must be in"),
        (CLAIM + "audit = { detects = 0.5 }\n" + GAME + "game.multi_run.runs = 3", "leave one of them out"),
        (CLAIM + GAME + "game.multi_run.runs = 1.5", "`runs` must be a whole number"),
        (CLAIM + GAME + "game.multi_run.runs = 3\nexecution.workers = 0", "`workers` must be at least 1"),
        (CLAIM + GAME + "game.multi_run.runs = 3\nexecution.worker = 1", "did you mean `workers`"),
        (CLAIM + GAME + "game.multi_run.relation = 'x'\ngame.multi_run.runs = 3", "`relation` must be one of"),
        (GAME, "needs `relation` where there is no claim"),
        (GAME + "game.multi_run.relation = 'label'", "`runs` is needed without a claim"),
        ("claim = { mu = 1.0 }\n" + GAME, "`claim` needs `relation`"),
        ("claim = { relation = 'label' }\n" + GAME, "exactly one of .* got none"),
        ("claim = { mu = 1.0, epsilon = 1.0, relation = 'label' }\n" + GAME, "got mu and epsilon"),
        ("claim = { mu = -1.0, relation = 'label' }\n" + GAME, "`mu` must be at least 0"),
        ("claim = { mu = 1.0, relation = 'addremove' }\n" + GAME, "`relation` must be one of"),
        ("claim = { dp_sgd = 3, relation = 'label' }\n" + GAME, "`claim.dp_sgd` must be a table, got 3"),
        ("claim = { dp_sgd = { steps = 3 }, relation = 'label' }\n" + GAME, "`claim.dp_sgd` needs `noise_multiplier`"),
        ("claim = { dp_sgd = { step = 3 }, relation = 'label' }\n" + GAME, "did you mean `steps`"),
        ("claim = { laplace = { epsilon = 'x' }, relation = 'label' }\n" + GAME, "`epsilon` must be a number"),
        (
            CLAIM + "audit.detects = 0.5\ngame.one_run = { scores = 'audit.py:scores', canaries = 9 }",
            "has its own size",
        ),
        (CLAIM + GAME + "game.multi_run.files = ['none']\ngame.multi_run.runs = 3", "`files` must name files"),
        ("claim = { epsilon = 1.0, relation = 'label' }\n" + GAME, "`claim.delta` is needed beside"),
        ("claim = { mu = 1.0, delta = '', relation = 'label' }\n" + GAME, "`delta` must be a number"),
        ("claim = { mu = 1.0, source = 3, relation = 'label' }\n" + GAME, "`claim.source` must be a text"),
        ("claim = { mu = 1.0, unit = '', relation = 'label' }\n" + GAME, "`claim.unit` must be a word"),
        (CLAIM + GAME + "game.multi_run.unit = 3\ngame.multi_run.runs = 3", "`unit` must be a word"),
        (CLAIM + GAME + "game.multi_run.runs = 3\nexecution.address = 5", "`address` must be a text"),
        (CLAIM + GAME + "game.multi_run.runs = 3\nexecution.progress = 'yes'", "`progress` must be true or false"),
        (CLAIM + "audit = { accept = { a = 1 } }\n" + GAME, "`accept` must be a list of sentences"),
        ("claim = [", "is not valid TOML"),
        ("\x00", "is not valid TOML"),
    ],
)
def test_mistakes_get_one_sentence(load, text, sentence):
    with pytest.raises(InputError, match=sentence) as found:
        load(text)
    assert "'audit.toml'" in found.value.sentence or "audit.py" in str(found.value)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="no file"):
        load_config(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "claim",
    [
        accounting.gaussian(mu=0.7, delta=1e-6, relation="substitute", unit="user"),
        accounting.laplace(epsilon=0.5, relation="add-remove"),
        accounting.randomized_response(epsilon=0.5, classes=4, relation="label"),
        accounting.dp_sgd(noise_multiplier=1.1, sampling_rate=0.1, steps=10, delta=1e-5, relation="add-remove"),
        accounting.dp_sgd(noise_multiplier=1.1, sampling_rate=1.0, steps=10, delta=1e-5, relation="add-remove"),
        UpperBound(epsilon=3.0, delta=1e-5, relation="zero-out"),
    ],
    ids=lambda claim: claim.method,
)
def test_claims_are_restated_exactly(claim):
    again = parsed_claim(claim_text(claim))
    assert again == claim
    assert again.hypothesis.f(0.1) == claim.hypothesis.f(0.1)


def test_claims_that_cannot_be_restated_or_read():
    assert claim_text(accounting.independent_answers([([0.6, 0.4], [0.5, 0.5])], delta=0.0, relation="label")) is None
    for text in ("mu", "{ mu = 1.0", "3", '{ mu = 1.0, relation = "label" }\nx = 3', "{ mu = 1.0 }"):
        with pytest.raises(InputError):
            parsed_claim(text)
