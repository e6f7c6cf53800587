"""The command line as a person meets it: real processes for the entry point, in-process calls for the many refusals."""

import inspect
import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
import typer.main

from dpaudit import cli, estimators
from dpaudit.auditing.plan import documented
from dpaudit.games.from_evidence import FromEvidence
from dpaudit.testing import ground_truth
from tests.conftest import gaussian_runs


def run(*arguments, capsys):
    """The entry point with these arguments: exit code, standard output, standard error."""
    old, sys.argv = sys.argv, ["dpaudit", *map(str, arguments)]
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = old
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def scores(tmp_path, rng):
    included = rng.random(600) < 0.5
    values = rng.normal(size=600) + 2.0 * included
    np.save(tmp_path / "with.npy", values[included])
    np.save(tmp_path / "without.npy", values[~included])
    table = pa.table({"score": values, "member": included, "user": np.arange(600) // 1, "name": ["x"] * 600})
    pq.write_table(table, tmp_path / "table.parquet")
    rows = "\n".join(f"{v},{int(i)},{n}" for n, (v, i) in enumerate(zip(values, included, strict=True)))
    (tmp_path / "table.csv").write_text(f"score,member,user\n{rows}\n")
    (tmp_path / "one.csv").write_text("score\n1.0\n2.0\n3.5\n")
    (tmp_path / "headerless.csv").write_text("1.0\n2.0\n")
    (tmp_path / "words.csv").write_text("score,member\n1,yes\n2,no\n")
    (tmp_path / "nan.csv").write_text("score,member\n,1\n2,0\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "table.parquet").read_bytes()[:300])
    (tmp_path / "broken.npy").write_bytes((tmp_path / "with.npy").read_bytes()[:200])
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "odd.txt").write_text("1 2 3")
    given = ground_truth.ShiftedMembers(2.0, 400).sample(rng)
    columns = {"score": given.scores, "member": given.member, "low": given.propensity * 0.99, "high": given.propensity}
    csv.write_csv(pa.table(columns), tmp_path / "given.csv")
    paired = ground_truth.GeneratedPairs().sample(rng)
    names = ("included", "baseline", "attack")
    csv.write_csv(pa.table({name: getattr(paired, name) for name in names}), tmp_path / "paired.csv")
    (tmp_path / "counts.csv").write_text("query,present,absent\na,90,50\na,10,50\nb,50,50\nb,50,50\n")
    (tmp_path / "part.csv").write_text("present,absent\n90,50\n0.5,50\n")
    (tmp_path / "hole.csv").write_text("present,absent\n90,50\n10,\n")
    (tmp_path / "nobody.csv").write_text("query,present,absent\n1,90,50\n,10,50\n")
    (tmp_path / "bare.csv").write_text("query,present,absent\n")
    (tmp_path / "ragged.csv").write_text("query,present,absent\na,90,50\nb,50,50\nb,50,50\n")
    (tmp_path / "twice.csv").write_text("score,score,member\n1,2,1\n2,1,0\n")
    np.savez(tmp_path / "archive.npz", a=values)
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    gaussian_runs(rng).save(tmp_path / "evidence.parquet")
    skewed = "\n".join(f"{i},{int(i < 90)}" for i in range(100))
    (tmp_path / "skewed.csv").write_text(f"score,member\n{skewed}\n")
    return tmp_path


def test_two_files_of_runs(scores, capsys):
    code, out, err = run("estimate", scores / "with.npy", scores / "without.npy", "--assignment", "runs", capsys=capsys)
    assert code == 0
    assert err == ""
    assert "epsilon >= " in out
    assert "add-remove of one record" in out
    assert "if the trade-off curve is Gaussian" in out


@pytest.mark.parametrize("how", ["runs", "coins", "split"])
@pytest.mark.parametrize("file", ["table.csv", "table.parquet"])
def test_tables_print_json_that_equals_the_library_call(scores, capsys, how, file):
    code, out, _ = run("estimate", scores / file, "--assignment", how, "--delta", 1e-5, "--json", capsys=capsys)
    assert code == 0
    first, second = json.loads(out)
    assert first["epsilon"] > 0
    assert first["relation"] == ("substitute" if how == "split" else "add-remove")
    assert first["guarantee"] == second["guarantee"] == "conditional"
    assert first["assumptions"][0] == ("one-row-per-unit" if how == "split" else "nothing-in-its-place")
    said = "no two rows" if how == "split" else "relation was not given"
    assert said in run("estimate", scores / file, "--assignment", how, "--delta", 1e-5, capsys=capsys)[1]
    code, out, _ = run(
        "estimate", scores / file, "--assignment", how, "--relation", first["relation"], "--json", capsys=capsys
    )
    assert json.loads(out)[0]["guarantee"] == ("conditional" if how == "split" else "certified")
    if how == "split":
        assert "of 600 rows kept" in first["size"]


def test_groups_and_saved_evidence(scores, capsys, rng):
    code, out, _ = run(
        "estimate", scores / "table.csv", "--assignment", "coins", "--group", "user", "--unit", "user", capsys=capsys
    )
    assert code == 0
    assert "of one user" in out
    evidence = gaussian_runs(rng, relation="substitute")
    path = evidence.save(scores / "evidence.parquet")
    code, out, _ = run("estimate", path, "--json", "--delta", "0.001", capsys=capsys)
    assert code == 0, "a saved evidence file knows how it was made"
    assert json.loads(out)[0]["epsilon"] == estimators.epsilon_from_runs(evidence, delta=0.001).epsilon


def test_given_members_pairs_and_counts(scores, capsys):
    for columns in (["--propensity", "high"], ["--propensity", "low", "--propensity", "high"]):
        given = ["estimate", scores / "given.csv", "--assignment", "given", *columns, "--json", "--delta", 0]
        code, out, err = run(*given, capsys=capsys)
        assert code == 0, err
        first = json.loads(out)[0]
        assert first["epsilon"] > 0.3
        assert first["relation"] == "substitute"
        assert "propensities" in first["assumptions"]
    code, out, _ = run("estimate", scores / "paired.csv", "--assignment", "coins", "--delta", 0, capsys=capsys)
    assert code == 0
    assert "c + epsilon >= 1." in out
    code, out, _ = run("estimate", scores / "counts.csv", "--assignment", "runs", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["divergences"][0] > 0.05


def test_without_an_assignment_every_choice_is_explained(scores, capsys):
    code, out, err = run("estimate", scores / "table.csv", capsys=capsys)
    assert (code, out) == (2, "")
    for word, meaning in cli.estimate.MEANINGS.items():
        assert f"--assignment {word}" in err
        assert meaning in err


def test_the_options_of_evidence_are_its_parameters(capsys, monkeypatch):
    """Names, defaults and texts of `estimate` are those of `FromEvidence.from_table`; its files are the arguments."""
    monkeypatch.setenv("COLUMNS", "400")
    code, out, _ = run("estimate", "--help", capsys=capsys)
    shown = re.sub(r"[\s│]", "", out)
    known = inspect.signature(FromEvidence.from_table).parameters
    meanings = documented(FromEvidence.from_table)
    assert code == 0
    for name in known.keys() - {"table", "file", "folder"}:
        assert f"--{name}" in shown
        assert re.sub(r"\s", "", meanings[name]) in shown, name
    found = {one.name: one for one in typer.main.get_command(cli.app).commands["estimate"].params}
    assert {name: found[name].default for name in known if name in found} == {
        name: one.default for name, one in known.items() if name in found
    }
    assert {str(one) for one in cli.estimate.Assignment} == set(cli.estimate.MEANINGS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["table.csv", "--assignment", "given"],
            "members that are given need one column of propensities, or two (lower, upper), got 0.",
        ),
        (["table.csv", "--assignment", "given", "--propensity", "none"], "no column 'none'"),
        (["table.csv", "--assignment", "coins", "--propensity", "score"], "`propensity` has no effect here"),
        (["given.csv", "--assignment", "given", "--propensity", "score"], "`propensity` must be probabilities"),
        (["bare.csv", "--assignment", "runs"], "the table has no rows."),
        (["paired.csv", "--assignment", "coins", "--relation", "add-remove"], "`relation` has no effect here"),
        (["part.csv", "--assignment", "runs"], "column 'present' must be whole numbers of at least 0, got 0.5"),
        (["hole.csv", "--assignment", "runs"], "column 'absent' must have no gaps, got 1 empty rows"),
        (["nobody.csv", "--assignment", "runs"], "column 'query' must have no gaps, got 1 empty rows"),
        (["counts.csv", "--assignment", "runs", "--group", "query"], "`group` has no effect here"),
        (["ragged.csv", "--assignment", "runs"], "every query must have as many answers, got 1 to 2."),
        (
            ["table.csv", "--assignment", "coins", "--score", "loss"],
            "the table has no column 'loss'.\nhint: it has score, member, user.",
        ),
        (["table.csv", "--assignment", "coins", "--group", "nobody"], "no column 'nobody'"),
        (["table.csv", "--assignment", "coins", "--confidence", "1.5"], "`confidence` must be in (0, 1), got 1.5."),
        (["table.csv", "--assignment", "coins", "--delta", "-1"], "`delta` must be in [0, 1], got -1.0."),
        (["table.csv", "--assignment", "coins", "--reduce", "median"], "`reduce` must be one of 'mean', 'max', 'sum'"),
        (["table.csv", "--assignment", "split", "--relation", "add-remove"], "a fixed-size split certifies substitute"),
        (["table.csv", "one.csv", "--assignment", "coins"], "`--assignment coins` reads one table, got 2."),
        (
            ["one.csv", "one.csv", "one.csv", "--assignment", "runs"],
            "`--assignment runs` reads one or two files, got 3.",
        ),
        (["one.csv", "--assignment", "coins"], "the table has no column 'member'.\nhint: it has score."),
        (["with.npy", "--assignment", "coins"], "the table has no column 'score'.\nhint: it has with."),
        (["headerless.csv", "one.csv", "--assignment", "runs"], "'headerless.csv' has no header line."),
        (
            ["words.csv", "--assignment", "coins"],
            "`member` must be true / false (or 0 / 1), got values such as no, yes.",
        ),
        (["nan.csv", "--assignment", "coins"], "column 'score' must have no gaps, got 1 empty rows."),
        (
            ["skewed.csv", "--assignment", "coins"],
            "`included` must be fair, independent coins, got 90 of 100 included.",
        ),
        (["empty.csv", "--assignment", "coins"], "'empty.csv' could not be read"),
        (["empty.npy", "one.csv", "--assignment", "runs"], "'empty.npy' could not be read"),
        (["broken.parquet", "--assignment", "coins"], "'broken.parquet' could not be read"),
        (["broken.npy", "with.npy", "--assignment", "runs"], "'broken.npy' could not be read"),
        (["pickle.npy", "with.npy", "--assignment", "runs"], "'pickle.npy' could not be read"),
        (
            ["odd.txt", "--assignment", "coins"],
            "`table` must be .parquet, .csv, .feather, .arrow, .npy files of one kind, got .txt.",
        ),
        (["none.csv", "--assignment", "coins"], "there is no 'none.csv'"),
        (["with.npy", "without.npy", "--assignment", "runs", "--group", "user"], "`group` has no effect here"),
        (["evidence.parquet", "--relation", "substitute"], "`relation` has no effect here"),
        (["twice.csv", "--assignment", "coins"], "'twice.csv' could not be read"),
        (["archive.npy", "one.csv", "--assignment", "runs"], "an archive of arrays"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(scores, capsys, monkeypatch, arguments, sentence):
    monkeypatch.chdir(scores)
    code, out, err = run("estimate", *arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [["estimate"], ["nonsense"], ["estimate", "x", "--assignment", "dice"], ["account", "gaussian"]]
)
def test_misuse_of_the_command_itself_is_exit_code_2(capsys, arguments):
    code, out, err = run(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_account(capsys):
    code, out, _ = run("account", "gaussian", "--mu", 1, "--relation", "add-remove", capsys=capsys)
    assert (code, out.strip()) == (
        0,
        "mu <= 1.00, epsilon <= 4.38 at delta 1e-05   Gaussian mechanism, add-remove of one record",
    )
    dp_sgd = ["dp-sgd", "--noise-multiplier", 1, "--sampling-rate", 0.25, "--steps", 1, "--relation", "substitute"]
    code, out, _ = run("account", *dp_sgd, "--json", capsys=capsys)
    assert json.loads(out)["epsilon"] == pytest.approx(2.99, abs=0.005)
    code, out, _ = run("account", "gaussian", "--mu", 1, "--relation", "label", "--delta", 0, "--json", capsys=capsys)
    assert json.loads(out)["epsilon"] == "infinity"
    code, out, _ = run("account", "laplace", "--epsilon", 2, "--relation", "substitute", capsys=capsys)
    assert "epsilon <= 2.00 at delta 0" in out
    code, _, err = run("account", "randomized-response", "--epsilon", 1, "--relation", "add-remove", capsys=capsys)
    assert code == 2
    assert "stated under label or substitute" in err


OWN = """
from dpaudit import RunScores, estimators

def twice(value):
    return 2 * value

def careful(evidence: RunScores):
    twice(1)
    return estimators.epsilon_from_runs(evidence, delta=0.0)

def greedy(evidence: RunScores) -> float:
    return estimators.epsilon_from_runs(evidence, delta=0.0).epsilon + 0.5

def word(evidence: RunScores):
    return "two"

def unknown(evidence):
    return 0.0
"""


def test_calibrate_takes_a_users_own_estimator(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(OWN)
    common = ["--trials", 60, "--json", "--workers", 1]
    (tmp_path / "broken.py").write_text("def f(:")
    two = run("calibrate", "--estimator", f"{tmp_path}/mine.py:careful", *common[:3], "--workers", 2, capsys=capsys)
    assert two[0] == 0, two[2]
    code, out, err = run("calibrate", "--estimator", f"{tmp_path}/mine.py:careful", *common, capsys=capsys)
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert all(row["over_claims"] <= row["allowed"] for row in rows)
    code, out, _ = run("calibrate", "--estimator", f"{tmp_path}/mine.py:greedy", *common, capsys=capsys)
    assert any(row["over_claims"] > row["allowed"] for row in json.loads(out)["rows"])
    for reference, sentence in (
        ("mine.py", "must be 'file.py:function'"),
        ("none.py:f", "must name a Python file"),
        (f"{tmp_path}/broken.py:f", "could not be loaded (SyntaxError"),
        (f"{tmp_path}/mine.py:absent", "has no function 'absent'"),
        (f"{tmp_path}/mine.py:word", "must return a LowerBound or a number"),
        (f"{tmp_path}/mine.py:unknown", "must say what the estimator takes"),
    ):
        code, _, err = run("calibrate", "--estimator", reference, *common, capsys=capsys)
        assert code == 2, err
        assert sentence in err


def test_calibrate_writes_files(tmp_path, capsys):
    table, page = tmp_path / "table.json", tmp_path / "table.md"
    chosen = ["--only", "perfect privacy, 5 runs", "--trials", 20, "--workers", 1]
    code, _, err = run("calibrate", *chosen, "--output", table, "--markdown", page, capsys=capsys)
    assert code == 0
    assert "1 of 1 cells as they should be" in err
    written = json.loads(table.read_text())
    assert written["command"] == "dpaudit calibrate --only 'perfect privacy, 5 runs' --trials 20 --workers 1"
    assert "| mu_from_runs |" in page.read_text()
    code, _, err = run("calibrate", "--only", "no such cell", capsys=capsys)
    assert code == 2
    code, _, err = run("calibrate", *chosen, "--output", tmp_path / "no" / "x.json", capsys=capsys)
    assert code == 2


def test_an_unexpected_error_is_never_a_verdict(monkeypatch, capsys):
    monkeypatch.setattr(cli.account.accounting, "gaussian", lambda **_: 1 / 0)
    code, _, err = run("account", "gaussian", "--mu", 1, "--relation", "label", capsys=capsys)
    assert code == 3
    assert "unexpected ZeroDivisionError" in err


def test_the_installed_command_runs():
    found = subprocess.run(
        [sys.executable, "-m", "dpaudit.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "0.1.0"


def test_reproduce_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dpaudit_experiments", None)
    code, out, err = run("reproduce", "substitute", "--quick", "--output", tmp_path / "none", capsys=capsys)
    assert code == 2
    assert out == ""
    assert err.splitlines() == [
        "error: the experiments of papers are a package of their own, dpaudit-experiments, which is not installed.",
        "hint: pip install ./experiments in a clone of the repository.",
    ]
    assert not (tmp_path / "none").exists()
