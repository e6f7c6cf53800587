"""Small systems whose audits are frozen: what leaks, the data, and guesses about them, all from fixed seeds."""

from dataclasses import replace

import numpy as np
from scipy import special
from sklearn.linear_model import LogisticRegression

from dpaudit import counterfactuals, games
from tests.conftest import leaky_membership


def half_noise(world, seed):
    """A score that promises mu = 1 and has half the noise that takes."""
    return float(world) + 0.5 * np.random.default_rng(seed).normal()


def full_noise(world, seed):
    return float(world) + np.random.default_rng(seed).normal()


def broken(world, seed):
    raise OSError("no disk")


def loud_canaries(included, seed):
    """One run: half the noise, so that most canaries show."""
    return included + 0.5 * np.random.default_rng(seed).normal(size=included.size)


def votes(world, seed):
    """Two queries of three answers; the record makes the second answer of the first one likelier."""
    rng = np.random.default_rng(seed)
    first = rng.choice(3, p=[0.2, 0.7, 0.1] if world else [0.6, 0.2, 0.2])
    return np.array([first, rng.integers(0, 3)])


# ---------------------------------------------------------------------------------------------------------- observation


def _mixture(rows, rng):
    """Features of two classes, a label each, and its distribution given the features."""
    label = rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, 3)) + 0.7 * (2 * label[:, None] - 1) * np.array([1.0, 0.5, 0.0])
    odds = 1.4 * x[:, 0] + 0.7 * x[:, 1]
    return x, label, np.stack([special.expit(-odds), special.expit(odds)], axis=1)


def labels(epsilon=3.0, rows=1500, seed=2, sharp=1.0, **more):
    """Labels released by randomised response; proxy: their distribution given the features, to the power `sharp`."""
    rng = np.random.default_rng(seed)
    x, label, distribution = _mixture(rows, rng)
    keep = special.expit(epsilon)
    released = np.where(rng.random(rows) < keep, label, 1 - label)
    channel = np.where(np.arange(2) == released[:, None], keep, 1.0 - keep)
    told = distribution**sharp
    return games.Observational(
        values=label,
        counterfactual=counterfactuals.Categorical(told / told.sum(axis=1, keepdims=True)),
        target=counterfactuals.posterior(channel, counterfactuals.Categorical(distribution)),
        features=x,
        **more,
    )


def noisy_proxy(rows=1500, seed=5, **more):
    """A target that leaks nothing, and a proxy whose probabilities are noisy: no calibration mends it."""
    rng = np.random.default_rng(seed)
    x, label, distribution = _mixture(rows, rng)
    noisy = np.clip(distribution[:, 1] + 0.3 * rng.normal(size=rows), 0.0, 1.0)
    counterfactual = counterfactuals.Categorical(np.stack([1.0 - noisy, noisy], axis=1))
    return games.Observational(
        values=label,
        counterfactual=counterfactual,
        target=counterfactuals.Categorical(distribution),
        features=x,
        **more,
    )


def amounts(learnt, rows=1500, seed=3):
    """A number released with Laplace noise; its proxy is a normal distribution, or residuals of other rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    values = x + rng.normal(size=rows)
    released = np.clip(values, -2.0, 2.0) + rng.laplace(scale=0.5, size=rows)

    def likelihood(asked):
        return np.exp(-np.abs(released - np.clip(asked, -2.0, 2.0)) / 0.5)

    distribution = counterfactuals.Residuals(x, rng.normal(size=1000)) if learnt else counterfactuals.Normal(x, 1.0)
    return games.Observational(
        values=values,
        counterfactual=distribution,
        target=counterfactuals.NumericPosterior(likelihood, distribution),
        features=x[:, None],
    )


def whole_records(members=800, seed=4):
    """Training records whose labels the model is sure of, and fresh ones of which it is not."""
    return leaky_membership(np.random.default_rng(seed), members)


def rows_of_model(rng, rows, epsilon=0.0, group=None):
    """Rows of a model that knows the law of their labels, nearly; where it leaks, what randomised response released."""
    x, label, distribution = _mixture(rows, rng)
    keep = special.expit(epsilon)
    released = np.where(rng.random(rows) < keep, label, 1 - label)
    channel = np.where(np.arange(2) == released[:, None], keep, 1.0 - keep) * np.exp(0.3 * rng.normal(size=(rows, 2)))
    law = counterfactuals.Categorical(distribution)
    columns = dict(zip(("age", "visits", "minutes"), x.T, strict=True))
    return games.Rows(label, counterfactuals.posterior(channel, law), law, group, columns)


def matched(epsilon=3.0, rows=1500, others=1200, seed=12, **more):
    """Labels of rows that a model was trained on, which it tells with `epsilon`, and of rows that it never saw."""
    rng = np.random.default_rng(seed)
    audited, unseen = rows_of_model(rng, rows, epsilon), rows_of_model(rng, others)
    return games.MatchedRows(**{"audited": audited, "placebo": unseen, **more})


def clustered(seed=13):
    """Streets of 20 rows with one label each, which stand in no order: 40 draws that look like 800."""
    rng = np.random.default_rng(seed)
    street, flat = rng.permutation(np.repeat(np.arange(40), 20)), counterfactuals.Categorical(np.full(800, 0.5))
    columns = {"age": rng.normal(size=800)}
    unseen = games.Rows(rng.integers(0, 2, 40)[street], flat, flat, columns=columns, marks={"street": street})
    return matched(placebo=unseen)


def recognised(seed=14, rows=1500):
    """A model of labels that were drawn anew: on rows of its training it knows their law, on others only the proxy's.

    The proxy knows nothing of rows. So the model tells true labels of its training better, and has learnt none.
    """
    rng = np.random.default_rng(seed)
    flat = counterfactuals.Categorical(np.full((rows, 2), 0.5))
    tables = [replace(rows_of_model(rng, rows), counterfactual=flat) for _ in range(2)]
    stranger = counterfactuals.posterior(np.exp(0.3 * rng.normal(size=(rows, 2))), flat)
    again = games.Retrained(tables[0].target, stranger)
    return games.MatchedRows(audited=tables[0], placebo=tables[1], redrawn=again)


def copied(**more):
    """Users with rows in both tables, and rows that were entered twice."""
    game, copies = matched(**more), 40
    audited, unseen = game.audited, game.placebo
    columns = {name: column.copy() for name, column in unseen.columns.items()}
    values = unseen.values.copy()
    values[-copies:] = audited.values[:copies]
    for name, column in columns.items():
        column[-copies:] = audited.columns[name][:copies]
    users = np.arange(len(audited)) // 2, len(audited) // 2 - 30 + np.arange(len(unseen)) // 2
    unseen = replace(unseen, values=values, columns=columns, group=users[1])
    return replace(game, audited=replace(audited, group=users[0]), placebo=unseen, unit="user")


# ------------------------------------------------------------------------------------------------- members, given, made


def members(rows=1600, seed=1, epsilon=2.0, apart=1.0):
    """Scores, memberships and features: members differ by their first column, and the score leaks `epsilon`."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(np.arange(rows) < rows // 2)
    x = rng.normal(size=(rows, 3))
    x[:, 0] += np.where(member, apart / 2.0, -apart / 2.0)
    told = np.where(rng.random(rows) < special.expit(epsilon), 1.0, -1.0) * np.where(member, 1.0, -1.0)
    return 3.0 * told + 0.5 * x[:, 0] + 0.1 * rng.normal(size=rows), member, x


def known_members(rows=1600, seed=6):
    """Members that follow propensities that are known."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    rates = special.expit(x)
    member = rng.random(rows) < rates
    told = np.where(rng.random(rows) < special.expit(2.0), 1.0, -1.0) * np.where(member, 1.0, -1.0)
    return {"scores": told + 0.1 * rng.normal(size=rows), "member": member, "propensity": rates}


def weak_correction(rows=2000, seed=10):
    """Groups that differ by a square, where the propensity is a line; the truth of N(0, 4) against N(0, 1) beside."""
    rng = np.random.default_rng(seed)
    member = np.arange(rows) < rows // 2
    x = rng.normal(size=(rows, 3))
    x[member, 0] *= 2.0
    scores = np.abs(x[:, 0]) + rng.normal(size=rows)
    return scores, member, x, special.expit(0.375 * x[:, 0] ** 2 - np.log(2.0))


class Same:
    """A generator that is the distribution of `people` itself."""

    def fit(self, rows):
        return self

    def sample(self, count, seed=0):
        return np.random.default_rng(seed).normal(size=(count, 3))


def people(seed, rows=1200):
    return np.random.default_rng(10_000 + seed).normal(size=(rows, 3))


def remembers(rows):
    """A model whose loss is low on its own rows."""
    known = {row.tobytes() for row in rows}

    def loss(asked):
        noise = 0.3 * np.random.default_rng(len(asked)).normal(size=len(asked))
        return np.array([0.0 if row.tobytes() in known else 1.0 for row in asked]) + noise

    return loss


def plain_loss(asked):
    """A model that leaks nothing."""
    return np.abs(asked[:, 0])


def made(seed=1, target=None, **more):
    """Known members against generated rows."""
    rows = people(seed)
    common = {"members": rows, "target": remembers(rows) if target is None else target, "generator": Same()}
    return games.Panoramia(**(common | {"classifiers": {"line": LogisticRegression()}} | more))
