"""The rules of the house, each held by a test: where a game is named, what text is for, what is declared where."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dpaudit as da
from dpaudit import games
from dpaudit.auditing import advice
from dpaudit.bounds.verdict import VERDICTS
from dpaudit.reporting import text
from tests import counts, rules
from tests.auditing.test_plays import Answers
from tests.counts import sources
from tests.games import test_conformance as small
from tests.golden import worlds
from tests.planted import PLANTED, SERIAL, audited
from tests.test_theory import anchors

DOCS = Path(__file__).parent.parent / "docs"

# ------------------------------------------------------------------------------------------------------------- locality

TABLES = {"ObservationalTable", "ZeroRunTable", "PanoramiaTable"}
NAMES = {game.__name__ for game in games.GAMES} | TABLES
USERS = ("games/", "demo/", "testing/", "integrations/")
"""Rooms that use games as an author of audits does."""
NAMED = {
    "record/format_1.py": "records of format 1 told the game of given members by the name of its class",
}
"""Files that name a game all the same, and why."""


def names_in(tree):
    """Words of code: names, attributes, imports, and texts that are no docstrings."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield from re.findall(r"\w+", node.value)


def test_a_game_is_named_where_it_lives():
    """Else a new game means a new branch in rooms that need not know it."""
    found = {
        name: sorted(set(names_in(ast.parse(source))) & NAMES - {"Prediction", "Observational"} | _called(source))
        for name, source in sources()
        if not name.startswith(USERS)
    }
    assert {name: words for name, words in found.items() if words and name not in NAMED} == {}
    assert set(NAMED) == {name for name, words in found.items() if words}, "an entry that names nothing is stale"


def _called(source):
    """`Prediction` and `Observational` are words, too: code that calls them, or asks for them, means the classes."""
    names = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return names & {"Prediction", "Observational"}


@pytest.mark.parametrize("game", games.GAMES, ids=lambda game: game.__name__)
def test_a_game_lives_in_one_file(game):
    home = f"games/{game.__module__.rpartition('.')[2]}.py"
    others = [
        name
        for name, source in sources()
        if name.startswith("games/") and name not in (home, "games/__init__.py") and _uses(source, game.__name__)
    ]
    assert [name for name in others if not name.endswith(("_table.py", "tables.py"))] == [], "tables make their game"


def _uses(source, name):
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(source)))


# ---------------------------------------------------------------------------------------------------------------- kinds

KINDS = {
    "auditing/challenge.py": 3,  # a challenge is about given members, and says what it was handed instead
    "estimators/canaries.py": 1,  # strategies of thresholds, each with its function
    "estimators/pairs.py": 1,  # the same, each with its words
    "estimators/thresholds.py": 1,  # the refusal itself names what it was handed, and what to call instead
    "fitted/generators/tables.py": 2,  # a generator of another library, by the methods that it must have
    "record/format_1.py": 3,  # records of format 1 told bounds and evidence by the names of their classes
    "testing/calibration/_table.py": 1,  # an estimator of anybody may return a bound or a number
    "testing/conformance.py": 1,  # a score of anybody may be made for many runs at once
}
"""Lines that ask for a kind, and why; none of them chooses between games."""


def test_nobody_asks_what_kind_it_is():
    found = [place.partition(":")[0] for place in counts.kind_tests()]
    assert {name: found.count(name) for name in found} == KINDS


ASKS = """
isinstance(x, RunScores)
isinstance(x, bounds.LowerBound | RenyiBound)
isinstance(x, games.GAMES)
kinds = (RunScores, CanaryScores); isinstance(x, kinds)
game.kind == 'zero-run'
kind in ('zero-run', 'panoramia')
self.kind != game.kind_of['type']
audit.plan['game'] == 'multi-run'
entry['type'] == WANTED['type']
type(evidence).__name__ == 'MemberScores'
name == 'MemberScores'
name != MemberScores.__name__
name is evidence.MemberScores
words = {'MemberScores': 1}
type(one) is X
type(one) in (A, B)
evidence.__class__
hasattr(one, 'orders')
hasattr(bound, 'whatever')
D[type(one)]
D.get(type(one))
D[type(one).__name__]
D[game.kind]
match type(x): pass
""".strip().splitlines()
ASKS_NOTHING = """
type(version) is int
isinstance(x, str)
hasattr(values, '__iter__')
kind == 'placebo'
entry['game']
BOUNDS[entry['kind']]
type(seen).__name__
{'runs': 1}
""".strip().splitlines()


@pytest.mark.parametrize("code", ASKS)
def test_a_question_for_the_kind_would_be_seen(code):
    code = "match type(x):\n    case _: pass" if code.startswith("match") else code
    assert counts.asks_kind(ast.parse(code), counts.kinds()) == [1]


@pytest.mark.parametrize("code", ASKS_NOTHING)
def test_what_asks_for_no_kind_is_not_counted(code):
    assert counts.asks_kind(ast.parse(code), counts.kinds()) == []


# ----------------------------------------------------------------------------------------------------------------- text

READS_TEXT = ("evidence/format_1.py",)
SEARCHES = {"startswith", "endswith", "find", "index", "replace", "partition", "split", "count", "removeprefix"}
SENTENCES = ("sentence", "reading", "remedy", "detail", "template")
"""Fields that hold words for people; `text` is one, too."""
PHRASE = re.compile(r"[A-Za-z]+ |[a-z] [A-Za-z=]")
"""Words of a sentence: no id and no name of a field has a blank."""


def searches(tree):
    """Lines that look for something in a sentence: `x.text.find(...)`, `"a" in str(one)`, `re.search(..., x.text)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            by_method = node.func.attr in SEARCHES and (is_sentence(owner) or any(map(is_phrase, node.args)))
            by_pattern = isinstance(owner, ast.Name) and owner.id == "re" and any(map(is_sentence, node.args))
            if by_method or by_pattern:
                yield node.lineno
        elif isinstance(node, ast.Compare) and not any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            parts = (node.left, *node.comparators)
            yield from [node.lineno] * any(is_sentence(part) or is_phrase(part) for part in parts)


def is_phrase(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(PHRASE.search(node.value))


def is_sentence(node):
    """`one.sentence`, `one.text`, `audit.text["verdict"]`, `str(assumption)`; `self.text` may be anything's."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "text"
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES or (node.attr == "text" and not _is_self(node))
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    return (
        called and isinstance(node.args[0], ast.Name) and node.args[0].id in ("one", "assumption", "result", "verdict")
    )


def _is_self(node):
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_no_sentence_is_searched():
    found = {name: list(searches(ast.parse(source))) for name, source in sources() if name not in READS_TEXT}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "code",
    [
        "one.sentence.startswith('tau')",
        "'tau' in str(assumption)",
        "re.search('p = ', verdict.text)",
        "one.sentence == 'tau = 0'",
        "result.text.replace('a', 'b')",
        "'p =' in line",
        "line == 'it was refuted'",
        "line.startswith('No number')",
        "'tau' in verdict.detail",
        "result.template.count('{tau}')",
        "audit.text['verdict'].find('tau')",
        "'tau' in audit.text['lines']",
    ],
)
def test_a_search_in_a_sentence_would_be_seen(code):
    assert list(searches(ast.parse(code))) == [1]


FILLERS = ("filled", "said", "count_words")
"""Functions whose first argument is a template; each hands its own on."""


def put_together(tree):
    """Lines whose template is no constant: a name in capitals, or a field that one was kept in."""
    own = {
        id(node)
        for made in ast.walk(tree)
        if isinstance(made, ast.FunctionDef) and made.name in FILLERS
        for node in ast.walk(made)
        if isinstance(node, ast.Name) and node.id == made.args.args[0].arg
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and counts.called(node) in FILLERS:
            template = node.args[0] if node.args else None
            if id(template) not in own and not is_constant(template):
                yield node.lineno


def is_constant(node):
    if isinstance(node, ast.Subscript):
        return is_constant(node.value)
    if isinstance(node, ast.IfExp):
        return is_constant(node.body) and is_constant(node.orelse)
    return node.id.isupper() if isinstance(node, ast.Name) else isinstance(node, ast.Attribute)


def test_templates_are_constants():
    """Whatever is put together at run time is no template."""
    found = {name: list(put_together(ast.parse(source))) for name, source in sources()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "code",
    [
        "x = f'{a} is {b}'; filled(x, {})",
        "filled(f'{a} is {b}', {})",
        "filled('a' + b, {})",
        "filled(GIVEN if a else b, {})",
        "assumptions.filled(x, {})",
        "filled(template=FOUND, values={})",
        "advice.said(words, a=1)",
        "NEVER.replace('{detail}', detail)",
    ],
)
def test_a_template_that_is_put_together_would_be_seen(code):
    assert [*put_together(ast.parse(code)), *edited(ast.parse(code))] == [1]


def edited(tree):
    """Lines that make a template of another by `.replace` or `+`, `%`, `.format`: `filled` alone fills one in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EDITS:
            yield from [node.lineno] * (isinstance(node.func.value, ast.Name) and node.func.value.id.isupper())


EDITS = {"replace", "format", "format_map", "join"}


def test_no_template_is_edited():
    found = {name: list(edited(ast.parse(source))) for name, source in sources()}
    assert {name: lines for name, lines in found.items() if lines} == {}


# ------------------------------------------------------------------------------------------------------------ templates

SAFE = re.compile(r"(down|up)\d*|p|percent|list|,|")
GIVEN = {
    "delta",
    "level",
    "shift",
    "tau",
    "kappa",
    "more",
    "c",
    "asserted",
    "slack",
    "error",
    "errors",
    "eta",
    "share",
    "rest",
    "divergence",
    "first",
    "second",
    "sampling_rate",
    "strength",
    "order",
    "planted_epsilon",
}
"""What somebody asserted or fixed, printed as it was given (`:g`), never rounded to a few digits."""
ESTIMATES = {
    "points": "how far a proxy is off, measured",
    "explained": "share of the log-loss, measured",
    "log_loss": "measured",
    "blank": "measured",
    "share": "share of rows that were guessed",
    "rate": "how often the guesses were right, measured",
    "gain": "an extrapolation, said to be one",
    "auc": "an estimate, said to be one",
    "nearest": "how far propensities keep from 0 and 1, measured; said to be about",
    "most": "the same of most rows",
    "members": "effective rows, an estimate, said to be one",
    "others": "effective rows, an estimate, said to be one",
    "median": "measured widths of propensities",
    "largest": "measured widths of propensities; of planted leaks the largest share of rows, which is fixed",
    "notices": "what a control of this size could notice; nothing is bounded by it",
    "wealth": "of a test by betting; its p-value decides",
    "attained": "epsilon of the mechanism that a planned audit is to catch; it follows from what was given",
    "smallest": "share of rows at which a planted leak was found",
    "trained": "how often guesses at training rows were right, measured",
    "alone": "how often guesses at rows never seen were right, measured",
    "expected": "how often the proxy expects them to be right, the mean of its probabilities",
    "trained_surest": "the same of the guesses with the highest scores",
    "alone_surest": "the same of the guesses with the highest scores",
    "resolution": "what so many rows could show half of the time; nothing is bounded by it",
    "resolution_often": "what so many rows could show four times of five",
    "z": "standard errors by which a column parts the groups; it explains a refutation and tests nothing",
}
"""Fields that are printed to a few digits, and why that is no bound."""


def test_bounds_are_printed_by_safe_rounding_only():
    bad = [
        (file, where, f"{{{name}:{spec}}}")
        for file, where, template in rules.templates()
        for name, spec in rules.formats(template)
        if not (SAFE.fullmatch(spec) or (spec == "g" and name in GIVEN) or name in ESTIMATES)
    ]
    assert bad == []


def test_no_bound_is_an_estimate():
    bounds = {
        "epsilon",
        "mu",
        "low",
        "total",
        "limit",
        "value",
        "at_first",
        "at_second",
        "found",
        "promised",
        "p_value",
        "tau_max",
        "log_ratio",
    }
    assert not bounds & (GIVEN | set(ESTIMATES))


@cache
def audits():
    """One audit of each game, with and without a claim, and those that planted violations withhold."""
    pair = da.UpperBound(epsilon=0.5, delta=0.0, relation="substitute")
    found = [audited(game) for game, _ in (make() for make in small.SMALL)]
    found += [da.audit(game, seed=1, execution=SERIAL, claim=pair) for game, _ in [small.zero_run(), small.panoramia()]]
    found += [da.audit(small.multi_run()[0], seed=1, execution=SERIAL, claim=PROMISED)]
    rows = np.random.default_rng(4).normal(size=(300, 3))
    many = [
        worlds.made(members=rows, target=worlds.plain_loss, nonmembers=rows + 0.1, divergence=1.0),
        worlds.labels(rows=300, log_ratio=0.05),
        worlds.labels(rows=300, shift=0.01, group=small.GROUPS, unit="user"),
        worlds.labels(rows=400, sample=200),
        worlds.whole_records(members=200),
        games.ZeroRun(**worlds.known_members(rows=400)),
        worlds.noisy_proxy(calibration_fraction=0.1),
        Answers(repeats=3),
        worlds.matched(rows=300, others=200, held_out_at_random=True),
        worlds.matched(rows=300, placebo=None),
        worlds.copied(rows=300, others=200),
    ]
    found += [da.audit(game, seed=1, execution=SERIAL, delta=0.0, accept=taken(game)) for game in many]
    found.append(da.audit(small.one_run()[0].play(seed=1).only))
    return (*found, *(make() for make in PLANTED.values()))


def taken(game):
    """What coins alone need for a number."""
    return [one.id for one in game.assumptions if one.id == "counterfactual-right"]


PROMISED = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")


UNFILLED = {("planted-leak", "passed", "refuted"): {"smallest"}}
"""Fields of a sentence that is not said: where no planted leak was found there is no smallest one."""


def test_fields_of_templates_exist_in_every_result():
    results = [result for audit in audits() for result in (*audit.checks, *audit.next_steps)]
    for result in results:
        parts = ("not_run",) if result.outcome == "not-run" else ("passed", "refuted", "measured", "remedy")
        for part in parts:
            missing = da.assumptions.fields_of(getattr(result.check, part)) - set(result.fields)
            assert missing <= UNFILLED.get((result.check.id, part, result.outcome), set()), (result, part)
    rest = set(rules.checks()) - {result.check.id for result in results}
    assert rest <= {"recalibration", "comparison"}, "what is refused has a test of its own"


def test_fields_of_assumptions_exist_where_they_are_used():
    used = [one for audit in audits() for one in audit.assumptions]
    assert used
    for one in used:
        assert da.assumptions.fields_of(one.sentence) <= {*one.values, *one.details}, one.id
        assert set(one.values) <= da.assumptions.fields_of(one.sentence), f"{one.id} does not say what is asserted"


def test_every_outcome_has_its_sentence_and_its_word():
    outcomes = set(da.Outcome)
    assert set(VERDICTS) == set(text.WORDS) == outcomes
    known = {"detail", "taken", "conditions", "confidence"}
    assert set().union(*(da.assumptions.fields_of(template) for template in VERDICTS.values())) <= known
    assert {audit.outcome for audit in audits()} >= {da.Outcome.WITHHELD, da.Outcome.NO_CLAIM}


# ----------------------------------------------------------------------------------------------------------- twins

SHORT = 200
"""Characters of a syntax tree: two one-liners may be alike."""


def twins(files):
    """Functions of modules with one body and the same arguments, whatever they are called."""
    found = {}
    for name, source in files:
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                body = node.body[ast.get_docstring(node) is not None :]
                told = "".join(map(ast.dump, [node.args, *body])).replace(f"id='{node.name}'", "id='itself'")
                found.setdefault(told, []).append(f"{name}:{node.name}")
    return [places for told, places in found.items() if len(places) > 1 and len(told) > SHORT]


def test_no_function_has_a_twin():
    assert twins(sources()) == []


def test_a_twin_would_be_seen():
    code = "def {name}(value):\n    return tuple({name}(one) for one in value) if isinstance(value, list) else value"
    files = [(name, code.format(name=name)) for name in ("number", "_number")]
    assert twins(files) == [["number:number", "_number:_number"]]


# ---------------------------------------------------------------------------------------------- assumptions and checks


def declared_calls(kind):
    """Ids in the constructor calls of the sources, with their files."""
    for name, source in sources():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind:
                yield from (
                    (word.value.value, f"{name}:{node.lineno}")
                    for word in node.keywords
                    if word.arg == "id" and isinstance(word.value, ast.Constant)
                )


@pytest.mark.parametrize("kind", ["Assumption", "Check"])
def test_ids_are_declared_once(kind):
    found = list(declared_calls(kind))
    ids = [name for name, _ in found]
    assert [place for name, place in found if ids.count(name) > 1] == []


def test_variants_keep_what_they_are():
    """A second sentence of an id says the same to the same people."""
    for listed in rules.assumptions().values():
        assert len({(one.answered_by, one.tested_by, one.theory) for one in listed}) == 1, listed[0].id
    for listed in rules.checks().values():
        assert len({(one.refutes, one.on_refuted, one.on_missing, one.theory) for one in listed}) == 1, listed[0].id


def test_a_check_refutes_what_says_so():
    assumptions, checks = rules.assumptions(), rules.checks()
    for name, (one, *_) in checks.items():
        if one.refuted:
            assert one.refutes or name in rules.TESTS_THE_ATTACK, f"{name} refutes nothing"
        for refuted in one.refutes:
            assert name in assumptions[refuted][0].tested_by, (name, refuted)
    for name, (one, *_) in assumptions.items():
        for check in one.tested_by:
            assert name in checks[check][0].refutes, (name, check)


def test_assumptions_and_checks_are_documented():
    page = (DOCS / "theory" / "assumptions.md").read_text(encoding="utf-8").splitlines()
    first, second = rules.tables()
    rows = [line for line in page if re.match(r"\| `[^`]+` \|", line)]
    assert rows == [*first, *second], "python -m tests.rules prints the rows"


def test_theory_of_assumptions_and_checks_resolves():
    known = {f"theory:{chapter}#{name}" for chapter, name in anchors()}
    listed = [one for found in (rules.assumptions(), rules.checks()) for kind in found.values() for one in kind]
    assert {one.theory for one in listed} - {""} <= known


@pytest.mark.parametrize("make", small.SMALL, ids=lambda make: make.__name__)
def test_every_bound_cites_its_theorem(make):
    game, _ = make()
    cited = [bound.theory for bound in audited(game, accept=taken(game)).bounds]
    assert cited
    assert set(cited) <= {f"theory:{chapter}#{name}" for chapter, name in anchors()}


def test_chapters_name_assumptions_that_exist():
    """Under "Assumptions" stand ids; two are of the design, and no bound prints them."""
    known = set(rules.assumptions()) | {"fair-memberships", "random-split"}
    for page in sorted((DOCS / "theory").glob("*.md")):
        for line in re.findall(r"\*\*Assumptions\.\*\*(.*?)(?:\n\n|\Z)", page.read_text(encoding="utf-8"), re.S):
            ids = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", line))
            assert ids <= known, page.name


# -------------------------------------------------------------------------------------------------- planted violations


def test_every_check_that_withholds_has_a_planted_violation():
    withhold = {name for name, (one, *_) in rules.checks().items() if one.refuted and one.on_refuted == "withhold"}
    assert withhold == set(PLANTED)


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_violation_is_found(name):
    found = PLANTED[name]()
    assert found.result(name).refuted
    assert (found.outcome, found.bounds) == (da.Outcome.WITHHELD, ())
    assert found.verdict.sentence.startswith("No number is reported: ")


def test_a_warning_withholds_nothing():
    """Non-members of another distribution: the comparison goes, the result stays."""
    rows = np.random.default_rng(4).normal(size=(900, 3))
    game = worlds.made(
        members=rows, target=worlds.plain_loss, nonmembers=np.random.default_rng(5).normal(size=(900, 3)) + 2
    )
    found = audited(game)
    assert found.result("non-members-alike").refuted
    assert found.outcome is da.Outcome.NO_CLAIM
    assert found.bounds


def test_advice_is_made_of_constants():
    assert {name for name, value in vars(advice).items() if name.isupper() and isinstance(value, str)} >= {
        "REMEDY",
        "RESTS",
    }
