"""Attacks: canaries to put into a training run, and scores that read a model for them (paper 001)."""

from dpaudit.attacks import zoo
from dpaudit.attacks.canaries import (
    Reference,
    adversarial_natural,
    crafted_input,
    least_confident,
    least_updated,
    mislabelled,
    quiet_coordinates,
    worst_case,
)
from dpaudit.attacks.scores import (
    Displacement,
    LogitDifference,
    ReleasedSum,
    TranscriptEnergy,
    TranscriptLargest,
    TranscriptRange,
    TranscriptRatio,
    worst_case_score,
)

__all__ = [
    "Displacement",
    "LogitDifference",
    "Reference",
    "ReleasedSum",
    "TranscriptEnergy",
    "TranscriptLargest",
    "TranscriptRange",
    "TranscriptRatio",
    "adversarial_natural",
    "crafted_input",
    "least_confident",
    "least_updated",
    "mislabelled",
    "quiet_coordinates",
    "worst_case",
    "worst_case_score",
    "zoo",
]
