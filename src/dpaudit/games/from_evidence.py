"""Evidence that is already there, as a game: nothing is played, and nothing branches on whether something was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check
from dpaudit.bounds import Relation
from dpaudit.bounds import relation as as_relation
from dpaudit.evidence import (
    FAIR_COINS,
    CanaryScores,
    Evidence,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
    coins_result,
    load_evidence,
)
from dpaudit.games.game import RUNNER, Play, Runner
from dpaudit.inputs.tables import Table, column_names, listed

ASSIGNMENTS = {
    "runs": "many independent runs; two files (scores with the record, scores without) or a table with a member column",
    "coins": "one run; a fair coin, tossed by you for each row before training, decided what went in",
    "split": "one run; a random hold-out of fixed size decided (not coins, however even: it is thinned to coins)",
    "given": "one run; membership is what it is, nobody randomised it (needs a column of propensities)",
}
"""How it was decided what was trained on, which is asked for and never guessed."""
PAIRS = ("included", "baseline", "attack")
NOTHING = Assumption(
    id="nothing-in-its-place",
    sentence="nothing stood in {place} (its relation was not given)",
    answered_by="auditor",
)
UNSTATED = {"runs": "the record's place in the runs without it", "coins": "the place of a row that was left out"}
"""Where nothing stood, if nobody says what did."""


def _own(name: str, meaning: str) -> property:
    """What the evidence says of itself."""
    return property(lambda game: getattr(game.evidence, name), doc=meaning)


@dataclass(frozen=True)
class FromEvidence:
    """Scores or counts that somebody has: they carry their own relation, unit, seed and assumptions."""

    evidence: Evidence

    kind: ClassVar[str] = "evidence"
    purpose: ClassVar[str] = ""
    checks: ClassVar[tuple[Check, ...]] = (FAIR_COINS,)
    attempts: ClassVar[int] = 1

    @classmethod
    def from_table(
        cls,
        table: Any = None,
        *,
        file: str | Path | None = None,
        assignment: str | None = None,
        relation: Relation | str | None = None,
        score: str = "score",
        member: str = "member",
        group: str | None = None,
        propensity: Any = (),
        reduce: str = "mean",
        unit: str | None = None,
        folder: str | Path = ".",
        seed: int = 0,
    ) -> FromEvidence:
        """The evidence of a table of scores, or a saved one.

        Which type it is follows from `assignment` and from the names of the columns; what it rests on, from
        `assignment` and `relation`.

        Parameters
        ----------
        table
            Files (CSV, Parquet, Arrow, NumPy), by name or pattern, or a data frame. Of runs also a list of two: scores
            with the record, and scores without it. Columns `included`, `baseline` and `attack` (of coins) are pairs,
            `present`, `absent` and perhaps `query` (of runs) counts of answers.
        file
            Instead of a table: a file of saved evidence, which says everything else by itself.
        assignment
            How it was decided what was trained on: "runs", "coins", "split" or "given".
        relation
            What a coin or a run switches; None: add-remove of runs and coins, as an assumption, else substitute.
        score
            The column of scores; higher means more likely included.
        member
            The column that says who was included: true / false or 1 / 0.
        group
            The column of units: rows of one person share one coin.
        propensity
            Of given members: the column of P(member given the features), or two, of its lower and its upper limits.
        reduce
            One score a unit: "mean", "max" or "sum".
        unit
            What one coin stands for; None: the name of the group's column.
        folder
            Where names of files start.
        seed
            What breaks ties and thins a split.
        """
        told = {"relation": relation, "assignment": assignment, "group": group, "unit": unit}
        if (table is None) == (file is None):
            raise InputError("one of `table` and `file` must say where the evidence is.")
        if file is not None:
            _refuse({**told, "propensity": propensity or None}, "a saved evidence file has its own")
            if not isinstance(file, str | Path):
                raise InputError(f"`file` must be the name of a file, got {file!r}.")
            return cls(load_evidence(Path(folder, file)))
        check.choice("assignment", assignment, ASSIGNMENTS)
        assert assignment is not None
        column_names(score=score, member=member, group=group)
        if assignment != "given":
            _refuse({"propensity": propensity or None}, "it belongs to members that are given")
        common: dict[str, Any] = {"reduce": reduce, "unit": unit or group or "record", "seed": seed}
        common["relation"] = _relation(relation, assignment)
        if relation is None and assignment in UNSTATED:
            common["assumptions"] = (NOTHING.measured(place=UNSTATED[assignment]),)
        if isinstance(table, list | tuple) and len(table) == 2 and assignment == "runs":
            _refuse({"group": group}, "two tables of scores have no such column")
            present, absent = (_scores(Table.of(one, folder=folder), score) for one in table)
            return cls(RunScores(present=present, absent=absent, **common))
        read = Table.of(table, folder=folder)
        if assignment == "coins" and set(PAIRS) <= set(read.names):
            return cls(_pairs(read, group, relation, common))
        if assignment == "runs" and {"present", "absent"} <= set(read.names):
            _refuse({"group": group}, "counts are one a trial already")
            return cls(_counts(read, common))
        return cls(_members(read, assignment, score, member, group, propensity, common))

    relation = _own("relation", "What a coin or a run switches.")
    unit = _own("unit", "What one coin stands for.")
    seed = _own("seed", "What breaks ties and thins a split.")
    assumptions = _own("conditions", "What the evidence rests on.")

    @property
    def evidence_type(self) -> type:
        return type(self.evidence)

    def plan(self, seed: int) -> dict[str, Any]:
        """What is there."""
        return {"digest": self.evidence.digest, **self.evidence.sizes}

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """None: whatever decided was decided before."""
        return np.zeros(0, dtype=np.bool_)

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        return Play(evidence=(self.evidence,), results=coins_result(self.evidence))


def if_evidence(value: Any) -> FromEvidence | None:
    """The game of a value that is evidence; None of any other."""
    return FromEvidence(value) if isinstance(value, Evidence) else None


# -------------------------------------------------------------------------------------------------------------- reading


def _refuse(settings: dict[str, Any], why: str) -> None:
    """A setting that would change nothing is a misunderstanding, not a detail."""
    for name, value in settings.items():
        if value is not None:
            raise InputError(f"`{name}` has no effect here: {why}.")


def _relation(asked: Any, assignment: str) -> Relation:
    if asked is not None:
        return as_relation(asked)
    return Relation.ADD_REMOVE if assignment in UNSTATED else Relation.SUBSTITUTE


def _scores(table: Table, name: str) -> NDArray[Any]:
    """The scores of a file that holds nothing else; its one column needs no name."""
    if name in table.names or len(table.names) > 1:
        return table.sample([name]).column(name, "score")
    if _is_number(table.only):  # a headerless file: its first score was taken for a name
        where = repr(table.files[0].name) if table.files else "the table"
        raise InputError(f"{where} has no header line.", "put the column name, such as score, in the first line.")
    return table.sample([table.only]).column(table.only, "score")


def _pairs(table: Table, group: str | None, relation: Any, common: dict[str, Any]) -> PairedScores:
    """A row a pair: which one is real, and how real it looks without the model and with it."""
    _refuse({"relation": relation}, "paired tables are always about substitution")
    rows = table.sample([*PAIRS, *([] if group is None else [group])])
    own = {name: value for name, value in common.items() if name not in ("relation", "assumptions")}
    return PairedScores(
        included=rows.column("included", "flag"),
        baseline=rows.column("baseline", "score"),
        attack=rows.column("attack", "score"),
        group=None if group is None else rows.column(group, "unit"),
        **own,
    )


def _members(
    table: Table, assignment: str, score: str, member: str, group: str | None, propensity: Any, common: dict[str, Any]
) -> Evidence:
    """A row a run, a canary or a member."""
    known = listed("propensity", propensity)
    if assignment == "given" and not 1 <= len(known) <= 2:
        raise InputError(
            f"members that are given need one column of propensities, or two (lower, upper), got {len(known)}.",
            'name it by `propensity`; if the non-members are a random hold-out, the assignment is "split".',
        )
    rows = table.sample([score, member, *known, *([] if group is None else [group])])
    scores, included = rows.column(score, "score"), rows.column(member, "flag")
    groups = None if group is None else rows.column(group, "unit")
    if assignment == "runs":
        order = np.argsort(~included, kind="stable")  # present first, as the evidence lists groups
        return RunScores(
            present=scores[included],
            absent=scores[~included],
            group=None if groups is None else groups[order],
            **common,
        )
    if assignment == "given":
        columns = [rows.column(name, "probability", field="propensity") for name in known]
        limits = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
        return MemberScores(scores=scores, member=included, propensity=limits, group=groups, **common)
    return CanaryScores(scores=scores, included=included, group=groups, assignment=assignment, **common)


def _counts(table: Table, common: dict[str, Any]) -> OutputCounts:
    """A row an answer, with its counts in both worlds; a column `query` tells queries apart."""
    asked = [name for name in ("query",) if name in table.names]
    rows = table.sample(["present", "absent", *asked])
    own = {name: value for name, value in common.items() if name != "reduce"}
    counts = np.stack([rows.column(name, "count") for name in ("present", "absent")])
    if not asked:
        return OutputCounts(present=counts[0], absent=counts[1], **own)
    queries, where = np.unique(rows.column("query", "category").astype(str), return_inverse=True)
    sizes = np.bincount(where, minlength=1)
    if np.any(sizes != sizes[0]):
        raise InputError(f"every query must have as many answers, got {sizes.min()} to {sizes.max()}.")
    shaped = counts[:, np.argsort(where, kind="stable")].reshape(2, queries.size, sizes[0])
    return OutputCounts(present=shaped[0], absent=shaped[1], ids=queries, **own)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
