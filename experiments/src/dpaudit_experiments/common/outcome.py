"""What an experiment found, as a value that is saved as JSON and drawn in the docs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dpaudit import InputError
from dpaudit import inputs as checks
from dpaudit import record as files

WORDS = ("confirmed", "not confirmed", "too small to tell")


def file_stem(figure: str) -> str:
    """What the files of a figure or table are called.

    >>> file_stem("2"), file_stem("table-1")
    ('figure-2', 'table-1')
    """
    return figure if figure.startswith("table-") else f"figure-{figure}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One figure of a paper, reproduced.

    Attributes
    ----------
    paper, figure, title
        Which, and of what; the paper as `dpaudit reproduce` names it.
    claim
        What the paper says, in our words.
    found
        One of `WORDS`; `because` says why, with numbers.
    scale
        Rows (what, the paper's size, ours).
    rows
        What was measured, a flat dictionary a line. A key that ends in `_estimate` is an estimate, never a bound.
    command
        What to type to get the same file.
    """

    figure: str
    title: str
    claim: str
    found: str
    because: str
    scale: tuple[tuple[str, str, str], ...]
    rows: tuple[dict[str, Any], ...]
    command: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    paper: str = "substitute"

    def __post_init__(self) -> None:
        checks.choice("found", self.found, WORDS)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON, whole or not at all."""
        files.write_text(Path(path), json.dumps(asdict(self), indent=1) + "\n")
        return Path(path)


def load_outcome(path: str | os.PathLike[str]) -> Outcome:
    """What `save` wrote."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return Outcome(**{**found, "scale": tuple(tuple(row) for row in found["scale"]), "rows": tuple(found["rows"])})
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise InputError(f"{str(path)!r} is no outcome of an experiment ({type(problem).__name__}).") from None
