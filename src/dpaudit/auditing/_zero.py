"""Zero-run audits: play, put the propensities to the blind test, and say how wrong they may be.

The gate has a level of its own, 5%, as that of observational audits: a false alarm costs a number, no validity.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpaudit import estimators
from dpaudit.auditing._observe import GATE, Observed
from dpaudit.auditing.record import Bound
from dpaudit.bounds import LowerBound, Outcome, Relation, Verdict, round_down
from dpaudit.estimators.members import ERRORS
from dpaudit.evidence import MemberScores
from dpaudit.games import ZeroPlayed, ZeroRun
from dpaudit.propensity import SHARES, Overlap

UNTESTED = "the propensities were not put to any blind test"


def observe(game: ZeroRun, *, seed: int, confidence: float, delta: float) -> Observed:
    """Play the game and its blind attack; where that refutes the propensities, nothing is reported."""
    import sklearn.ensemble  # noqa: F401  # its threads are limited only if they are there
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # sums in another order would be other numbers
        played = game.play_all(seed=seed)
    checks: dict[str, Any] = {}
    refuted = False
    if game.how != "split":
        gate = estimators.refute_proxy(played.blind, confidence=GATE) if played.blind else None
        refuted = gate is not None and gate.outcome is Outcome.CONTRADICTED
        checks["gate"] = _gate_words(gate, refuted)
    if played.overlap is not None:
        checks["overlap"] = _overlap_words(played.overlap) | {"log_odds_error": game.log_odds_error}
    if played.revealing:
        named = [f"{one}" for one in played.revealing]
        checks["revealing"] = {
            "sentence": f"Membership can be read off the features: {'; '.join(named)}.",
            "columns": [one.column for one in played.revealing],
        }
    return Observed(
        evidence=played.evidence,
        looks=1,
        blocked=refuted or _apart(played),
        checks=checks,
        figures=_figures(played),
        changes=_ways_out(played, refuted),
    )


def _apart(played: ZeroPlayed) -> bool:
    """Whether the features give every membership away: no row is left that a score could say more about."""
    exactly = any(one.exactly for one in played.revealing)
    return exactly or (played.overlap is not None and played.overlap.eta[0] < 1e-6 and played.overlap.auc == 1.0)


def _figures(played: ZeroPlayed) -> dict[str, Any]:
    if played.overlap is None:
        return {}
    found = played.overlap
    return {
        "calibration": {
            "predicted": list(found.predicted),
            "observed": list(found.observed),
            "rows": list(found.rows),
        },
        "propensities": {
            "edges": list(found.edges),
            "members": list(found.members),
            "others": list(found.others),
        },
    }


def _gate_words(gate: Verdict | None, refuted: bool) -> dict[str, Any]:
    if gate is None:
        return {"sentence": "No gate: without features a blind attack has nothing to go by.", "passed": None}
    what = "beats the propensities" if refuted else "does not beat the propensities"
    return {
        "sentence": (
            f"Gate {'closed' if refuted else 'open'}: an attack that never saw the model, cross-fitted on the "
            f"features, {what} (p = {gate.p_value:.2g}; the gate closes at {1.0 - GATE:.2g})."
        ),
        "passed": not refuted,
        "p_values": [gate.p_value],
        "level": 1.0 - GATE,
    }


def _overlap_words(found: Overlap) -> dict[str, Any]:
    listed = ", ".join(f"{eta:.2g} but for {100.0 * share:g}%" for eta, share in zip(found.eta, SHARES, strict=True))
    return {
        "sentence": (
            f"The propensities tell members from non-members with AUC {found.auc:.2f}; they keep from 0 and 1 by "
            f"{listed} of each group. Weighed by them, the groups are worth {found.effective[0]:,.0f} and "
            f"{found.effective[1]:,.0f} rows (estimates)."
        ),
        "auc": found.auc,
        "eta": list(found.eta),
        "shares": list(SHARES),
        "effective": list(found.effective),
        "calibration_error": found.error,
    }


def _ways_out(played: ZeroPlayed, refuted: bool) -> tuple[str, ...]:
    """What would help where there is no number."""
    if not refuted and not _apart(played):
        return ()
    found = []
    if refuted:
        found.append(
            "A propensity model that knows what the blind attack knows: `propensity.Boosted`, or more held rows."
        )
    if played.revealing:
        names = ", ".join(repr(one.column) for one in played.revealing)
        found.append(
            f"If {names} came about by how the rows were collected, and not by who they are, leave them out; what is "
            "left must then say all there is about membership."
        )
    if refuted:
        found.append("A `log_odds_error` that you answer for gives a bound of its own.")
    return tuple(found)


def restated(bounds: tuple[Bound, ...], observed: Observed, confidence: float) -> tuple[Bound, ...]:
    """The bounds, with a note where nothing tested what they rest on."""
    gate = observed.checks.get("gate")
    return bounds if gate is None or gate["passed"] is not None else untested(bounds)


def untested(bounds: tuple[Bound, ...]) -> tuple[Bound, ...]:
    """The bounds, with the note that no blind attack tried the propensities."""
    return tuple(replace(b, notes=(*b.notes, UNTESTED)) if isinstance(b, LowerBound) else b for b in bounds)


def restated_verdict(verdict: Verdict, observed: Observed, confidence: float) -> Verdict:
    return verdict


def blocked_verdict(observed: Observed, confidence: float, relation: Relation) -> Verdict:
    """No number: an attack without the model does it too."""
    named = observed.checks.get("revealing", {}).get("columns", [])
    columns = f" (see column{'s' if len(named) > 1 else ''} {', '.join(named)})" if named else ""
    sentence = (
        "Blocked: members and non-members can be told apart without the model better than the propensities say"
        f"{columns}, so what the attack finds may not be put down to the model."
    )
    if observed.checks["gate"]["passed"] is not False:
        sentence = (
            f"Blocked: the features tell members from non-members exactly{columns}, so nothing that the attack finds "
            "may be put down to the model."
        )
    return Verdict(outcome=Outcome.BLOCKED, sentence=sentence, confidence=confidence, relation=relation)


def shown_risk(bounds: tuple[Bound, ...], observed: Observed) -> dict[str, Any]:
    """How the bound on epsilon falls if the log-odds are wrong, and by how much they may be before nothing is left."""
    epsilon = next((b for b in bounds if isinstance(b, LowerBound) and b.parameter == "epsilon"), None)
    evidence = observed.evidence
    if epsilon is None or not epsilon.epsilon or not isinstance(evidence, MemberScores):
        return {}
    if evidence.assignment != "given":
        return {}
    how: dict[str, Any] = {"delta": epsilon.delta, "confidence": epsilon.confidence}
    error = observed.checks["overlap"]["log_odds_error"]
    beyond, more = ("", "") if error == 0.0 else (" beyond what is allowed for", " more")
    if error:
        beyond = f" beyond the {error:g} that is allowed for"
    largest = estimators.largest_log_odds_error(evidence, **how)
    curve = estimators.epsilon_by_log_odds_error(evidence, **how)
    words = (
        "The finding that epsilon is above 0 stands as long as no log-odds is wrong by more than "
        f"{round_down(largest)}{beyond}; at {ERRORS[1]:g}{more} epsilon is at least {round_down(curve[1])}, at "
        f"{ERRORS[2]:g}{more} at least {round_down(curve[2])} (each a statement of its own)."
    )
    return {"sensitivity": {"sentence": words, "largest": largest, "errors": list(ERRORS), "epsilon": list(curve)}}
