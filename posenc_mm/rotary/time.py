"""Rotary encoding of moments: speeds from the data's step and span, and exact seasons."""

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import check_positions, timescales
from posenc_mm.frequencies.rows import TWO_PI
from posenc_mm.layouts import check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation
from posenc_mm.timestamps.units import TICKS_PER_SECOND, as_ticks, check_unit, duration

_WITHOUT_FLOAT64 = ("mps",)
# Ticks in three digits: such a digit times a rounded fraction of a turn is off by 2^-34 of one.
_BASE = 2**21
_TURN = 2 * Fraction("3.14159265358979323846264338327950288")


class TimeRotary(RotaryEncoding):
    r"""Turns pairs of channels by angles proportional to time.

    .. math:: \theta_i = 2 \pi \, t / P_i, \quad P_i = \text{the periods, then }
        2 \pi \, s \, (S / s)^{k / (K - 1)}, \; k = 0 \ldots K - 1

    A score :math:`q \cdot k` depends on how much time lies between two moments, whatever their rows
    and however irregular the sampling. An hour stays an hour in any window: nothing is rescaled to
    a window's length or snapped to a raster. Moments a whole number of periods apart have the same
    rotation in that period's pair: with ``periods=["24h"]`` tokens find the same time of yesterday.

    Angles are reduced in whole ticks before any is rounded: nanoseconds since 1970 turn as exactly
    as seconds from 0. Float64 moments count in whole microseconds (nanoseconds where that is
    ``unit``), and no gradient reaches them.

    Traps: positions in milliseconds turn 1000 times too fast unless ``unit`` says so. A float32
    cannot hold a moment of today to the minute and is refused. Text-like positions, 0 to 511, are
    seconds here, which a ``step`` of an hour hardly tells apart.

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021),
        https://arxiv.org/abs/2104.09864

    Args:
        head_dim: channels :math:`D` of a head.
        step: :math:`s`, the shortest time to tell apart, such as the sampling step: a duration such
            as ``"30min"``, or seconds. The fastest pair turns one radian in it.
        span: :math:`S`, the longest time, such as that of a window, likewise. The slowest pair
            turns one radian in it.
        periods: physical durations, such as ``"24h"``, that each have a pair of their own, the
            first ones.
        unit: what the positions count, one of s, ms, us, ns.
        layout: ``"half"`` pairs channels (i, i + F), ``"interleaved"`` (2i, 2i + 1).
        rotary_dim: channels :math:`2F` that turn; all unless given.

    Attributes:
        frequencies: ``(1, F)``, in radians per tick of ``unit``.

    Shape:
        ``positions (..., N, 1) -> Rotation`` of ``(..., N, F)``

    Raises:
        ValueError: a width is odd or does not fit, there are more periods than pairs, a duration is
            none or ``span`` not above ``step``, ``unit`` or ``layout`` is unknown; at the call,
            positions do not have one axis, are of a type that cannot hold moments, or are none of
            the years 1 to 9999.

    Example:
        >>> daily = TimeRotary(head_dim=8, step="1h", span="30D", periods=["24h"])
        >>> now = torch.tensor([[1_704_067_200], [1_704_067_200 + 86_400]])
        >>> bool(torch.equal(*daily(now).cos[:, 0]))
        True
    """

    def __init__(
        self,
        head_dim: int,
        *,
        step: str | float | timedelta,
        span: str | float | timedelta,
        periods: Sequence[str | float | timedelta] = (),
        unit: str = "s",
        layout: str = "half",
        rotary_dim: int | None = None,
    ) -> None:
        super().__init__()
        check_layout(layout)
        turning = head_dim if rotary_dim is None else rotary_dim
        check_whole(head_dim=head_dim, rotary_dim=turning)
        if turning % 2 or turning > head_dim:
            raise ValueError(
                f"rotary_dim must be even and at most head_dim, got rotary_dim={turning} and "
                f"head_dim={head_dim}"
            )
        if isinstance(periods, str) or 2 * len(periods) > turning:
            raise ValueError(
                f"periods must be a list of at most {turning // 2}, one for each pair that turns, "
                f"got periods={periods!r}"
            )
        self.head_dim, self.rotary_dim, self.layout = head_dim, turning, layout
        self.unit = check_unit(unit)
        self.step, self.span = float(duration(step)), float(duration(span))
        exact = [duration(period) for period in periods]
        self.periods = tuple(float(period) for period in exact)
        rest = timescales(turning // 2 - len(exact), self.step, self.span)
        per_second = [1 / period for period in exact] + [Fraction(f) / _TURN for f in rest]
        self._turns = {
            one: _in_digits([turns / ticks for turns in per_second])
            for one, ticks in TICKS_PER_SECOND.items()
        }
        ticks = TICKS_PER_SECOND[unit]
        self.frequencies = (tuple(TWO_PI * float(turns / ticks) for turns in per_second),)

    def forward(self, positions: Tensor) -> Rotation:
        check_positions(positions, 1)
        ticks, unit = as_ticks(positions, self.unit)
        real = positions.dtype if positions.is_floating_point() else torch.float32
        if ticks.device.type in _WITHOUT_FLOAT64:
            ticks = ticks.cpu()
        theta = _angles(ticks, self._turns[unit]).to(real).to(positions.device)
        return Rotation(theta.cos(), theta.sin(), self.layout)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, step={self.step}, span={self.span}, "
            f"periods={self.periods}, unit={self.unit!r}, layout={self.layout!r}, "
            f"rotary_dim={self.rotary_dim}"
        )


def _in_digits(turns: Sequence[Fraction]) -> tuple[tuple[float, ...], ...]:
    """Turns per unit of each digit of the ticks, the lowest first, less whole turns."""
    places = [[each * _BASE**place for each in turns] for place in range(3)]
    return tuple(tuple(float(each - round(each)) for each in place) for place in places)


def _angles(ticks: Tensor, turns: tuple[tuple[float, ...], ...]) -> Tensor:
    """Angles in float64, from -pi to pi, of ticks (..., N, 1)."""
    digits = (ticks % _BASE, ticks // _BASE % _BASE, ticks // _BASE**2)
    total = torch.zeros((), dtype=torch.float64, device=ticks.device)
    for digit, row in zip(digits, turns, strict=True):
        speeds = torch.tensor(row, dtype=torch.float64, device=ticks.device)
        total = total + digit.double() * speeds
    return (total - total.round()) * TWO_PI
