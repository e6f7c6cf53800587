"""The pytest plugin: a fixture, a marker, JUnit properties. Importing it costs nothing; the rest loads on first use.

    @pytest.mark.privacy(detects=0.7)
    def test_trainer(assert_private):
        assert_private(score, claim=1.0, relation="add-remove")

The fixture is `dpaudit.testing.assert_private` with the test's name and evidence folder filled in and the marker's
keywords as defaults; what it did becomes properties of the test in JUnit files, also under xdist.

`pytest --dpaudit-mutants` asks of each call that passed whether it would notice a bug: the mutants of its score are put
to the same test. They are no claims about anybody's trainer, and do not count among the assertions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from typing import Any

import pytest

PREFIX = "dpaudit "
MUTANTS = f"{PREFIX}mutants"
SURVIVORS = pytest.StashKey[list[str]]()
SURVIVED = (
    "the privacy test passed, and would pass with these bugs too: {names:list}.\n"
    "(mutants of the score; the claim is not contradicted. A stronger score or a larger `detects` may notice them.)"
)
TOGETHER = (
    "dpaudit: {count} privacy assertion{plural}; a contradiction among them is right with at least "
    "{together:percent} confidence."
)
LEGEND = (
    "killed: the test goes red with this bug, and no more. survived: it stays green, because it misses the bug or "
    "because the bug costs no privacy here."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dpaudit")
    group.addoption(
        "--dpaudit-evidence",
        default=".dpaudit",
        metavar="DIR",
        help="folder for the evidence of failed privacy tests (default: .dpaudit)",
    )
    group.addoption(
        "--dpaudit-mutants",
        nargs="?",
        const="report",
        type=_mutants_mode,
        metavar="strict",
        help="after each privacy test that passed, break its trainer on purpose and say which bugs the test notices; "
        "with =strict a bug that it does not notice fails the test",
    )


def _mutants_mode(text: str) -> str:
    if text not in ("report", "strict"):
        raise argparse.ArgumentTypeError(
            f"must be 'report' or 'strict', got {text!r}. hint: before a path write --dpaudit-mutants=report."
        )
    return text


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "privacy(**defaults): a privacy test; the keywords are defaults of the fixture assert_private."
    )


@pytest.fixture
def assert_private(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`dpaudit.testing.assert_private` for this test."""
    marker = request.node.get_closest_marker("privacy")
    defaults = {
        "name": request.node.nodeid,
        "evidence": request.config.getoption("--dpaudit-evidence"),
        **(marker.kwargs if marker else {}),
    }
    calls = 0
    request.node.stash[SURVIVORS] = []

    def record_property(name: str, value: object) -> None:
        request.node.user_properties.append((name, value))  # the fixture of that name warns under xunit2

    def asserted(score: Any, **settings: Any) -> Any:
        from dpaudit import testing
        from dpaudit.testing.assertion import CONFIDENCE, DETECTS

        nonlocal calls
        calls += 1
        suffix = "" if calls == 1 else f" {calls}"
        chosen = {**defaults, "name": f"{defaults['name']}{suffix}", **settings}
        record_property(f"{PREFIX}confidence{suffix}", chosen.get("confidence", CONFIDENCE))
        record_property(f"{PREFIX}detects{suffix}", chosen.get("detects", DETECTS))
        try:
            found = testing.assert_private(score, **chosen)
        except testing.PrivacyViolation as problem:
            record_property(f"{PREFIX}outcome{suffix}", "contradicted")
            record_property(f"{PREFIX}evidence{suffix}", str(problem.evidence))
            raise
        except testing.Underpowered:
            record_property(f"{PREFIX}outcome{suffix}", "underpowered")
            raise
        record_property(f"{PREFIX}outcome{suffix}", "consistent")
        record_property(f"{PREFIX}runs{suffix}", found.runs)
        record_property(f"{PREFIX}p value{suffix}", found.p_value)
        if request.config.getoption("--dpaudit-mutants"):
            bugs = {name: value for name, value in chosen.items() if name not in ("name", "evidence")}
            report = testing.kill_mutants(score, **bugs)
            record_property(f"{MUTANTS} killed{suffix}", len(report.killed))
            record_property(f"{MUTANTS} survived{suffix}", len(report.survived))
            record_property(f"{MUTANTS} failed{suffix}", len(report.failed))
            record_property(f"{MUTANTS}{suffix}", str(report))
            request.node.stash[SURVIVORS] += [f"{name}{suffix}" for name in report.survived]
        return found

    return asserted


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """In strict mode survivors fail a test, after all of its own assertions: a violation is never hidden by them."""
    result = yield
    survivors = item.stash.get(SURVIVORS, [])
    if survivors and item.config.getoption("--dpaudit-mutants") == "strict":
        from dpaudit.assumptions import filled

        pytest.fail(filled(SURVIVED, {"names": survivors}), pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which bugs the tests notice; how many claims were tested, and how sure one may be that no red one is wrong."""
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, [])
        if getattr(report, "when", "") == "call"
    ]
    _write_mutants(terminalreporter, reports)
    levels = [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name.startswith(f"{PREFIX}confidence")
    ]
    if levels:
        from dpaudit.assumptions import filled

        together = max(0.0, 1.0 - sum(1.0 - level for level in levels))
        said = {"count": len(levels), "plural": "s" if len(levels) > 1 else "", "together": together}
        terminalreporter.write_line(filled(TOGETHER, said))


def _write_mutants(terminalreporter: Any, reports: list[Any]) -> None:
    """A table for each call that passed, in the order of the tests' names: xdist finishes them in any order."""
    told = [
        (f"{report.nodeid}{name.removeprefix(MUTANTS)}", text)
        for report in sorted(reports, key=lambda report: str(report.nodeid))
        for name, text in getattr(report, "user_properties", ())
        if isinstance(text, str) and name.startswith(MUTANTS)
    ]
    if not told:
        return
    terminalreporter.write_sep("=", "dpaudit mutants: would these tests notice a bug?")
    for title, text in told:
        terminalreporter.write_line(title)
        for line in text.splitlines():
            terminalreporter.write_line(f"  {line}")
    terminalreporter.write_line(LEGEND)
