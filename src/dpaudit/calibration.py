"""Does a bound hold as often as it says? Every estimator and strategy against mechanisms known exactly.

A cell plays a game many times and counts how often the bound exceeds the truth. It passes while the count is at most
the 1 - 1e-4 quantile of Binomial(trials, 1 - confidence). Uncorrected forms and broken rules stand in the same table
and must fail: that is the test of the test.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import stats

from dpaudit import _validate as check
from dpaudit import accounting, tradeoff
from dpaudit._validate import InputError
from dpaudit.bounds import LowerBound
from dpaudit.estimators import canaries, plans, runs, streams, thresholds
from dpaudit.evidence import CanaryScores, RunScores
from dpaudit.mechanisms import noise

QUANTILE = 1.0 - 1e-4
CHUNK = 50


@dataclass(frozen=True)
class Cell:
    """One estimator with one strategy against one ground truth."""

    estimator: str
    strategy: str
    truth: Any
    value: float
    bound: Callable[[Any], Any]
    must: str = "hold"
    at_least: int = 0

    @property
    def key(self) -> str:
        return f"{self.estimator} | {self.strategy} | {self.truth.name}"


@dataclass(frozen=True)
class Row:
    """What a cell showed."""

    estimator: str
    strategy: str
    mechanism: str
    truth: float
    trials: int
    over_claims: int
    allowed: int
    median: float
    must: str

    @property
    def holds(self) -> bool:
        return self.over_claims <= self.allowed

    @property
    def as_expected(self) -> bool:
        return self.holds == (self.must == "hold")

    @property
    def ratio(self) -> float | None:
        """Median bound over truth: how much of the leakage is seen."""
        return self.median / self.truth if self.truth > 0.0 else None


@dataclass(frozen=True)
class Calibration:
    """A calibration table."""

    rows: tuple[Row, ...]
    confidence: float
    seed: int

    @property
    def as_expected(self) -> bool:
        return all(row.as_expected for row in self.rows)

    def to_json(self, command: str | None = None) -> str:
        head = {"format": 1, "command": command, "confidence": self.confidence, "seed": self.seed}
        return json.dumps({**head, "rows": [asdict(row) for row in self.rows]}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        try:
            found = json.loads(text)
            rows = tuple(Row(**row) for row in found["rows"])
            return cls(rows, found["confidence"], found["seed"])
        except (ValueError, KeyError, TypeError) as problem:
            raise InputError(f"not a calibration table ({type(problem).__name__}).") from None

    def to_markdown(self) -> str:
        head = (
            "| estimator | choice of threshold | mechanism | truth | trials | over-claims | allowed | rate "
            "| median / truth | |\n"
            "|---|---|---|---|---|---|---|---|---|---|\n"
        )
        return head + "".join(f"| {' | '.join(_texts(row))} |\n" for row in self.rows)

    def __str__(self) -> str:
        lines = [_texts(row) for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def _texts(row: Row) -> list[str]:
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    verdict = "holds" if row.holds else "fails"
    if row.must != "hold":
        verdict += ", as it must" if not row.holds else ", though it should fail"
    elif not row.holds:
        verdict = "FAILS"
    rate = f"{row.over_claims / row.trials:.3f}"
    numbers = [f"{row.truth:.4g}", str(row.trials), str(row.over_claims), str(row.allowed), rate, ratio]
    return [row.estimator, row.strategy, row.mechanism, *numbers, verdict]


def allowed_over_claims(trials: int, confidence: float) -> int:
    """The largest number of over-claims that a valid bound shows but for one table in 10,000.

    >>> [allowed_over_claims(n, 0.95) for n in (400, 1000, 2000)]
    [38, 77, 138]
    """
    return int(stats.binom.ppf(QUANTILE, trials, 1.0 - confidence))


def run_cells(
    cells: Sequence[Cell], *, trials: int, seed: int = 0, confidence: float = 0.95, workers: int = -1
) -> Calibration:
    """Play every cell; the same table from any number of workers, because each trial has a seed of its own."""
    check.count("trials", trials, low=1)
    jobs = [(index, start) for index, cell in enumerate(cells) for start in range(0, max(trials, cell.at_least), CHUNK)]
    parts = joblib.Parallel(n_jobs=workers)(
        joblib.delayed(_play)(cells[index], seed, start, min(CHUNK, max(trials, cells[index].at_least) - start))
        for index, start in jobs
    )
    found: list[list[float]] = [[] for _ in cells]
    for (index, _), part in zip(jobs, parts, strict=True):
        found[index] += part
    return Calibration(
        tuple(_row(cell, values, confidence) for cell, values in zip(cells, found, strict=True)),
        confidence,
        seed,
    )


def _play(cell: Cell, seed: int, start: int, count: int) -> list[float]:
    name = zlib.crc32(cell.truth.name.encode())
    return [_trial(cell, np.random.default_rng([seed, name, trial])) for trial in range(start, start + count)]


def _trial(cell: Cell, rng: np.random.Generator) -> float:
    try:
        evidence = cell.truth.sample(rng)
    except InputError:  # evidence that is refused claims nothing
        return 0.0
    return _number(cell.bound(evidence))


def _number(found: Any) -> float:
    value = found.value if isinstance(found, LowerBound) else found
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or math.isnan(value):
        raise InputError(f"an estimator must return a LowerBound or a number, got {found!r}.")
    return float(value)


def _row(cell: Cell, values: list[float], confidence: float) -> Row:
    over = sum(value > cell.value * (1.0 + 1e-9) + 1e-12 for value in values)
    return Row(
        cell.estimator,
        cell.strategy,
        cell.truth.name,
        cell.value,
        len(values),
        over,
        allowed_over_claims(len(values), confidence),
        float(np.median(values)),
        cell.must,
    )


# ---------------------------------------------------------------------------------------------------------- the table


def cells(confidence: float = 0.95) -> list[Cell]:
    """Every estimator x strategy x ground truth that applies."""
    check.confidence(confidence)
    return [*_run_cells(confidence), *_canary_cells(confidence), *_broken_cells(confidence)]


def _cell(
    estimator: Callable[..., Any],
    strategy: Any,
    truth: Any,
    value: float,
    must: str = "hold",
    *,
    at_least: int = 0,
    words: str | None = None,
    **fixed: Any,
) -> Cell:
    keyword = "threshold" if estimator.__name__.endswith("from_runs") else "guesses"
    given = {} if strategy is None else {keyword: strategy}
    shown = words or _shown(strategy)
    details = f" at delta {fixed['delta']:g}" if fixed.get("delta") else ""
    return Cell(
        estimator.__name__ + details,
        shown,
        truth,
        value,
        partial(estimator, **given, **fixed),
        must,
        at_least,
    )


def _shown(strategy: Any) -> str:
    """The call that makes a strategy, without what is at its default."""
    given = [
        f"{f.name}={getattr(strategy, f.name)!r}" for f in fields(strategy) if getattr(strategy, f.name) != f.default
    ]
    return f"{type(strategy).__name__}({', '.join(given)})"


def _run_cells(confidence: float) -> Iterable[Cell]:
    level: dict[str, Any] = {"confidence": confidence}
    gaussian, perfect = noise.GaussianRuns(1.0, 1000), noise.GaussianRuns(0.0, 300)
    laplace, response = noise.LaplaceRuns(1.0, 1000), noise.LeakyResponseRuns(1.0, 0.0, 1000)
    leaky = noise.LeakyResponseRuns(1.0, 0.02, 1000)
    small, tied = noise.GaussianRuns(1.0, 100), noise.GaussianRuns(1.0, 500, digits=1)
    for strategy in (thresholds.RankGrid(), thresholds.Fixed(score=0.5), thresholds.HeldOut()):
        for truth in (gaussian, perfect):
            yield _cell(runs.mu_from_runs, strategy, truth, truth.mu, **level)
        for known, epsilon in ((laplace, 1.0), (response, 1.0), (perfect, 0.0)):
            yield _cell(runs.epsilon_from_runs, strategy, known, epsilon, delta=0.0, **level)
        yield _cell(runs.epsilon_from_runs, strategy, leaky, 1.0, delta=0.02, **level)
    grid = thresholds.RankGrid()
    yield _cell(runs.mu_from_runs, grid, small, 1.0, **level)
    yield _cell(runs.mu_from_runs, grid, tied, 1.0, **level)
    yield _cell(runs.mu_from_runs, grid, noise.GaussianRuns(0.0, 5), 0.0, **level)
    yield _cell(runs.mu_from_runs, grid, noise.GaussianRuns(0.0, 280, digits=0), 0.0, **level)
    yield _cell(runs.mu_from_runs, grid, response, noise.least_mu(response.curve), **level)
    classic: dict[str, Any] = {"test": "clopper-pearson", "words": "RankGrid(), Clopper-Pearson"}
    yield _cell(runs.mu_from_runs, grid, gaussian, 1.0, **classic, **level)
    yield _cell(runs.epsilon_from_runs, grid, response, 1.0, delta=0.0, **classic, **level)
    yield _cell(
        runs.family_from_runs,
        grid,
        laplace,
        1.0,
        family=tradeoff.LAPLACE,
        words="RankGrid(), Laplace family",
        **level,
    )
    subsampled = noise.SubsampledGaussianRuns(1.0, 0.3, 300)
    words = "RankGrid(), DP-SGD family"
    yield Cell("family_from_runs", words, subsampled, 1.0, partial(_subsampled_theta, confidence=confidence))
    deltas = (1e-3, 1e-2, 0.1)
    for choice in (thresholds.Band(), grid):
        worst = partial(_worst_excess, mu=1.0, deltas=deltas, threshold=choice, confidence=confidence)
        words = f"{_shown(choice)}, three deltas at once"
        yield Cell("epsilon_curve_from_runs", words, noise.GaussianRuns(1.0, 500), 0.0, worst)
    for mu, delta in ((1.0, 0.05), (0.0, 0.0), (0.0, 0.05)):
        stream = noise.GaussianStream(mu, 600)
        bound = partial(streams.epsilon_from_stream, delta=delta, relation="add-remove", confidence=confidence)
        value = stream.curve.epsilon(delta)
        yield Cell(f"epsilon_from_stream at delta {delta:g}", "every run, past only", stream, value, bound)


def _canary_cells(confidence: float) -> Iterable[Cell]:
    level: dict[str, Any] = {"confidence": confidence}
    response, laplace = noise.ResponseCanaries(1.0, 1000), noise.NoisyCanaries(2.0, 1000, "Laplace")
    perfect, tiny = noise.ResponseCanaries(0.0, 1000), noise.ResponseCanaries(0.0, 3)
    some = noise.ResponseCanaries(1.0, 1000, delta=1e-4)
    many = noise.ResponseCanaries(1.0, 1000, delta=0.01)
    shifted = noise.ResponseCanaries(1.0, 1000, shift=0.01)
    path, wealth, held = thresholds.GuessPath(), thresholds.EProcess(), thresholds.HeldOut(0.5)
    every, grid = thresholds.Fixed(fraction=1.0), thresholds.FractionGrid()
    for strategy in (path, wealth, every, grid, held):
        for truth in (response, laplace, perfect):
            yield _cell(canaries.epsilon_from_canaries, strategy, truth, truth.curve.epsilon(0.0), delta=0.0, **level)
        yield _cell(canaries.epsilon_from_canaries, strategy, some, 1.0, delta=1e-4, **level)
    yield _cell(canaries.epsilon_from_canaries, path, tiny, 0.0, delta=0.0, **level)
    for strategy in (path, held):
        few = noise.KaryResponseCanaries(0.0, 9, 1000)
        yield _cell(canaries.epsilon_from_canaries, strategy, few, 0.0, delta=0.0, **level)
    for strategy in (every, grid):
        yield _cell(canaries.epsilon_from_canaries, strategy, many, 1.0, delta=0.01, **level)
        yield _cell(canaries.epsilon_from_canaries, strategy, shifted, 1.0, delta=0.0, **level)
    gaussian = noise.NoisyCanaries(1.0, 1000)
    planned = thresholds.Fixed(guesses=plans.plan_guesses(canaries=1000, claim=gaussian.curve, confidence=confidence))
    for strategy in (grid, planned, every):
        for truth in (gaussian, response, perfect):
            yield _cell(canaries.mu_from_canaries, strategy, truth, noise.least_mu(truth.curve), **level)
    mixing = noise.single_mode(1.0 - confidence)
    yield _cell(canaries.mu_from_canaries, every, mixing, mixing.mu, **level)
    yield _cell(canaries.mu_from_canaries, grid, mixing, mixing.mu, **level)
    yield _cell(canaries.mu_from_canaries, grid, noise.MULTI_MODE, noise.MULTI_MODE.mu, **level)
    kary = noise.KaryResponseCanaries(1.0, 5, 1000)
    for strategy in (grid, every):
        family = tradeoff.randomized_response(5)
        shown = f"{_shown(strategy)}, 5-ary family"
        yield _cell(canaries.family_from_canaries, strategy, kary, 1.0, family=family, words=shown, **level)
    for grouped in (noise.CorrelatedRows(), noise.ResponseRows()):
        yield _cell(canaries.epsilon_from_canaries, path, grouped, grouped.curve.epsilon(0.0), delta=0.0, **level)


def _broken_cells(confidence: float) -> Iterable[Cell]:
    """Papers' uncorrected maxima and broken rules, which must fail. `at_least`: trials below which luck may hide it."""
    level: dict[str, Any] = {"confidence": confidence, "must": "fail"}
    free = thresholds.Uncorrected()
    wide = thresholds.Uncorrected(each_rate_at_alpha=True)
    gaussian = noise.GaussianRuns(1.0, 1000)
    response = noise.ResponseCanaries(1.0, 1000)
    yield _cell(runs.mu_from_runs, wide, gaussian, 1.0, **level)
    yield _cell(runs.epsilon_from_runs, wide, noise.LaplaceRuns(1.0, 1000), 1.0, delta=0.0, **level)
    yield _cell(canaries.epsilon_from_canaries, free, response, 1.0, delta=0.0, **level)
    for rows in (noise.CorrelatedRows(grouped=False), noise.ResponseRows(grouped=False)):
        yield _cell(
            canaries.epsilon_from_canaries,
            thresholds.GuessPath(),
            rows,
            rows.curve.epsilon(0.0),
            delta=0.0,
            **level,
        )
    pooled = noise.single_mode(0.15)
    naive = partial(_as_independent_runs, confidence=confidence)
    yield Cell("mu_from_runs", "canaries taken for independent runs", pooled, pooled.mu, naive, "fail")


def slow_broken_cells(confidence: float = 0.95) -> list[Cell]:
    """Broken rules that show only at full size."""
    level: dict[str, Any] = {"confidence": confidence, "must": "fail", "at_least": 2000}
    modes, free = noise.MULTI_MODE, thresholds.Uncorrected()
    peeking = partial(_guesses_read_off_the_model, confidence=confidence)
    return [
        _cell(runs.mu_from_runs, free, noise.GaussianRuns(1.0, 1000), 1.0, **level),
        _cell(runs.epsilon_from_runs, free, noise.LeakyResponseRuns(1.0, 0.0, 1000), 1.0, delta=0.0, **level),
        Cell("one_run_mu", "number of guesses read off the model", modes, modes.mu, peeking, "fail", 2000),
        _cell(canaries.mu_from_canaries, free, modes, modes.mu, **level),
    ]


def _subsampled_theta(evidence: RunScores, *, confidence: float) -> LowerBound:
    """The DP-SGD family at a coarse tolerance, so that hypotheses recur and their curves are cached."""
    return runs.family_from_runs(evidence, family=_family(), confidence=confidence)


@lru_cache(maxsize=1)
def _family() -> tradeoff.Family:
    family = accounting.dp_sgd_family(sampling_rate=0.3, steps=1, relation="add-remove")
    return replace(family, tolerance=0.03, curve=lru_cache(maxsize=4096)(family.curve))


def _worst_excess(
    evidence: RunScores, *, mu: float, deltas: Sequence[float], threshold: Any, confidence: float
) -> float:
    """How far the worst of several simultaneous bounds lies above its truth."""
    found = runs.epsilon_curve_from_runs(evidence, deltas=deltas, confidence=confidence, threshold=threshold)
    return max((b.epsilon or 0.0) - tradeoff.gdp_epsilon(mu=mu, delta=d) for b, d in zip(found, deltas, strict=True))


def _as_independent_runs(evidence: CanaryScores, *, confidence: float) -> LowerBound:
    mine = RunScores(
        present=evidence.scores[evidence.included],
        absent=evidence.scores[~evidence.included],
        relation=evidence.relation,
    )
    return runs.mu_from_runs(mine, confidence=confidence)


def _guesses_read_off_the_model(evidence: CanaryScores, *, confidence: float) -> float:
    shown = np.abs(evidence.scores) >= 1.0
    right = (evidence.scores > 0.0) == evidence.included
    m, r, c = evidence.scores.size, int(shown.sum()), int((right & shown).sum())
    return canaries.one_run_mu(canaries=m, guesses=r, correct=c, confidence=confidence)


# ----------------------------------------------------------------------------------------------- a user's own estimator


def calibrate(
    estimator: Callable[[Any], Any],
    *,
    evidence: str | None = None,
    bounds: str = "epsilon",
    delta: float = 0.0,
    confidence: float = 0.95,
    trials: int = 400,
    seed: int = 0,
    workers: int = -1,
) -> Calibration:
    """Put your own estimator into the table: `estimator(evidence)` returns a LowerBound or a number.

    Parameters
    ----------
    evidence
        "runs" (it takes `RunScores`) or "canaries" (`CanaryScores`); read off the annotation where there is one.
    bounds
        "epsilon" at `delta`, or "mu".
    confidence
        What the estimator promises.
    """
    kind = check.choice("evidence", evidence or _annotated(estimator), ("runs", "canaries"))
    check.choice("bounds", bounds, ("epsilon", "mu"))
    delta = check.delta(delta)
    truths: list[Any] = (
        [
            noise.GaussianRuns(1.0, 1000),
            noise.LaplaceRuns(1.0, 1000),
            noise.LeakyResponseRuns(1.0, delta, 1000),
            noise.GaussianRuns(0.0, 300),
        ]
        if kind == "runs"
        else [
            noise.ResponseCanaries(1.0, 1000, delta=delta),
            noise.NoisyCanaries(2.0, 1000, "Laplace"),
            noise.single_mode(0.1),
            noise.ResponseCanaries(0.0, 1000),
            noise.CorrelatedRows(),
        ]
    )
    name = getattr(estimator, "__name__", type(estimator).__name__)
    mine = []
    for truth in truths:
        value = _mu_of(truth) if bounds == "mu" else truth.curve.epsilon(delta)
        if math.isfinite(value):
            mine.append(Cell(name, f"{bounds}, yours", truth, value, estimator))
    return run_cells(mine, trials=trials, seed=seed, confidence=check.confidence(confidence), workers=workers)


def _mu_of(truth: Any) -> float:
    if isinstance(truth, noise.ModeMixing):
        return truth.mu
    leaks = getattr(truth, "delta", 0.0)
    return math.inf if isinstance(leaks, float) and leaks > 0.0 else noise.least_mu(truth.curve)


def _annotated(estimator: Callable[[Any], Any]) -> str:
    parameters = list(inspect.signature(estimator).parameters.values())
    note = str(parameters[0].annotation) if parameters else ""
    for kind, name in (("runs", "RunScores"), ("canaries", "CanaryScores")):
        if name in note:
            return kind
    raise InputError(
        "`evidence` must say what the estimator takes: 'runs' or 'canaries'.",
        "or annotate its first argument with RunScores or CanaryScores.",
    )


def load_function(reference: str) -> Callable[[Any], Any]:
    """The function of a "file.py:function" that the *user* typed; files never name code that is imported."""
    path, _, name = reference.rpartition(":")
    if not path or not name:
        raise InputError(f"`estimator` must be 'file.py:function', got {reference!r}.")
    file = Path(path)
    if not file.is_file():
        raise InputError(f"no file {path!r} with an estimator.")
    spec = importlib.util.spec_from_file_location(f"_dpaudit_user_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise InputError(f"`estimator` must name a Python file, got {path!r}.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as problem:
        raise InputError(f"{path!r} could not be loaded ({type(problem).__name__}: {problem}).") from None
    finally:  # unknown by name, the function travels to worker processes by value
        del sys.modules[spec.name]
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{path!r} has no function {name!r}.")
    return found
