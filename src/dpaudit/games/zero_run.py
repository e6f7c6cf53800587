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

from dataclasses import dataclass, field
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

HOW = {
    "split": "a random hold-out of the same records",
    "later": "records from after the training",
    "domain": "records of another source",
    "given": "records that nobody randomised",
    "generated": "made by a generator",
}
"""Where the non-members come from."""
ADVERSARIES = ("aware", "unaware")
COMPLETE = "nothing else about a record, that its score depends on, tells more of its membership than the features do"
PURPOSE = "coins of given members"
TOO_MANY = 6.0
"""Standard deviations by which the number of members may differ from what known propensities say."""
CROSS_FITTED = "propensities that were cross-fitted on the audited rows are as good as if fitted on others"
HELD, HELD_FOR_SLOPE = 0.5, 0.2
ABSTAIN, LEAST = 0.02, 50
"""The aware adversary leaves rows alone whose propensity is nearer to 0 or 1, if so many others are left."""
ERRORS = 2.0
"""Standard errors of fitted log-odds by which they may be wrong, unless a number is given."""
Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ZeroPlayed:
    """One play: the evidence, the blind attack on the same rows (one part a fold), and what is known of the overlap."""

    evidence: MemberScores
    blind: tuple[MemberScores, ...]
    overlap: Overlap | None
    revealing: tuple[Revealing, ...]
    rows: NDArray[np.intp] = field(repr=False)
    """The units of the evidence, by their place."""


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
        A model of `dpaudit.propensity`, or known propensities, P(member given the features) *of these rows*: one number
        a row, or two (lower, upper). They must add up to about as many members as there are.
    adversary
        "aware" ranks rows by the score with the log-odds regressed out (the slope is learnt on held rows), so that it
        prefers what the model says to what the features do, and leaves rows with extreme propensities alone; "unaware"
        by the score alone.
    abstain
        How near to 0 or 1 a propensity is extreme (default 0.02 for the aware adversary, 0 for the other). Such rows
        are not guessed at all: a function of the features alone, so it costs nothing, and it is there that propensity
        models are wrong.
    held
        Share of the units that are not audited: to fit the propensity model on (default 0.5), or, where propensities
        are known, for the slope of the aware adversary (0.2).
    cross_fit
        Fit the propensity model on the audited rows themselves, in folds; the bound then says so.
    clip
        Propensities nearer to 0 or 1 than this are only known to be so near: no evidence in a guess that agrees with
        them, and no more than that of the edge in one that does not.
    log_odds_error
        Widens every propensity by so much in log-odds. None: a fitted one by twice the standard error of its own
        log-odds (`propensity.standard_errors`), a known one not at all. A model that was fitted to some thousands of
        rows is off by a little everywhere, the more the more columns it has, and that alone would look like a leak.
    group, unit
        Rows of one unit are one: their scores and features are averaged.
    columns
        What the features were before they became numbers, by name: the check for columns that reveal membership then
        looks at these. None: at the features themselves.
    relation
        SUBSTITUTE, or ADD_REMOVE for exactly the members shown.
    assumed
        Further sentences that the evidence rests on.
    ids
        Whole numbers that name the rows in the evidence; None: their places, from 0.
    """

    scores: Any
    member: Any
    how: str = "given"
    features: Any = None
    feature_names: tuple[str, ...] = ()
    propensity: Any = field(default_factory=Logistic)
    adversary: str = "aware"
    abstain: float | None = None
    held: float | None = None
    cross_fit: bool = False
    clip: float = 0.0
    log_odds_error: float | None = None
    group: Any = None
    unit: str = "record"
    columns: dict[str, Any] | None = None
    relation: Relation | str = Relation.SUBSTITUTE
    sides: str = "both"
    assumed: tuple[str, ...] = ()
    ids: Any = None

    def __post_init__(self) -> None:
        check_how(self.how)
        scores, bits = check.scores("scores", self.scores), check.booleans("member", self.member)
        rows = check.same_length(scores=scores, member=bits)
        check.choice("adversary", self.adversary, ADVERSARIES)
        check.number("clip", self.clip, low=0.0, high=0.5)
        abstain = ABSTAIN if self.adversary == "aware" else 0.0
        if self.abstain is not None:
            abstain = check.number("abstain", self.abstain, low=0.0, high=0.5)
        if self.log_odds_error is not None:
            check.number("log_odds_error", self.log_odds_error, low=0.0)
        asked = relation(self.relation)
        if asked not in (Relation.SUBSTITUTE, Relation.ADD_REMOVE):
            raise InputError(f"`relation` must be substitute or add-remove, got {asked}.")
        features, known = None, None
        if self.how != "split":
            if not hasattr(self.propensity, "fit"):
                known = _known(self.propensity, bits)
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
        changed |= {"group": group, "relation": asked, "held": held, "abstain": abstain}
        changed["ids"] = np.arange(rows) if self.ids is None else np.asarray(self.ids)
        check.same_length(scores=scores, ids=changed["ids"])
        for name, value in changed.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_known", known)

    def _default_held(self, known: Any) -> float:
        if self.how == "split":  # nothing is learnt
            return 0.0
        if known is None and not self.cross_fit:
            return HELD
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

        if known is not None and not np.array_equal(known, known[first][place.ravel()]):
            raise InputError("`propensity` must be the same for all rows of one unit.")

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
        named = (self.how, self.adversary, self.abstain, self.held, self.cross_fit, self.clip, self.log_odds_error)
        arrays = (self.scores, self.member, self.features, self.group, self.ids, self.__dict__["_known"])
        model = self.propensity if self.__dict__["_known"] is None else ""
        words = (self.unit, self.feature_names, self.assumed, str(self.relation), self.sides)
        return fingerprint([named, words, arrays, model, seed])

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
            middle = special.logit(np.clip(known, 1e-9, 1.0 - 1e-9)).mean(axis=1)  # 0 to 1 has a middle too
            return np.asarray(middle - self._prior)
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
        """Log-odds of the evidence's units under bootstrap resamples of the held ones, in blocks (resamples, units).

        What the bootstrap of paper 003 needs: `estimators.bootstrapped_from_members`. Which rows are guessed, their
        order, and the slope that the aware adversary takes off, stay those of the game.
        """
        held, audited = self.parts(seed)
        if self.units.known is not None or self.cross_fit or not held.size:
            raise InputError("a bootstrap needs a propensity model that is fitted on held rows.")
        rows, guessed = self.units.features, self._guessed(audited, self.log_odds(seed))
        return self.propensity.resampled(
            rows[held], self.units.member[held], rows[guessed], resamples=resamples, seed=seed
        )

    def _guessed(self, audited: NDArray[np.intp], odds: Vector) -> NDArray[np.intp]:
        """The audited units that the adversary does not abstain from; all of them where nothing would be left."""
        rates = special.expit(odds[audited])
        kept = audited[np.minimum(rates, 1.0 - rates) >= self.abstain]
        return kept if kept.size >= LEAST else audited

    def _played(self, seed: int, *, with_blind: bool) -> ZeroPlayed:
        units = self.units
        if self.how == "split":
            evidence = MemberScores(
                scores=units.scores,
                member=units.member,
                assignment="split",
                ids=self.ids[units.first],
                assumptions=self.assumed,
                **self._common(seed),
            )
            return ZeroPlayed(evidence=evidence, blind=(), overlap=None, revealing=(), rows=np.arange(len(units)))
        held, audited = self.parts(seed)
        odds = self.log_odds(seed)
        scores = units.scores
        if self.adversary == "aware":
            scores = scores - _slope(scores, odds, units.member, held) * odds
        guessed = self._guessed(audited, odds)
        widths = self._widths(seed, held, guessed)
        evidence = MemberScores(
            scores=scores[guessed],
            member=units.member[guessed],
            propensity=self._bounds(odds, guessed, widths),
            ids=self.ids[units.first[guessed]],
            group=None if self.group is None else np.arange(guessed.size),  # one line a unit, and known to be
            assumptions=(*self._sentences(held.size, widths), *self.assumed),
            **self._common(seed),
        )
        parts: tuple[MemberScores, ...] = ()
        shown: tuple[Revealing, ...] = ()
        if with_blind:
            parts = self._blind(evidence, guessed, odds, seed)
        if units.features is not None:
            columns: dict[str, Any] = dict(zip(self.feature_names, units.features.T, strict=True))
            if self.columns is not None:  # texts have no mean, so a unit is known by its first row
                columns = {name: np.asarray(column)[units.first] for name, column in self.columns.items()}
            shown = tuple(propensities.revealing(columns, units.member))
        overlap = propensities.overlap(odds[audited], units.member[audited])
        return ZeroPlayed(evidence=evidence, blind=parts, overlap=overlap, revealing=shown, rows=guessed)

    def _common(self, seed: int) -> dict[str, Any]:
        return {"relation": self.relation, "sides": self.sides, "unit": self.unit, "seed": seed}

    def _widths(self, seed: int, held: NDArray[np.intp], guessed: NDArray[np.intp]) -> Vector:
        """By how much the log-odds of each unit may be wrong."""
        if self.log_odds_error is not None or self.units.known is not None:
            return np.full(guessed.size, self.log_odds_error or 0.0)
        rows, member = self.units.features, self.units.member
        used = np.concatenate([held, guessed]) if self.cross_fit else held
        errors = propensities.standard_errors(self.propensity, rows[used], member[used], rows[guessed], seed=seed)
        return ERRORS * errors * (np.sqrt(2.0) if self.cross_fit else 1.0)  # a fold has half of the rows

    def _bounds(self, odds: Vector, audited: NDArray[np.intp], widths: Vector) -> Vector:
        """Lower and upper propensities of the audited units, clipped and widened to the safe side."""
        known = self.units.known
        if known is None:
            limits = propensities.limits(odds[audited], clip=self.clip)
        else:
            limits = known[audited]
            if self._prior:
                limits = special.expit(special.logit(limits) - self._prior)
        wide = special.logit(limits) + np.array([-1.0, 1.0]) * widths[:, None]
        return np.asarray(special.expit(wide)) if widths.any() else limits

    @property
    def _prior(self) -> float:
        """What known propensities hold of the sizes of the groups, which the coins make alike."""
        member = self.units.member
        return 0.0 if self.relation is Relation.ADD_REMOVE else float(np.log(member.sum() / (~member).sum()))

    def _sentences(self, held: int, widths: Vector) -> tuple[str, ...]:
        found = []
        if self.units.known is None:
            where = "cross-fitted on the audited rows" if self.cross_fit else f"fitted on {held:,} other {self.unit}s"
            found.append(
                f"membership given the features follows the propensity model ({self.propensity.words()}, {where})"
            )
        found.append(COMPLETE)
        if self.cross_fit:
            found.append(CROSS_FITTED)
        if self.log_odds_error:
            found.append(f"the model's log-odds are wrong by at most {self.log_odds_error:g}")
        elif widths.any():
            found.append(
                f"the model's log-odds are wrong by at most {ERRORS:g} standard errors of each "
                f"({np.median(widths):.2g} in the median, {widths.max():.2g} at the most)"
            )
        return tuple(found)

    def _blind(
        self, evidence: MemberScores, audited: NDArray[np.intp], odds: Vector, seed: int
    ) -> tuple[MemberScores, ...]:
        """The blind attack on the audited rows; nothing where it has nothing to go by."""
        if self.units.features is None:
            return ()
        return blind.blind_members(evidence, odds[audited], self.units.features[audited], seed=seed)


@dataclass(frozen=True, eq=False)
class _Units:
    scores: Vector
    member: NDArray[np.bool_]
    features: Any
    known: Any
    first: NDArray[np.intp]

    def __len__(self) -> int:
        return self.scores.size


def check_how(how: Any) -> None:
    """One of the words of `HOW`; generated non-members are handed over to PANORAMIA."""
    check.choice("how", how, tuple(HOW))
    if how == "generated":
        raise InputError(
            "generated non-members need a generator's closeness, which no propensity model measures.",
            "use `estimators.panoramia` on PairedScores (fair coins between real and generated records), or `dpaudit "
            "estimate FILE --how coins` on a table with columns included, baseline and attack.",
        )


def _known(values: Any, member: NDArray[np.bool_]) -> Vector:
    rows = member.size
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
    spread = TOO_MANY * np.sqrt((found * (1.0 - found)).sum(axis=0).max() + 1.0)
    fewest, most = found.sum(axis=0)
    if not fewest - spread <= member.sum() <= most + spread:
        said = f"{fewest:,.0f}" if fewest == most else f"{fewest:,.0f} to {most:,.0f}"
        raise InputError(
            f"`propensity` must add up to about the number of members: it says {said} of {rows:,}, and "
            f"{int(member.sum()):,} are.",
            "give P(member given the features) of these rows, not of groups of equal size.",
        )
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
