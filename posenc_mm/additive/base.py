"""What every encoding that is added to the tokens has in common."""

from abc import ABC, abstractmethod

from torch import Tensor, nn


class AdditiveEncoding(nn.Module, ABC):
    """Maps positions to vectors that a host adds to its tokens.

    Attributes:
        dim: width :math:`D` of the vectors.

    Shape:
        ``positions (..., N, A) -> (..., N, D)``
    """

    dim: int

    @abstractmethod
    def forward(self, positions: Tensor) -> Tensor:
        """Encode positions.

        Args:
            positions: ``(..., N, A)``, integers or floats.

        Returns:
            ``(..., N, D)``
        """
