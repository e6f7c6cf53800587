"""PANORAMIA audits: play, and say whether the baseline has learnt all it can."""

from __future__ import annotations

from typing import Any

from dpaudit.auditing._observe import Observed
from dpaudit.auditing.record import Bound
from dpaudit.bounds import Verdict
from dpaudit.games import Panoramia, PanoramiaPlayed


def observe(game: Panoramia, *, seed: int, confidence: float, delta: float) -> Observed:
    """Play the game; a baseline that still rises is a warning, not a block: c is what the user answers for."""
    played = game.play_all(seed=seed)
    return Observed(
        evidence=played.evidence,
        looks=1,
        blocked=False,
        checks={"baseline": _words(played)},
        figures={
            "learning": {
                "rows": [rows for rows, _ in played.curve],
                "closeness": [closeness for _, closeness in played.curve],
            }
        },
    )


def _words(played: PanoramiaPlayed) -> dict[str, Any]:
    listed = ", ".join(f"{closeness:.2f} of {rows:,} rows" for rows, closeness in played.curve)
    found = f"The baseline ({played.chosen[0]}) showed a closeness of {listed} on validation rows (estimates)"
    if played.rising:
        sentence = (
            f"{found}: it still rises, so the difference of attack and baseline over-states what the model leaks."
        )
    else:
        sentence = f"{found}: more rows hardly help it."
    return {
        "sentence": sentence,
        "rows": [rows for rows, _ in played.curve],
        "closeness": [closeness for _, closeness in played.curve],
        "rising": played.rising,
        "chosen": list(played.chosen),
        "left_out": played.left_out,
    }


def restated(bounds: tuple[Bound, ...], observed: Observed, confidence: float) -> tuple[Bound, ...]:
    return bounds


def restated_verdict(verdict: Verdict, observed: Observed, confidence: float) -> Verdict:
    return verdict


def shown_risk(bounds: tuple[Bound, ...], observed: Observed) -> dict[str, Any]:
    return {}
