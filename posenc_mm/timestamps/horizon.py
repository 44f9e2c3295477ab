"""The past and the future of a series as positions: one object for both."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.axis import TimeAxis


class PastAndFuture(NamedTuple):
    """Positions of the rows that are known, and of those that are to be told.

    A loader of batches stacks several of one :math:`N + H`: positions ``(B, N + H, 2)``, past
    ``(B,)``.

    Attributes:
        positions: ``(..., N + H, 2)``, the moment and the row of each.
        past: number :math:`N` of rows that are known.
    """

    positions: Tensor
    past: int

    @property
    def moments(self) -> Tensor:
        """``(..., N + H, 1)``: the moments alone."""
        return self.positions[..., :1]

    @property
    def rows(self) -> Tensor:
        """``(..., N + H, 1)``: the rows alone, from 0; the future's begin at :math:`N`."""
        return self.positions[..., 1:]

    @property
    def is_future(self) -> Tensor:
        """``(..., N + H)``: whether a row is to be told."""
        rows = torch.arange(self.positions.shape[-2], device=self.positions.device)
        return rows >= torch.as_tensor(self.past, device=rows.device).unsqueeze(-1)


def past_and_future(
    axis: TimeAxis, horizon: int, *, unit: str = "s", step: str = "calendar"
) -> PastAndFuture:
    """Continue the stamps of a series, and give positions of old and new ones alike.

    What is made of them is consistent on both sides. The past's do not depend on the horizon.

    Args:
        axis: the stamps of the past, in order.
        horizon: number :math:`H` of rows to come.
        unit: of the moments, as in :meth:`TimeAxis.positions`.
        step: ``"calendar"`` or ``"fixed"``, as in :meth:`TimeAxis.extend`: by the calendar the next
            day is one on the clock on the wall, 23 to 25 hours from now.

    Returns:
        Positions ``(N + H, 2)``: in int64 if all moments are whole in the unit, else in float64.

    Raises:
        ValueError: ``horizon`` is negative, or the stamps cannot be continued: see
            :meth:`TimeAxis.extend`.

    Example:
        >>> axis = TimeAxis(["2024-04-06", "2024-04-07"], tz="Australia/Melbourne", freq="D")
        >>> past_and_future(axis, 2, unit="h").moments.diff(dim=0)[:, 0].tolist()
        [24, 25, 24]
    """
    check_whole(0, horizon=horizon)
    known = axis.positions(unit)
    future = axis.extend(horizon, step).positions(unit) if horizon else known[:0]
    moments = torch.cat((known, future))
    rows = torch.arange(len(moments)).unsqueeze(-1)
    return PastAndFuture(torch.cat((moments, rows.to(moments.dtype)), dim=-1), len(known))
