"""Guesses at values for the tests of their bounds, and naive twins of both tests: written from theory:placebo."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy import special

from dpaudit import MatchedScores
from dpaudit.evidence.matched import EDGES

ALPHA = 0.05
FORMS = ("matched", "proxy", "either")


def one_cell(right, rows, right0, placebo, *, chance=0.5, **more):
    """So many right of so many, all as likely and as confident."""
    marks = [n < right for n in range(rows)] + [n < right0 for n in range(placebo)]
    size = rows + placebo
    values = {"scores": np.ones(size), "chance": np.full(size, chance), "relation": "label"}
    return MatchedScores(right=marks, audited=np.arange(size) < rows, **({"values": 2} | values | more))


def guesses(seed, rows=400, placebo=300, *, leak=1.0, slope=1.0, own=True, **more):
    """Many cells, no ties. Placebo rows are right as `chance`; where `slope` < 0 the surest ones the least."""
    rng = np.random.default_rng(seed)
    extra = 0 if own else placebo // 3
    size = rows + placebo + extra
    chance = rng.choice([0.01, 0.02, 0.2, 0.4, 0.5, 0.75, 0.99], size, p=[0.05, 0.05, 0.2, 0.2, 0.3, 0.15, 0.05])
    scores = rng.normal(size=size) + chance
    scores[rows + placebo :] = np.abs(scores[rows + placebo :])
    audited = np.arange(size) < rows
    odds = special.logit(chance) + np.where(audited, leak, slope * (scores - 0.5))
    return MatchedScores(
        values=2,
        scores=scores,
        chance=chance,
        right=rng.random(size) < special.expit(odds),
        audited=audited,
        own=np.arange(size) < rows + placebo,
        relation="label",
        **more,
    )


def every(found, order):
    """The same evidence, its rows in another order."""
    return replace(found, **{name: getattr(found, name)[order] for name in MatchedScores.arrays})


# ---------------------------------------------------------------------------------------------------------- naive twins


def cell(chance):
    """An edge belongs to the cell below."""
    return sum(chance > edge for edge in EDGES)


def sums_of(rates):
    """The law of a sum of independent Bernoulli(rates)."""
    law = np.ones(1)
    for rate in rates:
        law = np.convolve(law, [1 - rate, rate])
    return law


def naive_p_value(cells, epsilon, forgiven=0):
    """The conditional test of (C, r, C0, r0) by enumeration of every X_g."""
    law, seen = {0: 1.0}, 0
    for right, size, right0, size0 in cells:
        if size == 0 or size0 == 0:
            continue
        both, seen = right + right0, seen + right
        weights = {
            x: math.comb(size, x) * math.comb(size0, both - x) * math.exp(epsilon * x)
            for x in range(size + 1)
            if 0 <= both - x <= size0
        }
        total, longer = sum(weights.values()), {}
        for (before, p), (x, weight) in itertools.product(law.items(), weights.items()):
            longer[before + x] = longer.get(before + x, 0.0) + p * weight / total
        law = longer
    if seen - forgiven <= 0:
        return 1.0
    return sum(p for x, p in law.items() if x >= seen - forgiven)


def naive_beyond(rows, placebo, taken, beta):
    """The largest q such that fewer than q placebo rows precede the last of `taken` audited ones with P <= beta.

    Every order of both is as likely: of all ways to place the placebo rows, those with j of them before the audited row
    of that number, counted in whole numbers.
    """
    if taken == 0:
        return 0
    fewer, orders = Fraction(0), math.comb(rows + placebo, placebo)
    for q in range(placebo):
        fewer += Fraction(math.comb(taken - 1 + q, q) * math.comb(rows - taken + placebo - q, placebo - q), orders)
        if fewer > Fraction(beta):
            return q
    return placebo


def naive_shares(found, *, alpha=ALPHA):
    """How many placebo guesses are matched, at each rank (first index) in each cell, row by row."""
    rows = list(zip(*(getattr(found, name).tolist() for name in MatchedScores.arrays), strict=True))
    audited = sorted((row for row in rows if row[3]), reverse=True)
    m, m0 = len(audited), sum(not row[3] and row[4] for row in rows)
    ranks = [m]
    while ranks[-1] // 4 >= 20:
        ranks.append(ranks[-1] // 4)
    beta = 0.1 * alpha / (12 * max(1, len(ranks) - 1))
    shares = []
    for rank in ranks:
        line = []
        for g in range(12):
            m_g, r_g = (sum(cell(row[1]) == g for row in top) for top in (audited, audited[:rank]))
            m0_g = sum(not row[3] and row[4] and cell(row[1]) == g for row in rows)  # own guesses alone
            if rank == m:
                line.append(min(m0_g, math.ceil(Fraction(m_g * m0, m))))
            else:
                line.append(naive_beyond(m_g, m0_g, r_g, beta))
        shares.append(line)
    return ranks, shares


def naive_tests(found, epsilon, *, alpha=ALPHA, forgiven=0):
    """p-values at each rank (first index) with the placebo share of each rank (second), row by row; no ties."""
    rows = list(zip(*(getattr(found, name).tolist() for name in MatchedScores.arrays), strict=True))
    audited = sorted((row for row in rows if row[3]), reverse=True)
    cells = [[row for row in sorted(rows, reverse=True) if not row[3] and cell(row[1]) == g] for g in range(12)]
    ranks, shares = naive_shares(found, alpha=alpha)
    tests = []
    for rank in ranks:
        groups = [[row for row in audited[:rank] if cell(row[1]) == g] for g in range(12)]
        tests.append(
            [
                naive_p_value(
                    [
                        (sum(row[2] for row in group), len(group), sum(row[2] for row in placebo[:count]), count)
                        for group, placebo, count in zip(groups, cells, share, strict=True)
                    ],
                    epsilon,
                    forgiven,
                )
                for share in shares
            ]
        )
    return tests
