"""No non-members at all: known members against records that a generator made (paper 004, algorithm 1).

    members  ->  generator part | training part | audit part          (units, by the seed)
    generator part  ->  generator  ->  generated rows, the poor ones left out
    training part + generated  ->  baseline (without the model), attack (the same guesser, with the model's outputs,
                                   if held rows show that they help; otherwise it is the baseline)
    audit part, pairs of a real and a generated unit, a fair coin each  ->  `PairedScores`

The coins are tossed after training: where the generated unit is shown, a real one that is not was trained on instead.
So the relation is SUBSTITUTE (theory:panoramia#adjacency). A weak baseline over-states what the model leaks; its
learning curve shows whether it still gets better with more rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpaudit import _binomial
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult
from dpaudit.bounds import Relation
from dpaudit.evidence import CanaryScores, PairedScores
from dpaudit.execution import distinct_seeds, fair_coins, one_thread, stream
from dpaudit.fitted.generators import SequentialTrees, as_rows, drawn
from dpaudit.games import _panoramia_table as reading
from dpaudit.games.game import RUNNER, Comparison, Control, Play, Runner, plan_of
from dpaudit.inputs.tables import unit_word

__all__ = ["ALIKE", "MADE", "SAME_DISTRIBUTION", "Panoramia", "divergence_shown"]

Matrix = NDArray[np.float64]
Outputs = Callable[[Any], Any]
"""What a model says of rows: one number a row, or several."""
View = Callable[[Any, Any, int], tuple[Any, Outputs]]
"""`view(rows, label, seed)`: features of these rows, by fits that never saw their labels, and a function for others."""
PAIRS = "coins of real members and real non-members"


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(
        **{"id": id, "sentence": sentence, "answered_by": "data holder", "theory": "theory:panoramia#region", **more}
    )


ALIKE = _assumed(
    "independent-draws",
    (
        "audited real records are independent draws of one distribution, and were not chosen by what the model says "
        "of them"
    ),
)
MADE = _assumed(
    "independent-generated-draws",
    "generated records are independent draws of one distribution, too",
    answered_by="auditor",
)
SAME_DISTRIBUTION = _assumed(
    "non-members-alike", "real non-members are draws of the same distribution", tested_by=("non-members-alike",)
)
BASELINE = Check(
    id="baseline",
    measured="The baseline ({chosen}) showed a divergence of {listed} on validation rows (estimates){reading}.{silent}",
)
LEVEL_OFF = ": more rows hardly help it"
STILL_RISES = ": it still rises, so the difference of attack and baseline over-states what the model leaks"
NEXT_TO_NOTHING = ", next to nothing: the generator is close to real records, or the baseline is weak"
SILENT = " The attack is the baseline: what the model says did not help on held rows."
REAL_ALIKE = Check(
    id="non-members-alike",
    passed=(
        "Control passed: without the model the real non-members cannot be told from the members (p = {p_value:p}). "
        "That proves nothing."
    ),
    refuted=(
        "The real non-members can be told from the members without the model (p = {p_value:p}), so neither they nor "
        "the loss alone bound anything."
    ),
    refutes="non-members-alike",
    on_refuted="warn",
    level=0.025,
    theory="theory:panoramia#region",
)
ASSERTED = Check(
    id="asserted-divergence",
    passed=(
        "Control passed: without the model, real records are not told from generated ones better than the asserted "
        "divergence allows (p = {p_value:p}; refuted at {level:g}). That proves nothing: a better baseline might."
    ),
    refuted=(
        "Control refuted: without the model, real records are told from generated ones better than the asserted "
        "divergence of {divergence:g} allows (p = {p_value:p}; refuted at {level:g})."
    ),
    remedy="A larger `divergence` that you answer for, or a better generator.",
    refutes="generator-divergence",
    level=0.025,
    theory="theory:panoramia#asserted",
)
WITH_REAL, ALONE = "with real non-members, epsilon", "by the loss alone, epsilon"
LITTLE = 0.1
"""Less divergence than that on validation rows tells a close generator and a weak baseline not apart."""
SHARES = (0.4, 0.3, 0.3)
PARTS = (0.25, 0.5, 1.0)
"""Of the training rows: the baseline's learning curve."""
HELD = 0.25
"""Of the training units: what chooses among the classifiers."""
WORTH = 2.0
UNHEARD = "the baseline: what the model says did not help on held rows"
LEVEL = 0.05
SURE = 1e-6
"""Probabilities of a guesser stay so far from 0, where their logarithms are taken."""
RISES = 0.1
"""A baseline that gained so much divergence from its last doubling of rows may well gain more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Panoramia:
    """Known members, a generator, and what the audited model says of a row.

    Attributes
    ----------
    members
        Rows that the model was trained on, as numbers.
    target
        `target(rows)`: what the audited model says; one number a row or several, the first of them its loss.
    generator
        Anything with `fit(rows)` and `sample(count)`, see `dpaudit.fitted.generators`.
    generated
        Instead of a generator: rows that somebody made. None of the members is then needed to fit one.
    helper
        `helper(rows, seed)` trains a model of the target's kind on *generated* rows and returns its outputs as a
        function of rows: the stand-in for the target in the baseline; the attack sees it too. One that was trained on
        other rows, as in table 2 of the paper, takes no notice of these. None: no such model.
    view
        What both guessers see of a row: `view(rows, label, seed)`, see `dpaudit.fitted.encoders`. None: its columns.
    classifiers
        Candidates for baseline and attack, by name, with `fit` and `predict_proba`; validation rows choose among them.
        None: boosted trees of three sizes.
    shares
        Of the units: for the generator, for training, for the audit.
    train_fraction
        Share of the training part that the guessers learn from; less of it shows how they learn.
    discard_fraction
        Share of generated rows that are left out because a classifier, trained on the generator's own rows, is surest
        that they are made. It becomes a threshold on rows that are used for nothing else, so that those that stay are
        independent draws still.
    min_gain
        Standard errors by which the model's outputs must lower the log-loss of held rows; otherwise the attack is the
        baseline, so that a model that leaks nothing shows nothing except by chance. The price is leakage of a few rows
        that held ones do not show; None always listens to the model.
    divergence
        The generator's divergence that the user answers for: how much likelier real records are at most than generated
        ones, in logarithms. It makes epsilon a bound, and is refused where the baseline shows more.
    nonmembers
        Real rows that the model was not trained on, for two comparisons beside the result.
    group, unit
        Rows of one unit (chunks of a document, rows of a person) share a coin; their scores are averaged. A generated
        unit has as many rows.
    """

    members: Any
    target: Outputs
    generator: Any = field(default_factory=SequentialTrees)
    generated: Any = None
    helper: Any = None
    view: View | None = None
    classifiers: Any = None
    shares: tuple[float, float, float] = SHARES
    train_fraction: float = 1.0
    discard_fraction: float = 0.0
    min_gain: float | None = WORTH
    divergence: float | None = None
    nonmembers: Any = None
    group: Any = None
    unit: str = "record"
    source: dict[str, Any] | None = None

    kind: ClassVar[str] = "panoramia"
    purpose: ClassVar[str] = "coins of real and generated records"
    evidence_type: ClassVar[type] = PairedScores
    assumptions: ClassVar[tuple[Assumption, ...]] = (ALIKE, MADE, SAME_DISTRIBUTION)
    checks: ClassVar[tuple[Check, ...]] = (BASELINE, REAL_ALIKE, ASSERTED)
    attempts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rows = as_rows("members", self.members)
        if not callable(self.target):
            raise InputError(f"`target` must be a function of rows, got {type(self.target).__name__}.")
        if self.helper is not None and not callable(self.helper):
            raise InputError(f"`helper` must be a function of rows and a seed, got {type(self.helper).__name__}.")
        if self.view is not None and not callable(self.view):
            raise InputError(f"`view` must be a function of rows, labels and a seed, got {type(self.view).__name__}.")
        shares = tuple(check.number("shares", share, low=0.0, high=1.0) for share in check.items("shares", self.shares))
        if len(shares) != 3 or abs(sum(shares) - 1.0) > 1e-9 or min(shares[1:]) <= 0.0:
            raise InputError(f"`shares` must be three that add up to 1, got {self.shares}.")
        check.number("discard_fraction", self.discard_fraction, low=0.0, high=0.9)
        check.number("train_fraction", self.train_fraction, low=0.01, high=1.0)
        if self.min_gain is not None:
            check.number("min_gain", self.min_gain)
        if self.divergence is not None:
            check.number("divergence", self.divergence, low=0.0)
        if self.nonmembers is not None:
            object.__setattr__(self, "nonmembers", as_rows("nonmembers", self.nonmembers))
        made = None
        if self.generated is not None:
            made = as_rows("generated", self.generated)
            if made.shape[1] != rows.shape[1]:
                raise InputError(f"`generated` must have {rows.shape[1]} columns, as members, got {made.shape[1]}.")
            shares = (0.0, shares[1] / (shares[1] + shares[2]), shares[2] / (shares[1] + shares[2]))
        group = None if self.group is None else check.labels("group", self.group)
        if group is not None:
            check.same_length(members=rows, group=group)
        changed = {"members": rows, "generated": made, "shares": shares, "group": group}
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_table(
        cls,
        members: Any,
        *,
        label: str | None = None,
        model: str | None = None,
        loss: str | None = None,
        generator: str | None = None,
        generated: Any = None,
        helper: bool | None = None,
        discard_fraction: float = 0.0,
        shares: Any = SHARES,
        leave_out: Any = (),
        unit: str | None = None,
        nonmembers: Any = None,
        divergence: float | None = None,
        folder: str | Path = ".",
        seed: int = 0,
    ) -> Panoramia:
        """The game of a table of members, and of a model or its losses.

        Parameters
        ----------
        members
            Rows that the model was trained on: files, by name or pattern, or a list of them; or a data frame.
        label
            The column that the model predicts. A generator makes it too.
        model
            What is audited: "model.onnx", "model.cbm" or "file.py:function", a classifier of the label by the other
            columns; its loss is what the attack hears.
        loss
            Instead of a model: the column of its losses, in every table; it needs `generated` rows, which have some.
        generator
            "sequential trees" (None), "tree marginals" or "gaussian copula".
        generated
            Instead of a generator: rows that somebody made.
        helper
            Whether a model trained on generated rows stands in for the audited one in the baseline; None: with a label.
        discard_fraction
            Share of generated rows that are left out because they look made most surely.
        shares
            Of the units: for the generator, for training, for the audit.
        leave_out
            Columns that neither the generator nor the guessers nor the model see.
        unit
            The column that says whose row it is: rows of one unit share a coin.
        nonmembers
            Real rows that the model was not trained on, for two comparisons beside the result.
        divergence
            How much likelier real records are at most than generated ones, in logarithms; it makes epsilon a bound.
        folder, seed
            Where names of files start; the seed of the play decides nothing here.
        """
        reading.check_audited(label=label, model=model, loss=loss, helper=helper, divergence=divergence)
        others = {"generated": generated, "nonmembers": nonmembers}
        reading.check_made(
            generator=generator, loss=loss, discard_fraction=discard_fraction, shares=shares, unit=unit, **others
        )
        used = {"label": label, "loss": loss, "unit": unit, "leave_out": leave_out, "folder": folder}
        tables = reading.Tables.of({"members": members, **others}, **used)
        generator = "sequential trees" if generated is None and generator is None else generator
        coded, rows, group = tables.read()
        kind = SequentialTrees if generator is None else reading.GENERATORS[generator]  # then no row is asked of it
        return cls(
            members=rows["members"],
            target=reading.Loss() if model is None else reading.Model(model, str(folder), coded),
            generator=reading.Rounded(kind, coded.codes, coded.whole),
            generated=rows.get("generated"),
            helper=reading.Helper(coded) if (label is not None if helper is None else helper) else None,
            view=None if loss is None else reading.without_loss,
            shares=shares,
            discard_fraction=discard_fraction,
            group=group,
            unit=unit_word(unit),
            divergence=divergence,
            source=tables.words(generator=generator, model=model, folder=folder),
            nonmembers=rows.get("nonmembers"),
        )

    @property
    def relation(self) -> Relation:
        return Relation.SUBSTITUTE

    @cached_property
    def place(self) -> NDArray[np.intp]:
        """The unit of every row, as a number."""
        if self.group is None:
            return np.arange(len(self.members))
        return np.unique(self.group, return_inverse=True)[1].ravel()

    def parts(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Units for the generator, for training, and for the audit."""
        units = int(self.place.max()) + 1
        order = stream(seed, "parts of the members").permutation(units)
        cuts = np.round(np.cumsum(self.shares[:2]) * units).astype(int)
        first, second, third = np.split(order, cuts)
        if min(second.size, third.size) < 10 or (self.generated is None and first.size < 10):
            raise InputError(f"`members` must be enough for parts of ten {self.unit}s, got {units} of them.")
        return first, second, third

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """Which audited pair shows its real unit."""
        return fair_coins(seed, self.purpose, self.parts(seed)[2].size)

    def plan(self, seed: int) -> dict[str, Any]:
        """Every setting, and digests of rows, models and guessers."""
        return plan_of(self, rows=len(self.members), classifiers=self._candidates())

    # ------------------------------------------------------------------------------- comparisons, for who has more rows

    def with_real(self, nonmembers: Any) -> Panoramia:
        """The same target and guessers on real non-members (RM;RN of the paper), whose divergence is 0 by design."""
        if self.group is not None:
            raise InputError("`with_real` compares single records, and these share units.", "leave `group` out.")
        return replace(self, generated=nonmembers, nonmembers=None, divergence=None, helper=None, discard_fraction=0.0)

    def one_run(self, nonmembers: Any, *, seed: int) -> CanaryScores:
        """Audited members against real non-members by the target's loss alone (the paper's O(1)).

        The coins are tossed after training here too, so the relation is the same: SUBSTITUTE.
        """
        if self.group is not None:
            raise InputError("`one_run` compares single records, and these share units.", "leave `group` out.")
        other, audited = as_rows("nonmembers", nonmembers), self.parts(seed)[2]
        order = stream(seed, "real non-members of a comparison").permutation(len(other))
        pairs = min(audited.size, order.size)
        coins = fair_coins(seed, PAIRS, pairs)
        rows = np.where(coins[:, None], self.members[audited[:pairs]], other[order[:pairs]])
        return CanaryScores(
            scores=-reading.asked("target", self.target)(rows)[:, 0],
            included=coins,
            relation=Relation.SUBSTITUTE,
            assumptions=(ALIKE, SAME_DISTRIBUTION),
            seed=seed,
        )

    # ------------------------------------------------------------------------------------------------------------- play

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """Generate, train baseline and attack, toss the coins, and score what they show."""
        return self.play_targets({"target": self.target}, seed=seed)["target"]

    def play_targets(self, targets: Mapping[str, Outputs], *, seed: int) -> dict[str, Play]:
        """The same for several models that were trained on these members: one generator, one baseline, the same coins.

        Each result holds by itself with its confidence; the best of them does not.
        """
        with one_thread(trees=True):
            return self._played(dict(targets), seed)

    def _played(self, targets: dict[str, Outputs], seed: int) -> dict[str, Play]:
        _, training, audited = self.parts(seed)
        training = training[: max(10, round(self.train_fraction * training.size))]
        real = [np.flatnonzero(np.isin(self.place, part)) for part in (training, audited)]
        sizes = [rows.size for rows in real]
        made, helped = self._generated(seed, sizes)
        coin_of = np.zeros(int(self.place.max()) + 1, dtype=np.bool_)
        coin_of[audited] = fair_coins(seed, self.purpose, audited.size)
        shown = coin_of[self.place[real[1]]]
        rows = np.concatenate(
            [
                self.members[real[0]],
                made[: sizes[0]],
                np.where(shown[:, None], self.members[real[1]], made[sizes[0] : sizes[0] + sizes[1]]),
            ]
        )
        label = np.repeat([1, 0], sizes[0])
        group = np.concatenate([self.place[real[0]], -1 - np.arange(sizes[0])])
        lessons = _lessons(self.view, rows, label, group, seed)
        known = np.zeros((len(rows), 0)) if helped is None else reading.asked("helper", helped)(rows)
        candidates = self._candidates()
        baseline = _Guess.of(lessons, known, label, candidates, seed)
        found = {}
        for name, target in targets.items():
            outputs = np.concatenate([known, reading.asked("target", target)(rows)], axis=1)
            attack = _Guess.of(lessons, outputs, label, candidates, seed)
            if self.min_gain is not None and not attack.gains(
                baseline, units=group[lessons[-2].judged], least=self.min_gain
            ):
                attack = replace(baseline, name=UNHEARD)
            evidence = PairedScores(
                included=shown,
                baseline=baseline.scores,
                attack=attack.scores,
                group=None if self.group is None else self.place[real[1]],
                unit=self.unit,
                ids=None if self.group is not None else real[1],
                assumptions=(ALIKE, MADE),
                divergence=self.divergence,
                seed=seed,
            )
            controls, comparisons = ((), ()) if self.nonmembers is None else self._compared(seed)
            if self.divergence:
                told = {"divergence": self.divergence}
                controls = (Control(check=ASSERTED, evidence=(evidence,), numbers=told), *controls)
            results = (_learnt(baseline, attack, self.discard_fraction),)
            found[name] = Play(evidence=(evidence,), results=results, controls=controls, comparisons=comparisons)
        return found

    def _compared(self, seed: int) -> tuple[tuple[Control, ...], tuple[Comparison, ...]]:
        """The same model with real non-members (RM;RN), and by its loss alone (O(1)); as many pairs as there are."""
        _, training, audited = self.parts(seed)
        rows = np.concatenate([training, audited])[: len(self.nonmembers)]

        @cache
        def real() -> PairedScores:
            game = replace(self, members=self.members[rows], group=None).with_real(self.nonmembers)
            return replace(game.play(seed=seed).only, assumptions=(ALIKE, SAME_DISTRIBUTION), divergence=0.0)

        needs, alone = REAL_ALIKE.id, lambda: self.one_run(self.nonmembers, seed=seed)
        return (
            (Control(check=REAL_ALIKE, evidence=lambda: (real(),)),),
            (
                Comparison(id="with-real", title=WITH_REAL, evidence=real, needs=needs),
                Comparison(id="alone", title=ALONE, evidence=alone, needs=needs),
            ),
        )

    def _generated(self, seed: int, sizes: list[int]) -> tuple[Matrix, Any]:
        """Rows for training and audit, and the helper's outputs."""
        wanted = sum(sizes)
        for_helper = 0 if self.helper is None else max(wanted // 2, 50)
        total = wanted + for_helper
        if self.generated is None:
            pool = self._drawn(seed, total)
        else:
            if self.discard_fraction:
                raise InputError(
                    "`discard_fraction` needs a generator: whether rows are poor is learnt from rows of its own."
                )
            if len(self.generated) < total:
                raise InputError(f"`generated` must hold at least {total:,} rows here, got {len(self.generated):,}.")
            pool = self.generated[stream(seed, "generated rows").permutation(len(self.generated))[:total]]
        helped = None
        if self.helper is not None:
            helped = self.helper(pool[wanted:], distinct_seeds(seed, "helper", 1)[0])
        return pool[:wanted], helped

    def _drawn(self, seed: int, total: int) -> Matrix:
        """So many rows of the generator, without the poor ones."""
        own = self.members[np.isin(self.place, self.parts(seed)[0])]
        from_one = distinct_seeds(seed, "generator", 2)[0]
        if not self.discard_fraction:
            return drawn(self.generator, own, total, seed=from_one)
        kept = 1.0 - self.discard_fraction
        spare = int(np.ceil((total + 6.0 * np.sqrt(total) + 50.0) / kept))
        pool = drawn(self.generator, own, spare + 2 * len(own), seed=from_one)
        judged = reading.looks_real(own, pool[: len(own)], seed)
        least = np.quantile(judged(pool[len(own) : 2 * len(own)]), self.discard_fraction)
        rest = pool[2 * len(own) :]
        good = rest[judged(rest) >= least]
        if len(good) < total:
            raise InputError(
                f"`discard_fraction` left {len(good):,} of {total:,} generated rows that are needed, at "
                f"{self.discard_fraction:g}.",
                "the generator repeats itself: a smaller share leaves enough.",
            )
        return good[:total]

    def _candidates(self) -> dict[str, Any]:
        if self.classifiers is not None:
            found = dict(self.classifiers)
            if not found or not all(hasattr(model, "predict_proba") for model in found.values()):
                raise InputError("`classifiers` must be classifiers by name, each with `predict_proba`.")
            return found
        from sklearn.ensemble import HistGradientBoostingClassifier as Boosted

        return {
            f"boosted trees, {leaves} leaves": Boosted(max_leaf_nodes=leaves, max_iter=rounds, learning_rate=0.1)
            for leaves, rounds in ((4, 60), (15, 60), (31, 120))
        }


def _learnt(baseline: _Guess, attack: _Guess, left_out: float) -> CheckResult:
    """How the baseline got on; one that still rises is a warning, not a refutation: c is what the user answers for."""
    curve = baseline.curve
    rising, uses_model = curve[-1][1] - curve[-2][1] > RISES, attack.name != UNHEARD
    learning = {"rows": [rows for rows, _ in curve], "divergence": [shown for _, shown in curve]}
    numbers = {
        **learning,
        "listed": ", ".join(f"{shown:.2f} of {rows:,} rows" for rows, shown in curve),
        "chosen": baseline.name,
        "attack": attack.name,
        "attack_divergence": [shown for _, shown in attack.curve],
        "rising": rising,
        "uses_model": uses_model,
        "reading": STILL_RISES if rising else NEXT_TO_NOTHING if curve[-1][1] < LITTLE else LEVEL_OFF,
        "silent": "" if uses_model else SILENT,
        "left_out": left_out,
    }
    return CheckResult(check=BASELINE, outcome="measured", numbers=numbers, figure={"learning": learning})


def _lessons(view: View | None, rows: Matrix, label: Any, group: Any, seed: int) -> list[reading.Lesson]:
    """Parts of the training rows, judged on units held from all of them; last, all of them, judged on the audit's."""
    units = np.unique(group, return_inverse=True)[1].ravel()
    rank = np.argsort(stream(seed, "validation of the guessers").permutation(int(units.max()) + 1))
    share = rank[units] / rank.size
    held = np.flatnonzero(share < HELD)
    splits = [(np.flatnonzero((share >= HELD) & (share < HELD + (1.0 - HELD) * part)), held) for part in PARTS]
    splits.append((np.arange(label.size), np.arange(label.size, len(rows))))
    view_seed = distinct_seeds(seed, "view", 1)[0]
    found = []
    for learnt, judged in splits:
        seen: tuple[Matrix, Matrix]
        if view is None:
            seen = rows[learnt], rows[judged]
        else:
            of_learnt, of_others = view(rows[learnt], label[learnt], view_seed)
            seen = (
                reading.asked("view", lambda _, of=of_learnt: of)(rows[learnt]),
                reading.asked("view", of_others)(rows[judged]),
            )
        found.append(reading.Lesson(learnt, judged, *seen))
    return found


@dataclass(frozen=True, eq=False)
class _Guess:
    """The classifier that showed most divergence on held rows, how it got there, and its scores of the audited rows."""

    name: str
    curve: tuple[tuple[int, float], ...]
    scores: Matrix
    held_losses: Matrix

    def gains(self, other: _Guess, *, units: Any, least: float) -> bool:
        """Whether the log-loss of held units is lower by so many standard errors."""
        place = np.unique(units, return_inverse=True)[1].ravel()
        each = np.bincount(place, weights=other.held_losses - self.held_losses)
        return float(each.mean()) > least * float(each.std(ddof=1)) / np.sqrt(each.size)

    @classmethod
    def of(
        cls, lessons: list[reading.Lesson], outputs: Matrix, label: Any, candidates: dict[str, Any], seed: int
    ) -> _Guess:
        *parts, final = lessons

        def scores(lesson: reading.Lesson, name: str) -> Matrix:
            return lesson.scores(candidates[name], outputs, label, seed)

        held = {name: scores(parts[-1], name) for name in candidates}
        truth = label[parts[-1].judged]
        best = max(held, key=lambda name: divergence_shown(held[name], truth))
        curve = [
            (lesson.learnt.size, divergence_shown(scores(lesson, best), label[lesson.judged])) for lesson in parts[:-1]
        ]
        curve.append((parts[-1].learnt.size, divergence_shown(held[best], truth)))
        right = np.where(truth == 1, held[best], 1.0 - held[best])
        return cls(best, tuple(curve), scores(final, best), -np.log(np.maximum(right, SURE)))


def divergence_shown(scores: Matrix, label: Any) -> float:
    """How close a generator cannot be, by guesses "real" from the top: the best of a few numbers of them, Bonferroni.

    It chooses among classifiers and draws learning curves, on held rows; the bound is `estimators.panoramia`.
    """
    order = np.lexsort((stream(len(label), "ties of held rows").random(len(label)), -scores))
    right = np.cumsum(label[order])
    ranks = [rank for rank in (len(label) // 2**power for power in range(1, 12)) if rank >= 8]
    if not ranks:
        return 0.0
    limits = [_binomial.lower_limit(int(right[rank - 1]), rank, LEVEL / len(ranks)) for rank in ranks]
    return max(0.0, float(special.logit(max(limits))))
