"""Does a score, a mechanism or a game keep its protocol? It says nothing about privacy: an audit does."""

from __future__ import annotations

import copy
import json
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.auditing.audit import declared_ids, undeclared_checks
from dpaudit.bounds import Relation
from dpaudit.execution import Execution, RunStore
from dpaudit.games import Play, Runner, commitment, evidences_of, fingerprint, is_game, repeats_of
from dpaudit.games.multi_run import Score

MOVES = "the field `{field}` moves the fingerprint"
BLIND = "`attempts` does not depend on the values of `{field}`"


class ConformanceError(AssertionError):
    """What a score or mechanism does not keep of its protocol, one line each."""


def check_score(score: Score, *, seeds: tuple[int, int] = (1, 2)) -> None:
    """Raise `ConformanceError` unless a score keeps its protocol: finite, reproducible, touching no global state."""
    _raise_failures(_score_checks(score, seeds), "score")


def _score_checks(score: Any, seeds: tuple[int, int]) -> Iterator[tuple[str, Callable[[], bool]]]:
    def values() -> list[float]:
        return [float(score(world, seed)) for world in (True, False) for seed in seeds]

    yield "it returns finite numbers", lambda: all(math.isfinite(value) for value in values())
    yield "the same world and seed give the same score", lambda: values() == values()
    yield "another seed gives another score", lambda: len({float(score(True, seed)) for seed in range(40)}) > 1
    yield "it leaves the global random state alone", lambda: _leaves_global_state(values)
    yield "it does not depend on the global random state", lambda: _ignores_global_state(values)
    yield "worker processes can receive it", lambda: _travels(score)
    if hasattr(score, "many"):
        yield (
            "`many` gives the scores of its seeds",
            lambda: [float(s) for s in score.many(True, list(seeds))] == [float(score(True, s)) for s in seeds],
        )


def check_mechanism(mechanism: Any, dataset: Any, *, seeds: tuple[int, int] = (1, 2)) -> None:
    """Raise `ConformanceError` unless a mechanism keeps the `Mechanism` protocol on this data set.

    It says nothing about privacy: an audit does.
    """
    _raise_failures(_mechanism_checks(mechanism, dataset, seeds), "mechanism")


def _mechanism_checks(mechanism: Any, dataset: Any, seeds: tuple[int, int]) -> Iterator[tuple[str, Callable[[], bool]]]:
    def release(seed: int) -> Any:
        return mechanism.release(dataset, seed)

    yield "`relation` is a Relation", lambda: isinstance(mechanism.relation, Relation)
    yield "the claim is for its relation", lambda: mechanism.claim(1e-5).relation is mechanism.relation
    yield (
        "the claimed epsilon does not grow with delta",
        lambda: mechanism.claim(1e-6).epsilon >= mechanism.claim(1e-3).epsilon,
    )
    yield "the same seed gives the same release", lambda: _same(release(seeds[0]), release(seeds[0]))
    yield "another seed gives another release", lambda: any(not _same(release(0), release(k)) for k in range(1, 40))
    yield "it leaves the data set as it was", lambda: _leaves(dataset, lambda: release(seeds[0]))
    yield "it leaves the global random state alone", lambda: _leaves_global_state(lambda: release(seeds[0]))
    yield "it does not depend on the global random state", lambda: _ignores_global_state(lambda: release(seeds[0]))
    yield "worker processes can receive it", lambda: _travels(mechanism)
    if hasattr(mechanism, "release_many"):
        yield (
            "`release_many` gives the releases of its seeds",
            lambda: all(
                _same(one, release(seed))
                for one, seed in zip(mechanism.release_many(dataset, list(seeds)), seeds, strict=True)
            ),
        )


def check_game(game: Any, *, seeds: tuple[int, int] = (1, 2), others: Mapping[str, Any] | None = None) -> None:
    """Raise `ConformanceError` unless a game keeps the `Game` protocol; it is played six times, so give a small one.

    Whatever a field says must move the plan, or two different audits pass for one: each field is changed by itself, to
    a value that `others` gives by the field's name, or to one near its own.

    Examples
    --------
    >>> from dpaudit.games import OneRun
    >>> def scores(included, seed):
    ...     return included + np.random.default_rng(seed).normal(size=included.size)
    >>> check_game(OneRun(scores=scores, canaries=40, relation="add-remove"), others={"sides": "sign"})
    """
    _raise_failures(_game_checks(game, seeds, {} if others is None else dict(others)), "game")


def _game_checks(game: Any, seeds: tuple[int, int], others: dict[str, Any]) -> Iterator[tuple[str, Callable[[], bool]]]:
    first, second = seeds

    @cache
    def played(seed: int) -> Play:
        return _play(game, seed)

    yield "it is a frozen dataclass with the names of a game", lambda: is_game(game) and _frozen(game)
    yield "the same seed gives the same play", lambda: _seen(played(first)) == _seen(_play(game, first))
    if game.purpose:
        yield "another seed gives other coins", lambda: not _same(game.coins(first), game.coins(second))
        yield "another seed gives another play", lambda: _seen(played(first)) != _seen(played(second))
    yield "a play that was killed and resumed is the same play", lambda: _resumes(game, first, _seen(played(first)))
    yield "the coins are fixed before the play", lambda: _coins_stay(game, first)
    yield (
        "coins are tossed if and only if they have a purpose",
        lambda: bool(game.purpose) == bool(len(game.coins(first))),
    )
    yield "`plan` is plain JSON, and always the same", lambda: _is_plain(game.plan(first)) and _plan_stays(game, first)
    yield (
        "each evidence is of `evidence_type`",
        lambda: {type(one) for one in played(first).evidence} == {game.evidence_type},
    )
    yield (
        "evidence has the relation and unit of the game",
        lambda: _about(played(first)) == {(game.relation, game.unit)},
    )
    yield "`assumptions` has all that the evidence rests on", lambda: not _undeclared(game, played(first))
    yield "`checks` has all that controls and results are of", lambda: not undeclared_checks(game, played(first))
    yield "a play has as many evidences as the game says", lambda: _count(played(first)) == _told(game)
    yield (
        "what a check refutes is declared",
        lambda: all(set(one.refutes) & declared_ids(game) for one in game.checks if one.refutes),
    )
    yield "worker processes can receive it", lambda: _travels(game)
    for name, other in changed_fields(game, others):
        yield filled(MOVES, {"field": name}), partial(_moves, game, other, first)
        if isinstance(getattr(game, name), np.ndarray) and name not in others:
            yield filled(BLIND, {"field": name}), partial(_as_many, game, other)


def _moves(game: Any, other: Any, seed: int) -> bool:
    return fingerprint(other, seed) != fingerprint(game, seed)


def _as_many(game: Any, other: Any) -> bool:
    return bool(other.attempts == game.attempts)


def _play(game: Any, seed: int, store: RunStore | None = None) -> Play:
    found: Play = game.play(seed=seed, attempt=0, runner=Runner(Execution(workers=1), store))
    return found


def _resumes(game: Any, seed: int, wanted: list[Any]) -> bool:
    """Whether it is this play while its runs are kept, and again from what a kill leaves of them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs"

        def kept() -> list[Any]:
            with RunStore(path, plan=fingerprint(game, seed)) as store:
                return _seen(_play(game, seed, store))

        same = kept() == wanted
        return same and (not _killed(path) or kept() == wanted)


def _killed(path: Path) -> bool:
    """Leave half of the kept runs and the beginning of the next, as a kill would; false where there are none."""
    header, *runs = path.read_bytes().splitlines(keepends=True)
    half = len(runs) // 2
    path.write_bytes(header + b"".join(runs[:half]) + b"".join(runs[half:])[:9])
    return bool(runs)


def _frozen(game: Any) -> bool:
    return is_dataclass(game) and bool(getattr(type(game), "__dataclass_params__").frozen)  # noqa: B009


def _seen(play: Play) -> list[Any]:
    """All that a play says, controls and comparisons made."""
    return [
        [one.digest for one in play.evidence],
        [(one.check.id, one.kind, [part.digest for part in one.parts]) for one in play.controls],
        [(one.check.id, one.outcome, one.p_value, repr(one.numbers)) for one in play.results],
        [(one.id, one.made.digest) for one in play.comparisons],
        play.covers_claim,
        play.repeats,
    ]


def _coins_stay(game: Any, seed: int) -> bool:
    before, published = np.asarray(game.coins(seed)), commitment(game, seed)
    _play(game, seed)
    return before.dtype == np.bool_ and _same(before, game.coins(seed)) and published == commitment(game, seed)


def _is_plain(plan: Any) -> bool:
    return bool(json.loads(json.dumps(plan, allow_nan=False)) == plan)


def _plan_stays(game: Any, seed: int) -> bool:
    return bool(game.plan(seed) == game.plan(seed) == copy.deepcopy(game).plan(seed))


def _count(play: Play) -> tuple[int, int]:
    return len(play.evidence), play.repeats


def _told(game: Any) -> tuple[int, int]:
    return evidences_of(game) * repeats_of(game), repeats_of(game)


def _about(play: Play) -> set[tuple[Any, str]]:
    return {(one.relation, one.unit) for one in play.evidence}


def _undeclared(game: Any, play: Play) -> set[str]:
    """Ids that nobody could accept before the run."""
    listed = (*play.evidence, *(one.made for one in play.comparisons))
    return {one.id for part in listed for one in part.conditions} - declared_ids(game)


def changed_fields(game: Any, others: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The game with one field changed, for every field that has another legal value which can be guessed, or given."""
    for field in fields(game):
        if not field.init:
            continue
        own = getattr(game, field.name)
        tried = [others[field.name]] if field.name in others else _near(own)
        for value in tried:
            try:
                other = replace(game, **{field.name: value})
            except (InputError, TypeError, ValueError):  # not a legal value of this field
                continue
            if not _equal(getattr(other, field.name), own):
                yield field.name, other
                break


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return first is second or _same(first, second)
    return bool(first is second or first == second)


def _near(value: Any) -> list[Any]:
    """Other values of its kind, of which one may be legal."""
    if isinstance(value, Relation):
        return [one for one in Relation if one is not value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value]
    if isinstance(value, float):
        return [value + 0.01, 0.9 * value, 1.1 * value]
    if isinstance(value, str):
        return [f"{value}-other"]
    if isinstance(value, np.ndarray) and value.size > 1:
        return [np.roll(value, 1, axis=0), value[::-1].copy()]
    return []


def _raise_failures(checks: Iterator[tuple[str, Callable[[], bool]]], what: str) -> None:
    failures = []
    for rule, holds in checks:
        try:
            kept, why = holds(), ""
        except Exception as problem:  # a check that raises is a rule that is not kept
            kept, why = False, f" ({type(problem).__name__}: {problem})"
        if not kept:
            failures.append(f"not kept: {rule}{why}")
    if failures:
        raise ConformanceError(f"the {what} breaks its protocol:\n" + "\n".join(failures))


def _same(first: Any, second: Any) -> bool:
    return bool(np.array_equal(np.asarray(first), np.asarray(second)))


def _leaves(dataset: Any, act: Callable[[], Any]) -> bool:
    before = copy.deepcopy(dataset)
    act()
    return _same(before, dataset)


def _global_state() -> tuple[Any, ...]:
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), state["state"]["pos"], state["state"]["key"].tobytes()


def _leaves_global_state(act: Callable[[], Any]) -> bool:
    before = _global_state()
    act()
    return _global_state() == before


def _ignores_global_state(act: Callable[[], Any]) -> bool:
    """The same result whatever the global generators hold; they are put back afterwards."""
    kept = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    found = []
    try:
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 - the global generator is what is checked
            found.append(act())
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
    return _same(found[0], found[1])


def _travels(value: Any) -> bool:
    from joblib.externals.loky.backend.reduction import dumps  # what the workers use

    return bool(dumps(value))
