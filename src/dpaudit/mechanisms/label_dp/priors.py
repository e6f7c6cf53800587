"""What a row's label probably is, before it is released: priors for `OneStage`, and what each costs.

| prior | from | costs |
|---|---|---|
| `Shares` (domain prior) | how often each label occurs, known from elsewhere | nothing |
| `Pretrained` | a model that was trained on other rows | nothing |
| `Clusters` (in- or out-of-domain) | groups of alike rows, and noisy counts of the labels in each | its own epsilon |

The features of a row are public under label privacy, so grouping costs nothing, whoever the encoder learnt from: the
rows themselves (in-domain) or other data (out-of-domain).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.counterfactuals import Categorical
from dpaudit.execution import stream
from dpaudit.mechanisms.label_dp.learners import Model
from dpaudit.mechanisms.label_dp.releases import grid_laplace

LEAST = 1e-3
"""The least probability of a label: a prior that is sure of nothing keeps every label possible."""


class Prior(Protocol):
    """A distribution of the labels for each row, and the epsilon that its making spends on labels that it is shown."""

    @property
    def epsilon(self) -> float: ...
    def of(self, x: Any, labels: NDArray[np.int64], classes: int, seed: int) -> Categorical: ...


@dataclass(frozen=True, eq=False)
class Shares:
    """The same distribution for every row: how often each label occurs, as known from elsewhere."""

    shares: Any
    epsilon: float = field(default=0.0, init=False)

    def of(self, x: Any, labels: NDArray[np.int64], classes: int, seed: int) -> Categorical:
        distribution = check.distribution("shares", self.shares)
        if distribution.size != classes:
            raise InputError(f"`shares` must be a distribution of {classes} labels, got {distribution.size}.")
        return Categorical(np.tile(distribution, (len(labels), 1)))


@dataclass(frozen=True, eq=False)
class Pretrained:
    """What a model says that never saw these labels."""

    model: Model
    epsilon: float = field(default=0.0, init=False)

    def of(self, x: Any, labels: NDArray[np.int64], classes: int, seed: int) -> Categorical:
        return possible(self.model.predict_proba(x))


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """Groups of rows that look alike, and Laplace-noised counts of the labels in each.

    A row is in one group, so replacing its label moves two counts by 1: noise of scale 2 / epsilon on every count pays
    for all of them. `features` says what is grouped, one line for each row of `x`; None: `x` itself, flat.

    The same idea as the priors of Ghazi et al. (2021), which also count labels in groups of self-supervised features.
    """

    epsilon: float
    features: Any = None
    groups: int = 100

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=1e-6)
        check.count("groups", self.groups, low=1)

    def of(self, x: Any, labels: NDArray[np.int64], classes: int, seed: int) -> Categorical:
        counts, group = self.counted(x, labels, classes, seed)
        positive = np.maximum(counts, 0.0) + 1.0
        return possible((positive / positive.sum(axis=1, keepdims=True))[group])

    def counted(
        self, x: Any, labels: NDArray[np.int64], classes: int, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """The noisy counts that are released, (groups, labels), and the group of each row."""
        from sklearn.cluster import MiniBatchKMeans

        shown = x if self.features is None else self.features
        if not hasattr(shown, "__array__") or len(shown) != len(labels):
            raise InputError(f"`features` must be a matrix with one line for each of the {len(labels)} rows.")
        seen = np.asarray(shown, dtype=np.float32).reshape(len(labels), -1)
        means = MiniBatchKMeans(min(self.groups, len(labels)), random_state=seed % 2**32, n_init=1)
        group = np.asarray(means.fit_predict(seen), dtype=np.intp)
        counts = np.zeros((self.groups, classes))
        np.add.at(counts, (group, labels), 1.0)
        return counts + grid_laplace(stream(seed, "counts of a prior"), 2.0 / self.epsilon, counts.shape), group


def possible(probabilities: Any) -> Categorical:
    """A distribution in which every label keeps some probability."""
    found = np.maximum(np.asarray(probabilities, dtype=np.float64), LEAST)
    return Categorical(found / found.sum(axis=1, keepdims=True))
