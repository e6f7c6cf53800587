"""The figures of a record as matplotlib axes: `plot.errors(audit, ax=ax)`. The report draws the same ones.

Colour is never the only carrier of meaning: lines differ in dash, points in marker, areas in hatch.
"""

from __future__ import annotations

from typing import Any

from dpaudit._validate import InputError
from dpaudit.assumptions import round_down, round_up
from dpaudit.record import Audit

COLOURS = {"present": "#1b6ca8", "absent": "#8a6d1f", "claim": "#b3361e", "ink": "#22272e", "quiet": "#6b7480"}
LEAST_RATE = 1e-4
UNNAMED = {"present_label": "present", "absent_label": "absent", "axis": "share"}
"""The groups of a histogram that carries no words."""


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(5.2, 3.4), layout="constrained")[1]


def _data(audit: Audit, name: str) -> dict[str, Any]:
    found = audit.figures.get(name)
    if found is None:
        raise InputError(f"this record has no figure {name!r}; it has {', '.join(audit.figures) or 'none'}.")
    return dict(found)


def bounds(audit: Audit, *, parameter: str = "epsilon", ax: Any = None) -> Any:
    """Lower bounds of a parameter as arrows to the right, up to the claim, with the ceiling of the audit."""
    shown = bounds_on(audit, parameter)
    if not shown:
        raise InputError(f"this record has no bound on {parameter}.")
    ax = _axes(ax)
    claimed = comparable_claim(audit, parameter)
    reach = [getattr(b, parameter) for b in shown] + [
        v for v in (claimed, audit.ceiling.get(parameter)) if v is not None
    ]
    right = 1.15 * max([value for value in reach if value < 1e6] or [1.0]) or 1.0
    for row, bound in enumerate(shown):
        low = getattr(bound, parameter)
        converted = bound.parameter != parameter
        style = (0, (4, 2)) if converted else "solid"
        ax.plot([low, right], [row, row], color=COLOURS["present"], linewidth=6, alpha=0.35, solid_capstyle="butt")
        ax.plot([low, low], [row - 0.3, row + 0.3], color=COLOURS["present"], linewidth=2.2, linestyle=style)
        sign = "about" if bound.guarantee == "estimate" else ">="
        note = ", if Gaussian" if converted else ""
        _beside(ax, low, row + 0.42, f"{sign} {round_down(low)}{note}", right, "ink")
    if claimed is not None and claimed < 1e6:
        ax.axvline(claimed, color=COLOURS["claim"], linewidth=2.0, linestyle=(0, (6, 2)))
        _beside(ax, claimed, -0.55, f"claimed <= {round_up(claimed)}", right, "claim")
    ceiling = audit.ceiling.get(parameter)
    if ceiling is not None and ceiling < 1e6:
        ax.plot([ceiling], [len(shown) + 0.1], marker="v", color=COLOURS["quiet"], markersize=7)
        _beside(ax, ceiling, len(shown) + 0.1, f"ceiling {round_down(ceiling)}", right, "quiet")
    ax.set_xlim(0.0, right)
    ax.set_ylim(-0.85, len(shown) + 0.4)
    ax.set_yticks([])
    ax.set_xlabel(parameter)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    return ax


def bounds_on(audit: Audit, parameter: str) -> list[Any]:
    """The bounds that say something of a parameter, by themselves or converted."""
    return [one for one in audit.bounds if isinstance(getattr(one, parameter, None), float)]


def _beside(ax: Any, x: float, y: float, words: str, right: float, colour: str) -> None:
    """A label on the side of x that has more room."""
    side, offset = ("right", -5) if x > 0.6 * right else ("left", 5)
    style = {"ha": side, "va": "center", "fontsize": 9, "color": COLOURS[colour]}
    ax.annotate(words, (x, y), xytext=(offset, 0), textcoords="offset points", **style)


def alike(audit: Audit) -> bool:
    """Whether the claim is about what was audited: unlike relations and units are never drawn together."""
    claim = audit.claim
    if claim is None or not audit.evidence:
        return False
    seen = audit.evidence[0]
    return bool(claim["relation"] == seen["relation"] and claim["unit"] == seen["unit"])


def comparable_claim(audit: Audit, parameter: str) -> float | None:
    """The claimed value, if it is about what was audited and at the same delta."""
    claim = audit.claim
    if claim is None or not alike(audit) or claim.get(parameter) is None:
        return None
    same_delta = parameter != "epsilon" or claim["delta"] == audit.plan["delta"]
    return float(claim[parameter]) if same_delta else None


def errors(audit: Audit, *, ax: Any = None) -> Any:
    """Both error rates of the attack on log axes, with the claimed curve: under the claim no attack lies below it."""
    found, ax = _data(audit, "errors"), _axes(ax)
    x, y = _clipped(found["false_positive_rate"]), _clipped(found["false_negative_rate"])
    claimed = found.get("claimed") if alike(audit) else None
    if claimed is not None:
        cx, cy = _clipped(claimed["false_positive_rate"]), _clipped(claimed["false_negative_rate"])
        ax.plot(cx, cy, color=COLOURS["claim"], linewidth=1.8, linestyle=(0, (6, 2)), label="claimed curve")
        corner = ([LEAST_RATE, *cx, cx[-1]], [LEAST_RATE, *cy, LEAST_RATE])
        ax.fill(*corner, color=COLOURS["claim"], alpha=0.10, linewidth=0.0, label="excluded by the claim")
    ax.plot(x, y, color=COLOURS["present"], linewidth=1.4, label="observed rates")
    boxes = found.get("boxes", ())
    if boxes:
        _limits(ax, boxes)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlim(LEAST_RATE, 1.0)
    ax.set_ylim(LEAST_RATE, 1.0)
    ax.set_xlabel("false-positive rate")
    ax.set_ylabel("false-negative rate")
    ax.legend(fontsize=8, loc="lower left", frameon=False)
    return ax


def _limits(ax: Any, boxes: Any) -> None:
    """A corner for each tested rank: no further than this, in both rates at once."""
    lines_x, lines_y = [], []
    for box in boxes:
        here = [max(box[f"false_{kind}_rate"], LEAST_RATE) for kind in ("positive", "negative")]
        limit = [max(box[f"false_{kind}_limit"], LEAST_RATE) for kind in ("positive", "negative")]
        lines_x += [here[0], limit[0], limit[0], float("nan")]
        lines_y += [limit[1], limit[1], here[1], float("nan")]
    ax.plot(lines_x, lines_y, color=COLOURS["present"], linewidth=0.9)
    corners = [lines_x[1::4], lines_y[1::4]]
    style = {"marker": "s", "markersize": 4.5, "color": COLOURS["present"], "linestyle": ""}
    ax.plot(*corners, **style, label="tested, with upper limits")


def _clipped(values: list[float]) -> list[float]:
    return [max(value, LEAST_RATE) for value in values]


def histogram(audit: Audit, *, ax: Any = None) -> Any:
    """The scores of both worlds, as shares."""
    found, ax = _data(audit, "histogram"), _axes(ax)
    words = {**UNNAMED, **found}
    _two_groups(ax, found["edges"], *((found[world], words[f"{world}_label"]) for world in ("present", "absent")))
    ax.set_xlabel("score")
    ax.set_ylabel(words["axis"])
    ax.legend(fontsize=8, frameon=False)
    return ax


def _two_groups(ax: Any, edges: list[float], present: tuple[list[int], str], absent: tuple[list[int], str]) -> None:
    """Counts of two groups as shares of each, one filled and one hatched."""
    styles = (("present", "", "stepfilled", 0.35), ("absent", "//", "step", 1.0))
    for (counts, label), (colour, hatch, kind, alpha) in zip((present, absent), styles, strict=True):
        total = max(sum(counts), 1)
        ax.hist(
            edges[:-1],
            bins=edges,
            weights=[count / total for count in counts],
            histtype=kind,
            color=COLOURS[colour],
            alpha=alpha,
            hatch=hatch,
            linewidth=1.4,
            label=label,
        )


def thresholds(audit: Audit, *, ax: Any = None) -> Any:
    """Bound against threshold: each as if it alone had been fixed. The reported bound pays for trying several."""
    found, ax = _data(audit, "thresholds"), _axes(ax)
    x, y = found["false_positive_rate"], found["epsilon"]
    ax.plot(x, y, color=COLOURS["quiet"], linewidth=1.2, label="one threshold alone")
    tested = [(a, b) for a, b, is_tested in zip(x, y, found["tested"], strict=True) if is_tested]
    ax.plot(
        *zip(*tested, strict=True), marker="s", markersize=4.5, linestyle="", color=COLOURS["present"], label="tested"
    )
    reported = next((one for one in bounds_on(audit, "epsilon") if one.parameter == "epsilon"), None)
    if reported is not None:
        ax.axhline(
            reported.epsilon, color=COLOURS["present"], linewidth=1.6, linestyle=(0, (1, 1)), label="reported bound"
        )
    claimed = comparable_claim(audit, "epsilon")
    if claimed is not None and claimed < 1e6:
        ax.axhline(claimed, color=COLOURS["claim"], linewidth=1.8, linestyle=(0, (6, 2)), label="claimed")
    ax.set_xscale("log")
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("false-positive rate at the threshold")
    ax.set_ylabel("epsilon")
    ax.legend(fontsize=8, frameon=False)
    return ax


def guesses(audit: Audit, *, ax: Any = None) -> Any:
    """Share of right guesses among the most confident ones; a half is chance."""
    found, ax = _data(audit, "guesses"), _axes(ax)
    share = [right / number for number, right in zip(found["guesses"], found["correct"], strict=True)]
    ax.plot(found["guesses"], share, color=COLOURS["present"], linewidth=1.4, label="right guesses")
    ax.axhline(0.5, color=COLOURS["quiet"], linewidth=1.2, linestyle=(0, (1, 1)), label="chance")
    ax.set_xscale("log")
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(0.0, 1.05)
    ax.set_xlabel("most confident guesses")
    ax.set_ylabel("share right")
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    return ax


def recognition(audit: Audit, *, ax: Any = None) -> Any:
    """Share of right guesses among the surest ones, on rows that were trained on and on rows that were not."""
    found, ax = _data(audit, "recognition"), _axes(ax)
    lines = (("trained", "present", "solid", "training rows"), ("placebo", "absent", (0, (4, 2)), "placebo rows"))
    for name, role, style, label in lines:
        ax.plot(found[name]["share"], found[name]["right"], color=COLOURS[role], linestyle=style, label=label)
    ax.set_xscale("log")
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0.0, 1.05)
    ax.set_xlabel("share of rows, from the surest guess on")
    ax.set_ylabel("share right")
    ax.legend(fontsize=8, frameon=False, loc="lower left")
    return ax


def shift(audit: Audit, *, ax: Any = None) -> Any:
    """The bound on epsilon against tau, the distance between true and proxy values; tau = 0 stands at the left edge."""
    found, ax = _data(audit, "shift"), _axes(ax)
    least = min((tau for tau in found["tau"] if tau > 0.0), default=1e-6)
    x = [tau if tau > 0.0 else least / 3.0 for tau in found["tau"]]
    ax.plot(x, found["epsilon"], color=COLOURS["present"], linewidth=1.4, marker="o", markersize=3.5, label="bound")
    claimed = comparable_claim(audit, "epsilon")
    if claimed is not None and claimed < 1e6:
        ax.axhline(claimed, color=COLOURS["claim"], linewidth=1.8, linestyle=(0, (6, 2)), label="claimed")
    ax.set_xscale("log")
    ax.minorticks_off()
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("tau (the first point is tau = 0)" if 0.0 in found["tau"] else "tau")
    ax.set_ylabel("epsilon")
    ax.legend(fontsize=8, frameon=False)
    return ax


def region(audit: Audit, *, ax: Any = None) -> Any:
    """epsilon for every divergence of the generator that one may assert; half of it under add/remove, with no delta."""
    found, ax = _data(audit, "region"), _axes(ax)
    ax.plot(found["divergence"], found["epsilon"], color=COLOURS["present"], linewidth=2.0, label="substitution")
    if "add_remove" in found:
        halves = found["add_remove"]
        ax.plot(found["divergence"], halves, color=COLOURS["quiet"], linestyle=(0, (4, 2)), label="add/remove: half")
    ax.axvline(found["divergence"][0], color=COLOURS["absent"], linestyle=(0, (1, 1)), label="baseline shows so much")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("generator divergence c that is asserted")
    ax.set_ylabel("epsilon is at least")
    ax.legend(fontsize=8, frameon=False)
    return ax


def precision(audit: Audit, *, ax: Any = None) -> Any:
    """Share of real items among those that look most real, without the model and with it."""
    found, ax = _data(audit, "precision"), _axes(ax)
    lines = (("attack", "present", "solid", "with the model"), ("baseline", "absent", (0, (4, 2)), "baseline"))
    for name, role, style, label in lines:
        shares = [right / guesses for right, guesses in zip(found[name], found["guesses"], strict=True)]
        ax.plot(found["guesses"], shares, color=COLOURS[role], linestyle=style, label=label)
    ax.axhline(0.5, color=COLOURS["quiet"], linewidth=1.0, linestyle=(0, (1, 1)), label="chance")
    ax.set_xscale("log")
    ax.minorticks_off()
    ax.set_xlabel("items called real, from the surest on")
    ax.set_ylabel("share that is real")
    ax.legend(fontsize=8, frameon=False)
    return ax


def learning(audit: Audit, *, ax: Any = None) -> Any:
    """What the baseline shows on validation rows, by the number of rows that it learns from: estimates."""
    found, ax = _data(audit, "learning"), _axes(ax)
    ax.plot(found["rows"], found["divergence"], color=COLOURS["absent"], marker="s", markersize=4.5, label="baseline")
    ax.set_ylim(bottom=0.0, top=1.15 * max(*found["divergence"], 0.1))
    ax.set_xlim(left=0.0)
    ax.set_xlabel("rows that the baseline learns from")
    ax.set_ylabel("divergence shown (estimate)")
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    return ax


def calibration(audit: Audit, *, ax: Any = None) -> Any:
    """What the proxy or the propensities predict against what occurs; points on the diagonal are right."""
    found, ax = _data(audit, "calibration"), _axes(ax)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=COLOURS["quiet"], linewidth=1.2, linestyle=(0, (1, 1)), label="right")
    shown = "propensities" if "propensities" in audit.figures else "counterfactual"
    ax.plot(found["predicted"], found["observed"], color=COLOURS["present"], marker="s", markersize=4.5, label=shown)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed share")
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    return ax


def propensities(audit: Audit, *, ax: Any = None) -> Any:
    """The propensities of members and of non-members, as shares; where the groups are alike, the two coincide."""
    found, ax = _data(audit, "propensities"), _axes(ax)
    _two_groups(ax, found["edges"], (found["members"], "members"), (found["others"], "non-members"))
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("propensity: P(member given the features)")
    ax.set_ylabel("share of rows")
    ax.legend(fontsize=8, frameon=False)
    return ax
