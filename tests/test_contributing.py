"""Every example of CONTRIBUTING.md runs as it stands."""

import importlib
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BLOCKS = {
    re.findall(r"^\*\*(An? \w+)\*\*", before, re.M)[-1]: code
    for before, code in re.findall(r"(.*?)^```python\n(.*?)^```", PAGE, re.S | re.M)
}


def executed(code, name):
    """The block as a module of its own, as classes and pickled functions need one."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
        return module
    finally:
        del sys.modules[name]


def test_there_is_one_of_each():
    assert list(BLOCKS) == ["A game", "An estimator", "A framework", "A paper"]
    assert len(re.findall("```python", PAGE)) == len(BLOCKS)


@pytest.mark.parametrize("what", BLOCKS)
def test_examples_run(what):
    if what == "A paper":
        importlib.import_module("dpaudit_experiments")  # `make test` installs it
    executed(BLOCKS[what], f"contributed_{what.split()[1]}")


def test_the_page_names_what_is_there():
    """Files, rooms and commands; the tests of the table of rules."""
    for path in re.findall(r"`((?:tests|experiments|docs|src)/[\w./]+)`", PAGE):
        assert (ROOT / path).exists() or "00N" in path or "mine" in path, path
    for command in re.findall(r"`make (\w+)`", PAGE):
        assert f"\n{command}:" in (ROOT / "Makefile").read_text("utf-8"), command
