"""Arrays that the jobs of one experiment share, such as generated rows: made once, kept in a folder, read by all."""

from __future__ import annotations

import atexit
import hashlib
import inspect
import io
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import record as files
from dpaudit.execution import Execution, fingerprint

Arrays = dict[str, NDArray[Any]]


def shared_folder(execution: Execution) -> str:
    """Where arrays of this run are kept: in `execution.keep`, or until the process ends."""
    return execution.keep if execution.keep is not None else _until_the_end()


@lru_cache(maxsize=1)
def _until_the_end() -> str:
    folder = tempfile.mkdtemp(prefix="dpaudit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def kept(folder: str, make: Callable[..., Arrays], *arguments: Any) -> Arrays:
    """`make(*arguments)`, read back where it was kept before by the same file of code with the same arguments.

    After a change elsewhere in the code, take another folder, as with `Execution.keep`.
    """
    code = hashlib.sha256(Path(inspect.getfile(make)).read_bytes()).hexdigest()
    name = fingerprint([make.__qualname__, code, list(arguments)])[:24]
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        whole = io.BytesIO()
        np.savez_compressed(whole, **_plain(make(*arguments)))  # type: ignore[arg-type]
        files.write(path, lambda partial: Path(partial).write_bytes(whole.getvalue()))
    with np.load(path, allow_pickle=False) as found:
        return {key: found[key] for key in found.files}


def _plain(arrays: Arrays) -> Arrays:
    """Only numbers and texts are kept: an array of objects would have to be unpickled."""
    for name, values in arrays.items():
        if values.dtype == object:
            raise TypeError(f"array {name!r} holds objects")
    return arrays
