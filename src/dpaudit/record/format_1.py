"""Records of format 1: sentences where there are ids now. They are read as they are, and print as they did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dpaudit.assumptions import Check, CheckResult, filled, literal
from dpaudit.bounds import Bound, LowerBound, Outcome, PanoramiaRegion, RenyiBound, Verdict, relation
from dpaudit.evidence.format_1 import assumption_of
from dpaudit.record.values import number

KINDS: dict[str, Any] = {"LowerBound": LowerBound, "RenyiBound": RenyiBound, "ClosenessRegion": PanoramiaRegion}
NUMBERS = ("epsilon", "mu", "theta", "ceiling", "total", "closeness", "asserted", "divergences", "orders")
RENAMED = {"closeness": "divergence", "closeness_slack": "divergence_slack"}
OUTCOMES = {"blocked": Outcome.WITHHELD}
CHECKS = {
    "gate": "blind-values",
    "proxy": "calibration",
    "shift": "tau",
    "revealing": "leaking-features",
}
"""Names of checks that have others now; the gate of given members is told by the plan."""
NUMBERS_OF_CHECKS = {
    "blank_log_loss": "blank",
    "closeness": "divergence",
    "gain_estimate": "gain",
}
GIVEN_MEMBERS = "ZeroRun"
PASSED = {True: "passed", False: "refuted", None: "not-run"}
TITLE = "{name}, {relation} of one {unit}"
CONDITION = "fail if {condition}: {answer}"
CLAIM = "{mu}epsilon <= {epsilon:up} at delta {delta:g}   claimed: {method}{source}, {relation} of one {unit}"
CLAIMED_MU = "mu <= {mu:up}, "
CLAIM_SOURCE = " ({source})"
HEADLINE = "{numbers}   {level}, {relation} of one {unit}"
CONFIDENT = "{confidence:percent} confidence"
ESTIMATE = "an estimate, not a bound"
ON_MU = "mu {sign} {mu:down}"
ON_THETA = "{parameter} {sign} {theta:down} in its family"
ON_EPSILON = "epsilon {sign} {epsilon:down} at delta {delta:g}"
OF_ORDER = "D_{order:g} {sign} {value:down6}"
IF = "if {assumption}"
NOTE = "note: {note}"
CAPPED = "the search ended here: the evidence supports at least this much."
REACH = "an audit of this size could have shown {parameter} up to about {ceiling:down}."
REGION = "{total}   {confidence:percent} confidence, {relation} of one {unit}, delta {delta:g}"
TOTAL = "c + epsilon >= {total:down}"
TOGETHER = "c >= {closeness:down} and {total} together"
LESS_C = "epsilon >= {total:down} - c, c being how close the generator is to real {unit}s{half}"
HALF = "; half under add-remove"
DIFFERENCE = "estimate, not a bound: epsilon about {value:down}"
IF_CLOSE = (
    "epsilon >= {epsilon:down} at delta {delta:g}   {confidence:percent} confidence, {relation} of one {unit}, "
    "if the generator is {asserted:g}-close"
)
"""What a record of format 1 printed: it stays so, whatever new records say."""
HISTOGRAMS = {
    "RunScores": (("runs with the record", "runs without it"), "share of runs"),
    "CanaryScores": (("included", "left out"), "share of rows"),
    "MemberScores": (("members", "non-members"), "share of rows"),
}
"""What the groups of a histogram were called, and its axis, by the evidence."""
SAME = ("name", "note", "plan", "fail_if", "failed_if", "seeds", "versions", "timings")


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an audit, from a record of format 1."""
    bounds = tuple(_bound(entry) for entry in values["bounds"])
    verdict = _verdict(values["verdict"])
    rests = (*(one for bound in bounds for one in bound.assumptions), *verdict.assumptions, *verdict.accepted)
    claim = values["claim"]
    if claim is not None:
        claim = {name: number(value) if name in ("epsilon", "mu") else value for name, value in claim.items()}
    given = str(values["plan"]["game"]).startswith(GIVEN_MEMBERS)
    checks = tuple(_check(name, entry, given) for name, entry in values.get("checks", {}).items())
    next_steps = tuple(_said(f"next-{number}", text) for number, text in enumerate(values["changes"], 1))
    return {
        **{name: values[name] for name in SAME},
        "plan": {"attempts": 1, "fingerprint": "", **values["plan"]},
        "budget": tuple(values["budget"]),
        "simultaneous_confidence": values["together"],
        "claim": claim,
        "accept": tuple(assumption_of(text).key for text in values["accept"]),
        "evidence": () if values["evidence"] is None else (values["evidence"],),
        "assumptions": tuple(dict.fromkeys(rests)),
        "checks": checks,
        "bounds": bounds,
        "verdict": verdict,
        "ceiling": {name: number(value) for name, value in values["ceiling"].items()},
        "next_steps": next_steps,
        "figures": _figures(values),
        "text": _text(values, claim),
    }


def _bound(entry: Mapping[str, Any]) -> Bound:
    extra = ("type", "difference_estimate")
    own = {RENAMED.get(name, name): number(v) if name in NUMBERS else v for name, v in entry.items()}
    own = {name: value for name, value in own.items() if name not in extra}
    own["assumptions"] = [assumption_of(text) for text in entry["assumptions"]]
    found: Bound = KINDS[entry["type"]].from_dict(own)
    return found


def _verdict(entry: Mapping[str, Any]) -> Verdict:
    own = {name: value for name, value in entry.items() if name != "sentence"}
    own |= {name: tuple(assumption_of(text) for text in entry[name]) for name in ("assumptions", "accepted")}
    own["outcome"] = OUTCOMES.get(entry["outcome"]) or Outcome(entry["outcome"])
    return Verdict(**{**own, "relation": relation(entry["relation"])}, written=entry["sentence"])


def _check(name: str, entry: Mapping[str, Any], given: bool) -> CheckResult:
    known = "blind-members" if given and name == "gate" else CHECKS.get(name, name)
    outcome = PASSED[entry["passed"]] if "passed" in entry else "measured"
    kept = {key: value for key, value in entry.items() if key not in ("sentence", "passed")}
    numbers = {NUMBERS_OF_CHECKS.get(key, key): value for key, value in kept.items()}
    if "effective" in numbers:
        numbers["members"], numbers["others"] = numbers["effective"]
    seen = entry.get("p_values") or [None]
    said = {outcome.replace("-", "_"): literal(entry["sentence"])}
    check = Check(id=_slug(known), level=entry.get("level"), **said)
    return CheckResult(check=check, outcome=outcome, p_value=seen[-1], numbers=numbers)


def _said(name: str, text: str) -> CheckResult:
    return CheckResult(check=Check(id=name, measured=literal(text)), outcome="measured")


def _slug(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower())) or "check"


def _figures(values: Mapping[str, Any]) -> dict[str, Any]:
    """The figures, the histogram with the words that told its groups apart."""
    found = {name: _renamed(figure) for name, figure in values["figures"].items()}
    if "histogram" in found:
        groups, axis = HISTOGRAMS[values["evidence"]["type"]]
        found["histogram"] |= {"present_label": groups[0], "absent_label": groups[1], "axis": axis}
    return found


def _renamed(figure: Any) -> Any:
    if not isinstance(figure, dict):
        return figure
    return {RENAMED.get(name, name): value for name, value in figure.items()}


def _text(values: Mapping[str, Any], claim: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the version that wrote it printed."""
    seen = values["evidence"]
    title = values["name"] if seen is None else filled(TITLE, {**seen, "name": values["name"]})
    told = [_bound_text(entry) for entry in values["bounds"]]
    lines = [line for inside, _ in told for line in inside]
    if claim is not None:
        lines.append(_claim_line(claim))
    if values["fail_if"] is not None:
        says = {None: "cannot say", True: "yes", False: "no"}[values["failed_if"]]
        lines.append(filled(CONDITION, {"condition": values["fail_if"], "answer": says}))
    checks = [entry["sentence"] for entry in values.get("checks", {}).values()]
    sentence = values["verdict"]["sentence"]
    return {
        "title": title,
        "lines": [title, *(f"  {line}" for line in lines), *checks, sentence, *values["changes"]],
        "verdict": sentence,
        "bounds": [alone for _, alone in told],
        "claim": "" if claim is None else _claim_line(claim),
        "condition": "",
        "comparisons": [],
        "assumptions": [],
        "checks": checks,
        "next_steps": list(values["changes"]),
    }


def _bound_text(entry: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """A bound among the lines of its record, and by itself."""
    own = {name: number(value) if name in NUMBERS else value for name, value in entry.items()}
    if entry["type"] == "ClosenessRegion":
        return _region_text(own)
    estimated = own["guarantee"] == "estimate"
    own["level"] = filled(ESTIMATE if estimated else CONFIDENT, own)
    own["sign"] = "about" if estimated else ">="
    own["numbers"] = ", ".join(_divergences(own) if "orders" in own else _numbers(own))
    head = filled(HEADLINE, own)
    remarks = ["; ".join(part for part in (own.get("size"), own["method"], own["selection"]) if part)]
    remarks += [filled(IF, {"assumption": one}) for one in own["assumptions"]]
    remarks += [filled(NOTE, {"note": note}) for note in own.get("notes", ())]
    if own.get("capped"):
        remarks.append(CAPPED)
    elif own.get("ceiling") is not None:
        remarks.append(filled(REACH, own))
    return [", if ".join([head, *own["assumptions"]])], [head, *_indented(remarks)]


def _numbers(own: Mapping[str, Any]) -> list[str]:
    found = []
    if own["mu"] is not None:
        found.append(filled(ON_MU, own))
    elif own["theta"] is not None and (own["parameter"] != "epsilon" or own["epsilon"] is None):
        found.append(filled(ON_THETA, own))
    return [*found, filled(ON_EPSILON, own)] if own["epsilon"] is not None else found


def _divergences(own: Mapping[str, Any]) -> list[str]:
    pairs = zip(own["orders"], own["divergences"], strict=True)
    return [filled(OF_ORDER, {"order": order, "value": value, "sign": own["sign"]}) for order, value in pairs]


def _region_text(own: dict[str, Any]) -> tuple[list[str], list[str]]:
    """PANORAMIA's statement, whose generator was said to be close then, and not far."""
    asserted = own["asserted"]
    half = HALF if own["delta"] == 0.0 and own["closeness_slack"] == 0.0 else ""
    difference = max(0.0, own["total"] - own["closeness"])
    reading = [filled(LESS_C, {**own, "half": half}), filled(DIFFERENCE, {"value": difference})]
    total = filled(TOTAL, own)
    if asserted is None:
        total = filled(TOGETHER, {**own, "total": total})
    head = filled(REGION, {**own, "total": total})
    remarks = [f"{own['size']}; {own['selection']}", *reading]
    remarks += [filled(IF, {"assumption": one}) for one in own["assumptions"]]
    if asserted is not None:
        remarks.append(filled(IF_CLOSE, {**own, "epsilon": max(0.0, own["total"] - asserted)}))
    return [", if ".join([head, *own["assumptions"]]), *_indented(reading)], [head, *_indented(remarks)]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _claim_line(claim: Mapping[str, Any]) -> str:
    mu = "" if claim.get("mu") is None else filled(CLAIMED_MU, claim)
    source = filled(CLAIM_SOURCE, claim) if claim.get("source") else ""
    return filled(CLAIM, {**claim, "mu": mu, "source": source})


__all__ = ["fields_of"]
