"""Evidence in, bound out: pure functions. The name says what is bounded, and from what.

| evidence | epsilon | mu | any family | default choice of threshold |
|---|---|---|---|---|
| `RunScores` | `epsilon_from_runs` | `mu_from_runs` | `family_from_runs` | `RankGrid()`: a few null ranks, Bonferroni |
| `RunScores`, several deltas | `epsilon_curve_from_runs` | | | `Band()`: all thresholds, simultaneous |
| `RunScores` of several steps of the same runs | `by_step`: any of them, all steps together | | | a union |
| runs that arrive one by one | `epsilon_from_stream` | | | planned from the past |
| `CanaryScores` | `epsilon_from_canaries` | | | `GuessPath()`: one exactly calibrated path |
| `CanaryScores` | | `mu_from_canaries` | `family_from_canaries` | `FractionGrid()`: 30, 10, 3 %, Bonferroni |
| `MemberScores` | `epsilon_from_members` | `mu_from_members` | | `GuessPath()`, signed by the propensities |
| `MatchedScores` | `epsilon_from_matched` | `mu_from_matched` | | a few shares of the guesses, beside placebo rows |
| `PairedScores` | `panoramia`: the joint region of divergence and leakage | | | `GuessPath(8)` |
| `OutputCounts` | `renyi_from_outputs`: Renyi divergences, all orders at once | | | every answer, paid for |

From counts, in the classic published forms: `clopper_pearson_epsilon`, `clopper_pearson_mu`, `one_run_epsilon`,
`one_run_mu`. From a claim, before any data: `plan_guesses`. A claim itself is tested by `judge` (`judge_stream` as
runs arrive), what it rests on by `refute`, from scores that were made without the model (`null_p_value`). What is
left of a bound if counterfactual values are off: `epsilon_by_shift`, `least_shift`, `tau_max`; if the propensities are:
`epsilon_by_log_odds_error`, `largest_log_odds_error`, and how far their own sample moves it, an estimate:
`bootstrapped_from_members`. Paper 003's algorithms as printed, for comparison: `as_published_from_members`.
"""

from dpaudit._binomial import bisect, lower_limit, upper_limit
from dpaudit.estimators.analyses import judge, plan_guesses
from dpaudit.estimators.as_published import as_published_from_members
from dpaudit.estimators.bootstrap import Bootstrap, bootstrapped_from_members
from dpaudit.estimators.canaries import (
    epsilon_from_canaries,
    family_from_canaries,
    mu_from_canaries,
    one_run_epsilon,
    one_run_mu,
    tau_max,
)
from dpaudit.estimators.controls import null_p_value, refute
from dpaudit.estimators.matched import epsilon_from_matched, mu_from_matched
from dpaudit.estimators.members import (
    epsilon_by_log_odds_error,
    epsilon_from_members,
    largest_log_odds_error,
    mu_from_members,
    propensity_p_value,
)
from dpaudit.estimators.outputs import renyi_from_outputs, renyi_of_one_record
from dpaudit.estimators.pairs import panoramia
from dpaudit.estimators.runs import (
    by_step,
    clopper_pearson_epsilon,
    clopper_pearson_mu,
    epsilon_curve_from_runs,
    epsilon_from_runs,
    family_from_runs,
    mu_from_runs,
)
from dpaudit.estimators.sensitivity_analysis import (
    epsilon_by_shift,
    largest_shift,
    least_shift,
    visible_shift,
)
from dpaudit.estimators.sequential import ClaimStream, StreamState, epsilon_from_stream, judge_stream
from dpaudit.estimators.thresholds import guesses_for

__all__ = [
    "Bootstrap",
    "ClaimStream",
    "StreamState",
    "as_published_from_members",
    "bisect",
    "bootstrapped_from_members",
    "by_step",
    "clopper_pearson_epsilon",
    "clopper_pearson_mu",
    "epsilon_by_log_odds_error",
    "epsilon_by_shift",
    "epsilon_curve_from_runs",
    "epsilon_from_canaries",
    "epsilon_from_matched",
    "epsilon_from_members",
    "epsilon_from_runs",
    "epsilon_from_stream",
    "family_from_canaries",
    "family_from_runs",
    "guesses_for",
    "judge",
    "judge_stream",
    "largest_log_odds_error",
    "largest_shift",
    "least_shift",
    "lower_limit",
    "mu_from_canaries",
    "mu_from_matched",
    "mu_from_members",
    "mu_from_runs",
    "null_p_value",
    "one_run_epsilon",
    "one_run_mu",
    "panoramia",
    "plan_guesses",
    "propensity_p_value",
    "refute",
    "renyi_from_outputs",
    "renyi_of_one_record",
    "tau_max",
    "upper_limit",
    "visible_shift",
]
