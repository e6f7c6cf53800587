"""What controls show: a placebo that finds something refutes, and so does a planted leak that is not found.

*Placebo*: an attack that never saw the model plays the same game, and if it shows something, what the audited number
rests on does not hold. *Planted*: a leak is known to be there, and if the test does not show it, "consistent" may not
be said of the attack. A refutation is wrong with probability at most the level of the control, whatever the confidence
of the bounds: a false alarm costs a number, no validity. No refutation proves nothing: a better baseline may find one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpaudit._validate import InputError, choice
from dpaudit.assumptions import Check, CheckResult
from dpaudit.estimators.analyses import analysis_of

LEVEL = 0.05
"""Of a control that names none of its own."""


def null_p_value(parts: Any) -> float:
    """p-value of "nothing leaks, and what this evidence rests on holds", for scores that were made without the model.

    Several parts (folds) may depend on each other, and are paid for by a union. See theory:observational#blind-baseline
    and theory:zero-run#blind-baseline.

    >>> import numpy as np
    >>> from dpaudit import CanaryScores
    >>> coins = np.arange(200) % 2 == 0
    >>> seen = CanaryScores(scores=np.where(coins, 1.0, -1.0), included=coins, relation="label", sides="sign")
    >>> null_p_value(seen) < 1e-9
    True
    """
    listed = list(parts) if isinstance(parts, Sequence) else [parts]
    if not listed:
        raise InputError("a control must have evidence, got none.")
    return min(1.0, len(listed) * min(_one(part) for part in listed))


def _one(part: Any) -> float:
    test = analysis_of(part).null_test
    if test is None:
        raise InputError(f"no theorem gives a null test for {type(part).__name__}.")
    return test(part)


def refute(
    check: Check, parts: Sequence[Any], *, kind: str = "placebo", confidence: float = 0.95, **numbers: Any
) -> CheckResult:
    """What a control shows: a placebo refutes where its test rejects, a planted leak where its test does not.

    A planted leak that is not seen, or not planted, never withholds a number; where the headline's own test is put to
    it, that is at the `confidence` of the audit. See theory:zero-run#blind-baseline.
    """
    if choice("kind", kind, ("placebo", "planted")) == "planted" and check.on_refuted == "withhold":
        check = replace(check, on_refuted="warn", on_missing="")
    check = check if check.level is not None else replace(check, level=LEVEL)
    parts = list(parts) if isinstance(parts, Sequence) else [parts]
    if not parts:
        return CheckResult(check=check, outcome="not-run", numbers=numbers)
    test = analysis_of(parts[0]).planted_test
    if kind == "planted" and test is not None:
        return _planted(replace(check, level=1.0 - confidence), *test(parts, confidence=confidence), numbers)
    p_value, level = null_p_value(parts), check.level or LEVEL
    rejects, numbers = p_value <= level, {**numbers, **analysis_of(parts[0]).notices(parts, level)}
    refuted = rejects if kind == "placebo" else not rejects
    return CheckResult(check=check, outcome="refuted" if refuted else "passed", p_value=p_value, numbers=numbers)


ALREADY = "; but one is found where none was planted, too, so this says nothing of smaller leaks"


def _planted(check: Check, p_value: float, found: dict[str, Any], numbers: dict[str, Any]) -> CheckResult:
    """The largest planted leak decides; of what else was found the sentence speaks: the smallest share that was."""
    shares = [share for share, seen in zip(numbers.get("shares", ()), found["found"], strict=False) if seen]
    told = {**numbers, **found, "already": ALREADY if 0.0 in shares else ""}
    told |= {"smallest": min(share for share in shares if share)} if any(shares) else {}
    seen = p_value <= (check.level or LEVEL)
    return CheckResult(check=check, outcome="passed" if seen else "refuted", p_value=p_value, numbers=told)
