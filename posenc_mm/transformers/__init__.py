"""Encodings on decoders of Hugging Face's transformers (the extra ``transformers``)."""

from posenc_mm.transformers.attaching import attach, detach

__all__ = ["attach", "detach"]
