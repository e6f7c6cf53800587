"""Conduct one audit: plan it, play the game, bound, judge, and write down all of it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit import _validate as check
from dpaudit import accounting, estimators, planning
from dpaudit._validate import InputError
from dpaudit.auditing import _made, _observe, _written, _zero
from dpaudit.auditing._figures import figures_of, region_figure
from dpaudit.auditing.record import Audit, Bound
from dpaudit.bounds import (
    GAUSSIAN_ASSUMPTION,
    ClosenessRegion,
    LowerBound,
    NotComparable,
    Outcome,
    Relation,
    UpperBound,
    Verdict,
    round_down,
    sentence_key,
)
from dpaudit.bounds import relation as as_relation
from dpaudit.estimators.thresholds import RankGrid, null_ranks
from dpaudit.evidence import CanaryScores, Evidence, MemberScores, OutputCounts, PairedScores, RunScores
from dpaudit.execution import Execution, RunFailed
from dpaudit.games import (
    Game,
    MultiRun,
    Observational,
    ObservationalTable,
    Panoramia,
    PanoramiaTable,
    Prediction,
    TrainedRuns,
    ZeroRun,
    ZeroRunTable,
    verify,
)
from dpaudit.tradeoff import Family

DELTA = 1e-5
DETECTS = 0.5
ORDERS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an audit may be told, besides its game and its claim.

    Attributes
    ----------
    confidence
        Of the verdict, and of each bound on its own.
    delta
        At which epsilon is bounded; None: that of the claim, or 1e-5.
    detects
        The share of the promised noise that must be caught: with 0.5, a mechanism with half its noise is, about nine
        times of ten, by an attack as good as it allows. It chooses the number of runs where none is given; None: 0.5.
    accept
        Assumptions that the user answers for, each as the whole sentence.
    fail_if
        A condition on a lower bound, such as "epsilon > 2"; it fails a run as a contradicted claim does.
    commitment
        The hash that was published before the run; another one is refused.
    """

    name: str = "audit"
    note: str = ""
    seed: int = 0
    confidence: float = 0.95
    delta: float | None = None
    detects: float | None = None
    accept: tuple[str, ...] = ()
    fail_if: str | None = None
    commitment: str | None = None

    def __post_init__(self) -> None:
        for field in ("name", "note"):
            if not isinstance(getattr(self, field), str):
                raise InputError(f"`{field}` must be a text, got {getattr(self, field)!r}.")
        check.count("seed", self.seed)
        check.confidence(self.confidence)
        if self.delta is not None:
            check.delta(self.delta)
        if self.detects is not None:
            check.number("detects", self.detects, low=0.01, high=0.99)
        accepted = [self.accept] if isinstance(self.accept, str) else check.items("accept", self.accept)
        if isinstance(self.accept, dict) or not all(isinstance(text, str) for text in accepted):
            raise InputError(f"`accept` must be a list of sentences, got {self.accept!r}.")
        object.__setattr__(self, "accept", tuple(accepted))
        if self.fail_if is not None:
            parsed_condition(self.fail_if)


def audit(
    source: Any,
    *,
    claim: UpperBound | None = None,
    relation: Relation | str | None = None,
    runs: int | None = None,
    name: str = "audit",
    note: str = "",
    claim_source: str = "",
    seed: int = 0,
    confidence: float = 0.95,
    delta: float | None = None,
    detects: float | None = None,
    accept: Sequence[str] | str = (),
    fail_if: str | None = None,
    commitment: str | None = None,
    execution: Execution | None = None,
    store: str | Path | None = None,
) -> Audit:
    """Play a game (or take evidence), bound what leaks, judge the claim, and return the record of all of it.

    The verdict is the level-(1 - confidence) test of the claim's own curve; each bound beside it is a statement of its
    own at the same confidence. A claim of another relation or unit, a run that fails, and an audit too small to tell
    are outcomes of the record, not errors.

    Parameters
    ----------
    source
        A score `score(world: bool, seed: int) -> float` (a callable or "file.py:function"), a game, or evidence.
    claim
        From `accounting`, or an `UpperBound`; None audits without judging.
    relation
        What the score's `world` switches; by default the claim's relation. Games and evidence carry their own.
    runs
        Runs in each world, for a score; by default as many as `detects` needs.
    store
        A file that keeps every finished run, so that the same call goes on after a kill.

    The others are the fields of `Settings`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpaudit import accounting
    >>> def score(world, seed):  # promises mu = 1, but has half the noise that takes
    ...     return float(world) + 0.5 * np.random.default_rng(seed).normal()
    >>> claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    >>> found = audit(score, claim=claim, name="noisy count", execution=Execution(workers=1))
    >>> print(found.outcome, found.plan["runs"])
    contradicted 43
    """
    settings = Settings(
        name=name,
        note=note,
        seed=seed,
        confidence=confidence,
        delta=delta,
        detects=detects,
        accept=accept,  # type: ignore[arg-type]  # checked there
        fail_if=fail_if,
        commitment=commitment,
    )
    if claim is not None and not isinstance(claim, UpperBound):
        raise InputError(f"`claim` must be an UpperBound, got {type(claim).__name__}.", "see `dpaudit.accounting`.")
    game = as_game(source, claim=claim, relation=relation, runs=runs, settings=settings)
    settings = effective(settings, claim, planned=game is not source and runs is None)
    return conduct(game, claim, settings, claim_source=claim_source, execution=execution, store=store)


def as_game(
    source: Any, *, claim: UpperBound | None, relation: Relation | str | None, runs: int | None, settings: Settings
) -> Any:
    """The game or evidence itself; a score becomes a `MultiRun` of the relation and size that the claim asks for."""
    if runs is not None and settings.detects is not None:
        raise InputError("`detects` chooses the number of runs, and `runs` gives it.", "leave one of them out.")
    if isinstance(source, Game | Evidence):
        if relation is not None or runs is not None:
            kind = type(source).__name__
            raise InputError(f"`relation` and `runs` belong to a score; {kind} carries its own.")
        if settings.detects is not None:
            raise InputError("`detects` chooses the runs of a score; this game has its own size.")
        return source
    own = getattr(source, "relation", None)
    wanted = relation if relation is not None else own if own is not None else None if claim is None else claim.relation
    if wanted is None:
        raise InputError("`relation` is needed for a score without a claim: what does `world` switch?")
    return MultiRun(
        score=source,
        relation=as_relation(wanted),
        runs=planned_runs(claim, settings) if runs is None else runs,
        unit=_unit(claim),
    )


def _unit(claim: UpperBound | None) -> str:
    return "record" if claim is None else claim.unit


def planned_runs(claim: UpperBound | None, settings: Settings) -> int:
    """Runs in each world so that the violation `detects` is caught."""
    if claim is None:
        raise InputError("`runs` is needed without a claim: there is nothing to plan for.")
    detects = DETECTS if settings.detects is None else settings.detects
    return planning.plan_runs(claim=claim, detects=detects, confidence=settings.confidence)


def effective(settings: Settings, claim: UpperBound | None, *, planned: bool) -> Settings:
    """The settings with what None stands for."""
    detects = DETECTS if planned and settings.detects is None else settings.detects
    return replace(settings, delta=_delta(claim, settings), detects=detects)


def conduct(
    game: Any,
    claim: UpperBound | None,
    settings: Settings,
    *,
    claim_source: str = "",
    execution: Execution | None = None,
    store: str | Path | None = None,
    fresh: bool = False,
) -> Audit:
    """The audit of a game whose every setting is decided; `fresh` forgets the runs of the store."""
    execution = execution or Execution()
    began = time.perf_counter()
    game = game.game(settings.seed) if isinstance(game, PanoramiaTable) else game
    played = isinstance(game, Game)
    if settings.fail_if is not None and isinstance(game, PairedScores | OutputCounts | Prediction | Panoramia):
        raise InputError(f"`fail_if` needs a bound on epsilon or mu, and {type(game).__name__} gives none.")
    if played and settings.commitment is not None:
        verify(game, seed=settings.seed, published=(settings.commitment.split() or [""])[-1])  # NAME sha256:... is fine
    elif settings.commitment is not None:
        raise InputError("`commitment` belongs to a game; evidence was made before.")
    common: dict[str, Any] = {
        "name": settings.name,
        "note": settings.note,
        "plan": _written.plan(game, claim, settings, _delta(claim, settings)),
        "claim": None if claim is None else _written.claim(claim, claim_source),
        "accept": settings.accept,
        "fail_if": settings.fail_if,
        "seeds": _written.seeds(game, settings) if played else {"seed": game.seed},
        "versions": _written.versions(),
    }
    delta, seen = _delta(claim, settings), None
    how = {"seed": settings.seed, "execution": execution, "store": store, "fresh": fresh, "title": settings.name}
    watch: Any = _zero if isinstance(game, ZeroRun | ZeroRunTable) else _observe
    watch = _made if isinstance(game, Panoramia) else watch
    try:
        if isinstance(game, Observational | ObservationalTable | ZeroRun | ZeroRunTable | Panoramia):
            made = game.game(settings.seed) if isinstance(game, ObservationalTable | ZeroRunTable) else game
            seen = watch.observe(made, seed=settings.seed, confidence=settings.confidence, delta=delta)
        evidence = seen.evidence if seen is not None else game.play(**how) if played else game
    except RunFailed as problem:
        failure = _failure(problem, game.relation, settings, kept=store is not None)
        return Audit(**common, **failure, timings=_written.timings(began, began, execution))
    ran = time.perf_counter()
    coins = usable(evidence)
    common |= {"evidence": _written.evidence(evidence), "observed": evidence}
    figures = figures_of(coins, claim, delta=delta, confidence=settings.confidence)
    if seen is not None and seen.blocked:
        return Audit(
            **common,
            verdict=watch.blocked_verdict(seen, settings.confidence, evidence.relation),
            checks=seen.checks,
            changes=seen.changes,
            figures=seen.figures | figures,
            timings=_written.timings(began, ran, execution),
        )
    early = isinstance(game, TrainedRuns) and game.at not in (None, game.recipe.steps)  # no curve of all the steps
    level = settings.confidence if seen is None else seen.level(settings.confidence)
    bounds = bounds_of(coins, delta=delta, confidence=level, claim=None if early else claim)
    verdict = verdict_of(coins, claim, confidence=level, accept=settings.accept)
    if seen is None and isinstance(coins, MemberScores):  # evidence alone has no features to try them with
        bounds = _zero.untested(bounds)
    checks: dict[str, Any] = {}
    if seen is not None:
        bounds = watch.restated(bounds, seen, settings.confidence)
        verdict = watch.restated_verdict(verdict, seen, settings.confidence)
        checks, figures = seen.checks | watch.shown_risk(bounds, seen), seen.figures | figures
    region = next((bound for bound in bounds if isinstance(bound, ClosenessRegion)), None)
    if region is not None:
        figures["region"] = region_figure(region)
    budget = _budget(coins, claim, bounds, verdict, settings.confidence)
    if "shift" in figures:
        curve = {"statement": "lower bound on epsilon at every tau, the curve", "error": 1.0 - settings.confidence}
        budget = (*budget, {**curve, "spent": "a few numbers of guesses, fixed in advance, Bonferroni"})
    if checks.get("comparisons", {}).get("real_epsilon") is not None:
        error = {"error": 1.0 - settings.confidence}
        beside = ("with real non-members, epsilon", "GuessPath"), ("by the loss alone, epsilon", "guess path")
        budget = (*budget, *({"statement": what, **error, "spent": spent} for what, spent in beside))
    return Audit(
        **common,
        bounds=bounds,
        verdict=verdict,
        budget=budget,
        together=max(0.0, 1.0 - math.fsum(share["error"] for share in budget)),
        ceiling={b.parameter: b.ceiling for b in bounds if isinstance(b, LowerBound) and b.ceiling is not None},
        changes=(*_changes(coins, claim, verdict, bounds), *_idle(settings.accept, bounds, coins.conditions)),
        checks=checks,
        figures=figures,
        failed_if=None if settings.fail_if is None else _holds(settings.fail_if, bounds, settings.accept),
        timings=_written.timings(began, ran, execution),
    )


# --------------------------------------------------------------------------------------------------- bounds and verdict


def bounds_of(
    evidence: Evidence, *, delta: float, confidence: float, claim: UpperBound | None = None
) -> tuple[Bound, ...]:
    """The default bounds of each evidence type: model-free epsilon first, then mu, then, for many runs and a claim of
    DP-SGD, the noise multiplier in DP-SGD's own family of curves."""
    converted = delta if delta > 0.0 else None  # at delta 0 a Gaussian bound says nothing about epsilon
    if isinstance(evidence, PairedScores):
        return (estimators.panoramia(evidence, delta=delta, confidence=confidence),)
    if isinstance(evidence, OutputCounts):
        one = estimators.renyi_from_outputs(evidence, orders=ORDERS, confidence=confidence)
        if evidence.present.shape[0] < 2 or not evidence.independent:
            return (one,)
        return (one, estimators.renyi_from_outputs(evidence, orders=ORDERS, confidence=confidence, compose=True))
    pairs: dict[type, tuple[Callable[..., Bound], Callable[..., Bound]]] = {
        RunScores: (estimators.epsilon_from_runs, estimators.mu_from_runs),
        CanaryScores: (estimators.epsilon_from_canaries, estimators.mu_from_canaries),
        MemberScores: (estimators.epsilon_from_members, estimators.mu_from_members),
    }
    epsilon, mu = pairs[type(evidence)]
    how: dict[str, Any] = {}
    if isinstance(evidence, CanaryScores):  # a strategy that delta and the shift leave any power to
        m = evidence.reduced().scores.size
        how["guesses"] = estimators.guesses_for(canaries=m, delta=delta, shift=evidence.shift, confidence=confidence)
    found = (
        epsilon(evidence, delta=delta, confidence=confidence, **how),
        mu(evidence, delta=converted, confidence=confidence),
    )
    family = _dp_sgd_family(evidence, claim)
    if family is None or not isinstance(evidence, RunScores):
        return found
    return (*found, estimators.family_from_runs(evidence, family=family, delta=converted, confidence=confidence))


def _dp_sgd_family(evidence: Evidence, claim: UpperBound | None) -> Family | None:
    """The curves of the DP-SGD that the claim describes, whatever its noise."""
    terms = (claim.terms or {}).get("dp_sgd") if claim is not None else None
    if terms is None:
        return None
    if terms["sampling_rate"] < 1.0 and not accounting.available():
        return None
    return accounting.dp_sgd_family(
        sampling_rate=terms["sampling_rate"], steps=terms["steps"], relation=evidence.relation
    )


def usable(evidence: Evidence) -> Evidence:
    """A random hold-out is thinned to fair coins before anything is estimated."""
    if isinstance(evidence, MemberScores) and evidence.assignment == "split":
        evidence = evidence.as_split()
    if isinstance(evidence, CanaryScores) and evidence.assignment == "split":
        return evidence.thinned()
    return evidence


def _delta(claim: UpperBound | None, settings: Settings) -> float:
    if settings.delta is not None:
        return settings.delta
    return DELTA if claim is None else claim.delta


def verdict_of(
    evidence: Evidence, claim: UpperBound | None, *, confidence: float, accept: tuple[str, ...] = ()
) -> Verdict:
    """`judge`, with "not comparable" and "no claim" as outcomes and not as errors."""
    relation = evidence.relation
    if claim is None:
        return Verdict(
            outcome=Outcome.NO_CLAIM,
            sentence="No claim was given, so there is nothing to contradict.",
            confidence=confidence,
            relation=relation,
        )
    if isinstance(evidence, PairedScores):
        return Verdict(
            outcome=Outcome.UNINFORMATIVE,
            sentence="Uninformative: generated records bound epsilon only for a closeness that somebody asserts.",
            confidence=confidence,
            relation=relation,
        )
    try:
        return estimators.judge(evidence, claim, confidence, accept)
    except NotComparable as problem:
        return not_comparable(problem, confidence, relation)


def not_comparable(problem: NotComparable, confidence: float, relation: Relation) -> Verdict:
    """A refused comparison as an outcome."""
    sentence = f"Not comparable: {problem.sentence}"
    return Verdict(outcome=Outcome.NOT_COMPARABLE, sentence=sentence, confidence=confidence, relation=relation)


def _failure(problem: RunFailed, relation: Relation, settings: Settings, *, kept: bool) -> dict[str, Any]:
    sentence = f"Failed: {problem.sentence.rstrip('.')}."
    verdict = Verdict(outcome=Outcome.FAILED, sentence=sentence, confidence=settings.confidence, relation=relation)
    again = "Mend what failed and run it again."
    if kept:
        again += " Finished runs are kept, and count as long as the score itself does not change."
    return {"verdict": verdict, "changes": (again,), "figures": {"failure": problem.detail} if problem.detail else {}}


# ------------------------------------------------------------------------------------------------- what is written down


def _budget(
    evidence: Evidence, claim: UpperBound | None, bounds: tuple[Bound, ...], verdict: Verdict, confidence: float
) -> tuple[dict[str, Any], ...]:
    """Every statement and its share of error probability; an estimate is none."""
    shares = []
    error = 1.0 - confidence
    if verdict.p_value is not None:
        shares.append({"statement": "verdict on the claim", "error": error, "spent": _spent(evidence, claim)})
    if isinstance(evidence, RunScores):
        spent = f"{_spent(evidence, claim)}, both rates"
        shares.append({"statement": "limits of the error rates in the figure", "error": error, "spent": spent})
    for bound in bounds:
        if isinstance(bound, LowerBound) and bound.guarantee != "estimate":
            spent = bound.selection or "one test"
            shares.append({"statement": f"lower bound on {bound.parameter}", "error": error, "spent": spent})
        elif not isinstance(bound, LowerBound):
            shares.append({"statement": type(bound).__name__, "error": error, "spent": bound.selection or "one test"})
    return tuple(shares)


def _spent(evidence: Evidence, claim: UpperBound | None) -> str:
    if isinstance(evidence, RunScores):
        bare = claim is not None and claim.curve is None
        ranks = len(null_ranks(RankGrid(), evidence.reduced().absent.size, extreme=bare))
        return f"{ranks} null ranks, Bonferroni"
    return "one test of the claimed curve"


def _changes(
    evidence: Evidence, claim: UpperBound | None, verdict: Verdict, bounds: tuple[Bound, ...]
) -> tuple[str, ...]:
    """What would change the verdict, as sentences."""
    outcome, bare = verdict.outcome, claim is not None and claim.curve is None
    shown = [b for b in bounds if isinstance(b, LowerBound) and b.ceiling is not None]
    reach = " and ".join(f"{b.parameter} up to about {round_down(b.ceiling or 0.0)}" for b in shown)
    if outcome is Outcome.CONTRADICTED and verdict.p_value is not None:
        if verdict.p_value < 1e-12:
            return ("No higher confidence that anybody uses would change it; only a flaw in the game itself would.",)
        return (f"It would not have been contradicted at an error probability below {_down(verdict.p_value)}.",)
    if outcome is Outcome.CONTRADICTED_IF:
        return tuple(
            f"It rests on this: {text}. Listing the sentence in `accept` takes it on." for text in verdict.assumptions
        )
    if outcome is Outcome.CONSISTENT:
        size = f"An audit of this size could have shown {reach}." if reach else ""
        weak = "The claim is a bare pair; its curve would be easier to contradict." if bare else ""
        more = "A stronger attack or more runs might; that is a further test, with an error probability of its own."
        return tuple(text for text in (more, weak, size) if text)
    if outcome is Outcome.UNINFORMATIVE and isinstance(evidence, RunScores) and claim is not None:
        needed = _runs_for_perfect(evidence, claim, verdict.confidence)
        return (
            (f"At least {needed:,} runs a side, with a perfect attack, could contradict this claim.",) if needed else ()
        )
    if outcome is Outcome.UNINFORMATIVE:
        return ("More canaries or a claim that says more (its curve) might.",)
    if outcome is Outcome.NOT_COMPARABLE and claim is not None:
        return (f"An audit under {claim.relation} adjacency of one {claim.unit}, or a claim about what was audited.",)
    return (f"A claim would be judged. An audit of this size could have shown {reach}.",) if reach else ()


def _down(p_value: float) -> str:
    """Two digits, rounded down."""
    unit = 10.0 ** (math.floor(math.log10(p_value)) - 1)
    return f"{math.floor(p_value / unit) * unit:.2g}"


def _idle(accept: tuple[str, ...], bounds: tuple[Bound, ...], conditions: tuple[str, ...]) -> tuple[str, ...]:
    """Accepted sentences that nothing rests on: a misspelt one would otherwise go unnoticed."""
    known = {sentence_key(text) for text in (*conditions, *(t for bound in bounds for t in bound.assumptions))}
    return tuple(
        f"Nothing rests on the accepted sentence {text!r}; is it misspelt?"
        for text in accept
        if sentence_key(text) not in known
    )


def _runs_for_perfect(evidence: RunScores, claim: UpperBound, confidence: float) -> int | None:
    """The least number of runs a side (to 5%) at which perfectly separated scores refute the claim."""

    def enough(runs: int) -> bool:
        perfect = replace(evidence, present=1.0 + np.arange(runs), absent=-1.0 - np.arange(runs), ids=None, group=None)
        return estimators.judge(perfect, claim, confidence, evidence.conditions).contradicted

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > 10**6:
            return None
    while high > low * 1.05 + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# -------------------------------------------------------------------------------------------------------------- fail_if


def parsed_condition(text: Any) -> tuple[str, str, float]:
    """Parameter, comparison and number of a condition such as "epsilon > 2"."""
    found = re.fullmatch(r"\s*(epsilon|mu)\s*(>=|>)\s*([0-9.eE+-]+)\s*", text) if isinstance(text, str) else None
    try:
        if found is None:
            raise ValueError
        return found[1], found[2], float(found[3])
    except ValueError:
        raise InputError(f"`fail_if` must read like 'epsilon > 2' or 'mu >= 1', got {text!r}.") from None


def _holds(condition: str, bounds: tuple[Bound, ...], accept: tuple[str, ...]) -> bool | None:
    """Whether the one bound that decides meets the condition; None where it rests on a sentence nobody accepted.

    epsilon is decided by its own bound or, where the Gaussian assumption is accepted, by that of mu, converted: by one
    of the two, so that the error probability is that of one bound.
    """
    parameter, sign, limit = parsed_condition(condition)
    accepted = {sentence_key(text) for text in accept}
    converted = parameter == "epsilon" and sentence_key(GAUSSIAN_ASSUMPTION) in accepted
    decides = "mu" if converted else parameter
    bound = next(b for b in bounds if isinstance(b, LowerBound) and b.parameter == decides)
    value = bound.epsilon if converted else bound.value
    needed = [text for text in bound.assumptions if converted or text != GAUSSIAN_ASSUMPTION]
    if value is None or bound.guarantee == "estimate" or any(sentence_key(text) not in accepted for text in needed):
        return None
    return value >= limit if sign == ">=" else value > limit
