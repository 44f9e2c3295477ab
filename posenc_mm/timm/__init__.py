"""The three slots on a model of timm (the extra ``timm``): put encodings on it, take them off."""

from posenc_mm.timm.attaching import attach, detach

__all__ = ["attach", "detach"]
