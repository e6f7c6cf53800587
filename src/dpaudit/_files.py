"""Files are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from dpaudit._validate import InputError


def write(path: str | os.PathLike[str], fill: Callable[[str], object]) -> Path:
    """Let `fill` write a temporary file beside `path`, then move it there: a reader sees the whole file or none."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"no folder {str(target.parent)!r} to write {target.name!r} into.")
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        fill(partial)
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return target


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """The same for a text."""
    return write(path, lambda partial: Path(partial).write_text(text, encoding="utf-8"))
