"""Biases that depend on what a token holds: learned vectors per offset meet queries or keys."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import differences
from posenc_mm.bias.irpe import Buckets
from posenc_mm.bias.terms import Meeting, Term
from posenc_mm.checks import check_number, check_whole
from posenc_mm.tables import draw_entries


class Contextual(NamedTuple):
    """A contextual bias evaluated at positions, as :func:`posenc_mm.attend` takes it.

    Attributes:
        of_queries: terms whose vectors meet queries, with rows ``(..., N, M)``.
        of_keys: terms whose vectors meet keys, with rows ``(..., M, N)``.
        of_values: terms whose vectors are added to values, with rows ``(..., N, M)``.
        scale: what to multiply queries times keys with, where it is not the attention's own.
    """

    of_queries: tuple[Meeting, ...] = ()
    of_keys: tuple[Meeting, ...] = ()
    of_values: tuple[Term, ...] = ()
    scale: float | None = None

    def logits(self, q: Tensor, k: Tensor) -> Tensor:
        """Say what is added to the logits of queries and keys.

        Args:
            q: queries ``(B, H, N, D)``.
            k: keys ``(B, K, M, D)``; the K key heads divide the H query heads.

        Returns:
            ``(B, H, N, M)`` in q's dtype.

        Raises:
            ValueError: the width of the heads is another one than that of the vectors.
        """
        parts = [term.times(q) for term in self.of_queries]
        if self.of_keys:
            every = k.repeat_interleave(q.shape[1] // max(k.shape[1], 1), dim=1)
            parts += [term.times(every).mT for term in self.of_keys]
        total: Tensor = sum(parts[1:], parts[0])
        return total


class ContextualBias(nn.Module, ABC):
    """Maps positions of queries and keys to vectors whose products with either are added to logits.

    A host evaluates it once per forward and gives every layer the :class:`Contextual`, which meets
    the layer's own queries and keys as they are multiplied: turned, if a rotation turns them.

    Attributes:
        heads: number of heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        after_softmax: never: it acts on the logits.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> Contextual``
    """

    heads: int
    head_dim: int
    after_softmax: ClassVar[bool] = False

    @abstractmethod
    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        """Compare positions.

        Args:
            q_positions: ``(..., N, A)`` of the queries.
            k_positions: ``(..., M, A)`` of the keys.

        Returns:
            What to multiply queries and keys with.
        """


class ContextualIRPE(ContextualBias):
    r"""Image relative position encoding in its contextual mode: a vector per bucket of offsets.

    .. math:: b_{hij} = s \, q_i \cdot T[g(p_i - p_j)] \quad \text{on keys, and} \quad
        b_{hij} = s \, k_j \cdot U[g(p_j - p_i)] \quad \text{on queries}

    with the buckets :math:`g` of :class:`posenc_mm.IRPE`. On values the authors add vectors
    weighted by the softmax, which fused attention does not show: that mode is left out.

    Traps: entries start at zero, and what they meet are queries and keys as they are multiplied:
    after a rotation, if there is one. Without the authors' mode on values their checkpoints of it
    do not run.

    References:
        Wu, Peng, Chen, Fu, Chao: Rethinking and Improving Relative Position Encoding for Vision
        Transformer (2021), https://arxiv.org/abs/2107.14222

    Args:
        heads: number of attention heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        axes: number of axes :math:`A`.
        on: ``"k"``, ``"q"`` or ``"qk"``.
        method: ``"product"``, ``"cross"``, ``"euclidean"`` or ``"quant"``.
        alpha: :math:`\alpha`, up to which offsets have a bucket each.
        beta: :math:`\beta`, the outermost bucket.
        gamma: :math:`\gamma`, the offset from which on all share it.
        shared: whether all heads have the same vectors, as the authors' have.
        scale: :math:`s`, that of the attention; :math:`D^{-1/2}` unless given.
        std: standard deviation of the initial entries (normal, truncated at two); 0, the authors',
            starts from zeros.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> Contextual``

    Raises:
        ValueError: ``heads``, ``head_dim`` or ``axes`` is below 1, ``on`` or ``method`` unknown,
            not ``0 < alpha <= beta`` and ``alpha < gamma``, or ``scale`` or ``std`` negative; at
            the call, positions do not have :math:`A` axes, or are not finite.

    Example:
        >>> from posenc_mm import attend, grid
        >>> q = k = v = torch.ones(1, 2, 12, 8)
        >>> bias = ContextualIRPE(heads=2, head_dim=8)
        >>> attend(q, k, v, bias=bias, q_positions=grid(3, 4)).shape
        torch.Size([1, 2, 12, 8])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        axes: int = 2,
        *,
        on: str = "k",
        method: str = "product",
        alpha: float = 1.9,
        beta: float = 3.8,
        gamma: float = 15.2,
        shared: bool = True,
        scale: float | None = None,
        std: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole(heads=heads, head_dim=head_dim, axes=axes)
        if on not in ("k", "q", "qk"):
            raise ValueError(f"on must be 'k', 'q' or 'qk', got on={on!r}")
        self.scale = head_dim**-0.5 if scale is None else scale
        check_number(scale=self.scale, std=std)
        self.buckets = Buckets(axes, method, alpha, beta, gamma)
        self.heads, self.head_dim, self.on = heads, head_dim, on
        self.shared, self.std = shared, float(std)
        shape = (*([] if shared else [heads]), *self.buckets.shape, head_dim)
        self.tables = nn.ParameterDict({side: torch.empty(shape) for side in on})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        axes = self.buckets.axes
        sides: dict[str, tuple[Term, ...]] = {"k": (), "q": ()}
        for side in self.on:
            pair = (q_positions, k_positions) if side == "k" else (k_positions, q_positions)
            sides[side] = self._terms(self.tables[side], differences(*pair, axes=axes))
        return Contextual(of_queries=sides["k"], of_keys=sides["q"])

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, head_dim={self.head_dim}, on={self.on!r}, {self.buckets}, "
            f"shared={self.shared}, scale={self.scale}, std={self.std}"
        )

    def _terms(self, table: Tensor, offsets: Tensor) -> tuple[Term, ...]:
        found, table = self.buckets(offsets), table * self.scale
        if self.buckets.method == "cross":
            tables = table.unbind(-3)
            return tuple(Term(t, ((found[..., a], None),)) for a, t in enumerate(tables))
        rows = found[..., 0]
        for axis, side in enumerate(self.buckets.shape[1:], start=1):
            rows = rows * side + found[..., axis]
        return (Term(table.flatten(-1 - len(self.buckets.shape), -2), ((rows, None),)),)
