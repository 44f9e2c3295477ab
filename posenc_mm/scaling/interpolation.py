"""Slower by a factor, or on a larger base: the methods without a ramp."""

from dataclasses import dataclass
from typing import Literal, get_args

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, check_extension, ladder

Convention = Literal["base", "vllm"]


@dataclass(frozen=True)
class Linear(Scaling):
    r"""Slows every pair by one factor: positional interpolation.

    .. math:: f_i' = f_i / s

    Position :math:`s p` turns as position :math:`p` did, so no angle is larger than those of
    training; neighbours are :math:`s` times closer, which wants some fine-tuning.

    References:
        Chen et al.: Extending Context Window of Large Language Models via Positional
        Interpolation (2023), https://arxiv.org/abs/2306.15595

    Args:
        factor: :math:`s`, how many times longer sequences are; below 1 for positions that are
            closer than in training, as on a smaller grid.

    Raises:
        ValueError: ``factor`` is not positive.

    Example:
        >>> Linear(4.0).frequencies(4)
        (0.25, 0.0025)
    """

    factor: float

    def __post_init__(self) -> None:
        check_number(above=True, factor=self.factor)

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        return tuple(f / self.factor for f in ladder(rotary_dim, base, length))


@dataclass(frozen=True)
class NTK(Scaling):
    r"""Slows the slowest pair by the factor, and the others less, the fastest not at all.

    .. math:: f_i' = (b \, s^{d/(d-2)})^{-2i/d} = f_i \, s^{-i/(F-1)}

    Fast pairs, which tell neighbours apart, stay as trained; the slowest is interpolated in full.
    vLLM's variant of the name spreads the factor from the first pair on, so that no pair stays:

    .. math:: f_i' = f_i \, s^{-((i+1)/F)^\beta}

    References:
        bloc97: NTK-Aware Scaled RoPE (2023), derived in section 3.1 of Peng et al.: YaRN: Efficient
        Context Window Extension of Large Language Models (2023), https://arxiv.org/abs/2309.00071;
        the variant: Su: Transformer Upgrade Path 11 (2023), https://kexue.fm/archives/9706

    Args:
        factor: :math:`s`.
        convention: ``"base"`` (the base changes: bloc97, the YaRN repository, Hunyuan's alpha) or
            ``"vllm"`` (the type called ntk there).
        power: :math:`\beta` of the variant; 1 spreads the factor evenly, 0.625 is its author's.

    Raises:
        ValueError: ``factor`` is below 1, ``convention`` unknown, ``power`` not positive, or given
            with ``"base"``.

    Example:
        >>> NTK(4.0).frequencies(4)
        (1.0, 0.0025)
    """

    factor: float
    convention: Convention = "base"
    power: float = 1.0

    def __post_init__(self) -> None:
        check_number(1.0, factor=self.factor)
        check_number(above=True, power=self.power)
        if self.convention not in get_args(Convention):
            raise ValueError(
                f"convention must be one of {get_args(Convention)}, got {self.convention!r}"
            )
        if self.convention == "base" and self.power != 1.0:
            raise ValueError(
                f"power belongs to convention='vllm', got power={self.power} with convention='base'"
            )

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        if self.convention == "base":
            return on_larger_base(row, self.factor)
        shares = [((i + 1) / len(row)) ** self.power for i in range(len(row))]
        return tuple(f / self.factor**share for f, share in zip(row, shares, strict=True))


@dataclass(frozen=True)
class DynamicNTK(Scaling):
    r"""Changes the base as far as the sequence at hand needs it.

    .. math:: b' = b \left( s \frac{L}{L_0} - (s - 1) \right)^{d/(d-2)}, \quad L \ge L_0

    Up to the trained length nothing changes. Beyond it the slow pairs move with every token: keys
    that were rotated at another length are wrong, so cache them unrotated, move them with
    :func:`posenc_mm.scaling.rerotate`, or fix the length.

    References:
        emozilla: Dynamically Scaled RoPE (2023), in section 3.3 of Peng et al.: YaRN: Efficient
        Context Window Extension of Large Language Models (2023), https://arxiv.org/abs/2309.00071

    Args:
        factor: :math:`s`, how much the base grows with each length; 2 is common.
        original_length: :math:`L_0`, positions that the model was trained on.
        fixed_length: :math:`L` for every call, whatever its own length; vLLM fixes
            :math:`s L_0`.

    Raises:
        ValueError: ``factor`` is below 1, or a length is no whole number of at least 1.

    Example:
        >>> dynamic = DynamicNTK(2.0, original_length=32)
        >>> [round(dynamic.frequencies(64, length=length)[1], 6) for length in (100, 32)]
        [0.710835, 0.749894]
    """

    factor: float
    original_length: int
    fixed_length: int | None = None

    def __post_init__(self) -> None:
        check_extension(self.factor, self.original_length)
        if self.fixed_length is not None:
            check_whole(fixed_length=self.fixed_length)

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        reached = self.fixed_length or length or self.original_length
        if reached <= self.original_length:
            return row
        excess = reached / self.original_length
        return on_larger_base(row, self.factor * excess - (self.factor - 1))

    @property
    def static(self) -> bool:
        return self.fixed_length is not None


def on_larger_base(row: Row, factor: float) -> Row:
    """Slow the last pair by the factor, the first not at all, geometrically between.

    It is the ladder of a larger base, written so that both ends are exact.

    Args:
        row: ``(F,)``
        factor: of the last pair.

    Returns:
        ``(F,)``
    """
    last = max(len(row) - 1, 1)
    return tuple(f / factor ** (i / last) for i, f in enumerate(row))
