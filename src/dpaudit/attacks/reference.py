"""Scores of records by a trained model: alone, and beside a reference.

Alone: `negative_loss` (black box: its probabilities) and `inner_product` (white box: its parameters). They mix what the
model memorised with how easy a record is by itself. The others are functions of two probabilities of what is shown.

`target` is what the audited model gives to the shown value (or to a record's own label), `reference` what a
distribution gives to it that never saw it: the proxy, or another reference model. Higher means "this was trained on".

| name | score | guesses |
|---|---|---|
| `likelihood-ratio` | log target - log reference: the best order of guesses if both are right | by sign |
| `difference` | (target - reference) (1 - reference)^t, paper 000 with t = 2 | by sign |
| `difficulty` | the reference's loss less the target's (Watson et al. 2022) | by sign |
| `rmia` | share of a population whose ratio it passes, one reference, offline (Zarifzadeh et al. 2024) | both ends |

With cross-entropy for a loss, `difficulty` against the proxy itself *is* the likelihood ratio; it differs where another
reference than the proxy is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError

Scores = NDArray[np.float64]
OFFLINE = 0.3
"""RMIA's offline parameter a: p(x) is taken as ((1 + a) p_out(x) + 1 - a) / 2."""


def negative_loss(probabilities: Any, labels: Any) -> Scores:
    """The log-probability that the model gives to each record's own label: its cross-entropy loss, negated.

    >>> negative_loss([[0.8, 0.2], [0.5, 0.5]], [0, 1]).round(4).tolist()
    [-0.2231, -0.6931]
    """
    rows = np.asarray(probabilities, dtype=np.float64)
    own = np.asarray(labels)
    if rows.ndim != 2 or own.shape != rows.shape[:1]:
        raise InputError(f"`probabilities` must have a row a label and a column a class, got shape {rows.shape}.")
    if not np.all((rows >= 0.0) & (rows <= 1.0 + 1e-6)):
        raise InputError("`probabilities` must lie between 0 and 1.")
    if own.dtype.kind not in "iub" or (own.size and not 0 <= own.min() <= own.max() < rows.shape[1]):
        raise InputError(f"`labels` must be class numbers from 0 to {rows.shape[1] - 1}.")
    return np.asarray(np.log(np.maximum(rows[np.arange(len(own)), own.astype(np.int64)], 1e-300)))


def inner_product(rows: Any, parameters: Any) -> Scores:
    """How far a released vector of parameters (a noisy sum, a gradient step) points along each record (paper 003).

    >>> inner_product([[1.0, 0.0], [0.0, 1.0]], [3.0, -1.0]).tolist()
    [3.0, -1.0]
    """
    found, along = np.asarray(rows, dtype=np.float64), np.asarray(parameters, dtype=np.float64)
    if found.ndim != 2 or along.shape != found.shape[1:]:
        raise InputError(f"`parameters` must have a number a column, got {along.shape} for rows {found.shape}.")
    return np.asarray(found @ along)


def likelihood_ratio(target: Any, reference: Any) -> Scores:
    """log target - log reference.

    >>> likelihood_ratio([0.8], [0.2]).round(4).tolist()
    [1.3863]
    """
    target, reference = _positive(target, reference)
    return np.log(target) - np.log(reference)


def probability_difference(target: Any, reference: Any, *, power: float = 2.0) -> Scores:
    """Paper 000's s1 * s2^t: (target - reference) (1 - reference)^t.

    >>> probability_difference([0.8], [0.2]).round(4).tolist()
    [0.384]
    """
    target, reference = _positive(target, reference)
    if target.max(initial=0.0) > 1.0 + 1e-6 or reference.max(initial=0.0) > 1.0 + 1e-6:
        raise InputError("`difference` needs probabilities, got a density above 1.", "use 'likelihood-ratio'.")
    power = check.number("power", power, low=0.0)
    return (target - reference) * np.maximum(0.0, 1.0 - reference) ** power


def difficulty_calibration(target: Any, reference: Any) -> Scores:
    """The reference's cross-entropy loss less the target's (Watson et al. 2022)."""
    return likelihood_ratio(target, reference)


def rmia(target: Any, reference: Any, *, population: Any = None, gamma: float = 1.0) -> Scores:
    """Share of a population z with ratio(x) / ratio(z) >= gamma, ratio = target / p(x); offline, one reference.

    `population` are ratios of records that were not trained on; None takes the ratios themselves, which gives the
    same order. Within equal shares the ratio itself decides.
    """
    ratios = rmia_ratio(target, reference)
    pool = np.sort(ratios if population is None else check.scores("population", population))
    gamma = check.number("gamma", gamma, low=1e-9)
    beaten = np.searchsorted(pool, ratios / gamma, side="right")
    return (beaten + ratios / (1.0 + ratios)) / (pool.size + 1.0)


def rmia_ratio(target: Any, reference: Any, *, offline: float = OFFLINE) -> Scores:
    """target / p, with p = ((1 + a) reference + 1 - a) / 2 in the absence of models that saw the record."""
    target, reference = _positive(target, reference)
    a = check.number("offline", offline, low=0.0, high=1.0)
    return target / (((1.0 + a) * reference + (1.0 - a)) / 2.0)


def _positive(target: Any, reference: Any) -> tuple[Scores, Scores]:
    found = np.asarray(target, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if found[0].shape != found[1].shape:
        raise InputError(f"`target` and `reference` must be alike, got {found[0].shape} and {found[1].shape}.")
    for name, array in zip(("target", "reference"), found, strict=True):
        if array.size and not (array > 0.0).all():
            raise InputError(f"`{name}` must be positive, got {float(np.min(array))!r}.", "floor it, say at 1e-12.")
    return found


@dataclass(frozen=True)
class ReferenceAttack:
    """One row of the table above: how to score, how guesses are read off, how rows of one unit are added up."""

    name: str
    score: Callable[[Any, Any], Scores]
    sides: str
    reduce: str


REFERENCE_ATTACKS = {
    found.name: found
    for found in (
        ReferenceAttack("likelihood-ratio", likelihood_ratio, "sign", "sum"),
        ReferenceAttack("difference", probability_difference, "sign", "mean"),
        ReferenceAttack("difficulty", difficulty_calibration, "sign", "sum"),
        ReferenceAttack("rmia", rmia, "both", "mean"),
    )
}
"""By name, as a game takes them."""
