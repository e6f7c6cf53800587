"""Paper 003's algorithms as they are printed, for comparison only: some over-claim, the others are needlessly weak.

| algorithm | about | as printed (theory:errata#paper-003) |
|---|---|---|
| "1" | mu, conditional | guesses kept with probability e^-|log-odds|: valid, and weak (theory:errata#003-10) |
| "5.1.1" | epsilon, conditional | the delta term rests on an independence that does not hold (theory:errata#003-8) |
| "6" | epsilon, composition | the delta term has the wrong sign (theory:errata#003-7) |
| "8" | mu, composition | no correction except for delta_ds in the error (theory:errata#003-5, theory:errata#003-6) |
| "9" | epsilon, conditional | tampers *and* inflates: valid at delta 0, and powerless (theory:errata#003-11) |

All report the largest value that is rejected (theory:errata#003-13). What comes out is called an estimate. Use
`epsilon_from_members` and `mu_from_members`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import LowerBound
from dpaudit.estimators.canaries import invert_recursion
from dpaudit.estimators.members import REFERENCES, conditions_of, needs_members, overlap_of, signed_guesses
from dpaudit.estimators.thresholds import MemberGuesses
from dpaudit.evidence import MemberScores
from dpaudit.tradeoff import GAUSSIAN

ALGORITHMS = {"1": "mu", "5.1.1": "epsilon", "6": "epsilon", "8": "mu", "9": "epsilon"}
COMPOSITION = ("6", "8")
THEOREM = "paper 003, theorem {number} as printed"
ALGORITHM = "paper 003, algorithm {number} as printed"


def as_published_from_members(
    evidence: MemberScores,
    *,
    algorithm: str,
    guesses: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    overlap: tuple[float, float] | None = None,
) -> LowerBound:
    """What an algorithm of paper 003 reports, as printed: an estimate, to be set beside a valid bound.

    See theory:zero-run#printed.

    Parameters
    ----------
    algorithm
        "1", "5.1.1" (its theorem), "6", "8" or "9".
    guesses
        How many of the rows are guessed.
    overlap
        (eta, delta_ds), for "6" and "8" alone.
    """
    ready = needs_members("printed_from_members", evidence)
    check.choice("algorithm", algorithm, tuple(ALGORITHMS))
    alpha, slack = 1.0 - check.confidence(confidence), check.delta(delta)
    if (overlap is not None) != (algorithm in COMPOSITION):
        raise InputError(f"`overlap` goes with the algorithms {' and '.join(COMPOSITION)}, and only with them.")
    if algorithm == "9" and slack:
        raise InputError(f"algorithm 9 is here for delta 0 alone, got {slack:g}.", "use epsilon_from_members.")
    found = signed_guesses(ready, 0.0)
    r = check.count("guesses", guesses, low=1, high=found.correct.size, high_name="rows")
    shift, share = (0.0, 0.0) if overlap is None else overlap_of(overlap)
    makers: dict[str, Callable[[], float]] = {
        "1": lambda: _algorithm_1(found, r, alpha),
        "5.1.1": lambda: _theorem_5_1_1(found, r, alpha, slack),
        "6": lambda: _algorithm_6(found, r, alpha, slack + share - slack * share, shift),
        "8": lambda: _algorithm_8(found, r, alpha, share),
        "9": lambda: _algorithm_9(found, r, alpha),
    }
    theta, parameter = makers[algorithm](), ALGORITHMS[algorithm]
    return LowerBound(
        epsilon=theta if parameter == "epsilon" else None,
        delta=slack if parameter == "epsilon" else None,
        confidence=confidence,
        relation=evidence.relation,
        method=filled(THEOREM if "." in algorithm else ALGORITHM, {"number": algorithm}),
        guarantee="estimate",
        assumptions=conditions_of(evidence, 0.0, overlap),
        mu=theta if parameter == "mu" else None,
        theta=theta,
        parameter=parameter,
        guesses=r,
        unit=evidence.unit,
        references=REFERENCES,
        theory="theory:zero-run#printed",
    )


def _largest(rejected: Callable[[float], bool]) -> float:
    """The largest point of the grid that is rejected, whatever happens below it; 0 where none is."""
    points = np.arange(1, round(_binomial.GRID_CAP / _binomial.GRID_STEP) + 1) * _binomial.GRID_STEP
    return float(max((point for point in points if rejected(float(point))), default=0.0))


def _kept(found: MemberGuesses, r: int, chances: NDArray[np.float64]) -> int:
    """Right guesses that tampering keeps; the same uniforms whatever the chances."""
    return int((found.correct & (found.uniforms < chances))[:r].sum())


def _strength(found: MemberGuesses) -> NDArray[np.float64]:
    """|log-odds| of each row, from the chance with which it is kept by our own tampering."""
    return np.asarray(-np.log(np.maximum(2.0 * found.keep - 1.0, 0.0)))


def _algorithm_1(found: MemberGuesses, r: int, alpha: float) -> float:
    kept = _kept(found, r, np.exp(-_strength(found)))
    return invert_recursion(GAUSSIAN, found.correct.size, r, kept, alpha, 0.0)[0]


def _theorem_5_1_1(found: MemberGuesses, r: int, alpha: float, delta: float) -> float:
    m, strength = found.correct.size, _strength(found)

    def rejected(epsilon: float) -> bool:
        chances = (1.0 + np.exp(-epsilon - strength)) / (1.0 + np.exp(-epsilon))
        v = _kept(found, r, chances)
        if not v:
            return False
        p = float(special.expit(epsilon))
        steps = np.arange(1, v + 1)
        weight = float((stats.binom.pmf(v - steps, r, p) / steps).sum()) if delta else 0.0
        return _binomial.tail(v, r, p) + weight * m * delta * (1.0 + np.exp(-epsilon)) <= alpha

    return _largest(rejected)


def _algorithm_6(found: MemberGuesses, r: int, alpha: float, delta: float, shift: float) -> float:
    m, right = found.correct.size, int(found.correct[:r].sum())

    def rejected(epsilon: float) -> bool:
        p = float(special.expit(epsilon + shift))
        steps = np.arange(1, right + 1)
        tails = stats.binom.sf(right - steps - 1, r, p)
        here = _binomial.tail(right, r, p)
        added = float(np.max((here - tails) / steps, initial=-np.inf))  # never above 0: the misprint
        return right > 0 and here + 2.0 * m * delta * max(added, -1e300) <= alpha

    return _largest(rejected)


def _algorithm_8(found: MemberGuesses, r: int, alpha: float, share: float) -> float:
    right, level = int(found.correct[:r].sum()), alpha - share
    return invert_recursion(GAUSSIAN, found.correct.size, r, right, level, 0.0)[0] if level > 0.0 else 0.0


def _algorithm_9(found: MemberGuesses, r: int, alpha: float) -> float:
    strength = _strength(found)
    kept = _kept(found, r, np.exp(-strength))

    def rejected(epsilon: float) -> bool:
        return _binomial.distribution(special.expit(epsilon + strength[:r])).tail(kept) <= alpha

    return _binomial.bisect(rejected, cap=_binomial.GRID_CAP, tolerance=1e-4)[0]
