"""From a test to a bound: theta is bounded by the hypotheses that the test rejects.

Root finding returns the *rejecting* end of its bracket. Bisection is used only where the p-value is known to be
nondecreasing in theta; everywhere else a grid fixed before the data is scanned upward (THEORY 2, conventions), and the
last grid point before the first one not rejected is reported, which holds whatever the shape of the p-value.
"""

from __future__ import annotations

from collections.abc import Callable

GRID_STEP = 0.01
GRID_CAP = 25.0


def bisect(
    rejected: Callable[[float], bool], *, cap: float, tolerance: float = 1e-6, at_least: float = 0.0
) -> tuple[float, bool]:
    """The largest theta in [at_least, cap] up to which a monotone test rejects, and whether the cap was reached.

    Returns `at_least` where nothing above it is rejected. `tolerance` is relative to theta (absolute below 1).
    """
    low, step = at_least, max(0.25, at_least / 4.0)
    if not rejected(low + tolerance * max(1.0, low)):
        return at_least, False
    high = min(cap, low + step)
    while rejected(high):
        if high >= cap:
            return cap, True
        low, step = high, 2.0 * step
        high = min(cap, high + step)
    while high - low > tolerance * max(1.0, low):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low, False


def scan(rejected: Callable[[float], bool], *, first: int = 0, cap: float = GRID_CAP) -> tuple[float, bool]:
    """The last point of the fixed grid before the first one not rejected; points before `first` are known to be."""
    index, last = first, round(cap / GRID_STEP)
    while index <= last and rejected(index * GRID_STEP):
        index += 1
    return max(0, index - 1) * GRID_STEP, index > last
