"""Jobs: the same results from any worker, a store that survives kills, functions by name, honest failures."""

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import (
    Execution,
    FileFunction,
    Interrupted,
    RunFailed,
    RunStore,
    call_name,
    distinct_seeds,
    fingerprint,
    functions,
    load_function,
    stream,
    takes,
)
from dpaudit.fitted.propensity import Logistic

SERIAL = Execution(workers=1)


def double(job):
    return [2.0 * job]


def fails_at_three(job):
    if job == 3:
        raise ValueError("three")
    return [float(job)]


def dies(job):
    os._exit(9)


def test_seeds_are_distinct_and_begin_alike():
    many = distinct_seeds(5, "runs", 20_000)
    assert len(set(many)) == 20_000
    assert 0 <= min(many) <= max(many) < 2**32
    assert many[:100] == distinct_seeds(5, "runs", 100)
    assert set(many[:1000]).isdisjoint(distinct_seeds(6, "runs", 1000)[:5])
    assert distinct_seeds(5, "other", 3) != many[:3]
    assert stream(2**100, "a").random() != stream(2**100 + 2**64, "a").random()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_results_come_in_the_order_of_the_jobs(workers):
    assert Execution(workers=workers).map(double, range(20)) == [[2.0 * k] for k in range(20)]


def test_no_jobs():
    assert Execution().map(double, []) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_job_stops_everything_and_keeps_the_rest(tmp_path, workers):
    with RunStore(tmp_path / "runs", plan="p") as store, pytest.raises(RunFailed, match="job 3 failed with ValueError"):
        Execution(workers=workers).map(fails_at_three, range(8), store=store)
    with RunStore(tmp_path / "runs", plan="p") as store:
        assert {0, 1, 2} <= set(store.done)
        assert 3 not in store.done
        assert all(store.done[job] == [float(job)] for job in store.done)


def test_a_worker_that_dies_is_a_failed_run():
    with pytest.raises(RunFailed, match="worker process died"):
        Execution(workers=2).map(dies, range(4))


def test_traceback_travels():
    with pytest.raises(RunFailed) as found:
        SERIAL.map(fails_at_three, [3])
    assert "fails_at_three" in found.value.detail
    again = found.value.__reduce__()
    assert again[0](*again[1]).sentence == found.value.sentence


# ---------------------------------------------------------------------------------------------------------------- store


def test_finished_jobs_are_not_run_again(tmp_path):
    seen = []

    def work(job):
        seen.append(job)
        return [float(job)]

    with RunStore(tmp_path / "runs", plan="p") as store:
        SERIAL.map(work, range(5), store=store)
    with RunStore(tmp_path / "runs", plan="p") as store:
        assert SERIAL.map(work, range(7), store=store) == [[float(k)] for k in range(7)]
    assert seen == list(range(7))


def test_numbers_survive_exactly(tmp_path):
    values = [0.1 + 0.2, 1e-308, -1e300, np.nextafter(1.0, 2.0)]
    with RunStore(tmp_path / "runs", plan="p") as store:
        store.append(0, values)
    with RunStore(tmp_path / "runs", plan="p") as store:
        assert store.done == {0: values}


@pytest.mark.parametrize("kept", [1, 3, 17])
def test_a_torn_last_line_is_dropped(tmp_path, kept):
    path = tmp_path / "runs"
    with RunStore(path, plan="p") as store:
        store.append(0, [1.0])
    whole = path.read_bytes()
    with RunStore(path, plan="p") as store:
        store.append(1, [2.0])
    line = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + line[:kept])
    with RunStore(path, plan="p") as store:
        assert store.done == {0: [1.0]}
        store.append(1, [2.0])
    assert path.read_bytes() == whole + line


@pytest.mark.parametrize("kept", [0, 4, 30])
def test_a_header_torn_at_birth(tmp_path, kept):
    RunStore(tmp_path / "runs", plan="p").close()
    (tmp_path / "runs").write_bytes((tmp_path / "runs").read_bytes()[:kept])
    with RunStore(tmp_path / "runs", plan="p") as store:
        assert store.done == {}
        store.append(0, [1.0])
    with RunStore(tmp_path / "runs", plan="p") as store:
        assert store.done == {0: [1.0]}


def test_a_changed_store_is_refused(tmp_path):
    path = tmp_path / "runs"
    with RunStore(path, plan="p") as store:
        store.append(0, [1.0])
        store.append(1, [1.0])
    path.write_bytes(path.read_bytes().replace(b"[1.0]", b"[9.0]", 1))
    with pytest.raises(InputError, match="changed after it was written, at line 2"):
        RunStore(path, plan="p")


@pytest.mark.parametrize("content", ["12ab", '{"precious": 1}', "a,b\n1,2\n3,4"])
def test_other_peoples_files_are_left_alone(tmp_path, content):
    (tmp_path / "precious").write_text(content)
    with pytest.raises(InputError, match="is not a store of runs"):
        RunStore(tmp_path / "precious", plan="p")
    assert (tmp_path / "precious").read_text() == content


def test_a_store_of_another_plan_is_refused(tmp_path):
    RunStore(tmp_path / "runs", plan="p").close()
    with pytest.raises(InputError, match="belongs to another plan"):
        RunStore(tmp_path / "runs", plan="q")


def test_two_processes_do_not_share_a_store(tmp_path):
    with RunStore(tmp_path / "runs", plan="p"), pytest.raises(InputError, match="another process is using"):
        RunStore(tmp_path / "runs", plan="p")
    RunStore(tmp_path / "runs", plan="p").close()


def test_fresh_forgets_under_the_lock(tmp_path):
    with RunStore(tmp_path / "runs", plan="p") as store:
        store.append(0, [1.0])
        with pytest.raises(InputError, match="another process is using"):
            RunStore(tmp_path / "runs", plan="p", fresh=True)
    with RunStore(tmp_path / "runs", plan="p", fresh=True) as store:
        assert store.done == {}


def test_what_cannot_be_sent_or_kept(tmp_path):
    lock = threading.Lock()
    with pytest.raises(InputError, match="cannot be sent to worker processes"):
        Execution(workers=2).map(lambda job: [float(lock.locked())], range(4))
    with pytest.raises(InputError, match="is a folder"):
        RunStore(tmp_path, plan="p")


def test_no_folder(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        RunStore(tmp_path / "nowhere" / "runs", plan="p")


# ------------------------------------------------------------------------------------------------------------ functions


def test_functions_by_name(tmp_path):
    (tmp_path / "helper_of_audit.py").write_text("SHIFT = 3.0\n")
    (tmp_path / "mine.py").write_text(
        "from helper_of_audit import SHIFT\ndef score(world: bool, seed: int):\n    return SHIFT * world\nnumber = 3\n"
    )
    found = load_function("mine.py:score", folder=tmp_path)
    assert found(True, 0) == 3.0
    assert call_name(found) == "mine.py:score"
    assert found.__wrapped__.__annotations__["world"] is bool, "compiled as its own file would be"
    assert not hasattr(found, "many")
    assert takes(found, "world", "seed")
    assert not takes(found, "one")
    assert Execution(workers=2).map(Caller(found), [True, False]) == [[3.0], [0.0]]
    for reference, sentence in (
        ("mine.py", "must be 'file.py:function'"),
        ("none.py:score", "there is no 'none.py'"),
        ("mine.py:number", "has no function 'number'"),
        ("mine.py:other", "has no function 'other'"),
    ):
        with pytest.raises(InputError, match=re.escape(sentence)):
            load_function(reference, folder=tmp_path)
    (tmp_path / "broken.py").write_text("raise KeyError('x')")
    with pytest.raises(InputError, match="could not be loaded \\(KeyError"):
        load_function("broken.py:f", folder=tmp_path)


class Caller:
    def __init__(self, function):
        self.function = function

    def __call__(self, world):
        return [self.function(world, 0)]


def test_fingerprints_see_what_matters(tmp_path):
    def make(factor):
        return lambda world, seed: factor * world

    assert fingerprint(make(1.0)) == fingerprint(make(1.0))
    assert fingerprint(make(1.0)) != fingerprint(make(2.0))
    assert fingerprint(lambda w, s: w) != fingerprint(lambda w, s: -w)
    assert fingerprint(np.arange(3)) != fingerprint(np.arange(4))
    assert fingerprint({"a": (1, 2)}) == fingerprint({"a": [1, 2]})
    first = FileFunction("/a/mine.py", "score", "d1")
    assert fingerprint(first) == fingerprint(FileFunction("/elsewhere/mine.py", "score", "d1"))
    assert fingerprint(first) != fingerprint(FileFunction("/a/mine.py", "score", "d2"))


def test_fingerprints_are_the_same_in_another_process():
    code = (
        "from dpaudit.execution import fingerprint; from dpaudit.testing.broken import mechanisms as broken;"
        "print(fingerprint([broken.specimens()['5'], lambda x: x in {'a', 'b', 'c'}]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": str(k)},
        ).stdout
        for k in (1, 2)
    }
    assert len(found) == 1


# --------------------------------------------------------------------------------------------------- settings, progress


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"workers": 0}, "`workers` must be at least 1"),
        ({"workers": 1.5}, "whole number"),
        ({"backend": "spark"}, "must be one of 'joblib', 'dask'"),
        ({"address": "tcp://x:1"}, "belongs to the dask backend"),
    ],
)
def test_refusals(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        Execution(**settings)


def test_progress_is_silent_where_there_is_no_terminal(capsys):
    """What a terminal shows is tested with a real one, below."""
    SERIAL.map(double, range(3))
    Execution(workers=2).map(double, range(3))
    assert capsys.readouterr() == ("", "")


def test_interruption_says_how_to_go_on(tmp_path):
    def work(job):
        if job == 2:
            raise KeyboardInterrupt
        return [1.0]

    with RunStore(tmp_path / "runs", plan="p") as store, pytest.raises(Interrupted, match=r"2 of 5 jobs.*goes on from"):
        SERIAL.map(work, range(5), store=store)
    with pytest.raises(Interrupted, match="nothing is kept"):
        SERIAL.map(work, range(5))


# -------------------------------------------------------------------------------------- kill, resume, workers, clusters

SCORE = """
import time
from functools import partial
import numpy as np

def score(world, seed):
    time.sleep(0.004)
    return float(world) + np.random.default_rng(seed).normal()
"""
CONFIG = """
claim = { mu = 1.0, delta = 1e-5, relation = "add-remove" }
audit = { seed = 11 }
game.multi_run = { score = "audit.py:score", runs = 100 }
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "audit.py").write_text(SCORE)
    (tmp_path / "audit.toml").write_text(CONFIG)
    return tmp_path


def command(project, output, *more):
    return [sys.executable, "-m", "dpaudit.cli", "run", project / "audit.toml", "--output", project / output, *more]


def record_of(project, output):
    values = json.loads((project / output / "audit.json").read_text())
    del values["timings"]
    return values


def lines_of(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.runs"))


def start_and_kill(project, output, workers, rng):
    """Start the command, wait for some more finished runs (or none), kill the process."""
    before, wanted = lines_of(project / output), int(rng.integers(0, 30))
    running = subprocess.Popen(
        command(project, output, "--workers", workers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if wanted == 0:
        time.sleep(float(rng.uniform(0.0, 0.8)))
    while lines_of(project / output) < before + wanted and running.poll() is None:
        time.sleep(0.002)
    running.kill()
    return running.wait() != 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_twenty_kills_and_the_record_is_identical(project, workers):
    """`kill -9` at random moments: here ten, two stores with five kills each; then the same command once more."""
    rng = np.random.default_rng(int(workers))
    subprocess.run(command(project, "whole", "--workers", "1"), check=True, capture_output=True)
    for output in ("a", "b"):
        (project / output).mkdir()
        kills = sum(start_and_kill(project, output, workers, rng) for _ in range(5))
        assert kills >= 4, "killed while it was running; on a very quick machine the last one may have finished"
        subprocess.run(command(project, output, "--workers", "2"), check=True, capture_output=True)
        assert record_of(project, output) == record_of(project, "whole")
        evidence = (project / output / "audit.evidence.parquet").read_bytes()
        assert evidence == (project / "whole" / "audit.evidence.parquet").read_bytes()


def test_any_number_of_workers_and_a_real_cluster_give_one_record(project):
    """1, 2 and 4 workers, and a Dask scheduler with two worker processes of its own."""
    import distributed

    for workers in ("1", "2", "4"):
        subprocess.run(command(project, f"w{workers}", "--workers", workers), check=True, capture_output=True)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        address = ("--backend", "dask", "--address", cluster.scheduler_address)
        subprocess.run(command(project, "dask", *address), check=True, capture_output=True)
    found = [record_of(project, output) for output in ("w1", "w2", "w4", "dask")]
    assert all(record == found[0] for record in found)


def test_no_scheduler_answers(project):
    found = subprocess.run(
        command(project, "x", "--backend", "dask", "--address", "tcp://127.0.0.1:9"), capture_output=True, text=True
    )
    assert found.returncode == 2
    assert "no Dask scheduler answers" in found.stderr.splitlines()[-1]


@pytest.mark.parametrize("lines", [1, 20])
def test_ctrl_c_on_a_terminal(project, lines):
    """A real terminal: a bar with the time left, then ctrl-C, a sentence, exit code 130, and a store that resumes.

    With the header line alone the workers are only starting, and ctrl-C ends them before they can ignore it.
    """
    import pty

    controller, terminal = pty.openpty()
    running = subprocess.Popen(
        command(project, "t", "--workers", "2"),
        stdin=terminal,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(terminal)
    (project / "t").mkdir(exist_ok=True)
    deadline = time.monotonic() + 60.0
    while lines_of(project / "t") < lines and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    shown = io.BytesIO()
    os.write(controller, b"\x03")
    # one may be lost while libraries are loaded: once more, as a person would, if nothing was said
    threading.Timer(2.0, lambda: b"inish" in shown.getvalue() or os.write(controller, b"\x03")).start()
    threading.Timer(60.0, running.kill).start()
    while True:
        try:
            part = os.read(controller, 4096)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        shown.write(part)
    text = shown.getvalue().decode(errors="replace")
    assert running.wait(30) == 130, text
    assert re.search(r"interrupted: \d+ of 200 jobs were finished; they are kept in .*goes on from there", text), text
    assert re.search(r"\d+/200", text)
    assert "Traceback" not in text
    subprocess.run(command(project, "t", "--workers", "2"), check=True, capture_output=True)
    subprocess.run(command(project, "whole", "--workers", "1"), check=True, capture_output=True)
    assert record_of(project, "t") == record_of(project, "whole")


def test_a_local_dask_cluster_too(project):
    """Without an address a cluster is started here; a worker that dies is a failed run."""
    serial = Execution(workers=1).map(double, range(12))
    assert Execution(workers=2, backend="dask").map(double, range(12)) == serial
    with pytest.raises(RunFailed, match="worker process died"):
        Execution(workers=2, backend="dask").map(dies, [0])


def matrix(job):
    rng = np.random.default_rng(job)
    a, b = rng.normal(size=(2, 400, 400))
    return [float((a @ b).sum()), float(np.linalg.norm(a @ b @ a))]


def test_linear_algebra_is_the_same_from_any_number_of_workers():
    """Threads would sum in another order: every worker has one, and so has this process."""
    found = [Execution(workers=workers).map(matrix, range(4)) for workers in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


def leaves(job):
    sys.exit(job)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_score_that_calls_exit_is_a_failed_run_not_a_verdict(workers):
    with pytest.raises(RunFailed, match="job 0 failed with SystemExit: 0"):
        Execution(workers=workers).map(leaves, range(2))


def test_files_that_exit_change_or_clash(tmp_path):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(1)\n")
    with pytest.raises(InputError, match="could not be loaded \\(SystemExit"):
        load_function("leaves.py:f", folder=tmp_path)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, value in zip(folders, (1.0, 2.0), strict=True):
        folder.mkdir()
        (folder / "helper_that_clashes.py").write_text(f"VALUE = {value}\n")
        (folder / "score.py").write_text(
            "def score(world, seed):\n    import helper_that_clashes\n    return helper_that_clashes.VALUE\n"
        )
    first = load_function("score.py:score", folder=folders[0])
    assert first(True, 0) == 1.0
    with pytest.raises(InputError, match="run the two audits by separate commands"):
        load_function("score.py:score", folder=folders[1])
    (folders[0] / "helper_that_clashes.py").write_text("VALUE = 3.0  # edited\n")
    changed = load_function("score.py:score", folder=folders[0])
    assert changed.digest != first.digest, "what the file imports is part of the plan"
    assert changed(True, 0) == 3.0, "and it is imported anew"
    with pytest.raises(RunFailed, match="was changed while its runs were going on"):
        FileFunction(first.path, "score", "0" * 64)(True, 0)


SIGMA = 1.0


def reads_a_constant(world, seed):
    return SIGMA * world


class Plain:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, world, seed):
        return self.scale * world

    def method(self, world, seed):
        return self.scale


FACTORS = {"scale": [1.0, np.float32(2.0)]}


def helper(world):
    return FACTORS["scale"][0] * world


def calls_a_helper(world, seed):
    return (lambda: helper(world))()


class Base:
    def __call__(self, world, seed):
        return helper(world)


class Derived(Base):
    pass


def test_code_of_this_package_is_known_by_its_version(monkeypatch):
    """Wherever it is installed: a store that was made in a checkout goes on in an installed package."""
    value = [Logistic(), Logistic.fit]
    before = fingerprint(value)
    monkeypatch.setattr(Logistic, "words", lambda self: "another text")
    assert fingerprint(value) == before
    monkeypatch.setattr(functions, "__version__", "another version")
    assert fingerprint(value) != before


def test_fingerprints_reach_what_a_function_reaches(monkeypatch):
    """Helpers, containers, base classes, data frames: an edit of any of them is another plan."""
    import pandas as pd

    table = pd.DataFrame({"x": np.arange(1000.0)})
    other = table.copy()
    other.loc[500, "x"] = -1.0
    assert fingerprint(table) == fingerprint(table.copy()) != fingerprint(other)
    assert fingerprint({"b", "a"}) == fingerprint({"a", "b"}) != fingerprint({"a"})
    before = [fingerprint(calls_a_helper), fingerprint(Derived())]
    monkeypatch.setitem(FACTORS, "scale", [1.0, np.float32(3.0)])
    middle = [fingerprint(calls_a_helper), fingerprint(Derived())]
    monkeypatch.setitem(globals(), "helper", lambda world: world)
    after = [fingerprint(calls_a_helper), fingerprint(Derived())]
    for found in zip(before, middle, after, strict=True):
        assert len(set(found)) == 3
    assert len(before[0]) == 64


def test_fingerprints_of_callables_in_memory(monkeypatch):
    before = fingerprint(reads_a_constant)
    monkeypatch.setitem(globals(), "SIGMA", 0.5)
    assert fingerprint(reads_a_constant) != before
    assert fingerprint(Plain(1.0)) == fingerprint(Plain(1.0)) != fingerprint(Plain(2.0))
    assert fingerprint(Plain(1.0).method) == fingerprint(Plain(1.0).method) != fingerprint(Plain(2.0).method)
    assert fingerprint(partial(max, 1)) == fingerprint(partial(max, 1)) != fingerprint(partial(max, 2))
    made = [lambda w, s, *, k=k: k for k in (1, 2)]
    assert fingerprint(made[0]) != fingerprint(made[1])

    def again(world, seed):
        return again

    assert fingerprint(again) == fingerprint(again)


def leak_limit(job):
    from joblib.externals.loky import process_executor

    return [float(process_executor._MAX_MEMORY_LEAK_SIZE)]


def test_a_worker_that_loads_a_large_library_is_not_ended():
    assert Execution(workers=2).map(leak_limit, [1, 2]) == [[float(sys.maxsize)]] * 2


@dataclass(frozen=True)
class Counted:
    """Writes down that it was called."""

    calls: str

    def __call__(self, job):
        with open(self.calls, "a") as file:
            file.write(".")
        return [2.0 * job]


def test_a_folder_keeps_the_finished_jobs_of_every_map(tmp_path):
    calls = tmp_path / "calls"
    execution = Execution(workers=1, keep=str(tmp_path))
    for _ in range(2):
        assert execution.map(Counted(str(calls)), [1, 2, 3]) == [[2.0], [4.0], [6.0]]
    assert len(calls.read_text()) == 3
    assert execution.map(Counted(str(calls)), [1, 2]) == [[2.0], [4.0]]  # other jobs, another store
    assert len(calls.read_text()) == 5
    with pytest.raises(InputError, match="`keep` must be the name of a folder"):
        Execution(keep=3)
    with pytest.raises(InputError, match="no folder"):
        Execution(keep=str(tmp_path / "nowhere")).map(Counted(str(calls)), [1])
