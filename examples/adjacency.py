"""Which adjacency does my DP-SGD keep? Two thousand models of a linear probe on digits, in some seconds.

The noise is what promises epsilon 4 (delta 1e-5) to whoever *adds or removes* a record. The audit replaces one.
"""

import numpy as np
from sklearn.datasets import load_digits

import dpaudit as da
from dpaudit import accounting, attacks, games
from dpaudit.mechanisms.dpsgd import DPSGDConfig

digits = load_digits()
pixels, labels = digits.data / 16.0, digits.target
kept = labels < 2
x = np.hstack([pixels[kept][:200], np.ones((200, 1))])
y = labels[kept][:200]

sigma = accounting.noise_multiplier_for(epsilon=4.0, delta=1e-5, sampling_rate=1.0, steps=100, relation="add-remove")
config = DPSGDConfig(noise_multiplier=sigma, steps=100, learning_rate=0.1, relation="substitute")
canary = attacks.least_updated(config, x, y, seed=1)  # S2 of paper 001: a gradient against its opposite
game = games.TrainedRuns(config=config, x=x, y=y, canary=canary, score=attacks.Displacement(canary.present), runs=1000)
(promise,) = accounting.adjacencies(noise_multiplier=sigma, sampling_rate=1.0, steps=[100], delta=1e-5)

if __name__ == "__main__":
    print(f"add/remove promises {promise.add_remove:.2f}, substitution {promise.substitute:.2f}, "
          f"by group privacy {promise.by_group:.2f}")  # fmt: skip
    honest = config.claim(1e-5)
    print(da.audit(game, claim=honest, name="accounted for substitution", seed=7))
    runs = game.play(seed=7).only
    sold = accounting.claimed_as(accounting.dp_sgd(
        noise_multiplier=sigma, sampling_rate=1.0, steps=100, delta=1e-5, relation="add-remove"
    ), "substitute")  # fmt: skip
    print("accounted for add/remove, claimed as substitution")
    print(f"  {da.judge(runs, sold)}")
