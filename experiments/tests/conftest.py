"""What the tests of the experiments share; every seed is fixed."""

import numpy as np
import pytest

from dpaudit_experiments.data import archives
from made_archives import pin

pytest.register_assert_rewrite("papers")


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    monkeypatch.setenv("DPAUDIT_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def install(folder, monkeypatch):
    """Put an archive into the data folder as if it were the one whose SHA-256 is pinned."""

    def put(name, content):
        pin(monkeypatch, name, content)
        (folder / archives.SOURCES[name].file).write_bytes(content)

    return put
