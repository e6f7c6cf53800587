"""Evidence: exact round trips, refusals, thinning, groups."""

import json

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

import dpaudit as da
from dpaudit import (
    CanaryScores,
    InputError,
    MatchedScores,
    MemberScores,
    OutputCounts,
    PairedScores,
    RunScores,
    load_evidence,
)
from dpaudit.evidence import ONE_ROW_A_UNIT, thin
from tests.conftest import gaussian_runs, noisy_canaries

EXAMPLES = [
    RunScores(present=[1.5, -0.25], absent=[0.1], relation="substitute", ids=["a", "b", "c"], seed=4),
    RunScores(present=[1, 2, 3], absent=[4, 5], group=[0, 0, 1, 2, 2], relation="add-remove", reduce="max"),
    CanaryScores(scores=[0.1, 0.2], included=[True, False], relation="label", shift=0.01, sides="sign", unit="user"),
    CanaryScores(scores=[1, 2, 3], included=[1, 1, 0], group=["u", "u", "v"], relation="add-remove", unit="user"),
    CanaryScores(scores=[1, 2], included=[1, 0], relation="substitute", assignment="split", assumptions=("it rains",)),
    MemberScores(scores=[1, 2], member=[1, 0], propensity=[0.5, 0.6], relation="substitute"),
    MemberScores(scores=[1, 2], member=[1, 0], propensity=[[0.4, 0.5], [0.1, 0.2]], relation="add-remove"),
    MemberScores(scores=[1, 2], member=[1, 0], relation="substitute", assignment="split"),
    PairedScores(included=[1, 0], baseline=[0.1, 0.2], attack=[0.3, 0.4]),
    OutputCounts(present=[[3, 4, 5], [1, 1, 1]], absent=[[5, 4, 3], [2, 1, 0]], relation="add-remove", ids=[7, 9]),
    OutputCounts(present=[3, 4], absent=[5, 2], relation="zero-out", independent=True),
    MatchedScores(
        scores=[2.0, 0.5, 1.0, 0.7],
        chance=[0.5, 0.3, 0.5, 0.02],
        right=[True, False, True, False],
        audited=[True, True, False, False],
        own=[True, True, True, False],
        values=3,
        margin=0.1,
        relation="label",
    ),
]


@pytest.mark.parametrize("evidence", EXAMPLES, ids=lambda e: type(e).__name__)
def test_round_trip_is_exact(evidence, tmp_path):
    path = evidence.save(tmp_path / "evidence.parquet")
    loaded = load_evidence(path)
    assert type(loaded) is type(evidence)
    assert loaded == evidence
    assert repr(loaded) == repr(evidence)
    assert [p.name for p in tmp_path.iterdir()] == ["evidence.parquet"], "nothing else is left behind"


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_round_trip_of_any_scores(tmp_path_factory, scores):
    path = tmp_path_factory.mktemp("round") / "e.parquet"
    evidence = RunScores(present=scores, absent=scores[:1], relation="substitute")
    assert load_evidence(evidence.save(path)).present.tobytes() == scores.tobytes()


def test_arrays_are_read_only_copies():
    scores = np.array([1.0, 2.0])
    evidence = RunScores(present=scores, absent=scores, relation="add-remove")
    scores[0] = 9.0
    assert evidence.present[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        evidence.present[0] = 5.0


def test_arrays_from_pandas_polars_and_arrow():
    import pandas

    for made in (pandas.Series([1.0, 2.0]), polars.Series([1.0, 2.0]), pa.chunked_array([[1.0], [2.0]]), (1.0, 2.0)):
        evidence = CanaryScores(scores=made, included=[True, False], relation="add-remove")
        np.testing.assert_array_equal(evidence.scores, [1.0, 2.0])

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([[1.0, 2.0]]).__arrow_c_stream__(requested_schema)

    assert RunScores(present=Stream(), absent=[1.0], relation="add-remove").present.tolist() == [1.0, 2.0]


def _tamper(path, change):
    table = pq.read_table(path)
    meta = json.loads(table.schema.metadata[b"dpaudit"])
    table, meta = change(table, meta)
    pq.write_table(table.replace_schema_metadata({b"dpaudit": json.dumps(meta).encode()}), path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t, m: (t.set_column(0, t.column_names[0], pa.array([9.0, 9.0])), m), "was changed"),
        (lambda t, m: (t, m | {"relation": "add-remove"}), "was changed"),
        (lambda t, m: (t, m | {"shift": 0.0}), "was changed"),
        (lambda t, m: (t, m | {"type": "Malice"}), "a form this version knows"),
        (lambda t, m: (t, m | {"format": 99}), "evidence format 99"),
        (lambda t, m: (t, {"x": 1}), "a form this version knows"),
    ],
)
def test_tampered_files_are_refused(tmp_path, change, match):
    path = EXAMPLES[2].save(tmp_path / "e.parquet")
    _tamper(path, change)
    with pytest.raises(InputError, match=match):
        load_evidence(path)


def test_foreign_truncated_and_missing_files_are_refused(tmp_path):
    foreign, broken = tmp_path / "foreign.parquet", tmp_path / "broken.parquet"
    pq.write_table(pa.table({"score": [1.0]}), foreign)
    with pytest.raises(InputError, match="holds no dpaudit evidence"):
        load_evidence(foreign)
    broken.write_bytes(EXAMPLES[0].save(tmp_path / "whole.parquet").read_bytes()[:200])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        load_evidence(broken)
    with pytest.raises(InputError, match="no evidence file"):
        load_evidence(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no folder"):
        EXAMPLES[0].save(tmp_path / "none" / "e.parquet")


def canary(**changes):
    made = {"scores": [0.1, 0.2, 0.3, 0.4], "included": [1, 0, 1, 0], "relation": "add-remove"} | changes
    return CanaryScores(**made)


def two_runs(**changes):
    return RunScores(**({"present": [1.0, 2.0], "absent": [0.0, 1.0], "relation": "add-remove"} | changes))


def given_members(**changes):
    made = {"scores": [1, 2], "member": [1, 0], "propensity": [0.5, 0.5], "relation": "substitute"} | changes
    return MemberScores(**made)


def counts(**changes):
    return OutputCounts(**({"present": [1, 2], "absent": [2, 1], "relation": "add-remove"} | changes))


REFUSED = [
    (two_runs, {"present": [np.nan, 1.0]}, "`present` must be finite, got nan at row 0"),
    (two_runs, {"absent": [np.inf]}, "`absent` must be finite, got inf"),
    (two_runs, {"absent": []}, "`absent` must hold at least one score"),
    (two_runs, {"present": [[1.0]]}, "one-dimensional"),
    (two_runs, {"present": ["a"]}, "must be numbers"),
    (two_runs, {"relation": "neighbour"}, "`relation` must be one of 'add-remove'"),
    (two_runs, {"ids": [1, 1, 2, 3]}, "`ids` must be unique, got 1"),
    (two_runs, {"ids": [1, 2]}, "`ids` must have one entry a row"),
    (two_runs, {"group": [1, 2, 2, 3]}, "a run belongs to one world"),
    (two_runs, {"unit": ""}, "`unit` must be a word"),
    (two_runs, {"seed": -1}, "`seed` must be at least 0"),
    (two_runs, {"reduce": "median"}, "`reduce` must be one of 'mean'"),
    (two_runs, {"assignment": "coins"}, "`assignment` must be one of 'runs'"),
    (two_runs, {"assumptions": "x"}, "list of assumptions or sentences"),
    (canary, {"included": [1, 0]}, "must have one length"),
    (canary, {"included": ["yes", "no", "yes", "no"]}, "must be true / false"),
    (canary, {"included": [0, 1, 2, 1]}, "must be true / false"),
    (canary, {"scores": np.zeros(60), "included": np.arange(60) < 55}, "fair, independent coins, got 55 of 60"),
    (canary, {"group": [1, 1, 2, 2], "unit": "user"}, "all rows of a group must share `included`"),
    (canary, {"group": [1, 2, 1, 2]}, "`unit` must say what a group is"),
    (canary, {"scores": np.ma.masked_array([1, 2, 3, 4], [1, 0, 0, 0])}, "must have no gaps"),
    (canary, {"group": [1.5, 1, 2, 2]}, "`group` must be whole numbers or text"),
    (canary, {"shift": 1.5}, "`shift` must be in"),
    (canary, {"sides": "left"}, "`sides` must be one of"),
    (canary, {"assignment": "split"}, "a fixed-size split certifies substitute"),
    (canary, {"assignment": "split", "relation": "substitute", "included": [1, 1, 1, 1]}, "both true and false"),
    (given_members, {"propensity": None}, "`propensity` is needed"),
    (given_members, {"propensity": [0.5, 1.5]}, "probabilities in"),
    (given_members, {"propensity": [0.5, np.nan]}, "probabilities in"),
    (given_members, {"propensity": [[0.5, 0.4], [0.1, 0.2]]}, "lower one above"),
    (given_members, {"propensity": [0.5]}, "for each of 2 rows"),
    (given_members, {"member": [1, 1]}, "both true and false"),
    (counts, {"present": [1, -2]}, "negative count"),
    (counts, {"present": [1.5, 2]}, "whole numbers"),
    (counts, {"present": [0, 0]}, "empty row"),
    (counts, {"present": [1, 2, 3]}, "one shape"),
    (counts, {"group": [1]}, "no meaning for counts"),
    (counts, {"independent": "yes"}, "true or false"),
]


@pytest.mark.parametrize(("make", "changes", "match"), REFUSED)
def test_evidence_that_breaks_a_theorem_is_refused(make, changes, match):
    make()
    with pytest.raises(InputError, match=match):
        make(**changes)


def test_an_even_split_passes_any_coin_test_and_is_still_not_coins():
    exact = np.arange(1000) < 500
    CanaryScores(scores=np.arange(1000.0), included=exact, relation="add-remove")  # nobody can tell
    split = CanaryScores(scores=np.arange(1000.0), included=exact, relation="substitute", assignment="split")
    with pytest.raises(InputError, match="needs fair, independent coins, got a split") as refused:
        da.estimators.epsilon_from_canaries(split, delta=0.0)
    assert "thinned" in refused.value.hint


# theory:adjacency#thinning
def test_thinning_gives_fair_independent_coins():
    included = np.arange(200) < 100
    heads, pairs = [], []
    for seed in range(400):
        thinned = CanaryScores(
            scores=np.arange(200.0), included=included, relation="substitute", assignment="split", seed=seed
        ).thinned()
        assert np.array_equal(thinned.included, thinned.scores < 100), "members stay members"
        assert np.unique(thinned.scores).size == thinned.scores.size, "no row twice"
        heads.append(thinned.included.sum())
        pairs.append(thinned.included[:2].tolist())
    m = thinned.scores.size
    assert thinned.population == 200
    assert 120 <= m < 200
    assert thinned.conditions == (ONE_ROW_A_UNIT,)
    # a fixed-size sample would have almost no variance; coins have m / 4
    assert np.var(heads) == pytest.approx(m / 4, rel=0.25)
    assert abs(np.mean(heads) - m / 2) < 4 * np.sqrt(m / 4 / 400)
    counts = np.unique([2 * a + b for a, b in pairs], return_counts=True)[1]
    assert counts.min() > 65


def test_thinning_depends_on_the_seed_alone_and_needs_a_split():
    split = CanaryScores(
        scores=[1, 2, 3, 4], included=[1, 1, 0, 0], relation="substitute", assignment="split", group=list("abcd")
    )
    assert split.thinned(seed=3) == split.thinned(seed=3)
    assert split.thinned(seed=3).conditions == (), "the groups say which rows belong together"
    with pytest.raises(InputError, match="only a split is thinned"):
        canary().thinned()


def test_members_of_a_random_hold_out_become_canaries():
    members = MemberScores(scores=[1, 2], member=[1, 0], relation="substitute", assignment="split", unit="user")
    split = members.as_split()
    assert (split.assignment, split.unit) == ("split", "user")
    with pytest.raises(InputError, match="given, not split"):
        given_members().as_split()


@pytest.mark.parametrize(("how", "expected"), [("mean", [2.0, 5.0]), ("max", [3.0, 5.0]), ("sum", [4.0, 5.0])])
def test_groups_become_one_score_and_one_coin(how, expected):
    evidence = canary(scores=[3, 5, 1], included=[1, 0, 1], group=["a", "b", "a"], reduce=how, unit="user").reduced()
    assert evidence.scores.tolist() == expected
    assert evidence.included.tolist() == [True, False]
    runs = two_runs(group=["x", "x", "y", "z"], reduce=how).reduced()
    assert (runs.present.size, runs.absent.size) == (1, 2)
    pairs = PairedScores(
        included=[1, 1, 0], baseline=[1, 2, 3], attack=[3, 1, 5], group=[1, 1, 2], reduce=how, unit="user"
    )
    assert pairs.reduced().attack.tolist() == expected
    members = given_members(
        scores=[3, 5, 1], member=[1, 0, 1], propensity=[0.3, 0.6, 0.3], group=["a", "b", "a"], unit="user"
    )
    assert members.reduced().propensity.tolist() == [0.3, 0.6]


def test_estimates_of_grouped_evidence_are_per_group(rng):
    base = noisy_canaries(rng, mu=2.0, canaries=300)
    rows = np.repeat(np.arange(300), 4)
    grouped = CanaryScores(
        scores=base.scores[rows], included=base.included[rows], group=rows, relation="add-remove", unit="user"
    )
    alone = da.estimators.epsilon_from_canaries(base, delta=0.0)
    together = da.estimators.epsilon_from_canaries(grouped, delta=0.0)
    assert together.epsilon == alone.epsilon
    assert together.unit == "user"
    assert da.estimators.mu_from_canaries(grouped).mu == da.estimators.mu_from_canaries(base).mu


def test_digest_changes_with_everything_that_matters(rng):
    runs = gaussian_runs(rng, runs=5)
    digests = {
        two_runs().digest,
        two_runs(relation="substitute").digest,
        two_runs(unit="user").digest,
        two_runs(seed=1).digest,
        two_runs(present=[1.0, 2.5]).digest,
        runs.digest,
    }
    assert len(digests) == 6


# ------------------------------------------------------------------------------------------------------- exact coins


def pairs(included):
    return PairedScores(included=included, baseline=np.zeros(included.size), attack=np.zeros(included.size))


@pytest.mark.parametrize("tosses", [60, 200, 1001])
def test_fewest_heads_that_pass_for_a_fair_coin(tosses):
    """From an exact two-sided p-value of one in a million on coins are taken, below it they are refused."""
    fewest = next(h for h in range(tosses) if 2.0 * stats.binom.cdf(h, tosses, 0.5) >= 1e-6)
    for heads in (fewest, tosses - fewest):
        canary(scores=np.arange(tosses), included=np.arange(tosses) < heads)
        pairs(np.arange(tosses) < heads)
    for heads in (fewest - 1, tosses - fewest + 1):
        with pytest.raises(InputError, match="fair, independent coins"):
            canary(scores=np.arange(tosses), included=np.arange(tosses) < heads)
        with pytest.raises(InputError, match="fair, independent coins"):
            pairs(np.arange(tosses) < heads)


@pytest.mark.parametrize("pools", [(100, 104), (100, 100), (30, 33), (60, 500)])
def test_number_of_coins_of_a_thinned_split(pools):
    """The largest m for which the tosses outrun either pool with probability at most 1e-9, both ends counted."""
    members, others = pools

    def overrun(m):
        return stats.binom.sf(members, m, 0.5) + stats.binom.sf(others, m, 0.5)

    expected = next(m for m in range(min(pools), sum(pools)) if overrun(m + 1) > 1e-9)
    rows, coins = thin(np.arange(members + others) < members, np.random.default_rng(0))
    assert rows.size == coins.size == expected


class Scripted:
    """Draws that are known: no shuffle, and uniforms around one half."""

    def permutation(self, rows):
        return rows

    def random(self, size):
        return np.resize([0.0, 0.51, 0.9, 0.499999, 0.999, 0.5, 0.3, 0.8, 0.1, 0.7], size)


def test_coin_names_the_pool_of_its_row():
    rows, coins = thin(np.arange(200) < 100, Scripted())
    assert coins.tolist() == (Scripted().random(coins.size) < 0.5).tolist()
    assert rows[coins].tolist() == list(range(int(coins.sum())))
    assert rows[~coins].tolist() == list(range(100, 100 + int((~coins).sum())))
