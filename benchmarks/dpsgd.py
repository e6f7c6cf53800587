"""Seconds a model: batched DP-SGD on two threads against a plain Opacus loop, side by side in one run.

    python benchmarks/dpsgd.py

n = 500 records, d = 768 features, T = 500 steps. Ours trains R = 1,000 models; Opacus trains one model at a time, at
its faster of one or two threads, so a few models are enough for its time a model. Prints which share of ours goes into
drawing the Gaussian noise itself, which no trainer can do without.
"""

import math
import resource
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dpaudit.mechanisms.dpsgd import DPSGDConfig, sampling, train

with warnings.catch_warnings(action="ignore"):
    import opacus
    import torch

RECORDS, FEATURES, STEPS, MODELS, THREADS = 500, 768, 500, 1000, 2
CASES = {(1, 1.0): 150, (1, 0.25): 100, (10, 1.0): 60, (10, 0.25): 12}
"""(outputs, sampling rate): the ratio that is asked for."""


def reference_loop() -> float:
    """A fixed loop, so that seconds can be compared between machines."""
    began = time.perf_counter()
    total = 0.0
    for k in range(1_000_000):
        total += math.sqrt(k)
    return time.perf_counter() - began


def ours(outputs: int, rate: float) -> float:
    config = DPSGDConfig(
        noise_multiplier=1.0, sampling_rate=rate, steps=STEPS, clip=2.0, learning_rate=0.001, classes=outputs,
        loss="logistic" if outputs == 1 else "softmax",
    )  # fmt: skip
    x, y = problem(outputs)
    began = time.perf_counter()
    train(config, x, y, models=MODELS, seed=1, threads=THREADS, final=False)
    return (time.perf_counter() - began) / MODELS


def noise_alone(outputs: int) -> float:
    """The normals of one model, drawn on as many threads."""
    blocks = 400 // outputs

    def one(block: int) -> None:
        sampling.gaussian(sampling.keyed(1, block, 1, sampling.STEP), (FEATURES, 64, outputs))

    with ThreadPoolExecutor(THREADS) as pool:
        began = time.perf_counter()
        list(pool.map(one, range(blocks)))
        return (time.perf_counter() - began) / blocks / 64 * STEPS


def theirs(outputs: int, rate: float, threads: int, *, models: int = 2) -> float:
    """A plain Opacus loop, the quickest of a few models."""
    torch.set_num_threads(threads)
    x, y = problem(outputs)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    best = math.inf
    for _ in range(models):
        model = torch.nn.Linear(FEATURES, outputs, bias=False)
        with warnings.catch_warnings(action="ignore"):
            model, optimizer, loader = opacus.PrivacyEngine().make_private(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.001),
                data_loader=torch.utils.data.DataLoader(dataset, batch_size=int(RECORDS * rate)),
                noise_multiplier=1.0,
                max_grad_norm=2.0,
                poisson_sampling=rate < 1.0,
            )
            began = time.perf_counter()
            fit(model, optimizer, loader, outputs)
            best = min(best, time.perf_counter() - began)
    return best


def fit(model, optimizer, loader, outputs: int) -> None:
    done = 0
    while done < STEPS:
        for rows, labels in loader:
            optimizer.zero_grad()
            logits = model(rows)
            if outputs == 1:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], labels.float())
            else:
                loss = torch.nn.functional.cross_entropy(logits, labels)
            loss.backward()
            optimizer.step()
            done += 1
            if done == STEPS:
                return


def problem(outputs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(RECORDS, FEATURES)).astype(np.float32), rng.integers(0, max(outputs, 2), RECORDS)


def main() -> None:
    print(f"reference loop of a million square roots: {1e3 * reference_loop():.0f} ms")
    print(f"n = {RECORDS}, d = {FEATURES}, T = {STEPS}; ours R = {MODELS:,} on {THREADS} threads")
    print("outputs  rate   ours ms  Opacus ms (threads)   ratio  asked  noise share  rest / noise")
    for (outputs, rate), asked in CASES.items():
        mine, floor = ours(outputs, rate), noise_alone(outputs)
        other, threads = min((theirs(outputs, rate, n), n) for n in (1, 2))
        ratio = other / mine
        mark = "" if ratio >= asked else "  BELOW"
        print(
            f"{outputs:7d}  {rate:4.2f}  {1e3 * mine:8.2f}  {1e3 * other:9.0f} ({threads})       {ratio:6.0f}  "
            f"{asked:5d}  {floor / mine:11.0%}  {(mine - floor) / floor:12.1f}{mark}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process, Opacus and torch included: {peak:.2f} GB")


if __name__ == "__main__":
    main()
