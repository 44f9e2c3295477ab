"""Rotary encoding with fixed frequencies: one ladder per axis."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Allocation, Matrices, Matrix, angles
from posenc_mm.frequencies.turning import Numbers, depth
from posenc_mm.layouts import LAYOUTS, ROTARY_LAYOUTS, check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation
from posenc_mm.rotary.speeds import (
    allocated,
    checked,
    ladders,
    pairs_of,
    said,
    said_twice,
)
from posenc_mm.scaling import PerAxis, Scaling


class Rotary(RotaryEncoding):
    r"""Turns pairs of channels by angles proportional to the position.

    .. math:: \theta_{ai} = p_a \, b_a^{-2i / (w / A)}, \quad i = 0 \ldots F / A - 1

    One axis is RoPE, two are axial RoPE for patches, three serve video: axis after axis has
    :math:`F / A` of the pairs. A score :math:`q \cdot k` then depends on differences of positions
    only. Nothing is learned and nothing is stored.

    Coordinates are the caller's: patch indices from :func:`posenc_mm.grid` (EVA-02, rope-vit), or
    :func:`posenc_mm.normalised_grid` with ``frequencies`` in radians per unit (pixel bands,
    DINOv3).

    Traps: weights trained in one ``layout``, order of axes or base are wrong in another, without an
    error; :func:`posenc_mm.convert_layout` moves them from layout to layout. With a base for texts
    most pairs hardly turn over a picture. Where part of a head turns, some codes let the exponents
    run over all of it (``freq_dim``).

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021),
        https://arxiv.org/abs/2104.09864; axial: Heo et al.: Rotary Position Embedding for Vision
        Transformer (2024), https://arxiv.org/abs/2403.13298

    Args:
        head_dim: channels :math:`D` of a head.
        axes: number of axes :math:`A`.
        base: :math:`b`, one number or one per axis; 10,000 unless given. Patches are few: Heo et
            al. use 100 for them.
        layout: ``"half"`` (GPT-NeoX, Hugging Face's Llama) pairs channels (i, i + F),
            ``"interleaved"`` (RoFormer, Meta's Llama, EVA-02) pairs (2i, 2i + 1), ``"axis_half"``
            (Gemma 4's vision) is a half layout within the channels of each axis. ``"vjepa2"`` is
            for the checkpoints of V-JEPA 2 and for nothing else. It turns no pairs: the two
            channels of (2i, 2i + 1) have different angles, lengths change, and scores are not
            functions of differences of positions.
        rotary_dim: channels :math:`2F` that turn, a multiple of ``2 * axes``; all unless given. Or
            the channels of each axis, even numbers: ``(16, 56, 56)``.
        freq_dim: channels :math:`w` over which the exponents run, ``rotary_dim`` unless given;
            wider leaves out the slow end of the ladder.
        frequencies: ``(A, F)`` numbers in radians per unit of position, in place of the ladder
            that ``base`` and ``freq_dim`` describe; or ``(H, A, F)``, which differ from head to
            head.
        allocation: makes ``(A, F)`` of one ladder over all pairs, in place of a ladder for each
            axis: ``functools.partial(posenc_mm.frequencies.sections, counts=(16, 24, 24))`` is
            M-RoPE.
        scaling: how a trained ladder is stretched to longer inputs, see :mod:`posenc_mm.scaling`;
            one for all axes, or a :class:`posenc_mm.scaling.PerAxis`.
        length: positions in the whole sequence, for scalings that depend on it.

    Attributes:
        amplitude: the scaling's factor on cosines and sines.
        softmax_factor: the scaling's factor on the logits, which a host applies, as
            :class:`posenc_mm.Transformer` does.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)``, or ``(..., H, N, F)`` with
        ``frequencies`` of heads

    Raises:
        ValueError: a width is odd, does not divide or does not fit, ``base`` is not positive or not
            one per axis, ``layout`` is unknown or does not fit ``frequencies``, ``allocation`` or
            ``scaling`` comes with what it would have to undo, or ``length`` without it; at the
            call, positions do not have :math:`A` axes.

    Example:
        >>> from posenc_mm import grid
        >>> Rotary(head_dim=64, axes=2)(grid(4, 6)).cos.shape
        torch.Size([24, 32])
    """

    def __init__(
        self,
        head_dim: int,
        axes: int = 1,
        *,
        base: float | Sequence[float] | None = None,
        layout: str = "half",
        rotary_dim: int | Sequence[int] | None = None,
        freq_dim: int | None = None,
        frequencies: Numbers | None = None,
        allocation: Allocation | None = None,
        scaling: Scaling | PerAxis | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        check_layout(layout, ROTARY_LAYOUTS)
        check_whole(head_dim=head_dim, axes=axes)
        self.head_dim, self.axes, self.layout = head_dim, axes, layout
        self.frequencies: Matrix | Matrices
        if frequencies is None:
            base = 10_000.0 if base is None else base
            asked = (head_dim, axes, base, rotary_dim, freq_dim)
            self.frequencies = allocated(*asked, allocation) if allocation else ladders(*asked)
        else:
            self.frequencies = checked("frequencies", frequencies, axes, head_dim)
            said_twice(self.frequencies, base, rotary_dim, freq_dim, allocation)
        self.rotary_dim = 2 * pairs_of(self.frequencies)
        self.per_head = depth(self.frequencies) == 3
        self.amplitude: float | tuple[float, ...] = 1.0
        self.softmax_factor = 1.0
        if scaling is not None:
            if frequencies is not None or freq_dim is not None:
                raise ValueError(
                    f"scaling starts from base alone: leave the others out, got "
                    f"frequencies={frequencies} and freq_dim={freq_dim}"
                )
            widths = rotary_dim if isinstance(rotary_dim, Sequence) else self.rotary_dim
            self._stretch(scaling, base or 10_000.0, widths, length, allocation)
        elif length is not None:
            raise ValueError(f"length is for a scaling, got length={length} without scaling")
        self.blocks = 1 if layout in LAYOUTS else axes
        uneven = allocation or (isinstance(rotary_dim, Sequence) and len(set(rotary_dim)) > 1)
        if self.blocks > 1 and (uneven or self.rotary_dim % (2 * self.blocks)):
            raise ValueError(
                f"layout={layout!r} needs as many frequencies for each of {axes} axes, got "
                f"{self.rotary_dim // 2} in all"
            )
        self._arguments = {
            "base": base if base is None or isinstance(base, Sequence) else float(base),
            "rotary_dim": rotary_dim if isinstance(rotary_dim, Sequence) else self.rotary_dim,
            "freq_dim": freq_dim,
            "frequencies": None if frequencies is None else self.frequencies,
            "allocation": None if allocation is None else said(allocation),
            "scaling": scaling,
            "length": length,
        }

    def _stretch(
        self,
        scaling: Scaling | PerAxis,
        base: float | Sequence[float],
        widths: int | Sequence[int],
        length: int | None,
        allocation: Allocation | None,
    ) -> None:
        each = scaling if isinstance(scaling, PerAxis) else PerAxis([scaling] * self.axes)
        if len(each.scalings) != self.axes:
            raise ValueError(f"scaling must have {self.axes} axes, got {len(each.scalings)}")
        self.frequencies = each.frequencies(widths, base, length=length, allocation=allocation)
        factors = each.amplitudes(widths, length=length, allocation=allocation)
        self.amplitude = factors if len(set(factors)) > 1 else factors[0]
        self.softmax_factor = each.softmax_factor

    def forward(self, positions: Tensor) -> Rotation:
        theta = angles(positions, self.frequencies)
        cos, sin = theta.cos(), theta.sin()
        if self.amplitude != 1.0:
            factors = torch.tensor(self.amplitude, dtype=cos.dtype, device=cos.device)
            cos, sin = cos * factors, sin * factors
        return Rotation(cos, sin, self.layout, self.per_head, self.blocks, amplitude=self.amplitude)

    def extra_repr(self) -> str:
        rest = ", ".join(f"{k}={v}" for k, v in self._arguments.items() if v is not None)
        return f"head_dim={self.head_dim}, axes={self.axes}, layout={self.layout!r}, {rest}"
