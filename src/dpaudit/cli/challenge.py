"""`dpaudit challenge`: does the correction of a published audit survive somebody else's blind baseline?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpaudit import auditing
from dpaudit._validate import InputError
from dpaudit.cli._app import Json, app, print_result
from dpaudit.inputs.tables import Table

NEVER = ("member", "score", "loss")
"""Columns of these names are membership itself or what a model said of a row: never features of a blind baseline."""
VALUES = {"blind": "score", "propensity": "probability"}
"""What the column of a challenger must hold: its role."""


@app.command()
def challenge(
    record: Annotated[Path, typer.Argument(help="The published record (JSON), as `run` wrote it.")],
    evidence: Annotated[Path, typer.Argument(help="Its evidence file (Parquet).")],
    blind: Annotated[
        Path | None, typer.Option(help="Scores by id, made without the model; higher means member.")
    ] = None,
    propensity: Annotated[
        Path | None, typer.Option(help="Another model's P(member) by id, fitted on other rows, for groups of one size.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Features by id: an attack is learnt from every column.")
    ] = None,
    id_column: Annotated[str, typer.Option("--id", help="Column of ids: those of the evidence.")] = "id",
    score: Annotated[
        str | None, typer.Option(help="Column of scores (default score) or of propensities (default propensity).")
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Column that is no feature; member, score and loss never are.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of a refutation, in (0, 1).")] = 0.95,
    attempts: Annotated[int, typer.Option(help="Challengers tried on this record in all; they share the error.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0,
    as_json: Json = False,
) -> None:
    """Challenge a published zero-run audit by a blind baseline: exit code 1 if its correction is refuted, 0 if not.

    Give one of --blind, --propensity and --features, a CSV or Parquet file with a row for every audited id.

    Example: dpaudit challenge audits/audit.json audits/audit.evidence.parquet --features features.csv
    """
    files = {"blind": blind, "propensity": propensity, "features": features}
    given = {name: file for name, file in files.items() if file is not None}
    if len(given) != 1:
        names = " and ".join(f"--{name}" for name in given) or "none"
        raise InputError(f"exactly one of --blind, --propensity and --features must be given, got {names}.")
    ((name, file),) = given.items()
    unused = {"--score": score} if name == "features" else {"--leave-out": leave_out}
    for option, value in unused.items():
        if value is not None:
            raise InputError(f"`{option}` has no effect with --{name}.")
    challenger: dict[str, Any]
    if name == "features":
        challenger = _features(file, id_column, leave_out or [])
    else:
        challenger = {name: _values(name, file, id_column, score or ("score" if name == "blind" else name))}
    outcome = auditing.challenge(record, evidence, **challenger, confidence=confidence, attempts=attempts, seed=seed)
    print_result(outcome, as_json)
    raise typer.Exit(outcome.exit_code)


def _values(name: str, file: Path, id_column: str, column: str) -> tuple[Any, Any]:
    """Ids, and one number each."""
    rows = _read(_table(name, file), file, [id_column, column])
    return rows.column(id_column, "unit"), rows.column(column, VALUES[name], field=f"--{name}")


def _features(file: Path, id_column: str, leave_out: list[str]) -> dict[str, Any]:
    """Ids, and every other column as numbers."""
    table = _table("features", file)
    for column in leave_out:
        if column not in table.names:
            raise InputError(f"`--leave-out` must name columns of the file, got {column!r}.", table.hint)
    chosen = [column for column in table.names if column not in (id_column, *NEVER, *leave_out)]
    if not chosen:
        raise InputError(f"`--features` must hold at least one column besides {id_column!r}.", table.hint)
    rows = _read(table, file, [id_column, *chosen])
    matrix, names = rows.numeric(chosen)
    print(f"features: {', '.join(chosen)}", file=sys.stderr)
    return {"features": (rows.column(id_column, "unit"), matrix), "feature_names": names}


def _read(table: Table, file: Path, columns: list[str]) -> Table:
    """Columns of one file, in their order."""
    for column in columns:
        if column not in table.names:
            raise InputError(f"no column {column!r} in {file.name!r}; {table.hint}", "name it with --id or --score.")
    return table.sample(columns, days=True)


def _table(name: str, file: Path) -> Table:
    return Table.of(file, field=f"--{name}")
