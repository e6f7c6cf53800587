"""Every sentence of a record, made once, when the record is: what a terminal prints and a page shows.

Templates stand beside what they describe, as constants, and a value fills its own by `assumptions.filled`; here they
are put in order. Assumptions are listed once and numbered, with who answers for each and what tried to refute it;
bounds, the verdict and the next steps refer to the numbers: `epsilon >= 1.89 [1-6]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, CheckResult, filled, round_down
from dpaudit.bounds import Bound, Outcome
from dpaudit.record import Audit, as_audits, printable

TITLE = "{name}, {relation} of one {unit}"
CLAIM = "{mu}epsilon <= {epsilon:up} at delta {delta:g}   claimed: {method}{source}, {relation} of one {unit}"
CLAIMED_MU = "mu <= {mu:up}, "
CLAIM_SOURCE = " ({source})"
CONDITION = "fail if {condition}: {answer}"
CONDITIONS = {None: "cannot say", True: "yes", False: "no"}
COMPARED = "{title} >= {epsilon:down} ({sizes}), a bound of its own with {confidence:percent} confidence [{numbers}]"
ASSUMPTION = "[{number}] {sentence}. {who}; {tested}"
ACCEPTED = "[{number}] {sentence} (accepted). {who}; {tested}"
ANSWERS = {
    "design": "The design of the game answers for it",
    "auditor": "The auditor answers for it",
    "data holder": "The data holder answers for it",
    "developer": "The developer answers for it",
}
TESTED = "{outcomes}."
NOT_TESTABLE = "nothing in this evidence can test it."
NOT_TESTED = "no check of this audit tested it."
TRIED = {
    "passed": "a control passed, which proves nothing",
    "refuted": "a control refuted it",
    "not-run": "its control was not tried",
}
"""By the outcome of a check; one that only measured something tried to refute nothing."""
ANOTHER = "and another one was not tried"
REPEATED = "recalibration"
"""The check that stands, measured, before the results of each further attempt."""
ASSUMES = "Assumptions:"
PROOF = "Proof: {theory} in the documentation."
DECIDING = {Outcome.WITHHELD: "withhold", Outcome.BROKEN: "fail"}
"""Outcomes whose sentence is that of a check, by what follows where the check refutes."""


def written(audit: Audit) -> Audit:
    """The record with its sentences."""
    told = _said_by_verdict(audit)
    bounds = [[_with_numbers(bound, audit.assumptions), *bound.reading] for bound in audit.bounds]
    parts: dict[str, Any] = {
        "title": _title(audit),
        "verdict": audit.verdict.by_numbers(lambda found: numbers_of(found, audit.assumptions)),
        "bounds": bounds,
        "claim": "" if audit.claim is None else _claim(audit.claim),
        "condition": _condition(audit),
        "comparisons": [_comparison(entry, audit.assumptions) for entry in audit.comparisons],
        "checks": [result.text for result in audit.checks if result.text and result is not told],
        "assumptions": [_assumption(number, one, audit) for number, one in enumerate(audit.assumptions, 1)],
        "next_steps": [step.text for step in audit.next_steps],
    }
    return audit.with_text({**parts, "lines": _lines(parts, _proof(audit))})


def _lines(parts: dict[str, Any], proof: list[str]) -> list[str]:
    """What a terminal prints: the numbers, what was found, what it rests on, its theorems, what would change it."""
    stated = [line for lines in parts["bounds"] for line in (lines[0], *(f"  {text}" for text in lines[1:]))]
    stated += [text for text in (parts["claim"], parts["condition"]) if text]
    assumed = [ASSUMES, *(f"  {text}" for text in parts["assumptions"])] if parts["assumptions"] else []
    return [
        parts["title"],
        *(f"  {line}" for line in stated),
        *parts["comparisons"],
        parts["verdict"],
        *parts["checks"],
        *assumed,
        *proof,
        *parts["next_steps"],
    ]


def _proof(audit: Audit) -> list[str]:
    """Where the theorems of all bounds are proved, each named once."""
    bounds = [*audit.bounds, *(entry["bound"] for entry in audit.comparisons)]
    found = dict.fromkeys(bound.theory for bound in bounds if bound.theory)
    return [filled(PROOF, {"theory": ", ".join(found)})] if found else []


def _said_by_verdict(audit: Audit) -> CheckResult | None:
    """The result that the verdict says already: the first that withholds the number, or breaks the audit."""
    follows, told = DECIDING.get(audit.outcome), (audit.verdict.detail, audit.verdict.numbers)
    found = (
        one
        for one in _of_last_attempt(audit.checks)
        if (one.refuted and one.check.on_refuted == follows) or (one.missing and (one.clause, one.fields) == told)
    )
    return next(found, None)


def _title(audit: Audit) -> str:
    if not audit.evidence:
        return audit.name
    seen = audit.evidence[0]
    return filled(TITLE, {"name": audit.name, "relation": seen["relation"], "unit": seen["unit"]})


def _with_numbers(bound: Bound, listed: Sequence[Assumption]) -> str:
    found = numbers_of(bound.assumptions, listed)
    return f"{bound.headline()} [{found}]" if found else bound.headline()


def numbers_of(assumptions: Iterable[Assumption], listed: Sequence[Assumption]) -> str:
    """Where assumptions stand in the list, with neighbours drawn together: "1-3, 5"."""
    places = sorted({listed.index(one) + 1 for one in assumptions if one in listed})
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _claim(claim: dict[str, Any]) -> str:
    mu = "" if claim.get("mu") is None else filled(CLAIMED_MU, claim)
    source = filled(CLAIM_SOURCE, claim) if claim.get("source") else ""
    return filled(CLAIM, {**claim, "mu": mu, "source": source})


def _condition(audit: Audit) -> str:
    if audit.fail_if is None:
        return ""
    return filled(CONDITION, {"condition": audit.fail_if, "answer": CONDITIONS[audit.failed_if]})


def _comparison(entry: dict[str, Any], listed: Sequence[Assumption]) -> str:
    bound = entry["bound"]
    values = {
        "title": entry["title"],
        "epsilon": bound.value,
        "sizes": ", ".join(f"{count:,} {name}" for name, count in entry["sizes"].items()),
        "confidence": bound.confidence,
        "numbers": numbers_of(bound.assumptions, listed),
    }
    return filled(COMPARED, values)


def _assumption(number: int, one: Assumption, audit: Audit) -> str:
    """One line of the list: what is assumed, who answers for it, and what tried to refute it."""
    shown = {"number": number, "sentence": str(one), "who": ANSWERS[one.answered_by]}
    shown["tested"] = _tested(one, audit.checks)
    return filled(ACCEPTED if one.key in audit.accept else ASSUMPTION, shown)


def _tested(one: Assumption, results: Sequence[CheckResult]) -> str:
    if not one.tested_by:
        return NOT_TESTABLE
    of_it = [result for result in _of_last_attempt(results) if result.check.id in one.tested_by]
    found = [result for result in of_it if result.outcome in TRIED]
    if not found:
        return NOT_TESTED
    told = dict.fromkeys(TRIED[result.outcome] for result in found if result.outcome != "not-run")
    missing = [ANOTHER if told else TRIED["not-run"]] if any(result.outcome == "not-run" for result in found) else []
    return filled(TESTED, {"outcomes": ", ".join([*told, *missing])})


def _of_last_attempt(results: Sequence[CheckResult]) -> Sequence[CheckResult]:
    """Those of the attempt that is reported: what was refuted before was what has been recalibrated since."""
    begins = [place for place, one in enumerate(results, 1) if one.check.id == REPEATED and one.outcome == "measured"]
    return results[begins[-1] :] if begins else results


HEADINGS = ("mechanism", "relation", "lower bound", "claim", "ceiling", "verdict")
WORDS = {
    Outcome.CONTRADICTED: "contradicted",
    Outcome.CONTRADICTED_IF: "contradicted under assumptions",
    Outcome.CONSISTENT: "consistent with the claim",
    Outcome.UNINFORMATIVE: "too small to tell",
    Outcome.NOT_COMPARABLE: "not comparable: the claim is about something else",
    Outcome.NO_CLAIM: "no claim to judge",
    Outcome.FAILED: "failed",
    Outcome.WITHHELD: "withheld: an assumption is refuted",
    Outcome.BROKEN: "a premise is broken",
}
NO_TEST = "no test of this claim"
NOT_CHECKED = "no number: a check could not be run"
CLOSING = "{count} audit{plural}: {outcomes}."
TOGETHER = "{closing} All contradictions together are right with at least {confidence:percent} confidence."
EPSILON_CLAIMED = "{mu}epsilon <= {epsilon:up}{at}{where}"
AT_DELTA = " at {delta:g}"
ELSEWHERE = " ({relation})"
"""Beside a claim that is about another adjacency than the evidence."""


def summary_rows(audits: Audit | Iterable[Audit]) -> list[tuple[str, ...]]:
    """One row an audit, as texts, in the order of `HEADINGS`."""
    return [
        (
            audit.name,
            _relation(audit),
            lower_words(audit),
            claim_words(audit),
            ceiling_words(audit),
            verdict_words(audit),
        )
        for audit in as_audits(audits)
    ]


def summary_text(audits: Audit | Iterable[Audit]) -> str:
    """The rows as aligned text, and a closing count."""
    found = as_audits(audits)
    rows = [HEADINGS, *summary_rows(found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return printable("\n".join([*lines, "", closing(found)]))


def closing(audits: Audit | Iterable[Audit]) -> str:
    """How many audits ended how, and how sure one may be of all of them at once."""
    found = as_audits(audits)
    words = [verdict_words(audit) for audit in found]
    order = [*WORDS.values(), NO_TEST, NOT_CHECKED]
    listed = ", ".join(f"{words.count(word)} {word}" for word in order if word in words)
    plural = "s" if len(found) > 1 else ""
    total = filled(CLOSING, {"count": len(found), "plural": plural, "outcomes": listed})
    if found.simultaneous_confidence is None or len(found) == 1:
        return total
    return filled(TOGETHER, {"closing": total, "confidence": found.simultaneous_confidence})


def verdict_words(audit: Audit) -> str:
    """The outcome in words."""
    if audit.outcome is not Outcome.UNINFORMATIVE or audit.verdict.method is not None:
        return WORDS[audit.outcome]
    return NO_TEST if audit.bounds else NOT_CHECKED


def _relation(audit: Audit) -> str:
    return str(audit.evidence[0]["relation"] if audit.evidence else audit.plan["relation"])


def lower_words(audit: Audit) -> str:
    """The numbers that the tests themselves bound, before any conversion."""
    return ", ".join(_short(bound) for bound in audit.bounds if bound.value is not None) or "none"


def _short(bound: Any) -> str:
    sign = "about" if bound.guarantee == "estimate" else ">="
    at = filled(AT_DELTA, {"delta": bound.delta}) if bound.parameter == "epsilon" and bound.delta else ""
    return f"{bound.short_name} {sign} {round_down(bound.value, bound.digits)}{at}"


def claim_words(audit: Audit) -> str:
    claim = audit.claim
    if claim is None:
        return "none"
    at = filled(AT_DELTA, claim) if claim["delta"] else ""
    mu = "" if claim["mu"] is None else filled(CLAIMED_MU, claim)
    where = "" if claim["relation"] == _relation(audit) else filled(ELSEWHERE, claim)
    return filled(EPSILON_CLAIMED, {"mu": mu, "epsilon": claim["epsilon"], "at": at, "where": where})


def ceiling_words(audit: Audit) -> str:
    return ", ".join(f"{name} {round_down(value)}" for name, value in audit.ceiling.items()) or "none"


def table(audits: Audit | Iterable[Audit]) -> Any:
    """A pandas DataFrame, one row an audit: names, outcome, and every number of `Audit.metrics`."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("`table` needs pandas, which is not installed.", "pip install 'dpaudit[data]'.") from None
    rows = [
        {"name": audit.name, "relation": _relation(audit), "outcome": str(audit.outcome), **audit.metrics()}
        for audit in as_audits(audits)
    ]
    return pd.DataFrame(rows)
