"""How models are trained, what is promised for it, and the bugs that can be switched on.

See theory:ground-truth#known-bugs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpaudit import _validate as check
from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.bounds import Relation, UpperBound, relation

LOSSES = ("logistic", "softmax", "squared")
OPTIMIZERS = ("sgd", "momentum", "adam")
BATCH_OF_NOISE, WORKERS, AUGMENTATIONS = 8, 4, 4

DIVIDED_TWICE = "the noise is divided by the batch size ({size}) once too often"
WORKERS_DIVIDE = "each of {workers} workers adds 1/{workers} of the noise, which sums to half of it"
SUMMED = "{augmentations} augmentations of each example are clipped one by one and summed"
BUGS = {
    "deviation_as_variance": "the standard deviation of the noise is passed where its variance is expected",
    "noise_divided_twice": filled(DIVIDED_TWICE, {"size": BATCH_OF_NOISE}),
    "batch_clip": "the gradient of the batch is clipped, not that of each example",
    "layer_clip": "each of two layers is clipped to the whole clip, the noise is that of one",
    "reused_key": "every step draws its noise with the same key",
    "broadcast_noise": "one number of noise is added to every coordinate",
    "workers_divide_noise": filled(WORKERS_DIVIDE, {"workers": WORKERS}),
    "shuffled_batches": "batches of fixed size from a shuffled epoch, accounted as Poisson samples",
    "realised_batch_size": "the noisy sum is divided by the realised batch size, not the expected one",
    "private_scaling": "all gradients are scaled by the longest one of the batch",
    "summed_augmentations": filled(SUMMED, {"augmentations": AUGMENTATIONS}),
    "silent_group": "one group of parameters gets no noise",
    "add_remove_accounting": "accounted for add/remove, claimed as protection against substitution",
    "half_noise": "half the noise",
    "double_clip": "clipped to twice the length that the noise is made for",
    "dataset_normaliser": "the sum is divided by the size of the data set, not by the expected batch size",
}
"""Each bug in a sentence: the thirteen rows of theory:ground-truth#known-bugs in order, then three mutants of any
trainer."""
ROWS = dict(zip(BUGS, map(str, range(1, 14)), strict=False))
"""Row of theory:ground-truth#known-bugs by bug."""


@dataclass(frozen=True, kw_only=True)
class DPSGDConfig:
    """How models are trained; the claim follows from it.

    Attributes
    ----------
    loss
        "logistic" (one logit, labels 0 and 1), "softmax" (`classes` logits) or "squared" (one output).
    optimizer
        "sgd", "momentum" (0.9) or "adam" (0.9, 0.999, 1e-8), fed with the noisy mean gradient.
    model
        None for a linear head in numpy, `Mlp(hidden=...)` for layers in numpy, or `Module(build=...)` for any torch
        module.
    random_start
        Start each model at its own random parameters; otherwise all start at the same ones (a linear head at zero).
    relation
        The adjacency that is promised.
    bug
        One of `BUGS`, for tests of an audit; None trains as promised.
    """

    noise_multiplier: float
    sampling_rate: float = 1.0
    steps: int = 100
    clip: float = 1.0
    learning_rate: float = 0.5
    optimizer: str = "sgd"
    loss: str = "logistic"
    classes: int = 1
    model: Any = None
    random_start: bool = False
    relation: Relation = Relation.ADD_REMOVE
    bug: str | None = None

    def __post_init__(self) -> None:
        check.number("noise_multiplier", self.noise_multiplier, low=0.0)
        check.number("sampling_rate", self.sampling_rate, low=check.TINY, high=1.0)
        check.count("steps", self.steps, low=1)
        check.number("clip", self.clip, low=check.TINY)
        check.number("learning_rate", self.learning_rate, low=check.TINY)
        check.choice("optimizer", self.optimizer, OPTIMIZERS)
        check.choice("loss", self.loss, LOSSES)
        check.count("classes", self.classes, low=2 if self.loss == "softmax" else 1)
        if self.loss != "softmax" and self.classes != 1:
            raise InputError(f"`classes` must be 1 for the {self.loss} loss, got {self.classes}.")
        if self.model is not None and not hasattr(self.model, "bind"):
            raise InputError(f"`model` must be None, an Mlp or a Module, got {type(self.model).__name__}.")
        if self.bug is not None:
            check.choice("bug", self.bug, tuple(BUGS))
        object.__setattr__(self, "relation", relation(self.relation))
        if self.bug == "add_remove_accounting" and not self.replaces:
            raise InputError(f"`add_remove_accounting` is a bug under substitution, got {self.relation!s}.")

    @property
    def replaces(self) -> bool:
        """Whether the other world has another record in the canary's place, and not nothing."""
        return self.relation in (Relation.SUBSTITUTE, Relation.LABEL)

    def claim(self, delta: float, *, steps: int | None = None) -> UpperBound:
        """What the accountant promises for this recipe after `steps` steps (all of them by default)."""
        accounted = Relation.ADD_REMOVE if self.bug == "add_remove_accounting" else self.relation
        found = accounting.dp_sgd(
            noise_multiplier=self.noise_multiplier,
            sampling_rate=self.sampling_rate,
            steps=self.steps if steps is None else check.count("steps", steps, low=1, high=self.steps),
            delta=delta,
            relation=accounted,
        )
        if accounted is self.relation:
            return found
        return accounting.claimed_as(found, self.relation)

    def dry_run(self) -> DPSGDConfig:
        """The same recipe without noise and without bugs, as an adversary may try it out."""
        return replace(self, noise_multiplier=0.0, bug=None)
