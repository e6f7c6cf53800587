"""Columns as a matrix for learners, and what learns from it: names of many levels are encoded, never spread out.

| function | what it returns |
|---|---|
| `Design.of` | numbers and codes of the columns of several tables; the first is learnt from |
| `learnt` | class probabilities of other rows, by boosted trees |
| `learnt_number` | a prediction a row, with the residuals of held-out rows |

A column is a category if it is declared one, if it holds texts, or if it holds whole numbers of 20 or more levels with
two or more rows a level; such a number enters as a number, too. A category is *encoded*: each level by the smoothed
frequencies of the classes among its rows. Of the rows that are learnt from, a row's own fold is left out, because
otherwise its own label would stand in its features.

Gaps lose no row: an empty category is a level of its own, and an empty number goes its own way in the trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.counterfactuals import LEAST, Residuals
from dpaudit.execution import one_thread, stream

__all__ = ["LEARNERS", "Design", "codes_of", "held_out", "learnt", "learnt_number", "predicted_number"]

Matrix = NDArray[np.float32]
Columns = Mapping[str, Any]
LEARNERS = ("boosted", "catboost")
LEVELS, ROWS = 20, 2
"""Levels, and rows a level on average, from which on a whole number is a category, too."""
NATIVE = 32
"""Categories of at most so many levels also enter as they are: two columns may tell together what neither tells, and
then their encodings are flat."""
FOLDS, SMOOTHING = 5, 20.0
"""Folds of the encodings; rows of the overall frequency that are added to those of a level."""
ENCODED, COMPONENTS = 20, 5
"""Above so many classes, encodings are so many principal components of the frequencies, not one column a class."""
TREES, ROUNDS, RATE = 3000, 200, 0.06
"""At most so many trees, at most so many rounds of one tree a class, and how far each tree goes."""
LEAVES, HELD = 15, 5
"""Leaves of a tree; one row in so many tells how many rounds to learn."""


# -------------------------------------------------------------------------------------------------------------- columns


def codes_of(*parts: Any) -> list[NDArray[np.int32]]:
    """Level numbers of one column of several tables; -1 where it is empty.

    >>> [codes.tolist() for codes in codes_of(["b", None, "a"], ["c", "b"])]
    [[1, -1, 0], [2, 1]]
    """
    arrays = [check.vector("column", part) for part in parts]
    both = np.concatenate([array.astype(object) for array in arrays]) if _is_text(*arrays) else np.concatenate(arrays)
    empty = _gaps(both)
    found = np.full(both.size, -1, dtype=np.int32)
    kept = both[~empty]
    found[~empty] = np.unique(kept.astype(str) if kept.dtype == object else kept, return_inverse=True)[1].ravel()
    return np.split(found, np.cumsum([array.size for array in arrays])[:-1])


def _is_text(*arrays: NDArray[Any]) -> bool:
    return any(array.dtype.kind not in "fiub" for array in arrays)


def _gaps(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.array([value is None or value != value for value in column], dtype=np.bool_)
    return np.asarray(column != column)


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of several tables, below each other: numbers with gaps, and codes of categories.

    Attributes
    ----------
    rows
        Of each table; the first is learnt from.
    numbers
        A column a number, float32; NaN where it is empty or infinite.
    codes
        A column a category; levels are those of all tables together, 0 that of the empty ones.
    number_names, category_names
        What the columns are called; a whole number of many levels is in both.
    """

    rows: tuple[int, ...]
    numbers: Matrix = field(repr=False)
    codes: NDArray[np.int32] = field(repr=False)
    number_names: tuple[str, ...]
    category_names: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, *others: Columns, categories: Sequence[str] = ()) -> Design:
        """The design of a table to learn from, and of others with the same columns.

        Whether whole numbers are names is decided by the first table alone, so that it does not depend on who asks.
        """
        tables = [columns, *others]
        rows = tuple(_rows(table, columns) for table in tables)
        for name in categories:
            if name not in columns:
                raise InputError(f"`categories` must be columns, got {name!r}.")
        numbers: dict[str, NDArray[Any]] = {}
        codes: dict[str, NDArray[Any]] = {}
        for name in columns:
            parts = [check.vector(name, table[name]) for table in tables]
            text = _is_text(*parts)
            if not text and name not in categories:
                with np.errstate(over="ignore"):
                    found = np.concatenate(parts).astype(np.float32)
                numbers[name] = np.where(np.isfinite(found), found, np.float32(np.nan))
            if text or name in categories or _is_code(parts[0]):
                codes[name] = np.concatenate(codes_of(*parts)) + 1
        return cls(
            rows,
            _side_by_side(numbers, sum(rows), np.float32),
            _side_by_side(codes, sum(rows), np.int32),
            tuple(numbers),
            tuple(codes),
        )

    def encoded(self, targets: Any, *, seed: int = 0) -> Matrix:
        """Every category by the smoothed mean of each target over the rows of its level that are learnt from.

        A row that is learnt from is encoded by the rows of the other folds; all other rows by all of them. A level
        without rows is the overall mean.

        Parameters
        ----------
        targets
            A row for each row that is learnt from, one column each: indicators of classes, or a number.
        """
        wanted = np.asarray(targets, dtype=np.float64)
        learning, q = wanted.shape
        overall = wanted.mean(axis=0)
        folds = stream(seed, "folds of target encodings").permutation(learning) % FOLDS
        found = np.empty((sum(self.rows), len(self.category_names), q), dtype=np.float32)
        for place, codes in enumerate(self.codes.T):
            cells, size = codes[:learning] * FOLDS + folds, int(codes.max()) + 1
            count = np.bincount(cells, minlength=size * FOLDS).reshape(size, FOLDS)
            for target, mean in enumerate(overall):
                total = np.bincount(cells, wanted[:, target], minlength=size * FOLDS).reshape(size, FOLDS)
                others, rest = total.sum(axis=1, keepdims=True) - total, count.sum(axis=1, keepdims=True) - count
                apart = (others + SMOOTHING * mean) / (rest + SMOOTHING)
                whole = (total.sum(axis=1) + SMOOTHING * mean) / (count.sum(axis=1) + SMOOTHING)
                found[:learning, place, target] = apart.ravel()[cells]
                found[learning:, place, target] = whole[codes[learning:]]
        return found.reshape(len(found), -1)

    def matrix(self, targets: Any, *, seed: int = 0) -> tuple[Matrix, list[int]]:
        """Numbers, encodings and categories of few levels, side by side; and which columns are the last."""
        learning = self.codes[: self.rows[0]]
        few = [place for place, codes in enumerate(learning.T) if np.unique(codes).size <= NATIVE]
        parts = [self.numbers, self.encoded(targets, seed=seed), self.codes[:, few].astype(np.float32)]
        found = np.concatenate(parts, axis=1)
        return found, list(range(found.shape[1] - len(few), found.shape[1]))


def _rows(table: Columns, columns: Columns) -> int:
    missing = [name for name in columns if name not in table]
    if missing:
        raise InputError(f"every table must have the columns that are learnt from, and one lacks {missing[0]!r}.")
    return check.same_length(**{name: np.asarray(table[name]) for name in columns}) if columns else 0


def _is_code(column: NDArray[Any]) -> bool:
    """Whole numbers that come back often enough to be names."""
    there = column[np.isfinite(column)] if column.dtype.kind == "f" else column
    if not there.size or not np.all(there == np.floor(there)):
        return False
    levels = np.unique(there).size
    return levels >= LEVELS and there.size >= ROWS * levels


def _side_by_side(columns: dict[str, NDArray[Any]], rows: int, dtype: Any) -> NDArray[Any]:
    found = np.empty((rows, len(columns)), dtype=dtype)
    for place, column in enumerate(columns.values()):
        found[:, place] = column
    return found


# ------------------------------------------------------------------------------------------------------------- learning


def learnt(
    columns: Columns,
    values: Any,
    others: Columns,
    *,
    classes: int,
    categories: Sequence[str] = (),
    learner: str = "boosted",
    seed: int = 0,
) -> NDArray[np.float64]:
    """Class probabilities of the rows of `others`, learnt from rows with values: a row each, a column a class.

    How long to learn is decided on one row in five; then all rows are learnt from. The trees run on one thread, and
    the numbers depend on the seed alone. A round is one tree a class, so above 15 classes there are fewer rounds than
    200: 30 of 100 classes.

    No class gets less than half a row's share, 0.5 / (rows + classes / 2), before the probabilities are made to sum
    to 1: so many rows cannot tell more, and a class that none of them has is not impossible.

    Parameters
    ----------
    columns, others
        Arrays by name: of the rows that are learnt from, and of those that are asked about.
    values
        Class numbers of the rows that are learnt from, from 0 to `classes` - 1.
    categories
        Columns that are names, whatever they hold.
    learner
        "boosted" (scikit-learn's trees, on encodings) or "catboost" (its own categories; extra `catboost`).
    """
    check.choice("learner", learner, LEARNERS)
    k, labels = check.count("classes", classes, low=2), check.labels("values", values)
    if not labels.size or labels.dtype.kind != "i" or labels.min() < 0 or labels.max() >= k:
        raise InputError(f"`values` must be class numbers from 0 to {k - 1}, at least one of them.")
    design = _design(columns, labels, others, categories)
    there, codes = np.unique(labels, return_inverse=True)
    found = np.zeros((design.rows[1], k))
    fit = _catboost if learner == "catboost" else _boosted
    found[:, there] = 1.0 if there.size == 1 else fit(design, codes.ravel(), seed)
    found = np.maximum(found, 0.5 / (labels.size + 0.5 * k))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def learnt_number(
    columns: Columns,
    values: Any,
    others: Columns,
    *,
    categories: Sequence[str] = (),
    learner: str = "boosted",
    seed: int = 0,
) -> Residuals:
    """What a number of the rows of `others` is likely to be: a prediction a row, and residuals of held-out rows.

    The predictions are those of boosted trees on all rows that are learnt from; the residuals are those of the rows of
    one fold under trees that were learnt from the other folds. Their distribution is the same for all rows: a spread
    that depends on the columns is not seen.
    """
    numbers = check.scores("values", values)

    def fit(inside: Columns, part: NDArray[Any], outside: Columns, seed: int) -> NDArray[np.float64]:
        return predicted_number(inside, part, outside, categories=categories, learner=learner, seed=seed)

    return Residuals(fit(columns, numbers, others, seed), numbers - held_out(fit, columns, numbers, seed=seed))


def predicted_number(
    columns: Columns,
    values: Any,
    others: Columns,
    *,
    categories: Sequence[str] = (),
    learner: str = "boosted",
    seed: int = 0,
) -> NDArray[np.float64]:
    """The mean of a number given its columns, by boosted trees; parameters as those of `learnt`."""
    check.choice("learner", learner, LEARNERS)
    numbers = check.scores("values", values)
    design = _design(columns, numbers, others, categories)
    centre, spread = float(numbers.mean()), float(numbers.std())
    if spread == 0.0:
        return np.full(design.rows[1], centre)
    fit = _catboost if learner == "catboost" else _boosted
    return np.asarray(centre + spread * fit(design, (numbers - centre) / spread, seed), dtype=np.float64)


def held_out(
    fit: Callable[[Columns, NDArray[Any], Columns, int], NDArray[np.float64]],
    columns: Columns,
    values: NDArray[Any],
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> NDArray[np.float64]:
    """What `fit(columns, values, others, seed)` says of the rows of each fold, learnt from the other folds."""
    count = min(check.count("folds", folds, low=2), len(values))
    if count < 2:
        raise InputError(f"cross-fitting needs at least 2 rows, got {len(values)}.")
    arrays = {name: check.vector(name, column) for name, column in columns.items()}
    fold = stream(seed, "folds of held-out rows").permutation(len(values)) % count
    parts = []
    for left in range(count):
        inside, outside = (
            {name: array[rows] for name, array in arrays.items()} for rows in (fold != left, fold == left)
        )
        parts.append(fit(inside, values[fold != left], outside, seed))
    found = np.empty((len(values), *parts[0].shape[1:]))
    for left, part in enumerate(parts):
        found[fold == left] = part
    return found


def _design(columns: Columns, values: NDArray[Any], others: Columns, categories: Sequence[str]) -> Design:
    if not columns:
        raise InputError("`columns` must hold at least one column, got none.")
    design = Design.of(columns, others, categories=categories)
    if design.rows[0] != values.size:
        raise InputError(f"`values` must be one for each of the {design.rows[0]} rows, got {values.size}.")
    return design


def _targets(design: Design, values: NDArray[Any]) -> NDArray[np.float64]:
    """What categories are encoded by: a number, the second of two classes, every class, or components of many."""
    if values.dtype.kind == "f":
        return values[:, None]
    k = int(values.max()) + 1
    indicators = (values[:, None] == np.arange(k)).astype(np.float64)
    if k <= ENCODED:
        return indicators[:, 1:] if k == 2 else indicators
    spread = np.zeros((k, k))
    for codes in design.codes[: values.size].T:
        count = np.bincount(codes) + SMOOTHING
        cells = np.bincount(codes * k + values, minlength=count.size * k).reshape(-1, k)
        apart = (cells + SMOOTHING * indicators.mean(axis=0)) / count[:, None] - indicators.mean(axis=0)
        spread += (apart.T * count) @ apart
    axes = np.linalg.eigh(spread)[1][:, : -COMPONENTS - 1 : -1]
    return np.asarray(indicators @ axes / indicators.std(axis=0).mean())


def _split(values: NDArray[Any], seed: int) -> NDArray[np.bool_]:
    """One row in five, which decides how long to learn; never the only row of a class."""
    rng, kept = stream(seed, "rows that decide how long to learn"), np.zeros(values.size, dtype=np.bool_)
    order = rng.permutation(values.size)
    kept[order[: values.size // HELD]] = True
    if values.dtype.kind != "f":
        first = np.unique(values[order[::-1]], return_index=True)[1]
        kept[order[::-1][first]] = False
    return kept


def _boosted(design: Design, values: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Boosted trees of scikit-learn on numbers, encodings, and categories of few levels."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    number = values.dtype.kind == "f"
    k = 1 if number else int(values.max()) + 1
    rounds = max(1, min(ROUNDS, TREES // k))
    made = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
    with one_thread(trees=True):
        matrix, few = design.matrix(_targets(design, values), seed=seed)
        x, new = matrix[: values.size], matrix[values.size :]

        def fit(rows: Any, rounds: int) -> Any:
            model = made(
                max_iter=rounds,
                learning_rate=RATE,
                max_leaf_nodes=LEAVES,
                l2_regularization=1.0,
                categorical_features=few or None,
                early_stopping=False,
                random_state=seed % 2**32,
            )
            seen = np.array(x[rows])
            seen[:, np.isnan(seen).all(axis=0)] = 0.0  # a column without any number cannot be put into bins
            return model.fit(seen, values[rows])

        decide = _split(values, seed)
        if decide.any():
            model = fit(~decide, rounds)
            staged = model.staged_predict(x[decide]) if number else model.staged_predict_proba(x[decide])
            losses = [_loss(found, values[decide]) for found in staged]
            rounds = int(np.argmin(losses)) + 1
        model = fit(slice(None), rounds)
        return np.asarray(model.predict(new) if number else model.predict_proba(new))


def _loss(found: NDArray[np.float64], values: NDArray[Any]) -> float:
    if found.ndim == 1:
        return float(np.mean((found - values) ** 2))
    return -float(np.log(np.maximum(found[np.arange(values.size), values], LEAST)).mean())


def _catboost(design: Design, values: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """CatBoost on numbers and its own encodings of the categories."""
    catboost = catboost_or_refuse()
    number = values.dtype.kind == "f"
    k = 1 if number else int(values.max()) + 1
    rounds = max(1, min(ROUNDS, TREES // k))
    made = catboost.CatBoostRegressor if number else catboost.CatBoostClassifier
    names = np.char.mod("%d", design.codes).astype(np.bytes_).astype(object)

    def pool(rows: NDArray[np.int64], labels: Any = None) -> Any:
        data = catboost.FeaturesData(
            num_feature_data=np.ascontiguousarray(design.numbers[rows]) if design.number_names else None,
            cat_feature_data=np.ascontiguousarray(names[rows]) if design.category_names else None,
        )
        return catboost.Pool(data, labels)

    def fit(rows: NDArray[np.int64], rounds: int, decide: Any = None) -> Any:
        model = made(
            iterations=rounds,
            learning_rate=RATE,
            random_seed=seed % 2**31,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
            **({"loss_function": "MultiClass"} if k > 2 else {}),
        )
        return model.fit(pool(rows, values[rows]), eval_set=decide)

    decide, every = _split(values, seed), np.arange(sum(design.rows))
    if decide.any():
        kept, left = np.flatnonzero(~decide), np.flatnonzero(decide)
        rounds = fit(kept, rounds, pool(left, values[left])).get_best_iteration() + 1
    model, asked = fit(every[: values.size], rounds), pool(every[values.size :])
    return np.asarray(model.predict(asked) if number else model.predict_proba(asked), dtype=np.float64)


def catboost_or_refuse() -> Any:
    try:
        import catboost
    except ImportError:
        raise InputError(
            "the learner 'catboost' needs the package catboost, which is not installed.",
            "pip install 'dpaudit[catboost]', or leave `learner` at 'boosted', which needs no further package.",
        ) from None
    return catboost
