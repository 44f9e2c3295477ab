"""Where a token is.

Every function returns positions ``(N, A)`` or, where samples differ, ``(B, N, A)``: one row per
token, one column per axis, axes in tensor order (time, row, column). An encoding takes nothing
else, so that an offset, a cache, padding, packing, cropping and dropped tokens are all just other
positions.
"""

from posenc_mm.positions.augmented import AugmentedGrid
from posenc_mm.positions.covering import cropped_grid, merged_grid, stretched_grid
from posenc_mm.positions.grids import centred_grid, grid, normalised_grid, rescale
from posenc_mm.positions.patches import patches
from posenc_mm.positions.randomised import RandomisedSequence
from posenc_mm.positions.sequences import from_mask, keep, packed, segments, sequence

__all__ = [
    "AugmentedGrid",
    "RandomisedSequence",
    "centred_grid",
    "cropped_grid",
    "from_mask",
    "grid",
    "keep",
    "merged_grid",
    "normalised_grid",
    "packed",
    "patches",
    "rescale",
    "segments",
    "sequence",
    "stretched_grid",
]
