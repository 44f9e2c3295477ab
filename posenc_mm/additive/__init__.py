"""Encodings that are added to the tokens: one file per mechanism."""

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.additive.calendar import Calendar, OnCalendar
from posenc_mm.additive.combining import Concat, Product, Sum
from posenc_mm.additive.conditional import Conditional, ConditionalEncoding
from posenc_mm.additive.fourier import Fourier, LearnedFourier
from posenc_mm.additive.holidays import Holidays
from posenc_mm.additive.horizon import Horizon
from posenc_mm.additive.learned import Learned
from posenc_mm.additive.projecting import Projected
from posenc_mm.additive.seasonal import LearnedSeasonal, Seasonal
from posenc_mm.additive.sinusoidal import Sinusoidal
from posenc_mm.additive.time2vec import Time2Vec
from posenc_mm.additive.windowed import WindowedLearned

__all__ = [
    "AdditiveEncoding",
    "Calendar",
    "Concat",
    "Conditional",
    "ConditionalEncoding",
    "Fourier",
    "Holidays",
    "Horizon",
    "Learned",
    "LearnedFourier",
    "LearnedSeasonal",
    "OnCalendar",
    "Product",
    "Projected",
    "Seasonal",
    "Sinusoidal",
    "Sum",
    "Time2Vec",
    "WindowedLearned",
]
