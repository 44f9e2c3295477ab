"""Context extension: edits of the speeds of a trained rotary encoding.

Each method is a frozen value with the same four answers: ``frequencies(rotary_dim, base)``,
``amplitude()`` on cosines and sines, ``softmax_factor`` on the scale of the logits, and ``static``,
whether keys rotated earlier stay right as a sequence grows. Where implementations of a method
disagree, an argument says which one is meant.
"""

from posenc_mm.scaling.axes import PerAxis
from posenc_mm.scaling.base import Scaling, Unscaled
from posenc_mm.scaling.interpolation import NTK, DynamicNTK, Linear
from posenc_mm.scaling.llama import Llama3
from posenc_mm.scaling.longrope import LongRoPE, PerPair
from posenc_mm.scaling.moving import rerotate
from posenc_mm.scaling.pairs import Proportional, Resonance, RIFLEx, intrinsic_pair
from posenc_mm.scaling.parts import NTKByParts
from posenc_mm.scaling.reading import from_hf
from posenc_mm.scaling.searching import Trial, search
from posenc_mm.scaling.settings import RotarySettings
from posenc_mm.scaling.writing import to_hf
from posenc_mm.scaling.yarn import DynamicYaRN, YaRN

__all__ = [
    "DynamicNTK",
    "DynamicYaRN",
    "Linear",
    "Llama3",
    "LongRoPE",
    "NTK",
    "NTKByParts",
    "PerAxis",
    "PerPair",
    "Proportional",
    "RIFLEx",
    "Resonance",
    "RotarySettings",
    "Scaling",
    "Trial",
    "Unscaled",
    "YaRN",
    "from_hf",
    "intrinsic_pair",
    "rerotate",
    "search",
    "to_hf",
]
