"""What an audit is told, and an audit as a TOML file: the parameters of what it makes, by name.

    claim = { mu = 1.0, delta = 1e-5, relation = "add-remove" }
    audit = { seed = 7, confidence = 0.999999, detects = 0.5 }
    game.multi_run.score = "audit.py:score"

`claim` is a `Claim`, `audit` are `Settings`, `execution` is an `Execution`, and `game` names one game and the keywords
of what makes it: `from_table` where the game has one, else the game itself. The signature is the definition, of these
keys, of `--set` and, with its docstring, of `explain`. What is left out is a default, or derived from the claim.
"""

from __future__ import annotations

import difflib
import inspect
import json
import math
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.assumptions import accepted_keys, check_declared, round_up, split_by
from dpaudit.auditing.power import catches, plan_runs
from dpaudit.bounds import GAUSSIAN_ASSUMPTION, Bound, Relation, UpperBound
from dpaudit.bounds import relation as as_relation
from dpaudit.estimators.analyses import ANALYSES, analysis_of
from dpaudit.execution import Execution
from dpaudit.games import GAMES
from dpaudit.inputs.tables import unit_word

DELTA = 1e-5
DETECTS = 0.5
CLAIM_EXAMPLE = """for example --claim '{ mu = 1.0, delta = 1e-5, relation = "add-remove" }'"""
SECTIONS = ("claim", "audit", "game", "execution")
MAKERS: dict[str, Callable[..., Any]] = {
    game.kind.replace("-", "_"): getattr(game, "from_table", game) for game in GAMES
}
"""What makes the game of each key of `game`."""
CONTEXT = ("folder", "seed")
"""Parameters that are no settings: where names of files start, and the seed of the audit."""
Parameters = dict[str, inspect.Parameter]
Origin = tuple[str, str, str, str]
"""A setting, its value, where that came from, and what it is."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is promised: exactly one of the first five, under a relation.

    Attributes
    ----------
    relation
        What one record changes: "add-remove" (there, or not), "substitute" (it, or another), "zero-out" or "label".
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
    unit
        What one record stands for, such as "record" or "user".
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


# ------------------------------------------------------------------------------------------------------------- settings


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an audit may be told, besides its game and its claim.

    Attributes
    ----------
    name
        What the audit is called, and its record; of a file the file's name.
    note
        A remark for whoever reads the record.
    seed
        Decides every coin, sample and run.
    confidence
        Of the verdict, and of each bound on its own.
    delta
        At which epsilon is bounded; None: that of the claim, or 1e-5.
    detects
        The share of the promised noise that must be caught: with 0.5, a mechanism with half its noise is, about nine
        times of ten, by an attack as good as it allows. It chooses the number of runs where none is given; None: 0.5.
    accept
        Assumptions that the user answers for, by their ids: "one-row-per-unit", or "shift(tau=0.01)" where something is
        asserted.
    fail_if
        A condition on a lower bound, such as "epsilon > 2"; it fails a run as a contradicted claim does.
    commitment
        The hash that was published before the run; another one is refused.
    """

    name: str = "audit"
    note: str = ""
    seed: int = 0
    confidence: float = 0.95
    delta: float | None = None
    detects: float | None = None
    accept: tuple[str, ...] = ()
    fail_if: str | None = None
    commitment: str | None = None

    def __post_init__(self) -> None:
        for field in ("name", "note"):
            if not isinstance(getattr(self, field), str):
                raise InputError(f"`{field}` must be a text, got {getattr(self, field)!r}.")
        check.count("seed", self.seed)
        check.confidence(self.confidence)
        if self.delta is not None:
            check.delta(self.delta)
        if self.detects is not None:
            check.number("detects", self.detects, low=0.01, high=0.99)
        if self.commitment is not None and not isinstance(self.commitment, str):
            raise InputError(f"`commitment` must be a text, got {self.commitment!r}.")
        object.__setattr__(self, "accept", accepted_keys(self.accept))
        if self.fail_if is not None:
            parsed_condition(self.fail_if)

    def effective(self, claim: UpperBound | None, *, planned: bool) -> Settings:
        """The settings with what None stands for."""
        detects = DETECTS if planned and self.detects is None else self.detects
        return replace(self, delta=self.delta_for(claim), detects=detects)

    def delta_for(self, claim: UpperBound | None) -> float:
        """At which delta epsilon is bounded."""
        if self.delta is not None:
            return self.delta
        return DELTA if claim is None else claim.delta


def parsed_condition(text: Any) -> tuple[str, str, float]:
    """Parameter, comparison and number of a condition such as "epsilon > 2"."""
    found = re.fullmatch(r"\s*(epsilon|mu)\s*(>=|>)\s*([0-9.eE+-]+)\s*", text) if isinstance(text, str) else None
    try:
        if found is None:
            raise ValueError
        return found[1], found[2], float(found[3])
    except ValueError:
        raise InputError(f"`fail_if` must read like 'epsilon > 2' or 'mu >= 1', got {text!r}.") from None


def holds(settings: Settings, bounds: tuple[Bound, ...], accept: tuple[str, ...]) -> bool | None:
    """Whether the one bound that decides meets the condition; None where it rests on what nobody accepted.

    epsilon is decided by its own bound or, where the Gaussian assumption is accepted, by that of mu, converted: by one
    of the two, so that the error probability is that of one bound.
    """
    parameter, sign, limit = parsed_condition(settings.fail_if)
    converted = parameter == "epsilon" and GAUSSIAN_ASSUMPTION.key in accept
    decides = "mu" if converted else parameter
    answers: list[bool | None] = []
    deciding: list[Any] = [one for one in bounds if one.parameter == decides]  # one an evidence, each paid for
    for bound in deciding:
        value = bound.epsilon if converted else bound.value
        needed = [one for one in bound.assumptions if converted or one != GAUSSIAN_ASSUMPTION]
        _, left = split_by(accept, needed)
        if value is None or bound.guarantee == "estimate" or left:
            answers.append(None)
        else:
            answers.append(bool(value >= limit if sign == ">=" else value > limit))
    return True if True in answers else None if None in answers else False


def planned_runs(claim: UpperBound | None, settings: Settings) -> int:
    """Runs in each world so that the violation `detects` is caught."""
    if claim is None:
        raise InputError("`runs` is needed without a claim: there is nothing to plan for.")
    detects = DETECTS if settings.detects is None else settings.detects
    return plan_runs(claim=claim, detects=detects, confidence=settings.confidence)


# ------------------------------------------------------------------------------------------------------ a game, planned


@dataclass(frozen=True)
class Planned:
    """A game that is made when it is run: no table is read and no model is asked before."""

    made_when_run: ClassVar[bool] = True

    key: str
    keywords: dict[str, Any]
    folder: Path = Path()
    source: str = ""
    """The audit file, for errors."""

    @property
    def maker(self) -> Callable[..., Any]:
        return MAKERS[self.key]

    @property
    def kind(self) -> str:
        return self.key.replace("_", "-")

    @property
    def parameters(self) -> Parameters:
        """Of the maker, by name."""
        return dict(inspect.signature(self.maker).parameters)

    @property
    def relation(self) -> Relation:
        """Of a game that could not be made."""
        told = self.keywords.get("relation")
        return as_relation(told) if told is not None else getattr(self.owner, "relation_of_tables", Relation.SUBSTITUTE)

    @property
    def unit(self) -> str:
        """Of a game that could not be made."""
        return unit_word(self.keywords.get("unit"))

    @property
    def owner(self) -> Any:
        """The class of the game."""
        return getattr(self.maker, "__self__", self.maker)

    @property
    def reads_a_table(self) -> bool:
        """Whether making it takes time: rows are read, and models asked."""
        return "seed" in self.parameters

    @property
    def keeps_runs(self) -> bool:
        """Whether it has jobs that are worth keeping: those whose function is named in the file."""
        return "files" in self.parameters

    def game(self, seed: int) -> Any:
        """The game itself; a sample is drawn by the seed."""
        context = {"folder": self.folder, "seed": seed}
        told = {name: value for name, value in context.items() if name in self.parameters}
        try:
            return self.maker(**self.keywords, **told)
        except InputError as problem:
            raise named(problem, self.source) from None


def named(problem: InputError, source: str) -> InputError:
    """The same error with the file that it is about."""
    return InputError(f"{source!r}: {problem.sentence}", problem.hint) if source else problem


def settings_of(maker: Callable[..., Any]) -> Parameters:
    """What a maker may be told: its parameters, except for where it is called."""
    return {name: one for name, one in inspect.signature(maker).parameters.items() if name not in CONTEXT}


def described(maker: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says of each parameter (numpydoc: Parameters, or Attributes), in one line."""
    text = inspect.getdoc(maker) or ""
    found: dict[str, str] = {}
    for section in re.findall(
        r"^(?:Parameters|Attributes)\n-+\n((?:\S.*\n(?:[ \t]+.*\n?|\n(?=[ \t]))+)+)", text + "\n", re.M
    ):
        for names, body in re.findall(r"^(\S.*)\n((?:[ \t]+.*\n?)+)", section, re.M):
            found |= dict.fromkeys(names.split(", "), " ".join(body.split()))
    return found


def documented(maker: Callable[..., Any]) -> dict[str, str]:
    """The first sentence of what the docstring says of each parameter."""
    return {name: re.split(r"(?<=[.])\s", text, maxsplit=1)[0] for name, text in described(maker).items()}


# ------------------------------------------------------------------------------------------------------- an audit file


@dataclass(frozen=True)
class Configured:
    """A file that was read: the game and everything else that `audit.run` needs, and where each setting came from."""

    game: Planned
    claim: UpperBound | None
    source: str
    settings: Settings
    execution: Execution
    origins: tuple[Origin, ...]

    def ready(self) -> Any:
        """The game where making it reads nothing, so that mistakes are found before anything runs; else its plan."""
        return self.game if self.game.reads_a_table else self.game.game(self.settings.seed)

    def explain(self) -> str:
        """Every setting, its value, whether it was given, set, derived or is a default; below it what it is."""
        widths = [max(len(row[i]) for row in self.origins) for i in (0, 1)]
        lines = []
        for name, value, origin, meaning in self.origins:
            lines.append(f"{name.ljust(widths[0])}  {value.ljust(widths[1])}  {origin}")
            lines += [f"    {meaning}"] if meaning else []
        return "\n".join(lines)


def load_config(path: str | Path, *, changes: Sequence[str] = ()) -> Configured:
    """Read an audit file, and change it by settings such as 'game.zero_run.clip = 0.05'. Nothing else is read."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {str(file)!r}.")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{file.name!r} is not valid TOML ({problem}).") from None
    changed = {key for text in changes for key in _change(found, text)}
    try:
        return _configured(found, file, changed)
    except InputError as problem:
        raise named(problem, file.name) from None


def _change(found: dict[str, Any], text: str) -> list[str]:
    """Change one setting of a file's table; the keys that are changed."""
    try:
        change = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        change = {}
    if not change:
        raise InputError(
            f"`--set` must be a setting and its value as in an audit file, got {text!r}.",
            """texts are in quotation marks: --set 'game.zero_run.origin="later"'""",
        )
    return list(_merge(found, change, ""))


def _merge(table: dict[str, Any], change: dict[str, Any], above: str) -> list[str]:
    keys = []
    for name, value in change.items():
        if isinstance(value, dict) and isinstance(table.get(name), dict):
            keys += _merge(table[name], value, f"{above}{name}.")
        else:
            table[name] = value
            keys += _keys(value, f"{above}{name}")
    return keys


def _keys(value: Any, above: str) -> list[str]:
    below = (
        [key for name, entry in value.items() for key in _keys(entry, f"{above}.{name}")]
        if isinstance(value, dict)
        else []
    )
    return [above, *below]


def _configured(found: dict[str, Any], file: Path, changed: set[str]) -> Configured:
    check_keys("", found, SECTIONS)
    tables = {name: _table(found, name, optional=True) or {} for name in ("claim", "audit", "execution")}
    stated = build(Claim, tables["claim"], "claim") if "claim" in found else None
    claim = None if stated is None else stated.bound()
    settings: Settings = build(Settings, {"name": file.stem, **tables["audit"]}, "audit")
    key, table = _game_table(found)
    execution: Execution = build(Execution, tables["execution"], "execution")
    game, derived = _planned(key, table, claim, settings, file)
    _check_accept(game, settings)
    settings = settings.effective(claim, planned="runs" in derived)
    of_settings = {"name": "the file's name", **({} if claim is None else {"delta": "that of the claim"})}
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    rows: list[tuple[str, Any, Parameters, dict[str, Any], dict[str, Any], dict[str, str]]] = [
        ("audit", Settings, dict(inspect.signature(Settings).parameters), values, tables["audit"], of_settings),
        (f"game.{key}", game.maker, settings_of(game.maker), game.keywords, table, derived),
        ("execution", Execution, dict(inspect.signature(Execution).parameters), {}, tables["execution"], {}),
    ]
    origins = [] if claim is None else _claim_rows(claim, tables["claim"], changed)
    origins += [line for row in rows for line in _rows(*row, changed)]
    source = "" if stated is None else stated.source
    return Configured(game, claim, source, settings, execution, tuple(origins))


def _planned(
    key: str, table: dict[str, Any], claim: UpperBound | None, settings: Settings, file: Path
) -> tuple[Planned, dict[str, str]]:
    """The game, and why each keyword that the file leaves out has its value."""
    maker, where = MAKERS[key], f"game.{key}"
    known = settings_of(maker)
    if settings.detects is not None and "runs" not in known:
        raise InputError(f"`detects` chooses the number of runs of `game.multi_run`; `{where}` has its own size.")
    check_keys(where, table, tuple(known))
    if settings.detects is not None and "runs" in table:
        raise InputError("`detects` chooses the number of runs, which this file gives.", "leave one of them out.")
    planned = Planned(key, table, file.parent, file.name)
    values, why = ({}, {}) if planned.reads_a_table else _derived(known, table, claim, settings)
    if (
        "relation" in known
        and known["relation"].default is inspect.Parameter.empty
        and "relation" not in {**table, **values}
    ):
        raise InputError(f"`{where}` needs `relation` where there is no claim.")
    if "runs" in known and "runs" not in table:
        values["runs"], why["runs"] = planned_runs(claim, settings), _caught(claim, settings)
    _check_needed(known, {**table, **values}, where)
    return Planned(key, {**table, **values}, file.parent, file.name), why


def _check_accept(game: Planned, settings: Settings) -> None:
    """Refuse an accepted id that no such game declares, before a table is read; evidence speaks for itself."""
    declared, kind = game.owner.assumptions, game.owner.evidence_type
    if not isinstance(declared, tuple):
        return
    analyses = (analysis_of(kind),) if isinstance(kind, type) else ANALYSES
    check_declared(settings.accept, (*declared, *(one for analysis in analyses for one in analysis.declared)))


def _derived(
    known: Parameters, table: dict[str, Any], claim: UpperBound | None, settings: Settings
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the claim says of a game whose file does not; a game of a table has it in its columns."""
    names = [name for name in ("relation", "unit") if name in known and name not in table and claim is not None]
    return {name: getattr(claim, name) for name in names}, dict.fromkeys(names, "that of the claim")


def _caught(claim: UpperBound | None, settings: Settings) -> str:
    return "" if claim is None else catches(claim, DETECTS if settings.detects is None else settings.detects)


def _game_table(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    games = _table(found, "game", optional=False) or {}
    check_keys("game", games, tuple(MAKERS))
    if len(games) != 1:
        raise InputError(f"`game` must name one of {', '.join(MAKERS)}, got {len(games)}.")
    key = next(iter(games))
    table = _table(games, key, optional=False)
    assert table is not None
    return key, table


def _table(found: dict[str, Any], name: str, *, optional: bool) -> dict[str, Any] | None:
    if name not in found:
        if optional:
            return None
        raise InputError(f"`{name}` is needed.", 'for example: game.multi_run.score = "audit.py:score"')
    if not isinstance(found[name], dict):
        raise InputError(f"`{name}` must be a table, got {found[name]!r}.")
    table: dict[str, Any] = found[name]
    return table


def check_keys(where: str, table: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a key that nobody reads, with the nearest name that somebody does."""
    if not isinstance(table, dict):
        raise InputError(f"`{where}` must be a table, got {table!r}.")
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}`?" if near else f"it knows {', '.join(allowed)}."
            raise InputError(f"`{where + '.' if where else ''}{key}` is not a setting.", hint)


def _check_needed(known: Parameters, table: dict[str, Any], where: str) -> None:
    for name, one in known.items():
        if one.default is inspect.Parameter.empty and name not in table:
            raise InputError(f"`{where}` needs `{name}`.")


def build(made: Any, table: dict[str, Any], where: str) -> Any:
    """What a table makes: keywords by name, unknown and missing ones refused."""
    known = dict(inspect.signature(made).parameters)
    check_keys(where, table, tuple(known))
    _check_needed(known, table, where)
    return made(**table)


# --------------------------------------------------------------------------------------------------------- explanations


def _claim_rows(claim: UpperBound, table: dict[str, Any], changed: set[str]) -> list[Origin]:
    said = {"delta": claim.delta, "unit": claim.unit}
    known = {name: one for name, one in inspect.signature(Claim).parameters.items() if name in {**table, **said}}
    method = f"derived: {claim.method}" if claim.method else "derived"
    bound = f"epsilon <= {round_up(claim.epsilon)} at delta {claim.delta:g}"
    return [*_rows("claim", Claim, known, {**said, **table}, table, {}, changed), ("claim", bound, method, "")]


def _rows(
    where: str,
    maker: Any,
    known: Parameters,
    values: dict[str, Any],
    table: dict[str, Any],
    derived: dict[str, str],
    changed: set[str],
) -> list[Origin]:
    """A line for every parameter; `table` is what the file and `--set` say."""
    meaning, rows = documented(maker), []
    for name, one in known.items():
        origin = f"derived: {derived[name]}" if name in derived else "default"
        if name in table:
            origin = "set" if any(f"{key}.".startswith(f"{where}.{name}.") for key in changed) else "given"
        value = table[name] if name in table else values.get(name, one.default)
        rows.append((f"{where}.{name}", str(value), origin, meaning.get(name, "")))
    return rows
