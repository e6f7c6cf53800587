"""How guessers see small grey pictures: a convolutional network that tells real ones from generated ones (C.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import one_torch_thread, stream, torch_or_refuse
from dpaudit.fitted.encoders._folds import learn, out_of_fold
from dpaudit.fitted.generators.tables import as_rows

Matrix = NDArray[np.float64]
BATCH, AT_ONCE = 128, 1000


@dataclass(frozen=True, kw_only=True)
class ImageView:
    """Two numbers a picture: the logit "real" of a convolutional network, and the class.

    A row is the pixels of `shape` and then its class. The logits of training rows are out of fold: each comes from a
    network that was trained on the other folds.

    Attributes
    ----------
    shape
        Pixels down and across.
    width
        Channels of the first layer; the second and third have twice and four times as many.
    epochs, rate
        Passes over the rows, and the largest learning rate (it rises for a tenth of the time, then falls to 0).
    folds
        Parts of the training rows.
    """

    shape: tuple[int, int] = (28, 28)
    width: int = 24
    epochs: int = 4
    rate: float = 2e-3
    folds: int = 2

    def __post_init__(self) -> None:
        if len(check.items("shape", self.shape)) != 2 or min(self.shape) < 8:
            raise InputError(f"`shape` must be two numbers of at least 8 pixels, got {self.shape}.")
        check.count("width", self.width, low=1)
        check.count("epochs", self.epochs, low=1)
        check.count("folds", self.folds, low=2)
        check.number("rate", self.rate, low=0.0)

    def __call__(self, rows: Any, label: Any, seed: int) -> tuple[Matrix, Callable[[Any], Matrix]]:
        """Features of the training rows, out of fold, and the function that gives those of any rows."""
        return out_of_fold(self._fitted, self._read(rows), label, folds=self.folds, seed=seed)

    def _read(self, rows: Any) -> Matrix:
        found = as_rows("rows", rows)
        if found.shape[1] != math.prod(self.shape) + 1:
            raise InputError(
                f"`rows` must be {math.prod(self.shape)} pixels and a class, got {found.shape[1]} columns."
            )
        return found

    def _fitted(self, rows: Matrix, real: NDArray[np.bool_], seed: int) -> Callable[[Any], Matrix]:
        torch = torch_or_refuse()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._network()
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.rate, weight_decay=1e-3)
        x = self._pictures(rows)

        def rate(step: int, steps: int) -> float:
            falling = 0.5 * (1.0 + math.cos(math.pi * step / steps))
            return self.rate * min(falling, 0.1 + 9.0 * step / steps)

        learn(
            optimiser,
            lambda batch: network(x[batch])[:, 0],
            real,
            rng=stream(seed, "batches of a view"),
            epochs=self.epochs,
            batch=BATCH,
            rate=rate,
        )

        def seen(others: Any) -> Matrix:
            given = self._read(others)
            with one_torch_thread(), torch.no_grad():
                logits = torch.cat([network(self._pictures(part))[:, 0] for part in _parts(given)])
            return np.column_stack([logits.numpy().astype(np.float64), given[:, -1]])

        return seen

    def _pictures(self, rows: Matrix) -> Any:
        pixels = rows[:, :-1].astype(np.float32).reshape(-1, 1, *self.shape)
        return torch_or_refuse().from_numpy(pixels)

    def _network(self) -> Any:
        nn, width = torch_or_refuse().nn, self.width
        return nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(3),
            nn.Flatten(),
            nn.Linear(36 * width, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )


def _parts(rows: Matrix) -> list[Matrix]:
    return [rows[begin : begin + AT_ONCE] for begin in range(0, max(len(rows), 1), AT_ONCE)]
