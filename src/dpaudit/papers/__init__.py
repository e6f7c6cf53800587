"""One module for each paper: its experiments at this machine's scale, run by `dpaudit reproduce`.

An experiment returns an `Outcome`: the paper's claim, a scale table (the paper's sizes beside ours), what was measured,
and one of three words: confirmed, not confirmed, too small to tell. A quick version of each runs in the tests.
"""

from dpaudit.papers._outcome import WORDS, Outcome, file_stem, load_outcome

__all__ = ["WORDS", "Outcome", "file_stem", "load_outcome"]
