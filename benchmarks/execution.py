"""What the rails cost: 10,000 jobs of a millisecond, with and without them, side by side in one run.

`python benchmarks/execution.py` prints the overhead of a job as a difference and as a ratio to the bare loop; absolute
seconds stand beside a fixed reference loop.
"""

import math
import os
import sys
import tempfile
import time
from pathlib import Path

from dpaudit.execution import Execution, RunStore

JOBS = 10_000
CORES = 2


def millisecond(job):
    """Work of one millisecond of processor time, whatever the machine."""
    end = time.perf_counter() + 1e-3
    while time.perf_counter() < end:
        pass
    return [float(job)]


def timed(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def reference_loop():
    return sum(math.sqrt(k) for k in range(1_000_000))


def stored(workers):
    with tempfile.TemporaryDirectory() as folder, RunStore(Path(folder) / "runs", plan="benchmark") as store:
        Execution(workers=workers).map(millisecond, range(JOBS), store=store)


def resumed():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs"
        with RunStore(path, plan="benchmark") as store:
            for job in range(JOBS):
                store.append(job, [0.0])
        return timed(lambda: RunStore(path, plan="benchmark").close())


def main():
    print(f"{JOBS:,} jobs of 1 ms, {os.cpu_count()} cores; reference loop {1e3 * timed(reference_loop):.0f} ms")
    bare = timed(lambda: [millisecond(job) for job in range(JOBS)])
    Execution(workers=CORES).map(millisecond, range(8))  # start the processes
    print(f"{'bare loop, one core':<38} {bare:7.2f} s")
    worst = 0.0
    for name, act, cores in (
        ("one worker, no store", lambda: Execution(workers=1).map(millisecond, range(JOBS)), 1),
        ("one worker, store", lambda: stored(1), 1),
        (f"{CORES} workers, no store", lambda: Execution(workers=CORES).map(millisecond, range(JOBS)), CORES),
        (f"{CORES} workers, store", lambda: stored(CORES), CORES),
    ):
        taken = timed(act)
        overhead = (taken - bare / cores) / JOBS
        worst = max(worst, overhead)
        print(f"{name:<38} {taken:7.2f} s   {1e3 * overhead:6.3f} ms a job   {taken * cores / bare:.2f} times the work")
    print(f"{'reading 10,000 finished jobs back':<38} {resumed():7.3f} s")
    print(f"overhead below 1 ms a job: {'yes' if worst < 1e-3 else 'no'} (worst {1e3 * worst:.3f} ms)")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
