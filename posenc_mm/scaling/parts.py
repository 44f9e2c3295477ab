"""NTK by parts: a ramp over the pairs, by how often each turns within the trained length."""

import math
from dataclasses import dataclass
from typing import Literal

from posenc_mm.checks import check_number
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, check_extension, ladder
from posenc_mm.scaling.interpolation import on_larger_base

Clamp = Literal["channels", "pairs"]


@dataclass(frozen=True)
class NTKByParts(Scaling):
    r"""Keeps fast pairs, changes the base for middle ones, interpolates slow ones.

    .. math:: g_i = \beta_i \frac{f_i}{s} + (1 - \beta_i) \, f_i \, s^{-i/(F-1)}, \quad
        f_i' = \gamma_i \, g_i + (1 - \gamma_i) f_i

    :math:`\beta_i` and :math:`\gamma_i` rise from 0 to 1 between the pairs that turn that often
    within the trained length, rounded outwards to whole pairs. The step between NTK and YaRN, with
    the constants that its authors found for LLaMA.

    References:
        Peng et al.: YaRN: Efficient Context Window Extension of Large Language Models (2023),
        section 3.2, https://arxiv.org/abs/2309.00071; the constants are those of its repository

    Args:
        factor: :math:`s`.
        original_length: :math:`L_0`, positions that the model was trained on.
        beta: turns where the larger base begins to give way to interpolation, and where it has.
        gamma: turns where the trained speed begins to give way, and where it has.

    Raises:
        ValueError: ``factor`` is below 1, ``original_length`` no whole number, a pair of turns
            does not fall or is not positive, or ``base`` is not above 1.

    Example:
        >>> from posenc_mm.scaling import Unscaled
        >>> row = NTKByParts(4.0, original_length=2048).frequencies(128)
        >>> row[0], row[63] / Unscaled().frequencies(128)[63]
        (1.0, 0.25)
    """

    factor: float
    original_length: int
    beta: tuple[float, float] = (1.25, 0.75)
    gamma: tuple[float, float] = (16.0, 2.0)

    def __post_init__(self) -> None:
        check_extension(self.factor, self.original_length)
        for name in ("beta", "gamma"):
            check_turns(name, *getattr(self, name))
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        slow = tuple(f / self.factor for f in row)
        middle = on_larger_base(row, self.factor)
        size = self.original_length
        middle = blend(middle, slow, turning_ramp(rotary_dim, base, size, *self.beta))
        return blend(row, middle, turning_ramp(rotary_dim, base, size, *self.gamma))


def turning_ramp(
    rotary_dim: int,
    base: float,
    original_length: int,
    fast: float,
    slow: float,
    *,
    truncate: bool = True,
    clamp: Clamp = "channels",
) -> Row:
    r"""Rise from 0 to 1 between the pairs that turn ``fast`` and ``slow`` times in a length.

    .. math:: r_i = \min\left(1, \max\left(0, \frac{i - l}{h - l}\right)\right), \quad
        i(R) = \frac{d \ln(L_0 / 2 \pi R)}{2 \ln b}

    Args:
        rotary_dim: :math:`d`.
        base: :math:`b`, above 1.
        original_length: :math:`L_0`.
        fast: turns at which the ramp begins, :math:`l = i(R)`.
        slow: turns at which it ends, :math:`h = i(R)`.
        truncate: whether :math:`l` is rounded down and :math:`h` up, to whole pairs.
        clamp: the largest :math:`h`: one less than the ``"channels"``, or than the ``"pairs"``.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``base`` is not above 1.
    """
    check_number(1.0, above=True, base=base)
    low, high = (
        rotary_dim * math.log(original_length / (2 * math.pi * turns)) / (2 * math.log(base))
        for turns in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low = max(low, 0)
    high = min(high, (rotary_dim if clamp == "channels" else rotary_dim // 2) - 1)
    # A trained length beyond the last pair (or below the first) leaves no ramp but a step; the
    # quotient would turn round there, and interpolate just what is to be kept.
    high = high if high > low else low + 0.001
    return tuple(min(max((i - low) / (high - low), 0.0), 1.0) for i in range(rotary_dim // 2))


def blend(first: Row, second: Row, shares: Row) -> Row:
    """Mix two rows, exactly where one of them has no share or both are equal.

    Args:
        first: ``(F,)``
        second: ``(F,)``
        shares: ``(F,)``, of the second.

    Returns:
        ``(F,)``
    """
    return tuple(
        b if share == 1 else a + (b - a) * share
        for a, b, share in zip(first, second, shares, strict=True)
    )


def check_turns(name: str, fast: float, slow: float) -> None:
    """Refuse the two ends of a ramp unless they fall.

    Args:
        name: what the caller knows them by.
        fast: turns where the ramp begins.
        slow: turns where it ends.

    Raises:
        ValueError: one is not positive, or they do not fall.
    """
    check_number(above=True, **{name: fast})
    check_number(above=True, **{name: slow})
    if fast < slow:
        raise ValueError(
            f"{name} must fall, from turns of fast pairs to turns of slow ones, got {fast} and "
            f"{slow}"
        )
