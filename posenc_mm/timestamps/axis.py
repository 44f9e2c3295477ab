"""Moments in time, exact, on two clocks: the physical one and the one on the wall."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.bulk import Bulk
from posenc_mm.timestamps.civil import Wall, check_names, on_the_wall
from posenc_mm.timestamps.extending import next_ticks
from posenc_mm.timestamps.frequency import Frequency, frequency_of
from posenc_mm.timestamps.inference import Gap, in_order, infer, missing_between
from posenc_mm.timestamps.iso import render
from posenc_mm.timestamps.localising import localise
from posenc_mm.timestamps.reading import read
from posenc_mm.timestamps.units import check_moments, in_units, since
from posenc_mm.timestamps.zones import UTC, Zone, zone_of


class TimeAxis:
    r"""Moments of a series, kept as whole ticks since 1970-01-01T00:00 UTC.

    There are two clocks. The *physical* one is never set: differences of :meth:`seconds` and
    :meth:`positions` are durations. The *civil* one is on the wall of a zone: :meth:`fields` and
    :meth:`phases` are what people go by, summer time included. Both depend on the moment and the
    zone alone, not on other rows nor on the zone of the machine, and are reduced in integers.

    Args:
        stamps: ``(N,)`` moments: an index or series of pandas, an array of numpy (``datetime64`` of
            any unit), Python's datetimes or dates, ISO 8601 text; or numbers since
            1970-01-01T00:00 UTC, of numpy, torch or Python, where floats are rounded to whole
            microseconds.
        tz: the zone whose clocks are on the wall: an IANA name, an offset such as ``"+05:30"``, a
            ``tzinfo`` or a :class:`Zone`. Stamps with a zone of their own, and numbers, are
            moments, shown in this zone; stamps without one are what its clocks showed. Left out,
            stamps keep their zone (numbers have UTC), and stamps without one have a single clock,
            which nobody sets.
        unit: what numbers count, one of s, ms, us, ns; other stamps are kept in it, or else in
            their own (microseconds, if text or Python's).
        freq: the frequency, as :func:`frequency_of` reads it, where it is known; else that of a
            pandas index, else :attr:`frequency` is inferred.
        ambiguous: what stamps without a zone mean in the hour that comes twice, as clocks are set
            back: ``"refuse"``, ``"earlier"``, ``"later"``, or ``"infer"`` from the rows around.

    Raises:
        ValueError: stamps of no known kind, missing ones, ones of several zones or of none that the
            clocks ever showed, ambiguous ones, ones outside the years 1 to 9999 or 64 bits, each
            with its row; numbers without a unit.

    Example:
        >>> axis = TimeAxis(["2024-04-07T01:00", "2024-04-08T01:00"], tz="Australia/Melbourne")
        >>> axis.positions("h", origin=axis[0]).tolist(), axis.fields("hour", "day").tolist()
        ([[0], [25]], [[1, 6], [1, 7]])
    """

    __slots__ = ("_ticks", "_unit", "_zone", "_stated")

    def __init__(
        self,
        stamps: Any,
        tz: str | tzinfo | Zone | None = None,
        unit: str | None = None,
        *,
        freq: Any = None,
        ambiguous: str = "refuse",
    ) -> None:
        reading = read(stamps, unit, converted=tz is not None)
        asked = tz if tz is not None else reading.zone
        self._zone = None if asked is None else zone_of(asked)
        self._ticks, self._unit = reading.ticks, reading.unit
        if self._zone is not None and reading.zone is None:
            self._ticks = localise(reading.ticks, reading.unit, self._zone, ambiguous)
        self._stated = reading.frequency if freq is None else frequency_of(freq)

    @property
    def ticks(self) -> Tensor:
        """``(N,)`` since 1970-01-01T00:00 UTC (without a zone, on their own clock); read only."""
        return self._ticks

    @property
    def unit(self) -> str:
        """What a tick is: s, ms, us or ns."""
        return self._unit

    @property
    def zone(self) -> str | None:
        """The name of the zone whose clocks are on the wall."""
        return None if self._zone is None else self._zone.name

    def __len__(self) -> int:
        return len(self._ticks)

    def __getitem__(self, rows: int | slice | Sequence[int] | Tensor) -> "TimeAxis":
        """Take rows; one row is an axis of length 1."""
        taken = self._ticks[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
        whole = isinstance(rows, slice) and rows.step in (None, 1)
        return self._with(taken.reshape(-1), self._stated if whole else None, self._zone)

    def __repr__(self) -> str:
        ends = self[[0, -1]].isoformat() if len(self) else []
        span = f", {ends[0]} to {ends[1]}" if ends else ""
        return f"TimeAxis({len(self)} moments{span}, unit={self.unit!r}, zone={self.zone!r})"

    def in_zone(self, tz: str | tzinfo | Zone) -> "TimeAxis":
        """The same moments on the clocks of another zone."""
        if self._zone is None:
            raise ValueError(f"stamps have no zone to convert from: TimeAxis(stamps, tz={tz!r})")
        return self._with(self._ticks, self._stated, zone_of(tz))

    def isoformat(self) -> list[str]:
        """ISO 8601 text on the clocks of the zone, with their offset from UTC."""
        wall = self._wall(self._ticks)
        civil = wall.days * 86_400 + wall.ticks // wall.per_second
        rest = wall.ticks % wall.per_second
        offsets = (civil - self._ticks // wall.per_second).tolist() if self._zone else None
        return render(civil.tolist(), rest.tolist(), offsets, self._unit)

    def numpy(self) -> Any:
        """An array of ``datetime64``, in UTC (on their own clock without a zone)."""
        return self._ticks.numpy().astype(f"datetime64[{self._unit}]")

    def seconds(self, origin: Any = None) -> Tensor:
        """Seconds on the physical clock: :meth:`positions` as ``(N,)``."""
        return self.positions("s", origin)[:, 0]

    def positions(self, unit: str = "s", origin: Any = None) -> Tensor:
        """Tell where stamps are on the physical clock.

        The origin is subtracted in whole ticks, before anything is divided.

        Args:
            unit: of the positions: ns, us, ms, s, min, h, D (24 hours), W, or a multiple of one,
                such as ``"15min"``.
            origin: the moment at 0: an axis of one row, or what makes one, on the clocks of this
                zone where it names none. Left out, 1970-01-01T00:00 UTC.

        Returns:
            ``(N, 1)``: in int64 if all are whole in the unit, else in float64.

        Raises:
            ValueError: an unknown unit, an origin that is not one moment, or positions beyond 64
                bits.
        """
        if origin is None:
            return in_units(self._ticks, self._unit, unit).unsqueeze(-1)
        if not isinstance(origin, TimeAxis):
            origin = TimeAxis([origin], tz=self._zone)
        if len(origin) != 1 or (origin.zone is None) != (self.zone is None):
            raise ValueError(f"origin must be one moment with a zone as stamps have, got {origin}")
        ticks, tick = since(self._ticks, self._unit, int(origin.ticks), origin.unit)
        return in_units(ticks, tick, unit).unsqueeze(-1)

    def field(self, name: str) -> Tensor:
        """Read one field of the calendar as ``(N,)``: see :meth:`fields`."""
        return self.fields(name)[:, 0]

    def fields(self, *names: str) -> Tensor:
        """Read fields of the calendar: see :func:`posenc_mm.timestamps.civil.fields`.

        Args:
            names: keys of ``FIELD_SIZES``, or ``"year"``.

        Returns:
            ``(N, A)`` in int64, counted from 0 but for the year.
        """
        check_names("field", names)
        return Bulk(self._ticks, self._unit, self._zone or UTC).fields(names)

    def phase(self, period: str | float) -> Tensor:
        """Tell the phase of one period as ``(N,)``: see :meth:`phases`."""
        return self.phases(period)[:, 0]

    def phases(self, *periods: str | float) -> Tensor:
        """Tell how much of each period has passed: see :func:`posenc_mm.timestamps.civil.phases`.

        Args:
            periods: names in ``PERIODS``, on the clock on the wall; or physical durations.

        Returns:
            ``(N, A)`` in float64, from 0 to just below 1.
        """
        check_names("period", periods)
        return Bulk(self._ticks, self._unit, self._zone or UTC).phases(periods)

    @property
    def frequency(self) -> Frequency:
        """The frequency that was stated, or else inferred from what most steps are."""
        if self._stated is not None:
            return self._stated
        ticks, _ = in_order(self._ticks)
        return infer(ticks, self._wall(ticks))

    def gaps(self) -> list[Gap]:
        """Find where stamps of the :attr:`frequency` are missing."""
        ticks, rows = in_order(self._ticks)
        if len(ticks) < 2:
            return []
        missing = missing_between(ticks, self._wall(ticks), self.frequency)
        (before,) = (missing > 0).nonzero(as_tuple=True)
        starts, ends = self[rows[before]].isoformat(), self[rows[before + 1]].isoformat()
        counts = missing[before].tolist()
        return [Gap(*gap) for gap in zip(rows[before].tolist(), starts, ends, counts, strict=True)]

    def duplicates(self) -> list[int]:
        """List the rows whose moment an earlier row has."""
        ticks, rows = self._ticks.sort(stable=True)
        again: list[int] = rows[1:][ticks[1:] == ticks[:-1]].sort().values.tolist()
        return again

    def extend(self, steps: int, step: str = "calendar") -> "TimeAxis":
        """Make the stamps that come next.

        Args:
            steps: how many.
            step: ``"calendar"`` keeps the time on the wall: the next day is a day later there, 23
                to 25 hours from now, and the month after 31 January ends in February. Steps below a
                day are physical anyway. ``"fixed"`` takes a day for 24 hours.

        Returns:
            The stamps after the last one.

        Raises:
            ValueError: nothing to extend; a frequency that was inferred from less than half of the
                steps; or a fixed step of business days, months or longer.
        """
        check_whole(0, steps=steps)
        if step not in ("calendar", "fixed") or not len(self):
            raise ValueError(
                f"step must be 'calendar' or 'fixed', and stamps at least one, got step={step!r} "
                f"and {len(self)} stamps"
            )
        frequency = self.frequency
        last = self._ticks.max().reshape(1)
        following = next_ticks(
            last, self._wall(last), steps, frequency, self._zone or UTC, step == "calendar"
        )
        check_moments(following, self._unit)
        return self._with(following, frequency, self._zone)

    def _wall(self, ticks: Tensor) -> Wall:
        return on_the_wall(ticks, self._unit, self._zone or UTC)

    def _with(self, ticks: Tensor, stated: Frequency | None, zone: Zone | None) -> "TimeAxis":
        axis = object.__new__(TimeAxis)
        axis._ticks, axis._unit, axis._zone, axis._stated = ticks, self._unit, zone, stated
        return axis
