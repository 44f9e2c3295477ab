"""YaRN: a ramp between trained and interpolated speeds, and a temperature."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from posenc_mm.checks import check_number
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, check_extension, check_length, ladder
from posenc_mm.scaling.parts import Clamp, blend, check_turns, turning_ramp

Blend = Literal["linear", "log"]
Rule = Literal["hf", "vllm"]


@dataclass(frozen=True)
class YaRN(Scaling):
    r"""Keeps pairs that turn often within the trained length, interpolates those that do not turn.

    .. math:: f_i' = (1 - r_i) f_i + r_i \frac{f_i}{s}, \quad
        r_i = \min\left(1, \max\left(0, \frac{i - l}{h - l}\right)\right), \quad
        l, h = \frac{d}{2 \ln b} \ln \frac{L_0}{2 \pi \beta}

    Longer sequences spread attention over more keys. The amplitude makes up for it:

    .. math:: g(m) = 0.1 \, m \ln s + 1 \quad (1 \text{ if } s \le 1)

    It is :math:`g(1)` on cosines and sines, hence its square on the logits; or, with DeepSeek's two
    numbers, :math:`g(m) / g(m_{all})`, and :math:`g(m_{all})^2` on the scale of the logits.

    References:
        Peng et al.: YaRN: Efficient Context Window Extension of Large Language Models (2023),
        https://arxiv.org/abs/2309.00071; two numbers: DeepSeek-AI: DeepSeek-V2: A Strong,
        Economical, and Efficient Mixture-of-Experts Language Model (2024),
        https://arxiv.org/abs/2405.04434

    Args:
        factor: :math:`s`, how many times longer sequences are. No other lengths override it.
        original_length: :math:`L_0`, positions that the model was trained on.
        beta_fast: :math:`\beta` of :math:`l`, turns from which on a pair stays as trained.
        beta_slow: :math:`\beta` of :math:`h`, turns below which a pair is interpolated.
        truncate: whether :math:`l` and :math:`h` are rounded outwards to whole pairs; gpt-oss does
            not, which moves middle pairs by up to 76 %.
        attention_factor: the amplitude itself, in place of the computed one.
        mscale: :math:`m`.
        mscale_all_dim: :math:`m_{all}`.
        mscale_rule: where only one of the two is given and not 0, ``"hf"`` takes :math:`g(1)` and
            ``"vllm"`` the quotient, with 1 and 0 for what is missing.
        scale_softmax: whether attention applies :math:`g(m_{all})^2`, as DeepSeek's does.
        clamp: the largest :math:`h`: channels less one (the authors) or pairs less one (KerasHub).
        blend: of speeds, ``"linear"`` (the authors), or of their logarithms, ``"log"`` (Grok), as
            :math:`f_i s^{-r_i}`.

    Raises:
        ValueError: ``factor`` is below 1, a number is not what it must be, ``beta_fast`` is below
            ``beta_slow``, a name is unknown, or ``base`` is not above 1.

    Example:
        >>> yarn = YaRN(4.0, original_length=32768)
        >>> row = yarn.frequencies(128, 1e6)
        >>> row[1] == 1e6 ** (-2 / 128), row[63] == 1e6 ** (-126 / 128) / 4
        (True, True)
        >>> round(yarn.amplitude(), 7)
        1.1386294
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    mscale_rule: Rule = "hf"
    scale_softmax: bool = True
    clamp: Clamp = "channels"
    blend: Blend = "linear"

    def __post_init__(self) -> None:
        check_extension(self.factor, self.original_length)
        check_turns("beta_fast and beta_slow", self.beta_fast, self.beta_slow)
        for name in ("attention_factor", "mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                check_number(above=name == "attention_factor", **{name: getattr(self, name)})
        for name in ("truncate", "scale_softmax"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"{name} must be True or False, got {name}={getattr(self, name)!r}"
                )
        for name, kind in (("mscale_rule", Rule), ("clamp", Clamp), ("blend", Blend)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(
                    f"{name} must be one of {get_args(kind)}, got {name}={getattr(self, name)!r}"
                )

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        row = ladder(rotary_dim, base, length)
        ramp = turning_ramp(
            rotary_dim,
            base,
            self.original_length,
            self.beta_fast,
            self.beta_slow,
            truncate=self.truncate,
            clamp=self.clamp,
        )
        if self.blend == "log":
            return tuple(f / self.factor**share for f, share in zip(row, ramp, strict=True))
        return blend(row, tuple(f / self.factor for f in row), ramp)

    def amplitude(self, length: int | None = None) -> float:
        check_length(length)
        if self.attention_factor is not None:
            return float(self.attention_factor)
        both = bool(self.mscale) and bool(self.mscale_all_dim)
        if not both and self.mscale_rule == "hf":
            return temperature(self.factor)
        above = 1.0 if self.mscale is None else self.mscale
        return temperature(self.factor, above) / temperature(
            self.factor, self.mscale_all_dim or 0.0
        )

    @property
    def softmax_factor(self) -> float:
        if not self.scale_softmax:
            return 1.0
        return temperature(self.factor, self.mscale_all_dim or 0.0) ** 2


@dataclass(frozen=True)
class DynamicYaRN(Scaling):
    r"""YaRN with the factor that the sequence at hand needs: :math:`s = \max(s_0, L / L_0)`.

    Short sequences run as trained, so that no fine-tuning is needed. Speeds and amplitude move with
    every token beyond that: see :class:`DynamicNTK` about cached keys.

    References:
        Peng et al.: YaRN: Efficient Context Window Extension of Large Language Models (2023),
        section 3.3, https://arxiv.org/abs/2309.00071

    Args:
        original_length: :math:`L_0`, positions that the model was trained on.
        factor: :math:`s_0`, the least; above 1 for a model that was fine-tuned with it.
        beta_fast: as in :class:`YaRN`.
        beta_slow: likewise.
        truncate: likewise.

    Raises:
        ValueError: as :class:`YaRN`.

    Example:
        >>> dynamic = DynamicYaRN(2048)
        >>> dynamic.amplitude(length=2048), round(dynamic.amplitude(length=8192), 7)
        (1.0, 1.1386294)
    """

    original_length: int
    factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        self._at(None)

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        return self._at(length).frequencies(rotary_dim, base)

    def amplitude(self, length: int | None = None) -> float:
        return self._at(length).amplitude()

    @property
    def static(self) -> bool:
        return False

    def _at(self, length: int | None) -> YaRN:
        check_extension(self.factor, self.original_length)
        check_length(length)
        factor = max(self.factor, (length or 1) / self.original_length)
        return YaRN(
            factor, self.original_length, self.beta_fast, self.beta_slow, truncate=self.truncate
        )


def temperature(factor: float, weight: float = 1.0) -> float:
    r"""Make up for attention over more keys: :math:`g(m) = 0.1 \, m \ln s + 1`.

    Args:
        factor: :math:`s`.
        weight: :math:`m`.

    Returns:
        1 where the factor is at most 1.
    """
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
