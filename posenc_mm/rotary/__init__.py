"""Turns queries and keys: one file per mechanism."""

from posenc_mm.rotary.axial import Rotary
from posenc_mm.rotary.base import RotaryEncoding, Rotation, rotate
from posenc_mm.rotary.mixed import MixedRotary
from posenc_mm.rotary.time import TimeRotary

__all__ = ["MixedRotary", "Rotary", "RotaryEncoding", "Rotation", "TimeRotary", "rotate"]
