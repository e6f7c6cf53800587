"""Trained models as functions from rows to probabilities, whatever trained them. Nothing is ever unpickled.

| reference | what it is |
|---|---|
| `"model.onnx"` | an ONNX classifier (extra `onnx`), of scikit-learn by skl2onnx, of torch by its exporter |
| `"model.cbm"` | a CatBoost classifier in its own format (extra `catboost`) |
| `"file.py:function"` | a function that returns a model: with `predict_proba`, a torch module, or a callable |

A pickle (`.pkl`, `.joblib`, `.pt`) is refused: opening one runs whatever is in it. Export the model, or load it in a
function of your own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit._validate import InputError
from dpaudit.execution import RunFailed, load_function

SUFFIXES = (".onnx", ".cbm")
PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth")
BATCH = 65_536
ROUNDING = 1e-5
"""Sums of single precision may end this much below 0."""


def is_model(reference: Any) -> bool:
    """Whether a text names a model, and not a column."""
    return isinstance(reference, str) and (".py:" in reference or reference.endswith((*SUFFIXES, *PICKLES)))


def load_model(reference: str, *, field: str = "model", folder: str | Path = ".") -> Any:
    """The model of a reference; see the table above."""
    if reference.endswith(PICKLES):
        raise InputError(
            f"`{field}` must not be a pickle, got {reference!r}: opening one runs whatever is in it.",
            "export it to ONNX or CatBoost's own format, or name a function that loads it, as 'file.py:function'.",
        )
    if ".py:" in reference:
        function = load_function(reference, field=field, folder=folder)
        return _called(lambda _: function(), None, f"`{field}` {reference!r} failed")
    path = Path(folder, reference)
    if not path.is_file():
        raise InputError(f"`{field}` must name a file, and there is no {reference!r}.")
    return _onnx(path) if path.suffix == ".onnx" else _catboost(path)


def file_of(reference: Any, folder: str | Path = ".") -> Path | None:
    """The file of a reference, where it names one that is there."""
    if not is_model(reference):
        return None
    named = Path(folder, reference.rpartition(":")[0] if ".py:" in reference else reference)
    return named if named.is_file() else None


def probabilities(model: Any, columns: dict[str, NDArray[Any]], classes: list[str]) -> NDArray[np.float64]:
    """One row of class probabilities for each row, in the order of `classes` (as texts)."""
    rows = len(next(iter(columns.values())))
    if _is_torch(model):
        return _checked(_called(_numbers(partial(_torch, model)), _matrix(columns)), rows, len(classes))
    if isinstance(model, _Onnx):
        return _aligned(*model.predict(columns), rows, classes)
    predict = getattr(model, "predict_proba", None)
    if predict is None and not callable(model):
        raise InputError(f"a model must have `predict_proba` or be callable, got {type(model).__name__}.")
    if predict is None:
        return _checked(_called(_numbers(model), _matrix(columns)), rows, len(classes))
    found = _called(_numbers(predict), _as_trained(model, columns))
    return _aligned(found, getattr(model, "classes_", None), rows, classes)


def known_classes(model: Any) -> set[str] | None:
    """The classes that a model knows, as texts; None where it does not say."""
    own = getattr(model, "classes_", None)
    return None if own is None else {_text(name) for name in list(own)}


def _called(act: Any, rows: Any, words: str = "the model failed on these rows") -> Any:
    """Somebody else's code: its own failure is a failed run, in one sentence."""
    try:
        return act(rows)
    except InputError:
        raise
    except Exception as problem:
        first = (str(problem).splitlines() or [""])[0][:160]
        raise RunFailed(f"{words} ({type(problem).__name__}: {first}).") from problem


def _numbers(predict: Any) -> Any:
    """A prediction as an array of numbers."""
    return lambda rows: np.asarray(predict(rows), dtype=np.float64)


def _as_trained(model: Any, columns: dict[str, NDArray[Any]]) -> Any:
    """A DataFrame for a model that was trained on named or text columns, a matrix for the others."""
    texts = any(column.dtype == object for column in columns.values())
    named = getattr(model, "feature_names_in_", None) is not None or texts
    if not named and type(model).__module__.split(".")[0] != "catboost":
        return _matrix(columns)
    try:
        import pandas as pd
    except ImportError:
        raise InputError("a model of named columns needs pandas.", "pip install 'dpaudit[data]'.") from None
    return pd.DataFrame(columns)


def _matrix(columns: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    for name, column in columns.items():
        if column.dtype == object:
            raise InputError(
                f"column {name!r} is text, and this model takes numbers.", "encode it in the model, or in the table."
            )
    return np.stack([column.astype(np.float64) for column in columns.values()], axis=1)


def _checked(found: NDArray[np.float64], rows: int, classes: int) -> NDArray[np.float64]:
    if found.ndim == 1 or found.shape[1:] == (1,):
        found = np.stack([1.0 - found.reshape(-1), found.reshape(-1)], axis=1)
    if found.shape != (rows, classes):
        raise InputError(f"a model must give {classes} probabilities for each of {rows} rows, got {found.shape}.")
    return found


def _aligned(found: NDArray[np.float64], own: Any, rows: int, classes: list[str]) -> NDArray[np.float64]:
    """The columns in the order of `classes`, by the model's own names of its classes where it has them."""
    if own is None:
        return _checked(found, rows, len(classes))
    place = {_text(name): number for number, name in enumerate(list(own))}
    missing = [name for name in classes if name not in place]
    if missing or found.shape != (rows, len(place)):
        raise InputError(
            f"the model knows the classes {', '.join(place)}, and not {', '.join(missing) or 'these rows'}."
        )
    picked = found[:, [place[name] for name in classes]]
    return np.asarray(picked / picked.sum(axis=1, keepdims=True))


def _text(value: Any) -> str:
    number = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if number or isinstance(value, bool | np.bool_) else str(value)


# -------------------------------------------------------------------------------------------------------------- formats


def _catboost(path: Path) -> Any:
    try:
        from catboost import CatBoostClassifier, CatBoostError
    except ImportError:
        raise InputError("a .cbm model needs CatBoost.", "pip install 'dpaudit[catboost]'.") from None
    try:
        return CatBoostClassifier().load_model(str(path))
    except CatBoostError:
        raise InputError(f"{path.name!r} is not a CatBoost model.") from None


def _onnx(path: Path) -> _Onnx:
    try:
        import onnxruntime
    except ImportError:
        raise InputError("an .onnx model needs onnxruntime.", "pip install 'dpaudit[onnx]'.") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # sums in another order would be other numbers
    try:
        return _Onnx(onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
    except Exception as problem:  # onnxruntime has an error class for each status, with no common parent
        raise InputError(f"{path.name!r} is not an ONNX model ({str(problem).splitlines()[0][:100]}).") from None


class _Onnx:
    """An ONNX classifier: one matrix, or one input a column; probabilities as a tensor or as one mapping a row."""

    def __init__(self, session: Any):
        self.session = session

    def predict(self, columns: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], list[Any] | None]:
        """Probabilities, and the names of the classes where the model gives them."""
        rows = len(next(iter(columns.values())))
        parts = [self._batch({n: c[at : at + BATCH] for n, c in columns.items()}) for at in range(0, rows, BATCH)]
        found, names = np.concatenate([part for part, _ in parts]), parts[0][1]
        single = found.ndim == 1 or found.shape[1] == 1
        if single and (found.min() < 0.0 or found.max() > 1.0):  # a torch export gives logits
            found = 1.0 / (1.0 + np.exp(-found))
        elif not single and not np.allclose(found.sum(axis=1), 1.0, atol=1e-3):
            found = _softmax(found)
        return np.where((found < 0.0) & (found > -ROUNDING), 0.0, found), names

    def _batch(self, columns: dict[str, NDArray[Any]]) -> tuple[NDArray[np.float64], list[Any] | None]:
        inputs = self.session.get_inputs()
        if len(inputs) == 1 and inputs[0].name not in columns:
            fed = {inputs[0].name: _matrix(columns).astype(_kind(inputs[0].type))}
        else:
            missing = [one.name for one in inputs if one.name not in columns]
            if missing:
                raise InputError(f"the ONNX model takes a column {missing[0]!r}, which is not among the features.")
            fed = {one.name: columns[one.name].astype(_kind(one.type))[:, None] for one in inputs}
        outputs = _called(lambda rows: self.session.run(None, rows), fed)
        last = outputs[-1]
        if isinstance(last, list):  # one mapping a row, from class to probability
            names = list(last[0])
            return np.array([[row[name] for name in names] for row in last], dtype=np.float64), names
        return np.asarray(last, dtype=np.float64), None


def _kind(declared: str) -> Any:
    known = {
        "tensor(float)": np.float32,
        "tensor(double)": np.float64,
        "tensor(int64)": np.int64,
        "tensor(string)": str,
    }
    if declared not in known:
        raise InputError(f"the ONNX model takes {declared}, which is not supported.")
    return known[declared]


def _is_torch(model: Any) -> bool:
    return any(kind.__module__.startswith("torch.nn") for kind in type(model).__mro__)


def _torch(model: Any, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Softmax of the logits of a module in evaluation mode; the sigmoid of a single one."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            batches = torch.from_numpy(matrix.astype(np.float32)).split(BATCH)
            found = torch.cat([model(batch) for batch in batches]).double().numpy()
    finally:
        model.train(training)
    if found.ndim == 1 or found.shape[1] == 1:
        return np.asarray(1.0 / (1.0 + np.exp(-found.reshape(-1))))
    return _softmax(found)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


__all__ = ["file_of", "is_model", "known_classes", "load_model", "probabilities"]
