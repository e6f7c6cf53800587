"""PANORAMIA audits: play, say whether the baseline has learnt all it can, and compare with real non-members if any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit import estimators
from dpaudit._validate import InputError
from dpaudit.auditing._observe import Observed
from dpaudit.auditing.record import Bound
from dpaudit.bounds import ClosenessRegion, Verdict, percent, round_down
from dpaudit.games import Panoramia, PanoramiaOfTable, PanoramiaPlayed

LITTLE = 0.1
"""Less closeness than that on validation rows tells a close generator and a weak baseline not apart."""


@dataclass(frozen=True, kw_only=True)
class Made(Observed):
    """What came of the game, and the closeness that somebody answers for."""

    asserted: float | None = None


def observe(game: Panoramia, *, seed: int, confidence: float, delta: float) -> Made:
    """Play the game; a baseline that still rises is a warning, not a block: c is what the user answers for."""
    played = game.play_all(seed=seed)
    checks = {"baseline": _words(played)}
    asserted = None
    if isinstance(game, PanoramiaOfTable):
        asserted = game.table.closeness
        if game.nonmembers is not None:
            checks["comparisons"] = _comparisons(game, seed=seed, confidence=confidence, delta=delta)
    return Made(
        evidence=played.evidence,
        looks=1,
        blocked=False,
        checks=checks,
        figures={
            "learning": {
                "rows": [rows for rows, _ in played.curve],
                "closeness": [closeness for _, closeness in played.curve],
            }
        },
        asserted=asserted,
    )


def _comparisons(game: PanoramiaOfTable, *, seed: int, confidence: float, delta: float) -> dict[str, Any]:
    """The same model with real non-members (RM;RN), and by its loss alone (O(1)); as many pairs as there are."""
    _, training, audited = game.parts(seed)
    rows = np.concatenate([training, audited])[: len(game.nonmembers)]
    real = replace(game, members=game.members[rows]).with_real(game.nonmembers).play(seed=seed)
    alone = game.one_run(game.nonmembers, seed=seed)
    one_run = estimators.epsilon_from_canaries(alone, delta=delta, confidence=confidence)
    pairs, alone_pairs = int(real.included.size), int(alone.included.size)
    found: dict[str, Any] = {"real_pairs": pairs, "one_run_pairs": alone_pairs}
    try:
        region = estimators.panoramia(real, delta=delta, confidence=confidence, asserted_closeness=0.0)
    except InputError:
        sentence = (
            "The real non-members can be told from the members without the model, so neither they nor the loss alone "
            "bound anything."
        )
        return {"sentence": sentence, **found, "real_epsilon": None, "one_run_epsilon": None}
    epsilon = region.epsilon().epsilon or 0.0
    sentence = (
        f"Real non-members in the place of generated rows showed epsilon >= {round_down(epsilon)} by the same guessers "
        f"({pairs:,} pairs); the loss alone, in the manner of a one-run audit, epsilon >= "
        f"{round_down(one_run.epsilon or 0.0)} ({alone_pairs:,} pairs). Each is a bound of its own at delta {delta:g} "
        f"with {percent(confidence)} confidence, {game.relation} of one record, if these non-members are draws of the "
        "members' law."
    )
    return {"sentence": sentence, **found, "real_epsilon": epsilon, "one_run_epsilon": one_run.epsilon}


def _words(played: PanoramiaPlayed) -> dict[str, Any]:
    listed = ", ".join(f"{closeness:.2f} of {rows:,} rows" for rows, closeness in played.curve)
    found = f"The baseline ({played.chosen[0]}) showed a closeness of {listed} on validation rows (estimates)"
    if played.rising:
        sentence = (
            f"{found}: it still rises, so the difference of attack and baseline over-states what the model leaks."
        )
    elif played.curve[-1][1] < LITTLE:
        sentence = f"{found}, next to nothing: the generator is close to real records, or the baseline is weak."
    else:
        sentence = f"{found}: more rows hardly help it."
    if not played.heard:
        sentence += " The attack is the baseline: what the model says did not help on held rows."
    return {
        "sentence": sentence,
        "rows": [rows for rows, _ in played.curve],
        "closeness": [closeness for _, closeness in played.curve],
        "rising": played.rising,
        "chosen": list(played.chosen),
        "left_out": played.left_out,
    }


def restated(bounds: tuple[Bound, ...], observed: Made, confidence: float) -> tuple[Bound, ...]:
    """With an asserted closeness the whole error probability goes to c + epsilon."""
    if observed.asserted is None:
        return bounds
    try:
        return tuple(
            estimators.panoramia(
                observed.evidence,  # type: ignore[arg-type]  # that of a region
                confidence=confidence,
                delta=bound.delta,
                asserted_closeness=observed.asserted,
            )
            if isinstance(bound, ClosenessRegion)
            else bound
            for bound in bounds
        )
    except InputError as problem:
        raise InputError(problem.sentence.replace("asserted_closeness", "closeness"), problem.hint) from None


def restated_verdict(verdict: Verdict, observed: Made, confidence: float) -> Verdict:
    return verdict


def shown_risk(bounds: tuple[Bound, ...], observed: Made) -> dict[str, Any]:
    """Epsilon for the closeness that somebody answers for."""
    if observed.asserted is None:
        return {}
    (region,) = (bound for bound in bounds if isinstance(bound, ClosenessRegion))
    found = region.epsilon()
    sentence = (
        f"If the generator is {observed.asserted:g}-close, as is asserted, epsilon >= "
        f"{round_down(found.epsilon or 0.0)} at delta {region.delta:g} with {percent(region.confidence)} confidence."
    )
    return {"asserted": {"sentence": sentence, "closeness": observed.asserted, "epsilon": found.epsilon}}
