"""Paper 002, PromptPATE: SmolLM2 with one private text in each of 200 prompts, and the paper's adversaries.

A label is a word ("positive", "sports"), not a number as in the paper: a model of 135 million parameters answers 1 to
everything otherwise. Prompts were chosen on texts of the same sets, for their accuracy. Two ensembles are read off the
same scores: "PromptPATE" votes as the paper's (the likeliest word), and its teachers often repeat the label of their
own example; "PromptPATE, calibrated" takes each prompt's leaning off first (`decided`).

The crafted record takes the place of one teacher's text (substitution), of one that votes as most do and not for the
record's label; for natural queries, of the teacher that votes most often as most do, and the query that the record was
made from is left out. Votes are a function of the data, so answers compose. The model is the Instruct one, asked
without its chat template.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks import prediction as adversaries
from dpaudit.bounds import Relation
from dpaudit.execution import Execution, stream
from dpaudit.mechanisms.private_prediction import LanguageModel, PromptedTeachers, Task
from dpaudit.mechanisms.private_prediction.ensembles import counted
from dpaudit.mechanisms.private_prediction.prompts import BLANKS, decided
from dpaudit_experiments import data
from dpaudit_experiments.common.figure import Rows, Sizes
from dpaudit_experiments.paper_002.teachers import ADVERSARIES, Turned, fixed_rows, turned, usual

TOPICS = ("computers", "sports", "politics", "religion")
TASKS = {
    "Rotten Tomatoes": Task("", ("negative", "positive"), "Review", "Sentiment"),
    "20 Newsgroups": Task(f"Topics: {', '.join(TOPICS)}.", TOPICS, "Message", "Topic"),
}
ALL = -1
"""In the place of a query: all of them."""


@dataclass(frozen=True, kw_only=True)
class PromptScale:
    sets: tuple[str, ...] = tuple(TASKS)
    teachers: int = 200
    queries: int = 100
    answers: int = 1000
    sigma: float = 25.0
    longest: int = 24
    fetched: bool = True


@lru_cache(maxsize=1)
def model_of(longest: int, fetched: bool) -> LanguageModel:
    model = LanguageModel.load(data.smollm2()) if fetched else LanguageModel.tiny()
    model.longest = longest
    return model


@lru_cache(maxsize=1)
def texts_of(name: str, scale: PromptScale, seed: int) -> tuple[list[str], NDArray[Any], list[str], NDArray[Any]]:
    """Texts and labels of the teachers, and of the queries."""
    if not scale.fetched:
        texts, labels = [f"{kind} text {n}" for n in range(40) for kind in ("good", "bad")], np.tile([1, 0], 40)
    else:
        texts, labels = data.movie_reviews() if name == "Rotten Tomatoes" else data.newsgroup_topics()
    order = stream(seed, f"{name}, texts").permutation(len(texts))
    ours, asked = order[: scale.teachers], order[scale.teachers : scale.teachers + scale.queries]
    return [texts[i] for i in ours], labels[ours], [texts[i] for i in asked], labels[asked]


@dataclass(frozen=True)
class Reading:
    """The scores behind one prompt: of one query, or of `ALL`, and of texts without content."""

    name: str
    scale: PromptScale
    seed: int

    def __call__(self, job: tuple[str, int]) -> list[float]:
        prefix, query = job
        asked = texts_of(self.name, self.scale, self.seed)[2]
        teachers = PromptedTeachers(model=model_of(self.scale.longest, self.scale.fetched), task=TASKS[self.name])
        found = teachers.scores(prefix, [*(asked if query == ALL else [asked[query]]), *BLANKS])
        return [float(value) for value in found.ravel()]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of prompts, as they were read; a vote is read off them, calibrated or not."""

    classes: int
    calibrated: bool
    kept: dict[tuple[str, int], list[float]] = field(repr=False)

    def vote(self, prefix: str, query: int = ALL) -> NDArray[np.int64]:
        lines = np.array(self.kept[prefix, query]).reshape(-1, self.classes)
        return decided(lines[: -len(BLANKS)], lines[-len(BLANKS) :] if self.calibrated else None)


@lru_cache(maxsize=1)
def measured(scale: PromptScale, seed: int, execution: Execution) -> Rows:
    """One line for each set, ensemble and adversary."""
    rows: Rows = []
    for name in scale.sets:
        reading = Reading(name, scale, seed)
        texts, labels, asked, truth = texts_of(name, scale, seed)
        ensemble = PromptedTeachers(model=model_of(scale.longest, scale.fetched), task=TASKS[name])
        honest = [ensemble.prefix(text, int(label)) for text, label in zip(texts, labels, strict=True)]
        kept: dict[tuple[str, int], list[float]] = {}
        _read(kept, reading, [(prefix, ALL) for prefix in honest], execution, f"{name}, teachers")
        for calibrated in (False, True):
            scores = Scores(ensemble.classes, calibrated, kept)
            each = np.stack([scores.vote(prefix) for prefix in honest])
            crafted = prompts(ensemble, each, asked, truth)
            jobs = [job for one in crafted for job in one.jobs]
            _read(kept, reading, jobs, execution, f"{name}, crafted prompts")
            about = {
                "data": name,
                "algorithm": "PromptPATE, calibrated" if calibrated else "PromptPATE",
                "relation": Relation.SUBSTITUTE.value,
            }
            found = fixed_rows(
                about,
                [one.turned(scores, each) for one in crafted],
                each,
                classes=ensemble.classes,
                sigma=scale.sigma,
                answers=scale.answers,
                execution=execution,
            )
            right = {
                "teachers_right": float((each == truth).mean()),
                "answers_right": float((counted(each, ensemble.classes).argmax(axis=1) == truth).mean()),
            }
            rows += [{**row, **right} for row in found]
    return rows


@dataclass(frozen=True, eq=False)
class Crafted:
    """An adversary's prompts, with the query that each is read for, and the teacher whose text each replaces."""

    adversary: str
    jobs: list[tuple[str, int]]
    teachers: NDArray[np.int64]
    left_out: int | None = None

    def turned(self, scores: Scores, each: NDArray[np.int64]) -> Turned:
        after = np.concatenate([scores.vote(*job) for job in self.jobs])
        before = np.take_along_axis(each, self.teachers[None], axis=0)[0]
        return Turned(self.adversary, before, after, self.left_out)


def prompts(
    ensemble: PromptedTeachers, each: NDArray[np.int64], asked: list[str], truth: NDArray[Any]
) -> list[Crafted]:
    """The crafted prompts of every adversary."""
    classes = ensemble.classes
    votes = counted(each, classes)
    first, wrong = votes.argmax(axis=1), adversaries.runner_up(votes)
    sure, unsure = int(votes.max(axis=1).argmax()), int(votes.max(axis=1).argmin())  # by the votes of the first class
    often = int(np.bincount(wrong, minlength=classes).argmax())
    mapping = [_usual(wrong[first == c], classes, c) for c in range(classes)]
    found = [
        Crafted(
            name,
            [(ensemble.prefix(text, int(label)), q) for q, (text, label) in enumerate(zip(asked, labels, strict=True))],
            turned(each, labels, classes),
        )
        for name, labels in zip(ADVERSARIES[:2], (np.asarray(truth, dtype=np.int64), wrong), strict=True)
    ]
    natural = {
        "confident": (ensemble.prefix(asked[sure], int(wrong[sure])), sure),
        "unconfident": (ensemble.prefix(asked[unsure], int(wrong[unsure])), unsure),
        "all same": (ensemble.all_same(often), None),
        "mapping": (ensemble.mapped(asked[sure], int(first[sure]), mapping), sure),
    }
    teacher = np.full(len(asked), usual(each, classes))
    return found + [
        Crafted(f"Pois-NatQ, {name}", [(prefix, ALL)], teacher, left_out)
        for name, (prefix, left_out) in natural.items()
    ]


def _usual(second: NDArray[np.int64], classes: int, own: int) -> int:
    """The class that is most often second where `own` is first; the next one where it never is."""
    return int(np.bincount(second, minlength=classes).argmax()) if second.size else (own + 1) % classes


def _read(kept: Any, reading: Reading, jobs: list[tuple[str, int]], execution: Execution, title: str) -> None:
    new = [job for job in dict.fromkeys(jobs) if job not in kept]
    kept.update(zip(new, execution.map(reading, new, title=title), strict=True))


def prompt_sizes(scale: Any) -> Sizes:
    sizes: PromptScale = scale.prompts
    return [
        ("text sets", "SST-2, AG News, DBPedia, TREC", ", ".join(sizes.sets) if sizes.fetched else "made up"),
        ("language model", "Mistral 7B", "SmolLM2 135M Instruct, quantised" if sizes.fetched else "two random layers"),
        ("PromptPATE, teachers", "200", f"{sizes.teachers}"),
        ("PromptPATE, queries", "200", f"{sizes.queries}"),
        ("PromptPATE, sigma", "one of 20, 25, 30, 40", f"{sizes.sigma:g}"),
        ("tokens of a text", "all", f"the first {sizes.longest}"),
    ]
