"""A table of over-claim rates: cells, rows, and how they are played."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import joblib
import numpy as np
from scipy import stats

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import LowerBound

QUANTILE = 1.0 - 1e-4
CHUNK = 50


@dataclass(frozen=True)
class Cell:
    """One estimator with one strategy against one ground truth."""

    estimator: str
    strategy: str
    truth: Any
    value: float
    bound: Callable[[Any], Any]
    must: str = "hold"
    at_least: int = 0
    quick: int = 400
    """Games in the tests: fewer where one takes a tenth of a second."""

    @property
    def key(self) -> str:
        return f"{self.estimator} | {self.strategy} | {self.truth.name}"


@dataclass(frozen=True)
class Row:
    """What a cell showed."""

    estimator: str
    strategy: str
    mechanism: str
    truth: float
    trials: int
    over_claims: int
    allowed: int
    median: float
    must: str

    @property
    def holds(self) -> bool:
        return self.over_claims <= self.allowed

    @property
    def as_expected(self) -> bool:
        return self.holds == (self.must == "hold")

    @property
    def ratio(self) -> float | None:
        """Median bound over truth: how much of the leakage is seen."""
        return self.median / self.truth if self.truth > 0.0 else None


@dataclass(frozen=True)
class Calibration:
    """A calibration table."""

    rows: tuple[Row, ...]
    confidence: float
    seed: int

    @property
    def as_expected(self) -> bool:
        return all(row.as_expected for row in self.rows)

    def to_json(self, command: str | None = None) -> str:
        head = {"format": 1, "command": command, "confidence": self.confidence, "seed": self.seed}
        return json.dumps({**head, "rows": [asdict(row) for row in self.rows]}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        try:
            found = json.loads(text)
            rows = tuple(Row(**row) for row in found["rows"])
            return cls(rows, found["confidence"], found["seed"])
        except (ValueError, KeyError, TypeError) as problem:
            raise InputError(f"not a calibration table ({type(problem).__name__}).") from None

    def to_markdown(self) -> str:
        head = (
            "| estimator | choice of threshold | mechanism | truth | trials | over-claims | allowed | rate "
            "| median / truth | |\n"
            "|---|---|---|---|---|---|---|---|---|---|\n"
        )
        return head + "".join(f"| {' | '.join(_texts(row))} |\n" for row in self.rows)

    def __str__(self) -> str:
        lines = [_texts(row) for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _texts(row: Row) -> list[str]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    verdict = "holds" if row.holds else "fails"
    if row.must != "hold":
        verdict += ", as it must" if not row.holds else ", though it should fail"
    elif not row.holds:
        verdict = "FAILS"
    rate = f"{row.over_claims / row.trials:.3f}"
    numbers = [f"{row.truth:.4g}", str(row.trials), str(row.over_claims), str(row.allowed), rate, ratio]
    return [row.estimator, row.strategy, row.mechanism, *numbers, verdict]


def allowed_over_claims(trials: int, confidence: float) -> int:
    """The largest number of over-claims that a valid bound shows except for one table in 10,000.

    >>> [allowed_over_claims(n, 0.95) for n in (400, 1000, 2000)]
    [38, 77, 138]
    """
    return int(stats.binom.ppf(QUANTILE, trials, 1.0 - confidence))


def run_cells(
    cells: Sequence[Cell], *, trials: int, seed: int = 0, confidence: float = 0.95, workers: int = -1
) -> Calibration:
    """Play every cell; the same table from any number of workers, because each trial has a seed of its own."""
    check.count("trials", trials, low=1)
    jobs = [(index, start) for index, cell in enumerate(cells) for start in range(0, max(trials, cell.at_least), CHUNK)]
    parts = joblib.Parallel(n_jobs=workers)(
        joblib.delayed(_play)(cells[index], seed, start, min(CHUNK, max(trials, cells[index].at_least) - start))
        for index, start in jobs
    )
    found: list[list[float]] = [[] for _ in cells]
    for (index, _), part in zip(jobs, parts, strict=True):
        found[index] += part
    return Calibration(
        tuple(_row(cell, values, confidence) for cell, values in zip(cells, found, strict=True)),
        confidence,
        seed,
    )


def _play(cell: Cell, seed: int, start: int, count: int) -> list[float]:
    name = zlib.crc32(cell.truth.name.encode())
    return [_trial(cell, np.random.default_rng([seed, name, trial])) for trial in range(start, start + count)]


def _trial(cell: Cell, rng: np.random.Generator) -> float:
    try:
        evidence = cell.truth.sample(rng)
    except InputError:  # evidence that is refused claims nothing
        return 0.0
    return _number(cell.bound(evidence))


def _number(found: Any) -> float:
    value = found.value if isinstance(found, LowerBound) else found
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or math.isnan(value):
        raise InputError(f"an estimator must return a LowerBound or a number, got {found!r}.")
    return float(value)


def _row(cell: Cell, values: list[float], confidence: float) -> Row:
    over = sum(value > cell.value * (1.0 + 1e-9) + 1e-12 for value in values)
    return Row(
        cell.estimator,
        cell.strategy,
        cell.truth.name,
        cell.value,
        len(values),
        over,
        allowed_over_claims(len(values), confidence),
        float(np.median(values)),
        cell.must,
    )
