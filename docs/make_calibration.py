"""Writes calibration.md from calibration.json (`make calibration` runs both)."""

import json
from pathlib import Path

from dpaudit.testing.calibration import Calibration

SOURCE = Path(__file__).parent / "calibration.json"

HEAD = """# Calibration: do the bounds hold?

Made by `make calibration`, that is `{command}`, and rendered from `calibration.json` (seed {seed}).

Each row plays a game many times against a mechanism whose privacy is known exactly and counts how often the bound
exceeds the truth. At {confidence:.0%} confidence a valid bound may do so in 5% of games; a row passes while its count
is at most the 1 - 1e-4 quantile of that binomial distribution (`allowed`). `median / truth` says how much of the
leakage the bound sees; `-` where there is none. Rows that "must fail" are the papers' uncorrected maxima and broken
rules: they are the test of this test.

"""


RECOGNISED = SOURCE.parent / "results" / "placebo" / "figure-redrawn.json"
TAIL = """
## Models that recognise rows

The label bound beside placebo rows assumes that the model recognises no row that it was trained on, beyond its value.
How often that gave a bound above 0 where no label leaked, and how often one more training on labels drawn anew refuted
it (`{command}`). Labels of a part that only the row's own label tells cannot be drawn anew, so no control sees them.

| model, labels | games | bound above 0 | control refutes |
|---|---|---|---|
"""
ROW = "| {cell} | {games} | {over} | {caught} |\n"


def recognised() -> str:
    """What the experiment of labels drawn anew measured."""
    found = json.loads(RECOGNISED.read_text(encoding="utf-8"))
    rows = [row for row in found["rows"] if "remembered" not in row["cell"]]
    return TAIL.format(command=found["command"]) + "".join(ROW.format(**row) for row in rows)


def render() -> str:
    text = SOURCE.read_text(encoding="utf-8")
    table, command = Calibration.from_json(text), json.loads(text)["command"]
    head = HEAD.format(command=command, seed=table.seed, confidence=table.confidence)
    return head + table.to_markdown() + recognised()


if __name__ == "__main__":
    SOURCE.with_suffix(".md").write_text(render(), encoding="utf-8")
    print("wrote calibration.md")
