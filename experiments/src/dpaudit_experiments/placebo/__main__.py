"""`python -m dpaudit_experiments.placebo --output FOLDER` plays the games, and writes what came out after every few."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from dpaudit import InputError
from dpaudit.execution import Execution
from dpaudit_experiments.common.outcome import file_stem
from dpaudit_experiments.data import archives
from dpaudit_experiments.placebo.groups import FULL, GROUPS, QUICK, outcome_of, run_cell

COMMAND = "python -m dpaudit_experiments.placebo"


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--group", choices=tuple(GROUPS), action="append", help="only these groups")
    parser.add_argument("--only", default="", help="only cells whose name holds this")
    parser.add_argument("--games", type=int, help="at most so many games a cell, for a first look")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder of finished games; by default beside the public data")
    parser.add_argument("--quick", action="store_true", help="small tables and two games a cell")
    return parser.parse_args(given)


def main(given: list[str]) -> int:
    """Exit codes: 0 if all was played, 2 if something was refused."""
    told = arguments(given)
    keep = told.keep or archives.folder() / "placebo"
    told.output.mkdir(parents=True, exist_ok=True)
    execution = Execution(workers=told.workers, progress=False, keep=None if told.quick else str(keep))
    try:
        if not told.quick:
            archives.need("adult", "census")
            keep.mkdir(parents=True, exist_ok=True)
        for name in told.group or GROUPS:
            _play(name, told, shlex.join([*COMMAND.split(), *given]), execution)
    except InputError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


def _play(name: str, told: argparse.Namespace, command: str, execution: Execution) -> None:
    """All cells of one group; the file is written anew after each chunk of games."""
    sizes = QUICK if told.quick else FULL
    rows: dict[str, dict[str, Any]] = {}
    for cell in GROUPS[name].cells:
        if told.only not in cell.name:
            continue
        count = min(cell.games, told.games or (2 if told.quick else cell.games))
        for row in run_cell(cell, sizes, told.seed, execution, count):
            rows[cell.name] = row
            found = outcome_of(name, list(rows.values()), sizes=sizes, command=command)
            found.save(told.output / f"{file_stem(name)}.json")
            print(f"{name}: {row}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
