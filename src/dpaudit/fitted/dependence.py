"""Do rows hang together? A permutation test of residuals that share a group (theory:placebo#dependence).

Audits of given labels take the rows' values as independent, given their features. Rows of one user, one day or one copy
may break that: then a few draws count as many, and no placebo shows it. What can be tested is whether residuals of a
law that knows the features agree inside of groups more than across them.

| step | what it makes |
|---|---|
| `cross_fitted_residuals` | residuals of rows under a law that was learnt from the other folds |
| `groupings` | columns whose levels come back, successive rows of the file, nearest neighbours |
| `hang_together` | the p-value of all of them together, and the grouping that is worst |

A law that lacks the effect of a column gives the same sign as rows that hang together, so columns enter the law, and
two rules keep what it cannot quite learn from closing an audit. Groups of more than 50 rows are not tested: the law
learns their effect. And a grouping is a hit only if it makes the variance of a group's sum at least 1.1 times what it
is for independent rows.

What rows of one level share is dependence only for somebody who does not know the level. So it must be said which
columns are `apart`: those whose levels the audited rows do not share with the rows that the proxy is learnt from, such
as users of other tables. The law of the test is then kept from learning them. Of other columns it learns what their
rows share, clusters too: then the proxy does as well, and the rest is tested.

Measured (`python benchmarks/dependence.py 40`, the level with 200 and 60), 2,000 rows and laws of fitted trees. Of
independent rows, with real effects of ids of 50 and 400 levels, a p-value of at most .05, harmless or not: .005 of 200
games of two classes, .067 of 60 of a number. Inside of the levels of a column that was learnt from other folds
residuals agree less than by chance (mean inflation .74 of the 50 levels), so there the test is a careful one.
Hits where rows share a draw, two classes, 40 games each: clusters of 20 in file order 1.00, in a column apart 1.00, in
a column that the law knows .13; of 30% of the rows, clusters of 20 in file order .98, apart 1.00, clusters of 5 apart
.80, and in file order only .25; of 30% of the clusters of 5, in file order 1.00. Clusters that no column, no order and
no neighbour shows are not seen, so no hit proves nothing. A file that is sorted by its values is a hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.counterfactuals import standardised
from dpaudit.execution import one_thread, stream
from dpaudit.fitted import designs

__all__ = [
    "HARMLESS",
    "LARGEST",
    "Dependence",
    "Effect",
    "Grouping",
    "cross_fitted_residuals",
    "groupings",
    "hang_together",
    "unshared",
]

LEVEL = 0.05
PERMUTATIONS, STRATA = 99, 10
LEVELS, ROWS, LARGEST = 10, 2, 50
"""Levels, and rows a level on average, from which on a column is a grouping; and the largest group that is tested."""
HARMLESS = 1.1
"""How much larger the variance of a group's sum may be: a normal test of level .05 then has one of .058."""
BLOCKS = (2, 10)
PATTERNS = 5
"""Of more classes than two, the most frequent ones are tested together."""
NARROW = 0.02
"""Probabilities nearer to 0 and 1 do not make a residual larger."""
PAIRED, WIDEST, POINTS = 10_000, 20, 8
"""Where neighbours are looked for: at most so many rows, and random projections; coordinates that stand for a level."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """Rows that may hang together: a group number a row, -1 for a row that is alone.

    Attributes
    ----------
    name
        The column, or what the groups are.
    codes
        The group of each row.
    column
        Whether it is a column, which can be named as the unit.
    """

    name: str
    codes: NDArray[np.int64] = field(repr=False)
    column: bool = False

    @property
    def tested(self) -> NDArray[np.int64]:
        """The same without groups of one row or of more than `LARGEST`."""
        sizes = np.bincount(self.codes[self.codes >= 0], minlength=1)
        kept = (sizes > 1) & (sizes <= LARGEST)
        return np.where((self.codes >= 0) & kept[self.codes], self.codes, -1)


@dataclass(frozen=True)
class Effect:
    """What one grouping shows.

    Attributes
    ----------
    name, column
        Those of the grouping.
    inflation
        The variance of a group's sum, over what it is for independent rows; an estimate.
    p_value
        Adjusted for all groupings: the share of permutations whose largest statistic is at least this one's.
    """

    name: str
    column: bool
    inflation: float
    p_value: float


@dataclass(frozen=True)
class Dependence:
    """The result of the test.

    Attributes
    ----------
    p_value
        Of the worst grouping; 1 if nothing inflates variances by `HARMLESS` or more.
    worst
        The grouping with the smallest p-value of those above `HARMLESS`; None if there is none.
    effects
        One a grouping, in their order.
    """

    p_value: float
    worst: Effect | None
    effects: tuple[Effect, ...]

    @property
    def hit(self) -> bool:
        """Whether rows hang together, at the level .05."""
        return self.p_value <= LEVEL


# ----------------------------------------------------------------------------------------------------------------- test


def hang_together(residuals: Any, chance: Any, groupings: Sequence[Grouping], *, seed: int) -> Dependence:
    """Whether residuals agree inside of groups: a permutation test of all groupings together.

    The statistic of a grouping is T = sum over its groups of (sum e)^2 - sum e^2, twice the sum of the products of
    pairs. The residuals are permuted 99 times inside of tenths of `chance`, and T is standardised by its mean and
    standard deviation over the data and all permutations. The p-value of a grouping is the share, of data and
    permutations, of those whose *largest* standardised T is at least its own; so it holds for all groupings at once.
    Were residuals of one tenth exchangeable, no p-value would be at most .05 more often than that.

    Groups of more than `LARGEST` rows are left out (see the module), and so is a grouping that has no others.

    Parameters
    ----------
    residuals
        One a row, of mean 0 and variance 1 were the law right; or some a row, as a matrix, that are permuted together.
    chance
        What the law says of a row: residuals are permuted among rows of like chance, whose distribution is like.
    groupings
        What is tested, as from `groupings`.
    """
    e = np.asarray(residuals, dtype=np.float64)
    e = e[:, None] if e.ndim == 1 else e
    law = check.scores("chance", chance)
    if e.ndim != 2 or not np.isfinite(e).all():
        raise InputError("`residuals` must be finite, one or some a row.")
    check.same_length(residuals=e, chance=law)
    for one in groupings:
        check.same_length(residuals=e, grouping=one.codes)
    tested = {one: codes for one in groupings if (codes := one.tested).max(initial=-1) >= 0}
    if not tested:
        return Dependence(1.0, None, ())
    orders = _orders(law, seed)
    products = np.array([_products(e, orders, codes) for codes in tested.values()])
    centred = products - products.mean(axis=1, keepdims=True)
    spread = products.std(axis=1, keepdims=True)
    standard = np.where(spread > 1e-9 * np.abs(products).max(axis=1, keepdims=True), centred, 0.0)
    standard /= np.where(spread > 0.0, spread, 1.0)
    largest = standard.max(axis=0)
    effects = tuple(
        Effect(
            one.name,
            one.column,
            float(1.0 + (own[0] - own[1:].mean()) / max(float((e[codes >= 0] ** 2).sum()), 1e-300)),
            float(np.mean(largest >= here[0] - 1e-9)),
        )
        for (one, codes), own, here in zip(tested.items(), products, standard, strict=True)
    )
    harmful = [one for one in effects if one.inflation >= HARMLESS]
    if not harmful:
        return Dependence(1.0, None, effects)
    worst = min(harmful, key=lambda one: (one.p_value, -one.inflation))
    return Dependence(worst.p_value, worst, effects)


def _orders(law: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """The order of the data, and those of the permutations: a row each, rows of one tenth among themselves."""
    edges = np.quantile(law, np.arange(1, STRATA) / STRATA)
    stratum = np.searchsorted(edges, law, side="left")
    rng, places = stream(seed, "permutations of residuals"), np.argsort(stratum, kind="stable")
    found = np.tile(np.arange(law.size), (PERMUTATIONS + 1, 1))
    for order in found[1:]:
        order[places] = np.argsort(stratum + rng.random(law.size))
    return found


def _products(e: NDArray[np.float64], orders: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """T of one grouping: of the data and of every permutation."""
    rows = np.flatnonzero(codes >= 0)
    inside, size = codes[rows], int(codes.max()) + 1
    found = np.zeros(len(orders))
    for place, order in enumerate(orders[:, rows]):
        for column in e.T:
            moved = column[order]
            found[place] += (np.bincount(inside, moved, minlength=size) ** 2).sum() - moved @ moved
    return found


# ------------------------------------------------------------------------------------------------------------ groupings


def groupings(columns: Mapping[str, Any], features: Any = None, *, seed: int = 0) -> tuple[Grouping, ...]:
    """What rows may hang together by, of rows in the order of their file.

    Every column with 10 or more levels and two or more rows a level on average; blocks of 2 and of 10 successive rows;
    pairs of rows that are each other's nearest neighbour.

    Parameters
    ----------
    columns
        Arrays by name.
    features
        A matrix in which neighbours are looked for; None makes one of the columns: numbers standardised, and a random
        point for each level of a category.
    """
    space = _space(columns, seed) if features is None else standardised(np.asarray(features, dtype=np.float64))
    rows, found = len(space), []
    for name, column in columns.items():
        (codes,) = designs.codes_of(column)
        check.same_length(features=space, **{name: codes})
        levels, there = int(codes.max(initial=-1)) + 1, int((codes >= 0).sum())
        if levels >= LEVELS and there >= ROWS * levels:
            found.append(Grouping(name, codes.astype(np.int64), column=True))
    found += [Grouping(f"{size} successive rows", np.arange(rows) // size) for size in BLOCKS]
    if space.shape[1]:
        found.append(Grouping("nearest neighbours", _neighbours(space, seed)))
    return tuple(found)


def _space(columns: Mapping[str, Any], seed: int) -> NDArray[np.float64]:
    design = designs.Design.of(columns)
    parts = [np.zeros((*design.rows, 0))]
    for column in design.numbers.T.astype(np.float64):
        there = np.isfinite(column)
        filled = np.where(there, column, np.median(column[there]) if there.any() else 0.0)
        parts.append(standardised(filled[:, None]))
    rng = stream(seed, "points of categories")
    for codes in design.codes.T:
        parts.append(rng.normal(size=(int(codes.max()) + 1, POINTS))[codes] / np.sqrt(POINTS))
    return np.concatenate(parts, axis=1)


def _neighbours(space: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Pairs of rows that are each other's nearest; what is equally near is told apart by chance."""
    rng, count = stream(seed, "nearest neighbours"), len(space)
    rows = np.sort(rng.permutation(count)[:PAIRED])
    with one_thread():
        points = space[rows]
        if points.shape[1] > WIDEST:
            points = points @ rng.normal(size=(points.shape[1], WIDEST)) / np.sqrt(points.shape[1])
        nearest = _nearest(points + 1e-4 * rng.normal(size=points.shape))
    first = np.flatnonzero((nearest[nearest] == np.arange(rows.size)) & (np.arange(rows.size) < nearest))
    found = np.full(count, -1)
    found[rows[first]] = found[rows[nearest[first]]] = np.arange(first.size)
    return found


def _nearest(points: NDArray[np.float64], block: int = 1000) -> NDArray[np.int64]:
    lengths, found = (points**2).sum(axis=1), np.empty(len(points), dtype=np.int64)
    for start in range(0, len(points), block):
        part = slice(start, start + block)
        distances = lengths - 2.0 * (points[part] @ points.T)
        distances[np.arange(len(distances)), np.arange(start, start + len(distances))] = np.inf
        found[part] = np.argmin(distances, axis=1)
    return found


# ------------------------------------------------------------------------------------------------------------ residuals


def cross_fitted_residuals(
    columns: Mapping[str, Any],
    values: Any,
    *,
    classes: int | None = None,
    categories: Sequence[str] = (),
    apart: Sequence[str] = (),
    learner: str = "boosted",
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Residuals of rows under a law that was learnt from the other folds, and what that law says of them (`chance`).

    Of a class y they are (1{y = c} - P(c)) / sqrt(P(c) (1 - P(c))): of two classes for the more frequent one, of more
    for the five most frequent ones, a column each; `chance` is P of the most frequent class. Of a number they are the
    residuals of the cross-fitted regression over their standard deviation, and `chance` is its prediction.

    Parameters
    ----------
    columns, values
        Of placebo rows, which neither the audited model nor its proxy was trained on.
    classes
        How many classes `values` are of; None for a number.
    categories, learner
        As for `designs.learnt`.
    apart
        Columns whose levels the rows of the audit do not share with the rows that the proxy is learnt from
        (`unshared`). The proxy cannot know their effect, so the law of the test must not: here it is left without
        these columns. An effect of such a column is dependence; an effect that the proxy learns is none.
    """
    known = {name: column for name, column in columns.items() if name not in apart}
    declared = [name for name in categories if name in known]
    settings: dict[str, Any] = {"categories": declared, "learner": learner}
    if classes is None:
        numbers = check.scores("values", values)

        def fit(inside: Any, part: Any, outside: Any, seed: int) -> NDArray[np.float64]:
            return designs.predicted_number(inside, part, outside, **settings, seed=seed)

        chance = designs.held_out(fit, known, numbers, seed=seed) if known else np.full(numbers.size, numbers.mean())
        spread = float((numbers - chance).std())
        return (numbers - chance) / (spread or 1.0), chance
    labels = check.labels("values", values)

    def fit_classes(inside: Any, part: Any, outside: Any, seed: int) -> NDArray[np.float64]:
        return designs.learnt(inside, part, outside, classes=classes, **settings, seed=seed)

    shares = np.bincount(labels, minlength=classes) / labels.size
    law = designs.held_out(fit_classes, known, labels, seed=seed) if known else np.tile(shares, (labels.size, 1))
    frequent = np.argsort(-shares, kind="stable")[: 1 if classes == 2 else PATTERNS]
    rates = law[:, frequent]
    inside = np.clip(rates, NARROW, 1.0 - NARROW)
    found = ((labels[:, None] == frequent) - rates) / np.sqrt(inside * (1.0 - inside))
    return (found[:, 0] if classes == 2 else found), rates[:, 0]


def unshared(columns: Mapping[str, Any], others: Mapping[str, Any], *, categories: Sequence[str] = ()) -> list[str]:
    """Columns of categories whose levels most rows of `others` do not share with those of `columns`."""
    names = designs.Design.of(columns, categories=categories).category_names
    found = []
    for name in names:
        here, there = designs.codes_of(columns[name], others[name])
        if there.size and np.mean(~np.isin(there, here)) > 0.5:
            found.append(name)
    return found
