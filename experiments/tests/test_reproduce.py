"""`dpaudit reproduce` where the experiments are installed."""

import pytest
from typer.testing import CliRunner

from dpaudit import InputError
from dpaudit.cli import app
from dpaudit_experiments import PAPERS, experiments_of


def test_a_figure_is_measured_written_and_drawn(tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "substitute", "--figure", "A1", "--quick", "--output", str(tmp_path)])
    assert done.exit_code == 0
    assert done.stdout.strip() == "figure A1 (Utility): too small to tell"
    assert {path.name for path in tmp_path.iterdir()} == {"figure-A1.json", "figure-A1.svg"}


def test_an_unknown_figure_is_refused(tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "substitute", "--figure", "9", "--output", str(tmp_path / "none")])
    assert isinstance(done.exception, InputError)
    assert "`figure` must be one of" in str(done.exception)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_is_played_the_same_way(paper):
    found = experiments_of(paper)
    assert all(set(names) <= set(found.FIGURES) for names in found.ONLY.values())
    assert type(found.FULL) is type(found.QUICK)
