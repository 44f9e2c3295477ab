"""What one forward's bias is, and how it meets the model's own mask."""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from posenc_mm.bias import AttentionBias
from posenc_mm.transformers.keys import Kind, key_positions, kind_of


class Said:
    """One forward's positions and what the bias says of them, once per kind of layer.

    It travels beside the cosines and sines, from the rotary module to the layers. Not a tuple or
    dataclass: what casts or moves the tensors among a layer's arguments must not see into it.

    Args:
        encoding: the bias.
        points: ``(B, N, A)`` of the queries, or ``(1, N, A)``.
        name: of the positions, where layers differ in them.
        count: layers of the model.
    """

    def __init__(
        self, encoding: AttentionBias, points: Tensor, name: str | None, count: int
    ) -> None:
        self.encoding, self.points, self.name, self.count = encoding, points, name, count
        # A checkpointed layer must not be the one that evaluates it: its recomputation would not.
        self.square = encoding(points, points) if torch.is_grad_enabled() else None
        self._biases: dict[Kind | None, Tensor] = {}
        self._masks: list[tuple[Kind | None, Tensor | None, Tensor]] = []

    def mask(
        self, hidden: Tensor, own: Tensor | None, cache: Cache | None, index: int, causal: bool
    ) -> Tensor:
        """Make the mask of a layer, with the bias in it.

        Args:
            hidden: ``(B, N, D)`` that the layer is given.
            own: the mask that the model made, boolean or added.
            cache: that the layer is about to extend.
            index: which layer.
            causal: whether attention is causal where the model made no mask.

        Returns:
            ``(B, H, N, M)``, or ``(1, H, N, M)``, to be added.

        Raises:
            ValueError: the mask is of other keys, or as :func:`key_positions`.
        """
        kind = None if cache is None else kind_of(cache, index, self.count, self.name)
        for known, given, mask in self._masks:
            if known == kind and given is own:
                there: Tensor = mask.to(hidden.device)
                return there
        if kind not in self._biases:
            self._biases[kind] = self._evaluated(hidden.shape[0], cache, index, kind)
        made = merge(self._biases[kind].to(hidden.device), own, _dtype(hidden), causal)
        self._masks.append((kind, own, made))
        return made

    def _evaluated(self, batch: int, cache: Cache | None, index: int, kind: Kind | None) -> Tensor:
        points = keys = self.points
        first = True
        if cache is not None and kind is not None:
            all_points = points.expand(batch, -1, -1)
            keys, first = key_positions(cache, index, self.count, kind, all_points)
        bias = self.square
        if bias is None or not first or bias.shape[-1] != keys.shape[-2]:
            evaluated: Tensor = self.encoding(points, keys)
            bias = evaluated
        return bias[(None,) * (4 - bias.ndim)]


def merge(bias: Tensor, own: Tensor | None, dtype: torch.dtype, causal: bool) -> Tensor:
    """Put a bias and a mask together.

    What is hidden gets the least finite number, as in transformers, so that a row which sees
    nothing, such as one of padding, stays finite.

    Args:
        bias: ``(B, H, N, M)``
        own: ``(B, 1, N, M)``, boolean (true where visible) or added; None if nothing is hidden but
            by ``causal``.
        dtype: of the queries.
        causal: whether a missing mask stands for a causal one, query 0 beside key 0.

    Returns:
        ``(B, H, N, M)``

    Raises:
        ValueError: the mask is of another number of keys or queries, or is no tensor.
    """
    # Not less than float32 has: eager attention takes its softmax there.
    least = max(torch.finfo(dtype).min, torch.finfo(torch.float32).min)
    rows, columns = bias.shape[-2:]
    if own is not None and (not isinstance(own, Tensor) or own.shape[-2:] != bias.shape[-2:]):
        came: Any = tuple(own.shape) if isinstance(own, Tensor) else type(own).__name__
        raise ValueError(
            f"attention_mask must be (B, 1, N, M) with N={rows} queries and M={columns} keys where "
            f"a layer gets it, got {came}"
        )
    if own is not None and own.dtype != torch.bool:
        return (bias + own).clamp(min=least).to(dtype)
    added = bias.clamp(min=least).to(dtype)
    if own is None:
        if not causal or rows == 1:
            return added
        own = torch.ones(rows, columns, dtype=torch.bool, device=bias.device).tril()
    return torch.where(own, added, least)


def _dtype(hidden: Tensor) -> torch.dtype:
    kind = hidden.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return hidden.dtype
