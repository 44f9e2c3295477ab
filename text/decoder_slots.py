"""What may stand in the slots of a decoder, and how queries and keys are turned by it."""

from typing import Any

from torch import Tensor, nn

from posenc_mm import KVCache
from posenc_mm.bias import AttentionBias
from posenc_mm.rotary import RotaryEncoding, Rotation, XPos, rotate


def check_slots(shape: Any, rotary: nn.Module | None, bias: nn.Module | None) -> None:
    """Refuse encodings of other heads, and those that a decoder has no place for.

    Args:
        shape: of the decoder.
        rotary: turns queries and keys.
        bias: added to the attention logits.

    Raises:
        ValueError: an encoding is for other heads, or of a kind that acts elsewhere.
    """
    if rotary is not None:
        if not isinstance(rotary, RotaryEncoding) or rotary.head_dim != shape.head_dim:
            raise ValueError(
                f"rotary must be for heads of {shape.head_dim} channels, got "
                f"{getattr(rotary, 'head_dim', rotary)}"
            )
        wanted = shape.heads if shape.kv_heads == shape.heads else None
        if rotary.heads not in (None, wanted):
            raise ValueError(
                f"rotary must turn all heads alike, or each of as many key heads, got "
                f"{rotary.heads} rotations for heads={shape.heads} and kv_heads={shape.kv_heads}"
            )
    if bias is not None:
        if not isinstance(bias, AttentionBias) or bias.after_softmax:
            raise ValueError(
                f"bias must be an AttentionBias that is added to the logits, got {bias}: "
                f"posenc_mm.Transformer hosts the others"
            )
        if bias.heads != shape.heads:
            raise ValueError(f"bias must be for {shape.heads} heads, got {bias.heads}")


def check_cache(rotary: nn.Module | None, cache: KVCache) -> None:
    """Refuse a cache that keeps keys otherwise than the encoding needs them.

    Args:
        rotary: of the decoder.
        cache: to read and add to; one that is open to both ways is told which.

    Raises:
        ValueError: it keeps rotated keys and the encoding turns them anew in each call, or raw ones
            and it does not.
    """
    raw = isinstance(rotary, XPos)
    if cache.raw is None:
        cache.raw = raw
    if bool(cache.raw) != raw:
        kind = "raw" if raw else "rotated"
        raise ValueError(f"cache must keep {kind} keys, got raw={cache.raw}: leave raw out")


def rotations(
    rotary: nn.Module | None, positions: Tensor, k_positions: Tensor | None
) -> tuple[Rotation | None, Rotation | None]:
    """Make the rotations of one call.

    Args:
        rotary: of the decoder.
        positions: ``(..., N, A)`` of the queries.
        k_positions: ``(..., M, A)`` of all keys, cached ones included.

    Returns:
        That of the queries; and that of all keys where it differs, which then come unrotated from
        the cache.
    """
    if isinstance(rotary, XPos):
        return rotary.pair(positions, positions if k_positions is None else k_positions)
    return (None if rotary is None else rotary(positions)), None


def turn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rotation: Rotation | None,
    k_rotation: Rotation | None,
    cache: KVCache | None,
    layer: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Turn queries and keys, and bring in the keys and values of earlier calls.

    Args:
        q: ``(B, H, N, D)``
        k: ``(B, K, N, D)``
        v: ``(B, K, N, D)``
        rotation: of the queries, and of new keys unless ``k_rotation`` is given.
        k_rotation: of all keys.
        cache: what earlier calls saw.
        layer: its number.

    Returns:
        Queries, and all keys and values.
    """
    if rotation is not None:
        q = rotate(q, rotation)
        k = rotate(k, rotation) if k_rotation is None else k
    if cache is not None:
        k, v = cache.extend(layer, k, v)
    return q, k if k_rotation is None else rotate(k, k_rotation), v
