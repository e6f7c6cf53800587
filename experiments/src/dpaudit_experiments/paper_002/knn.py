"""Paper 002, figure 5: what Private-kNN leaks to adversaries that ask what they like, and to those that cannot.

Every query has its own distribution of votes. The k nearest rows of a Poisson subsample vote: the row of rank r is
among them with probability nu(r), so the votes' distribution is the labels' share of nu / k, and the last voter is the
row of rank r with probability gamma P(Bin(r - 1, gamma) = k - 1). Votes are taken to be independent given these
distributions (the paper's model, in the coherent form of theory:errata#002-12); numbers are exact under that model, so
they are estimates of what the mechanism leaks. Each answer has a subsample of its own, so answers are independent and
compose; every answer's privacy loss is rounded up by at most 1e-4, that of 1,000 answers by at most 0.1: epsilons below
that are mostly rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.assumptions import Assumption, round_up
from dpaudit.attacks import prediction as adversaries
from dpaudit.bounds import Relation
from dpaudit.execution import Execution, stream
from dpaudit.mechanisms.private_prediction import Leakage, Neighbours, knn_argmax_probabilities
from dpaudit_experiments import data
from dpaudit_experiments.common.figure import Judged, Rows, Sizes, said

DELTA, NEIGHBORS, RATE = 1e-6, 200, 0.2
SIGMAS = {"Fashion-MNIST": 30.0, "film reviews": 20.0}
FARTHEST = 2500
"""Ranks beyond this vote with a probability below 1e-60 at k = 200 and gamma = 0.2."""
NAMES = ("Nat-AdvQ", "Pois-AdvQ")
VOTES = Assumption(
    id="votes-by-shares",
    sentence="the votes of the nearest neighbours are drawn independently by their expected shares",
    answered_by="developer",
)


@lru_cache(maxsize=2)
def rows_of(
    name: str, fetched: bool, queries: int, seed: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Features and labels of the private rows, and of as many natural queries."""
    x: NDArray[Any]
    if not fetched:
        x, y = data.digits()
    elif name == "Fashion-MNIST":
        x, y = data.fashion_mnist_features(), data.fashion_mnist()[1][:40_000]
        (x,) = data.pca(x[:-5000], fitted_on=x[-5000:], columns=64)  # components of rows that are no one's secret
        y = y[:-5000]
    else:
        x, y = data.movie_reviews_embeddings()
    order = stream(seed, f"{name}, queries").permutation(len(y))
    asked, kept = order[:queries], order[queries:]
    return np.asarray(x[kept], np.float64), y[kept], np.asarray(x[asked], np.float64), y[asked]


@dataclass(frozen=True, kw_only=True)
class KnnScale:
    queries: int = 200
    repeats: int = 1000
    neighbors: int = NEIGHBORS
    fetched: bool = True


@dataclass(frozen=True, eq=False)
class Query:
    """The distributions of one natural query's answer: as it is, and with each crafted record."""

    name: str
    scale: KnnScale
    seed: int
    points: NDArray[np.float64] = field(repr=False)
    """Crafted points of Pois-NatQ, one line each."""
    labels: tuple[int, ...]

    def __call__(self, number: int) -> list[float]:
        x, y, asked, truth = rows_of(self.name, self.scale.fetched, self.scale.queries, self.seed)
        classes = int(y.max()) + 1
        plain, last, votes = vote_distributions(x, y, asked[number], classes, self.scale.neighbors)
        how: dict[str, Any] = {"neighbors": self.scale.neighbors, "sigma": SIGMAS[self.name], "last": last}
        second = int(adversaries.runner_up(votes)[0])
        found = [knn_argmax_probabilities(plain, **how)]
        for label in (int(truth[number]), second):  # the query itself is the nearest row there is
            found.append(knn_argmax_probabilities(plain, **how, label=label, inclusion=RATE))
        ranks = adversaries.ranks(self.points, x, asked[number : number + 1])[:, 0]
        shares = adversaries.inclusion(ranks, neighbors=self.scale.neighbors, sampling_rate=RATE)
        for label, share in zip(self.labels, shares, strict=True):
            found.append(knn_argmax_probabilities(plain, **how, label=label, inclusion=float(share)))
        return [float(value) for distribution in found for value in distribution]


def vote_distributions(
    x: NDArray[Any], y: NDArray[Any], query: NDArray[Any], classes: int, neighbors: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The distribution of a vote, of the last vote, and the expected votes, for one query."""
    nearest = np.argsort(np.linalg.norm(x - query, axis=1), kind="stable")[:FARTHEST]
    ranks = np.arange(1, nearest.size + 1)
    included = adversaries.inclusion(ranks, neighbors=neighbors, sampling_rate=RATE)
    logs = (
        special.gammaln(ranks)
        - special.gammaln(neighbors)
        - special.gammaln(np.maximum(ranks - neighbors + 1, 1))
        + neighbors * np.log(RATE)
        + (ranks - neighbors) * np.log1p(-RATE)
    )
    final = np.where(ranks >= neighbors, np.exp(logs), 0.0)
    votes, last = (
        np.bincount(y[nearest], weights=weights, minlength=classes).astype(np.float64) for weights in (included, final)
    )
    return votes / votes.sum(), last / last.sum(), votes


def knn_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """Worst and mean over queries for adversarial ones; the whole sequence for natural ones."""
    sizes: KnnScale = scale.knn
    rows: Rows = []
    for name, sigma in SIGMAS.items():
        x, y, asked, truth = rows_of(name, sizes.fetched, sizes.queries, seed)
        classes = int(y.max()) + 1
        crafted = _crafted(x, y, asked, truth, sizes)
        points, labels = zip(*((one.point, one.label) for one in crafted.values()), strict=True)
        work = Query(name, sizes, seed, np.stack(points), labels)
        lines = execution.map(work, range(sizes.queries), title=f"{name}, distributions")
        distributions = np.array(lines).reshape(sizes.queries, 1 + len(NAMES) + len(crafted), classes)
        promised = Neighbours(classes=classes, neighbors=sizes.neighbors, sampling_rate=RATE).claim(
            sigma=sigma, queries=sizes.repeats, delta=DELTA
        )
        for place, adversary in enumerate((*NAMES, *crafted), 1):
            natural = adversary not in NAMES
            kept = np.arange(sizes.queries) != (crafted[adversary].left_out if natural else -1)
            pair = {"present": distributions[kept, place], "absent": distributions[kept, 0]}
            leak = Leakage(**pair, shared=False, relation=Relation.ADD_REMOVE, assumptions=(VOTES,))
            orders = np.maximum(leak.each([2.0]), leak.each([2.0], backward=True))[:, 0]
            # natural queries are asked once each, repeated to as many answers as the adversarial ones get
            again = max(sizes.repeats // sizes.queries, 1) if natural else sizes.repeats
            if not natural:
                leak = leak.only(int(np.argmax(orders)))
            rows.append(
                {
                    "data": name,
                    "adversary": adversary,
                    "answers": again * len(leak),
                    "expected_votes": crafted[adversary].expected if natural else None,
                    "worst_divergence_2_estimate": float(orders.max()),
                    "mean_divergence_2_estimate": float(orders.mean()),
                    "epsilon_estimate": leak.epsilon(DELTA, repeats=again).epsilon,
                    "promised_epsilon": promised.epsilon,
                }
            )
    return rows


@dataclass(frozen=True, eq=False)
class CraftedPoint:
    """A point of Pois-NatQ, its label, the votes that it expects, and the query that it was made from (-1: none)."""

    point: NDArray[np.float64]
    label: int
    expected: float
    left_out: int = -1


def _crafted(
    x: NDArray[Any], y: NDArray[Any], asked: NDArray[Any], truth: NDArray[Any], sizes: KnnScale
) -> dict[str, CraftedPoint]:
    """The points of the three Pois-NatQ adversaries.

    The label is the second of the votes on the queries that the point reaches, weighed by how often it votes there.
    """
    how: dict[str, Any] = {"neighbors": sizes.neighbors, "sampling_rate": RATE}
    train, most = adversaries.best_candidate(x, x, asked, **how)
    test, some = adversaries.best_candidate(asked, x, asked, **how)
    anywhere, best = adversaries.best_embedding(x, asked, truth, **how)
    classes = int(y.max()) + 1
    votes = np.stack([vote_distributions(x, y, query, classes, sizes.neighbors)[2] for query in asked])
    points = {
        "train point": (x[train], most, -1),
        "test point": (asked[test], some, test),
        "embedding": (anywhere, best, -1),
    }
    found = {}
    for name, (point, expected, own) in points.items():
        reach = adversaries.inclusion(adversaries.ranks(point[None], x, asked)[0], **how)
        label = int(adversaries.runner_up(reach @ votes)[0])
        found[f"Pois-NatQ, {name}"] = CraftedPoint(point, label, expected, own)
    return found


def knn_judged(rows: Rows) -> Judged:
    """Far from the promise; both adversarial queries alike; natural ones far less; an embedding more than a row."""
    parts, good = [], True
    for name in dict.fromkeys(row["data"] for row in rows):
        by = {row["adversary"]: row for row in rows if row["data"] == name}
        natural, poisoned = (by[key]["epsilon_estimate"] for key in NAMES)
        train, test, anywhere = (row["epsilon_estimate"] for key, row in by.items() if key not in NAMES)
        promised = by[NAMES[0]]["promised_epsilon"]
        good &= max(natural, poisoned) <= 0.5 * promised and 0.5 <= natural / max(poisoned, 1e-9) <= 2.0
        good &= max(train, test) <= 0.5 * max(natural, poisoned) and anywhere >= max(train, test)
        parts.append(
            f"{name}: Nat-AdvQ {natural:.3f}, Pois-AdvQ {poisoned:.3f}, Pois-NatQ {train:.3f} (train), {test:.3f} "
            f"(test), {anywhere:.3f} (embedding), of the {round_up(promised)} that are promised"
        )
    why = (
        f"epsilon at delta {DELTA:g} of {rows[0]['answers']:,} answers under the vote model: {'; '.join(parts)} "
        "(far below is taken as half, alike as within a factor of 2)"
    )
    return said(good), why


def knn_sizes(scale: Any) -> Sizes:
    sizes: KnnScale = scale.knn
    return [
        ("image features", "CIFAR-10, Fashion-MNIST by ViT-L/16", "Fashion-MNIST by EfficientNet-Lite0, 64 components"),
        ("sentence embeddings", "SST-2, AG News by RoBERTa-Large", "Rotten Tomatoes by MiniLM"),
        ("k, gamma, sigma", "200, 0.2, 30 and 20", f"{sizes.neighbors}, {RATE:g}, 30 and 20"),
        ("natural queries", "1,000", f"{sizes.queries}, {max(sizes.repeats // sizes.queries, 1)} times each"),
        ("answers", "1,000", f"{sizes.repeats:,}"),
    ]
