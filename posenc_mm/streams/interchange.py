"""To and from the position ids of Hugging Face's models."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole
from posenc_mm.streams.segments import Image, Text, Video

if TYPE_CHECKING:
    from posenc_mm.streams.stream import Stream

_TEXT, _IMAGE, _VIDEO = 0, 1, 2


def to_hf(stream: Stream, *, padding: int = 0, packed: bool = False) -> Tensor:
    """Write the position ids that Hugging Face's models take.

    Args:
        stream: what there is.
        padding: the id of padding: 0 in transformers 5, 1 in transformers 4.
        packed: whether to put the row in front by which models keep packed documents apart: each
            document's tokens counted from 0.

    Returns:
        ``(A, B, N)``, or ``(1 + A, B, N)`` packed; int64 if all are whole numbers, else in the
        dtype of ``coords``.

    Example:
        >>> from posenc_mm.streams import Image, Text, layout
        >>> layout(Text(1), Image(1, 2)).to_hf()[:, 0]
        tensor([[0, 1, 1],
                [0, 1, 1],
                [0, 1, 2]])
    """
    ids = stream.coords.movedim(-1, 0).masked_fill(~stream.mask, padding)
    if packed:
        real = stream.mask.cumsum(1) - 1
        starts = stream.segment.diff(dim=1, prepend=stream.segment[:, :1] - 1) != 0
        counted = real - torch.where(starts & stream.mask, real, 0).cummax(1).values
        ids = torch.cat((counted.masked_fill(~stream.mask, padding).to(ids)[None], ids))
    whole = bool((ids == ids.round()).all())
    return ids.long() if whole else ids


def from_hf(
    token_types: Tensor,
    image_grids: Sequence[Sequence[int]] | Tensor = (),
    video_grids: Sequence[Sequence[int]] | Tensor = (),
    *,
    merge: int = 2,
    seconds: Sequence[float] | Tensor | None = None,
    mask: Tensor | None = None,
) -> list[list[Text | Image | Video]]:
    """Read the rows of segments that inputs of Hugging Face's models stand for.

    Args:
        token_types: ``(B, N)``, ``mm_token_type_ids``: 0 text, 1 image, 2 video.
        image_grids: ``(K, 3)``, ``image_grid_thw`` of all images in order: time, rows, columns.
        video_grids: ``(K, 3)``, ``video_grid_thw`` likewise.
        merge: ``spatial_merge_size``, by which rows and columns of grids are divided.
        seconds: per time step of each video, ``second_per_grid_ts``; steps are counted without.
        mask: ``(B, N)``, ``attention_mask``, true where a token is real; all unless given.

    Returns:
        Segments row by row, for :meth:`Layout.batch`.

    Raises:
        ValueError: a block of tokens is of a size that its grid is not, or grids are too few or
            too many.

    Example:
        >>> from_hf(torch.tensor([[0, 1, 1]]), [[1, 2, 4]])
        [[Text(count=1, times=None), Image(rows=1, columns=2, time=None)]]
    """
    check_whole(merge=merge)
    grids = {_IMAGE: _listed(image_grids), _VIDEO: _listed(video_grids)}
    steps = _steps(seconds) if seconds is not None else None
    if steps is not None and len(steps) != len(grids[_VIDEO]):
        raise ValueError(f"seconds must be one per video ({len(grids[_VIDEO])}), got {len(steps)}")
    used = {_IMAGE: 0, _VIDEO: 0}
    rows = []
    for b, types in enumerate(token_types):
        real = types if mask is None else types[mask[b].bool()]
        row: list[Text | Image | Video] = []
        for kind, group in groupby(real.tolist()):
            left = len(list(group))
            if kind == _TEXT:
                row.append(Text(left))
                continue
            while left > 0:
                segment, tokens = _block(kind, grids, used, steps, merge)
                row.append(segment)
                left -= tokens
            if left < 0:
                raise ValueError(f"grid {used[kind] - 1} has {-left} tokens more than row {b}")
        rows.append(row)
    if any(used[kind] != len(each) for kind, each in grids.items()):
        raise ValueError(f"grids are more than the blocks of tokens: images, videos used {used}")
    return rows


def _block(
    kind: int,
    grids: dict[int, list[tuple[int, ...]]],
    used: dict[int, int],
    steps: list[Fraction] | None,
    merge: int,
) -> tuple[Image | Video, int]:
    if kind not in grids or used[kind] >= len(grids[kind]):
        raise ValueError(f"token_types must be 0, 1 or 2 with a grid for each, got type {kind}")
    number, used[kind] = used[kind], used[kind] + 1
    time, height, width = grids[kind][number]
    rows, columns = height // merge, width // merge
    if kind == _IMAGE and time == 1:
        return Image(rows, columns), rows * columns
    if kind == _VIDEO and steps is not None:
        times = [float(step * steps[number]) for step in range(time)]
        return Video(times, rows, columns), time * rows * columns
    return Video(frames=time, rows=rows, columns=columns), time * rows * columns


def _steps(seconds: Sequence[float] | Tensor) -> list[Fraction]:
    """Seconds per step, exactly; in float32 the ratio of whole numbers that was rounded to it.

    Processors divide a temporal patch by a frame rate. In float32 their 0.16 s times 25 times 39 is
    155.999997, one position short when cut off.
    """
    steps = []
    for given in seconds:
        check_number(above=True, seconds=float(given))
        step = Fraction(float(given))
        ratio = step.limit_denominator(30_000)
        rounded = isinstance(given, Tensor) and given.dtype == torch.float32
        steps.append(ratio if rounded and abs(ratio - step) <= step * 2**-23 else step)
    return steps


def _listed(grids: Sequence[Sequence[int]] | Tensor) -> list[tuple[int, ...]]:
    listed = [tuple(int(size) for size in grid) for grid in grids]
    if any(len(grid) != 3 for grid in listed):
        raise ValueError(f"grids must be (time, rows, columns), got {listed}")
    return listed
