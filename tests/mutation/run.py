"""Would the tests notice? Breaks one line of the package at a time and expects a named test to fail.

    python -m tests.mutation.run              all mutants of mutants.toml, as `make mutation` does
    python -m tests.mutation.run ID ...       these alone

The sources are copied into temporary folders, one for each of two processes; a mutant is one changed line of a copy,
and its test is run with the copy first on the path. It is killed where the test fails by an assertion. A test that
passes (SURVIVED) has a hole. A line that is not found exactly once is stale, and one that breaks the import, or makes
a test stop with another error, is no mutant: either is a fault of the list. The tests that are named must pass on the
unchanged sources. Exit code 1 unless every mutant was killed and every test was green.
"""

from __future__ import annotations

import argparse
import compileall
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).with_name("mutants.toml")
PROCESSES = 2
ASSERTIONS = ("assert ", "AssertionError", "Failed: ")
"""How the message of a failed assertion begins; the last is that of `pytest.raises` and `pytest.fail`."""
NOTHING_SELECTED = 5
"""Pytest's exit code where no test has the wanted name."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One line of the sources, what it becomes, and the tests that must fail then."""

    id: str
    why: str
    """What would go wrong, in one sentence."""
    file: str
    old: str
    """The whole line without its indentation; it stands exactly once in the file."""
    new: str
    test: str
    only: str = ""
    """Pytest's `-k`: the name of the test, or names joined by `or`; empty for the whole file."""
    seconds: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a mutant, or of the tests on unchanged sources."""

    id: str
    status: str
    """killed, SURVIVED, stale, no mutant or too slow; for unchanged sources green, RED or too slow."""
    words: str
    seconds: float

    @property
    def fine(self) -> bool:
        return self.status in ("killed", "green")


def read(path: Path = LIST) -> list[Mutant]:
    """The list, in its order."""
    return [Mutant(**entry) for entry in tomllib.loads(path.read_text())["mutant"]]


def occurrences(text: str, line: str) -> list[int]:
    """Where a line stands, whatever its indentation."""
    return [number for number, found in enumerate(text.splitlines()) if found.strip() == line.strip()]


def mutated(text: str, mutant: Mutant) -> str | None:
    """The text with the line changed; None where the line does not stand there exactly once."""
    found = occurrences(text, mutant.old)
    if len(found) != 1:
        return None
    lines = text.splitlines(keepends=True)
    line = lines[found[0]]
    indent = line[: len(line) - len(line.lstrip())]
    lines[found[0]] = f"{indent}{mutant.new.strip()}\n"
    return "".join(lines)


class Harness:
    """Copies of the sources, and the tests of `root` run against them."""

    def __init__(self, root: Path, folder: Path, *, processes: int = PROCESSES):
        self.root, self.folder, self.processes = root, folder, processes
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(processes):
            copy = folder / f"copy-{number}"
            shutil.copytree(root / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            compileall.compile_dir(copy / "src", quiet=2)
            self._free.put(copy)

    def run(self, mutants: Sequence[Mutant]) -> Iterable[Result]:
        """First the named tests on the unchanged sources, then each mutant; in this order, as they are ready."""
        with ThreadPoolExecutor(self.processes) as pool:
            unchanged = pool.map(lambda test: self._unchanged(test, mutants), sorted({m.test for m in mutants}))
            changed = pool.map(self._changed, mutants)
            yield from unchanged
            yield from changed

    def _unchanged(self, test: str, mutants: Sequence[Mutant]) -> Result:
        named = [m for m in mutants if m.test == test]
        only = "" if any(not m.only for m in named) else " or ".join(sorted({m.only for m in named}))
        started, copy = time.monotonic(), self._free.get()
        try:
            code, words = self._tested(copy, test, only, sum(m.seconds for m in named))
        finally:
            self._free.put(copy)
        status = "too slow" if code is None else "RED" if code else "green"
        return Result(id=test, status=status, words=words, seconds=time.monotonic() - started)

    def _changed(self, mutant: Mutant) -> Result:
        started, copy = time.monotonic(), self._free.get()
        original, changed = self.root / mutant.file, copy / mutant.file
        try:
            text = mutated(original.read_text(), mutant) if original.is_file() else None
            if text is None:
                status, words = "stale", f"the line does not stand exactly once in {mutant.file}"
            else:
                changed.write_text(text)
                for compiled in changed.parent.glob(f"__pycache__/{changed.stem}.*.pyc"):
                    compiled.unlink()  # its time stamp has whole seconds: it might pass for that of the changed file
                status, words = _verdict(*self._tested(copy, mutant.test, mutant.only, mutant.seconds))
        finally:
            if original.is_file():
                shutil.copy2(original, changed)
            self._free.put(copy)
        return Result(id=mutant.id, status=status, words=words, seconds=time.monotonic() - started)

    def _tested(self, copy: Path, test: str, only: str, seconds: float) -> tuple[int | None, str]:
        """Pytest's exit code (None: out of time), and the first failure as "test: message"."""
        report = copy / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", test]
        command += ["-k", only] if only else []
        environment = os.environ | {
            "PYTHONPATH": str(copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(copy / "hypothesis"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        try:
            done = subprocess.run(
                command, cwd=self.root, env=environment, timeout=seconds, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return None, f"no end after {seconds:g} seconds"
        failure = _first_failure(report) if report.is_file() else ""
        return done.returncode, failure or (done.stdout + done.stderr).strip()[-300:] * bool(done.returncode)


def _first_failure(report: Path) -> str:
    for case in ElementTree.parse(report).iter("testcase"):
        for kind in ("failure", "error"):
            found = case.find(kind)
            if found is not None:
                return f"{case.get('name')}: {'' if kind == 'failure' else 'error: '}{found.get('message', '')}"
    return ""


def _verdict(code: int | None, words: str) -> tuple[str, str]:
    if code is None:
        return "too slow", words
    if code == 0:
        return "SURVIVED", ""
    name, _, message = words.partition(": ")
    if code == 1 and message.startswith(ASSERTIONS):
        return "killed", f"by {name}"
    return "no mutant", "no test of that name" if code == NOTHING_SELECTED else words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutants that are named, or all of them; 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.run", description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", help="identifiers of mutants.toml; none for all")
    wanted = parser.parse_args(arguments).ids
    mutants = [mutant for mutant in read() if not wanted or mutant.id in wanted]
    unknown = set(wanted) - {mutant.id for mutant in mutants}
    if unknown:
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    started, results = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        for result in Harness(ROOT, Path(folder)).run(mutants):
            results.append(result)
            words = re.sub(r"\s+", " ", result.words)[:160]
            print(f"{result.status:9} {result.seconds:5.1f} s  {result.id}  {words}".rstrip(), flush=True)
    killed = sum(result.status == "killed" for result in results)
    print(f"{killed} of {len(mutants)} mutants killed, {time.monotonic() - started:.0f} seconds")
    return 0 if all(result.fine for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
