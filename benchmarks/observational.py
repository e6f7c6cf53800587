"""Figure 2 of paper 000 at full size: a million rows x 100 games, one number of classes, one epsilon.

`python benchmarks/observational.py` plays independent games (fresh rows, labels by randomised response, coins and
counterfactual labels) on two cores, and prints seconds beside a fixed reference loop, the peak memory, the medians and
over-claims; and one game ranked as the library does beside one that sorts all rows twice over, as a ratio.
"""

import math
import resource
import sys
import time

import numpy as np

from dpaudit import estimators
from dpaudit.estimators.thresholds import guesses_from_canaries
from dpaudit.execution import Execution, distinct_seeds
from dpaudit_experiments.paper_000.observational import ResponseGame

ROWS, GAMES, CLASSES, EPSILON, SHARE, CORES = 1_000_000, 100, 2, 2.0, 0.001, 2


def timed(act):
    start = time.perf_counter()
    found = act()
    return time.perf_counter() - start, found


def reference_loop():
    return sum(math.sqrt(k) for k in range(1_000_000))


def right_guesses(seed):
    (evidence,) = ResponseGame(ROWS, CLASSES, EPSILON).evidence(seed, "likelihood-ratio")
    found = guesses_from_canaries(evidence).correct(round(SHARE * ROWS))
    return [found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]  # of the worker, in kilobytes


def plain_ranking(evidence):
    """The same count by two sorts of all rows and all keys, ties by uniforms."""
    keys, marks = np.abs(evidence.scores), (evidence.scores > 0.0) == evidence.included
    order = np.lexsort((marks, keys))
    order = order[np.lexsort((np.random.default_rng(0).random(keys.size), keys[order]))]
    return int(marks[order][::-1][: round(SHARE * ROWS)].sum())


def main():
    loop, _ = timed(reference_loop)
    print(f"{ROWS:,} rows x {GAMES} games, {CLASSES} classes, epsilon {EPSILON:g}; reference loop {1e3 * loop:.0f} ms")
    Execution(workers=CORES).map(right_guesses, distinct_seeds(0, "warm", CORES))
    taken, counts = timed(lambda: Execution(workers=CORES).map(right_guesses, distinct_seeds(1, "games", GAMES)))
    bounds = [estimators.one_run_epsilon(canaries=ROWS, guesses=round(SHARE * ROWS), correct=int(c)) for c, _ in counts]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = (own + CORES * max(memory for _, memory in counts)) / 2**20
    print(f"{taken:.1f} s on {CORES} cores ({taken / loop:.0f} reference loops), peak memory {peak:.2f} GB in all")
    print(f"median bound {np.median(bounds):.2f}, above epsilon in {sum(b > EPSILON for b in bounds)} of {GAMES} games")
    (evidence,) = ResponseGame(ROWS, CLASSES, EPSILON).evidence(1, "likelihood-ratio")
    quick, _ = timed(lambda: guesses_from_canaries(evidence).correct(round(SHARE * ROWS)))
    slow, _ = timed(lambda: plain_ranking(evidence))
    print(f"ranking a million rows: {1e3 * quick:.0f} ms, {slow / quick:.1f} times faster than two full sorts")
    met = taken < 60.0 and peak < 3.0
    print(f"under 60 s and 3 GB: {'yes' if met else 'no'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
