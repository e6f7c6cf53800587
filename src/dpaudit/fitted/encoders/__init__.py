"""What both guessers of a PANORAMIA game see of a row: `view(rows, label, seed)` (paper 004, appendix C).

| view | rows | what it shows |
|---|---|---|
| `ImageView` | pixels and a class | the logit "real" of a convolutional network, and the class |
| `TokenView` | tokens | the same of a transformer |

A view learns from training rows (label 1: real, 0: generated) and returns their features and a function that gives
those of any rows. The features of training rows are out of fold: each comes from a network that never saw the row, so
that a guesser on top does not trust them more than it should.
"""

from dpaudit.fitted.encoders.images import ImageView
from dpaudit.fitted.encoders.texts import TokenView

__all__ = ["ImageView", "TokenView"]
