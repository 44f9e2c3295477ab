"""How far each head attends: its weights by the distance between query and key."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.diagnostics.weights import AttentionMap


class LayerDistances(NamedTuple):
    """How far one attention looks.

    Attributes:
        layer: its name.
        mass: ``(H, D)`` share of the weights in each bin of distance, float64; a head's add up
            to 1.
        mean: ``(H,)`` mean distance, in units of the positions.
        prefix: ``(H,)`` share of the weights that goes to tokens without a place.
        even: ``(D,)`` what ``mass`` would be if every query weighed all keys it may see alike.
        even_mean: what ``mean`` would be then.
    """

    layer: str
    mass: Tensor
    mean: Tensor
    prefix: Tensor
    even: Tensor
    even_mean: float


class Distances(NamedTuple):
    """How far each attention of a model looks.

    Attributes:
        edges: ``(D + 1,)`` of the bins of distance, rising; a bin has its lower edge.
        layers: in the order in which they ran.
    """

    edges: Tensor
    layers: tuple[LayerDistances, ...]


def attention_by_distance(
    maps: Sequence[AttentionMap],
    positions: Tensor,
    *,
    prefix: int = 0,
    mask: Tensor | None = None,
    bins: int = 32,
) -> Distances:
    r"""Sort the weights of attention by the distance between query and key.

    .. math:: \bar d_h = \frac{\sum_{ij} w_{hij} \lVert p_i - p_j \rVert_2}{\sum_{ij} w_{hij}}

    On one axis distances are :math:`|p_i - p_j|`; on a grid they are Euclidean, in patches if
    positions are. This is the mean attention distance of the ViT paper (there in pixels: times the
    patch). What goes to tokens without a place is no distance, and is told apart. A weight
    below zero, which what is added after the softmax can make, counts by its size.

    References:
        Dosovitskiy et al.: An Image Is Worth 16x16 Words: Transformers for Image Recognition at
        Scale (2021), figure 7, https://arxiv.org/abs/2010.11929;
        Raghu et al.: Do Vision Transformers See Like Convolutional Neural Networks? (2021),
        https://arxiv.org/abs/2108.08810

    Args:
        maps: of :func:`posenc_mm.diagnostics.attention_maps`, each among the same tokens.
        positions: of the tokens that have a place, ``(N, A)``, or ``(B, N, A)`` if they differ.
        prefix: how many tokens without a place come first, such as a class token.
        mask: ``(B, N)``, true where such a token is real: others ask nothing.
        bins: how many at most. Between whole positions their width is in whole steps, of which all
            differences are multiples: 16 for patches of 16 rows.

    Returns:
        Mass per bin and mean distance of each head, and what even attention would have.

    Raises:
        ValueError: there is no map, a map is not among these tokens, maps are of unlike numbers of
            samples, as those of windows are, or ``mask`` is another shape.

    Example:
        >>> from posenc_mm import sequence
        >>> even = AttentionMap("blocks.0", torch.full((1, 2, 4, 4), 0.25))
        >>> found = attention_by_distance([even], sequence(4))
        >>> found.layers[0].mean, found.layers[0].even_mean
        (tensor([1.2500, 1.2500], dtype=torch.float64), 1.25)
    """
    check_whole(bins=bins)
    check_whole(0, prefix=prefix)
    if not maps:
        raise ValueError("maps must be those of attention_maps, got none")
    if positions.ndim not in (2, 3) or not positions.shape[-2]:
        raise ValueError(
            f"positions must be (N, A) or (B, N, A) of a token or more, got shape "
            f"{tuple(positions.shape)}"
        )
    samples = sorted({len(each.weights) for each in maps})
    if len(samples) > 1:
        raise ValueError(
            f"maps must be of the same samples, got {samples} of them: where attention is among "
            f"the tokens of windows, give the maps of one stage, and the positions in a window"
        )
    points = positions if positions.ndim == 3 else positions.unsqueeze(0)
    # Differences first: moments are whole numbers too large for a float.
    apart = (points.unsqueeze(2) - points.unsqueeze(1)).double()
    distance = apart.square().sum(-1).sqrt()
    edges = _edges(distance, bins, _step(apart))
    index = torch.bucketize(distance, edges[1:-1].contiguous(), right=True)
    tokens = prefix + points.shape[1]
    layers = []
    for each in maps:
        _check(each, tokens, len(points), mask, prefix)
        layers.append(_layer(each, distance, index, prefix, mask, len(edges) - 1))
    return Distances(edges, tuple(layers))


def _step(apart: Tensor) -> int:
    """Of which whole differences are multiples; 0 if they are not whole."""
    if not bool((apart == apart.round()).all()):
        return 0
    # What divides the differences from the first token divides them all.
    return math.gcd(*apart[:, 0].long().flatten().tolist()) or 1


def _edges(distance: Tensor, bins: int, step: int) -> Tensor:
    furthest = float(distance.max())
    width = furthest / bins
    if step:
        width = float(step * math.ceil((math.floor(furthest / step) + 1) / bins))
        bins = math.floor(furthest / width) + 1
    device = distance.device
    edges = torch.arange(bins + 1, dtype=torch.float64, device=device) * (width or 1.0)
    # The furthest pair belongs to the last bin, whatever a product of floats says.
    edges[-1] = max(float(edges[-1]), furthest)
    return edges


def _check(each: AttentionMap, tokens: int, samples: int, mask: Tensor | None, prefix: int) -> None:
    batch, _, queries, keys = each.weights.shape
    if (queries, keys) != (tokens, tokens) or samples not in (1, batch):
        raise ValueError(
            f"maps must be among the {tokens} tokens that positions and prefix={prefix} tell of"
            f"{f', of {samples} samples' if samples > 1 else ''}, got (B, H, N, M)="
            f"{tuple(each.weights.shape)} of layer {each.layer!r}: leave it out, or give it the "
            f"positions of its own tokens"
        )
    if mask is not None and (mask.shape != (batch, tokens - prefix) or mask.dtype != torch.bool):
        raise ValueError(
            f"mask must be booleans (B, N)=({batch}, {tokens - prefix}), got shape "
            f"{tuple(mask.shape)} and dtype {mask.dtype}"
        )


def _layer(
    each: AttentionMap,
    distance: Tensor,
    index: Tensor,
    prefix: int,
    mask: Tensor | None,
    bins: int,
) -> LayerDistances:
    weights = each.weights.double().abs()[:, :, prefix:]
    seen = weights > 0 if each.visible is None else each.visible.expand_as(each.weights)
    seen = seen[:, :, prefix:] if each.visible is not None else seen
    if mask is not None:
        weights = weights * mask[:, None, :, None]
    away, placed = weights[..., :prefix].sum(dim=(0, 2, 3)), weights[..., prefix:]
    # A query that sees nothing must not be one that looks evenly at nothing.
    even = seen[..., prefix:].double() * (weights.sum(-1, keepdim=True) > 0)
    even = even / even.sum(-1, keepdim=True).clamp(min=1)
    mass, total = _sums(placed, distance, index, bins)
    evenly, even_total = _sums(even.mean(1, keepdim=True), distance, index, bins)
    sums = mass.sum(-1)
    return LayerDistances(
        each.layer,
        mass / sums[:, None].clamp(min=torch.finfo(mass.dtype).tiny),
        total / sums.clamp(min=torch.finfo(mass.dtype).tiny),
        away / (away + sums).clamp(min=torch.finfo(mass.dtype).tiny),
        evenly[0] / evenly.sum().clamp(min=torch.finfo(mass.dtype).tiny),
        float(even_total[0] / evenly.sum().clamp(min=torch.finfo(mass.dtype).tiny)),
    )


def _sums(weights: Tensor, distance: Tensor, index: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Weights ``(B, H, N, M)`` summed by bin, ``(H, D)``, and weighted by distance, ``(H,)``."""
    flat = index.expand(len(weights), -1, -1).flatten()
    heads = weights.transpose(0, 1).flatten(1)
    mass = weights.new_zeros(len(heads), bins).index_add_(1, flat, heads)
    return mass, (weights * distance.unsqueeze(1)).sum(dim=(0, 2, 3))
