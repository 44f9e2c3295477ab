"""Intervals around forecasts, as wide as errors on held-out windows say."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Widths(NamedTuple):
    """Half the width of intervals.

    Attributes:
        half: ``(S, H, V)`` for each series, step and column.
        windows: the fewest windows that one follows from.
        pooled: whether some series borrowed those of all.
        short: whether they were too few for the level, so that the largest error was taken.
    """

    half: Tensor
    windows: int
    pooled: bool
    short: bool


def calibrate(residuals: Tensor, owners: Tensor, series: int, level: float) -> Widths:
    r"""Make intervals that hold the share of held-out values that they should, step by step.

    Of :math:`n` absolute errors the :math:`\lceil (n + 1) \alpha \rceil`-th smallest is half the
    width: if errors to come are like these, intervals hold a share of :math:`\alpha` or more.
    Windows overlap, so that there is less in them than in as many separate ones.

    References:
        Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World (2005),
        https://doi.org/10.1007/b106715;
        Stankeviciute, Alaa, van der Schaar: Conformal Time-Series Forecasting (2021),
        https://proceedings.neurips.cc/paper/2021/hash/312f1ba2a72318edaaa995a67835fad5-Abstract.html

    Args:
        residuals: ``(N, H, V)`` on held-out windows, NaN where there is none.
        owners: ``(N,)`` the series that each window is of.
        series: how many there are.
        level: the share :math:`\alpha` that intervals should hold.

    Returns:
        Widths in the unit of the residuals.
    """
    wanted = math.ceil(level / (1 - level))
    size = residuals.abs().double()
    together = _ranked(size, level)
    half, fewest, pooled, short = [], [], False, False
    for row in range(series):
        own, count, few = _ranked(size[owners == row], level)
        if count < wanted:
            pooled = pooled or series > 1
            own, count, few = together
        half.append(own)
        fewest.append(count)
        short = short or few
    return Widths(torch.stack(half), min(fewest), pooled, short)


def _ranked(size: Tensor, level: float) -> tuple[Tensor, int, bool]:
    """The error at the rank of the level ``(H, V)``, how many there are, and if too few."""
    count = (~size.isnan()).sum(0)
    if not len(size):
        return size.new_zeros(size.shape[1:]), 0, True
    rank = ((count + 1).double() * level - 1e-9).ceil().long()
    rising = size.nan_to_num(nan=math.inf).sort(0).values
    at = (torch.minimum(rank, count) - 1).clamp(min=0)
    chosen = rising.gather(0, at.unsqueeze(0)).squeeze(0)
    return chosen, int(count.min()), bool((rank > count).any())


def coverage(residuals: Tensor, owners: Tensor, widths: Widths) -> Tensor:
    """Share of values within the intervals at each step ``(H,)``."""
    inside = (residuals.abs() <= widths.half[owners]).double()
    inside[residuals.isnan()] = torch.nan
    return inside.nanmean((0, 2))
