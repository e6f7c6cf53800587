"""What is shown of guesses beside rows that the model never saw: the figure, the checks, and no number without them."""

import inspect
import re

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

import dpaudit as da
from dpaudit import InputError
from dpaudit.execution import Execution
from dpaudit.record import schema
from dpaudit.reporting import plot
from tests.golden import worlds

mpl.use("Agg")
SERIAL = Execution(workers=1)
FEW = {"rows": 500, "others": 400}


@pytest.fixture(scope="module")
def audits():
    made = {"labels": worlds.matched(**FEW), "alone": worlds.matched(**FEW, placebo=None)}
    return {name: da.audit(game, seed=1, name=name, delta=0.0, execution=SERIAL) for name, game in made.items()}


def test_both_lines_of_the_figure_are_those_of_the_record(audits):
    found = audits["labels"]
    lines = plot.recognition(found, ax=Figure().subplots()).lines
    assert [line.get_label() for line in lines] == ["training rows", "placebo rows"]
    assert len({line.get_linestyle() for line in lines}) == 2  # colour is never the only carrier of meaning
    for line, name in zip(lines, ("trained", "placebo"), strict=True):
        told = found.figures["recognition"][name]
        assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == (told["share"], told["right"])
        assert told["share"][-1] == 1.0
    assert lines[0].get_ydata()[-1] == pytest.approx(found.result("recognition").numbers["trained"] / 100.0, abs=1e-5)
    assert lines[1].get_ydata()[-1] == pytest.approx(found.result("recognition").numbers["alone"] / 100.0, abs=1e-5)


def test_the_page_has_the_figure_and_every_sentence(audits, tmp_path):
    found = audits["labels"]
    page = da.reporting.to_html(found)
    assert "recognition" in page
    assert "on rows that the model was trained on and on rows that it never saw." in page
    for result in found.checks:
        assert result.text.split("'")[0].split("`")[0] in page
    found.save(tmp_path / "labels.json")
    read = da.load_audit(tmp_path / "labels.json")
    assert read.figures == found.figures
    assert str(read) == str(found)
    assert da.reporting.to_html(read) == page


def test_the_schema_knows_every_figure_that_is_drawn():
    """Else a record could be written that nobody can read."""
    drawn = set(re.findall(r'_data\(audit, "(\w+)"\)', inspect.getsource(plot)))
    assert "recognition" in drawn
    assert drawn <= set(schema()["properties"]["figures"]["properties"])


def test_without_rows_never_seen_there_is_no_figure_and_no_epsilon_at_the_top(audits):
    found = audits["alone"]
    assert (found.outcome, found.bounds) == (da.Outcome.UNINFORMATIVE, ())
    title, verdict, *rest = str(found).splitlines()
    assert title == "alone, label of one record"
    assert "epsilon" not in verdict
    assert verdict.startswith("Uninformative: Without rows that the model never saw")
    told = [line for line in rest if "epsilon" in line]
    assert told
    assert all(line.startswith("Were the proxy right") and line.endswith("Nothing tested it.") for line in told)
    with pytest.raises(InputError, match="no figure 'recognition'"):
        plot.recognition(found)
    assert ">alone<" in da.reporting.to_html(found)
    assert ">=" not in "".join(da.reporting.summary_rows(found)[0])


def test_bounds_are_rounded_down(audits):
    """What is printed of both bounds is never above what the record has."""
    found = audits["labels"].result("two-bounds")
    printed = [float(number) for number in re.findall(r"\d+\.\d+", found.text)]
    kept = [found.numbers[name] for name in ("matched", "kappa", "proxy", "more", "matched_less", "tau", "proxy_less")]
    assert len(printed) == len(kept)
    for shown, number in zip(printed, kept, strict=True):
        assert number - 0.011 < shown <= number
