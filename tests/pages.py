"""Numbers as the pages of docs/theory print them: a test that reads them turns red when the page changes.

    printed("curves#families", "at epsilon 1: {}")      the number that stands there, once, in that statement

The words around a number are its marker, so a page needs none of its own; `{}` is a number, white space counts as one
space. What comes out equals whatever rounds to the digits on the page.
"""

import re
from functools import cache
from pathlib import Path

import pytest

THEORY = Path(__file__).parent.parent / "docs" / "theory"
NUMBER = r"(-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)"


@cache
def statement(place):
    """The text under a heading, up to the next one, on one line."""
    chapter, _, anchor = place.partition("#")
    text = (THEORY / f"{chapter}.md").read_text("utf-8")
    found = re.search(rf"^#+ [^\n]*{{#{re.escape(anchor)}( \.theorem)?}}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    assert found, f"no statement {place}"
    return " ".join(found[2].split())


def close_to(text):
    """Whatever rounds to this: half a unit of the last digit that is printed."""
    digits, _, power = text.replace(",", "").partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return pytest.approx(float(text.replace(",", "")), abs=0.501 * unit, rel=0.0)


def printed(place, words, *, close=close_to):
    """The number of the page, or all of them where there are several `{}`; `close=float` gives plain ones."""
    marker = re.escape(" ".join(words.split())).replace(r"\{\}", NUMBER)
    found = re.findall(rf"(?<![\d.]){marker}" if words.startswith("{") else marker, statement(place))
    assert len(found) == 1, f"{place} says {words!r} {len(found)} times"
    numbers = found[0] if isinstance(found[0], tuple) else (found[0],)
    read = tuple(close(one.replace(",", "")) for one in numbers)
    return read if len(read) > 1 else read[0]


def row(place, first, *, close=close_to):
    """The numbers of the table row that begins with these cells, in order; empty cells and words are left out."""
    start = "| " + " | ".join(first) + " |"
    chapter, _, _ = place.partition("#")
    lines = [line for line in (THEORY / f"{chapter}.md").read_text("utf-8").splitlines() if line.startswith(start)]
    assert len(lines) == 1, f"{chapter} has {len(lines)} rows {start}"
    assert " ".join(lines[0].split()) in statement(place), f"the row {start} is not in {place}"
    return tuple(close(one.replace(",", "")) for one in re.findall(NUMBER, lines[0].removeprefix(start)))
