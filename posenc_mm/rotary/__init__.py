"""Turns queries and keys: one file per mechanism."""

from posenc_mm.rotary.axial import Rotary
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.liere import LieRE
from posenc_mm.rotary.mixed import MixedRotary
from posenc_mm.rotary.rotation import Rotation
from posenc_mm.rotary.string import CayleySTRING, CirculantSTRING
from posenc_mm.rotary.time import TimeRotary
from posenc_mm.rotary.turning import rotate, rotate_
from posenc_mm.rotary.xpos import XPos

__all__ = [
    "CayleySTRING",
    "CirculantSTRING",
    "LieRE",
    "MixedRotary",
    "Rotary",
    "RotaryEncoding",
    "Rotation",
    "TimeRotary",
    "XPos",
    "rotate",
    "rotate_",
]
