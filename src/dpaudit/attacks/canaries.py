"""Canaries of paper 001 for linear heads: S1 (worst case), S2 (least-updated coordinate), S4 and S5 (records).

Each comes for add/remove (the record, or nothing) and for substitution (the record, or its opposite). They are handed
to the trainer, which clips, samples, sums and noises them like any other record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.mechanisms.dpsgd import Canary, DpSgd, GradientCanary, InputCanary, train

Record = tuple[NDArray[np.float32], float]


def worst_case(recipe: DpSgd, *, records: int) -> tuple[NDArray[np.float32], NDArray[np.int64], GradientCanary]:
    """S1: a data set of zero gradients, and a canary of one coordinate whose gradient has the length of the clip.

    Returns x, y and the canary. Under substitution the other world has the opposite gradient, under add/remove none.
    """
    check.count("records", records, low=1)
    x, y = np.zeros((records - 1, 1), dtype=np.float32), np.zeros(records - 1, dtype=np.int64)
    return x, y, _pair(recipe, np.array([[recipe.clip]]))


def least_updated(recipe: DpSgd, x: Any, y: Any, *, seed: int) -> GradientCanary:
    """S2: all of the clip on the coordinate that moves least in a rehearsal without noise (paper 001, algorithm 2)."""
    path = _Path()
    rehearsal = replace(recipe, noise_multiplier=0.0)
    train(rehearsal, x, y, models=1, seed=seed, observe=[path], at=range(1, recipe.steps + 1))
    moved = path.total
    gradient = np.zeros(moved.shape, dtype=np.float32)
    gradient[np.unravel_index(int(np.argmin(moved)), moved.shape)] = recipe.clip
    return _pair(recipe, gradient)


class _Path:
    """How far each coordinate of the first model has travelled, step by step."""

    def __init__(self) -> None:
        self.total = self.last = np.zeros(0, dtype=np.float32)

    def __call__(self, state: Any) -> NDArray[np.float32]:
        here = state.weights[:, 0, :]
        if state.step == 1:
            self.total, self.last = np.zeros_like(here), state.start[:, 0, :]
        self.total = self.total + np.abs(here - self.last)
        self.last = here.copy()
        return np.zeros(state.weights.shape[1], dtype=np.float32)


def _pair(recipe: DpSgd, gradient: NDArray[Any]) -> GradientCanary:
    """The gradient against its opposite under substitution, against nothing else."""
    replaced = recipe.relation in (Relation.SUBSTITUTE, Relation.LABEL)
    return GradientCanary(gradient, -gradient if replaced else None)


def least_confident(recipe: DpSgd, x: Any, y: Any, *, seed: int) -> int:
    """The record whose own label a reference model, trained without noise, is least sure of."""
    weights = _reference(recipe, x, y, seed)
    return int(np.argmax([_loss(recipe, weights, row, label) for row, label in zip(x, y, strict=True)]))


def mislabelled(recipe: DpSgd, target: Record, x: Any, y: Any, *, seed: int) -> Canary:
    """S4: the target with the label whose gradient points most against its own (paper 001, algorithm 4)."""
    if recipe.loss == "squared":
        raise InputError("a mislabelled canary needs classes; the squared loss has none.")
    weights = _reference(recipe, x, y, seed)
    labels = [0, 1] if recipe.classes == 1 else list(range(recipe.classes))
    others = [(target[0], float(label)) for label in labels if label != int(target[1])]
    return _record_pair(recipe, target, _most_opposed(recipe, weights, target, others))


def adversarial_natural(
    recipe: DpSgd, target: Record, auxiliary: tuple[Any, Any], x: Any, y: Any, *, seed: int
) -> Canary:
    """S5: the record of an auxiliary set whose gradient points most against the target's (paper 001, algorithm 5)."""
    weights = _reference(recipe, x, y, seed)
    others = [(np.asarray(row, dtype=np.float32), float(label)) for row, label in zip(*auxiliary, strict=True)]
    if not others:
        raise InputError("`auxiliary` must hold at least one record, got none.")
    return _record_pair(recipe, target, _most_opposed(recipe, weights, target, others))


def _record_pair(recipe: DpSgd, target: Record, other: Record) -> InputCanary:
    """Under substitution the target against the crafted record; under add/remove the crafted record or nothing."""
    replaced = recipe.relation in (Relation.SUBSTITUTE, Relation.LABEL)
    return InputCanary(target, other) if replaced else InputCanary(other)


def _most_opposed(recipe: DpSgd, weights: NDArray[np.float32], target: Record, others: list[Record]) -> Record:
    own = _gradient(recipe, weights, target)
    cosines = []
    for record in others:
        found = _gradient(recipe, weights, record)
        cosines.append(float(np.vdot(own, found)) / max(float(np.linalg.norm(own) * np.linalg.norm(found)), 1e-30))
    return others[int(np.argmin(cosines))]


def _gradient(recipe: DpSgd, weights: NDArray[np.float32], record: Record) -> NDArray[np.float32]:
    found = InputCanary(record).gradients(recipe, weights[:, None, :], np.ones(1, dtype=np.bool_))
    return found[:, 0, :]


def _reference(recipe: DpSgd, x: Any, y: Any, seed: int) -> NDArray[np.float32]:
    """One model of the same recipe without noise: (features, outputs)."""
    _, final = train(replace(recipe, noise_multiplier=0.0), x, y, models=1, seed=seed)
    return final[0]


def _loss(recipe: DpSgd, weights: NDArray[np.float32], row: Any, label: float) -> float:
    logits = np.asarray(row, dtype=np.float64) @ weights.astype(np.float64)
    if recipe.loss == "squared":
        return float((logits[0] - label) ** 2)
    if recipe.loss == "logistic":
        return float(np.logaddexp(0.0, logits[0]) - label * logits[0])
    return float(np.logaddexp.reduce(logits) - logits[int(label)])
