"""PromptPATE with a tiny language model made on the spot: cached reading equals plain reading, votes are a function."""

import logging

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dpaudit import InputError
from dpaudit.mechanisms.private_prediction import LanguageModel, PromptedTeachers, Task, vote_leakage

TASK = Task("Say what kind of text this is.", ("calm", "loud", "odd"))
QUERIES = ["a quiet evening by the sea", "DRUMS", "x = 3; return x and then some more words to read here", "hm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama with two layers of random weights and one token a byte, saved as a local folder."""
    place = tmp_path_factory.mktemp("model")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, **{letter: n for n, letter in enumerate(letters, 1)}}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>").save_pretrained(place)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = transformers.LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
        )
        model = transformers.LlamaForCausalLM(config)
        for weights in model.parameters():
            weights.data.mul_(4.0)  # far from uniform
        model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def teachers(folder):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return PromptedTeachers(model=LanguageModel.load(folder), task=TASK)


def plainly(model, prefix, query):
    """The whole prompt read at once, token by token, without a cache or a batch."""
    lead, numbers = model._label_tokens(3)
    words = model.tokenizer(prefix)["input_ids"]
    words += model.tokenizer(query, add_special_tokens=False)["input_ids"] + lead
    with torch.no_grad():
        return model.model(torch.tensor([words])).logits[0, -1].double().log_softmax(dim=0)[numbers].numpy()


def test_cached_batches_read_as_the_whole_prompt_does(teachers):
    model, prefix = teachers.model, teachers.prefix("an example", 1)
    asked = [TASK.asked(query) for query in QUERIES]
    found = model.scores(prefix, asked, 3)
    for query, line in zip(asked, found, strict=True):
        np.testing.assert_allclose(line, plainly(model, prefix, query), atol=1e-4)
    assert found.std(axis=0).min() > 0.01  # the queries matter


def test_scores_are_kept(teachers, monkeypatch):
    model, prefix = teachers.model, teachers.prefix("another example", 0)
    first = model.scores(prefix, ["q"], 3)
    monkeypatch.setattr(model, "_read", lambda *_: pytest.fail("it was read before"))
    assert np.array_equal(model.scores(prefix, ["q", "q"], 3), np.tile(first, (2, 1)))


def test_votes_are_a_function_of_the_data(teachers):
    texts, labels = ["one text", "a second", "and a third", "the last"], [0, 1, 2, 1]
    counts = teachers.votes((texts, labels), QUERIES)
    assert counts.shape == (4, 3)
    assert np.all(counts.sum(axis=1) == 4)
    assert np.array_equal(counts, teachers.votes((texts, labels), QUERIES, seed=9))
    assert not teachers.shared
    other = teachers.votes((["OTHER", *texts[1:]], labels), QUERIES)
    assert np.abs(other - counts).sum(axis=1).max() <= 2  # one example, one vote
    leak = vote_leakage(counts, other, sigma=3.0, relation="substitute")
    assert leak.together(2.0).shape == (1,)
    assert leak.epsilon(1e-6).epsilon >= 0.0


def test_prompts_hold_what_they_should(teachers):
    assert "0 = calm, 1 = loud, 2 = odd" in TASK.head()
    assert teachers.prefix("words", 2).endswith("Text: words\nAnswer: 2\n")
    assert "1 = calm, 2 = loud, 0 = odd" in teachers.mapped("words", 0, [1, 2, 0])
    assert teachers.mapped("words", 0, [1, 2, 0]).endswith("Answer: 1\n")
    assert "always 2" in teachers.all_same(2)
    assert teachers.model.short("many   \n words " * 99).count("\n") == 0
    assert len(teachers.model.tokenizer(teachers.model.short("w" * 999))["input_ids"]) <= 65


def test_refusals(teachers, tmp_path, folder):
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled" / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"must hold weights as \.safetensors"):
        LanguageModel.load(tmp_path / "pickled")
    with pytest.raises(InputError, match="at least one text"):
        teachers.votes((["a"], [0]), [])
    with pytest.raises(InputError, match="no model at"):
        LanguageModel.load(tmp_path / "nothing")
    with pytest.raises(InputError, match="`label` must be at most 2"):
        teachers.prefix("x", 3)
    with pytest.raises(InputError, match="as many texts as labels"):
        teachers.votes((["a"], [0, 1]), QUERIES)
    with pytest.raises(InputError, match="a label for each of the 3"):
        teachers.mapped("x", 0, [1, 0])
