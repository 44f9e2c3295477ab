"""iRPE: a learned number per head for each piecewise bucket of offsets on a grid."""

import math

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias, bordered, differences
from posenc_mm.bias.forms import ScoreMod, table_score_mod
from posenc_mm.checks import check_inside, check_number, check_whole
from posenc_mm.tables import draw_entries, lookup

METHODS = ("euclidean", "quant", "cross", "product")


class IRPE(AttentionBias):
    r"""Image relative position encoding, as a bias: a table over buckets of offsets.

    .. math:: b_{hij} = T[g(p_i - p_j), h], \quad g(x) = \mathrm{sign}(x) \begin{cases}
        \mathrm{round}(|x|) & |x| \le \alpha \\ \min(\lfloor\beta\rfloor, \mathrm{round}(\alpha +
        \frac{\ln(|x| / \alpha)}{\ln(\gamma / \alpha)} (\beta - \alpha))) & \text{else} \end{cases}

    Near offsets have a bucket each, farther ones share them, and no offset is too far. What is put
    into buckets is, by ``method``: the offset of every axis, with an entry for each combination
    (``"product"``) or with one table per axis, summed (``"cross"``); the straight-line distance,
    rounded (``"euclidean"``), or its square (``"quant"``). By default the product has 49 buckets on
    two axes, cross 7 per axis, and the distances 4.

    The authors' contextual mode is :class:`posenc_mm.ContextualIRPE`.

    Traps: the authors' tables of distances hold as many buckets again for negative ones, which no
    distance reaches: of theirs, take the last :math:`\lfloor\beta\rfloor + 1`.

    References:
        Wu, Peng, Chen, Fu, Chao: Rethinking and Improving Relative Position Encoding for Vision
        Transformer (2021), https://arxiv.org/abs/2107.14222

    Args:
        heads: number of attention heads :math:`H`.
        axes: number of axes :math:`A`.
        method: ``"product"``, ``"cross"``, ``"euclidean"`` or ``"quant"``.
        alpha: :math:`\alpha`, up to which offsets have a bucket each.
        beta: :math:`\beta`, the outermost bucket.
        gamma: :math:`\gamma`, the offset from which on all share it.
        shared: whether all heads have the same numbers, as the authors' have.
        std: standard deviation of the initial entries (normal, truncated at two); 0, the authors',
            starts from zeros.
        prefix: whether tokens in front have a bucket, one for any pair with such a token; else
            zero.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in the table's dtype

    Raises:
        ValueError: ``heads`` or ``axes`` is below 1, ``method`` unknown, not ``0 < alpha <= beta``
            and ``alpha < gamma``, or ``std`` negative; at the call, positions do not have :math:`A`
            axes, or are not finite.

    Example:
        >>> from posenc_mm import grid
        >>> IRPE(heads=3)(grid(4, 6), grid(4, 6)).shape
        torch.Size([3, 24, 24])
    """

    def __init__(
        self,
        heads: int,
        axes: int = 2,
        *,
        method: str = "product",
        alpha: float = 1.9,
        beta: float = 3.8,
        gamma: float = 15.2,
        shared: bool = True,
        std: float = 0.0,
        prefix: bool = False,
    ) -> None:
        super().__init__()
        check_whole(heads=heads, axes=axes)
        check_number(std=std)
        self.buckets = Buckets(axes, method, alpha, beta, gamma)
        self.heads, self.shared, self.std = heads, shared, float(std)
        width = 1 if shared else heads
        self.table = nn.Parameter(torch.empty(*self.buckets.shape, width))
        self.prefix = nn.Parameter(torch.empty(1, width)) if prefix else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        found = self.buckets(differences(q_positions, k_positions, axes=self.buckets.axes))
        if self.buckets.method == "cross":
            tables = self.table.unbind()
            parts = [lookup(t, found[..., a, None]) for a, t in enumerate(tables)]
            entries = torch.stack(parts).sum(0)
        else:
            entries = lookup(self.table, found)
        bias = entries.movedim(-1, -3)
        return bias.expand(*bias.shape[:-3], self.heads, *bias.shape[-2:])

    @property
    def by_difference(self) -> bool:
        return self.buckets.axes == 1

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        return table_score_mod(self, q_positions, k_positions) if self.by_difference else None

    def with_prefix(self, bias: Tensor, count: int) -> Tensor:
        if self.prefix is None:
            return super().with_prefix(bias, count)
        entry = self.prefix[0].expand(self.heads)
        return bordered(bias, count, entry, entry, entry)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, {self.buckets}, shared={self.shared}, std={self.std}, "
            f"prefix={self.prefix is not None}"
        )


class Buckets:
    """Which bucket an offset falls into: iRPE's four methods and its piecewise index.

    Args:
        axes: number of axes.
        method: one of ``METHODS``.
        alpha: up to which offsets have a bucket each.
        beta: the outermost bucket.
        gamma: the offset from which on all share it.

    Attributes:
        shape: of the table that the buckets count rows of: ``(S,) * A`` for the product, ``(A, S)``
            for cross, else ``(S,)``.

    Raises:
        ValueError: ``method`` is unknown, or not ``0 < alpha <= beta`` and ``alpha < gamma``.
    """

    def __init__(self, axes: int, method: str, alpha: float, beta: float, gamma: float) -> None:
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got method={method!r}")
        check_number(above=True, alpha=alpha, beta=beta, gamma=gamma)
        if not alpha <= beta or not alpha < gamma:
            raise ValueError(
                f"alpha must be at most beta, and below gamma, got alpha={alpha}, beta={beta} and "
                f"gamma={gamma}"
            )
        self.axes, self.method = axes, method
        self.alpha, self.beta, self.gamma = float(alpha), float(beta), float(gamma)
        self.last = int(beta)
        side = 2 * self.last + 1
        shapes = {"product": (side,) * axes, "cross": (axes, side)}
        self.shape = shapes.get(method, (self.last + 1,))

    def __call__(self, offsets: Tensor) -> Tensor:
        """Bucket offsets ``(..., A)``: rows ``(..., A)``, or ``(..., 1)`` of a distance."""
        if offsets.is_floating_point():
            far = [10**18] * self.axes
            check_inside("offsets", offsets, [-f for f in far], far, 0, "are they numbers?")
        real = offsets.float() if offsets.device.type == "mps" else offsets.double()
        if self.method in ("product", "cross"):
            return self._index(real) + self.last
        square = (real * real).sum(-1, keepdim=True)
        return self._index(square if self.method == "quant" else square.sqrt().round())

    def __repr__(self) -> str:
        return (
            f"axes={self.axes}, method={self.method!r}, alpha={self.alpha}, beta={self.beta}, "
            f"gamma={self.gamma}"
        )

    def _index(self, x: Tensor) -> Tensor:
        far = x.abs()
        growth = (self.beta - self.alpha) / math.log(self.gamma / self.alpha)
        beyond = self.alpha + growth * (far.clamp(min=self.alpha) / self.alpha).log()
        index = torch.where(far <= self.alpha, far, beyond).round().clamp(max=self.last)
        return (x.sign() * index).long()
