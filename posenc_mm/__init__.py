"""posenc_mm: positional encodings for every modality, as PyTorch modules.

An encoding maps positions to what is applied: something added to the tokens (additive), a rotation
of queries and keys (rotary), or something added to the attention logits (bias).

Shapes use the same letters everywhere: B batch, H heads, N query tokens, M key tokens, A axes of
the positions, F frequencies (pairs of channels), D channels; K counts key heads, kept tokens or
documents where they differ from these. Queries, keys and values are ``(B, H, N, D)``, positions
``(..., N, A)`` with axes in tensor order: time, row, column.

Positions of a series are moments: seconds (or another unit) since 1970-01-01T00:00 UTC, in int64 or
float64, ``(..., N, 1)``. Encodings of time read clocks and calendars off them.

A ``layout`` says where the two members of a pair of channels sit: ``"interleaved"`` side by side,
``"half"`` half the width apart. Defaults are those of each encoding's authors or most used peers.
"""

from posenc_mm.additive import (
    AdditiveEncoding,
    Calendar,
    Concat,
    Conditional,
    ConditionalEncoding,
    Fourier,
    Holidays,
    Horizon,
    Learned,
    LearnedFourier,
    LearnedSeasonal,
    OnCalendar,
    Product,
    Projected,
    Seasonal,
    Sinusoidal,
    Sum,
    Time2Vec,
    WindowedLearned,
)
from posenc_mm.attention import attend
from posenc_mm.bias import (
    ERPE,
    IRPE,
    ALiBi,
    AnyVariateBias,
    AttentionBias,
    BiasSum,
    Contextual,
    ContextualBias,
    ContextualIRPE,
    ContinuousBias,
    DeBERTaBias,
    DecomposedBias,
    LearnedALiBi,
    RelativeBias,
    ShawBias,
    T5Bias,
    TransformerXLBias,
    alibi_slopes,
    t5_buckets,
)
from posenc_mm.cache import KVCache
from posenc_mm.converting import convert_checkpoint
from posenc_mm.frequencies import (
    angles,
    axial,
    gaussian,
    geometric,
    harmonics,
    linear,
    mixed,
    octaves,
    tape,
    timescales,
)
from posenc_mm.layouts import convert_layout
from posenc_mm.leakage import leak
from posenc_mm.positions import (
    centred_grid,
    from_mask,
    grid,
    keep,
    normalised_grid,
    packed,
    patches,
    rescale,
    segments,
    sequence,
)
from posenc_mm.resizing import resize_table, resized
from posenc_mm.rotary import (
    CayleySTRING,
    CirculantSTRING,
    LieRE,
    MixedRotary,
    Rotary,
    RotaryEncoding,
    Rotation,
    TimeRotary,
    XPos,
    rotate,
    rotate_,
)
from posenc_mm.timestamps import TimeAxis, past_and_future
from posenc_mm.transformer import Transformer

__version__ = "0.1.0"

__all__ = [
    "ALiBi",
    "AdditiveEncoding",
    "AnyVariateBias",
    "AttentionBias",
    "BiasSum",
    "Calendar",
    "CayleySTRING",
    "CirculantSTRING",
    "Concat",
    "Conditional",
    "ConditionalEncoding",
    "Contextual",
    "ContextualBias",
    "ContextualIRPE",
    "ContinuousBias",
    "DeBERTaBias",
    "DecomposedBias",
    "ERPE",
    "Fourier",
    "Holidays",
    "Horizon",
    "IRPE",
    "KVCache",
    "Learned",
    "LearnedALiBi",
    "LearnedFourier",
    "LearnedSeasonal",
    "LieRE",
    "MixedRotary",
    "OnCalendar",
    "Product",
    "Projected",
    "RelativeBias",
    "Rotary",
    "RotaryEncoding",
    "Rotation",
    "Seasonal",
    "ShawBias",
    "Sinusoidal",
    "Sum",
    "T5Bias",
    "Time2Vec",
    "TimeAxis",
    "TimeRotary",
    "Transformer",
    "TransformerXLBias",
    "WindowedLearned",
    "XPos",
    "alibi_slopes",
    "angles",
    "attend",
    "axial",
    "centred_grid",
    "convert_checkpoint",
    "convert_layout",
    "from_mask",
    "gaussian",
    "geometric",
    "grid",
    "harmonics",
    "keep",
    "leak",
    "linear",
    "mixed",
    "normalised_grid",
    "octaves",
    "packed",
    "past_and_future",
    "patches",
    "rescale",
    "resize_table",
    "resized",
    "rotate",
    "rotate_",
    "segments",
    "sequence",
    "t5_buckets",
    "tape",
    "timescales",
]
