"""Training on private labels: what is released, how a model is learnt from it, and what is promised.

Each is a mechanism: `release((x, y), seed)` returns what was learnt, `claim(delta)` is the promise for replacing one
label. Features are public. An infinite epsilon trains on the labels as they are and promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound
from dpaudit.counterfactuals import Categorical
from dpaudit.execution import distinct_seeds, stream
from dpaudit.mechanisms.label_dp.learners import Learner, Model, one_hot
from dpaudit.mechanisms.label_dp.priors import Prior, possible
from dpaudit.mechanisms.label_dp.releases import (
    LARGEST_EPSILON,
    AdditiveLaplace,
    PriorResponse,
    as_labels,
    corrected,
    pure,
)

Labels = NDArray[np.int64]
BY_PRIORS = "labels by randomised response with priors, in {stages} parts"
BY_VOTES = "noisy votes of {teachers} teachers on {queries} rows"


def checked_dataset(dataset: Any, classes: int) -> tuple[Any, Labels]:
    """Features with a `shape`, finite where they are numbers, and as many class numbers."""
    try:
        x, y = dataset
    except (TypeError, ValueError):
        raise InputError("a data set must be a pair of features and labels (x, y).") from None
    if not hasattr(x, "shape") or not x.shape or not x.shape[0]:
        raise InputError(f"features must be an array with at least one row, got {type(x).__name__}.")
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all():
        raise InputError("features must be finite.", "fill gaps, or add a column that says where they are.")
    return x, as_labels(y, x.shape[0], classes)


def _check_fields(mechanism: Any, least: float = 1e-6) -> None:
    """What all mechanisms here have."""
    epsilon = check.number("epsilon", mechanism.epsilon, low=least, infinite=True)
    if LARGEST_EPSILON < epsilon < math.inf:
        raise InputError(
            f"`epsilon` must be at most {LARGEST_EPSILON:g}, or infinite for labels as they are, got {epsilon:g}."
        )
    check.count("classes", mechanism.classes, low=2)
    check.number("noise_scale", mechanism.noise_scale, low=1e-6, high=1.0)


def _one_seed(seed: int, purpose: str) -> int:
    """Learners draw from a seed of their own: one that was the noise's could undo it."""
    return distinct_seeds(seed, purpose, 1)[0]


def _refuse_infinite(epsilon: float) -> None:
    if math.isinf(epsilon):
        raise InputError("an infinite epsilon promises nothing.", "audit it without a claim.")


def _promise(epsilon: float, delta: float, method: str) -> UpperBound:
    _refuse_infinite(epsilon)
    return pure(epsilon, delta, Relation.LABEL, method)


# --------------------------------------------------------------------------------------------------------------- LP-1ST


@dataclass(frozen=True, kw_only=True)
class OneStage:
    """LP-1ST of Ghazi et al. (2021): release every label once, by randomised response within a prior, and learn.

    Attributes
    ----------
    prior
        None is plain randomised response. What the prior spends on the same labels is taken from epsilon.
    correct_noise
        Undo the noise in what was learnt (`releases.corrected`); without a prior only.
    noise_scale
        Below 1 a broken twin: labels are released with what the prior left of epsilon, divided by it; the claim, the
        prior, and what `correct_noise` undoes stay those of epsilon.
    """

    epsilon: float
    classes: int
    learner: Learner
    prior: Prior | None = None
    correct_noise: bool = False
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        if self.prior is not None and self.correct_noise:
            raise InputError("`correct_noise` undoes plain randomised response; leave `prior` out, got both.")
        if self.prior is not None and not 0.0 <= self.prior.epsilon < self.epsilon:
            raise InputError(
                f"`epsilon` must be above what the prior spends ({self.prior.epsilon:g}), got {self.epsilon:g}."
            )

    def labels(self, x: Any, y: Labels, seed: int) -> Labels:
        """The labels as released."""
        if math.isinf(self.epsilon):
            return y
        if self.prior is None:
            response = PriorResponse.uniform(
                epsilon=self.epsilon, classes=self.classes, rows=y.size, noise_scale=self.noise_scale
            )
        else:
            distribution = self.prior.of(x, y, self.classes, seed)
            left = self.epsilon - self.prior.epsilon
            response = PriorResponse(epsilon=left, prior=distribution, noise_scale=self.noise_scale)
        return response.release(y, _one_seed(seed, "noise of labels"))

    def release(self, dataset: Any, seed: int) -> Model:
        x, y = checked_dataset(dataset, self.classes)
        labels = one_hot(self.labels(x, y, seed), self.classes)
        learnt = self.learner.fit(x, labels, seed=_one_seed(seed, "learner"))
        return _Corrected(learnt, self.epsilon) if self.correct_noise else learnt

    def claim(self, delta: float) -> UpperBound:
        return _promise(self.epsilon, delta, "labels by randomised response, released once")


@dataclass(frozen=True, eq=False)
class _Corrected:
    """A model of randomised labels, read as one of true labels."""

    model: Model
    epsilon: float

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        return corrected(self.model.predict_proba(x), epsilon=self.epsilon)


# --------------------------------------------------------------------------------------------------------------- LP-MST


@dataclass(frozen=True, kw_only=True)
class MultiStage:
    """LP-MST of Ghazi et al. (2021), LP-2ST by default: a model of the labels so far is the prior of the next part.

    Rows are dealt into parts at random. A label is released once, and its prior comes from labels of other parts, so
    epsilon is that of one release. The last model learns from all released labels.
    """

    epsilon: float
    classes: int
    learner: Learner
    stages: int = 2
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        check.count("stages", self.stages, low=1)

    def labels(self, x: Any, y: Labels, seed: int) -> Labels:
        """The labels as released, in the order of the rows."""
        if math.isinf(self.epsilon):
            return y
        if self.stages > y.size:
            raise InputError(f"`stages` must be at most the {y.size} rows, got {self.stages}.")
        parts = np.array_split(stream(seed, "stages").permutation(y.size), self.stages)
        noises, learners = (distinct_seeds(seed, f"{what} of stages", self.stages) for what in ("noise", "learner"))
        found = np.zeros_like(y)
        for stage, part in enumerate(parts):
            prior = Categorical(np.full((part.size, self.classes), 1.0 / self.classes))
            if stage:
                before = np.concatenate(parts[:stage])
                model = self.learner.fit(x[before], one_hot(found[before], self.classes), seed=learners[stage])
                prior = possible(model.predict_proba(x[part]))
            response = PriorResponse(epsilon=self.epsilon, prior=prior, noise_scale=self.noise_scale)
            found[part] = response.release(y[part], noises[stage])
        return found

    def release(self, dataset: Any, seed: int) -> Model:
        x, y = checked_dataset(dataset, self.classes)
        labels = one_hot(self.labels(x, y, seed), self.classes)
        return self.learner.fit(x, labels, seed=_one_seed(seed, "learner"))

    def claim(self, delta: float) -> UpperBound:
        return _promise(self.epsilon, delta, filled(BY_PRIORS, {"stages": self.stages}))


# ---------------------------------------------------------------------------------------------------------------- ALIBI


@dataclass(frozen=True, kw_only=True)
class Alibi:
    """ALIBI of Malek et al. (2021): one-hot labels plus Laplace noise, then learning and Bayes' rule in turns.

    The first prior is flat; the next ones are what the model of the round before says of each row. All of that works on
    the noisy labels and costs nothing.
    """

    epsilon: float
    classes: int
    learner: Learner
    rounds: int = 2
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        check.count("rounds", self.rounds, low=1)

    def released(self, y: Labels, seed: int) -> NDArray[np.float64]:
        """The noisy one-hot labels."""
        return self._noise.release(y, _one_seed(seed, "noise of labels"))

    @property
    def _noise(self) -> AdditiveLaplace:
        return AdditiveLaplace(epsilon=self.epsilon, classes=self.classes, noise_scale=self.noise_scale)

    def release(self, dataset: Any, seed: int) -> Model:
        x, y = checked_dataset(dataset, self.classes)
        if math.isinf(self.epsilon):
            return self.learner.fit(x, one_hot(y, self.classes), seed=_one_seed(seed, "learner"))
        noisy = self.released(y, seed)
        prior = Categorical(np.full((y.size, self.classes), 1.0 / self.classes))
        for own in distinct_seeds(seed, "learners of rounds", self.rounds):
            believed = self._noise.posterior(noisy, prior)
            model = self.learner.fit(x, believed.probabilities, seed=own)
            prior = possible(model.predict_proba(x))
        return model

    def claim(self, delta: float) -> UpperBound:
        return _promise(self.epsilon, delta, "additive Laplace noise on one-hot labels")


# ----------------------------------------------------------------------------------------------------------------- PATE


@dataclass(frozen=True, kw_only=True)
class Pate:
    """PATE for labels (Papernot et al. 2017); PATE-FM (Malek et al. 2021) where the learner takes unlabelled rows too.

    Labels are dealt among teachers at random; each teacher learns from its own labels and from all features, and votes
    on the same rows, whose features are public. The classes with the most votes, after Gaussian noise on every count,
    teach the student. One label is in one teacher's hands and moves two counts of each answer by 1, so all answers
    together are sqrt(2 queries) / sigma Gaussian-DP, whatever the votes (`accounting.noisy_argmax`); sigma is the
    least that keeps epsilon at `delta`.

    Attributes
    ----------
    learner, student
        Of the teachers; of the student, None: the same.
    queries
        Rows that the teachers label, drawn from the training rows.
    noise_scale
        Below 1 a broken twin with less noise than is claimed.
    """

    epsilon: float
    classes: int
    learner: Learner
    student: Learner | None = None
    teachers: int = 100
    queries: int = 100
    delta: float = 1e-5
    noise_scale: float = 1.0
    relation: Relation = field(default=Relation.LABEL, init=False)

    def __post_init__(self) -> None:
        _check_fields(self, least=1e-3)
        check.count("teachers", self.teachers, low=1)
        check.count("queries", self.queries, low=1)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on every count, as promised."""
        if math.isinf(self.epsilon):
            return 0.0
        return accounting.votes_noise_for(epsilon=self.epsilon, delta=self.delta, queries=self.queries)

    def votes(self, x: Any, y: Labels, seed: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Counts (queries, classes) of teachers trained here, and the rows that they voted on."""
        if self.teachers > y.size or self.queries > y.size:
            raise InputError(
                f"`teachers` and `queries` must be at most the {y.size} rows, got {self.teachers} and {self.queries}."
            )
        asked = np.sort(stream(seed, "queries").permutation(y.size)[: self.queries])
        counts = np.zeros((self.queries, self.classes), dtype=np.int64)
        for number in range(self.teachers):
            votes = self.teacher(x, y, seed, number).predict_proba(x[asked]).argmax(axis=1)
            counts[np.arange(self.queries), votes] += 1
        return counts, asked

    def part(self, rows: int, seed: int, number: int) -> NDArray[np.intp]:
        """The rows whose labels one teacher sees; parts have no row in common."""
        return np.array_split(stream(seed, "teachers").permutation(rows), self.teachers)[number]

    def teacher(self, x: Any, y: Labels, seed: int, number: int) -> Model:
        """One teacher, trained on its own part of the labels, and on all features if its learner takes them."""
        part, own = self.part(y.size, seed, number), distinct_seeds(seed, "learners of teachers", self.teachers)[number]
        return self.learner.fit(x[part], one_hot(y[part], self.classes), seed=own, unlabelled=x)

    def answers(self, counts: NDArray[Any], seed: int) -> Labels:
        """The noisy argmax of each line of counts: all that leaves the teachers."""
        noise = stream(seed, "votes").normal(size=counts.shape) * (self.sigma * self.noise_scale)
        return np.asarray((counts + noise).argmax(axis=1), dtype=np.int64)

    def student_of(self, x: Any, counts: NDArray[Any], asked: NDArray[np.intp], seed: int) -> Model:
        """What is published: the student of the noisy answers."""
        labels = one_hot(self.answers(counts, seed), self.classes)
        return (self.student or self.learner).fit(x[asked], labels, seed=_one_seed(seed, "student"), unlabelled=x)

    def release(self, dataset: Any, seed: int) -> Model:
        x, y = checked_dataset(dataset, self.classes)
        return self.student_of(x, *self.votes(x, y, seed), seed)

    def claim(self, delta: float) -> UpperBound:
        _refuse_infinite(self.epsilon)
        bound = accounting.noisy_argmax(sigma=self.sigma, queries=self.queries, delta=delta, relation=self.relation)
        return replace(bound, method=filled(BY_VOTES, {"teachers": self.teachers, "queries": self.queries}))
