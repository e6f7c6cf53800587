"""How evidence is produced: each game is a frozen value that can be played (`game` says what that means).

| game | what it needs | evidence | coins |
|---|---|---|---|
| `MultiRun` | `score(world, seed)`, many runs | `RunScores` | a fair coin orders each pair of with and without |
| `TrainedRuns` | a recipe of batched DP-SGD, its data and a canary | `RunScores` | the same |
| `OneRun` | `scores(included, seed)`, one run | `CanaryScores` | one fair coin for each canary |
| `Prediction` | `answers(world, seed)`, many trials | `OutputCounts` | a fair coin orders each pair |
| `MatchedRows` | a trained model, its rows, and rows that it never saw; no run | `MatchedScores` | none |
| `Observational` | a trained model, its rows, a proxy; no run | `CanaryScores` | one fair coin a unit, after training |
| `ZeroRun` | a released model's scores of known members and non-members | `MemberScores` | fair coins take the rows |
| `Panoramia` | known members, a generator, a model's outputs | `PairedScores` | one fair coin a pair, after training |
| `FromEvidence` | scores that are already there | any | none |

`held_out_membership` is the interventional comparison of an observational audit: a random hold-out of non-members.
`GradientsInOneRun` and `RecordsInOneRun` are such `scores`, of one training by the batched trainer.

The coins are drawn from the seed before anything runs. `commitment(game, seed)` is a hash that may be published before
training; whoever is told the seed afterwards computes it again (`check_commitment`). It hides the coins as long as
nobody can guess the seed, so take one of 128 random bits.
"""

from dpaudit.games._guesses import Rows
from dpaudit.games.from_evidence import FromEvidence, if_evidence
from dpaudit.games.game import (
    HINT,
    RUNNER,
    Comparison,
    Control,
    Game,
    Play,
    Runner,
    check_commitment,
    commitment,
    evidences_of,
    fingerprint,
    hides,
    is_game,
    plan_of,
    repeats_of,
)
from dpaudit.games.matched import MatchedRows, Retrained, redrawn_values
from dpaudit.games.multi_run import Distinguisher, MultiRun, Score, from_score
from dpaudit.games.observational import Observational, held_out_membership
from dpaudit.games.one_run import OneRun
from dpaudit.games.panoramia import Panoramia
from dpaudit.games.prediction import Prediction
from dpaudit.games.trained_runs import GradientsInOneRun, RecordsInOneRun, TrainedRuns
from dpaudit.games.zero_run import ZeroRun

GAMES = (MultiRun, OneRun, Prediction, MatchedRows, Observational, ZeroRun, Panoramia, FromEvidence, TrainedRuns)
"""The games of this library, listed by hand."""

__all__ = [
    "GAMES",
    "HINT",
    "RUNNER",
    "Comparison",
    "Control",
    "Distinguisher",
    "FromEvidence",
    "Game",
    "GradientsInOneRun",
    "MatchedRows",
    "MultiRun",
    "Observational",
    "OneRun",
    "Panoramia",
    "Play",
    "Prediction",
    "RecordsInOneRun",
    "Retrained",
    "Rows",
    "Runner",
    "Score",
    "TrainedRuns",
    "ZeroRun",
    "check_commitment",
    "commitment",
    "evidences_of",
    "fingerprint",
    "from_score",
    "held_out_membership",
    "hides",
    "if_evidence",
    "is_game",
    "plan_of",
    "redrawn_values",
    "repeats_of",
]
