"""For the tests of a DP library: `assert_private` in a unit test.

from dpaudit.testing import assert_private

    def test_trainer_keeps_its_promise():
        assert_private(score, claim=1.0, relation="add-remove")  # mu = 1

A green test is a statement: had only half of the promised noise been there (`detects`), it would have been red with
probability about .9 for an attack as good as such a mechanism allows. A red one is wrong with probability at most
1 - confidence, 1e-6 by default, because 20 honest tests at 95% would be red two nights of three.

Would the test notice a bug? `kill_mutants` breaks the trainer on purpose, one bug at a time, and repeats the test.
"""

from __future__ import annotations

import math
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit import _files, accounting
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.auditing import power
from dpaudit.auditing.plan import claim_text
from dpaudit.bounds import Relation, UpperBound
from dpaudit.bounds import relation as as_relation
from dpaudit.estimators import ClaimStream, judge
from dpaudit.evidence import RunScores
from dpaudit.execution import Execution, RunFailed, distinct_seeds, stream
from dpaudit.games.multi_run import Score, check_score_call, check_score_relation, run_batch
from dpaudit.testing.mutation import MutantOutcome, Mutated, MutationReport, mutants

EVIDENCE_FOLDER = ".dpaudit"
BATCH = 16
DETECTS, CONFIDENCE = 0.5, 0.999999
PASSED = "{runs:,} runs do not contradict {stated}; {catches}."
CONTRADICTED = (
    "{runs:,} runs contradict the claim {claim} (p = {p_value:p}, at {confidence:percent} confidence).\n"
    "evidence: {file}\nre-estimate: {command}"
)


class PrivacyViolation(AssertionError):
    """The claim is contradicted. `evidence` is the file of runs that shows it."""

    def __init__(self, message: str, evidence: Path | None = None):
        self.evidence = evidence
        super().__init__(message)


class Underpowered(RuntimeError):
    """Too few runs to catch what the test should catch: neither a pass nor a violation."""


@dataclass(frozen=True)
class Assurance:
    """What a passed `assert_private` stands for."""

    runs: int
    planned: int
    p_value: float
    confidence: float
    detects: float
    claim: UpperBound

    def __str__(self) -> str:
        stated = str(self.claim).split("   ")[0]
        catches = power.catches(self.claim, self.detects)
        return filled(PASSED, {"runs": self.runs, "stated": stated, "catches": catches})


def assert_private(
    score: Score,
    *,
    claim: UpperBound | float | tuple[float, float],
    relation: Relation | str | None = None,
    detects: float = DETECTS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    runs: int | None = None,
    name: str | None = None,
    evidence: str | os.PathLike[str] | None = None,
    execution: Execution | None = None,
) -> Assurance:
    """Fail if the runs of `score` contradict the claim; stop as soon as they do.

    Each run's world is a fair coin. Half of the error probability bets on the runs as they arrive (anytime-valid,
    theory:sequential#stream), the other half tests all of them at the end; together a claim that holds is refuted with
    probability at most 1 - confidence.

    Parameters
    ----------
    score
        `score(world: bool, seed: int) -> float`; all its randomness comes from `seed`.
    claim
        An `UpperBound` (from `accounting.dp_sgd` and the like), mu, or a bare pair (epsilon, delta).
    relation
        What `world` switches; needed unless the claim says it.
    detects
        The share of the promised noise that must be caught. It decides how many runs are made.
    runs
        At most so many runs in all; fewer than `detects` needs raise `Underpowered` before anything runs.
    evidence
        Folder for the runs of a failed test; `.dpaudit` by default.

    Examples
    --------
    >>> def score(world, seed):
    ...     return float(world) + np.random.default_rng(seed).normal()
    >>> print(str(assert_private(score, claim=1.0, relation="add-remove")).split(";")[0] + ".")
    350 runs do not contradict mu <= 1.00, epsilon <= 4.38 at delta 1e-05.
    """
    check_score_call(score)
    plan = _planned(claim, relation, detects=detects, confidence=confidence, seed=seed, runs=runs, execution=execution)
    check_score_relation(score, plan.claim.relation)
    bets = ClaimStream(plan.claim)
    how, p_value = plan.put_to_test(score, bets)
    if how is not None:
        raise _violation(plan.claim, bets, (how, p_value), confidence, name, evidence)
    return Assurance(plan.total, plan.planned, min(1.0, p_value), confidence, detects, plan.claim)


@dataclass(frozen=True)
class _Plan:
    """One test, decided before anything runs; the honest score and its mutants are put to the same one."""

    claim: UpperBound
    error: float
    """Of each of the two tests."""
    planned: int
    total: int
    seed: int
    execution: Execution

    def put_to_test(self, score: Score, bets: ClaimStream) -> tuple[str | None, float]:
        """Which of the two tests refutes the claim, "stream" or "runs", or neither; and the doubled p-value."""
        for world, value in _played(score, self.total, self.seed, self.execution):
            bets.update(world, value)
            if bets.best >= -math.log(self.error):
                return "stream", 2.0 * bets.p_value
        worlds, scores = np.array(bets.worlds), np.array(bets.scores)
        runs = RunScores(
            present=scores[worlds],
            absent=scores[~worlds],
            relation=self.claim.relation,
            unit=self.claim.unit,
            seed=self.seed,
        )
        verdict = judge(runs, self.claim, 1.0 - self.error)
        assert verdict.p_value is not None
        if verdict.contradicted:
            return "runs", 2.0 * verdict.p_value
        return None, 2.0 * min(verdict.p_value, bets.p_value)


def _planned(
    claim: Any,
    relation: Relation | str | None,
    *,
    detects: float,
    confidence: float,
    seed: int,
    runs: int | None,
    execution: Execution | None,
) -> _Plan:
    promised = _as_claim(claim, relation)
    error = (1.0 - check.confidence(confidence)) / 2.0
    planned = 2 * power.plan_runs(claim=promised, detects=detects, confidence=1.0 - error)
    total = planned if runs is None else check.count("runs", runs, low=1)
    if total < planned:
        raise Underpowered(
            f"{total:,} runs cannot catch {detects:g} of the promised noise at confidence {confidence:g}: "
            f"{planned:,} are needed. Allow more runs, a lower confidence, or a smaller `detects`."
        )
    return _Plan(promised, error, planned, total, seed, execution or Execution(workers=1))


def _as_claim(claim: Any, relation: Relation | str | None) -> UpperBound:
    if isinstance(claim, UpperBound):
        if relation is not None and as_relation(relation) is not claim.relation:
            raise InputError(
                f"`relation` must be that of the claim ({claim.relation}), got {relation}.",
                "unlike adjacencies are never compared: account for the one that the score switches.",
            )
        return claim
    if relation is None:
        raise InputError("`relation` is needed where the claim is a number: what does `world` switch?")
    if isinstance(claim, tuple | list):
        if len(claim) != 2:
            raise InputError(f"`claim` must be mu, (epsilon, delta) or an UpperBound, got {claim!r}.")
        return UpperBound(epsilon=claim[0], delta=claim[1], relation=as_relation(relation))
    return accounting.gaussian(mu=check.number("claim", claim, low=0.0), delta=1e-5, relation=relation)


def _played(score: Score, total: int, seed: int, execution: Execution) -> Iterator[tuple[bool, float]]:
    """Runs in batches, the same ones from any number of workers."""
    worlds = (stream(seed, "worlds of a test").random(total) < 0.5).tolist()
    seeds = distinct_seeds(seed, "runs of a test", total)
    for start in range(0, total, BATCH):
        places = range(start, min(start + BATCH, total))
        try:
            values = run_batch(score, [(k, [worlds[k]], [seeds[k]]) for k in places], execution)
        except RunFailed as problem:
            problem.add_note(problem.detail)
            raise
        yield from zip(worlds[start : start + BATCH], values, strict=True)


def _violation(
    claim: UpperBound,
    bets: ClaimStream,
    found: tuple[str, float],
    confidence: float,
    name: str | None,
    folder: str | os.PathLike[str] | None,
) -> PrivacyViolation:
    file = _files.folder(EVIDENCE_FOLDER if folder is None else folder) / f"{_files.file_name(name or 'test')}.csv"
    how, p_value = found  # which of the two tests refuted it, and its doubled p-value
    rows = zip(bets.worlds, bets.scores, strict=True)
    text = "run,member,score\n" + "".join(f"{k},{int(w)},{s!r}\n" for k, (w, s) in enumerate(rows))
    _files.write_text(file, text)
    command = ["dpaudit", "estimate", str(file), "--assignment", how, "--relation", str(claim.relation)]
    command += ["--unit", claim.unit, "--delta", repr(claim.delta), "--confidence", repr(confidence)]
    restated = claim_text(claim)
    if restated is not None:
        command += ["--claim", restated]
    said = {"runs": len(bets.scores), "claim": claim, "p_value": p_value, "confidence": confidence}
    return PrivacyViolation(filled(CONTRADICTED, {**said, "file": file, "command": shlex.join(command)}), file)


# -------------------------------------------------------------------------------------------------------------- mutants


def kill_mutants(
    score: Score,
    *,
    claim: UpperBound | float | tuple[float, float],
    relation: Relation | str | None = None,
    detects: float = DETECTS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    runs: int | None = None,
    execution: Execution | None = None,
) -> MutationReport:
    """Would the test notice a bug? Put each of `mutants(score)` to the test that `assert_private` is for the score.

    The parameters are those of `assert_private`, and so are runs, worlds and seeds. A mutant is killed if its runs
    contradict the claim, and is stopped there. It tells something only where the honest score passes. Nothing is
    written: a killed mutant is no violation of anybody's code.

    >>> def score(world, seed, *, noise_multiplier=1.0):
    ...     return world + noise_multiplier * np.random.default_rng(seed).normal()
    >>> report = kill_mutants(score, claim=1.0, relation="add-remove")
    >>> report.killed, report.survived
    (('half_noise',), ())
    """
    found = mutants(score)
    plan = _planned(claim, relation, detects=detects, confidence=confidence, seed=seed, runs=runs, execution=execution)
    return MutationReport(tuple(_outcome(name, mutant, plan) for name, mutant in found.items()))


def _outcome(name: str, mutant: Any, plan: _Plan) -> MutantOutcome:
    bets, start = ClaimStream(plan.claim), time.perf_counter()
    how, p_value, failure = None, None, None
    try:
        how, p_value = plan.put_to_test(mutant, bets)
    except (RunFailed, InputError) as problem:  # the plan was checked before: this is the mutant's own
        failure = str(problem).splitlines()[0]
    return MutantOutcome(
        name=name,
        killed=how is not None,
        runs=len(bets.scores),
        p_value=None if p_value is None else min(1.0, p_value),
        seconds=time.perf_counter() - start,
        change=mutant.change if isinstance(mutant, Mutated) else "",
        failure=failure,
    )
