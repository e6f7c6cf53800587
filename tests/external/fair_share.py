"""A game from outside of the package: a trainer is sent a fair share of a table, and says how many rows it used."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpaudit import CanaryScores, Relation
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.execution import distinct_seeds, fair_coins
from dpaudit.games import RUNNER, Control, Play, plan_of

OLD_COLUMN = Assumption(
    id="old", sentence="{column} is older than the coins", answered_by="data holder", tested_by=("old-column",)
)
WHOLE_SHARE = Assumption(
    id="whole-share", sentence="exactly the rows sent were used", answered_by="developer", tested_by=("rows-used",)
)
PLACEBO = Check(
    id="old-column",
    passed="Control passed: the old column does not know the coins (p = {p_value:p}). That proves nothing.",
    refuted="Control refuted: the old column knows the coins (p = {p_value:p}), so it was written after them.",
    refutes="old",
)
ROWS = Check(
    id="rows-used",
    passed="The trainer used the {sent:,} rows sent.",
    refuted="The trainer was sent {sent:,} rows and says that it used {used:,}.",
    remedy="Train again on what was sent.",
    refutes="whole-share",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FairShare:
    train: Any  # (coins, seed) -> rows used, then one score a row
    column: Any  # an array with one number a row, of before the coins
    name: str = "age"
    relation: Relation = Relation.ADD_REMOVE
    unit: str = "record"
    kind: ClassVar[str] = "fair-share"
    purpose: ClassVar[str] = "shares of a table"
    evidence_type: ClassVar[type] = CanaryScores
    assumptions: ClassVar[tuple[Assumption, ...]] = (OLD_COLUMN, WHOLE_SHARE)
    checks: ClassVar[tuple[Check, ...]] = (PLACEBO, ROWS)
    attempts: ClassVar[int] = 1

    def coins(self, seed):
        return fair_coins(seed, self.purpose, len(self.column))

    def plan(self, seed):
        return plan_of(self)

    def play(self, *, seed, attempt=0, runner=RUNNER):
        included = self.coins(seed)
        ((used, *scores),) = runner.map(self.train, [(included, *distinct_seeds(seed, "run", 1))])
        rests = (OLD_COLUMN.measured(column=self.name), WHOLE_SHARE)
        seen = CanaryScores(scores=scores, included=included, relation=self.relation, unit=self.unit, assumptions=rests)
        numbers = {"used": int(used), "sent": int(included.sum())}
        rows = CheckResult(check=ROWS, outcome="passed" if used == included.sum() else "refuted", numbers=numbers)
        older = replace(seen, scores=self.column - self.column.mean(), sides="sign")
        return Play(evidence=(seen,), controls=(Control(check=PLACEBO, evidence=(older,)),), results=(rows,))
