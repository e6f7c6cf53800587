"""Paper 004 on pictures: silhouettes of Fashion-MNIST, a generator of pixel grids, convolutional classifiers.

| target | family | how |
|---|---|---|
| CNN, 2 to 60 epochs | epochs | one training without regularisation, looked at three times |
| CNN of few to many channels | size | as many epochs (figure 15) |
| CNN and wide CNN, epsilon 1 to 20 | epsilon | DP-SGD, accounted for substitution; infinite: the plain training |
| CNN, epsilon 2 and 10 | twin | the same epsilon, but larger batches, more epochs, less clipping norm (table 10) |

Pictures are silhouettes: what is darker than a tenth of white is black and all else white, for targets too. The noise
of 8 bits and the thin lines of a threshold in the middle are what no small generator gets right; with either, a network
told so many made pictures from real ones that against such closeness nothing else showed. A fifth of all labels are
random, of members, non-members and the generator's rows alike: what a model says of such a row it can only have learnt
by heart. Without them the most over-fitted model hardly rose above the baseline. All this was chosen after a look at
games on pictures of the same set, and nothing here pays for it.

Two helpers stand in for the target: one of generated rows, as in the paper, and one of the generator's own rows. These
are real, members that nobody audits, and show both guessers what any model of real pictures knows. Without the second,
private models that leak nothing rose above the baseline.

Rows go through the games by their numbers, in a pool of members, real non-members and generated rows; every target
says its loss, its log-odds of the true class, those of the most likely class, and how the first two fare on pictures
moved by a pixel. The generator is fitted once, and its rows are shared out anew in every game.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit import estimators
from dpaudit.evidence import CanaryScores, PairedScores
from dpaudit.execution import Execution, distinct_seeds, stream
from dpaudit.fitted.encoders import ImageView
from dpaudit.fitted.generators import PixelGrids
from dpaudit.games.panoramia import Panoramia
from dpaudit_experiments import data
from dpaudit_experiments.common.arrays import Arrays, kept, shared_folder
from dpaudit_experiments.common.figure import Rows
from dpaudit_experiments.common.image_models import CLASSES, Training, parameters, said_of, trained
from dpaudit_experiments.common.metrics import TargetGame, alone_scored, paired

Matrix = NDArray[np.float64]
Numbers = NDArray[np.int64]
COMPARED = ("epochs", "epsilon")
"""Families whose targets are also audited with real non-members."""
GROUPS = ("members", "real non-members", "generated")
DARK = 0.1
"""As black as this is black; the rest is rounded up to the next level."""
BINS, LARGEST = 20, 5.0
"""Of the histograms of losses; larger losses are in the last bin."""
HELPERS = ("generated and own", "generated", "real", "none", "generated, wide CNN", "other data")


@dataclass(frozen=True, kw_only=True)
class ImageScale:
    """All sizes.

    Attributes
    ----------
    source, random_labels
        "fashion-mnist" or scikit-learn's "digits", enlarged; and the share of labels that are drawn at random.
    members, generator_rows
        Rows that the targets are trained on, and how many of them the generator learns from; the rest is halved for
        the guessers' training and the audit.
    others, generated
        Real non-members, and generated rows: half as many again as the rest, because a helper learns from them too.
    width, wide, epochs, widths
        Channels of the CNN and of the wide one, epochs at which the plain training is looked at, channels by size.
    epsilons, private_epochs, private_batch, twins
        Of DP-SGD; and the epsilons that are trained for twice.
    helper_epochs
        Of the helper, a CNN as the targets.
    games, few_games
        Games on every target, and those on helpers' designs and learning curves.
    taught
        Shares of the training rows, for the learning curve.
    """

    source: str = "fashion-mnist"
    random_labels: float = 0.2
    members: int = 14_000
    generator_rows: int = 6_000
    others: int = 12_000
    generated: int = 12_000
    generator: PixelGrids = field(
        default_factory=lambda: PixelGrids(levels=2, epochs=(30, 20, 12), sharpness=(1.0, 2.0))
    )
    view: ImageView = field(default_factory=lambda: ImageView(epochs=6))
    width: int = 16
    wide: int = 24
    epochs: tuple[int, ...] = (2, 8, 60)
    widths: tuple[int, ...] = (4, 8, 16)
    epsilons: tuple[float, ...] = (1.0, 2.0, 4.0, 10.0, 20.0)
    private_epochs: int = 6
    private_batch: int = 512
    twins: tuple[float, ...] = (2.0, 10.0)
    helper_epochs: int = 8
    games: int = 5
    few_games: int = 2
    taught: tuple[float, ...] = (0.1, 0.3, 1.0)

    @property
    def levels(self) -> int:
        """Grey levels of all pictures, as the generator makes them."""
        return self.generator.levels


QUICK = ImageScale(
    source="digits",
    members=700,
    generator_rows=260,
    others=680,
    generated=680,
    generator=PixelGrids(levels=2, hidden=98, width=8, blocks=1, epochs=(4, 2, 1)),
    view=ImageView(width=4, epochs=1),
    width=4,
    wide=6,
    epochs=(1, 6),
    widths=(2, 4),
    epsilons=(1.0, 10.0),
    private_epochs=1,
    private_batch=64,
    twins=(10.0,),
    helper_epochs=2,
    games=2,
    few_games=1,
    taught=(0.5, 1.0),
)


# ----------------------------------------------------------------------------------------------------------------- rows


class Pool(NamedTuple):
    """Every row, pixels and class, and the numbers of those that play a part."""

    rows: NDArray[np.float32]
    members: Numbers
    audited: Numbers
    others: Numbers
    generated: Numbers


@lru_cache(maxsize=2)
def real_rows(source: str, levels: int) -> NDArray[np.float32]:
    """Pixels in so many levels, and the class."""
    if source == "digits":
        from sklearn.datasets import load_digits

        small = load_digits()
        pixels = np.pad(np.kron(small.images / 16.0, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))
        labels = small.target
    else:
        train_x, train_y, test_x, test_y = data.mnist() if source == "mnist" else data.fashion_mnist()
        pixels, labels = np.concatenate([train_x, test_x]) / 255.0, np.concatenate([train_y, test_y])
    bright = np.maximum(pixels.reshape(len(pixels), -1) - DARK, 0.0)
    rounded = np.ceil(bright * (levels - 1)) / (levels - 1)
    return np.column_stack([rounded, labels]).astype(np.float32)


def relabelled(rows: NDArray[np.float32], share: float, seed: int) -> NDArray[np.float32]:
    """A share of the rows gets a class at random, which may be its own."""
    rng, found = stream(seed, "random labels"), rows.copy()
    chosen = rng.random(len(rows)) < share
    found[chosen, -1] = rng.integers(0, CLASSES, size=int(chosen.sum()))
    return found


def pool_of(scale: ImageScale, seed: int, folder: str) -> Pool:
    """The real rows are drawn by the seed, and some of their labels anew; generated ones are made once."""
    real = relabelled(real_rows(scale.source, scale.levels), scale.random_labels, seed)
    drawn = stream(seed, "pictures").permutation(len(real))[: scale.members + scale.others]

    def generated(scale: ImageScale, seed: int) -> Arrays:
        own = real[drawn[: scale.generator_rows]]
        seeds = distinct_seeds(seed, "generator of pictures", 2)
        made = scale.generator.fit(own, seed=seeds[0]).sample(scale.generated, seed=seeds[1])
        return {"levels": np.round(made[:, :-1] * (scale.levels - 1)).astype(np.uint8), "classes": made[:, -1]}

    made = kept(folder, generated, scale, seed)
    rows = np.column_stack([made["levels"] / (scale.levels - 1), made["classes"]]).astype(np.float32)
    places = np.arange(len(drawn) + len(rows))
    cuts = (scale.generator_rows, scale.members, len(drawn))
    return Pool(np.concatenate([real[drawn], rows]), places[: cuts[1]], *np.split(places, cuts)[1:])


def foreign_rows(scale: ImageScale, count: int) -> NDArray[np.float32]:
    """Rows of another data set with as many classes: MNIST's digits for clothes, digits on their heads for digits."""
    if scale.source == "digits":
        found = real_rows("digits", scale.levels)[:count]
        return np.column_stack([found[:, -2::-1], found[:, -1]])
    return real_rows("mnist", scale.levels)[:count]


# -------------------------------------------------------------------------------------------------------------- targets


class Target(NamedTuple):
    """A line of a figure: its name, its place, and the training and mark that it is."""

    name: str
    family: str
    degree: float
    training: Training
    mark: int

    @property
    def key(self) -> str:
        training = self.training
        return f"{training.width}/{training.epsilon}/{training.batch}/{self.mark}"


def targets(scale: ImageScale) -> list[Target]:
    last = scale.epochs[-1]
    plain = {width: Training(width=width, marks=(last,)) for width in {*scale.widths, scale.wide}}
    plain[scale.width] = Training(width=scale.width, marks=scale.epochs)
    found = [Target(f"CNN, {mark} epochs", "epochs", mark, plain[scale.width], mark) for mark in scale.epochs]
    for width in scale.widths:
        name = f"CNN of {width} channels, {last} epochs"
        found.append(Target(name, "size", parameters(width), plain[width], last))
    for architecture, width in (("CNN", scale.width), ("wide CNN", scale.wide)):
        private = Training(width=width, marks=(scale.private_epochs,), batch=scale.private_batch, rate=2e-3)
        for epsilon in scale.epsilons:
            training = replace(private, epsilon=epsilon)
            found.append(
                Target(f"{architecture}, epsilon {epsilon:g}", "epsilon", epsilon, training, training.marks[0])
            )
        found.append(Target(f"{architecture}, epsilon infinite", "epsilon", math.inf, plain[width], last))
    for epsilon in scale.twins:
        training = Training(
            width=scale.width,
            marks=(2 * scale.private_epochs,),
            epsilon=epsilon,
            batch=4 * scale.private_batch,
            clip=0.3,
            rate=4e-3,
        )
        name = f"CNN, epsilon {epsilon:g}, larger batches"
        found.append(Target(name, "twin", epsilon, training, training.marks[0]))
    return found


def trainings(scale: ImageScale) -> list[Training]:
    return list(dict.fromkeys(target.training for target in targets(scale)))


def outputs_of(scale: ImageScale, seed: int, folder: str, training: Training) -> Arrays:
    """What the models of one training say of every row of the pool, by the mark's number."""

    def outputs(scale: ImageScale, seed: int, training: Training) -> Arrays:
        pool = pool_of(scale, seed, folder)
        own = distinct_seeds(seed, f"classifier {training}", 1)[0]
        models = trained(pool.rows[pool.members], training, own)
        return {str(mark): said_of(model, pool.rows) for mark, model in zip(training.marks, models, strict=True)}

    return kept(folder, outputs, scale, seed, training)


# ---------------------------------------------------------------------------------------------------------------- games


@dataclass(frozen=True, eq=False)
class _View:
    """The view of rows that come as numbers; what it learnt once from the same rows it knows."""

    pool: Pool
    view: ImageView
    known: dict[tuple[bytes, bytes, int], Any] = field(default_factory=dict)

    def __call__(self, numbers: Any, label: Any, seed: int) -> tuple[Matrix, Callable[[Any], Matrix]]:
        key = (np.asarray(numbers).tobytes(), np.asarray(label).tobytes(), seed)
        if key not in self.known:
            self.known[key] = self.view(_rows(self.pool, numbers), label, seed)
        features, of = self.known[key]
        return features, lambda others: of(_rows(self.pool, others))


def _rows(pool: Pool, numbers: Any) -> NDArray[np.float32]:
    return pool.rows[np.asarray(numbers)[:, 0].astype(np.int64)]


@dataclass(frozen=True, eq=False)
class _Helper:
    """A classifier of the targets' kind: on the rows that it is given (as numbers), or on others; and one `besides`."""

    pool: Pool
    width: int
    epochs: int
    instead: NDArray[np.float32] | None = None
    besides: NDArray[np.float32] | None = None

    def __call__(self, numbers: Any, seed: int) -> Callable[[Any], Matrix]:
        rows = _rows(self.pool, numbers) if self.instead is None else self.instead
        training = Training(width=self.width, marks=(self.epochs,))
        models = [trained(part, training, seed)[0] for part in (rows, self.besides) if part is not None]
        return lambda others: np.hstack([said_of(model, _rows(self.pool, others)) for model in models])


def _column(numbers: Numbers) -> Matrix:
    return numbers[:, None].astype(np.float64)


def _looked_up(table: Matrix) -> Callable[[Any], Matrix]:
    return lambda numbers: table[np.asarray(numbers)[:, 0].astype(np.int64)]


def _classifiers() -> dict[str, Any]:
    """Boosted trees hear what is not linear; a logistic regression follows the view's logit to its end."""
    from sklearn.ensemble import HistGradientBoostingClassifier as Boosted
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    milder = FunctionTransformer(np.arcsinh)  # log-odds of over-fitted networks have long tails
    return {
        "logistic regression": make_pipeline(milder, StandardScaler(), LogisticRegression(max_iter=1000)),
        "boosted trees, 4 leaves": Boosted(max_leaf_nodes=4, max_iter=60, learning_rate=0.1),
        "boosted trees, 12 leaves": Boosted(max_leaf_nodes=12, max_iter=60, learning_rate=0.1),
    }


def played(scale: ImageScale, seed: int, folder: str, number: int) -> Arrays:
    """One game on all targets, with generated rows, with real ones, by the loss alone, and the variations of it."""

    def game(scale: ImageScale, seed: int, number: int) -> Arrays:
        pool, own = pool_of(scale, seed, folder), distinct_seeds(seed, "games on pictures", number + 1)[number]
        tables = {
            target.key: _looked_up(outputs_of(scale, seed, folder, target.training)[str(target.mark)])
            for target in targets(scale)
        }
        compared = {target.key for target in targets(scale) if target.family in COMPARED}
        last = next(target.key for target in reversed(targets(scale)) if target.family == "epochs")
        main = Panoramia(
            members=_column(pool.audited),
            target=tables[last],
            generated=_column(pool.generated),
            helper=_helper(HELPERS[0], scale, pool),
            view=_View(pool, scale.view),
            classifiers=_classifiers(),
            shares=(0.0, 0.5, 0.5),
        )
        found = _flat("generated", main.play_targets(tables, seed=own))
        brief = _View(pool, replace(scale.view, epochs=1))  # pixels say nothing of who was trained on
        real = replace(main, generated=_column(pool.others), view=brief)
        found |= _flat("real", real.play_targets({key: tables[key] for key in tables if key in compared}, seed=own))
        for key in compared:
            alone = replace(main, target=tables[key]).one_run(_column(pool.others), seed=own)
            found |= {"alone included": alone.included, f"alone {key}": alone.scores}
        if number < scale.few_games:
            for design in HELPERS[1:]:
                varied = replace(main, helper=_helper(design, scale, pool))
                found |= _flat(f"helper {design}", varied.play_targets({"": tables[last]}, seed=own))
            for share in scale.taught:
                fewer = replace(main, train_fraction=share).play_targets({"": tables[last]}, seed=own)
                found |= _flat(f"taught {share}", fewer)
        return found

    return kept(folder, game, scale, seed, number)


def _helper(design: str, scale: ImageScale, pool: Pool) -> _Helper | None:
    if design == "none":
        return None
    count = (scale.members - scale.generator_rows) // 2
    instead = {"real": pool.rows[pool.others[:count]], "other data": foreign_rows(scale, count)}
    width = scale.wide if design == "generated, wide CNN" else scale.width
    own = pool.rows[pool.members[: scale.generator_rows]] if design == HELPERS[0] else None
    return _Helper(pool, width, scale.helper_epochs, instead.get(design), own)


def _flat(name: str, plays: Any) -> Arrays:
    found: Arrays = {}
    for key, play in plays.items():
        found[f"{name} included"], found[f"{name} baseline"] = play.only.included, play.only.baseline
        found[f"{name} attack {key}"] = play.only.attack
    return found


def _paired(arrays: Arrays, name: str, key: str, seed: int) -> PairedScores:
    names = (f"{name} included", f"{name} baseline", f"{name} attack {key}")
    return paired(*(arrays[each] for each in names), seed=seed, real=name == "real")


@dataclass(frozen=True)
class Work:
    """One part, which leaves arrays in the folder: the generator's rows, one training, or one game."""

    scale: ImageScale
    seed: int
    folder: str
    part: str

    def __call__(self, number: int) -> Sequence[float]:
        if self.part == "generator":
            pool_of(self.scale, self.seed, self.folder)
        elif self.part == "training":
            outputs_of(self.scale, self.seed, self.folder, trainings(self.scale)[number])
        else:
            played(self.scale, self.seed, self.folder, number)
        return [float(number)]


@lru_cache(maxsize=2)
def _games(scale: ImageScale, seed: int, execution: Execution) -> tuple[str, tuple[Arrays, ...]]:
    """Everything, made in parallel where that is possible; the folder, and the arrays of every game."""
    folder = shared_folder(execution)
    for part, count in (("generator", 1), ("training", len(trainings(scale))), ("game", scale.games)):
        execution.map(Work(scale, seed, folder, part), range(count), title=f"pictures: {part}")
    return folder, tuple(played(scale, seed, folder, number) for number in range(scale.games))


# -------------------------------------------------------------------------------------------------------------- figures


@lru_cache(maxsize=2)
def target_games(scale: ImageScale, seed: int, execution: Execution) -> list[TargetGame]:
    """Every target in every game."""
    folder, games = _games(scale, seed, execution)
    pool = pool_of(scale, seed, folder)
    seeds = distinct_seeds(seed, "games on pictures", scale.games)
    found = []
    for target in targets(scale):
        said = outputs_of(scale, seed, folder, target.training)[str(target.mark)]
        train, test = (float((said[part, 1] >= said[part, 2]).mean()) for part in (pool.members, pool.others))
        for number, arrays in enumerate(games):
            compared = target.family in COMPARED
            found.append(
                TargetGame(
                    modality="images",
                    target=target.name,
                    family=target.family,
                    degree=float(target.degree),
                    game=number,
                    generated=_paired(arrays, "generated", target.key, seeds[number]),
                    real=_paired(arrays, "real", target.key, seeds[number]) if compared else None,
                    one_run=_alone(arrays, target.key, seeds[number]) if compared else None,
                    train=train,
                    test=test,
                )
            )
    return found


def _alone(arrays: Arrays, key: str, seed: int) -> CanaryScores:
    return alone_scored(arrays["alone included"], arrays[f"alone {key}"], seed=seed)


def helper_rows(scale: ImageScale, seed: int, execution: Execution) -> Rows:
    """Tables 2 and 5: what the baseline shows, by what its helper learnt from."""
    key = next(target.key for target in reversed(targets(scale)) if target.family == "epochs")
    rows: Rows = []
    for number, arrays in enumerate(_games(scale, seed, execution)[1][: scale.few_games]):
        for design in HELPERS:
            name, of = ("generated", key) if design == HELPERS[0] else (f"helper {design}", "")
            region = estimators.panoramia(_paired(arrays, name, of, seed))
            rows.append({"modality": "images", "helper": design, "game": number, "closeness": region.divergence})
    return rows


def learning_rows(scale: ImageScale, seed: int, execution: Execution) -> Rows:
    """Figures 2 and 11: what baseline and attack show of the same audited rows, by the rows that they learnt from."""
    half = (scale.members - scale.generator_rows) // 2
    rows: Rows = []
    for number, arrays in enumerate(_games(scale, seed, execution)[1][: scale.few_games]):
        for share in scale.taught:
            region = estimators.panoramia(_paired(arrays, f"taught {share}", "", seed))
            about = {"modality": "images", "training_rows": 2 * round(share * half), "game": number}
            rows.append({**about, "closeness": region.divergence, "total": region.total})
    return rows


def loss_rows(scale: ImageScale, seed: int, execution: Execution) -> Rows:
    """Figure 13: losses under the least and the most over-fitted target of the plain training."""
    folder, _ = _games(scale, seed, execution)
    pool = pool_of(scale, seed, folder)
    line = [target for target in targets(scale) if target.family == "epochs"]
    rows: Rows = []
    for target in (line[0], line[-1]):
        losses = outputs_of(scale, seed, folder, target.training)[str(target.mark)][:, 0]
        for group, part in zip(GROUPS, (pool.audited, pool.others, pool.generated), strict=True):
            counts = np.histogram(np.minimum(losses[part], LARGEST), bins=BINS, range=(0.0, LARGEST))[0]
            for place, share in enumerate(counts / part.size):
                about = {"modality": "images", "target": target.name, "group": group}
                rows.append({**about, "loss": (place + 0.5) * LARGEST / BINS, "share": float(share)})
    return rows
