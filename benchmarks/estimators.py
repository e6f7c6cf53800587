"""Speed of the estimators, as ratios to their naive twins in the same run, beside a fixed reference loop.

    python benchmarks/estimators.py

Absolute seconds depend on the machine: compare them with the reference loop that is printed first.
"""

import math
import subprocess
import sys
import time
import tracemalloc

import numpy as np

import dpaudit as da
from dpaudit import _binomial, estimators, mechanisms, tradeoff
from dpaudit.estimators import canaries, runs
from dpaudit.estimators.thresholds import EProcess
from dpaudit.testing import ground_truth


def reference_loop() -> float:
    """A fixed piece of pure Python."""
    total = 0.0
    for i in range(1, 1_000_001):
        total += math.sqrt(i) % 1.0
    return total


def seconds(call, repeats: int = 3) -> float:
    """The best of a few, with the caches of inversions emptied before each."""
    best = math.inf
    for _ in range(repeats):
        for cached in (canaries.invert_recursion, canaries._path_ceiling, canaries._wealth_ceiling, runs._perfect):
            cached.cache_clear()
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def megabytes(call) -> float:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def import_seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(5)
    )


def show(what: str, spent: float, note: str = "") -> None:
    print(f"{what:<64} {1e3 * spent:10.2f} ms   {note}")


def stopping_rules() -> None:
    print("\nf-DP bound from counts, m = 100,000 canaries, all guessed, 60 % right: stopping rules on and off")
    families = {
        "Gaussian": tradeoff.GAUSSIAN,
        "Laplace": tradeoff.LAPLACE,
        "10-ary randomised response": tradeoff.randomized_response(10),
        "Gaussian, 1,000 guesses of 100,000": tradeoff.GAUSSIAN,
    }
    for name, family in families.items():
        guesses = 1000 if "1,000" in name else 100_000
        case = (family, 100_000, guesses, 6 * guesses // 10, 0.05, 0.0)
        fast, slow = (
            seconds(lambda c=case: canaries.invert_recursion(*c)),
            seconds(lambda c=case: canaries.invert_recursion(*c, False), 1),
        )
        assert canaries.invert_recursion(*case) == canaries.invert_recursion(*case, False)
        show(name, fast, f"{slow / fast:8.0f} times faster than the full recursion ({1e3 * slow:.0f} ms)")


def million_canaries() -> None:
    rng = np.random.default_rng(0)
    included = rng.random(1_000_000) < 0.5
    scores = rng.normal(size=1_000_000) + included
    evidence = da.CanaryScores(scores=scores, included=included, relation="add-remove")
    print("\none run, m = 1,000,000 canaries")
    show(
        "one_run_mu, from counts", seconds(lambda: estimators.one_run_mu(canaries=10**6, guesses=10**5, correct=83_000))
    )
    show(
        "mu_from_canaries, from scores",
        seconds(lambda: estimators.mu_from_canaries(evidence)),
        f"{megabytes(lambda: estimators.mu_from_canaries(evidence)):.0f} MB at the peak",
    )
    path = seconds(lambda: estimators.epsilon_from_canaries(evidence, delta=0.0))
    show("epsilon_from_canaries, GuessPath", path)
    show(
        "epsilon_from_canaries, EProcess",
        seconds(lambda: estimators.epsilon_from_canaries(evidence, delta=0.0, guesses=EProcess())),
    )


def many_runs() -> None:
    rng = np.random.default_rng(0)
    evidence = da.RunScores(present=rng.normal(1, 1, 100_000), absent=rng.normal(0, 1, 100_000), relation="add-remove")
    print("\nmany runs, 100,000 scores a side")
    show("epsilon_from_runs, RankGrid", seconds(lambda: estimators.epsilon_from_runs(evidence, delta=1e-5)))
    show("mu_from_runs, RankGrid", seconds(lambda: estimators.mu_from_runs(evidence)))


def part_two() -> None:
    rng = np.random.default_rng(0)
    distribution, odd = rng.dirichlet(np.ones(10)), np.eye(10)[9]
    print("\ngiven members, generated pairs, noisy votes")
    argmax = mechanisms.multinomial_argmax_probabilities
    show("noisy argmax of 250 teachers, 10 classes", seconds(lambda: argmax(distribution, teachers=250, sigma=40.0)))
    different = seconds(lambda: argmax(distribution, teachers=250, sigma=40.0, special=odd))
    show("the same with one different teacher", different, "paper 002 simulates 1e8 trials")
    pairs = ground_truth.GeneratedPairs(2.0, 0.0, 20_000).sample(rng)
    show("panoramia, exact path over 20,000 items", seconds(lambda: estimators.panoramia(pairs)))
    rates = 0.3 + 0.6 * rng.random(20_000)
    fast = seconds(lambda: _binomial.distribution(rates).tail(12_500))
    slow = seconds(lambda: plain_convolution(rates)[12_500:].sum(), 1)
    show("Poisson-binomial tail of 20,000 guesses", fast, f"{slow / fast:8.0f} times faster than one coin at a time")


def plain_convolution(rates: np.ndarray) -> np.ndarray:
    distribution = np.ones(1)
    for rate in rates:
        distribution = np.convolve(distribution, [1.0 - rate, rate])
    return distribution


def main() -> None:
    show("reference loop, a million square roots in pure Python", seconds(reference_loop))
    plain, ours = import_seconds("import numpy"), import_seconds("import dpaudit")
    show("import dpaudit", ours, f"import numpy alone takes {1e3 * plain:.2f} ms")
    stopping_rules()
    million_canaries()
    many_runs()
    part_two()


if __name__ == "__main__":
    main()
