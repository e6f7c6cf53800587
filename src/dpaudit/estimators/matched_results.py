"""What stands beside bounds from guesses at protected values: how often they were right, and what the bounds rest on.

See theory:placebo#gate, theory:placebo#kappa and theory:placebo#tau.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.assumptions import Check, CheckResult
from dpaudit.estimators.matched import CAP, epsilon_from_matched, found_p_value, proxy_p_value
from dpaudit.evidence import MatchedScores

KAPPAS = (0.0, 0.1, 0.2, 0.5, 1.0)
"""By how much more training rows may be recognised, at which the matched bound is shown."""
TAUS = (0.0, 0.001, 0.01, 0.05)
"""By how much the proxy may be off on average, at which its bound is shown."""
HALF, MOSTLY = 3.3, 5.0
"""Standard errors that a control at level 0.05 notices every other time, and four times in five."""
RECOGNITION = Check(
    id="recognition",
    measured=(
        "On {placebo:,} rows that the model never saw, the same attack was right {alone:.0f}% of the time; on the "
        "{rows:,} training rows {trained:.0f}%. Of the quarter that it was surest of, {surest_alone:.0f}% and "
        "{surest:.0f}%."
    ),
    theory="theory:placebo#matched",
)
TRAINED_ONLY = Check(
    id="recognition",
    measured="The attack was right on {trained:.0f}% of the {rows:,} training rows; the proxy expects {expected:.0f}%.",
    theory="theory:placebo#proxy",
)
PROXY = Check(
    id="proxy-on-placebo",
    passed=(
        "Control passed: on rows that the model never saw, its guesses are right as often as the proxy expects "
        "(p = {p_value:p}; refuted at {level:g}). That proves nothing: a proxy that is off by less than about "
        "{notices:.2f} in epsilon is not noticed."
    ),
    refuted=(
        "The model knows more than the proxy, or the proxy is off: on rows that the model never saw, its guesses are "
        "right more often than the proxy expects (p = {p_value:p}; refuted at {level:g}; {alone:.0f}%, expected "
        "{expected:.0f}%). The bound then rests on the other half of its assumption: that the model recognises no row."
    ),
    not_run="The proxy was not put to the test: there are no rows that the model never saw.",
    refutes=("proxy-right",),
    on_refuted="warn",
    level=0.05,
    theory="theory:placebo#gate",
)
PARTS = Check(
    id="two-bounds",
    measured=(
        "Beside placebo rows epsilon is at least {matched:down} (less a margin of {kappa:g}), against the proxy "
        "at least {proxy:down}; the smaller one is reported. Were training rows recognised by {more:g} more in "
        "log-odds, the first would be {matched_less:down}; were the proxy's probabilities off by {tau:g} on average, "
        "the second would be {proxy_less:down} (each a statement of its own)."
    ),
    theory="theory:placebo#kappa",
)
Numbers = dict[str, Any]


def results(evidence: MatchedScores, bounds: Any, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """How often guesses were right in both tables, whether the proxy stands up to it, and the two bounds."""
    rates = success(evidence)
    if not evidence.placebo_rows:
        not_run = CheckResult(check=PROXY, outcome="not-run")
        return (CheckResult(check=TRAINED_ONLY, outcome="measured", numbers=rates), not_run)
    told = CheckResult(check=RECOGNITION, outcome="measured", numbers=rates, figure=_figure(evidence))
    p_value = proxy_p_value(evidence)
    outcome = "refuted" if p_value <= (PROXY.level or 0.0) else "passed"
    numbers = rates | notices([evidence])
    gate = CheckResult(check=PROXY, outcome=outcome, p_value=p_value, numbers=numbers)
    return (told, gate, _two_bounds(evidence, delta, confidence))


def notices(parts: Sequence[MatchedScores], level: float = 0.05) -> dict[str, float]:
    """What a control of these sizes notices every other time, in units of epsilon, with every guess (normal limit)."""
    rows = min(max(1, part.placebo_rows) for part in parts)
    return {"notices": HALF / math.sqrt(rows), "notices_mostly": MOSTLY / math.sqrt(rows)}


def planted_p_values(parts: Sequence[MatchedScores], *, confidence: float) -> tuple[float, Numbers]:
    """The p-value of the largest planted leak, and which of the leaks the audit's own test would have found.

    One test each at the audit's level; shares were fixed before (theory:placebo#planted).
    """
    found = [found_p_value(part, confidence=confidence) for part in parts]
    seen = [p_value <= 1.0 - confidence for p_value in found]
    return found[-1], {"found": seen, "p_values": found}


def success(evidence: MatchedScores) -> Numbers:
    """How often guesses were right, and what the proxy expects, in per cent."""
    rows = evidence.audited
    numbers: Numbers = {"rows": int(rows.sum()), "trained": 100.0 * float(evidence.right[rows].mean())}
    numbers["surest"] = 100.0 * _surest(evidence.scores[rows], evidence.right[rows])
    scores, chance, right = evidence.placebo_alone()
    if not scores.size:
        return numbers | {"expected": 100.0 * float(evidence.chance[rows].mean())}
    alone = {"placebo": scores.size, "alone": 100.0 * float(right.mean()), "expected": 100.0 * float(chance.mean())}
    return numbers | alone | {"surest_alone": 100.0 * _surest(scores, right)}


def _surest(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """The share that is right of the quarter with the highest scores."""
    first = np.argsort(-scores, kind="stable")[: max(1, scores.size // 4)]
    return float(right[first].mean())


def _two_bounds(evidence: MatchedScores, delta: float, confidence: float) -> CheckResult:
    def bound(form: str, **how: float) -> float:
        found = epsilon_from_matched(evidence, delta=delta, confidence=confidence, form=form, **how).epsilon or 0.0
        return math.floor(1e6 * found) / 1e6

    matched = bound("matched", kappa=0.0)
    line = [max(0.0, matched - kappa) if matched < CAP else matched for kappa in KAPPAS]
    curve = [bound("proxy", tau=tau) for tau in TAUS]
    numbers: Numbers = {
        "matched": max(0.0, matched - evidence.margin),
        "proxy": curve[0],
        "kappa": evidence.margin,
        "more": KAPPAS[3],
        "matched_less": max(0.0, matched - evidence.margin - KAPPAS[3]),
        "tau": TAUS[2],
        "proxy_less": curve[2],
        "kappas": list(KAPPAS),
        "epsilon_by_kappa": line,
        "taus": list(TAUS),
        "epsilon_by_tau": curve,
    }
    return CheckResult(check=PARTS, outcome="measured", numbers=numbers)


def _figure(evidence: MatchedScores) -> Numbers:
    """The share of right guesses among the surest ones, on rows that were trained on and on placebo rows."""
    rows = evidence.audited
    return {
        "recognition": {
            "trained": _shares(evidence.scores[rows], evidence.right[rows]),
            "placebo": _shares(evidence.placebo_alone()[0], evidence.placebo_alone()[2]),
        }
    }


def _shares(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> dict[str, list[float]]:
    ranked = np.cumsum(right[np.argsort(-scores, kind="stable")])
    numbers = np.unique(np.geomspace(min(10, scores.size), scores.size, 40).astype(int))
    return {
        "share": [float(f"{number / scores.size:.6g}") for number in numbers],
        "right": [float(f"{ranked[number - 1] / number:.6g}") for number in numbers],
    }
