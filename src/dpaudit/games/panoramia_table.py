"""PANORAMIA on files: a table of known members, and a model or its losses; nobody else's rows are needed.

[game.panoramia]                          # a generator learns from part of the members
members = "trained_on.csv"
label = "income"
model = "model.py:model"                  # or "model.onnx", "model.cbm"

[game.panoramia]                          # everything was computed before, by whomever
members = "members.parquet"
generated = "made.parquet"                # rows of your own generator, with the same columns
loss = "loss"
nonmembers = "held_out.parquet"           # for comparisons beside the result
unit = "owner_id"

Texts become codes, one a value; dates become days. In Python: `da.audit(PanoramiaTable(...), seed=7)`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _tables, models
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence import PairedScores
from dpaudit.execution import Execution, fingerprint
from dpaudit.games.panoramia import SHARES, Matrix, Outputs, Panoramia
from dpaudit.generators import GaussianCopula, SequentialTrees, TreeMarginals

GENERATORS = {"sequential trees": SequentialTrees, "tree marginals": TreeMarginals, "gaussian copula": GaussianCopula}
MOST = 1000
"""Values of a text column."""
COPIES = 0.5
"""Rows of few columns may well be equal; more than this share of them are the same rows."""
FEWEST = 40
"""Non-members: half of them to learn from, half to audit."""
SURE = 1e-7
"""Probabilities stay so far from 0 and 1."""


@dataclass(frozen=True, kw_only=True)
class PanoramiaTable:
    """What a model leaks about its members, from a table of them and rows that a generator made.

    Attributes
    ----------
    members
        Files (Parquet, CSV, Arrow) of rows that the model was trained on, by name or pattern, or a list of them.
    label
        The column that the model predicts. A generator makes it too.
    model
        What is audited: "model.onnx", "model.cbm" or "file.py:function", a classifier of the label by the other
        columns; its loss is what the attack hears.
    loss
        Instead of a model: the column of its losses, in every file. They cannot be had of rows that are made here, so
        `generated` is needed.
    generator
        "sequential trees" (default), "tree marginals" or "gaussian copula".
    generated
        Instead of a generator: files of rows that somebody made.
    helper
        Whether a model of our own, trained on generated rows, stands in for the audited one in the baseline; None: if
        there is a label.
    poor, shares
        As of `Panoramia`.
    leave_out
        Columns that neither the generator nor the guessers nor the model see.
    unit
        The column that says whose row it is: rows of one unit share a coin.
    nonmembers
        Files of real rows that the model was not trained on, for two comparisons beside the result.
    closeness
        How much likelier real records are at most than generated ones, in logarithms: an assertion that makes epsilon a
        bound. Refused where the baseline shows more.
    """

    members: Any
    label: str | None = None
    model: str | None = None
    loss: str | None = None
    generator: str | None = None
    generated: Any = None
    helper: bool | None = None
    poor: float = 0.0
    shares: Any = SHARES
    leave_out: Any = ()
    unit: str | None = None
    nonmembers: Any = None
    closeness: float | None = None
    folder: str = "."

    def __post_init__(self) -> None:
        for name in ("label", "model", "loss", "unit"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                kind = "a model" if name == "model" else "a column"
                raise InputError(f"`{name}` must be the name of {kind}, got {value!r}.")
        left_out = [self.leave_out] if isinstance(self.leave_out, str) else check.items("leave_out", self.leave_out)
        object.__setattr__(self, "leave_out", [str(name) for name in left_out])
        self._check_audited()
        self._check_made()
        self._check_columns()
        if self.helper is None:
            object.__setattr__(self, "helper", self.label is not None)

    def _check_audited(self) -> None:
        if (self.model is None) == (self.loss is None):
            both = "both" if self.model is not None else "neither"
            raise InputError(f"one of `model` and `loss` must say what is audited, got {both}.")
        if self.model is not None and not models.is_model(self.model):
            raise InputError(f"`model` must be an .onnx or .cbm file or 'file.py:function', got {self.model!r}.")
        if self.model is not None and self.label is None:
            raise InputError("`model` needs `label`, the column that it predicts.")
        if self.helper is not None and not isinstance(self.helper, bool):
            raise InputError(f"`helper` must be true or false, got {self.helper!r}.")
        if self.helper and self.label is None:
            raise InputError("`helper` needs `label`, the column that a model of our own would predict.")
        if self.closeness is not None:
            check.number("closeness", self.closeness, low=0.0)

    def _check_made(self) -> None:
        if self.generator is not None and self.generated is not None:
            raise InputError("`generator` and `generated` both give rows.", "leave one of them out.")
        if self.loss is not None and self.generated is None:
            raise InputError(
                "`loss` needs `generated`, files of made rows with their losses.",
                "losses of rows that are made here need the `model` itself.",
            )
        check.number("poor", self.poor, low=0.0, high=0.9)
        if self.poor and self.generated is not None:
            raise InputError("`poor` needs a generator: whether rows are poor is learnt from rows of its own.")
        if self.generated is None:
            object.__setattr__(self, "generator", "sequential trees" if self.generator is None else self.generator)
            check.choice("generator", self.generator, tuple(GENERATORS))
        if self.nonmembers is not None and self.unit is not None:
            raise InputError(
                "`nonmembers` compares single records, and `unit` names a column.", "leave one of them out."
            )
        object.__setattr__(self, "shares", tuple(check.items("shares", self.shares)))

    def _check_columns(self) -> None:
        known = _tables.column_names(self.files)
        named = [name for name in (self.label, self.loss, self.unit) if name is not None]
        _tables.check_names(known, [*named, *self.leave_out])
        used = [*named, *self.leave_out]
        twice = next((name for name in used if used.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"every column must have one use, got {twice!r} for two.")
        if not self.features:
            raise InputError("the table must have columns that are no label, loss or unit, and has none.")
        for field in ("generated", "nonmembers"):
            files = self.files_of(field)
            if not files:
                continue
            if set(files) & set(self.files):
                raise InputError(f"`{field}` must hold other rows than `members`, got one file for both.")
            missing = [name for name in self._needed(whose=False) if name not in _tables.column_names(files)]
            if missing:
                raise InputError(f"`{field}` must have the columns of `members`, and has no {missing[0]!r}.")

    # --------------------------------------------------------------------------------------------------------- columns

    def files_of(self, field: str) -> list[Path]:
        """The files of `members`, `generated` or `nonmembers`."""
        value = getattr(self, field)
        return [] if value is None else _tables.files_of(value, self.folder, field=field)

    @property
    def files(self) -> list[Path]:
        return self.files_of("members")

    @property
    def features(self) -> list[str]:
        """The columns that are known of a record, without its label."""
        other = (self.label, self.loss, self.unit, *self.leave_out)
        return [name for name in _tables.column_names(self.files) if name not in other]

    @property
    def unit_word(self) -> str:
        """What one row, or the rows of one unit, stand for."""
        return _tables.unit_word(self.unit)

    @property
    def relation(self) -> Relation:
        return Relation.SUBSTITUTE

    @property
    def generator_words(self) -> str:
        """Where the generated rows come from, for the record."""
        return "rows that were given" if self.generator is None else self.generator

    @property
    def target_words(self) -> str:
        """What is audited, for the record."""
        return f"column {self.loss}" if self.model is None else self.model

    def _needed(self, *, whose: bool) -> list[str]:
        others = [self.label, self.loss, self.unit if whose else None]
        return [*self.features, *(name for name in others if name is not None)]

    # -------------------------------------------------------------------------------------------------------- as a game

    def game(self, seed: int) -> PanoramiaOfTable:
        """Read the tables and make the game of them; the model is loaded when it is asked first."""
        kept: PanoramiaOfTable | None = self.__dict__.get("_kept")
        if kept is None:
            kept = self._made()
            object.__setattr__(self, "_kept", kept)
        return kept

    def _made(self) -> PanoramiaOfTable:
        read = {
            field: _tables.read(self.files_of(field), self._needed(whose=field == "members"), dates=True).columns
            for field in ("members", "generated", "nonmembers")
            if getattr(self, field) is not None
        }
        names = [*self.features, *([] if self.label is None else [self.label])]
        columns = [_Column.of(name, [found[name] for found in read.values()], name == self.label) for name in names]
        rows = {field: self._rows(columns, found) for field, found in read.items()}
        self._check_rows(rows)
        table = _Coded(tuple(columns), self.label is not None)
        group = None if self.unit is None else _tables.without_gaps(self.unit, read["members"][self.unit])
        audited = _Loss() if self.model is None else _Model(self.model, self.folder, table)
        kind = SequentialTrees if self.generator is None else GENERATORS[self.generator]  # then no row is asked of it
        return PanoramiaOfTable(
            members=rows["members"],
            target=audited,
            generator=_Rounded(kind, table.codes, table.whole),
            generated=rows.get("generated"),
            helper=_Helper(table) if self.helper else None,
            view=None if self.loss is None else _without_loss,
            shares=self.shares,
            poor=self.poor,
            group=group,
            unit=self.unit_word,
            table=self,
            nonmembers=rows.get("nonmembers"),
        )

    def _check_rows(self, rows: dict[str, Matrix]) -> None:
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

    def _rows(self, columns: list[_Column], found: dict[str, NDArray[Any]]) -> Matrix:
        """Codes and numbers, the label after the features, the losses last."""
        parts = [column.coded(found[column.name]) for column in columns]
        if self.loss is not None:
            parts.append(_numbers(self.loss, found[self.loss]))
        return np.stack(parts, axis=1)

    @cached_property
    def digests(self) -> list[list[str]]:
        """Names and content of every file that is read, for the record."""
        used = [path for field in ("members", "generated", "nonmembers") for path in self.files_of(field)]
        if self.model is not None:
            named = Path(self.folder, self.model.rpartition(":")[0] if ".py:" in self.model else self.model)
            used += [named] if named.is_file() else []
        return _tables.digests(used)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """Which audited pair shows its real unit."""
        return self.game(seed).coins(seed)

    def commitment(self, seed: int) -> str:
        """A hash that commits to the coins."""
        return self.game(seed).commitment(seed)

    def fingerprint(self, seed: int) -> str:
        named = {f.name: str(getattr(self, f.name)) for f in fields(self) if f.name != "folder"}
        return fingerprint([named, self.digests, seed])

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> PairedScores:
        """The evidence alone."""
        return self.game(seed).play(seed=seed)


@dataclass(frozen=True, kw_only=True, eq=False)
class PanoramiaOfTable(Panoramia):
    """A game that was read from files, with what the files say besides: an audit of it makes the comparisons."""

    table: PanoramiaTable
    nonmembers: Any = None

    def fingerprint(self, seed: int) -> str:
        return self.table.fingerprint(seed)


# --------------------------------------------------------------------------------------------------------------- coding


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as numbers: codes of its values, or itself."""

    name: str
    levels: tuple[str, ...] | None
    whole: bool

    @classmethod
    def of(cls, name: str, parts: list[NDArray[Any]], label: bool) -> _Column:
        texts = [part.dtype == object for part in parts]
        if any(texts) and not all(texts):
            raise InputError(f"column {name!r} must be of one kind in all files, got texts and numbers.")
        whole = all(part.dtype.kind in "iu" for part in parts)
        if not (label or texts[0]):
            return cls(name, None, whole)
        found = np.unique(
            _known(name, parts[0], label) if label else np.concatenate([_known(name, part, label) for part in parts])
        )
        if len(found) > MOST:
            raise InputError(
                f"column {name!r} must have at most {MOST:,} values, got {len(found):,}.",
                "a column that names its row is left out by `leave_out`; numbers in quotation marks are texts.",
            )
        if label and len(found) < 2:
            raise InputError(f"column {name!r} must take at least two values, got one.")
        return cls(name, tuple(_text(level) for level in found.tolist()), whole)

    def coded(self, column: NDArray[Any]) -> Matrix:
        if self.levels is None:
            return _numbers(self.name, column)
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
    if label:
        return _tables.exact(_tables.without_gaps(name, column))
    return np.array(["" if value is None else str(value) for value in column.tolist()])


def _numbers(name: str, column: NDArray[Any]) -> Matrix:
    found = _tables.without_gaps(name, column)
    if found.dtype.kind not in "fiu":
        raise InputError(f"column {name!r} must be numbers, got {str(found[0])!r}.")
    bad = ~np.isfinite(found)
    if bad.any():
        raise InputError(f"column {name!r} must be finite, got {found[np.argmax(bad)]} in {int(bad.sum()):,} rows.")
    return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Coded:
    """All columns, the label last where there is one."""

    columns: tuple[_Column, ...]
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
class _Rounded:
    """A generator that makes whole numbers where the table has nothing else."""

    kind: Any
    codes: tuple[int, ...]
    whole: tuple[int, ...]
    made: Any = None

    def fit(self, rows: Matrix, *, seed: int = 0) -> _Rounded:
        return _Rounded(self.kind, self.codes, self.whole, self.kind(categorical=self.codes).fit(rows, seed=seed))

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        found = np.array(self.made.sample(count, seed=seed))
        found[:, list(self.whole)] = np.rint(found[:, list(self.whole)])
        return found


def _without_loss(rows: Matrix, label: Any, seed: int) -> tuple[Matrix, Outputs]:
    """What guessers see of rows whose last column is a loss."""
    return rows[:, :-1], lambda others: others[:, :-1]


# --------------------------------------------------------------------------------------------------------------- models


@dataclass(frozen=True, eq=False)
class _Loss:
    """Losses that are already there."""

    def __call__(self, rows: Matrix) -> Matrix:
        return rows[:, -1]


@dataclass(frozen=True, eq=False)
class _Model:
    """The loss of a model on each row's label."""

    reference: str
    folder: str
    table: _Coded

    @cached_property
    def model(self) -> Any:
        return models.load_model(self.reference, field="model", folder=self.folder)

    def __call__(self, rows: Matrix) -> Matrix:
        found = models.probabilities(self.model, self.table.plain(rows), self.table.classes)
        return _losses(found, self.table.labels(rows))[:, 0]


@dataclass(frozen=True, eq=False)
class _Helper:
    """Boosted trees of generated rows: loss and log-odds of each row's label."""

    table: _Coded

    def __call__(self, generated: Matrix, seed: int) -> Outputs:
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
