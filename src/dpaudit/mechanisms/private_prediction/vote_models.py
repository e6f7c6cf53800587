"""Votes of randomly trained teachers as laws: estimated from trainings, with what that estimate is worth carried along.

Paper 002 puts the most likely laws into its simulation and audits that. Two samples of one law never give the same
estimate, so the difference of two estimates alone is then "detected" (THEORY 002-11). Here the law of the one teacher
that sees the record is bounded by exact limits in both worlds, and the least divergence within them is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, RenyiBound, relation
from dpaudit.divergences import as_orders, bernoulli_renyi
from dpaudit.mechanisms.private_prediction.laws import multinomial_argmax_probabilities
from dpaudit.mechanisms.private_prediction.leakage import Leakage

OTHERS = "all other teachers vote independently by the law estimated from the trainings without the record"
SPECIAL = "the votes of the teacher that sees the record are independent over its trainings"


@dataclass(frozen=True, kw_only=True, eq=False)
class VoteModel:
    """H = Mult(k, P) without the record, Mult(k - 1, P) + Mult(1, P') with it, for one query.

    Attributes
    ----------
    plain, special
        How often each class was voted for: by teachers that did not see the record, by teachers that did.
    teachers, sigma
        k, and the standard deviation of the noise.
    """

    plain: Any
    special: Any
    teachers: int
    sigma: float
    relation: Relation | str = Relation.SUBSTITUTE

    def __post_init__(self) -> None:
        for name in ("plain", "special"):
            counts = check.votes(name, getattr(self, name))
            if counts.sum() < 1.0 or not np.array_equal(counts, np.round(counts)):
                raise InputError(f"`{name}` must be counts of votes, at least one, got {counts.tolist()[:6]}.")
            object.__setattr__(self, name, check.read_only(counts))
        check.same_length(plain=self.plain, special=self.special)
        check.count("teachers", self.teachers, low=1)
        object.__setattr__(self, "relation", relation(self.relation))

    @property
    def classes(self) -> int:
        return int(self.plain.size)

    def leakage(self) -> Leakage:
        """Exact under the estimated laws: an estimate of what one answer leaks. More answers share their teachers."""
        law, odd = self.plain / self.plain.sum(), self.special / self.special.sum()
        return Leakage(present=odd @ self.by_vote, absent=law @ self.by_vote, shared=True, relation=self.relation)

    @cached_property
    def by_vote(self) -> NDArray[np.float64]:
        """The law of the answer given the special teacher's vote j, one line each (THEORY 4.3, linear structure)."""
        law = self.plain / self.plain.sum()
        return np.stack(
            [
                multinomial_argmax_probabilities(law, teachers=self.teachers, sigma=self.sigma, special=vote)
                for vote in np.eye(self.classes)
            ]
        )

    def bound(self, *, event: int, orders: Any, confidence: float = 0.95) -> RenyiBound:
        """A lower bound on what one answer leaks, from the 2-cut of the answer `event`, fixed before the trainings.

        The special teacher's law lies in a box with probability `confidence`: exact limits for every class, with the
        record and without. P(event) is linear in that law, so its least value with the record and its largest without
        are linear programs, and the nearest corner has the least divergence (THEORY 002-5). The record is taken to make
        the event likelier.
        """
        wanted, alpha = as_orders(orders), 1.0 - check.confidence(confidence)
        chances = self.by_vote[:, check.count("event", event, high=self.classes - 1)]
        level = alpha / (4.0 * self.classes)
        least = _extreme(chances, *_box(self.special, level), largest=False)
        most = _extreme(chances, *_box(self.plain, level), largest=True)
        found = [bernoulli_renyi(least, most, order) if least > most else 0.0 for order in wanted]
        return RenyiBound(
            orders=tuple(wanted),
            divergences=tuple(found),
            confidence=confidence,
            relation=relation(self.relation),
            method="2-cut of one answer, vote laws within exact limits",
            guarantee="conditional",
            assumptions=(OTHERS, SPECIAL),
            selection=f"answer {event}, fixed in advance",
        )


def _box(counts: NDArray[np.float64], level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = int(counts.sum())
    lower = np.array([_binomial.lower_limit(int(count), total, level) for count in counts])
    return lower, np.array([_binomial.upper_limit(int(count), total, level) for count in counts])


def _extreme(values: NDArray[np.float64], lower: Any, upper: Any, *, largest: bool) -> float:
    """The extreme of sum p_j values_j over laws p between the limits: what is free goes to the best values first.

    >>> _extreme(np.array([0.1, 0.9]), np.array([0.2, 0.3]), np.array([0.7, 0.8]), largest=True).__round__(6)
    0.74
    """
    law, free = np.array(lower, dtype=np.float64), 1.0 - float(np.sum(lower))
    for place in np.argsort(-values if largest else values, kind="stable"):
        added = min(free, float(upper[place] - lower[place]))
        law[place] += added
        free -= added
    return float(law @ values)
