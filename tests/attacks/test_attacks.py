"""Canaries and scores of paper 001 on linear heads: exact laws, and audits that end as they must."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import InputError, RunScores, accounting, attacks, estimators, judge
from dpaudit.bounds import UpperBound
from dpaudit.execution import Execution
from dpaudit.games import TrainedRuns
from dpaudit.mechanisms.dpsgd import DpSgd, train

RNG = np.random.default_rng(4)
X = np.hstack([RNG.normal(size=(60, 6)), np.ones((60, 1))]).astype(np.float32)
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)


def audited(recipe, x, y, canary, score, *, runs, seed):
    """Scores of `runs` models in each world, in an order that coins decide."""
    worlds = np.random.default_rng([seed, 1]).permutation(np.arange(2 * runs) < runs)
    seen, _ = train(recipe, x, y, canary=canary, worlds=worlds, seed=seed, observe=[score])
    scores = seen[0, 0].astype(float)
    return RunScores(present=scores[worlds], absent=scores[~worlds], relation=recipe.relation)


def worst_case_runs(recipe, runs, seed):
    x, y, canary = attacks.worst_case(recipe, records=20)
    return audited(recipe, x, y, canary, attacks.ReleasedSum(canary.present), runs=runs, seed=seed)


def test_the_worst_case_has_the_law_of_equation_three():
    """The sum of releases is a binomial mixture of Gaussians, exactly (paper 001, equation 3)."""
    recipe = DpSgd(noise_multiplier=1.5, sampling_rate=0.25, steps=12, relation="substitute")
    runs = worst_case_runs(recipe, 3000, 1)
    k = np.arange(13)
    weights = stats.binom.pmf(k, 12, 0.25)

    def law(sign):
        return lambda g: (weights * stats.norm.cdf((np.atleast_1d(g)[:, None] - sign * k) / (1.5 * np.sqrt(12)))).sum(
            axis=1
        )

    assert stats.kstest(runs.present, law(1.0)).pvalue > 1e-3
    assert stats.kstest(runs.absent, law(-1.0)).pvalue > 1e-3


def test_add_remove_accounting_is_contradicted_as_a_substitute_claim():
    """The honest substitute claim stands; the add/remove number sold as one does not."""
    recipe = DpSgd(noise_multiplier=4.0, sampling_rate=1.0, steps=16, relation="substitute")
    runs = worst_case_runs(recipe, 200, 2)
    assert not judge(runs, recipe.claim(1e-5)).contradicted
    sold = accounting.dp_sgd(noise_multiplier=4.0, sampling_rate=1.0, steps=16, delta=1e-5, relation="add-remove")
    claim = UpperBound(epsilon=sold.epsilon, delta=1e-5, relation="substitute", curve=sold.curve, method="add/remove")
    assert judge(runs, claim).contradicted
    found = estimators.mu_from_runs(worst_case_runs(recipe, 1500, 3))
    assert 0.85 * 2.0 < found.mu <= 2.0


def test_honest_training_is_seldom_contradicted():
    recipe = DpSgd(noise_multiplier=1.0, sampling_rate=0.3, steps=4, relation="substitute")
    claim = recipe.claim(1e-5)
    assert sum(judge(worst_case_runs(recipe, 100, seed), claim).contradicted for seed in range(40)) <= 8


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_the_least_updated_coordinate_leaks_through_the_model_alone(relation):
    """S2 with full batches: the displacement of a coordinate that nothing else moves is nearly the worst case."""
    recipe = DpSgd(noise_multiplier=3.0, steps=9, learning_rate=0.2, relation=relation)
    still = np.hstack([X, np.zeros((60, 1), dtype=np.float32)])
    canary = attacks.least_updated(recipe, still, Y, seed=1)
    assert np.flatnonzero(canary.present).tolist() == [7]
    assert np.linalg.norm(canary.present) == pytest.approx(recipe.clip)
    assert (canary.absent is None) == (relation == "add-remove")
    runs = audited(recipe, still, Y, canary, attacks.Displacement(canary.present), runs=800, seed=5)
    truth = recipe.claim(1e-5).mu
    assert 0.75 * truth < estimators.mu_from_runs(runs).mu <= truth
    assert not judge(runs, recipe.claim(1e-5)).contradicted


def test_records_as_canaries():
    """S4 and S5: the opposed record is found, and the model's logits tell the worlds apart."""
    recipe = DpSgd(noise_multiplier=2.0, steps=20, learning_rate=1.0, clip=1.0, relation="substitute")
    reference = attacks.Reference(recipe, X, Y, seed=1)
    target = reference.least_confident()
    assert target == attacks.least_confident(recipe, X, Y, seed=1)
    record = (X[target], float(Y[target]))
    flipped = attacks.mislabelled(reference, record)
    assert flipped.absent[1] == 1.0 - record[1]
    assert np.array_equal(flipped.absent[0], record[0])
    natural = attacks.adversarial_natural(reference, record, (-X[:20], Y[:20]))
    crafted = attacks.crafted_input(reference, record)
    assert reference.cosine(crafted.present, crafted.absent) < -0.9
    for canary in (flipped, natural, crafted):
        score = attacks.LogitDifference(canary.present, canary.absent)
        runs = audited(recipe, np.delete(X, target, 0), np.delete(Y, target), canary, score, runs=300, seed=6)
        assert runs.present.mean() > runs.absent.mean()
        assert not judge(runs, recipe.claim(1e-5)).contradicted
    one = attacks.Reference(DpSgd(noise_multiplier=2.0, steps=5), X, Y, seed=1)
    assert attacks.mislabelled(one, record).absent is None


def test_the_worst_case_score_rises_with_the_sum():
    sums = np.linspace(-30.0, 30.0, 200)
    scores = attacks.worst_case_score(sums, sampling_rate=0.2, steps=40, noise_multiplier=1.0)
    assert np.all(np.diff(scores) > 0.0)
    assert scores == pytest.approx(-scores[::-1], abs=1e-9)


def test_refusals():
    with pytest.raises(InputError, match="needs classes"):
        attacks.mislabelled(attacks.Reference(DpSgd(noise_multiplier=1.0, loss="squared"), X, Y, seed=0), (X[0], 1.0))
    with pytest.raises(InputError, match="at least one record"):
        attacks.adversarial_natural(attacks.Reference(DpSgd(noise_multiplier=1.0), X, Y, seed=0), (X[0], 1.0), ([], []))
    with pytest.raises(InputError, match="`records` must be at least 1"):
        attacks.worst_case(DpSgd(noise_multiplier=1.0), records=0)


def test_the_whole_way_from_recipe_to_record(tmp_path):
    """A recipe sold under the wrong adjacency, audited on the rails: the same record from any number of workers."""
    recipe = DpSgd(noise_multiplier=4.0, steps=16, relation="substitute")
    x, y, canary = attacks.worst_case(recipe, records=20)
    game = TrainedRuns(
        recipe=recipe, x=x, y=y, canary=canary, score=attacks.ReleasedSum(canary.present), runs=200, blocks=1
    )
    sold = DpSgd(noise_multiplier=4.0, steps=16).claim(1e-5)
    claim = replace(sold, relation="substitute", method="add/remove accountant")
    found = da.audit(game, claim=claim, name="sold", execution=Execution(workers=1), store=tmp_path / "runs")
    assert found.contradicted
    assert found.plan["recipe"]["noise_multiplier"] == 4.0
    assert da.load_audit(found.save(tmp_path / "r.json")) == found
    again = da.audit(game, claim=claim, name="sold", execution=Execution(workers=2))
    assert again.digest == found.digest
    other_jobs = game.play(seed=0, execution=Execution(workers=1))
    assert replace(game, blocks=3).play(seed=0, execution=Execution(workers=1)) == other_jobs
    honest = da.audit(game, claim=recipe.claim(1e-5), execution=Execution(workers=1))
    assert honest.outcome == "consistent"
    early = replace(game, at=4).play(seed=0, execution=Execution(workers=1))
    assert early.present.mean() == pytest.approx(4.0, abs=1.5)
    for change, sentence in (
        ({"at": 17}, "`at` must be at most `steps`"),
        ({"runs": 0}, "`runs`"),
        ({"recipe": 3}, "DpSgd"),
    ):
        with pytest.raises(InputError, match=sentence):
            replace(game, **change)
