"""The three slots on a model of timm (the extra ``timm``): put encodings on it, take them off."""

from posenc_mm.timm.attaching import attach, detach
from posenc_mm.timm.explaining import Explanation, explain
from posenc_mm.timm.resizing import Resized, resize

__all__ = ["Explanation", "Resized", "attach", "detach", "explain", "resize"]
