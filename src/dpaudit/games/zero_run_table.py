"""The zero-run game on files: one table of known members and non-members of a released model.

[game.zero_run]                           # columns `member` and `score` or `loss`; every other one is a feature
table = "scored.parquet"
how = "later"                             # where the non-members come from

[game.zero_run]                           # from predictions: the score is the log-probability of the true label
table = ["members.csv", "others.csv"]
member = "trained_on"
probability = ["p_cat", "p_dog", "p_fish"]
label = "species"
leave_out = ["row_number", "day"]         # say how the rows were collected, not who they are
unit = "owner_id"
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _tables, proxies
from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.bounds import Relation
from dpaudit.bounds import relation as as_relation
from dpaudit.evidence import MemberScores
from dpaudit.execution import Execution, fingerprint
from dpaudit.games.zero_run import ADVERSARIES, ZeroRun, check_how
from dpaudit.propensity import Boosted, Logistic
from dpaudit.proxies import Categorical

PROPENSITIES = {"logistic": Logistic, "boosted": Boosted}
OUTPUTS = ("score", "loss")
"""Columns of these names are what a model said of a row: one is taken as the score, neither is a feature of itself."""
ADVERSARY = ("adversary", "abstain", "held", "cross_fit", "clip", "log_odds_error")
FOR_GIVEN = ("features", "leave_out", "propensity", *ADVERSARY)
"""What a random hold-out has no use for."""


@dataclass(frozen=True, kw_only=True)
class ZeroRunTable:
    """What a released model leaks about its members, from one table of known members and non-members.

    Attributes
    ----------
    table
        Files (Parquet, CSV, Arrow), by name or pattern, or a list of them.
    member
        The column that says whether a row was trained on: true / false or 1 / 0.
    score, loss
        The column of scores (higher means member), or of losses (lower does). None of both, and no `probability`: the
        column "score", or else "loss".
    probability, label
        Instead of a score: columns of predicted probabilities, one a class, or one of the second of two; and that of
        the true label, whose log-probability is the score. The label is a feature too, because the score depends on it.
    classes
        The values of the label in the order of `probability`; None: sorted.
    features
        Columns for the propensity and for the blind attack: numbers, dates, texts (their 100 most frequent values).
        None: every column that has no other use here.
    leave_out
        Columns that are no features. The score must not know of them but through the features.
    unit
        The column that says whose row it is: rows of one unit are averaged. None: that no two rows belong to one unit
        is printed as an assumption.
    propensity
        "logistic", "boosted", or the column of known propensities, or two, [lower, upper].
    sample
        Play with about this many rows, drawn at random: for tables that do not fit into memory.

    The other fields are those of `ZeroRun`.
    """

    table: Any
    member: str = "member"
    score: str | None = None
    loss: str | None = None
    probability: Any = None
    label: str | None = None
    classes: Any = None
    features: Any = None
    leave_out: Any = ()
    how: str = "given"
    unit: str | None = None
    propensity: Any = "logistic"
    adversary: str = "aware"
    abstain: float | None = None
    held: float | None = None
    cross_fit: bool = False
    clip: float = 0.0
    log_odds_error: float | None = None
    sample: int | None = None
    relation: Relation | str = Relation.SUBSTITUTE
    folder: str = "."

    def __post_init__(self) -> None:
        check_how(self.how)
        for name in ("member", "score", "loss", "label", "unit"):
            value = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "member"):
                raise InputError(f"`{name}` must be the name of a column, got {value!r}.")
        for name in ("probability", "classes", "features", "leave_out"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _listed(name, getattr(self, name)))
        object.__setattr__(self, "relation", as_relation(self.relation))
        self._check_settings()
        known = _tables.column_names(self.files)
        self._take_score(known)
        self._check_uses(known)
        if self.how != "split":
            self._take_features(known)

    def _check_settings(self) -> None:
        check.choice("adversary", self.adversary, ADVERSARIES)
        check.number("clip", self.clip, low=0.0, high=0.5)
        if self.log_odds_error is not None:
            check.number("log_odds_error", self.log_odds_error, low=0.0)
        if not isinstance(self.cross_fit, bool):
            raise InputError(f"`cross_fit` must be true or false, got {self.cross_fit!r}.")
        for name, most in (("abstain", 0.5), ("held", 0.9)):
            if getattr(self, name) is not None:
                check.number(name, getattr(self, name), low=0.0, high=most)
        if self.sample is not None:
            check.count("sample", self.sample, low=2)
        if self.how == "split":
            defaults: dict[str, Any] = {f.name: [] if f.name == "leave_out" else f.default for f in fields(self)}
            given = [name for name in FOR_GIVEN if getattr(self, name) != defaults[name]]
            if given:
                raise InputError(
                    f'`{given[0]}` has no use where how = "split": a random hold-out needs no propensity.',
                    f"leave `{given[0]}` out, or say how the non-members came about otherwise.",
                )
        if not isinstance(self.propensity, str) and not 1 <= len(self.known) <= 2:
            raise InputError(f"`propensity` must name one column or two (lower, upper), got {len(self.known)}.")
        if self.known and self.cross_fit:
            raise InputError(
                "`cross_fit` is for a propensity model that is fitted here, and `propensity` names columns."
            )

    @property
    def known(self) -> list[str]:
        """The columns of known propensities; none where a model is fitted."""
        if isinstance(self.propensity, str):
            return [] if self.propensity in PROPENSITIES else [self.propensity]
        return _listed("propensity", self.propensity)

    def _take_score(self, known: list[str]) -> None:
        """Exactly one of three ways to a score; without any, a column that is called one."""
        given = [name for name in ("score", "loss", "probability") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"`{given[0]}` and `{given[1]}` both give a score.", "leave one of them out.")
        if not given:
            found = next((name for name in OUTPUTS if name in known), None)
            if found is None:
                raise InputError(
                    "one of `score`, `loss` or `probability` must name a column: the table has none called so.",
                    _tables.it_has(known),
                )
            object.__setattr__(self, found, found)
        if self.probability is not None and self.label is None:
            raise InputError("`probability` needs `label`, the column of the true labels.")
        for name in ("label", "classes"):
            if self.probability is None and getattr(self, name) is not None:
                raise InputError(
                    f"`{name}` belongs to `probability`, which is not given.",
                    f"leave `{name}` out; a column of labels is a feature as any other.",
                )

    def _check_uses(self, known: list[str]) -> None:
        """Every column that is named is there, and has one use."""
        unknown = [name for name in self.known if name not in known]
        if unknown:
            words = " or ".join(map(repr, PROPENSITIES))
            raise InputError(
                f"`propensity` must be {words}, or columns of the table, got {unknown[0]!r}.",
                _tables.it_has(known),
            )
        used = [*self._used(), *_one(self.label)]
        _tables.check_names(known, [*used, *(self.features or ()), *self.leave_out])
        twice = next((name for name in used if used.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"every column must have one use, got {twice!r} for two.")

    def _take_features(self, known: list[str]) -> None:
        """The features as a list of columns: those that are named, or all that have no other use."""
        used = self._used()
        both = [name for name in self.features or () if name in (*used, *self.leave_out)]
        if both:
            raise InputError(f"`features` must have no other use and not be left out, got {both[0]!r} among them.")
        if self.label in self.leave_out:
            raise InputError(f"`leave_out` must not hold the label, got {self.label!r}: the score depends on it.")
        if self.features is None:
            found = [name for name in known if name not in (*used, *OUTPUTS, *self.leave_out)]
        else:
            found = list(dict.fromkeys([*self.features, *_one(self.label)]))
        object.__setattr__(self, "features", found)
        if not found and not self.known:
            raise InputError(
                "the table must have features to learn the propensity from, and no column is left for that.",
                'known propensities are `propensity = "COLUMN"`; a random hold-out is how = "split".',
            )

    def _outputs(self) -> list[str]:
        """The columns of what the model said."""
        return [*_one(self.score), *_one(self.loss), *(self.probability or ())]

    def _used(self) -> list[str]:
        """The columns that have a use and are no features."""
        return [self.member, *self._outputs(), *self.known, *_one(self.unit)]

    @property
    def files(self) -> list[Path]:
        return _tables.files_of(self.table, self.folder)

    @property
    def unit_word(self) -> str:
        """What one row, or the rows of one unit, stand for."""
        return _tables.unit_word(self.unit)

    @property
    def score_words(self) -> str:
        """Where the score comes from, for the record."""
        if self.probability is not None:
            return f"log-probability of {self.label} by {', '.join(self.probability)}"
        return f"-{self.loss}" if self.score is None else self.score

    @property
    def propensity_words(self) -> str:
        """Where the propensities come from, for the record."""
        if self.how == "split":
            return "none"
        return f"known: {', '.join(self.known)}" if self.known else PROPENSITIES[self.propensity]().words()

    def _needed(self) -> list[str]:
        return list(dict.fromkeys([*self._used(), *_one(self.label), *(self.features or ())]))

    # -------------------------------------------------------------------------------------------------------- as a game

    def game(self, seed: int) -> ZeroRun:
        """Read the table and make the game of it; a sample is drawn by the seed."""
        kept: tuple[int, ZeroRun] | None = self.__dict__.get("_kept")
        if kept is None or kept[0] != seed:
            kept = (seed, self._made(seed))
            object.__setattr__(self, "_kept", kept)
        return kept[1]

    def _made(self, seed: int) -> ZeroRun:
        found = _tables.read(self.files, self._needed(), sample=self.sample, unit=self.unit, seed=seed, dates=True)
        shown = {name: found.columns[name] for name in self.features or ()}
        matrix, names = _tables.numeric(shown) if shown else (None, [])
        group = None if self.unit is None else _tables.exact(_tables.without_gaps(self.unit, found.columns[self.unit]))
        return ZeroRun(
            scores=self._scores(found),
            member=check.booleans(self.member, _tables.without_gaps(self.member, found.columns[self.member])),
            how=self.how,
            features=matrix,
            feature_names=tuple(names),
            propensity=self._propensity(found),
            adversary=self.adversary,
            abstain=self.abstain,
            held=0.0 if self.how == "split" else self.held,
            cross_fit=self.cross_fit,
            clip=self.clip,
            log_odds_error=self.log_odds_error,
            group=group,
            unit=self.unit_word,
            columns=shown or None,
            relation=self.relation,
            assumed=tuple(_tables.cut_columns(shown)),
            ids=found.numbers,
        )

    def _scores(self, found: _tables.Rows) -> NDArray[np.float64]:
        if self.probability is None:
            column = self._outputs()[0]
            numbers = _finite(column, found.columns[column])
            return -numbers if self.score is None else numbers
        assert self.label is not None
        labels = _tables.exact(_tables.without_gaps(self.label, found.columns[self.label]))
        codes, kinds = proxies.encode(labels)
        names = [kind[0] for kind in kinds]
        if self.classes is not None:
            missing = [name for name in names if name not in self.classes]
            if missing:
                raise InputError(f"`classes` must list every value of {self.label!r}, and lacks {missing[0]!r}.")
            codes, names = np.array([self.classes.index(name) for name in names])[codes], self.classes
        if len(names) < 2:
            raise InputError(
                f"column {self.label!r} must take at least two values, got one.", "values to come belong in `classes`."
            )
        law = Categorical(_tables.class_shares("probability", self.probability, found, names))
        return np.log(law.density(codes))

    def _propensity(self, found: _tables.Rows) -> Any:
        if not self.known:
            return PROPENSITIES[self.propensity]()
        values = np.stack([_tables.shares("propensity", name, found.columns[name]) for name in self.known], axis=1)
        return values if values.shape[1] == 2 else values[:, 0]

    @cached_property
    def digests(self) -> list[list[str]]:
        """Names and content of every file that is read, for the record."""
        return _tables.digests(self.files)

    def coins(self, seed: int) -> NDArray[np.bool_]:
        """The memberships of the audited units, in the order in which the coins drew them."""
        return self.game(seed).coins(seed)

    def commitment(self, seed: int) -> str:
        """A hash that commits to which rows are audited."""
        return self.game(seed).commitment(seed)

    def fingerprint(self, seed: int) -> str:
        named = {f.name: str(getattr(self, f.name)) for f in fields(self) if f.name != "folder"}
        return fingerprint([named, self.digests, seed])

    def play(
        self,
        *,
        seed: int,
        execution: Execution | None = None,
        store: str | Path | None = None,
        fresh: bool = False,
        title: str = "rows",
    ) -> MemberScores:
        """The evidence alone; `da.audit` plays the blind attack too, and heeds it."""
        return self.game(seed).play(seed=seed)


def _one(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _listed(name: str, value: Any) -> list[str]:
    """Names as a list, none of them twice; a lone one is a list of one."""
    found = [str(entry) for entry in ([value] if isinstance(value, str) else check.items(name, value))]
    if len(set(found)) < len(found):
        raise InputError(f"`{name}` must not name anything twice, got {', '.join(found)}.")
    return found


def _finite(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    found = _tables.without_gaps(name, column)
    if found.dtype.kind not in "fiu":
        raise InputError(f"column {name!r} must be numbers, got {str(found[0])!r}.")
    bad = ~np.isfinite(found)
    if bad.any():
        raise InputError(
            f"column {name!r} must be finite, got {found[np.argmax(bad)]} in {int(bad.sum()):,} rows.",
            "rows are not dropped for you, because dropping is a selection; cap them instead.",
        )
    return found.astype(np.float64)
