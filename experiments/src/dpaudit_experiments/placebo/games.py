"""One game each: tables are written, read by the default path, audited, and compared with the older rule."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

import dpaudit as da
from dpaudit import counterfactuals, games
from dpaudit.bounds import Outcome
from dpaudit.counterfactuals import Categorical
from dpaudit.execution import Execution, one_thread, stream
from dpaudit.games import MatchedRows, redrawn_values
from dpaudit_experiments.placebo import learnt, worlds
from dpaudit_experiments.placebo.worlds import LABEL, Columns, Make, Sizes, World

CONTROL = "redrawn-values"
BOUND = ("epsilon", "withheld")
WITH_OLD = (*BOUND, "old epsilon", "old withheld")
WITH_NEVER_SEEN = (*BOUND, "never seen epsilon", "never seen withheld")
REDRAWN = (*BOUND, "caught", "control ran")
HERE = Execution(workers=1)


def settings_of(world: World, folder: str) -> dict[str, Any]:
    """The files of a game, and the keys of an audit file that names them."""
    return world.written(folder) | {"folder": folder}


def audited(game: Any, seed: int, accept: tuple[str, ...] = ()) -> tuple[list[float], Any]:
    """The bound that an audit prints, 0 where there is none, and whether a control withheld it."""
    found = da.audit(game, seed=seed, delta=0.0, accept=accept, execution=HERE)
    if found.outcome is Outcome.FAILED:
        raise RuntimeError(str(found))
    withheld = found.outcome is Outcome.WITHHELD
    epsilon = max((bound.epsilon or 0.0 for bound in found.bounds if bound.epsilon is not None), default=0.0)
    return [0.0 if withheld else epsilon, float(withheld)], found


def by_default(world: World, seed: int) -> list[float]:
    """Through files, as a user would."""
    with tempfile.TemporaryDirectory() as folder:
        return audited(MatchedRows.from_table(**settings_of(world, folder), seed=seed), seed)[0]


def by_coins(world: World, seed: int) -> list[float]:
    """The older rule: coins decide between the value and one drawn from a proxy, which is believed (tau = 0)."""
    return audited(coin_game(world), seed, accept=("counterfactual-right",))[0]


def coin_game(world: World) -> games.Observational:
    """Its proxy is learnt from all rows that the model never saw, names as their places in the alphabet."""
    values = codes(world, world.training)
    x = None
    if world.features:
        known = world.unseen if world.proxy_rows is None else world.proxy_rows
        tables = (known, world.training)
        both = {name: np.concatenate([table[name] for table in tables]) for name in world.features}
        matrix, rows = worlds.as_matrix(both), len(known[LABEL])
        x, kinds = matrix[rows:], len(world.classes)
        with one_thread(trees=True):
            law = counterfactuals.trained(matrix[:rows], codes(world, known), x, classes=kinds)
    else:
        law = Categorical(world.training[world.keys["counterfactual"]])
    return games.Observational(values=values, counterfactual=law, target=said(world, world.training), features=x)


def codes(world: World, columns: Columns) -> Any:
    """Class numbers."""
    return np.searchsorted(np.array(world.classes), columns[LABEL])


def said(world: World, columns: Columns) -> Categorical:
    """What the audited model says."""
    target = world.keys.get("target", worlds.TODAY)
    return Categorical(
        columns[target] if isinstance(target, str) else np.column_stack([columns[one] for one in target])
    )


# -------------------------------------------------------------------------------------------------------- nothing leaks


def null_game(make: Make, sizes: Sizes, seed: int) -> list[float]:
    """`WITH_OLD`."""
    world = make(stream(seed, "tables"), sizes)
    return [*by_default(world, seed), *by_coins(world, seed)]


# ------------------------------------------------------------------------------------------------------ labels redrawn


def redrawn_game(learner: str, law: str, sizes: Sizes, seed: int) -> list[float]:
    """`REDRAWN`: a model of labels that were drawn anew; and whether one more training, on labels drawn from the proxy,
    shows that such models recognise their rows.

    `law` "remembered" keeps the labels that the model was trained on: they leak, and nothing else does.
    """
    made = learnt.people_of(law, stream(seed, "tables"), sizes)
    world = learnt.world_of(made, learner, seed, sizes)
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(world, folder)
        bound = audited(MatchedRows.from_table(**settings, seed=seed), seed)[0]
        written = redrawn_values(**settings, to="redrawn.parquet", seed=seed)
        control = learnt.retrained(world, made, written, learner, seed)
        settings = settings_of(control, folder) | {"redrawn": learnt.REDRAWN}
        _, found = audited(MatchedRows.from_table(**settings, seed=seed), seed)
    outcomes = [result.outcome for result in found.checks if result.check.id == CONTROL]
    ran = {"refuted", "passed"} & set(outcomes)
    return [*bound, float("refuted" in ran), float(bool(ran))]


# --------------------------------------------------------------------------------------------------------- labels leak


def response_game(epsilon: float, sizes: Sizes, seed: int) -> list[float]:
    """`BOUND`: randomised response, and the true distribution as a column of predictions."""
    return by_default(learnt.response(epsilon, stream(seed, "tables"), sizes), seed)


def adult_game(learner: str, sizes: Sizes, seed: int) -> list[float]:
    """`WITH_NEVER_SEEN`: the rows of Adult that a model was trained on; and in their place as many others."""
    trained, never = learnt.adult_worlds(learner, stream(seed, "tables"), sizes, seed)
    return [*by_default(trained, seed), *by_default(never, seed)]
