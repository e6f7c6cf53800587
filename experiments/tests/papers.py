"""What holds of every paper: its figures in a quick version, and the results that are committed."""

import xml.etree.ElementTree as ET
from pathlib import Path

from dpaudit.execution import Execution
from dpaudit_experiments.common import drawing
from dpaudit_experiments.common.outcome import WORDS, file_stem, load_outcome

DOCS = Path(__file__).parent.parent.parent / "docs"


def quick(module, paper, name, folder):
    """The same code on small sizes: an outcome that claims nothing, is read as it was saved, and can be drawn."""
    found = module.reproduce(name, scale=module.QUICK, execution=Execution(workers=1))
    assert found.found == "too small to tell"
    assert found.because
    assert found.scale
    assert (found.paper, found.figure) == (paper, name)
    assert found.command == f"dpaudit reproduce {paper} --figure {name} --seed 1 --quick"
    assert load_outcome(found.save(folder / "found.json")) == found
    picture = drawing.svg(found)
    assert not picture or ET.fromstring(picture).tag.endswith("svg")
    assert picture == drawing.svg(load_outcome(folder / "found.json"))
    return found, picture


def committed(module, paper, name, results):
    """A result of the tree, which says what its rows say."""
    found = load_outcome(results / f"{file_stem(name)}.json")
    figure = module.FIGURES[name]
    assert (found.paper, found.figure, found.claim) == (paper, name, figure.claim)
    assert found.found in WORDS
    assert (found.found, found.because) == figure.judged(list(found.rows))
    assert found.scale == tuple(figure.sizes(module.FULL))
    assert found.command == f"dpaudit reproduce {paper} --figure {name} --seed 1"
    drawn = results / f"{file_stem(name)}.svg"
    picture = drawing.svg(found)
    assert drawn.exists() == bool(picture)
    assert not picture or drawn.read_text() == picture
    return found
