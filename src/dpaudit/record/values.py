"""An audit, and several of them as one family."""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dpaudit import _files
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, CheckResult
from dpaudit.bounds import Bound, Outcome, Verdict
from dpaudit.evidence import Evidence

FORMAT = 2
UNJUDGED = (Outcome.NOT_COMPARABLE, Outcome.UNINFORMATIVE, Outcome.FAILED, Outcome.WITHHELD)
EXIT_CODES = {
    0: "nothing was found",
    1: "the command found what it looks for: a contradicted claim, a broken premise, a condition that holds",
    2: "bad input",
    3: "a run failed",
    4: "nothing could be judged",
    130: "interrupted",
}
"""Of every command; a crash is never 0 or 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """One audit; two are equal if their records are, except for the timings.

    Attributes
    ----------
    plan
        What was fixed before the data: game, sizes, confidence, delta, what should be caught, the headline.
    budget
        Every statement that was made and its share of error probability; `simultaneous_confidence` is that of all.
    claim
        What is promised, its relation and its `source`; None without a claim.
    evidence
        Type, size, relation, unit and digest of what was seen, one entry each; none if the audit failed.
    assumptions
        Everything that a bound or the verdict rests on, numbered in this order; where a check could not be run and no
        number is reported, what it would have rested on.
    checks
        What tried to refute it, and what was measured beside the bounds.
    bounds
        They inform; the verdict comes from the test of the claim itself.
    comparisons
        The same system by other designs: id, title and a bound each.
    ceiling
        What a perfect attack of this size could have shown, by parameter.
    next_steps
        What would change the verdict, or help where there is none.
    figures
        The points of every figure of the report.
    failed_if
        Whether the condition `fail_if` holds; None without one, or where no accepted bound can say.
    text
        Every sentence of the record, made once.
    observed
        The evidence itself, while it is in memory; it is saved on its own.
    """

    name: str
    note: str = ""
    plan: dict[str, Any]
    budget: tuple[dict[str, Any], ...] = ()
    simultaneous_confidence: float | None = None
    claim: dict[str, Any] | None = None
    accept: tuple[str, ...] = ()
    fail_if: str | None = None
    failed_if: bool | None = None
    evidence: tuple[dict[str, Any], ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    bounds: tuple[Bound, ...] = ()
    comparisons: tuple[dict[str, Any], ...] = ()
    verdict: Verdict
    ceiling: dict[str, float] = field(default_factory=dict)
    next_steps: tuple[CheckResult, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    observed: tuple[Evidence, ...] = field(default=(), repr=False)

    @property
    def outcome(self) -> Outcome:
        return self.verdict.outcome

    @property
    def contradicted(self) -> bool:
        return self.verdict.contradicted

    @property
    def broken(self) -> bool:
        """Whether a premise is refuted that a check fails the audit for."""
        return any(one.refuted and one.check.on_refuted == "fail" for one in self.checks)

    @property
    def judged(self) -> bool:
        """Whether the evidence could say something about the claim and the condition, or there was none to judge."""
        undecided = self.fail_if is not None and self.failed_if is None
        return not undecided and self.outcome not in UNJUDGED

    @property
    def digest(self) -> str:
        """SHA-256 of the record without its timings: equal for equal records."""
        return hashlib.sha256(json.dumps(self._untimed(), sort_keys=True, allow_nan=False).encode()).hexdigest()

    def _untimed(self) -> dict[str, Any]:
        return {name: value for name, value in self.to_dict().items() if name != "timings"}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Audit) and self._untimed() == other._untimed()

    __hash__ = None  # type: ignore[assignment]

    def result(self, name: str) -> CheckResult | None:
        """The last result of the check with this id, if there is one."""
        return next((one for one in reversed(self.checks) if one.check.id == name), None)

    def metrics(self) -> dict[str, float]:
        """Flat numbers for an experiment tracker."""
        found = {"contradicted": float(self.contradicted), "judged": float(self.judged)}
        if self.verdict.p_value is not None:
            found["p_value"] = self.verdict.p_value
        for bound in self.bounds:
            found |= bound.metrics()
        found |= {f"{parameter}_ceiling": value for parameter, value in self.ceiling.items()}
        if self.claim is not None:
            found |= {f"{n}_claimed": self.claim[n] for n in ("epsilon", "mu") if self.claim.get(n) is not None}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "observed"}
        own["bounds"] = [_bound_entry(bound) for bound in self.bounds]
        own["comparisons"] = [{**one, "bound": _bound_entry(one["bound"])} for one in self.comparisons]
        own["assumptions"] = [one.to_dict() | {"key": one.key} for one in self.assumptions]
        own["checks"] = [_result_entry(one) for one in self.checks]
        own["next_steps"] = [_result_entry(one) for one in self.next_steps]
        own["verdict"] = self.verdict.to_dict()
        found: dict[str, Any] = plain({"format": FORMAT, **own})
        return found

    def to_json(self) -> str:
        return pretty(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record, atomically."""
        return _files.write_text(path, self.to_json())

    def with_text(self, text: dict[str, Any]) -> Audit:
        """The same record with its sentences."""
        return replace(self, text=text)

    def __str__(self) -> str:
        return printable("\n".join(self.text.get("lines", [self.name, self.verdict.sentence])))

    def _repr_html_(self) -> str:
        head, *rest = str(self).splitlines()
        lines = "\n".join(rest)
        word = html.escape(str(self.outcome))
        return f"<p><strong>{html.escape(head)}</strong>: {word}</p><pre>{html.escape(lines)}</pre>"


def _bound_entry(bound: Bound) -> dict[str, Any]:
    return {"kind": bound.kind, **bound.to_dict()}


def _result_entry(found: CheckResult) -> dict[str, Any]:
    """A result with its sentences: the templates stay in the library."""
    return {
        "id": found.check.id,
        "outcome": found.outcome,
        "p_value": found.p_value,
        "level": found.check.level,
        "refutes": list(found.check.refutes),
        "on_refuted": found.check.on_refuted,
        **({"on_missing": found.check.on_missing} if found.check.on_missing else {}),
        "numbers": found.numbers,
        "theory": found.check.theory,
        "text": found.text,
        "remedy": found.remedy,
    }


@dataclass(frozen=True)
class Audits(Sequence[Audit]):
    """Several audits as one family, each with its own confidence; `simultaneous_confidence` is that of all verdicts."""

    audits: tuple[Audit, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "audits", tuple(self.audits))
        if not self.audits:
            raise InputError("`audits` must hold at least one audit, got none.")

    def __len__(self) -> int:
        return len(self.audits)

    def __getitem__(self, index: Any) -> Any:
        return self.audits[index]

    def __str__(self) -> str:
        return "\n\n".join(str(audit) for audit in self.audits)

    def _repr_html_(self) -> str:
        return "".join(audit._repr_html_() for audit in self.audits)

    @property
    def simultaneous_confidence(self) -> float | None:
        """At least this confident that no verdict "contradicted" is wrong (union bound); None where none was tested."""
        levels = [audit.verdict.confidence for audit in self.audits if audit.verdict.p_value is not None]
        return max(0.0, 1.0 - math.fsum(1.0 - level for level in levels)) if levels else None

    @property
    def everything(self) -> float:
        """At least this confident that every verdict and bound of all audits holds (union bound over all budgets)."""
        return max(0.0, 1.0 - math.fsum(share["error"] for audit in self.audits for share in audit.budget))

    def exit_code(self) -> int:
        """One of `EXIT_CODES`."""
        if any(audit.contradicted or audit.failed_if or audit.broken for audit in self.audits):
            return 1
        if any(audit.outcome is Outcome.FAILED for audit in self.audits):
            return 3
        return 0 if any(audit.judged for audit in self.audits) else 4

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "simultaneous_confidence": self.simultaneous_confidence,
            "everything": self.everything,
            "audits": [audit.to_dict() for audit in self.audits],
        }

    def to_json(self) -> str:
        return pretty(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all records into one file, atomically."""
        return _files.write_text(path, self.to_json())


def printable(text: str) -> str:
    """Text without control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def plain(value: Any) -> Any:
    """Values that every JSON reader takes: tuples are lists, an infinite number is the word "infinity"."""
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return "infinity"
    return str(value) if isinstance(value, Path) else value


def number(value: Any) -> Any:
    """A number or a list of them as `plain` wrote it: the word "infinity" is one."""
    if isinstance(value, list):
        return tuple(number(entry) for entry in value)
    return math.inf if value == "infinity" else value


def pretty(value: Any, margin: str = "") -> str:
    """Indented JSON in the order of the fields, with lists of numbers on one line."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{json.dumps(name)}: {pretty(entry, inner)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(entry, dict | list | str) for entry in value):
        return "[\n" + ",\n".join(f"{inner}{pretty(entry, inner)}" for entry in value) + f"\n{margin}]"
    return json.dumps(value, allow_nan=False)


def as_audits(audits: Audit | Iterable[Audit]) -> Audits:
    """One audit or several, as `Audits`."""
    if isinstance(audits, Audits):
        return audits
    return Audits((audits,) if isinstance(audits, Audit) else tuple(audits))
