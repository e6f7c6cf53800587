"""Placebo experiments: a quick game of every cell, and judgements that can fail."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpaudit.execution import Execution
from dpaudit_experiments.common.outcome import load_outcome
from dpaudit_experiments.placebo import groups, worlds
from dpaudit_experiments.placebo.__main__ import main

SERIAL = Execution(workers=1)
CELLS = [(name, cell) for name, group in groups.GROUPS.items() for cell in group.cells]


@pytest.mark.parametrize(("group", "cell"), CELLS, ids=lambda one: getattr(one, "name", one))
def test_a_quick_game_of_every_cell(group, cell):
    (row,) = groups.run_cell(cell, groups.QUICK, 1, SERIAL, 1)
    assert row["games"] == 1
    assert row["planned"] == cell.games
    assert 0.0 <= row["median"] == row["largest"]
    if group == "null":
        assert row["over"] == 0
        assert row["old_over"] in (0, 1)
    if group == "redrawn":
        assert row["control_ran"] == 1


def test_the_command_writes_what_it_measured(tmp_path, capsys):
    given = ["--output", str(tmp_path), "--quick", "--group", "null", "--only", "predictions", "--workers", "1"]
    assert main(given) == 0
    found = load_outcome(tmp_path / "figure-null.json")
    assert found.found == "too small to tell"
    assert found.command == f"python -m dpaudit_experiments.placebo {' '.join(given)}"
    assert [row["games"] for row in found.rows] == [2]
    assert "predictions only" in capsys.readouterr().out


def test_games_are_kept_and_go_on(tmp_path):
    cell, execution = groups.GROUPS["power"].cells[0], Execution(workers=1, keep=str(tmp_path))
    once, again = (
        [(row["median"], [path.read_bytes() for path in tmp_path.iterdir()]) for row in rows]
        for rows in (groups.run_cell(cell, groups.QUICK, 1, execution, 2) for _ in range(2))
    )
    assert once == again


def test_missing_data_is_a_refusal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPAUDIT_DATA", str(tmp_path))
    worlds.known_model.cache_clear()
    assert main(["--output", str(tmp_path), "--group", "null", "--only", "Adult", "--games", "1"]) == 2
    assert "python -m dpaudit_experiments.data" in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------------- worlds


@pytest.mark.parametrize("name", list(worlds.NULL))
def test_nothing_leaks_in_these_tables(name, rng):
    """Training rows and rows never seen are alike: the model says as much of the labels of both."""
    sizes = replace(worlds.QUICK, rows=2000, unseen=4000, many=1000)
    world = worlds.NULL[name][1](rng, sizes)
    target = world.keys.get("target", worlds.TODAY)
    losses = []
    for table in (world.training, world.unseen):
        columns = [table[one] for one in ([target] if isinstance(target, str) else target)]
        law = np.column_stack([1.0 - columns[0], *columns]) if len(columns) == 1 else np.column_stack(columns)
        place = np.searchsorted(np.array(world.classes), table[worlds.LABEL])
        losses.append(-np.log(np.maximum(law[np.arange(place.size), place], 1e-9)))
    spread = np.sqrt(sum(loss.var() / loss.size * (20 if "clusters" in name else 1) for loss in losses))
    assert abs(losses[0].mean() - losses[1].mean()) < 4.0 * spread


def test_clusters_share_labels(rng):
    for shown in ("column", "order"):
        table = worlds.clusters(shown, rng, worlds.QUICK).unseen
        household = table.get("household", np.arange(400) // 20)
        for one in np.unique(household):
            assert len(set(table[worlds.LABEL][household == one].tolist())) == 1


# --------------------------------------------------------------------------------------------------------------- judged


def null_row(**changes):
    row = {"cell": "a", "games": 200, "planned": 200, "over": 9, "allowed": 23, "old_over": 190, "seconds": 1.0}
    return [row, row | {"cell": "b"} | changes]


def test_null_can_fail_twice_over():
    assert groups.null_judged(null_row())[0] == "confirmed"
    word, why = groups.null_judged(null_row(over=24))
    assert word == "not confirmed"
    assert "too often for b" in why
    word, why = groups.null_judged(null_row(old_over=23))
    assert word == "not confirmed"
    assert "not for b" in why
    assert "Fewer games than planned: b 40 of 200" in groups.null_judged(null_row(games=40))[1]


def power_rows(**changes):
    common = {"games": 100, "planned": 100, "over": 0, "allowed": 14, "seconds": 1.0}
    one = common | {"cell": "epsilon 1", "truth": 1.0, "median": 0.7}
    adult = common | {"cell": "Adult", "truth": 0.0, "median": 2.0, "never_seen_over": 0}
    return [one | {name: value for name, value in changes.items() if name in one}, adult | changes]


@pytest.mark.parametrize("changes", [{"median": 0.0}, {"never_seen_over": 15}])
def test_power_can_fail(changes):
    assert groups.power_judged(power_rows())[0] == "confirmed"
    assert groups.power_judged(power_rows(**changes))[0] == "not confirmed"


def test_rows_are_json():
    cell = groups.GROUPS["null"].cells[0]
    assert json.dumps(groups.row_of(cell, [[0.0, 0.0, 0.5, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, 1.0]]))
