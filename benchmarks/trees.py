"""Whole audits of the default examples, and the scripts of this folder, in this tree and in another checkout.

    git worktree add ../before REVISION
    python benchmarks/trees.py ../before [ROUNDS] [CASE ...]

Each case is run by either tree in turn, in a process of its own: an example by `dpaudit run` with one worker, a script
as it is. The minimum over the rounds counts: of processor seconds, children included, which other work on the machine
hardly moves, and of wall seconds, which it does. Without a case all examples and the import are run; a script takes
minutes, and has to be named: `estimators`, or `example:zero_run` where an example is called the same.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _reference import reference_loop

HERE = Path(__file__).parents[1]
EXAMPLES = ("noisy_mean", "zero_run", "observed_model", "observed_predictions", "panoramia")
IMPORTS = {"import numpy": "import numpy", "import dpaudit": "import numpy, dpaudit"}
DEFAULTS = (*IMPORTS, *(f"example:{name}" for name in EXAMPLES))
ROUNDS = 7


def command(tree: Path, case: str, folder: str) -> list[str]:
    """What is run for a case, in `tree`."""
    if case in IMPORTS:
        return ["-c", IMPORTS[case]]
    if not case.startswith("example:"):
        return [f"{tree}/benchmarks/{case}.py"]
    file = f"{tree}/examples/{case.removeprefix('example:')}/audit.toml"
    return ["-m", "dpaudit.cli", "run", file, "--json", "--workers", "1", "--output", folder]


def seconds(tree: Path, case: str) -> tuple[float, float]:
    """Of processors and of the clock; a run that broke off is an error, not a quick one."""
    path = os.environ | {"PYTHONPATH": f"{tree}/src{os.pathsep}{tree}/experiments/src"}
    with tempfile.TemporaryDirectory() as folder:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *command(tree, case, folder)],
            env=path, cwd=tree, capture_output=True, text=True, check=False,
        )  # fmt: skip
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Traceback" in done.stderr or (case.startswith("example:") and not done.stdout.startswith("{")):
        raise SystemExit(f"{case} in {tree} broke off:\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def main(other: Path, rounds: int, cases: tuple[str, ...]) -> None:
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    print(f"{'':30}{'processor seconds':^28}{'wall seconds':^28}   (minimum of {rounds} interleaved rounds)")
    print(f"{'':30}" + 2 * f"{'other':>10}{'this':>10}{'ratio':>8}")
    for case in cases:
        pairs = [(*seconds(other, case), *seconds(HERE, case)) for _ in range(rounds)]
        cpu, wall, own_cpu, own_wall = (min(column) for column in zip(*pairs, strict=True))
        shown = "".join(f"{a:10.3f}{b:10.3f}{b / a:8.2f}" for a, b in ((cpu, own_cpu), (wall, own_wall)))
        print(f"{case:30}{shown}", flush=True)


if __name__ == "__main__":
    given = sys.argv[2:]
    count = int(given.pop(0)) if given and given[0].isdigit() else ROUNDS
    main(Path(sys.argv[1]).resolve(), count, tuple(given) or DEFAULTS)
