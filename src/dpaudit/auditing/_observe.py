"""Observational audits: play, put the proxy to the blind test, look once more at a mended proxy, and explain.

The gate has a level of its own, 5%, whatever the confidence of the bounds: a false alarm costs a number, no validity.
A second look, at a proxy that was recalibrated on rows that are no canaries, is paid for in advance: where one is
possible, every statement of either look is made at half the error probability.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit import estimators
from dpaudit._validate import InputError
from dpaudit.attacks import blind as blind_attacks
from dpaudit.auditing.record import Bound
from dpaudit.bounds import LowerBound, Outcome, Relation, Verdict, percent, round_down
from dpaudit.estimators.claims import two_digits
from dpaudit.estimators.shifts import SHIFTS
from dpaudit.evidence import CanaryScores, MemberScores, PairedScores
from dpaudit.games import Observational, Played
from dpaudit.proxies import Calibration

GATE = 0.95
"""Confidence of the blind gate."""
LOOK = "half of the error probability pays for a second look at a recalibrated proxy"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What came of an observational game, before any bound."""

    evidence: CanaryScores | MemberScores | PairedScores
    looks: int
    """How many looks were paid for."""
    blocked: bool
    checks: dict[str, Any]
    figures: dict[str, Any]
    changes: tuple[str, ...] = ()
    tau_max: float | None = None
    """From this tau on nothing could be reported; None where the assumption is another."""

    def level(self, confidence: float) -> float:
        """The confidence at which each statement is made, so that all looks together keep the asked one."""
        return _level(confidence, self.looks)


@dataclass(frozen=True)
class _Look:
    game: Observational
    played: Played
    gate: Verdict | None

    @property
    def blocked(self) -> bool:
        return self.gate is not None and self.gate.outcome is Outcome.CONTRADICTED


def observe(game: Observational, *, seed: int, confidence: float, delta: float) -> Observed:
    """Play the game; where the blind attack refutes the proxy, mend the proxy and play once more."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in another order would be other numbers
        looks, trouble = _looks(game, seed)
    last, paid = looks[-1], _paid(game)
    checks: dict[str, Any] = {"gate": _gate_words(looks, paid)}
    figures: dict[str, Any] = {}
    if last.played.calibration is not None:
        checks["proxy"] = _proxy_words(last.played.calibration, mended=len(looks) == 2)
        figures["calibration"] = _calibration_points(last.played.calibration)
    evidence, level = last.played.evidence, _level(confidence, paid)
    if last.blocked:
        checks |= _explained(last, delta=delta, level=level)
    if isinstance(evidence, CanaryScores):
        least = checks.get("needed", {}).get("tau", 0.0)  # a tau that is refuted is not shown
        shifts = [tau for tau in SHIFTS if not last.blocked or tau >= least > 0.0]
        if shifts:
            curve = estimators.epsilon_by_shift(evidence, delta=delta, confidence=level, shifts=shifts)
            figures["shift"] = {"tau": shifts, "epsilon": [_floor(value) for value in curve]}
    return Observed(
        evidence=evidence,
        looks=paid,
        blocked=last.blocked,
        checks=checks,
        figures=figures,
        changes=(*trouble, *_ways_out(last.game)) if last.blocked else (),
        tau_max=estimators.largest_shift(evidence, confidence=level) if isinstance(evidence, CanaryScores) else None,
    )


def _paid(game: Observational) -> int:
    return 2 if game.can_recalibrate else 1


def _level(confidence: float, looks: int) -> float:
    """The confidence at which each statement is made, so that all looks together keep the asked one."""
    return 1.0 - (1.0 - confidence) / looks


def _looks(game: Observational, seed: int) -> tuple[list[_Look], tuple[str, ...]]:
    """One look, or two; and what kept the proxy from being mended, as a sentence."""
    looks = [_look(game, seed, 0)]
    if not looks[0].blocked or _paid(game) == 1:
        return looks, ()
    try:
        mended = game.recalibrated(seed)
    except InputError as problem:
        return looks, (f"The proxy could not be recalibrated: {problem.sentence}",)
    return [*looks, _look(mended, seed, 1)], ()


def _look(game: Observational, seed: int, look: int) -> _Look:
    played = game.play_all(seed=seed, look=look)
    gate = estimators.refute_proxy(played.blind, confidence=GATE) if played.blind else None
    return _Look(game, played, gate)


def _floor(value: float) -> float:
    return math.floor(value * 1e6) / 1e6


# ------------------------------------------------------------------------------------------------------------ sentences


def _gate_words(looks: list[_Look], paid: int) -> dict[str, Any]:
    last = looks[-1]
    found: dict[str, Any] = {"level": 1.0 - GATE, "looks": len(looks), "looks_paid": paid}
    if last.gate is None:
        words = "No gate: without features, or with so few rows, a blind attack has nothing to go by."
        return {"sentence": words, "passed": None, **found}
    how = blind_attacks.words(last.game.proxy, last.game.features)
    notices = estimators.visible_shift(last.played.blind, confidence=GATE)
    p_values = [look.gate.p_value for look in looks if look.gate is not None]
    before = ""
    if len(looks) == 2:
        before = f"The proxy as given was refuted (p = {p_values[0]:.2g}), and recalibrated on held-out rows. "
    tail = f"p = {p_values[-1]:.2g}; the gate closes at {1.0 - GATE:.2g}, and could at best notice tau of {notices:.2g}"
    if last.blocked:
        words = f"{before}Gate closed: an attack that never saw the model, {how}, tells true values from the proxy's"
    else:
        words = f"{before}Gate open: an attack that never saw the model, {how}, does not tell true from proxy values"
    return {
        "sentence": f"{words} ({tail}).",
        "passed": not last.blocked,
        "p_values": p_values,
        "notices": notices,
        **found,
    }


def _proxy_words(found: Calibration, *, mended: bool) -> dict[str, Any]:
    words = (
        f"The proxy{', recalibrated,' if mended else ''} is off by {100.0 * found.error:.2g} points on average "
        f"(calibration), and explains {100.0 * max(0.0, found.fidelity):.0f}% of the log-loss (fidelity): "
        f"{found.log_loss:.3g} against {found.blank:.3g} of one that knows only how often each value occurs."
    )
    return {
        "sentence": words,
        "calibration_error": found.error,
        "log_loss": found.log_loss,
        "blank_log_loss": found.blank,
    }


def _calibration_points(found: Calibration) -> dict[str, Any]:
    return {"predicted": list(found.predicted), "observed": list(found.observed), "rows": list(found.rows)}


def _explained(last: _Look, *, delta: float, level: float) -> dict[str, Any]:
    """A closed gate: the tau that it shows, the bound at that tau, and the columns that gave the proxy away."""
    found: dict[str, Any] = {}
    evidence = last.played.evidence
    if isinstance(evidence, CanaryScores):
        needed = estimators.least_shift(last.played.blind, confidence=GATE)
        if needed > evidence.shift:
            (epsilon,) = estimators.epsilon_by_shift(evidence, delta=delta, confidence=level, shifts=(needed,))
            words = (
                f"tau would have to be at least {round_down(needed, 4)}, which the blind attack shows. At best, if it "
                f"is just that, epsilon(tau) is {round_down(epsilon)} at delta {delta:g}; a larger tau gives less."
            )
            found["needed"] = {"sentence": words, "tau": needed, "epsilon": _floor(epsilon)}
        else:
            words = (
                f"tau is above {evidence.shift:g}, by how much the blind attack cannot measure: few rows give the "
                "proxy away, and they are those that an attack would choose."
            )
            found["needed"] = {"sentence": words}
    rows = last.played.canaries
    features = None if last.game.features is None else last.game.features[rows]
    named = blind_attacks.giveaways(
        last.game.proxy.at(rows), last.game.values[rows], features, list(last.game.feature_names)
    )
    if named:
        listed = "; ".join(f"{one.feature}, {one.where} ({one.z:+.1f} standard errors)" for one in named)
        found["giveaways"] = {
            "sentence": f"Where true values part most from the proxy's: {listed}.",
            "columns": [{"feature": one.feature, "where": one.where, "z": one.z} for one in named],
        }
    return found


def _ways_out(game: Observational) -> tuple[str, ...]:
    found = ["A proxy that knows what the blind attack knows: train it on more data, or on the columns named above."]
    answered = game.shift > 0.0 or game.log_ratio is not None
    if game.features is None and not answered:
        found.append(
            "`features` would let a recalibrated proxy be put to the test; on the proxy's own predictions alone it "
            "would pass by construction."
        )
    elif not game.held_out and not answered and hasattr(game.proxy, "recalibrated"):
        found.append("`held_out` rows would let the proxy be recalibrated, for one more look.")
    if game.log_ratio is None:
        found.append(
            "A `shift` that you answer for, at least as large as the one named above, gives a bound of its own."
        )
    return tuple(found)


# --------------------------------------------------------------------------------------------------- beside the numbers


def restated(bounds: tuple[Bound, ...], observed: Observed, confidence: float) -> tuple[Bound, ...]:
    """Bounds of one look as bounds of the whole audit: at the asked confidence, with tau and its limit beside each."""
    return tuple(_restated(bound, observed, confidence) for bound in bounds)


def _restated(bound: Bound, observed: Observed, confidence: float) -> Bound:
    if not isinstance(bound, LowerBound):
        return bound
    notes, test = list(bound.notes), bound.test
    if observed.tau_max is not None:
        notes = [note for note in notes if not note.startswith("nothing could be reported")]
        tau = observed.evidence.shift  # type: ignore[union-attr]
        notes.append(f"tau = {tau:g}; nothing could be reported for tau of {observed.tau_max:.2g} or more")
    if observed.checks["gate"]["passed"] is None:
        notes.append("the proxy was not put to any blind test")
    if observed.looks > 1:
        notes.append(LOOK)
        if test is not None:
            bound = replace(bound, test=lambda theta: min(1.0, observed.looks * test(theta)))
    return replace(bound, notes=tuple(notes), confidence=confidence)


def restated_verdict(verdict: Verdict, observed: Observed, confidence: float) -> Verdict:
    """The verdict of one look as that of the whole audit, its p-value paid for."""
    if verdict.p_value is None or observed.looks == 1:
        return replace(verdict, confidence=confidence)
    p_value = min(1.0, observed.looks * verdict.p_value)
    sentence = re.sub(r"p = [0-9.e+-]*[0-9]", f"p = {two_digits(p_value)}", verdict.sentence)
    sentence = sentence.replace(f"{percent(verdict.confidence)} confidence", f"{percent(confidence)} confidence")
    return replace(verdict, confidence=confidence, p_value=p_value, sentence=sentence)


def blocked_verdict(observed: Observed, confidence: float, relation: Relation) -> Verdict:
    """No number: an attack without the model does it too."""
    gate = observed.checks["gate"]
    sentence = (
        "Blocked: true and proxy values can be told apart without the model "
        f"(p = {gate['p_values'][-1]:.2g}), so what the attack finds may not be put down to the model."
    )
    return Verdict(outcome=Outcome.BLOCKED, sentence=sentence, confidence=confidence, relation=relation)


def shown_risk(bounds: tuple[Bound, ...], observed: Observed) -> dict[str, Any]:
    """Beside epsilon: tau and its limit, and how often the attack was right on the units that it chose."""
    evidence = observed.evidence
    epsilon = next((b for b in bounds if isinstance(b, LowerBound) and b.parameter == "epsilon"), None)
    found: dict[str, Any] = {}
    if isinstance(evidence, MemberScores):
        widest = float(np.max(np.abs(np.log(evidence.propensity / (1.0 - evidence.propensity)))))
        words = f"The log-ratio of true to proxy law is an assumption, up to {widest:.3g}, instead of a tau."
        return {"shift": {"sentence": words, "log_ratio": widest}}
    assert isinstance(evidence, CanaryScores)
    words = (
        f"tau = {evidence.shift:g} is an assumption; nothing could be reported for tau of {observed.tau_max:.2g} or "
        "more (tau_max)."
    )
    found["shift"] = {"sentence": words, "tau": evidence.shift, "tau_max": observed.tau_max}
    if epsilon is not None and epsilon.guesses and epsilon.epsilon:
        found["risk"] = _risk(epsilon.guesses, epsilon.correct or 0, evidence.reduced().scores.size, evidence)
        if evidence.offered is not None:
            found["sample"] = _lost(epsilon, evidence)
    return found


def _risk(guesses: int, correct: int, m: int, evidence: CanaryScores) -> dict[str, Any]:
    what = "the training record from a fresh one" if evidence.relation is Relation.SUBSTITUTE else (
        "the true label or attribute from the proxy's"
    )  # fmt: skip
    return {
        "sentence": (
            f"On the {100.0 * guesses / m:.2g}% of {evidence.unit}s that it chose ({guesses:,} of {m:,}), the attack "
            f"told {what} {100.0 * correct / guesses:.0f}% of the time in this game; chance is 50%."
        ),
        "guesses": guesses,
        "correct": correct,
        "units": m,
    }


def _lost(bound: LowerBound, evidence: CanaryScores) -> dict[str, Any]:
    """What playing with all rows would have added, were the attack right as often: an extrapolation."""
    played, offered = evidence.scores.size, evidence.offered or 0
    units, scale = evidence.reduced().scores.size, offered / played
    level, guesses, correct = bound.confidence, bound.guesses or 0, bound.correct or 0
    here, there = (
        estimators.one_run_epsilon(
            canaries=round(units * more),
            guesses=round(guesses * more),
            correct=min(round(guesses * more), math.floor(correct * more)),
            confidence=level,
        )
        for more in (1.0, scale)
    )
    gain = max(0.0, there - here)
    return {
        "sentence": (
            f"A sample of {played:,} of {offered:,} rows was played with. Were the attack right as often on all of "
            f"them, epsilon would be about {gain:.2f} higher (an extrapolation, no bound)."
        ),
        "rows": played,
        "offered": offered,
        "gain_estimate": gain,
    }
