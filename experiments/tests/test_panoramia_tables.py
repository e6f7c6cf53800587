"""Paper 004 on tables: a quick version on embedded rows, and the parts that it is made of."""

from dataclasses import replace

import numpy as np
import pytest

from dpaudit.bounds import Relation
from dpaudit.execution import Execution
from dpaudit_experiments.paper_004 import tables
from dpaudit_experiments.paper_004.tables import BINS, QUICK, Encoded, Helper, Table, rows_of, table_of

SMALL = replace(QUICK, games=1, poor=(0.0,), taught=(1.0,))


@pytest.fixture(scope="module")
def execution(tmp_path_factory):
    return Execution(workers=1, keep=str(tmp_path_factory.mktemp("kept")))


def test_every_target_is_audited_in_every_game(execution):
    found = tables.target_games(QUICK, 1, execution)
    assert [(one.target, one.family, one.degree) for one in found] == tables.named(QUICK) * 2
    assert [one.game for one in found] == [1] * 4 + [2] * 4
    assert {one.modality for one in found} == {"tables"}
    for one in found:
        assert one.real is not None
        assert one.one_run is not None
        assert one.generated.included.size == one.real.included.size == one.one_run.included.size == 112
        assert {one.generated.relation, one.one_run.relation} == {Relation.SUBSTITUTE}
        assert 0.8 < one.test <= 1.0
    trees = [one for one in found if one.degree == np.inf]
    assert all(one.train == 1.0 for one in trees)
    assert found[0].generated.seed != found[-1].generated.seed


def test_baselines_are_the_same_for_all_targets_of_a_game(execution):
    first, second, *_ = tables.target_games(QUICK, 1, execution)
    assert np.array_equal(first.generated.baseline, second.generated.baseline)


def test_everything_is_a_function_of_the_seed(execution, tmp_path):
    again = tables.played(SMALL, 5)
    for name, values in tables.kept(str(tmp_path), tables.played, SMALL, 5).items():
        assert np.array_equal(values, again[name]), name


def test_losses_are_histograms_of_the_least_and_the_most_over_fitted_target(execution):
    rows = tables.loss_rows(QUICK, 1, execution)
    assert {row["target"] for row in rows} == {"MLP, 2 epochs", "trees, fully grown"}
    shares = {}
    for row in rows:
        shares.setdefault((row["target"], row["group"]), []).append(row["share"])
    assert len(shares) == 6
    assert all(len(found) == BINS and sum(found) == pytest.approx(1.0) for found in shares.values())
    of_trees = {group: found[0] for (target, group), found in shares.items() if target == "trees, fully grown"}
    assert of_trees["members"] == 1.0 > of_trees["real non-members"]


def test_lines_of_baselines(execution):
    helpers = tables.helper_rows(SMALL, 1, execution)
    assert [row["helper"] for row in helpers] == ["generated", "real", "none"]
    found = tables.generator_rows(SMALL, 1, execution)
    assert [row["generator"] for row in found] == ["sequential trees", "tree marginals", "Gaussian copula"]
    assert found[0]["closeness"] == helpers[0]["closeness"]
    (line,) = tables.learning_rows(SMALL, 1, execution)
    assert (line["training_rows"], line["game"]) == (224, 1)
    assert line["closeness"] == helpers[0]["closeness"]


def test_features_are_codes_one_by_one_and_scaled_numbers():
    table = Table(np.array([[1.0, 0.0, 0.0], [3.0, 2.0, 1.0], [5.0, 1.0, 0.0]]), (1, 2))
    found = Encoded.of(table.rows, table)(np.array([[3.0, 2.0, 1.0], [1e9, 0.0, 0.0]]))
    assert found.tolist() == [[0.0, 0.0, 0.0, 1.0], [10.0, 1.0, 0.0, 0.0]]


def test_losses_belong_to_the_log_odds_of_the_rows_own_label():
    rows = rows_of(QUICK, 1)
    said = Helper(QUICK)(rows.others, 3)(rows.members)
    assert said.shape == (320, 2)
    assert said[:, 0] == pytest.approx(np.log1p(np.exp(-said[:, 1])))
    turned = np.column_stack([rows.members[:, :-1], 1.0 - rows.members[:, -1]])
    assert Helper(QUICK)(rows.others, 3)(turned)[:, 1] == pytest.approx(-said[:, 1])


def test_members_and_others_share_no_row():
    rows = rows_of(QUICK, 4)
    whole = table_of("breast cancer").rows
    assert sum(len(part) for part in rows) == len(whole) == len(np.unique(np.concatenate(rows), axis=0))
