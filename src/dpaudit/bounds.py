"""What an audit says: bounds that remember how they were made, and the verdict on a claim.

A `LowerBound` comes from evidence and an `UpperBound` from an accountant or a promise. Each carries the adjacency
`relation` and the `unit` for which it holds; bounds of unlike relations, deltas or units are never compared. Sound
implications between relations are explicit functions (`on_substitute`, `on_add_remove`), never silent.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from enum import StrEnum
from typing import Any, Self

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.tradeoff import ApproximateDP, TradeOff


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
GAUSSIAN_ASSUMPTION = "the trade-off curve is Gaussian"


def relation(value: Relation | str) -> Relation:
    """The relation of that name; anything else is refused with the list of names."""
    return Relation(check.choice("relation", value, list(Relation)))


def round_down(value: float, digits: int = 2) -> str:
    """A lower bound as text, never above the number."""
    return _rounded(value, digits, ROUND_FLOOR)


def round_up(value: float, digits: int = 2) -> str:
    """An upper bound as text, never below the number."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, mode: str) -> str:
    if not math.isfinite(value):
        return "infinity" if value > 0 else "-infinity"
    with localcontext(prec=400):  # any float fits
        return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=mode):f}"


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
        "certified" (no assumption beyond the design of the game), "conditional" (holds if every sentence of
        `assumptions` does) or "estimate" (never a bound).
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
    assumptions: tuple[str, ...] = ()
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
    test: Callable[[float], float] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check.confidence(self.confidence)
        check.choice("guarantee", self.guarantee, GUARANTEES)
        object.__setattr__(self, "relation", relation(self.relation))
        for name in ("assumptions", "notes", "references"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.epsilon is not None and self.delta is None:
            raise InputError("`delta` is needed where epsilon is bounded.")
        if self.guarantee == "certified" and self.assumptions:
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them back (without `p_value`)."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "test"}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The bound that `to_dict` wrote; unknown fields are refused."""
        return _from_dict(cls, values)

    def __str__(self) -> str:
        return "\n".join([self._headline(), *(f"  {line}" for line in self._remarks())])

    def _headline(self) -> str:
        sign = "about" if self.guarantee == "estimate" else ">="
        parts = []
        if self.mu is not None:
            parts.append(f"mu {sign} {round_down(self.mu)}")
        elif self.theta is not None and (self.parameter != "epsilon" or self.epsilon is None):
            parts.append(f"{self.parameter} {sign} {round_down(self.theta)} in its family")
        if self.epsilon is not None:
            parts.append(f"epsilon {sign} {round_down(self.epsilon)} at delta {self.delta:g}")
        level = "an estimate, not a bound" if self.guarantee == "estimate" else f"{percent(self.confidence)} confidence"
        return f"{', '.join(parts)}   {level}, {self.relation} of one {self.unit}"

    def _remarks(self) -> list[str]:
        remarks = [f"{self.method}" + (f"; {self.selection}" if self.selection else "")]
        if self.size:
            remarks[0] = f"{self.size}; {remarks[0]}"
        remarks += [f"if {text}" for text in self.assumptions]
        remarks += [f"note: {text}" for text in self.notes]
        if self.capped:
            remarks.append("the search ended here: the evidence supports at least this much.")
        elif self.ceiling is not None:
            name = self.parameter
            remarks.append(f"an audit of this size could have shown {name} up to about {round_down(self.ceiling)}.")
        return remarks

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self), quote=False)}</pre>"


@dataclass(frozen=True, kw_only=True)
class UpperBound:
    """What is promised: (epsilon, delta) under a relation, and the trade-off curve that it came from.

    `curve` is pessimistic (never more private than the mechanism that is promised). A bare pair has none and is
    tested as the curve of all (epsilon, delta) mechanisms, which is weak: a curve says far more. `weaker(share)` is
    the curve of the same mechanism with that share of its noise, where the accountant knows it; `terms` restate the
    promise as an audit file does, such as {"mu": 1.0}, so that somebody else can account for it again.
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
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("curve", "weaker")}

    def __str__(self) -> str:
        mu = f"mu <= {round_up(self.mu)}, " if self.mu is not None else ""
        return (
            f"{mu}epsilon <= {round_up(self.epsilon)} at delta {self.delta:g}   "
            f"{self.method}, {self.relation} of one {self.unit}"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self), quote=False)}</pre>"


@dataclass(frozen=True, kw_only=True)
class RenyiBound:
    """Lower bounds on the Renyi divergence of two output laws, one for each order, from one confidence event.

    A Renyi value is not an (epsilon, delta) statement, and no conversion of lower bounds exists (THEORY 002-8).
    """

    orders: tuple[float, ...]
    divergences: tuple[float, ...]
    confidence: float
    relation: Relation
    method: str
    guarantee: str
    assumptions: tuple[str, ...] = ()
    selection: str | None = None
    unit: str = "record"
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check.confidence(self.confidence)
        check.choice("guarantee", self.guarantee, GUARANTEES)
        object.__setattr__(self, "relation", relation(self.relation))
        if len(self.orders) != len(self.divergences):
            raise InputError(f"`divergences` must match `orders`: {len(self.divergences)} against {len(self.orders)}.")
        for order in self.orders:
            check.number("orders", order, low=1.0, infinite=True)

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        return _from_dict(cls, values)

    def __str__(self) -> str:
        sign = "about" if self.guarantee == "estimate" else ">="
        rows = [f"D_{o:g} {sign} {round_down(d, 6)}" for o, d in zip(self.orders, self.divergences, strict=True)]
        level = "an estimate, not a bound" if self.guarantee == "estimate" else f"{percent(self.confidence)} confidence"
        lines = [f"{', '.join(rows)}   {level}, {self.relation} of one {self.unit}"]
        lines.append(f"  {self.method}" + (f"; {self.selection}" if self.selection else ""))
        return "\n".join([*lines, *(f"  if {text}" for text in self.assumptions)])


@dataclass(frozen=True, kw_only=True)
class ClosenessRegion:
    """PANORAMIA's joint statement: with probability `confidence`, c >= closeness and c + epsilon >= total.

    Where a closeness was `asserted`, the statement is c + epsilon >= total alone, and `closeness` only a check of it.
    It bounds no epsilon by itself. `epsilon(c)` does for a closeness c that the user answers for; `difference` is the
    papers' epsilon-tilde, an estimate. The relation is substitution: another real record was trained on instead.
    """

    closeness: float
    total: float
    confidence: float
    delta: float = 0.0
    closeness_slack: float = 0.0
    asserted: float | None = None
    ceiling: float | None = None
    selection: str | None = None
    assumptions: tuple[str, ...] = ()
    unit: str = "record"
    size: str | None = None
    references: tuple[str, ...] = ()
    relation: Relation = field(default=Relation.SUBSTITUTE, init=False)

    @property
    def difference(self) -> float:
        """total - closeness: an estimate, not a bound (THEORY 004-1)."""
        return max(0.0, self.total - self.closeness)

    def epsilon(self, closeness: float | None = None) -> LowerBound:
        """max(0, total - c), if the generator is c-close; refused for a c below what the baseline shows."""
        c = self.asserted if closeness is None else closeness
        if c is None:
            raise InputError("`closeness` is needed: epsilon is bounded only for an asserted closeness.")
        if check.number("closeness", c, low=0.0) < self.closeness:
            raise InputError(
                f"`closeness` must be at least {round_up(self.closeness)}, which the baseline shows, got {c:g}."
            )
        slack = f" but for a mass of {self.closeness_slack:g}" if self.closeness_slack else ""
        value = max(0.0, self.total - c)
        return LowerBound(
            epsilon=value,
            delta=self.delta,
            confidence=self.confidence,
            relation=self.relation,
            method="PANORAMIA, attack on real and generated records",
            guarantee="conditional",
            assumptions=(*self.assumptions, f"the generator is {c:g}-close{slack}"),
            theta=value,
            selection=self.selection,
            ceiling=None if self.ceiling is None else max(0.0, self.ceiling - c),
            unit=self.unit,
            size=self.size,
            references=self.references,
        )

    @property
    def reading(self) -> tuple[str, str]:
        """What the region says of epsilon: for an asserted closeness a bound, by itself an estimate."""
        half = "; half under add-remove" if self.delta == 0.0 and self.closeness_slack == 0.0 else ""
        return (
            f"epsilon >= {round_down(self.total)} - c, c being how close the generator is to real {self.unit}s{half}",
            f"estimate, not a bound: epsilon about {round_down(self.difference)}",
        )

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"difference_estimate": self.difference}

    def __str__(self) -> str:
        level = f"{percent(self.confidence)} confidence, {self.relation} of one {self.unit}, delta {self.delta:g}"
        total = f"c + epsilon >= {round_down(self.total)}"
        alone = self.asserted is not None  # then the whole error probability was spent on c + epsilon
        lines = [
            f"{total}   {level}" if alone else f"c >= {round_down(self.closeness)} and {total} together   {level}",
            f"  {self.size}; {self.selection}",
            *(f"  {text}" for text in self.reading),
            *(f"  if {text}" for text in self.assumptions),
        ]
        if self.asserted is not None:
            lines.append(f"  {str(self.epsilon()).splitlines()[0]}, if the generator is {self.asserted:g}-close")
        return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------- verdicts


class Outcome(StrEnum):
    """The words of a verdict, in the order in which they are considered."""

    NOT_COMPARABLE = "not comparable"
    CONTRADICTED = "contradicted"
    CONTRADICTED_IF = "contradicted if"
    UNINFORMATIVE = "uninformative"
    CONSISTENT = "consistent"
    NO_CLAIM = "no claim"
    FAILED = "failed"
    BLOCKED = "blocked"
    """An attack that never saw the system does as well, so no number is reported."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the evidence says about a claim, as a word and as a sentence.

    `assumptions` are those that it still rests on, `accepted` those that the user took on.
    """

    outcome: Outcome
    sentence: str
    confidence: float
    relation: Relation
    p_value: float | None = None
    assumptions: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    method: str | None = None

    @property
    def contradicted(self) -> bool:
        """The claim is refuted, with no assumption left that the user has not accepted."""
        return self.outcome is Outcome.CONTRADICTED

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self), quote=False)}</p>"


class NotComparable(InputError):
    """Bounds, or evidence and a claim, that speak about different things."""


def check_comparable(
    *, found: Relation, promised: Relation, found_unit: str, promised_unit: str, what: str = "the evidence"
) -> None:
    """Refuse to set side by side what holds for different relations or units."""
    if found != promised:
        raise NotComparable(
            f"the claim is under {promised} adjacency, {what} under {found}: the two cannot be compared.",
            "audit under the claim's relation, or use an explicit implication (`on_substitute`, `on_add_remove`).",
        )
    if found_unit != promised_unit:
        raise NotComparable(
            f"the claim protects one {promised_unit}, {what} is about one {found_unit}: the two cannot be compared.",
            "set `unit` of the evidence, or of the claim, to what it really stands for.",
        )


def compare(lower: LowerBound, upper: UpperBound, accept: Iterable[str] = ()) -> Verdict:
    """Set a lower bound beside a claim. `judge` tests the claim's own curve and has far more power.

    Unlike relation, delta or unit raises `NotComparable`. An estimate never decides. A conditional bound contradicts
    only under its assumptions, unless `accept` lists every one of them, each as the whole sentence.
    """
    check_comparable(
        found=lower.relation,
        promised=upper.relation,
        found_unit=lower.unit,
        promised_unit=upper.unit,
        what="the lower bound",
    )
    by_mu = upper.mu is not None and lower.mu is not None
    if not by_mu and (lower.epsilon is None or lower.delta != upper.delta):
        raise NotComparable(
            f"the claim is at delta {upper.delta:g}, the lower bound at {lower.delta}: the two cannot be compared.",
            "bound epsilon at the claim's delta, or move the claim with `upper.at(delta)`.",
        )
    # A bound on mu refutes the claim's own Gaussian curve, so it needs no assumption on the family.
    found, promised, name = (lower.mu, upper.mu, "mu") if by_mu else (lower.epsilon, upper.epsilon, "epsilon")
    assert found is not None
    assert promised is not None
    assumptions = tuple(a for a in lower.assumptions if not (by_mu and a == GAUSSIAN_ASSUMPTION))
    return decide(
        refuted=found > promised,
        decisive=lower.guarantee != "estimate",
        reachable=lower.ceiling is None or lower.parameter != name or lower.ceiling > promised,
        detail=f"{name} >= {round_down(found)} against {round_up(promised)} claimed",
        assumptions=assumptions,
        accept=accept,
        confidence=lower.confidence,
        relation=lower.relation,
        method=lower.method,
    )


def decide(
    *,
    refuted: bool,
    decisive: bool,
    reachable: bool,
    detail: str,
    assumptions: tuple[str, ...],
    accept: Iterable[str],
    confidence: float,
    relation: Relation,
    method: str | None,
    p_value: float | None = None,
) -> Verdict:
    """The verdict that follows, in the order of `Outcome`."""
    wanted = {sentence_key(text) for text in ([accept] if isinstance(accept, str) else accept)}
    left = tuple(text for text in assumptions if sentence_key(text) not in wanted)
    accepted = tuple(text for text in assumptions if sentence_key(text) in wanted)
    taken = f", accepting that {', and that '.join(accepted)}" if accepted else ""
    level = percent(confidence)
    if not decisive:
        outcome, sentence = Outcome.UNINFORMATIVE, f"Uninformative: an estimate never decides ({detail})."
    elif refuted and not left:
        outcome, sentence = Outcome.CONTRADICTED, f"Contradicted at {level} confidence: {detail}{taken}."
    elif refuted:
        outcome = Outcome.CONTRADICTED_IF
        sentence = f"Contradicted at {level} confidence ({detail}{taken}) if " + ", and if ".join(left) + "."
    elif not reachable:
        outcome = Outcome.UNINFORMATIVE
        sentence = f"Uninformative: not even a perfect attack of this size could have refuted the claim ({detail})."
    else:
        outcome = Outcome.CONSISTENT
        sentence = f"Consistent: this evidence does not contradict the claim ({detail})."
    return Verdict(
        outcome=outcome,
        sentence=sentence,
        confidence=confidence,
        relation=relation,
        p_value=p_value,
        assumptions=left,
        accepted=accepted,
        method=method,
    )


# ------------------------------------------------------------------------------------ implications between relations


def on_substitute(bound: LowerBound) -> LowerBound:
    """A lower bound under label replacement or zero-out is also one under substitution: its pairs are among them."""
    if bound.relation not in (Relation.LABEL, Relation.ZERO_OUT, Relation.SUBSTITUTE):
        raise NotComparable(f"a bound under {bound.relation} adjacency implies nothing as large under substitution.")
    return replace(bound, relation=Relation.SUBSTITUTE)


def on_add_remove(bound: LowerBound) -> LowerBound:
    """A substitution is a removal and an addition, so a bound on it halves (THEORY 1.6): pure epsilon, or mu.

    At delta > 0, (epsilon, delta) under add/remove implies (2 epsilon, (1 + e^epsilon) delta) under substitution, so
    halving epsilon at the same delta would over-claim; such a bound is refused.
    """
    if bound.relation is not Relation.SUBSTITUTE:
        raise NotComparable(f"only a bound under substitution halves to add/remove, got one under {bound.relation}.")
    if bound.delta:
        raise NotComparable(
            f"a bound at delta {bound.delta:g} does not halve.",
            "bound epsilon at delta 0, or mu without a delta.",
        )
    half = {n: getattr(bound, n) / 2.0 for n in ("epsilon", "mu", "theta", "ceiling") if getattr(bound, n) is not None}
    if bound.theta is not None and bound.parameter not in ("epsilon", "mu"):
        raise NotComparable(f"a bound on {bound.parameter} does not halve.")
    note = "halved from substitution to add/remove"
    return replace(bound, relation=Relation.ADD_REMOVE, notes=(*bound.notes, note), test=None, **half)


def sentence_key(text: str) -> str:
    """Sentences are the same whatever their case and full stop."""
    return text.strip().rstrip(".").casefold()


def percent(confidence: float) -> str:
    """A confidence as text, never above the number.

    >>> percent(0.95), percent(1 - 1e-9), percent(1.0 - 3 * 0.05)
    ('95%', '99.9999%', '85%')
    """
    shown = round_down(100.0 * (confidence + 1e-12), 4) if confidence < 1.0 - 1e-6 else "99.9999"
    return f"{shown.rstrip('0').rstrip('.')}%" if "." in shown else f"{shown}%"


def _from_dict(cls: Any, values: dict[str, Any]) -> Any:
    known = {f.name for f in fields(cls)} - {"test"}
    unknown = set(values) - known
    if unknown:
        raise InputError(f"unknown field {sorted(unknown)[0]!r} in a saved {cls.__name__}.")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
