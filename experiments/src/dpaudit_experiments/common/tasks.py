"""The learning tasks of paper 001, on real data where they are fetched, on the embedded digits otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit_experiments import data


@dataclass(frozen=True)
class Task:
    """Training rows, test rows, and rows that nobody trains on, from which S5 is chosen."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    spare_x: NDArray[np.float32]
    spare_y: NDArray[np.int64]
    name: str


@lru_cache(maxsize=4)
def image_task(records: int, *, fetched: bool) -> Task:
    """Two classes of CIFAR-10 as features of a fixed encoder; or the digits 0 and 1."""
    if fetched:
        x, y, test_x, test_y = data.cifar10_features(classes=(0, 1), whiten=False)
        name = "CIFAR-10 airplane / automobile, EfficientNet-Lite0 features, 768 principal components"
    else:
        pixels, labels = data.digits()
        kept = labels < 2
        x, y = pixels[kept].astype(np.float32) * np.float32(4.0), labels[kept]
        test_x, test_y, x, y = x[-100:], y[-100:], x[:-100], y[:-100]
        name = "digits 0 / 1, pixels"
    return _split(x, y, test_x, test_y, records, name)


@lru_cache(maxsize=4)
def text_task(records: int, *, fetched: bool) -> Task:
    """Film reviews as sentence embeddings; or the digits again."""
    if not fetched:
        return image_task(records, fetched=False)
    x, y = data.movie_reviews_embeddings()
    order = np.random.default_rng(1).permutation(y.size)
    x, y = x[order], y[order]
    held = y.size - 1000
    name = "Rotten Tomatoes snippets, MiniLM-L6 embeddings"
    return _split(x[:held], y[:held], x[held:], y[held:], records, name)


@lru_cache(maxsize=4)
def word_task(records: int, *, fetched: bool) -> tuple[Task, int]:
    """Newsgroups as binary words, and their number of classes; or all ten digits."""
    if fetched:
        x, y, test_x, test_y = data.newsgroups_words(words=600)
        return _split(x, y, test_x, test_y, records, "20 Newsgroups, 600 binary words"), 20
    pixels, labels = data.digits()
    x, y = pixels.astype(np.float32), labels
    return _split(x[:-300], y[:-300], x[-300:], y[-300:], records, "digits, pixels"), 10


def _split(x: Any, y: Any, test_x: Any, test_y: Any, records: int, name: str) -> Task:
    order = np.random.default_rng(7).permutation(y.size)
    ours, spare = order[:records], order[records : 2 * records]
    return Task(x[ours], y[ours], test_x, test_y, x[spare], y[spare], name)
