"""The shape of the package: imports point one way, the public names exist and are documented, importing is light."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import dpaudit
from tests.counts import LEVEL as LEVELS
from tests.counts import SIDEWAYS as ALLOWED_SIDEWAYS

ROOT = Path(dpaudit.__file__).parent
DOCS = Path(__file__).parent.parent / "docs"
NEVER = {"games": {"estimators"}, "estimators": {"games", "mechanisms", "attacks"}}


def imported_modules(path):
    """Top-level modules of dpaudit that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpaudit":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dpaudit."))


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_arrow_points_up(path):
    module = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if module == "__init__":
        return
    for other in imported_modules(path):
        if other in (module, "__version__"):
            continue
        below = LEVELS[other] < LEVELS[module] or (module, other) in ALLOWED_SIDEWAYS
        assert other not in NEVER.get(module, set()), f"{path.name} imports {other}"
        assert below, f"{path.name} (level {LEVELS[module]}) imports {other} (level {LEVELS[other]})"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 600


def test_so_are_tests_and_experiments():
    folders = [Path(__file__).parent, *(DOCS.parent / "experiments" / name for name in ("src", "tests"))]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert [path.name for path in files if len(path.read_text().splitlines()) > 600] == []


def test_dp_accounting_stays_in_accounting():
    for path in ROOT.rglob("*.py"):
        assert path == ROOT / "accounting" / "events.py" or "dp_accounting" not in path.read_text()


def test_experiments_are_named_by_the_command_that_runs_them_alone():
    for path in ROOT.rglob("*.py"):
        assert path == ROOT / "cli" / "reproduce.py" or "dpaudit_experiments" not in path.read_text()


def test_nothing_is_ever_unpickled():
    for path in ROOT.rglob("*.py"):
        assert "import pickle" not in path.read_text()
        assert "allow_pickle=True" not in path.read_text()


@pytest.mark.parametrize("name", dpaudit.__all__)
def test_public_names_resolve_and_are_documented(name):
    found = getattr(dpaudit, name)
    assert found.__doc__, name
    assert f"`{name}`" in (DOCS / "reference.md").read_text()


@pytest.mark.parametrize(
    "module",
    [
        "estimators",
        "accounting",
        "tradeoff",
        "mechanisms",
        "games",
        "attacks",
        "fitted.propensity",
        "fitted.generators",
        "auditing",
        "reporting",
        "testing",
    ],
)
def test_module_functions_are_documented(module):
    found = importlib.import_module(f"dpaudit.{module}")
    names = getattr(found, "__all__", None) or [
        n for n, v in vars(found).items() if not n.startswith("_") and getattr(v, "__module__", "") == found.__name__
    ]
    page = (DOCS / "reference.md").read_text()
    for name in names:
        assert f"`{name}`" in page, f"{module}.{name}"


def test_reference_page_is_up_to_date():
    """Docs and commands cannot drift apart: `python docs/make_reference.py` writes the page anew."""
    spec = importlib.util.spec_from_file_location("make_reference", DOCS / "make_reference.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.PAGE.read_text() == maker.render()


def test_import_is_light():
    """numpy at most: the heavy packages are loaded when they are first used."""
    code = (
        "import sys, dpaudit; heavy = ('scipy', 'pyarrow', 'pandas', 'typer', 'joblib', 'torch', 'opacus'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dpaudit.nonsense  # noqa: B018
    assert "judge" in dir(dpaudit)
