"""Paper 002, "Auditing Private Prediction": its figures 2 to 6, and its appendix E.

| figure | what is measured |
|---|---|
| 2 | the exact divergence, published and exact data-dependent bounds, and the 2-cut audit of sampled answers |
| 3, 4, E | PATE and CaPC: `teachers`; PromptPATE: `prompts`; `findings` |
| 5 | Private-kNN: `knn` |
| 6 | all audits of appendix B on the same answers: 2-cut and k-cut, exact, asymptotic and by bootstrap |

Every sample is drawn from the mechanism itself. The exact 2-cut is the corner bound of
theory:private-prediction#two-cut; the paper's own formula stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpaudit import accounting, estimators
from dpaudit.bounds import Relation
from dpaudit.estimators import lower_limit, upper_limit
from dpaudit.evidence import OutputCounts
from dpaudit.execution import Execution, distinct_seeds
from dpaudit.mechanisms.private_prediction import NoisyVotes, data_dependent_renyi
from dpaudit.tradeoff import renyi_divergence
from dpaudit_experiments.common.figure import Figure, Judged, Rows, Sizes, allowed_over, reproducing, said
from dpaudit_experiments.paper_002 import findings as prediction_findings
from dpaudit_experiments.paper_002 import knn as prediction_knn
from dpaudit_experiments.paper_002 import prompts as prediction_prompts
from dpaudit_experiments.paper_002 import teachers as prediction_teachers

PAIRS = (
    ([14, 12, 10, 8, 6], [13, 13, 10, 8, 6]),
    ([20, 10, 10, 5, 5], [19, 11, 10, 5, 5]),
    ([13, 12, 25], [13, 13, 24]),
    ([26, 14, 10], [25, 15, 10]),
)
"""The paper's pair first; then a clear winner, a loser that moves, and near agreement."""
EQUAL = ([14, 12, 10, 8, 6], [14, 12, 10, 8, 6])
"""Nothing leaks: where the paper says that a bootstrap fails."""
SIGMA, LEVEL = 2.0, 0.05
KNN = prediction_knn.KnnScale()
TEACHERS = prediction_teachers.TeacherScale()
PROMPTS = prediction_prompts.PromptScale()


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Answers sampled in each world, repeats of the audit (fewer where all methods are tried), and orders."""

    trials: int = 1_000_000
    repeats: int = 100
    tried: int = 20
    orders: tuple[float, ...] = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
    knn: prediction_knn.KnnScale = KNN
    teachers: prediction_teachers.TeacherScale = TEACHERS
    prompts: prediction_prompts.PromptScale = PROMPTS


FULL = Scale()
QUICK = Scale(
    trials=20_000,
    repeats=3,
    tried=2,
    orders=(2.0, 8.0),
    knn=prediction_knn.KnnScale(queries=10, repeats=20, neighbors=20, fetched=False),
    teachers=prediction_teachers.TeacherScale(
        sets=("MNIST",), queries=5, trainings=2, special=3, answers=20, teachers=12, fetched=False
    ),
    prompts=prediction_prompts.PromptScale(
        sets=("Rotten Tomatoes",), teachers=12, queries=5, answers=20, sigma=1.5, longest=12, fetched=False
    ),
)


@dataclass(frozen=True)
class Sampled:
    """One audit: answers of both worlds, and what each method reads off them at every order."""

    pair: int
    trials: int
    orders: tuple[float, ...]
    methods: tuple[str, ...]

    def __call__(self, seed: int) -> list[float]:
        present, absent = (*PAIRS, EQUAL)[self.pair]
        mechanism = NoisyVotes(sigma=SIGMA, classes=len(present))
        counts = [
            np.bincount(mechanism.release(np.tile(votes, (self.trials, 1)), own), minlength=len(votes))
            for votes, own in zip((present, absent), distinct_seeds(seed, "worlds", 2), strict=True)
        ]
        evidence = OutputCounts(present=counts[0], absent=counts[1], relation=Relation.SUBSTITUTE, seed=seed)
        return [value for method in self.methods for value in self._read(evidence, method)]

    def _read(self, evidence: OutputCounts, method: str) -> list[float]:
        event = winner(self.pair)
        if method == "two_cut_printed":
            return [printed(evidence, event, order) for order in self.orders]
        ways: dict[str, dict[str, Any]] = {
            "two_cut": {"event": event, "direction": "present"},
            "two_cut_any_event": {},
            "two_cut_bootstrap_estimate": {"event": event, "method": "bootstrap"},
            "k_cut": {"cuts": "all"},
            "k_cut_goodman_estimate": {"cuts": "all", "method": "goodman"},
            "k_cut_sison_glaz_estimate": {"cuts": "all", "method": "sison-glaz"},
            "k_cut_bootstrap_estimate": {"cuts": "all", "method": "bootstrap"},
        }
        return list(estimators.renyi_from_outputs(evidence, orders=self.orders, **ways[method]).divergences)


def winner(pair: int) -> int:
    """The class that loses a vote: the event of the 2-cut, likelier where it still has it."""
    present, absent = (np.array(votes) for votes in (*PAIRS, EQUAL)[pair])
    return int(np.argmax(present - absent))


def printed(evidence: OutputCounts, event: int, order: float) -> float:
    """The paper's 2-cut, two corners mixed, with four joint limits: valid, and often below 0 (theory:errata#002-5)."""
    level = LEVEL / 4.0
    (p_low, p_high), (q_low, q_high) = (
        (lower_limit(x, n, level), upper_limit(x, n, level))
        for x, n in ((int(c[0, event]), int(c.sum())) for c in (evidence.present, evidence.absent))
    )
    value = p_low**order * q_high ** (1.0 - order) + (1.0 - p_high) ** order * (1.0 - q_low) ** (1.0 - order)
    return float(np.log(value) / (order - 1.0))


AUDITS = ("two_cut", "two_cut_any_event", "two_cut_printed")
ALL_AUDITS = (
    *AUDITS[:2],
    "two_cut_bootstrap_estimate",
    "k_cut",
    "k_cut_goodman_estimate",
    "k_cut_sison_glaz_estimate",
    "k_cut_bootstrap_estimate",
)


def _rows(methods: tuple[str, ...], bounds: bool, repeats: int, scale: Scale, seed: int, execution: Execution) -> Rows:
    rows: Rows = []
    for pair, (present, absent) in enumerate(PAIRS if bounds else (*PAIRS, EQUAL)):
        title = f"histograms {pair + 1}"
        seeds = distinct_seeds(seed, title, repeats)
        lines = execution.map(Sampled(pair, scale.trials, scale.orders, methods), seeds, title=title)
        found = np.array(lines).reshape(repeats, len(methods), len(scale.orders))
        mechanism = NoisyVotes(sigma=SIGMA, classes=len(present))
        distributions = [mechanism.distribution(votes) for votes in (present, absent)]
        two = [
            np.array([distribution[winner(pair)], 1.0 - distribution[winner(pair)]]) for distribution in distributions
        ]
        for place, order in enumerate(scale.orders):
            exact = float(renyi_divergence(distributions[0], distributions[1], orders=order)[0])
            row: dict[str, Any] = {
                "histograms": f"{present} and {absent}",
                "order": order,
                "exact": exact,
                "exact_two_cut": float(renyi_divergence(two[0], two[1], orders=order)[0]),
            }
            if bounds:
                how: dict[str, Any] = {"sigma": SIGMA, "orders": [order]}
                row |= {
                    "data_independent_upper": float(accounting.noisy_argmax_renyi(**how)[0]),
                    "data_dependent_upper": float(accounting.noisy_argmax_renyi(**how, votes=present)[0]),
                    "exact_data_dependent_upper": float(data_dependent_renyi(present, **how, both=False)[0]),
                }
            for number, method in enumerate(methods):
                about = exact if method.startswith("k_cut") or method == "two_cut_any_event" else row["exact_two_cut"]
                row[f"median_{method}"] = float(np.median(found[:, number, place]))
                row[f"over_{method}"] = int((found[:, number, place] > about * (1.0 + 1e-9)).sum())
            rows.append({**row, "audits": repeats})
    return rows


def argmax_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    return _rows(AUDITS, True, scale.repeats, scale, seed, execution)


def audit_rows(scale: Scale, seed: int, execution: Execution) -> Rows:
    return _rows(ALL_AUDITS, False, scale.tried, scale, seed, execution)


def argmax_judged(rows: Rows) -> Judged:
    """On the paper's pair: the exact divergence far below the published bound (half), the audit close to it."""
    own = [row for row in rows if row["histograms"] == rows[0]["histograms"]]
    gaps = [row["data_dependent_upper"] / row["exact"] for row in own]
    tighter = [row["data_dependent_upper"] / row["exact_data_dependent_upper"] for row in rows]
    close = [row["median_two_cut"] / row["exact"] for row in own]
    over = max(row["over_two_cut"] for row in rows)
    printed_low = sum(row["median_two_cut_printed"] <= 0.0 for row in rows)
    plain = sum(row["data_dependent_upper"] >= row["data_independent_upper"] for row in own)
    why = (
        f"on the paper's histograms the published data-dependent bound is {min(gaps):.2g} to {max(gaps):.2g} times the "
        f"exact divergence (far below is taken as half), and the median 2-cut audit {min(close):.2f} to "
        f"{max(close):.2f} of it; at {plain} of {len(own)} orders the published bound is no better than the "
        f"data-independent one. Over all pairs and orders the published bound is up to {max(tighter):.2g} times the "
        f"exact data-dependent one, and a 2-cut bound is above the exact 2-cut in at most {over} of "
        f"{rows[0]['audits']} audits. The paper's own formula gives nothing (0 or less in the median) in {printed_low} "
        f"of {len(rows)} lines"
    )
    return said(min(gaps) >= 2.0 and min(close) >= 0.75 and over <= allowed_over(rows[0]["audits"])), why


def audit_judged(rows: Rows) -> Judged:
    """k-cuts and bootstraps show more than the 2-cut at small orders (by 2%), and some of them fail somewhere."""
    names = [key.removeprefix("median_") for key in rows[0] if key.startswith("median_") and "two_cut" not in key]
    names.append("two_cut_bootstrap_estimate")
    own = [row for row in rows if row["histograms"] == rows[0]["histograms"]]
    gains = {
        key: [row[f"median_{key}"] / max(row["median_two_cut"], 1e-300) for row in own if row["order"] <= 4.0]
        for key in names
    }
    exact = max(row[key] for row in rows for key in ("over_two_cut", "over_two_cut_any_event", "over_k_cut"))
    estimates = {key: max(row[f"over_{key}"] for row in rows) for key in names if key.endswith("_estimate")}
    limit = allowed_over(rows[0]["audits"])
    listed = "; ".join(f"{key.replace('_', ' ')} {min(g):.2f} to {max(g):.2f}" for key, g in gains.items())
    worst = "; ".join(f"{key.replace('_', ' ')} {count}" for key, count in estimates.items())
    why = (
        f"at orders up to 4 on the paper's histograms, in the median, times the exact 2-cut bound: {listed}. Above "
        f"what they are about, the exact methods in at most {exact} of {rows[0]['audits']} audits of a line, the "
        f"others in at most: {worst} (a valid 95% bound would stay within {limit})"
    )
    more = max(max(gain) for gain in gains.values()) > 1.02
    return said(more and exact <= limit < max(estimates.values())), why


def sizes(repeats: str, scale: Scale) -> Sizes:
    return [
        ("histograms", "one pair, sigma 2", f"the same and {len(PAIRS) - (repeats == 'repeats')} others"),
        ("answers a world", "not stated for these figures (1e8 elsewhere)", f"{scale.trials:,}"),
        ("repeats", "1", f"{getattr(scale, repeats)} audits"),
    ]


FIGURES = {
    "2": Figure(
        "The noisy argmax: exact, published and audited",
        "The exact divergence is far below the published data-dependent bound, and the 2-cut audit comes close to it.",
        argmax_rows,
        argmax_judged,
        partial(sizes, "repeats"),
    ),
    "3": Figure(
        "PATE, CaPC and PromptPATE, adversarial queries",
        "The privacy analysis is not tight, and what is easier to poison leaks more: PATE less than CaPC, and CaPC "
        "less than PromptPATE.",
        prediction_findings.adversarial_rows,
        prediction_findings.adversarial_judged,
        prediction_findings.sizes,
    ),
    "4": Figure(
        "PATE, CaPC and PromptPATE, natural queries",
        "Natural queries leak far less than adversarial ones.",
        prediction_findings.natural_rows,
        prediction_findings.natural_judged,
        prediction_findings.sizes,
    ),
    "5": Figure(
        "Private-kNN",
        "Even the strongest adversaries stay far below the promise; natural queries leak far less than adversarial "
        "ones, and a crafted embedding leaks more than any row.",
        prediction_knn.knn_rows,
        prediction_knn.knn_judged,
        prediction_knn.knn_sizes,
    ),
    "6": Figure(
        "All audits of the noisy argmax",
        "k-cuts and bootstraps may show more than the 2-cut, above all at small orders; they are not always valid.",
        audit_rows,
        audit_judged,
        partial(sizes, "tried"),
    ),
    "E": Figure(
        "Appendix E: each adversary alone, worst and average case",
        "A poisoned record leaks more than a natural one in PATE, and about as much in CaPC and PromptPATE.",
        prediction_findings.all_rows,
        prediction_findings.appendix_judged,
        prediction_findings.sizes,
    ),
}
ONLY = {"all": tuple(FIGURES)}
"""Groups of figures by name."""
reproduce = reproducing("prediction", FIGURES, full=FULL, quick=QUICK)
