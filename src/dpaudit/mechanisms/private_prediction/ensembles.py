"""Who votes: the first half of algorithm 1 of paper 002 (partition, train, choose, vote).

| ensemble | partition | votes are random given the data | neighbouring data sets |
|---|---|---|---|
| `RandomTeachers` (PATE) | at random | yes: which rows meet in a teacher, and its training | one record |
| `FixedParties` (CaPC) | given | by training only | one record of one party |
| `Neighbours` (Private-kNN) | each record is a teacher, its label the vote | yes, afresh for every query | one record |

`votes(dataset, queries, seed)` returns counts, one line a query. Whether answers to different queries are independent
given the data set decides whether their leakage adds (THEORY 002-10): only where `shared` is False.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound
from dpaudit.execution import distinct_seeds, stream
from dpaudit.mechanisms.label_dp.learners import Learner, Model, one_hot
from dpaudit.mechanisms.private_prediction.answers import SENSITIVITY


class Voters(Protocol):
    """An ensemble: counts of votes on queries. `shared` says whether all answers hang on the same random teachers."""

    @property
    def shared(self) -> bool: ...
    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]: ...


def _counted(votes: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Votes (teachers, queries) as counts (queries, classes)."""
    return np.stack([np.bincount(column, minlength=classes) for column in votes.T]).astype(np.int64)


def _fit(learner: Learner, x: Any, y: NDArray[np.int64], classes: int, seed: int) -> Model:
    return learner.fit(x, one_hot(y, classes), seed=seed)


@dataclass(frozen=True, kw_only=True)
class RandomTeachers:
    """PATE: rows are dealt to `teachers` at random, and each learns from its own."""

    learner: Learner
    classes: int
    teachers: int
    shared: bool = True

    def __post_init__(self) -> None:
        check.count("teachers", self.teachers, low=1)
        check.count("classes", self.classes, low=2)

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        return _counted(self.each(dataset, queries, seed), self.classes)

    def each(self, dataset: Any, queries: Any, seed: int, members: Sequence[int] | None = None) -> NDArray[np.int64]:
        """The vote of each teacher (or of some) on every query."""
        x, y = dataset
        if self.teachers > len(y):
            raise InputError(f"`teachers` must be at most the {len(y)} rows, got {self.teachers}.")
        parts = np.array_split(stream(seed, "partition").permutation(len(y)), self.teachers)
        seeds = distinct_seeds(seed, "teachers", self.teachers)
        chosen = range(self.teachers) if members is None else members
        models = (_fit(self.learner, x[parts[n]], y[parts[n]], self.classes, seeds[n]) for n in chosen)
        return np.stack([model.predict_proba(queries).argmax(axis=1) for model in models])


@dataclass(frozen=True, kw_only=True)
class FixedParties:
    """CaPC: every party has its own rows; a data set is (x, y, party), the last one number a row."""

    learner: Learner
    classes: int
    shared: bool = True

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        return _counted(self.each(dataset, queries, seed), self.classes)

    def each(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        """The vote of each party on every query; a data set is (x, y, party)."""
        x, y, party = dataset
        names = np.unique(party)
        seeds = distinct_seeds(seed, "parties", names.size)
        models = (
            _fit(self.learner, x[party == name], y[party == name], self.classes, own)
            for name, own in zip(names, seeds, strict=True)
        )
        return np.stack([model.predict_proba(queries).argmax(axis=1) for model in models])


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Private-kNN (Zhu et al. 2020): for every query a fresh subsample, of which the k nearest rows vote their labels.

    Answers of different queries are independent given the data set, so their leakage adds.
    """

    classes: int
    neighbors: int = 200
    sampling_rate: float = 0.2
    shared: bool = False

    def __post_init__(self) -> None:
        check.count("neighbors", self.neighbors, low=1)
        check.number("sampling_rate", self.sampling_rate, low=5e-324, high=1.0)

    def votes(self, dataset: Any, queries: Any, seed: int) -> NDArray[np.int64]:
        x, y = (np.asarray(part) for part in dataset)
        rng, found = stream(seed, "subsamples"), []
        for query in np.asarray(queries):
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
