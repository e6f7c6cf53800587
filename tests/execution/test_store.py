"""A store of finished jobs survives kills and edits, and belongs to one plan and one process."""

import threading

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit.execution import Execution, RunStore

SERIAL = Execution(workers=1)


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
