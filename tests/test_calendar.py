"""Fields of the calendar in their codes: neighbours, new years, changed clocks, and refusals."""

import calendar
import copy
import math
import pickle
import zoneinfo
from datetime import datetime, timedelta, timezone
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

import posenc_mm as pm
from posenc_mm.additive.calendar import Calendar, OnCalendar
from posenc_mm.additive.holidays import Holidays
from posenc_mm.additive.seasonal import Seasonal
from posenc_mm.timestamps import FIELD_SIZES, TimeAxis, zone_of
from posenc_mm.timestamps.days import VALUES_OF, since_first, sunday_week

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAMES = ["UTC", "Australia/Melbourne", "Europe/London", "America/New_York", "Australia/Lord_Howe"]
ZONES = {name: zone_of(name) for name in NAMES}
FAR = 200 * 365 * 86_400
EVERY_MINUTE_OF_A_WEEK = 1_720_000_000 + 60 * torch.arange(7 * 1440).unsqueeze(-1)


def moments(*stamps, tz="UTC"):
    return TimeAxis(list(stamps), tz=tz, unit="s").positions()


def days_from(year, count):
    return moments(f"{year}-01-01") + 86_400 * torch.arange(count).unsqueeze(-1)


def apart(codes):
    """Distances from each row to the next, and from the last to the first."""
    return (codes - codes.roll(-1, 0)).norm(dim=-1)


# ------------------------------------------------------------ the circle


@pytest.mark.parametrize(
    ("field", "cycle", "distance"),
    [
        ("day_of_week", days_from(2024, 7), 0.8677675),
        ("hour", 3600 * torch.arange(24).unsqueeze(-1), 0.2610524),
        ("minute", 60 * torch.arange(60).unsqueeze(-1), 2 * math.sin(math.pi / 60)),
        ("month", moments(*(f"2023-{m:02d}-15" for m in range(1, 13))), 2 * math.sin(math.pi / 12)),
        ("quarter", moments(*(f"2023-{m:02d}-15" for m in (2, 5, 8, 11))), math.sqrt(2)),
        ("second", torch.arange(60).unsqueeze(-1), 2 * math.sin(math.pi / 60)),
        ("weekend", moments("2024-05-03", "2024-05-04"), 2.0),
    ],
)
def test_all_values_are_equally_far_from_their_neighbours(field, cycle, distance):
    """Sunday is no Monday: a period of p - 1 would make the ends of a cycle equal."""
    codes = Calendar([field])(cycle.double())
    torch.testing.assert_close(apart(codes), torch.full((len(cycle),), distance).double())
    assert torch.cdist(codes, codes).fill_diagonal_(9).min() > 0.1
    assert codes.norm(dim=-1).sub(1).abs().max() < 1e-15


@pytest.mark.parametrize(
    ("field", "first", "count"),
    [
        ("day_of_year", "2023-01-01", 365),
        ("day_of_year", "2024-01-01", 366),
        ("day", "2023-02-01", 28),
        ("day", "2024-02-01", 29),
        ("week", "2018-12-31", 52),
        ("week", "2019-12-30", 53),
    ],
)
def test_a_year_ends_beside_the_next_one_however_long_it_was(field, first, count):
    """31 December and 1 January are neighbours, not equal, and so are ISO weeks 53 and 1."""
    step = 7 * 86_400 if field == "week" else 86_400
    cycle = moments(first) + step * torch.arange(count + 1).unsqueeze(-1)
    codes = Calendar([field])(cycle.double())
    torch.testing.assert_close(codes[-1], codes[0], rtol=0, atol=1e-15)
    wanted = torch.full((count,), 2 * math.sin(math.pi / count)).double()
    torch.testing.assert_close(apart(codes[:-1]), wanted)


def test_years_have_the_weeks_that_the_standard_library_counts():
    """Over 400 years, after which the calendar repeats."""
    days = torch.arange(-719_162 + 365 * 1600, -719_162 + 365 * 1600 + 146_097)
    dates = [datetime(1970, 1, 1) + timedelta(days=day) for day in days.tolist()]
    years = {year: datetime(year, 12, 31) for year in range(1590, 2010)}
    assert sunday_week(days).tolist() == [int(day.strftime("%U")) for day in dates]
    assert (since_first(days, 12) + 1).tolist() == [day.timetuple().tm_yday for day in dates]
    counts = {year: len(sundays(day)) for year, day in years.items()}
    assert VALUES_OF["sunday_week"](days).tolist() == [counts[day.year] for day in dates]
    weeks = {year: day.replace(day=28).isocalendar()[1] for year, day in years.items()}
    assert VALUES_OF["week"](days).tolist() == [weeks[day.isocalendar()[0]] for day in dates]


def sundays(clock):
    """What %U shows in a year."""
    ends = clock.replace(month=1, day=1), clock.replace(month=12, day=31)
    return range(int(ends[0].strftime("%U")), int(ends[1].strftime("%U")) + 1)


@pytest.mark.parametrize(("year", "count"), [(2023, 53), (2024, 53), (2028, 54)])
def test_weeks_from_sunday_are_all_equally_far_apart(year, count):
    """Years that begin on a Sunday have no week 0."""
    codes = Calendar(["sunday_week"])(days_from(year, 366 + calendar.isleap(year)).double())
    steps = codes.diff(dim=0).norm(dim=-1)
    wanted = torch.full((count,), 2 * math.sin(math.pi / count)).double()
    torch.testing.assert_close(steps[steps > 1e-6], wanted)


def by_hand(clock):
    """Each field from 0, and the values it takes in the year or month at hand."""
    year, week, weekday = clock.isocalendar()
    weeks = datetime(year, 12, 28).isocalendar()[1]
    return {
        "hour": (clock.hour, range(24)),
        "time_of_day": ((clock - clock.replace(hour=0, minute=0, second=0)).seconds, range(86_400)),
        "day_of_week": (weekday - 1, range(7)),
        "weekend": (int(weekday > 5), range(2)),
        "day": (clock.day - 1, range(calendar.monthrange(clock.year, clock.month)[1])),
        "day_of_year": (clock.timetuple().tm_yday - 1, range(365 + calendar.isleap(clock.year))),
        "week": (week - 1, range(weeks)),
        "sunday_week": (int(clock.strftime("%U")), sundays(clock)),
    }


@pytest.mark.parametrize("name", NAMES)
def test_codes_follow_the_clocks_of_the_standard_library(name):
    @given(st.lists(st.integers(-FAR * 10**6, FAR * 10**6), min_size=1, max_size=20))
    @settings(max_examples=25)
    def check(ticks):
        names = list(by_hand(datetime(2000, 1, 1)))
        got = {
            code: Calendar(names, code=code, zone=ZONES[name], unit="us")(
                torch.tensor(ticks).unsqueeze(-1)
            ).double()
            for code in ("cyclic", "ramp", "one_hot")
        }
        for row, tick in enumerate(ticks):
            moment = EPOCH + timedelta(microseconds=tick)
            clock = moment.astimezone(zoneinfo.ZoneInfo(name)).replace(tzinfo=None, microsecond=0)
            read = list(by_hand(clock).values())
            turns = [2 * math.pi * Fraction(own.index(v), len(own)) for v, own in read]
            circle = [f(turn) for turn in turns for f in (math.sin, math.cos)]
            assert got["cyclic"][row].tolist() == pytest.approx(circle, abs=1e-7)
            sizes = [FIELD_SIZES[field] for field in names]
            ramps = [v / (size - 1) - 0.5 for (v, _), size in zip(read, sizes, strict=True)]
            assert got["ramp"][row].tolist() == pytest.approx(ramps, abs=1e-7)
            ones = got["one_hot"][row].split(sizes)
            assert [part.nonzero().flatten().tolist() for part in ones] == [[v] for v, _ in read]

    check()


# ------------------------------------------------------------ ramps and one-hot codes


def test_ramps_stay_within_half_and_new_year_is_their_minimum():
    """pandas counts from 1, and years may have 366 days or 53 weeks."""
    names = ["day_of_year", "week", "month", "quarter", "day"]
    at = moments("2023-12-31", "2024-12-31", "2020-12-31", "2021-01-01", "2024-01-01")
    ramps = Calendar(names, code="ramp")(at.double())
    assert ramps.abs().max() <= 0.5
    assert ramps[4].tolist() == [-0.5] * 5
    assert ramps[1, 0] == ramps[2, 0] == 0.5 and ramps[0, 0] == pytest.approx(364 / 365 - 0.5)
    assert ramps[2, 1] == ramps[3, 1] == 0.5
    assert ramps[3, 0] == -0.5
    hot = Calendar(names, code="one_hot")(at)
    assert hot.shape == (5, 366 + 53 + 12 + 4 + 31) and (hot.sum(-1) == 5).all()


@pytest.mark.parametrize("code", ["cyclic", "ramp", "one_hot"])
def test_the_width_is_what_is_asked_for(code):
    names = [name for name in FIELD_SIZES if name != "time_of_day"]
    encoding = Calendar(names, code=code, unit="ns")
    at = torch.tensor([[[1_700_000_000_123_456_789]]])
    assert encoding(at).shape == (1, 1, encoding.dim)
    assert encoding(at[:, :0]).shape == (1, 0, encoding.dim)
    assert encoding(at).dtype == torch.float32
    assert encoding(at.double()).dtype == torch.float64


# ------------------------------------------------------------ clocks on the wall


@pytest.mark.parametrize(("before", "after"), [("2024-04-06", "2024-04-08"), ("2024-10-05",) * 2])
def test_eight_o_clock_is_the_same_on_both_sides_of_a_change_of_the_clocks(before, after):
    after = "2024-10-07" if after == before else after
    melbourne = {"zone": ZONES["Australia/Melbourne"]}
    at = moments(f"{before}T08:00", f"{after}T08:00", tz="Australia/Melbourne")
    assert (at[1] - at[0]) % 86_400 != 0
    for encoding in (Calendar(["hour", "minute"], **melbourne), Seasonal({"day": 3}, **melbourne)):
        local = encoding(at)
        assert torch.equal(local[0], local[1])
    for encoding in (Calendar(["hour"]), Seasonal({"24h": 3}, **melbourne)):
        assert not torch.allclose(*encoding(at), atol=0.1)


def test_both_hours_of_an_hour_that_comes_twice_look_alike_and_are_an_hour_apart():
    at = moments("2024-04-07T02:30+11:00", "2024-04-07T02:30+10:00")
    assert at.diff(dim=0).item() == 3600
    zone = ZONES["Australia/Melbourne"]
    for encoding in (Calendar(["hour", "day"], zone=zone), Seasonal({"day": 2}, zone=zone)):
        assert torch.equal(*encoding(at))
    assert not torch.allclose(*Seasonal({"24h": 2}, zone=zone)(at), atol=0.1)


def test_a_code_depends_on_the_instant_alone():
    """Not on the other rows, nor on which years they span, nor on how the moment is counted."""
    at = moments("2023-12-31T07:08:09", "2024-12-31T23:00:00", "2021-01-01T00:00:00")
    names = ["hour", "day", "day_of_year", "week", "sunday_week", "month"]
    wanted = Calendar(names)(at)
    for row in range(3):
        assert torch.equal(Calendar(names)(at[row : row + 1])[0], wanted[row])
    for unit, count in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        assert torch.equal(Calendar(names, unit=unit)(at * count), wanted)
    assert torch.equal(Calendar(names)(at.double()).float(), wanted)


# ------------------------------------------------------------ tables of any encoding


def test_learned_tables_are_read_by_the_calendar():
    table = pm.Learned(8, (24, 7), joint=False)
    weekly = OnCalendar(table, ["hour", "day_of_week"], zone="Asia/Kolkata")
    got = weekly(moments("2024-05-06T23:30", "2024-05-12T01:15", tz="Asia/Kolkata"))
    wanted = torch.stack((table.tables[0][23] + table.tables[1][0],) * 2)
    wanted[1] = table.tables[0][1] + table.tables[1][6]
    assert torch.equal(got, wanted) and weekly.dim == 8
    got.sum().backward()
    assert table.tables[0].grad.any(-1).nonzero().flatten().tolist() == [1, 23]
    joint = OnCalendar(pm.Learned(3, (24, 7)), ["hour", "day_of_week"])
    assert torch.equal(joint(moments("2024-05-07T04:00"))[0], joint.encoding.table[4, 1])
    before = copy.deepcopy(table.tables[0])
    weekly.reset_parameters()
    assert not torch.equal(table.tables[0], before)


def test_years_are_numbers_for_encodings_without_an_end():
    years = OnCalendar(pm.Sinusoidal(6), ["year"])
    at = moments("2024-05-06", "1913-01-01")
    assert torch.equal(years(at), pm.Sinusoidal(6)(torch.tensor([[2024], [1913]])))
    assert years(at.double()).dtype == torch.float64


FIXED = [
    Calendar(["hour", "week", "day_of_year"], zone=ZONES["Europe/London"]),
    Calendar(["minute", "week", "day"], code="ramp", convention="timesfm1"),
    Calendar(["hour", "weekend"], code="one_hot"),
    OnCalendar(pm.Sinusoidal(5, axes=1), ["time_of_day"], zone=ZONES["Europe/London"]),
    Seasonal({"day": 3, "week": 2, "year": 2, "29.53D": 1}, zone=ZONES["Europe/London"]),
    Holidays(dates=["2024-07-04", "2023-12-25"], kernel="gaussian", offsets=(-1, 0, 3)),
]


@pytest.mark.parametrize("encoding", FIXED, ids=lambda one: type(one).__name__)
def test_fixed_encodings_of_moments_hold_nothing_and_no_precision_reaches_them(encoding):
    at = EVERY_MINUTE_OF_A_WEEK[::37]
    wanted = encoding(at)
    assert wanted.isfinite().all() and wanted.unique(dim=0).shape[0] > 1
    assert encoding.state_dict() == {} and not list(encoding.parameters())
    shadow = copy.deepcopy(encoding).bfloat16()
    assert torch.equal(shadow(at), wanted)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(shadow(at), wanted)
    twin = pickle.loads(pickle.dumps(encoding))
    assert torch.equal(twin(at), wanted) and repr(twin) == repr(encoding)
    torch.testing.assert_close(encoding(at.double()), wanted.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("encoding", FIXED, ids=lambda one: type(one).__name__)
def test_fixed_encodings_of_moments_compile_whole_and_export(encoding):
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(encoding, backend=counter, fullgraph=True)
    for length in (9, 30, 4):
        at = EVERY_MINUTE_OF_A_WEEK[:length] * 1
        assert torch.equal(compiled(at), encoding(at))
    assert counter.frame_count <= 2
    shapes = ({0: torch.export.Dim("length", min=2, max=20_000)},)
    program = torch.export.export(encoding, (at,), dynamic_shapes=shapes, strict=True)
    at = EVERY_MINUTE_OF_A_WEEK[::3]
    assert torch.equal(program.module()(at), encoding(at))
