"""The audited model: trees that learn their rows by heart. In earnest it would be loaded, not trained here."""

from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder


def model():
    members = pd.read_csv(Path(__file__).parent / "members.csv")
    cities = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough")
    trees = ExtraTreesClassifier(100, random_state=0, n_jobs=1)
    return make_pipeline(cities, trees).fit(members.drop(columns="clicked"), members["clicked"])
