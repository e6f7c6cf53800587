"""Sums of unequal coins against plain convolution and enumeration."""

import itertools

import numpy as np
import pytest

from dpaudit import _binomial


@pytest.mark.parametrize("size", [1, 2, 3, 7, 33, 64, 100, 1000])
def test_law_against_plain_convolution(size):
    rates = np.random.default_rng(size).random(size)
    plain = np.ones(1)
    for rate in rates:
        plain = np.convolve(plain, [1 - rate, rate])
    distribution = _binomial.distribution(rates)
    assert distribution.lost <= 1e-20
    np.testing.assert_allclose(
        distribution.masses,
        plain[distribution.start : distribution.start + distribution.masses.size],
        rtol=1e-9,
        atol=1e-25,
    )
    for count in (0, size // 2, size):
        exact = plain[count:].sum()
        assert exact * (1 - 1e-12) <= distribution.tail(count) <= exact * (1 + 1e-6) + 1e-20


def test_equal_coins_give_the_binomial_path():
    ranks = [5, 20, 90]
    parts = _binomial.blocks(np.full(90, 0.7), ranks)
    correct = [5, 18, 70]
    tails = [_binomial.tail(c, n, 0.7) for n, c in zip(ranks, correct, strict=True)]
    assert _binomial.smallest_tail(parts, correct) == pytest.approx(min(tails), rel=1e-6)
    critical = [_binomial.critical_value(min(tails) * (1 + 1e-9), n, 0.7) for n in ranks]
    expected = _binomial.crossing_probability(ranks, critical, 0.7)
    assert _binomial.crossing(parts, min(tails)) == pytest.approx(expected, rel=1e-6)


def test_crossing_against_enumeration():
    rates = np.array([0.9, 0.3, 0.6, 0.8, 0.5, 0.95, 0.2, 0.7])
    ranks = [2, 5, 8]
    parts = _binomial.blocks(rates, ranks)
    distributions = [_binomial.distribution(rates[:n]) for n in ranks]
    for level in (0.02, 0.2, 0.6):
        exact = 0.0
        for bits in itertools.product((0, 1), repeat=8):
            if any(
                distribution.tail(sum(bits[:n])) <= level for distribution, n in zip(distributions, ranks, strict=True)
            ):
                exact += float(np.prod(np.where(bits, rates, 1 - rates)))
        assert _binomial.crossing(parts, level) == pytest.approx(exact, rel=1e-6)


def test_certain_coins():
    distribution = _binomial.distribution(np.array([1.0, 0.0, 1.0]))
    assert distribution.tail(2) == pytest.approx(1.0)
    assert distribution.tail(3) == pytest.approx(0.0, abs=1e-20)
    assert _binomial.distribution(np.array([])).tail(0) == 1.0


def test_coarse_trimming_never_loses_mass(monkeypatch):
    """What a distribution leaves out of its ends is in every tail: none is too small, even where nothing is left."""
    rates = np.random.default_rng(1).random(100)
    plain = np.ones(1)
    for rate in rates:
        plain = np.convolve(plain, [1 - rate, rate])
    monkeypatch.setattr(_binomial, "TRIM", 1e-3)
    distribution = _binomial.distribution(rates)
    assert distribution.masses.size < 50
    assert 1.0 <= distribution.masses.sum() + distribution.lost <= 1.0 + 1e-4
    for count in range(102):
        assert distribution.tail(count) >= plain[count:].sum() * (1 - 1e-12)


def test_an_outcome_as_extreme_as_the_seen_one_counts():
    """The path that was seen ties with itself: its own probability is in its p-value, to the last digit."""
    rates, ranks, correct = np.array([0.9, 0.3, 0.6, 0.8, 0.5]), [2, 5], [2, 5]
    parts = _binomial.blocks(rates, ranks)
    smallest = _binomial.smallest_tail(parts, correct)
    assert smallest == pytest.approx(np.prod(rates), rel=1e-6)  # all five right, and nothing else is as extreme
    assert _binomial.crossing(parts, smallest) >= np.prod(rates) * (1 - 1e-12)
