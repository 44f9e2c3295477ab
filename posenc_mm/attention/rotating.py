"""Queries and keys turned by rotations that belong together."""

from torch import Tensor

from posenc_mm.rotary import Rotation, rotate


def rotated(
    q: Tensor, k: Tensor, rotation: Rotation | None, k_rotation: Rotation | None
) -> tuple[Tensor, Tensor]:
    """Turn queries and keys, by rotations that belong together.

    Raises:
        ValueError: they do not, or only the keys' is given.
    """
    if rotation is None and k_rotation is None:
        return q, k
    if rotation is None:
        raise ValueError("k_rotation is given without rotation: give the queries' as rotation")
    if k_rotation is None:
        if rotation.side != "both":
            raise ValueError(
                f"k_rotation must be given, since rotation is for {rotation.side} alone: take both "
                f"from the pair() of the encoding"
            )
        if q.shape[2] != k.shape[2]:
            raise ValueError(
                f"k_rotation must be given where queries and keys are other rows, got "
                f"N={q.shape[2]} and M={k.shape[2]}"
            )
        k_rotation = rotation
    if (rotation.side, k_rotation.side) not in (("both", "both"), ("queries", "keys")):
        raise ValueError(
            f"rotation must be for queries and k_rotation for keys, of one pair(), got them for "
            f"{rotation.side} and for {k_rotation.side}"
        )
    kinds = [_kind(rotation), _kind(k_rotation)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"rotation and k_rotation must be of one encoding: of one layout, number of "
            f"frequencies and of heads, got {kinds[0]} and {kinds[1]}"
        )
    return rotate(q, _of_groups(rotation, q, k)), rotate(k, k_rotation)


def _kind(rotation: Rotation) -> tuple[object, ...]:
    more = [name for name in ("basis", "matrices") if getattr(rotation, name) is not None] + (
        [f"{rotation.blocks} blocks"] if rotation.blocks > 1 else []
    )
    heads = rotation.per_head and rotation.cos.shape[-3]
    return (rotation.layout, rotation.cos.shape[-1], heads, *more)


def _of_groups(rotation: Rotation, q: Tensor, k: Tensor) -> Rotation:
    """Let the queries of a group turn as the keys that they share, if those turn per head."""
    heads = rotation.cos.shape[-3] if rotation.per_head else 0
    group, rest = divmod(q.shape[1], max(heads, 1))
    pairs_only = rotation.basis is None and rotation.matrices is None
    if heads != k.shape[1] or group == 1 or rest or not pairs_only:
        return rotation
    cos, sin = (each.repeat_interleave(group, dim=-3) for each in rotation[:2])
    return rotation._replace(cos=cos, sin=sin)
