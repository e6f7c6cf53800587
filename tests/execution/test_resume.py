"""Kills, interrupts, workers and clusters of the command: one record."""

import io
import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dpaudit.execution import Execution, RunFailed
from tests.execution.test_runner import dies, double

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
