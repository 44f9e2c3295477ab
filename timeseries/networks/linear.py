"""One linear map from what was seen, and from encodings of each future row, to the forecasts."""

import torch
from torch import Tensor, nn

from posenc_mm import AdditiveEncoding
from posenc_mm.additive import Projected
from timeseries.networks.base import Network, Shape


class Linear(Network):
    r"""The honest default: linear in the lookback and in the encoding of the row to forecast.

    .. math:: \hat y_{t+h} = y_t + w_h^\top (y_{t-L+1..t} - y_t) + u_h^\top [e(t+h), k_{t+h}] + b_h

    The maps are the same for all columns. They are not trained step by step but solved for exactly,
    see :mod:`timeseries.ridge`. Of a :class:`~posenc_mm.additive.Projected` encoding, what it
    projects is taken: projecting it first would be a linear map twice.

    References:
        Zeng et al.: Are Transformers Effective for Time Series Forecasting? (2023),
        https://arxiv.org/abs/2205.13504

    Args:
        shape: what to fit.
        additive: encoding :math:`e` of moments, with nothing to learn but a projection.

    Raises:
        ValueError: the encoding has parameters that no closed form finds.
    """

    def __init__(self, shape: Shape, additive: AdditiveEncoding | None = None) -> None:
        super().__init__(shape)
        features = additive.features if isinstance(additive, Projected) else additive
        if features is not None and any(True for _ in features.parameters()):
            raise ValueError(
                f"additive of a linear network must have nothing to learn (or be a Projected of "
                f"such encodings), got {additive!r}: use network='patches'"
            )
        self.encode = features
        width = shape.known + (0 if features is None else features.dim)
        self.look = nn.Parameter(torch.zeros(shape.lookback + 1, shape.horizon))
        self.read = nn.Parameter(torch.zeros(shape.horizon, width))

    def regressors(self, past: Tensor, moments: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """List what the forecasts are linear in.

        Returns:
            ``(B, V, L + 1)`` of each column, the last a 1 for :math:`b`, and ``(B, H, E)`` of each
            future row.
        """
        seen = (past - past[:, -1:]).movedim(1, 2)
        ones = torch.ones_like(seen[..., :1])
        future = known[:, self.shape.lookback :]
        if self.encode is not None:
            encoded = self.encode(moments[:, self.shape.lookback :, None])
            future = torch.cat((encoded.to(past.dtype), future), dim=-1)
        return torch.cat((seen, ones), dim=-1), future

    def forward(self, past: Tensor, moments: Tensor, known: Tensor) -> Tensor:
        seen, future = self.regressors(past, moments, known)
        forecast = (seen @ self.look).movedim(1, 2) + past[:, -1:]
        forecast = forecast + (future * self.read).sum(-1, keepdim=True)
        return forecast.unsqueeze(-1).expand(-1, -1, -1, self.shape.outputs)
