"""The stopping rules of the f-DP recursion change nothing but the time."""

import math

import numpy as np
import pytest

from dpaudit import _binomial
from dpaudit.tradeoff import ApproximateDP, Gaussian, Laplace, Mixed, RandomizedResponse


def random_curve(rng):
    theta = float(np.exp(rng.uniform(math.log(0.01), math.log(8))))
    curve = [
        Gaussian(theta),
        ApproximateDP(theta, float(10 ** rng.uniform(-9, -1))),
        ApproximateDP(theta),
        Laplace(theta),
        RandomizedResponse(theta, int(rng.integers(2, 12))),
    ][rng.integers(5)]
    return Mixed(curve, float(10 ** rng.uniform(-6, -2))) if rng.random() < 0.3 else curve


# theory:one-run#early-stopping
def test_same_answer_as_the_full_recursion_in_random_cases():
    """theory:one-run#early-stopping: no disagreement; half of the cases lie at the decision boundary of the number of
    right guesses."""
    rng = np.random.default_rng(4)
    decided = {True: 0, False: 0}
    for case in range(1500):
        curve = random_curve(rng)
        guesses = int(np.exp(rng.uniform(0, math.log(600))))
        canaries = guesses if rng.random() < 0.3 else int(guesses * np.exp(rng.uniform(0, math.log(1000))))
        level = float(10 ** rng.uniform(-6, -0.5))
        correct = int(rng.integers(0, guesses + 1))
        if case % 2:  # the smallest number that rejects, give or take three
            low, high = 0, guesses + 1
            while high - low > 1:
                middle = (low + high) // 2
                hit = _binomial.recursion_rejects(
                    curve.g, canaries=canaries, guesses=guesses, correct=middle, level=level
                )
                low, high = (low, middle) if hit else (middle, high)
            correct = int(np.clip(high + rng.integers(-3, 4), 0, guesses))
        same = {"canaries": canaries, "guesses": guesses, "correct": correct, "level": level}
        quick = _binomial.recursion_rejects(curve.g, **same)
        assert quick == _binomial.recursion_rejects(curve.g, **same, early=False), (curve, same)
        decided[quick] += 1
    assert min(decided.values()) > 200


def test_pure_dp_with_all_right_is_the_exact_power():
    """theory:errata#000-2: for pure DP and c = c' the p-value is p_eps^c'."""
    for epsilon, guesses in ((1.0, 10), (2.0, 40)):
        p = 1 / (1 + math.exp(-epsilon))
        found = _binomial.recursion_p_value(
            ApproximateDP(epsilon).g, canaries=guesses, guesses=guesses, correct=guesses
        )
        assert found == pytest.approx(p**guesses, rel=1e-5)


def test_golden_of_theory_2_5():
    """Recursion .0235 against the binomial .0204 at c' = 1000, c = 760, eps = 1."""
    found = _binomial.recursion_p_value(ApproximateDP(1.0).g, canaries=1000, guesses=1000, correct=760)
    assert found == pytest.approx(0.0235, abs=1e-4)


def test_p_value_puts_back_and_is_monotone():
    g, same = Gaussian(1.0).g, {"canaries": 1000, "guesses": 200}
    values = [_binomial.recursion_p_value(g, **same, correct=c) for c in range(150, 200, 5)]
    assert np.all(np.diff(values) <= 0)
    p = _binomial.recursion_p_value(g, **same, correct=180)
    assert _binomial.recursion_rejects(g, **same, correct=180, level=p)
    assert not _binomial.recursion_rejects(g, **same, correct=180, level=p * (1 - 1e-5))
    assert _binomial.recursion_p_value(g, **same, correct=0) == 1.0


def test_few_steps_suffice():
    """A decision at a hundred thousand guesses takes a few steps, not the tens of thousands of the recursion."""
    calls = 0

    def g(r):
        nonlocal calls
        calls += 1
        return Gaussian(0.2).g(r)

    _binomial.recursion_rejects(g, canaries=100_000, guesses=100_000, correct=60_000, level=0.05)
    assert calls < 600


def test_p_value_is_the_rejecting_end():
    for curve, counts in ((Gaussian(1.0), (1000, 200, 175)), (Laplace(1.0), (300, 100, 85))):
        of = dict(zip(("canaries", "guesses", "correct"), counts, strict=True))
        found = _binomial.recursion_p_value(curve.g, **of)
        assert 1e-6 < found < 1.0
        assert _binomial.recursion_rejects(curve.g, **of, level=found)
        assert not _binomial.recursion_rejects(curve.g, **of, level=found * (1 - 1e-6))
