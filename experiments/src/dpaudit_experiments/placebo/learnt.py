"""Models that are trained on the audited rows: on their labels, on labels drawn anew, or told them at random."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from dpaudit.execution import one_thread
from dpaudit.mechanisms.label_dp.learners import catboost_or_refuse
from dpaudit_experiments.placebo import worlds
from dpaudit_experiments.placebo.worlds import LABEL, TODAY, YESTERDAY, Array, Columns, Sizes, World

OWN = 1.5
"""Deviation of a row's own part of the log-odds, which neither its neighbours nor a proxy can know."""
REDRAWN = "p_redrawn"
LEARNERS = ("boosted", "k-NN", "forest", "catboost")


def model_of(learner: str, seed: int) -> Any:
    """An ordinary recipe of each; the forest and CatBoost learn their rows by heart."""
    if learner == "boosted":
        return worlds.boosted(seed)
    if learner == "k-NN":
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), KNeighborsClassifier(5))
    if learner == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(100, random_state=seed)
    catboost = catboost_or_refuse()
    return catboost.CatBoostClassifier(
        iterations=600, depth=8, random_seed=seed, verbose=False, thread_count=1, allow_writing_files=False
    )


def fitted(learner: str, seed: int, x: Array, labels: Array, *asked: Array) -> list[Array]:
    """The probability of the second class that a model of these rows gives to others."""
    with one_thread(trees=True):
        model = model_of(learner, seed).fit(x, labels)
        return [np.asarray(model.predict_proba(rows), dtype=np.float64)[:, 1] for rows in asked]


# ------------------------------------------------------------------------------------------------------ labels redrawn


@lru_cache(maxsize=1)
def people_with_a_law(known: int, fetched: bool) -> tuple[Columns, Array]:
    """Rows of Adult, and the log-odds of their labels by a model of others: from here on the true ones."""
    columns, _, law = worlds.known_model("adult", known, fetched)
    return columns, special.logit(np.clip(law, 0.02, 0.98))


def people_of(law: str, rng: np.random.Generator, sizes: Sizes) -> tuple[Columns, Array, Array, Array]:
    """Some of those rows, labels to train on and labels to audit (one draw if `law` is "remembered", else two), and
    how likely the labels are."""
    columns, logits = people_with_a_law(sizes.known, sizes.fetched)
    chosen = rng.permutation(logits.size)[: sizes.rows + sizes.unseen]
    own = rng.normal(scale=OWN, size=chosen.size) if law == "own part" else 0.0
    rate = special.expit(logits[chosen] + own)
    taught = worlds.drawn(rate, rng)
    shown = taught if law == "remembered" else worlds.drawn(rate, rng)
    return {name: column[chosen] for name, column in columns.items()}, taught, shown, rate


def world_of(made: tuple[Columns, Array, Array, Array], learner: str, seed: int, sizes: Sizes) -> World:
    """The audited model was trained on the features of the first rows."""
    columns, taught, shown, rate = made
    said = _said(learner, seed, columns, taught[: sizes.rows], rate)
    training, unseen = worlds.split(columns | {TODAY: said, LABEL: shown}, sizes.rows, sizes.unseen)
    return World(training=training, unseen=unseen, keys={"features": list(columns)})


def _said(learner: str, seed: int, columns: Columns, labels: Array, rate: Array) -> Array:
    """What a model says of all rows that was trained on the first of them.

    One that "flags" knows from elsewhere how likely labels are, says so of the rows that it was trained on, and holds
    half of it back of all others: it has learnt no label, and recognises every row.
    """
    if learner == "flags":
        return special.expit(special.logit(rate) * np.where(np.arange(rate.size) < labels.size, 1.0, 0.5))
    x = worlds.as_matrix(columns)
    (said,) = fitted(learner, seed, x[: labels.size], labels, x)
    return said


def retrained(world: World, made: tuple[Columns, Array, Array, Array], written: Any, learner: str, seed: int) -> World:
    """The same recipe, trained once on values that were drawn from the proxy."""
    from pyarrow import parquet

    drawn = parquet.read_table(written).column(f"{LABEL} redrawn").to_numpy().astype(np.int64)
    said = _said(learner, seed + 1, made[0], drawn, made[3])
    training = world.training | {REDRAWN: said[: drawn.size]}
    return replace(world, training=training, unseen=world.unseen | {REDRAWN: said[drawn.size :]})


# --------------------------------------------------------------------------------------------------------- labels leak


def response(epsilon: float, rng: np.random.Generator, sizes: Sizes) -> World:
    """The model knows the distribution, and of training rows an answer by randomised response; the proxy knows it."""
    rows = sizes.rows
    _, logits = worlds.people(2 * rows, 50, rng)
    law = special.expit(logits)
    labels = worlds.drawn(law, rng)
    answer = np.where(rng.random(2 * rows) < special.expit(epsilon), labels, 1 - labels)
    told = special.expit(logits + epsilon * (2 * answer - 1) * (np.arange(2 * rows) < rows))
    training, unseen = worlds.split({TODAY: told, YESTERDAY: law, LABEL: labels}, rows, rows)
    return World(training=training, unseen=unseen, keys={"counterfactual": YESTERDAY})


def adult_worlds(learner: str, rng: np.random.Generator, sizes: Sizes, seed: int) -> tuple[World, World]:
    """Rows that a model was trained on, beside rows that it never saw; and such rows in the place of the first."""
    columns, labels = worlds.real_table("adult", sizes.fetched)
    order, x, rows = rng.permutation(labels.size), worlds.as_matrix(columns), sizes.leaking
    (said,) = fitted(learner, seed, x[order[:rows]], labels[order[:rows]], x)
    every = columns | {TODAY: said, LABEL: labels}
    parts = (order[:rows], order[rows : 2 * rows], order[2 * rows :])
    trained, never, rest = ({name: column[part] for name, column in every.items()} for part in parts)
    keys = {"features": list(columns)}
    return World(training=trained, unseen=rest, keys=keys), World(training=never, unseen=rest, keys=keys)
