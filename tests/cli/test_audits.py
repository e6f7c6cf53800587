"""`run` and `report` as a person meets them: files, exit codes, hints; and the worked examples."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpaudit as da
from tests.cli.test_commands import run

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CODE = """
import numpy as np

def honest(world, seed):
    print("epoch 1")
    return float(world) + np.random.default_rng(seed).normal()

def broken(world, seed):
    return float(world) + 0.1 * np.random.default_rng(seed).normal()

def fails(world, seed):
    raise ValueError("no such data")
"""
CLAIM = 'claim = { mu = 1.0, delta = 1e-5, relation = "add-remove" }\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.py").write_text(CODE)

    def written(name, function, runs=20, extra="", claim=CLAIM):
        game = f'game.multi_run = {{ score = "audit.py:{function}", runs = {runs} {extra} }}'
        text = f"{claim}{game}\nexecution.workers = 1\n"
        (tmp_path / f"{name}.toml").write_text(text)
        return f"{name}.toml"

    return written


def test_exit_codes(write, capsys):
    assert run("run", write("good", "honest", 40), capsys=capsys)[0] == 0
    assert run("run", write("bad", "broken", 40), capsys=capsys)[0] == 1
    assert run("run", write("dies", "fails"), capsys=capsys)[0] == 3
    assert run("run", write("few", "honest", 3), capsys=capsys)[0] == 4
    assert run("run", write("unlike", "honest", 20, ', relation = "label"'), capsys=capsys)[0] == 4
    assert run("run", "none.toml", capsys=capsys)[0] == 2
    assert run("run", "good.toml", "bad.toml", capsys=capsys)[0] == 1
    assert run("run", "good.toml", "few.toml", capsys=capsys)[0] == 0
    assert run("run", "good.toml", "--backend", "spark", capsys=capsys)[0] == 2


def test_fail_if_without_a_claim(write, capsys):
    file = write("free", "broken", 40, ', relation = "add-remove"', claim='audit.fail_if = "epsilon > 1"\n')
    code, out, _ = run("run", file, capsys=capsys)
    assert code == 1
    assert "fail if epsilon > 1: yes" in out


def test_what_is_written(write, tmp_path, capsys):
    code, out, err = run("run", write("good", "honest", 40), "--output", "out", capsys=capsys)
    assert code == 0
    assert "Consistent: this evidence does not contradict the claim" in out
    assert "open out/report.html" in err
    record = da.load_audit("out/good.json")
    evidence = da.load_evidence("out/good.evidence.parquet")
    assert record.evidence[0]["digest"] == evidence.digest
    assert (tmp_path / "out" / "report.html").is_file()
    code, printed, _ = run("run", "good.toml", "--output", "out", "--json", capsys=capsys)
    assert json.loads(printed)["audits"][0]["verdict"]["outcome"] == "consistent"
    process = subprocess.run(
        [sys.executable, "-m", "dpaudit.cli", "run", "good.toml", "--fresh", "--json", "--workers", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(process.stdout)["audits"], "what the score prints is not data"
    assert "epoch 1" in process.stderr
    code, printed, _ = run("estimate", "out/good.evidence.parquet", capsys=capsys)
    assert printed.splitlines()[0] == str(record.bounds[0]).splitlines()[0], "evidence is re-estimated without code"


def test_edited_scores_do_not_reuse_old_runs(write, tmp_path, capsys):
    file = write("good", "honest", 40)
    run("run", file, capsys=capsys)
    (tmp_path / "audit.py").write_text(CODE.replace("float(world) + np", "float(world) + 0.1 * np"))
    assert run("run", file, capsys=capsys)[0] == 1
    assert len(list((tmp_path / "audits").glob("good-*.runs"))) == 2


def test_fresh_forgets(write, tmp_path, capsys):
    file = write("good", "honest", 40)
    run("run", file, capsys=capsys)
    (store,) = (tmp_path / "audits").glob("good-*.runs")
    before = store.read_bytes()
    store.write_bytes(before.replace(b'"job": 3', b'"job": 9', 1))
    code, _, err = run("run", file, capsys=capsys)
    assert code == 2
    assert "was changed after it was written" in err
    assert run("run", file, "--fresh", capsys=capsys)[0] == 0
    assert store.read_bytes() == before


def test_explain_and_commit_run_nothing(write, tmp_path, capsys):
    file = write("dies", "fails")
    code, out, _ = run("run", file, "--explain", capsys=capsys)
    assert code == 0
    assert re.search(r"audit\.confidence +0\.95 +default", out)
    code, out, err = run("run", file, "--commit", capsys=capsys)
    assert code == 0
    assert re.fullmatch(r"dies sha256:[0-9a-f]{64}\n", out)
    assert "the seed 0 can be guessed" in err
    assert not (tmp_path / "audits").exists()
    secret = 'audit = { seed = 123456789012345678901234567890, commitment = "COMMITMENT" }\n'
    file = write("sealed", "honest", 20, claim=secret.replace("COMMITMENT", "x") + CLAIM)
    code, out, err = run("run", file, "--commit", capsys=capsys)
    assert (code, err) == (0, "")
    write("sealed", "honest", 20, claim=secret.replace("COMMITMENT", out.strip()) + CLAIM)
    assert run("run", file, capsys=capsys)[0] == 0
    assert da.load_audit("audits/sealed.json").seeds["commitment_checked"] is True
    write("sealed", "honest", 21, claim=secret.replace("COMMITMENT", out.split()[1]) + CLAIM)
    code, _, err = run("run", file, capsys=capsys)
    assert code == 2
    assert "committed to" in err


def test_names_must_differ(write, tmp_path, capsys):
    write("good", "honest")
    (tmp_path / "sub").mkdir()
    shutil.copy("good.toml", "sub/good.toml")
    shutil.copy("audit.py", "sub/audit.py")
    code, _, err = run("run", "good.toml", "sub/good.toml", capsys=capsys)
    assert code == 2
    assert "`audit.name` must differ" in err


def test_report_of_records(write, tmp_path, capsys):
    run("run", write("good", "honest", 40), write("bad", "broken", 40), capsys=capsys)
    code, out, err = run("report", "audits/good.json", "audits/bad.json", "--title", "both", capsys=capsys)
    assert code == 0
    assert "2 audits: 1 contradicted, 1 consistent with the claim." in out
    assert "report: report.html" in err
    assert "<title>both</title>" in Path("report.html").read_text()
    code, out, _ = run("report", "audits/good.json", "--json", capsys=capsys)
    assert json.loads(out)["audits"][0]["name"] == "good"
    (tmp_path / "x.json").write_text("{}")
    code, _, err = run("report", "x.json", capsys=capsys)
    assert code == 2
    assert err.count("\n") <= 2
    assert run("report", "audits/good.json", "--output", "nowhere/r.html", capsys=capsys)[0] == 2


def test_odd_places_and_names(write, tmp_path, capsys):
    file = write("good", "honest", 20)
    (tmp_path / "taken").write_text("x")
    for arguments in (("run", file, "--output", "taken"), ("demo", "--output", "taken"), ("run", file, "--workers", 0)):
        code, _, err = run(*arguments, capsys=capsys)
        assert code == 2, err
    run("run", file, capsys=capsys)
    assert run("report", "audits/good.json", "--output", "audits", capsys=capsys)[0] == 2
    long = write("long", "honest", 20, claim=f'audit.name = "{"x" * 400}"\n' + CLAIM)
    assert run("run", long, capsys=capsys)[0] == 0
    huge = write("huge", "honest", 20, claim='claim = { epsilon = 1e30, delta = 0, relation = "label" }\n')
    assert run("run", huge, capsys=capsys)[0] == 4


def test_runs_that_are_kept_are_mentioned(write, capsys):
    file = write("good", "honest", 20)
    assert "going on from" not in run("run", file, capsys=capsys)[2]
    assert "--fresh runs them again" in run("run", file, capsys=capsys)[2]


def test_claims_on_the_command_line(write, tmp_path, capsys):
    run("run", write("good", "honest", 60), write("bad", "broken", 60), capsys=capsys)
    claim = ("--claim", '{ mu = 1.0, delta = 1e-5, relation = "add-remove" }')
    code, out, _ = run("estimate", "audits/good.evidence.parquet", *claim, capsys=capsys)
    assert code == 0
    assert "Consistent" in out
    code, out, _ = run("estimate", "audits/bad.evidence.parquet", *claim, "--json", capsys=capsys)
    assert code == 1
    assert json.loads(out)["verdict"]["outcome"] == "contradicted"
    other = ("--claim", '{ mu = 1.0, delta = 1e-5, relation = "label" }')
    code, out, _ = run("estimate", "audits/bad.evidence.parquet", *other, capsys=capsys)
    assert code == 4
    assert "Not comparable" in out
    assert "epsilon >= " in out
    assert run("estimate", "audits/bad.evidence.parquet", "--claim", "mu", capsys=capsys)[0] == 2


def test_report_imports_no_code_named_in_a_file(write, tmp_path, capsys):
    run("run", write("good", "honest", 20), capsys=capsys)
    (tmp_path / "audit.py").write_text("raise SystemExit('imported')")
    assert run("report", "audits/good.json", capsys=capsys)[0] == 0
    assert run("estimate", "audits/good.evidence.parquet", capsys=capsys)[0] == 0


@pytest.mark.parametrize(("example", "code"), [("noisy_mean", 0), ("shell_trainer", 1)])
def test_worked_examples(example, code, tmp_path, capsys):
    shutil.copytree(EXAMPLES / example, tmp_path / example)
    found = run("run", tmp_path / example / "audit.toml", "--output", tmp_path / "out", capsys=capsys)
    assert found[0] == code, found


def test_stream_estimates(tmp_path, capsys, rng):
    worlds = rng.random(600) < 0.5
    scores = rng.normal(size=600) + 3.0 * worlds
    rows = "".join(f"{int(w)},{s}\n" for w, s in zip(worlds, scores, strict=True))
    (tmp_path / "runs.csv").write_text("member,score\n" + rows)
    file, how = tmp_path / "runs.csv", ("--assignment", "stream")
    code, out, _ = run("estimate", file, *how, "--relation", "label", capsys=capsys)
    assert code == 0
    assert "anytime-valid" in out
    for claim, expected in (("mu = 1.0", 1), ("mu = 3.0", 0), ("epsilon = 9.0, delta = 1e-5", 4)):
        text = f'{{ {claim}, relation = "label" }}'
        code, out, _ = run("estimate", file, *how, "--relation", "label", "--claim", text, capsys=capsys)
        assert code == expected, out
    other = '{ mu = 1.0, relation = "substitute" }'
    assert run("estimate", file, *how, "--relation", "label", "--claim", other, capsys=capsys)[0] == 4
    assert run("estimate", file, *how, capsys=capsys)[0] == 2
    assert run("estimate", file, *how, "--relation", "label", "--group", "x", capsys=capsys)[0] == 2
