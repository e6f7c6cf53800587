"""Who supplies the other value: distributions of a protected value given the rest of its record, one a row (paper 000).

| distribution | of | from |
|---|---|---|
| `Categorical` | a label, any categorical column or columns | an earlier checkpoint, a reference model, a posterior |
| `Normal` | a number | a mean and a standard deviation a row |
| `Residuals` | a number | a prediction a row, and residuals of rows that the regressor never saw |
| `Fresh` | a whole record | records that nobody trained on |

A distribution draws counterfactual values (`sample`) and says how likely a shown one is (`density`). The audited
model's own beliefs are distributions too: `Categorical` of its probabilities, `posterior` for an attribute that the
model takes as an input, `Table` for numbers that are already there. `trained` makes a proxy of rows that are no
canaries, `calibration` measures how far one can be believed, `recalibrated` mends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import one_thread

LEAST = 1e-12
"""The least probability that a distribution gives to a value, so that scores stay finite."""
LEAST_MENDED = 1e-4
BINS = 10
GRID = 4096

Values = NDArray[Any]
Rows = NDArray[Any]


class Distribution(Protocol):
    """One distribution a row."""

    def density(self, values: Values) -> NDArray[np.float64]:
        """How likely each row's value is."""

    def at(self, rows: Rows) -> Distribution:
        """The same for some rows only."""


class Proxy(Distribution, Protocol):
    """A distribution from which counterfactual values are drawn."""

    def sample(self, rng: np.random.Generator) -> Values:
        """One value a row."""

    def __len__(self) -> int: ...


# ---------------------------------------------------------------------------------------------------------- categories


@dataclass(frozen=True, eq=False)
class Categorical:
    """Probabilities of k classes, one row each; values are class numbers 0 to k - 1.

    A vector is taken as the probabilities of class 1 of two.

    >>> distribution = Categorical([0.2, 0.9])
    >>> distribution.density(np.array([1, 0])).round(3).tolist()
    [0.2, 0.1]
    """

    probabilities: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "probabilities", _probabilities(self.probabilities))

    def __len__(self) -> int:
        return int(self.probabilities.shape[0])

    @property
    def classes(self) -> int:
        return int(self.probabilities.shape[1])

    def sample(self, rng: np.random.Generator) -> NDArray[np.int64]:
        found, uniforms = np.zeros(len(self), dtype=np.int64), rng.random(len(self))
        below = np.zeros(len(self))
        for number in range(self.classes - 1):
            below += self.probabilities[:, number]
            found += uniforms >= below
        return found

    def density(self, values: Values) -> NDArray[np.float64]:
        shown = self.probabilities[np.arange(len(self)), values]
        return np.maximum(shown, LEAST, dtype=np.float64)

    def at(self, rows: Rows) -> Categorical:
        return Categorical(self.probabilities[rows])

    def recalibrated(self, values: Values, rows: Rows) -> Categorical:
        """Every row's distribution, mapped to be right on `rows`: itself times exp of log-odds and probabilities.

        Of two classes that is Platt's map with a term more. It is fitted to those rows alone, which must be no
        canaries, and penalised for leaving the distribution as it was, so that a few rows change little. A class that
        none of them has keeps its mass.
        """
        there, codes = np.unique(values[rows], return_inverse=True)
        if there.size < 2:
            raise InputError("recalibration needs held-out rows of at least two classes, got fewer.")
        logs = np.log(np.maximum(self.probabilities, LEAST_MENDED)).astype(np.float64)  # no row is certain for good
        seen = standardised(np.concatenate([logs[:, 1:] - logs[:, :1], self.probabilities[:, 1:]], axis=1))
        mapped = np.array(self.probabilities, dtype=np.float64)
        fitted = offset_logistic(seen[rows], logs[rows][:, there], codes, seen, logs[:, there])
        mapped[:, there] = fitted * mapped[:, there].sum(axis=1, keepdims=True)
        return Categorical(mapped)


def _probabilities(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(f"`probabilities` must be numbers, got {array.dtype}.")
    if array.ndim == 1:
        array = np.stack([1.0 - array, array], axis=1)
    if array.ndim != 2 or array.shape[1] < 2 or not array.shape[0]:
        raise InputError(f"`probabilities` must be rows of at least two classes, got shape {array.shape}.")
    kept = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    sums = kept.sum(axis=1)
    bad = ~((kept >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= 1e-3))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"`probabilities` must be non-negative and sum to 1, got {kept[row].tolist()[:8]} at row {row}."
        )
    return check.read_only((kept / sums[:, None]).astype(kept.dtype))


def encode(*columns: Any) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
    """Class numbers of one column, or of a set of columns taken together, and what each number stands for.

    >>> encode(["f", "m", "f"], [1, 1, 2])
    (array([0, 2, 1]), [('f', '1'), ('f', '2'), ('m', '1')])
    """
    if not columns:
        raise InputError("`columns` must name at least one column, got none.")
    parts = [np.unique(check.vector("column", column), return_inverse=True) for column in columns]
    check.same_length(**{f"column {n}": inverse for n, (_, inverse) in enumerate(parts, 1)})
    joint = np.stack([inverse for _, inverse in parts], axis=1)
    kinds, codes = np.unique(joint, axis=0, return_inverse=True)
    names = [tuple(str(parts[n][0][place]) for n, place in enumerate(kind)) for kind in kinds]
    return codes.reshape(-1).astype(np.int64), names


def posterior(likelihood: Any, prior: Categorical) -> Categorical:
    """What a model that takes the attribute as an *input* says about it: prior times likelihood, by Bayes' rule.

    `likelihood[i, a]` is the probability that the audited model gives to what it predicts for row i (its true label),
    were the attribute of row i equal to a. The prior is the proxy.
    """
    found = np.asarray(likelihood, dtype=np.float64)
    if found.shape != prior.probabilities.shape or not np.all(np.isfinite(found)) or found.min() < 0.0:
        raise InputError(
            f"`likelihood` must be one non-negative number for each row and class {prior.probabilities.shape}, "
            f"got shape {found.shape}."
        )
    weighted = np.maximum(found, LEAST) * np.maximum(prior.probabilities, LEAST)
    return Categorical(weighted / weighted.sum(axis=1, keepdims=True))


# ------------------------------------------------------------------------------------------------------------- learning


def trained(x: Any, y: Any, new_x: Any, *, classes: int, seed: int = 0) -> Categorical:
    """A proxy for `new_x` from rows (x, y) that are no canaries: logistic regression, boosted trees, or their mean,
    whichever has the least log-loss on a random fifth of those rows."""
    x, y, new_x = np.asarray(x, dtype=np.float64), np.asarray(y), np.asarray(new_x, dtype=np.float64)
    both = standardised(np.concatenate([x, new_x]))
    order = np.random.default_rng([seed, 0x66697468]).permutation(len(y))
    test, learn = np.split(order, [max(1, len(y) // 5)])
    tried = _both_distributions(both[learn], y[learn], both[test], classes, seed)
    losses = [-np.log(np.maximum(distribution[np.arange(test.size), y[test]], LEAST)).mean() for distribution in tried]
    found = _both_distributions(both[: len(y)], y, both[len(y) :], classes, seed)[int(np.argmin(losses))]
    return Categorical(np.maximum(found, LEAST) / np.maximum(found, LEAST).sum(axis=1, keepdims=True))


def _both_distributions(x: Values, y: Values, new_x: Values, classes: int, seed: int) -> list[NDArray[np.float64]]:
    shares = np.bincount(y, minlength=classes) + 0.5
    flat = np.log(shares / shares.sum())
    first = offset_logistic(x, np.tile(flat, (len(x), 1)), y, new_x, np.tile(flat, (len(new_x), 1)), penalty=1.0)
    second = boosted(x, y, new_x, classes, seed, trees=150, leaves=15)
    return [first, second, (first + second) / 2.0]


def standardised(features: Values) -> NDArray[np.float64]:
    """Columns of mean 0 and standard deviation 1; a constant one is 0."""
    scale = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0), dtype=np.float64)


def offset_logistic(
    x: Values, offset: Values, y: Values, new_x: Values, new_offset: Values, *, penalty: float = 10.0
) -> NDArray[np.float64]:
    """Multinomial regression that starts from a distribution and is penalised for leaving it: exp(offset + x w).

    Written by hand because scikit-learn's logistic regression takes no offset, and shrinks to the uniform distribution
    instead.
    """
    from scipy import optimize, special

    x, new_x = (np.concatenate([np.ones((len(part), 1)), part], axis=1) for part in (x, new_x))
    wide, classes = x.shape[1], offset.shape[1]
    there = np.zeros(offset.shape)
    there[np.arange(len(y)), y] = 1.0

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(wide, classes)
        log_distribution = special.log_softmax(offset + x @ w, axis=1)
        value = -float((log_distribution * there).sum()) + 0.5 * penalty * float((w[1:] ** 2).sum())
        slope = x.T @ (np.exp(log_distribution) - there)
        slope[1:] += penalty * w[1:]
        return value, slope.ravel()

    fitted = optimize.minimize(loss, np.zeros(wide * classes), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return np.asarray(special.softmax(new_offset + new_x @ fitted.x.reshape(wide, classes), axis=1))


def boosted(
    x: Values, y: Values, new_x: Values, classes: int, seed: int, *, trees: int = 60, leaves: int = 8
) -> NDArray[np.float64]:
    """Class probabilities of gradient-boosted trees; 0 for a class without rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=trees,
        learning_rate=0.05,
        max_leaf_nodes=leaves,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed % 2**32,
    )
    found = np.zeros((len(new_x), classes))
    with one_thread(trees=True):  # and a thread that waits for a busy core is slower than none
        model.fit(x, y)
        found[:, model.classes_] = model.predict_proba(new_x)
    return found


# ------------------------------------------------------------------------------------------------------------- numbers


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal distribution a row."""

    mean: Any
    scale: Any

    def __post_init__(self) -> None:
        mean = check.scores("mean", self.mean)
        scale = np.broadcast_to(np.asarray(self.scale, dtype=np.float64), mean.shape)
        if not np.all(np.isfinite(scale)) or scale.min() <= 0.0:
            raise InputError("`scale` must be positive and finite.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", check.read_only(scale.copy()))

    def __len__(self) -> int:
        return int(self.mean.size)

    def sample(self, rng: np.random.Generator) -> NDArray[np.float64]:
        return self.mean + self.scale * rng.standard_normal(len(self))

    def density(self, values: Values) -> NDArray[np.float64]:
        z = (values - self.mean) / self.scale
        return np.maximum(np.exp(-0.5 * z * z) / (self.scale * np.sqrt(2.0 * np.pi)), LEAST)

    def at(self, rows: Rows) -> Normal:
        return Normal(self.mean[rows], self.scale[rows])

    def recalibrated(self, values: Values, rows: Rows) -> Residuals:
        """The same means, with the residuals of `rows` for a shape."""
        return Residuals(self.mean, (values - self.mean)[rows])


@dataclass(frozen=True, eq=False)
class Residuals:
    """A prediction a row plus one distribution of residuals for all, smoothed by a Gaussian kernel.

    `residuals` come from rows that the regressor was not trained on; `bandwidth` None is Silverman's rule.
    """

    predicted: Any
    residuals: Any
    bandwidth: float | None = None
    _table: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        residuals = check.scores("residuals", self.residuals)
        object.__setattr__(self, "predicted", check.scores("predicted", self.predicted))
        object.__setattr__(self, "residuals", residuals)
        width = self.bandwidth
        if width is None:
            quartiles = np.subtract(*np.quantile(residuals, [0.75, 0.25])) / 1.349
            spread = min(s for s in (float(residuals.std()), float(quartiles), np.inf) if s > 0.0)
            if not np.isfinite(spread):
                raise InputError("`residuals` must differ from each other, or `bandwidth` must be given.")
            width = 0.9 * spread * residuals.size**-0.2
        object.__setattr__(self, "bandwidth", check.number("bandwidth", width, low=1e-300))
        if self._table is None:
            object.__setattr__(self, "_table", _kernel_density(residuals, float(self.bandwidth or 0.0)))

    def __len__(self) -> int:
        return int(self.predicted.size)

    def sample(self, rng: np.random.Generator) -> NDArray[np.float64]:
        drawn = rng.choice(self.residuals, size=len(self))
        return np.asarray(self.predicted + drawn + float(self.bandwidth or 0.0) * rng.standard_normal(len(self)))

    def density(self, values: Values) -> NDArray[np.float64]:
        places, heights = self._table
        return np.maximum(np.interp(values - self.predicted, places, heights, left=0.0, right=0.0), LEAST)

    def at(self, rows: Rows) -> Residuals:
        return Residuals(self.predicted[rows], self.residuals, self.bandwidth, self._table)

    def recalibrated(self, values: Values, rows: Rows) -> Residuals:
        """The same predictions, with the residuals of `rows`."""
        return Residuals(self.predicted, (values - self.predicted)[rows])


def _kernel_density(residuals: NDArray[np.float64], width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The density on a grid that reaches eight bandwidths beyond the residuals; sums to 1 by the trapezoid rule."""
    edges = np.linspace(residuals.min() - 8.0 * width, residuals.max() + 8.0 * width, GRID + 1)
    counts = np.histogram(residuals, bins=edges)[0]
    step = edges[1] - edges[0]
    reach = max(1, min(GRID // 2 - 1, int(np.ceil(8.0 * width / step))))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    heights = np.convolve(counts, kernel, mode="same")
    return edges[:-1] + step / 2.0, heights / (heights.sum() * step)


@dataclass(frozen=True, eq=False)
class NumericPosterior:
    """What a model says about a number that it takes as an input: the prior times likelihood(value) over its mean.

    `likelihood(values) -> one number a row` is the probability that the audited model gives to what it predicts, were
    the attribute this value. The mean over the prior is taken over `draws` values from it, drawn once by `seed`.
    """

    likelihood: Callable[[Values], Any]
    prior: Proxy
    draws: int = 64
    seed: int = 0
    _rows: Any = None
    _mean: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.count("draws", self.draws, low=1)
        if self._mean is None:
            rng = np.random.default_rng([self.seed, 0x6D65616E])
            total = np.zeros(len(self.prior))
            for _ in range(self.draws):
                total += np.asarray(self.likelihood(self.prior.sample(rng)), dtype=np.float64)
            object.__setattr__(self, "_mean", np.maximum(total / self.draws, LEAST))
            object.__setattr__(self, "_rows", np.arange(len(self.prior)))

    def density(self, values: Values) -> NDArray[np.float64]:
        every = np.asarray(self.prior.sample(np.random.default_rng(self.seed)))
        every[self._rows] = values  # the likelihood is a function of all rows; the others' values do not matter
        seen = np.asarray(self.likelihood(every), dtype=np.float64)[self._rows]
        before = self.prior.at(self._rows).density(values)
        return np.maximum(before * np.maximum(seen, LEAST) / self._mean[self._rows], LEAST)

    def at(self, rows: Rows) -> NumericPosterior:
        return NumericPosterior(self.likelihood, self.prior, self.draws, self.seed, self._rows[rows], self._mean)


# ------------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, eq=False)
class Fresh:
    """Whole records from the same source that nobody trained on, one for each training record.

    `records` are what is shown (rows, or their numbers in a `Table`); `features` what a blind baseline may look at.
    """

    records: Any
    features: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", np.asarray(self.records))
        if not len(self.records):
            raise InputError("`records` must hold at least one fresh record, got none.")
        if len(np.unique(self.records, axis=0)) < len(self.records):
            raise InputError(
                "`records` must not hold a fresh record twice: guesses about it would depend on each other.",
                "with fewer fresh records than training ones, play with as many of those (values, target).",
            )
        if self.features is not None:
            object.__setattr__(self, "features", np.asarray(self.features, dtype=np.float64))
            check.same_length(records=self.records, features=self.features)

    def __len__(self) -> int:
        return len(self.records)

    def sample(self, rng: np.random.Generator) -> Values:
        return self.records

    def density(self, values: Values) -> NDArray[np.float64]:
        raise InputError(
            "fresh records have no density.", "give a `reference` distribution, and attack='difficulty' or 'rmia'."
        )

    def at(self, rows: Rows) -> Fresh:
        return Fresh(self.records[rows], None if self.features is None else self.features[rows])


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers that are already there, by the number of the record: `numbers[record]` is its density."""

    numbers: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", check.scores("numbers", self.numbers))
        if self.numbers.min() < 0.0:
            raise InputError(f"`numbers` must be probabilities or densities, got {self.numbers.min():g}.")

    def density(self, values: Values) -> NDArray[np.float64]:
        if np.min(values) < 0 or np.max(values) >= self.numbers.size:
            raise InputError(f"`numbers` must hold every record, got {self.numbers.size} for record {np.max(values)}.")
        return np.maximum(self.numbers[values], LEAST)

    def at(self, rows: Rows) -> Table:
        return self


# --------------------------------------------------------------------------------------------------------- calibration


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far a proxy can be believed, measured on true values: a diagnosis, which certifies nothing.

    Attributes
    ----------
    error
        Expected calibration error: mean |observed - predicted| over ten bins, weighted by their rows.
    log_loss, blank
        Mean -log density of the true values, and the same of a proxy that knows only how often each value occurs.
    predicted, observed, rows
        The bins: mean probability that was predicted, share that occurred, number of predictions.
    """

    error: float
    log_loss: float
    blank: float
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    rows: tuple[int, ...]

    @property
    def fidelity(self) -> float:
        """Share of the blank log-loss that the proxy explains; at most 1, and below 0 if it is worse than blank."""
        return 1.0 - self.log_loss / self.blank if self.blank > 0.0 else 0.0


def calibration(distribution: Distribution, values: Values) -> Calibration | None:
    """Measure a proxy against true values; None for fresh records, and for distributions of the user's own."""
    if not isinstance(distribution, Categorical | Normal | Residuals):
        return None
    loss = float(-np.log(distribution.density(values)).mean())
    if isinstance(distribution, Categorical):
        shares = np.bincount(values, minlength=distribution.classes) / len(values)
        blank = float(-(shares[shares > 0.0] * np.log(shares[shares > 0.0])).sum())
        first = 1 if distribution.classes == 2 else 0  # of two classes one says it all
        predicted = np.concatenate(
            [distribution.probabilities[:, c] for c in range(first, distribution.classes)]
        ).astype(np.float64)
        happened = np.concatenate([values == c for c in range(first, distribution.classes)])
    else:
        spread = Normal(np.full(len(values), float(values.mean())), max(float(values.std()), LEAST))
        blank = float(-np.log(spread.density(values)).mean())
        predicted, happened = _quantile_levels(distribution, values)
    places = np.minimum((predicted * BINS).astype(int), BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    there = counts > 0
    means = np.bincount(places, predicted, BINS)[there] / counts[there]
    rates = np.bincount(places, happened, BINS)[there] / counts[there]
    error = float((counts[there] * np.abs(means - rates)).sum() / counts.sum())
    return Calibration(
        error=error,
        log_loss=loss,
        blank=blank,
        predicted=tuple(means.tolist()),
        observed=tuple(rates.tolist()),
        rows=tuple(counts[there].tolist()),
    )


def _quantile_levels(distribution: Normal | Residuals, values: Values) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """For a number: the levels .05 to .95, and whether each true value lies below that quantile of its distribution."""
    draws, share = 200, np.zeros(len(values))
    for number in range(draws):
        share += distribution.sample(np.random.default_rng([number, 0x63616C])) < values
    levels = np.arange(0.05, 1.0, 0.1)
    return np.repeat(levels, share.size), np.concatenate([share < draws * level for level in levels])


__all__ = [
    "Calibration",
    "Categorical",
    "Distribution",
    "Fresh",
    "Normal",
    "NumericPosterior",
    "Proxy",
    "Residuals",
    "Table",
    "calibration",
    "encode",
    "posterior",
    "trained",
]
