"""Small convolutional networks in torch (extra `torch`), trained on labels alone or by FixMatch.

FixMatch (Sohn et al. 2020): a picture without a label is shown twice, hardly changed and strongly changed. Where the
network is sure of the first, its guess is the label of the second. Everything runs on one thread, and all randomness is
drawn from the seed, so that the same seed gives the same network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import one_torch_thread, torch_or_refuse

READ = 2048
"""Pictures that are looked at together when nothing is learnt."""


def pictures(x: Any, rows: int | None = None) -> NDArray[np.float32]:
    """Pictures as (rows, channels, height, width) with numbers in about [-1, 1]; a grey one has one channel."""
    found = np.asarray(x)
    if found.ndim == 3:
        found = found[:, None]
    if found.ndim != 4:
        raise InputError(
            f"pictures must be (rows, height, width) or (rows, channels, height, width), got {found.shape}."
        )
    if (rows is not None and len(found) != rows) or min(found.shape[2:]) < 4:
        raise InputError(f"pictures must be {rows} of at least 4 x 4 pixels, one for each label, got {found.shape}.")
    scaled = found.astype(np.float32) / np.float32(127.5) - np.float32(1.0) if found.dtype == np.uint8 else found
    return np.ascontiguousarray(scaled, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Network:
    """Two convolutions and a hidden layer, trained by Adam; without augmentation it learns its labels by heart.

    `shifts` moves every picture by up to so many pixels at each look; 0 leaves it as it is.
    """

    epochs: int = 20
    batch: int = 128
    learning_rate: float = 2e-3
    channels: tuple[int, int] = (16, 32)
    hidden: int = 128
    shifts: int = 0

    def __post_init__(self) -> None:
        check.count("epochs", self.epochs, low=1)
        check.count("batch", self.batch, low=1)
        check.count("shifts", self.shifts)

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> _Fitted:
        shown = pictures(x, len(weights))
        torch = torch_or_refuse()
        with one_torch_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            rng = torch.Generator().manual_seed((seed + 1) % 2**63)
            module = _module(shown.shape[1:], weights.shape[1], self.channels, self.hidden)
            pixels, targets = torch.from_numpy(shown), torch.from_numpy(np.asarray(weights, dtype=np.float32))
            steps = self.epochs * -(-len(shown) // self.batch)
            optimiser, schedule = _adam(module, self.learning_rate, steps)
            for _ in range(self.epochs):
                for rows in torch.randperm(len(shown), generator=rng).split(self.batch):
                    seen = _weak(pixels[rows], rng, self.shifts) if self.shifts else pixels[rows]
                    loss = _cross_entropy(module(seen), targets[rows])
                    _step(optimiser, schedule, loss)
        return _Fitted(module.eval())


@dataclass(frozen=True, kw_only=True)
class FixMatch:
    """A small network that learns from few labels and many pictures without one.

    Attributes
    ----------
    steps, batch, ratio
        Steps of Adam; labelled pictures a step; how many times as many unlabelled ones.
    sure
        A guess counts where its probability is at least this.
    average
        The network that is kept is a running mean of those along the way, with this decay.
    shifts, turn
        A hardly changed picture is moved by up to `shifts` pixels; a strongly changed one is also turned by up to
        `turn` radians, sheared and scaled by as much, lightened or darkened, and has a square blotted out.
    """

    steps: int = 400
    batch: int = 32
    ratio: int = 4
    sure: float = 0.95
    learning_rate: float = 2e-3
    average: float = 0.99
    channels: tuple[int, int] = (16, 32)
    hidden: int = 128
    shifts: int = 1
    turn: float = 0.2

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "ratio"):
            check.count(name, getattr(self, name), low=1)
        check.number("sure", self.sure, low=0.0, high=1.0)
        check.number("average", self.average, low=0.0, high=0.9999)

    def fit(self, x: Any, weights: NDArray[np.float64], *, seed: int, unlabelled: Any = None) -> _Fitted:
        if unlabelled is None:
            raise InputError("FixMatch learns from pictures without labels; `unlabelled` must be given, got none.")
        torch = torch_or_refuse()
        with one_torch_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            rng = torch.Generator().manual_seed((seed + 1) % 2**63)
            labelled, free = torch.from_numpy(pictures(x, len(weights))), torch.from_numpy(pictures(unlabelled))
            targets = torch.from_numpy(np.asarray(weights, dtype=np.float32))
            module = _module(labelled.shape[1:], targets.shape[1], self.channels, self.hidden)
            optimiser, schedule = _adam(module, self.learning_rate, self.steps)
            kept = torch.optim.swa_utils.AveragedModel(
                module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(self.average)
            )
            for _ in range(self.steps):
                own = torch.randint(len(labelled), (self.batch,), generator=rng)
                other = torch.randint(len(free), (self.ratio * self.batch,), generator=rng)
                loss = self._loss(module, labelled[own], targets[own], free[other], rng)
                _step(optimiser, schedule, loss)
                kept.update_parameters(module)
        return _Fitted(kept.module.eval())

    def _loss(self, module: Any, labelled: Any, targets: Any, free: Any, rng: Any) -> Any:
        torch = torch_or_refuse()
        with torch.no_grad():
            guesses = module(_weak(free, rng, self.shifts)).softmax(dim=1)
            likely, labels = guesses.max(dim=1)
            sure = (likely >= self.sure).float()
        strong = module(_strong(free, rng, self.shifts, self.turn))
        learnt = (torch.nn.functional.cross_entropy(strong, labels, reduction="none") * sure).mean()
        return _cross_entropy(module(_weak(labelled, rng, self.shifts)), targets) + learnt


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A network in evaluation."""

    module: Any

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        torch = torch_or_refuse()
        shown = torch.from_numpy(pictures(x))
        with one_torch_thread(), torch.no_grad():
            found = [self.module(part).double().softmax(dim=1).numpy() for part in shown.split(READ)]
        return np.concatenate(found)


def _module(shape: Any, classes: int, channels: tuple[int, int], hidden: int) -> Any:
    nn = torch_or_refuse().nn
    first, second = channels
    return nn.Sequential(
        nn.Conv2d(shape[0], first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (shape[1] // 4) * (shape[2] // 4), hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def _adam(module: Any, rate: float, steps: int) -> tuple[Any, Any]:
    """Adam with a rate that falls to 0 along half a cosine."""
    optim = torch_or_refuse().optim
    optimiser = optim.Adam(module.parameters(), lr=rate)
    return optimiser, optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))


def _step(optimiser: Any, schedule: Any, loss: Any) -> None:
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    schedule.step()


def _cross_entropy(logits: Any, weights: Any) -> Any:
    return -(weights * logits.log_softmax(dim=1)).sum(dim=1).mean()


def _weak(pixels: Any, rng: Any, most: int) -> Any:
    """Every picture moved by up to `most` pixels."""
    torch = torch_or_refuse()
    rows, _, height, width = pixels.shape
    upright, across = (
        torch.arange(size) + torch.randint(-most, most + 1, (rows, 1), generator=rng) for size in (height, width)
    )
    inside = _within(upright, height)[:, None, :, None] & _within(across, width)[:, None, None, :]
    place = torch.arange(rows)[:, None, None]
    moved = pixels[place, :, upright.clamp(0, height - 1)[:, :, None], across.clamp(0, width - 1)[:, None, :]]
    return torch.where(inside, moved.permute(0, 3, 1, 2), torch.tensor(-1.0))


def _within(places: Any, size: int) -> Any:
    return (places >= 0) & (places < size)


def _strong(pixels: Any, rng: Any, most: int, turn: float) -> Any:
    """Moved, turned, sheared and scaled, another contrast and brightness, and a square of it blotted out."""
    torch = torch_or_refuse()
    functional = torch.nn.functional
    rows, _, height, width = pixels.shape

    def drawn(reach: float) -> Any:
        return reach * (2.0 * torch.rand(rows, generator=rng) - 1.0)

    angle, shear, scale = drawn(turn), drawn(turn), 1.0 + drawn(turn)
    lines = (
        (scale * angle.cos(), shear - scale * angle.sin(), drawn(2.0 * most / width)),
        (scale * angle.sin(), scale * angle.cos(), drawn(2.0 * most / height)),
    )
    changes = torch.stack([torch.stack(line, dim=1) for line in lines], dim=1)
    grid = functional.affine_grid(changes, list(pixels.shape), align_corners=False)
    lit = functional.grid_sample(pixels + 1.0, grid, align_corners=False) * (1.0 + drawn(0.5))[:, None, None, None]
    changed = (lit - 1.0 + drawn(0.2)[:, None, None, None]).clamp(-1.0, 1.0)
    side = height // 3
    top, left = (torch.randint(1 - side, size, (rows, 1), generator=rng) for size in (height, width))
    tall, wide = (_within(torch.arange(size) - first, side) for size, first in ((height, top), (width, left)))
    return torch.where((tall[:, :, None] & wide[:, None, :])[:, None], torch.tensor(0.0), changed)
