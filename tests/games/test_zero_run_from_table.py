"""Zero-run on files: scores, losses or probabilities; texts, dates and gaps; units, samples, refusals, the record."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import special
from typer.testing import CliRunner

import dpaudit as da
from dpaudit import InputError
from dpaudit.auditing.plan import load_config
from dpaudit.cli import app
from dpaudit.fitted.propensity import Boosted
from dpaudit.games import ZeroRun, commitment, fingerprint
from dpaudit.inputs import tables
from dpaudit.record import schema

RUNNER = CliRunner()
FEATURES = ["age", "visits", "city"]


def people(n=1600, seed=3, apart=1.0):
    """Members differ by age and city; the model's loss is lower on them, and its second class is the likelier one."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(n) < n // 2)
    age = rng.normal(size=n) + np.where(member, apart / 2.0, -apart / 2.0)
    city = np.where(rng.random(n) < np.where(member, 0.6, 0.4), "Basel", "Como")
    sure = special.expit(np.where(member, 3.0, 0.0) + rng.normal(size=n))
    label = rng.integers(0, 2, n)
    frame = pd.DataFrame({"member": member, "age": age, "visits": rng.normal(size=n), "city": city})
    frame["loss"] = -np.log(sure)
    frame["score"] = np.log(sure)
    frame["clicked"] = np.where(label == 1, "yes", "no")
    frame["p_yes"] = np.where(label == 1, sure, 1.0 - sure)
    frame["p_no"] = 1.0 - frame["p_yes"]
    frame["user_id"] = np.argsort(np.argsort(~member, kind="stable")) // 2  # two rows each, all of one kind
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("zero")
    frame = people()
    frame.to_parquet(place / "people.parquet")
    frame.to_csv(place / "people.csv", index=False)
    return place


def table(folder, **more):
    return ZeroRun.from_table(
        **{"table": "people.parquet", "features": FEATURES, "folder": str(folder), "seed": 1, **more}
    )


def arrays(columns, **more):
    frame = people()
    matrix, names = tables.numeric({name: frame[name].to_numpy() for name in columns})
    return ZeroRun(
        **{
            "scores": frame["score"],
            "member": frame["member"],
            "features": matrix,
            "feature_names": tuple(names),
            **more,
        }
    )


# ------------------------------------------------------------------------------------------------ the same as by arrays


def test_scores_and_losses_are_the_game_of_the_arrays(folder):
    wanted = arrays(FEATURES).play(seed=1).only
    for more in ({}, {"score": "score"}, {"loss": "loss"}, {"propensity": "logistic"}, {"table": "people.csv"}):
        assert table(folder, **more).play(seed=1).only.digest == wanted.digest, more
    game = table(folder)
    assert np.array_equal(game.coins(1), arrays(FEATURES).coins(1))
    assert commitment(game, 1) == commitment(arrays(FEATURES), 1)
    assert fingerprint(game, 1) != fingerprint(table(folder, loss="loss"), 1)
    assert isinstance(table(folder, propensity="boosted").propensity, Boosted)


def test_probabilities_give_the_log_probability_of_the_label(folder):
    """One column of two classes, or one a class, in any order that `classes` says; the label is a feature with it."""
    wanted = arrays([*FEATURES, "clicked"]).play(seed=1).only
    for more in (
        {"probability": "p_yes"},
        {"probability": ["p_no", "p_yes"]},
        {"probability": ["p_yes", "p_no"], "classes": ["yes", "no"]},
    ):
        game = table(folder, label="clicked", **more)
        np.testing.assert_allclose(game.play(seed=1).only.scores, wanted.scores, atol=1e-9)
        assert game.source["features"] == [*FEATURES, "clicked"]
    third = {"probability": ["p_no", "p_yes", "p_none"], "classes": ["no", "yes", "never"], "label": "clicked"}
    people().assign(p_none=0.0).to_parquet(folder / "three.parquet")
    np.testing.assert_allclose(table(folder, table="three.parquet", **third).scores, people()["score"])


def test_a_table_and_nothing_else(tmp_path):
    """Every column without a use is a feature; what a model said is none, whatever else there is."""
    people()[["member", "loss", *FEATURES]].to_csv(tmp_path / "t.csv", index=False)
    game = ZeroRun.from_table(table="t.csv", folder=tmp_path, seed=1)
    assert (game.source["score"], game.source["features"]) == ("-loss", FEATURES)
    assert game.play(seed=1).only.digest == arrays(FEATURES).play(seed=1).only.digest
    people().to_parquet(tmp_path / "t.parquet")
    game = ZeroRun.from_table(table="t.parquet", leave_out=["p_yes", "p_no"], unit="user_id", folder=tmp_path, seed=1)
    assert (game.source["score"], game.source["features"]) == ("score", [*FEATURES, "clicked"])


def test_known_propensities(folder):
    frame = people()
    frame["low"], frame["high"] = 0.5, 0.6
    frame.to_parquet(folder / "known.parquet")
    one = table(folder, table="known.parquet", propensity="low")
    assert (
        one.play(seed=1).only.digest == arrays(FEATURES, propensity=np.full(len(frame), 0.5)).play(seed=1).only.digest
    )
    both = table(folder, table="known.parquet", propensity=["low", "high"], features=[], adversary="unaware")
    evidence = both.play(seed=1).only
    assert np.all(evidence.propensity == [0.5, 0.6])
    assert "Control not tried" in str(da.audit(both, seed=1, delta=0.0))
    assert table(folder, table="known.parquet", propensity="low", relation="add-remove").play(seed=1).only.relation is (
        da.Relation.ADD_REMOVE
    )
    with pytest.raises(InputError, match="add-remove needs known propensities"):
        table(folder, relation="add-remove").play(seed=1)


def test_propensities_of_0_and_1_say_nothing(tmp_path):
    people().assign(low=0.0, high=1.0).to_parquet(tmp_path / "t.parquet")
    game = ZeroRun.from_table(table="t.parquet", propensity=["low", "high"], features=FEATURES, folder=tmp_path, seed=1)
    assert da.audit(game, seed=1, delta=0.0).bounds[0].epsilon == 0.0


def test_a_random_hold_out_needs_no_features(folder):
    game = table(folder, origin="split", features=None)
    evidence = game.play(seed=1).only
    assert evidence.assignment == "split"
    assert evidence.scores.size == 1600
    found = da.audit(game, seed=1, delta=0.0)
    assert found.plan["source"]["propensity"] == "none"
    assert (found.plan["fit_fraction"], found.plan["source"]["features"]) == (0.0, [])
    assert found.bounds[0].epsilon > 1.0


def test_units_are_columns(folder):
    game = table(folder, unit="user_id")
    assert len(game.units) == 800
    found = da.audit(game, seed=1, delta=0.0)
    assert found.plan["unit"] == "user"
    assert "substitute of one user" in str(found)
    assert "no two rows belong" not in str(found)
    people().assign(user_id=np.arange(1600) % 5).to_parquet(folder / "mixed.parquet")
    people().assign(low=np.linspace(0.4, 0.6, 1600)).to_parquet(folder / "uneven.parquet")
    with pytest.raises(InputError, match="`member` must be the same for all rows of one unit"):
        table(folder, table="mixed.parquet", unit="user_id").play(seed=1)
    with pytest.raises(InputError, match="`propensity` must be the same for all rows of one unit"):
        table(folder, table="uneven.parquet", unit="user_id", propensity="low").play(seed=1)


def test_samples_and_several_files(folder, tmp_path):
    game = table(folder, sample=500)
    assert game.scores.size == 500
    assert game.play(seed=1).only.digest == table(folder, sample=500).play(seed=1).only.digest
    frame = people()
    for name, rows in (("in", frame[frame.member]), ("out", frame[~frame.member])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    both = ZeroRun.from_table(table=["in.csv", "out.csv"], features=FEATURES, folder=tmp_path, seed=1)
    assert both.scores.size == 1600
    assert [name for name, _ in both.source["files"]] == ["in.csv", "out.csv"]


# ------------------------------------------------------------------------------------------------------ texts and dates


def test_texts_dates_and_gaps_become_numbers(tmp_path):
    frame = people()[["member", "score", "age"]]
    frame["zip"] = [f"z{n % 300}" for n in range(1600)]
    frame["born"] = pd.Timestamp("1980-01-01") + pd.to_timedelta(np.arange(1600) % 700, "D")
    frame.loc[5, "age"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    game = ZeroRun.from_table(table="t.parquet", folder=tmp_path, seed=1)
    names = game.feature_names
    assert {"age", "age is empty", "born", "zip = z0"} <= set(names)
    days = game.features[:, names.index("born")]
    assert days[1] - days[0] == 1.0
    evidence = game.play(seed=1).only
    assert "column 'zip' says nothing beyond its 100 most frequent of 300 values" in map(str, evidence.assumptions)
    assert ZeroRun.from_table(table="t.csv", folder=tmp_path, seed=1).play(seed=1).only.digest == evidence.digest


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("survey", lambda member, rng: np.where(member, "spring", "autumn")),
        ("migration", lambda member, rng: np.where(member, np.nan, rng.normal(size=member.size))),
        ("day", lambda member, rng: pd.to_datetime(rng.permutation(member.size) + 2000 * ~member, unit="D")),
    ],
)
def test_a_revealing_column_is_named_as_in_the_file(tmp_path, column, values):
    frame = people()[["member", "score", *FEATURES]]
    frame[column] = values(frame["member"].to_numpy(), np.random.default_rng(0))
    frame.to_parquet(tmp_path / "t.parquet")
    game = ZeroRun.from_table(table="t.parquet", folder=tmp_path, seed=1)
    found = da.audit(game, seed=1, delta=0.0)
    assert found.result("leaking-features").numbers["names"] == [column]
    assert found.outcome is da.Outcome.WITHHELD
    assert found.bounds == ()
    assert any(
        f"If column {column} came about by how the rows were collected" in step.text for step in found.next_steps
    )
    without = ZeroRun.from_table(table="t.parquet", leave_out=column, log_odds_error=0.1, folder=tmp_path, seed=1)
    assert da.audit(without, seed=1, delta=0.0).bounds[0].epsilon > 0.5


def test_gaps_and_numbers_of_many_values_may_reveal():
    """Numbers that are there for members only, and spread like nothing; gaps of some rows of both groups do not."""
    rng = np.random.default_rng(1)
    member = np.arange(2000) < 1000
    some = np.where(rng.random(2000) < 0.5, np.nan, rng.normal(size=2000))
    columns = {"told": np.where(member, rng.normal(size=2000), np.nan), "some": some, "none": np.full(2000, np.nan)}
    assert [one.column for one in da.attacks.leaking_columns(columns, member)] == ["told"]


# ------------------------------------------------------------------------------------------------------- from the shell

AUDIT = """
audit = { name = "people", seed = 3, delta = 0.0 }
[game.zero_run]
table = "people.parquet"
origin = "later"
leave_out = ["clicked", "p_yes", "p_no"]
unit = "user_id"
log_odds_error = 0.1
"""


def test_run_from_a_file(folder, tmp_path):
    """The same record from any number of workers; it reads back, and nothing is kept of runs that there are not."""
    config = folder / "people.toml"
    config.write_text(AUDIT)
    explained = load_config(config).explain()
    assert "game.zero_run.features" in explained
    assert "['clicked', 'p_yes', 'p_no']" in explained
    records = []
    for workers in ("1", "2"):
        out = tmp_path / workers
        done = RUNNER.invoke(app, ["run", str(config), "--output", str(out), "--workers", workers])
        assert done.exit_code == 0, done.output
        assert "Control passed" in done.output
        assert sorted(path.name for path in out.iterdir()) == ["people.evidence.parquet", "people.json", "report.html"]
        records.append(da.load_audit(out / "people.json"))
    assert records[0] == records[1]
    assert records[0].digest == records[1].digest
    found = records[0]
    jsonschema.validate(json.loads(found.to_json()), schema())
    plan = found.plan
    told = plan["source"]
    assert (plan["game"], plan["origin"], told["score"], told["member"]) == ("zero-run", "later", "score", "member")
    assert (told["features"], told["leave_out"]) == (FEATURES, ["clicked", "p_yes", "p_no"])
    assert (plan["rows"], plan["fit_fraction"], plan["unit"]) == (1600, 0.5, "user")
    assert told["files"][0][0] == "people.parquet"
    assert found.bounds[0].epsilon > 0.5
    assert found.result("sensitivity").numbers["epsilon"]
    again = da.load_evidence(tmp_path / "1" / "people.evidence.parquet")
    assert again.digest == found.evidence[0]["digest"]
    shown = RUNNER.invoke(app, ["run", str(config), "--commit"])
    assert found.seeds["commitment"] in shown.output


def test_a_bad_table_leaves_nothing_half_written(folder, tmp_path):
    people().assign(member="yes").to_parquet(folder / "odd.parquet")
    config = folder / "odd.toml"
    config.write_text("game.zero_run = { table = 'odd.parquet', features = ['age'] }")
    done = RUNNER.invoke(app, ["run", str(config), "--output", str(tmp_path / "out")])
    assert isinstance(done.exception, InputError)
    assert "`member` must be true / false (or 0 / 1), got values such as yes." in str(done.exception)
    assert list((tmp_path / "out").iterdir()) == []
    config.write_text("game.zero_run = { tabel = 'odd.parquet' }")
    done = RUNNER.invoke(app, ["run", str(config)])
    assert "did you mean `table`" in str(done.exception)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"table": "none.parquet"}, "there is no 'none.parquet'"),
        ({"member": "trained"}, r"no column 'trained'.\nhint: it has member, age"),
        ({"member": 3}, "`member` must be the name of a column, got 3"),
        ({"member": None}, "`member` must be the name of a column, got None"),
        ({"member": "user_id"}, "`user_id` must be true / false"),
        ({"score": "nothing"}, "no column 'nothing'"),
        ({"score": "clicked"}, "column 'clicked' must be numbers, got '(yes|no)'"),
        ({"loss": 3}, "`loss` must be the name of a column"),
        ({"score": "score", "loss": "loss"}, "`score` and `loss` both give a score"),
        ({"probability": "p_yes"}, "`probability` needs `label`"),
        ({"probability": "user_id", "label": "clicked"}, r"`probability` must be probabilities in \[0, 1\]"),
        ({"probability": ["p_yes", "p_yes"], "label": "clicked"}, "must not name anything twice"),
        ({"probability": ["p_no", "p_yes", "score"], "label": "clicked"}, r"one column a class \(no, yes\), got 3"),
        ({"probability": "p_yes", "label": "clicked", "classes": ["yes", "maybe"]}, "lacks 'no'"),
        ({"probability": ["p_yes", "p_no"], "label": "age"}, "must name one column a class"),
        ({"probability": "p_yes", "label": "clicked", "leave_out": "clicked"}, "must not hold the label"),
        ({"probability": "p_yes", "label": "member"}, "every column must have one use, got 'member' for two"),
        ({"label": "clicked"}, r"`label` belongs to `probability`.*\nhint: leave `label` out"),
        ({"classes": ["a", "b"]}, "`classes` belongs to `probability`"),
        ({"features": ["age", "score"]}, "`features` must have no other use and not be left out, got 'score'"),
        ({"features": ["age"], "leave_out": ["age"]}, "not be left out, got 'age'"),
        ({"features": ["wages"]}, "no column 'wages'"),
        ({"features": []}, r"must have features to learn the propensity from.*\nhint: known propensities"),
        ({"leave_out": ["wages"]}, "no column 'wages'"),
        ({"leave_out": 3}, "`leave_out` must be a list"),
        ({"origin": "generated"}, r"generated non-members.*\nhint: .*panoramia.*dpaudit estimate"),
        ({"origin": "random"}, "`origin` must be one of"),
        (
            {"origin": "split", "features": None, "propensity": "p_yes"},
            r'`propensity` has no use where origin = "split"',
        ),
        ({"origin": "split"}, r'`features` has no use where origin = "split"'),
        ({"origin": "split", "features": None, "log_odds_error": 0.1}, "`log_odds_error` has no use"),
        ({"origin": "split", "features": None, "relation": "add-remove"}, "certifies substitute adjacency"),
        ({"propensity": "forest"}, r"`propensity` must be 'logistic' or 'boosted', or columns.*\nhint: it has member"),
        ({"propensity": ["p_yes", "p_no", "loss"]}, "one column or two"),
        ({"propensity": 3}, "`propensity` must be a list"),
        ({"propensity": []}, "one column or two"),
        ({"probability": [], "label": "clicked"}, "one column a class"),
        ({"score": ""}, "no column ''"),
        ({"unit": ""}, "no column ''"),
        ({"propensity": "visits", "features": ["age"]}, "`propensity` must be probabilities"),
        ({"propensity": ["p_yes", "p_no"]}, "the lower first"),
        ({"propensity": "p_yes", "cross_fit": True}, "`cross_fit` is for a propensity model"),
        ({"cross_fit": "yes"}, "`cross_fit` must be true or false"),
        ({"unit": 3}, "`unit` must be the name of a column"),
        ({"unit": "member"}, "every column must have one use, got 'member' for two"),
        ({"adversary": "blind"}, "`adversary` must be one of"),
        ({"trim": 0.7}, "`trim` must be in"),
        ({"fit_fraction": 2}, "`fit_fraction` must be in"),
        ({"fit_fraction": 0.0}, "`fit_fraction` must be a share above 0"),
        ({"clip": "x"}, "`clip` must be a number"),
        ({"log_odds_error": -1}, "`log_odds_error` must be at least 0"),
        ({"sample": 1}, "`sample` must be at least 2"),
        ({"relation": "label"}, "substitute or add-remove"),
        ({"relation": "other"}, "`relation` must be one of"),
    ],
)
def test_bad_input_is_one_sentence(folder, more, words):
    with pytest.raises(InputError, match=words) as problem:
        da.audit(table(folder, **more), seed=1)
    assert "\n" not in problem.value.sentence


def test_gaps_infinite_losses_and_one_kind_are_refused(tmp_path):
    frame = people()

    def refused(words, **changes):
        frame.assign(**changes).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(InputError, match=words):
            ZeroRun.from_table(table="t.parquet", features=["age"], folder=tmp_path, seed=1).play(seed=1)

    holes = frame["member"].astype("boolean").mask(np.arange(1600) < 3)
    refused("column 'member' must have no gaps, got 3 empty rows", member=holes)
    refused("`member` must be true / false .or 0 / 1., got values such as 0, 1, 2", member=np.arange(1600) % 3)
    refused("`member` must hold members and non-members, got one kind only", member=True)
    refused("column 'score' must have no gaps", score=np.where(np.arange(1600) < 2, np.nan, 1.0))
    refused("column 'score' must be finite, got -inf in 2 rows", score=np.where(np.arange(1600) < 2, -np.inf, 1.0))
    refused("must hold numbers, texts or dates, got list", age=[[1.0, 2.0]] * 1600)
    (tmp_path / "bare.csv").write_text("member,age\n1,2\n0,3\n")
    with pytest.raises(InputError, match=r"the table has none called so.\nhint: it has member, age"):
        ZeroRun.from_table(table="bare.csv", folder=tmp_path, seed=1)
    (tmp_path / "twice.csv").write_text("member,loss,age,age\n1,2,3,4\n")
    with pytest.raises(InputError, match=r"'twice.csv' could not be read .*multiple columns named age") as problem:
        ZeroRun.from_table(table="twice.csv", folder=tmp_path, seed=1)
    assert str(tmp_path) not in str(problem.value)
    columns = [frame["member"], frame["loss"], frame["age"], frame["age"]]
    parquet.write_table(pa.table(columns, names=["member", "loss", "age", "age"]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="duplicate field names"):
        ZeroRun.from_table(table="twice.parquet", folder=tmp_path, seed=1)
    frame.assign(clicked="yes").to_parquet(tmp_path / "one.parquet")
    with pytest.raises(InputError, match="'clicked' must take at least two values, got one"):
        ZeroRun.from_table(table="one.parquet", probability="p_yes", label="clicked", folder=tmp_path, seed=1).play(
            seed=1
        )
