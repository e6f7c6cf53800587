"""`dpaudit demo`: every audit ends as it must, the page is written, the table says so."""

from pathlib import Path

import pytest

import dpaudit as da
from dpaudit.demo.audits import EXPECTED
from tests.cli.test_commands import run

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize("seed", [1, 2])
def test_every_audit_ends_as_it_must(tmp_path, capsys, seed):
    code, out, err = run("demo", "--output", tmp_path, "--workers", 1, "--seed", seed, capsys=capsys)
    assert code == 0, err
    audits = da.load_audits(tmp_path / "demo.json")
    assert {audit.name: audit.outcome for audit in audits} == EXPECTED
    assert f"report: {tmp_path}/report.html" in out
    assert "12 audits: 7 contradicted, 3 consistent with the claim, 1 too small to tell, 1 not comparable" in out
    assert "what next:" in out
    assert (tmp_path / "report.html").stat().st_size < 1_000_000
    for audit in audits:
        assert audit.name in out
    if seed == 1:
        table = out.split("\nreport:")[0].strip()
        assert table in README.read_text(), "the README shows what `make demo` prints"
