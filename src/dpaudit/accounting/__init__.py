"""Upper bounds: what a mechanism promises, under the relation that is asked for.

| part | what it accounts for |
|---|---|
| `closed_forms` | Gaussian, Laplace, randomised response, noisy votes: numpy and scipy only |
| `events` | Poisson-subsampled DP-SGD, answers with known distributions: dp-accounting's losses (extra `accounting`) |
| `groups` | what a promise for one record implies for several |
| `terms` | a claim as text: the table of an audit file |

Relations that a mechanism cannot be stated under are refused.
"""

from dpaudit.accounting.closed_forms import (
    claimed_as,
    gaussian,
    laplace,
    noisy_argmax,
    noisy_argmax_renyi,
    randomized_response,
    sensitivity,
    votes_noise_for,
)
from dpaudit.accounting.events import (
    Adjacencies,
    adjacencies,
    available,
    dp_sgd,
    dp_sgd_family,
    independent_answers,
    leaked_epsilon,
    noise_multiplier_for,
)
from dpaudit.accounting.groups import group_privacy

__all__ = [
    "Adjacencies",
    "adjacencies",
    "available",
    "claimed_as",
    "dp_sgd",
    "dp_sgd_family",
    "gaussian",
    "group_privacy",
    "independent_answers",
    "laplace",
    "leaked_epsilon",
    "noise_multiplier_for",
    "noisy_argmax",
    "noisy_argmax_renyi",
    "randomized_response",
    "sensitivity",
    "votes_noise_for",
]
