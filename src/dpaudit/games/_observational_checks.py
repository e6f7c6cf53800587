"""What the coins of the observational game rest on, what tries to refute it, and what would help."""

from __future__ import annotations

from typing import Any

from dpaudit.assumptions import Assumption, Check


def _assumed(id: str, sentence: str, **more: Any) -> Assumption:
    return Assumption(
        **{"id": id, "sentence": sentence, "answered_by": "data holder", "theory": "theory:observational#shift", **more}
    )


NO_SHIFT = _assumed(
    "counterfactual-right",
    "tau = 0: without the model nobody can tell a {unit}'s proxy values from true ones",
    answered_by="auditor",
    tested_by=("blind-values", "coins-alone"),
)
"""What tau = 0 means."""
FRESH = _assumed(
    "fresh-records",
    "fresh and training records are independent draws from one source, and no fresh record was trained on",
    tested_by=("blind-values",),
)
INDEPENDENT = _assumed(
    "independent-values",
    "given the rest of the records, true values of different units are independent of each other",
    tested_by=("rows-hang-together",),
)
WITHIN_UNIT = _assumed(
    "independent-within-unit",
    "given the rest of its records, the true values of one {unit} are independent of each other",
    tested_by=("blind-values",),
)
"""What rows of one unit need, for counterfactual values are drawn one by one."""
LOG_RATIO = _assumed(
    "log-ratio",
    "for each shown value, |log of true over proxy distribution| is within its bound (at most {ratio:up3})",
    answered_by="auditor",
    theory="theory:observational#log-ratio",
    tested_by=("blind-values",),
)
LESS_CERTAIN = "A proxy that knows what the blind baseline knows: train it on more data, or on the columns named above."
WANTS_FEATURES = (
    "`features` would let a recalibrated proxy be put to the test; on the proxy's own predictions alone it would pass "
    "by construction."
)
WANTS_HELD_OUT = "`calibration_fraction` rows would let the proxy be recalibrated, for one more attempt."
WANTS_SHIFT = (
    "A `shift` that you answer for, at least as large as the one that the blind baseline shows, gives a bound."
)
BLIND_VALUES = Check(
    id="blind-values",
    passed=(
        "Control passed: an attack that never saw the model, {how}, does not tell true from proxy values "
        "(p = {p_value:p}; refuted at {level:g}, and could at best notice tau of {notices:.2g}). That proves nothing: "
        "a better one might."
    ),
    refuted=(
        "Control refuted: an attack that never saw the model, {how}, tells true values from the proxy's "
        "(p = {p_value:p}; refuted at {level:g}, and could at best notice tau of {notices:.2g}), so what the attack "
        "finds may not be attributed to the model."
    ),
    not_run="Control not tried: without features, or with so few rows, a blind baseline has nothing to go by.",
    refutes=("counterfactual-right", "fresh-records", "independent-within-unit", "log-ratio", "shift"),
    level=0.05,
    theory="theory:observational#blind-baseline",
)
COINS_ALONE = Check(
    id="coins-alone",
    not_run=(
        "The coins alone rest on the proxy: a model that knows more than the proxy looks like a model that leaks. No "
        "rows were given that the model never saw, which would tell the two apart."
    ),
    remedy=(
        "Rows of the same source that the model never saw would test it: `[game.observational]` takes them as "
        "`placebo`. A `shift` or `log_ratio` that you answer for gives a number without them."
    ),
    refutes="counterfactual-right",
    on_missing="withhold",
    theory="theory:observational#shift",
)
"""Never run: coins have no rows to run it on. So tau = 0 gives a number to nobody who has not accepted it."""
CALIBRATION = Check(
    id="calibration",
    measured=(
        "The proxy is off by {points:.2g} points on average (calibration), and explains {explained:.0f}% of the "
        "log-loss (fidelity): {log_loss:.3g} against {blank:.3g} of one that knows only how often each value occurs."
    ),
)
GIVEAWAYS = Check(id="giveaways", measured="Where true values part most from the proxy's: {listed}.")
