"""Votes in, noisy answers out: the second half of algorithm 1 of paper 002, honest or with a bug of the list."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound, relation
from dpaudit.mechanisms.private_prediction import distributions

BUGS = ("one noise for all bins", "noise kept between queries", "threshold without noise")
"""theory:ground-truth#known-bugs, rows 6 and 14: what `NoisyVotes(bug=...)` can do wrong."""
SENSITIVITY = math.sqrt(2.0)
"""A changed vote moves two bins by one each."""
ONE_QUERY = "noisy argmax, data-independent, 1 query"
QUERIES = "noisy argmax, data-independent, {queries} queries"


@dataclass(frozen=True, kw_only=True)
class Confident:
    """Confident-GNMax: answer only where the largest count, plus Gaussian noise of `sigma`, reaches `threshold`."""

    threshold: float
    sigma: float

    def __post_init__(self) -> None:
        check.number("threshold", self.threshold)
        check.number("sigma", self.sigma, low=1e-9)


@dataclass(frozen=True, kw_only=True)
class NoisyVotes:
    """The argmax of noisy counts, one answer a query; no answer is the number of classes.

    A data set here is a matrix of counts, one line a query: what an ensemble says. Neighbouring ones differ in one
    teacher's vote on every query.

    Attributes
    ----------
    sigma, noise
        Standard deviation of Gaussian noise, or the scale of Laplace noise, on every count.
    confident
        Answer only where enough teachers agree.
    cached
        A query that was asked before gets the answer that it got before, and costs nothing; `release` must be told
        which lines are the same query (that must never be read off the votes, which are private).
    bug
        One of `BUGS`, None for the honest mechanism. The claim is the same.
    """

    sigma: float
    classes: int
    noise: str = "gaussian"
    confident: Confident | None = None
    cached: bool = False
    bug: str | None = None
    relation: Relation = Relation.SUBSTITUTE

    def __post_init__(self) -> None:
        check.number("sigma", self.sigma, low=distributions.SMALLEST_SIGMA)
        check.count("classes", self.classes, low=2)
        check.choice("noise", self.noise, distributions.NOISES)
        object.__setattr__(self, "relation", relation(self.relation))
        if self.bug is not None:
            check.choice("bug", self.bug, BUGS)
        if self.confident is not None and not isinstance(self.confident, Confident):
            raise InputError(f"`confident` must be a Confident, got {self.confident!r}.")
        if self.confident is not None and self.noise != "gaussian":
            raise InputError("`confident` is defined for Gaussian noise, got laplace.")
        if self.bug == BUGS[2] and self.confident is None:
            raise InputError("a threshold without noise needs `confident`, got none.")

    def release(self, dataset: Any, seed: int, queries: Any = None) -> NDArray[np.int64]:
        """One answer a line of counts; `queries` names the query of each line, where answers are kept."""
        counts = self._counts(dataset)
        found = self._drawn(counts, np.random.default_rng(seed))
        if not self.cached:
            return found
        if queries is None or len(queries) != len(counts):
            raise InputError(
                f"`queries` must name the query of each of the {len(counts)} lines, where answers are kept."
            )
        _, first, again = np.unique(np.asarray(queries), return_index=True, return_inverse=True)
        return found[first[again.ravel()]]

    def _drawn(self, counts: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
        shape = {BUGS[0]: (len(counts), 1), BUGS[1]: (1, self.classes)}.get(self.bug or "", counts.shape)
        draw = rng.normal if self.noise == "gaussian" else rng.laplace
        found = np.argmax(counts + draw(0.0, self.sigma, shape), axis=1)
        if self.confident is None:
            return found.astype(np.int64)
        deviation = 0.0 if self.bug == BUGS[2] else self.confident.sigma
        passed = counts.max(axis=1) + rng.normal(0.0, 1.0, len(counts)) * deviation >= self.confident.threshold
        return np.where(passed, found, self.classes).astype(np.int64)

    def _counts(self, dataset: Any) -> NDArray[np.float64]:
        try:
            counts = np.asarray(dataset, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"votes must be lines of {self.classes} counts, got {str(dataset)[:60]}.") from None
        if counts.ndim != 2 or counts.shape[1] != self.classes or not np.isfinite(counts).all() or not counts.size:
            raise InputError(f"votes must be lines of {self.classes} counts, got shape {counts.shape}.")
        return counts

    def distribution(self, votes: Any) -> NDArray[np.float64]:
        """The exact distribution of the honest answer to one query; with `confident` its last entry is no answer."""
        if self.confident is None:
            return distributions.noisy_argmax_probabilities(votes, sigma=self.sigma, noise=self.noise)
        return distributions.confident_argmax_probabilities(
            votes, sigma=self.sigma, threshold=self.confident.threshold, threshold_sigma=self.confident.sigma
        )

    def claim(self, delta: float, queries: int = 1) -> UpperBound:
        """What so many different queries cost, whatever the votes.

        Gaussian: every answer is sqrt(2) / sigma Gaussian-DP, and 1 / sigma of the threshold more. Laplace: 2 / scale.
        """
        count = check.count("queries", queries, low=1)
        if self.noise == "laplace":
            epsilon = 2.0 * count / self.sigma
            return UpperBound(
                epsilon=epsilon,
                delta=check.delta(delta),
                relation=self.relation,
                method="noisy argmax, Laplace noise",
                terms={"epsilon": epsilon},
            )
        square = SENSITIVITY**2 / self.sigma**2
        if self.confident is not None:
            square += 1.0 / self.confident.sigma**2
        bound = accounting.gaussian(mu=math.sqrt(count * square), delta=delta, relation=self.relation)
        return replace(bound, method=ONE_QUERY if count == 1 else filled(QUERIES, {"queries": count}))
