"""Ladders for time, and sinusoids of any frequencies: what they promise, and that they turn."""

import math

import oracles
import oracles_time as reference
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm.frequencies import tape, timescales


def turned(code, frequencies, k, layout):
    """R(k) PE(p): each pair (sin, cos) of angle a becomes that of a + k w, by the sum rules."""
    pairs, result = len(frequencies), code.clone()
    for i, w in enumerate(frequencies):
        sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)
        c, s = math.cos(k * w), math.sin(k * w)
        result[:, sine] = c * code[:, sine] + s * code[:, cosine]
        result[:, cosine] = c * code[:, cosine] - s * code[:, sine]
    return result


# ------------------------------------------------------------ timescales


@given(
    count=st.integers(2, 40),
    step=st.sampled_from([1, 0.25, 60.0, 3600, 86_400 * 10**9]),
    times=st.floats(1.01, 1e8),
)
def test_timescales_run_from_the_step_to_the_span_by_a_constant_ratio(count, step, times):
    row = timescales(count, step, step * times)
    assert isinstance(row, tuple) and all(type(f) is float for f in row)
    assert row == pytest.approx(reference.timescales(count, step, step * times), rel=1e-9)
    assert row[0] == pytest.approx(1 / step, rel=1e-15)
    assert row[-1] == pytest.approx(1 / (step * times), rel=1e-12)
    ratios = [b / a for a, b in zip(row, row[1:], strict=False)]
    assert ratios == pytest.approx([ratios[0]] * (count - 1), rel=1e-9)


def test_timescales_depend_on_physical_time_only():
    """Half-hourly rows in seconds, in hours and in nanoseconds: the same angles."""
    week = 7 * 86_400
    seconds = torch.arange(0, week, 1800).unsqueeze(-1)
    wanted = pm.angles(seconds.double(), [timescales(9, 1800, week)])
    for parts in (1 / 3600, 10**9):
        row = timescales(9, 1800 * parts, week * parts)
        got = pm.angles(seconds.double() * parts, [row])
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-9)


def test_short_ladders():
    assert timescales(0, 1.0, 10.0) == ()
    assert timescales(1, 2.0, 10.0) == (0.5,)
    assert tape(0, 5) == ()


# ------------------------------------------------------------ tAPE


@given(count=st.integers(1, 32), length=st.integers(1, 5000))
def test_tape_is_the_published_one(count, length):
    encoding = pm.Sinusoidal(2 * count, frequencies=[tape(count, length)])
    at = torch.tensor([[0], [1], [length // 2], [length - 1]]).double()
    wanted = reference.tape(at, 2 * count, length)
    torch.testing.assert_close(encoding(at), wanted, rtol=0, atol=1e-10)


def test_tape_by_hand():
    """ConvTran at width 4 and length 8: angles p * 0.5 and p * 0.005."""
    row = pm.Sinusoidal(4, frequencies=[tape(2, 8)])(torch.tensor([[1]]).double())[0].tolist()
    wanted = [math.sin(0.5), math.cos(0.5), math.sin(0.005), math.cos(0.005)]
    assert row == pytest.approx(wanted, abs=1e-12)


def test_tape_follows_the_length_at_hand():
    """Peers keep the longest length: a short series then moves by a fraction of its angles."""
    short, long = pm.sequence(30).double(), pm.sequence(300).double()
    first = pm.Sinusoidal(16, frequencies=[tape(8, 30)])
    second = pm.Sinusoidal(16, frequencies=[tape(8, 300)])
    torch.testing.assert_close(first(short), second(10 * short), rtol=0, atol=1e-12)
    assert (first(short) - second(long[:30])).abs().max() > 0.5
    plain = pm.Sinusoidal(16, frequencies=[tape(8, 16)])
    torch.testing.assert_close(plain(short), pm.Sinusoidal(16)(short), rtol=0, atol=1e-12)


# ------------------------------------------------------------ sinusoids of any frequencies

ROWS = {
    "vaswani": None,
    "tape": tape(7, 50),
    "timescales": timescales(7, 0.5, 900.0),
    "harmonics": pm.harmonics(7, 24),
}


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("name", ROWS)
@given(p=st.integers(-1000, 1000), k=st.integers(-1000, 1000))
def test_a_step_of_k_is_one_rotation_wherever_it_starts(name, layout, p, k):
    """PE(p + k) = R(k) PE(p): not so where sine and cosine of a pair differ in frequency."""
    row = ROWS[name]
    encoding = pm.Sinusoidal(14, layout=layout, frequencies=None if row is None else [row])
    speeds = [10_000 ** (-2 * i / 14) for i in range(7)] if row is None else row
    here, there = (encoding(torch.tensor([[float(at)]]).double()) for at in (p, p + k))
    torch.testing.assert_close(turned(here, speeds, k, layout), there, rtol=0, atol=1e-10)


@given(
    axes=st.integers(1, 3),
    block=st.integers(1, 9),
    layout=st.sampled_from(["interleaved", "half"]),
    endpoint=st.booleans(),
)
def test_given_the_ladder_it_is_the_ladder_of_any_width(axes, block, layout, endpoint):
    """Odd blocks too: they end with a sine, which needs a frequency as well."""
    pairs = (block + 1) // 2
    fixed = {"endpoint": True} if endpoint else {"width": block}
    matrix = pm.axial(*[pm.geometric(pairs, **fixed)] * axes)
    encoding = pm.Sinusoidal(axes * block, axes, layout=layout, frequencies=matrix)
    at = 40 * torch.rand(5, axes).double()
    wanted = oracles.sinusoid(at, axes * block, 1e4, layout, endpoint)
    torch.testing.assert_close(encoding(at), wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dim", [1, 3, 7])
def test_odd_widths_end_with_a_sine_of_their_own_frequency(dim):
    row = timescales((dim + 1) // 2, 1.0, 100.0)
    at = torch.tensor([[13.0]]).double()
    code = pm.Sinusoidal(dim, frequencies=[row])(at)[0]
    angles = [13 * f for f in row for _ in range(2)][:dim]
    wanted = [(math.cos if i % 2 else math.sin)(a) for i, a in enumerate(angles)]
    assert code.tolist() == pytest.approx(wanted, abs=1e-12)


def test_frequencies_may_mix_axes():
    matrix = ((0.5, 0.1), (-0.25, 2.0))
    code = pm.Sinusoidal(4, 2, frequencies=matrix)(torch.tensor([[3.0, 4.0]]).double())[0]
    wanted = [math.sin(0.5), math.cos(0.5), math.sin(8.3), math.cos(8.3)]
    assert code.tolist() == pytest.approx(wanted, abs=1e-12)


def test_any_length_and_batches_first():
    """No longest length: 2000 rows after 500, per sample, from positions of a column of times."""
    encoding = pm.Sinusoidal(6, frequencies=[tape(3, 500)])
    at = torch.stack([pm.sequence(2000), pm.sequence(2000, offset=70)])
    assert encoding(at).shape == (2, 2000, 6)
    assert torch.equal(encoding(at)[1, :430], encoding(pm.sequence(500))[70:])
    assert not encoding.state_dict() and not list(encoding.buffers())


def test_the_description_names_what_was_asked():
    assert pm.Sinusoidal(6).extra_repr() == (
        "dim=6, axes=1, base=10000.0, layout='interleaved', endpoint=False"
    )
    assert pm.Sinusoidal(4, frequencies=[[1, 0.5]]).extra_repr() == (
        "dim=4, axes=1, layout='interleaved', frequencies=((1.0, 0.5),)"
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: timescales(-1, 1.0, 2.0), "count"),
        (lambda: timescales(2, 0.0, 2.0), "step"),
        (lambda: timescales(2, math.inf, 2.0), "step"),
        (lambda: timescales(2, 3.0, 3.0), "span must be .* above 3.0, got span=3.0"),
        (lambda: timescales(2, 3.0, math.nan), "span"),
        (lambda: tape(-1, 5), "count"),
        (lambda: tape(4, 0), "length"),
        (lambda: tape(4, 2.5), "length"),
        (lambda: pm.Sinusoidal(4, frequencies=[[1.0]]), r"1 rows of 2 numbers.*\[\[1.0\]\]"),
        (lambda: pm.Sinusoidal(4, frequencies=(1.0, 0.5)), r"frequencies must be 1 rows of 2"),
        (lambda: pm.Sinusoidal(5, frequencies=[[1.0, 2.0]]), "1 rows of 3"),
        (lambda: pm.Sinusoidal(4, 2, frequencies=[[1.0, 2.0]]), "2 rows of 2"),
        (lambda: pm.Sinusoidal(4, frequencies=[[1.0, math.nan]]), "frequencies must be finite"),
        (lambda: pm.Sinusoidal(4, base=10.0, frequencies=[[1.0, 2.0]]), "base"),
        (lambda: pm.Sinusoidal(4, endpoint=True, frequencies=[[1.0, 2.0]]), "endpoint"),
    ],
)
def test_refusals_name_the_argument(make, said):
    with pytest.raises(ValueError, match=said):
        make()
