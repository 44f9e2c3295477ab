"""What a configuration says about a rotary encoding, in numbers of ours."""

from dataclasses import dataclass
from typing import Any

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Row
from posenc_mm.scaling.base import Scaling, Unscaled


@dataclass(frozen=True)
class RotarySettings:
    """A ladder, the channels that turn, and the scaling of a trained model.

    References:
        the dictionaries: Wolf et al.: Transformers: State-of-the-Art Natural Language Processing
        (2020), https://arxiv.org/abs/1910.03771

    Args:
        head_dim: channels :math:`D` of a head (of its rotary part, where that is a tensor of its
            own, as in DeepSeek).
        rotary_dim: channels that turn, the first of a head.
        base: :math:`b`.
        scaling: how their speeds are changed.
        others: what the dictionary holds beside that and is left to the host, such as
            ``mrope_section`` (which axis a pair belongs to) and ``llama_4_scaling_beta`` (a
            temperature of queries).

    Raises:
        ValueError: a width is no whole number, or ``rotary_dim`` is odd or does not fit.

    Example:
        >>> from posenc_mm.scaling import Linear
        >>> RotarySettings(64, 4, 10_000.0, Linear(4.0)).frequencies()
        (0.25, 0.0025)
    """

    head_dim: int
    rotary_dim: int
    base: float = 10_000.0
    scaling: Scaling = Unscaled()
    others: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_whole(2, head_dim=self.head_dim, rotary_dim=self.rotary_dim)
        check_number(above=True, base=self.base)
        if self.rotary_dim % 2 or self.rotary_dim > self.head_dim:
            raise ValueError(
                f"rotary_dim must be even and fit head_dim, got rotary_dim={self.rotary_dim} and "
                f"head_dim={self.head_dim}"
            )

    def frequencies(self, *, length: int | None = None) -> Row:
        """Give the speed of each pair.

        Args:
            length: positions in the whole sequence, for scalings that depend on it.

        Returns:
            ``(F,)``, for ``Rotary(head_dim, frequencies=[...])``

        Raises:
            ValueError: as the scaling's.
        """
        return self.scaling.frequencies(self.rotary_dim, self.base, length=length)

    def amplitude(self, length: int | None = None) -> float:
        """Give the factor on cosines and sines.

        Args:
            length: as in :meth:`frequencies`.

        Returns:
            1.0 unless the scaling has a temperature.

        Raises:
            ValueError: as the scaling's.
        """
        return self.scaling.amplitude(length)
