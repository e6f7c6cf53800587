"""`dpaudit estimate`: lower bounds from files of scores. How inclusion was decided is asked for, never guessed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.auditing import bounds_of, not_comparable, usable, verdict_of
from dpaudit.auditing.config import parsed_claim
from dpaudit.bounds import NotComparable, Outcome, Relation, UpperBound, Verdict, percent
from dpaudit.cli._app import Confidence, DeltaOption, Json, app, print_json
from dpaudit.estimators import epsilon_from_stream, judge_stream
from dpaudit.evidence import (
    CanaryScores,
    Evidence,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
    load_evidence,
)

HOW = {
    "runs": "many independent runs; two files (scores with the record, scores without) or a table with a member column",
    "coins": "one run; a fair coin, tossed by you for each row before training, decided what went in",
    "split": "one run; a random hold-out of fixed size decided (not coins, however even: it is thinned to coins)",
    "given": "one run; membership is what it is, nobody randomised it (needs a column of propensities)",
    "stream": "many runs, one a row in the order they ran; a fair coin decided the world of each (stop when you like)",
}


class How(StrEnum):
    RUNS = "runs"
    COINS = "coins"
    SPLIT = "split"
    GIVEN = "given"
    STREAM = "stream"


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
    claim: Annotated[str | None, typer.Option(help="Also judge this claim, written as in an audit file.")] = None,
    as_json: Json = False,
) -> None:
    """Lower bounds from scores; with a claim, its verdict too (exit codes as for `run`).

    Example: dpaudit estimate with.npy without.npy --how runs --relation add-remove --delta 1e-5
    """
    if how is How.STREAM:
        _refuse_unused({"--group": group, "--propensity": propensity}, "a stream has one row a run")
        pairs = _stream_pairs(files, relation, (score, member))
        settings: dict[str, Any] = {"relation": relation, "confidence": confidence, "unit": unit or "record"}
        bounds: tuple[Any, ...] = (epsilon_from_stream(pairs, delta=delta, **settings),)
        verdict = None if claim is None else _stream_verdict(pairs, parsed_claim(claim), settings)
        _print_all(bounds, verdict, as_json)
        return
    if len(files) == 1 and how is None and _is_evidence(files[0]):
        _refuse_unused({"--relation": relation, "--group": group, "--unit": unit}, "a saved evidence file has its own")
        evidence = load_evidence(files[0])
    else:
        common = {"reduce": reduce, "unit": unit or group or "record", "seed": seed}
        evidence = _evidence(files, how, relation, Columns(score, member, group, propensity or []), common)
    seen = usable(evidence)
    promised = None if claim is None else parsed_claim(claim)
    bounds = bounds_of(seen, delta=delta, confidence=confidence, claim=promised)
    judged = None if promised is None else verdict_of(seen, promised, confidence=confidence)
    _print_all(bounds, judged, as_json)


def _stream_verdict(pairs: list[tuple[bool, float]], claim: UpperBound, settings: dict[str, Any]) -> Verdict:
    try:
        return judge_stream(pairs, claim, **settings)
    except NotComparable as problem:
        return not_comparable(problem, settings["confidence"], settings["relation"])


def _stream_pairs(files: list[Path], relation: Relation | None, names: tuple[str, str]) -> list[tuple[bool, float]]:
    """The rows in their order, as (world, score)."""
    if len(files) != 1 or relation is None:
        raise InputError("`--how stream` reads one table and needs `--relation`.")
    table = _read(files[0])
    scores = check.scores(names[0], _column(files[0], table, names[0]))
    worlds = _flags(names[1], _column(files[0], table, names[1]))
    return list(zip(worlds.tolist(), scores.tolist(), strict=True))


def _refuse_unused(options: dict[str, Any], why: str) -> None:
    """An option that would change nothing is a misunderstanding, not a detail."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"`{name}` has no effect here: {why}.")


def _print_all(bounds: tuple[Any, ...], verdict: Verdict | None, as_json: bool) -> None:
    """Bounds and verdict; the exit code is the verdict's."""
    if as_json:
        values: Any = [bound.to_dict() for bound in bounds] if len(bounds) > 1 else bounds[0].to_dict()
        print_json(values if verdict is None else {"bounds": values, "verdict": verdict.to_dict()})
    else:
        for result in (*bounds, *(() if verdict is None else (verdict,))):
            print(result)
        if len(bounds) > 1:
            level = percent(bounds[0].confidence)
            print(f"Each bound is its own {level} statement. A bound of 0 is no evidence, not a clean bill of health.")
    if verdict is not None:
        unjudged = verdict.outcome in (Outcome.UNINFORMATIVE, Outcome.NOT_COMPARABLE)
        raise typer.Exit(1 if verdict.contradicted else 4 if unjudged else 0)


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
