"""Bounds from one run with coin-flipped canaries (`CanaryScores`): theory:one-run#domination,
theory:selection#guess-path.

The coins are fair and independent, drawn before the run. Given the model, the k-th guess is right with probability at
most sig(epsilon) under pure DP, whatever was guessed before, so right guesses are dominated by independent Bernoulli
trials, path by path. With delta > 0 the number of excess right guesses has mean at most m delta / (1 + e^epsilon).
A trade-off curve is tested by the recursion of theory:one-run#f-dp, where the number of guesses must not depend on the
model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled
from dpaudit.bounds import LowerBound, check_family, convert, guarantee_of
from dpaudit.estimators.thresholds import (
    HELD_OUT_GUESSES,
    NUMBERS,
    ONE_NUMBER,
    EProcess,
    Fixed,
    FractionGrid,
    GuessPath,
    HeldOut,
    Strategy,
    Uncorrected,
    count_words,
    guess_counts,
    guesses_beyond,
    guesses_from_canaries,
    held_out_canaries,
    needs_coins,
    refuse,
)
from dpaudit.evidence import CanaryScores
from dpaudit.tradeoff import GAUSSIAN, ApproximateDP, Family, Mixed, TradeOff

__all__ = [
    "curve_p_value",
    "curve_rejected",
    "epsilon_from_canaries",
    "family_from_canaries",
    "invert_recursion",
    "mu_from_canaries",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "tau_max",
]

DELTA_TERMS = ("knapsack", "full", "published")
SHIFT = Assumption(
    id="shift",
    sentence="true and counterfactual attributes differ by at most tau = {tau:g} in total variation",
    answered_by="auditor",
    tested_by=("blind-values",),
    theory="theory:observational#shift",
)
"""The tau that the auditor answers for."""
SHIFT_OF_UNITS = replace(SHIFT, sentence=SHIFT.sentence + ", all of one {unit} together")
SIZE = "{rows:,} canaries, one run"
KEPT_AS_COINS = "{rows:,} of {population:,} rows kept as fair coins, one run"
BINOMIAL, KNAPSACK = "one run, binomial tail", "one run, binomial tail and knapsack delta term"
NOTHING_FROM = "nothing could be reported for tau of {tau_max:up4} or more"
PATH = "numbers of guesses {first:,} to {last:,}, calibrated as one path"
SWEEP = tuple(percent / 100.0 for percent in range(1, 101))
REFERENCES = (
    "Steinke, Nasr and Jagielski, arXiv 2305.08846",
    "Mahloujifar, Melis and Chaudhuri, arXiv 2410.22235",
)


# ------------------------------------------------------------------------------------------------ functions of counts


def one_run_epsilon(
    *,
    canaries: int,
    guesses: int,
    correct: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    delta_term: str = "knapsack",
) -> float:
    """Lower bound on epsilon from `correct` of `guesses` guesses about `canaries` fair coins.

    See theory:one-run#pure, theory:one-run#delta.

    delta = 0: logit of the Clopper-Pearson lower limit of the accuracy. delta > 0: the largest rejected epsilon of
    the monotone p-value P(Bin(r, sig(epsilon)) >= correct) + delta term.

    Parameters
    ----------
    delta_term
        "knapsack" (default) or "full" (weaker), both proved for a number of guesses fixed before the model is seen, or
        "published" (Steinke et al., corollary 5.4: false as a statement about all mechanisms, for comparison only).

    Examples
    --------
    >>> f"{one_run_epsilon(canaries=100, guesses=100, correct=100):.4f}"
    '3.4930'
    """
    m, r, c = _counts(canaries, guesses, correct)
    alpha, delta = 1.0 - check.confidence(confidence), check.delta(delta)
    check.choice("delta_term", delta_term, DELTA_TERMS)
    limit = _binomial.lower_limit(c, r, alpha) if r else 0.0
    pure = max(0.0, float(special.logit(limit))) if limit > 0.0 else 0.0
    if delta == 0.0 or pure == 0.0:
        return pure

    def rejected(epsilon: float) -> bool:
        return one_run_p_value(m, r, c, epsilon, delta, delta_term) <= alpha

    high, step = pure, _binomial.GRID_STEP
    low = pure - step
    while low >= 0.0 and not rejected(low):  # every rejected epsilon may be reported: find one near the top
        low, high, step = low - step, low, 2.0 * step
    if low < 0.0:
        if high <= 0.0 or not rejected(0.0):
            return 0.0
        low = 0.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low


def one_run_p_value(m: int, r: int, c: int, epsilon: float, delta: float, delta_term: str = "knapsack") -> float:
    """Bound on P(at least c of r guesses are right) over all (epsilon, delta)-DP mechanisms (theory:one-run#delta)."""
    p = float(special.expit(epsilon))
    binomial = _binomial.tail(c, r, p)
    if delta == 0.0 or c <= 0:
        return binomial
    budget = _binomial.excess(m, epsilon, delta)
    if delta_term == "full":
        return min(1.0, binomial + budget)
    reach = min(c, math.ceil(max(0.0, c - r * p) + 10.0 * math.sqrt(r * p * (1.0 - p))) + 10)
    j = np.arange(1, reach + 1)
    masses = _binomial.pmf(c - j, r, p) * _binomial.ROUNDING  # P(A = c - j); below the reach there is nothing to gain
    if delta_term == "published":
        return min(1.0, binomial + 2.0 * m * delta * float(np.max(np.cumsum(masses) / j)))
    spent = np.cumsum(j * masses)
    whole = int(np.searchsorted(spent, budget, side="right"))
    rest = (budget - (spent[whole - 1] if whole else 0.0)) / (whole + 1) if whole < c else 0.0
    return min(1.0, binomial + float(masses[:whole].sum()) + rest)


def one_run_mu(*, canaries: int, guesses: int, correct: int, confidence: float = 0.95, shift: float = 0.0) -> float:
    """Lower bound on mu of Gaussian DP from one run, `shift` being tau of an observational audit.

    See theory:one-run#f-dp, theory:observational#shift.

    The number of guesses must have been fixed before the model was seen.

    >>> f"{one_run_mu(canaries=1000, guesses=200, correct=175):.3f}"
    '0.622'
    """
    m, r, c = _counts(canaries, guesses, correct)
    alpha, shift = 1.0 - check.confidence(confidence), check.number("shift", shift, low=0.0, high=1.0)
    return invert_recursion(GAUSSIAN, m, r, c, alpha, shift)[0]


def _counts(canaries: int, guesses: int, correct: int) -> tuple[int, int, int]:
    m = check.count("canaries", canaries)
    r = check.count("guesses", guesses, high=m, high_name="canaries")
    return m, r, check.count("correct", correct, high=r, high_name="guesses")


@lru_cache(maxsize=4096)
def invert_recursion(
    family: Family, m: int, r: int, c: int, level: float, shift: float, early: bool = True
) -> tuple[float, bool]:
    """The largest parameter that the recursion rejects at `level`, and whether the cap was reached."""
    if _binomial.tail(c, r, 0.5) > level:  # perfect privacy, a member of every hypothesis, does as well
        return 0.0, False

    def rejected(theta: float) -> bool:
        return curve_rejected(family.curve(theta), m, r, c, level, shift, early=early)

    return _binomial.bisect(rejected, cap=family.cap, tolerance=family.tolerance)


def curve_rejected(
    curve: TradeOff, m: int, r: int, c: int, level: float, shift: float = 0.0, *, early: bool = True
) -> bool:
    """Whether some valid bound on P(C >= c) under this curve is at most `level`; their minimum needs no correction."""
    shifted = shifted_curve(curve, shift)
    if isinstance(shifted, ApproximateDP) and one_run_p_value(m, r, c, shifted.eps, shifted.slack) <= level:
        return True
    return _binomial.recursion_rejects(shifted.g, canaries=m, guesses=r, correct=c, level=level, early=early)


def curve_p_value(curve: TradeOff, m: int, r: int, c: int, shift: float = 0.0) -> float:
    """The smaller of the valid p-values of a curve, for a number of guesses fixed in advance."""
    shifted = shifted_curve(curve, shift)
    found = _binomial.recursion_p_value(shifted.g, canaries=m, guesses=r, correct=c)
    if isinstance(shifted, ApproximateDP):
        found = min(found, one_run_p_value(m, r, c, shifted.eps, shifted.slack))
    return found


def shifted_curve(curve: TradeOff, shift: float) -> TradeOff:
    """The curve in both directions, composed with (0, tau) (theory:observational#shift)."""
    both = curve.symmetric()
    if shift == 0.0:
        return both
    if isinstance(both, ApproximateDP):
        return ApproximateDP(both.eps, _binomial.shifted_delta(both.slack, shift))
    return Mixed(both, shift)


def tau_max(*, canaries: int, guesses: int, correct: int, confidence: float = 0.95) -> float:
    """The largest shift under which anything at all could be reported: necessary, not sufficient.

    See theory:observational#tau-max.
    """
    m, r, c = _counts(canaries, guesses, correct)
    return max(0.0, (1.0 - check.confidence(confidence)) * (2 * c - r) / m) if m else 0.0


# ------------------------------------------------------------------------------------------------ bounds from evidence


def epsilon_from_canaries(
    evidence: CanaryScores, *, delta: float, confidence: float = 0.95, guesses: Strategy | None = None
) -> LowerBound:
    """Lower bound on epsilon at `delta` from one run, with no assumption on the mechanism.

    See theory:selection#guess-path.

    Parameters
    ----------
    guesses
        How many guesses are made: `GuessPath()` (default; every number m 2^-j, calibrated exactly), `EProcess()`,
        `Fixed(...)`, `FractionGrid()`, `HeldOut()`, or `Uncorrected()` for the papers' sweep (an estimate).

    Notes
    -----
    With delta > 0, strategies whose number of guesses may depend on the model pay the delta term in full
    (theory:one-run#delta). A shift tau enters as delta' = 1 - (1 - delta)(1 - tau) (theory:observational#shift).
    """
    evidence = needs_coins("epsilon_from_canaries", evidence)
    alpha, delta = 1.0 - check.confidence(confidence), check.delta(delta)
    strategy = GuessPath() if guesses is None else guesses
    slack = _binomial.shifted_delta(delta, evidence.shift)
    found = _EPSILON_BY.get(type(strategy))
    if found is None:
        raise refuse(
            "epsilon_from_canaries",
            strategy,
            "GuessPath(), EProcess(), Fixed(guesses=) or Fixed(fraction=), FractionGrid(), or HeldOut()",
        )
    inverted = found(evidence, strategy, slack, alpha)
    return _bound(evidence, inverted, epsilon=inverted.theta, delta=delta, confidence=confidence, parameter="epsilon")


def mu_from_canaries(
    evidence: CanaryScores,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    guesses: Strategy | None = None,
) -> LowerBound:
    """Lower bound on mu from one run; with `delta`, also the epsilon it implies if the curve is Gaussian.

    See theory:one-run#f-dp.

    One-run audits of Gaussian DP are intrinsically loose (theory:one-run#looseness): a mechanism exists that attains
    the bound. The number of guesses is fixed before the model is seen: `FractionGrid()` (default) or `Fixed(guesses=)`
    from `plan_guesses`.
    """
    return _family_bound("mu_from_canaries", evidence, GAUSSIAN, delta, confidence, guesses)


def family_from_canaries(
    evidence: CanaryScores,
    *,
    family: Family,
    delta: float | None = None,
    confidence: float = 0.95,
    guesses: Strategy | None = None,
) -> LowerBound:
    """Lower bound on the parameter of any family of curves (k-ary randomised response, DP-SGD, ...) from one run.

    See theory:one-run#f-dp, theory:one-run#fixed-count.
    """
    if not isinstance(family, Family):
        raise InputError(f"`family` must be a Family, got {type(family).__name__}.", "see `dpaudit.tradeoff.Family`.")
    return _family_bound("family_from_canaries", evidence, family, delta, confidence, guesses)


@dataclass(frozen=True, kw_only=True)
class _Inverted:
    """What an inversion found: the bound, what it was read off, and the same for a perfect attack."""

    theta: float
    words: str
    method: str
    capped: bool = False
    guesses: int | None = None
    correct: int | None = None
    ceiling: float | None = None
    estimate: bool = False
    note: str | None = None
    theory: str
    test: Callable[[float], float] | None = None


def _bound(evidence: CanaryScores, found: _Inverted, *, confidence: float, **what: object) -> LowerBound:
    assumptions = (*conditions_of(evidence), *what.pop("assumptions", ()))  # type: ignore[misc]
    sizes = {"rows": evidence.scores.size, "population": evidence.population}
    notes = [found.note] if found.note else []
    if evidence.shift > 0.0 and found.guesses:
        largest = tau_max(
            canaries=evidence.scores.size,
            guesses=found.guesses,
            correct=found.correct or 0,
            confidence=confidence,
        )
        notes.append(filled(NOTHING_FROM, {"tau_max": largest}))
    return LowerBound(
        confidence=confidence,
        relation=evidence.relation,
        method=found.method,
        guarantee=guarantee_of(assumptions, estimate=found.estimate),
        assumptions=assumptions,
        theta=found.theta,
        guesses=found.guesses,
        correct=found.correct,
        selection=found.words,
        ceiling=found.ceiling,
        unit=evidence.unit,
        size=filled(SIZE if evidence.population is None else KEPT_AS_COINS, sizes),
        capped=found.capped,
        notes=tuple(notes),
        references=REFERENCES,
        theory=found.theory,
        test=found.test,
        **what,  # type: ignore[arg-type]
    )


def conditions_of(evidence: CanaryScores) -> tuple[Assumption, ...]:
    """What a statement from these canaries rests on: the evidence's own conditions, and its shift."""
    if evidence.shift == 0.0:
        return evidence.conditions
    shift = SHIFT if evidence.unit == "record" else SHIFT_OF_UNITS.measured(unit=evidence.unit)
    return (*evidence.conditions, shift.asserted(tau=evidence.shift))


# ---------------------------------------------------------------------------------------------- epsilon, by strategy


def _by_path(evidence: CanaryScores, strategy: GuessPath, delta: float, alpha: float) -> _Inverted:
    ranked = guesses_from_canaries(evidence)
    m = ranked.canaries
    ranks = strategy.ranks(m)
    correct = [ranked.correct(rank) for rank in ranks]
    slack = partial(_binomial.excess, m, delta=delta)
    theta, capped = _binomial.invert_path(ranks, correct, alpha=alpha, slack=slack)
    best = _best_rank(ranks, correct, theta)
    return _Inverted(
        theta=theta,
        capped=capped,
        words=filled(PATH, {"first": ranks[0], "last": m}),
        method="one run, exact path of right guesses",
        theory="theory:selection#guess-path",
        guesses=ranks[best],
        correct=correct[best],
        ceiling=_path_ceiling(tuple(ranks), delta, alpha, m),
        note=_too_large(m, delta, alpha),
        test=lambda epsilon: _binomial.path_p_value(ranks, correct, epsilon=epsilon, slack=slack),
    )


@lru_cache(maxsize=256)
def _path_ceiling(ranks: tuple[int, ...], delta: float, alpha: float, m: int) -> float:
    return _binomial.path_ceiling(ranks, alpha=alpha, slack=partial(_binomial.excess, m, delta=delta))


def _best_rank(ranks: list[int], correct: list[int], theta: float) -> int:
    p = float(special.expit(theta))
    tails = [_binomial.tail(c, n, p) for n, c in zip(ranks, correct, strict=True)]
    return tails.index(min(tails))


def _too_large(m: int, delta: float, alpha: float) -> str | None:
    spent = _binomial.excess(m, 0.0, delta) >= alpha
    return "delta, with the shift, is too large for this many canaries" if spent else None


def _by_wealth(evidence: CanaryScores, strategy: EProcess, delta: float, alpha: float) -> _Inverted:
    ranked = guesses_from_canaries(evidence)
    m = ranked.canaries
    n, c = _binomial.extreme_points(ranked.path())
    slack = partial(_binomial.excess, m, delta=delta)
    theta, capped = _binomial.invert_wealth(n, c, alpha=alpha, slack=slack)
    return _Inverted(
        theta=theta,
        capped=capped,
        words="every number of guesses, by a betting wealth",
        method="one run, e-process in order of confidence",
        theory="theory:sequential#guess-wealth",
        ceiling=_wealth_ceiling(m, delta, alpha),
        note=_too_large(m, delta, alpha),
        test=lambda epsilon: _binomial.wealth_p_value(n, c, epsilon=epsilon, slack=slack),
    )


@lru_cache(maxsize=256)
def _wealth_ceiling(m: int, delta: float, alpha: float) -> float:
    every = np.array([m])
    return _binomial.invert_wealth(every, every, alpha=alpha, slack=partial(_binomial.excess, m, delta=delta))[0]


def _by_counts(evidence: CanaryScores, strategy: Fixed | FractionGrid, delta: float, alpha: float) -> _Inverted:
    if isinstance(strategy, Fixed) and strategy.score is not None:
        return _by_free_count(
            evidence, guesses_beyond(strategy.score, evidence), delta, alpha, "guesses beyond a fixed score"
        )
    ranked = guesses_from_canaries(evidence)
    m, numbers = ranked.canaries, guess_counts(strategy, ranked.canaries)
    level = alpha / len(numbers)
    found = [(_one(m, r, ranked.correct(r), delta, level), r) for r in numbers]
    theta, best = max(found)

    def p_value(epsilon: float) -> float:
        return min(1.0, len(numbers) * min(one_run_p_value(m, r, ranked.correct(r), epsilon, delta) for r in numbers))

    return _Inverted(
        theta=theta,
        words=count_words(NUMBERS if len(numbers) > 1 else ONE_NUMBER, numbers),
        method=KNAPSACK if delta > 0.0 else BINOMIAL,
        theory="theory:one-run#delta",
        guesses=best,
        correct=ranked.correct(best),
        ceiling=max(_one(m, r, r, delta, level) for r in numbers),
        test=p_value,
    )


def _one(m: int, r: int, c: int, delta: float, level: float) -> float:
    return one_run_epsilon(canaries=m, guesses=r, correct=c, delta=delta, confidence=1.0 - level)


def _by_held_out(evidence: CanaryScores, strategy: HeldOut, delta: float, alpha: float) -> _Inverted:
    rest, number = held_out_canaries(strategy, evidence)
    return _by_free_count(rest, number, delta, alpha, filled(HELD_OUT_GUESSES, {"share": 100 * strategy.share}))


def _by_free_count(evidence: CanaryScores, r: int, delta: float, alpha: float, words: str) -> _Inverted:
    """A number of guesses that may depend on the model: pure DP is immune, delta is paid in full, on the fixed grid."""
    ranked = guesses_from_canaries(evidence)
    m, c = ranked.canaries, ranked.correct(r)

    def p_value(epsilon: float) -> float:
        return one_run_p_value(m, r, c, epsilon, delta, "full")

    if delta == 0.0:
        theta, capped = _one(m, r, c, 0.0, alpha), False
    else:
        theta, capped = _binomial.scan(lambda epsilon: p_value(epsilon) <= alpha)
    return _Inverted(
        theta=theta,
        capped=capped,
        words=words,
        method="one run, binomial tail and delta term in full" if delta > 0.0 else "one run, binomial tail",
        theory="theory:one-run#delta",
        guesses=r,
        correct=c,
        ceiling=max(theta, _one(m, m, m, 0.0, alpha)),
        note=_too_large(m, delta, alpha),
        test=p_value,
    )


def _by_sweep(evidence: CanaryScores, strategy: Uncorrected, delta: float, alpha: float) -> _Inverted:
    ranked = guesses_from_canaries(evidence)
    m = ranked.canaries
    numbers = sorted({max(1, round(fraction * m)) for fraction in SWEEP})
    theta, best = max((_one(m, r, ranked.correct(r), delta, alpha), r) for r in numbers)
    return _swept(theta, best, ranked.correct(best), "one run, uncorrected sweep")


def _swept(theta: float, guesses: int, correct: int, method: str) -> _Inverted:
    """The best of many numbers of guesses, with nothing paid for the choice."""
    return _Inverted(
        theta=theta,
        words="best of 100 fractions, uncorrected",
        method=method,
        theory="theory:selection#uncorrected",
        guesses=guesses,
        correct=correct,
        estimate=True,
    )


_EPSILON_BY: dict[type, Callable[..., _Inverted]] = {
    GuessPath: _by_path,
    EProcess: _by_wealth,
    Fixed: _by_counts,
    FractionGrid: _by_counts,
    HeldOut: _by_held_out,
    Uncorrected: _by_sweep,
}


# ------------------------------------------------------------------------------------------------------------- families


def _family_bound(
    name: str,
    evidence: CanaryScores,
    family: Family,
    delta: float | None,
    confidence: float,
    guesses: Strategy | None,
) -> LowerBound:
    evidence = needs_coins(name, evidence)
    alpha = 1.0 - check.confidence(confidence)
    delta = None if delta is None else check.delta(delta)
    check_family(family, evidence.relation)
    strategy = FractionGrid() if guesses is None else guesses
    inverted = _by_recursion(name, evidence, family, strategy, alpha)
    theta = inverted.theta
    epsilon, conversion = convert(family, theta, delta)
    return _bound(
        evidence,
        inverted,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        mu=theta if family is GAUSSIAN else None,
        parameter=family.parameter,
        family=family.name,
        assumptions=conversion,
    )


def _by_recursion(name: str, evidence: CanaryScores, family: Family, strategy: Strategy, alpha: float) -> _Inverted:
    ranked = guesses_from_canaries(evidence)
    m, shift = ranked.canaries, evidence.shift
    estimate = isinstance(strategy, Uncorrected)
    if estimate:
        numbers = sorted({max(1, round(fraction * m)) for fraction in SWEEP})
    elif isinstance(strategy, FractionGrid) or (isinstance(strategy, Fixed) and strategy.score is None):
        numbers = guess_counts(strategy, m)
    else:
        raise InputError(
            f"`{name}` needs a number of guesses fixed before the model is seen, which "
            f"{'a score threshold' if isinstance(strategy, Fixed) else type(strategy).__name__} is not.",
            "use FractionGrid(), Fixed(guesses=) or Fixed(fraction=); `plan_guesses` finds a number from the claim.",
        )
    level = alpha if estimate else alpha / len(numbers)
    found = [(*invert_recursion(family, m, r, ranked.correct(r), level, shift), r) for r in numbers]
    theta, capped, best = max(found)
    if estimate:
        return _swept(theta, best, ranked.correct(best), "one run, f-DP recursion, uncorrected sweep")

    def p_value(value: float) -> float:
        curve = family.curve(value)
        return min(1.0, len(numbers) * min(curve_p_value(curve, m, r, ranked.correct(r), shift) for r in numbers))

    return _Inverted(
        theta=theta,
        capped=capped,
        words=count_words(NUMBERS if len(numbers) > 1 else ONE_NUMBER, numbers),
        method="one run, f-DP recursion",
        theory="theory:one-run#f-dp",
        guesses=best,
        correct=ranked.correct(best),
        ceiling=max(invert_recursion(family, m, r, r, level, shift)[0] for r in numbers),
        test=p_value,
    )
