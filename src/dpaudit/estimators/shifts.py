"""The tau question of observational audits (THEORY 000-3 to 000-5, 2.6): what the bound is worth if the proxy is off.

`refute_proxy` is the blind gate, `least_shift` what the blind attack shows of tau, `epsilon_by_shift` the bound as a
function of tau. `guesses_for` picks, before the data, a strategy that a given delta and shift leave any power to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Outcome, Verdict
from dpaudit.estimators import _paths
from dpaudit.estimators.canaries import excess, needs_coins, one_run_epsilon, shifted_delta
from dpaudit.estimators.members import refute_propensity
from dpaudit.estimators.thresholds import (
    FractionGrid,
    Guesses,
    GuessPath,
    Strategy,
    guess_counts,
    guesses_from_canaries,
)
from dpaudit.evidence import CanaryScores, MemberScores

FRACTIONS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
FEWEST = 20
SHIFTS = (0.0, *(base * 10.0**-power for power in range(6, 0, -1) for base in (1.0, 3.0)))
"""Values of tau at which the bound is shown: 0, 1e-6, 3e-6, ..., 0.3."""
Blind = CanaryScores | MemberScores


def guesses_for(*, canaries: int, delta: float, shift: float = 0.0, confidence: float = 0.95) -> Strategy:
    """The strategy of a bound on epsilon that suits the size, delta and shift; no data is used, so nothing is paid.

    A guess path pays m delta' / (1 + e^epsilon) in full, delta' = 1 - (1 - delta)(1 - tau). Where that would eat up the
    error probability, a few numbers of guesses are fixed in advance, and the knapsack term applies (THEORY 2.4).

    >>> guesses_for(canaries=1000, delta=0.0)
    GuessPath(smallest=5)
    >>> guesses_for(canaries=10_000, delta=1e-5)
    FractionGrid(fractions=(0.3, 0.1, 0.03, 0.01, 0.003))
    """
    m, alpha = check.count("canaries", canaries, low=1), 1.0 - check.confidence(confidence)
    if excess(m, 0.0, shifted_delta(check.delta(delta), shift)) <= alpha / 4.0:
        return GuessPath()
    return _few(m)


def _few(canaries: int) -> FractionGrid:
    """A few fractions, of at least twenty guesses each."""
    return FractionGrid(tuple(f for f in FRACTIONS if f * canaries >= FEWEST) or (1.0,))


# ---------------------------------------------------------------------------------------------------------------- gate


def refute_proxy(blind: Blind | Sequence[Blind], *, confidence: float = 0.95) -> Verdict:
    """Try to refute the proxy by an attack that never saw the model (THEORY 000-5).

    If true values are as close to the proxy's as the evidence says (its `shift`, or its propensities), "contradicted"
    is said with probability at most 1 - confidence. "Consistent" proves nothing: a better blind attack may refute it.

    Parameters
    ----------
    blind
        The rows of the game scored without the model; several parts (folds) may depend on each other, and are paid for
        by a union. tau = 0: the exact path of right guesses, at epsilon 0. tau > 0: all rows are guessed, and the
        number of right guesses is at most binomial with rate (1 + tau) / 2, for units that are independent given their
        features (Hoeffding 1956: of independent trials with this mean rate, equal ones have the largest tail; the units
        of a random fold are a sample without replacement, whose number of right guesses is of that kind as well).
    """
    parts = _parts(blind)
    p_value = min(1.0, len(parts) * min(_blind_p_value(part) for part in parts))
    refuted = p_value <= 1.0 - check.confidence(confidence)
    return Verdict(
        outcome=Outcome.CONTRADICTED if refuted else Outcome.CONSISTENT,
        sentence=f"The proxy is {'refuted' if refuted else 'not refuted'} by this blind attack (p = {p_value:.2g}).",
        confidence=confidence,
        relation=parts[0].relation,
        p_value=p_value,
        assumptions=parts[0].conditions,
        method="blind attack at epsilon 0",
    )


def _parts(blind: Blind | Sequence[Blind]) -> list[Blind]:
    parts = [blind] if isinstance(blind, CanaryScores | MemberScores) else list(blind)
    if not parts or not all(isinstance(part, CanaryScores | MemberScores) for part in parts):
        raise InputError("`blind` must be evidence of the blind attack, or a list of such.")
    return parts


def _blind_p_value(part: Blind) -> float:
    if isinstance(part, MemberScores):
        return float(refute_propensity(part).p_value or 0.0)
    counted = _Counted.of(part)
    if part.shift > 0.0:
        return counted.all_rows(part.shift)
    ranks = GuessPath().ranks(counted.m)
    right = [counted.correct(rank) for rank in ranks]
    return _paths.p_value(ranks, right, epsilon=0.0, slack=lambda epsilon: 0.0)


def least_shift(blind: Sequence[Blind] | Blind, *, confidence: float = 0.95) -> float:
    """A lower confidence limit of tau from the blind attack: a smaller tau would be refuted; 0 where none is.

    >>> import numpy as np
    >>> coins = np.arange(1000) % 2 == 0
    >>> seen = CanaryScores(scores=np.where(coins, 1.0, -1.0), included=coins, relation="label", sides="sign")
    >>> round(least_shift(seen), 3)
    0.994
    """
    parts = [part for part in _parts(blind) if isinstance(part, CanaryScores)]
    alpha = (1.0 - check.confidence(confidence)) / max(1, len(parts))
    best = 0.0
    for part in parts:
        counted = _Counted.of(part)
        limit = 2.0 * _binomial.lower_limit(counted.correct(counted.m), counted.m, alpha) - 1.0
        if limit > best and counted.all_rows(limit) <= alpha * (1.0 + 1e-6):
            best = limit
    return best


def visible_shift(blind: Sequence[Blind] | Blind, *, confidence: float = 0.95) -> float:
    """The tau that the gate would notice every other time, if the blind attack knew the true law: its resolution."""
    parts = _parts(blind)
    alpha = (1.0 - check.confidence(confidence)) / len(parts)
    sizes = [part.reduced().scores.size for part in parts]

    def critical(m: int) -> float:
        low, high = m // 2, m + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _binomial.tail(middle, m, 0.5) <= alpha else (middle, high)
        return min(1.0, 2.0 * high / m - 1.0)

    return min(critical(size) for size in sizes)


@dataclass(frozen=True)
class _Counted:
    """The blind guesses, one a unit."""

    m: int
    ranked: Guesses

    @classmethod
    def of(cls, part: CanaryScores) -> _Counted:
        units = needs_coins("refute_proxy", part)
        if units.sides != "sign":
            raise InputError(f"the blind attack must guess by sign, got sides {units.sides!r}.")
        return cls(units.scores.size, guesses_from_canaries(units))

    def correct(self, guesses: int) -> int:
        return self.ranked.correct(guesses)

    def all_rows(self, shift: float) -> float:
        """P(so many right) with every row guessed; Hoeffding's comparison needs one right guess above the mean."""
        rate, right = (1.0 + shift) / 2.0, self.correct(self.m)
        return _binomial.tail(right, self.m, rate) if right >= self.m * rate + 1.0 else 1.0


# ---------------------------------------------------------------------------------------------------------- sensitivity


def epsilon_by_shift(
    evidence: CanaryScores, *, delta: float, confidence: float = 0.95, shifts: Sequence[float] = SHIFTS
) -> list[float]:
    """The lower bound on epsilon at each tau, numbers of guesses fixed in advance (Bonferroni), knapsack term.

    Each is a bound if tau is at most that much, and a larger tau gives a smaller bound, so the whole curve holds at
    once with the stated confidence.
    """
    units = needs_coins("epsilon_by_shift", evidence)
    alpha, m = 1.0 - check.confidence(confidence), units.scores.size
    ranked = guesses_from_canaries(units)
    numbers = guess_counts(_few(m), m)
    found: list[float] = []
    for shift in shifts:
        slack = shifted_delta(check.delta(delta), check.number("shift", shift, low=0.0, high=1.0))
        if found and found[-1] == 0.0 and shift >= shifts[len(found) - 1]:
            found.append(0.0)
            continue
        found.append(
            max(
                one_run_epsilon(
                    canaries=m, guesses=r, correct=ranked.correct(r), delta=slack, confidence=1.0 - alpha / len(numbers)
                )
                for r in numbers
            )
        )
    return found


def largest_shift(evidence: CanaryScores, *, confidence: float = 0.95) -> float:
    """tau_max (THEORY 000-3) of the numbers of guesses that `epsilon_by_shift` and `mu_from_canaries` try by default:
    from there on neither can report anything at all."""
    units = needs_coins("largest_shift", evidence)
    m, ranked, alpha = units.scores.size, guesses_from_canaries(units), 1.0 - check.confidence(confidence)
    grids = [guess_counts(grid, m) for grid in (_few(m), FractionGrid())]
    return max(0.0, max(alpha / len(grid) * (2 * ranked.correct(r) - r) / m for grid in grids for r in grid))
