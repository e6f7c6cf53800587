"""Makes people.csv: what somebody has who asks a released model about people of whom it is known who was trained on.

A forest learnt from the people of 2023 who will click. The others came in 2025: they are older, come less often, and
live elsewhere, so they can be told from the first without any model. `loss` is the forest's loss on each person.
"""

import csv
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier

HERE = Path(__file__).parent
CITIES = np.array(["Aachen", "Basel", "Como"])
FEATURES = ("age", "visits", "minutes", "distance", "city")


def people(count, rng, *, later):
    """Five features and a label; the years differ in who comes, not in what such a person does."""
    numbers = rng.normal(size=(count, 4))
    numbers[:, :2] += (0.35, -0.25) if later else (-0.35, 0.25)
    numbers = (numbers * (12.0, 3.0, 8.0, 5.0) + (45.0, 12.0, 30.0, 20.0)).round(1)
    city = rng.choice(3, size=count, p=(0.25, 0.3, 0.45) if later else (0.45, 0.3, 0.25))
    odds = (numbers[:, 1] - 12.0) / 3.0 - (numbers[:, 0] - 45.0) / 12.0 + 0.5 * (city == 2)
    return numbers, city, rng.random(count) < 1.0 / (1.0 + np.exp(-odds))


def main():
    rng = np.random.default_rng(23)
    (x, city, clicked), (other, elsewhere, labels) = (people(2500, rng, later=later) for later in (False, True))
    numbers, cities, y = np.vstack([x, other]), np.append(city, elsewhere), np.append(clicked, labels)
    inputs, member = np.column_stack([numbers, np.eye(3)[cities]]), np.arange(5000) < 2500
    forest = RandomForestClassifier(100, random_state=0).fit(inputs[member], y[member])
    right = forest.predict_proba(inputs)[np.arange(5000), y.astype(int)]
    loss = -np.log(np.maximum(right, 0.005)).round(3)  # a vote of 0 of 100 is no probability of 0
    years, words = np.where(member, 2023, 2025), np.array(["no", "yes"])
    columns = (member.astype(int), years, *numbers.T, CITIES[cities], words[y.astype(int)], loss)
    order = rng.permutation(5000)
    with open(HERE / "people.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("member", "year", *FEATURES, "clicked", "loss"))
        writer.writerows(zip(*(column[order] for column in columns), strict=True))


if __name__ == "__main__":
    main()
