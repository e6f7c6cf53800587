"""A small causal transformer over token numbers, as plain functions of its weights (a dictionary of torch tensors).

Models of the size of GPT-2 or SmolLM2 (135 million parameters) take hours to fine-tune on two cores; one of half a
million parameters, trained here on public text of the same kind, takes minutes. Positions are rotary, normalisation has
no weights, and the token embedding is also the output layer, so that a model is that embedding and four linear maps a
layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import one_torch_thread, stream, torch_or_refuse

__all__ = [
    "Shape",
    "as_arrays",
    "as_tensors",
    "as_tokens",
    "continued",
    "outputs",
    "token_losses",
    "trained",
    "trained_privately",
]

Matrix = NDArray[np.float64]
Weights = dict[str, Any]
"""Tensors by name, or numpy arrays of the same names, as they are kept."""
MAPS = ("attend", "join", "widen", "narrow")
BATCH, AT_ONCE = 32, 256
WARM = 20
"""Steps in which the learning rate rises to its full size."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Tokens that there are, and the size of the network."""

    vocabulary: int = 2048
    width: int = 128
    layers: int = 2
    heads: int = 4

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "layers", "heads"):
            check.count(name, getattr(self, name), low=1)
        if self.width % (2 * self.heads):
            raise InputError(f"`width` must be a multiple of twice the heads, got {self.width} and {self.heads}.")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the weights."""
        maps = (f"{layer} {name}" for layer in range(self.layers) for name in MAPS)
        return ("embedding", *(name for each in maps for name in (each, f"{each} bias")))

    def start(self, seed: int) -> Weights:
        """Weights before any training, as numpy arrays."""
        rng, width = stream(seed, "weights of a language model"), self.width
        sizes = {"attend": (width, 3 * width), "join": (width, width)}
        sizes |= {"widen": (width, 4 * width), "narrow": (4 * width, width)}
        found = {"embedding": rng.normal(scale=0.05, size=(self.vocabulary, width)).astype(np.float32)}
        for layer in range(self.layers):
            for name in MAPS:
                scale = (2.0 * self.layers) ** -0.5 if name in ("join", "narrow") else 1.0
                spread = scale / math.sqrt(sizes[name][0])
                found[f"{layer} {name}"] = rng.normal(scale=spread, size=sizes[name]).astype(np.float32)
                found[f"{layer} {name} bias"] = np.zeros(sizes[name][1], dtype=np.float32)
        return found


def as_tokens(name: str, rows: Any, vocabulary: int) -> NDArray[np.int64]:
    """Rows of numbers as token numbers."""
    found = np.asarray(rows, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] < 2:
        raise InputError(f"`{name}` must be chunks of two tokens or more, one a row, got shape {found.shape}.")
    if not np.isfinite(found).all() or (found != np.floor(found)).any():
        raise InputError(f"`{name}` must be whole token numbers.")
    if found.size and not 0.0 <= found.min() <= found.max() < vocabulary:
        raise InputError(f"`{name}` must be tokens from 0 to {vocabulary - 1}, got {found.min():g} to {found.max():g}.")
    return found.astype(np.int64)


def as_tensors(weights: Mapping[str, Any]) -> Weights:
    """A copy of weights as tensors."""
    torch = torch_or_refuse()
    return {name: torch.tensor(np.asarray(value), dtype=torch.float32) for name, value in weights.items()}


def as_arrays(weights: Weights) -> Weights:
    """A copy of weights as numpy arrays."""
    return {name: value.detach().numpy().copy() for name, value in weights.items()}


def read(
    shape: Shape, weights: Weights, tokens: Any, *, past: list[Any] | None = None, tape: list[Any] | None = None
) -> Any:
    """The last layer's vectors, (rows, tokens, width).

    `past` holds keys and values of the tokens before these, and is extended; `tape` is given the name, the input and
    the output of every linear map, for the gradients of single rows.
    """
    torch = torch_or_refuse()
    functional = torch.nn.functional
    rows, length = tokens.shape
    begin = 0 if not past else past[0][0].shape[2]
    turn = _turns(shape, begin, length)

    def mapped(name: str, x: Any) -> Any:
        found = functional.linear(x, weights[name].T, weights[f"{name} bias"])
        if tape is not None:
            if not found.requires_grad:
                found.requires_grad_()
            tape.append((name, x.detach(), found))
        return found

    def normal(x: Any) -> Any:
        return functional.layer_norm(x, (shape.width,))

    x = functional.embedding(tokens, weights["embedding"])
    for layer in range(shape.layers):
        three = mapped(f"{layer} attend", normal(x)).view(rows, length, 3, shape.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = _turned(three[0], turn), _turned(three[1], turn), three[2]
        if past is not None:
            if len(past) > layer:
                key, value = (torch.cat([old, new], dim=2) for old, new in zip(past[layer], (key, value), strict=True))
                past[layer] = (key, value)
            else:
                past.append((key, value))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        x = x + mapped(f"{layer} join", seen.transpose(1, 2).reshape(rows, length, shape.width))
        x = x + mapped(f"{layer} narrow", functional.gelu(mapped(f"{layer} widen", normal(x))))
    return normal(x)


def _turns(shape: Shape, begin: int, length: int) -> tuple[Any, Any]:
    torch = torch_or_refuse()
    half = shape.width // shape.heads // 2
    speed = 1000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
    angle = torch.arange(begin, begin + length, dtype=torch.float32)[:, None] * speed
    return torch.cos(angle), torch.sin(angle)


def _turned(x: Any, turn: tuple[Any, Any]) -> Any:
    torch = torch_or_refuse()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * turn[0] - second * turn[1], first * turn[1] + second * turn[0]], dim=-1)


def _losses(shape: Shape, weights: Weights, tokens: Any, tape: list[Any] | None = None) -> Any:
    """The loss of every token but the first, (rows, tokens - 1)."""
    functional = torch_or_refuse().nn.functional
    logits = read(shape, weights, tokens[:, :-1], tape=tape) @ weights["embedding"].T
    found = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return found.view(len(tokens), -1)


def token_losses(shape: Shape, weights: Mapping[str, Any], rows: Any) -> Matrix:
    """What the model says of chunks: the loss of every token but the first, given those before it."""
    torch = torch_or_refuse()
    tokens, ready = torch.from_numpy(as_tokens("rows", rows, shape.vocabulary)), as_tensors(weights)
    with one_torch_thread(), torch.no_grad():
        found = [_losses(shape, ready, part) for part in tokens.split(AT_ONCE)]
    return np.asarray(torch.cat(found).numpy(), dtype=np.float64)


def outputs(shape: Shape, weights: Mapping[str, Any], rows: Any) -> Matrix:
    """The mean, the smallest and the largest of a chunk's token losses, and all of them in order."""
    losses = token_losses(shape, weights, rows)
    return np.column_stack([losses.mean(axis=1), losses.min(axis=1), losses.max(axis=1), losses])


def trained(
    shape: Shape,
    weights: Mapping[str, Any],
    rows: Any,
    *,
    epochs: Sequence[int],
    rate: float,
    seed: int,
    fading: bool = False,
    decay: float = 0.0,
) -> list[Weights]:
    """One training by AdamW, and the weights after each of these numbers of epochs, as numpy arrays.

    With `fading` the learning rate falls to 0 along a cosine; else it stays, so that more epochs are the same training
    gone on with.
    """
    torch = torch_or_refuse()
    tokens, ready = torch.from_numpy(as_tokens("rows", rows, shape.vocabulary)), as_tensors(weights)
    parts = [value.requires_grad_() for value in ready.values()]
    optimiser = torch.optim.AdamW(parts, lr=rate, weight_decay=decay, betas=(0.9, 0.98))
    rng, found, step = stream(seed, "batches of a language model"), [], 0
    batches = math.ceil(len(tokens) / BATCH)
    with one_torch_thread():
        for epoch in range(1, max(epochs) + 1):
            for batch in torch.from_numpy(rng.permutation(len(tokens))).split(BATCH):
                share = step / (batches * max(epochs))
                bend = 0.5 * (1.0 + math.cos(math.pi * share)) if fading else 1.0
                optimiser.param_groups[0]["lr"] = rate * bend * min(1.0, (step + 1) / WARM)
                optimiser.zero_grad()
                _losses(shape, ready, tokens[batch]).mean().backward()
                optimiser.step()
                step += 1
            if epoch in epochs:
                found.append(as_arrays(ready))
    return found


def trained_privately(
    shape: Shape,
    weights: Mapping[str, Any],
    rows: Any,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    clip: float,
    rate: float,
    seed: int,
) -> Weights:
    """DP-SGD with Adam's steps: Poisson batches, the gradient of each chunk clipped, Gaussian noise on their sum.

    The token embedding stays as it was. The length of a chunk's gradient in a linear map follows from the map's inputs
    and the gradients of its outputs (ghost clipping, Li et al. 2021), so that it is never formed.
    """
    torch = torch_or_refuse()
    tokens, ready = torch.from_numpy(as_tokens("rows", rows, shape.vocabulary)), as_tensors(weights)
    names = [name for name in ready if name != "embedding"]
    parts = [ready[name].requires_grad_(False) for name in names]
    optimiser = torch.optim.Adam(parts, lr=rate)
    rng, expected = stream(seed, "batches and noise of a private language model"), sampling_rate * len(tokens)
    with one_torch_thread():
        for _ in range(steps):
            shown = torch.from_numpy(np.flatnonzero(rng.random(len(tokens)) < sampling_rate))
            total = {name: torch.zeros_like(ready[name]) for name in names}
            for batch in shown.split(BATCH * 2):
                for name, found in _clipped_sum(shape, ready, tokens[batch], clip).items():
                    total[name] += found
            for name, part in zip(names, parts, strict=True):
                noise = rng.normal(scale=noise_multiplier * clip, size=tuple(part.shape)).astype(np.float32)
                part.grad = (total[name] + torch.from_numpy(noise)) / expected
            optimiser.step()
    return as_arrays(ready)


def _clipped_sum(shape: Shape, weights: Weights, tokens: Any, clip: float) -> Weights:
    """The sum of the chunks' gradients of their mean loss, each cut to length `clip`, by name."""
    torch = torch_or_refuse()
    if not len(tokens):
        return {}
    tape: list[Any] = []
    total = _losses(shape, weights, tokens, tape).mean(dim=1).sum()
    slopes = torch.autograd.grad(total, [output for _, _, output in tape])
    squares = torch.zeros(len(tokens))
    for (_, x, _), slope in zip(tape, slopes, strict=True):
        alike = (x @ x.transpose(1, 2) + 1.0) * (slope @ slope.transpose(1, 2))  # the 1 is the bias's input
        squares += alike.sum(dim=(1, 2))
    factor = torch.clamp(clip / squares.clamp(min=1e-20).sqrt(), max=1.0)[:, None, None]
    found = {}
    for (name, x, _), slope in zip(tape, slopes, strict=True):
        cut = (slope * factor).flatten(0, 1)
        found[name], found[f"{name} bias"] = x.flatten(0, 1).T @ cut, cut.sum(dim=0)
    return found


def continued(shape: Shape, weights: Mapping[str, Any], prompts: Any, *, top: int, seed: int) -> NDArray[np.int64]:
    """For each prompt as many tokens more, drawn at temperature 1 among the `top` likeliest."""
    torch = torch_or_refuse()
    tokens, ready = torch.from_numpy(as_tokens("prompts", prompts, shape.vocabulary)), as_tensors(weights)
    source = torch.Generator().manual_seed(seed)
    most = min(top, shape.vocabulary)
    found = []
    with one_torch_thread(), torch.no_grad():
        for part in tokens.split(AT_ONCE):
            past: list[Any] = []
            said, new = part, []
            for _ in range(part.shape[1]):
                logits = read(shape, ready, said, past=past)[:, -1] @ ready["embedding"].T
                best, place = logits.topk(most, dim=1) if most < shape.vocabulary else (logits, None)
                pick = torch.multinomial(best.softmax(dim=1), 1, generator=source)
                said = pick if place is None else place.gather(1, pick)
                new.append(said)
            found.append(torch.cat(new, dim=1))
    return np.asarray(torch.cat(found).numpy(), dtype=np.int64)
