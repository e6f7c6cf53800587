"""Which generators are closest, by what a baseline without helper shows (ours, no figure of paper 004).

Pictures: pixel grids and an adversarial network, fitted to the same rows; and pixel grids of the same pictures in more
grey levels, to say how far a generator of this size then is. Tables: see `tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit import estimators
from dpaudit.execution import Execution, distinct_seeds
from dpaudit.fitted.generators import Adversarial
from dpaudit.games.panoramia import Panoramia
from dpaudit_experiments.common.arrays import Arrays, kept, shared_folder
from dpaudit_experiments.common.figure import Rows
from dpaudit_experiments.paper_004.images import ImageScale, pool_of

PICTURES = ("pixel grids", "adversarial network")
GREY = 16
"""Levels of the pictures that are not silhouettes."""


@dataclass(frozen=True)
class Closeness:
    """c_lb of one game on generated pictures."""

    scale: ImageScale
    seed: int
    folder: str
    epochs: int
    generator: str

    def __call__(self, game: int) -> list[float]:
        pool = pool_of(self.scale, self.seed, self.folder)
        made = pool.rows[pool.generated]
        if self.generator != PICTURES[0]:
            made = adversarial_rows(self.scale, self.seed, self.folder, self.epochs)
        audited = pool.rows[pool.audited]
        play = Panoramia(
            members=audited,
            target=lambda rows: np.zeros(len(rows)),
            generated=made,
            view=self.scale.view,
            shares=(0.0, 0.5, 0.5),
        )
        region = estimators.panoramia(play.play(seed=game).only)
        return [region.divergence, region.ceiling or 0.0]


def adversarial_rows(scale: ImageScale, seed: int, folder: str, epochs: int) -> NDArray[np.float32]:
    """As many rows as the games need."""

    def made(scale: ImageScale, seed: int, epochs: int) -> Arrays:
        pool = pool_of(scale, seed, folder)
        own = pool.rows[pool.members[: scale.generator_rows]]
        seeds = distinct_seeds(seed, "adversarial pictures", 2)
        fitted = Adversarial(epochs=epochs, levels=scale.levels).fit(own, seed=seeds[0])
        return {"rows": fitted.sample(pool.audited.size, seed=seeds[1]).astype(np.float32)}

    return kept(folder, made, scale, seed, epochs)["rows"]


def picture_rows(scale: ImageScale, seed: int, execution: Execution, *, epochs: int) -> Rows:
    """A line a game; the ceiling is what a baseline without error would have shown."""
    folder, games = shared_folder(execution), distinct_seeds(seed, "games on generators", scale.few_games)
    found: Rows = []
    grey = replace(scale, generator=replace(scale.generator, levels=GREY))
    works = {generator: Closeness(scale, seed, folder, epochs, generator) for generator in PICTURES}
    works[f"pixel grids, {GREY} grey levels"] = Closeness(grey, seed, folder, epochs, PICTURES[0])
    for generator, work in works.items():
        for number, line in enumerate(execution.map(work, games, title=f"pictures by {generator}")):
            about = {"modality": "images", "generator": generator, "poor": 0.0, "game": number}
            found.append({**about, "closeness": line[0], "ceiling": line[1]})
    return found
