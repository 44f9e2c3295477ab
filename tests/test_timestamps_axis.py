"""Moments of a series on two clocks, whatever they come as."""

import copy
import os
import pickle
import time
import zoneinfo
from datetime import date, datetime, timedelta, timezone

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc_mm.timestamps import PERIODS, TimeAxis, fields, phases, zone_of

np = pytest.importorskip("numpy")
MELBOURNE = zone_of("Australia/Melbourne")
# 1 January 2024, 10:30 UTC; in Melbourne 21:30.
SECOND = 1_704_105_000
UTC_TEXT, LOCAL_TEXT = "2024-01-01T10:30:00+00:00", "2024-01-01T21:30:00+11:00"
AWARE = datetime(2024, 1, 1, 21, 30, tzinfo=zoneinfo.ZoneInfo("Australia/Melbourne"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", [torch.tensor, np.array, list, tuple])
def test_numbers_are_moments_in_their_unit(kind, unit):
    ticks = SECOND * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    axis = TimeAxis(kind([ticks, ticks]), unit=unit)
    assert (axis.unit, axis.zone) == (unit, "UTC")
    assert axis.isoformat() == [UTC_TEXT] * 2
    shown = TimeAxis(kind([ticks, ticks]), tz=MELBOURNE, unit=unit)
    assert shown.isoformat() == [LOCAL_TEXT] * 2
    assert torch.equal(shown.ticks, axis.ticks)


def test_float_seconds_are_rounded_to_microseconds():
    axis = TimeAxis(np.array([SECOND + 0.1, -0.25]), unit="s")
    assert axis.ticks.tolist() == [SECOND * 10**6 + 100_000, -250_000]
    assert TimeAxis([0, 0.5, 1], unit="ms").ticks.tolist() == [0, 500, 1000]
    assert TimeAxis(np.array([3000], "M8[ps]")).ticks.tolist() == [3]
    with pytest.raises(ValueError, match="float32"):
        TimeAxis(torch.tensor([1.0]), unit="s")


@pytest.mark.parametrize("unit", ["M", "D", "h", "m", "15m", "s", "ms", "us", "10us", "ns"])
def test_numpy_of_any_unit(unit):
    array = np.array(["1999-12", "2024-01"], "M8[M]").astype(f"M8[{unit}]")
    axis = TimeAxis(array)
    assert axis.zone is None
    assert (axis.numpy() == array).all()
    assert axis.isoformat() == ["1999-12-01T00:00:00", "2024-01-01T00:00:00"]
    assert TimeAxis(list(array)).isoformat() == axis.isoformat()
    assert TimeAxis(array.astype(array.dtype.newbyteorder(">"))).isoformat() == axis.isoformat()


@pytest.mark.parametrize(
    ("stamps", "zone", "text"),
    [
        ([datetime(2024, 1, 1, 21, 30)], None, "2024-01-01T21:30:00"),
        ([date(2024, 1, 1)], None, "2024-01-01T00:00:00"),
        ([AWARE], "Australia/Melbourne", LOCAL_TEXT),
        ([AWARE.astimezone(timezone.utc)], "UTC", UTC_TEXT),
        ([AWARE.astimezone(timezone(timedelta(hours=-3)))], "-03:00", "2024-01-01T07:30:00-03:00"),
        (["2024-01-01T21:30"], None, "2024-01-01T21:30:00"),
        (["2024-01"], None, "2024-01-01T00:00:00"),
        (["2024-01-01 10:30:00Z"], "UTC", UTC_TEXT),
        (["2024-01-01T21:30:00.25+1100"], "+11:00", "2024-01-01T21:30:00.250000+11:00"),
        (["2024-01-01T00:00:00.123456789"], None, "2024-01-01T00:00:00.123456789"),
    ],
)
def test_datetimes_and_text(stamps, zone, text):
    axis = TimeAxis(stamps)
    assert (axis.zone, axis.isoformat()) == (zone, [text])


def test_a_unit_to_keep_stamps_in():
    for stamps in ([datetime(2024, 1, 1)], ["2024-01-01"], np.array(["2024"], "M8[D]")):
        assert TimeAxis(stamps, unit="ns").ticks.tolist() == [1_704_067_200 * 10**9]
    with pytest.raises(ValueError, match="whole s, got a fraction in row 1"):
        TimeAxis(["2024-01-01", "2024-01-01T00:00:00.5"], unit="s")
    with pytest.raises(ValueError, match="64 bits"):
        TimeAxis([datetime(1600, 1, 1)], unit="ns")


def test_a_zone_shows_moments_and_reads_clocks():
    from_clock = TimeAxis([datetime(2024, 1, 1, 21, 30)], tz="Australia/Melbourne")
    converted = TimeAxis([AWARE.astimezone(timezone.utc)], tz=MELBOURNE)
    texts = TimeAxis(["2024-01-01T10:30Z", "2024-01-01T12:30+02:00"], tz=MELBOURNE)
    assert from_clock.isoformat() == converted.isoformat() == [LOCAL_TEXT]
    assert texts.isoformat() == [LOCAL_TEXT] * 2
    assert from_clock.in_zone("UTC").isoformat() == [UTC_TEXT]
    assert from_clock.in_zone("UTC").field("hour").tolist() == [10]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_pandas_of_any_unit_and_version(unit):
    pd = pytest.importorskip("pandas")
    naive = pd.DatetimeIndex(["2024-01-01 21:30"]).as_unit(unit)
    aware = naive.tz_localize("Australia/Melbourne")
    for stamps in (aware, aware.to_series(), pd.Series(aware), list(aware)):
        axis = TimeAxis(stamps)
        assert (axis.zone, axis.isoformat()) == ("Australia/Melbourne", [LOCAL_TEXT])
    assert TimeAxis(aware).unit == unit
    for stamps in (naive, pd.Series(naive), list(naive), pd.Series(["2024-01-01 21:30"])):
        assert TimeAxis(stamps).isoformat() == ["2024-01-01T21:30:00"]
        assert TimeAxis(stamps, tz=MELBOURNE).isoformat() == [LOCAL_TEXT]
    with pytest.raises(ValueError, match="NaT in row 1"):
        TimeAxis(aware.append(pd.DatetimeIndex([pd.NaT], tz=aware.tz)))
    with pytest.raises(ValueError, match="PeriodIndex"):
        TimeAxis(naive.to_period("D"))
    mixed = pd.Series([aware[0], aware.tz_convert("UTC")[0]], dtype=object)
    with pytest.raises(ValueError, match="Australia/Melbourne in row 0 and UTC in row 1"):
        TimeAxis(mixed)
    assert TimeAxis(mixed, tz=MELBOURNE).isoformat() == [LOCAL_TEXT] * 2


@pytest.mark.parametrize(
    ("stamps", "options", "said"),
    [
        ([5, 6], {}, "unit must say .* unit=None"),
        ([5, 6], {"unit": "m"}, "unit must be one of .*'m'"),
        ([5, 1_704_105_000_000], {"unit": "s"}, "1704105000000 s in row 1: is unit='ms' meant"),
        ([5.0, float("nan")], {"unit": "s"}, "nan in row 1"),
        ([5, 2**63], {"unit": "ns"}, "64 bits, got 9223372036854775808 in row 1"),
        ([5, True], {"unit": "s"}, "True in row 1"),
        ([datetime(2024, 1, 1), None], {}, "None in row 1"),
        ([datetime(2024, 1, 1), AWARE], {}, "got None in row 0 and Australia/Melbourne in row 1"),
        (["2024-01-01", "01/02/2024"], {}, "ISO 8601.*'01/02/2024' in row 1"),
        (["2024-02-30"], {}, "'2024-02-30' in row 0"),
        (["2024-01-01T00:00+25:00"], {}, "no such offset"),
        (["2024-01-01T00:00+01:00", "2024-01-01T00:00Z"], {}, r"\+01:00 in row 0 and UTC in row 1"),
        (["2024-01-01", 5], {}, "one kind, got texts and, in row 1, a number"),
        (["1600-01-01T00:00:00.000000001"], {}, "64 bits.* in row 0"),
        (np.array(["2024", "NaT"], "M8[D]"), {}, "NaT in row 1"),
        (np.array([2**62], "M8[Y]"), {}, "in row 0"),
        (np.array([1], "M8[ps]"), {}, "whole ns .*in row 0"),
        (np.array([1], "m8[s]"), {}, "moments"),
        (np.zeros((2, 2), "M8[s]"), {}, r"\(N,\), got shape \(2, 2\)"),
        (torch.zeros(2, 2), {"unit": "s"}, r"\(N,\)"),
        ("2024-01-01", {}, "sequence of moments, got '2024-01-01'"),
        (5, {}, "sequence of moments, got 5"),
        ([object()], {}, "object .* in row 0"),
        ([torch.tensor(0.5)], {"unit": "s"}, r"tensor\(0.5.* in row 0"),
        (np.array(["NaT"], "M8"), {}, "must have a unit"),
        (["2024-01-01"], {"tz": "Mars/Olympus"}, "tz must .*'Mars/Olympus'"),
        (["2024-01-01"], {"tz": "UTC", "ambiguous": "maybe"}, "ambiguous must .*'maybe'"),
    ],
)
def test_refusals_name_the_row_and_what_came(stamps, options, said):
    with pytest.raises(ValueError, match=said):
        TimeAxis(stamps, **options)


TWICE = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00"]
TWICE = [f"2024-04-07T{clock}" for clock in TWICE]


def test_an_hour_that_comes_twice_is_asked_about():
    with pytest.raises(ValueError, match="2024-04-07T02:00:00 in row 1, which they showed twice"):
        TimeAxis(TWICE, tz=MELBOURNE)
    half_hours = TimeAxis(TWICE, tz=MELBOURNE, ambiguous="infer")
    assert half_hours.seconds().diff().tolist() == [1800] * 5
    assert half_hours.phase("day").diff().tolist()[2] < 0
    assert TimeAxis(TWICE[:3], tz=MELBOURNE, ambiguous="earlier").isoformat()[1][-6:] == "+11:00"
    assert TimeAxis(TWICE[:3], tz=MELBOURNE, ambiguous="later").isoformat()[1][-6:] == "+10:00"
    with pytest.raises(ValueError, match="row 1.* do not tell"):
        TimeAxis(TWICE[:3], tz=MELBOURNE, ambiguous="infer")
    hourly = [TWICE[0][:-2] + "00", TWICE[1], TWICE[1], TWICE[5]]
    inferred = TimeAxis(hourly, tz=MELBOURNE, ambiguous="infer")
    assert inferred.positions("h").diff(dim=0).tolist() == [[1], [1], [1]]


def test_an_hour_that_never_came_is_refused():
    with pytest.raises(ValueError, match="2024-10-06T02:30:00 in row 1, which they never did"):
        TimeAxis(["2024-10-05T02:30", "2024-10-06T02:30"], tz=MELBOURNE)
    assert TimeAxis(["2024-10-06T02:30"]).field("hour").tolist() == [2]


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=40), st.integers(0, 39))
def test_seconds_are_exact_from_any_origin(ticks, row):
    axis = TimeAxis(ticks, unit="us")
    origin = ticks[row % len(ticks)]
    from_origin = axis.seconds(origin=axis[row % len(ticks)])
    assert from_origin.tolist() == pytest.approx([(t - origin) / 10**6 for t in ticks], 3e-16)
    assert axis.positions("us").tolist() == [[tick] for tick in ticks]
    assert axis.positions("ms")[:, 0].tolist() == pytest.approx([t / 1000 for t in ticks], 3e-16)


def test_positions_are_integers_where_all_are_whole():
    axis = TimeAxis([0, 7200, 10_800], unit="s")
    assert axis.positions("h").dtype == torch.int64
    assert axis.positions("h").shape == (3, 1)
    assert axis.positions("2h").tolist() == [[0.0], [1.0], [1.5]]
    assert axis.positions("2h").dtype == torch.float64
    assert axis.positions("ns")[1].item() == 7200 * 10**9
    assert axis.positions("min", origin="1970-01-01T01:00").tolist() == [[-60], [60], [120]]
    start = datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=timezone.utc)
    assert axis.seconds(origin=start).tolist() == [-0.5, 7199.5, 10_799.5]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda axis: axis.positions("month"), "duration must be .*'month'"),
        (lambda axis: axis.positions("ns"), "must fit into 64 bits"),
        (lambda axis: axis.seconds(axis[:2]), "origin must be one moment"),
        (lambda axis: axis.seconds(TimeAxis(["2024-01-01"])), "origin must be one moment"),
        (lambda axis: axis.field("hours"), "field must be .*'hours'"),
        (lambda axis: axis.phase("fortnight"), "period must be .*'fortnight'"),
        (lambda axis: axis.fields(), "fields must be a list"),
        (lambda axis: axis.positions(float("inf")), "finite number of seconds"),
        (lambda axis: TimeAxis([2**62], unit="ns").seconds("1700-01-01"), "64 bits of stamps"),
        (lambda axis: TimeAxis(["2024-01-01"]).in_zone("UTC"), "no zone"),
    ],
)
def test_questions_without_an_answer(call, said):
    with pytest.raises(ValueError, match=said):
        call(TimeAxis([0, 1, 250_000_000_000], unit="s"))


@pytest.mark.parametrize("order", ["rising", "any"])
@pytest.mark.parametrize("spread", [10**3, 10**9, 2 * 10**10])
def test_many_stamps_at_once_are_what_each_is_alone(order, spread):
    """Pieces, tables of days and parts of the zone's table are only faster."""
    ticks = torch.randint(-spread, spread, (70_000,)) * 10**6 + 123_456
    ticks = ticks.sort().values if order == "rising" else ticks
    axis = TimeAxis(ticks, tz=MELBOURNE, unit="us")
    names = ["hour", "day_of_week", "day", "day_of_year", "week", "year", "millisecond"]
    assert torch.equal(axis.fields(*names), fields(ticks, names, unit="us", zone=MELBOURNE))
    periods = [*PERIODS, "10s"]
    assert torch.equal(axis.phases(*periods), phases(ticks, periods, unit="us", zone=MELBOURNE))
    assert torch.equal(axis[11:17].phases(*periods), axis.phases(*periods)[11:17])


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the machine's zone cannot be changed")
def test_the_machine_s_zone_does_not_matter(monkeypatch):
    found = []
    try:
        for name in ("UTC", "America/New_York"):
            monkeypatch.setitem(os.environ, "TZ", name)
            time.tzset()
            axes = [TimeAxis([datetime(2024, 7, 1, 12)], tz=tz) for tz in (None, MELBOURNE)]
            found.append([[axis.seconds().tolist(), axis.isoformat()] for axis in axes])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found[0] == found[1]


def test_an_axis_is_a_copy_and_can_be_copied():
    ticks = torch.tensor([1, 2, 3])
    axis = TimeAxis(ticks, tz="Europe/London", unit="s")
    ticks += 5
    assert axis.ticks.tolist() == [1, 2, 3]
    for twin in (pickle.loads(pickle.dumps(axis)), copy.deepcopy(axis)):
        assert repr(twin) == repr(axis) and twin.isoformat() == axis.isoformat()
    with pytest.raises(AttributeError):
        axis.unit = "ms"


def test_rows_and_no_rows():
    axis = TimeAxis([1, 2, 3, 4], unit="s")
    assert len(axis) == 4 and axis[-1].ticks.tolist() == [4]
    assert axis[[3, 0]].ticks.tolist() == [4, 1]
    assert axis[axis.ticks > 2].ticks.tolist() == [3, 4]
    for none in (axis[:0], TimeAxis([]), TimeAxis(np.zeros(0, "M8[ns]"), tz=MELBOURNE)):
        assert none.positions("h").shape == (0, 1) and none.isoformat() == []
        assert none.phases("day", "week").shape == (0, 2)
        assert none.gaps() == [] and none.duplicates() == []
        assert "0 moments" in repr(none)
