"""The bootstrap of a propensity model, 600 resamples of 10,000 rows with 50 columns, beside refitting scikit-learn's.

Both fit an L2 logistic regression on standardised columns with a sigmoid on out-of-fold decisions (five folds), and say
the log-odds of 10,000 other rows. scikit-learn's pipeline is timed on a few resamples and scaled: its cost is
proportional to their number. The whole bound over all resamples is timed besides.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from _reference import reference_loop
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpaudit import estimators
from dpaudit.execution import Execution
from dpaudit.fitted.propensity import RESAMPLES
from dpaudit.games import ZeroRun

ROWS, COLUMNS, REFITS = 20_000, 50, 20


def shifted_game(seed: int) -> ZeroRun:
    """Half of the rows are held for the propensity model, the other half is audited."""
    rng = np.random.default_rng(seed)
    member = rng.random(ROWS) < 0.5
    x = rng.normal(size=(ROWS, COLUMNS))
    x[:, 0] += np.where(member, 0.5, -0.5)
    return ZeroRun(
        scores=member + 0.7 * rng.normal(size=ROWS) + 0.3 * x[:, 0],
        member=member,
        features=x,
        trim=0.0,
        log_odds_error=0.0,
    )


@dataclass(frozen=True, eq=False)
class Refitted:
    """scikit-learn's pipeline on one resample."""

    x: np.ndarray
    member: np.ndarray
    points: np.ndarray

    def __call__(self, seed: int) -> list[float]:
        drawn = np.random.default_rng(seed).integers(0, len(self.x), size=len(self.x))
        model = CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()), cv=5)
        return [float(model.fit(self.x[drawn], self.member[drawn]).predict_proba(self.points)[:, 1].mean())]


def bounds(evidence: Any, blocks: list[Any], refits: float, parameter: str, delta: float | None) -> None:
    """How long it takes to bound every resample, with the `refits` that took so long and without."""
    began = time.perf_counter()
    found = estimators.bootstrapped_from_members(
        evidence, blocks, parameter=parameter, delta=delta, execution=Execution()
    )
    took = time.perf_counter() - began
    print(
        f"{RESAMPLES} bounds on {parameter} from {evidence.scores.size:,} rows: {took:.1f} s, {refits + took:.1f} s "
        f"with the refits; {found.plain:.2f} becomes {found.bound.theta:.2f} (an estimate)"
    )


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"reference loop (a million additions in Python): {1e3 * reference_loop():.0f} ms")
    game = shifted_game(1)
    held, _ = game.parts(1)
    evidence = game.play(seed=1).only
    points = game.features[evidence.ids]
    began = time.perf_counter()
    blocks = list(game.resampled(seed=1))
    ours = time.perf_counter() - began
    print(f"{RESAMPLES} resamples of {held.size:,} rows, {COLUMNS} columns, all cores: {ours:.1f} s")
    work, pool = Refitted(game.features[held], game.member[held], points), Execution()
    pool.map(work, range(2), title="warm")
    began = time.perf_counter()
    pool.map(work, range(REFITS), title="refits")
    theirs = (time.perf_counter() - began) / REFITS * RESAMPLES
    print(
        f"scikit-learn's calibrated pipeline, {RESAMPLES} refits on the same cores: {theirs:.0f} s, "
        f"{theirs / ours:.0f} times as long"
    )
    for parameter, delta in (("mu", None), ("epsilon", 0.0)):
        bounds(evidence, blocks, ours, parameter, delta)


if __name__ == "__main__":
    main()
