"""Canaries of paper 001: S1 (worst case), S2 (least-updated coordinate), S3 to S5 (records), for any model.

Each comes for add/remove (the record, or nothing) and for substitution (the record, or another in its place). They are
handed to the trainer, which clips, samples, sums and noises them like any other record. What the adversary tries out
beforehand (a dry run, a reference model) is training without noise on the data he knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.execution import one_thread
from dpaudit.mechanisms.dpsgd import (
    DPSGDConfig,
    GradientCanary,
    InputCanary,
    State,
    bound_model,
    log_likelihoods,
    train,
)

Record = tuple[NDArray[np.float32], float]
Array = NDArray[np.float32]
CHECKPOINTS = 10
"""States of the reference model over which its confidence is averaged."""


# ------------------------------------------------------------------------------------------------------ gradient space


def worst_case(config: DPSGDConfig, *, records: int) -> tuple[Array, NDArray[np.int64], GradientCanary]:
    """S1: a data set of zero gradients, and a canary of one coordinate whose gradient has the length of the clip.

    Returns x, y and the canary. Under substitution the other world has the opposite gradient, under add/remove none.
    """
    check.count("records", records, low=1)
    x, y = np.zeros((records - 1, 1), dtype=np.float32), np.zeros(records - 1, dtype=np.int64)
    return x, y, _pair(config, np.full((1, config.classes), config.clip / np.sqrt(config.classes)))


def least_updated(config: DPSGDConfig, x: Any, y: Any, *, seed: int) -> GradientCanary:
    """S2: all of the clip on the coordinate that moves least in a dry run without noise (paper 001, algorithm 2)."""
    travelled = _travelled(config, x, y, seed)
    gradient = np.zeros(travelled.shape, dtype=np.float32)
    gradient[np.unravel_index(int(np.argmin(travelled)), gradient.shape)] = config.clip
    return _pair(config, gradient)


def quiet_coordinates(config: DPSGDConfig, x: Any, y: Any, *, count: int, seed: int) -> NDArray[np.int64]:
    """The `count` coordinates that move least in a dry run without noise, for the canaries of one run."""
    travelled = _travelled(config, x, y, seed).ravel()
    check.count("count", count, low=1, high=travelled.size)
    return np.sort(np.argsort(travelled, kind="stable")[:count])


def _travelled(config: DPSGDConfig, x: Any, y: Any, seed: int) -> Array:
    path = _Path()
    train(config.dry_run(), x, y, models=1, seed=seed, observe=[path], at=range(1, config.steps + 1), width=1)
    return path.total


class _Path:
    """How far each coordinate of the one model has travelled, step by step."""

    def __init__(self) -> None:
        self.total = self.last = np.zeros(0, dtype=np.float32)

    def __call__(self, state: State) -> Array:
        here = state.weights[:, 0, :]
        if state.step == 1:
            self.total, self.last = np.zeros_like(here), state.start[:, 0, :]
        self.total = self.total + np.abs(here - self.last)
        self.last = here.copy()
        return np.zeros(1, dtype=np.float32)


def _pair(config: DPSGDConfig, gradient: NDArray[Any]) -> GradientCanary:
    """The gradient against its opposite under substitution, against nothing otherwise."""
    if config.relation is Relation.LABEL:
        raise InputError(
            "a gradient canary replaces the whole record, and the relation is label.", "use `mislabelled`."
        )
    return GradientCanary(gradient, -gradient if config.replaces else None)


# --------------------------------------------------------------------------------------------------------- input space


class Reference:
    """A model of the same recipe trained without noise, by which records are chosen and crafted.

    Attributes
    ----------
    weights
        Its parameters after the last step, as a block of one model.
    """

    def __init__(self, config: DPSGDConfig, x: Any, y: Any, *, seed: int):
        self.config = config
        self._model = bound_model(config, np.ascontiguousarray(x, dtype=np.float32), np.asarray(y))
        states: list[Array] = []

        def keep(state: State) -> Array:
            states.append(state.weights.copy())
            return np.zeros(1, dtype=np.float32)

        steps = np.unique(np.linspace(1, config.steps, CHECKPOINTS).astype(int)).tolist()
        train(config.dry_run(), x, y, models=1, seed=seed, observe=[keep], at=steps, width=1)
        self._states, self.weights = states, states[-1]
        self._x, self._y = np.asarray(x, dtype=np.float32), np.asarray(y)

    def least_confident(self) -> int:
        """The record of whose own label it was least sure, on average over the training."""
        with one_thread():
            total = sum(
                log_likelihoods(self.config.loss, self._model.outputs(weights, self._x)[:, 0, :], self._y)
                for weights in self._states
            )
        return int(np.argmin(total))

    def gradient(self, record: Record) -> Array:
        """Gradient of its loss on a record."""
        return self._model.record_gradients(self.weights, *record)[:, 0, :]

    def cosine(self, first: Record, second: Record) -> float:
        """Of the angle between the gradients of two records."""
        one, other = self.gradient(first), self.gradient(second)
        return float(np.vdot(one, other)) / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-30)

    def most_opposed(self, target: Record, others: list[Record]) -> Record:
        """The record whose gradient points most against the target's."""
        return others[int(np.argmin([self.cosine(target, record) for record in others]))]

    def pull(self, record: Record, along: Array) -> Array:
        """Gradient by the record's features of <gradient(record), along>: a central difference in the parameters."""
        size = float(np.linalg.norm(along))
        if size == 0.0:
            return np.zeros_like(record[0])
        step = np.float32(1e-2 / size) * along[:, None, :]
        ahead = self._model.input_gradients(self.weights + step, *record)[0]
        behind = self._model.input_gradients(self.weights - step, *record)[0]
        return np.asarray((ahead - behind) * np.float32(size / 2e-2))


def least_confident(config: DPSGDConfig, x: Any, y: Any, *, seed: int) -> int:
    """The record whose own label a reference model, trained without noise, is least sure of."""
    return Reference(config, x, y, seed=seed).least_confident()


def crafted_input(reference: Reference, target: Record, *, steps: int = 200, published: bool = False) -> InputCanary:
    """S3: features x' under the target's label whose gradient points against the target's (paper 001, algorithm 3).

    x' starts at zero and descends the cosine of the two gradients plus the mean squared difference of x's gradient and
    the *opposite* of the target's, which keeps it as long. As printed, the difference is from the target's gradient
    itself (`published`): against the cosine that draws the crafted gradient to zero, and a record without a gradient
    is a weak canary (docs/paper-001.md has both).

    At zero a linear head has no gradient and no cosine, so lengths are floored at a thousandth of the target's, and the
    length of a step is kept apart from the slope: a tenth of the target's own to begin with, halved whenever the
    descent goes up.
    """
    check.count("steps", steps, low=1)
    own = reference.gradient(target).astype(np.float64)
    wanted = own if published else -own
    size = max(float(np.linalg.norm(own)), 1e-12)
    label = target[1]

    def judged(x: Array) -> tuple[float, NDArray[np.float64]]:
        """The objective, and its slope by the gradient of the record."""
        found = reference.gradient((x, label)).astype(np.float64)
        length = max(float(np.linalg.norm(found)), 1e-3 * size)
        cosine = float(np.vdot(own, found)) / (size * length)
        slope = (own / size - cosine * found / length) / length + 2.0 * (found - wanted) / own.size
        return cosine + float(np.mean((found - wanted) ** 2)), slope

    x = np.zeros_like(np.asarray(target[0], dtype=np.float32))
    stride = 0.1 * float(np.linalg.norm(target[0]))
    value, slope = judged(x)
    for _ in range(steps):
        pull = reference.pull((x, label), slope.astype(np.float32))
        downhill = float(np.linalg.norm(pull))
        if downhill == 0.0:
            break
        there = x - np.float32(stride / downhill) * pull
        reached, next_slope = judged(there)
        if reached < value:
            x, value, slope, stride = there, reached, next_slope, 1.2 * stride
        else:
            stride *= 0.5
    return _record_pair(reference.config, target, (x, label))


def mislabelled(reference: Reference, target: Record) -> InputCanary:
    """S4: the target with the label whose gradient points most against its own (paper 001, algorithm 4)."""
    config = reference.config
    if config.loss == "squared":
        raise InputError("a mislabelled canary needs classes; the squared loss has none.")
    labels = [0, 1] if config.classes == 1 else list(range(config.classes))
    others = [(target[0], float(label)) for label in labels if label != int(target[1])]
    return _record_pair(config, target, reference.most_opposed(target, others))


def adversarial_natural(reference: Reference, target: Record, auxiliary: tuple[Any, Any]) -> InputCanary:
    """S5: the record of an auxiliary set whose gradient points most against the target's (paper 001, algorithm 5)."""
    if len(auxiliary[0]) != len(auxiliary[1]):
        raise InputError(
            f"`auxiliary` must hold a label for each of {len(auxiliary[0])} rows, got {len(auxiliary[1])}."
        )
    others = [(np.asarray(row, dtype=np.float32), float(label)) for row, label in zip(*auxiliary, strict=True)]
    if not others:
        raise InputError("`auxiliary` must hold at least one record, got none.")
    return _record_pair(reference.config, target, reference.most_opposed(target, others))


def _record_pair(config: DPSGDConfig, target: Record, other: Record) -> InputCanary:
    """Under substitution the target against the crafted record; under add/remove the crafted record or nothing."""
    canary = InputCanary(target, other) if config.replaces else InputCanary(other)
    if not canary.fits(config.relation):
        raise InputError("this canary replaces features too, and the relation is label.", "use `mislabelled`.")
    return canary
