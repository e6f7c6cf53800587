"""Exact output distributions against enumeration, quadrature and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import dpaudit as da
from dpaudit import mechanisms


# theory:private-prediction#fixed-votes
def test_golden_vector_of_theory_6_1():
    found = mechanisms.noisy_argmax_probabilities([14, 12, 10, 8, 6], sigma=2.0)
    np.testing.assert_allclose(found, [0.725073, 0.222156, 0.046394, 0.005950, 0.000428], atol=5e-7)
    assert abs(found.sum() - 1) < 1e-12


def test_one_histogram_against_quadrature():
    votes, sigma = np.array([3.0, 5.0, 1.0]), 1.7
    found = mechanisms.noisy_argmax_probabilities(votes, sigma=sigma)
    for c in range(3):
        others = np.delete(votes, c)

        def density(x, c=c, others=others):
            return stats.norm.pdf(x, votes[c], sigma) * np.prod(stats.norm.cdf(x, others, sigma))

        assert found[c] == pytest.approx(integrate.quad(density, -20, 30)[0], rel=1e-8)


def enumerated(distribution, teachers, sigma, special=None):
    total = np.zeros(len(distribution))
    free = teachers - (special is not None)
    for counts in itertools.product(range(free + 1), repeat=len(distribution)):
        if sum(counts) != free:
            continue
        weight = math.factorial(free) * np.prod(
            [p**h / math.factorial(h) for p, h in zip(distribution, counts, strict=True)]
        )
        for j, extra in enumerate(special if special is not None else [1.0]):
            votes = np.array(counts, dtype=float)
            if special is not None:
                votes[j] += 1
            total += weight * extra * mechanisms.noisy_argmax_probabilities(votes, sigma=sigma)
    return total


@pytest.mark.parametrize("special", [None, [0.1, 0.1, 0.3, 0.5], [0.0, 0.0, 0.0, 1.0]])
# theory:private-prediction#multinomial-votes
def test_multinomial_votes_against_enumeration(special):
    distribution = [0.4, 0.3, 0.2, 0.1]
    found = mechanisms.multinomial_argmax_probabilities(distribution, teachers=6, sigma=1.3, special=special)
    np.testing.assert_allclose(found, enumerated(distribution, 6, 1.3, special), rtol=1e-12)


@pytest.mark.parametrize(("teachers", "sigma"), [(250, 40.0), (250, 20.0), (200, 25.0), (50, 1.0), (1, 3.0)])
def test_laws_sum_to_one(teachers, sigma):
    distribution = np.random.default_rng(0).dirichlet(np.ones(10))
    odd = np.eye(10)[9]
    for special in (None, odd):
        found = mechanisms.multinomial_argmax_probabilities(
            distribution, teachers=teachers, sigma=sigma, special=special
        )
        assert abs(found.sum() - 1) < 1e-12
        assert found.min() > 0


def test_multinomial_votes_against_simulation(rng):
    distribution, teachers, sigma, trials = np.array([0.5, 0.3, 0.2]), 40, 6.0, 200_000
    votes = rng.multinomial(teachers - 1, distribution, size=trials) + rng.multinomial(1, [0.0, 0.0, 1.0], size=trials)
    winners = np.argmax(votes + rng.normal(scale=sigma, size=votes.shape), axis=1)
    exact = mechanisms.multinomial_argmax_probabilities(
        distribution, teachers=teachers, sigma=sigma, special=[0, 0, 1.0]
    )
    assert stats.chisquare(np.bincount(winners, minlength=3), exact * trials).pvalue > 1e-4


def test_data_processing():
    distribution, odd = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    plain = mechanisms.multinomial_argmax_probabilities(distribution, teachers=20, sigma=2.0)
    moved = mechanisms.multinomial_argmax_probabilities(distribution, teachers=20, sigma=2.0, special=odd)
    seen = da.renyi_divergence(moved / moved.sum(), plain / plain.sum(), orders=[2.0])
    assert 0 < seen < da.renyi_divergence(odd, distribution, orders=[2.0])


def test_k_nearest_inclusion(rng):
    rank, k, rate = 9, 3, 0.25
    drawn = rng.random((200_000, rank)) < rate
    chosen = drawn[:, -1] & (drawn[:, :-1].sum(axis=1) <= k - 1)
    found = mechanisms.knn_inclusion_probability(rank=rank, neighbors=k, sampling_rate=rate)
    assert found == pytest.approx(chosen.mean(), abs=4 * math.sqrt(found / 200_000))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: mechanisms.noisy_argmax_probabilities([1.0], sigma=1.0), "`votes` must be finite counts"),
        (lambda: mechanisms.noisy_argmax_probabilities([1.0, np.nan], sigma=1.0), "`votes` must be finite"),
        (lambda: mechanisms.noisy_argmax_probabilities([1.0, 2.0], sigma=0.0), "`sigma` must be at least"),
        (lambda: mechanisms.multinomial_argmax_probabilities([0.5, 0.6], teachers=3, sigma=1.0), "sum to 1"),
        (
            lambda: mechanisms.multinomial_argmax_probabilities([0.5, 0.5], teachers=90, sigma=0.01),
            "`sigma` must be at",
        ),
        (lambda: mechanisms.multinomial_argmax_probabilities([0.5, 0.5], teachers=0, sigma=1.0), "`teachers` must be"),
        (
            lambda: mechanisms.multinomial_argmax_probabilities([0.5, 0.5], teachers=3, sigma=1.0, special=[1, 0, 0]),
            "same 2 classes",
        ),
        (lambda: mechanisms.knn_inclusion_probability(rank=0, neighbors=1, sampling_rate=0.5), "`rank` must be"),
    ],
)
def test_misuse(call, match):
    with pytest.raises(da.InputError, match=match):
        call()
