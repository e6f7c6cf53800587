"""The observational game on files: a table of rows, and a model or the predictions it already made.

[game.observational]                      # predictions that are already there; nothing else is needed
table = "day=2026-11-14/*.parquet"
label = "clicked"
target = "p_today"                        # the audited model's probability
proxy = "p_yesterday"                     # that of a model that never saw these rows

[game.observational]                      # a model and its training table
table = "train.parquet"
label = "income"
target = "model.onnx"
features = ["age", "education", "hours"]
proxy = { table = "other.parquet" }       # rows of the same kind that the model was not trained on
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _tables, models, proxies
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.attacks.reference import REFERENCE_ATTACKS
from dpaudit.bounds import Relation
from dpaudit.evidence import CanaryScores, MemberScores
from dpaudit.execution import Execution, fingerprint
from dpaudit.games.observational import Observational
from dpaudit.proxies import Categorical

MOST_CLASSES = 50
Kind = tuple[str, ...]
"""One class: the value of each protected column, as text."""


@dataclass(frozen=True, kw_only=True)
class ObservationalTable:
    """What a model leaks about labels, or about a column that it takes as an input, from files alone.

    Attributes
    ----------
    table
        Files of training rows (Parquet, CSV, Arrow), by name or pattern, or a list of them.
    label
        The column of labels. It is the protected value, unless `attribute` names another.
    target
        The audited model (see `dpaudit.models`), or the column of its probability of the second class, or a list of
        columns, one a class.
    proxy
        A model that never saw these rows (an earlier checkpoint, a reference; of an attribute it is asked with the
        other features and the label, in this order), or columns of its probabilities, or
        `{ table = "..." }`: rows that the target was not trained on, to train one on.
    attribute
        A column, or several, that the model takes as inputs and that is to be protected; needs a model for a target.
    features
        The columns that the models take, and that the blind attack looks at. With columns of predictions they are
        optional; without them the gate sees miscalibration only, and a proxy that merely knows less passes it.
    unit
        The column that says whose row it is: rows of one unit share a coin. None: that no two rows belong to one unit
        is printed as an assumption.
    classes
        The values of the label in the order of the columns or outputs of probabilities; None: sorted.
    held_out
        Share of units that are never canaries, to recalibrate the proxy on if the gate closes.
    sample
        Play with about this many rows, drawn at random: for tables that do not fit into memory.

    The other fields are those of `Observational`.
    """

    table: Any
    label: str
    target: Any
    proxy: Any
    attribute: Any = None
    features: Any = None
    unit: str | None = None
    classes: Any = None
    attack: str = "likelihood-ratio"
    shift: float = 0.0
    log_ratio: float | None = None
    held_out: float = 0.1
    sample: int | None = None
    folder: str = "."

    def __post_init__(self) -> None:
        for name in ("features", "classes", "attribute"):
            value = getattr(self, name)
            if value is not None:
                listed = [value] if isinstance(value, str) else check.items(name, value)
                object.__setattr__(self, name, [str(entry) for entry in listed])
                if len(set(getattr(self, name))) < len(listed):
                    raise InputError(f"`{name}` must not name anything twice, got {', '.join(getattr(self, name))}.")
        if not isinstance(self.label, str):
            raise InputError(f"`label` must be the name of a column, got {self.label!r}.")
        if self.unit is not None and not isinstance(self.unit, str):
            raise InputError(f"`unit` must be the name of a column, got {self.unit!r}.")
        check.choice("attack", self.attack, REFERENCE_ATTACKS)
        check.number("shift", self.shift, low=0.0, high=1.0)
        check.number("held_out", self.held_out, low=0.0, high=0.9)
        if self.sample is not None:
            check.count("sample", self.sample, low=2)
        if self.log_ratio is not None:
            check.number("log_ratio", self.log_ratio, low=0.0)
        if isinstance(self.target, dict):
            raise InputError(f"`target` must be a model or columns of its probabilities, got {self.target!r}.")
        if isinstance(self.proxy, dict) and list(self.proxy) != ["table"]:
            raise InputError(f'`proxy` must be columns, a model, or {{ table = "..." }}, got {self.proxy!r}.')
        self._check_columns()
        _tables.check_names(_tables.column_names(self.files), self._needed())

    def _check_columns(self) -> None:
        """What the models need, and what would give the answer away."""
        features, protected = self.features or [], self.attribute or []
        if protected and not models.is_model(self.target):
            raise InputError("`attribute` needs a model for `target`: it is asked what it would say of other values.")
        asks = [models.is_model(source) or isinstance(source, dict) for source in (self.target, self.proxy)]
        if any(asks) and not features:
            raise InputError("`features` must list the columns that the model takes, got none.")
        if not set(protected) <= set(features):
            raise InputError(f"`attribute` must be among the features, got {', '.join(protected)}.")
        if self.label in features:
            raise InputError(f"`features` must not hold the label, got {self.label!r} among them.")

    @property
    def files(self) -> list[Path]:
        return _tables.files_of(self.table, self.folder)

    @property
    def relation(self) -> Relation:
        return Relation.LABEL

    @property
    def unit_word(self) -> str:
        """What one coin stands for."""
        return _tables.unit_word(self.unit)

    def _needed(self) -> list[str]:
        columns = [self.label, *(self.features or []), *([self.unit] if self.unit else [])]
        for name in ("target", "proxy"):
            source = getattr(self, name)
            if not models.is_model(source) and not isinstance(source, dict):
                columns += [source] if isinstance(source, str) else check.items(name, source)
        return list(dict.fromkeys(columns))

    # -------------------------------------------------------------------------------------------------------- as a game

    def game(self, seed: int) -> Observational:
        """Read the table, ask the models, and make the game of it; a sample is drawn by the seed."""
        kept: tuple[int, Observational] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != seed:
            from threadpoolctl import threadpool_limits

            with threadpool_limits(1):  # sums in another order would be other numbers
                kept = (seed, self._made(seed))
            object.__setattr__(self, "_kept", kept)
        return kept[1]

    def _made(self, seed: int) -> Observational:
        found = _tables.read(self.files, self._needed(), sample=self.sample, unit=self.unit, seed=seed)
        values, kinds = self._values(found)
        proxy = self._proxy(found, kinds)
        shown = {name: found.columns[name] for name in self._rest()}
        matrix, names = _tables.numeric(shown) if shown else (None, [])
        return Observational(
            values=values,
            proxy=proxy,
            target=self._target(found, kinds, proxy),
            attack=self.attack,
            features=matrix,
            feature_names=tuple(names),
            shift=self.shift,
            log_ratio=self.log_ratio,
            group=None if self.unit is None else _tables.without_gaps(self.unit, found.columns[self.unit]),
            unit=self.unit_word,
            held_out=self.held_out,
            offered=found.offered if len(found) < found.offered else None,
            assumed=tuple(_tables.cut_columns(shown)),
        )

    def _values(self, found: _tables.Rows) -> tuple[NDArray[np.int64], list[Kind]]:
        """The protected values as class numbers, and what each stands for, in the order of the probabilities."""
        columns = self.attribute or [self.label]
        codes, kinds = proxies.encode(*(_tables.exact(_tables.without_gaps(c, found.columns[c])) for c in columns))
        fractions = [c for c in columns if found.columns[c].dtype.kind == "f" and len(kinds) > MOST_CLASSES]
        if fractions:
            raise InputError(
                f"column {fractions[0]!r} takes {len(kinds):,} different values, and a table's game needs categories.",
                "cut it into classes, or play `games.Observational` with a proxy for numbers.",
            )
        if len(kinds) < 2:
            raise InputError(f"the protected column {columns[0]!r} must take at least two values, got one.")
        if self.attribute is None and self.classes is not None:
            return self._listed(kinds)[codes], [(name,) for name in self.classes]
        return codes, kinds

    def _listed(self, kinds: list[Kind]) -> NDArray[np.int64]:
        """The place of each label in `classes`."""
        missing = [kind[0] for kind in kinds if kind[0] not in self.classes]
        if missing:
            raise InputError(f"`classes` must list every value of {self.label!r}, and lacks {missing[0]!r}.")
        return np.array([self.classes.index(kind[0]) for kind in kinds])

    def _target(self, found: _tables.Rows, kinds: list[Kind], proxy: Categorical) -> Categorical:
        if not models.is_model(self.target):
            return Categorical(_columns("target", self.target, found, kinds))
        model = models.load_model(self.target, field="target", folder=self.folder)
        inputs = {name: found.columns[name] for name in self.features or ()}
        if self.attribute is None:
            return Categorical(models.probabilities(model, inputs, [kind[0] for kind in kinds]))
        labels, outcomes = proxies.encode(_tables.exact(_tables.without_gaps(self.label, found.columns[self.label])))
        names = [kind[0] for kind in outcomes] if self.classes is None else list(self.classes)
        place = labels if self.classes is None else self._listed(outcomes)[labels]
        likelihood = np.empty((len(found), len(kinds)))
        for number, kind in enumerate(kinds):
            changed = dict(inputs)
            for column, text in zip(self.attribute, kind, strict=True):
                changed[column] = _constant(found.columns[column], text)
            likelihood[:, number] = models.probabilities(model, changed, names)[np.arange(len(found)), place]
        return proxies.posterior(likelihood, proxy)

    def _proxy(self, found: _tables.Rows, kinds: list[Kind]) -> Categorical:
        if isinstance(self.proxy, dict):
            return self._trained_proxy(found, kinds)
        if models.is_model(self.proxy):
            model = models.load_model(self.proxy, field="proxy", folder=self.folder)
            inputs = {name: found.columns[name] for name in self._rest()}
            return Categorical(models.probabilities(model, inputs, [" / ".join(kind) for kind in kinds]))
        return Categorical(_columns("proxy", self.proxy, found, kinds))

    def _rest(self) -> list[str]:
        """What is known of a record besides its protected value: the features, and of an attribute the label, last."""
        kept = [name for name in self.features or () if name not in (self.attribute or ())]
        return kept if self.attribute is None else [*kept, self.label]

    def _trained_proxy(self, found: _tables.Rows, kinds: list[Kind]) -> Categorical:
        """A proxy learnt from the rows of another table."""
        rest, protected = self._rest(), self.attribute or [self.label]
        files = _tables.files_of(self.proxy["table"], self.folder, field="proxy.table")
        if set(files) & set(self.files):
            raise InputError("`proxy.table` must hold other rows than `table`, got one file for both.")
        other = _tables.read(files, [*rest, *protected])
        codes, own = proxies.encode(*(_tables.exact(_tables.without_gaps(c, other.columns[c])) for c in protected))
        missing = [kind for kind in kinds if kind not in own]
        if missing:
            raise InputError(
                f"`proxy.table` must have rows of every class, and has none of {' / '.join(missing[0])!r}."
            )
        both = {name: np.concatenate([other.columns[name], found.columns[name]]) for name in rest}
        matrix, _ = _tables.numeric(both)
        place = np.array([kinds.index(kind) if kind in kinds else len(kinds) for kind in own])[codes]
        law = proxies.trained(
            matrix[: len(other)], place, matrix[len(other) :], classes=len(kinds) + int(len(own) > len(kinds))
        ).probabilities[:, : len(kinds)]  # classes that the audited table does not have are left out
        return Categorical(law / law.sum(axis=1, keepdims=True))

    @cached_property
    def digests(self) -> list[list[str]]:
        """Names and content of every file that is read, for the record."""
        used = list(self.files)
        for source in (self.target, self.proxy):
            if isinstance(source, dict):
                used += _tables.files_of(source["table"], self.folder)
            elif models.is_model(source):
                named = Path(self.folder, source.rpartition(":")[0] if ".py:" in source else source)
                used += [named] if named.is_file() else []
        return _tables.digests(used)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        return self.game(seed).coins(seed)

    def commitment(self, seed: int) -> str:
        """A hash that commits to the coins, one for each unit of the table."""
        return self.game(seed).commitment(seed)

    def fingerprint(self, seed: int) -> str:
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "folder"}
        return fingerprint([named, self.digests, seed])

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> CanaryScores | MemberScores:
        """The evidence alone; `da.audit` plays the blind attack too, and heeds it."""
        return self.game(seed).play(seed=seed)


def _constant(column: NDArray[Any], text: str) -> NDArray[Any]:
    if column.dtype == object:
        return np.full(column.shape, text, dtype=object)
    return np.full(column.shape, float(text)).astype(column.dtype)


def _columns(field: str, source: Any, found: _tables.Rows, kinds: list[Kind]) -> NDArray[np.float64]:
    names = [source] if isinstance(source, str) else list(source)
    return _tables.class_shares(field, names, found, [" / ".join(kind) for kind in kinds])
