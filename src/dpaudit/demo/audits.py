"""The audits of `make demo`: small mechanisms on the digits data, honest and broken, and two that cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dpaudit import games
from dpaudit.assumptions import filled
from dpaudit.auditing import audit
from dpaudit.bounds import Outcome, Relation, UpperBound
from dpaudit.execution import Execution
from dpaudit.mechanisms import noise
from dpaudit.record import Audit, Audits
from dpaudit.testing.broken import mechanisms as broken

DELTA = 1e-5
CONFIDENCE = 0.999
BLOCK = 64
BUG = "Bug {row} of the list: {bug}."
NEXT = """what next:
  .venv/bin/dpaudit run examples/noisy_mean/audit.toml   audits a trainer of your own: copy that folder
  .venv/bin/dpaudit --help                               every command"""


@dataclass(frozen=True)
class NoisyCount:
    """One run of a noisy histogram: every image that takes part adds one to a cell of its own."""

    noise_multiplier: float

    def __call__(self, included: NDArray[np.bool_], seed: int) -> NDArray[np.float64]:
        shown = np.random.default_rng(seed).normal(0.0, self.noise_multiplier, included.size)
        return included + shown


EXPECTED = {
    "sum of digits, Gaussian noise": Outcome.CONSISTENT,
    "sum of digits, standard deviation passed as variance": Outcome.CONTRADICTED,
    "sum of digits, one random key for both batches": Outcome.CONTRADICTED,
    "sum of digits, one number of noise for all pixels": Outcome.CONTRADICTED,
    "sum of digits, four workers add a quarter of the noise each": Outcome.CONTRADICTED,
    "sum of digits, substitution": Outcome.CONSISTENT,
    "sum of digits, add/remove accounting claimed as substitution": Outcome.CONTRADICTED,
    "count, Laplace noise": Outcome.CONSISTENT,
    "labels, randomised response with the rate of two classes": Outcome.CONTRADICTED,
    "histogram in one run, a quarter of the noise": Outcome.CONTRADICTED,
    "sum of digits, four runs": Outcome.UNINFORMATIVE,
    "sum of digits, claim of another adjacency": Outcome.NOT_COMPARABLE,
}
"""How each audit ends, as it must."""


def demo_audits(*, seed: int = 1, execution: Execution | None = None) -> Audits:
    """All of them, in the order of `EXPECTED`."""
    named = zip(EXPECTED, _cases(), strict=True)
    played = [_play(number, *case, seed, execution or Execution()) for number, case in enumerate(named)]
    return Audits(tuple(played))


def _play(number: int, name: str, case: tuple[Any, UpperBound, str], seed: int, execution: Execution) -> Audit:
    game, claim, note = case
    return audit(
        game,
        claim=claim,
        name=name,
        note=note,
        claim_source="the mechanism's own docstring",
        seed=1000 * seed + number,
        confidence=CONFIDENCE,
        execution=execution,
    )


def _cases() -> Iterator[tuple[Any, UpperBound, str]]:
    """Game, claim and note of each audit, in the order of `EXPECTED`."""
    digits = load_digits()  # 1,797 pictures of 8 x 8 pixels, which come with scikit-learn
    pixels, labels = digits.data / 16.0, digits.target
    bugs = broken.specimens(pixels / np.linalg.norm(pixels, axis=1, keepdims=True))
    honest = bugs["7"].honest
    yield _runs(honest, bugs["7"], 300), honest.claim(DELTA), "Noise of the size that the claim needs."
    for row, runs in (("1", 2000), ("5", 60), ("6", 60), ("7", 200)):
        yield _runs(bugs[row].broken, bugs[row], runs), bugs[row].broken.claim(DELTA), _bug(bugs[row])
    swapped = bugs["13"]
    yield _runs(swapped.honest, swapped, 300), swapped.honest.claim(DELTA), "Accounted for the adjacency it promises."
    yield _runs(swapped.broken, swapped, 200), swapped.broken.claim(DELTA), _bug(swapped)
    laplace = noise.LaplaceSum(epsilon=1.0)
    ones = np.ones(labels.size)
    count = games.Distinguisher(mechanism=laplace, present=ones, absent=ones[1:], statistic=float)
    yield _multi(count, Relation.ADD_REMOVE, 1000), laplace.claim(0.0), "Scale 1 / epsilon, as promised."
    response = noise.KaryResponse(epsilon=1.0, classes=10, rate=noise.binary_truth_rate)
    other = np.append(labels[:-1], (labels[-1] + 1) % 10)
    truth = broken.LabelIs(int(labels[-1]))
    flips = games.Distinguisher(mechanism=response, present=labels, absent=other, statistic=truth)
    note = "Each label is kept as often as two classes would need, but there are ten."
    yield _multi(flips, Relation.LABEL, 300), response.claim(0.0), note
    full = noise.VectorSum(noise_multiplier=1.0)
    canaries = games.OneRun(scores=NoisyCount(0.25), canaries=labels.size, relation=Relation.ADD_REMOVE)
    yield canaries, full.claim(1e-7), "One run; a fair coin decided for each image whether it took part."
    yield _runs(honest, bugs["7"], 4), honest.claim(DELTA), "Too few runs for any attack."
    promised = replace(honest, relation=Relation.SUBSTITUTE).claim(DELTA)
    yield (
        _runs(honest, bugs["7"], 300),
        promised,
        "Audited with and without a record; the claim is about replacing one.",
    )


def _bug(specimen: broken.Specimen) -> str:
    return filled(BUG, {"row": specimen.row, "bug": specimen.bug})


def _runs(mechanism: Any, specimen: broken.Specimen, runs: int) -> games.MultiRun:
    score = games.Distinguisher(mechanism=mechanism, **specimen.attack)
    return _multi(score, mechanism.relation, runs)


def _multi(score: Any, relation: Relation, runs: int) -> games.MultiRun:
    return games.MultiRun(score=score, relation=relation, runs=runs, block=BLOCK)
