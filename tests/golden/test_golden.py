"""Numbers, arrays, coins and outcomes of one audit of every kind are those of the day they were frozen, bit for bit.

Each case of `cases.py` is played again and compared with its committed file, through `neutral.py`; `same.py` says what
the same is on another machine. A difference means that a refactor changed a number. `python -m tests.golden.freeze`
writes the files anew; that is a decision, not a mend.
"""

import json
from pathlib import Path

import pytest

from tests.golden.cases import CASES
from tests.golden.same import differences, same_arithmetic

HERE = Path(__file__).parent


def frozen(name):
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(CASES))
def test_nothing_has_changed(name):
    found = json.loads(json.dumps(CASES[name](), allow_nan=False))
    changed = list(differences(found, frozen(name), exact=same_arithmetic()))
    assert not changed, "\n".join(changed)


def test_every_file_has_its_case():
    assert {path.stem for path in HERE.glob("*.json")} == set(CASES)


def test_changes_are_seen():
    """The last bit of a number where the arithmetic is the same; a coin everywhere."""
    here, moved = frozen("one_run")["mu claim"], frozen("one_run")["mu claim"]
    value = float.fromhex(here["bounds"][0]["epsilon"])
    moved["bounds"][0]["epsilon"] = (value * (1.0 + 2e-16)).hex()
    assert len(list(differences(moved, here))) == 1
    assert not list(differences(moved, here, exact=False))
    moved["bounds"][0]["epsilon"] = (value + 1e-4).hex()
    assert len(list(differences(moved, here, exact=False))) == 1
    for name in ("coins", "included"):
        moved = frozen("one_run")["mu claim"]
        (moved["coins"] if name == "coins" else moved["evidence"]["arrays"][name])["sha256"] = "0"
        assert len(list(differences(moved, here, exact=False))) == 1
