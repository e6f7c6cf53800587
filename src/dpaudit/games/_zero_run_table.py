"""What the zero-run game reads: settings that are refused, the use of every column of a table, units of rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.counterfactuals import Categorical
from dpaudit.fitted.propensity import Boosted, Logistic
from dpaudit.inputs.tables import Table, column_names, given, listed, one_use, two_values

PROPENSITIES = {"logistic": Logistic, "boosted": Boosted}
OUTPUTS = ("score", "loss")
"""Columns of these names are what a model said of a row: one is taken as the score, neither is a feature of itself."""
ORIGINS = {
    "split": "a random hold-out of the same records",
    "later": "records from after the training",
    "domain": "records of another source",
    "given": "records that nobody randomised",
    "generated": "made by a generator",
}
"""Where the non-members come from."""
ADVERSARIES = ("aware", "unaware")
TOO_MANY = 6.0
"""Standard deviations by which the number of members may differ from what known propensities say."""


@dataclass(frozen=True, kw_only=True)
class Uses:
    """The use of every column that has one.

    Attributes
    ----------
    outputs
        What the model said: a score, a loss, or probabilities.
    by
        Which of these three it is.
    known
        Known propensities; none where a model is fitted.
    features
        Columns for the propensity and for the blind baseline.
    """

    member: str
    outputs: list[str]
    by: str
    label: str | None
    classes: list[str]
    known: list[str]
    unit: str | None
    leave_out: list[str]
    features: list[str]

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        member: str,
        score: str | None,
        loss: str | None,
        probability: Any,
        label: str | None,
        classes: Any,
        features: Any,
        leave_out: Any,
        unit: str | None,
        propensity: Any,
        cross_fit: bool,
        split: bool,
    ) -> Uses:
        """The uses that the settings say; what is left are features."""
        column_names(score=score, loss=loss, label=label, unit=unit)
        if not isinstance(member, str):
            raise InputError(f"`member` must be the name of a column, got {member!r}.")
        by, outputs = _score(table, score=score, loss=loss, probability=probability)
        for name, value in (("label", label), ("classes", classes)):
            if by != "probability" and value is not None:
                raise InputError(
                    f"`{name}` belongs to `probability`, which is not given.",
                    f"leave `{name}` out; a column of labels is a feature as any other.",
                )
        if by == "probability" and label is None:
            raise InputError("`probability` needs `label`, the column of the true labels.")
        found = cls(
            member=member,
            outputs=outputs,
            by=by,
            label=label,
            classes=listed("classes", classes),
            known=_known_columns(table, propensity),
            unit=unit,
            leave_out=listed("leave_out", leave_out),
            features=[],
        )
        if found.known and cross_fit:
            raise InputError(
                "`cross_fit` is for a propensity model that is fitted here, and `propensity` names columns."
            )
        asked = None if features is None else listed("features", features)
        table.check_names([*found.used, *given(label), *(asked or ()), *found.leave_out])
        one_use([*found.used, *given(label)])
        return found if split else replace(found, features=found._features(table, asked))

    @property
    def used(self) -> list[str]:
        """The columns that have a use and are no features."""
        return [self.member, *self.outputs, *self.known, *given(self.unit)]

    @property
    def needed(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys([*self.used, *given(self.label), *self.features]))

    def _features(self, table: Table, asked: list[str] | None) -> list[str]:
        """Those that are named, or all columns that have no other use."""
        both = [name for name in asked or () if name in (*self.used, *self.leave_out)]
        if both:
            raise InputError(f"`features` must have no other use and not be left out, got {both[0]!r} among them.")
        if self.label in self.leave_out:
            raise InputError(f"`leave_out` must not hold the label, got {self.label!r}: the score depends on it.")
        if asked is None:
            found = [name for name in table.names if name not in (*self.used, *OUTPUTS, *self.leave_out)]
        else:
            found = list(dict.fromkeys([*asked, *given(self.label)]))
        if not found and not self.known:
            raise InputError(
                "the table must have features to learn the propensity from, and no column is left for that.",
                'known propensities are `propensity = "COLUMN"`; a random hold-out is origin = "split".',
            )
        return found

    def scores(self, rows: Table) -> NDArray[np.float64]:
        """One number a row, higher where the model is surer of it."""
        if self.by != "probability":
            numbers = rows.column(self.outputs[0], self.by)
            return numbers if self.by == "score" else -numbers
        assert self.label is not None
        codes, kinds = rows.classes([self.label], self.classes or None)
        two_values(self.label, kinds)
        names = [kind[0] for kind in kinds]
        distribution = Categorical(rows.class_probabilities(self.outputs, names, field="probability"))
        return np.log(distribution.density(codes))

    def propensity(self, rows: Table, kind: Any) -> Any:
        """A model to fit, or known propensities, one a row or two."""
        if not self.known:
            return PROPENSITIES[kind]()
        values = [rows.column(name, "probability", field="propensity") for name in self.known]
        return np.stack(values, axis=1) if len(values) == 2 else values[0]

    def source(self, kind: Any, *, split: bool) -> dict[str, Any]:
        """Where the rows come from, for the record."""
        fitted = "none" if split else PROPENSITIES[kind]().words() if not self.known else ""
        by_label = f"log-probability of {self.label} by {', '.join(self.outputs)}"
        words = {"probability": by_label, "loss": f"-{self.outputs[0]}" if self.outputs else ""}
        return {
            "propensity": fitted or f"known: {', '.join(self.known)}",
            "score": words.get(self.by, self.outputs[0] if self.outputs else ""),
            "member": self.member,
            "features": self.features,
            "leave_out": self.leave_out,
        }


def _score(table: Table, *, score: str | None, loss: str | None, probability: Any) -> tuple[str, list[str]]:
    """Exactly one of three ways to a score; without any, a column that is called one."""
    told = {"score": score, "loss": loss, "probability": probability}
    ways = [name for name, value in told.items() if value is not None]
    if len(ways) > 1:
        raise InputError(f"`{ways[0]}` and `{ways[1]}` both give a score.", "leave one of them out.")
    if not ways:
        found = next((name for name in OUTPUTS if name in table.names), None)
        if found is None:
            raise InputError(
                "one of `score`, `loss` or `probability` must name a column: the table has none called so.", table.hint
            )
        return found, [found]
    return ways[0], listed(ways[0], told[ways[0]])


def _known_columns(table: Table, propensity: Any) -> list[str]:
    """The columns of known propensities."""
    if isinstance(propensity, str):
        known = [] if propensity in PROPENSITIES else [propensity]
    else:
        known = listed("propensity", check.items("propensity", propensity))
        if not 1 <= len(known) <= 2:
            raise InputError(f"`propensity` must name one column or two (lower, upper), got {len(known)}.")
    unknown = [name for name in known if name not in table.names]
    if unknown:
        words = " or ".join(map(repr, PROPENSITIES))
        raise InputError(f"`propensity` must be {words}, or columns of the table, got {unknown[0]!r}.", table.hint)
    return known


def refuse_for_split(maker: Callable[..., Any], told: dict[str, Any]) -> None:
    """A random hold-out has no use for what is about propensities."""
    defaults = inspect.signature(maker).parameters
    for name, value in told.items():
        default = defaults[name].default
        if value is not default and value != default and not (name == "leave_out" and value == []):
            raise InputError(
                f'`{name}` has no use where origin = "split": a random hold-out needs no propensity.',
                f"leave `{name}` out, or say how the non-members came about otherwise.",
            )


def known_propensities(values: Any, member: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Lower and upper propensities of each row, which must fit the number of members."""
    rows = member.size
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(values).__name__
        raise InputError(f"`propensity` must be a model with `fit`, or numbers, one a row, got {kind}.") from None
    if found.shape not in ((rows,), (rows, 2)):
        raise InputError(f"`propensity` must be one number a row or two ({rows} rows), got shape {found.shape}.")
    found = np.stack([found, found], axis=1) if found.ndim == 1 else found
    if not np.all((found >= 0.0) & (found <= 1.0)) or np.any(found[:, 0] > found[:, 1]):
        raise InputError("`propensity` must lie between 0 and 1, the lower first.")
    spread = TOO_MANY * np.sqrt((found * (1.0 - found)).sum(axis=0).max() + 1.0)
    fewest, most = found.sum(axis=0)
    if not fewest - spread <= member.sum() <= most + spread:
        said = f"{fewest:,.0f}" if fewest == most else f"{fewest:,.0f} to {most:,.0f}"
        raise InputError(
            f"`propensity` must add up to about the number of members: it says {said} of {rows:,}, and "
            f"{int(member.sum()):,} are.",
            "give P(member given the features) of these rows, not of groups of equal size.",
        )
    return found


def check_settings(
    adversary: Any, trim: Any, fit_fraction: Any, cross_fit: Any, clip: Any, log_odds_error: Any
) -> None:
    """What can be refused before any row is read."""
    check.choice("adversary", adversary, ADVERSARIES)
    check.number("clip", clip, low=0.0, high=0.5)
    if not isinstance(cross_fit, bool):
        raise InputError(f"`cross_fit` must be true or false, got {cross_fit!r}.")
    limits = {"trim": (trim, 0.5), "fit_fraction": (fit_fraction, 0.9), "log_odds_error": (log_odds_error, np.inf)}
    for name, (value, most) in limits.items():
        if value is not None:
            check.number(name, value, low=0.0, high=most)


def check_origin(origin: Any) -> None:
    """One of the words of `ORIGINS`; generated non-members are handed over to PANORAMIA."""
    check.choice("origin", origin, tuple(ORIGINS))
    if origin == "generated":
        raise InputError(
            "generated non-members need a generator's divergence, which no propensity model measures.",
            "use `estimators.panoramia` on PairedScores (fair coins between real and generated records), or `dpaudit "
            "estimate FILE --assignment coins` on a table with columns included, baseline and attack.",
        )


@dataclass(frozen=True, eq=False)
class Units:
    """One line a unit; rows of one unit are averaged, and must agree in membership."""

    scores: NDArray[np.float64]
    member: NDArray[np.bool_]
    features: Any
    known: Any
    first: NDArray[np.intp]

    def __len__(self) -> int:
        return self.scores.size

    @classmethod
    def of(cls, scores: Any, member: NDArray[np.bool_], features: Any, known: Any, group: Any) -> Units:
        """The units of a group; without one every row is a unit."""
        if group is None:
            return cls(scores, member, features, known, np.arange(scores.size))
        _, first, place = np.unique(group, return_index=True, return_inverse=True)
        place = place.ravel()
        count = np.bincount(place)
        if np.any((np.bincount(place, member) % count) != 0):
            raise InputError("`member` must be the same for all rows of one unit.")
        if known is not None and not np.array_equal(known, known[first][place]):
            raise InputError("`propensity` must be the same for all rows of one unit.")

        def mean(values: Any) -> Any:
            columns = np.asarray(values, dtype=np.float64).reshape(len(values), -1).T
            return np.stack([np.bincount(place, column) / count for column in columns], axis=1)

        return cls(
            mean(scores)[:, 0],
            member[first],
            None if features is None else mean(features),
            None if known is None else known[first],
            first,
        )


def slope(
    scores: NDArray[np.float64], odds: NDArray[np.float64], member: NDArray[np.bool_], held: NDArray[np.intp]
) -> float:
    """How much the score rises with the log-odds *within* a group, from held rows, whose membership is no secret."""
    if held.size < 4:
        return 0.0
    x, y = odds[held].copy(), scores[held].copy()
    for group in (member[held], ~member[held]):
        x[group] -= x[group].mean()
        y[group] -= y[group].mean()
    spread = float(x @ x)
    return float(x @ y) / spread if spread > 0.0 else 0.0
