"""Challenge a published audit of given members: does its correction survive somebody else's blind baseline?

Such an audit stands and falls with its propensities, and no sample proves them right (theory:zero-run#estimated).
Anybody who knows more about how members and non-members differ can try to refute them, from the record and its evidence
file alone:

| challenger | what is tested, at epsilon 0 (theory:zero-run#blind-baseline) |
|---|---|
| `blind` | scores of the audited rows that were made without the model |
| `propensity` | another model's propensities: its log-odds against the published ones |
| `features` | an attack that learns membership from features, in two folds, as the control of the game does |

Without the model, right propensities are refuted with probability at most 1 - confidence. A challenger that does not
refute them proves nothing.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit import estimators
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled, unique
from dpaudit.attacks import baselines
from dpaudit.bounds import LowerBound, Relation
from dpaudit.counterfactuals import Categorical
from dpaudit.estimators.members import INDEPENDENT
from dpaudit.evidence import MemberScores, load_evidence
from dpaudit.fitted import propensity as propensities
from dpaudit.record import Audit, load_audit, plain, printable

REFUTED, SURVIVES = "refuted", "survives"


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(**{"id": id, "sentence": sentence, "answered_by": "auditor", **more})


CHALLENGERS = {
    "blind": _assumed(
        "challenger-is-blind",
        ("the challenger's scores were made without the audited model and without the memberships of these rows"),
    ),
    "propensity": _assumed(
        "challenger-is-independent",
        "the challenger's propensities were fitted without the audited model and on other rows",
    ),
    "features": _assumed(
        "features-are-blind", "no feature was made with the audited model or from the list of its members"
    ),
}
"""Who may challenge, and what a refutation by them rests on."""
REACHES = _assumed("scores-may-know", "the published scores may depend on what the challenger knows about a record")
"""Else the attack could not have used it, and the published number would hold in spite of it."""
THEIRS = _assumed("challenger-is-right", "membership follows the challenger's propensities")
PUBLISHED_MODEL = ("propensity-model", "log-odds-error", "log-odds-standard-errors", "no-hidden-factor", "cross-fitted")
"""By which assumptions a game vouches for its own propensities."""
STEPS, A_STEP = 1000, 0.01
"""Errors of the log-odds that are tried."""
REFUTES = (
    "Refuted at {confidence:percent} confidence{over} (p = {p_value:p}): members can be told from non-members without "
    "the model better than the published propensities say. If the listed assumptions hold, the published number may "
    "not be attributed to the model."
)
OVER = " over {attempts} attempts"
DOES_NOT_REFUTE = (
    "Survives (p = {p_value:p}, refuted at {level:g} or less): this challenger does not refute the published "
    "propensities. That proves nothing more; a better one may."
)
WHO = "{audit}: {rows:,} rows ({members:,} of members), challenged by {words}"
BOUNDS = "{held}: {numbers}   {confidence:percent} confidence{each}, {relation} of one {unit}"
PUBLISHED = "published"
UNDER_THEIRS = "if {assumption}"
NO_ERROR = "no error of the log-odds up to {error:g} would save them"
ERRORS = (
    "log-odds that are off by up to {refuted_error:down} beyond the published bounds are refuted as well, by up to "
    "{allowed_error:down} not"
)
AT_BEST = "at best, if off by no more than {allowed_error:down}"
LEAKS = "where members part from the published propensities: {feature}"
RESTS_ON = "assumption: {assumption}"
PAID = (
    "{tests}, at level {level:g}. Whoever tries several challengers, columns or seeds on one record must count them "
    "all in `attempts`, which share the error between them."
)
ONE_TEST, ONE_OF_SEVERAL = "One test", "One test of {attempts}"
BY_SCORES, BY_PROPENSITIES = "scores made without the model", "another model's propensities"
BY_FEATURES = "an attack learnt from {columns:,} feature{plural}, in two folds"
OWN_FEATURE = "the published propensity"
"""What the published propensity is called among the features."""
EDGE = float(special.logit(1.0 - 1e-12))
ESTIMATORS: dict[str, Callable[..., LowerBound]] = {
    "epsilon": estimators.epsilon_from_members,
    "mu": estimators.mu_from_members,
}
Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """What came of one challenge.

    Attributes
    ----------
    outcome
        "refuted": membership can be told without the model better than the published propensities say. "survives":
        this challenger does not show that; it proves nothing more.
    p_value, confidence, attempts
        Of the one test of the published propensities; refuted where the p-value is at most `level`.
    published
        The bounds of the record.
    under_challenger
        The same bounds if the challenger's propensities are right (of `propensity` alone).
    refuted_error, allowed_error
        The largest error of the log-odds, beyond the published bounds, that is refuted as well, and the next step of
        0.01, which is not; None where nothing is refuted, or none up to 10 is allowed.
    at_best
        The published bounds if no log-odds is off by more than `allowed_error`. It may be off by more.
    leaking_features
        Where members part most from the published propensities (of `features` alone); an explanation, no test.
    assumptions
        What a refutation rests on.
    """

    outcome: str
    audit: str
    challenger: str
    words: str
    p_value: float
    confidence: float
    attempts: int
    seed: int
    relation: Relation
    unit: str
    rows: int
    members: int
    evidence: str
    published: tuple[LowerBound, ...]
    under_challenger: tuple[LowerBound, ...] = ()
    refuted_error: float | None = None
    allowed_error: float | None = None
    at_best: tuple[LowerBound, ...] = ()
    leaking_features: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def refuted(self) -> bool:
        return self.outcome == REFUTED

    @property
    def exit_code(self) -> int:
        """1 where the published correction is refuted, else 0."""
        return int(self.refuted)

    @property
    def level(self) -> float:
        """The error probability of this test."""
        return (1.0 - self.confidence) / self.attempts

    @property
    def sentence(self) -> str:
        over = filled(OVER, self._fields) if self.attempts > 1 else ""
        return filled(REFUTES if self.refuted else DOES_NOT_REFUTE, {**self._fields, "over": over})

    @property
    def _fields(self) -> dict[str, Any]:
        """What its templates may speak of."""
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, "level": self.level}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        lists = ("published", "under_challenger", "at_best")
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in lists}
        own["assumptions"] = [{"key": one.key, "text": one.text} for one in self.assumptions]
        bounds = {name: [bound.to_dict() for bound in getattr(self, name)] for name in lists}
        found: dict[str, Any] = plain({**own, **bounds, "level": self.level, "sentence": self.sentence})
        return found

    def __str__(self) -> str:
        who = filled(WHO, self._fields)
        lines = [*self._bounds(PUBLISHED, self.published)]
        lines += self._bounds(filled(UNDER_THEIRS, {"assumption": THEIRS}), self.under_challenger)
        lines += self._left()
        lines += [filled(LEAKS, {"feature": feature}) for feature in self.leaking_features]
        lines += [filled(RESTS_ON, {"assumption": one}) for one in self.assumptions]
        return printable("\n".join([who, *(f"  {line}" for line in lines), self._paid(), self.sentence]))

    def _bounds(self, held: str, bounds: Sequence[LowerBound]) -> list[str]:
        """All of them on one line, each a statement of its own."""
        if not bounds:
            return []
        shown = {
            "held": held,
            "numbers": "; ".join(str(bound).partition("   ")[0] for bound in bounds),
            "confidence": min(bound.confidence for bound in bounds),
            "each": " each" if len(bounds) > 1 else "",
        }
        return [filled(BOUNDS, {**self._fields, **shown})]

    def _left(self) -> list[str]:
        """What a refutation leaves of the published bounds."""
        if not self.refuted:
            return []
        if self.allowed_error is None:
            return [filled(NO_ERROR, {"error": STEPS * A_STEP})]
        return [filled(ERRORS, self._fields), *self._bounds(filled(AT_BEST, self._fields), self.at_best)]

    def _paid(self) -> str:
        tests = ONE_TEST if self.attempts == 1 else filled(ONE_OF_SEVERAL, self._fields)
        return filled(PAID, {**self._fields, "tests": tests})

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self), quote=False)}</pre>"


def challenge(
    record: Audit | str | os.PathLike[str],
    evidence: MemberScores | str | os.PathLike[str],
    *,
    blind: Any = None,
    propensity: Any = None,
    features: Any = None,
    feature_names: Sequence[str] = (),
    confidence: float = 0.95,
    attempts: int = 1,
    seed: int = 0,
) -> Challenge:
    """Try to refute the propensities of a published audit of given members, by one of three challengers.

    Each comes as `(ids, values)`, or as a dict from id to value; `ids` are those of the evidence. Every audited row
    must be covered, and other rows are ignored.

    Parameters
    ----------
    record, evidence
        The published audit and its evidence, or the files that hold them.
    blind
        Scores that were made without the model and without the memberships of these rows; higher means member.
    propensity
        Another model's P(member), fitted on other rows, for members and non-members in equal numbers, as in a game.
    features, feature_names
        One line of numbers an id: a blind baseline is learnt from them, each fold by the other.
    attempts
        Challengers, columns and seeds that are tried on this record in all: the level is divided by it.
    seed
        Of the folds.

    Examples
    --------
    >>> from dpaudit import audit
    >>> from dpaudit.testing import ground_truth
    >>> given = ground_truth.ShiftedMembers(parameter=1.0, rows=2000).sample(np.random.default_rng(1))
    >>> flat = replace(given, propensity=np.full(2000, 0.5), ids=np.arange(2000))  # members differ; this denies it
    >>> found = challenge(audit(flat, delta=0.0), flat, propensity=(flat.ids, given.propensity))
    >>> print(found.outcome, found.exit_code)
    refuted 1
    """
    level = (1.0 - check.confidence(confidence)) / check.count("attempts", attempts, low=1)
    check.count("seed", seed)
    given = {"blind": blind, "propensity": propensity, "features": features}
    who = [name for name, value in given.items() if value is not None]
    if len(who) != 1:
        names = ", ".join(f"`{name}`" for name in given)
        raise InputError(f"exactly one of {names} must be given, got {' and '.join(who) or 'none'}.")
    if feature_names and features is None:
        raise InputError("`feature_names` has no effect without `features`.")
    audited = record if isinstance(record, Audit) else load_audit(record)
    seen = _evidence_of(audited, evidence)
    bounds = _published(audited)
    ids, values = _by_id(who[0], given[who[0]])
    values = values[_places(who[0], ids, seen.ids)]
    if features is not None:
        found = _by_features(seen, values, tuple(feature_names), seed)
    else:
        found = _by_scores(seen, values) if blind is not None else _by_propensities(seen, values, bounds)
    p_value, assumptions = _tested(found.parts, 0.0)
    left: dict[str, Any] = {}
    if p_value <= level:
        refuted, allowed = _errors(found.parts, level)
        left = {"refuted_error": refuted, "allowed_error": allowed, "leaking_features": found.leaking_features}
        if allowed is not None:
            left["at_best"] = _again(_neutral(seen), bounds, log_odds_error=allowed)
    return Challenge(
        outcome=REFUTED if p_value <= level else SURVIVES,
        audit=audited.name,
        challenger=who[0],
        words=found.words,
        p_value=p_value,
        confidence=confidence,
        attempts=attempts,
        seed=seed,
        relation=seen.relation,
        unit=seen.unit,
        rows=seen.scores.size,
        members=int(seen.member.sum()),
        evidence=seen.digest,
        published=bounds,
        under_challenger=found.under,
        assumptions=(CHALLENGERS[who[0]], REACHES, *assumptions),
        **left,
    )


# ------------------------------------------------------------------------------------------------- what was published


def _evidence_of(record: Audit, evidence: MemberScores | str | os.PathLike[str]) -> MemberScores:
    """The evidence, if it is that of the record and rests on propensities."""
    published = record.evidence[0] if record.evidence else {"type": "none"}
    kind = published["type"]
    if kind != MemberScores.__name__:
        raise InputError(
            f"`record` must be of an audit of given members (MemberScores), got evidence of type {kind}.",
            "only such audits rest on propensities; a claim is tested again by `dpaudit estimate EVIDENCE --claim`.",
        )
    seen: Any = load_evidence(evidence) if isinstance(evidence, str | os.PathLike) else evidence
    if not hasattr(seen, "digest") or published["digest"] not in (seen.digest, seen.former_digest):
        found = f"digest {seen.digest[:12]}" if hasattr(seen, "digest") else type(seen).__name__
        raise InputError(
            f"`evidence` must be that of the record (digest {published['digest'][:12]}), got {found}.",
            "`dpaudit run` writes NAME.json and NAME.evidence.parquet side by side; both must be of one run.",
        )
    if seen.assignment != "given":
        raise InputError(
            f"`record` must be of members that nobody randomised (given), got assignment {seen.assignment!r}.",
            "a random hold-out rests on no propensities, so there is no correction to challenge.",
        )
    if seen.ids is None:
        raise InputError(
            "`evidence` must have `ids`, got none: a challenger's rows cannot be matched to its own.",
            "games write them; evidence of your own takes `ids=`.",
        )
    return seen


def _published(record: Audit) -> tuple[LowerBound, ...]:
    bounds: Any = tuple(bound for bound in record.bounds if bound.parameter in ESTIMATORS)
    if not bounds:
        raise InputError(
            f"`record` must report a bound on epsilon or mu, got none (its outcome is {record.outcome}).",
            "where the audit's own control refuted them, there is nothing left to challenge.",
        )
    found: tuple[LowerBound, ...] = bounds
    return found


def _vouches(one: Assumption) -> bool:
    """Whether it vouches for the published propensities; a bound under other ones does not rest on it."""
    return one.id in PUBLISHED_MODEL


def _neutral(evidence: MemberScores) -> MemberScores:
    return replace(evidence, assumptions=tuple(one for one in evidence.assumptions if not _vouches(one)))


def _again(evidence: MemberScores, published: Sequence[LowerBound], **how: Any) -> tuple[LowerBound, ...]:
    """The same statements, from other propensities."""
    return tuple(
        ESTIMATORS[one.parameter](evidence, delta=one.delta, confidence=one.confidence, **how) for one in published
    )


# ---------------------------------------------------------------------------------------------------- the challenger


def _by_id(name: str, given: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids and what is said about each: a number, or a line of features."""
    if isinstance(given, Mapping):
        ids, values = list(given), list(given.values())
    elif isinstance(given, tuple | list) and len(given) == 2:
        ids, values = given
    else:
        kind = type(given).__name__
        raise InputError(f"`{name}` must be (ids, values), or a dict from id to value, got {kind}.")
    labels = check.labels(f"{name} ids", ids if len(ids) else np.zeros(0, dtype=np.int64))
    if name != "features":
        numbers = check.floats(name, values)
    else:
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "`features` must be numbers, one line an id.", "encode texts and categories first."
            ) from None
        if numbers.ndim != 2:
            raise InputError(f"`features` must be a table of rows and columns, got shape {numbers.shape}.")
    if len(labels) != len(numbers):
        raise InputError(f"`{name}` must have one value an id, got {len(labels):,} ids and {len(numbers):,} values.")
    return labels, numbers


def _places(name: str, ids: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.intp]:
    """Where the challenger speaks of each audited row."""
    if ids.dtype.kind != wanted.dtype.kind:  # a file may hold as text what the evidence holds as numbers
        ids, wanted = ids.astype(np.str_), wanted.astype(np.str_)
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    twice = ranked[1:][ranked[1:] == ranked[:-1]]
    if twice.size:
        raise InputError(f"`{name}` must have one row an id, got {twice[0]!s} more than once.")
    if ranked.size:
        at = np.minimum(np.searchsorted(ranked, wanted), ranked.size - 1)
        missing = ranked[at] != wanted
    else:
        missing = np.ones(wanted.size, dtype=np.bool_)
    if missing.any():
        raise InputError(
            f"`{name}` must cover every audited row, got none for {int(missing.sum()):,} of {wanted.size:,}, "
            f"such as id {wanted[missing][0]!s}.",
            "the ids of a game are the row numbers of its table, from 0; leaving rows out would be a selection.",
        )
    return np.asarray(order[at])


@dataclass(frozen=True, kw_only=True)
class _Attack:
    """The blind baseline (one part, or one a fold), and what else the challenger says."""

    parts: tuple[MemberScores, ...]
    words: str
    under: tuple[LowerBound, ...] = ()
    leaking_features: tuple[str, ...] = ()


def _by_scores(seen: MemberScores, values: NDArray[Any]) -> _Attack:
    attack = replace(seen, scores=check.scores("blind", values), sides="both")
    return _Attack(parts=(attack,), words=BY_SCORES)


def _by_propensities(seen: MemberScores, values: NDArray[Any], published: tuple[LowerBound, ...]) -> _Attack:
    """Guesses by the sign of how far the two models are apart, the furthest first."""
    rates = _propensities(values)
    apart = np.clip(special.logit(rates), -EDGE, EDGE) - _log_odds(seen)
    neutral = _neutral(seen)
    theirs = replace(neutral, propensity=rates, assumptions=(*neutral.assumptions, THEIRS))
    return _Attack(
        parts=(replace(seen, scores=apart, sides="sign"),),
        words=BY_PROPENSITIES,
        under=_again(theirs, published),
    )


def _by_features(seen: MemberScores, values: NDArray[Any], names: tuple[str, ...], seed: int) -> _Attack:
    """Membership of units, one line of features each: rows of one unit are averaged, as in the game."""
    columns = names or tuple(f"column {n}" for n in range(values.shape[1]))
    if len(columns) != values.shape[1]:
        raise InputError(f"`feature_names` must name {values.shape[1]} columns, got {len(columns)}.")
    units = seen.reduced()
    rows, _ = propensities.prepared(values if seen.group is None else _averaged(seen.group, values), units.member)
    odds = _log_odds(units)
    parts = baselines.blind_members(units, odds, rows, seed=seed)
    if not parts:
        raise InputError(f"`features` need more audited rows for two folds of both groups, got {len(rows)}.")
    rates = special.expit(odds)
    distribution = Categorical(np.stack([1.0 - rates, rates], axis=1))
    named = dict(zip(columns, rows.T, strict=True))
    shown = [str(one) for one in baselines.leaking_columns(named, units.member)]
    for one in baselines.leaking_features(distribution, units.member.astype(np.int64), rows, list(columns)):
        own = one.feature == baselines.OWN_PREDICTION
        shown.append(str(replace(one, feature=OWN_FEATURE) if own else one))
    words = filled(BY_FEATURES, {"columns": len(columns), "plural": "s" if len(columns) > 1 else ""})
    return _Attack(parts=parts, words=words, leaking_features=tuple(shown))


def _propensities(values: NDArray[Any]) -> Vector:
    rates = np.asarray(values, dtype=np.float64)
    if not np.all((rates >= 0.0) & (rates <= 1.0)):  # also refuses NaN
        wrong = rates[~((rates >= 0.0) & (rates <= 1.0))]
        raise InputError(f"`propensity` must be probabilities in [0, 1], got {wrong[0]:g} ({wrong.size:,} such rows).")
    if np.all((rates == 0.0) | (rates == 1.0)):
        raise InputError(
            "`propensity` must leave some row in doubt, got 0 or 1 in every row.",
            "guesses of membership go as `blind`.",
        )
    return rates


def _averaged(group: NDArray[Any], values: NDArray[Any]) -> Vector:
    """One line a group, in the order of `MemberScores.reduced`."""
    _, place = np.unique(group, return_inverse=True)
    counts = np.bincount(place)
    return np.stack([np.bincount(place, column) / counts for column in values.T], axis=1)


def _log_odds(evidence: MemberScores) -> Vector:
    """The middle of the published bounds; where one of them says nothing, the other."""
    bounds = np.atleast_2d(evidence.propensity.T)
    lower, upper = special.logit(bounds[0]), special.logit(bounds[-1])
    low, high = np.where(lower == -np.inf, upper, lower), np.where(upper == np.inf, lower, upper)
    unknown = (lower == -np.inf) & (upper == np.inf)
    low, high = np.where(unknown, 0.0, low), np.where(unknown, 0.0, high)
    return np.asarray(0.5 * (np.clip(low, -EDGE, EDGE) + np.clip(high, -EDGE, EDGE)))


# ----------------------------------------------------------------------------------------------------------- the test


def _tested(parts: tuple[MemberScores, ...], error: float) -> tuple[float, tuple[Assumption, ...]]:
    """p-value of the published propensities, each widened by an error of its log-odds, and what it rests on."""
    if len(parts) == 1:
        p_value = estimators.propensity_p_value(parts[0], log_odds_error=error)
    else:
        p_value = estimators.null_p_value([_widened(part, error) for part in parts])
    rests = (one for one in parts[0].conditions if not _vouches(one))  # they are what is tested
    return p_value, unique([*rests, INDEPENDENT])


def _widened(part: MemberScores, error: float) -> MemberScores:
    if not error:
        return part
    bounds = special.logit(np.atleast_2d(part.propensity.T))
    wide = special.expit(np.stack([bounds[0] - error, bounds[-1] + error], axis=1))
    return replace(part, propensity=wide)


def _errors(parts: tuple[MemberScores, ...], level: float) -> tuple[float, float | None]:
    """The largest error up to which all are refuted as well, and the next step, which is not."""
    for step in range(1, STEPS + 1):  # upward: p-values of a path may fall as well as rise
        if _tested(parts, step * A_STEP)[0] > level:
            return (step - 1) * A_STEP, step * A_STEP
    return STEPS * A_STEP, None


__all__ = ["Challenge", "challenge"]
