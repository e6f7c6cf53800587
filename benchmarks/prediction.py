"""Exact laws of noisy votes beside simulation to the same accuracy, and a thousand queries.

A simulation needs 1 / (p 1e-8) trials for a relative error of 1e-4 at an answer of probability p. It is timed on a
million trials and scaled: its cost is proportional to the number of trials.
"""

import time

import numpy as np

from dpaudit.execution import Execution
from dpaudit.mechanisms import multinomial_argmax_probabilities

TEACHERS, CLASSES, SIGMA, TRIALS = 250, 10, 40.0, 1_000_000
QUERIES = 1000


def reference_loop() -> float:
    began = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return time.perf_counter() - began


def laws(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(CLASSES, 0.5)), np.eye(CLASSES)[rng.integers(0, CLASSES)]


def both_worlds(seed: int) -> list[float]:
    """The exact law of the answer in both worlds of one query."""
    law, odd = laws(seed)
    found = [
        multinomial_argmax_probabilities(law, teachers=TEACHERS, sigma=SIGMA, special=special)
        for special in (None, odd)
    ]
    return [float(value) for each in found for value in each]


def simulated(trials: int, seed: int) -> np.ndarray:
    law, _ = laws(seed)
    rng, counts = np.random.default_rng(seed), np.zeros(CLASSES)
    for _ in range(trials // 100_000):
        votes = rng.multinomial(TEACHERS, law, size=100_000)
        counts += np.bincount((votes + rng.normal(0.0, SIGMA, votes.shape)).argmax(axis=1), minlength=CLASSES)
    return counts / trials


def main() -> None:
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    both_worlds(0)  # warm
    began = time.perf_counter()
    for seed in range(5):
        exact = both_worlds(seed)
    alone = (time.perf_counter() - began) / 5
    error = abs(sum(exact[:CLASSES]) - 1.0)
    print(f"exact, {TEACHERS} teachers, {CLASSES} classes, both worlds: {alone:.3f} s; sums to 1 within {error:.0e}")
    began = time.perf_counter()
    simulated(TRIALS, 1)
    million = time.perf_counter() - began
    least = min(both_worlds(1)[:CLASSES])
    needed = 1.0 / (max(least, 0.01) * 1e-8)
    simulation = 2.0 * million * needed / TRIALS
    print(
        f"simulation of one world, {TRIALS:,} trials: {million:.2f} s; a relative error of 1e-4 at an answer of "
        f"probability {max(least, 0.01):.3f} takes {needed:.1e} trials a world, {simulation:,.0f} s: "
        f"{simulation / alone:,.0f} times the work"
    )
    began = time.perf_counter()
    Execution(workers=-1).map(both_worlds, range(QUERIES), title="queries")
    print(f"{QUERIES:,} queries, both worlds, all cores: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
