"""Data as plain arrays: one set comes with scikit-learn, the others are fetched once and then read as files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit_experiments.data.archives import fetch
from dpaudit_experiments.data.images import cifar10, cifar10_features, fashion_mnist, fashion_mnist_features, mnist, pca
from dpaudit_experiments.data.tables import adult, census
from dpaudit_experiments.data.texts import (
    movie_reviews,
    movie_reviews_embeddings,
    newsgroup_topics,
    newsgroups_words,
    smollm2,
)

__all__ = [
    "adult",
    "census",
    "cifar10",
    "cifar10_features",
    "digits",
    "fashion_mnist",
    "fashion_mnist_features",
    "fetch",
    "mnist",
    "movie_reviews",
    "movie_reviews_embeddings",
    "newsgroup_topics",
    "newsgroups_words",
    "pca",
    "smollm2",
]


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """1,797 handwritten digits of 8 x 8 pixels (scikit-learn's copy of the UCI set): pixels in [0, 1], and labels.

    >>> pixels, labels = digits()
    >>> pixels.shape, int(labels.max())
    ((1797, 64), 9)
    """
    from sklearn.datasets import load_digits

    found = load_digits()
    return np.asarray(found.data, dtype=np.float64) / 16.0, np.asarray(found.target, dtype=np.int64)
