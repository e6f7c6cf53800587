"""When two results are the same: bit for bit where the arithmetic is that of the day of freezing, else very nearly.

Exponentials, sums and fits differ in their last bits from processor to processor and from one version of numpy to the
next. `arithmetic()` probes them; where the probe gives another hash than the committed `arithmetic.txt`, real numbers
may differ by 1e-6 of themselves and hashes of real arrays and figures are left out (sums of arrays are compared).
Coins, counts, words and hashes of whole numbers are compared exactly everywhere.
"""

import hashlib
import math
from pathlib import Path

import numpy as np
from scipy import linalg, special, stats

FROZEN = Path(__file__).parent / "arithmetic.txt"
NEARLY = 1e-6


def arithmetic():
    """A hash of what this machine and these versions make of a few thousand fixed numbers."""
    x = np.random.default_rng(0).normal(size=(60, 40))
    square = x.T @ x
    found = [x.sum(), x.mean(axis=0), np.exp(x), np.log(np.abs(x)), np.log1p(np.abs(x)), special.expit(x), square]
    found += [linalg.solve(square + np.eye(40), x[0]), np.linalg.eigvalsh(square), np.cumsum(x.ravel())]
    found += [stats.norm.cdf(x), stats.binom.sf(np.arange(60), 100, 0.3), special.betaincinv(3.0, 4.0, np.exp(-(x**2)))]
    raw = b"".join(np.asarray(value, dtype=np.float64).tobytes() for value in found)
    return hashlib.sha256(raw).hexdigest()


def same_arithmetic():
    return FROZEN.read_text(encoding="utf-8").strip() == arithmetic()


def differences(found, frozen, exact=True, where=""):
    """The places where two trees of plain values differ, as lines."""
    if isinstance(found, dict) and isinstance(frozen, dict):
        left_out = set() if exact else {"bits", "sha256"} if "sum" in found else {"bits"}  # a sum: of real numbers
        for name in sorted({*found, *frozen} - left_out):
            ours, theirs = found.get(name, "nothing"), frozen.get(name, "nothing")
            yield from differences(ours, theirs, exact, f"{where}/{name}")
    elif isinstance(found, list) and isinstance(frozen, list) and len(found) == len(frozen):
        for place, (one, other) in enumerate(zip(found, frozen, strict=True)):
            yield from differences(one, other, exact, f"{where}/{place}")
    elif found != frozen and (exact or not _near(found, frozen)):
        yield f"{where}: {found!r}, frozen {frozen!r}"


def _near(found, frozen):
    """Whether both are real numbers, written by `float.hex`, and nearly the same."""
    texts = isinstance(found, str) and isinstance(frozen, str)
    if not texts or not all(text.lstrip("-").startswith("0x") for text in (found, frozen)):
        return False
    return math.isclose(float.fromhex(found), float.fromhex(frozen), rel_tol=NEARLY, abs_tol=NEARLY**2)
