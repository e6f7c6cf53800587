"""A training loop with jax-privacy, audited: `examples/jax_privacy_loop/run.sh` sets up an environment and runs this.

Linear regression by DP-SGD. Sampling, clipping and noise are jax-privacy's own (`CyclicPoissonSampling`,
`clipped_grad`, `gaussian_privatizer`). The record that comes and goes is a worst case: it alone has the last feature,
and its label is so far away that its gradient is clipped in every step. So the score reads off one weight.
"""

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np

import dpaudit as da

STEPS, RATE, CLIP, NOISE_MULTIPLIER = 8, 0.5, 1.0, 1.0
ADDED = 1.0  # the share of the promised noise that is added; try 0.5
RECORDS, FEATURES, LEARNING_RATE = 40, 5, 0.1

rng = np.random.default_rng(1)
X = np.column_stack([rng.normal(size=(RECORDS, FEATURES - 1)), np.zeros(RECORDS)])
Y = X @ rng.normal(size=FEATURES)
CANARY = np.eye(FEATURES)[-1], 1e6


def loss(weights, x, y):
    """Squared error of one record."""
    return 0.5 * (jnp.dot(x, weights) - y) ** 2


clipped = jax_privacy.clipped_grad(loss, batch_argnums=(1, 2), keep_batch_dim=False, l2_clip_norm=CLIP)
sampling = jax_privacy.batch_selection.CyclicPoissonSampling(sampling_prob=RATE, iterations=STEPS)


def privatizer(seed):
    """Noise for sums of clipped gradients, under add-remove."""
    return jax_privacy.noise_addition.gaussian_privatizer(stddev=ADDED * NOISE_MULTIPLIER * CLIP, prng_key=seed)


@jax.jit
def step(weights, noise_state, x, y, is_padding):
    total = clipped(weights, x, y, is_padding_example=is_padding)
    noisy, noise_state = privatizer(0).update(total, noise_state)  # the key is in the state
    return weights - LEARNING_RATE * noisy / (RATE * RECORDS), noise_state


def train(x, y, seed):
    """The loop; batches are padded to one size, so that it is compiled once."""
    weights = jnp.zeros(FEATURES)
    noise_state = privatizer(seed).init(weights)
    for batch in sampling.batch_iterator(len(x), rng=seed):
        rows = np.append(batch, np.full(RECORDS + 1 - len(batch), -1))  # -1 marks padding
        weights, noise_state = step(weights, noise_state, x[rows], y[rows], rows < 0)
    return np.asarray(weights)


def score(world: bool, seed: int) -> float:
    """Higher means: the record was there. Its gradient is -CLIP along the last weight, which descent raises."""
    x, y = (np.vstack([X, CANARY[0]]), np.append(Y, CANARY[1])) if world else (X, Y)
    return float(train(x.astype(np.float32), y.astype(np.float32), seed)[-1])


if __name__ == "__main__":
    claim = da.accounting.dp_sgd(
        noise_multiplier=NOISE_MULTIPLIER, sampling_rate=RATE, steps=STEPS, delta=1e-5, relation="add-remove"
    )
    here = da.Execution(workers=1)
    print(da.audit(score, claim=claim, name="jax-privacy loop", seed=7, runs=100, execution=here))
