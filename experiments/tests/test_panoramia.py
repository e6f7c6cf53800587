"""Quick versions of paper 004's tables and figures, what their words follow from, and what the committed ones show."""

from pathlib import Path

import numpy as np
import pytest

import papers
from dpaudit import CanaryScores, PairedScores, estimators
from dpaudit.execution import Execution
from dpaudit_experiments.common.arrays import kept, shared_folder
from dpaudit_experiments.common.metrics import (
    TargetGame,
    alone,
    first,
    measured,
    precision_lines,
    real_epsilon,
    recall_lines,
    relaxed_lines,
    size_lines,
    summed_up,
)
from dpaudit_experiments.common.outcome import load_outcome
from dpaudit_experiments.paper_004 import findings as panoramia_findings
from dpaudit_experiments.paper_004 import panoramia
from dpaudit_experiments.paper_004.panoramia import FIGURES, ONLY

RESULTS = papers.DOCS / "results" / "paper-004"


def test_quick(tmp_path):
    """All of them in one test: they are made of the same games."""
    for name in FIGURES:
        _, picture = papers.quick(panoramia, "panoramia", name, tmp_path)
        assert bool(picture) != (name.startswith("table-") or name == "generators")


def test_all_that_the_issue_names_is_there():
    tables = [f"table-{number}" for number in (2, 3, 5, 6, 7, 8, 9, 10, 11)]
    figures = [str(number) for number in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15)]
    assert set(FIGURES) == {*tables, *figures, "generators"}
    assert set().union(*ONLY.values()) == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_are_whole(name):
    papers.committed(panoramia, "panoramia", name, RESULTS)


def test_leakage_is_ordered_by_over_fitting_somewhere():
    """Issue 10: over 5 games the smallest of the more over-fitted above the largest of the less, on one modality."""
    rows = [row for row in load_outcome(RESULTS / "table-3.json").rows if row["family"] == "epochs"]
    apart = set()
    for modality in {row["modality"] for row in rows}:
        own = [row for row in rows if row["modality"] == modality]
        assert {row["games"] for row in own} == {5}
        ends = sorted(own, key=panoramia_findings._degree)
        if ends[-1]["least_total"] > ends[0]["largest_total"]:
            apart.add(modality)
    assert apart


def test_private_models_show_nothing():
    """Issue 10: of a model of epsilon 1, {c + epsilon}_lb stays at or below c_lb."""
    rows = [row for row in load_outcome(RESULTS / "table-3.json").rows if row["family"] == "epsilon"]
    private = [row for row in rows if row["degree"] == 1.0]
    assert {row["modality"] for row in private} == {"images", "texts", "tables"}
    assert all(row["largest_difference_estimate"] == 0.0 for row in private)
    for modality in {row["modality"] for row in private}:
        loud = [row for row in load_outcome(RESULTS / "table-3.json").rows if row["modality"] == modality]
        assert any(row["uses_model"] == row["games"] and row["median_difference_estimate"] > 0.5 for row in loud), (
            modality
        )


def test_closeness_of_generated_pictures_is_finite():
    rows = [row for row in load_outcome(RESULTS / "table-3.json").rows if row["modality"] == "images"]
    assert all(0.0 < row["median_closeness"] < 6.0 for row in rows)


# ------------------------------------------------------------------------------------------------ from evidence to rows


def pairs(rng, leak, count=1500, shift=0.4):
    included = rng.random(count) < 0.5
    baseline = shift * included + rng.normal(size=count)
    return PairedScores(
        included=included, baseline=baseline, attack=baseline + leak * included, assumptions=("made up",), seed=1
    )


def played(rng, leak, *, name="E1", degree=1.0, game=0, modality="images", family="epochs"):
    coins = rng.random(1500) < 0.5
    return TargetGame(
        modality=modality,
        target=name,
        family=family,
        degree=degree,
        game=game,
        generated=pairs(rng, leak),
        real=pairs(rng, leak, shift=0.0),
        one_run=CanaryScores(
            scores=leak * coins + rng.normal(size=1500), included=coins, relation="substitute", seed=1
        ),
        train=1.0,
        test=0.8,
    )


def test_a_game_in_numbers(rng):
    one = played(rng, 2.0)
    row = measured(one)
    region = estimators.panoramia(one.generated)
    assert (row["closeness"], row["total"]) == (region.divergence, region.total)
    assert row["difference_estimate"] == pytest.approx(region.total - region.divergence)
    assert row["real"] == real_epsilon(one.real) > 1.0
    assert row["one_run"] > 1.0
    assert real_epsilon(None) is None
    exact = estimators.panoramia(one.real, asserted_divergence=estimators.panoramia(one.real).divergence).total
    assert row["real"] == exact


def test_many_games_are_summed_up_by_target(rng):
    rows = summed_up([measured(played(rng, 2.0, game=game)) for game in range(3)])
    assert len(rows) == 1
    assert rows[0]["games"] == 3
    assert rows[0]["least_total"] <= rows[0]["median_total"] <= rows[0]["largest_total"]


def test_lines_against_recall(rng):
    games = [played(rng, 2.0, game=game) for game in range(3)]
    lines = recall_lines(games, with_baseline=True)
    assert {row["target"] for row in lines} == {"baseline", "E1"}
    assert all(row["least_total_alone"] <= row["largest_total_alone"] for row in lines)
    precise = precision_lines(games[0], with_baseline=False)
    assert precise[-1]["recall"] == 1.0
    assert all(row["right"] <= row["guesses"] for row in precise)
    assert alone(np.arange(101), 0.5) == pytest.approx(np.log(1 / (1 / 0.025 ** (1 / 50) - 1)), rel=1e-6)


def test_fewer_pairs_and_relaxations(rng):
    one = played(rng, 2.0)
    assert first(one.generated, 100).included.size == 100
    assert first(one.one_run, 100).relation is one.one_run.relation
    lines = size_lines([one], (250, 1000, 9999))
    assert [row["pairs"] for row in lines] == [250, 1000]
    assert lines[0]["median_total"] < lines[1]["median_total"]
    relaxed = relaxed_lines(one, (0.0, 1e-4, 1e-2), (0.0,))
    assert relaxed[0]["total"] >= relaxed[1]["total"] >= relaxed[2]["total"] == 0.0


# ------------------------------------------------------------------------------------------------------------ the words


def test_words_of_table_3(rng):
    games = [
        measured(played(rng, leak, name=name, degree=degree, game=game))
        for name, degree, leak in (("E1", 1.0, 0.3), ("E9", 9.0, 2.5))
        for game in range(3)
    ]
    for row in games:
        row["real"] = row["difference_estimate"] + 0.2
    word, why = panoramia_findings.main(summed_up(games))
    assert word == "confirmed"
    assert "every game apart" in why
    above = [row | {"real": 0.0, "one_run": 0.0} for row in games]
    assert panoramia_findings.main(summed_up(above))[0] == "not confirmed"
    backwards = [row | {"degree": -row["degree"]} for row in games]
    assert panoramia_findings.main(summed_up(backwards))[0] == "not confirmed"


def target(degree, total, *, difference=0.0, one_run=0.0, name="MLP", spread=0.05, played=5):
    return {
        "target": f"{name}, {degree}",
        "degree": degree,
        "games": 5,
        "uses_model": played,
        "least_total": total - spread,
        "median_total": total,
        "largest_total": total + spread,
        "median_closeness": 1.0,
        "largest_difference_estimate": difference,
        "median_difference_estimate": difference,
        "median_one_run": one_run,
        "train": 0.9,
        "test": 0.8,
    }


def test_words_of_private_models():
    loud = target(None, 1.9, difference=0.9)
    good = [target(1.0, 0.9), target(2.0, 0.9), target(10.0, 1.2, difference=0.2), loud]
    judge = panoramia_findings.private
    assert judge(good)[0] == "confirmed"
    assert judge([target(1.0, 1.1, difference=0.1), *good[1:]])[0] == "not confirmed", "a private model shows something"
    assert judge([*good[:3], target(None, 1.0)])[0] == "not confirmed", "nothing shows anything"
    assert judge(good[2:])[0] == "not confirmed", "no private model"
    assert judge([*good[:2], target(10.0, 2.2, difference=0.2), loud])[0] == "not confirmed", "not in order"
    judge = panoramia_findings.text_private
    texts = [target(1.0, 0.9), target(None, 1.9, difference=0.9)]
    assert judge(texts)[0] == "confirmed"
    assert judge([texts[0], target(None, 1.0)])[0] == "not confirmed", "no control"
    assert judge([target(1.0, 0.9, one_run=None), texts[1]])[0] == "not confirmed", "not compared"
    judge = panoramia_findings.twin
    assert judge([target(2.0, 1.0), target(2.0, 1.5)])[0] == "confirmed"
    assert judge([target(2.0, 1.0), target(2.0, 1.05)])[0] == "not confirmed"


def test_words_of_networks_on_tables():
    judge = panoramia_findings.adult
    assert judge([target(10.0, 1.0, one_run=0.6)])[0] == "confirmed"
    assert judge([target(10.0, 1.0)])[0] == "not confirmed", "O(1) finds nothing either"
    assert judge([target(10.0, 2.0, difference=1.0, one_run=0.6)])[0] == "not confirmed"
    assert judge([target(10.0, 1.0, one_run=0.6, name="trees")])[0] == "not confirmed", "no network"


def test_words_of_larger_models():
    judge = panoramia_findings.growth
    assert judge([target(10.0, 1.0), target(20.0, 1.5)])[0] == "confirmed"
    assert judge([target(10.0, 1.0), target(20.0, 1.0)])[0] == "not confirmed"


def test_words_of_helpers_and_generators():
    def helped(**shown):
        return [{"modality": "images", "helper": name, "median_closeness": value} for name, value in shown.items()]

    assert panoramia_findings.helpers(helped(generated=2.0, real=1.0, none=0.5))[0] == "confirmed"
    assert panoramia_findings.helpers(helped(generated=0.0, real=0.0, none=0.0))[0] == "not confirmed"
    made = [
        {"modality": "tables", "generator": g, "poor": 0.0, "median_closeness": c} for g, c in (("a", 1.0), ("b", 2.0))
    ]
    assert panoramia_findings.generator(made)[0] == "confirmed"
    assert panoramia_findings.generator(made[::-1])[0] == "not confirmed"
    assert panoramia_findings.generator(made[:1])[0] == "not confirmed", "nothing to compare with"


def line(name, *points, degree=1.0):
    return [
        {"modality": "images", "target": name, "degree": degree, "share": share, "median_total_alone": value}
        for share, value in points
    ]


def test_words_of_lines_against_recall():
    base = line("baseline", (0.1, 1.0), (0.5, 0.8))
    high, wide = line("MLP", (0.1, 2.0), (0.5, 0.8)), line("MLP", (0.1, 0.8), (0.8, 2.0))
    assert panoramia_findings.recall([*base, *high])[0] == "confirmed"
    assert panoramia_findings.recall([*base, *wide])[0] == "not confirmed", "at high recall"
    assert panoramia_findings.nothing_of_networks([*base, *line("MLP", (0.1, 1.05))])[0] == "confirmed"
    assert panoramia_findings.nothing_of_networks([*base, *wide])[0] == "not confirmed"
    loud = line("open", (0.1, 2.0), degree=None)
    assert panoramia_findings.private_recall([*base, *line("quiet", (0.1, 1.0)), *loud])[0] == "confirmed"
    assert panoramia_findings.private_recall([*base, *high, *loud])[0] == "not confirmed"


def test_words_of_precision_pairs_and_losses():
    def precise(*values):
        names = ("baseline", *(f"E{n}" for n in range(1, len(values))))
        return [
            {"modality": "images", "target": name, "guesses": guesses, "precision_estimate": value}
            for name, value in zip(names, values, strict=True)
            for guesses in (10, 100)
        ]

    assert panoramia_findings.precision(precise(0.6, 0.7, 0.8))[0] == "confirmed"
    assert panoramia_findings.precision(precise(0.6, 0.8, 0.7))[0] == "not confirmed"
    assert panoramia_findings.more_found(precise(0.6, 0.8, 0.7))[0] == "confirmed"
    assert panoramia_findings.more_found(precise(0.6, 0.8, 0.6))[0] == "not confirmed"

    def sized(*totals):
        return [
            {"modality": "m", "target": "t", "pairs": n, "median_total": total, "median_difference_estimate": 0.0}
            for n, total in enumerate(totals, 1)
        ]

    assert panoramia_findings.pairs(sized(1.0, 2.0))[0] == "confirmed"
    assert panoramia_findings.pairs(sized(1.0, 1.0))[0] == "not confirmed"

    def spread(*gaps):
        return [
            {"modality": "m", "target": f"E{n}", "group": group, "loss": loss, "share": 0.5 + sign * gap / 2.0}
            for n, gap in enumerate(gaps)
            for group, sign in (("members", 1.0), ("real non-members", -1.0))
            for loss, sign in ((0.0, sign), (1.0, -sign))
        ]

    assert panoramia_findings.losses(spread(0.1, 0.5))[0] == "confirmed"
    assert panoramia_findings.losses(spread(0.5, 0.1))[0] == "not confirmed"


def test_words_of_relaxations():
    def slack(*totals):
        return [
            {"target": "t", "delta": 0.0, "closeness_slack": gamma, "total": total}
            for gamma, total in zip((0.0, 1e-5, 1e-4, 1e-3), totals, strict=True)
        ]

    assert panoramia_findings.relaxed(slack(2.0, 1.9, 1.5, 0.5))[0] == "confirmed"
    assert panoramia_findings.relaxed(slack(2.0, 1.9, 1.9, 1.8))[0] == "not confirmed"
    assert panoramia_findings.relaxed(slack(0.0, 0.0, 0.0, 0.0))[0] == "not confirmed"


def test_words_of_learning_curves():
    def curve(*values, totals=None):
        return [
            {"training_rows": 100 * 2**place, "game": 0, "closeness": value, "total": (totals or values)[place]}
            for place, value in enumerate(values)
        ]

    assert panoramia_findings.learning(curve(0.5, 1.0, 1.05))[0] == "confirmed"
    assert panoramia_findings.learning(curve(0.5, 1.0, 1.5))[0] == "not confirmed"
    assert panoramia_findings.learning(curve(0.5, 2.0, 0.1))[0] == "not confirmed", "it falls"
    assert panoramia_findings.both_learn(curve(0.5, 1.0, 1.05))[0] == "confirmed"
    assert panoramia_findings.both_learn(curve(0.5, 1.0, 1.05, totals=(1.0, 2.0, 3.0)))[0] == "not confirmed"


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_measured_is_nothing_confirmed(name):
    assert FIGURES[name].judged([]) == ("not confirmed", "nothing was measured")


# ---------------------------------------------------------------------------------------------------------- arrays kept


CALLS = []


def made(number):
    CALLS.append(number)
    return {"found": np.arange(number)}


def test_arrays_are_made_once(tmp_path):
    folder = shared_folder(Execution(keep=str(tmp_path)))
    for _ in range(2):
        assert kept(folder, made, 3)["found"].tolist() == [0, 1, 2]
    assert CALLS == [3]
    kept(folder, made, 4)
    assert CALLS == [3, 4]
    assert Path(shared_folder(Execution())).is_dir()
