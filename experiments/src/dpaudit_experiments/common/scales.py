"""The sizes of paper 001's experiments: the paper's own, those of the committed results, those of the tests."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of all experiments.

    Attributes
    ----------
    worst_case_models, worst_case_steps, seeds
        S1: models an audit (both worlds), steps, audits for the medians and for the count of over-claims.
    probe_models, probe_steps, records
        S2 to S5 on a linear probe; `text_...` the same on sentences, `deep_...` on a perceptron.
    marks
        How many steps are audited along a training.
    grid
        Sampling rates and noise multipliers that are accounted for.
    fetched
        Whether to use real data that must be fetched, or the embedded digits in their place.
    """

    worst_case_models: int
    worst_case_steps: int
    seeds: int
    probe_models: int
    probe_steps: int
    long_steps: int
    varied_models: int
    records: int
    text_models: int
    text_steps: int
    text_records: int
    deep_models: int
    deep_steps: int
    deep_records: int
    deep_width: int
    marks: int
    rates: tuple[float, ...] = (1.0, 0.25, 0.0625)
    grid: tuple[tuple[float, ...], tuple[float, ...]] = (
        (1.0, 0.5, 0.25, 0.0625),
        (0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
    )
    fetched: bool = True


PAPER = Scale(
    worst_case_models=25_000,
    worst_case_steps=500,
    seeds=3,
    probe_models=2500,
    probe_steps=500,
    long_steps=2500,
    varied_models=2500,
    records=500,
    text_models=2500,
    text_steps=2500,
    text_records=5000,
    deep_models=2500,
    deep_steps=2500,
    deep_records=50_000,
    deep_width=128,
    marks=20,
)
FULL = replace(
    PAPER,
    seeds=20,
    varied_models=1000,
    text_models=400,
    deep_models=400,
    deep_steps=100,
    deep_records=1000,
    marks=10,
)
QUICK = replace(
    PAPER,
    worst_case_models=2000,
    worst_case_steps=20,
    seeds=1,
    probe_models=400,
    probe_steps=20,
    long_steps=40,
    varied_models=400,
    records=60,
    text_models=256,
    text_steps=20,
    text_records=80,
    deep_models=128,
    deep_steps=10,
    deep_records=100,
    deep_width=8,
    marks=2,
    rates=(1.0, 0.25),
    grid=((1.0, 0.25), (1.0, 2.0)),
    fetched=False,
)
