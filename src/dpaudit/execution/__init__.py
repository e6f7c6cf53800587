"""Many seeded jobs, on all cores or on a cluster, each kept as soon as it is finished; and what makes them repeatable.

| part | what it is |
|---|---|
| `runner` | `Execution.map`: the jobs of a game, on any backend, in the order of the plan |
| | `RunStore`: finished jobs in a file, so that a killed run goes on where it was |
| `functions` | "file.py:function", loaded by each process for itself |
| | random streams and coins, one a purpose, and the fingerprint by which a plan is known again |

`one_torch_thread` and `torch_or_refuse` are for jobs that train with torch: sums in another order are other numbers.
"""

from dpaudit.execution.functions import (
    FileFunction,
    RunFailed,
    call_name,
    distinct_seeds,
    fair_coins,
    file_digests,
    file_names,
    fingerprint,
    load_function,
    paired_worlds,
    stream,
    takes,
)
from dpaudit.execution.runner import (
    Execution,
    Interrupted,
    RunStore,
    kept_runs,
    one_thread,
    one_torch_thread,
    torch_or_refuse,
)

__all__ = [
    "Execution",
    "FileFunction",
    "Interrupted",
    "RunFailed",
    "RunStore",
    "call_name",
    "distinct_seeds",
    "fair_coins",
    "file_digests",
    "file_names",
    "fingerprint",
    "kept_runs",
    "load_function",
    "one_thread",
    "one_torch_thread",
    "paired_worlds",
    "stream",
    "takes",
    "torch_or_refuse",
]
