"""Who learns from released labels. A learner takes a weight for every row and label, so soft labels are labels too.

| learner | for |
|---|---|
| `Sklearn(build)` | any classifier in the manner of scikit-learn |
| `Logistic` | tables and sparse texts |
| `Boosted` (extra `catboost`) | tables |
| `Network` (extra `torch`, in `networks`) | small pictures |
| `FixMatch` (extra `torch`, in `networks`) | small pictures, of which most have no label |

What is learnt has `predict_proba(x)`, one column for each class 0 to k - 1, also for a class that no row had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError

__all__ = ["Boosted", "Constant", "Learner", "Logistic", "Model", "Sklearn", "catboost_or_refuse", "one_hot"]

LIGHT = 1e-3
"""A label with less than this share of its row's weight is left out by learners that repeat rows."""


class Model(Protocol):
    """What was learnt: probabilities of the classes, one row each."""

    def predict_proba(self, x: Any) -> NDArray[np.float64]: ...


class Learner(Protocol):
    """Anything that learns: `weights[i, c]` says how much label c of row i counts; `unlabelled` rows have no label."""

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> Model: ...


def one_hot(labels: Any, classes: int) -> NDArray[np.float64]:
    """Hard labels as weights.

    >>> one_hot([1, 0], 3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return np.eye(classes)[np.asarray(labels)]


@dataclass(frozen=True)
class Sklearn:
    """`build(seed)` makes a classifier with `fit(x, y, sample_weight=...)`, `predict_proba` and `classes_`.

    A row with a soft label is shown once for each label that it may have, with that label's weight. A classifier that
    takes no weights can be used with hard labels.
    """

    build: Callable[[int], Any]

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> Model:
        rows, labels = np.nonzero(weights > LIGHT * weights.sum(axis=1, keepdims=True))
        if np.unique(labels).size < 2:
            seen = weights.sum(axis=0) + 1.0  # Laplace's rule: a label that was never seen is not impossible
            return Constant(seen / seen.sum())
        found = weights[rows, labels]
        soft = {} if np.all(found == 1.0) else {"sample_weight": found}
        model = self.build(seed % 2**32)
        model.fit(x[rows], labels, **soft)
        return _Aligned(model, weights.shape[1])


@dataclass(frozen=True)
class Constant:
    """The same distribution for every row: all that can be learnt where only one label was released."""

    distribution: NDArray[np.float64]

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        return np.tile(self.distribution, (x.shape[0], 1))


@dataclass(frozen=True, eq=False)
class _Aligned:
    """Probabilities with a column for every class, also for those that the classifier never saw."""

    model: Any
    classes: int

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        found = np.zeros((x.shape[0], self.classes))
        found[:, np.asarray(self.model.classes_, dtype=np.int64)] = self.model.predict_proba(x)
        return found


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """Logistic regression with an L2 penalty: scikit-learn's, `strength` being its C."""

    strength: float = 1.0

    def __post_init__(self) -> None:
        check.number("strength", self.strength, low=1e-12)

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> Model:
        from sklearn.linear_model import LogisticRegression

        return Sklearn(lambda _: LogisticRegression(C=self.strength, max_iter=2000)).fit(x, weights, seed=seed)


def catboost_or_refuse() -> Any:
    try:
        import catboost
    except ImportError:
        raise InputError(
            "boosted trees need the package catboost, which is not installed.",
            "pip install 'dpaudit[catboost]', or use Logistic or Sklearn.",
        ) from None
    return catboost


@dataclass(frozen=True, kw_only=True)
class Boosted:
    """Gradient boosted trees by CatBoost, on one thread so that any machine finds the same trees."""

    trees: int = 200
    depth: int = 6
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check.count("trees", self.trees, low=1)
        check.count("depth", self.depth, low=1, high=16)
        check.number("learning_rate", self.learning_rate, low=1e-6, high=1.0)

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> Model:
        catboost = catboost_or_refuse()

        def build(seed: int) -> Any:
            return catboost.CatBoostClassifier(
                iterations=self.trees,
                depth=self.depth,
                learning_rate=self.learning_rate,
                random_seed=seed % 2**31,
                thread_count=1,
                verbose=False,
                allow_writing_files=False,
            )

        return Sklearn(build).fit(x, weights, seed=seed)
