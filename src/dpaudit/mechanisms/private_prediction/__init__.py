"""Private prediction: noisy answers of an ensemble, and what they leak (paper 002;
theory:private-prediction#composition).

| part | what it is |
|---|---|
| `ensembles` | who votes: `RandomTeachers` (PATE), `FixedParties` (CaPC), `Neighbours` (Private-kNN) |
| `prompts` | `PromptedTeachers` (PromptPATE): a language model with one example each |
| `answers` | how votes become answers: `NoisyVotes`, honest or with a named bug |
| `distributions` | the exact distribution of an answer |
| `vote_models` | distributions of votes estimated from trainings, and bounds given the other teachers' votes |
| `leakage` | what an attack instance leaks, exactly: Renyi curves, epsilon at delta, joint and data-dependent ones |
"""

from dpaudit.mechanisms.private_prediction.answers import BUGS, Confident, NoisyVotes
from dpaudit.mechanisms.private_prediction.distributions import (
    confident_argmax_probabilities,
    knn_argmax_probabilities,
    knn_inclusion_probability,
    multinomial_argmax_probabilities,
    noisy_argmax_probabilities,
)
from dpaudit.mechanisms.private_prediction.ensembles import FixedParties, Neighbours, RandomTeachers, Voters
from dpaudit.mechanisms.private_prediction.leakage import Leakage, data_dependent_renyi, mixed_answers, vote_leakage
from dpaudit.mechanisms.private_prediction.prompts import LanguageModel, PromptedTeachers, Task
from dpaudit.mechanisms.private_prediction.vote_models import VoteModel

__all__ = [
    "BUGS",
    "Confident",
    "FixedParties",
    "LanguageModel",
    "Leakage",
    "Neighbours",
    "NoisyVotes",
    "PromptedTeachers",
    "RandomTeachers",
    "Task",
    "VoteModel",
    "Voters",
    "confident_argmax_probabilities",
    "data_dependent_renyi",
    "knn_argmax_probabilities",
    "knn_inclusion_probability",
    "mixed_answers",
    "multinomial_argmax_probabilities",
    "noisy_argmax_probabilities",
    "vote_leakage",
]
