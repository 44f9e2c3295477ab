"""Time2Vec: a line and sines, exact at any moment in any unit."""

import math
from fractions import Fraction

import oracles_time as reference
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import posenc_mm as pm
from posenc_mm.additive.time2vec import Time2Vec
from posenc_mm.frequencies import turning
from posenc_mm.timestamps import civil

NOW = 1_700_000_000


def expected(encoding, at, scale, origin):
    times = [(Fraction(p) - origin) / Fraction(scale) for (p,) in at.tolist()]
    weights, shifts = encoding.frequencies.tolist(), encoding.phases.tolist()
    return reference.time2vec(times, weights, shifts)


@given(
    dim=st.integers(1, 9),
    scale=st.sampled_from([1, 0.5, 3600, 86_400 * 10**9]),
    origin=st.sampled_from([0, NOW, NOW * 10**9]),
    after=st.lists(st.integers(-(10**7), 10**7), min_size=1, max_size=4),
)
def test_whole_moments_equal_the_published_formula(dim, scale, origin, after):
    """Nanoseconds since 1970 are beyond float64: the origin has to go first."""
    encoding = Time2Vec(dim, scale=scale, origin=origin)
    at = torch.tensor([[origin + far] for far in after])
    got, wanted = encoding(at), expected(encoding, at, scale, origin)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got[:, 1:].double(), wanted[:, 1:], rtol=0, atol=1e-6)
    torch.testing.assert_close(got[:, :1].double(), wanted[:, :1], rtol=1e-6, atol=1e-6)


@given(after=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), scale=st.floats(0.1, 1e5))
def test_fractional_moments_equal_the_published_formula(after, scale):
    encoding = Time2Vec(5, scale=scale, origin=NOW).double()
    at = torch.tensor([[NOW + far] for far in after], dtype=torch.float64)
    got = encoding(at)
    assert got.dtype == torch.float64
    wanted = expected(encoding, at, scale, NOW)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-7)


def test_the_line_comes_first_and_is_no_angle():
    encoding = Time2Vec(3)
    with torch.no_grad():
        encoding.frequencies.copy_(torch.tensor([2.0, 0.5, math.pi]))
        encoding.phases.copy_(torch.tensor([-1.0, 0.25, 0.0]))
    got = encoding(torch.tensor([[0], [100]]))
    wanted = [[-1.0, math.sin(0.25), 0.0], [199.0, math.sin(50.25), math.sin(100 * math.pi)]]
    torch.testing.assert_close(got, torch.tensor(wanted), rtol=0, atol=1e-4)
    assert got[1, 0] == 199


def test_units_and_origins_are_only_names():
    """Hours, seconds and nanoseconds, counted from 1970 or from the data: the same features."""
    hours = torch.arange(0, 72).unsqueeze(-1)
    twins = [
        (hours, {"scale": 24}),
        (hours * 3600 + NOW, {"scale": 86_400, "origin": NOW}),
        ((hours * 3600 + NOW) * 10**9, {"scale": 86_400 * 10**9, "origin": NOW * 10**9}),
        ((hours * 3600 + NOW).double(), {"scale": 86_400, "origin": NOW}),
    ]
    results = []
    for at, arguments in twins:
        torch.manual_seed(0)
        results.append(Time2Vec(8, **arguments)(at).double())
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-6)


def test_short_integers_do_not_wrap_around():
    encoding = Time2Vec(4, origin=100)
    for dtype in (torch.uint8, torch.int8, torch.int16):
        got = encoding(torch.tensor([[3], [90]], dtype=dtype))
        assert torch.equal(got, encoding(torch.tensor([[3], [90]])))


def test_low_precision_rounds_the_parameters_alone():
    encoding = Time2Vec(6, scale=3600.0, origin=NOW)
    at = torch.tensor([[NOW], [NOW + 3599], [NOW + 86_400]])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding(at), encoding(at))
        cast = encoding(at)
    assert torch.equal(cast, encoding(at))
    low = encoding.bfloat16()
    assert low(at).dtype == torch.float32
    wanted = expected(low, at, 3600, NOW)
    torch.testing.assert_close(low(at).double(), wanted, rtol=1e-6, atol=1e-6)


def test_gradients_are_those_of_the_formula():
    encoding = Time2Vec(4, scale=7.0, origin=2).double()
    at = torch.tensor([[1.5], [9.0], [40.0]], dtype=torch.float64)

    def of(frequencies, phases):
        values = {"frequencies": frequencies, "phases": phases}
        return torch.func.functional_call(encoding, values, (at,))

    start = [parameter.detach().requires_grad_() for parameter in encoding.parameters()]
    assert torch.autograd.gradcheck(of, start)


class Denied(TorchDispatchMode):
    """The CPU as a device that has no float64."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        assert getattr(result, "dtype", None) != torch.float64, function
        return result


def test_a_device_without_float64_gets_an_exact_origin_and_angles(monkeypatch):
    encoding = Time2Vec(5, scale=3600.0, origin=NOW)
    at = torch.arange(NOW - 50_000, NOW + 50_000, 777).unsqueeze(-1)
    wanted = expected(encoding, at, 3600, NOW)
    monkeypatch.setattr(civil, "_WITHOUT_FLOAT64", ("cpu",))
    monkeypatch.setattr(turning, "_WITHOUT_FLOAT64", ("cpu",))
    with Denied():
        got = encoding(at)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-5)


def test_parameters_start_standard_normal_and_are_redrawn():
    encoding = Time2Vec(40_000)
    for parameter in encoding.parameters():
        values = parameter.detach().double()
        within = [(values.abs() < z).double().mean().item() for z in (0.5, 1.0, 2.0)]
        assert within == pytest.approx([0.383, 0.683, 0.954], abs=0.01)
    before = encoding.frequencies.detach().clone()
    encoding.reset_parameters()
    assert not torch.equal(before, encoding.frequencies)
    assert set(encoding.state_dict()) == {"frequencies", "phases"}


def test_per_sample_and_empty_positions():
    encoding = Time2Vec(4, scale=5.0)
    at = torch.stack([pm.sequence(6), pm.sequence(6, offset=40), pm.sequence(6, offset=7)])
    assert torch.equal(encoding(at), torch.stack([encoding(sample) for sample in at]))
    assert encoding(at[:, :0]).shape == (3, 0, 4)


def test_the_description_names_every_argument():
    encoding = Time2Vec(4, scale=60, origin=NOW)
    assert encoding.extra_repr() == f"dim=4, scale=60.0, origin={NOW}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Time2Vec(0), "dim"),
        (lambda: Time2Vec(4, scale=0.0), "scale"),
        (lambda: Time2Vec(4, scale=math.inf), "scale"),
        (lambda: Time2Vec(4, origin=1.5), "origin must be a whole number .* origin=1.5"),
        (lambda: Time2Vec(4)(torch.zeros(5, 2)), "1 axes"),
        (lambda: Time2Vec(4)(torch.zeros(5)), "positions"),
        (lambda: Time2Vec(4)(torch.zeros(5, 1, dtype=torch.bool)), "positions"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(call, said):
    with pytest.raises(ValueError, match=said):
        call()
