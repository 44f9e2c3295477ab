"""Series to forecast: by name, or from any table."""

from timeseries.data.base import Forecasting
from timeseries.data.inspecting import Finding, inspect
from timeseries.data.reading import read_table
from timeseries.data.series import Reading, Series
from timeseries.data.sets import (
    ETT,
    Exchange,
    Illness,
    NordPool,
    Parking,
    SeattleTemps,
    VicElec,
)
from timeseries.data.splits import Borders, Scaler, Split
from timeseries.data.table import Table
from timeseries.data.windows import Batch, Windows

__all__ = [
    "ETT",
    "Batch",
    "Borders",
    "Exchange",
    "Finding",
    "Forecasting",
    "Illness",
    "NordPool",
    "Parking",
    "Reading",
    "Scaler",
    "SeattleTemps",
    "Series",
    "Split",
    "Table",
    "VicElec",
    "Windows",
    "inspect",
    "read_table",
]
