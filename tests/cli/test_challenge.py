"""`dpaudit challenge` as a person meets it: files in, exit codes and sentences out."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from scipy import special

import dpaudit as da
from tests.cli.test_commands import run

ROWS = 1500


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """An audit that denies how its groups differ ("flat"), one that states it ("fair"), and challengers' files."""
    folder = tmp_path_factory.mktemp("published")
    rng = np.random.default_rng(4)
    x = rng.normal(size=(ROWS, 2))
    odds = 1.5 * x[:, 0]
    member = rng.random(ROWS) < special.expit(odds)
    ids = np.arange(ROWS) + 5
    fair = da.MemberScores(
        scores=x[:, 0] + 0.1 * rng.normal(size=ROWS),
        member=member,
        propensity=special.expit(odds),
        relation="substitute",
        ids=ids,
    )
    for name, evidence in (("fair", fair), ("flat", replace(fair, propensity=np.full(ROWS, 0.5)))):
        evidence.save(folder / f"{name}.evidence.parquet")
        da.audit(evidence, delta=0.0, name=name).save(folder / f"{name}.json")
    order = rng.permutation(ROWS)
    told = {"id": ids[order], "score": x[order, 0], "propensity": special.expit(odds[order])}
    pq.write_table(pa.table(told), folder / "told.parquet")
    csv.write_csv(pa.table(told), folder / "told.csv")
    kind = np.where(x[:, 0] > 0.5, "late", "early")
    columns = {"row": ids, "kind": kind, "other": x[:, 1], "member": member, "flag": member, "score": x[:, 0]}
    csv.write_csv(pa.table(columns), folder / "features.csv")
    return folder


@pytest.fixture
def here(published, monkeypatch):
    monkeypatch.chdir(published)
    return published


def challenge(name, *options, capsys):
    return run("challenge", f"{name}.json", f"{name}.evidence.parquet", *options, capsys=capsys)


FEATURES = ("--features", "features.csv", "--id", "row", "--leave-out", "flag")


@pytest.mark.parametrize(
    "options", [("--blind", "told.csv"), ("--propensity", "told.parquet"), FEATURES], ids=lambda options: options[0]
)
def test_exit_codes(here, options, capsys):
    code, out, _ = challenge("flat", *options, capsys=capsys)
    assert code == 1, out
    assert out.startswith("flat: 1,500 rows")
    assert out.strip().endswith("the published number may not be attributed to the model.")
    code, out, _ = challenge("fair", *options, capsys=capsys)
    assert code == 0, out
    assert out.strip().endswith("That proves nothing more; a better one may.")


def test_json_is_the_librarys_own_answer(here, capsys):
    code, out, _ = challenge("flat", "--propensity", "told.parquet", "--attempts", 4, "--json", capsys=capsys)
    values = json.loads(out)
    told = pq.read_table("told.parquet")
    found = da.challenge(
        "flat.json",
        "flat.evidence.parquet",
        propensity=(told["id"].to_numpy(), told["propensity"].to_numpy()),
        attempts=4,
    )
    assert code == 1
    assert values == json.loads(json.dumps(found.to_dict()))
    assert values["level"] == pytest.approx(0.0125)
    assert values["under_challenger"][0]["epsilon"] < values["published"][0]["epsilon"]


def test_columns_are_named(here, capsys):
    code, out, _ = challenge("flat", "--blind", "told.csv", "--score", "propensity", capsys=capsys)
    assert code == 1
    code, out, err = challenge("flat", *FEATURES, capsys=capsys)
    assert "features: kind, other\n" in err, "never membership, nor what a model said"
    assert "kind = late" in out
    code, out, _ = challenge("fair", "--features", "features.csv", "--id", "row", capsys=capsys)
    assert code == 1
    assert "column 'flag' separates members from non-members exactly" not in out.splitlines()[-1]
    assert "column 'flag' separates members from non-members exactly" in out, "who reads it sees what was done"


def test_nothing_named_in_a_record_is_imported(here, tmp_path, capsys):
    values = json.loads((here / "fair.json").read_text())
    values["plan"]["score"] = "trap.py:score"
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    (tmp_path / "record.json").write_text(json.dumps(values))
    found = run("challenge", tmp_path / "record.json", "fair.evidence.parquet", "--blind", "told.csv", capsys=capsys)
    assert found[0] == 0, found


def test_tampered_evidence_is_refused(here, tmp_path, capsys):
    evidence = da.load_evidence("flat.evidence.parquet")
    replace(evidence, propensity=np.full(ROWS, 0.6)).save(tmp_path / "other.parquet")
    code, out, err = run("challenge", "flat.json", tmp_path / "other.parquet", "--blind", "told.csv", capsys=capsys)
    assert (code, out) == (2, "")
    assert "`evidence` must be that of the record (digest" in err
    table = pq.read_table("flat.evidence.parquet")
    changed = table.set_column(table.column_names.index("propensity"), "propensity", pa.array(np.full(ROWS, 0.6)))
    pq.write_table(changed, tmp_path / "changed.parquet")
    code, _, err = run("challenge", "flat.json", tmp_path / "changed.parquet", "--blind", "told.csv", capsys=capsys)
    assert code == 2
    assert "was changed after it was written" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "exactly one of --blind, --propensity and --features must be given, got none"),
        (("--blind", "told.csv", "--features", "features.csv"), "got --blind and --features"),
        (("--blind", "none.csv"), "`--blind` must name files, and there is no 'none.csv'"),
        (("--blind", "odd.txt"), "must be .parquet, .csv"),
        (("--blind", "broken.parquet"), "could not be read"),
        (("--blind", "ragged.csv"), "could not be read"),
        (("--blind", "twice.parquet"), "could not be read"),
        (("--blind", "empty.csv"), "no rows"),
        (("--blind", "features.csv"), "no column 'id' in 'features.csv'; it has row, kind"),
        (("--blind", "told.csv", "--score", "loss"), "no column 'loss' in 'told.csv'"),
        (("--blind", "features.csv", "--id", "row", "--score", "kind"), "column 'kind' must be numbers, got '"),
        (("--blind", "short.csv"), "none for 1,499 of 1,500"),
        (("--blind", "gaps.csv"), "column 'id' must have no gaps, got 1 empty rows"),
        (("--blind", "gaps.csv", "--id", "score", "--score", "id"), "column 'id' must have no gaps, got 1 empty rows"),
        (("--propensity", "features.csv", "--id", "row", "--score", "kind"), "in [0, 1], got early in column 'kind'"),
        (("--propensity", "told.csv", "--score", "score"), "`--propensity` must be probabilities in [0, 1], got"),
        (("--blind", "told.csv", "--leave-out", "score"), "`--leave-out` has no effect with --blind"),
        ((*FEATURES, "--score", "kind"), "`--score` has no effect with --features"),
        ((*FEATURES, "--leave-out", "none"), "`--leave-out` must name columns of the file, got 'none'"),
        ((*FEATURES, "--leave-out", "kind", "--leave-out", "other"), "at least one column besides 'row'"),
        (("--blind", "told.csv", "--confidence", "95"), "`confidence` must be in (0, 1)"),
        (("--blind", "told.csv", "--attempts", "0"), "`attempts` must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(here, options, message, capsys):
    (here / "odd.txt").write_text("1")
    (here / "broken.parquet").write_bytes((here / "told.parquet").read_bytes()[:300])
    (here / "ragged.csv").write_text("id,score\n1,2\n1\n")
    pq.write_table(pa.table([[5], [1.0], [2.0]], names=["id", "score", "score"]), here / "twice.parquet")
    (here / "empty.csv").write_text("id,score\n")
    (here / "short.csv").write_text("id,score\n5,1.0\n")
    (here / "gaps.csv").write_text("id,score\n5,1.0\n,2.0\n")
    code, out, err = challenge("flat", *options, capsys=capsys)
    assert (code, out) == (2, ""), err
    assert message in err
    assert "Traceback" not in err
    assert err.count("\n") <= 3


def test_records_that_are_none(here, capsys):
    code, _, err = run("challenge", "none.json", "fair.evidence.parquet", "--blind", "told.csv", capsys=capsys)
    assert code == 2
    assert "no file 'none.json'" in err
    code, _, err = run("challenge", "fair.json", "told.parquet", "--blind", "told.csv", capsys=capsys)
    assert code == 2
    assert "holds no dpaudit evidence" in err
