"""Where a token is in time: exact moments on two clocks, frequencies, gaps.

:class:`TimeAxis` takes the stamps of a series, whatever they come as. Its ``positions`` are
physical time and its ``fields`` and ``phases`` what a clock and a calendar on the wall of a zone
show: ``(N, A)`` like all positions. :func:`fields` and :func:`phases` are the same for ticks on any
device, within a module, compiled or exported; :func:`zone_of` makes the table that they look
offsets up in.
"""

from posenc_mm.timestamps.axis import TimeAxis
from posenc_mm.timestamps.civil import FIELD_SIZES, PERIODS, fields, phases
from posenc_mm.timestamps.frequency import Frequency, features_of, frequency_of
from posenc_mm.timestamps.holidays import holiday_dates
from posenc_mm.timestamps.horizon import PastAndFuture, past_and_future
from posenc_mm.timestamps.inference import Gap
from posenc_mm.timestamps.seasons import Season, find_seasons
from posenc_mm.timestamps.units import duration
from posenc_mm.timestamps.zones import UTC, Zone, zone_of

__all__ = [
    "FIELD_SIZES",
    "PERIODS",
    "UTC",
    "Frequency",
    "Gap",
    "PastAndFuture",
    "Season",
    "TimeAxis",
    "Zone",
    "duration",
    "features_of",
    "fields",
    "find_seasons",
    "frequency_of",
    "holiday_dates",
    "past_and_future",
    "phases",
    "zone_of",
]
