"""Biases of grids: continuous, piecewise (iRPE), and borders for class tokens, as published."""

import math

import oracles_grid as oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm


def places(count, axes, seed=0, spread=9.0):
    noise = torch.randn(count, axes, generator=torch.Generator().manual_seed(seed))
    return noise.double() * spread


def shaken(module, seed=0):
    """Every parameter drawn wide, biases too, so that each of them shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
    return module.double()


# ------------------------------------------------------------ continuous


def layers(bias):
    into, _, out = bias.mlp
    return into.weight, into.bias, out.weight, out.bias


@pytest.mark.parametrize("window", [(8, 5), (1, 4), (7,), (2, 3, 9), None])
def test_continuous_bias_is_the_published_one_at_any_offset(window):
    kind = {"axes": 2, "convention": "cr"} if window is None else {"window": window}
    bias = shaken(pm.ContinuousBias(3, hidden=6, **kind))
    queries, keys = places(4, bias.axes), places(5, bias.axes, seed=1)
    expected = oracles.continuous(queries, keys, layers(bias), window)
    torch.testing.assert_close(bias(queries, keys), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("window", "trained"), [((3, 5), (0, 0)), ((6, 4), (3, 2)), ((1, 6), 0)])
def test_continuous_bias_is_that_of_timms_swin_v2(window, trained):
    """The table of its attention, read by its index; a window of one cell too."""
    swin = pytest.importorskip("timm.models.swin_transformer_v2")
    theirs = swin.WindowAttention(24, window, 3, pretrained_window_size=trained)
    bias = pm.ContinuousBias(3, window if not trained or not trained[0] else trained)
    bias.mlp.load_state_dict(theirs.cpb_mlp.state_dict())
    shaken(bias.mlp)
    theirs.cpb_mlp.load_state_dict(bias.mlp.state_dict())
    table = theirs.double().cpb_mlp(theirs.relative_coords_table.double()).view(-1, 3)
    expected = 16 * table[theirs.relative_position_index].sigmoid().movedim(-1, 0)
    at = pm.grid(*window)
    # its coordinates are in float32
    torch.testing.assert_close(bias(at, at).double(), expected, rtol=0, atol=3e-5)
    tabulated = bias.tabulated(at + 40, at + 40, window)
    torch.testing.assert_close(tabulated, bias(at, at), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ["swin", "cr"])
def test_continuous_bias_is_that_of_timms_relative_mlp(mode):
    layers = pytest.importorskip("timm.layers")
    theirs = layers.RelPosMlp((4, 7), 3, hidden_dim=10, mode=mode).eval()
    given = {"window": (4, 7)} if mode == "swin" else {"axes": 2}
    bias = shaken(pm.ContinuousBias(3, hidden=10, convention=mode, **given)).float()
    theirs.mlp.fc1.load_state_dict(bias.mlp[0].state_dict())
    theirs.mlp.fc2.load_state_dict(bias.mlp[2].state_dict())
    at = pm.grid(4, 7)
    torch.testing.assert_close(bias(at, at), theirs.get_bias()[0], rtol=0, atol=3e-5)


def test_continuous_bias_keeps_to_float32_in_any_cast_and_autocast():
    bias = shaken(pm.ContinuousBias(3, (8, 8), hidden=32)).bfloat16()
    wide = pm.ContinuousBias(3, (8, 8), hidden=32)
    wide.load_state_dict(bias.state_dict())
    at = pm.grid(5, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = bias(at, at)
    assert cast.dtype == torch.float32 and torch.equal(cast, wide(at, at))


def test_tables_of_a_continuous_bias_need_whole_positions_inside():
    bias, at = shaken(pm.ContinuousBias(2, (4, 4), hidden=8)), pm.grid(3, 5)
    batch = torch.stack((at, at.flip(0) + 7))
    for queries, keys, sizes in ((at[4:], at, (3, 5)), (batch, batch, (4, 6))):
        got = bias.tabulated(queries, keys, sizes)
        torch.testing.assert_close(got, bias(queries, keys), rtol=0, atol=1e-12)
    for wrong, sizes in ((at.float(), (3, 5)), (at, (3, 4)), (at, (15,)), (pm.grid(15), (15,))):
        with pytest.raises(ValueError, match="integers|offsets|sizes|axes"):
            bias.tabulated(wrong, wrong, sizes)


# ------------------------------------------------------------ iRPE

METHODS = ["product", "cross", "euclidean", "quant"]


@given(x=st.integers(-400, 400) | st.floats(-50, 50), ratio=st.sampled_from([0.7, 1.9, 3, 20]))
def test_piecewise_index_is_the_published_one(x, ratio):
    terms = {"alpha": ratio, "beta": 2 * ratio, "gamma": 8 * ratio}
    bias = shaken(pm.IRPE(1, 1, **terms))
    cell = oracles.piecewise(x, **terms) + int(2 * ratio)
    got = bias(torch.tensor([[x]]), torch.tensor([[0]]))
    assert torch.equal(got.flatten(), bias.table[cell].detach())


def test_piecewise_buckets_of_the_authors_defaults():
    """0, 1 and 2 alone, 3 with 2, and all from 4 on in one: 3.66 is the border."""
    bias = pm.IRPE(1, 1)
    with torch.no_grad():
        bias.table.copy_(torch.arange(-3.0, 4.0)[:, None])
    offsets = torch.arange(-30, 31)[:, None]
    got = bias(offsets, torch.tensor([[0]])).flatten().int().tolist()
    wanted = [0, 1, 2, 2, *[3] * 27]
    assert got[30:] == wanted and got[:31] == [-w for w in reversed(wanted)]


@pytest.mark.parametrize(
    ("method", "shape"),
    [("product", (7, 7, 1)), ("cross", (2, 7, 1)), ("euclidean", (4, 1)), ("quant", (4, 1))],
)
def test_numbers_of_buckets_at_the_authors_ratio(method, shape):
    assert pm.IRPE(5, method=method).table.shape == shape


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_irpe_on_any_axes_is_the_published_one(method, axes):
    for shared in (True, False):
        bias = shaken(pm.IRPE(3, axes, method=method, shared=shared))
        sizes = (13, 9, 2)[:axes] if axes < 3 else (3, 4, 2)
        queries, keys = pm.grid(*sizes)[::3], pm.grid(*sizes)[1::2]
        expected = oracles.irpe(queries, keys, bias.table.detach(), method)
        got = bias(queries, keys)
        torch.testing.assert_close(got, expected.expand_as(got), rtol=0, atol=1e-12)
        assert torch.equal(bias(queries + 10**9, keys + 10**9), got)


def test_irpe_tells_directions_apart_only_where_it_says():
    at = pm.grid(3, 5)
    for method in METHODS:
        got = shaken(pm.IRPE(2, method=method))(at, at)
        assert torch.equal(got, got.mT) == (method in ("euclidean", "quant"))


def test_irpe_at_far_and_broken_offsets():
    bias = shaken(pm.IRPE(2, method="quant"))
    far = bias(torch.tensor([[2**40, 0]]), torch.tensor([[0, 2**40]]))
    assert torch.equal(far.flatten(), bias.table.detach()[-1].expand(2))
    for broken in (math.nan, math.inf):
        with pytest.raises(ValueError, match="numbers"):
            bias(torch.tensor([[broken, 0.0]]), torch.zeros(1, 2))


# ------------------------------------------------------------ class tokens


def test_borders_of_a_window_table_are_beits():
    layers = pytest.importorskip("timm.layers")
    sizes = (3, 4)
    bias = shaken(pm.RelativeBias(3, sizes, prefix=True))
    table = torch.cat((bias.table.flatten(0, 1), bias.prefix))
    index = layers.gen_relative_position_index(sizes, class_token=True)
    at = pm.grid(*sizes)
    got = bias.with_prefix(bias(at, at), 1)
    assert torch.equal(got, table[index].movedim(-1, 0))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_prefix_token_has_the_border_of_its_pair(count):
    at, keys = pm.grid(2, 3), pm.grid(2, 2)
    relative = shaken(pm.RelativeBias(2, (4, 4), prefix=True))
    irpe = shaken(pm.IRPE(2, shared=False, prefix=True))
    entries = {relative: relative.prefix.unbind(), irpe: [irpe.prefix[0]] * 3}
    for bias, numbers in entries.items():
        inside = torch.stack((bias(at, keys), bias(at + 5, keys + 4)))
        got = bias.with_prefix(inside, count)
        assert got.shape == (2, 2, 6 + count, 4 + count)
        for sample in range(2):
            for head in range(2):
                border = [number[head].item() for number in numbers]
                expected = oracles.bordered(inside[sample, head].detach(), count, *border)
                assert torch.equal(got[sample, head].detach(), expected)
    shared = shaken(pm.IRPE(2, prefix=True))
    got = shared.with_prefix(shared(at, keys), 1)
    assert torch.equal(got[:, 0], shared.prefix[0].expand(2, 5))


def test_borders_are_zero_unless_learned_and_sums_add_them():
    at = pm.grid(2, 3)
    plain, learned = pm.ALiBi(2), pm.RelativeBias(2, (2, 3), prefix=True)
    parts = [plain, learned, pm.RelativeBias(2, (2, 3)), pm.IRPE(2)]
    for bias in (plain, *parts[2:]):
        wide = bias.with_prefix(bias(at, at), 2)
        assert torch.equal(wide[:, 2:, 2:], bias(at, at))
        assert not wide[:, :2].any() and not wide[:, :, :2].any()
    both = pm.BiasSum(parts)
    got = both.with_prefix(both(at, at), 2)
    assert torch.equal(got[:, 2:, 2:], both(at, at))
    border = learned.with_prefix(learned(at, at), 2)
    assert torch.equal(got[:, :2], border[:, :2])
    assert torch.equal(got[:, :, :2], border[:, :, :2])
    border.sum().backward()
    assert torch.equal(learned.prefix.grad[:, 0], torch.tensor([12.0, 12.0, 4.0]))


def test_borders_are_learned_only_where_asked_for():
    assert "prefix" not in pm.RelativeBias(2, 3).state_dict()
    assert pm.RelativeBias(2, 3, prefix=True).state_dict()["prefix"].shape == (3, 2)
    assert pm.IRPE(4, prefix=True, shared=False).state_dict()["prefix"].shape == (1, 4)
    bias = shaken(pm.RelativeBias(2, 3, prefix=True, std=0.0))
    bias.reset_parameters()
    assert not any(parameter.any() for parameter in bias.parameters())
    assert "prefix=True" in repr(bias)


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.ContinuousBias(0, (8, 8)), "heads"),
        (lambda: pm.ContinuousBias(2), "window"),
        (lambda: pm.ContinuousBias(2, (8, 0)), "window"),
        (lambda: pm.ContinuousBias(2, (8, 8), convention="cr"), "window"),
        (lambda: pm.ContinuousBias(2, (8, 8), axes=3), "axes"),
        (lambda: pm.ContinuousBias(2, axes=0, convention="cr"), "axes"),
        (lambda: pm.ContinuousBias(2, (8, 8), hidden=0), "hidden"),
        (lambda: pm.ContinuousBias(2, (8, 8), std=-1), "std"),
        (lambda: pm.ContinuousBias(2, (8, 8), convention="rw"), "convention"),
        (lambda: pm.IRPE(0), "heads"),
        (lambda: pm.IRPE(2, 0), "axes"),
        (lambda: pm.IRPE(2, method="euc"), "method"),
        (lambda: pm.IRPE(2, alpha=0), "alpha"),
        (lambda: pm.IRPE(2, alpha=4.0), "alpha"),
        (lambda: pm.IRPE(2, gamma=1.9), "gamma"),
        (lambda: pm.IRPE(2, std=math.nan), "std"),
    ],
)
def test_biases_of_grids_refuse_impossible_arguments(make, name):
    with pytest.raises(ValueError, match=name):
        make()
