"""Calibration cells of guesses beside placebo rows: each bound under its assumption, and older rules, which must fail.

The rules that fail: a proxy that is believed though it does not know the id; the same share of placebo guesses as of
audited ones; one cell for all chances; each placebo row in the cell of its own guess alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpaudit import estimators
from dpaudit.estimators import matched
from dpaudit.estimators.matched import NONE, Matched
from dpaudit.evidence import MatchedScores
from dpaudit.testing import ground_truth
from dpaudit.testing.calibration._table import Cell
from dpaudit.testing.ground_truth import AnsweredRows, RecognisedRows

FEW, SLOW = 60, 150
"""Games in CI: of cells that must hold, and of those that must fail."""


def fourth_cells(confidence: float = 0.95) -> list[Cell]:
    """Both bounds and the smaller of them, the controls, and the forms that must fail."""
    made = (_imperfect_proxies, _uneven_guesses, _deltas, _mu_cells, _control_cells)
    return [cell for cells in made for cell in cells(confidence)]


def _cell(truth: Any, form: str, confidence: float, must: str = "hold", **how: Any) -> Cell:
    bound = partial(estimators.epsilon_from_matched, delta=0.0, form=form, confidence=confidence)
    return Cell("epsilon_from_matched", form, truth, truth.epsilon, bound, must, **how)


def _old(truth: Any, words: str, rule: Any, confidence: float) -> Cell:
    bound = partial(rule, confidence=confidence)
    return Cell("epsilon_from_matched", words, truth, truth.epsilon, bound, "fail", quick=SLOW)


def _imperfect_proxies(confidence: float) -> Iterable[Cell]:
    """With a true proxy all three hold; where the model knows more than the proxy, the proxy's form fails."""
    for epsilon in (0.0, 1.0, 2.0):
        yield _cell(_few(epsilon), "either", confidence, quick=FEW)
        yield _cell(AnsweredRows(epsilon), "matched", confidence, quick=FEW)
    for epsilon in (0.0, 1.0):
        yield _cell(_few(epsilon), "proxy", confidence, quick=FEW)
        for proxy in ("no id", "x 1.5", "- 0.5", "+ noise"):
            yield _cell(AnsweredRows(epsilon, proxy), "matched", confidence, quick=FEW)
    weak = _few(0.0, "no id")
    yield _cell(weak, "either", confidence, quick=FEW)
    yield _cell(weak, "proxy", confidence, "fail", quick=SLOW)
    noisy, many = AnsweredRows(1.0, "+ noise", "noisy"), AnsweredRows(1.0, "no id", k=10)
    pooled, scarce = AnsweredRows(1.0, "exact", "P"), AnsweredRows(1.0, placebo=100)
    for truth in (noisy, many, pooled, scarce):
        yield _cell(truth, "matched", confidence, quick=FEW)
    yield _old(pooled, "matched, one cell for all chances", _one_cell, confidence)


def _few(epsilon: float, proxy: str = "exact", **how: Any) -> AnsweredRows:
    """Few rows for the form against the proxy, which takes fifty times as long as the other."""
    return AnsweredRows(epsilon, proxy, rows=120, placebo=240, **how)


def _uneven_guesses(confidence: float) -> Iterable[Cell]:
    """Success that drops within a cell, promoted values, rows that are recognised."""
    steep, cells = ground_truth.steep_rows(), ground_truth.steep_cells()
    scarce = ground_truth.steep_rows(rows=2000, placebo=400)
    promoted = ground_truth.promoted_rows(epsilon=1.0)
    for truth in (steep, cells, scarce):
        yield _cell(truth, "matched", confidence)
    for truth in (steep, cells):
        bound = partial(_by_shares, confidence=confidence)
        yield Cell("epsilon_from_matched", "matched, by shares of the rows", truth, 0.0, bound, "fail")
    yield _cell(promoted, "matched", confidence, quick=FEW)
    yield _old(promoted, "matched, own guesses alone", _own_alone, confidence)
    known = RecognisedRows()
    yield _cell(RecognisedRows(rows=120, placebo=240), "either", confidence, quick=FEW)
    yield _cell(known, "matched", confidence, "fail", quick=SLOW)


def _deltas(confidence: float) -> Iterable[Cell]:
    bound = partial(estimators.epsilon_from_matched, form="either", confidence=confidence)
    truth, shown = _few(0.5, delta=0.01), _few(0.0, delta=0.4)
    known = partial(bound, delta=0.01)
    yield Cell("epsilon_from_matched at delta 0.01", "either", truth, 0.5, known, quick=FEW)
    forgotten = partial(bound, delta=0.0)
    yield Cell("epsilon_from_matched", "either, delta forgotten", shown, 0.0, forgotten, "fail", quick=SLOW)


def _mu_cells(confidence: float) -> Iterable[Cell]:
    bound = partial(estimators.mu_from_matched, confidence=confidence)
    for truth in (AnsweredRows(0.0), AnsweredRows(1.0), AnsweredRows(0.0, "no id"), AnsweredRows(2.0, "no id")):
        value = ground_truth.least_mu(truth.curve) if truth.epsilon else 0.0
        yield Cell("mu_from_matched", "matched", truth, value, partial(bound, form="matched"), quick=FEW)
    few, weak = _few(2.0), _few(0.0, "no id")
    value = ground_truth.least_mu(few.curve)
    yield Cell("mu_from_matched", "either", few, value, partial(bound, form="either"), quick=FEW)
    yield Cell("mu_from_matched", "either", weak, 0.0, partial(bound, form="either"), quick=FEW)
    yield Cell("mu_from_matched", "proxy", weak, 0.0, partial(bound, form="proxy"), "fail", quick=SLOW)


def _control_cells(confidence: float) -> Iterable[Cell]:
    """Tests of the two assumptions at their level; a wrong proxy, and rows that are recognised, must be refuted."""
    proxy = partial(_refuted_proxy, confidence=confidence)
    alike = partial(_found_more, confidence=confidence)
    for truth, must in ((_few(0.0), "hold"), (AnsweredRows(0.0, "no id"), "fail")):
        words = "a true proxy is refuted" if must == "hold" else "a proxy that does not know the id is refuted"
        yield Cell("proxy_p_value", words, truth, 0.0, proxy, must, quick=SLOW)
    for known, must in ((AnsweredRows(0.0, "no id"), "hold"), (RecognisedRows(), "fail")):
        words = "nothing recognised is refuted" if must == "hold" else "recognised rows are found"
        yield Cell("null_p_value", words, known, 0.0, alike, must, quick=SLOW)


def _refuted_proxy(evidence: MatchedScores, *, confidence: float) -> float:
    """1 where the proxy is refuted by the placebo rows."""
    return float(matched.proxy_p_value(evidence) <= 1.0 - confidence)


def _found_more(evidence: MatchedScores, *, confidence: float) -> float:
    """1 where audited rows are guessed better than placebo rows, though nothing leaks."""
    return float(matched.null_p_value(evidence) <= 1.0 - confidence)


# ------------------------------------------------------------------------------------------------------ rules that fail


class _Shares(Matched):
    """At each rank the same share of placebo guesses as of the audited ones, rounded up, and no larger one."""

    @cached_property
    def _shares(self) -> list[list[int]]:
        rows, placebo, (whole, _) = self.ranks[0], self.evidence.placebo_rows, self._audited[0]
        every = [right.size - 1 for right in self._placebo]
        return [
            [
                0 if not of else min(q, math.ceil(taken * min(q / of, placebo / rows)))
                for taken, of, q in zip(size.tolist(), whole.tolist(), every, strict=True)
            ]
            for size, _ in self._audited
        ]

    def level(self, slack: float) -> float:
        return (self.alpha - slack) / len(self.ranks)


def _by_shares(evidence: MatchedScores, *, confidence: float) -> float:
    return _Shares(evidence, 1.0 - confidence).epsilon(NONE)[0]


def _one_cell(evidence: MatchedScores, *, confidence: float) -> float:
    own = evidence.own
    whole = replace(
        evidence,
        scores=evidence.scores[own],
        chance=np.full(int(own.sum()), 0.5),
        right=evidence.right[own],
        audited=evidence.audited[own],
        own=evidence.own[own],
    )
    return Matched(whole, 1.0 - confidence).epsilon(NONE)[0]


def _own_alone(evidence: MatchedScores, *, confidence: float) -> float:
    own = evidence.own
    columns = {name: getattr(evidence, name)[own] for name in ("scores", "chance", "right", "audited", "own")}
    return Matched(replace(evidence, **columns), 1.0 - confidence).epsilon(NONE)[0]
