"""What is audited: noise mechanisms and their broken twins, distributions of noisy votes, ground truth for tests."""

from dpaudit.mechanisms import label_dp, noise, private_prediction
from dpaudit.mechanisms.label_dp import AdditiveLaplace, Alibi, MultiStage, OneStage, Pate, PriorResponse
from dpaudit.mechanisms.noise import GaussianSum, KaryResponse, LaplaceSum, Mechanism, VectorSum
from dpaudit.mechanisms.private_prediction import (
    knn_inclusion_probability,
    multinomial_argmax_probabilities,
    noisy_argmax_probabilities,
)

__all__ = [
    "AdditiveLaplace",
    "Alibi",
    "GaussianSum",
    "KaryResponse",
    "LaplaceSum",
    "Mechanism",
    "MultiStage",
    "OneStage",
    "Pate",
    "PriorResponse",
    "VectorSum",
    "knn_inclusion_probability",
    "label_dp",
    "multinomial_argmax_probabilities",
    "noise",
    "noisy_argmax_probabilities",
    "private_prediction",
]
