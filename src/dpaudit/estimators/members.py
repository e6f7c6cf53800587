"""Bounds from known members and non-members that nobody randomised (`MemberScores`): theory:zero-run#signed,
theory:zero-run#composition.

Membership can be guessed from the features alone; how well is what the propensity says. Three corrections:

| correction | what it does | needs |
|---|---|---|
| "conditional" (default) | a guess is right with probability at most sig(epsilon + its log-odds) | propensities |
| "tampered" | guesses are dropped at random with the features' strength, then the f-DP recursion | propensities |
| "composition" | the worst log-odds is added to epsilon for every row | overlap=(eta, delta_ds) |

Every bound here is conditional on the propensities, and says so. The papers' printed forms over-claim
(theory:errata#paper-003).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, filled
from dpaudit.bounds import LowerBound, Relation, convert
from dpaudit.estimators.canaries import invert_recursion, one_run_epsilon
from dpaudit.estimators.thresholds import (
    NUMBERS,
    Fixed,
    FractionGrid,
    GuessPath,
    MemberGuesses,
    Strategy,
    count_words,
    guess_counts,
    guesses_from_members,
    no_split,
    refuse,
    unlike,
)
from dpaudit.evidence import MemberScores
from dpaudit.tradeoff import GAUSSIAN, Family, Gaussian, TradeOff, approximate

PROOFS = {
    "conditional": "theory:zero-run#signed",
    "conditional mu": "theory:zero-run#signed-mu",
    "tampered": "theory:zero-run#tampered",
    "composition": "theory:zero-run#composition",
}
CORRECTIONS = ("conditional", "tampered", "composition")


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(
        **{"id": id, "sentence": sentence, "answered_by": "data holder", "theory": "theory:zero-run#signed", **more}
    )


INDEPENDENT = _assumed("independent-memberships", "given the features, memberships are independent of each other")
EXACTLY_SHOWN = _assumed(
    "members-exactly-shown",
    "the training set is a fixed part plus exactly the members shown",
    theory="theory:adjacency#relations",
)
PROPENSITIES = _assumed(
    "propensities", "the propensities are not over-confident", answered_by="auditor", tested_by=("blind-members",)
)
PROPENSITY_ERROR = replace(
    PROPENSITIES,
    id="propensity-error",
    sentence="no propensity is over-confident by more than {error:g} in log-odds",
)
OVERLAP = replace(
    PROPENSITIES,
    id="propensity-overlap",
    sentence="all but a share {share:g} of each group has its propensity in [{eta:g}, {rest:g}]",
    theory="theory:zero-run#composition",
)
METHOD = "given members, {correction} correction"
SIZE = "{members:,} members, {others:,} non-members"
PATH_UP_TO = "{count} numbers of guesses up to {last:,}, calibrated as one path"
PATH = "{count} numbers of guesses, calibrated as one path"
TAMPERED = "{guesses} guesses, fixed in advance, tampered once"
REFERENCES = ("Cebere et al., Privacy Auditing with Zero (0) Training Run, corrected: theory:errata#paper-003",)
ERRORS = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Errors of the log-odds at which a bound is shown."""
Overlap = tuple[float, float]


def epsilon_from_members(
    evidence: MemberScores,
    *,
    delta: float,
    confidence: float = 0.95,
    correction: str = "conditional",
    guesses: Strategy | None = None,
    log_odds_error: float = 0.0,
    overlap: Overlap | None = None,
    blind: MemberScores | None = None,
) -> LowerBound:
    """Lower bound on epsilon at `delta` from given members, if the propensities are not over-confident.

    See theory:zero-run#signed, theory:zero-run#composition.

    Parameters
    ----------
    guesses
        Conditional: `GuessPath()` (default), `Fixed(...)`, `FractionGrid()`. The others: `FractionGrid()` (default) or
        `Fixed(...)`; composition also takes `GuessPath()`.
    log_odds_error
        Widens every propensity by this much in log-odds: the bound holds if none is wrong by more.
    overlap
        (eta, delta_ds) for the composition: all but a share delta_ds of each group has propensities in [eta, 1 - eta].
    blind
        The same rows scored without the model. If that attack alone refutes the propensities, no number is reported.
    """
    family = approximate(check.delta(delta))
    return _from_members(
        "epsilon_from_members", evidence, family, delta, confidence, correction, guesses, log_odds_error, overlap, blind
    )


def mu_from_members(
    evidence: MemberScores,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    correction: str = "conditional",
    guesses: Strategy | None = None,
    log_odds_error: float = 0.0,
    overlap: Overlap | None = None,
    blind: MemberScores | None = None,
) -> LowerBound:
    """Lower bound on mu of Gaussian DP from given members; the parameters are those of `epsilon_from_members`.

    See theory:zero-run#tampered.

    The conditional form tests mu through one (epsilon, delta_mu(epsilon)), with epsilon a function of m, mu and the
    confidence alone (theory:zero-run#signed-mu): far stronger under shift than tampering.
    """
    return _from_members(
        "mu_from_members", evidence, GAUSSIAN, delta, confidence, correction, guesses, log_odds_error, overlap, blind
    )


def propensity_p_value(
    evidence: MemberScores, *, log_odds_error: float = 0.0, guesses: Strategy | None = None
) -> float:
    """p-value of the propensities, from scores that were made without the model (theory:zero-run#blind-baseline).

    Without the model epsilon is 0, so if the bounds on the propensities hold, the p-value is at most alpha with
    probability at most alpha.
    """
    name = "propensity_p_value"
    found = signed_guesses(needs_members(name, evidence), log_odds_error)
    return SignedPath(found, ranks_of(name, GuessPath() if guesses is None else guesses, found)).p_value(0.0, 0.0)


def epsilon_by_log_odds_error(
    evidence: MemberScores, *, delta: float, confidence: float = 0.95, errors: tuple[float, ...] = ERRORS
) -> tuple[float, ...]:
    """The bound on epsilon if every log-odds may be wrong by so much; each is a statement of its own, rounded down.

    See theory:zero-run#log-odds-error.
    """
    bounds = (
        epsilon_from_members(evidence, delta=delta, confidence=confidence, log_odds_error=error) for error in errors
    )
    return tuple(math.floor(1e6 * (bound.epsilon or 0.0)) / 1e6 for bound in bounds)


def largest_log_odds_error(
    evidence: MemberScores, *, delta: float, confidence: float = 0.95, above: float = 0.0
) -> float:
    """The largest error of the log-odds under which epsilon is still shown to be above `above`, rounded down to 0.01.

    See theory:zero-run#log-odds-error.

    0 where it is not shown at all. Every smaller error of the grid (steps of 0.01) leaves the finding standing too.
    With one propensity a row and delta 0 it is the bound on epsilon itself, less `above`: an error of the log-odds and
    a leak look alike.
    """
    ready = needs_members("largest_log_odds_error", evidence)
    alpha, least = 1.0 - check.confidence(confidence), check.number("above", above, low=0.0)

    found = signed_guesses(ready, 0.0)
    ranks = GuessPath().ranks(found.correct.size)
    slack = _binomial.excess(found.correct.size, least, check.delta(delta))
    wider = lru_cache(maxsize=4)(lambda error: SignedPath(_widened(ready, found, error), ranks))
    largest, _ = _binomial.scan_path(
        len(ranks),
        lambda error: wider(error).smallest(least),
        lambda error, tail: wider(error).crossing(least, tail),
        alpha=alpha,
        slack=lambda error: slack,
        most=slack,
    )
    return largest


LOG_ODDS = Check(
    id="sensitivity",
    measured=(
        "The finding that epsilon is above 0 stands as long as no log-odds is wrong by more than {largest:down}"
        "{beyond}; at {first:g}{more} epsilon is at least {at_first:down}, at {second:g}{more} at least "
        "{at_second:down} (each a statement of its own)."
    ),
    theory="theory:zero-run#log-odds-error",
)
ALLOWED = " beyond what is allowed for"
LOG_RATIO = Check(
    id="log-ratio-assumed",
    measured=(
        "The log-ratio of the true to the counterfactual distribution is an assumption, up to {log_ratio:up3}, instead "
        "of a tau."
    ),
)


def results(evidence: MemberScores, bounds: Any, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """How the bound on epsilon falls if the log-odds are wrong, and by how much they may be before nothing is left."""
    ids = {one.id for one in evidence.assumptions}
    if "log-ratio" in ids:
        widest = float(np.max(np.abs(np.log(evidence.propensity / (1.0 - evidence.propensity)))))
        return (CheckResult(check=LOG_RATIO, outcome="measured", numbers={"log_ratio": widest}),)
    epsilon = next(bound for bound in bounds if bound.parameter == "epsilon")
    if not epsilon.epsilon or "no-hidden-factor" not in ids:
        return ()
    how: dict[str, Any] = {"delta": delta, "confidence": confidence}
    curve = epsilon_by_log_odds_error(evidence, **how)
    allowed = bool(ids & {"log-odds-error", "log-odds-standard-errors"})
    numbers = {
        "largest": largest_log_odds_error(evidence, **how),
        "errors": list(ERRORS),
        "epsilon": list(curve),
        "first": ERRORS[1],
        "second": ERRORS[2],
        "at_first": curve[1],
        "at_second": curve[2],
        "beyond": ALLOWED if allowed else "",
        "more": " more" if allowed else "",
    }
    return (CheckResult(check=LOG_ODDS, outcome="measured", numbers=numbers),)


# ------------------------------------------------------------------------------------------------------------- evidence


def needs_members(name: str, evidence: object) -> MemberScores:
    """The evidence, one row a unit, or an error that names what to do instead."""
    if not isinstance(evidence, MemberScores):
        raise unlike(
            f"`{name}` needs known members and non-members (MemberScores)",
            evidence,
            CanaryScores="use `estimators.epsilon_from_canaries` or `mu_from_canaries` where coins decided.",
            RunScores="use `estimators.epsilon_from_runs` or `mu_from_runs` for independent runs.",
        )
    problem = InputError(
        f"`{name}` is for membership that nobody randomised, got a random hold-out.",
        "`evidence.as_split().thinned(seed=...)` makes fair coins of it, for the estimators of canaries.",
    )
    return no_split(evidence, problem).reduced()


def _widened(evidence: MemberScores, found: MemberGuesses, error: float) -> MemberGuesses:
    bounds = special.logit(np.atleast_2d(evidence.propensity.T))
    return found.under(bounds[0] - error, bounds[-1] + error)


def signed_guesses(evidence: MemberScores, log_odds_error: float) -> MemberGuesses:
    """The guesses in order, each with what the features alone say of it."""
    error = check.number("log_odds_error", log_odds_error, low=0.0)
    bounds = np.atleast_2d(evidence.propensity.T)
    lower, upper = special.logit(bounds[0]) - error, special.logit(bounds[-1]) + error
    if np.all((lower == np.inf) | (upper == -np.inf)):
        raise InputError(
            "members and non-members have disjoint supports: every propensity is 0 or 1.",
            "no audit of given members is possible without overlap; find a column that separates them by design.",
        )
    return guesses_from_members(evidence, lower, upper)


def ranks_of(name: str, strategy: Strategy, found: MemberGuesses) -> list[int]:
    m = found.correct.size
    if isinstance(strategy, GuessPath):
        return strategy.ranks(m)
    if isinstance(strategy, FractionGrid) or (isinstance(strategy, Fixed) and strategy.score is None):
        return guess_counts(strategy, m)
    raise refuse(name, strategy, "GuessPath(), Fixed(guesses=) or Fixed(fraction=), or FractionGrid()")


def conditions_of(
    evidence: MemberScores, log_odds_error: float, overlap: Overlap | None = None
) -> tuple[Assumption, ...]:
    """What every statement from given members rests on."""
    if overlap is not None:
        eta, share = overlap
        propensity = OVERLAP.asserted(share=share, eta=eta).measured(rest=1 - eta)
    elif log_odds_error > 0.0:
        propensity = PROPENSITY_ERROR.asserted(error=log_odds_error)
    else:
        propensity = PROPENSITIES
    fixed = (EXACTLY_SHOWN,) if evidence.relation is Relation.ADD_REMOVE else ()
    return (*evidence.conditions, propensity, INDEPENDENT, *fixed)


# ------------------------------------------------------------------------------------------------------ the signed path


class SignedPath:
    """The signed Poisson-binomial test at a few ranks, one exactly calibrated path (theory:zero-run#signed)."""

    def __init__(self, found: MemberGuesses, ranks: list[int]):
        self.found, self.ranks, self.correct = found, ranks, found.counts(ranks)
        self._parts = lru_cache(maxsize=4)(self._blocks)

    def _blocks(self, epsilon: float) -> list[_binomial.Distribution]:
        rates = special.expit(epsilon + self.found.offset[: self.ranks[-1]])
        return _binomial.blocks(rates, self.ranks)

    def smallest(self, epsilon: float) -> float:
        return _binomial.smallest_tail(self._parts(epsilon), self.correct)

    def crossing(self, epsilon: float, tail: float) -> float:
        return _binomial.crossing(self._parts(epsilon), tail)

    def p_value(self, epsilon: float, slack: float) -> float:
        return min(1.0, self.crossing(epsilon, self.smallest(epsilon)) + slack)

    def perfect(self) -> SignedPath:
        """The same guesses, all of them right."""
        return SignedPath(replace(self.found, correct=np.ones_like(self.found.correct)), self.ranks)


def least_epsilon(curve: TradeOff, m: int, alpha: float) -> float:
    """The smallest epsilon with m delta(epsilon) / (1 + e^epsilon) <= alpha / 4: fixed before any data.

    See theory:zero-run#signed-mu.
    """

    def small(epsilon: float) -> bool:
        return _binomial.excess(m, epsilon, curve.delta(epsilon)) <= alpha / 4.0

    return _binomial.least(small)


def curve_p_values(
    evidence: MemberScores, curve: TradeOff, pair: Overlap | None, alpha: float, log_odds_error: float = 0.0
) -> tuple[float, float]:
    """p-value of a claimed curve by the signed path, and that of a perfect attack; `pair` where it is a bare pair."""
    found = signed_guesses(evidence, log_odds_error)
    m = found.correct.size
    path = SignedPath(found, GuessPath().ranks(m))
    epsilon = least_epsilon(curve, m, alpha) if pair is None else pair[0]
    slack = _binomial.excess(m, epsilon, curve.delta(epsilon) if pair is None else pair[1])
    return path.p_value(epsilon, slack), path.perfect().p_value(epsilon, slack)


# ----------------------------------------------------------------------------------------------------------- estimators


def _from_members(
    name: str,
    evidence: MemberScores,
    family: Family,
    delta: float | None,
    confidence: float,
    correction: str,
    guesses: Strategy | None,
    log_odds_error: float,
    overlap: Overlap | None,
    blind: MemberScores | None,
) -> LowerBound:
    as_given, evidence = evidence, needs_members(name, evidence)
    alpha = 1.0 - check.confidence(confidence)
    check.choice("correction", correction, CORRECTIONS)
    delta = None if delta is None else check.delta(delta)
    if (overlap is not None) != (correction == "composition"):
        raise InputError("`overlap` goes with correction='composition', and only with it.", "overlap=(eta, delta_ds).")
    if overlap is not None and log_odds_error:
        raise InputError(
            "`log_odds_error` widens propensities, which the composition does not use.", "lower eta instead."
        )
    found = signed_guesses(evidence, log_odds_error)
    if overlap is not None:
        _check_overlap(evidence, overlap)
    if blind is not None:
        _gate(evidence, blind, confidence, log_odds_error, overlap)
    default: Strategy = GuessPath() if correction == "conditional" else FractionGrid()
    strategy = default if guesses is None else guesses
    pure = family is not GAUSSIAN
    if correction == "conditional":
        theta, capped, words, p_value, ceiling = _conditional(name, found, strategy, family, delta, alpha)
    elif correction == "tampered":
        theta, capped, words, p_value, ceiling = _tampered(name, found, strategy, family, alpha)
    else:
        theta, capped, words, p_value, ceiling = _composed(name, found, strategy, family, delta, alpha, overlap)
    converted, conversion = (theta, ()) if pure else convert(family, theta, delta)
    assumptions = (*conditions_of(as_given, log_odds_error, overlap), *conversion)
    return LowerBound(
        epsilon=converted,
        delta=delta,
        confidence=confidence,
        relation=evidence.relation,
        method=filled(METHOD, {"correction": correction}),
        guarantee="conditional",
        assumptions=assumptions,
        mu=None if pure else theta,
        theta=theta,
        parameter=family.parameter,
        family=None if pure else family.name,
        selection=words,
        ceiling=ceiling,
        unit=evidence.unit,
        size=size_of(evidence),
        capped=capped,
        references=REFERENCES,
        theory=PROOFS[correction if pure or correction != "conditional" else "conditional mu"],
        test=p_value,
    )


def size_of(evidence: MemberScores) -> str:
    return filled(SIZE, {"members": int(evidence.member.sum()), "others": int((~evidence.member).sum())})


def _check_overlap(evidence: MemberScores, overlap: Overlap) -> None:
    """Refuse an asserted overlap that the given propensities themselves contradict."""
    shift, share = overlap_of(overlap)
    odds = np.abs(special.logit(np.atleast_2d(evidence.propensity.T)))
    outside = np.min(odds, axis=0) > shift * (1.0 + 1e-9)
    for name, group in (("members", evidence.member), ("non-members", ~evidence.member)):
        seen, size = int(outside[group].sum()), int(group.sum())
        if _binomial.tail(seen, size, share) < 1e-6:
            raise InputError(
                f"`overlap` must agree with the propensities: {seen} of {size} {name} lie outside, asserted {share:g}.",
                "raise delta_ds, or lower eta.",
            )


def _gate(
    evidence: MemberScores, blind: MemberScores, confidence: float, log_odds_error: float, overlap: Overlap | None
) -> None:
    """Block the number where a blind baseline refutes what it rests on: the propensities, or the asserted overlap."""
    other = needs_members("blind", blind)
    same = other.scores.size == evidence.scores.size and np.array_equal(other.member, evidence.member)
    if not same or not np.array_equal(other.propensity, evidence.propensity):
        raise InputError("`blind` must be the same rows with the same propensities, scored without the model.")
    if overlap is None:
        p_value = propensity_p_value(other, log_odds_error=log_odds_error)
    else:
        shift, share = overlap_of(overlap)
        found = signed_guesses(other, 0.0)
        ranks = GuessPath().ranks(found.correct.size)
        slack = partial(_binomial.excess, found.correct.size, delta=share)
        p_value = _binomial.path_p_value(ranks, found.counts(ranks), epsilon=shift, slack=slack)
    if p_value <= 1.0 - confidence:
        raise InputError(
            f"the correction is refuted by the blind baseline (p = {p_value:.2g}): no bound is reported.",
            "mend the propensity model, or widen it with `log_odds_error` or a smaller eta.",
        )


Found = tuple[float, bool, str, Callable[[float], float] | None, float | None]


def _conditional(
    name: str, found: MemberGuesses, strategy: Strategy, family: Family, delta: float | None, alpha: float
) -> Found:
    ranks, m = ranks_of(name, strategy, found), found.correct.size
    path = SignedPath(found, ranks)
    level = partial(_level, family is GAUSSIAN, delta, m, alpha)
    theta, capped = invert_signed(path, len(ranks), family, delta, alpha)
    # the ceiling is as if one number of guesses were looked at: quick, a little high
    ceiling, _ = invert_signed(path.perfect(), 1, family, delta, alpha)
    words = filled(PATH_UP_TO, {"count": len(ranks), "last": ranks[-1]})
    return theta, capped, words, lambda value: path.p_value(*level(value)), ceiling


@lru_cache(maxsize=16384)
def _level(gaussian: bool, delta: float | None, m: int, alpha: float, theta: float) -> tuple[float, float]:
    """The (epsilon, slack) through which a parameter is tested; a function of the size alone, no data."""
    if gaussian:
        epsilon = least_epsilon(Gaussian(theta), m, alpha)
        return epsilon, _binomial.excess(m, epsilon, Gaussian(theta).delta(epsilon))
    return theta, _binomial.excess(m, theta, delta or 0.0)


def invert_signed(
    path: SignedPath, looks: int, family: Family, delta: float | None, alpha: float, *, near: float | None = None
) -> tuple[float, bool]:
    """The signed path on the fixed grid; `near` is where the answer is expected, which saves time alone."""
    m = path.found.correct.size
    level = partial(_level, family is GAUSSIAN, delta, m, alpha)
    return _binomial.scan_path(
        looks,
        lambda theta: path.smallest(level(theta)[0]),
        lambda theta, tail: path.crossing(level(theta)[0], tail),
        alpha=alpha,
        slack=lambda theta: level(theta)[1],
        most=alpha / 4.0 if family is GAUSSIAN else _binomial.excess(m, 0.0, delta or 0.0),
        near=near,
    )


def _tampered(name: str, found: MemberGuesses, strategy: Strategy, family: Family, alpha: float) -> Found:
    """The f-DP recursion on guesses that are kept with probability (1 + e^-|log-odds|) / 2.

    See theory:zero-run#tampered.
    """
    if isinstance(strategy, GuessPath):
        raise InputError(f"`{name}` with tampering needs a number of guesses fixed in advance.", "use FractionGrid().")
    numbers = ranks_of(name, strategy, found)
    m, kept = found.correct.size, found.uniforms < found.keep
    right = {r: int((found.correct & kept)[:r].sum()) for r in numbers}
    best = {r: int(kept[:r].sum()) for r in numbers}
    level = alpha / len(numbers)
    theta, capped = max(invert_recursion(family, m, r, right[r], level, 0.0) for r in numbers)
    ceiling = max(invert_recursion(family, m, r, best[r], level, 0.0)[0] for r in numbers)
    return theta, capped, count_words(TAMPERED, numbers), None, ceiling


def _composed(
    name: str,
    found: MemberGuesses,
    strategy: Strategy,
    family: Family,
    delta: float | None,
    alpha: float,
    overlap: Overlap | None,
) -> Found:
    """Distribution shift as one more mechanism (theory:zero-run#composition)."""
    shift, share = overlap_of(overlap)
    m, right = found.correct.size, found.correct
    if family is not GAUSSIAN and isinstance(strategy, GuessPath):
        ranks = strategy.ranks(m)
        total = _binomial.shifted_delta(delta or 0.0, share)
        slack = partial(_binomial.excess, m, delta=total)
        theta, capped = _binomial.invert_path(ranks, found.counts(ranks), alpha=alpha, slack=slack)
        ceiling = _binomial.path_ceiling(ranks, alpha=alpha, slack=slack)
        words = filled(PATH, {"count": len(ranks)})
        return max(0.0, theta - shift), capped, words, None, max(0.0, ceiling - shift)
    if isinstance(strategy, GuessPath):
        raise InputError(f"`{name}` by composition needs a number of guesses fixed in advance.", "use FractionGrid().")
    numbers = ranks_of(name, strategy, found)
    level = alpha / len(numbers)
    words = count_words(NUMBERS, numbers)
    counts = {r: int(right[:r].sum()) for r in numbers}
    if family is not GAUSSIAN:
        total = _binomial.shifted_delta(delta or 0.0, share)
        one = partial(one_run_epsilon, canaries=m, delta=total, confidence=1.0 - level)
        theta = max(0.0, max(one(guesses=r, correct=counts[r]) for r in numbers) - shift)
        return theta, False, words, None, max(0.0, max(one(guesses=r, correct=r) for r in numbers) - shift)
    if _binomial.two_sided_fair(found.members, m) < 1e-6:
        raise InputError(
            f"composition of mu needs as many members as non-members, got {found.members} of {m}.",
            "use correction='conditional'.",
        )
    combined = _combined(2.0 * float(special.ndtri(special.expit(shift))))
    theta, capped = max(invert_recursion(combined, m, r, counts[r], level, share) for r in numbers)
    return theta, capped, words, None, max(invert_recursion(combined, m, r, r, level, share)[0] for r in numbers)


def overlap_of(overlap: Overlap | None) -> tuple[float, float]:
    if not isinstance(overlap, tuple | list) or len(overlap) != 2:
        raise InputError(f"`overlap` must be (eta, delta_ds), got {overlap!r}.")
    eta = check.number("eta", overlap[0], low=1e-12, high=0.5)
    return float(-special.logit(eta)), check.number("delta_ds", overlap[1], low=0.0, high=1.0)


@lru_cache(maxsize=64)
def _combined(shift_mu: float) -> Family:
    """G_sqrt(mu^2 + mu_DS^2): Gaussian mechanisms compose by squares (theory:zero-run#composition)."""
    return replace(GAUSSIAN, curve=lambda mu: Gaussian(math.hypot(mu, shift_mu)))
