"""Layouts with a block of channels per axis, and what a rotation keeps to however it is called."""

import math
import warnings

import oracles
import oracles_rotary
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

import posenc_mm as pm

LAYOUTS = ["half", "interleaved", "axis_half", "vjepa2"]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def noise(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def near(a, b, atol=1e-12):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def rotary(layout, axes=2, head_dim=14, rotary_dim=12, **kwargs):
    """Blocks of an odd number of pairs, for two axes, and two channels that rest."""
    return pm.Rotary(head_dim, axes, layout=layout, rotary_dim=rotary_dim, base=50.0, **kwargs)


# ------------------------------------------------------------ blocks


@given(axes=st.integers(1, 3), each=st.integers(1, 3), rest=st.integers(0, 3))
@every_layout
def test_every_layout_is_its_definition(layout, axes, each, rest):
    width = 2 * axes * each
    encoding = rotary(layout, axes, width + rest, width)
    positions, x = noise(5, axes) * 9, noise(2, 3, 5, width + rest)
    angles = oracles.turning_angles(positions, oracles.rope_matrix(width, axes, [50.0] * axes))
    if layout == "vjepa2":
        wanted = oracles_rotary.vjepa2(x, angles, axes)
    else:
        wanted = oracles_rotary.turned(x, angles, layout, axes)
    near(pm.rotate(x, encoding(positions)), wanted)


def test_axis_half_of_one_axis_is_half():
    x, at = noise(2, 3, 5, 14), noise(5, 1) * 9
    assert torch.equal(*(pm.rotate(x, rotary(name, 1)(at)) for name in ("half", "axis_half")))


def test_axis_half_gives_scores_of_differences_only():
    q, k, at, shift = noise(1, 2, 5, 14), noise(1, 2, 5, 14, seed=1), noise(5, 2) * 9, noise(1, 2)
    turn = rotary("axis_half")
    scores = [pm.rotate(q, turn(at + s)) @ pm.rotate(k, turn(at + s)).mT for s in (0, 30 * shift)]
    near(scores[1], scores[0], 1e-10)


def test_vjepa2_is_no_rotation_and_has_no_inverse():
    """The published scores of one query and key three apart, at four places, all differ."""
    q, k = noise(1, 1, 1, 20), noise(1, 1, 1, 20, seed=1)
    turn = pm.Rotary(20, layout="vjepa2")
    at = [torch.tensor([[float(m)]], dtype=torch.float64) for m in (0, 1, 5, 20)]
    scores = torch.cat([pm.rotate(q, turn(m)) @ pm.rotate(k, turn(m + 3)).mT for m in at])
    assert (scores[1:] - scores[:1]).abs().min() > 0.1
    assert (pm.rotate(q, turn(at[2])).norm() / q.norm() - 1).abs() > 1e-2
    with pytest.raises(ValueError, match="vjepa2.*no inverse"):
        turn(at[0]).inverse()


def test_vjepa2_as_in_transformers():
    peer = pytest.importorskip("transformers.models.vjepa2.modeling_vjepa2")
    sizes, head_dim = (2, 3, 5), 64
    part = 2 * (head_dim // 3 // 2)
    at, x = pm.grid(*sizes), noise(2, 3, math.prod(sizes), head_dim, dtype=torch.float32)
    pieces = [
        peer.rotate_queries_or_keys(x[..., axis * part : (axis + 1) * part], at[:, axis].float())
        for axis in range(3)
    ]
    wanted = torch.cat((*pieces, x[..., 3 * part :]), dim=-1)
    encoding = pm.Rotary(head_dim, 3, layout="vjepa2", rotary_dim=3 * part)
    near(pm.rotate(x, encoding(at)), wanted, 2e-6)


def test_axis_half_as_in_gemma4():
    peer = pytest.importorskip("timm.models.gemma4_vit")
    at, x = pm.grid(3, 5), noise(2, 15, 4, 32, dtype=torch.float32)
    columns_first = at.flip(-1).expand(2, -1, -1)
    cos, sin = peer.Gemma4RotaryEmbedding2D(32)(x, columns_first)
    wanted = peer.apply_multidimensional_rope(x, cos, sin).transpose(1, 2)
    encoding = pm.Rotary(32, 2, base=100.0, layout="axis_half")
    near(pm.rotate(x.transpose(1, 2), encoding(columns_first)), wanted, 2e-6)


def test_blocks_need_as_many_frequencies_for_each_axis():
    with pytest.raises(ValueError, match="axis_half.*as many frequencies for each of 2 axes"):
        pm.Rotary(8, 2, layout="axis_half", frequencies=[[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    rotation = rotary("axis_half")(noise(5, 2))
    with pytest.raises(ValueError, match="blocks that divide"):
        pm.rotate(noise(1, 1, 5, 14), rotation._replace(blocks=4))


@pytest.mark.parametrize("layout", ["axis_half", "vjepa2"])
def test_encodings_without_blocks_refuse_their_layouts(layout):
    for make in (
        lambda: pm.MixedRotary(8, 2, layout=layout),
        lambda: pm.TimeRotary(8, step=1, span=9, layout=layout),
        lambda: pm.CayleySTRING(8, layout=layout),
    ):
        with pytest.raises(ValueError, match=f"layout.*{layout}"):
            make()


# ------------------------------------------------------------ however it is called


def strided(dtype, batch=2, length=5, heads=3, width=14):
    """Queries as timm cuts them from a joint projection."""
    joint = noise(batch, length, 3 * heads * width, dtype=dtype)
    return joint.reshape(batch, length, 3, heads, width).permute(2, 0, 3, 1, 4).unbind(0)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@every_layout
def test_strided_queries_turn_alike_and_lie_in_order(layout, dtype):
    """Every output is two products and a sum in float32, rounded once.

    A complex product multiplies and adds in one instruction where the processor has one.
    """
    last_bit = 5e-7 if (layout, dtype) == ("interleaved", torch.float32) else 0
    x, rotation = strided(dtype), rotary(layout)(noise(5, 2))
    turned = pm.rotate(x, rotation)
    assert turned.stride() == torch.empty_like(x).stride() and turned.dtype == dtype
    near(turned, pm.rotate(x.contiguous(), rotation), last_bit)
    assert torch.equal(turned[..., 12:], x[..., 12:])
    if layout in ("half", "interleaved"):
        pair = (
            [slice(0, 6), slice(6, 12)] if layout == "half" else [slice(0, 12, 2), slice(1, 12, 2)]
        )
        a, b = (x[..., part].float() for part in pair)
        cos, sin = rotation.cos.float(), rotation.sin.float()
        parts = (a * cos - b * sin, a * sin + b * cos)
        single = pm.rotate(x, rotation._replace(cos=cos, sin=sin))
        for part, wanted in zip(pair, parts, strict=True):
            near(single[..., part], wanted.to(dtype), last_bit)


@every_layout
def test_derivatives_of_first_and_second_order(layout):
    x = noise(1, 2, 3, 6).requires_grad_()
    cos, sin = (table.requires_grad_() for table in rotary(layout, 1, 6, 4)(noise(3, 1))[:2])

    def turned(x, cos, sin):
        return pm.rotate(x, pm.Rotation(cos, sin, layout))

    assert torch.autograd.gradcheck(turned, (x, cos, sin))
    assert torch.autograd.gradgradcheck(turned, (x, cos, sin))


@every_layout
def test_vmap_and_functional_gradients(layout):
    x, rotation = noise(4, 2, 3, 5, 14), rotary(layout)(noise(5, 2))
    near(torch.vmap(lambda y: pm.rotate(y, rotation))(x), pm.rotate(x, rotation))
    slope = torch.func.grad(lambda y: (pm.rotate(y, rotation) ** 3).sum())
    y = x[0].clone().requires_grad_()
    (pm.rotate(y, rotation) ** 3).sum().backward()
    near(torch.vmap(slope)(x)[0], y.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@every_layout
def test_autocast_changes_no_bit_of_a_partial_rotation(layout, dtype):
    x, rotation = strided(dtype), rotary(layout)(noise(5, 2))
    with torch.autocast("cpu", torch.bfloat16):
        cast = pm.rotate(x, rotation)
    assert cast.dtype == dtype and torch.equal(cast, pm.rotate(x, rotation))


@every_layout
def test_fake_and_meta_tensors_pass(layout):
    with FakeTensorMode():
        x, at = torch.empty(2, 3, 5, 14), torch.empty(5, 2)
        assert pm.rotate(x, rotary(layout)(at)).shape == x.shape
    rotation = rotary(layout)(torch.empty(5, 2, device="meta"))
    assert pm.rotate(torch.empty(2, 3, 5, 14, device="meta"), rotation).shape == (2, 3, 5, 14)


@every_layout
def test_prefix_and_keep_go_with_the_blocks(layout):
    x, rotation = noise(2, 3, 9, 14), rotary(layout)(noise(6, 2)).prefix(3)
    kept = torch.tensor([[8, 0, 4], [2, 5, 3]])
    whole = pm.rotate(x, rotation)
    assert torch.equal(whole[:, :, :3], x[:, :, :3])
    rows = torch.stack([x[b, :, kept[b]] for b in range(2)])
    some = pm.rotate(rows, rotation.keep(kept))
    near(some, torch.stack([whole[b, :, kept[b]] for b in range(2)]), 1e-15)


def test_a_compiled_model_rotates_alike_at_any_length():
    for layout in LAYOUTS:
        turn = torch.compile(pm.rotate, backend="aot_eager", fullgraph=True, dynamic=True)
        for length in (4, 7):
            x, rotation = noise(2, 3, length, 14), rotary(layout)(noise(length, 2))
            near(turn(x, rotation), pm.rotate(x, rotation))


@pytest.mark.parametrize("make", [lambda: rotary("interleaved"), lambda: rotary("axis_half")])
def test_onnx_rotates_alike_at_another_length(make, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    check_onnx(onnxruntime, make(), tmp_path / "rotary.onnx")


def test_onnx_mixes_channels_in_float32(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    check_onnx(onnxruntime, pm.CirculantSTRING(14), tmp_path / "string.onnx")


class Turned(torch.nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding

    def forward(self, x, at):
        return pm.rotate(x, self.encoding(at))


def check_onnx(onnxruntime, encoding, path):
    module, length = Turned(encoding).eval(), torch.export.Dim("length", min=2, max=60)
    inputs = {n: (noise(1, 3, n, 14).float(), 9 * noise(n, 2).float()) for n in (12, 31)}
    with warnings.catch_warnings():
        # The exporter warns of its own deprecations.
        warnings.simplefilter("ignore")
        shapes = ({2: length}, {0: length})
        program = torch.onnx.export(
            module, inputs[12], dynamic_shapes=shapes, dynamo=True, verbose=False
        )
        program.save(path)
    session = onnxruntime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]
    for pair in inputs.values():
        feed = dict(zip(names, (value.numpy() for value in pair), strict=True))
        near(torch.from_numpy(session.run(None, feed)[0]), module(*pair).detach(), 1e-5)
