"""The matched game: guesses against a naive loop, units, halves of the placebo, random hold-outs, planted leaks."""

from dataclasses import replace

import numpy as np
import pytest

from dpaudit import InputError, Relation
from dpaudit.assumptions import Assumption
from dpaudit.counterfactuals import Categorical
from dpaudit.evidence import CanaryScores
from dpaudit.evidence.matched import MatchedScores, cells_of
from dpaudit.games import _guesses, _matched_checks, matched
from dpaudit.games._guesses import LEAST, guesses, log_odds, planted
from dpaudit.games.matched import MatchedRows, Retrained, Rows
from dpaudit.testing import check_game

ELSEWHERE = Assumption(id="elsewhere", sentence="somebody else looked", answered_by="auditor")


def table(rng, rows, classes=3, *, leak=0.0, **more):
    """Values of a known distribution; a model that knows it, and the answer of randomised response where it leaks."""
    law = rng.dirichlet(np.full(classes, 0.7), size=rows)
    values = (law.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    honest = rng.random(rows) < np.exp(leak) / (np.exp(leak) + classes - 1)
    said = np.where(honest, values, (values + rng.integers(1, classes, rows)) % classes)
    model = law * (np.exp(leak) if leak else 1.0) ** (np.arange(classes) == said[:, None])
    model = model * np.exp(rng.normal(0.0, 0.3, model.shape))
    model /= model.sum(axis=1, keepdims=True)
    return Rows(values, Categorical(model), Categorical(law), **more)


@pytest.fixture(scope="module")
def game():
    rng = np.random.default_rng(5)
    return MatchedRows(audited=table(rng, 800, leak=2.0), placebo=table(rng, 600))


def naive(rows, row):
    """The guess at one row, and the best in every other cell, value by value."""
    model, proxy = (np.clip(one.probabilities[row], LEAST, 1 - LEAST) for one in (rows.target, rows.counterfactual))
    gains = [np.log(m) - np.log1p(-m) - np.log(p) + np.log1p(-p) for m, p in zip(model, proxy, strict=True)]
    best = int(np.argmax(gains))
    own = (gains[best], proxy[best], rows.values[row] == best)
    home, others = int(cells_of(proxy[best])), []
    for cell in range(12):
        inside = [z for z in range(len(gains)) if int(cells_of(proxy[z])) == cell and gains[z] > 0.0]
        if inside and cell != home:
            z = max(inside, key=lambda z: gains[z])
            others.append((gains[z], proxy[z], rows.values[row] == z))
    return own, others


@pytest.mark.parametrize("classes", [2, 3, 100])
@pytest.mark.parametrize("chunk", [7, 2**16])
def test_guesses_are_those_of_a_naive_loop(monkeypatch, classes, chunk):
    monkeypatch.setattr(_guesses, "CHUNK", chunk)
    rows = table(np.random.default_rng(classes), 60, classes)
    found, own = guesses(rows, elsewhere=True), guesses(rows)
    expected = [naive(rows, row) for row in range(len(rows))]
    seen = list(zip(found.scores, found.chance, found.right, strict=True))
    assert found.own.sum() == 60
    assert np.array_equal(found.scores[found.own], own.scores)
    for (score, chance, right), (first, _) in zip(seen[:60], expected, strict=True):
        assert (score, chance, right) == pytest.approx(first, abs=1e-9)
    rest = sorted((s, c, r) for s, c, r in seen[60:])
    assert len(rest) == sum(len(others) for _, others in expected)
    wanted = sorted(one for _, others in expected for one in others)
    assert np.array(rest, dtype=float).ravel() == pytest.approx(np.array(wanted, dtype=float).ravel(), abs=1e-9)
    assert np.all(found.scores[~found.own] > 0.0)


def test_certain_models_and_proxies_stay_finite():
    rows = Rows([0, 1, 1], Categorical([0.0, 1.0, 0.5]), Categorical([0.0, 0.5, 1.0]))
    found = guesses(rows, elsewhere=True)
    assert np.isfinite(found.scores).all()
    assert found.scores[0] == 0.0
    assert found.scores[1] == pytest.approx(log_odds(1.0))
    assert np.all((found.chance > 0.0) & (found.chance < 1.0))


def test_evidence_of_a_play(game):
    found = game.play(seed=1).only
    assert isinstance(found, MatchedScores)
    assert found.relation is Relation.LABEL
    assert (found.values, found.margin, found.unit) == (3, 0.1, "record")
    assert found.sizes == {"rows": 800, "placebo": 600}
    assert found.own[found.audited].all()
    assert np.any(~found.own)
    assert {one.id for one in found.assumptions} == {
        "independent-values",
        "one-row-per-unit",
        "same-source",
        "proxy-elsewhere",
    }
    learnt = replace(game, own_proxy=True).play(seed=1).only
    assert "proxy-elsewhere" not in {one.id for one in learnt.assumptions}
    assert found == game.play(seed=1).only
    assert game.coins(3).size == 0
    assert game.plan(1) == game.plan(1)


def test_one_row_of_each_unit_and_no_unit_in_both_tables(game):
    group, other = np.arange(800) // 4, 150 + np.arange(600) // 4
    units = replace(
        game, audited=replace(game.audited, group=group), placebo=replace(game.placebo, group=other), unit="user"
    )
    play = units.play(seed=1)
    assert play.only.sizes == {"rows": 200, "placebo": 100}
    assert play.result("units-in-both").numbers == {"left_out": 200, "unit": "user"}
    assert "200 rows were left out" in play.result("units-in-both").text
    assert "one-row-per-unit" not in {one.id for one in play.only.assumptions}
    assert play.only != units.play(seed=2).only
    taken = matched._one_a_unit(group, 800, 1)
    assert np.array_equal(group[taken], np.arange(200))
    assert len(set(taken % 4)) == 4
    texts = replace(units, placebo=replace(units.placebo, group=other.astype(str)))
    with pytest.raises(InputError, match="of one kind"):
        texts.play(seed=1)
    with pytest.raises(InputError, match="got none"):
        replace(units, placebo=replace(units.placebo, group=other % 100)).play(seed=1)


def test_what_is_measured(game):
    play = game.play(seed=1)
    found, own = play.result("recognition"), play.only.own & ~play.only.audited
    assert np.array_equal(play.only.right[own], guesses(game.placebo).right)
    assert found.numbers["alone"] == pytest.approx(100.0 * play.only.right[own].mean())
    assert found.numbers["trained"] > found.numbers["alone"] + 10.0
    assert found.numbers["trained_surest"] > found.numbers["alone_surest"]
    assert found.numbers["resolution"] == pytest.approx(3.3 / np.sqrt(600))
    assert found.text.startswith("On 600 rows that the model never saw, the same attack was right ")
    assert play.result("calibration").numbers["calibration_error"] < 0.05


def test_a_planted_leak_is_that_of_randomised_response():
    rng = np.random.default_rng(2)
    rows = table(rng, 4000, 4)
    own, where = guesses(rows), np.arange(2000)
    found = planted(own, rows, epsilon=4.0, where=where, rng=np.random.default_rng(1))
    assert np.array_equal(found.scores[2000:], own.scores[2000:])
    assert found.right[:2000].mean() == pytest.approx(np.exp(4) / (np.exp(4) + 3), abs=0.02)
    row = int(np.argmax(found.right[:2000]))
    law, value = rows.counterfactual.probabilities[row], rows.values[row]
    after = law * np.exp(4.0 * (np.arange(4) == value))
    after /= after.sum()
    assert found.scores[row] == pytest.approx(log_odds(after[value]) - log_odds(law[value]))
    assert found.chance[row] == pytest.approx(law[value])
    assert np.all(log_odds(np.delete(after, value)) <= log_odds(np.delete(law, value)))


def test_parts_of_the_planted_control_grow(game):
    (control,) = (one for one in game.play(seed=1).controls if one.check.id == "planted-leak")
    assert control.numbers == {"shares": (0.0, 0.005, 0.02, 0.1), "planted_epsilon": 4.0, "largest": 0.1}
    assert control.kind == "planted"
    own = game.play(seed=1).only
    changed = [set(np.flatnonzero(part.scores != own.scores)) for part in control.parts]
    assert [len(one) for one in changed] == [0, 4, 16, 80]
    assert changed[1] < changed[2] < changed[3]
    assert all(np.array_equal(part.scores[~part.audited], own.scores[~own.audited]) for part in control.parts)


# theory:placebo#substitute
def test_a_random_hold_out_is_about_whole_records(game):
    held = replace(game, held_out_at_random=True)
    assert (held.relation, held.evidence_type) == (Relation.SUBSTITUTE, CanaryScores)
    play = held.play(seed=1)
    found = play.only
    assert (found.assignment, found.sides, found.relation) == ("split", "sign", Relation.SUBSTITUTE)
    assert found.included.sum() == 800
    row = 3
    value = game.audited.values[row]
    ratio = game.audited.target.probabilities[row, value] / game.audited.counterfactual.probabilities[row, value]
    assert found.scores[row] == pytest.approx(np.log(ratio))
    assert {one.id for one in found.conditions} == {"random-hold-out", "one-row-per-unit"}
    (beside,) = play.comparisons
    assert beside.made.sizes == {"rows": 800, "placebo": 600}
    assert "same-source" not in {one.id for one in beside.made.assumptions}
    assert "random-hold-out" in {one.id for one in beside.made.assumptions}
    assert {one.check.id: one.check.on_refuted for one in play.controls}["redrawn-values"] == "warn"


def test_units_that_chance_held_out_are_whole(game):
    group, other = np.arange(800) // 4, 200 + np.arange(600) // 4
    audited, placebo = replace(game.audited, group=group), replace(game.placebo, group=other)
    held = replace(game, audited=audited, placebo=placebo, unit="user", held_out_at_random=True)
    found = held.play(seed=1).only
    assert found.scores.size == 1400
    assert found.reduced().scores.size == 350
    with pytest.raises(InputError, match="must be whole users, got 600 rows"):
        replace(held, placebo=replace(placebo, group=other - 190)).play(seed=1)


def test_whole_records_alone(game):
    whole = replace(game, held_out_at_random=True, protect="record")
    play = whole.play(seed=1)
    assert play.only.sides == "sign"
    assert (play.comparisons, play.controls) == ((), ())
    bare = replace(
        whole,
        audited=replace(game.audited, counterfactual=None),
        placebo=replace(game.placebo, counterfactual=None),
    )
    found = bare.play(seed=1).only
    assert found.sides == "both"
    assert found.scores[0] == pytest.approx(np.log(game.audited.own("target")[0]))
    with pytest.raises(InputError, match="held out at random") as problem:
        replace(game, protect="record")
    assert "zero_run" in problem.value.hint


# theory:placebo#redrawn
def test_a_model_of_redrawn_values(game):
    values = game.redraw(7)
    assert values.max() == 2
    assert np.array_equal(values, game.redraw(7))
    law = game.audited.counterfactual.probabilities
    assert np.bincount(values) / 800 == pytest.approx(law.mean(axis=0), abs=0.05)
    again = Retrained(game.audited.counterfactual, game.placebo.counterfactual)
    (control,) = (one for one in replace(game, redrawn=again).play(seed=1).controls if one.check.id == "redrawn-values")
    (part,) = control.parts
    assert part.scores[part.audited] == pytest.approx(np.zeros(800))
    taught = 0.2 * law + 0.8 * np.eye(3)[values]
    retrained = replace(game, redrawn=Retrained(Categorical(taught), game.placebo.target))
    (control,) = (one for one in retrained.play(seed=1).controls if one.check.id == "redrawn-values")
    (part,) = control.parts
    believed = values == game.audited.values  # the true values are guessed at, and not those that it was trained on
    assert np.array_equal(part.right[part.audited], believed)
    (control,) = (one for one in game.play(seed=1).controls if one.check.id == "redrawn-values")
    assert control.parts == ()
    with pytest.raises(InputError, match="same rows and classes"):
        replace(game, redrawn=Retrained(game.placebo.target, game.placebo.target))
    with pytest.raises(InputError, match="needs `placebo` rows"):
        replace(game, placebo=None, redrawn=again)


def columns(rng, rows):
    return {"age": rng.integers(20, 60, rows), "town": rng.choice(np.array(["a", "b", None], dtype=object), rows)}


def test_copies_are_counted_and_stay(game):
    rng = np.random.default_rng(1)
    one, other = columns(rng, 800), columns(rng, 600)
    one["x"], other["x"] = rng.normal(size=800), rng.normal(size=600)
    for name in one:
        other[name][10:15] = one[name][:5]
    values = game.placebo.values.copy()
    values[10:14] = game.audited.values[:4]
    values[14] = 1 - min(1, game.audited.values[4])
    play = replace(
        game,
        audited=replace(game.audited, columns=one),
        placebo=replace(game.placebo, columns=other, values=values),
    ).play(seed=1)
    same = int(values[14] == game.audited.values[4])
    found = play.result("repeated-rows")
    assert found.numbers["copies"] == 4 + same
    assert found.numbers["first"][:4] == [10, 11, 12, 13]
    assert play.only.placebo_rows == 600
    assert not any(one.check.id == "repeated-rows" for one in game.play(seed=1).results)


def test_rows_that_hang_together_are_named(game):
    """Two hundred users of three rows each with one value: a column that nobody named as the unit."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(200), 3)
    values = np.repeat(rng.integers(0, 2, 200), 3)
    flat = Categorical(np.full(600, 0.5))
    placebo = Rows(values, flat, flat, columns={"x": rng.normal(size=600)}, marks={"user": rng.permutation(200)[user]})
    audited = Rows(rng.integers(0, 2, 800), Categorical(np.full(800, 0.5)), Categorical(np.full(800, 0.5)))
    found = MatchedRows(audited=audited, placebo=placebo).play(seed=1).result("rows-hang-together")
    assert found.refuted
    assert found.withholds
    assert "user" in found.text or "successive" in found.text
    alone = replace(placebo, columns=None)
    assert MatchedRows(audited=audited, placebo=alone).play(seed=1).result("rows-hang-together").refuted
    bare = replace(placebo, columns=None, marks=None)  # the order of the file is still there
    found = MatchedRows(audited=audited, placebo=bare).play(seed=1).result("rows-hang-together")
    assert found.refuted
    assert "successive" in found.text


def test_what_rows_of_a_level_of_both_tables_share_is_an_effect_of_the_column():
    """A column that no proxy was given: its effect shows in both tables alike, and nobody's rows hang together."""
    rng = np.random.default_rng(3)

    def rows(count, names):
        town = rng.integers(0, 60, count)
        values = (rng.random(count) < np.where(town % 2, 0.9, 0.1)).astype(int)
        flat = Categorical(np.full(count, 0.5))
        return Rows(values, flat, flat, columns={"x": rng.normal(size=count)}, marks={"town": names[town]})

    here, there = np.arange(60), 100 + np.arange(60)
    for names, outcome in ((here, "passed"), (there, "refuted")):
        game = MatchedRows(audited=rows(800, here), placebo=rows(600, names))
        assert game.play(seed=1).result("rows-hang-together").outcome == outcome


def test_rows_without_dependence_pass():
    rng = np.random.default_rng(3)
    flat = Categorical(np.full(600, 0.5))
    audited = Rows(rng.integers(0, 2, 800), Categorical(np.full(800, 0.5)), Categorical(np.full(800, 0.5)))
    placebo = Rows(rng.integers(0, 2, 600), flat, flat, columns={"x": rng.normal(size=600)})
    assert MatchedRows(audited=audited, placebo=placebo).play(seed=1).result("rows-hang-together").outcome == "passed"


@pytest.mark.parametrize("held", [False, True])
def test_it_keeps_the_protocol(held):
    rng = np.random.default_rng(4)
    small = MatchedRows(
        audited=table(rng, 60, columns={"a": rng.normal(size=60)}),
        placebo=table(rng, 50, columns={"a": rng.normal(size=50)}),
        held_out_at_random=held,
        redrawn=None,
        assumed=(ELSEWHERE,),
    )
    again = Retrained(small.audited.target, small.placebo.target)
    others = {
        "audited": table(rng, 60),
        "placebo": table(rng, 50),
        "redrawn": again,
        "source": {"file": "rows.csv"},
        "assumed": (),
        **({"protect": "record"} if held else {}),
    }
    check_game(small, others=others)
    check_game(
        replace(small, redrawn=again),
        others={**others, "redrawn": Retrained(small.audited.target, small.placebo.counterfactual)},
    )


def test_refusals():
    rng = np.random.default_rng(6)
    audited, placebo = table(rng, 20), table(rng, 20)
    with pytest.raises(InputError, match="class numbers from 0 to 2"):
        replace(audited, values=audited.values + 1)
    with pytest.raises(InputError, match=r"must be `counterfactuals\.Categorical`, got ndarray"):
        replace(audited, target=audited.target.probabilities)
    with pytest.raises(InputError, match="same rows and classes"):
        replace(audited, counterfactual=Categorical(np.full(20, 0.5)))
    with pytest.raises(InputError, match="same values, got 3 and 4 of them"):
        MatchedRows(audited=audited, placebo=table(rng, 20, 4))
    with pytest.raises(InputError, match="must both have a `group`"):
        MatchedRows(audited=replace(audited, group=np.arange(20)), placebo=placebo)
    with pytest.raises(InputError, match="what a proxy says"):
        MatchedRows(audited=replace(audited, counterfactual=None))
    with pytest.raises(InputError, match="held out at random, got none"):
        MatchedRows(audited=audited, held_out_at_random=True)
    with pytest.raises(InputError, match="one of 'value', 'record'"):
        MatchedRows(audited=audited, placebo=placebo, protect="all")
    assert set(_matched_checks.REDRAWN.refutes) >= {"proxy-or-no-recognition"}
