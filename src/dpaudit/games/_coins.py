"""Coins that are drawn before the run, and the hash by which one commits to them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit import _validate as check
from dpaudit._validate import InputError
from dpaudit.execution import stream

GUESSABLE = 2**64
HINT = "python -c 'import secrets; print(secrets.randbits(128))' makes one"


def fair_coins(seed: int, purpose: str, count: int) -> NDArray[np.bool_]:
    """Fair and independent, a function of the seed alone."""
    return stream(check.count("seed", seed), purpose).random(count) < 0.5


def paired_worlds(seed: int, purpose: str, pairs: int) -> NDArray[np.bool_]:
    """Worlds of runs: of every two one is with the record, and a fair coin says which."""
    first = fair_coins(seed, purpose, pairs)
    return np.stack([first, ~first], axis=1).ravel()


def commitment(seed: int, purpose: str, coins: NDArray[np.bool_]) -> str:
    """sha256 of the purpose, the seed and the coins that it gives."""
    text = f"dpaudit coins 1\n{purpose}\n{seed}\n{coins.size}\n".encode()
    return "sha256:" + hashlib.sha256(text + np.packbits(coins).tobytes()).hexdigest()


def hides(seed: int) -> bool:
    """Whether the seed is too long to be guessed from the hash by trying."""
    return seed >= GUESSABLE


def verify(game: Any, *, seed: int, published: str) -> None:
    """Refuse a seed whose coins are not those that were committed to.

    >>> from dpaudit.games import OneRun
    >>> game = OneRun(scores=lambda included, seed: included, canaries=100, relation="add-remove")
    >>> verify(game, seed=2**100, published=game.commitment(2**100))
    """
    found = game.commitment(check.count("seed", seed))
    if found != published:
        raise InputError(
            f"the coins of this seed and game are not those that were committed to: {found} against {published}.",
            "seed, number of canaries or runs, and version must be those of the commitment.",
        )
