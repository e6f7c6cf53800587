"""What an audit may be told besides its game and its claim."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import accepted_keys
from dpaudit.bounds import UpperBound

DELTA = 1e-5
DETECTS = 0.5


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
