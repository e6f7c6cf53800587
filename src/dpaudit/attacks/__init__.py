"""Attacks: canaries to put into a training run, and scores that read a model for them (paper 001)."""

from dpaudit.attacks.canaries import (
    adversarial_natural,
    least_confident,
    least_updated,
    mislabelled,
    worst_case,
)
from dpaudit.attacks.scores import Displacement, LogitDifference, ReleasedSum, worst_case_score

__all__ = [
    "Displacement",
    "LogitDifference",
    "ReleasedSum",
    "adversarial_natural",
    "least_confident",
    "least_updated",
    "mislabelled",
    "worst_case",
    "worst_case_score",
]
