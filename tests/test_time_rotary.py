"""Rotary encoding of moments: exact at any date and in any unit, blind to windows and rows."""

import copy
import math
from fractions import Fraction

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm.rotary import TimeRotary, time

TURN = 2 * Fraction("3.141592653589793238462643383279502884197169399375")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TODAY = 1_700_000_000
DAY, YEAR = 86_400, 365 * 86_400
# Irregular: seconds, a burst, a night, a week.
STAMPS = [0, 1, 2, 7, 3600, 40_000, DAY, DAY + 5, 8 * DAY]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def moments(seconds, unit="s"):
    return torch.tensor([[round(second * PER_SECOND[unit])] for second in seconds])


def scores(rotary, at, dtype=torch.float32):
    """<R(t) q, R(u) k> for fixed q and k at all pairs of moments."""
    q, k = noise(rotary.head_dim).to(dtype), noise(rotary.head_dim, seed=1).to(dtype)
    rotation = rotary(at)
    queries, keys = (pm.rotate(x.expand(1, len(at), -1), rotation)[0] for x in (q, k))
    return queries @ keys.T


def exact_angles(ticks, per_second, periods, row):
    """In fractions, with 48 digits of pi; between -pi and pi."""
    turns = [Fraction(ticks, per_second) / Fraction(period) for period in periods]
    turns += [Fraction(ticks, per_second) * Fraction(f) / TURN for f in row]
    return [float((turn - round(turn)) * TURN) for turn in turns]


def ladder(count, step, span):
    return [(step / span) ** (k / (count - 1)) / step for k in range(count)]


# ------------------------------------------------------------ laws


@pytest.mark.parametrize("periods", [(), ("24h", "7D")], ids=["ladder", "with harmonics"])
@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("step", ["30min", "1s", "1ms"])
def test_scores_are_the_same_at_any_date(unit, step, periods):
    """In float32, to its rounding, in 1970 and today: nanoseconds are then 1.7e18."""
    rotary = TimeRotary(16, step=step, span="30D", periods=periods, unit=unit)
    shift = TODAY * PER_SECOND[unit] + 123 % PER_SECOND[unit]
    at = moments(STAMPS, unit)
    first = scores(rotary, at)
    for later in (shift, -shift):
        torch.testing.assert_close(scores(rotary, at + later), first, rtol=0, atol=5e-6)
    assert (first - first[0, 0]).abs().max() > 1


@pytest.mark.parametrize("step", ["30min", "1s", "1ms"])
def test_float64_moments_turn_as_exactly(step):
    """Fractions of today's seconds are whole microseconds again before they turn."""
    rotary = TimeRotary(16, step=step, span="30D", periods=["24h"])
    at = torch.tensor([[0.0], [0.1], [0.123456], [3600.5]], dtype=torch.float64)
    first = scores(rotary, at, torch.float64)
    later = scores(rotary, at + TODAY, torch.float64)
    torch.testing.assert_close(later, first, rtol=0, atol=1e-7)


def test_a_day_apart_is_the_same_time_of_day():
    daily = TimeRotary(2, step="1h", span="30D", periods=["24h"])
    start = TODAY + 12_345
    found = scores(daily, moments([start + DAY * n for n in range(-20_000, 20_000, 777)]))
    torch.testing.assert_close(found, found[:1, :1].expand_as(found), rtol=0, atol=1e-6)
    halves = scores(daily, moments([start, start + DAY // 2]))
    torch.testing.assert_close(halves[0, 1], -halves[0, 0], rtol=0, atol=1e-6)


def test_the_other_pairs_still_tell_the_days_apart():
    rotary = TimeRotary(8, step="1h", span="30D", periods=["24h"])
    cos = rotary(moments([TODAY, TODAY + DAY])).cos
    torch.testing.assert_close(cos[0, 0], cos[1, 0], rtol=0, atol=1e-7)
    assert (cos[0, 1:] - cos[1, 1:]).abs().min() > 1e-5


def test_units_are_ways_to_write_the_same_moments():
    arguments = {"step": "1s", "span": "30D", "periods": ["24h", 0.5]}
    at = [TODAY + stamp for stamp in STAMPS]
    wanted = TimeRotary(12, **arguments)(moments(at))
    others = [TimeRotary(12, **arguments, unit=unit)(moments(at, unit)) for unit in PER_SECOND]
    others.append(TimeRotary(12, **arguments)(moments(at).double()))
    for other in others:
        torch.testing.assert_close(other.cos.float(), wanted.cos, rtol=0, atol=3e-7)
        torch.testing.assert_close(other.sin.float(), wanted.sin, rtol=0, atol=3e-7)


def test_an_hour_and_a_year_do_not_look_alike_and_bursts_stay_apart():
    """A window rescaled to its own length, and stamps snapped to a raster, would lose both."""
    rotary = TimeRotary(16, step="1min", span="1W")
    for length in (3600, YEAR):
        grid = moments([TODAY + length * part / 8 for part in range(9)])
        one, all_of = rotary(grid[3:4]), rotary(grid)
        assert torch.equal(one.cos[0], all_of.cos[3]) and torch.equal(one.sin[0], all_of.sin[3])
    hour, year = (scores(rotary, moments([TODAY, TODAY + t]))[0, 1] for t in (3600, YEAR))
    assert (hour - year).abs() > 0.1
    burst = TimeRotary(16, step="1min", span="1W", unit="ms")
    near = burst(moments([TODAY, TODAY + 0.25, TODAY + 0.5], "ms"))
    assert len({tuple(line) for line in near.sin[:, :3].tolist()}) == 3
    apart = scores(burst, moments([TODAY, TODAY + 0.25, TODAY + 30], "ms"), torch.float32)
    assert (apart[0, 0] - apart[0, 1]).abs() < (apart[0, 0] - apart[0, 2]).abs()


def test_frames_at_ten_hertz_differ_and_repeat_after_ten_seconds():
    """Microseconds since 1970 in float32 are 134 s wide."""
    ticks = 1_550_083_467_346_370 + 100_000 * torch.arange(200)[:, None]
    rotary = TimeRotary(4, step="100ms", span="1h", periods=["10s"], unit="us")
    rotation = rotary(ticks)
    assert (
        len({tuple(line) for line in torch.cat((rotation.cos, rotation.sin), -1).tolist()}) == 200
    )
    for first, second in zip(rotation.sin[:-1], rotation.sin[1:], strict=True):
        assert (first - second).abs().max() > 1e-3
    expected = [math.sin(2 * math.pi * (t % 10**7) / 10**7) for t in ticks[:, 0].tolist()]
    assert rotation.sin[:4, 0].tolist() == pytest.approx(
        [-0.995345, -0.999432, -0.999576, -0.995774], abs=1e-6
    )
    assert rotation.sin[:, 0].tolist() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(rotation.cos[:100, 0], rotation.cos[100:, 0], rtol=0, atol=1e-6)
    seconds = TimeRotary(4, step="100ms", span="1h", periods=["10s"])(ticks.double() / 10**6)
    torch.testing.assert_close(seconds.sin.float(), rotation.sin, rtol=0, atol=1e-6)


# ------------------------------------------------------------ values


@given(
    second=st.integers(-(6 * 10**9), 6 * 10**9),
    rest=st.floats(0, 1, exclude_max=True),
    unit=st.sampled_from(sorted(PER_SECOND)),
    step=st.sampled_from([1e-9, 1e-3, 1.0, 1800.0]),
)
def test_angles_are_exact_for_two_centuries_in_any_unit(second, rest, unit, step):
    """The error is a billionth of a radian even where a nanosecond is one."""
    ticks = second * PER_SECOND[unit] + int(rest * PER_SECOND[unit])
    rotary = TimeRotary(10, step=step, span=1e7, periods=["24h", "29.53D"], unit=unit)
    rotation = rotary(torch.tensor([[ticks]]))
    assert rotation.cos.dtype == torch.float32
    row = pm.frequencies.timescales(3, step, 1e7)
    expected = exact_angles(ticks, PER_SECOND[unit], ["86400", "2551392"], row)
    assert rotation.cos[0].tolist() == pytest.approx([math.cos(x) for x in expected], abs=3e-7)
    assert rotation.sin[0].tolist() == pytest.approx([math.sin(x) for x in expected], abs=3e-7)
    found = time._angles(torch.tensor([[ticks]]), rotary._turns[unit])[0].tolist()
    for angle, wanted in zip(found, expected, strict=True):
        assert abs(math.remainder(angle - wanted, 2 * math.pi)) < 3e-9


def test_periods_come_first_then_a_ladder_from_step_to_span():
    rotary = TimeRotary(16, step="30min", span="1W", periods=["24h", "12h"], unit="ms")
    wanted = [2 * math.pi / 86_400, 2 * math.pi / 43_200, *ladder(6, 1800, 604_800)]
    ((*row,),) = rotary.frequencies
    assert row == pytest.approx([f / 1000 for f in wanted], rel=1e-12)
    full = TimeRotary(4, step=1, span=10, periods=["1D", "1W"])
    assert full.frequencies[0] == pytest.approx([2 * math.pi / DAY, 2 * math.pi / (7 * DAY)])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_pairs_turn_as_in_plain_loops(layout):
    rotary = TimeRotary(10, step=60, span=DAY, periods=["24h"], layout=layout, rotary_dim=6)
    at = [TODAY + stamp for stamp in STAMPS]
    angles = [exact_angles(t, 1, ["86400"], ladder(2, 60, DAY)) for t in at]
    x = noise(2, 3, len(at), 10)
    wanted = oracles.rotate(x, oracles.tensor(angles), layout)
    got = pm.rotate(x, rotary(moments(at).double()))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-7)
    assert torch.equal(got[..., 6:], x[..., 6:])


# ------------------------------------------------------------ in a host


@pytest.mark.parametrize("cuts", [[5, 1, 1, 1, 1], [4, 3, 2]], ids=str)
def test_a_model_decodes_at_moments_of_today_as_in_one_pass(cuts):
    rotary = TimeRotary(6, step="1s", span="1W", periods=["24h"])
    model = pm.Transformer(24, 2, 4, rotary=rotary, causal=True).double().eval()
    x, at = noise(2, len(STAMPS), 24), moments([TODAY + stamp for stamp in STAMPS])
    whole, cache, start, pieces = model(x, at), pm.KVCache(), 0, []
    for size in cuts:
        rows = slice(start, start + size)
        pieces.append(model(x[:, rows], at[rows], cache=cache))
        start += size
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-10)
    torch.testing.assert_close(model(x, at + YEAR), whole, rtol=0, atol=1e-5)


def test_it_holds_no_tensor_and_tells_all_its_arguments():
    rotary = TimeRotary(
        12, step="30min", span="1W", periods=["24h"], unit="us", layout="interleaved", rotary_dim=8
    )
    assert not rotary.state_dict() and not list(rotary.buffers())
    assert rotary.extra_repr() == (
        "head_dim=12, step=1800.0, span=604800.0, periods=(86400.0,), unit='us', "
        "layout='interleaved', rotary_dim=8"
    )
    at = moments([TODAY, TODAY + 0.5], "us")
    for twin in (copy.deepcopy(rotary), copy.deepcopy(rotary).half(), rotary.bfloat16()):
        assert torch.equal(twin(at).cos, rotary(at).cos) and repr(twin) == repr(rotary)


def test_compiles_and_exports_as_one_graph_for_any_length():
    rotary = TimeRotary(8, step="1s", span="1W", periods=["24h"])
    compiled = torch.compile(rotary, backend="eager", fullgraph=True, dynamic=True)
    length = torch.export.Dim("length", min=2)
    program = torch.export.export(
        rotary, (moments([0, 1, 2]),), dynamic_shapes=({0: length},), strict=True
    )
    for seconds in (STAMPS, STAMPS[:4]):
        at = moments([TODAY + second for second in seconds])
        for other in (compiled, program.module()):
            assert torch.equal(other(at)[0], rotary(at).cos)


def test_a_device_without_float64_gets_the_same(monkeypatch):
    rotary, at = TimeRotary(8, step="1s", span="1W"), moments([TODAY, TODAY + 1])
    wanted = rotary(at)
    monkeypatch.setattr(time, "_WITHOUT_FLOAT64", ("cpu",))
    assert torch.equal(rotary(at).sin, wanted.sin)


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head_dim": 7}, "rotary_dim must be even .* head_dim=7"),
        ({"head_dim": 0}, "head_dim"),
        ({"rotary_dim": 10}, "at most head_dim, got rotary_dim=10 and head_dim=8"),
        ({"periods": ["1D"] * 5}, "at most 4"),
        ({"periods": "24h"}, "periods must be a list .* got periods='24h'"),
        ({"periods": ["day"]}, "duration .*'day'"),
        ({"step": 0}, "duration must be positive"),
        ({"step": "fast"}, "duration .*'fast'"),
        ({"step": "1W"}, "span"),
        ({"unit": "h"}, "unit must be one of .* unit='h'"),
        ({"layout": "whole"}, "layout"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TimeRotary(**{"head_dim": 8, "step": "1h", "span": "1D"} | arguments)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (torch.zeros(5, 2, dtype=torch.int64), "1 axes, got shape .5, 2"),
        (torch.zeros(5, dtype=torch.int64), r"positions must be .* shape \(5,\)"),
        (torch.zeros(5, 1), "float64, got dtype torch.float32"),
        (torch.zeros(5, 1, dtype=torch.bfloat16), "bfloat16"),
        (torch.zeros(5, 1) > 0, "positions must be .*bool"),
        (torch.tensor([[0.0], [math.nan]], dtype=torch.float64), "moments must lie .*nan"),
        (torch.tensor([[math.inf]], dtype=torch.float64), "moments must lie .*inf"),
    ],
)
def test_what_cannot_be_moments_is_refused(positions, message):
    with pytest.raises(ValueError, match=message):
        TimeRotary(8, step="1h", span="1D")(positions)


def test_nanoseconds_of_today_may_be_floats():
    at = torch.tensor([[1_704_067_200 * 10**9]])
    encoding = TimeRotary(8, step="1h", span="1D", unit="ns")
    torch.testing.assert_close(encoding(at.double()).cos.float(), encoding(at).cos)
