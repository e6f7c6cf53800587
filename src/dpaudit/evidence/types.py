"""The types of evidence."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, as_assumptions, filled, unique
from dpaudit.bounds import Relation, relation

REDUCTIONS = {"mean": np.mean, "max": np.max, "sum": np.sum}
SIDES = ("both", "included", "sign")
COIN_P_VALUE = 1e-6
ONE_ROW_A_UNIT = Assumption(
    id="one-row-per-unit",
    sentence="no two rows belong to the same unit",
    answered_by="data holder",
    tested_by=("rows-hang-together",),
    theory="theory:adjacency#units",
)
FAIR_COINS = Check(
    id="fair-coins",
    passed=(
        "Control passed: {heads:,} of {tosses:,} coins say that the record was there (p = {p_value:p}; refused at "
        "{level:g}). That proves nothing: an even split, which is no coins, passes too."
    ),
    level=COIN_P_VALUE,
    theory="theory:one-run#domination",
)
"""Evidence that fails it is refused when it is made."""
NOT_FAIR = "`included` must be fair, independent coins, got {heads} of {tosses} included."
LABELS = ("ids", "group")
FORMAT, FORMATS = 2, (1, 2)
"""Of evidence files: what is written, and what is read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evidence:
    """What every evidence type carries besides its scores."""

    ids: Any = None
    group: Any = None
    unit: str = "record"
    reduce: str = "mean"
    seed: int = 0
    assumptions: tuple[Assumption, ...] = ()

    assignments: ClassVar[tuple[str, ...]]
    arrays: ClassVar[tuple[str, ...]]
    """Fields with one entry a row, that are columns of a file."""

    def _check_common(self, rows: int) -> None:
        self._set("relation", relation(self.relation))  # type: ignore[attr-defined]
        check.choice("assignment", self.assignment, self.assignments)  # type: ignore[attr-defined]
        check.choice("reduce", self.reduce, REDUCTIONS)
        check.count("seed", self.seed)
        check.unit(self.unit)
        self._set("assumptions", as_assumptions(self.assumptions))
        for one in self.assumptions:
            one.check_filled()
            if one.by_design:
                raise InputError(
                    f"an assumption of evidence must be answered for by a person, got {one.id!r} by its design.",
                    "what the design of a game ensures is no assumption.",
                )
        for name in ("ids", "group"):
            if getattr(self, name) is not None:
                self._set(name, check.labels(name, getattr(self, name)))
                if len(getattr(self, name)) != rows:
                    raise InputError(f"`{name}` must have one entry a row ({rows}), got {len(getattr(self, name))}.")
        if self.ids is not None:
            check.unique("ids", self.ids)
        several = self.group is not None and np.unique(self.group).size < rows
        if several and self.unit == "record" and self.assignment != "runs":  # type: ignore[attr-defined]
            raise InputError(
                "`unit` must say what a group is where it has several rows, got 'record'.",
                "a bound on groups of rows is a bound for, say, unit='user', and not for one record.",
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def conditions(self) -> tuple[Assumption, ...]:
        """What a bound from this evidence rests on."""
        observed = self.assignment in ("split", "given") and self.group is None  # type: ignore[attr-defined]
        return unique((*self.assumptions, ONE_ROW_A_UNIT)) if observed else self.assumptions

    def _columns(self) -> dict[str, NDArray[Any]]:
        """The arrays of a file, one a column."""
        return {name: getattr(self, name) for name in self.arrays}

    @classmethod
    def _values(cls, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
        """The fields that `_columns` wrote."""
        return columns

    @property
    def former_digest(self) -> str | None:
        """The digest of the file of an earlier format that it was read from; None of any other."""
        found: str | None = self.__dict__.get("_former_digest")
        return found

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the evidence says, the same on every machine."""
        return digest_of(*to_columns(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a Parquet file, atomically: a reader sees the whole file or none."""
        from dpaudit.evidence.files import save

        return save(self, Path(path))


class _Coins(_Evidence):
    """Rows that coins took in or left out."""

    included: Any

    @property
    def sizes(self) -> dict[str, int]:
        """How much there is of what, for a record."""
        return {"rows": self.included.size, "included": int(self.included.sum())}


@dataclass(frozen=True, kw_only=True, eq=False)
class RunScores(_Evidence):
    """Scores of independent runs, with the record (`present`) and without it, or with another (`absent`).

    `ids` and `group` name the rows of `present` followed by those of `absent`; several rows of one group are several
    looks at one run, and a run belongs to one world.

    >>> RunScores(present=[1.2, 0.3], absent=[0.1, -0.4, 0.2], relation="add-remove").absent.size
    3
    """

    present: Any
    absent: Any
    relation: Relation
    assignment: str = "runs"

    assignments: ClassVar[tuple[str, ...]] = ("runs",)
    arrays: ClassVar[tuple[str, ...]] = ("present", "absent")

    def __post_init__(self) -> None:
        self._set("present", check.scores("present", self.present))
        self._set("absent", check.scores("absent", self.absent))
        self._check_common(self.present.size + self.absent.size)
        if self.group is not None:
            shared = np.intersect1d(self.group[: self.present.size], self.group[self.present.size :])
            if shared.size:
                raise InputError(f"a run belongs to one world, but group {shared[0]!s} occurs in both.")

    @property
    def sizes(self) -> dict[str, int]:
        """How much there is of what, for a record."""
        return {"present": self.present.size, "absent": self.absent.size}

    def _columns(self) -> dict[str, NDArray[Any]]:
        """The two worlds are stacked, present first."""
        score = np.concatenate([self.present, self.absent])
        return {"score": score, "present": np.arange(score.size) < self.present.size}

    @classmethod
    def _values(cls, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
        present, score = columns.pop("present"), columns.pop("score")
        return {"present": score[present], "absent": score[~present], **columns}

    def reduced(self) -> RunScores:
        """One score a run."""
        if self.group is None:
            return self
        worlds = np.split(self.group, [self.present.size])
        pairs = zip(worlds, (self.present, self.absent), strict=True)
        present, absent = (_by_group(group, scores, self.reduce)[1] for group, scores in pairs)
        return replace(self, present=present, absent=absent, ids=None, group=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryScores(_Coins):
    """Scores of m canaries in one run, each included by a coin.

    Attributes
    ----------
    included
        What the coins said. Refused where they are implausible as fair and independent (exact two-sided p < 1e-6).
    shift
        tau of an observational audit: the mean total variation between true and counterfactual attributes.
    sides
        How guesses are read off the scores: "both" (alternately the highest as included and the lowest as excluded),
        "included" (the highest only) or "sign" (by |score|, the sign is the guess).
    assignment
        "coins", or "split" for a random hold-out of fixed size, which is not coins, however even it looks, and must be
        `thinned`; it certifies SUBSTITUTE, because another record was there instead.
    population
        Rows before thinning, for the report.
    """

    scores: Any
    included: Any
    relation: Relation
    shift: float = 0.0
    sides: str = "both"
    assignment: str = "coins"
    population: int | None = None

    assignments: ClassVar[tuple[str, ...]] = ("coins", "split")
    arrays: ClassVar[tuple[str, ...]] = ("scores", "included")

    def __post_init__(self) -> None:
        self._set("scores", check.scores("scores", self.scores))
        self._set("included", check.booleans("included", self.included))
        rows = check.same_length(scores=self.scores, included=self.included)
        self._check_common(rows)
        self._set("shift", check.number("shift", self.shift, low=0.0, high=1.0))
        check.choice("sides", self.sides, SIDES)
        coins = self.included if self.group is None else _one_coin_a_group(self.group, "included", self.included)
        if self.assignment == "coins":
            _check_fair(coins)
        else:
            if self.relation is not Relation.SUBSTITUTE:
                raise InputError(
                    f"a fixed-size split certifies substitute adjacency, got relation {self.relation!s}.",
                    "'not a member' means that another record was there instead: set relation='substitute'.",
                )
            _check_both_sides("included", coins)

    def reduced(self) -> CanaryScores:
        """One score and one coin a group."""
        if self.group is None:
            return self
        first, scores = _by_group(self.group, self.scores, self.reduce)
        return replace(self, scores=scores, included=self.included[first], ids=None, group=None)

    def thinned(self, *, seed: int | None = None) -> CanaryScores:
        """A random hold-out re-randomised to fair, independent coins (theory:adjacency#thinning).

        A number of rows m is fixed from the two pool sizes, m coins are tossed, and each takes the next row of a
        shuffled pool, so coins and rows are independent. m is the largest for which the tosses outrun a pool with
        probability below 1e-9; should that happen, the draw is refused. Members and non-members keep their scores.
        """
        if self.assignment != "split":
            raise InputError(f"only a split is thinned, got assignment {self.assignment!r}.")
        units = self.reduced()
        rng = np.random.default_rng([self.seed if seed is None else check.count("seed", seed), 0x7468696E])
        keep, coins = thin(units.included, rng)
        return replace(
            units,
            scores=units.scores[keep],
            included=coins,
            ids=None if units.ids is None else units.ids[keep],
            assignment="coins",
            assumptions=self.conditions,
            population=units.scores.size,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MemberScores(_Evidence):
    """Scores of known members and non-members that nobody randomised.

    `propensity` is P(member given the features), one number a row, or two (lower, upper). A random hold-out
    (`assignment="split"`) needs none: `as_split()` makes `CanaryScores` of it. `sides` is that of `CanaryScores`.
    """

    scores: Any
    member: Any
    propensity: Any = None
    relation: Relation
    sides: str = "both"
    assignment: str = "given"

    assignments: ClassVar[tuple[str, ...]] = ("given", "split")
    arrays: ClassVar[tuple[str, ...]] = ("scores", "member")

    def __post_init__(self) -> None:
        self._set("scores", check.scores("scores", self.scores))
        self._set("member", check.booleans("member", self.member))
        rows = check.same_length(scores=self.scores, member=self.member)
        self._check_common(rows)
        check.choice("sides", self.sides, SIDES)
        _check_both_sides("member", self.member)
        if self.group is not None:
            _one_coin_a_group(self.group, "member", self.member)
        if self.propensity is None:
            if self.assignment == "given":
                raise InputError(
                    "`propensity` is needed where membership was given, not randomised.",
                    "a random hold-out is assignment='split' and needs none.",
                )
            return
        self._set("propensity", _propensity(self.propensity, rows))
        if self.group is not None:
            for column in np.atleast_2d(self.propensity.T):
                _one_coin_a_group(self.group, "propensity", column)

    @property
    def sizes(self) -> dict[str, int]:
        """How much there is of what, for a record."""
        return {"rows": self.scores.size, "members": int(self.member.sum())}

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns = super()._columns()
        if self.propensity is not None:
            names = ("propensity",) if self.propensity.ndim == 1 else ("propensity_lower", "propensity_upper")
            columns |= dict(zip(names, np.atleast_2d(self.propensity.T), strict=True))
        return columns

    @classmethod
    def _values(cls, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
        if "propensity_lower" in columns:
            limits = columns.pop("propensity_lower"), columns.pop("propensity_upper")
            columns["propensity"] = np.stack(limits, axis=1)
        return columns

    def reduced(self) -> MemberScores:
        """One score, one membership and one propensity a group."""
        if self.group is None:
            return self
        first, scores = _by_group(self.group, self.scores, self.reduce)
        propensity = None if self.propensity is None else self.propensity[first]
        return replace(self, scores=scores, member=self.member[first], propensity=propensity, ids=None, group=None)

    def as_split(self) -> CanaryScores:
        """The same rows as a random hold-out, for the one-run estimators."""
        if self.assignment != "split":
            raise InputError("membership was given, not split at random: it needs a propensity, not coins.")
        shared = {f.name: getattr(self, f.name) for f in fields(_Evidence)}
        return CanaryScores(
            scores=self.scores,
            included=self.member,
            relation=self.relation,
            sides=self.sides,
            assignment="split",
            **shared,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedScores(_Coins):
    """Real or generated, by fair coins, scored by a `baseline` that never saw the model and by the `attack`.

    `divergence` is the generator's divergence that somebody answers for: the log of how much likelier real items can be
    than generated ones. None: nobody does, and epsilon is not bounded by itself.
    """

    included: Any
    baseline: Any
    attack: Any
    assignment: str = "coins"
    divergence: float | None = None
    relation: Relation = field(default=Relation.SUBSTITUTE, init=False)

    assignments: ClassVar[tuple[str, ...]] = ("coins",)
    arrays: ClassVar[tuple[str, ...]] = ("included", "baseline", "attack")

    def __post_init__(self) -> None:
        self._set("included", check.booleans("included", self.included))
        self._set("baseline", check.scores("baseline", self.baseline))
        self._set("attack", check.scores("attack", self.attack))
        self._check_common(check.same_length(included=self.included, baseline=self.baseline, attack=self.attack))
        if self.divergence is not None:
            self._set("divergence", check.number("divergence", self.divergence, low=0.0))
        grouped = self.group is not None
        _check_fair(_one_coin_a_group(self.group, "included", self.included) if grouped else self.included)

    def reduced(self) -> PairedScores:
        """One pair of scores and one coin a group."""
        if self.group is None:
            return self
        first, baseline = _by_group(self.group, self.baseline, self.reduce)
        attack = _by_group(self.group, self.attack, self.reduce)[1]
        return replace(self, included=self.included[first], baseline=baseline, attack=attack, ids=None, group=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class OutputCounts(_Evidence):
    """How often each answer was given in independent trials of two worlds: a row a query, a column an answer.

    `independent` says whether the answers to different queries are independent given the data set (False where they
    share randomly trained teachers); only independent answers compose.
    """

    present: Any
    absent: Any
    relation: Relation
    independent: bool = False
    assignment: str = "runs"

    assignments: ClassVar[tuple[str, ...]] = ("runs",)
    arrays: ClassVar[tuple[str, ...]] = ("present", "absent")

    def __post_init__(self) -> None:
        self._set("present", _counts("present", self.present))
        self._set("absent", _counts("absent", self.absent))
        if self.present.shape != self.absent.shape:
            raise InputError(
                f"`present` and `absent` must have one shape, got {self.present.shape} and {self.absent.shape}."
            )
        if self.group is not None:
            raise InputError("`group` has no meaning for counts: each trial is already counted once.")
        if not isinstance(self.independent, bool | np.bool_):
            raise InputError(f"`independent` must be true or false, got {self.independent!r}.")
        self._set("independent", bool(self.independent))
        self._check_common(self.present.shape[0])

    @property
    def sizes(self) -> dict[str, int]:
        """How much there is of what, for a record."""
        return {"queries": self.present.shape[0], "present": int(self.present.sum())}

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {f"{world}_{i}": column for world in self.arrays for i, column in enumerate(getattr(self, world).T)}

    @classmethod
    def _values(cls, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
        classes = sum(name.startswith("present_") for name in columns)
        for world in cls.arrays:
            columns[world] = np.stack([columns.pop(f"{world}_{i}") for i in range(classes)], axis=1)
        return columns

    def reduced(self) -> OutputCounts:
        """Counts are one a trial already."""
        return self


# ------------------------------------------------------------------------------------------------- checks of arrays


def _check_both_sides(name: str, flags: NDArray[np.bool_]) -> None:
    if flags.all() or not flags.any():
        which = "true" if flags.all() else "false"
        raise InputError(f"`{name}` must hold both true and false, got {which} in all {flags.size} rows.")


def _check_fair(coins: NDArray[np.bool_]) -> None:
    """Refuse coins that no fair coin would show. It cannot prove fairness: an exact half-and-half split passes."""
    heads = int(coins.sum())
    if _binomial.two_sided_fair(heads, coins.size) < COIN_P_VALUE:
        raise InputError(
            filled(NOT_FAIR, {"heads": heads, "tosses": coins.size}),
            "a random hold-out of fixed size is assignment='split'; membership that nobody randomised is MemberScores.",
        )


def coins_result(evidence: Any) -> tuple[CheckResult, ...]:
    """What the test of fairness, which each evidence of coins passed when it was made, found; none of any other."""
    if evidence.assignment != "coins":
        return ()
    coins = evidence.reduced().included
    numbers = {"heads": int(coins.sum()), "tosses": int(coins.size)}
    p_value = _binomial.two_sided_fair(numbers["heads"], numbers["tosses"])
    return (CheckResult(check=FAIR_COINS, outcome="passed", p_value=p_value, numbers=numbers),)


def _propensity(values: Any, rows: int) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[0] != rows or (array.ndim == 2 and array.shape[1] != 2):
        raise InputError(
            f"`propensity` must be one or two (lower, upper) numbers for each of {rows} rows, got {array.shape}."
        )
    if not np.all((array >= 0.0) & (array <= 1.0)):  # also refuses NaN
        raise InputError("`propensity` must be probabilities in [0, 1], got a value outside.")
    if array.ndim == 2 and np.any(array[:, 0] > array[:, 1]):
        raise InputError("`propensity` bounds must be (lower, upper), got a lower one above its upper one.")
    return check.read_only(array)


def _counts(name: str, values: Any) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise InputError(f"`{name}` must be a row of at least two counts for each query, got shape {array.shape}.")
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
        raise InputError(f"`{name}` must be whole numbers, got {array.dtype}.")
    if np.any(array < 0) or np.any(array.sum(axis=1) == 0):
        raise InputError(
            f"`{name}` must be counts of at least one trial a query, got a negative count or an empty row."
        )
    return check.read_only(array.astype(np.int64))


def _one_coin_a_group(group: NDArray[Any], name: str, flags: NDArray[Any]) -> NDArray[Any]:
    """The value that all rows of a group share; independent values inside a group are refused."""
    labels, first, where = np.unique(group, return_index=True, return_inverse=True)
    differs = flags != flags[first][where]
    if differs.any():
        raise InputError(
            f"all rows of a group must share `{name}`, but group {labels[where[np.argmax(differs)]]!s} does not.",
            "rows of one person are one unit and take one coin.",
        )
    return flags[first]


def _by_group(group: NDArray[Any], scores: NDArray[Any], how: str) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Index of each group's first row, and its reduced score, in the order of the group names."""
    _, first, where = np.unique(group, return_index=True, return_inverse=True)
    order = np.lexsort((scores, where))  # sorted inside a group, so that the sum ignores the order of rows
    starts = np.searchsorted(where[order], np.arange(first.size))
    reducer = np.maximum if how == "max" else np.add
    reduced = reducer.reduceat(scores[order], starts)
    return first, reduced / np.bincount(where) if how == "mean" else reduced


def thin(flags: NDArray[np.bool_], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Rows and fresh fair coins: coin i takes the next row of the pool that it names.

    See theory:adjacency#thinning.
    """
    pools = [rng.permutation(np.flatnonzero(flags == side)) for side in (False, True)]
    smaller, larger = sorted(pool.size for pool in pools)
    low, high = smaller, smaller + larger + 1  # m = smaller always suffices

    def overrun(m: int) -> float:
        return _binomial.tail(smaller + 1, m, 0.5) + _binomial.tail(larger + 1, m, 0.5)

    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if overrun(middle) <= 1e-9 else (low, middle)
    coins = rng.random(low) < 0.5
    if coins.sum() > pools[1].size or (~coins).sum() > pools[0].size:
        raise InputError("the tosses outran a pool, a one in 1e9 event.", "use another seed, and say so.")
    rows = np.empty(low, dtype=np.intp)
    for side in (False, True):
        rows[coins == side] = pools[side][: int((coins == side).sum())]
    return rows, coins


def to_columns(evidence: _Evidence) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Scalar fields, and one column for each array."""
    columns = evidence._columns()
    columns |= {name: getattr(evidence, name) for name in LABELS if getattr(evidence, name) is not None}
    unlisted = {*evidence.arrays, *LABELS, "propensity"}
    scalars = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name not in unlisted}
    scalars["assumptions"] = [one.to_dict() for one in evidence.assumptions]
    return {"type": type(evidence).__name__, "format": FORMAT, **scalars}, columns


def digest_of(meta: dict[str, Any], columns: dict[str, NDArray[Any]]) -> str:
    seal = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(columns):
        column = columns[name]
        if column.dtype.kind in "OU":
            content = json.dumps(column.tolist()).encode()
        else:
            wide = {"f": np.float64, "i": np.int64, "b": np.uint8}[column.dtype.kind]
            content = np.ascontiguousarray(column, dtype=np.dtype(wide).newbyteorder("<")).tobytes()
        seal.update(f"\n{name} {column.size}\n".encode())
        seal.update(content)
    return seal.hexdigest()
