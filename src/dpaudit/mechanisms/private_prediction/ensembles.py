"""Who votes: the first half of algorithm 1 of paper 002 (partition, train, choose, vote).

| ensemble | partition | votes are random given the data | neighbouring data sets |
|---|---|---|---|
| `RandomTeachers` (PATE) | each row at random | yes: which rows meet in a teacher, and its training | one record |
| `FixedParties` (CaPC) | given | by training only | one record of one party |
| `Neighbours` (Private-kNN) | each record is a teacher, its label the vote | yes, afresh for every query | one record |

`votes(dataset, queries, seed)` returns counts, one line a query. Whether answers to different queries are independent
given the data set decides whether their leakage adds (theory:private-prediction#composition): only where `shared` is
False.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound
from dpaudit.execution import distinct_seeds, stream
from dpaudit.mechanisms.label_dp.learners import Constant, Learner, Model, one_hot
from dpaudit.mechanisms.label_dp.training import checked_dataset
from dpaudit.mechanisms.private_prediction.answers import SENSITIVITY

__all__ = ["FixedParties", "Neighbours", "RandomTeachers", "Voters", "counted"]


class Voters(Protocol):
    """An ensemble: counts of votes on queries. `shared` says whether all answers hang on the same random teachers."""

    @property
    def shared(self) -> bool: ...
    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]: ...


def counted(votes: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Votes (teachers, queries) as counts (queries, classes)."""
    return np.stack([np.bincount(column, minlength=classes) for column in votes.T]).astype(np.int64)


def _fit(learner: Learner, x: Any, y: NDArray[np.int64], classes: int, seed: int) -> Model:
    """A teacher without rows knows nothing."""
    if not len(y):
        return Constant(np.full(classes, 1.0 / classes))
    return learner.fit(x, one_hot(y, classes), seed=seed)


def _asked(models: Iterable[Model], queries: Any) -> NDArray[np.int64]:
    """The vote of each model on every query, (models, queries)."""
    if not hasattr(queries, "shape") or not len(queries):
        raise InputError("`queries` must be an array with at least one row.")
    return np.stack([model.predict_proba(queries).argmax(axis=1) for model in models])


@dataclass(frozen=True, kw_only=True)
class RandomTeachers:
    """PATE: each row goes to one of `teachers` at random, and each learns from its own.

    Rows are dealt one by one: a record more at the end, or another one in the place of one, leaves all others where
    they were and changes one teacher. Without one of the others the distribution is the same, not the deal of a seed.
    """

    learner: Learner
    classes: int
    teachers: int
    shared: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check.count("teachers", self.teachers, low=1)
        check.count("classes", self.classes, low=2)

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        return counted(self.each(dataset, queries, seed), self.classes)

    def each(self, dataset: Any, queries: Any, seed: int, members: Sequence[int] | None = None) -> NDArray[np.int64]:
        """The vote of each teacher (or of some) on every query."""
        x, y = checked_dataset(dataset, self.classes)
        if self.teachers > len(y):
            raise InputError(f"`teachers` must be at most the {len(y)} rows, got {self.teachers}.")
        dealt = np.floor(stream(seed, "partition").random(len(y)) * self.teachers)  # a number a row, in their order
        seeds = distinct_seeds(seed, "learners", self.teachers)
        parts = ((n, dealt == n) for n in (range(self.teachers) if members is None else members))
        return _asked((_fit(self.learner, x[p], y[p], self.classes, seeds[n]) for n, p in parts), queries)


@dataclass(frozen=True, kw_only=True)
class FixedParties:
    """CaPC: every party has its own rows; a data set is (x, y, party), the last one number a row."""

    learner: Learner
    classes: int
    shared: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check.count("classes", self.classes, low=2)

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        return counted(self.each(dataset, queries, seed), self.classes)

    def each(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        """The vote of each party on every query; a data set is (x, y, party)."""
        if len(dataset) != 3 or len(dataset[2]) != len(dataset[1]):
            raise InputError("a data set of parties must be (x, y, party), with one party a row.")
        x, y = checked_dataset(dataset[:2], self.classes)
        names, party = np.unique(dataset[2], return_inverse=True)
        seeds = distinct_seeds(seed, "learners", names.size)
        rows = (party == n for n in range(names.size))
        return _asked(
            (_fit(self.learner, x[r], y[r], self.classes, own) for r, own in zip(rows, seeds, strict=True)), queries
        )


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Private-kNN (Zhu et al. 2020): for every query a fresh subsample, of which the k nearest rows vote their labels.

    Answers of different queries are independent given the data set, so their leakage adds.
    """

    classes: int
    neighbors: int = 200
    sampling_rate: float = 0.2
    shared: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check.count("classes", self.classes, low=2)
        check.count("neighbors", self.neighbors, low=1)
        check.number("sampling_rate", self.sampling_rate, low=5e-324, high=1.0)

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        x, y = checked_dataset(dataset, self.classes)
        x, asked = (np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in (x, queries))
        if asked.shape[1] != x.shape[1] or not len(asked):
            raise InputError(f"`queries` must be rows of {x.shape[1]} features, got shape {asked.shape}.")
        rng, found = stream(seed, "subsamples"), []
        for query in asked:
            kept = np.flatnonzero(rng.random(len(y)) < self.sampling_rate)
            order = kept[np.argsort(np.linalg.norm(x[kept] - query, axis=1), kind="stable")[: self.neighbors]]
            found.append(np.bincount(y[order], minlength=self.classes))
        return np.array(found, dtype=np.int64).reshape(len(found), self.classes)

    def claim(self, *, sigma: float, queries: int, delta: float) -> UpperBound:
        """Poisson subsampling of a Gaussian: a record that comes or goes moves at most one vote, two bins by one."""
        return accounting.dp_sgd(
            noise_multiplier=check.number("sigma", sigma, low=1e-9) / SENSITIVITY,
            sampling_rate=self.sampling_rate,
            steps=queries,
            delta=delta,
            relation=Relation.ADD_REMOVE,
        )
