"""A factor for each pair: given once, or one list for short and one for long sequences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posenc_mm.checks import check_number
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, check_extension, check_length, ladder


@dataclass(frozen=True)
class PerPair(Scaling):
    r"""Slows each pair by a factor of its own: :math:`f_i' = f_i / \lambda_i`.

    Linear scaling, NTK and YaRN are such lists; :func:`posenc_mm.scaling.search` finds better ones.

    References:
        Ding et al.: LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens (2024),
        https://arxiv.org/abs/2402.13753

    Args:
        factors: :math:`\lambda`, one for each pair.
        attention_factor: the amplitude.

    Raises:
        ValueError: there is no factor, or a number is not positive; at the call, ``rotary_dim`` is
            not twice the number of factors.

    Example:
        >>> PerPair([1.0, 4.0]).frequencies(4)
        (1.0, 0.0025)
    """

    factors: Sequence[float]
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", checked_factors("factors", self.factors))
        check_number(above=True, attention_factor=self.attention_factor)

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        if len(row) != len(self.factors):
            raise ValueError(
                f"rotary_dim must be {2 * len(self.factors)} for {len(self.factors)} factors, got "
                f"rotary_dim={rotary_dim}"
            )
        return tuple(f / factor for f, factor in zip(row, self.factors, strict=True))

    def amplitude(self, length: int | None = None) -> float:
        check_length(length)
        return float(self.attention_factor)


@dataclass(frozen=True)
class LongRoPE(Scaling):
    r"""Slows each pair by a factor that was searched for, with another list for long sequences.

    .. math:: f_i' = f_i / \lambda_i, \quad \lambda = \begin{cases}
        \text{short} & L \le L_0 \\ \text{long} & L > L_0 \end{cases}, \quad
        \text{amplitude } \sqrt{1 + \ln s / \ln L_0}

    Each call is decided by its own length, and without one it is short. The length is that of the
    whole sequence, not of its newest token. Where a sequence crosses :math:`L_0`, keys rotated
    before are wrong: decide once by the length that will be reached, or move them with
    :func:`posenc_mm.scaling.rerotate`.

    References:
        Ding et al.: LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens (2024),
        https://arxiv.org/abs/2402.13753; the amplitude: Abdin et al.: Phi-3 Technical Report
        (2024), https://arxiv.org/abs/2404.14219

    Args:
        short: :math:`\lambda`, one for each pair, up to the trained length.
        long: likewise, beyond it.
        original_length: :math:`L_0`, positions that the model was trained on, above 1.
        factor: :math:`s`, how many times longer sequences may be.
        attention_factor: the amplitude itself, in place of the computed one.
        short_mscale: the amplitude of short calls, before all others (Phi-3.5-MoE).
        long_mscale: likewise, of long calls.

    Raises:
        ValueError: ``factor`` is below 1, a number is not positive, the lists differ in length, or
            one ``mscale`` is given alone; at the call, ``rotary_dim`` is not twice their length.

    Example:
        >>> long = LongRoPE([1.0, 1.0], [1.0, 8.0], original_length=4096, factor=32.0)
        >>> long.frequencies(4, length=4096), long.frequencies(4, length=4097)
        ((1.0, 0.01), (1.0, 0.00125))
        >>> round(long.amplitude(), 4)
        1.1902
    """

    short: Sequence[float]
    long: Sequence[float]
    original_length: int
    factor: float
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None

    def __post_init__(self) -> None:
        for name in ("short", "long"):
            object.__setattr__(self, name, checked_factors(name, getattr(self, name)))
        if len(self.short) != len(self.long):
            raise ValueError(
                f"short and long must be of one length, got {len(self.short)} and {len(self.long)}"
            )
        check_extension(self.factor, self.original_length)
        check_number(1.0, above=True, original_length=self.original_length)
        for name in ("attention_factor", "short_mscale", "long_mscale"):
            if getattr(self, name) is not None:
                check_number(above=True, **{name: getattr(self, name)})
        if (self.short_mscale is None) != (self.long_mscale is None):
            raise ValueError(
                f"short_mscale and long_mscale must be given together, got {self.short_mscale} and "
                f"{self.long_mscale}"
            )

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        check_length(length)
        factors = self.long if self._is_long(length) else self.short
        return PerPair(factors).frequencies(rotary_dim, base)

    def amplitude(self, length: int | None = None) -> float:
        check_length(length)
        own = self.long_mscale if self._is_long(length) else self.short_mscale
        given = self.attention_factor if own is None else own
        if given is not None:
            return float(given)
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))

    @property
    def static(self) -> bool:
        return self.short == self.long and self.short_mscale == self.long_mscale

    def _is_long(self, length: int | None) -> bool:
        return length is not None and length > self.original_length


def checked_factors(name: str, factors: Sequence[float]) -> Row:
    """Make a row of one factor for each pair.

    Args:
        name: what the caller knows them by.
        factors: positive numbers.

    Returns:
        ``(F,)``

    Raises:
        ValueError: there is none, or one is not positive.
    """
    if not factors:
        raise ValueError(f"{name} must hold one factor for each pair, got none")
    for factor in factors:
        check_number(above=True, **{name: factor})
    return tuple(float(factor) for factor in factors)
