"""Propensity models: against scikit-learn's, calibrated, resampled as if refitted; overlap; columns that reveal."""

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from dpaudit import InputError
from dpaudit.attacks import LeakingColumn, leaking_columns
from dpaudit.fitted import propensity
from dpaudit.fitted.propensity import Boosted, Classifier, Logistic, cross_fitted, limits, overlap


def groups(rows, columns=6, apart=1.0, seed=0, share=0.5):
    """Members one step along the first column: log-odds are `apart` times it, for groups of equal size."""
    rng = np.random.default_rng(seed)
    member = rng.random(rows) < share
    x = rng.normal(size=(rows, columns))
    x[:, 0] += np.where(member, apart / 2.0, -apart / 2.0)
    return x, member, apart * x[:, 0]


def test_logistic_is_that_of_scikit_learn():
    x, member, _ = groups(800)
    scaled = StandardScaler().fit_transform(x)
    other = LogisticRegression(C=0.3, tol=1e-10, max_iter=1000).fit(scaled, member)
    found = Logistic(strength=0.3, folds=0).fit(x, member).log_odds(x)
    prior = np.log(member.sum() / (~member).sum())
    np.testing.assert_allclose(found, other.decision_function(scaled) - prior, atol=1e-5)


def test_groups_of_unequal_size_do_not_move_the_log_odds():
    x, member, truth = groups(20_000, share=0.2, seed=1)
    found = Logistic().fit(x, member).log_odds(x)
    assert abs(np.mean(found - truth)) < 0.1
    assert np.std(found - truth) < 0.15


@pytest.mark.parametrize("model", [Logistic(), Boosted(), Classifier(model=GaussianNB())], ids=lambda m: m.words())
def test_models_are_calibrated_on_other_rows(model):
    x, member, _ = groups(4000, seed=2)
    new, bits, truth = groups(4000, seed=3)
    odds = model.fit(x, member).log_odds(new)
    found = overlap(odds, bits)
    assert found.error < 0.04
    assert np.corrcoef(odds, truth)[0, 1] > 0.9


def test_calibration_shrinks_what_was_fitted_to_few_rows():
    """Eighty rows of forty columns of noise: the plain fit is sure of itself, the calibrated one is not."""
    rng = np.random.default_rng(4)
    x, member = rng.normal(size=(80, 40)), np.arange(80) % 2 == 0
    plain, mended = (np.abs(Logistic(folds=folds).fit(x, member).log_odds(x)).mean() for folds in (0, 5))
    assert plain > 1.0
    assert mended < 0.5 * plain


def test_many_columns_become_components():
    rng = np.random.default_rng(5)
    x, member, truth = groups(3000, columns=5, apart=2.0, seed=5)
    wide = x @ rng.normal(size=(5, 200))
    found = Logistic(components=5).fit(wide, member).log_odds(wide)
    assert np.corrcoef(found, truth)[0, 1] > 0.98


def test_resamples_are_refits():
    x, member, _ = groups(600, seed=6)
    points = x[:50]
    found = np.concatenate(list(Logistic(folds=0).resampled(x, member, points, resamples=60, seed=9)))
    assert found.shape == (60, 50)
    rng = propensity.stream(9, "resamples of the propensity model, 50")
    drawn = rng.integers(0, 600, size=(10, 600))[3]
    centre, spread = x.mean(axis=0), x.std(axis=0)
    other = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit((x[drawn] - centre) / spread, member[drawn])
    prior = np.log(member[drawn].sum() / (~member[drawn]).sum())
    np.testing.assert_allclose(found[53], other.decision_function((points - centre) / spread) - prior, atol=1e-4)


def test_resamples_are_the_same_for_any_number_of_threads():
    x, member, _ = groups(300, seed=7)
    one, two = (
        np.concatenate(list(Logistic().resampled(x, member, x, resamples=120, seed=1, threads=n))) for n in (1, 2)
    )
    assert np.array_equal(one, two)
    assert 0.02 < one.std(axis=0).mean() < 0.5


def test_resamples_vary_as_fresh_data_do():
    """The spread of calibrated log-odds over resamples, against that over fresh samples of the same size."""
    points = np.linspace(-1.0, 1.0, 5)[:, None] * np.eye(6)[:1]
    fresh = [Logistic().fit(*groups(1000, seed=s)[:2]).log_odds(points) for s in range(60)]
    x, member, _ = groups(1000, seed=200)
    again = np.concatenate(list(Logistic().resampled(x, member, points, resamples=100, seed=1)))
    ratio = again.std(axis=0) / np.std(fresh, axis=0)
    assert np.all((ratio > 0.6) & (ratio < 1.6))


def test_other_classifiers_are_resampled_too():
    x, member, _ = groups(200, seed=8)
    found = list(Classifier(model=GaussianNB(), folds=2).resampled(x, member, x[:5], resamples=3))
    assert [part.shape for part in found] == [(1, 5)] * 3


def test_cross_fitted_propensities_never_saw_their_own_row():
    rng = np.random.default_rng(9)
    x, member = rng.normal(size=(400, 30)), rng.random(400) < 0.5
    odds = cross_fitted(Logistic(folds=0), x, member)
    assert overlap(odds, member).auc < 0.6
    assert overlap(Logistic(folds=0).fit(x, member).log_odds(x), member).auc > 0.6


def test_clipping_goes_to_the_safe_side():
    found = limits(special.logit([0.005, 0.2, 0.995]), clip=0.01)
    np.testing.assert_allclose(found, [[0.0, 0.01], [0.2, 0.2], [0.99, 1.0]])
    assert np.array_equal(limits([0.0]), [[0.5, 0.5]])


def test_overlap_of_known_groups():
    _, member, truth = groups(50_000, apart=2.0, seed=10)
    found = overlap(truth, member)
    assert found.auc == pytest.approx(0.921, abs=0.005)  # Phi(2 / sqrt 2)
    assert found.error < 0.01
    assert sum(found.members) == member.sum()
    assert sum(found.others) == (~member).sum()
    assert found.eta[0] < found.eta[1] < found.eta[2] < 0.5
    inside = np.minimum(special.expit(truth), special.expit(-truth)) >= found.eta[2]
    assert min(inside[member].mean(), inside[~member].mean()) == pytest.approx(0.95, abs=0.002)
    alike = overlap(np.zeros(1000), np.arange(1000) % 2 == 0)
    assert alike.auc == 0.5
    assert alike.effective == pytest.approx((500.0, 500.0))


def test_columns_that_reveal_membership_are_named():
    rng = np.random.default_rng(11)
    member = rng.random(2000) < 0.5
    columns = {
        "age": rng.integers(20, 80, 2000),
        "moved": np.where(member, "?", rng.choice(["yes", "no"], 2000)).astype(object),
        "house": np.where(rng.random(2000) < 0.2, "yes", np.where(member, "?", "no")).astype(object),
        "time": np.where(member, 10.0, 20.0) + rng.random(2000),
    }
    found = {one.column: one for one in leaking_columns(columns, member)}
    assert set(found) == {"moved", "house", "time"}
    assert found["moved"].exactly
    assert "exactly" in str(found["moved"])
    assert not found["house"].exactly
    assert found["house"].share == pytest.approx(0.8, abs=0.05)
    assert str(LeakingColumn("x", 0.996)) == "column 'x' gives the membership of 99% of the rows away", "not of all"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: Logistic().fit(x[:, 0], s), "a table of rows and columns"),
        (lambda x, s: Logistic().fit([["a"], ["b"]], [True, False]), "`features` must be numbers"),
        (lambda x, s: Logistic().fit(np.where(x > 2, np.nan, x), s), "must be finite, got a gap"),
        (lambda x, s: Logistic().fit(x, np.ones(len(s), dtype=bool)), "members and non-members, got one kind only"),
        (lambda x, s: Logistic().fit(x[:12], s[:12]), "needs 10 rows of each group"),
        (lambda x, s: Logistic().fit(x, s).log_odds(x[:, :2]), "must have 6 columns"),
        (lambda x, s: Classifier(model=LinearSVC()).fit(x, s), "must have `predict_proba`"),
        (lambda x, s: Logistic(strength=0.0), "`strength` must be at least"),
    ],
)
def test_refusals(call, message):
    x, member, _ = groups(400)
    with pytest.raises(InputError, match=message):
        call(x, member)
