"""The report in a real browser: no error, no request, everything visible, nothing hostile executed, accessible."""

import itertools
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import sync_playwright

import dpaudit as da
from dpaudit import accounting, games
from dpaudit.auditing.advice import said
from dpaudit.execution import Execution
from dpaudit.record import Audits
from dpaudit.record.files import audit_of
from dpaudit.reporting import to_html, write_html

SERIAL = Execution(workers=1)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"&amp;]]>{{ 7*7 }}"


def half_noise(world, seed):
    return float(world) + 0.5 * np.random.default_rng(seed).normal()


def canaries(included, seed):
    return 3.0 * included + np.random.default_rng(seed).normal(size=included.size)


def fails(world, seed):
    raise ValueError(EVIL)


@pytest.fixture(scope="module")
def audits():
    claim = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")
    common = {"claim": claim, "execution": SERIAL, "confidence": 0.99}
    return Audits(
        (
            da.audit(half_noise, name="half the noise", runs=200, **common),
            da.audit(half_noise, name="too small", runs=3, **common),
            da.audit(half_noise, name="other adjacency", runs=50, relation="substitute", **common),
            da.audit(games.OneRun(scores=canaries, canaries=800, relation="add-remove"), name="one run", **common),
            da.audit(fails, name="fails", runs=3, **common),
        )
    )


@pytest.fixture(scope="module")
def report(audits, tmp_path_factory):
    return write_html(audits, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    assert path, "Chromium comes from Debian's packages; `make test` installs it"
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


def show(browser, path, **settings):
    """Open a page; whatever it logs or asks for is collected."""
    page = browser.new_page(**settings)
    page.trouble = []
    page.on("console", lambda message: page.trouble.append(message.text))
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("request", lambda request: request.url.startswith("file://") or page.trouble.append(request.url))
    page.on("requestfailed", lambda request: page.trouble.append(request.url))
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize("width", [360, 800, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_visible_at_any_width(browser, audits, report, width, scheme):
    page = show(browser, report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert page.trouble == []
    for audit in audits:
        assert page.get_by_role("heading", name=audit.name, exact=True).is_visible()
        assert page.get_by_text(audit.verdict.sentence).first.is_visible()
    figures = page.locator("figure svg")
    assert figures.count() == 3 * 4 + 1 * 4
    for number in range(figures.count()):
        box = figures.nth(number).bounding_box()
        assert box["width"] > 200, box
        assert box["height"] > 80, box
        assert box["x"] >= 0, box
        assert box["x"] + box["width"] <= width, box
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "no sideways scrolling of the page"
    page.close()


def test_scripts_off_and_print(browser, audits, report):
    page = show(browser, report, java_script_enabled=False)
    assert page.get_by_text(audits[0].verdict.sentence).first.is_visible()
    page.close()
    page = show(browser, report)
    page.emulate_media(media="print")
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert 5 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 40
    page.close()


def test_contrast_headings_and_alternatives(browser, report):
    """Text against its background at WCAG AA (4.5), headings in order, every figure with its words."""
    for scheme in ("light", "dark"):
        page = show(browser, report, color_scheme=scheme)
        assert page.evaluate(LEAST_CONTRAST) >= 4.5
        levels = page.eval_on_selector_all("h1,h2,h3", "all => all.map(h => Number(h.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
        assert page.eval_on_selector_all("svg", "all => all.every(s => s.getAttribute('aria-label').length > 20)")
        ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
        assert len(ids) == len(set(ids))
        assert page.eval_on_selector("html", "e => e.lang") == "en"
        page.close()


LEAST_CONTRAST = """() => {
  const parts = c => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = parts(c).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c) && c !== 'transparent') return c; } return 'rgb(255,255,255)'; };
  let least = 99;
  for (const e of document.querySelectorAll('p, li, td, th, h1, h2, h3, a, figcaption, span, pre, svg text')) {
    const s = getComputedStyle(e), colour = e.closest('svg') ? s.fill : s.color;
    const [a, b] = [light(colour), light(back(e))].sort((x, y) => y - x);
    least = Math.min(least, (a + .05) / (b + .05));
  }
  return least; }"""


def test_hostile_strings_are_text(browser, tmp_path):
    claim = replace(
        accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove", unit=EVIL), method=EVIL, references=(EVIL,)
    )
    evidence = da.RunScores(
        present=np.arange(50) + 30.0, absent=np.arange(50), relation="add-remove", unit=EVIL, assumptions=(EVIL,)
    )
    found = da.audit(evidence, claim=claim, name=EVIL, note=EVIL, claim_source=EVIL)
    changed = replace(
        found,
        next_steps=(said(EVIL.replace("{", "{{").replace("}", "}}")),),
        versions={EVIL: EVIL},
        figures=found.figures,
    )
    failed = da.audit(fails, claim=replace(claim, unit="record"), name=EVIL, runs=2, execution=SERIAL)
    for audits in (changed, [changed, failed]):
        path = write_html(audits, tmp_path / "report.html", title=EVIL)
        page = show(browser, path)
        assert page.trouble == []
        assert page.title() == EVIL
        assert page.locator("img, script, iframe, object, embed").count() == 0
        assert page.get_by_text(EVIL).first.is_visible()
        shown = page.locator("#record").evaluate("e => e.textContent")
        assert json.loads(shown) == json.loads(
            (Audits((changed, failed)) if audits is not changed else changed).to_json()
        )
        page.close()


def test_the_page_is_small_and_made_of_the_record(audits):
    page = to_html(audits)
    assert len(page.encode()) < 1_000_000
    assert to_html(audits) == page, "the same records give the same page"
    assert "http-equiv" in page
    assert not re.search(r'(src|href)="(?!#)', page), "nothing is loaded from anywhere"
    reloaded = Audits(tuple(audit_of(json.loads(audit.to_json())) for audit in audits))
    assert to_html(reloaded) == page


def test_a_contradiction_is_visible_as_a_square_in_the_shaded_area(audits):
    """The figure agrees with the verdict: a limit lies below the claimed curve."""
    errors = audits[0].figures["errors"]
    curve = errors["claimed"]
    inside = [
        box["false_negative_limit"]
        < np.interp(box["false_positive_limit"], curve["false_positive_rate"], curve["false_negative_rate"])
        for box in errors["boxes"]
    ]
    assert any(inside)
