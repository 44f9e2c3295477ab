"""Forecasting networks by name."""

from timeseries.networks.base import Network, Shape
from timeseries.networks.linear import Linear
from timeseries.networks.patches import Patches
from timeseries.networks.variates import Variates

NETWORKS: dict[str, type[Network]] = {
    "linear": Linear,
    "patches": Patches,
    "variates": Variates,
}

__all__ = ["NETWORKS", "Linear", "Network", "Patches", "Shape", "Variates"]
