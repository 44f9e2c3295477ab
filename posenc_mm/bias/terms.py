"""What contextual biases are made of: learned vectors, and which pairs of tokens read which."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Meeting(Protocol):
    """Anything that tokens on one side are multiplied with, for every token on the other."""

    def times(self, x: Tensor) -> Tensor:
        """Multiply with tokens ``(B, H, N, D)``: ``(B, H, N, M)``, or M = 1 if all agree."""


class Term(NamedTuple):
    """Vectors, and which of them each pair of tokens reads: rows, each with its share or wholly.

    Attributes:
        table: ``(R, D)``, or ``(H, R, D)`` with vectors of their own per head.
        reads: rows ``(..., N, M)`` in int64, and shares of the same shape or None; what they read
            is summed.
    """

    table: Tensor
    reads: tuple[tuple[Tensor, Tensor | None], ...]

    def times(self, x: Tensor) -> Tensor:
        """Multiply vectors with tokens ``(B, H, N, D)``: ``(B, H, N, M)``."""
        if x.shape[-1] != self.table.shape[-1]:
            raise ValueError(
                f"bias is for heads of {self.table.shape[-1]} channels, but these have "
                f"{x.shape[-1]}"
            )
        # Every vector once with every token; pairs then only pick numbers.
        products = x @ self.table.to(x.dtype).mT
        parts = []
        for rows, share in self.reads:
            each = rows if rows.ndim == 2 else rows.unsqueeze(-3)
            picked = products.gather(-1, each.expand(*x.shape[:2], *rows.shape[-2:]))
            if share is not None:
                share = share if share.ndim == 2 else share.unsqueeze(-3)
                picked = picked * share.to(x.dtype)
            parts.append(picked)
        total: Tensor = sum(parts[1:], parts[0])
        return total

    def mixed(self, weights: Tensor) -> Tensor:
        """Sum the vectors that pairs read, by weights ``(B, H, N, M)``: ``(B, H, N, D)``."""
        # Weights are summed per vector first: no pair ever has a vector of its own.
        sums = weights.new_zeros(*weights.shape[:-1], self.table.shape[-2])
        for rows, share in self.reads:
            each = rows if rows.ndim == 2 else rows.unsqueeze(-3)
            part = weights
            if share is not None:
                share = share if share.ndim == 2 else share.unsqueeze(-3)
                part = weights * share.to(weights.dtype)
            sums = sums.scatter_add(-1, each.expand_as(weights), part)
        return sums @ self.table.to(weights.dtype)
