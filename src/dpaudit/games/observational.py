"""Coins of paper 000: the model was trained on what it was trained on, and a proxy supplies the other value.

After training, a fair coin a unit decides whether the adversary is shown the protected value that was trained on or one
that a proxy drew for the same record (paper 000, algorithms 1 and 2). It sees the model and must say which. Labels, any
column or set of columns, numbers and whole records are the same game with another `counterfactual`:

| audited | `values` | `counterfactual` | `target` | relation |
|---|---|---|---|---|
| labels | class numbers | `Categorical` | `Categorical` of the model's probabilities | label |
| categorical input columns | class numbers (`encode`) | `Categorical` | `counterfactuals.posterior` | label |
| a numeric input column | numbers | `Normal`, `Residuals` | `NumericPosterior` | label |
| membership | numbers of records | `Fresh` | `Table` | substitute |

Everything rests on the proxy: if its values can be told from true ones without the model, the attack wins without a
leak. `shift` is tau, the mean total variation between the two distributions, that the auditor answers for; `log_ratio`
is the stronger multiplicative form. The *blind* attack is a control of every play, on the coins of its first toss;
where it refutes the proxy, `da.audit` reports no number. Nor does it with tau = 0, unless "counterfactual-right" is
accepted: a blind attack that finds nothing does not show that the proxy knows as much as the model (`COINS_ALONE`).

The coins can be tossed several times for the same rows and model (`plays`), so that no lucky toss decides the number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.assumptions import Assumption, Check, CheckResult, as_assumptions
from dpaudit.attacks import baselines
from dpaudit.attacks.reference import REFERENCE_ATTACKS, likelihood_ratio
from dpaudit.bounds import Relation, relation
from dpaudit.counterfactuals import Categorical, Distribution, Fresh, Normal, Proxy, Residuals, calibration
from dpaudit.evidence import ONE_ROW_A_UNIT, CanaryScores, MemberScores
from dpaudit.execution import fair_coins, one_thread, stream
from dpaudit.games._observational_checks import (
    BLIND_VALUES,
    CALIBRATION,
    COINS_ALONE,
    FRESH,
    GIVEAWAYS,
    INDEPENDENT,
    LESS_CERTAIN,
    LOG_RATIO,
    NO_SHIFT,
    WANTS_FEATURES,
    WANTS_HELD_OUT,
    WANTS_SHIFT,
    WITHIN_UNIT,
)
from dpaudit.games._observational_table import Sources, class_numbers, numeric_features, ratio_a_row
from dpaudit.games.game import RUNNER, Control, Play, Runner, plan_of
from dpaudit.inputs.tables import Table, unit_word

Evidence = CanaryScores | MemberScores


@dataclass(frozen=True, kw_only=True, eq=False)
class Observational:
    """Attribute inference with coins that are tossed after training: the game of paper 000.

    Attributes
    ----------
    values
        The protected value of every row, as it was trained on.
    counterfactual
        The distribution from which counterfactual values are drawn: any of `dpaudit.counterfactuals`.
    target
        What the audited model says of a shown value: a distribution (`density`).
    reference
        Another distribution for the attacks 'difficulty' and 'rmia'; None: the proxy.
    attack
        'likelihood-ratio' (default), 'difference' (paper 000), 'difficulty' or 'rmia'; see `attacks.reference`.
    features
        Numeric columns that the blind baseline may look at, one row each; without them it sees the proxy alone.
    shift
        tau: the mean total variation between true and proxy values that the auditor answers for; where rows form units,
        between all values of a unit together, which may be as large as the sum over its rows.
    log_ratio
        Instead of tau: a bound on |log true distribution / proxy distribution| for every shown value, one number or one
        a row (theory:observational#log-ratio). The evidence is then `MemberScores`.
    group, unit
        Rows of one unit share a coin. Without a group, that no two rows belong to one unit is a printed assumption.
    calibration_fraction
        Share of the units that are never canaries: on them the proxy is recalibrated if a control refutes it.
    sample
        Play with this many units, drawn at random; None: all of them, m = n.
    population
        How many rows there were, if these are a sample of them already.
    plays
        How often the coins are tossed, for the same rows and model: the median of the plays is reported, at half of the
        error probability (theory:observational#repeated).
    assumed
        Whatever else the evidence rests on.
    source
        Where the rows come from, for the record.
    """

    values: Any
    counterfactual: Proxy
    target: Distribution
    reference: Distribution | None = None
    attack: str = "likelihood-ratio"
    features: Any = None
    feature_names: tuple[str, ...] = ()
    relation: Relation | str | None = None
    shift: float = 0.0
    log_ratio: Any = None
    group: Any = None
    unit: str = "record"
    calibration_fraction: float = 0.0
    sample: int | None = None
    population: int | None = None
    plays: int = 1
    assumed: tuple[Assumption, ...] = ()
    source: dict[str, Any] | None = None

    kind: ClassVar[str] = "observational-coins"
    relation_of_tables: ClassVar[Relation] = Relation.LABEL
    purpose: ClassVar[str] = "coins of observed rows"
    assumptions: ClassVar[tuple[Assumption, ...]] = (
        NO_SHIFT,
        FRESH,
        INDEPENDENT,
        WITHIN_UNIT,
        LOG_RATIO,
        ONE_ROW_A_UNIT,
    )
    checks: ClassVar[tuple[Check, ...]] = (BLIND_VALUES, COINS_ALONE, CALIBRATION, GIVEAWAYS)

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        rows = len(values) if values.ndim else 0
        if not rows or len(self.counterfactual) != rows:
            raise InputError(
                f"`values` and `counterfactual` must have the same rows, got {rows} and {len(self.counterfactual)}."
            )
        whole = isinstance(self.counterfactual, Fresh)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InputError("`values` must be finite, got a gap.", "dropping rows is a selection; give them a value.")
        if isinstance(self.counterfactual, Categorical):
            values = class_numbers(values, self.counterfactual.classes)
            for name, distribution in (("target", self.target), ("reference", self.reference)):
                if (
                    isinstance(distribution, Categorical)
                    and distribution.probabilities.shape != self.counterfactual.probabilities.shape
                ):
                    shapes = f"{distribution.probabilities.shape} and {self.counterfactual.probabilities.shape}"
                    raise InputError(
                        f"`{name}` and `counterfactual` must have the same rows and classes, got {shapes}."
                    )
        elif not whole and (values.ndim != 1 or values.dtype.kind not in "fiu"):
            raise InputError(f"`values` must be one number a row for this proxy, got {values.dtype} {values.shape}.")
        asked = self.relation if self.relation is not None else Relation.SUBSTITUTE if whole else Relation.LABEL
        if relation(asked) is not (Relation.SUBSTITUTE if whole else Relation.LABEL):
            raise InputError(
                f"`relation` must be {'substitute' if whole else 'label'} for this proxy, got {asked!s}.",
                "a proxy for one attribute certifies its replacement, fresh records that of the whole record.",
            )
        if whole and np.intersect1d(values, self.counterfactual.records).size and values.ndim == 1:  # type: ignore[attr-defined]
            raise InputError("`counterfactual` must hold fresh records only, got one of the training records.")
        check.choice("attack", self.attack, REFERENCE_ATTACKS)
        check.number("shift", self.shift, low=0.0, high=1.0)
        held = check.number("calibration_fraction", self.calibration_fraction, low=0.0, high=0.9)
        if self.sample is not None:
            check.count("sample", self.sample, low=1)
        check.count("plays", self.plays, low=1)
        if whole and self.reference is None:
            raise InputError("`reference` is needed for whole records: fresh ones have no density of their own.")
        if self.log_ratio is not None and self.shift:
            raise InputError("`shift` and `log_ratio` are two forms of one assumption.", "leave one of them out.")
        group = None if self.group is None else check.labels("group", self.group)
        features = None if self.features is None else numeric_features(self.features, rows)
        names = self.feature_names or tuple(f"column {n}" for n in range(0 if features is None else features.shape[1]))
        if features is not None and len(names) != features.shape[1]:
            raise InputError(f"`feature_names` must name {features.shape[1]} columns, got {len(names)}.")
        ratio = None if self.log_ratio is None else ratio_a_row(self.log_ratio, rows)
        if group is not None:
            check.same_length(values=values, group=group)
            if ratio is not None:
                raise InputError("`log_ratio` is a bound for single rows; rows of one unit need `shift`.")
        changed: dict[str, Any] = {"values": values, "relation": relation(asked), "shift": float(self.shift)}
        assumed = as_assumptions(self.assumed)  # may be accepted, too
        changed |= {"assumed": assumed, "assumptions": (*type(self).assumptions, *assumed)}
        changed |= {"calibration_fraction": held}
        changed |= {"group": group, "features": features, "feature_names": tuple(names), "log_ratio": ratio}
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    # ---------------------------------------------------------------------------------------------------- from a table

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        label: str,
        target: Any,
        counterfactual: Any,
        attribute: Any = None,
        features: Any = None,
        unit: str | None = None,
        classes: Any = None,
        attack: str = "likelihood-ratio",
        shift: float = 0.0,
        log_ratio: float | None = None,
        calibration_fraction: float = 0.1,
        sample: int | None = None,
        plays: int = 21,
        folder: str | Path = ".",
        seed: int = 0,
    ) -> Observational:
        """The game of a table of rows, and of a model or the predictions it already made.

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
            A model that never saw these rows (an earlier checkpoint, a reference; of an attribute it is asked with the
            other features and the label, in this order), or columns of its probabilities, or `{ table = "..." }`: rows
            that the target was not trained on, to train one on.
        attribute
            A column, or several, that the model takes as inputs and that is to be protected; `target` is then a model.
        features
            The columns that the models take, and that the blind baseline looks at. Optional with predictions; without
            them the control sees miscalibration only, and a proxy that merely knows less passes it.
        unit
            The column that says whose row it is: rows of one unit share a coin. None: every row is one, an assumption.
        classes
            The values of the label in the order of the columns or outputs of probabilities; None: sorted.
        attack
            "likelihood-ratio", "difference", "difficulty" or "rmia".
        shift, log_ratio
            How far the proxy's values may be from true ones: tau, or instead a bound on the logarithm of their ratio.
        calibration_fraction
            Share of units that are never canaries, to recalibrate the proxy on if its control refutes it.
        sample
            Play with about this many rows, drawn at random: for tables that do not fit into memory.
        plays
            How often the coins are tossed; the median of the plays is reported, at half of the error probability.
        folder, seed
            Where names of files start, and what draws the sample.
        """
        check.choice("attack", attack, REFERENCE_ATTACKS)
        check.number("shift", shift, low=0.0, high=1.0)
        check.number("calibration_fraction", calibration_fraction, low=0.0, high=0.9)
        if log_ratio is not None:
            check.number("log_ratio", log_ratio, low=0.0)
        check.count("plays", plays, low=1)
        sources = Sources.of(
            Table.of(table, folder=folder),
            label=label,
            target=target,
            counterfactual=counterfactual,
            attribute=attribute,
            features=features,
            unit=unit,
            classes=classes,
            folder=str(folder),
        )
        with one_thread():
            rows = sources.table.sample(sources.needed, sample, unit=unit, seed=seed)
            values, kinds = sources.values(rows)
            distribution = sources.distribution(rows, kinds)
            matrix, names = sources.known(rows, values, kinds)
            return cls(
                values=values,
                counterfactual=distribution,
                target=sources.audited(rows, kinds, distribution),
                attack=attack,
                features=matrix,
                feature_names=names,
                shift=shift,
                log_ratio=log_ratio,
                group=None if unit is None else rows.column(unit, "unit"),
                unit=unit_word(unit),
                calibration_fraction=calibration_fraction,
                population=rows.population if len(rows) < (rows.population or 0) else None,
                plays=plays,
                source={**sources.words(), "sample": sample},
            )

    # ------------------------------------------------------------------------------------------------------ randomness

    @cached_property
    def _units(self) -> tuple[int, NDArray[np.intp]]:
        """How many units there are, and the unit of each row."""
        if self.group is None:
            return len(self.values), np.arange(len(self.values))
        names, inverse = np.unique(self.group, return_inverse=True)
        return len(names), inverse.reshape(-1)

    def split(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows that are canaries, and the held-out rows, by units."""
        count, unit = self._units
        held = round(self.calibration_fraction * count)
        population = count - held
        kept = population if self.sample is None else min(self.sample, population)
        if kept < 2:
            raise InputError(f"at least two units must be canaries, got {kept} of {count}.")
        if not held and kept == count:
            return np.arange(len(self.values)), np.array([], dtype=np.intp)
        order = stream(seed, "held-out units").permutation(count)
        part = np.zeros(count, dtype=np.int8)
        part[order[:held]], part[order[held + kept :]] = 1, 2
        return np.flatnonzero(part[unit] == 0), np.flatnonzero(part[unit] == 1)

    def coins(self, seed: int, attempt: int = 0, play: int = 0) -> NDArray[np.bool_]:
        """For each unit whether its true value is shown; a second attempt tosses anew, and so does each further play.

        What commits to those of the first play commits to the seed, and with it to all.
        """
        purpose = self.purpose if not attempt else f"{self.purpose}, look {attempt + 1}"
        return fair_coins(seed, _of_play(purpose, play), self._units[0])

    @property
    def repeats(self) -> int:
        """Plays that are merged into one statement."""
        return self.plays

    def plan(self, seed: int) -> dict[str, Any]:
        """Every setting, and digests of rows and distributions."""
        return plan_of(self, rows=len(self.values))

    @property
    def evidence_type(self) -> type:
        """Canaries; with a bound on the log-ratio, members with propensities."""
        return CanaryScores if self.log_ratio is None else MemberScores

    # ------------------------------------------------------------------------------------------------------------ play

    def play(self, *, seed: int, attempt: int = 0, runner: Runner = RUNNER) -> Play:
        """The evidence, the blind baseline on the same coins, and how well the proxy is calibrated.

        A second attempt mends the proxy on rows that are no canaries, and tosses new coins.
        """
        with one_thread(trees=True):
            game = self if not attempt else self.recalibrated(seed)
            return game._played(seed, attempt)

    def recalibrated(self, seed: int) -> Observational:
        """The same game with its proxy mended on the held-out rows, which are no canaries under this seed."""
        _, held = self.split(seed)
        return replace(self, counterfactual=self.counterfactual.recalibrated(self.values, held))  # type: ignore[attr-defined]

    @property
    def attempts(self) -> int:
        """Two where a recalibrated proxy can be played with, whatever the data turn out to be."""
        return 2 if self.can_recalibrate else 1

    @property
    def can_recalibrate(self) -> bool:
        """Whether a second attempt can say anything: a proxy that can be mended, rows for it, and features.

        Without features the blind baseline sees the proxy's own predictions only, and those a recalibration makes right
        by construction: the control would pass, and prove nothing. A `shift` or `log_ratio` is answered for one proxy,
        and not for another.
        """
        mendable = (
            self.calibration_fraction > 0.0
            and self.features is not None
            and hasattr(self.counterfactual, "recalibrated")
        )
        return mendable and self.shift == 0.0 and self.log_ratio is None

    def _played(self, seed: int, attempt: int) -> Play:
        rows, _ = self.split(seed)
        every = rows.size == len(self.values)
        unit = self._units[1] if every else self._units[1][rows]
        counterfactual, target = (
            distribution if every else distribution.at(rows) for distribution in (self.counterfactual, self.target)
        )
        reference: Distribution = (
            counterfactual if self.reference is None else self.reference if every else self.reference.at(rows)
        )
        true = self.values if every else self.values[rows]
        attack = REFERENCE_ATTACKS[self.attack]

        def tossed(play: int) -> tuple[NDArray[np.bool_], NDArray[Any]]:
            """The coins of each row, and the values that the proxy draws."""
            included = self.coins(seed, attempt, play)[unit]
            purpose = _of_play(f"counterfactual values, look {attempt + 1}", play)
            return included, counterfactual.sample(stream(seed, purpose))  # type: ignore[attr-defined]

        def seen(play: int) -> CanaryScores | MemberScores:
            included, drawn = tossed(play)
            shown = np.where(included.reshape(-1, *([1] * (true.ndim - 1))), true, drawn)
            scores = attack.score(target.density(shown), reference.density(shown))
            return self._evidence(scores, included, rows, sides=attack.sides, reduce=attack.reduce, seed=seed)

        def blind() -> tuple[Evidence, ...]:
            with one_thread(trees=True):
                included, drawn = tossed(0)  # one control, on the coins of the first play
                return self._blind(counterfactual, true, drawn, included, rows, unit, seed=seed, attempt=attempt)

        control = Control(
            check=replace(BLIND_VALUES, remedy=self._remedies()),
            evidence=blind,
            numbers={"how": baselines.words(self.counterfactual, self.features)},
            explain=lambda: self._giveaways(rows),
        )
        return Play(
            evidence=tuple(seen(play) for play in range(self.plays)),
            repeats=self.plays,
            controls=(control,),
            results=(*_calibration(counterfactual, true), *self._alone()),
        )

    def _alone(self) -> tuple[CheckResult, ...]:
        """What is missing where nobody answers for the proxy with a number, and no fresh records stand in its place."""
        if self.shift > 0.0 or self.log_ratio is not None or isinstance(self.counterfactual, Fresh):
            return ()
        return (CheckResult(check=COINS_ALONE, outcome="not-run"),)

    def _remedies(self) -> str:
        """What would help where the blind baseline refutes the proxy."""
        found, answered = [LESS_CERTAIN], self.shift > 0.0 or self.log_ratio is not None
        if self.features is None and not answered:
            found.append(WANTS_FEATURES)
        elif not self.calibration_fraction and not answered and hasattr(self.counterfactual, "recalibrated"):
            found.append(WANTS_HELD_OUT)
        if self.log_ratio is None:
            found.append(WANTS_SHIFT)
        return " ".join(found)

    def _giveaways(self, rows: NDArray[np.intp]) -> tuple[CheckResult, ...]:
        """The columns in which true values part most from the proxy's."""
        features = None if self.features is None else self.features[rows]
        names = list(self.feature_names)
        named = baselines.leaking_features(self.counterfactual.at(rows), self.values[rows], features, names)
        if not named:
            return ()
        numbers = {
            "listed": "; ".join(f"{one.feature}, {one.where} ({one.z:+.1f} standard errors)" for one in named),
            "columns": [{"feature": one.feature, "where": one.where, "z": one.z} for one in named],
        }
        return (CheckResult(check=GIVEAWAYS, outcome="measured", numbers=numbers),)

    def _blind(
        self,
        counterfactual: Any,
        true: NDArray[Any],
        drawn: NDArray[Any],
        included: NDArray[np.bool_],
        rows: NDArray[np.intp],
        unit: NDArray[np.intp],
        *,
        seed: int,
        attempt: int,
    ) -> tuple[Evidence, ...]:
        """The likelihood-ratio attack of somebody who never saw the model, one part for each fold.

        A fold's distribution is learnt from the other fold. Given all of that one, the coins of this one are fair if
        the proxy is right, so each part is a test of its own; they depend on each other, and are paid for by a union.
        """
        fold = fair_coins(seed, f"folds of the blind attack, look {attempt + 1}", self._units[0])[unit]
        features = None if self.features is None else self.features[rows]
        if isinstance(counterfactual, Fresh):
            if (
                features is None
                or counterfactual.features is None
                or counterfactual.features.shape[1] != features.shape[1]
            ):
                return ()
            real, other = baselines.blind_ratio(features, counterfactual.features, fold, seed=seed)
            scores = np.where(included, real, other)
        elif isinstance(counterfactual, Categorical | Normal | Residuals):
            distribution = baselines.blind_distribution(counterfactual, true, features, fold, seed=seed)
            shown = np.where(included, true, drawn)
            scores = likelihood_ratio(distribution.density(shown), counterfactual.density(shown))
        else:
            return ()  # a distribution of the user's own
        parts = [(scores, np.flatnonzero(fold == side)) for side in (False, True)]
        if self.group is not None and not isinstance(counterfactual, Fresh) and np.unique(unit).size < unit.size:
            parts.append((baselines.agreement(counterfactual, shown, unit), np.arange(unit.size)))
        return tuple(
            self._evidence(found[part], included[part], rows[part], sides="sign", reduce="sum", seed=seed)
            for found, part in parts
            if np.unique(unit[part]).size > 1
        )

    def _evidence(
        self,
        scores: NDArray[np.float64],
        included: NDArray[np.bool_],
        rows: NDArray[np.intp],
        *,
        sides: str,
        reduce: str,
        seed: int,
    ) -> CanaryScores | MemberScores:
        alone = ONE_ROW_A_UNIT if self.group is None else WITHIN_UNIT.measured(unit=self.unit)
        common: dict[str, Any] = {
            "scores": scores,
            "relation": self.relation,
            "sides": sides,
            "reduce": reduce,
            "seed": seed,
            "unit": self.unit,
            "group": None if self.group is None else self.group[rows],
        }
        if self.log_ratio is not None:
            limits = 1.0 / (1.0 + np.exp(np.array([1.0, -1.0]) * self.log_ratio[rows][:, None]))
            widest = float(self.log_ratio[rows].max())
            ratio = LOG_RATIO.asserted(ratio=widest)
            return MemberScores(
                member=included, propensity=limits, assumptions=(ratio, INDEPENDENT, alone, *self.assumed), **common
            )
        tau = (NO_SHIFT.measured(unit=self.unit),) if self.shift == 0.0 else ()
        sampled = self.sample is not None and rows.size < len(self.values)
        population = self.population if self.population is not None else len(self.values) if sampled else None
        return CanaryScores(
            included=included,
            shift=self.shift,
            assumptions=(*tau, FRESH if isinstance(self.counterfactual, Fresh) else INDEPENDENT, alone, *self.assumed),
            population=population,
            **common,
        )


def _of_play(purpose: str, play: int) -> str:
    """The purpose of a stream of this play; that of the first is as it always was."""
    return purpose if not play else f"{purpose}, play {play + 1}"


def _calibration(counterfactual: Any, true: NDArray[Any]) -> tuple[CheckResult, ...]:
    """How well the counterfactual distribution fits the true values, where that can be measured."""
    found = calibration(counterfactual, true)
    if found is None:
        return ()
    numbers = {
        "points": 100.0 * found.error,
        "explained": 100.0 * max(0.0, found.fidelity),
        "calibration_error": found.error,
        "log_loss": found.log_loss,
        "blank": found.blank,
    }
    points = {"predicted": list(found.predicted), "observed": list(found.observed), "rows": list(found.rows)}
    return (CheckResult(check=CALIBRATION, outcome="measured", numbers=numbers, figure={"calibration": points}),)


def held_out_membership(
    *,
    members: Any,
    non_members: Any,
    sides: str = "sign",
    unit: str = "record",
    group: Any = None,
    seed: int = 0,
) -> CanaryScores:
    """The interventional comparison: scores of training records, and of a *random* hold-out kept out of training.

    Scores come from `attacks.difficulty_calibration` (sides "sign") or `attacks.rmia` (sides "both") of the probability
    that target and reference give to each record's own label. `group` names the rows of members, then of non-members.
    It certifies SUBSTITUTE: "not a member" means that another record was there instead (theory:adjacency#thinning).
    """
    present, absent = check.scores("members", members), check.scores("non_members", non_members)
    split = CanaryScores(
        scores=np.concatenate([present, absent]),
        included=np.repeat([True, False], [present.size, absent.size]),
        relation=Relation.SUBSTITUTE,
        assignment="split",
        sides=sides,
        unit=unit,
        group=group,
        seed=seed,
    )
    return split.thinned()
