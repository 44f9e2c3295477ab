"""Conditional encodings: added to a token, made from the tokens around it."""

import itertools
from abc import ABC, abstractmethod
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_mm.checks import check_inside, check_whole
from posenc_mm.frequencies import check_positions

# Farther positions would not fit beside those of two other axes in 64 bits.
_REACH = 2**18


class ConditionalEncoding(nn.Module, ABC):
    """Maps tokens and their positions to vectors that a host adds to the tokens.

    Attributes:
        dim: width :math:`D` of tokens and vectors.

    Shape:
        ``tokens (B, N, D), positions (N, A) or (B, N, A) -> (B, N, D)``
    """

    dim: int

    @abstractmethod
    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Encode tokens at positions.

        Args:
            tokens: ``(B, N, D)``, those that have a position: no class or register tokens.
            positions: ``(N, A)`` or ``(B, N, A)``.

        Returns:
            ``(B, N, D)``: what is to be added to the tokens.
        """


class Conditional(ConditionalEncoding):
    r"""A depthwise convolution over the map of tokens, whichever of them are there.

    .. math:: e_i = b + \sum_{\delta} w_\delta \odot x_{n(p_i + \delta)}, \quad
        \delta \in \{-r, \ldots, r\}^A

    where :math:`n(p)` is the token at :math:`p`, and a place without one counts as zero. The edge
    of the picture is therefore zero padding, from which a token learns where it stands, and a
    dropped patch is a hole. Neighbours are found by their positions: no height or width is needed,
    guessed or trained, tokens come in any order, and pictures of other sizes and shapes, per
    sample, need nothing. The cost is :math:`3^A` look-ups in a sorted list of positions.

    Known as position encoding generator (PEG), after the first block of a model (CPVT) or of each
    stage (Twins). The parameters are those of a depthwise :class:`torch.nn.Conv2d`.

    Traps: tokens see their neighbours on all sides, later ones too, so it is not for causal models,
    and padded tokens are neighbours like any others. Published models have it behind their first
    block, not in front of it.

    References:
        Chu et al.: Conditional Positional Encodings for Vision Transformers (2023),
        https://arxiv.org/abs/2102.10882

    Args:
        dim: width :math:`D`.
        axes: number of axes :math:`A`, 1 to 3.
        kernel: cells :math:`2 r + 1` that the convolution spans per axis, odd.

    Shape:
        ``tokens (B, N, D), positions (N, A) or (B, N, A) -> (B, N, D)``, in the tokens' dtype

    Raises:
        ValueError: ``dim`` or ``kernel`` is below 1, ``kernel`` even, or ``axes`` not 1 to 3; at
            the call, the shapes do not fit, positions are not whole, farther than 262144 from 0, or
            two tokens of a sample share one (compiled, exported and on CUDA an assertion that fails
            as it runs).

    Example:
        >>> from posenc_mm import grid
        >>> tokens = torch.randn(2, 15, 8)
        >>> (tokens + Conditional(dim=8)(tokens, grid(3, 5))).shape
        torch.Size([2, 15, 8])
    """

    def __init__(self, dim: int, axes: int = 2, *, kernel: int = 3) -> None:
        super().__init__()
        check_whole(dim=dim, axes=axes, kernel=kernel)
        if axes > 3 or kernel % 2 == 0:
            raise ValueError(
                f"axes must be 1 to 3 and kernel odd, got axes={axes} and kernel={kernel}"
            )
        self.dim, self.axes, self.kernel = dim, axes, kernel
        self.weight = nn.Parameter(torch.empty(dim, 1, *[kernel] * axes))
        self.bias = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, as torch's convolutions do."""
        bound = self.kernel ** (-self.axes / 2)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        self._check(tokens, positions)
        keys = _keys(_whole(positions if positions.ndim == 3 else positions.unsqueeze(0)))
        places, order = keys.sort(dim=-1)
        advice = "give every token of a sample a position of its own"
        count = _rank(places, keys + 1) - _rank(places, keys)
        check_inside("tokens at one position", count.unsqueeze(-1), [1], [1], 0, advice)
        wide = torch.promote_types(tokens.dtype, torch.float32)
        batch, length = tokens.shape[:2]
        # All samples' tokens as rows of one list, with a last row for places without a token.
        listed = torch.cat((tokens.flatten(0, 1).to(wide), tokens.new_zeros(1, self.dim).to(wide)))
        first = length * torch.arange(batch, device=tokens.device).unsqueeze(-1)
        reach = range(-(self.kernel // 2), self.kernel // 2 + 1)
        steps = itertools.product(reach, repeat=self.axes)
        weights = self.weight.flatten(1).to(wide).T.contiguous()
        total = self.bias.to(wide).repeat(batch, length, 1)
        for step, weight in zip(steps, weights.unbind(), strict=True):
            wanted = keys + _key_of(step)
            found = _rank(places, wanted).clamp(max=length - 1)
            there = places.gather(-1, found) == wanted
            rows = torch.where(there, first + order.gather(-1, found), batch * length)
            total.addcmul_(functional.embedding(rows, listed), weight)
        return total.to(tokens.dtype)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, axes={self.axes}, kernel={self.kernel}"

    def _check(self, tokens: Tensor, positions: Tensor) -> None:
        check_positions(positions, self.axes)
        fits = tokens.ndim == 3 and positions.ndim in (2, 3)
        if fits and positions.ndim == 3:
            fits = positions.shape[0] in (1, tokens.shape[0])
        if not fits or positions.shape[-2] != tokens.shape[1] or tokens.shape[2] != self.dim:
            raise ValueError(
                f"tokens must be (B, N, {self.dim}) and positions (N, {self.axes}) or (B, N, "
                f"{self.axes}), got shapes {tuple(tokens.shape)} and {tuple(positions.shape)}"
            )
        name, advice = "positions of a Conditional", "count cells from 0"
        check_inside(name, positions, [-_REACH] * self.axes, [_REACH] * self.axes, 0, advice)


def _whole(positions: Tensor) -> Tensor:
    if not positions.is_floating_point():
        return positions.long()
    cells = positions.round()
    name, advice = "distances of positions from whole ones", "neighbours are one cell apart"
    check_inside(name, (positions - cells).flatten().unsqueeze(-1), [0], [0], 0, advice)
    return cells.long()


def _keys(positions: Tensor) -> Tensor:
    """One integer per position ``(..., A)``, such that a step in space is a step in it."""
    columns = positions.unbind(-1)
    key = columns[0]
    for column in columns[1:]:
        key = key * 4 * _REACH + column
    return key


def _rank(places: Tensor, wanted: Tensor) -> Tensor:
    """How many of the sorted places are smaller than each wanted one."""
    if torch.onnx.is_in_onnx_export():
        # ONNX has no search in a sorted list: every pair is compared instead.
        return (places.unsqueeze(-2) < wanted.unsqueeze(-1)).sum(-1)
    return torch.searchsorted(places, wanted)


def _key_of(step: tuple[int, ...]) -> int:
    return reduce(lambda key, cells: key * 4 * _REACH + cells, step)
