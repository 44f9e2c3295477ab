"""Units of physical time, and durations in them."""

import math
import re
from datetime import timedelta
from fractions import Fraction
from numbers import Integral

import torch
from torch import Tensor

from posenc_mm.checks import check_inside

TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "D": Fraction(86400),
    "W": Fraction(604800),
}
# No clock before or after these reads a year of four digits: such a number has another unit.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_NOT_A_TIME = -(2**63)

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)?\s*([A-Za-z]+)")


def duration(value: str | float | timedelta) -> Fraction:
    """Read a length of physical time, exactly.

    Args:
        value: a number and a unit, ``"15min"``, ``"24h"``, ``"29.53D"`` (units ns, us, ms, s, min,
            h, D of 24 hours, W; a lone unit counts once); a number of seconds; or a ``timedelta``.

    Returns:
        Seconds, as a fraction.

    Raises:
        ValueError: another spelling, or a length that is not positive and finite.

    Example:
        >>> duration("1.5h")
        Fraction(5400, 1)
    """
    if isinstance(value, timedelta):
        length = Fraction(value // timedelta(microseconds=1), 10**6)
    elif isinstance(value, str):
        match = _DURATION.fullmatch(value.strip())
        unit = {"d": "D", "w": "W"}.get(match[2], match[2]) if match else ""
        if match is None or unit not in SECONDS:
            raise ValueError(
                f"a duration must be a number and one of {', '.join(SECONDS)}, got {value!r}"
            )
        length = Fraction(match[1] or 1) * SECONDS[unit]
    elif isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"a duration must be a finite number of seconds, got {value!r}")
    elif isinstance(value, Integral):
        length = Fraction(int(value))  # numpy's integers wrap
    else:
        length = value if isinstance(value, Fraction) else Fraction(float(value))
    if length <= 0:
        raise ValueError(f"a duration must be positive, got {value!r}")
    return length


def check_unit(unit: object) -> str:
    """Refuse units that ticks do not come in.

    Args:
        unit: what came.

    Returns:
        The unit.

    Raises:
        ValueError: it is none of s, ms, us and ns.
    """
    if not isinstance(unit, str) or unit not in TICKS_PER_SECOND:
        raise ValueError(f"unit must be one of {', '.join(TICKS_PER_SECOND)}, got unit={unit!r}")
    return unit


def check_moments(ticks: Tensor, unit: str) -> None:
    """Refuse ticks that are no moment of a year of four digits, as in a wrong unit.

    Args:
        ticks: ``(N,)`` since 1970-01-01T00:00, integers or floats.
        unit: what they count.

    Raises:
        ValueError: one is outside, or not a time; its row is named.
    """
    low, high = _range(unit)
    if not len(ticks):
        return
    ends = ticks.aminmax()
    if ends.min >= low and ends.max <= high:
        return
    row = int((~((ticks >= low) & (ticks <= high))).nonzero()[0, 0])
    # Read only to word the error of a constructor, which is about to be raised.
    value = ticks[row].item()
    if value == _NOT_A_TIME or value != value:
        raise ValueError(f"stamps must be moments, got NaT in row {row}: drop or fill it")
    fitting = [
        one for one in TICKS_PER_SECOND if abs(value) <= _LAST_SECOND * TICKS_PER_SECOND[one]
    ]
    raise ValueError(
        f"stamps must be moments of the years 1 to 9999 in 64 bits, got {value} {unit} in row {row}"
        + (f": is unit={fitting[0]!r} meant?" if fitting and fitting[0] != unit else "")
    )


def _range(unit: str) -> tuple[int, int]:
    # Within 64 bits there must be room for an offset from UTC.
    per_second = TICKS_PER_SECOND[unit]
    day = 86_400 * per_second
    low = max(_FIRST_SECOND * per_second, _NOT_A_TIME + day)
    return low, min((_LAST_SECOND + 1) * per_second - 1, 2**63 - day)


def as_ticks(moments: Tensor, unit: str) -> tuple[Tensor, str]:
    """Make whole ticks of moments.

    Floats are rounded to whole microseconds (nanoseconds where that is their unit), which is what
    float64 resolves in today's seconds since 1970.

    Args:
        moments: of any shape: integers, or float64.
        unit: what they count, one of s, ms, us, ns.

    Returns:
        The ticks in int64, and their unit.

    Raises:
        ValueError: an unknown unit, a type that cannot hold moments: float32 is two minutes wide
            at today's seconds since 1970; or no moments of the years 1 to 9999, as NaN, NaT and
            those of a finer unit are (compiled, exported and on CUDA an assertion that fails as it
            runs).
    """
    per_second = TICKS_PER_SECOND[check_unit(unit)]
    if moments.dtype == torch.bool or moments.is_complex():
        raise ValueError(f"moments must be integers or float64, got dtype {moments.dtype}")
    if moments.is_floating_point() and moments.dtype != torch.float64:
        raise ValueError(
            f"moments must be integers or float64, got dtype {moments.dtype}, which cannot hold "
            "seconds since 1970"
        )
    moments = moments if moments.is_floating_point() else moments.long()
    low, high = _range(unit)
    advice = f"are they numbers, of the years 1 to 9999 in unit={unit!r}?"
    check_inside("moments", moments.unsqueeze(-1), [low], [high], 0, advice)
    if not moments.is_floating_point():
        return moments, unit
    whole = moments.floor()
    finer = max(10**6 // per_second, 1)
    ticks = whole.long() * finer + ((moments - whole) * finer).round().long()
    return ticks, "us" if finer > 1 else unit


def in_units(ticks: Tensor, unit: str, wanted: str) -> Tensor:
    """Express ticks in another unit, whole ones exactly.

    Args:
        ticks: ``(N,)`` in int64.
        unit: what they count.
        wanted: the unit of the result, as :func:`duration` reads it.

    Returns:
        ``(N,)``: in int64 if all are whole, else in float64.

    Raises:
        ValueError: an unknown unit, or numbers beyond 64 bits.

    Example:
        >>> in_units(torch.tensor([7200]), "s", "h")
        tensor([2])
    """
    step = duration(wanted) * TICKS_PER_SECOND[unit]
    parts = _times(ticks, step.denominator, wanted)
    whole = torch.div(parts, step.numerator, rounding_mode="trunc")
    rest = parts - whole * step.numerator
    return whole.double() + rest.double() / step.numerator if rest.any() else whole


def since(ticks: Tensor, unit: str, origin: int, origin_unit: str) -> tuple[Tensor, str]:
    """Subtract an origin exactly, in the finer of two units.

    Args:
        ticks: ``(N,)`` in int64.
        unit: what they count.
        origin: ticks of the origin.
        origin_unit: what it counts.

    Returns:
        The ticks since the origin, and their unit.

    Raises:
        ValueError: they are beyond 64 bits.
    """
    finer = max(unit, origin_unit, key=lambda one: TICKS_PER_SECOND[one])
    per_second = TICKS_PER_SECOND[finer]
    ticks = _times(ticks, per_second // TICKS_PER_SECOND[unit], finer)
    origin *= per_second // TICKS_PER_SECOND[origin_unit]
    if len(ticks) and not all(abs(int(end) - origin) < 2**63 for end in ticks.aminmax()):
        raise ValueError(f"origin must be within 64 bits of stamps, got {origin} {finer}")
    return ticks - origin, finer


def _times(ticks: Tensor, factor: int, unit: str) -> Tensor:
    if len(ticks) and not all(abs(int(end)) * factor < 2**63 for end in ticks.aminmax()):
        raise ValueError(f"moments in {unit} must fit into 64 bits: count from a nearer origin")
    return ticks * factor
