"""Scores of a loop that uses Opacus: a gradient canary through its optimizer, an input canary through its loader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.bounds import relation as as_relation
from dpaudit.execution import stream
from dpaudit.integrations.opacus._loop import Build, Fit, after_release, packages, poisson_rate, run
from dpaudit.integrations.opacus.bugs import BUGS, check_bug, wrap

SIGNS = {Relation.ADD_REMOVE: None, Relation.ZERO_OUT: 0.0, Relation.SUBSTITUTE: -1.0}
"""What the canary's gradient is multiplied by in the absent world; None: there is no such row."""


@dataclass(frozen=True, kw_only=True)
class GradientCanary:
    """A gradient of our own as one more row of per-sample gradients, just before Opacus clips them.

    In each step the row is there as a record would be: with the loader's Poisson rate; in one batch of each epoch, at
    random, if the loader shuffles; always, if one batch holds all. Absent means no row (add-remove), a row of zeros
    (zero-out) or the opposite row (substitute). A claim about every record covers one whose gradient is this. Assumed:
    an epoch is `len(loader)` steps, and `fit` looks at nothing but what it is given.

    Attributes
    ----------
    build, fit
        `build(dataset, seed)` returns model, `DPOptimizer` and loader; `fit(model, optimizer, loader)` trains.
    gradient
        Its direction: a coordinate (as `least_updated` finds it), {coordinate: value}, or one array a parameter.
        Coordinates count through the optimizer's trainable parameters, in their order. Two of one tensor with opposite
        values also see noise that is the same for all coordinates.
    sees
        "model": the score is how far the parameters went against the gradient, -u.(theta_T - theta_0), and the steps
        are hidden. "steps": the sum over steps of what the inner optimizer was given, along u; the canary then changes
        its sign from step to step, and the sum with it, so that noise that repeats cancels.
    size
        Its norm before clipping, in clipping norms. Only what is larger than 1 shows a clip that is too wide.
    bug
        A name of `BUGS`, or None.
    """

    build: Build
    fit: Fit
    dataset: Any
    gradient: Any
    relation: Relation | str = Relation.ADD_REMOVE
    sees: str = "model"
    size: float = 10.0
    bug: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", as_relation(self.relation))
        if self.relation not in SIGNS:
            raise InputError(f"a gradient canary is for {', '.join(SIGNS)}, got {self.relation}.")
        object.__setattr__(self, "gradient", _as_gradient(self.gradient))
        check.choice("sees", self.sees, ("model", "steps"))
        check.number("size", self.size, low=5e-324)
        check_bug(self.bug)

    def __call__(self, world: bool, seed: int) -> float:
        def prepare(optimizer: Any, loader: Any) -> Callable[[Any], float]:
            unit = _unit(self.gradient, optimizer)
            sign = 1.0 if world else SIGNS[as_relation(self.relation)]
            if sign is not None:
                length = sign * self.size * float(optimizer.max_grad_norm)
                turns = itertools.cycle((1.0, -1.0) if self.sees == "steps" else (1.0,))
                _insert(optimizer, [length * u for u in unit], zip(_included(loader, seed), turns, strict=False))
            return (_released if self.sees == "steps" else _displacement)(optimizer, unit)

        return run(self.build, self.fit, self.dataset, seed, prepare, bug=self.bug)

    def mutants(self) -> dict[str, GradientCanary]:
        """The same score with each bug switched on."""
        return {name: replace(self, bug=name) for name in BUGS}


@dataclass(frozen=True, kw_only=True)
class InputCanary:
    """A record (x, y) through the loop's own loader: `build` gets the data set with it, or without it (add-remove).

    With `other` the absent world has that one in its place (substitute). The score is the `statistic` of the record on
    the trained model, less that of `other`. Weaker than a gradient canary, and closer to what an attacker can do.

    Opacus samples at rate 1 / ceil(n / batch size), so that one record more can mean one step more an epoch. That is
    part of what add-remove switches, and of what an accountant for one rate does not cover.
    """

    build: Build
    fit: Fit
    dataset: Any
    record: tuple[Any, Any]
    other: tuple[Any, Any] | None = None
    statistic: Callable[[Any, Any], float] | None = None
    bug: str | None = None

    def __post_init__(self) -> None:
        for name, record in (("record", self.record), ("other", self.other)):
            if record is not None and (not isinstance(record, tuple) or len(record) != 2):
                raise InputError(f"`{name}` must be a pair (x, y), got {type(record).__name__}.")
        check_bug(self.bug)

    @property
    def relation(self) -> Relation:
        """What `world` switches."""
        return Relation.ADD_REMOVE if self.other is None else Relation.SUBSTITUTE

    def __call__(self, world: bool, seed: int) -> float:
        statistic = self.statistic or label_logit

        def read(model: Any) -> float:
            found = float(statistic(model, self.record))
            return found if self.other is None else found - float(statistic(model, self.other))

        there = self.record if world else self.other
        dataset = self.dataset if there is None else _with_record(self.dataset, there)
        return run(self.build, self.fit, dataset, seed, lambda optimizer, loader: read, bug=self.bug)

    def mutants(self) -> dict[str, InputCanary]:
        """The same score with each bug switched on."""
        return {name: replace(self, bug=name) for name in BUGS}


def label_logit(model: Any, record: tuple[Any, Any]) -> float:
    """The logit of a record's own label; a single logit speaks for label 1, and its negative for label 0."""
    torch, _ = packages()
    like = next(model.parameters())
    x = torch.as_tensor(record[0])
    x = x.to(like.device, like.dtype if x.is_floating_point() else None)
    model.eval()
    with torch.no_grad():
        logits = model(x[None]).flatten().tolist()
    if len(logits) == 1:
        return float(logits[0] if float(record[1]) > 0.5 else -logits[0])
    return float(logits[int(record[1])])


# ---------------------------------------------------------------------------------------------------------- canaries


def _included(loader: Any, seed: int) -> Iterator[bool]:
    """In which steps a record would be in the batch, from a generator of its own."""
    rng, rate = stream(seed, "batches of a canary"), poisson_rate(loader)
    if rate is not None:
        while True:
            yield bool(rng.random() < rate)
    batches, sampler = len(loader), getattr(loader, "sampler", None)
    if batches > 1 and getattr(sampler, "replacement", True):  # only a RandomSampler says False
        raise InputError(
            f"the loader must sample (Poisson), shuffle, or hold all in one batch, got {type(sampler).__name__}.",
            "keep poisson_sampling=True in make_private.",
        )
    while True:  # a place in a shuffled epoch; with drop_last it may be beyond the last batch
        place = int(rng.integers(len(loader.dataset))) // int(loader.batch_size or 1) if batches > 1 else 0
        yield from (batch == place for batch in range(batches))


def _insert(optimizer: Any, rows: list[Any], plan: Iterator[tuple[bool, float]]) -> None:
    """The canary as the last per-sample gradient of a step, also of an empty one."""
    torch, _ = packages()

    def around(clip: Any) -> None:
        if not optimizer._check_skip_next_step(pop_next=False):  # the last physical batch of this step
            included, turn = next(plan)
            for p, row in zip(optimizer.params, rows, strict=True) if included else ():
                parts = p.grad_sample if isinstance(p.grad_sample, list) else [p.grad_sample]
                if not hasattr(parts[-1], "_processed"):  # left from the step before: Opacus refuses it
                    last = torch.cat([parts[-1], turn * row[None].to(parts[-1].dtype)])
                    p.grad_sample = [*parts[:-1], last] if isinstance(p.grad_sample, list) else last
        clip()

    wrap(optimizer, "clip_and_accumulate", around)


def _displacement(optimizer: Any, unit: list[Any]) -> Callable[[Any], float]:
    start = [p.detach().clone() for p in optimizer.params]

    def read(model: Any) -> float:
        return -sum(float((u * (p.detach() - s)).sum()) for u, p, s in zip(unit, optimizer.params, start, strict=True))

    return read


def _released(optimizer: Any, unit: list[Any]) -> Callable[[Any], float]:
    along: list[float] = []

    def note() -> None:
        turn = -1.0 if len(along) % 2 else 1.0
        along.append(turn * sum(float((u * p.grad).sum()) for u, p in zip(unit, optimizer.params, strict=True)))

    after_release(optimizer, note)
    return lambda model: sum(along)


def _as_gradient(gradient: Any) -> Any:
    """{coordinate: value}, or a tuple of arrays."""
    if isinstance(gradient, int | np.integer) and not isinstance(gradient, bool):
        gradient = {int(gradient): 1.0}
    if isinstance(gradient, Mapping):
        return {check.count("gradient", place): check.number("gradient", value) for place, value in gradient.items()}
    return tuple(np.asarray(part, dtype=np.float64) for part in check.items("gradient", gradient))


def _unit(gradient: Any, optimizer: Any) -> list[Any]:
    """The gradient's direction, as one tensor a parameter."""
    torch, _ = packages()
    shapes, sizes = [tuple(p.shape) for p in optimizer.params], [p.numel() for p in optimizer.params]
    if isinstance(gradient, dict):
        flat = np.zeros(sum(sizes))
        for place, value in gradient.items():
            flat[check.count("gradient", place, high=flat.size - 1)] = value
    elif [part.shape for part in gradient] == shapes:
        flat = np.concatenate([part.ravel() for part in gradient])
    else:
        raise InputError(f"`gradient` must have the shapes {shapes}, got {[part.shape for part in gradient]}.")
    if not flat.any():
        raise InputError("`gradient` must not be zero.")
    parts = np.split(flat / np.linalg.norm(flat), np.cumsum(sizes)[:-1])
    return [
        torch.as_tensor(part.reshape(shape), dtype=p.dtype, device=p.device)
        for part, shape, p in zip(parts, shapes, optimizer.params, strict=True)
    ]


def _with_record(dataset: Any, record: tuple[Any, Any]) -> Any:
    """The data set with one record more, of the same tensor types as the others."""
    torch, _ = packages()
    pairs = list(zip(dataset[0], record, strict=True))
    row = [torch.as_tensor(new, dtype=old.dtype) if torch.is_tensor(old) else new for old, new in pairs]
    data = torch.utils.data
    if isinstance(dataset, data.TensorDataset):  # a loop may read `tensors`, so it stays of this kind
        return data.TensorDataset(*(torch.cat([old, new[None]]) for old, new in zip(dataset.tensors, row, strict=True)))
    return data.ConcatDataset([dataset, [tuple(row)]])
