"""A generator for small grey pictures: pixels drawn one grid after the other, coarse to fine (extra `torch`).

    every fourth pixel (7 x 7)     one after the other: a masked network of all that came before
    every second pixel (14 x 14)   three new grids, in quarters and halves: convolutions over what is known
    all pixels (28 x 28)           the same

Every step is a classification of grey levels, so a fit is a likelihood: it cannot leave out a kind of picture, as
adversarial networks do, and the divergence is about what is left out. Pixels that are drawn together are independent
given the ones before (Reed et al. 2017, "Parallel multiscale autoregressive density estimation").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import distinct_seeds, one_torch_thread, stream, torch_or_refuse
from dpaudit.fitted.generators.tables import as_rows

Matrix = NDArray[np.float64]
Weights = dict[str, Any]
COARSE = 4
"""The first grid is every fourth pixel."""
PLAN = (
    (1, ((0, 0),)),
    (1, ((1, 1),)),
    (1, ((0, 1),)),
    (1, ((1, 0),)),
    (2, ((0, 0), (1, 1))),
    (2, ((0, 1), (1, 0))),
    (3, ((0, 0), (1, 1))),
    (3, ((0, 1), (1, 0))),
)
"""Drawn together: a quarter of the first new grid at a time, a half of the others; a cell is (row, column) mod 2."""
AT_ONCE = 500


def drawn_classes(shares: Matrix, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The class of each of so many rows to be made, by their shares."""
    return rng.choice(len(shares), size=check.count("count", count, low=1), p=shares)


def pictures_and_classes(x: Any, *, side: int) -> tuple[Matrix, NDArray[np.int64]]:
    """Rows of pixels in [0, 1] and a class, as pictures of `side` x `side` pixels and classes."""
    rows = as_rows("rows", x)
    if rows.shape[1] != side**2 + 1:
        raise InputError(f"`rows` must be {side**2} pixels and a class, got {rows.shape[1]} columns.")
    pixels, classes = rows[:, :-1], rows[:, -1]
    if pixels.min() < 0.0 or pixels.max() > 1.0:
        raise InputError(f"`rows` must have pixels in [0, 1], got {pixels.min():g} to {pixels.max():g}.")
    if (classes != np.round(classes)).any() or classes.min() < 0.0 or classes.max() >= len(rows):
        raise InputError("`rows` must end in classes 0, 1, ..., got other numbers in the last column.")
    return pixels.reshape(-1, side, side), classes.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class PixelGrids:
    """Pictures of one class at a time; classes come by their shares.

    A row is `side` x `side` pixels in [0, 1] and then its class, 0, 1, ... The class is part of a made row, so that a
    model's loss on it can be asked for: this replaces the labeller of the paper.

    Attributes
    ----------
    side
        Pixels a side, a multiple of four.
    levels
        Grey levels, evenly spaced from 0 to 1; rows are rounded to them. 256 are 8 bits. Black is exact.
    hidden, width, blocks
        Hidden units of the first network, channels and residual blocks of the others.
    epochs
        Passes over the rows for the three networks, coarse to fine.
    batch, rate
        Pictures a step, and the largest learning rate; it falls to 0 like a cosine.
    sharpness
        The logits of new grids are multiplied by a number between these two, drawn for each picture. Above 1 it takes
        away stray pixels, which small networks leave in nearly every picture; a range keeps pictures with such, too.
    """

    side: int = 28
    levels: int = 16
    hidden: int = 768
    width: int = 48
    blocks: int = 3
    epochs: tuple[int, int, int] = (30, 20, 10)
    batch: int = 64
    rate: float = 2e-3
    sharpness: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if check.count("side", self.side, low=COARSE) % COARSE:
            raise InputError(f"`side` must be a multiple of {COARSE}, got {self.side}.")
        check.count("levels", self.levels, low=2, high=256)
        for name in ("hidden", "width", "blocks", "batch"):
            check.count(name, getattr(self, name), low=1)
        check.number("rate", self.rate, low=0.0)
        if len(check.items("epochs", self.epochs)) != 3:
            raise InputError(f"`epochs` must be three numbers, one for each network, got {len(self.epochs)}.")
        for each in self.epochs:
            check.count("epochs", each, low=1)
        if len(check.items("sharpness", self.sharpness)) != 2 or not 0.0 < self.sharpness[0] <= self.sharpness[1]:
            raise InputError(f"`sharpness` must be two positive numbers, the smaller first, got {self.sharpness}.")

    def fit(self, x: Any, *, seed: int = 0) -> _FittedGrids:
        torch = torch_or_refuse()
        pixels, labels = pictures_and_classes(x, side=self.side)
        shares = np.bincount(labels) / len(labels)
        first = _Coarse((self.side // COARSE) ** 2, self.hidden, self.levels, len(shares))
        sides = (self.side // COARSE, self.side // 2)
        grids = [_Grid(side, self.width, self.blocks, self.levels, len(shares)) for side in sides]
        of = torch.from_numpy(labels)
        whole = torch.from_numpy(np.round(pixels * (self.levels - 1)).astype(np.int64))
        images = (whole[:, ::COARSE, ::COARSE].flatten(1), _split(whole[:, ::2, ::2]), _split(whole))
        seeds = distinct_seeds(seed, "networks of pixel grids", 3)
        networks: tuple[_Coarse | _Grid, ...] = (first, *grids)
        weights = []
        with one_torch_thread():
            for network, image, epochs, own in zip(networks, images, self.epochs, seeds, strict=True):
                weights.append(self._taught(network, image, of, epochs, own))
        return _FittedGrids(first, tuple(grids), tuple(weights), shares, self.sharpness)

    def _taught(self, network: _Coarse | _Grid, image: Any, labels: Any, epochs: int, seed: int) -> Weights:
        torch = torch_or_refuse()
        rng = stream(seed, "batches of pixel grids")
        weights = network.start(torch.Generator().manual_seed(seed))
        parts = [value.requires_grad_() for value in weights.values()]
        optimiser = torch.optim.AdamW(parts, lr=self.rate, weight_decay=1e-4)
        total, done = epochs * math.ceil(len(labels) / self.batch), 0
        for _ in range(epochs):
            for batch in torch.from_numpy(rng.permutation(len(labels))).split(self.batch):
                falling = 0.5 * (1.0 + math.cos(math.pi * done / total))
                optimiser.param_groups[0]["lr"] = self.rate * min(falling, (done + 1) / 50)
                optimiser.zero_grad()
                network.loss(weights, image[batch], labels[batch], int(rng.integers(len(PLAN)))).backward()
                torch.nn.utils.clip_grad_norm_(parts, 1.0)
                optimiser.step()
                done += 1
        return {name: value.detach() for name, value in weights.items()}


@dataclass(frozen=True, eq=False)
class _FittedGrids:
    first: _Coarse
    grids: tuple[_Grid, ...]
    weights: tuple[Weights, ...] = field(repr=False)
    shares: Matrix
    sharpness: tuple[float, float]

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        """So many rows; the classes first, by their shares."""
        torch = torch_or_refuse()
        classes = drawn_classes(self.shares, count, stream(seed, "classes of pixel grids"))
        generator = torch.Generator().manual_seed(distinct_seeds(seed, "pixels of pixel grids", 1)[0])
        with one_torch_thread(), torch.no_grad():
            parts = [self._images(part, generator) for part in torch.from_numpy(classes).split(AT_ONCE)]
        levels = torch.cat(parts).flatten(1).numpy().astype(np.float64)
        return np.column_stack([levels / (self.first.levels - 1), classes])

    def _images(self, labels: Any, generator: Any) -> Any:
        torch = torch_or_refuse()
        image = torch.zeros((len(labels), self.first.places), dtype=torch.int64)
        for place in range(self.first.places):
            image[:, place] = _drawn(self.first.logits(self.weights[0], image, labels, place), generator)
        side = math.isqrt(self.first.places)
        image = image.reshape(-1, side, side)
        low, high = self.sharpness
        sharp = low + (high - low) * torch.rand((len(labels), 1, 1), generator=generator)
        for grid, weights in zip(self.grids, self.weights[1:], strict=True):
            split = torch.zeros((len(labels), 4, grid.side, grid.side), dtype=torch.int64)
            split[:, 0] = image
            for step in range(len(PLAN)):
                channel, places = grid.new(step)
                found = _drawn(sharp * grid.logits(weights, split, labels, step), generator)
                split[:, channel].view(len(labels), -1)[:, places] = found
            image = _joined(split)
        return image


def _drawn(logits: Any, generator: Any) -> Any:
    """One level for each row of logits, by inversion."""
    torch = torch_or_refuse()
    rising = logits.softmax(-1).cumsum(-1)
    chance = torch.rand(logits.shape[:-1], generator=generator)[..., None] * rising[..., -1:]
    return (rising[..., :-1] <= chance).sum(-1)


def _split(images: Any) -> Any:
    """(n, 2 g, 2 g) as four grids of g x g; the first is the coarser picture, the second lies diagonally between."""
    parts = [images[:, down::2, across::2] for down, across in ((0, 0), (1, 1), (0, 1), (1, 0))]
    return torch_or_refuse().stack(parts, dim=1)


def _joined(split: Any) -> Any:
    count, _, side, _ = split.shape
    images = split.new_zeros((count, 2 * side, 2 * side))
    for place, (down, across) in enumerate(((0, 0), (1, 1), (0, 1), (1, 0))):
        images[:, down::2, across::2] = split[:, place]
    return images


def _starting(generator: Any) -> Callable[..., Any]:
    """Random weights whose sums over the inputs have variance 1."""
    torch = torch_or_refuse()

    def weights(*shape: int) -> Any:
        return torch.randn(shape, generator=generator) / math.sqrt(math.prod(shape[1:]))

    return weights


@dataclass(frozen=True)
class _Coarse:
    """One pixel after the other: masks keep from each what comes later (Germain et al. 2015)."""

    places: int
    hidden: int
    levels: int
    classes: int

    def start(self, generator: Any) -> Weights:
        torch, of = torch_or_refuse(), _starting(generator)
        return {
            "enter": of(self.hidden, 2 * self.places),
            "enter class": 0.1 * of(self.hidden, self.classes),
            "middle": of(self.hidden, self.hidden),
            "middle class": 0.1 * of(self.hidden, self.classes),
            "leave": of(self.places * self.levels, self.hidden),
            "leave bias": torch.zeros(self.places * self.levels),
        }

    def _masks(self) -> tuple[Any, Any, Any]:
        """A hidden unit of degree d sees the pixels before the d-th; so does the d-th pixel, of units up to d."""
        torch = torch_or_refuse()
        degree, place = torch.arange(self.hidden) % self.places, torch.arange(self.places)
        enter = (place[None] < degree[:, None]).repeat(1, 2)
        leave = (degree[None] <= place[:, None]).repeat_interleave(self.levels, dim=0)
        return enter, degree[None] <= degree[:, None], leave

    def logits(self, weights: Weights, image: Any, labels: Any, place: int | None = None) -> Any:
        """Of all places, (n, places, levels), or of one, (n, levels)."""
        torch = torch_or_refuse()
        functional = torch.nn.functional
        enter, middle, leave = self._masks()
        seen = torch.cat([image / (self.levels - 1), (image == 0).float()], dim=1)
        hidden = functional.silu(seen @ (weights["enter"] * enter).T + weights["enter class"].T[labels])
        more = hidden @ (weights["middle"] * middle).T + weights["middle class"].T[labels]
        hidden = hidden + functional.silu(more)
        chosen = slice(None) if place is None else slice(place * self.levels, (place + 1) * self.levels)
        found = hidden @ (weights["leave"] * leave)[chosen].T + weights["leave bias"][chosen]
        return found if place is not None else found.reshape(len(image), self.places, self.levels)

    def loss(self, weights: Weights, image: Any, labels: Any, step: int) -> Any:
        logits = self.logits(weights, image, labels)
        return torch_or_refuse().nn.functional.cross_entropy(logits.flatten(0, 1), image.flatten())


@dataclass(frozen=True)
class _Grid:
    """From a grid to one of twice its side: residual convolutions over the four grids, as far as they are known."""

    side: int
    width: int
    blocks: int
    levels: int
    classes: int

    def start(self, generator: Any) -> Weights:
        torch, of = torch_or_refuse(), _starting(generator)
        found = {
            "enter": of(self.width, 14, 3, 3),
            "enter class": 0.1 * of(self.width, self.classes),
            "enter step": 0.1 * torch.randn((len(PLAN), self.width), generator=generator),
            "leave step": torch.ones(len(PLAN), self.width),
            "leave": of(self.levels, self.width),
            "leave bias": torch.zeros(self.levels),
        }
        for block in range(self.blocks):
            found[f"scale {block}"] = torch.ones(self.width)
            found[f"first {block}"] = of(self.width, self.width, 3, 3)
            found[f"whole {block}"] = of(self.width, self.width)
            found[f"class {block}"] = 0.1 * of(self.width, self.classes)
            found[f"second {block}"] = 0.5 * of(self.width, self.width, 3, 3)
        return found

    def known(self, step: int) -> Any:
        """Which pixels of the four grids are known before a step."""
        mask = torch_or_refuse().zeros(4, self.side, self.side)
        mask[0] = 1.0
        for grid, cells in PLAN[:step]:
            for down, across in cells:
                mask[grid, down::2, across::2] = 1.0
        return mask

    def new(self, step: int) -> tuple[int, Any]:
        """The grid of a step, and which of its places it draws."""
        grid, cells = PLAN[step]
        mask = torch_or_refuse().zeros(self.side, self.side)
        for down, across in cells:
            mask[down::2, across::2] = 1.0
        return grid, mask.flatten().nonzero()[:, 0]

    def _where(self) -> Any:
        torch = torch_or_refuse()
        line = torch.linspace(-1.0, 1.0, self.side)
        return torch.stack([line[:, None].expand(-1, self.side), line[None].expand(self.side, -1)])

    def logits(self, weights: Weights, split: Any, labels: Any, step: int) -> Any:
        """Of the places that the step draws: (n, places, levels)."""
        torch = torch_or_refuse()
        functional = torch.nn.functional
        mask = self.known(step).expand(len(split), -1, -1, -1)
        seen = [
            split / (self.levels - 1) * mask,
            (split == 0) * mask,
            mask,
            self._where().expand(len(split), -1, -1, -1),
        ]
        hidden = functional.conv2d(torch.cat(seen, dim=1), weights["enter"], padding=1)
        hidden = hidden + (weights["enter class"].T[labels] + weights["enter step"][step])[:, :, None, None]
        for block in range(self.blocks):
            inner = functional.silu(functional.group_norm(hidden, 1, weights[f"scale {block}"]))
            inner = functional.conv2d(inner, weights[f"first {block}"], padding=1)
            over = inner.mean((2, 3)) @ weights[f"whole {block}"].T + weights[f"class {block}"].T[labels]
            inner = functional.silu(inner + over[:, :, None, None])
            hidden = hidden + functional.conv2d(inner, weights[f"second {block}"], padding=1)
        _, places = self.new(step)
        left = functional.silu(hidden).flatten(2)[:, :, places].transpose(1, 2) * weights["leave step"][step]
        return left @ weights["leave"].T + weights["leave bias"]

    def loss(self, weights: Weights, split: Any, labels: Any, step: int) -> Any:
        channel, places = self.new(step)
        logits = self.logits(weights, split, labels, step)
        truth = split[:, channel].flatten(1)[:, places]
        return torch_or_refuse().nn.functional.cross_entropy(logits.flatten(0, 1), truth.flatten())
