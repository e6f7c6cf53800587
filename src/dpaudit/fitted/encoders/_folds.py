"""Features of training rows that no fit has seen with their labels, and how a fit is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit.execution import distinct_seeds, one_torch_thread, stream, torch_or_refuse

Matrix = NDArray[np.float64]
Look = Callable[[Any], Matrix]


def learn(
    optimiser: Any,
    logits: Callable[[Any], Any],
    real: NDArray[np.bool_],
    *,
    rng: np.random.Generator,
    epochs: int,
    batch: int,
    rate: Callable[[int, int], float],
) -> None:
    """Tell real rows from others by `logits` of row numbers; `rate(step, steps)` is the learning rate."""
    torch = torch_or_refuse()
    y, loss = torch.from_numpy(real.astype(np.float32)), torch.nn.BCEWithLogitsLoss()
    step, steps = 0, epochs * math.ceil(len(real) / batch)
    with one_torch_thread():
        for _ in range(epochs):
            for rows in torch.from_numpy(rng.permutation(len(real))).split(batch):
                optimiser.param_groups[0]["lr"] = rate(step, steps)
                optimiser.zero_grad()
                loss(logits(rows), y[rows]).backward()
                optimiser.step()
                step += 1


def out_of_fold(
    fit: Callable[[Any, Any, int], Look], rows: Any, label: Any, *, folds: int, seed: int
) -> tuple[Matrix, Look]:
    """Features of the rows, each by a fit to the other folds, and the fit to all of them."""
    real = check.booleans("label", np.asarray(label).astype(bool))
    check.same_length(rows=rows, label=real)
    fold = stream(seed, "folds of a view").permutation(len(rows)) % folds
    *seeds, last = distinct_seeds(seed, "networks of a view", folds + 1)
    parts = [(fold == place, own) for place, own in enumerate(seeds)]
    looks = [(out, fit(rows[~out], real[~out], own)(rows[out])) for out, own in parts]
    found = np.empty((len(rows), looks[0][1].shape[1]))
    for out, features in looks:
        found[out] = features
    return found, fit(rows, real, last)
