"""Holidays: which day is one, how near it is on the wall, and what is not known about it."""

import builtins
import math
import pickle
import zoneinfo
from datetime import date, datetime, timezone

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from posenc_mm.additive.holidays import Holidays
from posenc_mm.timestamps import TimeAxis, zone_of
from posenc_mm.timestamps.holidays import days_of, holiday_dates

MELBOURNE = zone_of("Australia/Melbourne")
DATES = ["2023-12-25", "2023-12-26", "2024-01-26", "2024-04-25", "2024-12-25"]
KERNELS = {
    "indicator": lambda days, alpha: float(days == 0),
    "exponential": lambda days, alpha: math.exp(-alpha * days),
    "gaussian": lambda days, alpha: math.exp(-alpha * days**2),
}


def moments(*stamps, tz="UTC"):
    return TimeAxis(list(stamps), tz=tz, unit="s").positions()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["UTC", "Australia/Melbourne", "America/New_York"])
def test_columns_are_kernels_of_the_days_to_the_nearest_holiday(kernel, name):
    offsets = (-2, -1, 0, 1, 30)
    encoding = Holidays(
        dates=DATES, years=(2023, 2025), kernel=kernel, alpha=0.3, offsets=offsets, zone=name
    )
    known = [date.fromisoformat(day) for day in DATES]
    first, last = datetime(2023, 1, 2), datetime(2025, 12, 30)

    @given(st.lists(st.datetimes(first, last), min_size=1, max_size=20))
    @settings(max_examples=30)
    def check(readings):
        seconds = [reading.replace(tzinfo=timezone.utc).timestamp() for reading in readings]
        at = torch.tensor(seconds, dtype=torch.float64).floor().unsqueeze(-1)
        got = encoding(at)
        assert got.dtype == torch.float64 and encoding(at.long()).dtype == torch.float32
        for row, second in enumerate(at[:, 0].tolist()):
            day = datetime.fromtimestamp(second, zoneinfo.ZoneInfo(name)).date()
            gaps = [min(abs((day - holiday).days - o) for holiday in known) for o in offsets]
            wanted = [KERNELS[kernel](gap, 0.3) for gap in gaps]
            assert got[row].tolist() == pytest.approx(wanted, abs=1e-12)

    check()


def test_an_offset_is_days_after_a_holiday_also_where_another_one_is_nearer():
    at = moments("2023-12-24", "2023-12-25", "2023-12-26", "2023-12-27")
    columns = Holidays(dates=DATES, offsets=(-1, 0, 1, 2))(at)
    assert columns.tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_holidays_begin_at_midnight_on_the_wall():
    at = moments(
        *("2024-01-25T23:59:59", "2024-01-26T00:00:00", "2024-01-26T23:59:59"),
        "2024-01-27T00:00:00",
        tz="Australia/Melbourne",
    )
    australia_day = Holidays(dates=["2024-01-26"], zone=MELBOURNE)
    assert australia_day(at)[:, 0].tolist() == [0, 1, 1, 0]
    assert Holidays(dates=["2024-01-26"])(at)[:, 0].tolist() == [0, 0, 1, 1]
    ticks = at * 10**9
    assert torch.equal(
        Holidays(dates=["2024-01-26"], zone=MELBOURNE, unit="ns")(ticks), australia_day(at)
    )


def test_days_are_numbered_once_and_in_order():
    wanted = sorted((date.fromisoformat(day) - date(1970, 1, 1)).days for day in DATES)
    assert list(days_of([*DATES[::-1], DATES[2]])) == wanted


def test_holidays_of_a_region_are_its_own():
    pytest.importorskip("holidays")
    victoria = dict(holiday_dates("AU-VIC", 2012, 2014))
    assert victoria["2012-01-26"] == "Australia Day"
    assert victoria["2013-11-05"] == "Melbourne Cup Day"
    assert "2013-11-05" not in dict(holiday_dates("AU-NSW", 2013, 2013))
    assert [day for day, _ in holiday_dates("DE", 2024, 2024)][0] == "2024-01-01"
    assert list(victoria) == sorted(victoria)
    assert {day[:4] for day in victoria} == {"2012", "2013", "2014"}
    at = moments("2013-11-04", "2013-11-05", "2013-12-31", tz="Australia/Melbourne")
    near = Holidays("AU-VIC", years=(2012, 2013), offsets=(-1, 0), zone=MELBOURNE)
    # New Year's Day of 2014 is known too, on the last eve of the years asked for.
    assert near(at).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert near.years == (2012, 2013) and "'AU-VIC'" in repr(near)


def test_a_checkpoint_tells_one_set_of_holidays_from_another():
    makes = [
        Holidays(dates=DATES),
        Holidays(dates=DATES[:4]),
        Holidays(dates=DATES, years=(2020, 2025)),
        Holidays(dates=DATES, kernel="gaussian"),
        Holidays(dates=DATES, kernel="gaussian", alpha=0.5),
        Holidays(dates=DATES, offsets=(0, 1)),
        Holidays(dates=DATES, zone=MELBOURNE),
        Holidays(dates=DATES, unit="ms"),
    ]
    assert len({repr(one) for one in makes}) == len(makes)
    assert all(one.dim == len(one.offsets) for one in makes)


def test_moments_outside_the_years_are_refused():
    encoding = Holidays(dates=DATES, zone=MELBOURNE)
    assert encoding.years == (2023, 2024)
    encoding(moments("2023-01-01", "2024-12-31T23:59:59", tz="Australia/Melbourne"))
    for stamp, year in (("2022-12-31T23:59:59", 2022), ("2025-01-01", 2025)):
        at = moments("2023-06-01", stamp, tz="Australia/Melbourne")
        with pytest.raises(
            ValueError, match=rf"years .* from \(2023,\) to \(2024,\), got \({year}"
        ):
            encoding(at)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give a region and the years"),
        ({"region": "DE"}, "give a region and the years"),
        ({"region": "DE", "years": (2020, 2021), "dates": DATES}, "give a region and the years"),
        ({"dates": []}, "dates must be a list"),
        ({"dates": "2024-12-25"}, "dates must be a list"),
        ({"dates": ["25.12.2024"]}, "ISO 8601.*25.12.2024"),
        ({"dates": ["2024-02-30"]}, "dates must be"),
        ({"dates": DATES, "years": (2024, 2023)}, "years must be"),
        ({"dates": DATES, "years": 2024}, "years must be"),
        ({"dates": DATES, "years": (2024.5, 2025)}, "years must be"),
        ({"dates": DATES, "kernel": "box"}, "kernel must be .*'box'"),
        ({"dates": DATES, "alpha": 0}, "alpha must be"),
        ({"dates": DATES, "offsets": ()}, "offsets must be"),
        ({"dates": DATES, "offsets": (0.5,)}, "offsets must be"),
        ({"dates": DATES, "offsets": (200,)}, "offsets must be"),
        ({"dates": DATES, "offsets": (True,)}, "offsets must be"),
        ({"dates": DATES, "offsets": 1}, "offsets must be"),
        ({"dates": DATES, "zone": "Mars/Olympus"}, "Mars"),
        ({"dates": DATES, "unit": "D"}, "unit must be"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(arguments, said):
    with pytest.raises(ValueError, match=said):
        Holidays(**arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("XX", 2020, 2021), "region must be .*'XX'"),
        (("AU-XYZ", 2020, 2021), "region must be .*'AU-XYZ'"),
        (("", 2020, 2021), "region must be"),
        (("DE", 1950, 2021), "known from 1991 to 2100, got years 1950 to 2021"),
        (("DE", 2021, 2020), "last_year must be"),
        (("DE", 2020.0, 2021), "first_year must be"),
    ],
)
def test_regions_and_years_that_are_unknown_are_refused(arguments, said):
    pytest.importorskip("holidays")
    with pytest.raises(ValueError, match=said):
        holiday_dates(*arguments)


def test_a_missing_package_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "holidays":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install holidays"):
        Holidays("DE", years=(2020, 2021))
    assert Holidays(dates=DATES).dim == 1


def test_moments_that_cannot_be_exact_are_refused():
    with pytest.raises(ValueError, match="torch.float32, which cannot hold"):
        Holidays(dates=DATES)(torch.zeros(3, 1))
    with pytest.raises(ValueError, match="of 1 axes"):
        Holidays(dates=DATES)(torch.zeros(3, 2, dtype=torch.int64))


def test_a_lookup_compiles_whole_exports_and_still_refuses_other_years():
    encoding = Holidays(dates=DATES, kernel="exponential", offsets=(-1, 0), zone=MELBOURNE)
    assert encoding.state_dict() == {}
    at = moments("2023-03-01") + 86_400 * torch.arange(600).unsqueeze(-1)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(encoding, backend=counter, fullgraph=True)
    for length in (9, 30, 4):
        assert torch.equal(compiled(at[:length] * 1), encoding(at[:length]))
    assert counter.frame_count <= 2
    with pytest.raises(RuntimeError, match="years of moments"):
        compiled(at[:30] - 365 * 86_400)
    shapes = ({0: torch.export.Dim("length", min=2, max=900)},)
    program = torch.export.export(encoding, (at[:7],), dynamic_shapes=shapes, strict=True)
    assert torch.equal(program.module()(at), encoding(at))
    assert torch.equal(pickle.loads(pickle.dumps(encoding))(at), encoding(at))
    assert encoding(at[:0]).shape == (0, 2)
