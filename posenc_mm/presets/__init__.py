"""Published encodings by name: the right numbers, and the coordinates that they are read at.

Every function returns a :class:`posenc_mm.placed.Placed`: an encoding of this library, and what
makes its positions for a grid of any size. ``placed.encoding(placed.positions(4, 6))`` is the
encoding of 4 x 6 patches, and a host takes ``placed`` itself. Nothing here is a new encoding: two
functions that differ in name alone say that two models share one.
"""

from posenc_mm.presets.axial import eva02, fit, llama4, perception_encoder, rope_vit_axial
from posenc_mm.presets.diffusion import flux, flux2, hunyuan_video, mochi, qwen_image
from posenc_mm.presets.halves import deepseek_vit, gemma4, pixtral, qwen2_vl, qwen3_vl
from posenc_mm.presets.language import (
    ernie45_vl,
    glm4v_text,
    qwen2_5_vl_text,
    qwen2_vl_text,
    qwen3_5_text,
    qwen3_vl_text,
)
from posenc_mm.presets.learned import rope_vit_mixed, xcit
from posenc_mm.presets.ltx import ltx, ltx2
from posenc_mm.presets.normalised import dinov3, timm_pixel
from posenc_mm.presets.proposals import hope, mh_rope, mm_rope, video_rope
from posenc_mm.presets.sincos import big_vision, detr, mae, moco_v3, pixart, timm_sincos
from posenc_mm.presets.video import cogvideox, cogvideox_sincos, vjepa2, vjepa_sincos, wan

__all__ = [
    "big_vision",
    "cogvideox",
    "cogvideox_sincos",
    "deepseek_vit",
    "detr",
    "dinov3",
    "ernie45_vl",
    "eva02",
    "fit",
    "flux",
    "flux2",
    "gemma4",
    "glm4v_text",
    "hope",
    "hunyuan_video",
    "llama4",
    "ltx",
    "ltx2",
    "mae",
    "mh_rope",
    "mm_rope",
    "mochi",
    "moco_v3",
    "perception_encoder",
    "pixart",
    "pixtral",
    "qwen2_5_vl_text",
    "qwen2_vl",
    "qwen2_vl_text",
    "qwen3_5_text",
    "qwen3_vl",
    "qwen3_vl_text",
    "qwen_image",
    "rope_vit_axial",
    "rope_vit_mixed",
    "timm_pixel",
    "timm_sincos",
    "video_rope",
    "vjepa2",
    "vjepa_sincos",
    "wan",
    "xcit",
]
