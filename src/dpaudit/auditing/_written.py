"""What a record writes down of a game, a claim and evidence: plain values."""

from __future__ import annotations

import platform
import time
from dataclasses import fields
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from dpaudit import __version__, planning
from dpaudit._sources import file_digests
from dpaudit.bounds import UpperBound
from dpaudit.evidence import Evidence, MemberScores, OutputCounts, RunScores
from dpaudit.execution import Execution, RunFailed, call_name
from dpaudit.games import (
    MultiRun,
    Observational,
    ObservationalTable,
    OneRun,
    Panoramia,
    PanoramiaOfTable,
    Prediction,
    TrainedRuns,
    ZeroRun,
    ZeroRunTable,
)
from dpaudit.games._coins import hides

PACKAGES = ("numpy", "scipy", "dp-accounting")
ZERO_RUN = ("how", "adversary", "abstain", "held", "cross_fit", "clip", "log_odds_error", "sides")


def plan(game: Any, claim: UpperBound | None, settings: Any, delta: float) -> dict[str, Any]:
    """What was fixed before the data."""
    plan: dict[str, Any] = {
        "game": type(game).__name__,
        "confidence": settings.confidence,
        "delta": delta,
        "headline": "bounds" if claim is None else "verdict on the claim",
        "relation": str(game.relation),
        "unit": getattr(game, "unit_word", game.unit),
    }
    if isinstance(game, MultiRun):
        plan |= {"score": call_name(game.score), "runs": game.runs, "block": game.block}
        plan["detects"] = settings.detects
        if claim is not None and settings.detects is not None:
            plan["catches"] = planning.catches(claim, settings.detects)
        plan["fingerprint"] = game.fingerprint(settings.seed)
        plan["files"] = file_digests(game.files)
    elif isinstance(game, TrainedRuns):
        plan |= {"score": call_name(game.score), "runs": game.runs, "block": game.blocks * game.width}
        plan["recipe"] = {f.name: getattr(game.recipe, f.name) for f in fields(game.recipe)}
        plan["recipe"]["model"] = "linear head" if game.recipe.model is None else _model_words(game.recipe.model)
        plan["at"] = game.recipe.steps if game.at is None else game.at
        plan["fingerprint"] = game.fingerprint(settings.seed)
    elif isinstance(game, Observational | ObservationalTable):
        names = ("attack", "shift", "held_out", "sample")
        plan |= {name: getattr(game, name) for name in names} | {"proxy": _source(game.proxy)}
        plan["target"] = _source(game.target)
        plan["log_ratio"] = None if game.log_ratio is None else float(np.max(game.log_ratio))
        plan["fingerprint"] = game.fingerprint(settings.seed)
        if isinstance(game, ObservationalTable):
            plan |= {"label": game.label, "attribute": game.attribute, "features": game.features, "files": game.digests}
        else:
            plan |= {"rows": len(game.values), "features": list(game.feature_names)}
    elif isinstance(game, Panoramia):
        plan |= {"shares": list(game.shares), "poor": game.poor, "rows": len(game.members)}
        plan["generator"] = type(game.generator).__name__ if game.generated is None else "rows that were given"
        if isinstance(game, PanoramiaOfTable):
            table = game.table
            plan |= {"game": type(table).__name__, "generator": table.generator_words, "target": table.target_words}
            plan |= {"helper": table.helper, "closeness": table.closeness}
            plan |= {} if table.label is None else {"label": table.label}
            plan |= {"features": table.features, "leave_out": list(table.leave_out), "files": table.digests}
        plan["fingerprint"] = game.fingerprint(settings.seed)
    elif isinstance(game, ZeroRun):
        plan |= {name: getattr(game, name) for name in ZERO_RUN}
        plan["propensity"] = game.propensity.words() if hasattr(game.propensity, "words") else "known"
        plan |= {"rows": game.scores.size, "features": list(game.feature_names)}
        plan["fingerprint"] = game.fingerprint(settings.seed)
    elif isinstance(game, ZeroRunTable):
        made = game.game(settings.seed)
        plan |= {name: getattr(made, name) for name in ZERO_RUN}
        plan |= {"propensity": game.propensity_words, "score": game.score_words, "member": game.member}
        plan |= {"rows": made.scores.size, "sample": game.sample}
        plan |= {"features": list(game.features or ()), "leave_out": list(game.leave_out), "files": game.digests}
        plan["fingerprint"] = game.fingerprint(settings.seed)
    elif isinstance(game, Prediction):
        plan |= {name: getattr(game, name) for name in ("classes", "queries", "trials", "independent", "block")}
        plan |= {"answers": call_name(game.answers)}
        plan["fingerprint"] = game.fingerprint(settings.seed)
        plan["files"] = file_digests(game.files)
    elif isinstance(game, OneRun):
        plan |= {"scores": call_name(game.scores), "canaries": game.canaries, "sides": game.sides}
        plan["fingerprint"] = game.fingerprint(settings.seed)
        plan["files"] = file_digests(game.files)
    return plan


def _source(value: Any) -> str:
    """A proxy or target in a plan: what a file names, or the kind of law."""
    return str(value) if isinstance(value, str | list | dict) else type(value).__name__


def _model_words(model: Any) -> str:
    build = getattr(model, "build", None)
    return repr(model) if build is None else f"{type(model).__name__}({call_name(build)})"


def claim(claim: UpperBound, source: str) -> dict[str, Any]:
    label = "every (epsilon, delta) mechanism" if claim.curve is None else type(claim.curve).__name__
    stated = {**claim.to_dict(), "relation": str(claim.relation), "references": list(claim.references)}
    return {**stated, "source": source, "tested_as": label}


def evidence(evidence: Evidence) -> dict[str, Any]:
    sizes: dict[str, int]
    if isinstance(evidence, RunScores):
        sizes = {"present": evidence.present.size, "absent": evidence.absent.size}
    elif isinstance(evidence, OutputCounts):
        sizes = {"queries": evidence.present.shape[0], "present": int(evidence.present.sum())}
    elif isinstance(evidence, MemberScores):
        sizes = {"rows": evidence.scores.size, "members": int(evidence.member.sum())}
    else:
        sizes = {"rows": evidence.included.size, "included": int(evidence.included.sum())}
    return {
        "type": type(evidence).__name__,
        "digest": evidence.digest,
        "relation": str(evidence.relation),
        "unit": evidence.unit,
        "sizes": sizes,
        "conditions": list(evidence.conditions),
    }


def seeds(game: Any, settings: Any) -> dict[str, Any]:
    """The seed and the hash of its coins; without the hash where a table or model fails, which the game then says."""
    try:
        commitment = game.commitment(settings.seed)
    except RunFailed:
        return {"seed": settings.seed}
    return {
        "seed": settings.seed,
        "commitment": commitment,
        "commitment_checked": settings.commitment is not None,
        "commitment_hides": hides(settings.seed),
    }


def versions() -> dict[str, str]:
    found = {"dpaudit": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def timings(began: float, ran: float, execution: Execution) -> dict[str, Any]:
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "game_seconds": round(ran - began, 3),
        "analysis_seconds": round(time.perf_counter() - ran, 3),
        "backend": execution.backend,
        "workers": execution.workers,
    }
