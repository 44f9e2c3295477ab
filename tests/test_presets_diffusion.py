"""Encodings of diffusion transformers: their formulas, and the numbers of diffusers."""

import math
from functools import partial

import oracles_allocations as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.scaling import NTK, PerAxis, RIFLEx, Unscaled, intrinsic_pair

VIDEO = (2, 3, 5)
HEADS, WIDTH = 5, 16


def cells(*sizes):
    return [(t, r, c) for t in range(sizes[0]) for r in range(sizes[1]) for c in range(sizes[2])]


def near(ours, wanted, atol=1e-12):
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol, check_dtype=False)


def read(placed, *sizes):
    return placed.encoding(placed.positions(*sizes).double())


# ------------------------------------------------------------ the formulas


@pytest.mark.parametrize(
    ("placed", "widths", "base", "sizes", "at"),
    [
        (presets.flux(128), (16, 56, 56), 1e4, (1, 3, 5), cells(1, 3, 5)),
        (presets.hunyuan_video(128), (16, 56, 56), 256.0, VIDEO, cells(*VIDEO)),
        (
            presets.qwen_image(128),
            (16, 56, 56),
            1e4,
            VIDEO,
            [(t, r - 2, c - 3) for t, r, c in cells(*VIDEO)],
        ),
        (
            presets.flux2(128),
            (32, 32, 32, 32),
            2e3,
            (*VIDEO, 2),
            [(*point, word) for point in cells(*VIDEO) for word in range(2)],
        ),
        (presets.flux(24, widths=(4, 12, 8), base=9.0), (4, 12, 8), 9.0, VIDEO, cells(*VIDEO)),
    ],
)
def test_a_ladder_for_each_axis(placed, widths, base, sizes, at):
    rotation = read(placed, *sizes)
    wanted = oracles.blocks(at, widths, base)
    near(rotation.cos, wanted.cos())
    near(rotation.sin, wanted.sin())
    assert rotation.layout == "interleaved"


@pytest.mark.parametrize(("heads", "width"), [(HEADS, 16), (3, 12), (2, 2), (4, 10), (1, 8)])
def test_ltx_counts_parts_of_the_extent_over_all_heads(heads, width):
    """Widths that six divides, and those with one and two pairs left over."""
    if heads * width < 6:
        with pytest.raises(ValueError, match="6 or more in all heads"):
            presets.ltx(width, heads)
        return
    rotation = read(presets.ltx(width, heads, base=50.0), *VIDEO)
    at = [(8 * t / 25 / 20, 32 * r / 2048, 32 * c / 2048) for t, r, c in cells(*VIDEO)]
    wanted = oracles.ltx(at, heads, width, 50.0)
    assert rotation.per_head and rotation.cos.shape == (heads, 30, width // 2)
    near(rotation.cos, wanted.cos(), 1e-11)
    near(rotation.sin, wanted.sin(), 1e-11)


@pytest.mark.parametrize("stride", [8, 1])
def test_ltx2_is_at_the_middle_of_what_a_cell_covers(stride):
    placed = presets.ltx2(WIDTH, HEADS, fps=24.0, stride=(stride, 32, 32), base=50.0)
    at = []
    for t, r, c in cells(4, 3, 5):
        frames = range(max(stride * t - stride + 1, 0), stride * t + 1)
        middle = (frames[0] + frames[-1] + 1) / 2
        at.append((middle / 24 / 20, (32 * r + 16) / 2048, (32 * c + 16) / 2048))
    wanted = oracles.ltx(at, HEADS, WIDTH, 50.0)
    near(read(placed, 4, 3, 5).cos, wanted.cos(), 1e-11)
    assert placed.encoding.layout == "half"


def test_ltx_coordinates_are_exact_in_float32():
    """Where the fastest pair turns by a thousand radians a cell, parts of an extent are not."""
    placed = presets.ltx(64, 32)
    rotation = placed.encoding(placed.positions(9, 20, 30))
    exact = read(placed, 9, 20, 30)
    near(rotation.cos, exact.cos, atol=1e-6)


def test_mochi_starts_from_rest_and_reads_centres_of_one_area():
    placed = presets.mochi(12, heads=2)
    scale = math.sqrt(192 * 192 / (3 * 5))
    wanted = [(t, scale * (r - 1.0), scale * (c - 2.0)) for t, r, c in cells(*VIDEO)]
    near(placed.positions(*VIDEO), torch.tensor(wanted), atol=1e-5)
    assert torch.equal(read(placed, *VIDEO).cos, torch.ones(2, 30, 6, dtype=torch.float64))
    frequencies = torch.randn(3, 2, 6)
    with torch.no_grad():
        placed.encoding.frequencies.copy_(frequencies.transpose(0, 1))
    at = torch.tensor(wanted, dtype=torch.float64)
    theta = sum(at[:, a, None] * frequencies[a].double()[:, None] for a in range(3))
    near(placed.encoding(at).cos, theta.cos(), atol=1e-9)


def test_a_longer_video_slows_one_pair_of_time():
    """RIFLEx on HunyuanVideo, whose frames repeat from the 50th: pair 3, counted from 0."""
    pair = intrinsic_pair(16, 256.0, repeats=50)
    assert pair == 3
    only = PerAxis([RIFLEx(pair), Unscaled(), Unscaled()])
    longer = pm.Rotary(
        128, 3, base=256.0, rotary_dim=(16, 56, 56), layout="interleaved", scaling=only, length=66
    )
    plain = presets.hunyuan_video(128).encoding
    (changed,) = {
        (a, i)
        for a in range(3)
        for i in range(64)
        if longer.frequencies[a][i] != plain.frequencies[a][i]
    }
    assert changed == (0, 3)
    near(torch.tensor(longer.frequencies[0][3]), torch.tensor(0.9 * 2 * math.pi / 66), atol=1e-7)


def test_widths_that_are_no_heads_are_refused():
    for make in (presets.flux, presets.flux2, presets.hunyuan_video, presets.qwen_image):
        with pytest.raises(ValueError, match="widths must be even and 64 in all"):
            make(64)
    with pytest.raises(ValueError, match="widths must be even and 24 in all"):
        presets.flux(24, widths=(3, 11, 10))
    with pytest.raises(ValueError, match="area must be positive"):
        presets.mochi(8, 2, area=0.0)
    with pytest.raises(ValueError, match="fps must be a finite number above"):
        presets.ltx(64, 32, fps=0.0)


# ------------------------------------------------------------ diffusers, where it is installed

models = partial(pytest.importorskip, reason="diffusers is not installed")


def queries(width, *sizes):
    return torch.randn(2, HEADS, math.prod(sizes), width)


@pytest.fixture
def turned():
    return models("diffusers.models.embeddings").apply_rotary_emb


@pytest.mark.parametrize("offset", [(0, 0, 0), (1, 3, 7)])
def test_flux(turned, offset):
    peer = models("diffusers.models.transformers.transformer_flux").FluxPosEmbed
    placed, x = presets.flux(128), queries(128, *VIDEO)
    ids = pm.grid(*VIDEO, offset=offset)
    wanted = turned(x, peer(10_000, [16, 56, 56])(ids))
    near(pm.rotate(x, placed.encoding(ids)), wanted, atol=2e-5)


def test_flux2(turned):
    peer = models("diffusers.models.transformers.transformer_flux2").Flux2PosEmbed
    placed, x = presets.flux2(128), queries(128, 1, 3, 5, 2)
    ids = placed.positions(1, 3, 5, 2) + torch.tensor([10, 0, 0, 0])
    wanted = turned(x, peer(2000, [32, 32, 32, 32])(ids))
    near(pm.rotate(x, placed.encoding(ids)), wanted, atol=2e-5)


def test_hunyuan_video(turned):
    module = models("diffusers.models.transformers.transformer_hunyuan_video")
    peer = module.HunyuanVideoRotaryPosEmbed(2, 1, [16, 56, 56], 256.0)
    placed, x = presets.hunyuan_video(128), queries(128, *VIDEO)
    wanted = turned(x, peer(torch.zeros(1, 4, 2, 6, 10)))
    near(pm.rotate(x, read(placed, *VIDEO)), wanted, atol=2e-5)


@pytest.mark.parametrize("sizes", [(1, 3, 5), (1, 4, 6), (3, 7, 2)])
def test_qwen_image(sizes):
    module = models("diffusers.models.transformers.transformer_qwenimage")
    peer = module.QwenEmbedRope(10_000, [16, 56, 56], scale_rope=True)
    of_video, of_text = peer([sizes], max_txt_seq_len=4, device=torch.device("cpu"))
    placed, x = presets.qwen_image(128), queries(128, *sizes)
    wanted = module.apply_rotary_emb_qwen(x.transpose(1, 2), of_video, use_real=False)
    near(pm.rotate(x, read(placed, *sizes)), wanted.transpose(1, 2), atol=2e-5)
    words = (torch.arange(4) + max(sizes[1] // 2, sizes[2] // 2))[:, None].expand(4, 3)
    near(placed.encoding(words).cos, of_text.real, atol=2e-6)
    near(placed.encoding(words).sin, of_text.imag, atol=2e-6)


class Wide:
    """torch, but that float32 is float64: LTX's own rounding is 3e-3 rad on its fastest pair."""

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.mark.parametrize(("heads", "width"), [(32, 64), (5, 16), (4, 10)])
def test_ltx(heads, width, monkeypatch):
    module = models("diffusers.models.transformers.transformer_ltx")
    peer = module.LTXVideoRotaryPosEmbed(heads * width)
    arguments = (torch.zeros(1, 30, heads * width), *VIDEO, (8 / 25, 32, 32))
    x, rotation = torch.randn(1, heads, 30, width), read(presets.ltx(width, heads), *VIDEO)
    wanted = module.apply_rotary_emb(x.transpose(1, 2).flatten(2), peer(*arguments))
    near(pm.rotate(x, rotation).transpose(1, 2).flatten(2), wanted, atol=2e-2)
    monkeypatch.setattr(module, "torch", Wide())
    for ours, exact in zip((rotation.cos, rotation.sin), peer(*arguments), strict=True):
        near(ours.transpose(0, 1).flatten(1).repeat_interleave(2, -1), exact[0], atol=1e-9)


@pytest.mark.parametrize("kind", ["interleaved", "split"])
def test_ltx2(kind, monkeypatch):
    module = models("diffusers.models.transformers.transformer_ltx2")
    peer = module.LTX2AudioVideoRotaryPosEmbed(
        HEADS * WIDTH, rope_type=kind, num_attention_heads=HEADS
    )
    x = torch.randn(1, HEADS, 30, WIDTH)
    turn = getattr(module, f"apply_{kind}_rotary_emb")
    layout = "half" if kind == "split" else "interleaved"
    rotation = read(presets.ltx2(WIDTH, HEADS, layout=layout), *VIDEO)
    tables = peer(peer.prepare_video_coords(1, *VIDEO, device="cpu", fps=24.0))
    wanted = turn(x.transpose(1, 2).flatten(2), tables)
    near(pm.rotate(x, rotation).transpose(1, 2).flatten(2), wanted, atol=2e-2)
    monkeypatch.setattr(module, "torch", Wide())
    tables = peer(peer.prepare_video_coords(1, *VIDEO, device="cpu", fps=24.0))
    for ours, exact in zip((rotation.cos, rotation.sin), tables, strict=True):
        if kind == "interleaved":
            ours = ours.transpose(0, 1).flatten(1).repeat_interleave(2, -1)
        near(ours, exact[0], atol=1e-9)


@pytest.mark.filterwarnings("ignore:In CPU autocast, but the target dtype is not supported")
def test_mochi():
    module = models("diffusers.models.transformers.transformer_mochi")
    frequencies = torch.randn(3, HEADS, 6) / 10
    cos, sin = module.MochiRoPE()(frequencies, *VIDEO, dtype=torch.float32)
    placed = presets.mochi(12, HEADS)
    with torch.no_grad():
        placed.encoding.frequencies.copy_(frequencies.transpose(0, 1))
    rotation = placed.encoding(placed.positions(*VIDEO))
    near(rotation.cos, cos.transpose(0, 1), atol=2e-5)
    near(rotation.sin, sin.transpose(0, 1), atol=2e-5)


def test_cosmos_stretches_time_alone(turned):
    module = models("diffusers.models.transformers.transformer_cosmos")
    peer = module.CosmosRotaryPosEmbed(48, rope_scale=(2.0, 1.0, 1.0))
    tables = peer(torch.zeros(1, 4, 2, 6, 10), fps=16)
    only = PerAxis([NTK(2.0), Unscaled(), Unscaled()])
    ours = pm.Rotary(48, 3, rotary_dim=(16, 16, 16), scaling=only)
    x = queries(48, *VIDEO)
    wanted = turned(x, tables, use_real_unbind_dim=-2)
    at = pm.grid(*VIDEO, step=(24 / 16, 1.0, 1.0))
    near(pm.rotate(x, ours(at)), wanted, atol=2e-5)
