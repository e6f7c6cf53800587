"""What stands beside bounds from guesses at protected values: whether the proxy stands up, and what would be left.

See theory:placebo#gate, theory:placebo#kappa and theory:placebo#tau.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.assumptions import Check, CheckResult
from dpaudit.estimators.matched import GATE_LEVEL, epsilon_alone, found_p_value, proxy_p_value
from dpaudit.evidence import MatchedScores

KAPPAS = (0.0, 0.1, 0.2, 0.5, 1.0)
"""By how much more training rows may be recognised, at which the matched bound is shown."""
TAUS = (0.0, 0.001, 0.01, 0.05)
"""By how much the proxy may be off on average, at which its bound is shown."""
HALF = 3.3
"""Standard errors of a difference that a control at level 0.05 notices every other time."""
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
        "{expected:.0f}%). So the bound rests on the model recognising no row."
    ),
    not_run="The proxy was not put to the test: there are no rows that the model never saw.",
    refutes=("proxy-right",),
    on_refuted="warn",
    level=GATE_LEVEL,
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
IF_RIGHT = Check(
    id="if-proxy-right",
    measured=(
        "Were the proxy right, epsilon would be at least {epsilon:down}; were it off by {more:g} in log-odds, "
        "{by_kappa:down}; by {tau:g} in total variation on average, {by_tau:down}. Nothing tested it."
    ),
    theory="theory:placebo#tau",
)
Numbers = dict[str, Any]


def results(evidence: MatchedScores, bounds: Any, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """Whether the proxy stands up to rows that the model never saw, and both bounds, also were they off."""
    if not evidence.placebo_rows:
        return (CheckResult(check=PROXY, outcome="not-run"),)
    p_value = proxy_p_value(evidence)
    outcome = "refuted" if p_value <= GATE_LEVEL else "passed"
    _, chance, right = evidence.placebo_alone()
    numbers: Numbers = {"alone": 100.0 * float(right.mean()), "expected": 100.0 * float(chance.mean())}
    numbers |= notices([evidence])
    gate = CheckResult(check=PROXY, outcome=outcome, p_value=p_value, numbers=numbers, figure=_figure(evidence))
    return (gate, _two_bounds(evidence, delta, confidence))


def untested(evidence: MatchedScores, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """Without placebo rows: what the guesses would show, were the proxy right, or off by so much."""
    curve = [_alone(evidence, delta, confidence, "proxy", tau=tau) for tau in TAUS]
    line = [max(0.0, curve[0] - kappa) for kappa in KAPPAS]
    numbers: Numbers = {"epsilon": curve[0], "more": KAPPAS[3], "by_kappa": line[3], "tau": TAUS[2], "by_tau": curve[2]}
    numbers |= {"kappas": list(KAPPAS), "epsilon_by_kappa": line, "taus": list(TAUS), "epsilon_by_tau": curve}
    return (CheckResult(check=IF_RIGHT, outcome="measured", numbers=numbers),)


def notices(parts: Sequence[MatchedScores], level: float = 0.05) -> dict[str, float]:
    """What a control of these sizes notices every other time, in units of epsilon, with every guess (normal limit)."""
    rows = min(max(1, part.placebo_rows) for part in parts)
    return {"notices": HALF / math.sqrt(rows)}


def planted_p_values(parts: Sequence[MatchedScores], *, confidence: float) -> tuple[float, Numbers]:
    """The p-value of the largest planted leak, and which of the leaks the audit's own test would have found.

    One test each at the audit's level; shares were fixed before (theory:placebo#planted).
    """
    found = [found_p_value(part, confidence=confidence) for part in parts]
    seen = [p_value <= 1.0 - confidence for p_value in found]
    return found[-1], {"found": seen, "p_values": found}


def _two_bounds(evidence: MatchedScores, delta: float, confidence: float) -> CheckResult:
    matched = _alone(evidence, delta, confidence, "matched", kappa=0.0)
    line = [max(0.0, matched - kappa) for kappa in KAPPAS]
    curve = [_alone(evidence, delta, confidence, "proxy", tau=tau) for tau in TAUS]
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


def _alone(evidence: MatchedScores, delta: float, confidence: float, form: str, **how: float) -> float:
    found = epsilon_alone(evidence, delta=delta, confidence=confidence, form=form, **how)
    return math.floor(1e6 * found) / 1e6


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
    """Of the guesses with scores at least as high as the n-th, for some n, how many are right."""
    order = np.argsort(-scores)
    ranked, hits = scores[order], np.cumsum(right[order])
    wanted = np.unique(np.geomspace(min(10, scores.size), scores.size, 40).round().astype(int))
    numbers = np.unique(np.searchsorted(-ranked, -ranked[wanted - 1], side="right"))  # tied guesses count together
    return {
        "share": [float(f"{number / scores.size:.6g}") for number in numbers],
        "right": [float(f"{hits[number - 1] / number:.6g}") for number in numbers],
    }
