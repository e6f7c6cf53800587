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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import __version__, accounting, attacks, estimators
from dpaudit import _validate as check
from dpaudit.bounds import Relation
from dpaudit.estimators.thresholds import Uncorrected
from dpaudit.evidence import RunScores
from dpaudit.execution import Execution
from dpaudit.games import TrainedRuns
from dpaudit.mechanisms.dpsgd import DpSgd, Mlp, State, train
from dpaudit.papers._outcome import Outcome
from dpaudit.papers._scales import FULL, QUICK, Scale
from dpaudit.papers._tasks import Task, image_task, text_task, word_task

DELTA, EPSILON = 1e-5, 10.0
PRINTED = "S3 as printed"
CANARIES = ("S2 gradient", "S3 crafted input", "S4 mislabelled", "S5 natural")


# --------------------------------------------------------------------------------------------------------------- audits


def recipe_for(rate: float, steps: int, *, epsilon: float = EPSILON, **more: Any) -> DpSgd:
    """DP-SGD whose substitute epsilon at delta 1e-5 is this."""
    sigma = accounting.noise_multiplier_for(
        epsilon=epsilon, delta=DELTA, sampling_rate=rate, steps=steps, relation=Relation.SUBSTITUTE
    )
    return DpSgd(noise_multiplier=sigma, sampling_rate=rate, steps=steps, relation=Relation.SUBSTITUTE, **more)


def canaries(
    recipe: DpSgd, task: Task, *, seed: int, printed: bool = False
) -> Iterator[tuple[str, Any, Any, Any, Any]]:
    """S2 to S5, and S3 as `printed` in the paper."""
    reference = attacks.Reference(recipe, task.x, task.y, seed=seed)
    target = reference.least_confident()
    x, y = np.delete(task.x, target, axis=0), np.delete(task.y, target)
    record = (task.x[target], float(task.y[target]))
    gradient = attacks.least_updated(recipe, x, y, seed=seed)
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


def bounds_at_end(runs: RunScores, recipe: DpSgd) -> dict[str, Any]:
    """The three bounds of the last step, the paper's own number, and what is promised."""
    family = accounting.dp_sgd_family(sampling_rate=recipe.sampling_rate, steps=recipe.steps, relation=recipe.relation)
    free = estimators.epsilon_from_runs(runs, delta=DELTA)
    plain = replace(recipe, relation=Relation.ADD_REMOVE).claim(DELTA)
    return {
        "epsilon_family": estimators.family_from_runs(runs, family=family, delta=DELTA).epsilon,
        "epsilon_gaussian": estimators.mu_from_runs(runs, delta=DELTA).epsilon,
        "epsilon_free": free.epsilon,
        "epsilon_free_ceiling": free.ceiling,
        "epsilon_as_published_estimate": estimators.mu_from_runs(runs, delta=DELTA, threshold=Uncorrected()).epsilon,
        "promised_add_remove": plain.epsilon,
        "promised_substitute": recipe.claim(DELTA).epsilon,
        "add_remove_sold_as_substitute": str(
            estimators.judge(runs, accounting.sold_as(plain, Relation.SUBSTITUTE)).outcome
        ),
        "substitute": str(estimators.judge(runs, recipe.claim(DELTA)).outcome),
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

    def rows(self, recipe: DpSgd, **labels: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for number, (name, x, y, canary, score) in enumerate(
            canaries(recipe, self.task, seed=self.seed, printed=self.printed)
        ):
            game = TrainedRuns(recipe=recipe, x=x, y=y, canary=canary, score=score, runs=self.models // 2)
            steps = marks_of(recipe.steps, self.marks)
            runs = game.play_steps(steps, seed=self.seed + number, execution=self.execution, title=f"{name} {labels}")
            common = {"canary": name, **labels}
            found.append({**common, "kind": "end", **bounds_at_end(runs[recipe.steps], recipe)})
            found += [{**common, "kind": "step", **row} for row in along_training(runs)]
        return found

    def promises(self, recipe: DpSgd, **labels: Any) -> list[dict[str, Any]]:
        """What the accountant says at each mark, three ways."""
        steps = marks_of(recipe.steps, self.marks)
        sizes = {"noise_multiplier": recipe.noise_multiplier, "sampling_rate": recipe.sampling_rate}
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


Found = tuple[str, str, list[tuple[str, str, str]], list[dict[str, Any]]]
"""The word, why, the scale table, the rows."""


def _ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("kind") == "end"]


def _listed(rows: Sequence[dict[str, Any]], *labels: str) -> str:
    return "; ".join(
        ", ".join([row["canary"], *(f"{name} {row[name]:g}" for name in labels)])
        + f": {row['epsilon_family']:.2f} of {row['promised_substitute']:.2f}"
        for row in rows
    )


# -------------------------------------------------------------------------------------------------------------- figures


def figure_1(scale: Scale, seed: int, execution: Execution) -> Found:
    """S1: worst-case data sets; bounds against the three promises."""
    rows = []
    for epsilon in (4.0, 10.0):
        for rate in scale.rates:
            recipe = recipe_for(rate, scale.worst_case_steps, epsilon=epsilon)
            (promise,) = accounting.adjacencies(
                noise_multiplier=recipe.noise_multiplier,
                sampling_rate=rate,
                steps=[recipe.steps],
                delta=DELTA,
            )
            for number in range(scale.seeds):
                runs = worst_case_runs(recipe, scale.worst_case_models, seed + number, execution)
                rows.append(
                    {
                        "epsilon_wanted": epsilon,
                        "sampling_rate": rate,
                        "noise_multiplier": recipe.noise_multiplier,
                        "seed": seed + number,
                        **bounds_at_end(runs, recipe),
                        "promised_by_group": promise.by_group,
                    }
                )
    cells = [
        [row for row in rows if (row["epsilon_wanted"], row["sampling_rate"]) == key]
        for key in sorted({(row["epsilon_wanted"], row["sampling_rate"]) for row in rows})
    ]
    shares = [np.median([r["epsilon_family"] / r["promised_substitute"] for r in cell]) for cell in cells]
    above = [np.median([r["epsilon_family"] - r["promised_add_remove"] for r in cell]) > 0 for cell in cells]
    over = sum(row["epsilon_family"] > row["promised_substitute"] for row in rows)
    allowed = _allowed(len(rows))
    good = min(shares) >= 0.9 and all(above) and over <= allowed
    why = (
        f"the median bound over {scale.seeds} seeds is {min(shares):.2f} to {max(shares):.2f} of the substitute "
        f"epsilon at 4 and 10, and above the add/remove one in {sum(above)} of {len(above)} settings; it passed the "
        f"substitute epsilon in {over} of {len(rows)} audits (the binomial law allows {allowed})"
    )
    sizes = [
        ("models an audit", "25,000", f"{scale.worst_case_models:,}"),
        ("steps", "500", str(scale.worst_case_steps)),
        ("repeats", "3, averaged", f"{scale.seeds}, each its own bound"),
    ]
    return ("confirmed" if good else "not confirmed"), why, sizes, rows


def worst_case_runs(recipe: DpSgd, models: int, seed: int, execution: Execution) -> RunScores:
    """One audit of S1 by the sum of all releases."""
    x, y, canary = attacks.worst_case(recipe, records=20)
    score = attacks.ReleasedSum(canary.present)
    game = TrainedRuns(recipe=recipe, x=x, y=y, canary=canary, score=score, runs=models // 2, width=1024, blocks=1)
    return game.play(seed=seed, execution=execution, title=f"S1 at rate {recipe.sampling_rate:g}")


def _allowed(trials: int) -> int:
    from scipy import stats

    return int(stats.binom.ppf(1.0 - 1e-4, trials, 0.05))


def figure_2(scale: Scale, seed: int, execution: Execution) -> Found:
    """S2 to S5 on a linear probe of frozen features, along the training."""
    task = image_task(scale.records, fetched=scale.fetched)
    study = Study(task, scale.probe_models, scale.marks, seed, execution, printed=True)
    rows: list[dict[str, Any]] = []
    for rate in scale.rates:
        recipe = recipe_for(rate, scale.probe_steps, clip=2.0, learning_rate=0.001)
        rows += study.rows(recipe, sampling_rate=rate) + study.promises(recipe, sampling_rate=rate)
    ends = [row for row in _ends(rows) if row["sampling_rate"] == 1.0 and row["canary"] != PRINTED]
    above = [row for row in ends if row["epsilon_family"] > row["promised_add_remove"]]
    why = (
        f"at sampling rate 1 {len(above)} of {len(ends)} canaries pass the add/remove epsilon: "
        f"{_listed(_ends(rows), 'sampling_rate')}"
    )
    sizes = [
        ("data", "CIFAR-10, ViT-B-16 features", task.name),
        ("records", "500", str(scale.records)),
        ("parameters", "768", str(task.x.shape[1])),
        ("models an audit", "2,500", f"{scale.probe_models:,}"),
        ("repeats", "3, averaged", "1"),
        ("steps", "500", str(scale.probe_steps)),
        ("clip, learning rate", "2.0, 0.001", "2.0, 0.001"),
    ]
    return ("confirmed" if len(above) == len(ends) else "not confirmed"), why, sizes, rows


def figure_3(scale: Scale, seed: int, execution: Execution) -> Found:
    """S2 to S5 on a perceptron trained from scratch with DP-Adam, each model from its own random start."""
    task, classes = word_task(scale.deep_records, fetched=scale.fetched)
    study = Study(task, scale.deep_models, min(scale.marks, 5), seed, execution)
    rows: list[dict[str, Any]] = []
    for rate in [rate for rate in scale.rates if rate < 1.0]:
        recipe = recipe_for(
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
        rows += study.rows(recipe, sampling_rate=rate) + study.promises(recipe, sampling_rate=rate)
    ends = _ends(rows)
    gradient = [row for row in ends if row["canary"] == CANARIES[0]]
    inputs = [row for row in ends if row["canary"] != CANARIES[0]]
    strong = all(row["epsilon_family"] > row["promised_add_remove"] for row in gradient)
    weak = all(row["epsilon_family"] <= row["promised_add_remove"] for row in inputs)
    why = (
        f"gradient canaries {'pass' if strong else 'do not all pass'} the add/remove epsilon, input canaries "
        f"{'do not' if weak else 'partly do'}: {_listed(ends, 'sampling_rate')}"
    )
    sizes = [
        ("data", "Purchase100", task.name),
        ("records", "50,000", f"{scale.deep_records:,}"),
        ("parameters", "89,828 (600-128-100)", f"{task.x.shape[1]}-{scale.deep_width}-{classes}"),
        ("models an audit", "2,500", f"{scale.deep_models:,}"),
        ("steps", "2,500", f"{scale.deep_steps:,}"),
        ("optimiser, clip, learning rate", "DP-Adam, 5.0, 0.0018", "DP-Adam, 5.0, 0.0018"),
    ]
    return ("confirmed" if strong and weak else "not confirmed"), why, sizes, rows


def figure_4(scale: Scale, seed: int, execution: Execution) -> Found:
    """The same audit of a linear probe with more and more models."""
    task = image_task(scale.records, fetched=scale.fetched)
    recipe = recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=0.001)
    rows = []
    largest = 2 * scale.probe_models
    counts = [largest // 20, largest // 10, largest // 4, largest // 2, largest]
    for number, (name, x, y, canary, score) in enumerate(canaries(recipe, task, seed=seed)):
        game = TrainedRuns(recipe=recipe, x=x, y=y, canary=canary, score=score, runs=largest // 2)
        runs = game.play(seed=seed + 100 + number, execution=execution, title=name)
        for count in counts:
            part = replace(runs, present=runs.present[: count // 2], absent=runs.absent[: count // 2])
            rows.append({"canary": name, "models": count, **bounds_at_end(part, recipe)})
    first, last = ([r["epsilon_family"] for r in rows if r["models"] == n] for n in (counts[0], counts[-1]))
    grows = all(b > a for a, b in zip(first, last, strict=True))
    why = (
        f"from {counts[0]:,} to {counts[-1]:,} models the bounds go from {min(first):.2f}..{max(first):.2f} to "
        f"{min(last):.2f}..{max(last):.2f} of {rows[0]['promised_substitute']:.2f}; the smaller audits are parts of "
        "the largest"
    )
    sizes = [("models an audit", "up to some thousands", f"{counts[0]:,} to {counts[-1]:,}"), ("repeats", "3", "1")]
    return ("confirmed" if grows else "not confirmed"), why, sizes, rows


def figure_a1(scale: Scale, seed: int, execution: Execution) -> Found:
    """Test accuracy with the target, with the gradient canary and with the crafted input."""
    task = image_task(scale.records, fetched=scale.fetched)
    recipe = recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=0.001)
    rows: list[dict[str, Any]] = []
    for name, x, y, canary, _ in list(canaries(recipe, task, seed=seed))[:2]:
        for world in (True, False):
            marks = marks_of(recipe.steps, scale.marks)
            seen, _final = train(
                recipe, x, y, canary=canary, worlds=[world] * 64, seed=seed, observe=[_Accuracy(task)], at=marks
            )
            for step, accuracies in zip(marks, seen[0], strict=True):
                mean, spread = float(accuracies.mean()), float(accuracies.std(ddof=1))
                shown = "with the target" if world else "with its opposite"
                rows.append({"canary": name, "world": shown, "step": step, "accuracy": mean, "deviation": spread})
    ends = {(r["canary"], r["world"]): r for r in rows if r["step"] == recipe.steps}
    gaps = [
        abs(ends[name, "with the target"]["accuracy"] - ends[name, "with its opposite"]["accuracy"])
        for name in CANARIES[:2]
    ]
    why = f"mean accuracies of 64 models differ by {gaps[0]:.4f} (gradient) and {gaps[1]:.4f} (crafted input)"
    sizes = [("models", "5", "64"), ("steps", "500", str(scale.probe_steps)), ("epsilon", "10", "10")]
    return ("confirmed" if max(gaps) < 0.01 else "not confirmed"), why, sizes, rows


@dataclass(frozen=True)
class _Accuracy:
    """Share of test rows that each model names rightly."""

    task: Task

    def __call__(self, state: State) -> NDArray[np.float32]:
        logits = state.outputs(self.task.test_x)
        named = logits[:, :, 0] > 0.0 if logits.shape[2] == 1 else logits.argmax(axis=2)
        return np.asarray((named == self.task.test_y[:, None]).mean(axis=0), dtype=np.float32)


def _varied(
    scale: Scale, seed: int, execution: Execution, name: str, values: Sequence[float], make: Callable[[Any], DpSgd]
) -> tuple[list[dict[str, Any]], Task]:
    task = image_task(scale.records, fetched=scale.fetched)
    study = Study(task, scale.varied_models, min(scale.marks, 5), seed, execution)
    return [row for value in values for row in study.rows(make(value), **{name: value})], task


def _spread(rows: list[dict[str, Any]], name: str) -> dict[str, float]:
    """For each canary the largest relative change of its bound over the values of a setting."""
    found = {}
    for canary in CANARIES:
        bounds = [row["epsilon_family"] for row in _ends(rows) if row["canary"] == canary]
        found[canary] = 1.0 - min(bounds) / max(*bounds, 1e-9)
    return found


def _sensitive(rows: list[dict[str, Any]], name: str, sensitive: Sequence[str]) -> tuple[str, str]:
    """Confirmed if the canaries that the paper calls sensitive lose more than the gradient canary does."""
    spread = _spread(rows, name)
    good = all(spread[canary] > spread[CANARIES[0]] + 0.05 for canary in sensitive)
    why = "largest loss over the values: " + ", ".join(f"{c} {s:.0%}" for c, s in spread.items())
    return ("confirmed" if good else "not confirmed"), f"{why}. {_listed(_ends(rows), name)}"


def _models(scale: Scale) -> tuple[str, str, str]:
    return ("models an audit", "2,500, 3 repeats", f"{scale.varied_models:,}, once")


def figure_a2(scale: Scale, seed: int, execution: Execution) -> Found:
    """The clip."""
    values = (1.0, 2.0, 8.0)
    rows, _ = _varied(
        scale, seed, execution, "clip", values,
        lambda clip: recipe_for(1.0, scale.probe_steps, clip=clip, learning_rate=0.001),
    )  # fmt: skip
    word, why = _sensitive(rows, "clip", (CANARIES[1], CANARIES[3]))
    return word, why, [_models(scale), ("clips", "several around 2", ", ".join(f"{v:g}" for v in values))], rows


def figure_a3(scale: Scale, seed: int, execution: Execution) -> Found:
    """The number of steps, at the smallest sampling rate."""
    values = (scale.probe_steps, scale.long_steps)
    rows, _ = _varied(
        scale, seed, execution, "steps", values,
        lambda steps: recipe_for(scale.rates[-1], steps, clip=2.0, learning_rate=0.001),
    )  # fmt: skip
    word, why = _sensitive(rows, "steps", (CANARIES[1], CANARIES[3]))
    return word, why, [_models(scale), ("steps", "500 and 2,500", " and ".join(f"{v:,}" for v in values))], rows


def figure_a4(scale: Scale, seed: int, execution: Execution) -> Found:
    """The learning rate."""
    values = (0.001, 0.01, 0.1)
    rows, _ = _varied(
        scale, seed, execution, "learning_rate", values,
        lambda rate: recipe_for(1.0, scale.probe_steps, clip=2.0, learning_rate=rate),
    )  # fmt: skip
    word, why = _sensitive(rows, "learning_rate", CANARIES[1:])
    return (
        word,
        why,
        [_models(scale), ("learning rates", "several around 0.001", ", ".join(f"{v:g}" for v in values))],
        rows,
    )


def figure_a5(scale: Scale, seed: int, execution: Execution) -> Found:
    """The ratio of the substitute epsilon to the add/remove one at equal delta."""
    rows: list[dict[str, Any]] = []
    for rate in (1.0, 0.5, 0.25, 0.0625):
        for sigma in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
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
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    tighter = all(row["substitute"] <= row["substitute_by_group"] * (1 + 1e-6) for row in rows)
    why = (
        f"the ratio runs from {min(ratios):.2f} to {max(ratios):.2f} over {len(rows)} settings and passes 2 in "
        f"{sum(r > 2.0 for r in ratios)} of them; group privacy is {'never' if tighter else 'sometimes'} tighter"
    )
    word = "confirmed" if max(ratios) > 2.0 and tighter else "not confirmed"
    return word, why, [("settings", "a grid of sampling rates and noise", f"{len(rows)}")], rows


def figure_a6(scale: Scale, seed: int, execution: Execution) -> Found:
    """A linear layer on sentence embeddings."""
    task = text_task(scale.text_records, fetched=scale.fetched)
    study = Study(task, scale.text_models, min(scale.marks, 5), seed, execution)
    rows: list[dict[str, Any]] = []
    for rate in scale.rates[:2]:
        recipe = recipe_for(rate, scale.text_steps, clip=2.0, learning_rate=0.01)
        rows += study.rows(recipe, sampling_rate=rate) + study.promises(recipe, sampling_rate=rate)
    ends = _ends(rows)
    gradient = [row for row in ends if row["canary"] == CANARIES[0]]
    tight = all(row["epsilon_family"] >= 0.8 * row["promised_substitute"] for row in gradient)
    above = any(row["epsilon_family"] > row["promised_add_remove"] for row in ends if row not in gradient)
    why = (
        f"gradient canaries reach {min(r['epsilon_family'] / r['promised_substitute'] for r in gradient):.2f} of the "
        f"substitute epsilon, {'some' if above else 'no'} input canary passes add/remove: "
        f"{_listed(ends, 'sampling_rate')}"
    )
    sizes = [
        ("data", "SST-2, Sentence-BERT", task.name),
        ("records", "5,000", f"{scale.text_records:,}"),
        ("parameters", "384", str(task.x.shape[1])),
        ("models an audit", "2,500", f"{scale.text_models:,}"),
        ("steps", "2,500", f"{scale.text_steps:,}"),
    ]
    return ("confirmed" if tight and above else "not confirmed"), why, sizes, rows


def bug_zoo(scale: Scale, seed: int, execution: Execution) -> Found:
    """Every bug of the trainer and its honest twin, audited again and again."""
    rows: list[dict[str, Any]] = []
    for bug in attacks.zoo.dp_sgd_bugs().values():
        began = time.perf_counter()
        found = {}
        for word, recipe in (("broken", bug.broken), ("honest", bug.honest)):
            game, claim = TrainedRuns(runs=bug.runs, recipe=recipe, **bug.attack), recipe.claim(DELTA)
            plays = (game.play(seed=seed + number, execution=execution) for number in range(scale.seeds))
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
    least = min(row["broken_contradicted"] for row in rows)
    most = max(row["honest_contradicted"] for row in rows)
    why = (
        f"in {scale.seeds} audits each, every bug was contradicted at least {least} times with at most "
        f"{max(row['models'] for row in rows):,} models an audit, no honest trainer more than {most} times"
    )
    good = least >= 0.9 * scale.seeds and most <= _allowed(scale.seeds)
    return ("confirmed" if good else "not confirmed"), why, [("audits", "none", f"{scale.seeds} of each")], rows


def reproduce(name: str, *, scale: Scale = FULL, seed: int = 1, execution: Execution | None = None) -> Outcome:
    """One figure of the paper, by its number."""
    figure = FIGURES[check.choice("figure", name, tuple(FIGURES))]
    began = time.perf_counter()
    found, because, sizes, rows = figure.run(scale, seed, execution or Execution())
    quick = " --quick" if scale is QUICK else ""
    return Outcome(
        figure=name,
        title=figure.title,
        claim=figure.claim,
        found="too small to tell" if scale is QUICK else found,
        because=because,
        scale=tuple(sizes),
        rows=tuple(rows),
        command=f"dpaudit reproduce substitute --figure {name} --seed {seed}{quick}",
        seconds=round(time.perf_counter() - began, 1),
        versions={"dpaudit": __version__, "numpy": np.__version__},
    )


@dataclass(frozen=True)
class Figure:
    """One experiment: what the paper shows, and the function that shows it here."""

    title: str
    claim: str
    run: Callable[[Scale, int, Execution], Found]


FIGURES = {
    "1": Figure(
        "S1, worst-case data sets",
        "The audit passes the add/remove epsilon and stays close below the substitute one, which is tighter than group "
        "privacy.",
        figure_1,
    ),
    "2": Figure(
        "S2 to S5 on a linear probe",
        "All canaries pass the add/remove epsilon at a large sampling rate; input canaries weaken as it falls.",
        figure_2,
    ),
    "3": Figure(
        "S2 to S5 on a perceptron from scratch, DP-Adam",
        "Gradient canaries stay close to the substitute epsilon; input canaries do not pass the add/remove one.",
        figure_3,
    ),
    "4": Figure("Number of models", "More models, higher bounds.", figure_4),
    "A1": Figure("Utility", "Canaries do not change the test accuracy.", figure_a1),
    "A2": Figure(
        "Clip", "Crafted inputs and natural canaries lose with a larger clip; the gradient canary does not.", figure_a2
    ),
    "A3": Figure("Steps", "Crafted inputs and natural canaries lose with more steps.", figure_a3),
    "A4": Figure("Learning rate", "Input canaries lose as the learning rate changes.", figure_a4),
    "A5": Figure(
        "Accounting", "At equal delta the substitute epsilon can be more than twice the add/remove one.", figure_a5
    ),
    "A6": Figure(
        "Text",
        "Gradient canaries are tight; input canaries are not, and still pass the add/remove epsilon.",
        figure_a6,
    ),
    "bugs": Figure(
        "Bugs of a trainer",
        "Ours, not the paper's: audits contradict a trainer with any of thirteen known bugs, and not an honest one.",
        bug_zoo,
    ),
}
