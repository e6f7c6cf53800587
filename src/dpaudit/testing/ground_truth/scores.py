"""Mechanisms with exactly known privacy, as samplers of evidence: the ground truth of every coverage test.

See theory:ground-truth#mechanisms.

A ground truth is a frozen value with a `curve` (its exact trade-off function, per unit) and `sample(rng)`, which plays
the game once. `mu` of a curve is the smallest mu for which it is mu-Gaussian-DP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import optimize, special

from dpaudit.bounds import Relation
from dpaudit.evidence import CanaryScores, RunScores
from dpaudit.tradeoff import ApproximateDP, Gaussian, Laplace, PiecewiseLinear, RandomizedResponse, TradeOff, from_pairs


class GroundTruth(Protocol):
    """A mechanism that is known exactly, and the game that is played with it."""

    @property
    def name(self) -> str: ...
    @property
    def curve(self) -> TradeOff: ...
    def sample(self, rng: Generator) -> Any: ...


class Named:
    """A value whose name is a template of its fields."""

    called: ClassVar[str]

    @property
    def name(self) -> str:
        return self.called.format(**vars(self))


class OfMu:
    """A mechanism of which `mu` is known, because it is Gaussian."""

    mu: float

    @property
    def curve(self) -> TradeOff:
        return Gaussian(self.mu)


def least_mu(curve: TradeOff) -> float:
    """The smallest mu with G_mu below the curve: the supremum of Phi^-1(fbar(x)) - Phi^-1(x)."""
    if isinstance(curve, Gaussian):
        return curve.mu
    x = np.concatenate([np.geomspace(1e-12, 0.5, 20001), 1.0 - np.geomspace(1e-12, 0.5, 20001)])
    if isinstance(curve, RandomizedResponse | ApproximateDP):  # the supremum is at a kink
        kink = curve.g(np.array([special.expit(curve.eps)]))
        x = np.concatenate([x, kink, [float(curve._rates[0])] if isinstance(curve, RandomizedResponse) else []])
    return float(np.max(special.ndtri(curve.fbar(x)) - special.ndtri(x)))


# ---------------------------------------------------------------------------------------------------------- many runs


@dataclass(frozen=True)
class GaussianRuns(OfMu):
    """N(mu, 1) with the record, N(0, 1) without; rounding to `digits` decimals makes ties and only adds privacy."""

    mu: float = 1.0
    runs: int = 1000
    digits: int | None = None

    @property
    def name(self) -> str:
        rounded = "" if self.digits is None else f", {self.digits} decimals"
        kind = f"Gaussian mu={self.mu:g}" if self.mu else "perfect privacy"
        return f"{kind}{rounded}, {self.runs} runs a side"

    def sample(self, rng: Generator) -> RunScores:
        scores = rng.normal(size=(2, self.runs)) + np.array([[self.mu], [0.0]])
        present, absent = scores if self.digits is None else np.round(scores, self.digits)
        return RunScores(present=present, absent=absent, relation=Relation.ADD_REMOVE)


@dataclass(frozen=True)
class GaussianSteps(Named, OfMu):
    """Runs that are looked at after each of several steps, every one mu-Gaussian-DP on its own, scores correlated."""

    mu: float = 1.0
    runs: int = 250
    steps: int = 20
    correlation: float = 0.9

    called: ClassVar[str] = "Gaussian mu={mu:g}, {steps} steps correlated {correlation:g}, {runs} runs a side"

    def sample(self, rng: Generator) -> dict[int, RunScores]:
        shared, own = np.sqrt(self.correlation), np.sqrt(1.0 - self.correlation)
        common = shared * rng.normal(size=(2, self.runs)) + np.array([[self.mu], [0.0]])
        found = {}
        for step in range(1, self.steps + 1):
            present, absent = common + own * rng.normal(size=(2, self.runs))
            found[step] = RunScores(present=present, absent=absent, relation=Relation.ADD_REMOVE)
        return found


@dataclass(frozen=True)
class LaplaceRuns(Named):
    """Laplace noise of scale 1/epsilon on 1 and on 0."""

    epsilon: float = 1.0
    runs: int = 1000

    called: ClassVar[str] = "Laplace epsilon={epsilon:g}, {runs} runs a side"

    @property
    def curve(self) -> TradeOff:
        return Laplace(self.epsilon)

    def sample(self, rng: Generator) -> RunScores:
        noise = rng.laplace(scale=1.0 / self.epsilon, size=(2, self.runs))
        return RunScores(present=1.0 + noise[0], absent=noise[1], relation=Relation.ADD_REMOVE)


@dataclass(frozen=True)
class LeakyResponseRuns:
    """Randomised response whose answer is the plain truth with probability delta: the extreme (epsilon, delta) pair."""

    epsilon: float = 1.0
    delta: float = 0.0
    runs: int = 1000

    @property
    def name(self) -> str:
        leak = f", reveals with {self.delta:g}" if self.delta else ""
        return f"randomised response epsilon={self.epsilon:g}{leak}, {self.runs} runs a side"

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.epsilon, self.delta)

    def sample(self, rng: Generator) -> RunScores:
        truth = np.repeat([[1.0], [-1.0]], self.runs, axis=1)
        answers = _respond(truth, self.epsilon, rng)
        revealed = rng.random(truth.shape) < self.delta
        present, absent = np.where(revealed, 2.0 * truth, answers)
        return RunScores(present=present, absent=absent, relation=Relation.SUBSTITUTE)


@dataclass(frozen=True)
class SubsampledGaussianRuns(Named):
    """One step of Poisson-subsampled noise: (1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2)."""

    noise_multiplier: float = 1.0
    sampling_rate: float = 0.3
    runs: int = 1000

    called: ClassVar[str] = "subsampled Gaussian s={noise_multiplier:g} q={sampling_rate:g}, {runs} runs a side"

    @property
    def curve(self) -> PiecewiseLinear:
        epsilons = np.linspace(-8.0, 8.0, 3201)
        return from_pairs(epsilons, [self.delta(e) for e in epsilons])

    def delta(self, epsilon: float) -> float:
        """sup over events of P(E) - e^epsilon Q(E), P being the mixture (closed form,
        theory:ground-truth#subsampled-gaussian)."""
        s, q = self.noise_multiplier, self.sampling_rate
        inside = (np.exp(epsilon) - 1.0 + q) / q
        if inside <= 0.0:
            return float(-np.expm1(epsilon))
        t = s * s * np.log(inside) + 0.5
        null, shifted = special.ndtr(-t / s), special.ndtr(-(t - 1.0) / s)
        return float((1.0 - q) * null + q * shifted - np.exp(epsilon) * null)

    def sample(self, rng: Generator) -> RunScores:
        noise = rng.normal(scale=self.noise_multiplier, size=(2, self.runs))
        chosen = rng.random(self.runs) < self.sampling_rate
        return RunScores(present=noise[0] + chosen, absent=noise[1], relation=Relation.ADD_REMOVE)


@dataclass(frozen=True)
class GaussianStream(OfMu):
    """Runs one by one, the world of each a fair coin."""

    mu: float = 1.0
    runs: int = 1000

    @property
    def name(self) -> str:
        return (
            f"stream, Gaussian mu={self.mu:g}, {self.runs} runs"
            if self.mu
            else f"stream, perfect privacy, {self.runs} runs"
        )

    def sample(self, rng: Generator) -> list[tuple[bool, float]]:
        worlds = rng.random(self.runs) < 0.5
        scores = rng.normal(size=self.runs) + self.mu * worlds
        return list(zip(worlds.tolist(), scores.tolist(), strict=True))


# ------------------------------------------------------------------------------------------------------------- one run


def _respond(truth: NDArray[np.float64], epsilon: float, rng: Generator) -> NDArray[np.float64]:
    """Binary randomised response of +-1."""
    return np.where(rng.random(truth.shape) < special.expit(epsilon), truth, -truth)


def _coins(count: int, rng: Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    included = rng.random(count) < 0.5
    return included, np.where(included, 1.0, -1.0)


@dataclass(frozen=True)
class ResponseCanaries:
    """Randomised response of every coin, revealing each with probability `delta` (theory:ground-truth#subset).

    With `shift`, coins are revealed by the attributes themselves, not by the model: the evidence declares it as tau.
    """

    epsilon: float = 1.0
    canaries: int = 1000
    delta: float = 0.0
    shift: float = 0.0

    @property
    def name(self) -> str:
        extra = f", reveals {self.delta:g}" if self.delta else f", tau={self.shift:g}" if self.shift else ""
        kind = f"randomised response epsilon={self.epsilon:g}" if self.epsilon else "perfect privacy"
        return f"{kind}{extra}, {self.canaries} canaries"

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.epsilon, self.delta)

    def sample(self, rng: Generator) -> CanaryScores:
        included, signs = _coins(self.canaries, rng)
        size = rng.random(self.canaries)
        known = rng.random(self.canaries) < max(self.delta, self.shift)
        scores = np.where(known, 2.0 * signs, _respond(signs, self.epsilon, rng) * size)
        return CanaryScores(scores=scores, included=included, relation=Relation.LABEL, sides="sign", shift=self.shift)


@dataclass(frozen=True)
class KaryResponseCanaries(Named):
    """k-ary randomised response of a label; the coin says which of two labels it was."""

    epsilon: float = 1.0
    classes: int = 5
    canaries: int = 1000

    called: ClassVar[str] = "{classes}-ary randomised response epsilon={epsilon:g}, {canaries} canaries"

    @property
    def curve(self) -> TradeOff:
        return RandomizedResponse(self.epsilon, self.classes)

    def sample(self, rng: Generator) -> CanaryScores:
        included, signs = _coins(self.canaries, rng)
        grow = np.exp(self.epsilon)
        uniform = rng.random(self.canaries) * (grow + self.classes - 1)
        scores = np.where(uniform < grow, signs, np.where(uniform < grow + 1.0, -signs, 0.0))
        return CanaryScores(scores=scores, included=included, relation=Relation.LABEL)


@dataclass(frozen=True)
class NoisyCanaries:
    """Independent noisy sums along orthonormal canaries: score = 1{included} + noise of the given distribution."""

    parameter: float = 1.0
    canaries: int = 1000
    distribution: str = "Gaussian"

    @property
    def name(self) -> str:
        symbol = "mu" if self.distribution == "Gaussian" else "epsilon"
        return f"{self.distribution} {symbol}={self.parameter:g}, {self.canaries} canaries"

    @property
    def curve(self) -> TradeOff:
        return Gaussian(self.parameter) if self.distribution == "Gaussian" else Laplace(self.parameter)

    def sample(self, rng: Generator) -> CanaryScores:
        included, _ = _coins(self.canaries, rng)
        noise = rng.normal(size=self.canaries) if self.distribution == "Gaussian" else rng.laplace(size=self.canaries)
        return CanaryScores(scores=self.parameter * included + noise, included=included, relation=Relation.ADD_REMOVE)


@dataclass(frozen=True)
class ModeMixing(Named):
    """With probability `probabilities[k]`, randomised response with accuracy `accuracies[k]` on a random
    `fractions[k]` of the coins; else nothing (theory:ground-truth#mode-mixing). Canaries are not independent: a mode
    moves them together.
    """

    probabilities: tuple[float, ...]
    fractions: tuple[float, ...]
    accuracies: tuple[float, ...]
    canaries: int
    label: str = field(default="mode mixing")

    called: ClassVar[str] = "{label}, {canaries} canaries"

    @property
    def curve(self) -> PiecewiseLinear:
        """fbar through the cumulated kinks, in order of accuracy."""
        a = np.array(self.accuracies)
        order = np.argsort(-a)
        weight = (np.array(self.probabilities) * np.array(self.fractions))[order]
        x, y = np.cumsum(weight * (1.0 - a[order])), np.cumsum(weight * a[order])
        rest_x, rest_y = 1.0 - y[::-1], 1.0 - x[::-1]
        return PiecewiseLinear(np.concatenate([[0.0], x, rest_x, [1.0]]), np.concatenate([[0.0], y, rest_y, [1.0]]))

    @property
    def mu(self) -> float:
        """Largest Phi^-1(y) - Phi^-1(x) over the kinks."""
        curve = self.curve
        x, y = curve.x[1:-1], curve.y[1:-1]
        return float(np.max(special.ndtri(y) - special.ndtri(x)))

    def sample(self, rng: Generator) -> CanaryScores:
        included, signs = _coins(self.canaries, rng)
        scores = rng.random(self.canaries) * 1e-3 * np.where(rng.random(self.canaries) < 0.5, 1.0, -1.0)
        mode = int(np.searchsorted(np.cumsum(self.probabilities), rng.random(), side="right"))
        if mode < len(self.probabilities):
            shown = rng.random(self.canaries) < self.fractions[mode]
            right = rng.random(self.canaries) < self.accuracies[mode]
            scores = np.where(shown, np.where(right, signs, -signs) * (1.0 + rng.random(self.canaries)), scores)
        return CanaryScores(scores=scores, included=included, relation=Relation.ADD_REMOVE, sides="sign")


def single_mode(probability: float, *, mu: float = 1.0, canaries: int = 1000) -> ModeMixing:
    """All coins at once with this probability, as accurate as mu-Gaussian-DP allows."""

    def gap(a: float) -> float:
        return float(special.ndtri(probability * a) - special.ndtri(probability * (1.0 - a))) - mu

    accuracy = optimize.brentq(gap, 0.5, 1.0 - 1e-12) - 1e-12
    return ModeMixing((probability,), (1.0,), (accuracy,), canaries, f"mode mixing ({probability:g}) mu={mu:g}")


MULTI_MODE = ModeMixing(
    (0.0387, 0.0360, 0.0230), (1.0, 0.1, 0.01), (0.92730, 0.96794, 0.98568), 750_000, "three modes mu=0.9999"
)
"""Kills any f-DP audit whose number of guesses depends on the model."""


# ------------------------------------------------------------------------------------------------ several rows a unit


@dataclass(frozen=True)
class CorrelatedRows:
    """No leakage at all, but the rows of a user share one coin and one random effect. `grouped` declares the users."""

    users: int = 300
    rows: int = 3
    grouped: bool = True

    @property
    def name(self) -> str:
        unit = "user" if self.grouped else "row"
        return f"no leakage, {self.users} users of {self.rows} correlated rows, counted per {unit}"

    @property
    def curve(self) -> TradeOff:
        return Gaussian(0.0)

    def sample(self, rng: Generator) -> CanaryScores:
        included, _ = _coins(self.users, rng)
        effect = rng.normal(size=self.users)
        scores = np.repeat(effect, self.rows) + 0.1 * rng.normal(size=self.users * self.rows)
        return _rows(scores, included, self.rows, self.grouped)


@dataclass(frozen=True)
class ResponseRows:
    """Each of a user's rows carries his one label through randomised response of its own; the attack adds them up.

    Per row the mechanism is epsilon-DP; per user it is (rows x epsilon)-DP, and a user is what one coin stands for.
    """

    epsilon: float = 1.0
    users: int = 300
    rows: int = 3
    grouped: bool = True

    @property
    def name(self) -> str:
        unit = "user" if self.grouped else "row"
        return f"randomised response epsilon={self.epsilon:g} on {self.rows} rows a user, counted per {unit}"

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.epsilon * (self.rows if self.grouped else 1))

    def sample(self, rng: Generator) -> CanaryScores:
        included, signs = _coins(self.users, rng)
        answers = _respond(np.repeat(signs[:, None], self.rows, axis=1), self.epsilon, rng)
        scores = np.repeat(answers.sum(axis=1) * (1.0 + 1e-3 * rng.random(self.users)), self.rows)
        return _rows(scores, included, self.rows, self.grouped)


def _rows(scores: NDArray[np.float64], included: NDArray[np.bool_], rows: int, grouped: bool) -> CanaryScores:
    users = np.repeat(np.arange(included.size), rows)
    return CanaryScores(
        scores=scores,
        included=included[users],
        relation=Relation.LABEL,
        group=users if grouped else None,
        unit="user" if grouped else "record",
        sides="sign",
    )
