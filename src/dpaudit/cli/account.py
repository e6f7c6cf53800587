"""`dpaudit account` (what a mechanism promises) and `dpaudit calibrate` (whether bounds hold as often as they say)."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpaudit import _files, accounting
from dpaudit._validate import InputError
from dpaudit.cli._app import Confidence, DeltaOption, Json, RelationOption, app, interruptible, print_result
from dpaudit.execution import load_function

account_app = typer.Typer(help="What a mechanism promises: an upper bound.", no_args_is_help=True)
app.add_typer(account_app, name="account")


@account_app.command("dp-sgd")
def account_dp_sgd(
    noise_multiplier: Annotated[float, typer.Option(help="Noise standard deviation over the clipping norm.")],
    sampling_rate: Annotated[float, typer.Option(help="Poisson sampling rate.")],
    steps: Annotated[int, typer.Option(help="Number of steps.")],
    relation: RelationOption,
    delta: DeltaOption = 1e-5,
    as_json: Json = False,
) -> None:
    """DP-SGD with Poisson sampling (extra `accounting`).

    Example: dpaudit account dp-sgd --noise-multiplier 1.1 --sampling-rate 0.01 --steps 1000 --relation add-remove
    """
    print_result(
        accounting.dp_sgd(
            noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps, delta=delta, relation=relation
        ),
        as_json,
    )


@account_app.command("gaussian")
def account_gaussian(
    mu: Annotated[float, typer.Option(help="Sensitivity over noise standard deviation.")],
    relation: RelationOption,
    delta: DeltaOption = 1e-5,
    as_json: Json = False,
) -> None:
    """Gaussian noise. Example: dpaudit account gaussian --mu 1 --relation add-remove"""
    print_result(accounting.gaussian(mu=mu, delta=delta, relation=relation), as_json)


@account_app.command("laplace")
def account_laplace(
    epsilon: Annotated[float, typer.Option(help="Sensitivity over scale.")],
    relation: RelationOption,
    delta: DeltaOption = 0.0,
    as_json: Json = False,
) -> None:
    """Laplace noise. Example: dpaudit account laplace --epsilon 1 --relation add-remove"""
    print_result(accounting.laplace(epsilon=epsilon, relation=relation, delta=delta), as_json)


@account_app.command("randomized-response")
def account_randomized_response(
    epsilon: Annotated[float, typer.Option(help="Log-odds of the truth against another answer.")],
    relation: RelationOption,
    classes: Annotated[int, typer.Option(help="Number of answers.")] = 2,
    delta: DeltaOption = 0.0,
    as_json: Json = False,
) -> None:
    """k-ary randomised response. Example: dpaudit account randomized-response --epsilon 1 --relation label"""
    print_result(
        accounting.randomized_response(epsilon=epsilon, classes=classes, relation=relation, delta=delta), as_json
    )


@app.command()
def calibrate(
    estimator: Annotated[str | None, typer.Option(help="Your own: file.py:function, evidence in, bound out.")] = None,
    evidence: Annotated[str | None, typer.Option(help="What yours takes: runs or canaries.")] = None,
    bounds: Annotated[str, typer.Option(help="What yours bounds: epsilon or mu.")] = "epsilon",
    delta: Annotated[float, typer.Option(help="delta of your epsilon.")] = 0.0,
    trials: Annotated[int, typer.Option(help="Games a cell.")] = 400,
    full: Annotated[bool, typer.Option("--full", help="Add the cells that show only in 2,000 or more games.")] = False,
    only: Annotated[str | None, typer.Option(help="Only cells with this text.")] = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the games.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = -1,
    output: Annotated[Path | None, typer.Option(help="Also write the table as JSON to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write it as Markdown to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Over-claim rates of every estimator against mechanisms whose privacy is known exactly.

    Example: dpaudit calibrate --only GuessPath --trials 1000
    """
    from dpaudit.testing import calibration  # slow to import, and nobody else here needs it

    if estimator is not None:
        table = calibration.calibrate(
            load_function(estimator, field="estimator"),
            evidence=evidence,
            bounds=bounds,
            delta=delta,
            confidence=confidence,
            trials=trials,
            seed=seed,
            workers=workers,
        )
    else:
        cells = calibration.cells(confidence) + (calibration.slow_broken_cells(confidence) if full else [])
        chosen = [cell for cell in cells if only is None or only in cell.key]
        if not chosen:
            raise InputError(f"no cell of the table contains {only!r}.")
        with interruptible():
            table = calibration.run_cells(chosen, trials=trials, seed=seed, confidence=confidence, workers=workers)
    command = "dpaudit " + shlex.join(_without_files(sys.argv[1:]))
    for path, text in ((output, table.to_json(command)), (markdown, table.to_markdown())):
        if path is not None:
            _files.write_text(path, text)
    print(table.to_json(command) if as_json else table)
    expected = sum(row.as_expected for row in table.rows)
    print(f"{expected} of {len(table.rows)} cells as they should be.", file=sys.stderr)


def _without_files(arguments: list[str]) -> list[str]:
    """The command that reproduces the table, without where it was written."""
    kept, skip = [], False
    for argument in arguments:
        if skip or argument in ("--output", "--markdown"):
            skip = not skip
            continue
        kept.append(argument)
    return kept
