"""Tables of games that are known exactly: what leaks, and what the audited model knows of rows that it never saw."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.execution import one_thread
from dpaudit_experiments import data

Array = NDArray[Any]
Columns = dict[str, Array]
LABEL, TODAY, YESTERDAY = "label", "p_today", "p_yesterday"
PEOPLE = ("x1", "x2", "x3", "id")
WEIGHTS = np.array([1.0, 0.5, -0.5])


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Rows of the training table, and of those that the model never saw, half of which trains the proxy."""

    rows: int = 2000
    unseen: int = 4000
    many: int = 4000
    known: int = 10_000
    """Of the real tables: rows that the model was trained on, in the cells of rows that it never saw."""
    leaking: int = 8000
    fetched: bool = True


FULL = Sizes()
QUICK = Sizes(rows=200, unseen=400, many=200, known=300, leaking=200, fetched=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """One game's tables and the keys of its audit file.

    Attributes
    ----------
    training, unseen
        Columns of the rows that count as trained on, and of rows that the model never saw.
    proxy_rows
        Rows to train a proxy on; None: half of the unseen ones, or none where the proxy is a column.
    keys
        Besides `table` and `placebo`.
    classes
        What the labels are, in the order of the probabilities.
    """

    training: Columns
    unseen: Columns
    proxy_rows: Columns | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    classes: tuple[Any, ...] = (0, 1)

    @property
    def features(self) -> list[str]:
        return list(self.keys.get("features", ()))

    def written(self, folder: str) -> dict[str, Any]:
        """Write the CSV files, and return the settings that name them."""
        from pyarrow import csv, table

        named = {"table": self.training, "placebo": self.unseen}
        settings: dict[str, Any] = {LABEL: LABEL, "target": TODAY, **self.keys}
        for key, columns in named.items():
            settings[key] = f"{key}.csv"
            csv.write_csv(table(columns), Path(folder) / settings[key])
        if self.proxy_rows is not None:
            csv.write_csv(table(self.proxy_rows), Path(folder) / "proxy.csv")
            settings["counterfactual"] = {"table": "proxy.csv"}
        return settings


Make = Callable[[np.random.Generator, Sizes], World]


def drawn(law: Array, rng: np.random.Generator) -> Array:
    """One class number a row; `law` is the probability of the second class, or a column a class."""
    both = np.stack([1.0 - law, law], axis=1) if law.ndim == 1 else law
    below = both.cumsum(axis=1) <= rng.random((len(both), 1))
    return np.minimum(below.sum(axis=1), both.shape[1] - 1)


def split(columns: Columns, *sizes: int) -> list[Columns]:
    """The first rows, the next ones, and so on."""
    edges = np.cumsum([0, *sizes])
    return [{name: column[low:high] for name, column in columns.items()} for low, high in itertools.pairwise(edges)]


# -------------------------------------------------------------------------------------- the model knows more of the id


def people(rows: int, levels: int, rng: np.random.Generator, *, mean: float = 0.0) -> tuple[Columns, Array]:
    """Three numbers and an id, written as a number; and log-odds of the label."""
    x, codes = rng.normal(size=(rows, 3)), rng.integers(0, levels, rows)
    effects, names = rng.normal(size=levels), rng.permutation(10 * levels)[:levels]
    columns = {f"x{place + 1}": x[:, place] for place in range(3)} | {"id": names[codes]}
    return columns, mean + x @ WEIGHTS + effects[codes]


def id_as_number(levels: int, rng: np.random.Generator, sizes: Sizes) -> World:
    """An id whose effect the model knows; the proxy has to learn it."""
    columns, logits = people(3 * sizes.many, levels, rng)
    law = special.expit(logits)
    training, unseen = split(columns | {TODAY: law, LABEL: drawn(law, rng)}, sizes.many, 2 * sizes.many)
    return World(training=training, unseen=unseen, keys={"features": list(PEOPLE)})


def yesterdays_model(rng: np.random.Generator, sizes: Sizes) -> World:
    """Predictions only: the proxy is a weaker model, which knew no id."""
    known, effects = rng.normal(size=(2 * sizes.rows, 3)) @ WEIGHTS, rng.normal(size=50)
    law = special.expit(known + effects[rng.integers(0, 50, known.size)])
    weaker = special.expit(known[:, None] + effects).mean(axis=1)
    columns = {TODAY: law, YESTERDAY: weaker, LABEL: drawn(law, rng)}
    training, unseen = split(columns, sizes.rows, sizes.rows)
    return World(training=training, unseen=unseen, keys={"counterfactual": YESTERDAY})


def rare(rng: np.random.Generator, sizes: Sizes) -> World:
    """One label in a hundred is positive."""
    columns, logits = people(sizes.rows + sizes.unseen, 50, rng, mean=-5.8)
    law = special.expit(logits)
    training, unseen = split(columns | {TODAY: law, LABEL: _both(drawn(law, rng))}, sizes.rows, sizes.unseen)
    return World(training=training, unseen=unseen, keys={"features": list(PEOPLE)})


def _both(labels: Array) -> Array:
    """Tables without a positive cannot be read: quick versions have few rows."""
    labels = labels.copy()
    if labels.size < 1000:
        labels[::10] = 1
    return labels


def scarce(rng: np.random.Generator, sizes: Sizes) -> World:
    """Twenty times fewer placebo rows than training rows; others train the proxy."""
    few = max(20, sizes.rows // 20)
    columns, logits = people(sizes.rows + few + sizes.unseen, 50, rng)
    law = special.expit(logits)
    every = columns | {TODAY: law, LABEL: drawn(law, rng)}
    training, unseen, others = split(every, sizes.rows, few, sizes.unseen)
    return World(training=training, unseen=unseen, proxy_rows=others, keys={"features": list(PEOPLE)})


def twenty_classes(rng: np.random.Generator, sizes: Sizes) -> World:
    k, rows = 20, sizes.rows + sizes.unseen
    x, codes = rng.normal(size=(rows, 3)), rng.integers(0, 50, rows)
    law = special.softmax(x @ rng.normal(size=(3, k)) + rng.normal(size=(50, k))[codes], axis=1)
    classes = tuple(f"c{place:02d}" for place in range(k))
    columns = {f"x{place + 1}": x[:, place] for place in range(3)} | {"id": codes}
    said = {f"p_{name}": law[:, place] for place, name in enumerate(classes)}
    columns |= said | {LABEL: np.array(classes)[drawn(law, rng)]}
    training, unseen = split(columns, sizes.rows, sizes.unseen)
    return World(
        training=training, unseen=unseen, keys={"features": list(PEOPLE), "target": list(said)}, classes=classes
    )


def hidden_flag(cells: tuple[float, ...], rng: np.random.Generator, sizes: Sizes) -> World:
    """Where a flag that only the model knows is set, the first value is all but certain; elsewhere as the proxy says.

    `cells` are probabilities of the first of three values (of two if there is one cell), told by the feature x1.
    """
    rows, k = sizes.rows + sizes.unseen, 3 if len(cells) > 1 else 2
    kind, flag = rng.integers(0, len(cells), rows), rng.random(rows) < 0.25
    first = np.where(flag, 0.998, np.array(cells)[kind])
    law = np.column_stack([first, *[(1.0 - first) / (k - 1)] * (k - 1)])
    classes = tuple("abc"[:k])
    said = {f"p_{name}": law[:, place] for place, name in enumerate(classes)}
    columns = {"x1": kind + 0.1 * rng.normal(size=rows), "x2": rng.normal(size=rows)}
    columns |= said | {LABEL: np.array(classes)[drawn(law, rng)]}
    training, unseen = split(columns, sizes.rows, sizes.unseen)
    return World(
        training=training, unseen=unseen, keys={"features": ["x1", "x2"], "target": list(said)}, classes=classes
    )


# ---------------------------------------------------------------------------------------------------- rows in clusters


def clusters(shown: str, rng: np.random.Generator, sizes: Sizes) -> World:
    """Twenty rows of a household share one label, and nobody said so: a column shows it, or the order of the file."""
    of = 20
    parts = []
    for start, rows in ((0, sizes.rows), (10_000, sizes.unseen)):
        places = np.arange(rows) // of
        worth = rng.normal(scale=1.5, size=places[-1] + 1)
        law = special.expit(worth)
        columns = {
            "x1": worth[places] + rng.normal(size=rows),
            "x2": rng.normal(size=rows),
            TODAY: law[places],
            LABEL: drawn(law, rng)[places],
        }
        if shown == "column":
            order = rng.permutation(rows)
            columns = {name: column[order] for name, column in columns.items()} | {"household": start + places[order]}
        parts.append(columns)
    return World(training=parts[0], unseen=parts[1], keys={"features": ["x1", "x2"]})


# ------------------------------------------------------------------------------------------------------------ real rows


def real_table(name: str, fetched: bool) -> tuple[Columns, Array]:
    """Adult or Census-Income; or a small made table with both kinds of columns."""
    if not fetched:
        rng = np.random.default_rng(4)
        columns, logits = people(4000, 50, rng)
        return columns | {"town": np.array(list("abcdefgh"))[rng.integers(0, 8, 4000)]}, drawn(
            special.expit(logits), rng
        )
    if name == "adult":
        columns, labels = data.adult()
        return {key.replace(".", "_"): column for key, column in columns.items()}, labels
    x, labels = data.census()
    return {f"c{place:02d}": x[:, place] for place in range(x.shape[1])}, labels


def as_matrix(columns: Columns) -> NDArray[np.float64]:
    """Names as their places in the alphabet."""
    return np.column_stack(
        [
            np.unique(column.astype(str), return_inverse=True)[1] if column.dtype.kind in "OU" else column
            for column in columns.values()
        ]
    ).astype(np.float64)


@lru_cache(maxsize=2)
def known_model(name: str, known: int, fetched: bool) -> tuple[Columns, Array, Array]:
    """Rows that are left, their labels, and what a model says of them that was trained on `known` others."""
    columns, labels = real_table(name, fetched)
    order, x = np.random.default_rng(3).permutation(labels.size), as_matrix(columns)
    model = boosted(0).fit(x[order[:known]], labels[order[:known]])
    rest = order[known:]
    with one_thread(trees=True):
        said = model.predict_proba(x[rest])[:, 1]
    return {key: column[rest] for key, column in columns.items()}, labels[rest], said


def boosted(seed: int, **how: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed, **how)


def never_seen(name: str, rng: np.random.Generator, sizes: Sizes) -> World:
    """A split of rows that the model never saw: as "training" rows, too."""
    columns, labels, said = known_model(name, sizes.known * (3 if name == "census" else 1), sizes.fetched)
    chosen = rng.permutation(labels.size)[: 3 * sizes.many]
    every = {key: column[chosen] for key, column in columns.items()} | {TODAY: said[chosen], LABEL: labels[chosen]}
    training, unseen = split(every, sizes.many, 2 * sizes.many)
    return World(training=training, unseen=unseen, keys={"features": list(columns)})


NULL: dict[str, tuple[str, Make]] = {
    "predictions only": ("a weaker model of yesterday is the proxy", yesterdays_model),
    "steep": ("guesses that are always right where the model is surest", partial(hidden_flag, (0.5,))),
    "steep cells": ("the same for three values, four cells", partial(hidden_flag, (0.04, 0.16, 0.3, 0.6))),
    "few placebo rows": ("20 times fewer placebo rows than training rows", scarce),
    "1% positives": ("one label in a hundred is positive", rare),
    "clusters, column": ("20 rows share a label, a column shows it", partial(clusters, "column")),
    "clusters, order": ("20 rows share a label, the file's order shows it", partial(clusters, "order")),
    "id, 50 levels": ("an id coded as a number, 50 levels", partial(id_as_number, 50)),
    "id, 400 levels": ("an id coded as a number, 400 levels", partial(id_as_number, 400)),
    "id, 1500 levels": ("an id coded as a number, 1,500 levels", partial(id_as_number, 1500)),
    "Adult": ("Adult, rows that the model never saw", partial(never_seen, "adult")),
    "Census": ("Census-Income, rows that the model never saw", partial(never_seen, "census")),
    "20 classes": ("20 classes and an id", twenty_classes),
}
"""Where nothing leaks: what it is, and how its tables are made."""
