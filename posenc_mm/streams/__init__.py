"""Where a token is in a stream of text, images, videos, sounds and series.

A *position design*, :class:`Layout`, says where the tokens of a row are: ``layout(Text(12),
Image(16, 24), Text(4))``. Its rules are plain arguments; :mod:`posenc_mm.streams.presets` has those
of published models by name. What comes back is a :class:`Stream`, which is continued, sliced,
pruned, packed and padded together with the tokens. Its coordinates ``(B, N, A)`` feed any encoding;
a *frequency allocation*, a matrix from :mod:`posenc_mm.frequencies`, says how fast each axis turns.
"""

from posenc_mm.streams.checking import Finding, StreamWarning, check
from posenc_mm.streams.collating import collate
from posenc_mm.streams.diffusion import cosmos3, flux1, flux2, lumina2, qwen_image
from posenc_mm.streams.interchange import from_hf, to_hf
from posenc_mm.streams.operations import join, pack, pad, select, sort
from posenc_mm.streams.presets import (
    ilrope,
    mm_rope,
    mrope_i,
    omnirope,
    qwen2_5_omni,
    qwen2_5_vl,
    qwen2_vl,
    qwen3_omni,
    qwen3_vl,
    v2pe,
    video_rope,
)
from posenc_mm.streams.rules import Layout, layout
from posenc_mm.streams.segments import Audio, Image, Modality, Points, Series, Text, Video
from posenc_mm.streams.siblings import Together
from posenc_mm.streams.stream import Stream

__all__ = [
    "Audio",
    "Finding",
    "Image",
    "Layout",
    "Modality",
    "Points",
    "Series",
    "Stream",
    "StreamWarning",
    "Text",
    "Together",
    "Video",
    "check",
    "collate",
    "cosmos3",
    "flux1",
    "flux2",
    "from_hf",
    "ilrope",
    "join",
    "layout",
    "lumina2",
    "mm_rope",
    "mrope_i",
    "omnirope",
    "pack",
    "pad",
    "qwen2_5_omni",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3_omni",
    "qwen3_vl",
    "qwen_image",
    "select",
    "sort",
    "to_hf",
    "v2pe",
    "video_rope",
]
