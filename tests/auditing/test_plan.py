"""Audit files: parameters by name, defaults explained, every mistake one sentence with a hint."""

import re

import pytest
from typer.testing import CliRunner

from dpaudit import InputError, Relation, UpperBound, accounting, load_audit
from dpaudit.auditing.plan import claim_text, load_config, parsed_claim
from dpaudit.auditing.power import plan_runs
from dpaudit.cli import app
from dpaudit.games import FromEvidence, MultiRun, OneRun, ZeroRun
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

    def loaded(text, **changes):
        (tmp_path / "audit.toml").write_text(text)
        return load_config(tmp_path / "audit.toml", **changes)

    loaded.folder = tmp_path
    return loaded


def test_the_example_of_the_design(load):
    found = load(
        "claim = { dp_sgd = { noise_multiplier = 1.1, sampling_rate = 0.01, steps = 1000 }, "
        'delta = 1e-5, relation = "add-remove" }\n'
        "audit = { seed = 7, confidence = 0.999999, detects = 0.5 }\n" + GAME
    )
    game = found.game.game(7)
    assert isinstance(game, MultiRun)
    assert game.relation is Relation.ADD_REMOVE
    assert game.runs == plan_runs(claim=found.claim, detects=0.5, confidence=0.999999)
    assert found.settings.name == "audit"
    text = found.explain()
    assert "derived: 0.5 of the promised noise is caught about 9 times of 10 by an attack as good as" in text
    assert re.search(r"audit\.delta +1e-05 +derived: that of the claim", text)
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
    """Every setting of the game but its folder is one of the file; no table is read before the game is made."""
    found = load("[game.zero_run]\ntable = 't.csv'\norigin = 'domain'\nfit_fraction = 0.4")
    for line in (
        r"origin +domain +given\n +Where the non-members come from",
        r"fit_fraction +0\.4 +given",
        r"loss +None +default",
    ):
        assert re.search(rf"game\.zero_run\.{line}", found.explain()), line
    assert "zero_run.folder" not in found.explain()
    with pytest.raises(InputError, match=r"'audit.toml': `table` must name files, and there is no 't.csv'"):
        found.game.game(1)
    lines = [f"{row % 2},{row % 7},{row / 3}" for row in range(40)]
    (load.folder / "t.csv").write_text("\n".join(["member,loss,age", *lines]))
    game = found.game.game(1)
    assert isinstance(game, ZeroRun)
    assert (game.origin, game.fit_fraction, game.source["score"], game.source["features"]) == (
        "domain",
        0.4,
        "-loss",
        ["age"],
    )
    for text, words in (
        ("folder = '.'", "`game.zero_run.folder` is not a setting"),
        ("leave = ['age']", "did you mean `leave_out`"),
        ("how = 'later'", "`game.zero_run.how` is not a setting"),
        ("origin = 'generated'", "generated non-members need"),
    ):
        with pytest.raises(InputError, match=words):
            load(f"[game.zero_run]\ntable = 't.csv'\n{text}").game.game(1)
    with pytest.raises(InputError, match=r"`game.zero_run` needs `table`"):
        load("game.zero_run.origin = 'later'")
    with pytest.raises(InputError, match="`detects` chooses the number of runs"):
        load("audit.detects = 0.5\ngame.zero_run.table = 't.csv'")


def test_one_run_and_evidence(load, rng):
    found = load(CLAIM + 'game.one_run = { scores = "audit.py:scores", canaries = 50 }')
    assert isinstance(found.game.game(1), OneRun)
    evidence = gaussian_runs(rng)
    evidence.save(load.folder / "seen.parquet")
    again = load(CLAIM + 'game.evidence.file = "seen.parquet"')
    assert again.game.game(1) == FromEvidence(evidence)
    assert "seen.parquet" in again.explain()
    (load.folder / "runs.csv").write_text("member,score\n" + "\n".join(f"{k % 2},{k}" for k in range(8)))
    table = load(CLAIM + 'game.evidence = { table = "runs.csv", assignment = "runs", relation = "add-remove" }')
    assert table.game.game(1).evidence.present.tolist() == [1.0, 3.0, 5.0, 7.0]


def test_settings_from_the_command_line(load):
    """`--set` goes the way of the file: the same keys, the same values, the same refusals."""
    text = CLAIM + "game.multi_run = { score = 'audit.py:score', runs = 3 }"
    found = load(text, changes=["game.multi_run.runs = 9", 'claim.relation="zero-out"', "execution.workers=1"])
    game = found.game.game(0)
    assert (game.runs, str(game.relation), found.execution.workers) == (9, "zero-out", 1)
    for line in (
        r"game\.multi_run\.runs +9 +set",
        r"claim\.relation +zero-out +set",
        r"game\.multi_run\.score .*given",
    ):
        assert re.search(line, found.explain()), line
    for change, words in (
        ("game.multi_run.rums = 9", "did you mean `runs`"),
        ("game.one_run.canaries = 9", "`game` must name one of"),
        ("game.multi_run.unit = user", r"`--set` must be a setting.*\nhint: texts are in quotation marks"),
        ("runs", "`--set` must be a setting"),
        ("game.multi_run = 3", "`game.multi_run` must be a table|`multi_run` must be a table"),
    ):
        with pytest.raises(InputError, match=words):
            load(text, changes=[change])


def test_nothing_is_read_to_explain(load):
    """No table, no model, no score: only the file itself."""
    told = "table = 'none.csv', label = 'y', target = 'none.py:f', counterfactual = 'p', features = ['x']"
    text = f"game.observational_coins = {{ {told} }}"
    assert "none.py:f" in load(text).explain()
    assert "none.py:score" in load(CLAIM + "game.multi_run.score = 'none.py:score'").explain()


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
        (CLAIM + "game.multi_run.runs = 3", "`game.multi_run` needs `score`"),
        (CLAIM + "game.multi_run.score = 3", "`score` must be a function of .world, seed., got 3"),
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
        (CLAIM + "audit = { accept = { a = 1 } }\n" + GAME, "`accept` must be a list of ids"),
        ("claim = [", "is not valid TOML"),
        ("\x00", "is not valid TOML"),
    ],
)
def test_mistakes_get_one_sentence(load, text, sentence):
    with pytest.raises(InputError, match=sentence) as found:
        load(text).game.game(0)
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


def test_set_and_explain_from_the_shell(load):
    """The command prints the origin of every setting and what it is; a mistake names its file."""
    load(CLAIM + "game.multi_run = { score = 'audit.py:score', runs = 3 }")
    file, runner = str(load.folder / "audit.toml"), CliRunner()
    done = runner.invoke(app, ["run", file, "--explain", "--set", "game.multi_run.runs=5", "--set", "audit.seed=2"])
    assert done.exit_code == 0
    assert re.search(r"game\.multi_run\.runs +5 +set\n +Runs in each world\.", done.output)
    out = str(load.folder / "out")
    done = runner.invoke(app, ["run", file, "--output", out, "--set", "game.multi_run.score='none.py:score'"])
    assert str(done.exception).startswith("'audit.toml': `score` must name a Python file, and there is no 'none.py'.")
    assert not (load.folder / "out").exists()
    done = runner.invoke(app, ["run", file, "--output", out, "--workers", "1", "--set", "game.multi_run.runs=5"])
    assert load_audit(load.folder / "out" / "audit.json").plan["runs"] == 5
