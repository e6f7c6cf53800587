"""A trainer of your own, in plain Python: what `dpaudit run examples/noisy_mean/audit.toml` audits.

`train` stands for anything that takes data and randomness and releases something. `score` is all that an audit needs:
run the trainer with the record or without it, with all randomness from `seed`, and say how present the record looks.
"""

import random

INCOMES = [0.31, 0.85, 0.12, 0.58, 0.44, 0.97, 0.20]  # each in [0, 1]
RECORD = 1.0  # the one that comes and goes
NOISE = 1.0  # one record moves the sum by at most 1, so the promise mu = 1 needs this; try 0.5


def train(records, seed):
    """A sum with Gaussian noise."""
    return sum(records) + random.Random(seed).gauss(0.0, NOISE)


def score(world: bool, seed: int) -> float:
    """Higher means: the record was there."""
    return train([*INCOMES, RECORD] if world else INCOMES, seed)
