"""Mistakes that can be switched on in any loop that uses Opacus, by wrapping methods of its optimizer after `build`.

The optimizer still says the same noise multiplier and clipping norm, so the claim stays as it was. No score sees all of
them: `same_noise` needs `sees="steps"`, `one_number` a gradient of opposite entries, `bare_parameter` one in the last
parameter, `realised_batch` one that the data pull against (tests/test_opacus.py has each).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpaudit import _validate as check


def wrap(optimizer: Any, method: str, around: Callable[..., Any]) -> None:
    """Make `optimizer.method(...)` call `around(old, ...)`, for this instance only."""
    old = getattr(optimizer, method)
    setattr(optimizer, method, lambda *arguments, **named: around(old, *arguments, **named))


def check_bug(bug: str | None) -> None:
    """Refuse a bug that is not known."""
    if bug is not None:
        check.choice("bug", bug, BUGS)


def half_noise(optimizer: Any) -> None:
    """Half of the noise."""
    _change_noise(optimizer, lambda deviation: 0.5 * deviation)


def deviation_as_variance(optimizer: Any) -> None:
    """The standard deviation is passed where a variance is expected: too little noise if it is above 1."""
    _change_noise(optimizer, math.sqrt)


def double_clip(optimizer: Any) -> None:
    """Gradients are clipped to twice the norm that the noise is made for."""
    wrap(optimizer, "clip_and_accumulate", lambda clip: _with_clip(optimizer, 2.0, clip))


def clipped_batch(optimizer: Any) -> None:
    """The mean gradient of the batch is clipped, instead of each example's."""

    def around(clip: Callable[[], None]) -> None:
        rows = len(optimizer.grad_samples[0])
        _with_clip(optimizer, math.inf, clip)
        norm = math.sqrt(sum(float(p.summed_grad.square().sum()) for p in optimizer.params))
        factor = min(1.0, optimizer.max_grad_norm * rows / (norm + 1e-6))
        for p in optimizer.params:
            p.summed_grad *= factor

    wrap(optimizer, "clip_and_accumulate", around)


def same_noise(optimizer: Any) -> None:
    """Every step adds the noise of the first one, as with a generator that is seeded anew in each step."""
    first: list[Any] = []

    def around(add_noise: Callable[[], None]) -> None:
        add_noise()
        if not first:
            first.extend(p.grad - p.summed_grad.view_as(p) for p in optimizer.params)
        for p, noise in zip(optimizer.params, first, strict=True):
            p.grad = p.summed_grad.view_as(p) + noise

    wrap(optimizer, "add_noise", around)


def one_number(optimizer: Any) -> None:
    """One number of noise a step, for all coordinates."""

    def around(add_noise: Callable[[], None]) -> None:
        add_noise()
        head = optimizer.params[0]
        number = float((head.grad - head.summed_grad.view_as(head)).flatten()[0])
        for p in optimizer.params:
            p.grad = p.summed_grad.view_as(p) + number

    wrap(optimizer, "add_noise", around)


def bare_parameter(optimizer: Any) -> None:
    """The last parameter, often a bias, gets no noise."""

    def around(add_noise: Callable[[], None]) -> None:
        add_noise()
        last = optimizer.params[-1]
        last.grad = last.summed_grad.view_as(last).clone()

    wrap(optimizer, "add_noise", around)


def realised_batch(optimizer: Any) -> None:
    """Sums are divided by the size of the batch at hand, not by the expected one: the mean of a batch can move twice
    as far as its share of the sum."""
    rows: list[int] = []

    def count(clip: Callable[[], None]) -> None:
        rows.append(len(optimizer.grad_samples[0]))
        clip()

    def around(scale_grad: Callable[[], None]) -> None:
        scale_grad()
        if optimizer.loss_reduction == "mean":
            for p in optimizer.params:
                p.grad *= optimizer.expected_batch_size / max(1, sum(rows))
        rows.clear()

    wrap(optimizer, "clip_and_accumulate", count)
    wrap(optimizer, "scale_grad", around)


BUGS: dict[str, Callable[[Any], None]] = {
    bug.__name__: bug
    for bug in (
        half_noise,
        deviation_as_variance,
        double_clip,
        clipped_batch,
        same_noise,
        one_number,
        bare_parameter,
        realised_batch,
    )
}
"""By name: functions that switch a bug on in a `DPOptimizer`."""


def _change_noise(optimizer: Any, change: Callable[[float], float]) -> None:
    """Noise of another standard deviation; the multiplier is put back, for whoever reads it."""

    def around(add_noise: Callable[[], None]) -> None:
        told = optimizer.noise_multiplier
        optimizer.noise_multiplier = change(told * optimizer.max_grad_norm) / optimizer.max_grad_norm
        try:
            add_noise()
        finally:
            optimizer.noise_multiplier = told

    wrap(optimizer, "add_noise", around)


def _with_clip(optimizer: Any, factor: float, clip: Callable[[], None]) -> None:
    """Clip to `factor` times the norm, which is put back."""
    told, each = optimizer.max_grad_norm, getattr(optimizer, "max_grad_norms", None)
    optimizer.max_grad_norm = factor * told
    if each is not None:  # clipping="per_layer"
        optimizer.max_grad_norms = [factor * norm for norm in each]
    try:
        clip()
    finally:
        optimizer.max_grad_norm = told
        if each is not None:
            optimizer.max_grad_norms = each
