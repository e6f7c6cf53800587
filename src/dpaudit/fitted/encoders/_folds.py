"""Features of training rows that no fit has seen with their labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit.execution import distinct_seeds, stream

Matrix = NDArray[np.float64]
Look = Callable[[Any], Matrix]


def out_of_fold(
    fit: Callable[[Any, Any, int], Look], rows: Any, label: Any, *, folds: int, seed: int
) -> tuple[Matrix, Look]:
    """Features of the rows, each by a fit to the other folds, and the fit to all of them."""
    real = check.booleans("label", np.asarray(label).astype(bool))
    check.same_length(rows=rows, label=real)
    fold = stream(seed, "folds of a view").permutation(len(rows)) % folds
    *seeds, last = distinct_seeds(seed, "networks of a view", folds + 1)
    parts = [(fold == place, own) for place, own in enumerate(seeds)]
    looks = [(out, fit(rows[~out], real[~out], own)(rows[out])) for out, own in parts]
    found = np.empty((len(rows), looks[0][1].shape[1]))
    for out, features in looks:
        found[out] = features
    return found, fit(rows, real, last)
