"""How guessers see chunks of tokens: how sure a network is that they are real, and what a public model says (C.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit.execution import one_torch_thread, stream, torch_or_refuse
from dpaudit.fitted.encoders._folds import learn, out_of_fold
from dpaudit.fitted.generators import language_model as language
from dpaudit.fitted.generators.language_model import Shape

Matrix = NDArray[np.float64]
BATCH, AT_ONCE = 32, 256


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenView:
    """The logit "real" of a transformer, and, where it begins from a language model, what that model says of a chunk.

    The transformer's vectors of all tokens are averaged and given to a linear layer, as the paper does with GPT-2. The
    logits of training rows are out of fold: each comes from a network that was trained on the other folds.

    A language model of real texts and a helper of generated ones together tell the two apart far better than either
    does, and the target is of the first kind: a baseline without one would put that down to the target. So a public
    model's losses belong to what both guessers see.

    Attributes
    ----------
    shape, start
        The network, and weights to begin with; None: anew.
    depth
        Layers that the transformer has; it begins with the first ones.
    epochs, rate, decay, dropout
        Passes over the rows, learning rate (falling to 0), weight decay, and share of the averaged vector's entries
        left out while training.
    folds
        Parts of the training rows.
    """

    shape: Shape = field(default_factory=Shape)
    start: Mapping[str, Any] | None = field(default=None, repr=False)
    depth: int = 1
    epochs: int = 4
    rate: float = 5e-4
    decay: float = 0.05
    dropout: float = 0.2
    folds: int = 2

    def __post_init__(self) -> None:
        check.count("epochs", self.epochs, low=1)
        check.count("depth", self.depth, low=1, high=self.shape.layers)
        check.count("folds", self.folds, low=2)
        check.number("rate", self.rate, low=0.0)
        check.number("decay", self.decay, low=0.0)
        check.number("dropout", self.dropout, low=0.0, high=0.9)

    def __call__(self, rows: Any, label: Any, seed: int) -> tuple[Matrix, Callable[[Any], Matrix]]:
        """Features of the training rows, out of fold, and the function that gives those of any rows."""
        tokens = language.as_tokens("rows", rows, self.shape.vocabulary)
        found, look = out_of_fold(self._fitted, tokens, label, folds=self.folds, seed=seed)
        return self._beside(found, tokens), lambda rows: self._beside(look(rows), rows)

    def _beside(self, logits: Matrix, rows: Any) -> Matrix:
        """With what the model that they began from says."""
        if self.start is None:
            return logits
        return np.concatenate([logits, language.outputs(self.shape, self.start, rows)], axis=1)

    def _fitted(self, tokens: NDArray[np.int64], real: NDArray[np.bool_], seed: int) -> Callable[[Any], Matrix]:
        torch = torch_or_refuse()
        shape = replace(self.shape, layers=self.depth)
        start = shape.start(seed) if self.start is None else {name: self.start[name] for name in shape.names}
        weights = language.as_tensors(start)
        weights["verdict"] = torch.zeros(self.shape.width)
        parts = [value.requires_grad_() for value in weights.values()]
        optimiser = torch.optim.AdamW(parts, lr=self.rate, weight_decay=self.decay)
        x, rng = torch.from_numpy(tokens), stream(seed, "batches of a view")

        def logits(batch: Any) -> Any:
            left = rng.random((len(batch), self.shape.width)) >= self.dropout
            mask = torch.from_numpy(left.astype(np.float32) / (1.0 - self.dropout))
            return _logits(shape, weights, x[batch], mask)

        def rate(step: int, steps: int) -> float:
            return self.rate * 0.5 * (1.0 + math.cos(math.pi * step / steps))

        learn(optimiser, logits, real, rng=rng, epochs=self.epochs, batch=BATCH, rate=rate)
        return _Verdict(shape, language.as_arrays(weights))


@dataclass(frozen=True, eq=False)
class _Verdict:
    shape: Shape
    weights: Mapping[str, Any] = field(repr=False)

    def __call__(self, rows: Any) -> Matrix:
        torch = torch_or_refuse()
        tokens = torch.from_numpy(language.as_tokens("rows", rows, self.shape.vocabulary))
        weights = language.as_tensors(self.weights)
        with one_torch_thread(), torch.no_grad():
            found = torch.cat([_logits(self.shape, weights, part, 1.0) for part in tokens.split(AT_ONCE)])
        return np.asarray(found.numpy(), dtype=np.float64)[:, None]


def _logits(shape: Shape, weights: Mapping[str, Any], tokens: Any, mask: Any) -> Any:
    return (language.read(shape, dict(weights), tokens).mean(dim=1) * mask) @ weights["verdict"]
