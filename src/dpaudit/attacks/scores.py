"""Scores that read a training run for its canary: higher means that the canary's world is `present`.

`ReleasedSum` is for the visible state (the adversary sees every release); `Displacement` and `LogitDifference` are for
the hidden state (only the model). All are observers of `mechanisms.dpsgd.train`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.mechanisms.dpsgd import State


@dataclass(frozen=True)
class ReleasedSum:
    """All releases so far along the canary's gradient: sufficient for S1 without sampling (THEORY 001-10)."""

    direction: NDArray[Any]

    def __call__(self, state: State) -> NDArray[np.float32]:
        return np.einsum("dmk,dk->m", state.total, _matrix(self.direction, state))


@dataclass(frozen=True)
class Displacement:
    """How far the parameters went *against* the canary's gradient: descent moves along its negative (THEORY 001-9)."""

    direction: NDArray[Any]

    def __call__(self, state: State) -> NDArray[np.float32]:
        return -np.einsum("dmk,dk->m", state.weights - state.start, _matrix(self.direction, state))


@dataclass(frozen=True)
class LogitDifference:
    """The logit of the present record's label, less that of the other record's (or nothing)."""

    present: tuple[NDArray[Any], float]
    absent: tuple[NDArray[Any], float] | None = None

    def __call__(self, state: State) -> NDArray[np.float32]:
        found = _logit(state, *self.present)
        return found if self.absent is None else found - _logit(state, *self.absent)


def _matrix(direction: NDArray[Any], state: State) -> NDArray[np.float32]:
    return np.asarray(direction, dtype=np.float32).reshape(state.weights.shape[0], -1)


def _logit(state: State, x: NDArray[Any], y: float) -> NDArray[np.float32]:
    logits = np.einsum("d,dmk->mk", np.asarray(x, dtype=np.float32), state.weights)
    if logits.shape[1] == 1:  # one logit speaks for label 1, and its negative for label 0
        return logits[:, 0] * np.float32(1.0 if y > 0.5 else -1.0)
    return logits[:, int(y)]


def worst_case_score(
    total: Any, *, sampling_rate: float, steps: int, noise_multiplier: float, clip: float = 1.0
) -> Any:
    """The log-likelihood ratio of S1's sum of releases under substitution, +clip against -clip (THEORY 2.11).

    It is increasing in the sum, so thresholds on the sum do the same; the number itself is for plots.

    >>> worst_case_score([0.0, 2.0], sampling_rate=1.0, steps=4, noise_multiplier=1.0).round(6).tolist()
    [0.0, 4.0]
    """
    from scipy import stats  # slow to import

    g = np.atleast_1d(np.asarray(total, dtype=np.float64))
    k = np.arange(steps + 1)
    weights = stats.binom.logpmf(k, steps, sampling_rate)
    kept = weights > np.log(1e-18)
    variance = steps * (noise_multiplier * clip) ** 2

    def log_density(sign: float) -> Any:
        return special.logsumexp(weights[kept] - (g[:, None] - sign * k[kept] * clip) ** 2 / (2.0 * variance), axis=1)

    return log_density(1.0) - log_density(-1.0)
