"""The experiments use public names of the library, and nothing else."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(ROOT.rglob("*.py"))
BY_CONVENTION = {"__version__"}
"""Public, and in no `__all__`."""


def module_or_none(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def uses(tree):
    """Pairs (module of dpaudit, name taken from it): what is imported, and what is read off an imported module."""
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            if node.module.split(".")[0] != "dpaudit":
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if module_or_none(inner) is not None:
                    modules[alias.asname or alias.name] = inner
                else:
                    yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "dpaudit":
                    assert alias.asname or alias.name == "dpaudit", "import a room by `from`"
                    modules[alias.asname or alias.name] = alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr
    yield from ((module, None) for module in modules.values())


def is_public(module, name):
    """Whether a module offers a name: in its `__all__`, or as a module inside it."""
    listed = {*getattr(importlib.import_module(module), "__all__", ()), *BY_CONVENTION}
    return name in listed or (not name.startswith("_") and module_or_none(f"{module}.{name}") is not None)


def not_public(text):
    """What a file takes from the library that is not public there."""
    for module, name in sorted(set(uses(ast.parse(text))), key=str):
        if any(part.startswith("_") for part in module.split(".")):
            yield module
        elif name is not None and not is_public(module, name):
            yield f"{module}.{name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names(path):
    assert list(not_public(path.read_text())) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from dpaudit import _validate", "dpaudit._validate"),
        ("from dpaudit._files import write", "dpaudit._files"),
        ("from dpaudit import _binomial", "dpaudit._binomial"),
        ("from dpaudit.estimators.thresholds import band_level", "dpaudit.estimators.thresholds.band_level"),
        ("from dpaudit.mechanisms.dpsgd import sampling\nsampling.keyed", "dpaudit.mechanisms.dpsgd.sampling.keyed"),
        ("import dpaudit as da\nda.nothing", "dpaudit.nothing"),
    ],
)
def test_a_private_name_would_be_found(text, found):
    assert list(not_public(text)) == [found]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 600


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_ever_unpickled(path):
    if path != Path(__file__):
        assert "import pickle" not in path.read_text().replace("import pickletools", "")
        assert "allow_pickle=True" not in path.read_text()
