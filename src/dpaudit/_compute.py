"""Numbers that do not depend on the machine: one thread for every sum; and torch, or a clear refusal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dpaudit._validate import InputError


def torch_or_refuse() -> Any:
    """torch, imported when it is first needed."""
    try:
        import torch
    except ImportError:
        raise InputError(
            "models of torch need the package torch, which is not installed.",
            "pip install 'dpaudit[torch]'; the models and learners that are numpy or scikit-learn do without it.",
        ) from None
    return torch


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """torch on one thread, because sums in another order would be other numbers; put back afterwards."""
    torch = torch_or_refuse()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_thread(*, trees: bool = False) -> AbstractContextManager[Any]:
    """Linear algebra on one thread, because sums in another order would be other numbers; `trees`: boosted ones too."""
    from threadpoolctl import threadpool_limits

    if trees:  # threads are limited only of libraries that are loaded
        import sklearn.ensemble  # noqa: F401
    return threadpool_limits(1)
