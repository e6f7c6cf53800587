"""PANORAMIA: real or generated, with and without the model (`PairedScores`): THEORY 2.9 and 3c.

If real records are at most e^c times as likely as generated ones, a guess "real" without the model is right with
probability at most sig(c), and with the model at most sig(c + epsilon). The baseline bounds c, the attack c + epsilon.
Their difference bounds nothing: it needs an *upper* bound on c, which no sample can give (THEORY 004-1). What holds is
the joint region, and epsilon for a closeness that the user asserts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import ClosenessRegion
from dpaudit.estimators import _paths
from dpaudit.estimators.thresholds import EProcess, GuessPath, Strategy, member_guesses, refuse
from dpaudit.evidence import PairedScores

SMALLEST = 8
REFERENCES = ("Kazmi et al., PANORAMIA, with the corrections of THEORY 1.5",)


def panoramia(
    evidence: PairedScores,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    closeness_slack: float = 0.0,
    asserted_closeness: float | None = None,
    guesses: Strategy | None = None,
) -> ClosenessRegion:
    """The joint region of closeness c and leakage epsilon: with the stated confidence c >= c_lb and c + epsilon >= L.

    Parameters
    ----------
    delta, closeness_slack
        Relaxations: an (epsilon, delta)-DP model, and (c, gamma)-closeness, real <= e^c generated + gamma.
    asserted_closeness
        A closeness that the user answers for. Then the whole error probability goes to c + epsilon, and
        `region.epsilon(c)` is a conditional bound. Refused where the baseline shows more.
    guesses
        `GuessPath(8)` (default) or `EProcess()`, stronger where leakage shows at very low recall.
    """
    if not isinstance(evidence, PairedScores):
        raise InputError(
            f"`panoramia` needs scores of real and generated items (PairedScores), got {type(evidence).__name__}."
        )
    alpha = 1.0 - check.confidence(confidence)
    delta, gamma = check.delta(delta), check.number("closeness_slack", closeness_slack, low=0.0, high=1.0)
    strategy = GuessPath(SMALLEST) if guesses is None else guesses
    if not isinstance(strategy, GuessPath | EProcess):
        raise refuse("panoramia", strategy, "GuessPath() or EProcess()")
    evidence = evidence.reduced()
    closeness = _bound(evidence.baseline, evidence, strategy, alpha / 2.0, gamma)
    level = alpha / 2.0
    if asserted_closeness is not None:
        asserted = check.number("asserted_closeness", asserted_closeness, low=0.0)
        if asserted < closeness:
            raise InputError(
                f"`asserted_closeness` must be at least what the baseline shows ({closeness:.2f}), got {asserted:g}.",
                "a generator this far from the real records cannot be asserted to be closer.",
            )
        level = alpha
    total = _bound(evidence.attack, evidence, strategy, level, 1.0 - (1.0 - gamma) * (1.0 - delta))
    perfect = _bound(evidence.included.astype(float), evidence, strategy, level, 1.0 - (1.0 - gamma) * (1.0 - delta))
    return ClosenessRegion(
        closeness=closeness,
        total=total,
        confidence=confidence,
        delta=delta,
        closeness_slack=gamma,
        asserted=asserted_closeness,
        ceiling=perfect,
        selection=type(strategy).__name__,
        assumptions=evidence.conditions,
        unit=evidence.unit,
        size=f"{evidence.included.size:,} items, {int(evidence.included.sum()):,} real",
        references=REFERENCES,
    )


def _bound(
    scores: NDArray[np.float64], evidence: PairedScores, strategy: GuessPath | EProcess, level: float, bad: float
) -> float:
    """The largest x with every smaller one rejected: right guesses of "real" beat Bernoulli(sig(x))."""
    path = member_guesses(scores, evidence)
    m = path.size - 1

    def slack(x: float) -> float:
        """Members-only guesses: at most half of the bad mass helps (THEORY 2.9)."""
        return 0.5 * m * bad * float(special.expit(-x))

    if isinstance(strategy, EProcess):
        return _paths.invert_wealth(*_paths.extreme_points(path), alpha=level, slack=slack)[0]
    ranks = strategy.ranks(m)
    return _paths.invert(ranks, [int(path[rank]) for rank in ranks], alpha=level, slack=slack)[0]
