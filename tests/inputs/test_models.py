"""Models of four libraries as rows of probabilities; pickles are refused."""

import sys

import catboost
import numpy as np
import pytest
import torch
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression

from dpaudit import InputError, RunFailed
from dpaudit.inputs import models


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    y = (x @ [1.0, -1.0, 0.5] + rng.normal(size=300) > 0).astype(int) + (x[:, 2] > 1)
    return x, y, dict(zip("abc", x.astype(float).T, strict=True))


@pytest.mark.parametrize("zipmap", [True, False])
def test_onnx_of_scikit_learn(task, tmp_path, zipmap):
    x, y, columns = task
    model = LogisticRegression().fit(x, y)
    (tmp_path / "m.onnx").write_bytes(
        to_onnx(model, x[:1], options={"zipmap": zipmap}, target_opset=17).SerializeToString()
    )
    loaded = models.load_model("m.onnx", folder=tmp_path)
    found = models.probabilities(loaded, columns, ["0", "1", "2"])
    assert found == pytest.approx(model.predict_proba(x), abs=1e-5)


def test_catboost_in_its_own_format_and_any_order_of_classes(task, tmp_path):
    x, y, columns = task
    model = catboost.CatBoostClassifier(iterations=5, verbose=False, allow_writing_files=False).fit(x, y)
    model.save_model(str(tmp_path / "m.cbm"))
    found = models.probabilities(models.load_model("m.cbm", folder=tmp_path), columns, ["2", "0", "1"])
    assert found == pytest.approx(model.predict_proba(x)[:, [2, 0, 1]], abs=1e-6)


def test_torch_modules(task):
    x, _, columns = task
    torch.manual_seed(0)
    three, one = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    three.train()
    found = models.probabilities(three, columns, ["0", "1", "2"])
    assert found == pytest.approx(torch.softmax(three(torch.tensor(x)), 1).detach().numpy(), abs=1e-5)
    assert three.training
    single = models.probabilities(one, columns, ["0", "1"])
    assert single[:, 1] == pytest.approx(torch.sigmoid(one(torch.tensor(x))).detach().numpy()[:, 0], abs=1e-5)


def test_scikit_learn_on_named_columns_and_functions(task, tmp_path):
    import pandas as pd

    x, y, columns = task
    named = LogisticRegression().fit(pd.DataFrame(columns), y)
    assert models.probabilities(named, columns, ["0", "1", "2"]) == pytest.approx(
        named.predict_proba(pd.DataFrame(columns))
    )
    plain = LogisticRegression().fit(x, y > 0)
    assert models.probabilities(plain, columns, ["0", "1"]) == pytest.approx(plain.predict_proba(x), abs=1e-6)
    (tmp_path / "own.py").write_text("def model():\n    return lambda rows: 1 / (1 + abs(rows[:, 0]))\n")
    loaded = models.load_model("own.py:model", folder=tmp_path)
    assert models.probabilities(loaded, columns, ["no", "yes"]).shape == (300, 2)
    sys.path.remove(str(tmp_path))


def test_refusals(task, tmp_path):
    _, _, columns = task
    for name in ("model.pkl", "model.joblib", "model.pt"):
        with pytest.raises(InputError, match="must not be a pickle"):
            models.load_model(name)
    with pytest.raises(InputError, match=r"there is no 'm\.onnx'"):
        models.load_model("m.onnx", folder=tmp_path)
    for name, words in (("bad.onnx", "is not an ONNX model"), ("bad.cbm", "is not a CatBoost model")):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(InputError, match=words):
            models.load_model(name, folder=tmp_path)
    with pytest.raises(InputError, match="must have `predict_proba`"):
        models.probabilities(3, columns, ["0", "1"])
    with pytest.raises(InputError, match="is text, and this model takes numbers"):
        models.probabilities(lambda x: x, {"a": np.array(["x"], dtype=object)}, ["0", "1"])
    with pytest.raises(InputError, match="must give 2 probabilities"):
        models.probabilities(lambda x: x, columns, ["0", "1"])
    model = LogisticRegression().fit(np.eye(3), ["x", "y", "z"])
    with pytest.raises(InputError, match="and not w"):
        models.probabilities(model, columns, ["w", "x", "y"])
    with pytest.raises(RunFailed, match="the model failed on these rows"):
        models.probabilities(LogisticRegression().fit(np.eye(2), [0, 1]), columns, ["0", "1"])
    assert models.is_model("a.onnx")
    assert not models.is_model("p_today")
