"""From a game or evidence to a verdict, and the record of how it was reached: one path for every game.

    play  ->  controls refute, or do not  ->  once more, where that was paid for  ->  bounds and verdict, or none

*Validity.* A statement of one attempt is wrong with probability at most (1 - confidence) / attempts. Which attempt is
reported depends on the data, but "the reported one is wrong" lies in the union over attempts: at most 1 - confidence,
whatever the stopping rule. `attempts` is fixed before the data, and so is the number of evidences of one play, which
share the error probability in the same way, and that of repeated plays of one question, which are merged (`plays`). A
control's false alarm withholds a number and costs no validity. A check that could not be run may withhold it too
(`Check.on_missing`). A planted leak that is not seen withholds nothing, but then "consistent" is not said.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, CheckResult, check_declared, filled, refuted_ids, unique
from dpaudit.auditing import advice, plays, provenance
from dpaudit.auditing.plan import Settings, holds, parsed_condition, planned_runs
from dpaudit.bounds import (
    Bound,
    NotComparable,
    Outcome,
    Relation,
    UpperBound,
    Verdict,
)
from dpaudit.bounds import relation as as_relation
from dpaudit.estimators.analyses import Analysis, analysis_of, judge
from dpaudit.estimators.controls import LEVEL, refute
from dpaudit.evidence import Evidence
from dpaudit.execution import Execution, RunFailed, kept_runs
from dpaudit.games import (
    Game,
    Play,
    Runner,
    check_commitment,
    evidences_of,
    fingerprint,
    from_score,
    if_evidence,
    is_game,
    repeats_of,
)
from dpaudit.games.game import PLANTED
from dpaudit.record import Audit
from dpaudit.reporting import text


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
    accept: Sequence[str | Assumption] | str = (),
    fail_if: str | None = None,
    commitment: str | None = None,
    execution: Execution | None = None,
    store: str | Path | None = None,
) -> Audit:
    """Play a game (or take evidence), bound what leaks, judge the claim, and return the record of all of it.

    The verdict is the level-(1 - confidence) test of the claim's own curve; each bound beside it is a statement of its
    own at the same confidence. A claim of another relation or unit, a run that fails, a refuted assumption and an audit
    too small to tell are outcomes of the record, not errors.

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
    game, planned = as_game(source, claim=claim, relation=relation, runs=runs, settings=settings)
    settings = settings.effective(claim, planned=planned)
    return run(game, claim, settings, claim_source=claim_source, execution=execution, store=store)


def as_game(
    source: Any, *, claim: UpperBound | None, relation: Relation | str | None, runs: int | None, settings: Settings
) -> tuple[Any, bool]:
    """The game; a score becomes many runs of the relation and size that the claim asks for. Was its size planned?"""
    if runs is not None and settings.detects is not None:
        raise InputError("`detects` chooses the number of runs, and `runs` gives it.", "leave one of them out.")
    known = source if is_game(source) or is_planned(source) else if_evidence(source)
    if known is not None:
        if relation is not None or runs is not None:
            raise InputError(f"`relation` and `runs` belong to a score; {type(source).__name__} carries its own.")
        if settings.detects is not None:
            raise InputError("`detects` chooses the runs of a score; this game has its own size.")
        return known, False
    own = getattr(source, "relation", None)
    wanted = relation if relation is not None else own if own is not None else None if claim is None else claim.relation
    if wanted is None:
        raise InputError("`relation` is needed for a score without a claim: what does `world` switch?")
    game = from_score(
        source,
        relation=as_relation(wanted),
        runs=planned_runs(claim, settings) if runs is None else runs,
        unit="record" if claim is None else claim.unit,
    )
    return game, runs is None


# ------------------------------------------------------------------------------------------------------------ the path


def run(
    source: Any,
    claim: UpperBound | None,
    settings: Settings,
    *,
    claim_source: str = "",
    execution: Execution | None = None,
    store: str | Path | None = None,
    fresh: bool = False,
) -> Audit:
    """The audit of a game whose every setting is decided; `fresh` forgets the runs of the store."""
    if execution is not None and not isinstance(execution, Execution):
        raise InputError(f"`execution` must be an Execution, got {type(execution).__name__}.")
    execution = execution or Execution()
    began = time.perf_counter()
    delta = settings.delta_for(claim)
    common: dict[str, Any] = {
        "name": settings.name,
        "note": settings.note,
        "claim": None if claim is None else provenance.claim(claim, claim_source),
        "accept": settings.accept,
        "fail_if": settings.fail_if,
        "versions": provenance.versions(),
    }
    try:
        game: Game = source.game(settings.seed) if is_planned(source) else source
    except RunFailed as problem:  # a model that was asked while the table was read
        common |= {"plan": provenance.not_made(source, claim, settings, delta), "seeds": {"seed": settings.seed}}
        failed = _failed(problem, source.relation, settings, kept=False)
        return text.written(Audit(**common, **failed, timings=provenance.timings(began, began, execution)))
    _check_before(game, settings)
    common |= {
        "plan": provenance.plan(game, claim, settings, delta),
        "seeds": provenance.seeds(game, settings),
    }
    try:
        with kept_runs(store, plan=lambda: fingerprint(game, settings.seed), fresh=fresh) as kept:
            played = _played(game, settings, Runner(execution, kept, settings.name))
    except RunFailed as problem:
        failed = _failed(problem, game.relation, settings, kept=store is not None)
        return text.written(Audit(**common, **failed, timings=provenance.timings(began, began, execution)))
    ran = time.perf_counter()
    if any(result.refuted and result.check.on_refuted == "fail" for result in played.results):
        found = _broken(played, settings)
    else:
        withheld = any(withholds(result, played, settings) for result in played.results)
        found = (_withheld if withheld else _analysed)(played, claim, settings, delta)
    seen = played.play.evidence
    common |= {"evidence": tuple(provenance.evidence(one) for one in seen), "observed": seen}
    return text.written(Audit(**common, **found, timings=provenance.timings(began, ran, execution)))


BEST = "{each}; the best of {of} evidences, each at its share"
STRONGEST = (
    Outcome.CONTRADICTED,
    Outcome.CONTRADICTED_IF,
    Outcome.CONSISTENT,
    Outcome.UNINFORMATIVE,
    Outcome.NOT_COMPARABLE,
    Outcome.NO_CLAIM,
)
"""Of several evidences, each paid for, the one that says most speaks."""


def is_planned(value: Any) -> bool:
    """Whether this is a game of an audit file, which is made when it is run."""
    return bool(getattr(value, "made_when_run", False) is True)


def _check_before(game: Game, settings: Settings) -> None:
    """Refuse before anything runs what could not be answered afterwards."""
    analysis = analysis_of(game.evidence_type)
    check_declared(settings.accept, (*game.assumptions, *analysis.declared))
    if settings.fail_if is not None and parsed_condition(settings.fail_if)[0] not in analysis.parameters:
        raise InputError(f"`fail_if` needs a bound on epsilon or mu, and an audit of kind {game.kind!r} gives none.")
    if repeats_of(game) > 1 and not analysis.parameters:
        raise InputError(
            f"plays are merged where epsilon or mu is bounded, and an audit of kind {game.kind!r} bounds none."
        )
    if settings.commitment is None:
        return
    if not game.purpose:
        raise InputError("`commitment` belongs to a game; evidence was made before.")
    published = (settings.commitment.split() or [""])[-1]  # NAME sha256:... is fine
    check_commitment(game, seed=settings.seed, published=published)


@dataclass(frozen=True, kw_only=True)
class Played:
    """The play that is reported, and what its checks and those of earlier attempts found."""

    game: Game
    play: Play
    results: tuple[CheckResult, ...]
    """Of the attempt that is reported."""
    earlier: tuple[CheckResult, ...] = ()

    @property
    def analysis(self) -> Analysis:
        return analysis_of(self.play.evidence[0])

    def level(self, confidence: float) -> float:
        """The confidence at which each statement is made, so that all of them keep the asked one."""
        return 1.0 - (1.0 - confidence) / self.looks

    def level_of_attempt(self, confidence: float) -> float:
        """The same for what is stated once an attempt, however many evidences there are."""
        return 1.0 - (1.0 - confidence) / self.game.attempts

    @property
    def looks(self) -> int:
        """Attempts and evidences that were paid for before the data; the median of repeated plays is paid for twice."""
        return self.game.attempts * (2 if self.play.repeats > 1 else len(self.play.evidence))

    @property
    def questions(self) -> tuple[tuple[Evidence, ...], ...]:
        """The evidence of each question, as the estimators take it: one, or one a play."""
        seen = tuple(analysis_of(one).usable(one) for one in self.play.evidence)
        return (seen,) if self.play.repeats > 1 else tuple((one,) for one in seen)

    @property
    def unseen(self) -> tuple[CheckResult, ...]:
        """Planted leaks that the attack was not shown to see."""
        planted = {control.check.id for control in self.play.controls if control.kind == PLANTED}
        return tuple(one for one in self.results if one.check.id in planted and one.outcome != "passed")


def _played(game: Game, settings: Settings, runner: Runner) -> Played:
    """One play; where a control refutes what it rests on and a further attempt was paid for, that one."""
    earlier: tuple[CheckResult, ...] = ()
    play = _checked(game, game.play(seed=settings.seed, runner=runner))
    results = _results(play, settings.confidence)
    for attempt in range(1, game.attempts):
        if not any(result.withholds for result in results):
            break
        try:
            again = game.play(seed=settings.seed, attempt=attempt, runner=runner)
        except (InputError, RunFailed) as problem:  # what was refuted could not be mended: the play before it stays
            mended = CheckResult(check=advice.RECALIBRATION, outcome="not-run", numbers={"reason": problem.sentence})
            return Played(game=game, play=play, results=(*results, mended), earlier=earlier)
        again = _checked(game, again)
        refuted = [result for result in results if result.withholds]
        first = next((one.p_value for one in refuted if one.p_value is not None), None)
        shown = "" if first is None else filled(advice.FIRST, {"first": first})
        numbers = {"first": shown, "attempts": game.attempts}
        mended = CheckResult(check=advice.RECALIBRATION, outcome="measured", numbers=numbers)
        earlier, play, results = (*earlier, *refuted, mended), again, _results(again, settings.confidence)
    return Played(game=game, play=play, results=results, earlier=earlier)


def _checked(game: Game, play: Play) -> Play:
    """The play, if it is what the game says it is: plan, `accept` and record rest on that."""
    count, repeats = evidences_of(game) * repeats_of(game), repeats_of(game)
    if (len(play.evidence), play.repeats) != (count, repeats):
        raise InputError(
            f"a play of {game.kind!r} must give the evidences of its game: {count}, got {len(play.evidence)}, "
            f"merged as {play.repeats} of {repeats} plays.",
            EVIDENCES,
        )
    declared, rests = declared_ids(game), [one.id for evidence in play.evidence for one in evidence.conditions]
    unknown = [name for name in rests if name not in declared] + undeclared_checks(game, play)
    if unknown:
        raise InputError(f"a game must declare its assumptions and checks, and {game.kind!r} lacks {unknown[0]!r}.")
    for evidence in play.evidence:
        told = (game.evidence_type, game.relation, game.unit)
        seen = (type(evidence), evidence.relation, evidence.unit)
        if told != seen:
            raise InputError(f"a play of {game.kind!r} must give the evidence of its game: {told}, got {seen}.")
    return play


EVIDENCES = "a game with several says so before the data: `evidences = 2`, or `repeats = 21` plays of one question."


def declared_ids(game: Game) -> set[str]:
    """Ids of all assumptions that may be accepted before the run."""
    return {one.id for one in (*game.assumptions, *analysis_of(game.evidence_type).declared)}


def undeclared_checks(game: Game, play: Play) -> list[str]:
    """Ids of the checks of a play that its game does not declare."""
    told = {one.id for one in game.checks}
    seen = [one.check.id for one in play.controls] + [one.check.id for one in play.results]
    return [name for name in seen if name not in told]


def _results(play: Play, confidence: float) -> tuple[CheckResult, ...]:
    """What was measured, what the controls show, and where one refutes, what explains it."""
    found = list(play.results)
    for control in play.controls:
        result = refute(control.check, control.parts, kind=control.kind, confidence=confidence, **control.numbers)
        found.append(result)
        if result.refuted and control.explain is not None:
            found += control.explain()
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------ outcomes


def _failed(problem: RunFailed, relation: Relation, settings: Settings, *, kept: bool) -> dict[str, Any]:
    verdict = Verdict(
        outcome=Outcome.FAILED,
        detail=advice.REASON,
        numbers={"reason": problem.sentence.rstrip(".")},
        confidence=settings.confidence,
        relation=relation,
    )
    steps = (advice.said(advice.MEND_KEPT if kept else advice.MEND),)
    return {
        "verdict": verdict,
        "next_steps": steps,
        "figures": {"failure": problem.detail} if problem.detail else {},
    }


def _broken(played: Played, settings: Settings) -> dict[str, Any]:
    """A premise does not hold: that is the finding, and no bound is stated beside it."""
    refuted = next(one for one in played.results if one.refuted and one.check.on_refuted == "fail")
    verdict = Verdict(
        outcome=Outcome.BROKEN,
        detail=refuted.template,
        numbers=refuted.fields,
        confidence=settings.confidence,
        relation=played.game.relation,
    )
    return {
        "verdict": verdict,
        "checks": (*played.earlier, *played.results),
        "next_steps": advice.remedies(played.results),
    }


def withholds(result: CheckResult, played: Played, settings: Settings) -> bool:
    """Whether no number may be reported: it refutes, or could not be run and nobody took on what it would test."""
    return result.withholds or bool(_untested(result, played, settings))


def _untested(result: CheckResult, played: Played, settings: Settings) -> tuple[Assumption, ...]:
    """What the evidence rests on that a missing check would have tested, and that is not accepted."""
    if not result.missing:
        return ()
    seen = [played.analysis.usable(one) for one in played.play.evidence]
    rests = unique(one for evidence in seen for one in analysis_of(evidence).conditions(evidence))
    accept = _taken(settings, played.results)
    return tuple(one for one in rests if one.id in result.check.refutes and one.key not in accept)


def _taken(settings: Settings, results: tuple[CheckResult, ...]) -> tuple[str, ...]:
    """What is accepted, except for what is refuted: that nobody can take on."""
    refuted = refuted_ids(results)
    return tuple(key for key in settings.accept if key.partition("(")[0] not in refuted)


def _withheld(played: Played, claim: UpperBound | None, settings: Settings, delta: float) -> dict[str, Any]:
    """No number: what it would rest on is refuted, or nothing tested it. What is left at the least may be shown."""
    told = [result for result in played.results if withholds(result, played, settings)]
    refuting = [result for result in told if result.withholds]
    evidence = played.analysis.usable(played.play.evidence[0])
    common: dict[str, Any] = {"confidence": settings.confidence, "relation": evidence.relation}
    left: tuple[CheckResult, ...] = ()
    rests: tuple[Assumption, ...] = ()
    steps = advice.remedies(played.results)
    if refuting:
        left = _left(played, refuting[0], evidence, settings, delta)
        verdict = Verdict(outcome=Outcome.WITHHELD, detail=refuting[0].template, numbers=refuting[0].fields, **common)
    else:  # nothing is refuted: the evidence says nothing before somebody answers for what it rests on
        verdict = Verdict(outcome=Outcome.UNINFORMATIVE, detail=told[0].clause, numbers=told[0].fields, **common)
        rests = unique(one for result in told for one in _untested(result, played, settings))
        left = _if_right(played, settings, delta)
        steps = (*steps, advice.untested(rests))
    shown = played.level_of_attempt(settings.confidence)
    return {
        "verdict": verdict,
        "assumptions": rests,
        "checks": (*played.earlier, *played.results, *left),
        "next_steps": steps,
        "figures": _figures(evidence, claim, (), (*played.results, *left), delta, shown),
    }


def _if_right(played: Played, settings: Settings, delta: float) -> tuple[CheckResult, ...]:
    """What a bound would be, were that right which nothing tested."""
    how = {"delta": delta, "confidence": played.level(settings.confidence)}
    each = [played.analysis.untested(played.analysis.usable(one), **how) for one in played.questions[0]]
    return each[0] if len(each) == 1 else plays.merged_results(each)


def _left(
    played: Played, refuted: CheckResult, evidence: Evidence, settings: Settings, delta: float
) -> tuple[CheckResult, ...]:
    """What would be left at the least that the control does not refute."""
    control = next((one for one in played.play.controls if one.check.id == refuted.check.id), None)
    if control is None:
        return ()
    level = refuted.check.level or LEVEL
    how = {"delta": delta, "confidence": played.level(settings.confidence), "level": level}
    return analysis_of(evidence).left(evidence, control.parts, **how)


def _analysed(played: Played, claim: UpperBound | None, settings: Settings, delta: float) -> dict[str, Any]:
    """Bounds, verdict, and everything that is stated beside them, with its share of the error probability."""
    level, tested = played.level(settings.confidence), claim if played.play.covers_claim else None
    seen: list[Evidence] = []  # of each question; where it was played several times, of the median play
    bounds: list[Bound] = []
    verdicts: list[Verdict] = []
    results = [*played.earlier, *played.results]
    accept = _taken(settings, played.results)
    for question in played.questions:
        each = [bounds_of(one, delta=delta, confidence=level, claim=tested) for one in question]
        found = each[0] if len(each) == 1 else plays.merged_bounds(each)
        measured = [analysis_of(one).results(one, found, delta=delta, confidence=level) for one in question]
        results += measured[0] if len(each) == 1 else plays.merged_results(measured)
        bounds += [one.paid_for(played.looks, settings.confidence) for one in found]
        judged = [verdict_of(one, claim, confidence=level, accept=accept) for one in question]
        verdict = judged[0] if len(each) == 1 else plays.merged_verdict(judged)
        verdicts.append(verdict.paid_for(played.looks, settings.confidence))
        seen.append(question[0] if len(each) == 1 else question[plays.middle([one[0].value for one in each])])
    verdict = min(verdicts, key=lambda one: (STRONGEST.index(one.outcome), 1.0 if one.p_value is None else one.p_value))
    verdict = verdict.of_blind_attack() if played.unseen else verdict
    shown = played.level_of_attempt(settings.confidence)
    comparisons, refused = _compared(played, delta=delta, confidence=settings.confidence)
    statements = _statements(played, seen, claim, tuple(bounds), verdict, comparisons)
    budget = tuple({"statement": what, "error": 1.0 - settings.confidence, "spent": how} for what, how in statements)
    rests = unique((*(one for bound in bounds for one in bound.assumptions), *verdict.assumptions, *verdict.accepted))
    compared_on = (one for entry in comparisons for one in entry["bound"].assumptions)
    return {
        "bounds": tuple(bounds),
        "verdict": verdict,
        "assumptions": unique((*rests, *compared_on)),
        "checks": (*results, *refused),
        "comparisons": comparisons,
        "budget": budget,
        "simultaneous_confidence": max(0.0, 1.0 - math.fsum([1.0 - settings.confidence] * len(budget))),
        "ceiling": {name: value for bound in bounds for name, value in bound.ceilings.items()},
        "next_steps": (
            *advice.next_steps(seen[0], claim, verdict, tuple(bounds), rests, settings, played.unseen),
            *advice.remedies(tuple(one for one in played.results if one not in played.unseen and not one.missing)),
        ),
        "figures": _figures(seen[0], claim, tuple(bounds), tuple(results), delta, shown),
        "failed_if": None if settings.fail_if is None else holds(settings, tuple(bounds), accept),
    }


def bounds_of(
    evidence: Evidence, *, delta: float, confidence: float, claim: UpperBound | None = None
) -> tuple[Bound, ...]:
    """The default bounds of this evidence."""
    return analysis_of(evidence).bounds(evidence, delta=delta, confidence=confidence, claim=claim)


def verdict_of(evidence: Evidence, claim: UpperBound | None, *, confidence: float, accept: Any = ()) -> Verdict:
    """`judge`, with "not comparable" and "no claim" as outcomes and not as errors."""
    common: dict[str, Any] = {"confidence": confidence, "relation": evidence.relation}
    analysis = analysis_of(evidence)
    if claim is None:
        return Verdict(outcome=Outcome.NO_CLAIM, **common)
    if analysis.test is None:
        return Verdict(outcome=Outcome.UNINFORMATIVE, detail=analysis.no_test, **common)
    try:
        return judge(evidence, claim, confidence, accept)
    except NotComparable as problem:
        return not_comparable(problem, confidence, evidence.relation)


def not_comparable(problem: NotComparable, confidence: float, relation: Relation) -> Verdict:
    """A refused comparison as an outcome."""
    return Verdict(
        outcome=Outcome.NOT_COMPARABLE,
        detail=advice.REASON,
        numbers={"reason": problem.sentence},
        confidence=confidence,
        relation=relation,
    )


def _compared(
    played: Played, *, delta: float, confidence: float
) -> tuple[tuple[dict[str, Any], ...], tuple[CheckResult, ...]]:
    """The same system by other designs, each with a bound of its own, unless what it rests on is refuted; and those
    that the estimator refuses, with its reason."""
    refuted = {result.check.id for result in played.results if result.refuted}
    level = played.level_of_attempt(confidence)
    found: list[dict[str, Any]] = []
    left_out: list[CheckResult] = []
    for comparison in played.play.comparisons:
        if comparison.needs in refuted:
            continue
        try:
            made = bounds_of(comparison.made, delta=delta, confidence=level)[0].on_epsilon()
        except InputError as problem:  # the estimator itself refuses what the comparison asserts
            told = {"title": comparison.title, "reason": problem.sentence}
            left_out.append(CheckResult(check=advice.NOT_COMPARED, outcome="not-run", numbers=told))
            continue
        bound, sizes = made.paid_for(played.game.attempts, confidence), comparison.made.sizes
        found.append({"id": comparison.id, "title": comparison.title, "sizes": sizes, "bound": bound})
    return tuple(found), tuple(left_out)


def _statements(
    played: Played,
    seen: Sequence[Evidence],
    claim: UpperBound | None,
    bounds: tuple[Bound, ...],
    verdict: Verdict,
    comparisons: tuple[dict[str, Any], ...],
) -> list[tuple[str, str]]:
    """Every statement, and what its share of error probability was spent on; an estimate is none."""
    found: list[tuple[str, str]] = []
    if verdict.p_value is not None:
        spent = analysis_of(seen[0]).spent(seen[0], claim)
        spent = spent if len(seen) == 1 else filled(BEST, {"each": spent, "of": len(seen)})
        found.append(("verdict on the claim", _spent(played, spent)))
    for evidence in seen:
        found += [(what, _spent(played, how)) for what, how in analysis_of(evidence).beside(evidence, claim)]
    found += [(one.statement, one.selection or "one test") for one in bounds if one.guarantee != "estimate"]
    return found + [(entry["title"], entry["bound"].selection or "one test") for entry in comparisons]


def _spent(played: Played, each: str) -> str:
    """On what the error probability was spent, where plays were merged as well."""
    count = played.play.repeats
    return each if count == 1 else filled(plays.MERGED, {"each": each, "plays": count})


def _figures(
    evidence: Evidence,
    claim: UpperBound | None,
    bounds: tuple[Bound, ...],
    results: tuple[CheckResult, ...],
    delta: float,
    confidence: float,
) -> dict[str, Any]:
    found = analysis_of(evidence).figures(evidence, claim, bounds, delta=delta, confidence=confidence)
    for result in results:
        found = {**(result.figure or {}), **found}
    return found
