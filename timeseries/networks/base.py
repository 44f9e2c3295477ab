"""What all forecasting networks share: a window in, forecasts of its horizon out."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc_mm.diagnostics import Subject


class Shape(NamedTuple):
    """What a network has to fit.

    Attributes:
        lookback: rows seen, L.
        horizon: rows to forecast, H.
        variates: columns to forecast, V.
        known: covariates known in advance, F.
        outputs: numbers per forecast: 1, or as many as there are quantiles, Q.
    """

    lookback: int
    horizon: int
    variates: int = 1
    known: int = 0
    outputs: int = 1


class Network(nn.Module, ABC):
    """Forecasts a window.

    Attributes:
        shape: what it fits.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @abstractmethod
    def forward(self, past: Tensor, moments: Tensor, known: Tensor) -> Tensor:
        """Forecast.

        Args:
            past: ``(B, L, V)`` what was seen.
            moments: ``(B, L + H)`` of past and future rows, in seconds since 1970-01-01T00:00 UTC,
                float64.
            known: ``(B, L + H, F)`` covariates known in advance.

        Returns:
            ``(B, H, V, Q)``
        """

    def places(self, moments: Tensor, columns: int) -> tuple[Tensor | None, str]:
        """Where its tokens stand, None if none attend, and the unit of that.

        Args:
            moments: ``(B, L + H)``
            columns: of the series.

        Returns:
            ``(N, A)``, or ``(B, N, A)`` as many as attend, and the unit.
        """
        return None, "tokens"

    def subject(self, past: Tensor, moments: Tensor, known: Tensor) -> Subject:
        """What diagnostics look at; offsets are rows by which all stamps move."""
        positions, unit = self.places(moments, past.shape[-1])
        step = moments.diff(dim=1).median()  # seconds from a row to the next, as most are

        def shifted(offset: float) -> Tensor:
            return self(past, moments + offset * step, known)

        return Subject(
            self, (past, moments, known), positions=positions, unit=unit, shifted=shifted,
            offset_unit="rows",
        )  # fmt: skip


class Level(NamedTuple):
    """Where a window lies and how much it varies: reversible instance normalisation.

    References:
        Kim et al.: Reversible Instance Normalization for Accurate Time-Series Forecasting against
        Distribution Shift (2022), https://openreview.net/forum?id=cGDAkQo1C0p

    Attributes:
        centre: ``(B, 1, V)``
        scale: ``(B, 1, V)``, never below a tenth of the training rows' deviation.
    """

    centre: Tensor
    scale: Tensor

    @staticmethod
    def of(past: Tensor) -> "Level":
        """Measure windows ``(B, L, V)``."""
        centre = past.mean(1, keepdim=True)
        variance = (past - centre).square().mean(1, keepdim=True)
        return Level(centre, (variance + 0.01).sqrt())

    def normalise(self, values: Tensor) -> Tensor:
        """Bring values ``(B, N, V)`` to the window's own level."""
        return (values - self.centre) / self.scale

    def restore(self, values: Tensor) -> Tensor:
        """Undo :meth:`normalise` on forecasts ``(B, H, V, Q)``."""
        return values * self.scale.unsqueeze(-1) + self.centre.unsqueeze(-1)


def at_moments(moments: Tensor) -> Tensor:
    """Positions ``(B, N, 2)`` of rows: the moment, and the row counted from the window's first."""
    rows = torch.arange(moments.shape[1], device=moments.device, dtype=moments.dtype)
    return torch.stack((moments, rows.expand_as(moments)), dim=-1)
