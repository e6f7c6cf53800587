"""`dpaudit estimate`: lower bounds from files of scores. How inclusion was decided is asked for, never guessed."""

from __future__ import annotations

import inspect
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpaudit._validate import InputError
from dpaudit.assumptions import percent
from dpaudit.auditing import audit, not_comparable
from dpaudit.auditing.plan import MAKERS, documented, parsed_claim
from dpaudit.bounds import NotComparable, Outcome, Relation, UpperBound, Verdict
from dpaudit.cli._app import Confidence, DeltaOption, Json, app, print_json
from dpaudit.estimators import epsilon_from_stream, judge_stream
from dpaudit.games.from_evidence import ASSIGNMENTS
from dpaudit.inputs.tables import Table

STREAM = "many runs, one a row in the order they ran; a fair coin decided the world of each (stop when you like)"
MEANINGS = {**ASSIGNMENTS, "stream": STREAM}
OR_STREAM = f'Or "stream": {STREAM}.'
TWICE = "Two are given by the option twice."
MAKER = MAKERS["evidence"]
KNOWN = inspect.signature(MAKER).parameters
"""What the command may be told of its evidence: names and defaults, defined where the evidence is made of a table."""


def told(name: str, *more: str) -> Any:
    """The option of a parameter: it says what the docstring says, and what is so of the command alone."""
    return typer.Option(help=" ".join((documented(MAKER)[name], *more)))


class Assignment(StrEnum):
    RUNS = "runs"
    COINS = "coins"
    SPLIT = "split"
    GIVEN = "given"
    STREAM = "stream"


@app.command()
def estimate(
    files: Annotated[list[Path], typer.Argument(help="Scores: CSV, Parquet or NPY; or a saved evidence file.")],
    assignment: Annotated[Assignment | None, told("assignment", OR_STREAM)] = KNOWN["assignment"].default,
    relation: Annotated[Relation | None, told("relation")] = KNOWN["relation"].default,
    delta: DeltaOption = 1e-5,
    confidence: Confidence = 0.95,
    score: Annotated[str, told("score")] = KNOWN["score"].default,
    member: Annotated[str, told("member")] = KNOWN["member"].default,
    group: Annotated[str | None, told("group")] = KNOWN["group"].default,
    propensity: Annotated[list[str], told("propensity", TWICE)] = KNOWN["propensity"].default,
    reduce: Annotated[str, told("reduce")] = KNOWN["reduce"].default,
    unit: Annotated[str | None, told("unit")] = KNOWN["unit"].default,
    seed: Annotated[int, told("seed")] = KNOWN["seed"].default,
    claim: Annotated[str | None, typer.Option(help="Also judge this claim, written as in an audit file.")] = None,
    as_json: Json = False,
) -> None:
    """Lower bounds from scores; with a claim, its verdict too (exit codes as for `run`).

    Example: dpaudit estimate with.npy without.npy --assignment runs --relation add-remove --delta 1e-5
    """
    promised = None if claim is None else parsed_claim(claim)
    if assignment is Assignment.STREAM:
        if group is not None or propensity:
            raise InputError(
                f"`{'propensity' if propensity else 'group'}` has no effect here: a stream has one row a run."
            )
        pairs = _stream_pairs(files, relation, (score, member))
        settings: dict[str, Any] = {"relation": relation, "confidence": confidence, "unit": unit or "record"}
        bounds: tuple[Any, ...] = (epsilon_from_stream(pairs, delta=delta, **settings),)
        verdict = None if promised is None else _stream_verdict(pairs, promised, settings)
        _print_all(bounds, verdict, as_json)
        return
    columns: dict[str, Any] = {"score": score, "member": member, "reduce": reduce, "seed": seed}
    units: dict[str, Any] = {"relation": relation, "group": group, "unit": unit, "propensity": propensity}
    game = MAKER(**_where(files, assignment), **columns, **units)
    found = audit(game, claim=promised, delta=delta, confidence=confidence, seed=seed)
    _print_all(found.bounds, None if promised is None else found.verdict, as_json)


def _where(files: list[Path], assignment: Assignment | None) -> dict[str, Any]:
    """Which files hold what: saved evidence, one table, or the scores of runs with the record and of runs without."""
    if assignment is None:
        if len(files) == 1 and _is_evidence(files[0]):
            return {"file": files[0]}
        raise InputError(
            "`--assignment` is needed: how inclusion was decided is never guessed.",
            "one of\n" + "\n".join(f"  --assignment {word:<6}  {meaning}" for word, meaning in MEANINGS.items()),
        )
    runs = assignment is Assignment.RUNS
    if len(files) > 2 or (len(files) == 2 and not runs):
        expected = "one or two files" if runs else "one table"
        raise InputError(f"`--assignment {assignment}` reads {expected}, got {len(files)}.")
    return {"table": files[0] if len(files) == 1 else files, "assignment": str(assignment)}


def _stream_verdict(pairs: list[tuple[bool, float]], claim: UpperBound, settings: dict[str, Any]) -> Verdict:
    try:
        return judge_stream(pairs, claim, **settings)
    except NotComparable as problem:
        return not_comparable(problem, settings["confidence"], settings["relation"])


def _stream_pairs(files: list[Path], relation: Relation | None, names: tuple[str, str]) -> list[tuple[bool, float]]:
    """The rows in their order, as (world, score)."""
    if len(files) != 1 or relation is None:
        raise InputError("`--assignment stream` reads one table and needs `--relation`.")
    rows = Table.of(files[0]).sample(names)
    scores, worlds = rows.column(names[0], "score"), rows.column(names[1], "flag")
    return list(zip(worlds.tolist(), scores.tolist(), strict=True))


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


def _is_evidence(path: Path) -> bool:
    """Whether a Parquet file carries this project's metadata; unreadable files are reported when they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return b"dpaudit" in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False
