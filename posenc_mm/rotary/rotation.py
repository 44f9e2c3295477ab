"""What turns queries and keys: tables of one or several tokens, and which tokens they are of."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm.checks import check_indices, check_whole


class Rotation(NamedTuple):
    r"""Cosines and sines by which pairs of channels turn, and where the pairs sit.

    Some encodings need more than that. A ``basis``, of all tokens, mixes channels before they turn
    (STRING). ``matrices``, of each token, act in place of turning (LieRE).

    Attributes:
        cos: ``(..., N, F)``, or ``(..., H, N, F)`` per head.
        sin: of the same shape.
        layout: ``"interleaved"`` pairs channels (2i, 2i + 1), ``"half"`` pairs (i, i + F),
            ``"axis_half"`` is a half layout within each of the ``blocks``. ``"vjepa2"`` is no
            rotation: see :class:`posenc_mm.Rotary`.
        per_head: whether there is a head axis. Without it a leading axis is the batch's.
        blocks: number of blocks, of :math:`2F` channels together, that the last two layouts name.
        basis: ``(W, W)``, or ``(H, W, W)`` per head: the first W channels :math:`x` become
            :math:`x^\top` times it, then turn.
        basis_last: whether channels turn first: that of an inverse.
        matrices: ``(..., N, blocks, b, b)``, or ``(..., H, N, blocks, b, b)`` per head, each for
            b channels in order. They act, and ``cos`` and ``sin`` then only tell how far they turn
            each pair within itself.
        amplitude: what cosines and sines are multiplied by already, one number or one per pair: the
            temperature that some scalings bring.
        side: whether it is for ``"both"``, or for ``"queries"`` or ``"keys"`` alone, which then
            only go together (xPos).
    """

    cos: Tensor
    sin: Tensor
    layout: str
    per_head: bool = False
    blocks: int = 1
    basis: Tensor | None = None
    basis_last: bool = False
    matrices: Tensor | None = None
    amplitude: float | tuple[float, ...] = 1.0
    side: str = "both"

    def inverse(self) -> "Rotation":
        """Turn the other way: ``rotate(rotate(x, r), r.inverse())`` is ``x``.

        Returns:
            A rotation of the same tokens. Bases and matrices are taken to be orthogonal.

        Raises:
            ValueError: the layout is ``"vjepa2"``, which is no rotation.
        """
        if self.layout == "vjepa2":
            raise ValueError(
                "layout='vjepa2' is no rotation and has no inverse, use a layout of pairs that turn"
            )
        rest = self._replace(sin=-self.sin)
        if self.amplitude != 1.0:
            squared, one = self._amplitudes().square(), self.amplitude
            rest = self._replace(
                cos=self.cos / squared,
                sin=-self.sin / squared,
                amplitude=tuple(1 / a for a in one) if isinstance(one, tuple) else 1 / one,
            )
        if self.basis is not None:
            rest = rest._replace(basis=self.basis.mT, basis_last=not self.basis_last)
        return rest if self.matrices is None else rest._replace(matrices=self.matrices.mT)

    def prefix(self, count: int) -> "Rotation":
        """Put tokens that do not turn, such as class and register tokens, in front.

        They have the ``amplitude`` of the others. A ``basis`` mixes their channels as those of all
        tokens, so that scores stay what they were.

        Args:
            count: how many.

        Returns:
            A rotation of ``count`` more tokens.

        Raises:
            ValueError: ``count`` is negative.
        """
        check_whole(0, count=count)
        shape = (*self.cos.shape[:-2], count, self.cos.shape[-1])
        still = self.cos.new_ones(shape)
        if self.amplitude != 1.0:
            still = still * self._amplitudes()
        cos = torch.cat((still, self.cos), dim=-2)
        sin = torch.cat((self.sin.new_zeros(shape), self.sin), dim=-2)
        matrices = self.matrices
        if matrices is not None:
            one = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
            one = one.expand(*matrices.shape[:-4], count, *matrices.shape[-3:])
            matrices = torch.cat((one, matrices), dim=-4)
        return self._replace(cos=cos, sin=sin, matrices=matrices)

    def keep(self, indices: Tensor) -> "Rotation":
        """Take the rotations of the tokens that each sample keeps.

        Args:
            indices: ``(B, K)`` rows to keep, in any order.

        Returns:
            A rotation ``(B, K, F)``, or ``(B, H, K, F)`` per head.

        Raises:
            ValueError: ``indices`` is not ``(B, K)``, or the rotation is of another batch.
        """
        check_indices(indices, self.cos.shape[-2])
        indices = indices.long()
        matrices = self.matrices
        if matrices is not None:
            flat = _gather(matrices.flatten(-3), indices, self.per_head)
            matrices = flat.reshape(*flat.shape[:-1], *matrices.shape[-3:])
        return self._replace(
            cos=_gather(self.cos, indices, self.per_head),
            sin=_gather(self.sin, indices, self.per_head),
            matrices=matrices,
        )

    def _amplitudes(self) -> Tensor:
        return torch.tensor(self.amplitude, dtype=self.cos.dtype, device=self.cos.device)


def _gather(values: Tensor, indices: Tensor, per_head: bool) -> Tensor:
    shared = 3 if per_head else 2
    if values.ndim == shared:
        return values[..., indices, :].movedim(-3, 0) if per_head else values[indices]
    if values.shape[0] != indices.shape[0]:
        raise ValueError(
            f"indices must be of the rotation's {values.shape[0]} samples, got {indices.shape[0]}"
        )
    rows = indices.unsqueeze(1) if per_head else indices
    shape = (*values.shape[:-2], indices.shape[-1], values.shape[-1])
    return values.gather(-2, rows.unsqueeze(-1).expand(shape))
