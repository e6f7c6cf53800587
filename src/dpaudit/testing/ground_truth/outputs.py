"""Ground truth for given members, generated non-members and noisy votes, as samplers of evidence.

See theory:ground-truth#mechanisms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special

from dpaudit.bounds import Relation
from dpaudit.evidence import MemberScores, OutputCounts, PairedScores
from dpaudit.mechanisms.private_prediction import noisy_argmax_probabilities
from dpaudit.testing.ground_truth.scores import Named
from dpaudit.tradeoff import ApproximateDP, Gaussian, TradeOff


@dataclass(frozen=True)
class ShiftedMembers:
    """Members and non-members that differ by themselves: log-odds N(0, spread^2), known exactly.

    The model adds randomised response (`distribution` "response") or Gaussian noise ("Gaussian") on each membership. A
    Bayes attack adds what the features say; otherwise the attack uses the model's evidence alone.
    """

    parameter: float = 1.0
    rows: int = 600
    spread: float = 1.0
    distribution: str = "response"
    bayes: bool = False

    @property
    def name(self) -> str:
        kind = (
            f"{self.distribution} {'epsilon' if self.distribution == 'response' else 'mu'}={self.parameter:g}"
            if self.parameter
            else "no leakage"
        )
        attack = ", Bayes attack" if self.bayes else ""
        return f"given members, {kind}, log-odds spread {self.spread:g}{attack}, {self.rows} rows"

    @property
    def curve(self) -> TradeOff:
        return ApproximateDP(self.parameter) if self.distribution == "response" else Gaussian(self.parameter)

    def sample(self, rng: Generator) -> MemberScores:
        odds = rng.normal(scale=self.spread, size=self.rows)
        member = rng.random(self.rows) < special.expit(odds)
        evidence = self._evidence(np.where(member, 1.0, -1.0), rng)
        scores = evidence + odds if self.bayes else evidence * (1.0 + 1e-3 * rng.random(self.rows))
        propensity = special.expit(odds)
        return MemberScores(
            scores=scores, member=member, propensity=propensity, relation=Relation.SUBSTITUTE, sides="sign"
        )

    def _evidence(self, signs: NDArray[np.float64], rng: Generator) -> NDArray[np.float64]:
        """The log-likelihood ratio that the model gives away."""
        if self.distribution == "Gaussian":
            return self.parameter * (0.5 * self.parameter * signs + rng.normal(size=signs.size))
        answers = np.where(rng.random(signs.size) < special.expit(self.parameter), signs, -signs)
        return answers * (self.parameter or 1.0)


@dataclass(frozen=True)
class OutsideSupport(Named):
    """No leakage at all, but a share of the members lies outside the support of the non-members.

    See theory:errata#003-5.
    """

    rows: int = 10_000
    share: float = 0.05

    called: ClassVar[str] = "no leakage, {share:g} of members outside the support, {rows} rows"

    @property
    def curve(self) -> TradeOff:
        return Gaussian(0.0)

    def sample(self, rng: Generator) -> MemberScores:
        member = rng.random(self.rows) < 0.5
        alone = member & (rng.random(self.rows) < self.share)
        propensity = np.where(alone, 1.0, (1.0 - self.share) / (2.0 - self.share))
        scores = np.where(alone, 1.0, 0.0) + 1e-3 * rng.random(self.rows)
        return MemberScores(scores=scores, member=member, propensity=propensity, relation=Relation.SUBSTITUTE)


@dataclass(frozen=True)
class GeneratedPairs(Named):
    """Real or generated: the generator is off by `divergence`, the model leaks `epsilon` more (flat;
    theory:panoramia#region).

    Each guess "real" is right with probability sig(divergence), and sig(divergence + epsilon) with the model.
    """

    epsilon: float = 2.0
    divergence: float = 0.0
    items: int = 2000

    called: ClassVar[str] = "generated pairs, c={divergence:g}, epsilon={epsilon:g}, {items} items"

    @property
    def total(self) -> float:
        return self.divergence + self.epsilon

    def sample(self, rng: Generator) -> PairedScores:
        included = rng.random(self.items) < 0.5
        scores = [self._scores(included, x, rng) for x in (self.divergence, self.divergence + self.epsilon)]
        return PairedScores(included=included, baseline=scores[0], attack=scores[1])

    def _scores(self, included: NDArray[np.bool_], x: float, rng: Generator) -> NDArray[np.float64]:
        right = rng.random(included.size) < special.expit(x)
        return np.where(right == included, 1.0 + rng.random(included.size), -1.0 - rng.random(included.size))


@dataclass(frozen=True)
class SignSum(Named):
    """sum of v(x) in {-1, +1} + Laplace noise, epsilon-DP under add/remove and 2 epsilon under replacement.

    See theory:ground-truth#sign-sum.

    One item: the coin says whether the shown record (v = +1, rare) was trained on, or another (v = -1) in its place.
    """

    epsilon: float = 1.0
    items: int = 2000

    called: ClassVar[str] = "sign-sum epsilon={epsilon:g} under add/remove, {items} items"

    @property
    def total(self) -> float:
        """Closeness 0, and twice epsilon under replacement."""
        return 2.0 * self.epsilon

    def sample(self, rng: Generator) -> PairedScores:
        included = rng.random(self.items) < 0.5
        released = np.where(included, 1.0, -1.0) + rng.laplace(scale=1.0 / self.epsilon, size=self.items)
        return PairedScores(included=included, baseline=rng.random(self.items), attack=released)


@dataclass(frozen=True)
class SignSumMembers(SignSum):
    """The same release seen through given members, no shift: replacement is what it certifies.

    See theory:adjacency#relations.
    """

    called: ClassVar[str] = "given members, sign-sum epsilon={epsilon:g} under add/remove, {items} rows"

    def sample(self, rng: Generator) -> MemberScores:  # type: ignore[override]
        pairs = super().sample(rng)
        half = np.full(self.items, 0.5)
        return MemberScores(
            scores=pairs.attack, member=pairs.included, propensity=half, relation=Relation.SUBSTITUTE, sides="sign"
        )


@dataclass(frozen=True)
class NoisyVotes:
    """The noisy argmax of two neighbouring histograms, asked `queries` times with fresh noise: exact probabilities."""

    present: tuple[float, ...] = (14.0, 12.0, 10.0, 8.0, 6.0)
    absent: tuple[float, ...] = (13.0, 13.0, 10.0, 8.0, 6.0)
    sigma: float = 2.0
    trials: int = 20_000
    queries: int = 1

    @property
    def name(self) -> str:
        many = f", {self.queries} queries" if self.queries > 1 else ""
        same = ", equal votes" if self.present == self.absent else ""
        return f"noisy argmax sigma={self.sigma:g}{same}{many}, {self.trials} trials"

    @property
    def distributions(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        p, q = (noisy_argmax_probabilities(votes, sigma=self.sigma) for votes in (self.present, self.absent))
        return p / p.sum(), q / q.sum()

    def sample(self, rng: Generator) -> OutputCounts:
        p, q = (rng.multinomial(self.trials, distribution, size=self.queries) for distribution in self.distributions)
        return OutputCounts(present=p, absent=q, relation=Relation.SUBSTITUTE, independent=True)


@dataclass(frozen=True)
class LatentBit(Named):
    """Teachers that share a hidden bit, Ber(.6) with the record and Ber(.5) without; each answer flips it with .1.

    The joint divergence of many answers is far below the sum of the single ones (theory:ground-truth#latent-bit).
    """

    queries: int = 20
    trials: int = 20_000
    rates: tuple[float, float] = (0.6, 0.5)
    flip: float = 0.1

    called: ClassVar[str] = "latent-bit teachers, {queries} queries, {trials} trials"

    def joint_divergence(self, order: float) -> float:
        """D_order of the number of ones among all answers, which is sufficient."""
        from scipy import stats

        ones = np.arange(self.queries + 1)
        given = [stats.binom.pmf(ones, self.queries, rate) for rate in (self.flip, 1.0 - self.flip)]
        p, q = ((1.0 - rate) * given[0] + rate * given[1] for rate in self.rates)
        return float(np.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0))

    def sample(self, rng: Generator) -> OutputCounts:
        worlds = []
        for rate in self.rates:
            bit = rng.random(self.trials) < rate
            answers = bit[:, None] ^ (rng.random((self.trials, self.queries)) < self.flip)
            ones = answers.sum(axis=0)
            worlds.append(np.stack([self.trials - ones, ones], axis=1))
        return OutputCounts(present=worlds[0], absent=worlds[1], relation=Relation.SUBSTITUTE)
