"""Small convolutional classifiers of grey pictures, plain and private, and what they say of rows (paper 004)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import accounting
from dpaudit.bounds import Relation
from dpaudit.execution import one_torch_thread, stream, torch_or_refuse

Matrix = NDArray[np.float64]
Weights = dict[str, Any]
SIDE, CLASSES, HIDDEN = 28, 10, 64
DELTA = 1e-5
AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a classifier, and the epochs after which it is asked; epsilon None: not private."""

    width: int
    marks: tuple[int, ...]
    epsilon: float | None = None
    batch: int = 64
    clip: float = 1.0
    rate: float = 1e-3


def _start(width: int, seed: int) -> Weights:
    torch = torch_or_refuse()
    generator = torch.Generator().manual_seed(seed)
    shapes = ((width, 1, 5, 5), (2 * width, width, 3, 3), (HIDDEN, 2 * width * 49), (CLASSES, HIDDEN))
    found = {}
    for layer, shape in enumerate(shapes):
        scale = math.sqrt(2.0 / math.prod(shape[1:]))
        found[f"weight {layer}"] = scale * torch.randn(shape, generator=generator)
        found[f"bias {layer}"] = torch.zeros(shape[0])
    return found


def parameters(width: int) -> int:
    """Of a classifier with so many channels."""
    return sum(value.numel() for value in _start(width, 0).values())


def _layers(weights: Weights, x: Any) -> tuple[list[Any], list[Any]]:
    """What goes into each of the four layers, and what comes out; logits last."""
    functional = torch_or_refuse().nn.functional
    first = functional.conv2d(x, weights["weight 0"], weights["bias 0"], stride=2, padding=2)
    pooled = functional.max_pool2d(first.relu(), 2)
    second = functional.conv2d(pooled, weights["weight 1"], weights["bias 1"], padding=1)
    flat = second.relu().flatten(1)
    third = functional.linear(flat, weights["weight 2"], weights["bias 2"])
    hidden = third.relu()
    return [x, pooled, flat, hidden], [first, second, third, hidden @ weights["weight 3"].T + weights["bias 3"]]


def clipped_sum(weights: Weights, x: Any, y: Any, clip: float) -> Weights:
    """The sum of per-example gradients, each scaled to length `clip` at most: one pass back gives the gradients of all
    layers' outputs, and with the inputs they give lengths and sum (Goodfellow 2015)."""
    torch = torch_or_refuse()
    functional = torch.nn.functional
    inputs, outputs = _layers({name: value.detach().requires_grad_() for name, value in weights.items()}, x)
    back = torch.autograd.grad(functional.cross_entropy(outputs[-1], y, reduction="sum"), outputs)
    with torch.no_grad():
        patches = [functional.unfold(inputs[0], 5, stride=2, padding=2), functional.unfold(inputs[1], 3, padding=1)]
        single = [torch.bmm(each.flatten(2), patch.transpose(1, 2)) for each, patch in zip(back, patches, strict=False)]
        sums = [each.flatten(2).sum(2) for each in back[:2]]
        squares = sum((each.flatten(1) ** 2).sum(1) for each in (*single, *sums))
        for each, given in zip(back[2:], inputs[2:], strict=True):
            squares = squares + (each**2).sum(1) * ((given**2).sum(1) + 1.0)
        factor = (clip / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)
        found = {}
        for layer in range(2):
            shape = weights[f"weight {layer}"].shape
            found[f"weight {layer}"] = torch.einsum("n,nok->ok", factor, single[layer]).reshape(shape)
            found[f"bias {layer}"] = factor @ sums[layer]
        for layer in (2, 3):
            scaled = back[layer] * factor[:, None]
            found[f"weight {layer}"], found[f"bias {layer}"] = scaled.T @ inputs[layer], scaled.sum(0)
    return found


def _tensors(rows: NDArray[np.float32]) -> tuple[Any, Any]:
    torch = torch_or_refuse()
    pixels = np.ascontiguousarray(rows[:, :-1]).reshape(-1, 1, SIDE, SIDE)
    return torch.from_numpy(pixels), torch.from_numpy(rows[:, -1].astype(np.int64))


def trained(rows: NDArray[np.float32], training: Training, seed: int) -> list[Weights]:
    """The weights after every mark: Adam on plain or on clipped and noisy gradients."""
    torch = torch_or_refuse()
    x, y = _tensors(rows)
    weights = _start(training.width, seed)
    parts = [value.requires_grad_() for value in weights.values()]
    optimiser = torch.optim.Adam(parts, lr=training.rate)
    rng, generator = stream(seed, "batches of a classifier"), torch.Generator().manual_seed(seed + 1)
    steps = math.ceil(len(rows) / training.batch)
    rate, total = training.batch / len(rows), steps * training.marks[-1]
    noise = _noise(training.epsilon, rate, total)
    found = []
    with one_torch_thread():
        for epoch in range(1, training.marks[-1] + 1):
            order = torch.from_numpy(rng.permutation(len(rows)))
            for step in range(steps):
                optimiser.param_groups[0]["lr"] = training.rate * (1.0 - 0.9 * ((epoch - 1) * steps + step) / total)
                optimiser.zero_grad()
                if noise is None:
                    batch = order[step * training.batch : (step + 1) * training.batch]
                    torch.nn.functional.cross_entropy(_layers(weights, x[batch])[1][-1], y[batch]).backward()
                else:
                    batch = torch.from_numpy(np.flatnonzero(rng.random(len(rows)) < rate))
                    for name, total_gradient in clipped_sum(weights, x[batch], y[batch], training.clip).items():
                        drawn = torch.randn(total_gradient.shape, generator=generator)
                        weights[name].grad = (total_gradient + noise * training.clip * drawn) / training.batch
                optimiser.step()
            if epoch in training.marks:
                found.append({name: value.detach().clone() for name, value in weights.items()})
    return found


@lru_cache(maxsize=64)
def _noise(epsilon: float | None, rate: float, steps: int) -> float | None:
    if epsilon is None:
        return None
    return accounting.noise_multiplier_for(
        epsilon=epsilon, delta=DELTA, sampling_rate=rate, steps=steps, relation=Relation.SUBSTITUTE
    )


def said_of(weights: Weights, rows: NDArray[np.float32]) -> Matrix:
    """A row each: loss, log-odds of the true class, those of the likeliest, loss and log-odds of moved pictures."""
    torch = torch_or_refuse()
    x, y = _tensors(rows)
    found = []
    with one_torch_thread(), torch.no_grad():
        for begin in range(0, len(rows), AT_ONCE):
            part, truth = x[begin : begin + AT_ONCE], y[begin : begin + AT_ONCE, None]
            here = _odds(_layers(weights, part)[1][-1].double())
            moved = [_odds(_layers(weights, part.roll(by, 3))[1][-1].double()).gather(1, truth) for by in (-1, 1)]
            own = here.gather(1, truth)
            mean = (moved[0] + moved[1]) / 2.0
            softplus = torch.nn.functional.softplus
            found.append(torch.cat([softplus(-own), own, here.max(1, keepdim=True).values, softplus(-mean), mean], 1))
    return np.asarray(torch.cat(found).numpy())


def _odds(logits: Any) -> Any:
    """Log-odds of every class against all others together."""
    torch = torch_or_refuse()
    apart = logits[:, :, None] - logits[:, None, :]
    diagonal = torch.eye(logits.shape[1], dtype=torch.bool)
    return -torch.logsumexp((-apart).masked_fill(diagonal, -math.inf), 2)
