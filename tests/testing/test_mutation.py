"""Mutants of a score: which ones are derived, what kills them, and the plugin that asks for them."""

import functools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import Execution
from dpaudit.testing import Underpowered, assert_private, check_score, kill_mutants, mutants

pytest_plugins = ["pytester"]
GUIDE = Path(__file__).parent.parent.parent / "docs" / "guide.md"
CLAIM = {"claim": 1.0, "relation": "add-remove"}
QUICK = {**CLAIM, "confidence": 0.99}
OTHERS = np.random.default_rng(0).normal(size=(200, 4))
RECORD = np.full(4, 3.0)


def trainer(world, seed, *, noise_multiplier=1.0, clip=1.0, normaliser="expected"):
    """One step of the Gaussian mechanism; its noise is a multiple of the clip."""
    gradients = np.vstack([OTHERS, RECORD]) if world else OTHERS
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    total = (gradients / np.maximum(1.0, lengths / clip)).sum(axis=0)
    total = total + noise_multiplier * clip * np.random.default_rng(seed).normal(size=4)
    return float(total @ RECORD) / (len(OTHERS) if normaliser == "expected" else len(gradients))


def changes(score):
    return {name: dict(mutant.changes) for name, mutant in mutants(score).items()}


# -------------------------------------------------------------------------------------------------------------- derived


def test_every_known_name():
    def score(world, seed, noise_multiplier=4.0, *, clip=2.0, sampling_rate=0.25, steps=10, normaliser="expected"):
        return 0.0

    assert changes(score) == {
        "half_noise": {"noise_multiplier": 2.0},
        "deviation_as_variance": {"noise_multiplier": 2.0},
        "double_clip": {"clip": 4.0, "noise_multiplier": 2.0},
        "double_sampling_rate": {"sampling_rate": 0.5},
        "fourfold_steps": {"steps": 40},
        "dataset_normaliser": {"normaliser": "dataset"},
    }


def test_the_noise_stays_under_twice_the_clip():
    """A multiple of the clip is halved, a standard deviation is left alone; both are named in what is shown."""

    def both(world, seed, *, clip=1.0, noise_scale=1.0, noise_multiplier=1.0): ...
    def deviation(world, seed, *, max_grad_norm=1.0, sigma=1.0): ...

    assert changes(deviation)["double_clip"] == {"max_grad_norm": 2.0}
    assert changes(both)["double_clip"] == {"clip": 2.0}
    assert changes(both)["half_noise (noise_scale)"] == {"noise_scale": 0.5}
    assert mutants(trainer)["double_clip"].change == "clip 1 -> 2, noise_multiplier 1 -> 0.5"


@pytest.mark.parametrize(
    "score",
    [
        lambda world, seed: 0.0,
        lambda world, seed, *, width=3, learning_rate=0.1: 0.0,
        lambda world, seed, *, noise_multiplier=None, clip=True, normaliser=None, sampling_rate=1.0: 0.0,
        lambda world, seed, *, noise=0.0, steps=0, clip=float("inf"), normaliser="dataset": 0.0,
        lambda world, seed, **hyper: 0.0,
        lambda noise=1.0, steps=3: 0.0,  # world and seed under other names
    ],
)
def test_nothing_to_change(score):
    assert mutants(score) == {}
    assert "no mutants" in str(kill_mutants(score, **QUICK))


def test_values_come_from_a_partial_and_from_a_call():
    class Trainer:
        def __call__(self, world, seed, *, sigma=3.0):
            return sigma

    assert changes(functools.partial(trainer, noise_multiplier=3.0))["half_noise"] == {"noise_multiplier": 1.5}
    assert mutants(Trainer())["half_noise"](True, 1) == 1.5


def test_a_mutant_is_a_score():
    mutant = mutants(trainer)["half_noise"]
    check_score(mutant)
    assert mutant(True, 3) == trainer(True, 3, noise_multiplier=0.5)
    with pytest.raises(FrozenInstanceError):
        mutant.score = None


def test_many_is_used_only_where_it_takes_the_change():
    class Honest:
        def __call__(self, world, seed, *, noise=1.0):
            return noise

        def many(self, world, seeds):
            return [1.0 for _ in seeds]

    class Open(Honest):
        def many(self, world, seeds, *, noise=1.0):
            return [noise for _ in seeds]

    assert not hasattr(mutants(Honest())["half_noise"], "many")
    assert mutants(Open())["half_noise"].many(True, [1, 2]) == [0.5, 0.5]
    assert not hasattr(mutants(trainer)["half_noise"], "many")


# --------------------------------------------------------------------------------------------------------------- killed


def test_bugs_that_matter_are_killed_and_the_one_that_does_not_survives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    honest = assert_private(trainer, **CLAIM)
    report = kill_mutants(trainer, **CLAIM)
    assert report.killed == ("half_noise", "double_clip")
    assert report.survived == ("dataset_normaliser",)
    assert report.failed == ()
    survivor = report.outcomes[-1]
    assert (survivor.runs, survivor.killed) == (honest.planned, False)
    assert all(one.p_value <= 1e-6 for one in report.outcomes if one.killed)
    assert survivor.p_value > 1e-6
    assert all(one.seconds > 0.0 for one in report.outcomes)
    assert re.search(r"half_noise +noise_multiplier 1 -> 0\.5 +killed +\d+\n", str(report))
    assert re.search(r"dataset_normaliser +normaliser expected -> dataset +survived +350$", str(report))
    assert list(tmp_path.iterdir()) == [], "no evidence of mutants"


def test_a_record_that_is_never_clipped_cannot_show_a_wrong_clip():
    def short(world, seed, *, clip=1.0, noise_scale=1.0):
        return min(1.0, clip) * world + noise_scale * np.random.default_rng(seed).normal()

    assert kill_mutants(short, **QUICK).survived == ("double_clip",)


def test_a_gross_bug_is_cheap():
    class Known:
        def __call__(self, world, seed):
            return world + np.random.default_rng(seed).normal()

        def mutants(self):
            return {"no noise": lambda world, seed: float(world), "fine": self}

    report = kill_mutants(Known(), **CLAIM)
    assert (report.killed, report.survived) == (("no noise",), ("fine",))
    assert report.outcomes[0].runs < 250 < report.outcomes[1].runs
    assert "change" not in str(report), "nothing is known of what an author's own mutants change"


def test_own_mutants_replace_the_derived_ones():
    def score(world, seed, *, noise=1.0):
        return world + noise * np.random.default_rng(seed).normal()

    score.mutants = lambda: {"a tenth": functools.partial(score, noise=0.1)}
    assert kill_mutants(score, **QUICK).killed == ("a tenth",)


def test_a_mutant_that_fails_is_neither():
    def score(world, seed, *, sigma=1.0, clip=1.0):
        if clip > 1.0:
            raise ValueError("clip is fixed")
        return float("nan") if sigma < 1.0 else world + np.random.default_rng(seed).normal()

    report = kill_mutants(score, **QUICK)
    assert report.failed == ("half_noise", "double_clip")
    assert report.killed == report.survived == ()
    assert "double_clip failed to run: run 0" in str(report)
    assert "ValueError: clip is fixed" in str(report)
    assert [one.p_value for one in report.outcomes] == [None, None]


def test_workers_do_not_change_the_report():
    settings = {**QUICK, "seed": 3}
    assert kill_mutants(trainer, **settings) == kill_mutants(trainer, **settings, execution=Execution(workers=2))


def with_mutants(value):
    def score(world, seed):
        return 0.0

    score.mutants = value
    return score


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (3, "`score` must be a function"),
        (with_mutants({"a": trainer}), "`mutants` of a score must be a function"),
        (with_mutants(lambda: [trainer]), r"`mutants\(\)` of a score must return scores by name"),
        (with_mutants(lambda: {1: trainer}), r"`mutants\(\)` of a score must return scores by name"),
        (with_mutants(lambda: {"a": lambda world: 0.0}), "`score` must be a function"),
    ],
)
def test_refusals(score, sentence):
    with pytest.raises(InputError, match=sentence):
        kill_mutants(score, **QUICK)


def test_settings_are_those_of_the_test():
    with pytest.raises(Underpowered):
        kill_mutants(trainer, **CLAIM, runs=10)
    with pytest.raises(InputError, match="`relation` is needed"):
        kill_mutants(trainer, claim=1.0)


# --------------------------------------------------------------------------------------------------------------- plugin

SUITE = """
import numpy as np
import pytest

pytestmark = pytest.mark.privacy(confidence=0.99, relation="add-remove", claim=1.0)

def noisy(world, seed, *, noise_scale=1.0, normaliser="expected"):
    return float(world) + noise_scale * np.random.default_rng(seed).normal()

def plain(world, seed):
    return noisy(world, seed)

def test_noisy(assert_private):
    assert_private(noisy)

def test_plain(assert_private):
    assert_private(plain)
    assert_private(lambda world, seed, *, sigma=1.0: noisy(world, seed, noise_scale=sigma))

def test_broken(assert_private):
    assert_private(noisy, seed=1)
    assert_private(lambda world, seed, *, sigma=0.1: noisy(world, seed, noise_scale=sigma))
"""


@pytest.mark.parametrize(("mode", "processes"), [("=report", 0), ("=strict", 2)])
def test_the_plugin(pytester, mode, processes):
    pytester.makepyfile(test_suite=SUITE)
    extra = ["-n", str(processes)] if processes else []
    found = pytester.runpytest_subprocess(f"--dpaudit-mutants{mode}", "--junitxml=out.xml", "-W", "error", *extra)
    strict = mode == "=strict"
    found.assert_outcomes(passed=1 if strict else 2, failed=2 if strict else 1)
    found.stdout.fnmatch_lines(
        [
            "*dpaudit mutants: would these tests notice a bug?*",
            "test_suite.py::test_broken",
            "test_suite.py::test_noisy",
            "  mutant  *change  *outcome *runs",
            "  half_noise *noise_scale 1 -> 0.5 *killed *",
            "  dataset_normaliser *survived *",
            "test_suite.py::test_plain",
            "  no mutants: *",
            "test_suite.py::test_plain 2",
            "  half_noise *sigma 1 -> 0.5 *killed *",
            "killed: the test goes red with this bug, and no more.*",
            "dpaudit: 5 privacy assertions; a contradiction among them is right with at least 95% confidence.",
        ]
    )
    assert found.stdout.str().count("PrivacyViolation: ") >= 1, "a violation comes before survivors"
    naming = "the privacy test passed, and would pass with these bugs too: dataset_normaliser."
    assert found.stdout.str().count(f"\n{naming}") == strict
    cases = {case.get("name"): case for case in ElementTree.parse(pytester.path / "out.xml").iter("testcase")}
    told = {name: {p.get("name"): p.get("value") for p in case.iter("property")} for name, case in cases.items()}
    assert (told["test_noisy"]["dpaudit mutants killed"], told["test_noisy"]["dpaudit mutants survived"]) == ("1", "1")
    assert told["test_plain"]["dpaudit mutants killed"] == "0"
    assert told["test_plain"]["dpaudit mutants killed 2"] == "1"
    assert told["test_broken"]["dpaudit mutants survived"] == "1"
    assert "dpaudit mutants killed 2" not in told["test_broken"], "a red test has no mutants"
    assert len(list((pytester.path / ".dpaudit").iterdir())) == 1, "evidence of the violation alone"


def test_the_option(pytester):
    pytester.makepyfile(test_suite="def test_it(assert_private): pass")
    found = pytester.runpytest_inprocess("--dpaudit-mutants=lax")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*--dpaudit-mutants: must be 'report' or 'strict', got 'lax'. hint: *"])
    found = pytester.runpytest_inprocess("--dpaudit-mutants")
    found.assert_outcomes(passed=1)
    assert "dpaudit mutants" not in found.stdout.str(), "nothing was asserted"


def test_the_example_of_the_guide(pytester):
    text = GUIDE.read_text().split("## 7. ")[1]
    code, output = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.S).groups()
    pytester.makepyfile(test_trainer=code)
    found = pytester.runpytest_inprocess("--dpaudit-mutants")
    found.assert_outcomes(passed=1)
    assert output in found.stdout.str()
    short = code.replace("np.full(8, 3.0)", "np.full(8, 1.0 / 8**0.5)")
    pytester.makepyfile(test_trainer=short)
    pytester.runpytest_inprocess("--dpaudit-mutants").stdout.fnmatch_lines(["  double_clip *survived *"])
