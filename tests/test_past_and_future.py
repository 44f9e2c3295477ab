"""Past and future from one object, and nothing of the future in the past."""

import math
from fractions import Fraction

import oracles_time as reference
import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, Case, compared, positions
from hypothesis import given, settings
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm.additive.combining import Concat
from posenc_mm.additive.horizon import Horizon
from posenc_mm.additive.projecting import Projected
from posenc_mm.leakage import leak
from posenc_mm.timestamps import zone_of
from posenc_mm.timestamps.horizon import PastAndFuture, past_and_future

every = pytest.mark.parametrize("case", ENCODINGS, ids=str)
NAMES = ["UTC", "Europe/Berlin", "Australia/Melbourne", "America/New_York", "Asia/Kolkata"]
ZONES = {name: zone_of(name) for name in NAMES}
STEPS = {
    "15min": ("minute", 15),
    "h": ("hour", 1),
    "D": ("day", 1),
    "7D": ("day", 7),
    "MS": ("month", 1),
    "3ME": ("month end", 3),
}


def days(first, count, tz, freq="D", unit="s"):
    clock = [f"{first[:8]}{int(first[8:]) + n:02d}" for n in range(count)]
    return pm.TimeAxis(clock, tz=ZONES[tz], freq=freq, unit=unit)


# ------------------------------------------------------------ positions of both sides


@pytest.mark.parametrize("freq", STEPS)
@given(start=st.integers(0, 2**31), zone=st.sampled_from(NAMES), horizon=st.integers(1, 12))
@settings(max_examples=25)
def test_the_future_follows_the_clock_on_the_wall(freq, start, zone, horizon):
    """Python's own calendar, from any moment of 1970 to 2038 on the grid of the frequency."""
    clock, _ = reference.wall(Fraction(start), zone)
    if "M" in freq:
        clock = clock.replace(day=1, hour=0)
    first = clock.replace(minute=clock.minute // 15 * 15, second=0)
    axis = pm.TimeAxis([first], tz=ZONES[zone], freq=freq, unit="s", ambiguous="earlier")
    if freq == "3ME":
        axis = pm.TimeAxis([first], tz=ZONES[zone], freq="ME", unit="s").extend(1)
        axis = pm.TimeAxis(axis.ticks, tz=ZONES[zone], unit="s", freq=freq)
    both = past_and_future(axis, horizon)
    unit, multiple = STEPS[freq]
    last = Fraction(int(axis.ticks[-1]))
    wanted = reference.following(last, horizon, unit, multiple, zone)
    assert both.moments[1:, 0].tolist() == wanted
    assert both.rows[:, 0].tolist() == list(range(horizon + 1))


@pytest.mark.parametrize(
    ("first", "tz", "hours"),
    [
        ("2024-04-05", "Australia/Melbourne", [24, 24, 25, 24, 24]),
        ("2024-10-04", "Australia/Melbourne", [24, 24, 23, 24, 24]),
        ("2024-03-29", "Europe/Berlin", [24, 24, 23, 24, 24]),
        ("2024-10-25", "Europe/Berlin", [24, 24, 25, 24, 24]),
        ("2024-10-25", "UTC", [24] * 5),
    ],
)
def test_a_day_across_a_change_of_clocks_has_23_or_25_hours(first, tz, hours):
    axis = days(first, 2, tz)
    calendar = past_and_future(axis, 4, unit="h").moments
    assert calendar.diff(dim=0)[:, 0].tolist() == hours
    assert past_and_future(axis, 4, unit="h", step="fixed").moments.diff(dim=0)[1:].unique() == 24
    local = pm.TimeAxis(past_and_future(axis, 4).moments[:, 0], tz=ZONES[tz], unit="s")
    assert local.field("hour").tolist() == [0] * 6


def test_moments_are_ticks_where_they_are_whole():
    axis = pm.TimeAxis([10**18, 10**18 + 10**6], tz="UTC", unit="ns", freq="1ms")
    both = past_and_future(axis, 2, unit="ns")
    assert both.positions.dtype == torch.int64
    wanted = [[10**18 + n * 10**6, n] for n in range(4)]
    assert both.positions.tolist() == wanted
    fine = past_and_future(axis, 2, unit="s")
    assert fine.positions.dtype == torch.float64
    assert fine.rows[:, 0].tolist() == [0, 1, 2, 3]


def test_what_is_known_and_what_is_told():
    both = past_and_future(days("2024-01-01", 5, "UTC"), 3)
    assert isinstance(both, PastAndFuture) and both.past == 5
    assert both.is_future.tolist() == [False] * 5 + [True] * 3
    assert both.positions.shape == (8, 2)
    assert torch.equal(torch.cat((both.moments, both.rows), 1), both.positions)
    assert past_and_future(days("2024-01-01", 5, "UTC"), 0).is_future.tolist() == [False] * 5


def test_a_loader_stacks_several_series():
    series = [past_and_future(days("2024-01-01", n, "UTC"), 8 - n) for n in (5, 6)]
    both = torch.utils.data.default_collate(series)
    for name in ("moments", "rows", "is_future"):
        wanted = torch.stack([getattr(one, name) for one in series])
        assert torch.equal(getattr(both, name), wanted)


@given(horizons=st.lists(st.integers(0, 60), min_size=2, max_size=4))
@settings(max_examples=25)
def test_the_past_is_the_same_for_any_horizon(horizons):
    axis = days("2024-03-26", 4, "Europe/Berlin")
    wanted = past_and_future(axis, 0).positions
    encoding = Concat([pm.Sinusoidal(6), Horizon(4)], axes=[[0], [1]])
    for horizon in horizons:
        both = past_and_future(axis, horizon)
        assert torch.equal(both.positions[:4], wanted)
        assert torch.equal(encoding(both.positions)[:4], encoding(wanted))
    assert torch.equal(wanted[:, :1], axis.positions("s"))


def test_a_window_s_future_is_what_comes_next():
    """Windows of a year of hours, across both changes of clocks, and its end."""
    first = days("2024-01-01", 1, "Europe/Berlin", freq="h")
    ticks = torch.cat((first.ticks, first.extend(8783).ticks))
    axis = pm.TimeAxis(ticks, tz=ZONES["Europe/Berlin"], unit="s", freq="h")
    for start in (0, 2100, 7100, 8500):
        both = past_and_future(axis[start : start + 48], 24)
        assert torch.equal(both.moments[:, 0], axis.ticks[start : start + 72])
        assert both.rows[:, 0].tolist() == list(range(72))
    assert len(past_and_future(axis, 24).positions) == 8808


def test_a_gap_in_the_past_moves_rows_but_not_moments():
    axis = pm.TimeAxis([0, 3600, 7200, 36_000], tz="UTC", unit="s", freq="h")
    both = past_and_future(axis, 2)
    assert both.positions.tolist() == [
        *([0, 0], [3600, 1], [7200, 2], [36_000, 3]),
        *([39_600, 4], [43_200, 5]),
    ]


def test_the_past_alone_needs_no_frequency():
    irregular = pm.TimeAxis([0, 61, 3607, 90_013], tz="UTC", unit="s")
    both = past_and_future(irregular, 0)
    assert both.positions.tolist() == [[0, 0], [61, 1], [3607, 2], [90_013, 3]]
    with pytest.raises(ValueError, match="state freq"):
        past_and_future(irregular, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda axis: past_and_future(axis, -1), "horizon"),
        (lambda axis: past_and_future(axis, 1.5), "horizon"),
        (lambda axis: past_and_future(axis, 2, step="wall"), "step must be .*'wall'"),
        (lambda axis: past_and_future(axis, 2, unit="fortnight"), "fortnight"),
        (lambda axis: past_and_future(axis[:0], 2), "0 stamps"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(call, said):
    with pytest.raises(ValueError, match=said):
        call(days("2024-01-01", 8, "UTC"))


# ------------------------------------------------------------ rows before and after the present


@given(context=st.integers(1, 10_000), rows=st.lists(st.integers(-9, 30_000), min_size=1))
def test_the_horizon_is_the_published_ramp_and_a_sign(context, rows):
    at = torch.tensor(rows).unsqueeze(-1)
    wanted = reference.horizon(at, context)
    for dtype in (torch.int64, torch.int16, torch.float32, torch.float64):
        got = Horizon(context)(at.to(dtype))
        assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(got.double(), wanted, rtol=1e-6, atol=1e-7)
    assert Horizon(context)(torch.tensor([[0], [context - 1], [context]]))[:, 1].tolist() == [
        *(0, 0, 1),
    ]


def test_the_horizon_tells_neighbours_apart_in_long_windows():
    """Past -1 up to just below 0, future from 0; as bytes and in bfloat16 too."""
    code = Horizon(8192)(pm.sequence(9000))
    assert len(code[:, 0].unique()) == 9000 and code[0].tolist() == [-1, 0]
    assert Horizon(200)(torch.tensor([[3]], dtype=torch.uint8)).tolist()[0][0] == pytest.approx(
        -0.985
    )
    assert Horizon(3)(torch.tensor([[4.0]]).bfloat16()).dtype == torch.float32
    assert not Horizon(5).state_dict() and Horizon(5).extra_repr() == "context=5"
    for call in (lambda: Horizon(0), lambda: Horizon(2)(torch.zeros(5, 2))):
        with pytest.raises(ValueError, match="context|1 axes"):
            call()


# ------------------------------------------------------------ leakage


LEAKING = {
    "sum from the end": lambda x: x.flip(-2).cumsum(-2).flip(-2),
    "next row": lambda x: x.roll(-1, -2),
    "mean": lambda x: x - x.mean(-2, keepdim=True),
    "range": lambda x: x / (x.amax(-2, keepdim=True) - x.amin(-2, keepdim=True)),
    "largest": lambda x: x / x.amax(-2, keepdim=True),
    "smallest": lambda x: x - x.amin(-2, keepdim=True),
    "last row only": lambda x: x + x[..., -1:, :] * 1e-3,
    "not a number": lambda x: torch.where(x[..., -1:, :] > 0, x, math.nan),
}
KEEPING = {
    "running sum": lambda x: x.cumsum(-2),
    "row by row": lambda x: x.sin(),
    "running largest": lambda x: x.cummax(-2).values,
    "in place": lambda x: x.mul_(2),
    "constant": lambda x: torch.zeros_like(x),
    "warming up": lambda x: torch.where(torch.arange(9)[:, None] < 2, math.nan, x.cumsum(-2)),
}


@pytest.mark.parametrize("name", LEAKING)
@pytest.mark.parametrize("first", [1, 5, 8])
def test_a_function_that_looks_ahead_is_caught(name, first):
    """Also where the largest value is in the past, or one last row decides."""
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    x[:, 0] *= 10
    assert leak(LEAKING[name], x, first) > 0
    assert leak(LEAKING[name], x[0, :, :1], first) > 0


@pytest.mark.parametrize("name", KEEPING)
def test_a_function_that_does_not_is_at_zero(name):
    x = torch.randn(2, 9, 3)
    for first in (1, 5, 8):
        assert leak(KEEPING[name], x, first) == 0
    holes = x.masked_fill((x > 0.5) & (torch.arange(9) < 8)[:, None], math.nan)
    assert leak(KEEPING[name], holes, 6) == 0
    assert 0 < leak(lambda x: x + x[:, -1:], holes, 6) < 100


def test_the_size_of_a_leak_and_whole_numbers():
    x = torch.tensor([[4], [7], [9], [1]])
    assert leak(lambda x: x + x[-1], x, 2) == 6
    assert leak(lambda x: torch.cat((x[:2] * 1.0, x[2:] * math.nan)), x, 2) == 0
    assert leak(lambda x: torch.where(x[-1:] == 9, math.inf, x.double()), x, 3) == math.inf
    state, kept = torch.get_rng_state(), x.clone()
    leak(lambda x: x.double(), x.double(), 2)
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(x, kept)


def evaluated(case: Case, module):
    """Outputs at positions, rows in the last place but one; of a bias the rows and keys known."""
    if case.kind == "rotary":
        return lambda at: torch.cat(module(at)[:2], dim=-1)
    if case.kind == "bias":
        known = torch.arange(12) < 8
        return lambda at: compared(module, at, at)[..., known].double()
    return module


@every
def test_no_encoding_of_the_past_depends_on_positions_of_the_future(case: Case):
    torch.manual_seed(0)
    at = positions(12, case.axes)
    assert leak(evaluated(case, case.make()), at, first=8) == 0
    exact = evaluated(case, case.make().double())
    assert leak(lambda at: exact(at.double()), at, first=8) == 0


@every
def test_a_causal_host_leaks_neither_tokens_nor_positions(case: Case):
    model = pm.Transformer(DIM, 2, HEADS, causal=True, **{case.kind: case.make()}).eval()
    at, x = positions(12, case.axes), torch.randn(2, 12, DIM)
    assert leak(lambda x: model(x, at), x, first=8) == 0
    assert leak(lambda at: model(x, at), at, first=8) == 0


def test_a_host_without_a_causal_rule_is_caught():
    model = pm.Transformer(DIM, 1, HEADS, additive=Projected(DIM, Horizon(8))).eval()
    x, at = torch.randn(2, 12, DIM), pm.sequence(12)
    assert leak(lambda x: model(x, at), x, first=8) > 0.01
    assert leak(lambda at: model(x, at), at, first=8) > 1e-4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: leak(torch.sin, torch.randn(5, 2), 0), "first=0"),
        (lambda: leak(torch.sin, torch.randn(5, 2), 5), r"first=5 and shape \(5, 2\)"),
        (lambda: leak(torch.sin, torch.randn(5), 2), r"shape \(5,\)"),
        (lambda: leak(lambda x: x.sum(-2), torch.randn(2, 5, 3), 2), "5 rows of inputs"),
        (lambda: leak(lambda x: x[:, 1:], torch.randn(2, 5, 3), 2), r"shape \(2, 4, 3\)"),
        (lambda: leak(lambda x: x, torch.ones(5, 2).long(), 2), "must change over time"),
    ],
)
def test_what_cannot_be_judged_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
