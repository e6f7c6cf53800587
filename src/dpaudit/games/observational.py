"""No intervention at all: the model was trained on what it was trained on, and a proxy supplies the other value.

After training, a fair coin a unit decides whether the adversary is shown the protected value that was trained on or one
that a proxy drew for the same record (paper 000, algorithms 1 and 2). It sees the model and must say which. Labels, any
column or set of columns, numbers and whole records are the same game with another `proxy`:

| audited | `values` | `proxy` | `target` | relation |
|---|---|---|---|---|
| labels | class numbers | `Categorical` | `Categorical` of the model's probabilities | label |
| categorical input columns | class numbers (`proxies.encode`) | `Categorical` | `proxies.posterior` | label |
| a numeric input column | numbers | `Normal`, `Residuals` | `NumericPosterior` | label |
| membership | numbers of records | `Fresh` | `Table` | substitute |

Everything rests on the proxy: if its values can be told from true ones without the model, the attack wins without a
leak. `shift` is tau, the mean total variation between the two laws, that the auditor answers for; `log_ratio` is the
stronger multiplicative form. The *blind* attack is played beside every game, on the same coins; `estimators.
refute_proxy` says whether it refutes the proxy, and `da.audit` then blocks the number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.attacks import blind
from dpaudit.attacks.reference import REFERENCE_ATTACKS, likelihood_ratio
from dpaudit.bounds import Relation, relation
from dpaudit.evidence import ONE_ROW_A_UNIT, CanaryScores, MemberScores
from dpaudit.execution import Execution, fingerprint, stream
from dpaudit.games import _coins
from dpaudit.proxies import Calibration, Categorical, Fresh, Law, Normal, Proxy, Residuals, calibration

PURPOSE = "coins of observed rows"
FRESH = "fresh and training records are independent draws from one source, and no fresh record was trained on"
INDEPENDENT = "given the rest of the records, true values of different units are independent of each other"


def no_shift(unit: str) -> str:
    """What tau = 0 means, as a sentence."""
    return f"tau = 0: without the model nobody can tell a {unit}'s proxy values from true ones"


def independent_within(unit: str) -> str:
    """What rows of one unit need, for the proxy draws them one by one."""
    return f"given the rest of its records, the true values of one {unit} are independent of each other"


@dataclass(frozen=True, kw_only=True)
class Played:
    """One play: the evidence, the blind attack on the same coins (one part a fold), and what was measured beside."""

    evidence: CanaryScores | MemberScores
    blind: tuple[CanaryScores | MemberScores, ...]
    calibration: Calibration | None
    canaries: NDArray[np.intp] = field(repr=False)
    """The rows that were played with."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observational:
    """The generic attribute-inference game in one run, without touching the training.

    Attributes
    ----------
    values
        The protected value of every row, as it was trained on.
    proxy
        The law from which counterfactual values are drawn: any of `dpaudit.proxies`.
    target
        What the audited model says of a shown value: a law (`density`).
    reference
        Another law for the attacks 'difficulty' and 'rmia'; None: the proxy.
    attack
        'likelihood-ratio' (default), 'difference' (paper 000), 'difficulty' or 'rmia'; see `attacks.reference`.
    features
        Numeric columns that the blind attack may look at, one row each; without them it sees the proxy alone.
    shift
        tau: the mean total variation between true and proxy values that the auditor answers for; where rows form units,
        between all values of a unit together, which may be as large as the sum over its rows.
    log_ratio
        Instead of tau: a bound on |log true law / proxy law| for every shown value, one number or one a row
        (THEORY 000-5). The evidence is then `MemberScores`.
    group, unit
        Rows of one unit share a coin. Without a group, that no two rows belong to one unit is a printed assumption.
    held_out
        Share of the units that are never canaries: on them the proxy is recalibrated if the gate is blocked.
    sample
        Play with this many units, drawn at random; None: all of them, m = n.
    offered
        How many rows there were, if these are a sample of them already.
    assumed
        Further sentences that the evidence rests on.
    """

    values: Any
    proxy: Proxy
    target: Law
    reference: Law | None = None
    attack: str = "likelihood-ratio"
    features: Any = None
    feature_names: tuple[str, ...] = ()
    relation: Relation | str | None = None
    shift: float = 0.0
    log_ratio: Any = None
    group: Any = None
    unit: str = "record"
    held_out: float = 0.0
    sample: int | None = None
    offered: int | None = None
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        rows = len(values) if values.ndim else 0
        if not rows or len(self.proxy) != rows:
            raise InputError(f"`values` and `proxy` must have the same rows, got {rows} and {len(self.proxy)}.")
        whole = isinstance(self.proxy, Fresh)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise InputError("`values` must be finite, got a gap.", "dropping rows is a selection; give them a value.")
        if isinstance(self.proxy, Categorical):
            values = _class_numbers(values, self.proxy.classes)
            for name, law in (("target", self.target), ("reference", self.reference)):
                if isinstance(law, Categorical) and law.probabilities.shape != self.proxy.probabilities.shape:
                    shapes = f"{law.probabilities.shape} and {self.proxy.probabilities.shape}"
                    raise InputError(f"`{name}` and `proxy` must have the same rows and classes, got {shapes}.")
        elif not whole and (values.ndim != 1 or values.dtype.kind not in "fiu"):
            raise InputError(f"`values` must be one number a row for this proxy, got {values.dtype} {values.shape}.")
        asked = self.relation if self.relation is not None else Relation.SUBSTITUTE if whole else Relation.LABEL
        if relation(asked) is not (Relation.SUBSTITUTE if whole else Relation.LABEL):
            raise InputError(
                f"`relation` must be {'substitute' if whole else 'label'} for this proxy, got {asked!s}.",
                "a proxy for one attribute certifies its replacement, fresh records that of the whole record.",
            )
        if whole and np.intersect1d(values, self.proxy.records).size and values.ndim == 1:  # type: ignore[attr-defined]
            raise InputError("`proxy` must hold fresh records only, got one of the training records.")
        check.choice("attack", self.attack, REFERENCE_ATTACKS)
        check.number("shift", self.shift, low=0.0, high=1.0)
        held = check.number("held_out", self.held_out, low=0.0, high=0.9)
        if self.sample is not None:
            check.count("sample", self.sample, low=1)
        if whole and self.reference is None:
            raise InputError("`reference` is needed for whole records: fresh ones have no density of their own.")
        if self.log_ratio is not None and self.shift:
            raise InputError("`shift` and `log_ratio` are two forms of one assumption.", "leave one of them out.")
        group = None if self.group is None else check.labels("group", self.group)
        features = None if self.features is None else _features(self.features, rows)
        names = self.feature_names or tuple(f"column {n}" for n in range(0 if features is None else features.shape[1]))
        if features is not None and len(names) != features.shape[1]:
            raise InputError(f"`feature_names` must name {features.shape[1]} columns, got {len(names)}.")
        ratio = None if self.log_ratio is None else _log_ratio(self.log_ratio, rows)
        if group is not None:
            check.same_length(values=values, group=group)
            if ratio is not None:
                raise InputError("`log_ratio` is a bound for single rows; rows of one unit need `shift`.")
        changed = {"values": values, "relation": relation(asked), "shift": float(self.shift), "held_out": held}
        changed |= {"group": group, "features": features, "feature_names": tuple(names), "log_ratio": ratio}
        for name, value in changed.items():
            object.__setattr__(self, name, value)

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
        held = round(self.held_out * count)
        offered = count - held
        kept = offered if self.sample is None else min(self.sample, offered)
        if kept < 2:
            raise InputError(f"at least two units must be canaries, got {kept} of {count}.")
        if not held and kept == count:
            return np.arange(len(self.values)), np.array([], dtype=np.intp)
        order = stream(seed, "held-out units").permutation(count)
        part = np.zeros(count, dtype=np.int8)
        part[order[:held]], part[order[held + kept :]] = 1, 2
        return np.flatnonzero(part[unit] == 0), np.flatnonzero(part[unit] == 1)

    def coins(self, seed: int, look: int = 0) -> NDArray[np.bool_]:
        """For each unit whether its true value is shown; a second look tosses anew."""
        return _coins.fair_coins(seed, PURPOSE if not look else f"{PURPOSE}, look {look + 1}", self._units[0])

    def commitment(self, seed: int) -> str:
        """A hash that commits to the coins."""
        return _coins.commitment(seed, PURPOSE, self.coins(seed))

    def fingerprint(self, seed: int) -> str:
        """What a record of this game belongs to."""
        named = (self.attack, str(self.relation), self.shift, self.unit, self.held_out, self.sample)
        arrays = (self.values, self.group, self.features, self.log_ratio)
        return fingerprint([named, arrays, self.proxy, self.target, self.reference, seed])

    # ------------------------------------------------------------------------------------------------------------ play

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> CanaryScores | MemberScores:
        """The evidence alone. Use `da.audit` for a number: it plays the blind attack too, and heeds it.

        The other arguments are those of every game; nothing here takes long enough to be kept or shared out.
        """
        return self._played(seed, look=0, with_blind=False).evidence

    def play_all(self, *, seed: int, look: int = 0) -> Played:
        """The evidence, the blind attack on the same coins, and how well the proxy is calibrated."""
        return self._played(seed, look=look, with_blind=True)

    def recalibrated(self, seed: int) -> Observational:
        """The same game with its proxy mended on the held-out rows, which are no canaries under this seed."""
        _, held = self.split(seed)
        return replace(self, proxy=self.proxy.recalibrated(self.values, held))  # type: ignore[attr-defined]

    @property
    def can_recalibrate(self) -> bool:
        """Whether a second look can say anything: a proxy that can be mended, rows for it, and features.

        Without features the blind attack sees the proxy's own predictions only, and those a recalibration makes right
        by construction: the gate would open, and prove nothing. A `shift` or `log_ratio` is answered for one proxy,
        and not for another.
        """
        mendable = self.held_out > 0.0 and self.features is not None and hasattr(self.proxy, "recalibrated")
        return mendable and self.shift == 0.0 and self.log_ratio is None

    def _played(self, seed: int, *, look: int, with_blind: bool) -> Played:
        rows, _ = self.split(seed)
        every = rows.size == len(self.values)
        unit = self._units[1] if every else self._units[1][rows]
        included = self.coins(seed, look)[unit]
        proxy, target = (law if every else law.at(rows) for law in (self.proxy, self.target))
        reference: Law = proxy if self.reference is None else self.reference if every else self.reference.at(rows)
        true = self.values if every else self.values[rows]
        drawn = proxy.sample(stream(seed, f"counterfactual values, look {look + 1}"))  # type: ignore[attr-defined]
        shown = np.where(included.reshape(-1, *([1] * (true.ndim - 1))), true, drawn)
        attack = REFERENCE_ATTACKS[self.attack]
        scores = attack.score(target.density(shown), reference.density(shown))
        evidence = self._evidence(scores, included, rows, sides=attack.sides, reduce=attack.reduce, seed=seed)
        parts: tuple[Any, ...] = ()
        if with_blind:
            parts = self._blind(proxy, true, drawn, included, rows, unit, seed=seed, look=look)
        measured = calibration(proxy, true) if with_blind else None
        return Played(evidence=evidence, blind=parts, calibration=measured, canaries=rows)

    def _blind(
        self,
        proxy: Any,
        true: NDArray[Any],
        drawn: NDArray[Any],
        included: NDArray[np.bool_],
        rows: NDArray[np.intp],
        unit: NDArray[np.intp],
        *,
        seed: int,
        look: int,
    ) -> tuple[Any, ...]:
        """The likelihood-ratio attack of somebody who never saw the model, one part for each fold.

        A fold's law is learnt from the other fold. Given all of that one, the coins of this one are fair if the proxy
        is right, so each part is a test of its own; they depend on each other, and are paid for by a union.
        """
        fold = _coins.fair_coins(seed, f"folds of the blind attack, look {look + 1}", self._units[0])[unit]
        features = None if self.features is None else self.features[rows]
        if isinstance(proxy, Fresh):
            if features is None or proxy.features is None or proxy.features.shape[1] != features.shape[1]:
                return ()
            real, other = blind.blind_ratio(features, proxy.features, fold, seed=seed)
            scores = np.where(included, real, other)
        elif isinstance(proxy, Categorical | Normal | Residuals):
            law = blind.blind_law(proxy, true, features, fold, seed=seed)
            shown = np.where(included, true, drawn)
            scores = likelihood_ratio(law.density(shown), proxy.density(shown))
        else:
            return ()  # a law of the user's own
        parts = [(scores, np.flatnonzero(fold == side)) for side in (False, True)]
        if self.group is not None and not isinstance(proxy, Fresh) and np.unique(unit).size < unit.size:
            parts.append((blind.agreement(proxy, shown, unit), np.arange(unit.size)))
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
        alone = (ONE_ROW_A_UNIT,) if self.group is None else (independent_within(self.unit),)
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
            ratio = f"for every shown value, |log true law / proxy law| is within its bound (at most {widest:.3g})"
            return MemberScores(
                member=included, propensity=limits, assumptions=(ratio, INDEPENDENT, *alone, *self.assumed), **common
            )
        tau = (no_shift(self.unit),) if self.shift == 0.0 else ()
        sampled = self.sample is not None and rows.size < len(self.values)
        offered = self.offered if self.offered is not None else len(self.values) if sampled else None
        return CanaryScores(
            included=included,
            shift=self.shift,
            assumptions=(*tau, FRESH if isinstance(self.proxy, Fresh) else INDEPENDENT, *alone, *self.assumed),
            offered=offered,
            **common,
        )


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
    It certifies SUBSTITUTE: "not a member" means that another record was there instead (THEORY 003-1).
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


def _class_numbers(values: NDArray[Any], classes: int) -> NDArray[np.int64]:
    whole = values.ndim == 1 and values.dtype.kind in "iubf"
    if not whole or not np.all(values == np.floor(values.astype(float))) or values.min() < 0 or values.max() >= classes:
        raise InputError(
            f"`values` must be class numbers 0 to {classes - 1}, got {values.ravel()[:4].tolist()} and so on.",
            "`proxies.encode` turns columns into class numbers.",
        )
    return values.astype(np.int64)


def _features(features: Any, rows: int) -> NDArray[np.float64]:
    found = np.asarray(features)
    if found.ndim != 2 or len(found) != rows or found.dtype.kind not in "fiub":
        raise InputError(
            f"`features` must be a numeric matrix of {rows} rows, got shape {found.shape} of {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise InputError("`features` must be finite.", "fill gaps, or add a column that says where they are.")
    return found.astype(np.float64)


def _log_ratio(value: Any, rows: int) -> NDArray[np.float64]:
    try:
        found = np.broadcast_to(np.asarray(value, dtype=np.float64), (rows,))
    except ValueError:
        raise InputError(f"`log_ratio` must be one number or one a row ({rows}), got {value!r}.") from None
    if not np.isfinite(found).all() or found.min() < 0.0:
        raise InputError("`log_ratio` must be non-negative and finite, one number or one a row.")
    return found
