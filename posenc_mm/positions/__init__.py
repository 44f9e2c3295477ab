"""Where a token is.

Every function returns positions ``(N, A)`` or, where samples differ, ``(B, N, A)``: one row per
token, one column per axis, axes in tensor order (time, row, column). An encoding takes nothing
else, so that an offset, a cache, padding, packing, cropping and dropped tokens are all just other
positions.
"""

from posenc_mm.positions.grids import centred_grid, grid, normalised_grid, rescale
from posenc_mm.positions.patches import patches
from posenc_mm.positions.sequences import from_mask, keep, packed, segments, sequence

__all__ = [
    "centred_grid",
    "from_mask",
    "grid",
    "keep",
    "normalised_grid",
    "packed",
    "patches",
    "rescale",
    "segments",
    "sequence",
]
