"""Stamps of every kind to ticks: pandas, numpy, torch, Python's datetimes, numbers, ISO text."""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_mm.timestamps.frequency import Frequency, frequency_of
from posenc_mm.timestamps.iso import EPOCH, parse
from posenc_mm.timestamps.units import (
    TICKS_PER_SECOND,
    as_ticks,
    check_moments,
    check_unit,
    in_units,
)
from posenc_mm.timestamps.zones import name_of

_EPOCH_UTC = EPOCH.replace(tzinfo=timezone.utc)
_DATETIME64 = re.compile(r".M8\[(\d*)(\w+)\]")
# What numpy's other units are whole in.
_HELD_IN = {
    **dict.fromkeys(("Y", "M", "W", "D", "h", "m"), "s"),
    "ps": "ns",
    "fs": "ns",
    "as": "ns",
}


class Reading(NamedTuple):
    """What stamps say.

    Attributes:
        ticks: ``(N,)`` since 1970-01-01T00:00, int64.
        unit: what a tick is.
        zone: the zone that the stamps bring. ``None`` means that ticks are readings of a clock that
            the stamps do not name.
        frequency: the one that a pandas index states.
    """

    ticks: Tensor
    unit: str
    zone: str | tzinfo | None
    frequency: Frequency | None = None


def read(stamps: Any, unit: str | None, converted: bool) -> Reading:
    """Read stamps of any kind.

    Libraries are recognised by what their objects can do, so that none has to be installed.

    Args:
        stamps: see :class:`~posenc_mm.timestamps.TimeAxis`.
        unit: what numbers count, and what other stamps are to be kept in.
        converted: whether all will be shown in one zone, so that they may come in several.

    Returns:
        The ticks and what they count.

    Raises:
        ValueError: stamps of an unknown kind, or one that cannot be read; its row is named.
    """
    array = getattr(stamps, "array", stamps)  # of a pandas index or series
    if isinstance(stamps, Tensor):
        return _numbers(stamps.detach().cpu().clone(), unit)
    if all(hasattr(array, name) for name in ("asi8", "unit", "tz")):
        ticks = torch.from_numpy(array.asi8.copy())
        check_moments(ticks, check_unit(array.unit))
        return _kept(Reading(ticks, array.unit, array.tz, _stated_by(stamps)), unit)
    if hasattr(array, "asi8"):
        raise ValueError(
            f"stamps must be moments, got {type(stamps).__name__}; periods have to_timestamp()"
        )
    if getattr(getattr(stamps, "dtype", None), "time_zone", None):  # polars, whose arrays drop it
        stamps = stamps.to_list()
    elif hasattr(stamps, "to_numpy"):
        stamps = stamps.to_numpy()
    if hasattr(stamps, "dtype") and hasattr(stamps, "tolist"):
        if stamps.ndim != 1:
            raise ValueError(f"stamps must be (N,), got shape {tuple(stamps.shape)}")
        if stamps.dtype.kind == "M":
            return _kept(_datetime64(stamps), unit)
        if stamps.dtype.kind in "if":
            return _numbers(torch.from_numpy(stamps.copy()), unit)
        stamps = stamps.tolist()
    if isinstance(stamps, (str, bytes)) or not isinstance(stamps, Iterable):
        raise ValueError(f"stamps must be a sequence of moments, got {stamps!r}")
    return _objects(list(stamps), unit, converted)


def _kept(reading: Reading, unit: str | None) -> Reading:
    """Express stamps that have a unit in the one asked for."""
    if unit in (None, reading.unit):
        return reading
    ticks = in_units(reading.ticks, reading.unit, check_unit(unit))
    if ticks.is_floating_point():
        row = int((ticks != ticks.round()).nonzero()[0, 0])
        raise ValueError(f"stamps must be whole {unit}, got a fraction in row {row}")
    check_moments(ticks, str(unit))
    return reading._replace(ticks=ticks, unit=str(unit))


def _stated_by(index: Any) -> Frequency | None:
    # An attribute of the class: a series has its labels for attributes.
    offset = index.freq if hasattr(type(index), "freq") else None
    try:
        return offset and replace(frequency_of(offset), evidence="stated by the index")
    except ValueError:
        return None  # an offset that is no regular step, such as a custom holiday calendar


def _numbers(numbers: Tensor, unit: str | None) -> Reading:
    if numbers.ndim != 1:
        raise ValueError(f"stamps must be (N,), got shape {tuple(numbers.shape)}")
    if unit is None:
        raise ValueError(
            f"unit must say what the numbers count, one of {', '.join(TICKS_PER_SECOND)}, got "
            f"unit=None for stamps of {numbers.dtype}"
        )
    as_ticks(numbers[:0], unit)  # refuses types and units, before values are looked at
    check_moments(numbers, unit)
    ticks, unit = as_ticks(numbers, unit)
    return Reading(ticks, unit, "UTC")


def _datetime64(array: Any) -> Reading:
    match = _DATETIME64.fullmatch(array.dtype.str)
    if match is None:
        raise ValueError(f"stamps must have a unit, got dtype {array.dtype}")
    unit = _HELD_IN.get(match[2], match[2])
    held = array.astype(f"datetime64[{unit}]")
    ticks = torch.from_numpy(held.view("int64").copy())
    check_moments(ticks, unit)
    lost = torch.from_numpy(held.astype(array.dtype) != array)
    if lost.any():
        row = int(lost.nonzero()[0, 0])
        raise ValueError(
            f"stamps must be whole {unit} within 64 bits, got {array[row]} of dtype {array.dtype} "
            f"in row {row}"
        )
    return Reading(ticks, unit, None)


def _objects(stamps: Sequence[Any], unit: str | None, converted: bool) -> Reading:
    kinds = [_kind(stamp, row) for row, stamp in enumerate(stamps)]
    for row, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ValueError(
                f"stamps must be of one kind, got {kinds[0]}s and, in row {row}, a {kind}"
            )
    if not stamps:
        return Reading(torch.zeros(0, dtype=torch.int64), unit or "s", None)
    if kinds[0] == "number":
        floats = any(isinstance(stamp, float) for stamp in stamps)
        return _numbers(
            torch.tensor(stamps, dtype=torch.float64) if floats else _whole(stamps), unit
        )
    if kinds[0] == "datetime64":
        return _kept(_datetime64(sys.modules["numpy"].array(stamps)), unit)
    ticks, own_unit, zones = parse(stamps) if kinds[0] == "text" else _datetimes(stamps)
    reading = Reading(_whole(ticks), own_unit, _one_zone(zones, converted))
    check_moments(reading.ticks, own_unit)
    return _kept(reading, unit)


def _kind(stamp: Any, row: int) -> str:
    if stamp is None or (stamp != stamp) is True:
        raise ValueError(f"stamps must be moments, got {stamp!r} in row {row}: drop or fill it")
    if isinstance(stamp, date):
        return "datetime"
    if isinstance(stamp, str):
        return "text"
    if getattr(getattr(stamp, "dtype", None), "kind", None) == "M":
        return "datetime64"
    whole = isinstance(stamp, Integral) and not isinstance(stamp, bool)  # numpy's are registered
    if isinstance(stamp, float) or whole:
        return "number"
    raise ValueError(f"stamps must be moments, got {stamp!r} in row {row}")


def _whole(numbers: Sequence[Any]) -> Tensor:
    for row, number in enumerate(numbers):
        if not -(2**63) < int(number) < 2**63:
            raise ValueError(f"stamps must fit into 64 bits, got {number} in row {row}")
    return torch.tensor([int(number) for number in numbers], dtype=torch.int64)


def _datetimes(stamps: Sequence[Any]) -> tuple[list[int], str, list[tzinfo | None]]:
    microseconds, zones = [], []
    for stamp in stamps:
        # A pandas stamp has arithmetic and nanoseconds of its own.
        clock = stamp.timetz() if isinstance(stamp, datetime) else time()
        moment = datetime.combine(date(stamp.year, stamp.month, stamp.day), clock)
        zone = moment.tzinfo
        epoch = EPOCH if zone is None else _EPOCH_UTC
        microseconds.append((moment - epoch) // timedelta(microseconds=1))
        zones.append(zone)
    rests = [getattr(stamp, "nanosecond", 0) for stamp in stamps]
    if any(rests):
        return [1000 * m + rest for m, rest in zip(microseconds, rests, strict=True)], "ns", zones
    return microseconds, "us", zones


def _one_zone(zones: Sequence[Any], converted: bool) -> str | tzinfo | None:
    first = zones[0]
    for row, zone in enumerate(zones):
        if (zone is None) != (first is None):
            raise ValueError(
                f"stamps must all have a zone or none, got {first} in row 0 and {zone} in row {row}"
            )
        if zone is first or converted or zone == first:
            continue
        if name_of(zone) != name_of(first):
            raise ValueError(
                f"stamps must be in one zone unless tz says which to show them in, got "
                f"{name_of(first)} in row 0 and {name_of(zone)} in row {row}"
            )
    return None if first is None else "UTC" if converted else first
