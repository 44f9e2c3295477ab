"""ISO 8601 text to ticks and back, exact to the nanosecond."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from posenc_mm.timestamps.units import TICKS_PER_SECOND

EPOCH = datetime(1970, 1, 1)

_ISO = re.compile(
    r"(\d{4})-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|[+-]\d\d(?::?\d\d)?)?)?)?"
)


def parse(texts: Sequence[str]) -> tuple[list[int], str, list[str | None]]:
    """Read ISO 8601 stamps.

    Args:
        texts: such as ``"2024-01-31"``, ``"2024-01-31T23:30"`` or ``"2024-01-31
            23:30:00.123456789+01:00"``.

    Returns:
        Ticks since 1970-01-01T00:00: in UTC where a stamp has an offset, else on its own clock;
        their unit, microseconds unless a stamp has more digits; and each stamp's offset.

    Raises:
        ValueError: one is no such stamp; its row is named.

    Example:
        >>> parse(["1970-01-01T01:00:00.5+01:00"])
        ([500000], 'us', ['+01:00'])
    """
    nanoseconds, zones, finest = [], [], 0
    for row, text in enumerate(texts):
        match = _ISO.fullmatch(text.strip())
        try:
            if match is None:
                raise ValueError("not ISO 8601")
            least = (1, 1, 1, 0, 0, 0)
            year, month, day, hour, minute, second = (
                int(part or value) for part, value in zip(match.groups()[:6], least, strict=True)
            )
            moment = datetime(year, month, day, hour, minute, second)
            shift, zone = _offset(match[8])
        except ValueError as error:
            raise ValueError(
                f"stamps must be ISO 8601, such as '2024-01-31T23:30', got {text!r} in row {row} "
                f"({error})"
            ) from None
        digits = match[7] or ""
        finest = max(finest, len(digits.rstrip("0")))
        seconds = (moment - EPOCH) // timedelta(seconds=1) - shift
        nanoseconds.append(seconds * 10**9 + int(digits.ljust(9, "0")))
        zones.append(zone)
    if finest > 6:
        return nanoseconds, "ns", zones
    return [tick // 1000 for tick in nanoseconds], "us", zones


def render(
    seconds: Sequence[int], rests: Sequence[int], offsets: Sequence[int] | None, unit: str
) -> list[str]:
    """Write ISO 8601 stamps, all with the same number of digits.

    Args:
        seconds: on the clock, since 1970-01-01T00:00.
        rests: ticks since the second began.
        offsets: seconds east of UTC, or nothing to write none.
        unit: of the ticks.

    Returns:
        One text per stamp.

    Example:
        >>> render([3600], [500], [3600], "ms")
        ['1970-01-01T01:00:00.500+01:00']
    """
    digits = len(str(TICKS_PER_SECOND[unit])) - 1 if any(rests) else 0
    texts = []
    for row, (second, rest) in enumerate(zip(seconds, rests, strict=True)):
        text = (EPOCH + timedelta(seconds=second)).isoformat()
        if digits:
            text += f".{rest:0{digits}d}"
        if offsets is not None:
            text += _written(offsets[row])
        texts.append(text)
    return texts


def _offset(text: str | None) -> tuple[int, str | None]:
    if text is None or text == "Z":
        return 0, "UTC" if text else None
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if hours > 23 or minutes > 59:
        raise ValueError("no such offset")
    seconds = (hours * 60 + minutes) * (-60 if text[0] == "-" else 60)
    return seconds, _written(seconds) if seconds else "UTC"


def _written(offset: int) -> str:
    size = abs(offset)
    text = f"{'-' if offset < 0 else '+'}{size // 3600:02d}:{size // 60 % 60:02d}"
    return f"{text}:{size % 60:02d}" if size % 60 else text
