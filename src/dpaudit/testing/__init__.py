"""For the tests of a DP library, and of this one.

| part | what it is |
|---|---|
| `assert_private`, `kill_mutants` | a privacy test of a trainer; would it notice a bug? (`assertion`, `mutation`) |
| `check_score`, `check_mechanism`, `check_game` | is a protocol kept (`conformance`) |
| `pytest_plugin` | the same as a fixture and a command-line option of pytest |
| `broken` | mechanisms and trainers with one named bug each |
| `ground_truth` | mechanisms whose privacy is known exactly, as samplers of evidence |
| `calibration` | does a bound hold as often as it says: every estimator against every ground truth |

Everything is loaded when it is first used: pytest imports this room at every start.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "assertion": ["Assurance", "PrivacyViolation", "Underpowered", "assert_private", "kill_mutants"],
    "conformance": ["ConformanceError", "check_game", "check_mechanism", "check_score"],
    "mutation": ["MutantOutcome", "Mutated", "MutationReport", "mutants"],
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"dpaudit.testing.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'dpaudit.testing' has no attribute {name!r}")
