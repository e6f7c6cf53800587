"""Propensities: how well membership can be told from the features alone (paper 003, sections 5 and 6).

| model | what it is |
|---|---|
| `Logistic` (default) | L2 logistic regression on standardised columns or components, Platt-calibrated |
| `Boosted` | boosted trees, Platt-calibrated |
| `Classifier` | any scikit-learn classifier with `predict_proba`, Platt-calibrated |

`model.fit(x, member)` learns from rows that are not audited; `log_odds(x)` of what comes back are those of a row that
is a member or not with probability 1/2 each, whatever the sizes of the groups. `resampled` fits hundreds of bootstrap
resamples as one array program. `cross_fitted` needs no second set of rows, but its propensities depend on the audited
memberships (theory:zero-run#estimated), so whatever rests on them says so.

A wrong propensity model makes an audit lie, and no sample can prove one right. `overlap` shows where it is in trouble;
`estimators.null_p_value` tries to refute it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import filled
from dpaudit.execution import stream

__all__ = [
    "RESAMPLES",
    "Boosted",
    "Classifier",
    "Fitted",
    "FittedClassifier",
    "FittedLogistic",
    "Logistic",
    "Overlap",
    "Propensity",
    "cross_fitted",
    "limits",
    "overlap",
    "prepared",
    "standard_errors",
]  # fmt: skip

Matrix = NDArray[np.float64]
COMPONENTS, FOLDS, RESAMPLES = 50, 5, 600
QUICK, FEW = 50, 10
"""Resamples for standard errors: of the logistic regression, and of models that are fitted one by one."""
BLOCK = 50
"""Resamples that are fitted together."""
TOLERANCE, SETTLED = 1e-8, 1e-5
"""How far slopes may still move: of a fit, and of a resample, which differs from the next by a hundred times that."""
SHARES = (0.0, 0.01, 0.05)
"""Shares of each group that an overlap may leave out."""
LOGISTIC = "L2 logistic regression, C = {strength:g}, of at most {components} components{calibrated}"
CLASSIFIER = "{name}{calibrated}"
TREES = "boosted trees{calibrated}"
CALIBRATED = ", Platt-calibrated"


class Fitted(Protocol):
    """A propensity model that has learnt."""

    def log_odds(self, x: Any) -> Matrix:
        """log P(member) / P(not) of each row, for groups of equal size."""
        ...


class Propensity(Protocol):
    """A propensity model."""

    def fit(self, x: Any, member: Any, *, seed: int = 0) -> Fitted: ...

    def words(self) -> str: ...


def prepared(x: Any, member: Any | None = None) -> tuple[Matrix, NDArray[np.bool_]]:
    """Features as a finite matrix, and memberships with both groups in them."""
    try:
        rows = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("`features` must be numbers, one row each.", "encode texts and categories first.") from None
    if rows.ndim != 2 or not rows.size:
        raise InputError(f"`features` must be a table of rows and columns, got shape {rows.shape}.")
    if not np.isfinite(rows).all():
        raise InputError("`features` must be finite, got a gap.", "give gaps a value, and a column that says so.")
    if member is None:
        return rows, np.zeros(0, dtype=np.bool_)
    bits = check.booleans("member", member)
    check.same_length(features=rows, member=bits)
    if bits.all() or not bits.any():
        raise InputError("`member` must hold members and non-members, got one kind only.")
    return rows, bits


# ------------------------------------------------------------------------------------------------------------- logistic


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """L2 logistic regression with Platt calibration on out-of-fold decisions.

    Attributes
    ----------
    strength
        Inverse of the penalty, as scikit-learn's `C`; the intercept is not penalised.
    components
        With more columns than this, their first principal components, of the rows that are fitted on.
    folds
        Of the calibration; 0 leaves it out.
    """

    strength: float = 1.0
    components: int = COMPONENTS
    folds: int = FOLDS

    def __post_init__(self) -> None:
        check.number("strength", self.strength, low=1e-12)
        check.count("components", self.components, low=1)
        check.count("folds", self.folds)

    def words(self) -> str:
        own = {"strength": self.strength, "components": self.components}
        return filled(LOGISTIC, {**own, "calibrated": CALIBRATED if self.folds else ""})

    def fit(self, x: Any, member: Any, *, seed: int = 0) -> FittedLogistic:
        rows, bits = prepared(x, member)
        space = _Space.of(rows, self.components)
        base = self._base(space.of_rows(rows), bits, seed)
        odds = space.weights(base.slopes[-1])
        return FittedLogistic(odds[:-1], float(odds[-1]), *base.platt, base.prior)

    def resampled(
        self,
        x: Any,
        member: Any,
        points: Any,
        *,
        resamples: int = RESAMPLES,
        seed: int = 0,
        threads: int | None = None,
    ) -> Iterator[Matrix]:
        """Log-odds of `points` under models fitted to bootstrap resamples of the rows, in blocks (resamples, points).

        Columns, components and folds are those of the rows as they are. Every resample starts from the fit of all rows,
        and goes to the same tolerance; the number of threads changes nothing.
        """
        from threadpoolctl import threadpool_limits

        rows, bits = prepared(x, member)
        count = check.count("resamples", resamples, low=1)
        space = _Space.of(rows, self.components)
        inputs, asked = space.of_rows(rows), space.of_rows(prepared(points)[0])
        base = self._base(inputs, bits, seed)

        def block(start: int) -> Matrix:
            rng = stream(seed, f"resamples of the propensity model, {start}")
            drawn = rng.integers(0, len(rows), size=(min(BLOCK, count - start), len(rows)))
            weights = np.stack([np.bincount(line, minlength=len(rows)) for line in drawn], axis=1).astype(np.float64)
            if not ((bits @ weights > 0.0) & (~bits @ weights > 0.0)).all():
                raise InputError("a bootstrap resample has one group only.", "more rows are needed for a bootstrap.")
            return base.again(weights, asked)

        with threadpool_limits(1), ThreadPoolExecutor(threads or os.cpu_count()) as pool:  # one sum, one order
            yield from pool.map(block, range(0, count, BLOCK))

    def _base(self, inputs: Matrix, bits: NDArray[np.bool_], seed: int) -> _Base:
        fold = np.full(len(bits), -1)
        if self.folds:
            for group in (bits, ~bits):  # each fold has its share of both groups
                order = stream(seed, "folds of the calibration").permutation(int(group.sum()))
                fold[group] = order % self.folds
            if min(bits.sum(), (~bits).sum()) < 2 * self.folds:
                raise InputError(f"calibration in {self.folds} folds needs {2 * self.folds} rows of each group.")
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # one sum, one order; and threads that wait for busy cores are slower than none
            return _Base.of(inputs, bits, fold, 1.0 / self.strength, self.folds)


@dataclass(frozen=True)
class FittedLogistic:
    """Slopes on the columns as they came, and the calibration."""

    slopes: Matrix
    intercept: float
    scale: float
    shift: float
    prior: float

    def log_odds(self, x: Any) -> Matrix:
        rows, _ = prepared(x)
        if rows.shape[1] != self.slopes.size:
            raise InputError(
                f"`features` must have {self.slopes.size} columns, as those fitted on, got {rows.shape[1]}."
            )
        return np.asarray(self.scale * (rows @ self.slopes + self.intercept) + self.shift - self.prior)


@dataclass(frozen=True)
class _Space:
    """Standardised columns, or their principal components, with a column of ones at the end."""

    centre: Matrix
    turn: Matrix = field(repr=False)

    @classmethod
    def of(cls, rows: Matrix, components: int) -> _Space:
        centre, spread = rows.mean(axis=0), rows.std(axis=0)
        scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)
        if rows.shape[1] <= components:
            return cls(centre, np.diag(scale))
        _, sizes, axes = linalg.svd((rows - centre) * scale, full_matrices=False)
        kept = min(components, int((sizes > 1e-9 * sizes[0]).sum()))
        along = axes[:kept].T * (np.sqrt(len(rows)) / sizes[:kept])
        return cls(centre, scale[:, None] * along)

    def of_rows(self, rows: Matrix) -> Matrix:
        if rows.shape[1] != self.centre.size:
            raise InputError(f"`points` must have {self.centre.size} columns, as the rows, got {rows.shape[1]}.")
        return np.concatenate([(rows - self.centre) @ self.turn, np.ones((len(rows), 1))], axis=1)

    def weights(self, slopes: Matrix) -> Matrix:
        """The same function of the columns as they came."""
        own = self.turn @ slopes[:-1]
        return np.append(own, slopes[-1] - own @ self.centre)


@dataclass(frozen=True)
class _Base:
    """The fit of all rows: one for each fold left out, then that of all; and the calibration."""

    inputs: Matrix = field(repr=False)
    bits: NDArray[np.bool_] = field(repr=False)
    fold: NDArray[np.int64] = field(repr=False)
    penalty: float
    slopes: list[Matrix]
    platt: tuple[float, float]
    prior: float

    @classmethod
    def of(cls, inputs: Matrix, bits: NDArray[np.bool_], fold: NDArray[np.int64], penalty: float, folds: int) -> _Base:
        parts = [fold != left for left in range(folds)] + [np.ones(len(bits), dtype=np.bool_)]
        slopes = [_newton(inputs[part], bits[part].astype(np.float64), penalty) for part in parts]
        one = np.ones((len(bits), 1))
        platt = (1.0, 0.0)
        if folds:
            decisions = np.einsum("ij,ij->i", inputs, np.stack(slopes)[fold])[:, None]
            (scale,), (shift,) = _platt(decisions, bits, one, (np.ones(1), np.zeros(1)))
            platt = float(scale), float(shift)
        return cls(inputs, bits, fold, penalty, slopes, platt, float(np.log(bits.sum() / (~bits).sum())))

    def again(self, weights: Matrix, points: Matrix) -> Matrix:
        """Log-odds of points, (resamples, points), after fits with the weights (rows, resamples)."""
        last = _chord(self.inputs, self.bits, weights, self.penalty, self.slopes[-1])
        moved = last - self.slopes[-1][:, None]
        scale, shift = np.ones(weights.shape[1]), np.zeros(weights.shape[1])
        if len(self.slopes) > 1:
            decisions = np.empty_like(weights)
            for left, start in enumerate(self.slopes[:-1]):
                inside, out = self.fold != left, self.fold == left
                found = _chord(self.inputs[inside], self.bits[inside], weights[inside], self.penalty, start, moved)
                decisions[out] = self.inputs[out] @ found
            scale, shift = _platt(decisions, self.bits, weights, (scale * self.platt[0], shift + self.platt[1]))
        prior = np.log((self.bits @ weights) / (~self.bits @ weights))
        return np.asarray((scale * (points @ last) + shift - prior).T)


def _newton(inputs: Matrix, y: Matrix, penalty: float, weights: Matrix | None = None, start: Any = None) -> Matrix:
    """Slopes of the penalised logistic regression, by Newton steps that are halved until the loss falls."""
    weight = np.ones(len(y)) if weights is None else weights
    ridge = np.append(np.full(inputs.shape[1] - 1, penalty), 0.0)
    slopes = np.zeros(inputs.shape[1]) if start is None else start.copy()

    def loss(at: Matrix) -> float:
        decisions = inputs @ at
        return float(weight @ (np.logaddexp(0.0, decisions) - y * decisions) + 0.5 * ridge @ at**2)

    here = loss(slopes)
    for _ in range(100):
        rates = special.expit(inputs @ slopes)
        gradient = inputs.T @ (weight * (rates - y)) + ridge * slopes
        step = _solver(inputs, weight * rates * (1.0 - rates), ridge)(gradient)
        if np.max(np.abs(step)) < TOLERANCE:
            return slopes - step
        size = 1.0
        while (new := loss(slopes - size * step)) > here + 1e-12 * abs(here) and size > 1e-6:
            size /= 2.0
        slopes, here = slopes - size * step, new
    return slopes


def _solver(inputs: Matrix, curvature: Matrix, ridge: Matrix) -> Any:
    hessian = (inputs.T * curvature) @ inputs + np.diag(ridge + 1e-9 * len(inputs))
    factor = linalg.cho_factor(hessian)
    return lambda right: linalg.cho_solve(factor, right)


def _chord(
    inputs: Matrix, bits: NDArray[np.bool_], weights: Matrix, penalty: float, start: Matrix, ahead: Matrix | float = 0.0
) -> Matrix:
    """Slopes for every column of weights, (columns, resamples), by Newton steps with the curvature of the start.

    A resample's curvature differs from that of all rows by a few percent, so the steps shrink as fast; a column that
    does not settle is solved by itself. `ahead` is added to the start: how far another fit of the same weights went.
    """
    y = bits.astype(np.float64)[:, None]
    ridge = np.append(np.full(inputs.shape[1] - 1, penalty), 0.0)
    rates = special.expit(inputs @ start)
    solve = _solver(inputs, rates * (1.0 - rates), ridge)
    slopes = np.repeat(start[:, None], weights.shape[1], axis=1) + ahead
    for _ in range(40):
        residual = special.expit(inputs @ slopes)
        residual -= y
        residual *= weights
        step = solve(inputs.T @ residual + ridge[:, None] * slopes)
        slopes -= step
        moved = np.max(np.abs(step), axis=0)
        if moved.max() < SETTLED:
            return slopes
        if moved.max() > 1e3:
            break
    for column in np.flatnonzero(~(moved < SETTLED)):
        slopes[:, column] = _newton(inputs, y[:, 0], penalty, weights[:, column], start)
    return slopes


def _platt(
    decisions: Matrix, bits: NDArray[np.bool_], weights: Matrix, start: tuple[Matrix, Matrix]
) -> tuple[Matrix, Matrix]:
    """Scale and shift of a sigmoid for every column, with Platt's smoothed targets."""
    count, others = bits @ weights, ~bits @ weights
    targets = np.where(bits[:, None], (count + 1.0) / (count + 2.0), 1.0 / (others + 2.0))
    scale, shift = start[0].copy(), start[1].copy()

    def loss(a: Matrix, b: Matrix) -> Matrix:
        shown = a * decisions + b
        return np.asarray((weights * (np.logaddexp(0.0, shown) - targets * shown)).sum(axis=0))

    here = loss(scale, shift)
    for _ in range(50):
        rates = special.expit(scale * decisions + shift)
        residual = weights * (rates - targets)
        curvature = weights * rates * (1.0 - rates) + 1e-12
        first, second = (residual * decisions).sum(axis=0), residual.sum(axis=0)
        bent = curvature * decisions
        a, b, c = (bent * decisions).sum(axis=0), bent.sum(axis=0), curvature.sum(axis=0)
        size = np.maximum(a * c - b * b, 1e-300)
        steps = (c * first - b * second) / size, (a * second - b * first) / size
        if max(np.max(np.abs(step)) for step in steps) < TOLERANCE * 100.0:
            break
        part = np.ones_like(here)
        for _ in range(30):  # a step that goes too far is halved, column by column
            new = loss(scale - part * steps[0], shift - part * steps[1])
            worse = new > here + 1e-12 * np.abs(here)
            if not worse.any():
                break
            part = np.where(worse, part / 2.0, part)
        scale, shift, here = scale - part * steps[0], shift - part * steps[1], new
    upside_down = scale < 0.0  # out of fold the decisions were worse than none: leave them out
    flat = special.logit((weights * targets).sum(axis=0) / weights.sum(axis=0))
    return np.where(upside_down, 0.0, scale), np.where(upside_down, flat, shift)


# ------------------------------------------------------------------------------------------------------ any classifier


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Any scikit-learn classifier with `predict_proba`; the sigmoid of its out-of-fold log-odds calibrates it."""

    model: Any
    folds: int = FOLDS

    def words(self) -> str:
        return filled(CLASSIFIER, {"name": type(self.model).__name__, "calibrated": CALIBRATED if self.folds else ""})

    def fit(self, x: Any, member: Any, *, seed: int = 0) -> FittedClassifier:
        rows, bits = prepared(x, member)
        if not hasattr(self.model, "predict_proba"):
            raise InputError(f"`model` must have `predict_proba`, and {type(self.model).__name__} has none.")
        platt = (1.0, 0.0)
        if self.folds:
            fold = stream(seed, "folds of the calibration").permutation(len(bits)) % self.folds
            decisions = np.empty(len(bits))
            for left in range(self.folds):
                part = fold != left
                decisions[~part] = _odds(self._new(rows[part], bits[part], seed), rows[~part])
            (scale,), (shift,) = _platt(decisions[:, None], bits, np.ones((len(bits), 1)), (np.ones(1), np.zeros(1)))
            platt = float(scale), float(shift)
        prior = float(np.log(bits.sum() / (~bits).sum()))
        return FittedClassifier(self._new(rows, bits, seed), *platt, prior)

    def resampled(
        self, x: Any, member: Any, points: Any, *, resamples: int = RESAMPLES, seed: int = 0
    ) -> Iterator[Matrix]:
        """As `Logistic.resampled`, one fit after the other: slow."""
        rows, bits = prepared(x, member)
        rng = stream(seed, "resamples of the propensity model")
        for _ in range(check.count("resamples", resamples, low=1)):
            drawn = rng.integers(0, len(rows), size=len(rows))
            yield self.fit(rows[drawn], bits[drawn], seed=seed).log_odds(points)[None]

    def _new(self, rows: Matrix, bits: NDArray[np.bool_], seed: int) -> Any:
        from sklearn.base import clone
        from threadpoolctl import threadpool_limits

        model = clone(self.model)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed % 2**32)
        with threadpool_limits(1):  # one sum, one order
            return model.fit(rows, bits)


@dataclass(frozen=True, kw_only=True)
class Boosted(Classifier):
    """Boosted trees of scikit-learn, few and shallow."""

    model: Any = None

    def __post_init__(self) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        if self.model is None:
            object.__setattr__(self, "model", HistGradientBoostingClassifier(max_iter=100, max_leaf_nodes=15))

    def words(self) -> str:
        return filled(TREES, {"calibrated": CALIBRATED if self.folds else ""})


@dataclass(frozen=True)
class FittedClassifier:
    model: Any
    scale: float
    shift: float
    prior: float

    def log_odds(self, x: Any) -> Matrix:
        return np.asarray(self.scale * _odds(self.model, prepared(x)[0]) + self.shift - self.prior)


def _odds(model: Any, rows: Matrix) -> Matrix:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        told = model.predict_proba(rows)[:, 1]
    return np.asarray(special.logit(np.clip(told, 1e-6, 1.0 - 1e-6)), dtype=np.float64)


def standard_errors(model: Propensity, x: Any, member: Any, points: Any, *, seed: int = 0) -> Matrix:
    """Standard errors of the log-odds of points, from models fitted to a few bootstrap resamples of the rows.

    They see how much another sample of as many rows would have moved the model, not what it cannot express.
    """
    if isinstance(model, Logistic):
        return np.asarray(
            np.concatenate(list(model.resampled(x, member, points, resamples=QUICK, seed=seed))).std(axis=0, ddof=1)
        )
    rows, bits = prepared(x, member)
    rng, found = stream(seed, "standard errors of the propensity model"), []
    for _ in range(FEW):
        drawn = rng.integers(0, len(rows), size=len(rows))
        found.append(model.fit(rows[drawn], bits[drawn], seed=seed).log_odds(points))
    return np.asarray(np.std(found, axis=0, ddof=1))


def cross_fitted(model: Propensity, x: Any, member: Any, *, folds: int = 2, seed: int = 0) -> Matrix:
    """Log-odds of every row by a model that was fitted to the other folds (paper 003, algorithm 4).

    They depend on memberships of the audited rows: a bound from them is conditional on that
    (theory:zero-run#estimated).
    """
    rows, bits = prepared(x, member)
    count = check.count("folds", folds, low=2)
    fold = stream(seed, "folds of cross-fitting").permutation(len(bits)) % count
    found = np.empty(len(bits))
    for part in range(count):
        found[fold == part] = model.fit(rows[fold != part], bits[fold != part], seed=seed).log_odds(rows[fold == part])
    return found


def limits(log_odds: Any, *, clip: float = 0.0) -> Matrix:
    """Propensities as (lower, upper); nearer than `clip` to 0 or 1 they are only known to be so near.

    The safe side both ways (theory:zero-run#estimated): a guess that agrees with such a row's features is no evidence
    at all, and one that goes against them has no more than that of the edge.
    """
    odds = np.asarray(log_odds, dtype=np.float64)
    rates = special.expit(odds)
    if not clip:
        return np.stack([rates, rates], axis=1)
    edge = check.number("clip", clip, low=0.0, high=0.5)
    low, high = rates < edge, rates > 1.0 - edge
    lower = np.where(low, 0.0, np.where(high, 1.0 - edge, rates))
    return np.stack([lower, np.where(high, 1.0, np.where(low, edge, rates))], axis=1)


# ---------------------------------------------------------------------------------------------------------- diagnostics


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How far members and non-members can be told apart by their propensities; estimates, all of them.

    Attributes
    ----------
    auc
        Of the propensity as a guess of membership; 0.5 where the groups are alike.
    effective
        Kish's effective number of rows of each group (members, non-members) under inverse-propensity weights.
    edges, members, others
        Histogram of the propensities.
    eta
        For each share of `SHARES`: the largest eta with all but that share of each group in [eta, 1 - eta]. With its
        share as delta_ds it is what the composition needs.
    predicted, observed, rows
        The calibration curve, in bins of equal size.
    """

    auc: float
    effective: tuple[float, float]
    edges: tuple[float, ...]
    members: tuple[int, ...]
    others: tuple[int, ...]
    eta: tuple[float, ...]
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    rows: tuple[int, ...]

    @property
    def error(self) -> float:
        """The mean distance of predicted from observed, over the bins."""
        return float(np.average(np.abs(np.subtract(self.predicted, self.observed)), weights=self.rows))


def overlap(log_odds: Any, member: Any, *, bins: int = 20) -> Overlap:
    """Diagnostics of propensities on rows that they were not fitted to."""
    odds, bits = np.asarray(log_odds, dtype=np.float64), check.booleans("member", member)
    check.same_length(log_odds=odds, member=bits)
    rates = special.expit(odds)
    edges = np.linspace(0.0, 1.0, check.count("bins", bins, low=2) + 1)
    inside = np.minimum(rates, 1.0 - rates)
    eta = [min(float(np.quantile(inside[group], share, method="lower")) for group in (bits, ~bits)) for share in SHARES]
    order = np.argsort(rates, kind="stable")
    parts = [part for part in np.array_split(order, 10) if part.size]
    ranks = np.searchsorted(np.sort(odds), odds, side="left") + np.searchsorted(np.sort(odds), odds, side="right")
    ones, zeros = int(bits.sum()), int((~bits).sum())
    auc = (float(ranks[bits].sum()) / 2.0 + ones / 2.0 - ones * (ones + 1) / 2.0) / (ones * zeros)
    return Overlap(
        auc=auc,
        effective=(_kish(1.0 / rates[bits]), _kish(1.0 / (1.0 - rates[~bits]))),
        edges=tuple(float(edge) for edge in edges),
        members=tuple(int(n) for n in np.histogram(rates[bits], edges)[0]),
        others=tuple(int(n) for n in np.histogram(rates[~bits], edges)[0]),
        eta=tuple(eta),
        predicted=tuple(float(rates[part].mean()) for part in parts),
        observed=tuple(float(bits[part].mean()) for part in parts),
        rows=tuple(int(part.size) for part in parts),
    )


def _kish(weights: NDArray[np.float64]) -> float:
    bounded = np.minimum(weights, 1e12)
    return float(bounded.sum() ** 2 / (bounded**2).sum())
