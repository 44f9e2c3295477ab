"""Who makes rotations of queries and keys."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from posenc_mm.rotary.rotation import Rotation


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
