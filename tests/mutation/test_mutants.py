"""The list of mutants cannot rot, and the harness tells a kill from a survivor; `make mutation` runs the list."""

import re
from pathlib import Path

import pytest

from tests.mutation import run
from tests.mutation.run import ROOT, Harness, Mutant, read

MUTANTS = read()


def test_identifiers_are_unique_and_reasons_are_sentences():
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS) >= 100
    for mutant in MUTANTS:
        assert re.fullmatch(r"[a-z0-9-]+", mutant.id)
        assert mutant.why[0].isupper()
        assert mutant.why.endswith(".")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_changes_one_line_that_stands_there_and_names_tests_that_exist(mutant):
    assert mutant.file.startswith("src/")
    assert len(run.occurrences((ROOT / mutant.file).read_text(), mutant.old)) == 1
    assert mutant.old.strip() == mutant.old != mutant.new.strip() == mutant.new
    tests = (ROOT / mutant.test).read_text()
    for name in mutant.only.split(" or "):
        assert re.search(rf"^def test_\w*{name.removeprefix('test_')}", tests, re.M), f"no test {name}"


LAW = "def limit(x):\n    if x > 1:\n        return 1\n    return x\n"
TEST = "import tiny\n\ndef test_limit():\n    assert tiny.limit(2) == 1\n    assert tiny.limit(0) == 0\n"


def planted(**changes):
    entry = {"file": "src/tiny.py", "test": "tests/test_tiny.py", "why": "It is a test."}
    return Mutant(**(entry | {"id": changes["new"], "old": "return 1"} | changes))


def test_the_harness_kills_what_a_test_sees_and_says_what_none_does(tmp_path):
    for name, text in (("src/tiny.py", LAW), ("tests/test_tiny.py", TEST), ("pytest.ini", "[pytest]\n")):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    mutants = [
        planted(new="return 2"),
        planted(old="if x > 1:", new="if x >= 1:"),
        planted(old="return 3", new="return 4"),
        planted(new="return ("),
        planted(new="return 1 / 0"),
        planted(new="return 5", only="no_such_test"),
        planted(new="import time; time.sleep(60)", seconds=1.0),
    ]
    unchanged, *found = Harness(tmp_path / "tree", tmp_path / "copies", processes=1).run(mutants)
    assert (unchanged.status, unchanged.fine) == ("green", True)
    assert [result.status for result in found] == [
        *("killed", "SURVIVED", "stale"),
        *("no mutant", "no mutant", "no mutant", "too slow"),
    ]
    assert [result.fine for result in found] == [True, *[False] * 6]
    assert found[0].words == "by test_limit"
    assert "ZeroDivisionError" in found[4].words
    assert (tmp_path / "tree" / "src" / "tiny.py").read_text() == LAW, "the sources themselves are never changed"


def test_tests_that_fail_without_any_change_are_called_red(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "tiny.py").write_text(LAW)
    (tmp_path / "test_red.py").write_text("def test_red():\n    assert False\n")
    found, _ = Harness(tmp_path, tmp_path / "copies", processes=1).run([planted(new="return 2", test="test_red.py")])
    assert (found.status, found.fine) == ("RED", False)
    (tmp_path / "test_red.py").write_text("import time\n\ndef test_red():\n    time.sleep(60)\n")
    endless = planted(new="return 2", test="test_red.py", seconds=1.0)
    found, _ = Harness(tmp_path, tmp_path / "others", processes=1).run([endless])
    assert (found.status, found.fine) == ("too slow", False), "what does not end is not green"


def test_the_command_line_ends_with_1_on_a_survivor(monkeypatch, capsys):
    class Still:
        def __init__(self, root: Path, folder: Path):
            pass

        def run(self, mutants):
            return [run.Result(id=one.id, status="SURVIVED", words="", seconds=0.0) for one in mutants]

    monkeypatch.setattr(run, "Harness", Still)
    assert run.main([MUTANTS[0].id]) == 1
    assert f"SURVIVED    0.0 s  {MUTANTS[0].id}\n0 of 1 mutants killed" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run.main(["no-such-mutant"])
