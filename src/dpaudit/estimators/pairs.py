"""PANORAMIA: real or generated, with and without the model (`PairedScores`): theory:panoramia#region.

If real records are at most e^c times as likely as generated ones, a guess "real" without the model is right with
probability at most sig(c), and with the model at most sig(c + epsilon). The baseline bounds c, the attack c + epsilon.
Their difference bounds nothing: it needs an *upper* bound on c, which no sample can give (theory:panoramia#difference).
What holds is the joint region, and epsilon for a divergence that the user asserts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, filled, round_up
from dpaudit.bounds import ALIKE, GENERATOR_DIVERGENCE, WITH_SLACK, PanoramiaRegion
from dpaudit.estimators.thresholds import EProcess, GuessPath, Strategy, member_guesses, refuse
from dpaudit.evidence import PairedScores

__all__ = ["GENERATOR_DIVERGENCE", "panoramia"]

SMALLEST = 8
LEVEL = 0.025
"""Of the baseline as a check of an asserted divergence, which costs the bound nothing."""
WORDS = {GuessPath: "a few numbers of guesses, calibrated as one path", EProcess: "a betting wealth"}
SIZE = "{items:,} items, {real:,} real"
REFERENCES = ("Kazmi et al., PANORAMIA, corrected: theory:errata#paper-004",)


def panoramia(
    evidence: PairedScores,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    divergence_slack: float = 0.0,
    asserted_divergence: float | None = None,
    guesses: Strategy | None = None,
) -> PanoramiaRegion:
    """The joint region of the generator's divergence c and the leakage: c >= c_lb and c + epsilon >= L, together.

    See theory:panoramia#region, theory:panoramia#asserted, theory:panoramia#slack.

    Parameters
    ----------
    delta, divergence_slack
        Relaxations: an (epsilon, delta)-DP model, and a generator with real <= e^c generated + gamma.
    asserted_divergence
        A c that the user answers for; None: that of the evidence, if any. Then the whole error probability goes to
        c + epsilon, and `region.epsilon(c)` is a conditional bound. Refused where the baseline shows more.
    guesses
        `GuessPath(8)` (default) or `EProcess()`, stronger where leakage shows at very low recall.
    """
    if not isinstance(evidence, PairedScores):
        raise InputError(
            f"`panoramia` needs scores of real and generated items (PairedScores), got {type(evidence).__name__}."
        )
    alpha = 1.0 - check.confidence(confidence)
    delta, gamma = check.delta(delta), check.number("divergence_slack", divergence_slack, low=0.0, high=1.0)
    strategy = GuessPath(SMALLEST) if guesses is None else guesses
    if not isinstance(strategy, GuessPath | EProcess):
        raise refuse("panoramia", strategy, "GuessPath() or EProcess()")
    evidence, asserted = evidence.reduced(), asserted_divergence
    if asserted is None:
        asserted = evidence.divergence
    level = alpha / 2.0
    divergence = _bound(evidence.baseline, evidence, strategy, min(level, LEVEL) if asserted else level, gamma)
    if asserted is not None:
        if check.number("asserted_divergence", asserted, low=0.0) < divergence:
            raise InputError(
                f"`divergence` must be at least what the baseline shows ({round_up(divergence)}), got {asserted:g}.",
                "a generator this far from the real records cannot be asserted to be closer.",
            )
        level = alpha
    total = _bound(evidence.attack, evidence, strategy, level, 1.0 - (1.0 - gamma) * (1.0 - delta))
    perfect = _bound(evidence.included.astype(float), evidence, strategy, level, 1.0 - (1.0 - gamma) * (1.0 - delta))
    return PanoramiaRegion(
        divergence=divergence,
        total=total,
        confidence=confidence,
        delta=delta,
        divergence_slack=gamma,
        asserted=asserted,
        ceiling=perfect,
        selection=WORDS[type(strategy)],
        assumptions=_rests(evidence, asserted, gamma),
        unit=evidence.unit,
        size=filled(SIZE, {"items": evidence.included.size, "real": int(evidence.included.sum())}),
        references=REFERENCES,
        theory="theory:panoramia#region" if asserted is None else "theory:panoramia#asserted",
    )


def _rests(evidence: PairedScores, asserted: float | None, gamma: float) -> tuple[Assumption, ...]:
    """What a region rests on; real non-members for generated records are said to be alike, which asserts c = 0."""
    if asserted is None or (asserted == 0.0 and any(one.id == ALIKE for one in evidence.conditions)):
        return evidence.conditions
    rests = WITH_SLACK.asserted(slack=gamma) if gamma else GENERATOR_DIVERGENCE
    return (*evidence.conditions, rests.asserted(c=asserted))


def _bound(
    scores: NDArray[np.float64], evidence: PairedScores, strategy: GuessPath | EProcess, level: float, bad: float
) -> float:
    """The largest x with every smaller one rejected: right guesses of "real" beat Bernoulli(sig(x))."""
    path = member_guesses(scores, evidence)
    m = path.size - 1

    def slack(x: float) -> float:
        """Members-only guesses: at most half of the bad mass helps (theory:panoramia#slack)."""
        return 0.5 * m * bad * float(special.expit(-x))

    if isinstance(strategy, EProcess):
        return _binomial.invert_wealth(*_binomial.extreme_points(path), alpha=level, slack=slack)[0]
    ranks = strategy.ranks(m)
    return _binomial.invert_path(ranks, [int(path[rank]) for rank in ranks], alpha=level, slack=slack)[0]


# --------------------------------------------------------------------------------------------- beside an audit's bounds

NO_TEST = "generated records bound epsilon only for a generator divergence that somebody asserts"
ASSERTED = Check(
    id="asserted",
    measured=(
        "If the generator's divergence is at most {divergence:g}, as is asserted, epsilon >= {epsilon:down} at delta "
        "{delta:g} with {confidence:percent} confidence."
    ),
    theory="theory:panoramia#asserted",
)


def baseline_p_value(evidence: PairedScores) -> float:
    """p-value of "the generator's divergence is at most the asserted one" (0, if none is), by the baseline alone."""
    evidence = evidence.reduced()
    path, strategy = member_guesses(evidence.baseline, evidence), GuessPath(SMALLEST)
    ranks = strategy.ranks(path.size - 1)
    return _binomial.path_p_value(
        ranks, [int(path[rank]) for rank in ranks], epsilon=evidence.divergence or 0.0, slack=lambda x: 0.0
    )


def results(evidence: PairedScores, bounds: Any, *, delta: float, confidence: float) -> tuple[CheckResult, ...]:
    """Epsilon for the divergence that somebody answers for."""
    (region,) = bounds
    if region.asserted is None:
        return ()
    numbers = {
        "divergence": region.asserted,
        "epsilon": region.epsilon().epsilon,
        "delta": region.delta,
        "confidence": confidence,
    }
    return (CheckResult(check=ASSERTED, outcome="measured", numbers=numbers),)
