"""The audits whose results are frozen: every example, the demo, and each game and variant in Python.

A case is a function without arguments that returns neutral values by name (see `neutral.py`); `CASES` holds them all.
Each is a function of its seeds alone, and takes a second or less.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import dpaudit as da
from dpaudit import accounting, estimators, games
from dpaudit.auditing import run
from dpaudit.auditing.plan import load_config
from dpaudit.demo.audits import demo_audits
from dpaudit.execution import Execution
from dpaudit.mechanisms.dpsgd import DPSGDConfig
from tests.golden import neutral, worlds

EXAMPLES = Path(__file__).parents[2] / "examples"
SERIAL = Execution(workers=1)
GAUSSIAN = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
PAIR = da.UpperBound(epsilon=1.0, delta=1e-5, relation="add-remove")
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def audited(source, *, seed=1, **settings):
    """One audit of a game or of evidence, with the coins of a game."""
    found = da.audit(source, seed=seed, execution=SERIAL, **settings)
    return neutral.audit(found, source.coins(seed) if hasattr(source, "coins") else None)


def configured(path, **changed):
    """One audit file, as `dpaudit run` does it."""
    read = load_config(path)
    seed = read.settings.seed
    game = replace(read.game.game(seed), **changed)
    found = run(game, read.claim, read.settings, claim_source=read.source, execution=SERIAL)
    return neutral.audit(found, game.coins(seed))


# -------------------------------------------------------------------------------------------------------------- files


@case
def examples():
    observed = [f"observed_{kind}/{name}" for kind in ("model", "predictions") for name in ("audit", "coins")]
    listed = ["noisy_mean/audit", "shell_trainer/audit", *observed, "panoramia/audit", "zero_run/audit"]
    listed.append("zero_run/with_year")
    return {name: configured(EXAMPLES / f"{name}.toml") for name in listed}


@case
def example_opacus():
    return {"opacus_loop": configured(EXAMPLES / "opacus_loop" / "audit.toml", runs=12)}


@case
def demo():
    return {found.name: neutral.audit(found) for found in demo_audits(seed=1, execution=SERIAL)}


# --------------------------------------------------------------------------------------------------------------- runs


@case
def multi_run():
    dp_sgd = accounting.dp_sgd(noise_multiplier=1.0, sampling_rate=1.0, steps=4, delta=1e-5, relation="add-remove")
    game = games.MultiRun(score=worlds.half_noise, relation="add-remove", runs=60)
    planned = da.audit(worlds.half_noise, claim=GAUSSIAN, seed=3, execution=SERIAL)
    return {
        "planned size": neutral.audit(planned),
        "mu claim": audited(game, claim=GAUSSIAN),
        "mu claim, consistent": audited(replace(game, score=worlds.full_noise), claim=GAUSSIAN),
        "claim of DP-SGD": audited(game, claim=dp_sgd),
        "bare pair": audited(game, claim=PAIR),
        "no claim, in blocks": audited(replace(game, block=7)),
        "too few": audited(replace(game, runs=4), claim=GAUSSIAN),
        "another relation": audited(replace(game, relation="substitute"), claim=GAUSSIAN),
        "failed": audited(replace(game, score=worlds.broken, runs=2), claim=GAUSSIAN),
    }


@case
def multi_run_resumed():
    """From a store whose second half a kill tore off."""
    game = games.MultiRun(score=worlds.half_noise, relation="add-remove", runs=40, block=5)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "runs")
        whole = audited(game, claim=GAUSSIAN, store=store)
        raw = store.read_bytes()
        store.write_bytes(raw[: len(raw) // 2])
        return {"whole": whole, "resumed": audited(game, claim=GAUSSIAN, store=store)}


@case
def trained_runs():
    config = DPSGDConfig(noise_multiplier=4.0, steps=16, relation="substitute")
    x, y, canary = da.attacks.worst_case(config, records=20)
    score = da.attacks.ReleasedSum(canary.present)
    game = games.TrainedRuns(config=config, x=x, y=y, canary=canary, score=score, runs=60)
    claim = config.claim(1e-5)
    steps = replace(game, at=(4, 16)).play_steps(seed=2, runner=games.Runner(SERIAL))
    together = estimators.by_step(steps, bound=estimators.mu_from_runs, delta=1e-5)
    return {
        "last step": audited(game, claim=claim),
        "before the last step": audited(replace(game, at=4), claim=claim),
        "several steps": {str(step): neutral.evidence(found) for step, found in steps.items()},
        "several steps together": {str(step): neutral.bound(found) for step, found in together.items()},
    }


@case
def one_run():
    game = games.OneRun(scores=worlds.loud_canaries, canaries=500, relation="add-remove")
    return {
        "mu claim": audited(game, claim=GAUSSIAN, delta=1e-5),
        "pure pair": audited(game, claim=replace(PAIR, delta=0.0)),
        "one side": audited(replace(game, sides="included"), claim=GAUSSIAN),
    }


@case
def prediction():
    game = games.Prediction(answers=worlds.votes, classes=3, queries=2, trials=400, relation="substitute")
    claim = da.UpperBound(epsilon=0.1, delta=0.0, relation="substitute")
    return {
        "dependent queries": audited(game),
        "independent queries": audited(replace(game, independent=True)),
        "with a claim": audited(game, claim=claim),
    }


# -------------------------------------------------------------------------------------------------------- observation


TAU = {"accept": "counterfactual-right"}
"""Without it the coins alone give no number."""


@case
def observational():
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    plain = worlds.labels()
    grouped = worlds.labels(rows=1500, group=np.arange(1500) // 3, unit="user")
    return {
        "labels": audited(plain, delta=0.0, **TAU),
        "labels, not accepted": audited(plain, claim=claim),
        "labels, three plays": audited(replace(plain, plays=3), claim=claim, **TAU),
        "labels, claim": audited(plain, claim=claim, **TAU),
        "labels, claim accepted": audited(plain, claim=claim, accept=plain.play(seed=1).only.conditions),
        "labels, held-out rows": audited(replace(plain, calibration_fraction=0.1), claim=claim, **TAU),
        "labels, shift": audited(replace(plain, shift=0.001), delta=0.0),
        "labels, log-ratio": audited(replace(plain, log_ratio=0.05), claim=claim, delta=0.0),
        "labels, sample": audited(replace(plain, sample=600), delta=0.0, **TAU),
        "labels, difference": audited(replace(plain, attack="difference"), delta=0.0, **TAU),
        "labels, no features": audited(replace(plain, features=None, feature_names=()), delta=0.0, **TAU),
        "labels of users": audited(grouped, delta=0.0, **TAU),
        "numbers, normal": audited(worlds.amounts(learnt=False), delta=0.0, **TAU),
        "numbers, residuals": audited(worlds.amounts(learnt=True), delta=0.0, **TAU),
        "whole records": audited(worlds.whole_records(), delta=0.0),
    }


@case
def observational_refuted():
    """Once, and mended on held-out rows; twice; and where nothing can be mended."""
    without = worlds.noisy_proxy(calibration_fraction=0.1)
    return {
        "recalibrated": audited(
            worlds.labels(rows=4000, seed=8, sharp=2.0, calibration_fraction=0.3), seed=2, delta=0.0, **TAU
        ),
        "refuted twice": audited(worlds.noisy_proxy(calibration_fraction=0.1), seed=5),
        "refuted once": audited(worlds.noisy_proxy(), seed=5),
        "refuted, no features": audited(replace(without, features=None, feature_names=()), seed=5),
        "refuted, log-ratio": audited(worlds.noisy_proxy(log_ratio=0.01), seed=5),
    }


MODEL = """
import pathlib
import pandas
from sklearn.tree import DecisionTreeClassifier

def model():
    rows = pandas.read_csv(pathlib.Path(__file__).with_name("rows.csv"))
    return DecisionTreeClassifier(random_state=0).fit(rows[["age", "city"]].to_numpy(), rows["clicked"])
"""
"""A tree that remembers its rows."""


@case
def observational_table():
    """Predictions as columns, users, and an input of a model for the protected column."""
    game = worlds.labels(rows=1600, seed=9)
    frame = pd.DataFrame(game.features, columns=["age", "visits", "minutes"])
    frame["clicked"] = np.where(game.values == 1, "yes", "no")
    frame["p_today"], frame["p_before"] = game.target.probabilities[:, 1], game.counterfactual.probabilities[:, 1]
    frame["user_id"] = np.arange(len(frame)) // 2
    frame["city"] = np.where(frame["visits"] > 0.0, 1, 0)
    with tempfile.TemporaryDirectory() as folder:
        frame[:800].to_csv(Path(folder, "rows.csv"), index=False)
        frame[800:].to_csv(Path(folder, "others.csv"), index=False)
        told = {
            "table": "rows.csv",
            "label": "clicked",
            "target": "p_today",
            "counterfactual": "p_before",
            "folder": folder,
        }

        def audited_table(**more):
            return audited(games.Observational.from_table(**{**told, **more}, plays=1, seed=1), delta=0.0, **TAU)

        Path(folder, "model.py").write_text(MODEL, encoding="utf-8")
        features = ["age", "visits", "minutes"]
        of_city = {"attribute": "city", "features": ["age", "city"], "target": "model.py:model"}
        return {
            "an input of a model": audited_table(**of_city, counterfactual={"table": "others.csv"}),
            "predictions": audited_table(),
            "predictions and features": audited_table(features=features),
            "users, a sample": audited_table(unit="user_id", sample=500),
        }


# ----------------------------------------------------------------------------------- guesses beside rows never seen


@case
def matched():
    """Labels with and without rows never seen, a claim, values drawn anew, users, and rows that chance held out."""
    game, few = worlds.matched(), {"rows": 700, "others": 500}
    claim = accounting.randomized_response(epsilon=1.0, classes=2, relation="label")
    again = games.Retrained(game.audited.counterfactual, game.placebo.counterfactual)
    held = worlds.matched(**few, held_out_at_random=True)
    bare = {name: replace(getattr(held, name), counterfactual=None) for name in ("audited", "placebo")}
    return {
        "labels": audited(game, delta=0.0),
        "labels, claim": audited(game, claim=claim),
        "labels, claim accepted": audited(game, claim=claim, accept=_rests(game)),
        "labels, delta": audited(worlds.matched(**few), delta=1e-3),
        "labels, larger margin": audited(worlds.matched(**few, margin=0.5), delta=0.0),
        "nothing leaks": audited(worlds.matched(epsilon=0.0, **few), claim=claim),
        "drawn anew": audited(replace(game, redrawn=again), delta=0.0),
        "drawn anew, refuted": audited(worlds.recognised(), delta=0.0),
        "rows hang together": audited(worlds.clustered(), delta=0.0),
        "users, copies": audited(worlds.copied(), delta=0.0),
        "none never seen": audited(worlds.matched(placebo=None), delta=0.0),
        "none never seen, accepted": audited(worlds.matched(placebo=None), delta=0.0, accept="proxy-right"),
        "held out by chance": audited(held, delta=0.0),
        "whole records": audited(replace(held, protect="record"), delta=0.0),
        "whole records, no proxy": audited(replace(held, protect="record", **bare), delta=0.0),
    }


def _rests(game):
    """Everything that its bounds rest on."""
    return estimators.epsilon_from_matched(game.play(seed=1).only, delta=0.0).assumptions


@case
def matched_table():
    """Half of the rows never seen for a proxy, predictions, users, a category and a number that a model takes."""
    rng = np.random.default_rng(15)
    parts = [worlds.rows_of_model(rng, rows, leak) for rows, leak in ((900, 3.0), (900, 0.0))]
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in zip(("rows", "others"), parts, strict=True):
            frame = pd.DataFrame({**rows.columns, "clicked": np.where(rows.values == 1, "yes", "no")}).round(6)
            frame["city"] = np.where(frame["minutes"] > 0.0, 1, 0)
            frame["p_today"] = rows.target.probabilities[:, 1]
            frame["p_before"] = rows.counterfactual.probabilities[:, 1]
            frame["user_id"] = np.arange(len(frame)) // 2 + (0 if name == "rows" else 430)
            frame.to_csv(Path(folder, f"{name}.csv"), index=False)
        model = MODEL.replace("random_state=0", "random_state=1")  # a module of its own: files of one text share one
        Path(folder, "model.py").write_text(model, encoding="utf-8")
        told = {"label": "clicked", "target": "p_today", "placebo": "others.csv", "folder": folder, "seed": 1}

        def audited_table(**more):
            return audited(games.MatchedRows.from_table("rows.csv", **{**told, **more}), delta=0.0)

        model = {"target": "model.py:model", "features": ["age", "city"]}
        return {
            "half for a proxy": audited_table(features=["age", "visits", "minutes"]),
            "predictions": audited_table(counterfactual="p_before"),
            "users, a sample": audited_table(counterfactual="p_before", unit="user_id", sample=400),
            "held out by chance": audited_table(counterfactual="p_before", placebo=None, held_out="others.csv"),
            "a category of a model": audited_table(**model, attribute="city"),
            "a number of a model": audited_table(**model, attribute="age"),
        }


# ---------------------------------------------------------------------------------------------------- members, zero-run


@case
def zero_run():
    scores, member, x = worlds.members()
    game = games.ZeroRun(scores=scores, member=member, features=x, origin="later")
    few = games.ZeroRun(**dict(zip(("scores", "member", "features"), worlds.members(rows=600), strict=True)))
    known = worlds.known_members()
    users = np.argsort(np.argsort(~member, kind="stable")) // 2  # two rows each, all of one kind
    claim = da.UpperBound(epsilon=0.5, delta=0.0, relation="substitute")
    return {
        "later": audited(game, delta=0.0),
        "later, claim": audited(game, claim=claim),
        "given, unaware": audited(replace(game, origin="given", adversary="unaware", trim=None), delta=0.0),
        "domain, boosted": audited(replace(few, origin="domain", propensity=da.fitted.propensity.Boosted()), delta=0.0),
        "split": audited(games.ZeroRun(scores=scores, member=member, origin="split"), delta=0.0),
        "cross-fitted": audited(replace(game, cross_fit=True, fit_fraction=None), delta=0.0),
        "clipped": audited(replace(game, clip=0.2), delta=0.0),
        "abstaining": audited(replace(game, trim=0.2, fit_fraction=0.4), delta=0.0),
        "log-odds error": audited(replace(game, log_odds_error=0.1), delta=0.0),
        "users": audited(replace(game, group=users, unit="user"), delta=0.0),
        "known propensities": audited(games.ZeroRun(**known), delta=0.0),
        "known, add-remove": audited(games.ZeroRun(**known, relation="add-remove"), claim=PAIR),
    }


@case
def zero_run_withheld():
    scores, member, x = worlds.members()
    weak, groups, squares, _ = worlds.weak_correction()
    leaking_columns = np.column_stack([x, np.where(member, 2023.0, 2024.0)])
    return {
        "blind baseline": audited(games.ZeroRun(scores=weak, member=groups, features=squares), delta=0.0),
        "leaking column": audited(games.ZeroRun(scores=scores, member=member, features=leaking_columns), delta=0.0),
    }


@case
def zero_run_table():
    scores, member, x = worlds.members(seed=11)
    frame = pd.DataFrame({"member": member.astype(int), "age": x[:, 0], "visits": x[:, 1], "loss": -scores})
    frame["city"] = np.where(x[:, 2] > 0.0, "Basel", "Como")
    frame["day"] = np.where(member, "2023-05-01", "2024-05-01")
    frame["p_yes"] = 1.0 / (1.0 + np.exp(-scores))
    frame["clicked"] = "yes"
    frame.loc[::2, "clicked"] = "no"
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder, "people.csv"), index=False)
        later = {"origin": "later", "features": ["age", "visits", "city"]}

        def audited_table(**told):
            return audited(games.ZeroRun.from_table("people.csv", **told, folder=folder, seed=1), delta=0.0)

        told = {"probability": "p_yes", "label": "clicked", "features": ["age", "visits"], "leave_out": ["loss"]}
        return {
            "losses": audited_table(**later),
            "losses, a sample": audited_table(**later, sample=900),
            "probabilities": audited_table(**told),
            "split": audited_table(origin="split"),
            "a day for a feature": audited_table(origin="later", features=["age", "day"]),
        }


@case
def challenges():
    scores, member, x, better = worlds.weak_correction()
    evidence = games.ZeroRun(scores=scores, member=member, features=x).play(seed=1).only
    record, rows = da.audit(evidence, delta=0.0), np.arange(len(x))
    by = {"blind": (rows, np.abs(x[:, 0])), "propensity": (rows, better), "features": (rows, x)}
    fair = games.ZeroRun(**worlds.known_members()).play(seed=1).only
    quiet = {"blind": (fair.ids, np.random.default_rng(0).normal(size=fair.ids.size))}
    found = {name: da.challenge(record, evidence, **{name: told}) for name, told in by.items()}
    found["blind, two looks"] = da.challenge(record, evidence, blind=by["blind"], attempts=2, confidence=0.99)
    found["survives"] = da.challenge(da.audit(fair, delta=0.0), fair, **quiet)
    return {name: neutral.challenge(one) for name, one in found.items()}


# ----------------------------------------------------------------------------------------------------------- generated


def _curves(play):
    """The learning curves of baseline and attack, as pairs of rows and divergence."""
    told = play.result("baseline").numbers
    both = [*zip(told["rows"], told["divergence"], strict=True)]
    return [*both, *zip(told["rows"], told["attack_divergence"], strict=True)]


@case
def panoramia():
    game = worlds.made()
    persons = np.arange(len(game.members)) // 2
    loud, quiet = worlds.remembers(worlds.people(1)), worlds.plain_loss
    several = game.play_targets({"loud": loud, "quiet": quiet}, seed=1)
    others = np.random.default_rng(77).normal(size=(1200, 3))
    real, alone = game.with_real(others).play(seed=1).only, game.one_run(others, seed=1)
    return {
        "plain": audited(game, delta=0.0),
        "a model that leaks nothing": audited(worlds.made(target=quiet), delta=0.0),
        "generated": audited(worlds.made(generated=np.random.default_rng(5).normal(size=(2000, 3))), delta=0.0),
        "poor rows left out": audited(worlds.made(discard_fraction=0.1), delta=1e-5),
        "persons": audited(worlds.made(group=persons, unit="person"), delta=0.0),
        "always listens": audited(worlds.made(target=quiet, min_gain=None, train_fraction=0.5), delta=0.0),
        "boosted trees": audited(worlds.made(classifiers=None), delta=0.0),
        "several targets": {name: neutral.evidence(one.only) for name, one in several.items()},
        "several curves": {name: neutral.numbers(_curves(one)) for name, one in several.items()},
        "real non-members": neutral.evidence(real),
        "real non-members, asserted": neutral.bound(estimators.panoramia(real, asserted_divergence=0.0)),
        "by the loss alone": neutral.evidence(alone),
        "by the loss alone, bound": neutral.bound(estimators.epsilon_from_canaries(alone, delta=0.0)),
    }


@case
def panoramia_table():
    def rows(count, seed, gain=0.0):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"age": rng.normal(45.0, 12.0, count), "city": rng.choice(["Aachen", "Basel"], count)})
        frame["loss"] = rng.exponential(size=count) + 1.0 - gain
        frame["owner"] = np.arange(count) // 2
        return frame

    with tempfile.TemporaryDirectory() as folder:
        for name, frame in (("members", rows(600, 1, 1.0)), ("made", rows(1200, 2)), ("others", rows(500, 3))):
            frame.to_csv(Path(folder, f"{name}.csv"), index=False)
        told = {"loss": "loss", "generated": "made.csv", "leave_out": ["owner"], "folder": folder}

        def audited_table(*, delta=0.0, **more):
            return audited(games.Panoramia.from_table("members.csv", **{**told, **more}, seed=1), delta=delta)

        return {
            "losses": audited_table(),
            "asserted divergence": audited_table(divergence=1.0),
            "comparisons": audited_table(nonmembers="others.csv"),
            "comparisons, asserted": audited_table(nonmembers="others.csv", divergence=0.5, delta=1e-5),
            "owners": audited_table(leave_out=[], unit="owner"),
        }


# -------------------------------------------------------------------------------------------------- evidence, settings


def _given():
    """One evidence of each type and assignment."""
    rng = np.random.default_rng(20)
    member = np.arange(600) < 300
    scores, odds = rng.normal(size=600) + 2.0 * member, rng.uniform(0.4, 0.6, 600)
    coins = rng.random(600) < 0.5
    counts = rng.multinomial(500, [0.2, 0.3, 0.5], 2)
    how = {"relation": "substitute"}
    return {
        "runs": da.RunScores(present=rng.normal(2.0, 1.0, 90), absent=rng.normal(size=80), relation="add-remove"),
        "canaries, coins": da.CanaryScores(scores=rng.normal(size=600) + 2.0 * coins, included=coins, **how),
        "canaries, split": da.CanaryScores(scores=scores, included=member, assignment="split", **how),
        "canaries, shift": da.CanaryScores(scores=scores, included=coins, shift=0.01, **how),
        "canaries of users": da.CanaryScores(
            scores=rng.normal(size=600) + 2.0 * np.repeat(coins[:200], 3),
            included=np.repeat(coins[:200], 3),
            group=np.arange(600) // 3,
            unit="user",
            reduce="max",
            **how,
        ),
        "members, given": da.MemberScores(scores=scores, member=member, propensity=odds, **how),
        "members, two propensities": da.MemberScores(
            scores=scores, member=member, propensity=np.stack([odds - 0.05, odds + 0.05], axis=1), **how
        ),
        "members, split": da.MemberScores(scores=scores, member=member, assignment="split", **how),
        "pairs": da.PairedScores(included=coins, baseline=rng.normal(size=600) + coins, attack=scores + 3.0 * coins),
        "counts": da.OutputCounts(present=counts, absent=counts[::-1], independent=True, **how),
    }


@case
def evidence():
    claims = {"add-remove": GAUSSIAN, "substitute": replace(GAUSSIAN, relation="substitute")}
    given = _given()
    found = {name: audited(one, claim=claims[str(one.relation)]) for name, one in given.items()}
    return found | {f"{name}, at delta 0": audited(one, delta=0.0) for name, one in given.items()}


@case
def settings():
    """`fail_if` that holds, does not, and cannot say; `accept` that turns "contradicted if" into "contradicted"."""
    game = games.MultiRun(score=worlds.half_noise, relation="add-remove", runs=60)
    labels = worlds.labels()
    sure = replace(_given()["runs"], assumptions=("the runs are independent",))
    taken = {"accept": ["said-the-runs-are-independent"]}
    gaussian = {"accept": ["gaussian-curve"]}
    return {
        "fails": audited(game, claim=GAUSSIAN, fail_if="mu > 0.5"),
        "does not fail": audited(game, fail_if="epsilon >= 20"),
        "fails by the converted bound": audited(game, fail_if="epsilon > 2", **gaussian),
        "cannot say": audited(labels, delta=0.0, fail_if="epsilon > 1", **TAU),
        "can say": audited(labels, delta=0.0, fail_if="epsilon > 1", accept=labels.play(seed=1).only.conditions),
        "contradicted if": audited(sure, claim=PAIR),
        "accepted": audited(sure, claim=PAIR, **taken),
        "misspelt": audited(sure, claim=PAIR),  # a misspelt one is refused now
        "confidence": audited(game, claim=GAUSSIAN, confidence=0.999, delta=1e-3),
    }
