"""The anytime-valid test of runs that arrive one by one (theory:sequential#stream).

Each run's world is a fair coin of the auditor's, independent of the past. For every epsilon of the fixed grid a
gambler bets on "score beyond a threshold": under (epsilon, delta)-DP the payoff
2 1{b=1} phi - 2 e^epsilon 1{b=0} phi - delta has mean at most 0, so the wealth reaches 1/alpha with probability at most
alpha (Ville), whenever one looks. Threshold, direction and stake are re-planned from the past alone, so nothing is
split off and nothing is paid for looking.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial, _files
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import LowerBound, Relation, UpperBound, Verdict, check_comparable, decide
from dpaudit.bounds import relation as as_relation

STREAM_CAP = 10.0
FIRST_PLAN = 16
REPLAN = 1.2
QUANTILES = np.linspace(0.03, 0.97, 17)
LARGEST_STAKE = 0.45
"""At epsilon 0; a lost bet then costs nine tenths of the wealth."""
SHARE_OF_KELLY = 0.8
"""Stakes are a little below the plug-in optimum, because the plug-in is optimistic."""
SIZE = "{runs:,} runs, {heads:,} with the record"
REFERENCES = ("Ville 1939", "Waudby-Smith and Ramdas, arXiv 2010.09686")
WEALTH = "{runs:,} runs, wealth {wealth:.3g} against the claimed curve"


@dataclass(eq=False)
class StreamState:
    """All that the test remembers: the past runs and the wealth of every hypothesis. Saved as JSON, resumed exactly."""

    delta: float
    scores: list[float] = field(default_factory=list)
    worlds: list[bool] = field(default_factory=list)
    log_wealth: NDArray[np.float64] = field(default_factory=lambda: np.zeros(_grid().size))
    best: NDArray[np.float64] = field(default_factory=lambda: np.zeros(_grid().size))
    plan: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]] | None = None
    next_plan: int = FIRST_PLAN

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the past, from which everything else is recomputed; atomically."""
        past = {"delta": self.delta, "scores": self.scores, "worlds": self.worlds}
        _files.write_text(path, json.dumps(past))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StreamState:
        """The state that `save` wrote, by replaying its runs."""
        try:
            with open(path, encoding="utf-8") as file:
                past = json.load(file)
            state = cls(delta=check.delta(past["delta"]))
            pairs = list(zip(past["worlds"], past["scores"], strict=True))
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(f"{os.fspath(path)!r} is not a saved stream ({type(problem).__name__}).") from None
        for world, score in pairs:
            state.update(world, score)
        return state

    def update(self, world: bool, score: float) -> None:
        """Settle the bets on one run, then re-plan if it is time."""
        if not isinstance(world, bool | np.bool_):
            raise InputError(f"`world` must be true (present) or false, got {world!r}.")
        value = check.number("score", score)
        if not math.isfinite(value):
            raise InputError(f"`score` must be finite, got {score!r}.")
        if self.plan is not None:
            threshold, stake, upward = self.plan
            hit = np.where(upward, value > threshold, value <= threshold)
            for_bet = upward == bool(world)  # upward bets on "present", downward on "absent"
            payoff = np.where(hit, np.where(for_bet, 2.0, -2.0 * np.exp(_grid())), 0.0) - self.delta
            self.log_wealth = self.log_wealth + np.log1p(stake * payoff)
            self.best = np.maximum(self.best, self.log_wealth)
        self.worlds.append(bool(world))
        self.scores.append(value)
        if len(self.scores) >= self.next_plan:
            self.plan = self._planned()
            self.next_plan = math.ceil(len(self.scores) * REPLAN)

    def _planned(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]] | None:
        """For each hypothesis the threshold, stake and direction with the best growth on the past."""
        scores, worlds = np.array(self.scores), np.array(self.worlds)
        present, absent = scores[worlds], scores[~worlds]
        if min(present.size, absent.size) < 2:
            return None
        cuts, p, q = _rates(present, absent)
        stake, growth = _kelly(p, q, np.exp(_grid())[:, None], self.delta)
        pick = np.argmax(growth, axis=1)
        rows = np.arange(pick.size)
        return np.tile(cuts, 2)[pick], stake[rows, pick], pick < cuts.size


def _rates(present: NDArray[np.float64], absent: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Thresholds, and how often the world that is bet on, and the other, lie beyond: upward first, then downward."""
    cuts = np.quantile(np.concatenate([present, absent]), QUANTILES)
    above = [np.array([(world > t).mean() for t in cuts]) for world in (present, absent)]
    hits, misses = np.concatenate([above[0], 1.0 - above[1]]), np.concatenate([above[1], 1.0 - above[0]])
    counts = np.repeat([present.size, absent.size], cuts.size)
    others = np.repeat([absent.size, present.size], cuts.size)
    return cuts, ((hits * counts + 0.5) / (counts + 1.0))[None, :], ((misses * others + 0.5) / (others + 1.0))[None, :]


def _kelly(p: Any, q: Any, grow: Any, delta: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A stake a little below the best for hit rates p and q, and the growth of the wealth that it promises."""
    stake = SHARE_OF_KELLY * np.maximum(p - grow * q - delta, 0.0) / (2.0 * grow * (p + q))
    stake = np.minimum(stake, 2.0 * LARGEST_STAKE / (2.0 * grow + delta))
    growth = (
        p * np.log1p(stake * (2.0 - delta))
        + q * np.log1p(-stake * (2.0 * grow + delta))
        + (2.0 - p - q) * np.log1p(-stake * delta)
    )
    return stake, growth


def _grid() -> NDArray[np.float64]:
    return np.arange(round(STREAM_CAP / _binomial.GRID_STEP) + 1, dtype=np.float64) * _binomial.GRID_STEP


def epsilon_from_stream(
    runs: Iterable[tuple[bool, float]],
    *,
    delta: float,
    relation: Relation | str,
    confidence: float = 0.95,
    until: float | None = None,
    state: StreamState | None = None,
    unit: str = "record",
) -> LowerBound:
    """Lower bound on epsilon from runs that arrive one by one; valid whenever one stops, for whatever reason.

    See theory:sequential#stream.

    Parameters
    ----------
    runs
        Pairs (world, score): world is a fair coin tossed before the run, True where the record was present.
    until
        Stop reading as soon as the bound reaches this epsilon.
    state
        A `StreamState` to go on from; it is advanced in place, so that a later call resumes. `state.save(path)` and
        `StreamState.load(path)` keep it between processes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(4000) < 0.5
    >>> stream = zip(coins.tolist(), (rng.normal(size=4000) + 2.0 * coins).tolist())
    >>> state = StreamState(delta=0.0)
    >>> bound = epsilon_from_stream(stream, delta=0.0, relation="add-remove", until=1.0, state=state)
    >>> bound.epsilon >= 1.0, len(state.scores) < 400
    (True, True)
    """
    delta, barrier = check.delta(delta), -math.log(1.0 - check.confidence(confidence))
    state = StreamState(delta=delta) if state is None else state
    if state.delta != delta:
        raise InputError(
            f"`state` was made for delta {state.delta:g}, got {delta:g}.", "one wealth belongs to one delta."
        )
    goal = None
    if until is not None:
        goal = math.ceil(check.number("until", until, low=0.0, high=STREAM_CAP) / _binomial.GRID_STEP - 1e-9)
    for world, score in _pairs(runs):
        state.update(world, score)
        if goal is not None and np.all(state.best[: goal + 1] >= barrier):
            break
    return _bound_of(state, barrier, confidence, relation, unit)


def _pairs(runs: Any) -> Iterator[tuple[Any, Any]]:
    """Each run as (world, score), or a clear sentence."""
    if not hasattr(runs, "__iter__"):
        raise InputError(f"`runs` must be pairs (world, score), got {runs!r}.")
    for pair in runs:
        try:
            world, score = pair
        except (TypeError, ValueError):
            raise InputError(f"`runs` must be pairs (world, score), got {pair!r}.") from None
        yield world, score


def _check_coins(worlds: list[bool]) -> None:
    heads, runs = sum(worlds), len(worlds)
    if runs and _binomial.two_sided_fair(heads, runs) < 1e-6:
        raise InputError(
            f"the worlds must be fair, independent coins, got {heads} present of {runs}.",
            "toss a fair coin before each run; fixed numbers of runs go to `epsilon_from_runs`.",
        )


def _bound_of(state: StreamState, barrier: float, confidence: float, relation: Relation | str, unit: str) -> LowerBound:
    heads, runs = sum(state.worlds), len(state.worlds)
    _check_coins(state.worlds)

    def p_value(epsilon: float) -> float:
        index = max(0, math.ceil(epsilon / _binomial.GRID_STEP - 1e-9))
        return math.exp(-max(0.0, float(state.best[index]))) if index < state.best.size else 1.0

    theta, capped = _binomial.scan(
        lambda epsilon: state.best[round(epsilon / _binomial.GRID_STEP)] >= barrier, cap=STREAM_CAP
    )
    return LowerBound(
        epsilon=theta,
        delta=state.delta,
        confidence=confidence,
        relation=as_relation(relation),
        method="betting on runs as they arrive, anytime-valid",
        guarantee="certified",
        theta=theta,
        selection="threshold and stake planned from past runs only",
        unit=unit,
        size=filled(SIZE, {"runs": runs, "heads": heads}),
        capped=capped,
        references=REFERENCES,
        theory="theory:sequential#stream",
        test=p_value,
    )


# ------------------------------------------------------------------------------------------------ one claim, one wealth

TANGENTS = np.concatenate([np.arange(0.0, 2.0, 0.1), np.arange(2.0, 10.01, 0.25)])
"""Slopes (as epsilons) at which a claim's curve may be bet against; any choice made from the past is free."""


class ClaimStream:
    """One gambler against one claim: the wealth of betting that its curve is exceeded (theory:sequential#claim-stream).

    Under the claim every bet at a tangent (epsilon, delta(epsilon)) of its curve has mean at most 0, so the wealth
    reaches 1 / alpha with probability at most alpha, whenever one looks. Threshold, direction, tangent and stake come
    from past runs only. The world of each run must be a fair coin of the auditor's, independent of the past.
    """

    def __init__(self, claim: UpperBound) -> None:
        curve = claim.hypothesis.symmetric()
        self.claim = claim
        self.scores: list[float] = []
        self.worlds: list[bool] = []
        self.log_wealth = self.best = 0.0
        self._deltas = np.array([curve.delta(float(epsilon)) * (1.0 + 1e-9) for epsilon in TANGENTS])
        self._plan: tuple[float, bool, float, float, float] | None = None
        self._next_plan = FIRST_PLAN

    @property
    def reach(self) -> float:
        """The log-wealth that a perfect attack on these worlds reaches, at the best tangent, direction and stake."""
        worlds = np.array(self.worlds[FIRST_PLAN:], dtype=bool)
        stakes = np.linspace(0.0, 1.0, 50)[:, None] * 2.0 * LARGEST_STAKE / (2.0 * np.exp(TANGENTS) + self._deltas)
        won, lost = np.log1p(stakes * (2.0 - self._deltas)), np.log1p(-stakes * self._deltas)
        return float(max(np.max(side.sum() * won + (~side).sum() * lost) for side in (worlds, ~worlds)))

    @property
    def p_value(self) -> float:
        """One over the largest wealth so far: valid at every time."""
        return math.exp(-self.best)

    def update(self, world: bool, score: float) -> None:
        """Settle the bet on one run, then re-plan if it is time."""
        if not isinstance(world, bool | np.bool_):
            raise InputError(f"`world` must be true (present) or false, got {world!r}.")
        value = check.number("score", score)
        if self._plan is not None:
            threshold, upward, stake, grow, delta = self._plan
            hit = value > threshold if upward else value <= threshold
            payoff = (2.0 if upward == world else -2.0 * grow) * hit - delta
            self.log_wealth += math.log1p(stake * payoff)
            self.best = max(self.best, self.log_wealth)
        self.worlds.append(bool(world))
        self.scores.append(value)
        if len(self.scores) >= self._next_plan:
            self._plan = self._planned()
            self._next_plan = math.ceil(len(self.scores) * REPLAN)

    def _planned(self) -> tuple[float, bool, float, float, float] | None:
        """Threshold, direction, stake and tangent with the best growth on the past; None where nothing grows."""
        scores, worlds = np.array(self.scores), np.array(self.worlds)
        if min(worlds.sum(), (~worlds).sum()) < 2:
            return None
        cuts, p, q = _rates(scores[worlds], scores[~worlds])
        stake, growth = _kelly(p, q, np.exp(TANGENTS)[:, None], self._deltas[:, None])
        tangent, cut = np.unravel_index(int(np.argmax(growth)), growth.shape)
        if growth[tangent, cut] <= 0.0:
            return None
        upward = bool(cut < cuts.size)
        grow = float(math.exp(TANGENTS[tangent]))
        return float(np.tile(cuts, 2)[cut]), upward, float(stake[tangent, cut]), grow, float(self._deltas[tangent])


def judge_stream(
    runs: Iterable[tuple[bool, float]],
    claim: UpperBound,
    *,
    confidence: float = 0.95,
    relation: Relation | str,
    unit: str = "record",
    state: ClaimStream | None = None,
) -> Verdict:
    """The verdict on a claim from runs that arrive one by one; reading stops as soon as it is contradicted.

    See theory:sequential#claim-stream.

    If the claim holds, "contradicted" is said with probability at most 1 - confidence, however long one goes on. `runs`
    are pairs (world, score), the world a fair coin tossed before the run. `state` goes on from earlier runs.

    >>> from dpaudit import accounting
    >>> rng = np.random.default_rng(0)
    >>> coins = rng.random(4000) < 0.5
    >>> state = ClaimStream(accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove"))
    >>> pairs = zip(coins.tolist(), (rng.normal(size=4000) + 2.0 * coins).tolist())
    >>> verdict = judge_stream(pairs, state.claim, relation="add-remove", state=state)
    >>> str(verdict.outcome), len(state.scores) < 400
    ('contradicted', True)
    """
    if not isinstance(claim, UpperBound):
        raise InputError(f"`claim` must be an UpperBound, got {type(claim).__name__}.", "see `dpaudit.accounting`.")
    barrier, found = -math.log(1.0 - check.confidence(confidence)), as_relation(relation)
    check_comparable(found=found, promised=claim.relation, found_unit=unit, promised_unit=claim.unit, what="the stream")
    state = ClaimStream(claim) if state is None else state
    if state.claim is not claim and state.claim != claim:
        raise InputError("`state` was made for another claim.", "one wealth belongs to one claim.")
    for world, score in _pairs(runs):
        if state.best >= barrier:
            break
        state.update(world, score)
    _check_coins(state.worlds)
    return decide(
        refuted=state.best >= barrier,
        decisive=True,
        reachable=state.reach >= barrier,
        detail=WEALTH,
        numbers={"runs": len(state.scores), "wealth": math.exp(min(state.best, 700.0))},
        assumptions=(),
        accept=(),
        confidence=confidence,
        relation=found,
        method="betting against the claimed curve, anytime-valid",
        p_value=state.p_value,
    )
