"""What a game is: a value that can be played, and what comes of a play.

A game knows its coins before anything runs, and `plan` says all that is fixed before the data. A *play* is what came of
it: evidence, controls of which the answer is known, what was measured beside, and comparisons. Who audits never asks
which game it was: whatever a game has to say stands in its play.

A game of one's own is a frozen dataclass with the names of `Game`; `dpaudit.testing.check_game` says whether it keeps
the protocol.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.bounds import Relation
from dpaudit.evidence import Evidence
from dpaudit.execution import Execution, RunStore, call_name
from dpaudit.execution import fingerprint as described

PLACEBO, PLANTED = "placebo", "planted"
"""Kinds of controls: where nothing can leak, and where a leak is known to be."""
GUESSABLE = 2**64
HINT = "python -c 'import secrets; print(secrets.randbits(128))' makes one"


# ------------------------------------------------------------------------------------------------------------- a play


@dataclass(frozen=True, kw_only=True)
class Control:
    """Evidence of which the answer is known: what a check is tested on.

    Attributes
    ----------
    evidence
        Its parts (folds may depend on each other, and are paid for by a union), or a function that makes them; none
        where there is nothing to go by. Canaries must guess by sign (`sides="sign"`): their scores are centred.
    kind
        "placebo" (nothing can leak: showing something refutes) or "planted" (a leak is known to be there: not showing
        it refutes "this attack can see").
    numbers
        What its sentences may speak of, besides the p-value.
    explain
        What is worth measuring only where it refutes.
    """

    check: Check
    evidence: tuple[Evidence, ...] | Callable[[], tuple[Evidence, ...]] = ()
    kind: str = PLACEBO
    numbers: dict[str, Any] = field(default_factory=dict)
    explain: Callable[[], tuple[CheckResult, ...]] | None = None

    def __post_init__(self) -> None:
        check.choice("kind", self.kind, (PLACEBO, PLANTED))

    @cached_property
    def parts(self) -> tuple[Evidence, ...]:
        """The evidence, made when it is first asked for."""
        return self.evidence() if callable(self.evidence) else self.evidence


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The same system by another design: a bound of its own, beside the result, on a line of its own in the budget.

    `needs` is the id of a check that must not have refuted what it rests on.
    """

    id: str
    title: str
    evidence: Evidence | Callable[[], Evidence]
    needs: str = ""

    @cached_property
    def made(self) -> Evidence:
        """The evidence, made when it is first asked for."""
        return self.evidence() if callable(self.evidence) else self.evidence


@dataclass(frozen=True, kw_only=True)
class Play:
    """What came of one play.

    Attributes
    ----------
    evidence
        One, or several of the same runs or rows (scores, steps, targets): as many as the game says before the data
        (`evidences`), for the error probability is shared out among them.
    repeats
        Where it is above 1, the evidences are that many plays of one question: the same rows and model, new coins. They
        are merged into the median play, at half of the error probability (theory:observational#repeated).
    controls, results, comparisons
        Evidence of which the answer is known; what was measured; the same system by other designs.
    covers_claim
        Whether the evidence is about all that a claim speaks of; a step before the last one is not.
    """

    evidence: tuple[Evidence, ...]
    controls: tuple[Control, ...] = ()
    results: tuple[CheckResult, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    covers_claim: bool = True
    repeats: int = 1

    def __post_init__(self) -> None:
        if not self.evidence:
            raise InputError("a play must have evidence, got none.")
        if check.count("repeats", self.repeats, low=1) not in (1, len(self.evidence)):
            raise InputError(
                f"`repeats` must be 1 or the number of evidences, {len(self.evidence)}, got {self.repeats}."
            )

    @property
    def only(self) -> Any:
        """The evidence, where there is one."""
        (found,) = self.evidence
        return found

    def result(self, name: str) -> CheckResult:
        """What was measured under this id."""
        return next(one for one in self.results if one.check.id == name)


# ------------------------------------------------------------------------------------------------------------- a game


@dataclass(frozen=True)
class Runner:
    """Where the jobs of a play run, and what keeps the finished ones."""

    execution: Execution = field(default_factory=Execution)
    store: RunStore | None = None
    title: str = "runs"

    def map(self, work: Callable[[Any], Sequence[float]], jobs: Sequence[Any]) -> list[list[float]]:
        """`work(job)` for every job, in order."""
        return self.execution.map(work, jobs, store=self.store, title=self.title)


RUNNER = Runner()
"""All cores, nothing kept."""


class Game(Protocol):
    """Something that can be audited.

    Attributes
    ----------
    kind
        Its name in audit files, records and pages, such as "zero-run".
    purpose
        What its coins are drawn for: a constant that decides them for ever; empty where it tosses none.
    attempts
        Plays that are paid for before the data; 2 only where what was refuted can be mended on rows kept for it.
    evidence_type
        What a play returns.
    evidences
        How many a play returns; 1, where a game does not say.
    repeats
        How many plays of one question are merged instead; 1, where a game does not say.
    assumptions, checks
        Whatever its evidence may rest on, and whatever may refute it.
    """

    kind: ClassVar[str]
    purpose: ClassVar[str]
    evidence_type: Any
    assumptions: ClassVar[tuple[Assumption, ...]]
    checks: ClassVar[tuple[Check, ...]]

    @property
    def relation(self) -> Relation: ...
    @property
    def unit(self) -> str: ...
    @property
    def attempts(self) -> int: ...
    def plan(self, seed: int) -> dict[str, Any]:
        """All that is fixed before the data: plain values, with digests of arrays, functions and files."""
        ...

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """What the coins say, drawn from the seed before anything runs."""
        ...

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Play once; the same play from any number of workers, after any kill and resume."""
        ...


NAMES = (
    "kind",
    "purpose",
    "evidence_type",
    "assumptions",
    "checks",
    "relation",
    "unit",
    "attempts",
    "plan",
    "coins",
    "play",
)


def evidences_of(game: Any) -> int:
    """How many evidences a play of this game has, fixed before the data."""
    return int(getattr(game, "evidences", 1))


def repeats_of(game: Any) -> int:
    """How many plays of one question are merged, fixed before the data."""
    return int(getattr(game, "repeats", 1))


def is_game(value: Any) -> bool:
    """Whether a value has the names of a game."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in NAMES)


# ---------------------------------------------------------------------------------------------------------------- plans


def plan_of(game: Any, *, leave_out: Sequence[str] = (), **also: Any) -> dict[str, Any]:
    """Every field of a game as plain values: what is long is known by its digest. None is forgotten."""
    named = {one.name: getattr(game, one.name) for one in fields(game) if one.init and one.name not in leave_out}
    return {name: _plain(value) for name, value in {**named, **also}.items() if name not in ("relation", "unit")}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {'x'.join(map(str, value.shape))}, {_short_digest(value)}"
    if isinstance(value, list | tuple):
        return (
            [_plain(entry) for entry in value] if len(value) <= 100 else f"{len(value)} entries, {_short_digest(value)}"
        )
    if isinstance(value, Assumption):
        return value.key
    if hasattr(value, "words"):
        return f"{value.words()}, {_short_digest(value)}"
    if is_dataclass(value) and not callable(value) and not isinstance(value, type):
        kept = {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.init}
        return {"is": type(value).__name__, **kept}
    return f"{call_name(value)}, {_short_digest(value)}"


def _short_digest(value: Any) -> str:
    return f"sha256 {described(value)[:16]}"


def fingerprint(game: Game, seed: int, plan: dict[str, Any] | None = None) -> str:
    """What a store of its runs belongs to, and a record: the whole plan under this seed, unless it is at hand."""
    return described([game.kind, str(game.relation), game.unit, game.plan(seed) if plan is None else plan, seed])


# ---------------------------------------------------------------------------------------------------------------- coins


def commitment(game: Game, seed: int) -> str:
    """A hash that commits to the coins: sha256 of their purpose, the seed and what it gives. Publish it before the run.

    Whoever is told the seed afterwards computes it again (`check_commitment`). It hides the coins as long as nobody can
    guess the seed, so take one of 128 random bits.
    """
    coins = np.asarray(game.coins(check.count("seed", seed)), dtype=np.bool_)
    text = f"dpaudit coins 1\n{game.purpose}\n{seed}\n{coins.size}\n".encode()
    return "sha256:" + hashlib.sha256(text + np.packbits(coins).tobytes()).hexdigest()


def hides(seed: int) -> bool:
    """Whether the seed is too long to be guessed from the hash by trying."""
    return seed >= GUESSABLE


def check_commitment(game: Game, *, seed: int, published: str) -> None:
    """Refuse a seed whose coins are not those that were committed to.

    >>> from dpaudit.games import OneRun
    >>> game = OneRun(scores=lambda included, seed: included, canaries=100, relation="add-remove")
    >>> check_commitment(game, seed=2**100, published=commitment(game, 2**100))
    """
    found = commitment(game, seed)
    if found != published:
        raise InputError(
            f"the coins of this seed and game are not those that were committed to: {found} against {published}.",
            "seed, number of canaries or runs, and version must be those of the commitment.",
        )
