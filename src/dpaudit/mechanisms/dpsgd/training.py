"""The training itself: many models as one array program, in float32.

64 models make a block. In each step a block takes one Poisson sample for each model, clips every example's gradient,
sums, adds Gaussian noise to the sum, divides by the *expected* batch size and takes an optimiser's step. Coins and
noise are keyed by seed, block and step, so the models are bitwise the same whatever the number of blocks in memory, of
threads and workers, or of models that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import one_thread, one_torch_thread
from dpaudit.mechanisms.dpsgd import sampling
from dpaudit.mechanisms.dpsgd.canaries import Canary, model_lengths
from dpaudit.mechanisms.dpsgd.config import AUGMENTATIONS, DPSGDConfig
from dpaudit.mechanisms.dpsgd.linear_models import (
    SMALL,
    Array,
    Bound,
    Coins,
    LinearHead,
    check_labels,
    chosen,
    length_factors,
)

BLOCK = 64
NEEDS_TWO = ("layer_clip", "broadcast_noise", "silent_group")
"""Bugs that a model of one parameter cannot have."""


def _kept(name: str, meaning: str) -> property:
    """An array of a state, as the model shows it."""
    return property(lambda state: state.model.outward(state.kept[name]), doc=meaning)


@dataclass(frozen=True)
class State:
    """What an observer may look at after a step, for one block: arrays of (rows, models, columns)."""

    step: int
    model: Bound
    kept: dict[str, Array]
    """The arrays as the model keeps them."""

    weights = _kept("weights", "Parameters.")
    start = _kept("start", "Parameters before the first step.")
    released = _kept("released", "The noisy sum of this step, as the mechanism released it.")
    total = _kept("total", "The sum of all releases so far.")

    def along(self, values: Array, direction: Any) -> Array:
        """The component of each model's `values` along a direction of the parameters' shape."""
        wanted = np.asarray(direction, dtype=np.float32).reshape(self.model.shape)
        return np.einsum("amb,ab->m", values, wanted)

    def outputs(self, rows: Any) -> Array:
        """Logits of these rows: (rows, models, outputs)."""
        return self.model.outputs(self.kept["weights"], rows)


Observer = Callable[[State], Any]
"""One number a model. With an attribute `reduce`, it is asked after every step, and what it said so far, an array of
(steps, models), is reduced to one number a model."""


def train(
    config: DPSGDConfig,
    x: Any,
    y: Any,
    *,
    canary: Canary | None = None,
    worlds: Any = None,
    models: int | None = None,
    seed: int,
    observe: Sequence[Observer] = (),
    at: Sequence[int] | None = None,
    first_block: int = 0,
    width: int = BLOCK,
    threads: int = 1,
    final: bool = True,
    records: int | None = None,
) -> tuple[NDArray[np.float32], Array]:
    """Train models and watch them.

    Parameters
    ----------
    x, y
        The data that all models share, a row a record; append a column of ones for a bias.
    canary, worlds
        What differs, and for each model whether its world is the one with `present` (for several canaries, a row of
        worlds for each).
    models
        How many, where there are no worlds.
    observe, at
        Functions of a `State` that give one number a model, and the steps (from 1) after which they are asked; by
        default the last one.
    first_block
        Where these models stand among all: a job that trains some of the blocks gets the same ones.
    width
        Models a block. Another width is another draw of the same game; 1 is for a single training.
    threads
        Blocks trained at the same time (torch modules: one after the other); it changes no number.
    final
        Whether to return the parameters, which may be much to keep.
    records
        The size of the data set that the divisor of the sum counts with; by default the rows and the canaries. It must
        not depend on who takes part.

    Returns
    -------
    (len(observe), len(at), models) observations, and the final parameters as (models, rows, columns).
    """
    rows, labels, inside = _arguments(config, x, y, canary, worlds, models)
    for name, value, low in (("seed", seed, 0), ("first_block", first_block, 0), ("width", width, 1)):
        check.count(name, value, low=low)
    check.count("threads", threads, low=1)
    steps = [config.steps] if at is None else [check.count("at", t, low=1, high=config.steps) for t in at]
    if not steps:
        raise InputError("`at` must name at least one step, got none.")
    with one_thread():
        count = inside.shape[-1]
        rotate = config.optimizer != "adam" and config.bug is None and (canary is None or canary.turns)
        model = bound_model(config, rows, labels, rotate=rotate)
        if config.bug in NEEDS_TWO and model.shape[0] * model.shape[1] < 2:
            raise InputError(f"the bug {config.bug!r} needs a model of at least two parameters, got one.")
        sizes = (
            labels.size,
            labels.size + inside.shape[0] if records is None else check.count("records", records, low=1),
        )
        seen = np.empty((len(observe), len(steps), count), dtype=np.float32)
        kept = np.empty((count if final else 0, *model.shape), dtype=np.float32)

        def one(start: int) -> None:
            here = slice(start, min(start + width, count))
            used = here.stop - here.start
            worlds_here = np.zeros((inside.shape[0], width), dtype=np.bool_)
            worlds_here[:, :used] = inside[:, here]
            key = (seed, first_block + start // width)
            block = _Block(config, model, sizes, canary, worlds_here, key)
            seen[:, :, here] = block.run(observe, steps, config.steps if final else max(steps))[:, :, :used]
            if final:
                kept[here] = model.outward(block.weights).transpose(1, 0, 2)[:used]

        starts = range(0, count, width)
        if threads == 1 or len(starts) == 1 or not model.threaded:
            with nullcontext() if model.threaded else one_torch_thread():
                for start in starts:
                    one(start)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, starts))
        return seen, kept


def bound_model(config: DPSGDConfig, x: Array, y: NDArray[Any], *, rotate: bool = False) -> Bound:
    """The recipe's model on this data set; a linear head may `rotate` its parameters where nothing depends on axes."""
    check_labels(config, y)
    return LinearHead(config, x, y, rotate=rotate) if config.model is None else config.model.bind(config, x, y)


def _arguments(
    config: DPSGDConfig, x: Any, y: Any, canary: Canary | None, worlds: Any, models: int | None
) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
    """Data, labels, and the worlds as (canaries, models): no rows without a canary."""
    rows, labels = np.ascontiguousarray(x, dtype=np.float32), check.vector("y", y)
    if rows.ndim != 2 or rows.shape[0] != labels.size:
        raise InputError(f"`x` must be a row for each of {labels.size} labels, got shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise InputError("`x` must be finite.")
    if (canary is None) != (worlds is None):
        raise InputError("`canary` and `worlds` belong together: give both or none.")
    if canary is None:
        return rows, labels, np.zeros((0, check.count("models", models, low=1)), dtype=np.bool_)
    if not hasattr(canary, "gradients"):
        raise InputError(f"`canary` must be a GradientCanary or the like, got {type(canary).__name__}.")
    found = np.asarray(worlds)
    if not found.size:
        raise InputError("`worlds` must hold at least one world, got none.")
    inside = check.booleans("worlds", found.reshape(-1)).reshape(1 if found.ndim < 2 else found.shape[0], -1)
    for record in (getattr(canary, "present", None), getattr(canary, "absent", None)):
        if isinstance(record, tuple):
            if np.asarray(record[0]).shape != rows.shape[1:]:
                raise InputError(f"a canary must have {rows.shape[1]} features, got {np.asarray(record[0]).size}.")
            check_labels(config, np.array([record[1]]))
    if inside.shape[0] != canary.count:
        raise InputError(f"`worlds` must have a row for each of {canary.count} canaries, got {inside.shape[0]}.")
    if models is not None and models != inside.shape[1]:
        raise InputError(f"`models` must be the number of worlds ({inside.shape[1]}), got {models}.")
    return rows, labels, inside


class _Block:
    """Models in training, always a whole block, so that the last ones do not change the others' arithmetic."""

    def __init__(
        self,
        config: DPSGDConfig,
        model: Bound,
        sizes: tuple[int, int],
        canary: Canary | None,
        worlds: NDArray[np.bool_],
        key: tuple[int, int],
    ):
        self.config, self.model, self.canary, self.worlds, self.key = config, model, canary, worlds, key
        (self.others, self.records), self.width = sizes, worlds.shape[1]
        same = not config.random_start
        rng = sampling.keyed(0, 0, 0, sampling.START) if same else self._rng(sampling.START, 0)
        self.weights = model.start(rng, self.width, same=same)
        self.start, self.total = self.weights.copy(), np.zeros_like(self.weights)
        moments = {"sgd": 0, "momentum": 1, "adam": 2}[config.optimizer]
        self.moments = [np.zeros_like(self.weights) for _ in range(moments)]
        self.order = np.zeros((0, self.width), dtype=np.int64)

    def run(self, observe: Sequence[Observer], at: Sequence[int], until: int) -> NDArray[np.float32]:
        """Train until this step; (observers, steps asked for, models)."""
        seen = np.empty((len(observe), len(at), self.width), dtype=np.float32)
        paths = {number: np.empty((self.config.steps, self.width), dtype=np.float32) for number in _paths(observe)}
        for step in range(1, until + 1):
            state = self.advance(step)
            for number, path in paths.items():
                path[step - 1] = observe[number](state)
            places = [place for place, wanted in enumerate(at) if wanted == step]
            for number, observer in enumerate(observe) if places else ():
                reduce = getattr(observer, "reduce", None)
                found = observer(state) if reduce is None else reduce(paths[number][:step])
                seen[number, places] = np.asarray(found, dtype=np.float32)
        return seen

    def advance(self, step: int) -> State:
        config = self.config
        rng = self._rng(sampling.STEP, step)
        reused = config.bug == "reused_key"  # only the noise: the coins of a step stay its own
        noise = sampling.noise(config, self._rng(sampling.REUSED, 0) if reused else rng, self.weights.shape)
        coins, canary_coins = self._sample(rng, step)
        released = self._clipped_sum(coins, canary_coins)
        if config.bug == "silent_group":
            noise = np.array(np.broadcast_to(noise, released.shape))
            noise[self.model.groups[1]] = 0.0
        released += noise
        if config.bug == "realised_batch_size":
            realised = self._batch_sizes(coins, canary_coins)
            released *= (config.sampling_rate * self.records / np.maximum(realised, 1.0)).astype(np.float32)[:, None]
        self.total += released
        divisor = self.records * (1.0 if config.bug == "dataset_normaliser" else config.sampling_rate)
        self._update(step, released * np.float32(1.0 / divisor))
        kept = {"weights": self.weights, "start": self.start, "released": released, "total": self.total}
        return State(step, self.model, kept)

    def _rng(self, purpose: int, step: int) -> np.random.Generator:
        return sampling.keyed(*self.key, step, purpose)

    # -------------------------------------------------------------------------------------------------------- sampling

    def _sample(self, rng: np.random.Generator, step: int) -> tuple[Coins, Array]:
        """Who takes part: (records, models) or None for everybody, and (canaries, models) as 0 and 1."""
        canaries = self.worlds.shape[0]
        others, rate = self.others, self.config.sampling_rate
        if self.config.bug == "shuffled_batches":
            drawn = self._shuffled(step)
            return drawn[:others], drawn[others:].astype(np.float32)
        if rate == 1.0:
            return None, np.ones((canaries, self.width), dtype=np.float32)
        drawn = sampling.coins(rng, (others + canaries, self.width), rate)
        return drawn[:others], drawn[others:].astype(np.float32)

    def _shuffled(self, step: int) -> NDArray[np.bool_]:
        """Bug 8: the data are shuffled once an epoch and cut into 1 / rate batches."""
        batches = max(1, round(1.0 / self.config.sampling_rate))
        epoch, batch = divmod(step - 1, batches)
        if batch == 0:
            present = self.others + self.worlds.shape[0]
            keys = self._rng(sampling.EPOCH, epoch).random((present, self.width))
            self.order = keys.argsort(axis=0).argsort(axis=0) * batches // present
        return self.order == batch

    def _batch_sizes(self, coins: Coins, canary_coins: Array) -> NDArray[Any]:
        """Bug 9: how many records were drawn; an absent canary is none of them unless another stands in its place."""
        others = self.others if coins is None else coins.sum(axis=0)
        counted = canary_coins if self.config.replaces else canary_coins * self.worlds
        return np.asarray(others + counted.sum(axis=0))

    # ------------------------------------------------------------------------------------------------ clip, sum, update

    def _clipped_sum(self, coins: Coins, canary_coins: Array) -> Array:
        """Sum over each model's own sample of the clipped gradients (theory:errata#001-8); canaries go the same way."""
        config, model = self.config, self.model
        seen = model.look(self.weights, coins)
        own = None
        if self.canary is not None:
            own = self.canary.gradients(model, self.weights, self.worlds)
        if config.bug == "layer_clip":
            found = np.empty_like(self.weights)
            for number, part in enumerate(model.groups):
                factors = length_factors(model.lengths(seen, number), config.clip)
                found[part] = model.combine(seen, chosen(factors, coins))[part]
                if own is not None:
                    found[part] += own.clipped_sum(config.clip, canary_coins, part)
            return found
        if config.bug == "batch_clip":
            found = model.combine(seen, chosen(np.ones(model.lengths(seen).shape, dtype=np.float32), coins))
            if own is not None:
                found += own.clipped_sum(None, canary_coins)
            found *= length_factors(model_lengths(found), config.clip)[:, None]
            return found
        if config.bug == "private_scaling":
            lengths = chosen(model.lengths(seen), coins)
            longest = lengths.max(axis=0, initial=0.0)
            if own is not None:
                longest = np.maximum(longest, (own.lengths() * canary_coins).max(axis=0, initial=0.0))
            factors = np.float32(config.clip) / np.maximum(longest, SMALL)
            found = model.combine(seen, chosen(np.broadcast_to(factors, lengths.shape), coins))
            if own is not None:
                found += own.clipped_sum(None, canary_coins * factors)
            return found
        clip = config.clip * (2.0 if config.bug == "double_clip" else 1.0)
        times = np.float32(AUGMENTATIONS if config.bug == "summed_augmentations" else 1.0)
        found = model.clipped_sum(seen, clip, coins)
        if own is not None:
            found += own.clipped_sum(clip, canary_coins)
        if times != 1.0:
            found *= times
        return found

    def _update(self, step: int, gradient: Array) -> None:
        rate = np.float32(self.config.learning_rate)
        if self.config.optimizer == "sgd":
            gradient *= rate
            self.weights -= gradient
        elif self.config.optimizer == "momentum":
            (first,) = self.moments
            first *= np.float32(0.9)
            first += gradient
            self.weights -= rate * first
        else:
            first, second = self.moments
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            mean, square = first / np.float32(1.0 - 0.9**step), second / np.float32(1.0 - 0.999**step)
            self.weights -= rate * mean / (np.sqrt(square) + np.float32(1e-8))


def _paths(observe: Sequence[Observer]) -> Iterator[int]:
    return (number for number, observer in enumerate(observe) if hasattr(observer, "reduce"))
