"""Trainers that are broken on purpose, one bug at a time, and what they did to a privacy test.

A bug is switched on by a keyword of the score, known by its name, or by the score's own `mutants()`. They are put to
the test by `dpaudit.testing.kill_mutants`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.games.multi_run import Score, check_score_call

NO_MUTANTS = "no mutants: the score has no hyper-parameters with known names, and offers no `mutants()`."
DID_NOT_RUN = "{name} failed to run: {failure}"
NOISE_SCALES = ("noise_scale", "sigma", "noise")
"""Names of a standard deviation; `noise_multiplier` is a multiple of the clip, as everywhere in the field."""
CLIPS = ("clip", "clip_norm", "max_grad_norm")
_NOISES = ("noise_multiplier", *NOISE_SCALES)
_STANDARD: tuple[tuple[str, tuple[str, ...], Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    ("half_noise", _NOISES, lambda value: _is_number(value) and value > 0.0, lambda value: value / 2.0),
    ("deviation_as_variance", _NOISES, lambda value: _is_number(value) and value > 1.0, math.sqrt),
    ("double_clip", CLIPS, lambda value: _is_number(value) and value > 0.0, lambda value: 2 * value),
    (
        "double_sampling_rate",
        ("sampling_rate", "sample_rate"),
        lambda value: _is_number(value) and 0.0 < value <= 0.5,
        lambda value: 2 * value,
    ),
    ("fourfold_steps", ("steps",), lambda value: _is_number(value) and value > 0, lambda value: 4 * value),
    (
        "dataset_normaliser",
        ("normaliser", "normalizer"),
        lambda value: isinstance(value, str) and value == "expected",
        lambda value: "dataset",
    ),
)
"""Name of the mutant, parameters that it changes, for which defaults, and to what."""


@dataclass(frozen=True)
class Mutated:
    """A score with some of its hyper-parameters changed; worker processes can receive it if they can the score."""

    score: Any
    changes: tuple[tuple[str, Any], ...]

    def __call__(self, world: bool, seed: int) -> float:
        found: float = self.score(world, seed, **dict(self.changes))
        return found

    @property
    def many(self) -> Callable[..., Any]:
        """The score's own `many` with the same changes, where it takes them."""
        many, changes = self.score.many, dict(self.changes)
        try:
            inspect.signature(many).bind(True, [0], **changes)
        except (TypeError, ValueError):  # the honest `many` must not stand in for the mutant
            raise AttributeError("many") from None
        return functools.partial(many, **changes)

    @property
    def change(self) -> str:
        """What is changed, in words."""
        honest = _hyper_parameters(self.score)
        return ", ".join(f"{name} {_shown(honest.get(name))} -> {_shown(value)}" for name, value in self.changes)


def mutants(score: Score) -> dict[str, Score]:
    """The broken forms of a score: those of its own `mutants()`, or else those its hyper-parameters allow.

    A score that offers `mutants() -> Mapping[str, Score]` is taken at its word. Of any other the keyword parameters
    with defaults are changed, known by their names:

    - `half_noise`: `noise_multiplier`, `noise_scale`, `sigma` or `noise` x 0.5;
    - `deviation_as_variance`: the square root of the same, where it is above 1;
    - `double_clip`: `clip`, `clip_norm` or `max_grad_norm` x 2, while the noise stays what it was;
    - `double_sampling_rate`: `sampling_rate` or `sample_rate` x 2, where it is at most 0.5;
    - `fourfold_steps`: `steps` x 4;
    - `dataset_normaliser`: "dataset" for a `normaliser` that is "expected" (batch size).

    `double_clip` is a bug only if the noise does not follow the clip. `noise_multiplier` is taken to be a multiple of
    the clip and is halved beside it; `noise_scale`, `sigma` and `noise` are taken to be a standard deviation, and stay.

    >>> def score(world, seed, *, noise_multiplier=1.0, clip=1.0):
    ...     return clip * (world + noise_multiplier * np.random.default_rng(seed).normal())
    >>> for name, mutant in mutants(score).items():
    ...     print(f"{name}: {mutant.change}")
    half_noise: noise_multiplier 1 -> 0.5
    double_clip: clip 1 -> 2, noise_multiplier 1 -> 0.5
    """
    check_score_call(score)
    population = getattr(score, "mutants", None)
    if population is None:
        return dict(_derived(score))
    if not callable(population):
        raise InputError(f"`mutants` of a score must be a function without arguments, got {population!r}.")
    found = population()
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise InputError(f"`mutants()` of a score must return scores by name, got {found!r}.")
    for mutant in found.values():
        check_score_call(mutant)
    return dict(found)


def _derived(score: Any) -> Iterator[tuple[str, Mutated]]:
    honest = _hyper_parameters(score)
    for name, parameters, applies, changed in _STANDARD:
        found = [parameter for parameter in parameters if parameter in honest and applies(honest[parameter])]
        for parameter in found:
            changes = [(parameter, changed(honest[parameter]))]
            if parameter in CLIPS:
                changes += _same_noise(honest)
            yield name if parameter == found[0] else f"{name} ({parameter})", Mutated(score, tuple(changes))


def _same_noise(honest: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What keeps the noise where it was, under twice the clip."""
    multiplier = honest.get("noise_multiplier")
    if multiplier is None or not _is_number(multiplier) or any(_is_number(honest.get(name)) for name in NOISE_SCALES):
        return []
    return [("noise_multiplier", multiplier / 2.0)]


def _hyper_parameters(score: Any) -> dict[str, Any]:
    """Keyword parameters with their defaults; world and seed are the first two positional ones."""
    try:
        parameters = list(inspect.signature(score).parameters.values())
    except (TypeError, ValueError):  # built in C, without a signature
        return {}
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return {
        one.name: one.default
        for one in parameters
        if one.default is not one.empty and one.kind is not one.POSITIONAL_ONLY and one not in by_place[:2]
    }


def _is_number(value: Any) -> bool:
    kinds = int | float | np.integer | np.floating
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if _is_number(value) else str(value)


@dataclass(frozen=True, kw_only=True)
class MutantOutcome:
    """What one mutant did to a test. `failure` says why it could not run; it is then neither killed nor survived."""

    name: str
    killed: bool
    runs: int
    p_value: float | None
    seconds: float = field(compare=False)
    change: str = ""
    failure: str | None = None

    @property
    def outcome(self) -> str:
        """ "killed", "survived" or "failed to run"."""
        return "failed to run" if self.failure is not None else "killed" if self.killed else "survived"


@dataclass(frozen=True)
class MutationReport:
    """Which bugs turn a privacy test red. It says nothing about the honest score, and a kill no more than "red"."""

    outcomes: tuple[MutantOutcome, ...]

    @property
    def killed(self) -> tuple[str, ...]:
        """Bugs with which the test goes red."""
        return tuple(one.name for one in self.outcomes if one.outcome == "killed")

    @property
    def survived(self) -> tuple[str, ...]:
        """Bugs with which it stays green: it misses them, or they cost no privacy here."""
        return tuple(one.name for one in self.outcomes if one.outcome == "survived")

    @property
    def failed(self) -> tuple[str, ...]:
        """Mutants that could not run."""
        return tuple(one.name for one in self.outcomes if one.failure is not None)

    def __str__(self) -> str:
        if not self.outcomes:
            return NO_MUTANTS
        columns = {
            "mutant": [one.name for one in self.outcomes],
            "change": [one.change for one in self.outcomes],
            "outcome": [one.outcome for one in self.outcomes],
        }
        lines = [f"{'runs':>7}", *(f"{one.runs:>7,}" for one in self.outcomes)]
        for title, cells in reversed([(title, cells) for title, cells in columns.items() if any(cells)]):
            width = max(map(len, [title, *cells]))
            lines = [f"{cell:<{width}}  {line}" for cell, line in zip([title, *cells], lines, strict=True)]
        failed = [{"name": one.name, "failure": one.failure} for one in self.outcomes if one.failure is not None]
        return "\n".join([*lines, *(filled(DID_NOT_RUN, values) for values in failed)])
