"""A number on a page of the theory cannot change, move or vanish without a test that reads it noticing."""

import pytest

from tests import pages
from tests.pages import printed, row


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A chapter of one's own."""
    monkeypatch.setattr(pages, "THEORY", tmp_path)

    def write(text):
        (tmp_path / "small.md").write_text(text)
        pages.statement.cache_clear()

    yield write
    pages.statement.cache_clear()


@pytest.mark.parametrize(
    ("value", "same"),
    [("2.50", True), ("2.5", True), ("25e-1", True), ("3", True), ("2.51", False), ("2.49", False), ("4", False)],
)
def test_a_changed_number_is_noticed(write, value, same):
    write(f"# Small\n\n### One {{#one .theorem}}\n\nIt is\n{value}, here.\n\n### Two {{#two}}\n\nIt is 9, here.\n")
    assert (printed("small#one", "It is {}, here") == 2.5) is same
    assert printed("small#two", "It is {}, here", close=int) == 9


def test_words_that_are_gone_or_stand_twice(write):
    write("# Small\n\n### One {#one}\n\nIt is 2 and it is 2.\n\n| 1,000 | x | 0.5 | 7e-3 |\n")
    assert row("small#one", ("1,000", "x"), close=float) == (0.5, 0.007)
    for place, words in (("small#one", "it was {}"), ("small#one", "is {}"), ("small#none", "is {}")):
        with pytest.raises(AssertionError):
            printed(place, words)
    with pytest.raises(AssertionError):
        row("small#one", ("2,000",))
