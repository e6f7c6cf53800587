"""Tables of the reference that the tool itself is made of: outcomes, exit codes, formats of files."""

import ast
import importlib.util
from pathlib import Path

import dpaudit as da
from dpaudit.record import files as records
from dpaudit.record.values import EXIT_CODES
from dpaudit.reporting import text
from tests.counts import sources
from tests.test_house import audits

DOCS = Path(__file__).parent.parent / "docs"


def reference(heading):
    """First columns of the table under a heading of the reference."""
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    part = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [
        tuple(cell.strip(" `") for cell in line.strip("|").split(" | ")) for line in part.splitlines() if "|" in line
    ][2:]


def test_outcomes_are_listed():
    assert [row[0] for row in reference("Outcomes")] == [str(outcome) for outcome in da.Outcome]
    assert [row[1] for row in reference("Outcomes")] == [text.WORDS[outcome] for outcome in da.Outcome]


def test_exit_codes_are_listed_and_used():
    assert reference("Exit codes") == [(str(code), meaning) for code, meaning in EXIT_CODES.items()]
    used = {audit_code for audit in audits() for audit_code in [da.record.as_audits(audit).exit_code()]}
    assert used <= set(EXIT_CODES)
    codes = [
        (name, value.value)
        for name, source in sources()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Exit", "sys.exit", "SystemExit")
        for argument in node.args
        for value in ast.walk(argument)
        if isinstance(value, ast.Constant) and isinstance(value.value, int)
    ]
    assert {code for _, code in codes} <= set(EXIT_CODES), codes


def test_formats_are_listed():
    from dpaudit.evidence import types as evidence

    listed = {name: (written, read) for name, written, read in reference("Formats of files")}
    assert listed == {
        "record (JSON)": (str(records.FORMAT), ", ".join(map(str, records.FORMATS))),
        "evidence (Parquet)": (str(evidence.FORMAT), ", ".join(map(str, evidence.FORMATS))),
    }
    for version in records.FORMATS:
        assert records.schema(version)["type"] == "object"


def test_the_reference_is_made_of_these_tables():
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert "\n".join(maker.tables_of_the_tool()) in (DOCS / "reference.md").read_text(encoding="utf-8")
