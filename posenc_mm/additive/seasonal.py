"""Seasons of any length as sines and cosines, added to the tokens: fixed, or of learned length."""

from collections.abc import Mapping
from fractions import Fraction

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_whole
from posenc_mm.frequencies import angles, axial, check_positions, harmonics
from posenc_mm.frequencies.rows import TWO_PI
from posenc_mm.timestamps import Zone, duration, phases, zone_of
from posenc_mm.timestamps.civil import CLOCK, physical, real_of
from posenc_mm.timestamps.units import TICKS_PER_SECOND, as_ticks, check_unit

Periods = Mapping[str | float, int]

_DAY = CLOCK["day"]
# Periods that nest on one clock, and the least that the others last.
_NESTED = {**CLOCK, "week": 7 * _DAY}
_SHORTEST = {"month": 28 * _DAY, "quarter": 90 * _DAY, "year": 365 * _DAY}


class Seasonal(AdditiveEncoding):
    r"""Harmonics of seasons: of the day, the week, the year, or of any physical length.

    .. math:: e(p) = (\sin 2 \pi k \varphi_P(p), \; \cos 2 \pi k \varphi_P(p)), \quad
        k = 1 \ldots K_P, \text{ for each period } P

    The phase :math:`\varphi` is what :func:`~posenc_mm.timestamps.phases` tells: of a period of the
    calendar the fraction of its actual length that has passed on the clock on the wall, so that 8
    o'clock is 8 o'clock in summer time too and the year ends on 31 December of any year; of another
    one that of physical time since 1970. It is reduced exactly before it is multiplied. Nothing is
    learned or stored: a :class:`~posenc_mm.Projected` around it learns the amplitudes.

    ``{"365.25D": 10, "7D": 3}`` are Prophet's features, ``{"year": 4}`` those of statsmodels'
    ``CalendarFourier``.

    Traps: ``"day"`` follows the clocks of ``zone`` and ``"24h"`` does not: they part as clocks
    change. ``"year"`` ends on 31 December and ``"365.25D"`` does not. Clocks are UTC's unless
    ``zone`` says whose.

    References:
        Harvey, Shephard: Structural Time Series Models (1993),
        https://doi.org/10.1016/S0169-7161(05)80045-8;
        Taylor, Letham: Forecasting at Scale (2018), https://doi.org/10.1080/00031305.2017.1380080

    Args:
        periods: the number of harmonics :math:`K` by period: a name in ``PERIODS``, or a duration
            such as ``"24h"``, ``"29.53D"`` or a number of seconds. A harmonic that an earlier
            period has (7 of a week, 1 of a day) is given once.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.
        step: a duration, the time from one sample to the next: harmonics that it cannot tell from
            slower ones are refused.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``: moments since 1970-01-01T00:00 UTC, int64 or
        float64; :math:`D` is 2 a harmonic, sine and cosine of the first, of the second, ... period
        by period; in float64 where the positions are, else float32

    Raises:
        ValueError: no period, an unknown one, no harmonic of one, or one that takes less than two
            steps; at the call, positions have more than one axis, or are no moments of the
            years 1 to 9999.

    Example:
        >>> Seasonal({"day": 2})(torch.tensor([[2 * 3600]]))
        tensor([[0.5000, 0.8660, 0.8660, 0.5000]])
    """

    def __init__(
        self,
        periods: Periods,
        *,
        zone: str | Zone = "UTC",
        unit: str = "s",
        step: str | float | None = None,
    ) -> None:
        super().__init__()
        self.periods, self.step = _checked(periods), step
        self.zone, self.unit = zone_of(zone), check_unit(unit)
        if step is not None:
            _check_step(self.periods, duration(step))
        self.harmonics = _distinct(self.periods)
        self.dim = 2 * sum(len(multiples) for _, multiples in self.harmonics)

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        names = [period for period, _ in self.harmonics]
        turns = phases(positions[..., 0], names, unit=self.unit, zone=self.zone)
        theta = angles(turns, axial(*[[TWO_PI * k for k in row] for _, row in self.harmonics]))
        encoded = torch.stack((theta.sin(), theta.cos()), dim=-1).flatten(-2)
        return encoded.to(torch.promote_types(positions.dtype, torch.float32))

    def extra_repr(self) -> str:
        return (
            f"periods={self.periods}, zone={self.zone.name!r}, unit={self.unit!r}, "
            f"step={self.step!r}"
        )


class LearnedSeasonal(AdditiveEncoding):
    r"""Harmonics of seasons whose lengths are learned, from a guess.

    .. math:: e(p) = (\sin 2 \pi k (p - p_0) / P, \; \cos 2 \pi k (p - p_0) / P), \quad
        P = e^\theta P_0

    :math:`\theta` is learned, one for each period, and 0 at first: the guess is exact in any dtype.
    The origin is subtracted in whole ticks.

    Traps: a phase moves by :math:`2 \pi k (p - p_0) / P` times the change of :math:`\theta`, so
    take an origin within the data: from 1970 on, a day has passed 20000 times, and the smallest
    step of an optimiser shuffles all phases.

    References:
        Shukla, Marlin: Multi-Time Attention Networks for Irregularly Sampled Time Series (2021),
        https://arxiv.org/abs/2101.10318

    Args:
        periods: the number of harmonics :math:`K` by the first guess :math:`P_0` of a period: a
            duration such as ``"24h"``, ``"29.53D"`` or a number of seconds, or one of second,
            minute, hour, day and week.
        unit: what the positions count, one of s, ms, us, ns.
        origin: :math:`p_0`, the moment of phase 0, in that unit.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``: moments since 1970-01-01T00:00 UTC, int64 or
        float64; :math:`D` is 2 a harmonic, in the order of :class:`Seasonal`; in float64 where the
        positions are, else float32

    Raises:
        ValueError: no period, one that is no duration, no harmonic of one, or an origin that is not
            whole; at the call, positions have more than one axis, or are no moments of the
            years 1 to 9999.

    Example:
        >>> tides = LearnedSeasonal({"12.42h": 2, "24h": 1}, origin=1_700_000_000)
        >>> tides(torch.tensor([[1_700_000_000]]))
        tensor([[0., 1., 0., 1., 0., 1.]], grad_fn=<ViewBackward0>)
    """

    def __init__(self, periods: Periods, *, unit: str = "s", origin: int = 0) -> None:
        super().__init__()
        check_whole(-(2**63), origin=origin)
        self.periods = _checked(periods)
        self.guesses = [float(_NESTED.get(str(one)) or duration(one)) for one in self.periods]
        self.unit, self.origin = check_unit(unit), origin
        self.dim = 2 * sum(self.periods.values())
        self.log_ratios = nn.Parameter(torch.zeros(len(self.periods)))

    def reset_parameters(self) -> None:
        """Return to the first guesses."""
        nn.init.zeros_(self.log_ratios)

    def lengths(self) -> Tensor:
        """The periods as they are now, ``(P,)`` in seconds."""
        real = real_of(self.log_ratios.device)
        guesses = torch.tensor(self.guesses, dtype=real, device=self.log_ratios.device)
        return guesses * self.log_ratios.to(real).exp()

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        ticks, tick = as_ticks(positions, self.unit)
        per_second = TICKS_PER_SECOND[tick]
        ticks = ticks - self.origin * (per_second // TICKS_PER_SECOND[self.unit])
        lengths = self.lengths() * per_second
        counts = zip(self.periods.values(), lengths.unbind(), strict=True)
        rows = [lengths.new_tensor(harmonics(count, period=1)) / length for count, length in counts]
        exact = ticks.double() if positions.is_floating_point() else ticks
        theta = angles(exact, torch.cat(rows).unsqueeze(0))
        return torch.stack((theta.sin(), theta.cos()), dim=-1).flatten(-2)

    def extra_repr(self) -> str:
        return f"periods={self.periods}, unit={self.unit!r}, origin={self.origin}"


def _checked(periods: Periods) -> dict[str | float, int]:
    if not isinstance(periods, Mapping) or not periods:
        raise ValueError(f"periods must map periods to numbers of harmonics, got periods={periods}")
    for period, count in periods.items():
        check_whole(**{f"periods[{period!r}]": count})
    return dict(periods)


def _check_step(periods: Periods, step: Fraction) -> None:
    for period, count in periods.items():
        length = {**_NESTED, **_SHORTEST}.get(str(period)) or physical(period)
        most = int(length / (2 * step))
        if count > most:
            raise ValueError(
                f"a harmonic must last two steps or more: at a step of {float(step):g} s "
                f"{period!r} has {most} such, got {count}"
            )


def _distinct(periods: Periods) -> tuple[tuple[str | float, tuple[int, ...]], ...]:
    """Harmonics by period, without those that an earlier period on the same clock has."""
    known: set[tuple[str | float, Fraction]] = set()
    rows = []
    for period, count in periods.items():
        if period in _SHORTEST:  # no two last equally long, so that they have none in common
            clock, length = period, Fraction(1)
        elif str(period) in _NESTED:
            clock, length = "civil", Fraction(_NESTED[str(period)])
        else:
            clock, length = "physical", physical(period)
        new = tuple(k for k in range(1, count + 1) if (clock, k / length) not in known)
        known |= {(clock, k / length) for k in new}
        if new:
            rows.append((period, new))
    return tuple(rows)
