"""Batched DP-SGD: a naive twin in float64, bitwise the same in any arrangement, coins and noise as they should be."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats
from threadpoolctl import threadpool_limits

from dpaudit import InputError, accounting
from dpaudit.mechanisms.dpsgd import (
    BLOCK,
    BUGS,
    CoordinateCanaries,
    DPSGDConfig,
    GradientCanary,
    InputCanary,
    Mlp,
    Module,
    bound_model,
    train,
)
from dpaudit.mechanisms.dpsgd import sampling as draws

with warnings.catch_warnings(action="ignore"):  # their imports warn
    import opacus
    import torch

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 5)).astype(np.float32)
LABELS = {"logistic": RNG.integers(0, 2, 30), "softmax": RNG.integers(0, 3, 30), "squared": RNG.normal(size=30)}


def naive(config, x, y, seed, model, canary=None, world=False):
    """One model, one record at a time, in float64; coins and noise drawn as the block draws them."""
    d, k = x.shape[1], config.classes
    block, place = divmod(model, BLOCK)
    weights, first, second = (np.zeros((d, k)) for _ in range(3))
    records = x.shape[0] + (canary is not None)
    for step in range(1, config.steps + 1):
        rng = draws.keyed(seed, block, step, draws.STEP)
        noise = draws.gaussian(rng, (d, BLOCK, k))[:, place, :] if config.noise_multiplier else 0.0
        taken = np.ones(x.shape[0], dtype=bool)
        canary_taken = True
        if config.sampling_rate < 1.0:
            coins = draws.coins(rng, (records, BLOCK), config.sampling_rate)[:, place]
            taken, canary_taken = coins[: x.shape[0]], coins[-1]
        total = np.zeros((d, k))
        for row, label, inside in zip(x, y, taken, strict=True):
            if inside:
                total += clipped(gradient(config, weights, row, label), config.clip)
        if canary is not None and canary_taken:
            total += clipped(canary(weights, world), config.clip)
        total += config.noise_multiplier * config.clip * noise
        mean = total / (config.sampling_rate * records)
        if config.optimizer == "momentum":
            first = 0.9 * first + mean
            mean = first
        elif config.optimizer == "adam":
            first, second = 0.9 * first + 0.1 * mean, 0.999 * second + 0.001 * mean**2
            mean = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = weights - config.learning_rate * mean
    return weights


def gradient(config, weights, row, label):
    logits = row.astype(float) @ weights
    if config.loss == "squared":
        residual = logits - label
    elif config.loss == "logistic":
        residual = special.expit(logits) - label
    else:
        residual = special.softmax(logits)
        residual[label] -= 1.0
    return np.outer(row, residual)


def clipped(found, clip):
    return found * min(1.0, clip / max(np.linalg.norm(found), 1e-30))


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(("loss", "classes"), [("logistic", 1), ("softmax", 3), ("squared", 1)])
@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_equal_to_a_naive_twin(loss, classes, optimizer, rate):
    config = DPSGDConfig(
        noise_multiplier=0.7,
        sampling_rate=rate,
        steps=6,
        clip=0.8,
        learning_rate=0.3,
        optimizer=optimizer,
        loss=loss,
        classes=classes,
    )
    _, final = train(config, X, LABELS[loss], models=70, seed=5)
    for model in (0, 63, 64, 69):
        assert final[model] == pytest.approx(naive(config, X, LABELS[loss], 5, model), rel=2e-3, abs=2e-4)


def test_canaries_go_the_same_way_as_everybody():
    """Clipped (its gradient is too long), sampled, and counted in the expected batch size."""
    config = DPSGDConfig(noise_multiplier=0.5, sampling_rate=0.5, steps=5, clip=0.8)
    long = np.full((5, 1), 3.0)
    worlds = np.arange(10) % 2 == 0
    _, final = train(config, X, LABELS["logistic"], canary=GradientCanary(long, -long), worlds=worlds, seed=2)
    for model in range(10):
        twin = naive(
            config, X, LABELS["logistic"], 2, model, lambda w, here: long if here else -long, bool(worlds[model])
        )
        assert final[model] == pytest.approx(twin, rel=2e-3, abs=2e-4)
    record = (np.array([2.0, 0.0, 1.0, 0.0, -1.0], dtype=np.float32), 1.0)
    _, final = train(config, X, LABELS["logistic"], canary=InputCanary(record), worlds=worlds, seed=2)

    def crafted(weights, here):
        return gradient(config, weights, *record) if here else np.zeros((5, 1))

    for model in range(4):
        twin = naive(config, X, LABELS["logistic"], 2, model, crafted, bool(worlds[model]))
        assert final[model] == pytest.approx(twin, rel=2e-3, abs=2e-4)


def test_bitwise_the_same_in_any_arrangement():
    """More models after them, or the second block as a job of its own: the same numbers to the last bit."""
    config = DPSGDConfig(noise_multiplier=1.0, sampling_rate=0.3, steps=8, random_start=True)
    worlds = np.random.default_rng(1).random(150) < 0.5
    canary = GradientCanary(np.eye(5)[:, :1], -np.eye(5)[:, :1])
    y = LABELS["logistic"]
    seen, whole = train(config, X, y, canary=canary, worlds=worlds, seed=9, observe=[lambda s: s.weights[0, :, 0]])
    _, few = train(config, X, y, canary=canary, worlds=worlds[:70], seed=9)
    _, second = train(config, X, y, canary=canary, worlds=worlds[64:128], seed=9, first_block=1)
    assert np.array_equal(whole[:70], few)
    assert np.array_equal(whole[64:128], second)
    assert np.array_equal(seen[0, 0], whole[:, 0, 0])
    _, threaded = train(config, X, y, canary=canary, worlds=worlds, seed=9, threads=2)
    assert np.array_equal(threaded, whole)
    assert not np.array_equal(whole[:64], train(config, X, y, models=64, seed=10)[1])


def test_a_turned_basis_changes_no_law():
    """Fewer records than features: without noise the same models as record by record, with it the same distribution."""
    wide = np.random.default_rng(2).normal(size=(6, 9)).astype(np.float32)
    y = np.arange(6) % 2
    config = DPSGDConfig(noise_multiplier=0.0, sampling_rate=0.5, steps=5, clip=0.8, optimizer="momentum")
    record = (wide[0] + 1.0, 1.0)

    def crafted(weights, here):
        return gradient(config, weights, *record) if here else np.zeros((9, 1))

    for canary, twin_canary in (
        (InputCanary(record), crafted),
        (GradientCanary(np.eye(9)[:, 4:5]), lambda _, here: np.eye(9)[:, 4:5] * here),
    ):
        worlds = [True, False, True]
        score = [lambda s: s.weights[4, :, 0], lambda s: s.outputs(wide[:1])[0, :, 0]]
        seen, final = train(config, wide, y, canary=canary, worlds=worlds, seed=3, observe=score)
        for model, world in enumerate(worlds):
            twin = naive(config, wide, y, 3, model, twin_canary, world)
            assert final[model] == pytest.approx(twin, rel=2e-3, abs=2e-4)
            assert seen[:, 0, model] == pytest.approx([twin[4, 0], float(wide[0] @ twin[:, 0])], rel=2e-3, abs=2e-4)
    noisy = replace(config, noise_multiplier=1.0)
    _, turned = train(noisy, wide, y, models=3000, seed=4)
    still = np.vstack([wide, np.zeros((6, 9), dtype=np.float32)])  # as many rows as columns: no basis is turned
    _, plain = train(noisy, still, np.append(y, y), models=3000, seed=5, records=6)
    for coordinate in (0, 8):
        assert stats.ks_2samp(turned[:, coordinate, 0], plain[:, coordinate, 0]).pvalue > 1e-3


def test_observers_see_the_steps_they_ask_for():
    config = DPSGDConfig(noise_multiplier=1.0, steps=6)
    seen, _ = train(
        config, X, LABELS["logistic"], models=5, seed=1, observe=[lambda s: np.full(64, s.step)], at=[2, 6, 2]
    )
    assert seen[0].tolist() == [[2.0] * 5, [6.0] * 5, [2.0] * 5]


def test_noise_and_coins_have_their_laws():
    """On zero data the released sum is the noise; a canary of one coordinate shows how often it was sampled."""
    config = DPSGDConfig(noise_multiplier=2.0, steps=1, clip=0.5, learning_rate=1.0)
    zeros = np.zeros((9, 3), dtype=np.float32)
    seen, _ = train(config, zeros, np.zeros(9), models=4000, seed=3, observe=[lambda s: s.released[1, :, 0]])
    assert stats.kstest(seen[0, 0] / 1.0, "norm").pvalue > 1e-3
    quiet = replace(config, noise_multiplier=0.0, sampling_rate=0.3, steps=10)
    canary = GradientCanary(np.array([[0.5], [0.0], [0.0]]))
    total, _ = train(
        quiet,
        zeros,
        np.zeros(9),
        canary=canary,
        worlds=np.ones(2000, bool),
        seed=3,
        observe=[lambda s: s.total[0, :, 0]],
    )
    counts = np.bincount(np.round(total[0, 0] / 0.5).astype(int), minlength=11)[:11]
    expected = 2000 * stats.binom.pmf(np.arange(11), 10, 0.3)
    kept = expected > 5
    assert stats.chisquare(counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()).pvalue > 1e-3


def test_the_claim_is_the_accountants():
    config = DPSGDConfig(noise_multiplier=1.2, sampling_rate=0.2, steps=7, relation="substitute")
    expected = accounting.dp_sgd(noise_multiplier=1.2, sampling_rate=0.2, steps=7, delta=1e-5, relation="substitute")
    assert config.claim(1e-5) == expected


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be at least 0"),
        ({"sampling_rate": 0.0}, "`sampling_rate` must be"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"optimizer": "lion"}, "`optimizer` must be one of"),
        ({"loss": "hinge"}, "`loss` must be one of"),
        ({"loss": "softmax"}, "`classes` must be at least 2"),
        ({"classes": 3}, "`classes` must be 1 for the logistic loss"),
        ({"relation": "near"}, "`relation` must be one of"),
    ],
)
def test_recipes_that_make_no_sense(change, sentence):
    with pytest.raises(InputError, match=sentence):
        DPSGDConfig(**{"noise_multiplier": 1.0, **change})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"x": X[:5]}, "a row for each of 30 labels"),
        ({"x": np.full((30, 5), np.nan)}, "`x` must be finite"),
        ({"worlds": [True]}, "belong together"),
        ({"models": 0}, "`models` must be at least 1"),
        ({"models": 3, "canary": GradientCanary(np.ones((5, 1))), "worlds": [True]}, "the number of worlds"),
        ({"at": [9]}, "`at` must be at most 4"),
    ],
)
def test_refusals(arguments, sentence):
    given = {"x": X, "y": LABELS["logistic"], "seed": 1, **({"models": 2} if "worlds" not in arguments else {})}
    with pytest.raises(InputError, match=sentence):
        train(DPSGDConfig(noise_multiplier=1.0, steps=4), **{**given, **arguments})


# ------------------------------------------------------------------------------------------------- perceptrons, modules

DEEP = DPSGDConfig(
    noise_multiplier=0.6, sampling_rate=0.5, steps=4, clip=0.7, learning_rate=0.1, loss="softmax", classes=3
)


def build_mlp():
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))


def build_cnn():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 2), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(2 * 3 * 3, 2)
    )


def as_module_order(flat):
    """A perceptron's flat parameters (input x output with the bias row last) as torch keeps them (output x input)."""
    first, second = flat[: 6 * 7].reshape(6, 7), flat[6 * 7 :].reshape(8, 3)
    return np.concatenate([first[:-1].T.ravel(), first[-1], second[:-1].T.ravel(), second[-1]])


@pytest.mark.parametrize("bug", [None, "layer_clip", "batch_clip", "private_scaling", "double_clip"])
def test_perceptrons_and_modules_have_the_same_gradients(bug):
    """Closed forms against torch.func on the same parameters: lengths, clipped sums, canaries, outputs."""
    y = LABELS["softmax"]
    closed = bound_model(replace(DEEP, model=Mlp((7,))), X, y)
    generic = bound_model(replace(DEEP, model=Module(build_mlp)), X, y)
    weights = closed.start(draws.keyed(1, 0, 0, 0), 4, same=False)
    twin = np.stack([as_module_order(flat) for flat in weights[0]])[None]
    coins = np.random.default_rng(3).random((30, 4)) < 0.5
    one, other = closed.look(weights, coins), generic.look(twin, coins)
    assert closed.lengths(one) * coins == pytest.approx(generic.lengths(other) * coins, rel=1e-4, abs=1e-6)
    factors = np.where(coins, np.random.default_rng(4).random((30, 4)), 0.0).astype(np.float32)
    found = np.stack([as_module_order(flat) for flat in closed.combine(one, factors)[0]])
    assert found == pytest.approx(generic.combine(other, factors)[0], rel=1e-4, abs=1e-6)
    mine, theirs = closed.record_gradients(weights, X[0], 1.0), generic.record_gradients(twin, X[0], 1.0)
    assert np.stack([as_module_order(flat) for flat in mine[0]]) == pytest.approx(theirs[0], rel=1e-4, abs=1e-6)
    assert closed.outputs(weights, X) == pytest.approx(generic.outputs(twin, X), rel=1e-4, abs=1e-6)
    ours = closed.input_gradients(weights, X[0], 1.0)
    assert ours == pytest.approx(generic.input_gradients(twin, X[0], 1.0), rel=1e-4, abs=1e-6)
    for model in (Mlp((7,)), Module(build_mlp)):
        config = replace(DEEP, model=model, bug=bug)
        canary = InputCanary((X[0], 1.0), (X[1], 2.0))
        _, final = train(config, X, y, canary=canary, worlds=[True, False] * 3, seed=1, width=6)
        assert np.isfinite(final).all()


def test_modules_are_bitwise_the_same_in_any_arrangement():
    images = np.random.default_rng(5).normal(size=(12, 16)).astype(np.float32)
    config = DPSGDConfig(
        noise_multiplier=1.0, sampling_rate=0.5, steps=3, loss="softmax", classes=2, optimizer="adam",
        model=Module(build_cnn, input_shape=(1, 4, 4)), random_start=True,
    )  # fmt: skip
    y = np.arange(12) % 2
    _, whole = train(config, images, y, models=100, seed=2)
    _, second = train(config, images, y, models=36, seed=2, first_block=1)
    assert np.array_equal(whole[64:], second)
    assert not np.array_equal(whole[0], whole[1])
    _, threaded = train(config, images, y, models=100, seed=2, threads=2)
    assert np.array_equal(whole, threaded)


def test_modules_that_mix_examples_are_refused():
    def build():
        return torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))

    with pytest.raises(InputError, match="must have no buffers"):
        bound_model(replace(DEEP, model=Module(build)), X, LABELS["softmax"])
    with pytest.raises(InputError, match="`hidden` must name at least one layer"):
        Mlp(())
    with pytest.raises(InputError, match="`model` must be None, an Mlp or a Module"):
        replace(DEEP, model="resnet")


# --------------------------------------------------------------------------------------------------------------- Opacus


def opacus_twin(config, x, y, batches, start, build, optimizer):
    """The same training by Opacus, with the noise off and these batches."""
    torch.manual_seed(0)
    model = build()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), start, strict=True):
            parameter.copy_(torch.from_numpy(value.copy()))
    private = opacus.GradSampleModule(model, loss_reduction="sum")
    tuned = opacus.optimizers.DPOptimizer(
        optimizer(private.parameters(), lr=config.learning_rate),
        noise_multiplier=0.0,
        max_grad_norm=config.clip,
        expected_batch_size=config.sampling_rate * y.size,
        loss_reduction="sum",
    )
    tuned.expected_batch_size, tuned.loss_reduction = config.sampling_rate * y.size, "mean"
    labels, rows = torch.from_numpy(y), torch.from_numpy(x)
    for chosen in batches:
        tuned.zero_grad()
        logits = private(rows[chosen])
        if config.loss == "softmax":
            loss = torch.nn.functional.cross_entropy(logits, labels[chosen], reduction="sum")
        else:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                logits[:, 0], labels[chosen].float(), reduction="sum"
            )
        loss.backward()
        tuned.step()
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("kind", ["logistic", "softmax", "mlp"])
def test_equal_to_opacus_without_noise(kind, optimizer):
    """The same batches, 20 steps: the parameters agree to 1e-5 of their size."""
    loss, classes = ("logistic", 1) if kind == "logistic" else ("softmax", 3)
    y = LABELS[loss]
    config = DPSGDConfig(
        noise_multiplier=0.0, sampling_rate=0.5, steps=20, clip=0.6, learning_rate=0.05, optimizer=optimizer,
        loss=loss, classes=classes, model=Mlp((7,)) if kind == "mlp" else None,
    )  # fmt: skip
    _, final = train(config, X, y, models=1, seed=4)
    batches = [
        np.flatnonzero(draws.coins(draws.keyed(4, 0, step, draws.STEP), (30, BLOCK), 0.5)[:, 0])  # no noise before them
        for step in range(1, 21)
    ]
    make = {
        "sgd": torch.optim.SGD,
        "momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
        "adam": torch.optim.Adam,
    }[optimizer]
    if kind == "mlp":
        model = bound_model(config, X, y)
        flat = as_module_order(model.start(draws.keyed(0, 0, 0, draws.START), BLOCK, same=True)[0, 0])
        cuts = np.cumsum([35, 7, 21])
        start = [p.reshape(s) for p, s in zip(np.split(flat, cuts), [(7, 5), (7,), (3, 7), (3,)], strict=True)]
        found, build = as_module_order(final[0, 0]), build_mlp
    else:
        start, found = [np.zeros((classes, 5), dtype=np.float32)], final[0].T.ravel()

        def build():
            return torch.nn.Linear(5, classes, bias=False)

    with warnings.catch_warnings(action="ignore"):
        twin = opacus_twin(config, X, y, batches, start, build, make)
    assert np.linalg.norm(found - twin) <= 1e-5 * np.linalg.norm(twin)


def test_equal_to_opacus_in_law():
    """The canary's coordinate after noisy training: 2,000 models of ours against 2,000 of Opacus's own optimizer."""
    config = DPSGDConfig(noise_multiplier=0.8, sampling_rate=0.5, steps=5, clip=0.6, learning_rate=0.5)
    still, y = np.zeros((4, 3), dtype=np.float32), np.zeros(4)
    canary = GradientCanary(np.array([[5.0], [0.0], [0.0]]))
    _, final = train(config, still, y, canary=canary, worlds=[True] * 2000, seed=8)
    generator, coins = torch.Generator().manual_seed(3), np.random.default_rng(3)
    theirs = []
    for _ in range(2000):
        weight = torch.nn.Parameter(torch.zeros(3))
        tuned = opacus.optimizers.DPOptimizer(
            torch.optim.SGD([weight], lr=0.5),
            noise_multiplier=0.8,
            max_grad_norm=0.6,
            expected_batch_size=0.5 * 5,
            generator=generator,
        )
        tuned.expected_batch_size = 0.5 * 5
        for _step in range(5):
            sampled = coins.random(5) < 0.5  # four records without a gradient, and the canary
            rows = torch.zeros(int(sampled.sum()), 3)
            if sampled[-1]:
                rows[-1, 0] = 5.0
            weight.grad_sample = rows
            tuned.step()
            tuned.zero_grad()
        theirs.append(float(weight.detach()[0]))
    assert stats.ks_2samp(final[:, 0, 0], theirs).pvalue > 1e-3


# ------------------------------------------------------------------------------------------------------- many canaries


def test_coordinate_canaries():
    config = DPSGDConfig(noise_multiplier=0.0, steps=2, clip=0.5, learning_rate=1.0, relation="substitute")
    canaries = CoordinateCanaries([3, 1], 2.0, opposed=True)
    zeros = np.zeros((8, 5), dtype=np.float32)
    _, final = train(config, zeros, np.zeros(8), canary=canaries, worlds=[[True], [False]], seed=1, width=1)
    assert final[0, :, 0].tolist() == pytest.approx([0.0, 0.1, 0.0, -0.1, 0.0])  # clipped to 0.5, of 10 records
    for change, sentence in (
        ({"coordinates": [1, 1]}, "different numbers"),
        ({"coordinates": []}, "different numbers"),
        ({"coordinates": [7, 1]}, "below the number of parameters"),
    ):
        with pytest.raises(InputError, match=sentence):
            train(
                config,
                zeros,
                np.zeros(8),
                canary=replace(canaries, **change),
                worlds=[[True], [False]],
                seed=1,
                width=1,
            )
    with pytest.raises(InputError, match="a row for each of 2 canaries"):
        train(config, zeros, np.zeros(8), canary=canaries, worlds=[True], seed=1)


def test_normals_are_normal():
    drawn = draws.gaussian(draws.keyed(1, 2, 3, 4), (3, 64, 5001)).astype(float)
    assert stats.kstest(drawn.ravel()[:200_000], "norm").pvalue > 1e-3
    assert drawn.std() == pytest.approx(1.0, abs=0.005)
    assert abs(np.corrcoef(drawn.ravel()[:480_000], drawn.ravel()[480_000:960_000])[0, 1]) < 0.006
    rate = draws.coins(draws.keyed(1, 2, 3, 5), (1000, 1000), 0.3).mean()
    assert rate == pytest.approx(0.3, abs=0.002)


def test_labels_without_an_output_are_refused():
    with pytest.raises(InputError, match=r"labels 0 to 1 for the logistic loss, got 2"):
        train(DPSGDConfig(noise_multiplier=1.0), X, LABELS["softmax"] % 3, models=1, seed=1)


def test_every_bug_is_known():
    assert len(BUGS) == 16
    for bug in BUGS:
        config = DPSGDConfig(noise_multiplier=1.0, sampling_rate=0.5, steps=3, relation="substitute", bug=bug)
        _, final = train(config, X, LABELS["logistic"], canary=GradientCanary(np.ones((5, 1))), worlds=[True], seed=1)
        assert np.isfinite(final).all()
    with pytest.raises(InputError, match="a bug under substitution"):
        DPSGDConfig(noise_multiplier=1.0, bug="add_remove_accounting")


def test_bitwise_the_same_on_any_number_of_threads():
    """Sizes at which linear algebra would share its work among threads."""
    wide = np.random.default_rng(1).normal(size=(300, 400)).astype(np.float32)
    y = np.arange(300) % 2
    for features in (400, 200):  # with and without a turned basis
        config = DPSGDConfig(noise_multiplier=1.0, sampling_rate=0.5, steps=3)
        _, one = train(config, wide[:, :features], y, models=128, seed=1)
        with threadpool_limits(1):
            _, limited = train(config, wide[:, :features], y, models=128, seed=1)
        _, two = train(config, wide[:, :features], y, models=128, seed=1, threads=2)
        assert np.array_equal(one, limited)
        assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"seed": None}, "`seed`"),
        ({"width": 0}, "`width` must be at least 1"),
        ({"first_block": -1}, "`first_block` must be at least 0"),
        ({"at": []}, "`at` must name at least one step"),
        ({"canary": GradientCanary(np.ones(4))}, "must have 5 entries"),
        ({"canary": InputCanary((np.ones(4), 1.0))}, "must have 5 features"),
        ({"canary": InputCanary((np.ones(5), 7.0))}, "labels 0 to 1"),
        ({"canary": np.ones(5)}, "`canary` must be a GradientCanary"),
        ({"worlds": []}, "`worlds` must hold at least one"),
        ({"worlds": [[3.5, 0.0]]}, "`worlds` must"),
    ],
)
def test_misuse_is_a_sentence(change, sentence):
    given = {"canary": GradientCanary(np.ones((5, 1))), "worlds": [True], "seed": 1, **change}
    with pytest.raises(InputError, match=sentence):
        train(DPSGDConfig(noise_multiplier=1.0, steps=2), X, LABELS["logistic"], **given)


def test_canaries_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match="a finite gradient"):
        GradientCanary(np.array([np.nan]))
    with pytest.raises(InputError, match="a finite record"):
        InputCanary((np.array([np.inf]), 1.0))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: torch.nn.Linear(5, 7), "must give 3 outputs"),
        (lambda: torch.nn.Linear(4, 3), "cannot read a row"),
        (
            lambda: torch.nn.Sequential(torch.nn.Linear(5, 300), torch.nn.Dropout(), torch.nn.Linear(300, 3)),
            "no random",
        ),
        (lambda: torch.nn.ReLU(), "must have parameters"),
        (lambda: None, "must return a torch module"),
    ],
)
def test_modules_that_do_not_fit_are_refused(build, sentence):
    with pytest.raises(InputError, match=sentence):
        bound_model(replace(DEEP, model=Module(build)), X, LABELS["softmax"])


def test_bugs_that_a_model_cannot_have_are_refused():
    with pytest.raises(InputError, match="at least two parameters"):
        train(DPSGDConfig(noise_multiplier=1.0, bug="silent_group"), X[:, :1], LABELS["logistic"], models=1, seed=1)


def test_small_chunks_change_no_length(monkeypatch):
    """Gradients of a few examples at a time, and of all at once."""
    whole = bound_model(replace(DEEP, model=Module(build_mlp)), X, LABELS["softmax"])
    monkeypatch.setattr("dpaudit.mechanisms.dpsgd.modules.FLOATS_IN_MEMORY", 200)
    parts = bound_model(replace(DEEP, model=Module(build_mlp)), X, LABELS["softmax"])
    weights = whole.start(draws.keyed(1, 0, 0, 0), 3, same=False)
    one, other = whole.look(weights, None), parts.look(weights, None)
    assert whole.lengths(one) == pytest.approx(parts.lengths(other), rel=1e-5)
    factors = np.ones((30, 3), dtype=np.float32)
    assert whole.combine(one, factors) == pytest.approx(parts.combine(other, factors), rel=1e-4, abs=1e-5)
