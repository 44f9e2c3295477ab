"""Attention with encodings applied, by the fastest exact way: one file per way."""

from posenc_mm.attention.attending import attend, explain
from posenc_mm.attention.choosing import BACKENDS, Choice
from posenc_mm.attention.hosting import for_layers

__all__ = ["BACKENDS", "Choice", "attend", "explain", "for_layers"]
