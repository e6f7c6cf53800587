"""Makes members.csv, the people that the model of model.py is trained on, and others.csv, more of the same kind."""

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CITIES = np.array(["Aachen", "Basel", "Como"])
COLUMNS = ("age", "visits", "minutes", "distance", "city", "clicked")


def people(count, rng):
    """Numbers that hang together, a city, and whether such a person clicks."""
    age = np.clip(rng.normal(45.0, 12.0, count), 18.0, 90.0).round().astype(int)
    city = rng.choice(3, size=count, p=(0.45, 0.3, 0.25))
    visits = rng.poisson(6.0 + 4.0 * (city == 1) + (age < 40))
    minutes = (visits * rng.gamma(4.0, 0.6, count)).round(1)
    distance = rng.gamma(2.0, 5.0 + 3.0 * city).round(1)
    odds = 0.3 * (visits - 8) - (age - 45.0) / 12.0 + 0.5 * (city == 2)
    clicked = np.where(rng.random(count) < 1.0 / (1.0 + np.exp(-odds)), "yes", "no")
    return age, visits, minutes, distance, CITIES[city], clicked


def main():
    rng = np.random.default_rng(23)
    for name, count in (("members.csv", 3000), ("others.csv", 2100)):
        with open(HERE / name, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(zip(*people(count, rng), strict=True))


if __name__ == "__main__":
    main()
