"""Whole audits of the default examples in this tree and in another checkout, interleaved: which of the two is faster.

    git worktree add ../before REVISION
    python benchmarks/trees.py ../before [ROUNDS]

Each example is run by `dpaudit run` of either tree in turn, in a process of its own with one worker; the record says
how long game and analysis took, and the minimum over the rounds counts.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _reference import reference_loop

HERE = Path(__file__).parents[1]
EXAMPLES = ("noisy_mean", "zero_run", "observed_model", "observed_predictions", "panoramia")
ROUNDS = 7


def seconds(tree: Path, example: str) -> float:
    """Of game and analysis, as the record says."""
    with tempfile.TemporaryDirectory() as folder:
        file = tree / "examples" / example / "audit.toml"
        command = [sys.executable, "-m", "dpaudit.cli", "run", file, "--json", "--workers", "1", "--output", folder]
        path = os.environ | {"PYTHONPATH": str(tree / "src")}
        done = subprocess.run(command, env=path, cwd=tree, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    timings = found.get("audits", [found])[0]["timings"]
    return float(timings["game_seconds"] + timings["analysis_seconds"])


def import_seconds(tree: Path) -> float:
    """Of `import dpaudit` beyond that of numpy."""
    code = "import time, numpy; t = time.perf_counter(); import dpaudit; print(time.perf_counter() - t)"
    path = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(other: Path, rounds: int) -> None:
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    print(f"{'':24}{'other s':>10}{'this s':>10}{'ratio':>8}   (minimum of {rounds} interleaved rounds)")
    measures = [(name, lambda tree, name=name: seconds(tree, name)) for name in EXAMPLES]
    for name, measured in [*measures, ("import dpaudit", import_seconds)]:
        pairs = [(measured(other), measured(HERE)) for _ in range(rounds)]
        before, now = (min(column) for column in zip(*pairs, strict=True))
        print(f"{name:24}{before:10.4f}{now:10.4f}{now / before:8.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
