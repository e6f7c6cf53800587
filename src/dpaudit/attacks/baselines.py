"""The attack without the model: what somebody can tell about true and proxy values who never saw the audited model.

`blind_distribution` learns the distribution of the true values from the *other half* of the rows, starting from the
proxy, and is scored as the audited model is. If it can tell true values from the proxy's, so could anybody, and nothing
that an attack with the model finds may be put down to the model. `leaking_features` names the columns where proxy and
truth part, `leaking_columns` those that give membership away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit.assumptions import Check, filled
from dpaudit.counterfactuals import (
    LEAST,
    Categorical,
    Distribution,
    Fresh,
    Normal,
    Residuals,
    boosted,
    offset_logistic,
    standardised,
)
from dpaudit.evidence import MemberScores
from dpaudit.execution import stream

Matrix = NDArray[np.float64]
MOST_ROWS = 50_000
MOST_TREES = 5
"""Boosted trees are added for up to this many classes."""
FEW = 200
OF_FEATURES = "a classifier of {columns} features"
OF_THE_PROXY = (
    "cross-fitted on the proxy alone (no features were given, so a proxy that merely knows less than the model passes)"
)
OF_BOTH = "cross-fitted on the proxy and {columns} feature column{plural}"
OWN_PREDICTION = "the proxy's own prediction"
"""What the proxy is called among the features."""
SEPARATES = "column {column!r} separates members from non-members exactly"
GIVES_AWAY = "column {column!r} gives the membership of {share:down0}% of the rows away"
LEAKS = "{feature}, {where} ({z:+.1f} standard errors)"
PURE = 20
"""Rows of one value that must all be of one group before it is called revealing."""
REVEALS = 0.5
"""Share of all rows with such values from which on a column is named."""
NOT_THE_MODEL = ", so what the attack finds may not be attributed to the model."
LEAKING = Check(
    id="leaking-features",
    measured="Membership can be read off the features: {columns:list}.",
    refuted="The features tell members from non-members exactly: {columns:list}" + NOT_THE_MODEL,
    remedy=(
        "If column {names:list} came about by how the rows were collected, and not by who they are, leave them out; "
        "what is left must then say all there is about membership."
    ),
    refutes="no-hidden-factor",
    theory="theory:zero-run#composition",
)


def blind_distribution(
    counterfactual: Any, values: NDArray[Any], features: Matrix | None, fold: NDArray[np.bool_], *, seed: int
) -> Distribution:
    """The distribution of every row, learnt from the rows of the other fold alone."""
    if isinstance(counterfactual, Categorical):
        return _blind_classes(counterfactual, values, features, fold, seed)
    return _blind_numbers(counterfactual, values, features, fold, seed)


def blind_ratio(
    members: Matrix, fresh: Matrix, fold: NDArray[np.bool_], *, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-odds that a record is a training one, of members and of fresh records, learnt from the other fold's."""
    both, real = np.concatenate([members, fresh]), np.repeat([1, 0], [len(members), len(fresh)])
    flat = Categorical(np.full((len(both), 2), 0.5))
    distributions = np.maximum(
        _blind_classes(flat, real, both, np.concatenate([fold, fold]), seed).probabilities, LEAST
    )
    first, second = np.split(np.log(distributions[:, 1]) - np.log(distributions[:, 0]), [len(members)])
    return first, second


def blind_members(
    evidence: MemberScores, odds: NDArray[np.float64], features: Matrix, *, seed: int
) -> tuple[MemberScores, ...]:
    """Membership learnt from the features of the other fold, starting from the propensities; one part a fold.

    `odds` are the log-odds that the propensities state. A row's score is how far the attack's own differ from them.
    """
    import sklearn.ensemble  # noqa: F401  # before the limit, which holds for libraries that are loaded
    from threadpoolctl import threadpool_limits

    rates = special.expit(odds)
    own = Categorical(np.stack([1.0 - rates, rates], axis=1))
    fold = stream(seed, "folds of the blind attack").random(odds.size) < 0.5
    with threadpool_limits(1):  # sums in another order would be other numbers
        distribution = blind_distribution(own, evidence.member.astype(np.int64), features, fold, seed=seed)
    told = distribution.density(np.ones(odds.size, dtype=np.int64))
    scores = special.logit(np.clip(told, 1e-12, 1.0 - 1e-12)) - odds
    parts = [np.flatnonzero(fold == side) for side in (False, True)]
    return tuple(
        replace(
            evidence,
            scores=scores[part],
            member=evidence.member[part],
            propensity=evidence.propensity[part],
            ids=None if evidence.ids is None else evidence.ids[part],
            group=None if evidence.group is None else evidence.group[part],
            sides="sign",
        )
        for part in parts
        if np.unique(evidence.member[part]).size == 2
    )


def agreement(counterfactual: Any, shown: NDArray[Any], unit: NDArray[np.intp]) -> NDArray[np.float64]:
    """How far the shown values of one unit go together, beyond what the proxy expects; on the unit's first row, 0 else.

    Sum over pairs of rows of the product of their residuals. Proxy values are drawn row by row, so it is 0 on average;
    true values of one person that hang together make it positive. Nothing is learnt, so it is blind by design.
    """
    if isinstance(counterfactual, Categorical):
        residual = -np.asarray(counterfactual.probabilities, dtype=np.float64)
        residual[np.arange(len(shown)), shown] += 1.0
    else:
        centre, deviation = _centre(counterfactual)
        residual = ((shown - centre) / deviation)[:, None]
    found = np.zeros(len(shown))
    names, first = np.unique(unit, return_index=True)
    place = np.searchsorted(names, unit)
    for column in residual.T:
        together = np.bincount(place, column) ** 2 - np.bincount(place, column**2)
        found[first] += together
    return found


def _centre(counterfactual: Normal | Residuals) -> tuple[NDArray[np.float64], Any]:
    """Mean and standard deviation of a numeric proxy."""
    if isinstance(counterfactual, Normal):
        return counterfactual.mean, counterfactual.scale
    return counterfactual.predicted, float(
        np.hypot(np.std(counterfactual.residuals), float(counterfactual.bandwidth or 0.0))
    )


def words(counterfactual: Any, features: Matrix | None) -> str:
    """What the blind baseline sees and how it learns, for the record."""
    columns = 0 if features is None else features.shape[1]
    if isinstance(counterfactual, Fresh):
        return filled(OF_FEATURES, {"columns": columns})
    if features is None:
        return OF_THE_PROXY
    return filled(OF_BOTH, {"columns": columns, "plural": "s" if columns > 1 else ""})


# -------------------------------------------------------------------------------------------------------------- classes


def _blind_classes(
    counterfactual: Categorical, values: NDArray[np.int64], features: Matrix | None, fold: NDArray[np.bool_], seed: int
) -> Categorical:
    offset = np.log(np.maximum(counterfactual.probabilities, LEAST)).astype(np.float64)
    seen = standardised(offset[:, 1:] - offset[:, :1])
    if features is not None:
        seen = np.concatenate([seen, standardised(features)], axis=1)
    found = np.array(counterfactual.probabilities, dtype=np.float64)
    for side in (False, True):
        train, test = _chosen(fold != side, seed), fold == side
        if train.size < 2 or not test.any():
            continue
        distributions = [offset_logistic(seen[train], offset[train], values[train], seen[test], offset[test])]
        if counterfactual.classes <= MOST_TREES and train.size >= FEW and np.unique(values[train]).size > 1:
            distributions.append(boosted(seen[train], values[train], seen[test], counterfactual.classes, seed))
        found[test] = np.mean(distributions, axis=0)
    return Categorical(found)


def _chosen(rows: NDArray[np.bool_], seed: int) -> NDArray[np.intp]:
    """At most so many rows to learn from: more would make the control a little sharper, and much slower."""
    places = np.flatnonzero(rows)
    if places.size <= MOST_ROWS:
        return places
    return np.sort(np.random.default_rng([seed, 0x626C]).choice(places, MOST_ROWS, replace=False))


# -------------------------------------------------------------------------------------------------------------- numbers


def _blind_numbers(
    counterfactual: Normal | Residuals,
    values: NDArray[Any],
    features: Matrix | None,
    fold: NDArray[np.bool_],
    seed: int,
) -> Distribution:
    """Boosted trees for the mean, and residuals of rows that they did not see for the shape."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    centre, _ = _centre(counterfactual)
    seen = centre[:, None] if features is None else np.concatenate([centre[:, None], features], axis=1)
    distributions: list[Distribution] = [counterfactual.at(fold == side) for side in (False, True)]
    for side in (False, True):
        rows = np.random.default_rng([seed, side, 0x626C]).permutation(_chosen(fold != side, seed))
        learn, shape = np.split(rows, [2 * rows.size // 3])
        if shape.size < FEW or not (fold == side).any():
            continue
        model = HistGradientBoostingRegressor(
            max_iter=80, learning_rate=0.05, max_leaf_nodes=8, early_stopping=False, random_state=seed % 2**32
        ).fit(seen[learn], (values - centre)[learn])
        left = (values - centre)[shape] - model.predict(seen[shape])
        distributions[side] = Residuals(centre[fold == side] + model.predict(seen[fold == side]), left)
    return _Folded(fold, distributions[0], distributions[1])


@dataclass(frozen=True, eq=False)
class _Folded:
    """One distribution for each fold."""

    fold: NDArray[np.bool_]
    first: Distribution
    second: Distribution

    def density(self, values: NDArray[Any]) -> NDArray[np.float64]:
        found = np.empty(len(self.fold))
        for side, distribution in ((False, self.first), (True, self.second)):
            found[self.fold == side] = distribution.density(values[self.fold == side])
        return found

    def at(self, rows: NDArray[Any]) -> Distribution:
        raise TypeError("a folded distribution is of all its rows")


# ------------------------------------------------------------------------------------------------------------ giveaways


@dataclass(frozen=True)
class LeakingFeature:
    """Where proxy and truth part: `z` is the standardised difference on the rows `where`."""

    feature: str
    where: str
    z: float

    def __str__(self) -> str:
        return filled(LEAKS, {"feature": self.feature, "where": self.where, "z": self.z})


def leaking_features(
    counterfactual: Any, values: NDArray[Any], features: Matrix | None, names: list[str], *, most: int = 3
) -> list[LeakingFeature]:
    """The columns on which true values differ most from what the proxy expects, with the place in the column.

    Each column is cut into five bins, and what is observed in a bin set against what the proxy expects there. It
    explains a refuted control; it is no test.
    """
    columns = {} if features is None else dict(zip(names, features.T, strict=True))
    if isinstance(counterfactual, Fresh):
        if counterfactual.features is None or features is None or counterfactual.features.shape[1] != features.shape[1]:
            return []
        both = {name: np.concatenate([column, other]) for (name, column), other in zip(
            columns.items(), counterfactual.features.T, strict=True)}  # fmt: skip
        real = np.repeat([0.5, -0.5], [len(features), len(counterfactual.features)])
        return _largest({name: _bins(column, real, np.full(real.size, 0.25)) for name, column in both.items()}, most)
    if not isinstance(counterfactual, Categorical | Normal | Residuals):
        return []
    if isinstance(counterfactual, Categorical):
        off = -np.asarray(counterfactual.probabilities, dtype=np.float64)
        off[np.arange(len(values)), values] += 1.0
        spread = np.asarray(counterfactual.probabilities * (1.0 - counterfactual.probabilities), dtype=np.float64)
        first = 1 if counterfactual.classes == 2 else 0
        parts = [
            (off[:, c], spread[:, c], counterfactual.probabilities[:, c]) for c in range(first, counterfactual.classes)
        ]
    else:
        centre, deviation = _centre(counterfactual)
        parts = [(values - centre, np.broadcast_to(np.square(deviation), values.shape), centre)]
    found: dict[str, tuple[str, float]] = {}
    for residual, variance, own in parts:
        for name, column in {OWN_PREDICTION: own, **columns}.items():
            where, z = _bins(column, residual, variance)
            if name not in found or abs(z) > abs(found[name][1]):
                found[name] = (where, z)
    return _largest(found, most)


def _bins(column: NDArray[Any], residual: NDArray[Any], variance: NDArray[Any]) -> tuple[str, float]:
    """The bin of a column with the largest standardised residual."""
    edges = np.unique(np.quantile(column, [0.2, 0.4, 0.6, 0.8]))
    if edges.size and edges[-1] >= column.max():
        edges = edges[:-1]
    if edges.size == 0 and column.max() > column.min():  # nearly constant: the rest against the common value
        edges = np.array([np.median(column)]) if np.median(column) < column.max() else np.array([column.min()])
    places = np.searchsorted(edges, column, side="left")
    sums, widths = np.bincount(places, residual), np.bincount(places, variance)
    z = sums / np.sqrt(np.maximum(widths, LEAST))
    best = int(np.argmax(np.abs(z)))
    if edges.size == 0:
        return "everywhere", float(z[best])
    low = "" if best == 0 else f"above {edges[best - 1]:.4g}"
    high = "" if best == edges.size else f"up to {edges[best]:.4g}"
    return " and ".join(part for part in (low, high) if part), float(z[best])


def _largest(found: dict[str, tuple[str, float]], most: int) -> list[LeakingFeature]:
    ranked = sorted(found.items(), key=lambda entry: -abs(entry[1][1]))
    return [LeakingFeature(name, where, z) for name, (where, z) in ranked[:most]]


@dataclass(frozen=True)
class LeakingColumn:
    """A column that gives membership away: rows with values that only one group has."""

    column: str
    share: float

    @property
    def exactly(self) -> bool:
        return self.share == 1.0

    def __str__(self) -> str:
        return filled(SEPARATES if self.exactly else GIVES_AWAY, {"column": self.column, "share": 100.0 * self.share})


def leaking_columns(columns: dict[str, NDArray[Any]], member: Any) -> list[LeakingColumn]:
    """The columns in which at least half of the rows have a value that only members, or only non-members, have.

    Values are taken as they are where each is common, and numbers of many values in twenty bins.
    """
    bits = check.booleans("member", member)
    found = []
    for name, column in columns.items():
        values = np.asarray(column)
        check.same_length(column=values, member=bits)
        codes = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1].ravel()
        if codes.max() + 1 > len(bits) / PURE and values.dtype.kind in "fiu":
            there = np.isfinite(values)  # gaps are a value of their own: they may tell the groups apart as well
            cuts = np.unique(np.quantile(values[there], np.linspace(0.05, 0.95, 19))) if there.any() else values[:0]
            codes = np.where(there, np.searchsorted(cuts, values, side="right"), cuts.size + 1)
        size, ones = np.bincount(codes), np.bincount(codes, bits)
        pure = (size >= PURE) & ((ones == 0) | (ones == size))
        share = float(size[pure].sum() / len(bits))
        if share >= REVEALS:
            found.append(LeakingColumn(name, share))
    return sorted(found, key=lambda one: -one.share)
