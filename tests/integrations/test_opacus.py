"""Audits of a training loop that uses Opacus: canaries go through its own clip, noise and sampling; bugs are seen."""

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import dpaudit as da
from dpaudit import InputError, accounting
from dpaudit.execution import Execution
from dpaudit.games import MultiRun, Runner
from dpaudit.integrations.opacus import BUGS, GradientCanary, InputCanary, claim, label_logit, least_updated
from dpaudit.integrations.opacus._loop import packages
from dpaudit.testing import check_score

torch, opacus = packages()  # their imports warn

CLIP, STEPS, RECORDS, FEATURES = 4.0, 4, 20, 5
BIAS = {2 * FEATURES: 1.0, 2 * FEATURES + 1: -1.0}
"""Both outputs' biases, against each other: the last parameter, and blind to noise that is the same everywhere."""
HERE = Execution(workers=1)


def data(records=RECORDS):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(records, FEATURES)).astype(np.float32)
    return torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy((x[:, 0] > 0).astype(np.int64)))


@dataclass(frozen=True)
class Build:
    """A linear model with two outputs, and DP-SGD on it: mu = 1 with the full batch of `STEPS` steps."""

    batch: int | None = None
    noise: float = 2.0
    rate: float = 0.1
    more: tuple[tuple[str, object], ...] = ()

    def __call__(self, dataset, seed):
        model = torch.nn.Linear(FEATURES, 2)
        inner = torch.optim.SGD(model.parameters(), lr=self.rate)
        loader = torch.utils.data.DataLoader(dataset, batch_size=self.batch or len(dataset), shuffle=True)
        settings = {"noise_multiplier": self.noise, "max_grad_norm": CLIP, **dict(self.more)}
        return opacus.PrivacyEngine().make_private(module=model, optimizer=inner, data_loader=loader, **settings)


@dataclass(frozen=True)
class Fit:
    steps: int = STEPS

    def __call__(self, model, optimizer, loader):
        done = 0
        while done < self.steps:
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                done += 1
                if done == self.steps:
                    return


def canary(*, build=None, fit=None, dataset=None, **more):
    loop = {"build": build or Build(), "fit": fit or Fit(), "dataset": data() if dataset is None else dataset}
    return GradientCanary(**loop, **{"gradient": BIAS, "sees": "steps"} | more)


def played(score, runs=100, seed=1, execution=HERE):
    return MultiRun(score=score, relation=score.relation, runs=runs).play(seed=seed, runner=Runner(execution)).only


def gaps(score, seeds):
    """Present less absent under one seed: the noise is the same, so what is left is the canary's own doing."""
    return np.array([score(True, seed) - score(False, seed) for seed in seeds])


# ---------------------------------------------------------------------------------------------------------- conformance


def test_importing_it_loads_no_torch():
    code = "import sys, dpaudit.integrations.opacus; print([m for m in ('torch', 'opacus') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "score",
    [
        lambda: canary(sees="model", gradient=3),
        lambda: canary(sees="steps", build=Build(batch=5), relation="substitute"),
        lambda: InputCanary(build=Build(), fit=Fit(), dataset=data(), record=(torch.ones(FEATURES), 1)),
        lambda: canary(bug="same_noise"),
    ],
    ids=["model", "steps", "input", "bug"],
)
def test_scores_keep_their_protocol(score):
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    check_score(score())
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_global_generators_of_a_loop_come_from_the_seed():
    def noisy_fit(model, optimizer, loader):
        Fit()(model, optimizer, loader)
        with torch.no_grad():
            next(model.parameters()).add_(float(np.random.normal()))  # noqa: NPY002 - as some loops do

    check_score(canary(fit=noisy_fit, sees="model", gradient=0))


def test_any_number_of_workers_gives_the_same_evidence():
    score = canary(build=Build(batch=5), fit=Fit())
    one, two = (played(score, runs=4, execution=Execution(workers=workers)) for workers in (1, 2))
    assert np.array_equal(one.present, two.present)
    assert np.array_equal(one.absent, two.absent)


# --------------------------------------------------------------------------------------------- the canary, to the digit


@pytest.mark.parametrize(("relation", "moves"), [("add-remove", 1), ("zero-out", 1), ("substitute", 2)])
@pytest.mark.parametrize("size", [0.5, 10.0, 1e4])
def test_canary_passes_the_clip(relation, moves, size):
    """lr = 0 keeps the data's part the same, so that the gap is T min(size, 1) C / B, times two for substitution."""
    score = canary(build=Build(rate=0.0), relation=relation, size=size)
    expected = moves * STEPS * CLIP * min(size, 1.0) / RECORDS
    assert gaps(score, [1, 2]) == pytest.approx([expected] * 2, rel=1e-4)


def test_displacement_without_noise_is_exact():
    """On features that are zero the least-updated coordinate moves by the canary alone: rate T C / B."""
    x, y = data().tensors
    x = x.clone()
    x[:, 3] = 0.0
    dataset = torch.utils.data.TensorDataset(x, y)
    build = Build(noise=0.0)
    where = least_updated(build, Fit(), dataset)
    assert where == 3
    score = canary(build=build, dataset=dataset, gradient=where, sees="model")
    assert score(False, 1) == 0.0
    assert score(True, 1) == pytest.approx(0.1 * STEPS * CLIP / RECORDS, rel=1e-5)
    arrays = [np.eye(2 * FEATURES)[where].reshape(2, FEATURES), np.zeros(2)]
    whole = canary(build=build, dataset=dataset, gradient=arrays, sees="model")
    assert whole(True, 1) == score(True, 1)


def test_least_updated_is_the_naive_sum():
    """Against a loop written out by hand."""
    seen = []

    def watched(model, optimizer, loader):
        for x, y in [batch for _ in range(STEPS) for batch in loader]:
            before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            seen.append((torch.cat([p.detach().flatten() for p in model.parameters()]) - before).abs())

    assert least_updated(Build(), watched, data(), seed=4) == int(torch.stack(seen).sum(dim=0).argmin())


def test_poisson_canary_has_the_rate_of_the_loader():
    """Also in empty batches: with rate 1/20 more than a third of them are."""
    for batch, rate in ((5, 0.25), (1, 0.05)):
        score = canary(build=Build(batch=batch, rate=0.0), fit=Fit(16))
        found = gaps(score, range(25)) / (CLIP / batch)
        assert found == pytest.approx(np.round(found), abs=1e-3)
        low, high = stats.binom.ppf([1e-5, 1 - 1e-5], 16 * 25, rate)
        assert low <= np.round(found).sum() <= high


def test_shuffled_canary_is_in_one_batch_an_epoch():
    build = Build(batch=5, rate=0.0, more=(("poisson_sampling", False),))
    found = gaps(canary(build=build, fit=Fit(8)), range(10)) / (CLIP / 5)
    assert found == pytest.approx(np.full(10, 2.0), rel=1e-4)


def test_canary_is_there_once_in_a_step_of_several_physical_batches():
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    def fit(model, optimizer, loader):
        for _ in range(STEPS):
            with BatchMemoryManager(data_loader=loader, max_physical_batch_size=6, optimizer=optimizer) as parts:
                for x, y in parts:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()

    assert gaps(canary(build=Build(rate=0.0), fit=fit), [1]) == pytest.approx([STEPS * CLIP / RECORDS], rel=1e-4)
    assert claim(Build(), fit, data(), delta=1e-5, relation="add-remove").terms["dp_sgd"]["steps"] == STEPS


# ------------------------------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("score", "relation"),
    [
        (lambda: canary(), "add-remove"),
        (lambda: canary(sees="model"), "add-remove"),
        (lambda: canary(relation="substitute"), "substitute"),
        (lambda: canary(build=Build(batch=5)), "add-remove"),
    ],
    ids=["full batch", "hidden steps", "substitute", "Poisson"],
)
def test_honest_loop_is_not_contradicted(score, relation):
    found = score()
    promised = claim(found.build, found.fit, found.dataset, delta=1e-5, relation=relation)
    assert not da.judge(played(found), promised, 0.999).contradicted


@pytest.mark.parametrize("bug", [name for name in BUGS if name != "realised_batch"])
def test_bug_is_contradicted(bug):
    score = canary(bug=bug)
    promised = claim(score.build, score.fit, score.dataset, delta=1e-5, relation="add-remove")
    assert da.judge(played(score), promised, 0.999).contradicted


def test_division_by_the_realised_batch_is_contradicted():
    """Seen where all data pull one way and the canary the other: then a mean moves twice as far as its share."""
    zeros = torch.utils.data.TensorDataset(torch.zeros(RECORDS, FEATURES), torch.zeros(RECORDS, dtype=torch.int64))
    build = Build(rate=0.01, more=(("max_grad_norm", 0.1),))
    honest = canary(build=build, dataset=zeros, sees="model")
    promised = claim(build, Fit(), zeros, delta=1e-5, relation="add-remove")
    assert promised.mu == pytest.approx(1.0)
    assert not da.judge(played(honest), promised, 0.999).contradicted
    assert da.judge(played(replace(honest, bug="realised_batch")), promised, 0.999).contradicted


def test_mutants_are_the_same_score_with_each_bug():
    score = InputCanary(build=Build(), fit=Fit(), dataset=data(), record=(torch.ones(FEATURES), 1))
    assert {name: mutant.bug for name, mutant in score.mutants().items()} == {name: name for name in BUGS}
    assert set(canary().mutants()) == set(BUGS)
    assert len(BUGS) == 8


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_leave_what_the_optimizer_says(bug):
    """The claim of a loop with a bug is the claim without it."""

    def build(dataset, seed):
        model, optimizer, loader = Build()(dataset, seed)
        BUGS[bug](optimizer)
        return model, optimizer, loader

    said = [claim(each, Fit(), data(), delta=1e-5, relation="add-remove").terms for each in (build, Build())]
    assert said[0] == said[1]


# ------------------------------------------------------------------------------------------------------- input canaries


def test_input_canary_is_what_build_gets():
    sizes = []

    def build(dataset, seed):
        sizes.append((type(dataset).__name__, len(dataset), dataset[len(dataset) - 1][1]))
        return Build()(dataset, seed)

    first, second = (torch.ones(FEATURES), 1), (-torch.ones(FEATURES), 0)
    score = InputCanary(build=build, fit=Fit(), dataset=data(), record=first)
    plain = InputCanary(build=build, fit=Fit(), dataset=list(data()), record=first, other=second)
    for world in (True, False):
        score(world, 1)
        plain(world, 1)
    assert [found[:2] for found in sizes] == [
        ("TensorDataset", RECORDS + 1),
        ("ConcatDataset", RECORDS + 1),
        ("TensorDataset", RECORDS),
        ("ConcatDataset", RECORDS + 1),
    ]
    assert [int(found[2]) for found in sizes[:2]] == [1, 1]
    assert int(sizes[3][2]) == 0
    assert (score.relation, plain.relation) == ("add-remove", "substitute")


def test_input_canary_shows_without_noise():
    """A record far away moves its own logit: the trained weights say that it was there."""
    record, other = (10 * torch.ones(FEATURES), 1), (10 * torch.ones(FEATURES), 0)
    build = Build(noise=0.0)
    for more in ({}, {"other": other}):
        assert gaps(InputCanary(build=build, fit=Fit(), dataset=data(), record=record, **more), [1, 2]).min() > 0.1


def test_input_canary_takes_one_logit_and_other_statistics():
    def loss(model, record):
        return -float(model(record[0][None]).detach().sum())

    score = InputCanary(build=Build(), fit=Fit(), dataset=data(), record=(torch.ones(FEATURES), 1), statistic=loss)
    assert isinstance(score(True, 1), float)
    single = torch.nn.Linear(FEATURES, 1)
    assert label_logit(single, (torch.ones(FEATURES), 1)) == -label_logit(single, (torch.ones(FEATURES), 0))


# --------------------------------------------------------------------------------------------------- claim and refusals


@pytest.mark.parametrize(("batch", "rate"), [(None, 1.0), (5, 0.25)])
def test_claim_is_the_accountants(batch, rate):
    found = claim(Build(batch=batch), Fit(6), data(), delta=1e-5, relation="substitute")
    right = accounting.dp_sgd(noise_multiplier=2.0, sampling_rate=rate, steps=6, delta=1e-5, relation="substitute")
    assert (found.epsilon, found.terms, found.relation) == (right.epsilon, right.terms, right.relation)


def changing_noise(model, optimizer, loader):
    for factor in (1.0, 0.5):
        optimizer.noise_multiplier *= factor
        Fit(1)(model, optimizer, loader)


def unshuffled(dataset, seed):
    model, optimizer, _ = Build(more=(("poisson_sampling", False),))(dataset, seed)
    return model, optimizer, torch.utils.data.DataLoader(dataset, batch_size=5)


@pytest.mark.parametrize(
    ("build", "fit", "sentence"),
    [
        (Build(batch=5, more=(("poisson_sampling", False),)), Fit(), "must draw Poisson samples, got 4 batches"),
        (Build(), lambda *loop: None, "must make at least one step"),
        (Build(), changing_noise, "must stay the same, got 1 to 2"),
        (lambda dataset, seed: None, Fit(), r"must return \(model, optimizer, loader\)"),
        (lambda dataset, seed: (1, torch.optim.SGD([torch.zeros(1)]), 2), Fit(), "make_private, got SGD"),
        (
            Build(
                more=(
                    ("clipping", "adaptive"),
                    ("target_unclipped_quantile", 0.5),
                    ("clipbound_learning_rate", 0.2),
                    ("max_clipbound", 9.0),
                    ("min_clipbound", 0.1),
                    ("unclipped_num_std", 2.0),
                )
            ),
            Fit(),
            "a fixed clip, got AdaClipDPOptimizer",
        ),
    ],
    ids=["shuffled", "no step", "schedule", "nothing", "plain optimizer", "adaptive clip"],
)
def test_loops_that_are_refused(build, fit, sentence):
    with pytest.raises(InputError, match=sentence):
        claim(build, fit, data(), delta=1e-5, relation="add-remove")


def test_loader_in_a_fixed_order_is_refused():
    with pytest.raises(InputError, match="got SequentialSampler"):
        canary(build=unshuffled)(True, 1)


def test_secure_mode_is_refused():
    def build(dataset, seed):
        model, optimizer, loader = Build()(dataset, seed)
        optimizer.secure_mode = True
        return model, optimizer, loader

    with pytest.raises(InputError, match="reproducible from its seed"):
        canary(build=build)(True, 1)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"relation": "label"}, "for add-remove, zero-out, substitute, got label"),
        ({"sees": "nothing"}, "`sees` must be one of"),
        ({"size": 0.0}, "`size` must be positive"),
        ({"bug": "typo"}, "`bug` must be one of 'half_noise'"),
        ({"gradient": "weights"}, "`gradient` must be a list"),
    ],
)
def test_canaries_that_are_refused(more, sentence):
    with pytest.raises(InputError, match=sentence):
        canary(**more)


@pytest.mark.parametrize(
    ("gradient", "sentence"),
    [
        (12, "at most 11, got 12"),
        ({0: 0.0}, "must not be zero"),
        ([np.ones(3)], r"must have the shapes \[\(2, 5\), \(2,\)\], got \[\(3,\)\]"),
    ],
)
def test_gradients_that_do_not_fit_the_model_are_refused(gradient, sentence):
    with pytest.raises(InputError, match=sentence):
        canary(gradient=gradient)(True, 1)


def test_records_are_pairs():
    with pytest.raises(InputError, match=r"`record` must be a pair \(x, y\), got list"):
        InputCanary(build=Build(), fit=Fit(), dataset=data(), record=[1, 2])


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(InputError, match=r"pip install 'dpaudit\[opacus\]'"):
        canary()(True, 1)
