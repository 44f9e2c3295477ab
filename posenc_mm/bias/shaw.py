"""Shaw's relative positions: one learned vector per clipped offset, on keys and on values."""

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import differences
from posenc_mm.bias.contextual import Contextual, ContextualBias
from posenc_mm.bias.terms import Term
from posenc_mm.checks import check_inside, check_number, check_whole
from posenc_mm.tables import draw_entries, taps


class ShawBias(ContextualBias):
    r"""A vector per offset is added to each key, and on request to each value.

    .. math:: b_{hij} = s \, q_i \cdot a^K[c_{ij}], \quad
        o_i = \sum_j w_{ij} \, (v_j + a^V[c_{ij}]), \quad
        c_{ij} = \min(\max(p_j - p_i, -L), R)

    All heads share the vectors. Beyond :math:`L` to the left and :math:`R` to the right all offsets
    share one. Fractional offsets interpolate linearly. The authors add to values too; they find
    that the keys alone do as well, and those run without the weights :math:`w`, which fused
    attention does not show: values are an option.

    Traps: offsets are key minus query here, the other way round than in
    :class:`posenc_mm.RelativeBias`. ``on="kv"`` needs the attention's weights, so that no fused
    kernel runs.

    References:
        Shaw, Uszkoreit, Vaswani: Self-Attention with Relative Position Representations (2018),
        https://arxiv.org/abs/1803.02155

    Args:
        heads: number of attention heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        left: :math:`L`, the authors' k: 16 for translation, 64 in Wav2Vec2-BERT.
        right: :math:`R`; ``left`` unless given, 8 in Wav2Vec2-BERT.
        on: ``"k"`` or, on keys and values, ``"kv"``.
        scale: :math:`s`, that of the attention; :math:`D^{-1/2}` unless given.
        std: standard deviation of the initial entries (normal, truncated at two).

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> Contextual``

    Raises:
        ValueError: ``heads`` or ``head_dim`` is below 1, ``left``, ``right``, ``scale`` or ``std``
            negative, or ``on`` unknown; at the call, positions do not have one axis, or are not
            finite.

    Example:
        >>> from posenc_mm import attend, sequence
        >>> q = k = v = torch.ones(1, 2, 5, 8)
        >>> bias = ShawBias(heads=2, head_dim=8, left=3, on="kv")
        >>> attend(q, k, v, bias=bias, q_positions=sequence(5)).shape
        torch.Size([1, 2, 5, 8])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        left: int = 16,
        right: int | None = None,
        *,
        on: str = "k",
        scale: float | None = None,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        right = left if right is None else right
        check_whole(heads=heads, head_dim=head_dim)
        check_whole(0, left=left, right=right)
        if on not in ("k", "kv"):
            raise ValueError(f"on must be 'k' or 'kv', got on={on!r}")
        self.scale = head_dim**-0.5 if scale is None else scale
        check_number(scale=self.scale, std=std)
        self.heads, self.head_dim, self.on = heads, head_dim, on
        self.left, self.right, self.std = left, right, float(std)
        shape = (left + right + 1, head_dim)
        self.tables = nn.ParameterDict({side: torch.empty(shape) for side in on})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the entries anew."""
        for table in self.parameters():
            draw_entries(table, self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        offsets = -differences(q_positions, k_positions, axes=1)
        if offsets.is_floating_point():
            far, advice = 10**18, "are they numbers?"
            check_inside("offsets of a ShawBias", offsets, [-far], [far], 0, advice)
        places = offsets.squeeze(-1).clamp(-self.left, self.right) + self.left
        reads: tuple[tuple[Tensor, Tensor | None], ...] = ((places, None),)
        if places.is_floating_point():
            reads = tuple(taps(places, self.left + self.right + 1, "linear"))
        on_values = (Term(self.tables["v"], reads),) if self.on == "kv" else ()
        return Contextual((Term(self.tables["k"] * self.scale, reads),), of_values=on_values)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, head_dim={self.head_dim}, left={self.left}, right={self.right}, "
            f"on={self.on!r}, scale={self.scale}, std={self.std}"
        )
