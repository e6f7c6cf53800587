"""Paper 001, "Beyond Membership": DP-SGD audited under substitute adjacency, with five kinds of canaries.

Every figure is a function of a `Scale` and a seed. `PAPER` says the paper's sizes, `FULL` those of the committed
results, `QUICK` those of the tests, where the images are scikit-learn's digits and nothing is fetched.

All bounds are at 95% and delta 1e-5. Three are given at the last step, which is fixed in advance: of epsilon under
DP-SGD's own family of curves (conditional on it), of epsilon through mu (conditional on a Gaussian curve), and of
epsilon with no assumption. Along the training, mu is bounded at all steps together (a union over them).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import accounting, attacks, estimators
from dpaudit.assumptions import round_down, round_up
from dpaudit.evidence import RunScores
from dpaudit.execution import Execution
from dpaudit.games import Runner, TrainedRuns
from dpaudit.mechanisms.dpsgd import DPSGDConfig, Mlp, State, train
from dpaudit.testing.broken import attacks as broken
from dpaudit_experiments.common.audits import (
    CANARIES,
    DELTA,
    PRINTED,
    Study,
    bounds_at_end,
    canaries,
    marks_of,
    recipe_for,
)
from dpaudit_experiments.common.figure import Figure, Judged, Rows, Sizes, allowed_over, reproducing, said
from dpaudit_experiments.common.scales import FULL, QUICK, Scale
from dpaudit_experiments.common.tasks import Task, image_task, text_task, word_task


def _ends(rows: Sequence[dict[str, Any]]) -> Rows:
    return [row for row in rows if row.get("kind") == "end"]


def _listed(rows: Sequence[dict[str, Any]], *labels: str) -> str:
    return "; ".join(
        ", ".join([row["canary"], *(f"{name.replace('_', ' ')} {row[name]:g}" for name in labels)])
        + f": {round_down(row['epsilon_family'])} of {round_up(row['promised_substitute'])}"
        for row in rows
    )


# -------------------------------------------------------------------------------------------- figure 1: the worst case


def worst_case_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """S1: worst-case data sets; bounds against the three promises."""
    rows = []
    for epsilon in (4.0, 10.0):
        for rate in scale.rates:
            config = recipe_for(rate, scale.worst_case_steps, epsilon=epsilon)
            sizes = {"sampling_rate": rate, "noise_multiplier": config.noise_multiplier}
            (promise,) = accounting.adjacencies(**sizes, steps=[config.steps], delta=DELTA)
            for number in range(scale.seeds):
                runs = worst_case_runs(config, scale.worst_case_models, seed + number, execution)
                found = bounds_at_end(runs, config) | {"promised_by_group": promise.by_group}
                rows.append({"epsilon_wanted": epsilon, **sizes, "seed": seed + number, **found})
    return rows


def worst_case_runs(config: DPSGDConfig, models: int, seed: int, execution: Execution) -> RunScores:
    """One audit of S1 by the sum of all releases."""
    x, y, canary = attacks.worst_case(config, records=20)
    score = attacks.ReleasedSum(canary.present)
    game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=score, runs=models // 2, width=1024, blocks=1)
    return game.play(seed=seed, runner=Runner(execution, title=f"S1 at rate {config.sampling_rate:g}")).only


def worst_case_judged(rows: Rows) -> Judged:
    keys = sorted({(row["epsilon_wanted"], row["sampling_rate"]) for row in rows})
    cells = [[row for row in rows if (row["epsilon_wanted"], row["sampling_rate"]) == key] for key in keys]
    shares = [float(np.median([r["epsilon_family"] / r["promised_substitute"] for r in cell])) for cell in cells]
    above = [float(np.median([r["epsilon_family"] - r["promised_add_remove"] for r in cell])) > 0 for cell in cells]
    over = max(sum(row["epsilon_family"] > row["promised_substitute"] for row in cell) for cell in cells)
    seeds, allowed = len(cells[0]), allowed_over(len(cells[0]))
    why = (
        f"the median bound over {seeds} seeds is {round_down(min(shares))} to {round_down(max(shares))} of the "
        f"substitute epsilon, and above the add/remove one in {sum(above)} of {len(above)} settings; in no setting did "
        f"more than {over} of {seeds} audits pass the substitute epsilon (the binomial distribution allows {allowed})"
    )
    return said(min(shares) >= 0.9 and all(above) and over <= allowed), why


def worst_case_sizes(scale: Scale) -> Sizes:
    return [
        ("models an audit", "25,000", f"{scale.worst_case_models:,}"),
        ("steps", "500", str(scale.worst_case_steps)),
        ("repeats", "3, averaged", f"{scale.seeds}, each its own bound"),
    ]


# ------------------------------------------------------------------------------------- figures 2 and 4: a linear probe


def probe_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """S2 to S5 on a linear probe of frozen features, along the training."""
    task = image_task(scale.records, fetched=scale.fetched)
    study = Study(task, scale.probe_models, scale.marks, seed, execution, printed=True)
    rows: Rows = []
    for rate in scale.rates:
        config = recipe_for(rate, scale.probe_steps, clip=2.0, learning_rate=0.001)
        rows += study.rows(config, sampling_rate=rate) + study.promises(config, sampling_rate=rate)
    return rows


def probe_judged(rows: Rows) -> Judged:
    full = [row for row in _ends(rows) if row["sampling_rate"] == 1.0]
    ends = [row for row in full if row["canary"] != PRINTED]
    above = [row for row in ends if row["epsilon_family"] > row["promised_add_remove"]]
    printed = next(row for row in full if row["canary"] == PRINTED)
    passes = "passes" if printed["epsilon_family"] > printed["promised_add_remove"] else "does not pass"
    why = (
        f"at sampling rate 1 {len(above)} of {len(ends)} canaries pass the add/remove epsilon of "
        f"{round_up(printed['promised_add_remove'])}; S3 is crafted as long as its target, and as printed {passes} it. "
        f"{_listed(_ends(rows), 'sampling_rate')}"
    )
    return said(len(above) == len(ends)), why


def probe_sizes(scale: Scale) -> Sizes:
    task = image_task(scale.records, fetched=scale.fetched)
    return [
        ("data", "CIFAR-10, ViT-B-16 features", task.name),
        ("records", "500", str(scale.records)),
        ("parameters", "768", str(task.x.shape[1])),
        ("models an audit", "2,500", f"{scale.probe_models:,}"),
        ("repeats", "3, averaged", "1"),
        ("steps", "500", str(scale.probe_steps)),
        ("clip, learning rate", "2.0, 0.001", "2.0, 0.001"),
    ]


def models_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """The same audit of a linear probe with more and more models; the smaller audits are parts of the largest."""
    task = image_task(scale.records, fetched=scale.fetched)
    config = recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=0.001)
    rows = []
    largest = 2 * scale.probe_models
    for number, (name, x, y, canary, score) in enumerate(canaries(config, task, seed=seed)):
        game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=score, runs=largest // 2)
        runs = game.play(seed=seed + 100 + number, runner=Runner(execution, title=name)).only
        for count in (largest // 20, largest // 10, largest // 4, largest // 2, largest):
            part = replace(runs, present=runs.present[: count // 2], absent=runs.absent[: count // 2])
            rows.append({"canary": name, "models": count, **bounds_at_end(part, config)})
    return rows


def models_judged(rows: Rows) -> Judged:
    counts = sorted({row["models"] for row in rows})
    first, last = ([r["epsilon_family"] for r in rows if r["models"] == n] for n in (counts[0], counts[-1]))
    why = (
        f"from {counts[0]:,} to {counts[-1]:,} models the bounds of the four canaries rise from between "
        f"{round_down(min(first))} and {round_down(max(first))} to between {round_down(min(last))} and "
        f"{round_down(max(last))}, of {round_up(rows[0]['promised_substitute'])}; the smaller audits are parts of the "
        "largest"
    )
    return said(all(b > a for a, b in zip(first, last, strict=True))), why


def models_sizes(scale: Scale) -> Sizes:
    return [
        ("models an audit", "up to some thousands", f"{scale.probe_models // 10:,} to {2 * scale.probe_models:,}"),
        ("repeats", "3, averaged", "1"),
    ]


# ----------------------------------------------------------------------------------------- figures 3 and A6: other data


def deep_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """S2 to S5 on a perceptron trained from scratch with DP-Adam, each model from its own random start."""
    task, classes = word_task(scale.deep_records, fetched=scale.fetched)
    study = Study(task, scale.deep_models, min(scale.marks, 5), seed, execution)
    rows: Rows = []
    for rate in [rate for rate in scale.rates if rate < 1.0]:
        config = recipe_for(
            rate,
            scale.deep_steps,
            clip=5.0,
            learning_rate=0.0018,
            optimizer="adam",
            loss="softmax",
            classes=classes,
            model=Mlp((scale.deep_width,)),
            random_start=True,
        )
        rows += study.rows(config, sampling_rate=rate) + study.promises(config, sampling_rate=rate)
    return rows


def deep_judged(rows: Rows) -> Judged:
    """By the test of the add/remove curve as a substitute claim, which sees more than one epsilon does."""
    ends = _ends(rows)
    refuted = [row for row in ends if row["add_remove_claimed_as_substitute"] == "contradicted"]
    gradient = [row for row in ends if row["canary"] == CANARIES[0]]
    strong, weak = all(row in refuted for row in gradient), all(row in gradient for row in refuted)
    passed = sum(row["epsilon_family"] > row["promised_add_remove"] for row in gradient)
    why = (
        f"the add/remove curve, claimed as substitute, is contradicted by gradient canaries at "
        f"{sum(row in refuted for row in gradient)} of {len(gradient)} sampling rates (their epsilon passes the "
        f"add/remove one at {passed}), by {len([row for row in refuted if row not in gradient])} of "
        f"{len(ends) - len(gradient)} input canaries: {_listed(ends, 'sampling_rate')}"
    )
    return said(strong and weak), why


def deep_sizes(scale: Scale) -> Sizes:
    task, classes = word_task(scale.deep_records, fetched=scale.fetched)
    return [
        ("data", "Purchase100", task.name),
        ("records", "50,000", f"{scale.deep_records:,}"),
        ("parameters", "89,828 (600-128-100)", f"{task.x.shape[1]}-{scale.deep_width}-{classes}"),
        ("models an audit", "2,500", f"{scale.deep_models:,}"),
        ("steps", "2,500", f"{scale.deep_steps:,}"),
        ("optimiser, clip, learning rate", "DP-Adam, 5.0, 0.0018", "DP-Adam, 5.0, 0.0018"),
    ]


def text_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """A linear layer on sentence embeddings."""
    task = text_task(scale.text_records, fetched=scale.fetched)
    study = Study(task, scale.text_models, min(scale.marks, 5), seed, execution)
    rows: Rows = []
    for rate in scale.rates[:2]:
        config = recipe_for(rate, scale.text_steps, clip=2.0, learning_rate=0.01)
        rows += study.rows(config, sampling_rate=rate) + study.promises(config, sampling_rate=rate)
    return rows


def text_judged(rows: Rows) -> Judged:
    ends = _ends(rows)
    shares = [r["epsilon_family"] / r["promised_substitute"] for r in ends if r["canary"] == CANARIES[0]]
    inputs = [row for row in ends if row["canary"] != CANARIES[0]]
    above = [row for row in inputs if row["epsilon_family"] > row["promised_add_remove"]]
    why = (
        f"gradient canaries reach {round_down(min(shares))} of the substitute epsilon or more; {len(above)} of "
        f"{len(inputs)} input canaries pass add/remove, each a 95% statement of its own: "
        f"{_listed(ends, 'sampling_rate')}"
    )
    return said(min(shares) >= 0.8 and len(above) > 0), why


def text_sizes(scale: Scale) -> Sizes:
    task = text_task(scale.text_records, fetched=scale.fetched)
    return [
        ("data", "SST-2, Sentence-BERT", task.name),
        ("records", "5,000", f"{scale.text_records:,}"),
        ("parameters", "384", str(task.x.shape[1])),
        ("models an audit", "2,500", f"{scale.text_models:,}"),
        ("steps", "2,500", f"{scale.text_steps:,}"),
    ]


# -------------------------------------------------------------------------------------------------- figure A1: utility

TARGET, PLANTED = "with the target", "with the canary"


def utility_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Test accuracy of 64 models with the target, and with a gradient canary or a crafted input in its place."""
    task = image_task(scale.records, fetched=scale.fetched)
    config = recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=0.001)
    marks = marks_of(config.steps, scale.marks)
    how: dict[str, Any] = {"seed": seed, "observe": [_Accuracy(task)], "at": marks, "final": False}
    plain, _ = train(config, task.x, task.y, models=64, **how)
    rows: Rows = []
    for name, x, y, canary, _score in list(canaries(config, task, seed=seed))[:2]:
        planted = name == CANARIES[0]  # of a crafted pair the other world has the crafted record
        seen, _ = train(config, x, y, canary=canary, worlds=[planted] * 64, **how)
        for world, accuracies in ((TARGET, plain[0]), (PLANTED, seen[0])):
            for step, values in zip(marks, accuracies, strict=True):
                found = {"accuracy": float(values.mean()), "deviation": float(values.std(ddof=1))}
                rows.append({"canary": name, "world": world, "step": step, **found})
    return rows


@dataclass(frozen=True)
class _Accuracy:
    """Share of test rows that each model names rightly."""

    task: Task

    def __call__(self, state: State) -> NDArray[np.float32]:
        logits = state.outputs(self.task.test_x)
        named = logits[:, :, 0] > 0.0 if logits.shape[2] == 1 else logits.argmax(axis=2)
        return np.asarray((named == self.task.test_y[:, None]).mean(axis=0), dtype=np.float32)


def utility_judged(rows: Rows) -> Judged:
    last = max(row["step"] for row in rows)
    ends = {(r["canary"], r["world"]): r["accuracy"] for r in rows if r["step"] == last}
    gaps = [abs(ends[name, TARGET] - ends[name, PLANTED]) for name in CANARIES[:2]]
    why = (
        f"the mean accuracy of 64 models is {ends[CANARIES[0], TARGET]:.4f}, and differs by {gaps[0]:.4f} with the "
        f"gradient canary and by {gaps[1]:.4f} with the crafted input"
    )
    return said(max(gaps) < 0.01), why


def utility_sizes(scale: Scale) -> Sizes:
    return [("models", "5", "64"), ("steps", "500", str(scale.probe_steps)), ("epsilon", "10", "10")]


# --------------------------------------------------------------------------- figures A2 to A4: settings of the training


@dataclass(frozen=True)
class Varied:
    """One setting of the linear probe at several values; `falls` says that the last value's bound is compared with the
    first one's, otherwise the least with the largest."""

    name: str
    values: Callable[[Scale], tuple[float, ...]]
    config: Callable[[Scale, Any], DPSGDConfig]
    sensitive: tuple[str, ...]
    paper: str
    falls: bool = True

    def rows(self, scale: Scale, seed: int, execution: Execution) -> Rows:
        """S2 to S5 at each value."""
        task = image_task(scale.records, fetched=scale.fetched)
        study = Study(task, scale.varied_models, min(scale.marks, 5), seed, execution)
        return [
            row for value in self.values(scale) for row in study.rows(self.config(scale, value), **{self.name: value})
        ]

    def judged(self, rows: Rows) -> Judged:
        """Confirmed if the canaries that the paper calls sensitive lose clearly more than the gradient canary does."""
        losses = {}
        for canary in CANARIES:
            bounds = [row["epsilon_family"] for row in _ends(rows) if row["canary"] == canary]
            low, high = (bounds[-1], bounds[0]) if self.falls else (min(bounds), max(bounds))
            losses[canary] = 1.0 - low / max(high, 1e-9)
        words = "loss from the first value to the last" if self.falls else "the least below the largest by"
        shown = ", ".join(f"{canary} {loss:.0%}" for canary, loss in losses.items())
        good = all(losses[canary] > max(losses[CANARIES[0]], 0.0) + 0.05 for canary in self.sensitive)
        return said(good), f"{words}: {shown}. {_listed(_ends(rows), self.name)}"

    def sizes(self, scale: Scale) -> Sizes:
        """The values beside the paper's."""
        return [
            ("models an audit", "2,500, 3 repeats", f"{scale.varied_models:,}, once"),
            (self.name.replace("_", " "), self.paper, ", ".join(f"{value:g}" for value in self.values(scale))),
        ]


CLIP = Varied(
    "clip",
    lambda scale: (1.0, 2.0, 8.0),
    lambda scale, clip: recipe_for(1.0, scale.probe_steps, clip=clip, learning_rate=0.001),
    (CANARIES[1], CANARIES[3]),
    "several around 2",
)
STEPS = Varied(
    "steps",
    lambda scale: (scale.probe_steps, scale.long_steps),
    lambda scale, steps: recipe_for(scale.rates[-1], steps, clip=2.0, learning_rate=0.001),
    (CANARIES[1], CANARIES[3]),
    "500 and 2,500",
)
RATE = Varied(
    "learning_rate",
    lambda scale: (0.001, 0.01, 0.1),
    lambda scale, rate: recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=rate),
    CANARIES[1:],
    "several around 0.001",
    falls=False,
)


# ---------------------------------------------------------------------------------- figure A5: accounting; and the bugs


def ratio_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """The ratio of the substitute epsilon to the add/remove one at equal delta."""
    rows: Rows = []
    for rate in scale.grid[0]:
        for sigma in scale.grid[1]:
            steps = scale.worst_case_steps
            if math.sqrt(steps) * rate / sigma > 20.0:  # epsilons in the hundreds are nobody's claim
                continue
            (one,) = accounting.adjacencies(noise_multiplier=sigma, sampling_rate=rate, steps=[steps], delta=DELTA)
            rows.append(
                {
                    "sampling_rate": rate,
                    "noise_multiplier": sigma,
                    "add_remove": one.add_remove,
                    "substitute": one.substitute,
                    "substitute_by_group": one.by_group,
                    "ratio": one.substitute / one.add_remove if one.add_remove > 0.0 else None,
                }
            )
    return rows


def ratio_judged(rows: Rows) -> Judged:
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    tighter = all(row["substitute"] <= row["substitute_by_group"] * (1 + 1e-6) for row in rows)
    why = (
        f"the ratio runs from {min(ratios):.2f} to {max(ratios):.2f} over {len(rows)} settings and passes 2 in "
        f"{sum(r > 2.0 for r in ratios)} of them; group privacy is {'never' if tighter else 'sometimes'} tighter"
    )
    return said(max(ratios) > 2.0 and tighter), why


def ratio_sizes(scale: Scale) -> Sizes:
    rates, noise = (", ".join(f"{value:g}" for value in values) for values in scale.grid)
    return [
        ("sampling rates", "a grid", rates),
        ("noise multipliers", "a grid", noise),
        ("steps", "not said", str(scale.worst_case_steps)),
    ]


def bug_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Every bug of the trainer and its honest twin, audited again and again."""
    rows: Rows = []
    for bug in broken.dp_sgd_bugs().values():
        began = time.perf_counter()
        found = {}
        for word, config in (("broken", bug.broken), ("honest", bug.honest)):
            game, claim = TrainedRuns(runs=bug.runs, config=config, **bug.attack), config.claim(DELTA)
            plays = (game.play(seed=seed + number, runner=Runner(execution)).only for number in range(scale.seeds))
            found[word] = sum(estimators.judge(runs, claim).contradicted for runs in plays)
        rows.append(
            {
                "row": bug.row,
                "bug": bug.name,
                "what": bug.sentence,
                "models": 2 * bug.runs,
                "audits": scale.seeds,
                "broken_contradicted": found["broken"],
                "honest_contradicted": found["honest"],
                "seconds_an_audit": round((time.perf_counter() - began) / (2 * scale.seeds), 3),
            }
        )
    return rows


def bug_judged(rows: Rows) -> Judged:
    audits = rows[0]["audits"]
    least = min(row["broken_contradicted"] for row in rows)
    most = max(row["honest_contradicted"] for row in rows)
    why = (
        f"in {audits} audits each, every bug was contradicted at least {least} times with at most "
        f"{max(row['models'] for row in rows):,} models an audit, no honest trainer more than {most} times"
    )
    return said(least >= 0.9 * audits and most <= allowed_over(audits)), why


def bug_sizes(scale: Scale) -> Sizes:
    return [("audits", "none", f"{scale.seeds} of each")]


# ------------------------------------------------------------------------------------------------------------- together


FIGURES = {
    "1": Figure(
        "S1, worst-case data sets",
        "The audit passes the add/remove epsilon and stays close below the substitute one, which is tighter than group "
        "privacy.",
        worst_case_rows,
        worst_case_judged,
        worst_case_sizes,
    ),
    "2": Figure(
        "S2 to S5 on a linear probe",
        "All canaries pass the add/remove epsilon at a large sampling rate; input canaries weaken as it falls.",
        probe_rows,
        probe_judged,
        probe_sizes,
    ),
    "3": Figure(
        "S2 to S5 on a perceptron from scratch, DP-Adam",
        "Gradient canaries stay close to the substitute epsilon; input canaries do not pass the add/remove one.",
        deep_rows,
        deep_judged,
        deep_sizes,
    ),
    "4": Figure("Number of models", "More models, higher bounds.", models_rows, models_judged, models_sizes),
    "A1": Figure("Utility", "Canaries do not change the test accuracy.", utility_rows, utility_judged, utility_sizes),
    "A2": Figure(
        "Clip",
        "Crafted inputs and natural canaries lose with a larger clip; the gradient canary does not.",
        CLIP.rows,
        CLIP.judged,
        CLIP.sizes,
    ),
    "A3": Figure(
        "Steps", "Crafted inputs and natural canaries lose with more steps.", STEPS.rows, STEPS.judged, STEPS.sizes
    ),
    "A4": Figure(
        "Learning rate",
        "Audits with input canaries depend on the learning rate, more than those with the gradient canary.",
        RATE.rows,
        RATE.judged,
        RATE.sizes,
    ),
    "A5": Figure(
        "Accounting",
        "At equal delta the substitute epsilon can be more than twice the add/remove one.",
        ratio_rows,
        ratio_judged,
        ratio_sizes,
    ),
    "A6": Figure(
        "Text",
        "Gradient canaries are tight; input canaries are not, and still pass the add/remove epsilon.",
        text_rows,
        text_judged,
        text_sizes,
    ),
    "bugs": Figure(
        "Bugs of a trainer",
        "Ours, not the paper's: audits contradict a trainer with any of thirteen known bugs, and not an honest one.",
        bug_rows,
        bug_judged,
        bug_sizes,
    ),
}
ONLY = {"all": tuple(FIGURES)}
"""Groups of figures by name."""
reproduce = reproducing("substitute", FIGURES, full=FULL, quick=QUICK)
