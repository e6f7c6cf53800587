"""One self-contained HTML file from records: no script, no request, the JSON inside, text set as text.

Figures are the axes of `reporting.plot` as inline SVG, recoloured by CSS variables so that they follow light and dark.
"""

from __future__ import annotations

import html
import io
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpaudit import __version__, _files
from dpaudit.assumptions import filled, percent
from dpaudit.bounds import Outcome
from dpaudit.record import Audit, Audits, as_audits
from dpaudit.reporting import plot, text

MARKS = {
    Outcome.CONTRADICTED: "✗",
    Outcome.CONTRADICTED_IF: "✗?",
    Outcome.CONSISTENT: "=",
    Outcome.UNINFORMATIVE: "…",
    Outcome.NOT_COMPARABLE: "≠",
    Outcome.NO_CLAIM: "-",
    Outcome.FAILED: "!",
    Outcome.WITHHELD: "⊘",
    Outcome.BROKEN: "✗",
}
RC: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": plot.COLOURS["ink"],
    "axes.edgecolor": plot.COLOURS["quiet"],
    "axes.labelcolor": plot.COLOURS["ink"],
    "xtick.color": plot.COLOURS["quiet"],
    "ytick.color": plot.COLOURS["quiet"],
    "xtick.labelcolor": plot.COLOURS["ink"],
    "ytick.labelcolor": plot.COLOURS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
}


TITLE, TITLE_OF_ONE = "Privacy audit", "Privacy audit: {name}"
CLAIM = "{claim}; {method}, {relation} of one {unit}"
TESTED_AS = "the curve of: {curve}"
DIGEST = "sha256 {digest}"
ADJACENCY = "{relation} of one {unit}"
CONFIDENCE = "{confidence:percent} for the verdict, and for each bound on its own"
CONDITION = "fail if {condition}"
REACH = "An audit of this size could have shown {parameter} up to about {ceiling:down}."
OF_PLAYS = "{plays} plays of {sizes} each"
AXIS = "{lower}; claimed: {claim}; ceiling: {ceiling}."
NOT_DRAWN = "The claim is not drawn: it is about something else."
REGION = (
    "What is left for the model, for every divergence of the generator that one may assert: real records at most e^c "
    "times as likely as generated ones. To the left of the dotted line the baseline refutes the assertion."
)
PRECISION = "Of the items that look most real, the share that is: by the baseline, and by the attack with the model."
PROPENSITIES = (
    "How the features alone tell the groups apart: propensities of the audited members and non-members, for groups of "
    "equal size. Near 0 and 1 there is little to compare a row with."
)
HISTOGRAM = "How the scores of the two worlds are spread."
GUESSES = "Share of right guesses among the most confident ones; a half is chance."
RECOGNITION = (
    "Share of right guesses among the surest ones, on rows that the model was trained on and on rows that it never saw."
)
LEARNING = "What the baseline shows of the generator's divergence, by the rows it learns from (estimates)."
RISING = "It still rises: the model's leakage may be over-stated."
ERRORS = "Error rates of the attack, on log axes."
SQUARES = (
    "The squares are upper limits of both rates at the tested null ranks; all of them hold at once with "
    "{confidence:percent} confidence."
)
SHADED = "Squares inside the shaded area speak against the claim; the verdict comes from its own test."
CALIBRATION = "How far the proxy can be believed: what it predicts, and what occurs."
CALIBRATION_OF_PROPENSITIES = (
    "How far the propensities can be believed: what they predict, and how many members there are."
)
SHIFT = "Bound against tau: what would be left if true and proxy values differed by that much."
NOT_REFUTED = "Only values that the blind baseline does not refute are shown."
THRESHOLDS = "What each threshold would have shown, had it alone been fixed in advance."
REPORTED = "The reported bound, {epsilon:down}, pays for trying several."
CLAIMED = "Claimed: {epsilon:up}."
SVG = '<svg viewBox="{box}" {namespaces} role="img" aria-label="{caption}">'


@dataclass(frozen=True)
class Figure:
    """One drawing and the sentence that says the same in words."""

    svg: str
    caption: str


def write_html(audits: Audit | Iterable[Audit], path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the report, atomically."""
    return _files.write_text(path, to_html(audits, title=title))


def to_html(audits: Audit | Iterable[Audit], *, title: str | None = None) -> str:
    """The report of one audit or of several."""
    found = as_audits(audits)
    sections = [_section(audit, f"audit-{number}") for number, audit in enumerate(found, 1)]
    import markupsafe

    heading = title or (TITLE if len(found) > 1 else filled(TITLE_OF_ONE, {"name": found[0].name}))
    template = _environment().get_template("report.html.j2")
    return str(
        template.render(
            title=heading,
            headline=found[0].text["verdict"] if len(found) == 1 else text.closing(found),
            mark=MARKS[found[0].outcome] if len(found) == 1 else "",
            tone=_tone(found[0].outcome) if len(found) == 1 else "",
            several=len(found) > 1,
            headings=text.HEADINGS,
            rows=list(zip(text.summary_rows(found), sections, strict=True)),
            together=None if found.simultaneous_confidence is None else percent(found.simultaneous_confidence),
            everything=percent(found.everything),
            unjudged=[section for section in sections if not section["audit"].judged],
            sections=sections,
            json=markupsafe.Markup(html.escape(_record(found), quote=False)),
            version=__version__,
        )
    )


def _record(found: Audits) -> str:
    return found[0].to_json() if len(found) == 1 else found.to_json()


def _section(audit: Audit, anchor: str) -> dict[str, Any]:
    return {
        "audit": audit,
        "anchor": anchor,
        "mark": MARKS[audit.outcome],
        "tone": _tone(audit.outcome),
        "word": text.verdict_words(audit),
        "axis": _axis(audit, anchor),
        "figures": _figures(audit, anchor),
        "tested": _tested(audit),
        "assumed": audit.text.get("assumptions") or [str(one) for one in audit.assumptions],
        "checked": [*audit.text["checks"], *audit.text.get("comparisons", [])],
        "next_steps": audit.text["next_steps"],
        "settings": _settings(audit),
        "bounds": [_bound_lines(lines, bound) for lines, bound in zip(audit.text["bounds"], audit.bounds, strict=True)],
        "budget": [(s["statement"], f"{s['error']:.6g}", s["spent"]) for s in audit.budget],
        "together": None if audit.simultaneous_confidence is None else percent(audit.simultaneous_confidence),
        "failure": audit.figures.get("failure", ""),
    }


def _tone(outcome: Outcome) -> str:
    bad = outcome in (Outcome.CONTRADICTED, Outcome.CONTRADICTED_IF, Outcome.FAILED)
    return "bad" if bad else "plain" if outcome in (Outcome.CONSISTENT, Outcome.NO_CLAIM) else "open"


def _tested(audit: Audit) -> list[tuple[str, str]]:
    plan, rows = audit.plan, []
    if audit.claim is not None:
        claim = audit.claim
        rows.append(("claim", filled(CLAIM, {**claim, "claim": text.claim_words(audit)})))
        rows.append(("source of the claim", claim["source"] or "not stated"))
        rows.append(("tested as", filled(TESTED_AS, {"curve": claim["tested_as"]})))
    plays = plan.get("repeats", 1)  # of one question and one size
    for first in range(0, len(audit.evidence), plays):
        question = audit.evidence[first : first + plays]
        sizes = ", ".join(f"{count:,} {name}" for name, count in question[0]["sizes"].items())
        rows.append(("evidence", sizes if plays == 1 else filled(OF_PLAYS, {"plays": plays, "sizes": sizes})))
        rows.append(("evidence digest", ", ".join(filled(DIGEST, seen) for seen in question)))
    rows.append(("adjacency", filled(ADJACENCY, plan)))
    rows.append(("confidence", filled(CONFIDENCE, plan)))
    if audit.fail_if is not None:
        rows.append((filled(CONDITION, {"condition": audit.fail_if}), text.CONDITIONS[audit.failed_if]))
    return rows


def _bound_lines(lines: list[str], bound: Any) -> list[str]:
    """A bound with its assumptions by number, how it was found, and its remarks."""
    how = [part for part in (getattr(bound, "size", None), getattr(bound, "method", None), bound.selection) if part]
    reach = [filled(REACH, {"parameter": name, "ceiling": value}) for name, value in bound.ceilings.items()]
    proof = [filled(text.PROOF, {"theory": bound.theory})] if bound.theory else []
    return [*lines, "; ".join(how), *getattr(bound, "notes", ()), *reach, *proof]


def _settings(audit: Audit) -> list[tuple[str, str]]:
    parts = [("plan", audit.plan), ("seeds", audit.seeds), ("versions", audit.versions), ("timings", audit.timings)]
    return [
        (f"{part} {name.replace('_', ' ')}", _shown(value)) for part, table in parts for name, value in table.items()
    ]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


# ------------------------------------------------------------------------------------------------------------- figures


def _axis(audit: Audit, anchor: str) -> Figure | None:
    """Lower bounds and the claim on one axis for each parameter."""
    parameters = [p for p in ("epsilon", "mu") if any(plot.bounds_on(audit, p))]
    if not parameters:
        return None
    from matplotlib.figure import Figure as Canvas

    sizes = [len(plot.bounds_on(audit, p)) + 1.2 for p in parameters]
    with _style():
        height = 0.5 * sum(sizes) + 0.45 * len(parameters)
        canvas = Canvas(figsize=(5.4, height))
        canvas.subplots_adjust(left=0.03, right=0.97, bottom=0.5 / height, top=0.98, hspace=0.45)
        axes = canvas.subplots(len(parameters), 1, height_ratios=sizes, squeeze=False)
        for parameter, ax in zip(parameters, axes[:, 0], strict=True):
            plot.bounds(audit, parameter=parameter, ax=ax)
        shown = {"lower": text.lower_words(audit), "claim": text.claim_words(audit)}
        caption = filled(AXIS, {**shown, "ceiling": text.ceiling_words(audit)})
        if audit.outcome is Outcome.NOT_COMPARABLE:
            caption = f"{caption} {NOT_DRAWN}"
        return Figure(_svg(canvas, f"{anchor}-axis", caption), caption)


def _figures(audit: Audit, anchor: str) -> list[Figure]:
    drawn: dict[str, tuple[Callable[..., Any], str]] = {
        "errors": (plot.errors, _errors_caption(audit)),
        "histogram": (plot.histogram, HISTOGRAM),
        "thresholds": (plot.thresholds, _thresholds_caption(audit)),
        "guesses": (plot.guesses, GUESSES),
        "recognition": (plot.recognition, RECOGNITION),
        "shift": (plot.shift, _shift_caption(audit)),
        "calibration": (plot.calibration, _calibration_caption(audit)),
        "propensities": (plot.propensities, PROPENSITIES),
        "region": (plot.region, REGION),
        "precision": (plot.precision, PRECISION),
        "learning": (plot.learning, _learning_caption(audit)),
    }
    found = []
    for name, (draw, caption) in drawn.items():
        if name in audit.figures:
            from matplotlib.figure import Figure as Canvas

            with _style():
                canvas = Canvas(figsize=(5.0, 3.5))
                canvas.subplots_adjust(left=0.16, right=0.97, bottom=0.15, top=0.96)
                draw(audit, ax=canvas.subplots())
                found.append(Figure(_svg(canvas, f"{anchor}-{name}", caption), caption))
    return found


def _learning_caption(audit: Audit) -> str:
    baseline = audit.result("baseline")
    rising = baseline is not None and baseline.numbers.get("rising", False)
    return f"{LEARNING} {RISING}" if rising else LEARNING


def _errors_caption(audit: Audit) -> str:
    sentences = [ERRORS]
    if "boxes" in audit.figures.get("errors", {}):
        sentences.append(filled(SQUARES, audit.plan))
    if plot.alike(audit):
        sentences.append(SHADED)
    return " ".join(sentences)


def _calibration_caption(audit: Audit) -> str:
    return CALIBRATION_OF_PROPENSITIES if "propensities" in audit.figures else CALIBRATION


def _shift_caption(audit: Audit) -> str:
    return f"{SHIFT} {NOT_REFUTED}" if audit.outcome is Outcome.WITHHELD else SHIFT


def _thresholds_caption(audit: Audit) -> str:
    reported = next((one for one in plot.bounds_on(audit, "epsilon") if one.parameter == "epsilon"), None)
    sentences = [THRESHOLDS]
    if reported is not None:
        sentences.append(filled(REPORTED, {"epsilon": reported.epsilon}))
    claimed = plot.comparable_claim(audit, "epsilon")
    if claimed is not None:
        sentences.append(filled(CLAIMED, {"epsilon": claimed}))
    return " ".join(sentences)


def _style() -> Any:
    import matplotlib

    return matplotlib.rc_context(RC)


def _svg(canvas: Any, name: str, caption: str) -> str:
    """The drawing as inline SVG: unique ids, colours by CSS variable, a title for those who cannot see it."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": name}), io.StringIO() as out:
        canvas.savefig(
            out, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
        text = out.getvalue()
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{name}-", _compact(text[text.index("<svg") :]))
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    for role, colour in plot.COLOURS.items():
        text = text.replace(colour, f"var(--{role})")
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None
    head = {"box": box[1], "namespaces": NAMESPACES, "caption": html.escape(caption)}
    return filled(SVG, head) + text[text.index(">") + 1 :]


def _compact(text: str) -> str:
    """Without what a browser does not need: metadata, comments, its own style, idle ids, far decimals."""
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r'<g id="[^"]+"', "<g", text)
    text = re.sub(r'\bd="[^"]*"', lambda d: re.sub(r"\s*\n", "", re.sub(r"(\d\.\d)\d+", r"\1", d[0])), text)
    text = re.sub(r" font-family: [^;\"]*;| transform=\"rotate\(-0 [^)]*\)\"", "", text)
    text = re.sub(r'\b(?:x|y|transform)="[^"]*"', lambda at: re.sub(r"(\d\.\d\d)\d+", r"\1", at[0]), text)
    return re.sub(r"\s*\n\s*", "\n", text)


NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


@lru_cache(maxsize=1)
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("dpaudit.reporting", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
