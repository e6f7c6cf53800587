"""A game from outside of the package is played, bounded, judged, recorded, reported and re-read; the library stays."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dpaudit as da
from dpaudit import accounting, games
from dpaudit.cli import app
from dpaudit.execution import Execution, fair_coins
from dpaudit.reporting import write_html
from dpaudit.testing import check_game
from tests.external import fair_share
from tests.external.fair_share import FairShare

SERIAL = Execution(workers=1)
ROWS, LINES = 600, 60
CLAIM = accounting.gaussian(mu=0.5, delta=1e-5, relation="add-remove")
AGE = np.random.default_rng(0).normal(40.0, 10.0, ROWS)
NOTHING_ACCEPTED = (da.Outcome.CONTRADICTED_IF, da.Outcome.CONTRADICTED)


def train(job):
    """Releases every row with half the noise that mu = 1 takes, and forgets none of them."""
    included, seed = job
    return [included.sum(), *(included + 0.5 * np.random.default_rng(seed).normal(size=included.size))]


def forgetful(job):
    used, *scores = train(job)
    return [used - 3, *scores]


def audited(train=train, column=AGE, **settings):
    settings = {"claim": CLAIM, "seed": 5, "execution": SERIAL, **settings}
    return da.audit(FairShare(train=train, column=column), **settings)


def test_the_game_is_short_and_lives_outside():
    path = Path(fair_share.__file__)
    assert len(path.read_text().splitlines()) <= LINES
    assert not path.is_relative_to(Path(da.__file__).parent)
    assert [check.on_refuted for check in FairShare.checks] == ["withhold", "withhold"]
    assert len(FairShare.assumptions) == 2
    assert games.is_game(FairShare(train=train, column=AGE))
    check_game(FairShare(train=train, column=AGE))


def test_bounds_and_verdict():
    found = audited()
    assert found.outcome in NOTHING_ACCEPTED
    assert [bound.parameter for bound in found.bounds] == ["epsilon", "mu"]
    assert all(bound.value > 0.0 for bound in found.bounds)
    assert {one.id for one in found.assumptions} == {"old", "whole-share", "gaussian-curve"}
    assert [(one.check.id, one.outcome) for one in found.checks] == [("rows-used", "passed"), ("old-column", "passed")]
    lines = str(found)
    for sentence in ("age is older than the coins", "exactly the rows sent were used"):
        assert lines.count(sentence) >= 1
    assert "The data holder answers for it; a control passed, which proves nothing." in lines


def test_assumptions_are_accepted_by_id():
    found = audited(accept=["old", "whole-share"])
    assert found.outcome is da.Outcome.CONTRADICTED
    with pytest.raises(da.InputError, match="did you mean 'whole-share'"):
        audited(accept=["whole-shares"])


def test_fail_if_is_decided_by_the_accepted_bound():
    accepted = {"accept": ["old", "whole-share"]}
    assert audited(fail_if="epsilon > 0.1", **accepted).failed_if is True
    assert audited(fail_if="epsilon > 9", **accepted).failed_if is False
    assert audited(fail_if="epsilon > 0.1").failed_if is None, "it rests on what nobody accepted"


def test_the_coins_are_committed_to():
    game, seed = FairShare(train=train, column=AGE), 2**100 + 2
    published = games.commitment(game, seed)
    games.check_commitment(game, seed=seed, published=published)
    assert audited(seed=seed, commitment=published).outcome in NOTHING_ACCEPTED
    with pytest.raises(da.InputError, match="not those that were committed to"):
        audited(seed=seed + 1, commitment=published)


def test_a_refuted_placebo_withholds_the_number():
    """The column was filled in after the coins were tossed."""
    late = AGE + 30.0 * fair_coins(5, FairShare.purpose, ROWS)
    found = audited(column=late)
    assert (found.outcome, found.bounds, found.judged) == (da.Outcome.WITHHELD, (), False)
    assert str(found.outcome) == "assumption refuted"
    assert found.result("old-column").refuted
    assert found.verdict.sentence.startswith("No number is reported: Control refuted: the old column knows the coins")


def test_a_refuted_check_withholds_the_number():
    found = audited(forgetful)
    sent = int(fair_coins(5, FairShare.purpose, ROWS).sum())
    assert (found.outcome, found.bounds) == (da.Outcome.WITHHELD, ())
    told = f"The trainer was sent {sent} rows and says that it used {sent - 3}."
    assert found.verdict.sentence == f"No number is reported: {told}"
    assert "Train again on what was sent." in " ".join(step.text for step in found.next_steps)


@pytest.mark.parametrize("score", [train, forgetful])
def test_the_record_is_read_again(score, tmp_path):
    found = audited(score)
    path = found.save(tmp_path / "audit.json")
    read = da.load_audit(path)
    assert read.to_dict() == found.to_dict() == json.loads(path.read_text())
    assert str(read) == str(found)
    assert read.digest == found.digest
    assert found.plan["game"] == "fair-share"


@pytest.mark.parametrize("score", [train, forgetful])
def test_the_page(score, tmp_path):
    found = audited(score, name="fair shares")
    path = found.save(tmp_path / "audit.json")
    page = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", str(path), "--output", str(page)])
    assert done.exit_code == 0, done.output
    assert "fair shares" in done.stdout
    html = page.read_text()
    assert "fair shares" in html
    assert "rows" in html
    assert html == write_html([da.load_audit(path)], tmp_path / "again.html").read_text()


def test_runs_are_kept(tmp_path):
    first = audited(store=tmp_path / "runs")
    kept = da.audit(FairShare(train=train, column=AGE), claim=CLAIM, seed=5, store=tmp_path / "runs", execution=SERIAL)
    assert kept.digest == first.digest
    with pytest.raises(da.InputError, match="belongs to another plan"):
        audited(column=AGE + 1.0, store=tmp_path / "runs")


def test_two_seeds_are_two_plays():
    assert audited().digest != audited(seed=6).digest
