"""The rotation of queries and keys: what it is, how it is applied, and who makes it."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc_mm.checks import check_indices, check_whole
from posenc_mm.layouts import check_layout


class Rotation(NamedTuple):
    """Cosines and sines by which pairs of channels turn, and where the pairs sit.

    Attributes:
        cos: ``(..., N, F)``, or ``(..., H, N, F)`` per head.
        sin: of the same shape.
        layout: ``"interleaved"`` pairs channels (2i, 2i + 1), ``"half"`` pairs (i, i + F).
        per_head: whether there is a head axis. Without it a leading axis is the batch's.
    """

    cos: Tensor
    sin: Tensor
    layout: str
    per_head: bool = False

    def inverse(self) -> "Rotation":
        """Turn the other way: ``rotate(rotate(x, r), r.inverse())`` is ``x``."""
        return self._replace(sin=-self.sin)

    def prefix(self, count: int) -> "Rotation":
        """Put tokens that do not turn, such as class and register tokens, in front.

        Args:
            count: how many.

        Returns:
            A rotation of ``count`` more tokens.

        Raises:
            ValueError: ``count`` is negative.
        """
        check_whole(0, count=count)
        shape = (*self.cos.shape[:-2], count, self.cos.shape[-1])
        cos = torch.cat((self.cos.new_ones(shape), self.cos), dim=-2)
        return self._replace(cos=cos, sin=torch.cat((self.sin.new_zeros(shape), self.sin), dim=-2))

    def keep(self, indices: Tensor) -> "Rotation":
        """Take the rotations of the tokens that each sample keeps.

        Args:
            indices: ``(B, K)`` rows to keep, in any order.

        Returns:
            A rotation ``(B, K, F)``, or ``(B, H, K, F)`` per head.

        Raises:
            ValueError: ``indices`` is not ``(B, K)``, or the rotation is of another batch.
        """
        check_indices(indices, self.cos.shape[-2])
        indices = indices.long()
        return self._replace(
            cos=_gather(self.cos, indices, self.per_head),
            sin=_gather(self.sin, indices, self.per_head),
        )


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    r"""Turn pairs of channels: :math:`(a, b) \to (a \cos - b \sin, \; a \sin + b \cos)`.

    The first :math:`2F` channels turn, the rest pass. Low-precision inputs are turned in float32
    and rounded once. Real arithmetic only, so that it exports.

    Args:
        x: queries or keys ``(B, H, N, D)``; leading axes may be missing where the rotation lacks
            them.
        rotation: from a :class:`RotaryEncoding`.

    Returns:
        A tensor like ``x``, of its dtype.

    Raises:
        ValueError: ``x`` is not floating, is narrower than the rotation, has another number of
            tokens, heads or samples, or the rotation's layout is unknown.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> rotate(x, Rotary(head_dim=2)(sequence(2)))
        tensor([[[[1.0000, 0.0000],
                  [0.5403, 0.8415]]]])
    """
    cos, sin = _fit(x, rotation)
    width = 2 * cos.shape[-1]
    turning = x[..., :width]
    if rotation.layout == "interleaved":
        first, second = turning[..., 0::2], turning[..., 1::2]
    else:
        first, second = turning.chunk(2, dim=-1)
    parts = (first * cos - second * sin, first * sin + second * cos)
    if rotation.layout == "interleaved":
        turned = torch.stack(parts, dim=-1).flatten(-2)
    else:
        turned = torch.cat(parts, dim=-1)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), dim=-1)


class RotaryEncoding(nn.Module, ABC):
    """Maps positions to a rotation that a host applies to its queries and keys.

    Attributes:
        head_dim: channels :math:`D` of a head.
        heads: number of heads that each have a rotation of their own; None if all share one.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)`` or ``(..., H, N, F)``
    """

    head_dim: int
    heads: int | None = None

    @abstractmethod
    def forward(self, positions: Tensor) -> Rotation:
        """Turn positions into a rotation.

        Args:
            positions: ``(..., N, A)``, integers or floats.

        Returns:
            Cosines and sines in float32, or in float64 where the positions are.
        """


def _fit(x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor]:
    """Check a rotation against what it is to turn, and give it the head axis that it lacks."""
    cos, sin = rotation.cos, rotation.sin
    if cos.element_size() < 4:  # a wrapper that casts what a block is given
        cos, sin = cos.float(), sin.float()
    check_layout(rotation.layout)
    if not x.is_floating_point():
        raise ValueError(f"x must be floating, got dtype {x.dtype}")
    if cos.shape != sin.shape or cos.ndim < (3 if rotation.per_head else 2):
        raise ValueError(
            f"rotation must have cos and sin of one shape (..., N, F), with H before N per head, "
            f"got {tuple(cos.shape)} and {tuple(sin.shape)}"
        )
    if not rotation.per_head and cos.ndim > 2:
        cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
    if x.ndim < cos.ndim or x.shape[-1] < 2 * cos.shape[-1] or x.shape[-2] != cos.shape[-2]:
        raise ValueError(
            f"x must be (B, H, N, D) with N={cos.shape[-2]} tokens and at least "
            f"D={2 * cos.shape[-1]} channels for this rotation, got shape {tuple(x.shape)}"
        )
    for name, place in (("heads", -3), ("samples", -4)):
        if cos.ndim >= -place and cos.shape[place] not in (1, x.shape[place]):
            raise ValueError(
                f"rotation is of {cos.shape[place]} {name}, x has {x.shape[place]}: got shapes "
                f"{tuple(rotation.cos.shape)} and {tuple(x.shape)}"
            )
    return cos, sin


def _gather(values: Tensor, indices: Tensor, per_head: bool) -> Tensor:
    shared = 3 if per_head else 2
    if values.ndim == shared:
        return values[..., indices, :].movedim(-3, 0) if per_head else values[indices]
    if values.shape[0] != indices.shape[0]:
        raise ValueError(
            f"indices must be of the rotation's {values.shape[0]} samples, got {indices.shape[0]}"
        )
    rows = indices.unsqueeze(1) if per_head else indices
    shape = (*values.shape[:-2], indices.shape[-1], values.shape[-1])
    return values.gather(-2, rows.unsqueeze(-1).expand(shape))
