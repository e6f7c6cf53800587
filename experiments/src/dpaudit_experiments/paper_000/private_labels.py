"""Paper 000's tables: models trained on private labels, audited by their labels and by membership.

One game is a fresh split of the rows into members and non-members, a fresh training, and fresh coins; the proxy is
trained once, on rows that are in no game. Every number comes in two kinds: a bound (likelihood ratio, a guess path, at
95%, if the control passed), and the paper's own number (its score, the Gaussian family, the largest of 100 shares
of guesses, averaged over plays of one model), which is an estimate.

Games of one mechanism share a pool of rows and a proxy, so they are not independent of each other; those of PATE-FM
share teachers and members too. Which rows are the pool is fixed; the seed decides everything else. The proxies'
learners were chosen after their controls were seen on rows of the pool, which nothing here pays for.

Membership is another relation, substitution of a record, than replacement of a label. A label's epsilon does not limit
it, so bounds on the two stand side by side and are never compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import attacks, estimators
from dpaudit.auditing import audit
from dpaudit.bounds import LowerBound, Outcome
from dpaudit.counterfactuals import Categorical
from dpaudit.estimators.thresholds import Fixed, Uncorrected
from dpaudit.execution import Execution, distinct_seeds, stream, torch_or_refuse
from dpaudit.games import Observational, held_out_membership
from dpaudit.mechanisms.label_dp import (
    Alibi,
    Boosted,
    Clusters,
    FixMatch,
    Learner,
    Logistic,
    MultiStage,
    Network,
    OneStage,
    Pate,
    Shares,
    Sklearn,
)
from dpaudit.mechanisms.label_dp.learners import Model, catboost_or_refuse, one_hot
from dpaudit.testing.ground_truth import gaussian_mixture
from dpaudit_experiments import data
from dpaudit_experiments.common.figure import Rows

DELTA = 1e-5
INFINITE = math.inf
PRIOR_SHARE = 0.2
"""What a counted prior takes of epsilon, at most 1 in all."""
COMPONENTS = 20
"""Principal components that the blind baseline sees of a picture or a text."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything; `games` are for the larger epsilons, `private_games` for 1 and below."""

    picture_members: int = 5000
    picture_epochs: int = 20
    proxy_epochs: int = 12
    teachers: int = 100
    teacher_labels: int = 100
    teacher_steps: int = 300
    student_steps: int = 600
    compared_teachers: int = 10
    queries: tuple[tuple[float, int], ...] = ((INFINITE, 1000), (10.0, 250), (1.0, 25))
    row_members: int = 10_000
    row_proxy: int = 120_000
    trees: int = 300
    row_teachers: int = 30
    row_queries: tuple[tuple[float, int], ...] = (
        (INFINITE, 4000),
        (8.0, 200),
        (4.0, 80),
        (2.0, 30),
        (1.0, 15),
        (0.1, 10),
    )
    text_members: int = 5000
    text_words: int = 20_000
    games: int = 5
    private_games: int = 20
    plays: int = 3
    fetched: bool = True


FULL = Sizes()
SMALL = Sizes(
    picture_members=200,
    picture_epochs=2,
    proxy_epochs=2,
    teachers=3,
    teacher_labels=60,
    teacher_steps=5,
    student_steps=5,
    compared_teachers=1,
    queries=((INFINITE, 20), (10.0, 20), (1.0, 10)),
    row_members=300,
    row_proxy=900,
    trees=10,
    row_teachers=3,
    row_queries=((INFINITE, 50), (8.0, 40), (4.0, 30), (2.0, 20), (1.0, 20), (0.1, 10)),
    text_members=150,
    text_words=64,
    games=1,
    private_games=2,
    plays=1,
    fetched=False,
)


# ---------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True, eq=False)
class Task:
    """Rows that games are played with, and what is known about them from other rows."""

    x: Any
    y: NDArray[np.int64]
    classes: int
    features: NDArray[np.float64]
    """What the blind baseline sees."""
    other: tuple[Any, NDArray[np.int64]]
    """Rows and labels that are in no game: proxies learn from them."""
    encoded: NDArray[np.float32] | None = None
    """Pictures as an encoder of another domain sees them."""


def _components(flat: NDArray[Any]) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    count = min(COMPONENTS, flat.shape[1], len(flat) // 2)
    return np.asarray(PCA(count, svd_solver="randomized", random_state=0).fit_transform(flat), dtype=np.float64)


@lru_cache(maxsize=1)
def picture_task(sizes: Sizes) -> Task:
    """Fashion-MNIST: 35,000 pictures to play with, and 35,000 others."""
    torch_or_refuse()
    if sizes.fetched:
        train_x, train_y, test_x, test_y = data.fashion_mnist()
        encoded = data.fashion_mnist_features()[:35_000]
        x, y = np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y])
        inner, outer = np.arange(35_000), np.arange(35_000, 70_000)
    else:
        pixels, y = data.digits()
        x, encoded = (pixels.reshape(-1, 8, 8) * 255).astype(np.uint8), pixels.astype(np.float32)
        inner, outer = np.arange(1200), np.arange(1200, 1797)
    flat = x[inner].reshape(inner.size, -1).astype(np.float32) / 255
    return Task(x[inner], y[inner], 10, _components(flat), (x[outer], y[outer]), encoded[: inner.size])


@lru_cache(maxsize=1)
def row_task(sizes: Sizes) -> Task:
    """Census-Income: a rare label, as clicks are."""
    catboost_or_refuse()
    if sizes.fetched:
        x, y = data.census()
    else:
        seen, labels, _ = gaussian_mixture(3000, 2, np.random.default_rng(0))
        x, y = seen.astype(np.float64), labels
    order = np.random.default_rng(0).permutation(len(y))
    outer, inner = order[: sizes.row_proxy], order[sizes.row_proxy :]
    return Task(x[inner], y[inner], 2, x[inner], (x[outer], y[outer]))


@lru_cache(maxsize=1)
def text_task(sizes: Sizes) -> Task:
    """IMDB reviews by TF-IDF; the words and their weights come from reviews that are in no game."""
    if not sizes.fetched:
        x, y, _ = gaussian_mixture(3 * sizes.text_members, 2, np.random.default_rng(0))
        inner, outer = np.split(np.arange(len(y)), [2 * sizes.text_members])
        return Task(x[inner], y[inner], 2, _components(x[inner]), (x[outer], y[outer]))
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, y = data.movie_reviews("imdb")
    inner, outer = np.split(np.random.default_rng(0).permutation(len(y)), [2 * sizes.text_members])
    words = TfidfVectorizer(max_features=sizes.text_words, sublinear_tf=True, ngram_range=(1, 2), min_df=3)
    words.fit([texts[row] for row in outer])
    x = words.transform(texts)
    seen = TruncatedSVD(COMPONENTS, random_state=0).fit(x[outer]).transform(x[inner])
    return Task(x[inner], y[inner], 2, seen, (x[outer], y[outer]))


@dataclass(frozen=True)
class ProxyPart:
    """One of the learners whose mean is a task's proxy, by its number."""

    task: str
    sizes: Sizes
    seed: int

    def __call__(self, number: int) -> list[float]:
        task = TASKS[self.task][0](self.sizes)
        own = distinct_seeds(self.seed, f"proxy of {self.task}", number + 1)[number]
        x, y = task.other
        # a penalised regression is too careful, and is recalibrated on the rest
        kept = 4 * len(y) // 5 if self.task == "texts" else len(y)
        model = self.learners[number].fit(x[:kept], one_hot(y[:kept], task.classes), seed=own)
        distribution = model.predict_proba(task.x)
        if kept < len(y):
            both = Categorical(np.concatenate([model.predict_proba(x[kept:]), distribution]))
            values = np.concatenate([y[kept:], np.zeros(len(distribution), dtype=np.int64)])
            distribution = both.recalibrated(values, np.arange(len(y) - kept)).probabilities[len(y) - kept :]
        return [float(value) for value in distribution.ravel()]

    @property
    def learners(self) -> list[Learner]:
        if self.task == "pictures":
            made = partial(Network, epochs=self.sizes.proxy_epochs, shifts=1)
            return [made(channels=channels) for channels in ((32, 64), (16, 32))]
        if self.task == "rows":
            return [Boosted(trees=self.sizes.trees, depth=6)]
        return [Logistic(strength=10.0)]


@lru_cache(maxsize=1)
def proxy_of(task: str, sizes: Sizes, seed: int, execution: Execution) -> NDArray[np.float64]:
    """What a task's proxy says of the rows that games are played with: it is trained once, on other rows."""
    rows = len(TASKS[task][0](sizes).y)  # here first, so that missing data is a refusal and no failed run
    part = ProxyPart(task, sizes, seed)
    found = np.mean(execution.map(part, range(len(part.learners)), title=f"{task}, proxy"), axis=0)
    return np.asarray(found).reshape(rows, -1)


# ----------------------------------------------------------------------------------------------------------- mechanisms


def _prior(epsilon: float, features: Any) -> Clusters:
    return Clusters(epsilon=PRIOR_SHARE * min(epsilon, 1.0 / PRIOR_SHARE), features=features)


def picture_mechanisms(task: Task, inside: NDArray[np.intp], epsilon: float, sizes: Sizes) -> dict[str, Any]:
    """By name, as the tables list them; the epsilon is infinite for labels as they are."""
    common: dict[str, Any] = {"epsilon": epsilon, "classes": 10, "learner": Network(epochs=sizes.picture_epochs)}
    assert task.encoded is not None
    return {
        "LP-1ST": OneStage(**common),
        "LP-1ST (in-domain prior)": OneStage(prior=_prior(epsilon, task.features[inside]), **common),
        "LP-1ST (out-of-domain prior)": OneStage(prior=_prior(epsilon, task.encoded[inside]), **common),
        "ALIBI": Alibi(**common),
    }


def few_trees(sizes: Sizes) -> int:
    """Of PATE's teachers and student, which have few rows."""
    return max(10, sizes.trees // 5)


def row_mechanisms(task: Task, inside: NDArray[np.intp], epsilon: float, sizes: Sizes) -> dict[str, Any]:
    learner: Learner = Boosted(trees=sizes.trees, depth=8)
    common: dict[str, Any] = {"epsilon": epsilon, "classes": 2, "learner": learner}
    known = one_hot(task.other[1], 2).mean(axis=0)  # how often the label occurs, in rows that are in no game
    teachers: dict[str, Any] = {
        "teachers": sizes.row_teachers,
        "queries": dict(sizes.row_queries)[epsilon],
        "delta": DELTA,
    }
    few = Boosted(trees=few_trees(sizes), depth=4)
    return {
        "LP-1ST": OneStage(**common),
        "LP-1ST (domain prior)": OneStage(prior=Shares(known), **common),
        "LP-1ST (noise correction)": OneStage(correct_noise=True, **common),
        "LP-2ST": MultiStage(**common),
        "PATE": Pate(epsilon=epsilon, classes=2, learner=few, student=few, **teachers),
    }


def text_mechanisms(task: Task, inside: NDArray[np.intp], epsilon: float, sizes: Sizes) -> dict[str, Any]:
    return {"none": OneStage(epsilon=epsilon, classes=2, learner=Sklearn(perceptron))}


def perceptron(seed: int) -> Any:
    """A fully connected network for the text task: eight epochs, as no loss ever falls by `tol`."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), batch_size=128, tol=1e9, n_iter_no_change=6, random_state=seed % 2**32)


TASKS: dict[str, tuple[Callable[[Sizes], Task], Callable[..., dict[str, Any]]]] = {
    "pictures": (picture_task, picture_mechanisms),
    "rows": (row_task, row_mechanisms),
    "texts": (text_task, text_mechanisms),
}


# ---------------------------------------------------------------------------------------------------------------- games

MEASURED = (
    "bound",
    "bound_at_1_percent",
    "withheld",
    "sweep_estimate",
    "at_1_percent_estimate",
    "membership_difficulty",
    "membership_rmia",
    "difficulty_sweep_estimate",
    "rmia_sweep_estimate",
    "accuracy",
    "log_loss",
    "training_accuracy",
)
"""What one game of one model gives, in this order; membership is another relation than labels."""
ACCEPTED = ("counterfactual-right",)
"""That the proxy is right, which the paper assumes; without it our audit of the coins alone reports no number."""


@dataclass(frozen=True)
class Split:
    """Members, whose labels are trained on, and as many non-members, which are also the test rows."""

    inside: NDArray[np.intp]
    outside: NDArray[np.intp]

    @classmethod
    def drawn(cls, rows: int, members: int, seed: int) -> Split:
        order = stream(seed, "members").permutation(rows)
        return cls(order[:members], order[members : 2 * members])


def measured(
    task: Task, counterfactual: NDArray[np.float64], split: Split, model: Model, *, delta: float, seed: int, plays: int
) -> list[float]:
    """`MEASURED` of one trained model."""
    distributions = {name: Categorical(model.predict_proba(task.x[rows])) for name, rows in vars(split).items()}
    game = Observational(
        values=task.y[split.inside],
        counterfactual=Categorical(counterfactual[split.inside]),
        target=distributions["inside"],
        features=task.features[split.inside],
    )
    found = audit(game, seed=seed, delta=delta, accept=ACCEPTED)
    withheld = found.outcome is Outcome.WITHHELD
    fixed = estimators.epsilon_from_canaries(_evidence(game, seed), delta=delta, guesses=Fixed(fraction=0.01))
    label = [epsilon_of(found.bounds), 0.0 if withheld else fixed.epsilon or 0.0, float(withheld)]
    published = [_published(game, own) for own in distinct_seeds(seed, "plays", plays)]
    right = [
        float((distributions[name].probabilities.argmax(axis=1) == task.y[rows]).mean())
        for name, rows in vars(split).items()
    ]
    loss = float(-np.log(distributions["outside"].density(task.y[split.outside])).mean())
    return [
        *label,
        *np.mean(published, axis=0).tolist(),
        *_membership(task, counterfactual, split, distributions, seed),
        right[1],
        loss,
        right[0],
    ]


def _evidence(game: Observational, seed: int, attack: str = "likelihood-ratio") -> Any:
    return replace(game, attack=attack).play(seed=seed).only


def epsilon_of(bounds: Any) -> float:
    """The bound on epsilon among all bounds of an audit; 0 where there is none."""
    return next((b.epsilon or 0.0 for b in bounds if isinstance(b, LowerBound) and b.parameter == "epsilon"), 0.0)


def _published(game: Observational, seed: int) -> list[float]:
    """The paper's numbers of one play: its score, the Gaussian family, the best of 100 shares, and a share of 1%."""
    evidence = _evidence(game, seed, "difference")
    return [
        estimators.mu_from_canaries(evidence, delta=DELTA, guesses=guesses).epsilon or 0.0
        for guesses in (Uncorrected(), Fixed(fraction=0.01))
    ]


def _membership(
    task: Task, counterfactual: NDArray[np.float64], split: Split, distributions: dict[str, Categorical], seed: int
) -> list[float]:
    """Bounds by difficulty calibration and RMIA, then the paper's numbers of both."""
    bounds, published = [], []
    pairs = {
        name: (distributions[name].density(task.y[rows]), Categorical(counterfactual[rows]).density(task.y[rows]))
        for name, rows in vars(split).items()
    }
    for score, sides in ((attacks.difficulty_calibration, "sign"), (attacks.rmia, "both")):
        both = score(*(np.concatenate([pairs["inside"][n], pairs["outside"][n]]) for n in (0, 1)))
        members, others = np.split(both, [split.inside.size])
        evidence = held_out_membership(members=members, non_members=others, sides=sides, seed=seed)
        bounds.append(estimators.epsilon_from_canaries(evidence, delta=0.0).epsilon or 0.0)
        published.append(estimators.mu_from_canaries(evidence, delta=DELTA, guesses=Uncorrected()).epsilon or 0.0)
    return [*bounds, *published]


@dataclass(frozen=True, eq=False)
class Games:
    """All mechanisms of one task at one epsilon, on one split."""

    task: str
    epsilon: float
    members: int
    sizes: Sizes
    counterfactual: NDArray[np.float64] = field(repr=False)

    def __call__(self, seed: int) -> list[float]:
        load, make = TASKS[self.task]
        task = load(self.sizes)
        split = Split.drawn(len(task.y), self.members, seed)
        found: list[float] = []
        for name, mechanism in make(task, split.inside, self.epsilon, self.sizes).items():
            own = distinct_seeds(seed, name, 1)[0]  # without privacy they are all one, and would be one model
            model = mechanism.release((task.x[split.inside], task.y[split.inside]), own)
            delta = DELTA if isinstance(mechanism, Pate) and math.isfinite(self.epsilon) else 0.0
            found += measured(task, self.counterfactual, split, model, delta=delta, seed=seed, plays=self.sizes.plays)
        return found


Cells = dict[tuple[str, float], NDArray[np.float64]]
"""By mechanism and epsilon: one line of `MEASURED` a game."""


def played(
    task: str, epsilons: tuple[float, ...], members: int, sizes: Sizes, seed: int, execution: Execution
) -> Cells:
    """All games of a task; `sizes.private_games` for epsilon 1 and below."""
    cells: Cells = {}
    counterfactual = proxy_of(task, sizes, seed, execution)
    names = list(TASKS[task][1](TASKS[task][0](sizes), np.arange(1), 1.0, sizes))
    for epsilon in epsilons:
        games = sizes.private_games if epsilon <= 1.0 else sizes.games
        title = f"{task}, epsilon {epsilon:g}"
        seeds = distinct_seeds(seed, title, games)
        lines = np.array(execution.map(Games(task, epsilon, members, sizes, counterfactual), seeds, title=title))
        for place, name in enumerate(names):
            cells[name, epsilon] = lines[:, place * len(MEASURED) : (place + 1) * len(MEASURED)]
    return cells


# -------------------------------------------------------------------------------------------------------------- PATE-FM


@dataclass(frozen=True)
class Teacher:
    """One teacher of PATE-FM: its votes, how often it is right, and how often it would be by its labels alone."""

    sizes: Sizes
    seed: int

    def __call__(self, number: int) -> list[float]:
        task, split = picture_task(self.sizes), self.split
        x, y = task.x[split.inside], task.y[split.inside]
        model = self.ensemble(INFINITE).teacher(x, y, self.seed, number)
        alone = math.nan
        if number < self.sizes.compared_teachers:
            part = self.ensemble(INFINITE).part(y.size, self.seed, number)
            plain = Network(epochs=60, batch=32).fit(x[part], one_hot(y[part], 10), seed=number)
            alone = self._right(plain)
        votes = model.predict_proba(x[self.asked]).argmax(axis=1)
        return [self._right(model), alone, *votes.astype(float)]

    def _right(self, model: Model) -> float:
        task = picture_task(self.sizes)
        outside = self.split.outside
        return float((model.predict_proba(task.x[outside]).argmax(axis=1) == task.y[outside]).mean())

    @property
    def split(self) -> Split:
        members = self.sizes.teachers * self.sizes.teacher_labels
        return Split.drawn(len(picture_task(self.sizes).y), members, self.seed)

    @property
    def asked(self) -> NDArray[np.intp]:
        """The rows that teachers vote on: as many as the largest number of queries."""
        members = self.sizes.teachers * self.sizes.teacher_labels
        return stream(self.seed, "asked").permutation(members)[: max(count for _, count in self.sizes.queries)]

    def ensemble(self, epsilon: float) -> Pate:
        return Pate(
            epsilon=epsilon,
            classes=10,
            learner=FixMatch(steps=self.sizes.teacher_steps),
            student=FixMatch(steps=self.sizes.student_steps),
            teachers=self.sizes.teachers,
            queries=dict(self.sizes.queries)[epsilon],
            delta=DELTA,
        )


@dataclass(frozen=True, eq=False)
class Students:
    """A student of fresh noise from the same teachers, then one game."""

    teacher: Teacher
    epsilon: float
    counts: NDArray[np.int64] = field(repr=False)
    counterfactual: NDArray[np.float64] = field(repr=False)

    def __call__(self, seed: int) -> list[float]:
        task, split = picture_task(self.teacher.sizes), self.teacher.split
        ensemble = self.teacher.ensemble(self.epsilon)
        asked, counts = (all_of[: ensemble.queries] for all_of in (self.teacher.asked, self.counts))
        model = ensemble.student_of(task.x[split.inside], counts, asked, seed)
        right = float((ensemble.answers(counts, seed) == task.y[split.inside][asked]).mean())
        delta = DELTA if math.isfinite(self.epsilon) else 0.0
        plays = self.teacher.sizes.plays
        return [right, *measured(task, self.counterfactual, split, model, delta=delta, seed=seed, plays=plays)]


@lru_cache(maxsize=1)
def pate_fm(sizes: Sizes, seed: int, execution: Execution) -> tuple[Rows, Cells]:
    """What the teachers and their answers were like, and the students' games. All games share one set of teachers."""
    counterfactual = proxy_of("pictures", sizes, seed, execution)
    teacher = Teacher(sizes, seed)
    lines = np.array(execution.map(teacher, range(sizes.teachers), title="PATE-FM, teachers"))
    counts = one_hot(lines[:, 2:].astype(np.int64), 10).sum(axis=0).astype(np.int64)
    rows: Rows = []
    cells: Cells = {}
    for epsilon, queries in sizes.queries:
        games = sizes.private_games if epsilon <= 1.0 else sizes.games
        title = f"PATE-FM, students, epsilon {epsilon:g}"
        seeds = distinct_seeds(seed, title, games)
        found = np.array(execution.map(Students(teacher, epsilon, counts, counterfactual), seeds, title=title))
        cells["PATE-FM", epsilon] = found[:, 1:]
        rows.append(
            {
                "epsilon": None if math.isinf(epsilon) else epsilon,
                "teachers": sizes.teachers,
                "labels_a_teacher": sizes.teacher_labels,
                "unlabelled_pictures": sizes.teachers * sizes.teacher_labels,
                "queries": queries,
                "sigma": teacher.ensemble(epsilon).sigma,
                "teacher_accuracy": float(lines[:, 0].mean()),
                "teacher_accuracy_compared": float(lines[: sizes.compared_teachers, 0].mean()),
                "accuracy_by_labels_alone": float(np.nanmean(lines[:, 1])),
                "right_answers": float(found[:, 0].mean()),
                "games": games,
                "student_accuracy": float(found[:, 1 + MEASURED.index("accuracy")].mean()),
            }
        )
    return rows, cells
