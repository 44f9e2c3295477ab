"""Continuous bias: a small network reads log-spaced offsets, so that any offset has a bias."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc_mm.bias.base import AttentionBias, differences
from posenc_mm.bias.forms import ScoreMod, table_score_mod
from posenc_mm.checks import check_inside, check_number, check_sizes, check_whole
from posenc_mm.positions import grid
from posenc_mm.tables import lookup


class ContinuousBias(AttentionBias):
    r"""A network of two layers from log-spaced offsets (query minus key) to one number per head.

    .. math:: b_{hij} = 16 \, \sigma(W_2 \max(0, W_1 c(p_i - p_j) + b_1))_h, \quad
        c(d)_a = \mathrm{sign}(d_a) \frac{\log_2(1 + 8 |d_a| / (W_a - 1))}{\log_2 8}

    Offsets of the trained window :math:`W` lie in about -1 to 1, and the logarithm lets a far
    larger window extend them by little: a model trained on small windows runs at large ones. Other
    grids need no rescaling, only their positions.

    The convention ``"cr"``, of timm's ``RelPosMlp`` and Swin V2-CR, has :math:`c(d)_a =
    \mathrm{sign}(d_a) \ln(1 + |d_a|)`, with nothing trained in it, an output bias :math:`b_2`, and
    no sigmoid.

    A bias is as many evaluations of the network as there are pairs of tokens. Where positions are
    whole and one grid holds them, :meth:`tabulated` evaluates each offset once.

    Traps: the two conventions are different functions, whose weights do not carry over. ``window``
    stays that of the training as windows grow: with the new one, every offset would be read as
    another.

    References:
        Liu et al.: Swin Transformer V2 (2022), https://arxiv.org/abs/2111.09883

    Args:
        heads: number of attention heads :math:`H`.
        window: cells :math:`W` per axis of the window trained on; for ``"swin"`` only.
        axes: number of axes :math:`A`; of ``window``, or 2, unless given.
        hidden: width of the hidden layer: 512 in Swin V2, 384 in Swin V2-CR, 128 in ``RelPosMlp``.
        convention: ``"swin"`` or ``"cr"``.
        std: standard deviation of the initial weights (normal, cut at -2 and 2); biases start at 0.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in the widest dtype
        of float32, the positions and the weights

    Raises:
        ValueError: ``heads``, ``hidden``, ``axes`` or a size of the window is below 1, ``std``
            negative or ``convention`` unknown; ``window`` is missing for ``"swin"``, given for
            ``"cr"``, or of other axes than ``axes``; at the call, positions do not have :math:`A`
            axes.

    Example:
        >>> from posenc_mm import grid
        >>> ContinuousBias(heads=3, window=(8, 8))(grid(4, 6), grid(4, 6)).shape
        torch.Size([3, 24, 24])
    """

    def __init__(
        self,
        heads: int,
        window: int | Sequence[int] | None = None,
        *,
        axes: int | None = None,
        hidden: int = 512,
        convention: str = "swin",
        std: float = 0.02,
    ) -> None:
        super().__init__()
        check_whole(heads=heads, hidden=hidden)
        check_number(std=std)
        if convention not in ("swin", "cr"):
            raise ValueError(f"convention must be 'swin' or 'cr', got convention={convention!r}")
        if (window is None) == (convention == "swin"):
            raise ValueError(
                f"window must be given for 'swin', which measures offsets in it, and only there, "
                f"got window={window} and convention={convention!r}"
            )
        self.window = None if window is None else check_sizes("window", window)
        given = 2 if self.window is None else len(self.window)
        self.axes = given if axes is None else axes
        check_whole(axes=self.axes)
        if self.window is not None and self.axes != given:
            raise ValueError(f"axes must be that of window={self.window}, got axes={axes}")
        self.heads, self.hidden, self.convention, self.std = heads, hidden, convention, float(std)
        self.mlp = nn.Sequential(
            nn.Linear(self.axes, hidden),
            nn.ReLU(),
            nn.Linear(hidden, heads, bias=convention == "cr"),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.trunc_normal_(parameter, std=self.std)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self._of(differences(q_positions, k_positions, axes=self.axes)).movedim(-1, -3)

    @property
    def by_difference(self) -> bool:
        return self.axes == 1

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        return table_score_mod(self, q_positions, k_positions) if self.by_difference else None

    def tabulated(self, q_positions: Tensor, k_positions: Tensor, sizes: Sequence[int]) -> Tensor:
        """Compare whole positions of one grid: the same numbers, from far fewer evaluations.

        Args:
            q_positions: ``(..., N, A)`` of the queries, integers.
            k_positions: ``(..., M, A)`` of the keys, integers.
            sizes: cells per axis of a grid, at any place, that holds all of them.

        Returns:
            ``(..., H, N, M)``

        Raises:
            ValueError: positions are no integers or do not have :math:`A` axes, ``sizes`` have
                other axes, or an offset lies outside.
        """
        sizes = check_sizes("sizes", sizes)
        if len(sizes) != self.axes:
            raise ValueError(f"sizes must be {self.axes}, one per axis, got sizes={sizes}")
        offsets = differences(q_positions, k_positions, axes=self.axes)
        if offsets.is_floating_point():
            raise ValueError(
                f"positions must be integers to read a table, got {q_positions.dtype} and "
                f"{k_positions.dtype}: call the encoding itself"
            )
        last = [size - 1 for size in sizes]
        check_inside("offsets", offsets, [-far for far in last], last, 0, "name a larger grid")
        every = grid(*[2 * far + 1 for far in last], device=offsets.device)
        reach = torch.tensor(last, device=offsets.device)
        table = self._of(every - reach).reshape(*[2 * far + 1 for far in last], self.heads)
        return lookup(table, offsets + reach).movedim(-1, -3)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, window={self.window}, axes={self.axes}, hidden={self.hidden}, "
            f"convention={self.convention!r}, std={self.std}"
        )

    def _of(self, offsets: Tensor) -> Tensor:
        """What the network says of offsets ``(..., A)``: ``(..., H)``."""
        at = offsets if offsets.dtype == torch.float64 else offsets.float()
        widths = {parameter.dtype for parameter in self.mlp.parameters()}
        at = at.double() if torch.float64 in widths else at
        # In 16 bits neighbouring offsets share a number: weights are widened instead, under an
        # autocast too.
        kind = at.device.type if torch.amp.is_autocast_available(at.device.type) else "cpu"
        with torch.autocast(kind, enabled=False):
            wide = {name: value.to(at.dtype) for name, value in self.mlp.named_parameters()}
            hidden = functional.linear(self._places(at), wide["0.weight"], wide["0.bias"]).relu()
            logits = functional.linear(hidden, wide["2.weight"], wide.get("2.bias"))
        return logits if self.window is None else 16 * logits.sigmoid()

    def _places(self, offsets: Tensor) -> Tensor:
        far = offsets.abs()
        if self.window is None:
            return offsets.sign() * torch.log1p(far)
        # A window of one cell has no offset but zero: any divisor will do.
        cells = torch.tensor([max(size - 1, 1) for size in self.window], device=far.device)
        return offsets.sign() * torch.log2(1 + 8 * far / cells) / math.log2(8)
