"""Records and evidence that were once written stay readable: sealed files of format 1, whatever is written today.

Each file is loaded, and its numbers are those that stand in the file; a report is drawn from it, and a published
zero-run audit can still be challenged. The files are never written again: another format gets files of its own.
"""

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

import dpaudit as da
from tests.cli.test_commands import run
from tests.golden import neutral

HERE = Path(__file__).parent
FIXTURES = HERE.parent.parent / "fixtures"
SEALS = {
    "failed-1.json": "ff6946e0e0c785b5",
    "multi_run-1.json": "10cc57548fbbb1e9",
    "observational-1.json": "3cb09e05669b2018",
    "panoramia-1.json": "598552a6cd804a26",
    "panoramia_asserted-1.json": "7a8f78bd6709999a",
    "several-1.json": "8d9adc05e1b4e9a7",
    "withheld-1.json": "5d1869137024609c",
    "zero_run-1.json": "9c1ba614475802a3",
    "canaries-1.evidence.parquet": "07c3ab4526e73766",
    "counts-1.evidence.parquet": "62df22ff41bc256c",
    "members-1.evidence.parquet": "e1aeeedeb3eeb5cb",
    "pairs-1.evidence.parquet": "cae8b1442da52211",
    "runs-1.evidence.parquet": "881a6f19db85443b",
    "zero_run-1.evidence.parquet": "769c36050c388b70",
}
"""Of every file, the beginning of its SHA-256."""
RECORDS = sorted(HERE.glob("*-1.json"))
EVIDENCE = sorted(HERE.glob("*-1.evidence.parquet"))
BOUND = {
    "value": "theta",
    "epsilon": "epsilon",
    "mu": "mu",
    "delta": "delta",
    "ceiling": "ceiling",
    "guesses": "guesses",
    "correct": "correct",
    "divergence": "closeness",
    "total": "total",
    "confidence": "confidence",
}
"""Neutral name of a number: its name in format 1."""


def written(path):
    """The records of a file as they stand there."""
    values = json.loads(path.read_text(encoding="utf-8"))
    return values.get("audits", [values])


def as_number(value):
    return neutral.number(math.inf if value == "infinity" else value)


def reals(value):
    """Every real number in a tree of plain values."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {leaf for entry in value for leaf in reals(entry)}
    return {value.hex()} if isinstance(value, float) else set()


def test_fixtures_are_never_written_again():
    files = [*RECORDS, *EVIDENCE]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files} == SEALS


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_numbers_of_a_record_are_those_of_the_file(path):
    for found, stands in zip(da.load_audits(path), written(path), strict=True):
        shown = neutral.audit(found)
        assert found.name == stands["name"]
        verdict = stands["verdict"]
        outcome = verdict["outcome"]
        assert shown["verdict"]["outcome"] == {"blocked": "withheld"}.get(outcome, outcome)
        assert shown["verdict"]["p-value"] == as_number(verdict["p_value"])
        assert shown["verdict"]["assumptions left"] == len(verdict["assumptions"])
        assert (shown["fails if"], shown["commitment"]) == (stands["failed_if"], stands["seeds"].get("commitment"))
        assert shown["simultaneous confidence"] == as_number(stands["together"])
        assert shown["budget"] == sorted(as_number(share["error"]) for share in stands["budget"])
        assert shown["ceiling"] == {name: as_number(value) for name, value in stands["ceiling"].items()}
        for bound, entry in zip(shown["bounds"], stands["bounds"], strict=True):
            assert_bound(bound, entry)
        beside = reals({name: check for name, check in stands.get("checks", {}).items() if name != "giveaways"})
        kept = reals([one.numbers | {"p": one.p_value, "level": one.check.level} for one in found.checks])
        assert beside <= kept, "a number of a check is lost"


def assert_bound(bound, entry):
    """A bound as it was loaded, and as it stands in the file."""
    for name, key in BOUND.items():
        if name in bound and key in entry and name != "value":
            assert bound[name] == as_number(entry[key]), name
    if entry.get("theta") is not None:
        assert bound["value"] == as_number(entry["theta"])
    if "orders" in entry:
        for name in ("orders", "divergences"):
            assert bound[name] == [as_number(value) for value in entry[name]]
    assert bound["assumptions"] == len(entry["assumptions"])


@pytest.mark.parametrize("path", [*RECORDS, FIXTURES / "audits-1.json"], ids=lambda path: path.stem)
def test_records_of_format_1_print_as_they_did(path):
    """`printed.json` holds what the version that wrote them printed: of each record, and of each bound by itself."""
    printed = json.loads((HERE / "printed.json").read_text(encoding="utf-8"))[path.name]
    found = da.load_audits(path)
    assert [str(one).splitlines() for one in found] == [one["lines"] for one in printed]
    assert [one.text["bounds"] for one in found] == [one["bounds"] for one in printed]


def test_one_record_loads_by_itself_and_several_do_not():
    assert da.load_audit(HERE / "multi_run-1.json").name == "half the noise"
    with pytest.raises(da.InputError, match="holds 6 audits"):
        da.load_audit(HERE / "several-1.json")


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.name.partition(".")[0])
def test_arrays_of_evidence_are_those_that_were_written(path):
    """`arrays.json` holds their hashes, as they were when the files were written."""
    frozen = json.loads((HERE / "arrays.json").read_text(encoding="utf-8"))
    assert neutral.evidence(da.load_evidence(path)) == frozen[path.name]


def test_reports_are_drawn(tmp_path, capsys):
    page = tmp_path / "report.html"
    code, printed, _ = run("report", *RECORDS, "--output", page, capsys=capsys)
    assert code == 0
    names = [stands["name"] for path in RECORDS for stands in written(path)]
    text = page.read_text(encoding="utf-8")
    assert all(name in text for name in names)
    assert all(name in printed for name in names)
    epsilon = written(HERE / "multi_run-1.json")[0]["bounds"][0]["epsilon"]
    assert f"{math.floor(100.0 * epsilon) / 100.0:.2f}" in text


@pytest.mark.parametrize(("told", "expected"), [("chance", 0), ("memberships", 1)])
def test_a_published_audit_can_be_challenged(told, expected, tmp_path, capsys):
    evidence = HERE / "zero_run-1.evidence.parquet"
    found = da.load_evidence(evidence)
    guesses = np.random.default_rng(1).normal(size=len(found.ids)) + (4.0 * found.member if told != "chance" else 0.0)
    rows = "\n".join(f"{one},{guess}" for one, guess in zip(found.ids, guesses, strict=True))
    (tmp_path / "blind.csv").write_text(f"id,score\n{rows}\n", encoding="utf-8")
    code, printed, _ = run(
        "challenge", HERE / "zero_run-1.json", evidence, "--blind", tmp_path / "blind.csv", capsys=capsys
    )
    assert code == expected
    assert "zero-run, learnt" in printed


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_of_format_1_can_be_written_again(path, tmp_path):
    """A former record is saved in today's format, and is still the same record."""
    found = da.load_audits(path)
    again = da.load_audits(found.save(tmp_path / "again.json"))
    assert list(again) == list(found)
    assert [str(one) for one in again] == [str(one) for one in found]
