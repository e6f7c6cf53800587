"""Many seeded jobs, on all cores or on a cluster, each kept as soon as it is finished.

A game hands over a function and one small argument for each job; `Execution.map` returns the results in the order of
the jobs, whatever the number of workers or the backend. With a store, each finished job is appended to a file by one
write: `kill -9` loses only the jobs in flight, and the same call again runs the rest. (A power cut is not promised.)

Seeds are derived here, one stream for each purpose, so that no job's randomness depends on another's.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import inspect
import itertools
import json
import os
import signal
import sys
import threading
import time
import traceback
import types
import warnings
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit import _validate as check
from dpaudit._validate import InputError

BACKENDS = ("joblib", "dask")
STORE_FORMAT = 1


class RunFailed(RuntimeError):
    """A run of the audited system failed. `detail` is its traceback; finished runs are kept in the store."""

    def __init__(self, sentence: str, detail: str = ""):
        self.sentence, self.detail = sentence, detail
        super().__init__(sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sentence, self.detail)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `Execution.map`; `str` says what is kept and how to go on."""


# --------------------------------------------------------------------------------------------------------------- seeds


def stream(seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one purpose under one seed."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()),)))


def distinct_seeds(seed: int, purpose: str, count: int) -> list[int]:
    """`count` different seeds below 2^32, which every library takes; more of them begin with the same ones.

    >>> distinct_seeds(7, "runs", 2) == distinct_seeds(7, "runs", 5)[:2]
    True
    """
    rng, found = stream(seed, purpose), dict[int, None]()
    while len(found) < count:
        found.update(dict.fromkeys(rng.integers(0, 2**32, size=4096).tolist()))
    return list(found)[:count]


# ---------------------------------------------------------------------------------------------------- functions by name


@dataclass(frozen=True)
class FileFunction:
    """A function of a Python file, by name: each process loads the file for itself, with its folder importable."""

    path: str
    name: str
    digest: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.__wrapped__(*arguments, **named)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return _loaded(self.path, self.name, self.digest)

    @property
    def __name__(self) -> str:
        return self.name


def load_function(reference: str, *, field: str = "score", folder: str | os.PathLike[str] = ".") -> FileFunction:
    """The function of a "file.py:function" that the user asked to run; the file is relative to `folder`."""
    path, _, name = reference.rpartition(":")
    if not path or not name:
        raise InputError(f"`{field}` must be 'file.py:function', got {reference!r}.")
    file = Path(folder, path).resolve()
    if not file.is_file() or file.suffix != ".py":
        raise InputError(f"`{field}` must name a Python file, and there is no {path!r}.")
    found = FileFunction(str(file), name, hashlib.sha256(file.read_bytes()).hexdigest())
    _ = found.__wrapped__  # fail now, not in a worker
    return found


@lru_cache(maxsize=64)
def _loaded(path: str, name: str, digest: str) -> Callable[..., Any]:
    file = Path(path)
    unique = f"_dpaudit_user_{file.stem}_{digest[:12]}"
    module = sys.modules.get(unique)
    if module is None:
        spec = importlib.util.spec_from_file_location(unique, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        sys.modules[unique] = module
        try:
            spec.loader.exec_module(module)
        except Exception as problem:
            del sys.modules[unique]
            raise InputError(f"{file.name!r} could not be loaded ({type(problem).__name__}: {problem}).") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{file.name!r} has no function {name!r}.")
    return found


def fingerprint(value: Any) -> str:
    """SHA-256 of a plan: dataclasses by their fields, arrays by content, functions by code. A changed plan is another.

    What a function calls in other files is not seen: after changing those, start with a fresh store.
    """
    return hashlib.sha256(json.dumps(_described(value), sort_keys=True, default=str).encode()).hexdigest()


def _described(value: Any) -> Any:
    if isinstance(value, FileFunction):
        return ["file", Path(value.path).name, value.name, value.digest]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__qualname__, {f.name: _described(getattr(value, f.name)) for f in fields(value)}]
    if isinstance(value, np.ndarray):
        return [
            "array",
            value.shape,
            str(value.dtype),
            hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest(),
        ]
    if isinstance(value, types.MethodType):
        return [_described(value.__self__), _described(value.__func__)]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return ["function", value.__qualname__, _code(value.__code__), _described([cells, value.__defaults__])]
    if isinstance(value, dict):
        return {str(name): _described(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_described(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool | None) else f"{type(value).__qualname__} {value!s}"


def _code(code: types.CodeType) -> list[Any]:
    constants = [_code(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    return [code.co_code.hex(), constants, list(code.co_names)]


def _constant(value: Any) -> str:
    """A constant as text; the order of a set differs from process to process."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


# --------------------------------------------------------------------------------------------------------------- store


class RunStore:
    """Finished jobs in a file, one line each with a checksum, appended by one write; one process at a time.

    The first line names the plan. A file of another plan, or one that was changed in its middle, is refused; a last
    line that a kill tore off is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], *, plan: str):
        self.path, self._plan = Path(path), plan
        if not self.path.parent.is_dir():
            raise InputError(f"no folder {str(self.path.parent)!r} to keep runs in.")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self.done = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, job: int, values: Sequence[float]) -> None:
        """Keep one finished job."""
        self._write({"job": job, "values": list(values)})
        self.done[job] = list(values)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process is using the store {str(self.path)!r}.", "wait for it.") from None

    def _write(self, entry: dict[str, Any]) -> None:
        text = json.dumps(entry)
        line = f"{zlib.crc32(text.encode()):08x} {text}\n".encode()
        if os.write(self._file, line) != len(line):
            raise RunFailed(f"the store {str(self.path)!r} could not be written; is the disk full?")

    def _read(self) -> dict[int, list[float]]:
        raw = self.path.read_bytes()
        *lines, tail = raw.split(b"\n")
        entries = [_parsed(line) for line in lines]
        if tail:  # torn off by a kill
            os.ftruncate(self._file, len(raw) - len(tail))
        if not entries:
            self._write({"dpaudit runs": STORE_FORMAT, "plan": self._plan})
            return {}
        bad = next((number for number, entry in enumerate(entries, 1) if entry is None), None)
        header = entries[0] or {}
        if bad is not None or "plan" not in header:
            raise InputError(
                f"the store {str(self.path)!r} was changed after it was written, at line {bad or 1}.", "start afresh."
            )
        if header["plan"] != self._plan or header.get("dpaudit runs") != STORE_FORMAT:
            raise InputError(
                f"the store {str(self.path)!r} belongs to another plan.",
                "another score, seed or number of runs needs another store; delete this one to start afresh.",
            )
        return {entry["job"]: entry["values"] for entry in entries[1:] if entry is not None}


def _parsed(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if checksum == f"{zlib.crc32(text):08x}".encode() else None


# ----------------------------------------------------------------------------------------------------------- execution


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where jobs run. It never changes a number.

    Attributes
    ----------
    workers
        Processes of the joblib backend; -1 for all cores, 1 to stay in this process.
    backend
        "joblib" (this machine) or "dask" (a cluster, extra `dask`).
    address
        Scheduler of a running Dask cluster, which must be able to import what the job needs; None starts one here,
        with `workers` processes.
    progress
        Show a bar with the time left on standard error; None: if that is a terminal.
    """

    workers: int = -1
    backend: str = "joblib"
    address: str | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        check.choice("backend", self.backend, BACKENDS)
        if check.count("workers", self.workers, low=-1) == 0:
            raise InputError("`workers` must be at least 1, or -1 for all cores, got 0.")
        if self.address is not None and self.backend != "dask":
            raise InputError(f"`address` belongs to the dask backend, got backend {self.backend!r}.")

    def map(
        self,
        work: Callable[[Any], Sequence[float]],
        jobs: Sequence[Any],
        *,
        store: RunStore | None = None,
        title: str = "runs",
    ) -> list[list[float]]:
        """`work(job)` for every job, in order. A job that raises stops everything with `RunFailed`; nothing is dropped,
        because dropping a run would be a selection."""
        done: dict[int, list[float]] = {} if store is None else dict(store.done)
        todo = [(number, job) for number, job in enumerate(jobs) if number not in done]
        failures: list[RunFailed] = []
        stops: list[int] = []
        rest = itertools.takewhile(lambda _: not failures and not stops, todo)  # then nothing new is begun
        try:
            with (
                _gentle_interrupt(stops),
                self._bar(title, len(jobs), len(done)) as advance,
                contextlib.closing(self._results(work, rest)) as results,
            ):
                for number, values, problem in results:
                    if problem is not None:
                        failures.append(problem)
                        continue
                    done[number] = values
                    if store is not None:
                        store.append(number, values)
                    advance()
        except KeyboardInterrupt:
            stops.append(signal.SIGINT)
        if failures:
            raise failures[0]
        if stops and len(done) < len(jobs):
            kept = "nothing is kept, for there is no store"
            if store is not None:
                kept = f"they are kept in {str(store.path)!r}, and the same command goes on from there"
            raise Interrupted(f"{len(done):,} of {len(jobs):,} jobs were finished; {kept}.")
        return [done[number] for number in range(len(jobs))]

    def _results(self, work: Callable[[Any], Any], todo: Iterator[tuple[int, Any]]) -> Generator[Any, None, None]:
        """(number, values, problem) as they are finished."""
        first = next(todo, None)
        if first is None:
            return
        todo = itertools.chain([first], todo)
        if self.backend == "joblib" and self.workers == 1:
            for number, job in todo:
                yield _called(work, number, job)
            return
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        with self._pool() as pool:
            # one job a message, so that each is appended when it is finished; about half a millisecond a job
            parallel = joblib.Parallel(
                n_jobs=pool, return_as="generator_unordered", batch_size=1, pre_dispatch="4 * n_jobs"
            )
            parent = os.getpid()
            results = parallel(joblib.delayed(_in_worker)(work, number, job, parent) for number, job in todo)
            try:
                for result in results:  # noqa: UP028 - `yield from` would close joblib's generator, with its warning
                    yield result
            except TerminatedWorkerError:
                raise RunFailed("a worker process died; it may have run out of memory: try fewer workers.") from None
            finally:
                with warnings.catch_warnings(action="ignore"):  # that jobs in flight are given up is meant
                    results.close()

    @contextlib.contextmanager
    def _pool(self) -> Iterator[int]:
        """The joblib backend to use meanwhile, and its number of processes."""
        import joblib

        if self.backend == "joblib":
            with joblib.parallel_config(backend="loky"):
                yield self.workers
            return
        with _dask_client(self.address, self.workers) as client, joblib.parallel_config(backend="dask", client=client):
            yield -1

    @contextlib.contextmanager
    def _bar(self, title: str, total: int, finished: int) -> Iterator[Callable[[], None]]:
        shown = sys.stderr.isatty() if self.progress is None else self.progress
        if not shown or total == finished:
            yield lambda: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(title, total=total, completed=finished)
            yield lambda: progress.advance(task)


@contextlib.contextmanager
def _gentle_interrupt(stops: list[int]) -> Iterator[None]:
    """The first ctrl-C lets the jobs in flight finish, the second stops at once. Only the main thread can do this."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: object) -> None:
        stops.append(number)
        signal.signal(signal.SIGINT, before)
        print("\nfinishing the jobs in flight; ctrl-C again stops at once", file=sys.stderr)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_worker(work: Callable[[Any], Any], number: int, job: Any, parent: int) -> Any:
    """`_called` in another process, which leaves ctrl-C to the parent and does not outlive it."""
    if parent == os.getppid():  # a process of this machine's pool; a cluster looks after its own
        _follow(parent)
    return _called(work, number, job)


@lru_cache(maxsize=1)
def _follow(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _called(work: Callable[[Any], Any], number: int, job: Any) -> tuple[int, list[float], RunFailed | None]:
    """One job; what it raises travels back as a value, so that the store is closed in order."""
    try:
        return number, [float(value) for value in work(job)], None
    except RunFailed as problem:
        return number, [], problem
    except Exception as problem:  # whatever the audited code raises is its failure, not ours
        text = "".join(traceback.format_exception(problem))
        describe = getattr(work, "describe", lambda job: f"job {number}")
        return number, [], RunFailed(f"{describe(job)} failed with {type(problem).__name__}: {problem}", text)


@contextlib.contextmanager
def _dask_client(address: str | None, workers: int) -> Iterator[Any]:
    try:
        import distributed
    except ImportError:
        raise InputError(
            "the dask backend needs the packages dask and distributed, which are not installed.",
            "pip install 'dpaudit[dask]', or use --backend joblib.",
        ) from None
    if address is None:
        size = {} if workers == -1 else {"n_workers": workers}
        with (
            distributed.LocalCluster(threads_per_worker=1, dashboard_address=None, **size) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout="5s")
    except (OSError, TimeoutError, ValueError) as problem:
        raise InputError(f"no Dask scheduler answers at {address!r} ({type(problem).__name__}).") from None
    with client:
        yield client


def call_name(function: Any) -> str:
    """How a score is named in a record."""
    if isinstance(function, FileFunction):
        return f"{Path(function.path).name}:{function.name}"
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__
    return str(name)


def takes(function: Any, *names: str) -> bool:
    """Whether a callable can be called with these arguments by position; unknown signatures pass."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError:
        return False
    except ValueError:  # built in C, without a signature
        return True
    return True
