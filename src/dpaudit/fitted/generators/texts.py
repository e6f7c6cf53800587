"""A generator for texts: a small language model that goes on from prompts which it was not trained on (C.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import distinct_seeds, stream
from dpaudit.fitted.generators import language_model
from dpaudit.fitted.generators.language_model import Shape

Matrix = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguageModel:
    """Chunks of tokens, one a row: a transformer learns most of them, and the others are prompts for new chunks.

    The paper fine-tunes GPT-2 on 35% of the members and takes its prompts from another 15%. Of SmolLM2's size (135
    million parameters) that would take hours on two cores, so this model is a small one (half a million by default),
    and what stands in for its pre-training is `start`.

    Attributes
    ----------
    shape
        Size of the network, and the tokens that there are.
    start
        Weights to begin with, such as of a model that was trained on public text, which is nobody's member; None: anew.
    epochs, rate
        Passes over the training part, and the learning rate, which falls to 0.
    training
        Share of the rows that the model is trained on; the rest are prompts.
    top
        How many of the likeliest tokens are drawn from.
    """

    shape: Shape = field(default_factory=Shape)
    start: Mapping[str, Any] | None = field(default=None, repr=False)
    epochs: int = 3
    rate: float = 1e-3
    training: float = 0.7
    top: int = 1000

    def __post_init__(self) -> None:
        check.count("epochs", self.epochs, low=1)
        check.number("rate", self.rate, low=0.0)
        check.count("top", self.top, low=1)
        if not 0.0 < check.number("training", self.training, low=0.0, high=1.0) < 1.0:
            raise InputError(f"`training` must be in (0, 1), for prompts are held out, got {self.training:g}.")

    def parts(self, rows: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which rows are learnt, and which are prompts."""
        order = stream(seed, "prompts of a language model").permutation(rows)
        learnt = round(self.training * rows)
        if not 0 < learnt < rows:
            raise InputError(f"`rows` must be enough to learn from and to hold prompts out of, got {rows}.")
        return order[:learnt], order[learnt:]

    def fit(self, x: Any, *, seed: int = 0) -> FittedLanguageModel:
        rows = language_model.as_tokens("rows", x, self.shape.vocabulary)
        learnt, prompts = self.parts(len(rows), seed)
        seeds = distinct_seeds(seed, "training of a language model", 2)
        start = self.shape.start(seeds[0]) if self.start is None else self.start
        (weights,) = language_model.trained(
            self.shape, start, rows[learnt], epochs=(self.epochs,), rate=self.rate, seed=seeds[1], fading=True
        )
        return FittedLanguageModel(self.shape, weights, rows[prompts], self.top)


@dataclass(frozen=True, eq=False)
class FittedLanguageModel:
    """What was learnt, and the prompts."""

    shape: Shape
    weights: Mapping[str, Any] = field(repr=False)
    prompts: NDArray[np.int64] = field(repr=False)
    top: int

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        """New chunks: each follows a prompt drawn at random, so that they are independent draws of one distribution."""
        size = check.count("count", count, low=1)
        chosen = stream(seed, "choice of prompts").integers(len(self.prompts), size=size)
        (drawing,) = distinct_seeds(seed, "tokens that are drawn", 1)
        found = language_model.continued(self.shape, self.weights, self.prompts[chosen], top=self.top, seed=drawing)
        return found.astype(np.float64)
