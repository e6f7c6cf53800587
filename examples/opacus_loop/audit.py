"""A training loop of your own with Opacus: what `dpaudit run examples/opacus_loop/audit.toml` audits.

`build` and `fit` are the loop as it is: whatever ends in `make_private`, and the steps. `score` puts one more row among
the per-sample gradients that Opacus clips, sums and noises, and reads off how present it looks.

To see a bug being caught, give the score a name of `dpaudit.integrations.opacus.BUGS`:

    score = replace(score, bug="half_noise")   # from dataclasses import replace

or all of them at once: `for name, mutant in score.mutants().items(): ...`. Then `dpaudit run` exits with 1.
"""

import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from dpaudit.integrations.opacus import GradientCanary

STEPS = 8


def records() -> TensorDataset:
    """Two hundred digits of 8 by 8 pixels."""
    pixels, labels = load_digits(return_X_y=True)
    return TensorDataset(torch.tensor(pixels[:200] / 16, dtype=torch.float32), torch.tensor(labels[:200]))


def build(dataset, seed):
    """torch's global generator is seeded already; `seed` is for whatever has a generator of its own."""
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=DataLoader(dataset, batch_size=100),  # Opacus turns it into Poisson samples at rate 1/2
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )


def fit(model, optimizer, loader):
    """The loop."""
    for _ in range(STEPS // len(loader)):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


# The canary's gradient: the corner pixel's weights for the digits 0 and 1, against each other. That pixel is white in
# every digit, so the data do not disturb it; for a model where one cannot tell, `least_updated(build, fit, records())`
# finds such a coordinate. `sees="steps"` looks at every step, as the accountant's adversary does.
score = GradientCanary(build=build, fit=fit, dataset=records(), gradient={0: 1.0, 64: -1.0}, sees="steps")
