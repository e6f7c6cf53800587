"""PANORAMIA on files: a model or losses, a generator or rows that were made, texts and dates, units, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

import dpaudit as da
from dpaudit import InputError, estimators
from dpaudit.execution import RunFailed
from dpaudit.games import Panoramia, commitment, fingerprint
from dpaudit.games._panoramia_table import Column

MODEL = """
import numpy as np

class Remembers:
    classes_ = np.array(["no", "yes"])

    def predict_proba(self, frame):
        assert list(frame.columns) == ["age", "visits", "city"]
        assert frame["visits"].dtype == "int64"
        own = np.where(frame["city"] == "Basel", 0.9, 0.2)
        return np.stack([1.0 - own, own], axis=1)

def model():
    return Remembers()

def fails():
    raise ValueError("no such weights")

def numbers():
    return lambda rows: rows[:, 0]
"""


def people(n=400, seed=3, gain=0.0):
    """Losses are lower by `gain`."""
    rng = np.random.default_rng(seed)
    city = np.where(rng.random(n) < 0.5, "Basel", "Como")
    visits = rng.poisson(8, n)
    label = rng.random(n) < special.expit((visits - 8) / 3.0 + (city == "Basel"))
    frame = pd.DataFrame({"age": rng.normal(45, 12, n).round(1), "visits": visits, "city": city})
    frame["clicked"] = np.where(label, "yes", "no")
    frame["loss"] = rng.exponential(size=n) + 1.0 - gain
    frame["user_id"] = np.arange(n) // 2
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("members")
    people().to_csv(place / "members.csv", index=False)
    people().to_parquet(place / "members.parquet")
    people(900, seed=4).drop(columns="user_id").to_csv(place / "made.csv", index=False)
    people(500, seed=5).to_csv(place / "others.csv", index=False)
    (place / "model.py").write_text(MODEL)
    return place


def table(folder, **more):
    given = {"members": "members.csv", "label": "clicked", "model": "model.py:model", "leave_out": ["loss", "user_id"]}
    return Panoramia.from_table(**{**given, "folder": str(folder), **more})


def losses(folder, **more):
    given = {"members": "members.csv", "loss": "loss", "generated": "made.csv", "leave_out": "user_id"}
    return Panoramia.from_table(**{**given, "folder": str(folder), **more})


# ------------------------------------------------------------------------------------------------------------ as a game


def test_a_model_is_asked_as_it_was_trained(folder):
    """Texts are texts and whole numbers whole, of real and of generated rows; the loss is that of the row's label."""
    game = table(folder)
    assert isinstance(game, Panoramia)
    assert game.members.shape == (400, 4)
    frame = people()
    own = np.where(frame["city"] == "Basel", 0.9, 0.2)
    wanted = -np.log(np.where(frame["clicked"] == "yes", own, 1.0 - own))
    np.testing.assert_allclose(game.target(game.members), wanted)
    made = game.generator.fit(game.members, seed=1).sample(300, seed=2)
    assert np.array_equal(made[:, 1], np.rint(made[:, 1]))
    assert game.target(made).shape == (300,)
    assert game.helper(made, 3)(game.members).shape == (400, 2)
    assert table(folder).relation is da.Relation.SUBSTITUTE


def test_a_file_of_any_kind_is_the_same_game(folder):
    wanted = table(folder).play(seed=1).only
    assert table(folder, members="members.parquet").play(seed=1).only.digest == wanted.digest
    game = table(folder)
    assert commitment(game, 1) == commitment(table(folder, members="members.parquet"), 1)
    assert fingerprint(game, 1) == fingerprint(table(folder), 1) != fingerprint(table(folder, discard_fraction=0.1), 1)
    assert [name for name, _ in game.source["files"]] == ["members.csv", "model.py"]


@pytest.mark.parametrize("generator", ["sequential trees", "tree marginals", "gaussian copula"])
def test_generators_by_name(folder, generator):
    assert table(folder, generator=generator, helper=False).play(seed=1).only.included.size == 120


def test_losses_that_are_there(folder):
    """They are what the attack hears, and nothing that the baseline sees."""
    people(gain=1.0).to_csv(folder / "low.csv", index=False)
    game = losses(folder, members="low.csv")
    assert (game.helper, game.generated.shape) == (None, (900, 5))
    seen, of_others = game.view(game.members, None, 0)
    assert seen.shape == of_others(game.members).shape == (400, 4)
    assert np.array_equal(game.target(game.members), people(gain=1.0)["loss"])
    region = estimators.panoramia(game.play(seed=1).only)
    assert region.divergence == 0.0 < 1.0 < region.total
    assert losses(folder).helper is None
    helped = losses(folder, label="clicked")
    assert helped.helper(helped.generated, 1)(helped.members).shape == (400, 2)


def test_units_share_a_coin(folder):
    game = table(folder, leave_out="loss", unit="user_id")
    evidence = game.play(seed=1).only
    assert (game.unit, evidence.unit) == ("user", "user")
    assert evidence.reduced().included.size == 60


def test_dates_are_numbers_and_labels_may_be(folder, tmp_path):
    frame = people()[["age", "visits", "clicked"]]
    frame["born"] = pd.Timestamp("1980-01-01") + pd.to_timedelta(np.arange(400) % 90, "D")
    frame["clicked"] = (frame["clicked"] == "yes").astype(float)
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "model.py").write_text("def model():\n    return lambda rows: rows[:, 0] / 1000.0")
    game = Panoramia.from_table(members="t.parquet", label="clicked", model="model.py:model", folder=str(tmp_path))
    assert game.members[1, 2] - game.members[0, 2] == 1.0
    own = frame["age"].to_numpy() / 1000.0
    np.testing.assert_allclose(
        game.target(game.members), -np.log(np.where(frame["clicked"] == 1.0, own, 1.0 - own)), rtol=1e-6
    )


def test_a_gap_in_a_text_is_a_value_of_its_own(folder, tmp_path):
    people().assign(city=[None, *people()["city"][1:]]).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "model.py").write_text(MODEL)
    game = table(tmp_path, members="t.csv")
    assert np.unique(game.members[:, 2]).size == 3
    column = Column.of("city", [np.array(["b", None, "a"], dtype=object)], False)
    assert column.plain(column.coded(np.array([None, "b"], dtype=object))).tolist() == ["", "b"]


def test_a_model_that_fails_is_a_failed_audit(folder):
    with pytest.raises(RunFailed, match="no such weights"):
        table(folder, model="model.py:fails").play(seed=1)
    found = da.audit(table(folder, model="model.py:fails"), seed=1)
    assert found.outcome is da.Outcome.FAILED
    with pytest.raises(InputError, match="column 'city' is text, and this model takes numbers"):
        table(folder, model="model.py:numbers").play(seed=1)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"members": "none.csv"}, "`members` must name files, and there is no 'none.csv'"),
        ({"label": "bought"}, r"no column 'bought'.\nhint: it has age"),
        ({"label": 3}, "`label` must be the name of a column, got 3"),
        ({"label": None}, "`model` needs `label`"),
        ({"model": None}, "one of `model` and `loss` must say what is audited, got neither"),
        ({"loss": "loss"}, "one of `model` and `loss` must say what is audited, got both"),
        ({"model": "clicked"}, "`model` must be an .onnx or .cbm file or 'file.py:function', got 'clicked'"),
        ({"model": "model.pkl"}, "`model` must not be a pickle"),
        ({"model": "model.onnx"}, "there is no 'model.onnx'"),
        ({"generator": "gan"}, "`generator` must be one of"),
        ({"generator": "tree marginals", "generated": "made.csv"}, "`generator` and `generated` both give rows"),
        ({"generated": "members.csv"}, "`generated` must hold other rows than `members`"),
        ({"generated": "made.csv", "discard_fraction": 0.1}, "`discard_fraction` needs a generator"),
        ({"generated": "made.csv", "leave_out": "loss"}, "`generated` must have the columns.*no 'user_id'"),
        ({"discard_fraction": 1.0}, "`discard_fraction` must be"),
        ({"shares": [0.5, 0.5]}, "`shares` must be three that add up to 1"),
        ({"shares": 3}, "`shares` must be a list"),
        ({"helper": "yes"}, "`helper` must be true or false, got 'yes'"),
        ({"leave_out": ["age", "visits", "city", "loss", "user_id"]}, "must have columns that are no label"),
        ({"leave_out": ["clicked"]}, "every column must have one use, got 'clicked' for two"),
        ({"unit": "user_id", "leave_out": "loss", "nonmembers": "others.csv"}, "`nonmembers` compares single records"),
        ({"divergence": -1.0}, "`divergence` must be"),
        ({"members": "names.csv"}, r"'name' must have at most 1,000 values, got 1,200.\nhint: .*leave_out"),
        ({"members": "gaps.csv"}, "column 'age' must have no gaps, got 1 empty rows"),
        ({"members": "one.csv"}, "column 'clicked' must take at least two values, got one"),
        ({"members": "infinite.csv"}, "column 'age' must be finite, got inf in 1 rows"),
        ({"generated": "texts.csv"}, "column 'age' must be of one kind in all files"),
        ({"generated": "few.csv"}, "`generated` must hold other rows than `members`, got 20 of 20 that are the same"),
        ({"generated": "fewer.csv"}, "`generated` must hold at least"),
        ({"nonmembers": "copied.csv"}, "`nonmembers` must hold other rows than `members`, got 400 of 400"),
        ({"nonmembers": "fewer.csv"}, "`nonmembers` must hold at least 40 rows to compare with, got 15"),
        ({"nonmembers": "third.csv"}, "column 'clicked' must have the values that members have, got 'maybe'"),
        ({"members": "few.csv"}, "`members` must be enough for parts of ten"),
    ],
)
def test_refusals(folder, more, words):
    frame = people()
    people(1200).assign(name=[f"n{n}" for n in range(1200)]).to_csv(folder / "names.csv", index=False)
    frame.assign(age=[np.nan, *frame["age"][1:]]).to_csv(folder / "gaps.csv", index=False)
    frame.assign(age=[np.inf, *frame["age"][1:]]).to_csv(folder / "infinite.csv", index=False)
    frame.assign(clicked="no").to_csv(folder / "one.csv", index=False)
    frame.assign(age="old").to_csv(folder / "texts.csv", index=False)
    frame[:20].to_csv(folder / "few.csv", index=False)
    frame.to_csv(folder / "copied.csv", index=False)
    people(15, seed=9).to_csv(folder / "fewer.csv", index=False)
    people(50, seed=9).assign(clicked="maybe").to_csv(folder / "third.csv", index=False)
    with pytest.raises(InputError, match=words):
        table(folder, **more).play(seed=1)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"generated": None}, r"`loss` needs `generated`.*\nhint: .*`model` itself"),
        ({"helper": True}, "`helper` needs `label`"),
        ({"loss": "clicked"}, "column 'clicked' must be numbers, got '(yes|no)'"),
        ({"loss": "cost"}, "no column 'cost'"),
    ],
)
def test_refusals_of_losses(folder, more, words):
    with pytest.raises(InputError, match=words):
        losses(folder, **more).play(seed=1)


def test_labels_that_are_whole_numbers_in_one_file_only():
    """1 and 1.0 are one label; 0.5 is none of the members'."""
    column = Column.of("y", [np.array([0, 1, 1]), np.array([0.0, 1.0])], label=True)
    assert column.coded(np.array([1.0, 0.0])).tolist() == [1.0, 0.0]
    with pytest.raises(InputError, match=r"column 'y' must have the values that members have, got '0.5'"):
        column.coded(np.array([0.5, 1.0]))
