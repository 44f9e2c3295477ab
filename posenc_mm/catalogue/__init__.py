"""What there is: every encoding, scaling, preset and position design, read from the code.

Nothing here is a list that someone keeps, but for one call of each class with arguments that go
together (:mod:`posenc_mm.catalogue.examples`). Names come from the packages, papers and formulas
from the docstrings, and whether an encoding is relative is measured on one.
"""

from posenc_mm.catalogue.docstrings import Docstring, Reference
from posenc_mm.catalogue.example import Example
from posenc_mm.catalogue.examples import EXAMPLES
from posenc_mm.catalogue.explaining import explain
from posenc_mm.catalogue.finding import Entry, entries, find
from posenc_mm.catalogue.formulas import plain
from posenc_mm.catalogue.measuring import Traits

__all__ = [
    "EXAMPLES",
    "Docstring",
    "Entry",
    "Example",
    "Reference",
    "Traits",
    "entries",
    "explain",
    "find",
    "plain",
]
