"""Rotary encoding with fixed frequencies: one ladder per axis."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import angles, axial, geometric
from posenc_mm.layouts import LAYOUTS, ROTARY_LAYOUTS, check_layout
from posenc_mm.rotary.base import RotaryEncoding
from posenc_mm.rotary.rotation import Rotation
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
        rotary_dim: channels :math:`2F` that turn, a multiple of ``2 * axes``; all unless given.
        freq_dim: channels :math:`w` over which the exponents run, ``rotary_dim`` unless given;
            wider leaves out the slow end of the ladder.
        frequencies: ``(A, F)`` numbers in radians per unit of position, in place of the ladder
            that ``base`` and ``freq_dim`` describe.
        scaling: how a trained ladder is stretched to longer inputs, see :mod:`posenc_mm.scaling`;
            one for all axes, or a :class:`posenc_mm.scaling.PerAxis`.
        length: positions in the whole sequence, for scalings that depend on it.

    Attributes:
        amplitude: the scaling's factor on cosines and sines.
        softmax_factor: the scaling's factor on the logits, which a host applies, as
            :class:`posenc_mm.Transformer` does.

    Shape:
        ``positions (..., N, A) -> Rotation`` of ``(..., N, F)``

    Raises:
        ValueError: a width is odd, does not divide or does not fit, ``base`` is not positive or not
            one per axis, ``layout`` is unknown or does not fit ``frequencies``, ``scaling`` comes
            with what it would have to undo, or ``length`` without it; at the call, positions do not
            have :math:`A` axes.

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
        rotary_dim: int | None = None,
        freq_dim: int | None = None,
        frequencies: Sequence[Sequence[float]] | None = None,
        scaling: Scaling | PerAxis | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        check_layout(layout, ROTARY_LAYOUTS)
        check_whole(head_dim=head_dim, axes=axes)
        self.head_dim, self.axes, self.layout = head_dim, axes, layout
        if frequencies is not None:
            self.frequencies = _checked(frequencies, axes, head_dim)
            given = {"base": base, "rotary_dim": rotary_dim, "freq_dim": freq_dim}
            if rotary_dim == 2 * len(self.frequencies[0]):
                del given["rotary_dim"]
            if any(value is not None for value in given.values()):
                raise ValueError(
                    f"base, rotary_dim and freq_dim follow from frequencies: leave them out, got "
                    f"{given}"
                )
        else:
            base = 10_000.0 if base is None else base
            self.frequencies = _ladders(head_dim, axes, base, rotary_dim, freq_dim)
        self.rotary_dim = 2 * len(self.frequencies[0])
        self.amplitude: float | tuple[float, ...] = 1.0
        self.softmax_factor = 1.0
        if scaling is not None:
            if frequencies is not None or freq_dim is not None:
                raise ValueError(
                    f"scaling starts from base alone: leave the others out, got "
                    f"frequencies={frequencies} and freq_dim={freq_dim}"
                )
            self._stretch(scaling, base or 10_000.0, length)
        elif length is not None:
            raise ValueError(f"length is for a scaling, got length={length} without scaling")
        self.blocks = 1 if layout in LAYOUTS else axes
        if self.rotary_dim % (2 * self.blocks):
            raise ValueError(
                f"layout={layout!r} needs as many frequencies for each of {axes} axes, got "
                f"{self.rotary_dim // 2} in all"
            )
        self._arguments = {
            "base": base if base is None or isinstance(base, Sequence) else float(base),
            "rotary_dim": self.rotary_dim,
            "freq_dim": freq_dim,
            "frequencies": None if frequencies is None else self.frequencies,
            "scaling": scaling,
            "length": length,
        }

    def _stretch(
        self, scaling: Scaling | PerAxis, base: float | Sequence[float], length: int | None
    ) -> None:
        each = scaling if isinstance(scaling, PerAxis) else PerAxis([scaling] * self.axes)
        if len(each.scalings) != self.axes:
            raise ValueError(f"scaling must have {self.axes} axes, got {len(each.scalings)}")
        self.frequencies = each.frequencies(self.rotary_dim, base, length=length)
        factors = each.amplitudes(self.rotary_dim, length=length)
        self.amplitude = factors if len(set(factors)) > 1 else factors[0]
        self.softmax_factor = each.softmax_factor

    def forward(self, positions: Tensor) -> Rotation:
        theta = angles(positions, self.frequencies)
        cos, sin = theta.cos(), theta.sin()
        if self.amplitude != 1.0:
            factors = torch.tensor(self.amplitude, dtype=cos.dtype, device=cos.device)
            cos, sin = cos * factors, sin * factors
        return Rotation(cos, sin, self.layout, blocks=self.blocks, amplitude=self.amplitude)

    def extra_repr(self) -> str:
        rest = ", ".join(f"{k}={v}" for k, v in self._arguments.items() if v is not None)
        return f"head_dim={self.head_dim}, axes={self.axes}, layout={self.layout!r}, {rest}"


def _ladders(
    head_dim: int,
    axes: int,
    base: float | Sequence[float],
    rotary_dim: int | None,
    freq_dim: int | None,
) -> tuple[tuple[float, ...], ...]:
    turning = head_dim if rotary_dim is None else rotary_dim
    what = "head_dim" if rotary_dim is None else "rotary_dim"
    check_whole(**{what: turning})
    if turning % (2 * axes) or turning > head_dim:
        fitting = head_dim - head_dim % (2 * axes)
        raise ValueError(
            f"{what} must be a positive multiple of 2 * axes = {2 * axes} and fit head_dim, got "
            f"{what}={turning}, head_dim={head_dim} and axes={axes}; rotary_dim={fitting} would "
            f"turn the most channels that fit"
        )
    bases = list(base) if isinstance(base, Sequence) else [base] * axes
    if len(bases) != axes:
        raise ValueError(f"base must be one number or one per axis ({axes}), got base={base}")
    width = turning if freq_dim is None else freq_dim
    check_whole(freq_dim=width)
    if width < turning:
        raise ValueError(
            f"freq_dim must be at least the {turning} channels that turn, got freq_dim={freq_dim}"
        )
    pairs = turning // (2 * axes)
    return axial(*[geometric(pairs, own, width=width / axes) for own in bases])


def _checked(
    frequencies: Sequence[Sequence[float]], axes: int, head_dim: int
) -> tuple[tuple[float, ...], ...]:
    matrix = tuple(tuple(float(f) for f in row) for row in frequencies)
    widths = {len(row) for row in matrix}
    if not all(math.isfinite(f) for row in matrix for f in row):
        raise ValueError(f"frequencies must be finite, got frequencies={matrix}")
    if len(matrix) != axes or len(widths) != 1 or not 0 < 2 * min(widths) <= head_dim:
        raise ValueError(
            f"frequencies must be ({axes}, F) with 2F at most head_dim={head_dim}, got rows of "
            f"lengths {[len(row) for row in matrix]}"
        )
    return matrix
