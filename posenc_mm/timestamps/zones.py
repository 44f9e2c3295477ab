"""Time zones as compact tables: when the offset from UTC changes, and to what."""

import re
import zoneinfo
from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import torch
from torch import Tensor

# The calendar, weekdays included, repeats after 400 years, and so does every rule of summer time.
CYCLE = 146_097 * 86_400
# The first zones left local mean time in the 1840s. From 2100 every zone follows a fixed rule,
# which the last 400 years of a table hold once.
_FIRST, _RULE = -4_102_444_800, 4_102_444_800
END = _RULE + CYCLE
# No zone has returned to an offset within three days (Freetown did in four, in 1939); rules of the
# future keep summer time for months.
_STEP, _RULE_STEP = 3 * 86_400, 28 * 86_400

_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


class Zone(NamedTuple):
    """A time zone for all time, as plain numbers.

    Attributes:
        name: its IANA name, or a fixed offset such as ``"+05:30"``.
        instants: UTC seconds since 1970 from which another offset holds, rising, up to the year
            2500; later offsets repeat those of 400 years before.
        offsets: seconds east of UTC: before the first instant, then from each.
    """

    name: str
    instants: tuple[int, ...]
    offsets: tuple[int, ...]

    def between(self, low: int, high: int) -> "Zone":
        """The part of the table that moments from ``low`` to ``high`` need, in UTC seconds."""
        if high >= END:
            return self
        first, last = bisect_right(self.instants, low), bisect_right(self.instants, high)
        return Zone(self.name, self.instants[first:last], self.offsets[first : last + 1])


UTC = Zone("UTC", (), (0,))


def zone_of(tz: "str | tzinfo | Zone") -> Zone:
    """Tabulate a time zone from the system's data, or those of the package tzdata.

    Changes of offset are found by bisection, to the second, on what the standard library says.

    Args:
        tz: an IANA name such as ``"Australia/Melbourne"``, an offset such as ``"+05:30"``, a
            ``tzinfo`` that has either, or a table, which is returned.

    Returns:
        The table.

    Raises:
        ValueError: no such zone, or a ``tzinfo`` without a name.

    Example:
        >>> zone_of("Asia/Kolkata").offsets[-1] / 3600
        5.5
    """
    if isinstance(tz, Zone):
        return tz
    name = name_of(tz)
    offset = _OFFSET.fullmatch(name)
    if offset:
        seconds = int(offset[2]) * 3600 + int(offset[3]) * 60
        name = f"{offset[1]}{offset[2]}:{offset[3]}"
        return Zone(name, (), (-seconds if offset[1] == "-" else seconds,))
    if name == "UTC":
        return UTC
    try:
        source = zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"tz must be the IANA name of a zone, such as 'Europe/London', or an offset, such as "
            f"'+05:30', got tz={name!r} (without zones in the system, install tzdata)"
        ) from None
    return _tabulate(name, source)


def name_of(tz: str | tzinfo) -> str:
    """Name a time zone.

    Args:
        tz: a name, or what the standard library, pytz or pandas make of one.

    Returns:
        The IANA name, or a fixed offset such as ``"+05:30"``.

    Raises:
        ValueError: it has neither.
    """
    # zoneinfo says key, pytz says zone.
    name = tz if isinstance(tz, str) else getattr(tz, "key", None) or getattr(tz, "zone", None)
    if isinstance(name, str):
        return name
    offset = tz.utcoffset(None) if isinstance(tz, tzinfo) else None
    if offset is None or offset % timedelta(minutes=1):
        raise ValueError(f"tz must have an IANA name or an offset of whole minutes, got tz={tz!r}")
    minutes = offset // timedelta(minutes=1)
    if not minutes:
        return "UTC"
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def offsets_at(ticks: Tensor, zone: Zone, per_second: int = 1) -> Tensor | int:
    """Look up the offset that holds at each moment.

    Args:
        ticks: since 1970-01-01T00:00 UTC, int64, of any shape.
        zone: the table.
        per_second: how many ticks are a second.

    Returns:
        Ticks east of UTC: one number where the table has but one, else per moment.
    """
    if not zone.instants:
        return zone.offsets[0] * per_second
    # What 64 bits of nanoseconds do not reach, no moment does.
    last = (2**63 - 1) // per_second
    instants = torch.tensor(zone.instants, device=ticks.device).clamp(max=last) * per_second
    offsets = torch.tensor(zone.offsets, device=ticks.device) * per_second
    return offsets[torch.bucketize(_within_table(ticks, zone, per_second), instants, right=True)]


def to_utc(civil: Tensor, zone: Zone) -> tuple[Tensor, Tensor]:
    """Find the moments at which the clocks of a zone show given readings.

    Args:
        civil: ``(N,)`` seconds since 1970-01-01T00:00 on the clock, int64.
        zone: the table.

    Returns:
        The earliest and the latest such moment, in UTC seconds. They are equal but for readings
        that come twice, as clocks are set back, and for readings that never come, as clocks are
        set forward: there the first of the two is the *later*, as far behind the jump as the
        reading is into it.
    """
    if not zone.instants:
        moments = civil - zone.offsets[0]
        return moments, moments
    instants = torch.tensor(zone.instants)
    offsets = torch.tensor(zone.offsets)
    reading = _within_table(civil, zone)
    # Until both offsets have let go of the old day, a reading may still be meant in the old one.
    old = instants + torch.maximum(offsets[:-1], offsets[1:])
    new = instants + torch.minimum(offsets[:-1], offsets[1:])
    before = offsets[torch.bucketize(reading, old, right=True)]
    after = offsets[torch.bucketize(reading, new, right=True)]
    return civil - before, civil - after


def _within_table(ticks: Tensor, zone: Zone, per_second: int = 1) -> Tensor:
    end, cycle = END * per_second, CYCLE * per_second
    if zone.instants[-1] < _RULE or end >= 2**63:
        return ticks
    return ticks - ((ticks - end).clamp(min=0) + (cycle - 1)) // cycle * cycle


def _tabulate(name: str, source: tzinfo) -> Zone:
    epoch = datetime(1970, 1, 1, tzinfo=source)

    def offset(seconds: int) -> timedelta | None:
        return source.fromutc(epoch + timedelta(seconds=seconds)).utcoffset()

    def first_change(low: int, high: int, before: timedelta | None) -> int:
        return low + bisect_left(range(low, high), True, key=lambda t: offset(t) != before)

    instants: list[int] = []
    offsets = [offset(_FIRST)]
    low = _FIRST
    while low < END:
        high = low + (_STEP if low < _RULE else _RULE_STEP)
        after = offset(high)
        while after != offsets[-1]:
            low = first_change(low, high, offsets[-1])
            instants.append(low)
            offsets.append(offset(low))
        low = high
    return Zone(name, tuple(instants), tuple(int(o.total_seconds()) if o else 0 for o in offsets))
