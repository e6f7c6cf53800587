"""The matched game on files: halves of other rows, hold-outs, attributes, numbers, many classes, re-drawn values."""

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

from dpaudit import InputError, Relation
from dpaudit.counterfactuals import Residuals
from dpaudit.games import _matched_sources as sources
from dpaudit.games import _matched_table as reading
from dpaudit.games.matched import MatchedRows, redrawn_values
from dpaudit.inputs.tables import Table
from dpaudit.testing.ground_truth import gaussian_mixture

FEATURES = list("abcde")
MODEL = """
import numpy as np

class Model:
    classes_ = {classes}
    def predict_proba(self, rows):
        {body}

def model():
    return Model()
"""


def written(folder, name, classes, body):
    (folder / name).write_text(MODEL.format(classes=classes, body=body.replace("\n", "\n        ")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A forest that memorises 1,200 rows, what it says of them, and two other tables of the same kind."""
    place = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)
    x, y, law = gaussian_mixture(5200, 2, rng)
    forest = RandomForestClassifier(30, random_state=0).fit(x[:1200], y[:1200])
    rows = pd.DataFrame(x, columns=FEATURES)
    rows["clicked"] = np.where(y == 1, "yes", "no")
    rows["user_id"] = np.arange(5200) // 2
    rows["p_today"], rows["p_yesterday"] = forest.predict_proba(x)[:, 1], law[:, 1].astype(float)
    for name, part in {"train": slice(0, 1200), "other": slice(1200, 3200), "tomorrow": slice(3200, 5200)}.items():
        rows.iloc[part].to_parquet(place / f"{name}.parquet")
    rows.to_parquet(place / "all.parquet")
    model = to_onnx(forest, x[:1], options={"zipmap": False}, target_opset=17)
    (place / "forest.onnx").write_bytes(model.SerializeToString())
    return place


def read(folder, **more):
    plain = {"table": "train.parquet", "label": "clicked", "target": "p_today", "features": FEATURES}
    return MatchedRows.from_table(**{**plain, "folder": str(folder), "seed": 1, **more})


def success(game):
    """Percent right, of the training rows and of the others."""
    found = game.play(seed=1).only
    parts = {"trained": found.audited, "alone": found.own & ~found.audited}
    return {name: 100.0 * found.right[rows].mean() for name, rows in parts.items()}


def test_only_rows_that_the_model_never_saw_are_given(folder):
    """Half of them trains the proxy, the attack is compared with the other half."""
    game = read(folder, placebo="other.parquet")
    assert (len(game.audited), len(game.placebo)) == (1200, 1000)
    assert game.relation is Relation.LABEL
    found = success(game)
    assert found["trained"] > 90.0 > found["alone"]
    law = pd.read_parquet(folder / "other.parquet").set_index("a")["p_yesterday"]
    near = np.abs(game.placebo.counterfactual.probabilities[:, 1] - law.loc[game.placebo.columns["a"]].to_numpy())
    assert near.mean() < 0.15
    assert "half of those that the model never saw" in game.source["proxy"]
    assert [name for name, _ in game.source["files"]] == ["train.parquet", "other.parquet"]
    assert game.play(seed=1).only == read(folder, placebo="other.parquet").play(seed=1).only
    assert game.play(seed=1).only != read(folder, placebo="other.parquet", seed=2).play(seed=1).only


def test_the_same_rows_by_four_names(folder):
    """`placebo`, the table of a proxy, both, and a data frame: the same halves of the same rows."""
    one = read(folder, placebo="other.parquet").play(seed=1).only
    proxy = {"table": "other.parquet"}
    assert read(folder, counterfactual=proxy).play(seed=1).only == one
    assert read(folder, counterfactual=proxy, placebo="other.parquet").play(seed=1).only == one
    frame = pd.read_parquet(folder / "other.parquet")
    assert read(folder, counterfactual={"table": frame}, placebo=frame).play(seed=1).only == one
    assert read(folder, table=pd.read_parquet(folder / "train.parquet"), placebo=frame).play(seed=1).only == one


def test_no_row_trains_the_proxy_and_is_guessed_at(folder):
    pool = Table.of("other.parquet", folder=folder).sample([*FEATURES, "user_id"])
    first, second = sources.halves(pool, None, 1)
    assert (len(first), len(second)) == (1000, 1000)
    assert not set(first.column("a")) & set(second.column("a"))
    assert np.all(np.diff(np.searchsorted(np.sort(pool.column("user_id")), second.column("user_id"))) >= 0)
    first, second = sources.halves(pool, "user_id", 1)
    assert not set(first.column("user_id")) & set(second.column("user_id"))
    assert (len(first), len(second)) == (1000, 1000)
    with pytest.raises(InputError, match="at least 4 users, got 2"):
        sources.halves(sources.some(pool, np.arange(4)), "user_id", 1)


def test_two_tables_besides(folder):
    game = read(folder, counterfactual={"table": "other.parquet"}, placebo="tomorrow.parquet")
    assert len(game.placebo) == 2000
    assert "learnt from 2,000 other rows" in game.source["proxy"]
    assert [name for name, _ in game.source["files"]] == ["train.parquet", "tomorrow.parquet", "other.parquet"]


def test_predictions_and_nothing_else(folder):
    """Columns of target and proxy in both tables; without other rows there is nothing to compare with."""
    game = read(folder, features=None, counterfactual="p_yesterday", placebo="tomorrow.parquet")
    assert len(game.placebo) == 2000
    assert game.audited.columns == {}
    assert success(game)["trained"] > 90.0
    assert set(game.placebo.marks) == {"user_id"}
    alone = read(folder, features=None, counterfactual="p_yesterday")
    assert alone.placebo is None
    assert alone.play(seed=1).only.placebo_rows == 0


def test_a_model_says_the_same_as_its_predictions(folder):
    one = read(folder, placebo="other.parquet", target="forest.onnx")
    two = read(folder, placebo="other.parquet")
    for rows, other in ((one.audited, two.audited), (one.placebo, two.placebo)):
        assert rows.target.probabilities == pytest.approx(other.target.probabilities, abs=1e-5)
    assert "forest.onnx" in {name for name, _ in one.source["files"]}


def test_a_random_hold_out(folder):
    game = read(folder, held_out="other.parquet")
    assert game.held_out_at_random
    play = game.play(seed=1)
    assert play.only.included.sum() == 1200
    assert play.only.scores.size == 2200
    assert [one.id for one in play.comparisons] == ["label"]
    whole = read(folder, held_out="other.parquet", protect="record", features=None)
    assert whole.audited.counterfactual is None
    assert whole.source["proxy"] == "none"
    assert whole.play(seed=1).only.sides == "both"
    assert whole.play(seed=1).only.scores.size == 3200
    proxied = read(folder, held_out="other.parquet", protect="record")
    assert proxied.play(seed=1).only.sides == "sign"


def test_units(folder):
    game = read(folder, placebo="other.parquet", unit="user_id")
    assert game.unit == "user"
    assert game.play(seed=1).only.sizes == {"rows": 600, "placebo": 500}
    assert set(game.placebo.marks) == set()
    mixed = pd.read_parquet(folder / "other.parquet")
    mixed.loc[mixed.index[:500], "user_id"] = np.arange(500)
    shared = read(folder, placebo=mixed, unit="user_id")
    play = shared.play(seed=1)
    assert 200 < play.result("units-in-both").numbers["left_out"] < 300
    assert len(shared.placebo) - play.result("units-in-both").numbers["left_out"] == 2 * play.only.placebo_rows
    proxy, _ = reading._read(
        "train.parquet",
        counterfactual={"table": mixed},
        placebo="tomorrow.parquet",
        held_out=None,
        redrawn=None,
        whole=False,
        sample=None,
        folder=str(folder),
        seed=1,
        label="clicked",
        target="p_today",
        attribute=None,
        features=FEATURES,
        categories=None,
        learner="boosted",
        unit="user_id",
        classes=None,
    )
    assert len(proxy.learning) == 1500  # users of training rows do not train the proxy


def test_a_sample_leaves_out_units_of_rows_that_were_not_drawn(folder):
    mixed = pd.read_parquet(folder / "other.parquet")
    mixed["user_id"] = np.arange(2000) // 2
    game = read(folder, counterfactual="p_yesterday", placebo=mixed, unit="user_id", sample=400)
    assert 200 < len(game.audited) < 600
    assert game.placebo.group.min() >= 600
    assert game.source["left_out"] > 0
    rows = read(folder, placebo="other.parquet", sample=300)
    assert (len(rows.audited), len(rows.placebo)) == (300, 300)


@pytest.fixture(scope="module")
def attributes(tmp_path_factory):
    """A label that follows a flag and a number; a model that knows both, and the number of training rows better."""
    place = tmp_path_factory.mktemp("attributes")
    rng = np.random.default_rng(2)
    flag, noise = rng.integers(0, 2, 2400), rng.normal(size=2400)
    age = 2.0 * noise + rng.normal(size=2400)
    frame = pd.DataFrame({"sex": np.where(flag == 1, "f", "m"), "noise": noise, "age": age})
    frame["whole"] = np.round(10.0 * age + 50).astype(int)
    chance = 1.0 / (1.0 + np.exp(-(4.0 * flag - 2.0 + 2.0 * (age - 2.0 * noise))))
    frame["label"] = (rng.random(2400) < chance).astype(int)
    frame["zone"] = rng.choice(["n", "s", "w"], 2400)
    frame.iloc[:1200].to_parquet(place / "train.parquet")
    frame.iloc[1200:].to_parquet(place / "other.parquet")
    score = "p = 1 / (1 + np.exp(-(4.0 * (rows['sex'] == 'f') - 2.0 + 2.0 * ({age} - 2.0 * rows['noise']))))\n"
    said = "return np.stack([1 - p, p], axis=1)"
    written(place, "m.py", [0, 1], score.format(age="rows['age']") + said)
    written(place, "w.py", [0, 1], score.format(age="(rows['whole'] - 50) / 10.0") + said)
    return place


def attribute(folder, name, **more):
    plain = {"table": "train.parquet", "label": "label", "placebo": "other.parquet", "target": "m.py:model"}
    plain |= {"features": ["sex", "noise", "age"], "attribute": name, "folder": str(folder), "seed": 1}
    return MatchedRows.from_table(**{**plain, **more})


def test_an_attribute_that_the_model_takes(attributes):
    """By Bayes' rule: the likelihood of the row's own label, were its flag another."""
    game = attribute(attributes, "sex")
    frame = pd.read_parquet(attributes / "train.parquet")
    assert np.array_equal(game.audited.values, frame["sex"] == "m")
    assert list(game.audited.columns) == ["noise", "age", "label"]
    proxy = game.audited.counterfactual.probabilities[0]
    up = 1.0 / (1.0 + np.exp(-(np.array([4.0, 0.0]) - 2.0 + 2.0 * (frame["age"][0] - 2.0 * frame["noise"][0]))))
    likelihood = up if frame["label"][0] == 1 else 1.0 - up
    expected = proxy * likelihood / (proxy * likelihood).sum()
    assert game.audited.target.probabilities[0] == pytest.approx(expected, abs=1e-6)
    assert len(game.placebo) == 600


def test_two_attributes_together(attributes):
    game = attribute(attributes, ["sex", "zone"], features=["sex", "noise", "age", "zone"])
    assert game.audited.classes == 6
    with pytest.raises(InputError, match="'age' is a number"):
        attribute(attributes, ["sex", "age"])


def test_a_number_is_cut_into_tenths_of_the_proxys_distribution(attributes):
    game = attribute(attributes, "age")
    assert game.audited.classes == 10
    assert np.all(game.audited.counterfactual.probabilities == 0.1)
    shares = np.bincount(game.placebo.values, minlength=10) / len(game.placebo)
    assert shares == pytest.approx(np.full(10, 0.1), abs=0.05)
    beliefs = game.audited.target.probabilities
    frame = pd.read_parquet(attributes / "train.parquet")
    rising = np.sign(beliefs[:, 9] - beliefs[:, 0])
    assert np.mean(rising == np.where(frame["label"] == 1, 1, -1)) > 0.99
    play = game.play(seed=1)
    assert set(np.unique(play.only.chance)) == {0.1}
    whole = attribute(attributes, "whole", features=["sex", "noise", "whole"], target="w.py:model")
    assert whole.audited.classes == 10
    close = np.abs(whole.audited.target.probabilities - beliefs).mean()
    assert close < 0.05


def test_an_attribute_needs_a_label_of_classes(attributes):
    with pytest.raises(InputError, match="`label` must take at most 100 values"):
        attribute(attributes, "sex", label="age", features=["sex", "noise"])


def test_tenths_of_residuals():
    law = Residuals(np.zeros(4), np.arange(100.0), bandwidth=1.0)
    assert reading._tenth(law, np.array([-5.0, 0.0, 49.5, 200.0])).tolist() == [0, 0, 5, 9]


def test_a_number_that_is_a_name(attributes):
    with pytest.raises(InputError, match="at most 100 values"):
        attribute(attributes, "whole", features=["sex", "noise", "whole"], categories="whole", target="w.py:model")
    with pytest.raises(InputError, match="rows to train a proxy on"):
        attribute(attributes, "age", counterfactual="m.py:model")


def hundred(rng, rows, k=100):
    x = rng.normal(size=(rows, 2))
    values = (np.floor((x[:, 0] + rng.normal(0.0, 0.3, rows)) * 15).astype(int)) % k
    return pd.DataFrame({"x": x[:, 0], "z": x[:, 1], "y": values}), values


def test_a_hundred_classes(tmp_path):
    rng = np.random.default_rng(0)
    train, values = hundred(rng, 800)
    other, _ = hundred(rng, 1600)
    names = [f"p{number}" for number in range(100)]
    told = pd.DataFrame(np.where(np.arange(100) == values[:, None], 0.901, 0.001), columns=names)
    train = pd.concat([train, told], axis=1)
    other = pd.concat([other, pd.DataFrame(np.full((1600, 100), 0.01), columns=names)], axis=1)
    game = MatchedRows.from_table(
        train, label="y", target=names, placebo=other, features=["x", "z"], classes=[str(n) for n in range(100)]
    )
    assert game.audited.classes == 100
    found = success(game)
    assert found["trained"] > 95.0
    assert found["alone"] < 10.0
    train.loc[0, "y"] = 100
    with pytest.raises(InputError, match="`label` must take at most 100 values, got 2,400 of x"):
        MatchedRows.from_table(train, label="x", target=names, placebo=other, features=["z"])
    with pytest.raises(InputError, match="lacks '100'"):
        MatchedRows.from_table(
            train, label="y", target=names, placebo=other, features=["x", "z"], classes=[str(n) for n in range(100)]
        )


def test_a_value_that_the_model_does_not_know(tmp_path):
    """Of rows never seen, one class is new: the model gives it nothing, and the row stays."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=900), "y": rng.choice(["a", "b"], 900)})
    written(tmp_path, "m.py", ["a", "b"], "return np.tile([0.3, 0.7], (len(rows), 1))")
    other = frame.iloc[400:].copy()
    other.iloc[::50, 1] = "c"
    game = MatchedRows.from_table(
        frame.iloc[:400], label="y", target="m.py:model", placebo=other, features=["x"], folder=str(tmp_path)
    )
    assert game.audited.classes == 3
    assert np.all(game.placebo.target.probabilities[:, 2] == 0.0)
    assert 2 in game.placebo.values
    assert np.isfinite(game.play(seed=1).only.scores).all()


def test_values_are_redrawn_for_one_more_training(folder):
    """What is written are draws of the audit's own proxy; a model that was trained on them is read back."""
    settings = {"label": "clicked", "features": FEATURES, "folder": str(folder), "seed": 1, "placebo": "other.parquet"}
    path = redrawn_values("train.parquet", to="redrawn.parquet", target="p_today", **settings)
    found = pd.read_parquet(path)
    assert found["clicked"].tolist() == pd.read_parquet(folder / "train.parquet")["clicked"].tolist()
    drawn = found["clicked redrawn"]
    game = read(folder, placebo="other.parquet")
    law = game.audited.counterfactual.probabilities[:, 1]
    assert (drawn == "yes").mean() == pytest.approx(law.mean(), abs=0.05)
    assert np.corrcoef(drawn == "yes", law)[0, 1] > 0.5
    forest = RandomForestClassifier(30, random_state=0).fit(found[FEATURES].to_numpy(), drawn)
    found["p_again"] = forest.predict_proba(found[FEATURES].to_numpy())[:, 1]
    found.to_parquet(folder / "again.parquet")
    other = pd.read_parquet(folder / "other.parquet")
    other["p_again"] = forest.predict_proba(other[FEATURES].to_numpy())[:, 1]
    audit = read(folder, table="again.parquet", placebo=other, redrawn="p_again")
    assert np.array_equal(audit.audited.counterfactual.probabilities, game.audited.counterfactual.probabilities)
    (part,) = next(one for one in audit.play(seed=1).controls if one.check.id == "redrawn-values").parts
    assert part.right[part.audited].mean() < 0.8  # it knows the values that were drawn, and not the true ones
    with pytest.raises(InputError, match="drawn for all rows"):
        redrawn_values("train.parquet", to="redrawn.parquet", target="p_today", sample=100, **settings)


@pytest.mark.parametrize("name", ["sex", "age", "whole"])
def test_redrawn_attributes_have_the_type_of_their_column(attributes, name):
    features = ["sex", "noise", "whole" if name == "whole" else "age"]
    target = "w.py:model" if name == "whole" else "m.py:model"
    path = redrawn_values(
        "train.parquet",
        to="redrawn.parquet",
        label="label",
        target=target,
        attribute=name,
        features=features,
        placebo="other.parquet",
        folder=str(attributes),
        seed=1,
    )
    found = parquet.read_table(path)
    assert found.schema.field(f"{name} redrawn").type == found.schema.field(name).type
    game = attribute(attributes, name, table=str(path), features=features, target=target, redrawn=target)
    assert game.redrawn.target.probabilities == pytest.approx(game.audited.target.probabilities)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "`placebo` must name rows that the model never saw"),
        ({"placebo": "other.parquet", "held_out": "tomorrow.parquet"}, "two names of rows"),
        ({"placebo": "train.parquet"}, "`placebo` must hold other rows than `table`"),
        ({"held_out": "train.parquet"}, "`held_out` must hold other rows than `table`"),
        ({"counterfactual": {"file": "other.parquet"}}, "must be columns, a model, or"),
        ({"placebo": "other.parquet", "features": None}, "columns that a proxy is learnt from"),
        ({"placebo": "other.parquet", "attribute": "a"}, "`attribute` needs a model"),
        ({"placebo": "other.parquet", "target": "forest.onnx", "attribute": "z"}, "must be among the features"),
        ({"placebo": "other.parquet", "features": [*FEATURES, "clicked"]}, "must not hold the label"),
        ({"placebo": "other.parquet", "categories": "z"}, "`categories` must be among the features"),
        ({"placebo": "other.parquet", "learner": "linear"}, "`learner` must be one of"),
        ({"placebo": "other.parquet", "protect": "record"}, "needs `held_out`"),
        (
            {"held_out": "other.parquet", "protect": "record", "target": "forest.onnx", "attribute": "a"},
            "whole records",
        ),
        ({"placebo": "other.parquet", "redrawn": {"target": "p_today"}}, "`redrawn` must be"),
        ({"placebo": "other.parquet", "target": "p_nobody"}, "no column 'p_nobody'"),
        ({"counterfactual": "p_yesterday", "redrawn": "p_today"}, "give `placebo`"),
        ({"placebo": "other.parquet", "margin": -1.0}, "`margin`"),
        ({"placebo": "other.parquet", "label": 3}, "`label` must be the name of a column"),
        ({"placebo": "other.parquet", "label": "a", "features": ["b"]}, "at most 100 values"),
        ({"placebo": "other.parquet", "target": {"table": "x"}}, "`target` must be a model or columns"),
    ],
)
def test_what_is_refused(folder, more, said):
    with pytest.raises(InputError, match=said):
        read(folder, **more)


def test_a_placebo_without_the_columns_of_predictions(folder, tmp_path):
    pd.read_parquet(folder / "tomorrow.parquet").drop(columns="p_yesterday").to_parquet(tmp_path / "short.parquet")
    with pytest.raises(InputError, match="`placebo` must have the columns of `table`, and has no 'p_yesterday'"):
        read(folder, counterfactual="p_yesterday", placebo=str(tmp_path / "short.parquet"))
    frame = pd.read_parquet(folder / "train.parquet")
    with pytest.raises(InputError, match="one data frame for both"):
        read(folder, table=frame, placebo=frame)


def test_a_proxy_is_trained_on_no_copy_of_a_row_that_is_guessed_at(folder):
    """The same rows under another name: a proxy that learnt their values would make the model look as if it leaked."""
    other, more = (pd.read_parquet(folder / f"{name}.parquet") for name in ("other", "tomorrow"))
    with pytest.raises(InputError, match="one that the attack guesses at"):
        read(folder, placebo=other, counterfactual={"table": other.copy()})
    both = pd.concat([other.iloc[:500].assign(clicked="yes"), more])  # whatever the value says
    game = read(folder, placebo="other.parquet", counterfactual={"table": both})
    assert game.source["copies_left_out"] == 500
    assert game.own_proxy
    coarse = {"placebo": other.assign(f=1), "counterfactual": {"table": other.assign(f=1)}, "features": ["f"]}
    assert read(folder, table=pd.read_parquet(folder / "train.parquet").assign(f=1), **coarse).placebo is not None


def test_a_sampled_hold_out_refuses_units_that_were_trained_on(folder):
    train, other = (pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "other"))
    other.loc[other.index[:200], "user_id"] = np.arange(200)
    for sample in (None, 300):
        with pytest.raises(InputError, match="must be whole users"):
            read(folder, table=train, held_out=other, unit="user_id", sample=sample).play(seed=1)


def test_a_value_that_is_missing_is_another_source(folder):
    other = pd.read_parquet(folder / "other.parquet")
    with pytest.raises(InputError, match="rows of the same source"):
        read(folder, placebo=other[other["clicked"] == "no"], counterfactual="p_yesterday")


def test_the_setting_that_is_wrong_is_named(folder):
    with pytest.raises(InputError, match="`redrawn`"):
        read(folder, placebo="other.parquet", redrawn="user_id")
    with pytest.raises(InputError, match="`seed`"):
        read(folder, placebo="other.parquet", seed=1.5)
