"""Where a row is from the end of what is known: a ramp and a sign bit, added to the tokens."""

import torch
from torch import Tensor

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_whole
from posenc_mm.frequencies import check_positions


class Horizon(AdditiveEncoding):
    r"""Rows before and after the present: how far away, and on which side.

    .. math:: e(p) = [(p - C) / C, \; [p \ge C]]

    Rows are numbered within the window. The past runs from -1 up, the future from 0, on and on: the
    same for any horizon. Nothing is learned or stored.

    Traps: positions are rows counted from the window's first, not moments and not rows of the whole
    series, and ``context`` has to be where the known rows end.

    References:
        Ansari et al.: Chronos-2: From Univariate to Universal Forecasting (2025),
        https://arxiv.org/abs/2510.15821

    Args:
        context: :math:`C`, rows of the past.

    Shape:
        ``positions (..., N, 1) -> (..., N, 2)``, in float64 where the positions are, else float32

    Raises:
        ValueError: ``context`` is below 1; at the call, positions do not have one axis.

    Example:
        >>> from posenc_mm import sequence
        >>> Horizon(context=2)(sequence(4)).tolist()
        [[-1.0, 0.0], [-0.5, 0.0], [0.0, 1.0], [0.5, 1.0]]
    """

    def __init__(self, context: int) -> None:
        super().__init__()
        check_whole(context=context)
        self.context, self.dim = context, 2

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        real = torch.promote_types(positions.dtype, torch.float32)
        exact = positions.to(real) if positions.is_floating_point() else positions.long()
        since = exact - self.context
        return torch.cat((since.to(real) / self.context, (since >= 0).to(real)), dim=-1)

    def extra_repr(self) -> str:
        return f"context={self.context}"
