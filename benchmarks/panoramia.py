"""The joint region of PANORAMIA from 20,000 audited items, and a whole audit of a table with 32,561 rows (Adult).

The exact calibration of a path of guesses is timed beside the plain way: a Clopper-Pearson limit at every recall with a
union bound over all of them. The audit is a generator, a helper, baseline and attack, and the bound, of a forest that
was trained before; it is meant to take less than five minutes on two cores. Adult is needed:
`python -m dpaudit_experiments.data adult`.
"""

import time

import numpy as np
from _reference import reference_loop
from scipy import special, stats

from dpaudit import estimators
from dpaudit.evidence import PairedScores
from dpaudit_experiments.paper_004.tables import FULL, Encoded, forest, game_of, rows_of, table_of

ITEMS, REPEATS, MINUTES = 20_000, 5, 5.0


def leaky_scores(seed: int) -> PairedScores:
    rng = np.random.default_rng(seed)
    included = rng.random(ITEMS) < 0.5
    return PairedScores(
        included=included,
        baseline=0.2 * included + rng.normal(size=ITEMS),
        attack=1.0 * included + rng.normal(size=ITEMS),
    )


def every_recall(scores: np.ndarray, included: np.ndarray, level: float) -> float:
    """The largest limit over all numbers of guesses, each at its part of the level."""
    right = np.cumsum(included[np.argsort(-scores, kind="stable")])
    best = 0.5
    for guesses, found in enumerate(right.tolist(), 1):
        if found:
            best = max(best, stats.beta.ppf(level / right.size, found, guesses - found + 1))
    return float(special.logit(best))


def main() -> None:
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    evidence = leaky_scores(1)
    estimators.panoramia(evidence)
    began = time.perf_counter()
    for _ in range(REPEATS):
        region = estimators.panoramia(evidence)
    ours = (time.perf_counter() - began) / REPEATS
    print(
        f"{ITEMS:,} items, joint region: {1e3 * ours:.0f} ms; c >= {region.divergence:.2f}, sum >= {region.total:.2f}"
    )
    began = time.perf_counter()
    plain = [every_recall(scores, evidence.included, 0.025) for scores in (evidence.baseline, evidence.attack)]
    theirs = time.perf_counter() - began
    print(
        f"every recall with a union bound: {theirs:.1f} s, {theirs / ours:.0f} times as long; "
        f"c >= {plain[0]:.2f}, sum >= {plain[1]:.2f}"
    )
    rows = rows_of(FULL, 1)
    target = forest(rows.members, Encoded.of(rows.public, table_of(FULL.source)), FULL.trees, 1)
    began = time.perf_counter()
    region = estimators.panoramia(game_of(FULL, rows, target).play(seed=1).only)
    took = time.perf_counter() - began
    print(
        f"a whole audit of {len(rows.members):,} members of Adult: {took:.1f} s, {took / 60.0 / MINUTES:.1%} of "
        f"{MINUTES:g} minutes; c >= {region.divergence:.2f}, sum >= {region.total:.2f}"
    )


if __name__ == "__main__":
    main()
