"""The record of an audit: everything that was planned, spent, seen and concluded, as one value and one JSON file.

The JSON has a version and a published schema (`audit.schema.json` beside this file); a file that does not follow it is
refused. Nothing in a record is executed, and no number in a report comes from anywhere else. Two records of one plan
are equal but for `timings`.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Self

from dpaudit import _files
from dpaudit._validate import InputError
from dpaudit.bounds import (
    ClosenessRegion,
    LowerBound,
    Outcome,
    RenyiBound,
    Verdict,
    relation,
    round_up,
)
from dpaudit.evidence import Evidence

FORMAT = 1
BOUNDS: dict[str, Any] = {kind.__name__: kind for kind in (LowerBound, RenyiBound, ClosenessRegion)}
Bound = LowerBound | RenyiBound | ClosenessRegion
UNJUDGED = (Outcome.NOT_COMPARABLE, Outcome.UNINFORMATIVE, Outcome.FAILED, Outcome.BLOCKED)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """One audit.

    Attributes
    ----------
    plan
        What was fixed before the data: game, sizes, confidence, delta, what should be caught, the headline.
    budget
        Every statement that was made and its share of error probability; `together` is the confidence of all at once.
    claim
        What is promised, its relation and its `source`; None without a claim.
    evidence
        Type, size, relation, unit and digest of what was seen; None if the audit failed.
    bounds
        They inform; the verdict comes from the test of the claim itself.
    ceiling
        What a perfect attack of this size could have shown, by parameter.
    changes
        What would change the verdict, as sentences.
    checks
        What was checked beside the bounds (an observational audit's gate, proxy, shift and risk), by name: a sentence
        and its numbers.
    figures
        The points of every figure of the report.
    failed_if
        Whether the condition `fail_if` holds; None without one, or where no accepted bound can say.
    observed
        The evidence itself, while it is in memory; it is saved on its own.
    """

    name: str
    note: str = ""
    plan: dict[str, Any]
    budget: tuple[dict[str, Any], ...] = ()
    together: float | None = None
    claim: dict[str, Any] | None = None
    accept: tuple[str, ...] = ()
    fail_if: str | None = None
    failed_if: bool | None = None
    evidence: dict[str, Any] | None = None
    bounds: tuple[Bound, ...] = ()
    verdict: Verdict
    ceiling: dict[str, float] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    checks: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict, compare=False)
    observed: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def outcome(self) -> Outcome:
        return self.verdict.outcome

    @property
    def contradicted(self) -> bool:
        return self.verdict.contradicted

    @property
    def judged(self) -> bool:
        """Whether the evidence could say something about the claim and the condition, or there was none to judge."""
        undecided = self.fail_if is not None and self.failed_if is None
        return not undecided and self.outcome not in UNJUDGED

    @property
    def digest(self) -> str:
        """SHA-256 of the record without its timings: equal for equal records."""
        return hashlib.sha256(_dumped(_without_timings(self.to_dict())).encode()).hexdigest()

    def metrics(self) -> dict[str, float]:
        """Flat numbers for an experiment tracker."""
        found = {"contradicted": float(self.contradicted), "judged": float(self.judged)}
        if self.verdict.p_value is not None:
            found["p_value"] = self.verdict.p_value
        for bound in self.bounds:
            if isinstance(bound, LowerBound) and bound.value is not None:
                word = "estimate" if bound.guarantee == "estimate" else "lower"
                found[f"{bound.parameter.replace(' ', '_')}_{word}"] = bound.value
        for parameter, value in self.ceiling.items():
            found[f"{parameter}_ceiling"] = value
        if self.claim is not None:
            found |= {f"{n}_claimed": self.claim[n] for n in ("epsilon", "mu") if self.claim.get(n) is not None}
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("observed", "bounds", "verdict")}
        if not self.checks:
            del own["checks"]
        bounds = [{"type": type(bound).__name__, **bound.to_dict()} for bound in self.bounds]
        return plain({"format": FORMAT, **own, "bounds": bounds, "verdict": self.verdict.to_dict()})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The record that `to_dict` wrote; anything else is refused."""
        version = values.get("format") if isinstance(values, dict) else None
        if version != FORMAT:
            raise InputError(f"a record of format {version!r} is not known; this version reads {FORMAT}.")
        _check_schema(values)
        own = {name: value for name, value in values.items() if name != "format"}
        _check_figures(values["figures"])
        try:
            own["bounds"] = tuple(_bound_of(entry) for entry in values["bounds"])
            own["verdict"] = _verdict_of(values["verdict"])
            own["ceiling"] = {name: _number(value) for name, value in values["ceiling"].items()}
            if own.get("claim") is not None:
                own["claim"] = {n: _number(v) if n in ("epsilon", "mu") else v for n, v in values["claim"].items()}
            own |= {name: tuple(values[name]) for name in ("budget", "accept", "changes")}
            return cls(**own)
        except (TypeError, KeyError) as problem:
            raise InputError(f"the record is not complete ({problem}).") from None

    def to_json(self) -> str:
        return _pretty(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record, atomically."""
        return _files.write_text(path, self.to_json())

    def __str__(self) -> str:
        lines = [self._title(), *(f"  {line}" for line in self._lines())]
        checked = [check["sentence"] for check in self.checks.values()]
        return printable("\n".join([*lines, *checked, self.verdict.sentence, *self.changes]))

    def _title(self) -> str:
        if self.evidence is None:
            return self.name
        return f"{self.name}, {self.evidence['relation']} of one {self.evidence['unit']}"

    def _lines(self) -> list[str]:
        lines = []
        for bound in self.bounds:
            head = str(bound).splitlines()[0]
            lines.append(", if ".join([head, *bound.assumptions]))
            if isinstance(bound, ClosenessRegion):
                lines += [f"  {text}" for text in bound.reading]
        if self.claim is not None:
            mu = "" if self.claim.get("mu") is None else f"mu <= {round_up(self.claim['mu'])}, "
            source = f" ({self.claim['source']})" if self.claim.get("source") else ""
            lines.append(
                f"{mu}epsilon <= {round_up(self.claim['epsilon'])} at delta {self.claim['delta']:g}   claimed: "
                f"{self.claim['method']}{source}, {self.claim['relation']} of one {self.claim['unit']}"
            )
        if self.fail_if is not None:
            lines.append(f"fail if {self.fail_if}: {self.condition_words}")
        return lines

    @property
    def condition_words(self) -> str:
        """Whether `fail_if` holds, in words."""
        return "cannot say" if self.failed_if is None else "yes" if self.failed_if else "no"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every sentence that a bound or the verdict depends on, once each."""
        listed = [text for bound in self.bounds for text in bound.assumptions]
        return tuple(dict.fromkeys([*listed, *self.verdict.assumptions]))

    def _repr_html_(self) -> str:
        head, *rest = str(self).splitlines()
        lines = "\n".join(rest)
        word = html.escape(str(self.outcome))
        return f"<p><strong>{html.escape(head)}</strong>: {word}</p><pre>{html.escape(lines)}</pre>"


@dataclass(frozen=True)
class Audits(Sequence[Audit]):
    """Several audits as one family: each keeps its own confidence, and `together` is that of all verdicts at once."""

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
    def together(self) -> float | None:
        """At least this confident that no verdict "contradicted" is wrong (union bound); None where none was tested."""
        levels = [audit.verdict.confidence for audit in self.audits if audit.verdict.p_value is not None]
        return max(0.0, 1.0 - math.fsum(1.0 - level for level in levels)) if levels else None

    @property
    def everything(self) -> float:
        """At least this confident that every verdict and bound of all audits holds (union bound over all budgets)."""
        return max(0.0, 1.0 - math.fsum(share["error"] for audit in self.audits for share in audit.budget))

    def exit_code(self) -> int:
        """0 nothing contradicted, 1 a claim is (or `fail_if` holds), 3 a run failed, 4 nothing could be judged."""
        if any(audit.contradicted or audit.failed_if for audit in self.audits):
            return 1
        if any(audit.outcome is Outcome.FAILED for audit in self.audits):
            return 3
        return 0 if any(audit.judged for audit in self.audits) else 4

    def to_dict(self) -> dict[str, Any]:
        audits = [audit.to_dict() for audit in self.audits]
        return {"format": FORMAT, "together": self.together, "everything": self.everything, "audits": audits}

    def to_json(self) -> str:
        return _pretty(self.to_dict()) + "\n"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all records into one file, atomically."""
        return _files.write_text(path, self.to_json())


def load_audits(*paths: str | os.PathLike[str]) -> Audits:
    """Records from one or several files, each of one audit or of several. Nothing in them is executed."""
    return Audits(tuple(audit for path in paths for audit in _load(Path(path))))


def load_audit(path: str | os.PathLike[str]) -> Audit:
    """The one record of a file."""
    found = _load(Path(path))
    if len(found) != 1:
        raise InputError(f"{Path(path).name!r} holds {len(found)} audits.", "`load_audits` reads them all.")
    return found[0]


def _load(path: Path) -> list[Audit]:
    if not path.is_file():
        raise InputError(f"no file {str(path)!r}.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (ValueError, OSError, RecursionError) as problem:
        raise InputError(f"{path.name!r} is not a JSON record ({type(problem).__name__}).") from None
    entries = values.get("audits") if isinstance(values, dict) and "audits" in values else [values]
    if not isinstance(entries, list):
        raise InputError(f"{path.name!r} must hold one audit or a list of them.")
    try:
        return [Audit.from_dict(entry) for entry in entries]
    except InputError as problem:
        raise InputError(f"{path.name!r}: {problem.sentence}", problem.hint) from None


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The published JSON Schema of a record."""
    found: dict[str, Any] = json.loads(resources.files("dpaudit.auditing").joinpath("audit.schema.json").read_text())
    return found


def _check_schema(values: dict[str, Any]) -> None:
    import jsonschema

    problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema()).iter_errors(values))
    if problem is not None:
        where = "/".join(str(step) for step in problem.absolute_path) or "the record"
        raise InputError(f"a record must follow its schema, but {where}: {problem.message[:200]}.")


def _bound_of(entry: dict[str, Any]) -> Bound:
    kind = BOUNDS[entry["type"]]
    extra = ("type", "difference_estimate")
    values: dict[str, Any] = {
        name: _number(value) if name in NUMBERS else value for name, value in entry.items() if name not in extra
    }
    if kind is ClosenessRegion:
        values.pop("relation", None)
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return ClosenessRegion(**values)
    found: Bound = kind.from_dict(values)
    return found


def _verdict_of(entry: dict[str, Any]) -> Verdict:
    lists = {name: tuple(entry[name]) for name in ("assumptions", "accepted")}
    return Verdict(**{**entry, **lists, "outcome": Outcome(entry["outcome"]), "relation": relation(entry["relation"])})


NUMBERS = ("epsilon", "mu", "theta", "ceiling", "total", "closeness", "asserted", "divergences", "orders")


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(entry) for entry in value]
    return math.inf if value == "infinity" else value


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _check_figures(figures: dict[str, Any]) -> None:
    """Lists that are drawn against each other must be as long as each other."""
    for name, figure in figures.items():
        if isinstance(figure, dict):
            edges = figure.get("edges")
            parts = [figure, figure.get("claimed", {})]
            for part in parts:
                lists = {
                    key: len(values) for key, values in part.items() if isinstance(values, list) and key != "boxes"
                }
                if edges is not None and part is figure:
                    lists["edges"] -= 1
                if len(set(lists.values())) > 1 or 0 in lists.values():
                    raise InputError(f"the lists of figure {name!r} must have one length, got {lists}.")


def printable(text: str) -> str:
    """Text without control characters, which a terminal would obey."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)


def _without_timings(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "timings"}


def plain(value: Any) -> Any:
    """Values that every JSON reader takes: tuples are lists, an infinite number is the word "infinity"."""
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return "infinity"
    return str(value) if isinstance(value, Path) else value


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _pretty(value: Any, margin: str = "") -> str:
    """Indented JSON in the order of the fields, with lists of numbers on one line."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{json.dumps(name)}: {_pretty(entry, inner)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(entry, dict | list | str) for entry in value):
        return "[\n" + ",\n".join(f"{inner}{_pretty(entry, inner)}" for entry in value) + f"\n{margin}]"
    return json.dumps(value, allow_nan=False)


def as_audits(audits: Audit | Iterable[Audit]) -> Audits:
    """One audit or several, as `Audits`."""
    if isinstance(audits, Audits):
        return audits
    return Audits((audits,) if isinstance(audits, Audit) else tuple(audits))


__all__ = ["Audit", "Audits", "as_audits", "load_audit", "load_audits", "plain", "printable", "schema"]
