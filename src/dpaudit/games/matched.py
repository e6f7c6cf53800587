"""No intervention and no coins: the model guesses at values it was trained on, and at values it never saw.

For every row the attack takes the value that the audited model favours most beyond what a proxy knows. *Placebo* rows
come from the same source, and the model was not trained on them: what the attack gets right there, it gets right
without a leak. The bound is of what it gets right on the training rows beyond that (theory:placebo#matched).

| known of the placebo rows | evidence | relation | rests on |
|---|---|---|---|
| that they come from the same source | `MatchedScores` | label | the proxy, or that the model recognises no row |
| that chance kept them out of training | `CanaryScores` | substitute | that alone; the label bound stands beside |
| there are none | `MatchedScores` | label | no number: the proxy would have to be believed |
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, as_assumptions
from dpaudit.attacks import difficulty_calibration
from dpaudit.bounds import Relation
from dpaudit.counterfactuals import Categorical
from dpaudit.evidence import ONE_ROW_A_UNIT, CanaryScores
from dpaudit.evidence.matched import MatchedScores
from dpaudit.execution import one_thread, stream
from dpaudit.games import _matched_checks as checks
from dpaudit.games import _matched_table
from dpaudit.games._guesses import Guesses, Rows, guesses, joined, planted
from dpaudit.games._matched_sources import alike, shared_units
from dpaudit.games.game import PLANTED, RUNNER, Comparison, Control, Play, Runner, plan_of
from dpaudit.games.observational import _calibration

PLANTED_EPSILON = 4.0
SHARES = (0.0, 0.005, 0.02, 0.1)
"""Of the training rows, at which a leak is planted; at none first, for the leak may be there already."""
EXPECTED = 20
"""Rows of a value that must be expected before its absence is taken for another source."""
PROTECTED = ("value", "record")
SCORED_ALONE = "both"
"""Without a proxy a score has no zero: guesses are the highest and the lowest."""
LABEL_BESIDE = "the value alone, against the same rows that the model never saw"
ZERO_RUN = "without a random hold-out, whole records are audited by `[game.zero_run]`."


@dataclass(frozen=True, eq=False)
class Retrained:
    """A model of the same recipe, trained once on the audited rows with values that were drawn anew from the proxy.

    It can have learnt nothing of the true values, so what the attack finds of them is recognition, and no leak.

    Attributes
    ----------
    target
        What it says of every value of the audited rows.
    on_placebo
        What it says of every value of the placebo rows.
    """

    target: Categorical
    on_placebo: Categorical


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchedRows:
    """Guesses at the protected values of rows that a model was trained on, beside rows that it never saw.

    Attributes
    ----------
    audited
        Rows that the model was trained on.
    placebo
        Rows of the same source that it was not trained on. None: no number can be reported.
    held_out_at_random
        Whether chance kept the placebo rows out of the training. The bound is then one for whole records, which needs
        nothing else.
    protect
        "value", or "record" for whole records alone, which needs rows that were held out at random.
    margin
        By how many log-odds audited rows may be guessed better than placebo rows without a leak.
    redrawn
        A model that was trained on re-drawn values, as a control.
    own_proxy
        Whether the proxy was trained here, on other rows. If not, that is somebody's word.
    unit
        What a row, or a group of rows, stands for. One row of each unit is guessed at.
    assumed
        Whatever else the evidence rests on.
    source
        Where the rows come from, for the record.
    """

    audited: Rows
    placebo: Rows | None = None
    held_out_at_random: bool = False
    protect: str = "value"
    margin: float = 0.1
    redrawn: Retrained | None = None
    own_proxy: bool = False
    unit: str = "record"
    assumed: tuple[Assumption, ...] = ()
    source: dict[str, Any] | None = None

    kind: ClassVar[str] = "observational"
    relation_of_tables: ClassVar[Relation] = Relation.LABEL
    purpose: ClassVar[str] = ""
    attempts: ClassVar[int] = 1
    assumptions: ClassVar[tuple[Assumption, ...]] = (
        checks.INDEPENDENT,
        ONE_ROW_A_UNIT,
        checks.SAME_SOURCE,
        checks.RANDOM_HOLD_OUT,
        checks.PROXY_ELSEWHERE,
    )
    checks: ClassVar[tuple[Check, ...]] = (
        checks.GIVEN,
        checks.RECOGNITION,
        checks.TOGETHER,
        checks.REDRAWN,
        checks.SEEN,
        checks.REPEATED,
        checks.SHARED_UNITS,
        checks.CALIBRATION,
    )

    def __post_init__(self) -> None:
        check.choice("protect", self.protect, PROTECTED)
        check.unit(self.unit)
        whole = self.protect == "record"
        if whole and not self.held_out_at_random:
            raise InputError("`protect` = 'record' needs rows that were held out at random.", ZERO_RUN)
        if self.held_out_at_random and self.placebo is None:
            raise InputError("`placebo` must be the rows that were held out at random, got none.")
        for name in ("audited", "placebo"):
            rows = getattr(self, name)
            if rows is not None and rows.counterfactual is None and not whole:
                raise InputError(f"`{name}` must have a `counterfactual`: what a proxy says of every value.")
        if self.placebo is not None:
            self._check_alike(self.placebo)
        if self.redrawn is not None:
            self._check_redrawn(self.redrawn)
        assumed = as_assumptions(self.assumed)  # may be accepted, too
        changed: dict[str, Any] = {"margin": check.number("margin", self.margin, low=0.0), "assumed": assumed}
        changed["assumptions"] = (*type(self).assumptions, *assumed)
        if self.held_out_at_random:  # then rows are given, and the proxy's being right is no part of the result
            changed["checks"] = tuple(one for one in type(self).checks if one is not checks.GIVEN)
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    def _check_alike(self, placebo: Rows) -> None:
        if placebo.classes != self.audited.classes:
            counts = f"{self.audited.classes} and {placebo.classes}"
            raise InputError(f"`audited` and `placebo` must have the same values, got {counts} of them.")
        self._check_values(placebo)
        for name in ("group", "counterfactual"):
            if (getattr(placebo, name) is None) != (getattr(self.audited, name) is None):
                raise InputError(f"`audited` and `placebo` must both have a `{name}`, or neither.")

    def _check_values(self, placebo: Rows) -> None:
        """Rows of one source have the same values: one of which twenty are expected is not missing by chance."""
        units = len(placebo) if placebo.group is None else np.unique(placebo.group).size
        shares = np.bincount(self.audited.values, minlength=self.audited.classes) / len(self.audited)
        there = np.bincount(placebo.values, minlength=placebo.classes)
        missing = np.flatnonzero((there == 0) & (shares * units >= EXPECTED))
        if missing.size:
            raise InputError(
                f"`placebo` must be rows of the same source, and has no row with value number {missing[0]}, which "
                f"{shares[missing[0]]:.0%} of the audited rows have.",
                "give rows that were left out of the training whatever their value.",
            )

    def _check_redrawn(self, redrawn: Retrained) -> None:
        if self.placebo is None or self.audited.counterfactual is None:
            raise InputError("`redrawn` needs `placebo` rows and a proxy to compare with.")
        for name, rows in (("target", self.audited), ("on_placebo", self.placebo)):
            replace(rows, target=getattr(redrawn, name))  # its rows and classes

    # ---------------------------------------------------------------------------------------------------- from a table

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        label: str,
        target: Any,
        counterfactual: Any = None,
        placebo: Any = None,
        held_out: Any = None,
        attribute: Any = None,
        protect: str = "value",
        features: Any = None,
        categories: Any = None,
        learner: str = "boosted",
        unit: str | None = None,
        classes: Any = None,
        margin: float = 0.1,
        redrawn: Any = None,
        sample: int | None = None,
        folder: str | Path = ".",
        seed: int = 0,
    ) -> MatchedRows:
        """The game of a table of training rows, of rows that the model never saw, and of a model or its predictions.

        Parameters
        ----------
        table
            Training rows: files (Parquet, CSV, Arrow), by name or pattern, or a list of them; or a data frame.
        label
            The column of labels. It is the protected value, unless `attribute` names another.
        target
            The audited model (see `dpaudit.inputs.models`), or the column of its probability of the second class, or a
            list of columns, one a class.
        counterfactual
            The proxy: `{ table = "..." }`, rows that the model never saw, to train one on; or a model that never saw
            the training rows; or columns of its probabilities. None: half of `placebo` or `held_out` trains one.
        placebo
            Rows of the same source that the model never saw, with the same columns. None: half of the rows that train
            the proxy, which are then not trained on.
        held_out
            Instead of `placebo`: rows that chance kept out of the training. The bound is then one for whole records.
        attribute
            A column, or several, that the model takes as inputs and that is to be protected; `target` is then a model.
            A number is protected by the tenth of its proxy's distribution that it lies in.
        protect
            "value" (the label, or the attribute), or "record" for whole records alone, which needs `held_out`.
        features
            The columns that the models take. Optional with predictions.
        categories
            Columns that are names although they hold numbers, such as a postcode.
        learner
            What a proxy is trained with: "boosted" trees, or "catboost" (extra `catboost`).
        unit
            The column that says whose row it is: one row of each unit is guessed at. None: every row is one, an
            assumption.
        classes
            The values of the label in the order of the columns or outputs of probabilities; None: sorted.
        margin
            By how many log-odds training rows may be guessed better than others without a leak.
        redrawn
            A control: a model, or the columns of its probabilities, that was trained once by the same recipe on the
            training rows with values drawn anew. `games.redrawn_values` writes such values.
        sample
            Read about this many rows of each table, drawn at random: for tables that do not fit into memory.
        folder, seed
            Where names of files start, and what draws halves and samples.
        """
        check.number("margin", margin, low=0.0)
        check.count("seed", seed)
        check.choice("protect", protect, PROTECTED)
        if protect == "record" and held_out is None:
            raise InputError("`protect` = 'record' needs `held_out`: rows that chance kept out of training.", ZERO_RUN)
        with one_thread():
            found = _matched_table.read(
                table,
                label=label,
                target=target,
                counterfactual=counterfactual,
                placebo=placebo,
                held_out=held_out,
                attribute=attribute,
                protect=protect,
                features=features,
                categories=categories,
                learner=learner,
                unit=unit,
                classes=classes,
                redrawn=redrawn,
                sample=sample,
                folder=str(folder),
                seed=seed,
            )
        return cls(
            audited=found.audited,
            placebo=found.placebo,
            held_out_at_random=held_out is not None,
            protect=protect,
            margin=margin,
            redrawn=None if found.redrawn is None else Retrained(*found.redrawn),
            own_proxy=found.own_proxy,
            unit=found.unit,
            source=found.source,
        )

    # ------------------------------------------------------------------------------------------------- before the play

    @property
    def relation(self) -> Relation:
        """Whole records where chance held rows out; else the value."""
        return Relation.SUBSTITUTE if self.held_out_at_random else Relation.LABEL

    @property
    def evidence_type(self) -> type:
        """A split where chance held rows out; else matched guesses."""
        return CanaryScores if self.held_out_at_random else MatchedScores

    def plan(self, seed: int) -> dict[str, Any]:
        """Every setting, and digests of rows and distributions."""
        return plan_of(self, rows=len(self.audited), placebo_rows=0 if self.placebo is None else len(self.placebo))

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """None: nothing is tossed."""
        return np.zeros(0, dtype=np.bool_)

    def redraw(self, seed: int) -> NDArray[np.int64]:
        """Values of the audited rows, drawn from the proxy: to train a model on, for the control of re-drawn values."""
        if self.audited.counterfactual is None:
            raise InputError("`redraw` needs a proxy to draw from: `audited.counterfactual`.")
        return self.audited.counterfactual.sample(stream(seed, "redrawn values"))

    # ------------------------------------------------------------------------------------------------------------ play

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """The guesses, those at rows that the model never saw, controls, and what was measured."""
        with one_thread(trees=True):
            return _Taken.of(self, seed).play()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Taken:
    """A game whose rows are drawn: one of each unit, and no unit in both tables."""

    game: MatchedRows
    seed: int
    audited: Rows
    placebo: Rows | None
    of_audited: NDArray[np.intp]
    of_placebo: NDArray[np.intp]
    left_out: int

    @classmethod
    def of(cls, game: MatchedRows, seed: int) -> _Taken:
        taken = _one_a_unit(game.audited.group, len(game.audited), seed)
        if game.placebo is None:
            nothing = np.zeros(0, dtype=np.intp)
            return cls(
                game=game,
                seed=seed,
                audited=game.audited.at(taken),
                placebo=None,
                of_audited=taken,
                of_placebo=nothing,
                left_out=0,
            )
        alone = _not_in(game.placebo.group, game.audited.group, len(game.placebo))
        if game.held_out_at_random and alone.size < len(game.placebo):
            raise shared_units(len(game.placebo) - alone.size, game.unit)
        if not alone.size:
            raise InputError(f"`placebo` must hold {game.unit}s that were not trained on, got none.")
        group = None if game.placebo.group is None else game.placebo.group[alone]
        other = alone[_one_a_unit(group, alone.size, seed)]
        return cls(
            game=game,
            seed=seed,
            audited=game.audited.at(taken),
            placebo=game.placebo.at(other),
            of_audited=taken,
            of_placebo=other,
            left_out=len(game.placebo) - alone.size,
        )

    def play(self) -> Play:
        whole, chance = self.game.protect == "record", self.game.held_out_at_random
        beside = Comparison(id="label", title=LABEL_BESIDE, evidence=self._matched, needs=checks.REDRAWN.id)
        results = self._results()
        together = any(one.refuted and one.check.id == checks.TOGETHER.id for one in results)
        return Play(
            evidence=(self._split() if chance else self._matched(),),
            controls=() if whole else self._controls(),
            results=results,
            comparisons=(beside,) if chance and not whole and not together else (),
        )

    # -------------------------------------------------------------------------------------------------------- evidence

    @cached_property
    def _trained(self) -> Guesses:
        """One guess at each audited row."""
        return guesses(self.audited)

    @cached_property
    def _alone(self) -> Guesses | None:
        """The guesses at the placebo rows, their own first."""
        return None if self.placebo is None else guesses(self.placebo, elsewhere=True)

    def _matched(self) -> MatchedScores:
        rests = (checks.RANDOM_HOLD_OUT,) if self.game.held_out_at_random else (checks.SAME_SOURCE,)
        alone = () if self.game.audited.group is not None else (ONE_ROW_A_UNIT,)
        proxy = () if self.game.own_proxy else (checks.PROXY_ELSEWHERE,)
        assumed = (checks.INDEPENDENT, *alone, *(rests if self.placebo is not None else ()), *proxy, *self.game.assumed)
        return self._scores(self._trained, self._alone, margin=self.game.margin, assumptions=assumed)

    def _scores(
        self, trained: Guesses, alone: Guesses | None, *, margin: float = 0.0, assumptions: tuple[Assumption, ...] = ()
    ) -> MatchedScores:
        both = trained if alone is None else joined(trained, alone)
        return MatchedScores(
            scores=both.scores,
            chance=both.chance,
            right=both.right,
            audited=np.arange(both.scores.size) < trained.scores.size,
            own=both.own,
            values=self.audited.classes,
            margin=margin,
            relation=Relation.LABEL,
            unit=self.game.unit,
            seed=self.seed,
            assumptions=assumptions,
        )

    def _split(self) -> CanaryScores:
        """Each row's own value: how much more the model believes in it than the proxy, or at all where there is none.

        All rows of a unit count, because chance held out whole units.
        """
        tables = (self.game.audited, self.game.placebo)
        scores = np.concatenate([_difficulty(rows) for rows in tables if rows is not None])
        groups = [rows.group for rows in tables if rows is not None and rows.group is not None]
        return CanaryScores(
            scores=scores,
            included=np.arange(scores.size) < len(self.game.audited),
            relation=Relation.SUBSTITUTE,
            assignment="split",
            sides=SCORED_ALONE if self.game.audited.counterfactual is None else "sign",
            group=np.concatenate(groups) if groups else None,
            reduce="sum",
            unit=self.game.unit,
            seed=self.seed,
            assumptions=(checks.RANDOM_HOLD_OUT, *self.game.assumed),
        )

    # -------------------------------------------------------------------------------------------------------- controls

    def _controls(self) -> tuple[Control, ...]:
        # a label bound that is withheld is no reason to withhold the bound for whole records
        then = "warn" if self.game.held_out_at_random else "withhold"
        redrawn = Control(check=replace(checks.REDRAWN, on_refuted=then), evidence=partial(_made, self._redrawn))
        numbers = {"shares": SHARES, "planted_epsilon": PLANTED_EPSILON, "largest": SHARES[-1]}
        seen = Control(check=checks.SEEN, evidence=self._planted, kind=PLANTED, numbers=numbers)
        return redrawn, seen

    def _redrawn(self) -> MatchedScores | None:
        """Guesses at the true values by the model that was trained on others."""
        found = self.game.redrawn
        if found is None or self.placebo is None:
            return None
        audited = replace(self.audited, target=found.target.at(self.of_audited))
        alone = replace(self.placebo, target=found.on_placebo.at(self.of_placebo))
        return self._scores(guesses(audited), guesses(alone, elsewhere=True))

    def _planted(self) -> tuple[MatchedScores, ...]:
        """Copies of the evidence in which a share of the audited rows leaked; larger shares hold the smaller ones."""
        if self._alone is None:
            return ()
        order = stream(self.seed, "rows with a planted leak").permutation(len(self.audited))
        found = []
        for share in SHARES:
            where = order[: math.ceil(share * order.size)]
            rng = stream(self.seed, "answers of a planted leak")
            leaked = planted(self._trained, self.audited, epsilon=PLANTED_EPSILON, where=where, rng=rng)
            found.append(self._scores(leaked, self._alone, margin=self.game.margin))
        return tuple(found)

    # -------------------------------------------------------------------------------------------------------- measured

    def _results(self) -> tuple[CheckResult, ...]:
        found: list[CheckResult] = []
        if self.placebo is None:
            found.append(CheckResult(check=checks.GIVEN, outcome="not-run"))
        left_out = self.left_out + int((self.game.source or {}).get("left_out", 0))  # also while the table was read
        if left_out:
            numbers = {"left_out": left_out, "unit": self.game.unit}
            found.append(CheckResult(check=checks.SHARED_UNITS, outcome="measured", numbers=numbers))
        if self.game.protect != "record" and self._alone is not None:
            found.append(checks.recognition(self._trained, self._alone.at(self._alone.own)))
        if self.placebo is not None:
            found += checks.repeated(self.audited, self.placebo)
            if self.placebo.counterfactual is not None:
                result = checks.together(self.audited, self.placebo, seed=self.seed)
                # a bound for whole records needs no independent values: chance chose the rows
                warned = replace(result, check=replace(result.check, on_refuted="warn"))
                found.append(warned if self.game.held_out_at_random else result)
        rows = self.audited if self.placebo is None else self.placebo
        if rows.counterfactual is not None:
            found += _calibration(rows.counterfactual, rows.values)
        return tuple(found)


def _made(make: Any) -> tuple[MatchedScores, ...]:
    """One part, or none."""
    found = make()
    return () if found is None else (found,)


def _difficulty(rows: Rows) -> NDArray[np.float64]:
    target = rows.own("target")
    return np.log(target) if rows.counterfactual is None else difficulty_calibration(target, rows.own("counterfactual"))


def _one_a_unit(group: NDArray[Any] | None, rows: int, seed: int) -> NDArray[np.intp]:
    """One row of each unit, drawn by the seed, in the order of the rows."""
    if group is None:
        return np.arange(rows)
    order = stream(seed, "one row a unit").permutation(rows)
    _, first = np.unique(group[order], return_index=True)
    return np.sort(order[first])


def _not_in(group: NDArray[Any] | None, trained: NDArray[Any] | None, rows: int) -> NDArray[np.intp]:
    """The rows whose unit has no audited row."""
    if group is None or trained is None:
        return np.arange(rows)
    alike("group", group, trained)
    return np.flatnonzero(~np.isin(group, trained))


def redrawn_values(table: Any, *, to: str | Path, **settings: Any) -> Path:
    """Write the training table with values drawn from the proxy beside the true ones: to train a model on them once.

    The columns are called as the protected ones, with " redrawn" at the end. Train the audited recipe on the written
    rows with that column in the place of the true one, and give that model to the audit:

        redrawn = "retrained.onnx"

    Such a model can have learnt nothing of the true values. If the attack finds a leak in it all the same, the model
    recognises rows that it was trained on (theory:placebo#redrawn).

    Parameters
    ----------
    table, settings
        Those of `MatchedRows.from_table`, with the seed of the audit: another one is another proxy. All rows are drawn.
    to
        The Parquet file that is written.
    """
    for name in ("redrawn", "sample"):
        if settings.get(name) is not None:
            raise InputError(f"`{name}` has no effect here: values are drawn for all rows.")
    told = inspect.signature(MatchedRows.from_table).bind(table, **settings)
    told.apply_defaults()
    kept = {
        name: value for name, value in told.arguments.items() if name not in ("table", "redrawn", "sample", "margin")
    }
    kept["folder"] = str(kept["folder"])
    with one_thread(trees=True):
        return _matched_table.write_redrawn(table, Path(kept["folder"], to), **kept)
