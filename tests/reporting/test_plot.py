"""Axes and tables for notebooks."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pytest

import dpaudit as da
from dpaudit import InputError, accounting
from dpaudit.execution import Execution
from dpaudit.reporting import summary_rows, summary_text

mpl.use("Agg")
FORMATS = Path(__file__).parent.parent / "golden" / "formats"
SERIAL = Execution(workers=1)


def score(world, seed):
    return 2.0 * world + np.random.default_rng(seed).normal()


@pytest.fixture(scope="module")
def audit():
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    return da.audit(score, claim=claim, name="two", runs=100, execution=SERIAL)


@pytest.fixture(scope="module")
def bare():
    return da.audit(score, relation="substitute", name="bare", runs=20, execution=SERIAL)


@pytest.mark.parametrize("name", ["bounds", "errors", "histogram", "thresholds"])
def test_each_figure_draws_on_the_given_axes(audit, bare, name):
    from matplotlib import pyplot

    for found in (audit, bare):
        _, ax = pyplot.subplots()
        assert getattr(da.plot, name)(found, ax=ax) is ax
        assert ax.lines or ax.patches
        assert ax.get_xlabel()
        pyplot.close("all")
    assert getattr(da.plot, name)(audit).figure is not None
    pyplot.close("all")


def test_the_claim_is_drawn_only_where_it_is_comparable(audit):
    other = accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute")
    unlike = da.audit(score, claim=other, relation="add-remove", runs=30, execution=SERIAL)
    labels = [line.get_label() for line in da.plot.errors(unlike).lines]
    assert "claimed curve" not in labels
    assert "claimed curve" in [line.get_label() for line in da.plot.errors(audit).lines]


def test_figures_that_are_not_there(audit):
    with pytest.raises(InputError, match="no figure 'guesses'"):
        da.plot.guesses(audit)
    with pytest.raises(InputError, match="no bound on theta"):
        da.plot.bounds(da.audit(da.OutputCounts(present=[5, 5], absent=[4, 6], relation="label")), parameter="theta")


def test_table_is_a_frame(audit, bare):
    frame = da.table([audit, bare])
    assert list(frame["name"]) == ["two", "bare"]
    assert frame.loc[0, "mu_lower"] == audit.bounds[1].mu
    assert frame.loc[1, "outcome"] == "no claim"
    assert len(da.table(audit)) == 1


def test_rows_round_to_the_safe_side(audit):
    row = dict(zip(("name", "relation", "lower", "claim", "ceiling", "verdict"), summary_rows(audit)[0], strict=True))
    assert float(row["lower"].split("mu >= ")[1]) <= audit.bounds[1].mu
    assert row["claim"] == "mu <= 1.00, epsilon <= 4.38 at 1e-05"
    assert row["verdict"] == "contradicted"


def test_closing_line(audit, bare):
    text = summary_text([audit, bare, audit])
    assert text.endswith(
        "3 audits: 2 contradicted, 1 no claim to judge. "
        "All contradictions together are right with at least 90% confidence."
    )
    assert summary_text(audit).endswith("1 audit: 1 contradicted.")


def words_of(found):
    ax = da.plot.histogram(found, ax=mpl.figure.Figure().subplots())
    return [text.get_text() for text in ax.get_legend().get_texts()], ax.get_ylabel()


def test_a_histogram_carries_its_own_words(audit, tmp_path, rng):
    """Whatever the evidence is, its points say how their groups are called, in this format and in the first."""
    runs = (["runs with the record", "runs without it"], "share of runs")
    assert words_of(audit) == words_of(da.load_audit(audit.save(tmp_path / "record.json"))) == runs
    scores, bits = rng.normal(size=200), np.arange(200) % 2 == 0
    canaries = da.audit(da.CanaryScores(scores=scores, included=bits, relation="substitute"))
    assert words_of(canaries) == (["included", "left out"], "share of rows")
    given = da.MemberScores(scores=scores, member=bits, propensity=np.full(200, 0.5), relation="substitute")
    members = da.audit(given)
    assert words_of(members) == (["members", "non-members"], "share of rows")
    first = {name: da.load_audit(FORMATS / f"{name}-1.json") for name in ("multi_run", "zero_run", "observational")}
    assert words_of(first["multi_run"]) == runs
    assert words_of(first["zero_run"]) == words_of(members)
    assert words_of(first["observational"]) == words_of(canaries)


def test_points_without_words_are_drawn_too(audit):
    points = {name: audit.figures["histogram"][name] for name in ("edges", "present", "absent")}
    assert words_of(replace(audit, figures={"histogram": points})) == (["present", "absent"], "share")
