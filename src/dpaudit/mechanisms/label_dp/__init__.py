"""Labels that are private before anybody learns from them: releases with exact distributions, and training on them.

| mechanism | release | promise for replacing one label |
|---|---|---|
| `KaryResponse` (in `noise`), `OneStage` | every label kept or replaced, at one rate | epsilon |
| `OneStage(prior=...)` (LP-1ST) | randomised response among labels that are likely for a row | epsilon, all told |
| `MultiStage` (LP-2ST, LP-MST) | the same; models of earlier parts are the priors of later ones | epsilon |
| `Alibi` | one-hot labels plus Laplace noise, read by Bayes' rule | epsilon |
| `Pate` (with `FixMatch`: PATE-FM) | noisy votes of teachers on some rows | epsilon at delta |

Whatever is learnt from a release is post-processing and keeps its epsilon. `releases` has the distributions, `priors`
what a row's label probably is, `learners` and `networks` who learns.
"""

from dpaudit.mechanisms.label_dp.learners import Boosted, Learner, Logistic, Model, Sklearn
from dpaudit.mechanisms.label_dp.networks import FixMatch, Network
from dpaudit.mechanisms.label_dp.priors import Clusters, Pretrained, Prior, Shares
from dpaudit.mechanisms.label_dp.releases import AdditiveLaplace, PriorResponse, corrected
from dpaudit.mechanisms.label_dp.training import Alibi, MultiStage, OneStage, Pate

__all__ = [
    "AdditiveLaplace",
    "Alibi",
    "Boosted",
    "Clusters",
    "FixMatch",
    "Learner",
    "Logistic",
    "Model",
    "MultiStage",
    "Network",
    "OneStage",
    "Pate",
    "Pretrained",
    "Prior",
    "PriorResponse",
    "Shares",
    "Sklearn",
    "corrected",
]
