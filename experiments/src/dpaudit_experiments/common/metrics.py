"""PANORAMIA's games on their targets, and the numbers of figures and tables that follow (paper 004).

Everything here is a function of evidence: bounds of the joint region, lines against recall, against the number of
audited pairs, and against what is allowed to a generator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import estimators
from dpaudit.bounds import Relation
from dpaudit.estimators import lower_limit
from dpaudit.estimators.thresholds import member_guesses
from dpaudit.evidence import CanaryScores, PairedScores
from dpaudit.games.panoramia import ALIKE, MADE, SAME_DISTRIBUTION
from dpaudit_experiments.common.figure import Rows

LEVEL = 0.025
"""Of each of the two statements of a region at 95% confidence."""
SHARES = tuple(float(share) for share in np.round(np.geomspace(0.005, 1.0, 20), 4))
"""Of the audited items: how many are called real."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetGame:
    """One game on one target.

    Attributes
    ----------
    modality, target
        "images", "texts" or "tables", and the target's name, such as "CNN, 40 epochs".
    family, degree
        Targets that one figure puts side by side ("epochs", "epsilon", "size"), and the place of this one among them:
        epochs, the epsilon it was trained with (infinite: not private), or parameters.
    game
        Which of the games on the same target: other parts, other coins.
    generated
        Real members against generated rows (RM;GN).
    real
        Real members against real non-members, the same guessers (RM;RN): closeness 0 holds by construction.
    one_run
        Audited members against real non-members, by coins of their own, scored by the target's loss alone (O(1)).
    train, test
        Accuracy (texts: loss) of the target on its members, and on real non-members.
    """

    modality: str
    target: str
    family: str
    degree: float
    game: int
    generated: PairedScores
    real: PairedScores | None = None
    one_run: CanaryScores | None = None
    train: float = 0.0
    test: float = 0.0


def paired(
    included: Any, baseline: Any, attack: Any, *, seed: int, real: bool = False, unit: str = "record"
) -> PairedScores:
    """Scores that were kept as numbers, with what they rest on; `real`: against real non-members."""
    return PairedScores(
        included=np.asarray(included) > 0.5,
        baseline=baseline,
        attack=attack,
        assumptions=(ALIKE, SAME_DISTRIBUTION if real else MADE),
        unit=unit,
        seed=seed,
    )


def alone_scored(included: Any, scores: Any, *, seed: int, unit: str = "record") -> CanaryScores:
    """The same of an audit by the loss alone."""
    return CanaryScores(
        scores=scores,
        included=np.asarray(included) > 0.5,
        relation=Relation.SUBSTITUTE,
        assumptions=(ALIKE, SAME_DISTRIBUTION),
        unit=unit,
        seed=seed,
    )


def first(evidence: Any, count: int) -> Any:
    """The first items of evidence whose order says nothing of them, and that share no units."""
    if evidence.group is not None:
        raise ValueError("items of one unit must stay together")
    names = ("included", "baseline", "attack") if isinstance(evidence, PairedScores) else ("included", "scores")
    parts: dict[str, Any] = {name: getattr(evidence, name)[:count] for name in names}
    if isinstance(evidence, CanaryScores):
        parts["relation"] = evidence.relation
    return type(evidence)(**parts, seed=evidence.seed, assumptions=evidence.assumptions)


def real_epsilon(evidence: PairedScores | None) -> float | None:
    """A bound: real non-members are 0-close to members drawn with them, so what the attack shows is the model's.

    Whatever closeness is asserted, the whole error probability goes to the attack.
    """
    if evidence is None:
        return None
    shown = estimators.panoramia(evidence).divergence
    return float(estimators.panoramia(evidence, asserted_divergence=shown).total)


def one_run_epsilon(evidence: CanaryScores | None) -> float | None:
    return None if evidence is None else float(estimators.epsilon_from_canaries(evidence, delta=0.0).epsilon or 0.0)


def measured(one: TargetGame) -> dict[str, Any]:
    """One game in numbers; the difference is the paper's epsilon-tilde."""
    region = estimators.panoramia(one.generated)
    return {
        "modality": one.modality,
        "target": one.target,
        "family": one.family,
        "degree": one.degree if np.isfinite(one.degree) else None,
        "game": one.game,
        "pairs": one.generated.included.size,
        "closeness": region.divergence,
        "total": region.total,
        "difference_estimate": region.difference,
        "uses_model": not np.array_equal(one.generated.attack, one.generated.baseline),
        "real": real_epsilon(one.real),
        "one_run": one_run_epsilon(one.one_run),
        "train": one.train,
        "test": one.test,
    }


def summed_up(rows: Rows) -> Rows:
    """One line a target: medians, and the smallest and largest of its games. A median of bounds is not a bound."""
    found: Rows = []
    for own in grouped(rows, ("modality", "target")):
        line = {name: own[0][name] for name in ("modality", "target", "family", "degree")}
        line |= {"games": len(own), "uses_model": sum(row["uses_model"] for row in own), "pairs": own[0]["pairs"]}
        line |= {"median_closeness": _median(own, "closeness")}
        line |= {"least_total": min(row["total"] for row in own), "median_total": _median(own, "total")}
        line |= {"largest_total": max(row["total"] for row in own)}
        line |= {"largest_difference_estimate": max(row["difference_estimate"] for row in own)}
        line |= {f"median_{name}": _median(own, name) for name in ("difference_estimate", "real", "one_run")}
        line |= {name: float(np.mean([row[name] for row in own])) for name in ("train", "test")}
        found.append(line)
    return found


def grouped(rows: Iterable[dict[str, Any]], keys: tuple[str, ...]) -> list[Rows]:
    """Rows that agree in these keys, in their order."""
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(found.values())


def _median(rows: Rows, name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return float(np.median(values)) if values else None


# ------------------------------------------------------------------------------------------------- lines against recall


def precision_lines(one: TargetGame, *, with_baseline: bool) -> Rows:
    """Figures 3 and 10: of so many items called real, how many are."""
    found: Rows = []
    for name, path in _paths(one, with_baseline):
        for share in SHARES:
            guesses = _guesses(share, path)
            right = int(path[guesses])
            found.append(
                {
                    "modality": one.modality,
                    "target": name,
                    "guesses": guesses,
                    "right": right,
                    "recall": right / int(path[-1]),
                    "precision_estimate": right / guesses,
                }
            )
    return found


def recall_lines(games: list[TargetGame], *, with_baseline: bool) -> Rows:
    """Figure 4: what each number of guesses would have shown, had it alone been fixed in advance; over the games."""
    found: Rows = []
    names = [name for name, _ in _paths(games[0], with_baseline)]
    for place, name in enumerate(names):
        for share in SHARES:
            values = [alone(_paths(one, with_baseline)[place][1], share) for one in games]
            found.append(
                {
                    "modality": games[0].modality,
                    "target": name,
                    "degree": games[0].degree if np.isfinite(games[0].degree) else None,
                    "share": share,
                    "games": len(values),
                    "least_total_alone": min(values),
                    "median_total_alone": float(np.median(values)),
                    "largest_total_alone": max(values),
                }
            )
    return found


def _paths(one: TargetGame, with_baseline: bool) -> list[tuple[str, NDArray[Any]]]:
    evidence = one.generated.reduced()
    lines = [(one.target, member_guesses(evidence.attack, evidence))]
    return [("baseline", member_guesses(evidence.baseline, evidence)), *lines] if with_baseline else lines


def _guesses(share: float, path: NDArray[Any]) -> int:
    return max(1, round(share * (path.size - 1)))


def alone(path: NDArray[Any], share: float) -> float:
    """The bound of one number of guesses at half the error probability."""
    guesses = _guesses(share, path)
    return max(0.0, float(special.logit(lower_limit(int(path[guesses]), guesses, LEVEL))))


# ---------------------------------------------------------------------------- lines against sizes, and with relaxations


def size_lines(games: list[TargetGame], sizes: tuple[int, ...]) -> Rows:
    """Figure 6: the same games with fewer audited pairs."""
    found: Rows = []
    for size in sizes:
        own = [one for one in games if one.generated.included.size >= size]
        if not own:
            continue
        regions = [estimators.panoramia(first(one.generated, size)) for one in own]
        known = [one for one in own if one.one_run is not None and one.one_run.included.size >= size]
        ones = [one_run_epsilon(first(one.one_run, size)) for one in known]
        found.append(
            {
                "modality": own[0].modality,
                "target": own[0].target,
                "pairs": size,
                "games": len(own),
                "median_closeness": float(np.median([region.divergence for region in regions])),
                "median_total": float(np.median([region.total for region in regions])),
                "median_difference_estimate": float(np.median([region.difference for region in regions])),
                "median_one_run": float(np.median(ones)) if ones else None,  # type: ignore[arg-type]
            }
        )
    return found


def relaxed_lines(one: TargetGame, slacks: tuple[float, ...], deltas: tuple[float, ...]) -> Rows:
    """Table 11: a share of the real records that no generator makes, and an (epsilon, delta)-DP model."""
    found: Rows = []
    for delta in deltas:
        for slack in slacks:
            region = estimators.panoramia(one.generated, delta=delta, divergence_slack=slack)
            found.append(
                {
                    "modality": one.modality,
                    "target": one.target,
                    "delta": delta,
                    "closeness_slack": slack,
                    "closeness": region.divergence,
                    "total": region.total,
                    "difference_estimate": region.difference,
                }
            )
    return found
