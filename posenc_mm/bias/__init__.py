"""Added to the attention logits, or to the weights beside them: one file per mechanism."""

from posenc_mm.bias.alibi import ALiBi, LearnedALiBi, alibi_slopes
from posenc_mm.bias.base import AttentionBias, differences
from posenc_mm.bias.combining import BiasSum
from posenc_mm.bias.contextual import Contextual, ContextualBias, ContextualIRPE
from posenc_mm.bias.continuous import ContinuousBias
from posenc_mm.bias.deberta import DeBERTaBias
from posenc_mm.bias.decomposed import DecomposedBias
from posenc_mm.bias.erpe import ERPE
from posenc_mm.bias.forms import Factors
from posenc_mm.bias.irpe import IRPE
from posenc_mm.bias.relative import RelativeBias
from posenc_mm.bias.shaw import ShawBias
from posenc_mm.bias.t5 import T5Bias, t5_buckets
from posenc_mm.bias.transformer_xl import TransformerXLBias
from posenc_mm.bias.variate import AnyVariateBias

__all__ = [
    "ALiBi",
    "AnyVariateBias",
    "AttentionBias",
    "BiasSum",
    "Contextual",
    "ContextualBias",
    "ContextualIRPE",
    "ContinuousBias",
    "DeBERTaBias",
    "DecomposedBias",
    "ERPE",
    "Factors",
    "IRPE",
    "LearnedALiBi",
    "RelativeBias",
    "ShawBias",
    "T5Bias",
    "TransformerXLBias",
    "alibi_slopes",
    "differences",
    "t5_buckets",
]
