"""What one dry run of a loop tells: where the data move the model least, and what the loop promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit import accounting
from dpaudit._validate import InputError
from dpaudit.bounds import Relation, UpperBound
from dpaudit.integrations.opacus._loop import Build, Fit, after_release, flat_parameters, poisson_rate, run


def least_updated(build: Build, fit: Fit, dataset: Any, *, seed: int = 0) -> int:
    """The coordinate that training without noise moves least: the sum over steps of |theta_(t+1) - theta_t|, smallest.

    There the data disturb a gradient canary least. One dry run, clipped as ever; the first of equals.
    """

    def prepare(optimizer: Any, loader: Any) -> Callable[[Any], int]:
        optimizer.noise_multiplier = 0.0
        last = flat_parameters(optimizer)
        moved = np.zeros_like(last)

        def note() -> None:  # called before each update, and once at the end
            nonlocal last, moved
            now = flat_parameters(optimizer)
            last, moved = now, moved + np.abs(now - last)

        def read(model: Any) -> int:
            note()
            return int(np.argmin(moved))

        after_release(optimizer, note)
        return read

    return run(build, fit, dataset, seed, prepare)


def claim(
    build: Build, fit: Fit, dataset: Any, *, delta: float, relation: Relation | str, seed: int = 0, unit: str = "record"
) -> UpperBound:
    """What this loop promises: `accounting.dp_sgd` of the noise multiplier, rate and number of steps of one dry run.

    Assumed: every run makes as many steps as this one. Refused where the accountant's theorem does not hold: batches of
    fixed size instead of Poisson samples, and noise multipliers that change on the way.
    """
    multipliers: list[float] = []

    def prepare(optimizer: Any, loader: Any) -> Callable[[Any], float]:
        rate = 1.0 if len(loader) == 1 and poisson_rate(loader) is None else poisson_rate(loader)
        if rate is None:
            raise InputError(
                f"the loader must draw Poisson samples, got {len(loader)} batches of fixed size an epoch.",
                "keep poisson_sampling=True in make_private; the accountant does not cover shuffled batches.",
            )
        after_release(optimizer, lambda: multipliers.append(float(optimizer.noise_multiplier)))
        return lambda model: float(rate)

    rate = run(build, fit, dataset, seed, prepare)
    if not multipliers:
        raise InputError("`fit` must make at least one step with the optimizer that `build` returned, and made none.")
    if len(set(multipliers)) > 1:
        raise InputError(
            f"the noise multiplier must stay the same, got {min(multipliers):g} to {max(multipliers):g}.",
            "account for the schedule yourself and give the claim as a number.",
        )
    return accounting.dp_sgd(
        noise_multiplier=multipliers[0],
        sampling_rate=rate,
        steps=len(multipliers),
        delta=delta,
        relation=relation,
        unit=unit,
    )
