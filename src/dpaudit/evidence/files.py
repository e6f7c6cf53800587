"""Evidence as a Parquet file with everything inside: written atomically, read back exactly, or refused."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dpaudit import _files
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption
from dpaudit.evidence.format_1 import assumption_of
from dpaudit.evidence.matched import TYPES, Evidence
from dpaudit.evidence.types import FORMAT, FORMATS, digest_of, to_columns


def load_evidence(path: str | os.PathLike[str]) -> Evidence:
    """Read evidence that `save` wrote. A changed, truncated or foreign file is refused. Nothing in it is executed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if not path.is_file():
        raise InputError(f"no evidence file {str(path)!r}.")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path.name!r} is not a readable Parquet file ({_first_line(problem)}).") from None
    raw = (table.schema.metadata or {}).get(b"dpaudit")
    if raw is None:
        raise InputError(
            f"{path.name!r} holds no dpaudit evidence.", "`dpaudit estimate` reads plain tables of scores."
        )
    try:
        meta = json.loads(raw)
        kind, stated, version = meta.pop("type"), meta.pop("digest"), meta.pop("format")
        made = TYPES[kind]
        columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
        actual = digest_of({"type": kind, "format": version, **meta}, columns)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path.name!r} does not hold evidence in a form this version knows.") from None
    if version not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise InputError(f"{path.name!r} has evidence format {version!r}, this version reads {known}.")
    if actual != stated:
        raise InputError(f"{path.name!r} was changed after it was written: its digest does not match.")
    try:
        evidence: Evidence = _from_columns(made, meta, columns, version)
    except (TypeError, KeyError):
        raise InputError(f"{path.name!r} does not hold evidence in a form this version knows.") from None
    if version != FORMAT:  # a record of its day names it by this digest
        object.__setattr__(evidence, "_former_digest", stated)
    return evidence


def save(evidence: Any, path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    meta, columns = to_columns(evidence)
    stamped = json.dumps({**meta, "digest": digest_of(meta, columns)}, sort_keys=True)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    table = table.replace_schema_metadata({b"dpaudit": stamped.encode()})
    return _files.write(path, lambda partial: pq.write_table(table, partial))


def _from_columns(made: Any, meta: dict[str, Any], columns: dict[str, NDArray[Any]], version: int) -> Any:
    named = {f.name for f in fields(made) if f.init}
    read = assumption_of if version == 1 else Assumption.from_dict
    meta["assumptions"] = [read(one) for one in meta["assumptions"]]
    if "offered" in meta:  # its name in format 1
        meta["population"] = meta.pop("offered")
    derived = {name for name in ("relation",) if name not in named}
    return made(**{name: value for name, value in meta.items() if name not in derived}, **made._values(columns))


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
