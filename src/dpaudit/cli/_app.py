"""The command line: each command is a thin skin on one library call.

Data goes to standard output (`--json` for machines), everything else to standard error. Exit codes are those
of `record.values.EXIT_CODES`, which the help ends with; an unexpected error is 3, never 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from dpaudit import __version__
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.record import plain
from dpaudit.record.values import EXIT_CODES

EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + "."
app = typer.Typer(
    name="dpaudit",
    help="Statistically valid audits of differential privacy.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Confidence = Annotated[float, typer.Option(help="Confidence of each bound, in (0, 1).")]
DeltaOption = Annotated[float, typer.Option(help="delta of the (epsilon, delta) bound.")]
RelationOption = Annotated[Relation, typer.Option(help="Adjacency that is promised.")]


def main() -> None:
    """Entry point: bad input is one sentence and exit code 2; an unexpected error is never 1."""
    try:
        app()
    except InputError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as problem:  # the last resort, so that a crash is not taken for a verdict
        traceback.print_exc()
        print(f"error: unexpected {type(problem).__name__}; please report it.", file=sys.stderr)
        sys.exit(3)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C ends a long command with a sentence and exit code 130."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        print(f"interrupted: {stopped}" if str(stopped) else "interrupted", file=sys.stderr)
        raise typer.Exit(130) from None


@contextlib.contextmanager
def stdout_for_data() -> Iterator[None]:
    """Whatever the audited code and its processes print meanwhile goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def print_json(value: Any) -> None:
    """JSON that every reader takes: an infinite number is the word "infinity"."""
    print(json.dumps(plain(value), indent=1, allow_nan=False))


def print_result(result: Any, as_json: bool) -> None:
    """A result as its own text, or as JSON."""
    if as_json:
        print_json(result.to_dict())
    else:
        print(result)
