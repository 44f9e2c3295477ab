"""Tables as people have them: each form is read, and each fault is named with its line."""

import gzip

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("lightning")
from timeseries.data import read_table

DAYS = ["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-13"]
MOMENTS = pd.to_datetime(DAYS)


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return path

    return write


def table(stamps, delimiter=",", name="when"):
    rows = [f"{stamp}{delimiter}{row}" for row, stamp in enumerate(stamps)]
    return "\n".join([f"{name}{delimiter}y", *rows]) + "\n"


def one(path, **options):
    reading = read_table(path, **options)
    assert len(reading.series) == 1
    return reading.series[0]


def ticks(series):
    return series.axis.numpy().astype("M8[ns]")


@pytest.mark.parametrize(
    "style",
    ["%Y-%m-%d", "%Y/%m/%d 0:00", "%m/%d/%Y", "%d.%m.%Y", "%d/%m/%Y 00:00", "%d-%b-%Y", "%Y%m%d"]
    + ["%b %d, %Y", "%Y-%m-%dT00:00:00.000Z", "%m/%d/%y 12:00 AM", "%Y%m%dT000000", "%d. %B %Y"],
)
def test_stamps_are_read_in_each_form(write, style):
    stamps = [moment.strftime(style) for moment in MOMENTS]
    series = one(write(table(stamps, ";" if "," in style else ",")))
    assert (ticks(series) == MOMENTS.values).all()
    assert series.axis.zone == ("UTC" if style.endswith("Z") else None)
    assert series.values.dtype == torch.float64 and series.values.flatten().tolist() == [0, 1, 2, 3]
    assert series.name == "table" and series.columns == ("y",) and series.known_columns == ()


def test_months_and_days_need_no_leading_zero(write):
    series = one(write(table(["1990/1/1 0:00", "1990/1/1 9:05", "1990/12/31 23:59"])))
    assert series.axis.isoformat()[1:] == ["1990-01-01T09:05:00", "1990-12-31T23:59:00"]


@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_numbers_since_1970_are_told_by_their_magnitude(write, unit, scale):
    numbers = [int(moment.timestamp()) * scale + row for row, moment in enumerate(MOMENTS)]
    series = one(write(table(numbers, name="ts")))
    assert series.axis.unit == unit and series.axis.ticks.tolist() == numbers
    assert series.axis.zone == "UTC"


def test_fractions_of_seconds_are_exact(write):
    series = one(write(table(["2024-01-01 00:00:00.25", "2024-01-01 00:00:00.123456"])))
    assert series.axis.ticks.diff().tolist() == [250_000 - 123_456]
    stamps = ["2024-01-01 00:00:00.123456789", "2024-01-01 00:00:01"]
    assert one(write(table(stamps))).axis.ticks.diff().tolist() == [10**9 - 123_456_789]
    series = one(write(table([1.7e9, 1.7e9 + 0.5], name="time")))
    assert series.axis.unit == "us" and series.axis.ticks.diff().tolist() == [500_000]


@pytest.mark.parametrize("offset", ["+05:30", "+0530", "-03"])
def test_offsets_make_moments(write, offset):
    series = one(write(table([f"2024-06-01 12:00{offset}", f"2024-06-01 12:00:01{offset}"])))
    aware = pd.Timestamp(f"2024-06-01 12:00{offset}").tz_convert("UTC")
    assert series.axis.isoformat()[0] == aware.isoformat() and series.axis.zone == "UTC"
    shown = one(write(table([f"2024-06-01 12:00{offset}", "2024-06-02T13:00Z"])), tz="Asia/Tokyo")
    assert shown.axis.zone == "Asia/Tokyo"
    assert shown.axis.seconds()[0] == series.axis.seconds()[0]


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        ("year,month,day,hour", "2013,3,1,{}"),
        ("Year,Month,Day,Hour", "2013,03,01,{}.0"),
        ("date,hour", "2013-03-01,{}"),
        ("date,time", "2013-03-01,{}:00"),
        ("Date,Time", "01.03.2013,{}.00.00"),
    ],
)
def test_stamps_may_lie_in_several_columns(write, names, cells):
    rows = "\n".join(f"{n},{cells.format(h)},{n}.5" for n, h in enumerate((22, 23, 24)))
    series = one(write(f"No,{names},y\n{rows}\n"), targets="y")
    assert series.axis.isoformat() == [
        "2013-03-01T22:00:00",
        "2013-03-01T23:00:00",
        "2013-03-02T00:00:00",
    ]
    assert one(write(f"No,{names},y\n{rows}\n"), time=names.split(",")).columns == ("No", "y")


def test_the_column_with_most_stamps_has_them(write):
    text = "Day,At,y\n2024-01-01,2024-01-01T00:00,1\n2024-01-01,2024-01-01T01:00,2\n"
    reading = read_table(write(text))
    assert reading.series[0].axis.isoformat()[1] == "2024-01-01T01:00:00"
    assert "columns left out, as they hold no numbers: Day" in reading.notes


@pytest.mark.parametrize(
    ("separator", "text"),
    [
        (";", "when;a;b\n2024-01-01;1,5;1.234,5\n2024-01-02;2,25;0,5\n"),
        ("\t", "when\ta\tb\n2024-01-01\t1.5\t1,234.5\n2024-01-02\t2.25\t0.5\n"),
        ("|", "when| a |b\n2024-01-01|1.5 | 1234.5\n2024-01-02|2.25|0.5\n"),
        (",", 'when,a,b\n2024-01-01,1.5,"1,234.5"\n2024-01-02,"2.25",0.5\n'),
        (",", 'when,a,b\n2024-01-01,"1,5","1234,5"\n2024-01-02,"2,25","0,5"\n'),
    ],
)
def test_delimiters_and_decimal_commas_are_found(write, separator, text):
    expected = [[1.5, 1234.5], [2.25, 0.5]]
    for path in (write(text), write(text.replace("\n", "\r\n"), encoding="utf-8-sig")):
        series = one(path)
        assert series.values.tolist() == expected and series.columns == ("a", "b")


def test_gzip_and_other_encodings(write, tmp_path):
    text = table(DAYS, name="Zeit °C")
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    for read in (
        one(path),
        one(write(text, "a.csv", "utf-16")),
        one(write(text, "b.csv", "latin-1")),
    ):
        assert (ticks(read) == MOMENTS.values).all()
    assert one(path).name == "table"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_parquet_keeps_moments_in_any_unit(tmp_path, unit, zone):
    pytest.importorskip("pyarrow")
    index = pd.DatetimeIndex(MOMENTS, name="when").as_unit(unit)
    index = index if zone is None else index.tz_localize(zone)
    frame = pd.DataFrame({" y ": np.arange(4.0), "ok": [True, False, True, True]}, index=index)
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    series = one(path, targets="y", known="ok")
    seconds = np.array([moment.timestamp() for moment in index])
    assert series.axis.seconds().tolist() == seconds.tolist() and series.axis.zone == zone
    assert series.known.flatten().tolist() == [1, 0, 1, 1]


def test_truths_are_numbers_where_they_are_asked_for(write):
    path = write("t,y,holiday\n2024-01-01,1,TRUE\n2024-01-02,2,FALSE\n")
    series = one(path, known=["holiday"])
    assert series.known.tolist() == [[1.0], [0.0]] and series.known_columns == ("holiday",)
    assert one(path).columns == ("y",)


def test_day_and_month_are_told_by_a_row_or_by_the_user(write):
    assert one(write(table(["1/2/2024", "13/2/2024"]))).axis.isoformat()[0][:10] == "2024-02-01"
    assert one(write(table(["1/2/2024", "1/13/2024"]))).axis.isoformat()[0][:10] == "2024-01-02"
    assert one(write(table(["1.2.2024", "3.2.2024"]))).axis.isoformat()[0][:10] == "2024-02-01"
    path = write(table(["1/2/2024", "2/2/2024", "3/2/2024"]))
    with pytest.raises(ValueError) as error:
        read_table(path)
    for part in ("'when'", "'1/2/2024' in line 2", "'3/2/2024' in line 4", "day_first=true"):
        assert part in str(error.value)
    assert one(path, day_first=True).axis.isoformat()[0][:10] == "2024-02-01"
    assert one(path, day_first=False).axis.isoformat()[0][:10] == "2024-01-02"


def bad(*rows, names="t,y"):
    good = [f"2024-01-0{day},{day}" for day in (1, 2, 3)]
    return "\n".join([names, *good, *rows]) + "\n"


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        (bad("yesterday,4"), {}, ["'t'", "'yesterday' in line 5", "like '2024-01-01'"]),
        (bad("2024-02-30,4"), {}, ["days and times that there are", "'2024-02-30' in line 5"]),
        (bad("2024-01-04 25:00,4"), {}, ["that there are", "line 5"]),
        (bad(",4", "2024-01-05,4", ",5"), {}, ["'t'", "got none in lines 5, 7"]),
        (bad("2024-01-04,four"), {}, ["'y' must hold finite numbers", "'four' in line 5"]),
        (bad("2024-01-04,inf"), {}, ["'y' must hold finite numbers", "'inf' in line 5"]),
        (bad("2024-01-04,", "2024-01-05,NA"), {}, ["'y'", "none in 2 of 5, lines 5, 6 of"]),
        (bad("2024-01-04,1,2"), {}, ["got 3 in line 5"]),
        (bad("", '"2024-01-04', 'x",4'), {}, ["2024-01-04\\nx", "line 7"]),
        (bad("2024-01-04T00:00Z,4"), {}, ["'2024-01-04T00:00Z' in line 5"]),
        (bad("13/13/2024,4"), {}, ["line 5"]),
        (table(["13/1/2024", "1/13/2024"]), {}, ["'13/1/2024' in line 2", "'1/13/2024' in line 3"]),
        (table([1704067200, 1704067201000], name="ts"), {}, ["milliseconds", "in line 2"]),
        (bad(), {"time": "x"}, ["time must name a column", "'x'", "t, y"]),
        (bad(), {"targets": "x"}, ["targets must name a column", "'x'"]),
        (bad(), {"known": ["x"]}, ["known must name a column", "'x'"]),
        (bad(), {"group": "x"}, ["group must name a column", "'x'"]),
        (bad(), {"time": "y"}, ["'y' must hold stamps", "'1' in line 2"]),
        (bad(), {"targets": "y", "known": "y"}, ["'y' twice"]),
        (bad(names="y,y"), {}, ["['y'] twice"]),
        (bad(), {"tz": "Mars/Base"}, ["IANA", "Mars/Base"]),
        ("t,y\n2024-01-01,1\n", {}, ["two rows or more, got 1"]),
        ("t,y\n", {}, ["got no rows"]),
        ("", {}, ["got no rows"]),
        ("2024-01-01,1\n2024-01-02,2\n", {}, ["line 1", "must name the columns"]),
        ("a,b\n1,2\n3,4\n", {}, ["name it by time="]),
        ("t,b\n2024-01-01,red\n2024-01-02,blue\n", {}, ["'b' must hold", "'red' in lines 2, 3"]),
    ],
)
def test_what_is_wrong_is_said_with_its_line(write, text, options, parts):
    with pytest.raises(ValueError) as error:
        read_table(write(text), **options)
    for part in parts:
        assert part in str(error.value)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_table("nowhere.csv")


def test_lines_are_counted_as_an_editor_does(write):
    text = 't,note,y\n\n2024-01-01,"two\nlines",1\n\n2024-01-02,x,bad\n2024-01-03,x,3\n'
    with pytest.raises(ValueError, match="'bad' in line 6 of"):
        read_table(write(text), targets="y")


def test_rows_are_sorted_and_each_stamp_kept_once_with_a_note(write):
    reading = read_table(write(bad("2023-12-31,0", "2024-01-02,9", "2024-01-02,8")))
    assert reading.series[0].values.flatten().tolist() == [0, 1, 2, 3]
    notes = "\n".join(reading.notes)
    assert "later stamps: 1 row (line 5)" in notes
    assert "of an earlier row: 2 rows (lines 6, 7)" in notes
    reading = read_table(write(table(reversed(DAYS))))
    assert reading.series[0].values.flatten().tolist() == [3, 2, 1, 0]
    assert "newest first" in "\n".join(reading.notes) and "sorted" not in "\n".join(reading.notes)


def test_missing_values_are_filled_in_time_if_asked_to_and_never_beyond_the_ends(write):
    path = write("t,y\n2024-01-01,1\n2024-01-02,\n2024-01-05,nan\n2024-01-06,6\n")
    reading = read_table(path, interpolate=True)
    assert reading.series[0].values.flatten().tolist() == [1, 2, 5, 6]
    assert "no value: 2 rows (lines 3, 4)" in "\n".join(reading.notes)
    with pytest.raises(ValueError, match="none in 1 of 3, line 2 .*before or behind"):
        read_table(write("t,y\n2024-01-01,\n2024-01-02,1\n2024-01-03,2\n"), interpolate=True)


def test_groups_are_series_of_their_own(write):
    days = [(day, number, name) for day in (3, 1, 2) for number, name in enumerate("ab")]
    rows = [f"{name},2024-01-0{day},{day}{number}" for day, number, name in days]
    path = write("\n".join(["shop,t,y", *rows, "c,2024-01-01,5"]))
    with pytest.raises(ValueError, match="say group='shop'"):
        read_table(path)
    reading = read_table(path, group="shop")
    assert [s.name for s in reading.series] == ["a", "b"]
    assert [s.values.flatten().tolist() for s in reading.series] == [[10, 20, 30], [11, 21, 31]]
    assert "less than two rows were left out: c" in reading.notes[-1]


AUTUMN = ["2024-04-07 01:30", "2024-04-07 02:00", "2024-04-07 02:30", "2024-04-07 02:00"]
AUTUMN += ["2024-04-07 02:30", "2024-04-07 03:00"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_hour_that_comes_twice_is_two_hours_in_its_zone(write, order):
    series = one(write(table(AUTUMN[::order])), tz="Australia/Melbourne")
    assert series.axis.seconds().diff().tolist() == [1800] * 5
    assert series.axis.field("hour").tolist() == [1, 2, 2, 2, 2, 3]
    assert len(one(write(table(AUTUMN))).axis) == 4


def test_an_hour_that_should_come_twice_but_does_not_is_the_earlier_one(write):
    path = write(table(["2024-04-07 01:00", "2024-04-07 02:00", "2024-04-07 03:00"]))
    reading = read_table(path, tz="Australia/Melbourne")
    assert reading.series[0].axis.seconds().diff().tolist() == [3600, 7200]
    assert "showed twice: 1 row (line 3)" in "\n".join(reading.notes)


def test_an_hour_that_never_came_is_refused_with_its_line(write):
    path = write(table(["2024-10-06 01:00", "", "2024-10-06 02:30"]).replace("\n,1", "\n"))
    with pytest.raises(ValueError, match="2024-10-06T02:30:00 in line 4, which they never did"):
        read_table(path, tz="Australia/Melbourne")
