"""Batched DP-SGD: many models trained as one array program, honest or with a named bug.

| what | where |
|---|---|
| how models are trained, and what is promised for it | `DPSGDConfig` |
| linear heads (the default) and perceptrons, closed forms in numpy | `Mlp` |
| any torch module (extra `torch`) | `Module` |
| what differs between the worlds | `GradientCanary`, `InputCanary`, `CoordinateCanaries` |
| the training | `train` |
"""

from dpaudit.mechanisms.dpsgd.canaries import Canary, CoordinateCanaries, GradientCanary, InputCanary
from dpaudit.mechanisms.dpsgd.config import BUGS, ROWS, DPSGDConfig
from dpaudit.mechanisms.dpsgd.linear_models import Mlp, log_likelihoods
from dpaudit.mechanisms.dpsgd.modules import Module
from dpaudit.mechanisms.dpsgd.training import BLOCK, Observer, State, bound_model, train

__all__ = [
    "BLOCK",
    "BUGS",
    "ROWS",
    "Canary",
    "CoordinateCanaries",
    "DPSGDConfig",
    "GradientCanary",
    "InputCanary",
    "Mlp",
    "Module",
    "Observer",
    "State",
    "bound_model",
    "log_likelihoods",
    "train",
]
