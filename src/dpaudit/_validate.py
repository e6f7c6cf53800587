"""Checks of what people hand in: one clear sentence (name, rule, found value), and a hint where there is one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

TINY = 5e-324
"""The least positive number: `low=TINY` means "above 0"."""


class InputError(ValueError):
    """Bad input. `str` is the sentence, and a `hint:` line where there is one; the command line exits with 2."""

    def __init__(self, sentence: str, hint: str | None = None):
        self.sentence = sentence
        self.hint = hint
        super().__init__(sentence if hint is None else f"{sentence}\nhint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sentence, self.hint)


def number(name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, infinite: bool = False) -> float:
    """A float in [low, high], finite unless `infinite` says otherwise."""
    found = _as_float(name, value)
    if not infinite and math.isinf(found):
        raise InputError(f"`{name}` must be finite, got {value!r}.")
    if not (low <= found <= high):
        raise InputError(f"`{name}` must be {_range(low, high)}, got {value!r}.")
    return found


def confidence(value: Any) -> float:
    """A confidence strictly between 0 and 1."""
    found = _as_float("confidence", value)
    if not 0.0 < found < 1.0:
        percent = 1.0 < found < 100.0
        hint = f"write {found / 100:g} for {found:g}%." if percent else None
        raise InputError(f"`confidence` must be in (0, 1), got {value!r}.", hint)
    return found


def delta(value: Any) -> float:
    """A delta in [0, 1]."""
    return number("delta", value, low=0.0, high=1.0)


def count(name: str, value: Any, *, low: int = 0, high: int | None = None, high_name: str | None = None) -> int:
    """A whole number in [low, high]; `high_name` says where the upper limit comes from."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"`{name}` must be a whole number, got {value!r}.")
    found = int(value)
    if found < low:
        raise InputError(f"`{name}` must be at least {low}, got {found}.")
    if high is not None and found > high:
        limit = f"`{high_name}` ({high})" if high_name else str(high)
        raise InputError(f"`{name}` must be at most {limit}, got {found}.")
    return found


def items(name: str, values: Any) -> list[Any]:
    """The entries of a list, tuple or array; a lone value or a text is refused."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"`{name}` must be a list, got {values!r}.")
    return list(values)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """One of a few words."""
    words = [str(word) for word in allowed]
    if value not in words:
        raise InputError(f"`{name}` must be one of {', '.join(map(repr, words))}, got {value!r}.")
    return str(value)


def unit(value: Any) -> str:
    """What one coin or run stands for, as a word."""
    if not isinstance(value, str) or not value:
        raise InputError(f"`unit` must be a word such as 'record' or 'user', got {value!r}.")
    return value


def vector(name: str, values: Any) -> NDArray[Any]:
    """A one-dimensional array from numpy, pandas, polars, a list, or anything with `__arrow_c_stream__`."""
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "__array__"):
        import pyarrow as pa

        values = pa.chunked_array(values).to_numpy(zero_copy_only=False)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"`{name}` must have no gaps, got a masked array.", "give these rows a value.")
    try:
        array = np.asarray(values)
    except ValueError:  # ragged lists
        raise InputError(f"`{name}` must be a list of numbers, got entries of unequal shapes.") from None
    if array.ndim != 1:
        raise InputError(f"`{name}` must be one-dimensional, got {array.ndim} dimensions.")
    return array


def scores(name: str, values: Any) -> NDArray[np.float64]:
    """A non-empty vector of finite scores, read-only. Rows are never dropped: dropping would be a selection."""
    array = floats(name, values)
    if array.size == 0:
        raise InputError(f"`{name}` must hold at least one score, got none.")
    bad = ~np.isfinite(array)
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(
            f"`{name}` must be finite, got {array[first]} at row {first} ({int(bad.sum())} such rows).",
            "rows are not dropped for you, because dropping is a selection; give these rows a score.",
        )
    return array


def floats(name: str, values: Any) -> NDArray[np.float64]:
    """A read-only copy of a numeric vector; text, dates and objects are refused."""
    array = vector(name, values)
    if array.size and (array.dtype.kind not in "fiub"):
        raise InputError(f"`{name}` must be numbers, got {array.dtype}.")
    return read_only(array.astype(np.float64))


def booleans(name: str, values: Any) -> NDArray[np.bool_]:
    """A read-only vector of true / false; 0 and 1 are taken, anything else is refused."""
    array = vector(name, values)
    if array.dtype.kind == "O" and all(isinstance(value, bool | np.bool_) for value in array.tolist()):
        array = array.astype(np.bool_)
    if array.dtype.kind != "b":
        known = array.dtype.kind in "iuf" and bool(np.isin(array, (0, 1)).all())
        if not known:
            shown = np.unique(array.astype(str))[:4].tolist()
            raise InputError(f"`{name}` must be true / false (or 0 / 1), got values such as {', '.join(shown)}.")
    return read_only(array.astype(np.bool_))


def distribution(name: str, values: Any) -> NDArray[np.float64]:
    """Probabilities of at least two outcomes."""
    found = floats(name, values)
    if found.size < 2 or not np.all(found >= 0.0) or not abs(float(found.sum()) - 1.0) <= 1e-9:
        raise InputError(f"`{name}` must be probabilities of at least two outcomes that sum to 1.")
    return found


def votes(name: str, values: Any) -> NDArray[np.float64]:
    """Finite vote counts of at least two classes."""
    found = floats(name, values)
    if found.size < 2 or not np.all(np.isfinite(found)):
        raise InputError(f"`{name}` must be finite counts of at least two classes, got {found.tolist()}.")
    return found


def labels(name: str, values: Any) -> NDArray[Any]:
    """A read-only vector of names: whole numbers or text."""
    array = vector(name, values)
    if array.dtype.kind in "iu":
        return read_only(array.astype(np.int64))
    if array.dtype.kind == "f" or any(value is None or value != value for value in array.tolist()):
        raise InputError(f"`{name}` must be whole numbers or text without gaps, got {array.dtype}.")
    return read_only(array.astype(np.str_))


def unique(name: str, values: NDArray[Any]) -> None:
    """Refuse a name that occurs twice."""
    found, times = np.unique(values, return_counts=True)
    if found.size < values.size:
        twice = found[times > 1][0]
        raise InputError(f"`{name}` must be unique, got {twice!s} more than once.", "rows of one unit go into `group`.")


def same_length(**arrays: NDArray[Any] | None) -> int:
    """The common length of several arrays."""
    lengths = {name: len(array) for name, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"`{name}` has {length}" for name, length in lengths.items())
        raise InputError(f"arrays of one evidence must have one length: {found}.")
    return next(iter(lengths.values()))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _as_float(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"`{name}` must be a number, got {value!r}.")
    if math.isnan(value):
        raise InputError(f"`{name}` must be a number, got nan.")
    return float(value)


def _range(low: float, high: float) -> str:
    if high == math.inf:
        return "positive" if low == 5e-324 else f"at least {low:g}"
    return f"in [{low:g}, {high:g}]"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, for a hint."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return found[0] if found else None
