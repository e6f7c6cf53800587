"""Quick versions of paper 001's experiments, and the page that shows the committed ones."""

import importlib.util
import json
from dataclasses import replace

import pytest

import papers
from dpaudit import InputError
from dpaudit.execution import Execution
from dpaudit_experiments.common import drawing
from dpaudit_experiments.common.outcome import WORDS, load_outcome
from dpaudit_experiments.common.scales import FULL, PAPER, QUICK
from dpaudit_experiments.paper_001 import substitute
from dpaudit_experiments.paper_001.substitute import FIGURES, reproduce

DOCS = papers.DOCS
RESULTS = DOCS / "results" / "paper-001"


@pytest.mark.parametrize("name", FIGURES)
def test_quick(name, tmp_path):
    """The same code on small sizes and embedded data: an outcome to be saved, read and drawn, which claims nothing."""
    found, picture = papers.quick(substitute, "substitute", name, tmp_path)
    assert (picture == "") == (name == "bugs")
    for row in found.rows:
        if row.get("kind") == "end" or name == "1":
            assert row["epsilon_family"] <= row["promised_substitute"] * 1.05
            assert row["promised_add_remove"] < row["promised_substitute"]


def test_the_same_outcome_from_any_number_of_workers():
    one, two = (reproduce("A1", scale=QUICK, execution=Execution(workers=n)) for n in (1, 2))
    assert replace(one, seconds=0.0) == replace(two, seconds=0.0)


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_are_whole(name):
    found = load_outcome(RESULTS / f"figure-{name}.json")
    assert found.figure == name
    assert found.found in WORDS
    assert found.claim == FIGURES[name].claim
    assert found.command == f"dpaudit reproduce substitute --figure {name} --seed 1"
    if name != "bugs":
        assert (RESULTS / f"figure-{name}.svg").read_text() == drawing.svg(found)


def test_the_worst_case_is_as_tight_as_it_must_be():
    """Committed figure 1: 25,000 models, medians at least 0.9 of the substitute epsilon, above add/remove."""
    rows = load_outcome(RESULTS / "figure-1.json").rows
    cells = {}
    for row in rows:
        cells.setdefault((row["epsilon_wanted"], row["sampling_rate"]), []).append(row)
    assert len(cells) == 6
    for cell in cells.values():
        shares = sorted(row["epsilon_family"] / row["promised_substitute"] for row in cell)
        assert len(cell) == 20
        assert shares[len(shares) // 2] >= 0.9
        assert sum(share > 1.0 for share in shares) <= 6
        assert all(row["epsilon_family"] > row["promised_add_remove"] for row in cell)
        assert all(row["add_remove_claimed_as_substitute"] == "contradicted" for row in cell)
    full = load_outcome(RESULTS / "figure-2.json").rows
    end = next(r for r in full if r.get("kind") == "end" and (r["canary"], r["sampling_rate"]) == ("S2 gradient", 1.0))
    assert end["epsilon_family"] >= max(0.8 * end["promised_substitute"], end["promised_add_remove"])


def test_the_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("make_papers", DOCS / "make_papers.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for page in maker.PAGES:
        assert page.path.read_text() == page.render()


def test_sizes():
    assert (PAPER.worst_case_models, FULL.worst_case_models) == (25_000, 25_000)
    assert not QUICK.fetched


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="`figure` must be one of"):
        reproduce("9", scale=QUICK)
    (tmp_path / "odd.json").write_text(json.dumps({"figure": "1"}))
    with pytest.raises(InputError, match="is no outcome of an experiment"):
        load_outcome(tmp_path / "odd.json")
