"""`dpaudit reproduce`: the experiments of a paper at this machine's scale."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpaudit import _files
from dpaudit import _validate as check
from dpaudit.cli._app import Json, app, interruptible, print_json
from dpaudit.execution import Execution


class Paper(StrEnum):
    """What can be reproduced."""

    SUBSTITUTE = "substitute"


@app.command()
def reproduce(
    paper: Annotated[Paper, typer.Argument(help="Which paper: substitute (001).")],
    figure: Annotated[list[str] | None, typer.Option(help="Only these figures; default all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes on embedded data: a try, not a result.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for the results (JSON) and figures (SVG).")] = Path("results"),
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    as_json: Json = False,
) -> None:
    """Run a paper's experiments again and say whether its findings are confirmed.

    Example: dpaudit reproduce substitute --figure 1 --quick
    """
    from dpaudit.papers import _scales, drawing, substitute  # slow to import

    names = figure or list(substitute.FIGURES)
    for name in names:
        check.choice("figure", name, tuple(substitute.FIGURES))
    _files.folder(output)
    scale = _scales.QUICK if quick else _scales.FULL
    found = []
    with interruptible():
        for name in names:
            outcome = substitute.reproduce(name, scale=scale, seed=seed, execution=Execution(workers=workers))
            place = outcome.save(output / f"figure-{name}.json")
            picture = drawing.svg(outcome)
            if picture:
                _files.write_text(place.with_suffix(".svg"), picture)
            found.append(outcome)
            print(f"figure {name}: {outcome.found}; {outcome.because}. [{place}]", file=sys.stderr)
    if as_json:
        print_json([asdict(outcome) for outcome in found])
        return
    for outcome in found:
        print(f"figure {outcome.figure} ({outcome.title}): {outcome.found}")
