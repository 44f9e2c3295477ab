"""Added to the attention logits: one file per mechanism."""

from posenc_mm.bias.alibi import ALiBi, LearnedALiBi, alibi_slopes
from posenc_mm.bias.base import AttentionBias, differences
from posenc_mm.bias.relative import RelativeBias
from posenc_mm.bias.t5 import T5Bias, t5_buckets

__all__ = [
    "ALiBi",
    "AttentionBias",
    "LearnedALiBi",
    "RelativeBias",
    "T5Bias",
    "alibi_slopes",
    "differences",
    "t5_buckets",
]
