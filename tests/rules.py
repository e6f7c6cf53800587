"""What the library declares, collected from its modules: assumptions, checks, templates; for the tests that hold rules.

PYTHONPATH=src python -m tests.rules      prints the tables of docs/theory/assumptions.md
"""

import importlib
import re
import string

import dpaudit
from dpaudit.assumptions import Assumption, Check
from tests.counts import ROOT, sources

HEAVY = ("integrations/opacus/", "demo/", "cli/__main__", "testing/pytest_plugin", "inputs/models")
"""Declares nothing, and loads much."""
ASSUMPTION_ROW = "| `{id}` | {sentence} | {who} | {refuted} | {theory} |"
CHECK_ROW = "| `{id}` | {refutes} | {then} | {level} | {theory} |"
MISSING = "no number is reported where it was not run, unless that is accepted"
TESTS_THE_ATTACK = {"planted-leak": '"consistent" is not said'}
"""Checks that refute no assumption: what follows is that an attack that sees so little clears nobody."""
THEN = {"withhold": "no number is reported", "fail": "the audit fails", "warn": "a remark stands beside"}


def modules():
    """Every module of the package that is light enough."""
    for name, _ in sources():
        if not name.startswith(HEAVY):
            parts = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield name, dpaudit if parts == "__init__" else importlib.import_module(f"dpaudit.{parts}")


def constants():
    """Module-level values, those inside of tuples and dictionaries as well, with the file and name they stand under."""
    for file, module in modules():
        for name, value in list(vars(module).items()):
            if name.startswith("__"):
                continue
            inside = value.values() if type(value) is dict else value if type(value) in (tuple, list) else [value]
            for one in inside:
                yield file, name, one


def of(kind):
    """All constants of a class, each declaration once, by id and then by what it says."""
    found = {}
    for _, _, value in constants():
        if isinstance(value, kind):
            found.setdefault(value.id, {})[repr(value)] = value
    return {name: list(values.values()) for name, values in sorted(found.items())}


def assumptions():
    return of(Assumption)


def checks():
    return of(Check)


def templates():
    """Every text with fields that is a constant: file, name, text."""
    seen = set()
    for file, name, value in constants():
        for where, text in _texts(name, value):
            if (where, text) not in seen and _fields(text):
                seen.add((where, text))
                yield file, where, text


def _texts(name, value):
    if isinstance(value, Assumption):
        yield f"assumption {value.id}", value.sentence
    elif isinstance(value, Check):
        for part in ("passed", "refuted", "not_run", "measured", "remedy"):
            yield f"check {value.id}, {part}", getattr(value, part)
    elif type(value) is str and name.isupper():
        yield name, value


def _fields(text):
    try:
        return [name for _, name, _, _ in string.Formatter().parse(text) if name]
    except ValueError:  # no template
        return []


def formats(text):
    """Name and format of every field of a template."""
    return [(name, spec) for _, name, spec, _ in string.Formatter().parse(text) if name]


def plain(template):
    """A sentence for the documentation: the fields keep their names, without their formats."""
    return re.sub(r"\{(\w+)[^}]*\}", r"{\1}", template)


def assumption_row(one):
    refuted = ", ".join(f"`{name}`" for name in one.tested_by) or "none"
    theory = f"`{one.theory}`" if one.theory else ""
    return ASSUMPTION_ROW.format(
        id=one.id, sentence=plain(one.sentence).replace("|", "\\|"), who=one.answered_by, refuted=refuted, theory=theory
    )


def check_row(one):
    """A check that has no test only measures."""
    tests = bool(one.refuted or (one.refutes and not one.on_missing))
    then = [TESTS_THE_ATTACK.get(one.id, THEN[one.on_refuted])] if tests else []
    nothing = "none: it tests the attack" if one.id in TESTS_THE_ATTACK else "none: it measures"
    return CHECK_ROW.format(
        id=one.id,
        refutes=", ".join(f"`{name}`" for name in one.refutes) or nothing,
        then="; ".join([*then, MISSING] if one.on_missing else then),
        level="" if one.level is None else f"{one.level:g}",
        theory=f"`{one.theory}`" if one.theory else "",
    )


def tables():
    """The rows of the page, one for each id: variants of a sentence are not repeated."""
    first = [assumption_row(listed[0]) for listed in assumptions().values()]
    return first, [check_row(listed[0]) for listed in checks().values()]


if __name__ == "__main__":
    print(*tables()[0], "", *tables()[1], sep="\n")

__all__ = ["ROOT", "assumptions", "check_row", "checks", "constants", "formats", "plain", "tables", "templates"]
