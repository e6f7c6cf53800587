"""Paper 004, "PANORAMIA": audits with generated non-members, its tables 2, 3, 5 to 11 and figures 2 to 6, 9 to 15.

| modality | real records | generator | targets | module |
|---|---|---|---|---|
| images | Fashion-MNIST | a small network of our own | convolutional classifiers | `images` |
| texts | film reviews | a small language model | the same, fine-tuned for more epochs | `texts` |
| tables | Adult | sequential trees | networks and forests | `tables` |

All figures are made of the same games: `target_games` of the three modules. Every bound is at 95% confidence, delta 0
where no column says otherwise, for substitution of one record; epsilon-tilde, the difference of the two statements of a
region, is an estimate wherever it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.execution import Execution
from dpaudit_experiments.common.figure import Figure, Rows, reproducing
from dpaudit_experiments.common.metrics import (
    TargetGame,
    grouped,
    measured,
    precision_lines,
    recall_lines,
    relaxed_lines,
    size_lines,
    summed_up,
)
from dpaudit_experiments.paper_004 import findings, sizes
from dpaudit_experiments.paper_004 import images as panoramia_images
from dpaudit_experiments.paper_004 import tables as panoramia_tables
from dpaudit_experiments.paper_004 import texts as panoramia_texts
from dpaudit_experiments.paper_004.generators import picture_rows

SLACKS, DELTAS = (0.0, 1e-5, 1e-4, 1e-3), (0.0, 1e-5)
"""Table 11: what is allowed to the generator, and to the model."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of the three modalities, the pairs of figure 6, and passes of the adversarial network."""

    images: panoramia_images.ImageScale = field(default_factory=panoramia_images.ImageScale)
    texts: panoramia_texts.TextScale = field(default_factory=panoramia_texts.TextScale)
    tables: panoramia_tables.TableScale = field(default_factory=panoramia_tables.TableScale)
    pairs: tuple[int, ...] = (250, 500, 1000, 2000, 3000, 4500, 6000)
    adversarial_epochs: int = 25


FULL = Scale()
QUICK = Scale(
    images=panoramia_images.QUICK,
    texts=panoramia_texts.QUICK,
    tables=panoramia_tables.QUICK,
    pairs=(25, 50, 100),
    adversarial_epochs=1,
)
MODULES = {"images": panoramia_images, "texts": panoramia_texts, "tables": panoramia_tables}


def target_games(modality: str, scale: Scale, seed: int, execution: Execution, *families: str) -> list[TargetGame]:
    """The games of one modality, on these families of targets."""
    found: list[TargetGame] = MODULES[modality].target_games(getattr(scale, modality), seed, execution)
    return [one for one in found if one.family in families]


def of_module(modality: str, name: str, scale: Scale, seed: int, execution: Execution) -> Rows:
    rows: Rows = getattr(MODULES[modality], name)(getattr(scale, modality), seed, execution)
    return rows


def _by_target(found: list[TargetGame]) -> list[list[TargetGame]]:
    games: dict[tuple[str, str], list[TargetGame]] = {}
    for one in found:
        games.setdefault((one.modality, one.target), []).append(one)
    return list(games.values())


# ---------------------------------------------------------------------------------------------- baselines: 2, 5, 9, 11


def helper_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Tables 2 and 5: what the baseline shows, by what its helper learnt from."""
    found: Rows = []
    for modality in MODULES:
        for own in grouped(of_module(modality, "helper_rows", scale, seed, execution), ("modality", "helper")):
            found.append({"modality": modality, "helper": own[0]["helper"], **_over_games(own)})
    return found


def _over_games(rows: Rows) -> dict[str, Any]:
    """c_lb of several games of one kind."""
    values = [row["closeness"] for row in rows]
    return {
        "games": len(values),
        "least_closeness": min(values),
        "median_closeness": float(np.median(values)),
        "largest_closeness": max(values),
    }


def three_helpers(scale: Scale, seed: int, execution: Execution) -> Rows:
    return [row for row in helper_rows(scale, seed, execution) if row["helper"] in ("generated", "real", "none")]


# ------------------------------------------------------------------------------------------------- targets: 3, 6 to 10


def main_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Table 3: every target, medians over its games."""
    found = [
        one
        for modality in MODULES
        for one in target_games(modality, scale, seed, execution, "epochs", "size", "epsilon")
    ]
    return summed_up([measured(one) for one in found])


def adult_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Table 6: the networks on Adult."""
    return summed_up([measured(one) for one in target_games("tables", scale, seed, execution, "epochs", "epsilon")])


def private_rows(architecture: str) -> Any:
    """Tables 7 and 8: one architecture at several epsilons."""

    def rows(scale: Scale, seed: int, execution: Execution) -> Rows:
        found = target_games("images", scale, seed, execution, "epsilon")
        return summed_up([measured(one) for one in found if one.target.startswith(f"{architecture},")])

    return rows


def text_private_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Table 9."""
    return summed_up([measured(one) for one in target_games("texts", scale, seed, execution, "epsilon")])


def twin_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Table 10: models of one epsilon, trained in two ways."""
    found = target_games("images", scale, seed, execution, "epsilon", "twin")
    twins = {one.degree for one in found if one.family == "twin"}
    architecture = next((one.target.split(",")[0] for one in found if one.family == "twin"), "")
    own = [one for one in found if one.degree in twins and one.target.split(",")[0] == architecture]
    return summed_up([measured(one) for one in own])


def relaxed_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Table 11: the first game of every private model of the first architecture."""
    found = _by_target(target_games("images", scale, seed, execution, "epsilon"))
    architecture = found[0][0].target.split(",")[0]
    own = [games[0] for games in found if games[0].target.split(",")[0] == architecture]
    return [row for one in own for row in relaxed_lines(one, SLACKS, DELTAS)]


# ------------------------------------------------------------------------------------------------ lines: 3 to 6, 10, 12


def recall_rows(*families: str, modalities: tuple[str, ...] = ("images", "texts")) -> Any:
    """Figures 4, 5 and 12b: what every number of guesses would have shown alone."""

    def rows(scale: Scale, seed: int, execution: Execution) -> Rows:
        found: Rows = []
        for modality in modalities:
            for place, games in enumerate(_by_target(target_games(modality, scale, seed, execution, *families))):
                found += recall_lines(games, with_baseline=not place)
        return found

    return rows


def private_architecture(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Figure 5: the private models of one architecture."""
    found = _by_target(target_games("images", scale, seed, execution, "epsilon"))
    own = [games for games in found if games[0].target.startswith("CNN,")]
    return [row for place, games in enumerate(own) for row in recall_lines(games, with_baseline=not place)]


def precision_rows(*families: str, modalities: tuple[str, ...] = ("images", "texts")) -> Any:
    """Figures 3, 10 and 12a: precision of one game."""

    def rows(scale: Scale, seed: int, execution: Execution) -> Rows:
        found: Rows = []
        for modality in modalities:
            for place, games in enumerate(_by_target(target_games(modality, scale, seed, execution, *families))):
                found += precision_lines(games[0], with_baseline=not place)
        return found

    return rows


def pairs_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Figure 6: the same games with fewer pairs."""
    found: Rows = []
    for modality in MODULES:
        for games in _by_target(target_games(modality, scale, seed, execution, "epochs", "epsilon")):
            found += size_lines(games, scale.pairs)
    return found


# ------------------------------------------------------------------------------------------ losses, sizes, generators


def losses(*modalities: str) -> Any:
    """Figures 13 and 14: histograms of losses."""

    def rows(scale: Scale, seed: int, execution: Execution) -> Rows:
        return [
            _binned(row) for modality in modalities for row in of_module(modality, "loss_rows", scale, seed, execution)
        ]

    return rows


def _binned(row: dict[str, Any]) -> dict[str, Any]:
    """A bin by its middle, and one word for real non-members."""
    middle = row["loss"] if "loss" in row else (row["low"] + row["high"]) / 2.0
    group = "real non-members" if row["group"] == "non-members" else row["group"]
    return {"modality": row["modality"], "target": row["target"], "group": group, "loss": middle, "share": row["share"]}


def growth_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Figure 15: the same training, larger models."""
    return summed_up([measured(one) for one in target_games("images", scale, seed, execution, "size")])


def generator_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    """Ours: which generator is closest."""
    found: Rows = []
    rows = [{"modality": "tables", **row} for row in of_module("tables", "generator_rows", scale, seed, execution)]
    rows += picture_rows(scale.images, seed, execution, epochs=scale.adversarial_epochs)
    for own in grouped(rows, ("generator", "poor")):
        ceiling = {"ceiling": own[0].get("ceiling")}
        found.append({key: own[0][key] for key in ("modality", "generator", "poor")} | _over_games(own) | ceiling)
    return found


FIGURES = {
    "table-2": Figure(
        "Baselines by their helper",
        "A helper that is trained on generated records makes a stronger baseline than one of real records, or none.",
        three_helpers,
        findings.helpers,
        sizes.helpers,
    ),
    "table-3": Figure(
        "Privacy measured on every target",
        "More over-fitted models show more, and epsilon-tilde stays below what real non-members show.",
        main_rows,
        findings.main,
        sizes.all_three,
    ),
    "table-5": Figure(
        "Baselines by more kinds of helper",
        "Generated records are better to train a helper on than real ones, or those of another data set.",
        helper_rows,
        findings.helpers,
        sizes.helpers,
    ),
    "table-6": Figure(
        "Networks on Adult",
        "On tables the audit finds nothing of its networks, though a one-run audit does.",
        adult_rows,
        findings.adult,
        sizes.tables,
    ),
    "table-7": Figure(
        "Private image models",
        "Models of epsilon 1 and 2 show nothing, and from 10 on the audit shows more the larger epsilon is.",
        private_rows("CNN"),
        findings.private,
        sizes.private_images,
    ),
    "table-8": Figure(
        "Private image models of another architecture",
        "The same on a wide network.",
        private_rows("wide CNN"),
        findings.private,
        sizes.private_images,
    ),
    "table-9": Figure(
        "Private language models",
        "Neither audit shows anything of a language model that was tuned with differential privacy.",
        text_private_rows,
        findings.text_private,
        sizes.texts,
    ),
    "table-10": Figure(
        "One epsilon, two trainings",
        "Models of the same epsilon can show very different amounts, by how far they over-fit.",
        twin_rows,
        findings.twin,
        sizes.private_images,
    ),
    "table-11": Figure(
        "Relaxations of closeness and privacy",
        "A share 1e-5 of records that the generator does not make costs little, 1e-3 may cost much.",
        relaxed_rows,
        findings.relaxed,
        sizes.private_images,
    ),
    "2": Figure(
        "The baseline's learning curve on images",
        "The baseline has as many rows as it can use.",
        lambda scale, seed, execution: of_module("images", "learning_rows", scale, seed, execution),
        findings.learning,
        sizes.images,
    ),
    "3": Figure(
        "Precision against recall",
        "The attack is more precise than the baseline, the more so the more the target over-fits.",
        precision_rows("epochs"),
        findings.precision,
        sizes.images_and_texts,
    ),
    "4": Figure(
        "Bounds against recall",
        "The largest bound occurs at low recall, above the baseline's.",
        recall_rows("epochs"),
        findings.recall,
        sizes.images_and_texts,
    ),
    "5": Figure(
        "Bounds against recall of private models",
        "Only models of large epsilon rise above the baseline.",
        private_architecture,
        findings.private_recall,
        sizes.private_images,
    ),
    "6": Figure(
        "More audited pairs",
        "More records to audit show more.",
        pairs_rows,
        findings.pairs,
        sizes.all_three,
    ),
    "9": Figure(
        "The baseline's learning curve on texts",
        "The baseline has as many rows as it can use.",
        lambda scale, seed, execution: of_module("texts", "learning_rows", scale, seed, execution),
        findings.learning,
        sizes.texts,
    ),
    "10": Figure(
        "Right guesses against guesses",
        "With the model the attack finds more members than the baseline at the same number of guesses.",
        precision_rows("epochs", modalities=("images", "texts", "tables")),
        findings.more_found,
        sizes.all_three,
    ),
    "11": Figure(
        "More rows to learn from",
        "Attack and baseline both gain from more training rows, and level off.",
        lambda scale, seed, execution: of_module("images", "learning_rows", scale, seed, execution),
        findings.both_learn,
        sizes.images,
    ),
    "12": Figure(
        "Bounds against recall on Adult",
        "On tables the attack on a network shows what the baseline shows.",
        recall_rows("epochs", modalities=("tables",)),
        findings.nothing_of_networks,
        sizes.tables,
    ),
    "13": Figure(
        "Losses of images",
        "Losses of members and of others lie further apart the more a model over-fits.",
        losses("images", "tables"),
        findings.losses,
        sizes.images_and_tables,
    ),
    "14": Figure(
        "Losses of texts",
        "The same of language models.",
        losses("texts"),
        findings.losses,
        sizes.texts,
    ),
    "15": Figure(
        "Larger models",
        "Larger models show more.",
        growth_rows,
        findings.growth,
        sizes.images,
    ),
    "generators": Figure(
        "Which generator is closest",
        "Ours, no figure of the paper: the recommended generators are at least as close as the others.",
        generator_rows,
        findings.generator,
        sizes.generators,
    ),
}


ONLY = {
    "all": tuple(FIGURES),
    "images": ("table-7", "table-8", "table-10", "table-11", "2", "5", "11", "15"),
    "texts": ("table-9", "9", "14"),
    "tables": ("table-6", "12", "generators"),
}
reproduce = reproducing("panoramia", FIGURES, full=FULL, quick=QUICK)
