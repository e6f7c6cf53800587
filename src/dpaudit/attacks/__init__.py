"""Attacks: canaries and scores of training runs (paper 001), scores beside a reference, blind baselines (paper 000)."""

from dpaudit.attacks import prediction
from dpaudit.attacks.baselines import LeakingFeature, blind_distribution, leaking_features
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
from dpaudit.attacks.reference import (
    REFERENCE_ATTACKS,
    ReferenceAttack,
    difficulty_calibration,
    inner_product,
    likelihood_ratio,
    negative_loss,
    probability_difference,
    rmia,
    rmia_ratio,
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
    "REFERENCE_ATTACKS",
    "Displacement",
    "LeakingFeature",
    "LogitDifference",
    "Reference",
    "ReferenceAttack",
    "ReleasedSum",
    "TranscriptEnergy",
    "TranscriptLargest",
    "TranscriptRange",
    "TranscriptRatio",
    "adversarial_natural",
    "blind_distribution",
    "crafted_input",
    "difficulty_calibration",
    "inner_product",
    "leaking_features",
    "least_confident",
    "least_updated",
    "likelihood_ratio",
    "mislabelled",
    "negative_loss",
    "prediction",
    "probability_difference",
    "quiet_coordinates",
    "rmia",
    "rmia_ratio",
    "worst_case",
    "worst_case_score",
]
