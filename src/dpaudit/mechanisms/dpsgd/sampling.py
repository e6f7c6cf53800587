"""Coins and noise of a block, keyed by seed, block, step and purpose; the noise of each bug."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.mechanisms.dpsgd.config import BATCH_OF_NOISE, WORKERS, DPSGDConfig

Array = NDArray[np.float32]
STEP, START, EPOCH, REUSED = range(4)


def keyed(seed: int, block: int, step: int, purpose: int) -> np.random.Generator:
    """The stream of one purpose in one step of one block: nothing else draws from it."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(block, step, purpose))))


def coins(rng: np.random.Generator, shape: tuple[int, ...], rate: float) -> NDArray[np.bool_]:
    """Independent coins; the rate is rounded down to a multiple of 2^-32, so that nobody is sampled too often."""
    count = math.prod(shape)
    return (_words(rng, count) < np.uint32(math.floor(rate * 2.0**32))).reshape(shape)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Standard normals by the polar form of Box and Muller, three times as fast as numpy's: this is most of the floor.

    Radii come from 32 random bits, so no value is beyond 6.8 (which has probability 1e-11).
    """
    count = math.prod(shape)
    half = (count + 1) // 2
    words = _words(rng, 2 * half)
    radius = words[:half].astype(np.float32)
    radius += np.float32(0.5)
    radius *= np.float32(2.0**-32)
    np.log(radius, out=radius)
    radius *= np.float32(-2.0)
    np.sqrt(radius, out=radius)
    angle = words[half:].view(np.int32).astype(np.float32)
    angle *= np.float32(math.pi * 2.0**-31)
    found = np.empty(2 * half, dtype=np.float32)
    np.cos(angle, out=found[:half])
    np.sin(angle, out=found[half:])
    found[:half] *= radius
    found[half:] *= radius
    return found[:count].reshape(shape)


def _words(rng: np.random.Generator, count: int) -> NDArray[np.uint32]:
    raw = rng.bit_generator.random_raw((count + 1) // 2)
    return np.asarray(raw).view(np.uint32)[:count]


def noise(config: DPSGDConfig, rng: np.random.Generator, shape: tuple[int, ...]) -> Array | np.float32:
    """Noise on a sum of gradients that were clipped to `recipe.clip`; the bugs of its size and shape are here."""
    sigma, bug = config.noise_multiplier, config.bug
    if sigma == 0.0:
        return np.float32(0.0)
    if bug == "workers_divide_noise":
        draws = sum((gaussian(rng, shape) for _ in range(WORKERS)), start=np.zeros(shape, dtype=np.float32))
        return np.float32(sigma * config.clip / WORKERS) * draws
    if bug == "broadcast_noise":
        rows, models, columns = shape
        scalar = np.float32(sigma * config.clip) * gaussian(rng, (1, models, 1))
        return np.broadcast_to(scalar, (rows, models, columns))
    share = {"noise_divided_twice": 1.0 / BATCH_OF_NOISE, "half_noise": 0.5}.get(bug or "", 1.0)
    scale = math.sqrt(sigma) if bug == "deviation_as_variance" else sigma * share
    found = gaussian(rng, shape)
    found *= np.float32(scale * config.clip)
    return found
