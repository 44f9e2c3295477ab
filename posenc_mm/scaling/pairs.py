"""Which pairs turn at all, and at whole wavelengths: edits of single pairs."""

import math
from dataclasses import dataclass, field

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, Unscaled, ladder


@dataclass(frozen=True)
class Proportional(Scaling):
    r"""Turns the fast share of a whole head's ladder, and lets the slow rest stand: p-RoPE.

    .. math:: f_i' = \begin{cases} b^{-2i/d} / s & i < \lfloor \rho d / 2 \rfloor \\
        0 & \text{otherwise} \end{cases}

    Pairs that stand carry meaning at any distance. Unlike a smaller ``rotary_dim``, exponents run
    over all :math:`d` channels, and a pair's channels lie as far apart as in a whole head.

    References:
        Barbero et al.: Round and Round We Go! What makes Rotary Positional Encodings useful?
        (2024), https://arxiv.org/abs/2410.06205; Gemma 4 uses a share of 0.25

    Args:
        share: :math:`\rho`, from 0 to 1, of the pairs that turn.
        factor: :math:`s`, as in :class:`Linear`.

    Raises:
        ValueError: ``share`` is not from 0 to 1, or ``factor`` not positive.

    Example:
        >>> [round(f, 3) for f in Proportional(0.5).frequencies(8)]
        [1.0, 0.1, 0.0, 0.0]
    """

    share: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        check_number(share=self.share)
        check_number(above=True, factor=self.factor)
        if self.share > 1:
            raise ValueError(f"share must be from 0 to 1, got share={self.share}")

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        turning = int(self.share * rotary_dim // 2)
        return tuple(f / self.factor if i < turning else 0.0 for i, f in enumerate(row))


@dataclass(frozen=True)
class Resonance(Scaling):
    r"""Rounds every wavelength to a whole number of positions, after another scaling.

    .. math:: f_i' = \frac{2 \pi}{\operatorname{round}(2 \pi / f_i)}

    A pair whose wavelength fits into training then meets, at any length, only angles that it was
    trained on. Waves shorter than half a position become one position long, pairs that stand stay.

    References:
        Wang et al.: Resonance RoPE: Improving Context Length Generalization of Large Language
        Models (2024), https://arxiv.org/abs/2403.00071

    Args:
        inner: the scaling whose wavelengths are rounded.

    Raises:
        ValueError: ``inner`` is no scaling.

    Example:
        >>> import math
        >>> [round(2 * math.pi / f, 9) for f in Resonance().frequencies(4)]
        [6.0, 628.0]
    """

    inner: Scaling = field(default_factory=Unscaled)

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Scaling):
            raise ValueError(f"inner must be a scaling, got inner={self.inner!r}")

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = self.inner.frequencies(rotary_dim, base, length=length)
        return tuple(2 * math.pi / max(round(2 * math.pi / f), 1) if f else 0.0 for f in row)

    def amplitude(self, length: int | None = None) -> float:
        return self.inner.amplitude(length)

    @property
    def softmax_factor(self) -> float:
        return self.inner.softmax_factor

    @property
    def static(self) -> bool:
        return self.inner.static


@dataclass(frozen=True)
class RIFLEx(Scaling):
    r"""Slows one pair, whose period makes a long video repeat, to less than one period.

    .. math:: f_k' = \min\left(f_k, \; \mu \frac{2 \pi}{L}\right)

    For the axis of time alone: :class:`PerAxis`. Short videos stay as they are.

    References:
        Zhao et al.: RIFLEx: A Free Lunch for Length Extrapolation in Video Diffusion Transformers
        (2025), https://arxiv.org/abs/2502.15894

    Args:
        pair: :math:`k`, counted from 0 (from 1 in the paper), as :func:`intrinsic_pair` finds it; 3
            for HunyuanVideo, 1 for CogVideoX-5B.
        margin: :math:`\mu`, the share of a period that the video may fill: 0.9 in the authors'
            code, 1 in the paper.

    Raises:
        ValueError: ``pair`` is negative or ``margin`` not positive; at the call, there is no such
            pair.

    Example:
        >>> row = RIFLEx(pair=1).frequencies(4, 256.0, length=200)
        >>> row[0], round(row[1] * 200 / 6.283185, 6)
        (1.0, 0.9)
    """

    pair: int
    margin: float = 0.9

    def __post_init__(self) -> None:
        check_whole(0, pair=self.pair)
        check_number(above=True, margin=self.margin)

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        if self.pair >= len(row):
            raise ValueError(
                f"pair must be one of the {len(row)} that rotary_dim={rotary_dim} has, counted "
                f"from 0, got pair={self.pair}"
            )
        if length is None:
            return row
        slowed = min(row[self.pair], self.margin * 2 * math.pi / length)
        return (*row[: self.pair], slowed, *row[self.pair + 1 :])

    @property
    def static(self) -> bool:
        return False


def intrinsic_pair(rotary_dim: int, base: float, repeats: float) -> int:
    r"""Find the pair whose period is nearest to the distance at which a video repeats.

    Args:
        rotary_dim: channels :math:`d` that the axis of time has.
        base: :math:`b`.
        repeats: :math:`N`, the first position at which a long video was seen to repeat.

    Returns:
        :math:`k`, counted from 0, for :class:`RIFLEx`.

    Raises:
        ValueError: ``rotary_dim`` is odd or not positive, or ``repeats`` is not positive.

    Example:
        >>> intrinsic_pair(16, 256.0, repeats=50)
        3
    """
    check_number(above=True, repeats=repeats)
    periods = [round(2 * math.pi / f) for f in ladder(rotary_dim, base)]
    return min(range(len(periods)), key=lambda k: abs(periods[k] - repeats))
