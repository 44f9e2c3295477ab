"""Scalings on several axes: one for each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Allocation, Matrix, Row, axial
from posenc_mm.frequencies.turning import depth
from posenc_mm.scaling.base import Scaling

Value = TypeVar("Value")


@dataclass(frozen=True)
class PerAxis:
    r"""Gives every axis a scaling of its own: a video twice as long, at the trained resolution.

    Pairs lie axis after axis, as in :class:`posenc_mm.Rotary`, each axis with a ladder of its own.
    With an ``allocation`` there is one ladder over all pairs: each scaling stretches the whole of
    it, and its axis takes those pairs that the allocation gives it. A scaling's amplitude is on the
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

        One ladder that two axes share, slower for the first:

        >>> from functools import partial
        >>> from posenc_mm.frequencies import sections
        >>> halves = partial(sections, counts=(1, 1))
        >>> PerAxis([Linear(2.0), Unscaled()]).frequencies(4, allocation=halves)
        ((0.5, 0.0), (0.0, 0.01))
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
        allocation: Allocation | None = None,
    ) -> Matrix:
        """Give the speed of each pair along each axis.

        Args:
            rotary_dim: channels that turn, split evenly, or those of each axis.
            base: one for all, or one for each axis.
            length: positions along each axis, or along all.
            allocation: how one ladder over all pairs is dealt to the axes, such as
                ``functools.partial(sections, counts=(16, 24, 24))``; then ``rotary_dim`` is one
                number.

        Returns:
            ``(A, F)``, block-diagonal or as allocated, for ``Rotary(head_dim, axes=A,
            frequencies=...)``

        Raises:
            ValueError: widths do not divide, what is given for each axis is of another number, or
                ``allocation`` gives no matrix ``(A, F)``.
        """
        bases, lengths = self._each("base", base), self._each("length", length)
        widths = self._widths(rotary_dim, allocation)
        asked = zip(self.scalings, widths, bases, lengths, strict=True)
        ladders = [s.frequencies(width, b, length=size) for s, width, b, size in asked]
        if allocation is None:
            return axial(*ladders)
        return tuple(self._allocated(allocation, row)[axis] for axis, row in enumerate(ladders))

    def amplitudes(
        self,
        rotary_dim: int | Sequence[int],
        *,
        length: int | Sequence[int | None] | None = None,
        allocation: Allocation | None = None,
    ) -> Row:
        """Give the factor on cosines and sines of each pair.

        Args:
            rotary_dim: as in :meth:`frequencies`.
            length: likewise.
            allocation: likewise. A pair that does not turn has the factor that all axes agree on,
                else 1.

        Returns:
            ``(F,)``

        Raises:
            ValueError: as :meth:`frequencies`, or a pair looks along axes of several factors.
        """
        widths = self._widths(rotary_dim, allocation)
        sizes = self._each("length", length)
        factors = [s.amplitude(size) for s, size in zip(self.scalings, sizes, strict=True)]
        if allocation is None:
            return tuple(f for f, w in zip(factors, widths, strict=True) for _ in range(w // 2))
        if len(set(factors)) == 1:
            return (factors[0],) * (widths[0] // 2)
        columns = zip(*self._allocated(allocation, (1.0,) * (widths[0] // 2)), strict=True)
        seen = [{f for f, share in zip(factors, c, strict=True) if share} for c in columns]
        if any(len(each) > 1 for each in seen):
            raise ValueError(
                f"allocation must give each pair to one axis where the axes have several "
                f"amplitudes, got amplitudes={factors} on one pair"
            )
        return tuple(each.pop() if each else 1.0 for each in seen)

    @property
    def softmax_factor(self) -> float:
        """The factor on the scale of the logits, to be applied beside the amplitudes."""
        return math.prod(each.softmax_factor for each in self.scalings)

    @property
    def static(self) -> bool:
        """Whether keys rotated earlier stay right when any axis grows longer."""
        return all(each.static for each in self.scalings)

    def _allocated(self, allocation: Allocation, row: Row) -> Matrix:
        matrix = allocation(row)
        shape = [len(each) if isinstance(each, Sequence) else 0 for each in matrix]
        if shape != [len(row)] * len(self.scalings) or depth(matrix) != 2:
            raise ValueError(
                f"allocation must give a matrix ({len(self.scalings)}, {len(row)}) of the "
                f"{len(row)} frequencies of a ladder, got rows of lengths {shape}"
            )
        return matrix

    def _widths(
        self, rotary_dim: int | Sequence[int], allocation: Allocation | None = None
    ) -> list[int]:
        if allocation is not None:
            check_whole(2, rotary_dim=rotary_dim)
            return self._each("rotary_dim", cast(int, rotary_dim))
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
