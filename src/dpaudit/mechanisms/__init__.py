"""What is audited. For now: exact output laws of noisy votes, and mechanisms known exactly as samplers of evidence."""

from dpaudit.mechanisms import noise
from dpaudit.mechanisms.private_prediction import (
    knn_inclusion_probability,
    multinomial_argmax_probabilities,
    noisy_argmax_probabilities,
)

__all__ = [
    "knn_inclusion_probability",
    "multinomial_argmax_probabilities",
    "noise",
    "noisy_argmax_probabilities",
]
