"""`dpaudit run` on a table of members: the example, what is written, and refusals that write nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpaudit as da
from tests.cli.test_commands import run

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "panoramia"


def test_the_example(tmp_path, capsys):
    code, printed, _ = run("run", EXAMPLE / "audit.toml", "--output", tmp_path, capsys=capsys)
    assert code == 0
    name = "the-trees-of-the-customers"
    files = {f"{name}.evidence.parquet", f"{name}.json", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == files
    record = da.load_audit(tmp_path / f"{name}.json")
    (region,) = record.bounds
    assert region.divergence < 0.5 < 2.0 < region.total
    assert {entry["id"]: entry["bound"].epsilon > 2.0 for entry in record.comparisons} == {
        "with-real": True,
        "alone": True,
    }
    assert record.plan["source"]["generator"] == "sequential trees"
    assert "The baseline (" in printed
    assert "with real non-members, epsilon >= " in printed
    shown = run("run", EXAMPLE / "audit.toml", "--commit", capsys=capsys)[1]
    assert record.seeds["commitment"] in shown
    assert "game.panoramia.model" in run("run", EXAMPLE / "audit.toml", "--explain", capsys=capsys)[1]


def test_the_tables_are_what_the_script_makes(tmp_path):
    shutil.copy(EXAMPLE / "make_table.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "make_table.py"], check=True)
    for name in ("members.csv", "others.csv"):
        assert (tmp_path / name).read_text() == (EXAMPLE / name).read_text()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('label = "clicked"', 'label = "bought"', "the table has no column 'bought'"),
        ('label = "clicked"', "", "`model` needs `label`"),
        ('members = "members.csv"', 'members = "nobody.csv"', "there is no 'nobody.csv'"),
        ('members = "members.csv"', 'member = "members.csv"', "did you mean `members`"),
        ('nonmembers = "others.csv"', 'generated = "others.csv"', "`generated` must hold at least"),
        ('nonmembers = "others.csv"', "shares = [0.5, 0.5, 0.5]", "`shares` must be three that add up to 1"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path, capsys, before, after, words):
    place = tmp_path / "example"
    shutil.copytree(EXAMPLE, place)
    text = (place / "audit.toml").read_text()
    assert before in text
    (place / "audit.toml").write_text(text.replace(before, after))
    code, printed, trouble = run("run", place / "audit.toml", "--output", tmp_path / "out", capsys=capsys)
    assert (code, printed) == (2, "")
    assert words in trouble
    assert "Traceback" not in trouble
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []
