"""PromptPATE (Duan et al. 2023): every teacher is a language model with one private example in its prompt.

Nothing is trained. A teacher's prompt is the task's instruction, its example with its label, and the query; it votes
for the label whose token is likeliest next (temperature 0), so votes are a function of the data and answers to
different queries are independent given it. A prompt's prefix is read once, its attention cache kept, and all queries
are read behind it in one batch; scores that were asked for before are kept.

`LanguageModel.load()` reads SmolLM2-135M from its package, or any local causal model by path (extra `llm`). Models and
tokenizers are read from files, never from a network.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit import data
from dpaudit._validate import InputError
from dpaudit.mechanisms.dpsgd.modules import one_thread, torch_or_refuse
from dpaudit.mechanisms.private_prediction.ensembles import counted

LONGEST = 64
"""Tokens of a text that are read."""


def transformers_or_refuse() -> Any:
    try:
        import transformers
    except ImportError:
        raise InputError(
            "language models need the package transformers, which is not installed.", "pip install 'dpaudit[llm]'."
        ) from None
    return transformers


@dataclass(frozen=True)
class Task:
    """What the model is asked: an instruction, and a word for each label, in the order of the labels."""

    instruction: str
    names: tuple[str, ...]

    def head(self, numbers: Sequence[int] | None = None) -> str:
        """The instruction with what each number means; `numbers` gives the labels other ones."""
        key = zip(range(len(self.names)) if numbers is None else numbers, self.names, strict=True)
        return f"{self.instruction} {', '.join(f'{n} = {name}' for n, name in key)}. Answer with a number."

    def shown(self, example: str, label: int, numbers: Sequence[int] | None = None) -> str:
        """A teacher's prompt up to the query: the instruction and one example."""
        return f"{self.head(numbers)}\n\nText: {example}\nAnswer: {label}\n"

    @staticmethod
    def asked(query: str) -> str:
        return f"\nText: {query}\nAnswer:"


class LanguageModel:
    """A causal model and its tokenizer, with the scores that it has given so far."""

    def __init__(self, model: Any, tokenizer: Any, *, longest: int = LONGEST):
        self.model, self.tokenizer, self.longest = model.eval(), tokenizer, check.count("longest", longest, low=1)
        self._kept: dict[tuple[str, str, int], NDArray[np.float64]] = {}

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> LanguageModel:
        """A model from a local folder, from one GGUF file, or SmolLM2-135M from the data folder (None)."""
        transformers, torch = transformers_or_refuse(), torch_or_refuse()
        place = Path(path) if path is not None else data.smollm2()
        if not place.exists():
            raise InputError(f"no model at {str(place)!r}.", "give a local folder; nothing is fetched from a hub.")
        file = {} if place.is_dir() else {"gguf_file": place.name}
        folder = str(place if place.is_dir() else place.parent)
        how = {"local_files_only": True, **file}
        if place.is_dir() and not list(place.glob("*.safetensors")):
            raise InputError(
                f"{str(place)!r} must hold weights as .safetensors, and does not.", "pickles are never read."
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
        return cls(
            transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True, **how),
            tokenizer,
        )

    def short(self, text: str) -> str:
        """A text cut to so many tokens, in one line."""
        tokens = self.tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][: self.longest]
        return str(self.tokenizer.decode(tokens))

    def scores(self, prefix: str, queries: Sequence[str], labels: int) -> NDArray[np.float64]:
        """log P(label given the prompt) for each query, the labels being the numbers 0, 1, ...: (queries, labels)."""
        count = check.count("labels", labels, low=2, high=10)
        missing = [query for query in dict.fromkeys(queries) if (prefix, query, count) not in self._kept]
        if missing:
            for query, line in zip(missing, self._read(prefix, missing, count), strict=True):
                self._kept[prefix, query, count] = line
        return np.stack([self._kept[prefix, query, count] for query in queries])

    def _read(self, prefix: str, queries: Sequence[str], labels: int) -> NDArray[np.float64]:
        torch = torch_or_refuse()
        lead, numbers = self._label_tokens(labels)
        first = self.tokenizer(prefix)["input_ids"]
        rows = [self.tokenizer(query, add_special_tokens=False)["input_ids"] + lead for query in queries]
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.zeros((len(rows), int(lengths.max())), dtype=torch.long)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = torch.tensor(row)
        seen = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
        mask = torch.cat([torch.ones((len(rows), len(first)), dtype=torch.long), seen.long()], dim=1)
        places = (len(first) + torch.arange(padded.shape[1])).expand(len(rows), -1)
        with one_thread(), torch.no_grad():
            cache = self.model.base_model(torch.tensor([first]), use_cache=True).past_key_values
            cache = copy.deepcopy(cache)
            cache.batch_repeat_interleave(len(rows))
            found = self.model.base_model(
                padded, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
            ).last_hidden_state
            logits = self.model.get_output_embeddings()(found[torch.arange(len(rows)), lengths - 1])
            return np.asarray(logits.double().log_softmax(dim=1)[:, numbers].numpy())

    def _label_tokens(self, labels: int) -> tuple[list[int], list[int]]:
        """What comes before every label alike (a space, where that is a token of its own), and one token a label."""
        before = self.tokenizer("Answer:", add_special_tokens=False)["input_ids"]
        each = [
            self.tokenizer(f"Answer: {n}", add_special_tokens=False)["input_ids"][len(before) :] for n in range(labels)
        ]
        lead: list[int] = []
        while len({tokens[0] for tokens in each if tokens}) == 1 and all(len(tokens) > 1 for tokens in each):
            lead.append(each[0][0])
            each = [tokens[1:] for tokens in each]
        numbers = [tokens[0] for tokens in each if tokens]
        if len(set(numbers)) < labels:
            raise InputError("the tokenizer must tell the numbers of the labels apart by one token.")
        return lead, numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptedTeachers:
    """PromptPATE: one teacher for each example of a data set (texts, labels).

    A crafted record stands in the place of one teacher's: a query with its own or a wrong label (`prefix`), a prompt
    that asks for one answer (`all_same`), or one with a wrong key (`mapped`).
    """

    model: LanguageModel
    task: Task
    shared: bool = field(default=False, init=False)

    @property
    def classes(self) -> int:
        return len(self.task.names)

    def votes(self, dataset: Any, queries: Sequence[str], seed: int = 0) -> NDArray[np.int64]:
        """Counts, one line a query; the seed decides nothing."""
        return counted(self.each(dataset, queries), self.classes)

    def each(self, dataset: Any, queries: Sequence[str]) -> NDArray[np.int64]:
        """The vote of every teacher on every query."""
        texts, labels = dataset
        if not len(queries):
            raise InputError("`queries` must be at least one text, got none.")
        if len(texts) != len(labels) or not len(texts):
            raise InputError(f"a data set must be as many texts as labels, got {len(texts)} and {len(labels)}.")
        return np.stack(
            [self.vote(self.prefix(text, int(label)), queries) for text, label in zip(texts, labels, strict=True)]
        )

    def vote(self, prefix: str, queries: Sequence[str]) -> NDArray[np.int64]:
        """What one prompt makes of each query."""
        asked = [self.task.asked(self.model.short(query)) for query in queries]
        scores = self.model.scores(prefix, asked, self.classes)
        return np.asarray(scores.round(4).argmax(axis=1), dtype=np.int64)  # what is read together changes the last bits

    def prefix(self, text: str, label: int) -> str:
        """An honest teacher's prompt, and that of `Nat-AdvQ` and `Pois-AdvQ`, whose example is the query itself."""
        return self.task.shown(self.model.short(text), check.count("label", label, high=self.classes - 1))

    def all_same(self, label: int) -> str:
        """A prompt that asks for one answer, whatever the text."""
        count = check.count("label", label, high=self.classes - 1)
        return f"Whatever text follows, the answer is always {count}. Nothing else is allowed.\n\nAnswer: {count}\n"

    def mapped(self, text: str, label: int, mapping: Sequence[int]) -> str:
        """A prompt with wrong numbers: what is label c is said to be `mapping[c]`, in the key and in the example."""
        if len(mapping) != self.classes:
            raise InputError(f"`mapping` must name a label for each of the {self.classes}, got {list(mapping)}.")
        numbers = [check.count("mapping", n, high=self.classes - 1) for n in mapping]
        own = numbers[check.count("label", label, high=self.classes - 1)]
        return self.task.shown(self.model.short(text), own, numbers)
