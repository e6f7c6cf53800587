"""Non-members that are made, not found: `fit(rows).sample(count)` (paper 004, phase 1).

| generator | what it keeps of the rows | for |
|---|---|---|
| `SequentialTrees` (recommended) | each column given the ones before it, by a decision tree | tables of mixed types |
| `TreeMarginals` | every column, and the pairs along the spanning tree of most information (as MST does) | tables |
| `GaussianCopula` | every column, and one correlation for each pair | tables, few rows |
| `PixelGrids` (recommended) | each pixel given those of coarser grids, by networks | small grey pictures and a class |
| `Adversarial` | what a critic cannot tell apart | the same, 28 x 28 pixels |
| `LanguageModel` | each token given the ones before it, by a transformer | chunks of tokens |

Rows are a matrix of numbers; `categorical` names the columns whose numbers are codes. Anything with `fit(rows)` and
`sample(count)` does as well, scikit-learn's mixtures and densities too: `drawn` is how a game asks it. The last three
need torch.

A generator that cannot make some real records is far from them (the divergence c of theory:panoramia#region is large),
and then an attack shows little; a generator that copies its rows makes members. Neither makes a bound wrong: the rows
that it is fitted on are never audited, and what the baseline shows of c is part of the result.
"""

from dpaudit.fitted.generators.adversarial import Adversarial
from dpaudit.fitted.generators.images import PixelGrids
from dpaudit.fitted.generators.tables import (
    Fitted,
    GaussianCopula,
    Generator,
    SequentialTrees,
    TreeMarginals,
    as_rows,
    drawn,
)
from dpaudit.fitted.generators.texts import LanguageModel

__all__ = [
    "Adversarial",
    "Fitted",
    "GaussianCopula",
    "Generator",
    "LanguageModel",
    "PixelGrids",
    "SequentialTrees",
    "TreeMarginals",
    "as_rows",
    "drawn",
]
