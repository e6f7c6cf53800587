"""No run at all: known members and known non-members of a released model, who also differ by themselves (paper 003).

    held rows  ->  propensity model, slope of the score on the log-odds
    the others ->  fair coins take the next member or non-member  ->  `MemberScores`

Membership was given, not randomised, so a score may be right about it without any leak. How far the features alone
tell it is the *propensity*, learnt from held rows that are not audited. Everything rests on it: the blind attack,
which never saw the model, is played beside every game, and `da.audit` reports no number where it refutes them.

The coins re-randomise the two pools (THEORY 003-1): where a non-member is shown, a member that is not shown was
trained on in its place. So the relation is SUBSTITUTE; ADD_REMOVE is for training sets of a fixed part plus exactly
the members shown, each a member or not by its own chance, with propensities that are known.

A random hold-out (`how="split"`) needs no propensity. Generated non-members are for the paired game of PANORAMIA.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit import propensity as propensities
from dpaudit._validate import InputError
from dpaudit.attacks import blind
from dpaudit.bounds import Relation, relation
from dpaudit.evidence import MemberScores, thin
from dpaudit.execution import Execution, fingerprint, stream
from dpaudit.games import _coins
from dpaudit.propensity import Logistic, Overlap, Revealing
from dpaudit.proxies import Categorical

HOW = {
    "split": "a random hold-out of the same records",
    "later": "records from after the training",
    "domain": "records of another source",
    "given": "records that nobody randomised",
    "generated": "made by a generator",
}
"""Where the non-members come from."""
ADVERSARIES = ("aware", "unaware")
PURPOSE = "coins of given members"
CROSS_FITTED = "propensities that were cross-fitted on the audited rows are as good as if fitted on others"
HELD, HELD_FOR_SLOPE = 0.5, 0.2
Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ZeroPlayed:
    """One play: the evidence, the blind attack on the same rows (one part a fold), and what is known of the overlap."""

    evidence: MemberScores
    blind: tuple[MemberScores, ...]
    overlap: Overlap | None
    revealing: tuple[Revealing, ...]
    rows: NDArray[np.intp] = field(repr=False)
    """The units that were audited, by their place."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ZeroRun:
    """Known members and non-members, a score for each, and features for the propensity.

    Attributes
    ----------
    scores
        One a row; higher means member. `attacks.inner_product` and `attacks.negative_loss` are such scores.
    member
        Whether each row was trained on.
    how
        Where the non-members come from: "split" (a random hold-out), "later", "domain" or "given".
    features, feature_names
        Numeric columns for the propensity and for the blind attack. Not needed for a split.
    propensity
        A model of `dpaudit.propensity`, or known propensities: one number a row, or two (lower, upper).
    adversary
        "aware" ranks rows by the score with the log-odds regressed out (the slope is learnt on held rows), so that it
        prefers what the model says to what the features do; "unaware" by the score alone.
    held
        Share of the units that are not audited: to fit the propensity model on (default 0.5), or, where propensities
        are known, for the slope of the aware adversary (0.2).
    cross_fit
        Fit the propensity model on the audited rows themselves, in folds; the bound then says so.
    clip
        Propensities nearer to 0 or 1 than this are taken as 0 or 1: no evidence in a guess that agrees with them.
    log_odds_error
        Widens every propensity by so much in log-odds. A model that was fitted on some thousands of rows is off by a
        little everywhere, and with as many audited rows the gate may notice: 0.1 to 0.3 leave room for that.
    group, unit
        Rows of one unit are one: their scores and features are averaged.
    relation
        SUBSTITUTE, or ADD_REMOVE for exactly the members shown.
    assumed
        Further sentences that the evidence rests on.
    """

    scores: Any
    member: Any
    how: str = "given"
    features: Any = None
    feature_names: tuple[str, ...] = ()
    propensity: Any = field(default_factory=Logistic)
    adversary: str = "aware"
    held: float | None = None
    cross_fit: bool = False
    clip: float = 0.0
    log_odds_error: float = 0.0
    group: Any = None
    unit: str = "record"
    relation: Relation | str = Relation.SUBSTITUTE
    sides: str = "both"
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check.choice("how", self.how, tuple(HOW))
        if self.how == "generated":
            raise InputError(
                "generated non-members need a generator's closeness, which no propensity model measures.",
                "use `estimators.panoramia` on PairedScores: fair coins between real and generated records.",
            )
        scores, bits = check.scores("scores", self.scores), check.booleans("member", self.member)
        rows = check.same_length(scores=scores, member=bits)
        check.choice("adversary", self.adversary, ADVERSARIES)
        check.number("clip", self.clip, low=0.0, high=0.5)
        check.number("log_odds_error", self.log_odds_error, low=0.0)
        asked = relation(self.relation)
        if asked not in (Relation.SUBSTITUTE, Relation.ADD_REMOVE):
            raise InputError(f"`relation` must be substitute or add-remove, got {asked}.")
        features, known = None, None
        if self.how != "split":
            if not hasattr(self.propensity, "fit"):
                known = _known(self.propensity, rows)
            if self.features is not None:
                features = propensities.prepared(self.features, bits)[0]
            elif known is None:
                raise InputError(
                    "`features` are needed where membership was given: the propensity is learnt from them.",
                    "a random hold-out is how='split' and needs none.",
                )
        if asked is Relation.ADD_REMOVE and self.how != "split" and known is None:
            raise InputError(
                "`relation` add-remove needs known propensities: pools that are re-randomised certify substitution.",
                "leave `relation` out.",
            )
        names = self.feature_names or tuple(f"column {n}" for n in range(0 if features is None else features.shape[1]))
        if features is not None and len(names) != features.shape[1]:
            raise InputError(f"`feature_names` must name {features.shape[1]} columns, got {len(names)}.")
        held = self._default_held(known) if self.held is None else check.number("held", self.held, low=0.0, high=0.9)
        if known is None and self.how != "split" and not held and not self.cross_fit:
            raise InputError(
                "`held` must be a share above 0: the propensity model is fitted on rows that are not audited."
            )
        group = None if self.group is None else check.labels("group", self.group)
        changed: dict[str, Any] = {
            "scores": scores,
            "member": bits,
            "features": features,
            "feature_names": tuple(names),
        }
        changed |= {"group": group, "relation": asked, "held": held}
        for name, value in changed.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_known", known)

    def _default_held(self, known: Any) -> float:
        if known is None:
            return 0.0 if self.cross_fit else HELD
        return HELD_FOR_SLOPE if self.adversary == "aware" else 0.0

    # ------------------------------------------------------------------------------------------------------------ units

    @cached_property
    def units(self) -> _Units:
        """One line a unit; rows of one unit are averaged, and must agree in membership."""
        known = self.__dict__["_known"]
        first = np.arange(self.scores.size)
        if self.group is None:
            return _Units(self.scores, self.member, self.features, known, first)
        _, first, place = np.unique(self.group, return_index=True, return_inverse=True)
        count = np.bincount(place.ravel())
        if np.any((np.bincount(place.ravel(), self.member) % count) != 0):
            raise InputError("`member` must be the same for all rows of one unit.")

        def mean(values: Any) -> Any:
            columns = np.asarray(values, dtype=np.float64).reshape(len(values), -1).T
            return np.stack([np.bincount(place.ravel(), column) / count for column in columns], axis=1)

        return _Units(
            mean(self.scores)[:, 0],
            self.member[first],
            None if self.features is None else mean(self.features),
            None if known is None else known[first],
            first,
        )

    def parts(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The units that are held, and those that are audited: with fair coins from the rest, or all of it."""
        units = self.units
        order = stream(seed, "held units").permutation(len(units))
        cut = round(float(self.held or 0.0) * len(units))
        held, rest = np.sort(order[:cut]), np.sort(order[cut:])
        for name, part in (("held", held), ("audited", rest)):
            if (name == "audited" or cut) and np.unique(units.member[part]).size < 2:
                raise InputError(f"the {name} rows must hold members and non-members, got one kind only.")
        if self.relation is Relation.ADD_REMOVE:
            return held, rest
        kept, _ = thin(units.member[rest], stream(seed, PURPOSE))
        return held, rest[kept]

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The memberships of the audited units, in the order in which the coins drew them."""
        return self.units.member[self.parts(seed)[1]]

    def commitment(self, seed: int) -> str:
        """A hash that commits to which rows are audited."""
        return _coins.commitment(seed, PURPOSE, self.coins(seed))

    def fingerprint(self, seed: int) -> str:
        """What a record of this game belongs to."""
        named = (self.how, self.adversary, self.held, self.cross_fit, self.clip, self.log_odds_error, self.unit)
        arrays = (self.scores, self.member, self.features, self.group, self.__dict__["_known"])
        model = self.propensity.words() if hasattr(self.propensity, "words") else ""
        return fingerprint([named, arrays, model, str(self.relation), self.sides, seed])

    # ------------------------------------------------------------------------------------------------------------- play

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> MemberScores:
        """The evidence alone. Use `da.audit` for a number: it plays the blind attack too, and heeds it.

        The other arguments are those of every game; nothing here takes long enough to be kept or shared out.
        """
        return self._played(seed, with_blind=False).evidence

    def play_all(self, *, seed: int) -> ZeroPlayed:
        """The evidence, the blind attack on the same rows, and the overlap of the groups."""
        return self._played(seed, with_blind=True)

    def log_odds(self, seed: int) -> Vector:
        """Of membership given the features, of every unit that is audited or held; the middle where two are known."""
        held, audited = self.parts(seed)
        units, known = self.units, self.units.known
        found = np.zeros(len(units))
        if known is not None:
            return np.asarray(special.logit(known).mean(axis=1))
        both = np.concatenate([held, audited])
        if self.cross_fit:
            found[both] = propensities.cross_fitted(
                self.propensity, units.features[both], units.member[both], seed=seed
            )
            return found
        model = self.propensity.fit(units.features[held], units.member[held], seed=seed)
        found[both] = model.log_odds(units.features[both])
        return found

    def resampled(self, *, seed: int, resamples: int = propensities.RESAMPLES) -> Any:
        """Log-odds of the audited units under bootstrap resamples of the held ones, in blocks (resamples, units).

        What the bootstrap of paper 003 needs: `estimators.bootstrapped_from_members`. The order of the rows, and the
        slope that the aware adversary takes off, stay those of the game.
        """
        held, audited = self.parts(seed)
        if self.units.known is not None or self.cross_fit or not held.size:
            raise InputError("a bootstrap needs a propensity model that is fitted on held rows.")
        rows = self.units.features
        return self.propensity.resampled(
            rows[held], self.units.member[held], rows[audited], resamples=resamples, seed=seed
        )

    def _played(self, seed: int, *, with_blind: bool) -> ZeroPlayed:
        units = self.units
        if self.how == "split":
            evidence = MemberScores(
                scores=units.scores,
                member=units.member,
                assignment="split",
                ids=units.first,
                assumptions=self.assumed,
                **self._common(seed),
            )
            return ZeroPlayed(evidence=evidence, blind=(), overlap=None, revealing=(), rows=np.arange(len(units)))
        held, audited = self.parts(seed)
        odds = self.log_odds(seed)
        scores = units.scores
        if self.adversary == "aware":
            scores = scores - _slope(scores, odds, units.member, held) * odds
        bounds = self._bounds(odds, audited)
        evidence = MemberScores(
            scores=scores[audited],
            member=units.member[audited],
            propensity=bounds,
            ids=units.first[audited],
            assumptions=(*self._sentences(held.size), *self.assumed),
            **self._common(seed),
        )
        parts: tuple[MemberScores, ...] = ()
        shown: tuple[Revealing, ...] = ()
        if with_blind:
            parts = self._blind(evidence, audited, odds, seed)
        if units.features is not None:
            columns = dict(zip(self.feature_names, units.features.T, strict=True))
            shown = tuple(propensities.revealing(columns, units.member))
        overlap = propensities.overlap(odds[audited], units.member[audited])
        return ZeroPlayed(evidence=evidence, blind=parts, overlap=overlap, revealing=shown, rows=audited)

    def _common(self, seed: int) -> dict[str, Any]:
        return {"relation": self.relation, "sides": self.sides, "unit": self.unit, "seed": seed}

    def _bounds(self, odds: Vector, audited: NDArray[np.intp]) -> Vector:
        """Lower and upper propensities of the audited units, clipped and widened to the safe side."""
        known = self.units.known
        limits = propensities.limits(odds[audited], clip=self.clip) if known is None else known[audited]
        if not self.log_odds_error:
            return limits
        wide = special.logit(limits) + np.array([-1.0, 1.0]) * self.log_odds_error
        return np.asarray(special.expit(wide))

    def _sentences(self, held: int) -> tuple[str, ...]:
        found = []
        if self.units.known is None:
            where = "cross-fitted on the audited rows" if self.cross_fit else f"fitted on {held:,} other {self.unit}s"
            found.append(
                f"membership given the features follows the propensity model ({self.propensity.words()}, {where})"
            )
        if self.cross_fit:
            found.append(CROSS_FITTED)
        if self.log_odds_error:
            found.append(f"the model's log-odds are wrong by at most {self.log_odds_error:g}")
        return tuple(found)

    def _blind(
        self, evidence: MemberScores, audited: NDArray[np.intp], odds: Vector, seed: int
    ) -> tuple[MemberScores, ...]:
        """Membership learnt from the features of the other fold, starting from the propensities; one part a fold."""
        if self.units.features is None:
            return ()
        rates = special.expit(odds[audited])
        own = Categorical(np.stack([1.0 - rates, rates], axis=1))
        fold = _coins.fair_coins(seed, "folds of the blind attack", audited.size)
        law = blind.blind_law(own, evidence.member.astype(np.int64), self.units.features[audited], fold, seed=seed)
        told = law.density(np.ones(audited.size, dtype=np.int64))
        scores = special.logit(np.clip(told, 1e-12, 1.0 - 1e-12)) - odds[audited]
        parts = [np.flatnonzero(fold == side) for side in (False, True)]
        return tuple(
            replace(
                evidence,
                scores=scores[part],
                member=evidence.member[part],
                propensity=evidence.propensity[part],
                ids=evidence.ids[part],
                sides="sign",
            )
            for part in parts
            if np.unique(evidence.member[part]).size == 2
        )


@dataclass(frozen=True, eq=False)
class _Units:
    scores: Vector
    member: NDArray[np.bool_]
    features: Any
    known: Any
    first: NDArray[np.intp]

    def __len__(self) -> int:
        return self.scores.size


def _known(values: Any, rows: int) -> Vector:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise InputError(f"`propensity` must be a model with `fit`, or numbers, one a row, got {kind}.") from None
    if found.shape not in ((rows,), (rows, 2)):
        raise InputError(f"`propensity` must be one number a row or two ({rows} rows), got shape {found.shape}.")
    found = np.stack([found, found], axis=1) if found.ndim == 1 else found
    if not np.all((found >= 0.0) & (found <= 1.0)) or np.any(found[:, 0] > found[:, 1]):
        raise InputError("`propensity` must lie between 0 and 1, the lower first.")
    return found


def _slope(scores: Vector, odds: Vector, member: NDArray[np.bool_], held: NDArray[np.intp]) -> float:
    """How much the score rises with the log-odds *within* a group, from held rows, whose membership is no secret."""
    if held.size < 4:
        return 0.0
    x, y = odds[held].copy(), scores[held].copy()
    for group in (member[held], ~member[held]):
        x[group] -= x[group].mean()
        y[group] -= y[group].mean()
    spread = float(x @ x)
    return float(x @ y) / spread if spread > 0.0 else 0.0
