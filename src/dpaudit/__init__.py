"""dpaudit: statistically valid audits of differential privacy.

Attacks in, lower bounds out, claims tested. Start with `audit` for something that can be run, or with `RunScores` or
`CanaryScores`, `estimators` and `judge` for scores that are already there.
Everything is loaded when it is first used, so that `import dpaudit` is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "assumptions": ["Assumption", "Check", "CheckResult"],
    "evidence": [
        "CanaryScores",
        "MatchedScores",
        "MemberScores",
        "OutputCounts",
        "PairedScores",
        "RunScores",
        "load_evidence",
    ],
    "bounds": [
        "LowerBound",
        "NotComparable",
        "Outcome",
        "PanoramiaRegion",
        "Relation",
        "RenyiBound",
        "UpperBound",
        "Verdict",
        "compare",
        "on_add_remove",
        "on_substitute",
    ],
    "estimators": ["judge"],
    "estimators.thresholds": [
        "Band",
        "EProcess",
        "Fixed",
        "FractionGrid",
        "GuessPath",
        "HeldOut",
        "RankGrid",
        "Uncorrected",
    ],
    "tradeoff": ["epsilon_from_renyi", "gdp_delta", "gdp_epsilon", "renyi_divergence"],
    "testing.calibration": ["calibrate"],
    "record": ["Audit", "Audits", "load_audit", "load_audits"],
    "auditing": ["Challenge", "audit", "challenge"],
    "auditing.power": ["plan_runs"],
    "execution": ["Execution", "RunFailed"],
    "reporting": ["table", "write_html"],
    "_validate": ["InputError"],
}
_MODULES = {
    name: f"dpaudit.{name}"
    for name in (
        "accounting",
        "attacks",
        "auditing",
        "bounds",
        "counterfactuals",
        "estimators",
        "evidence",
        "execution",
        "fitted",
        "games",
        "inputs",
        "integrations",
        "mechanisms",
        "reporting",
        "testing",
        "tradeoff",
    )
} | {"plot": "dpaudit.reporting.plot"}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = [*_MODULES, *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"dpaudit.{_WHERE[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'dpaudit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
