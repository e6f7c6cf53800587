"""An audit as a TOML file: the fields of the dataclasses, by name.

    claim = { mu = 1.0, delta = 1e-5, relation = "add-remove" }
    audit = { seed = 7, confidence = 0.999999, detects = 0.5 }
    game.multi_run.score = "audit.py:score"

`claim` is a `Claim`, `audit` are `Settings`, `execution` is an `Execution`, and `game` names one game and its fields.
What is left out is a default, taken from the claim, or planned; `explain` says which.
"""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.auditing._conduct import DELTA, DETECTS, Settings, effective, planned_runs
from dpaudit.bounds import Relation, UpperBound, round_up
from dpaudit.bounds import relation as as_relation
from dpaudit.evidence import load_evidence
from dpaudit.execution import Execution, load_function
from dpaudit.games import MultiRun, ObservationalTable, OneRun, PanoramiaTable, Prediction, ZeroRunTable
from dpaudit.planning import catches

CLAIM_EXAMPLE = """for example --claim '{ mu = 1.0, delta = 1e-5, relation = "add-remove" }'"""
SECTIONS = ("claim", "audit", "game", "execution")
GAMES = ("multi_run", "one_run", "prediction", "observational", "zero_run", "panoramia", "evidence")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is promised: exactly one of the first five, under a relation.

    Attributes
    ----------
    mu
        Gaussian DP.
    dp_sgd
        `{ noise_multiplier =, sampling_rate =, steps = }`; the accountant works out the curve.
    laplace, randomized_response
        `{ epsilon = }`, and `{ epsilon =, classes = }`.
    epsilon
        With `delta`, which must be given, a bare pair: it says little about the curve and is weak to test.
    delta
        1e-5 for `mu` and `dp_sgd`, 0 for `laplace` and `randomized_response`, unless given.
    source
        Where the promise is made, such as "model card, section 3".
    """

    relation: Relation
    mu: float | None = None
    dp_sgd: dict[str, Any] | None = None
    laplace: dict[str, Any] | None = None
    randomized_response: dict[str, Any] | None = None
    epsilon: float | None = None
    delta: float | None = None
    unit: str = "record"
    source: str = ""

    def __post_init__(self) -> None:
        as_relation(self.relation)
        for name in ("unit", "source"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"`claim.{name}` must be a text, got {getattr(self, name)!r}.")
        if not self.unit:
            raise InputError("`claim.unit` must be a word such as 'record' or 'user', got ''.")
        if self.delta is not None:
            check.delta(self.delta)

    def bound(self) -> UpperBound:
        """The promise as an upper bound with its curve."""
        kinds = ("mu", "dp_sgd", "laplace", "randomized_response", "epsilon")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            raise InputError(
                f"`claim` must state exactly one of {', '.join(kinds)}, got {' and '.join(given) or 'none'}."
            )
        kind, value = given[0], getattr(self, given[0])
        delta = DELTA if self.delta is None else self.delta
        common: dict[str, Any] = {"relation": self.relation, "unit": self.unit}
        if kind == "mu":
            return accounting.gaussian(mu=value, delta=delta, **common)
        if kind == "epsilon":
            if self.delta is None:
                raise InputError("`claim.delta` is needed beside `claim.epsilon`.", "delta = 0 for pure DP.")
            terms = {"epsilon": check.number("epsilon", value, low=0.0)}
            return UpperBound(epsilon=terms["epsilon"], delta=self.delta, terms=terms, **common)
        if kind != "dp_sgd":
            delta = self.delta or 0.0
        maker: Callable[..., UpperBound] = getattr(accounting, kind)
        allowed = {"dp_sgd": ("noise_multiplier", "sampling_rate", "steps"), "laplace": ("epsilon",)}
        names = allowed.get(kind, ("epsilon", "classes"))
        check_keys(f"claim.{kind}", value, names)
        missing = [name for name in names if name not in value and name != "classes"]
        if missing:
            raise InputError(f"`claim.{kind}` needs `{missing[0]}`.")
        return maker(**value, delta=delta, **common)


def parsed_claim(text: str) -> UpperBound:
    """The claim of one inline table, such as '{ mu = 1.0, relation = "add-remove" }'."""
    try:
        table = tomllib.loads(f"claim = {text}")
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"`claim` is not a TOML table ({problem}).", CLAIM_EXAMPLE) from None
    if list(table) != ["claim"] or not isinstance(table["claim"], dict):
        raise InputError(f"`claim` must be one TOML table, got {text!r}.", CLAIM_EXAMPLE)
    found: UpperBound = build(Claim, table["claim"], "claim").bound()
    return found


def claim_text(claim: UpperBound) -> str | None:
    """The inline table that `parsed_claim` reads as this claim; None where its terms are not known."""
    terms = claim.terms
    if terms is None and claim.curve is None and math.isfinite(claim.epsilon):
        terms = {"epsilon": claim.epsilon}
    if terms is None:
        return None
    values = {**terms, "delta": claim.delta, "relation": str(claim.relation), "unit": claim.unit}
    return _inline(values)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_inline(entry)}" for name, entry in value.items()) + " }"
    return json.dumps(value)  # numbers and texts are written alike in TOML


@dataclass(frozen=True)
class Configured:
    """A file that was read: the game and everything else that `conduct` needs, and where each setting came from."""

    game: Any
    claim: UpperBound | None
    source: str
    settings: Settings
    execution: Execution
    origins: tuple[tuple[str, str, str], ...]

    def explain(self) -> str:
        """Every setting, its value, and whether it came from the file, from the claim, a plan, or a default."""
        widths = [max(len(row[i]) for row in self.origins) for i in (0, 1)]
        return "\n".join(f"{k.ljust(widths[0])}  {v.ljust(widths[1])}  {why}".rstrip() for k, v, why in self.origins)


def load_config(path: str | Path) -> Configured:
    """Read an audit file. Its score is imported, because that is what one asks for by running it."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {str(file)!r}.")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{file.name!r} is not valid TOML ({problem}).") from None
    try:
        return _configured(found, file)
    except InputError as problem:
        raise InputError(f"{file.name!r}: {problem.sentence}", problem.hint) from None


def _configured(found: dict[str, Any], file: Path) -> Configured:
    check_keys("", found, SECTIONS)
    claim_table = _table(found, "claim", optional=True)
    stated = None if claim_table is None else build(Claim, claim_table, "claim")
    claim = None if stated is None else stated.bound()
    given = {"name": file.stem, **(_table(found, "audit", optional=True) or {})}
    settings = build(Settings, given, "audit")
    kind, table = _game_table(found)
    execution = build(Execution, _table(found, "execution", optional=True) or {}, "execution")
    game, planned = _game(kind, table, claim, settings, file.parent)
    settings = effective(settings, claim, planned="runs" in planned)
    why = {"name": "the file's name", "delta": "that of the claim" if claim is not None else "default"}
    origins = [
        *([] if claim is None else _claim_rows(claim, claim_table or {})),
        *_rows(settings, "audit", _table(found, "audit", optional=True) or {}, why),
        *_rows(game, f"game.{kind}", table, planned),
        *_rows(execution, "execution", _table(found, "execution", optional=True) or {}, {}),
    ]
    source = "" if stated is None else stated.source
    return Configured(game, claim, source, settings, execution, tuple(origins))


def _game(
    kind: str, table: dict[str, Any], claim: UpperBound | None, settings: Settings, folder: Path
) -> tuple[Any, dict[str, str]]:
    """The game, and why each field that the file leaves out has its value."""
    if settings.detects is not None and kind != "multi_run":
        raise InputError(f"`detects` chooses the number of runs of `game.multi_run`; `game.{kind}` has its own size.")
    if kind == "evidence":
        check_keys("game.evidence", table, ("file",))
        return load_evidence(folder / _text(table, "game.evidence", "file")), {}
    tables: dict[str, Any] = {
        "observational": ObservationalTable,
        "zero_run": ZeroRunTable,
        "panoramia": PanoramiaTable,
    }
    if kind in tables:
        known = tuple(f.name for f in fields(tables[kind]) if f.name != "folder")
        check_keys(f"game.{kind}", table, known)
        return build(tables[kind], {**table, "folder": str(folder)}, f"game.{kind}"), {}
    kinds: dict[str, tuple[Any, str]] = {
        "multi_run": (MultiRun, "score"),
        "one_run": (OneRun, "scores"),
        "prediction": (Prediction, "answers"),
    }
    made, function = kinds[kind]
    check_keys(f"game.{kind}", table, tuple(f.name for f in fields(made)))
    values, planned = dict(table), dict[str, str]()
    values[function] = load_function(_text(table, f"game.{kind}", function), field=function, folder=folder)
    if isinstance(values.get("files"), list):
        values["files"] = [str(folder / name) if isinstance(name, str) else name for name in values["files"]]
    for field in ("relation", "unit"):
        if field not in values and claim is not None:
            values[field] = getattr(claim, field)
            planned[field] = "that of the claim"
    if "relation" not in values:
        raise InputError(f"`game.{kind}` needs `relation` where there is no claim.")
    if kind == "multi_run" and "runs" not in values:
        values["runs"] = planned_runs(claim, settings)
        assert claim is not None
        detects = DETECTS if settings.detects is None else settings.detects
        planned["runs"] = f"planned: {catches(claim, detects)}"
    elif settings.detects is not None:
        raise InputError("`detects` chooses the number of runs, which this file gives.", "leave one of them out.")
    return build(made, values, f"game.{kind}"), planned


def _game_table(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    games = _table(found, "game", optional=False) or {}
    check_keys("game", games, GAMES)
    if len(games) != 1:
        raise InputError(f"`game` must name one of {', '.join(GAMES)}, got {len(games)}.")
    kind = next(iter(games))
    table = _table(games, kind, optional=False)
    assert table is not None
    return kind, table


def _table(found: dict[str, Any], name: str, *, optional: bool) -> dict[str, Any] | None:
    if name not in found:
        if optional:
            return None
        raise InputError(f"`{name}` is needed.", 'for example: game.multi_run.score = "audit.py:score"')
    if not isinstance(found[name], dict):
        raise InputError(f"`{name}` must be a table, got {found[name]!r}.")
    table: dict[str, Any] = found[name]
    return table


def _text(table: dict[str, Any], where: str, name: str) -> str:
    if not isinstance(table.get(name), str):
        raise InputError(f"`{where}.{name}` must be a text, got {table.get(name)!r}.")
    return str(table[name])


def check_keys(where: str, table: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a key that nobody reads, with the nearest name that somebody does."""
    if not isinstance(table, dict):
        raise InputError(f"`{where}` must be a table, got {table!r}.")
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"it knows {', '.join(allowed)}."
            raise InputError(f"`{where + '.' if where else ''}{key}` is not a setting.", hint)


def build(made: Any, table: dict[str, Any], where: str) -> Any:
    """The dataclass of a table: fields by name, unknown and missing ones refused."""
    check_keys(where, table, tuple(f.name for f in fields(made)))
    for f in fields(made):
        if f.default is MISSING and f.default_factory is MISSING and f.name not in table:
            raise InputError(f"`{where}` needs `{f.name}`.")
    return made(**table)


def _claim_rows(claim: UpperBound, table: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = [(f"claim.{name}", str(value), "given") for name, value in table.items()]
    rows += [(f"claim.{name}", str(getattr(claim, name)), "default") for name in ("delta", "unit") if name not in table]
    return [*rows, ("claim", f"epsilon <= {round_up(claim.epsilon)} at delta {claim.delta:g}", claim.method)]


def _rows(value: Any, where: str, table: dict[str, Any], planned: dict[str, str]) -> list[tuple[str, str, str]]:
    if where == "game.evidence":
        return [(f"{where}.file", str(table["file"]), "given")]
    rows = []
    for f in fields(value):
        if f.name == "folder":
            continue
        origin = "given" if f.name in table else planned.get(f.name, "default")
        shown = table.get(f.name, getattr(value, f.name))
        rows.append((f"{where}.{f.name}", str(shown), origin))
    return rows
