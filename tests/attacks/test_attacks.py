"""Canaries and scores of paper 001 on linear heads: exact distributions, and audits that end as they must."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import InputError, RunScores, accounting, attacks, estimators, games, judge
from dpaudit.bounds import UpperBound
from dpaudit.execution import Execution
from dpaudit.games import Runner, TrainedRuns
from dpaudit.mechanisms.dpsgd import DPSGDConfig, GradientCanary, InputCanary, Mlp, train
from dpaudit.testing.broken import attacks as broken

RNG = np.random.default_rng(4)
X = np.hstack([RNG.normal(size=(60, 6)), np.ones((60, 1))]).astype(np.float32)
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)


def audited(config, x, y, canary, score, *, runs, seed):
    """Scores of `runs` models in each world, in an order that coins decide."""
    worlds = np.random.default_rng([seed, 1]).permutation(np.arange(2 * runs) < runs)
    seen, _ = train(config, x, y, canary=canary, worlds=worlds, seed=seed, observe=[score])
    scores = seen[0, 0].astype(float)
    return RunScores(present=scores[worlds], absent=scores[~worlds], relation=config.relation)


def worst_case_runs(config, runs, seed):
    x, y, canary = attacks.worst_case(config, records=20)
    return audited(config, x, y, canary, attacks.ReleasedSum(canary.present), runs=runs, seed=seed)


def test_the_worst_case_has_the_law_of_equation_three():
    """The sum of releases is a binomial mixture of Gaussians, exactly (paper 001, equation 3)."""
    config = DPSGDConfig(noise_multiplier=1.5, sampling_rate=0.25, steps=12, relation="substitute")
    runs = worst_case_runs(config, 3000, 1)
    k = np.arange(13)
    weights = stats.binom.pmf(k, 12, 0.25)

    def distribution(sign):
        return lambda g: (weights * stats.norm.cdf((np.atleast_1d(g)[:, None] - sign * k) / (1.5 * np.sqrt(12)))).sum(
            axis=1
        )

    assert stats.kstest(runs.present, distribution(1.0)).pvalue > 1e-3
    assert stats.kstest(runs.absent, distribution(-1.0)).pvalue > 1e-3


def test_add_remove_accounting_is_contradicted_as_a_substitute_claim():
    """The honest substitute claim stands; the add/remove number claimed as one does not."""
    config = DPSGDConfig(noise_multiplier=4.0, sampling_rate=1.0, steps=16, relation="substitute")
    runs = worst_case_runs(config, 200, 2)
    assert not judge(runs, config.claim(1e-5)).contradicted
    sold = accounting.dp_sgd(noise_multiplier=4.0, sampling_rate=1.0, steps=16, delta=1e-5, relation="add-remove")
    claim = UpperBound(epsilon=sold.epsilon, delta=1e-5, relation="substitute", curve=sold.curve, method="add/remove")
    assert judge(runs, claim).contradicted
    found = estimators.mu_from_runs(worst_case_runs(config, 1500, 4))
    assert 0.85 * 2.0 < found.mu <= 2.0


def test_honest_training_is_seldom_contradicted():
    config = DPSGDConfig(noise_multiplier=1.0, sampling_rate=0.3, steps=4, relation="substitute")
    claim = config.claim(1e-5)
    assert sum(judge(worst_case_runs(config, 100, seed), claim).contradicted for seed in range(40)) <= 8


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_the_least_updated_coordinate_leaks_through_the_model_alone(relation):
    """S2 with full batches: the displacement of a coordinate that nothing else moves is nearly the worst case."""
    config = DPSGDConfig(noise_multiplier=3.0, steps=9, learning_rate=0.2, relation=relation)
    still = np.hstack([X, np.zeros((60, 1), dtype=np.float32)])
    canary = attacks.least_updated(config, still, Y, seed=1)
    assert np.flatnonzero(canary.present).tolist() == [7]
    assert np.linalg.norm(canary.present) == pytest.approx(config.clip)
    assert (canary.absent is None) == (relation == "add-remove")
    runs = audited(config, still, Y, canary, attacks.Displacement(canary.present), runs=800, seed=5)
    truth = config.claim(1e-5).mu
    assert 0.75 * truth < estimators.mu_from_runs(runs).mu <= truth
    assert not judge(runs, config.claim(1e-5)).contradicted


def test_records_as_canaries():
    """S4 and S5: the opposed record is found, and the model's logits tell the worlds apart."""
    config = DPSGDConfig(noise_multiplier=2.0, steps=20, learning_rate=1.0, clip=1.0, relation="substitute")
    reference = attacks.Reference(config, X, Y, seed=1)
    target = reference.least_confident()
    assert target == attacks.least_confident(config, X, Y, seed=1)
    record = (X[target], float(Y[target]))
    flipped = attacks.mislabelled(reference, record)
    assert flipped.absent[1] == 1.0 - record[1]
    assert np.array_equal(flipped.absent[0], record[0])
    natural = attacks.adversarial_natural(reference, record, (-X[:20], Y[:20]))
    crafted = attacks.crafted_input(reference, record)
    assert reference.cosine(crafted.present, crafted.absent) < -0.9
    for canary in (flipped, natural, crafted):
        score = attacks.LogitDifference(canary.present, canary.absent)
        runs = audited(config, np.delete(X, target, 0), np.delete(Y, target), canary, score, runs=300, seed=6)
        assert runs.present.mean() > runs.absent.mean()
        assert not judge(runs, config.claim(1e-5)).contradicted
    one = attacks.Reference(DPSGDConfig(noise_multiplier=2.0, steps=5), X, Y, seed=1)
    assert attacks.mislabelled(one, record).absent is None


def test_the_worst_case_score_rises_with_the_sum():
    sums = np.linspace(-30.0, 30.0, 200)
    scores = attacks.worst_case_score(sums, sampling_rate=0.2, steps=40, noise_multiplier=1.0)
    assert np.all(np.diff(scores) > 0.0)
    assert scores == pytest.approx(-scores[::-1], abs=1e-9)


def test_refusals():
    with pytest.raises(InputError, match="needs classes"):
        attacks.mislabelled(
            attacks.Reference(DPSGDConfig(noise_multiplier=1.0, loss="squared"), X, Y, seed=0), (X[0], 1.0)
        )
    with pytest.raises(InputError, match="at least one record"):
        attacks.adversarial_natural(
            attacks.Reference(DPSGDConfig(noise_multiplier=1.0), X, Y, seed=0), (X[0], 1.0), ([], [])
        )
    with pytest.raises(InputError, match="`records` must be at least 1"):
        attacks.worst_case(DPSGDConfig(noise_multiplier=1.0), records=0)


def test_the_whole_way_from_recipe_to_record(tmp_path):
    """A recipe sold under the wrong adjacency, audited on the rails: the same record from any number of workers."""
    config = DPSGDConfig(noise_multiplier=4.0, steps=16, relation="substitute")
    x, y, canary = attacks.worst_case(config, records=20)
    game = TrainedRuns(
        config=config, x=x, y=y, canary=canary, score=attacks.ReleasedSum(canary.present), runs=200, blocks=1
    )
    sold = DPSGDConfig(noise_multiplier=4.0, steps=16).claim(1e-5)
    claim = replace(sold, relation="substitute", method="add/remove accountant")
    found = da.audit(game, claim=claim, name="sold", execution=Execution(workers=1), store=tmp_path / "runs")
    assert found.contradicted
    assert found.plan["config"]["noise_multiplier"] == 4.0
    assert da.load_audit(found.save(tmp_path / "r.json")) == found
    again = da.audit(game, claim=claim, name="sold", execution=Execution(workers=2))
    assert again.digest == found.digest
    other_jobs = game.play(seed=0, runner=Runner(Execution(workers=1))).only
    assert replace(game, blocks=3).play(seed=0, runner=Runner(Execution(workers=1))).only == other_jobs
    honest = da.audit(game, claim=config.claim(1e-5), execution=Execution(workers=1))
    assert honest.outcome == "consistent"
    early = replace(game, at=4).play(seed=0, runner=Runner(Execution(workers=1))).only
    assert early.present.mean() == pytest.approx(4.0, abs=1.5)
    for change, sentence in (
        ({"at": 17}, "`at` must be at most `steps`"),
        ({"runs": 0}, "`runs`"),
        ({"config": 3}, "DPSGDConfig"),
    ):
        with pytest.raises(InputError, match=sentence):
            replace(game, **change)


# ---------------------------------------------------------------------------------------------------- the list of bugs

ZOO = broken.dp_sgd_bugs()
HERE = Execution(workers=1)


def test_the_zoo_is_whole():
    assert [bug.row for bug in ZOO.values()] == [str(row) for row in range(1, 14)]
    assert all(2 * bug.runs <= 2000 for bug in ZOO.values())


@pytest.mark.parametrize("name", ZOO)
def test_every_bug_is_contradicted_and_its_honest_twin_is_not(name):
    """20 audits each: the broken trainer nearly always, the honest one no more often than 95% allows."""
    bug = ZOO[name]
    broken, honest = bug.broken.claim(1e-5), bug.honest.claim(1e-5)
    caught, alarms = 0, 0
    game = TrainedRuns(runs=bug.runs, config=bug.broken, **bug.attack)
    for seed in range(20):
        caught += judge(game.play(seed=seed, runner=Runner(HERE)).only, broken).contradicted
        alarms += judge(replace(game, config=bug.honest).play(seed=seed, runner=Runner(HERE)).only, honest).contradicted
    assert caught >= 18
    assert alarms <= 6


# ------------------------------------------------------------------------------------------------- S1, steps, one run


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_the_worst_case_is_tight_in_its_own_family(rate):
    """S1 with 20 steps and 4,000 models: near the substitute epsilon, above the add/remove one, three bounds given."""
    sigma = accounting.noise_multiplier_for(
        epsilon=4.0, delta=1e-5, sampling_rate=rate, steps=20, relation="substitute"
    )
    config = DPSGDConfig(noise_multiplier=sigma, sampling_rate=rate, steps=20, relation="substitute")
    x, y, canary = attacks.worst_case(config, records=20)
    game = TrainedRuns(
        config=config, x=x, y=y, canary=canary, score=attacks.TranscriptRatio(canary.present, config), runs=2000
    )
    found = da.audit(game, claim=config.claim(1e-5), execution=HERE, seed=1)
    free, gaussian, family = found.bounds
    plain = replace(config, relation="add-remove").claim(1e-5)
    assert plain.epsilon < family.epsilon <= config.claim(1e-5).epsilon
    assert family.epsilon > 0.85 * config.claim(1e-5).epsilon
    assert (free.guarantee, gaussian.guarantee, family.guarantee) == ("certified", "conditional", "conditional")
    assert "DP-SGD with sampling rate" in str(family)
    assert found.outcome == "consistent"
    runs = game.play(seed=1, runner=Runner(HERE)).only
    assert judge(runs, accounting.claimed_as(plain, "substitute")).contradicted


def test_the_transcript_ratio_is_the_likelihood_ratio():
    """E[exp(-ratio)] over the present world is 1, and it is no weaker than the sum (Neyman and Pearson)."""
    config = DPSGDConfig(noise_multiplier=1.5, sampling_rate=0.2, steps=10, relation="substitute")
    x, y, canary = attacks.worst_case(config, records=20)
    worlds = np.arange(20_000) % 2 == 0
    scores = [attacks.TranscriptRatio(canary.present, config), attacks.ReleasedSum(canary.present)]
    seen, _ = train(config, x, y, canary=canary, worlds=worlds, seed=3, observe=scores, width=1000)
    ratio = seen[0, 0].astype(float)
    weights = np.exp(-ratio[worlds])
    assert abs(weights.mean() - 1.0) < 4.0 * weights.std() / np.sqrt(weights.size)
    power = [np.mean(s[worlds] > np.quantile(s[~worlds], 0.95)) for s in seen[:, 0]]
    assert power[0] > power[1] - 0.01


def test_audits_at_several_steps_pay_for_them():
    config = DPSGDConfig(noise_multiplier=4.0, steps=16, relation="substitute")
    x, y, canary = attacks.worst_case(config, records=20)
    game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=attacks.ReleasedSum(canary.present), runs=400)
    runs = replace(game, at=(4, 16)).play_steps(seed=2, runner=Runner(HERE))
    assert runs[16] == game.play(seed=2, runner=Runner(HERE)).only
    together = estimators.by_step(runs, bound=estimators.mu_from_runs, delta=1e-5)
    alone = estimators.mu_from_runs(runs[16], confidence=0.975)
    assert together[16].mu == alone.mu
    assert together[16].simultaneous == 2
    assert "union over 2 steps" in together[16].selection
    assert together[16].p_value(alone.mu) <= 0.05
    assert together[4].mu < 1.0 < together[16].mu <= 2.0
    with pytest.raises(InputError, match="at least one step"):
        estimators.by_step({})
    for steps, sentence in (
        ([], "at least one step"),
        ([4, 4], "none twice"),
        ([17], r"`at` must be at most `steps` \(16\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            replace(game, at=steps)


def test_the_union_over_steps_covers():
    """Honest training, ten steps each: some bound passes its step's truth in no more games than 95% allows."""
    config = DPSGDConfig(noise_multiplier=2.0, steps=10)
    x, y, canary = attacks.worst_case(config, records=5)
    game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=attacks.ReleasedSum(canary.present), runs=100)
    game = replace(game, at=tuple(range(1, 11)))
    over = 0
    for seed in range(100):
        bounds = estimators.by_step(game.play_steps(seed=seed, runner=Runner(HERE)))
        over += any(bound.mu > np.sqrt(step) / 2.0 for step, bound in bounds.items())
    assert over <= stats.binom.ppf(1.0 - 1e-4, 100, 0.05)


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_many_gradients_in_one_run(relation):
    """m canaries on quiet coordinates: a quarter of the noise is caught, the whole of it is not contradicted."""
    config = DPSGDConfig(
        noise_multiplier=2.0, steps=4, learning_rate=0.1, loss="softmax", classes=10, relation=relation
    )
    x = np.hstack([X, np.zeros((60, 60), dtype=np.float32)])
    spots = attacks.quiet_coordinates(config, x, Y, count=500, seed=1)
    assert np.unique(spots).size == 500
    sneaky = replace(config, noise_multiplier=0.5)
    for trained, contradicted in ((config, False), (sneaky, True)):
        scores = games.GradientsInOneRun(config=trained, x=x, y=Y, coordinates=spots)
        game = games.OneRun(scores=scores, canaries=500, relation=relation)
        found = da.audit(game, claim=config.claim(1e-5), seed=4, execution=HERE)
        assert found.contradicted is contradicted
        assert found.bounds[1].mu <= trained.claim(1e-5).mu


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_many_records_in_one_run(relation):
    """Canary records (or pairs) in the data: without noise they show, with it they do not pass the promise."""
    rng = np.random.default_rng(8)
    rows, labels = rng.normal(size=(150, 300)).astype(np.float32), rng.integers(0, 2, 150)
    partners = (rows, 1 - labels) if relation == "substitute" else None
    rest = np.zeros((10, 300), dtype=np.float32), np.arange(10) % 2
    for sigma in (0.05, 4.0):
        config = DPSGDConfig(noise_multiplier=sigma, steps=30, clip=2.0, learning_rate=2.0, relation=relation)
        scores = games.RecordsInOneRun(config=config, x=rest[0], y=rest[1], canaries=(rows, labels), partners=partners)
        seen = games.OneRun(scores=scores, canaries=150, relation=relation).play(seed=5, runner=Runner(HERE)).only
        bound = estimators.epsilon_from_canaries(seen, delta=1e-5)
        if sigma < 1.0:
            assert bound.epsilon > 1.0
        assert bound.epsilon <= config.claim(1e-5).epsilon
    with pytest.raises(InputError, match="`partners` belong to substitution"):
        replace(scores, partners=None if relation == "substitute" else (rows, labels))


def test_a_crafted_input_keeps_its_length():
    """As printed, algorithm 3 draws the crafted gradient to zero; ours is as long as the target's, and opposed."""
    config = DPSGDConfig(noise_multiplier=2.0, steps=20, learning_rate=1.0, relation="substitute")
    reference = attacks.Reference(config, X, Y, seed=1)
    target = (X[reference.least_confident()], 1.0)
    own = np.linalg.norm(reference.gradient(target))
    sizes = {
        published: np.linalg.norm(
            reference.gradient(attacks.crafted_input(reference, target, published=published).absent)
        )
        for published in (False, True)
    }
    assert sizes[False] > 0.7 * own
    assert sizes[True] < 0.2 * own


def test_canaries_for_perceptrons():
    config = DPSGDConfig(
        noise_multiplier=1.0, steps=8, learning_rate=0.05, optimizer="adam", loss="softmax", classes=2, model=Mlp((6,)),
        relation="substitute",
    )  # fmt: skip
    reference = attacks.Reference(config, X, Y, seed=1)
    target = (X[reference.least_confident()], float(Y[reference.least_confident()]))
    crafted = attacks.crafted_input(reference, target, steps=60)
    assert reference.cosine(crafted.present, crafted.absent) < 0.2  # the same label pulls the last layer the same way
    quiet = attacks.least_updated(config, X, Y, seed=1)
    assert np.count_nonzero(quiet.present) == 1
    runs = audited(config, X, Y, quiet, attacks.Displacement(quiet.present), runs=64, seed=2)
    assert runs.present.mean() > runs.absent.mean()
    assert not judge(runs, config.claim(1e-5)).contradicted


def test_scores_that_say_their_relation():
    """A score that knows what its worlds switch is not audited for another adjacency."""

    class Own:
        relation = "substitute"

        def __call__(self, world, seed):
            return float(world) + np.random.default_rng(seed).normal()

    with pytest.raises(InputError, match="`relation` must be that of the score"):
        games.MultiRun(score=Own(), relation="add-remove", runs=5)
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    with pytest.raises(InputError, match="`relation` must be that of the score"):
        da.testing.assert_private(Own(), claim=claim)
    assert da.audit(Own(), claim=claim, runs=5, execution=HERE).outcome == "not comparable"


def test_worlds_that_differ_in_another_way_are_refused():
    """A pair is no evidence on add/remove, and a whole record none on its label."""
    plain, pair = DPSGDConfig(noise_multiplier=1.0), DPSGDConfig(noise_multiplier=1.0, relation="substitute")
    label = replace(pair, relation="label")
    gradient = np.zeros((7, 1))
    single, opposed = GradientCanary(gradient), GradientCanary(gradient, -gradient)
    flipped = InputCanary((X[0], 0.0), (X[0], 1.0))
    for config, canary in (
        (plain, opposed),
        (pair, single),
        (label, opposed),
        (label, InputCanary((X[0], 0.0), (X[1], 1.0))),
        (plain, flipped),
    ):
        with pytest.raises(InputError, match="do not differ by"):
            TrainedRuns(config=config, x=X, y=Y, canary=canary, score=attacks.ReleasedSum(gradient), runs=5)
    for config, canary in ((plain, single), (pair, opposed), (label, flipped), (pair, flipped)):
        TrainedRuns(config=config, x=X, y=Y, canary=canary, score=attacks.ReleasedSum(gradient), runs=5)
    reference = attacks.Reference(label, X, Y, seed=1)
    assert attacks.mislabelled(reference, (X[0], 0.0)).absent[1] == 1.0
    for make in (
        lambda: attacks.crafted_input(reference, (X[0], 0.0), steps=3),
        lambda: attacks.worst_case(label, records=3),
        lambda: attacks.least_updated(label, X, Y, seed=1),
    ):
        with pytest.raises(InputError, match="the relation is label"):
            make()
    scores = games.GradientsInOneRun(config=pair, x=X, y=Y, coordinates=[0, 1, 2])
    with pytest.raises(InputError, match="`relation` must be that of the score"):
        games.OneRun(scores=scores, canaries=3, relation="add-remove")


def test_an_audit_before_the_last_step_has_no_family_of_all_steps():
    config = DPSGDConfig(noise_multiplier=4.0, steps=16)
    x, y, canary = attacks.worst_case(config, records=1)
    game = TrainedRuns(config=config, x=x, y=y, canary=canary, score=attacks.ReleasedSum(canary.present), runs=50)
    assert len(da.audit(game, claim=config.claim(1e-5), execution=HERE).bounds) == 3
    assert len(da.audit(replace(game, at=4), claim=config.claim(1e-5), execution=HERE).bounds) == 2
