"""Votes of randomly trained teachers as distributions, estimated from trainings.

Paper 002 puts the most likely distributions into its simulation and audits that. Two samples of one distribution never
give the same estimate, so the difference of two estimates alone is then "detected"
(theory:private-prediction#estimated-votes): `leakage`, which does the same exactly instead of by simulation, is an
estimate. `bound` is about less, and holds: given the votes of all other teachers, the distribution of the one that sees
the record is bounded by exact limits in both worlds, and the least divergence within them is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled
from dpaudit.bounds import Relation, RenyiBound, relation
from dpaudit.mechanisms.private_prediction.distributions import (
    multinomial_argmax_probabilities,
    noisy_argmax_probabilities,
)
from dpaudit.mechanisms.private_prediction.leakage import Leakage
from dpaudit.tradeoff import as_orders, bernoulli_renyi

ONE_ANSWER = "answer {event}, fixed in advance"


ESTIMATED = "theory:private-prediction#estimated-votes"


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(**{"id": id, "sentence": sentence, "answered_by": "developer", "theory": ESTIMATED, **more})


GIVEN = _assumed(
    "other-votes-fixed",
    ("the mechanism is the one with all other teachers' votes as they are: only one teacher and the noise are random"),
)
SPECIAL = _assumed(
    "one-teacher-retrained",
    (
        "the votes of the one teacher are independent over its trainings, with the record and without it, each on rows "
        "drawn as the mechanism draws them given the others'"
    ),
)
FITTED = _assumed("fitted-vote-distributions", "the distributions of a vote are the shares of the trainings")
INDEPENDENT = _assumed(
    "independent-teachers",
    "teachers vote independently of each other",
    theory="theory:private-prediction#multinomial-votes",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class VoteModel:
    """H = Mult(k, P) without the record, Mult(k - 1, P) + Mult(1, P') with it, for one query.

    Attributes
    ----------
    plain, special
        How often each class was voted for: by teachers that did not see the record, by teachers that did. For `leakage`
        votes of all teachers may be pooled; for `bound` they must be those of the one teacher, one a training.
    teachers, sigma
        k, and the standard deviation of the noise.
    """

    plain: Any
    special: Any
    teachers: int
    sigma: float
    relation: Relation | str

    def __post_init__(self) -> None:
        for name in ("plain", "special"):
            counts = check.votes(name, getattr(self, name))
            if counts.sum() < 1.0 or not np.array_equal(counts, np.round(counts)):
                raise InputError(f"`{name}` must be counts of votes, at least one, got {counts.tolist()[:6]}.")
            object.__setattr__(self, name, check.read_only(counts))
        check.same_length(plain=self.plain, special=self.special)
        check.count("teachers", self.teachers, low=1)
        check.number("sigma", self.sigma, low=1e-9)
        object.__setattr__(self, "relation", relation(self.relation))

    @property
    def classes(self) -> int:
        return int(self.plain.size)

    def leakage(self) -> Leakage:
        """Exact under the estimated distributions: an estimate of what one answer leaks. More share teachers."""
        distribution, odd = self.plain / self.plain.sum(), self.special / self.special.sum()
        distributions = [
            multinomial_argmax_probabilities(distribution, teachers=self.teachers, sigma=self.sigma, special=special)
            for special in (odd, distribution)
        ]
        return Leakage(
            present=distributions[0],
            absent=distributions[1],
            shared=True,
            relation=self.relation,
            assumptions=(FITTED, INDEPENDENT),
        )

    def bound(self, *, others: Any, event: int, orders: Any, confidence: float = 0.95) -> RenyiBound:
        """A lower bound on what one answer leaks, given the votes of the other teachers (a histogram of k - 1 votes).

        It is the 2-cut of the answer `event`, fixed before the trainings, which the record is taken to make likelier.
        `plain` and `special` must then be votes of *the* teacher that gets the record, over independent trainings
        without and with it: its distribution lies in a box with probability `confidence`, by exact limits for every
        class in both worlds. P(event) is linear in that distribution, so its least value with the record and its
        largest without are found at once, and the nearest corner has the least divergence
        (theory:private-prediction#two-cut).
        """
        rest = check.votes("others", others)
        if rest.size != self.classes or rest.sum() != self.teachers - 1:
            raise InputError(
                f"`others` must be the {self.teachers - 1} votes of the other teachers on {self.classes} classes, got "
                f"{rest.sum():g} votes on {rest.size}."
            )
        wanted, alpha = as_orders(orders), 1.0 - check.confidence(confidence)
        place = check.count("event", event, high=self.classes - 1)
        chances = np.array(
            [noisy_argmax_probabilities(rest + vote, sigma=self.sigma)[place] for vote in np.eye(rest.size)]
        )
        level = alpha / (4.0 * self.classes)
        least = _extreme(chances, *_box(self.special, level), largest=False)
        most = _extreme(chances, *_box(self.plain, level), largest=True)
        found = [bernoulli_renyi(least, most, order) if least > most else 0.0 for order in wanted]
        return RenyiBound(
            orders=tuple(wanted),
            divergences=tuple(found),
            confidence=confidence,
            relation=relation(self.relation),
            method="2-cut of one answer, one teacher's vote distribution within exact limits",
            guarantee="conditional",
            assumptions=(GIVEN, SPECIAL),
            selection=filled(ONE_ANSWER, {"event": event}),
        )


def _box(counts: NDArray[np.float64], level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = int(counts.sum())
    lower = np.array([_binomial.lower_limit(int(count), total, level) for count in counts])
    return lower, np.array([_binomial.upper_limit(int(count), total, level) for count in counts])


def _extreme(values: NDArray[np.float64], lower: Any, upper: Any, *, largest: bool) -> float:
    """The extreme of sum p_j values_j over distributions p between the limits: what is free goes to the best values.

    >>> _extreme(np.array([0.1, 0.9]), np.array([0.2, 0.3]), np.array([0.7, 0.8]), largest=True).__round__(6)
    0.74
    """
    distribution, free = np.array(lower, dtype=np.float64), 1.0 - float(np.sum(lower))
    for place in np.argsort(-values if largest else values, kind="stable"):
        added = min(free, float(upper[place] - lower[place]))
        distribution[place] += added
        free -= added
    return float(distribution @ values)
