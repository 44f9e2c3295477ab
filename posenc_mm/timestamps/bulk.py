"""Fields and phases of millions of stamps at once, on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.timestamps.civil import (
    PERIODS,
    Wall,
    at_each,
    cycle,
    field_of,
    on_the_wall,
    phase_of,
)
from posenc_mm.timestamps.days import OfDay
from posenc_mm.timestamps.units import TICKS_PER_SECOND
from posenc_mm.timestamps.zones import Zone

# So many rows that their columns stay in a processor's cache.
_ROWS = 65_536


class Bulk:
    """Reads clocks and calendars at many moments, with less work per moment.

    Rows are taken in pieces, since memory is slower than arithmetic. A piece needs a short part of
    the zone's table, in sorted stamps mostly a single offset. And there are fewer days than
    stamps: what depends on the day alone is worked out once per day and looked up.

    Args:
        ticks: ``(N,)`` since 1970-01-01T00:00 UTC, int64.
        unit: what ticks count.
        zone: whose clocks.
    """

    def __init__(self, ticks: Tensor, unit: str, zone: Zone) -> None:
        self.ticks, self.unit, self.zone = ticks, unit, zone
        self.tables: dict[tuple[OfDay, int, torch.dtype], Tensor] = {}
        self.days: Tensor | None = None
        self.first_day = 0
        if len(ticks):
            # A day more at each end, which another zone may have.
            low, high = (end // 86_400 for end in self.ends(ticks))
            if high - low < len(ticks):
                self.days, self.first_day = torch.arange(low - 1, high + 2), low - 1

    def fields(self, names: Sequence[str]) -> Tensor:
        """Do what :func:`~posenc_mm.timestamps.civil.fields` does."""
        columns = torch.empty(len(names), len(self.ticks), dtype=torch.int64)
        for part, out in self.pieces(columns):
            wall = self.wall(part)
            for name, column in zip(names, out, strict=True):
                column.copy_(field_of(wall, name, self.per_day))
        return columns.T

    def phases(self, periods: Sequence[str | float]) -> Tensor:
        """Do what :func:`~posenc_mm.timestamps.civil.phases` does."""
        columns = torch.empty(len(periods), len(self.ticks), dtype=torch.float64)
        for part, out in self.pieces(columns):
            wall = self.wall(part)
            wall = wall._replace(ticks=wall.ticks.double())  # once, for all periods
            for period, column in zip(periods, out, strict=True):
                if period in PERIODS:
                    column.copy_(phase_of(wall, str(period), self.per_day))
                else:
                    column.copy_(cycle(part, self.unit, period))
        return columns.T

    def pieces(self, columns: Tensor) -> "zip[tuple[Tensor, Tensor]]":
        """Take ticks and columns piece by piece."""
        return zip(torch.split(self.ticks, _ROWS), torch.split(columns, _ROWS, dim=1), strict=True)

    def wall(self, part: Tensor) -> Wall:
        """Read the clocks with the part of the zone's table that is needed."""
        near = self.zone
        if len(part) and near.instants:
            near = near.between(*self.ends(part))
        wall = on_the_wall(part, self.unit, near)
        return wall._replace(days=wall.days - self.first_day)

    def per_day(self, function: OfDay, days: Tensor, unit: int, dtype: torch.dtype) -> Tensor:
        """Look a function of the day up, or apply it where there are more days than rows."""
        if self.days is None:
            return at_each(function, days, unit, dtype)
        key = function, unit, dtype
        if key not in self.tables:
            self.tables[key] = at_each(function, self.days, unit, dtype)
        return self.tables[key].index_select(0, days)

    def ends(self, ticks: Tensor) -> tuple[int, int]:
        """The first and the last whole second."""
        low, high = ticks.aminmax()
        per_second = TICKS_PER_SECOND[self.unit]
        return int(low) // per_second, int(high) // per_second
