"""Exact tests of right guesses, and from a test to a bound; everything here is a pure function of counts.

Binomial limits and tails that keep their accuracy (theory:curves#binomial), crossing probabilities of a path of guesses
(theory:selection#guess-path), its wealth (theory:sequential#guess-wealth), sums of coins with different biases
(theory:zero-run#signed), the recursion of an f-DP curve (theory:one-run#f-dp).

Root finding returns the *rejecting* end of its bracket. Bisection is used only where the p-value is known to be
nondecreasing in theta; everywhere else a grid fixed before the data is scanned upward (theory:curves#inversion), and
the last grid point before the first one not rejected is reported, which holds whatever the shape of the p-value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

TIE = 1e-9
"""Relative slack when tails are compared: a tie lost to rounding would make a p-value too small.

See theory:selection#guess-path.
"""
GRID_STEP = 0.01
GRID_CAP = 25.0
Slack = Callable[[float], float]


def upper_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson upper limit of a rate: P(Bin(n, U) <= x) = alpha; 1 when all succeeded (theory:curves#binomial).

    >>> round(upper_limit(0, 100, 0.05), 6)
    0.029513
    """
    if successes >= trials:
        return 1.0
    return float(special.betainccinv(successes + 1, trials - successes, alpha))


def lower_limit(successes: int, trials: int, alpha: float) -> float:
    """Clopper-Pearson lower limit of a rate: P(Bin(n, L) >= x) = alpha; 0 if none did (theory:curves#binomial)."""
    if successes <= 0:
        return 0.0
    return float(special.betaincinv(successes, trials - successes + 1, alpha))


def tail(successes: int, trials: int, p: float) -> float:
    """P(Bin(trials, p) >= successes), by the regularised incomplete beta function."""
    if successes <= 0:
        return 1.0
    if successes > trials:
        return 0.0
    return float(special.betainc(successes, trials - successes + 1, p))


def log_pmf(k: NDArray[np.int64], trials: int, p: float) -> NDArray[np.float64]:
    """log P(Bin(trials, p) = k), -inf outside 0..trials."""
    k = np.asarray(k)
    inside = (k >= 0) & (k <= trials)
    j = np.where(inside, k, 0)
    choose = special.gammaln(trials + 1) - special.gammaln(j + 1) - special.gammaln(trials - j + 1)
    value = choose + special.xlogy(j, p) + special.xlog1py(trials - j, -p)
    return np.where(inside, value, -np.inf)


def pmf(k: NDArray[np.int64], trials: int, p: float) -> NDArray[np.float64]:
    """P(Bin(trials, p) = k)."""
    return np.exp(log_pmf(k, trials, p))


def two_sided_fair(heads: int, tosses: int) -> float:
    """Exact two-sided p-value of `tosses` fair coins showing `heads` heads."""
    extreme = max(heads, tosses - heads)
    return min(1.0, 2.0 * tail(extreme, tosses, 0.5))


def critical_value(level: float, trials: int, p: float) -> int:
    """The smallest v with P(Bin(trials, p) >= v) <= level (trials + 1 when there is none)."""
    low, high = 0, trials + 1  # the tail at 0 is 1, at trials + 1 it is 0
    if level >= 1.0:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        if tail(middle, trials, p) <= level:
            high = middle
        else:
            low = middle
    return high


WINDOW_DEVIATIONS = 10.0
ROUNDING = 1.0 + 1e-8
"""Log-gamma of a million is right to about nine digits; sums of such terms are raised by this factor."""


def crossing_probability(ranks: Sequence[int], critical: Sequence[int], p: float) -> float:
    """P(there is a k with W_k >= critical_k) for W_k = number of successes among the first ranks_k i.i.d. trials.

    An upper bound, exact to rounding: convolution between the ranks inside windows of ten standard deviations, the
    mass outside them added. The absorbed mass is summed (one minus the survivors would cancel below 1e-15), and all
    terms are positive, so small probabilities keep their relative accuracy. `ranks` increase.
    (theory:selection#guess-path)
    """
    start, alive = 0, np.ones(1)  # alive[i] = P(W = start + i, not absorbed yet)
    absorbed, lost, before = 0.0, 0.0, 0
    for rank, limit in zip(ranks, critical, strict=True):
        first, step, missed = _increments(rank - before, p)
        lost += missed * float(alive.sum())
        alive, start = np.convolve(alive, step), start + first
        cut = min(max(limit - start, 0), alive.size)
        absorbed += float(alive[cut:].sum())
        alive, before = alive[:cut], rank
        if alive.size == 0:
            return min(1.0, (absorbed + lost) * ROUNDING)
        keep_from, keep_to = _window(rank, p)
        low, high = max(keep_from - start, 0), min(keep_to + 1 - start, alive.size)
        if low < high:
            lost += float(alive[:low].sum()) + float(alive[high:].sum())
            alive, start = alive[low:high], start + low
    return min(1.0, (absorbed + lost) * ROUNDING)


def _window(trials: int, p: float) -> tuple[int, int]:
    """The counts within ten standard deviations (and ten counts) of the mean."""
    reach = WINDOW_DEVIATIONS * math.sqrt(trials * p * (1.0 - p)) + WINDOW_DEVIATIONS
    return max(0, math.floor(trials * p - reach)), min(trials, math.ceil(trials * p + reach))


def _increments(trials: int, p: float) -> tuple[int, NDArray[np.float64], float]:
    """First count, probabilities and left-out mass of Bin(trials, p) inside its window."""
    low, high = _window(trials, p)
    below = float(special.betaincc(low, trials - low + 1, p)) if low > 0 else 0.0
    return low, pmf(np.arange(low, high + 1), trials, p), below + tail(high + 1, trials, p)


# ----------------------------------------------------------------------------------------------- from a test to a bound


def bisect(
    rejected: Callable[[float], bool], *, cap: float, tolerance: float = 1e-6, at_least: float = 0.0
) -> tuple[float, bool]:
    """The largest theta in [at_least, cap] up to which a monotone test rejects, and whether the cap was reached.

    Returns `at_least` where nothing above it is rejected. `tolerance` is relative to theta (absolute below 1).
    See theory:curves#inversion.
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


# ---------------------------------------------------------------------------------------------- the path of equal coins


def excess(m: int, epsilon: float, delta: float) -> float:
    """m delta / (1 + e^epsilon): the mean number of right guesses that delta can add."""
    return m * delta * float(special.expit(-epsilon))


def shifted_delta(delta: float, shift: float) -> float:
    """delta composed with a distance of `shift` in total variation (theory:observational#shift)."""
    return 1.0 - (1.0 - delta) * (1.0 - shift)


def path_p_value(ranks: Sequence[int], correct: Sequence[int], *, epsilon: float, slack: Slack) -> float:
    """P(a path of Bernoulli(sig(epsilon)) guesses looks as extreme at some rank), plus the slack."""
    p = float(special.expit(epsilon))
    return min(1.0, _path_crossing(ranks, _path_tail(ranks, correct, p), p) + slack(epsilon))


def _path_tail(ranks: Sequence[int], correct: Sequence[int], p: float) -> float:
    """The statistic T: the smallest binomial tail over the ranks."""
    return min(tail(c, n, p) for n, c in zip(ranks, correct, strict=True))


def _path_crossing(ranks: Sequence[int], smallest: float, p: float) -> float:
    level = smallest * (1.0 + TIE)
    return crossing_probability(ranks, [critical_value(level, n, p) for n in ranks], p)


def invert_path(ranks: Sequence[int], correct: Sequence[int], *, alpha: float, slack: Slack) -> tuple[float, bool]:
    """Invert the path of equal coins on the fixed grid."""

    def smallest(epsilon: float) -> float:
        return _path_tail(ranks, correct, float(special.expit(epsilon)))

    def crossing(epsilon: float, tail: float) -> float:
        return _path_crossing(ranks, tail, float(special.expit(epsilon)))

    return scan_path(len(ranks), smallest, crossing, alpha=alpha, slack=slack, most=slack(0.0))


def path_ceiling(ranks: Sequence[int], *, alpha: float, slack: Slack) -> float:
    """What a perfect attack could have shown, had one number of guesses been looked at: quick, a little too high."""

    def smallest(epsilon: float) -> float:
        return _path_tail(ranks, ranks, float(special.expit(epsilon)))

    return scan_path(1, smallest, lambda epsilon, tail: tail, alpha=alpha, slack=slack, most=slack(0.0))[0]


def scan_path(
    looks: int,
    smallest: Callable[[float], float],
    crossing: Callable[[float, float], float],
    *,
    alpha: float,
    slack: Slack,
    most: float,
    near: float | None = None,
) -> tuple[float, bool]:
    """Scan the fixed grid of a path test with the statistic T = smallest(theta), which grows with theta.

    The exact probability crossing(theta, T) lies between T and looks * T; it is computed only where that leaves a
    doubt, and the part of the grid that is rejected beyond doubt is found by bisection, from `near` outwards where a
    value is expected. `most` bounds the slack.
    """

    def rejected(theta: float) -> bool:
        tail, added = smallest(theta), slack(theta)
        if looks * tail * ROUNDING + added <= alpha:
            return True
        if tail + added > alpha:
            return False
        return crossing(theta, tail) + added <= alpha

    def surely(index: int) -> bool:
        return looks * smallest(index * GRID_STEP) * ROUNDING + most <= alpha

    low, high = -1, round(GRID_CAP / GRID_STEP)
    if near is not None:
        at, step = min(round(near / GRID_STEP), high - 1), 4
        up = surely(at)
        low, high = (at, high) if up else (low, at)
        while high - low > 1 and low < (at := at + step if up else at - step) < high:
            low, high = (at, high) if (sure := surely(at)) else (low, at)
            if sure != up:
                break
            step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if surely(middle) else (low, middle)
    return scan(rejected, first=low + 1)


# ----------------------------------------------------------------------------------------------------------- its wealth

BETS = np.array([0.1, 0.25, 0.5, 1.0, 2.0])
"""Alternatives that the wealth bets on: log-odds above the hypothesis, in equal parts."""


def extreme_points(path: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks on the upper hull of (n, right guesses): a convex function of both has its maximum there."""
    n = np.arange(path.size)
    hull = {int(np.argmax(path - slope * n)) for slope in np.linspace(0.5, 1.0, 129)} - {0}
    kept = np.array(sorted(hull) or [path.size - 1])
    return kept, path[kept]


def log_wealth(n: NDArray[np.int64], c: NDArray[np.int64], epsilon: float) -> float:
    """The largest wealth over the ranks, of a mixture of likelihood ratios against Bernoulli(sig(epsilon))."""
    p = float(special.expit(epsilon))
    better = special.expit(epsilon + BETS)[:, None]
    logs = c * np.log(better / p) + (n - c) * np.log(special.expit(-epsilon - BETS)[:, None] / special.expit(-epsilon))
    return float(np.max(np.logaddexp.reduce(logs, axis=0)) - math.log(BETS.size))


def wealth_p_value(n: NDArray[np.int64], c: NDArray[np.int64], *, epsilon: float, slack: Slack) -> float:
    """1 / wealth, plus the slack (Ville)."""
    return min(1.0, math.exp(-min(log_wealth(n, c, epsilon), 700.0)) + slack(epsilon))


def invert_wealth(n: NDArray[np.int64], c: NDArray[np.int64], *, alpha: float, slack: Slack) -> tuple[float, bool]:
    """Scan the fixed grid for wealth of at least 1 / (alpha - slack)."""

    def rejected(epsilon: float) -> bool:
        left = alpha - slack(epsilon)
        return left > 0.0 and log_wealth(n, c, epsilon) >= -math.log(left)

    return scan(rejected)


# ---------------------------------------------------------------------------------- sums of coins with different biases

# (theory:zero-run#signed)
#
# Distributions are built by divide and conquer with direct convolutions (all terms positive, so small tails keep their
# relative accuracy) and trimmed where the mass is negligible; what is trimmed is kept as `lost` and added to every
# tail.

TRIM = 1e-26


@dataclass(frozen=True, eq=False)
class Distribution:
    """P(sum = start + i) = masses[i], up to `lost`."""

    start: int
    masses: NDArray[np.float64]
    lost: float = 0.0

    def tail(self, count: int) -> float:
        """P(sum >= count), never too small."""
        return min(1.0, (float(self.masses[max(0, count - self.start) :].sum()) + self.lost) * ROUNDING)

    def tails(self) -> NDArray[np.float64]:
        """P(sum >= start + i) for every i."""
        return np.minimum(1.0, (np.cumsum(self.masses[::-1])[::-1] + self.lost) * ROUNDING)

    def plus(self, other: Distribution) -> Distribution:
        """The distribution of the sum of two independent sums."""
        return _trimmed(self.start + other.start, np.convolve(self.masses, other.masses), self.lost + other.lost)


NOTHING = Distribution(0, np.ones(1))


def distribution(rates: NDArray[np.float64]) -> Distribution:
    """The distribution of a sum of independent Bernoulli(rates)."""
    if rates.size == 0:
        return NOTHING
    block = np.stack([1.0 - rates, rates], axis=1)
    while block.shape[0] > 1 and block.shape[1] <= 64:  # pairs of short distributions, all at once
        odd = block[-1:] if block.shape[0] % 2 else None
        block = _pairs(block[0 : 2 * (block.shape[0] // 2) : 2], block[1 : 2 * (block.shape[0] // 2) : 2])
        if odd is not None:
            block = np.concatenate([block, np.pad(odd, ((0, 0), (0, block.shape[1] - odd.shape[1])))])
    distributions = [_trimmed(0, row, 0.0) for row in block]
    while len(distributions) > 1:
        pairs = zip(distributions[0::2], [*distributions[1::2], NOTHING], strict=False)
        distributions = [one.plus(other) for one, other in pairs]
    return distributions[0]


def _pairs(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convolution of each row of a with the same row of b."""
    out = np.zeros((a.shape[0], a.shape[1] + b.shape[1] - 1))
    for shift in range(a.shape[1]):
        out[:, shift : shift + b.shape[1]] += a[:, shift : shift + 1] * b
    return out


def _trimmed(start: int, masses: NDArray[np.float64], lost: float) -> Distribution:
    below, above = np.cumsum(masses), np.cumsum(masses[::-1])
    first = int(np.searchsorted(below, TRIM, side="right"))
    last = masses.size - int(np.searchsorted(above, TRIM, side="right"))
    if first >= last:
        return Distribution(start, masses, lost)
    dropped = (below[first - 1] if first else 0.0) + (above[masses.size - last - 1] if last < masses.size else 0.0)
    return Distribution(start + first, masses[first:last], lost + float(dropped))


def blocks(rates: NDArray[np.float64], ranks: Sequence[int]) -> list[Distribution]:
    """Distributions of the right guesses between one rank and the next."""
    return [distribution(part) for part in np.split(rates, ranks)[: len(ranks)]]


def smallest_tail(parts: Sequence[Distribution], correct: Sequence[int]) -> float:
    """min over the ranks of P(W_k >= correct_k)."""
    so_far, smallest = NOTHING, 1.0
    for part, count in zip(parts, correct, strict=True):
        so_far = so_far.plus(part)
        smallest = min(smallest, so_far.tail(count))
    return smallest


def crossing(parts: Sequence[Distribution], smallest: float) -> float:
    """P(at some rank P(W_k >= w) <= smallest at w = W_k): the path's p-value without its slack, never too small."""
    level = smallest * (1.0 + TIE) * ROUNDING  # a tie must not be lost to rounding
    so_far, alive, absorbed = NOTHING, NOTHING, 0.0
    for part in parts:
        so_far, alive = so_far.plus(part), alive.plus(part)
        extreme = np.flatnonzero(so_far.tails() <= level)
        limit = so_far.start + (int(extreme[0]) if extreme.size else so_far.masses.size)
        cut = min(max(limit - alive.start, 0), alive.masses.size)
        absorbed += float(alive.masses[cut:].sum())
        if cut == 0:
            return min(1.0, (absorbed + alive.lost) * ROUNDING)
        alive = Distribution(alive.start, alive.masses[:cut], alive.lost)
    return min(1.0, (absorbed + alive.lost) * ROUNDING)


# --------------------------------------------------------------------------------------------- the recursion of a curve

# The one-run test of an f-DP curve, decided in a few steps by early stopping (theory:one-run#early-stopping).
#
# Hypothesis: the mechanism is f-DP, g is the inverse of 1 - f. Data: `correct` of `guesses` guesses about `canaries`
# fair coins are right; the number of guesses was fixed before the model was seen. The recursion bounds P(C >= correct).

SLOPE_ROUNDING = 1.0 + 1e-8


def recursion_rejects(
    g: Callable[[float], float],
    *,
    canaries: int,
    guesses: int,
    correct: int,
    level: float,
    early: bool = True,
) -> bool:
    """Whether the curve is rejected at `level`. `early=False` switches every stopping rule off, to the same answer."""
    if correct <= 0 or guesses <= 0:
        return False
    if not early:
        return _full_recursion(g, canaries, guesses, correct, level)
    target = guesses / canaries
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    if r + h >= target:
        return True
    first = True
    for i in range(correct - 1, -1, -1):
        new_h = float(g(r))
        if first and new_h <= h:
            return False  # r and h fall for ever: the dichotomy
        first = False
        step = i / (guesses - i) * (new_h - h)
        r, h = r + step, new_h
        if r + h >= target:
            return True
        if i and _settles_below(g, r=r, h=h, step=step, i=i, guesses=guesses, target=target):
            return False
    return False


def _full_recursion(g: Callable[[float], float], canaries: int, guesses: int, correct: int, level: float) -> bool:
    """All steps, down to i = 0, as the papers print it: the naive twin of the tests and the benchmark."""
    r, h = level * correct / canaries, level * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        new_h = float(g(min(r, 1.0)))
        r, h = r + i / (guesses - i) * (new_h - h), new_h
    return r + h >= guesses / canaries


def _settles_below(
    g: Callable[[float], float], *, r: float, h: float, step: float, i: int, guesses: int, target: float
) -> bool:
    """Proof that the remaining steps cannot reach the target: a bound on all later increments of r."""
    room = target - r - h
    for share in (0.5, 0.1, 1.0):
        reach = r + share * room
        eta = 0.05 * share * room
        if reach + eta > 1.0 or eta <= 0.0:
            continue
        slope = (float(g(reach + eta)) - float(g(reach))) / eta * SLOPE_ROUNDING
        later = step * _sum_of_increments((i - 1) / (guesses - i + 1) * slope, guesses)
        if later <= share * room and later + slope * (step + later) < room:
            return True
    return False


def _sum_of_increments(q: float, guesses: int) -> float:
    """Bound S of theory:one-run#early-stopping on the sum of q^j e^{-s j(j-1)/2} over j >= 1, s = 4 / guesses."""
    if q <= 0.0:
        return 0.0
    best = q / (1.0 - q) if q < 1.0 else math.inf
    s = 4.0 / guesses
    a = math.log(q) + s / 2.0
    exponent = a * a / (2.0 * s)
    if exponent < 700.0:
        gaussian = math.sqrt(2.0 * math.pi / s) * math.exp(exponent) * float(special.ndtr(a / math.sqrt(s)))
        best = min(best, gaussian + (math.exp(exponent) if a > 0.0 else 1.0))
    return best


def recursion_p_value(g: Callable[[float], float], *, canaries: int, guesses: int, correct: int) -> float:
    """The smallest level that rejects (rejection is monotone in it), rounded up; 1 where none does."""

    def rejected(log_level: float) -> bool:
        return recursion_rejects(g, canaries=canaries, guesses=guesses, correct=correct, level=math.exp(log_level))

    low, high = -60.0, 0.0
    if not rejected(high - 1e-12):
        return 1.0
    if rejected(low):
        return math.exp(low)
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rejected(middle) else (middle, high)
    return math.exp(high)


def least(small: Callable[[float], bool]) -> float:
    """The smallest number at which this holds, from above; the first power of two above 1000 if none is found."""
    if small(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high <= 1000.0 and not small(high):
        low, high = high, 2.0 * high
    if high > 1000.0:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if small(middle) else (middle, high)
    return high
