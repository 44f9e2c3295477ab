"""Rotations of many tokens in eager mode: the same numbers, what backward keeps, and where."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

import posenc_mm as pm
from posenc_mm.rotary import eager, turning

LAYOUTS = ["interleaved", "half", "axis_half"]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def noise(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def tables(layout, *lead, length=7, pairs=6, dtype=torch.float32):
    turn = noise(*lead, length, pairs, seed=3) * 9
    blocks = 2 if layout == "axis_half" else 1
    per_head = 3 in lead
    return pm.Rotation(turn.cos().to(dtype), turn.sin().to(dtype), layout, per_head, blocks)


def members(layout):
    """Channels of the first and the second member of each of six pairs."""
    if layout == "interleaved":
        return list(range(0, 12, 2)), list(range(1, 12, 2))
    if layout == "half":
        return list(range(6)), list(range(6, 12))
    return [0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]


def by_hand(x, rotation):
    first, second = members(rotation.layout)
    cos, sin = rotation.cos.double(), rotation.sin.double()
    if not rotation.per_head and cos.ndim > 2:
        cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    out = x.double().clone()
    a, b = x[..., first].double(), x[..., second].double()
    out[..., first], out[..., second] = a * cos - b * sin, a * sin + b * cos
    return out


def near(a, b):
    """To the last bit, which depends on whether one instruction multiplies and adds."""
    return torch.allclose(a.double(), b.double(), rtol=torch.finfo(a.dtype).eps, atol=1e-15)


@pytest.fixture(params=[10**6, 40], ids=["whole", "in pieces"])
def at_once(request, monkeypatch):
    """Take the way of many tokens for few, wholly or in pieces."""
    monkeypatch.setattr(eager, "FEW", 0)
    monkeypatch.setattr(eager, "PIECE", request.param)
    calls = []
    for module, name in ((eager, "turn_into"), (turning, "turn_numbers")):
        way = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, way=way: (calls.append(a), way(*a))[1])
    yield calls
    assert calls, "the way under test was not taken"


WHOSE = {"all": (), "samples": (2,), "heads": (3,), "both": (2, 3)}


def shapes(dtype):
    """Twelve channels and two that pass, 3 heads of 7 tokens: in order, strided, and odd."""
    joint = noise(2, 7, 3, 15, dtype=dtype)
    yield joint[..., :14].transpose(1, 2).contiguous()
    yield joint[..., :14].transpose(1, 2)
    yield joint[..., 1:].transpose(1, 2)


@pytest.mark.parametrize("whose", WHOSE)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@every_layout
def test_pairs_turn_as_defined(at_once, layout, dtype, whose):
    wide = torch.promote_types(dtype, torch.float32)
    rotation = tables(layout, *WHOSE[whose], dtype=wide)
    for x in shapes(dtype):
        turned, wanted = pm.rotate(x, rotation), by_hand(x, rotation)
        assert turned.dtype == dtype and turned.shape == x.shape
        assert turned.stride() == torch.empty_like(x).stride(), "in the order of x, without gaps"
        # Rounded once: half a step of the dtype, and what is left of the wider arithmetic.
        half_a_step = torch.finfo(dtype).eps / 2 if dtype != wide else 0.0
        exact = 8 * torch.finfo(wide).eps
        torch.testing.assert_close(turned.double(), wanted, rtol=half_a_step, atol=exact)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_neighbours_at_an_odd_place_in_memory_turn_as_defined(dtype):
    """Contiguous, and yet no complex numbers can be seen in them."""
    x = noise(2 * 3 * 7 * 12 + 1, dtype=dtype)[1:].view(2, 3, 7, 12)
    assert x.is_contiguous() and x.storage_offset() == 1
    rotation = tables("interleaved", dtype=torch.promote_types(dtype, torch.float32))
    half_a_step = torch.finfo(dtype).eps / 2 if dtype == torch.bfloat16 else 0.0
    exact = 8 * torch.finfo(rotation.cos.dtype).eps
    for turned in (pm.rotate(x, rotation), pm.rotate_(x.clone(), rotation)):
        torch.testing.assert_close(
            turned.double(), by_hand(x, rotation), rtol=half_a_step, atol=exact
        )


# Torch's own rules for forward derivatives are scripted.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")
@every_layout
def test_derivatives_of_first_and_second_order(at_once, layout):
    x = noise(2, 3, 7, 14).requires_grad_()
    rotation = tables(layout, dtype=torch.float64)
    turn = lambda x: pm.rotate(x, rotation)  # noqa: E731
    assert torch.autograd.gradcheck(turn, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(turn, (x,))


@every_layout
def test_transforms_of_functions(at_once, layout):
    rotation = tables(layout, dtype=torch.float64)
    x = noise(4, 2, 3, 7, 14)
    wanted = torch.stack([by_hand(each, rotation) for each in x])
    for dim in (0, 2):
        turned = torch.vmap(lambda y: pm.rotate(y, rotation), dim, dim)(x.movedim(0, dim))
        torch.testing.assert_close(turned.movedim(dim, 0), wanted)
    many = tables(layout, 4, dtype=torch.float64)

    def turn(y, cos, sin):
        return pm.rotate(y, rotation._replace(cos=cos, sin=sin))

    turned = torch.vmap(turn)(x, many.cos, many.sin)
    each = [
        by_hand(y, rotation._replace(cos=c, sin=s)) for y, c, s in zip(x, *many[:2], strict=True)
    ]
    torch.testing.assert_close(turned, torch.stack(each))
    turned = torch.vmap(turn, (None, 0, 0))(x[0], many.cos, many.sin)
    torch.testing.assert_close(turned[0], each[0])
    slope = torch.vmap(torch.func.grad(lambda y: (pm.rotate(y, rotation) ** 3).sum()))(x)
    y = x.clone().requires_grad_()
    (torch.stack([by_hand(each, rotation) for each in y]) ** 3).sum().backward()
    torch.testing.assert_close(slope, y.grad)


@every_layout
def test_in_place_and_out(at_once, layout):
    for dtype in (torch.float64, torch.bfloat16):
        rotation = tables(layout, dtype=torch.promote_types(dtype, torch.float32))
        for x in shapes(dtype):
            wanted = pm.rotate(x, rotation)
            out = torch.full_like(x, 9.0)
            assert pm.rotate(x, rotation, out=out) is out and near(out, wanted)
            place = x.clone(memory_format=torch.preserve_format)
            assert pm.rotate(place, rotation, out=place) is place and near(place, wanted)
            place = x.clone()
            assert pm.rotate_(place, rotation) is place and near(place, wanted)
    leaf = noise(2, 3, 7, 14).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        pm.rotate_(leaf, rotation)
    turned = pm.rotate_(leaf * 2, rotation)
    (turned**2).sum().backward()
    torch.testing.assert_close(leaf.grad, 8 * leaf.detach())
    exponent = leaf.exp()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        pm.rotate_(exponent, rotation).sum().backward()  # exp needs what it returned


# ------------------------------------------------------------ where this is not the way


def test_out_is_refused_where_it_would_lose_something():
    x, rotation = noise(2, 3, 7, 14), tables("half", dtype=torch.float64)
    with pytest.raises(ValueError, match="out must be like x.*float64.*got.*float32"):
        pm.rotate(x, rotation, out=torch.empty(2, 3, 7, 14))
    with pytest.raises(ValueError, match="out must be like x"):
        pm.rotate(x, rotation, out=torch.empty(3, 7, 14, dtype=torch.float64))
    with pytest.raises(ValueError, match="no part in gradients.*no_grad"):
        pm.rotate(x.requires_grad_(), rotation, out=torch.empty_like(x))
    with torch.no_grad():
        pm.rotate(x, rotation, out=torch.empty_like(x))


def test_what_is_more_than_pairs_turns_in_place_too():
    x, at = noise(2, 3, 35, 12), pm.grid(5, 7)
    for encoding in (pm.CayleySTRING(12, 2), pm.LieRE(12, 2, block=4), pm.MixedRotary(12, 3)):
        rotation = encoding.double()(at)
        wanted = pm.rotate(x, rotation)
        assert torch.equal(pm.rotate_(x.clone(), rotation), wanted)


@every_layout
def test_learned_angles_keep_their_gradients(layout, monkeypatch):
    monkeypatch.setattr(eager, "FEW", 0)
    x, rotation = noise(2, 3, 7, 14), tables(layout, dtype=torch.float64)
    cos = rotation.cos.clone().requires_grad_()
    pm.rotate(x, rotation._replace(cos=cos)).square().sum().backward()
    again = rotation.cos.clone().requires_grad_()
    by_hand(x, rotation._replace(cos=again)).square().sum().backward()
    torch.testing.assert_close(cos.grad, again.grad)

    def loss(cos):
        return pm.rotate(x, rotation._replace(cos=cos)).square().sum()

    torch.testing.assert_close(torch.func.grad(loss)(rotation.cos), again.grad)


@every_layout
def test_compilers_and_exporters_see_real_arithmetic(layout):
    class Turning(torch.nn.Module):
        def forward(self, x):
            encoding = pm.Rotary(64, 2 if layout == "axis_half" else 1, layout=layout)
            at = pm.grid(8, 32) if layout == "axis_half" else pm.sequence(x.shape[-2])
            return pm.rotate(x, encoding(at)), pm.rotate_(x.clone(), encoding(at))

    x = torch.randn(2, 48, 256, 64)
    assert x.numel() > eager.FEW
    program = torch.export.export(Turning(), (x,))
    kinds = {
        node.meta["val"].dtype
        for node in program.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor)
    }
    assert kinds and not any(kind.is_complex for kind in kinds)
    for ours, exported in zip(Turning()(x), program.module()(x), strict=True):
        torch.testing.assert_close(ours, exported, atol=2e-6, rtol=0)


# ------------------------------------------------------------ memory


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_backward_keeps_the_angles_alone(layout):
    q = torch.randn(2, 8, 1024, 64, requires_grad=True)
    rotation, kept = pm.Rotary(64, layout=layout)(pm.sequence(1024)), []
    assert q.numel() > eager.FEW
    with saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        turned = pm.rotate(q, rotation)
    assert sum(each.nbytes for each in kept) <= 2 * rotation.cos.nbytes
    turned.sum().backward()


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_peak_memory_is_what_goes_in_and_comes_out(layout, dtype):
    """Forward and backward: the two results, then their gradients' turn, and a tenth more."""
    q, k = (torch.randn(4, 12, 2048, 64, dtype=dtype, requires_grad=True) for _ in range(2))
    rotation = pm.Rotary(64, layout=layout)(pm.sequence(2048))
    grads = [torch.randn_like(q), torch.randn_like(k)]

    def step():
        torch.autograd.backward([pm.rotate(q, rotation), pm.rotate(k, rotation)], grads)
        q.grad = k.grad = None

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    now = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    size = q.numel() * q.element_size()
    assert most <= 4 * size * 1.1, most / size
