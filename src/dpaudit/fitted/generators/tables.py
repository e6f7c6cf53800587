"""Generators for tables, and how a game asks any generator for rows (paper 004, appendix C.3)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import stream

Matrix = NDArray[np.float64]
FEW = 0.5
"""A column of numbers that repeats so large a share of its values keeps to the values that it has."""


class Fitted(Protocol):
    """A generator that has learnt."""

    def sample(self, count: int, *, seed: int = 0) -> Matrix: ...


class Generator(Protocol):
    """A generator of rows."""

    def fit(self, x: Any, *, seed: int = 0) -> Fitted: ...


def drawn(generator: Any, rows: Any, count: int, *, seed: int) -> Matrix:
    """So many rows from a generator that was fitted to `rows`: one of this module, or anything of scikit-learn's style.

    A seed goes to whatever takes one (`seed=`, or a parameter `random_state`); of a pair (rows, labels), as mixtures
    return, the rows are taken. They come in random order: mixtures return theirs component by component, and the first
    of them would follow another distribution than the last.
    """
    x = as_rows("rows", rows)
    if not hasattr(generator, "fit"):
        raise InputError(f"`generator` must have `fit` and `sample`, and {type(generator).__name__} has no `fit`.")
    if hasattr(generator, "get_params") and "random_state" in generator.get_params():
        from sklearn.base import clone

        generator = clone(generator).set_params(random_state=seed % 2**32)
    fitted = _called(generator.fit, x, seed)
    fitted = generator if fitted is None else fitted
    if not hasattr(fitted, "sample"):
        raise InputError(f"`generator` must have `fit` and `sample`, and {type(generator).__name__} has no `sample`.")
    found = _called(fitted.sample, check.count("count", count, low=1), seed)
    made = as_rows("samples", found[0] if isinstance(found, tuple) else found)
    if made.shape != (count, x.shape[1]):
        raise InputError(f"`sample` must return {count} rows of {x.shape[1]} columns, got shape {made.shape}.")
    return np.asarray(made[stream(seed, "order of samples").permutation(count)])


def _called(function: Any, argument: Any, seed: int) -> Any:
    takes = inspect.signature(function).parameters
    given = {"seed": seed} if "seed" in takes else {"random_state": seed % 2**32} if "random_state" in takes else {}
    return function(argument, **given)


def as_rows(name: str, rows: Any) -> Matrix:
    """Rows as a finite matrix."""
    try:
        found = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be numbers, one row each.", "encode texts and categories as codes.") from None
    if found.ndim != 2 or not found.size:
        raise InputError(f"`{name}` must be a table of rows and columns, got shape {found.shape}.")
    if not np.isfinite(found).all():
        raise InputError(f"`{name}` must be finite, got a gap.", "give gaps a value, and a column that says so.")
    return found


def _categories(categorical: Sequence[int], columns: int) -> frozenset[int]:
    found = frozenset(check.count("categorical", int(place), high=columns - 1) for place in categorical)
    if len(found) < len(categorical):
        raise InputError("`categorical` must not name a column twice.")
    return found


def _smooth(values: Matrix) -> bool:
    """Whether a column of numbers has values of its own in most rows: between them others are possible."""
    return np.unique(values).size > FEW * values.size


def _lent(values: Matrix, shares: Matrix, further: Matrix, smooth: bool) -> Matrix:
    """One of the values for each share; of a smooth column a point on the way to the next of them."""
    place = np.minimum((shares * values.size).astype(np.int64), values.size - 1)
    if not smooth:
        return values[place]
    return np.asarray(values[place] + (values[np.minimum(place + 1, values.size - 1)] - values[place]) * further)


# ------------------------------------------------------------------------------------------------------ Gaussian copula


@dataclass(frozen=True, kw_only=True)
class GaussianCopula:
    """Every column as it is, tied together by the correlations of their normal scores."""

    categorical: Sequence[int] = ()

    def fit(self, x: Any, *, seed: int = 0) -> _Copula:
        rows = as_rows("rows", x)
        codes = _categories(self.categorical, rows.shape[1])
        rng = stream(seed, "ties of a copula")
        ranks = np.stack([_rank(column, rng) for column in rows.T], axis=1)
        scores = special.ndtri((ranks + 0.5) / len(rows))
        correlation = np.atleast_2d(np.corrcoef(scores, rowvar=False)) if len(rows) > 1 else np.eye(rows.shape[1])
        sizes, axes = np.linalg.eigh(correlation)
        root = axes * np.sqrt(np.maximum(sizes, 0.0))
        kept = tuple((np.sort(column), place not in codes and _smooth(column)) for place, column in enumerate(rows.T))
        return _Copula(root, kept)


def _rank(column: Matrix, rng: np.random.Generator) -> Matrix:
    """Places from 0, equal values in random order: a copula of atoms spreads each over its share."""
    found = np.empty(column.size)
    found[np.lexsort((rng.random(column.size), column))] = np.arange(column.size)
    return found


@dataclass(frozen=True, eq=False)
class _Copula:
    root: Matrix = field(repr=False)
    columns: tuple[tuple[Matrix, bool], ...] = field(repr=False)

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        size = check.count("count", count, low=1)
        scores = stream(seed, "rows of a copula").normal(size=(size, self.root.shape[1])) @ self.root.T
        shares = special.ndtr(scores)
        return np.stack(
            [
                np.quantile(values, share, method="linear" if smooth else "inverted_cdf")
                for (values, smooth), share in zip(self.columns, shares.T, strict=True)
            ],
            axis=1,
        )


# ------------------------------------------------------------------------------------------------------- tree marginals


@dataclass(frozen=True, kw_only=True)
class TreeMarginals:
    """Columns and the pairs along one tree, as histograms: the tree of pairs that tell most about each other.

    In the manner of MST (McKenna et al. 2021), without its noise: nothing here needs to be private.
    """

    categorical: Sequence[int] = ()
    bins: int = 32
    smoothing: float = 0.05

    def fit(self, x: Any, *, seed: int = 0) -> _Tree:
        rows = as_rows("rows", x)
        codes = _categories(self.categorical, rows.shape[1])
        check.count("bins", self.bins, low=2)
        check.number("smoothing", self.smoothing, low=0.0)
        columns = [_Binned.of(column, place in codes, self.bins) for place, column in enumerate(rows.T)]
        cells = [binned.cells(column) for binned, column in zip(columns, rows.T, strict=True)]
        order = _spanning_order(cells, [binned.size for binned in columns])
        tables = [self._table(cells, columns, child, parent) for child, parent in order]
        return _Tree(tuple(columns), tuple(order), tuple(tables))

    def _table(self, cells: list[Any], columns: list[_Binned], child: int, parent: int | None) -> Matrix:
        """P(child's cell given the parent's), a row a cell of the parent."""
        rows = 1 if parent is None else columns[parent].size
        given = np.zeros(len(cells[child]), dtype=np.int64) if parent is None else cells[parent]
        alone = np.bincount(cells[child], minlength=columns[child].size) / len(cells[child])
        found = np.zeros((rows, columns[child].size))
        np.add.at(found, (given, cells[child]), 1.0)
        found += self.smoothing * alone
        return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300))


@dataclass(frozen=True, eq=False)
class _Binned:
    """A column in cells: a value each, or bins with the values that fell into them."""

    edges: Matrix = field(repr=False)
    values: tuple[Matrix, ...] = field(repr=False)
    smooth: bool

    @property
    def size(self) -> int:
        return len(self.values)

    @classmethod
    def of(cls, column: Matrix, code: bool, bins: int) -> _Binned:
        kinds = np.unique(column)
        if code or kinds.size <= bins:
            return cls(kinds[1:], tuple(kinds[:, None]), False)
        edges = np.unique(np.quantile(column, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        cells = np.searchsorted(edges, column, side="right")
        parts = [np.sort(column[cells == cell]) for cell in range(edges.size + 1)]
        kept = [cell for cell, part in enumerate(parts) if part.size]
        return cls(edges[[cell - 1 for cell in kept[1:]]], tuple(parts[cell] for cell in kept), _smooth(column))

    def cells(self, column: Matrix) -> NDArray[np.int64]:
        return np.searchsorted(self.edges, column, side="right").astype(np.int64)

    def drawn(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Matrix:
        shares, further, found = rng.random(cells.size), rng.random(cells.size), np.empty(cells.size)
        for cell in np.unique(cells):
            here = cells == cell
            found[here] = _lent(self.values[cell], shares[here], further[here], self.smooth)
        return found


def _spanning_order(cells: list[NDArray[np.int64]], sizes: list[int]) -> list[tuple[int, int | None]]:
    """(column, the one before it): the maximum spanning tree of mutual information, from the first column outwards."""
    count = len(cells)
    weights = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            weights[i, j] = _information(cells[i], cells[j], sizes[i], sizes[j]) + 1e-9  # 0 would be no edge
    tree = sparse.csgraph.minimum_spanning_tree(-weights)
    found, before = sparse.csgraph.breadth_first_order(tree, 0, directed=False)
    return [(int(place), None if before[place] < 0 else int(before[place])) for place in found]


def _information(a: NDArray[np.int64], b: NDArray[np.int64], rows: int, columns: int) -> float:
    joint = np.bincount(a * columns + b, minlength=rows * columns).reshape(rows, columns) / a.size
    alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return float(special.rel_entr(joint, alone).sum())


@dataclass(frozen=True, eq=False)
class _Tree:
    columns: tuple[_Binned, ...] = field(repr=False)
    order: tuple[tuple[int, int | None], ...]
    tables: tuple[Matrix, ...] = field(repr=False)

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        size, rng = check.count("count", count, low=1), stream(seed, "rows of a tree")
        cells: dict[int, NDArray[np.int64]] = {}
        found = np.empty((size, len(self.columns)))
        for (child, parent), table in zip(self.order, self.tables, strict=True):
            given = np.zeros(size, dtype=np.int64) if parent is None else cells[parent]
            below = np.cumsum(table, axis=1)[given]
            cells[child] = np.minimum((rng.random((size, 1)) > below).sum(axis=1), table.shape[1] - 1)
            found[:, child] = self.columns[child].drawn(cells[child], rng)
        return found


# ----------------------------------------------------------------------------------------------------- sequential trees


@dataclass(frozen=True, kw_only=True)
class SequentialTrees:
    """Column by column: a decision tree of the columns so far finds rows alike, and one of them lends its value.

    As synthesis by CART does (Reiter 2005). Numbers that hardly repeat move to a random point towards the next value of
    the same leaf, so that no value is a copy.

    Attributes
    ----------
    leaf
        Rows that a leaf has at least: fewer follow the rows more closely.
    """

    categorical: Sequence[int] = ()
    leaf: int = 20

    def fit(self, x: Any, *, seed: int = 0) -> _Sequence:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        rows = as_rows("rows", x)
        codes = _categories(self.categorical, rows.shape[1])
        least = check.count("leaf", self.leaf, low=1)
        steps: list[_Step] = []
        for place, column in enumerate(rows.T):
            smooth = place not in codes and _smooth(column)
            if not place:
                steps.append(_Step(None, {0: np.sort(column)}, smooth))
                continue
            kind = DecisionTreeClassifier if place in codes else DecisionTreeRegressor
            tree = kind(min_samples_leaf=least, random_state=seed % 2**32).fit(rows[:, :place], column)
            leaves = tree.apply(rows[:, :place])
            order = np.lexsort((column, leaves))
            cuts = np.flatnonzero(np.diff(leaves[order])) + 1
            lent = {int(leaves[part[0]]): column[part] for part in np.split(order, cuts)}
            steps.append(_Step(tree, lent, smooth))
        return _Sequence(tuple(steps))


@dataclass(frozen=True, eq=False)
class _Step:
    tree: Any
    lent: dict[int, Matrix] = field(repr=False)
    """The values of each leaf, in order."""
    smooth: bool

    def drawn(self, before: Matrix, rng: np.random.Generator) -> Matrix:
        leaves = np.zeros(len(before), dtype=np.int64) if self.tree is None else self.tree.apply(before)
        shares, further, found = rng.random(len(before)), rng.random(len(before)), np.empty(len(before))
        for leaf in np.unique(leaves):
            here = leaves == leaf
            found[here] = _lent(self.lent[int(leaf)], shares[here], further[here], self.smooth)
        return found


@dataclass(frozen=True, eq=False)
class _Sequence:
    steps: tuple[_Step, ...] = field(repr=False)

    def sample(self, count: int, *, seed: int = 0) -> Matrix:
        size, rng = check.count("count", count, low=1), stream(seed, "rows of trees")
        found = np.empty((size, len(self.steps)))
        for place, step in enumerate(self.steps):
            found[:, place] = step.drawn(found[:, :place], rng)
        return found
