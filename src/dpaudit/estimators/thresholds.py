"""Where a threshold, or a number of guesses, is chosen: the only place, and the correction travels with the choice.

A strategy is a value. It says how the cut is chosen and what that costs:

| strategy | for | the choice | its price |
|---|---|---|---|
| `RankGrid` | runs | a few ranks of the null scores, fixed before the data | Bonferroni over the ranks |
| `Fixed` | both | one cut or one number of guesses, named in advance | none |
| `GuessPath` | canaries, epsilon | every rank m 2^-j | none: the path is calibrated exactly (delta term in full) |
| `EProcess` | canaries, epsilon | every rank | none: a wealth, valid at any stopping rank (delta term in full) |
| `FractionGrid` | canaries | a few fixed fractions | Bonferroni over the fractions |
| `HeldOut` | runs; canaries, epsilon | the best cut on a random share | the share (delta term in full) |
| `Band` | runs, whole curve | every threshold | a simultaneous confidence band |
| `Uncorrected` | both | the best of all, unpaid, as papers do it | none: the result is an estimate |
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.evidence import CanaryScores, MemberScores, PairedScores, RunScores

__all__ = [
    "Band",
    "EProcess",
    "Fixed",
    "FractionGrid",
    "GuessPath",
    "Guesses",
    "HeldOut",
    "MemberGuesses",
    "RankGrid",
    "Strategy",
    "Uncorrected",
    "guesses_for",
    "guesses_from_canaries",
    "guesses_from_members",
    "member_guesses",
]

NULL_FRACTIONS = (0.005, 0.02, 0.08, 0.16, 0.32, 0.5)
EXTREME_RANKS = (1, 3, 10, 30)
EXTREME_FROM = 2000
FRACTIONS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
FEWEST = 20
TIES, SPLIT, TAMPER = 0x74696573, 0x73706C74, 0x74616D70  # names of the random streams
RANKS = "{count} null rank{plural}, Bonferroni"
HELD_OUT = "threshold chosen on a random {share:g}%, tested on the rest"
HELD_OUT_GUESSES = "number of guesses chosen on a random {share:g}%"
ONE_NUMBER = "{guesses} guesses, fixed in advance"
NUMBERS = "{guesses} guesses, fixed in advance, Bonferroni"


@dataclass(frozen=True)
class RankGrid:
    """Thresholds at null ranks fixed before the data; None: six fractions of the number of null runs.

    See theory:selection#null-ranks.

    For epsilon, 2,000 or more null runs add the ranks 1, 3, 10 and 30: the lowest fraction alone would cap epsilon.
    """

    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.ranks is not None:
            ranks = tuple(check.count("ranks", rank) for rank in check.items("ranks", self.ranks))
            object.__setattr__(self, "ranks", ranks)


@dataclass(frozen=True)
class GuessPath:
    """Every number of guesses m 2^-j down to `smallest`, as one exactly calibrated path.

    See theory:selection#guess-path.
    """

    smallest: int = 5

    def __post_init__(self) -> None:
        check.count("smallest", self.smallest, low=1)

    def ranks(self, canaries: int) -> list[int]:
        ranks = {canaries}
        size = canaries / 2.0
        while size >= self.smallest:
            ranks.add(round(size))
            size /= 2.0
        return sorted(ranks)


@dataclass(frozen=True)
class FractionGrid:
    """A few fractions of the canaries, fixed before the model is seen; Bonferroni over them."""

    fractions: tuple[float, ...] = (0.3, 0.1, 0.03)

    def __post_init__(self) -> None:
        fractions = tuple(_fraction(value) for value in check.items("fractions", self.fractions))
        if not fractions:
            raise InputError("`fractions` must name at least one fraction, got none.")
        object.__setattr__(self, "fractions", fractions)


@dataclass(frozen=True)
class EProcess:
    """Bets on the guesses in order of confidence; the stopping rank is free (theory:sequential#guess-wealth)."""


@dataclass(frozen=True)
class HeldOut:
    """The best cut on a random `share` of the data, tested on the rest."""

    share: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 < check.number("share", self.share, low=0.0, high=1.0) < 1.0:
            raise InputError(f"`share` must be in (0, 1), got {self.share}.")


@dataclass(frozen=True)
class Fixed:
    """One cut named before the data: a number of guesses, a fraction (of canaries, or of null runs), or a score."""

    guesses: int | None = None
    fraction: float | None = None
    score: float | None = None

    def __post_init__(self) -> None:
        given = [v for v in (self.guesses, self.fraction, self.score) if v is not None]
        if len(given) != 1:
            raise InputError(f"`Fixed` takes one of guesses=, fraction= and score=, got {len(given)}.")
        if self.guesses is not None:
            check.count("guesses", self.guesses)
        if self.fraction is not None:
            _fraction(self.fraction)
        if self.score is not None:
            check.number("score", self.score)


@dataclass(frozen=True)
class Band:
    """All thresholds at once, by an exact simultaneous band (theory:selection#band); for a whole eps(delta) curve."""


@dataclass(frozen=True)
class Uncorrected:
    """The best of all cuts with nothing paid for the choice, as papers report it: always an estimate.

    `each_rate_at_alpha` also spends the whole error probability on each of the two rates (paper 001 as printed).
    """

    each_rate_at_alpha: bool = False


Strategy = RankGrid | GuessPath | FractionGrid | EProcess | HeldOut | Fixed | Band | Uncorrected


def refuse(name: str, strategy: object, allowed: str) -> InputError:
    """The error for a strategy that an estimator has no proof for."""
    return InputError(f"`{name}` has no valid test with {type(strategy).__name__}.", f"use {allowed}.")


def _fraction(value: float) -> float:
    if not check.number("fraction", value, low=0.0, high=1.0) > 0.0:
        raise InputError(f"`fraction` must be in (0, 1], got {value}.")
    return float(value)


# ------------------------------------------------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Cut:
    """One threshold seen through its counts: null runs above it, present runs not above it."""

    false_positives: int
    negatives: int
    false_negatives: int
    positives: int


@dataclass(frozen=True)
class Cuts:
    """The cuts of a strategy; a test of each at `alpha / len(cuts)` is valid, unless `estimate`."""

    cuts: tuple[Cut, ...]
    words: str
    estimate: bool = False
    free: bool = False
    """The number of false positives was not fixed in advance: a perfect attack would have had none."""


Objective = Callable[[Cut], float]


def cuts_from_runs(
    strategy: Strategy, evidence: RunScores, *, name: str, objective: Objective, extreme: bool = False
) -> Cuts:
    """The cuts that a strategy makes; `objective` is what `HeldOut` maximises on its share."""
    present, absent = _untied(evidence)
    if isinstance(strategy, RankGrid):
        ranks = null_ranks(strategy, absent.size, extreme=extreme)
        words = filled(RANKS, {"count": len(ranks), "plural": "s" if len(ranks) > 1 else ""})
        return Cuts(tuple(_cut_at_rank(rank, present, absent) for rank in ranks), words)
    if isinstance(strategy, Fixed) and strategy.score is not None:
        cut = _cut_at_score(strategy.score, evidence.present, evidence.absent)
        return Cuts((cut,), "one threshold, fixed in advance", free=True)
    if isinstance(strategy, Fixed) and strategy.fraction is not None:
        rank = min(round(strategy.fraction * absent.size), absent.size - 1)
        return Cuts((_cut_at_rank(rank, present, absent),), "one null rank, fixed in advance")
    if isinstance(strategy, HeldOut):
        cut = _held_out_cut(strategy, evidence.seed, present, absent, objective)
        return Cuts((cut,), filled(HELD_OUT, {"share": 100 * strategy.share}), free=True)
    if isinstance(strategy, Uncorrected):
        return Cuts(tuple(_all_cuts(present, absent)), "best of all thresholds, uncorrected", estimate=True)
    raise refuse(
        name,
        strategy,
        "RankGrid(), Fixed(score=) or Fixed(fraction=), HeldOut(), or Uncorrected() for an estimate",
    )


def null_ranks(strategy: RankGrid, negatives: int, *, extreme: bool) -> list[int]:
    """The ranks of a grid for this many null runs, deduplicated."""
    ranks = strategy.ranks
    if ranks is None:
        ranks = tuple(round(negatives * fraction) for fraction in NULL_FRACTIONS)
        if extreme and negatives >= EXTREME_FROM:
            ranks += EXTREME_RANKS
    kept = sorted({rank for rank in ranks if rank < negatives})
    if not kept:
        raise InputError(f"`ranks` must lie below the number of null runs ({negatives}), got {strategy.ranks}.")
    return kept


def _stream(seed: int, purpose: int, *arrays: NDArray[Any]) -> np.random.Generator:
    """Random numbers named by the seed, the purpose and the sorted data.

    Drawn for the sorted rows they are the same for any order of a file. Were the seed their only name, a fixed seed
    would make the outcome a fixed function of a few counts, right on average over seeds and wrong for the one in use.
    """
    content = hashlib.sha256(b"".join((array + 0.0).tobytes() for array in arrays))  # -0.0 is 0.0
    return np.random.default_rng([seed, purpose, int.from_bytes(content.digest()[:16], "little")])


def _untied(evidence: RunScores) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both worlds sorted; ties broken by independent uniforms, one rule for both, whatever the order of the rows."""
    present, absent = np.sort(evidence.present), np.sort(evidence.absent)
    both = np.concatenate([present, absent])
    if np.unique(both).size == both.size:
        return present, absent
    uniforms = _stream(evidence.seed, TIES, present, absent).random(both.size)
    place = np.empty(both.size)
    place[np.lexsort((uniforms, both))] = np.arange(both.size)
    return np.sort(place[: present.size]), np.sort(place[present.size :])


def _cut_at_rank(rank: int, present: NDArray[np.float64], absent: NDArray[np.float64]) -> Cut:
    """Threshold at the (rank + 1)-th largest null score: FPR ~ Beta(rank + 1, n0 - rank), as of `rank` errors."""
    threshold = absent[absent.size - 1 - rank]
    missed = int(np.searchsorted(present, threshold, side="right"))
    return Cut(rank, absent.size, missed, present.size)


def _cut_at_score(score: float, present: NDArray[np.float64], absent: NDArray[np.float64]) -> Cut:
    return Cut(int((absent > score).sum()), absent.size, int((present <= score).sum()), present.size)


def _all_cuts(present: NDArray[np.float64], absent: NDArray[np.float64]) -> Iterator[Cut]:
    both = np.unique(np.concatenate([present, absent]))
    above = absent.size - np.searchsorted(absent, both, side="right")
    missed = np.searchsorted(present, both, side="right")
    return (Cut(int(x0), absent.size, int(x1), present.size) for x0, x1 in zip(above, missed, strict=True))


def _held_out_cut(
    strategy: HeldOut,
    seed: int,
    present: NDArray[np.float64],
    absent: NDArray[np.float64],
    objective: Objective,
) -> Cut:
    rng = _stream(seed, SPLIT, present, absent)
    sizes = [round(strategy.share * world.size) for world in (present, absent)]
    if min(sizes) < 1 or sizes[0] >= present.size or sizes[1] >= absent.size:
        raise InputError(f"`HeldOut({strategy.share})` needs rows on both sides of its split, got {sizes}.")
    shuffled = [rng.permutation(world) for world in (present, absent)]
    (p_learn, p_test), (a_learn, a_test) = (
        (np.sort(w[:k]), np.sort(w[k:])) for w, k in zip(shuffled, sizes, strict=True)
    )

    def promise(score: float) -> float:
        cut = _cut_at_score(score, p_learn, a_learn)
        scaled = Cut(
            math.ceil((cut.false_positives + 0.5) / (cut.negatives + 1) * a_test.size),
            a_test.size,
            math.ceil((cut.false_negatives + 0.5) / (cut.positives + 1) * p_test.size),
            p_test.size,
        )
        return objective(scaled)

    seen = np.concatenate([p_learn, a_learn])
    candidates = np.unique(np.quantile(seen, np.linspace(0.02, 0.98, 49), method="nearest"))
    return _cut_at_score(max(candidates.tolist(), key=promise), p_test, a_test)


@lru_cache(maxsize=64)
def band_level(runs: int, alpha: float) -> float:
    """The level eta at which all one-sided Clopper-Pearson limits of `band_ranks(runs)` hold together, exactly.

    P(U_(j+1) <= BetaInv(1 - eta; j + 1, n - j) for all j) = 1 - alpha for uniform order statistics, by a Poisson
    recursion: a Poisson process conditioned on n points. Bisection returns the conservative end.
    """
    low, high = alpha / (10.0 * len(band_ranks(runs))), alpha
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _band_miss(runs, middle) <= alpha * (1.0 - 1e-6) else (low, middle)
    return low


def band_ranks(runs: int) -> list[int]:
    """Every rank up to 1,000 runs, and as many, denser at both ends, beyond."""
    if runs <= 1000:
        return list(range(runs))
    angles = np.linspace(0.0, math.pi, 1000)
    return sorted({int(rank) for rank in np.round((1.0 - np.cos(angles)) / 2.0 * (runs - 1))})


def _band_miss(runs: int, eta: float) -> float:
    """P(some limit of the band fails), for uniform order statistics."""
    ranks = np.array(band_ranks(runs))
    limits = special.betainccinv(ranks + 1, runs - ranks, eta)
    start, alive, before = 0, np.ones(1), 0.0
    for rank, limit in zip(ranks.tolist(), limits.tolist(), strict=True):
        mean = runs * (limit - before)
        low = max(0, math.floor(mean - 12.0 * math.sqrt(mean) - 12.0))
        steps = poisson_mass(np.arange(low, math.ceil(mean + 12.0 * math.sqrt(mean) + 40.0)), mean)
        alive, start, before = np.convolve(alive, steps), start + low, limit
        first, last = max(rank + 1 - start, 0), runs + 1 - start  # at least rank + 1 points below the limit
        alive, start = alive[first:last], start + first
        large = np.flatnonzero(alive > 1e-18 * alive.max(initial=0.0))
        if large.size == 0:
            return 1.0
        alive, start = alive[large[0] : large[-1] + 1], start + int(large[0])
    rest = poisson_mass(runs - start - np.arange(alive.size), runs * (1.0 - before))
    return 1.0 - float(alive @ rest) / float(poisson_mass(np.array(runs), runs))


def poisson_mass(k: NDArray[np.int64], mean: float) -> NDArray[np.float64]:
    """Probabilities of a Poisson distribution, without scipy.stats, which takes half a second to import."""
    return np.exp(special.xlogy(k, mean) - mean - special.gammaln(k + 1))


# --------------------------------------------------------------------------------------------------------- canaries


@dataclass(frozen=True, eq=False)
class Guesses:
    """How many of the n most confident guesses are right, for every n (a function of the model and the coins)."""

    canaries: int
    top: NDArray[np.int64]
    bottom: NDArray[np.int64] | None

    def correct(self, guesses: int) -> int:
        """Right ones among the first `guesses`; alternately from the top and from the bottom."""
        if self.bottom is None:
            return int(self.top[guesses])
        return int(self.top[(guesses + 1) // 2] + self.bottom[guesses // 2])

    def path(self) -> NDArray[np.int64]:
        """The same for 0, 1, ..., m guesses."""
        n = np.arange(self.canaries + 1)
        return self.top[n] if self.bottom is None else self.top[(n + 1) // 2] + self.bottom[n // 2]


def guesses_from_canaries(evidence: CanaryScores) -> Guesses:
    """Rank the canaries and count right guesses along the ranks; tied scores are shuffled by the seed alone."""
    keys = np.abs(evidence.scores) if evidence.sides == "sign" else evidence.scores
    marks = (evidence.scores > 0.0) == evidence.included if evidence.sides == "sign" else evidence.included
    ranked = marks[ranked_rows(keys, marks, seed=evidence.seed)]
    top = np.concatenate([[0], np.cumsum(ranked[::-1], dtype=np.int64)])
    if evidence.sides != "both":
        return Guesses(ranked.size, top, None)
    return Guesses(ranked.size, top, np.concatenate([[0], np.cumsum(~ranked, dtype=np.int64)]))


def ranked_rows(keys: NDArray[np.float64], *marks: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """Rows in ascending order of `keys`. A tie is a uniformly random order, the same for any order of the file.

    Sorting a tied block by its marks first and shuffling it then leaves the order uniform and independent of the marks.
    """
    order = np.argsort(keys)
    arranged = keys[order]
    same = arranged[1:] == arranged[:-1]
    if not np.any(same):
        return order
    tied = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))  # only these change places
    rows = order[tied]
    order[tied] = rows[np.lexsort((*(mark[rows] for mark in marks), keys[rows]))]
    uniforms = _stream(seed, TIES, arranged, *(mark[order] for mark in marks)).random(keys.size)
    order[tied] = order[tied][np.lexsort((uniforms[tied], arranged[tied]))]
    return order


def member_guesses(scores: NDArray[np.float64], evidence: PairedScores) -> NDArray[np.int64]:
    """How many of the n highest scores are included, for n = 0, 1, ..., m."""
    ranked = evidence.included[ranked_rows(scores, evidence.included, seed=evidence.seed)]
    return np.concatenate([[0], np.cumsum(ranked[::-1], dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class MemberGuesses:
    """Guesses about members in order of confidence.

    `offset` is the log-odds that the features alone give to the guess, `correct` whether it is right, `keep` the chance
    with which tampering keeps it.
    """

    offset: NDArray[np.float64]
    correct: NDArray[np.bool_]
    keep: NDArray[np.float64]
    uniforms: NDArray[np.float64]
    members: int
    rows: NDArray[np.intp]
    says_member: NDArray[np.bool_]

    def counts(self, ranks: list[int]) -> list[int]:
        return [int(self.correct[:rank].sum()) for rank in ranks]

    def under(self, lower: NDArray[np.float64], upper: NDArray[np.float64]) -> MemberGuesses:
        """The same guesses in the same order, with other bounds of the log-odds of membership (theory:zero-run#signed).

        A member guess is credited to the features by the upper bound, the other by the lower one. Where a bound is
        infinite and the guess goes against it, the features are given no say: the guess counts as any other.
        """
        offset = np.where(self.says_member, upper[self.rows], -lower[self.rows])
        extreme = np.maximum(np.abs(lower[self.rows]), np.abs(upper[self.rows]))
        keep = (1.0 + np.exp(-extreme)) / 2.0
        return replace(self, offset=np.where(offset == -np.inf, 0.0, offset), keep=keep)


def guesses_from_members(
    evidence: MemberScores, lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> MemberGuesses:
    """Rank the rows and take the guesses; `lower` and `upper` bound the log-odds of membership.

    See theory:zero-run#signed.

    Ties are broken by the evidence as it is, whatever the bounds: a wider bound leaves every guess in its place.
    """
    keys = np.abs(evidence.scores) if evidence.sides == "sign" else evidence.scores
    marks = np.atleast_2d(evidence.propensity.T)
    order = ranked_rows(keys, evidence.scores, evidence.member, *marks, seed=evidence.seed)
    rows, says_member = order[::-1], np.ones(order.size, dtype=np.bool_)
    if evidence.sides == "sign":
        says_member = evidence.scores[rows] > 0.0
    elif evidence.sides == "both":
        rows, says_member = rows.copy(), np.arange(order.size) % 2 == 0
        rows[0::2], rows[1::2] = order[::-1][: (order.size + 1) // 2], order[: order.size // 2]
    uniforms = _stream(evidence.seed, TAMPER, evidence.scores[order], evidence.member[order]).random(order.size)
    nothing = np.zeros(order.size)
    right = evidence.member[rows] == says_member
    return MemberGuesses(
        nothing, right, nothing, uniforms, int(evidence.member.sum()), np.asarray(rows), says_member
    ).under(lower, upper)


def guesses_for(*, canaries: int, delta: float, shift: float = 0.0, confidence: float = 0.95) -> Strategy:
    """The strategy of a bound on epsilon that suits the size, delta and shift; no data is used, so nothing is paid.

    See theory:observational#shift-curve.

    A guess path pays m delta' / (1 + e^epsilon) in full, delta' = 1 - (1 - delta)(1 - tau). Where that would eat up the
    error probability, a few numbers of guesses are fixed in advance, and the knapsack term applies
    (theory:one-run#delta).

    >>> guesses_for(canaries=1000, delta=0.0)
    GuessPath(smallest=5)
    >>> guesses_for(canaries=10_000, delta=1e-5)
    FractionGrid(fractions=(0.3, 0.1, 0.03, 0.01, 0.003))
    """
    m, alpha = check.count("canaries", canaries, low=1), 1.0 - check.confidence(confidence)
    if _binomial.excess(m, 0.0, _binomial.shifted_delta(check.delta(delta), shift)) <= alpha / 4.0:
        return GuessPath()
    return few_guesses(m)


def few_guesses(canaries: int) -> FractionGrid:
    """A few fractions, of at least twenty guesses each."""
    return FractionGrid(tuple(f for f in FRACTIONS if f * canaries >= FEWEST) or (1.0,))


def guess_counts(strategy: Fixed | FractionGrid, canaries: int) -> list[int]:
    """Numbers of guesses that depend on the number of canaries alone."""
    if isinstance(strategy, FractionGrid):
        return sorted({max(1, round(fraction * canaries)) for fraction in strategy.fractions})
    if strategy.guesses is not None:
        return [check.count("guesses", strategy.guesses, high=canaries, high_name="canaries")]
    assert strategy.fraction is not None
    return [max(1, round(strategy.fraction * canaries))]


def count_words(template: str, numbers: list[int]) -> str:
    """Which numbers of guesses were looked at, in a template of theirs."""
    return filled(template, {"guesses": ", ".join(f"{number:,}" for number in numbers)})


def guesses_beyond(score: float, evidence: CanaryScores) -> int:
    """How many guesses a score threshold makes: a number that depends on the model."""
    keys = np.abs(evidence.scores) if evidence.sides == "sign" else evidence.scores
    above = int((keys > score).sum())
    return above if evidence.sides != "both" else min(evidence.scores.size, 2 * above)


def held_out_canaries(strategy: HeldOut, evidence: CanaryScores) -> tuple[CanaryScores, int]:
    """The rest of the canaries, and the number of guesses whose lower limit looked best on the held-out share."""
    m = evidence.scores.size
    learn = round(strategy.share * m)
    if not 1 <= learn < m:
        raise InputError(f"`HeldOut({strategy.share})` needs canaries on both sides of its split, got {m}.")
    canonical = np.lexsort((evidence.included, evidence.scores))
    rng = _stream(evidence.seed, SPLIT, evidence.scores[canonical], evidence.included[canonical])
    order = canonical[rng.permutation(m)]
    seen = guesses_from_canaries(replace(evidence, **_rows(evidence, order[:learn])))
    rest = replace(evidence, **_rows(evidence, order[learn:]))

    def promise(fraction: float) -> float:
        guesses = max(1, round(fraction * learn))
        rate = (seen.correct(guesses) + 0.5) / (guesses + 1.0)
        tested = max(1, round(fraction * (m - learn)))
        return _binomial.lower_limit(math.floor(rate * tested), tested, 0.05)

    best = max(np.geomspace(min(1.0, 5.0 / learn), 1.0, 40).tolist(), key=promise)
    return rest, max(1, round(best * (m - learn)))


def _rows(evidence: CanaryScores, rows: NDArray[np.intp]) -> dict[str, Any]:
    return {"scores": evidence.scores[rows], "included": evidence.included[rows], "ids": None, "group": None}


def unlike(needed: str, evidence: object, **instead: str) -> InputError:
    """The error for evidence of another type, and what to do instead for some types."""
    kind = type(evidence).__name__
    hints = {"PairedScores": "use `estimators.panoramia`.", **instead}
    return InputError(f"{needed}, got {kind}.", hints.get(kind))


def no_split(evidence: Any, problem: InputError) -> Any:
    """The evidence, or the error if it is a random hold-out of fixed size."""
    if evidence.assignment == "split":
        raise problem
    return evidence


def needs_coins(name: str, evidence: object) -> CanaryScores:
    """The evidence, one coin a unit, or an error that names what to do instead."""
    if not isinstance(evidence, CanaryScores):
        raise unlike(
            f"`{name}` needs coin-flipped canaries of one run (CanaryScores)",
            evidence,
            RunScores=f"use `estimators.{name.replace('canaries', 'runs')}` for independent runs.",
            MemberScores="use `estimators.epsilon_from_members` where nobody flipped coins.",
        )
    problem = InputError(
        f"`{name}` needs fair, independent coins, got a split of fixed size.",
        "`evidence.thinned(seed=...)` re-randomises it to coins; it then certifies substitute adjacency.",
    )
    return no_split(evidence, problem).reduced()
