"""Temperature by position: how much sharper queries look the more keys there are to choose from.

Each is a callable that maps positions to one factor per query. A host multiplies queries with it,
after any rotation. Factors follow the positions given, so that padded, packed and cached tokens get
those of their own place in their own document.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import check_positions


@dataclass(frozen=True)
class StepTemperature:
    r"""Grows by the logarithm of how many whole lengths lie behind a query.

    .. math:: t(p) = 1 + \beta \, \ln \left( 1 + \left\lfloor \frac{p + o}{L} \right\rfloor \right)

    Llama 4 has it on its layers without positions alone, :math:`o = 1`; Ministral 3 and Mistral 4
    on all layers, :math:`o = 0` and :math:`L` the length before context extension. Positions before
    0, of padding, count as 0.

    References:
        Nakanishi: Scalable-Softmax Is Superior for Attention (2025),
        https://arxiv.org/abs/2501.19399, which Llama 4 and Ministral 3 follow

    Args:
        length: :math:`L`, in units of position.
        beta: :math:`\beta`.
        first: :math:`o`, the count of the token at position 0.

    Shape:
        ``positions (..., N, 1) -> (..., N, 1)``, in float32, or in float64 where the positions are

    Raises:
        ValueError: ``length`` is below 1 or ``beta`` or ``first`` negative; at the call, positions
            do not have one axis.

    Example:
        >>> StepTemperature(length=4)(torch.tensor([[2], [3], [11]]))[:, 0]
        tensor([1.0000, 1.0693, 1.1386])
    """

    length: int = 8192
    beta: float = 0.1
    first: int = 1

    def __post_init__(self) -> None:
        check_whole(length=self.length)
        check_whole(0, first=self.first)
        check_number(beta=self.beta)

    def __call__(self, positions: Tensor) -> Tensor:
        """Say the factor of each query."""
        counts = _counts(positions, self.first)
        steps = torch.div(counts, self.length, rounding_mode="floor")
        return 1 + self.beta * steps.to(_dtype(positions)).log1p()


@dataclass(frozen=True)
class LogTemperature:
    r"""Grows by the logarithm of the number of tokens up to a query, beyond the trained length.

    .. math:: t(p) = \max \left( 1, \frac{\ln (p + 1)}{\ln L} \right)

    References:
        Su: Attention scale operation from the perspective of entropy invariance (2021),
        https://kexue.fm/archives/8823

    Args:
        length: :math:`L`, the trained length, at least 2.

    Shape:
        ``positions (..., N, 1) -> (..., N, 1)``, in float32, or in float64 where the positions are

    Raises:
        ValueError: ``length`` is below 2; at the call, positions do not have one axis.

    Example:
        >>> LogTemperature(length=10)(torch.tensor([[4], [9], [99]]))[:, 0]
        tensor([1., 1., 2.])
    """

    length: int

    def __post_init__(self) -> None:
        check_whole(2, length=self.length)

    def __call__(self, positions: Tensor) -> Tensor:
        """Say the factor of each query."""
        counts = _counts(positions, 1).clamp(min=1).to(_dtype(positions))
        return (counts.log() / math.log(self.length)).clamp(min=1.0)


def _counts(positions: Tensor, first: int) -> Tensor:
    check_positions(positions, 1)
    wide = positions if positions.dtype == torch.float64 else positions.float()
    counts = positions.long() if not positions.is_floating_point() else wide
    return (counts + first).clamp(min=0)


def _dtype(positions: Tensor) -> torch.dtype:
    return torch.float64 if positions.dtype == torch.float64 else torch.float32
