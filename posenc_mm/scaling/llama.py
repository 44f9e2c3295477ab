"""The scaling of Llama 3.1: three bands of wavelengths."""

import math
from dataclasses import dataclass

from posenc_mm.checks import check_number
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, check_extension, ladder
from posenc_mm.scaling.parts import blend


@dataclass(frozen=True)
class Llama3(Scaling):
    r"""Keeps short waves, divides long ones by the factor, and blends between.

    .. math:: f_i' = (1 - t_i) \frac{f_i}{s} + t_i f_i, \quad t_i = \min\left(1, \max\left(0,
        \frac{L_0 / \lambda_i - \alpha}{\beta - \alpha}\right)\right), \quad
        \lambda_i = 2 \pi / f_i

    Where :math:`\alpha = \beta` (Llama 4) nothing is blended: waves shorter than
    :math:`L_0 / \beta` stay, the others are divided.

    References:
        Llama Team: The Llama 3 Herd of Models (2024), https://arxiv.org/abs/2407.21783; the bands
        are those of Meta's published code

    Args:
        factor: :math:`s`; 8 in Llama 3.1, 32 in small Llama 3.2, 16 in Llama 4.
        original_length: :math:`L_0`, positions that the model was trained on; 8192 in all of them.
        low_freq_factor: :math:`\alpha`, turns within :math:`L_0` up to which a pair is divided.
        high_freq_factor: :math:`\beta`, turns from which on a pair stays.

    Raises:
        ValueError: ``factor`` is below 1, ``original_length`` no whole number, a band's end is not
            positive, or ``low_freq_factor`` above ``high_freq_factor``.

    Example:
        >>> row = Llama3(8.0).frequencies(128, 500_000.0)
        >>> row[0], row[63] == 500_000.0 ** (-126 / 128) / 8
        (1.0, True)
    """

    factor: float
    original_length: int = 8192
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        check_extension(self.factor, self.original_length)
        check_number(above=True, low_freq_factor=self.low_freq_factor)
        check_number(above=True, high_freq_factor=self.high_freq_factor)
        if self.low_freq_factor > self.high_freq_factor:
            raise ValueError(
                f"low_freq_factor must be at most high_freq_factor, got "
                f"low_freq_factor={self.low_freq_factor} and "
                f"high_freq_factor={self.high_freq_factor}"
            )

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        low, high = self.low_freq_factor, self.high_freq_factor
        turns = [self.original_length * f / (2 * math.pi) for f in row]
        if low == high:
            divided = tuple(float(each <= high) for each in turns)
        else:
            divided = tuple(min(max((high - each) / (high - low), 0.0), 1.0) for each in turns)
        return blend(row, tuple(f / self.factor for f in row), divided)
