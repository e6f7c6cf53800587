"""Cells of observational audits: randomised response of labels and noisy numbers whose privacy is known, with proxies
that are right, off by a known tau, or off by a known ratio."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit import estimators
from dpaudit.counterfactuals import Categorical, Normal, NumericPosterior, posterior
from dpaudit.estimators.thresholds import FractionGrid, GuessPath
from dpaudit.evidence import CanaryScores, MemberScores
from dpaudit.games import Observational, Play
from dpaudit.testing.calibration._table import Cell
from dpaudit.testing.ground_truth import gaussian_mixture
from dpaudit.testing.ground_truth.scores import Named
from dpaudit.tradeoff import ApproximateDP, TradeOff


@dataclass(frozen=True)
class ObservedLabels:
    """Labels of a Gaussian mixture by randomised response; the proxy is the true posterior, moved by `off`.

    `off` moves the probability of class 1 of half the rows up and of the others down: a total variation of `off` a row,
    but where 0 or 1 cuts it. `told` says what the auditor answers for: "tau", "ratio" (the exact log-ratio of each
    row's distribution, at its worst value), or nothing. `rows_a_user` rows share a user, and a coin.
    """

    epsilon: float
    rows: int = 1000
    off: float = 0.0
    told: str = ""
    rows_a_user: int = 1

    @property
    def name(self) -> str:
        moved = f", proxy off by {self.off:g}" if self.off else ""
        answered = f", {self.told} answered for" if self.told else ""
        users = f", {self.rows_a_user} labels a user" if self.rows_a_user > 1 else ""
        return (
            f"observed labels, randomised response epsilon={self.epsilon:g}{users}{moved}{answered}, {self.rows} rows"
        )

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.epsilon * self.rows_a_user)

    def game(self, rng: Generator) -> Observational:
        x, labels, distribution = gaussian_mixture(self.rows, 2, rng)
        distribution = distribution.astype(np.float64)
        keep = 1.0 / (1.0 + np.exp(-self.epsilon))
        released = np.where(rng.random(self.rows) < keep, labels, 1 - labels)
        channel = np.where(np.arange(2) == released[:, None], keep, 1.0 - keep)
        moved = np.clip(distribution[:, 1] + self.off * np.where(np.arange(self.rows) % 2, 1.0, -1.0), 0.02, 0.98)
        counterfactual = distribution if not self.off else np.stack([1.0 - moved, moved], axis=1)
        shift = float(np.abs(counterfactual - distribution)[:, 1].mean()) if self.told == "tau" else 0.0
        ratio = np.abs(np.log(distribution / counterfactual)).max(axis=1) if self.told == "ratio" else None
        users = self.rows_a_user > 1
        return Observational(
            values=labels,
            counterfactual=Categorical(counterfactual),
            target=posterior(channel, Categorical(distribution)),
            features=x,
            shift=shift,
            log_ratio=ratio,
            group=np.arange(self.rows) // self.rows_a_user if users else None,
            unit="user" if users else "record",
        )

    def sample(self, rng: Generator) -> CanaryScores | MemberScores:
        return self.game(rng).play(seed=int(rng.integers(2**63))).only


@dataclass(frozen=True)
class BlindLabels:
    """The blind baseline on the same game: the proxy is right, or off by a tau that is answered for."""

    truth: ObservedLabels

    @property
    def name(self) -> str:
        return f"blind attack, {self.truth.name}"

    def sample(self, rng: Generator) -> tuple[Play, float]:
        game = self.truth.game(rng)
        return game.play(seed=int(rng.integers(2**63))), game.shift


@dataclass(frozen=True)
class ObservedNumbers(Named):
    """A number a ~ N(x, 1) given its record, released as its value cut to [-2, 2] with Laplace noise of scale
    4 / epsilon: epsilon-DP under replacement of the number."""

    epsilon: float
    rows: int = 1000

    called: ClassVar[str] = "observed numbers, Laplace epsilon={epsilon:g}, {rows} rows"

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.epsilon)

    def game(self, rng: Generator) -> Observational:
        x = rng.normal(size=self.rows)
        values = x + rng.normal(size=self.rows)
        scale = 4.0 / self.epsilon
        released = np.clip(values, -2.0, 2.0) + rng.laplace(scale=scale, size=self.rows)

        def likelihood(asked: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(np.exp(-np.abs(released - np.clip(asked, -2.0, 2.0)) / scale))

        counterfactual = Normal(x, 1.0)
        return Observational(
            values=values,
            counterfactual=counterfactual,
            target=NumericPosterior(likelihood, counterfactual),
            features=x[:, None],
        )

    def sample(self, rng: Generator) -> CanaryScores:
        found: CanaryScores = self.game(rng).play(seed=int(rng.integers(2**63))).only
        return found


def third_cells(confidence: float = 0.95) -> list[Cell]:
    """Every estimator of observational audits against the truth that applies, and the forms that must fail."""
    return [*_label_cells(confidence), *_blind_cells(confidence)]


def _label_cells(confidence: float) -> Iterable[Cell]:
    def cell(truth: Any, words: str, must: str = "hold", quick: int = 400, **how: Any) -> Cell:
        given = getattr(truth, "told", "") == "ratio"
        by: Any = estimators.epsilon_from_members if given else estimators.epsilon_from_canaries
        bound = partial(by, delta=0.0, confidence=confidence, **how)
        return Cell(by.__name__, words, truth, truth.curve.epsilon(0.0), bound, must, quick=quick)

    path, grid = GuessPath(), FractionGrid((0.3, 0.1, 0.03))
    yield cell(ObservedLabels(1.0), "GuessPath(), observational", guesses=path)
    yield cell(ObservedLabels(0.5, rows_a_user=3, rows=1500), "GuessPath(), observational", guesses=path)
    yield cell(ObservedNumbers(4.0), "GuessPath(), observational", guesses=path)
    yield cell(ObservedLabels(4.0, rows=2000, off=0.0005, told="tau"), "three fractions, observational", guesses=grid)
    ratio = ObservedLabels(1.0, rows=500, off=0.1, told="ratio")
    yield cell(ratio, "GuessPath(), log-ratios of true to proxy distribution", quick=150, guesses=path)
    yield cell(ObservedLabels(0.5, off=0.1), "GuessPath(), tau taken as 0", "fail", guesses=path)


def _blind_cells(confidence: float) -> Iterable[Cell]:
    exact, moved = ObservedLabels(1.0, rows=300), ObservedLabels(1.0, rows=300, off=0.1, told="tau")
    refuted = partial(_refuted, confidence=confidence)
    shown = partial(_shown_beyond, confidence=confidence)
    yield Cell("null_p_value", "tau = 0, a true proxy is refuted", BlindLabels(exact), 0.0, refuted, quick=150)
    yield Cell("null_p_value", "a true tau is refuted", BlindLabels(moved), 0.0, refuted, quick=150)
    yield Cell("least_shift", "tau shown beyond the true one", BlindLabels(moved), 0.0, shown, quick=150)
    wrong = BlindLabels(ObservedLabels(1.0, rows=300, off=0.3))
    yield Cell("null_p_value", "a proxy off by 0.3 is refuted", wrong, 0.0, refuted, "fail", quick=150)


def _refuted(found: tuple[Play, float], *, confidence: float) -> float:
    """1 where a true proxy is refuted: any such is an error."""
    return float(estimators.null_p_value(found[0].controls[0].parts) <= 1.0 - confidence)


def _shown_beyond(found: tuple[Play, float], *, confidence: float) -> float:
    return max(0.0, estimators.least_shift(found[0].controls[0].parts, confidence=confidence) - found[1])
