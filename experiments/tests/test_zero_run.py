"""Quick versions of paper 003's figures, and what the committed ones must show."""

import numpy as np
import pytest
from scipy import special, stats

import papers
from dpaudit import InputError
from dpaudit.attacks import inner_product
from dpaudit.execution import Execution, stream
from dpaudit_experiments.common.outcome import load_outcome
from dpaudit_experiments.data.tables import CENSUS_COLUMNS, CENSUS_REVEALING
from dpaudit_experiments.paper_003 import real as zero_run_real
from dpaudit_experiments.paper_003 import zero_run
from dpaudit_experiments.paper_003.real import bound_judged, drawn, game_of, prepared, propensity_judged, source_of
from dpaudit_experiments.paper_003.zero_run import BOUNDS, ESTIMATES, FIGURES, QUICK, Audited, noisy_sums
from dpaudit_experiments.paper_003.zero_run import sum_judged as judged

RESULTS = papers.DOCS / "results" / "paper-003"


@pytest.mark.parametrize("name", FIGURES)
def test_quick(name, tmp_path):
    assert papers.quick(zero_run, "zero-run", name, tmp_path)[1]


@pytest.mark.parametrize("name", FIGURES)
def test_committed_results_are_whole(name):
    papers.committed(zero_run, "zero-run", name, RESULTS)


def test_corrected_bounds_hold_where_the_uncorrected_one_fails():
    rows = load_outcome(RESULTS / "figure-2a.json").rows
    assert {row["audits"] for row in rows} == {200}
    assert all(row[f"over_{name}"] <= 23 for row in rows for name in BOUNDS)
    assert {row["mu"] for row in rows if row["over_one_run_mu_estimate"] > 100} == {0.66, 2.0}
    for row in rows:
        first = next(other for other in rows if other["mu"] == row["mu"] and other["shift"] == 0.0)
        if row["shift"] <= 2.0:
            assert row["median_aware_mu"] >= 0.75 * first["median_aware_mu"]
            assert row["median_aware_epsilon"] >= 0.75 * first["median_aware_epsilon"]


def test_revealing_columns_are_refused_and_placebos_show_nothing():
    rows = [row for row in load_outcome(RESULTS / "figure-2b.json").rows if row["kind"] == "audits"]
    (refused,) = (row for row in rows if row["pair"] == zero_run_real.REVEALING)
    assert refused["above_zero"] == 0
    assert "migration_msa" in refused["columns_named"]
    shifted = next(row for row in rows if (row["pair"], row["non_members"]) == ("Census", "shifted"))
    assert shifted["columns_named"] == ""
    assert shifted["above_zero"] > 0
    assert not any(row["above_zero"] for row in rows if row["non_members"] == "placebo")


def test_noisy_sums_are_those_of_the_mechanism():
    """Scores against vectors that are written out, scaled one by one, added up and multiplied."""
    rng = stream(3, "noisy sum")
    member, noise = rng.random(60) < 0.5, rng.standard_normal(40)
    plain = rng.standard_normal((60, 40), dtype=np.float32).astype(np.float64)
    for shift, mu, shown in noisy_sums(3, rows=60, dimensions=40, shifts=(0.0, 1.5)):
        x = plain.copy()
        x[:, 0] += np.where(member, shift / 2.0, -shift / 2.0)
        units = x / np.linalg.norm(x, axis=1, keepdims=True)
        released = units[member].sum(axis=0) + noise / mu
        np.testing.assert_array_equal(shown.member, member)
        np.testing.assert_allclose(shown.scores, inner_product(units, released), atol=1e-4)
        distributions = stats.norm.logpdf(x[:, 0], shift / 2.0) - stats.norm.logpdf(x[:, 0], -shift / 2.0)
        np.testing.assert_allclose(shown.log_odds, distributions, atol=1e-6)


def test_the_overlap_of_the_composition_is_that_of_the_distribution():
    assert zero_run.overlap_of(0.0) == (0.5, 0.0)
    eta, share = zero_run.overlap_of(1.0)
    edge = special.logit(1.0 - eta)
    x = stats.norm(0.5)
    assert share == pytest.approx(x.sf(edge) + x.cdf(-edge))
    assert 1e-5 <= share <= 2e-5


def test_a_seed_is_the_same_from_any_number_of_workers():
    work = Audited(300, 50, (0.0, 1.0))
    here = Execution(workers=1).map(work, [1, 2])
    assert here == Execution(workers=2).map(work, [1, 2])
    assert len(here[0]) == 2 * 2 * len((*BOUNDS, *ESTIMATES))


def level(mu, shift, aware=0.4, over=0, uncorrected=0):
    row = {"mu": mu, "epsilon": 2.7, "shift": shift, "audits": 200}
    for name in (*BOUNDS, *ESTIMATES):
        row |= {f"median_{name}": aware, f"over_{name}": uncorrected if name.startswith("one_run") else over}
    return row


@pytest.mark.parametrize(
    ("shifted", "over", "uncorrected", "word"),
    [(0.31, 23, 101, "confirmed"), (0.29, 0, 101, "not"), (0.4, 24, 101, "not"), (0.4, 0, 100, "not")],
)
def test_what_confirms_figure_2a(shifted, over, uncorrected, word):
    rows = [level(mu, shift, aware, over, fails) for mu in (0.66, 2.0)
            for shift, aware, fails in ((0.0, 0.4, 0), (2.0, shifted, uncorrected))]  # fmt: skip
    assert judged(rows)[0].startswith(word)


def audits(pair, arm, median, above, named="", auc=0.6):
    found = {"kind": "audits", "pair": pair, "non_members": arm, "audits": 5, "median_mu": median, "withheld": 0}
    return found | {"median_epsilon": median, "above_zero": above, "columns_named": named, "auc_estimate": auc}


@pytest.mark.parametrize(
    ("shifted", "auc", "placebo", "named", "refused", "word"),
    [
        (0.6, 0.75, 0, "migration_msa", 0, "confirmed"),
        (0.6, 0.74, 0, "migration_msa", 0, "not"),
        (0.59, 0.75, 0, "migration_msa", 0, "not"),
        (0.6, 0.75, 5, "migration_msa", 0, "not"),
        (0.6, 0.75, 0, "", 0, "not"),
        (0.6, 0.75, 0, "migration_msa", 1, "not"),
    ],
)
def test_what_confirms_figure_2b(shifted, auc, placebo, named, refused, word):
    rows = [
        audits("x", "shifted", shifted, 5, auc=auc),
        audits("x", "like", 1.0, 5),
        audits("x", "placebo", 0.0, placebo),
    ]
    rows += [audits("x", "like, split", 1.0, 5), audits(zero_run_real.REVEALING, "shifted", 0.0, refused, named)]
    rows += [
        {"kind": "resamples", "pair": "x", "non_members": arm, "mu_estimate": 0.5, "resamples": 600,
         "lower_quantile_mu_estimate": 0.5}
        for arm in ("shifted", "like")
    ]  # fmt: skip
    assert bound_judged(rows)[0].startswith(word)


@pytest.mark.parametrize(("shifted", "like", "word"), [(0.8, 0.5, "confirmed"), (0.7, 0.5, "not"), (0.8, 0.6, "not")])
def test_what_confirms_figure_2c(shifted, like, word):
    rows = [
        {"pair": "x", "non_members": "shifted", "auc_estimate": shifted},
        {"pair": "x", "non_members": "like", "auc_estimate": like},
        {"pair": zero_run_real.REVEALING, "non_members": "shifted", "auc_estimate": 1.0},
    ]
    assert propensity_judged(rows)[0].startswith(word)


def test_groups_share_no_row_and_the_placebo_never_saw_the_members():
    source = source_of("made up")
    rows = drawn(source, 300, 1)
    members, like = ({tuple(line) for line in part[0]} for part in (rows.members, rows.like))
    assert not members & like
    pair, names, rows, model, blank = prepared("made up", QUICK.real, 1)
    assert model.accuracy(rows.members) == 1.0
    assert blank.accuracy(rows.members) < 0.5 < blank.accuracy(rows.like)
    game = game_of(pair, "shifted", rows, model, names)
    assert game.origin == "later"
    assert game.feature_names[-1] == "label"
    assert game_of(pair, "like", rows, model, names).origin == "given"


def test_names_of_the_census_columns():
    assert len(CENSUS_COLUMNS) == len(set(CENSUS_COLUMNS)) == 40
    assert set(CENSUS_REVEALING) < set(CENSUS_COLUMNS)
    assert {name for name in CENSUS_COLUMNS if name.startswith("migration")} < set(CENSUS_REVEALING)


def test_an_unknown_figure():
    with pytest.raises(InputError, match="`figure` must be one of '2a', '2b', '2c'"):
        zero_run.reproduce("9", scale=QUICK)
