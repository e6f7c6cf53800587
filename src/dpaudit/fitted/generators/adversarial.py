"""A small generative adversarial network for small grey pictures, class by class (extra `torch`).

The paper's StyleGAN2 at the size of this machine: convolutions from noise and a class to a picture, against a critic
that also hears the class (Miyato and Koyama 2018), trained by the hinge loss. `PixelGrids` is closer in the same
minutes (figure "generators" of docs/paper-004.md); this one samples at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit.execution import distinct_seeds, one_torch_thread, stream, torch_or_refuse
from dpaudit.fitted.generators.images import drawn_classes, pictures_and_classes

Matrix = NDArray[np.float64]
SIDE = 28
AT_ONCE = 500


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    """Pictures of 28 x 28 pixels in [0, 1], and then their class; classes come by their shares.

    Attributes
    ----------
    noise, width
        Numbers that a picture is made of, and channels of the widest picture.
    epochs, batch, rate
        Passes over the rows, pictures a step, and the learning rate of both networks.
    levels
        Grey levels that pictures are rounded to; 256 are 8 bits.
    """

    noise: int = 64
    width: int = 24
    epochs: int = 25
    batch: int = 64
    rate: float = 3e-4
    levels: int = 256

    def __post_init__(self) -> None:
        for name in ("noise", "width", "epochs", "batch"):
            check.count(name, getattr(self, name), low=1)
        check.count("levels", self.levels, low=2, high=256)
        check.number("rate", self.rate, low=0.0)

    def fit(self, x: Any, *, seed: int = 0) -> _FittedAdversarial:
        torch = torch_or_refuse()
        pixels, classes = pictures_and_classes(x, side=SIDE)
        shares = np.bincount(classes) / len(classes)
        own = distinct_seeds(seed, "adversarial networks", 1)[0]
        with one_torch_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(own)
            maker = _networks(self, len(shares))
            self._taught(*maker, torch.from_numpy(pixels).float()[:, None], torch.from_numpy(classes), own)
        return _FittedAdversarial(self, maker[0], shares)

    def _taught(self, maker: Any, critic: Any, pictures: Any, classes: Any, seed: int) -> None:
        torch = torch_or_refuse()
        rng = stream(seed, "batches of adversarial networks")
        steps = [torch.optim.Adam(part.parameters(), lr=self.rate, betas=(0.5, 0.99)) for part in (maker, critic)]
        for _ in range(self.epochs):
            for batch in torch.from_numpy(rng.permutation(len(classes))).split(self.batch):
                real, of = pictures[batch], classes[batch]
                made = maker(torch.randn(len(batch), self.noise), of)
                told = critic(real, of), critic(made.detach(), of)
                steps[1].zero_grad()
                (torch.relu(1.0 - told[0]).mean() + torch.relu(1.0 + told[1]).mean()).backward()
                steps[1].step()
                steps[0].zero_grad()
                (-critic(made, of).mean()).backward()
                steps[0].step()
        maker.eval()


@dataclass(frozen=True, eq=False)
class _FittedAdversarial:
    settings: Adversarial
    maker: Any = field(repr=False)
    shares: Matrix

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        """So many rows; the classes first, by their shares."""
        torch = torch_or_refuse()
        classes = drawn_classes(self.shares, count, stream(seed, "classes of adversarial networks"))
        generator = torch.Generator().manual_seed(distinct_seeds(seed, "noise of adversarial networks", 1)[0])
        with one_torch_thread(), torch.no_grad():
            parts = [
                self.maker(torch.randn((len(part), self.settings.noise), generator=generator), part)
                for part in torch.from_numpy(classes).split(AT_ONCE)
            ]
        pixels = torch.cat(parts).flatten(1).double().numpy()
        last = self.settings.levels - 1
        return np.column_stack([np.round(pixels * last) / last, classes])


def _networks(settings: Adversarial, classes: int) -> tuple[Any, Any]:
    """The maker and its critic."""
    torch = torch_or_refuse()
    nn, width = torch.nn, settings.width
    spectral = nn.utils.parametrizations.spectral_norm

    class Maker(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.classes = nn.Embedding(classes, settings.noise)
            self.enter = nn.Linear(2 * settings.noise, 4 * width * 49)
            self.rest = nn.Sequential(
                nn.BatchNorm2d(4 * width),
                nn.ReLU(),
                nn.Upsample(scale_factor=2.0),  # transposed convolutions leave the pattern of a chess board
                nn.Conv2d(4 * width, 2 * width, 3, padding=1),
                nn.BatchNorm2d(2 * width),
                nn.ReLU(),
                nn.Upsample(scale_factor=2.0),
                nn.Conv2d(2 * width, width, 3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, 1, 3, padding=1),
                nn.Hardsigmoid(),  # black and white are exact
            )

        def forward(self, noise: Any, of: Any) -> Any:
            entered = self.enter(torch.cat([noise, self.classes(of)], dim=1))
            return self.rest(entered.view(-1, 4 * width, 7, 7))

    class Critic(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.seen = nn.Sequential(
                spectral(nn.Conv2d(1, width, 4, 2, 1)),
                nn.LeakyReLU(0.1),
                spectral(nn.Conv2d(width, 2 * width, 4, 2, 1)),
                nn.LeakyReLU(0.1),
                spectral(nn.Conv2d(2 * width, 4 * width, 3, 1, 1)),
                nn.LeakyReLU(0.1),
            )
            self.leave = spectral(nn.Linear(4 * width, 1))
            self.classes = spectral(nn.Embedding(classes, 4 * width))

        def forward(self, pictures: Any, of: Any) -> Any:
            seen = self.seen(pictures).sum((2, 3))
            return self.leave(seen)[:, 0] + (seen * self.classes(of)).sum(1)

    return Maker(), Critic()
