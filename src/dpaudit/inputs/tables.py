"""The one reader of tables: files (Parquet, CSV, Arrow, NumPy) and data frames, whole or a sample, as plain columns.

Nothing in a file is executed. Only the columns that are asked for are read, batch by batch, so that a sample of a table
of billions of rows fits into memory. A column is asked for by its *role*, which says what it must hold:

| role | what it must hold |
|---|---|
| `score`, `loss`, `number` | finite numbers |
| `count` | whole numbers of at least 0 |
| `flag` | true / false, or 1 / 0 |
| `probability` | numbers in [0, 1] |
| `category`, `unit` | names without gaps: texts or whole numbers |
| `feature` | anything, gaps too |
"""

from __future__ import annotations

import glob
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import counterfactuals
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption

FORMATS = {".parquet": "parquet", ".csv": "csv", ".feather": "feather", ".arrow": "feather", ".npy": "npy"}
LEVELS = 100
"""Most categories of a text column that become columns of their own."""
RARE_LEVELS = Assumption(
    id="rare-levels",
    sentence="column {column!r} says nothing beyond its {levels} most frequent of {count:,} values",
    answered_by="data holder",
)
DIGESTED = 2**30
"""Files that are larger than this in all are known by name and size, not by content."""
WORDS = {"true": True, "false": False, "1": True, "0": False}
Kind = tuple[str, ...]
"""One class: the value of each of its columns, as text."""


# --------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Columns by name: of files, which are read when they are asked for, or of a data frame.

    Attributes
    ----------
    data
        The rows, as an Arrow data set.
    files
        Where they come from; none of a data frame.
    days
        Whether dates become numbers, in days; otherwise they are texts.
    population
        How many rows there were, if these are some of them.
    numbers
        Which these are, from 0.
    """

    data: Any
    files: tuple[Path, ...] = ()
    days: bool = False
    population: int | None = None
    numbers: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, source: Any, *, folder: str | Path = ".", field: str = "table") -> Table:
        """The table of file names and patterns such as "day=*/part.parquet", or of a pandas, polars or Arrow table.

        Names are relative to `folder`, and files are in the order of their names. Of a data frame its columns count,
        an index does not.
        """
        if isinstance(source, cls):
            return source
        frame = _frame(source, field)
        if frame is not None:
            from pyarrow import dataset

            return cls(data=dataset.dataset(frame))
        files = files_of(source, folder, field=field)
        return cls(data=_dataset(files), files=tuple(files))

    def __len__(self) -> int:
        return int(self.data.count_rows())

    # ---------------------------------------------------------------------------------------------------------- columns

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.schema.names)

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse a column that the table does not have."""
        known = self.names
        for name in names:
            if name not in known:
                raise InputError(f"the table has no column {name!r}.", self.hint)

    @property
    def hint(self) -> str:
        """The hint that lists the columns."""
        return f"it has {', '.join(self.names[:12])}{', ...' if len(self.names) > 12 else ''}."

    def column(self, name: str, role: str = "feature", *, field: str | None = None) -> NDArray[Any]:
        """A column that holds what its role must; `field` is the setting that named it, for errors."""
        self.check_names([name])
        if name not in self._read:
            self._read[name] = _plain(name, self._arrow([name]).column(name), self.days)
        return checked(name, self._read[name], role, field=field)

    def columns(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Some columns as they are, by name."""
        return {name: self.column(name) for name in names}

    def numeric(self, names: Sequence[str]) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
        """Columns as a matrix, and the names of its columns (see `numeric`); None of no columns."""
        if not names:
            return None, ()
        matrix, found = numeric(self.columns(names))
        return matrix, tuple(found)

    def classes(
        self, names: Sequence[str], listed: Sequence[str] | None = None
    ) -> tuple[NDArray[np.int64], list[Kind]]:
        """Labels as class numbers, and what each stands for; `listed` gives the order, and further classes."""
        codes, kinds = counterfactuals.encode(*(self.column(name, "category") for name in names))
        if listed is None:
            return codes, kinds
        missing = [kind[0] for kind in kinds if kind[0] not in listed]
        if missing:
            raise InputError(f"`classes` must list every value of {names[0]!r}, and lacks {missing[0]!r}.")
        return np.array([list(listed).index(kind[0]) for kind in kinds])[codes], [(name,) for name in listed]

    def class_probabilities(self, names: Sequence[str], kinds: Sequence[str], *, field: str) -> NDArray[np.float64]:
        """Columns of probabilities: one for two classes (of the second), or one a class."""
        if len(names) == 1 and len(kinds) == 2:
            return self.column(names[0], "probability", field=field)
        if len(names) != len(kinds):
            raise InputError(
                f"`{field}` must name one column a class ({', '.join(kinds[:8])}), got {len(names)}.",
                "of two classes one column is that of the second; classes that do not occur are listed in `classes`.",
            )
        return np.stack([self.column(name, "probability", field=field) for name in names], axis=1)

    @property
    def only(self) -> str:
        """The name of the one column there is."""
        (name,) = self.names
        return name

    # ------------------------------------------------------------------------------------------------------------- rows

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Some columns, batch by batch, in the order of the rows."""
        return self.data.to_batches(columns=list(dict.fromkeys(names)))

    def sample(
        self,
        names: Sequence[str],
        count: int | None = None,
        *,
        unit: str | None = None,
        seed: int = 0,
        days: bool = False,
    ) -> Table:
        """Some columns in memory; with `count` of about so many rows, drawn at random, whole units where there are."""
        self.check_names(names)
        if count is not None:
            check.count("sample", count, low=2)
        rows = len(self)
        if not rows:
            raise InputError("the table has no rows.")
        numbers = [np.arange(rows)]
        batches = self.batches(names)
        if count is not None and count < rows:
            numbers = [np.zeros(0, dtype=np.int64)]
            chosen = _units if unit is not None else _rows
            batches = chosen(batches, count, rows, unit, seed, numbers)
        from pyarrow import dataset

        kept = dataset.dataset(self._arrow(names, batches))
        return Table(data=kept, files=self.files, days=days, population=rows, numbers=np.concatenate(numbers))

    def _arrow(self, names: Sequence[str], batches: Iterator[Any] | None = None) -> Any:
        import pyarrow as pa

        schema = pa.schema([self.data.schema.field(name) for name in dict.fromkeys(names)])
        try:
            return pa.Table.from_batches(list(self.batches(names) if batches is None else batches), schema=schema)
        except pa.ArrowInvalid as problem:
            raise InputError(f"the table could not be read ({str(problem).splitlines()[0][:120]}).") from None

    @cached_property
    def _read(self) -> dict[str, NDArray[Any]]:
        return {}

    @cached_property
    def digest(self) -> str:
        """Of the columns of a data frame."""
        found = hashlib.sha256()
        for name in self.names:
            column = self.column(name)
            raw = "\n".join(map(str, column.tolist())).encode() if column.dtype == object else column.tobytes()
            found.update(f"{name} {column.dtype} {column.size}\n".encode() + raw)
        return found.hexdigest()


def digests(*sources: Table | Path | None) -> list[list[str]]:
    """Name and content of each file of tables, and of files besides; of large ones the name and size."""
    found = [source for source in sources if source is not None]
    files = [path for one in found for path in (one.files if isinstance(one, Table) else (one,))]
    frames = [["data frame", one.digest] for one in found if isinstance(one, Table) and not one.files]
    sizes = [path.stat().st_size for path in files]
    if sum(sizes) > DIGESTED:
        return [[path.name, f"{size} bytes"] for path, size in zip(files, sizes, strict=True)] + frames
    return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files] + frames


def files_of(table: Any, folder: str | Path = ".", *, field: str = "table") -> list[Path]:
    """The files of a name, a pattern, or a list of them; in the order of their names. A `Path` is no pattern."""
    found: list[Path] = []
    for name in [table] if isinstance(table, str | Path) else check.items(field, table):
        if not isinstance(name, str | Path):
            raise InputError(f"`{field}` must be file names, got {name!r}.")
        pattern = glob.escape(str(name)) if isinstance(name, Path) else name
        places = sorted(glob.glob(str(Path(glob.escape(str(folder)), pattern)), recursive=True))
        if not places:
            raise InputError(f"`{field}` must name files, and there is no {str(name)!r}.")
        found += [Path(place) for place in places]
    if not found:
        raise InputError(f"`{field}` must name at least one file, got none.")
    found = list(dict.fromkeys(path.resolve() for path in found))  # a row that entered twice would have two coins
    kinds = {path.suffix.lower() for path in found}
    if len(kinds) > 1 or not kinds <= set(FORMATS):
        raise InputError(f"`{field}` must be {', '.join(FORMATS)} files of one kind, got {', '.join(sorted(kinds))}.")
    return found


def other_rows(field: str, table: Table, other_field: str, other: Table) -> None:
    """Refuse a table that is to hold other rows, and is made of the same files."""
    if set(table.files) & set(other.files):
        raise InputError(f"`{field}` must hold other rows than `{other_field}`, got one file for both.")


# ------------------------------------------------------------------------------------------------------ names, settings


def column_names(**named: Any) -> None:
    """Refuse settings that are no names of columns; None is nothing that was named."""
    for field, value in named.items():
        if value is not None and not isinstance(value, str):
            raise InputError(f"`{field}` must be the name of a column, got {value!r}.")


def listed(field: str, value: Any) -> list[str]:
    """Names as a list, none of them twice; a lone one is a list of one, and None of none."""
    if value is None:
        return []
    found = [str(entry) for entry in ([value] if isinstance(value, str) else check.items(field, value))]
    if len(set(found)) < len(found):
        raise InputError(f"`{field}` must not name anything twice, got {', '.join(found)}.")
    return found


def given(*names: str | None) -> list[str]:
    """Those that are not None."""
    return [name for name in names if name is not None]


def one_use(names: Sequence[str]) -> None:
    """Refuse a column that is named for two uses."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"every column must have one use, got {twice!r} for two.")


def two_values(name: str, kinds: Sequence[Any]) -> None:
    """Refuse a column of labels that says the same of every row."""
    if len(kinds) < 2:
        raise InputError(
            f"column {name!r} must take at least two values, got one.", "values to come belong in `classes`."
        )


def unit_word(unit: str | None) -> str:
    """What a column of units stands for: that of "user_id" is a user, and without one every row is a record."""
    return "record" if unit is None else unit.removesuffix("_id").removesuffix("Id") or unit


# ---------------------------------------------------------------------------------------------------------------- roles


def without_gaps(name: str, column: NDArray[Any]) -> NDArray[Any]:
    """The column, or an error that says how many rows of it are empty; rows are not dropped."""
    empty = np.array([value is None for value in column]) if column.dtype == object else column != column
    if empty.any():
        raise InputError(
            f"column {name!r} must have no gaps, got {int(empty.sum()):,} empty rows.",
            "rows are not dropped for you, because dropping is a selection.",
        )
    return column.astype(str) if column.dtype == object else column


def exact(column: NDArray[Any]) -> NDArray[Any]:
    """Values that compare as they should: 1.0 is 1, and 10 comes after 2."""
    whole = column.dtype.kind == "f" and bool(np.all(column == np.floor(column)))
    return column.astype(np.int64) if whole else column


def _number(field: str, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    found = without_gaps(name, column)
    if found.dtype.kind not in "fiu":
        raise InputError(f"column {name!r} must be numbers, got {str(found[0])!r}.")
    bad = ~np.isfinite(found)
    if bad.any():
        raise InputError(
            f"column {name!r} must be finite, got {found[np.argmax(bad)]} in {int(bad.sum()):,} rows.",
            "rows are not dropped for you, because dropping is a selection; cap them instead.",
        )
    return found.astype(np.float64)


def _count(field: str, name: str, column: NDArray[Any]) -> NDArray[np.int64]:
    found = _number(field, name, column)
    bad = (found < 0.0) | (found != np.floor(found))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"column {name!r} must be whole numbers of at least 0, got {column[row]} in row {row}.")
    return found.astype(np.int64)


def _flag(field: str, name: str, column: NDArray[Any]) -> NDArray[np.bool_]:
    found = without_gaps(name, column)
    if found.dtype.kind == "U":
        words = [str(value).strip().lower() for value in found.tolist()]
        if all(word in WORDS for word in words):
            found = np.array([WORDS[word] for word in words], dtype=np.bool_)
    return check.booleans(name, found)


def _probability(field: str, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    found = without_gaps(name, column)
    if found.dtype.kind not in "fiu" or found.min() < 0.0 or found.max() > 1.0:
        odd = found[0] if found.dtype.kind not in "fiu" else found[np.argmax((found < 0.0) | (found > 1.0))]
        raise InputError(f"`{field}` must be probabilities in [0, 1], got {odd} in column {name!r}.")
    return found.astype(np.float64)


def _category(field: str, name: str, column: NDArray[Any]) -> NDArray[Any]:
    return exact(without_gaps(name, column))


ROLES: dict[str, Callable[[str, str, NDArray[Any]], NDArray[Any]]] = {
    "score": _number,
    "loss": _number,
    "number": _number,
    "count": _count,
    "flag": _flag,
    "probability": _probability,
    "category": _category,
    "unit": _category,
    "feature": lambda field, name, column: column,
}


def checked(name: str, column: NDArray[Any], role: str, *, field: str | None = None) -> NDArray[Any]:
    """A column that holds what its role must; `field` is the setting that named it, for errors."""
    return ROLES[role](field or name, name, column)


# --------------------------------------------------------------------------------------------------- columns as numbers


def numeric(columns: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], list[str]]:
    """Columns as numbers: texts become one column a category (the 100 most frequent), gaps a column of their own."""
    found: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name, column in columns.items():
        if column.dtype == object:
            texts = np.array(["" if value is None else str(value) for value in column.tolist()])
            levels, counts = np.unique(texts, return_counts=True)
            for level in levels[np.argsort(-counts, kind="stable")][:LEVELS]:
                found.append((texts == level).astype(np.float64))
                names.append(f"{name} = {level or 'empty'}")
            continue
        numbers = column.astype(np.float64)
        gaps = ~np.isfinite(numbers)
        if gaps.any():
            numbers = np.where(gaps, np.median(numbers[~gaps]) if not gaps.all() else 0.0, numbers)
            found.append(gaps.astype(np.float64))
            names.append(f"{name} is empty")
        found.append(numbers)
        names.append(name)
    return np.stack(found, axis=1), names


def cut_columns(columns: dict[str, NDArray[Any]]) -> tuple[Assumption, ...]:
    """What `numeric` leaves out, as assumptions: text columns of many values."""
    counts = {name: np.unique(column.astype(str)).size for name, column in columns.items() if column.dtype == object}
    return tuple(
        RARE_LEVELS.asserted(column=name).measured(levels=LEVELS, count=count)
        for name, count in counts.items()
        if count > LEVELS
    )


# -------------------------------------------------------------------------------------------------------------- reading


def _frame(source: Any, field: str) -> Any:
    """A data frame as an Arrow table; None of anything else."""
    drop = getattr(source, "reset_index", None)  # that of pandas: its columns count
    if drop is None and getattr(source, "__arrow_c_stream__", None) is None:
        return None
    import pyarrow as pa

    try:
        found = pa.table(source) if drop is None else pa.Table.from_pandas(drop(drop=True), preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as problem:
        reason = (str(problem).splitlines() or [""])[0][:120]
        raise InputError(f"`{field}` could not be read as a table ({reason}).") from None
    if len(set(found.schema.names)) < len(found.schema.names):
        raise InputError(f"`{field}` could not be read as a table (two columns have one name).")
    return found


def _dataset(files: Sequence[Path]) -> Any:
    import pyarrow as pa
    from pyarrow import dataset

    kind = FORMATS[files[0].suffix.lower()]
    try:
        if kind == "npy":
            return dataset.dataset(pa.concat_tables([_array(path) for path in files]))
        return dataset.dataset([str(path) for path in files], format=kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, EOFError) as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0].split("': ")[-1][:120]
        raise InputError(f"{files[0].name!r} could not be read ({reason}).") from None  # without paths of this machine


def _array(path: Path) -> Any:
    """A NumPy file, never a pickle: a structured array by its fields, any other as one column of the file's name."""
    import pyarrow as pa

    array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("an archive of arrays, not one")
    if array.ndim != 1:
        raise ValueError(f"an array of {array.ndim} dimensions, not one")
    return pa.table({name: array[name] for name in array.dtype.names} if array.dtype.names else {path.stem: array})


def _units(
    batches: Iterator[Any], sample: int, population: int, unit: Any, seed: int, numbers: list[NDArray[np.int64]]
) -> Iterator[Any]:
    """The rows of units that chance chose, batch by batch; their numbers are added to `numbers`."""
    import pyarrow as pa

    start, limit = 0, sample / population * 2**32
    for batch in batches:
        names = batch.column(unit).to_pylist()
        kept = np.array([zlib.crc32(f"{seed} {name}".encode()) < limit for name in names], dtype=np.bool_)
        numbers.append(start + np.flatnonzero(kept))
        yield batch.filter(pa.array(kept))
        start += batch.num_rows


def _rows(
    batches: Iterator[Any], sample: int, population: int, unit: Any, seed: int, numbers: list[NDArray[np.int64]]
) -> Iterator[Any]:
    """The rows that chance chose, batch by batch; their numbers are added to `numbers`."""
    import pyarrow as pa

    rng = np.random.default_rng([seed, 0x726F7773])
    chosen = np.sort(rng.choice(population, size=sample, replace=False, shuffle=False))
    numbers.append(chosen)
    start = 0
    for batch in batches:
        low, high = np.searchsorted(chosen, [start, start + batch.num_rows])
        yield batch.take(pa.array(chosen[low:high] - start))
        start += batch.num_rows


def _plain(name: str, column: Any, days: bool) -> NDArray[Any]:
    import pyarrow as pa

    if days and (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        moments = column.to_numpy(zero_copy_only=False).astype("datetime64[us]")
        return np.asarray((moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"), dtype=np.float64)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64() if column.null_count or pa.types.is_decimal(column.type) else pa.int8())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        try:
            texts = column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, structures, bytes
            raise InputError(f"column {name!r} must hold numbers, texts or dates, got {column.type}.") from None
        return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)
    return np.asarray(column.to_numpy(zero_copy_only=False))
