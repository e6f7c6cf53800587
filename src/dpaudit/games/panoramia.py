"""No non-members at all: known members against records that a generator made (paper 004, algorithm 1).

    members  ->  generator part | training part | audit part          (units, by the seed)
    generator part  ->  generator  ->  generated rows, the poor ones left out
    training part + generated  ->  baseline (without the model), attack (with its outputs)
    audit part, pairs of a real and a generated unit, a fair coin each  ->  `PairedScores`

The coins are tossed after training: where the generated unit is shown, a real one that is not was trained on instead.
So the relation is SUBSTITUTE (THEORY 004-6). A weak baseline over-states what the model leaks; `PanoramiaPlayed.curve`
shows whether it still gets better with more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from dpaudit.evidence import PairedScores
from dpaudit.execution import Execution, distinct_seeds, fingerprint, stream
from dpaudit.games import _coins
from dpaudit.generators import SequentialTrees, as_rows, drawn

Matrix = NDArray[np.float64]
Outputs = Callable[[Any], Any]
"""What a model says of rows: one number a row, or several."""
PURPOSE = "coins of real and generated records"
ALIKE = "audited real records are independent draws of one law, and were not chosen by what the model says of them"
SHARES = (0.4, 0.3, 0.3)
PARTS = (0.25, 0.5, 1.0)
"""Of the training rows: the baseline's learning curve."""
LEVEL = 0.05
RISES = 0.1
"""A baseline that gained so much closeness from its last doubling of rows may well gain more."""


@dataclass(frozen=True, kw_only=True)
class PanoramiaPlayed:
    """One play: the evidence, and how the baseline got on.

    Attributes
    ----------
    curve
        (training rows, closeness shown on validation rows) of the baseline, for a quarter, a half and all of its rows;
        estimates, to see whether it still rises.
    chosen
        What validation chose: the settings of the baseline and of the attack.
    left_out
        Share of generated rows that were left out as poor.
    """

    evidence: PairedScores
    curve: tuple[tuple[int, float], ...]
    chosen: tuple[str, str]
    left_out: float

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
        `target(rows)`: what the audited model says, such as its loss; one number a row or several.
    generator
        Anything with `fit(rows)` and `sample(count)`, see `dpaudit.generators`.
    generated
        Instead of a generator: rows that somebody made. None of the members is then needed to fit one.
    helper
        `helper(rows, seed)` trains a model of the target's kind on *generated* rows and returns its outputs as a
        function of rows: the baseline's stand-in for the target. None: a baseline of the rows alone.
    classifiers
        Candidates for baseline and attack, by name, with `fit` and `predict_proba`; validation rows choose among them.
        None: boosted trees of three sizes.
    shares
        Of the units: for the generator, for training, for the audit.
    poor
        Share of generated rows that are left out because a classifier, trained on the generator's own rows, is surest
        that they are made.
    group, unit
        Rows of one unit (chunks of a document, rows of a person) share a coin; their scores are averaged. A generated
        unit has as many rows.
    """

    members: Any
    target: Outputs
    generator: Any = field(default_factory=SequentialTrees)
    generated: Any = None
    helper: Any = None
    classifiers: Any = None
    shares: tuple[float, float, float] = SHARES
    poor: float = 0.0
    group: Any = None
    unit: str = "record"

    def __post_init__(self) -> None:
        rows = as_rows("members", self.members)
        if not callable(self.target):
            raise InputError(f"`target` must be a function of rows, got {type(self.target).__name__}.")
        if self.helper is not None and not callable(self.helper):
            raise InputError(f"`helper` must be a function of rows and a seed, got {type(self.helper).__name__}.")
        shares = tuple(check.number("shares", share, low=0.0, high=1.0) for share in check.items("shares", self.shares))
        if len(shares) != 3 or abs(sum(shares) - 1.0) > 1e-9 or min(shares[1:]) <= 0.0:
            raise InputError(f"`shares` must be three that add up to 1, got {self.shares}.")
        check.number("poor", self.poor, low=0.0, high=0.9)
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
        named = (self.shares, self.poor, self.unit, seed)
        return fingerprint([named, self.members, self.group, made, self.target, self.helper, self._candidates()])

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
        import sklearn.ensemble  # noqa: F401  # its threads are limited only if they are there
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # sums in another order would be other numbers
            return self._played(seed)

    def _played(self, seed: int) -> PanoramiaPlayed:
        _, training, audited = self.parts(seed)
        real = [np.flatnonzero(np.isin(self.place, part)) for part in (training, audited)]
        sizes = [rows.size for rows in real]
        made, helped, left_out = self._generated(seed, sizes)
        outputs = _asked("target", self.target)
        help_of = _asked("helper", helped) if helped is not None else None
        train = [self.members[real[0]], made[: sizes[0]]]
        label = np.repeat([1, 0], [len(rows) for rows in train])
        group = np.concatenate([self.place[real[0]], -1 - np.arange(len(train[1]))])
        fits = []
        for features in (_Features(None, help_of), _Features(outputs, help_of)):
            x = features(np.concatenate(train))
            fits.append((features, _Fit.chosen(x, label, group, self._candidates(), seed)))
        coins = _coins.fair_coins(seed, PURPOSE, audited.size)
        coin_of = np.zeros(int(self.place.max()) + 1, dtype=np.bool_)
        coin_of[audited] = coins
        shown = coin_of[self.place[real[1]]]
        rows = np.where(shown[:, None], self.members[real[1]], made[sizes[0] : sizes[0] + sizes[1]])
        scores = [fit.model.predict_proba(features(rows))[:, 1] for features, fit in fits]
        evidence = PairedScores(
            included=shown,
            baseline=scores[0],
            attack=scores[1],
            group=None if self.group is None else self.place[real[1]],
            unit=self.unit,
            ids=None if self.group is not None else real[1],
            assumptions=(ALIKE,),
            seed=seed,
        )
        return PanoramiaPlayed(
            evidence=evidence,
            curve=fits[0][1].curve,
            chosen=(fits[0][1].name, fits[1][1].name),
            left_out=left_out,
        )

    def _generated(self, seed: int, sizes: list[int]) -> tuple[Matrix, Any, float]:
        """Rows for training and audit, the helper's outputs, and the share that was left out."""
        wanted = sum(sizes)
        for_helper = 0 if self.helper is None else max(wanted // 2, 50)
        need = int(np.ceil((wanted + for_helper) / (1.0 - self.poor)))
        own = np.flatnonzero(np.isin(self.place, self.parts(seed)[0]))
        if self.generated is None:
            seeds = distinct_seeds(seed, "generator", 2)
            pool = drawn(self.generator, self.members[own], need + own.size, seed=seeds[0])
            pool, others = pool[:need], pool[need:]
        else:
            if len(self.generated) < need:
                raise InputError(f"`generated` must hold at least {need:,} rows here, got {len(self.generated):,}.")
            pool = self.generated[stream(seed, "generated rows").permutation(len(self.generated))[:need]]
            others = np.zeros((0, pool.shape[1]))
        if self.poor:
            if not len(others):
                raise InputError("`poor` needs a generator: whether rows are poor is learnt from rows of its own.")
            pool = pool[_best(self.members[own], others, pool, wanted + for_helper, seed)]
        helped = None
        if self.helper is not None:
            helped = self.helper(pool[wanted : wanted + for_helper], distinct_seeds(seed, "helper", 1)[0])
        return pool[:wanted], helped, self.poor

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


def _best(real: Matrix, made: Matrix, pool: Matrix, count: int, seed: int) -> NDArray[np.intp]:
    """The rows of a pool that look least made, in their order; learnt from rows that are used for nothing else."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    judge = HistGradientBoostingClassifier(max_iter=60, random_state=seed % 2**32)
    judge.fit(np.concatenate([real, made]), np.repeat([1, 0], [len(real), len(made)]))
    return np.sort(np.argsort(-judge.predict_proba(pool)[:, 1], kind="stable")[:count])


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
class _Features:
    """What a guesser sees of rows: the rows, the helper's outputs, and, of an attack, the target's."""

    target: Outputs | None
    helper: Outputs | None

    def __call__(self, rows: Matrix) -> Matrix:
        seen = [rows, *(ask(rows) for ask in (self.helper, self.target) if ask is not None)]
        return np.concatenate(seen, axis=1)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The classifier that showed most closeness on validation rows, fitted to all; and its learning curve."""

    name: str
    model: Any
    curve: tuple[tuple[int, float], ...]

    @classmethod
    def chosen(cls, x: Matrix, label: Any, group: Any, candidates: dict[str, Any], seed: int) -> _Fit:
        units = np.unique(group, return_inverse=True)[1].ravel()
        order = stream(seed, "validation of the guessers").permutation(int(units.max()) + 1)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        share = rank[units] / order.size
        valid = share < 0.25
        found = {
            name: closeness_shown(_fitted(model, x[~valid], label[~valid], seed), x[valid], label[valid])
            for name, model in candidates.items()
        }
        best = max(found, key=lambda name: found[name])
        curve = []
        for part in PARTS[:-1]:
            used = ~valid & (share < 0.25 + 0.75 * part)
            model = _fitted(candidates[best], x[used], label[used], seed)
            curve.append((int(used.sum()), closeness_shown(model, x[valid], label[valid])))
        curve.append((int((~valid).sum()), found[best]))
        return cls(best, _fitted(candidates[best], x, label, seed), tuple(curve))


def _fitted(model: Any, x: Matrix, label: Any, seed: int) -> Any:
    from sklearn.base import clone

    fresh = clone(model)
    if "random_state" in fresh.get_params():
        fresh.set_params(random_state=seed % 2**32)
    return fresh.fit(x, label)


def closeness_shown(model: Any, x: Matrix, label: Any) -> float:
    """How close a generator cannot be, by guesses "real" from the top: the best of a few numbers of them, Bonferroni.

    It chooses among classifiers and draws learning curves, on validation rows; the bound is `estimators.panoramia`.
    """
    order = np.argsort(-model.predict_proba(x)[:, 1], kind="stable")
    right = np.cumsum(label[order])
    ranks = [rank for rank in (len(label) // 2**power for power in range(1, 12)) if rank >= 8]
    if not ranks:
        return 0.0
    limits = [_binomial.lower_limit(int(right[rank - 1]), rank, LEVEL / len(ranks)) for rank in ranks]
    return max(0.0, float(special.logit(max(limits))))
