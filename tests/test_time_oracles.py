"""Encodings of time against their formulas in ``oracles_time``, over 400 years and many clocks."""

import math
from datetime import date, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import hypothesis
import oracles
import oracles_time as reference
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc_mm.additive import conventions
from posenc_mm.additive.calendar import Calendar
from posenc_mm.additive.holidays import Holidays
from posenc_mm.additive.horizon import Horizon
from posenc_mm.additive.seasonal import LearnedSeasonal, Seasonal
from posenc_mm.additive.sinusoidal import Sinusoidal
from posenc_mm.additive.time2vec import Time2Vec
from posenc_mm.attention import attend
from posenc_mm.bias.alibi import ALiBi, LearnedALiBi
from posenc_mm.bias.erpe import ERPE
from posenc_mm.bias.t5 import T5Bias
from posenc_mm.bias.variate import AnyVariateBias
from posenc_mm.frequencies.rows import tape, timescales
from posenc_mm.positions.patches import patches
from posenc_mm.rotary.time import TimeRotary
from posenc_mm.timestamps.axis import TimeAxis
from posenc_mm.timestamps.horizon import past_and_future
from posenc_mm.timestamps.zones import Zone, zone_of

FAR = 200 * 365 * 86_400  # seconds: 200 years either way
PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
PLACES = "Europe/Berlin America/New_York Australia/Melbourne Australia/Lord_Howe Asia/Kolkata UTC"
PLACES += " America/St_Johns Pacific/Apia Africa/Casablanca"
ZONES = [zone_of(name) for name in PLACES.split()]
# Ends of years, leap days, ISO week 53, changes of clocks in Berlin and in Lord Howe.
CORNERS = [
    *(1704067199, 1704067200, 1735689599, 1609459200, 1609459199, 1709164800, 951782400),
    *(1711846799, 1711846800, 1729990799, 1729990800, 1728142199, 1728142200, 0, -1, -FAR, FAR),
]
zones = st.sampled_from(ZONES)
seconds = st.one_of(st.sampled_from(CORNERS), st.integers(-FAR, FAR))
CLOSE = 1_700_000_000 + torch.tensor([[0], [60], [61], [3599], [7200], [86_400], [9_999]])


def exploring(*args, **kwargs):
    return lambda test: hypothesis.settings(max_examples=25)(given(*args, **kwargs)(test))


@st.composite
def moments(draw) -> tuple[Tensor, str]:
    """Ticks in int64 of any unit, or float64 seconds with a fraction; and their unit."""
    unit = draw(st.sampled_from(sorted(PARTS)))
    whole = draw(st.lists(seconds, min_size=1, max_size=6))
    rest = draw(st.integers(0, PARTS[unit] - 1))
    if unit in ("s", "ms") and draw(st.booleans()):
        part = draw(st.integers(0, 6)) / 7
        return torch.tensor([[m * PARTS[unit]] for m in whole]).double() + rest + part, unit
    return torch.tensor([[m * PARTS[unit] + rest] for m in whole]), unit


def assert_near(result: Tensor, wanted: Tensor, positions: Tensor, atol: float = 1e-6) -> None:
    double = positions.dtype == torch.float64
    assert result.dtype == (torch.float64 if double else torch.float32)
    assert result.shape == wanted.shape
    assert ((result.double() - wanted).abs() <= atol * wanted.abs().clamp(min=1)).all()


def check(module: torch.nn.Module, at: Tensor, wanted: Tensor, atol: float = 1e-6) -> None:
    assert module.dim == wanted.shape[1]
    assert_near(module(at), wanted, at, atol)
    both = module(torch.stack((at, at.flip(0))))
    assert_near(both, torch.stack((wanted, wanted.flip(0))), at, atol)


def fill(module: torch.nn.Module) -> list[Tensor]:
    """Random parameters, in their order."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape))
    return [parameter.detach() for parameter in module.parameters()]


# ---------------------------------------------------------------- calendar
CODES = {
    "cyclic": list(reference.LEVELS),
    "ramp": list(reference.LEVELS),
    "one_hot": ["hour", "day_of_week", "weekend", "day", "week", "sunday_week", "month"],
    "timesfm1": list(reference.TIMESFM),
}


@pytest.mark.parametrize("code", CODES)
@exploring(at=moments(), zone=zones)
def test_codes_of_the_calendar(code: str, at: tuple[Tensor, str], zone: Zone):
    (ticks, unit), names = at, CODES[code]
    asked = {"code": "ramp", "convention": code} if code == "timesfm1" else {"code": code}
    module = Calendar(names, zone=zone, unit=unit, **asked)
    wanted = reference.coded(reference.instants(ticks, unit), names, code, zone.name)
    check(module, ticks, wanted, 0 if code == "one_hot" else 1e-6)


CLOCK = ("hour", "day_of_week", "day", "day_of_year")
FREQUENCIES = {"s": ("second", "minute", *CLOCK), "15min": ("minute", *CLOCK), "3h": CLOCK}
FREQUENCIES |= {"D": CLOCK[1:], "B": CLOCK[1:], "W-SUN": ("day", "week")}
FREQUENCIES |= {"MS": ("month",), "QE": ("month",)}


@pytest.mark.parametrize("source", ["informer", "tslib", "gluonts"])
@pytest.mark.parametrize("freq", FREQUENCIES)
@exploring(at=moments(), zone=zones)
def test_time_features(freq: str, source: str, at: tuple[Tensor, str], zone: Zone):
    (ticks, unit), names = at, FREQUENCIES[freq]
    wanted = reference.coded(reference.instants(ticks, unit), names, "ramp", zone.name)
    if source == "gluonts":
        return check(conventions.gluonts(freq, zone=zone, unit=unit), ticks, wanted)
    module = conventions.informer(6, freq, source=source, zone=zone, unit=unit).double()
    weight, *bias = fill(module)
    assert len(bias) == (source == "informer")
    assert torch.allclose(module(ticks), wanted @ weight.T + sum(bias), rtol=0, atol=1e-5)


DAILY = {"month": 13, "day": 32, "day_of_week": 7}
MARKS = {"D": DAILY, "h": {**DAILY, "hour": 24}, "15min": {**DAILY, "hour": 24, "minute": 4}}


@pytest.mark.parametrize("kind", ["fixed", "learned"])
@pytest.mark.parametrize("freq", MARKS)
@exploring(at=moments(), zone=zones)
def test_index_embeddings(freq: str, kind: str, at: tuple[Tensor, str], zone: Zone):
    ticks, unit = at
    module, sizes = conventions.informer(8, freq, kind=kind, zone=zone, unit=unit), MARKS[freq]
    tables = {n: oracles.sinusoid([[v] for v in range(size)], 8) for n, size in sizes.items()}
    learned = fill(module)
    assert bool(learned) == (kind == "learned")
    tables = dict(zip(sizes, learned, strict=True)) if learned else tables
    wanted = reference.informer_index(reference.instants(ticks, unit), tables, zone.name)
    assert (module(ticks).double() - wanted).abs().max() < 1e-5


# ---------------------------------------------------------------- seasons and holidays
SEASONS = [
    {"day": 3, "week": 8, "year": 2},
    {"week": 14, "day": 4, "hour": 2, "minute": 1, "second": 1},
    {"year": 12, "quarter": 3, "month": 3},
    {"24h": 4, "6h": 2, "29.53D": 2, 1000.5: 1, 43_200: 3},
    {"day": 2, "7D": 7, "29.530588D": 3},
]


@pytest.mark.parametrize("periods", SEASONS, ids=str)
@exploring(at=moments(), zone=zones)
def test_seasons(periods: dict[str | float, int], at: tuple[Tensor, str], zone: Zone):
    ticks, unit = at
    wanted = reference.seasonal(reference.instants(ticks, unit), periods, zone.name)
    check(Seasonal(periods, zone=zone, unit=unit), ticks, wanted)


@exploring(at=moments(), origin=st.integers(-(10**9), 10**9))
def test_learned_seasons(at: tuple[Tensor, str], origin: int):
    ticks, unit = at
    module = LearnedSeasonal({"24h": 3, "29.53D": 2, 7200.0: 1}, unit=unit, origin=origin)
    (ratios,) = fill(module)
    guesses = [86_400, 29.53 * 86_400, 7200]
    periods = [p * math.exp(r) for p, r in zip(guesses, ratios.tolist(), strict=True)]
    wanted = reference.oscillating(reference.instants(ticks - origin, unit), periods, [3, 2, 1])
    check(module, ticks, wanted)


@pytest.mark.parametrize("kernel", ["indicator", "exponential", "gaussian"])
@exploring(
    at=moments(),
    zone=zones,
    dates=st.lists(st.dates(date(1965, 1, 1), date(2030, 12, 31)), min_size=1, max_size=5),
)
def test_holidays(kernel: str, at: tuple[Tensor, str], zone: Zone, dates: list[date]):
    (ticks, unit), texts = at, [day.isoformat() for day in dates]
    days = [(day - date(1970, 1, 1)).days + more for day in dates for more in (0, 1, 3, -1)]
    ticks = torch.cat((ticks, ticks.new_tensor([[86_400 * PARTS[unit] * day] for day in days])))
    kwargs = {"kernel": kernel, "alpha": 0.3, "offsets": (0, 1, -1, 7)}
    module = Holidays(dates=texts, years=(1700, 2300), unit=unit, zone=zone, **kwargs)
    times = reference.instants(ticks, unit)
    check(module, ticks, reference.holidays(times, texts, zone=zone.name, **kwargs))


# ---------------------------------------------------------------- time itself
@exploring(at=moments(), origin=st.integers(-(10**9), 10**9))
def test_time2vec(at: tuple[Tensor, str], origin: int):
    ticks, unit = at
    module = Time2Vec(5, scale=3600 * PARTS[unit], origin=origin)
    weights, shifts = (values.tolist() for values in fill(module))
    times = [(Fraction(p) - origin) / (3600 * PARTS[unit]) for (p,) in ticks.tolist()]
    check(module, ticks, reference.time2vec(times, weights, shifts))


@exploring(st.integers(1, 40), st.integers(0, 60), st.booleans())
def test_horizon_and_tape(context: int, offset: int, double: bool):
    at = (torch.arange(23) + offset).unsqueeze(-1).to(torch.float64 if double else torch.int64)
    check(Horizon(context), at, reference.horizon(at, context))
    check(Sinusoidal(12, frequencies=[tape(6, context)]), at, reference.tape(at, 12, context))


@pytest.mark.parametrize("align", ["end", "start"])
@exploring(patch=st.integers(1, 7), stride=st.integers(1, 9), more=st.integers(0, 9))
def test_patches(patch: int, stride: int, more: int, align: str):
    at = torch.randint(-(2**62), 2**62, (2, patch + more, 2)).cumsum(0) // 2
    wanted = [reference.patch_centres(sample, patch, stride, align) for sample in at]
    result = patches(at, patch, stride, align=align)  # up to a unit in its last place
    assert torch.allclose(result, torch.stack(wanted), rtol=2.3e-16, atol=0)


STEPS = {"15min": ("minute", 15), "3h": ("hour", 3), "D": ("day", 1), "2D": ("day", 2)}
STEPS |= {"W": ("week", 1), "MS": ("month", 1), "2ME": ("month end", 2), "QE-DEC": ("month end", 3)}


@pytest.mark.parametrize("freq", STEPS)
@exploring(zones, st.datetimes(datetime(1830, 1, 1), datetime(2160, 1, 1)))
def test_stamps_to_come(freq: str, zone: Zone, start: datetime):
    start = start.replace(microsecond=0, tzinfo=ZoneInfo(zone.name))
    start += timedelta(days=6 - start.weekday()) if freq == "W" else timedelta()
    start = start.replace(day=1) if freq == "MS" else start
    start = start.replace(month=12, day=31) if freq.endswith(("E", "C")) else start
    known = [Fraction(math.floor(start.timestamp()))]
    known += reference.following(known[0], 2, *STEPS[freq], zone.name)
    axis = TimeAxis(torch.tensor([int(t) for t in known]), tz=zone, unit="s", freq=freq)
    wanted = known + reference.following(known[-1], 5, *STEPS[freq], zone.name)
    result = past_and_future(axis, 5)
    assert result.positions.tolist() == [[int(t), row] for row, t in enumerate(wanted)]
    assert result.is_future.tolist() == [False] * 3 + [True] * 5


# ---------------------------------------------------------------- rotary and bias
@exploring(moments(), st.lists(st.integers(-86_400, 86_400), min_size=1, max_size=4))
def test_rotary(at: tuple[Tensor, str], offsets: list[int]):
    """Exact where a pair has a period, else by differences: what a rotation is for."""
    (ticks, unit), parts = at, PARTS[at[1]]
    ticks = torch.stack([ticks[0] + o * parts for o in (0, *offsets)])
    module = TimeRotary(16, step="100ms", span="30D", periods=["24h", 5400.5], unit=unit)
    scales = reference.timescales(6, 0.1 * parts, 30 * 86_400 * parts)
    assert timescales(6, 0.1 * parts, 30 * 86_400 * parts) == pytest.approx(scales, rel=1e-13)
    rotation = module(ticks)
    cos, sin = rotation.cos, rotation.sin
    times = [[t] for t in reference.instants(ticks, unit)]
    whole = reference.time_rotary(times, [Fraction(86_400), Fraction(5400.5)], [])
    apart = [[t - times[0][0]] for (t,) in times]
    turned = reference.time_rotary(apart, [], [w * parts for w in scales])
    assert_near(cos[:, :2], whole.cos(), ticks)
    assert_near(sin[:, :2], whole.sin(), ticks)
    c, s = cos[:, 2:], sin[:, 2:]
    assert_near(c * c[0] + s * s[0], turned.cos(), ticks)
    assert_near(s * c[0] - c * s[0], turned.sin(), ticks)


@exploring(moments(), st.integers(-(10**7), 10**7))
def test_alibi_and_durations_in_buckets(at: tuple[Tensor, str], shift: int):
    q, parts = at[0].clamp(-(2**61), 2**61), PARTS[at[1]]  # differences must fit into 64 bits
    k = torch.cat((q + shift * parts // 3, q[:1] // 2))
    for step, both in ((3600.0 * parts, True), (2.5 * parts, False)):
        wanted = reference.time_alibi(q, k, oracles.alibi_slopes(3), step)
        assert_near(ALiBi(3, step=step)(q, k), wanted, q)
        if q.dtype == torch.int64:  # floats near a border may fall to either side
            module = T5Bias(3, step=step, bidirectional=both)
            (weight,) = fill(module)
            wanted = reference.t5_durations(q, k, weight, step, 128, both)
            assert torch.equal(module(q, k).double(), wanted)


def test_learned_alibi_is_an_exponential_decay():
    module, q, k = LearnedALiBi(3, step=3600.0), CLOSE[:5], CLOSE[3:] + 77
    (slopes,) = fill(module)
    logits = torch.randn(3, len(q), len(k)).double()
    apart = reference.durations(q, k, 3600.0)
    wanted = reference.decayed(logits.softmax(-1), apart, slopes.double().exp().tolist())
    assert torch.allclose((logits + module(q, k)).softmax(-1), wanted, rtol=0, atol=1e-6)


def test_any_variate():
    module = AnyVariateBias(3)
    (weight,) = fill(module)
    at = torch.randint(4, (2, 9, 1))
    wanted = [reference.any_variate(a[:5], a, weight[1], weight[0]) for a in at]
    assert torch.equal(module(at[:, :5], at).double(), torch.stack(wanted))


@pytest.mark.parametrize("causal", [True, False])
def test_erpe(causal: bool):
    module = ERPE(3, 4)
    (table,) = fill(module)
    q, k, v = (torch.randn(2, 3, n, d).double() for n, d in ((4, 8), (6, 8), (6, 5)))
    at = torch.arange(6).unsqueeze(-1) + 10**6
    real = torch.tensor([[True] * 6, [False, True, True, False, True, True]])
    bias = oracles.relative_table(at[2:], at, table)
    wanted = reference.erpe(q, k, v, bias, causal, real)
    kwargs = {"q_positions": at[2:], "k_positions": at, "causal": causal, "key_mask": real}
    assert torch.allclose(attend(q, k, v, bias=module, **kwargs), wanted, rtol=0, atol=1e-6)
