"""One definition of parameters: the signature of what makes a game is the TOML table, `--set`, the explanation, and the
table of the reference.

For every game of `GAMES`: the keys of its table are the parameters of its maker, and those are what its docstring
documents; nothing is read past the signature; a value of a wrong type is one sentence; and a table is the same game
from a file, from pandas, polars and Arrow. Every game is played by one signature, too.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpaudit import InputError, attacks, games
from dpaudit.auditing.plan import CONTEXT, MAKERS, Claim, Settings, described, documented, load_config, settings_of
from dpaudit.execution import Execution
from dpaudit.games import GAMES, Game, ZeroRun
from dpaudit.mechanisms.dpsgd import DPSGDConfig
from tests.external.user import answers, score, scores

VALUES = (3.5, -1, True, "no such thing", "", [1, 2], [], ["a", "b", "c"], {"a": 1}, None)
"""Values of every type that a TOML file can hold, and None of Python."""
NEVER = {"a": 1}
"""A table is a value of no setting."""


def frame(rows=400):
    rng = np.random.default_rng(3)
    member = np.arange(rows) % 2 == 0
    values = {"member": member, "score": rng.normal(size=rows) + member, "age": rng.normal(size=rows).round(3)}
    values["city"] = rng.choice(["Basel", "Como"], rows)
    values["clicked"] = np.where(rng.random(rows) < 0.5, "yes", "no")
    values["p"], values["q"] = rng.uniform(0.1, 0.9, (2, rows))
    values["loss"] = -values["score"]
    values["user_id"] = np.arange(rows) // 4 * 2 + ~member
    return pd.DataFrame(values)


@pytest.fixture(scope="module")
def told():
    """A call of each maker that succeeds."""
    rows, others = frame(), frame(500).assign(loss=1.0)
    unseen = others.assign(age=others["age"] + 0.25, user_id=others["user_id"] + 1000)
    config = DPSGDConfig(noise_multiplier=4.0, steps=2, relation="substitute")
    x, y, canary = attacks.worst_case(config, records=20)
    return {
        "multi_run": {"score": score, "relation": "label", "runs": 3},
        "one_run": {"scores": scores, "canaries": 3, "relation": "add-remove"},
        "prediction": {"answers": answers, "classes": 2, "queries": 1, "trials": 3, "relation": "label"},
        "observational": {
            "table": rows,
            "label": "clicked",
            "target": "p",
            "counterfactual": "q",
            "placebo": unseen,
            "features": ["age", "city"],
        },
        "observational_coins": {"table": rows, "label": "clicked", "target": "p", "counterfactual": "q", "plays": 1},
        "zero_run": {"table": rows, "score": "score", "features": ["age", "city"]},
        "panoramia": {"members": rows, "loss": "loss", "generated": others, "leave_out": ["user_id", "member"]},
        "evidence": {"table": rows, "assignment": "coins"},
        "trained_runs": {
            "config": config,
            "x": x,
            "y": y,
            "canary": canary,
            "score": attacks.ReleasedSum(canary.present),
            "runs": 3,
        },
    }


@pytest.mark.parametrize("key", MAKERS)
def test_the_signature_is_what_is_documented(key):
    maker = MAKERS[key]
    known = inspect.signature(maker).parameters
    kinds = {one.kind for one in known.values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}, "no **keywords"
    documents = documented(maker)
    assert set(documents) - set(CONTEXT) == set(settings_of(maker))
    assert all(re.search(r"\w", sentence) for sentence in documents.values()), documents


TABLES = {
    "claim": (Claim, inspect.signature(Claim).parameters),
    "audit": (Settings, inspect.signature(Settings).parameters),
    "execution": (Execution, inspect.signature(Execution).parameters),
    **{f"game.{key}": (maker, settings_of(maker)) for key, maker in MAKERS.items()},
}


@pytest.mark.parametrize("name", TABLES)
def test_the_reference_has_every_setting(name):
    """A row a key, in order, with its default and what the docstring says of it."""
    maker, known = TABLES[name]
    page = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")
    _, _, rest = page.partition(f"### `[{name}]`\n")
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", section, re.MULTILINE)
    assert [row[0] for row in rows] == list(known)
    for key, default, meaning in rows:
        value = known[key].default
        assert meaning.replace("\\|", "|") == described(maker)[key] != ""
        assert (default == "required") == (value is inspect.Parameter.empty)
        assert default.strip('`"') == str(value) or not isinstance(value, str | float)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.__name__)
def test_there_is_one_way_to_play(game):
    """Names, kinds, defaults and annotations of the Protocol, to the letter."""
    assert inspect.signature(game.play) == inspect.signature(Game.play)


def test_every_game_has_a_key():
    assert {game.kind.replace("-", "_") for game in GAMES} == set(MAKERS)
    assert all(getattr(maker, "__self__", maker) in GAMES for maker in MAKERS.values())


@pytest.mark.parametrize("key", MAKERS)
def test_the_keys_of_a_file_are_the_parameters(tmp_path, key):
    """Every parameter is a key, and what is none is refused with the nearest."""
    file, known = tmp_path / "audit.toml", list(settings_of(MAKERS[key]))
    required = [name for name, one in settings_of(MAKERS[key]).items() if one.default is inspect.Parameter.empty]
    file.write_text(f"[game.{key}]\n" + "".join(f"{name} = 'label'\n" for name in {*required, *known}))
    shown = load_config(file).explain()
    assert re.findall(rf"^game\.{key}\.(\w+)", shown, re.MULTILINE) == known
    for name in (*CONTEXT, f"{known[0]}_", "seeds"):
        file.write_text(f"game.{key}.{name} = 1")
        with pytest.raises(InputError, match=rf"'audit.toml': `game.{key}.{name}` is not a setting.\nhint: "):
            load_config(file)


@pytest.mark.parametrize("key", MAKERS)
def test_values_of_a_wrong_type_are_one_sentence(told, key, tmp_path):
    maker, refused = MAKERS[key], []
    maker(**told[key])
    context = {"folder": tmp_path} if "folder" in inspect.signature(maker).parameters else {}

    def sentence(name, value):
        """What is said of a value; nothing where it is taken. Any other error ends the test."""
        try:
            maker(**{**told[key], name: value}, **context)
        except InputError as problem:
            return problem.sentence
        return ""

    for name in settings_of(maker):
        found = {str(value): sentence(name, value) for value in VALUES}
        assert not any("\n" in said for said in found.values())
        refused += [(name, value) for value, said in found.items() if said]
    missing = [name for name in settings_of(maker) if (name, str(NEVER)) not in refused]
    assert not missing


@pytest.mark.parametrize("key", MAKERS)
def test_what_is_no_parameter_cannot_be_given(told, key):
    with pytest.raises(TypeError):
        MAKERS[key](**told[key], nonsense=1)


# ---------------------------------------------------------------------------------------------------------- data frames


@pytest.mark.parametrize("key", ["observational", "observational_coins", "zero_run", "panoramia", "evidence"])
def test_a_table_is_the_same_game_from_everywhere(told, key, tmp_path):
    first = next(iter(settings_of(MAKERS[key])))
    for name in ("table", "members", "generated", "placebo"):
        if name in told[key]:
            told[key][name].to_parquet(tmp_path / f"{name}.parquet")
            told[key][name].to_csv(tmp_path / f"{name}.csv", index=False)

    def made(convert):
        changed = {name: convert(name, value) for name, value in told[key].items() if isinstance(value, pd.DataFrame)}
        return MAKERS[key](**{**told[key], **changed}, folder=tmp_path, seed=1)

    wanted = made(lambda name, rows: f"{name}.parquet")
    plan = wanted.plan(1)
    for convert in (
        lambda name, rows: f"{name}.csv",
        lambda name, rows: rows,
        lambda name, rows: rows.set_index(rows.index + 7),
        lambda name, rows: pl.from_pandas(rows),
        lambda name, rows: pa.Table.from_pandas(rows, preserve_index=False),
    ):
        game = made(convert)
        assert np.array_equal(game.coins(1), wanted.coins(1))
        assert game.play(seed=1).only.digest == wanted.play(seed=1).only.digest
        assert {name: value for name, value in game.plan(1).items() if name not in ("source", "target")} == {
            name: value for name, value in plan.items() if name not in ("source", "target")
        }
    assert first in told[key]


def test_a_frame_is_known_by_its_content():
    rows = frame()
    one, same = (ZeroRun.from_table(table, features=["age"]) for table in (rows, pl.from_pandas(rows)))
    other = ZeroRun.from_table(rows.assign(age=0.5 + rows["age"]), features=["age"])
    assert one.source["files"][0][0] == "data frame"
    assert one.source["files"] == same.source["files"] != other.source["files"]
    assert games.fingerprint(one, 1) != games.fingerprint(other, 1)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (3, "`table` must be a list, got 3"),
        ([3], "`table` must be file names, got 3"),
        (pd.DataFrame({"member": [1, {"a": 2}]}), "`table` could not be read as a table"),
        (pd.DataFrame([[1, 2]], columns=["member", "member"]), "`table` could not be read as a table"),
        (pd.DataFrame({"age": [1]}), "no column 'member'|must name a column"),
        (pd.DataFrame({"member": [], "score": [], "age": []}), "the table has no rows"),
    ],
)
def test_frames_that_are_no_table(table, words):
    with pytest.raises(InputError, match=words):
        ZeroRun.from_table(table)
