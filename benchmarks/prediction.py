"""Exact distributions of noisy votes beside simulation as accurate, and a thousand queries of a trained ensemble.

A simulation needs (1 - p) / (p 1e-8) trials for a relative error of 1e-4 at an answer of probability p. It is timed on
a million trials and scaled: its cost is proportional to the number of trials. How much work that is depends on the
answer, so it is shown for the likeliest one, for the one that the record makes likelier, and for the rarest above 0.01.
"""

import time

import numpy as np
from _reference import reference_loop

from dpaudit.execution import Execution
from dpaudit.mechanisms import multinomial_argmax_probabilities
from dpaudit.mechanisms.label_dp import Logistic
from dpaudit.mechanisms.private_prediction import RandomTeachers
from dpaudit.tradeoff import renyi_divergence
from dpaudit_experiments import data

TEACHERS, CLASSES, SIGMA, TRIALS = 250, 10, 40.0, 1_000_000
QUERIES, TRAININGS = 1000, 3


def both_worlds(distribution: np.ndarray, odd: int) -> tuple[np.ndarray, np.ndarray]:
    """The exact distributions of the answer in both worlds: all vote by `distribution`, or one always for `odd`."""
    plain = multinomial_argmax_probabilities(distribution, teachers=TEACHERS, sigma=SIGMA)
    special = np.eye(CLASSES)[odd]
    return plain, multinomial_argmax_probabilities(distribution, teachers=TEACHERS, sigma=SIGMA, special=special)


def divergence(job: tuple[tuple[float, ...], int]) -> list[float]:
    """What one answer leaks under fitted votes: the exact divergence of order 2, an estimate for that reason."""
    distribution, odd = job
    plain, moved = both_worlds(np.array(distribution), odd)
    return [float(renyi_divergence(moved, plain, orders=2.0)[0])]


def simulated(trials: int, distribution: np.ndarray) -> np.ndarray:
    rng, counts = np.random.default_rng(1), np.zeros(CLASSES)
    for _ in range(trials // 100_000):
        votes = rng.multinomial(TEACHERS, distribution, size=100_000)
        counts += np.bincount((votes + rng.normal(0.0, SIGMA, votes.shape)).argmax(axis=1), minlength=CLASSES)
    return counts / trials


def main() -> None:
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    distribution, odd = np.array([0.45, 0.25, 0.1, 0.05, 0.05, 0.02, 0.02, 0.02, 0.02, 0.02]), 1
    both_worlds(distribution, odd)  # warm
    began = time.perf_counter()
    for _ in range(5):
        plain, moved = both_worlds(distribution, odd)
    alone = (time.perf_counter() - began) / 5
    error = max(abs(each.sum() - 1.0) for each in (plain, moved))
    print(f"exact, {TEACHERS} teachers, {CLASSES} classes, both worlds: {alone:.3f} s; sums to 1 within {error:.0e}")
    began = time.perf_counter()
    simulated(TRIALS, distribution)
    million = time.perf_counter() - began
    print(f"simulation of one world, {TRIALS:,} trials: {million:.2f} s; to a relative error of 1e-4 in both worlds:")
    rare = min(plain[plain >= 0.01])
    for words, p in (("likeliest answer", plain.max()), ("audited answer", plain[odd]), ("rarest above 0.01", rare)):
        needed = (1.0 - p) / (p * 1e-8)
        took = 2.0 * million * needed / TRIALS
        print(f"  {words}, probability {p:.3f}: {needed:.1e} trials, {took:,.0f} s, {took / alone:,.0f} times the work")
    x, y = data.digits()
    began = time.perf_counter()
    voters = RandomTeachers(learner=Logistic(), classes=CLASSES, teachers=TEACHERS)
    asked = x[-QUERIES:]
    votes = sum(voters.votes((x[:-QUERIES], y[:-QUERIES]), asked, seed) for seed in range(TRAININGS))
    trained = time.perf_counter() - began
    second = np.argsort(votes, axis=1)[:, -2]
    jobs = [(tuple(line / line.sum()), int(odd)) for line, odd in zip(votes, second, strict=True)]
    found = Execution(workers=2).map(divergence, jobs, title="queries")
    print(
        f"{QUERIES:,} queries of a PATE ensemble on digits, two workers: {time.perf_counter() - began:.0f} s, of which "
        f"{TRAININGS} trainings {trained:.0f} s; largest divergence of order 2 under the fitted votes "
        f"{max(line[0] for line in found):.2e} (an estimate)"
    )


if __name__ == "__main__":
    main()
