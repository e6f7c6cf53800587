"""`[game.panoramia]` in an audit file: settings, the record and its schema, comparisons, an asserted closeness."""

import json
import re

import jsonschema
import numpy as np
import pandas as pd
import pytest

import dpaudit as da
from dpaudit import InputError, estimators
from dpaudit.auditing import schema
from dpaudit.auditing.config import load_config
from dpaudit.bounds import ClosenessRegion
from dpaudit.games import PanoramiaTable


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
    found = load("poor = 0.0")
    assert isinstance(found.game, PanoramiaTable)
    for line in (r"members +members.csv +given", r"poor +0.0 +given", r"helper +False +default"):
        assert re.search(rf"game\.panoramia\.{line}", found.explain()), line
    assert "folder" not in found.explain()
    for text, words in (
        ("folder = '.'", "`game.panoramia.folder` is not a setting"),
        ("nonmember = 'others.csv'", "did you mean `nonmembers`"),
        ("generator = 'sequential trees'", "`generator` and `generated` both give rows"),
    ):
        with pytest.raises(InputError, match=words):
            load(text)


def test_the_record(load):
    found = audited(load())
    jsonschema.validate(json.loads(found.to_json()), schema())
    plan = found.plan
    assert (plan["game"], plan["generator"], plan["target"]) == (
        "PanoramiaTable",
        "rows that were given",
        "column loss",
    )
    assert (plan["features"], plan["helper"], plan["closeness"], plan["rows"]) == (["age", "city"], False, None, 600)
    assert [name for name, _ in plan["files"]] == ["members.csv", "made.csv"]
    assert "label" not in plan
    assert list(found.checks) == ["baseline"]
    (region,) = found.bounds
    assert isinstance(region, ClosenessRegion)
    assert region.total > 1.0
    assert found.outcome is da.Outcome.NO_CLAIM


def test_comparisons_with_real_non_members(load):
    found = audited(load('nonmembers = "others.csv"'))
    jsonschema.validate(json.loads(found.to_json()), schema())
    shown = found.checks["comparisons"]
    assert shown["real_epsilon"] > 1.0
    assert shown["one_run_epsilon"] > 1.0
    assert (shown["real_pairs"], shown["one_run_pairs"]) == (250, 300)
    assert "Real non-members in the place of generated rows showed epsilon >= " in shown["sentence"]
    assert "95% confidence, substitute of one record" in shown["sentence"]
    assert shown["sentence"] in str(found)


def test_non_members_of_another_kind_bound_nothing(load):
    shown = audited(load('nonmembers = "elsewhere.csv"')).checks["comparisons"]
    assert shown["real_epsilon"] is None
    assert shown["one_run_epsilon"] is None
    assert "can be told from the members without the model" in shown["sentence"]
    assert "epsilon >=" not in shown["sentence"]


def test_an_asserted_closeness_bounds_epsilon(load):
    plain, found = audited(load()), audited(load("closeness = 0.5"))
    (region,) = found.bounds
    assert region.asserted == found.plan["closeness"] == 0.5
    assert region.total >= plain.bounds[0].total
    assert region == estimators.panoramia(found.observed, asserted_closeness=0.5)
    assert found.checks["asserted"]["epsilon"] == pytest.approx(region.total - 0.5)
    assert "If the generator is 0.5-close, as is asserted, epsilon >= " in str(found)
    jsonschema.validate(json.loads(found.to_json()), schema())


def test_a_closeness_that_the_baseline_refutes_is_refused(load):
    with pytest.raises(InputError, match=r"`closeness` must be at least what the baseline shows \([1-9.]+\), got 0.1"):
        audited(load("closeness = 0.1", generated="far.csv"))
