"""Measured counts of how tangled the library is; each is a list of places, so that a count can be gone through.

    PYTHONPATH=src python -m tests.counts [NAME]      prints the counts, or the places of one

kind tests
    Lines that ask what kind a game, evidence or bound is, outside of the rooms that define them: `isinstance`,
    `issubclass` or a class pattern that names such a class (or a union or tuple of them), a comparison with one,
    `type(...)` compared or looked up (with types of the language it may be), `__class__`, `hasattr` of one or of what
    one has, the name of such a class as a text that is compared or a key, and a comparison of `kind`, `["game"]` or
    `["type"]` with a name.
    Not counted: an estimator's refusal of evidence that its theorem does not cover (`if not isinstance(...): raise`,
    and functions `needs_...`).
prose files
    Files in which sentences for people are put together: an f-string with a field and at least five words of its own,
    or with three and a full stop; a `+` or `%` of as many words in a function; any `.format`.
    Errors (whatever is raised, or handed to an error's constructor), help of commands and log lines are not counted.
citations
    Lines that cite `THEORY n.m`, notes that are not in the tree.
long bodies, long files
    Bodies of functions above 60 lines, from the first statement after the docstring; files above 600 lines.
top-level modules
    Files and folders directly in the package, `__init__` not counted.
upward imports
    A file that imports from a room of its own level or above (`LEVELS`), except for the pairs of `SIDEWAYS`.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import dpaudit

ROOT = Path(dpaudit.__file__).parent
UNIONS = {"Game", "Evidence", "Bound"}
NAMES = "multi_run one_run prediction observational observational_coins zero_run panoramia evidence trained_runs"
VALUES = ("evidence/types.py", "evidence/matched.py", "bounds/values.py", "bounds/verdict.py")
"""Files of evidence and bounds."""
GAMES = {*NAMES.split(), *NAMES.replace("_", "-").split()}
"""Names of games in audit files and records."""
CLAIMS = {"UpperBound", "Verdict"}
"""What is promised and what is concluded is none of the three."""
OWN = ("games/", "evidence/", "bounds/")
"""Rooms that may ask what their own values are."""
BUILTINS = {"int", "float", "str", "bool", "dict", "list", "tuple", "set", "type"}
SUBJECTS = {"game", "evidence", "bound", "found", "source", "played", "seen", "observed"}
"""Names that stand for a game, evidence or a bound."""
WORDS, FEWEST, BODY, FILE = 5, 3, 60, 600
LEVELS = {
    0: "_validate _files _binomial tradeoff",
    1: "assumptions bounds evidence record execution counterfactuals",
    2: "accounting inputs fitted mechanisms attacks",
    3: "estimators games",
    4: "reporting",
    5: "auditing",
    6: "integrations testing",
    7: "demo",
    8: "cli",
}
LEVEL = {room: level for level, rooms in LEVELS.items() for room in rooms.split()}
SIDEWAYS = {
    *((room, "_validate") for room in LEVELS[0].split()),
    ("bounds", "assumptions"),
    ("evidence", "bounds"),
    ("evidence", "assumptions"),
    *(("record", room) for room in ("assumptions", "bounds", "evidence")),
    ("counterfactuals", "execution"),
    ("mechanisms", "accounting"),
    ("attacks", "mechanisms"),
}


def sources():
    """Name and text of every file of the package."""
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@cache
def homes():
    """Every class of a game, evidence or bound, with the file that defines it and what it has."""
    found = {}
    for name, text in sources():
        if name.startswith("games/") or name in VALUES:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and _is_value(node):
                    found[node.name] = name, {_member(part) for part in node.body} - {None}
    return found


def _member(part):
    """The name of a field or method."""
    name = part.target.id if isinstance(part, ast.AnnAssign) else getattr(part, "name", None)
    return None if name is None or name.startswith("__") else name


@cache
def members():
    """What some game, evidence or bound has."""
    return set().union(*(inside for _, inside in homes().values()))


def _is_value(node):
    """A public dataclass."""
    return not node.name.startswith("_") and any("dataclass" in ast.unparse(part) for part in node.decorator_list)


def kinds():
    """Names of classes of games, evidence and bounds, of unions of them, and of tuples of them."""
    found = (UNIONS | set(homes())) - CLAIMS
    return found | {name for _, text in sources() for name in _several(ast.parse(text), found) if name.isupper()}


def _several(tree, known):
    """Names of constants that are tuples or unions of these classes alone."""
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign) and isinstance(value, ast.Tuple | ast.List | ast.Set | ast.BinOp):
            parts = [part for part in ast.walk(value) if isinstance(part, ast.Name | ast.Attribute | ast.Constant)]
            names = {_ends(part) or getattr(part, "id", None) for part in parts}
            if names and names <= known:
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def kind_tests():
    known = kinds()
    for name, text in sources():
        if not name.startswith(OWN):
            yield from (f"{name}:{line}" for line in asks_kind(ast.parse(text), known, name))


def asks_kind(tree, known, name=""):
    """Lines of a file that ask what kind something is."""
    known = known | set(_several(tree, known))
    refused = {id(part) for node in ast.walk(tree) if _refuses(name, node) for part in ast.walk(node)}
    return sorted({_line(node) for node in ast.walk(tree) if id(node) not in refused and _tests_kind(node, known)})


def _line(node):
    return node.cls.lineno if isinstance(node, ast.MatchClass) else getattr(node, "lineno", 0)


def _refuses(name, node):
    """An estimator's refusal of evidence: all of a function `needs_...`, or the test of an `if` that only raises."""
    if not name.startswith("estimators/"):
        return False
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith("needs_")
    return isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and isinstance(node.body[-1], ast.Raise)


def _tests_kind(node, known):
    if isinstance(node, ast.Call):
        name = called(node)
        if name in ("isinstance", "issubclass") and len(node.args) == 2:
            return bool(_names(node.args[1]) & known)
        if name == "hasattr":
            return bool(_names(node.args[0]) & SUBJECTS or _words_of(node.args[1]) & members())
        return name == "get" and _looks_up(node.args[0])
    if isinstance(node, ast.Compare):
        return _compares_kind([node.left, *node.comparators], known)
    if isinstance(node, ast.Dict):
        return any(_words_of(key) & known for key in node.keys if key is not None)
    if isinstance(node, ast.Subscript):
        return _looks_up(node.slice)
    if isinstance(node, ast.Match):
        return _is_kind(node.subject) or _is_type(node.subject)
    if isinstance(node, ast.Attribute):
        return node.attr == "__class__"
    return isinstance(node, ast.MatchClass) and bool(_names(node.cls) & known)


def _looks_up(node):
    """What a table of kinds is asked with."""
    return _is_type(node) or (isinstance(node, ast.Attribute) and node.attr == "kind" and _is_subject(node.value))


def _compares_kind(parts, known):
    """A class, the name of one, or the `kind` of a game beside whatever it is compared with."""
    words = set().union(*map(_words_of, parts))
    classes = [part.value if _ends(part) == "__name__" else part for part in parts]
    if words & known or {_ends(one) or getattr(one, "id", None) for one in classes} & known:
        return True
    if any(map(_is_kind, parts)):
        return bool(words & GAMES) or any(_is_field(part) for part in parts)
    others = {part.id for part in parts if isinstance(part, ast.Name)}
    return any(map(_is_type, parts)) and not others & BUILTINS


def _words_of(node):
    """Texts in an expression, if it is nothing but a text or a list of them."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _is_kind(node):
    """`kind`, `game.kind`, `plan["game"]`, `entry["type"]`."""
    return (isinstance(node, ast.Name) and node.id == "kind") or _ends(node) == "kind" or _is_field(node)


def _is_field(node):
    key = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(key, ast.Constant) and key.value in ("game", "type")


def _is_subject(node):
    return isinstance(node, ast.Name | ast.Attribute) and bool(_names(node) & SUBJECTS)


def _names(node):
    """Every name and attribute in an expression."""
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | set(map(_ends, parts))


def called(node):
    """The name of what is called, whatever it is an attribute of."""
    return _ends(node.func) or (node.func.id if isinstance(node.func, ast.Name) else "")


def _ends(node):
    return node.attr if isinstance(node, ast.Attribute) else None


def _is_type(node):
    """`type(...)` of whatever has a name, and the name of its class."""
    if isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__"):
        return _is_type(node.value)
    return isinstance(node, ast.Call) and called(node) == "type" and len(node.args) == 1


def prose():
    """Every sentence that is put together, with its file."""
    for name, text in sources():
        yield from (f"{name}:{line}" for line in put_together(ast.parse(text)))


def put_together(tree):
    """Lines of sentences, errors left out; a `+` outside of functions makes a template of templates."""
    left_out = {id(part) for node in ast.walk(tree) if _is_error(node) for part in ast.walk(node)}
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        joined = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod) and id(node) in inside
        formatted = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        if (isinstance(node, ast.JoinedStr) and _says(node)) or (joined and _words(_texts(node)) >= WORDS) or formatted:
            yield node.lineno


def _texts(node):
    """What a `+` or `%` puts together: its own texts and those it chooses from."""
    if isinstance(node, ast.BinOp):
        return f"{_texts(node.left)} {_texts(node.right)}"
    if isinstance(node, ast.IfExp):
        return f"{_texts(node.body)} {_texts(node.orelse)}"
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def prose_files():
    yield from sorted({place.partition(":")[0] for place in prose()})


def _is_error(node):
    """What raises, and calls whose words are an error, a command's help or a line of a log."""
    if isinstance(node, ast.Raise):
        return True
    if not isinstance(node, ast.Call):
        return False
    return called(node) in (
        "InputError",
        "RunFailed",
        "NotComparable",
        "Interrupted",
        "Option",
        "Argument",
        "print",
        "warn",
    )


def _says(node):
    fields = any(isinstance(part, ast.FormattedValue) for part in node.values)
    enough = FEWEST if _texts(node).rstrip().endswith(".") else WORDS
    return fields and _words(_texts(node)) >= enough


def _words(text):
    return len(re.findall(r"[A-Za-z]{2,}", text))


def citations():
    for name, text in sources():
        lines = enumerate(text.splitlines(), 1)
        yield from (f"{name}:{number}" for number, line in lines if re.search(r"THEORY\s+\d", line))


def long_bodies():
    for name, text in sources():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _body(node) > BODY:
                yield f"{name}:{node.lineno}"


def _body(node):
    first = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return node.end_lineno - first[0].lineno + 1 if first else 0


def long_files():
    yield from (name for name, text in sources() if len(text.splitlines()) > FILE)


def top_level_modules():
    found = {name.partition("/")[0].removesuffix(".py") for name, _ in sources()}
    yield from sorted(found - {"__init__", "__main__"})


def upward_imports():
    for name, text in sources():
        room = name.partition("/")[0].removesuffix(".py")
        others = set() if room == "__init__" else set(_imported(ast.parse(text))) - {room, "__version__"}
        for other in sorted(others):
            if LEVEL[other] >= LEVEL[room] and (room, other) not in SIDEWAYS:
                yield f"{name} imports {other}"


def _imported(tree):
    """Rooms that a file imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpaudit":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dpaudit."))


COUNTS = {
    "kind tests": kind_tests,
    "prose": prose,
    "prose files": prose_files,
    "citations": citations,
    "long bodies": long_bodies,
    "long files": long_files,
    "top-level modules": top_level_modules,
    "upward imports": upward_imports,
}


def counted():
    """Every count by name."""
    return {name: len(list(count())) for name, count in COUNTS.items()}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(*COUNTS[sys.argv[1]](), sep="\n")
    else:
        print(*(f"{name}: {number}" for name, number in counted().items()), sep="\n")
