"""Jobs: the same results from any worker, in order, with one seed each; honest failures."""

import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import Execution, Interrupted, RunFailed, RunStore, distinct_seeds, stream

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


def leak_limit(job):
    from joblib.externals.loky import process_executor

    return [float(process_executor._MAX_MEMORY_LEAK_SIZE)]


def test_a_worker_that_loads_a_large_library_is_not_ended():
    assert Execution(workers=2).map(leak_limit, [1, 2]) == [[float(sys.maxsize)]] * 2


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
