"""What is frozen of an audit, in names that belong to no class or field of the library.

This file alone knows how the library stores a result. A refactor adapts what is read here, on the right-hand side; the
names on the left, and with them the committed JSON, stay. No sentence, digest or class name is frozen: these may
change, numbers and arrays may not. Real numbers are written by `float.hex`, arrays by the SHA-256 of their bytes.
"""

import hashlib

import numpy as np

from dpaudit.record import Audits

ARRAYS = ("present", "absent", "scores", "included", "member", "propensity", "baseline", "attack", "ids", "group")
ARRAYS += ("chance", "right", "audited", "own")
"""Of evidence; None where a type has no such array, or none was given."""
OUTCOMES = {"assumption refuted": "withheld"}
"""Words of a verdict that are to get another name."""
CHECKS = {
    "control notices from": ("blind-values", "notices"),
    "counterfactual calibration error": ("calibration", "calibration_error"),
    "counterfactual log-loss": ("calibration", "log_loss"),
    "counterfactual log-loss, blank": ("calibration", "blank"),
    "shift at least": ("needed", "tau"),
    "epsilon at that shift": ("needed", "epsilon"),
    "shift": ("tau", "tau"),
    "largest shift": ("tau", "tau_max"),
    "log-ratio": ("log-ratio-assumed", "log_ratio"),
    "chosen guesses": ("risk", "guesses"),
    "chosen correct": ("risk", "correct"),
    "chosen of units": ("risk", "units"),
    "sample gain": ("sample", "gain"),
    "overlap auc": ("overlap", "auc"),
    "overlap margins": ("overlap", "eta"),
    "overlap shares": ("overlap", "shares"),
    "overlap calibration error": ("overlap", "calibration_error"),
    "log-odds error allowed": ("overlap", "log_odds_error"),
    "log-odds error, largest": ("sensitivity", "largest"),
    "log-odds errors tried": ("sensitivity", "errors"),
    "epsilon by log-odds error": ("sensitivity", "epsilon"),
    "baseline rows": ("baseline", "rows"),
    "baseline divergence": ("baseline", "divergence"),
    "baseline still rises": ("baseline", "rising"),
    "generated rows left out": ("baseline", "left_out"),
    "asserted divergence": ("asserted", "divergence"),
    "epsilon if asserted": ("asserted", "epsilon"),
    "right, trained on": ("recognition", "trained"),
    "right, never seen": ("recognition", "alone"),
    "right, trained on, surest": ("recognition", "trained_surest"),
    "right, never seen, surest": ("recognition", "alone_surest"),
    "copies of training rows": ("repeated-rows", "copies"),
    "rows of units in both tables": ("units-in-both", "left_out"),
    "dependence of rows": ("rows-hang-together", "inflation"),
    "leaks planted, p-values": ("planted-leak", "p_values"),
    "epsilon beside rows never seen": ("two-bounds", "matched"),
    "epsilon against the proxy": ("two-bounds", "proxy"),
    "epsilon, were the proxy right": ("if-proxy-right", "epsilon"),
    "epsilon by recognition": ("two-bounds", "epsilon_by_kappa"),
    "epsilon by error of the proxy": ("two-bounds", "epsilon_by_tau"),
}
"""Neutral name of a number beside the bounds: where a record has it."""


def number(value):
    """A number that survives JSON exactly; counts, flags and None as they are."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value).hex()


def numbers(value):
    """One number or several, as a flat list."""
    return [number(entry) for entry in np.ravel(np.asarray(value, dtype=object)).tolist()]


def array(values):
    """Shape and hash of an array, of texts by their characters; of real numbers also the sum of their sizes."""
    found = np.asarray(values)
    kind = {"b": "u1", "i": "<i8", "u": "<i8", "f": "<f8"}.get(found.dtype.kind)
    raw = "\n".join(map(str, found.tolist())).encode() if kind is None else found.astype(kind).tobytes()
    hashed = {"shape": list(found.shape), "sha256": hashlib.sha256(raw).hexdigest()}
    return hashed | {"sum": number(np.abs(found).sum())} if kind == "<f8" else hashed


def listed(assumptions):
    """How many are listed; with a bound on the log-ratio, one-row-per-unit was listed twice then."""
    ids = [one.id for one in assumptions]
    return len(ids) + ("log-ratio" in ids and "one-row-per-unit" in ids)


def evidence(found):
    """Every array that was seen, and what it is evidence of."""
    if found is None:
        return None
    arrays = {name: getattr(found, name, None) for name in ARRAYS}
    return {
        "arrays": {name: array(values) for name, values in arrays.items() if values is not None},
        "relation": str(found.relation),
        "unit": found.unit,
        "sides": getattr(found, "sides", None),
        "shift": number(getattr(found, "shift", None)),
        "assumptions": listed(found.conditions),
    }


def _asserts(found):
    """A region did not list the divergence that it rests on; the bound on epsilon did."""
    return hasattr(found, "total") and any(one.id == "generator-divergence" for one in found.assumptions)


def bound(found):
    """A bound, a region of two numbers, or divergences of several orders."""
    common = {"confidence": number(found.confidence), "relation": str(found.relation), "unit": found.unit}
    common["assumptions"] = listed(found.assumptions) - _asserts(found)
    if hasattr(found, "orders"):
        return common | {
            "parameter": "divergences",
            "orders": numbers(found.orders),
            "divergences": numbers(found.divergences),
            "guarantee": found.guarantee,
        }
    if hasattr(found, "total"):
        return common | {
            "parameter": "divergence and divergence + epsilon",
            "divergence": number(found.divergence),
            "total": number(found.total),
            "asserted": number(found.asserted),
            "delta": number(found.delta),
            "slack": number(found.divergence_slack),
            "ceiling": number(found.ceiling),
        }
    names = ("value", "epsilon", "mu", "delta", "ceiling", "guesses", "correct", "simultaneous", "capped")
    shown = {name: number(getattr(found, name)) for name in names}
    tested = None if found.test is None else [number(found.p_value(theta)) for theta in (0.5, 1.0)]
    return common | shown | {"parameter": found.parameter, "guarantee": found.guarantee, "p-values at 0.5, 1": tested}


CONTROLS = ("blind-values", "blind-members")
LEVEL = [(1.0 - 0.95).hex()]
"""Of a control, as it was computed then; it is written 0.05 now."""


def verdict(found):
    return {
        "outcome": OUTCOMES.get(str(found.outcome), str(found.outcome)),
        "p-value": number(found.p_value),
        "confidence": number(found.confidence),
        "relation": str(found.relation),
        "assumptions left": listed(found.assumptions),
        "assumptions accepted": len(found.accepted),
    }


def controls(audit):
    """p-values of attacks that never saw the model, and whether they refute what the number rests on."""
    seen = [one for one in audit.checks if one.check.id in CONTROLS]
    if not seen:
        return None
    outcome = seen[-1].outcome
    return {
        "refuted": None if outcome == "not-run" else outcome == "refuted",
        "p-values": sorted(number(one.p_value) for one in seen if one.p_value is not None),
    }


def beside(audit):
    """Every number that was measured beside the bounds."""
    found = {}
    for name, (check, key) in CHECKS.items():
        result = audit.result(check)
        if result is not None and result.numbers.get(key) is not None:
            found[name] = numbers(result.numbers[key])
    return found | _tests(audit) | _attempts(audit) | _overlap(audit) | _comparisons(audit) | _columns(audit)


TESTS = {
    "rows-hang-together": "p-value, dependence of rows",
    "redrawn-values": "p-value, values drawn anew",
    "proxy-on-placebo": "p-value, the proxy on rows never seen",
}


def _tests(audit):
    """p-values of what may refute guesses beside rows that the model never saw; None where one was not run."""
    seen = {result.check.id: result for result in audit.checks if result.check.id in TESTS}
    return {TESTS[name]: numbers(result.p_value) for name, result in seen.items()}


def _attempts(audit):
    """Attempts of an audit whose counterfactual values were put to a blind attack."""
    seen = [one for one in audit.checks if one.check.id == "blind-values"]
    if "attempts" not in audit.plan:  # a record of format 1
        return {}
    if not seen:
        result = audit.result("blind-members")
        return {} if result is None or result.outcome == "not-run" else {"control level": LEVEL}
    return {"attempts planned": [audit.plan["attempts"]], "attempts made": [len(seen)], "control level": LEVEL}


def _overlap(audit):
    result = audit.result("overlap")
    return {} if result is None else {
        "overlap effective rows": numbers([result.numbers["members"], result.numbers["others"]])
    }  # fmt: skip


def _comparisons(audit):
    """The same system by other designs: pairs, and epsilon unless the real non-members were told apart."""
    found = {}
    for entry in audit.comparisons:
        word = {"with-real": "real", "alone": "one-run", "label": "label"}[entry["id"]]
        found[f"comparison, {word} pairs"] = numbers(entry["sizes"]["rows"])
        found[f"comparison, {word} epsilon"] = numbers(entry["bound"].epsilon)
    return found


def _columns(audit):
    """Columns that give the answer away, and how far."""
    found = {}
    leaking, leaking_features = audit.result("leaking-features"), audit.result("giveaways")
    if leaking is not None:
        found["leaking columns"] = list(leaking.numbers["names"])
    if leaking_features is not None:
        found["leaking features"] = numbers([one["z"] for one in leaking_features.numbers["columns"]])
    return found


def drawn(audit):
    """Hash of all numbers of the figures, in the order of their size: no name of a figure matters."""
    listed = sorted(_leaves(audit.figures), key=float)
    return {"count": len(listed), "bits": array(np.array(listed, dtype=np.float64))["sha256"]}


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for entry in value for leaf in _leaves(entry)]
    return [] if isinstance(value, str) or value is None else [value]


def audit(found, coins=None):
    """Everything that is frozen of one audit; `coins` are those of its game."""
    return {
        "coins": None if coins is None else array(coins),
        "commitment": found.seeds.get("commitment"),
        "evidence": evidence(found.observed[0] if found.observed else None),
        "bounds": [bound(one) for one in found.bounds],
        "verdict": verdict(found.verdict),
        "controls": controls(found),
        "beside": beside(found),
        "figures": drawn(found),
        "budget": sorted(number(share["error"]) for share in found.budget),
        "simultaneous confidence": number(found.simultaneous_confidence),
        "ceiling": {name: number(value) for name, value in found.ceiling.items()},
        "fails if": found.failed_if,
        "planned runs": found.plan.get("runs"),
        "exit code": Audits((found,)).exit_code(),
    }


def challenge(found):
    """A challenge of a published record."""
    return {
        "refuted": found.refuted,
        "p-value": number(found.p_value),
        "level": number(found.level),
        "rows": found.rows,
        "members": found.members,
        "error refuted": number(found.refuted_error),
        "error allowed": number(found.allowed_error),
        "published": [bound(one) for one in found.published],
        "if the challenger is right": [bound(one) for one in found.under_challenger],
        "at best": [bound(one) for one in found.at_best],
        "exit code": found.exit_code,
    }
