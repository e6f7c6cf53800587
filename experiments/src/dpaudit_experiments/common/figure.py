"""What every paper's experiments share: a figure as a value, and how it becomes an outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from dpaudit import __version__
from dpaudit import inputs as checks
from dpaudit.execution import Execution
from dpaudit.testing.calibration import allowed_over_claims
from dpaudit_experiments.common.outcome import Outcome

Rows = list[dict[str, Any]]
Sizes = list[tuple[str, str, str]]
Judged = tuple[str, str]
"""The word, and why."""


@dataclass(frozen=True)
class Figure:
    """One experiment: what the paper shows, what is measured here, and what follows from it."""

    title: str
    claim: str
    rows: Callable[[Any, int, Execution], Rows]
    judged: Callable[[Rows], Judged]
    sizes: Callable[[Any], Sizes]


def said(confirmed: bool) -> str:
    return "confirmed" if confirmed else "not confirmed"


def allowed_over(trials: int) -> int:
    """Over-claims of 95% bounds that happen in so many independent audits, except for one time in 10,000."""
    return allowed_over_claims(trials, 0.95)


def run(
    paper: str, name: str, figure: Figure, *, scale: Any, quick: bool, seed: int, execution: Execution | None
) -> Outcome:
    """Measure, judge, and write down; a quick version is always too small to tell."""
    began = time.perf_counter()
    rows = figure.rows(scale, seed, execution or Execution())
    found, because = figure.judged(rows)
    return Outcome(
        paper=paper,
        figure=name,
        title=figure.title,
        claim=figure.claim,
        found="too small to tell" if quick else found,
        because=because,
        scale=tuple(figure.sizes(scale)),
        rows=tuple(rows),
        command=f"dpaudit reproduce {paper} --figure {name} --seed {seed}{' --quick' if quick else ''}",
        seconds=round(time.perf_counter() - began, 1),
        versions={"dpaudit": __version__, "numpy": np.__version__, **_versions()},
    )


def reproducing(paper: str, figures: Mapping[str, Figure], *, full: Any, quick: Any) -> Callable[..., Outcome]:
    """The function that makes one figure of a paper, by its name."""

    def reproduce(name: str, *, scale: Any = full, seed: int = 1, execution: Execution | None = None) -> Outcome:
        figure = figures[checks.choice("figure", name, tuple(figures))]
        return run(paper, name, figure, scale=scale, quick=scale is quick, seed=seed, execution=execution)

    return reproduce


def _versions() -> dict[str, str]:
    """Of the libraries that trained anything here."""
    found = {}
    for name, module in (("scikit-learn", "sklearn"), ("torch", "torch"), ("catboost", "catboost")):
        if module in sys.modules:
            found[name] = metadata.version(name)
    return found
