"""Which periods a series has: found where they are, and nowhere else."""

import math
import time

import pytest
import torch

from posenc_mm.additive.seasonal import Seasonal
from posenc_mm.timestamps import TimeAxis
from posenc_mm.timestamps.seasons import find_seasons

pd = pytest.importorskip("pandas")
HOUR, DAY, YEAR = 3600.0, 86_400.0, 365.2425 * 86_400.0
# Sunday, 1 January 2012, 00:00 UTC
START = 1_325_376_000


def axis(rows, step=HOUR, zone=None):
    return TimeAxis(torch.arange(rows) * round(step) + START, unit="s", tz=zone)


def wave(stamps, period, shift=0.0):
    return torch.sin(2 * math.pi * ((stamps.ticks - START).double() / period + shift))


def noise(rows, *columns):
    return torch.randn(rows, *columns, dtype=torch.float64)


def found(values, stamps, **options):
    return {season.period: season for season in find_seasons(values, stamps, **options)}


def harmonics(values, stamps, **options):
    return {name: season.harmonics for name, season in found(values, stamps, **options).items()}


CALENDAR = [("minute", 5, 2000), ("hour", 300, 2000), ("day", 3600, 2000), ("week", 21_600, 1000)]
CALENDAR += [("month", DAY, 800), ("quarter", DAY, 700), ("year", DAY, 1100)]


@pytest.mark.parametrize(("period", "step", "rows"), CALENDAR)
def test_periods_of_the_calendar_are_found_by_name(period, step, rows):
    stamps = axis(rows, step)
    values = torch.sin(2 * math.pi * stamps.phase(period)) + 0.5 * noise(rows)
    (season,) = find_seasons(values, stamps)
    assert (season.period, season.harmonics) == (period, 1)
    assert 0.6 < season.strength < 0.8 and season.confidence > 0.9
    cycles = rows * step / season.seconds
    assert season.evidence.startswith(f"{cycles:,.1f} cycles, clearest in column 0, false alarm ")


YEARS = axis(1461, DAY)
ROWS = torch.arange(1461).double()
DAMAGE = {
    "noise": lambda values: values + noise(1461),
    "trend": lambda values: values + noise(1461) + 0.05 * ROWS,
    "outliers": lambda values: values + noise(1461) + 20 * noise(1461) * (torch.rand(1461) < 0.05),
    "one-sided outliers": lambda values: values + noise(1461) + 30 * (torch.rand(1461) < 0.02),
    "missing": lambda values: (values + noise(1461)).where(torch.rand(1461) > 0.3, math.nan),
    "growing noise": lambda values: values + noise(1461) * (0.2 + ROWS / 800),
    "heavy tails": lambda values: values + 0.5 * noise(1461) / noise(1461).abs().clamp(min=0.1),
    "red noise": lambda values: values + 0.04 * noise(1461).cumsum(0),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_week_a_year_and_a_moon_at_once(damage):
    values = 1.5 * wave(YEARS, 7 * DAY) + 0.7 * wave(YEARS, 3.5 * DAY, 0.2)
    values = DAMAGE[damage](values + 3 * wave(YEARS, YEAR, 0.3) + wave(YEARS, 29.53 * DAY))
    seasons = find_seasons(values, YEARS)
    assert {season.period for season in seasons} >= {"week", "year"} and len(seasons) == 3
    (moon,) = [season for season in seasons if not isinstance(season.period, str)]
    assert moon.period == moon.seconds == pytest.approx(29.53 * DAY, rel=0.003)
    assert moon.harmonics == 1
    assert seasons == sorted(seasons, key=lambda season: -season.strength)


@pytest.mark.parametrize(("days", "name"), [(200, "month"), (3650, None)])
def test_the_calendar_is_preferred_within_what_the_span_resolves(days, name):
    stamps = axis(days, DAY)
    (period,) = found(2 * wave(stamps, 29.9 * DAY) + 0.5 * noise(days), stamps)
    assert period == (name or pytest.approx(29.9 * DAY, rel=1e-3))


def test_harmonics_are_folded_into_their_period():
    stamps = axis(24 * 200)
    hour = stamps.field("hour")
    for shape, least, most in [
        ((hour < 8).double(), 7, 11),  # all that are below Nyquist's limit, 12
        (wave(stamps, DAY) + 0.3 * wave(stamps, DAY / 3), 3, 3),
        (wave(stamps, DAY / 2), 2, 2),
        ((hour == 3).double() * 4, 11, 11),
    ]:
        (season,) = find_seasons(2 * shape + 0.3 * noise(len(hour)), stamps)
        assert season.period == "day" and least <= season.harmonics <= most


def test_harmonics_of_other_periods_are_folded_too():
    stamps = axis(24 * 200)
    turns = (stamps.ticks - START).double() / (37.3 * HOUR)
    (saw,) = find_seasons(2 * (turns % 1) + 0.3 * noise(len(turns)), stamps)
    assert saw.seconds == pytest.approx(37.3 * HOUR, rel=1e-3) and 5 <= saw.harmonics <= 10
    # The second harmonic is three times as large as the first.
    values = wave(stamps, 32.4 * HOUR) + 0.3 * wave(stamps, 64.8 * HOUR)
    (star,) = find_seasons(values + 0.3 * noise(len(turns)), stamps)
    assert star.seconds == pytest.approx(64.8 * HOUR, rel=1e-3) and star.harmonics == 2


def test_a_day_within_a_week_keeps_its_name():
    stamps = axis(24 * 7 * 30)
    working = (stamps.field("day_of_week") < 5).double()
    values = 2 * working + wave(stamps, DAY) * (1 + working) + 0.5 * noise(len(working))
    assert harmonics(values, stamps) == {"week": 6, "day": 1}


@pytest.mark.parametrize("step", [900, 3600, 6 * 3600, 86_400])
def test_an_encoding_takes_what_was_found(step):
    stamps = axis(120 * 86_400 // step, step)
    values = 3.0 * (stamps.field("day_of_week") == 0) + wave(stamps, 40.7 * HOUR * step / 3600)
    seasons = found(values + 0.2 * noise(len(stamps)), stamps)
    encoding = Seasonal({name: one.harmonics for name, one in seasons.items()}, step=float(step))
    assert "week" in seasons and encoding(stamps.positions("s")).isfinite().all()


def test_two_cycles_are_needed():
    for days, names in [(700, set()), (731, {"year"}), (1100, {"year"})]:
        stamps = axis(days, DAY)
        assert set(found(2 * wave(stamps, YEAR, 0.1) + 0.5 * noise(days), stamps)) == names


def test_rows_may_be_missing_doubled_and_in_any_order():
    stamps = axis(24 * 100)
    values = wave(stamps, DAY) + 0.3 * wave(stamps, DAY / 2) + 0.5 * noise(len(stamps))
    gone = torch.rand(len(stamps)) < 0.3
    gone[[0, -1]] = False
    kept, absent = (~gone).nonzero()[:, 0], values.masked_fill(gone, math.nan)
    once = find_seasons(values[kept], stamps[kept])
    assert [season.period for season in once] == ["day"] and once[0].harmonics == 2
    order = torch.cat([kept, kept])[torch.randperm(2 * len(kept))]
    assert find_seasons(absent, stamps) == once
    assert find_seasons(values[order], stamps[order]) == once


def test_days_may_end_at_night_and_stamps_be_irregular():
    moments = torch.arange(70 * 48).double() * 1800 + 600 * torch.rand(70 * 48).double() + START
    stamps = TimeAxis(moments, unit="s")
    hour, weekday = stamps.field("hour"), stamps.field("day_of_week")
    values = (hour - 8.0) * (17 - hour) * (1 + 0.5 * (weekday < 5)) + 3 * noise(len(hour))
    day = ((hour >= 8) & (hour < 17)).nonzero()[:, 0]
    assert set(found(values[day], stamps[day])) == {"day", "week"}


def test_days_are_those_of_the_clock_on_the_wall():
    local = axis(24 * 1100, zone="Australia/Melbourne")
    values = 4.0 * (local.field("hour") == 8) + 0.3 * noise(len(local))
    there, abroad = found(values, local)["day"], found(values, local.in_zone("UTC"))["day"]
    assert there.strength > 1.2 * abroad.strength and there.harmonics > 1.2 * abroad.harmonics


FREQUENCIES = [("MS", 120), ("ME", 120), ("W-SUN", 200), ("QE", 40), ("SME", 200), ("B", 1000)]


@pytest.mark.parametrize(("freq", "rows"), FREQUENCIES)
def test_steps_of_the_calendar(freq, rows):
    stamps = TimeAxis(pd.date_range("2001-02-01", periods=rows, freq=freq))
    values = torch.sin(2 * math.pi * stamps.phase("year")) + 0.3 * noise(rows)
    (season,) = find_seasons(values, stamps)
    assert (season.period, season.harmonics) == ("year", 1)


def test_one_column_is_enough_and_the_others_may_be_anything():
    stamps = axis(1500)
    empty, flat = torch.full((1500,), math.nan), torch.full((1500,), 7.0)
    columns = [noise(1500), empty, wave(stamps, DAY) + noise(1500), flat, noise(1500).cumsum(0)]
    (season,) = find_seasons(torch.stack([column.double() for column in columns], 1), stamps)
    assert season.period == "day" and "in column 2" in season.evidence


def test_any_number_will_do():
    stamps = axis(1500)
    values = 100 * wave(stamps, DAY) + 10 * noise(1500)
    infinite = values.masked_fill(torch.rand(1500) < 0.2, math.inf)
    moved = (1e6 + values).requires_grad_()
    for same in (values.float(), values.long(), values * 1e-30, moved, infinite):
        assert harmonics(same, stamps) == {"day": 1}


def test_the_strongest_are_given_first_and_no_more_than_asked():
    stamps = axis(24 * 100)
    values = wave(stamps, DAY) + 2 * wave(stamps, 7 * DAY) + 0.5 * noise(len(stamps))
    assert list(found(values, stamps)) == ["week", "day"]
    assert len(find_seasons(values, stamps, most=1)) == 1


STILL = torch.linspace(-1, 1, 1461).double()
NOTHING = {
    "constant": torch.ones(1461),
    "line": 1e6 + 5 * STILL,
    "parabola": 10 * STILL**2,
    "cubic": 10 * STILL**3 - 3 * STILL,
    "exponential": torch.exp(3 * STILL),
    "saturation": 5 * torch.tanh(6 * STILL),
    "shift": 5.0 * (STILL > 0),
    "two shifts": 5.0 * (STILL.abs() < 0.3),
    "pulse": 100.0 * (torch.arange(1461) == 500),
    "one cycle": 3 * torch.sin(math.pi * STILL),
    "missing": torch.full((1461,), math.nan),
}


@pytest.mark.parametrize("rows", [731, 1461])
@pytest.mark.parametrize("shape", NOTHING)
def test_a_trend_is_no_season(shape, rows):
    values = NOTHING[shape][:: 1461 // rows][:rows].double()
    assert find_seasons(values, axis(rows, DAY)) == []
    assert find_seasons(values + 0.5 * noise(rows), axis(rows, DAY)) == []


HALVES = axis(40 * 48, 1800)
OPEN = (HALVES.field("day_of_week") < 5) & ((HALVES.field("time_of_day") - 45_000).abs() < 12_000)
SESSIONS = HALVES[OPEN.nonzero()[:, 0]]
ALARMS = {
    "white": lambda: (noise(500), axis(500)),
    "walk": lambda: (noise(500).cumsum(0), axis(500)),
    "white days": lambda: (noise(740), axis(740, DAY)),
    "walk of days": lambda: (noise(740).cumsum(0), axis(740, DAY)),
    "walk of months": lambda: (noise(120).cumsum(0), axis(120, YEAR / 12)),
    "walk in sessions": lambda: (noise(len(SESSIONS)).cumsum(0), SESSIONS),
    "walk seen in sessions": lambda: (noise(40 * 48).cumsum(0)[OPEN], SESSIONS),
}


@pytest.mark.parametrize("kind", ALARMS)
def test_noise_raises_an_alarm_in_one_percent_of_series(kind):
    # Four of 200 or fewer are 95 % probable.
    assert sum(bool(find_seasons(*ALARMS[kind]())) for _ in range(200)) <= 4


def test_a_third_of_the_noise_is_seen():
    stamps = axis(2000)
    seen = [found(0.3 * wave(stamps, DAY) + noise(2000), stamps) for _ in range(20)]
    other = [found(0.35 * wave(stamps, 31.7 * HOUR) + noise(2000), stamps) for _ in range(20)]
    assert sum(map(len, seen)) >= 19 and sum(map(len, other)) >= 19


def test_few_rows_have_no_season():
    for rows in (2, 3, 15):
        assert find_seasons(torch.arange(rows) % 4, axis(rows)) == []


def test_what_is_no_series_is_refused():
    for values in (torch.zeros(3), torch.zeros(20, 2, 2), torch.zeros(20, 0), torch.tensor(1.0)):
        with pytest.raises(ValueError, match=r"values must be \(T,\) or \(T, V\), T=20, got"):
            find_seasons(values, axis(20))
    with pytest.raises(ValueError, match="two or more"):
        find_seasons(torch.zeros(20), TimeAxis([5] * 20, unit="s"))
    with pytest.raises(ValueError, match="most must be a whole number"):
        find_seasons(torch.zeros(20), axis(20), most=0)


def test_years_of_hours_take_a_second_or_two():
    stamps = axis(50_000)
    values = wave(stamps, DAY) + wave(stamps, 7 * DAY) + wave(stamps, YEAR) + noise(50_000)
    start = time.process_time()
    seasons = found(values[:, None] + noise(50_000, 8), stamps)
    assert set(seasons) == {"day", "week", "year"} and time.process_time() - start < 6


REAL = {
    "vic_elec": ("Time", "Australia/Melbourne", {"day", "week", "year"}),
    "ETTh1": ("date", None, {"day"}),
    "ETTh2": ("date", None, {"day"}),
    "national_illness": ("date", None, {"year"}),
    "exchange_rate": ("date", None, set()),
    "epf_np": ("date", None, {"day", "week", "year"}),
}


@pytest.mark.parametrize("name", REAL)
def test_seasons_of_real_series(data_dir, name):
    column, zone, periods = REAL[name]
    table = pd.read_csv(data_dir / f"{name}.csv", parse_dates=[column])
    values = torch.tensor(table.drop(columns=column).select_dtypes("number").to_numpy(float))
    seasons = found(values, TimeAxis(table[column], tz=zone))
    assert set(seasons) == periods
    assert all(season.confidence > 0.95 for season in seasons.values())


def test_car_parks_have_days_and_mostly_weeks(data_dir):
    table = pd.read_csv(data_dir / "hourly_parking.csv", parse_dates=["LastUpdated"])
    parks = []
    for _, park in table.groupby("SystemCodeNumber"):
        parks.append(
            set(found(torch.tensor(park.Occupancy.to_numpy()), TimeAxis(park.LastUpdated)))
        )
    assert parks[0] == {"day", "week"}
    assert sum("day" in periods for periods in parks) >= 27
    assert sum("week" in periods for periods in parks) >= 20
