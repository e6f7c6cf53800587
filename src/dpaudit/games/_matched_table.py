"""What the matched game reads: training rows, rows that the model never saw, rows for a proxy, and what models say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _files, counterfactuals
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.counterfactuals import Categorical, Residuals
from dpaudit.execution import stream
from dpaudit.fitted import designs
from dpaudit.games._guesses import Rows
from dpaudit.games._matched_sources import (
    ONE_PROXY,
    PROXY_ROWS,
    Tables,
    Uses,
    columns_of,
    halves,
    marks,
    not_copied,
    shared_units,
    without,
)
from dpaudit.games._observational_table import _constant as constant
from dpaudit.inputs import models
from dpaudit.inputs.tables import Table, digests, given, listed, two_values, unit_word

Array = NDArray[Any]
MOST_CLASSES = 100
LEVELS = 20
"""From so many levels on, a numeric attribute is a number and no category."""
TENTHS, A_TENTH = 10, 3
"""Classes of a number, which are tenths of its proxy's distribution; values of each at which the model is asked."""
OTHER_ROWS = "leave `counterfactual` out: half of the rows that the model never saw then trains a proxy."
HALF = "{learner}, learnt from {rows:,} rows: half of those that the model never saw"
OTHERS = "{learner}, learnt from {rows:,} other rows"


# -------------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, kw_only=True, eq=False)
class Read:
    """What was read, ready to be asked about.

    Attributes
    ----------
    rows
        Training rows, and those that the model never saw, in memory.
    learning
        Rows to train a proxy on.
    values
        Class numbers of each table in turn, or `numbers`, its numbers.
    kinds
        What each class stands for; of a number its tenths.
    """

    uses: Uses
    rows: tuple[Table, ...]
    learning: Table | None
    seed: int
    left_out: int = 0
    copies: int = 0

    @cached_property
    def number(self) -> bool:
        """Whether the protected value is a number, and no category."""
        name, several = self.uses.protected[0], len(self.uses.protected) > 1
        numeric = [one for one in self.uses.attribute if self._is_number(one)]
        if several and numeric:
            raise InputError(
                f"`attribute` must be categories where it names several columns, and {numeric[0]!r} is a number.",
                "protect the number alone, or cut it into classes.",
            )
        return bool(numeric) and name == numeric[0]

    def _is_number(self, name: str) -> bool:
        column = self.rows[0].column(name)
        if name in self.uses.categories or column.dtype.kind not in "fiu":
            return False
        return np.unique(column[np.isfinite(column)]).size >= LEVELS

    # ---------------------------------------------------------------------------------------------------------- values

    @cached_property
    def classes(self) -> tuple[list[Array], list[tuple[str, ...]]]:
        """Class numbers of every table, and what each class stands for."""
        tables = [*self.rows, *([] if self.learning is None else [self.learning])]
        parts = [[table.column(name, "category") for table in tables] for name in self.uses.protected]
        codes, kinds = counterfactuals.encode(*(_together(part) for part in parts))
        check_kinds("attribute" if self.uses.attribute else "label", self.uses.protected, kinds)
        if self.uses.classes is not None and not self.uses.attribute:
            codes, kinds = _listed(codes, kinds, self.uses.classes, self.uses.label)
        sizes = [len(part) for part in parts[0]]
        return np.split(codes, np.cumsum(sizes)[:-1]), kinds

    @cached_property
    def outcomes(self) -> tuple[list[Array], list[str]]:
        """The labels of the rows at which the attack guesses, as class numbers, and the classes."""
        parts = [table.column(self.uses.label, "category") for table in self.rows]
        codes, kinds = counterfactuals.encode(_together(parts))
        check_kinds("label", [self.uses.label], kinds)
        if self.uses.classes is not None:
            codes, kinds = _listed(codes, kinds, self.uses.classes, self.uses.label)
        return np.split(codes, np.cumsum([len(part) for part in parts])[:-1]), [kind[0] for kind in kinds]

    # ----------------------------------------------------------------------------------------------------------- proxy

    @cached_property
    def law(self) -> list[Residuals]:
        """The proxy's distribution of a number, for each table."""
        if self.learning is None:
            raise InputError(
                "`counterfactual` must be rows to train a proxy on where the attribute is a number.",
                f'write {{ table = "..." }}, or leave it out: {ONE_PROXY}.',
            )
        (name,) = self.uses.protected
        found = designs.learnt_number(
            self.learning.columns(self.uses.rest),
            self.learning.column(name, "number"),
            self._known(),
            categories=self._categories(),
            learner=self.uses.learner,
            seed=self.seed,
        )
        return [found.at(where) for where in self._places()]

    @cached_property
    def proxy(self) -> list[Categorical]:
        """What the proxy says of every class, for each table."""
        source, (codes, kinds) = self.uses.counterfactual, self.classes
        names = [" / ".join(kind) for kind in kinds]
        if self.learning is not None:
            found = designs.learnt(
                self.learning.columns(self.uses.rest),
                codes[len(self.rows)],
                self._known(),
                classes=len(kinds),
                categories=self._categories(),
                learner=self.uses.learner,
                seed=self.seed,
            ).astype(np.float32)
            return [Categorical(found[where]) for where in self._places()]
        if models.is_model(source):
            model = models.load_model(source, field="counterfactual", folder=self.uses.folder)
            return [Categorical(asked(model, table.columns(self.uses.rest), names)) for table in self.rows]
        return [self._columns("counterfactual", source, table, names) for table in self.rows]

    def _columns(self, field: str, source: Any, table: Table, names: list[str]) -> Categorical:
        return Categorical(table.class_probabilities(columns_of(source), names, field=field))

    def _known(self) -> dict[str, Array]:
        """The known columns of all tables at which the attack guesses, below each other."""
        return {name: _together([table.column(name) for table in self.rows]) for name in self.uses.rest}

    def _places(self) -> list[Array]:
        sizes = [len(table) for table in self.rows]
        return np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])

    def _categories(self) -> list[str]:
        """Declared categories among the known columns; the label of an attribute is one."""
        return [name for name in self.uses.rest if name in self.uses.categories]

    # ---------------------------------------------------------------------------------------------------------- target

    def target(self, source: Any, field: str = "target") -> list[Categorical]:
        """What a model says of every value, for each table; of an attribute by Bayes' rule."""
        if self.number:
            return self._of_numbers(self._model(source, field))
        _, kinds = self.classes
        names = [" / ".join(kind) for kind in kinds]
        if not models.is_model(source):
            return [self._columns(field, source, table, names) for table in self.rows]
        model = self._model(source, field)
        if not self.uses.attribute:
            return [Categorical(asked(model, table.columns(self.uses.features), names)) for table in self.rows]
        found = []
        for place, (table, proxy) in enumerate(zip(self.rows, self.proxy, strict=True)):
            likelihood = np.empty((len(table), len(kinds)))
            for number, kind in enumerate(kinds):
                likelihood[:, number] = self._likelihood(model, place, _constants(table, self.uses.attribute, kind))
            found.append(counterfactuals.posterior(likelihood, proxy))
        return found

    def _of_numbers(self, model: Any) -> list[Categorical]:
        """The likelihood of each tenth of the proxy's distribution is the mean of those at values inside it."""
        (name,) = self.uses.attribute
        levels = (np.arange(TENTHS * A_TENTH) + 0.5) / (TENTHS * A_TENTH)
        found = []
        for place, (table, law) in enumerate(zip(self.rows, self.law, strict=True)):
            column, likelihood = table.column(name), np.zeros((len(table), TENTHS))
            for number, residual in enumerate(np.quantile(law.residuals, levels)):
                shown = law.predicted + residual
                shown = np.round(shown) if column.dtype.kind in "iu" else shown
                asked = {name: shown.astype(column.dtype)}
                likelihood[:, number // A_TENTH] += self._likelihood(model, place, asked) / A_TENTH
            found.append(counterfactuals.posterior(likelihood, _even(len(table))))
        return found

    def _likelihood(self, model: Any, place: int, changed: dict[str, Array]) -> Array:
        """What the model gives to each row's own label, were some columns these."""
        labels, names = self.outcomes
        inputs = {**self.rows[place].columns(self.uses.features), **changed}
        return asked(model, inputs, names)[np.arange(len(labels[place])), labels[place]]

    def _model(self, source: Any, field: str) -> Any:
        return models.load_model(source, field=field, folder=self.uses.folder)

    # ------------------------------------------------------------------------------------------------------------ rows

    def tables(self, proxied: bool) -> list[Rows]:
        """The rows of each table, with what target and proxy say."""
        values = self._tenths() if self.number else self.classes[0][: len(self.rows)]
        proxies = [_even(len(table)) for table in self.rows] if self.number else self.proxy if proxied else None
        targets, found = self.target(self.uses.target), []
        for place, table in enumerate(self.rows):
            found.append(
                Rows(
                    values[place],
                    targets[place],
                    None if proxies is None else proxies[place],
                    None if self.uses.unit is None else table.column(self.uses.unit, "unit"),
                    table.columns(self.uses.rest),
                    table.columns(marks(table, self.uses)),
                )
            )
        return found

    def _tenths(self) -> list[Array]:
        (name,) = self.uses.protected
        return [_tenth(law, table.column(name, "number")) for table, law in zip(self.rows, self.law, strict=True)]

    def drawn(self) -> dict[str, Array]:
        """Values of the training rows, drawn from the proxy: a column for each protected one."""
        rng = stream(self.seed, "redrawn values")
        if self.number:
            own = self.rows[0].column(self.uses.protected[0])
            found = self.law[0].sample(rng)
            return {self.uses.protected[0]: np.round(found).astype(own.dtype) if own.dtype.kind in "iu" else found}
        _, kinds = self.classes
        codes = self.proxy[0].sample(rng)
        columns = {}
        for place, name in enumerate(self.uses.protected):
            texts = np.array([kind[place] for kind in kinds])[codes]
            own = self.rows[0].column(name)
            columns[name] = texts.astype(object) if own.dtype == object else texts.astype(np.float64).astype(own.dtype)
        return columns


def check_kinds(field: str, names: Sequence[str], kinds: Sequence[tuple[str, ...]]) -> None:
    """Refuse a column of one value, or of more values than a proxy can learn."""
    two_values(names[0], kinds)
    if len(kinds) > MOST_CLASSES:
        raise InputError(
            f"`{field}` must take at most {MOST_CLASSES} values, got {len(kinds):,} of {' / '.join(names)}.",
            "cut it into classes, and train or ask the model for those.",
        )


def _listed(codes: Array, kinds: Sequence[Any], classes: list[str], label: str) -> tuple[Array, list[tuple[str, ...]]]:
    """The class numbers in the order that the user gives."""
    missing = [kind[0] for kind in kinds if kind[0] not in classes]
    if missing:
        raise InputError(f"`classes` must list every value of {label!r}, and lacks {missing[0]!r}.")
    return np.array([classes.index(kind[0]) for kind in kinds])[codes], [(name,) for name in classes]


def asked(model: Any, inputs: dict[str, Array], names: list[str]) -> Array:
    """Class probabilities of a model; 0 for a class that it does not know."""
    known = models.known_classes(model)
    there = [number for number, name in enumerate(names) if known is None or name in known]
    if len(there) in (0, len(names)):
        return models.probabilities(model, inputs, names)
    found = np.zeros((len(next(iter(inputs.values()))), len(names)))
    found[:, there] = models.probabilities(model, inputs, [names[number] for number in there])
    return found


def _constants(table: Table, columns: Sequence[str], kind: Sequence[str]) -> dict[str, Array]:
    return {name: constant(table.column(name), text) for name, text in zip(columns, kind, strict=True)}


def _together(parts: Sequence[Array]) -> Array:
    return np.concatenate(list(parts))


def _even(rows: int) -> Categorical:
    return Categorical(np.full((rows, TENTHS), 1.0 / TENTHS))


def _tenth(law: Residuals, values: Array) -> NDArray[np.int64]:
    """The tenth of each row's distribution that its number lies in."""
    residuals, own = np.sort(law.residuals), values - law.predicted
    below = np.searchsorted(residuals, own, "left") + np.searchsorted(residuals, own, "right")
    return np.minimum(below * TENTHS // (2 * residuals.size), TENTHS - 1).astype(np.int64)


# ----------------------------------------------------------------------------------------------------------------- all


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """What a game is made of."""

    audited: Rows
    placebo: Rows | None
    redrawn: list[Categorical] | None
    own_proxy: bool
    unit: str
    source: dict[str, Any]


def read(
    table: Any, *, counterfactual: Any, placebo: Any, held_out: Any, protect: str, redrawn: Any, **settings: Any
) -> Found:
    """Read the tables, ask the models, and train a proxy where rows for one are given."""
    asked_of = {"counterfactual": counterfactual, "placebo": placebo, "held_out": held_out}
    found, tables = _read(table, redrawn=redrawn, whole=protect == "record", **asked_of, **settings)
    proxied = found.learning is not None or counterfactual is not None
    rows = found.tables(proxied)
    if redrawn is not None and len(rows) < 2:
        raise InputError("`redrawn` needs rows that the model never saw to compare with: give `placebo`.")
    named = [models.file_of(source, found.uses.folder) for source in (found.uses.target, counterfactual)]
    named.append(models.file_of(redrawn, found.uses.folder))
    besides = [tables.unseen, None if tables.halved else tables.learning]
    return Found(
        audited=rows[0],
        placebo=rows[1] if len(rows) > 1 else None,
        redrawn=None if redrawn is None else found.target(redrawn, "redrawn"),
        own_proxy=found.learning is not None,
        unit=unit_word(found.uses.unit),
        source={
            **found.uses.words(),
            "proxy": _words_of_proxy(counterfactual, tables, found),
            "redrawn": None if redrawn is None else str(redrawn),
            "sample": settings["sample"],
            "left_out": found.left_out,
            "copies_left_out": found.copies,
            "files": digests(tables.audited, *named, *besides),
        },
    )


def _words_of_proxy(counterfactual: Any, tables: Tables, found: Read) -> str:
    if found.learning is None:
        return "none" if counterfactual is None else str(counterfactual)
    return filled(HALF if tables.halved else OTHERS, {"learner": found.uses.learner, "rows": len(found.learning)})


def _read(
    table: Any,
    *,
    counterfactual: Any,
    placebo: Any,
    held_out: Any,
    redrawn: Any,
    whole: bool,
    sample: int | None,
    folder: str,
    seed: int,
    **named: Any,
) -> tuple[Read, Tables]:
    named |= {name: listed(name, named[name]) for name in ("attribute", "features", "categories")}
    named["classes"] = None if named["classes"] is None else listed("classes", named["classes"])
    uses = Uses(counterfactual=counterfactual, folder=folder, **named)
    tables = Tables.of(table, counterfactual=counterfactual, placebo=placebo, held_out=held_out, folder=folder)
    if whole and uses.attribute:
        raise InputError("`attribute` is a value, and `protect` = 'record' is about whole records.", "leave one out.")
    if whole and counterfactual is None and not uses.features:  # then the model's own belief is the score
        tables = replace(tables, learning=None, halved=False)
    uses.check(tables.learning is not None)
    if isinstance(redrawn, dict):
        raise InputError(f"`redrawn` must be a model or columns of its probabilities, got {redrawn!r}.")
    how = {"unit": uses.unit, "seed": seed}
    also = columns_of(redrawn)
    idle = [] if tables.unseen is None else marks(tables.unseen, uses)
    in_both = [name for name in idle if name in tables.audited.names]
    audited = _sampled(tables.audited, "table", [*uses.needed, *also, *in_both], sample, **how)
    if tables.unseen is None:
        return Read(uses=uses, rows=(audited,), learning=None, seed=seed), tables
    names = [*uses.needed, *also, *idle]
    if tables.halved:
        pool = _sampled(tables.unseen, tables.named, names, None if sample is None else 2 * sample, **how)
        learning, unseen = halves(pool, uses.unit, seed)
    else:
        unseen, learning = _sampled(tables.unseen, tables.named, names, sample, **how), None
        if tables.learning is not None:
            known = [*uses.rest, *uses.protected, *given(uses.unit)]
            learning = _sampled(tables.learning, PROXY_ROWS, known, sample, **how)
    learning, unseen, left_out, copies = _apart(tables, uses, learning, unseen, audited, held_out is not None)
    found = Read(uses=uses, rows=(audited, unseen), learning=learning, seed=seed, left_out=left_out, copies=copies)
    return found, tables


def _apart(
    tables: Tables, uses: Uses, learning: Table | None, unseen: Table, audited: Table, held_out: bool
) -> tuple[Table | None, Table, int, int]:
    """No unit or copy of a row trains the proxy and is guessed at, and none that the model never saw was trained on.

    Of a sample all units of the training rows are read, also of those that were not drawn.
    """
    trained, left_out, copies = audited, 0, 0
    if uses.unit is not None and len(audited) < (audited.population or 0):
        trained = tables.audited.sample([uses.unit])
        unseen, left_out = without(unseen, uses.unit, trained)
        if left_out and held_out:
            raise shared_units(left_out, unit_word(uses.unit))
    if learning is not None and uses.unit is not None:
        learning, _ = without(learning, uses.unit, trained, unseen)
        if not len(learning):
            raise InputError(f"every {unit_word(uses.unit)} of the rows for a proxy is audited, too.")
    if learning is not None and uses.rest:
        learning, copies = not_copied(learning, uses.rest, unseen, audited)
        if not len(learning):
            raise InputError("every row that would train the proxy is one that the attack guesses at.", OTHER_ROWS)
    return learning, unseen, left_out, copies


def _sampled(table: Table, field: str, names: list[str], count: int | None, **how: Any) -> Table:
    """Some columns in memory; an error says of which table."""
    missing = [name for name in names if name not in table.names]
    if missing and field != "table":
        raise InputError(f"`{field}` must have the columns of `table`, and has no {missing[0]!r}.", table.hint)
    return table.sample(names, count, **how)


def write_redrawn(table: Any, to: Path, *, protect: str, **settings: Any) -> Path:
    """Write the training table, and beside each protected column values that are drawn from the proxy."""
    import pyarrow as pa
    from pyarrow import parquet

    found, tables = _read(table, redrawn=None, whole=protect == "record", sample=None, **settings)
    written = tables.audited.data.to_table()
    for name, column in found.drawn().items():
        kind = written.schema.field(name).type
        written = written.append_column(f"{name} redrawn", pa.array(column).cast(kind))
    return _files.write(to, lambda partial: parquet.write_table(written, partial))
