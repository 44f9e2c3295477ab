"""What the calendar and the clock on the wall show at each moment, added to the tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.additive.learned import Learned
from posenc_mm.frequencies import angles, axial, check_positions, harmonics
from posenc_mm.parts import reset
from posenc_mm.timestamps import FIELD_SIZES, Zone, fields, zone_of
from posenc_mm.timestamps.civil import Wall, check_names, field_of, on_the_wall, real_of
from posenc_mm.timestamps.days import VALUES_OF, first_sunday_week
from posenc_mm.timestamps.units import as_ticks, check_unit

_CODES = ("cyclic", "ramp", "one_hot")
# Where a ramp departs from v / (size - 1): the field that is read, its first value, its divisor.
_RAMPS: dict[str, dict[str, tuple[str, int, int]]] = {
    "own": {},
    "gluonts": {},
    "timesfm1": {
        "day": ("day", 1, 30),
        "day_of_year": ("day_of_year", 1, 364),
        "week": ("sunday_week", 0, 51),
        "month": ("month", 1, 11),
    },
}
# Where an index departs from the field: how many values share one, and the index of the first.
_INDICES: dict[str, dict[str, tuple[int, int]]] = {
    "own": {},
    "informer": {"minute": (15, 0), "day": (1, 1), "month": (1, 1)},
}


class Calendar(AdditiveEncoding):
    r"""Fields of the calendar, in a fixed code.

    .. math:: e(v) = (\sin 2 \pi v / n, \cos 2 \pi v / n) \quad \text{cyclic,} \quad
        e(v) = v / (s - 1) - 1/2 \quad \text{ramp,} \quad e(v)_i = [v = i] \quad \text{one-hot}

    A field counts :math:`v` from 0 and takes :math:`s` values at most (``FIELD_SIZES``). In a
    circle there are as many as the month or year at hand has, :math:`n`: all neighbours are
    equally far apart, 23 and 0 o'clock and 31 December and 1 January among them. Nothing is
    learned or stored.

    Traps: clocks are UTC's unless ``zone`` says whose, and a ramp jumps where a circle closes.

    References:
        ramps: Alexandrov et al.: GluonTS: Probabilistic Time Series Models in Python (2019),
        https://arxiv.org/abs/1906.05264;
        Das et al.: A Decoder-Only Foundation Model for Time-Series Forecasting (2023),
        https://arxiv.org/abs/2310.10688

    Args:
        fields: names of fields, such as :func:`~posenc_mm.timestamps.features_of` gives; all but
            ``"year"``, which has no largest value.
        code: ``"cyclic"``, ``"ramp"`` or ``"one_hot"``.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.
        convention: of ramps: ``"own"``, which is ``"gluonts"``'s too; ``"timesfm1"`` counts days
            and months from 1 and weeks from the first Sunday, over divisors for counts from 0, so
            that they leave :math:`\pm 1/2`: for weights that were trained with it.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``: moments since 1970-01-01T00:00 UTC, int64 or
        float64; :math:`D` is 2 a field in the cyclic code, 1 in ramps, :math:`s` in one-hot; in
        float64 where the positions are, else float32

    Raises:
        ValueError: unknown names, no field, or a convention without ramps; at the call, positions
            have more than one axis, or are no moments of the years 1 to 9999.

    Example:
        >>> Calendar(["hour"])(torch.tensor([[0], [3 * 3600]]))
        tensor([[0.0000, 1.0000],
                [0.7071, 0.7071]])
    """

    def __init__(
        self,
        fields: Sequence[str],
        *,
        code: str = "cyclic",
        zone: str | Zone = "UTC",
        unit: str = "s",
        convention: str = "own",
    ) -> None:
        super().__init__()
        if code not in _CODES:
            raise ValueError(f"code must be one of {_CODES}, got code={code!r}")
        if convention not in _RAMPS or (convention != "own" and code != "ramp"):
            raise ValueError(
                f"convention must be one of {tuple(_RAMPS)}, for ramps, got "
                f"convention={convention!r} and code={code!r}"
            )
        self.fields = _checked(fields)
        if "year" in self.fields:
            raise ValueError(
                "fields must have a largest value, which 'year' has not: take "
                "OnCalendar(Sinusoidal(dim), ['year']), or the moments themselves"
            )
        self.code, self.convention = code, convention
        self.zone, self.unit = zone_of(zone), check_unit(unit)
        sizes = [FIELD_SIZES[name] for name in self.fields]
        self.dim = {"cyclic": 2 * len(sizes), "ramp": len(sizes), "one_hot": sum(sizes)}[code]

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        wall = on_the_wall(*as_ticks(positions[..., 0], self.unit), self.zone)
        real = torch.promote_types(positions.dtype, torch.float32)
        if self.code == "cyclic":
            turns = torch.stack([_turns(wall, name) for name in self.fields], dim=-1)
            theta = angles(turns, axial(*[harmonics(1, period=1)] * len(self.fields)))
            return torch.stack((theta.sin(), theta.cos()), dim=-1).flatten(-2).to(real)
        if self.code == "ramp":
            ramps = [_ramp(wall, name, self.convention, real) for name in self.fields]
            return torch.stack(ramps, dim=-1)
        columns = [
            field_of(wall, name).unsqueeze(-1)
            == torch.arange(FIELD_SIZES[name], device=positions.device)
            for name in self.fields
        ]
        return torch.cat(columns, dim=-1).to(real)

    def extra_repr(self) -> str:
        return (
            f"fields={self.fields}, code={self.code!r}, zone={self.zone.name!r}, "
            f"unit={self.unit!r}, convention={self.convention!r}"
        )


class OnCalendar(AdditiveEncoding):
    """Any encoding, with fields of the calendar for its axes.

    ``OnCalendar(Learned(64, (24, 7), joint=False), ["hour", "day_of_week"])`` is a sum of learned
    vectors, one for each hour and one for each weekday; joint, one for each hour of the week.

    Traps: entries of hours, weekdays or months that training never met stay as they were drawn, and
    clocks are UTC's unless ``zone`` says whose.

    References:
        Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence Time-Series
        Forecasting (2021), https://arxiv.org/abs/2012.07436

    Args:
        encoding: of as many axes as there are fields.
        fields: names of fields, which count from 0 (but for ``"year"``): the axes, in order.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.
        convention: ``"own"``, or ``"informer"``: there days and months count from 1, so that row 0
            of a table is never read, and a minute is one of 4 quarters of an hour.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``: moments since 1970-01-01T00:00 UTC, int64 or
        float64, in; what the encoding gives, out

    Raises:
        ValueError: unknown names, no field, or a learned table that has not a row for each value
            of its field; at the call, positions have more than one axis, or are no moments of the
            years 1 to 9999, or the encoding refuses the fields.

    Example:
        >>> hours = OnCalendar(Learned(8, 24), ["hour"], zone="Asia/Kolkata")
        >>> torch.equal(hours(torch.tensor([[0]]))[0], hours.encoding.table[5])
        True
    """

    def __init__(
        self,
        encoding: AdditiveEncoding,
        fields: Sequence[str],
        *,
        zone: str | Zone = "UTC",
        unit: str = "s",
        convention: str = "own",
    ) -> None:
        super().__init__()
        if convention not in _INDICES:
            raise ValueError(
                f"convention must be one of {tuple(_INDICES)}, got convention={convention!r}"
            )
        if not isinstance(encoding, AdditiveEncoding):
            raise ValueError(f"encoding must be an AdditiveEncoding, got {encoding!r}")
        self.fields, self.convention = _checked(fields), convention
        self.zone, self.unit = zone_of(zone), check_unit(unit)
        self.shares = [_INDICES[convention].get(name, (1, 0)) for name in self.fields]
        if isinstance(encoding, Learned):
            _check_rows(self.fields, self.shares, encoding.sizes)
        self.encoding, self.dim = encoding, encoding.dim

    def reset_parameters(self) -> None:
        """Start the encoding anew."""
        reset([self.encoding])

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        values = fields(positions[..., 0], self.fields, unit=self.unit, zone=self.zone)
        shares, firsts = torch.tensor(self.shares, device=values.device).T
        values = values // shares + firsts
        exact = values.double() if positions.is_floating_point() else values
        encoded: Tensor = self.encoding(exact)
        return encoded

    def extra_repr(self) -> str:
        return (
            f"encoding={type(self.encoding).__name__}({self.encoding.extra_repr()}), "
            f"fields={self.fields}, zone={self.zone.name!r}, unit={self.unit!r}, "
            f"convention={self.convention!r}"
        )


def _checked(names: Sequence[str]) -> tuple[str, ...]:
    check_names("field", names)
    for name in names:
        if name not in FIELD_SIZES and name != "year":
            raise ValueError(
                f"fields must be of {', '.join(FIELD_SIZES)} and year, got {name!r} in {names!r}"
            )
    return tuple(names)


def _check_rows(
    names: Sequence[str], shares: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> None:
    # Years have four digits.
    wanted = [
        FIELD_SIZES.get(name, 10_000) // share + first
        for name, (share, first) in zip(names, shares, strict=True)
    ]
    if len(sizes) != len(wanted) or any(
        rows < size for rows, size in zip(sizes, wanted, strict=True)
    ):
        raise ValueError(
            f"encoding must have tables of at least {wanted} rows for the fields {list(names)}, "
            f"got sizes={list(sizes)}"
        )


def _turns(wall: Wall, name: str) -> Tensor:
    size = VALUES_OF[name](wall.days) if name in VALUES_OF else FIELD_SIZES[name]
    passed = field_of(wall, name)
    if name == "sunday_week":
        passed = passed - first_sunday_week(wall.days)
    return passed.to(real_of(wall.days.device)) / size


def _ramp(wall: Wall, name: str, convention: str, real: torch.dtype) -> Tensor:
    read, first, divisor = _RAMPS[convention].get(name, (name, 0, FIELD_SIZES[name] - 1))
    return (field_of(wall, read) + first).to(real) / divisor - 0.5
