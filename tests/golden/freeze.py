"""Write the golden records anew: `PYTHONPATH=src python -m tests.golden.freeze [CASE ...]`, from the repository.

Only where numbers are meant to change, and then the commit says why. Without names all cases are written, and files of
cases that are no more are removed. Where the arithmetic is another than before (`same.py`), write all of them.
"""

import json
import sys
from pathlib import Path

from tests.golden.cases import CASES
from tests.golden.same import FROZEN, arithmetic

HERE = Path(__file__).parent


def written(found):
    """The text of one golden file."""
    return json.dumps(found, indent=1, sort_keys=True, allow_nan=False) + "\n"


def main(names):
    unknown = set(names) - set(CASES)
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    for name in names or CASES:
        (HERE / f"{name}.json").write_text(written(CASES[name]()), encoding="utf-8")
        print(name)
    FROZEN.write_text(f"{arithmetic()}\n", encoding="utf-8")
    for path in HERE.glob("*.json"):
        if path.stem not in CASES:
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
