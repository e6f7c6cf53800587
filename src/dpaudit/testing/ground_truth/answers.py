"""Answers of a model about values, whose leak is known exactly: the ground truth of guesses beside placebo rows.

Every row's value is drawn from a distribution that is known. What leaks of it is an answer by randomised response, or
nothing; whatever else the model knows of a row, it knows without the row. What that is worth, is what an audit must not
report: a proxy that knows less, guesses that are surer than others, rows that the model recognises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit.bounds import Relation
from dpaudit.counterfactuals import Categorical
from dpaudit.evidence import MatchedScores
from dpaudit.games._guesses import Rows, guesses, joined
from dpaudit.testing.ground_truth.scores import Named
from dpaudit.tradeoff import ApproximateDP

Floats = NDArray[np.float64]

PROXIES = ("exact", "no id", "x 1.5", "- 0.5", "+ noise")
MODELS = ("D", "noisy", "P")
LEVELS = 50


class Answered:
    """Randomised response about the value of every audited row, told by the model; of placebo rows it tells nothing."""

    epsilon: float
    rows: int
    placebo: int
    delta: float = 0.0

    @property
    def curve(self) -> ApproximateDP:
        return ApproximateDP(self.epsilon, self.delta)

    known: Callable[[Generator], Iterable[tuple[Floats, Floats, Floats]]]
    """The true distribution of every value, the proxy's and the model's, of audited and of placebo rows: a method of
    each world."""

    def sample(self, rng: Generator) -> MatchedScores:
        """Every audited row's guess, and every guess that a placebo row offers (theory:placebo#matched)."""
        found = []
        for audited, (true, proxy, model) in zip((True, False), self.known(rng), strict=True):
            values = drawn(true, rng)
            said = Categorical(self._answered(values, model, rng) if audited else model)
            found.append(guesses(Rows(values, said, Categorical(proxy)), elsewhere=not audited))
        every = joined(*found)
        return MatchedScores(
            scores=every.scores,
            chance=every.chance,
            right=every.right,
            own=every.own,
            audited=np.repeat([True, False], [part.scores.size for part in found]),
            values=true.shape[1],
            relation=Relation.LABEL,
            seed=int(rng.integers(2**31)),
        )

    def _answered(self, values: NDArray[np.intp], model: Floats, rng: Generator) -> Floats:
        """What the model says after it was told k-ary randomised response of each value."""
        size, k = model.shape
        honest = rng.random(size) * (np.exp(self.epsilon) + k - 1.0) < np.exp(self.epsilon)
        answer = np.where(honest, values, (values + rng.integers(1, k, size)) % k)
        told = model * np.exp(self.epsilon * np.eye(k)[answer])
        revealed = rng.random((size, 1)) < self.delta
        return np.where(revealed, np.eye(k)[values], told / told.sum(axis=1, keepdims=True))


def drawn(distribution: Floats, rng: Generator) -> NDArray[np.intp]:
    """One value a row."""
    below = distribution.cumsum(axis=1) <= rng.random((len(distribution), 1))
    return np.minimum(below.sum(axis=1), distribution.shape[1] - 1)


# ---------------------------------------------------------------------------------------------------- imperfect proxies


@dataclass(frozen=True)
class AnsweredRows(Named, Answered):
    """Rows with features and an id of 50 levels, both of which say much of the value; the proxy need not know the id.

    Attributes
    ----------
    epsilon, delta
        Of the answer about a row's value: randomised response, which tells the value itself with probability delta.
    proxy
        "exact", "no id" (calibrated, and weaker), log-odds "x 1.5" or "- 0.5", or "+ noise" of deviation 0.7.
    model
        What it knows of a row that it never saw: the distribution ("D"), with noise ("noisy"), what the proxy knows
        ("P").
    k
        How many values there are.
    """

    epsilon: float = 0.0
    proxy: str = "exact"
    model: str = "D"
    k: int = 2
    rows: int = 2000
    placebo: int = 2000
    delta: float = 0.0

    called: ClassVar[str] = (
        "answers at epsilon={epsilon:g} delta={delta:g}, proxy {proxy}, model {model}, {k} values, {rows} rows, "
        "{placebo} placebo rows"
    )

    def __post_init__(self) -> None:
        check.choice("proxy", self.proxy, PROXIES)
        check.choice("model", self.model, MODELS)

    def known(self, rng: Generator) -> Iterable[tuple[Floats, Floats, Floats]]:
        effects = rng.normal(scale=0.5**0.5, size=(LEVELS, self.k))
        return [self._known(size, effects, rng) for size in (self.rows, self.placebo)]

    def _known(self, size: int, effects: Floats, rng: Generator) -> tuple[Floats, Floats, Floats]:
        features = rng.normal(scale=0.75**0.5, size=(size, self.k))
        logits = features + effects[rng.integers(0, LEVELS, size)]
        true = special.softmax(logits, axis=1)
        proxy = {
            "exact": lambda: true,
            "no id": lambda: special.softmax(features[:, None, :] + effects, axis=2).mean(axis=1),
            "x 1.5": lambda: special.softmax(1.5 * logits, axis=1),
            "- 0.5": lambda: special.softmax(logits - 0.5 * (np.arange(self.k) == self.k - 1), axis=1),
            "+ noise": lambda: _noisy(logits, 0.7, rng),
        }[self.proxy]()
        model = {"D": lambda: true, "noisy": lambda: _noisy(logits, 1.0, rng), "P": lambda: proxy}[self.model]()
        return true, proxy, model


def _noisy(logits: Floats, deviation: float, rng: Generator) -> Floats:
    """Noise of this deviation on the difference of any two."""
    noise = rng.normal(scale=deviation / 2.0**0.5, size=logits.shape)
    return np.asarray(special.softmax(logits + noise, axis=1))


# ------------------------------------------------------------------------------------------------- guesses of two kinds


@dataclass(frozen=True)
class SteepRows(Named, Answered):
    """Rows of a few kinds, of which the model knows the distribution and the proxy knows less.

    Attributes
    ----------
    kinds
        For each its share, the proxy's distribution of the values and the true one.
    what
        What the kinds are like, for people.
    """

    kinds: tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...]
    what: str
    epsilon: float = 0.0
    rows: int = 2000
    placebo: int = 2000

    called: ClassVar[str] = "{what}, answers at epsilon={epsilon:g}, {rows} rows, {placebo} placebo rows"

    def known(self, rng: Generator) -> Iterable[tuple[Floats, Floats, Floats]]:
        return [self._known(size, rng) for size in (self.rows, self.placebo)]

    def _known(self, size: int, rng: Generator) -> tuple[Floats, Floats, Floats]:
        shares, proxies, true = (np.array(column) for column in zip(*self.kinds, strict=True))
        kind = rng.choice(shares.size, size=size, p=shares / shares.sum())
        return true[kind], proxies[kind], true[kind]


def _steep(*chances: tuple[float, ...]) -> tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...]:
    """A quarter of the rows at which the first value is all but certain, and three where the proxy is almost right."""
    found = []
    for proxy in chances:
        k = len(proxy)
        sure = (0.998, *[0.002 / (k - 1)] * (k - 1))
        almost = (proxy[0] + 0.001, *(p - 0.001 / (k - 1) for p in proxy[1:]))
        found += [(0.25 / len(chances), proxy, sure), (0.75 / len(chances), proxy, almost)]
    return tuple(found)


STEEP = _steep((0.5, 0.5))
"""One cell of the chance: where the model is surest it is always right, and otherwise half of the time."""
STEEP_CELLS = _steep((0.03, 0.49, 0.48), (0.15, 0.43, 0.42), (0.3, 0.36, 0.34), (0.6, 0.21, 0.19))
"""The same in four cells at once, three values."""
PROMOTED = ((0.3, (0.08, 0.45, 0.47), (0.22, 0.68, 0.10)), (0.7, (0.08, 0.45, 0.47), (0.08, 0.451, 0.469)))
"""Three values: an answer promotes the second one, which the model favours without it, too, but less than the first."""


def steep_rows(**how: Any) -> SteepRows:
    """Null success that drops within one cell."""
    return SteepRows(STEEP, "success that drops within a cell", **how)


def steep_cells(**how: Any) -> SteepRows:
    """Null success that drops within four cells, three values."""
    return SteepRows(STEEP_CELLS, "success that drops within four cells", **how)


def promoted_rows(**how: Any) -> SteepRows:
    """Three values, and answers that promote the second best one."""
    return SteepRows(PROMOTED, "answers that promote the second best value", **how)


# --------------------------------------------------------------------------------------------------- recognised rows


@dataclass(frozen=True)
class RecognisedRows(Named, Answered):
    """A true proxy, and a model that recognises its training rows: there alone it prefers guesses that are likelier.

    Nothing leaks of a value, so the bound by placebo rows is wrong and the bound against the proxy is right.
    """

    epsilon: float = 0.0
    rows: int = 2000
    placebo: int = 2000
    low: float = 0.201
    high: float = 0.349

    called: ClassVar[str] = (
        "rows that the model recognises, answers at epsilon={epsilon:g}, {rows} rows, {placebo} placebo rows"
    )

    def known(self, rng: Generator) -> Iterable[tuple[Floats, Floats, Floats]]:
        found = []
        for size, seen in ((self.rows, True), (self.placebo, False)):
            chance = rng.uniform(self.low, self.high, size)
            preferred = chance - self.low if seen else self.high - chance
            model = special.expit(special.logit(chance) + 0.1 + preferred)
            true = np.stack([chance, 1.0 - chance], axis=1)
            found.append((true, true, np.stack([model, 1.0 - model], axis=1)))
        return found
