"""PromptPATE (Duan et al. 2023): every teacher is a language model with one private example in its prompt.

Nothing is trained. A teacher's prompt is the task's instruction, its example with its label, and the query; it votes
for the label whose word is likeliest next (temperature 0), so votes are a function of the data and answers to
different queries are independent given it. A prompt's prefix is read once, its attention cache kept, and all queries
are read behind it in one batch; scores that were asked for before are kept.

`LanguageModel.load(path)` reads any local causal model (extra `llm`). Models and tokenizers are read from files, never
from a network.
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
from dpaudit._validate import InputError
from dpaudit.execution import one_torch_thread, torch_or_refuse
from dpaudit.mechanisms.private_prediction.ensembles import counted

__all__ = ["BLANKS", "LONGEST", "LanguageModel", "PromptedTeachers", "Task", "decided"]

LONGEST = 64
"""Tokens of a text that are read."""
BATCH = 32
"""Queries that are read together."""
BLANKS = ("N/A", "[MASK]", "")
"""Texts without content: what a prompt says of them is its leaning."""


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
    """What the model is asked: an instruction (or none), a word for each label, and what text and answer are called."""

    instruction: str
    names: tuple[str, ...]
    text: str = "Text"
    answer: str = "Answer"

    def shown(self, example: str, name: str) -> str:
        """A teacher's prompt up to the query: the instruction and one example."""
        return f"{self._head(self.instruction)}{self.asked(example)} {name}\n\n"

    def forced(self, name: str) -> str:
        """A prompt that asks for one answer, whatever the text."""
        rule = f"Whatever the {self.text.lower()} says, the {self.answer.lower()} is {name}. Nothing else is allowed."
        return f"{self._head(rule)}{self.asked('anything')} {name}\n\n"

    def renamed(self, example: str, label: int, mapping: Sequence[int]) -> str:
        """A prompt with a wrong key: what is label c is said to be `mapping[c]`, in the key and in the example."""
        key = ", ".join(f"{own} is called {self.names[to]}" for own, to in zip(self.names, mapping, strict=True))
        head = self._head(f"{self.instruction} {key}.".strip())
        return f"{head}{self.asked(example)} {self.names[mapping[label]]}\n\n"

    def asked(self, query: str) -> str:
        return f"{self.text}: {query}\n{self.answer}:"

    @staticmethod
    def _head(instruction: str) -> str:
        return f"{instruction}\n\n" if instruction else ""


class LanguageModel:
    """A causal model and its tokenizer, with the scores that it has given so far."""

    def __init__(self, model: Any, tokenizer: Any, *, longest: int = LONGEST):
        self.model, self.tokenizer, self.longest = model.eval(), tokenizer, check.count("longest", longest, low=1)
        self._kept: dict[tuple[str, str, tuple[str, ...]], NDArray[np.float64]] = {}
        self._last: tuple[str, Any] = ("", None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LanguageModel:
        """A model from a local folder, or from one GGUF file."""
        transformers, torch = transformers_or_refuse(), torch_or_refuse()
        place = Path(path)
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

    @classmethod
    def tiny(cls, seed: int = 3) -> LanguageModel:
        """Two layers of random weights and one token a byte: knows nothing, reads fast, for tests and quick runs."""
        transformers, torch = transformers_or_refuse(), torch_or_refuse()
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {"<s>": 0, **{letter: n for n, letter in enumerate(letters, 1)}}
        tokenizer = Tokenizer(models.BPE(vocabulary, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 512}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            config = transformers.LlamaConfig(vocab_size=len(vocabulary), **sizes, **heads)
            model = transformers.LlamaForCausalLM(config)
            for weights in model.parameters():
                weights.data.mul_(4.0)  # far from uniform
        return cls(model, transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>"))

    def short(self, text: str) -> str:
        """A text cut to so many tokens, in one line."""
        tokens = self.tokenizer(" ".join(text.split()), add_special_tokens=False)["input_ids"][: self.longest]
        return str(self.tokenizer.decode(tokens))

    def scores(self, prefix: str, queries: Sequence[str], words: Sequence[str]) -> NDArray[np.float64]:
        """log P(word given the prompt), by the first token that tells the words apart: (queries, words)."""
        names = tuple(words)
        missing = [query for query in dict.fromkeys(queries) if (prefix, query, names) not in self._kept]
        missing.sort(key=len)
        for start in range(0, len(missing), BATCH):
            part = missing[start : start + BATCH]
            for query, line in zip(part, self._read(prefix, part, names), strict=True):
                self._kept[prefix, query, names] = line
        return np.stack([self._kept[prefix, query, names] for query in queries])

    def _read(self, prefix: str, queries: Sequence[str], words: tuple[str, ...]) -> NDArray[np.float64]:
        torch = torch_or_refuse()
        lead, numbers = self._label_tokens(words)
        first = self.tokenizer(prefix)["input_ids"]
        rows = [self.tokenizer(query, add_special_tokens=False)["input_ids"] + lead for query in queries]
        lengths = torch.tensor([len(row) for row in rows])
        padded = torch.zeros((len(rows), int(lengths.max())), dtype=torch.long)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = torch.tensor(row)
        seen = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
        mask = torch.cat([torch.ones((len(rows), len(first)), dtype=torch.long), seen.long()], dim=1)
        places = (len(first) + torch.arange(padded.shape[1])).expand(len(rows), -1)
        with one_torch_thread(), torch.no_grad():
            if self._last[0] != prefix or self._last[1] is None:  # a prompt is read once, for all its queries
                read = self.model.base_model(torch.tensor([first]), use_cache=True).past_key_values
                self._last = (prefix, read)
            cache = copy.deepcopy(self._last[1])  # reading on changes it
            cache.batch_repeat_interleave(len(rows))
            found = self.model.base_model(
                padded, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
            ).last_hidden_state
            logits = self.model.get_output_embeddings()(found[torch.arange(len(rows)), lengths - 1])
            return np.asarray(logits.double().log_softmax(dim=1)[:, numbers].numpy())

    def _label_tokens(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """What comes before every word alike (a space, where that is a token of its own), and one token a word."""
        before = self.tokenizer("Answer:", add_special_tokens=False)["input_ids"]
        each = [
            self.tokenizer(f"Answer: {word}", add_special_tokens=False)["input_ids"][len(before) :] for word in words
        ]
        lead: list[int] = []
        while len({tokens[0] for tokens in each if tokens}) == 1 and all(len(tokens) > 1 for tokens in each):
            lead.append(each[0][0])
            each = [tokens[1:] for tokens in each]
        numbers = [tokens[0] for tokens in each if tokens]
        if len(set(numbers)) < len(words):
            raise InputError(
                f"the labels' words must differ in their first token, got {list(words)}.",
                "use other words, or numbers.",
            )
        return lead, numbers


def decided(scores: Any, blanks: Any = None) -> NDArray[np.int64]:
    """The label with the largest score, one line a query; `blanks` are the prompt's scores of texts without content.

    With them a prompt's leaning, their mean, is taken off first (Zhao et al. 2021, "Calibrate before use"): small
    models otherwise often repeat the label of the example. What is read together changes the last bits, so scores are
    rounded.
    """
    own = np.asarray(scores, dtype=np.float64)
    leaning = 0.0 if blanks is None else np.asarray(blanks, dtype=np.float64).mean(axis=0)
    return np.asarray((own - leaning).round(4).argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptedTeachers:
    """PromptPATE: one teacher for each example of a data set (texts, labels).

    A crafted record stands in the place of one teacher's: a query with its own or a wrong label (`prefix`), a prompt
    that asks for one answer (`all_same`), or one with a wrong key (`mapped`).
    """

    model: LanguageModel
    task: Task
    calibrated: bool = False
    """Whether each prompt's leaning is taken off its scores, see `decided`."""
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
        return decided(self.scores(prefix, queries), self.scores(prefix, BLANKS) if self.calibrated else None)

    def scores(self, prefix: str, queries: Sequence[str]) -> NDArray[np.float64]:
        """log P(label) behind one prompt: (queries, labels)."""
        return self.model.scores(prefix, [self.task.asked(self.model.short(q)) for q in queries], self.task.names)

    def prefix(self, text: str, label: int) -> str:
        """An honest teacher's prompt, and that of `Nat-AdvQ` and `Pois-AdvQ`, whose example is the query itself."""
        return self.task.shown(self.model.short(text), self.task.names[self._label("label", label)])

    def all_same(self, label: int) -> str:
        """A prompt that asks for one answer, whatever the text."""
        return self.task.forced(self.task.names[self._label("label", label)])

    def mapped(self, text: str, label: int, mapping: Sequence[int]) -> str:
        """A prompt with a wrong key: what is label c is said to be `mapping[c]`, in the key and in the example."""
        if len(mapping) != self.classes:
            raise InputError(f"`mapping` must name a label for each of the {self.classes}, got {list(mapping)}.")
        wrong = [self._label("mapping", name) for name in mapping]
        return self.task.renamed(self.model.short(text), self._label("label", label), wrong)

    def _label(self, name: str, value: int) -> int:
        return check.count(name, value, high=self.classes - 1)
