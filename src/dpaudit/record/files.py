"""Records from JSON files: checked against their schema, read back whole, or refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, literal
from dpaudit.bounds import BOUNDS, Bound, Outcome, Verdict, relation
from dpaudit.record import format_1
from dpaudit.record.values import FORMAT, Audit, Audits, number

FORMATS = (1, FORMAT)
"""Formats of records that this version reads; it writes the last."""
NUMBERS = ("epsilon", "mu", "theta", "ceiling", "total", "divergence", "asserted", "divergences", "orders")
DERIVED = ("kind", "difference_estimate")


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
        return [audit_of(entry) for entry in entries]
    except InputError as problem:
        raise InputError(f"{path.name!r}: {problem.sentence}", problem.hint) from None


def audit_of(values: Any) -> Audit:
    """The record that `Audit.to_dict` wrote, of this format or a former one; anything else is refused."""
    version = values.get("format") if isinstance(values, dict) else None
    if type(version) is not int or version not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise InputError(f"a record of format {version!r} is not known; this version reads {known}.")
    _check_schema(values, version)
    _check_figures(values["figures"])
    try:
        return Audit(**(format_1.fields_of(values) if version == 1 else _fields_of(values)))
    except (TypeError, KeyError) as problem:
        raise InputError(f"the record is not complete ({problem}).") from None


def _fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in values.items() if name != "format"}
    listed = [_assumption(entry) for entry in values["assumptions"]]
    by_key = {one.key: one for one in listed}
    own["assumptions"] = tuple(listed)
    own["bounds"] = tuple(_bound(entry, by_key) for entry in values["bounds"])
    own["comparisons"] = tuple({**one, "bound": _bound(one["bound"], by_key)} for one in values["comparisons"])
    own["checks"] = tuple(_result(entry) for entry in values["checks"])
    own["next_steps"] = tuple(_result(entry) for entry in values["next_steps"])
    own["verdict"] = _verdict(values["verdict"], by_key)
    own["ceiling"] = {name: number(value) for name, value in values["ceiling"].items()}
    if own["claim"] is not None:
        own["claim"] = {n: number(v) if n in ("epsilon", "mu") else v for n, v in values["claim"].items()}
    return own | {name: tuple(values[name]) for name in ("budget", "accept", "evidence")}


def _assumption(entry: Mapping[str, Any]) -> Assumption:
    found = Assumption.from_dict({name: value for name, value in entry.items() if name != "key"})
    if found.key != entry["key"]:
        raise InputError(f"an assumption must have the key of its id and values, got {entry['key']!r}.")
    return found


def _bound(entry: Mapping[str, Any], by_key: Mapping[str, Assumption]) -> Bound:
    values: dict[str, Any] = {
        name: number(value) if name in NUMBERS else value for name, value in entry.items() if name not in DERIVED
    }
    values["assumptions"] = _named(values["assumptions"], by_key)
    found: Bound = BOUNDS[entry["kind"]].from_dict(values)
    return found


def _verdict(entry: Mapping[str, Any], by_key: Mapping[str, Assumption]) -> Verdict:
    own = {name: value for name, value in entry.items() if name != "sentence"}
    own |= {name: _named(entry[name], by_key) for name in ("assumptions", "accepted")}
    own |= {"outcome": Outcome(entry["outcome"]), "relation": relation(entry["relation"])}
    return Verdict(**own, written=entry["sentence"])


def _named(keys: Any, by_key: Mapping[str, Assumption]) -> tuple[Assumption, ...]:
    for key in keys:
        if key not in by_key:
            raise InputError(f"the record must list every assumption that it names, and lacks {key!r}.")
    return tuple(by_key[key] for key in keys)


def _result(entry: Mapping[str, Any]) -> CheckResult:
    """A result whose sentences are those of the record."""
    said: dict[str, Any] = {
        entry["outcome"].replace("-", "_"): literal(entry["text"]),
        "remedy": literal(entry["remedy"]),
    }
    named: dict[str, Any] = {name: entry[name] for name in ("id", "refutes", "on_refuted", "level", "theory")}
    named["on_missing"] = entry.get("on_missing", "")
    return CheckResult(
        check=Check(**named, **said), outcome=entry["outcome"], p_value=entry["p_value"], numbers=entry["numbers"]
    )


@lru_cache(maxsize=2)
def schema(version: int = FORMAT) -> dict[str, Any]:
    """The published JSON Schema of a record."""
    text = resources.files("dpaudit.record").joinpath(f"schema-{version}.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def _check_schema(values: dict[str, Any], version: int) -> None:
    import jsonschema

    problem = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema(version)).iter_errors(values))
    if problem is not None:
        where = "/".join(str(step) for step in problem.absolute_path) or "the record"
        raise InputError(f"a record must follow its schema, but {where}: {problem.message[:200]}.")


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
