"""Bounds from guesses at protected values, beside placebo rows (`MatchedScores`): theory:placebo#matched.

Nobody tosses a coin. Two bounds are made of the same guesses, each valid under an assumption of its own:

| form | what a guess would be right with, did nothing leak | assumption |
|---|---|---|
| "matched" | as often as the guesses at placebo rows that are as likely and as confident | `NO_RECOGNITION` |
| "proxy" | with the probability that the proxy gives to it | `PROXY_RIGHT` |
| "either" (default) | the smaller of the two bounds, so that one of the assumptions is enough | `EITHER` |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, filled
from dpaudit.bounds import LowerBound, convert
from dpaudit.estimators.conditional import Stratified, least_beyond
from dpaudit.estimators.members import SignedPath
from dpaudit.estimators.thresholds import GuessPath, MemberGuesses, ranked_rows, unlike
from dpaudit.evidence import MatchedScores
from dpaudit.evidence.matched import CELLS
from dpaudit.tradeoff import GAUSSIAN, Gaussian, TradeOff

FORMS = ("either", "matched", "proxy")
NO_RECOGNITION = Assumption(
    id="no-recognition",
    sentence=(
        "had the values of the training rows been drawn anew, the model would guess them no better than those of "
        "placebo rows (by more than {kappa:g} in log-odds): it recognises no row beyond its value (the calibration "
        "page says which models do)"
    ),
    answered_by="developer",
    tested_by=("redrawn-values",),
    theory="theory:placebo#recognition",
)
PROXY_RIGHT = Assumption(
    id="proxy-right",
    sentence="the proxy knows how likely each value is, given everything that the model could know without the row",
    answered_by="auditor",
    tested_by=("proxy-on-placebo", "placebo-given"),
    theory="theory:placebo#proxy",
)
PROXY_OFF = replace(
    PROXY_RIGHT,
    tested_by=(),
    id="proxy-off",
    sentence="the proxy's probabilities are off by at most {tau:g} in total variation, on average over the rows",
    theory="theory:placebo#tau",
)
EITHER = Assumption(
    id="proxy-or-no-recognition",
    sentence=(
        "either the proxy knows how likely each value is, or the model recognises no row that it was trained on beyond "
        "its value (by more than {kappa:g} in log-odds)"
    ),
    answered_by="developer",
    tested_by=("redrawn-values",),
    theory="theory:placebo#either",
)
METHODS = {
    "either": "guesses at values, the smaller of the bounds by placebo rows and by the proxy",
    "matched": "guesses at values, matched with placebo rows",
    "proxy": "guesses at values, against the proxy",
}
PROOFS = {"either": "theory:placebo#either", "matched": "theory:placebo#matched", "proxy": "theory:placebo#proxy"}
SIZE = "{rows:,} rows that were trained on, {placebo:,} placebo rows"
SPENT_ON = {
    "matched": "{count} shares of the guesses, fixed in advance",
    "proxy": "{numbers} numbers of guesses, calibrated as one path",
    "either": "{count} shares of the guesses, fixed in advance; {numbers} numbers of guesses, calibrated as one path",
}
FEWEST = 20
"""Guesses at the smallest share."""
CAP = 12.0
GATE_LEVEL = 0.05
"""At which placebo rows refute the proxy."""
SPENT = 0.1
"""Of the error probability, on how many placebo rows a share takes."""
SURE = 1.0 - 1.001e-9
"""Chances from here on were cut, and count as 1."""


def epsilon_from_matched(
    evidence: MatchedScores,
    *,
    delta: float,
    confidence: float = 0.95,
    form: str = "either",
    kappa: float | None = None,
    tau: float = 0.0,
) -> LowerBound:
    """Lower bound on epsilon at `delta`, if the proxy is right, or the model recognises no row beyond its value.

    See theory:placebo#either. Each form is valid under its own assumption at the full level, so the smaller bound is
    valid where at least one of the two holds.

    Parameters
    ----------
    form
        "either" (default), "matched" or "proxy".
    kappa
        By how many log-odds training rows may be guessed better than placebo rows without a leak; it is taken off the
        matched bound (theory:placebo#kappa). None: the margin of the evidence.
    tau
        By how much the proxy may be off, in total variation and on average over the rows (theory:placebo#tau): for the
        form "proxy" alone.

    Examples
    --------
    >>> found = MatchedScores(scores=[1.0] * 200, chance=[0.5] * 200, right=[True] * 90 + [False] * 10 + [True] * 50
    ...     + [False] * 50, audited=[True] * 100 + [False] * 100, relation="label")
    >>> print(epsilon_from_matched(found, delta=0.0).headline())
    epsilon >= 1.37 at delta 0   95% confidence, label of one record
    """
    ready, alpha, form = _arguments("epsilon_from_matched", evidence, confidence, form)
    delta = check.delta(delta)
    kappa, tau = _allowed(ready, form, kappa, tau)
    forgiven = forgiven_guesses(ready, delta, alpha)
    parts = [_test_of(name, ready, alpha, kappa, tau) for name in _named(form)]
    epsilon, capped = min(part.epsilon(forgiven) for part in parts)
    return _bound(
        evidence=ready,
        form=form,
        kappa=kappa,
        tau=tau,
        confidence=confidence,
        delta=delta,
        epsilon=epsilon,
        capped=capped,
        ceiling=min(part.ceiling(forgiven) for part in parts),
        test=lambda value: max(part.p_value(value, forgiven) for part in parts),
    )


def epsilon_alone(
    evidence: MatchedScores, *, delta: float, confidence: float, form: str, kappa: float | None = None, tau: float = 0.0
) -> float:
    """The number of `epsilon_from_matched` by itself, which is several times as fast."""
    ready, alpha, form = _arguments("epsilon_from_matched", evidence, confidence, form)
    kappa, tau = _allowed(ready, form, kappa, tau)
    forgiven = forgiven_guesses(ready, check.delta(delta), alpha)
    return min(_test_of(name, ready, alpha, kappa, tau).epsilon(forgiven)[0] for name in _named(form))


def mu_from_matched(
    evidence: MatchedScores,
    *,
    delta: float | None = None,
    confidence: float = 0.95,
    form: str = "either",
    kappa: float | None = None,
) -> LowerBound:
    """Lower bound on mu of Gaussian DP; the parameters are those of `epsilon_from_matched`.

    See theory:placebo#mu. Each mu is tested through one pair (epsilon, delta_mu(epsilon)) that is fixed before the
    data: the one at which delta costs a quarter of the error probability.
    """
    ready, alpha, form = _arguments("mu_from_matched", evidence, confidence, form)
    delta = None if delta is None else check.delta(delta)
    kappa, _ = _allowed(ready, form, kappa, 0.0)
    parts = [_test_of(name, ready, alpha, kappa, 0.0) for name in _named(form)]
    quarter = Forgiven(0, alpha / 4.0)
    epsilon, capped = min(part.epsilon(quarter) for part in parts)
    mu = _largest_mu(ready, epsilon, alpha)
    converted, conversion = convert(GAUSSIAN, mu, delta)

    def p_value(value: float) -> float:
        at = least_epsilon(ready, Gaussian(value), alpha)
        return max(part.p_value(at, quarter) for part in parts)

    return _bound(
        evidence=ready,
        form=form,
        kappa=kappa,
        confidence=confidence,
        delta=delta,
        epsilon=converted,
        mu=mu,
        theta=mu,
        parameter=GAUSSIAN.parameter,
        family=GAUSSIAN.name,
        capped=capped,
        more=conversion,
        ceiling=_largest_mu(ready, min(part.ceiling(quarter) for part in parts), alpha),
        theory="theory:placebo#mu",
        test=p_value,
    )


def null_p_value(part: MatchedScores) -> float:
    """p-value of "these rows are guessed no better than the placebo rows": the matched test at epsilon 0, no margin.

    See theory:placebo#matched.
    """
    ready, alpha, _ = _arguments("null_p_value", part, 0.95, "matched")
    return Matched(ready, alpha).p_value(0.0, NONE)


@lru_cache(maxsize=16)
def proxy_p_value(evidence: MatchedScores) -> float:
    """p-value of the proxy by the model's own guesses at placebo rows, which it never saw (theory:placebo#gate)."""
    scores, chance, right = evidence.placebo_alone()
    if scores.size == 0:
        return 1.0
    return AgainstProxy.of(scores, chance, right, seed=evidence.seed, alpha=0.05).p_value(0.0, NONE)


def found_p_value(part: MatchedScores, *, confidence: float = 0.95) -> float:
    """p-value of "nothing leaks", as the headline tests it: the larger one of its two forms, margin included."""
    ready, alpha, form = _arguments("found_p_value", part, confidence, "either")
    return max(_test_of(name, ready, alpha, ready.margin, 0.0).p_value(0.0, NONE) for name in _named(form))


def claim_p_values(
    evidence: MatchedScores, curve: TradeOff, pair: tuple[float, float] | None, *, confidence: float
) -> tuple[float, float]:
    """p-value of a claimed curve, and that of a perfect attack; `pair` where it is a bare pair."""
    ready, alpha, form = _arguments("judge", evidence, confidence, "either")
    if pair is None:
        epsilon, forgiven = least_epsilon(ready, curve, alpha), Forgiven(0, alpha / 4.0)
    else:
        epsilon, forgiven = pair[0], forgiven_guesses(ready, pair[1], alpha)
    parts = [_test_of(name, ready, alpha, ready.margin, 0.0) for name in _named(form)]
    seen = max(part.p_value(epsilon, forgiven) for part in parts)
    return seen, max(part.perfect().p_value(epsilon, forgiven) for part in parts)


def conditions_of(evidence: MatchedScores) -> tuple[Assumption, ...]:
    """What every statement rests on: one of two assumptions; without placebo rows, the proxy.

    Where placebo rows refute the proxy, only the other one is left (theory:placebo#either): the number is the same.
    """
    return (*evidence.conditions, _rests(evidence, "either" if evidence.placebo_rows else "proxy", evidence.margin))


# ------------------------------------------------------------------------------------------------------------ arguments


def _arguments(name: str, evidence: object, confidence: float, form: str) -> tuple[MatchedScores, float, str]:
    """The evidence, the error probability, and the form: without placebo rows only the proxy is left."""
    if not isinstance(evidence, MatchedScores):
        raise unlike(
            f"`{name}` needs guesses at protected values (MatchedScores)",
            evidence,
            CanaryScores="use `estimators.epsilon_from_canaries` or `mu_from_canaries` where coins decided.",
            MemberScores="use `estimators.epsilon_from_members` for members and non-members.",
            RunScores="use `estimators.epsilon_from_runs` for independent runs.",
        )
    check.choice("form", form, FORMS)
    if not evidence.placebo_rows:
        if form == "matched":
            raise InputError("the matched form needs placebo rows, got none.", "give rows that the model never saw.")
        form = "proxy"
    return evidence, 1.0 - check.confidence(confidence), form


def _allowed(evidence: MatchedScores, form: str, kappa: float | None, tau: float) -> tuple[float, float]:
    """What is taken off: kappa from the matched bound, tau from that against the proxy."""
    if tau and form != "proxy":
        raise InputError(f"`tau` is about the proxy alone, got it with form={form!r}.", "use form='proxy'.")
    given = evidence.margin if kappa is None else check.number("kappa", kappa, low=0.0)
    return given, check.number("tau", tau, low=0.0, high=1.0)


def _named(form: str) -> tuple[str, ...]:
    return ("matched", "proxy") if form == "either" else (form,)


def _rests(evidence: MatchedScores, form: str, kappa: float, tau: float = 0.0) -> Assumption:
    if form == "proxy":
        return PROXY_OFF.asserted(tau=tau) if tau else PROXY_RIGHT
    either = form == "either" and proxy_p_value(evidence) > GATE_LEVEL
    return (EITHER if either else NO_RECOGNITION).asserted(kappa=kappa)


def _selection(form: str, rows: int) -> str:
    """What the error probability was spent on."""
    return filled(SPENT_ON[form], {"count": len(ranks_of(rows)), "numbers": len(GuessPath().ranks(rows))})


def _bound(
    *,
    evidence: MatchedScores,
    form: str,
    kappa: float,
    tau: float = 0.0,
    more: tuple[Assumption, ...] = (),
    **values: Any,
) -> LowerBound:
    shown: dict[str, Any] = {
        "relation": evidence.relation,
        "method": METHODS[form],
        "guarantee": "conditional",
        "assumptions": (*evidence.conditions, _rests(evidence, form, kappa, tau), *more),
        "selection": _selection(form, evidence.sizes["rows"]),
        "unit": evidence.unit,
        "size": filled(SIZE, evidence.sizes),
        "theory": PROOFS[form],
    }
    return LowerBound(**{**shown, **values})


# ---------------------------------------------------------------------------------------------------------------- delta


@dataclass(frozen=True)
class Forgiven:
    """Right guesses that delta may have added: so many are taken off, and the rest is paid for."""

    guesses: int
    slack: float


NONE = Forgiven(0, 0.0)


def mean_excess(evidence: MatchedScores, delta: float) -> float:
    """The mean number of right guesses that delta can add, at most: m delta (k - 1) / k (theory:placebo#delta)."""
    share = 1.0 if evidence.values is None else (evidence.values - 1) / evidence.values
    return int(evidence.audited.sum()) * delta * share


def forgiven_guesses(evidence: MatchedScores, delta: float, alpha: float) -> Forgiven:
    """How many guesses are taken off, so that more were added with probability at most alpha / 2 (Markov).

    See theory:placebo#delta.
    """
    mean = mean_excess(evidence, delta)
    least = max(1, math.ceil(mean / (alpha / 2.0)))
    return Forgiven(least - 1, mean / least)


def least_epsilon(evidence: MatchedScores, curve: TradeOff, alpha: float) -> float:
    """The smallest epsilon at which the curve's delta costs at most alpha / 4: fixed before any data.

    See theory:placebo#mu.
    """

    def small(epsilon: float) -> bool:
        return mean_excess(evidence, curve.delta(epsilon)) <= alpha / 4.0

    return _binomial.least(small)


def _largest_mu(evidence: MatchedScores, epsilon: float, alpha: float) -> float:
    """The largest mu whose pair lies at or below an epsilon that is refuted, rounded down."""
    if epsilon <= 0.0:
        return 0.0

    def refuted(mu: float) -> bool:
        return mean_excess(evidence, Gaussian(mu).delta(epsilon)) <= alpha / 4.0 * (1.0 - 1e-9)

    return _binomial.bisect(refuted, cap=CAP)[0]


# ------------------------------------------------------------------------------------------------ placebo, side by side


def ranks_of(rows: int) -> list[int]:
    """All guesses, a quarter of them, a sixteenth and so on, while at least twenty are left."""
    found = [rows]
    while found[-1] // 4 >= FEWEST:
        found.append(found[-1] // 4)
    return found


class Matched:
    """The matched test: at each share of the guesses, the worst of the tests beside this and larger placebo shares.

    See theory:placebo#matched.
    """

    def __init__(self, evidence: MatchedScores, alpha: float, kappa: float = 0.0):
        self.evidence, self.alpha, self.kappa = evidence, alpha, kappa
        self.ranks = ranks_of(int(evidence.audited.sum()))
        self._tests = lru_cache(maxsize=None)(self._test)

    @cached_property
    def _audited(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """r_g and C_g at each rank."""
        one, rows = self.evidence, np.flatnonzero(self.evidence.audited)
        order = rows[ranked_rows(one.scores[rows], one.right[rows], one.chance[rows], seed=one.seed)[::-1]]
        cell, right = one.cell[order], one.right[order]
        return [
            (np.bincount(cell[:rank], minlength=CELLS), np.bincount(cell[:rank][right[:rank]], minlength=CELLS))
            for rank in self.ranks
        ]

    @cached_property
    def _placebo(self) -> list[NDArray[np.int64]]:
        """For each cell, how many of its n most confident placebo guesses are right, n = 0, 1, ..."""
        one, found = self.evidence, []
        for cell in range(CELLS):
            rows = np.flatnonzero(~one.audited & (one.cell == cell))
            order = rows[ranked_rows(one.scores[rows], one.right[rows], one.chance[rows], seed=one.seed)[::-1]]
            found.append(np.concatenate([[0], np.cumsum(one.right[order], dtype=np.int64)]))
        return found

    @cached_property
    def _shares(self) -> list[list[int]]:
        """r0_g at each rank: a like share at the first; below, as many as surely lie beyond the audited ones.

        Each placebo row counts once, in the cell of its own guess, wherever else it may serve.
        """
        one, rows = self.evidence, self.ranks[0]
        own = np.bincount(one.cell[one.own & ~one.audited], minlength=CELLS).tolist()
        all_of = self._audited[0][0].tolist()
        placebo = one.placebo_rows
        found = [[min(count, -(-size * placebo // rows)) for count, size in zip(own, all_of, strict=True)]]
        beta = SPENT * self.alpha / (CELLS * max(1, len(self.ranks) - 1))
        for taken, _ in self._audited[1:]:
            cells = zip(all_of, own, taken.tolist(), strict=True)
            found.append([least_beyond(size, count, some, beta) for size, count, some in cells])
        return found

    def _test(self, rank: int, share: int) -> Stratified:
        size, right = self._audited[rank]
        size0 = self._shares[share]
        right0 = [int(cell[taken]) for cell, taken in zip(self._placebo, size0, strict=True)]
        return Stratified(right.tolist(), size.tolist(), right0, size0)

    def _accepted(self, rank: int, epsilon: float, forgiven: int, level: float) -> bool:
        """Whether some share at least as large as this rank's does not reject."""
        shares = range(rank, -1, -1)
        return any(self._tests(rank, share).p_value(epsilon, forgiven) > level for share in shares)

    def level(self, slack: float) -> float:
        """Of the test at one rank: what delta and the sizes of the shares leave of the error probability."""
        several = len(self.ranks) > 1
        return max(0.0, self.alpha - slack - (SPENT * self.alpha if several else 0.0)) / len(self.ranks)

    def epsilon(self, forgiven: Forgiven) -> tuple[float, bool]:
        """The largest epsilon that some rank refutes, less kappa, and whether the search ended there."""
        best, capped, level = 0.0, False, self.level(forgiven.slack)
        for rank in range(len(self.ranks)):

            def rejected(epsilon: float, rank: int = rank) -> bool:
                return not self._accepted(rank, epsilon, forgiven.guesses, level)

            best, capped = _further(rejected, best, capped)
        return max(0.0, best - self.kappa), capped

    def p_value(self, epsilon: float, forgiven: Forgiven) -> float:
        """p-value of "epsilon is at most this, and kappa as allowed": valid at any level (theory:placebo#matched)."""
        at, several = epsilon + self.kappa, len(self.ranks) > 1
        smallest = min(
            max(self._tests(rank, share).p_value(at, forgiven.guesses) for share in range(rank + 1))
            for rank in range(len(self.ranks))
        )
        paid = forgiven.slack + (SPENT * self.alpha if several else 0.0)
        return min(1.0, smallest * len(self.ranks) + paid)

    def perfect(self) -> Matched:
        """The same guesses, all of the audited ones right."""
        return Matched(_all_right(self.evidence), self.alpha, self.kappa)

    def ceiling(self, forgiven: Forgiven) -> float:
        """What a perfect attack could have shown."""
        return self.perfect().epsilon(forgiven)[0]


def _further(rejected: Callable[[float], bool], best: float, capped: bool) -> tuple[float, bool]:
    """The larger one of `best` and what this test refutes; a test that does not reach beyond it costs one look."""
    if capped or not rejected(best + 1e-6 if best else 0.0):
        return best, capped
    return _binomial.bisect(rejected, cap=CAP, at_least=best)


def _all_right(evidence: MatchedScores) -> MatchedScores:
    return replace(evidence, right=evidence.right | evidence.audited)


# ------------------------------------------------------------------------------------------------------ against a proxy


class AgainstProxy:
    """The coin-free test: each guess is right with probability at most sig(epsilon + logit of the proxy's chance).

    One exactly calibrated path of right guesses (theory:placebo#proxy, theory:zero-run#signed).
    """

    def __init__(self, found: MemberGuesses, alpha: float, tau: float = 0.0):
        self.found, self.alpha, self.tau = found, alpha, tau
        self.path = SignedPath(found, GuessPath().ranks(found.correct.size))

    @classmethod
    def of(
        cls,
        scores: NDArray[np.float64],
        chance: NDArray[np.float64],
        right: NDArray[np.bool_],
        *,
        seed: int,
        alpha: float,
        tau: float = 0.0,
    ) -> AgainstProxy:
        rows = ranked_rows(scores, right, chance, seed=seed)[::-1]
        always, nothing = np.ones(rows.size, dtype=np.bool_), np.zeros(rows.size)
        rates = np.where(chance[rows] >= SURE, 1.0, chance[rows])  # a rate is only ever rounded up
        found = MemberGuesses(special.logit(rates), right[rows], nothing, nothing, 0, rows, always)
        return cls(found, alpha, tau)

    @classmethod
    def of_audited(cls, evidence: MatchedScores, alpha: float, tau: float = 0.0) -> AgainstProxy:
        rows = evidence.audited
        kept = (evidence.scores[rows], evidence.chance[rows], evidence.right[rows])
        return cls.of(*kept, seed=evidence.seed, alpha=alpha, tau=tau)

    def _missed(self, epsilon: float) -> int:
        """Right guesses that a proxy off by tau may miss, but with probability alpha / 10 (theory:placebo#tau)."""
        if self.tau == 0.0:
            return 0
        rows = self.found.correct.size
        rate = min(1.0, math.exp(min(epsilon, 50.0)) * self.tau)
        least = math.ceil(rows * rate + 1.0)
        return max(least, _binomial.critical_value(self.alpha / 10.0, rows, rate)) - 1

    def _smallest(self, epsilon: float, forgiven: int) -> float:
        off = forgiven + self._missed(epsilon)
        return _binomial.smallest_tail(self.path._parts(epsilon), [max(0, count - off) for count in self.path.correct])

    def _paid(self, slack: float) -> float:
        return slack + (self.alpha / 10.0 if self.tau else 0.0)

    def epsilon(self, forgiven: Forgiven, looks: int | None = None) -> tuple[float, bool]:
        """The last point of the fixed grid up to which all are refuted."""
        paid = self._paid(forgiven.slack)
        return _binomial.scan_path(
            len(self.path.ranks) if looks is None else looks,
            lambda epsilon: self._smallest(epsilon, forgiven.guesses),
            self.path.crossing,
            alpha=self.alpha,
            slack=lambda epsilon: paid,
            most=paid,
        )

    def p_value(self, epsilon: float, forgiven: Forgiven) -> float:
        smallest = self._smallest(epsilon, forgiven.guesses)
        return min(1.0, self.path.crossing(epsilon, smallest) + self._paid(forgiven.slack))

    def perfect(self) -> AgainstProxy:
        """The same guesses, all of them right."""
        return AgainstProxy(replace(self.found, correct=np.ones_like(self.found.correct)), self.alpha, self.tau)

    def ceiling(self, forgiven: Forgiven) -> float:
        """What a perfect attack could have shown, had one number of guesses been looked at: quick, a little high."""
        return self.perfect().epsilon(forgiven, looks=1)[0]


def _test_of(name: str, evidence: MatchedScores, alpha: float, kappa: float, tau: float) -> Matched | AgainstProxy:
    """One of the two tests by its name."""
    return Matched(evidence, alpha, kappa) if name == "matched" else AgainstProxy.of_audited(evidence, alpha, tau)
