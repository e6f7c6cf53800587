"""The anytime-valid test of runs that arrive one by one (THEORY 2.13).

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
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpaudit import _binomial, _files
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import LowerBound, Relation
from dpaudit.estimators import _inversion

STREAM_CAP = 10.0
FIRST_PLAN = 16
REPLAN = 1.2
QUANTILES = np.linspace(0.03, 0.97, 17)
SHARE_OF_KELLY = 0.8
"""Stakes are a little below the plug-in optimum, because the plug-in is optimistic."""
REFERENCES = ("Ville 1939", "Waudby-Smith and Ramdas, arXiv 2010.09686")


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
        cuts = np.quantile(scores, QUANTILES)
        above = (
            np.array([(present > t).mean() for t in cuts]),
            np.array([(absent > t).mean() for t in cuts]),
        )
        hits = np.concatenate([above[0], 1.0 - above[1]])  # the world that is bet on
        misses = np.concatenate([above[1], 1.0 - above[0]])  # the other one
        counts = np.repeat([present.size, absent.size], cuts.size)
        others = np.repeat([absent.size, present.size], cuts.size)
        p = ((hits * counts + 0.5) / (counts + 1.0))[None, :]
        q = ((misses * others + 0.5) / (others + 1.0))[None, :]
        grow = np.exp(_grid())[:, None]
        stake = SHARE_OF_KELLY * np.maximum(p - grow * q - self.delta, 0.0) / (2.0 * grow * (p + q))
        stake = np.minimum(stake, 0.9 / (2.0 * grow + self.delta))
        growth = (
            p * np.log1p(stake * (2.0 - self.delta))
            + q * np.log1p(-stake * (2.0 * grow + self.delta))
            + (2.0 - p - q) * np.log1p(-stake * self.delta)
        )
        pick = np.argmax(growth, axis=1)
        rows = np.arange(pick.size)
        return np.tile(cuts, 2)[pick], stake[rows, pick], pick < cuts.size


def _grid() -> NDArray[np.float64]:
    return np.arange(round(STREAM_CAP / _inversion.GRID_STEP) + 1, dtype=np.float64) * _inversion.GRID_STEP


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
        goal = math.ceil(check.number("until", until, low=0.0, high=STREAM_CAP) / _inversion.GRID_STEP - 1e-9)
    if not hasattr(runs, "__iter__"):
        raise InputError(f"`runs` must be pairs (world, score), got {runs!r}.")
    for pair in runs:
        try:
            world, score = pair
        except (TypeError, ValueError):
            raise InputError(f"`runs` must be pairs (world, score), got {pair!r}.") from None
        state.update(world, score)
        if goal is not None and np.all(state.best[: goal + 1] >= barrier):
            break
    return _bound_of(state, barrier, confidence, relation, unit)


def _bound_of(state: StreamState, barrier: float, confidence: float, relation: Relation | str, unit: str) -> LowerBound:
    heads, runs = sum(state.worlds), len(state.worlds)
    if runs and _binomial.two_sided_fair(heads, runs) < 1e-6:
        raise InputError(
            f"the worlds must be fair, independent coins, got {heads} present of {runs}.",
            "toss a fair coin before each run; fixed numbers of runs go to `epsilon_from_runs`.",
        )

    def p_value(epsilon: float) -> float:
        index = max(0, math.ceil(epsilon / _inversion.GRID_STEP - 1e-9))
        return math.exp(-max(0.0, float(state.best[index]))) if index < state.best.size else 1.0

    theta, capped = _inversion.scan(
        lambda epsilon: state.best[round(epsilon / _inversion.GRID_STEP)] >= barrier, cap=STREAM_CAP
    )
    return LowerBound(
        epsilon=theta,
        delta=state.delta,
        confidence=confidence,
        relation=Relation(check.choice("relation", relation, list(Relation))),
        method="betting on runs as they arrive, anytime-valid",
        guarantee="certified",
        theta=theta,
        selection="threshold and stake planned from past runs only",
        unit=unit,
        size=f"{runs:,} runs, {heads:,} with the record",
        capped=capped,
        references=REFERENCES,
        test=p_value,
    )
