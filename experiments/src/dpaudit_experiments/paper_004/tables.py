"""Paper 004 on tables (C.3, D.6): models of Adult, known members against rows that a generator made of other members.

| target | family | how |
|---|---|---|
| perceptron of 150, 100, 50 and 10 units | epochs | checkpoints of one training, learning rate 0.0005 |
| extremely randomised trees, fully grown | epochs | they fit every row that can be told apart: no end of epochs |
| logistic regression by DP-SGD | epsilon | noise for its epsilon under substitution |

A target says two numbers of a row: its loss, and the log-odds of the row's label. The label is a column of the rows, so
that the generator makes it too. Everything, the targets included, is drawn and trained anew for every game.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import counterfactuals, estimators
from dpaudit.execution import Execution, distinct_seeds, one_thread, stream
from dpaudit.fitted.generators import GaussianCopula, SequentialTrees, TreeMarginals, drawn
from dpaudit.games.panoramia import Panoramia
from dpaudit.mechanisms.dpsgd import DPSGDConfig, train
from dpaudit_experiments import data
from dpaudit_experiments.common.arrays import Arrays, kept, shared_folder
from dpaudit_experiments.common.audits import recipe_for
from dpaudit_experiments.common.figure import Rows
from dpaudit_experiments.common.metrics import TargetGame, alone_scored, paired

HIDDEN, LEARNING_RATE = (150, 100, 50, 10), 0.0005
GENERATORS = {"sequential trees": SequentialTrees, "tree marginals": TreeMarginals, "Gaussian copula": GaussianCopula}
HELPERS = ("generated", "real", "none")
GROUPS = ("members", "real non-members", "generated")
BINS, LARGEST = 20, 5.0
"""Of the histograms of losses; larger losses are in the last bin."""
SURE = 1e-7
"""Probabilities stay so far from 0 and 1."""
FAR = 10.0
"""Standard deviations that a column may lie from its mean, as a model sees it."""
Matrix = NDArray[np.float64]
Outputs = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class TableScale:
    """Sizes of the experiments on tables.

    Attributes
    ----------
    source, members
        "adult" (32,561 rows) or scikit-learn's "breast cancer" (569), and how many of them the targets train on.
    public
        Rows that are neither members nor non-members: they set the scale of columns.
    shares
        Of the members: for the generator, to train the guessers, to be audited.
    epochs, batch
        Checkpoints of the perceptron, and rows a step.
    trees
        Of the fully grown forest.
    epsilons, sampling_rate, steps
        Private targets, and how they are trained.
    helper_epochs
        Of the perceptron of generated rows.
    poor
        Shares of generated rows that are left out, in the comparison of generators.
    taught
        Shares of the training rows that the guessers learn from, in the learning curve.
    """

    source: str = "adult"
    members: int = 18_000
    public: int = 1_000
    shares: tuple[float, float, float] = (0.3, 0.35, 0.35)
    games: int = 5
    epochs: tuple[int, ...] = (10, 100)
    batch: int = 128
    trees: int = 50
    epsilons: tuple[float, ...] = (1.0, 8.0)
    sampling_rate: float = 0.05
    steps: int = 200
    helper_epochs: int = 10
    poor: tuple[float, ...] = (0.0, 0.1)
    taught: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)


FULL = TableScale()
QUICK = TableScale(
    source="breast cancer",
    members=320,
    public=20,
    games=2,
    epochs=(2, 10),
    batch=32,
    trees=10,
    epsilons=(1.0,),
    sampling_rate=1.0,
    steps=10,
    helper_epochs=2,
    taught=(0.5, 1.0),
)


class Table(NamedTuple):
    """Rows with their label as the last column, and which columns hold codes, the label among them."""

    rows: Matrix
    categorical: tuple[int, ...]

    @property
    def kinds(self) -> dict[int, int]:
        """How many codes each column of codes has, except for the label."""
        return {place: int(self.rows[:, place].max()) + 1 for place in self.categorical[:-1]}


@lru_cache(maxsize=2)
def table_of(source: str) -> Table:
    if source == "breast cancer":
        from sklearn.datasets import load_breast_cancer

        x, y = load_breast_cancer(return_X_y=True)
        return Table(np.column_stack([x, y]), (x.shape[1],))
    columns, income = data.adult()
    texts = [column.dtype == object for column in columns.values()]
    codes = [
        counterfactuals.encode(column.astype(str))[0] if text else column
        for column, text in zip(columns.values(), texts, strict=True)
    ]
    return Table(np.column_stack([*codes, income]).astype(np.float64), (*np.flatnonzero(texts).tolist(), len(codes)))


class Drawn(NamedTuple):
    """Rows of one game: members, in random order, real non-members, and others that only set the scale of columns."""

    members: Matrix
    others: Matrix
    public: Matrix


def rows_of(scale: TableScale, seed: int) -> Drawn:
    rows = table_of(scale.source).rows
    order = stream(seed, "members and others").permutation(len(rows))
    cuts = (scale.members, len(rows) - scale.public)
    members, others, public = np.split(order, cuts)
    return Drawn(rows[members], rows[others], rows[public])


# ------------------------------------------------------------------------------------------------------------- targets


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of a model: codes one by one, numbers by the mean and spread of rows that the model is not fitted to."""

    kinds: dict[int, int]
    centre: Matrix
    spread: Matrix

    @classmethod
    def of(cls, rows: Matrix, table: Table) -> Encoded:
        x = rows[:, :-1]
        return cls(table.kinds, x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9))

    def __call__(self, rows: Matrix) -> NDArray[np.float32]:
        x = rows[:, :-1]
        numbers = np.clip((x - self.centre) / self.spread, -FAR, FAR)
        parts = [
            np.eye(self.kinds[place])[x[:, place].astype(np.int64)] if place in self.kinds else numbers[:, [place]]
            for place in range(x.shape[1])
        ]
        return np.concatenate(parts, axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Target:
    """A model as the audit hears it: loss and log-odds of each row's own label."""

    encoded: Encoded
    probability: Callable[[NDArray[np.float32]], Any]
    """Of label 1, by the features of rows."""

    def __call__(self, rows: Matrix) -> Matrix:
        found = np.asarray(self.probability(self.encoded(rows)), dtype=np.float64)
        log_odds = special.logit(np.clip(found, SURE, 1.0 - SURE)) * np.where(rows[:, -1] == 1.0, 1.0, -1.0)
        return np.column_stack([np.logaddexp(0.0, -log_odds), log_odds])

    def accuracy(self, rows: Matrix) -> float:
        return float(np.mean(self(rows)[:, 1] > 0.0))


def perceptrons(rows: Matrix, encoded: Encoded, epochs: tuple[int, ...], batch: int, seed: int) -> list[Target]:
    """Checkpoints of one training."""
    from copy import deepcopy

    from sklearn.neural_network import MLPClassifier

    size = min(batch, len(rows))
    model = MLPClassifier(HIDDEN, learning_rate_init=LEARNING_RATE, batch_size=size, alpha=0.0, random_state=seed)
    x, y = encoded(rows), rows[:, -1].astype(np.int64)
    found = []
    for epoch in range(1, max(epochs) + 1):
        model.partial_fit(x, y, classes=[0, 1])
        if epoch in epochs:
            found.append(Target(encoded, _second(deepcopy(model))))
    return found


def _second(model: Any) -> Callable[[Any], Any]:
    return lambda x: model.predict_proba(x)[:, 1]


def forest(rows: Matrix, encoded: Encoded, trees: int, seed: int) -> Target:
    """Trees that fit their rows exactly, with half a tree's vote for each label besides."""
    from sklearn.ensemble import ExtraTreesClassifier

    model = ExtraTreesClassifier(n_estimators=trees, random_state=seed, n_jobs=1)
    model.fit(encoded(rows), rows[:, -1].astype(np.int64))
    return Target(encoded, lambda x: (model.predict_proba(x)[:, 1] * trees + 0.5) / (trees + 1.0))


def private(rows: Matrix, encoded: Encoded, config: DPSGDConfig, seed: int) -> Target:
    """Logistic regression by DP-SGD, on features of length one."""
    weights = train(config, _of_length_one(encoded(rows)), rows[:, -1], models=1, width=1, seed=seed)[1].ravel()
    return Target(encoded, lambda x: special.expit(_of_length_one(x).astype(np.float64) @ weights))


def _of_length_one(x: NDArray[np.float32]) -> NDArray[np.float32]:
    whole = np.column_stack([x, np.ones(len(x), dtype=np.float32)])
    return np.asarray(whole / np.linalg.norm(whole, axis=1, keepdims=True), dtype=np.float32)


@lru_cache(maxsize=8)
def _recipe(scale: TableScale, epsilon: float) -> DPSGDConfig:
    return recipe_for(scale.sampling_rate, scale.steps, epsilon=epsilon, learning_rate=1.0)


def named(scale: TableScale) -> list[tuple[str, str, float]]:
    """(target, family, degree), in the order of `targets`; without end are the epochs of trees that are fully grown."""
    return [
        *((f"MLP, {epochs} epochs", "epochs", float(epochs)) for epochs in scale.epochs),
        ("trees, fully grown", "epochs", np.inf),
        *((f"DP logistic, epsilon {epsilon:g}", "epsilon", epsilon) for epsilon in scale.epsilons),
    ]


def targets(scale: TableScale, rows: Drawn, seed: int) -> dict[str, Target]:
    """All models of one game's members; columns are scaled by rows that are nobody's, so that models see no more."""
    encoded = Encoded.of(rows.public, table_of(scale.source))
    seeds = distinct_seeds(seed, "targets", 2 + len(scale.epsilons))
    found = [
        *perceptrons(rows.members, encoded, scale.epochs, scale.batch, seeds[0]),
        forest(rows.members, encoded, scale.trees, seeds[1]),
        *(
            private(rows.members, encoded, _recipe(scale, epsilon), own)
            for epsilon, own in zip(scale.epsilons, seeds[2:], strict=True)
        ),
    ]
    return {name: target for (name, _, _), target in zip(named(scale), found, strict=True)}


@dataclass(frozen=True)
class Helper:
    """A perceptron of generated rows; of `real` ones instead, as in table 5."""

    scale: TableScale
    real: Any = None

    def __call__(self, generated: Matrix, seed: int) -> Target:
        rows = generated if self.real is None else self.real[: len(generated)]
        encoded = Encoded.of(rows, table_of(self.scale.source))
        return perceptrons(rows, encoded, (self.scale.helper_epochs,), self.scale.batch, seed)[0]


# --------------------------------------------------------------------------------------------------------------- games


def game_of(scale: TableScale, rows: Drawn, target: Outputs, *, generator: str = "sequential trees") -> Panoramia:
    made = GENERATORS[generator](categorical=table_of(scale.source).categorical)
    return Panoramia(
        members=rows.members,
        target=target,
        generator=made,
        helper=Helper(scale),
        shares=scale.shares,
    )


def played(scale: TableScale, seed: int) -> Arrays:
    """One game on all targets: against generated rows, against real non-members, and by the loss alone."""
    with one_thread():
        rows = rows_of(scale, seed)
        models = targets(scale, rows, seed)
        game = game_of(scale, rows, next(iter(models.values())))
        own, training, audited = game.parts(seed)
        played = game.play_targets(models, seed=seed)
        like = replace(game, members=rows.members[np.concatenate([training, audited])]).with_real(rows.others)
        real = like.play_targets(models, seed=seed)
        made = drawn(game.generator, rows.members[own], audited.size, seed=distinct_seeds(seed, "losses", 1)[0])
        found: Arrays = {}
        for name, model in models.items():
            for kind, result in (("generated", played[name]), ("real", real[name])):
                scores = result.only
                found[f"{name}: {kind}"] = np.stack([scores.included, scores.baseline, scores.attack])
            alone = replace(game, target=model).one_run(rows.others, seed=seed)
            found[f"{name}: one run"] = np.stack([alone.included, alone.scores])
            found[f"{name}: accuracy"] = np.array([model.accuracy(part) for part in (rows.members, rows.others)])
            shown = (rows.members[audited], rows.others[: audited.size], made)
            found[f"{name}: losses"] = np.stack([_shares(model(part)[:, 0]) for part in shown])
        return found


def _shares(losses: Matrix) -> Matrix:
    """A histogram."""
    cells = np.minimum(losses / LARGEST * BINS, BINS - 1).astype(np.int64)
    return np.bincount(cells, minlength=BINS) / losses.size


@dataclass(frozen=True)
class Played:
    """One game, kept as arrays in a folder."""

    scale: TableScale
    folder: str

    def __call__(self, seed: int) -> list[float]:
        return [float(len(kept(self.folder, played, self.scale, seed)))]


def _games(scale: TableScale, seed: int, execution: Execution) -> list[tuple[int, Arrays]]:
    """All games, with their seeds."""
    if scale.source == "adult":
        data.adult()  # here first, so that missing data is a refusal and no failed run
    folder, seeds = shared_folder(execution), distinct_seeds(seed, "games on tables", scale.games)
    execution.map(Played(scale, folder), seeds, title="games on tables")
    return [(own, kept(folder, played, scale, own)) for own in seeds]


def target_games(scale: TableScale, seed: int, execution: Execution) -> list[TargetGame]:
    """Every game on every target."""
    return list(_target_games(scale, seed, execution))


@lru_cache(maxsize=2)
def _target_games(scale: TableScale, seed: int, execution: Execution) -> tuple[TargetGame, ...]:
    return tuple(
        TargetGame(
            modality="tables",
            target=target,
            family=family,
            degree=degree,
            game=number,
            generated=paired(*arrays[f"{target}: generated"], seed=own),
            real=paired(*arrays[f"{target}: real"], seed=own, real=True),
            one_run=alone_scored(*arrays[f"{target}: one run"], seed=own),
            train=float(arrays[f"{target}: accuracy"][0]),
            test=float(arrays[f"{target}: accuracy"][1]),
        )
        for number, (own, arrays) in enumerate(_games(scale, seed, execution), 1)
        for target, family, degree in named(scale)
    )


# ----------------------------------------------------------------------------------------------------------- baselines


@dataclass(frozen=True)
class Baseline:
    """The closeness that the baseline shows in one game: a bound on c, by generator, helper, and rows left out."""

    scale: TableScale
    generator: str = "sequential trees"
    helper: str = "generated"
    poor: float = 0.0

    def __call__(self, seed: int) -> list[float]:
        with one_thread():
            rows = rows_of(self.scale, seed)
            helpers = {"generated": Helper(self.scale), "real": Helper(self.scale, rows.others), "none": None}
            game = replace(
                game_of(self.scale, rows, _nothing, generator=self.generator),
                helper=helpers[self.helper],
                discard_fraction=self.poor,
            )
            return [estimators.panoramia(game.play(seed=seed).only).divergence]


def _nothing(rows: Matrix) -> Matrix:
    """A target that says nothing, where only the baseline is asked."""
    return np.zeros(len(rows))


def _closeness(work: Baseline, seed: int, execution: Execution) -> list[float]:
    seeds = distinct_seeds(seed, "games on tables", work.scale.games)
    title = f"{work.generator}, helper {work.helper}, {work.poor:g} left out"
    return [line[0] for line in execution.map(work, seeds, title=title)]


def helper_rows(scale: TableScale, seed: int, execution: Execution) -> Rows:
    """Table 5 for tables: what the baseline shows with a helper of generated rows, of real non-members, and without."""
    return [
        {"modality": "tables", "helper": helper, "game": game, "closeness": closeness}
        for helper in HELPERS
        for game, closeness in enumerate(_closeness(Baseline(scale, helper=helper), seed, execution), 1)
    ]


def generator_rows(scale: TableScale, seed: int, execution: Execution) -> Rows:
    """Which generator is closest, by what the baseline shows; with and without its poor rows."""
    return [
        {"generator": generator, "poor": poor, "game": game, "closeness": closeness}
        for generator in GENERATORS
        for poor in scale.poor
        for game, closeness in enumerate(_closeness(Baseline(scale, generator, poor=poor), seed, execution), 1)
    ]


@dataclass(frozen=True)
class Learning:
    """One game on the most over-fitted target with a share of the training rows: their number, c and c + epsilon."""

    scale: TableScale
    taught: float

    def __call__(self, seed: int) -> list[float]:
        with one_thread():
            rows = rows_of(self.scale, seed)
            encoded = Encoded.of(rows.public, table_of(self.scale.source))
            target = forest(rows.members, encoded, self.scale.trees, distinct_seeds(seed, "targets", 2)[1])
            game = replace(game_of(self.scale, rows, target), train_fraction=self.taught)
            region = estimators.panoramia(game.play(seed=seed).only)
            return [2.0 * round(self.taught * game.parts(seed)[1].size), region.divergence, region.total]


def learning_rows(scale: TableScale, seed: int, execution: Execution) -> Rows:
    """What baseline and attack show of the same audited members, by the rows that they learnt from (figure 9)."""
    seeds = distinct_seeds(seed, "games on tables", scale.games)
    rows: Rows = []
    for taught in scale.taught:
        lines = execution.map(Learning(scale, taught), seeds, title=f"{taught:g} of the training rows")
        for game, (size, closeness, total) in enumerate(lines, 1):
            about = {"modality": "tables", "training_rows": int(size), "game": game}
            rows.append({**about, "closeness": closeness, "total": total})
    return rows


def loss_rows(scale: TableScale, seed: int, execution: Execution) -> Rows:
    """Histograms of losses in the first game, under the least and the most over-fitted target (as figure 13)."""
    arrays = _games(scale, seed, execution)[0][1]
    ordered = [name for name, family, _ in named(scale) if family == "epochs"]
    return [
        {
            "modality": "tables",
            "target": name,
            "group": group,
            "loss": (place + 0.5) * LARGEST / BINS,
            "share": float(share),
        }
        for name in (ordered[0], ordered[-1])
        for group, shares in zip(GROUPS, arrays[f"{name}: losses"], strict=True)
        for place, share in enumerate(shares)
    ]
