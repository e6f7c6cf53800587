"""Scores that read a training run for its canary: higher means that the canary's world is `present`.

| adversary | score | of |
|---|---|---|
| visible state: sees every release | `ReleasedSum` | their sum along the canary, paper 001's S1 |
| | `TranscriptRatio` | the log-likelihood ratio of all releases, the strongest there is for S1 |
| | `TranscriptRange`, `TranscriptLargest`, `TranscriptEnergy` | reused keys, fixed batches, realised batch sizes |
| hidden state: sees the model | `Displacement` | how far the parameters went against the canary's gradient |
| | `LogitDifference` | what the model says of the canary |

All are observers of `mechanisms.dpsgd.train`; those of a transcript are asked after every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit.mechanisms.dpsgd import DPSGDConfig, State

Scores = NDArray[np.float32]


@dataclass(frozen=True)
class ReleasedSum:
    """All releases so far along the canary's gradient: sufficient for S1 without sampling.

    See theory:ground-truth#s1-score.
    """

    direction: NDArray[Any]

    def __call__(self, state: State) -> Scores:
        return state.along(state.total, self.direction)


@dataclass(frozen=True)
class Displacement:
    """How far the parameters went *against* the canary's gradient: descent moves along its negative.

    See theory:errata#001-9.
    """

    direction: NDArray[Any]

    def __call__(self, state: State) -> Scores:
        return -state.along(state.weights - state.start, self.direction)


@dataclass(frozen=True)
class LogitDifference:
    """The logit of the present record's label, less that of the other record's (or nothing)."""

    present: tuple[NDArray[Any], float]
    absent: tuple[NDArray[Any], float] | None = None

    def __call__(self, state: State) -> Scores:
        found = _logit(state, *self.present)
        return found if self.absent is None else found - _logit(state, *self.absent)


def _logit(state: State, x: NDArray[Any], y: float) -> Scores:
    logits = state.outputs(np.asarray(x, dtype=np.float32)[None])[0]
    if logits.shape[1] == 1:  # one logit speaks for label 1, and its negative for label 0
        return logits[:, 0] * np.float32(1.0 if y > 0.5 else -1.0)
    return logits[:, int(y)]


# ---------------------------------------------------------------------------------------------------------- transcripts


@dataclass(frozen=True)
class _AlongReleases:
    direction: NDArray[Any]

    def __call__(self, state: State) -> Scores:
        return state.along(state.released, self.direction)


@dataclass(frozen=True)
class TranscriptRange(_AlongReleases):
    """How far the releases along the canary lie apart: nothing but the canary can move them if the noise is reused."""

    def reduce(self, seen: Scores) -> Scores:
        return np.ptp(seen, axis=0)


@dataclass(frozen=True)
class TranscriptLargest(_AlongReleases):
    """The largest release along the canary: with fixed batches it took part in exactly one of an epoch's."""

    def reduce(self, seen: Scores) -> Scores:
        return np.asarray(seen.max(axis=0))


@dataclass(frozen=True)
class TranscriptEnergy:
    """Minus the mean square of all releases: their noise is smaller where it was divided by more records."""

    def __call__(self, state: State) -> Scores:
        return np.einsum("amb,amb->m", state.released, state.released)

    def reduce(self, seen: Scores) -> Scores:
        return np.asarray(-seen.mean(axis=0))


@dataclass(frozen=True)
class TranscriptRatio(_AlongReleases):
    """The log-likelihood ratio of all releases along a canary of the clip's length, all other gradients zero.

    Release t along the canary's unit vector is clip * (coin_t + sigma * noise_t): a mixture of two Gaussians in each
    world, independent from step to step. By the lemma of Neyman and Pearson no score of S1 tells more.
    """

    config: DPSGDConfig

    def reduce(self, seen: Scores) -> Scores:
        size = float(np.linalg.norm(np.asarray(self.direction, dtype=np.float64)))
        steps = seen.astype(np.float64) / (size * self.config.clip)
        found = self._log_mixture(steps)
        if self.config.replaces:
            found -= self._log_mixture(-steps)
        return found.sum(axis=0).astype(np.float32)

    def _log_mixture(self, shown: NDArray[np.float64]) -> NDArray[np.float64]:
        """log of the density with the canary, relative to that of noise alone."""
        rate = self.config.sampling_rate
        with np.errstate(divide="ignore"):
            out, drawn = np.log1p(-rate), np.log(rate)
        return np.asarray(np.logaddexp(out, drawn + (shown - 0.5) / self.config.noise_multiplier**2))


def worst_case_score(
    total: Any, *, sampling_rate: float, steps: int, noise_multiplier: float, clip: float = 1.0
) -> Any:
    """The log-likelihood ratio of S1's sum of releases under substitution, +clip against -clip.

    See theory:ground-truth#s1-score.

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
