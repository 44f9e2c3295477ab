"""What is looked at: a network, what it is given, and where its tokens stand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Subject:
    """What the diagnostics have to know of a network and a batch; what it has not stays None.

    Attributes:
        network: called as ``network(*inputs, **keywords)``.
        inputs: its arguments.
        keywords: likewise.
        positions: of the tokens that attend, ``(N, A)`` or ``(B, N, A)``.
        prefix: tokens without a place before them, such as a class token.
        unit: what positions count.
        shifted: gives the output with all positions moved by an offset.
        offset_unit: what offsets count.
        logits: of a causal language model: tokens ``(B, N)`` to logits ``(B, N, V)``, the tokens
            standing at 0 to N - 1.
        tokens: ``(B, N)``, for ``logits``.
        features: of a model of images: images ``(B, C, H, W)`` to features of patches
            ``(B, D, h, w)``.
        images: ``(B, C, H, W)``, for ``features``.
        patch: pixels of a patch (height, width), for ``features``.
    """

    network: nn.Module
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    positions: Tensor | None = None
    prefix: int = 0
    unit: str = "tokens"
    shifted: Callable[[float], Tensor] | None = None
    offset_unit: str = "tokens"
    logits: Callable[[Tensor], Tensor] | None = None
    tokens: Tensor | None = None
    features: Callable[[Tensor], Tensor] | None = None
    images: Tensor | None = None
    patch: tuple[int, int] = (1, 1)
