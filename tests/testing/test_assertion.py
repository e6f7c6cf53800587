"""`assert_private`, the conformance checks, and the pytest plugin as a user's own suite meets them."""

import random
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from dpaudit import InputError, Relation, UpperBound, accounting
from dpaudit.execution import Execution, RunFailed
from dpaudit.mechanisms import GaussianSum
from dpaudit.testing import (
    ConformanceError,
    PrivacyViolation,
    Underpowered,
    assert_private,
    check_mechanism,
    check_score,
)

pytest_plugins = ["pytester"]


def noisy(scale):
    def score(world, seed):
        return float(world) + scale * np.random.default_rng(seed).normal()

    return score


honest, half = noisy(1.0), noisy(0.5)


def test_an_honest_score_passes():
    found = assert_private(honest, claim=1.0, relation="add-remove")
    assert found.runs == found.planned
    assert 300 <= found.planned <= 420, "1e-6 costs 3 to 4 times the 60 runs a side of 0.05"
    assert "do not contradict mu <= 1.00" in str(found)


@pytest.mark.parametrize(
    "claim",
    [
        1.0,
        accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove"),
        accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=0.5, steps=2, delta=1e-5, relation="add-remove"),
        (1.0, 1e-5),
        UpperBound(epsilon=1.0, delta=1e-5, relation="add-remove"),
    ],
    ids=["mu", "curve", "dp-sgd", "pair", "bound"],
)
def test_a_broken_score_fails_with_evidence_and_a_command(claim, tmp_path):
    with pytest.raises(PrivacyViolation) as found:
        assert_private(
            noisy(0.2), claim=claim, relation="add-remove", evidence=tmp_path / "my evidence", name="test_x[a/b]"
        )
    text = str(found.value)
    assert "contradict the claim" in text
    command = shlex.split(re.search(r"re-estimate: dpaudit (.*)", text).group(1))
    again = subprocess.run([sys.executable, "-m", "dpaudit.cli", *command], capture_output=True, text=True)
    assert again.returncode == 1, "the command shows the violation"
    assert "Contradicted at 99.9999% confidence" in again.stdout
    assert float(re.search(r"epsilon >= ([\d.]+)", again.stdout).group(1)) > 0.0
    assert found.value.evidence.parent == tmp_path / "my evidence"


def test_gross_violations_stop_early(tmp_path):
    with pytest.raises(PrivacyViolation) as found:
        assert_private(lambda world, seed: float(world), claim=1.0, relation="add-remove", evidence=tmp_path)
    assert int(re.match(r"(\d+) runs", str(found.value)).group(1)) < 250


def red(score, seeds, **settings):
    """Of so many seeds, how many fail."""
    failed = 0
    for seed in range(seeds):
        try:
            assert_private(score, claim=1.0, relation="add-remove", seed=seed, **settings)
        except PrivacyViolation:
            failed += 1
    return failed


def test_what_it_should_detect_it_detects(tmp_path):
    """Half the noise: about nine times of ten (planned by simulation, at least eight here)."""
    assert red(half, 40, confidence=0.999, evidence=tmp_path) >= 32


def test_honest_scores_are_rarely_red(tmp_path):
    """At confidence 0.8 at most 20% may be red; with these seeds far fewer of 60 are."""
    assert red(honest, 60, confidence=0.8, evidence=tmp_path) <= 12


def test_a_score_that_fails_shows_its_own_line(tmp_path):
    def fails(world, seed):
        raise KeyError("the user's own mistake")

    with pytest.raises(RunFailed) as found:
        assert_private(fails, claim=1.0, relation="add-remove")
    assert "in fails" in "".join(found.value.__notes__)
    for bad in (3, "file.py:f", lambda w: w):
        with pytest.raises(InputError, match="`score` must be a function"):
            assert_private(bad, claim=1.0, relation="add-remove")


def test_evidence_of_long_names_is_kept_apart(tmp_path):
    names = ["test_" + "x" * 90 + f"[{k}]" for k in (1, 2)] + ["t[a/b]", "t[a-b]"]
    files = set()
    for name in names:
        with pytest.raises(PrivacyViolation) as found:
            assert_private(noisy(0.1), claim=1.0, relation="label", confidence=0.9999999, evidence=tmp_path, name=name)
        files.add(found.value.evidence)
        assert "--confidence 0.9999999" in str(found.value)
    assert len(files) == 4


def test_too_few_runs_are_never_a_pass():
    with pytest.raises(Underpowered, match=r"50 runs cannot catch 0\.5 of the promised noise"):
        assert_private(honest, claim=1.0, relation="add-remove", runs=50)
    assert not issubclass(Underpowered, AssertionError)


def test_more_runs_than_planned_are_made():
    assert assert_private(honest, claim=1.0, relation="add-remove", runs=500).runs == 500


def test_workers_do_not_change_the_outcome():
    settings = {"claim": 2.0, "relation": "add-remove", "confidence": 0.99}
    assert assert_private(honest, **settings) == assert_private(honest, **settings, execution=Execution(workers=2))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"claim": 1.0}, "`relation` is needed where the claim is a number"),
        ({"claim": (1.0,), "relation": "label"}, "`claim` must be mu"),
        ({"claim": -1.0, "relation": "label"}, "`claim` must be at least 0"),
        ({"claim": accounting.laplace(epsilon=1.0, relation="label"), "relation": "substitute"}, "that of the claim"),
        ({"claim": 1.0, "relation": "label", "detects": 0.0}, "`detects` must be in"),
        ({"claim": 1.0, "relation": "label", "confidence": 1.0}, "`confidence` must be in"),
        ({"claim": 0.0, "relation": "label"}, "would not be caught by"),
    ],
)
def test_refusals(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        assert_private(honest, **settings)


# ---------------------------------------------------------------------------------------------------------- conformance

GLOBAL = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("score", "rule"),
    [
        (lambda w, s: float("inf"), "it returns finite numbers"),
        (lambda w, s: GLOBAL.random(), "the same world and seed give the same score"),
        (lambda w, s: float(w), "another seed gives another score"),
        (lambda w, s: s + np.random.random() * 0.0, "it leaves the global random state alone"),  # noqa: NPY002
        (lambda w, s: s + random.random(), "it does not depend on the global random state"),
        (lambda w, s: None, "it returns finite numbers \\(TypeError"),
    ],
)
def test_scores_that_break_the_protocol(score, rule):
    with pytest.raises(ConformanceError, match=f"not kept: {rule}"):
        check_score(score)


def test_a_good_score_keeps_it():
    check_score(honest)


class Bad:
    relation = Relation.ADD_REMOVE

    def release(self, dataset, seed):
        dataset += 1.0
        return np.random.default_rng(seed).normal()

    def release_many(self, dataset, seeds):
        return [0.0 for _ in seeds]

    def claim(self, delta):
        return accounting.gaussian(mu=1.0, delta=1e-5, relation="substitute")


def test_mechanisms_that_break_the_protocol():
    with pytest.raises(ConformanceError) as found:
        check_mechanism(Bad(), np.zeros(3))
    for rule in ("the claim is for its relation", "it leaves the data set as it was", "`release_many` gives"):
        assert f"not kept: {rule}" in str(found.value)
    assert "another seed" not in str(found.value)
    check_mechanism(GaussianSum(noise_multiplier=1.0), np.zeros(3))


# --------------------------------------------------------------------------------------------------------------- plugin

SUITE = """
import numpy as np
import pytest

def noisy(scale):
    def score(world, seed):
        return float(world) + scale * np.random.default_rng(seed).normal()
    return score

@pytest.mark.privacy(confidence=0.999)
def test_honest(assert_private):
    assert_private(noisy(1.0), claim=1.0, relation="add-remove")

@pytest.mark.privacy
def test_broken(assert_private):
    assert_private(noisy(0.1), claim=1.0, relation="add-remove")

def test_small(assert_private):
    assert_private(noisy(1.0), claim=1.0, relation="add-remove", runs=10)

def test_other():
    pass
"""


@pytest.mark.parametrize("processes", [0, 2])
def test_the_plugin_in_somebody_elses_suite(pytester, processes):
    pytester.makepyfile(test_suite=SUITE)
    extra = ["-n", str(processes)] if processes else []
    found = pytester.runpytest_subprocess(
        "--strict-markers", "--junitxml=out.xml", "--dpaudit-evidence=kept", "-W", "error", *extra
    )
    found.assert_outcomes(passed=2, failed=2)
    found.stdout.fnmatch_lines(["*PrivacyViolation*", "*re-estimate: dpaudit estimate kept/*", "*Underpowered*"])
    found.stdout.fnmatch_lines(
        ["dpaudit: 3 privacy assertions; a contradiction among them is right with at least 99.8*"]
    )
    cases = {case.get("name"): case for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")}
    told = {name: {p.get("name"): p.get("value") for p in case.iter("property")} for name, case in cases.items()}
    assert told["test_honest"]["dpaudit outcome"] == "consistent"
    assert told["test_honest"]["dpaudit confidence"] == "0.999"
    assert int(told["test_honest"]["dpaudit runs"]) > 100
    assert told["test_broken"]["dpaudit outcome"] == "contradicted"
    assert (pytester.path / told["test_broken"]["dpaudit evidence"]).is_file()
    assert told["test_small"]["dpaudit outcome"] == "underpowered"
    assert told["test_other"] == {}


def test_markers_select(pytester):
    pytester.makepyfile(test_suite=SUITE)
    found = pytester.runpytest_subprocess("-m", "not privacy", "--strict-markers")
    found.assert_outcomes(passed=1, failed=1, deselected=2)
    found = pytester.runpytest_subprocess("--markers")
    found.stdout.fnmatch_lines(["*pytest.mark.privacy*"])


def test_the_plugin_is_featherweight():
    """A suite that never uses it pays nothing: neither numpy nor anything heavier is imported."""
    code = "import sys, dpaudit.testing.pytest_plugin; print({'numpy', 'scipy', 'pyarrow'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
