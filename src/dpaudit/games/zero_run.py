"""No run at all: known members and known non-members of a released model, who also differ by themselves (paper 003).

    held rows  ->  propensity model, slope of the score on the log-odds
    the others ->  fair coins take the next member or non-member  ->  `MemberScores`

Membership was given, not randomised, so a score may be right about it without any leak. How far the features alone
tell it is the *propensity*, learnt from held rows that are not audited. Everything rests on it: the blind baseline,
which never saw the model, is a control of every play, and `da.audit` reports no number where it refutes them.

The coins re-randomise the two pools (theory:adjacency#thinning): where a non-member is shown, a member that is not
shown was trained on in its place. So the relation is SUBSTITUTE; ADD_REMOVE is for training sets of a fixed part plus
exactly the members shown, each a member or not by its own chance, with propensities that are known.

A random hold-out (`origin="split"`) needs no propensity. Generated non-members are for the paired game of PANORAMIA.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, as_assumptions, filled
from dpaudit.attacks import baselines
from dpaudit.attacks.baselines import LEAKING, NOT_THE_MODEL
from dpaudit.bounds import Relation, relation
from dpaudit.evidence import ONE_ROW_A_UNIT, MemberScores, thin
from dpaudit.execution import one_thread, stream
from dpaudit.fitted import propensity as propensities
from dpaudit.fitted.propensity import Logistic, Overlap
from dpaudit.games import _zero_run_table as reading
from dpaudit.games._zero_run_table import Units, Uses, check_origin, check_settings, slope
from dpaudit.games.game import RUNNER, Control, Play, Runner, plan_of
from dpaudit.inputs.tables import RARE_LEVELS, Table, cut_columns, digests, unit_word

HELD, HELD_FOR_SLOPE = 0.5, 0.2
TRIM, LEAST = 0.02, 50
"""The aware adversary leaves rows alone whose propensity is nearer to 0 or 1, if so many others are left."""
ERRORS = 2.0
"""Standard errors of fitted log-odds by which they may be wrong, unless a number is given."""
Vector = NDArray[np.float64]


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(
        **{"id": id, "sentence": sentence, "answered_by": "auditor", "theory": "theory:zero-run#signed", **more}
    )


PROPENSITY_MODEL = _assumed(
    "propensity-model",
    "membership given the features follows the propensity model ({model}, {where})",
    tested_by=("blind-members", "overlap"),
)
CROSS = "cross-fitted on the audited rows"
OTHERS = "fitted on {count:,} other {unit}s"
COMPLETE = _assumed(
    "no-hidden-factor",
    ("nothing else about a record, that its score depends on, tells more of its membership than the features do"),
    answered_by="data holder",
    tested_by=("leaking-features",),
)
CROSS_FITTED = _assumed(
    "cross-fitted",
    "propensities that were cross-fitted on the audited rows are as good as if fitted on others",
    theory="theory:zero-run#estimated",
)
LOG_ODDS_ERROR = _assumed(
    "log-odds-error",
    "the model's log-odds are wrong by at most {error:g}",
    tested_by=("blind-members",),
    theory="theory:zero-run#log-odds-error",
)
STANDARD_ERRORS = replace(
    LOG_ODDS_ERROR,
    id="log-odds-standard-errors",
    sentence=(
        "the model's log-odds are wrong by at most {errors:g} standard errors of each ({median:.2g} in the median, "
        "{largest:.2g} at the most)"
    ),
)
BLIND_MEMBERS = Check(
    id="blind-members",
    passed=(
        "Control passed: an attack that never saw the model, cross-fitted on the features, does not beat the "
        "propensities (p = {p_value:p}; refuted at {level:g}). That proves nothing: a better one might."
    ),
    refuted=(
        "Control refuted: members and non-members can be told apart without the model better than the propensities say "
        "(p = {p_value:p}; refuted at {level:g})" + NOT_THE_MODEL
    ),
    not_run="Control not tried: without features a blind baseline has nothing to go by.",
    remedy=(
        "A propensity model that knows what the blind baseline knows: `propensity.Boosted`, or more held rows. A "
        "`log_odds_error` that you answer for gives a bound of its own."
    ),
    refutes=(
        "propensity-model",
        "log-odds-error",
        "log-odds-standard-errors",
        "propensities",
        "propensity-error",
        "propensity-overlap",
    ),
    level=0.05,
    theory="theory:zero-run#blind-baseline",
)
OVERLAP = Check(
    id="overlap",
    measured=(
        "The propensities tell members from non-members with AUC {auc:.2f}. Every row's membership probability is "
        "about {nearest:.2g} or more away from 0 and 1; for {share:.0%} of each group it is {most:.2g} or more. "
        "Weighed by them, the groups are worth {members:,.0f} and {others:,.0f} rows (estimates)."
    ),
    refuted="The features tell members from non-members exactly" + NOT_THE_MODEL,
    refutes="propensity-model",
    theory="theory:zero-run#composition",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ZeroRun:
    """Known members and non-members, a score for each, and features for the propensity.

    Attributes
    ----------
    scores
        One a row; higher means member. `attacks.inner_product` and `attacks.negative_loss` are such scores.
    member
        Whether each row was trained on.
    origin
        Where the non-members come from: "split" (a random hold-out), "later", "domain" or "given".
    features, feature_names
        Numeric columns for the propensity and for the blind baseline. Not needed for a split.
    propensity
        A model of `dpaudit.fitted.propensity`, or known propensities, P(member given the features) *of these rows*: one
        number a row, or two (lower, upper). They must add up to about as many members as there are.
    adversary
        "aware" ranks rows by the score with the log-odds regressed out (the slope is learnt on held rows), so that it
        prefers what the model says to what the features do, and leaves rows with extreme propensities alone; "unaware"
        by the score alone.
    trim
        How near to 0 or 1 a propensity is extreme (default 0.02 for the aware adversary, 0 for the other). Such rows
        are not guessed: that costs nothing, as features alone decide it, and there propensity models are wrong.
    fit_fraction
        Share of the units that are not audited: to fit the propensity model on (default 0.5), or, where propensities
        are known, for the slope of the aware adversary (0.2).
    cross_fit
        Fit the propensity model on the audited rows themselves, in folds; the bound then says so.
    clip
        Propensities nearer to 0 or 1 than this are only known to be so near: no evidence in a guess that agrees with
        them, and no more than that of the edge in one that does not.
    log_odds_error
        Widens every propensity by so much in log-odds. None: a fitted one by twice the standard error of its own
        log-odds (`propensity.standard_errors`), a known one not at all. A fitted model is off by a little everywhere,
        the more the more columns it has, and that alone would look like a leak.
    group, unit
        Rows of one unit are one: their scores and features are averaged.
    columns
        What the features were before they became numbers, by name: the check for columns that reveal membership then
        looks at these. None: at the features themselves.
    relation
        SUBSTITUTE, or ADD_REMOVE for exactly the members shown.
    assumed
        Whatever else the evidence rests on.
    source
        Where the rows come from, for the record.
    ids
        Whole numbers that name the rows in the evidence; None: their places, from 0.
    """

    scores: Any
    member: Any
    origin: str = "given"
    features: Any = None
    feature_names: tuple[str, ...] = ()
    propensity: Any = field(default_factory=Logistic)
    adversary: str = "aware"
    trim: float | None = None
    fit_fraction: float | None = None
    cross_fit: bool = False
    clip: float = 0.0
    log_odds_error: float | None = None
    group: Any = None
    unit: str = "record"
    columns: dict[str, Any] | None = None
    relation: Relation | str = Relation.SUBSTITUTE
    sides: str = "both"
    assumed: tuple[Assumption, ...] = ()
    ids: Any = None
    source: dict[str, Any] | None = None

    kind: ClassVar[str] = "zero-run"
    purpose: ClassVar[str] = "coins of given members"
    evidence_type: ClassVar[type] = MemberScores
    assumptions: ClassVar[tuple[Assumption, ...]] = (
        PROPENSITY_MODEL,
        COMPLETE,
        CROSS_FITTED,
        LOG_ODDS_ERROR,
        STANDARD_ERRORS,
        ONE_ROW_A_UNIT,
        RARE_LEVELS,
    )
    checks: ClassVar[tuple[Check, ...]] = (BLIND_MEMBERS, OVERLAP, LEAKING)
    attempts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_origin(self.origin)
        scores, bits = check.scores("scores", self.scores), check.booleans("member", self.member)
        rows = check.same_length(scores=scores, member=bits)
        check_settings(self.adversary, self.trim, self.fit_fraction, self.cross_fit, self.clip, self.log_odds_error)
        trim = (TRIM if self.adversary == "aware" else 0.0) if self.trim is None else float(self.trim)
        asked = relation(self.relation)
        if asked not in (Relation.SUBSTITUTE, Relation.ADD_REMOVE):
            raise InputError(f"`relation` must be substitute or add-remove, got {asked}.")
        features, known = None, None
        if self.origin != "split":
            if not hasattr(self.propensity, "fit"):
                known = reading.known_propensities(self.propensity, bits)
            if self.features is not None:
                features = propensities.prepared(self.features, bits)[0]
            elif known is None:
                raise InputError(
                    "`features` are needed where membership was given: the propensity is learnt from them.",
                    "a random hold-out is origin='split' and needs none.",
                )
        if asked is Relation.ADD_REMOVE and self.origin != "split" and known is None:
            raise InputError(
                "`relation` add-remove needs known propensities: pools that are re-randomised certify substitution.",
                "leave `relation` out.",
            )
        names = self.feature_names or tuple(f"column {n}" for n in range(0 if features is None else features.shape[1]))
        if features is not None and len(names) != features.shape[1]:
            raise InputError(f"`feature_names` must name {features.shape[1]} columns, got {len(names)}.")
        held = self._default_held(known) if self.fit_fraction is None else float(self.fit_fraction)
        if known is None and self.origin != "split" and not held and not self.cross_fit:
            raise InputError(
                "`fit_fraction` must be a share above 0: the propensity model is fitted on rows that are not audited."
            )
        group = None if self.group is None else check.labels("group", self.group)
        ids = np.arange(rows) if self.ids is None else np.asarray(self.ids)
        check.same_length(scores=scores, ids=ids)
        changed: dict[str, Any] = {
            "scores": scores,
            "member": bits,
            "features": features,
            "feature_names": tuple(names),
        }
        changed |= {"group": group, "relation": asked, "fit_fraction": held, "trim": trim, "ids": ids}
        changed["assumed"] = as_assumptions(self.assumed)
        changed["assumptions"] = (*type(self).assumptions, *changed["assumed"])  # may be accepted, too
        for name, value in changed.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_known", known)

    def _default_held(self, known: Any) -> float:
        if self.origin == "split":  # nothing is learnt
            return 0.0
        if known is None and not self.cross_fit:
            return HELD
        return HELD_FOR_SLOPE if self.adversary == "aware" else 0.0

    # ----------------------------------------------------------------------------------------------------- from a table

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        member: str = "member",
        score: str | None = None,
        loss: str | None = None,
        probability: Any = None,
        label: str | None = None,
        classes: Any = None,
        features: Any = None,
        leave_out: Any = (),
        origin: str = "given",
        unit: str | None = None,
        propensity: Any = "logistic",
        adversary: str = "aware",
        trim: float | None = None,
        fit_fraction: float | None = None,
        cross_fit: bool = False,
        clip: float = 0.0,
        log_odds_error: float | None = None,
        sample: int | None = None,
        relation: Relation | str = Relation.SUBSTITUTE,
        folder: str | Path = ".",
        seed: int = 0,
    ) -> ZeroRun:
        """The game of one table of known members and non-members of a released model.

        Parameters
        ----------
        table
            Files (Parquet, CSV, Arrow), by name or pattern, or a list of them; or a data frame.
        member
            The column that says whether a row was trained on: true / false or 1 / 0.
        score, loss
            The column of scores (higher means member), or of losses (lower does). None of both, and no `probability`:
            the column "score", or else "loss".
        probability, label
            Instead of a score: columns of predicted probabilities, one a class, or one of the second of two; and that
            of the true label, whose log-probability is the score. The label is a feature too: the score depends on it.
        classes
            The values of the label in the order of `probability`; None: sorted.
        features
            Columns for the propensity and for the blind baseline: numbers, dates, texts (their 100 most frequent
            values). None: every column that has no other use here.
        leave_out
            Columns that are no features. The score must not know of them but through the features.
        origin
            Where the non-members come from: "split" (a random hold-out), "later", "domain" or "given".
        unit
            The column that says whose row it is: rows of one unit are averaged. None: every row is one, an assumption.
        propensity
            "logistic", "boosted", or the column of known propensities, or two, [lower, upper].
        adversary
            "aware" takes what the features say off the score, "unaware" ranks by the score alone.
        trim
            How near to 0 or 1 a propensity is extreme, so that its row is not guessed.
        fit_fraction
            Share of the units that are not audited, to fit the propensity model on.
        cross_fit
            Fit the propensity model on the audited rows themselves, in folds.
        clip
            Propensities nearer to 0 or 1 than this are only known to be so near.
        log_odds_error
            By how much log-odds may be wrong; None: twice the standard error of fitted ones.
        sample
            Play with about this many rows, drawn at random: for tables that do not fit into memory.
        relation
            "substitute", or "add-remove" for exactly the members shown.
        folder, seed
            Where names of files start, and what draws the sample.
        """
        check_origin(origin)
        check_settings(adversary, trim, fit_fraction, cross_fit, clip, log_odds_error)
        split, read = origin == "split", Table.of(table, folder=folder)
        told: dict[str, Any] = {
            "adversary": adversary,
            "trim": trim,
            "fit_fraction": fit_fraction,
            "cross_fit": cross_fit,
        }
        told |= {"clip": clip, "log_odds_error": log_odds_error}
        columns = {"features": features, "leave_out": leave_out, "propensity": propensity}
        if split:
            reading.refuse_for_split(cls.from_table, {**columns, **told})
            told["fit_fraction"] = 0.0
        ways = {"score": score, "loss": loss, "probability": probability, "label": label, "classes": classes}
        uses = Uses.of(read, member=member, unit=unit, cross_fit=cross_fit, split=split, **ways, **columns)
        rows = read.sample(uses.needed, sample, unit=unit, seed=seed, days=True)
        matrix, names = rows.numeric(uses.features)
        shown = rows.columns(uses.features)
        return cls(
            scores=uses.scores(rows),
            member=rows.column(member, "flag"),
            origin=origin,
            features=matrix,
            feature_names=names,
            propensity=uses.propensity(rows, propensity),
            group=None if unit is None else rows.column(unit, "unit"),
            unit=unit_word(unit),
            columns=shown or None,
            relation=relation,
            assumed=cut_columns(shown),
            ids=rows.numbers,
            source={**uses.source(propensity, split=split), "sample": sample, "files": digests(read)},
            **told,
        )

    # ------------------------------------------------------------------------------------------------------------ units

    @cached_property
    def units(self) -> Units:
        """One line a unit; rows of one unit are averaged, and must agree in membership."""
        return Units.of(self.scores, self.member, self.features, self.__dict__["_known"], self.group)

    def parts(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The units that are held, and those that are audited: with fair coins from the rest, or all of it."""
        units = self.units
        order = stream(seed, "held units").permutation(len(units))
        cut = round(float(self.fit_fraction or 0.0) * len(units))
        held, rest = np.sort(order[:cut]), np.sort(order[cut:])
        for name, part in (("held", held), ("audited", rest)):
            if (name == "audited" or cut) and np.unique(units.member[part]).size < 2:
                raise InputError(f"the {name} rows must hold members and non-members, got one kind only.")
        if self.relation is Relation.ADD_REMOVE:
            return held, rest
        kept, _ = thin(units.member[rest], stream(seed, self.purpose))
        return held, rest[kept]

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The memberships of the audited units, in the order in which the coins drew them."""
        return self.units.member[self.parts(seed)[1]]

    def plan(self, seed: int) -> dict[str, Any]:
        """Every setting, and digests of the rows."""
        known = {} if self.__dict__["_known"] is None else {"propensity": "known", "known": self.__dict__["_known"]}
        return plan_of(self, rows=self.scores.size, **known)

    # ------------------------------------------------------------------------------------------------------------- play

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """The evidence, the blind baseline on the same rows, and how far the groups overlap."""
        with one_thread(trees=True):
            return self._played(seed)

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
        kept = audited[np.minimum(rates, 1.0 - rates) >= self.trim]
        return kept if kept.size >= LEAST else audited

    def _played(self, seed: int) -> Play:
        units = self.units
        if self.origin == "split":
            split = MemberScores(
                scores=units.scores,
                member=units.member,
                assignment="split",
                ids=self.ids[units.first],
                assumptions=self.assumed,
                **self._common(seed),
            )
            return Play(evidence=(split,))
        held, audited = self.parts(seed)
        odds = self.log_odds(seed)
        scores = units.scores
        if self.adversary == "aware":
            scores = scores - slope(scores, odds, units.member, held) * odds
        guessed = self._guessed(audited, odds)
        widths = self._widths(seed, held, guessed)
        evidence = MemberScores(
            scores=scores[guessed],
            member=units.member[guessed],
            propensity=self._bounds(odds, guessed, widths),
            ids=self.ids[units.first[guessed]],
            group=None if self.group is None else np.arange(guessed.size),  # one line a unit, and known to be
            assumptions=(*self._rests_on(held.size, widths), *self.assumed),
            **self._common(seed),
        )
        blind = Control(check=BLIND_MEMBERS, evidence=lambda: self._blind(evidence, guessed, odds, seed))
        overlap = propensities.overlap(odds[audited], units.member[audited])
        return Play(
            evidence=(evidence,), controls=(blind,), results=(self._overlapping(overlap), *self._leaking(units))
        )

    def _overlapping(self, found: Overlap) -> CheckResult:
        """How far propensities tell the groups apart; where they do so exactly, no row is left to say more about."""
        return CheckResult(
            check=OVERLAP,
            outcome="refuted" if found.eta[0] < 1e-6 and found.auc == 1.0 else "measured",
            numbers={
                "auc": found.auc,
                "eta": list(found.eta),
                "shares": list(propensities.SHARES),
                "nearest": found.eta[0],
                "share": 1.0 - propensities.SHARES[1],
                "most": found.eta[1],
                "members": found.effective[0],
                "others": found.effective[1],
                "calibration_error": found.error,
                "log_odds_error": self.log_odds_error,
            },
            figure={
                "calibration": {
                    "predicted": list(found.predicted),
                    "observed": list(found.observed),
                    "rows": list(found.rows),
                },
                "propensities": {
                    "edges": list(found.edges),
                    "members": list(found.members),
                    "others": list(found.others),
                },
            },
        )

    def _leaking(self, units: Units) -> tuple[CheckResult, ...]:
        """The columns that give memberships away, if any do."""
        if units.features is None:
            return ()
        columns: dict[str, Any] = dict(zip(self.feature_names, units.features.T, strict=True))
        if self.columns is not None:  # texts have no mean, so a unit is known by its first row
            columns = {name: np.asarray(column)[units.first] for name, column in self.columns.items()}
        found = baselines.leaking_columns(columns, units.member)
        if not found:
            return ()
        exactly = any(one.exactly for one in found)
        numbers = {"columns": [str(one) for one in found], "names": [one.column for one in found]}
        return (CheckResult(check=LEAKING, outcome="refuted" if exactly else "measured", numbers=numbers),)

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

    def _rests_on(self, held: int, widths: Vector) -> tuple[Assumption, ...]:
        found: list[Assumption] = []
        if self.units.known is None:
            where = CROSS if self.cross_fit else filled(OTHERS, {"count": held, "unit": self.unit})
            found.append(PROPENSITY_MODEL.measured(model=self.propensity.words(), where=where))
        found.append(COMPLETE)
        if self.cross_fit:
            found.append(CROSS_FITTED)
        if self.log_odds_error:
            found.append(LOG_ODDS_ERROR.asserted(error=float(self.log_odds_error)))
        elif widths.any():
            median, largest = float(np.median(widths)), float(widths.max())
            found.append(STANDARD_ERRORS.asserted(errors=ERRORS).measured(median=median, largest=largest))
        return tuple(found)

    def _blind(
        self, evidence: MemberScores, audited: NDArray[np.intp], odds: Vector, seed: int
    ) -> tuple[MemberScores, ...]:
        """The blind baseline on the audited rows; nothing where it has nothing to go by."""
        if self.units.features is None:
            return ()
        with one_thread(trees=True):
            return baselines.blind_members(evidence, odds[audited], self.units.features[audited], seed=seed)
