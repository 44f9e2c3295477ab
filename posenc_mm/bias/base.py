"""What every encoding that is added to the attention logits has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_mm.checks import check_number
from posenc_mm.frequencies import check_positions

if TYPE_CHECKING:
    from posenc_mm.bias.forms import Factors, ScoreMod


class AttentionBias(nn.Module, ABC):
    """Maps positions of queries and keys to numbers that a host adds to its attention logits.

    Attributes:
        heads: number of heads :math:`H`.
        after_softmax: whether the class's numbers are added to the softmax's weights, not to the
            logits.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``
    """

    heads: int
    after_softmax: ClassVar[bool] = False

    @abstractmethod
    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Compare positions.

        Args:
            q_positions: ``(..., N, A)`` of the queries.
            k_positions: ``(..., M, A)`` of the keys.

        Returns:
            ``(..., H, N, M)``
        """

    @property
    def by_difference(self) -> bool:
        """Whether all that it reads of positions on one axis is their difference."""
        return False

    def of_differences(self, differences: Tensor) -> Tensor:
        """Tabulate a bias that is ``by_difference``.

        Args:
            differences: ``(L,)``, query minus key.

        Returns:
            ``(H, L)``
        """
        here = differences.unsqueeze(-1)
        table: Tensor = self(here, here.new_zeros(1, 1)).squeeze(-1)
        return table

    def factors(self, q_positions: Tensor, k_positions: Tensor) -> Factors | None:
        """Write the bias as a product of few numbers per query and per key.

        Args:
            q_positions: ``(..., N, A)`` of the queries.
            k_positions: ``(..., M, A)`` of the keys.

        Returns:
            The numbers, or None where it is no such product.
        """
        return None

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        """Write the bias as a function that FlexAttention calls for each pair.

        Args:
            q_positions: ``(..., N, A)`` of the queries.
            k_positions: ``(..., M, A)`` of the keys.

        Returns:
            A function of score, sample, head, query and key, or None where there is none.
        """
        return None

    def with_prefix(self, bias: Tensor, count: int) -> Tensor:
        """Border a bias for tokens in front that have no position: class and register tokens.

        Zeros, unless the class has learned numbers for them.

        Args:
            bias: ``(..., H, N, M)``, as this encoding returned it for the other tokens.
            count: how many such tokens stand before the queries, and before the keys.

        Returns:
            ``(..., H, count + N, count + M)``
        """
        return functional.pad(bias, (count, 0, count, 0))


def bordered(bias: Tensor, count: int, row: Tensor, column: Tensor, corner: Tensor) -> Tensor:
    """Border a bias for tokens in front with one number per head and kind of pair.

    Args:
        bias: ``(..., H, N, M)``.
        count: how many tokens stand in front.
        row: ``(H,)``, for such a query and any other key.
        column: ``(H,)``, for any other query and such a key.
        corner: ``(H,)``, for two of them.

    Returns:
        ``(..., H, count + N, count + M)`` in the dtype of ``bias``.
    """
    *lead, queries, keys = bias.shape
    row, column, corner = (each.to(bias.dtype)[:, None, None] for each in (row, column, corner))
    above = torch.cat((corner.expand(*lead, count, count), row.expand(*lead, count, keys)), -1)
    below = torch.cat((column.expand(*lead, queries, count), bias), -1)
    return torch.cat((above, below), -2)


def differences(q_positions: Tensor, k_positions: Tensor, axes: int | None = None) -> Tensor:
    """Subtract every key's position from every query's, exactly as they come.

    Integers must lie within 64 bits of each other: 292 years in nanoseconds.

    Args:
        q_positions: ``(..., N, A)``
        k_positions: ``(..., M, A)``
        axes: the number of axes that is wanted, any unless given.

    Returns:
        ``(..., N, M, A)``: int64 for integers, float32 or float64 for floats, float64
        for a mixture.

    Raises:
        ValueError: the numbers of axes differ from each other or from ``axes``.
    """
    check_positions(q_positions, axes or q_positions.shape[-1])
    check_positions(k_positions, axes or q_positions.shape[-1])
    q, k = wide(q_positions), wide(k_positions)
    if q.dtype != k.dtype:
        q, k = q.double(), k.double()
    return q.unsqueeze(-2) - k.unsqueeze(-3)


def checked_step(step: float | None) -> float:
    """Refuse a distance that cannot count as one.

    Args:
        step: a distance in units of position; 1 unless given.

    Returns:
        The distance.

    Raises:
        ValueError: it is not positive and finite.
    """
    step = 1.0 if step is None else step
    check_number(above=True, step=step)
    return float(step)


def wide(positions: Tensor) -> Tensor:
    """Widen positions to a dtype whose differences neither wrap around nor round.

    Args:
        positions: integers or floats.

    Returns:
        The same in int64, float32 or float64.
    """
    if not positions.is_floating_point():
        return positions.long()
    return positions if positions.dtype == torch.float64 else positions.float()
