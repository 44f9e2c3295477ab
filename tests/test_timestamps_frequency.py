"""Frequencies: every spelling, found among gaps, continued by the calendar."""

import csv
import warnings
from datetime import datetime, timedelta

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc_mm.timestamps import Frequency, TimeAxis, features_of, frequency_of, zone_of

MELBOURNE = zone_of("Australia/Melbourne")
# Spelling, unit, multiple, and the spelling of pandas 2 where it was another.
SPELLINGS = [
    ("h", "hour", 1, "H"),
    ("3h", "hour", 3, "3H"),
    ("min", "minute", 1, "T"),
    ("15min", "minute", 15, "15T"),
    ("s", "second", 1, "S"),
    ("ms", "millisecond", 1, "L"),
    ("us", "microsecond", 1, "U"),
    ("ns", "nanosecond", 1, "N"),
    ("D", "day", 1, "d"),
    ("30D", "day", 30, None),
    ("B", "business_day", 1, None),
    ("W-SUN", "week", 1, "w"),
    ("2W-MON", "week", 2, None),
    ("MS", "month", 1, None),
    ("ME", "month", 1, "M"),
    ("BME", "month", 1, "BM"),
    ("SME", "semi_month", 1, "SM"),
    ("SMS", "semi_month", 1, None),
    ("QE-DEC", "quarter", 1, "Q"),
    ("QS-JAN", "quarter", 1, None),
    ("QS-FEB", "quarter", 1, None),
    ("BQE-DEC", "quarter", 1, "BQ"),
    ("YE-DEC", "year", 1, "A"),
    ("YE-JUN", "year", 1, "A-JUN"),
    ("YS-JAN", "year", 1, "AS"),
    ("BYE-DEC", "year", 1, "BA"),
]


@pytest.mark.parametrize(("new", "unit", "multiple", "old"), SPELLINGS)
def test_old_and_new_spellings_agree(new, unit, multiple, old):
    frequency = frequency_of(new)
    assert (frequency.unit, frequency.multiple, str(frequency)) == (unit, multiple, new)
    if old is not None:
        with pytest.warns(FutureWarning, match="spelled") as caught:
            assert frequency_of(old) == frequency
        assert len(caught) == 1


def test_months_and_milliseconds_are_never_swapped():
    assert frequency_of("MS") == Frequency("month", 1, "start")
    assert frequency_of("ms") == Frequency("millisecond")
    with pytest.raises(ValueError, match="'min' .*'ME'"):
        frequency_of("m")


def test_durations_and_offsets_of_pandas():
    assert frequency_of(timedelta(minutes=90)) == frequency_of("90min")
    assert frequency_of(timedelta(days=1)) == frequency_of("24h")
    assert frequency_of("SME-15") == frequency_of("SME")
    pd = pytest.importorskip("pandas")
    for new in ("h", "15min", "D", "B", "W-SUN", "ME", "MS", "QE-DEC", "YE-DEC", "s"):
        assert frequency_of(pd.tseries.frequencies.to_offset(new)) == frequency_of(new)
    index = pd.date_range("2024-01-01", periods=3, freq="QS")
    assert TimeAxis(index).frequency == frequency_of("QS")
    assert TimeAxis(index).frequency.evidence == "stated by the index"
    assert TimeAxis(index, freq="90D").frequency == frequency_of("90D")
    holidays = pd.tseries.offsets.CustomBusinessDay(holidays=["2024-01-03"])
    custom = TimeAxis(pd.date_range("2024-01-01", periods=30, freq=holidays))
    assert custom.frequency == frequency_of("B") and custom.frequency.confidence < 1


@pytest.mark.parametrize(
    "freq", ["", "x", "0h", "-1D", "1.5h", "W-JAN", "YE-MON", "h-MON", "C", 5, -timedelta(1)]
)
def test_other_spellings_are_refused(freq):
    with pytest.raises(ValueError, match="freq must"):
        frequency_of(freq)


def test_multiples_have_the_features_of_their_unit():
    clock = ("hour", "day_of_week", "day", "day_of_year")
    assert features_of("h") == features_of("3h") == clock
    assert features_of("min") == features_of("15min") == ("minute", *clock)
    assert features_of("s") == ("second", "minute", *clock)
    assert features_of("ms")[:2] == ("millisecond", "second")
    assert features_of("D") == features_of("B") == clock[1:]
    assert features_of("W") == features_of("W-SUN") == ("day", "week")
    assert features_of("ME") == features_of("MS") == features_of("QE") == ("month",)
    assert features_of("YE") == features_of(frequency_of("YE")) == ()
    quarters = TimeAxis(torch.arange(4) * 900, unit="s")
    assert quarters.fields(*features_of("15min"))[:, 0].tolist() == [0, 15, 30, 45]


STARTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0)
)


@pytest.mark.parametrize("new", [row[0] for row in SPELLINGS])
def test_what_is_extended_is_found_again(new):
    @given(STARTS)
    @settings(max_examples=40)
    def check(start):
        axis = TimeAxis([start], unit="ns", freq=new).extend(30)
        assert axis.frequency == frequency_of(new)
        found = TimeAxis(axis.numpy()).frequency
        assert str(found) == new and found.confidence == 1
        continued = TimeAxis(axis.numpy()[:20]).extend(10)
        assert torch.equal(continued.ticks, axis.ticks[20:])
        assert axis.gaps() == [] and axis.duplicates() == []

    pytest.importorskip("numpy")
    check()


@pytest.mark.parametrize("new", [row[0] for row in SPELLINGS if row[0] != "30D"])
def test_pandas_continues_alike(new):
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2023-11-05", periods=40, freq=new)
    axis = TimeAxis(index[:30].to_series())
    assert (axis.extend(10).numpy() == index[30:].to_numpy()).all()


@given(st.sets(st.integers(2, 97), max_size=60), st.sampled_from(["h", "D", "B", "ME", "W-TUE"]))
def test_gaps_and_duplicates_are_found(dropped, freq):
    whole = TimeAxis(["2024-01-01"], freq=freq).extend(100)
    kept = [row for row in range(100) if row not in dropped]
    axis = TimeAxis(whole[[*kept, kept[-1], kept[0]]].isoformat())
    assert axis.duplicates() == [len(kept), len(kept) + 1]
    gaps = TimeAxis(axis.isoformat(), freq=freq).gaps()
    assert sum(gap.missing for gap in gaps) == len(dropped)
    for gap in gaps:
        row = kept.index(whole.isoformat().index(gap.start))
        assert gap.row in (row, len(kept), len(kept) + 1)
        following = whole.isoformat().index(gap.end)
        assert following - kept[row] == gap.missing + 1
    if len(dropped) < 20:
        found = axis.frequency
        assert str(found) == freq and 0.5 < found.confidence <= 1
        assert (found.confidence == 1) == (not dropped)


def test_one_missing_hour_is_evidence_not_failure():
    hours = [hour for hour in range(100) if hour != 50]
    axis = TimeAxis(torch.tensor(hours) * 3600, unit="s")
    assert axis.frequency.evidence == "97 of 98 steps are h, 1 longer by whole steps"
    (gap,) = axis.gaps()
    assert gap == (49, "1970-01-03T01:00:00+00:00", "1970-01-03T03:00:00+00:00", 1)


def test_days_over_a_change_of_clocks_are_days():
    days = TimeAxis([f"2024-04-{day:02d}T09:00" for day in range(1, 15)], tz=MELBOURNE)
    assert 25 in days.positions("h").diff(dim=0)
    assert days.frequency == frequency_of("D") and days.frequency.confidence == 1
    assert days.gaps() == []
    # 24 hours are not a day there.
    physical = TimeAxis(days[0].ticks + 86_400 * 10**6 * torch.arange(14), MELBOURNE, "us")
    assert physical.frequency == frequency_of("24h")


def test_a_step_of_the_calendar_keeps_the_hour_and_a_fixed_one_the_distance():
    eve = TimeAxis(["2024-04-06T09:00"], tz=MELBOURNE, freq="D")
    assert eve.extend(1).isoformat() == ["2024-04-07T09:00:00+10:00"]
    assert eve.extend(1, step="fixed").isoformat() == ["2024-04-07T08:00:00+10:00"]
    # At 2:30 of one day clocks jump, and of the other they show it twice.
    spring = TimeAxis(["2024-10-05T02:30"], tz=MELBOURNE, freq="D").extend(2)
    assert spring.isoformat() == ["2024-10-06T03:30:00+11:00", "2024-10-07T02:30:00+11:00"]
    autumn = TimeAxis(["2024-04-06T02:30"], tz=MELBOURNE, freq="D").extend(1)
    assert autumn.isoformat() == ["2024-04-07T02:30:00+11:00"]
    hours = TimeAxis(["2024-04-07T00:30"], tz=MELBOURNE, freq="h").extend(4)
    assert hours.field("hour").tolist() == [1, 2, 2, 3]


def test_months_end_where_they_end():
    ends = TimeAxis(["2023-12-31", "2024-01-31"], freq="ME").extend(3)
    assert [text[:10] for text in ends.isoformat()] == ["2024-02-29", "2024-03-31", "2024-04-30"]
    found = TimeAxis(["2023-12-31", "2024-01-31", "2024-02-29"]).frequency
    assert found == frequency_of("ME")
    middle = TimeAxis(["2023-01-30", "2023-02-28", "2023-03-30", "2023-04-30"])
    assert str(middle.frequency) == "month on day 30"
    assert middle.extend(2).isoformat() == ["2023-05-30T00:00:00", "2023-06-30T00:00:00"]
    friday = TimeAxis(["2024-01-05"], freq="B").extend(2)
    assert [text[:10] for text in friday.isoformat()] == ["2024-01-08", "2024-01-09"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: TimeAxis(["2024-01-01"]).frequency, "two or more .* got 1"),
        (lambda: TimeAxis([], freq="h").extend(1), "0 stamps"),
        (lambda: TimeAxis(["2024-01-31"], freq="ME").extend(1, step="fixed"), "no fixed length"),
        (lambda: TimeAxis(["2024-01-31"], freq="B").extend(1, step="fixed"), "no fixed length"),
        (lambda: TimeAxis(["2024-01-31"], freq="D").extend(1, step="both"), "'both'"),
        (lambda: TimeAxis(["2024-01-31"], freq="D").extend(-1), "steps"),
        (lambda: TimeAxis([5], unit="s", freq="ms").extend(1), "whole ticks"),
        (lambda: TimeAxis([0, 5, 19, 22, 60], unit="s").extend(1), "unclear .*1 of 4 steps"),
        (lambda: TimeAxis(["9999-12-31"], freq="D").extend(1), "9999"),
    ],
)
def test_what_cannot_be_continued(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_real_stamps_of_a_city_with_summer_time(data_dir):
    """The data set states the local date of each half hour."""
    with open(data_dir / "vic_elec.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    axis = TimeAxis([row["Time"] for row in rows], tz="Australia/Melbourne")
    assert [text[:10] for text in axis.isoformat()] == [row["Date"] for row in rows]
    assert str(axis.frequency) == "30min" and axis.frequency.confidence == 1
    assert axis.gaps() == [] and axis.duplicates() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert axis.extend(48).isoformat()[-1] == "2015-01-01T23:30:00+11:00"
