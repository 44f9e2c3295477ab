"""Cached keys: from one scaling, or one place, to another."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_number
from posenc_mm.frequencies import angles
from posenc_mm.layouts import check_layout
from posenc_mm.pairs import turn_pairs


def rerotate(
    k: Tensor,
    positions: Tensor,
    source: Sequence[Sequence[float]],
    target: Sequence[Sequence[float]],
    *,
    to: Tensor | None = None,
    ratio: float = 1.0,
    layout: str = "half",
) -> Tensor:
    r"""Move keys that were cached rotated to other speeds, other positions, or both.

    .. math:: k' = \frac{a'}{a} R(p' \omega' - p \, \omega) \, k

    The two angles are subtracted in float64 and reduced once: the result is what rotating the raw
    keys anew would give, to the rounding of the keys.

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021),
        https://arxiv.org/abs/2104.09864

    Args:
        k: rotated keys ``(..., N, D)``, the first :math:`2F` channels of which turn.
        positions: ``(N, A)`` or ``(B, N, A)``, at which they were rotated.
        source: ``(A, F)``, the frequencies :math:`\omega` by which they were.
        target: ``(A, F)``, the frequencies :math:`\omega'` by which they are to be.
        to: :math:`p'`, positions at which they are to be; the same unless given.
        ratio: :math:`a' / a`, the amplitude to be over the amplitude they have.
        layout: of the pairs, ``"half"`` or ``"interleaved"``.

    Returns:
        A tensor like ``k``, of its dtype.

    Raises:
        ValueError: ``source`` and ``target`` differ in shape, positions do not fit them, each other
            or ``k``, ``ratio`` is not positive, or ``layout`` is unknown.

    Example:
        >>> from posenc_mm import Rotary, rotate, sequence
        >>> old, new = [(1.0, 0.1)], [(1.0, 0.02)]
        >>> k, p = torch.ones(1, 1, 5, 4), sequence(5)
        >>> moved = rerotate(rotate(k, Rotary(4, frequencies=old)(p)), p, old, new)
        >>> torch.allclose(moved, rotate(k, Rotary(4, frequencies=new)(p)))
        True
    """
    check_layout(layout)
    check_number(above=True, ratio=ratio)
    moved = positions if to is None else to
    if moved.shape != positions.shape or moved.dtype != positions.dtype:
        raise ValueError(
            f"to must be like positions, {tuple(positions.shape)} of {positions.dtype}, got "
            f"{tuple(moved.shape)} of {moved.dtype}"
        )
    if [len(row) for row in source] != [len(row) for row in target]:
        raise ValueError(
            f"source and target must be (A, F) alike, got rows of lengths "
            f"{[len(row) for row in source]} and {[len(row) for row in target]}"
        )
    backwards = [[-f for f in row] for row in source]
    both = torch.cat((moved, positions), dim=-1)
    # Angles have the precision of the positions: float64 keys are worth float64 angles.
    both = both.double() if k.dtype == torch.float64 else both
    theta = angles(both, [*target, *backwards])
    return _turn(k, theta, ratio, layout)


def _turn(k: Tensor, theta: Tensor, ratio: float, layout: str) -> Tensor:
    """Turn pairs of channels by angles (N, F) or (B, N, F), and stretch them."""
    width = 2 * theta.shape[-1]
    if not k.is_floating_point() or k.ndim < 2 or k.shape[-1] < width:
        raise ValueError(
            f"k must be floating (..., N, D) with D of at least {width}, got shape "
            f"{tuple(k.shape)} and dtype {k.dtype}"
        )
    if theta.ndim > 2:
        theta = theta.unsqueeze(-3)
    lead = theta.shape[:-2]
    if k.shape[-2] != theta.shape[-2] or (lead and (k.ndim < 4 or lead[0] not in (1, k.shape[-4]))):
        raise ValueError(
            f"k must be of the positions' tokens and samples, got shapes {tuple(k.shape)} and "
            f"positions for {tuple(theta.shape)}"
        )
    cos, sin = theta.cos() * ratio, theta.sin() * ratio
    turned = turn_pairs(k[..., :width], cos, sin, layout).to(k.dtype)
    return turned if width == k.shape[-1] else torch.cat((turned, k[..., width:]), dim=-1)
