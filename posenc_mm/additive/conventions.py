"""Published encodings of time, composed of the ones here: equal to them, weights and all."""

from datetime import timedelta
from typing import Any

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.additive.calendar import Calendar, OnCalendar
from posenc_mm.additive.combining import Sum
from posenc_mm.additive.learned import Learned
from posenc_mm.additive.projecting import Projected
from posenc_mm.additive.sinusoidal import Sinusoidal
from posenc_mm.timestamps import Frequency, Zone, features_of, frequency_of

# Rows of the published tables. Months and days count from 1; minutes are quarters of an hour.
_ROWS = {"month": 13, "day": 32, "day_of_week": 7, "hour": 24, "minute": 4}


def gluonts(
    freq: "str | timedelta | Frequency | Any", *, zone: str | Zone = "UTC", unit: str = "s"
) -> Calendar:
    """The features of GluonTS: ramps of the fields that a frequency has, the finest first.

    Informer and the models that copy its table call them ``timeF``.

    References:
        Alexandrov et al.: GluonTS: Probabilistic Time Series Models in Python (2019),
        https://arxiv.org/abs/1906.05264

    Args:
        freq: as :func:`~posenc_mm.timestamps.frequency_of` reads it, such as ``"15min"``.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.

    Returns:
        A :class:`Calendar`.

    Raises:
        ValueError: no frequency, or years, which no field tells apart.

    Example:
        >>> gluonts("3h").fields
        ('hour', 'day_of_week', 'day', 'day_of_year')
    """
    names = features_of(freq)
    if not names:
        raise ValueError(f"freq must be finer than years, which no field tells apart, got {freq!r}")
    return Calendar(names, code="ramp", convention="gluonts", zone=zone, unit=unit)


def timesfm1(*, zone: str | Zone = "UTC", unit: str = "s") -> Calendar:
    """The seven features of TimesFM 1, in its order and with its own ends.

    References:
        Das et al.: A Decoder-Only Foundation Model for Time-Series Forecasting (2023),
        https://arxiv.org/abs/2310.10688

    Args:
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.

    Returns:
        A :class:`Calendar`.

    Example:
        >>> timesfm1().dim
        7
    """
    names = ("minute", "hour", "day", "day_of_week", "day_of_year", "month", "week")
    return Calendar(names, code="ramp", convention="timesfm1", zone=zone, unit=unit)


def informer(
    dim: int,
    freq: "str | timedelta | Frequency | Any",
    kind: str = "timeF",
    *,
    source: str = "informer",
    zone: str | Zone = "UTC",
    unit: str = "s",
) -> AdditiveEncoding:
    r"""The encoding of time stamps of Informer and its many copies.

    ``"timeF"`` is a linear map of :func:`gluonts` features. ``"learned"`` and ``"fixed"`` are sums
    of a row per month, day, weekday and hour (not where steps are days or longer, on which
    Informer failed), and per quarter of an hour where they are minutes: learned ones, or sinusoids
    of the index. These are not periodic: 23 and 0 o'clock are far apart.

    To load published weights, copy ``embed`` to the ``Projected`` map, and the tables in the order
    month, day, weekday, hour, minute to ``encoding.tables``.

    References:
        Zhou et al.: Informer: Beyond Efficient Transformer for Long Sequence Time-Series
        Forecasting (2021), https://arxiv.org/abs/2012.07436

    Args:
        dim: width :math:`D`.
        freq: as :func:`~posenc_mm.timestamps.frequency_of` reads it, such as ``"15min"``.
        kind: ``"timeF"``, ``"learned"`` or ``"fixed"``.
        source: ``"informer"``, or ``"tslib"`` for the Time-Series-Library, Autoformer and PatchTST:
            their map of ``"timeF"`` has no bias, and they have an hour at any frequency.
        zone: whose clocks, as :func:`~posenc_mm.timestamps.zone_of` reads it.
        unit: what the positions count, one of s, ms, us, ns.

    Returns:
        A :class:`Projected` or an :class:`OnCalendar`.

    Raises:
        ValueError: no frequency, an unknown kind or source, or years as ``"timeF"``.

    Example:
        >>> informer(8, "15min", "learned").fields
        ('month', 'day', 'day_of_week', 'hour', 'minute')
    """
    if source not in ("informer", "tslib"):
        raise ValueError(f"source must be 'informer' or 'tslib', got source={source!r}")
    if kind == "timeF":
        features = gluonts(freq, zone=zone, unit=unit)
        return Projected(dim, features, bias=source == "informer")
    if kind not in ("learned", "fixed"):
        raise ValueError(f"kind must be 'timeF', 'learned' or 'fixed', got kind={kind!r}")
    frequency, names = frequency_of(freq), ["month", "day", "day_of_week"]
    if source == "tslib" or not frequency.of_calendar:
        names.append("hour")
    if frequency.unit == "minute":
        names.append("minute")
    encoding: AdditiveEncoding
    if kind == "learned":
        # Drawn as an nn.Embedding is, but for the few beyond two deviations.
        encoding = Learned(dim, [_ROWS[name] for name in names], joint=False, std=1.0)
    else:
        axes = [[axis] for axis in range(len(names))]
        encoding = Sum([Sinusoidal(dim) for _ in names], axes=axes)
    return OnCalendar(encoding, names, zone=zone, unit=unit, convention="informer")
