"""The sizes of paper 004's experiments, the paper's beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpaudit_experiments.common.figure import Sizes
from dpaudit_experiments.common.image_models import parameters
from dpaudit_experiments.paper_004 import texts as panoramia_texts

if TYPE_CHECKING:
    from dpaudit_experiments.paper_004.panoramia import Scale


def images(scale: Scale) -> Sizes:
    own = scale.images
    half = (own.members - own.generator_rows) // 2
    sizes = ", ".join(f"{parameters(width):,}" for width in own.widths)
    return [
        (
            "images",
            "CIFAR-10 (50,000) and CelebA (200,000), in colour",
            f"{own.source}, {own.members:,} silhouettes of 28 x 28 pixels, {own.random_labels:.0%} of labels random",
        ),
        (
            "image generator",
            "StyleGAN2, 10,000 or 35,000 images",
            f"pixel grids (autoregressive), {own.generator_rows:,} images, fitted once",
        ),
        (
            "image targets",
            "ResNet-101, WRN-28-10 (4M to 44M parameters), ViT, a CNN",
            f"CNNs, {sizes} parameters",
        ),
        ("epochs of image targets", "20, 50, 100; 150, 300", ", ".join(f"{epochs}" for epochs in own.epochs)),
        ("image guessers learn from", "2,250 members and as many generated", f"{half:,} of each"),
        (
            "image guessers",
            "ResNet-101 and a network of the loss, stacked",
            "a small CNN out of fold, boosted trees or a line on top",
        ),
        ("audited pairs of images", "10,000", f"{half:,}"),
        ("games on images", "5, the same test images", f"{own.games}, other parts and coins; targets trained once"),
        (
            "designs and learning curves",
            "5 (figure 11: up to 30,000 rows)",
            f"{own.few_games} games; shares {', '.join(f'{share:g}' for share in own.taught)} of the training rows",
        ),
    ]


def private_images(scale: Scale) -> Sizes:
    own = scale.images
    listed = ", ".join(f"{epsilon:g}" for epsilon in own.epsilons)
    return [
        *images(scale),
        ("private models", "ResNet-18, WRN-16-4, by Opacus", f"CNNs of {own.width} and {own.wide} channels, DP-SGD"),
        (
            "epsilon of private models",
            "1 to 20, delta 1e-5, relation not stated",
            f"{listed}, delta 1e-5, substitution",
        ),
        (
            "private training",
            "tuned for accuracy",
            f"{own.private_epochs} epochs, batches of {own.private_batch}; the twins: twice the epochs, other batches "
            "and clipping",
        ),
        ("tables 10 and 11", "without correction for the best recall", "corrected"),
    ]


def texts(scale: Scale) -> Sizes:
    own = [row for row in panoramia_texts.sizes(scale.texts) if row[0] != "games"]
    named = [(f"{what} of texts" if what == "audited pairs" else what, paper, ours) for what, paper, ours in own]
    games = f"{scale.texts.games}, other parts and coins; generator and targets trained once"
    return [*named, ("games on texts", "5", games)]


def tables(scale: Scale) -> Sizes:
    own = scale.tables
    audited = round(own.members * own.shares[2])
    return [
        ("table", "Adult", f"{own.source}, {own.members:,} members"),
        ("table generator", "MST with epsilon 1000", "sequential trees; tree marginals (as MST) and a copula beside"),
        (
            "table targets",
            "MLP (150, 100, 50, 10), 10 and 100 epochs",
            f"the same, {' and '.join(f'{epochs}' for epochs in own.epochs)} epochs; {own.trees} fully grown trees; "
            "private logistic regression",
        ),
        ("table guessers", "gradient boosting, grid search", "gradient boosting, three sizes by validation"),
        ("audited pairs of rows", "not stated", f"{audited:,}"),
        ("games on tables", "not stated", f"{own.games}, members and targets anew in each"),
    ]


def helpers(scale: Scale) -> Sizes:
    return [*images(scale), *texts(scale), *tables(scale)]


def all_three(scale: Scale) -> Sizes:
    return [*private_images(scale), *texts(scale), *tables(scale)]


def images_and_texts(scale: Scale) -> Sizes:
    return [*images(scale), *texts(scale)]


def images_and_tables(scale: Scale) -> Sizes:
    return [*images(scale), *tables(scale)]


def generators(scale: Scale) -> Sizes:
    beside = ("adversarial network", "StyleGAN2", f"a small one, {scale.adversarial_epochs} epochs on the same images")
    return [*images(scale), beside, *tables(scale)]
