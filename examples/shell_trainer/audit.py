"""A trainer that is a shell command. Its noise is a quarter of what the promise mu = 1 needs, so the audit says so."""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def score(world: bool, seed: int) -> float:
    """Run the command on one of two neighbouring files, and read its number."""
    data = HERE / ("with.txt" if world else "without.txt")
    done = subprocess.run([HERE / "train.sh", data, str(seed)], capture_output=True, text=True, check=True)
    return float(done.stdout)
