"""How evidence is produced: each game is a frozen value with `play(seed=...)`.

| game | what it needs | evidence | coins |
|---|---|---|---|
| `MultiRun` | `score(world, seed)`, many runs | `RunScores` | a fair coin orders each pair of with and without |
| `TrainedRuns` | a recipe of batched DP-SGD, its data and a canary | `RunScores` | the same |
| `OneRun` | `scores(included, seed)`, one run | `CanaryScores` | one fair coin for each canary |
| `Prediction` | `answers(world, seed)`, many trials | `OutputCounts` | a fair coin orders each pair |
| `Observational` | a trained model, its rows, a proxy; no run | `CanaryScores` | one fair coin a unit, after training |
| `ZeroRun` | a released model's scores of known members and non-members | `MemberScores` | fair coins take the rows |
| `Panoramia` | known members, a generator, a model's outputs | `PairedScores` | one fair coin a pair, after training |
| `ObservationalTable` | a table, a model or its predictions, as files | `CanaryScores` | as `Observational` |
| `ZeroRunTable` | a table of members and non-members with scores, as files | `MemberScores` | as `ZeroRun` |
| `PanoramiaTable` | a table of members, and a model or losses, as files | `PairedScores` | as `Panoramia` |

`held_out_membership` is the interventional comparison of an observational audit: a random hold-out of non-members.
`GradientsInOneRun` and `RecordsInOneRun` are such `scores`, of one training by the batched trainer.

The coins are drawn from the seed before anything runs. `commitment(seed)` is a hash that may be published before
training; whoever is told the seed afterwards recomputes it (`verify`). It hides the coins as long as nobody can guess
the seed, so take one of 128 random bits.
"""

from dpaudit.games._coins import verify
from dpaudit.games.multi_run import Distinguisher, MultiRun, Score
from dpaudit.games.observational import Observational, Played, held_out_membership
from dpaudit.games.one_run import OneRun
from dpaudit.games.panoramia import Panoramia, PanoramiaPlayed
from dpaudit.games.panoramia_table import PanoramiaOfTable, PanoramiaTable
from dpaudit.games.prediction import Prediction
from dpaudit.games.tables import ObservationalTable
from dpaudit.games.trained_runs import GradientsInOneRun, RecordsInOneRun, TrainedRuns
from dpaudit.games.zero_run import ZeroPlayed, ZeroRun
from dpaudit.games.zero_run_table import ZeroRunTable

Game = (
    MultiRun
    | OneRun
    | TrainedRuns
    | Prediction
    | Observational
    | ObservationalTable
    | ZeroRun
    | ZeroRunTable
    | Panoramia
    | PanoramiaTable
)
"""Whatever can be played."""

__all__ = [
    "Distinguisher",
    "GradientsInOneRun",
    "MultiRun",
    "Observational",
    "ObservationalTable",
    "OneRun",
    "Panoramia",
    "PanoramiaOfTable",
    "PanoramiaPlayed",
    "PanoramiaTable",
    "Played",
    "Prediction",
    "RecordsInOneRun",
    "Score",
    "TrainedRuns",
    "ZeroPlayed",
    "ZeroRun",
    "ZeroRunTable",
    "held_out_membership",
    "verify",
]
