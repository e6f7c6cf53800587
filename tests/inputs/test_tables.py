"""The one reader: roles and their refusals, kinds of files, names, samples, digests."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import feather

from dpaudit import InputError
from dpaudit.inputs.tables import ROLES, Table, digests, listed, one_use

ROWS = pd.DataFrame(
    {
        "score": [0.5, 1.5, 2.5],
        "flag": [1, 0, 1],
        "words": ["true", "False", " TRUE"],
        "p": [0.0, 0.5, 1.0],
        "city": ["Basel", "Como", "Basel"],
        "kind": [10.0, 2.0, 10.0],
        "gaps": [1.0, None, 2.0],
        "endless": [1.0, np.inf, 2.0],
        "counted": [3, 0, 2**53 - 1],
        "negative": [0, -2, 1],
    }
)


@pytest.fixture
def table():
    return Table.of(ROWS)


def test_roles_give_columns(table):
    assert table.column("score", "score").tolist() == [0.5, 1.5, 2.5]
    assert table.column("flag", "number").dtype == np.float64
    for name in ("flag", "words"):
        assert table.column(name, "flag").tolist() == [True, False, True]
    assert table.column("counted", "count").tolist() == [3, 0, 2**53 - 1]
    assert table.column("kind", "count").dtype == np.int64
    assert table.column("p", "probability").tolist() == [0.0, 0.5, 1.0]
    assert table.column("kind", "category").tolist() == [10, 2, 10]
    assert table.column("city", "unit").tolist() == ["Basel", "Como", "Basel"]
    codes, kinds = table.classes(["kind"])
    assert (codes.tolist(), kinds) == ([1, 0, 1], [("2",), ("10",)])
    assert table.classes(["kind"], ["10", "3", "2"])[0].tolist() == [0, 2, 0]
    assert table.numeric(["gaps"])[1] == ("gaps is empty", "gaps")
    assert table.numeric([]) == (None, ())


@pytest.mark.parametrize(
    ("name", "role", "words"),
    [
        ("nobody", "score", r"the table has no column 'nobody'.\nhint: it has score, flag"),
        ("city", "score", "column 'city' must be numbers, got 'Basel'"),
        ("gaps", "loss", r"column 'gaps' must have no gaps, got 1 empty rows.\nhint: rows are not dropped"),
        ("endless", "number", r"column 'endless' must be finite, got inf in 1 rows.\nhint: .*cap them"),
        ("score", "count", "column 'score' must be whole numbers of at least 0, got 0.5 in row 0"),
        ("negative", "count", "column 'negative' must be whole numbers of at least 0, got -2 in row 1"),
        ("city", "count", "column 'city' must be numbers, got 'Basel'"),
        ("gaps", "count", "column 'gaps' must have no gaps, got 1 empty rows"),
        ("endless", "count", "column 'endless' must be finite, got inf"),
        ("city", "flag", "`city` must be true / false .or 0 / 1., got values such as Basel, Como"),
        ("score", "flag", "`score` must be true / false"),
        ("score", "probability", r"`share` must be probabilities in \[0, 1\], got 1.5 in column 'score'"),
        ("city", "probability", r"`share` must be probabilities in \[0, 1\], got Basel"),
        ("gaps", "category", "must have no gaps"),
        ("gaps", "unit", "must have no gaps"),
    ],
)
def test_a_role_refuses_in_one_sentence(table, name, role, words):
    with pytest.raises(InputError, match=words) as problem:
        table.column(name, role, field="share" if role == "probability" else None)
    assert "\n" not in problem.value.sentence


def test_every_role_is_tested():
    assert set(ROLES) == {"score", "loss", "number", "count", "flag", "probability", "category", "unit", "feature"}


def test_kinds_of_files(tmp_path):
    some = ROWS[["score", "flag"]]
    some.to_csv(tmp_path / "t.csv", index=False)
    some.to_parquet(tmp_path / "t.parquet")
    feather.write_feather(some, str(tmp_path / "t.feather"))
    feather.write_feather(some, str(tmp_path / "t.arrow"))
    np.save(tmp_path / "t.npy", some.to_records(index=False))
    for kind in ("csv", "parquet", "feather", "arrow", "npy"):
        read = Table.of(f"t.{kind}", folder=tmp_path)
        assert read.names == ["score", "flag"]
        assert read.column("flag", "flag").tolist() == [True, False, True]
        assert digests(read)[0][0] == f"t.{kind}"
        assert sum(batch.num_rows for batch in read.batches(["score"])) == len(read) == 3
    np.save(tmp_path / "plain.npy", np.arange(4.0))
    plain = Table.of(tmp_path / "plain.npy")
    assert plain.column(plain.only, "score").tolist() == [0.0, 1.0, 2.0, 3.0]
    np.save(tmp_path / "square.npy", np.eye(2))
    with pytest.raises(InputError, match=r"'square.npy' could not be read \(an array of 2 dimensions, not one\)"):
        Table.of("square.npy", folder=tmp_path)


def test_a_path_is_no_pattern(tmp_path):
    ROWS.to_csv(tmp_path / "t[1].csv", index=False)
    assert len(Table.of(tmp_path / "t[1].csv")) == 3
    assert len(Table.of(Path("t[1].csv"), folder=tmp_path)) == 3
    with pytest.raises(InputError, match="there is no"):
        Table.of("t[1].csv", folder=tmp_path)
    with pytest.raises(InputError, match="`table` must name at least one file, got none"):
        Table.of([])


def test_samples_are_the_same_from_files_and_frames(tmp_path):
    rows = pd.DataFrame({"x": np.arange(1000), "unit": np.arange(1000) // 4})
    rows.to_parquet(tmp_path / "t.parquet")
    for unit in (None, "unit"):
        found = [
            Table.of(source, folder=tmp_path).sample(["x", "unit"], 100, unit=unit, seed=5)
            for source in ("t.parquet", rows)
        ]
        assert np.array_equal(found[0].column("x"), found[1].column("x"))
        assert np.array_equal(found[0].numbers, found[0].column("x"))
        assert found[0].population == 1000
        assert len(found[0]) == (100 if unit is None else len(found[0].numbers))
    with pytest.raises(InputError, match="`sample` must be at least 2"):
        Table.of(rows).sample(["x"], 1)


def test_names():
    assert listed("features", None) == []
    assert listed("features", "a") == ["a"]
    with pytest.raises(InputError, match="`features` must not name anything twice, got a, a"):
        listed("features", ["a", "a"])
    with pytest.raises(InputError, match="every column must have one use, got 'a' for two"):
        one_use(["a", "b", "a"])
