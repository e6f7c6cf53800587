"""Several audits as rows: for the terminal, for the report, and as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpaudit._validate import InputError
from dpaudit.auditing.record import Audit, as_audits, printable
from dpaudit.bounds import ClosenessRegion, LowerBound, Outcome, RenyiBound, percent, round_down, round_up

HEADINGS = ("mechanism", "relation", "lower bound", "claim", "ceiling", "verdict")
WORDS = {
    Outcome.CONTRADICTED: "contradicted",
    Outcome.CONTRADICTED_IF: "contradicted under assumptions",
    Outcome.CONSISTENT: "consistent with the claim",
    Outcome.UNINFORMATIVE: "too small to tell",
    Outcome.NOT_COMPARABLE: "not comparable: the claim is about something else",
    Outcome.NO_CLAIM: "no claim to judge",
    Outcome.FAILED: "failed",
    Outcome.BLOCKED: "blocked: the proxy can be told without the model",
}
NO_TEST = "no test of this claim"
GROUPS_APART = "blocked: members can be told without the model"


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
    order = [*WORDS.values(), GROUPS_APART, NO_TEST]
    listed = ", ".join(f"{words.count(word)} {word}" for word in order if word in words)
    total = f"{len(found)} audit{'s' if len(found) > 1 else ''}: {listed}."
    if found.together is None or len(found) == 1:
        return total
    return f"{total} All contradictions together are right with at least {percent(found.together)} confidence."


def verdict_words(audit: Audit) -> str:
    """The outcome in words."""
    paired = audit.evidence is not None and audit.evidence["type"] == "PairedScores"
    if audit.outcome is Outcome.BLOCKED and str(audit.plan["game"]).startswith("ZeroRun"):
        return GROUPS_APART
    return NO_TEST if audit.outcome is Outcome.UNINFORMATIVE and paired else WORDS[audit.outcome]


def _relation(audit: Audit) -> str:
    if audit.evidence is not None:
        return str(audit.evidence["relation"])
    return str(audit.plan["relation"])


def lower_words(audit: Audit) -> str:
    """The numbers that the tests themselves bound, before any conversion."""
    words = []
    for bound in audit.bounds:
        if isinstance(bound, LowerBound) and bound.value is not None:
            sign = "about" if bound.guarantee == "estimate" else ">="
            at = f" at {bound.delta:g}" if bound.parameter == "epsilon" and bound.delta else ""
            words.append(f"{bound.parameter} {sign} {round_down(bound.value)}{at}")
        elif isinstance(bound, ClosenessRegion):
            words.append(f"c + epsilon >= {round_down(bound.total)}")
        elif isinstance(bound, RenyiBound):
            words.append(f"D_{bound.orders[0]:g} >= {round_down(bound.divergences[0], 4)}")
    return ", ".join(words) or "none"


def claim_words(audit: Audit) -> str:
    claim = audit.claim
    if claim is None:
        return "none"
    at = f" at {claim['delta']:g}" if claim["delta"] else ""
    mu = "" if claim["mu"] is None else f"mu <= {round_up(claim['mu'])}, "
    where = "" if claim["relation"] == _relation(audit) else f" ({claim['relation']})"
    return f"{mu}epsilon <= {round_up(claim['epsilon'])}{at}{where}"


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
