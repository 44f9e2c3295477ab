"""Learned tables at other sizes, by every published rule.

A rule is a matrix per axis of a grid, so that one product per axis resizes a table of any number of
axes, the same way eagerly, compiled and exported, and can be undone where the mathematics allows.
"""

from posenc_mm.resizing.encodings import resized
from posenc_mm.resizing.matrices import matrix
from posenc_mm.resizing.patches import resize_patch_kernel
from posenc_mm.resizing.relative import resize_bias_table
from posenc_mm.resizing.rules import RULES, Rule
from posenc_mm.resizing.tables import resize_table, unresize_table

__all__ = [
    "RULES",
    "Rule",
    "matrix",
    "resize_bias_table",
    "resize_patch_kernel",
    "resize_table",
    "resized",
    "unresize_table",
]
