"""What was observed, as types. This page is the contract between games, which make evidence, and estimators.

| type | what is random, what is independent |
|---|---|
| `RunScores` | scores of independent runs; in each world they are independent and identically distributed |
| `CanaryScores` | one run; `included` are fair, independent coins, or a random hold-out (`assignment="split"`) |
| `MemberScores` | one run; membership is given, `propensity` is P(member given the features) |
| `PairedScores` | fair coins chose the real or the generated item; two guessers scored the same items |
| `OutputCounts` | counts of categorical outputs in independent trials of two worlds, one row a query |

A higher score always means "more likely included". Evidence is checked when it is made and refused, with one clear
sentence, where it breaks the theorem that an estimator would apply to it. Arrays are read-only copies.

Several rows of one person are one *unit*: give their `group`, and every estimator works on one score and one coin a
group, reduced by `reduce` ("mean", "max" or "sum", fixed when the evidence is made, before anybody looks). Ties are
broken by a shuffle that only `seed` decides, never by the order of a file.

`save(path)` writes Parquet with everything inside, atomically; `load_evidence(path)` reads it back exactly, and refuses
a file that was changed or that it did not write.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial, _files
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, relation

REDUCTIONS = {"mean": np.mean, "max": np.max, "sum": np.sum}
SIDES = ("both", "included", "sign")
COIN_P_VALUE = 1e-6
ONE_ROW_A_UNIT = "no two rows belong to the same unit"
FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evidence:
    """What every evidence type carries besides its scores."""

    ids: Any = None
    group: Any = None
    unit: str = "record"
    reduce: str = "mean"
    seed: int = 0
    assumptions: tuple[str, ...] = ()

    assignments: ClassVar[tuple[str, ...]]

    def _check_common(self, rows: int) -> None:
        self._set("relation", relation(self.relation))  # type: ignore[attr-defined]
        check.choice("assignment", self.assignment, self.assignments)  # type: ignore[attr-defined]
        check.choice("reduce", self.reduce, REDUCTIONS)
        check.count("seed", self.seed)
        check.unit(self.unit)
        if isinstance(self.assumptions, str):
            raise InputError("`assumptions` must be a list of sentences, got one text.")
        self._set("assumptions", tuple(self.assumptions))
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
    def conditions(self) -> tuple[str, ...]:
        """The sentences that a bound from this evidence depends on."""
        observed = self.assignment in ("split", "given") and self.group is None  # type: ignore[attr-defined]
        return (*self.assumptions, ONE_ROW_A_UNIT) if observed else self.assumptions

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the evidence says, the same on every machine."""
        return _digest(*_to_columns(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a Parquet file, atomically: a reader sees the whole file or none."""
        return _save(self, Path(path))


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

    def __post_init__(self) -> None:
        self._set("present", check.scores("present", self.present))
        self._set("absent", check.scores("absent", self.absent))
        self._check_common(self.present.size + self.absent.size)
        if self.group is not None:
            shared = np.intersect1d(self.group[: self.present.size], self.group[self.present.size :])
            if shared.size:
                raise InputError(f"a run belongs to one world, but group {shared[0]!s} occurs in both.")

    def reduced(self) -> RunScores:
        """One score a run."""
        if self.group is None:
            return self
        worlds = np.split(self.group, [self.present.size])
        pairs = zip(worlds, (self.present, self.absent), strict=True)
        present, absent = (_by_group(group, scores, self.reduce)[1] for group, scores in pairs)
        return replace(self, present=present, absent=absent, ids=None, group=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryScores(_Evidence):
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
    offered
        Rows before thinning, for the report.
    """

    scores: Any
    included: Any
    relation: Relation
    shift: float = 0.0
    sides: str = "both"
    assignment: str = "coins"
    offered: int | None = None

    assignments: ClassVar[tuple[str, ...]] = ("coins", "split")

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
        """A random hold-out re-randomised to fair, independent coins (THEORY 003-1).

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
            offered=units.scores.size,
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
class PairedScores(_Evidence):
    """Real or generated, by fair coins, scored by a `baseline` that never saw the model and by the `attack`."""

    included: Any
    baseline: Any
    attack: Any
    assignment: str = "coins"
    relation: Relation = field(default=Relation.SUBSTITUTE, init=False)

    assignments: ClassVar[tuple[str, ...]] = ("coins",)

    def __post_init__(self) -> None:
        self._set("included", check.booleans("included", self.included))
        self._set("baseline", check.scores("baseline", self.baseline))
        self._set("attack", check.scores("attack", self.attack))
        self._check_common(check.same_length(included=self.included, baseline=self.baseline, attack=self.attack))
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

    def reduced(self) -> OutputCounts:
        """Counts are one a trial already."""
        return self


Evidence = RunScores | CanaryScores | MemberScores | PairedScores | OutputCounts
TYPES: dict[str, Any] = {t.__name__: t for t in (RunScores, CanaryScores, MemberScores, PairedScores, OutputCounts)}


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
            f"`included` must be fair, independent coins, got {heads} of {coins.size} included.",
            "a random hold-out of fixed size is assignment='split'; membership that nobody randomised is MemberScores.",
        )


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
    """Rows and fresh fair coins: coin i takes the next row of the pool that it names."""
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


# ----------------------------------------------------------------------------------------------------- save and load


def load_evidence(path: str | os.PathLike[str]) -> Evidence:
    """Read evidence that `save` wrote. A changed, truncated or foreign file is refused. Nothing in it is executed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if not path.is_file():
        raise InputError(f"no evidence file {str(path)!r}.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path.name!r} is not a readable Parquet file ({_first_line(problem)}).") from None
    raw = (table.schema.metadata or {}).get(b"dpaudit")
    if raw is None:
        raise InputError(
            f"{path.name!r} holds no dpaudit evidence.", "`dpaudit estimate` reads plain tables of scores."
        )
    try:
        meta = json.loads(raw)
        kind, stated, version = meta.pop("type"), meta.pop("digest"), meta.pop("format")
        made = TYPES[kind]
        columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
        actual = _digest({"type": kind, "format": version, **meta}, columns)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path.name!r} does not hold evidence in a form this version knows.") from None
    if version != FORMAT:
        raise InputError(f"{path.name!r} has evidence format {version!r}, this version reads {FORMAT}.")
    if actual != stated:
        raise InputError(f"{path.name!r} was changed after it was written: its digest does not match.")
    try:
        evidence: Evidence = _from_columns(made, meta, columns)
    except (TypeError, KeyError):
        raise InputError(f"{path.name!r} does not hold evidence in a form this version knows.") from None
    return evidence


def _save(evidence: _Evidence, path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    meta, columns = _to_columns(evidence)
    stamped = json.dumps({**meta, "digest": _digest(meta, columns)}, sort_keys=True)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    table = table.replace_schema_metadata({b"dpaudit": stamped.encode()})
    return _files.write(path, lambda partial: pq.write_table(table, partial))


ROW_ARRAYS = {
    RunScores: (),
    CanaryScores: ("scores", "included"),
    MemberScores: ("scores", "member"),
    PairedScores: ("included", "baseline", "attack"),
    OutputCounts: (),
}


def _to_columns(evidence: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Scalar fields, and one column for each array; the two worlds of runs are stacked, present first."""
    columns: dict[str, NDArray[Any]] = {name: getattr(evidence, name) for name in ROW_ARRAYS[type(evidence)]}
    if isinstance(evidence, RunScores):
        columns["score"] = np.concatenate([evidence.present, evidence.absent])
        columns["present"] = np.arange(columns["score"].size) < evidence.present.size
    if isinstance(evidence, OutputCounts):
        for world in ("present", "absent"):
            columns |= {f"{world}_{i}": column for i, column in enumerate(getattr(evidence, world).T)}
    if isinstance(evidence, MemberScores) and evidence.propensity is not None:
        names = ("propensity",) if evidence.propensity.ndim == 1 else ("propensity_lower", "propensity_upper")
        columns |= dict(zip(names, np.atleast_2d(evidence.propensity.T), strict=True))
    columns |= {name: getattr(evidence, name) for name in ("ids", "group") if getattr(evidence, name) is not None}
    arrays = {
        "scores",
        "included",
        "member",
        "propensity",
        "baseline",
        "attack",
        "present",
        "absent",
        "ids",
        "group",
    }
    scalars = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name not in arrays}
    scalars["assumptions"] = list(evidence.assumptions)
    return {"type": type(evidence).__name__, "format": FORMAT, **scalars}, columns


def _from_columns(made: Any, meta: dict[str, Any], columns: dict[str, NDArray[Any]]) -> Any:
    values = dict(meta)
    if made is PairedScores:
        values.pop("relation")
    if made is RunScores:
        present = columns.pop("present")
        score = columns.pop("score")
        values |= {"present": score[present], "absent": score[~present]}
    if made is OutputCounts:
        classes = sum(name.startswith("present_") for name in columns)
        for world in ("present", "absent"):
            values[world] = np.stack([columns.pop(f"{world}_{i}") for i in range(classes)], axis=1)
    if "propensity_lower" in columns:
        values["propensity"] = np.stack([columns.pop("propensity_lower"), columns.pop("propensity_upper")], axis=1)
    return made(**values, **columns)


def _digest(meta: dict[str, Any], columns: dict[str, NDArray[Any]]) -> str:
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


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__


__all__ = [
    "CanaryScores",
    "Evidence",
    "MemberScores",
    "OutputCounts",
    "PairedScores",
    "RunScores",
    "load_evidence",
]
