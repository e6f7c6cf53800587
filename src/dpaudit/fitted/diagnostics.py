"""How far propensities tell members from non-members, and which columns give membership away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _validate as check
from dpaudit.assumptions import Check, filled

SHARES = (0.0, 0.01, 0.05)
"""Shares of each group that an overlap may leave out."""
PURE = 20
"""Rows of one value that must all be of one group before it is called revealing."""
REVEALS = 0.5
"""Share of all rows with such values from which on a column is named."""
SEPARATES = "column {column!r} separates members from non-members exactly"
GIVES_AWAY = "column {column!r} gives the membership of {share:down0}% of the rows away"
NOT_THE_MODEL = ", so what the attack finds may not be attributed to the model."
OVERLAP = Check(
    id="overlap",
    measured=(
        "The propensities tell members from non-members with AUC {auc:.2f}. Every row's membership probability is "
        "about {nearest:.2g} or more away from 0 and 1; for {share:.0%} of each group it is {most:.2g} or more. "
        "Weighed by them, the groups are worth {members:,.0f} and {others:,.0f} rows (estimates)."
    ),
    refuted="The features tell members from non-members exactly" + NOT_THE_MODEL,
    refutes="propensity-model",
    theory="theory:zero-run#composition",
)
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


__all__ = ["LEAKING", "NOT_THE_MODEL", "OVERLAP", "LeakingColumn", "Overlap", "leaking_columns", "overlap"]
