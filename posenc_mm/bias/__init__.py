"""Added to the attention logits, or to the weights beside them: one file per mechanism."""

from posenc_mm.bias.alibi import ALiBi, LearnedALiBi, alibi_slopes
from posenc_mm.bias.base import AttentionBias, differences
from posenc_mm.bias.combining import BiasSum
from posenc_mm.bias.erpe import ERPE
from posenc_mm.bias.relative import RelativeBias
from posenc_mm.bias.t5 import T5Bias, t5_buckets
from posenc_mm.bias.variate import AnyVariateBias

__all__ = [
    "ALiBi",
    "AnyVariateBias",
    "AttentionBias",
    "BiasSum",
    "ERPE",
    "LearnedALiBi",
    "RelativeBias",
    "T5Bias",
    "alibi_slopes",
    "differences",
    "t5_buckets",
]
