"""The command line: each command is a thin skin on one library call.

Data goes to standard output (`--json` for machines), everything else to standard error. Exit codes: 0 nothing
contradicted, 2 misuse or bad input, 3 a run failed.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import traceback
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from dpaudit import __version__, _files, accounting, calibration, estimators
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import LowerBound, Relation, UpperBound
from dpaudit.evidence import (
    CanaryScores,
    Evidence,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
    load_evidence,
)

app = typer.Typer(
    name="dpaudit",
    help="Statistically valid audits of differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
account_app = typer.Typer(help="What a mechanism promises: an upper bound.", no_args_is_help=True)
app.add_typer(account_app, name="account")

HOW = {
    "runs": "many independent runs; two files (scores with the record, scores without) or a table with a member column",
    "coins": "one run; a fair coin, tossed by you for each row before training, decided what went in",
    "split": "one run; a random hold-out of fixed size decided (not coins, however even: it is thinned to coins)",
    "given": "one run; membership is what it is, nobody randomised it (needs a column of propensities)",
}


class How(StrEnum):
    RUNS = "runs"
    COINS = "coins"
    SPLIT = "split"
    GIVEN = "given"


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
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as problem:  # the last resort, so that a crash is not taken for a verdict
        traceback.print_exc()
        print(f"error: unexpected {type(problem).__name__}; please report it.", file=sys.stderr)
        sys.exit(3)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)
        raise typer.Exit


# ----------------------------------------------------------------------------------------------------------- estimate


@app.command()
def estimate(
    files: Annotated[list[Path], typer.Argument(help="Scores: CSV, Parquet or NPY; or a saved evidence file.")],
    how: Annotated[How | None, typer.Option(help="How inclusion was decided.")] = None,
    relation: Annotated[Relation | None, typer.Option(help="Adjacency of the game (split: substitute).")] = None,
    delta: DeltaOption = 1e-5,
    confidence: Confidence = 0.95,
    score: Annotated[str, typer.Option(help="Column of scores; higher means more likely included.")] = "score",
    member: Annotated[str, typer.Option(help="Column that says who was included (true / false or 1 / 0).")] = "member",
    group: Annotated[str | None, typer.Option(help="Column of units: rows of one person share one coin.")] = None,
    propensity: Annotated[
        list[str] | None, typer.Option(help="With given: column of P(member given features); twice for lower, upper.")
    ] = None,
    reduce: Annotated[str, typer.Option(help="One score a unit: mean, max or sum.")] = "mean",
    unit: Annotated[str | None, typer.Option(help="What one coin stands for; default the group column.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of ties and of thinning.")] = 0,
    as_json: Json = False,
) -> None:
    """Lower bounds from scores.

    Example: dpaudit estimate with.npy without.npy --how runs --relation add-remove --delta 1e-5
    """
    if len(files) == 1 and how is None and _is_evidence(files[0]):
        _refuse_unused({"--relation": relation, "--group": group, "--unit": unit}, "a saved evidence file has its own")
        evidence = load_evidence(files[0])
    else:
        common = {"reduce": reduce, "unit": unit or group or "record", "seed": seed}
        evidence = _evidence(files, how, relation, Columns(score, member, group, propensity or []), common)
    converted = delta if delta > 0.0 else None  # at delta 0 a Gaussian bound says nothing about epsilon
    if isinstance(evidence, PairedScores):
        region = estimators.panoramia(evidence, delta=delta, confidence=confidence)
        _print_one(region, as_json)
        return
    if isinstance(evidence, OutputCounts):
        _print_one(estimators.renyi_from_outputs(evidence, orders=ORDERS, confidence=confidence), as_json)
        return
    if isinstance(evidence, RunScores):
        found = [
            estimators.epsilon_from_runs(evidence, delta=delta, confidence=confidence),
            estimators.mu_from_runs(evidence, delta=converted, confidence=confidence),
        ]
    elif isinstance(evidence, CanaryScores):
        coins = evidence.thinned() if evidence.assignment == "split" else evidence
        found = [
            estimators.epsilon_from_canaries(coins, delta=delta, confidence=confidence),
            estimators.mu_from_canaries(coins, delta=converted, confidence=confidence),
        ]
    else:
        found = [
            estimators.epsilon_from_members(evidence, delta=delta, confidence=confidence),
            estimators.mu_from_members(evidence, delta=converted, confidence=confidence),
        ]
    _print_bounds(found, as_json)


ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def _print_one(result: Any, as_json: bool) -> None:
    if as_json:
        _print_json(result.to_dict())
    else:
        print(result)


def _refuse_unused(options: dict[str, Any], why: str) -> None:
    """An option that would change nothing is a misunderstanding, not a detail."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"`{name}` has no effect here: {why}.")


def _print_bounds(bounds: list[LowerBound], as_json: bool) -> None:
    if as_json:
        _print_json([bound.to_dict() for bound in bounds])
        return
    for bound in bounds:
        print(bound)
    level = f"{100 * bounds[0].confidence:g}%"
    print(f"Each bound is its own {level} statement. A bound of 0 is no evidence, not a clean bill of health.")


def _print_json(value: Any) -> None:
    """JSON that every reader takes: an infinite number is the word "infinity"."""
    print(json.dumps(_finite(value), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


UNSTATED = {
    How.RUNS: "nothing stood in the record's place in the runs without it (--relation was not given)",
    How.COINS: "nothing stood in the place of a row that was left out (--relation was not given)",
}


class Columns(NamedTuple):
    """Names of the columns that the user gave."""

    score: str
    member: str
    group: str | None
    propensity: list[str]


def _evidence(
    files: list[Path], how: How | None, relation: Relation | None, names: Columns, common: dict[str, Any]
) -> Evidence:
    if how is None:
        raise InputError(
            "`--how` is needed: how inclusion was decided is never guessed.",
            "one of\n" + "\n".join(f"  --how {word:<5}  {meaning}" for word, meaning in HOW.items()),
        )
    if how is not How.GIVEN:
        _refuse_unused({"--propensity": names.propensity or None}, "it belongs to --how given")
    if len(files) > 2 or (len(files) == 2 and how is not How.RUNS):
        expected = "one or two files" if how is How.RUNS else "one table"
        raise InputError(f"`--how {how}` reads {expected}, got {len(files)}.")
    common["relation"] = relation or (Relation.ADD_REMOVE if how in UNSTATED else Relation.SUBSTITUTE)
    if relation is None and how in UNSTATED:
        common["assumptions"] = (UNSTATED[how],)
    if len(files) == 2:
        _refuse_unused({"--group": names.group}, "two files of scores have no such column")
        present, absent = (_column(file, _read(file), names.score, alone=True) for file in files)
        return RunScores(present=present, absent=absent, **common)
    return _of_table(files[0], _read(files[0]), how, names, common)


def _of_table(file: Path, table: Any, how: How, names: Columns, common: dict[str, Any]) -> Evidence:
    """Evidence of one table: paired scores and counts of answers are known by their columns, the rest by `how`."""
    found = set(getattr(table, "column_names", ()))
    groups = None if names.group is None else _column(file, table, names.group)
    if how is How.COINS and {"included", "baseline", "attack"} <= found:
        if common.pop("assumptions", None) is None:
            raise InputError("`--relation` has no effect here: paired tables are always about substitution.")
        common.pop("relation")
        coins = _flags("included", _column(file, table, "included"))
        baseline, attack = _column(file, table, "baseline"), _column(file, table, "attack")
        return PairedScores(included=coins, baseline=baseline, attack=attack, group=groups, **common)
    if how is How.RUNS and {"present", "absent"} <= found:
        _refuse_unused({"--group": names.group}, "counts are one a trial already")
        return _counts_of_table(file, table, found, common)
    scores, included = _column(file, table, names.score), _flags(names.member, _column(file, table, names.member))
    if how is How.RUNS:
        return _runs_of_table(scores, included, groups, common)
    if how is How.GIVEN:
        propensity = _propensities(file, table, names.propensity)
        return MemberScores(scores=scores, member=included, propensity=propensity, group=groups, **common)
    return CanaryScores(scores=scores, included=included, group=groups, assignment=str(how), **common)


def _propensities(file: Path, table: Any, names: list[str]) -> NDArray[np.float64]:
    if not 1 <= len(names) <= 2:
        raise InputError(
            f"`--how given` needs one column of propensities, or two (lower, upper), got {len(names)}.",
            "--propensity COLUMN; if the non-members are a random hold-out, that is `--how split`.",
        )
    columns = [check.floats(name, _column(file, table, name)) for name in names]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _counts_of_table(file: Path, table: Any, found: set[str], common: dict[str, Any]) -> OutputCounts:
    """A row an answer, with its counts in both worlds; a column `query` tells queries apart."""
    common.pop("reduce")
    counts = np.stack([_column(file, table, name) for name in ("present", "absent")])
    if "query" not in found:
        return OutputCounts(present=counts[0], absent=counts[1], **common)
    queries, where = np.unique(_column(file, table, "query").astype(str), return_inverse=True)
    sizes = np.bincount(where, minlength=1)
    if where.size == 0:
        raise InputError(f"{file.name!r} has no rows.")
    if np.any(sizes != sizes[0]):
        raise InputError(f"every query in {file.name!r} must have as many answers, got {sizes.min()} to {sizes.max()}.")
    shaped = counts[:, np.argsort(where, kind="stable")].reshape(2, queries.size, sizes[0])
    return OutputCounts(present=shaped[0], absent=shaped[1], ids=queries, **common)


def _runs_of_table(scores: Any, included: NDArray[np.bool_], groups: Any, common: dict[str, Any]) -> RunScores:
    order = np.argsort(~included, kind="stable")  # present first, as RunScores lists groups
    return RunScores(
        present=scores[included],
        absent=scores[~included],
        group=None if groups is None else groups[order],
        **common,
    )


def _flags(name: str, values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind in "OU":
        words = {"true": True, "false": False, "1": True, "0": False}
        try:
            values = np.array([words[str(value).strip().lower()] for value in values.tolist()])
        except KeyError as found:
            raise InputError(f"column {name!r} must be true / false or 1 / 0, got {found.args[0]!r}.") from None
    return check.booleans(name, values)


# -------------------------------------------------------------------------------------------------------------- files


def _is_evidence(path: Path) -> bool:
    """Whether a Parquet file carries this project's metadata; unreadable files are reported when they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return b"dpaudit" in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def _read(path: Path) -> Any:
    """A pyarrow table, or an array from NPY. Never a pickle."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if not path.is_file():
        raise InputError(f"no file {str(path)!r}.")
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".npy"):
        raise InputError(f"{path.name!r} must be a .csv, .parquet or .npy file.")
    try:
        if kind == ".npy":
            found = np.load(path, allow_pickle=False)
            if not isinstance(found, np.ndarray):
                raise ValueError("an archive of arrays, not one")
            return found
        table = pyarrow.csv.read_csv(path) if kind == ".csv" else pq.read_table(path)
        if len(set(table.column_names)) < len(table.column_names):
            raise ValueError("two columns have one name")
        return table
    except (pa.ArrowException, OSError, ValueError, EOFError) as problem:
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise InputError(f"{path.name!r} could not be read ({reason}).") from None


def _column(path: Path, table: Any, name: str, *, alone: bool = False) -> NDArray[Any]:
    """One column as an array; a file with a single column needs no name where only one is wanted."""
    if isinstance(table, np.ndarray):
        if table.dtype.names:
            if name in table.dtype.names:
                return np.asarray(table[name])
            raise InputError(f"no column {name!r} in {path.name!r}; it has {', '.join(table.dtype.names)}.")
        if alone:
            return table
        raise InputError(f"{path.name!r} is a plain array; a table with a score and a member column is needed.")
    names = table.column_names
    if name in names:
        return np.asarray(table.column(name).to_numpy(zero_copy_only=False))
    if alone and len(names) == 1:
        if _is_number(names[0]):  # a headerless file: its first score was taken for a name
            raise InputError(
                f"{path.name!r} has no header line.", "put the column name, such as score, in the first line."
            )
        return np.asarray(table.column(0).to_numpy(zero_copy_only=False))
    raise InputError(
        f"no column {name!r} in {path.name!r}; it has {', '.join(names)}.", "name it with --score, --member or --group."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------ account


def _print_upper(bound: UpperBound, as_json: bool) -> None:
    if as_json:
        _print_json(bound.to_dict())
    else:
        print(bound)


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
    _print_upper(
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
    _print_upper(accounting.gaussian(mu=mu, delta=delta, relation=relation), as_json)


@account_app.command("laplace")
def account_laplace(
    epsilon: Annotated[float, typer.Option(help="Sensitivity over scale.")],
    relation: RelationOption,
    delta: DeltaOption = 0.0,
    as_json: Json = False,
) -> None:
    """Laplace noise. Example: dpaudit account laplace --epsilon 1 --relation add-remove"""
    _print_upper(accounting.laplace(epsilon=epsilon, relation=relation, delta=delta), as_json)


@account_app.command("randomized-response")
def account_randomized_response(
    epsilon: Annotated[float, typer.Option(help="Log-odds of the truth against another answer.")],
    relation: RelationOption,
    classes: Annotated[int, typer.Option(help="Number of answers.")] = 2,
    delta: DeltaOption = 0.0,
    as_json: Json = False,
) -> None:
    """k-ary randomised response. Example: dpaudit account randomized-response --epsilon 1 --relation label"""
    _print_upper(
        accounting.randomized_response(epsilon=epsilon, classes=classes, relation=relation, delta=delta), as_json
    )


# ---------------------------------------------------------------------------------------------------------- calibrate


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
    if estimator is not None:
        table = calibration.calibrate(
            calibration.load_function(estimator),
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


if __name__ == "__main__":
    main()
