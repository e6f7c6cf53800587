"""A first audit, from two arrays of scores: what the README shows.

A release adds Gaussian noise to a count. It promises mu = 1; by mistake, the noise is only half of what that takes.
Each run is scored by the released value itself, with one record present and without it.
"""

import numpy as np

import dpaudit as da

rng = np.random.default_rng(7)
noise = 0.5  # the promise would need 1.0
runs = da.RunScores(
    present=1.0 + noise * rng.normal(size=300),
    absent=0.0 + noise * rng.normal(size=300),
    relation="add-remove",
)
claim = da.accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")

print("what is promised")
print(f"  {claim}")
print("what the runs show")
for bound in (da.estimators.epsilon_from_runs(runs, delta=1e-5), da.estimators.mu_from_runs(runs)):
    print("  " + str(bound).replace("\n", "\n  "))
print("verdict")
print(f"  {da.judge(runs, claim)}")
