"""The ceiling on durations: what is above it fails the run, with workers and without, and a slow machine does not."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import durations
from tests.durations import Durations

ROOT = Path(__file__).parent.parent


def report(name, seconds, when="call"):
    return SimpleNamespace(nodeid=name, duration=seconds, when=when)


def seen(*reports):
    found = Durations(longest=60.0, together=100.0)
    for one in reports:
        found.add(one)
    return found


def test_setup_and_call_count_together():
    assert seen(report("a", 50.0, "setup"), report("a", 5.0), report("a", 50.0, "teardown")).too_slow() == []
    assert seen(report("a", 50.0, "setup"), report("a", 11.0)).too_slow() == ["a took 61 s, and at most 60 are allowed"]


def test_the_sum_counts():
    assert seen(report("a", 50.0), report("b", 50.0)).too_slow() == []
    assert seen(report("a", 50.0), report("b", 51.0)).too_slow() == [
        "all tests took 101 s, and at most 100 are allowed"
    ]


def test_a_slow_machine_is_not_the_tests_fault(monkeypatch):
    slow = seen(report("a", 110.0))
    monkeypatch.setattr(durations, "slowness", lambda: 2.0)
    assert slow.problems() == []
    monkeypatch.setattr(durations, "slowness", lambda: 1.5)
    assert slow.problems() == ["a took 73 s, and at most 60 are allowed"]


def test_a_quick_machine_gains_nothing():
    assert durations.slowness() >= 1.0


CONFTEST = """
from tests import durations

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(durations.Plugin(durations.Durations(longest={longest})), "durations")
"""
TESTS = "import time\n\ndef test_quick():\n    pass\n\ndef test_slow():\n    time.sleep(0.3)\n"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
@pytest.mark.parametrize(("longest", "code"), [(30.0, 0), (0.001, 1)])
def test_a_run_above_the_ceiling_fails(tmp_path, workers, longest, code):
    (tmp_path / "conftest.py").write_text(CONFTEST.format(longest=longest))
    (tmp_path / "test_two.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:dpaudit", *workers, "."]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("TOO SLOW: test_two.py::test_slow" in done.stdout) == bool(code)
