"""One seeded training run of a loop that uses Opacus, with its optimizer wrapped; torch is loaded here."""

from __future__ import annotations

import contextlib
import importlib
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit._validate import InputError
from dpaudit.execution import stream
from dpaudit.integrations.opacus.bugs import BUGS, wrap

Build = Callable[[Any, int], tuple[Any, Any, Any]]
Fit = Callable[[Any, Any, Any], Any]
NOT_FOR_AUDITORS = (
    "Secure RNG turned off",  # seeded noise is what an audit needs
    "Full backward hook is firing when gradients are computed with respect to module outputs",  # inputs need none
)


def run(
    build: Build,
    fit: Fit,
    dataset: Any,
    seed: int,
    prepare: Callable[[Any, Any], Callable[[Any], Any]],
    *,
    bug: str | None = None,
) -> Any:
    """Build, switch on the bug, let `prepare` wrap the optimizer, train, and read the model."""
    torch, _ = packages()
    with warnings.catch_warnings(), _seeded(torch, seed):
        for message in NOT_FOR_AUDITORS:
            warnings.filterwarnings("ignore", message=message)
        model, optimizer, loader = _checked(build(dataset, seed))
        if bug is not None:
            BUGS[bug](optimizer)
        read = prepare(optimizer, loader)
        fit(model, optimizer, loader)
        return read(model)


@contextlib.contextmanager
def _seeded(torch: Any, seed: int) -> Iterator[None]:
    """Global generators from the seed, each with a stream of its own: `build` may use the seed itself for another."""
    first, second, third = stream(seed, "global generators of a loop").integers(2**32, size=3).tolist()
    kept, threads = (random.getstate(), np.random.get_state()), torch.get_num_threads()  # noqa: NPY002
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            torch.set_num_threads(1)  # sums in another order would be other numbers
            torch.manual_seed(first)
            np.random.seed(second)  # noqa: NPY002 - loops may use the global generator
            random.seed(third)
            yield
        finally:
            torch.set_num_threads(threads)
            random.setstate(kept[0])
            np.random.set_state(kept[1])  # noqa: NPY002


def packages() -> tuple[Any, Any]:
    """torch and opacus, which are loaded here and nowhere else."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of their imports; nothing has run yet
            return importlib.import_module("torch"), importlib.import_module("opacus")
    except ImportError:
        raise InputError(
            "auditing an Opacus loop needs the packages torch and opacus, which are not installed.",
            "pip install 'dpaudit[opacus]'.",
        ) from None


def _checked(built: Any) -> tuple[Any, Any, Any]:
    """What `build` returned, if it can be audited."""
    optimizers = importlib.import_module("opacus.optimizers")
    if not isinstance(built, tuple | list) or len(built) != 3:
        raise InputError("`build` must return (model, optimizer, loader), as make_private does.")
    model, optimizer, loader = built
    kind = type(optimizer).__name__
    if not isinstance(optimizer, optimizers.DPOptimizer):
        raise InputError(f"`build` must return the optimizer of PrivacyEngine.make_private, got {kind}.")
    if isinstance(optimizer, optimizers.DPOptimizerFastGradientClipping | optimizers.AdaClipDPOptimizer):
        raise InputError(
            f"`build` must return an optimizer with per-sample gradients and a fixed clip, got {kind}.",
            'use grad_sample_mode="hooks" and clipping="flat" for the audit.',
        )
    if optimizer.secure_mode:
        raise InputError("an audited run must be reproducible from its seed, got secure_mode=True.")
    return model, optimizer, loader


def poisson_rate(loader: Any) -> float | None:
    """The rate of a loader that samples each record by itself, as Opacus's do; None for others."""
    sampler = getattr(loader, "batch_sampler", None)
    rate = getattr(loader, "sample_rate", None) or getattr(sampler, "sample_rate", None)
    return None if rate is None else float(rate)


def after_release(optimizer: Any, act: Callable[[], None]) -> None:
    """Act in each step, when `p.grad` is what the inner optimizer will be given."""

    def around(old: Any, *arguments: Any, **named: Any) -> Any:
        goes_on = old(*arguments, **named)  # false: one of several physical batches, and not the last
        if goes_on:
            act()
        return goes_on

    wrap(optimizer, "pre_step", around)


def flat_parameters(optimizer: Any) -> NDArray[np.float64]:
    """All trainable parameters as one vector, in the order in which coordinates count."""
    return np.concatenate([p.detach().cpu().double().numpy().ravel() for p in optimizer.params])
