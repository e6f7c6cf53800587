"""`[game.panoramia]` in an audit file: settings, the record and its schema, comparisons, an asserted closeness."""

import json
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest

import dpaudit as da
from dpaudit import InputError, Outcome, estimators
from dpaudit.auditing.plan import load_config
from dpaudit.bounds import PanoramiaRegion
from dpaudit.games import Panoramia
from dpaudit.record import schema


def rows(n, seed, *, gain=0.0, shift=0.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(45.0 + shift, 12.0, n), "city": rng.choice(["Aachen", "Basel"], n)})
    frame["loss"] = rng.exponential(size=n) + 1.0 - gain
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("panoramia")
    rows(600, 1, gain=1.0).to_csv(place / "members.csv", index=False)
    rows(1200, 2).to_csv(place / "made.csv", index=False)
    rows(1200, 2, shift=30.0).to_csv(place / "far.csv", index=False)
    rows(500, 3).to_csv(place / "others.csv", index=False)
    rows(700, 4, shift=40.0).to_csv(place / "elsewhere.csv", index=False)
    return place


@pytest.fixture
def load(folder):
    def read(more="", generated="made.csv"):
        text = (
            f'audit = {{ seed = 3, delta = 0.0 }}\n[game.panoramia]\nmembers = "members.csv"\nloss = "loss"\n{more}\n'
        )
        (folder / "audit.toml").write_text(f'{text}generated = "{generated}"\n')
        return load_config(folder / "audit.toml")

    return read


def audited(found):
    return da.audit(found.game.game(found.settings.seed), seed=found.settings.seed, delta=0.0)


def test_settings(load):
    found = load("discard_fraction = 0.0")
    assert isinstance(found.game.game(3), Panoramia)
    for line in (r"members +members.csv +given", r"discard_fraction +0.0 +given", r"helper +None +default"):
        assert re.search(rf"game\.panoramia\.{line}", found.explain()), line
    assert "panoramia.folder" not in found.explain()
    for text, words in (
        ("folder = '.'", "`game.panoramia.folder` is not a setting"),
        ("nonmember = 'others.csv'", "did you mean `nonmembers`"),
        ("generator = 'sequential trees'", "`generator` and `generated` both give rows"),
    ):
        with pytest.raises(InputError, match=words):
            load(text).game.game(3)


def test_the_record(load):
    found = audited(load())
    jsonschema.validate(json.loads(found.to_json()), schema())
    plan, told = found.plan, found.plan["source"]
    assert (plan["game"], told["generator"], told["target"]) == ("panoramia", "rows that were given", "column loss")
    assert (told["features"], plan["helper"], plan["divergence"], plan["rows"]) == (["age", "city"], None, None, 600)
    assert [name for name, _ in told["files"]] == ["members.csv", "made.csv"]
    assert told["label"] is None
    assert [result.check.id for result in found.checks] == ["baseline"]
    (region,) = found.bounds
    assert isinstance(region, PanoramiaRegion)
    assert region.total > 1.0
    assert found.outcome is da.Outcome.NO_CLAIM


def test_comparisons_with_real_non_members(load):
    found = audited(load('nonmembers = "others.csv"'))
    jsonschema.validate(json.loads(found.to_json()), schema())
    shown = {entry["id"]: entry for entry in found.comparisons}
    assert shown["with-real"]["bound"].value > 1.0
    assert shown["alone"]["bound"].value > 1.0
    assert next(iter(shown["with-real"]["sizes"].values())) == 250
    assert next(iter(shown["alone"]["sizes"].values())) == 300
    assert "with real non-members, epsilon >= " in str(found)


def test_non_members_of_another_kind_bound_nothing(load):
    found = audited(load('nonmembers = "elsewhere.csv"'))
    assert found.comparisons == ()
    assert "can be told from the members without the model" in found.result("non-members-alike").text


def test_an_asserted_divergence_bounds_epsilon(load):
    plain, found = audited(load()), audited(load("divergence = 0.5"))
    (region,) = found.bounds
    assert region.asserted == found.plan["divergence"] == 0.5
    assert region.total >= plain.bounds[0].total
    assert region == estimators.panoramia(found.observed[0], asserted_divergence=0.5)
    jsonschema.validate(json.loads(found.to_json()), schema())


def test_a_divergence_that_the_baseline_refutes_gives_no_number(load):
    found = audited(load("divergence = 0.1", generated="far.csv"))
    assert (found.outcome, found.bounds) == (Outcome.WITHHELD, ())
    assert "better than the asserted divergence of 0.1 allows" in found.verdict.sentence
    assert "A larger `divergence` that you answer for" in str(found)


def test_an_asserted_divergence_is_listed_and_can_be_accepted(load):
    found = audited(load("divergence = 0.5"))
    assert "generator-divergence(c=0.5)" in [one.key for one in found.assumptions]
    assert found.result("asserted-divergence").outcome == "passed"
