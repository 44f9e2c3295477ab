"""Published encodings against the numbers of transformers and diffusers."""

import math

import pytest
import torch
from torch import Tensor

import posenc_mm as pm
from posenc_mm import presets
from posenc_mm.placed import Placed

GRID, VIDEO = (3, 5), (2, 3, 5)


def read(placed: Placed, *sizes: int):
    return placed.encoding(placed.positions(*sizes))


def near(ours: Tensor, wanted: Tensor, atol: float = 2e-6) -> None:
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol)


def queries(width: int, *sizes: int) -> Tensor:
    return torch.randn(2, 3, math.prod(sizes), width)


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers")


def test_mae(transformers):
    from transformers.models.vit_mae.modeling_vit_mae import ViTMAEEmbeddings

    config = transformers.ViTMAEConfig(hidden_size=16, image_size=16, patch_size=4)
    peer = ViTMAEEmbeddings(config)
    peer.initialize_weights()
    table = peer.position_embeddings[0]
    near(read(presets.mae(16), 4, 4), table[1:], atol=1e-6)
    assert not table[0].any(), "the class token has a row of zeros"


def test_rt_detr_orders_rows_first(transformers):
    from transformers.models.rt_detr.modeling_rt_detr import RTDetrSinePositionEmbedding

    height, width = GRID
    peer = RTDetrSinePositionEmbedding(embed_dim=16)
    wanted = peer(width=width, height=height, device=torch.device("cpu"), dtype=torch.float32)[0]
    near(read(presets.moco_v3(16), *GRID), wanted)


def test_detr(transformers):
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    peer = DetrSinePositionEmbedding(num_position_features=8, normalize=True)
    wanted = peer((1, 16, *GRID), "cpu", torch.float32)
    near(read(presets.detr(16), *GRID), wanted[0].flatten(1).T, atol=5e-6)


def test_pixtral(transformers):
    from transformers.models.pixtral import modeling_pixtral as pixtral

    config = transformers.PixtralVisionConfig(hidden_size=48, num_attention_heads=3, head_dim=16)
    x = queries(16, *GRID)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(x, pm.grid(*GRID))
    wanted, _ = pixtral.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=0)
    near(pm.rotate(x, read(presets.pixtral(16), *GRID)), wanted, atol=1e-5)


@pytest.mark.parametrize("merge", [1, 2])
@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"])
def test_qwen(transformers, model, merge):
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

    if model == "qwen2_vl":
        config = transformers.models.qwen2_vl.configuration_qwen2_vl.Qwen2VLVisionConfig(
            embed_dim=48, num_heads=3, num_attention_heads=3
        )
        peer, apply = qwen2.Qwen2VLVisionRotaryEmbedding(config), qwen2.apply_rotary_pos_emb_vision
    else:
        config = transformers.models.qwen3_vl.configuration_qwen3_vl.Qwen3VLVisionConfig(
            hidden_size=48, num_heads=3, num_attention_heads=3
        )
        peer, apply = qwen3.Qwen3VLVisionRotaryEmbedding(config), qwen3.apply_rotary_pos_emb_vision
    sizes = (4, 6)
    at = qwen2.get_vision_position_ids(torch.tensor([[1, *sizes]]), merge)
    x = queries(16, *sizes)
    tokens_first = x[0].transpose(0, 1)
    wanted, _ = apply(tokens_first, tokens_first, *peer(x, at))
    rotation = read(getattr(presets, model)(16, merge=merge), *sizes)
    near(pm.rotate(x[:1], rotation)[0], wanted.transpose(0, 1), atol=1e-5)


def test_llama4(transformers):
    """Square grids only: the peer counts tokens by one side."""
    from transformers.models.llama4 import modeling_llama4 as llama4

    config = transformers.Llama4VisionConfig(
        hidden_size=48, num_attention_heads=3, image_size=16, patch_size=4
    )
    x = queries(16, 17)
    tables = llama4.Llama4VisionRotaryEmbedding(config)(x)
    wanted, _ = llama4.vision_apply_rotary_emb(x.transpose(1, 2), x.transpose(1, 2), tables)
    wanted = wanted.transpose(1, 2)
    near(pm.rotate(x[:, :, :16], read(presets.llama4(16), 4, 4)), wanted[:, :, :16], atol=1e-5)
    near(x[:, :, 16:], wanted[:, :, 16:], atol=0)


def test_gemma4(transformers):
    from transformers.models.gemma4 import modeling_gemma4 as gemma4

    config = transformers.models.gemma4.configuration_gemma4.Gemma4VisionConfig(
        hidden_size=48, num_attention_heads=3, head_dim=16
    )
    x = queries(16, *GRID)
    at = pm.grid(*GRID).flip(-1)[None].expand(2, -1, -1)
    cos, sin = gemma4.Gemma4VisionRotaryEmbedding(config)(x, at)
    wanted = gemma4.apply_multidimensional_rope(x.transpose(1, 2), cos, sin, at).transpose(1, 2)
    near(pm.rotate(x, read(presets.gemma4(16), *GRID)), wanted, atol=1e-5)


def test_dinov3(transformers):
    from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

    config = transformers.DINOv3ViTConfig(hidden_size=48, num_attention_heads=3, patch_size=4)
    height, width = GRID
    peer = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()
    x = queries(16, *GRID)
    tables = peer(torch.zeros(1, 3, 4 * height, 4 * width))
    wanted, _ = dinov3.apply_rotary_pos_emb(x, x, *tables)
    near(pm.rotate(x, read(presets.dinov3(16), *GRID)), wanted, atol=1e-5)


@pytest.mark.parametrize("width", [16, 20])
def test_vjepa2(transformers, width):
    from transformers.models.vjepa2 import modeling_vjepa2 as vjepa2

    config = transformers.VJEPA2Config(crop_size=16, patch_size=4, hidden_size=3 * width,
                                       num_attention_heads=3)  # fmt: skip
    peer = vjepa2.VJEPA2RopeAttention(config, hidden_size=3 * width, num_attention_heads=3)
    x = queries(width, 2, 4, 4)
    wanted = peer.apply_rotary_embeddings(x, peer.get_position_ids(x[:, 0]))
    near(pm.rotate(x, read(presets.vjepa2(width), 2, 4, 4)), wanted, atol=1e-5)


# ------------------------------------------------------------ diffusers, where it is installed


@pytest.fixture
def embeddings():
    return pytest.importorskip("diffusers.models.embeddings")


def test_pixart(embeddings):
    wanted = embeddings.get_2d_sincos_pos_embed(16, GRID, base_size=7, interpolation_scale=2.0)
    near(read(presets.pixart(16, reference=7, scale=2.0), *GRID), wanted.float())


def test_cogvideox_sincos(embeddings):
    time, height, width = VIDEO
    wanted = embeddings.get_3d_sincos_pos_embed(48, (width, height), time, 1.875, 2.0)
    placed = presets.cogvideox_sincos(48, spatial_scale=1.875, temporal_scale=2.0)
    near(read(placed, *VIDEO), wanted.flatten(0, 1).float())


@pytest.mark.parametrize("sizes", [(3, 2, 5), (2, 7, 4), (1, 30, 45), (2, 1, 6)])
def test_cogvideox(embeddings, sizes):
    from diffusers.pipelines.cogvideo import pipeline_cogvideox as pipeline

    crop = pipeline.get_resize_crop_region_for_grid(sizes[1:], 45, 30)
    cos, sin = embeddings.get_3d_rotary_pos_embed(32, crop, sizes[1:], sizes[0])
    x = queries(32, *sizes)
    wanted = embeddings.apply_rotary_emb(x, (cos, sin))
    near(pm.rotate(x, read(presets.cogvideox(32, reference=(30, 45)), *sizes)), wanted, atol=2e-5)
    whole = embeddings.get_3d_rotary_pos_embed(
        32, None, sizes[1:], sizes[0], grid_type="slice", max_size=(30, 45)
    )
    wanted = embeddings.apply_rotary_emb(x, whole)
    near(pm.rotate(x, read(presets.cogvideox(32), *sizes)), wanted, atol=2e-5)


def test_wan(embeddings):
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    peer = WanRotaryPosEmbed(20, (1, 2, 2), 64)
    time, height, width = VIDEO
    cos, sin = peer(torch.zeros(1, 4, time, 2 * height, 2 * width))
    x = queries(20, *VIDEO)
    wanted = embeddings.apply_rotary_emb(x, (cos[0, :, 0], sin[0, :, 0]))
    near(pm.rotate(x, read(presets.wan(20), *VIDEO)), wanted, atol=1e-5)
