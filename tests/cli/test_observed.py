"""The example of a trained model on the command line: its settings explained, its evidence estimated again."""

import json
import re
from pathlib import Path

import pytest

import dpaudit as da
from dpaudit.auditing.plan import Settings, settings_of
from dpaudit.evidence import load_evidence
from dpaudit.execution import Execution
from dpaudit.games import MatchedRows
from tests.cli.test_commands import run
from tests.golden import worlds

EXAMPLE = Path(__file__).parents[2] / "examples" / "observed_model" / "audit.toml"
LINE = re.compile(r"^(\S+) +(.*?) +(default|given)$")


def test_every_setting_is_explained(capsys):
    code, out, _ = run("run", EXAMPLE, "--explain", capsys=capsys)
    assert code == 0
    lines = out.splitlines()
    keys, meanings = lines[::2], lines[1::2]
    assert all(LINE.match(key) for key in keys)
    assert all(meaning.startswith("    ") and len(meaning.split()) >= 3 for meaning in meanings)
    told = {LINE.match(key).group(1): LINE.match(key).group(3) for key in keys}
    game = [name.removeprefix("game.observational.") for name in told if name.startswith("game.")]
    assert game == list(settings_of(MatchedRows.from_table))
    assert {f"audit.{name}" for name in Settings.__dataclass_fields__} <= set(told)
    given = {name.rpartition(".")[2] for name, where in told.items() if where == "given" and name.startswith("game.")}
    assert given == {"table", "label", "target", "features", "placebo"}


@pytest.fixture(scope="module")
def evidence():
    return worlds.matched(rows=400, others=300).play(seed=1).only


def test_saved_guesses_are_estimated_again(evidence, tmp_path, capsys):
    """The file holds all that the bounds need: they are those of the play, and of the library call."""
    file = tmp_path / "guesses.parquet"
    evidence.save(file)
    assert load_evidence(file) == evidence
    assert load_evidence(file).digest == evidence.digest
    found = da.audit(load_evidence(file), delta=0.0, execution=Execution(workers=1))
    played = da.audit(worlds.matched(rows=400, others=300), seed=1, delta=0.0, execution=Execution(workers=1))
    assert [one.value for one in found.bounds] == [one.value for one in played.bounds]
    assert found.figures["recognition"] == played.figures["recognition"]
    assert found.result("two-bounds").numbers == played.result("two-bounds").numbers
    code, out, _ = run("estimate", file, "--delta", 0, "--json", capsys=capsys)
    assert code == 0
    assert found.bounds[0].epsilon in _numbers(json.loads(out))


def _numbers(value):
    value = list(value.values()) if isinstance(value, dict) else value
    return [leaf for one in value for leaf in _numbers(one)] if isinstance(value, list) else [value]


def test_what_is_estimated_again_says_what_it_rests_on(evidence, tmp_path, capsys):
    evidence.save(tmp_path / "guesses.parquet")
    code, out, _ = run("estimate", tmp_path / "guesses.parquet", "--delta", 0, capsys=capsys)
    assert code == 0
    assert "epsilon >= " in out
    assert "either the proxy knows how likely each value is" in out
