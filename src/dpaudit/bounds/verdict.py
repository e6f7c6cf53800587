"""What the evidence says about a claim: the verdict, by outcome, and implications between relations."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from dpaudit._validate import InputError
from dpaudit.assumptions import (
    Assumption,
    filled,
    split_by,
)
from dpaudit.bounds.values import GAUSSIAN_ASSUMPTION, LowerBound, Relation, UpperBound, to_dict
from dpaudit.tradeoff import Family


class Outcome(StrEnum):
    """The words of a verdict, in the order in which they are considered."""

    NOT_COMPARABLE = "not comparable"
    CONTRADICTED = "contradicted"
    CONTRADICTED_IF = "contradicted if"
    UNINFORMATIVE = "uninformative"
    CONSISTENT = "consistent"
    NO_CLAIM = "no claim"
    FAILED = "failed"
    WITHHELD = "assumption refuted"
    """A control shows that what the number rests on does not hold, so none is reported."""
    BROKEN = "premise broken"
    """A check shows that the system is not what the promise is about: a finding, and no bound."""


VERDICTS = {
    Outcome.NOT_COMPARABLE: "Not comparable: {detail}",
    Outcome.CONTRADICTED: "Contradicted at {confidence:percent} confidence: {detail}{taken}.",
    Outcome.CONTRADICTED_IF: "Contradicted at {confidence:percent} confidence ({detail}{taken}) if {conditions}.",
    Outcome.UNINFORMATIVE: "Uninformative: {detail}.",
    Outcome.CONSISTENT: "Consistent: this evidence does not contradict the claim ({detail}).",
    Outcome.NO_CLAIM: "No claim was given, so there is nothing to contradict.",
    Outcome.FAILED: "Failed: {detail}.",
    Outcome.WITHHELD: "No number is reported: {detail}",
    Outcome.BROKEN: "A premise is broken: {detail}",
}
"""The sentence of each outcome; `detail` is that of the test."""
NEVER_DECIDES = "an estimate never decides ({detail})"
OUT_OF_REACH = "not even a perfect attack of this size could have refuted the claim ({detail})"
NOT_SEEN = "this attack was not shown to see a leak that is known to be there ({detail})"
TWO_NUMBERS = "{parameter} >= {found:down} against {promised:up} claimed"
PLAIN = "{detail}"
TAKEN = ", accepting that {accepted}"
TAKEN_BY_NUMBER = ", accepting [{numbers}]"
HOLDS, HOLD = "[{numbers}] holds", "[{numbers}] hold"
"""Of one assumption and of several, where a record lists them with numbers."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the evidence says about a claim, as a word and as a sentence.

    Attributes
    ----------
    assumptions, accepted
        What it still rests on, and what the user took on.
    detail, numbers
        The test in words: a template and its fields, beside the p-value.
    frame
        What is said of the detail: a template around it.
    written
        The sentence as a record keeps it; None: it is made of the rest.
    """

    outcome: Outcome
    confidence: float
    relation: Relation
    p_value: float | None = None
    assumptions: tuple[Assumption, ...] = ()
    accepted: tuple[Assumption, ...] = ()
    method: str | None = None
    detail: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)
    frame: str = PLAIN
    written: str | None = field(default=None, compare=False)

    @property
    def contradicted(self) -> bool:
        """The claim is refuted, with no assumption left that the user has not accepted."""
        return self.outcome is Outcome.CONTRADICTED

    @property
    def sentence(self) -> str:
        """The verdict in words, with all that it rests on."""
        taken = filled(TAKEN, {"accepted": ", and that ".join(map(str, self.accepted))}) if self.accepted else ""
        return self._said(taken, ", and if ".join(map(str, self.assumptions)))

    def by_numbers(self, numbers_of: Callable[[tuple[Assumption, ...]], str]) -> str:
        """The verdict in words where assumptions are listed: it refers to their numbers there."""
        taken = filled(TAKEN_BY_NUMBER, {"numbers": numbers_of(self.accepted)}) if self.accepted else ""
        one = len(self.assumptions) == 1
        return self._said(taken, filled(HOLDS if one else HOLD, {"numbers": numbers_of(self.assumptions)}))

    def _said(self, taken: str, conditions: str) -> str:
        if self.written is not None:
            return self.written
        values = {"p_value": self.p_value, **self.numbers, "confidence": self.confidence}
        detail = filled(self.frame, {"detail": filled(self.detail, values)})
        return filled(VERDICTS[self.outcome], {**values, "detail": detail, "taken": taken, "conditions": conditions})

    def paid_for(self, attempts: int, confidence: float) -> Self:
        """The same verdict as one of several attempts, each made at its share: at the confidence of all together."""
        p_value = None if self.p_value is None else min(1.0, attempts * self.p_value)
        return replace(self, confidence=confidence, p_value=p_value)

    def of_blind_attack(self) -> Self:
        """The same verdict where a planted leak was not seen: then "consistent" may not be said."""
        if self.outcome is not Outcome.CONSISTENT:
            return self
        return replace(self, outcome=Outcome.UNINFORMATIVE, frame=NOT_SEEN)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the sentence among them."""
        return {**to_dict(self, leave_out=("detail", "numbers", "frame", "written")), "sentence": self.sentence}

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


def compare(lower: LowerBound, upper: UpperBound, accept: Any = ()) -> Verdict:
    """Set a lower bound beside a claim. `judge` tests the claim's own curve and has far more power.

    Unlike relation, delta or unit raises `NotComparable`. An estimate never decides. A conditional bound contradicts
    only under its assumptions, unless `accept` lists every one of them by its id.
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
    assumptions = tuple(one for one in lower.assumptions if not (by_mu and one.id == GAUSSIAN_ASSUMPTION.id))
    return decide(
        refuted=found > promised,
        decisive=lower.guarantee != "estimate",
        reachable=lower.ceiling is None or lower.parameter != name or lower.ceiling > promised,
        detail=TWO_NUMBERS,
        numbers={"parameter": name, "found": found, "promised": promised},
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
    numbers: dict[str, Any],
    assumptions: tuple[Assumption, ...],
    accept: Any,
    confidence: float,
    relation: Relation,
    method: str | None,
    p_value: float | None = None,
) -> Verdict:
    """The verdict that follows, in the order of `Outcome`; `detail` is a template of the test, with its `numbers`."""
    accepted, left = split_by(accept, assumptions)
    frame = PLAIN
    if not decisive:
        outcome, frame = Outcome.UNINFORMATIVE, NEVER_DECIDES
    elif refuted:
        outcome = Outcome.CONTRADICTED_IF if left else Outcome.CONTRADICTED
    elif not reachable:
        outcome, frame = Outcome.UNINFORMATIVE, OUT_OF_REACH
    else:
        outcome = Outcome.CONSISTENT
    return Verdict(
        outcome=outcome,
        confidence=confidence,
        relation=relation,
        p_value=p_value,
        assumptions=left,
        accepted=accepted,
        method=method,
        detail=detail,
        numbers=numbers,
        frame=frame,
    )


def on_substitute(bound: LowerBound) -> LowerBound:
    """A lower bound under label replacement or zero-out is also one under substitution: its pairs are among them.

    See theory:adjacency#inclusions.
    """
    if bound.relation not in (Relation.LABEL, Relation.ZERO_OUT, Relation.SUBSTITUTE):
        raise NotComparable(f"a bound under {bound.relation} adjacency implies nothing as large under substitution.")
    return replace(bound, relation=Relation.SUBSTITUTE)


def on_add_remove(bound: LowerBound) -> LowerBound:
    """A substitution is a removal and an addition, so a bound on it halves: pure epsilon, or mu.

    See theory:adjacency#halving.

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


def check_family(family: Family, found: Relation) -> None:
    """Refuse curves that were made for another adjacency."""
    if family.relation is not None and family.relation != found:
        raise NotComparable(
            f"the family is for {family.relation} adjacency, the evidence for {found}: the two cannot be compared."
        )
