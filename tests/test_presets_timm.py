"""Published encodings against the numbers of timm's own code."""

import inspect
import math

import pytest
import torch
from torch import Tensor

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.placed import Placed

GRID = (3, 5)


def read(placed: Placed, *sizes: int):
    return placed.encoding(placed.positions(*sizes))


def near(ours: Tensor, wanted: Tensor, atol: float = 2e-6) -> None:
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol)


def queries(width: int, *sizes: int) -> Tensor:
    return torch.randn(2, 3, math.prod(sizes), width)


@pytest.fixture
def layers():
    return pytest.importorskip("timm.layers.pos_embed_sincos")


@pytest.mark.parametrize("interleaved", [False, True])
def test_timm_sincos(layers, interleaved):
    wanted = layers.build_sincos2d_pos_embed(GRID, dim=16, interleave_sin_cos=interleaved)
    near(read(presets.timm_sincos(16, interleaved=interleaved), *GRID), wanted)


def test_moco_v3_is_timms_interleaved_order(layers):
    wanted = layers.build_sincos2d_pos_embed(GRID, dim=16, interleave_sin_cos=True)
    near(read(presets.moco_v3(16), *GRID), wanted)


TIMM = {
    "eva02": (presets.eva02(16), {}),
    "eva02 elsewhere": (presets.eva02(16, reference=(7, 4)), {"ref_feat_shape": [7, 4]}),
    "rope_vit_axial": (
        presets.rope_vit_axial(16),
        {"temperature": 100.0, "grid_indexing": "xy"},
    ),
    "perception_encoder": (
        presets.perception_encoder(16),
        {"grid_indexing": "xy", "grid_offset": 1.0},
    ),
    "perception_encoder elsewhere": (
        presets.perception_encoder(16, reference=(7, 4)),
        {"grid_indexing": "xy", "grid_offset": 1.0, "ref_feat_shape": [7, 4]},
    ),
    "perception_encoder without a class token": (
        presets.perception_encoder(16, class_token=False),
        {"grid_indexing": "xy"},
    ),
    "deepseek_vit": (presets.deepseek_vit(16), {"rotate_half": True}),
    "qwen3_vl": (presets.qwen3_vl(16), {"rotate_half": True}),
    "pixel log": (presets.timm_pixel(16), {"in_pixels": True}),
    "pixel linear": (
        presets.timm_pixel(16, resolution=10, bands="linear"),
        {"in_pixels": True, "linear_bands": True, "max_res": 10},
    ),
}


@pytest.mark.parametrize("name", TIMM)
def test_timm_rotary(layers, name):
    placed, arguments = TIMM[name]
    arguments = {"in_pixels": False, **arguments}
    peer = layers.RotaryEmbeddingCat(16, feat_shape=None, **arguments)
    half = arguments.get("rotate_half", False)
    x = queries(16, *GRID)
    wanted = layers.apply_rot_embed_cat(x, peer.get_embed(list(GRID)), half=half)
    near(pm.rotate(x, read(placed, *GRID)), wanted, atol=2e-4 if "pixel" in name else 1e-5)


@pytest.mark.parametrize("by", ["axis", "min", "max"])
@pytest.mark.parametrize("periods", [None, (0.5, 90.0)])
def test_timm_dinov3(layers, by, periods):
    name = {"axis": "separate"}.get(by, by)
    arguments = {"temperature": 100.0}
    if periods:
        arguments = {"min_period": periods[0], "max_period": periods[1], "temperature": None}
    peer = layers.RotaryEmbeddingDinoV3(16, normalize_coords=name, **arguments).eval()
    x = queries(16, *GRID)
    wanted = layers.apply_rot_embed_cat(x, peer.get_embed(list(GRID)), half=True)
    near(pm.rotate(x, read(presets.dinov3(16, by=by, periods=periods), *GRID)), wanted, atol=1e-5)


def test_timm_dinov3_in_training_draws_the_same_numbers(layers):
    augmentation = {"shift": 0.3, "jitter": 1.4, "rescale": 2.0}
    names = {f"{name}_coords": value for name, value in augmentation.items()}
    peer = layers.RotaryEmbeddingDinoV3(16, temperature=100.0, **names).train()
    placed = presets.dinov3(16, **augmentation)
    torch.manual_seed(3)
    wanted = peer.get_embed(list(GRID))
    torch.manual_seed(3)
    rotation = placed.encoding(placed.positions(*GRID, training=True))
    sine, cosine = wanted.chunk(2, dim=-1)
    near(rotation.cos, cosine[:, :8], atol=1e-5)
    near(rotation.sin, sine[:, :8], atol=1e-5)
    assert (rotation.cos - read(placed, *GRID).cos).abs().max() > 0.1


def test_timm_mixed(layers):
    peer = layers.RotaryEmbeddingMixed(dim=48, depth=2, num_heads=3)
    x = queries(16, *GRID)
    embeds = peer.get_embed(list(GRID))
    for block in range(2):
        placed = presets.rope_vit_mixed(16, heads=3)
        with torch.no_grad():
            placed.encoding.frequencies.copy_(peer.freqs[:, block].transpose(0, 1).flip(1))
        wanted = layers.apply_rot_embed_cat(x, embeds[block], half=False)
        near(pm.rotate(x, read(placed, *GRID)), wanted, atol=1e-5)


def test_timm_gemma4():
    gemma4 = pytest.importorskip("timm.models.gemma4_vit")
    x = queries(16, *GRID)
    at = pm.grid(*GRID).flip(-1)[None].expand(2, -1, -1)
    cos, sin = gemma4.Gemma4RotaryEmbedding2D(16)(x, at)
    wanted = gemma4.apply_multidimensional_rope(x.transpose(1, 2), cos, sin).transpose(1, 2)
    near(pm.rotate(x, read(presets.gemma4(16), *GRID)), wanted, atol=1e-5)


def test_timm_xcit():
    peer = pytest.importorskip("timm.models.xcit").PositionalEncodingFourier(hidden_dim=8, dim=24)
    placed = presets.xcit(24, hidden=8)
    with torch.no_grad():
        placed.encoding.project.weight.copy_(peer.token_projection.weight[:, :, 0, 0])
        placed.encoding.project.bias.copy_(peer.token_projection.bias)
        near(read(placed, *GRID), peer(1, *GRID)[0].flatten(1).T, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "preset"),
    [
        ("vit_pe_spatial_tiny_patch16_512", presets.perception_encoder),
        ("vit_small_patch16_rope_224", presets.rope_vit_axial),
        ("eva02_tiny_patch14_224", presets.eva02),
        ("vit_small_patch16_dinov3", presets.dinov3),
    ],
)
def test_the_models_of_timm_are_built_with_these_numbers(model, preset):
    """Not only the classes: what the published configurations ask of them."""
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        peer = timm.create_model(model, depth=1, embed_dim=48, num_heads=3)
    rope = type(peer.rope)(**kept(peer.rope))
    rope.eval()
    reference = getattr(peer.rope, "ref_feat_shape", None)
    placed = preset(16, reference=reference) if reference else preset(16)
    x = queries(16, *GRID)
    half = peer.blocks[0].attn.rotate_half
    from timm.layers import apply_rot_embed_cat

    wanted = apply_rot_embed_cat(x, rope.get_embed(list(GRID)), half=half)
    near(pm.rotate(x, read(placed, *GRID)), wanted, atol=1e-5)


def kept(rope) -> dict:
    names = ("temperature", "in_pixels", "ref_feat_shape", "grid_offset", "grid_indexing")
    names += ("rotate_half", "normalize_coords", "linear_bands", "max_res")
    wanted = set(inspect.signature(type(rope)).parameters) & set(names)
    return {"dim": 16, "feat_shape": None, **{n: getattr(rope, n) for n in wanted}}
