"""The experiments of papers 000 to 004 at this machine's scale, run by `dpaudit reproduce`; they use only public names.

| room | what is in it |
|---|---|
| `paper_000` | observational audits, and the tables of models trained on private labels |
| `paper_001` | canaries and audits for substitution |
| `paper_002` | answers of private prediction |
| `paper_003` | audits of a released model with known members and non-members |
| `paper_004` | PANORAMIA: members of a released model against generated rows |
| `placebo` | rows that the model never saw, as the control of observational audits |
| `common` | what papers share: figures and outcomes, metrics, pictures, arrays that are kept |
| `data` | public data sets, fetched once from packages and then read as files |

An experiment returns an `Outcome`: the paper's claim, a scale table (the paper's sizes beside ours), what was measured,
and one of three words: confirmed, not confirmed, too small to tell. A quick version of each runs in the tests.
"""

from __future__ import annotations

import importlib
from typing import Any

from dpaudit_experiments.common.outcome import WORDS, Outcome, file_stem, load_outcome

PAPERS = {
    "observational": "paper_000.observational",
    "substitute": "paper_001.substitute",
    "prediction": "paper_002.prediction",
    "zero-run": "paper_003.zero_run",
    "panoramia": "paper_004.panoramia",
}
"""Where each paper's experiments are, by the name that `dpaudit reproduce` takes."""

__all__ = ["PAPERS", "WORDS", "Outcome", "experiments_of", "file_stem", "load_outcome"]


def experiments_of(paper: str) -> Any:
    """The module of one paper: `FIGURES`, groups of them (`ONLY`), sizes (`FULL`, `QUICK`), and `reproduce`."""
    return importlib.import_module(f"dpaudit_experiments.{PAPERS[paper]}")
