"""`da.audit`: every outcome, what is written down, the record's JSON and its schema, exit codes."""

import copy
import hashlib
import json
import math
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import dpaudit as da
from dpaudit import InputError, Outcome, accounting, games
from dpaudit.execution import Execution
from dpaudit.record import Audits, schema
from dpaudit.testing import ground_truth
from tests.auditing.test_premises import Loop
from tests.conftest import gaussian_runs, noisy_canaries, noisy_proxy
from tests.golden.worlds import broken, full_noise, half_noise

SERIAL = Execution(workers=1)
FIXTURES = Path(__file__).parent.parent / "fixtures"
CLAIM = accounting.gaussian(mu=1.0, delta=1e-5, relation="add-remove")


def audit(score=half_noise, **settings):
    return da.audit(score, **{"claim": CLAIM, "execution": SERIAL, **settings})


@pytest.fixture(scope="module")
def every_outcome():
    return {
        "contradicted": audit(fail_if="mu > 0.5"),
        "consistent": audit(full_noise, runs=60),
        "uninformative": audit(runs=4),
        "not comparable": audit(relation="substitute", runs=20),
        "no claim": audit(claim=None, relation="add-remove", runs=30),
        "failed": audit(broken, runs=3),
        "assumption refuted": da.audit(noisy_proxy(2000, 0.3, 1), seed=1),
        "premise broken": da.audit(Loop(used=90), claim=CLAIM, execution=SERIAL),
        "contradicted if": da.audit(
            gaussian_runs(np.random.default_rng(0), 3.0, 200, assumptions=("the runs are independent",)), claim=CLAIM
        ),
    }


def test_every_outcome_is_reached(every_outcome):
    assert {str(found.outcome) for found in every_outcome.values()} == {str(word) for word in Outcome}
    for word, found in every_outcome.items():
        assert found.outcome == word


def test_sentences(every_outcome):
    texts = {word: str(found) for word, found in every_outcome.items()}
    assert "Contradicted at 95% confidence: p = " in texts["contradicted"]
    assert "fail if mu > 0.5: yes" in texts["contradicted"]
    assert "epsilon up to about" in texts["consistent"]
    assert "At least 9 runs a side" in texts["uninformative"]
    assert "An audit under add-remove adjacency" in texts["not comparable"]
    assert "is a further test, with an error probability of its own" in texts["consistent"]
    assert "It would not have been contradicted at an error probability below 0.005." in texts["contradicted"]
    assert "OSError: no disk" in texts["failed"]
    assert "if [1] holds." in texts["contradicted if"]
    assert texts["contradicted if"].endswith(
        "It rests on assumption [1] above; list its id in `accept` to take it on: said-the-runs-are-independent."
    )
    assert "[1] the trade-off curve is Gaussian. The developer answers for it" in texts["consistent"]
    assert "delta 1e-05   95% confidence, add-remove of one record [1]" in texts["consistent"]


def test_records_follow_the_schema_and_read_back(every_outcome, tmp_path):
    jsonschema.Draft202012Validator.check_schema(schema())
    for found in every_outcome.values():
        jsonschema.validate(json.loads(found.to_json()), schema())
        path = found.save(tmp_path / "record.json")
        again = da.load_audit(path)
        assert again == found
        assert again.digest == found.digest
        assert str(again) == str(found)
        assert again.metrics() == found.metrics()


def test_every_evidence_type_has_a_record(tmp_path, rng):
    split = da.MemberScores(
        scores=rng.normal(size=400), member=np.arange(400) < 200, relation="substitute", assignment="split"
    )
    for evidence in (
        gaussian_runs(rng),
        noisy_canaries(rng),
        ground_truth.ShiftedMembers(1.5, 300).sample(rng),
        ground_truth.GeneratedPairs().sample(rng),
        ground_truth.NoisyVotes(trials=500).sample(rng),
        split,
    ):
        found = da.audit(evidence)
        assert found.outcome is Outcome.NO_CLAIM
        assert [entry["digest"] for entry in found.evidence] == [evidence.digest]
        assert da.load_audit(found.save(tmp_path / "r.json")) == found
        assert found.budget


def test_generated_records_have_no_verdict(rng):
    claim = da.UpperBound(epsilon=1.0, delta=0.0, relation="substitute")
    found = da.audit(ground_truth.GeneratedPairs().sample(rng), claim=claim)
    assert found.outcome is Outcome.UNINFORMATIVE


def test_the_budget_lists_every_statement(every_outcome):
    found = every_outcome["consistent"]
    assert [share["statement"] for share in found.budget] == [
        "verdict on the claim",
        "limits of the error rates in the figure",
        "lower bound on epsilon",
        "lower bound on mu",
    ]
    assert all(share["error"] == pytest.approx(0.05) for share in found.budget)
    assert "null ranks, Bonferroni" in found.budget[0]["spent"]
    assert found.simultaneous_confidence == pytest.approx(0.8)


def test_the_plan_says_what_was_fixed(every_outcome):
    plan = every_outcome["contradicted"].plan
    assert plan["game"] == "multi-run"
    assert plan["score"].startswith("half_noise, sha256 ")
    assert plan["runs"] == da.plan_runs(claim=CLAIM)
    assert plan["headline"] == "verdict on the claim"
    assert every_outcome["contradicted"].seeds["commitment"].startswith("sha256:")
    assert every_outcome["contradicted"].versions["dpaudit"] == da.__version__


def test_metrics_are_flat_floats(every_outcome):
    for found in every_outcome.values():
        assert all(type(value) is float for value in found.metrics().values()), found.metrics()
    assert every_outcome["contradicted"].metrics()["mu_claimed"] == 1.0


def test_one_run_and_commitment():
    def scores(included, seed):
        return 3.0 * included + np.random.default_rng(seed).normal(size=included.size)

    game = games.OneRun(scores=scores, canaries=1500, relation="add-remove")
    published = games.commitment(game, 2**90)
    found = da.audit(game, claim=CLAIM, seed=2**90, commitment=published, execution=SERIAL)
    assert found.contradicted
    assert found.seeds["commitment_checked"] is True
    assert found.seeds["commitment_hides"] is True
    assert "guesses" in found.figures
    with pytest.raises(InputError, match="committed to"):
        da.audit(game, claim=CLAIM, seed=5, commitment=published, execution=SERIAL)


def test_accept_turns_an_assumption_into_a_verdict():
    evidence = gaussian_runs(np.random.default_rng(0), 3.0, 200, assumptions=("the runs are independent",))
    found = da.audit(evidence, claim=CLAIM, accept="said-the-runs-are-independent")
    assert found.contradicted
    assert "accepting that the runs are independent" in found.verdict.sentence
    assert found.text["verdict"].endswith(", accepting [1].")
    assert [one.key for one in found.verdict.accepted] == ["said-the-runs-are-independent"]
    with pytest.raises(InputError, match="did you mean 'said-the-runs-are-independent'"):
        da.audit(evidence, claim=CLAIM, accept="said-the-runs-are-indepent")
    idle = da.audit(evidence, accept="curve-family")
    assert "Nothing rests on the accepted assumption 'curve-family'" in str(idle)


def test_a_condition_that_nothing_can_decide():
    """Neither yes nor no: the bound rests on what nobody accepted, and the command says so by its code."""
    evidence = gaussian_runs(np.random.default_rng(0), 3.0, 200, assumptions=("the runs are independent",))
    found = da.audit(evidence, fail_if="epsilon > 1")
    assert found.failed_if is None
    assert "fail if epsilon > 1: cannot say" in str(found)
    assert Audits((found,)).exit_code() == 4
    assert da.audit(evidence, fail_if="epsilon > 1", accept="said-the-runs-are-independent").failed_if is True
    with pytest.raises(InputError, match="`fail_if` needs a bound on epsilon or mu"):
        da.audit(ground_truth.NoisyVotes(trials=50).sample(np.random.default_rng(0)), fail_if="epsilon > 1")


def test_effective_settings_are_written_down():
    assert audit().plan["detects"] == 0.5
    assert "0.5 of the promised noise is caught" in audit().plan["catches"]
    assert "detects" not in audit(runs=40).plan
    bare = da.UpperBound(epsilon=1.0, delta=1e-5, relation="add-remove")
    assert "attains epsilon 2 (not every one with less noise)" in audit(full_noise, claim=bare).plan["catches"]


def test_odd_scores_have_figures_too(tmp_path):
    for scores in ([1e17] * 20, [1.7e308, -1.7e308] * 10, (1e6 + np.random.default_rng(0).normal(size=20)).tolist()):
        evidence = da.RunScores(present=scores, absent=scores[::-1], relation="label")
        found = da.audit(evidence)
        edges = found.figures["histogram"]["edges"]
        assert len(set(edges)) == len(edges)
        assert da.load_audit(found.save(tmp_path / "r.json")) == found


def test_texts_survive_as_they_are(tmp_path):
    note = "see table [ 1, 2 ]\n[\n 3,\n 4\n] and infinity"
    found = audit(runs=5, note=note, name="infinity")
    again = da.load_audit(found.save(tmp_path / "r.json"))
    assert (again.note, again.name, again.digest) == (note, "infinity", found.digest)
    assert "\x1b" not in str(audit(runs=5, name="\x1b[31mred"))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("epsilon > 0.5", True), ("epsilon > 3", False), ("mu >= 1", True), ("mu > 9", False), ("epsilon>=5e-1", True)],
)
def test_fail_if(condition, holds):
    """It looks at the number that a test bounds; the conversion of mu to epsilon needs an accepted assumption."""
    assert audit(fail_if=condition).failed_if is holds


def test_fail_if_takes_a_conversion_only_when_it_is_accepted():
    assert audit(fail_if="epsilon > 4").failed_if is False
    assert audit(fail_if="epsilon > 4", accept="gaussian-curve").failed_if is True


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"confidence": 95}, "write 0.95 for 95%"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"fail_if": "delta > 1"}, "`fail_if` must read like"),
        ({"fail_if": "epsilon > ."}, "`fail_if` must read like"),
        ({"detects": 1.5}, "`detects` must be in"),
        ({"name": 3}, "`name` must be a text"),
        ({"accept": [1]}, "`accept` must be a list of ids"),
        ({"accept": 3}, "`accept` must be a list"),
        ({"accept": {"a": 1}}, "`accept` must be a list of ids"),
        ({"accept": "gaussian"}, "`accept` must name assumptions of this audit"),
        ({"relation": "foo", "runs": 3}, "`relation` must be one of"),
        ({"runs": 10, "detects": 0.5}, "leave one of them out"),
        ({"claim": 1.0}, "`claim` must be an UpperBound"),
        ({"claim": None}, "`relation` is needed"),
        ({"claim": None, "relation": "label"}, "`runs` is needed without a claim"),
        ({"runs": 0}, "`runs` must be at least 1"),
    ],
)
def test_refusals(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        audit(**settings)


def test_settings_that_do_not_fit_the_source(rng):
    evidence = gaussian_runs(rng)
    with pytest.raises(InputError, match="carries its own"):
        da.audit(evidence, runs=3)
    with pytest.raises(InputError, match="`detects` chooses"):
        da.audit(evidence, detects=0.5)
    with pytest.raises(InputError, match="`commitment` belongs to a game"):
        da.audit(evidence, commitment="sha256:0")


def flaky(world, seed):
    flaky.calls += 1
    if flaky.calls == 7:
        raise RuntimeError("once")
    return full_noise(world, seed)


def test_a_store_goes_on_after_a_failure(tmp_path):
    flaky.calls = 0
    settings = {"runs": 10, "store": tmp_path / "runs"}
    assert audit(flaky, **settings).outcome is Outcome.FAILED
    second = audit(flaky, **settings)
    assert flaky.calls == 21, "finished runs are not run again"
    assert second.digest == audit(flaky, runs=10).digest


# --------------------------------------------------------------------------------------------------- several, and files


def test_simultaneous_confidence_and_exit_codes(every_outcome):
    def code(*words):
        return Audits(tuple(every_outcome[word] for word in words)).exit_code()

    assert code("consistent") == code("no claim") == code("contradicted if") == 0
    assert code("contradicted") == code("consistent", "contradicted", "failed") == 1
    assert code("failed") == code("failed", "consistent") == 3
    assert code("uninformative") == code("not comparable", "uninformative") == 4
    assert code("uninformative", "consistent") == 0
    assert Audits((every_outcome["consistent"],) * 2).everything == pytest.approx(0.6)
    three = Audits((every_outcome["consistent"], every_outcome["contradicted"], every_outcome["failed"]))
    assert three.simultaneous_confidence == pytest.approx(0.9)
    assert Audits((every_outcome["no claim"],)).simultaneous_confidence is None
    with pytest.raises(InputError, match="at least one audit"):
        Audits(())


def test_fail_if_fails_without_a_claim():
    found = audit(claim=None, relation="add-remove", runs=100, fail_if="epsilon > 0.5")
    assert Audits((found,)).exit_code() == 1


def test_several_records_in_one_file(every_outcome, tmp_path):
    whole = Audits(tuple(every_outcome.values()))
    again = da.load_audits(whole.save(tmp_path / "all.json"))
    assert again == whole
    with pytest.raises(InputError, match="holds 9 audits"):
        da.load_audit(tmp_path / "all.json")


def test_infinite_claims_survive(tmp_path):
    found = audit(full_noise, claim=accounting.gaussian(mu=1.0, delta=0.0, relation="add-remove"), runs=20)
    again = da.load_audit(found.save(tmp_path / "r.json"))
    assert again.claim["epsilon"] == math.inf
    assert again == found


def hostile(record):
    """Records that somebody tampered with, each with the sentence it must get."""

    def changed(*path, to):
        values = copy.deepcopy(record)
        here = values
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = to
        return values

    yield changed("format", to=99), "format 99 is not known"
    yield changed("format", to=None), "format None is not known"
    yield changed("verdict", "outcome", to="perfect"), "verdict/outcome"
    yield changed("verdict", "p_value", to=7), "verdict/p_value"
    yield changed("bounds", 0, "confidence", to=2.0), "bounds/0/confidence"
    yield changed("bounds", 0, "kind", to="os.system"), "bounds/0/kind"
    yield changed("bounds", 0, "surprise", to=1), "bounds/0: .*'surprise' was unexpected"
    yield changed("bounds", 0, "delta", to=None), "`delta` is needed"
    yield changed("bounds", 0, "epsilon", to=10**400), "bounds/0/epsilon"
    yield changed("figures", "histogram", "present", to=[1]), "must have one length"
    yield changed("figures", "errors", "claimed", "false_positive_rate", to=[0.5]), "must have one length"
    yield changed("figures", "thresholds", "epsilon", to=[]), "must have one length"
    yield changed("name", to=["x"]), "name"
    yield changed("figures", "histogram", "edges", to="x"), "figures/histogram/edges"
    yield changed("surprise", to=1), "surprise"
    yield changed("evidence", 0, "digest", to="zz"), "evidence/0/digest"
    yield {name: value for name, value in record.items() if name != "verdict"}, "verdict"
    yield [record], "format None"
    yield "text", "format None"
    yield {"audits": "x"}, "one audit or a list"
    yield {"audits": []}, "at least one audit"


def test_hostile_records_are_refused(every_outcome, tmp_path):
    record = json.loads(every_outcome["contradicted"].to_json())
    for values, sentence in hostile(record):
        (tmp_path / "r.json").write_text(json.dumps(values))
        with pytest.raises(InputError, match=sentence):
            da.load_audits(tmp_path / "r.json")
    for text in ("", "{", "[" * 100_000, '{"a": NaN', json.dumps(record).replace("0.95", "NaN"), "Infinity"):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(InputError):
            da.load_audits(tmp_path / "r.json")
    with pytest.raises(InputError, match="no file"):
        da.load_audit(tmp_path / "none.json")


SEALS = {
    "CanaryScores-1.parquet": "f52b934e1042e954",
    "MemberScores-1.parquet": "dfa1e96ac547497d",
    "OutputCounts-1.parquet": "fa63b2088d96e459",
    "PairedScores-1.parquet": "dca17e6c14dfe6d3",
    "RunScores-1.parquet": "450fbe574b2ae0d9",
    "audits-1.json": "9a68b83b227e8f4d",
    "evidence-1.json": "95a8131fab7b235d",
}
"""SHA-256 of the first records and evidence: the files are never written again, a new format gets files of its own."""


def test_fixtures_are_never_written_again():
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in FIXTURES.iterdir()} == SEALS


def test_first_records_and_evidence_still_load():
    """What format 1 wrote must stay readable."""
    audits = da.load_audits(FIXTURES / "audits-1.json")
    assert [str(found.outcome) for found in audits] == [
        "contradicted",
        "consistent",
        "uninformative",
        "not comparable",
        "no claim",
        "failed",
        "contradicted if",
    ]
    assert audits[0].bounds[1].mu == pytest.approx(1.2230205535888672)
    digests = json.loads((FIXTURES / "evidence-1.json").read_text())
    for name, digest in digests.items():
        evidence = da.load_evidence(FIXTURES / f"{name}-1.parquet")
        assert type(evidence).__name__ == name
        assert evidence.former_digest == digest
    again = da.audit(da.load_evidence(FIXTURES / "RunScores-1.parquet"), claim=CLAIM)
    assert again.evidence[0]["digest"] == da.load_evidence(FIXTURES / "RunScores-1.parquet").digest


def test_notebooks_get_escaped_html():
    found = audit(name="<script>alert(1)</script>")
    assert "<script>" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()
