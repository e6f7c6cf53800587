"""Assumptions of files that were written when they were sentences: each is known by how it begins, and gets its id."""

from __future__ import annotations

from dpaudit.assumptions import Assumption, as_assumption

BEGINS = (
    ("no two rows belong to the same unit", "one-row-per-unit", "data holder"),
    ("tau = 0: without the model nobody", "counterfactual-right", "auditor"),
    ("true and counterfactual attributes differ", "shift", "auditor"),
    ("for every shown value, |log true law", "log-ratio", "auditor"),
    ("fresh and training records are independent", "fresh-records", "data holder"),
    ("given the rest of the records, true values", "independent-values", "data holder"),
    ("given the rest of its records, the true values", "independent-within-unit", "data holder"),
    ("membership given the features follows", "propensity-model", "auditor"),
    ("nothing else about a record, that its score", "no-hidden-factor", "data holder"),
    ("propensities that were cross-fitted", "cross-fitted", "auditor"),
    ("the propensities are not over-confident", "propensities", "auditor"),
    ("no propensity is over-confident", "propensity-error", "auditor"),
    ("given the features, memberships are independent", "independent-memberships", "data holder"),
    ("the training set is a fixed part plus", "members-exactly-shown", "data holder"),
    ("audited real records are independent draws", "independent-draws", "data holder"),
    ("generated records are independent draws", "independent-generated-draws", "auditor"),
    ("real non-members are draws", "non-members-alike", "data holder"),
    ("given the data set, the answers to different", "independent-answers", "developer"),
    ("the trade-off curve is Gaussian", "gaussian-curve", "developer"),
)
"""How a sentence of format 1 begins, its id, and who answers for it."""
WRONG_BY = "the model's log-odds are wrong by"


def assumption_of(sentence: str) -> Assumption:
    """The assumption that this sentence stood for; of any other sentence its words are its id."""
    found = as_assumption(sentence)
    text = sentence.strip().rstrip(".").casefold()
    if text.startswith(WRONG_BY):
        errors = "standard errors" in text
        return _as("log-odds-standard-errors" if errors else "log-odds-error", "auditor", found)
    for begins, known, answered_by in BEGINS:
        if text.startswith(begins.casefold()):
            return _as(known, answered_by, found)
    return found


def _as(known: str, answered_by: str, found: Assumption) -> Assumption:
    return Assumption(id=known, sentence=found.sentence, answered_by=answered_by)
