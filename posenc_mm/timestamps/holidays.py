"""Public holidays: their dates by region, and days of dates."""

from collections.abc import Sequence
from datetime import date

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.civil import check_names


def holiday_dates(region: str, first_year: int, last_year: int) -> tuple[tuple[str, str], ...]:
    """List the public holidays of a region.

    They come from the package ``holidays``, which is not installed with this one; its releases may
    differ in what they know.

    Args:
        region: an ISO 3166 code of a country, with that of a part of it or without: ``"DE"``,
            ``"AU-VIC"``, ``"US-CA"``.
        first_year: the first year to list.
        last_year: the last one, included.

    Returns:
        ISO dates and names, sorted; a day of several holidays comes once.

    Raises:
        ValueError: an unknown region, or years that the package does not cover.
        ImportError: the package is not installed.

    Example:
        >>> holiday_dates("AU-VIC", 2012, 2012)[2:4]
        (('2012-01-26', 'Australia Day'), ('2012-03-12', 'Labor Day'))
    """
    check_whole(first_year=first_year)
    check_whole(first_year, last_year=last_year)
    try:
        import holidays
    except ImportError as error:
        raise ImportError(
            "public holidays by region need the package holidays: pip install holidays, or give "
            "their dates"
        ) from error
    country, _, part = region.partition("-")
    try:
        # Without a language, names would follow the locale of the machine.
        known = holidays.country_holidays(
            country,
            subdiv=part or None,
            years=range(first_year, last_year + 1),
            language="en_US",
        )
    except NotImplementedError as error:
        raise ValueError(
            f"region must be a country such as 'DE', or a part of one such as 'AU-VIC', got "
            f"region={region!r} ({error})"
        ) from None
    if not known.start_year <= first_year <= last_year <= known.end_year:
        raise ValueError(
            f"the holidays of {region!r} are known from {known.start_year} to {known.end_year}, "
            f"got years {first_year} to {last_year}"
        )
    return tuple((day.isoformat(), name) for day, name in sorted(known.items()))


def days_of(dates: Sequence[str]) -> tuple[int, ...]:
    """Number dates by days since 1970-01-01.

    Args:
        dates: ISO 8601 dates, in any order.

    Returns:
        Each day once, rising.

    Raises:
        ValueError: there is none, or one is no date.

    Example:
        >>> days_of(["1970-01-03", "1970-01-01"])
        (0, 2)
    """
    check_names("date", dates)
    try:
        days = {date.fromisoformat(str(day)).toordinal() for day in dates}
    except ValueError as error:
        raise ValueError(f"dates must be ISO 8601, such as '2024-12-25': {error}") from None
    return tuple(day - date(1970, 1, 1).toordinal() for day in sorted(days))
