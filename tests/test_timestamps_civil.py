"""Clocks and calendars in integers, against the standard library's own."""

import zoneinfo
from datetime import datetime, timedelta, timezone
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_mm.timestamps import FIELD_SIZES, PERIODS, fields, phases, zone_of
from posenc_mm.timestamps.days import date, first_day
from posenc_mm.timestamps.units import TICKS_PER_SECOND
from posenc_mm.timestamps.zones import to_utc

NAMES = [
    *("Australia/Melbourne", "Europe/London", "America/New_York", "Asia/Kolkata", "UTC"),
    *("Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns", "Pacific/Apia"),
    *("Africa/Freetown", "America/Sao_Paulo", "+05:30", "-00:45"),
]
ZONES = {name: zone_of(name) for name in NAMES}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# 200 years either way.
FAR = 200 * 365 * 86_400


def tz_of(name):
    if name[0] not in "+-":
        return zoneinfo.ZoneInfo(name)
    sign = -1 if name[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(name[1:3]), minutes=int(name[4:])))


def local(name, microseconds):
    """The naive reading of a zone's clocks."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    return moment.astimezone(tz_of(name)).replace(tzinfo=None)


def phase_by_hand(clock, period):
    """The fraction of a period, exactly, from a naive reading."""
    midnight = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    quarter = clock.month - (clock.month - 1) % 3
    starts = {
        "second": clock.replace(microsecond=0),
        "minute": clock.replace(second=0, microsecond=0),
        "hour": clock.replace(minute=0, second=0, microsecond=0),
        "day": midnight,
        "week": midnight - timedelta(days=clock.weekday()),
        "month": midnight.replace(day=1),
        "quarter": midnight.replace(month=quarter, day=1),
        "year": midnight.replace(month=1, day=1),
    }
    start = starts[period]
    lasting = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
    if period in lasting:
        length = timedelta(seconds=lasting[period])
    else:
        months = {"month": 1, "quarter": 3, "year": 12}[period] + start.month - 1
        length = start.replace(year=start.year + months // 12, month=months % 12 + 1) - start
    tick = timedelta(microseconds=1)
    return Fraction((clock - start) // tick, length // tick), length.total_seconds()


def fields_by_hand(clock):
    return {
        "nanosecond": 0,
        "microsecond": clock.microsecond % 1000,
        "millisecond": clock.microsecond // 1000,
        "second": clock.second,
        "minute": clock.minute,
        "hour": clock.hour,
        "time_of_day": clock.hour * 3600 + clock.minute * 60 + clock.second,
        "day_of_week": clock.weekday(),
        "weekend": int(clock.weekday() > 4),
        "day": clock.day - 1,
        "day_of_year": clock.timetuple().tm_yday - 1,
        "week": clock.isocalendar()[1] - 1,
        "sunday_week": int(clock.strftime("%U")),
        "month": clock.month - 1,
        "quarter": (clock.month - 1) // 3,
        "year": clock.year,
    }


def moments(name):
    """Microseconds over 400 years, half of them beside a change of the clocks."""
    anywhere = st.integers(-FAR * 10**6, FAR * 10**6)
    changes = [t for t in ZONES[name].instants if abs(t) < FAR]
    if not changes:
        return anywhere
    beside = st.builds(
        lambda change, apart: change * 10**6 + apart,
        st.sampled_from(changes),
        st.sampled_from([-3600 * 10**6, -1, 0, 1, 1800 * 10**6]) | st.integers(-(10**11), 10**11),
    )
    return anywhere | beside


@pytest.mark.parametrize("name", NAMES)
def test_clocks_show_what_the_standard_library_says(name):
    @given(st.lists(moments(name), min_size=1, max_size=30))
    @settings(max_examples=40)
    def check(ticks):
        names = [*FIELD_SIZES, "year"]
        got = fields(torch.tensor(ticks), names, unit="us", zone=ZONES[name]).tolist()
        turned = phases(torch.tensor(ticks), PERIODS, unit="us", zone=ZONES[name])
        assert turned.dtype == torch.float64
        for tick, row, turns in zip(ticks, got, turned.tolist(), strict=True):
            clock = local(name, tick)
            assert dict(zip(names, row, strict=True)) == fields_by_hand(clock)
            for period, turn in zip(PERIODS, turns, strict=True):
                exact, seconds = phase_by_hand(clock, period)
                assert abs(Fraction(turn) - exact) * Fraction(seconds) < Fraction(1, 10**7)
                assert 0 <= turn < 1

    check()


@pytest.mark.parametrize("year", [2101, 2499, 2500, 2501, 3000, 7777, 9998])
@pytest.mark.parametrize("name", ["Australia/Melbourne", "America/New_York", "Africa/Casablanca"])
def test_rules_of_summer_time_hold_beyond_the_table(name, year):
    start = int((datetime(year, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds())
    hours = torch.arange(start, start + 365 * 86_400, 3 * 3600)
    got = fields(hours, ["day", "hour"], zone=ZONES[name]).tolist()
    clocks = [local(name, hour * 10**6) for hour in hours.tolist()]
    assert got == [[clock.day - 1, clock.hour] for clock in clocks]


@pytest.mark.parametrize("name", NAMES)
def test_moments_come_back_from_what_clocks_show(name):
    zone = ZONES[name]

    @given(moments(name).map(lambda tick: tick // 10**6))
    @settings(max_examples=60)
    def check(second):
        clock = local(name, second * 10**6)
        reading = torch.tensor([int((clock - datetime(1970, 1, 1)).total_seconds())])
        first, last = (int(end) for end in to_utc(reading, zone))
        folds = [clock.replace(tzinfo=tz_of(name), fold=fold) - EPOCH for fold in (0, 1)]
        assert [first, last] == [int(fold.total_seconds()) for fold in folds]
        assert second in (first, last)

    check()


def test_an_hour_that_never_came_is_told_by_its_order():
    spring = int((datetime(2024, 10, 6, 2, 30) - datetime(1970, 1, 1)).total_seconds())
    first, last = to_utc(torch.tensor([spring]), ZONES["Australia/Melbourne"])
    assert first - last == 3600


@pytest.mark.parametrize("unit", TICKS_PER_SECOND)
def test_units_agree(unit):
    seconds = torch.tensor([-5_000_000_000, -1, 0, 951_782_400, 1_704_067_199, 5_000_000_000])
    ticks, zone = seconds * TICKS_PER_SECOND[unit], ZONES["America/New_York"]
    names = [*FIELD_SIZES, "year"]
    assert torch.equal(
        fields(ticks, names, unit=unit, zone=zone), fields(seconds, names, zone=zone)
    )
    wanted = phases(seconds, [*PERIODS, "10s", 29.53], zone=zone)
    got = phases(ticks, [*PERIODS, "10s", 29.53], unit=unit, zone=zone)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


def test_below_a_second():
    tick = torch.tensor([-1, 123_456_789])
    names = ["millisecond", "microsecond", "nanosecond", "second"]
    assert fields(tick, names, unit="ns").tolist() == [[999, 999, 999, 59], [123, 456, 789, 0]]
    assert fields(tick, names, unit="ms").tolist()[0] == [999, 0, 0, 59]
    assert float(phases(tick, ["second"], unit="ns")[1]) == pytest.approx(0.123456789, abs=1e-16)
    # A nanosecond before a year ends is still of that year.
    assert float(phases(tick, ["year"], unit="ns")[0]) < 1


@given(st.integers(-4_000_000, 4_000_000))
def test_dates_and_days_are_inverse(day):
    months, of_month = date(day)
    assert first_day(months) + of_month == day and of_month >= 0
    assert first_day(months + 1) > day
    if -719_162 <= day <= 2_932_896:
        wanted = (datetime(1970, 1, 1) + timedelta(days=day)).date()
        assert (months // 12, months % 12 + 1, of_month + 1) == wanted.timetuple()[:3]


def test_absolute_microseconds_keep_a_period_of_ten_seconds():
    """Float32 would have one value of these hundred."""
    ticks = 1_550_083_467_346_370 + 100_000 * torch.arange(200)
    exact = torch.tensor([t % 10**7 / 10**7 for t in ticks.tolist()], dtype=torch.float64)
    sine = (2 * torch.pi * phases(ticks, ["10s"], unit="us")[:, 0]).sin()
    wanted = torch.tensor([-0.995345, -0.999432, -0.999576, -0.995774]).double()
    torch.testing.assert_close(sine[:4], wanted, rtol=0, atol=1e-6)
    torch.testing.assert_close(sine, (2 * torch.pi * exact).sin(), rtol=0, atol=1e-12)
    assert torch.equal(sine[:100], sine[100:])
    as_seconds = phases(ticks.double() / 1e6, ["10s"])[:, 0]
    torch.testing.assert_close(as_seconds, exact, rtol=0, atol=1e-6)


def test_a_period_that_is_no_whole_number_of_ticks():
    period = 31_556_925.18747072  # the tropical year
    ticks = torch.tensor([-6_000_000_000, -1, 0, 1, 1_704_067_199, 6_000_000_000])
    exact = [float(Fraction(t) / Fraction(period) % 1) for t in ticks.tolist()]
    got = phases(ticks, [period])[:, 0].tolist()
    assert got == pytest.approx(exact, abs=1e-15)


def stamp(*parts):
    return int((datetime(*parts) - datetime(1970, 1, 1)).total_seconds())


def test_every_field_stays_within_its_size_and_new_year_is_its_minimum():
    days = [(2023, 12, 31), (2024, 12, 31), (2020, 12, 31), (2021, 1, 1), (2024, 1, 1)]
    ticks = torch.tensor([stamp(*day) for day in days])
    got = fields(ticks, ["day_of_year", "week", "month", "quarter", "day"]).tolist()
    assert got == [
        [364, 51, 11, 3, 30],
        [365, 0, 11, 3, 30],
        [365, 52, 11, 3, 30],
        [0, 52, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    everywhere = torch.arange(stamp(1999, 1, 1), stamp(2029, 1, 1), 7717)
    for name, size in FIELD_SIZES.items():
        column = fields(everywhere, [name])[:, 0]
        assert 0 <= column.min() and column.max() < size, name


@pytest.mark.parametrize(
    ("period", "count", "step"), [("week", 7, 86_400), ("day", 24, 3600), ("hour", 60, 60)]
)
def test_neighbours_on_a_cycle_are_equally_far_apart(period, count, step):
    turns = phases(stamp(2024, 5, 6) + step * torch.arange(count), [period])[:, 0]
    around = torch.polar(torch.ones_like(turns), 2 * torch.pi * turns)
    apart = (around - around.roll(1)).abs()
    wanted = torch.full_like(apart, 2 * torch.pi / count / 2).sin() * 2
    torch.testing.assert_close(apart, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("year", "days"), [(2023, 365), (2024, 366)])
def test_new_year_follows_new_years_eve_in_years_of_any_length(year, days):
    turns = phases(stamp(year, 1, 1) + 86_400 * torch.arange(days + 1), ["year"])[:, 0]
    assert turns[-1] == 0 and len(turns.unique()) == days
    torch.testing.assert_close(turns[:-1].diff(), torch.full((days - 1,), 1 / days).double())
    assert turns[-2] == pytest.approx(1 - 1 / days)


def test_noon_is_half_a_day_also_where_clocks_were_changed():
    for day in [(2024, 4, 7), (2024, 10, 6), (2024, 7, 1)]:
        noon = datetime(*day, 12, tzinfo=tz_of("Australia/Melbourne"))
        tick = torch.tensor([int(noon.timestamp())])
        assert phases(tick, ["day"], zone=ZONES["Australia/Melbourne"]).item() == 0.5
