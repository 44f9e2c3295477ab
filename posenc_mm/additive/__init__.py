"""Added to the tokens: one file per mechanism."""

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.additive.fourier import Fourier, LearnedFourier
from posenc_mm.additive.learned import Learned
from posenc_mm.additive.sinusoidal import Sinusoidal

__all__ = ["AdditiveEncoding", "Fourier", "Learned", "LearnedFourier", "Sinusoidal"]
