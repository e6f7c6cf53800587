"""Challenges: right propensities survive as often as they must, wrong ones fall, and everything odd is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import dpaudit as da
from dpaudit import InputError, estimators
from dpaudit.auditing.challenge import CHALLENGERS, REACHES, THEIRS
from dpaudit.estimators.members import PROPENSITY_ERROR
from dpaudit.games import ZeroRun
from dpaudit.testing import calibration


def honest(seed, rows=250):
    """Members that follow their stated propensities exactly, and a model that leaks epsilon = 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    odds = x[:, 0] + 0.5 * (x[:, 1] ** 2 - 1.0)
    member = rng.random(rows) < special.expit(odds)
    told = np.where(rng.random(rows) < special.expit(1.0), 1.0, -1.0) * np.where(member, 1.0, -1.0)
    evidence = da.MemberScores(
        scores=told * (1.0 + 0.01 * rng.random(rows)),
        member=member,
        propensity=special.expit(odds),
        relation="substitute",
        sides="sign",
        ids=np.arange(rows) + 10,
    )
    return evidence, x


@pytest.fixture(scope="module")
def weak():
    """A number that is all shift: the groups differ by a square, the model was a line, and nobody tested it blindly."""
    rng = np.random.default_rng(10)
    member = np.arange(4000) < 2000
    x = rng.normal(size=(4000, 3))
    x[member, 0] *= 2.0
    game = ZeroRun(scores=np.abs(x[:, 0]) + rng.normal(size=4000), member=member, features=x)
    evidence = game.play(seed=1).only
    better = special.expit(0.375 * x[:, 0] ** 2 - np.log(2.0))  # the truth of N(0, 4) against N(0, 1)
    return game, da.audit(evidence, delta=0.0, name="weak"), evidence, x, better


@pytest.fixture(scope="module")
def fair():
    evidence, x = honest(3, rows=400)
    return da.audit(evidence, delta=0.0, name="fair"), evidence, x


def test_right_propensities_are_rarely_refuted():
    refuted = dict.fromkeys(CHALLENGERS, 0)
    audits = 60
    for seed in range(audits):
        evidence, x = honest(seed)
        record, ids = da.audit(evidence, delta=0.0), evidence.ids
        refuted["blind"] += da.challenge(record, evidence, blind=(ids, x[:, 0] + x[:, 1] ** 2)).refuted
        refuted["propensity"] += da.challenge(record, evidence, propensity=(ids, special.expit(x[:, 0]))).refuted
        refuted["features"] += da.challenge(record, evidence, features=(ids, x), seed=seed).refuted
    assert max(refuted.values()) <= calibration.allowed_over_claims(audits, 0.95), refuted


def challengers(x, better):
    rows = np.arange(len(x))
    return {"blind": (rows, np.abs(x[:, 0])), "propensity": (rows, better), "features": (rows, x)}


@pytest.mark.parametrize("who", list(CHALLENGERS))
def test_a_correction_that_misses_the_shift_is_refuted(weak, who):
    _, record, evidence, x, better = weak
    assert record.bounds[0].epsilon > 0.0  # the lie
    found = da.challenge(record, evidence, **{who: challengers(x, better)[who]})
    assert (found.outcome, found.exit_code, found.challenger) == ("refuted", 1, who)
    assert found.p_value < 1e-6
    assert found.published == record.bounds
    assert found.assumptions[:2] == (CHALLENGERS[who], REACHES)
    assert not any(one.id == "propensity-model" for one in found.assumptions), "that is what was tested"
    assert str(found).endswith("the published number may not be attributed to the model.")
    assert "at best, if off by no more than" in str(found)
    assert found.allowed_error == pytest.approx(found.refuted_error + 0.01)
    for bound, kind in zip(found.at_best, (estimators.epsilon_from_members, estimators.mu_from_members), strict=True):
        again = kind(evidence, delta=bound.delta, log_odds_error=found.allowed_error)
        assert bound.value == again.value <= found.published[0].epsilon
        assert bound.guarantee == "conditional"
        assert PROPENSITY_ERROR.asserted(error=found.allowed_error) in bound.assumptions
        assert not any(one.id == "propensity-model" for one in bound.assumptions)


def test_put_back_the_error_that_would_have_been_needed(weak):
    _, record, evidence, x, _ = weak
    found = da.challenge(record, evidence, blind=(np.arange(4000), np.abs(x[:, 0])))
    attack = replace(evidence, scores=np.abs(x[evidence.ids, 0]), sides="both")
    p_values = [
        estimators.propensity_p_value(attack, log_odds_error=error)
        for error in (0.0, found.refuted_error, found.allowed_error)
    ]
    assert p_values[0] == found.p_value
    assert p_values[1] <= 0.05 < p_values[2]


def test_better_propensities_restate_the_bound(weak):
    _, record, evidence, _, better = weak
    found = da.challenge(record, evidence, propensity=(np.arange(4000), better))
    assert [bound.parameter for bound in found.under_challenger] == ["epsilon", "mu"]
    assert [bound.value for bound in found.under_challenger] == [0.0, 0.0]  # nothing leaks
    assert THEIRS in found.under_challenger[0].assumptions
    assert not any("L2 logistic" in str(one) for one in found.under_challenger[0].assumptions)
    assert f"if {THEIRS}: epsilon >= " in str(found)
    assert da.challenge(record, evidence, blind=(np.arange(4000), better)).under_challenger == ()


def test_features_play_the_control_of_the_game(weak):
    game, record, evidence, x, _ = weak
    (control,) = game.play(seed=1).controls
    found = da.challenge(record, evidence, features=(np.arange(4000), x), feature_names=("a", "b", "c"), seed=1)
    assert found.p_value == pytest.approx(
        estimators.null_p_value(control.parts), rel=0.2
    )  # trees on log-odds that went through a probability
    assert any(text.startswith("a, ") for text in found.leaking_features)
    assert "3 features, in two folds" in found.words
    assert found == da.challenge(record, evidence, features=(np.arange(4000), x), feature_names=("a", "b", "c"), seed=1)


def test_who_survives_and_what_that_says(fair):
    record, evidence, x = fair
    found = da.challenge(record, evidence, propensity=(evidence.ids, special.expit(0.8 * x[:, 0])))
    assert (found.outcome, found.exit_code) == ("survives", 0)
    assert found.refuted_error is found.allowed_error is None
    assert found.at_best == found.leaking_features == ()
    assert found.under_challenger
    text = str(found)
    assert text.endswith("That proves nothing more; a better one may.")
    assert "Whoever tries several challengers" in text
    assert "Survives" in found._repr_html_()
    values = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert values["outcome"] == "survives"
    assert values["published"][0]["epsilon"] == record.bounds[0].epsilon
    assert values["sentence"] == found.sentence
    assert values["evidence"] == evidence.digest
    near = replace(found, p_value=0.0341, attempts=3)
    assert "(p = 0.035, refuted at 0.0166667 or less)" in near.sentence, "never below what it is"
    assert "One test of 3, at level 0.0166667." in str(near)


def test_attempts_share_the_error():
    evidence, _ = honest(11, rows=300)
    near = replace(evidence, propensity=special.expit(0.6 * special.logit(evidence.propensity)))
    record = da.audit(near, delta=0.0)
    odds = special.logit(evidence.propensity)
    one = da.challenge(record, near, blind=(near.ids, odds))
    assert one.refuted
    assert one.level == pytest.approx(0.05)
    many = int(0.05 / one.p_value) + 1
    paid = da.challenge(record, near, blind=(near.ids, odds), attempts=many)
    assert not paid.refuted
    assert paid.p_value == one.p_value
    assert f"One test of {many}" in str(paid)
    fewer = da.challenge(record, near, blind=(near.ids, odds), attempts=2)
    assert "at 95% confidence over 2 attempts" in fewer.sentence
    assert fewer.refuted_error <= one.refuted_error


def test_rows_are_matched_by_id_and_by_nothing_else(fair):
    record, evidence, x = fair
    plain = da.challenge(record, evidence, blind=(evidence.ids, x[:, 0])).p_value
    order = np.random.default_rng(1).permutation(evidence.ids.size)
    more = np.append(evidence.ids[order], [7, 8])
    values = np.append(x[order, 0], [np.nan, 3.0])  # what is said about other rows does not matter
    assert da.challenge(record, evidence, blind=(more, values)).p_value == plain
    assert da.challenge(record, evidence, blind=(more.astype(str), values)).p_value == plain
    by_name = {str(name): value for name, value in zip(evidence.ids, x[:, 0], strict=True)}
    assert da.challenge(record, evidence, blind=by_name).p_value == plain
    lines = dict(zip(evidence.ids.tolist(), x.tolist(), strict=True))
    learnt = da.challenge(record, evidence, features=lines)
    assert learnt.p_value == da.challenge(record, evidence, features=(evidence.ids, x)).p_value


def test_rows_of_one_person_are_one():
    evidence, x = honest(5, rows=300)
    twice = np.repeat(np.arange(300), 2)
    moved = np.tile([-0.3, 0.3], 300)
    pairs = replace(
        evidence,
        scores=evidence.scores[twice] + moved,
        member=evidence.member[twice],
        propensity=evidence.propensity[twice],
        ids=np.arange(600),
        group=[f"person {n:03d}" for n in twice],
        unit="person",
    )
    record = da.audit(pairs, delta=0.0)
    lines = x[twice] + moved[:, None]
    alone = replace(evidence, ids=np.arange(300), unit="person")
    single = da.challenge(da.audit(alone, delta=0.0), alone, features=(alone.ids, x))
    found = da.challenge(record, pairs, features=(pairs.ids, lines))
    assert found.p_value == pytest.approx(single.p_value, rel=0.2)
    assert found.unit == "person"
    flat = np.full(600, 0.5)
    assert da.challenge(record, pairs, propensity=(pairs.ids, flat)).under_challenger[0].unit == "person"
    with pytest.raises(InputError, match="all rows of a group must share `propensity`"):
        da.challenge(record, pairs, propensity=(pairs.ids, np.linspace(0.2, 0.8, 600)))


def test_bounds_that_say_nothing_are_taken_for_what_they_say():
    """Clipped propensities: the side that is left is the published middle, and no guess is made of the rest."""
    evidence, x = honest(6, rows=400)
    rates = evidence.propensity
    clipped = np.stack([np.where(rates < 0.3, 0.0, rates), np.where(rates > 0.7, 1.0, rates)], axis=1)
    clipped[:5] = [0.0, 1.0]
    wide = replace(evidence, propensity=clipped)
    record = da.audit(wide, delta=0.0)
    same = np.where(np.arange(400) < 5, 0.5, rates)
    for how in ({"propensity": (wide.ids, same)}, {"features": (wide.ids, x)}, {"blind": (wide.ids, x[:, 0])}):
        assert not da.challenge(record, wide, **how).refuted
    certain = np.where(np.arange(400) < 200, 1.0, same)
    assert da.challenge(record, wide, propensity=(wide.ids, certain)).under_challenger


def test_where_no_error_would_save_them():
    evidence, x = honest(7, rows=200)
    upside_down = replace(evidence, propensity=special.expit(np.where(evidence.member, -13.0, 13.0)))
    record = da.audit(upside_down, delta=0.0)
    leaking_columns = np.column_stack([x, evidence.member])
    for how in (
        {"blind": (evidence.ids, evidence.member.astype(float))},
        {"features": (evidence.ids, leaking_columns), "feature_names": ("a", "b", "c", "year")},
    ):
        found = da.challenge(record, upside_down, **how)
        assert (found.refuted_error, found.allowed_error, found.at_best) == (10.0, None, ())
        assert "no error of the log-odds up to 10 would save them" in str(found)
    assert "column 'year' separates members from non-members exactly" in found.leaking_features


def test_files_instead_of_objects(fair, tmp_path):
    record, evidence, x = fair
    record.save(tmp_path / "fair.json")
    evidence.save(tmp_path / "fair.evidence.parquet")
    how = {"blind": (evidence.ids, x[:, 0])}
    assert da.challenge(tmp_path / "fair.json", str(tmp_path / "fair.evidence.parquet"), **how) == da.challenge(
        record, evidence, **how
    )


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "exactly one of `blind`, `propensity`, `features` must be given, got none"),
        ({"blind": ([1], [1.0]), "propensity": ([1], [0.5])}, "got blind and propensity"),
        ({"blind": ([1], [1.0]), "feature_names": ("a",)}, "`feature_names` has no effect"),
        ({"blind": 3.0}, r"`blind` must be \(ids, values\), or a dict from id to value, got float"),
        ({"blind": ([1, 2], [1.0])}, "one value an id, got 2 ids and 1 values"),
        ({"blind": ([], [])}, "none for 400 of 400"),
        ({"blind": ([1.5], [1.0])}, "`blind ids` must be whole numbers or text"),
        ({"blind": (["a", "b"], ["x", "y"])}, "`blind` must be numbers"),
        ({"blind": ([10, 11, 10], [1.0, 2.0, 3.0])}, "one row an id, got 10 more than once"),
        ({"blind": (np.arange(10, 400), np.zeros(390))}, r"none for 10 of 400, such as id 400\.\nhint: the ids of a"),
        ({"blind": (np.arange(10, 410), np.full(400, np.inf))}, "`blind` must be finite"),
        ({"propensity": (np.arange(10, 410), np.full(400, 1.5))}, r"in \[0, 1\], got 1.5 \(400 such rows\)"),
        ({"propensity": (np.arange(10, 410), np.full(400, np.nan))}, r"in \[0, 1\], got nan"),
        ({"propensity": (np.arange(10, 410), np.ones(400))}, r"leave some row in doubt.*\nhint: guesses"),
        ({"features": (np.arange(10, 410), np.zeros(400))}, r"rows and columns, got shape \(400,\)"),
        ({"features": (np.arange(10, 410), [["a"]] * 400)}, "`features` must be numbers"),
        ({"features": (np.arange(10, 410), np.full((400, 1), np.nan))}, "`features` must be finite"),
        ({"features": (np.arange(10, 410), np.eye(400)), "feature_names": ("a",)}, "must name 400 columns, got 1"),
        ({"blind": ([1], [1.0]), "confidence": 95}, r"`confidence` must be in \(0, 1\)"),
        ({"blind": ([1], [1.0]), "attempts": 0}, "`attempts` must be at least 1"),
        ({"blind": ([1], [1.0]), "seed": -1}, "`seed` must be at least 0"),
    ],
)
def test_odd_challengers_are_refused(fair, how, message):
    record, evidence, _ = fair
    with pytest.raises(InputError, match=message):
        da.challenge(record, evidence, **how)


def test_odd_records_are_refused(fair, rng):
    record, evidence, x = fair
    how = {"blind": (evidence.ids, x[:, 0])}
    for other in (replace(evidence, scores=-evidence.scores), replace(evidence, propensity=np.full(400, 0.5)), None):
        with pytest.raises(InputError, match=r"`evidence` must be that of the record \(digest"):
            da.challenge(record, other, **how)
    runs = da.RunScores(present=rng.normal(size=40), absent=rng.normal(size=40), relation="add-remove")
    with pytest.raises(InputError, match=r"got evidence of type RunScores\.\nhint: only such audits rest on"):
        da.challenge(da.audit(runs), runs, **how)
    with pytest.raises(InputError, match="got evidence of type none"):
        da.challenge(replace(record, evidence=()), evidence, **how)
    split = replace(evidence, assignment="split", propensity=None)
    with pytest.raises(InputError, match=r"got assignment 'split'\.\nhint: a random hold-out rests on no"):
        da.challenge(da.audit(split, delta=0.0), split, **how)
    nameless = replace(evidence, ids=None)
    with pytest.raises(InputError, match="`evidence` must have `ids`, got none"):
        da.challenge(da.audit(nameless, delta=0.0), nameless, **how)
    with pytest.raises(InputError, match=r"report a bound on epsilon or mu, got none.*\nhint: where the audit's own"):
        da.challenge(replace(record, bounds=()), evidence, **how)


def test_too_few_rows_for_two_folds():
    evidence, x = honest(8, rows=2)
    both = replace(evidence, member=[True, False])
    with pytest.raises(InputError, match="more audited rows for two folds of both groups, got 2"):
        da.challenge(da.audit(both, delta=0.0), both, features=(both.ids, x), seed=1)
