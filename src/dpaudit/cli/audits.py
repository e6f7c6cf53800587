"""`dpaudit run`, `dpaudit report` and `dpaudit demo`: from a configuration to a verdict and a page."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpaudit import _files
from dpaudit._validate import InputError
from dpaudit.auditing import run as run_audit
from dpaudit.auditing.plan import Configured, load_config
from dpaudit.cli._app import Json, app, interruptible, print_json, stdout_for_data
from dpaudit.execution import Execution
from dpaudit.games import HINT, commitment, fingerprint, hides
from dpaudit.record import Audit, Audits, load_audits
from dpaudit.reporting import summary_text, write_html

Workers = Annotated[int | None, typer.Option(help="Processes; -1 for all cores.")]
OutputFolder = Annotated[Path, typer.Option(help="Folder for runs, evidence, records and the report.")]


@app.command()
def run(
    files: Annotated[list[Path], typer.Argument(help="Audit files (TOML).")],
    output: OutputFolder = Path("audits"),
    workers: Workers = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the files, such as game.zero_run.clip=0.05.")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="joblib (this machine) or dask (a cluster).")] = None,
    address: Annotated[str | None, typer.Option(help="Scheduler of a running Dask cluster.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print every setting and its origin, run nothing.")
    ] = False,
    commit: Annotated[
        bool, typer.Option("--commit", help="Print the hash of the coins to publish, run nothing.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget finished runs of the same plan.")] = False,
    as_json: Json = False,
) -> None:
    """Run audits from files. Killed or interrupted, the same command goes on where it was.

    Example: dpaudit run audit.toml --output audits
    """
    read = [load_config(file, changes=changes or ()) for file in files]
    names = [_files.file_name(one.settings.name) for one in read]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"`audit.name` must differ from file to file, got {twice!r} more than once.")
    if explain:
        print("\n\n".join(one.explain() for one in read))
        return
    if commit:
        for one in read:
            print(_commitment(one))
        return
    games = [one.ready() for one in read]  # where that reads nothing: mistakes are found before anything runs
    _files.folder(output)
    given: dict[str, Any] = {"workers": workers, "backend": backend, "address": address}
    chosen = {name: value for name, value in given.items() if value is not None}
    with interruptible(), stdout_for_data():
        audits = Audits(
            tuple(
                _run_one(one, game, output / name, replace(one.execution, **chosen), fresh)
                for one, game, name in zip(read, games, names, strict=True)
            )
        )
    page = write_html(audits, output / "report.html")
    if as_json:
        print_json(audits.to_dict())
    else:
        print(audits)
    print(f"records, evidence and report: {page.parent}; open {page}", file=sys.stderr)
    raise typer.Exit(audits.exit_code())


def _run_one(one: Configured, game: Any, place: Path, execution: Execution, fresh: bool) -> Audit:
    """One audit; its runs are kept beside its record, named by their plan."""
    store = None
    if one.game.keeps_runs:
        store = place.with_name(f"{place.name}-{fingerprint(game, one.settings.seed)[:12]}.runs")
        if store.exists() and not fresh:
            print(f"going on from the runs kept in {store} (--fresh runs them again)", file=sys.stderr)
    found = run_audit(
        game, one.claim, one.settings, claim_source=one.source, execution=execution, store=store, fresh=fresh
    )
    for number, seen in enumerate(found.observed, 1):
        suffix = "evidence.parquet" if number == 1 else f"evidence-{number}.parquet"
        seen.save(place.with_name(f"{place.name}.{suffix}"))
    found.save(place.with_name(f"{place.name}.json"))
    return found


def _commitment(one: Configured) -> str:
    game = one.game.game(one.settings.seed)
    if not game.purpose:
        raise InputError("there are no coins to commit to: the evidence is already there.")
    if not hides(one.settings.seed):
        print(f"note: the seed {one.settings.seed} can be guessed, and the coins with it; {HINT}.", file=sys.stderr)
    return f"{one.settings.name} {commitment(game, one.settings.seed)}"


@app.command()
def report(
    records: Annotated[list[Path], typer.Argument(help="Records (JSON) that `run` wrote.")],
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    as_json: Json = False,
) -> None:
    """One HTML page from records, with their JSON inside. Nothing is run or recomputed.

    Example: dpaudit report audits/audit.json --output report.html
    """
    audits = load_audits(*records)
    try:
        page = write_html(audits, output, title=title)
    except (ValueError, ArithmeticError, TypeError) as problem:  # a record that follows its schema and makes no sense
        if isinstance(problem, InputError):
            raise
        raise InputError(f"the records could not be drawn ({type(problem).__name__}: {problem}).") from None
    if as_json:
        print_json(audits.to_dict())
    else:
        print(summary_text(audits))
    print(f"report: {page}", file=sys.stderr)


@app.command()
def demo(
    output: OutputFolder = Path("demo"),
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of every audit.")] = 1,
    as_json: Json = False,
) -> None:
    """Audit small mechanisms, honest and broken, and write a report.

    Example: dpaudit demo --output demo
    """
    from dpaudit.demo.audits import EXPECTED, NEXT, demo_audits  # it needs scikit-learn's data, which is slow to import

    _files.folder(output)
    with interruptible():
        audits = demo_audits(seed=seed, execution=Execution(workers=-1 if workers is None else workers))
    audits.save(output / "demo.json")
    page = write_html(audits, output / "report.html", title="dpaudit demo")
    if as_json:
        print_json(audits.to_dict())
        return
    print(summary_text(audits))
    odd = [audit.name for audit in audits if audit.outcome is not EXPECTED[audit.name]]
    if odd:
        print(f"\nnot as expected: {', '.join(odd)}; a contradiction by chance is possible, and rare")
    print(f"\nreport: {page}\n{NEXT}")
