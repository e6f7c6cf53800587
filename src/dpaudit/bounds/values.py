"""Bounds that remember how they were made, and the adjacency for which they hold.

A `LowerBound` comes from evidence and an `UpperBound` from an accountant or a promise. Each carries the adjacency
`relation` and the `unit` for which it holds; bounds of unlike relations, deltas or units are never compared.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, as_assumptions, filled, round_up
from dpaudit.tradeoff import GAUSSIAN, ApproximateDP, Family, TradeOff


class Relation(StrEnum):
    """Which pairs of data sets a promise, or a bound, speaks about."""

    ADD_REMOVE = "add-remove"
    """One record more or less."""
    SUBSTITUTE = "substitute"
    """One record replaced by any other."""
    ZERO_OUT = "zero-out"
    """One record replaced by a null record."""
    LABEL = "label"
    """The protected attribute of one record replaced, the rest of it kept."""


GUARANTEES = ("certified", "conditional", "estimate")
CURVE_FAMILY = Assumption(
    id="curve-family",
    sentence="the trade-off curve is {family}",
    answered_by="developer",
    theory="theory:multi-run#families",
)
"""What a converted epsilon rests on, where a family of curves was fitted."""
GAUSSIAN_ASSUMPTION = replace(CURVE_FAMILY, id="gaussian-curve", sentence="the trade-off curve is Gaussian")
HEADLINE = "{numbers}   {level}, {relation} of one {unit}"
CONFIDENT = "{confidence:percent} confidence"
ESTIMATE = "an estimate, not a bound"
ON_MU = "mu {sign} {mu:down}"
ON_THETA = "{parameter} {sign} {theta:down} in its family"
ON_EPSILON = "epsilon {sign} {epsilon:down} at delta {delta:g}"
STATEMENT = "lower bound on {parameter}"
IF = "if {assumption}"
NOTE = "note: {note}"
CAPPED = "the search ended here: the evidence supports at least this much."
REACH = "an audit of this size could have shown {parameter} up to about {ceiling:down}."


def relation(value: Relation | str) -> Relation:
    """The relation of that name; anything else is refused with the list of names."""
    return Relation(check.choice("relation", value, list(Relation)))


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """A lower bound on a privacy parameter, or an estimate of one when `guarantee` says so.

    With probability at least `confidence` over the audit, the system is not (epsilon', delta)-DP for any
    epsilon' < `epsilon` under `relation`; likewise it is not mu'-Gaussian-DP for any mu' < `mu`. It says nothing about
    how private the system is: a bound of 0 is no evidence, not a clean bill.

    Attributes
    ----------
    epsilon, delta, mu, theta
        What is bounded; None where it is not. `theta` is the family's own parameter (`parameter` names it).
    guarantee
        "certified" (the design of the game answers for all it rests on), "conditional" (holds if all of `assumptions`
        do) or "estimate" (never a bound).
    ceiling
        The largest value that an audit of this size could have shown with a perfect attack.
    capped
        Every hypothesis up to the end of the search was rejected; the true bound is at least this.
    """

    epsilon: float | None
    delta: float | None
    confidence: float
    relation: Relation
    method: str
    guarantee: str
    assumptions: tuple[Assumption, ...] = ()
    mu: float | None = None
    theta: float | None = None
    parameter: str = "epsilon"
    family: str | None = None
    guesses: int | None = None
    correct: int | None = None
    selection: str | None = None
    ceiling: float | None = None
    unit: str = "record"
    size: str | None = None
    capped: bool = False
    simultaneous: int = 1
    notes: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    theory: str = ""
    test: Callable[[float], float] | None = field(default=None, repr=False, compare=False)

    kind: ClassVar[str] = "lower-bound"
    digits: ClassVar[int] = 2
    """Shown of the number, rounded down."""

    def __post_init__(self) -> None:
        check.confidence(self.confidence)
        check.choice("guarantee", self.guarantee, GUARANTEES)
        object.__setattr__(self, "relation", relation(self.relation))
        object.__setattr__(self, "assumptions", as_assumptions(self.assumptions))
        for name in ("notes", "references"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.epsilon is not None and self.delta is None:
            raise InputError("`delta` is needed where epsilon is bounded.")
        if self.guarantee == "certified" and not all(one.by_design for one in self.assumptions):
            raise InputError("a certified bound has no assumptions beyond the game's design.")

    @property
    def value(self) -> float | None:
        """The number that was found by test inversion: epsilon, mu or theta, as `parameter` says."""
        if self.theta is not None:
            return self.theta
        return self.mu if self.parameter == "mu" else self.epsilon

    def p_value(self, theta: float) -> float:
        """p-value of the hypothesis `parameter` <= theta, as this audit tested it."""
        if self.test is None:
            raise InputError(
                "this bound carries no test: it was read from a record, or off Clopper-Pearson limits.",
                "estimate again from its evidence, with test='fisher' for runs.",
            )
        return self.test(theta)

    @property
    def reading(self) -> tuple[str, ...]:
        """What a bound says besides its number: nothing."""
        return ()

    @property
    def short_name(self) -> str:
        """What a table calls the number."""
        return self.parameter

    @property
    def statement(self) -> str:
        """What a confidence budget calls it."""
        return filled(STATEMENT, {"parameter": self.parameter})

    @property
    def ceilings(self) -> dict[str, float]:
        """What a perfect attack of this size could have shown, by parameter."""
        return {} if self.ceiling is None else {self.parameter: self.ceiling}

    def on_epsilon(self) -> LowerBound:
        """The bound on epsilon that it is."""
        return self

    def metrics(self) -> dict[str, float]:
        """The number for an experiment tracker."""
        word = "estimate" if self.guarantee == "estimate" else "lower"
        return {} if self.value is None else {f"{self.parameter.replace(' ', '_')}_{word}": self.value}

    def paid_for(self, attempts: int, confidence: float) -> Self:
        """The same bound as one of several attempts, each made at its share: at the confidence of all together."""
        test = self.test
        paid = None if test is None else lambda theta: min(1.0, attempts * test(theta))
        return replace(self, confidence=confidence, test=paid)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back (without `p_value`)."""
        return to_dict(self, leave_out=("test",))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The bound that `to_dict` wrote; unknown fields are refused."""
        return _from_dict(cls, values)

    def __str__(self) -> str:
        return "\n".join([self.headline(), *(f"  {line}" for line in self._remarks())])

    def headline(self) -> str:
        """The number, its confidence, and for what it holds."""
        shown = {name: getattr(self, name) for name in ("parameter", "mu", "theta", "epsilon", "delta")}
        shown["sign"] = _sign(self)
        numbers = []
        if self.mu is not None:
            numbers.append(filled(ON_MU, shown))
        elif self.theta is not None and (self.parameter != "epsilon" or self.epsilon is None):
            numbers.append(filled(ON_THETA, shown))
        if self.epsilon is not None:
            numbers.append(filled(ON_EPSILON, shown))
        return _headline(self, numbers)

    def _remarks(self) -> list[str]:
        remarks = ["; ".join(part for part in (self.size, self.method, self.selection) if part)]
        remarks += [filled(IF, {"assumption": one}) for one in self.assumptions]
        remarks += [filled(NOTE, {"note": note}) for note in self.notes]
        if self.capped:
            remarks.append(CAPPED)
        elif self.ceiling is not None:
            remarks.append(filled(REACH, {"parameter": self.parameter, "ceiling": self.ceiling}))
        return remarks

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self), quote=False)}</pre>"


def _sign(bound: LowerBound | RenyiBound) -> str:
    return "about" if bound.guarantee == "estimate" else ">="


def _headline(bound: LowerBound | RenyiBound, numbers: Iterable[str]) -> str:
    """Numbers, how sure they are, and for what they hold."""
    level = ESTIMATE if bound.guarantee == "estimate" else filled(CONFIDENT, {"confidence": bound.confidence})
    shown = {"numbers": ", ".join(numbers), "level": level, "relation": bound.relation, "unit": bound.unit}
    return filled(HEADLINE, shown)


PROMISE = "{mu}epsilon <= {epsilon:up} at delta {delta:g}   {method}, {relation} of one {unit}"
PROMISED_MU = "mu <= {mu:up}, "


@dataclass(frozen=True, kw_only=True)
class UpperBound:
    """What is promised: (epsilon, delta) under a relation, and the trade-off curve that it came from.

    `curve` is pessimistic (never more private than the mechanism that is promised). A bare pair has none and is
    tested as the curve of all (epsilon, delta) mechanisms, which is weak: a curve says far more. `weaker(share)` is
    the curve of the same mechanism with that share of its noise, where the accountant knows it; `terms` restate the
    promise as an audit file does, such as {"mu": 1.0}, so that somebody else can account for it again.
    `family(relation)` are the curves of such mechanisms, whatever their noise, where the accountant knows them.
    """

    epsilon: float
    delta: float
    relation: Relation
    curve: TradeOff | None = field(default=None, repr=False, compare=False)
    method: str = "stated"
    mu: float | None = None
    unit: str = "record"
    references: tuple[str, ...] = ()
    terms: dict[str, Any] | None = field(default=None, compare=False)
    weaker: Callable[[float], TradeOff] | None = field(default=None, repr=False, compare=False)
    family: Callable[[Relation], Family | None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=0.0, infinite=True)
        check.delta(self.delta)
        object.__setattr__(self, "relation", relation(self.relation))

    @property
    def hypothesis(self) -> TradeOff:
        """The curve that a test of this claim tests."""
        return self.curve if self.curve is not None else ApproximateDP(self.epsilon, self.delta)

    def with_noise(self, share: float) -> TradeOff:
        """The curve of the same mechanism with only this share of its noise: what an audit should be able to catch."""
        part = check.number("share", share, low=5e-324, high=1.0)
        if self.weaker is not None:
            return self.weaker(part)
        if self.curve is None and math.isfinite(self.epsilon):
            return ApproximateDP(self.epsilon / part, self.delta)
        raise InputError(f"what less noise would mean is not known for a claim by: {self.method}.", "give `runs`.")

    def at(self, delta: float) -> UpperBound:
        """The same promise read off its curve at another delta, rounded up."""
        delta = check.delta(delta)
        epsilon = self.hypothesis.epsilon(delta) * (1.0 + 1e-9)
        return replace(self, epsilon=epsilon, delta=delta)

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, leave_out=("curve", "weaker", "family"))

    def __str__(self) -> str:
        shown = {name: getattr(self, name) for name in ("epsilon", "delta", "method", "relation", "unit")}
        mu = "" if self.mu is None else filled(PROMISED_MU, {"mu": self.mu})
        return filled(PROMISE, {**shown, "mu": mu})

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self), quote=False)}</pre>"


OF_ORDER = "D_{order:g}"
DIVERGENCE = "{name} {sign} {value:down6}"


@dataclass(frozen=True, kw_only=True)
class RenyiBound:
    """Lower bounds on the Renyi divergence of two output distributions, one for each order, from one confidence event.

    A Renyi value is not an (epsilon, delta) statement, and no conversion of lower bounds exists
    (theory:private-prediction#pure-dp).
    """

    orders: tuple[float, ...]
    divergences: tuple[float, ...]
    confidence: float
    relation: Relation
    method: str
    guarantee: str
    assumptions: tuple[Assumption, ...] = ()
    selection: str | None = None
    unit: str = "record"
    references: tuple[str, ...] = ()
    theory: str = ""

    kind: ClassVar[str] = "renyi-divergence"
    digits: ClassVar[int] = 4
    parameter: ClassVar[str] = "Renyi divergence"
    statement: ClassVar[str] = "lower bounds on Renyi divergences"
    ceiling: ClassVar[None] = None
    ceilings: ClassVar[dict[str, float]] = {}

    def __post_init__(self) -> None:
        check.confidence(self.confidence)
        check.choice("guarantee", self.guarantee, GUARANTEES)
        object.__setattr__(self, "relation", relation(self.relation))
        object.__setattr__(self, "assumptions", as_assumptions(self.assumptions))
        if len(self.orders) != len(self.divergences):
            raise InputError(f"`divergences` must match `orders`: {len(self.divergences)} against {len(self.orders)}.")
        for order in self.orders:
            check.number("orders", order, low=1.0, infinite=True)

    @property
    def reading(self) -> tuple[str, ...]:
        """What a bound says besides its number: nothing."""
        return ()

    @property
    def short_name(self) -> str:
        return filled(OF_ORDER, {"order": self.orders[0]})

    @property
    def value(self) -> float:
        """The divergence at the first order."""
        return self.divergences[0]

    def on_epsilon(self) -> LowerBound:
        raise InputError("no bound on epsilon follows from a Renyi divergence at one delta.")

    def metrics(self) -> dict[str, float]:
        return {}

    def paid_for(self, attempts: int, confidence: float) -> Self:
        return replace(self, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return _from_dict(cls, values)

    def headline(self) -> str:
        """The divergences, their confidence, and for what they hold."""
        names = [filled(OF_ORDER, {"order": order}) for order in self.orders]
        pairs = zip(names, self.divergences, strict=True)
        return _headline(
            self, [filled(DIVERGENCE, {"name": name, "sign": _sign(self), "value": value}) for name, value in pairs]
        )

    def __str__(self) -> str:
        how = "; ".join(part for part in (self.method, self.selection) if part)
        lines = [how, *(filled(IF, {"assumption": one}) for one in self.assumptions)]
        return "\n".join([self.headline(), *(f"  {line}" for line in lines)])


GENERATOR_DIVERGENCE = Assumption(
    id="generator-divergence",
    sentence="real records are at most e^{c:g} times as likely as generated ones",
    answered_by="auditor",
    tested_by=("asserted-divergence",),
    theory="theory:panoramia#asserted",
)
"""What an asserted divergence c of the generator says; `slack` is the mass for which it need not hold."""
WITH_SLACK = replace(GENERATOR_DIVERGENCE, sentence=GENERATOR_DIVERGENCE.sentence + ", except a mass of {slack:g}")
REGION = "{total}   {confidence:percent} confidence, {relation} of one {unit}, delta {delta:g}"
TOTAL = "c + epsilon >= {total:down}"
TOGETHER = "c >= {value:down} and {total} together"
LESS_C = "epsilon >= {total:down} - c, c being how far the generator is from real {unit}s{half}"
HALF = "; half under add-remove"
DIFFERENCE = "estimate, not a bound: epsilon about {value:down}"
ALIKE = "non-members-alike"
"""The id of the assumption that the others are real records too: it says that the divergence is 0."""


@dataclass(frozen=True, kw_only=True)
class PanoramiaRegion:
    """PANORAMIA's joint statement: with probability `confidence`, c >= divergence and c + epsilon >= total.

    c is the generator's divergence, the log of how much likelier real records can be than generated ones. Where one was
    `asserted`, the statement is c + epsilon >= total alone, and `divergence` only a check of it. It bounds no epsilon
    by itself. `epsilon(c)` does for a c that the user answers for; `difference` is the paper's epsilon-tilde, an
    estimate. The relation is substitution: another real record was trained on instead.
    """

    divergence: float
    total: float
    confidence: float
    delta: float = 0.0
    divergence_slack: float = 0.0
    asserted: float | None = None
    ceiling: float | None = None
    selection: str | None = None
    assumptions: tuple[Assumption, ...] = ()
    unit: str = "record"
    size: str | None = None
    references: tuple[str, ...] = ()
    theory: str = ""
    relation: Relation = field(default=Relation.SUBSTITUTE, init=False)

    kind: ClassVar[str] = "panoramia-region"
    digits: ClassVar[int] = 2
    parameter: ClassVar[str] = "c + epsilon"
    short_name: ClassVar[str] = "c + epsilon"
    statement: ClassVar[str] = "joint region of c and epsilon"
    guarantee: ClassVar[str] = "conditional"
    ceilings: ClassVar[dict[str, float]] = {}

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", as_assumptions(self.assumptions))

    @property
    def value(self) -> float:
        """The lower bound on c + epsilon."""
        return self.total

    @property
    def difference(self) -> float:
        """total - divergence: an estimate, not a bound (theory:panoramia#difference)."""
        return max(0.0, self.total - self.divergence)

    def epsilon(self, divergence: float | None = None) -> LowerBound:
        """max(0, total - c), if the divergence is at most c; refused for a c below what the baseline shows."""
        c = self.asserted if divergence is None else divergence
        if c is None:
            raise InputError("`divergence` is needed: epsilon is bounded only for one that is asserted.")
        if check.number("divergence", c, low=0.0) < self.divergence:
            raise InputError(
                f"`divergence` must be at least {round_up(self.divergence)}, which the baseline shows, got {c:g}."
            )
        rests = GENERATOR_DIVERGENCE if not self.divergence_slack else WITH_SLACK.asserted(slack=self.divergence_slack)
        others = tuple(one for one in self.assumptions if one.id != GENERATOR_DIVERGENCE.id)
        said = c == 0.0 and any(one.id == ALIKE for one in others)
        value = max(0.0, self.total - c)
        return LowerBound(
            epsilon=value,
            delta=self.delta,
            confidence=self.confidence,
            relation=self.relation,
            method="PANORAMIA, attack on real and generated records",
            guarantee="conditional",
            assumptions=others if said else (*others, rests.asserted(c=c)),
            theta=value,
            selection=self.selection,
            ceiling=None if self.ceiling is None else max(0.0, self.ceiling - c),
            unit=self.unit,
            size=self.size,
            references=self.references,
            theory=self.theory,
        )

    @property
    def reading(self) -> tuple[str, str]:
        """What the region says of epsilon: for an asserted divergence a bound, by itself an estimate."""
        half = HALF if self.delta == 0.0 and self.divergence_slack == 0.0 else ""
        return (
            filled(LESS_C, {"total": self.total, "unit": self.unit, "half": half}),
            filled(DIFFERENCE, {"value": self.difference}),
        )

    def on_epsilon(self) -> LowerBound:
        """Epsilon for the divergence that was asserted."""
        return self.epsilon()

    def metrics(self) -> dict[str, float]:
        return {}

    def paid_for(self, attempts: int, confidence: float) -> Self:
        return replace(self, confidence=confidence)

    def to_dict(self) -> dict[str, Any]:
        return {**to_dict(self, leave_out=("relation",)), "difference_estimate": self.difference}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return _from_dict(cls, {name: value for name, value in values.items() if name != "relation"})

    def headline(self) -> str:
        """The joint statement, its confidence, and for what it holds."""
        shown = {name: getattr(self, name) for name in ("confidence", "relation", "unit", "delta")}
        total = filled(TOTAL, {"total": self.total})
        if self.asserted is None:  # else the whole error probability was spent on c + epsilon
            total = filled(TOGETHER, {"value": self.divergence, "total": total})
        return filled(REGION, {**shown, "total": total})

    def __str__(self) -> str:
        lines = [f"{self.size}; {self.selection}", *self.reading]
        lines += [filled(IF, {"assumption": one}) for one in self.assumptions]
        if self.asserted is not None:
            found = self.epsilon()
            more = [one for one in found.assumptions if one not in self.assumptions]
            lines.append(", if ".join([found.headline(), *map(str, more)]))
        return "\n".join([self.headline(), *(f"  {line}" for line in lines)])


class Bound(Protocol):
    """What an audit reports of a parameter: a number, how sure it is, for what it holds, and what it rests on."""

    kind: ClassVar[str]
    digits: ClassVar[int]

    @property
    def short_name(self) -> str: ...
    @property
    def parameter(self) -> str: ...
    @property
    def reading(self) -> tuple[str, ...]: ...
    @property
    def value(self) -> float | None: ...
    @property
    def confidence(self) -> float: ...
    @property
    def relation(self) -> Relation: ...
    @property
    def unit(self) -> str: ...
    @property
    def assumptions(self) -> tuple[Assumption, ...]: ...
    @property
    def guarantee(self) -> str: ...
    @property
    def selection(self) -> str | None: ...
    @property
    def statement(self) -> str: ...
    @property
    def ceilings(self) -> dict[str, float]: ...
    @property
    def theory(self) -> str: ...
    def headline(self) -> str: ...
    def metrics(self) -> dict[str, float]: ...
    def on_epsilon(self) -> LowerBound: ...
    def paid_for(self, attempts: int, confidence: float) -> Self: ...
    def to_dict(self) -> dict[str, Any]: ...


BOUNDS: dict[str, Any] = {made.kind: made for made in (LowerBound, RenyiBound, PanoramiaRegion)}
"""The bounds that a record knows, by kind."""


def family_assumption(family: Family) -> Assumption:
    """What an epsilon rests on that was converted from a bound on the parameter of this family."""
    return GAUSSIAN_ASSUMPTION if family is GAUSSIAN else CURVE_FAMILY.asserted(family=family.name)


def convert(family: Family, theta: float, delta: float | None) -> tuple[float | None, tuple[Assumption, ...]]:
    """The epsilon that a bound on theta implies, and the assumption it rests on; an infinite one is no finding."""
    if delta is None:
        return None, ()
    epsilon = family.epsilon(theta, delta)
    return (epsilon, (family_assumption(family),)) if epsilon < math.inf else (None, ())


def guarantee_of(assumptions: Iterable[Assumption], *, estimate: bool = False) -> str:
    """What may be said of a number that rests on these."""
    if estimate:
        return "estimate"
    return "certified" if all(one.by_design for one in assumptions) else "conditional"


def to_dict(value: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a bound or verdict; assumptions by their keys, which a record lists once."""
    found = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in leave_out}
    for name in ("assumptions", "accepted"):
        if name in found:
            found[name] = [one.key for one in found[name]]
    return found


def _from_dict(cls: Any, values: dict[str, Any]) -> Any:
    known = {f.name for f in fields(cls) if f.init} - {"test"}
    unknown = set(values) - known
    if unknown:
        raise InputError(f"unknown field {sorted(unknown)[0]!r} in a saved {cls.kind}.")
    return cls(**{name: tuple(entry) if isinstance(entry, list) else entry for name, entry in values.items()})
