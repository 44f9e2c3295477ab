"""What is noticed about series, and that nothing is noticed where there is nothing."""

import numpy as np
import pytest
import torch

pytest.importorskip("lightning")
from posenc_mm.timestamps import TimeAxis
from timeseries.data import SeattleTemps, Series, inspect, read_table
from timeseries.data.clocks import skipping

SETS = {
    "ETTh1": {},
    "ETTh2": {},
    "national_illness": {},
    "epf_np": {},
    "vic_elec": {"tz": "Australia/Melbourne"},
    "hourly_parking": {"group": "SystemCodeNumber", "targets": "Occupancy"},
}


def make(axis, values=None):
    values = (
        torch.arange(len(axis), dtype=torch.float64) if values is None else torch.as_tensor(values)
    )
    values = values.reshape(len(axis), -1).double()
    names = tuple(f"y{n}" for n in range(values.shape[1]))
    return Series("a", axis, values, torch.zeros(len(axis), 0), names, ())


def axis_of(start, step, rows, **options):
    return TimeAxis(
        np.datetime64(start, "s") + np.timedelta64(step, "s") * np.arange(rows), **options
    )


def warnings(series):
    return [finding for finding in inspect(series) if finding.level == "warning"]


def daily(values, start="2000-01-03"):
    return make(axis_of(start, 86_400, len(values)), values)


def office(days, rng):
    """Loads of an office, quiet at weekends, whose first day is a Monday."""
    return np.where(np.arange(days) % 7 < 5, 10.0, 2.0) + rng.normal(0, 1, days)


def test_rows_and_frequency_are_told_with_evidence():
    first, step = inspect(make(axis_of("2024-01-01", 900, 100, tz="Asia/Tokyo")))
    assert first.level == step.level == "info" and first.rows == step.rows == ()
    assert "100 rows, 2024-01-01T00:00:00+09:00 to 2024-01-02T00:45:00+09:00" in first.what
    assert step.what == "a step is 15min: 99 of 99 steps are 15min (confidence 100%)"
    assert len(inspect(make(axis_of("2024-01-01", 900, 2)))) == 1


def test_gaps_are_counted_and_the_first_ones_shown():
    rows = [row for row in range(200) if row not in (5, 50, 51, 52, 120)]
    (gaps,) = warnings(make(axis_of("2024-01-01", 600, 200)[rows]))
    assert "5 rows missing in 3 gaps, at most 3 behind 2024-01-01T08:10:00" in gaps.what
    assert "1 from 2024-01-01T00:40:00 to 2024-01-01T01:00:00" in gaps.what
    assert gaps.rows == (4, 48, 115)


def test_one_missing_row_does_not_hide_the_frequency():
    found = inspect(make(axis_of("2024-01-01", 86_400, 60)[[*range(20), *range(21, 60)]]))
    assert (
        "a step is D: 57 of 58 steps are D, 1 longer by whole steps (confidence 98%)"
        in found[1].what
    )


def test_repeated_stamps_and_constant_columns_are_told():
    axis = axis_of("2024-01-01", 3600, 30)[[*range(30), 7, 7]]
    values = np.stack([np.arange(32.0), np.full(32, 4.5)], axis=1)
    again, flat = warnings(make(axis, values))
    assert "2 rows have the stamp of an earlier row: 2024-01-01T07:00:00" in again.what
    assert again.rows == (30, 31)
    assert flat.what == "column 'y1' is 4.5 in every row"


def test_irregular_stamps_are_told_from_gaps():
    seconds = torch.cumsum(torch.randint(1000, 3000, (300,)), 0)
    (found,) = warnings(make(TimeAxis(seconds, unit="s")))
    assert "stamps are irregular" in found.what and "the longest is" in found.what
    assert found.rows == (int(seconds.diff().argmax()),)


def naive_of(zone, start="2021-01-01", hours=3 * 8760, step=1800):
    """What a clock on the wall showed, written down without its zone."""
    moments = axis_of(start, step, hours * 3600 // step, tz="UTC").in_zone(zone)
    return TimeAxis([stamp[:19] for stamp in moments.isoformat()])


@pytest.mark.parametrize("zone", ["Australia/Melbourne", "Europe/Paris", "America/New_York"])
@pytest.mark.parametrize("step", [1800, 3600])
def test_the_clock_that_stamps_are_of_is_suggested(zone, step):
    found = warnings(make(naive_of(zone, step=step)))
    clock = found[-1]
    assert zone in clock.what and "3 of 3 that they showed twice are there twice" in clock.what
    assert len(clock.rows) == 3 and "read them with tz=" in clock.what


def test_no_clock_is_suggested_for_holes_elsewhere():
    axis = naive_of("Europe/Paris")
    assert skipping(axis.seconds().numpy()) is not None
    moved = axis.seconds() + 86_400  # the same holes, a day late
    assert skipping(moved.numpy()) is None
    assert skipping(axis_of("2021-01-01", 3600, 9000).seconds().numpy()) is None
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(8760, 8660, replace=False))
    assert skipping(axis_of("2021-01-01", 3600, 8760)[rows].seconds().numpy()) is None


def test_stamps_beside_the_hour_that_clocks_skip():
    pytest.importorskip("vega_datasets")
    data = SeattleTemps()
    series = data.load().series[0]
    assert len(series.axis) == 8759 and series.axis.zone == "-08:00"
    (gap,) = warnings(series)
    assert "1 row missing in 1 gap" in gap.what and gap.rows == (1730,)
    naive = series._replace(axis=TimeAxis([stamp[:19] for stamp in series.axis.isoformat()]))
    _, clock = warnings(naive)
    assert "America/Los_Angeles" in clock.what and "do not go by them" in clock.what
    assert clock.rows == (1730,)


def living(axis, zone, rng):
    """Values with a sharp daily pattern on the clocks of a zone."""
    hour = axis.in_zone(zone).phase("day").numpy() * 24
    rush = np.exp(-((hour - 8) ** 2)) + 0.7 * np.exp(-((hour - 18.5) ** 2) / 3)
    return rush + rng.normal(0, 0.2, len(hour))


@pytest.mark.parametrize("zone", ["Australia/Melbourne", "Europe/Berlin", "America/Chicago"])
def test_values_that_go_by_another_clock_than_stamps(zone):
    rng = np.random.default_rng(0)
    axis = axis_of("2021-01-01", 3600, 2 * 8760, tz="UTC")
    (found,) = warnings(make(axis, living(axis, zone, rng)))
    assert f"tz={zone!r}" in found.what or zone in found.what
    assert "daily pattern shifts by an hour" in found.what and len(found.rows) == 4
    assert not warnings(make(axis.in_zone(zone), living(axis, zone, rng)))
    assert not warnings(make(axis, living(axis, "Asia/Tokyo", rng)))
    assert not warnings(make(axis, rng.normal(size=len(axis))))


def test_dates_that_were_made_up_are_noticed_in_exchange_rates(data_dir):
    (found,) = warnings(read_table(data_dir / "exchange_rate.csv").series[0])
    assert "wanders through the week" in found.what and "stamps seem made up" in found.what
    assert "Saturday in 2003-12, Sunday in 2007-06, Monday in 2008-12" in found.what


def test_rates_that_rest_at_weekends_are_no_fake(data_dir):
    rates = read_table(data_dir / "exchange_rate.csv").series[0].values.numpy()[:2000]
    week = np.repeat(np.arange(2000), np.where(np.arange(2000) % 5 == 4, 3, 1))
    assert not warnings(daily(rates[week]))


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_made_up_where_stamps_are_real(data_dir, name):
    for series in read_table(data_dir / f"{name}.csv", **SETS[name]).series[:3]:
        found = [finding.what for finding in warnings(series)]
        assert not [what for what in found if "irregular" not in what], found


def test_demand_stamped_in_utc_goes_by_the_clocks_of_melbourne(data_dir):
    (found,) = warnings(read_table(data_dir / "vic_elec.csv").series[0])
    assert "tz='Australia/Melbourne'" in found.what and "2012-04-01, 2012-10-07" in found.what


def test_weeks_of_real_days_are_no_fake_and_lost_days_are():
    rng = np.random.default_rng(0)
    load = office(1500, rng)
    assert not warnings(daily(load))
    assert not warnings(daily(rng.normal(size=(1500, 2)).cumsum(0)))
    kept = np.delete(np.arange(1500), [400, 401, 900, 1200])
    assert "wanders" in warnings(daily(load[kept]))[0].what
    holes = daily(load)
    axis, values = holes.axis[kept], load[kept]
    assert ["missing" in finding.what for finding in warnings(make(axis, values))] == [True]


def test_working_days_stamped_as_days_are_noticed():
    rng = np.random.default_rng(0)
    sales = np.where(np.arange(1000) % 5 == 0, 3.0, 0.0) + rng.normal(size=1000)
    (found,) = warnings(daily(sales))
    assert "repeat every 5 rows and not every 7" in found.what
    weekdays = np.arange(np.datetime64("2000-01-03"), np.datetime64("2003-11-03"))
    weekdays = weekdays[np.is_busday(weekdays)]
    assert not warnings(make(TimeAxis(weekdays), sales[: len(weekdays)]))
