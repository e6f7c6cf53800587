"""Files are written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from dpaudit._validate import InputError


def write(path: str | os.PathLike[str], fill: Callable[[str], object]) -> Path:
    """Let `fill` write a temporary file beside `path`, then move it there: a reader sees the whole file or none."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{str(target)!r} is a folder, and a file is to be written.")
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


def folder(path: str | os.PathLike[str]) -> Path:
    """A folder that is there, or is made now."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{str(target)!r} cannot be a folder ({problem.strerror}).") from None
    return target


def file_name(text: str) -> str:
    """Any text as part of a file name; one that had to be changed keeps a mark of its own."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80]
    if plain.replace("-", "") == text.replace("-", "").replace(" ", "") and plain:
        return plain
    return f"{plain or 'audit'}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
