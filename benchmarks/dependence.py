"""Level and power of the test for rows that hang together, under laws that are fitted, and what the two parts cost.

    python benchmarks/dependence.py [GAMES [KIND ...]]

Every game: 2,000 rows, three numbers with real effects, a whole number, and ids of 50, 200 and 400 levels. For the
level those of 50 and 400 have effects of standard deviation 1 in log-odds, which the law learns. Rows of a cluster
share one draw: all of them, a share of the rows, or all rows of a share of the clusters. Clusters are successive in the
file, or a column of a file in no order, which the law knows or, "apart", does not know.
Printed: the share of games with a hit, and with a p-value of at most .05 anywhere, harmless or not.
"""

import sys
import time

import numpy as np
from scipy import special, stats

from dpaudit.fitted import dependence, designs

ROWS, GAMES = 2000, 200
KINDS = {
    "level, two classes": {"effect": 1.0},
    "level, five classes": {"effect": 1.0, "classes": 5},
    "level, a number": {"effect": 1.0, "classes": None},
    "clusters of 20, in file order": {"cluster": 20},
    "clusters of 20, apart": {"cluster": 20, "place": "apart"},
    "clusters of 20, known": {"cluster": 20, "place": "known"},
    "clusters of 20, 30% of rows, in file order": {"cluster": 20, "rows": 0.3},
    "clusters of 20, 30% of rows, apart": {"cluster": 20, "rows": 0.3, "place": "apart"},
    "clusters of 5, 30% of rows, in file order": {"cluster": 5, "rows": 0.3},
    "clusters of 5, 30% of rows, apart": {"cluster": 5, "rows": 0.3, "place": "apart"},
    "30% of clusters of 5, in file order": {"cluster": 5, "clusters": 0.3},
    "30% of clusters of 5, apart": {"cluster": 5, "clusters": 0.3, "place": "apart"},
    "clusters of 2, in file order": {"cluster": 2},
}


def game(seed, *, cluster=1, rows=1.0, clusters=1.0, place="order", classes=2, effect=0.0):
    """One table, and the test of it."""
    rng = np.random.default_rng([seed, 17])
    x, age = rng.normal(size=(3, ROWS)), rng.integers(18, 78, ROWS)
    fifty, many, junk = (rng.integers(0, levels, ROWS) for levels in (50, 400, 200))
    columns = {"x": x[0], "y": x[1], "z": x[2], "age": age, "fifty": fifty, "many": many, "junk": junk}
    odds = 0.8 * x[0] - 0.6 * x[1] * (x[2] > 0.0) + 0.02 * (age - 48)
    odds += effect * (rng.normal(size=50)[fifty] + rng.normal(size=400)[many])
    unit = np.arange(ROWS) // cluster if place == "order" else rng.permutation(ROWS) // cluster
    shared = (rng.random(ROWS) < rows) & (rng.random(ROWS) < clusters)[unit] & (cluster > 1)
    draws = np.where(shared, rng.random(ROWS)[unit], rng.random(ROWS))
    if place != "order":
        columns["unit"] = unit
    if classes is None:
        values = odds + 1.5 * stats.norm.ppf(draws.clip(1e-9, 1.0 - 1e-9))
    else:
        law = special.softmax(odds[:, None] * np.linspace(-0.5, 0.5, classes), axis=1)
        values = np.minimum((law.cumsum(axis=1) < draws[:, None]).sum(axis=1), classes - 1)
    apart = ["unit"] if place == "apart" else []
    residuals, chance = dependence.cross_fitted_residuals(columns, values, classes=classes, apart=apart, seed=seed)
    return dependence.hang_together(residuals, chance, dependence.groupings(columns, seed=seed), seed=seed)


def shares(name, games):
    """Hits of one kind of games."""
    began = time.process_time()
    found = [game(seed, **KINDS[name]) for seed in range(games)]
    hits = np.mean([one.hit for one in found])
    smallest = [min(one.effects, key=lambda effect: effect.p_value) for one in found]
    anywhere = [effect.name for effect in smallest if effect.p_value <= dependence.LEVEL]
    where = {each: anywhere.count(each) for each in sorted(set(anywhere))}
    mean = {
        e.name: round(float(np.mean([one.effects[n].inflation for one in found])), 2)
        for n, e in enumerate(found[0].effects)
    }
    seconds = (time.process_time() - began) / games
    print(f"{name}: hits {hits:.3f}, p <= .05 {len(anywhere) / games:.3f} of {games} games, {seconds:.2f} s a game")
    print(f"    smallest p-value at {where}; mean inflation {mean}", flush=True)


def costs():
    """Processor seconds of the test of a large table, and of learning a hundred classes."""
    rng = np.random.default_rng(0)
    columns = {f"c{n}": rng.integers(0, (7500, 1000, 2000, 500)[n % 4], 20_000) for n in range(36)}
    columns |= {f"x{n}": rng.normal(size=20_000) for n in range(4)}
    began = time.process_time()
    found = dependence.groupings(columns)
    between = time.process_time()
    dependence.hang_together(rng.normal(size=20_000), rng.random(20_000), found, seed=0)
    ended = time.process_time()
    print(f"20,000 rows of 40 columns: groupings {between - began:.1f} s, test {ended - between:.1f} s")
    ids, x = (
        {f"c{n}": rng.integers(0, levels, 10_000) for n, levels in enumerate((30, 100, 400))},
        rng.normal(size=(7, 10_000)),
    )
    odds = 0.8 * sum(rng.normal(size=(400, 100))[each] for each in ids.values()) + 0.7 * x[:3].T @ rng.normal(
        size=(3, 100)
    )
    law = special.softmax(odds, axis=1)
    values = np.minimum((law.cumsum(axis=1) < rng.random(10_000)[:, None]).sum(axis=1), 99)
    table = ids | {f"x{n}": column for n, column in enumerate(x)}
    first, second = (
        {name: column[rows] for name, column in table.items()} for rows in (slice(5000), slice(5000, None))
    )
    began = time.process_time()
    designs.learnt(first, values[:5000], second, classes=100)
    print(f"100 classes, 5,000 rows of 10 columns: {time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    costs()
    for each in sys.argv[2:] or KINDS:
        shares(each, int(sys.argv[1]) if sys.argv[1:] else GAMES)
