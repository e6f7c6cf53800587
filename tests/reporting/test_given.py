"""What a report shows of a zero-run record: the propensities of both groups, and words of its own."""

import copy
import json

import numpy as np
import pytest
from matplotlib.figure import Figure

import dpaudit as da
from dpaudit import InputError
from dpaudit.games import ZeroRun
from dpaudit.reporting import plot


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(5)
    member = np.arange(1200) < 600
    x = rng.normal(size=(1200, 2)) + np.where(member, 0.5, -0.5)[:, None]
    return da.audit(ZeroRun(scores=rng.normal(size=1200) + 2.0 * member, member=member, features=x), seed=1, delta=0.0)


def test_the_histogram_of_propensities_is_in_the_record(found, tmp_path):
    figure = found.figures["propensities"]
    assert len(figure["edges"]) == len(figure["members"]) + 1 == len(figure["others"]) + 1
    assert sum(figure["members"]) + sum(figure["others"]) >= found.evidence[0]["sizes"]["rows"]
    assert da.load_audit(found.save(tmp_path / "record.json")) == found
    broken = copy.deepcopy(json.loads(found.to_json()))
    broken["figures"]["propensities"]["members"].append(1)
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    with pytest.raises(InputError, match="lists of figure 'propensities' must have one length"):
        da.load_audit(tmp_path / "broken.json")


def test_axes_draw_what_the_record_says(found):
    ax = plot.propensities(found, ax=Figure().subplots())
    figure = found.figures["propensities"]
    for patch, group in zip(ax.patches, ("members", "others"), strict=True):
        heights = patch.get_xy()[1 : 2 * len(figure[group]) + 1 : 2, 1]
        assert heights == pytest.approx(np.divide(figure[group], sum(figure[group])))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["members", "non-members"]
    assert ax.patches[1].get_hatch()  # colour is not the only carrier of meaning
    histogram = plot.histogram(found, ax=Figure().subplots())
    assert [text.get_text() for text in histogram.get_legend().get_texts()] == words
    calibration = plot.calibration(found, ax=Figure().subplots())
    assert "propensities" in [line.get_label() for line in calibration.lines]
    with pytest.raises(InputError, match="no figure 'shift'"):
        plot.shift(found)


def test_the_page_says_it_in_words(found):
    page = da.reporting.to_html(found)
    assert "How the features alone tell the groups apart" in page
    assert "How far the propensities can be believed" in page
    assert "counterfactual" not in page.split("The record itself")[0]
    assert found.checks
    for result in found.checks:
        assert result.text in page
