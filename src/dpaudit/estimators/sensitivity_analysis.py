"""The tau question of observational audits (theory:observational#shift): what is left if counterfactual values are off.

`shift_p_value` tests a tau by a blind baseline, `least_shift` is what it shows of tau, `epsilon_by_shift` the bound as
a function of tau.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Check, CheckResult
from dpaudit.bounds import Relation
from dpaudit.estimators.canaries import one_run_epsilon
from dpaudit.estimators.thresholds import (
    FractionGrid,
    Guesses,
    GuessPath,
    few_guesses,
    guess_counts,
    guesses_from_canaries,
    needs_coins,
)
from dpaudit.evidence import CanaryScores

SHIFTS = (0.0, *(base * 10.0**-power for power in range(6, 0, -1) for base in (1.0, 3.0)))
"""Values of tau at which the bound is shown: 0, 1e-6, 3e-6, ..., 0.3."""


# ------------------------------------------------------------------------------------------------------- blind baseline


def shift_p_value(part: CanaryScores) -> float:
    """p-value of "the counterfactual values are as close to the true ones as the evidence says", by blind guesses.

    tau = 0: the exact path of right guesses, at epsilon 0. tau > 0: all rows are guessed, and the number of right
    guesses is at most binomial with rate (1 + tau) / 2, for units that are independent given their features (Hoeffding
    1956: of independent trials with this mean rate, equal ones have the largest tail; the units of a random fold are a
    sample without replacement, whose number of right guesses is of that kind as well;
    theory:observational#blind-baseline).
    """
    counted = _Counted.of(part)
    if part.shift > 0.0:
        return counted.all_rows(part.shift)
    ranks = GuessPath().ranks(counted.m)
    right = [counted.correct(rank) for rank in ranks]
    return _binomial.path_p_value(ranks, right, epsilon=0.0, slack=lambda epsilon: 0.0)


def least_shift(blind: Any, *, confidence: float = 0.95) -> float:
    """A lower confidence limit of tau from the blind baseline: a smaller tau would be refuted; 0 where none is.

    See theory:observational#least-shift.

    >>> import numpy as np
    >>> coins = np.arange(1000) % 2 == 0
    >>> seen = CanaryScores(scores=np.where(coins, 1.0, -1.0), included=coins, relation="label", sides="sign")
    >>> round(least_shift(seen), 3)
    0.994
    """
    parts = _parts(blind)
    alpha = (1.0 - check.confidence(confidence)) / len(parts)
    best = 0.0
    for part in parts:
        counted = _Counted.of(part)
        limit = 2.0 * _binomial.lower_limit(counted.correct(counted.m), counted.m, alpha) - 1.0
        if limit > best and counted.all_rows(limit) <= alpha * (1.0 + 1e-6):
            best = limit
    return best


def visible_shift(blind: Any, *, confidence: float = 0.95) -> float:
    """The tau that such a blind baseline would notice every other time, if it knew the true distribution.

    See theory:observational#least-shift.
    """
    parts = _parts(blind)
    level = (1.0 - check.confidence(confidence)) / len(parts)
    sizes = [part.reduced().scores.size for part in parts]

    def critical(m: int) -> float:
        low, high = m // 2, m + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _binomial.tail(middle, m, 0.5) <= level else (middle, high)
        return min(1.0, 2.0 * high / m - 1.0)

    return min(critical(size) for size in sizes)


def notices(parts: Any, level: float) -> dict[str, float]:
    """What a blind baseline of these sizes could at best have noticed."""
    return {"notices": visible_shift(parts, confidence=1.0 - level)}


def _parts(blind: Any) -> list[Any]:
    """Parts of one blind baseline (folds): they may depend on each other, and are paid for by a union."""
    parts = list(blind) if isinstance(blind, Sequence) else [blind]
    if not parts:
        raise InputError("`blind` must be evidence of the blind baseline, or a list of such, got none.")
    return parts


@dataclass(frozen=True)
class _Counted:
    """The blind guesses, one a unit."""

    m: int
    ranked: Guesses

    @classmethod
    def of(cls, part: CanaryScores) -> _Counted:
        units = needs_coins("least_shift", part)
        if units.sides != "sign":
            raise InputError(f"the blind baseline must guess by sign, got sides {units.sides!r}.")
        return cls(units.scores.size, guesses_from_canaries(units))

    def correct(self, guesses: int) -> int:
        return self.ranked.correct(guesses)

    def all_rows(self, shift: float) -> float:
        """P(so many right) with every row guessed; Hoeffding's comparison needs one right guess above the mean."""
        rate, right = (1.0 + shift) / 2.0, self.correct(self.m)
        return _binomial.tail(right, self.m, rate) if right >= self.m * rate + 1.0 else 1.0


# ---------------------------------------------------------------------------------------------------------- sensitivity


def epsilon_by_shift(
    evidence: CanaryScores, *, delta: float, confidence: float = 0.95, shifts: Sequence[float] = SHIFTS
) -> list[float]:
    """The lower bound on epsilon at each tau, numbers of guesses fixed in advance (Bonferroni), knapsack term.

    See theory:observational#shift-curve.

    Each is a bound if tau is at most that much, and a larger tau gives a smaller bound, so the whole curve holds at
    once with the stated confidence.
    """
    units = needs_coins("epsilon_by_shift", evidence)
    alpha, m = 1.0 - check.confidence(confidence), units.scores.size
    ranked = guesses_from_canaries(units)
    numbers = guess_counts(few_guesses(m), m)
    found: list[float] = []
    for shift in shifts:
        slack = _binomial.shifted_delta(check.delta(delta), check.number("shift", shift, low=0.0, high=1.0))
        if found and found[-1] == 0.0 and shift >= shifts[len(found) - 1]:
            found.append(0.0)
            continue
        found.append(
            max(
                one_run_epsilon(
                    canaries=m, guesses=r, correct=ranked.correct(r), delta=slack, confidence=1.0 - alpha / len(numbers)
                )
                for r in numbers
            )
        )
    return found


def largest_shift(evidence: CanaryScores, *, confidence: float = 0.95) -> float:
    """tau_max of the numbers of guesses that `epsilon_by_shift` and `mu_from_canaries` try by default:
    from there on neither can report anything at all.

    See theory:observational#tau-max.
    """
    units = needs_coins("largest_shift", evidence)
    m, ranked, alpha = units.scores.size, guesses_from_canaries(units), 1.0 - check.confidence(confidence)
    grids = [guess_counts(grid, m) for grid in (few_guesses(m), FractionGrid())]
    return max(0.0, max(alpha / len(grid) * (2 * ranked.correct(r) - r) / m for grid in grids for r in grid))


# --------------------------------------------------------------------------------------------- beside an audit's bounds

ASSUMES_SHIFT = ("counterfactual-right", "independent-values", "fresh-records")
"""What a game declares that shows counterfactual values; evidence by itself says nothing of where it comes from."""
TAU = Check(
    id="tau",
    measured="tau = {tau:g} is an assumption; nothing could be reported for tau of {tau_max:up4} or more (tau_max).",
    theory="theory:observational#tau-max",
)
RISK = Check(
    id="risk",
    measured=(
        "On the {share:.2g}% of {unit}s that it chose ({guesses:,} of {units:,}), the attack told the true label or "
        "attribute from the counterfactual one {rate:.0f}% of the time in this game; chance is 50%."
    ),
)
RISK_OF_RECORDS = replace(
    RISK,
    measured=(
        "On the {share:.2g}% of {unit}s that it chose ({guesses:,} of {units:,}), the attack told the training record "
        "from a fresh one {rate:.0f}% of the time in this game; chance is 50%."
    ),
)
SAMPLE = Check(
    id="sample",
    measured=(
        "A sample of {played:,} of {population:,} rows was played with. Were the attack right as often on all of them, "
        "epsilon would be about {gain:.2f} higher (an extrapolation, no bound)."
    ),
)
LEFT = Check(
    id="needed",
    measured=(
        "tau would have to be at least {tau:down4}, which the blind baseline shows ({sure:percent} confidence). At "
        "best, if it is just that, epsilon(tau) is {epsilon:down} at delta {delta:g} ({confidence:percent} "
        "confidence); a larger tau gives less."
    ),
    theory="theory:observational#blind-baseline",
)
NOT_MEASURED = replace(
    LEFT,
    measured=(
        "tau is above {shift:g}, by how much the blind baseline cannot measure: few rows give the counterfactual "
        "values away, and they are those that an attack would choose."
    ),
)


IF_RIGHT = Check(
    id="if-counterfactual-right",
    measured=(
        "Were tau 0, epsilon would be at least {epsilon:down}; were it {tau:g}, {by_tau:down} (each a statement of its "
        "own). Nothing tested it."
    ),
    theory="theory:observational#shift-curve",
)
SMALL_SHIFT = 0.001


def rests_on_shift(evidence: CanaryScores) -> bool:
    """Whether counterfactual values were shown, so that tau is a question."""
    return any(one.id in ASSUMES_SHIFT for one in evidence.assumptions)


def statements(evidence: CanaryScores, claim: Any) -> tuple[tuple[str, str], ...]:
    """The curve of bounds over tau holds at once, as one statement beside the others."""
    if not rests_on_shift(evidence):
        return ()
    spent = "a few numbers of guesses, fixed in advance, Bonferroni"
    return (("lower bound on epsilon at every tau, the curve", spent),)


def results(
    evidence: CanaryScores, bounds: Sequence[Any], *, delta: float, confidence: float
) -> tuple[CheckResult, ...]:
    """tau and its limit, and how often the attack was right on the units that it chose."""
    if not rests_on_shift(evidence):
        return ()
    numbers = {"tau": evidence.shift, "tau_max": largest_shift(evidence, confidence=confidence)}
    curve = shift_figure(evidence, SHIFTS, delta=delta, confidence=confidence)
    found = [CheckResult(check=TAU, outcome="measured", numbers=numbers, figure=curve)]
    epsilon = next((bound for bound in bounds if bound.parameter == "epsilon"), None)
    if epsilon is not None and epsilon.guesses and epsilon.epsilon:
        found.append(_risk(evidence, epsilon.guesses, epsilon.correct or 0))
        if evidence.population is not None:
            found.append(_lost(evidence, epsilon, confidence))
    return tuple(found)


def untested(evidence: CanaryScores, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """What the coins would show, were the proxy right, or off by a little."""
    how: dict[str, Any] = {"delta": delta, "confidence": confidence}
    epsilon, less = (_floor(one) for one in epsilon_by_shift(evidence, shifts=(0.0, SMALL_SHIFT), **how))
    numbers = {"epsilon": epsilon, "tau": SMALL_SHIFT, "by_tau": less}
    return (CheckResult(check=IF_RIGHT, outcome="measured", numbers=numbers),)


def shift_figure(evidence: CanaryScores, shifts: Sequence[float], *, delta: float, confidence: float) -> dict[str, Any]:
    """The points of the figure: epsilon at each of these values of tau."""
    curve = epsilon_by_shift(evidence, delta=delta, confidence=confidence, shifts=shifts)
    return {"shift": {"tau": list(shifts), "epsilon": [_floor(value) for value in curve]}}


def left(
    evidence: CanaryScores, control: Sequence[CanaryScores], *, delta: float, confidence: float, level: float
) -> tuple[CheckResult, ...]:
    """Where the blind baseline refutes the counterfactual values: the tau that it shows, and the bound at that tau."""
    if not rests_on_shift(evidence):
        return ()
    tau = least_shift(control, confidence=1.0 - level)
    if tau <= evidence.shift:
        return (CheckResult(check=NOT_MEASURED, outcome="measured", numbers={"shift": evidence.shift}),)
    how: dict[str, float] = {"delta": delta, "confidence": confidence}
    (epsilon,) = epsilon_by_shift(evidence, shifts=(tau,), **how)
    larger = [shift for shift in SHIFTS if shift >= tau]
    curve = shift_figure(evidence, larger, **how) if larger else None
    numbers = {"tau": tau, "epsilon": _floor(epsilon), "sure": 1.0 - level, **how}
    return (CheckResult(check=LEFT, outcome="measured", numbers=numbers, figure=curve),)


def _risk(evidence: CanaryScores, guesses: int, correct: int) -> CheckResult:
    units = evidence.reduced().scores.size
    numbers = {
        "share": 100.0 * guesses / units,
        "rate": 100.0 * correct / guesses,
        "guesses": guesses,
        "correct": correct,
        "units": units,
        "unit": evidence.unit,
    }
    check_ = RISK_OF_RECORDS if evidence.relation is Relation.SUBSTITUTE else RISK
    return CheckResult(check=check_, outcome="measured", numbers=numbers)


def _lost(evidence: CanaryScores, bound: Any, confidence: float) -> CheckResult:
    """What playing with all rows would have added, were the attack right as often: an extrapolation."""
    played, population = evidence.scores.size, evidence.population or 0
    units, guesses, correct = evidence.reduced().scores.size, bound.guesses or 0, bound.correct or 0
    here, there = (
        one_run_epsilon(
            canaries=round(units * more),
            guesses=round(guesses * more),
            correct=min(round(guesses * more), math.floor(correct * more)),
            confidence=confidence,
        )
        for more in (1.0, population / played)
    )
    numbers = {"played": played, "population": population, "gain": max(0.0, there - here)}
    return CheckResult(check=SAMPLE, outcome="measured", numbers=numbers)


def _floor(value: float) -> float:
    return math.floor(value * 1e6) / 1e6
