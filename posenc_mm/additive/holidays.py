"""Nearness to holidays, added to the tokens."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_inside, check_number, check_sizes
from posenc_mm.frequencies import check_positions
from posenc_mm.timestamps import Zone, zone_of
from posenc_mm.timestamps.civil import field_of, on_the_wall
from posenc_mm.timestamps.days import date
from posenc_mm.timestamps.holidays import days_of, holiday_dates
from posenc_mm.timestamps.units import as_ticks, check_unit

_KERNELS = ("indicator", "exponential", "gaussian")
_HALF_A_YEAR = 182


class Holidays(AdditiveEncoding):
    r"""How near the day of each moment is to a holiday, one column per offset.

    .. math:: e_o(p) = k(\min_h |d(p) - o - h|), \quad
        k(\delta) = [\delta = 0], \; e^{-\alpha \delta} \text{ or } e^{-\alpha \delta^2}

    :math:`d(p)` is the day on the clock on the wall, and :math:`h` is each holiday: column 0 is
    about holidays themselves, column 1 about the day after one, column -1 about eves. With the
    indicator it is 1 on such days and 0 on others. A day is whole: nothing changes within it.
    Nothing is learned or stored.

    Traps: public holidays by ``region`` change with releases of the package ``holidays``: give
    ``dates`` to have the same ones later. Clocks are UTC's unless ``zone`` says whose, so that
    holidays may begin and end hours off.

    References:
        Alexandrov et al.: GluonTS: Probabilistic Time Series Models in Python (2019),
        https://arxiv.org/abs/1906.05264

    Args:
        region: whose public holidays, as :func:`~posenc_mm.timestamps.holidays.holiday_dates` reads
            it: ``"AU-VIC"``; or else ``dates``.
        years: the first and the last year that moments may come from; with dates, theirs unless
            given. A year more on each side is looked up by region, as its holidays may be nearer.
        dates: ISO 8601 dates of holidays, which do not change with a release of a package.
        kernel: :math:`k`: ``"indicator"``, ``"exponential"`` or ``"gaussian"``.
        alpha: :math:`\alpha`, per day, or per day squared.
        offsets: :math:`o`, whole days after a holiday, within half a year.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``: moments since 1970-01-01T00:00 UTC, int64 or
        float64; :math:`D` is the number of offsets; in float64 where the positions are, else
        float32

    Raises:
        ValueError: both a region and dates, or neither; a region without years; unknown names; at
            the call, positions have more than one axis, a type that cannot hold moments, or a
            moment is outside the years (compiled, exported and on CUDA an assertion that fails as
            it runs).
        ImportError: a region is given, and the package ``holidays`` is not installed.

    Example:
        >>> boxing_day = torch.tensor([[1_735_171_200]])
        >>> Holidays(dates=["2024-12-25"], offsets=(0, 1))(boxing_day)
        tensor([[0., 1.]])
    """

    def __init__(
        self,
        region: str | None = None,
        *,
        years: tuple[int, int] | None = None,
        dates: Sequence[str] | None = None,
        kernel: str = "indicator",
        alpha: float = 1.0,
        offsets: Sequence[int] = (0,),
        zone: str | Zone = "UTC",
        unit: str = "s",
    ) -> None:
        super().__init__()
        if kernel not in _KERNELS:
            raise ValueError(f"kernel must be one of {_KERNELS}, got kernel={kernel!r}")
        check_number(above=True, alpha=alpha)
        self.offsets = tuple(offsets) if isinstance(offsets, Sequence) else ()
        if not self.offsets or not all(map(_near, self.offsets)):
            raise ValueError(
                f"offsets must be whole days, at most {_HALF_A_YEAR} from a holiday, got "
                f"offsets={offsets!r}"
            )
        ends = None if years is None else check_sizes("years", years)
        if ends is not None and (len(ends) != 2 or ends[0] > ends[1]):
            raise ValueError(f"years must be the first and the last one, got years={years!r}")
        self.days = _days(region, ends, dates)
        self.years = ends or tuple(date(day)[0] // 12 for day in (self.days[0], self.days[-1]))
        self.region, self.dates = region, None if dates is None else tuple(map(str, dates))
        self.kernel, self.alpha = kernel, float(alpha)
        self.zone, self.unit, self.dim = zone_of(zone), check_unit(unit), len(self.offsets)

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        wall = on_the_wall(*as_ticks(positions[..., 0], self.unit), self.zone)
        year, (first, last) = field_of(wall, "year").unsqueeze(-1), self.years
        check_inside("years of moments", year, [first], [last], 0, "ask for more years of holidays")
        days = wall.days.unsqueeze(-1) - torch.tensor(self.offsets, device=positions.device)
        holidays = torch.tensor(self.days, device=positions.device)
        following = torch.bucketize(days, holidays)
        before = (days - holidays[(following - 1).clamp(min=0)]).abs()
        after = (holidays[following.clamp(max=len(self.days) - 1)] - days).abs()
        distance = torch.minimum(before, after)
        real = torch.promote_types(positions.dtype, torch.float32)
        if self.kernel == "indicator":
            return (distance == 0).to(real)
        distance = distance.to(real)
        return (-self.alpha * (distance if self.kernel == "exponential" else distance**2)).exp()

    def extra_repr(self) -> str:
        return (
            f"region={self.region!r}, years={self.years}, dates={self.dates}, "
            f"kernel={self.kernel!r}, alpha={self.alpha}, offsets={self.offsets}, "
            f"zone={self.zone.name!r}, unit={self.unit!r}, holidays={len(self.days)}"
        )


def _near(offset: object) -> bool:
    if not isinstance(offset, Integral) or isinstance(offset, bool):
        return False
    return abs(int(offset)) <= _HALF_A_YEAR


def _days(
    region: str | None, years: Sequence[int] | None, dates: Sequence[str] | None
) -> tuple[int, ...]:
    if dates is not None and region is None:
        return days_of(dates)
    if dates is not None or region is None or years is None:
        raise ValueError(
            f"give a region and the years of the moments, or dates, got region={region!r}, "
            f"years={years} and dates={dates!r}"
        )
    return days_of([day for day, _ in holiday_dates(region, years[0] - 1, years[1] + 1)])
