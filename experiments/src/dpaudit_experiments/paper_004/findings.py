"""What the tables and figures of paper 004 say: each word follows from the rows alone.

"More" is more by `NOISE` at least, "nothing" at most that; where nothing was measured, nothing is confirmed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from dpaudit.assumptions import round_down
from dpaudit_experiments.common.figure import Judged, Rows, said
from dpaudit_experiments.common.metrics import grouped

FLAT = 0.1
"""A learning curve that rises by less in a doubling of its rows is called flat."""
NOISE = 0.1
"""Differences of medians up to it are called none."""
PRIVATE, LOOSE = 2.0, 10.0
"""Models up to the first epsilon should show nothing, from the second on the more the larger it is."""
LOW = 0.25
"""Of the items: so many guesses at most are a low recall."""
LITTLE, MUCH = 0.9, 0.75
"""What is left by a relaxation that costs little, at least, and by one that costs much, at most."""


def _of_something(judge: Callable[[Rows], Judged]) -> Callable[[Rows], Judged]:
    @wraps(judge)
    def judged(rows: Rows) -> Judged:
        return judge(rows) if rows else (said(False), "nothing was measured")

    return judged


def _degree(row: dict[str, Any]) -> float:
    return math.inf if row["degree"] is None else float(row["degree"])


def _named(row: dict[str, Any]) -> str:
    return "infinite" if row["degree"] is None else f"{row['degree']:g}"


def _shown(value: float | None) -> str:
    return "none" if value is None else round_down(value)


def _rises(line: Rows, key: str) -> bool:
    return all(b[key] > a[key] for a, b in itertools.pairwise(line))


# ----------------------------------------------------------------------------------------------------------- baselines


@_of_something
def helpers(rows: Rows) -> Judged:
    """A helper of generated rows should be better than any other, in every modality."""
    parts, good = [], True
    for own in grouped(rows, ("modality",)):
        shown = {row["helper"]: row["median_closeness"] for row in own}
        others = [value for name, value in shown.items() if not name.startswith("generated")]
        good &= bool(others) and shown["generated"] > max(others)
        parts.append(
            f"{own[0]['modality']}: " + ", ".join(f"{name} {round_down(value)}" for name, value in shown.items())
        )
    return said(good), f"median c_lb by what the helper was trained on; {'; '.join(parts)}"


def _curve(rows: Rows, key: str) -> dict[int, float]:
    return {
        part[0]["training_rows"]: float(np.median([row[key] for row in part]))
        for part in sorted(grouped(rows, ("training_rows",)), key=lambda part: part[0]["training_rows"])
    }


def _last_doubling(curve: dict[int, float]) -> float:
    """What a doubling of the rows added at the end."""
    (fewer, before), (all_of_them, after) = list(curve.items())[-2:]
    return (after - before) / math.log2(all_of_them / fewer)


def _listed(curve: dict[int, float]) -> str:
    return ", ".join(f"{round_down(value)} of {rows:,}" for rows, value in curve.items())


@_of_something
def learning(rows: Rows) -> Judged:
    """Flat at its end, and not falling."""
    curve = _curve([row for row in rows if row.get("panel", "a") == "a"], "closeness")
    last = _last_doubling(curve)
    because = (
        f"median c_lb of the baseline by its training rows: {_listed(curve)}; at the end a doubling added {last:.2f}"
    )
    rest = [row for row in rows if row.get("panel", "a") != "a"]
    if rest:
        because += f"; with all rows shared out (b): {_listed(_curve(rest, 'closeness'))}"
    return said(abs(last) < FLAT), f"{because} (flat is called less than {FLAT:g})"


@_of_something
def both_learn(rows: Rows) -> Judged:
    """Baseline and attack gain by more rows, and are flat at the end."""
    curves = {"c_lb of the baseline": _curve(rows, "closeness"), "{c+epsilon}_lb of the attack": _curve(rows, "total")}
    gains = [list(curve.values())[-1] - next(iter(curve.values())) > NOISE for curve in curves.values()]
    ends = [abs(_last_doubling(curve)) < FLAT for curve in curves.values()]
    words = "; ".join(
        f"median {name} by training rows: {_listed(curve)}, at the end {_last_doubling(curve):.2f} in a doubling"
        for name, curve in curves.items()
    )
    return said(all(gains) and all(ends)), f"{words} (flat is called less than {FLAT:g})"


# ------------------------------------------------------------------------------------------------------------- targets


@_of_something
def main(rows: Rows) -> Judged:
    """More over-fitted targets show more; epsilon-tilde stays below what real non-members show."""
    parts, good = [], True
    for own in grouped([row for row in rows if row["family"] == "epochs"], ("modality",)):
        line = sorted(own, key=_degree)
        rises, first, last = _rises(line, "median_total"), line[0], line[-1]
        apart = last["least_total"] > first["largest_total"]
        good &= rises
        totals = ", ".join(f"{round_down(row['median_total'])} ({row['target']})" for row in line)
        parts.append(
            f"{own[0]['modality']} c_lb {round_down(own[0]['median_closeness'])}, {{c+epsilon}}_lb {totals}"
            f"{'' if rises else ', which does not rise throughout'}; smallest of the most over-fitted "
            f"{round_down(last['least_total'])}, largest of the least {round_down(first['largest_total'])}"
            f"{' (every game apart)' if apart else ''}"
        )
    compared = [row for row in rows if row["median_real"] is not None and row["median_one_run"] is not None]
    above = [row for row in compared if row["median_difference_estimate"] > _best(row) + NOISE]
    good &= bool(parts) and bool(compared) and not above
    named = ", ".join(f"{row['target']} ({row['median_difference_estimate']:.2f}, {_best(row):.2f})" for row in above)
    tail = (
        f"; epsilon-tilde above the better of RM;RN and O(1) by more than {NOISE:g}: {named or 'nowhere'}, of "
        f"{len(compared)} targets"
    )
    return said(good), ". ".join(parts) + tail


def _best(row: dict[str, Any]) -> float:
    return max(row["median_real"], row["median_one_run"])


@_of_something
def adult(rows: Rows) -> Judged:
    """The paper finds nothing of its networks on a table, and O(1) does."""
    networks = [row for row in rows if row["target"].startswith("MLP")]
    silent = all(row["median_difference_estimate"] <= NOISE for row in networks)
    alone = all((row["median_one_run"] or 0.0) > NOISE for row in networks)
    words = "; ".join(
        f"{row['target']}: epsilon-tilde {row['median_difference_estimate']:.2f} (estimate), O(1) "
        f"{_shown(row['median_one_run'])}, accuracy {row['train']:.2f} and {row['test']:.2f}, the attack uses "
        f"the model in {row['uses_model']} of {row['games']}"
        for row in rows
    )
    return said(bool(networks) and silent and alone), f"medians; {words} (nothing is called {NOISE:g} or less)"


@_of_something
def private(rows: Rows) -> Judged:
    """Nothing from very private models, and more the larger epsilon is."""
    line = sorted(rows, key=_degree)
    quiet = [row for row in line if _degree(row) <= PRIVATE]
    loose = [row for row in line if _degree(row) >= LOOSE]
    silent = bool(quiet) and all(row["largest_difference_estimate"] == 0.0 for row in quiet)
    loud = line[-1]["degree"] is None and line[-1]["median_difference_estimate"] > NOISE
    words = "; ".join(
        f"epsilon {_named(row)}: {{c+epsilon}}_lb {round_down(row['median_total'])}, the attack uses the model in "
        f"{row['uses_model']} of {row['games']}, O(1) {_shown(row['median_one_run'])}, accuracy {row['train']:.2f} and "
        f"{row['test']:.2f}"
        for row in line
    )
    because = f"medians over the games, c_lb {round_down(line[0]['median_closeness'])}; {words}"
    return said(silent and loud and _rises(loose, "median_total")), because


@_of_something
def text_private(rows: Rows) -> Judged:
    """Neither audit shows anything of private language models, and both do of one that is not."""
    kept = [row for row in rows if row["degree"] is not None]
    silent = all(
        row["median_difference_estimate"] <= NOISE
        and row["median_one_run"] is not None
        and row["median_one_run"] <= NOISE
        for row in kept
    )
    control = [row for row in rows if row["degree"] is None and row["median_difference_estimate"] > NOISE]
    words = "; ".join(
        f"{row['target']}: epsilon-tilde {row['median_difference_estimate']:.2f} (estimate), O(1) "
        f"{_shown(row['median_one_run'])}, loss {row['train']:.2f} and {row['test']:.2f}, the attack uses the "
        f"model in {row['uses_model']} of {row['games']}"
        for row in rows
    )
    return said(bool(kept) and silent and bool(control)), f"medians; {words}"


@_of_something
def twin(rows: Rows) -> Judged:
    """The same epsilon, another outcome: further apart than the games of one model are."""
    parts, good = [], False
    for own in grouped(rows, ("degree",)):
        low, high = min(own, key=lambda row: row["median_total"]), max(own, key=lambda row: row["median_total"])
        apart = high["least_total"] > low["largest_total"]
        good |= apart
        listed = ", ".join(
            f"{row['target']} {round_down(row['median_total'])} (accuracy {row['train']:.2f} and {row['test']:.2f}, "
            f"O(1) {_shown(row['median_one_run'])})"
            for row in own
        )
        parts.append(f"epsilon {own[0]['degree']:g}: {listed}{'' if apart else ', not apart in every game'}")
    return said(good), f"median {{c+epsilon}}_lb; {'; '.join(parts)}"


@_of_something
def relaxed(rows: Rows) -> Judged:
    """Small relaxations cost little, large ones much."""
    small, large = [], []
    for own in grouped([row for row in rows if row["delta"] == 0.0], ("target",)):
        plain = own[0]["total"]
        if plain > 0.0:
            small.append(min(row["total"] for row in own if row["closeness_slack"] <= 1e-5) / plain)
            large.append(own[-1]["total"] / plain)
    if not small:
        return said(False), "no target shows anything to relax"
    because = (
        f"of {{c+epsilon}}_lb without relaxation at least {min(small):.2f} is left with gamma 1e-5, and "
        f"{min(large):.2f} to {max(large):.2f} with 1e-3 (delta 0; little is called {LITTLE:g} or more left, much "
        f"{MUCH:g} or less)"
    )
    return said(min(small) >= LITTLE and min(large) <= MUCH), because


# --------------------------------------------------------------------------------------------------------------- lines


def _peaks(rows: Rows) -> tuple[float, Rows, str]:
    """The baseline's highest point, that of every target, and both in words."""
    lines = {
        line[0]["target"]: max(line, key=lambda row: row["median_total_alone"]) for line in grouped(rows, ("target",))
    }
    base = float(lines.pop("baseline")["median_total_alone"])
    words = f"{rows[0]['modality']}: baseline at most {round_down(base)}; " + ", ".join(
        f"{name} {round_down(peak['median_total_alone'])} at {peak['share']:.3f}" for name, peak in lines.items()
    )
    return base, list(lines.values()), words


PEAKS = "highest median over the games, and the share called real there"


@_of_something
def recall(rows: Rows) -> Judged:
    """The highest line of each modality is above the baseline's, at low recall."""
    parts, good = [], True
    for own in grouped(rows, ("modality",)):
        base, peaks, words = _peaks(own)
        top = max(peaks, key=lambda row: row["median_total_alone"])
        good &= top["median_total_alone"] > base + NOISE and top["share"] <= LOW
        parts.append(words)
    return said(good), f"{PEAKS}; {'; '.join(parts)} (low is called {LOW:g} or less)"


@_of_something
def private_recall(rows: Rows) -> Judged:
    """Very private models stay with the baseline, and one that is not private rises above it."""
    base, peaks, words = _peaks(rows)
    over = [row for row in peaks if row["median_total_alone"] > base + NOISE]
    quiet = all(_degree(row) > PRIVATE for row in over)
    return said(quiet and any(row["degree"] is None for row in over)), f"{PEAKS}; {words}"


@_of_something
def nothing_of_networks(rows: Rows) -> Judged:
    """On the table, lines of networks stay with the baseline's."""
    base, peaks, words = _peaks(rows)
    networks = [row for row in peaks if row["target"].startswith("MLP")]
    same = all(row["median_total_alone"] <= base + NOISE for row in networks)
    return said(bool(networks) and same), f"{PEAKS}; {words}"


def _tenths(rows: Rows) -> dict[str, float]:
    """Precision among the surest tenth, by line."""
    most = max(row["guesses"] for row in rows)
    return {
        line[0]["target"]: min(line, key=lambda row: abs(row["guesses"] - most / 10.0))["precision_estimate"]
        for line in grouped(rows, ("target",))
    }


def _precision(rows: Rows, enough: Callable[[float, list[float]], bool]) -> Judged:
    parts, good = [], True
    for own in grouped(rows, ("modality",)):
        tenth = _tenths(own)
        good &= enough(tenth["baseline"], [value for name, value in tenth.items() if name != "baseline"])
        parts.append(f"{own[0]['modality']}: " + ", ".join(f"{name} {value:.3f}" for name, value in tenth.items()))
    return said(good), f"precision among the surest tenth of one game (estimates); {'; '.join(parts)}"


@_of_something
def precision(rows: Rows) -> Judged:
    """Rising with over-fitting, from the baseline on."""
    return _precision(rows, lambda base, line: line[-1] > base and all(b >= a for a, b in itertools.pairwise(line)))


@_of_something
def more_found(rows: Rows) -> Judged:
    """The most over-fitted target above the baseline."""
    return _precision(rows, lambda base, line: line[-1] > base)


@_of_something
def pairs(rows: Rows) -> Judged:
    """More pairs show more, for the target of each modality that shows most."""
    parts, good = [], True
    for own in grouped(rows, ("modality",)):
        line = max(grouped(own, ("target",)), key=lambda part: part[-1]["median_total"])
        good &= line[-1]["median_total"] > line[0]["median_total"] + NOISE
        shown = ", ".join(f"{round_down(row['median_total'])} of {row['pairs']:,}" for row in line)
        tilde = ", ".join(f"{row['median_difference_estimate']:.2f}" for row in line)
        parts.append(f"{own[0]['modality']}, {line[0]['target']}: {{c+epsilon}}_lb {shown}; epsilon-tilde {tilde}")
    return said(good), f"medians; {'. '.join(parts)}"


# ------------------------------------------------------------------------------------------- losses, sizes, generators


@_of_something
def losses(rows: Rows) -> Judged:
    """The gap between members and others grows with over-fitting: total variation between the two histograms."""
    parts, good = [], True
    for own in grouped(rows, ("modality",)):
        gaps: dict[str, float] = {}
        for part in grouped(own, ("target",)):
            shares = {line[0]["group"]: np.array([row["share"] for row in line]) for line in grouped(part, ("group",))}
            gaps[part[0]["target"]] = float(np.abs(shares["members"] - shares["real non-members"]).sum() / 2.0)
        ends = [gap for name, gap in gaps.items() if "helper" not in name]
        good &= ends[-1] > ends[0]
        parts.append(f"{own[0]['modality']}: " + ", ".join(f"{name} {gap:.2f}" for name, gap in gaps.items()))
    return said(good), f"total variation between losses of members and of real non-members; {'; '.join(parts)}"


@_of_something
def growth(rows: Rows) -> Judged:
    """Larger models show more."""
    line = sorted(rows, key=_degree)
    words = ", ".join(
        f"{row['degree']:,.0f} parameters {round_down(row['median_total'])} (accuracy {row['train']:.2f} and "
        f"{row['test']:.2f})"
        for row in line
    )
    good = _rises(line, "median_total") and line[-1]["median_total"] > line[0]["median_total"] + NOISE
    return said(good), f"median {{c+epsilon}}_lb: {words}"


@_of_something
def generator(rows: Rows) -> Judged:
    """The recommended generators come first: sequential trees for tables, pixel grids for pictures."""
    parts, good = [], True
    for own in grouped([row for row in rows if row["poor"] == 0.0], ("modality",)):
        shown = {row["generator"]: row["median_closeness"] for row in own}
        recommended, *others = shown.values()
        good &= bool(others) and recommended <= min(others)
        parts.append(
            f"{own[0]['modality']}: " + ", ".join(f"{name} {round_down(value)}" for name, value in shown.items())
        )
    return said(good), f"median c_lb of the baseline, smaller is closer; {'; '.join(parts)} (recommended ones first)"
