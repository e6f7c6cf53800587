"""Labels as they are released, each mechanism with its exact distribution: what a learner sees instead of the truth.

The prior of `PriorResponse` must not come from the labels that are released with it, unless what it cost is paid for:
`OneStage` does that. Features, other data, and an earlier stage on other rows cost nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound
from dpaudit.counterfactuals import Categorical

CELLS = 1024.0
"""Cells of the noise's grid to one scale of it, at least where a cell may be smaller than 1."""
LARGEST_EPSILON = 30.0


def grid_laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Laplace noise on a grid of which 1 is a multiple: P(k cells) falls by e^(-cell / scale) with every cell.

    Numbers of a continuous Laplace distribution, rounded or not, tell what was added to them: in its tails not every
    float can come out, so that often only one of v and v - 1 can (theory:ground-truth#known-bugs, row 17; epsilon 0.1
    was refuted by 3 million such labels, 17 right guesses of 17). Here a magnitude is a number of whole blocks of
    cells, geometric, and a place within the block, so every value that has a probability above 2^-50 can come out, and
    its probability is right.
    """
    cell = min(1.0, 2.0 ** math.floor(math.log2(scale / CELLS)))
    step = cell / scale
    block = max(1, round(1.0 / step))
    within = np.cumsum(np.exp(-step * np.arange(block)))
    size = math.prod(shape)
    blocks = rng.geometric(-math.expm1(-step * block), size) - 1
    places = np.searchsorted(within, rng.random(size) * within[-1], side="right")
    magnitude = blocks * block + np.minimum(places, block - 1)
    negative = rng.random(size) < 0.5
    again = negative & (magnitude == 0)  # 0 has one sign only: half of it is drawn anew
    if again.any():
        redrawn = grid_laplace(rng, scale, (int(again.sum()),)) / cell
        signed = np.where(negative, -magnitude, magnitude).astype(np.float64)
        signed[again] = redrawn
        return (signed * cell).reshape(shape)
    return (np.where(negative, -magnitude, magnitude) * cell).reshape(shape)


@dataclass(frozen=True, kw_only=True)
class PriorResponse:
    """RRWithPrior of Ghazi et al. (2021): randomised response among the k labels that the row's prior thinks likeliest.

    k maximises the probability of telling the truth, e^epsilon / (e^epsilon + k - 1) times the prior mass of the k
    labels. A label outside is released as one of the k, uniformly. `noise_scale` below 1 is a broken twin: it releases
    with epsilon / noise_scale and claims epsilon.
    """

    epsilon: float
    prior: Categorical
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=0.0, high=LARGEST_EPSILON)
        check.number("noise_scale", self.noise_scale, low=1e-6, high=1.0)

    @property
    def _spent(self) -> float:
        return self.epsilon / self.noise_scale

    @classmethod
    def uniform(cls, *, epsilon: float, classes: int, rows: int, noise_scale: float = 1.0) -> PriorResponse:
        """Plain randomised response: no label is likelier than another, so all of them are kept."""
        return cls(epsilon=epsilon, prior=Categorical(np.full((rows, classes), 1.0 / classes)), noise_scale=noise_scale)

    def kept(self) -> NDArray[np.int64]:
        """How many labels each row's release chooses among."""
        descending = -np.sort(-np.asarray(self.prior.probabilities, dtype=np.float64), axis=1)
        sizes = np.arange(1, self.prior.classes + 1)
        truth = 1.0 / (1.0 + (sizes - 1) * math.exp(-self._spent))
        return 1 + np.argmax(truth * np.cumsum(descending, axis=1), axis=1)

    def distribution(self, row: int) -> NDArray[np.float64]:
        """P(released given true label) of one row, one line a true label; lines sum to 1."""
        classes, size = self.prior.classes, int(self.kept()[row])
        among = np.argsort(-self.prior.probabilities[row], kind="stable")[:size]
        found = np.zeros((classes, classes))
        found[:, among] = 1.0 / size
        other = math.exp(-self._spent)
        for label in among:
            found[label, among] = other / (1.0 + (size - 1) * other)
            found[label, label] = 1.0 / (1.0 + (size - 1) * other)
        return found

    def release(self, dataset: Any, seed: int) -> NDArray[np.int64]:
        labels, rng = as_labels(dataset, len(self.prior), self.prior.classes), np.random.default_rng(seed)
        order = np.argsort(-self.prior.probabilities, axis=1, kind="stable")
        size = self.kept()
        rank = np.argmax(order == labels[:, None], axis=1)
        other = math.exp(-self._spent)
        inside = rank < size
        lies = (size - 1) * other / (1.0 + (size - 1) * other)
        honest = inside & (rng.random(labels.size) >= lies)  # a float's coarseness makes lies likelier, never rarer
        drawn = np.floor(rng.random(labels.size) * np.where(inside, np.maximum(size - 1, 1), size)).astype(np.int64)
        drawn = np.where(inside & (drawn >= rank) & (size > 1), drawn + 1, drawn)  # one of the others
        chosen = np.where(honest | (inside & (size == 1)), rank, drawn)
        return np.asarray(order[np.arange(labels.size), chosen])

    def claim(self, delta: float) -> UpperBound:
        return pure(self.epsilon, delta, self.relation, "randomised response with a prior")


@dataclass(frozen=True, kw_only=True)
class AdditiveLaplace:
    """ALIBI of Malek et al. (2021): one-hot labels plus Laplace noise of scale 2 / epsilon in every coordinate.

    Replacing a label moves two coordinates by 1, an L1 distance of 2. `posterior` turns the release into weights of the
    labels, by Bayes' rule with a prior that is public. `noise_scale` below 1 is a broken twin.

    The noise is drawn on a grid (`grid_laplace`), because floats of a continuous one tell what was added to them.
    """

    epsilon: float
    classes: int
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        check.number("epsilon", self.epsilon, low=1e-6, high=LARGEST_EPSILON)
        check.count("classes", self.classes, low=2)
        check.number("noise_scale", self.noise_scale, low=1e-6, high=1.0)

    @property
    def scale(self) -> float:
        return 2.0 * self.noise_scale / self.epsilon

    def release(self, dataset: Any, seed: int) -> NDArray[np.float64]:
        labels = as_labels(dataset, len(np.asarray(dataset)), self.classes)
        noise = grid_laplace(np.random.default_rng(seed), self.scale, (labels.size, self.classes))
        noise[np.arange(labels.size), labels] += 1.0
        return noise

    def log_density(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """log of the density of each row's release under each label, up to one constant a row."""
        apart = np.abs(released - 1.0) - np.abs(released)  # what one label's 1 changes in its coordinate
        return -apart / self.scale

    def posterior(self, released: NDArray[np.float64], prior: Categorical) -> Categorical:
        """Weights of the labels given the release."""
        logs = self.log_density(released) + np.log(np.maximum(prior.probabilities, 1e-300))
        raised = np.exp(logs - logs.max(axis=1, keepdims=True))
        return Categorical(raised / raised.sum(axis=1, keepdims=True))

    def claim(self, delta: float) -> UpperBound:
        return pure(self.epsilon, delta, self.relation, "additive Laplace noise on one-hot labels")


def corrected(probabilities: Any, *, epsilon: float, floor: float = 0.01) -> NDArray[np.float64]:
    """What a model of randomised labels says about the true ones: its distribution through the inverse of the noise.

    A label is kept with probability a and becomes each of the k - 1 others with b, so the distribution p of true labels
    is seen as b + (a - b) p. A model of noisy labels is never surer than the noise allows, except for its own errors,
    so the inverse is kept at `floor` at least and scaled to 1.

    >>> seen = 1.0 / (1.0 + np.exp([[-1.0, 1.0]]))  # label 0 for sure, through randomised response of epsilon 1
    >>> corrected(seen, epsilon=1.0).round(3).tolist()
    [[0.99, 0.01]]
    """
    seen = np.asarray(probabilities, dtype=np.float64)
    if seen.ndim != 2 or seen.shape[1] < 2:
        raise InputError(f"`probabilities` must be rows of at least two classes, got shape {seen.shape}.")
    kept = 1.0 / (1.0 + (seen.shape[1] - 1) * math.exp(-check.number("epsilon", epsilon, low=1e-12, infinite=True)))
    if kept == 1.0:
        return seen
    other = (1.0 - kept) / (seen.shape[1] - 1)
    found = np.maximum((seen - other) / (kept - other), check.number("floor", floor, low=1e-12))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def pure(epsilon: float, delta: float, relation: Relation, method: str) -> UpperBound:
    """A pure epsilon, which holds at every delta."""
    return UpperBound(
        epsilon=epsilon, delta=check.delta(delta), relation=relation, method=method, terms={"epsilon": epsilon}
    )


def as_labels(dataset: Any, rows: int, classes: int) -> NDArray[np.int64]:
    """Class numbers, one a row."""
    labels = np.asarray(dataset)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != rows:
        raise InputError(f"labels must be {rows} class numbers, got {labels.dtype} of shape {labels.shape}.")
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise InputError(f"labels must be class numbers 0 to {classes - 1}, got {labels.min()} to {labels.max()}.")
    return labels.astype(np.int64)
