"""Every citation of the theory leads to an anchor of docs/theory, and every theorem is named by a test."""

import inspect
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from dpaudit import estimators

ROOT = Path(__file__).parent.parent
CHAPTERS = sorted((ROOT / "docs" / "theory").glob("*.md"))
HEADING = re.compile(r"^#+ .*\{#([a-z0-9-]+)( \.theorem)?\}$", re.M)
CITATION = re.compile(r"theory:([a-z0-9-]+)#([a-z0-9-]+)")
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
        for file, name in re.findall(r"`(?:tests/)?(?:\w+/)*(test_\w+\.py)::(test_\w+)`", text):
            assert f"def {name}(" in tests[file], (page.name, file, name)
        for name in re.findall(r"`(test_\w+)`", text):
            assert f"def {name}(" in everything, (page.name, name)


def test_records_cite_anchors():
    """A record may carry the anchor of each bound; whatever it carries leads somewhere."""
    known = anchors()
    for path in sorted((ROOT / "tests").rglob("*.json")):
        text = json.dumps(json.loads(path.read_text("utf-8")))
        assert set(CITATION.findall(text)) <= set(known), path.name
