"""Limits put back into their equations; the path against enumeration."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpaudit import _binomial


@given(st.integers(0, 60), st.integers(1, 60), st.floats(1e-9, 0.5))
# theory:curves#binomial
def test_limits_put_back(successes, trials, alpha):
    successes = min(successes, trials)
    upper = _binomial.upper_limit(successes, trials, alpha)
    lower = _binomial.lower_limit(successes, trials, alpha)
    assert 0 <= lower <= successes / trials <= upper <= 1
    if successes < trials:
        assert stats.binom.cdf(successes, trials, upper) == pytest.approx(alpha, rel=1e-8)
    if successes > 0:
        assert stats.binom.sf(successes - 1, trials, lower) == pytest.approx(alpha, rel=1e-8)


@given(st.integers(0, 40), st.floats(0.01, 0.99), st.floats(1e-8, 1))
def test_critical_value_is_the_smallest(trials, p, level):
    v = _binomial.critical_value(level, trials, p)
    assert _binomial.tail(v, trials, p) <= level
    assert v == 0 or _binomial.tail(v - 1, trials, p) > level


@pytest.mark.parametrize("p", [0.5, 0.73, 0.9])
@pytest.mark.parametrize("critical", [(3, 6, 11), (2, 7, 12), (4, 7, 13), (0, 1, 1)])
def test_crossing_probability_against_enumeration(p, critical):
    ranks = (3, 7, 12)
    exact = 0.0
    for bits in itertools.product((0, 1), repeat=12):
        if any(sum(bits[:n]) >= v for n, v in zip(ranks, critical, strict=True)):
            exact += p ** sum(bits) * (1 - p) ** (12 - sum(bits))
    found = _binomial.crossing_probability(ranks, critical, p)
    assert exact <= found <= exact * (1 + 1e-7)


def test_windows_agree_with_the_full_convolution_and_keep_small_tails(monkeypatch):
    ranks = [50, 400, 3000]
    critical = [_binomial.critical_value(1e-12, n, 0.7) for n in ranks]
    fast = _binomial.crossing_probability(ranks, critical, 0.7)
    monkeypatch.setattr(_binomial, "WINDOW_DEVIATIONS", 1e9)
    full = _binomial.crossing_probability(ranks, critical, 0.7)
    assert fast == pytest.approx(full, rel=1e-6)
    assert 0 < fast < 3.1e-12


def test_fair_coins():
    assert _binomial.two_sided_fair(5, 10) == 1.0
    assert _binomial.two_sided_fair(0, 10) == pytest.approx(2 / 1024)


def test_narrow_windows_never_lose_mass(monkeypatch):
    """Where no count is critical, the result is all that the windows leave out: one minus what a plain walk keeps."""
    deviations, ranks, p = 1.0, (20, 40, 65), 0.6
    monkeypatch.setattr(_binomial, "WINDOW_DEVIATIONS", deviations)

    def window(trials):
        reach = deviations * math.sqrt(trials * p * (1 - p)) + deviations
        return range(max(0, math.floor(trials * p - reach)), min(trials, math.ceil(trials * p + reach)) + 1)

    alive, before = {0: 1.0}, 0
    for rank in ranks:
        distribution, walked = stats.binom(rank - before, p), {}
        for count, step in itertools.product(alive, window(rank - before)):
            if count + step in window(rank):
                walked[count + step] = walked.get(count + step, 0.0) + alive[count] * distribution.pmf(step)
        alive, before = walked, rank
    found = _binomial.crossing_probability(ranks, [rank + 1 for rank in ranks], p)
    assert found == pytest.approx(1.0 - sum(alive.values()), rel=1e-6)
    assert found > 0.1


@pytest.mark.parametrize("errors", [0, 3, 150])
def test_limits_in_closed_form_and_against_the_law(errors):
    upper, lower = _binomial.upper_limit(errors, 200, 0.05), _binomial.lower_limit(200 - errors, 200, 0.05)
    assert stats.binom.cdf(errors, 200, upper) == pytest.approx(0.05, rel=1e-9)
    assert lower == pytest.approx(1.0 - upper, rel=1e-9)
    if errors == 0:
        assert upper == pytest.approx(1.0 - 0.05 ** (1 / 200))
