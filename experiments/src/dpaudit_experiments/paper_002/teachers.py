"""Paper 002, figures 3, 4 and appendix E: PATE and CaPC under its three adversaries; PromptPATE: `prompts`.

PATE deals rows at random and trains at random, so its answers share random teachers: their leakage is *not* the sum
over answers (theory:private-prediction#composition). What stands here for PATE is one answer, exact under vote
distributions estimated from trainings (an estimate), beside a cap for any number of answers to one query: the votes'
own divergence, which the answers cannot exceed, and a floor: what the same estimate shows for a record that is not
there. CaPC's parties are fixed and a logistic regression has no randomness, so its votes are a function of the data:
answers differ by their noise alone and compose. Their epsilon comes from exact distributions, with every answer's
privacy loss rounded down, by so little that rounded up it would be about a hundredth more.

PATE and CaPC get one record more (add/remove); the adversary can choose the party, and takes one whose vote the record
is to turn (`turned`); in PATE chance chooses. A share is the divergence of order 2 of an answer over the largest that
any move of one teacher's vote could make, in the larger direction of each: how much of what is possible an adversary
reaches. The record of Pois-NatQ is made from a row that is not among the queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import accounting
from dpaudit.attacks import prediction as adversaries
from dpaudit.bounds import Relation
from dpaudit.execution import Execution, distinct_seeds, stream
from dpaudit.mechanisms.label_dp import Logistic
from dpaudit.mechanisms.label_dp.learners import one_hot
from dpaudit.mechanisms.private_prediction import (
    Leakage,
    NoisyVotes,
    RandomTeachers,
    data_dependent_renyi,
    multinomial_argmax_probabilities,
    vote_leakage,
)
from dpaudit.mechanisms.private_prediction.ensembles import counted
from dpaudit.mechanisms.private_prediction.leakage import both_ways
from dpaudit_experiments import data
from dpaudit_experiments.common.figure import Rows, Sizes

DELTA, COLUMNS = 1e-6, 50
SETS = {"MNIST": (250, 40.0), "Fashion-MNIST": (250, 40.0), "CIFAR-10": (200, 25.0)}
"""Teachers and noise, as in the paper."""
ORDERS = (*np.arange(1.25, 16.01, 0.25).tolist(), 20.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)
ADVERSARIES = ("Nat-AdvQ", "Pois-AdvQ", "Pois-NatQ")
LEARNER = Logistic(strength=1.0)


@dataclass(frozen=True, kw_only=True)
class TeacherScale:
    sets: tuple[str, ...] = ("MNIST", "Fashion-MNIST", "CIFAR-10")
    queries: int = 100
    trainings: int = 20
    special: int = 50
    answers: int = 1000
    teachers: int | None = None
    fetched: bool = True


@lru_cache(maxsize=1)
def rows_of(name: str, scale: TeacherScale) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Features and labels of the training rows, and of the queries and one row more, which Pois-NatQ's record is made
    from; principal components come from other test rows."""
    x: NDArray[Any]
    test_x: NDArray[Any]
    points = scale.queries + 1
    if not scale.fetched:
        x, y = data.digits()
        return x[:1200], y[:1200], x[1200 : 1200 + points], y[1200 : 1200 + points]
    if name == "CIFAR-10":
        x, y, test_x, test_y = data.cifar10_features(None, train=20_000, test=2000, auxiliary=5000, columns=COLUMNS)
    else:
        x, y, test_x, test_y = data.mnist() if name == "MNIST" else data.fashion_mnist()
        flat, seen = (part.reshape(len(part), -1).astype(np.float32) / np.float32(255) for part in (x, test_x))
        x, test_x = data.pca(flat, seen, fitted_on=seen[-5000:], columns=COLUMNS)
    return x, y, test_x[:points], test_y[:points]


def size_of(name: str, scale: TeacherScale) -> tuple[int, float]:
    teachers, sigma = SETS[name]
    return (teachers, sigma) if scale.teachers is None else (scale.teachers, sigma * scale.teachers / teachers)


@dataclass(frozen=True)
class Trained:
    """One training of all teachers: the votes on every query, and on the row more."""

    name: str
    scale: TeacherScale

    def __call__(self, seed: int) -> list[float]:
        x, y, asked, _ = rows_of(self.name, self.scale)
        teachers, _ = size_of(self.name, self.scale)
        ensemble = RandomTeachers(learner=LEARNER, classes=10, teachers=teachers)
        return [float(v) for v in ensemble.votes((x, y), asked, seed).ravel()]


def turned(each: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """The teacher that gets a record with its label, for each query, when the adversary can choose.

    The first that votes as most do and not for the label, else the first that does not vote for it.
    """
    votes = counted(each, classes)
    useful = each != labels
    common = useful & (each == votes.argmax(axis=1))
    return np.where(common.any(axis=0), common.argmax(axis=0), useful.argmax(axis=0))


def usual(each: NDArray[np.int64], classes: int) -> int:
    """The teacher that votes most often as most do: who gets a record that is to reach many queries."""
    return int((each == counted(each, classes).argmax(axis=1)).sum(axis=1).argmax())


@dataclass(frozen=True)
class Record:
    """A crafted record: the row that it is made from (None: no record), its label, the party that gets it, and the
    queries that it is asked about."""

    row: int | None
    label: int
    party: int
    queries: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Watched:
    """What a record does to the one teacher that gets it, one line a query: ten counts of votes, of fresh teachers that
    have it (PATE), and the vote of the chosen party (CaPC)."""

    name: str
    scale: TeacherScale
    seed: int

    def __call__(self, record: Record) -> list[float]:
        x, y, points, _ = rows_of(self.name, self.scale)
        teachers, _ = size_of(self.name, self.scale)
        shown = points[list(record.queries)]
        found = np.zeros((len(shown), 11))
        for own in distinct_seeds(self.seed, f"special {record.row} {record.label}", self.scale.special):
            part = stream(own, "its rows").random(len(y)) < 1.0 / teachers
            votes = self._taught(x[part], y[part], record, own).predict_proba(shown).argmax(axis=1)
            found[np.arange(len(shown)), votes] += 1.0
        party = np.array_split(np.arange(len(y)), teachers)[record.party]
        found[:, 10] = self._taught(x[party], y[party], record, 0).predict_proba(shown).argmax(axis=1)
        return [float(value) for value in found.ravel()]

    def _taught(self, x: Any, y: Any, record: Record, seed: int) -> Any:
        if record.row is not None:
            x, y = adversaries.natural(x, y, rows_of(self.name, self.scale)[2][record.row], record.label)
        return LEARNER.fit(x, one_hot(y, 10), seed=seed)


@dataclass(frozen=True, eq=False)
class Distribution:
    """The exact distributions of one answer: no record, each special teacher, one that votes for each class."""

    teachers: int
    sigma: float
    plain: NDArray[np.float64] = field(repr=False)
    special: NDArray[np.float64] = field(repr=False)

    def __call__(self, query: int) -> list[float]:
        distribution = self.plain[query] / self.plain[query].sum()
        odd = [each[query] / each[query].sum() for each in self.special]
        found = [
            multinomial_argmax_probabilities(distribution, teachers=self.teachers, sigma=self.sigma, special=s)
            for s in (distribution, *odd, *np.eye(10))
        ]
        return [float(value) for each in found for value in each]


@lru_cache(maxsize=1)
def measured(scale: TeacherScale, seed: int, execution: Execution) -> Rows:
    """One line for each set, algorithm and adversary: figures 3, 4 and appendix E read the same ones."""
    rows: Rows = []
    for name in scale.sets:
        x, y, points, truth = rows_of(name, scale)
        teachers, sigma = size_of(name, scale)
        seeds = distinct_seeds(seed, f"{name}, trainings", scale.trainings)
        lines = execution.map(Trained(name, scale), seeds, title=f"{name}, trainings")
        plain = np.array(lines).reshape(scale.trainings, scale.queries + 1, 10).sum(axis=0)
        parties = _parties(x, y, points, teachers)
        records, chosen = _records(plain, parties, truth, scale.queries)
        flat = [record for part in records for record in part]
        lines = execution.map(Watched(name, scale, seed), flat, title=f"{name}, crafted records")
        found = np.concatenate([np.array(line).reshape(-1, 11) for line in lines]).reshape(4, scale.queries, 11)
        plain, parties = plain[:-1], parties[:, :-1]
        special = found[:, :, :10]
        distributions = np.array(
            execution.map(
                Distribution(teachers, sigma, plain, special), range(scale.queries), title=f"{name}, distributions"
            )
        )
        rows += _pate(name, distributions.reshape(scale.queries, 15, 10), plain, special)
        moved = [
            Turned(
                adversary, np.take_along_axis(parties, chosen[place][None], axis=0)[0], found[place, :, 10].astype(int)
            )
            for place, adversary in enumerate(ADVERSARIES)
        ]
        about = {"data": name, "algorithm": "CaPC", "relation": Relation.ADD_REMOVE.value}
        rows += fixed_rows(about, moved, parties, classes=10, sigma=sigma, answers=scale.answers, execution=execution)
    return rows


def _records(
    plain: NDArray[np.float64], parties: NDArray[np.int64], truth: NDArray[Any], queries: int
) -> tuple[list[list[Record]], list[NDArray[np.int64]]]:
    """The records of each adversary, and one that is not there; and the party that gets each, for every query."""
    wrong, every = adversaries.runner_up(plain), tuple(range(queries))
    found, chosen = [], []
    for labels in (np.asarray(truth, dtype=np.int64), wrong):
        who = turned(parties[:, :queries], labels[:queries], 10)
        found.append([Record(q, int(labels[q]), int(who[q]), (q,)) for q in every])
        chosen.append(who)
    common = usual(parties[:, :queries], 10)
    chosen.append(np.full(queries, common))
    found.append([Record(queries, int(wrong[queries]), common, every)])
    return [*found, [Record(None, 0, common, every)]], chosen


def _parties(x: Any, y: Any, asked: Any, teachers: int) -> NDArray[np.int64]:
    """Votes of fixed parties, (parties, queries): the rows in their order, cut into equal parts."""
    parts = np.array_split(np.arange(len(y)), teachers)
    models = (LEARNER.fit(x[part], one_hot(y[part], 10), seed=0) for part in parts)
    return np.stack([model.predict_proba(asked).argmax(axis=1) for model in models])


def _pate(name: str, distributions: NDArray[np.float64], plain: Any, special: Any) -> Rows:
    rows: Rows = []
    always = distributions[:, 5:]
    largest = np.max(
        [_larger(always[:, a], always[:, c]) for a in range(10) for c in range(a)], axis=0
    )  # one vote moved from a to c
    floor = _larger(distributions[:, 4], distributions[:, 0])
    for place, adversary in enumerate(ADVERSARIES):
        one = _larger(distributions[:, 1 + place], distributions[:, 0])
        smooth = [(each + 0.5) / (each + 0.5).sum(axis=1, keepdims=True) for each in (special[place], plain)]
        rows.append(
            {
                "data": name,
                "algorithm": "PATE",
                "relation": Relation.ADD_REMOVE.value,
                "adversary": adversary,
                "answers": 1,
                **_divergences(one, largest),
                "floor_divergence_2_estimate": float(floor.mean()),
                "cap_for_repeated_answers_estimate": float(_larger(*smooth)[int(np.argmax(one))]),
                "epsilon": None,
                "mean_epsilon": None,
                "exact_data_dependent_epsilon": None,
                "published_data_dependent_epsilon": None,
                "promised_epsilon": None,
            }
        )
    return rows


def _larger(present: Any, absent: Any) -> NDArray[np.float64]:
    """The larger direction's divergence of order 2, for each query."""
    return np.array([float(both_ways(p, q, [2.0])[0]) for p, q in zip(present, absent, strict=True)])


def _divergences(one: NDArray[np.float64], largest: NDArray[np.float64]) -> dict[str, float]:
    worst = int(np.argmax(one))
    return {
        "worst_divergence_2_estimate": float(one[worst]),
        "mean_divergence_2_estimate": float(one.mean()),
        "worst_share_estimate": float(one[worst] / largest[worst]),
        "total_share_estimate": float(one.sum() / largest.sum()),
    }


@dataclass(frozen=True, eq=False)
class Turned:
    """An adversary's effect on an ensemble whose votes are a function of the data: the vote of the one teacher that has
    its record, before and after, for every query. Natural queries leave out the one that the record was made from."""

    adversary: str
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    left_out: int | None = None

    @property
    def natural(self) -> bool:
        return self.adversary.startswith("Pois-NatQ")

    def moved(self, fixed: NDArray[np.float64]) -> NDArray[np.float64]:
        found, lines = fixed.copy(), np.arange(len(fixed))
        found[lines, self.before] -= 1.0
        found[lines, self.after] += 1.0
        return found


@dataclass(frozen=True, eq=False)
class Composed:
    """The epsilon of so many answers to one query."""

    leakage: Leakage = field(repr=False)
    answers: int

    def __call__(self, query: int) -> list[float]:
        own = self.leakage.only(query)
        if np.array_equal(own.present, own.absent):
            return [0.0]
        return [own.epsilon(DELTA, repeats=self.answers).epsilon]


def fixed_rows(
    about: dict[str, str],
    turns: list[Turned],
    each: NDArray[np.int64],
    *,
    classes: int,
    sigma: float,
    answers: int,
    execution: Execution,
) -> Rows:
    """Lines of an ensemble whose votes, `each` (teachers, queries), are a function of the data."""
    rows: Rows = []
    fixed = counted(each, classes).astype(np.float64)
    relation = Relation(about["relation"])
    promised = NoisyVotes(sigma=sigma, classes=classes, relation=relation).claim(DELTA, answers)
    largest = np.array([data_dependent_renyi(line, sigma=sigma, orders=[2.0])[0] for line in fixed])
    exact, published = (
        np.array([bound(line, sigma=sigma, orders=ORDERS) for line in fixed]) for bound in (_exact, _published)
    )
    for turn in turns:
        leak = vote_leakage(turn.moved(fixed), fixed, sigma=sigma, relation=relation)
        one = _larger(leak.present, leak.absent)
        kept = np.flatnonzero(np.arange(len(fixed)) != (-1 if turn.left_out is None else turn.left_out))
        alone: list[float] = []
        if turn.natural:
            chosen = kept
            repeats = max(answers // len(chosen), 1)
            epsilon = leak.only(*chosen.tolist()).epsilon(DELTA, repeats=repeats).epsilon
        else:
            title = " ".join((about["data"], about["algorithm"], turn.adversary))
            _, first, place = np.unique(
                np.concatenate([leak.present, leak.absent], axis=1), axis=0, return_index=True, return_inverse=True
            )
            found = execution.map(
                Composed(leak, answers), first.tolist(), title=title
            )  # each pair of distributions once
            alone = [found[number][0] for number in place.ravel()]
            chosen, repeats, epsilon = np.array([int(np.argmax(alone))]), answers, max(alone)
        rows.append(
            {
                **about,
                "adversary": turn.adversary,
                "answers": repeats * len(chosen),
                **_divergences(one[kept], largest[kept]),
                "floor_divergence_2_estimate": None,
                "cap_for_repeated_answers_estimate": None,
                "epsilon": epsilon,
                "mean_epsilon": float(np.mean(alone)) if alone else None,
                "exact_data_dependent_epsilon": epsilon_of_renyi(repeats * exact[chosen].sum(axis=0)),
                "published_data_dependent_epsilon": epsilon_of_renyi(repeats * published[chosen].sum(axis=0)),
                "promised_epsilon": promised.epsilon,
            }
        )
    return rows


def _exact(votes: Any, *, sigma: float, orders: Any) -> NDArray[np.float64]:
    """In the one direction that the published bound is about: from these votes to a neighbour's."""
    return data_dependent_renyi(votes, sigma=sigma, orders=orders, both=False)


def _published(votes: Any, *, sigma: float, orders: Any) -> NDArray[np.float64]:
    return accounting.noisy_argmax_renyi(sigma=sigma, orders=orders, votes=votes)


def epsilon_of_renyi(divergences: Any) -> float:
    """The paper's theorem 1, as for upper bounds: the least epsilon at delta over the orders, of one direction."""
    orders = np.array(ORDERS)
    found = divergences + np.log1p(-1.0 / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1.0)
    return max(0.0, float(np.min(found)))


def teacher_sizes(scale: Any) -> Sizes:
    sizes: TeacherScale = scale.teachers
    sized = ("{} {}, {:g}".format(name, *size_of(name, sizes)) for name in sizes.sets)
    return [
        ("sets", "MNIST, CIFAR-10, Fashion-MNIST", ", ".join(sizes.sets) if sizes.fetched else "digits"),
        ("teachers, sigma", "250, 40; CIFAR-10 200, 25", "; ".join(sized)),
        ("teacher", "LeNet-5, Wide ResNet", f"logistic regression on {COLUMNS} principal components"),
        ("trainings of the ensemble", "not stated", f"{sizes.trainings}"),
        ("trainings of the special teacher", "not stated", f"{sizes.special} for each query and adversary"),
        ("queries", "1,000", f"{sizes.queries}"),
        ("answers", "1,000", f"{sizes.answers:,}"),
        ("simulated trials", "1e8 a query", "none: exact distributions"),
    ]
