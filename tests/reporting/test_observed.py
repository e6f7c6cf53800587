"""What a report shows of an observational record: its checks and its two figures."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import dpaudit as da
from dpaudit import InputError
from dpaudit.reporting import plot
from dpaudit.testing.calibration.members import ObservedLabels
from tests.conftest import noisy_proxy


@pytest.fixture(scope="module")
def audits():
    leaky = da.audit(
        ObservedLabels(3.0, rows=2000).game(np.random.default_rng(2)),
        seed=4,
        name="labels",
        accept="counterfactual-right",
    )
    return leaky, da.audit(noisy_proxy(3000, 0.2, 5), seed=5, name="noisy")


def test_axes_draw_what_the_record_says(audits):
    leaky, refuted = audits
    ax = plot.shift(leaky, ax=Figure().subplots())
    assert ax.lines[0].get_ydata().tolist() == leaky.figures["shift"]["epsilon"]
    assert "tau = 0" in ax.get_xlabel()
    ax = plot.calibration(leaky, ax=Figure().subplots())
    assert ax.lines[1].get_xdata().tolist() == leaky.figures["calibration"]["predicted"]
    assert min(refuted.figures["shift"]["tau"]) >= refuted.result("needed").numbers["tau"]
    with pytest.raises(InputError, match="no figure 'thresholds'"):
        plot.thresholds(refuted)


def test_every_sentence_stands_on_the_page(audits):
    page = da.reporting.to_html(audits)
    for found in audits:
        assert found.checks
        for result in found.checks:
            assert result.text.split("'")[0] in page
    assert "Only values that the blind baseline does not refute are shown." in page
