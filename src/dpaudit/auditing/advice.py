"""What would change a verdict, or help where there is none: templates, and when each is said."""

from __future__ import annotations

import math
from typing import Any

from dpaudit.assumptions import Assumption, Check, CheckResult, accepted_keys, round_down
from dpaudit.auditing.plan import Settings
from dpaudit.bounds import Bound, Outcome, UpperBound, Verdict
from dpaudit.estimators.analyses import analysis_of
from dpaudit.evidence import Evidence
from dpaudit.reporting.text import numbers_of

REASON = "{reason}"
RECALIBRATION = Check(
    id="recalibration",
    measured=(
        "What was refuted at first{first} was recalibrated on held-out rows, and played once more: every "
        "statement is made at its share of the error probability of {attempts} attempts, whatever came of the first."
    ),
    not_run="The proxy could not be recalibrated: {reason}",
    on_refuted="warn",
)
NOT_COMPARED = Check(id="comparison", not_run="No comparison of {title}: {reason}", on_refuted="warn")
FIRST = " (p = {first:p})"
MEND = "Mend what failed and run it again."
MEND_KEPT = f"{MEND} Finished runs are kept, and count as long as the score itself does not change."
REMEDY = "{remedy}"
CERTAIN = "No higher confidence that anybody uses would change it; only a flaw in the game itself would."
STILL = "It would not have been contradicted at an error probability below {below}."
RESTS = "It rests on assumptions [{numbers}] above; list their ids in `accept` to take them on: {keys:list}."
RESTS_ON_ONE = "It rests on assumption [{numbers}] above; list its id in `accept` to take it on: {keys:list}."
UNTESTED = (
    "A number would rest on assumptions [{numbers}] above; list their ids in `accept` to take them on: {keys:list}."
)
UNTESTED_ONE = (
    "A number would rest on assumption [{numbers}] above; list its id in `accept` to take it on: {keys:list}."
)
STRONGER = "A stronger attack or more runs might; that is a further test, with an error probability of its own."
BARE = "The claim is a bare pair; its curve would be easier to contradict."
REACH = "An audit of this size could have shown {reach}."
RUNS_NEEDED = "At least {needed:,} runs a side, with a perfect attack, could contradict this claim."
MORE = "More canaries or a claim that says more (its curve) might."
OTHER_ADJACENCY = "An audit under {relation} adjacency of one {unit}, or a claim about what was audited."
STATE_A_CLAIM = "A claim would be judged. An audit of this size could have shown {reach}."
SEEING = "An attack that sees the planted leak could say more."
FULL_KEY = "{key!r} asserts something: it is accepted as {full!r}."
IDLE = "Nothing rests on the accepted assumption {key!r}."
CERTAIN_FROM = 1e-12


def said(template: str, **numbers: Any) -> CheckResult:
    """A remark as a value: a template and its fields."""
    return CheckResult(check=Check(id="next-step", measured=template), outcome="measured", numbers=numbers)


def next_steps(
    evidence: Evidence,
    claim: UpperBound | None,
    verdict: Verdict,
    bounds: tuple[Bound, ...],
    rests: tuple[Assumption, ...],
    settings: Settings,
    unseen: tuple[CheckResult, ...] = (),
) -> tuple[CheckResult, ...]:
    """What would change the verdict; and accepted assumptions that nothing rests on, which may be misspelt."""
    known = {one.key for one in (*rests, *evidence.conditions)}
    by_id = {one.id: one.key for one in rests if one.values}
    idle = [
        said(FULL_KEY, key=key, full=by_id[key]) if key in by_id else said(IDLE, key=key)
        for key in accepted_keys(settings.accept)
        if key not in known
    ]
    reach = " and ".join(
        f"{name} up to about {round_down(value)}" for one in bounds for name, value in one.ceilings.items()
    )
    if unseen and verdict.outcome is Outcome.UNINFORMATIVE:
        return (said(SEEING), *remedies(unseen), *idle)
    if verdict.outcome is Outcome.CONTRADICTED_IF:
        return (_resting(verdict.assumptions, rests), *idle)
    return (*_by_outcome(evidence, claim, verdict, reach), *idle)


def _resting(left: tuple[Assumption, ...], rests: tuple[Assumption, ...]) -> CheckResult:
    """Which assumptions of the record are left to be accepted: by their numbers, and once by their ids."""
    keys = [one.key for one in rests if one in left]
    return said(RESTS_ON_ONE if len(left) == 1 else RESTS, numbers=numbers_of(left, rests), keys=keys)


def untested(left: tuple[Assumption, ...]) -> CheckResult:
    """What has to be accepted for a number, where the check of it could not be run."""
    keys = [one.key for one in left]
    return said(UNTESTED_ONE if len(left) == 1 else UNTESTED, numbers=numbers_of(left, left), keys=keys)


def remedies(results: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    """What would help where a check refutes, or is missing."""
    return tuple(said(REMEDY, remedy=result.remedy) for result in results if result.remedy)


def _by_outcome(evidence: Evidence, claim: UpperBound | None, verdict: Verdict, reach: str) -> tuple[CheckResult, ...]:
    outcome = verdict.outcome
    if outcome is Outcome.CONTRADICTED and verdict.p_value is not None:
        if verdict.p_value < CERTAIN_FROM:
            return (said(CERTAIN),)
        return (said(STILL, below=_down(verdict.p_value)),)
    if outcome is Outcome.CONSISTENT:
        bare = claim is not None and claim.curve is None
        return (said(STRONGER), *([said(BARE)] if bare else []), *([said(REACH, reach=reach)] if reach else []))
    if outcome is Outcome.UNINFORMATIVE and claim is not None:
        return _if_too_small(evidence, claim, verdict.confidence)
    if outcome is Outcome.NOT_COMPARABLE and claim is not None:
        return (said(OTHER_ADJACENCY, relation=str(claim.relation), unit=claim.unit),)
    return (said(STATE_A_CLAIM, reach=reach),) if reach else ()


def _if_too_small(evidence: Evidence, claim: UpperBound, confidence: float) -> tuple[CheckResult, ...]:
    search = analysis_of(evidence).needed
    if search is None:
        return (said(MORE),)
    needed = search(evidence, claim, confidence=confidence)
    return (said(RUNS_NEEDED, needed=needed),) if needed else ()


def _down(p_value: float) -> str:
    """Two digits, rounded down."""
    unit = 10.0 ** (math.floor(math.log10(p_value)) - 1)
    return f"{math.floor(p_value / unit) * unit:.2g}"
