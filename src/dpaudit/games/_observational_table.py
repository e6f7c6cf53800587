"""What the observational game reads: labels or inputs of a table, models or their predictions, rows for a proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import counterfactuals
from dpaudit._validate import InputError
from dpaudit.counterfactuals import Categorical
from dpaudit.fitted import designs
from dpaudit.inputs import models
from dpaudit.inputs.tables import (
    Kind,
    Table,
    column_names,
    digests,
    given,
    listed,
    numeric,
    other_rows,
    two_values,
)

MOST_CLASSES = 50
SPREAD = 20
"""Texts of at most so many levels are a column a level for the blind baseline."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sources:
    """The table, and where target and proxy come from: models, columns of their probabilities, or other rows."""

    table: Table
    label: str
    target: Any
    counterfactual: Any
    others: Table | None
    attribute: list[str]
    features: list[str]
    unit: str | None
    classes: list[str] | None
    folder: str

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        label: str,
        target: Any,
        counterfactual: Any,
        attribute: Any,
        features: Any,
        unit: str | None,
        classes: Any,
        folder: str,
    ) -> Sources:
        """The sources that the settings name."""
        if not isinstance(label, str):
            raise InputError(f"`label` must be the name of a column, got {label!r}.")
        column_names(unit=unit)
        if isinstance(target, dict):
            raise InputError(f"`target` must be a model or columns of its probabilities, got {target!r}.")
        if isinstance(counterfactual, dict) and list(counterfactual) != ["table"]:
            raise InputError(
                f'`counterfactual` must be columns, a model, or {{ table = "..." }}, got {counterfactual!r}.'
            )
        found = cls(
            table=table,
            label=label,
            target=target,
            counterfactual=counterfactual,
            others=Table.of(counterfactual["table"], folder=folder, field="counterfactual.table")
            if isinstance(counterfactual, dict)
            else None,
            attribute=listed("attribute", attribute),
            features=listed("features", features),
            unit=unit,
            classes=None if classes is None else listed("classes", classes),
            folder=folder,
        )
        found._check()
        table.check_names(found.needed)
        return found

    def _check(self) -> None:
        """What the models need, and what would give the answer away."""
        if self.attribute and not models.is_model(self.target):
            raise InputError("`attribute` needs a model for `target`: it is asked what it would say of other values.")
        asks = [models.is_model(source) or isinstance(source, dict) for source in (self.target, self.counterfactual)]
        if any(asks) and not self.features:
            raise InputError("`features` must list the columns that the model takes, got none.")
        if not set(self.attribute) <= set(self.features):
            raise InputError(f"`attribute` must be among the features, got {', '.join(self.attribute)}.")
        if self.label in self.features:
            raise InputError(f"`features` must not hold the label, got {self.label!r} among them.")
        if self.others is not None:
            other_rows("proxy.table", self.others, "table", self.table)

    @property
    def needed(self) -> list[str]:
        """The columns that are read."""
        columns = [self.label, *self.features, *given(self.unit)]
        for name in ("target", "counterfactual"):
            source = getattr(self, name)
            if not models.is_model(source) and not isinstance(source, dict):
                columns += [source] if isinstance(source, str) else check.items(name, source)
        return list(dict.fromkeys(columns))

    @property
    def rest(self) -> list[str]:
        """What is known of a record besides its protected value: the features, and of an attribute the label, last."""
        kept = [name for name in self.features if name not in self.attribute]
        return kept if not self.attribute else [*kept, self.label]

    @property
    def protected(self) -> list[str]:
        """The columns of the protected value."""
        return self.attribute or [self.label]

    # ---------------------------------------------------------------------------------------------------------- columns

    def values(self, rows: Table) -> tuple[NDArray[np.int64], list[Kind]]:
        """The protected values as class numbers, and what each stands for, in the order of the probabilities."""
        codes, kinds = rows.classes(self.protected)
        fractions = [name for name in self.protected if rows.column(name).dtype.kind == "f"]
        if fractions and len(kinds) > MOST_CLASSES:
            raise InputError(
                f"column {fractions[0]!r} takes {len(kinds):,} different values, and a table's game needs categories.",
                "cut it into classes, or play `games.Observational` with a proxy for numbers.",
            )
        two_values(self.protected[0], kinds)
        if self.attribute or self.classes is None:
            return codes, kinds
        return rows.classes([self.label], self.classes)

    def audited(self, rows: Table, kinds: list[Kind], counterfactual: Categorical) -> Categorical:
        """What the target says of every value."""
        if not models.is_model(self.target):
            return self._columns("target", self.target, rows, kinds)
        model = models.load_model(self.target, field="target", folder=self.folder)
        inputs = rows.columns(self.features)
        if not self.attribute:
            return Categorical(models.probabilities(model, inputs, [kind[0] for kind in kinds]))
        place, outcomes = rows.classes([self.label], self.classes)
        names = [kind[0] for kind in outcomes]
        likelihood = np.empty((len(rows), len(kinds)))
        for number, kind in enumerate(kinds):
            changed = dict(inputs)
            for column, text in zip(self.attribute, kind, strict=True):
                changed[column] = _constant(inputs[column], text)
            likelihood[:, number] = models.probabilities(model, changed, names)[np.arange(len(rows)), place]
        return counterfactuals.posterior(likelihood, counterfactual)

    def distribution(self, rows: Table, kinds: list[Kind]) -> Categorical:
        """What somebody says of every value who never saw these rows."""
        if self.others is not None:
            return self._trained(rows, kinds, self.others)
        if models.is_model(self.counterfactual):
            model = models.load_model(self.counterfactual, field="counterfactual", folder=self.folder)
            inputs = rows.columns(self.rest)
            return Categorical(models.probabilities(model, inputs, [" / ".join(kind) for kind in kinds]))
        return self._columns("counterfactual", self.counterfactual, rows, kinds)

    def _columns(self, field: str, source: Any, rows: Table, kinds: list[Kind]) -> Categorical:
        names = [source] if isinstance(source, str) else list(source)
        return Categorical(rows.class_probabilities(names, [" / ".join(kind) for kind in kinds], field=field))

    def _trained(self, rows: Table, kinds: list[Kind], others: Table) -> Categorical:
        """A proxy learnt from the rows of another table."""
        other = others.sample([*self.rest, *self.protected])
        codes, own = other.classes(self.protected)
        missing = [kind for kind in kinds if kind not in own]
        if missing:
            raise InputError(
                f"`proxy.table` must have rows of every class, and has none of {' / '.join(missing[0])!r}."
            )
        place = np.array([kinds.index(kind) if kind in kinds else len(kinds) for kind in own])[codes]
        matrix, _ = _known([other.columns(self.rest), rows.columns(self.rest)], place, len(own))
        distribution = counterfactuals.trained(
            matrix[: len(other)], place, matrix[len(other) :], classes=len(kinds) + int(len(own) > len(kinds))
        ).probabilities[:, : len(kinds)]  # classes that the audited table does not have are left out
        return Categorical(distribution / distribution.sum(axis=1, keepdims=True))

    def known(
        self, rows: Table, values: NDArray[np.int64], kinds: list[Kind]
    ) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
        """What the blind baseline looks at; None of no columns, or a second attempt would be paid for in vain."""
        return _known([rows.columns(self.rest)], values, len(kinds)) if self.rest else (None, ())

    def words(self) -> dict[str, Any]:
        """Where the rows come from, for the record."""
        named = [models.file_of(source, self.folder) for source in (self.target, self.counterfactual)]
        told = (
            "{'table': 'data frame'}" if self.others is not None and not self.others.files else str(self.counterfactual)
        )
        return {
            "label": self.label,
            "attribute": self.attribute or None,
            "target": str(self.target),
            "counterfactual": told,
            "features": self.features or None,
            "files": digests(self.table, named[0], named[1] or self.others),
        }


def _known(
    tables: list[dict[str, NDArray[Any]]], values: NDArray[np.int64], classes: int
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Numbers, few levels spread out, and many levels encoded by the values of the first table, out of fold."""
    both = {name: np.concatenate([columns[name] for columns in tables]) for name in tables[0]}
    spread = {name: column for name, column in both.items() if not _many_levels(column)}
    rows = sum(len(next(iter(columns.values()))) for columns in tables)
    matrix, names = numeric(spread) if spread else (np.zeros((rows, 0)), [])
    design = designs.Design.of(*tables)
    if design.category_names:
        encoded = design.encoded((values[:, None] == np.arange(1, classes)).astype(np.float64))
        names = names + [f"{name} (encoded)" for name in design.category_names for _ in range(classes - 1)]
        matrix = np.concatenate([matrix, encoded.astype(np.float64)], axis=1)
    return matrix, tuple(names)


def _many_levels(column: NDArray[Any]) -> bool:
    return column.dtype == object and len({str(value) for value in column.tolist()}) > SPREAD


def _constant(column: NDArray[Any], text: str) -> NDArray[Any]:
    if column.dtype == object:
        return np.full(column.shape, text, dtype=object)
    return np.full(column.shape, float(text)).astype(column.dtype)


def class_numbers(values: NDArray[Any], classes: int) -> NDArray[np.int64]:
    whole = values.ndim == 1 and values.dtype.kind in "iubf"
    if not whole or not np.all(values == np.floor(values.astype(float))) or values.min() < 0 or values.max() >= classes:
        raise InputError(
            f"`values` must be class numbers 0 to {classes - 1}, got {values.ravel()[:4].tolist()} and so on.",
            "`counterfactuals.encode` turns columns into class numbers.",
        )
    return values.astype(np.int64)


def numeric_features(features: Any, rows: int) -> NDArray[np.float64]:
    found = np.asarray(features)
    if found.ndim != 2 or len(found) != rows or found.dtype.kind not in "fiub":
        raise InputError(
            f"`features` must be a numeric matrix of {rows} rows, got shape {found.shape} of {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise InputError("`features` must be finite.", "fill gaps, or add a column that says where they are.")
    return found.astype(np.float64)


def ratio_a_row(value: Any, rows: int) -> NDArray[np.float64]:
    try:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), (rows,))
    except ValueError:
        raise InputError(f"`log_ratio` must be one number or one a row ({rows}), got {value!r}.") from None
    if not np.isfinite(found).all() or found.min() < 0.0:
        raise InputError("`log_ratio` must be non-negative and finite, one number or one a row.")
    return found
