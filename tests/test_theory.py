"""Every citation of the theory leads to an anchor of docs/theory, and every theorem is named by a test."""

import ast
import importlib
import inspect
import json
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from dpaudit import estimators
from tests import rules
from tests.counts import sources

ROOT = Path(__file__).parent.parent
CHAPTERS = sorted((ROOT / "docs" / "theory").glob("*.md"))
HEADING = re.compile(r"^#+ .*\{#([a-z0-9-]+)( \.theorem)?\}$", re.M)
CITATION = re.compile(r"theory:([a-z0-9-]+)#([a-z0-9-]+)")
PART = r"\*\*{}\.?\*\*(.*?)(?=\*\*[A-Z]|^#|\Z)"  # from one bold word of a statement to the next
NAME = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\((?P<given>[^()]*)\))?")
KEYWORD = re.compile(r"([a-z_]+)=[^=]*")
TEXTS = (".py", ".md", ".toml", ".json", ".j2", ".html")


def anchors():
    return {
        (page.stem, found[0]): bool(found[1]) for page in CHAPTERS for found in HEADING.findall(page.read_text("utf-8"))
    }


def files():
    roots = [ROOT / name for name in ("src", "tests", "docs", "examples", "benchmarks", "experiments")]
    inside = [path for root in roots if root.is_dir() for path in sorted(root.rglob("*")) if path.suffix in TEXTS]
    # files of an older format, and lines that are wrong on purpose
    sealed = (ROOT / "tests" / "golden" / "formats", ROOT / "tests" / "mutation" / "mutants.toml")
    kept = [path for path in inside if not any(path.is_relative_to(one) for one in sealed)]
    return [*kept, *sorted(ROOT.glob("*.md"))]


def citations(path):
    return set(CITATION.findall(path.read_text("utf-8")))


def test_anchors_are_unique_in_a_chapter():
    for page in CHAPTERS:
        found = Counter(name for name, _ in HEADING.findall(page.read_text("utf-8")))
        assert [name for name, count in found.items() if count > 1] == [], page.name


def test_every_citation_is_an_anchor():
    known = anchors()
    broken = [
        f"{path.relative_to(ROOT)}: theory:{chapter}#{name}"
        for path in files()
        for chapter, name in sorted(citations(path))
        if (chapter, name) not in known and (chapter, name) != ("chapter", "anchor")
    ]
    assert broken == []


def test_links_between_chapters_lead_somewhere():
    known = anchors()
    for page in CHAPTERS:
        for target, name in re.findall(r"\]\(([a-z-]+)\.md(?:#([a-z0-9-]+))?\)", page.read_text("utf-8")):
            assert (page.parent / f"{target}.md").exists(), (page.name, target)
            assert not name or (target, name) in known, (page.name, target, name)


def test_no_notes_outside_of_the_tree_are_cited():
    """The library never speaks of them; tests may name the word, and cite no number."""
    word, number = re.compile(r"\bTHEORY\b"), re.compile(r"\bTHEORY \d")
    left = [
        str(path.relative_to(ROOT))
        for path in files()
        if (number if path.is_relative_to(ROOT / "tests") else word).search(path.read_text("utf-8"))
    ]
    assert left == []


def test_every_theorem_is_named_by_a_test():
    tests = (path for path in files() if path.is_relative_to(ROOT / "tests") and path.suffix == ".py")
    named = set().union(*(citations(path) for path in tests))
    assert sorted(place for place, theorem in anchors().items() if theorem and place not in named) == []


@pytest.mark.parametrize("name", [name for name in estimators.__all__ if inspect.isfunction(getattr(estimators, name))])
def test_every_estimator_cites_its_theorem(name):
    cited = set(CITATION.findall(inspect.getdoc(getattr(estimators, name)) or ""))
    assert cited, f"the docstring of {name} cites no anchor"


def test_tests_named_by_the_theory_exist():
    tests = defaultdict(str)  # several files have one name
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tests[path.name] += path.read_text("utf-8")
    everything = "\n".join(tests.values())
    for page in CHAPTERS:
        text = page.read_text("utf-8")
        for file in re.findall(r"`(?:tests/)?(?:\w+/)*(test_\w+\.py)(?:::\w+)?`", text):
            assert file in tests, (page.name, file)
        for file, name in re.findall(r"`(?:tests/)?(?:\w+/)*(test_\w+\.py)::(test_\w+)`", text):
            assert f"def {name}(" in tests[file], (page.name, file, name)
        for name in re.findall(r"`(test_\w+)`", text):
            assert f"def {name}(" in everything, (page.name, name)


def parts(page, title):
    """What stands behind this bold word, one text a statement."""
    return re.findall(PART.format(title), page.read_text("utf-8"), re.M | re.S)


def test_golden_values_name_what_holds_them():
    """A test, a docstring that is run as one, or the statement that has them."""
    for page in CHAPTERS:
        for text in [] if page.stem == "README" else parts(page, "Golden\\s+values"):
            assert re.search(r"test_\w+|docstring|theory:", text), (page.name, text)


@cache
def defined():
    """Dotted names of the package with what they are, re-exports included; the parameters of each bare name."""
    names, taken = set(), defaultdict(set)
    for file, source in sources():
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        names.add(module)
        _define(ast.parse(source).body, module, names, taken)
    return frozenset(names), taken


def _define(body, where, names, taken):
    for node in body:
        found = []
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found = [node.name]
        elif isinstance(node, ast.AnnAssign):
            found = [getattr(node.target, "id", "")]
        elif isinstance(node, ast.Assign):
            found = [getattr(target, "id", "") for target in node.targets]
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found = [alias.asname or alias.name for alias in node.names]
        names.update(f"{where}.{name}" for name in found)
        if isinstance(node, ast.FunctionDef):
            taken[node.name] |= {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
            if node.name == "__init__":
                taken[where.rpartition(".")[2]] |= taken[node.name]
        if isinstance(node, ast.ClassDef):
            _define(node.body, f"{where}.{node.name}", names, taken)
            fields = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
            inherited = (taken[base.id] for base in node.bases if isinstance(base, ast.Name))
            taken[node.name] |= fields.union(*inherited)


def unknown(span):
    """What is wrong with the code in backticks; nothing, if it is a name of the package with parameters of its own."""
    names, taken = defined()
    if keyword := KEYWORD.fullmatch(span):
        return "" if any(keyword[1] in own for own in taken.values()) else f"no parameter {keyword[1]!r}"
    found = NAME.fullmatch(span)
    if found is None:
        return "not a name"
    if not any(f".{known}".endswith(f".{found['name']}") for known in names) and not _lazy(found["name"]):
        return "no such name"
    given = re.findall(r"(\w+)=", found["given"] or "")
    own = taken[found["name"].rpartition(".")[2]]
    return ", ".join(f"no parameter {name!r}" for name in given if name not in own)


def _lazy(name):
    """A room may hand out a name that it imports only when it is asked for."""
    room, _, last = name.rpartition(".")
    rooms = [f"dpaudit.{known}" for known in defined()[0] if room and known == room]
    return any(hasattr(importlib.import_module(one), last) for one in rooms)


def spans(text):
    """Code in backticks that is neither a test, a file, a citation nor an id."""
    ids = {*rules.assumptions(), *rules.checks()}
    for span in re.findall(r"`([^`]+)`", text):
        file = (ROOT / span).exists() or (ROOT / "docs" / "theory" / span).exists()
        if not (span in ids or file or re.match(r"(?:\S+/)?test_\w|theory:|#|\.theorem|###? ", span)):
            yield span


def test_algorithms_name_what_is_in_the_package():
    """Nothing but names of the package, and parameters that they have, stands in backticks behind "Algorithm"."""
    wrong = [
        (page.name, span, unknown(span))
        for page in CHAPTERS
        for text in parts(page, "Algorithm")
        for span in spans(text)
        if unknown(span)
    ]
    assert wrong == []


def test_names_elsewhere_in_the_theory_are_in_the_package():
    """Whatever else looks like a name: with a dot, an underscore or a capital in it, or called."""
    looks = re.compile(r"[A-Za-z_]\w*[._A-Z]\w+(?:\.\w+)*(?:\(.*\))?|\w{4,}\(.*\)|\w+=")
    wrong = [
        (page.name, span, unknown(span))
        for page in CHAPTERS
        for span in spans(page.read_text("utf-8"))
        if looks.fullmatch(span) and unknown(span)
    ]
    assert wrong == []


def test_records_cite_anchors():
    """A record may carry the anchor of each bound; whatever it carries leads somewhere."""
    known = anchors()
    for path in sorted((ROOT / "tests").rglob("*.json")):
        text = json.dumps(json.loads(path.read_text("utf-8")))
        assert set(CITATION.findall(text)) <= set(known), path.name
