"""Paper 002, figures 3, 4 and appendix E: what the lines of PATE, CaPC and PromptPATE say of its findings.

The three algorithms differ in teachers, noise and adjacency, so divergences are not set side by side; shares are: how
much of the largest divergence that one teacher's vote can make an adversary reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpaudit.assumptions import round_down
from dpaudit.execution import Execution
from dpaudit_experiments.common.figure import Judged, Rows, Sizes, said
from dpaudit_experiments.paper_002 import prompts as prediction_prompts
from dpaudit_experiments.paper_002 import teachers as prediction_teachers
from dpaudit_experiments.paper_002.teachers import ADVERSARIES

ALGORITHMS = ("PATE", "CaPC", "PromptPATE")
FAR_LESS, NOT_TIGHT = 0.1, 1.1


def all_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """Every set, algorithm and adversary."""
    return [
        *prediction_teachers.measured(scale.teachers, seed, execution),
        *prediction_prompts.measured(scale.prompts, seed, execution),
    ]


def adversarial_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    return [row for row in all_rows(scale, seed, execution) if row["adversary"] in ADVERSARIES[:2]]


def natural_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """Pois-AdvQ, and Pois-NatQ: of several, the one that leaks most."""
    return best_natural([row for row in all_rows(scale, seed, execution) if row["adversary"] != "Nat-AdvQ"])


def best_natural(rows: Rows) -> Rows:
    found: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for row in rows:
        key = row["data"], row["algorithm"], row["adversary"].startswith("Pois-NatQ")
        if key not in found or row["mean_divergence_2_estimate"] > found[key]["mean_divergence_2_estimate"]:
            found[key] = row
    return list(found.values())


def adversarial_judged(rows: Rows) -> Judged:
    """What is easier to poison leaks more, by both adversaries, over all queries and in the mean over sets; and the
    published analysis is at least a tenth above the exact one, both by orders and in the direction that it is about."""
    shares = {(a, who): _share(rows, a, who) for a in ALGORITHMS for who in ADVERSARIES[:2]}
    ordered = all(shares["PATE", who] < shares["CaPC", who] < shares["PromptPATE", who] for who in ADVERSARIES[:2])
    composed = [row for row in rows if row["epsilon"] is not None and row["algorithm"] in ALGORITHMS]
    gaps = [row["published_data_dependent_epsilon"] / row["exact_data_dependent_epsilon"] for row in composed]
    pate = [row for row in rows if row["algorithm"] == "PATE"]
    worst = max(pate, key=lambda row: row["worst_divergence_2_estimate"])
    listed = "; ".join(f"{who} {', '.join(f'{shares[a, who]:.2g}' for a in ALGORITHMS)}" for who in ADVERSARIES[:2])
    most = max(composed, key=lambda row: row["epsilon"])
    why = (
        f"divergences of order 2 over all queries, as a share of the largest that one vote can make, mean over sets "
        f"({', '.join(ALGORITHMS)}): {listed}. The published data-dependent epsilon of {composed[0]['answers']:,} "
        f"answers is {min(gaps):.3g} to {max(gaps):.3g} times the exact one, both converted from Renyi divergences of "
        f"one direction (not tight is taken as {NOT_TIGHT:g}); composed exactly, they leak at most "
        f"{round_down(most['epsilon'])} ({most['algorithm']}, {most['adversary']}, {most['data']}). The largest "
        f"divergence found of one answer of PATE is {worst['worst_divergence_2_estimate']:.2g} ({worst['data']}, under "
        "the fitted vote distributions)"
    )
    return said(ordered and min(gaps) >= NOT_TIGHT), why


def _share(rows: Rows, algorithm: str, adversary: str) -> float:
    asked = (algorithm, adversary)
    return float(np.mean([r["total_share_estimate"] for r in rows if (r["algorithm"], r["adversary"]) == asked]))


def natural_judged(rows: Rows) -> Judged:
    """Natural queries leak far less (a tenth) than adversarial ones, both in the mean over queries."""
    good, parts = True, []
    for (data, algorithm), by in _cells(rows).items():
        asked, natural = (
            next(row for row in by.values() if row["adversary"].startswith(who)) for who in ("Pois-AdvQ", "Pois-NatQ")
        )
        usual, mean = (row["mean_divergence_2_estimate"] for row in (asked, natural))
        good &= mean <= FAR_LESS * usual
        best = natural["adversary"].partition(", ")[2]
        floor = natural["floor_divergence_2_estimate"]
        note = f" ({best})" if best else "" if floor is None else f" (without a record {floor:.2g})"
        parts.append(f"{data}, {algorithm}{note}: {mean:.2g} against {usual:.2g}")
    why = (
        "divergence of order 2 of one answer, mean over natural queries against the mean over adversarial ones "
        f"(far less is taken as {FAR_LESS:g}): "
    )
    return said(bool(good)), why + "; ".join(parts)


def appendix_judged(rows: Rows) -> Judged:
    """Section 5.4: poisoning leaks more than a natural record in PATE, and about as much elsewhere (within a tenth)."""
    good, parts = True, []
    for (data, algorithm), by in _cells(rows).items():
        key = "mean_divergence_2_estimate" if algorithm == "PATE" else "epsilon"
        natural, poison = (by[who][key] for who in ADVERSARIES[:2])
        good &= poison > natural if algorithm == "PATE" else abs(poison - natural) <= 0.1 * max(poison, natural)
        shown = f"{natural:.2g}, {poison:.2g}" if algorithm == "PATE" else f"{natural:.2f}, {poison:.2f}"
        parts.append(f"{data}, {algorithm}: {shown}")
    why = (
        "Nat-AdvQ, Pois-AdvQ; for PATE the mean divergence of order 2 of an answer, for the others the epsilon of "
        "all answers to the worst query: "
    )
    return said(bool(good)), why + "; ".join(parts)


def _cells(rows: Rows) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """The lines of each set and algorithm of the paper, by adversary; the calibrated one is ours, only shown."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        if row["algorithm"] in ALGORITHMS:
            found.setdefault((row["data"], row["algorithm"]), {})[row["adversary"]] = row
    return found


def sizes(scale: Any) -> Sizes:
    return [*prediction_teachers.teacher_sizes(scale), *prediction_prompts.prompt_sizes(scale)]
