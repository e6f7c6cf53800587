"""What is audited: noise mechanisms and their broken twins, exact laws of noisy votes, ground truth for tests."""

from dpaudit.mechanisms import known, noise, zoo
from dpaudit.mechanisms.label_dp import AdditiveLaplace, PriorResponse
from dpaudit.mechanisms.noise import GaussianSum, KaryResponse, LaplaceSum, Mechanism, VectorSum
from dpaudit.mechanisms.private_prediction import (
    knn_inclusion_probability,
    multinomial_argmax_probabilities,
    noisy_argmax_probabilities,
)

__all__ = [
    "AdditiveLaplace",
    "GaussianSum",
    "KaryResponse",
    "LaplaceSum",
    "Mechanism",
    "PriorResponse",
    "VectorSum",
    "knn_inclusion_probability",
    "known",
    "multinomial_argmax_probabilities",
    "noise",
    "noisy_argmax_probabilities",
    "zoo",
]
