"""README and guide: their files load, their commands exist, their figures hold."""

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer.main

import dpaudit as da
from dpaudit import accounting
from dpaudit.assumptions import Check, CheckResult
from dpaudit.auditing.plan import load_config
from dpaudit.cli import app
from dpaudit.record.values import EXIT_CODES, Audits

ROOT = Path(__file__).parent.parent
PAGES = {page.name: page.read_text() for page in (ROOT / "README.md", ROOT / "docs" / "guide.md")}
CODE = (ROOT / "tests" / "external" / "user.py").read_text()


def blocks(kind):
    return [found for text in PAGES.values() for found in re.findall(rf"```{kind}\n(.*?)```", text, re.S)]


@pytest.mark.parametrize("text", blocks("toml"))
def test_audit_files_load(text, tmp_path):
    (tmp_path / "audit.py").write_text(CODE)
    (tmp_path / "audit.toml").write_text(text)
    if "game.observational" in text:
        for folder in ("observed_model", "observed_predictions"):
            for file in (ROOT / "examples" / folder).glob("*.*"):
                (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / "audit.toml").write_text(text)
        assert load_config(tmp_path / "audit.toml").game.relation is da.Relation.LABEL
        return
    if "game.panoramia" in text:
        for file in (ROOT / "examples" / "panoramia").glob("*.*"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / "audit.toml").write_text(text)
        assert load_config(tmp_path / "audit.toml").game.relation is da.Relation.SUBSTITUTE
        return
    if "game.zero_run" in text:
        (tmp_path / "people.csv").write_bytes((ROOT / "examples" / "zero_run" / "people.csv").read_bytes())
        assert load_config(tmp_path / "audit.toml").game.relation is da.Relation.SUBSTITUTE
        return
    assert load_config(tmp_path / "audit.toml").claim is not None


def test_claims_of_the_guide_load(tmp_path):
    (tmp_path / "audit.py").write_text(CODE)
    claims = re.findall(r"^\| `(\{.*?\})` \|", PAGES["guide.md"], re.M)
    assert len(claims) == 5
    for claim in claims:
        (tmp_path / "a.toml").write_text(f"claim = {claim}\ngame.multi_run = {{ score = 'audit.py:score', runs = 9 }}")
        assert load_config(tmp_path / "a.toml").claim.epsilon > 0.0


def commands():
    lines = [
        line
        for text in PAGES.values()
        for block in re.findall(r"```\n(.*?)```", text, re.S)
        for line in block.splitlines()
    ]
    inline = [found for text in PAGES.values() for found in re.findall(r"`(dpaudit [^`]+)`", text)]
    stripped = [line.strip().removeprefix(".venv/bin/").removeprefix("re-estimate: ") for line in [*lines, *inline]]
    return sorted({line.split("   ")[0] for line in stripped if line.startswith("dpaudit ")})


@pytest.mark.parametrize("line", commands())
def test_commands_exist_with_their_options(line):
    command = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"--help"}
    used = [word.split("=")[0] for word in words if word.startswith("--")]
    assert set(used) <= known, (line, set(used) - known)
    assert not getattr(command, "commands", None) or used, f"{line}: no such command"


def test_every_command_has_an_example_to_paste():
    def visit(command, path):
        for name, child in getattr(command, "commands", {}).items():
            yield from visit(child, f"{path} {name}")
        if not getattr(command, "commands", None):
            yield path, command.help or ""

    for path, text in visit(typer.main.get_command(app), "dpaudit"):
        assert f"Example: {path} " in " ".join(text.split()), path


def test_half_the_noise_is_caught_against_the_curve_and_not_against_the_pair():
    """The guide's figures: 43 runs a side against 2,000 that do not suffice."""
    curve = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    assert da.plan_runs(claim=curve) == 43
    pair = da.UpperBound(epsilon=curve.epsilon, delta=1e-5, relation="add-remove")
    rng = np.random.default_rng(4)
    for _ in range(20):
        runs = da.RunScores(present=rng.normal(2, 1, 2000), absent=rng.normal(0, 1, 2000), relation="add-remove")
        assert not da.judge(runs, pair).contradicted


def test_guide_links_and_names():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGES["guide.md"]):
        assert (ROOT / "docs" / target).exists(), target
    for name in re.findall(r"`da\.([a-z_]+)", PAGES["guide.md"]):
        assert hasattr(da, name), name
    for path in re.findall(r"`(src/[^`]+|examples/[^`]+|tests/[^`]+)`", " ".join(PAGES.values())):
        assert (ROOT / path).exists(), path


def outcomes_of_the_guide():
    """Its table of outcomes, the exit code of each, and the lines about codes that follow it."""
    head, _, rest = PAGES["guide.md"].partition("| outcome | exit code | meaning |\n|---|---|---|\n")
    assert head
    rows, _, after = rest.partition("\n\n")
    cells = [line.strip("|").split(" | ") for line in rows.splitlines()]
    return {outcome.strip(): int(code) for outcome, code, _ in cells}, " ".join(after.partition("\n\n")[0].split())


PREMISE = Check(id="premise", refuted="It is not.", on_refuted="fail")


def audit_of(outcome, **more):
    """An audit that came to this outcome; a premise is broken by a check."""
    runs = da.RunScores(present=[1.0, 2.0, 3.0], absent=[1.0, 2.0, 3.0], relation="add-remove")
    found = da.audit(runs)
    if outcome is da.Outcome.BROKEN:
        more = {"checks": (CheckResult(check=PREMISE, outcome="refuted"),), **more}
    return replace(found, verdict=replace(found.verdict, outcome=outcome), **more)


def test_outcomes_of_the_guide_and_their_exit_codes():
    codes, _ = outcomes_of_the_guide()
    assert sorted(codes) == sorted(str(outcome) for outcome in da.Outcome)
    assert codes == {str(outcome): Audits((audit_of(outcome),)).exit_code() for outcome in da.Outcome}
    assert set(codes.values()) <= set(EXIT_CODES)


def test_what_the_guide_says_of_exit_codes():
    """Of several audits, of conditions, and of the codes that no outcome has."""
    codes, after = outcomes_of_the_guide()

    def code(*outcomes, **more):
        return Audits(tuple(audit_of(da.Outcome(outcome), **more) for outcome in outcomes)).exit_code()

    assert "Of several audits, 1 comes before 3, and 4 is returned only if none of them could be judged." in after
    assert code("failed", "contradicted", "consistent") == 1
    assert code("failed", "consistent", "uninformative") == 3
    assert (code("uninformative", "consistent"), code("uninformative", "not comparable")) == (0, 4)
    assert "`fail_if` that holds makes it 1 whatever the outcome" in after
    assert {code(outcome, fail_if="epsilon > 1", failed_if=True) for outcome in codes} == {1}
    assert "no accepted bound can decide leaves an audit unjudged" in after
    assert code("no claim", fail_if="epsilon > 1", failed_if=None) == 4
    others = {int(one) for one in re.findall(r"\b(\d+) (?:means|is bad|an interrupted)", after)}
    assert others == set(EXIT_CODES) - (set(codes.values()) - {0})
    assert EXIT_CODES[0] in after.replace("that nothing", "nothing")
    assert EXIT_CODES[2] in after
    assert EXIT_CODES[130] in after


def test_the_guides_example_prints_what_the_guide_shows():
    found = subprocess.run(
        [sys.executable, ROOT / "examples" / "adjacency.py"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() in PAGES["guide.md"]


def without_numbers(text):
    """Trees and regressions differ in their last bits from machine to machine, and a rank may with them."""
    return re.sub(r"[0-9][0-9.,e+-]*", "#", text)


@pytest.mark.parametrize("name", ["observed_model", "observed_predictions", "zero_run"])
def test_observed_examples(name, tmp_path):
    """The pages show what they print and their files; the second needs four columns and nothing else."""
    where = ROOT / "examples" / name / "audit.toml"
    done = subprocess.run(
        [sys.executable, "-c", "from dpaudit.cli import main; main()", "run", where, "--output", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Control passed" in done.stdout
    assert (tmp_path / "report.html").exists()
    if name == "observed_predictions":
        assert f"```\n{without_numbers(done.stdout).strip()}\n```" in without_numbers(PAGES["guide.md"])
        assert where.read_text() in PAGES["guide.md"]
        return
    assert_shown(done.stdout, page="README.md" if name == "observed_model" else "guide.md")
    assert where.read_text() in PAGES["README.md"]


def test_without_placebo_rows_no_bound_is_printed(tmp_path):
    """As section 9 has it: exit code 4, no epsilon before the line that says why, and what may be accepted."""
    for file in (ROOT / "examples" / "observed_predictions").glob("*.*"):
        lines = [line for line in file.read_text().splitlines(keepends=True) if not line.startswith("placebo = ")]
        (tmp_path / file.name).write_text("".join(lines))
    line = [sys.executable, "-c", "from dpaudit.cli import main; main()", "run", tmp_path / "audit.toml"]
    done = subprocess.run([*line, "--output", tmp_path / "out"], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    title, verdict, *rest = done.stdout.splitlines()
    assert "epsilon" not in title + verdict
    assert "rows that the model never saw" in verdict
    assert [one for one in rest if "epsilon" in one] == [one for one in rest if one.endswith("Nothing tested it.")]
    assert '`accept = ["proxy-right"]`' in PAGES["guide.md"]
    assert done.stdout.rstrip().endswith("proxy-right.")


def assert_shown(printed, *, page):
    """All of it is on this page, and the README shows how it begins."""
    printed = without_numbers(printed).strip()
    assert f"```\n{printed}\n```" in without_numbers(PAGES[page])
    title, bound = printed.splitlines()[:2]
    beginning = without_numbers(PAGES["README.md"]).partition(f"```\n{title}\n")[2].partition("\n```")[0]
    assert beginning.startswith(bound)
    assert f"{printed}\n".startswith(f"{title}\n{beginning}\n")


def test_the_example_of_members_alone(tmp_path):
    """The guide shows what it prints, and its tables are what the script beside them makes."""
    where = ROOT / "examples" / "panoramia"
    line = [sys.executable, "-c", "from dpaudit.cli import main; main()", "run", where / "audit.toml"]
    done = subprocess.run([*line, "--output", tmp_path], capture_output=True, text=True, check=True)
    assert_shown(done.stdout, page="guide.md")
    assert where.joinpath("audit.toml").read_text() in PAGES["README.md"]
    (tmp_path / "make_table.py").write_bytes((where / "make_table.py").read_bytes())
    subprocess.run([sys.executable, tmp_path / "make_table.py"], check=True)
    for name in ("members.csv", "others.csv"):
        assert (tmp_path / name).read_text() == (where / name).read_text()


def test_a_revealing_column_ends_as_the_guide_shows(tmp_path):
    """And the table of the example is what the script beside it makes, up to the last digits of a forest."""
    where = ROOT / "examples" / "zero_run"
    line = [sys.executable, "-c", "from dpaudit.cli import main; main()", "run", where / "with_year.toml"]
    done = subprocess.run([*line, "--output", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert without_numbers(done.stdout).strip() in without_numbers(PAGES["guide.md"])
    assert where.joinpath("audit.toml").read_text() in PAGES["guide.md"]
    for file in ("make_table.py", "people.csv"):
        (tmp_path / file).write_bytes((where / file).read_bytes())
    subprocess.run([sys.executable, tmp_path / "make_table.py"], check=True)
    made, kept = ((place / "people.csv").read_text().splitlines() for place in (tmp_path, where))
    assert [row.rpartition(",")[0] for row in made] == [row.rpartition(",")[0] for row in kept]


@pytest.mark.parametrize("number", [10, 11, 13])
def test_examples_of_the_guide_print_what_it_shows(number):
    shown, found = example_of_section(number)
    assert found == shown


def test_the_example_of_generated_non_members():
    """With trees in it: up to numbers."""
    shown, found = example_of_section(14)
    assert without_numbers(found) == without_numbers(shown)


def example_of_section(number):
    section = PAGES["guide.md"].split(f"## {number}. ")[1]
    code = re.search(r"```python\n(.*?)```", section, re.S).group(1)
    shown = re.search(r"It prints:\n\n```\n(.*?)```", section, re.S).group(1)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return shown, found.stdout
