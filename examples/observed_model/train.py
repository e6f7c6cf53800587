"""A forest that was trained on train.csv: whoever audits it gets the fitted model from `model()`.

`python train.py` makes the tables of both examples anew: people with five numbers each, and whether they clicked.
"""

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
FEATURES = ("age", "visits", "minutes", "distance", "spent")


def model():
    """The audited model, as its owners fitted it."""
    from sklearn.ensemble import RandomForestClassifier

    with open(HERE / "train.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    x = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    return RandomForestClassifier(100, random_state=0).fit(x, [row["clicked"] for row in rows])


def people(count, rng):
    clicked = rng.integers(0, 2, count)
    x = rng.normal(size=(count, 5)).round(3)
    x[np.arange(count), clicked] = (x[np.arange(count), clicked] + 1.0).round(3)
    odds = x[:, 1] - x[:, 0]
    return x, clicked, 1.0 / (1.0 + np.exp(-odds))


def write(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])


def main():
    rng = np.random.default_rng(11)
    words = np.array(["no", "yes"])
    x, clicked, posterior = people(2000, rng)
    write(HERE / "train.csv", (*FEATURES, "clicked"), ([*row, words[y]] for row, y in zip(x, clicked, strict=True)))
    other, labels, _ = people(6000, rng)
    write(HERE / "other.csv", (*FEATURES, "clicked"), ([*row, words[y]] for row, y in zip(other, labels, strict=True)))
    today = model().predict_proba(x)[:, 1]
    users = np.arange(2000) // 2
    rows = zip(users, words[clicked], today.round(3), posterior.round(4), strict=True)
    names, folder = ("user_id", "clicked", "p_today", "p_yesterday"), HERE.parent / "observed_predictions"
    write(folder / "predictions.csv", names, rows)
    tomorrow, labels, posterior = people(4000, rng)  # whom no model has seen yet
    today = model().predict_proba(tomorrow)[:, 1]
    rows = zip(1000 + np.arange(4000) // 2, words[labels], today.round(3), posterior.round(4), strict=True)
    write(folder / "tomorrow.csv", names, rows)


if __name__ == "__main__":
    main()
