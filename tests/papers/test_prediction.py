"""Quick versions of paper 002's figures, and what the committed ones must show."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import Execution
from dpaudit.mechanisms.private_prediction import Neighbours
from dpaudit.papers import WORDS, drawing, file_stem, load_outcome, prediction_knn
from dpaudit.papers.prediction import FIGURES, FULL, QUICK, reproduce

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results" / "paper-002"


@pytest.mark.parametrize("name", FIGURES)
def test_quick(name, tmp_path):
    found = reproduce(name, scale=QUICK, execution=Execution(workers=1))
    assert found.found == "too small to tell"
    assert found.command == f"dpaudit reproduce prediction --figure {name} --seed 1 --quick"
    assert load_outcome(found.save(tmp_path / "found.json")) == found
    picture = drawing.svg(found)
    assert (picture == "") == (name in "345")
    if picture:
        assert ET.fromstring(picture).tag.endswith("svg")
    for row in found.rows if name in "26" else ():
        assert row["exact_two_cut"] <= row["exact"] * (1.0 + 1e-9)
        assert row["over_two_cut"] <= 1
        assert row["median_two_cut"] <= row["exact"]


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_are_whole(name):
    found = load_outcome(RESULTS / f"{file_stem(name)}.json")
    assert found.found in WORDS
    assert (found.found, found.because) == FIGURES[name].judged(list(found.rows))
    assert found.scale == tuple(FIGURES[name].sizes(FULL))
    if name in "26":
        assert (RESULTS / f"{file_stem(name)}.svg").read_text() == drawing.svg(found)


def test_exact_laws_lie_below_published_bounds():
    rows = load_outcome(RESULTS / "figure-2.json").rows
    for row in rows:
        assert row["audits"] == FULL.repeats
        assert row["exact"] <= row["exact_data_dependent_upper"] * (1.0 + 1e-9)
        assert row["exact_data_dependent_upper"] <= row["data_dependent_upper"] * (1.0 + 1e-9)
        assert row["data_dependent_upper"] <= row["data_independent_upper"] * (1.0 + 1e-9)
        assert row["over_two_cut"] <= 15
        assert row["median_two_cut"] >= row["median_two_cut_printed"]


def test_laws_of_neighbours_are_those_of_the_mechanism():
    """The expected votes of one query, and who votes last, against the mechanism itself."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    query = np.array([0.2, -0.1])
    law, last, votes = prediction_knn.vote_laws(x, y, query, 3, 20)
    counts = Neighbours(classes=3, neighbors=20, sampling_rate=0.2).votes((x, y), np.tile(query, (20_000, 1)), 1)
    full = counts.sum(axis=1) == 20
    assert full.mean() > 0.99
    np.testing.assert_allclose(counts.mean(axis=0), votes, atol=0.06)
    np.testing.assert_allclose(law, votes / votes.sum())
    assert last.sum() == pytest.approx(1.0)


def test_an_unknown_figure():
    with pytest.raises(InputError, match="`figure` must be one of '2', '3', '4', '5', '6'"):
        reproduce("9", scale=QUICK)
