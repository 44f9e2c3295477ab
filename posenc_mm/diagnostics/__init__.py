"""What a trained model does with positions: how far it attends, how far back it reads, what moves.

Each diagnostic is a function; :mod:`posenc_mm.plots.diagnostics` draws what it returns, and
:mod:`posenc_mm.lightning` runs it during a training. A model is left as it was: its modes, its
gradients and torch's random numbers.
"""

from posenc_mm.diagnostics.context import EffectiveContext, effective_context
from posenc_mm.diagnostics.distance import Distances, LayerDistances, attention_by_distance
from posenc_mm.diagnostics.maps import attention_maps
from posenc_mm.diagnostics.shift import (
    ContentShift,
    PositionShift,
    shift_contents,
    shift_positions,
)
from posenc_mm.diagnostics.subject import Subject
from posenc_mm.diagnostics.weights import AttentionMap

__all__ = [
    "AttentionMap",
    "ContentShift",
    "Distances",
    "EffectiveContext",
    "LayerDistances",
    "PositionShift",
    "Subject",
    "attention_by_distance",
    "attention_maps",
    "effective_context",
    "shift_contents",
    "shift_positions",
]
