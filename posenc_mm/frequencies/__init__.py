"""How fast each pair turns, and the angles that follow.

A frequency is an angle per unit of position. Frequencies that are fixed are plain Python numbers: a
*row* ``(F,)`` for one axis, a *matrix* ``(A, F)`` for several, matrices ``(H, A, F)`` where heads
differ. There is no tensor to cast, save, move or re-initialise; :func:`angles` puts them on the
positions' device each time.

Which axis a pair looks along is the frequency allocation. :func:`axial` gives each axis a ladder of
its own. :func:`sections`, :func:`interleaved`, :func:`alternating` and :func:`shared` deal the
pairs of one ladder, :func:`whole_heads` gives heads, :func:`zeroed` takes pairs out. A dense
matrix, where a pair looks along several axes, is drawn by :func:`mixed` or :func:`gaussian` and
learned by :class:`posenc_mm.MixedRotary`.
"""

from posenc_mm.frequencies.allocations import (
    Allocation,
    alternating,
    interleaved,
    sections,
    shared,
    zeroed,
)
from posenc_mm.frequencies.heads import Matrices, per_head, whole_heads
from posenc_mm.frequencies.matrices import Matrix, axial, gaussian, mixed
from posenc_mm.frequencies.rows import Row, geometric, harmonics, linear, octaves, tape, timescales
from posenc_mm.frequencies.turning import angles, check_positions

__all__ = [
    "Allocation",
    "Matrices",
    "Matrix",
    "Row",
    "alternating",
    "angles",
    "axial",
    "check_positions",
    "gaussian",
    "geometric",
    "harmonics",
    "interleaved",
    "linear",
    "mixed",
    "octaves",
    "per_head",
    "sections",
    "shared",
    "tape",
    "timescales",
    "whole_heads",
    "zeroed",
]
