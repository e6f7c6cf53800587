"""What a number rests on, and what tried to refute it: assumptions, checks and results, as values with stable ids.

An *assumption* says what must be true, and who answers for it. A *check* says which assumption it can refute, and what
follows if it does. A *result* is what a check found in one audit. All three are told apart by their ids, which people
write into audit files (`accept`) and find in records; their sentences are templates, filled in once.

A template is a text with fields in braces. A bound is printed with a rounding on the safe side: `{low:down}`
and `{high:up}` take digits as well (`{low:down4}`), `{level:percent}` is a confidence, `{rows:,}` a count.
"""

from __future__ import annotations

import hashlib
import math
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any, Self

from dpaudit import _validate as check
from dpaudit._validate import InputError

ANSWERED_BY = ("design", "auditor", "data holder", "developer")
"""Who answers for an assumption: the design of the game, by how we tossed and ran; or one of three people."""
OUTCOMES = ("passed", "refuted", "not-run", "measured")
ON_REFUTED = ("withhold", "fail", "warn")
"""What follows where a check refutes: no number is reported, the audit fails, or a remark stands beside the number."""
ON_MISSING = ("", "withhold")
"""What follows where a check could not be run: nothing, or no number unless what it would test is accepted."""


# ------------------------------------------------------------------------------------------------------------ templates


def round_down(value: float, digits: int = 2) -> str:
    """A lower bound as text, never above the number."""
    return _rounded(value, digits, ROUND_FLOOR)


def round_up(value: float, digits: int = 2) -> str:
    """An upper bound as text, never below the number."""
    return _rounded(value, digits, ROUND_CEILING)


def percent(confidence: float) -> str:
    """A confidence as text, never above the number.

    >>> percent(0.95), percent(1 - 1e-9), percent(1.0 - 3 * 0.05)
    ('95%', '99.9999%', '85%')
    """
    shown = round_down(100.0 * (confidence + 1e-12), 4) if confidence < 1.0 - 1e-6 else "99.9999"
    return f"{shown.rstrip('0').rstrip('.')}%" if "." in shown else f"{shown}%"


def p_value(value: float) -> str:
    """A p-value to two digits, rounded up."""
    if value <= 0.0:
        return "0"
    unit = max(check.TINY, 10.0 ** (math.floor(math.log10(value)) - 1))
    return f"{math.ceil(value / unit * (1.0 - 1e-12)) * unit:.2g}"


def _rounded(value: float, digits: int, mode: str) -> str:
    if not math.isfinite(value):
        return "infinity" if value > 0 else "-infinity"
    with localcontext(prec=400):  # any float fits
        return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=mode):f}"


class _Formatter(string.Formatter):
    """`str.format` with roundings that are safe for bounds."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if not field_name.isidentifier():  # no attributes, no entries: a template only names its fields
            raise ValueError(f"{field_name!r} is not the name of a field")
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> str:
        if re.search(r"\d{3}", format_spec):
            raise ValueError(f"{format_spec!r} is too wide")
        safe = re.fullmatch(r"(down|up)(\d*)", format_spec)
        if safe is not None:
            return (round_down if safe[1] == "down" else round_up)(value, int(safe[2] or 2))
        if format_spec == "percent":
            return percent(value)
        if format_spec == "p":
            return p_value(value)
        if format_spec == "list":
            return ", ".join(str(entry) for entry in value)
        return str(super().format_field(value, format_spec))


def filled(template: str, values: Mapping[str, Any]) -> str:
    """A template with its fields: how a value says what it has to say.

    >>> filled("epsilon >= {low:down} with {level:percent} confidence", {"low": 1.2399, "level": 0.95})
    'epsilon >= 1.23 with 95% confidence'
    """
    return _Formatter().vformat(template, (), values)


def fields_of(template: str) -> set[str]:
    """The names of the fields of a template."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in string.Formatter().parse(template) if name}


# ---------------------------------------------------------------------------------------------------------- assumptions


@dataclass(frozen=True, kw_only=True, eq=False)
class Assumption:
    """Something that a number rests on.

    Attributes
    ----------
    id
        Stable and short, such as "one-row-per-unit": what `accept` takes.
    sentence
        A template of its `values` and `details`, without a full stop.
    answered_by
        "design" (by how the game tosses and runs), "auditor", "data holder" or "developer".
    tested_by
        Ids of the checks that can refute it; without one nothing in the evidence can.
    values
        What is *asserted*, such as c = 1.2: part of the identity.
    details
        What was measured; printed only.
    theory
        Where the mathematics stands, such as "theory:one-run#f-dp".
    """

    id: str
    sentence: str
    answered_by: str
    tested_by: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    theory: str = ""

    def __post_init__(self) -> None:
        _check_id(self.id)
        check.choice("answered_by", self.answered_by, ANSWERED_BY)
        object.__setattr__(self, "tested_by", tuple(self.tested_by))
        object.__setattr__(self, "values", dict(self.values))
        object.__setattr__(self, "details", dict(self.details))

    @property
    def key(self) -> str:
        """The id, with what is asserted: "generator-divergence(c=1.2)"."""
        listed = ", ".join(f"{name}={_short(value)}" for name, value in self.values.items())
        return f"{self.id}({listed})" if listed else self.id

    @property
    def text(self) -> str:
        """The sentence, filled in."""
        return filled(self.sentence, {**self.details, **self.values})

    @property
    def by_design(self) -> bool:
        """Whether the design of the game answers for it: nobody has to be believed."""
        return self.answered_by == "design"

    def asserted(self, **values: Any) -> Self:
        """The same assumption with what is asserted."""
        return type(self)(**{**_fields(self), "values": {**self.values, **values}})

    def measured(self, **details: Any) -> Self:
        """The same assumption with what was measured."""
        return type(self)(**{**_fields(self), "details": {**self.details, **details}})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back."""
        return {**_fields(self), "tested_by": list(self.tested_by)}

    def check_filled(self) -> None:
        """Refuse a sentence whose fields have no values."""
        try:
            filled(self.sentence, {**self.details, **self.values})
        except (KeyError, ValueError, IndexError, TypeError) as problem:
            raise InputError(f"the sentence of assumption {self.id!r} cannot be filled in ({problem}).") from None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        found = cls(**values)
        found.check_filled()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assumption) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text


def as_assumption(value: Any) -> Assumption:
    """An assumption, or a plain sentence as one that the auditor answers for: its words are its id.

    Where the words do not give the whole sentence back, a short hash of it is added, so that two sentences never share
    an id; and no sentence gets an id that the library declares.

    >>> as_assumption("The runs are independent.").key
    'said-the-runs-are-independent'
    """
    if isinstance(value, Assumption):
        return value
    if not isinstance(value, str) or not re.search(r"[a-zA-Z0-9]", value):
        raise InputError(f"an assumption must be a sentence or an `Assumption`, got {value!r}.")
    plain = value.strip().rstrip(".")
    if re.fullmatch(r"said(-[a-z0-9]+)+", plain):  # such an id itself, as a saved bound names it
        return Assumption(id=plain, sentence=plain, answered_by="auditor")
    name = "-".join(re.findall(r"[a-z0-9]+", plain.lower()))[:60].strip("-")
    if name.replace("-", " ") != plain.lower():
        name = f"{name}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
    return Assumption(id=f"said-{name}", sentence=literal(plain), answered_by="auditor")


def literal(text: str) -> str:
    """A sentence as a template without fields."""
    return text.replace("{", "{{").replace("}", "}}")


def as_assumptions(values: Any) -> tuple[Assumption, ...]:
    """Several, from a list of assumptions or sentences."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError("`assumptions` must be a list of assumptions or sentences, got one text.")
    return tuple(as_assumption(value) for value in values)


def unique(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Each once, in the order of the first."""
    return tuple(dict.fromkeys(assumptions))


# --------------------------------------------------------------------------------------------------------------- accept


def accepted_keys(accept: Any) -> tuple[str, ...]:
    """What `accept` was given, as keys: ids, keys such as "shift(tau=0.01)", or the assumptions themselves."""
    given = [accept] if isinstance(accept, str | Assumption) else check.items("accept", accept)
    if isinstance(accept, dict) or not all(isinstance(one, str | Assumption) for one in given):
        raise InputError(f"`accept` must be a list of ids of assumptions, got {accept!r}.")
    return tuple(one.key if isinstance(one, Assumption) else one.strip() for one in given)


def split_by(accept: Any, assumptions: Iterable[Assumption]) -> tuple[tuple[Assumption, ...], tuple[Assumption, ...]]:
    """Which of these are accepted, and which are left; what the design answers for is neither."""
    keys, listed = set(accepted_keys(accept)), [one for one in assumptions if not one.by_design]
    return tuple(one for one in listed if one.key in keys), tuple(one for one in listed if one.key not in keys)


def check_declared(accept: Any, declared: Iterable[Assumption]) -> None:
    """Refuse an accepted id that nobody declares, or values that its sentence does not have, before anything is run."""
    known: dict[str, set[str]] = {}
    for one in declared:
        known.setdefault(one.id, set()).update(fields_of(one.sentence))
    for key in accepted_keys(accept):
        name, _, told = key.partition("(")
        if name not in known:
            near = check.nearest(key, sorted(known))
            ids = ", ".join(sorted(known)) or "nothing"
            hint = f"did you mean {near!r}?" if near else f"this audit can rest on {ids}."
            raise InputError(f"`accept` must name assumptions of this audit by their ids, got {key!r}.", hint)
        odd = [field for field in re.findall(r"(\w+)=", told) if field not in known[name]]
        if odd or ("=" not in told and told):
            said = ", ".join(sorted(known[name])) or "no value"
            raise InputError(f"`accept` names {key!r}, but assumption {name!r} asserts {said}.")


def refuted_ids(results: Iterable[CheckResult]) -> set[str]:
    """Ids of the assumptions that these results refute."""
    return {name for one in results if one.refuted for name in one.check.refutes}


# --------------------------------------------------------------------------------------------------------------- checks


@dataclass(frozen=True, kw_only=True)
class Check:
    """What tries to refute an assumption: a declaration, with the sentences for each way in which it can end.

    Attributes
    ----------
    passed, refuted, not_run, measured
        Templates of the result's numbers; `measured` is for checks that have no test.
    remedy
        What would help where it refutes, or is missing; may be empty.
    refutes
        Ids of the assumptions that it can refute; one alone may be given as a text.
    on_refuted
        "withhold" (no number is reported), "fail" or "warn".
    on_missing
        Where it could not be run: "" (the number is reported all the same) or "withhold" (it is not, unless whoever
        audits has accepted what the check would have tested).
    level
        The probability of a false alarm; None where nothing is tested.
    """

    id: str
    passed: str = ""
    refuted: str = ""
    not_run: str = ""
    measured: str = ""
    remedy: str = ""
    refutes: tuple[str, ...] | str = ()
    on_refuted: str = "withhold"
    on_missing: str = ""
    level: float | None = None
    theory: str = ""

    def __post_init__(self) -> None:
        _check_id(self.id)
        check.choice("on_refuted", self.on_refuted, ON_REFUTED)
        check.choice("on_missing", self.on_missing, ON_MISSING)
        named = (self.refutes,) if isinstance(self.refutes, str) else tuple(self.refutes)
        object.__setattr__(self, "refutes", tuple(name for name in named if name))
        if self.on_missing and not self.refutes:
            raise InputError(
                f"`refutes` of check {self.id!r} must name what is untested where it is missing, got none."
            )


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What a check found: its outcome, the p-value of its test if it has one, and numbers."""

    check: Check
    outcome: str
    p_value: float | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    figure: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check.choice("outcome", self.outcome, OUTCOMES)

    @property
    def refuted(self) -> bool:
        return self.outcome == "refuted"

    @property
    def withholds(self) -> bool:
        """Whether it refutes, and no number may be reported: nobody can accept what is refuted."""
        return self.refuted and self.check.on_refuted == "withhold"

    @property
    def missing(self) -> bool:
        """Whether it could not be run, and no number may be reported unless what it would test is accepted."""
        return self.outcome == "not-run" and self.check.on_missing == "withhold"

    @property
    def template(self) -> str:
        """The sentence of its outcome, to be filled with `fields`."""
        return str(getattr(self.check, self.outcome.replace("-", "_")))

    @property
    def clause(self) -> str:
        """The same without its full stop, where a sentence goes on around it."""
        return self.template.removesuffix(".")

    @property
    def fields(self) -> dict[str, Any]:
        """What its templates may speak of."""
        return {**self.numbers, "p_value": self.p_value, "level": self.check.level}

    @property
    def text(self) -> str:
        return filled(self.template, self.fields)

    @property
    def remedy(self) -> str:
        """What would help, filled in; empty unless it refutes or is missing."""
        return filled(self.check.remedy, self.fields) if self.refuted or self.missing else ""


def _check_id(value: Any) -> None:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", value):
        raise InputError(f"`id` must be lower-case words joined by hyphens, got {value!r}.")


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


__all__ = [
    "Assumption",
    "Check",
    "CheckResult",
    "accepted_keys",
    "as_assumption",
    "as_assumptions",
    "check_declared",
    "fields_of",
    "filled",
    "p_value",
    "percent",
    "refuted_ids",
    "round_down",
    "round_up",
    "split_by",
    "unique",
]
