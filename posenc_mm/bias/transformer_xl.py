"""Transformer-XL's relative positions: queries meet projected sinusoids of the distance."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc_mm.bias.contextual import Contextual, ContextualBias
from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import angles, geometric
from posenc_mm.layouts import check_layout


class Waves(NamedTuple):
    r"""Projected sinusoids of every difference of two positions.

    A sinusoid of a difference is a product of two: :math:`\sin(a - b) = \sin a \cos b - \cos a
    \sin b`. So tokens turn by their own angles and meet the waves of the others, in one matrix
    product as wide as the waves, and no pair has a row to look up.

    Attributes:
        weight: ``(H, D, E)``, from sinusoids to keys.
        shift: ``(H, D)``, added to every token first.
        own: angles ``(..., N, E / 2)`` of the tokens.
        others: angles ``(..., M, E / 2)`` of what they meet.
        layout: where a sine and its cosine sit among the E channels.
    """

    weight: Tensor
    shift: Tensor
    own: Tensor
    others: Tensor
    layout: str

    def times(self, x: Tensor) -> Tensor:
        """Multiply with tokens ``(B, H, N, D)``: ``(B, H, N, M)``."""
        _check_width(x, self.shift)
        shifted = x + self.shift.to(x.dtype).unsqueeze(-2)
        projected = shifted @ self.weight.to(x.dtype)
        if self.layout == "half":
            of_sines, of_cosines = projected.chunk(2, dim=-1)
        else:
            of_sines, of_cosines = projected[..., 0::2], projected[..., 1::2]
        own, others = (a if a.ndim == 2 else a.unsqueeze(-3) for a in (self.own, self.others))
        sin, cos = own.sin(), own.cos()
        on_cosines = of_sines * sin + of_cosines * cos
        on_sines = of_cosines * sin - of_sines * cos
        turned = torch.cat((on_cosines, on_sines), dim=-1).to(x.dtype)
        waves = torch.cat((others.cos(), others.sin()), dim=-1).to(x.dtype)
        return turned @ waves.mT


class Everywhere(NamedTuple):
    """One vector per head that every token meets, whatever stands on the other side.

    Attributes:
        vectors: ``(H, D)``.
    """

    vectors: Tensor

    def times(self, x: Tensor) -> Tensor:
        """Multiply with tokens ``(B, H, N, D)``: ``(B, H, N, 1)``."""
        _check_width(x, self.vectors)
        return x @ self.vectors.to(x.dtype).unsqueeze(-1)


class TransformerXLBias(ContextualBias):
    r"""Queries meet projected sinusoids of the distance; two vectors stand in for a query.

    .. math:: b_{hij} = s \left( u_h \cdot k_j + (q_i + v_h) \cdot W_h R(p_i - p_j) \right), \quad
        R(n) = (\sin n f_0, \ldots, \sin n f_{E/2-1}, \cos n f_0, \ldots), \quad
        f_m = b^{-2m/E}

    With the attention's own :math:`s \, q_i \cdot k_j` these are the authors' four terms. Any real
    distance has a sinusoid: no table limits the length. XLNet's ``r_w_bias``, ``r_r_bias`` and
    ``r`` are :math:`u`, :math:`v` and :math:`W`; its option to clamp distances is left out.

    Traps: their models learn :math:`W` anew in every layer: give :class:`posenc_mm.Transformer` one
    instance per layer for that. Conformers put each sine beside its cosine: see ``layout``.

    References:
        Dai, Yang, Yang, Carbonell, Le, Salakhutdinov: Transformer-XL: Attentive Language Models
        Beyond a Fixed-Length Context (2019), https://arxiv.org/abs/1901.02860

    Args:
        heads: number of attention heads :math:`H`.
        head_dim: channels :math:`D` of a head.
        width: channels :math:`E` of the sinusoids, even; ``heads * head_dim`` unless given.
        base: :math:`b`.
        layout: ``"half"``, the authors', has all sines before all cosines; ``"interleaved"``, of
            Wav2Vec2-BERT and other conformers, has each sine before its cosine.
        scale: :math:`s`, that of the attention; :math:`D^{-1/2}` unless given.
        std: standard deviation of the initial weights (normal).

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> Contextual``

    Raises:
        ValueError: ``heads`` or ``head_dim`` is below 1, ``width`` odd, ``base`` not positive,
            ``layout`` unknown, or ``scale`` or ``std`` negative; at the call, positions do not have
            one axis.

    Example:
        >>> from posenc_mm import attend, sequence
        >>> q = k = v = torch.ones(1, 2, 5, 8)
        >>> bias = TransformerXLBias(heads=2, head_dim=8)
        >>> attend(q, k, v, bias=bias, q_positions=sequence(5)).shape
        torch.Size([1, 2, 5, 8])
    """

    def __init__(
        self,
        heads: int,
        head_dim: int,
        *,
        width: int | None = None,
        base: float = 10_000.0,
        layout: str = "half",
        scale: float | None = None,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        check_whole(heads=heads, head_dim=head_dim)
        self.width = heads * head_dim if width is None else width
        check_whole(width=self.width)
        check_layout(layout)
        self.scale = head_dim**-0.5 if scale is None else scale
        check_number(scale=self.scale, std=std)
        check_number(above=True, base=base)
        if self.width % 2:
            raise ValueError(f"width must be even, of sines and cosines, got width={self.width}")
        self.heads, self.head_dim, self.layout = heads, head_dim, layout
        self.base, self.std = float(base), float(std)
        self.frequencies = geometric(self.width // 2, self.base)
        self.u, self.v = (nn.Parameter(torch.empty(heads, head_dim)) for _ in range(2))
        self.weight = nn.Parameter(torch.empty(heads, head_dim, self.width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Contextual:
        own, others = (angles(each, (self.frequencies,)) for each in (q_positions, k_positions))
        waves = Waves(self.weight * self.scale, self.v, own, others, self.layout)
        return Contextual((waves,), (Everywhere(self.u * self.scale),))

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, head_dim={self.head_dim}, width={self.width}, base={self.base}, "
            f"layout={self.layout!r}, scale={self.scale}, std={self.std}"
        )


def _check_width(x: Tensor, vectors: Tensor) -> None:
    if x.shape[-1] != vectors.shape[-1]:
        raise ValueError(
            f"bias is for heads of {vectors.shape[-1]} channels, but these have {x.shape[-1]}"
        )
