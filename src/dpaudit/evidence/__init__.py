"""What was observed, as types. This page is the contract between games, which make evidence, and estimators.

| type | what is random, what is independent |
|---|---|
| `RunScores` | scores of independent runs; in each world they are independent and identically distributed |
| `CanaryScores` | one run; `included` are fair, independent coins, or a random hold-out (`assignment="split"`) |
| `MemberScores` | one run; membership is given, `propensity` is P(member given the features) |
| `PairedScores` | fair coins chose the real or the generated item; two guessers scored the same items |
| `MatchedScores` | one run; guesses at protected values, of rows trained on and of placebo rows: nobody tossed a coin |
| `OutputCounts` | counts of categorical outputs in independent trials of two worlds, one row a query |

A higher score always means "more likely included". Evidence is checked when it is made and refused, with one clear
sentence, where it breaks the theorem that an estimator would apply to it. Arrays are read-only copies.

Several rows of one person are one *unit*: give their `group`, and every estimator works on one score and one coin a
group, reduced by `reduce` ("mean", "max" or "sum", fixed when the evidence is made, before anybody looks). Ties are
broken by a shuffle that only `seed` decides, never by the order of a file.

`save(path)` writes Parquet with everything inside, atomically; `load_evidence(path)` reads it back exactly, and refuses
a file that was changed or that it did not write.
"""

from dpaudit.evidence.files import load_evidence
from dpaudit.evidence.matched import Evidence, MatchedScores
from dpaudit.evidence.types import (
    COIN_P_VALUE,
    FAIR_COINS,
    ONE_ROW_A_UNIT,
    REDUCTIONS,
    SIDES,
    CanaryScores,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
    coins_result,
    thin,
)

__all__ = [
    "COIN_P_VALUE",
    "FAIR_COINS",
    "ONE_ROW_A_UNIT",
    "REDUCTIONS",
    "SIDES",
    "CanaryScores",
    "Evidence",
    "MatchedScores",
    "MemberScores",
    "OutputCounts",
    "PairedScores",
    "RunScores",
    "coins_result",
    "load_evidence",
    "thin",
]
