"""Data that comes with a package, as plain arrays. Only what needs no download for now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """1,797 handwritten digits of 8 x 8 pixels (scikit-learn's copy of the UCI set): pixels in [0, 1], and labels.

    >>> pixels, labels = digits()
    >>> pixels.shape, int(labels.max())
    ((1797, 64), 9)
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    return np.asarray(found.data, dtype=np.float64) / 16.0, np.asarray(found.target, dtype=np.int64)
