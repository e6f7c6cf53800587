"""What an attack instance leaks, exactly, once the distributions of its answers in both worlds are known.

See theory:private-prediction#composition.

Independent answers compose: their Renyi divergences add, and their epsilon at delta comes from composing privacy
losses, never from a Renyi conversion. Answers that share random teachers do not: there the sum of divergences can be
far above the joint one, and is refused. Where the hidden state and the answers given it are known, `mixed_answers`
has the joint distribution.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled
from dpaudit.bounds import Relation, relation
from dpaudit.mechanisms.private_prediction.answers import Confident, NoisyVotes
from dpaudit.mechanisms.private_prediction.distributions import noisy_argmax_probabilities
from dpaudit.tradeoff import as_orders, renyi_divergence

__all__ = ["Leakage", "Leaked", "both_ways", "data_dependent_renyi", "mixed_answers", "vote_leakage"]

RAREST = 1e-250
MOST_OUTCOMES = 2_000_000
"""Different counts of answers that a joint distribution may have."""
SHARED = "answers that share random teachers do not compose: the sum of their divergences may exceed the joint one."


LEAKED = (
    "this attack instance leaks epsilon {epsilon:down3} to {above:up3} at delta {delta:g}   {guarantee}, {answers:,} "
    "answer{plural}, {relation} of one record{assumptions}"
)
IF = ", if {assumption}"


@dataclass(frozen=True, kw_only=True)
class Leaked:
    """The epsilon of one attack instance: of *these* two worlds. No promise of the mechanism, no bound from samples.

    Attributes
    ----------
    epsilon, above
        It is at least `epsilon` and at most `above`: privacy losses were composed once rounded down and once up.
    assumptions
        What the distributions of the answers rest on; none where they are exact. With some it is an estimate.
    """

    epsilon: float
    above: float
    delta: float
    relation: Relation
    answers: int
    assumptions: tuple[Assumption, ...] = ()

    @property
    def guarantee(self) -> str:
        return "estimate" if self.assumptions else "exact"

    def __str__(self) -> str:
        names = ("epsilon", "above", "delta", "guarantee", "answers", "relation")
        shown = {name: getattr(self, name) for name in names}
        assumptions = "".join(filled(IF, {"assumption": one}) for one in self.assumptions)
        return filled(LEAKED, {**shown, "plural": "s" if self.answers > 1 else "", "assumptions": assumptions})


@dataclass(frozen=True, kw_only=True, eq=False)
class Leakage:
    """Answers in two worlds: one pair of distributions a query.

    Attributes
    ----------
    present, absent
        Distributions (queries, answers) of each answer alone, in the world with the record and in that without.
    shared
        Whether the answers hang on the same random teachers; they then have no distribution together that could be had
        from these.
    assumptions
        What the distributions rest on, where they were fitted: whatever is read off them is then an estimate.
    """

    present: Any
    absent: Any
    shared: bool
    relation: Relation | str
    assumptions: tuple[Assumption, ...] = ()

    def __post_init__(self) -> None:
        both = [np.atleast_2d(np.asarray(each, dtype=np.float64)) for each in (self.present, self.absent)]
        if both[0].shape != both[1].shape:
            raise InputError(f"`present` and `absent` must have one shape, got {both[0].shape} and {both[1].shape}.")
        for name, distributions in zip(("present", "absent"), both, strict=True):
            checked = np.stack([check.distribution(name, distribution) for distribution in distributions])
            object.__setattr__(self, name, check.read_only(checked))
        object.__setattr__(self, "relation", relation(self.relation))

    def __len__(self) -> int:
        return len(self.present)

    def only(self, *queries: int) -> Leakage:
        """The same of some of the queries."""
        chosen = list(queries)
        return replace(self, present=self.present[chosen], absent=self.absent[chosen])

    def each(self, orders: Any, *, backward: bool = False) -> NDArray[np.float64]:
        """D(present || absent) of every answer alone, (queries, orders); `backward` is the other direction."""
        pairs = zip(self.absent, self.present, strict=True) if backward else zip(self.present, self.absent, strict=True)
        return np.array([renyi_divergence(p, q, orders=orders) for p, q in pairs])

    def together(self, orders: Any, *, repeats: int = 1, backward: bool = False) -> NDArray[np.float64]:
        """The same of all answers, each asked `repeats` times: their sum. Refused where they share random teachers."""
        count = check.count("repeats", repeats, low=1)
        self._refuse_shared(count)
        return count * self.each(orders, backward=backward).sum(axis=0)

    def epsilon(self, delta: float, *, repeats: int = 1) -> Leaked:
        """The epsilon at delta of all answers, by composing their privacy losses; refused where they share teachers."""
        self._refuse_shared(repeats)
        pairs = list(zip(self.present, self.absent, strict=True))
        low, high = accounting.leaked_epsilon(pairs, delta=delta, repeats=repeats)
        return Leaked(
            epsilon=low,
            above=high,
            delta=delta,
            relation=relation(self.relation),
            answers=repeats * len(self),
            assumptions=self.assumptions,
        )

    def _refuse_shared(self, repeats: int) -> None:
        if self.shared and len(self) * repeats > 1:
            raise InputError(
                SHARED,
                "`mixed_answers` has the joint distribution where the hidden votes are known; `each` is always valid.",
            )


def both_ways(p: Any, q: Any, orders: Any) -> NDArray[np.float64]:
    """The larger of D(p || q) and D(q || p), for each order."""
    return np.maximum(renyi_divergence(p, q, orders=orders), renyi_divergence(q, p, orders=orders))


def vote_leakage(
    present: Any,
    absent: Any,
    *,
    sigma: float,
    noise: str = "gaussian",
    confident: Confident | None = None,
    relation: Relation | str = Relation.SUBSTITUTE,
) -> Leakage:
    """What fixed votes leak: conditional on the trained teachers, answers differ by their noise alone and compose.

    A vote that moves is by default taken as another record in the place of one (substitution). With `confident` no
    answer is an answer too.
    """
    mechanism = NoisyVotes(sigma=sigma, classes=np.atleast_2d(present).shape[1], noise=noise, confident=confident)
    distributions = [[mechanism.distribution(line) for line in np.atleast_2d(votes)] for votes in (present, absent)]
    _refuse_underflow(np.array(distributions))
    return Leakage(present=distributions[0], absent=distributions[1], shared=False, relation=relation)


def mixed_answers(
    present: Any, absent: Any, answers: Any, *, repeats: int, relation: Relation | str = Relation.SUBSTITUTE
) -> Leakage:
    """The joint distribution of one query asked again and again: a hidden state is drawn once, then answers are.

    `present` and `absent` are the distributions of the hidden state (the votes, or the teachers) in both worlds, and
    `answers[h]` the distribution of an answer given state h. How often each answer comes is all there is to see, and
    its distribution is a mixture of multinomial ones. Outcomes that are next to impossible in both worlds are joined
    with the likeliest.

    >>> coin = [[0.9, 0.1], [0.1, 0.9]]  # each answer flips the hidden bit with probability 0.1
    >>> joint = mixed_answers([0.4, 0.6], [0.5, 0.5], coin, repeats=50)
    >>> joint.together(2.0).round(4).tolist()
    [0.0392]
    """
    hidden = [
        check.distribution(name, distribution) for name, distribution in (("present", present), ("absent", absent))
    ]
    given = np.stack(
        [
            check.distribution("answers", distribution)
            for distribution in np.atleast_2d(np.asarray(answers, dtype=np.float64))
        ]
    )
    count = check.count("repeats", repeats, low=1)
    check.same_length(present=hidden[0], absent=hidden[1], answers=given)
    size = math.comb(count + given.shape[1] - 1, given.shape[1] - 1)
    if size > MOST_OUTCOMES:
        raise InputError(
            f"{count} answers of {given.shape[1]} kinds have {size:,} different counts; at most {MOST_OUTCOMES:,} fit.",
            "ask about fewer answers, or join answers into fewer kinds: that never leaks more.",
        )
    seen = _compositions(count, given.shape[1])
    ways = special.gammaln(count + 1.0) - special.gammaln(seen + 1.0).sum(axis=1)
    logs = np.stack([special.xlogy(seen, distribution).sum(axis=1) for distribution in given], axis=1)
    with np.errstate(divide="ignore"):
        both = np.stack(
            [special.logsumexp(ways[:, None] + logs + np.log(distribution), axis=1) for distribution in hidden]
        )
    tiny = both < math.log(RAREST)
    alone = tiny & (both > -np.inf) & ~tiny[::-1]  # rare in one world only: its ratio matters
    if np.any(alone):
        _refuse_underflow(np.zeros(1))
    distributions = np.where(
        tiny, 0.0, np.exp(both)
    )  # what is rare in both goes to the likeliest outcome: no more leaks
    distributions[:, np.argmax(distributions.sum(axis=0))] += 1.0 - distributions.sum(axis=1)
    seen_ever = distributions.sum(axis=0) > 0.0
    return Leakage(
        present=distributions[0, seen_ever], absent=distributions[1, seen_ever], shared=True, relation=relation
    )


def _refuse_underflow(found: NDArray[np.float64]) -> None:
    """Probabilities that floats cannot hold would make divergences 0 or infinite."""
    if np.any(found < RAREST):
        raise InputError(
            f"an answer's probability is below {RAREST:g}, too small to be computed with.",
            "use more noise or fewer answers; such an answer will not be seen.",
        )


def _compositions(total: int, parts: int) -> NDArray[np.int64]:
    """All ways to write `total` as an ordered sum of `parts` counts."""
    bars = np.array(list(itertools.combinations(range(total + parts - 1), parts - 1)), dtype=np.int64)
    edges = np.concatenate(
        [np.full((len(bars), 1), -1), bars.reshape(len(bars), -1), np.full((len(bars), 1), total + parts - 1)], axis=1
    )
    return np.diff(edges, axis=1) - 1


def data_dependent_renyi(
    votes: Any, *, sigma: float, orders: Any, noise: str = "gaussian", both: bool = True
) -> NDArray[np.float64]:
    """The exact data-dependent bound of one answer: the largest divergence over every vote that could be another one.

    Every neighbour of a histogram moves one vote from a class that has some to another class. With `both`, of
    D(votes || neighbour) and D(neighbour || votes) the larger; without, the first, which is what the union bound of
    Papernot et al. 2018 (`accounting.noisy_argmax_renyi`) is about. (On [30, 1, 1] with sigma 2 at order 5 the second
    is 52 times that bound.) Either is as private as the votes themselves: not to be published as it is.

    >>> exact = data_dependent_renyi([14, 12, 10, 8, 6], sigma=2.0, orders=[2.0])
    >>> bool(exact[0] < accounting.noisy_argmax_renyi(sigma=2.0, orders=[2.0])[0])
    True
    """
    counts = check.votes("votes", votes)
    if counts.min() < 0.0 or not np.array_equal(counts, np.round(counts)):
        raise InputError(f"`votes` must be whole numbers from 0, got {counts.tolist()[:6]}.")
    base = noisy_argmax_probabilities(counts, sigma=sigma, noise=noise)
    _refuse_underflow(base)
    best = np.zeros(len(as_orders(orders)))
    compare = both_ways if both else lambda p, q, orders: renyi_divergence(p, q, orders=orders)
    for source, target in itertools.permutations(range(counts.size), 2):
        if counts[source] >= 1.0:
            moved = counts.copy()
            moved[[source, target]] += [-1.0, 1.0]
            other = noisy_argmax_probabilities(moved, sigma=sigma, noise=noise)
            _refuse_underflow(other)
            best = np.maximum(best, compare(base, other, orders))
    return best
