"""Outcomes as figures: functions of the saved rows alone, so that a figure shows no number that is not in the JSON."""

from __future__ import annotations

import io
import re
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from dpaudit_experiments.common.outcome import Outcome

TABLES = (
    ("substitute", "bugs"),
    ("observational", "noisy-proxy"),
    ("observational", "leaky"),
    ("observational", "pate-fm"),
    *(("prediction", name) for name in "345"),
    ("panoramia", "generators"),
)
LADDER = {
    "exact": ("-", "exact divergence"),
    "data_dependent_upper": ("--", "published data-dependent bound"),
    "exact_data_dependent_upper": ("-.", "exact data-dependent bound"),
    "median_two_cut": ("o", "2-cut, bound"),
    "median_two_cut_any_event": ("s", "2-cut, any event, bound"),
    "median_k_cut": ("D", "k-cut, bound"),
    "median_k_cut_goodman_estimate": ("^", "k-cut, Goodman (estimate)"),
    "median_k_cut_sison_glaz_estimate": ("v", "k-cut, Sison-Glaz (estimate)"),
    "median_two_cut_bootstrap_estimate": ("P", "2-cut, bootstrap (estimate)"),
    "median_k_cut_bootstrap_estimate": ("X", "k-cut, bootstrap (estimate)"),
}
TALL = {("observational", "1"): (4.6, 6.4), ("observational", "5"): (5.4, 3.6), ("prediction", "E"): (3.6, 5.0)}
"""Width of a panel and height of figures whose lines have names of their own."""
MARKS = "osD^vPX"
OWN_LEGENDS = ("panoramia",)
"""Papers whose panels show other lines each."""
LINES = {"add_remove": ("add/remove, promised", ":"), "substitute": ("substitute, promised", "-")}
BY_GROUP = ("substitute by group privacy", "--")


def svg(outcome: Outcome) -> str:
    """The figure of an outcome; the empty text for one that is a table."""
    key = (outcome.paper, outcome.figure)
    if key in TABLES or outcome.figure.startswith("table-"):
        return ""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    draw, (width, height) = DRAWN.get(key, _along), TALL.get(key, (3.4, 3.2))
    with rc_context({"svg.hashsalt": "dpaudit", "svg.fonttype": "none", "font.size": 9.0}):
        panels = list(_panels(outcome))
        figure = Figure(figsize=(width * len(panels), height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, len(panels), sharey=key not in TALL, squeeze=False)[0]
        for ax, (title, rows) in zip(axes, panels, strict=True):
            draw(ax, rows)
            ax.set_title(title, fontsize=9)
            if outcome.paper in OWN_LEGENDS and ax.get_legend_handles_labels()[1]:
                ax.legend(fontsize=6, frameon=False)
        handles, labels = axes[0].get_legend_handles_labels()
        if labels and outcome.paper not in OWN_LEGENDS:
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return _steady("\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n")


def _steady(text: str) -> str:
    """Ids by order, and two decimals: matplotlib's own are hashes of a layout whose last bits differ by machine."""
    names = dict.fromkeys(re.findall(r'\bid="([mpC][0-9a-f]{10}(?:_[0-9a-f]+)?)"', text))
    for number, name in enumerate(names):
        text = re.sub(rf"\b{name}\b", f"id{number}", text)
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]) + 0.0:.2f}", text)


TAUGHT = "rows to learn from"
AGAINST_RECALL: tuple[Any, ...] = (
    "share",
    {"median_total_alone": ""},
    "target",
    ("share called real", "bound of this share alone, median"),
)
TOTALS = {"median_total": "{c+epsilon}_lb"}
BOTH = {"closeness": "c_lb", "total": "{c+epsilon}_lb"}
GROWTH = {"median_total": "{c+epsilon}_lb", "median_closeness": "c_lb"}


PANEL = {
    ("substitute", "1"): "sampling_rate",
    ("substitute", "2"): "sampling_rate",
    ("substitute", "3"): "sampling_rate",
    ("substitute", "A1"): "canary",
    ("substitute", "A2"): "clip",
    ("substitute", "A3"): "steps",
    ("substitute", "A4"): "learning_rate",
    ("substitute", "A6"): "sampling_rate",
    ("observational", "1"): "data",
    ("observational", "2"): "classes",
    ("observational", "3"): "classes",
    ("observational", "4"): "epsilon",
    ("prediction", "2"): "histograms",
    ("prediction", "6"): "histograms",
    ("prediction", "E"): "algorithm",
    ("zero-run", "2a"): "mu",
    ("zero-run", "2b"): "pair",
    ("zero-run", "2c"): "pair",
    **{("panoramia", name): "modality" for name in ("3", "4", "5", "6", "10", "12")},
    ("panoramia", "9"): "panel",
    ("panoramia", "13"): "target",
    ("panoramia", "14"): "target",
}
KIND = {("zero-run", "2b"): "resamples"}
"""Figures of which only the lines of one kind are drawn."""


def _panels(outcome: Outcome) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    key, kind = PANEL.get((outcome.paper, outcome.figure)), KIND.get((outcome.paper, outcome.figure))
    rows = [row for row in outcome.rows if kind is None or row["kind"] == kind]
    if key is None:
        yield outcome.title, rows
        return
    values = dict.fromkeys(row[key] for row in rows if key in row)
    for value in values:
        shown = value if isinstance(value, str) else f"{key.replace('_', ' ')} {value:g}"
        yield shown, [row for row in rows if row.get(key) == value]


def _along(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Bounds of every canary along the training, all steps together, and the promises."""
    promises = [row for row in rows if row.get("kind") == "promise"]
    for name, (label, style) in {**LINES, "substitute_by_group": BY_GROUP}.items():
        if promises:
            ax.plot(_of(promises, "step"), _of(promises, name), style, color="black", lw=1, label=label)
    steps = [row for row in rows if row.get("kind") == "step"]
    for mark, canary in zip(MARKS, dict.fromkeys(_of(steps, "canary")), strict=False):
        own = [row for row in steps if row["canary"] == canary]
        ax.plot(_of(own, "step"), _of(own, "epsilon_gaussian_all_steps"), f"-{mark}", ms=3, lw=1, label=canary)
    if not promises and rows:
        ends = [row for row in rows if row.get("kind") == "end"]
        for name, style in (("promised_add_remove", ":"), ("promised_substitute", "-")):
            ax.axhline(ends[0][name], ls=style, color="black", lw=1, label=name.replace("_", " "))
    ax.set_xlabel("step")
    ax.set_ylabel("epsilon at delta 1e-05")


def _worst_case(ax: Any, rows: list[dict[str, Any]]) -> None:
    wanted = sorted({row["epsilon_wanted"] for row in rows})
    cells = [[row for row in rows if row["epsilon_wanted"] == epsilon] for epsilon in wanted]
    where = [cell[0]["promised_substitute"] for cell in cells]
    for name, label, style in (
        ("promised_add_remove", "add/remove, promised", ":"),
        ("promised_substitute", "substitute, promised", "-"),
        ("promised_by_group", "substitute by group privacy", "--"),
    ):
        ax.plot(where, [cell[0][name] for cell in cells], style, color="black", lw=1, label=label)
    for mark, name, label in (
        ("o", "epsilon_family", "bound, DP-SGD's own curves"),
        ("s", "epsilon_free", "bound, no assumption"),
    ):
        points = [(x, row[name]) for x, cell in zip(where, cells, strict=True) for row in cell]
        ax.plot(*zip(*points, strict=True), mark, ms=4, mfc="none", label=label)
    ax.set_xlabel("substitute epsilon, promised")
    ax.set_ylabel("epsilon at delta 1e-05")


def _by_models(ax: Any, rows: list[dict[str, Any]]) -> None:
    for mark, canary in zip(MARKS, dict.fromkeys(_of(rows, "canary")), strict=False):
        own = [row for row in rows if row["canary"] == canary]
        ax.plot(_of(own, "models"), _of(own, "epsilon_family"), f"-{mark}", ms=4, lw=1, label=canary)
    for name, style in (("promised_add_remove", ":"), ("promised_substitute", "-")):
        ax.axhline(rows[0][name], ls=style, color="black", lw=1, label=name.replace("_", " "))
    ax.set_xscale("log")
    ax.set_xlabel("models")
    ax.set_ylabel("epsilon at delta 1e-05")


def _accuracy(ax: Any, rows: list[dict[str, Any]]) -> None:
    for mark, world in zip(MARKS, dict.fromkeys(_of(rows, "world")), strict=False):
        own = [row for row in rows if row["world"] == world]
        ax.plot(_of(own, "step"), _of(own, "accuracy"), f"-{mark}", ms=4, lw=1, mfc="none", label=world)
    ax.set_xlabel("step")
    ax.set_ylabel("test accuracy")


def _ratios(ax: Any, rows: list[dict[str, Any]]) -> None:
    for mark, rate in zip(MARKS, dict.fromkeys(_of(rows, "sampling_rate")), strict=False):
        own = [row for row in rows if row["sampling_rate"] == rate and row["ratio"] is not None]
        ax.plot(
            _of(own, "noise_multiplier"), _of(own, "ratio"), f"-{mark}", ms=4, lw=1, label=f"sampling rate {rate:g}"
        )
    ax.axhline(2.0, ls=":", color="black", lw=1)
    ax.set_xscale("log")
    ax.set_xlabel("noise multiplier")
    ax.set_ylabel("substitute / add-remove epsilon")


def _lines(
    ax: Any, rows: list[dict[str, Any]], x: str, shown: dict[str, tuple[str, str]], mark: str = "", more: str = ""
) -> None:
    """A line a column, with its own style and label."""
    for key, (line, label) in shown.items():
        ax.plot(_of(rows, x), _of(rows, key), f"{line}{mark}", ms=4, lw=1, label=f"{label}{more}")


def _response(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Medians of certified bounds and means of the paper's own numbers against the true epsilon."""
    shown = {
        "median_ratio_score": ("-", "bound, likelihood ratio"),
        "median_paper_score": ("--", "bound, paper's score"),
        "mean_as_published_estimate": (":", "as published (estimate)"),
    }
    for mark, counterfactual in zip(MARKS, dict.fromkeys(_of(rows, "proxy")), strict=False):
        own = [row for row in rows if row["proxy"] == counterfactual]
        _lines(ax, own, "epsilon", shown, mark, f", {counterfactual}")
    ends = sorted(set(_of(rows, "epsilon")))
    ax.plot(ends, ends, "-", color="black", lw=1, label="truth")
    ax.set_xlabel("epsilon of randomised response")
    ax.set_ylabel("epsilon")


def _shifted(ax: Any, rows: list[dict[str, Any]]) -> None:
    """What can be shown against tau, for several shares of guesses."""
    shown = {"median_ratio_score": ("-", "bound"), "mean_as_published_estimate": (":", "as published (estimate)")}
    for mark, share in zip(MARKS, dict.fromkeys(_of(rows, "guesses")), strict=False):
        own = [row for row in rows if row["guesses"] == share]
        _lines(ax, own, "tau", shown, mark, f", {share:.2g} guessed")
    ax.axhline(rows[0]["epsilon"], color="black", lw=1, label="truth")
    ax.set_xscale("log")
    ax.set_xlabel("tau")
    ax.set_ylabel("epsilon")


def _attacks(ax: Any, rows: list[dict[str, Any]]) -> None:
    """One line for each mechanism and epsilon: filled marks are bounds, open ones the paper's own numbers."""
    attacks = {
        "label inference": ("o", "median_bound", "mean_sweep_estimate"),
        "difficulty calibration": ("s", "median_membership_difficulty", "mean_difficulty_sweep_estimate"),
        "RMIA": ("^", "median_membership_rmia", "mean_rmia_sweep_estimate"),
    }
    places = range(len(rows))[::-1]
    for name, (mark, bound, estimate) in attacks.items():
        if bound in rows[0]:
            ax.plot(_of(rows, bound), places, mark, ms=4, label=f"{name}, median bound")
            ax.plot(
                _of(rows, estimate),
                places,
                mark,
                ms=5,
                mfc="none",
                color="0.4",
                label=f"{name}, as published (estimate)",
            )
    names = [f"{row['mechanism']}, {'inf' if row['epsilon'] is None else format(row['epsilon'], 'g')}" for row in rows]
    ax.set_yticks(places, names, fontsize=7)
    ax.set_xlabel("epsilon, each of its own relation")


def _ladder(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Renyi divergences of one answer against the order; medians of audits."""
    for key, (line, label) in LADDER.items():
        if key in rows[0]:
            shown = [(row["order"], row[key]) for row in rows if row[key] > 0.0]
            ax.plot(*zip(*shown, strict=True), line, ms=4, lw=1, label=label) if shown else None
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("order")
    ax.set_ylabel("Renyi divergence")


def _cases(ax: Any, rows: list[dict[str, Any]]) -> None:
    """How much of what one vote can leak each adversary reaches: at the worst query, and in the mean."""
    places = range(len(rows))[::-1]
    ax.plot(_of(rows, "worst_share_estimate"), places, "o", ms=4, label="worst query")
    ax.plot(_of(rows, "total_share_estimate"), places, "s", ms=5, mfc="none", color="0.4", label="all queries together")
    ax.set_yticks(places, [f"{row['data']}, {row['adversary']}" for row in rows], fontsize=6)
    ax.set_xlim(-0.05, 1.05)
    ax.set_xlabel("share of the largest divergence")


def _drift(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Medians of mu against the shift: solid lines are bounds, dotted ones are none."""
    shown = {
        "median_aware_mu": ("-o", "conditional, aware: bound"),
        "median_unaware_mu": ("-s", "conditional, unaware: bound"),
        "median_tampered_mu": ("-D", "tampered: bound"),
        "median_composition_mu": ("-^", "composition: bound"),
        "median_one_run_mu_estimate": (":X", "one run (estimate)"),
        "median_deconvolved_mu_estimate": (":P", "equation 14 (estimate)"),
        "median_printed_mu_estimate": (":v", "algorithm 1 (estimate)"),
    }
    ax.axhline(rows[0]["mu"], color="black", lw=1, label="truth")
    _lines(ax, rows, "shift", shown)
    ax.set_xlabel("separation of the log-odds, D")
    ax.set_ylabel("mu")


def _resampled(ax: Any, rows: list[dict[str, Any]]) -> None:
    """How often each mu came out of the resamples; lines mark the lower quantiles."""
    for arm, mark, color in (("shifted", "o", "C0"), ("like", "s", "C1")):
        own = [row for row in rows if row["non_members"] == arm]
        ax.plot(
            _of(own, "mu_estimate"),
            _of(own, "resamples"),
            f"-{mark}",
            ms=3,
            lw=1,
            color=color,
            label=f"{arm} (estimates)",
        )
        ax.axvline(own[0]["lower_quantile_mu_estimate"], ls="--", color=color, lw=1, label=f"{arm}, lower quantile")
    ax.set_xlabel("mu")
    ax.set_ylabel("resamples")


def _propensities(ax: Any, rows: list[dict[str, Any]]) -> None:
    for arm, style in (("shifted", "-"), ("like", ":")):
        own = [row for row in rows if row["non_members"] == arm]
        for group, color in (("members", "C0"), ("others", "C1")) if own else ():
            label = f"{arm}: {'members' if group == 'members' else 'non-members'}"
            ax.step(_of(own, "propensity"), _of(own, group), style, where="mid", lw=1, color=color, label=label)
    ax.set_xlabel("propensity (estimate)")
    ax.set_ylabel("rows")


def _drawn_along(x: str, y: dict[str, str], by: str | None, words: tuple[str, str], *, log: bool = False) -> Any:
    """Lines of one or several numbers against another, a line each group; where a point has several games, medians."""

    def draw(ax: Any, rows: list[dict[str, Any]]) -> None:
        groups = [None] if by is None else list(dict.fromkeys(_of(rows, by)))
        for number, group in enumerate(groups):
            own = [row for row in rows if by is None or row[by] == group]
            places = sorted(set(_of(own, x)))
            for line, (key, label) in zip(("-", "--", ":"), y.items(), strict=False):
                here = [place for place in places if all(row[key] is not None for row in own if row[x] == place)]
                medians = [statistics.median(row[key] for row in own if row[x] == place) for place in here]
                name = ", ".join(word for word in (str(group or ""), label) if word)
                mark = MARKS[number % len(MARKS)]
                ax.plot(here, medians, f"{line}{mark}", ms=3, lw=1, color=f"C{number % 10}", label=name)
        if log:
            ax.set_xscale("log")
        ax.set_xlabel(words[0])
        ax.set_ylabel(words[1])

    return draw


def _of(rows: list[dict[str, Any]], key: str) -> list[Any]:
    return [row[key] for row in rows]


DRAWN: dict[tuple[str, str], Callable[[Any, list[dict[str, Any]]], None]] = {
    ("substitute", "1"): _worst_case,
    ("substitute", "4"): _by_models,
    ("substitute", "A1"): _accuracy,
    ("substitute", "A5"): _ratios,
    ("observational", "1"): _attacks,
    ("observational", "5"): _attacks,
    ("observational", "2"): _response,
    ("observational", "3"): _response,
    ("observational", "4"): _shifted,
    ("prediction", "2"): _ladder,
    ("prediction", "6"): _ladder,
    ("prediction", "E"): _cases,
    ("zero-run", "2a"): _drift,
    ("zero-run", "2b"): _resampled,
    ("zero-run", "2c"): _propensities,
    ("panoramia", "2"): _drawn_along("training_rows", {"closeness": ""}, None, (TAUGHT, "c_lb, median"), log=True),
    ("panoramia", "3"): _drawn_along(
        "recall", {"precision_estimate": ""}, "target", ("recall", "precision (estimate)")
    ),
    **{("panoramia", name): _drawn_along(*AGAINST_RECALL, log=True) for name in ("4", "5", "12")},
    ("panoramia", "6"): _drawn_along("pairs", TOTALS, "target", ("audited pairs", "medians"), log=True),
    ("panoramia", "9"): _drawn_along("training_rows", {"closeness": ""}, None, (TAUGHT, "c_lb, median"), log=True),
    ("panoramia", "10"): _drawn_along("guesses", {"right": ""}, "target", ("items called real", "right"), log=True),
    ("panoramia", "11"): _drawn_along("training_rows", BOTH, None, (TAUGHT, "medians"), log=True),
    ("panoramia", "13"): _drawn_along("loss", {"share": ""}, "group", ("loss", "share of rows")),
    ("panoramia", "14"): _drawn_along("loss", {"share": ""}, "group", ("mean loss of a token", "share of chunks")),
    ("panoramia", "15"): _drawn_along("degree", GROWTH, None, ("parameters", "medians"), log=True),
}
