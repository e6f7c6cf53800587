"""Audits of paper 001's experiments: S2 to S5 planted into a task, bounded at the last step and along the training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit import accounting, attacks, estimators
from dpaudit.bounds import Relation
from dpaudit.estimators.thresholds import Uncorrected
from dpaudit.evidence import RunScores
from dpaudit.execution import Execution
from dpaudit.games import Runner, TrainedRuns
from dpaudit.mechanisms.dpsgd import DPSGDConfig
from dpaudit_experiments.common.tasks import Task

DELTA, EPSILON = 1e-5, 10.0
PRINTED = "S3 as printed"
CANARIES = ("S2 gradient", "S3 crafted input", "S4 mislabelled", "S5 natural")


def recipe_for(rate: float, steps: int, *, epsilon: float = EPSILON, **more: Any) -> DPSGDConfig:
    """DP-SGD whose substitute epsilon at delta 1e-5 is this."""
    sigma = accounting.noise_multiplier_for(
        epsilon=epsilon, delta=DELTA, sampling_rate=rate, steps=steps, relation=Relation.SUBSTITUTE
    )
    return DPSGDConfig(noise_multiplier=sigma, sampling_rate=rate, steps=steps, relation=Relation.SUBSTITUTE, **more)


def canaries(
    config: DPSGDConfig, task: Task, *, seed: int, printed: bool = False
) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """S2 to S5, and S3 as `printed` in the paper."""
    reference = attacks.Reference(config, task.x, task.y, seed=seed)
    target = reference.least_confident()
    x, y = np.delete(task.x, target, axis=0), np.delete(task.y, target)
    record = (task.x[target], float(task.y[target]))
    gradient = attacks.least_updated(config, x, y, seed=seed)
    yield CANARIES[0], x, y, gradient, attacks.Displacement(gradient.present)
    crafted = {
        CANARIES[1]: attacks.crafted_input(reference, record),
        CANARIES[2]: attacks.mislabelled(reference, record),
        CANARIES[3]: attacks.adversarial_natural(reference, record, (task.spare_x, task.spare_y)),
    }
    if printed:
        crafted[PRINTED] = attacks.crafted_input(reference, record, published=True)
    for name, canary in crafted.items():
        yield name, x, y, canary, attacks.LogitDifference(canary.present, canary.absent)


def marks_of(steps: int, count: int) -> list[int]:
    """The audited steps: equally spaced, the last among them."""
    return sorted({max(1, round(steps * (k + 1) / count)) for k in range(count)})


def bounds_at_end(runs: RunScores, config: DPSGDConfig) -> dict[str, Any]:
    """The three bounds of the last step, the paper's own number, and what is promised."""
    family = accounting.dp_sgd_family(sampling_rate=config.sampling_rate, steps=config.steps, relation=config.relation)
    free = estimators.epsilon_from_runs(runs, delta=DELTA)
    plain = replace(config, relation=Relation.ADD_REMOVE).claim(DELTA)
    return {
        "epsilon_family": estimators.family_from_runs(runs, family=family, delta=DELTA).epsilon,
        "epsilon_gaussian": estimators.mu_from_runs(runs, delta=DELTA).epsilon,
        "epsilon_free": free.epsilon,
        "epsilon_free_ceiling": free.ceiling,
        "epsilon_as_published_estimate": estimators.mu_from_runs(runs, delta=DELTA, threshold=Uncorrected()).epsilon,
        "promised_add_remove": plain.epsilon,
        "promised_substitute": config.claim(DELTA).epsilon,
        "add_remove_claimed_as_substitute": str(
            estimators.judge(runs, accounting.claimed_as(plain, Relation.SUBSTITUTE)).outcome
        ),
        "substitute": str(estimators.judge(runs, config.claim(DELTA)).outcome),
    }


def along_training(runs: dict[int, RunScores]) -> list[dict[str, Any]]:
    """Epsilon through mu at every mark, all marks together at 95%."""
    found = estimators.by_step(runs, bound=estimators.mu_from_runs, delta=DELTA)
    return [
        {"step": step, "mu": bound.mu, "epsilon_gaussian_all_steps": bound.epsilon} for step, bound in found.items()
    ]


@dataclass(frozen=True)
class Study:
    """Audits of one task under several recipes: each canary of each, at the end and along the training."""

    task: Task
    models: int
    marks: int
    seed: int
    execution: Execution
    printed: bool = False

    def rows(self, config: DPSGDConfig, **labels: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number, (name, x, y, canary, score) in enumerate(
            canaries(config, self.task, seed=self.seed, printed=self.printed)
        ):
            how: dict[str, Any] = {"runs": self.models // 2, "at": tuple(marks_of(config.steps, self.marks))}
            game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=score, **how)
            runs = game.play_steps(seed=self.seed + number, runner=Runner(self.execution, title=f"{name} {labels}"))
            common = {"canary": name, **labels}
            found.append({**common, "kind": "end", **bounds_at_end(runs[config.steps], config)})
            found += [{**common, "kind": "step", **row} for row in along_training(runs)]
        return found

    def promises(self, config: DPSGDConfig, **labels: Any) -> list[dict[str, Any]]:
        """What the accountant says at each mark, three ways."""
        steps = marks_of(config.steps, self.marks)
        sizes = {"noise_multiplier": config.noise_multiplier, "sampling_rate": config.sampling_rate}
        return [
            {
                "kind": "promise",
                **labels,
                "step": one.steps,
                "add_remove": one.add_remove,
                "substitute": one.substitute,
                "substitute_by_group": one.by_group,
            }
            for one in accounting.adjacencies(**sizes, steps=steps, delta=DELTA)
        ]
