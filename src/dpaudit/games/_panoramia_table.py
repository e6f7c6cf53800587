"""What PANORAMIA reads: tables of members and of other rows as codes and numbers, and the models that see them.

Texts become codes, one a value; dates become days.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.fitted.generators import GaussianCopula, SequentialTrees, TreeMarginals
from dpaudit.inputs import models
from dpaudit.inputs.tables import Table, checked, column_names, digests, given, listed, one_use, other_rows, two_values

GENERATORS = {"sequential trees": SequentialTrees, "tree marginals": TreeMarginals, "gaussian copula": GaussianCopula}
MOST = 1000
"""Values of a text column."""
COPIES = 0.5
"""Rows of few columns may well be equal; more than this share of them are the same rows."""
FEWEST = 40
"""Non-members: half of them to learn from, half to audit."""
SURE = 1e-7
"""Probabilities stay so far from 0 and 1."""
Matrix = NDArray[np.float64]


# ------------------------------------------------------------------------------------------------------------- settings


def check_audited(*, label: Any, model: Any, loss: Any, helper: Any, divergence: Any) -> None:
    """Refuse settings that do not say what is audited."""
    column_names(label=label, loss=loss)
    if model is not None and not isinstance(model, str):
        raise InputError(f"`model` must be the name of a model, got {model!r}.")
    if (model is None) == (loss is None):
        both = "both" if model is not None else "neither"
        raise InputError(f"one of `model` and `loss` must say what is audited, got {both}.")
    if model is not None and not models.is_model(model):
        raise InputError(f"`model` must be an .onnx or .cbm file or 'file.py:function', got {model!r}.")
    if model is not None and label is None:
        raise InputError("`model` needs `label`, the column that it predicts.")
    if helper is not None and not isinstance(helper, bool):
        raise InputError(f"`helper` must be true or false, got {helper!r}.")
    if helper and label is None:
        raise InputError("`helper` needs `label`, the column that a model of our own would predict.")
    if divergence is not None:
        check.number("divergence", divergence, low=0.0)


def check_made(
    *, generator: Any, generated: Any, loss: Any, discard_fraction: Any, shares: Any, nonmembers: Any, unit: Any
) -> None:
    """Refuse settings that do not say where the other rows come from."""
    column_names(unit=unit)
    if generator is not None and generated is not None:
        raise InputError("`generator` and `generated` both give rows.", "leave one of them out.")
    if loss is not None and generated is None:
        raise InputError(
            "`loss` needs `generated`, files of made rows with their losses.",
            "losses of rows that are made here need the `model` itself.",
        )
    check.number("discard_fraction", discard_fraction, low=0.0, high=0.9)
    check.items("shares", shares)
    if discard_fraction and generated is not None:
        raise InputError("`discard_fraction` needs a generator: whether rows are poor is learnt from rows of its own.")
    if generator is not None:
        check.choice("generator", generator, tuple(GENERATORS))
    if nonmembers is not None and unit is not None:
        raise InputError("`nonmembers` compares single records, and `unit` names a column.", "leave one of them out.")


# --------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
    """Members, and rows that were made or are none, each as codes and numbers.

    Attributes
    ----------
    found
        The tables by the settings that name them; "members" is one of them.
    features
        The columns that are known of a record, without its label.
    """

    found: dict[str, Table]
    label: str | None
    loss: str | None
    unit: str | None
    leave_out: list[str]
    features: list[str]

    @classmethod
    def of(
        cls,
        sources: dict[str, Any],
        *,
        label: str | None,
        loss: str | None,
        unit: str | None,
        leave_out: Any,
        folder: Any,
    ) -> Tables:
        """Open the tables that are named, and see that they have the columns."""
        found = {
            field: Table.of(source, folder=folder, field=field)
            for field, source in sources.items()
            if source is not None or field == "members"
        }
        members, left_out = found["members"], listed("leave_out", leave_out)
        used = [*given(label, loss, unit), *left_out]
        members.check_names(used)
        one_use(used)
        features = [name for name in members.names if name not in used]
        if not features:
            raise InputError("the table must have columns that are no label, loss or unit, and has none.")
        for field, table in found.items():
            if table is members:
                continue
            other_rows(field, table, "members", members)
            missing = [name for name in [*features, *given(label, loss)] if name not in table.names]
            if missing:
                raise InputError(f"`{field}` must have the columns of `members`, and has no {missing[0]!r}.")
        return cls(found=found, label=label, loss=loss, unit=unit, leave_out=left_out, features=features)

    def read(self) -> tuple[Coded, dict[str, Matrix], NDArray[Any] | None]:
        """How the columns are coded, the rows of each table, and whose each member's are."""
        names = [*self.features, *given(self.label)]
        read = {
            field: table.sample([*names, *given(self.loss, self.unit if field == "members" else None)], days=True)
            for field, table in self.found.items()
        }
        columns = [Column.of(name, [one.column(name) for one in read.values()], name == self.label) for name in names]
        rows = {field: self._rows(columns, table) for field, table in read.items()}
        _check_rows(rows)
        group = None if self.unit is None else read["members"].column(self.unit, "unit")
        return Coded(tuple(columns), self.label is not None), rows, group

    def _rows(self, columns: list[Column], table: Table) -> Matrix:
        """Codes and numbers, the label after the features, the losses last."""
        parts = [column.coded(table.column(column.name)) for column in columns]
        if self.loss is not None:
            parts.append(table.column(self.loss, "loss"))
        return np.stack(parts, axis=1)

    def words(self, *, generator: str | None, model: str | None, folder: Any) -> dict[str, Any]:
        """Where the rows come from, for the record."""
        return {
            "generator": "rows that were given" if generator is None else generator,
            "target": f"column {self.loss}" if model is None else model,
            "label": self.label,
            "features": self.features,
            "leave_out": self.leave_out,
            "files": digests(*self.found.values(), models.file_of(model, folder)),
        }


def _check_rows(rows: dict[str, Matrix]) -> None:
    """Files of other names may still hold the same rows; and a comparison needs some of them."""
    seen = {field: {row.tobytes() for row in found} for field, found in rows.items()}
    for field, other in (("generated", "members"), ("nonmembers", "members"), ("nonmembers", "generated")):
        if field in rows and other in rows:
            copies = sum(row.tobytes() in seen[other] for row in rows[field])
            if copies > COPIES * len(rows[field]):
                same = f"{copies:,} of {len(rows[field]):,} that are the same"
                raise InputError(f"`{field}` must hold other rows than `{other}`, got {same}.")
    if "nonmembers" in rows and len(rows["nonmembers"]) < FEWEST:
        raise InputError(
            f"`nonmembers` must hold at least {FEWEST} rows to compare with, got {len(rows['nonmembers'])}."
        )


# --------------------------------------------------------------------------------------------------------------- coding


@dataclass(frozen=True, eq=False)
class Column:
    """A column as numbers: codes of its values, or itself."""

    name: str
    levels: tuple[str, ...] | None
    whole: bool

    @classmethod
    def of(cls, name: str, parts: list[NDArray[Any]], label: bool) -> Column:
        """The coding of a column that several tables have; labels are those of the first."""
        texts = [part.dtype == object for part in parts]
        if any(texts) and not all(texts):
            raise InputError(f"column {name!r} must be of one kind in all files, got texts and numbers.")
        whole = all(part.dtype.kind in "iu" for part in parts)
        if not (label or texts[0]):
            return cls(name, None, whole)
        found = np.unique(_known(name, parts[0], label) if label else np.concatenate([_texts(part) for part in parts]))
        if len(found) > MOST:
            raise InputError(
                f"column {name!r} must have at most {MOST:,} values, got {len(found):,}.",
                "a column that names its row is left out by `leave_out`; numbers in quotation marks are texts.",
            )
        if label:
            two_values(name, found.tolist())
        return cls(name, tuple(_text(level) for level in found.tolist()), whole)

    def coded(self, column: NDArray[Any]) -> Matrix:
        """The numbers of a table's column."""
        if self.levels is None:
            return checked(self.name, column, "number")
        place = {level: number for number, level in enumerate(self.levels)}
        texts = [_text(value) for value in _known(self.name, column, column.dtype != object).tolist()]
        strange = next((text for text in texts if text not in place), None)
        if strange is not None:
            raise InputError(f"column {self.name!r} must have the values that members have, got {strange!r}.")
        return np.array([place[text] for text in texts], dtype=np.float64)

    def plain(self, codes: Matrix) -> NDArray[Any]:
        """What a model is shown: texts, and whole numbers where all of them are."""
        if self.levels is None:
            return np.rint(codes).astype(np.int64) if self.whole else codes
        return np.array(self.levels, dtype=object)[codes.astype(np.int64)]


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _known(name: str, column: NDArray[Any], label: bool) -> NDArray[Any]:
    """The values of a column of codes; a gap in a text is a value of its own, one in a label is refused."""
    return checked(name, column, "category") if label else _texts(column)


def _texts(column: NDArray[Any]) -> NDArray[Any]:
    return np.array(["" if value is None else str(value) for value in column.tolist()])


@dataclass(frozen=True, eq=False)
class Coded:
    """All columns, the label last where there is one."""

    columns: tuple[Column, ...]
    labelled: bool

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(place for place, column in enumerate(self.columns) if column.levels is not None)

    @property
    def whole(self) -> tuple[int, ...]:
        return tuple(place for place, column in enumerate(self.columns) if column.levels is None and column.whole)

    @property
    def classes(self) -> list[str]:
        return list(self.columns[-1].levels or ())

    def labels(self, rows: Matrix) -> NDArray[np.int64]:
        return rows[:, len(self.columns) - 1].astype(np.int64)

    def features(self, rows: Matrix) -> Matrix:
        return rows[:, : len(self.columns) - 1]

    def plain(self, rows: Matrix) -> dict[str, NDArray[Any]]:
        """The features as they are in a file."""
        return {column.name: column.plain(rows[:, place]) for place, column in enumerate(self.columns[:-1])}


@dataclass(frozen=True, eq=False)
class Rounded:
    """A generator that makes whole numbers where the table has nothing else."""

    kind: Any
    codes: tuple[int, ...]
    whole: tuple[int, ...]
    made: Any = None

    def fit(self, rows: Matrix, *, seed: int = 0) -> Rounded:
        return Rounded(self.kind, self.codes, self.whole, self.kind(categorical=self.codes).fit(rows, seed=seed))

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        found = np.array(self.made.sample(count, seed=seed))
        found[:, list(self.whole)] = np.rint(found[:, list(self.whole)])
        return found


def without_loss(rows: Matrix, label: Any, seed: int) -> tuple[Matrix, Callable[[Any], Any]]:
    """What guessers see of rows whose last column is a loss."""
    return rows[:, :-1], lambda others: others[:, :-1]


# --------------------------------------------------------------------------------------------------------------- models


@dataclass(frozen=True, eq=False)
class Loss:
    """Losses that are already there."""

    def __call__(self, rows: Matrix) -> Matrix:
        return rows[:, -1]


@dataclass(frozen=True, eq=False)
class Model:
    """The loss of a model on each row's label."""

    reference: str
    folder: str
    table: Coded

    @cached_property
    def model(self) -> Any:
        return models.load_model(self.reference, field="model", folder=self.folder)

    def __call__(self, rows: Matrix) -> Matrix:
        found = models.probabilities(self.model, self.table.plain(rows), self.table.classes)
        return _losses(found, self.table.labels(rows))[:, 0]


@dataclass(frozen=True, eq=False)
class Helper:
    """Boosted trees of generated rows: loss and log-odds of each row's label."""

    table: Coded

    def __call__(self, generated: Matrix, seed: int) -> Callable[[Any], Any]:
        from sklearn.ensemble import HistGradientBoostingClassifier

        labels = self.table.labels(generated)
        known = np.unique(labels)
        if known.size < 2:
            raise InputError("generated rows must have two labels at least for a helper, got one.", "helper = false")
        model = HistGradientBoostingClassifier(max_iter=60, early_stopping=False, random_state=seed % 2**32)
        model.fit(self.table.features(generated), labels)

        def outputs(rows: Matrix) -> Matrix:
            found = np.zeros((len(rows), len(self.table.classes)))
            found[:, known] = model.predict_proba(self.table.features(rows))
            return _losses(found, self.table.labels(rows))

        return outputs


def _losses(probabilities: Matrix, labels: NDArray[np.int64]) -> Matrix:
    own = np.clip(probabilities[np.arange(len(labels)), labels], SURE, 1.0 - SURE)
    return np.column_stack([-np.log(own), special.logit(own)])


def looks_real(real: Matrix, made: Matrix, seed: int) -> Callable[[Any], Any]:
    """How real rows look, by a classifier of rows that are used for nothing else."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    judge = HistGradientBoostingClassifier(max_iter=60, random_state=seed % 2**32)
    judge.fit(np.concatenate([real, made]), np.repeat([1, 0], [len(real), len(made)]))
    return lambda rows: judge.predict_proba(rows)[:, 1]


def asked(name: str, outputs: Any) -> Callable[[Any], Any]:
    """A model's outputs as a matrix, whatever it returns."""
    if not callable(outputs):
        raise InputError(f"`{name}` must give a function of rows, got {type(outputs).__name__}.")

    def ask(rows: Matrix) -> Matrix:
        found = np.asarray(outputs(rows), dtype=np.float64)
        found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or len(found) != len(rows) or not np.isfinite(found).all():
            raise InputError(f"`{name}` must say finite numbers of each of {len(rows)} rows, got shape {found.shape}.")
        return found

    return ask


@dataclass(frozen=True, eq=False)
class Lesson:
    """One fit of the view: the rows that it learnt from and those that are judged by it, and how they look then."""

    learnt: NDArray[np.intp]
    judged: NDArray[np.intp]
    seen_learnt: Matrix
    seen_judged: Matrix

    def scores(self, model: Any, outputs: Matrix, label: Any, seed: int) -> Matrix:
        """How real the judged rows look to a guesser that also hears what models say of them."""
        from sklearn.base import clone

        guesser = clone(model)
        if "random_state" in guesser.get_params():
            guesser.set_params(random_state=seed % 2**32)
        guesser.fit(np.concatenate([self.seen_learnt, outputs[self.learnt]], axis=1), label[self.learnt])
        seen = np.concatenate([self.seen_judged, outputs[self.judged]], axis=1)
        return np.asarray(guesser.predict_proba(seen)[:, 1])
