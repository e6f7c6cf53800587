"""PromptPATE with a tiny language model made on the spot: cached reading equals plain reading, votes are a function."""

import logging

import numpy as np
import pytest
import torch

from dpaudit import InputError
from dpaudit.mechanisms.private_prediction import LanguageModel, PromptedTeachers, Task, vote_leakage
from dpaudit.mechanisms.private_prediction.prompts import BATCH, BLANKS, decided

TASK = Task("Say what kind of text this is.", ("calm", "loud", "odd"))
QUERIES = ["a quiet evening by the sea", "DRUMS", "x = 3; return x and then some more words to read here", "hm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tiny model, saved as a local folder."""
    place = tmp_path_factory.mktemp("model")
    made = LanguageModel.tiny()
    made.model.save_pretrained(place)
    made.tokenizer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def teachers(folder):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return PromptedTeachers(model=LanguageModel.load(folder), task=TASK)


def plainly(model, prefix, query):
    """The whole prompt read at once, token by token, without a cache or a batch."""
    lead, numbers = model._label_tokens(TASK.names)
    words = model.tokenizer(prefix)["input_ids"]
    words += model.tokenizer(query, add_special_tokens=False)["input_ids"] + lead
    with torch.no_grad():
        return model.model(torch.tensor([words])).logits[0, -1].double().log_softmax(dim=0)[numbers].numpy()


def test_cached_batches_read_as_the_whole_prompt_does(teachers):
    model, prefix = teachers.model, teachers.prefix("an example", 1)
    asked = [TASK.asked(query) for query in QUERIES]
    found = model.scores(prefix, asked, TASK.names)
    for query, line in zip(asked, found, strict=True):
        np.testing.assert_allclose(line, plainly(model, prefix, query), atol=1e-4)
    assert found.std(axis=0).min() > 0.01  # the queries matter


def test_scores_are_kept(teachers, monkeypatch):
    model, prefix = teachers.model, teachers.prefix("another example", 0)
    first = model.scores(prefix, ["q"], TASK.names)
    monkeypatch.setattr(model, "_read", lambda *_: pytest.fail("it was read before"))
    assert np.array_equal(model.scores(prefix, ["q", "q"], TASK.names), np.tile(first, (2, 1)))


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
    assert (leak.epsilon(1e-6).epsilon > 0.0) == bool(np.any(other != counts))


def test_prompts_hold_what_they_should(teachers):
    assert teachers.prefix("words", 2) == "Say what kind of text this is.\n\nText: words\nAnswer: odd\n\n"
    assert Task("", ("a", "b"), "Review", "Sentiment").shown("words", "a") == "Review: words\nSentiment: a\n\n"
    assert "calm is called loud, loud is called odd, odd is called calm" in teachers.mapped("words", 0, [1, 2, 0])
    assert teachers.mapped("words", 0, [1, 2, 0]).endswith("Text: words\nAnswer: loud\n\n")
    assert "the answer is odd" in teachers.all_same(2)
    assert teachers.all_same(2).endswith("Answer: odd\n\n")
    assert teachers.model.short("many   \n words " * 99).count("\n") == 0
    assert len(teachers.model.tokenizer(teachers.model.short("w" * 999))["input_ids"]) <= 65


def test_calibration_takes_a_leaning_off(teachers):
    scores, blanks = [[-1.0, -2.0], [-1.0, -1.1]], [[-0.5, -2.5], [-1.5, -1.9]]
    assert decided(scores).tolist() == [0, 0]
    assert decided(scores, blanks).tolist() == [1, 1]  # the mean of the blanks is (-1, -2.2)
    other = PromptedTeachers(model=teachers.model, task=TASK, calibrated=True)
    prefix = teachers.prefix("an example", 1)
    asked = [TASK.asked(text) for text in BLANKS]
    leaning = np.mean([plainly(teachers.model, prefix, text) for text in asked], axis=0)
    by_hand = [(plainly(teachers.model, prefix, TASK.asked(query)) - leaning).argmax() for query in QUERIES]
    assert other.vote(prefix, QUERIES).tolist() == by_hand


def test_more_queries_than_a_batch_come_back_in_their_order(teachers):
    queries = [f"{'long ' * (n % 7)}{n}" for n in range(2 * BATCH + 3)]
    found = teachers.scores(teachers.prefix("an example", 0), queries)
    for place in (0, 13, 2 * BATCH + 2):
        alone = plainly(teachers.model, teachers.prefix("an example", 0), TASK.asked(queries[place]))
        np.testing.assert_allclose(found[place], alone, atol=1e-4)


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
    alike = PromptedTeachers(model=teachers.model, task=Task("", ("calm", "cold", "loud")))
    with pytest.raises(InputError, match="must differ in their first token"):
        alike.votes((["a"], [0]), QUERIES)
