"""Paper 004 on texts: small language models, fine-tuned on chunks of film reviews (section 5, C.2, D.1, D.7, D.9).

| model | trained on |
|---|---|
| base | public reviews, which are nobody's members; its tokens too |
| target | all members, from the base: checkpoints of one training, or DP-SGD |
| generator | 35% of the members, from the base; another 15% are its prompts |
| helper | generated chunks, from the base; for table 2 also real non-members |

A unit is a chunk of 32 tokens, and no review gives more than one of them, so that chunks are independent draws of one
distribution, except for films that several reviews are about. GPT-2 (the paper's) or SmolLM2 are too large to be
fine-tuned on two cores; the transformer here has half a million parameters. What a model says of a chunk is the mean,
the smallest and the largest of its token losses, and all of them in order. Both guessers see the chunk through the
base: what it says, and its first layer fine-tuned to tell real from generated (`TokenView`).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError, accounting, estimators
from dpaudit.bounds import Relation
from dpaudit.evidence import PairedScores
from dpaudit.execution import Execution, distinct_seeds, stream
from dpaudit.fitted.encoders import TokenView
from dpaudit.fitted.generators import LanguageModel
from dpaudit.fitted.generators import language_model as language
from dpaudit.fitted.generators.language_model import Shape
from dpaudit.games import Panoramia
from dpaudit_experiments import data
from dpaudit_experiments.common.arrays import Arrays, kept, shared_folder
from dpaudit_experiments.common.figure import Rows, Sizes
from dpaudit_experiments.common.metrics import TargetGame, alone_scored, paired

Matrix = NDArray[np.float64]
DELTA = 1e-5
CLIP = 0.5
HELPERS = ("generated", "real", "none")
CHUNK = "chunk"
BINS = 30
WORDS = ("the", "film", "was", "seen", "by", "old", "men", "who", "like", "dark", "songs", "and", "never", "sleep")
"""Of made-up reviews."""


@dataclass(frozen=True, kw_only=True)
class TextScale:
    """How many documents, chunks, passes and games.

    Attributes
    ----------
    members, nonmembers, others
        Chunks that targets are trained on; real ones that they are not; and real ones for table 2's other helper.
    own, training
        Share of the members for the generator, and of the rest for the guessers; what remains is audited.
    public, pretraining
        Sequences of two chunks' length that the base is trained on, and passes over them.
    epochs, epsilons
        The targets.
    private_steps, private_batch, private_rate
        Of DP-SGD: steps, expected chunks in a batch, and learning rate.
    generated, for_helper
        Generated chunks for the games, and others for the helper.
    games, learning_games, learning_shares
        Games on every target, games of figure 9, and shares of the guessers' rows that it trains on (panel b).
    """

    source: str = "imdb"
    tokens: int = 32
    shape: Shape = field(default_factory=Shape)
    members: int = 8_000
    nonmembers: int = 4_000
    others: int = 4_000
    own: float = 0.5
    training: float = 0.5
    public: int = 30_000
    pretraining: int = 2
    pretraining_rate: float = 3e-3
    epochs: tuple[int, ...] = (1, 4, 12)
    rate: float = 1e-3
    epsilons: tuple[float, ...] = (1.0, 3.0, 10.0)
    private_steps: int = 120
    private_batch: int = 256
    private_rate: float = 1e-3
    generated: int = 6_000
    for_helper: int = 4_000
    top: int = 1_000
    generator_epochs: int = 1
    helper_epochs: int = 3
    view_epochs: int = 2
    games: int = 5
    learning_games: int = 2
    learning_shares: tuple[float, ...] = (0.125, 0.25, 0.75)


QUICK = TextScale(
    source="made up",
    tokens=8,
    shape=Shape(vocabulary=300, width=16, layers=1, heads=2),
    members=480,
    nonmembers=240,
    others=60,
    public=300,
    pretraining=2,
    epochs=(1, 3),
    epsilons=(3.0,),
    private_steps=4,
    private_batch=480,
    generated=400,
    for_helper=100,
    top=100,
    generator_epochs=1,
    helper_epochs=1,
    view_epochs=1,
    games=2,
    learning_games=1,
    learning_shares=(0.25,),
)


# -------------------------------------------------------------------------------------------------------------- chunks


def documents(source: str, count: int) -> list[str]:
    """Reviews, without the marks of line breaks; made-up ones are a chain of words, in which each prefers some."""
    if source == "imdb":
        return [re.sub(r"<br\s*/?>", " ", text) for text in data.movie_reviews("imdb")[0]]
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.full(len(WORDS), 0.3), size=len(WORDS)).cumsum(axis=1)
    places = np.zeros((count, 60), dtype=np.int64)
    for step in range(1, places.shape[1]):
        before = chain[places[:, step - 1]]
        places[:, step] = np.minimum((rng.random((count, 1)) > before).sum(axis=1), len(WORDS) - 1)
    return [" ".join(WORDS[place] for place in row) for row in places]


def chunks_of(scale: TextScale, seed: int) -> Arrays:
    """Public sequences, and one chunk a document of members, non-members and others; token numbers.

    A chunk is not its document's first: generated ones follow a prompt as well.
    """
    audited = scale.members + scale.nonmembers + scale.others
    texts = documents(scale.source, 2 * audited)
    order = stream(seed, "documents").permutation(len(texts))
    tokenizer = trained_tokenizer(
        [texts[place] for place in order[audited * 11 // 10 :][:3000]], scale.shape.vocabulary
    )
    rng, length = stream(seed, "chunks of documents"), scale.tokens
    found: list[Any] = []
    taken = 0
    while len(found) < audited:
        (tokens,) = _encoded(tokenizer, [texts[order[taken]]])
        taken += 1
        if tokens.size >= 2 * length:
            place = int(rng.integers(1, tokens.size // length))
            found.append(tokens[place * length : (place + 1) * length])
    if taken > audited * 11 // 10:
        raise InputError(f"`members` must leave documents to learn tokens from, got {taken:,} documents that are used.")
    public = []
    for tokens in _encoded(tokenizer, [texts[place] for place in order[taken:]]):
        public.append(tokens[: tokens.size // (2 * length) * 2 * length].reshape(-1, 2 * length))
    sequences = np.concatenate(public)
    sequences = sequences[rng.permutation(len(sequences))[: scale.public]]
    cuts = np.cumsum([scale.members, scale.nonmembers])
    members, nonmembers, others = np.split(np.array(found, dtype=np.int16), cuts)
    return {"public": sequences, "members": members, "nonmembers": nonmembers, "others": others}


def trained_tokenizer(texts: list[str], vocabulary: int) -> Any:
    """Byte-level pairs, learnt from public texts."""
    try:
        package = import_module("tokenizers")
    except ImportError:
        raise InputError(
            "tokens of texts need the package tokenizers, which is not installed.",
            "pip install './experiments[text]' in a clone of the repository.",
        ) from None
    found = package.Tokenizer(package.models.BPE())
    found.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = package.pre_tokenizers.ByteLevel.alphabet()
    trainer = package.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=sorted(alphabet), show_progress=False)
    found.train_from_iterator(texts, trainer)
    return found


def _encoded(tokenizer: Any, texts: list[str]) -> list[NDArray[np.int16]]:
    return [np.array(each.ids, dtype=np.int16) for each in tokenizer.encode_batch(texts)]


# -------------------------------------------------------------------------------------------------------------- models


def base_of(scale: TextScale, seed: int, public: Any) -> Arrays:
    seeds = distinct_seeds(seed, "base model", 2)
    (found,) = language.trained(
        scale.shape,
        scale.shape.start(seeds[0]),
        public,
        epochs=(scale.pretraining,),
        rate=scale.pretraining_rate,
        seed=seeds[1],
        fading=True,
    )
    return found


def generated_of(scale: TextScale, seed: int, rows: Any, base: Arrays) -> Arrays:
    model = LanguageModel(shape=scale.shape, start=base, epochs=scale.generator_epochs, rate=scale.rate, top=scale.top)
    seeds = distinct_seeds(seed, "generator of texts", 2)
    made = model.fit(rows, seed=seeds[0]).sample(scale.generated + scale.for_helper, seed=seeds[1])
    return {"games": made[: scale.generated].astype(np.int16), "helper": made[scale.generated :].astype(np.int16)}


def helper_of(scale: TextScale, seed: int, rows: Any, base: Arrays) -> Arrays:
    (chosen,) = distinct_seeds(seed, "helper of texts", 1)
    return language.trained(
        scale.shape, base, rows, epochs=(scale.helper_epochs,), rate=scale.rate, seed=chosen, fading=True
    )[0]


def targets_of(scale: TextScale, seed: int, members: Any, base: Arrays) -> Arrays:
    """Weights of all checkpoints of one training, by "epochs: name"."""
    (chosen,) = distinct_seeds(seed, "target of texts", 1)
    found = language.trained(scale.shape, base, members, epochs=scale.epochs, rate=scale.rate, seed=chosen)
    pairs = zip(scale.epochs, found, strict=True)
    return {f"{epochs}: {name}": value for epochs, weights in pairs for name, value in weights.items()}


def private_of(scale: TextScale, seed: int, epsilon: float, members: Any, base: Arrays) -> Arrays:
    """Trained by DP-SGD for this epsilon under the substitution of a chunk, which is what the audit certifies."""
    sampling_rate = scale.private_batch / len(members)
    (chosen,) = distinct_seeds(seed, f"private target of texts {epsilon:g}", 1)
    noise = accounting.noise_multiplier_for(
        epsilon=epsilon,
        delta=DELTA,
        sampling_rate=sampling_rate,
        steps=scale.private_steps,
        relation=Relation.SUBSTITUTE,
    )
    return language.trained_privately(
        scale.shape,
        base,
        members,
        noise_multiplier=noise,
        sampling_rate=sampling_rate,
        steps=scale.private_steps,
        clip=CLIP,
        rate=scale.private_rate,
        seed=chosen,
    )


def outputs_of(shape: Shape, weights: Arrays, *groups: Any) -> Arrays:
    """What a model says of every chunk of some groups, one group after the other."""
    return {"outputs": language.outputs(shape, weights, np.concatenate(groups)).astype(np.float32)}


@dataclass(frozen=True, eq=False)
class Said:
    """What a model says of chunks that it was asked about before."""

    place: Mapping[bytes, int] = field(repr=False)
    outputs: Matrix = field(repr=False)

    def __call__(self, rows: Any) -> Matrix:
        return self.outputs[[self.place[row.tobytes()] for row in np.asarray(rows).astype(np.int16)]]


@dataclass(frozen=True, eq=False)
class Study:
    """All that the games share; `said` is by model, targets and helpers."""

    chunks: Arrays
    audited: Any
    generated: Any
    base: Arrays
    said: dict[str, Said]

    @property
    def groups(self) -> dict[str, Any]:
        """Chunks that are compared: members without the generator's own, real non-members, and generated ones."""
        return {"members": self.audited, "non-members": self.chunks["nonmembers"], "generated": self.generated}


@lru_cache(maxsize=1)
def study_of(folder: str, scale: TextScale, seed: int) -> Study:
    """Everything that is trained once."""
    chunks = kept(folder, chunks_of, scale, seed)
    own = round(scale.own * scale.members)
    base = kept(folder, base_of, scale, seed, chunks["public"])
    made = kept(folder, generated_of, scale, seed, chunks["members"][:own], base)
    models = {
        "helper, generated": kept(folder, helper_of, scale, seed, made["helper"], base),
        "helper, real": kept(folder, helper_of, scale, seed, chunks["others"], base),
    }
    stages = kept(folder, targets_of, scale, seed, chunks["members"], base)
    for epochs in scale.epochs:
        mark = f"{epochs}: "
        models[by_epochs(epochs)] = {
            name.removeprefix(mark): value for name, value in stages.items() if name.startswith(mark)
        }
    for epsilon in scale.epsilons:
        models[by_epsilon(epsilon)] = kept(folder, private_of, scale, seed, epsilon, chunks["members"], base)
    groups = (chunks["members"][own:], chunks["nonmembers"], made["games"])
    place = {row.tobytes(): number for number, row in enumerate(np.concatenate(groups))}
    said = {}
    for name, weights in models.items():
        said[name] = Said(place, kept(folder, outputs_of, scale.shape, weights, *groups)["outputs"].astype(np.float64))
    return Study(chunks, groups[0], groups[2], base, said)


def by_epochs(epochs: int) -> str:
    return f"transformer, {epochs} epoch{'s' if epochs > 1 else ''}"


def by_epsilon(epsilon: float) -> str:
    return f"transformer, epsilon {epsilon:g}"


def targets(scale: TextScale) -> list[tuple[str, str, float]]:
    """Name, family and degree of every target."""
    return [(by_epochs(epochs), "epochs", float(epochs)) for epochs in scale.epochs] + [
        (by_epsilon(epsilon), "epsilon", epsilon) for epsilon in scale.epsilons
    ]


# --------------------------------------------------------------------------------------------------------------- games


@dataclass(frozen=True, eq=False)
class Remembered:
    """A view that is learnt once from the same rows: games that differ in the helper alone share it."""

    view: TokenView
    found: dict[str, Any] = field(default_factory=dict, repr=False)

    def __call__(self, rows: Any, label: Any, seed: int) -> tuple[Matrix, Callable[[Any], Matrix]]:
        parts = (np.ascontiguousarray(rows), np.ascontiguousarray(label), np.array([seed]))
        key = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
        if key not in self.found:
            self.found[key] = self.view(rows, label, seed)
        return self.found[key]


def guessers() -> dict[str, Any]:
    """Candidates for baseline and attack; the linear one subtracts what the helper says from what the target says."""
    from sklearn.ensemble import HistGradientBoostingClassifier as Boosted
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    return {"logistic regression": linear, "boosted trees": Boosted(max_leaf_nodes=4, max_iter=60, learning_rate=0.1)}


def game_of(study: Study, scale: TextScale, helper: str, view: Any, training: float | None = None) -> Panoramia:
    """Members that the generator never saw against generated chunks, with one design of the helper.

    Every helper was trained before all games, on rows that no game is given.
    """
    share = scale.training if training is None else training
    helped = None if helper == "none" else study.said[f"helper, {helper}"]
    return Panoramia(
        members=study.audited,
        target=study.said[by_epochs(scale.epochs[-1])],
        generated=study.generated,
        helper=None if helped is None else lambda rows, seed: helped,
        view=view,
        classifiers=guessers(),
        shares=(0.0, share, 1.0 - share),
        unit="chunk",
    )


def view_of(study: Study, scale: TextScale) -> Remembered:
    return Remembered(TokenView(shape=scale.shape, start=study.base, epochs=scale.view_epochs))


@dataclass(frozen=True)
class Played:
    """One game against generated chunks and one against real ones, on every target, as numbers: lines of one length."""

    folder: str
    scale: TextScale
    seed: int

    def __call__(self, number: int) -> list[float]:
        study, scale = study_of(self.folder, self.scale, self.seed), self.scale
        seed = game_seeds(self.seed, scale)[number]
        asked = {name: study.said[name] for name, _, _ in targets(scale)}
        view = view_of(study, scale)
        game = game_of(study, scale, "generated", view)
        made = game.play_targets(asked, seed=seed)
        nonmembers = study.chunks["nonmembers"].astype(np.float64)
        real = game.with_real(nonmembers).play_targets(asked, seed=seed)
        lines: list[Any] = []
        for name, target in asked.items():
            for evidence in (made[name].only, real[name].only):
                lines += [evidence.included, evidence.baseline, evidence.attack]
            one_run = replace(game, target=target).one_run(nonmembers, seed=seed)
            lines += [one_run.included, one_run.scores]
        for helper in HELPERS[1:]:
            evidence = game_of(study, scale, helper, view).play(seed=seed).only
            lines += [evidence.included, evidence.baseline]
        return [float(value) for line in lines for value in line]

    def describe(self, number: int) -> str:
        return f"game {number} on texts"


EACH = 8
"""Lines of a target in what `Played` returns."""


def game_seeds(seed: int, scale: TextScale) -> list[int]:
    return distinct_seeds(seed, "games on texts", max(scale.games, scale.learning_games))


@lru_cache(maxsize=4)
def _played(folder: str, scale: TextScale, seed: int, execution: Execution) -> tuple[Matrix, ...]:
    study_of(folder, scale, seed)
    found = execution.map(Played(folder, scale, seed), list(range(scale.games)), title="games on texts")
    lines = EACH * len(targets(scale)) + 2 * (len(HELPERS) - 1)
    return tuple(np.array(game).reshape(lines, -1) for game in found)


@lru_cache(maxsize=4)
def target_games(scale: TextScale, seed: int, execution: Execution) -> list[TargetGame]:
    """Every game on every target; the target of fewest epochs is also the one without privacy (epsilon infinite)."""
    folder = shared_folder(execution)
    study, found = study_of(folder, scale, seed), []
    for number, lines in enumerate(_played(folder, scale, seed, execution)):
        for place, (name, family, degree) in enumerate(targets(scale)):
            part, chosen = lines[EACH * place : EACH * (place + 1)], game_seeds(seed, scale)[number]
            means = {group: study.said[name](rows)[:, 0].mean() for group, rows in study.groups.items()}
            found.append(
                TargetGame(
                    modality="texts",
                    target=name,
                    family=family,
                    degree=degree,
                    game=number,
                    generated=paired(*part[0:3], seed=chosen, unit=CHUNK),
                    real=paired(*part[3:6], seed=chosen, real=True, unit=CHUNK),
                    one_run=alone_scored(part[6], part[7], seed=chosen, unit=CHUNK),
                    train=float(means["members"]),
                    test=float(means["non-members"]),
                )
            )
    plain = [each for each in found if each.target == by_epochs(scale.epochs[0])]
    again = [replace(one, target="transformer, not private", family="epsilon", degree=math.inf) for one in plain]
    return [*found, *again]


# ------------------------------------------------------------------------------------------------------ further figures


def helper_rows(scale: TextScale, seed: int, execution: Execution) -> Rows:
    """Tables 2 and 5: closeness by what the helper learnt from: generated chunks, real ones, or no helper."""
    found: Rows = []
    for number, lines in enumerate(_played(shared_folder(execution), scale, seed, execution)):
        first, chosen = EACH * len(targets(scale)), game_seeds(seed, scale)[number]
        baselines = {HELPERS[0]: lines[0:2], HELPERS[1]: lines[first : first + 2], HELPERS[2]: lines[first + 2 :]}
        for helper, part in baselines.items():
            row = {"modality": "texts", "helper": helper, "game": number}
            found.append(row | {"closeness": closeness(paired(part[0], part[1], part[1], seed=chosen, unit=CHUNK))})
    return found


def closeness(evidence: PairedScores) -> float:
    return estimators.panoramia(evidence).divergence


@dataclass(frozen=True)
class Learning:
    """What the baseline shows when it learns from fewer or more rows: closeness, rows and audited pairs."""

    folder: str
    scale: TextScale
    seed: int

    def __call__(self, job: tuple[str, float, int]) -> list[float]:
        panel, share, number = job
        study, scale = study_of(self.folder, self.scale, self.seed), self.scale
        seed, view = game_seeds(self.seed, scale)[number], view_of(study, scale)
        if panel == "a":
            game = replace(game_of(study, scale, "generated", view), train_fraction=share)
            taught = share * scale.training
        else:
            game, taught = game_of(study, scale, "generated", view, share), share
        evidence = game.play(seed=seed).only
        return [closeness(evidence), float(round(taught * len(study.audited))), float(len(evidence.included))]

    def describe(self, job: tuple[str, float, int]) -> str:
        return f"game {job[2]} of figure 9({job[0]}) at {job[1]:g}"


def learning_rows(scale: TextScale, seed: int, execution: Execution) -> Rows:
    """Figure 9: (a) the same audited rows and fewer to learn from; (b) what is not learnt from is audited."""
    folder = shared_folder(execution)
    study = study_of(folder, scale, seed)
    jobs = [("a", share, n) for share in (0.25, 0.5) for n in range(scale.learning_games)]
    jobs += [("b", share, n) for share in scale.learning_shares for n in range(scale.learning_games)]
    values = execution.map(Learning(folder, scale, seed), jobs, title="figure 9 on texts")
    found = list(zip(jobs, values, strict=True))
    for number, lines in enumerate(_played(folder, scale, seed, execution)[: scale.learning_games]):
        shown = closeness(paired(*lines[:3], seed=game_seeds(seed, scale)[number], unit=CHUNK))
        rows = float(round(scale.training * len(study.audited)))
        for panel, share in (("a", 1.0), ("b", scale.training)):
            found.append(((panel, share, number), [shown, rows, float(lines.shape[1])]))
    return [
        {"panel": panel, "training_rows": int(rows), "audited": int(audited), "game": number, "closeness": shown}
        for (panel, _, number), (shown, rows, audited) in sorted(found)
    ]


def loss_rows(scale: TextScale, seed: int, execution: Execution) -> Rows:
    """Figure 14: shares of chunks by their mean loss, under the targets by epochs and under the helper."""
    study = study_of(shared_folder(execution), scale, seed)
    models = {by_epochs(epochs): by_epochs(epochs) for epochs in scale.epochs} | {"helper": "helper, generated"}
    means = {
        (target, group): study.said[name](rows)[:, 0]
        for target, name in models.items()
        for group, rows in study.groups.items()
    }
    everything = np.concatenate(list(means.values()))
    edges = np.linspace(everything.min(), everything.max(), BINS + 1)
    return [
        {
            "modality": "texts",
            "target": target,
            "group": group,
            "low": float(edges[place]),
            "high": float(edges[place + 1]),
            "share": float(count / values.size),
        }
        for (target, group), values in means.items()
        for place, count in enumerate(np.histogram(values, bins=edges)[0])
    ]


def sizes(scale: TextScale) -> Sizes:
    """Beside the paper's sizes."""
    rest = round((1.0 - scale.own) * scale.members)
    trained = round(scale.training * rest)
    parameters = sum(value.size for value in scale.shape.start(0).values())
    return [
        ("texts", "WikiText-103, at most 50 chunks of an article", "IMDB reviews, one chunk of each"),
        ("tokens of a chunk", "64", f"{scale.tokens}"),
        ("target", "GPT-2, 124 million parameters", f"transformer, {parameters:,} parameters, pre-trained on reviews"),
        ("epochs", "37, 75, 150", ", ".join(f"{epochs}" for epochs in scale.epochs)),
        ("members", "105,650 chunks", f"{scale.members:,}"),
        ("guessers learn from", "10,000 members and as many generated", f"{trained:,} of each"),
        ("audited pairs", "10,000", f"{rest - trained:,}"),
        ("games", "5", f"{scale.games}"),
    ]
