"""What forecasts are measured by, over every value of every window and process."""

import torch
from torch import Tensor
from torchmetrics import Metric


class Mean(Metric):
    """Mean of values, in float64: exact to all digits shown, of however many values.

    Nothing is left out: one value that is no number, and the mean is none.
    """

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "count"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, values: Tensor, chosen: Tensor | None = None) -> None:
        """Add values ``(B, ...)``, of chosen windows ``(B,)`` where these are given."""
        if chosen is not None:
            values = values[chosen]
        self.total += values.double().sum()
        self.count += values.numel()

    def compute(self) -> Tensor:
        return self.total / self.count


def pinball(forecast: Tensor, future: Tensor, quantiles: list[float]) -> Tensor:
    r"""Quantile loss :math:`\max(\alpha (y - q), (\alpha - 1)(y - q))`.

    References:
        Koenker, Bassett: Regression Quantiles (1978), https://doi.org/10.2307/1913643

    Args:
        forecast: ``(B, H, V, Q)``
        future: ``(B, H, V)``
        quantiles: levels, Q of them.

    Returns:
        ``(B, H, V, Q)``
    """
    levels = torch.tensor(quantiles, device=forecast.device, dtype=forecast.dtype)
    over = future.unsqueeze(-1) - forecast
    return torch.maximum(levels * over, (levels - 1) * over)
