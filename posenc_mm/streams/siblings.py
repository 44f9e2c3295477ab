"""Segments that start at the same place: a video and its sound, or any number of them."""

from dataclasses import dataclass
from typing import TypeAlias

from posenc_mm.checks import check_number
from posenc_mm.streams.segments import SEGMENTS, Segment


@dataclass(frozen=True, init=False, eq=False)
class Together:
    """Siblings: segments that all start at the same place, on one clock.

    Second 0 of all of them is the earliest time of any, so that equal seconds are equal positions.

    Args:
        segments: any number of them.
        order: of their tokens: ``"concat"``, sibling after sibling, or ``"time"``, the earlier
            first, at equal times in the order of the siblings.
        chunk: with ``"time"``, seconds in which tokens count as simultaneous, from the start on.

    Raises:
        ValueError: there is no sibling, one is no segment, or order or chunk is not as said.
    """

    segments: tuple[Segment, ...]
    order: str
    chunk: float | None

    def __init__(
        self, *segments: Segment, order: str = "concat", chunk: float | None = None
    ) -> None:
        if not segments or not all(isinstance(each, SEGMENTS) for each in segments):
            raise ValueError(f"segments must be one or more of one level, got {segments}")
        if order not in ("concat", "time") or (chunk is not None and order != "time"):
            raise ValueError(
                f"order must be 'concat', or 'time', which alone takes a chunk, got "
                f"order={order!r} and chunk={chunk}"
            )
        if chunk is not None:
            check_number(above=True, chunk=chunk)
        object.__setattr__(self, "segments", segments)
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "chunk", chunk)


Item: TypeAlias = Segment | Together
