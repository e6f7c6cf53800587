"""Tables from files: Parquet, CSV or Arrow, one or many, whole or a random sample, as plain columns.

Nothing in a file is executed. Only the columns that are asked for are read, batch by batch, so that a sample of a table
of billions of rows fits into memory.
"""

from __future__ import annotations

import glob
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError

FORMATS = {".parquet": "parquet", ".csv": "csv", ".feather": "feather", ".arrow": "feather"}
LEVELS = 100
"""Most categories of a text column that become columns of their own."""
DIGESTED = 2**30
"""Files that are larger than this in all are known by name and size, not by content."""


def files_of(table: str | Sequence[str], folder: str | Path = ".", *, field: str = "table") -> list[Path]:
    """The files of a name, a pattern such as "day=*/part.parquet", or a list of them; in the order of their names."""
    names = [table] if isinstance(table, str) else check.items(field, table)
    found: list[Path] = []
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"`{field}` must be file names, got {name!r}.")
        places = sorted(glob.glob(str(Path(glob.escape(str(folder)), name)), recursive=True))
        if not places:
            raise InputError(f"`{field}` must name files, and there is no {name!r}.")
        found += [Path(place) for place in places]
    found = list(dict.fromkeys(path.resolve() for path in found))  # a row that entered twice would have two coins
    kinds = {path.suffix for path in found}
    if len(kinds) > 1 or not kinds <= set(FORMATS):
        raise InputError(f"`{field}` must be {', '.join(FORMATS)} files of one kind, got {', '.join(sorted(kinds))}.")
    return found


def digests(files: Sequence[Path]) -> list[list[str]]:
    """Name and content of each file; of large ones the name and size."""
    sizes = [path.stat().st_size for path in files]
    if sum(sizes) > DIGESTED:
        return [[path.name, f"{size} bytes"] for path, size in zip(files, sizes, strict=True)]
    return [[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files]


def column_names(files: Sequence[Path]) -> list[str]:
    return list(_dataset(files).schema.names)


def check_names(known: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a column that the table does not have."""
    for name in names:
        if name not in known:
            raise InputError(f"the table has no column {name!r}.", it_has(known))


def it_has(known: Sequence[str]) -> str:
    """The hint that lists the columns of a table."""
    return f"it has {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}."


def unit_word(unit: str | None) -> str:
    """What a column of units stands for: that of "user_id" is a user, and without one every row is a record."""
    return "record" if unit is None else unit.removesuffix("_id").removesuffix("Id") or unit


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns that were read, how many rows the files have, and the numbers of those that were read, from 0."""

    columns: dict[str, NDArray[Any]]
    offered: int
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read(
    files: Sequence[Path],
    names: Sequence[str],
    *,
    sample: int | None = None,
    unit: str | None = None,
    seed: int = 0,
    dates: bool = False,
) -> Rows:
    """Some columns; with `sample` about so many rows, drawn at random, whole units where `unit` names their column.

    With `dates` those become numbers, in days; otherwise they are texts.
    """
    dataset = _dataset(files)
    check_names(dataset.schema.names, names)
    offered = dataset.count_rows()
    if not offered:
        raise InputError("the table has no rows.")
    batches = dataset.to_batches(columns=list(dict.fromkeys(names)))
    numbers = [np.arange(offered)]
    if sample is not None and sample < offered:
        numbers = []
        batches = _sampled(batches, check.count("sample", sample, low=1), offered, unit, seed, numbers)
    import pyarrow as pa

    schema = pa.schema([dataset.schema.field(name) for name in dict.fromkeys(names)])
    try:
        kept = pa.Table.from_batches(list(batches), schema=schema)
    except pa.ArrowInvalid as problem:
        raise InputError(f"the table could not be read ({str(problem).splitlines()[0][:120]}).") from None
    columns = {name: _plain(name, kept.column(name), dates) for name in kept.column_names}
    return Rows(columns, offered, np.concatenate([np.zeros(0, dtype=np.int64), *numbers]))


def _dataset(files: Sequence[Path]) -> Any:
    import pyarrow as pa
    from pyarrow import dataset

    try:
        return dataset.dataset([str(path) for path in files], format=FORMATS[files[0].suffix])
    except (pa.ArrowInvalid, OSError) as problem:
        reason = str(problem).splitlines()[0].split("': ")[-1][:120]  # after the paths of this machine
        raise InputError(f"{files[0].name!r} could not be read ({reason}).") from None


def _sampled(
    batches: Iterator[Any], sample: int, offered: int, unit: str | None, seed: int, numbers: list[NDArray[np.int64]]
) -> Iterator[Any]:
    """The rows that chance chose, batch by batch; their numbers are added to `numbers`."""
    import pyarrow as pa

    start = 0
    if unit is not None:
        limit = sample / offered * 2**32
        for batch in batches:
            names = batch.column(unit).to_pylist()
            kept = np.array([zlib.crc32(f"{seed} {name}".encode()) < limit for name in names], dtype=np.bool_)
            numbers.append(start + np.flatnonzero(kept))
            yield batch.filter(pa.array(kept))
            start += batch.num_rows
        return
    rng = np.random.default_rng([seed, 0x726F7773])
    chosen = np.sort(rng.choice(offered, size=sample, replace=False, shuffle=False))
    numbers.append(chosen)
    for batch in batches:
        low, high = np.searchsorted(chosen, [start, start + batch.num_rows])
        yield batch.take(pa.array(chosen[low:high] - start))
        start += batch.num_rows


def _plain(name: str, column: Any, dates: bool) -> NDArray[Any]:
    import pyarrow as pa

    if dates and (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
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


def shares(field: str, name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """A column of probabilities, without gaps."""
    found = without_gaps(name, column)
    if found.dtype.kind not in "fiu" or found.min() < 0.0 or found.max() > 1.0:
        odd = found[0] if found.dtype.kind not in "fiu" else found[np.argmax((found < 0.0) | (found > 1.0))]
        raise InputError(f"`{field}` must be probabilities in [0, 1], got {odd} in column {name!r}.")
    return found.astype(np.float64)


def class_shares(field: str, names: Sequence[str], rows: Rows, kinds: Sequence[str]) -> NDArray[np.float64]:
    """Columns of probabilities: one for two classes (of the second), or one a class."""
    if len(names) == 1 and len(kinds) == 2:
        return shares(field, names[0], rows.columns[names[0]])
    if len(names) != len(kinds):
        raise InputError(
            f"`{field}` must name one column a class ({', '.join(kinds[:8])}), got {len(names)}.",
            "of two classes one column is that of the second; classes that do not occur are listed in `classes`.",
        )
    return np.stack([shares(field, name, rows.columns[name]) for name in names], axis=1)


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


def cut_columns(columns: dict[str, NDArray[Any]]) -> list[str]:
    """What `numeric` leaves out, as assumptions: text columns of many values."""
    counts = {name: np.unique(column.astype(str)).size for name, column in columns.items() if column.dtype == object}
    return [
        f"column {name!r} says nothing beyond its {LEVELS} most frequent of {count:,} values"
        for name, count in counts.items()
        if count > LEVELS
    ]
