"""Functions by name, and fingerprints that see whatever a function reaches."""

import os
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import (
    Execution,
    FileFunction,
    RunFailed,
    call_name,
    fingerprint,
    functions,
    load_function,
    takes,
)
from dpaudit.fitted.propensity import Logistic


def test_functions_by_name(tmp_path):
    (tmp_path / "helper_of_audit.py").write_text("SHIFT = 3.0\n")
    (tmp_path / "mine.py").write_text(
        "from helper_of_audit import SHIFT\ndef score(world: bool, seed: int):\n    return SHIFT * world\nnumber = 3\n"
    )
    found = load_function("mine.py:score", folder=tmp_path)
    assert found(True, 0) == 3.0
    assert call_name(found) == "mine.py:score"
    assert found.__wrapped__.__annotations__["world"] is bool, "compiled as its own file would be"
    assert not hasattr(found, "many")
    assert takes(found, "world", "seed")
    assert not takes(found, "one")
    assert Execution(workers=2).map(Caller(found), [True, False]) == [[3.0], [0.0]]
    for reference, sentence in (
        ("mine.py", "must be 'file.py:function'"),
        ("none.py:score", "there is no 'none.py'"),
        ("mine.py:number", "has no function 'number'"),
        ("mine.py:other", "has no function 'other'"),
    ):
        with pytest.raises(InputError, match=re.escape(sentence)):
            load_function(reference, folder=tmp_path)
    (tmp_path / "broken.py").write_text("raise KeyError('x')")
    with pytest.raises(InputError, match="could not be loaded \\(KeyError"):
        load_function("broken.py:f", folder=tmp_path)


class Caller:
    def __init__(self, function):
        self.function = function

    def __call__(self, world):
        return [self.function(world, 0)]


def test_fingerprints_see_what_matters(tmp_path):
    def make(factor):
        return lambda world, seed: factor * world

    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert fingerprint(make(1.0)) != fingerprint(make(2.0))
    assert fingerprint(lambda w, s: w) != fingerprint(lambda w, s: -w)
    assert fingerprint(np.arange(3)) != fingerprint(np.arange(4))
    assert fingerprint({"a": (1, 2)}) == fingerprint({"a": [1, 2]})
    first = FileFunction("/a/mine.py", "score", "d1")
    assert fingerprint(first) == fingerprint(FileFunction("/elsewhere/mine.py", "score", "d1"))
    assert fingerprint(first) != fingerprint(FileFunction("/a/mine.py", "score", "d2"))


def test_fingerprints_are_the_same_in_another_process():
    code = (
        "from dpaudit.execution import fingerprint; from dpaudit.testing.broken import mechanisms as broken;"
        "print(fingerprint([broken.specimens()['5'], lambda x: x in {'a', 'b', 'c'}]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": str(k)},
        ).stdout
        for k in (1, 2)
    }
    assert len(found) == 1


def test_files_that_exit_change_or_clash(tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(1)\n")
    with pytest.raises(InputError, match="could not be loaded \\(SystemExit"):
        load_function("leaves.py:f", folder=tmp_path)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, value in zip(folders, (1.0, 2.0), strict=True):
        folder.mkdir()
        (folder / "helper_that_clashes.py").write_text(f"VALUE = {value}\n")
        (folder / "score.py").write_text(
            "def score(world, seed):\n    import helper_that_clashes\n    return helper_that_clashes.VALUE\n"
        )
    first = load_function("score.py:score", folder=folders[0])
    assert first(True, 0) == 1.0
    with pytest.raises(InputError, match="run the two audits by separate commands"):
        load_function("score.py:score", folder=folders[1])
    (folders[0] / "helper_that_clashes.py").write_text("VALUE = 3.0  # edited\n")
    changed = load_function("score.py:score", folder=folders[0])
    assert changed.digest != first.digest, "what the file imports is part of the plan"
    assert changed(True, 0) == 3.0, "and it is imported anew"
    with pytest.raises(RunFailed, match="was changed while its runs were going on"):
        FileFunction(first.path, "score", "0" * 64)(True, 0)


SIGMA = 1.0


def reads_a_constant(world, seed):
    return SIGMA * world


class Plain:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, world, seed):
        return self.scale * world

    def method(self, world, seed):
        return self.scale


FACTORS = {"scale": [1.0, np.float32(2.0)]}


def helper(world):
    return FACTORS["scale"][0] * world


def calls_a_helper(world, seed):
    return (lambda: helper(world))()


class Base:
    def __call__(self, world, seed):
        return helper(world)


class Derived(Base):
    pass


def test_code_of_this_package_is_known_by_its_version(monkeypatch):
    """Wherever it is installed: a store that was made in a checkout goes on in an installed package."""
    value = [Logistic(), Logistic.fit]
    before = fingerprint(value)
    monkeypatch.setattr(Logistic, "words", lambda self: "another text")
    assert fingerprint(value) == before
    monkeypatch.setattr(functions, "__version__", "another version")
    assert fingerprint(value) != before


def test_fingerprints_reach_what_a_function_reaches(monkeypatch):
    """Helpers, containers, base classes, data frames: an edit of any of them is another plan."""
    import pandas as pd

    table = pd.DataFrame({"x": np.arange(1000.0)})
    other = table.copy()
    other.loc[500, "x"] = -1.0
    assert fingerprint(table) == fingerprint(table.copy()) != fingerprint(other)
    assert fingerprint({"b", "a"}) == fingerprint({"a", "b"}) != fingerprint({"a"})
    before = [fingerprint(calls_a_helper), fingerprint(Derived())]
    monkeypatch.setitem(FACTORS, "scale", [1.0, np.float32(3.0)])
    middle = [fingerprint(calls_a_helper), fingerprint(Derived())]
    monkeypatch.setitem(globals(), "helper", lambda world: world)
    after = [fingerprint(calls_a_helper), fingerprint(Derived())]
    for found in zip(before, middle, after, strict=True):
        assert len(set(found)) == 3
    assert len(before[0]) == 64


def test_fingerprints_of_callables_in_memory(monkeypatch):
    before = fingerprint(reads_a_constant)
    monkeypatch.setitem(globals(), "SIGMA", 0.5)
    assert fingerprint(reads_a_constant) != before
    assert fingerprint(Plain(1.0)) == fingerprint(Plain(1.0)) != fingerprint(Plain(2.0))
    assert fingerprint(Plain(1.0).method) == fingerprint(Plain(1.0).method) != fingerprint(Plain(2.0).method)
    assert fingerprint(partial(max, 1)) == fingerprint(partial(max, 1)) != fingerprint(partial(max, 2))
    made = [lambda w, s, *, k=k: k for k in (1, 2)]
    assert fingerprint(made[0]) != fingerprint(made[1])

    def again(world, seed):
        return again

    assert fingerprint(again) == fingerprint(again)
