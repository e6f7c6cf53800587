"""Many seeded jobs, on all cores or on a cluster, each kept as soon as it is finished.

A game hands over a function and one small argument for each job; `Execution.map` returns the results in the order of
the jobs, whatever the number of workers or the backend. With a store, each finished job is appended to a file by one
write: `kill -9` loses only the jobs in flight, and the same call again runs the rest. (A power cut is not promised.)
Numbers depend on no machine: `one_thread` and `one_torch_thread` keep sums in one order.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import itertools
import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution.functions import RunFailed, fingerprint

BACKENDS = ("joblib", "dask")
WORKER_DIED = ("TerminatedWorkerError", "KilledWorker", "BrokenProcessPool")
"""Errors of joblib and Dask that mean so; by name, because Dask may not be installed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `Execution.map`; `str` says what is kept and how to go on."""


def _written_in(work: Any) -> str:
    """The hash of the file that a job's code is written in; of one that is in memory alone, nothing."""
    try:
        return hashlib.sha256(
            Path(inspect.getfile(type(work) if is_dataclass(work) else work)).read_bytes()
        ).hexdigest()
    except (OSError, TypeError):
        return ""


# ------------------------------------------------------------------------------------------------------------- threads


def torch_or_refuse() -> Any:
    """torch, imported when it is first needed."""
    try:
        import torch
    except ImportError:
        raise InputError(
            "models of torch need the package torch, which is not installed.",
            "pip install 'dpaudit[torch]'; the models and learners that are numpy or scikit-learn do without it.",
        ) from None
    return torch


@contextlib.contextmanager
def one_torch_thread() -> Iterator[None]:
    """torch on one thread, because sums in another order would be other numbers; put back afterwards."""
    torch = torch_or_refuse()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread(*, trees: bool = False) -> contextlib.AbstractContextManager[Any]:
    """Linear algebra on one thread, because sums in another order would be other numbers; `trees`: boosted ones too."""
    from threadpoolctl import threadpool_limits

    if trees:  # threads are limited only of libraries that are loaded
        import sklearn.ensemble  # noqa: F401
    return threadpool_limits(1)


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
    keep
        A folder that keeps the finished jobs of every `map` without a store of its own, so that the same call goes on
        after a kill: for long experiments. Jobs are known by their arguments and the file that the work is written in;
        after a change elsewhere in the code, take another folder.
    """

    workers: int = -1
    backend: str = "joblib"
    address: str | None = None
    progress: bool | None = None
    keep: str | None = None

    def __post_init__(self) -> None:
        check.choice("backend", self.backend, BACKENDS)
        if check.count("workers", self.workers, low=-1) == 0:
            raise InputError("`workers` must be at least 1, or -1 for all cores, got 0.")
        if self.address is not None and not isinstance(self.address, str):
            raise InputError(f"`address` must be a text such as 'tcp://host:8786', got {self.address!r}.")
        if self.progress is not None and not isinstance(self.progress, bool):
            raise InputError(f"`progress` must be true or false, got {self.progress!r}.")
        if self.keep is not None and not isinstance(self.keep, str):
            raise InputError(f"`keep` must be the name of a folder, got {self.keep!r}.")
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
        if store is None and self.keep is not None:
            plan = fingerprint([title, type(work).__qualname__, _written_in(work), work, list(jobs)])
            with RunStore(Path(self.keep) / f"{plan[:24]}.runs", plan=plan) as finished:
                return self.map(work, jobs, store=finished, title=title)
        done: dict[int, list[float]] = {} if store is None else dict(store.done)
        todo = [(number, job) for number, job in enumerate(jobs) if number not in done]
        failures: list[tuple[int, RunFailed]] = []
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
                        failures.append((number, problem))
                        continue
                    done[number] = values
                    if store is not None:
                        store.append(number, values)
                    advance()
        except KeyboardInterrupt:
            stops.append(signal.SIGINT)
        except RunFailed:
            if not stops:  # ctrl-C may end a worker that was only starting, before it could leave it to us
                raise
        if stops and len(done) < len(jobs):
            so_far = f"{len(done):,} of {len(jobs):,} jobs were finished"
            if store is None:
                raise Interrupted(f"{so_far}; nothing is kept, for there is no store.")
            raise Interrupted(
                f"{so_far}; they are kept in {str(store.path)!r}; the same command goes on from there (without "
                "--fresh)."
            )
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]  # the first in order, whoever was quicker
        return [done[number] for number in range(len(jobs))]

    def _results(self, work: Callable[[Any], Any], todo: Iterator[tuple[int, Any]]) -> Generator[Any, None, None]:
        """(number, values, problem) as they are finished."""
        first = next(todo, None)
        if first is None:
            return
        todo = itertools.chain([first], todo)
        if self.backend == "joblib" and self.workers == 1:
            yield from _one_by_one(work, todo)
            return
        if self.backend == "dask":
            yield from _on_cluster(self.address, self.workers, work, todo)
            return
        import joblib

        # one thread a worker: sums in another order would be other numbers
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            # one job a message, so that each is appended when it is finished; about half a millisecond a job
            parallel = joblib.Parallel(
                n_jobs=self.workers, return_as="generator_unordered", batch_size=1, pre_dispatch="4 * n_jobs"
            )
            parent, results = os.getpid(), None
            try:
                # a worker may die while jobs are still handed out
                results = parallel(joblib.delayed(_in_worker)(work, number, job, parent) for number, job in todo)
                for result in results:  # noqa: UP028 - `yield from` would close joblib's generator, with its warning
                    yield result
            except Exception as problem:
                raise _understood(problem) from None
            finally:
                with warnings.catch_warnings(action="ignore"):  # that jobs in flight are given up is meant
                    if results is not None:
                        results.close()

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
    from joblib.externals.loky import process_executor

    # joblib takes a large library that a job loads (torch) for a leak, and ends the worker; now and then that hangs
    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize
    if parent == os.getppid():
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


def _one_by_one(work: Callable[[Any], Any], todo: Iterator[tuple[int, Any]]) -> Generator[Any, None, None]:
    """In this process, with one thread for linear algebra, as the workers have; also for what the first job loads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        for number, job in itertools.islice(todo, 1):
            yield _called(work, number, job)
    with threadpool_limits(1):
        for number, job in todo:
            yield _called(work, number, job)


def _called(work: Callable[[Any], Any], number: int, job: Any) -> tuple[int, list[float], RunFailed | None]:
    """One job; what it raises travels back as a value, so that the store is closed in order."""
    try:
        return number, [float(value) for value in work(job)], None
    except RunFailed as problem:
        return number, [], problem
    except (Exception, SystemExit) as problem:  # whatever the audited code raises is its failure, not ours
        text = "".join(traceback.format_exception(problem))
        describe = getattr(work, "describe", lambda job: f"job {number}")
        return number, [], RunFailed(f"{describe(job)} failed with {type(problem).__name__}: {problem}", text)


def _on_cluster(
    address: str | None, workers: int, work: Callable[[Any], Any], todo: Iterator[tuple[int, Any]]
) -> Generator[Any, None, None]:
    """The same through Dask's own futures: joblib's Dask backend waits for ever when a worker dies."""
    with _dask_client(address, workers) as client:
        import distributed

        width = 4 * max(1, sum(client.nthreads().values()))
        pending = distributed.as_completed()
        pending.update(client.submit(_called, work, *one, pure=False) for one in itertools.islice(todo, width))
        for future in pending:
            try:
                result = future.result()
            except Exception as problem:
                raise _understood(problem) from None
            pending.update(client.submit(_called, work, *one, pure=False) for one in itertools.islice(todo, 1))
            yield result


def _understood(problem: Exception) -> Exception:
    """What a pool's own error means."""
    name = type(problem).__name__
    if name == "PicklingError":
        hint = "give it as 'file.py:function', or run in this process with workers=1."
        return InputError(f"the score cannot be sent to worker processes ({problem}).", hint)
    if name in WORKER_DIED:
        return RunFailed("a worker process died; it may have run out of memory: try fewer workers.")
    return problem


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


STORE_FORMAT = 1


class RunStore:
    """Finished jobs in a file, one line each with a checksum, appended by one write; one process at a time.

    The first line names the plan. A file of another plan, or one that was changed in its middle, is refused; a last
    line that a kill tore off is dropped.
    """

    def __init__(self, path: str | os.PathLike[str], *, plan: str, fresh: bool = False):
        self.path, self._plan = Path(path), plan
        if not self.path.parent.is_dir():
            raise InputError(f"no folder {str(self.path.parent)!r} to keep runs in.")
        if self.path.is_dir():
            raise InputError(f"{str(self.path)!r} is a folder, and runs are kept in a file.")
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            if fresh:
                os.ftruncate(self._file, 0)
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
        line = _line(entry)
        try:
            whole = os.write(self._file, line) == len(line)
        except OSError:
            whole = False
        if not whole:
            raise RunFailed(f"the store {str(self.path)!r} could not be written; is the disk full?")

    def _read(self) -> dict[int, list[float]]:
        """Check everything before anything is changed: the file may be somebody else's."""
        raw = self.path.read_bytes()
        *lines, tail = raw.split(b"\n")
        birth = {"dpaudit runs": STORE_FORMAT, "plan": self._plan}
        if not lines:
            if not _line(birth).startswith(raw):
                raise InputError(f"{str(self.path)!r} is there already, and is not a store of runs.")
            os.ftruncate(self._file, 0)  # empty, or killed while its first line was written
            self._write(birth)
            return {}
        entries = [_parsed(line) for line in lines]
        header = entries[0] or {}
        if "plan" not in header:
            raise InputError(f"{str(self.path)!r} is there already, and is not a store of runs.")
        if header != birth:
            raise InputError(
                f"the store {str(self.path)!r} belongs to another plan.",
                "another score, seed or number of runs needs another store; delete this one to start afresh.",
            )
        bad = next((number for number, entry in enumerate(entries, 1) if entry is None), None)
        if bad is not None:
            raise InputError(
                f"the store {str(self.path)!r} was changed after it was written, at line {bad}.", "start afresh."
            )
        if tail:  # torn off by a kill
            os.ftruncate(self._file, len(raw) - len(tail))
        return {entry["job"]: entry["values"] for entry in entries[1:] if entry is not None}


@contextlib.contextmanager
def kept_runs(
    path: str | os.PathLike[str] | None, *, plan: Callable[[], str], fresh: bool = False
) -> Iterator[RunStore | None]:
    """The store of a plan while its jobs run, or none where nothing is to be kept."""
    if path is None:
        yield None
        return
    with RunStore(path, plan=plan(), fresh=fresh) as store:
        yield store


def _line(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _parsed(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.partition(b" ")
    if checksum != f"{zlib.crc32(text):08x}".encode():
        return None
    found = json.loads(text)
    return found if isinstance(found, dict) else None
