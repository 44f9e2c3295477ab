"""Encodings made of encodings: each part as it is alone, on the axes that it reads."""

import copy
import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import posenc_mm as pm
from posenc_mm.additive.combining import Concat, Product, Sum
from posenc_mm.additive.horizon import Horizon
from posenc_mm.additive.projecting import Projected

KINDS = [Sum, Concat, Product, lambda parts, axes=None: Projected(5, parts, axes=axes)]
every = pytest.mark.parametrize("kind", KINDS, ids=["Sum", "Concat", "Product", "Projected"])


def parts(dims=(6, 6, 6)):
    """A fixed one on one axis, a learned one on another, a fixed one on two."""
    return [
        pm.Sinusoidal(dims[0]),
        pm.Learned(dims[1], 12),
        pm.Fourier(dims[2], axes=2, scale=0.1),
    ]


AXES = [[0], [2], [1, 0]]


def at(count=7, axes=3, dtype=torch.int64):
    return torch.stack([(torch.arange(count) * (a + 2)) % 11 for a in range(axes)], -1).to(dtype)


def alone(encodings, positions):
    """What each part says of its columns, as nested numbers."""
    columns = [positions[:, own] for own in AXES]
    return [e(p).double().tolist() for e, p in zip(encodings, columns, strict=True)]


# ------------------------------------------------------------ what they are


def test_a_sum_adds_its_parts_channel_by_channel():
    encodings, positions = parts(), at()
    got = Sum(encodings, AXES)(positions)
    rows = zip(*alone(encodings, positions), strict=True)
    wanted = [[math.fsum(channel) for channel in zip(*row, strict=True)] for row in rows]
    torch.testing.assert_close(got.double(), torch.tensor(wanted).double(), rtol=0, atol=1e-6)


@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=4), axes=st.booleans())
def test_side_by_side_and_products_of_any_widths(dims, axes):
    encodings = [pm.Sinusoidal(dim) for dim in dims]
    own = [[n % 2] for n in range(len(dims))] if axes else None
    positions = at(4, 2 if axes else 1)
    each = [e(positions[:, [n % 2 if axes else 0]]) for n, e in enumerate(encodings)]
    side, product = Concat(encodings, own), Product(encodings, own)
    assert (side.dim, product.dim) == (sum(dims), math.prod(dims))
    for n, row in enumerate(zip(*[e.tolist() for e in each], strict=True)):
        assert side(positions)[n].tolist() == list(itertools.chain(*row))
        wanted = [math.prod(pick) for pick in itertools.product(*row)]
        assert product(positions)[n].tolist() == pytest.approx(wanted, abs=1e-6)


def test_a_product_runs_through_its_last_part_first():
    weekend, day = pm.Learned(2, 7), pm.Sinusoidal(3)
    got = Product([weekend, day], [[0], [1]])(torch.tensor([[5, 4]]))[0]
    first, second = weekend.table[5], day(torch.tensor([[4]]))[0]
    torch.testing.assert_close(got, torch.cat((first[0] * second, first[1] * second)))


def test_a_projection_is_the_linear_map_of_its_features():
    encodings, positions = parts((6, 2, 4)), at()
    encoding = Projected(5, encodings, axes=AXES, bias=True)
    assert (encoding.width, encoding.dim) == (12, 5)
    each = alone(encodings, positions)
    features = [list(itertools.chain(*row)) for row in zip(*each, strict=True)]
    assert encoding.features(positions).double().tolist() == features
    weight, bias = (p.double().tolist() for p in (encoding.project.weight, encoding.project.bias))
    wanted = [
        [
            math.fsum(w * f for w, f in zip(line, row, strict=True)) + b
            for line, b in zip(weight, bias, strict=True)
        ]
        for row in features
    ]
    got = encoding(positions).double()
    torch.testing.assert_close(got, torch.tensor(wanted).double(), rtol=0, atol=1e-6)


def test_one_encoding_may_be_projected_by_itself():
    one, listed = Projected(4, Horizon(5)), Projected(4, [Horizon(5)])
    listed.load_state_dict(one.state_dict())
    assert torch.equal(one(pm.sequence(9)), listed(pm.sequence(9)))
    assert repr(one) == repr(listed) and one.project.bias is None


@every
def test_parts_read_all_axes_unless_told(kind):
    encodings = [pm.Fourier(4, axes=2, seed=n) for n in range(2)]
    torch.manual_seed(0)
    plain = kind(encodings)
    torch.manual_seed(0)
    told = kind(encodings, [[0, 1], [0, 1]])
    assert torch.equal(plain(at(axes=2)), told(at(axes=2)))
    torch.manual_seed(0)
    turned = kind(encodings, [[1, 0], [1, 0]])
    assert torch.equal(plain(at(axes=2)), turned(at(axes=2).flip(-1)))


# ------------------------------------------------------------ as modules


@every
def test_what_is_fixed_has_no_state_and_what_is_learned_has_no_more(kind):
    fixed, learned = kind([pm.Sinusoidal(4), Horizon(3)][:1]), kind([pm.Learned(4, 9)])
    own = 1 if isinstance(fixed, Projected) else 0
    assert len(fixed.state_dict()) == own and len(learned.state_dict()) == own + 1
    assert not list(learned.buffers())
    assert any(isinstance(module, nn.ModuleList) for module in learned.modules())


@every
def test_they_nest_and_describe_themselves_completely(kind):
    inner = Concat([pm.Learned(4, 12), Product([pm.Sinusoidal(2), Horizon(3)])], [[1], [0]])
    outer = kind([inner, pm.Fourier(8, axes=2, seed=4)], [[2, 0], [0, 1]])
    positions = at()
    assert outer(positions).shape == (7, outer.dim)
    text = outer.extra_repr()
    assert (
        "encodings=[Concat(encodings=[Learned(dim=4, sizes=(12,), joint=True, std=0.02, "
        "kernel='linear'), Product(encodings=[Sinusoidal(dim=2, axes=1, base=10000.0, "
        "layout='interleaved', endpoint=False), Horizon(context=3)], axes=None)], "
        "axes=((1,), (0,))), "
        "Fourier(dim=8, axes=2, bands='gaussian', scale=1.0, seed=4, layout='half')], "
        "axes=((2, 0), (0, 1))"
    ) in text
    other = kind([inner, pm.Fourier(8, axes=2, seed=5)], [[2, 0], [0, 1]])
    assert other.extra_repr() != text and copy.deepcopy(outer).extra_repr() == text


def test_a_projection_describes_its_own_arguments():
    encoding = Projected(3, Horizon(2), axes=[[1]], bias=True, std=0.5)
    wanted = "dim=3, encodings=[Horizon(context=2)], axes=((1,),), bias=True, std=0.5"
    assert encoding.extra_repr() == wanted


@every
def test_reset_starts_parts_of_parts_anew(kind):
    table, frozen = pm.Learned(4, 9), pm.Sinusoidal(4)
    encoding = kind([Sum([table, frozen]), pm.LearnedFourier(4)])
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.fill_(100.0)
    encoding.reset_parameters()
    assert all(parameter.abs().max() < 50 for parameter in encoding.parameters())
    assert 0 < table.table.abs().max() <= 0.04


def test_the_weights_of_a_projection_start_as_asked():
    torch.manual_seed(3)
    plain = nn.Linear(24, 40).weight
    torch.manual_seed(3)
    assert torch.equal(Projected(40, pm.Sinusoidal(24)).project.weight, plain)
    drawn = Projected(40, pm.Sinusoidal(24), bias=True, std=0.1).project
    assert drawn.weight.abs().max() <= 0.2 and drawn.weight.std().item() == pytest.approx(
        0.088, abs=0.01
    )
    assert not drawn.bias.any() and not Projected(4, Horizon(2), std=0).project.weight.any()


def test_the_same_table_may_serve_two_axes():
    table = pm.Learned(4, 9)
    encoding = Sum([table, table], [[0], [1]])
    assert len(list(encoding.parameters())) == 1
    got = encoding(torch.tensor([[2, 5]]))
    assert torch.equal(got[0], table.table[2] + table.table[5])


# ------------------------------------------------------------ dtypes


@pytest.mark.parametrize("kind", KINDS[:3], ids=["Sum", "Concat", "Product"])
def test_the_widest_part_decides_the_dtype(kind):
    """A float32 table beside features of float64 positions; a bfloat16 table beside float32."""
    table, wave = pm.Learned(4, 12), pm.Sinusoidal(4)
    for order in ([table, wave], [wave, table]):
        assert kind(order)(at(axes=1)).dtype == torch.float32
        assert kind(order)(at(axes=1).double()).dtype == torch.float64
        assert kind(order).bfloat16()(at(axes=1)).dtype == torch.float32
        table.float()
    exact = kind([wave, Horizon(5)] if kind is not Sum else [wave])(at(axes=1).double())
    assert exact.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_projection_gives_its_own_dtype_and_leaves_features_exact(dtype):
    """A ramp of 8192 rows in bfloat16 has 896 values: features stay in float32 until the map."""
    encoding = Projected(4, Horizon(8192)).to(dtype)
    rows = pm.sequence(8192)
    for positions in (rows, rows.double()):
        assert encoding(positions).dtype == dtype
    with torch.autocast("cpu", torch.bfloat16):
        features = encoding.features(rows)
        assert encoding(rows).isfinite().all()
    assert features.dtype == torch.float32 and len(features[:, 0].unique()) == 8192
    assert torch.equal(features, encoding.features(rows))


# ------------------------------------------------------------ compiled and exported


def test_tables_on_axes_compile_whole_and_export_with_any_length():
    torch._dynamo.reset()
    tables = Sum([pm.Learned(4, 12), pm.Learned(4, 12), pm.Sinusoidal(4)], AXES[:2] + [[1]])
    beside = Concat([tables, Product([pm.Learned(2, 12), pm.Sinusoidal(3)], [[1], [2]])])
    encoding = Projected(5, beside)
    graphs = []

    def counter(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(encoding, backend=counter, fullgraph=True)
    for count in (9, 4, 7, 11):
        assert torch.equal(compiled(at(count)), encoding(at(count)))
    assert len(graphs) <= 2
    assert torch.equal(compiled(at().double()), encoding(at().double()))
    length = torch.export.Dim("length", min=2, max=60)
    program = torch.export.export(encoding, (at(12),), dynamic_shapes=({0: length},), strict=True)
    torch.testing.assert_close(program.module()(at(5)), encoding(at(5)), rtol=0, atol=1e-6)


@every
def test_batches_and_nothing(kind):
    encoding = kind(parts(), AXES)
    batch = torch.stack([at(), at().flip(0)])
    for sample, result in zip(batch, encoding(batch), strict=True):
        torch.testing.assert_close(result, encoding(sample), rtol=0, atol=1e-6)
    assert encoding(batch[:, :0]).shape == (2, 0, encoding.dim)
    assert encoding(batch[:0]).shape == (0, 7, encoding.dim)


# ------------------------------------------------------------ refusals


@every
@pytest.mark.parametrize(
    ("encodings", "axes", "said"),
    [
        ([], None, "encodings must be a list of at least one AdditiveEncoding"),
        ([pm.Sinusoidal(4), nn.Linear(4, 4)], None, "AdditiveEncoding.*Linear"),
        ([pm.Rotary(4)], None, "AdditiveEncoding.*Rotary"),
        ([pm.Sinusoidal(4)] * 2, [[0]], r"each of 2 encodings, got axes=\[\[0\]\]"),
        ([pm.Sinusoidal(4)] * 2, [0, 1], r"got axes=\[0, 1\]"),
        ([pm.Sinusoidal(4)] * 2, [[0], []], r"got axes=\[\[0\], \[\]\]"),
        ([pm.Sinusoidal(4)], 0, "got axes=0"),
        ([pm.Sinusoidal(4)], [[-1]], "axes=-1"),
        ([pm.Sinusoidal(4)], [[0.5]], "axes=0.5"),
    ],
)
def test_what_cannot_be_combined_is_refused(kind, encodings, axes, said):
    with pytest.raises(ValueError, match=said):
        kind(encodings, axes)


@every
def test_positions_without_an_axis_are_refused(kind):
    encoding = kind(parts(), AXES)
    with pytest.raises(ValueError, match=r"at least 3 axes for axes=\(\(0,\), \(2,\), \(1, 0\)\)"):
        encoding(at(axes=2))
    with pytest.raises(ValueError, match="positions"):
        encoding(torch.zeros(3))
    with pytest.raises(ValueError, match="positions must be integers or floats"):
        encoding(at() > 2)
    with pytest.raises(ValueError, match="encoding of 1 axes"):
        kind([pm.Sinusoidal(4)], [[0, 1]])(at())
    with pytest.raises(ValueError, match="encoding of 1 axes"):
        kind([pm.Sinusoidal(4)])(at())
    encoding(at(axes=5))


def test_widths_and_deviations_are_checked():
    with pytest.raises(ValueError, match=r"dims \[4, 6\]"):
        Sum([pm.Sinusoidal(4), pm.Sinusoidal(6)])
    with pytest.raises(ValueError, match="AdditiveEncoding"):
        Sum(pm.Sinusoidal(4))
    with pytest.raises(ValueError, match="dim"):
        Projected(0, pm.Sinusoidal(4))
    with pytest.raises(ValueError, match="std"):
        Projected(4, pm.Sinusoidal(4), std=-1)
