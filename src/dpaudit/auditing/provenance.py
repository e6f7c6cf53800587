"""Where a record comes from: plan, claim, evidence, seeds, versions and timings, as plain values."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from dpaudit import __version__
from dpaudit.auditing import power
from dpaudit.bounds import UpperBound
from dpaudit.evidence import Evidence
from dpaudit.execution import Execution, RunFailed
from dpaudit.execution import fingerprint as described
from dpaudit.games import Game, commitment, evidences_of, fingerprint, hides, repeats_of

PACKAGES = ("numpy", "scipy", "dp-accounting")


def not_made(planned: Any, claim: UpperBound | None, settings: Any, delta: float) -> dict[str, Any]:
    """What is known of a game that could not be made."""
    told = described([planned.kind, planned.keywords, settings.seed])
    return {**_common(planned, claim, settings, delta), "attempts": 1, "fingerprint": told}


def _common(game: Any, claim: UpperBound | None, settings: Any, delta: float) -> dict[str, Any]:
    return {
        "game": game.kind,
        "confidence": settings.confidence,
        "delta": delta,
        "headline": "bounds" if claim is None else "verdict on the claim",
        "relation": str(game.relation),
        "unit": game.unit,
    }


def plan(game: Game, claim: UpperBound | None, settings: Any, delta: float) -> dict[str, Any]:
    """What was fixed before the data."""
    found = {**_common(game, claim, settings, delta), "attempts": game.attempts, "evidences": evidences_of(game)}
    if repeats_of(game) > 1:
        found["repeats"] = repeats_of(game)
    if settings.detects is not None:
        found["detects"] = settings.detects
        if claim is not None:
            found["catches"] = power.catches(claim, settings.detects)
    fixed = game.plan(settings.seed)
    return {**fixed, **found, "fingerprint": fingerprint(game, settings.seed, fixed)}


def claim(claim: UpperBound, source: str) -> dict[str, Any]:
    """What is promised, and as what it was tested."""
    label = "every (epsilon, delta) mechanism" if claim.curve is None else type(claim.curve).__name__
    stated = {**claim.to_dict(), "relation": str(claim.relation), "references": list(claim.references)}
    return {**stated, "source": source, "tested_as": label}


def evidence(seen: Evidence) -> dict[str, Any]:
    """What was seen, without a single row of it."""
    return {
        "type": type(seen).__name__,
        "digest": seen.digest,
        "relation": str(seen.relation),
        "unit": seen.unit,
        "sizes": seen.sizes,
        "conditions": [one.key for one in seen.conditions],
    }


def seeds(game: Game, settings: Any) -> dict[str, Any]:
    """The seed and the hash of its coins; without the hash where a table or model fails, which the game then says."""
    if not game.purpose:
        return {"seed": getattr(game, "seed", settings.seed)}
    try:
        published = commitment(game, settings.seed)
    except RunFailed:
        return {"seed": settings.seed}
    return {
        "seed": settings.seed,
        "commitment": published,
        "commitment_checked": settings.commitment is not None,
        "commitment_hides": hides(settings.seed),
    }


def versions() -> dict[str, str]:
    """Of this package and those that decide its numbers."""
    found = {"dpaudit": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def timings(began: float, ran: float, execution: Execution) -> dict[str, Any]:
    """How long it took, where."""
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "game_seconds": round(ran - began, 3),
        "analysis_seconds": round(time.perf_counter() - ran, 3),
        "backend": execution.backend,
        "workers": execution.workers,
    }
