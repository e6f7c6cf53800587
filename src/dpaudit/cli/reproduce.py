"""`dpaudit reproduce`: a paper's experiments at this machine's scale."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from dpaudit import _files
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.cli._app import Json, app, interruptible, print_json
from dpaudit.execution import Execution


class Paper(StrEnum):
    """What can be reproduced."""

    OBSERVATIONAL = "observational"
    PANORAMIA = "panoramia"
    PREDICTION = "prediction"
    SUBSTITUTE = "substitute"
    ZERO_RUN = "zero-run"


@app.command()
def reproduce(
    paper: Annotated[
        Paper,
        typer.Argument(
            help="Paper: observational (000), substitute (001), prediction (002), zero-run (003) or panoramia (004)."
        ),
    ],
    figure: Annotated[
        list[str] | None, typer.Option(help="Only these figures or tables (table-1); default all.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Only this group of figures, such as synthetic (000).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes on embedded data: a try, not a result.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for the results (JSON) and figures (SVG).")] = Path("results"),
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    keep: Annotated[
        Path | None, typer.Option(help="Folder that keeps finished jobs: the same command goes on after a kill.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a paper's experiments again and say whether its findings are confirmed.

    The experiments are a package of their own, `dpaudit-experiments`, in the folder experiments/ of the repository.

    Example: dpaudit reproduce substitute --figure 1 --quick
    """
    installed, drawing = _installed()
    experiments = installed.experiments_of(paper)
    names = figure or list(experiments.FIGURES)
    if only is not None:
        if figure is not None:
            raise InputError("`only` and `figure` both choose figures.", "leave one of them out.")
        names = list(experiments.ONLY[check.choice("only", only, tuple(experiments.ONLY))])
    for name in names:
        check.choice("figure", name, tuple(experiments.FIGURES))
    _files.folder(output)
    found = []
    with interruptible():
        for name in names:
            execution = Execution(workers=workers, keep=None if keep is None else str(_files.folder(keep)))
            scale = experiments.QUICK if quick else experiments.FULL
            outcome = experiments.reproduce(name, scale=scale, seed=seed, execution=execution)
            place = outcome.save(output / f"{installed.file_stem(name)}.json")
            picture = drawing.svg(outcome)
            if picture:
                _files.write_text(place.with_suffix(".svg"), picture)
            found.append(outcome)
            print(f"{place.stem}: {outcome.found}; {outcome.because}. [{place}]", file=sys.stderr)
    if as_json:
        print_json([asdict(outcome) for outcome in found])
        return
    for outcome in found:
        print(f"{installed.file_stem(outcome.figure).replace('-', ' ', 1)} ({outcome.title}): {outcome.found}")


def _installed() -> tuple[ModuleType, ModuleType]:
    """The experiments, and how their outcomes are drawn."""
    try:
        import dpaudit_experiments
    except ModuleNotFoundError as problem:
        if problem.name != "dpaudit_experiments":
            raise
        raise InputError(
            "the experiments of papers are a package of their own, dpaudit-experiments, which is not installed.",
            "pip install ./experiments in a clone of the repository.",
        ) from None
    from dpaudit_experiments.common import drawing

    return dpaudit_experiments, drawing
