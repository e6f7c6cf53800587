"""Where the rows of the matched game come from, and what each of their columns is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import stream
from dpaudit.fitted import designs
from dpaudit.inputs import models
from dpaudit.inputs.tables import Table, column_names, given, listed, other_rows, unit_word

Array = NDArray[Any]
PROXY_ROWS = "counterfactual.table"
DISTINCT = 0.5
"""Share of rows that must differ in what is known of them before copies are looked for."""
MARKS = 20
"""Columns without a use that rows may hang together by: at most so many are read."""
ONE_PROXY = "half of the rows that the model never saw trains a proxy, and a proxy is learnt from `features`"


@dataclass(frozen=True, kw_only=True, eq=False)
class Uses:
    """The use of every column that has one, and where target and proxy come from."""

    label: str
    target: Any
    counterfactual: Any
    attribute: list[str]
    features: list[str]
    categories: list[str]
    learner: str
    unit: str | None
    classes: list[str] | None
    folder: str

    def check(self, learns: bool) -> None:
        """What the models need, and what would give the answer away."""
        column_names(label=self.label, unit=self.unit)
        check.choice("learner", self.learner, designs.LEARNERS)
        if isinstance(self.target, dict):
            raise InputError(f"`target` must be a model or columns of its probabilities, got {self.target!r}.")
        if self.attribute and not models.is_model(self.target):
            raise InputError("`attribute` needs a model for `target`: it is asked what it would say of other values.")
        if learns and not self.features:
            raise InputError("`features` must list the columns that a proxy is learnt from, got none.", ONE_PROXY + ".")
        if (models.is_model(self.target) or models.is_model(self.counterfactual)) and not self.features:
            raise InputError("`features` must list the columns that the model takes, got none.")
        if not set(self.attribute) <= set(self.features):
            raise InputError(f"`attribute` must be among the features, got {', '.join(self.attribute)}.")
        if self.label in self.features:
            raise InputError(f"`features` must not hold the label, got {self.label!r} among them.")
        odd = [name for name in self.categories if name not in [*self.features, self.label]]
        if odd:
            raise InputError(f"`categories` must be among the features, got {odd[0]!r}.")

    @property
    def needed(self) -> list[str]:
        """The columns that are read of rows at which the attack guesses."""
        asked = [self.label, *self.features, *given(self.unit)]
        return list(dict.fromkeys([*asked, *columns_of(self.target), *columns_of(self.counterfactual)]))

    @property
    def rest(self) -> list[str]:
        """What is known of a record besides its protected value: the features, and of an attribute the label, last."""
        kept = [name for name in self.features if name not in self.attribute]
        return kept if not self.attribute else [*kept, self.label]

    @property
    def protected(self) -> list[str]:
        """The columns of the protected value."""
        return self.attribute or [self.label]

    def words(self) -> dict[str, Any]:
        """For the record."""
        return {
            "label": self.label,
            "attribute": self.attribute or None,
            "target": str(self.target),
            "features": self.features or None,
            "categories": self.categories or None,
        }


def columns_of(source: Any) -> list[str]:
    """The columns of predictions that a setting names; none of a model or of rows to train one on."""
    return [] if source is None or isinstance(source, dict) or models.is_model(source) else listed("columns", source)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Where rows come from.

    Attributes
    ----------
    audited, unseen, learning
        Training rows; rows that the model never saw, to guess at; rows to train a proxy on.
    halved
        Whether the last two are halves of one table.
    named
        The setting that names the rows that the model never saw, for errors.
    """

    audited: Table
    unseen: Table | None
    learning: Table | None
    halved: bool
    named: str

    @classmethod
    def of(cls, table: Any, *, counterfactual: Any, placebo: Any, held_out: Any, folder: str) -> Tables:
        """The tables that the settings name."""
        if placebo is not None and held_out is not None:
            raise InputError("`placebo` and `held_out` are two names of rows that the model never saw.", "give one.")
        if isinstance(counterfactual, dict) and list(counterfactual) != ["table"]:
            raise InputError(
                f'`counterfactual` must be columns, a model, or {{ table = "..." }}, got {counterfactual!r}.'
            )
        named = "placebo" if held_out is None else "held_out"
        never = placebo if held_out is None else held_out
        if counterfactual is None and never is None:
            raise InputError(
                "`placebo` must name rows that the model never saw, or `counterfactual` a proxy, got neither.",
                "half of `placebo` trains a proxy, the attack is compared with the other half.",
            )
        trains = (
            counterfactual["table"] if isinstance(counterfactual, dict) else never if counterfactual is None else None
        )
        audited = Table.of(table, folder=folder)
        unseen = None if never is None else _other(never, named, table, audited, folder)
        learning = None if trains is None else _other(trains, PROXY_ROWS, table, audited, folder)
        if unseen is None:
            halved = learning is not None
            return cls(audited=audited, unseen=learning, learning=learning, halved=halved, named=PROXY_ROWS)
        if learning is None:
            return cls(audited=audited, unseen=unseen, learning=None, halved=False, named=named)
        halved = trains is never or (bool(unseen.files) and set(unseen.files) == set(learning.files))
        if not halved:
            other_rows(PROXY_ROWS, learning, named, unseen)
        return cls(audited=audited, unseen=unseen, learning=learning, halved=halved, named=named)


def _other(source: Any, field: str, table: Any, audited: Table, folder: str) -> Table:
    """A table that is not the audited one."""
    found = Table.of(source, folder=folder, field=field)
    other_rows(field, found, "table", audited)
    if source is table:
        raise InputError(f"`{field}` must hold other rows than `table`, got one data frame for both.")
    return found


def some(table: Table, where: Array) -> Table:
    """Some rows of a table in memory."""
    import pyarrow as pa
    from pyarrow import dataset

    kept = table.data.to_table().take(pa.array(where))
    return Table(data=dataset.dataset(kept), files=table.files, population=table.population)


def halves(table: Table, unit: str | None, seed: int) -> tuple[Table, Table]:
    """Two random halves, whole units where there are."""
    if unit is None:
        place = np.arange(len(table))
    else:
        place = np.unique(table.column(unit, "unit"), return_inverse=True)[1].reshape(-1)
    count = int(place.max()) + 1
    if count < 4:
        raise InputError(f"rows that the model never saw must be at least 4 {unit_word(unit)}s, got {count}.")
    first = np.zeros(count, dtype=np.bool_)
    first[stream(seed, "half of the proxy's table").permutation(count)[: count // 2]] = True
    return some(table, np.flatnonzero(first[place])), some(table, np.flatnonzero(~first[place]))


def shared_units(rows: int, unit: str) -> InputError:
    """The error where a hold-out has units that were trained on: then chance did not choose the ones that are left."""
    return InputError(
        f"rows that chance held out must be whole {unit}s, got {rows:,} rows of {unit}s that were trained on.",
        "if single rows were held out, give them as `placebo`.",
    )


def alike(unit: str, *columns: Array) -> None:
    """Refuse names of units that are texts in one table and numbers in another: "007" is 7, or it is not."""
    if len({column.dtype.kind in "OU" for column in columns}) > 1:
        raise InputError(f"`unit` must be of one kind in all tables, and {unit!r} is texts in one, numbers in another.")


def without(table: Table, unit: str, *others: Table) -> tuple[Table, int]:
    """The rows whose unit is in none of the others, and how many are left out."""
    own = table.column(unit, "unit")
    taken = [other.column(unit, "unit") for other in others]
    alike(unit, own, *taken)
    kept = np.flatnonzero(~np.isin(own, np.unique(np.concatenate(taken))))
    return (table, 0) if kept.size == own.size else (some(table, kept), own.size - kept.size)


def not_copied(table: Table, names: list[str], *others: Table) -> tuple[Table, int]:
    """The rows whose known columns are those of no row of the others, and how many are left out.

    A proxy that was trained on a row knows its value. Values have no say in it: that would be a selection. Where most
    rows have many alike, nobody can tell a copy from another row, and all are kept.
    """
    tables = [table, *others]
    rows = np.zeros(sum(len(one) for one in tables), dtype=np.int64)
    for name in names:
        codes = np.concatenate(designs.codes_of(*(one.column(name) for one in tables))).astype(np.int64)
        rows = np.unique(rows * (int(codes.max()) + 2) + codes + 1, return_inverse=True)[1].reshape(-1)
    own, taken = rows[: len(table)], rows[len(table) :]
    if np.unique(taken).size < DISTINCT * taken.size:
        return table, 0
    kept = np.flatnonzero(~np.isin(own, taken))
    return (table, 0) if kept.size == own.size else (some(table, kept), own.size - kept.size)


def marks(table: Table, uses: Uses) -> list[str]:
    """Columns without a use whose levels may come back: names and whole numbers, such as a forgotten user id."""
    import pyarrow as pa

    names = [one for one in table.data.schema if one.name not in uses.needed]
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
    return [one.name for one in names if any(kind(one.type) for kind in kinds)][:MARKS]
