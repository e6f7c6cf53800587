"""Labelled rows whose posterior is known: the exact proxy of an observational audit."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit import _validate as check


def gaussian_mixture(
    rows: int, classes: int, rng: Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Balanced classes, x given y ~ N(e_y, I) in max(5, classes) dimensions, and P(y given x) of every row.

    Paper 000's appendix C puts ten classes into five dimensions, where e_6 does not exist (theory:errata#000-14).
    """
    check.count("rows", rows, low=1)
    check.count("classes", classes, low=2)
    labels = rng.integers(0, classes, size=rows)
    x = rng.standard_normal((rows, max(5, classes)), dtype=np.float32)
    x[np.arange(rows), labels] += 1.0
    raised = np.exp(x[:, :classes])  # |x - e_y|^2 differ by -2 x_y alone
    return x, labels, raised / raised.sum(axis=1, keepdims=True)
