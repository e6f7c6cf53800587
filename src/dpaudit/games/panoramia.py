"""No non-members at all: known members against records that a generator made (paper 004, algorithm 1).

    members  ->  generator part | training part | audit part          (units, by the seed)
    generator part  ->  generator  ->  generated rows, the poor ones left out
    training part + generated  ->  baseline (without the model), attack (the same guesser, with the model's outputs,
                                   if held rows show that they help; otherwise it is the baseline)
    audit part, pairs of a real and a generated unit, a fair coin each  ->  `PairedScores`

The coins are tossed after training: where the generated unit is shown, a real one that is not was trained on instead.
So the relation is SUBSTITUTE (THEORY 004-6). A weak baseline over-states what the model leaks; `PanoramiaPlayed.curve`
shows whether it still gets better with more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.evidence import CanaryScores, PairedScores
from dpaudit.execution import Execution, distinct_seeds, fingerprint, stream
from dpaudit.games import _coins
from dpaudit.generators import SequentialTrees, as_rows, drawn

Matrix = NDArray[np.float64]
Outputs = Callable[[Any], Any]
"""What a model says of rows: one number a row, or several."""
View = Callable[[Any, Any, int], tuple[Any, Outputs]]
"""`view(rows, label, seed)`: features of these rows, by fits that never saw their labels, and a function for others."""
PURPOSE = "coins of real and generated records"
PAIRS = "coins of real members and real non-members"
ALIKE = "audited real records are independent draws of one law, and were not chosen by what the model says of them"
MADE = "generated records are independent draws of one law, too"
SHARES = (0.4, 0.3, 0.3)
PARTS = (0.25, 0.5, 1.0)
"""Of the training rows: the baseline's learning curve."""
HELD = 0.25
"""Of the training units: what chooses among the classifiers."""
WORTH = 2.0
UNHEARD = "the baseline: what the model says did not help on held rows"
LEVEL = 0.05
SURE = 1e-6
"""Probabilities of a guesser stay so far from 0, where their logarithms are taken."""
RISES = 0.1
"""A baseline that gained so much closeness from its last doubling of rows may well gain more."""


@dataclass(frozen=True, kw_only=True)
class PanoramiaPlayed:
    """One play: the evidence, and how the baseline got on.

    Attributes
    ----------
    curve
        (training rows, closeness shown on validation rows) of the baseline, for a quarter, a half and all of its rows;
        estimates, to see whether it still rises. `attack_curve` is the same of the attack.
    chosen
        What validation chose: the settings of the baseline and of the attack.
    left_out
        Share of generated rows that were left out as poor.
    """

    evidence: PairedScores
    curve: tuple[tuple[int, float], ...]
    chosen: tuple[str, str]
    left_out: float
    attack_curve: tuple[tuple[int, float], ...] = ()

    @property
    def heard(self) -> bool:
        """Whether the attack listens to the model; if not, it is the baseline."""
        return self.chosen[1] != UNHEARD

    @property
    def rising(self) -> bool:
        """Whether the baseline may get better still: the leakage would then be over-stated."""
        return self.curve[-1][1] - self.curve[-2][1] > RISES


@dataclass(frozen=True, kw_only=True, eq=False)
class Panoramia:
    """Known members, a generator, and what the audited model says of a row.

    Attributes
    ----------
    members
        Rows that the model was trained on, as numbers.
    target
        `target(rows)`: what the audited model says; one number a row or several, the first of them its loss.
    generator
        Anything with `fit(rows)` and `sample(count)`, see `dpaudit.generators`.
    generated
        Instead of a generator: rows that somebody made. None of the members is then needed to fit one.
    helper
        `helper(rows, seed)` trains a model of the target's kind on *generated* rows and returns its outputs as a
        function of rows: the stand-in for the target in the baseline; the attack sees it too. One that was trained on
        other rows, as in table 2 of the paper, takes no notice of these. None: no such model.
    view
        What both guessers see of a row: `view(rows, label, seed)`, see `dpaudit.views`. None: its columns.
    classifiers
        Candidates for baseline and attack, by name, with `fit` and `predict_proba`; validation rows choose among them.
        None: boosted trees of three sizes.
    shares
        Of the units: for the generator, for training, for the audit.
    taught
        Share of the training part that the guessers learn from; less of it shows how they learn.
    poor
        Share of generated rows that are left out because a classifier, trained on the generator's own rows, is surest
        that they are made. It becomes a threshold on rows that are used for nothing else, so that those that stay are
        independent draws still.
    worth
        Standard errors by which the model's outputs must lower the log-loss of held rows; otherwise the attack is the
        baseline, so that a model that leaks nothing shows nothing but for chance. The price is leakage of a few rows
        that held ones do not show; None always listens to the model.
    group, unit
        Rows of one unit (chunks of a document, rows of a person) share a coin; their scores are averaged. A generated
        unit has as many rows.
    """

    members: Any
    target: Outputs
    generator: Any = field(default_factory=SequentialTrees)
    generated: Any = None
    helper: Any = None
    view: View | None = None
    classifiers: Any = None
    shares: tuple[float, float, float] = SHARES
    taught: float = 1.0
    poor: float = 0.0
    worth: float | None = WORTH
    group: Any = None
    unit: str = "record"

    def __post_init__(self) -> None:
        rows = as_rows("members", self.members)
        if not callable(self.target):
            raise InputError(f"`target` must be a function of rows, got {type(self.target).__name__}.")
        if self.helper is not None and not callable(self.helper):
            raise InputError(f"`helper` must be a function of rows and a seed, got {type(self.helper).__name__}.")
        if self.view is not None and not callable(self.view):
            raise InputError(f"`view` must be a function of rows, labels and a seed, got {type(self.view).__name__}.")
        shares = tuple(check.number("shares", share, low=0.0, high=1.0) for share in check.items("shares", self.shares))
        if len(shares) != 3 or abs(sum(shares) - 1.0) > 1e-9 or min(shares[1:]) <= 0.0:
            raise InputError(f"`shares` must be three that add up to 1, got {self.shares}.")
        check.number("poor", self.poor, low=0.0, high=0.9)
        check.number("taught", self.taught, low=0.01, high=1.0)
        if self.worth is not None:
            check.number("worth", self.worth)
        made = None
        if self.generated is not None:
            made = as_rows("generated", self.generated)
            if made.shape[1] != rows.shape[1]:
                raise InputError(f"`generated` must have {rows.shape[1]} columns, as members, got {made.shape[1]}.")
            shares = (0.0, shares[1] / (shares[1] + shares[2]), shares[2] / (shares[1] + shares[2]))
        group = None if self.group is None else check.labels("group", self.group)
        if group is not None:
            check.same_length(members=rows, group=group)
        changed = {"members": rows, "generated": made, "shares": shares, "group": group}
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    @property
    def relation(self) -> Relation:
        return Relation.SUBSTITUTE

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """The unit of every row, as a number."""
        if self.group is None:
            return np.arange(len(self.members))
        return np.unique(self.group, return_inverse=True)[1].ravel()

    def parts(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Units for the generator, for training, and for the audit."""
        units = int(self.place.max()) + 1
        order = stream(seed, "parts of the members").permutation(units)
        cuts = np.round(np.cumsum(self.shares[:2]) * units).astype(int)
        first, second, third = np.split(order, cuts)
        if min(second.size, third.size) < 10 or (self.generated is None and first.size < 10):
            raise InputError(f"`members` must be enough for parts of ten {self.unit}s, got {units} of them.")
        return first, second, third

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """Which audited pair shows its real unit."""
        return _coins.fair_coins(seed, PURPOSE, self.parts(seed)[2].size)

    def commitment(self, seed: int) -> str:
        """A hash that commits to the coins."""
        return _coins.commitment(seed, PURPOSE, self.coins(seed))

    def fingerprint(self, seed: int) -> str:
        """What a record of this game belongs to."""
        made = self.generator if self.generated is None else self.generated
        named = (self.shares, self.taught, self.poor, self.worth, self.unit, seed)
        guessers = (self.target, self.helper, self.view, self._candidates())
        return fingerprint([named, self.members, self.group, made, *guessers])

    # ------------------------------------------------------------------------------- comparisons, for who has more rows

    def with_real(self, nonmembers: Any) -> Panoramia:
        """The same target and guessers on real non-members (the paper's RM;RN): closeness 0 holds by construction."""
        if self.group is not None:
            raise InputError("`with_real` compares single records, and these share units.", "leave `group` out.")
        return replace(self, generated=nonmembers, helper=None, poor=0.0)

    def one_run(self, nonmembers: Any, *, seed: int) -> CanaryScores:
        """Audited members against real non-members by the target's loss alone (the paper's O(1)).

        The coins are tossed after training here too, so the relation is the same: SUBSTITUTE.
        """
        if self.group is not None:
            raise InputError("`one_run` compares single records, and these share units.", "leave `group` out.")
        other, audited = as_rows("nonmembers", nonmembers), self.parts(seed)[2]
        order = stream(seed, "real non-members of a comparison").permutation(len(other))
        pairs = min(audited.size, order.size)
        coins = _coins.fair_coins(seed, PAIRS, pairs)
        rows = np.where(coins[:, None], self.members[audited[:pairs]], other[order[:pairs]])
        return CanaryScores(
            scores=-_asked("target", self.target)(rows)[:, 0],
            included=coins,
            relation=Relation.SUBSTITUTE,
            assumptions=(ALIKE, "real non-members are draws of the same law"),
            seed=seed,
        )

    # ------------------------------------------------------------------------------------------------------------- play

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> PairedScores:
        """The evidence alone. The other arguments are those of every game; nothing here is shared out."""
        return self.play_all(seed=seed).evidence

    def play_all(self, *, seed: int) -> PanoramiaPlayed:
        """Generate, train baseline and attack, toss the coins, and score what they show."""
        return self.play_targets({"target": self.target}, seed=seed)["target"]

    def play_targets(self, targets: Mapping[str, Outputs], *, seed: int) -> dict[str, PanoramiaPlayed]:
        """The same for several models that were trained on these members: one generator, one baseline, the same coins.

        Each result holds by itself with its confidence; the best of them does not.
        """
        import sklearn.ensemble  # noqa: F401  # its threads are limited only if they are there
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # sums in another order would be other numbers
            return self._played(dict(targets), seed)

    def _played(self, targets: dict[str, Outputs], seed: int) -> dict[str, PanoramiaPlayed]:
        _, training, audited = self.parts(seed)
        training = training[: max(10, round(self.taught * training.size))]
        real = [np.flatnonzero(np.isin(self.place, part)) for part in (training, audited)]
        sizes = [rows.size for rows in real]
        made, helped = self._generated(seed, sizes)
        coin_of = np.zeros(int(self.place.max()) + 1, dtype=np.bool_)
        coin_of[audited] = _coins.fair_coins(seed, PURPOSE, audited.size)
        shown = coin_of[self.place[real[1]]]
        rows = np.concatenate(
            [
                self.members[real[0]],
                made[: sizes[0]],
                np.where(shown[:, None], self.members[real[1]], made[sizes[0] : sizes[0] + sizes[1]]),
            ]
        )
        label = np.repeat([1, 0], sizes[0])
        group = np.concatenate([self.place[real[0]], -1 - np.arange(sizes[0])])
        lessons = _lessons(self.view, rows, label, group, seed)
        known = np.zeros((len(rows), 0)) if helped is None else _asked("helper", helped)(rows)
        candidates = self._candidates()
        baseline = _Guess.of(lessons, known, label, candidates, seed)
        found = {}
        for name, target in targets.items():
            outputs = np.concatenate([known, _asked("target", target)(rows)], axis=1)
            attack = _Guess.of(lessons, outputs, label, candidates, seed)
            if self.worth is not None and not attack.gains(baseline, units=group[lessons[-2].judged], least=self.worth):
                attack = replace(baseline, name=UNHEARD)
            evidence = PairedScores(
                included=shown,
                baseline=baseline.scores,
                attack=attack.scores,
                group=None if self.group is None else self.place[real[1]],
                unit=self.unit,
                ids=None if self.group is not None else real[1],
                assumptions=(ALIKE, MADE),
                seed=seed,
            )
            found[name] = PanoramiaPlayed(
                evidence=evidence,
                curve=baseline.curve,
                chosen=(baseline.name, attack.name),
                left_out=self.poor,
                attack_curve=attack.curve,
            )
        return found

    def _generated(self, seed: int, sizes: list[int]) -> tuple[Matrix, Any]:
        """Rows for training and audit, and the helper's outputs."""
        wanted = sum(sizes)
        for_helper = 0 if self.helper is None else max(wanted // 2, 50)
        total = wanted + for_helper
        if self.generated is None:
            pool = self._drawn(seed, total)
        else:
            if self.poor:
                raise InputError("`poor` needs a generator: whether rows are poor is learnt from rows of its own.")
            if len(self.generated) < total:
                raise InputError(f"`generated` must hold at least {total:,} rows here, got {len(self.generated):,}.")
            pool = self.generated[stream(seed, "generated rows").permutation(len(self.generated))[:total]]
        helped = None
        if self.helper is not None:
            helped = self.helper(pool[wanted:], distinct_seeds(seed, "helper", 1)[0])
        return pool[:wanted], helped

    def _drawn(self, seed: int, total: int) -> Matrix:
        """So many rows of the generator, without the poor ones."""
        own = self.members[np.isin(self.place, self.parts(seed)[0])]
        from_one = distinct_seeds(seed, "generator", 2)[0]
        if not self.poor:
            return drawn(self.generator, own, total, seed=from_one)
        kept = 1.0 - self.poor
        spare = int(np.ceil((total + 6.0 * np.sqrt(total) + 50.0) / kept))
        pool = drawn(self.generator, own, spare + 2 * len(own), seed=from_one)
        judged = _looks_real(own, pool[: len(own)], seed)
        least = np.quantile(judged(pool[len(own) : 2 * len(own)]), self.poor)
        rest = pool[2 * len(own) :]
        good = rest[judged(rest) >= least]
        if len(good) < total:
            raise InputError(
                f"`poor` left {len(good):,} of {total:,} generated rows that are needed, at {self.poor:g}.",
                "the generator repeats itself: a smaller share leaves enough.",
            )
        return good[:total]

    def _candidates(self) -> dict[str, Any]:
        if self.classifiers is not None:
            found = dict(self.classifiers)
            if not found or not all(hasattr(model, "predict_proba") for model in found.values()):
                raise InputError("`classifiers` must be classifiers by name, each with `predict_proba`.")
            return found
        from sklearn.ensemble import HistGradientBoostingClassifier as Boosted

        return {
            f"boosted trees, {leaves} leaves": Boosted(max_leaf_nodes=leaves, max_iter=rounds, learning_rate=0.1)
            for leaves, rounds in ((4, 60), (15, 60), (31, 120))
        }


def _looks_real(real: Matrix, made: Matrix, seed: int) -> Outputs:
    """How real rows look, by a classifier of rows that are used for nothing else."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    judge = HistGradientBoostingClassifier(max_iter=60, random_state=seed % 2**32)
    judge.fit(np.concatenate([real, made]), np.repeat([1, 0], [len(real), len(made)]))
    return lambda rows: judge.predict_proba(rows)[:, 1]


def _asked(name: str, outputs: Any) -> Outputs:
    """A model's outputs as a matrix, whatever it returns."""
    if not callable(outputs):
        raise InputError(f"`{name}` must give a function of rows, got {type(outputs).__name__}.")

    def ask(rows: Matrix) -> Matrix:
        found = np.asarray(outputs(rows), dtype=np.float64)
        found = found[:, None] if found.ndim == 1 else found
        if found.ndim != 2 or len(found) != len(rows) or not np.isfinite(found).all():
            raise InputError(f"`{name}` must say finite numbers of each of {len(rows)} rows, got shape {found.shape}.")
        return found

    return ask


@dataclass(frozen=True, eq=False)
class _Lesson:
    """One fit of the view: the rows that it learnt from and those that are judged by it, and how they look then."""

    taught: NDArray[np.intp]
    judged: NDArray[np.intp]
    seen_taught: Matrix
    seen_judged: Matrix

    def scores(self, model: Any, outputs: Matrix, label: Any, seed: int) -> Matrix:
        """How real the judged rows look to a guesser that also hears what models say of them."""
        from sklearn.base import clone

        guesser = clone(model)
        if "random_state" in guesser.get_params():
            guesser.set_params(random_state=seed % 2**32)
        guesser.fit(np.concatenate([self.seen_taught, outputs[self.taught]], axis=1), label[self.taught])
        heard = np.concatenate([self.seen_judged, outputs[self.judged]], axis=1)
        return np.asarray(guesser.predict_proba(heard)[:, 1])


def _lessons(view: View | None, rows: Matrix, label: Any, group: Any, seed: int) -> list[_Lesson]:
    """Parts of the training rows, judged on units held from all of them; last, all of them, judged on the audit's."""
    units = np.unique(group, return_inverse=True)[1].ravel()
    rank = np.argsort(stream(seed, "validation of the guessers").permutation(int(units.max()) + 1))
    share = rank[units] / rank.size
    held = np.flatnonzero(share < HELD)
    splits = [(np.flatnonzero((share >= HELD) & (share < HELD + (1.0 - HELD) * part)), held) for part in PARTS]
    splits.append((np.arange(label.size), np.arange(label.size, len(rows))))
    view_seed = distinct_seeds(seed, "view", 1)[0]
    found = []
    for taught, judged in splits:
        seen: tuple[Matrix, Matrix]
        if view is None:
            seen = rows[taught], rows[judged]
        else:
            of_taught, of_others = view(rows[taught], label[taught], view_seed)
            seen = _asked("view", lambda _, of=of_taught: of)(rows[taught]), _asked("view", of_others)(rows[judged])
        found.append(_Lesson(taught, judged, *seen))
    return found


@dataclass(frozen=True, eq=False)
class _Guess:
    """The classifier that showed most closeness on held rows, how it got there, and its scores of the audited rows."""

    name: str
    curve: tuple[tuple[int, float], ...]
    scores: Matrix
    held_losses: Matrix

    def gains(self, other: _Guess, *, units: Any, least: float) -> bool:
        """Whether the log-loss of held units is lower by so many standard errors."""
        place = np.unique(units, return_inverse=True)[1].ravel()
        each = np.bincount(place, weights=other.held_losses - self.held_losses)
        return float(each.mean()) > least * float(each.std(ddof=1)) / np.sqrt(each.size)

    @classmethod
    def of(cls, lessons: list[_Lesson], outputs: Matrix, label: Any, candidates: dict[str, Any], seed: int) -> _Guess:
        *parts, final = lessons

        def scores(lesson: _Lesson, name: str) -> Matrix:
            return lesson.scores(candidates[name], outputs, label, seed)

        held = {name: scores(parts[-1], name) for name in candidates}
        truth = label[parts[-1].judged]
        best = max(held, key=lambda name: closeness_shown(held[name], truth))
        curve = [
            (lesson.taught.size, closeness_shown(scores(lesson, best), label[lesson.judged])) for lesson in parts[:-1]
        ]
        curve.append((parts[-1].taught.size, closeness_shown(held[best], truth)))
        right = np.where(truth == 1, held[best], 1.0 - held[best])
        return cls(best, tuple(curve), scores(final, best), -np.log(np.maximum(right, SURE)))


def closeness_shown(scores: Matrix, label: Any) -> float:
    """How close a generator cannot be, by guesses "real" from the top: the best of a few numbers of them, Bonferroni.

    It chooses among classifiers and draws learning curves, on held rows; the bound is `estimators.panoramia`.
    """
    order = np.lexsort((stream(len(label), "ties of held rows").random(len(label)), -scores))
    right = np.cumsum(label[order])
    ranks = [rank for rank in (len(label) // 2**power for power in range(1, 12)) if rank >= 8]
    if not ranks:
        return 0.0
    limits = [_binomial.lower_limit(int(right[rank - 1]), rank, LEVEL / len(ranks)) for rank in ranks]
    return max(0.0, float(special.logit(max(limits))))
