"""How fast each pair turns, and the angles that follow.

A frequency is an angle per unit of position. Frequencies that are fixed are plain Python numbers: a
*row* ``(F,)`` for one axis, a *matrix* ``(A, F)`` for several. There is no tensor to cast, save,
move or re-initialise; :func:`angles` puts them on the positions' device each time.
"""

from posenc_mm.frequencies.matrices import Matrix, axial, gaussian, mixed
from posenc_mm.frequencies.rows import Row, geometric, harmonics, linear, octaves, tape, timescales
from posenc_mm.frequencies.turning import angles, check_positions

__all__ = [
    "Matrix",
    "Row",
    "angles",
    "axial",
    "check_positions",
    "gaussian",
    "geometric",
    "harmonics",
    "linear",
    "mixed",
    "octaves",
    "tape",
    "timescales",
]
