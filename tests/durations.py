"""A ceiling on how long the tests take: no single one above a minute, and all together fit CI's twenty minutes.

`conftest.py` collects what every test took, whichever worker ran it, and fails the run above a ceiling. A slow or busy
machine is not the tests' fault: before anything fails, the seconds are divided by how much longer than on the machine
of the ceilings a fixed loop takes (`benchmarks/_reference.py`).
"""

import importlib.util
from collections import defaultdict
from pathlib import Path

LONGEST = 60.0
"""Seconds of one test, its fixtures included."""
WORKERS, MINUTES = 2, 20
TOGETHER = 60.0 * MINUTES * WORKERS
REFERENCE = 0.025
"""Seconds of the loop on the machine on which the ceilings were set."""
SHOWN = 5


def slowness(repeats=3):
    """How many times slower this machine is; never less than 1."""
    path = Path(__file__).parent.parent / "benchmarks" / "_reference.py"
    spec = importlib.util.spec_from_file_location("_reference", path)
    loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    return max(1.0, sorted(loop.reference_loop() for _ in range(repeats))[repeats // 2] / REFERENCE)


class Durations:
    """Seconds by test."""

    def __init__(self, longest=LONGEST, together=TOGETHER):
        self.longest, self.together, self.seconds = longest, together, defaultdict(float)

    def add(self, report):
        """Setup and call of a test count, its teardown does not."""
        if report.when in ("setup", "call"):
            self.seconds[report.nodeid] += report.duration

    def too_slow(self, factor=1.0):
        """What is above a ceiling, in words."""
        total = sum(self.seconds.values()) / factor
        words = [
            f"{name} took {seconds / factor:.0f} s, and at most {self.longest:g} are allowed"
            for name, seconds in self.seconds.items()
            if seconds / factor > self.longest
        ]
        if total > self.together:
            words.append(f"all tests took {total:.0f} s, and at most {self.together:g} are allowed")
        return words

    def problems(self):
        """The same, on a machine that may be slow; the loop is run only where it matters."""
        return self.too_slow(slowness()) if self.too_slow() else []

    def summary(self):
        """All of it, and the longest tests."""
        total = sum(self.seconds.values())
        first = f"{len(self.seconds)} tests took {total:.0f} s in all, of {self.together:g}"
        order = sorted(self.seconds.items(), key=lambda entry: -entry[1])[:SHOWN]
        return [first, *(f"{seconds:7.1f} s  {name}" for name, seconds in order)]


class Plugin:
    """Hooks of pytest; in a worker of xdist nothing is collected, for the controller hears of every test."""

    def __init__(self, durations):
        self.durations, self.found = durations, []

    def pytest_runtest_logreport(self, report):
        self.durations.add(report)

    def pytest_sessionfinish(self, session):
        self.found = self.durations.problems()
        if self.found and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        if self.found or len(self.durations.seconds) > 100:  # of a whole run, or where it fails
            terminalreporter.section("durations")
            for line in [*self.durations.summary(), *(f"TOO SLOW: {words}" for words in self.found)]:
                terminalreporter.line(line)


def register(config):
    """Watch this run, unless it is that of a worker."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Plugin(Durations()), "durations")
