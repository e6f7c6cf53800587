"""The pytest plugin: a fixture, a marker, JUnit properties. Importing it costs nothing; the rest loads on first use.

    @pytest.mark.privacy(detects=0.7)
    def test_trainer(assert_private):
        assert_private(score, claim=1.0, relation="add-remove")

The fixture is `dpaudit.testing.assert_private` with the test's name and evidence folder filled in and the marker's
keywords as defaults; what it did becomes properties of the test in JUnit files, also under xdist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PREFIX = "dpaudit "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dpaudit").addoption(
        "--dpaudit-evidence",
        default=".dpaudit",
        metavar="DIR",
        help="folder for the evidence of failed privacy tests (default: .dpaudit)",
    )


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

    def record_property(name: str, value: object) -> None:
        request.node.user_properties.append((name, value))  # the fixture of that name warns under xunit2

    def asserted(score: Any, **settings: Any) -> Any:
        from dpaudit import testing

        nonlocal calls
        calls += 1
        suffix = "" if calls == 1 else f" {calls}"
        chosen = {**defaults, "name": f"{defaults['name']}{suffix}", **settings}
        record_property(f"{PREFIX}confidence{suffix}", chosen.get("confidence", testing.CONFIDENCE))
        record_property(f"{PREFIX}detects{suffix}", chosen.get("detects", testing.DETECTS))
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
        return found

    return asserted


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many claims were tested, and how sure one may be that no red one is wrong."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    levels = [
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", ())
        if name.startswith(f"{PREFIX}confidence")
    ]
    if levels:
        together = max(0.0, 1.0 - sum(1.0 - level for level in levels))
        terminalreporter.write_line(
            f"dpaudit: {len(levels)} privacy assertion{'s' if len(levels) > 1 else ''}; a contradiction among them is "
            f"right with at least {100.0 * together:.6g}% confidence."
        )
