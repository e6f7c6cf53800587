"""The observational game on files: predictions, models of four libraries, attributes, samples, refusals."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from skl2onnx import to_onnx
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from typer.testing import CliRunner

import dpaudit as da
from dpaudit import InputError
from dpaudit.auditing.plan import load_config
from dpaudit.cli import app
from dpaudit.games import Observational, commitment
from dpaudit.inputs import tables
from dpaudit.testing.ground_truth import gaussian_mixture

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A forest that memorises 1,500 rows, an earlier model's predictions, and other rows of the same kind."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)
    x, y, distribution = gaussian_mixture(9000, 2, rng)
    inside, rest = np.arange(1500), np.arange(1500, 9000)
    forest = RandomForestClassifier(40, random_state=0).fit(x[inside], y[inside])
    rows = pd.DataFrame(x, columns=list("abcde"))
    rows["clicked"] = np.where(y == 1, "yes", "no")
    rows["user_id"] = np.arange(9000) // 3
    train = rows.iloc[inside].assign(
        p_today=forest.predict_proba(x[inside])[:, 1], p_yesterday=distribution[inside, 1].astype(float)
    )
    train.to_parquet(place / "train.parquet")
    train.to_csv(place / "train.csv", index=False)
    rows.iloc[rest].to_csv(place / "other.csv", index=False)
    (place / "forest.onnx").write_bytes(
        to_onnx(forest, x[:1], options={"zipmap": False}, target_opset=17).SerializeToString()
    )
    return place


def table(folder, **more):
    plain = {"table": "train.parquet", "label": "clicked", "target": "p_today", "counterfactual": "p_yesterday"}
    return Observational.from_table(**{**plain, "folder": str(folder), "seed": 1, "plays": 1, **more})


def audited(game):
    return da.audit(game, seed=1, delta=0.0, accept="counterfactual-right")


def test_a_table_of_predictions_and_nothing_else(folder):
    game = table(folder, calibration_fraction=0.0)
    found = game.play(seed=1).only
    assert found.scores.size == 1500
    assert da.estimators.epsilon_from_canaries(found, delta=0.0).epsilon > 1.0
    assert table(folder, table="train.csv", calibration_fraction=0.0).play(seed=1).only.digest == found.digest
    listed = table(folder, target=["p_today"], calibration_fraction=0.0).play(seed=1).only
    assert listed.digest == found.digest
    assert game.coins(1).size == 1500
    assert commitment(game, 1).startswith("sha256:")


def test_a_model_and_its_training_table(folder):
    """An ONNX forest; the proxy is trained on other rows, or is a model; the same as from its predictions."""
    features = list("abcde")
    model = table(folder, target="forest.onnx", features=features)
    direct = table(folder, features=features)
    one, two = (game.target.probabilities for game in (model, direct))
    assert one == pytest.approx(two, abs=1e-5)
    trained = table(folder, target="forest.onnx", features=features, counterfactual={"table": "other.csv"})
    found = audited(trained)
    assert found.result("blind-values").outcome == "passed"
    assert found.bounds[0].epsilon > 1.0
    assert found.plan["source"]["files"][0][0] == "train.parquet"
    assert {name for name, _ in found.plan["source"]["files"]} == {"train.parquet", "forest.onnx", "other.csv"}
    assert found.plan["source"]["features"] == features
    assert audited(trained).digest == found.digest


def test_units_are_columns(folder):
    found = table(folder, unit="user_id").play(seed=1).only
    assert found.unit == "user"
    assert found.reduced().scores.size == 450
    audit = audited(table(folder, unit="user_id", features=list("abcde")))
    assert audit.plan["unit"] == "user"
    assert "of one user are independent" in str(audit)


def test_an_attribute_that_the_model_takes(folder, tmp_path):
    """The model is asked for the likelihood of the label under both values of the flag."""
    rng = np.random.default_rng(2)
    flag, noise = rng.integers(0, 2, 1200), rng.normal(size=1200)
    label = np.where(rng.random(1200) < 0.9, flag, 1 - flag)
    frame = pd.DataFrame({"sex": np.where(flag == 1, "f / x", "m"), "noise": noise, "label": label})
    frame["p_f"] = np.where(label == 0, 0.9, 0.1)  # P(m given the label), the second class
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "m.py").write_text(
        "import numpy as np\n"
        "class Model:\n"
        "    classes_ = [0, 1]\n"
        "    def predict_proba(self, rows):\n"
        "        p = np.where(rows['sex'] == 'f / x', 0.9, 0.1)\n"
        "        return np.stack([1 - p, p], axis=1)\n"
        "def model():\n"
        "    return Model()\n"
    )
    game = Observational.from_table(
        table="t.parquet",
        label="label",
        attribute="sex",
        features=["sex", "noise"],
        target="m.py:model",
        counterfactual="p_f",
        plays=1,
        folder=str(tmp_path),
    )
    made = game
    assert made.relation is da.Relation.LABEL
    assert made.feature_names == ("noise", "label")
    before, after = made.counterfactual.density(made.values), made.target.density(made.values)
    assert np.all((after > before) == (flag == label))
    assert game.play(seed=1).only.scores.size == 1080


def test_numbers_of_classes_are_in_numeric_order(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 12, 600)
    columns = {f"p{n}": np.where(labels == n, 0.89, 0.01) for n in range(12)}
    pd.DataFrame({"y": labels.astype(float), **columns}).to_parquet(tmp_path / "t.parquet")
    names = [f"p{n}" for n in range(12)]
    game = Observational.from_table(
        table="t.parquet", label="y", target=names, counterfactual=names, folder=str(tmp_path)
    )
    assert np.array_equal(game.values, labels)
    assert np.all(game.target.density(game.values) > 0.8)


def test_samples_of_large_tables(folder, tmp_path):
    """Rows, or whole users, drawn by the seed, batch by batch; Arrow files and patterns too."""
    found = table(folder, sample=400, calibration_fraction=0.0)
    assert found.play(seed=1).only.scores.size == 400
    assert found.play(seed=1).only.population == 1500
    assert (
        found.play(seed=1).only.digest
        != table(folder, sample=400, calibration_fraction=0.0, seed=2).play(seed=1).only.digest
    )
    users = table(folder, sample=600, unit="user_id", calibration_fraction=0.0).play(seed=1).only
    assert 400 < users.scores.size < 800
    assert all(np.sum(users.group == name) == 3 for name in np.unique(users.group))
    audit = audited(found)
    assert "A sample of 400 of 1,500 rows" in str(audit)
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        rows = pa.Table.from_pandas(pd.read_csv(folder / "train.csv").iloc[day::2], preserve_index=False)
        parquet.write_table(rows, tmp_path / f"day={day}" / "part.parquet")
        feather.write_feather(rows, tmp_path / f"{day}.feather")
    assert len(tables.files_of(["day=*/part.parquet", "day=1/*.parquet"], tmp_path)) == 2
    for pattern in ("day=*/part.parquet", "*.feather"):
        assert Observational.from_table(
            table=pattern,
            label="clicked",
            target="p_today",
            counterfactual="p_yesterday",
            folder=str(tmp_path),
            calibration_fraction=0.0,
            plays=1,
        ).play(seed=1).only.scores.size == 1499  # fmt: skip


def test_run_from_a_file(folder, tmp_path):
    config = folder / "labels.toml"
    config.write_text(
        "[game.observational_coins]\ntable = 'train.parquet'\nlabel = 'clicked'\n"
        "target = 'p_today'\ncounterfactual = 'p_yesterday'\n"
        "features = ['a', 'b', 'c', 'd', 'e']\nunit = 'user_id'\n[audit]\nseed = 3\nfail_if = 'epsilon > 0.5'\n"
    )
    assert "game.observational_coins.calibration_fraction" in load_config(config).explain()
    output, changed = tmp_path / "out", ["--set", "game.observational_coins.plays = 3"]
    done = RUNNER.invoke(app, ["run", str(config), "--output", str(output), *changed])
    assert done.exit_code == 4
    assert "Uninformative: The coins alone rest on the proxy" in done.output
    assert "epsilon >=" not in done.output
    accepted = ["--set", "audit.accept = ['counterfactual-right']"]
    done = RUNNER.invoke(app, ["run", str(config), "--output", str(output), *changed, *accepted])
    assert "Control passed" in done.output
    assert done.exit_code == 4  # the bound rests on sentences that nobody accepted, so fail_if cannot say
    record = da.load_audit(output / "labels.json")
    assert record.result("risk").numbers["units"] == 450
    page = (output / "report.html").read_text()
    assert "What was checked" in page
    assert "3 plays of" in page
    names = ["labels.evidence.parquet", "labels.evidence-2.parquet", "labels.evidence-3.parquet"]
    saved = [da.load_evidence(output / name) for name in names]
    assert [one.digest for one in saved] == [entry["digest"] for entry in record.evidence]
    each = [da.estimators.epsilon_from_canaries(one, delta=1e-5, confidence=1.0 - 0.05 / 4) for one in saved]
    assert record.bounds[0].epsilon == sorted(one.epsilon for one in each)[1]  # two attempts, and the median of plays


def test_a_file_tosses_the_coins_21_times(folder):
    game = Observational.from_table(
        table="train.parquet", label="clicked", target="p_today", counterfactual="p_yesterday", folder=str(folder)
    )
    assert game.plays == game.repeats == 21
    assert len(game.play(seed=1).evidence) == 21


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"table": "none.parquet"}, "there is no 'none.parquet'"),
        ({"label": "nothing"}, "no column 'nothing'"),
        ({"label": 3}, "`label` must be the name"),
        ({"unit": 3}, "`unit` must be the name"),
        ({"target": "p_tomorrow"}, "no column 'p_tomorrow'"),
        ({"target": {"table": "x"}}, "`target` must be a model or columns"),
        ({"target": "a"}, r"`target` must be probabilities in \[0, 1\]"),
        ({"target": ["p_today", "p_yesterday", "a"]}, "one column a class"),
        ({"target": "forest.onnx"}, "`features` must list the columns"),
        ({"target": "forest.pkl", "features": ["a"]}, "must not be a pickle"),
        ({"counterfactual": {"model": "x"}}, "`counterfactual` must be columns, a model"),
        ({"counterfactual": {"table": "train.parquet"}, "features": ["a"]}, "must hold other rows"),
        ({"attribute": "a"}, "`attribute` needs a model"),
        ({"features": ["clicked"]}, "must not hold the label"),
        ({"classes": ["no", "maybe"]}, "lacks 'yes'"),
        ({"classes": ["no", "yes", "yes"]}, "must not name anything twice"),
        ({"target": 3}, "`target` must be a list"),
        ({"counterfactual": {"table": "none.csv"}, "features": ["a"]}, "`counterfactual.table` must name files"),
        ({"label": "a"}, "takes 1,500 different values"),
        ({"sample": "x"}, "`sample` must be a whole number"),
        ({"shift": "x"}, "`shift` must be a number"),
        ({"calibration_fraction": 2}, "`calibration_fraction` must be in"),
        ({"log_ratio": "x"}, "`log_ratio` must be a number"),
        ({"attack": "lira"}, "`attack` must be one of"),
        ({"plays": 0}, "`plays` must be at least 1"),
    ],
)
def test_bad_input_is_one_sentence(folder, more, words):
    with pytest.raises(InputError, match=words):
        table(folder, **more).play(seed=1)


def test_a_model_that_fails_is_a_failed_run(folder, tmp_path):
    (tmp_path / "train.parquet").write_bytes((folder / "train.parquet").read_bytes())
    (tmp_path / "broken.py").write_text(
        "def model():\n    def predict(rows):\n        raise OSError('no GPU')\n    return predict\n"
    )
    config = tmp_path / "broken.toml"
    config.write_text(
        "[game.observational_coins]\ntable = 'train.parquet'\nlabel = 'clicked'\ntarget = 'broken.py:model'\n"
        "counterfactual = 'p_yesterday'\nfeatures = ['a', 'b']\n"
    )
    done = RUNNER.invoke(app, ["run", str(config), "--output", str(tmp_path / "out")])
    assert done.exit_code == 3
    assert "the model failed on these rows (OSError: no GPU)" in done.output
    assert da.load_audit(tmp_path / "out" / "broken.json").outcome is da.Outcome.FAILED


def test_gaps_and_strange_files_are_refused(folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv")
    frame.loc[3, "p_today"] = np.nan
    frame.to_parquet(tmp_path / "train.parquet")
    with pytest.raises(InputError, match="1 empty rows"):
        table(tmp_path).play(seed=1)
    (tmp_path / "bad.parquet").write_text("nonsense")
    with pytest.raises(InputError, match="could not be read"):
        table(tmp_path, table="bad.parquet")
    with pytest.raises(InputError, match="of one kind"):
        table(folder, table=["train.parquet", "train.csv"])
    frame.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(InputError, match="no rows"):
        table(tmp_path, table="empty.parquet").play(seed=1)
    odd = tmp_path / "odd.toml"
    odd.write_text("game.observational_coins = { tabel = 'x' }")
    done = RUNNER.invoke(app, ["run", str(odd)])
    assert isinstance(done.exception, InputError)
    assert "did you mean `table`" in str(done.exception)


def test_columns_of_many_texts_are_encoded(folder, tmp_path):
    frame = pd.read_csv(folder / "train.csv").assign(zip=[f"z{n % 400}" for n in range(1500)], sex=["f", "m"] * 750)
    frame.to_parquet(tmp_path / "train.parquet")
    game = table(tmp_path, features=["a", "b", "zip", "sex"])
    assert game.feature_names == ("a", "b", "sex = f", "sex = m", "zip (encoded)", "sex (encoded)")
    assert not any(one.id == "rare-levels" for one in game.play(seed=1).only.assumptions)


def test_functions_that_fail_are_failed_runs(folder, tmp_path):
    (tmp_path / "train.parquet").write_bytes((folder / "train.parquet").read_bytes())
    (tmp_path / "odd.py").write_text(
        "def boom():\n    raise OSError('x')\ndef text():\n    return lambda rows: ['a'] * len(rows)\n"
    )
    for name, words in (("boom", "'odd.py:boom' failed"), ("text", "the model failed on these rows")):
        with pytest.raises(da.RunFailed, match=words):
            table(tmp_path, target=f"odd.py:{name}", features=["a"]).play(seed=1)


def test_columns_as_numbers():
    matrix, names = tables.numeric(
        {"age": np.array([1.0, np.nan, 3.0]), "city": np.array(["x", None, "x"], dtype=object)}
    )
    assert names == ["age is empty", "age", "city = x", "city = empty"]
    assert matrix[:, 1].tolist() == [1.0, 2.0, 3.0]


def test_a_trained_proxy_needs_every_class(folder, tmp_path):
    other = pd.read_csv(folder / "other.csv")
    other[other.clicked == "no"].to_csv(tmp_path / "other.csv", index=False)
    (tmp_path / "train.parquet").write_bytes((folder / "train.parquet").read_bytes())
    with pytest.raises(InputError, match="has none of 'yes'"):
        table(tmp_path, counterfactual={"table": "other.csv"}, features=["a"]).play(seed=1)


def test_catboost_is_a_target(folder, tmp_path):
    from catboost import CatBoostClassifier

    frame = pd.read_csv(folder / "train.csv")
    model = CatBoostClassifier(iterations=300, depth=8, verbose=False, allow_writing_files=False, thread_count=1)
    model.fit(frame[list("abcde")], frame.clicked)
    model.save_model(str(tmp_path / "m.cbm"))
    frame.to_parquet(tmp_path / "train.parquet")
    found = audited(table(tmp_path, target="m.cbm", features=list("abcde")))
    assert found.bounds[0].epsilon > 0.5


def test_scikit_learn_and_proxy_by_function(folder, tmp_path):
    (tmp_path / "train.parquet").write_bytes((folder / "train.parquet").read_bytes())
    (tmp_path / "reference.py").write_text(
        f"import pandas as pd\nfrom sklearn.ensemble import {HistGradientBoostingClassifier.__name__} as Model\n"
        f"def model():\n    rows = pd.read_csv({str(folder / 'other.csv')!r})\n"
        "    return Model(max_iter=60).fit(rows[list('abcde')], rows.clicked)\n"
    )
    found = audited(table(tmp_path, counterfactual="reference.py:model", features=list("abcde")))
    assert found.outcome is da.Outcome.NO_CLAIM
    assert found.bounds[0].epsilon > 1.0
