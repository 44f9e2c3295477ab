"""Seasons: exact phases of any moment, on the wall and in physical time; learned lengths."""

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

from posenc_mm.additive.calendar import Calendar
from posenc_mm.additive.seasonal import LearnedSeasonal, Seasonal
from posenc_mm.frequencies import turning
from posenc_mm.timestamps import PERIODS, TimeAxis, civil, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
NAMES = ["UTC", "Australia/Melbourne", "Europe/London", "America/St_Johns"]
ZONES = {name: zone_of(name) for name in NAMES}
FAR = 200 * 365 * 86_400 * 10**6


def waves(turns):
    """Sine and cosine of exact fractions of a turn."""
    return [f(2 * math.pi * float(turn % 1)) for turn in turns for f in (math.sin, math.cos)]


# ------------------------------------------------------------ phases are exact


def test_absolute_microseconds_keep_a_period_of_ten_seconds():
    """Float32 would have one value of the first hundred."""
    ticks = (1_550_083_467_346_370 + 100_000 * torch.arange(200)).unsqueeze(-1)
    exact = [t % 10**7 / 10**7 for t in ticks[:, 0].tolist()]
    wanted = torch.tensor([waves([turn]) for turn in exact])
    first = torch.tensor([-0.995345, -0.999432, -0.999576, -0.995774])
    in_seconds = ticks.double() / 1e6
    for encoding in (Seasonal, LearnedSeasonal):
        got = encoding({"10s": 1}, unit="us")(ticks)
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)
        torch.testing.assert_close(got[:4, 0], first, rtol=0, atol=1e-6)
        got = encoding({"10s": 1})(in_seconds)
        torch.testing.assert_close(got, wanted.double(), rtol=0, atol=1e-6)
    fixed = Seasonal({10: 1}, unit="us")(ticks)
    assert torch.equal(fixed[:100], fixed[100:])
    assert len(fixed[:100].unique(dim=0)) == 100


def clock_phase(clock, period):
    """The exact fraction of a period that a reading of the clock has passed."""
    start = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "week":
        start -= timedelta(days=clock.weekday())
        end = start + timedelta(days=7)
    elif period in ("month", "year"):
        start = start.replace(day=1, month=clock.month if period == "month" else 1)
        later = start + timedelta(days=32 if period == "month" else 366)
        end = later.replace(day=1, month=later.month if period == "month" else 1)
    else:
        start = clock.replace(minute=0, second=0, microsecond=0) if period == "hour" else start
        end = start + timedelta(hours=1 if period == "hour" else 24)
    tick = timedelta(microseconds=1)
    return Fraction((clock - start) // tick, (end - start) // tick)


@pytest.mark.parametrize("name", NAMES)
def test_harmonics_are_those_of_the_standard_library_s_clocks_and_of_exact_fractions(name):
    periods = {"hour": 1, "day": 4, "week": 3, "month": 2, "year": 5, "29.53D": 2, 1e4: 1}
    encoding = Seasonal(periods, zone=ZONES[name], unit="us")
    in_seconds = Seasonal(periods, zone=ZONES[name])

    @given(st.lists(st.integers(-FAR, FAR), min_size=1, max_size=20))
    @settings(max_examples=25)
    def check(ticks):
        at = torch.tensor(ticks).unsqueeze(-1)
        got, exact = encoding(at), in_seconds(at.double() / 10**6)
        assert got.dtype == torch.float32 and exact.dtype == torch.float64
        torch.testing.assert_close(exact.float(), got, rtol=0, atol=1e-6)
        for row, tick in enumerate(ticks):
            moment = EPOCH + timedelta(microseconds=tick)
            clock = moment.astimezone(zoneinfo.ZoneInfo(name)).replace(tzinfo=None)
            turns = []
            for period, count in periods.items():
                if period in PERIODS:
                    turn = clock_phase(clock, period)
                else:
                    days = Fraction("29.53") * 86_400 if period == "29.53D" else Fraction(period)
                    turn = Fraction(tick, 10**6) / days
                turns += [k * turn for k in range(1, count + 1)]
            assert got[row].tolist() == pytest.approx(waves(turns), abs=1e-7)

    check()


def test_moments_since_1970_in_any_unit_are_as_exact():
    at = torch.tensor([[1_700_000_123], [-1_000_000_001]])
    wanted = Seasonal({"day": 3, "year": 2, "7h": 1})(at)
    for unit, count in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        assert torch.equal(Seasonal({"day": 3, "year": 2, "7h": 1}, unit=unit)(at * count), wanted)
    assert wanted.shape == (2, 12)


def test_data_of_a_millisecond_have_phases_below_a_second_and_need_no_calendar():
    at = 1_700_000_000_000 + torch.arange(50).unsqueeze(-1)
    got = Seasonal({"50ms": 1, "second": 1}, unit="ms")(at)
    assert len(got.unique(dim=0)) == 50
    wanted = torch.tensor([waves([Fraction(row, 50)]) for row in range(50)])
    torch.testing.assert_close(got[:, :2], wanted, rtol=0, atol=1e-7)
    in_seconds = Seasonal({"50ms": 1, "second": 1})(at.double() / 1e3)
    torch.testing.assert_close(in_seconds.float(), got, rtol=0, atol=1e-6)


def test_a_fractional_time_is_not_rounded_by_a_module_of_low_precision():
    at = torch.tensor([[998.3897], [1_700_000_998.3897]], dtype=torch.float64)
    encoding = Seasonal({"16s": 3})
    wanted = torch.tensor(
        [waves([k * Fraction(t) / 16 for k in (1, 2, 3)]) for t in at[:, 0].tolist()]
    )
    torch.testing.assert_close(encoding.bfloat16()(at), wanted.double(), rtol=0, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding(at), Seasonal({"16s": 3})(at))
        learned = LearnedSeasonal({"16s": 3}).bfloat16()(at)
    torch.testing.assert_close(learned, wanted.double(), rtol=0, atol=1e-5)


def test_a_device_without_float64_gets_float32_of_the_reduced_time(monkeypatch):
    at = (1_700_000_123 + 5000 * torch.arange(50)).unsqueeze(-1)
    encodings = [Seasonal({"year": 3, "day": 2, "7h": 1}), Calendar(["hour", "week"])]
    encodings.append(LearnedSeasonal({"24h": 2}, origin=1_700_000_000))
    wanted = [encoding(at) for encoding in encodings]
    for module in (civil, turning):
        monkeypatch.setattr(module, "_WITHOUT_FLOAT64", ("cpu",))
    for encoding, exact in zip(encodings, wanted, strict=True):
        torch.testing.assert_close(encoding(at), exact, rtol=0, atol=1e-5)


# ------------------------------------------------------------ seasons are what they are called


@pytest.mark.parametrize("minutes", [30, 60, 15])
def test_a_day_is_a_day_however_often_it_is_sampled(minutes):
    """48 half-hours, not 48 of whatever an index counts."""
    at = 60 * minutes * torch.arange(3 * 1440 // minutes).unsqueeze(-1)
    per_day = 1440 // minutes
    for period in ("day", "24h", "48h", 48 * 1800):
        length = per_day * (2 if period == "48h" else 1)
        column = Seasonal({period: 1})(at)[:, 0]
        assert torch.equal(column[length:], column[:-length])
        assert column[: length // 2].min() > -1e-7 and column[length // 2 : length].max() < 1e-7


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_year_ends_where_the_next_one_begins(year):
    axis = TimeAxis([f"{year}-01-01", f"{year}-12-31", f"{year + 1}-01-01"], tz="UTC", unit="s")
    first, last, following = Seasonal({"year": 1})(axis.positions().double())
    assert torch.equal(first, following) and not torch.equal(last, following)
    days = 366 if year == 2024 else 365
    assert (last - following).norm() == pytest.approx(2 * math.sin(math.pi / days), abs=1e-12)
    before = Seasonal({"year": 1})(axis.positions()[2:].double() - 1e-6)
    assert (before - following).norm() < 1e-9


def test_columns_are_prophet_s_and_those_of_statsmodels():
    """Prophet: days since 1970 over a mean year; CalendarFourier: the part of the actual one."""
    at = 86_400 * torch.arange(-30_000, 60_000, 977).double().unsqueeze(-1)
    turns = [Fraction(day) / Fraction("365.25") for day in range(-30_000, 60_000, 977)]
    wanted = torch.tensor([waves([k * turn for k in range(1, 11)]) for turn in turns]).double()
    got = Seasonal({"365.25D": 10})(at)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)
    dates = [datetime(1970, 1, 1) + timedelta(days=day) for day in range(-30_000, 60_000, 977)]
    turns = [clock_phase(day, "year") for day in dates]
    wanted = torch.tensor([waves([k * turn for k in range(1, 5)]) for turn in turns]).double()
    torch.testing.assert_close(Seasonal({"year": 4})(at), wanted, rtol=0, atol=1e-6)


def test_harmonics_that_coincide_are_given_once():
    at = TimeAxis(["2024-05-06T07:08:09"], tz="UTC", unit="s").positions().double()
    merged = Seasonal({"week": 14, "day": 3, "hour": 1, "24h": 2, "1D": 3, 43_200: 2})
    apart = [Seasonal({"week": 14})(at), Seasonal({"day": 3})(at)[:, 4:], Seasonal({"hour": 1})(at)]
    apart += [Seasonal({"24h": 4})(at)]
    assert merged.dim == 2 * (14 + 1 + 1 + 4)
    torch.testing.assert_close(merged(at), torch.cat(apart, dim=-1), rtol=0, atol=1e-12)
    # 12 h, 24 h / 2 and 1D / 2 are one. Months and quarters have nothing in common.
    assert Seasonal({"12h": 1, "24h": 2, "1D": 2}).dim == 4
    assert Seasonal({"year": 12, "quarter": 3, "month": 1}).dim == 32
    assert Seasonal({"day": 1, "week": 7}).dim == 14
    everywhere = 3571 * torch.arange(3000).unsqueeze(-1)
    columns = Seasonal({"week": 7, "day": 2, "8h": 1})(everywhere.double())
    assert torch.linalg.matrix_rank(columns) == columns.shape[1] == 18


def test_harmonics_that_the_step_cannot_show_are_refused():
    for periods, step in (({"day": 24}, "30min"), ({"week": 84}, "1h"), ({"month": 14}, 86_400)):
        assert Seasonal(periods, step=step).step == step
        more = {name: count + 1 for name, count in periods.items()}
        with pytest.raises(ValueError, match="two steps or more.*got"):
            Seasonal(more, step=step)
        Seasonal(more)
    with pytest.raises(ValueError, match="'day' has 0 such, got 1"):
        Seasonal({"week": 1, "day": 1}, step="1D")
    with pytest.raises(ValueError, match="duration must be"):
        Seasonal({"week": 1}, step="often")


@pytest.mark.parametrize("encoding", [Seasonal, LearnedSeasonal])
@pytest.mark.parametrize(
    ("periods", "said"),
    [
        ({"fortnight": 1}, "'fortnight'"),
        ({}, "periods must map"),
        (["day"], "periods must map"),
        ({"24h": 0}, r"periods\['24h'\] must be a whole number"),
        ({"24h": 1.5}, r"periods\['24h'\] must be a whole number"),
        ({-5.0: 1}, "duration must be positive"),
        ({math.inf: 1}, "finite"),
    ],
)
def test_periods_that_are_none_are_refused(encoding, periods, said):
    with pytest.raises(ValueError, match=said):
        encoding(periods)


def test_moments_that_cannot_be_exact_are_refused():
    for encoding in (Seasonal({"day": 1}), LearnedSeasonal({"day": 1})):
        with pytest.raises(ValueError, match="torch.float32, which cannot hold"):
            encoding(torch.zeros(3, 1))
        with pytest.raises(ValueError, match="of 1 axes"):
            encoding(torch.zeros(3, 2, dtype=torch.int64))
    for wrong in ({"unit": "h"}, {"zone": "Mars/Olympus"}):
        with pytest.raises(ValueError, match=next(iter(wrong.values()))):
            Seasonal({"day": 1}, **wrong)
    with pytest.raises(ValueError, match="origin must be a whole number"):
        LearnedSeasonal({"day": 1}, origin=0.5)
    with pytest.raises(ValueError, match="'year'"):
        LearnedSeasonal({"year": 1})


# ------------------------------------------------------------ learned lengths


def test_learned_seasons_start_as_the_fixed_ones_and_follow_their_parameters():
    origin, at = 1_700_006_400, (1_700_000_000 + 4321 * torch.arange(40)).unsqueeze(-1)
    learned = LearnedSeasonal({"24h": 2, 7200.5: 1}, origin=origin)
    fixed = Seasonal({"24h": 2, 7200.5: 1})(at - origin)
    torch.testing.assert_close(learned(at), fixed, rtol=0, atol=1e-6)
    with torch.no_grad():
        learned.log_ratios.copy_(torch.tensor([0.01, -0.25]))
    lengths = [Fraction(length) for length in learned.lengths().tolist()]
    for row, tick in enumerate(at[:, 0].tolist()):
        turns = [(tick - origin) / lengths[0] * k for k in (1, 2)] + [(tick - origin) / lengths[1]]
        assert learned(at)[row].tolist() == pytest.approx(waves(turns), abs=1e-6)
    wanted = torch.tensor([86_400, 7200.5]).double() * torch.tensor([0.01, -0.25]).double().exp()
    torch.testing.assert_close(learned.lengths(), wanted, rtol=1e-7, atol=0)
    ms = LearnedSeasonal({"24h": 2, 7200.5: 1}, unit="ms", origin=1000 * origin)
    ms.load_state_dict(learned.state_dict())
    torch.testing.assert_close(ms(1000 * at + 0), learned(at), rtol=0, atol=1e-6)
    assert learned(at.double()).dtype == torch.float64
    learned.reset_parameters()
    assert not learned.log_ratios.any()


def test_a_length_is_learned_from_a_series():
    at = 3600 * torch.arange(24 * 14).unsqueeze(-1)
    series = Seasonal({"25.2h": 1})(at)[:, 0]
    learned = LearnedSeasonal({"24h": 1})
    optimiser = torch.optim.Adam(learned.parameters(), lr=2e-3)
    for _ in range(100):
        optimiser.zero_grad()
        (learned(at)[:, 0] - series).square().mean().backward()
        optimiser.step()
    assert learned.lengths().item() / 3600 == pytest.approx(25.2, abs=0.05)
    check = copy.deepcopy(learned).double()
    assert torch.autograd.gradcheck(
        lambda ratio: torch.func.functional_call(check, {"log_ratios": ratio}, (at[:5].double(),)),
        torch.tensor([0.1], dtype=torch.float64, requires_grad=True),
    )


def test_learned_seasons_compile_whole_export_and_pickle():
    learned = LearnedSeasonal({"24h": 2, "12.42h": 1})
    at = (1_700_000_000 + 900 * torch.arange(40)).unsqueeze(-1)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(learned, backend=counter, fullgraph=True)
    for length in (9, 30, 4):
        assert torch.equal(compiled(at[:length] * 1), learned(at[:length]))
    assert counter.frame_count <= 2
    shapes = ({0: torch.export.Dim("length", min=2, max=900)},)
    program = torch.export.export(learned, (at[:7],), dynamic_shapes=shapes, strict=True)
    assert torch.equal(program.module()(at), learned(at))
    assert torch.equal(pickle.loads(pickle.dumps(learned))(at), learned(at))
