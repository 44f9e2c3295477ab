"""Scalings on several axes: one for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Matrix, Row, axial
from posenc_mm.scaling.base import Scaling

Value = TypeVar("Value")


@dataclass(frozen=True)
class PerAxis:
    r"""Gives every axis a scaling of its own: a video twice as long, at the trained resolution.

    Pairs lie axis after axis, as in :class:`posenc_mm.Rotary`. A scaling's amplitude is on the
    pairs of its axis alone.

    References:
        per axis: Zhao et al.: RIFLEx: A Free Lunch for Length Extrapolation in Video Diffusion
        Transformers (2025), https://arxiv.org/abs/2502.15894

    Args:
        scalings: one for each axis, in the order of the axes: time, row, column.

    Raises:
        ValueError: there is none, or one is no scaling.

    Example:
        >>> from posenc_mm.scaling import Linear, Unscaled
        >>> PerAxis([Linear(2.0), Unscaled()]).frequencies(8)
        ((0.5, 0.005, 0.0, 0.0), (0.0, 0.0, 1.0, 0.01))
    """

    scalings: Sequence[Scaling]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scalings", tuple(self.scalings))
        if not self.scalings or not all(isinstance(each, Scaling) for each in self.scalings):
            raise ValueError(
                f"scalings must be one scaling for each axis, got scalings={self.scalings}"
            )

    def frequencies(
        self,
        rotary_dim: int | Sequence[int],
        base: float | Sequence[float] = 10_000.0,
        *,
        length: int | Sequence[int | None] | None = None,
    ) -> Matrix:
        """Give the speed of each pair along each axis.

        Args:
            rotary_dim: channels that turn, split evenly, or those of each axis.
            base: one for all, or one for each axis.
            length: positions along each axis, or along all.

        Returns:
            ``(A, F)``, block-diagonal, for ``Rotary(head_dim, axes=A, frequencies=...)``

        Raises:
            ValueError: widths do not divide, or what is given for each axis is of another number.
        """
        bases, lengths = self._each("base", base), self._each("length", length)
        asked = zip(self.scalings, self._widths(rotary_dim), bases, lengths, strict=True)
        return axial(*[s.frequencies(width, b, length=size) for s, width, b, size in asked])

    def amplitudes(
        self,
        rotary_dim: int | Sequence[int],
        *,
        length: int | Sequence[int | None] | None = None,
    ) -> Row:
        """Give the factor on cosines and sines of each pair.

        Args:
            rotary_dim: as in :meth:`frequencies`.
            length: likewise.

        Returns:
            ``(F,)``

        Raises:
            ValueError: as :meth:`frequencies`.
        """
        asked = zip(
            self.scalings, self._widths(rotary_dim), self._each("length", length), strict=True
        )
        return tuple(s.amplitude(size) for s, width, size in asked for _ in range(width // 2))

    @property
    def softmax_factor(self) -> float:
        """The factor on the scale of the logits, to be applied beside the amplitudes."""
        return math.prod(each.softmax_factor for each in self.scalings)

    @property
    def static(self) -> bool:
        """Whether keys rotated earlier stay right when any axis grows longer."""
        return all(each.static for each in self.scalings)

    def _widths(self, rotary_dim: int | Sequence[int]) -> list[int]:
        if isinstance(rotary_dim, Sequence):
            return self._each("rotary_dim", rotary_dim)
        check_whole(rotary_dim=rotary_dim)
        if rotary_dim % (2 * len(self.scalings)):
            raise ValueError(
                f"rotary_dim must be a multiple of 2 * axes = {2 * len(self.scalings)}, or one "
                f"width for each axis, got rotary_dim={rotary_dim}"
            )
        return [rotary_dim // len(self.scalings)] * len(self.scalings)

    def _each(self, name: str, value: Value | Sequence[Value]) -> list[Value]:
        each = list(value) if isinstance(value, Sequence) else [value] * len(self.scalings)
        if len(each) != len(self.scalings):
            raise ValueError(
                f"{name} must be one for all or one for each of the {len(self.scalings)} axes, got "
                f"{name}={value}"
            )
        return each
